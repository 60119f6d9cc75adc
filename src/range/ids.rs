//! Numbers for range instances, and the count of changes of the set of open process-wide ranges.

use std::cell::Cell;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::units::{ProcessEpoch, RangeId};

/// Ids that a thread takes at once, so that threads rarely touch the shared counter.
const BLOCK: u64 = 1024;

/// The first id that no thread has taken; 0 is never an id.
static NEXT_BLOCK: AtomicU64 = AtomicU64::new(1);

thread_local! {
    /// The next id of this thread's block, and the block's end.
    static MINE: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
}

/// A range id that no other call returns.
#[inline]
pub(super) fn next_range() -> RangeId {
    let (mut next, mut end) = MINE.get();
    if next == end {
        next = NEXT_BLOCK.fetch_add(BLOCK, Ordering::Relaxed);
        end = next + BLOCK;
    }
    MINE.set((next + 1, end));
    RangeId(NonZeroU64::new(next).unwrap_or(NonZeroU64::MAX))
}

static EPOCH: AtomicU32 = AtomicU32::new(0);

/// The present epoch.
///
/// Relaxed suffices: a thread that has learned of a process range from the thread that started it (by a lock, a
/// channel, a join) also sees the number that the start took.
#[inline]
pub(crate) fn epoch() -> ProcessEpoch {
    ProcessEpoch(EPOCH.load(Ordering::Relaxed))
}

/// Begins the next epoch: a process-wide range starts or ends.
#[inline]
pub(super) fn next_epoch() -> ProcessEpoch {
    ProcessEpoch(EPOCH.fetch_add(1, Ordering::Relaxed).wrapping_add(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_unique_across_threads_and_blocks() {
        let take = || (0..5000).map(|_| next_range()).collect::<Vec<_>>();
        let threads: Vec<_> = (0..4).map(|_| std::thread::spawn(take)).collect();
        let ids: Vec<_> = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
        let unique: std::collections::HashSet<_> = ids.iter().collect();
        assert_eq!(unique.len(), ids.len());
    }
}
