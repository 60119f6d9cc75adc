//! Spread: how much do 20 runs differ, and how well do they tell the time?
//!
//! Two kernels, each small and large. A short kernel takes few ticks of the clock that it is timed by, so that its runs
//! seem equal: that is the clock's doing, and is told.
//!
//! ```sh
//! cargo run --release --example tutorial_02_spread             # writes tutorial_02_spread/, needs a GPU
//! ```

mod common;

use std::cell::RefCell;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use common::frame::Frame;
use common::tutorial::{Outcome, durations, fact, holds};
use cuprof::bench::DURATION;
use cuprof::stats::{Description, Interval, Sample, describe};
use cuprof::{Bench, Dataset, Table};
use cuprof_workload::Gpu;

const RUNS: usize = 20;
/// Elements of a vector, and of a matrix of 128 or 4096 rows.
const SIZES: [usize; 2] = [1 << 14, 1 << 24];

fn main() -> ExitCode {
    common::tutorial::run(measure, recorded)
}

fn measure(gpu: &Gpu, folder: &Path) -> Outcome {
    let stream = gpu.stream()?;
    let buffers = || -> Result<_, String> {
        let most = SIZES[1];
        Ok((gpu.zeros(&stream, most)?, gpu.zeros(&stream, most)?, RefCell::new(gpu.zeros(&stream, most)?)))
    };
    let (a, b, c) = buffers()?;
    let vectors =
        SIZES.map(|n| Ok::<_, String>((n, gpu.zeros(&stream, n)?, RefCell::new(gpu.zeros(&stream, n)?))));
    let vectors = vectors.into_iter().collect::<Result<Vec<_>, _>>()?;
    let bench = Bench::new("spread").configs(SIZES).parameters(["n"]).runs(RUNS);
    let report = bench.output(folder.join("bench.cuprof")).run(|run, n| {
        let (_, x, y) = vectors.iter().find(|(len, ..)| len == n).ok_or("there is no such vector")?;
        run.measure("add", || gpu.saxpy(&stream, &mut y.borrow_mut(), x, 1.0))?;
        let rows = n.isqrt() as u32;
        run.measure("matmul", || gpu.gemm(&stream, &a, &b, &mut c.borrow_mut(), rows))
    })?;
    let mut rows = Vec::new();
    for (config, n) in SIZES.into_iter().enumerate() {
        for annotation in ["add", "matmul"] {
            let told = common::tutorial::aggregate(&report, config, annotation, DURATION)?.told.clone();
            rows.push((format!("{annotation}, n = {n}"), told, durations(&report, config, annotation)));
        }
    }
    show(&rows, fact(&report, "bench.tick_ns")?.parse()?)
}

/// Elsewhere: the statistics of launches that were recorded on a GPU.
fn recorded(folder: &Path) -> Outcome {
    let recording = common::recordings().join("quickstart.cuprofrec");
    common::replay(&recording, folder)?;
    writeln!(std::io::stdout(), "the same of the launches in {}:\n", recording.display())?;
    let columns = ["range_path", "kernel", "duration_ns"];
    let launches = Frame::read(&Dataset::open(folder)?, Table::Launches, &columns)?;
    // The clock of an H200 goes in steps of 32 ns.
    const TICK_NS: f64 = 32.0;
    let mut rows = Vec::new();
    for kernel in ["gemm", "saxpy"] {
        let of_kernel = |name: Option<&str>| name.and_then(|name| name.split('(').next()) == Some(kernel);
        let its = launches.rows().filter(|row| of_kernel(row.text("kernel")));
        let its = its.filter(|row| row.text("range_path") == Some("epoch/step/forward"));
        let times: Vec<f64> = its.filter_map(|row| row.int("duration_ns")).map(|ns| ns as f64).collect();
        rows.push((format!("{kernel}, n = 65536"), describe(&Sample::new(times.clone())?, TICK_NS), times));
    }
    show(&rows, TICK_NS)
}

/// Prints the rows, and checks what they claim: intervals are Student's, whose quantile for 20 values is 2.093 and not
/// 1.96, and no spread is told that the clock cannot show.
fn show(rows: &[(String, Description, Vec<f64>)], tick: f64) -> Outcome {
    let mut out = std::io::stdout();
    writeln!(
        out,
        "in ns {:>27} {:>8} {:>24} {:>10} {:>22} {:>7} {:>6} {:>6} {:>8}",
        "mean", "s", "95 % of the mean", "median", "95 % of the median", "s/mean", "stable", "n_eff", "clock"
    )?;
    rows.iter().try_for_each(|(name, told, _)| row(name, told))?;
    writeln!(out)?;
    let mut factors = Vec::new();
    for (name, told, times) in rows {
        let spread = Sample::new(times.clone())?.std_dev().ok_or("one run has no spread")?;
        let half_width = told.mean_interval.ok_or_else(|| format!("{name} has no interval"))?.half_width();
        if spread > 0.0 {
            factors.push(half_width / spread * (times.len() as f64).sqrt());
        }
    }
    let least = factors.iter().copied().fold(f64::INFINITY, f64::min);
    holds(
        rows.iter().all(|(_, _, times)| times.len() == RUNS) && least > 2.09,
        format!(
            "means of {RUNS} runs are known to {least:.3} standard errors or more on each side, not 1.960"
        ),
    )?;
    let floor = tick / 12_f64.sqrt();
    holds(
        rows.iter().all(|(_, told, _)| told.std_dev.is_some_and(|spread| spread >= floor)),
        format!("no spread below {floor:.1} ns is told, that of a clock with a tick of {tick} ns"),
    )
}

fn row(name: &str, told: &Description) -> Outcome {
    let number =
        |value: Option<f64>, digits: usize| value.map_or("-".to_owned(), |value| format!("{value:.digits$}"));
    let ends = |ends: Option<Interval>| {
        ends.map_or("-".to_owned(), |ends| format!("{:.0} to {:.0}", ends.low, ends.high))
    };
    writeln!(
        std::io::stdout(),
        "{name:<22} {:>10} {:>8} {:>24} {:>10} {:>22} {:>7} {:>6} {:>6} {:>8}",
        number(told.mean, 0),
        number(told.std_dev, 1),
        ends(told.mean_interval),
        number(told.median(), 0),
        ends(told.median_interval),
        told.cv.map_or("-".to_owned(), |cv| format!("{:.2} %", 100.0 * cv)),
        if told.is_stable() { "yes" } else { "no" },
        number(Some(told.n_eff), 1),
        if told.is_resolution_limited { "limited" } else { "" },
    )?;
    Ok(())
}
