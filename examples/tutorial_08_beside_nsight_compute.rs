//! Durations beside Nsight Compute, and two engines in one process.
//!
//! Kernels are timed while they run as always, then counted in passes, then timed again: one process, no replay for
//! the times. Where Nsight Compute is installed (`NCU`, the path, or the toolkit's folder), it measures the same kernels
//! in a process that it starts, and replays them for that.
//!
//! ```sh
//! cargo run --release --example tutorial_08_beside_nsight_compute   # writes tutorial_08_…/, needs a GPU
//! ```

mod common;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::error::Error;
use std::io::Write;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::Instant;

use common::frame::Frame;
use common::tutorial::{Outcome, csv, durations, holds, median};
use cuprof::bench::{DURATION, Report};
use cuprof::counters::{Plan, Session};
use cuprof::stats::{Sample, Verdict, welch};
use cuprof::{Bench, Cache, Dataset, ErrorKind, Profiler, Table};
use cuprof_workload::Gpu;
use cuprof_workload::cudarc::driver::{CudaSlice, CudaStream};

const ROWS: [u32; 4] = [512, 1024, 2048, 4096];
const RUNS: usize = 10;
const WARM_UP: usize = 2;
/// How far two sessions may differ before that is more than noise.
const NOISE: f64 = 0.02;

fn main() -> ExitCode {
    // The processes that this one starts.
    match std::env::args().nth(1).as_deref() {
        Some("bare") => return common::exit_code(bare()),
        Some("fresh") => return common::exit_code(fresh()),
        _ => {}
    }
    common::tutorial::run(measure, |_| {
        let found = if find_ncu().is_some() { "is" } else { "is not" };
        writeln!(std::io::stdout(), "Nsight Compute, beside which it would measure, {found} here.")?;
        Ok(())
    })
}

fn measure(gpu: &Gpu, folder: &Path) -> Outcome {
    let mut out = std::io::stdout();
    let work = Work::new(gpu)?;

    let started = Instant::now();
    let (cold, warm) = (work.timed(Cache::Flush, None)?, work.timed(Cache::Keep, None)?);
    let timing = started.elapsed();
    cold.write(folder.join("cold.cuprof"))?;

    let started = Instant::now();
    let plan = Plan::for_device(0, ["headline"])?;
    let counted = Session::new(plan.clone()).run(|pass| {
        ROWS.iter().try_for_each(|rows| pass.range(&rows.to_string(), || work.multiply(*rows)))
    })?;
    let counting = started.elapsed();
    counted.write(folder.join("counters.cuprof"))?;

    // At the same time, neither would be right, so that is refused.
    let profiler = Profiler::builder().start()?;
    let refused = Session::new(plan).run(|pass| pass.range("refused", || ())).err();
    profiler.finish()?;

    let trace = folder.join("again.cuprof");
    let started = Instant::now();
    let again = work.timed(Cache::Flush, Some(&trace))?;
    let timing_again = started.elapsed();
    let started = Instant::now();
    let in_fresh_process = lines_of(Command::new(std::env::current_exe()?).arg("fresh"))?;
    let timing_fresh = started.elapsed();

    writeln!(out, "times (cold and warm)       {:>8.2} s, without replay", timing.as_secs_f64())?;
    writeln!(
        out,
        "counters                    {:>8.2} s, {} passes",
        counting.as_secs_f64(),
        counted.rounds
    )?;
    writeln!(out, "times again (cold)          {:>8.2} s", timing_again.as_secs_f64())?;
    writeln!(out, "the same in a fresh process {:>8.2} s", timing_fresh.as_secs_f64())?;
    writeln!(out, "\nwhat tracing itself took in the second session:")?;
    let mut overheads: BTreeMap<String, (usize, i64)> = BTreeMap::new();
    for row in Frame::read(&Dataset::open(&trace)?, Table::Overheads, &["kind", "duration_ns"])?.rows() {
        let entry = overheads.entry(row.text("kind").unwrap_or_default().to_owned()).or_default();
        *entry = (entry.0 + 1, entry.1 + row.number("duration_ns"));
    }
    for (kind, (count, ns)) in overheads {
        writeln!(out, "  {kind:<24} {count:>6} times {:>10.1} us", ns as f64 / 1e3)?;
    }

    let theirs = match find_ncu() {
        Some(ncu) => Some((under_ncu(&ncu, "all")?, under_ncu(&ncu, "none")?)),
        None => None,
    };
    writeln!(
        out,
        "\nmedians in us; the difference is what Nsight Compute has in its time and CUPTI's record has not"
    )?;
    writeln!(out, "  rows     cold  s/mean      ncu  difference      warm      ncu  difference")?;
    for (config, rows) in ROWS.iter().enumerate() {
        let ours = [&cold, &warm].map(|report| median(report, config, "matmul", DURATION));
        let spread =
            common::tutorial::aggregate(&cold, config, "matmul", DURATION)?.told.cv.unwrap_or_default();
        let [ours_cold, ours_warm] = ours;
        let (ours_cold, ours_warm) = (ours_cold?, ours_warm?);
        let of = |all: &Vec<f64>| {
            Sample::new(all.get(config * (WARM_UP + RUNS) + WARM_UP..)?.get(..RUNS)?).ok()?.median()
        };
        let cells = |ours: f64, theirs: Option<f64>| match theirs {
            Some(theirs) => format!("{:>8.2} {:>11.2}", theirs / 1e3, (theirs - ours) / 1e3),
            None => format!("{:>8} {:>11}", "-", "-"),
        };
        writeln!(
            out,
            "{rows:>6} {:>8.2} {:>6.2}% {}  {:>8.2} {}",
            ours_cold / 1e3,
            100.0 * spread,
            cells(ours_cold, theirs.as_ref().and_then(|(cold, _)| of(cold))),
            ours_warm / 1e3,
            cells(ours_warm, theirs.as_ref().and_then(|(_, warm)| of(warm))),
        )?;
    }
    if theirs.is_none() {
        writeln!(out, "Nsight Compute is not installed here: set NCU to its path.")?;
    }
    writeln!(out)?;

    let refused = refused.ok_or("counters were counted while a session traced")?;
    holds(
        refused.kind == ErrorKind::AlreadyRunning,
        format!("counting while tracing was refused: {}", first_line(&refused)),
    )?;
    for (config, rows) in ROWS.iter().enumerate() {
        let fresh = in_fresh_process.get(config).ok_or("the fresh process measured too little")?;
        let comparison = welch(fresh, &durations(&again, config, "matmul"))?;
        let change = 100.0 * comparison.change_ratio();
        let same = !matches!(comparison.verdict(NOISE), Verdict::Slower | Verdict::Faster);
        holds(
            same,
            format!("{rows} rows: after counting, times are those of a fresh process ({change:+.2} %)"),
        )?;
    }
    Ok(())
}

