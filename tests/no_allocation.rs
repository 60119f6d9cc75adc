//! On a thread that has logged before, ranges, NVTX pushes and launches allocate nothing, and neither does what CUPTI
//! calls.
//!
//! A binary of its own, because it counts allocations. The simulated CUPTI has an allocator of its own: what is counted
//! inside its calls is the crate's.
#![expect(unsafe_code, reason = "an allocator is unsafe by its trait")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::time::Duration;

use cuprof::{Profiler, testing};

use self::simulated::library::Simulated;
use self::simulated::process::Process;

#[expect(
    dead_code,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "shared with tests that use more of it"
)]
#[path = "simulated"]
mod simulated {
    pub mod library;
    pub mod process;
}

type Outcome = Result<(), Box<dyn std::error::Error>>;

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

#[test]
fn what_cupti_calls_allocates_nothing() -> Outcome {
    // Buffers are delivered when this test says so, and on its thread.
    Process::of(what_cupti_calls_allocates_nothing).with("SIM_HOLD", "1").run(|| {
        const LAUNCHES: u32 = 1500;
        const ROUNDS: u32 = 20;
        let profiler = Profiler::builder().flush_period(Duration::ZERO).start()?;
        let cupti = Simulated::get();
        // Each function of the simulation is looked up by its name, which allocates.
        let lookup = allocations_of(|| _ = cupti.all_calls());
        let assert_none = |calls: u32, what: &str, act: &dyn Fn()| {
            assert_eq!(allocations_of(act), u64::from(calls) * lookup, "{what}");
        };
        cupti.launch(LAUNCHES); // the thread's ring, and the kernel's name
        for _ in 0..ROUNDS {
            profiler.flush()?; // so that the ring has room
            // Both ends of each launching call, and a request for a buffer about every thousand.
            let launch = || _ = cupti.launch(LAUNCHES);
            assert_none(1, "launching", &launch);
        }
        assert!(cupti.buffers_held() > 0, "no buffer was ever asked for");
        // CUPTI gives buffers back on whatever thread it likes.
        let waiting = cupti.close_buffers();
        assert!(waiting > 0);
        assert_none(waiting, "delivering", &|| (0..waiting).for_each(|_| cupti.deliver(0)));
        profiler.flush()?;
        // Modules and contexts that go, and the same kernel under its name again.
        assert_none(3, "a module and a context go", &|| {
            cupti.unload_module();
            cupti.destroy_context(1);
            cupti.launch(1);
        });
        assert_none(1, "a fatal error", &|| cupti.fatal());
        assert_eq!(profiler.finish()?.launches(), u64::from((ROUNDS + 1) * LAUNCHES + 1));
        Ok(())
    })
}
