//! On a thread that has logged before, ranges, NVTX pushes and launches allocate nothing.
//!
//! A binary of its own, because it counts allocations.
#![expect(unsafe_code, reason = "an allocator is unsafe by its trait")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use cuprof::testing;

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's promise is this one's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations_of(act: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.get();
    act();
    ALLOCATIONS.get() - before
}

fn one_of_each(n: u32) {
    let range = cuprof::range!("range", n = n, precision = "fp16");
    testing::nvtx_push(c"push");
    testing::launch(n);
    let entered = range.handle().enter();
    drop(cuprof::process_range("process"));
    testing::nvtx_pop();
    drop(entered);
}

#[test]
fn a_warmed_thread_logs_without_allocating_even_into_a_full_ring() {
    assert!(allocations_of(|| drop(Box::new(1))) > 0, "the counter does not count");
    testing::begin_session();
    one_of_each(0);
    for _ in 0..20 {
        assert_eq!(allocations_of(|| (0..200).for_each(one_of_each)), 0);
        testing::discard();
    }
    assert_eq!(testing::dropped(), 0);
    assert_eq!(allocations_of(|| (0..5000).for_each(one_of_each)), 0);
    assert!(testing::dropped() > 0, "the ring never was full");
    testing::end_session();
    assert_eq!(allocations_of(|| (0..200).for_each(one_of_each)), 0);
}
