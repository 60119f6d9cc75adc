//! Kernels whose counts follow from their arguments.
#![expect(unsafe_code, reason = "launches kernels")]

use cudarc::driver::{CudaFunction, CudaSlice, CudaStream, LaunchConfig, PushKernelArg};
use cudarc::nvrtc::Ptx;

use crate::gpu::failed;
use crate::{Gpu, Result};

/// Threads of a block of [`Known::fma_chain`] and [`Known::count_up`].
pub const KNOWN_THREADS: u32 = 256;

/// A compute-bound kernel, one that goes through shared memory, and one that counts up.
pub struct Known {
    fma_chain: CudaFunction,
    transpose: CudaFunction,
    count_up: CudaFunction,
}

impl Known {
    /// Loads the kernels.
    ///
    /// # Errors
    /// The driver's, as for every launch below.
    pub fn new(gpu: &Gpu) -> Result<Self> {
        let ptx = Ptx::from_src(include_str!("known.ptx"));
        let module = gpu.context().load_module(ptx).map_err(failed("loading known kernels"))?;
        let function = |name| module.load_function(name).map_err(failed(name));
        Ok(Self {
            fma_chain: function("fma_chain")?,
            transpose: function("transpose")?,
            count_up: function("count_up")?,
        })
    }

    /// Fused multiply-adds of single precision, 32 for each thread and round, and no memory: `fma_chain`. Returns how
    /// many it makes.
    ///
    /// # Errors
    /// The driver's, or where the buffer is empty or there are no rounds.
    pub fn fma_chain(
        &self,
        stream: &CudaStream,
        to: &mut CudaSlice<f32>,
        blocks: u32,
        rounds: u32,
    ) -> Result<u64> {
        if to.is_empty() || rounds == 0 {
            return Err("fma_chain needs an element and a round".to_owned());
        }
        let config =
            LaunchConfig { grid_dim: (blocks, 1, 1), block_dim: (KNOWN_THREADS, 1, 1), shared_mem_bytes: 0 };
        let (a, b) = (0.5_f32, 1.0_f32);
        let mut launch = stream.launch_builder(&self.fma_chain);
        launch.arg(to).arg(&a).arg(&b).arg(&rounds);
        // SAFETY: the arguments are those of the kernel, which writes at most the first element.
        unsafe { launch.launch(config) }.map_err(failed("launching fma_chain"))?;
        Ok(u64::from(blocks) * u64::from(KNOWN_THREADS) * u64::from(rounds) * 32)
    }

    /// Transposes a square matrix of `n` rows, through shared memory: `transpose`.
    ///
    /// # Errors
    /// The driver's, or where `n` is no multiple of 32 or a buffer shorter than `n * n`.
    pub fn transpose(
        &self,
        stream: &CudaStream,
        from: &CudaSlice<f32>,
        to: &mut CudaSlice<f32>,
        n: u32,
    ) -> Result<()> {
        let elements = u64::from(n) * u64::from(n);
        let shortest = from.len().min(to.len()) as u64;
        if !n.is_multiple_of(32) || shortest < elements || elements > i32::MAX as u64 {
            return Err(format!("transpose of {n} rows needs whole tiles and {elements} elements"));
        }
        let config =
            LaunchConfig { grid_dim: (n / 32, n / 32, 1), block_dim: (32, 8, 1), shared_mem_bytes: 0 };
        let mut launch = stream.launch_builder(&self.transpose);
        launch.arg(from).arg(to).arg(&n);
        // SAFETY: the arguments are those of the kernel, which touches n * n elements of each buffer.
        unsafe { launch.launch(config) }.map_err(failed("launching transpose"))?;
        Ok(())
    }

    /// Adds one to the first element for each of so many blocks' threads: `count_up`. Returns how much that is.
    ///
    /// # Errors
    /// The driver's, or where the buffer is empty.
    pub fn count_up(&self, stream: &CudaStream, counter: &mut CudaSlice<u32>, blocks: u32) -> Result<u32> {
        if counter.is_empty() {
            return Err("count_up needs an element".to_owned());
        }
        let config =
            LaunchConfig { grid_dim: (blocks, 1, 1), block_dim: (KNOWN_THREADS, 1, 1), shared_mem_bytes: 0 };
        let mut launch = stream.launch_builder(&self.count_up);
        launch.arg(counter);
        // SAFETY: the argument is that of the kernel, which changes the first element.
        unsafe { launch.launch(config) }.map_err(failed("launching count_up"))?;
        Ok(blocks * KNOWN_THREADS)
    }
}
