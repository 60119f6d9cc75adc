//! NVML: clocks, temperature, throttling and locked clocks of a physical GPU.
//!
//! The library is opened at run time and never closed, like the driver's. A GPU is found by its UUID and never by its
//! number: NVML numbers all GPUs of the machine, CUDA those that `CUDA_VISIBLE_DEVICES` leaves.

use std::ffi::{c_int, c_uint, c_void};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use libloading::Library;
use nvml_wrapper::enum_wrappers::device::{
    Clock, ClockLimitId, PerformancePolicy, TemperatureSensor, TemperatureThreshold,
};
use nvml_wrapper::enums::device::GpuLockedClocksSetting;
use nvml_wrapper::error::{Bits, NvmlError};

use crate::error::{Error, ErrorKind, Result, nvml as codes, other_than_a_file, shown};
use crate::under_way;

/// The name under which the driver installs it.
const LIBRARY: &str = "libnvidia-ml.so.1";

/// Names the library in place of [`LIBRARY`].
const VARIABLE: &str = "CUPROF_NVML_PATH";

/// The first call.
const INIT: &str = "nvmlInit_v2";

/// What holds the clocks of a GPU below what they could be, as NVML tells it. Unknown bits are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ThrottleReasons(u64);

impl ThrottleReasons {
    /// Nothing runs on the GPU.
    pub const GPU_IDLE: Self = Self(0x1);
    /// Clocks that somebody set: application clocks, or locked clocks.
    pub const CLOCKS_SETTING: Self = Self(0x2);
    /// The power limit.
    pub const POWER_CAP: Self = Self(0x4);
    /// The hardware halved the clocks, or more: heat, power brake, or too fast a rise of power.
    pub const HARDWARE_SLOWDOWN: Self = Self(0x8);
    /// Another GPU of the same synchronised group.
    pub const SYNC_BOOST: Self = Self(0x10);
    /// The driver, because of heat.
    pub const THERMAL: Self = Self(0x20);
    /// The hardware, because of heat.
    pub const HARDWARE_THERMAL: Self = Self(0x40);
    /// The power supply asked for it.
    pub const POWER_BRAKE: Self = Self(0x80);
    /// A setting of display clocks.
    pub const DISPLAY: Self = Self(0x100);

    const NAMES: [(Self, &str); 9] = [
        (Self::GPU_IDLE, "gpu_idle"),
        (Self::CLOCKS_SETTING, "clocks_setting"),
        (Self::POWER_CAP, "power_cap"),
        (Self::HARDWARE_SLOWDOWN, "hardware_slowdown"),
        (Self::SYNC_BOOST, "sync_boost"),
        (Self::THERMAL, "thermal"),
        (Self::HARDWARE_THERMAL, "hardware_thermal"),
        (Self::POWER_BRAKE, "power_brake"),
        (Self::DISPLAY, "display"),
    ];

    /// Those that make a measurement slower than the GPU could be: power, heat, and the hardware's own.
    const THROTTLED: u64 = 0x4 | 0x8 | 0x20 | 0x40 | 0x80;

    /// The mask, as NVML gave it.
    #[must_use]
    pub fn bits(self) -> u64 {
        self.0
    }

    /// Whether all of these hold.
    #[must_use]
    pub fn contains(self, reasons: Self) -> bool {
        self.0 & reasons.0 == reasons.0
    }

    /// Either's.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether power, heat or the hardware slow the GPU down. Idling and clocks that somebody set do not count.
    #[must_use]
    pub fn is_throttled(self) -> bool {
        self.0 & Self::THROTTLED != 0
    }
}

/// The names of what holds, joined by `|`; `none`.
impl ThrottleReasons {
    /// The reasons that a text of [`Display`](fmt::Display) names; none of another text.
    pub(crate) fn named(text: &str) -> Option<Self> {
        let one = |name: &str| match Self::NAMES.iter().find(|(_, known)| *known == name) {
            Some((reason, _)) => Some(*reason),
            None => u64::from_str_radix(name.strip_prefix("0x")?, 16).ok().map(Self),
        };
        let names = text.split('|').filter(|name| *name != "none");
        names.map(one).try_fold(Self(0), |all, reason| Some(all.union(reason?)))
    }
}

