//! When an event happened: read in a few nanoseconds on the application's thread, turned into host time where the
//! rings are drained.
//!
//! On x86-64 the kernel's own clock is usually the processor's time stamp counter, scaled; most of what asking for
//! the time costs is that scaling. So threads log the bare counter, and the worker scales it between two moments at
//! which it read both. Where the kernel does not keep time by the counter (it has found it unsteady, or another
//! architecture), threads log the host clock itself.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::units::Nanos;

/// Whether stamps are counter values. Set before a session begins; a session's stamps are all of one kind.
static COUNTS: AtomicBool = AtomicBool::new(false);

/// A moment of an application's thread: a value of the processor's counter, or nanoseconds of the host clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp(pub(super) u64);

impl Stamp {
    /// The present moment.
    #[inline]
    pub fn now() -> Self {
        if COUNTS.load(Ordering::Relaxed) { Self(count()) } else { Self::of(Nanos::now()) }
    }

    fn of(time: Nanos) -> Self {
        Self(time.0.cast_unsigned())
    }
}

#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "the counter is read with an instruction")]
#[inline]
fn count() -> u64 {
    // SAFETY: every x86-64 processor has the instruction, and a process that may not use it gets its kernel's clock
    // from elsewhere, which `kernel_counts` would have seen.
    unsafe { std::arch::x86_64::_rdtsc() }
}

#[cfg(not(target_arch = "x86_64"))]
fn count() -> u64 {
    Stamp::of(Nanos::now()).0
}

/// Whether the kernel keeps time by the counter: then it has found that it runs steadily, and equally on all
/// processors.
fn kernel_counts() -> bool {
    const SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    cfg!(target_arch = "x86_64") && std::fs::read_to_string(SOURCE).is_ok_and(|source| source.trim() == "tsc")
}

/// A moment at which both clocks were read.
#[derive(Clone, Copy, Debug)]
struct Anchor {
    stamp: u64,
    time: Nanos,
}

impl Anchor {
    /// Reads the host clock between two readings of the counter; the best of a few tries, since this thread may be
    /// interrupted in between.
    fn now() -> Self {
        const TRIES: usize = 4;
        let attempt = || {
            let before = count();
            let time = Nanos::now();
            let gap = count().wrapping_sub(before);
            (gap, Self { stamp: before.wrapping_add(gap / 2), time })
        };
        let (_, best) = (1..TRIES)
            .map(|_| attempt())
            .fold(attempt(), |best, next| if next.0 < best.0 { next } else { best });
        best
    }
}

/// The host time of stamps, between moments at which both are known.
///
/// Times between two such moments are off by what reading the clocks takes, some 20 ns. The host clock may be slewed
/// or set meanwhile, as CUPTI's own may: the moments are as far apart as the drains of the rings, 0.1 s at most.
pub(super) struct Timeline {
    /// In order of time, the newest last; none where stamps are host times.
    anchors: VecDeque<Anchor>,
}

/// A stamp that was taken before the last `ANCHORS` drains (its thread was interrupted between reading the time and
/// logging the event) is placed on the oldest stretch that is still known.
const ANCHORS: usize = 64;

impl Timeline {
    pub const fn new() -> Self {
        Self { anchors: VecDeque::new() }
    }

    /// A session is about to begin: which kind of stamps it has is decided.
    pub fn begin(&mut self) {
        self.begin_with(kernel_counts());
    }

    fn begin_with(&mut self, counts: bool) {
        self.anchors.clear();
        COUNTS.store(counts, Ordering::Relaxed);
        if counts {
            self.anchors.push_back(Anchor::now());
        }
    }

    /// All stamps that were logged before this call can be placed after it.
    pub fn advance(&mut self) {
        let Some(last) = self.anchors.back() else { return };
        let now = Anchor::now();
        if now.stamp > last.stamp {
            if self.anchors.len() == ANCHORS {
                self.anchors.pop_front();
            }
            self.anchors.push_back(now);
        }
    }

