//! The few calls of the CUDA driver, and of NVML, that the crate makes itself, each optional.
//!
//! The library is opened at run time and never closed. Nothing here initialises CUDA: a profiler that is
//! started in a program without GPU work must not create contexts or spend the driver's start-up time.
#![expect(unsafe_code, reason = "calls into libcuda and NVML through function pointers")]

pub(crate) mod nvml;

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::OnceLock;

use libloading::Library;

use crate::error::{Error, ErrorKind, Result, cuda, shown};
use crate::under_way;

/// A `CUcontext` that CUDA handed out; only ever given back to CUDA.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Context(pub NonNull<c_void>);

// SAFETY: a CUcontext is an opaque handle that the driver allows to be used from any thread.
unsafe impl Send for Context {}

type Status = c_int;
type CuContext = *mut c_void;

const SUCCESS: Status = 0;
/// What every call of the toolkit's stub returns.
const STUB: Status = 34;

/// The CUDA version that a driver supports, as `cuDriverGetVersion` gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DriverVersion(u32);

impl DriverVersion {
    /// The CUDA major version, which bounds the CUPTI major version that can be used.
    #[must_use]
    pub fn major(self) -> u32 {
        self.0 / 1000
    }

    /// The CUDA minor version.
    #[must_use]
    pub fn minor(self) -> u32 {
        self.0 % 1000 / 10
    }
}

impl std::fmt::Display for DriverVersion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.major(), self.minor())
    }
}

/// What the driver tells about one device.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Device {
    /// The ordinal in this process.
    pub ordinal: u32,
    /// The product name.
    pub name: String,
    /// The UUID as `GPU-xxxxxxxx-…`, stable across processes and `CUDA_VISIBLE_DEVICES`.
    pub uuid: String,
    /// Compute capability, major and minor.
    pub compute_capability: (u32, u32),
    /// Number of streaming multiprocessors.
    pub multiprocessors: u32,
    /// L2 cache size in bytes.
    pub l2_bytes: u64,
    /// Device memory in bytes.
    pub memory_bytes: u64,
    /// Peak clock of the multiprocessors in kHz, as the product has it; none where the driver does not tell.
    pub clock_rate_khz: Option<u32>,
    /// The same of the device memory.
    pub memory_clock_rate_khz: Option<u32>,
}

macro_rules! functions {
    ($($field:ident = $symbol:literal : fn($($arg:ty),*);)*) => {
        /// One entry point each; absent where the driver does not export it.
        struct Functions { $($field: Option<unsafe extern "C" fn($($arg),*) -> Status>,)* }

        impl Functions {
            fn load(library: &Library) -> Self {
                Self { $($field: {
                    // SAFETY: the type is the one that NVIDIA documents for this symbol, unchanged since CUDA 4.
                    unsafe { library.get::<unsafe extern "C" fn($($arg),*) -> Status>(concat!($symbol, "\0").as_bytes()) }
                        .ok().map(|symbol| *symbol)
                },)* }
            }
        }
    };
}

functions! {
    driver_get_version = "cuDriverGetVersion": fn(*mut c_int);
    init = "cuInit": fn(c_uint);
    device_get_count = "cuDeviceGetCount": fn(*mut c_int);
    device_get = "cuDeviceGet": fn(*mut c_int, c_int);
    device_get_name = "cuDeviceGetName": fn(*mut c_char, c_int, c_int);
    device_get_uuid = "cuDeviceGetUuid": fn(*mut [u8; 16], c_int);
    device_get_attribute = "cuDeviceGetAttribute": fn(*mut c_int, c_int, c_int);
    device_total_mem = "cuDeviceTotalMem_v2": fn(*mut usize, c_int);
    ctx_push_current = "cuCtxPushCurrent_v2": fn(CuContext);
    ctx_pop_current = "cuCtxPopCurrent_v2": fn(*mut CuContext);
    ctx_synchronize = "cuCtxSynchronize": fn();
    ctx_get_current = "cuCtxGetCurrent": fn(*mut CuContext);
    ctx_get_device = "cuCtxGetDevice": fn(*mut c_int);
    primary_ctx_retain = "cuDevicePrimaryCtxRetain": fn(*mut CuContext, c_int);
    primary_ctx_release = "cuDevicePrimaryCtxRelease_v2": fn(c_int);
    ctx_reset_persisting_l2 = "cuCtxResetPersistingL2Cache": fn();
    module_load_data = "cuModuleLoadDataEx":
        fn(*mut *mut c_void, *const c_char, c_uint, *mut c_int, *mut *mut c_void);
    module_unload = "cuModuleUnload": fn(*mut c_void);
    module_get_function = "cuModuleGetFunction": fn(*mut *mut c_void, *mut c_void, *const c_char);
    mem_alloc = "cuMemAlloc_v2": fn(*mut u64, usize);
    mem_free = "cuMemFree_v2": fn(u64);
    mem_host_register = "cuMemHostRegister_v2": fn(*mut c_void, usize, c_uint);
    mem_host_get_device_pointer = "cuMemHostGetDevicePointer_v2": fn(*mut u64, *mut c_void, c_uint);
    mem_host_unregister = "cuMemHostUnregister": fn(*mut c_void);
    memset_async = "cuMemsetD32Async": fn(u64, c_uint, usize, *mut c_void);
    launch_kernel = "cuLaunchKernel":
        fn(*mut c_void, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, *mut c_void, *mut *mut c_void, *mut *mut c_void);
    stream_create = "cuStreamCreate": fn(*mut *mut c_void, c_uint);
    stream_destroy = "cuStreamDestroy_v2": fn(*mut c_void);
    stream_synchronize = "cuStreamSynchronize": fn(*mut c_void);
    stream_is_capturing = "cuStreamIsCapturing": fn(*mut c_void, *mut c_int);
}