impl fmt::Display for ThrottleReasons {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = Self::NAMES.iter().filter(|(reason, _)| self.contains(*reason));
        let mut names: Vec<_> = known.map(|(_, name)| (*name).to_owned()).collect();
        let unknown = Self::NAMES.iter().fold(self.0, |bits, (reason, _)| bits & !reason.0);
        if unknown != 0 {
            names.push(format!("{unknown:#x}"));
        }
        if names.is_empty() { f.write_str("none") } else { f.write_str(&names.join("|")) }
    }
}

/// Where a distance to the slow-down limit comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MarginSource {
    /// `nvmlDeviceGetMarginTemperature`: NVML's own figure.
    Margin,
    /// The slow-down threshold minus the temperature.
    Threshold,
}

/// How far a GPU is from being slowed down by heat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ThermalMargin {
    /// Degrees Celsius; not above 0 where the limit is reached.
    pub margin_c: i32,
    /// Where it comes from.
    pub source: MarginSource,
}

/// The state of a GPU at one moment. What NVML does not tell for this GPU is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct GpuReading {
    /// Clock of the multiprocessors.
    pub sm_clock_mhz: Option<u32>,
    /// Clock of the device memory.
    pub memory_clock_mhz: Option<u32>,
    /// What holds the clocks down.
    pub throttle: Option<ThrottleReasons>,
    /// Temperature of the GPU.
    pub temperature_c: Option<i32>,
    /// Distance to the slow-down limit.
    pub thermal_margin: Option<ThermalMargin>,
    /// Power draw, in milliwatts. On A100 and H100 an average over a quarter of the time.
    pub power_mw: Option<u32>,
    /// For how long the power limit has held the clocks down, since the driver was loaded.
    pub power_throttled_ns: Option<u64>,
    /// For how long heat has.
    pub thermal_throttled_ns: Option<u64>,
}

/// A structure of `nvmlDeviceGetMarginTemperature`, version 1.
#[repr(C)]
struct MarginTemperature {
    version: c_uint,
    margin_c: c_int,
}

/// NVML writes a structure's size and version so.
// CAST: the size is 8.
const MARGIN_VERSION: c_uint = size_of::<MarginTemperature>() as c_uint | 1 << 24;

type MarginFunction = unsafe extern "C" fn(*mut c_void, *mut MarginTemperature) -> c_int;

/// The opened library.
pub(crate) struct Nvml {
    inner: nvml_wrapper::Nvml,
    margin: Option<MarginFunction>,
    place: Place,
}

impl fmt::Debug for Nvml {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Nvml").field("margin", &self.margin.is_some()).finish_non_exhaustive()
    }
}

/// Where the library is looked for, and who says so.
#[derive(Clone, Debug, PartialEq)]
enum Place {
    /// The driver's, as the dynamic linker finds it.
    Driver,
    /// At the path of the variable.
    Variable(PathBuf),
    /// At a path that the caller names.
    Caller(PathBuf),
}

impl Place {
    fn find(path: Option<&Path>) -> Self {
        let variable = || std::env::var_os(VARIABLE).filter(|name| !name.is_empty());
        match path {
            Some(path) => Self::Caller(path.to_owned()),
            None => variable().map_or(Self::Driver, |path| Self::Variable(path.into())),
        }
    }

    fn path(&self) -> &Path {
        match self {
            Self::Driver => Path::new(LIBRARY),
            Self::Variable(path) | Self::Caller(path) => path,
        }
    }

    /// What to do where there is no NVML.
    fn remedy(&self) -> String {
        match self {
            Self::Driver => {
                "it comes with the NVIDIA driver; in a container it needs the capability `utility`".into()
            }
            Self::Variable(_) => {
                format!("let {VARIABLE} name the driver's {LIBRARY}, or unset it to have it searched for")
            }
            Self::Caller(_) => format!("name the driver's {LIBRARY}, or none to have it searched for"),
        }
    }

