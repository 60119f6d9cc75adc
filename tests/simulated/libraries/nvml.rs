//! A simulation of `libnvidia-ml.so.1`: two GPUs, of which the first is the simulated driver's, and a slice of it.
//!
//! | variable | |
//! |---|---|
//! | `SIM_NVML_JOURNAL` | a file to which every call is appended: its name, the GPU's number, what is set |
//! | `SIM_NVML_FAIL` | calls that fail, with their codes: `nvmlInit_v2:9,nvmlDeviceSetGpuLockedClocks:4` |
//! | `SIM_NVML_HANG` | the call that never returns |
//! | `SIM_NVML_MARGIN`, `_TEMPERATURE`, `_THROTTLE`, `_POWER_THROTTLED` | what it tells, call by call: `5,10,20`; the last one stays |
//! | `SIM_NVML_PROCESSES` | the processes that compute on a GPU (`own`): `own,17` |
//! | `SIM_NVML_MIG` | set: the first GPU is partitioned |
//!
//! Without `SIM_NVML_MARGIN` it has no `nvmlDeviceGetMarginTemperature`, as drivers before 565 have not. Clocks follow
//! what this process has locked.
#![deny(warnings, unsafe_op_in_unsafe_fn)]

use std::ffi::{CStr, c_char, c_int, c_uint};
use std::io::Write;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

const UUIDS: [&CStr; 3] = [
    c"GPU-abababab-abab-abab-abab-abababababab",
    c"GPU-01010101-0101-0101-0101-010101010101",
    c"MIG-cdcdcdcd-cdcd-cdcd-cdcd-cdcdcdcdcdcd",
];
const SLICE: usize = 3;
const BASE_MHZ: u32 = 1500;
const MAX_MHZ: u32 = 1980;
const SYMBOL_OF_BASE: u32 = 0xffff_ff01;

const NOT_SUPPORTED: c_int = 3;
const NOT_FOUND: c_int = 6;
const INSUFFICIENT_SIZE: c_int = 7;

/// What this process has locked; 0: nothing.
static LOCKED: AtomicU32 = AtomicU32::new(0);

/// Journals a call, and says whether the script lets it succeed.
fn enter(call: &str, told: &str) -> Result<(), c_int> {
    if let Some(path) = std::env::var_os("SIM_NVML_JOURNAL") {
        let line = format!("{call} {told}").trim_end().to_owned() + "\n";
        let file = std::fs::File::options().create(true).append(true).open(path);
        let _told = file.and_then(|mut file| file.write_all(line.as_bytes()));
    }
    while std::env::var("SIM_NVML_HANG").is_ok_and(|hangs| hangs == call) {
        std::thread::park();
    }
    let script = std::env::var("SIM_NVML_FAIL").unwrap_or_default();
    let mut rules = script.split(',').filter_map(|rule| rule.split_once(':'));
    match rules.find(|(name, _)| *name == call) {
        Some((_, code)) => Err(code.parse().unwrap_or(999)),
        None => Ok(()),
    }
}

#[repr(C)]
pub struct ProcessInfo {
    pid: c_uint,
    used_bytes: u64,
    gpu_instance: c_uint,
    compute_instance: c_uint,
}

/// The next value of a script.
fn next(variable: &str, calls: &AtomicUsize, otherwise: u64) -> u64 {
    let Ok(script) = std::env::var(variable) else { return otherwise };
    let values: Vec<_> = script.split(',').collect();
    let call = calls.fetch_add(1, Ordering::SeqCst).min(values.len() - 1);
    let value = values[call].trim();
    match value.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => value.parse::<i64>().map(i64::cast_unsigned),
    }
    .unwrap_or(otherwise)
}

/// The functions of a GPU: they tell one value each, or set something.
macro_rules! functions {
    ($($name:ident($device:ident $(, $arg:ident: $type:ty)*) $told:expr => $body:expr;)*) => {$(
        /// # Safety
        /// As NVML's: pointers can be written to.
        #[allow(non_snake_case)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($device: usize $(, $arg: $type)*) -> c_int {
            if let Err(code) = enter(stringify!($name), &$told) {
                return code;
            }
            $body
        }
    )*};
}

/// Writes to an out-pointer, and succeeds.
macro_rules! give {
    ($out:expr, $value:expr) => {{
        let value = $value;
        unsafe { $out.write(value) };
        0
    }};
}

static TEMPERATURES: AtomicUsize = AtomicUsize::new(0);
static MARGINS: AtomicUsize = AtomicUsize::new(0);
static THROTTLES: AtomicUsize = AtomicUsize::new(0);
static POWER_THROTTLES: AtomicUsize = AtomicUsize::new(0);

fn partitioned(device: usize) -> u32 {
    u32::from(device == 1 && std::env::var_os("SIM_NVML_MIG").is_some())
}

fn sm_clock() -> u32 {
    match LOCKED.load(Ordering::SeqCst) {
        0 => MAX_MHZ,
        SYMBOL_OF_BASE => BASE_MHZ,
        locked => locked,
    }
}

