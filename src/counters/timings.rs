//! How long the steps of a session took.

use std::time::{Duration, Instant};

/// How long the steps of a session took on the host, in their order.
///
/// What is not the work's own is the cost of counting: [`overhead`](Self::overhead).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Timings {
    /// Asking whether and what the device can count (`cuptiProfilerInitialize`, `cuptiProfilerDeviceSupported`), and
    /// opening NVML for the conditions of the passes.
    pub device: Duration,
    /// Asking which counters are free (`cuptiProfilerGetCounterAvailability`).
    pub availability: Duration,
    /// Making the plan again with that, and its configuration.
    pub plan: Duration,
    /// Making the cache control, and verifying it where that was asked for.
    pub cache: Duration,
    /// Switching the counters on (`cuptiRangeProfilerEnable`).
    pub enable: Duration,
    /// Making room for the ranges (`cuptiRangeProfilerSetConfig`, the counter data).
    pub set_up: Duration,
    /// The rounds that were counted.
    pub rounds: Vec<RoundTimings>,
    /// A first round whose ranges had no room: it was thrown away, with the steps before it.
    pub thrown_away: Duration,
    /// Turning what the hardware wrote into counter data (`cuptiRangeProfilerDecodeData`).
    pub decode: Duration,
    /// Turning counter data into values.
    pub evaluate: Duration,
    /// Switching the counters off (`cuptiRangeProfilerDisable`).
    pub disable: Duration,
    /// All of it.
    pub total: Duration,
}

/// How long the steps of one round took on the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RoundTimings {
    /// Waiting for what was launched before.
    pub wait: Duration,
    /// The cache control and [`BetweenPasses`](super::BetweenPasses), before the pass and before its ranges.
    pub between: Duration,
    /// `cuptiRangeProfilerStart`.
    pub start: Duration,
    /// Opening all ranges (`cuptiRangeProfilerPushRange`).
    pub push: Duration,
    /// The first of them.
    pub first_push: Duration,
    /// Closing all ranges (`cuptiRangeProfilerPopRange`).
    pub pop: Duration,
    /// The first of them.
    pub first_pop: Duration,
    /// The work itself, without what opening and closing its ranges took.
    pub work: Duration,
    /// `cuptiRangeProfilerStop`.
    pub stop: Duration,
}

impl Timings {
    /// All but the work itself: what counting took, including a round that was thrown away.
    #[must_use]
    pub fn overhead(&self) -> Duration {
        self.total.saturating_sub(self.rounds.iter().map(|round| round.work).sum())
    }
}

impl RoundTimings {
    /// The whole round.
    #[must_use]
    pub fn total(&self) -> Duration {
        self.wait + self.between + self.start + self.push + self.pop + self.work + self.stop
    }
}

/// Does a step, and adds its time.
pub(super) fn timed<T>(time: &mut Duration, step: impl FnOnce() -> T) -> T {
    let begun = Instant::now();
    let outcome = step();
    *time += begun.elapsed();
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overhead_is_all_but_the_work() {
        let round = |work| RoundTimings {
            start: Duration::from_millis(1),
            work: Duration::from_millis(work),
            ..RoundTimings::default()
        };
        let timings = Timings {
            rounds: vec![round(5), round(6)],
            total: Duration::from_millis(20),
            ..Timings::default()
        };
        assert_eq!(timings.overhead(), Duration::from_millis(9));
        assert_eq!(timings.rounds[1].total(), Duration::from_millis(7));
    }

    #[test]
    fn steps_add_up() {
        let mut time = Duration::from_secs(1);
        assert_eq!(timed(&mut time, || 3), 3);
        assert!(time > Duration::from_secs(1));
    }
}