    /// Opening a pipe could take for ever. A bare name is the dynamic linker's to look up.
    fn refuse_other_than_a_file(&self) -> Result<()> {
        match other_than_a_file(self.path()).filter(|_| self.path().components().nth(1).is_some()) {
            Some(other) => {
                let what = format!("{self} is not a file: it is {other}");
                Err(Error::new(ErrorKind::NvmlNotFound, what).with_hint(self.remedy()))
            }
            None => Ok(()),
        }
    }

    /// A call that failed.
    fn failed(&self, call: &'static str, error: NvmlError) -> Error {
        match error {
            NvmlError::LibloadingError(source) => {
                let mut error = Error::new(ErrorKind::NvmlNotFound, format!("cannot open {self}"));
                error.call = Some("dlopen");
                error.with_source(source).with_hint(self.remedy())
            }
            NvmlError::FailedToLoadSymbol(_) if call == INIT => {
                let what = format!("{self} is not NVML: it lacks {call}");
                Error::new(ErrorKind::NvmlNotFound, what).with_hint(self.remedy())
            }
            NvmlError::FailedToLoadSymbol(_) => {
                let what = format!("{self} is too old: it lacks {call}");
                Error::new(ErrorKind::NotSupported, what).with_hint("install a newer driver")
            }
            // What the wrapper says of its own accord.
            NvmlError::Utf8Error(_)
            | NvmlError::NulError(_)
            | NvmlError::StringTooLong { .. }
            | NvmlError::IncorrectBits(_)
            | NvmlError::SetReleaseFailed
            | NvmlError::GetPciInfoFailed
            | NvmlError::PciInfoToCFailed => {
                let mut failed =
                    Error::new(ErrorKind::Call, format!("what {self} tells cannot be understood"));
                failed.call = Some(call);
                failed.with_source(error)
            }
            refused => {
                let kind = match refused {
                    NvmlError::NoPermission => ErrorKind::PermissionDenied,
                    NvmlError::NotSupported | NvmlError::FunctionNotFound => ErrorKind::NotSupported,
                    NvmlError::NotFound => ErrorKind::NoDevice,
                    NvmlError::LibraryNotFound => ErrorKind::NvmlNotFound,
                    NvmlError::DriverNotLoaded | NvmlError::LibRmVersionMismatch => ErrorKind::NoDriver,
                    _ => ErrorKind::Call,
                };
                let what = match self {
                    Self::Driver => "NVML refused".to_owned(),
                    _ => format!("NVML refused: {self}"),
                };
                let code = i32::try_from(u32::from(refused)).unwrap_or(i32::MAX);
                Error::new(kind, what).with_call(call, code).with_hint(codes::remedy(code))
            }
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&shown(self.path()))?;
        match self {
            Self::Driver => Ok(()),
            Self::Variable(_) => write!(f, " (named by {VARIABLE})"),
            Self::Caller(_) => f.write_str(" (named by the caller)"),
        }
    }
}

