//! Driver functions by the name of their symbol, and memory that they can work on.
#![expect(unsafe_code, reason = "calls functions of libcuda by their C signatures")]

use std::ffi::c_void;

use cudarc::driver::sys;

/// How a call went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The driver accepted it.
    Done,
    /// The driver does not export a function of this name.
    Missing,
    /// The driver refused with this code.
    Failed(i32),
}

impl From<i32> for Outcome {
    fn from(code: i32) -> Self {
        if code == 0 { Self::Done } else { Self::Failed(code) }
    }
}

/// The address of a function that libcuda exports. The library must be present (`Gpu::probe`).
pub(crate) fn symbol(name: &str) -> Option<*const c_void> {
    // SAFETY: every caller has a `Gpu`, so the library is there and open.
    let library = unsafe { sys::culib() };
    // SAFETY: the type is that of an address; it is only called after a cast to its signature.
    let address = unsafe { library.get::<*const c_void>(name.as_bytes()) };
    address.ok().map(|address| *address).filter(|address| !address.is_null())
}

/// Calls a driver function by its symbol: `raw!("cuMemsetD8_v2", (at => u64, 0 => u8, 16 => usize))`.
///
/// The types must be those of the driver's header; pointers must stay valid until the work is done, which the
/// callers ensure by waiting for the context before the memory goes.
macro_rules! raw {
    ($name:expr, ($($value:expr => $type:ty),* $(,)?)) => {{
        type Signature = unsafe extern "C" fn($($type),*) -> i32;
        match $crate::raw::symbol($name) {
            None => $crate::raw::Outcome::Missing,
            Some(address) => {
                // SAFETY: the driver's header declares the function of this name with this signature.
                let call = unsafe { std::mem::transmute::<*const std::ffi::c_void, Signature>(address) };
                // SAFETY: handles are alive, and memory is large enough and outlives the work (see above).
                let code = unsafe { call($($value),*) };
                $crate::raw::Outcome::from(code)
            }
        }
    }};
}
pub(crate) use raw;

/// A `raw!` call that must succeed.
pub(crate) fn must(name: &str, outcome: Outcome) -> crate::Result<()> {
    match outcome {
        Outcome::Done => Ok(()),
        Outcome::Missing => Err(format!("the driver has no {name}")),
        Outcome::Failed(code) => Err(format!("{name} returned {code}")),
    }
}

/// Memory of the driver: freed, after waiting for the context, when dropped.
pub(crate) struct Memory {
    /// The address, on the device or in page-locked host memory.
    pub address: u64,
    free: &'static str,
}

impl Memory {
    /// Device memory.
    pub fn on_device(bytes: usize) -> crate::Result<Self> {
        let mut address = 0_u64;
        must("cuMemAlloc_v2", raw!("cuMemAlloc_v2", (&raw mut address => *mut u64, bytes => usize)))?;
        Ok(Self { address, free: "cuMemFree_v2" })
    }

    /// Page-locked host memory, zeroed.
    pub fn pinned(bytes: usize) -> crate::Result<Self> {
        let mut address = 0_u64;
        must(
            "cuMemHostAlloc",
            raw!("cuMemHostAlloc", (&raw mut address => *mut u64, bytes => usize, 0 => u32)),
        )?;
        // SAFETY: the driver has just allocated so many bytes at this address of the host.
        unsafe { std::ptr::write_bytes(address as *mut u8, 0, bytes) };
        Ok(Self { address, free: "cuMemFreeHost" })
    }

    /// A one-dimensional CUDA array of bytes.
    pub fn array(bytes: usize) -> crate::Result<Self> {
        #[repr(C)]
        struct Descriptor {
            width: usize,
            height: usize,
            format: u32,
            channels: u32,
        }
        const UNSIGNED_INT8: u32 = 1;
        let descriptor = Descriptor { width: bytes, height: 0, format: UNSIGNED_INT8, channels: 1 };
        let mut address = 0_u64;
        must(
            "cuArrayCreate_v2",
            raw!("cuArrayCreate_v2", (&raw mut address => *mut u64, &raw const descriptor => *const Descriptor)),
        )?;
        Ok(Self { address, free: "cuArrayDestroy" })
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let _ = raw!("cuCtxSynchronize", ());
        let _ = raw!(self.free, (self.address => u64));
    }
}
