//! A simulation of libcupti: the part of its first API that the crate calls, and functions (`sim_…`)
//! with which a test plays the program that uses CUDA.
//!
//! It is scripted by the environment:
//!
//! | variable | meaning |
//! |---|---|
//! | `SIM_VERSION` | which CUPTI it is: a name in `PROFILES` |
//! | `SIM_API` | the number that `cuptiGetVersion` reports, if another |
//! | `SIM_FAIL` | calls that fail, by first argument: `cuptiActivityEnable:10:999,cuptiSubscribe:*:39` |
//! | `SIM_HANG` | the call that never returns |
//! | `SIM_CLOCK_SHIFT` | nanoseconds that CUPTI's clock is ahead of the host's |
//!
//! It also checks what CUPTI asks of its clients. Violations are printed and counted.
#![deny(warnings, unsafe_op_in_unsafe_fn)]
#![allow(clippy::missing_safety_doc, reason = "every function has the obligations of CUPTI's own")]

#[macro_use]
mod entry;
mod activity;
mod layout;
mod program;
mod state;
mod subscriber;
mod work;
