//! The same kinds of work through the CUDA runtime, if a `libcudart` is installed.
//!
//! Kernels are not launched this way: the runtime launches only those that nvcc registered.
#![expect(unsafe_code, reason = "calls functions of libcudart by their C signatures")]

use std::ffi::c_void;

use libloading::Library;

use crate::{Expected, Result};

const TO_DEVICE: i32 = 1;
const TO_HOST: i32 = 2;
const ON_DEVICE: i32 = 3;

/// An open libcudart.
pub struct Runtime {
    library: Library,
    name: &'static str,
}

impl Runtime {
    /// Opens the newest libcudart that the system finds; `CUDA_RUNTIME_PATH` in the environment names another.
    ///
    /// # Errors
    /// One sentence, where there is none.
    pub fn open() -> Result<Self> {
        if let Some(path) = std::env::var_os("CUDA_RUNTIME_PATH") {
            // SAFETY: opens a library that the user named; its initialisers are trusted.
            return match unsafe { Library::new(&path) } {
                Ok(library) => Ok(Self { library, name: "CUDA_RUNTIME_PATH" }),
                Err(error) => Err(format!("{}: {error}", path.display())),
            };
        }
        for name in ["libcudart.so.13", "libcudart.so.12", "libcudart.so"] {
            // SAFETY: opens the CUDA runtime, whose initialisers are trusted.
            if let Ok(library) = unsafe { Library::new(name) } {
                return Ok(Self { library, name });
            }
        }
        Err("libcudart is not installed".to_owned())
    }

    /// The name that it was found by.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    fn symbol(&self, name: &str) -> Result<*const c_void> {
        // SAFETY: the type is that of an address; it is only called after a cast to its signature.
        let address = unsafe { self.library.get::<*const c_void>(name.as_bytes()) };
        address.map(|address| *address).map_err(|error| error.to_string())
    }

    /// On the runtime's default stream: one fill, one copy to the device, one on it, one to the host, each blocking;
    /// then the same four asynchronously. All of them move `bytes`.
    ///
    /// # Errors
    /// The first call that failed.
    pub fn copies_and_fills(&self, bytes: usize) -> Result<Expected> {
        macro_rules! call {
            ($name:literal, ($($value:expr => $type:ty),* $(,)?)) => {{
                type Signature = unsafe extern "C" fn($($type),*) -> i32;
                let address = self.symbol($name)?;
                // SAFETY: the runtime's header declares the function of this name with this signature.
                let call = unsafe { std::mem::transmute::<*const c_void, Signature>(address) };
                // SAFETY: the buffers have `bytes` bytes and live until the device has been waited for.
                match unsafe { call($($value),*) } {
                    0 => {}
                    code => return Err(format!("{} returned {code}", $name)),
                }
            }};
        }
        let mut host = vec![1_u8; bytes];
        let (mut a, mut b) = (0_u64, 0_u64);
        let stream = 0_u64;
        call!("cudaMalloc", (&raw mut a => *mut u64, bytes => usize));
        call!("cudaMalloc", (&raw mut b => *mut u64, bytes => usize));
        call!("cudaMemset", (a => u64, 7 => i32, bytes => usize));
        call!("cudaMemcpy", (a => u64, host.as_ptr() as u64 => u64, bytes => usize, TO_DEVICE => i32));
        call!("cudaMemcpy", (b => u64, a => u64, bytes => usize, ON_DEVICE => i32));
        call!("cudaMemcpy", (host.as_mut_ptr() as u64 => u64, b => u64, bytes => usize, TO_HOST => i32));
        call!("cudaMemsetAsync", (a => u64, 7 => i32, bytes => usize, stream => u64));
        call!("cudaMemcpyAsync", (
            a => u64, host.as_ptr() as u64 => u64, bytes => usize, TO_DEVICE => i32, stream => u64
        ));
        call!("cudaMemcpyAsync", (b => u64, a => u64, bytes => usize, ON_DEVICE => i32, stream => u64));
        call!("cudaMemcpyAsync", (
            host.as_mut_ptr() as u64 => u64, b => u64, bytes => usize, TO_HOST => i32, stream => u64
        ));
        call!("cudaDeviceSynchronize", ());
        call!("cudaFree", (a => u64));
        call!("cudaFree", (b => u64));
        let bytes = bytes as u64;
        Ok(Expected::default()
            .fill(2, bytes)
            .copy("host_to_device", 2, bytes)
            .copy("device_to_device", 2, bytes)
            .copy("device_to_host", 2, bytes))
    }
}
