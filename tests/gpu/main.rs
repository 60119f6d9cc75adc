//! What only a real GPU can prove: every launch is recorded, once, under the range that it was launched from.
//!
//! Run with `cargo test --release --test gpu -- --include-ignored --test-threads=1 --nocapture`. Cargo ignores these
//! tests otherwise; run without a GPU, or without CUPTI, each fails with the reason.
//! `CUPROF_CUPTI_PATH` chooses the CUPTI library. No test changes a setting of the GPU.
#![expect(
    clippy::panic,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "helpers of tests, too, may fail a test and talk"
)]

mod bench;
mod conditions;
mod counters;
mod example;
mod flush;
mod frame;
mod graphs;
mod launches;
#[cfg(feature = "nvtx")]
mod nvtx_libraries;
#[cfg(feature = "nvtx")]
mod nvtx_ranges;
#[cfg(feature = "nvtx")]
mod plugin;
mod ranges;
mod reports;
mod session;
mod sessions;
mod transfers;
mod tutorials;

type Outcome = Result<(), Box<dyn std::error::Error>>;
