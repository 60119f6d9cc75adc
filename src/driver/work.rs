//! Work of the crate's own in a context of the program: kernels from PTX, memory, streams.
//!
//! All calls but [`Driver::current`] are for use inside [`Driver::within`]. Handles are what the driver gave out, and
//! are given back to it only; those of a context that the program has destroyed are refused by the driver.

use std::ffi::{CStr, c_int, c_void};
use std::marker::PhantomData;
use std::ptr::{NonNull, null_mut};

use super::{Context, Device, Driver, Error, ErrorKind, Result, SUCCESS, failed};

/// A stream (`CUstream`, `cudaStream_t`) of the program's context.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stream(*mut c_void);

// SAFETY: a CUstream is an opaque handle that the driver allows to be used from any thread.
unsafe impl Send for Stream {}
// SAFETY: as above; the driver locks what the handle stands for.
unsafe impl Sync for Stream {}

impl Stream {
    /// The default stream that waits for all others (`CU_STREAM_LEGACY`).
    pub const LEGACY_DEFAULT: Self = Self(std::ptr::without_provenance_mut(1));

    /// The default stream of the calling thread (`CU_STREAM_PER_THREAD`).
    pub const PER_THREAD_DEFAULT: Self = Self(std::ptr::without_provenance_mut(2));

    /// The stream with this handle: a `CUstream` or `cudaStream_t`; null is the default stream.
    ///
    /// # Safety
    /// The handle is a stream of the context in which it is used, and stays one for as long as it is used.
    #[must_use]
    pub unsafe fn from_raw(handle: *mut c_void) -> Self {
        Self(handle)
    }
}

/// A loaded `CUmodule`.
#[derive(Debug)]
pub(crate) struct Module(NonNull<c_void>);

// SAFETY: a CUmodule is an opaque handle that the driver allows to be used from any thread.
unsafe impl Send for Module {}

/// A `CUfunction` of a [`Module`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Function(NonNull<c_void>);

// SAFETY: as for its module.
unsafe impl Send for Function {}

/// Device memory of the crate's own.
#[derive(Debug)]
pub(crate) struct Memory {
    pub address: u64,
    pub bytes: usize,
}

/// The primary context of a device, retained and current to this thread for as long as this lives.
#[derive(Debug)]
pub(crate) struct Primary {
    driver: &'static Driver,
    device: c_int,
    _on_this_thread: PhantomData<*const ()>,
}

impl Drop for Primary {
    fn drop(&mut self) {
        let (driver, mut popped) = (self.driver, null_mut());
        let _nobody_to_tell = call!(driver, ctx_pop_current, "cuCtxPopCurrent", &raw mut popped);
        let _nobody_to_tell = call!(driver, primary_ctx_release, "cuDevicePrimaryCtxRelease", self.device);
    }
}

fn not_null(call: &'static str, handle: *mut c_void) -> Result<NonNull<c_void>> {
    NonNull::new(handle)
        .ok_or_else(|| Error::new(ErrorKind::Call, "the driver gave no handle").with_call(call, 0))
}

impl Driver {
    /// The context that is current to the calling thread, and its device.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] where there is none, else the failed call.
    pub fn current(&self) -> Result<(Context, Device)> {
        /// `CUDA_ERROR_NOT_INITIALIZED`.
        const NOT_INITIALIZED: i32 = 3;
        let mut context = null_mut();
        match call!(self, ctx_get_current, "cuCtxGetCurrent", &raw mut context) {
            Err(error) if error.code != Some(NOT_INITIALIZED) => return Err(error),
            _ => {}
        }
        let context = NonNull::new(context).map(Context).ok_or_else(|| {
            Error::new(ErrorKind::Config, "no CUDA context is current to this thread").with_hint(
                "make the program's context first: cudaSetDevice, cudaFree(0) or cuCtxSetCurrent do",
            )
        })?;
        let mut device = 0;
        call!(self, ctx_get_device, "cuCtxGetDevice", &raw mut device)?;
        Ok((context, self.describe(device)?))
    }

    /// Retains the primary context of a device, which the CUDA runtime uses, too, and makes it current to this thread.
    ///
    /// # Errors
    /// [`ErrorKind::NoDevice`] where there is no such device, else the failed call.
    pub fn retain_primary(&'static self, ordinal: u32) -> Result<Primary> {
        let count = self.devices()?.len();
        let device = c_int::try_from(ordinal).unwrap_or(c_int::MAX);
        if ordinal as usize >= count {
            let what = format!("there is no device {ordinal}: the process sees {count}");
            return Err(Error::new(ErrorKind::NoDevice, what).with_hint("check CUDA_VISIBLE_DEVICES"));
        }
        let mut context = null_mut();
        call!(self, primary_ctx_retain, "cuDevicePrimaryCtxRetain", &raw mut context, device)?;
        if let Err(error) = call!(self, ctx_push_current, "cuCtxPushCurrent", context) {
            let _nobody_to_tell = call!(self, primary_ctx_release, "cuDevicePrimaryCtxRelease", device);
            return Err(error);
        }
        Ok(Primary { driver: self, device, _on_this_thread: PhantomData })
    }

    /// Compiles PTX for the device (`cuModuleLoadDataEx`).
    pub fn load(&self, ptx: &CStr) -> Result<Module> {
        let mut module = null_mut();
        call!(
            self,
            module_load_data,
            "cuModuleLoadDataEx",
            &raw mut module,
            ptx.as_ptr(),
            0,
            null_mut(),
            null_mut()
        )?;
        not_null("cuModuleLoadDataEx", module).map(Module)
    }

