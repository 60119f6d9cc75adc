//! Cache and clocks: what does a kernel find in the L2 cache, and at which clock does it run?
//!
//! `y = 2 x` for a vector that fits into the cache and for one that does not, with a cache that is cold and with one
//! that is as the run before left it. Clocks are read and left alone (`Clocks::Measure`): locking them takes
//! administrator's rights, and is somebody else's business on a shared GPU.
//!
//! ```sh
//! cargo run --release --example tutorial_03_cache_and_clocks   # writes tutorial_03_cache_and_clocks/, needs a GPU, NVRTC
//! ```

mod common;

use std::cell::RefCell;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use common::frame::Frame;
use common::tutorial::{Outcome, fact, holds, median};
use cuprof::bench::{DURATION, Report};
use cuprof::{Bench, Cache, Clocks, Dataset, Table};
use cuprof_workload::{Compiled, Gpu};

/// Floats of a vector of 1 MiB, and of one of 64 MiB.
const SIZES: [usize; 2] = [1 << 18, 1 << 24];
/// What comes from memory and not from the cache: the proof that the cache is cold.
const READ: &str = "dram__bytes_read.sum";

fn main() -> ExitCode {
    common::tutorial::run(measure, policies)
}

fn measure(gpu: &Gpu, folder: &Path) -> Outcome {
    let mut out = std::io::stdout();
    let kernels = Compiled::new(gpu)?;
    let stream = gpu.stream()?;
    let buffers =
        SIZES.map(|n| Ok::<_, String>((gpu.zeros(&stream, n)?, RefCell::new(gpu.zeros(&stream, n)?))));
    let buffers = buffers.into_iter().collect::<Result<Vec<_>, _>>()?;
    let measured = |cache: Cache| {
        let bench = Bench::new(format!("y = 2 x, cache: {cache}"));
        let bench = bench.configs(0..SIZES.len()).parameters(["size"]).cache(cache).clocks(Clocks::Measure);
        let bench = bench.output(folder.join(cache.state()).with_extension("cuprof")).metrics([READ]);
        // Reads four bytes an element, and writes four.
        let bench = bench
            .derive("bandwidth", "GB/s", |measured, size| 8.0 * SIZES[*size] as f64 / measured.duration_ns());
        bench.run(|run, size| {
            let (x, y) = &buffers[*size];
            // What the cache holds, unless it is flushed. It is over before what is measured begins.
            kernels.scale(&stream, x, &mut y.borrow_mut())?;
            gpu.synchronize()?;
            run.measure("scale", || kernels.scale(&stream, x, &mut y.borrow_mut()))
        })
    };
    let (warm, cold) = (measured(Cache::Keep)?, measured(Cache::Flush)?);

    writeln!(
        out,
        "{:>10} {:>11} {:>9} {:>7} {:>8} {:>17} {:>8}",
        "bytes", "cache", "us", "GB/s", "SM MHz", "from memory", "clocks"
    )?;
    for (size, n) in SIZES.into_iter().enumerate() {
        for report in [&warm, &cold] {
            // Counters may be kept for administrators; the times are there all the same.
            let from_memory = median(report, size, "scale", READ);
            writeln!(
                out,
                "{:>10} {:>11} {:>9.2} {:>7.0} {:>8} {:>17} {:>8}",
                4 * n,
                fact(report, "bench.cache_state")?,
                median(report, size, "scale", DURATION)? / 1e3,
                median(report, size, "scale", "bandwidth")?,
                sm_clock_mhz(report, size).map_or("-".to_owned(), |mhz| mhz.to_string()),
                from_memory
                    .map_or("not counted".to_owned(), |bytes| format!("{:.1} %", 25.0 * bytes / n as f64)),
                fact(report, "bench.clock_mode")?,
            )?;
        }
    }
    for report in [&warm, &cold] {
        report.warnings().iter().try_for_each(|warning| writeln!(out, "note: {warning}"))?;
    }
    writeln!(out, "\nclocks: {}\n{}", fact(&cold, "bench.clocks")?, fact(&cold, "bench.cache")?)?;
    let trace = Dataset::open(folder.join(Cache::Flush.state()).with_extension("cuprof"))?;
    let overheads = Frame::read(&trace, Table::Overheads, &["kind", "duration_ns"])?;
    let flushes = overheads.rows().filter(|row| row.text("kind") == Some("cuprof_cache_flush"));
    let mut flushes: Vec<i64> = flushes.map(|row| row.number("duration_ns")).collect();
    flushes.sort_unstable();
    let typical_ns = flushes.get(flushes.len() / 2).ok_or("the cache was not flushed")?;
    writeln!(
        out,
        "{} flushes of {typical_ns} ns (median), each a row of `overheads` and in no kernel's time\n",
        flushes.len()
    )?;

    let [cold_ns, warm_ns] = [&cold, &warm].map(|report| median(report, 0, "scale", DURATION));
    let (cold_ns, warm_ns) = (cold_ns?, warm_ns?);
    holds(
        cold_ns > warm_ns,
        format!("1 MiB takes {cold_ns:.0} ns from memory, and {warm_ns:.0} ns from the cache"),
    )?;
    if let (Ok(cold), Ok(warm)) = (median(&cold, 0, "scale", READ), median(&warm, 0, "scale", READ)) {
        let bytes = 4.0 * SIZES[0] as f64;
        holds(cold > 0.9 * bytes, format!("cold, {cold:.0} bytes of 1 MiB are read from memory"))?;
        holds(warm < 0.5 * bytes, format!("warm, {warm:.0} bytes of 1 MiB are"))?;
    }
    holds(fact(&cold, "bench.clock_status")? == "measured", "clocks were read, and left alone")
}

/// The clock of the multiprocessors in the last run of this size, as NVML tells it.
fn sm_clock_mhz(report: &Report, size: usize) -> Option<u32> {
    let of_size = report.samples().iter().rev().filter(|sample| sample.config_index == size);
    of_size.filter_map(|sample| sample.conditions?.sm_clock_mhz).next()
}

/// Elsewhere: what there is to choose from.
fn policies(_folder: &Path) -> Outcome {
    let mut out = std::io::stdout();
    writeln!(out, "What a kernel can find, and the word for it in tables:")?;
    for cache in [Cache::Keep, Cache::Flush, Cache::Memset(cuprof::FillSize::TimesL2(1))] {
        writeln!(out, "  {:<12} {cache}", cache.state())?;
    }
    Ok(())
}
