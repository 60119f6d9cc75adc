//! The time of single launches, measured in a process of its own.

use std::process::Command;

use cuprof_workload::{Gpu, cuda_version};

use super::raw::{Raw, Records};
use super::{Active, Body, Latency, MILLION, Mode, Nothing, Options, OwnRange, Result, WARM_UP, major, pin};

/// Runs a mode in a child process; the latencies, and what is wrong with its records.
pub fn in_another_process(mode: Mode, options: &Options) -> Result<(Vec<u32>, Option<String>)> {
    let file = tempfile::NamedTempFile::new()?;
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("--only-tail").arg(mode.letter()).arg(file.path());
    if let Some(period) = options.flush_ms {
        command.arg("--flush-ms").arg(period.to_string());
    }
    let output = command.output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        return Err(format!("({}) ended with {}: {text}", mode.letter(), output.status).into());
    }
    let bytes = std::fs::read(file.path())?;
    let latencies =
        bytes.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]));
    let complaint = text.lines().find_map(|line| line.strip_prefix("complaint=").map(str::to_owned));
    Ok((latencies.collect(), complaint))
}

/// The child: the profiler first, then the context, then a million launches.
pub fn only(letter: &str, file: &str, options: &Options) -> Result<()> {
    let mode = Mode::ALL.into_iter().find(|mode| mode.letter() == letter).ok_or("unknown mode")?;
    let raw = Raw::load(cuda_version().as_deref().and_then(major))?;
    let folder = tempfile::tempdir()?;
    let active = match mode {
        Mode::Bare => Active::Bare,
        Mode::Floor => {
            raw.start(Records::Kernels)?;
            Active::Raw(&raw, Records::Kernels)
        }
        _ => {
            let profiler = options.profiler().output(folder.path().join("bench.cuprof")).start()?;
            Active::Cuprof(Box::new(profiler), folder)
        }
    };
    let gpu = Gpu::open()?;
    let launcher = gpu.launcher(&gpu.stream()?)?;
    pin(0);
    let latency = Latency { launcher: &launcher, count: MILLION };
    let latencies = if mode == Mode::Ranges { latency.run(OwnRange) } else { latency.run(Nothing) }?;
    gpu.synchronize()?;
    let kernels = MILLION + WARM_UP;
    let (_, complaint) = active.end(kernels, if mode == Mode::Ranges { kernels } else { 0 })?;
    let bytes: Vec<u8> = latencies.iter().flat_map(|latency| latency.to_le_bytes()).collect();
    std::fs::write(file, bytes)?;
    if let Some(complaint) = complaint {
        println!("complaint={complaint}");
    }
    Ok(())
}
