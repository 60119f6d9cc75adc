//! Sets of process-wide ranges that were open together.
//!
//! Every change of the set takes the next number (its epoch), so a set is named by the epoch of the change that
//! made it. Changes come from many threads and may arrive late; a set is known once every change up to its
//! number has arrived.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::table::rows::RangeSetRow;
use crate::units::{ProcessEpoch, RangeId};

/// Changes that wait for an earlier one. If so many do, the earlier one is lost.
const MAX_WAITING: usize = 4096;

/// Sets that are remembered while records of their launches are awaited.
const MAX_SETS: usize = 1 << 16;

/// Process-wide ranges that can be told apart as open at the same time. Every change makes a new set, so ranges that
/// are started and never ended would otherwise cost the square of their number.
const MAX_MEMBERS: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Opened(RangeId),
    Closed(RangeId),
}

/// A set keeps the rows of its members open while it awaits records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hold {
    Take(RangeId),
    Release(RangeId),
}

#[derive(Debug, Default)]
struct Set {
    members: Arc<[RangeId]>,
    /// Launches in this set whose record has not come.
    pending: u32,
    rows_written: bool,
    /// Every launch in this set has been told of.
    retired: bool,
}

impl Set {
    fn is_done(&self) -> bool {
        self.retired && self.pending == 0
    }
}

#[derive(Debug)]
pub(super) struct Sets {
    /// The set before the first change of the session; always empty.
    base: ProcessEpoch,
    /// The last set that is known.
    current: ProcessEpoch,
    waiting: BTreeMap<ProcessEpoch, Change>,
    sets: FxHashMap<ProcessEpoch, Set>,
    order: VecDeque<ProcessEpoch>,
    /// Sets that are no longer current, with the round in which that was told.
    past: VecDeque<(u64, ProcessEpoch)>,
    round: u64,
    /// Launches that named a set which is not known yet.
    early: FxHashMap<ProcessEpoch, u32>,
    holds: Vec<Hold>,
    rows: Vec<RangeSetRow>,
    events_lost: u64,
    members_left_out: u64,
}

impl Sets {
    pub fn new(base: ProcessEpoch) -> Self {
        let mut sets = Self {
            base,
            current: base,
            waiting: BTreeMap::new(),
            sets: FxHashMap::default(),
            order: VecDeque::new(),
            past: VecDeque::new(),
            round: 0,
            early: FxHashMap::default(),
            holds: Vec::new(),
            rows: Vec::new(),
            events_lost: 0,
            members_left_out: 0,
        };
        sets.sets.insert(base, Set::default());
        sets
    }

    /// Whether a launch with this number belongs to a set: false if that is known to be empty.
    pub fn may_have_members(&self, epoch: ProcessEpoch) -> bool {
        self.sets.get(&epoch).map_or(epoch > self.base, |set| !set.members.is_empty())
    }

    /// The members of a set that is known.
    pub fn members(&self, epoch: ProcessEpoch) -> Option<&[RangeId]> {
        self.sets.get(&epoch).map(|set| &*set.members)
    }

    /// Whether the set was known once.
    pub fn is_forgotten(&self, epoch: ProcessEpoch) -> bool {
        epoch <= self.current && !self.sets.contains_key(&epoch)
    }

    /// A launch was made while this set was open.
    pub fn expect_record(&mut self, epoch: ProcessEpoch) {
        if let Some(set) = self.sets.get_mut(&epoch) {
            set.pending += 1;
            write_rows(epoch, set, &mut self.rows);
        } else if epoch > self.current {
            if self.early.len() >= MAX_SETS {
                self.early.clear(); // only a damaged recording names so many sets that never come to be
            }
            *self.early.entry(epoch).or_insert(0) += 1;
        }
    }

    /// Begins a round (see [`Attributor::advance`](super::Attributor::advance)).
    pub fn advance(&mut self) {
        self.round += 1;
        while let Some((round, epoch)) = self.past.front().copied() {
            if round + super::SETTLING_ROUNDS > self.round {
                break;
            }
            self.past.pop_front();
            if let Some(set) = self.sets.get_mut(&epoch) {
                set.retired = true;
            }
            self.drop_if_done(epoch);
        }
    }