/// The loaded driver library.
pub(crate) struct Driver {
    functions: Functions,
    /// The CUDA version of the driver.
    pub version: DriverVersion,
}

impl std::fmt::Debug for Driver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Driver").field("version", &self.version).finish_non_exhaustive()
    }
}

/// Runs one driver call; an absent symbol is an error like a failed call.
macro_rules! call {
    ($driver:expr, $field:ident, $name:literal $(, $arg:expr)*) => {{
        match $driver.functions.$field {
            None => Err(Error::new(ErrorKind::Call, concat!("the driver does not export ", $name))),
            Some(function) => {
                let _under_way = $crate::under_way::enter($name);
                // SAFETY: every pointer argument is a live local of the type that the call writes or reads.
                let status = unsafe { function($($arg),*) };
                if status == SUCCESS { Ok(()) } else { Err(failed($name, status)) }
            }
        }
    }};
}

mod work;

pub use work::Stream;
pub(crate) use work::{Function, Memory, Module, Primary};

fn failed(call: &'static str, status: Status) -> Error {
    let kind = match status {
        100 => ErrorKind::NoDevice,
        STUB => ErrorKind::NoDriver,
        _ => ErrorKind::Call,
    };
    Error::new(kind, "the CUDA driver refused").with_call(call, status).with_hint(cuda::remedy(status))
}

