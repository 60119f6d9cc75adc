//! Ties device records to the call that launched them, and to the ranges that were open at that call.
//!
//! Attribution is by launch, never by time: the launching call's correlation id is on the record, and the call
//! carried the innermost range of its thread and the number of the set of open process-wide ranges. Records may
//! come in any order, split over buffers in any way, twice, or not at all. Everything here is bounded; what a
//! bound throws away is counted.

mod near;
mod ranges;
mod sets;
mod sites;

use std::collections::VecDeque;
use std::sync::Arc;

use ranges::Ranges;
pub(crate) use ranges::{Begin, Settled, Totals};
use sets::Sets;
use sites::{Found, Site, Sites};

use crate::channel::RangeKind;
use crate::table::rows::{Attribution, RangeSetRow};
use crate::units::{CorrelationId, Nanos, ProcessEpoch, RangeId, SymbolId, ThreadId};

/// Rounds for which a row is kept back after nothing is awaited for it. Threads are asked for their events one after
/// the other, so what one thread logged can come a round after what another logged later.
pub(crate) const SETTLING_ROUNDS: u64 = 2;

/// For how long no record of a graph's launch comes before none is awaited any more.
const QUIET_NS: i64 = 10_000_000_000;

/// Counts of what the bounds and gaps cost; each becomes a row of `losses`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Records that came after their launch had left the bounded table.
    pub launch_evicted: u64,
    /// Ranges whose row was written before all their launches were known to be complete, and that then got more.
    pub range_row_incomplete: u64,
    /// Ranges that were named by a launch, a child or an end, but whose beginning was never seen.
    pub range_begin_lost: u64,
    /// Changes of the set of process-wide ranges that never arrived.
    pub process_range_event_lost: u64,
    /// Process-wide ranges that started while too many were open: their launches are not added to them.
    pub process_range_left_out: u64,
    /// Launching calls that never led to a record, for whatever reason.
    pub calls_without_record: u64,
    /// Those of them that should have.
    pub launches_without_record: u64,
}

/// What is known about the launch behind one record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    pub correlation: CorrelationId,
    pub attribution: Attribution,
    pub range: Option<RangeId>,
    pub path: Option<Arc<str>>,
    pub set: Option<ProcessEpoch>,
    pub thread: Option<ThreadId>,
    /// The launched function, where the call launched one and not a graph.
    pub symbol: Option<SymbolId>,
    /// Host time of the launching call.
    pub time: Option<Nanos>,
}

/// A launching call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Launch {
    pub correlation: CorrelationId,
    pub range: Option<RangeId>,
    pub epoch: ProcessEpoch,
    pub thread: ThreadId,
    pub symbol: Option<SymbolId>,
    pub time: Nanos,
    /// The call may lead to more than one record (a graph, a batch of copies).
    pub many: bool,
    /// The call launches a graph.
    pub graph: bool,
    /// A record must come, unless the call fails.
    pub due: bool,
}

/// Where a record came from, as far as the record itself tells.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin {
    pub correlation: CorrelationId,
    /// The record belongs to a node of a graph.
    pub graph_node: bool,
    pub device_launched: bool,
    /// Start of the work on the device, on the host's clock as the session's start is; 0 if unknown.
    pub start_ns: i64,
}

/// The state of attribution over one session.
#[derive(Debug)]
pub(crate) struct Attributor {
    session_start: Nanos,
    first_correlation: Option<CorrelationId>,
    sites: Sites,
    ranges: Ranges,
    sets: Sets,
    counts: Counts,
    /// Launches up to this time may have been captured.
    captured_until: Option<Nanos>,
    now: Nanos,
    /// Launches that may lead to further records, with the time at which that was looked at last.
    many: VecDeque<(CorrelationId, Nanos)>,
    most_sites: usize,
    most_ranges: usize,
}

impl Attributor {
    /// For a session that started at this time, when the set of process ranges had this number.
    pub fn new(session_start: Nanos, epoch: ProcessEpoch) -> Self {
        Self {
            session_start,
            first_correlation: None,
            sites: Sites::default(),
            ranges: Ranges::default(),
            sets: Sets::new(epoch),
            counts: Counts::default(),
            captured_until: None,
            now: session_start,
            many: VecDeque::new(),
            most_sites: 0,
            most_ranges: 0,
        }
    }

