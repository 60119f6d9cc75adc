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
    /// CUPTI's kernel, launch and marker records, and one NVTX range for each launch, through CUPTI's handlers.
    Markers,
    /// cuprof writing Parquet, and one range for each launch.
    Ranges,
    /// cuprof writing Parquet, without ranges.
    Plain,
}

impl Mode {
    const ALL: [Self; 5] = [Self::Bare, Self::Floor, Self::Markers, Self::Ranges, Self::Plain];

    fn letter(self) -> &'static str {
        match self {
            Self::Bare => "a",
            Self::Floor => "b",
            Self::Markers => "c",
            Self::Ranges => "d",
            Self::Plain => "d2",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Bare => "no CUPTI",
            Self::Floor => "kernel records only",
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
                    && (records == Records::Kernels || (seen.markers == 2 * ranges && seen.calls >= kernels));
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
            Mode::Bare | Mode::Floor | Mode::Plain => body.run(Nothing),
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

impl Bench {
    /// Cost of a launch: all turns in this process, or each in a `fresh` one.
    fn launch(&mut self, fresh: bool) -> Result<()> {
        let modes = self.modes(&Mode::ALL);
        for threads in self.options.threads.clone() {
            let count = self.options.count;
            let mut samples = vec![Sample::default(); modes.len()];
            let mut finishes = vec![Sample::default(); modes.len()];
            let mut complaints: Vec<Option<String>> = vec![None; modes.len()];
            for repetition in 0..self.options.repetitions {
                for index in order(&modes, repetition) {
                    let turn = if fresh {
                        child::throughput(modes[index], threads, &self.options)?
                    } else {
                        self.throughput(modes[index], threads, count)?
                    };
                    samples[index].0.push(turn.nanoseconds);
                    finishes[index].0.push(turn.finish.as_secs_f64() * 1e3);
                    complaints[index] = complaints[index].take().or(turn.complaint);
                }
            }
            println!(
                "\n### Cost of a launch{}: {threads} thread{}, {} repetitions of {count} launches each\n",
                if fresh { ", each turn in a process of its own" } else { "" },
                if threads == 1 { "" } else { "s with a stream each" },
                self.options.repetitions
            );
            let bare = samples[0].clone();
            println!(
                "| | mode | ns per launch: median (min–max) | added to (a): median (min–max) | end, ms | records |"
            );
            println!("|---|---|---:|---:|---:|---|");
            let mut json = Json::default();
            for (index, mode) in modes.iter().enumerate() {
                let sample = &samples[index];
                let added = if index == 0 { "–".to_owned() } else { sample.above(&bare).spread(0) };
                let records = match (&complaints[index], mode) {
                    (Some(complaint), _) => complaint.as_str(),
                    (None, Mode::Bare) => "–",
                    (None, _) => "all",
                };
                let end =
                    if index == 0 { "–".to_owned() } else { format!("{:.1}", finishes[index].median()) };
                println!(
                    "| {} | {} | {} | {added} | {end} | {records} |",
                    mode.letter(),
                    mode.name(),
                    sample.spread(0)
                );
                json.numbers(mode.letter(), &sample.0);
                json.numbers(&format!("{}_end_ms", mode.letter()), &finishes[index].0);
            }
            let added = |wanted: Mode| {
                let index = modes.iter().position(|mode| *mode == wanted);
                index.map(|index| samples[index].above(&bare).median())
            };
            println!();
            if let (Some(floor), Some(ranges)) = (added(Mode::Floor), added(Mode::Ranges)) {
                let limit = 1.15 * floor + 100.0;
                verdict(
                    &format!(
                        "(d) adds {ranges:.0} ns; the target is at most 1.15 × (b) + 100 ns = {limit:.0} ns"
                    ),
                    ranges <= limit,
                );
                json.number("d_limit_from_b", limit);
            }
            match (added(Mode::Markers), added(Mode::Ranges)) {
                (Some(markers), Some(ranges)) => {
                    let limit = 0.6 * markers;
                    let ratio = ranges / markers;
                    verdict(
                        &format!(
                            "(d) adds {ranges:.0} ns, {ratio:.2} × (c); the target is at most 0.6 × (c) = {limit:.0} ns"
                        ),
                        ranges <= limit,
                    );
                    json.number("d_limit_from_c", limit);
                }
                _ => println!(
                    "* (c) was not measured: {}",
                    self.handlers.as_ref().err().map_or("", String::as_str)
                ),
            }
            let part = if fresh { "fresh" } else { "launch" };
            self.json.object(&format!("{part}_{threads}_threads_ns"), &json);
        }
        Ok(())
    }

    fn throughput(&self, mode: Mode, threads: usize, count: u64) -> Result<Turn> {
        let active = self.start(mode)?;
        let launchers = &self.launchers[..threads];
        let nanoseconds = self.around(mode, Throughput { gpu: &self.gpu, launchers, count });
        let kernels = threads as u64 * (count + WARM_UP);
        let ranges = if matches!(mode, Mode::Markers | Mode::Ranges) { kernels } else { 0 };
        self.gpu.synchronize()?;
        let (finish, complaint) = active.end(kernels, ranges)?;
        Ok(Turn { nanoseconds: nanoseconds?, finish, complaint })
    }

    /// What a range adds to a launch, in one session: blocks with and without ranges take turns, a few milliseconds
    /// each, so that nothing else changes between them.
    fn range(&mut self) -> Result<()> {
        const BLOCK: u64 = 1_000;
        let blocks = (self.options.count / BLOCK).max(10) * 4;
        let mut added = Sample::default();
        let mut plain = Sample::default();
        self.gpu.bind()?;
        pin(0);
        let active = self.start(Mode::Ranges)?;
        let launcher = &self.launchers[0];
        let mut failed = 0;
        let mut block = |with_range: bool| -> Result<f64> {
            let start = Instant::now();
            for _ in 0..BLOCK {
                failed |= if with_range { OwnRange.around(|| launcher.launch()) } else { launcher.launch() };
            }
            let elapsed = start.elapsed();
            launcher.synchronize()?;
            Ok(elapsed.as_nanos() as f64 / BLOCK as f64)
        };
        for index in 0..blocks {
            // Which comes first alternates.
            let (first, second) = (block(index % 2 == 0)?, block(index % 2 == 1)?);
            let (with, without) = if index % 2 == 0 { (first, second) } else { (second, first) };
            added.0.push(with - without);
            plain.0.push(without);
        }
        if failed != 0 {
            return Err("a launch failed".into());
        }
        let (_, complaint) = active.end(2 * blocks * BLOCK, blocks * BLOCK)?;
        let quartiles = |sample: &Sample| {
            let mut sorted = sample.0.clone();
            sorted.sort_by(f64::total_cmp);
            let at = |part: f64| sorted[(part * (sorted.len() - 1) as f64) as usize];
            format!("{:.0} ns (quartiles {:.0} to {:.0})", at(0.5), at(0.25), at(0.75))
        };
        println!(
            "\n### A range around each launch, in one session: {blocks} pairs of blocks of {BLOCK} launches\n"
        );
        println!("* a launch without a range: {}", quartiles(&plain));
        println!(
            "* added by a range: {}; records: {}",
            quartiles(&added),
            complaint.as_deref().unwrap_or("all")
        );
        let mut json = Json::default();
        json.numbers("added", &added.0);
        self.json.object("range_in_place_ns", &json);
        Ok(())
    }

    /// The worst launch of a million, each run in a process of its own: device-side buffers are allocated with the
    /// context, so that a profiler has to be there before it.
    fn tail(&mut self) -> Result<()> {
        let modes = [Mode::Bare, Mode::Floor, Mode::Ranges];
        let repetitions = self.options.repetitions.min(5);
        let mut all: Vec<Vec<Vec<u32>>> = vec![Vec::new(); modes.len()];
        let mut complaints = vec![None; modes.len()];
        for repetition in 0..repetitions {
            for index in order(&modes, repetition) {
                let (latencies, complaint) = child::latencies(modes[index], &self.options)?;
                complaints[index] = complaints[index].take().or(complaint);
                all[index].push(latencies);
            }
        }
        println!("\n### Single launches: {repetitions} repetitions of a million, ns\n");
        println!("| | mode | p50 | p99 | p99.9 | p99.99 | worst of each repetition | records |");
        println!("|---|---|---:|---:|---:|---:|---|---|");
        let mut json = Json::default();
        for (index, mode) in modes.iter().enumerate() {
            let worst: Vec<f64> =
                all[index].iter().map(|run| f64::from(run.iter().copied().max().unwrap_or(0))).collect();
            let mut sorted: Vec<u32> = all[index].iter().flatten().copied().collect();
            sorted.sort_unstable();
            let [p50, p99, p999, p9999] = [0.5, 0.99, 0.999, 0.9999].map(|part| quantile(&sorted, part));
            println!(
                "| {} | {} | {p50} | {p99} | {p999} | {p9999} | {} | {} |",
                mode.letter(),
                mode.name(),
                worst.iter().map(|worst| format!("{worst:.0}")).collect::<Vec<_>>().join(", "),
                complaints[index].as_deref().unwrap_or("all"),
            );
            json.numbers(&format!("{}_worst", mode.letter()), &worst);
            json.numbers(
                &format!("{}_p50_p99_p999_p9999", mode.letter()),
                &[p50, p99, p999, p9999].map(f64::from),
            );
        }
        println!("\nLaunches by time:\n");
        let histograms: Vec<_> = all.iter().map(|runs| histogram(&runs.concat())).collect();
        println!(
            "| below, ns | {} |",
            modes.iter().map(|mode| mode.letter()).collect::<Vec<_>>().join(" | ")
        );
        println!("|---:|{}", "---:|".repeat(modes.len()));
        let mut bounds: Vec<u64> = histograms.iter().flatten().map(|(bound, _)| *bound).collect();
        bounds.sort_unstable();
        bounds.dedup();
        for bound in bounds {
            let counts = histograms.iter().map(|histogram| {
                let found = histogram.iter().find(|(other, _)| *other == bound);
                found.map_or(0, |(_, count)| *count).to_string()
            });
            println!("| {bound} | {} |", counts.collect::<Vec<_>>().join(" | "));
        }
        let worst = |index: usize| {
            Sample(all[index].iter().map(|run| f64::from(*run.iter().max().unwrap_or(&0))).collect())
        };
        let (bare, ranges) = (worst(0).median(), worst(2).median());
        println!();
        verdict(
            &format!(
                "the worst launch of (d), median of {repetitions} runs, is {:.0} µs above that of (a); the target is at most 150 µs",
                (ranges - bare) / 1e3
            ),
            ranges <= bare + 150e3,
        );
        self.json.object("tail_ns", &json);
        Ok(())
    }

    /// Cost of a node of a graph.
    fn graph(&mut self) -> Result<()> {
        let graph = Graph::of_kernels(&self.gpu, GRAPH_NODES)?;
        let modes = self.modes(&[Mode::Bare, Mode::Floor, Mode::Ranges]);
        let mut samples = vec![Sample::default(); modes.len()];
        let mut complaints = vec![None; modes.len()];
        for repetition in 0..self.options.repetitions {
            for index in order(&modes, repetition) {
                let mode = modes[index];
                let active = self.start(mode)?;
                let nanoseconds = self.around(mode, Replays { gpu: &self.gpu, graph: &graph });
                let launches = GRAPH_LAUNCHES + GRAPH_WARM_UP;
                let ranges = if mode == Mode::Ranges { launches } else { 0 };
                let (_, complaint) = active.end(launches * GRAPH_NODES, ranges)?;
                complaints[index] = complaints[index].take().or(complaint);
                samples[index].0.push(nanoseconds?);
            }
        }
        println!(
            "\n### A graph of {GRAPH_NODES} empty kernels, launched {GRAPH_LAUNCHES} times: {} repetitions\n",
            self.options.repetitions
        );
        println!("| | mode | ns per node: median (min–max) | records |\n|---|---|---:|---|");
        let mut json = Json::default();
        for (index, mode) in modes.iter().enumerate() {
            let records = complaints[index].as_deref().unwrap_or("all");
            println!("| {} | {} | {} | {records} |", mode.letter(), mode.name(), samples[index].spread(0));
            json.numbers(mode.letter(), &samples[index].0);
        }
        if let [_, floor, ranges] = &samples[..] {
            let (floor, ranges) = (floor.median(), ranges.median());
            println!();
            verdict(
                &format!("(d) takes {:.2} × (b); the target is at most 1.1 ×", ranges / floor),
                ranges <= 1.1 * floor,
            );
        }
        self.json.object("graph_ns_per_node", &json);
        Ok(())
    }

    /// The end of a session after a million kernels.
    fn finish(&mut self) -> Result<()> {
        let repetitions = self.options.repetitions.min(3);
        println!("\n### The end of a session after a million kernels in a million ranges\n");
        println!(
            "| repetition | finish, s | resident before, MiB | at the end of the work | after finish | dataset, MB | records |"
        );
        println!("|---:|---:|---:|---:|---:|---:|---|");
        let (mut seconds, mut growth, mut held) = (Vec::new(), Vec::new(), Vec::new());
        for repetition in 1..=repetitions {
            let before = rss_mib("VmRSS");
            let folder = tempfile::tempdir()?;
            let dataset = folder.path().join("bench.cuprof");
            let profiler = self.options.profiler().output(&dataset).start()?;
            let launchers = &self.launchers[..1];
            self.around(Mode::Ranges, Throughput { gpu: &self.gpu, launchers, count: MILLION - WARM_UP })?;
            let worked = rss_mib("VmRSS");
            let start = Instant::now();
            let profile = profiler.finish()?;
            let elapsed = start.elapsed().as_secs_f64();
            let after = rss_mib("VmRSS");
            let facts = cuprof::Dataset::open(&dataset)?.env()?;
            for key in ["session.most_launches_held", "session.most_ranges_held"] {
                held.push(format!("{key} {}", facts.get(key).map_or("", String::as_str)));
            }
            let bytes: u64 = std::fs::read_dir(&dataset)?
                .flatten()
                .filter_map(|file| Some(file.metadata().ok()?.len()))
                .sum();
            println!(
                "| {repetition} | {elapsed:.3} | {before:.0} | {worked:.0} | {after:.0} | {:.1} | {} |",
                bytes as f64 / 1e6,
                complaint(&profile, MILLION, MILLION).as_deref().unwrap_or("all")
            );
            seconds.push(elapsed * 1e3);
            growth.push(worked - before);
        }
        println!("\nHeld in memory at most: {}.", held.join(", "));
        println!("\nThe largest the process has been: {:.0} MiB.", rss_mib("VmHWM"));
        let mut json = Json::default();
        json.numbers("finish_ms", &seconds);
        json.numbers("rss_growth_mib", &growth);
        self.json.object("finish_after_a_million", &json);
        Ok(())
    }

    /// A session in which nothing happens.
    fn empty(&mut self) -> Result<()> {
        const SESSIONS: usize = 20;
        let (mut starts, mut ends) = (Sample::default(), Sample::default());
        let before = rss_mib("VmRSS");
        let mut after_first = f64::NAN;
        for session in 0..SESSIONS {
            let folder = tempfile::tempdir()?;
            let begin = Instant::now();
            let profiler = Profiler::builder().output(folder.path().join("bench.cuprof")).start()?;
            let started = Instant::now();
            profiler.finish()?;
            starts.0.push(started.duration_since(begin).as_secs_f64() * 1e3);
            ends.0.push(started.elapsed().as_secs_f64() * 1e3);
            if session == 0 {
                after_first = rss_mib("VmRSS");
            }
        }
        let after = rss_mib("VmRSS");
        println!("\n### A session without work, {SESSIONS} times, beside a context\n");
        println!("| | first | the others: median (min–max) |\n|---|---:|---:|");
        for (name, sample) in [("start, ms", &starts), ("finish, ms", &ends)] {
            println!("| {name} | {:.2} | {} |", sample.0[0], Sample(sample.0[1..].to_vec()).spread(2));
        }
        println!(
            "| resident memory added, MiB | {:.1} | {:.1} by all the others |",
            after_first - before,
            after - after_first
        );
        let mut json = Json::default();
        json.numbers("start_ms", &starts.0);
        json.numbers("finish_ms", &ends.0);
        json.number("rss_first_mib", after_first - before);
        json.number("rss_others_mib", after - after_first);
        self.json.object("empty_session", &json);
        Ok(())
    }
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