impl Nvml {
    /// The library at this path, else the one that `CUPROF_NVML_PATH` names, else the driver's. Opened and initialised
    /// once for each place.
    ///
    /// # Errors
    /// [`ErrorKind::NvmlNotFound`] where it is absent or another library, [`ErrorKind::NoDriver`] where it finds no
    /// driver.
    pub fn get(path: Option<&Path>) -> Result<&'static Self> {
        static OPENED: Mutex<Vec<&'static Nvml>> = Mutex::new(Vec::new());
        let place = Place::find(path);
        let mut opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(nvml) = opened.iter().find(|nvml| nvml.place == place) {
            return Ok(nvml);
        }
        let nvml: &'static Self = Box::leak(Box::new(Self::open(place)?));
        opened.push(nvml);
        Ok(nvml)
    }

    fn open(place: Place) -> Result<Self> {
        let path = place.path();
        let _opening = under_way::enter(INIT);
        under_way::at(path);
        place.refuse_other_than_a_file()?;
        let inner = nvml_wrapper::Nvml::builder()
            .lib_path(path.as_os_str())
            .init()
            .map_err(|error| place.failed(INIT, error))?;
        // SAFETY: it is loaded already, so no initialiser runs; it is never closed, since this is leaked.
        let margin = unsafe { Library::new(path) }.ok().and_then(|library| {
            // SAFETY: the type is the one that nvml.h declares for this symbol.
            let margin = unsafe { library.get::<MarginFunction>(b"nvmlDeviceGetMarginTemperature\0") };
            let margin = margin.ok().map(|margin| *margin);
            std::mem::forget(library);
            margin
        });
        Ok(Self { inner, margin, place })
    }

    /// The physical GPU with this UUID, as CUDA or `nvidia-smi -L` print it; for a MIG slice, the GPU that it is part
    /// of.
    ///
    /// # Errors
    /// [`ErrorKind::NoDevice`] where there is none, else the failed call.
    pub fn gpu(&'static self, uuid: &str) -> Result<Gpu> {
        // CUDA's text begins with `GPU-` even where the number is that of a slice.
        let as_slice = uuid.strip_prefix("GPU-").map(|number| format!("MIG-{number}"));
        let call = "nvmlDeviceGetHandleByUUID";
        let device = match (self.inner.device_by_uuid(uuid), as_slice) {
            (Err(NvmlError::NotFound | NvmlError::InvalidArg), Some(slice)) => {
                self.inner.device_by_uuid(slice.as_str())
            }
            (found, _) => found,
        };
        let device = device.map_err(|error| self.place.failed(call, error).about(uuid))?;
        let is_slice = device.mig_is_mig_device_handle().unwrap_or(false);
        let device = if is_slice {
            device
                .mig_parent_device()
                .map_err(|error| self.place.failed("nvmlDeviceGetDeviceHandleFromMigDeviceHandle", error))?
        } else {
            device
        };
        let uuid = device.uuid().map_err(|error| self.place.failed("nvmlDeviceGetUUID", error))?;
        let sliced = is_slice || device.mig_mode().is_ok_and(|mode| mode.current != 0);
        Ok(Gpu { device, nvml: self, uuid, sliced })
    }
}

/// A physical GPU.
#[derive(Debug)]
pub(crate) struct Gpu {
    device: nvml_wrapper::Device<'static>,
    nvml: &'static Nvml,
    /// As `nvidia-smi -L` prints it.
    pub uuid: String,
    /// Others may have slices of it (MIG).
    pub sliced: bool,
}

impl Gpu {
    /// The state now.
    pub fn read(&self) -> GpuReading {
        let device = &self.device;
        let throttled = |policy| device.violation_status(policy).ok().map(|time| time.violation_time);
        GpuReading {
            sm_clock_mhz: device.clock_info(Clock::SM).ok(),
            memory_clock_mhz: device.clock_info(Clock::Memory).ok(),
            throttle: self.throttle(),
            temperature_c: self.temperature_c().ok(),
            thermal_margin: self.thermal_margin().ok(),
            power_mw: device.power_usage().ok(),
            power_throttled_ns: throttled(PerformancePolicy::Power),
            thermal_throttled_ns: throttled(PerformancePolicy::Thermal),
        }
    }

    /// What holds the clocks down; none where NVML does not tell.
    pub fn throttle(&self) -> Option<ThrottleReasons> {
        match self.device.current_throttle_reasons_strict() {
            Ok(reasons) => Some(ThrottleReasons(reasons.bits())),
            // A reason that the wrapper does not know yet.
            Err(NvmlError::IncorrectBits(Bits::U64(bits))) => Some(ThrottleReasons(bits)),
            Err(_) => None,
        }
    }

    fn temperature_c(&self) -> Result<i32> {
        let temperature = self.device.temperature(TemperatureSensor::Gpu);
        let temperature =
            temperature.map_err(|error| self.nvml.place.failed("nvmlDeviceGetTemperature", error))?;
        Ok(i32::try_from(temperature).unwrap_or(i32::MAX))
    }

