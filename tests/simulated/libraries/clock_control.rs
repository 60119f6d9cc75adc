//! CUPTI's clock control. `SIM_CLOCKS_LOCKED`: somebody else has locked the clocks.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::entry::*;

const UNLOCKED: u32 = 1;
const LOCKED: u32 = 2;

/// By this process.
static OURS: AtomicBool = AtomicBool::new(false);

fn by_somebody_else() -> bool {
    variable("SIM_CLOCKS_LOCKED").is_some()
}

functions! {
    cuptiClockControlGetStatus(_context: usize, status: *mut u32) [NO_ARGUMENT] {
        let locked = by_somebody_else() || OURS.load(Ordering::SeqCst);
        unsafe { status.write(if locked { LOCKED } else { UNLOCKED }) };
        SUCCESS
    }
    // What is locked already stays as it is, and that is a success.
    cuptiClockControlLock(_context: usize, mode: u32) [mode] {
        if !(1..=2).contains(&mode) {
            return INVALID_PARAMETER;
        }
        if !by_somebody_else() {
            OURS.store(true, Ordering::SeqCst);
        }
        SUCCESS
    }
    cuptiClockControlUnlock() [NO_ARGUMENT] {
        if !OURS.swap(false, Ordering::SeqCst) {
            violation("cuptiClockControlUnlock without a lock of this process");
        }
        SUCCESS
    }
}