    /// Unloads a module; nothing of it may still run.
    pub fn unload(&self, module: Module) -> Result<()> {
        call!(self, module_unload, "cuModuleUnload", module.0.as_ptr())
    }

    /// A kernel of a module.
    pub fn function(&self, module: &Module, name: &CStr) -> Result<Function> {
        let mut function = null_mut();
        let module = module.0.as_ptr();
        call!(self, module_get_function, "cuModuleGetFunction", &raw mut function, module, name.as_ptr())?;
        not_null("cuModuleGetFunction", function).map(Function)
    }

    /// Allocates device memory.
    pub fn allocate(&self, bytes: usize) -> Result<Memory> {
        let mut address = 0;
        call!(self, mem_alloc, "cuMemAlloc", &raw mut address, bytes)?;
        Ok(Memory { address, bytes })
    }

    /// Frees device memory; waits for the work that uses it.
    pub fn free(&self, memory: Memory) -> Result<()> {
        call!(self, mem_free, "cuMemFree", memory.address)
    }

    /// Lends memory of this program to the device, for all contexts, and returns its address there. The device may read
    /// and write it at any time from then on, which is what atomics are for.
    pub fn lend<T: Sync>(&self, memory: &'static T) -> Result<u64> {
        /// `CU_MEMHOSTREGISTER_PORTABLE` and `CU_MEMHOSTREGISTER_DEVICEMAP`.
        const FLAGS: u32 = 1 | 2;
        /// `CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED`: nobody took it back.
        const ALREADY: i32 = 712;
        let pointer = std::ptr::from_ref(memory).cast_mut().cast::<c_void>();
        let lent = call!(self, mem_host_register, "cuMemHostRegister", pointer, size_of::<T>(), FLAGS);
        lent.or_else(|error| if error.code == Some(ALREADY) { Ok(()) } else { Err(error) })?;
        let mut address = 0;
        let found = call!(
            self,
            mem_host_get_device_pointer,
            "cuMemHostGetDevicePointer",
            &raw mut address,
            pointer,
            0
        );
        found.inspect_err(|_| drop(self.take_back(memory)))?;
        Ok(address)
    }

    /// Takes lent memory back; nothing on the device uses it any more.
    pub fn take_back<T: Sync>(&self, memory: &'static T) -> Result<()> {
        let pointer = std::ptr::from_ref(memory).cast_mut().cast::<c_void>();
        call!(self, mem_host_unregister, "cuMemHostUnregister", pointer)
    }

    /// Fills the first so many bytes of the memory, in whole words.
    pub fn fill(&self, memory: &Memory, bytes: usize, stream: Stream) -> Result<()> {
        let words = bytes.min(memory.bytes) / 4;
        call!(self, memset_async, "cuMemsetD32Async", memory.address, 0, words, stream.0)
    }

    /// Launches a kernel that takes 64-bit parameters, in a grid of one dimension.
    pub fn launch<const N: usize>(
        &self,
        function: Function,
        blocks: u32,
        threads: u32,
        stream: Stream,
        mut parameters: [u64; N],
    ) -> Result<()> {
        let mut pointers =
            parameters.each_mut().map(|parameter| std::ptr::from_mut(parameter).cast::<c_void>());
        let (function, pointers) = (function.0.as_ptr(), pointers.as_mut_ptr());
        call!(
            self,
            launch_kernel,
            "cuLaunchKernel",
            function,
            blocks,
            1,
            1,
            threads,
            1,
            1,
            0,
            stream.0,
            pointers,
            null_mut()
        )
    }

    /// A stream that does not wait for the default stream.
    pub fn create_stream(&self) -> Result<Stream> {
        const NON_BLOCKING: u32 = 1;
        let mut stream = null_mut();
        call!(self, stream_create, "cuStreamCreate", &raw mut stream, NON_BLOCKING)?;
        not_null("cuStreamCreate", stream).map(|stream| Stream(stream.as_ptr()))
    }

    /// Destroys a stream that [`Driver::create_stream`] made.
    pub fn destroy_stream(&self, stream: Stream) -> Result<()> {
        call!(self, stream_destroy, "cuStreamDestroy", stream.0)
    }

    /// Waits for a stream.
    pub fn synchronize_stream(&self, stream: Stream) -> Result<()> {
        call!(self, stream_synchronize, "cuStreamSynchronize", stream.0)
    }

    /// Waits for the current context.
    pub fn synchronize_current(&self) -> Result<()> {
        call!(self, ctx_synchronize, "cuCtxSynchronize")
    }

    /// Whether launches into the stream become part of a graph instead of running. An older driver that cannot tell
    /// has no captures.
    pub fn is_capturing(&self, stream: Stream) -> Result<bool> {
        if self.functions.stream_is_capturing.is_none() {
            return Ok(false);
        }
        let mut status: c_int = 0;
        call!(self, stream_is_capturing, "cuStreamIsCapturing", stream.0, &raw mut status)?;
        Ok(status != 0)
    }

    /// Makes all persisting lines of the device's L2 cache normal ones.
    pub fn reset_persisting_l2(&self) -> Result<()> {
        call!(self, ctx_reset_persisting_l2, "cuCtxResetPersistingL2Cache")
    }
}
