//! CUPTI's clock control (13.4 and newer).
//!
//! A lock is device-global and outlives the process; locking what is locked already succeeds without taking it over,
//! and so does locking again; only an own lock can be released.

use cupti_sys::bindings as c;

use super::{Cupti, call};
use crate::driver::Context;
use crate::error::Result;

/// What to lock clocks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClockMode {
    Base,
    Boost,
}

/// Whether somebody has locked the clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClockLock {
    /// Nobody has. The GPU may boost all the same.
    Unlocked,
    /// Somebody has; CUPTI does not tell who. Statuses that this version does not know count, too.
    Locked,
}

impl Cupti {
    /// `cuptiClockControlGetStatus` of the context's device.
    pub fn clock_lock(self, context: Context) -> Result<ClockLock> {
        use c::CUpti_ClockControl_Status as Status;
        let mut status = Status(0);
        call!(self, cuptiClockControlGetStatus, context.0.as_ptr().cast(), &raw mut status)?;
        Ok(match status {
            Status::CUPTI_CLOCK_CONTROL_STATUS_UNLOCKED
            | Status::CUPTI_CLOCK_CONTROL_STATUS_BOOST_ENABLED
            | Status::CUPTI_CLOCK_CONTROL_STATUS_BOOST_DISABLED => ClockLock::Unlocked,
            _ => ClockLock::Locked,
        })
    }

    /// `cuptiClockControlLock` of the context's device.
    pub fn lock_clocks(self, context: Context, mode: ClockMode) -> Result<()> {
        let mode = match mode {
            ClockMode::Base => c::CUpti_ClockControl_Mode::CUPTI_CLOCK_CONTROL_MODE_BASE,
            ClockMode::Boost => c::CUpti_ClockControl_Mode::CUPTI_CLOCK_CONTROL_MODE_BOOST,
        };
        call!(self, cuptiClockControlLock, context.0.as_ptr().cast(), mode)
    }

    /// `cuptiClockControlUnlock`: of what this process locked.
    pub fn unlock_clocks(self) -> Result<()> {
        call!(self, cuptiClockControlUnlock)
    }
}
