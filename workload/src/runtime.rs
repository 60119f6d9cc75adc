//! The same kinds of work through the CUDA runtime, if a `libcudart` is installed.
//!
//! Kernels are not launched this way: the runtime launches only those that nvcc registered.
#![expect(unsafe_code, reason = "calls functions of libcudart by their C signatures")]

use crate::toolkit::{Toolkit, call};
use crate::{Expected, Result};

const TO_DEVICE: i32 = 1;
const TO_HOST: i32 = 2;
const ON_DEVICE: i32 = 3;

/// An open libcudart.
pub struct Runtime(Toolkit);

impl Runtime {
    /// Opens the newest libcudart that the system finds; `CUDA_RUNTIME_PATH` in the environment names another.
    ///
    /// # Errors
    /// One sentence, where there is none.
    pub fn open() -> Result<Self> {
        Toolkit::open("cudart", "CUDA_RUNTIME_PATH").map(Self)
    }

    /// The name that it was found by.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// On the runtime's default stream: one fill, one copy to the device, one on it, one to the host, each blocking;
    /// then the same four asynchronously. All of them move `bytes`.
    ///
    /// # Errors
    /// The first call that failed.
    pub fn copies_and_fills(&self, bytes: usize) -> Result<Expected> {
        let mut host = vec![1_u8; bytes];
        let (mut a, mut b) = (0_u64, 0_u64);
        let stream = 0_u64;
        call!(self.0, "cudaMalloc", (&raw mut a => *mut u64, bytes => usize))?;
        call!(self.0, "cudaMalloc", (&raw mut b => *mut u64, bytes => usize))?;
        call!(self.0, "cudaMemset", (a => u64, 7 => i32, bytes => usize))?;
        call!(self.0, "cudaMemcpy", (a => u64, host.as_ptr() as u64 => u64, bytes => usize, TO_DEVICE => i32))?;
        call!(self.0, "cudaMemcpy", (b => u64, a => u64, bytes => usize, ON_DEVICE => i32))?;
        call!(self.0, "cudaMemcpy", (host.as_mut_ptr() as u64 => u64, b => u64, bytes => usize, TO_HOST => i32))?;
        call!(self.0, "cudaMemsetAsync", (a => u64, 7 => i32, bytes => usize, stream => u64))?;
        call!(self.0, "cudaMemcpyAsync", (
            a => u64, host.as_ptr() as u64 => u64, bytes => usize, TO_DEVICE => i32, stream => u64
        ))?;
        call!(self.0, "cudaMemcpyAsync", (b => u64, a => u64, bytes => usize, ON_DEVICE => i32, stream => u64))?;
        call!(self.0, "cudaMemcpyAsync", (
            host.as_mut_ptr() as u64 => u64, b => u64, bytes => usize, TO_HOST => i32, stream => u64
        ))?;
        call!(self.0, "cudaDeviceSynchronize", ())?;
        call!(self.0, "cudaFree", (a => u64))?;
        call!(self.0, "cudaFree", (b => u64))?;
        let bytes = bytes as u64;
        Ok(Expected::default()
            .fill(2, bytes)
            .copy("host_to_device", 2, bytes)
            .copy("device_to_device", 2, bytes)
            .copy("device_to_host", 2, bytes))
    }
}
