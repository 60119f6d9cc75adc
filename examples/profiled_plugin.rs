//! A shared library that profiles the program that loads it, as a plugin or a language extension does.
//!
//! ```sh
//! cargo build --example profiled_plugin    # makes libprofiled_plugin.so
//! ```
#![expect(unsafe_code, reason = "its functions have C's calling convention and take C's texts")]

use std::ffi::{CStr, OsStr, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use cuprof::Profiler;

static RUNNING: Mutex<Option<Profiler>> = Mutex::new(None);

/// Starts a session that writes to this folder. Returns 0, or 1 where none can be started.
///
/// # Safety
///
/// `folder` is a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plugin_start(folder: *const c_char) -> i32 {
    // SAFETY: as promised.
    let folder = unsafe { CStr::from_ptr(folder) };
    let folder = Path::new(OsStr::from_bytes(folder.to_bytes()));
    let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
    match Profiler::builder().output(folder).overwrite(true).start() {
        Ok(profiler) => {
            *running = Some(profiler);
            0
        }
        Err(_) => 1,
    }
}

/// Makes what is complete readable by others. Returns 0, or 1 where that failed.
#[unsafe(no_mangle)]
pub extern "C" fn plugin_flush() -> i32 {
    let running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
    i32::from(running.as_ref().is_none_or(|profiler| profiler.flush().is_err()))
}

/// Ends the session. Returns how many launches it recorded, or -1 where it did not end well.
#[unsafe(no_mangle)]
pub extern "C" fn plugin_finish() -> i64 {
    let running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner).take();
    match running.map(Profiler::finish) {
        Some(Ok(profile)) => i64::try_from(profile.launches()).unwrap_or(i64::MAX),
        _ => -1,
    }
}