functions! {
    nvmlDeviceGetUUID(device, text: *mut c_char, length: c_uint) device.to_string() => {
        let uuid = UUIDS[device - 1].to_bytes_with_nul();
        if (length as usize) < uuid.len() {
            INSUFFICIENT_SIZE
        } else {
            unsafe { std::ptr::copy_nonoverlapping(uuid.as_ptr().cast(), text, uuid.len()) };
            0
        }
    };
    nvmlDeviceIsMigDeviceHandle(device, out: *mut c_uint) device.to_string() => give!(out, c_uint::from(device == SLICE));
    nvmlDeviceGetDeviceHandleFromMigDeviceHandle(device, out: *mut usize) device.to_string() => give!(out, 1);
    nvmlDeviceGetMigMode(device, current: *mut c_uint, pending: *mut c_uint) device.to_string() => {
        unsafe { pending.write(0) };
        give!(current, partitioned(device))
    };
    nvmlDeviceGetClockInfo(device, kind: c_uint, out: *mut c_uint) device.to_string() => {
        give!(out, if kind == 2 { 3201 } else { sm_clock() })
    };
    nvmlDeviceGetMaxClockInfo(device, _kind: c_uint, out: *mut c_uint) device.to_string() => give!(out, MAX_MHZ);
    nvmlDeviceGetTemperature(device, _sensor: c_uint, out: *mut c_uint) device.to_string() => {
        give!(out, next("SIM_NVML_TEMPERATURE", &TEMPERATURES, 40) as u32)
    };
    nvmlDeviceGetTemperatureThreshold(device, _kind: c_uint, out: *mut c_uint) device.to_string() => give!(out, 90);
    nvmlDeviceGetPowerUsage(device, out: *mut c_uint) device.to_string() => give!(out, 120_000);
    nvmlDeviceGetCurrentClocksThrottleReasons(device, out: *mut u64) device.to_string() => {
        give!(out, next("SIM_NVML_THROTTLE", &THROTTLES, 1))
    };
    nvmlDeviceGetViolationStatus(device, policy: c_uint, out: *mut [u64; 2]) device.to_string() => {
        let time = if policy == 0 { next("SIM_NVML_POWER_THROTTLED", &POWER_THROTTLES, 0) } else { 0 };
        give!(out, [0, time])
    };
    nvmlDeviceGetComputeRunningProcesses_v3(device, count: *mut c_uint, infos: *mut ProcessInfo) device.to_string() => {
        let script = std::env::var("SIM_NVML_PROCESSES").unwrap_or("own".to_owned());
        let pids = script.split(',').filter(|pid| !pid.is_empty());
        let pids: Vec<u32> = pids.map(|pid| pid.parse().unwrap_or(std::process::id())).collect();
        let room = unsafe { count.read() } as usize;
        unsafe { count.write(pids.len() as c_uint) };
        if room < pids.len() {
            INSUFFICIENT_SIZE
        } else {
            for (index, pid) in pids.into_iter().enumerate() {
                let info = ProcessInfo { pid, used_bytes: 0, gpu_instance: 0, compute_instance: 0 };
                unsafe { infos.add(index).write(info) };
            }
            0
        }
    };
    nvmlDeviceSetGpuLockedClocks(device, from: c_uint, to: c_uint) format!("{device} {from:#x} {to:#x}") => {
        LOCKED.store(to, Ordering::SeqCst);
        0
    };
    nvmlDeviceResetGpuLockedClocks(device) device.to_string() => {
        LOCKED.store(0, Ordering::SeqCst);
        0
    };
}

/// # Safety
/// As NVML's.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn nvmlDeviceGetMarginTemperature(device: usize, out: *mut [c_int; 2]) -> c_int {
    if std::env::var_os("SIM_NVML_MARGIN").is_none() {
        return NOT_SUPPORTED;
    }
    if let Err(code) = enter("nvmlDeviceGetMarginTemperature", &device.to_string()) {
        return code;
    }
    let [version, _] = unsafe { out.read() };
    assert_eq!(version, 0x0100_0008, "the version of the structure");
    give!(out, [version, next("SIM_NVML_MARGIN", &MARGINS, 50) as c_int])
}

/// # Safety
/// As NVML's.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn nvmlDeviceGetHandleByUUID(uuid: *const c_char, out: *mut usize) -> c_int {
    let uuid = unsafe { CStr::from_ptr(uuid) };
    if let Err(code) = enter("nvmlDeviceGetHandleByUUID", &uuid.to_string_lossy()) {
        return code;
    }
    match UUIDS.iter().position(|known| *known == uuid) {
        Some(index) => give!(out, index + 1),
        None => NOT_FOUND,
    }
}

/// # Safety
/// As NVML's.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn nvmlSystemGetDriverVersion(text: *mut c_char, _length: c_uint) -> c_int {
    let version = c"580.00".to_bytes_with_nul();
    unsafe { std::ptr::copy_nonoverlapping(version.as_ptr().cast(), text, version.len()) };
    0
}

#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub extern "C" fn nvmlInit_v2() -> c_int {
    enter("nvmlInit_v2", "").err().unwrap_or(0)
}

#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub extern "C" fn nvmlShutdown() -> c_int {
    enter("nvmlShutdown", "").err().unwrap_or(0)
}
