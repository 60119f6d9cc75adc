//! The environment variable that names the tool for NVTX instances inside shared libraries.
#![expect(unsafe_code, reason = "changing the environment is unsafe while C code may read it")]

use std::ffi::OsString;
use std::path::Path;

/// The variable that each NVTX instance reads once, at its first call.
pub(crate) const VARIABLE: &str = "NVTX_INJECTION64_PATH";

/// What became of the wish to set the variable.
#[derive(Debug)]
pub(crate) enum Injection {
    /// It is set while this lives.
    Set(Restore),
    /// Another tool has set it, to this. It was left alone.
    Taken(OsString),
}

/// Removes the variable when dropped, so that child processes are not injected.
#[derive(Debug)]
pub(crate) struct Restore(());

impl Injection {
    /// Points the variable at a library, unless it is set already.
    ///
    /// Best called while the program has one thread: see the safety comment.
    pub fn set(library: &Path) -> Self {
        if let Some(other) = std::env::var_os(VARIABLE) {
            return Self::Taken(other);
        }
        // SAFETY: std's lock orders this with all Rust code that uses the environment. C code may call `getenv` on
        // another thread at this moment: glibc keeps every string, and the first array, valid for ever, so it finds
        // either the old or the new environment; only a C program that itself keeps adding variables meanwhile
        // could see an array that is being replaced, and would have that race without us.
        unsafe { std::env::set_var(VARIABLE, library) };
        Self::Set(Restore(()))
    }
}

impl Drop for Restore {
    fn drop(&mut self) {
        // SAFETY: as in `Injection::set`; removing moves pointers inside the array and frees nothing.
        unsafe { std::env::remove_var(VARIABLE) };
    }
}
