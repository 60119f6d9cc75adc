//! What the crate does to a GPU to make a measurement repeatable, each a guard object with a report of what it did.
//!
//! The default is to change nothing that outlives the process.

mod cache;
mod clocks;
mod launch_gate;
mod lock_file;
mod monitor;
mod pin;
mod signals;
mod switch;
mod thermal;
mod watchdog;

pub use cache::{Cache, CacheReport, CuptiCache, FillSize, L2Control, Probe};
pub use clocks::{ClockBackend, ClockGuard, ClockOwner, ClockReport, ClockRequest, ClockStatus, Clocks};
pub(crate) use launch_gate::LaunchGate;
pub use monitor::{GpuMonitor, RunConditions, Watch};
pub use pin::{ClockReset, ResetOutcome, reset_clocks};
pub use switch::forbid_clock_control;
pub use thermal::{
    DEFAULT_PAUSE_AT_MARGIN_C, DEFAULT_RESUME_AT_MARGIN_C, DEFAULT_THERMAL_BUDGET, Thermal, ThermalGuard,
    ThermalPause, ThermalReport, ThermalWait,
};
