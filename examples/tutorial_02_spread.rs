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
    let report = Bench::new("spread").configs(SIZES).parameters(["n"]).runs(RUNS).run(|run, n| {
        let (_, x, y) = vectors.iter().find(|(len, ..)| len == n).ok_or("there is no such vector")?;
        run.measure("add", || gpu.saxpy(&stream, &mut y.borrow_mut(), x, 1.0))?;
        let rows = n.isqrt() as u32;
        run.measure("matmul", || gpu.gemm(&stream, &a, &b, &mut c.borrow_mut(), rows))
    })?;
    report.write(folder.join("bench.cuprof"))?;
    let tick: f64 = fact(&report, "bench.tick_ns")?.parse()?;
    heading(tick)?;
    for (config, n) in SIZES.into_iter().enumerate() {
        for annotation in ["add", "matmul"] {
            let told = &common::tutorial::aggregate(&report, config, annotation, DURATION)?.told;
            row(&format!("{annotation}, n = {n}"), told)?;
            verdict(told, &durations(&report, config, annotation))?;
        }
    }
    Ok(())
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
    heading(TICK_NS)?;
    for kernel in ["gemm", "saxpy"] {
        let of_kernel = |name: Option<&str>| name.and_then(|name| name.split('(').next()) == Some(kernel);
        let rows = launches.rows().filter(|row| of_kernel(row.text("kernel")));
        let rows = rows.filter(|row| row.text("range_path") == Some("epoch/step/forward"));
        let values: Vec<f64> = rows.filter_map(|row| row.int("duration_ns")).map(|ns| ns as f64).collect();
        let told = describe(&Sample::new(values.clone())?, TICK_NS);
        row(&format!("{kernel}, n = 65536"), &told)?;
        verdict(&told, &values)?;
    }
    Ok(())
}

fn heading(tick: f64) -> Outcome {
    let mut out = std::io::stdout();
    writeln!(out, "All in ns; the clock's tick is {tick} ns.\n")?;
    writeln!(
        out,
        "{:<22} {:>10} {:>8} {:>24} {:>10} {:>22} {:>7} {:>6} {:>6} {:>8}",
        "",
        "mean",
        "s",
        "95 % of the mean",
        "median",
        "95 % of the median",
        "s/mean",
        "stable",
        "n_eff",
        "by clock"
    )?;
    Ok(())
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

/// Intervals are Student's, whose quantile for 20 values is 2.093 and not 1.96; and no spread is claimed that the clock
/// cannot show.
fn verdict(told: &Description, values: &[f64]) -> Outcome {
    let sample = Sample::new(values)?;
    let (n, spread) = (values.len() as f64, sample.std_dev().ok_or("one run has no spread")?);
    let half_width = told.mean_interval.ok_or("the mean has no interval")?.half_width();
    if spread > 0.0 {
        let factor = half_width / spread * n.sqrt();
        holds(
            values.len() != RUNS || factor > 2.09,
            format!(
                "the interval of {n} values is {factor:.3} standard errors wide on each side, and not 1.960"
            ),
        )?;
    }
    let floor = told.tick / 12_f64.sqrt();
    let claimed = told.std_dev.unwrap_or_default();
    holds(
        claimed >= floor,
        format!("no spread below {floor:.1} ns, that of a clock with this tick, is claimed"),
    )
}
