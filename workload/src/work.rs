//! Small programs with a known answer. Each waits for its work before it returns.

use std::sync::Arc;

use cudarc::driver::CudaStream;

use crate::{Expected, Gpu, Kernel, Result, SpinReport};

/// So many empty kernels on the stream. Does not wait.
///
/// # Errors
/// The driver's, as for all of these.
pub fn empties(gpu: &Gpu, stream: &CudaStream, count: u64) -> Result<Expected> {
    for _ in 0..count {
        gpu.empty(stream)?;
    }
    Ok(Expected::default().kernel(Kernel::Empty, count))
}

/// Each kernel that runs on every GPU once, with results that are checked.
///
/// # Errors
/// As above, or where a kernel computed something else than it should.
pub fn every_kernel(gpu: &Gpu, stream: &Arc<CudaStream>) -> Result<Expected> {
    const ROWS: u32 = 64;
    const LEN: usize = (ROWS * ROWS) as usize;
    let x = gpu.upload(stream, &vec![1.0; LEN])?;
    let mut y = gpu.zeros(stream, LEN)?;
    let mut z = gpu.zeros(stream, LEN)?;
    let mut report = gpu.spin_buffer(stream)?;
    gpu.empty(stream)?;
    gpu.plain_c(stream)?;
    gpu.fill(stream, &mut y, 2.0)?;
    gpu.saxpy(stream, &mut y, &x, 3.0)?; // y = 5
    gpu.copy(stream, &y, &mut z)?; // z = 5
    gpu.gemm(stream, &x, &y, &mut z, ROWS)?; // z = 5 * ROWS
    gpu.spin(stream, 1_000, &mut report)?;
    let mut sums = gpu.zeros(stream, LEN / 256)?;
    gpu.reduce(stream, &z, &mut sums)?;
    let sums = gpu.download(stream, &sums)?;
    let expected = 5.0 * f64::from(ROWS) * LEN as f64;
    let sum: f64 = sums.iter().copied().map(f64::from).sum();
    if (sum - expected).abs() > 1e-3 * expected {
        return Err(format!("the kernels computed {sum} instead of {expected}"));
    }
    let bytes = 4 * LEN as u64;
    Ok(Kernel::GENERAL
        .iter()
        .fold(Expected::default(), |sum, kernel| sum.kernel(*kernel, 1))
        .copy("host_to_device", 1, bytes)
        .fill(2, bytes)
        .fill(1, 32)
        .fill(1, bytes / 256)
        .copy("device_to_host", 1, bytes / 256))
}

/// A kernel that keeps one warp busy for so many nanoseconds, and what it measured itself.
///
/// # Errors
/// As above.
pub fn spin(gpu: &Gpu, stream: &Arc<CudaStream>, nanoseconds: u64) -> Result<(Expected, SpinReport)> {
    let mut buffer = gpu.spin_buffer(stream)?;
    gpu.spin(stream, nanoseconds, &mut buffer)?;
    let report = gpu.spin_report(stream, &buffer)?;
    Ok((Expected::default().kernel(Kernel::Spin, 1).fill(1, 32).copy("device_to_host", 1, 32), report))
}

/// Two streams that spin at the same time, for so long each.
///
/// # Errors
/// As above.
pub fn overlap(gpu: &Gpu, nanoseconds: u64) -> Result<Expected> {
    let (first, second) = (gpu.stream()?, gpu.stream()?);
    let mut buffers = (gpu.spin_buffer(&first)?, gpu.spin_buffer(&second)?);
    gpu.synchronize()?;
    gpu.spin(&first, nanoseconds, &mut buffers.0)?;
    gpu.spin(&second, nanoseconds, &mut buffers.1)?;
    gpu.synchronize()?;
    Ok(Expected::default().kernel(Kernel::Spin, 2).fill(2, 32))
}

/// A module of `kernels` empty kernels is loaded, each is launched once, and it is unloaded: `rounds` times, with new
/// names (`round0_kernel0`, …) each time.
///
/// # Errors
/// As above.
pub fn modules(gpu: &Gpu, stream: &CudaStream, rounds: usize, kernels: usize) -> Result<Expected> {
    let mut expected = Expected::default();
    for round in 0..rounds {
        let prefix = format!("round{round}_kernel");
        let loaded = gpu.load_empty_kernels(&prefix, kernels)?;
        for kernel in &loaded {
            gpu.launch_empty_kernel(stream, kernel)?;
        }
        gpu.synchronize()?;
        for index in 0..kernels {
            expected.kernels.insert(format!("{prefix}{index}"), 1);
        }
    }
    Ok(expected)
}

/// Buffers allocated from and returned to the stream's pool, `rounds` times: each is filled with zeros once.
///
/// # Errors
/// As above.
pub fn pool_traffic(gpu: &Gpu, stream: &Arc<CudaStream>, rounds: u64, len: usize) -> Result<Expected> {
    for _ in 0..rounds {
        drop(gpu.zeros(stream, len)?);
    }
    gpu.synchronize()?;
    Ok(Expected::default().fill(rounds, 4 * len as u64))
}
