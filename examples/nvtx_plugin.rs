//! A shared library with NVTX ranges of its own, as cuDNN, NCCL or a Python extension are: for the tests of
//! `Builder::nvtx_libraries`. It does not know of cuprof, and has a copy of NVTX to itself.
//!
//! ```sh
//! cargo build --features nvtx --example nvtx_plugin    # makes libnvtx_plugin.so
//! ```
#![expect(unsafe_code, reason = "its functions have C's calling convention and take C's texts")]

use std::cell::RefCell;
use std::ffi::{CStr, c_char};
use std::sync::OnceLock;

use nvtx::domain::LocalRange;
use nvtx::{Domain, sys};

thread_local! {
    /// What is pushed in the library's own domain, innermost last.
    static PUSHED: RefCell<Vec<LocalRange<'static>>> = const { RefCell::new(Vec::new()) };
}

/// The library's own domain.
fn domain() -> &'static Domain {
    static DOMAIN: OnceLock<Domain> = OnceLock::new();
    DOMAIN.get_or_init(|| Domain::new(c"plugin"))
}

/// Pushes a range in the default domain; returns what NVTX does.
///
/// # Safety
///
/// `name` is a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plugin_push(name: *const c_char) -> i32 {
    // SAFETY: as promised.
    let name = unsafe { CStr::from_ptr(name) };
    sys::range_push_ascii(name)
}

/// Pops a range of the default domain; returns what NVTX does.
#[unsafe(no_mangle)]
pub extern "C" fn plugin_pop() -> i32 {
    sys::range_pop()
}

/// Pushes a range in the library's own domain, whose name is registered there first.
///
/// # Safety
///
/// `name` is a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plugin_push_in_domain(name: *const c_char) {
    // SAFETY: as promised.
    let name = unsafe { CStr::from_ptr(name) };
    PUSHED.with_borrow_mut(|pushed| pushed.push(domain().local_range(name)));
}

/// Pops a range of the library's own domain.
#[unsafe(no_mangle)]
pub extern "C" fn plugin_pop_in_domain() {
    drop(PUSHED.with_borrow_mut(Vec::pop));
}

/// Starts a range around the work of all threads; returns its id.
///
/// # Safety
///
/// `name` is a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plugin_start(name: *const c_char) -> u64 {
    // SAFETY: as promised.
    let name = unsafe { CStr::from_ptr(name) };
    sys::range_start_ascii(name)
}

/// Ends a range that was started.
#[unsafe(no_mangle)]
pub extern "C" fn plugin_end(id: u64) {
    sys::range_end(id);
}

/// Sets a mark.
///
/// # Safety
///
/// `name` is a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plugin_mark(name: *const c_char) {
    // SAFETY: as promised.
    let name = unsafe { CStr::from_ptr(name) };
    sys::mark_ascii(name);
}
