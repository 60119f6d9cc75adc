//! What profiling costs the program: per launch, at worst, per node of a graph, at the end, and when nothing happens.
//!
//! ```sh
//! cargo bench --bench launch_cost                     # cost of a launch, 1 and 4 threads
//! cargo bench --bench launch_cost -- --all --json results.json
//! cargo bench --bench launch_cost -- --tail --graph --finish --empty --reps 9 --count 200000
//! ```
//!
//! Everything is measured in one run, the modes taking turns within each repetition, against the cheapest thing that
//! CUPTI can do: kernel records into pooled buffers, counted and thrown away. `--fresh` and `--tail` use a process for
//! each turn (`child` says why), the others this one. The GPU's clocks are not touched, so
//! absolute times differ by machine and by minute; the differences within a repetition are what counts. To doubt
//! them: look at the spread, at other users of the machine, and at the count of records.
#![expect(clippy::print_stdout, reason = "a bench prints its results")]

mod child;
mod nvtx;
mod parts;
mod raw;
mod stats;

use std::error::Error;
use std::path::PathBuf;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use child::Task;
use cuprof::{Profile, Profiler};
use cuprof_workload::{Gpu, Graph, Launcher, cuda_version};
use nvtx::Handlers;
use raw::{Raw, Records};
use stats::{Json, Sample, histogram, quantile};
use tempfile::TempDir;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Launches of each thread before the clock starts.
const WARM_UP: u64 = 500;
const GRAPH_NODES: u64 = 100;
const GRAPH_LAUNCHES: u64 = 500;
const MILLION: u64 = 1_000_000;

/// What goes on beside the launches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// No records.
    Bare,
    /// CUPTI's kernel records alone: the floor.
    Floor,
    /// The same and an empty callback at each launch.
    Callback,
    /// CUPTI's kernel, launch and marker records, and one NVTX range for each launch, through CUPTI's handlers.
    Markers,
    /// cuprof writing Parquet, and one range for each launch.
    Ranges,
    /// cuprof writing Parquet, without ranges.
    Plain,
}

impl Mode {
    const ALL: [Self; 6] =
        [Self::Bare, Self::Floor, Self::Callback, Self::Markers, Self::Ranges, Self::Plain];

    fn letter(self) -> &'static str {
        match self {
            Self::Bare => "a",
            Self::Floor => "b",
            Self::Callback => "b2",
            Self::Markers => "c",
            Self::Ranges => "d",
            Self::Plain => "d2",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Bare => "no CUPTI",
            Self::Floor => "kernel records only",
            Self::Callback => "kernel records, and a callback that does nothing at each launch",
            Self::Markers => {
                "the usual recipe: kernel, driver call and marker records, 8 MiB buffers from malloc"
            }
            Self::Ranges => "cuprof, one range a launch, Parquet",
            Self::Plain => "cuprof, no ranges, Parquet",
        }
    }
}

struct Options {
    json: Option<PathBuf>,
    repetitions: usize,
    count: u64,
    threads: Vec<usize>,
    parts: Vec<String>,
    /// `Builder::flush_period`, if not the default.
    flush_ms: Option<u64>,
    /// `Builder::device_buffers`, if not the default.
    device_buffers: Option<usize>,
    /// This process is a child that takes one turn.
    child: Option<Task>,
}

impl Options {
    fn profiler(&self) -> cuprof::Builder {
        let mut builder = Profiler::builder();
        if let Some(period) = self.flush_ms {
            builder = builder.flush_period(Duration::from_millis(period));
        }
        if let Some(buffers) = self.device_buffers {
            builder = builder.device_buffers(buffers);
        }
        builder
    }

