//! A sweep: two ways to move memory, over sizes, with a cache that is cold or as the run before left it.
//!
//! ```sh
//! cargo run --release --example sweep                          # writes sweep.cuprof/, needs a GPU
//! ```

mod common;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::error::Error;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use cuprof::bench::{Order, Report};
use cuprof::{Bench, Cache};
use cuprof_workload::Gpu;

const FLOATS: [usize; 4] = [1 << 16, 1 << 18, 1 << 20, 1 << 22];

fn main() -> ExitCode {
    common::exit_code(run())
}

fn run() -> Result<(), Box<dyn Error>> {
    let options = common::Options::from_args("sweep.cuprof")?;
    let mut out = std::io::stdout();
    let gpu = match Gpu::open() {
        Ok(gpu) => gpu,
        Err(reason) => {
            writeln!(out, "not measured, no GPU here: {reason}")?;
            return Ok(());
        }
    };
    write!(out, "{}", sweep(&gpu, Cache::Keep, None)?)?;
    write!(out, "{}", sweep(&gpu, Cache::Flush, Some(&options.output))?)?;
    writeln!(out, "launches, samples and aggregates are in {}", options.output.display())?;
    Ok(())
}

fn sweep(gpu: &Gpu, cache: Cache, output: Option<&Path>) -> Result<Report, Box<dyn Error>> {
    let stream = gpu.stream()?;
    // Allocated before: that is no part of what is measured, but takes its time.
    let mut buffers = BTreeMap::new();
    for floats in FLOATS {
        let (x, y) = (gpu.zeros(&stream, floats)?, gpu.zeros(&stream, floats)?);
        buffers.insert(floats, RefCell::new((x, y)));
    }
    let bench = Bench::new(format!("sweep, cache: {cache}"))
        .configs(FLOATS)
        .parameters(["floats"])
        .order(Order::Interleaved { block: 5, seed: 1 })
        .runs(40)
        .cache(cache)
        // The copy reads one buffer and writes one; saxpy also reads what it writes.
        .derive("bandwidth", "GB/s", |measured, floats: &usize| {
            let touched = if measured.annotation() == "saxpy" { 3 } else { 2 };
            (4 * touched * floats) as f64 / measured.duration_ns()
        })
        .normalize_against("copy");
    let bench = if let Some(output) = output { bench.output(output) } else { bench };
    let report = bench.run(|run, floats| {
        let buffers = buffers.get(floats).ok_or("there is no such buffer")?;
        let (x, y) = &mut *buffers.borrow_mut();
        run.measure("copy", || gpu.copy(&stream, x, y))?;
        run.measure("saxpy", || gpu.saxpy(&stream, y, x, 2.0))
    })?;
    Ok(report)
}
