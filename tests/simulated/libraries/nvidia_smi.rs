//! A simulation of `nvidia-smi`, as far as the watchdog needs it: `--id=UUID --reset-gpu-clocks`, done through NVML.
#![deny(warnings)]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::process::ExitCode;

unsafe extern "C" {
    fn dlopen(name: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
}

/// A function of NVML; its type is up to the caller.
fn nvml(name: &CStr) -> *mut c_void {
    const NOW: c_int = 2;
    let library = unsafe { dlopen(c"libnvidia-ml.so.1".as_ptr(), NOW) };
    assert!(!library.is_null(), "NVML is on the library path");
    let function = unsafe { dlsym(library, name.as_ptr()) };
    assert!(!function.is_null(), "{name:?}");
    function
}

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [id, reset] = &arguments[..] else { return ExitCode::from(2) };
    let (Some(uuid), "--reset-gpu-clocks") = (id.strip_prefix("--id="), reset.as_str()) else {
        return ExitCode::from(2);
    };
    let uuid = CString::new(uuid).unwrap();
    let mut device = 0_usize;
    let code = unsafe {
        let init: extern "C" fn() -> c_int = std::mem::transmute(nvml(c"nvmlInit_v2"));
        let find: extern "C" fn(*const c_char, *mut usize) -> c_int =
            std::mem::transmute(nvml(c"nvmlDeviceGetHandleByUUID"));
        let reset: extern "C" fn(usize) -> c_int = std::mem::transmute(nvml(c"nvmlDeviceResetGpuLockedClocks"));
        [init(), find(uuid.as_ptr(), &raw mut device), reset(device)].into_iter().max().unwrap()
    };
    ExitCode::from(code as u8)
}