    fn from_args() -> Result<Self> {
        let mut options = Self {
            json: None,
            repetitions: 15,
            count: 100_000,
            threads: vec![1, 4],
            parts: Vec::new(),
            flush_ms: None,
            device_buffers: None,
            child: None,
        };
        let mut args = std::env::args().skip(1);
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
            match arg.as_str() {
                "--json" => options.json = Some(value()?.into()),
                "--reps" => options.repetitions = value()?.parse()?,
                "--count" => options.count = value()?.parse()?,
                "--threads" => {
                    options.threads =
                        value()?.split(',').map(str::parse).collect::<std::result::Result<_, _>>()?;
                }
                "--device-buffers" => options.device_buffers = Some(value()?.parse()?),
                "--flush-ms" => options.flush_ms = Some(value()?.parse()?),
                "--child" => {
                    let mut next = || args.next().ok_or("--child needs a mode, threads, and a file or -");
                    let (mode, threads, file) = (next()?, next()?.parse()?, next()?);
                    options.child = Some(Task { mode, threads, latencies: (file != "-").then_some(file) });
                }
                "--launch" | "--fresh" | "--range" | "--tail" | "--graph" | "--finish" | "--empty" => {
                    options.parts.push(arg[2..].to_owned());
                }
                "--all" => {
                    options.parts.extend(
                        ["empty", "range", "launch", "fresh", "graph", "tail", "finish"].map(str::to_owned),
                    );
                }
                "--bench" => {} // cargo bench says so
                _ => return Err(format!("unknown argument {arg}; the source lists them").into()),
            }
        }
        if options.parts.is_empty() {
            options.parts.push("launch".to_owned());
        }
        if options.repetitions == 0 || options.count == 0 || options.threads.contains(&0) {
            return Err("--reps, --count and --threads must be at least 1".into());
        }
        Ok(options)
    }
}

/// What one turn of one mode gave.
struct Turn {
    /// Nanoseconds for each launch (or node), as one thread sees it.
    nanoseconds: f64,
    /// From asking for the end to having the files.
    finish: Duration,
    /// What is wrong with the records, if anything.
    complaint: Option<String>,
}

/// A mode that is switched on.
enum Active<'a> {
    Bare,
    Raw(&'a Raw, Records),
    Cuprof(Box<Profiler>, TempDir),
}

impl Active<'_> {
    /// Ends it; the GPU's work must be done. How long that took, and whether so many kernels were recorded.
    fn end(self, kernels: u64, ranges: u64) -> Result<(Duration, Option<String>)> {
        let start = Instant::now();
        match self {
            Self::Bare => Ok((Duration::ZERO, None)),
            Self::Raw(raw, records) => {
                let seen = raw.stop(records)?;
                let right = seen.kernels == kernels
                    && seen.declined + seen.foreign + seen.outstanding == 0
                    && (records != Records::UsualRecipe
                        || (seen.markers == 2 * ranges && seen.calls >= kernels));
                Ok((
                    start.elapsed(),
                    (!right).then(|| format!("{kernels} launches, {ranges} ranges, {seen:?}")),
                ))
            }
            Self::Cuprof(profiler, folder) => {
                let profile = profiler.finish()?;
                let elapsed = start.elapsed();
                let complaint = complaint(&profile, kernels, ranges);
                drop(folder);
                Ok((elapsed, complaint))
            }
        }
    }
}

/// What a profile lacks.
fn complaint(profile: &Profile, kernels: u64, ranges: u64) -> Option<String> {
    let losses: Vec<_> = profile
        .losses()
        .iter()
        .filter(|loss| loss.count > 0)
        .map(|loss| format!("{} {}", loss.count, loss.cause))
        .collect();
    let recorded = (profile.launches(), profile.ranges());
    let right = recorded == (kernels, ranges) && losses.is_empty();
    (!right).then(|| format!("{kernels} launches in {ranges} ranges, recorded {recorded:?}, lost {losses:?}"))
}

struct Bench {
    gpu: Gpu,
    raw: Raw,
    handlers: std::result::Result<Handlers, String>,
    launchers: Vec<Launcher>,
    options: Options,
    json: Json,
}

impl Bench {
    fn start(&self, mode: Mode) -> Result<Active<'_>> {
        let raw = |records| -> Result<Active<'_>> {
            self.raw.start(records)?;
            Ok(Active::Raw(&self.raw, records))
        };
        match mode {
            Mode::Bare => Ok(Active::Bare),
            Mode::Floor => raw(Records::Kernels),
            Mode::Callback => raw(Records::KernelsAndCallback),
            Mode::Markers => raw(Records::UsualRecipe),
            Mode::Ranges | Mode::Plain => {
                let folder = tempfile::tempdir()?;
                let profiler = self.options.profiler().output(folder.path().join("bench.cuprof")).start()?;
                Ok(Active::Cuprof(Box::new(profiler), folder))
            }
        }
    }

    /// The modes that can run here.
    fn modes(&self, of: &[Mode]) -> Vec<Mode> {
        of.iter().copied().filter(|mode| *mode != Mode::Markers || self.handlers.is_ok()).collect()
    }

    /// Runs `body` with what a mode does around each launch.
    fn around<B: Body>(&self, mode: Mode, body: B) -> Result<B::Output> {
        match mode {
            Mode::Bare | Mode::Floor | Mode::Callback | Mode::Plain => body.run(Nothing),
            Mode::Markers => body.run(CuptiRange(self.handlers.clone()?)),
            Mode::Ranges => body.run(OwnRange),
        }
    }
}

