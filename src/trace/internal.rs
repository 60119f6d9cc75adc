//! What the crate itself had the device do while the session ran.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use crate::units::{CorrelationId, ThreadId};

/// The `kind` of its rows in `overheads`.
pub(super) const KIND: &str = "cuprof_cache_flush";

/// Launches that are remembered; their records come within a few.
const MAX_LAUNCHES: usize = 1 << 16;

/// Launches of the crate, by correlation id, and what came of them.
#[derive(Debug, Default)]
pub(super) struct Internal {
    launches: FxHashMap<CorrelationId, ThreadId>,
    order: VecDeque<CorrelationId>,
    records: u64,
    sum_ns: i64,
}

impl Internal {
    pub fn launched(&mut self, correlation: CorrelationId, thread: ThreadId) {
        if self.launches.insert(correlation, thread).is_none() {
            self.order.push_back(correlation);
        }
        if self.order.len() > MAX_LAUNCHES
            && let Some(oldest) = self.order.pop_front()
        {
            self.launches.remove(&oldest);
        }
    }

    /// The program launches something under this id: ids are used again after 2^32 calls.
    pub fn forget(&mut self, correlation: CorrelationId) {
        // Nearly always there is nothing, and then this costs nothing.
        if !self.launches.is_empty() {
            self.launches.remove(&correlation);
        }
    }

    /// The thread that launched it, if the crate did.
    pub fn thread_of(&self, correlation: CorrelationId) -> Option<ThreadId> {
        if self.launches.is_empty() { None } else { self.launches.get(&correlation).copied() }
    }

    /// It ran, within these times if they can be used.
    pub fn ran(&mut self, span: Option<(i64, i64)>) {
        self.records += 1;
        self.sum_ns += span.map_or(0, |(start, end)| end - start);
    }

    /// Facts of the run; none where nothing ran.
    pub fn facts(&self) -> Vec<(&'static str, String)> {
        if self.records == 0 {
            return Vec::new();
        }
        vec![
            ("control.cache_flushes", self.records.to_string()),
            ("control.cache_flush_sum_ns", self.sum_ns.to_string()),
        ]
    }
}
