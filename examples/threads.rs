//! Threads: whose work is it?
//!
//! A range belongs to the thread that opened it. Two things reach further: a handle, with which other threads work
//! for a range, and a process range, which is around the work of all threads.
//!
//! ```sh
//! cargo run --release --example threads                        # writes threads.cuprof/
//! ```

mod common;

use std::error::Error;
use std::process::ExitCode;

use cuprof_workload::{Gpu, work};

const WORKERS: u64 = 4;

fn main() -> ExitCode {
    common::exit_code(run())
}

fn run() -> Result<(), Box<dyn Error>> {
    let options = common::Options::from_args("threads.cuprof")?;
    let profile = common::live_or_replayed(&options, "threads", |gpu| {
        // 1. Ranges of each thread. Each worker has a stream, so that their kernels can overlap on the GPU.
        on_workers(|index| {
            let _mine = cuprof::range!("own range", worker = index);
            launch(gpu, 10)
        })?;

        // 2. A handle: the workers' launches count for the range of the thread that waits for them. Their own
        //    ranges are inside it.
        {
            let request = cuprof::range!("request");
            let handle = request.handle();
            on_workers(|index| {
                let _entered = handle.enter();
                let _part = cuprof::range!("part", worker = index);
                launch(gpu, 10)
            })?;
        }

        // 3. A process range: whatever any thread launches while it is open, in addition to the thread's own ranges.
        //    It may end on another thread, and such ranges may overlap in any way.
        let epoch = cuprof::process_range("epoch");
        on_workers(|_| launch(gpu, 10))?;
        epoch.end();

        // 4. Outside of everything: the rows say `no_range`.
        on_workers(|_| launch(gpu, 1))
    })?;
    common::print_summary(&profile)?;
    Ok(())
}

/// Runs `body` on four threads at once, with the number of the thread.
fn on_workers(body: impl Fn(u64) -> Result<(), String> + Sync) -> Result<(), String> {
    std::thread::scope(|scope| {
        let body = &body;
        let workers: Vec<_> = (0..WORKERS).map(|index| scope.spawn(move || body(index))).collect();
        workers
            .into_iter()
            .try_for_each(|worker| worker.join().unwrap_or(Err("a worker panicked".to_owned())))
    })
}

/// So many kernels of 20 µs on a stream of the calling thread's own.
fn launch(gpu: &Gpu, kernels: u64) -> Result<(), String> {
    let stream = gpu.stream()?;
    for _ in 0..kernels {
        work::spin(gpu, &stream, 20_000)?;
    }
    gpu.synchronize()
}
