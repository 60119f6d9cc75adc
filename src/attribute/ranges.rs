//! Range instances while their rows can still change.
//!
//! A row is written once nothing can change it any more: the range has ended, every launch inside has led to its
//! records, every nested range has been written (and added to this one), and no set of process ranges needs it.
//! Launches that never lead to a record would keep rows for ever, so the oldest ended ranges are written when
//! too many wait.

use std::collections::VecDeque;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::near::NearMap;
use crate::channel::RangeKind;
use crate::units::{RangeId, ThreadId};

/// Ended ranges that may wait for records (about 30 MB).
const MAX_WAITING: usize = 1 << 17;

/// Longest path in bytes; a deeper nesting is cut and ends with an ellipsis.
const MAX_PATH_BYTES: usize = 8 << 10;

/// Written ranges whose path is kept, for launches and nested ranges whose events come late from another thread.
const KEEP_WRITTEN: usize = 1 << 13;

/// Distinct paths that are kept for reuse before the cache starts afresh.
const MAX_CACHED_PATHS: usize = 1 << 16;

/// What those paths, and the texts that they are made of, may be long together.
const MAX_CACHED_PATH_BYTES: usize = 32 << 20;

/// The beginning of a range, with names as text.
#[derive(Clone, Debug)]
pub(crate) struct Begin {
    pub range: RangeId,
    pub kind: RangeKind,
    pub parent: Option<RangeId>,
    pub name: Arc<str>,
    pub domain: u32,
    pub category: u32,
    pub color: Option<u32>,
    pub payload: Option<String>,
    pub args: Option<String>,
    pub thread: ThreadId,
    pub start_ns: i64,
}

/// Work inside a range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub launches: u64,
    pub transfers: u64,
    /// Sum of the kernels' durations.
    pub gpu_sum_ns: i64,
    /// First start and last end of the kernels with valid times.
    pub span: Option<(i64, i64)>,
}

impl Totals {
    /// Of one kernel, with its times where they are valid.
    pub fn kernel(span: Option<(i64, i64)>) -> Self {
        let gpu_sum_ns = span.map_or(0, |(start, end)| end - start);
        Self { launches: 1, gpu_sum_ns, span, ..Self::default() }
    }

    /// Of one copy or fill.
    pub fn transfer() -> Self {
        Self { transfers: 1, ..Self::default() }
    }

    fn add(&mut self, other: Self) {
        self.launches += other.launches;
        self.transfers += other.transfers;
        self.gpu_sum_ns = self.gpu_sum_ns.saturating_add(other.gpu_sum_ns);
        self.span = match (self.span, other.span) {
            (Some((a, b)), Some((c, d))) => Some((a.min(c), b.max(d))),
            (a, b) => a.or(b),
        };
    }
}

/// A range whose row is final.
#[derive(Clone, Debug)]
pub(crate) struct Settled {
    pub begin: Begin,
    pub path: Arc<str>,
    pub end_ns: i64,
    pub closed: bool,
    pub totals: Totals,
}

#[derive(Debug, Default)]
struct State {
    begun: Option<Begin>,
    /// Known once the beginnings of all outer ranges have been seen.
    path: Option<Arc<str>>,
    end_ns: Option<i64>,
    /// Launches whose record has not come.
    pending: u32,
    /// Nested ranges whose totals have not been added.
    children: u32,
    /// Sets of process ranges that need this one.
    holds: u32,
    totals: Totals,
    /// It is among those that may be written soon.
    settling: bool,
}

impl State {
    fn is_settled(&self) -> bool {
        self.begun.is_some()
            && self.end_ns.is_some()
            && self.pending == 0
            && self.children == 0
            && self.holds == 0
    }

    /// Puts the range among those that may be written soon, if nothing is awaited for it.
    fn settle(&mut self, range: RangeId, settling: &mut Vec<RangeId>) {
        if !self.settling && self.is_settled() {
            self.settling = true;
            settling.push(range);
        }
    }
}

/// The paths of the ranges that were written last.
#[derive(Debug, Default)]
struct Written {
    paths: NearMap<RangeId, Arc<str>>,
    order: VecDeque<RangeId>,
}

impl Written {
    fn insert(&mut self, range: RangeId, path: Arc<str>) {
        self.paths.insert(range, path);
        self.order.push_back(range);
        if self.order.len() > KEEP_WRITTEN
            && let Some(oldest) = self.order.pop_front()
        {
            self.paths.remove(&oldest);
        }
    }
}

#[derive(Debug)]
struct JoinedPath {
    path: Arc<str>,
    _outer: Arc<str>,
    _name: Arc<str>,
}

#[derive(Debug, Default)]
pub(super) struct Ranges {
    states: NearMap<RangeId, State>,
    /// Ended ranges in the order of their ends, some of them written since.
    ended: VecDeque<RangeId>,
    /// Ranges that nothing is awaited for: since this round, and since each of the ones before.
    settling: [Vec<RangeId>; super::SETTLING_ROUNDS as usize],
    settled: Vec<Settled>,
    written: Written,
    /// Joined paths by the addresses of the outer path and of the name, which the values keep from being reused.
    paths: FxHashMap<(usize, usize), JoinedPath>,
    begin_lost: u64,
    path_bytes: usize,
}

