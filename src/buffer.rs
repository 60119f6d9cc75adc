//! The pool of activity buffers that CUPTI fills: allocated and touched before they are needed, recycled,
//! never freed.
//!
//! CUPTI asks for a buffer inside a launching call of the application, and fills it for as long as it likes,
//! even after a session has ended. So blocks belong to the process, a block is in exactly one place at any
//! time (free list, CUPTI, full list, worker), and handing one out is a pop from a lock-free queue.
#![expect(unsafe_code, reason = "owns the raw memory that C writes into")]

use std::alloc::Layout;
use std::ptr::NonNull;
use std::time::Instant;

use crate::sync::{ArrayQueue, AtomicUsize, Ordering, sized};

/// Bytes of one block. Large enough that a request, which happens inside a launch, is rare (about every 1 000
/// kernels), small enough that a partly filled one per thread costs little.
pub const BLOCK_BYTES: usize = sized(256 << 10, 64);

/// Blocks that exist before the first launch.
pub const INITIAL_BLOCKS: usize = 64;

/// Blocks that may exist: the memory bound of the pool is `MAX_BLOCKS * BLOCK_BYTES`, 256 MiB.
pub const MAX_BLOCKS: usize = sized(1024, 3);

/// The worker adds blocks when fewer than this many are free.
const LOW_WATER: usize = sized(32, 1);

/// Alignment of a block: a page, more than the 8 bytes that CUPTI asks for.
const ALIGN: usize = 4096;

/// One block of [`BLOCK_BYTES`] zeroed bytes, owned by whoever holds the value.
#[derive(Debug)]
pub(crate) struct Block(NonNull<u8>);

// SAFETY: a block is plain memory without thread affinity, and the value is its only owner.
unsafe impl Send for Block {}

impl Block {
    fn allocate() -> Option<Self> {
        let layout = Layout::from_size_align(BLOCK_BYTES, ALIGN).ok()?;
        // SAFETY: the layout has a size above zero.
        let pointer = unsafe { std::alloc::alloc_zeroed(layout) };
        let mut block = Self(NonNull::new(pointer)?);
        // Zeroed memory may be untouched pages; writing makes the kernel provide them now, not in a launch.
        block.clear();
        Some(block)
    }

    /// Writes zeros over the whole block, which CUPTI is promised.
    fn clear(&mut self) {
        // SAFETY: the block spans BLOCK_BYTES bytes from its pointer and is owned by `self`.
        unsafe { self.0.as_ptr().write_bytes(0, BLOCK_BYTES) };
    }

    /// Gives the block to C. It comes back through [`Block::from_raw`] or never.
    pub fn into_raw(self) -> *mut u8 {
        self.0.as_ptr()
    }

    /// Takes a block back from C.
    ///
    /// # Safety
    /// `pointer` came from [`Block::into_raw`], and C gave it back exactly once since.
    pub unsafe fn from_raw(pointer: NonNull<u8>) -> Self {
        Self(pointer)
    }

    /// The block's address, for the C function that walks it.
    pub fn as_ptr(&self) -> *mut u8 {
        self.0.as_ptr()
    }

    /// The first `length` bytes.
    pub fn bytes(&self, length: usize) -> &[u8] {
        let length = length.min(BLOCK_BYTES);
        // SAFETY: all BLOCK_BYTES bytes were initialised with zeros, and C no longer writes to a block it gave back.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr(), length) }
    }
}

/// A block that CUPTI has filled, with the number of valid bytes.
#[derive(Debug)]
pub(crate) struct Filled {
    pub block: Block,
    pub valid_bytes: usize,
    /// When CUPTI gave it back: what launched its records was logged before.
    pub completed: Instant,
}

/// The process's blocks.
#[derive(Debug)]
pub(crate) struct Pool {
    free: ArrayQueue<Block>,
    full: ArrayQueue<Filled>,
    allocated: AtomicUsize,
    declined: AtomicUsize,
    delivered: AtomicUsize,
}

