//! Sessions without a GPU, on a simulated driver and a simulated CUPTI: bad input, failures, and how
//! sessions begin and end.
//!
//! Everything here is process-global, so each test runs in a process of its own: this program again, see `process`.
//! The simulated libraries (`libraries/`) are built here with rustc; they also check that the crate keeps to CUPTI's rules.
#![expect(
    clippy::panic,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "helpers of tests, too, may fail a test and talk"
)]

mod bench;
#[path = "../bless/mod.rs"]
mod bless;
mod cache;
mod checks;
mod clocks;
/// The command is built with this feature only.
#[cfg(feature = "cli")]
mod command;
mod counters;
mod damage;
mod doctor;
#[path = "../gpu/example.rs"]
mod example;
mod fault_matrix;
#[path = "../gpu/frame.rs"]
mod frame;
mod heat;
mod killed;
mod launch_ahead;
mod library;
mod lifecycle;
mod loading;
mod output;
mod plugin;
mod process;
mod recipes;
mod records;
mod session;
mod start;
mod suspended;
mod tutorials;
mod whole_path;

type Outcome = Result<(), Box<dyn std::error::Error>>;
