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
use common::tutorial::{Outcome, aggregate, csv, durations, holds, median};
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

    // Beside Nsight Compute, with the same state of the cache.
    let ncu = find_ncu();
    for (cache, cache_control) in [(Cache::Flush, "all"), (Cache::Keep, "none")] {
        let (report, ours) = timed(|| work.measured(cache, None))?;
        let (theirs, replayed) = timed(|| ncu.as_ref().map(|ncu| under_ncu(ncu, cache_control)).transpose())?;
        writeln!(
            out,
            "cache {cache}, medians in us: {ours:.2} s here, {replayed:.2} s with Nsight Compute\n"
        )?;
        writeln!(out, "  rows        here  s/mean         ncu  difference")?;
        for (config, rows) in ROWS.iter().enumerate() {
            let here = median(&report, config, "matmul", DURATION)?;
            let spread = aggregate(&report, config, "matmul", DURATION)?.told.cv.unwrap_or_default();
            write!(out, "{rows:>6} {:>11.2} {:>6.2}%", here / 1e3, 100.0 * spread)?;
            let launches =
                theirs.as_ref().and_then(|all| all.chunks(WARM_UP + RUNS).nth(config)?.get(WARM_UP..));
            match launches.and_then(|launches| Sample::new(launches).ok()?.median()) {
                Some(there) => writeln!(out, " {:>11.2} {:>11.2}", there / 1e3, (there - here) / 1e3)?,
                None => writeln!(out, "  Nsight Compute is not here: set NCU to its path")?,
            }
        }
        writeln!(out)?;
        report.write(folder.join(cache.state()).with_extension("cuprof"))?;
    }

    // Two engines, one after the other. At the same time, neither would be right, so that is refused.
    let plan = Plan::for_device(0, ["headline"])?;
    let multiply = |rows: &u32| work.multiply(*rows);
    let (counted, counting) = timed(|| {
        let session = Session::new(plan.clone());
        Ok(session
            .run(|pass| ROWS.iter().try_for_each(|rows| pass.range(&rows.to_string(), || multiply(rows))))?)
    })?;
    counted.write(folder.join("counters.cuprof"))?;
    let profiler = Profiler::builder().start()?;
    let refused = Session::new(plan).run(|pass| pass.range("refused", || ())).err();
    profiler.finish()?;
    let refused = refused.ok_or("counters were counted while a session traced")?;

    // What that leaves behind does not change the times: those of a fresh process are the same.
    let trace = folder.join("again.cuprof");
    let (again, timing) = timed(|| work.measured(Cache::Flush, Some(&trace)))?;
    let (fresh, in_fresh_process) = timed(|| output_of(Command::new(std::env::current_exe()?).arg("fresh")))?;
    writeln!(out, "counting {counting:.2} s in {} passes, then timing {timing:.2} s;", counted.rounds)?;
    writeln!(out, "timing in a fresh process {in_fresh_process:.2} s. What tracing itself took:")?;
    let mut overheads: BTreeMap<String, (usize, i64)> = BTreeMap::new();
    for row in Frame::read(&Dataset::open(&trace)?, Table::Overheads, &["kind", "duration_ns"])?.rows() {
        let entry = overheads.entry(row.text("kind").unwrap_or_default().to_owned()).or_default();
        *entry = (entry.0 + 1, entry.1 + row.number("duration_ns"));
    }
    for (kind, (count, ns)) in overheads {
        writeln!(out, "  {kind:<24} {count:>6} times {:>10.1} us", ns as f64 / 1e3)?;
    }
    writeln!(out)?;
    holds(refused.kind == ErrorKind::AlreadyRunning, "counting is refused while a session traces")?;
    holds(fresh.lines().count() == ROWS.len(), "the fresh process measured the same")?;
    for ((config, rows), line) in ROWS.iter().enumerate().zip(fresh.lines()) {
        let fresh = line.split(' ').map(str::parse).collect::<Result<Vec<f64>, _>>()?;
        let comparison = welch(&fresh, &durations(&again, config, "matmul"))?;
        let change = 100.0 * comparison.change_ratio();
        let same = !matches!(comparison.verdict(NOISE), Verdict::Slower | Verdict::Faster);
        holds(
            same,
            format!("{rows} rows: after counting, times are those of a fresh process ({change:+.2} %)"),
        )?;
    }
    Ok(())
}

/// What the work gives, and how many seconds it took.
fn timed<T>(work: impl FnOnce() -> Result<T, Box<dyn Error>>) -> Result<(T, f64), Box<dyn Error>> {
    let started = Instant::now();
    Ok((work()?, started.elapsed().as_secs_f64()))
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

    fn measured(&self, cache: Cache, output: Option<&Path>) -> Result<Report, Box<dyn Error>> {
        let bench = Bench::new("matrix products").configs(ROWS).parameters(["rows"]);
        let bench = bench.runs(RUNS).warm_up(WARM_UP).cache(cache);
        let bench = if let Some(output) = output { bench.output(output) } else { bench };
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
    let report = Work::new(&gpu)?.measured(Cache::Flush, None)?;
    for config in 0..ROWS.len() {
        let times: Vec<_> = durations(&report, config, "matmul").iter().map(f64::to_string).collect();
        writeln!(std::io::stdout(), "{}", times.join(" "))?;
    }
    Ok(())
}

/// What a program prints; an error, with that, where it fails.
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
