//! The quick start: a small training loop, profiled.
//!
//! ```sh
//! cargo run --release --example quickstart                     # writes quickstart.cuprof/
//! cargo run --release --example quickstart -- --output my.cuprof
//! ```
//!
//! On a machine without a GPU it replays a recording of itself, through the same code, so that the summary and the
//! files can be looked at anywhere.

mod common;

use std::error::Error;
use std::process::ExitCode;

use cuprof_workload::Gpu;

/// Steps of the loop; each runs five kernels, two copies and one fill.
const STEPS: u32 = 20;
/// Batches that the loader thread prepares; each is one copy, one fill and one kernel.
const BATCHES: u32 = 20;
/// The rows of the square matrices.
const ROWS: u32 = 256;
const LEN: usize = (ROWS * ROWS) as usize;

fn main() -> ExitCode {
    common::exit_code(run())
}

fn run() -> Result<(), Box<dyn Error>> {
    let options = common::Options::from_args("quickstart.cuprof")?;
    // What a program does itself: `Profiler::builder().output(…).start()?`, the work, `profiler.finish()?`.
    let profile = common::live_or_replayed(&options, "quickstart", |gpu| {
        std::thread::scope(|scope| {
            let loader = scope.spawn(|| load(gpu));
            train(gpu)?;
            loader.join().unwrap_or(Err("the loader panicked".to_owned()))
        })
    })?;
    common::print_summary(&profile)?;
    Ok(())
}

/// The main thread: 20 steps, each in a range with ranges inside.
fn train(gpu: &Gpu) -> Result<(), String> {
    let stream = gpu.stream()?;
    let weights = gpu.upload(&stream, &vec![0.5; LEN])?;
    let mut hidden = gpu.zeros(&stream, LEN)?;
    let mut sums = gpu.zeros(&stream, LEN / 256)?;
    let epoch = cuprof::range!("epoch", rows = ROWS);
    for step in 0..STEPS {
        // The kernels launched until the end of this scope belong to the range, whenever they run on the GPU.
        let _step = cuprof::range!("step", index = step);
        let batch = cuprof::in_range("input", || gpu.upload(&stream, &vec![1.0; LEN]))?;
        {
            let _forward = cuprof::range!("forward");
            gpu.gemm(&stream, &batch, &weights, &mut hidden, ROWS)?;
            gpu.saxpy(&stream, &mut hidden, &batch, 0.1)?;
        }
        let mut gradient = cuprof::in_range("backward", || {
            let mut gradient = gpu.zeros(&stream, LEN)?; // one fill
            gpu.gemm(&stream, &hidden, &weights, &mut gradient, ROWS)?;
            gpu.reduce(&stream, &gradient, &mut sums)?;
            Ok::<_, String>(gradient)
        })?;
        cuprof::in_range("update", || gpu.fill(&stream, &mut gradient, 0.0))?;
        // Copies back to the host are attributed like kernels.
        cuprof::in_range("loss", || gpu.download(&stream, &sums))?;
    }
    drop(epoch);
    gpu.synchronize()
}

/// A second thread with a stream of its own. Its ranges are its own too: they are not inside those of `train`.
fn load(gpu: &Gpu) -> Result<(), String> {
    let stream = gpu.stream()?;
    let _loader = cuprof::range!("loader");
    for batch in 0..BATCHES {
        let _prefetch = cuprof::range!("prefetch", index = batch);
        let raw = gpu.upload(&stream, &vec![2.0; LEN])?;
        let mut ready = gpu.zeros(&stream, LEN)?;
        gpu.copy(&stream, &raw, &mut ready)?;
    }
    gpu.synchronize()
}
