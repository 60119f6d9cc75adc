//! Kernels whose time tells what the L2 cache holds.
#![expect(unsafe_code, reason = "launches kernels")]

use std::sync::Arc;

use cudarc::driver::{CudaFunction, CudaSlice, CudaStream, LaunchConfig, PushKernelArg};
use cudarc::nvrtc::Ptx;

use crate::gpu::failed;
use crate::{Gpu, Result};

const VECTOR_BYTES: usize = 16;
const THREADS: u32 = 512;

/// A kernel that reads a buffer once, and one that copies it to another, with 16-byte vectors.
pub struct Victims {
    read: CudaFunction,
    copy: CudaFunction,
    from: CudaSlice<u8>,
    to: CudaSlice<u8>,
    vectors: u32,
}

impl Victims {
    /// Two buffers of so many bytes (rounded down to whole vectors), filled with zeros.
    ///
    /// # Errors
    /// The driver's.
    pub fn new(gpu: &Gpu, stream: &Arc<CudaStream>, bytes: usize) -> Result<Self> {
        let ptx = Ptx::from_src(include_str!("victims.ptx"));
        let module = gpu.context().load_module(ptx).map_err(failed("loading the victims"))?;
        let function = |name| module.load_function(name).map_err(failed(name));
        let vectors = u32::try_from(bytes / VECTOR_BYTES).map_err(|_| "too many vectors".to_owned())?;
        let bytes = vectors as usize * VECTOR_BYTES;
        Ok(Self {
            read: function("victim_read")?,
            copy: function("victim_copy")?,
            from: stream.alloc_zeros(bytes).map_err(failed("allocating"))?,
            to: stream.alloc_zeros(bytes).map_err(failed("allocating"))?,
            vectors,
        })
    }

    /// Reads the first buffer: `victim_read`.
    ///
    /// # Errors
    /// The driver's.
    pub fn read(&mut self, stream: &CudaStream) -> Result<()> {
        let kernel = self.read.clone();
        self.launch(stream, &kernel)
    }

    /// Copies the first buffer to the second: `victim_copy`.
    ///
    /// # Errors
    /// The driver's.
    pub fn copy(&mut self, stream: &CudaStream) -> Result<()> {
        let kernel = self.copy.clone();
        self.launch(stream, &kernel)
    }

    fn launch(&mut self, stream: &CudaStream, kernel: &CudaFunction) -> Result<()> {
        let mut launch = stream.launch_builder(kernel);
        launch.arg(&self.from).arg(&mut self.to).arg(&self.vectors);
        let grid = self.vectors.div_ceil(THREADS);
        let config = LaunchConfig { grid_dim: (grid, 1, 1), block_dim: (THREADS, 1, 1), shared_mem_bytes: 0 };
        // SAFETY: the arguments are those of both kernels, which touch `vectors` vectors of each buffer.
        unsafe { launch.launch(config) }.map_err(failed("launching a victim"))?;
        Ok(())
    }
}