/// The kernels that are measured: matrix products, each one launch.
struct Work<'a> {
    gpu: &'a Gpu,
    stream: Arc<CudaStream>,
    a: CudaSlice<f32>,
    b: CudaSlice<f32>,
    c: RefCell<CudaSlice<f32>>,
}

impl<'a> Work<'a> {
    fn new(gpu: &'a Gpu) -> Result<Self, String> {
        let stream = gpu.stream()?;
        let most = ROWS.iter().max().map_or(0, |rows| (rows * rows) as usize);
        let zeros = || gpu.zeros(&stream, most);
        let (a, b, c) = (zeros()?, zeros()?, RefCell::new(zeros()?));
        Ok(Self { gpu, stream, a, b, c })
    }

    fn multiply(&self, rows: u32) -> Result<(), String> {
        self.gpu.gemm(&self.stream, &self.a, &self.b, &mut self.c.borrow_mut(), rows)
    }

    fn timed(&self, cache: Cache, trace: Option<&Path>) -> Result<Report, Box<dyn Error>> {
        let bench = Bench::new("matrix products").configs(ROWS).parameters(["rows"]);
        let bench = bench.runs(RUNS).warm_up(WARM_UP).cache(cache);
        let bench = if let Some(trace) = trace { bench.trace(trace) } else { bench };
        Ok(bench.run(|run, rows| run.measure("matmul", || self.multiply(*rows)))?)
    }
}

/// In a process of its own: the kernels without any measurement, for Nsight Compute.
fn bare() -> Outcome {
    let gpu = Gpu::open()?;
    let work = Work::new(&gpu)?;
    for rows in ROWS {
        (0..WARM_UP + RUNS).try_for_each(|_| work.multiply(rows))?;
        gpu.synchronize()?;
    }
    Ok(())
}

/// In a process of its own: the times alone, a line of them for each number of rows.
fn fresh() -> Outcome {
    cuprof::forbid_clock_control();
    let gpu = Gpu::open()?;
    let report = Work::new(&gpu)?.timed(Cache::Flush, None)?;
    for config in 0..ROWS.len() {
        let times: Vec<_> = durations(&report, config, "matmul").iter().map(f64::to_string).collect();
        writeln!(std::io::stdout(), "{}", times.join(" "))?;
    }
    Ok(())
}

/// The numbers on each line that a program prints.
fn lines_of(command: &mut Command) -> Result<Vec<Vec<f64>>, Box<dyn Error>> {
    let lines = output_of(command)?;
    let numbers = |line: &str| line.split(' ').map(str::parse).collect::<Result<Vec<f64>, _>>();
    Ok(lines.lines().map(numbers).collect::<Result<_, _>>()?)
}

fn output_of(command: &mut Command) -> Result<String, Box<dyn Error>> {
    let output = command.output().map_err(|error| format!("{}: {error}", command.get_program().display()))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(text);
    }
    Err(format!(
        "{command:?} ended with {}\n{text}{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    )
    .into())
}

fn find_ncu() -> Option<String> {
    let candidates = match std::env::var("NCU") {
        Ok(named) => vec![named],
        Err(_) => vec!["ncu".to_owned(), "/usr/local/cuda/bin/ncu".to_owned()],
    };
    let answers = |ncu: &String| {
        Command::new(ncu).arg("--version").output().is_ok_and(|output| output.status.success())
    };
    candidates.into_iter().find(answers)
}

/// What Nsight Compute measures of each launch, in nanoseconds. Clocks are left alone.
fn under_ncu(ncu: &str, cache_control: &str) -> Result<Vec<f64>, Box<dyn Error>> {
    let mut command = Command::new(ncu);
    command.args(["--csv", "--page", "raw", "--print-units", "base", "--clock-control", "none"]);
    command.args(["--cache-control", cache_control, "--metrics", DURATION]);
    let text = output_of(command.arg(std::env::current_exe()?).arg("bare"))?;
    let table = text.find("\"ID\"").and_then(|start| text.get(start..)).ok_or(text.as_str())?;
    let (heading, rows) = csv(table);
    let column = heading.iter().position(|name| name == DURATION).ok_or("ncu prints no durations")?;
    // The first row has the units.
    let values = rows.iter().filter_map(|row| row.get(column)).skip(1);
    Ok(values.map(|value| value.replace(',', "").parse()).collect::<Result<_, _>>()?)
}

fn first_line(error: &impl ToString) -> String {
    error.to_string().lines().next().unwrap_or_default().to_owned()
}
