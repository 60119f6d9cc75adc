//! Kernels whose time tells what the L2 cache holds.
#![expect(unsafe_code, reason = "launches kernels")]

use std::sync::Arc;

use cudarc::driver::{CudaFunction, CudaSlice, CudaStream, LaunchConfig, PushKernelArg};
use cudarc::nvrtc::Ptx;

use crate::gpu::failed;
use crate::{Gpu, Result};

const VECTOR_BYTES: usize = 16;
const THREADS: u32 = 512;

/// A kernel that reads a buffer once, one that copies it to another, with 16-byte vectors, and one that stamps its reading.
pub struct Victims {
    read: CudaFunction,
    copy: CudaFunction,
    stamp: CudaFunction,
    from: CudaSlice<u8>,
    to: CudaSlice<u8>,
    vectors: u32,
}

/// What the blocks of a kernel saw of the GPU's clocks.
#[derive(Clone, Copy, Debug)]
pub struct Stamps {
    /// From the first block's begin to the last one's end, by the GPU's own timer.
    pub span_ns: u64,
    /// The SMs' clock, over all blocks.
    pub sm_mhz: f64,
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
            stamp: function("victim_stamp")?,
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

    /// Reads the first buffer as [`Victims::read`] does, and stamps each block's begin and end: `victim_stamp`.
    ///
    /// # Errors
    /// The driver's.
    pub fn read_stamped(&mut self, stream: &CudaStream) -> Result<()> {
        let kernel = self.stamp.clone();
        self.launch(stream, &kernel)
    }

    /// What the blocks of the last [`Victims::read_stamped`] wrote. Waits for it.
    ///
    /// # Errors
    /// The driver's.
    pub fn stamps(&self, stream: &Arc<CudaStream>) -> Result<Stamps> {
        const WORD: usize = 8;
        let blocks = self.vectors.div_ceil(THREADS) as usize;
        let stamps = self.to.slice(..blocks * 4 * WORD);
        let bytes = stream.clone_dtoh(&stamps).map_err(failed("copying the stamps"))?;
        let (words, _) = bytes.as_chunks::<WORD>();
        let words: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let (blocks, _) = words.as_chunks::<4>();
        let begin = blocks.iter().map(|[begin, ..]| *begin).min().unwrap_or(0);
        let end = blocks.iter().map(|[_, end, ..]| *end).max().unwrap_or(0);
        let time: u64 = blocks.iter().map(|[begin, end, ..]| end.saturating_sub(*begin)).sum();
        let cycles: u64 = blocks.iter().map(|[.., begin, end]| end.wrapping_sub(*begin)).sum();
        #[expect(clippy::cast_precision_loss, reason = "a clock rate to 15 digits is enough")]
        let sm_mhz = if time == 0 { 0.0 } else { cycles as f64 / time as f64 * 1e3 };
        Ok(Stamps { span_ns: end.saturating_sub(begin), sm_mhz })
    }

    fn launch(&mut self, stream: &CudaStream, kernel: &CudaFunction) -> Result<()> {
        let mut launch = stream.launch_builder(kernel);
        launch.arg(&self.from).arg(&mut self.to).arg(&self.vectors);
        let grid = self.vectors.div_ceil(THREADS);
        let config = LaunchConfig { grid_dim: (grid, 1, 1), block_dim: (THREADS, 1, 1), shared_mem_bytes: 0 };
        // SAFETY: the arguments are those of all three kernels, which touch `vectors` vectors of each buffer.
        unsafe { launch.launch(config) }.map_err(failed("launching a victim"))?;
        Ok(())
    }
}
