//! The switch by which a program, or whoever runs it, forbids every change of clocks.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{Error, ErrorKind, Result};

/// Set to anything, no process that has it changes clocks.
const VARIABLE: &str = "CUPROF_FORBID_CLOCK_CONTROL";

static FORBIDDEN: AtomicBool = AtomicBool::new(false);

/// From now on, nothing in this process pins or resets clocks, whatever it asks for; there is no way back. For test
/// suites and services that run on GPUs which are not theirs alone. The environment variable
/// `CUPROF_FORBID_CLOCK_CONTROL` does the same from outside.
pub fn forbid_clock_control() {
    FORBIDDEN.store(true, Ordering::Relaxed);
}

/// # Errors
/// [`ErrorKind::PermissionDenied`] where it is forbidden.
pub(super) fn check() -> Result<()> {
    let by_variable = std::env::var_os(VARIABLE).is_some_and(|value| !value.is_empty());
    if !by_variable && !FORBIDDEN.load(Ordering::Relaxed) {
        return Ok(());
    }
    let how = if by_variable { VARIABLE } else { "forbid_clock_control()" };
    Err(Error::new(ErrorKind::PermissionDenied, format!("changing clocks is forbidden here by {how}")))
}
