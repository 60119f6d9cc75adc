//! Notices that the library is unloaded while the process runs, which CUPTI does not survive. With `SIM_LOAD_HANGS`,
//! loading it never returns, as from a file server that does not answer.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};

static EXITING: AtomicBool = AtomicBool::new(false);

/// The exit code of a process that has unloaded the library.
const UNLOADED: c_int = 97;

unsafe extern "C" {
    /// Unlike `atexit`, not run when the library is unloaded.
    fn on_exit(function: extern "C" fn(c_int, *mut c_void), argument: *mut c_void) -> c_int;
    fn _exit(status: c_int) -> !;
}

extern "C" fn exiting(_status: c_int, _argument: *mut c_void) {
    EXITING.store(true, Ordering::Relaxed);
}

extern "C" fn loaded() {
    while std::env::var_os("SIM_LOAD_HANGS").is_some() {
        std::thread::park();
    }
    unsafe { on_exit(exiting, std::ptr::null_mut()) };
}

extern "C" fn unloaded() {
    if !EXITING.load(Ordering::Relaxed) {
        eprintln!("simulated CUPTI: the library was unloaded before the process's end");
        unsafe { _exit(UNLOADED) };
    }
}

#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = loaded;

#[used]
#[unsafe(link_section = ".fini_array")]
static AT_UNLOAD: extern "C" fn() = unloaded;
