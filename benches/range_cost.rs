//! What a range, an NVTX push and pop, and a launch cost the thread that makes them.
//!
//! `cargo bench --bench range_cost` prints nanoseconds per operation: the median of many short batches, and the 5th and
//! 95th percentile as spread. The rings are emptied between batches, outside the measured time. Other load on the
//! machine shows in the spread first.
#![expect(clippy::print_stdout, reason = "a bench prints its result")]

use std::hint::black_box;
use std::time::Instant;

use cuprof::testing;

const BATCHES: usize = 2000;
const PER_BATCH: u32 = 500;

fn measure(what: &str, mut operation: impl FnMut(u32)) {
    let mut batch_ns: Vec<f64> = (0..BATCHES)
        .map(|_| {
            let start = Instant::now();
            (0..PER_BATCH).for_each(&mut operation);
            let elapsed = start.elapsed();
            testing::discard();
            elapsed.as_secs_f64() * 1e9 / f64::from(PER_BATCH)
        })
        .collect();
    batch_ns.sort_by(f64::total_cmp);
    let at = |share: f64| batch_ns[(share * (BATCHES - 1) as f64) as usize];
    println!("{what:<44} {:7.1} ns   (p5 {:.1}, p95 {:.1})", at(0.5), at(0.05), at(0.95));
}

fn measure_all(session: &str) {
    measure(&format!("{session}: range guard"), |_| drop(black_box(cuprof::range!("range"))));
    measure(&format!("{session}: range guard, two arguments"), |n| {
        drop(black_box(cuprof::range!("range", n = n, precision = "fp16")));
    });
    measure(&format!("{session}: NVTX push and pop"), |_| {
        black_box(testing::nvtx_push(c"range"));
        black_box(testing::nvtx_pop());
    });
    measure(&format!("{session}: launch"), |n| testing::launch(black_box(n)));
}

fn main() {
    measure_all("no session");
    testing::begin_session();
    measure_all("session");
    testing::end_session();
    println!("events dropped: {}", testing::dropped());
}