/// What is done around each launch.
trait Around: Copy + Send + Sync {
    fn around(self, launch: impl FnOnce() -> u32) -> u32;
}

#[derive(Clone, Copy)]
struct Nothing;

impl Around for Nothing {
    #[inline]
    fn around(self, launch: impl FnOnce() -> u32) -> u32 {
        launch()
    }
}

/// An NVTX range that goes straight to CUPTI.
#[derive(Clone, Copy)]
struct CuptiRange(Handlers);

impl Around for CuptiRange {
    #[inline]
    fn around(self, launch: impl FnOnce() -> u32) -> u32 {
        self.0.push(c"step");
        let code = launch();
        self.0.pop();
        code
    }
}

/// A range of cuprof.
#[derive(Clone, Copy)]
struct OwnRange;

impl Around for OwnRange {
    #[inline]
    fn around(self, launch: impl FnOnce() -> u32) -> u32 {
        let _range = cuprof::range!("step");
        launch()
    }
}

/// Code that launches; compiled for each `Around`, so that the bare loop has nothing in it.
trait Body {
    type Output;
    fn run(self, around: impl Around) -> Result<Self::Output>;
}

/// The launches of one thread or several, timed from the first to the last that is done.
struct Throughput<'a> {
    gpu: &'a Gpu,
    launchers: &'a [Launcher],
    count: u64,
}

impl Body for Throughput<'_> {
    type Output = f64;

    fn run(self, around: impl Around) -> Result<f64> {
        let barrier = Barrier::new(self.launchers.len());
        let (gpu, count) = (self.gpu, self.count);
        let spans = std::thread::scope(|scope| {
            let threads: Vec<_> = self
                .launchers
                .iter()
                .map(|launcher| {
                    let barrier = &barrier;
                    scope.spawn(move || -> std::result::Result<(Instant, Instant), String> {
                        let mut failed = 0;
                        let ready = gpu.bind().and_then(|()| {
                            for _ in 0..WARM_UP {
                                failed |= around.around(|| launcher.launch());
                            }
                            launcher.synchronize()
                        });
                        barrier.wait(); // also after a failure: the others wait for this thread
                        ready?;
                        let start = Instant::now();
                        for _ in 0..count {
                            failed |= around.around(|| launcher.launch());
                        }
                        launcher.synchronize()?;
                        let end = Instant::now();
                        if failed == 0 { Ok((start, end)) } else { Err("a launch failed".to_owned()) }
                    })
                })
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap_or(Err("a thread panicked".to_owned())))
                .collect::<std::result::Result<Vec<_>, _>>()
        })?;
        let start = spans.iter().map(|(start, _)| *start).min().ok_or("no threads")?;
        let end = spans.iter().map(|(_, end)| *end).max().ok_or("no threads")?;
        Ok(end.duration_since(start).as_nanos() as f64 / count as f64)
    }
}

/// The time of each launch by itself, in nanoseconds.
struct Latency<'a> {
    launcher: &'a Launcher,
    count: u64,
}

impl Body for Latency<'_> {
    type Output = Vec<u32>;

    fn run(self, around: impl Around) -> Result<Vec<u32>> {
        let mut failed = 0;
        for _ in 0..WARM_UP {
            failed |= around.around(|| self.launcher.launch());
        }
        self.launcher.synchronize()?;
        // Ones rather than zeros: the pages are there before the clock starts.
        let mut latencies = vec![1_u32; self.count as usize];
        for latency in &mut latencies {
            let start = Instant::now();
            failed |= around.around(|| self.launcher.launch());
            *latency = u32::try_from(start.elapsed().as_nanos()).unwrap_or(u32::MAX);
        }
        self.launcher.synchronize()?;
        if failed == 0 { Ok(latencies) } else { Err("a launch failed".into()) }
    }
}

/// Launches of a graph.
struct Replays<'a> {
    gpu: &'a Gpu,
    graph: &'a Graph,
}

