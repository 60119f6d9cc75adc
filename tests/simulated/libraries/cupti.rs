//! A simulation of libcupti: the part of its first API that the crate calls, and functions (`sim_…`)
//! with which a test plays the program that uses CUDA.
//!
//! It is scripted by the environment:
//!
//! | variable | meaning |
//! |---|---|
//! | `SIM_VERSION` | which CUPTI it is: a name in `PROFILES` |
//! | `SIM_API` | the number that `cuptiGetVersion` reports, if another |
//! | `SIM_FAIL` | calls that fail, by first argument: `cuptiActivityEnable:10:999,cuptiSubscribe:*:39`; the code `hang`: it never returns; a fourth part: only the n-th call |
//! | `SIM_MAY_SERIALIZE` | set: records of serialised kernels may be asked for |
//! | `SIM_SLOW` | the call that does not return before the test says so |
//! | `SIM_CLOCK_SHIFT` | nanoseconds that CUPTI's clock is ahead of the host's |
//! | `SIM_CLOCK_JUMP` | nanoseconds that it is further ahead once there has been a context |
//! | `SIM_LOCKED_CALLBACKS` | set: a lock is held over each callback, and taken in every call |
//! | `SIM_GUARD` | set: buffers cannot be read or written by anybody else while CUPTI has them |
//! | `SIM_BUFFER_RECORDS` | records after which a buffer is full |
//! | `SIM_HOLD` | set: full buffers are only delivered by a flush, or where the test says so |
//!
//! Which functions exist is a matter of the file: see `process::Process::without`.
//!
//! It also checks what CUPTI asks of its clients. Violations are printed and counted.
#![deny(warnings, unsafe_op_in_unsafe_fn)]
#![allow(clippy::missing_safety_doc, reason = "every function has the obligations of CUPTI's own")]

#[macro_use]
mod entry;
mod activity;
mod clock_control;
mod layout;
mod profiler;
mod program;
mod state;
mod subscriber;
mod unload;
mod work;