impl Pool {
    /// The pool of this process; empty until [`Pool::prepare`].
    pub fn get() -> &'static Self {
        static POOL: std::sync::OnceLock<Pool> = std::sync::OnceLock::new();
        POOL.get_or_init(Self::new)
    }

    /// An empty pool.
    pub fn new() -> Self {
        // Each queue has room for every block, so a push can only fail if a block exists twice.
        Self {
            free: ArrayQueue::new(MAX_BLOCKS),
            full: ArrayQueue::new(MAX_BLOCKS),
            allocated: AtomicUsize::new(0),
            declined: AtomicUsize::new(0),
            delivered: AtomicUsize::new(0),
        }
    }

    /// Makes at least `blocks` blocks exist. Called at the start of a session and by the worker.
    pub fn prepare(&self, blocks: usize) {
        while self.allocated.load(Ordering::Relaxed) < blocks.min(MAX_BLOCKS) {
            let Some(block) = self.grow() else { return };
            self.recycle_clean(block);
        }
    }

    /// A new block, within the bound.
    fn grow(&self) -> Option<Block> {
        let within_bound = |blocks| (blocks < MAX_BLOCKS).then_some(blocks + 1);
        self.allocated.fetch_update(Ordering::Relaxed, Ordering::Relaxed, within_bound).ok()?;
        let block = Block::allocate();
        if block.is_none() {
            self.allocated.fetch_sub(1, Ordering::Relaxed);
        }
        block
    }

    /// Adds blocks while few are free and the bound allows it.
    pub fn refill(&self) {
        while self.free.len() < LOW_WATER && self.allocated.load(Ordering::Relaxed) < MAX_BLOCKS {
            let target = self.allocated.load(Ordering::Relaxed) + 1;
            self.prepare(target);
            if self.allocated.load(Ordering::Relaxed) < target {
                return; // out of memory: what exists must do
            }
        }
    }

    /// A free block, or none: then CUPTI drops records and counts them. Never waits.
    ///
    /// Where none is free, one is allocated on the spot, within the bound: many threads that launch for the first time
    /// at once each need one, before the worker can know. It costs that launch some 100 µs; its record would be lost
    /// otherwise.
    pub fn take(&self) -> Option<Block> {
        let block = self.free.pop().or_else(|| self.grow());
        if block.is_none() {
            self.declined.fetch_add(1, Ordering::Relaxed);
        }
        block
    }

    /// Queues a filled block for the worker. Never waits or allocates.
    pub fn complete(&self, filled: Filled) {
        self.delivered.fetch_add(1, Ordering::Relaxed);
        // A full queue would mean that more blocks exist than were allocated; the block is then leaked.
        let _impossible = self.full.push(filled);
    }

    /// The next filled block.
    pub fn next_full(&self) -> Option<Filled> {
        self.full.pop()
    }

    /// Clears a block and makes it available again.
    pub fn recycle(&self, mut block: Block) {
        block.clear();
        self.recycle_clean(block);
    }

    fn recycle_clean(&self, block: Block) {
        let _impossible = self.free.push(block);
    }

    /// How many filled blocks there have been.
    pub fn delivered(&self) -> usize {
        self.delivered.load(Ordering::Relaxed)
    }

    /// How often a request found no free block since the last call.
    pub fn take_declined(&self) -> u64 {
        self.declined.swap(0, Ordering::Relaxed) as u64
    }

    /// Bytes that the pool has allocated.
    pub fn memory_bytes(&self) -> usize {
        self.allocated.load(Ordering::Relaxed) * BLOCK_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_that_comes_back_is_clean() {
        let pool = Pool::new();
        pool.prepare(1);
        let block = pool.take().expect("one block exists");
        let pointer = NonNull::new(block.into_raw()).expect("blocks are not null");
        // SAFETY: the block is owned by this test and has BLOCK_BYTES bytes.
        unsafe { pointer.as_ptr().write(7) };
        // SAFETY: `pointer` came from `into_raw` two lines up.
        let block = unsafe { Block::from_raw(pointer) };
        pool.complete(Filled { block, valid_bytes: 8, completed: Instant::now() });
        let filled = pool.next_full().expect("it was completed");
        assert_eq!(filled.block.bytes(filled.valid_bytes)[0], 7);
        pool.recycle(filled.block);
        let block = pool.take().expect("it was recycled");
        assert!(block.bytes(BLOCK_BYTES).iter().all(|byte| *byte == 0));
    }

    #[test]
    fn an_exhausted_pool_declines_and_counts() {
        let pool = Pool::new();
        let taken: Vec<_> = std::iter::from_fn(|| pool.take()).collect();
        assert_eq!(taken.len(), MAX_BLOCKS);
        assert_eq!(pool.memory_bytes(), MAX_BLOCKS * BLOCK_BYTES);
        assert!(pool.take().is_none());
        assert_eq!(pool.take_declined(), 2);
        assert_eq!(pool.take_declined(), 0);
    }

    #[test]
    fn the_pool_never_grows_above_its_bound() {
        let pool = Pool::new();
        pool.prepare(3);
        assert_eq!(pool.memory_bytes(), 3 * BLOCK_BYTES);
        pool.refill();
        assert_eq!(pool.memory_bytes(), LOW_WATER * BLOCK_BYTES);
    }

    #[test]
    fn requests_from_many_threads_get_distinct_blocks() {
        let pool = Pool::new();
        pool.prepare(16);
        let mut addresses: Vec<usize> = std::thread::scope(|scope| {
            let takers: Vec<_> =
                (0..16).map(|_| scope.spawn(|| pool.take().map(|block| block.into_raw() as usize))).collect();
            takers.into_iter().filter_map(|taker| taker.join().ok().flatten()).collect()
        });
        addresses.sort_unstable();
        addresses.dedup();
        assert_eq!(addresses.len(), 16);
    }
}