impl Driver {
    /// The process's driver, opened at the first call and kept.
    ///
    /// # Errors
    /// [`ErrorKind::NoDriver`] where `libcuda.so.1` is absent or a stub.
    pub fn get() -> Result<&'static Self> {
        static DRIVER: OnceLock<Driver> = OnceLock::new();
        if let Some(driver) = DRIVER.get() {
            return Ok(driver);
        }
        let driver = Self::open()?;
        Ok(DRIVER.get_or_init(|| driver))
    }

    /// The file of it that this process has, if any.
    pub fn file() -> Option<PathBuf> {
        let mapped = cupti_sys::loader::Environment::from_process().mapped;
        let name = |file: &PathBuf| Some(file.file_name()?.to_string_lossy().into_owned());
        mapped.into_iter().find(|file| name(file).is_some_and(|name| name.starts_with("libcuda.so")))
    }

    fn open() -> Result<Self> {
        const NAME: &str = "libcuda.so.1";
        let opening = under_way::enter("dlopen");
        under_way::at(Path::new(NAME));
        // SAFETY: the driver library's initialisers are made to run in any process that uses CUDA.
        let library = unsafe { Library::new(NAME) }.map_err(|source| {
            Error::new(ErrorKind::NoDriver, format!("cannot open {NAME}"))
                .with_source(source)
                .with_hint("install the NVIDIA driver, or replay a recording: that needs no GPU")
        })?;
        drop(opening);
        let functions = Functions::load(&library);
        // The driver must outlive every pointer taken from it, that is, the process.
        std::mem::forget(library);
        let mut driver = Self { functions, version: DriverVersion(0) };
        let mut version = 0;
        call!(driver, driver_get_version, "cuDriverGetVersion", &raw mut version)
            .map_err(|error| if error.code == Some(STUB) { name_the_stub(error) } else { error })?;
        driver.version = DriverVersion(version.try_into().unwrap_or(0));
        Ok(driver)
    }

    /// Initialises CUDA and lists the devices, ordered by ordinal.
    ///
    /// # Errors
    /// [`ErrorKind::NoDevice`] where there is none, else the failed call.
    pub fn devices(&self) -> Result<Vec<Device>> {
        call!(self, init, "cuInit", 0)?;
        let mut count = 0;
        call!(self, device_get_count, "cuDeviceGetCount", &raw mut count)?;
        if count == 0 {
            return Err(failed("cuDeviceGetCount", 100));
        }
        (0..count).map(|ordinal| self.device(ordinal)).collect()
    }

    fn device(&self, ordinal: c_int) -> Result<Device> {
        let mut device = 0;
        call!(self, device_get, "cuDeviceGet", &raw mut device, ordinal)?;
        self.describe(device)
    }

    /// What the driver tells about a `CUdevice`, which is the ordinal by another name.
    fn describe(&self, device: c_int) -> Result<Device> {
        let mut name = [0_u8; 256];
        call!(self, device_get_name, "cuDeviceGetName", name.as_mut_ptr().cast(), 255, device)?;
        let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
        let mut uuid = [0_u8; 16];
        call!(self, device_get_uuid, "cuDeviceGetUuid", &raw mut uuid, device)?;
        let mut memory_bytes = 0_usize;
        call!(self, device_total_mem, "cuDeviceTotalMem_v2", &raw mut memory_bytes, device)?;
        // Numbers of CUdevice_attribute.
        let multiprocessors = self.attribute(device, 16)?;
        let l2_bytes = self.attribute(device, 38)?;
        let compute_capability = (self.attribute(device, 75)?, self.attribute(device, 76)?);
        Ok(Device {
            ordinal: device.unsigned_abs(),
            name: String::from_utf8_lossy(name).into_owned(),
            uuid: format_uuid(uuid),
            compute_capability,
            multiprocessors,
            l2_bytes: l2_bytes.into(),
            memory_bytes: memory_bytes as u64,
            clock_rate_khz: self.attribute(device, 13).ok().filter(|khz| *khz > 0),
            memory_clock_rate_khz: self.attribute(device, 36).ok().filter(|khz| *khz > 0),
        })
    }

    fn attribute(&self, device: c_int, attribute: c_int) -> Result<u32> {
        let mut value = 0;
        call!(self, device_get_attribute, "cuDeviceGetAttribute", &raw mut value, attribute, device)?;
        Ok(value.unsigned_abs())
    }

    /// Waits until everything that was launched in this context has run.
    ///
    /// # Errors
    /// The failed call; a context with a sticky error stays usable for everything but this.
    pub fn synchronize(&self, context: Context) -> Result<()> {
        self.within(context, || call!(self, ctx_synchronize, "cuCtxSynchronize"))
    }

    /// Makes calls with this context current to the thread, and puts back what was current.
    ///
    /// # Errors
    /// Of the calls, else of making the context current.
    pub fn within<T>(&self, context: Context, calls: impl FnOnce() -> Result<T>) -> Result<T> {
        call!(self, ctx_push_current, "cuCtxPushCurrent", context.0.as_ptr())?;
        let outcome = calls();
        let mut popped = std::ptr::null_mut();
        call!(self, ctx_pop_current, "cuCtxPopCurrent", &raw mut popped)?;
        outcome
    }
}

/// Adds which file is mapped, so that one knows what to remove.
fn name_the_stub(error: Error) -> Error {
    match Driver::file() {
        Some(file) => {
            let hint = error.hint.clone().unwrap_or_default();
            error.with_hint(format!("{hint}; it is {}", shown(file)))
        }
        None => error,
    }
}

/// The form that `nvidia-smi -L` prints.
fn format_uuid(uuid: [u8; 16]) -> String {
    let mut text = String::from("GPU-");
    for (index, byte) in uuid.iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push_str(&format!("{byte:02x}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_is_printed_as_nvidia_smi_prints_it() {
        let uuid = std::array::from_fn(|index| index as u8);
        assert_eq!(format_uuid(uuid), "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f");
    }

    #[test]
    fn a_driver_version_is_split_into_major_and_minor() {
        assert_eq!(DriverVersion(12_090).to_string(), "12.9");
        assert_eq!(DriverVersion(13_000).major(), 13);
    }

    #[test]
    fn the_toolkits_stub_is_named_as_the_cause() {
        assert_eq!(failed("cuInit", 34).kind, ErrorKind::NoDriver);
    }
}