impl Ranges {
    pub fn begin(&mut self, begin: Begin) {
        let range = begin.range;
        if self.states.get(&range).is_some_and(|state| state.begun.is_some()) {
            return; // a repeated event
        }
        // The range around it has nearly always begun before, and its path is known.
        let path = match begin.parent {
            None => Some(Arc::clone(&begin.name)),
            Some(parent) => {
                let outer = match self.state_or_placeholder(parent) {
                    Some(outer) => {
                        outer.children += 1;
                        outer.path.clone()
                    }
                    None => self.written.paths.get(&parent).cloned(),
                };
                outer.map(|outer| self.join(Some(outer), &begin.name))
            }
        };
        let state = self.states.entry(range).or_default();
        state.begun = Some(begin);
        state.path = path;
        state.settle(range, &mut self.settling[0]); // its end may have come first
    }

    /// The state of a range that another event names, made if its beginning has not been seen; none if its row
    /// is written.
    fn state_or_placeholder(&mut self, range: RangeId) -> Option<&mut State> {
        match self.states.entry(range) {
            Entry::Occupied(state) => Some(state.into_mut()),
            Entry::Vacant(_) if self.written.paths.contains_key(&range) => None,
            Entry::Vacant(place) => Some(place.insert(State::default())),
        }
    }

    /// A range of a thread's stack ends.
    pub fn end(&mut self, range: RangeId, end_ns: i64) {
        self.note_end(range, end_ns, true);
    }

    /// A process-wide range ends; the sets that it is in still hold it.
    pub fn end_process(&mut self, range: RangeId, end_ns: i64) {
        self.note_end(range, end_ns, false);
    }

    fn note_end(&mut self, range: RangeId, end_ns: i64, settles: bool) {
        let Some(state) = self.state_or_placeholder(range) else { return };
        if state.end_ns.is_none() {
            state.end_ns = Some(end_ns);
            self.ended.push_back(range);
            if settles {
                self.settle(range);
            }
            self.relieve();
        }
    }

    /// The names of the range and of all ranges around it, outermost first, joined by `/`. Without those around it
    /// for as long as their beginnings have not been seen.
    pub fn path(&mut self, range: RangeId) -> Option<Arc<str>> {
        // Climb to the next range whose path is known, then join the names on the way back.
        let mut inner = Vec::new();
        let mut next = Some(range);
        let mut path = None;
        let mut complete = true;
        while let Some(range) = next.take() {
            let Some(state) = self.states.get(&range) else {
                path = self.written.paths.get(&range).cloned();
                complete = path.is_some();
                break;
            };
            if let Some(known) = &state.path {
                path = Some(Arc::clone(known));
                break;
            }
            let Some(begin) = &state.begun else {
                complete = false;
                break;
            };
            if inner.len() >= MAX_PATH_BYTES {
                complete = false; // deeper than a path can show, or a damaged recording with a loop
                break;
            }
            inner.push((range, Arc::clone(&begin.name)));
            next = begin.parent;
        }
        while let Some((range, name)) = inner.pop() {
            let joined = self.join(path, &name);
            if complete && let Some(state) = self.states.get_mut(&range) {
                state.path = Some(Arc::clone(&joined));
            }
            path = Some(joined);
        }
        path
    }

    pub fn expect_record(&mut self, range: RangeId) {
        if let Some(state) = self.state_or_placeholder(range) {
            state.pending += 1;
        }
    }

    pub fn record_came(&mut self, range: RangeId) {
        if let Some(state) = self.states.get_mut(&range) {
            state.pending = state.pending.saturating_sub(1);
            self.settle(range);
        }
    }

    pub fn hold(&mut self, range: RangeId) {
        if let Some(state) = self.states.get_mut(&range) {
            state.holds += 1;
        }
    }

    pub fn let_go(&mut self, range: RangeId) {
        if let Some(state) = self.states.get_mut(&range) {
            state.holds = state.holds.saturating_sub(1);
            self.settle(range);
        }
    }

    /// Adds work to a range; false if its row is written already.
    pub fn add(&mut self, range: RangeId, work: Totals) -> bool {
        match self.states.get_mut(&range) {
            Some(state) => {
                state.totals.add(work);
                true
            }
            None => false,
        }
    }

    /// Adds the work of one record, which is the last one of its launch or not. Returns the path, and whether the
    /// work was added: not if the row is written already.
    pub fn add_record(&mut self, range: RangeId, work: Totals, last: bool) -> (Option<Arc<str>>, bool) {
        let Some(state) = self.states.get_mut(&range) else { return (self.path(range), false) };
        state.totals.add(work);
        if last {
            state.pending = state.pending.saturating_sub(1);
            state.settle(range, &mut self.settling[0]);
        }
        match &state.path {
            Some(path) => (Some(Arc::clone(path)), true),
            None => (self.path(range), true),
        }
    }