    /// A launching call was made.
    pub fn launch(&mut self, launch: Launch) {
        let first = self.first_correlation.get_or_insert(launch.correlation);
        *first = (*first).min(launch.correlation);
        if let Some(range) = launch.range {
            self.ranges.expect_record(range);
        }
        self.sets.expect_record(launch.epoch);
        let gone = self.sites.insert(
            launch.correlation,
            Site {
                range: launch.range,
                epoch: launch.epoch,
                thread: launch.thread,
                symbol: launch.symbol,
                time: launch.time,
                many: launch.many,
                graph: launch.graph,
                due: launch.due,
                seen: false,
                in_set: false,
                last_record: Nanos(0),
            },
        );
        // The table is full, or the correlation id was used again: nothing more is expected for the old call.
        if let Some(site) = gone {
            self.count_unseen(&site);
            self.release(&site);
        }
    }

    /// A launching call has failed: no record will come.
    pub fn launch_failed(&mut self, correlation: CorrelationId) {
        if let Found::Site(site) = self.sites.find(correlation) {
            site.due = false;
        }
    }

    /// What was launched until now may have been captured into a graph: no record need come of it.
    pub fn may_be_captured_until(&mut self, time: Nanos) {
        self.captured_until = self.captured_until.max(Some(time));
        self.counts.launches_without_record = 0;
    }

    fn count_unseen(&mut self, site: &Site) {
        let is_due = site.due && Some(site.time) > self.captured_until;
        self.counts.calls_without_record += u64::from(!site.seen);
        self.counts.launches_without_record += u64::from(!site.seen && is_due);
    }

    /// A range begins.
    pub fn begin(&mut self, begin: Begin, epoch: ProcessEpoch) {
        let (range, kind) = (begin.range, begin.kind);
        self.ranges.begin(begin);
        if kind == RangeKind::Process {
            self.ranges.hold(range); // released when the set is known to be without it
            self.sets.change(epoch, sets::Change::Opened(range));
            self.apply_holds();
        }
    }

    /// A range ends; `epoch` is the number that this took if the range is process-wide.
    pub fn end(&mut self, range: RangeId, epoch: Option<ProcessEpoch>, end_ns: i64) {
        if let Some(epoch) = epoch {
            self.ranges.end_process(range, end_ns);
            self.sets.change(epoch, sets::Change::Closed(range));
            self.apply_holds();
        } else {
            self.ranges.end(range, end_ns);
        }
    }

    fn apply_holds(&mut self) {
        for hold in self.sets.take_holds() {
            match hold {
                sets::Hold::Take(range) => self.ranges.hold(range),
                sets::Hold::Release(range) => self.ranges.let_go(range),
            }
        }
    }

    /// The time at which the records that follow were received. It never goes back, whatever the clock does.
    pub fn now_is(&mut self, now: Nanos) {
        self.now = self.now.max(now);
    }

    /// Begins a round: since the last call, every thread has been asked for its events once more.
    pub fn advance(&mut self) {
        self.release_quiet_launches();
        self.most_sites = self.most_sites.max(self.sites.len());
        self.most_ranges = self.most_ranges.max(self.ranges.len());
        self.sets.advance();
        self.apply_holds();
        self.ranges.advance();
    }

    /// A graph has as many records as nodes, and nobody tells how many those are. When none has come for long, none is
    /// awaited, so that rows of ranges are written while the session runs.
    fn release_quiet_launches(&mut self) {
        while let Some((correlation, checked)) = self.many.front().copied() {
            if self.now.0.saturating_sub(checked.0) < QUIET_NS {
                break;
            }
            self.many.pop_front();
            let Found::Site(site) = self.sites.find(correlation) else { continue };
            if !site.many {
                continue;
            }
            if self.now.0.saturating_sub(site.last_record.0) < QUIET_NS {
                self.many.push_back((correlation, site.last_record));
                continue;
            }
            site.many = false;
            let site = *site;
            self.release(&site);
        }
    }