    /// The host time of a stamp.
    pub fn time(&self, stamp: Stamp) -> Nanos {
        let newest_first = self.anchors.iter().rev();
        let mut stretches = newest_first.clone().skip(1).zip(newest_first);
        let Some(mut stretch) = stretches.next() else {
            // One anchor: nothing was drained yet, and what is drained now comes after `advance`.
            return self.anchors.back().map_or(Nanos(stamp.0.cast_signed()), |anchor| anchor.time);
        };
        while stamp.0 < stretch.0.stamp
            && let Some(earlier) = stretches.next()
        {
            stretch = earlier;
        }
        let (from, to) = stretch;
        let stamps = stamp.0.wrapping_sub(from.stamp).cast_signed();
        // `advance` keeps anchors apart. CAST: differences of minutes at most, far below 2^53.
        let rate = (to.time.0 - from.time.0) as f64 / (to.stamp - from.stamp) as f64;
        Nanos(from.time.0.saturating_add((stamps as f64 * rate) as i64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Timeline {
        /// On which these counts are these times.
        pub fn between(from: (u64, Nanos), to: (u64, Nanos)) -> Self {
            Self { anchors: [from, to].map(|(stamp, time)| Anchor { stamp, time }).into() }
        }
    }

    fn timeline(anchors: &[(u64, i64)]) -> Timeline {
        let anchor = |&(stamp, time): &(u64, i64)| Anchor { stamp, time: Nanos(time) };
        Timeline { anchors: anchors.iter().map(anchor).collect() }
    }

    #[test]
    fn a_stamp_is_placed_between_the_moments_around_it() {
        let timeline = timeline(&[(1_000, 50), (3_000, 1_050), (5_000, 3_050)]);
        for (stamp, time) in [(1_000, 50), (2_000, 550), (3_000, 1_050), (4_000, 2_050), (5_000, 3_050)] {
            assert_eq!(timeline.time(Stamp(stamp)), Nanos(time), "{stamp}");
        }
    }

    #[test]
    fn a_stamp_from_before_all_that_is_known_lies_before_it() {
        let timeline = timeline(&[(1_000, 500), (3_000, 1_500)]);
        assert_eq!(timeline.time(Stamp(0)), Nanos(0));
        assert_eq!(timeline.time(Stamp(3_200)), Nanos(1_600));
    }

    #[test]
    fn a_clock_that_is_set_back_takes_times_along() {
        let timeline = timeline(&[(0, 10_000), (100, 5_000)]);
        assert_eq!(timeline.time(Stamp(50)), Nanos(7_500));
    }

    #[test]
    fn without_a_counter_stamps_are_times() {
        let mut timeline = timeline(&[]);
        timeline.advance();
        assert_eq!(timeline.time(Stamp(17)), Nanos(17));
    }

    #[test]
    fn only_the_last_moments_are_kept_and_they_are_apart() {
        let mut timeline = timeline(&[(0, 0)]);
        (0..10 * ANCHORS).for_each(|_| timeline.advance());
        assert!(timeline.anchors.len() <= ANCHORS);
        assert!(timeline.anchors.iter().is_sorted_by(|a, b| a.stamp < b.stamp));
    }

    #[test]
    fn the_counter_tells_the_host_time() {
        let mut timeline = timeline(&[]);
        timeline.anchors.push_back(Anchor::now());
        let (before, stamp, after) = (Nanos::now(), Stamp(count()), Nanos::now());
        timeline.advance();
        let time = timeline.time(stamp);
        // Far more than the reading of clocks takes, far less than a wrong rate would give.
        const SLACK_NS: i64 = 100_000;
        assert!(
            (before.0 - SLACK_NS..=after.0 + SLACK_NS).contains(&time.0),
            "{before:?} {time:?} {after:?}"
        );
    }
}