impl Body for Replays<'_> {
    type Output = f64;

    fn run(self, around: impl Around) -> Result<f64> {
        let stream = self.gpu.stream()?;
        let launch = || u32::from(self.graph.launch(&stream).is_err());
        let mut failed = 0;
        for _ in 0..GRAPH_WARM_UP {
            failed |= around.around(launch);
        }
        self.gpu.synchronize()?;
        let start = Instant::now();
        for _ in 0..GRAPH_LAUNCHES {
            failed |= around.around(launch);
        }
        self.gpu.synchronize()?;
        let elapsed = start.elapsed();
        if failed != 0 {
            return Err("a launch of the graph failed".into());
        }
        Ok(elapsed.as_nanos() as f64 / (GRAPH_LAUNCHES * GRAPH_NODES) as f64)
    }
}

const GRAPH_WARM_UP: u64 = 5;

/// Keeps a launching thread on a CPU of its own, two apart, so that neither moving between CPUs nor sharing a core is
/// measured. The profiler's threads go where the system puts them.
fn pin(index: usize) {
    let mut cpus = rustix::thread::CpuSet::new();
    let available = std::thread::available_parallelism().map_or(1, usize::from);
    cpus.set((2 + 2 * index) % available);
    let _not_allowed_is_no_harm = rustix::thread::sched_setaffinity(None, &cpus);
}

/// The order of the modes in a repetition: each comes first in turn, so that none always follows the same one.
fn order(modes: &[Mode], repetition: usize) -> impl Iterator<Item = usize> {
    let count = modes.len();
    (0..count).map(move |index| (index + repetition) % count)
}

fn rss_mib(field: &str) -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    let kib: Option<f64> = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    kib.map_or(f64::NAN, |kib| kib / 1024.0)
}

/// 13 of `13.0`.
fn major(cuda: &str) -> Option<u32> {
    cuda.split('.').next().and_then(|major| major.parse().ok())
}

fn verdict(sentence: &str, met: bool) {
    println!("* {sentence}: **{}**", if met { "met" } else { "not met" });
}

fn main() -> Result<()> {
    let options = Options::from_args()?;
    if let Some(task) = &options.child {
        return child::take_turn(task, &options);
    }
    let Some(cuda) = cuda_version() else {
        println!("skipped: libcuda is not installed");
        return Ok(());
    };
    // CUPTI comes before the driver is initialised: its device-side buffers are allocated with the context.
    let raw = match Raw::load(major(&cuda)) {
        Ok(raw) => raw,
        Err(reason) => {
            println!("skipped: {reason}");
            return Ok(());
        }
    };
    let gpu = match Gpu::open() {
        Ok(gpu) => gpu,
        Err(reason) => {
            println!("skipped: {reason}");
            return Ok(());
        }
    };
    let most = options.threads.iter().copied().max().unwrap_or(1);
    let launchers =
        (0..most).map(|_| gpu.launcher(&gpu.stream()?)).collect::<std::result::Result<Vec<_>, _>>()?;
    println!("## {}", gpu.describe());
    let clock = std::fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    println!("\nclocksource {}", clock.unwrap_or_default().trim());
    println!("\n{}; {} CPUs; clocks as found", raw.describe(), std::thread::available_parallelism()?);
    let mut json = Json::default();
    json.text("gpu", &gpu.describe());
    json.text("cupti", &raw.describe());
    json.text("command", &std::env::args().collect::<Vec<_>>().join(" "));
    let handlers = Handlers::of(raw.symbols()).or_else(|_| {
        // CUPTI 13 installs nothing while it has not been used: once more, with marker records on.
        raw.start(Records::UsualRecipe)?;
        let handlers = Handlers::of(raw.symbols());
        raw.stop(Records::UsualRecipe)?;
        handlers
    });
    let parts = options.parts.clone();
    let mut bench = Bench { gpu, raw, handlers, launchers, options, json };
    let mut failed = false;
    for part in parts {
        let done = match part.as_str() {
            "launch" => bench.launch(false),
            "fresh" => bench.launch(true),
            "range" => bench.range(),
            "tail" => bench.tail(),
            "graph" => bench.graph(),
            "finish" => bench.finish(),
            _ => bench.empty(),
        };
        if let Err(error) = done {
            println!("\n{part} failed: {error}");
            failed = true;
        }
    }
    if let Some(file) = &bench.options.json {
        std::fs::write(file, bench.json.into_text())?;
        println!("\nThe raw numbers are in {}.", file.display());
    }
    if failed { Err("a part of the bench failed".into()) } else { Ok(()) }
}