    /// The distance to the slow-down limit.
    ///
    /// # Errors
    /// [`ErrorKind::NotSupported`] where NVML tells neither the margin nor the threshold of this GPU.
    pub fn thermal_margin(&self) -> Result<ThermalMargin> {
        if let Some(margin_c) = self.nvml_margin_c() {
            return Ok(ThermalMargin { margin_c, source: MarginSource::Margin });
        }
        let threshold = self.device.temperature_threshold(TemperatureThreshold::Slowdown);
        let threshold =
            threshold.map_err(|error| self.nvml.place.failed("nvmlDeviceGetTemperatureThreshold", error))?;
        let threshold = i32::try_from(threshold).unwrap_or(i32::MAX);
        let margin_c = threshold.saturating_sub(self.temperature_c()?);
        Ok(ThermalMargin { margin_c, source: MarginSource::Threshold })
    }

    fn nvml_margin_c(&self) -> Option<i32> {
        let function = self.nvml.margin?;
        let mut margin = MarginTemperature { version: MARGIN_VERSION, margin_c: 0 };
        // SAFETY: the handle is only passed on to the library that it is from.
        let device = unsafe { self.device.handle() };
        // SAFETY: the handle is live, and the structure has the size that its version says.
        let code = unsafe { function(device.cast(), &raw mut margin) };
        (code == 0).then_some(margin.margin_c)
    }

    /// The highest clock of the multiprocessors.
    pub fn max_sm_clock_mhz(&self) -> Result<u32> {
        self.device
            .max_clock_info(Clock::SM)
            .map_err(|error| self.nvml.place.failed("nvmlDeviceGetMaxClockInfo", error))
    }

    /// The processes that compute on it, this one included if it has a context; none where NVML does not tell.
    pub fn compute_pids(&self) -> Option<Vec<u32>> {
        let processes = self.device.running_compute_processes().ok()?;
        Some(processes.into_iter().map(|process| process.pid).collect())
    }

    /// Locks the clock of the multiprocessors at the rated one, which NVML knows by a symbol only.
    ///
    /// # Errors
    /// [`ErrorKind::PermissionDenied`] without administrator's rights; [`ErrorKind::NotSupported`].
    pub fn lock_base(&mut self) -> Result<()> {
        let (lower_bound, upper_bound) = (ClockLimitId::Tdp, ClockLimitId::Tdp);
        self.lock(GpuLockedClocksSetting::Symbolic { lower_bound, upper_bound })
    }

    /// Locks it at this clock.
    ///
    /// # Errors
    /// As [`Gpu::lock_base`].
    pub fn lock_mhz(&mut self, mhz: u32) -> Result<()> {
        self.lock(GpuLockedClocksSetting::Numeric { min_clock_mhz: mhz, max_clock_mhz: mhz })
    }

    fn lock(&mut self, setting: GpuLockedClocksSetting) -> Result<()> {
        let locked = self.device.set_gpu_locked_clocks(setting);
        locked.map_err(|error| self.nvml.place.failed("nvmlDeviceSetGpuLockedClocks", error))
    }

    /// Removes the lock, whoever set it.
    ///
    /// # Errors
    /// As [`Gpu::lock_base`].
    pub fn unlock(&mut self) -> Result<()> {
        self.device
            .reset_gpu_locked_clocks()
            .map_err(|error| self.nvml.place.failed("nvmlDeviceResetGpuLockedClocks", error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idling_and_set_clocks_are_no_throttling() {
        let quiet = ThrottleReasons::GPU_IDLE.union(ThrottleReasons::CLOCKS_SETTING);
        assert!(!quiet.is_throttled() && !ThrottleReasons::default().is_throttled());
        for bit in [0x4, 0x8, 0x20, 0x40, 0x80] {
            assert!(quiet.union(ThrottleReasons(bit)).is_throttled(), "{bit:#x}");
        }
    }

    #[test]
    fn reasons_are_told_by_name_and_unknown_ones_by_number() {
        assert_eq!(ThrottleReasons::default().to_string(), "none");
        assert_eq!(ThrottleReasons(0x24).to_string(), "power_cap|thermal");
        assert_eq!(ThrottleReasons(0x8001).to_string(), "gpu_idle|0x8000");
    }

    #[test]
    fn the_margins_structure_is_told_by_size_and_version() {
        assert_eq!(MARGIN_VERSION, 0x0100_0008);
    }
}
