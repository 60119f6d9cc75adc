//! Turns in processes of their own.
//!
//! CUPTI leaves something behind in a process where it was switched on (about 1 µs a launch, seen on an H200), and
//! allocates device-side buffers with the context, so that a profiler has to be there before it. A process a turn
//! has neither problem: each mode is measured as a program would run with it.

use std::process::Command;
use std::time::Duration;

use cuprof_workload::{Gpu, cuda_version};

use super::nvtx::Handlers;
use super::raw::{Raw, Records};
use super::{
    Active, Around, Body, CuptiRange, Latency, MILLION, Mode, Nothing, Options, OwnRange, Result, Throughput,
    Turn, WARM_UP, major, pin,
};

/// Which turn a child is to take.
#[derive(Clone, Debug)]
pub struct Task {
    pub mode: String,
    pub threads: usize,
    /// Where the time of each launch goes; none: only their mean is wanted.
    pub latencies: Option<String>,
}

fn run(task: &Task, options: &Options) -> Result<String> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["--child", &task.mode, &task.threads.to_string()]);
    command.arg(task.latencies.as_deref().unwrap_or("-"));
    command.args(["--count", &options.count.to_string()]);
    if let Some(period) = options.flush_ms {
        command.args(["--flush-ms", &period.to_string()]);
    }
    if let Some(buffers) = options.device_buffers {
        command.args(["--device-buffers", &buffers.to_string()]);
    }
    let output = command.output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        let complaint = String::from_utf8_lossy(&output.stderr);
        return Err(format!("({}) ended with {}: {text}{complaint}", task.mode, output.status).into());
    }
    Ok(text)
}

fn value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='))
}

/// Mean time of a launch.
pub fn throughput(mode: Mode, threads: usize, options: &Options) -> Result<Turn> {
    let text = run(&Task { mode: mode.letter().to_owned(), threads, latencies: None }, options)?;
    let number = |key| -> Result<f64> { Ok(value(&text, key).ok_or("a turn without a result")?.parse()?) };
    Ok(Turn {
        nanoseconds: number("ns")?,
        finish: Duration::from_secs_f64(number("finish_ms")? / 1e3),
        complaint: value(&text, "complaint").map(str::to_owned),
    })
}

/// The time of each of a million launches, and what is wrong with the records.
pub fn latencies(mode: Mode, options: &Options) -> Result<(Vec<u32>, Option<String>)> {
    let file = tempfile::NamedTempFile::new()?;
    let path = file.path().to_string_lossy().into_owned();
    let text = run(&Task { mode: mode.letter().to_owned(), threads: 1, latencies: Some(path) }, options)?;
    let bytes = std::fs::read(file.path())?;
    let latencies =
        bytes.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]));
    Ok((latencies.collect(), value(&text, "complaint").map(str::to_owned)))
}

/// The child: the profiler first, then the context, then the launches.
pub fn take_turn(task: &Task, options: &Options) -> Result<()> {
    let mode = Mode::ALL.into_iter().find(|mode| mode.letter() == task.mode).ok_or("unknown mode")?;
    let raw = match mode {
        Mode::Floor | Mode::Callback | Mode::Markers => {
            Some(Raw::load(cuda_version().as_deref().and_then(major))?)
        }
        _ => None,
    };
    let handlers = raw.as_ref().map(|raw| Handlers::of(raw.symbols()));
    let folder = tempfile::tempdir()?;
    let active = match (&raw, mode) {
        (Some(raw), Mode::Floor) => start_raw(raw, Records::Kernels)?,
        (Some(raw), Mode::Callback) => start_raw(raw, Records::KernelsAndCallback)?,
        (Some(raw), _) => start_raw(raw, Records::UsualRecipe)?,
        (None, Mode::Bare) => Active::Bare,
        (None, _) => {
            let profiler = options.profiler().output(folder.path().join("bench.cuprof")).start()?;
            Active::Cuprof(Box::new(profiler), folder)
        }
    };
    let gpu = Gpu::open()?;
    let launchers = (0..task.threads)
        .map(|_| gpu.launcher(&gpu.stream()?))
        .collect::<std::result::Result<Vec<_>, _>>()?;
    let count = if task.latencies.is_some() { MILLION } else { options.count };
    let work = Work { gpu: &gpu, launchers: &launchers, count, latencies: task.latencies.as_deref() };
    let nanoseconds = match mode {
        Mode::Bare | Mode::Floor | Mode::Callback | Mode::Plain => work.run(Nothing),
        Mode::Markers => work.run(CuptiRange(handlers.ok_or("no handlers")??)),
        Mode::Ranges => work.run(OwnRange),
    }?;
    gpu.synchronize()?;
    let kernels = task.threads as u64 * (count + WARM_UP);
    let ranges = if matches!(mode, Mode::Markers | Mode::Ranges) { kernels } else { 0 };
    let (finish, complaint) = active.end(kernels, ranges)?;
    println!("ns={nanoseconds}\nfinish_ms={}", finish.as_secs_f64() * 1e3);
    if let Some(complaint) = complaint {
        println!("complaint={complaint}");
    }
    Ok(())
}

fn start_raw(raw: &Raw, records: Records) -> Result<Active<'_>> {
    raw.start(records)?;
    Ok(Active::Raw(raw, records))
}

/// Either kind of measurement.
struct Work<'a> {
    gpu: &'a Gpu,
    launchers: &'a [cuprof_workload::Launcher],
    count: u64,
    latencies: Option<&'a str>,
}

impl Body for Work<'_> {
    type Output = f64;

    fn run(self, around: impl Around) -> Result<f64> {
        let Some(file) = self.latencies else {
            return Throughput { gpu: self.gpu, launchers: self.launchers, count: self.count }.run(around);
        };
        pin(0);
        let latencies = Latency { launcher: &self.launchers[0], count: self.count }.run(around)?;
        let bytes: Vec<u8> = latencies.iter().flat_map(|latency| latency.to_le_bytes()).collect();
        std::fs::write(file, bytes)?;
        Ok(latencies.iter().map(|latency| f64::from(*latency)).sum::<f64>() / latencies.len() as f64)
    }
}