    /// Notes a range for which nothing is awaited; its row is written some rounds later if that is still so.
    fn settle(&mut self, range: RangeId) {
        if let Some(state) = self.states.get_mut(&range) {
            state.settle(range, &mut self.settling[0]);
        }
    }

    /// Begins a round: writes the rows that have been settled for long enough.
    pub fn advance(&mut self) {
        self.settling.rotate_right(1);
        for range in std::mem::take(&mut self.settling[0]) {
            let Some(state) = self.states.get_mut(&range) else { continue };
            state.settling = false;
            if state.is_settled()
                && let Some(parent) = self.write(range, None)
            {
                self.settle(parent);
            }
        }
    }

    /// Writes a row and returns the parent, which has one nested range less.
    fn write(&mut self, range: RangeId, end_if_open_ns: Option<i64>) -> Option<RangeId> {
        let state = self.states.remove(&range)?;
        let Some(begin) = state.begun else {
            self.begin_lost += 1;
            return None;
        };
        let path = state.path.unwrap_or_else(|| {
            let outer = begin.parent.and_then(|parent| self.path(parent));
            self.join(outer, &begin.name)
        });
        self.written.insert(range, Arc::clone(&path));
        let parent = begin.parent;
        let end_ns = state.end_ns.or(end_if_open_ns).unwrap_or(begin.start_ns);
        self.settled.push(Settled {
            begin,
            path,
            end_ns,
            closed: state.end_ns.is_some(),
            totals: state.totals,
        });
        let parent = parent?;
        let outer = self.states.get_mut(&parent)?;
        outer.children = outer.children.saturating_sub(1);
        outer.totals.add(state.totals);
        Some(parent)
    }

    /// Writes the oldest ended ranges while too many wait.
    fn relieve(&mut self) {
        while self.ended.len() > MAX_WAITING {
            let Some(oldest) = self.ended.pop_front() else { return };
            if let Some(parent) = self.write(oldest, None) {
                self.settle(parent);
            }
        }
        // Ranges that were written in the meantime leave from the front, so that the queue stays short.
        while let Some(front) = self.ended.front() {
            if self.states.contains_key(front) {
                break;
            }
            self.ended.pop_front();
        }
    }

    pub fn take_settled(&mut self) -> Vec<Settled> {
        std::mem::take(&mut self.settled)
    }

    /// Writes every range that is left, inner ones first.
    pub fn finish(&mut self, end_ns: i64) -> Vec<Settled> {
        for state in self.states.values_mut() {
            (state.pending, state.holds) = (0, 0);
        }
        let mut leaves: Vec<RangeId> =
            self.states.iter().filter(|(_, state)| state.children == 0).map(|(range, _)| *range).collect();
        leaves.sort_unstable();
        while let Some(range) = leaves.pop() {
            let parent = self.write(range, Some(end_ns));
            leaves.extend(
                parent.filter(|parent| self.states.get(parent).is_some_and(|outer| outer.children == 0)),
            );
        }
        // What is left names itself as an outer range of itself, which only a damaged recording can say, or waits
        // for a nested range whose beginning was lost.
        let mut rest: Vec<RangeId> = self.states.keys().copied().collect();
        rest.sort_unstable();
        for range in rest {
            self.write(range, Some(end_ns));
        }
        self.take_settled()
    }

    pub fn begin_lost(&self) -> u64 {
        self.begin_lost
    }

    pub fn len(&self) -> usize {
        self.states.len()
    }

    fn join(&mut self, parent: Option<Arc<str>>, name: &Arc<str>) -> Arc<str> {
        let Some(parent) = parent else { return cut(name) };
        // Names are interned, so that nearly all equal ones have one address; others cost a path of their own.
        let key = (parent.as_ptr() as usize, name.as_ptr() as usize);
        if let Some(joined) = self.paths.get(&key) {
            return Arc::clone(&joined.path);
        }
        if self.paths.len() >= MAX_CACHED_PATHS || self.path_bytes >= MAX_CACHED_PATH_BYTES {
            self.paths.clear();
            self.path_bytes = 0;
        }
        let path: Arc<str> = if parent.len() + name.len() < MAX_PATH_BYTES {
            format!("{parent}/{name}").into()
        } else if parent.ends_with("/…") {
            Arc::clone(&parent)
        } else {
            format!("{parent}/…").into()
        };
        let parent_bytes = parent.len();
        let joined = JoinedPath { path: Arc::clone(&path), _outer: parent, _name: Arc::clone(name) };
        self.path_bytes += parent_bytes + name.len() + path.len();
        self.paths.insert(key, joined);
        path
    }
}

/// A name as a path: whole, unless it is longer than a path may be.
fn cut(name: &Arc<str>) -> Arc<str> {
    if name.len() <= MAX_PATH_BYTES {
        return Arc::clone(name);
    }
    let end = (0..=MAX_PATH_BYTES).rev().find(|end| name.is_char_boundary(*end)).unwrap_or(0);
    format!("{}…", &name[..end]).into()
}