    /// A launch of this set needs it no longer.
    pub fn record_came(&mut self, epoch: ProcessEpoch) {
        if let Some(set) = self.sets.get_mut(&epoch) {
            set.pending = set.pending.saturating_sub(1);
            if set.is_done() {
                self.drop_set(epoch);
            }
        } else if let Some(early) = self.early.get_mut(&epoch) {
            *early = early.saturating_sub(1);
        }
    }

    /// A change with this number was made.
    pub fn change(&mut self, epoch: ProcessEpoch, change: Change) {
        if epoch <= self.current {
            return; // older than what is known: a repeated event
        }
        self.waiting.insert(epoch, change);
        while let Some(next) = self.waiting.keys().next().copied() {
            let is_next = next.0 == self.current.0 + 1;
            if !is_next && self.waiting.len() <= MAX_WAITING {
                break;
            }
            self.apply_first_waiting();
        }
    }

    /// Applies what waits although earlier changes are missing: they will not come any more.
    pub fn close(&mut self) {
        while !self.waiting.is_empty() {
            self.apply_first_waiting();
        }
    }

    fn apply_first_waiting(&mut self) {
        let Some((epoch, change)) = self.waiting.pop_first() else { return };
        self.events_lost += u64::from(epoch.0 - self.current.0 - 1);
        let mut members = self.members(self.current).unwrap_or_default().to_vec();
        let was_open = |range| members.contains(&range);
        let closed = match change {
            Change::Closed(range) if was_open(range) => Some(range),
            _ => None, // a range that was closed twice is not released twice
        };
        match change {
            Change::Opened(range) if members.len() >= MAX_MEMBERS => {
                self.members_left_out += 1;
                self.holds.push(Hold::Release(range)); // no set has it, so none needs it
            }
            Change::Opened(range) => members.push(range),
            Change::Closed(range) => members.retain(|member| *member != range),
        }
        self.holds.extend(members.iter().map(|range| Hold::Take(*range)));
        if let Some(range) = closed {
            self.holds.push(Hold::Release(range)); // the hold of the range's being open
        }
        let pending = self.early.remove(&epoch).unwrap_or(0);
        let mut set = Set { members: members.into(), pending, rows_written: false, retired: false };
        if pending > 0 {
            write_rows(epoch, &mut set, &mut self.rows);
        }
        self.sets.insert(epoch, set);
        self.order.push_back(epoch);
        let before = std::mem::replace(&mut self.current, epoch);
        self.past.push_back((self.round, before));
        while self.order.len() > MAX_SETS {
            let Some(oldest) = self.order.pop_front() else { break };
            self.drop_set(oldest);
        }
    }

    fn drop_if_done(&mut self, epoch: ProcessEpoch) {
        if self.sets.get(&epoch).is_some_and(Set::is_done) {
            self.drop_set(epoch);
        }
    }

    fn drop_set(&mut self, epoch: ProcessEpoch) {
        if let Some(set) = self.sets.remove(&epoch) {
            self.holds.extend(set.members.iter().map(|range| Hold::Release(*range)));
        }
    }

    /// The holds on ranges that were taken and released since the last call, in order.
    pub fn take_holds(&mut self) -> Vec<Hold> {
        std::mem::take(&mut self.holds)
    }

    pub fn take_rows(&mut self) -> Vec<RangeSetRow> {
        std::mem::take(&mut self.rows)
    }

    pub fn events_lost(&self) -> u64 {
        self.events_lost
    }

    pub fn members_left_out(&self) -> u64 {
        self.members_left_out
    }
}

fn write_rows(epoch: ProcessEpoch, set: &mut Set, rows: &mut Vec<RangeSetRow>) {
    if !set.rows_written {
        set.rows_written = true;
        let name = i64::from(epoch.0);
        rows.extend(set.members.iter().map(|range| RangeSetRow { set: name, range: *range }));
    }
}
