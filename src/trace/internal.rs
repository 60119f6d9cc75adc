//! What the crate itself had the device do while the session ran.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use crate::units::{CorrelationId, ThreadId};

/// What it is, which is the `kind` of its rows in `overheads`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// It brings the cache into its state.
    CacheFlush,
    /// It holds back what comes behind it.
    Gate,
}

impl Purpose {
    /// Of the kernel with this name.
    pub fn of(kernel: Option<&[u8]>) -> Self {
        if kernel == Some(b"cuprof_internal_gate") { Self::Gate } else { Self::CacheFlush }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::CacheFlush => "cuprof_cache_flush",
            Self::Gate => "cuprof_gate",
        }
    }
}

/// Launches that are remembered; their records come within a few.
const MAX_LAUNCHES: usize = 1 << 16;

/// Launches of the crate, by correlation id, and what came of them.
#[derive(Debug, Default)]
pub(super) struct Internal {
    launches: FxHashMap<CorrelationId, ThreadId>,
    order: VecDeque<CorrelationId>,
    flushes: u64,
    flush_sum_ns: i64,
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
    pub fn ran(&mut self, purpose: Purpose, span: Option<(i64, i64)>) {
        if purpose == Purpose::CacheFlush {
            self.flushes += 1;
            self.flush_sum_ns += span.map_or(0, |(start, end)| end - start);
        }
    }

    /// Facts of the run; none where nothing ran.
    pub fn facts(&self) -> Vec<(&'static str, String)> {
        if self.flushes == 0 {
            return Vec::new();
        }
        vec![
            ("control.cache_flushes", self.flushes.to_string()),
            ("control.cache_flush_sum_ns", self.flush_sum_ns.to_string()),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launches_whose_records_never_come_are_forgotten_in_their_order() {
        let mut internal = Internal::default();
        let last = 2 * MAX_LAUNCHES as u32;
        for number in 0..=last {
            internal.launched(CorrelationId(number), ThreadId(1));
            assert!(internal.launches.len() <= MAX_LAUNCHES && internal.order.len() <= MAX_LAUNCHES);
        }
        assert_eq!(internal.thread_of(CorrelationId(last)), Some(ThreadId(1)));
        assert_eq!(internal.thread_of(CorrelationId(last - MAX_LAUNCHES as u32)), None);
    }
}