    /// Finds the launch behind a record, adds the record's work to the ranges of that launch, and notes that the
    /// launch has led to a record.
    pub fn attribute(&mut self, origin: Origin, work: Totals) -> Link {
        let correlation = origin.correlation;
        let unknown = |attribution| Link {
            correlation,
            attribution,
            range: None,
            path: None,
            set: None,
            thread: None,
            symbol: None,
            time: None,
        };
        if origin.device_launched {
            return unknown(Attribution::DeviceLaunched);
        }
        let site = match self.sites.find(correlation) {
            Found::Site(site) => site,
            Found::Evicted => {
                self.counts.launch_evicted += 1;
                return unknown(Attribution::LaunchEvicted);
            }
            Found::Never => return unknown(self.why_never_seen(origin)),
        };
        let first = !site.seen;
        if first {
            site.seen = true;
            // Asked once: later, the set may be forgotten.
            site.in_set = self.sets.may_have_members(site.epoch);
        }
        if site.many {
            site.last_record = self.now;
            if first {
                self.many.push_back((correlation, self.now));
            }
        }
        let site = *site;
        let last = first && !site.many;
        let mut late = 0;
        let path = site.range.and_then(|range| {
            let (path, added) = self.ranges.add_record(range, work, last);
            late += u64::from(!added);
            path
        });
        if site.in_set {
            for range in self.sets.members(site.epoch).unwrap_or_default() {
                late += u64::from(!self.ranges.add(*range, work));
            }
            late += u64::from(self.sets.is_forgotten(site.epoch));
        }
        self.counts.range_row_incomplete += late;
        if last {
            self.sets.record_came(site.epoch);
            self.apply_holds();
        }
        let attribution = match site.range {
            _ if origin.graph_node && !site.graph => Attribution::GraphUnmapped,
            Some(_) => Attribution::Range,
            None => Attribution::NoRange,
        };
        Link {
            correlation,
            attribution,
            range: site.range,
            path,
            set: site.in_set.then_some(site.epoch),
            thread: Some(site.thread),
            symbol: site.symbol.filter(|_| !origin.graph_node),
            time: Some(site.time),
        }
    }

    /// Whether the launching call with this id is known.
    pub fn has_launch(&self, correlation: CorrelationId) -> bool {
        self.sites.has(correlation)
    }

    fn why_never_seen(&self, origin: Origin) -> Attribution {
        let before_first = self.first_correlation.is_none_or(|first| origin.correlation < first);
        let before_start = origin.start_ns != 0 && origin.start_ns < self.session_start.0;
        if before_first || before_start {
            Attribution::LaunchedBeforeStart
        } else {
            Attribution::LaunchNotSeen
        }
    }

    /// No more records are expected for this call.
    fn release(&mut self, site: &Site) {
        if let Some(range) = site.range {
            self.ranges.record_came(range);
        }
        self.sets.record_came(site.epoch);
        self.apply_holds();
    }

    /// The rows of ranges that can no longer change, and of sets that became known, since the last call.
    pub fn take_rows(&mut self) -> (Vec<Settled>, Vec<RangeSetRow>) {
        (self.ranges.take_settled(), self.sets.take_rows())
    }

    /// Ends the session: every range that is left, with `end_ns` as the time of those never closed.
    pub fn finish(&mut self, end_ns: i64) -> (Vec<Settled>, Vec<RangeSetRow>, Counts) {
        for site in self.sites.take() {
            self.count_unseen(&site);
        }
        self.sets.close();
        self.apply_holds();
        let settled = self.ranges.finish(end_ns);
        self.counts.range_begin_lost = self.ranges.begin_lost();
        self.counts.process_range_event_lost = self.sets.events_lost();
        self.counts.process_range_left_out = self.sets.members_left_out();
        (settled, self.sets.take_rows(), self.counts)
    }

    /// The largest numbers of launches and ranges that were held in memory at once.
    pub fn peaks(&self) -> (usize, usize) {
        (self.most_sites, self.most_ranges)
    }
}

#[cfg(test)]
mod tests;
