//! Whether standard output was closed when the program was started, as `cuprof summary run.cuprof >&-` does.
//!
//! Rust opens /dev/null in place of a closed standard stream before `main`, so that everything could be written and
//! nothing would arrive. What the C library calls before that still sees it.
#![expect(
    unsafe_code,
    reason = "only a section of the program that is named by hand is called before `main`"
)]

use std::sync::atomic::{AtomicBool, Ordering};

static WAS_CLOSED: AtomicBool = AtomicBool::new(false);

/// Whether nothing that is printed arrives anywhere.
pub fn stdout_was_closed() -> bool {
    WAS_CLOSED.load(Ordering::Relaxed)
}

// SAFETY: the section is a list of functions that take nothing that they need and return nothing, which this one is.
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = look;

/// Runs before `main` and before the standard library is ready: one system call, and one store.
extern "C" fn look() {
    let flags = rustix::io::fcntl_getfd(rustix::stdio::stdout());
    WAS_CLOSED.store(flags == Err(rustix::io::Errno::BADF), Ordering::Relaxed);
}
