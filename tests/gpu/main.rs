//! What only a real GPU can prove: every launch is recorded, once, under the range that it was launched from.
//!
//! Run with `cargo test --release --test gpu -- --test-threads=1 --nocapture`. On a machine without a GPU, or
//! without CUPTI, each test says `skipped: …` and proves nothing; with `CUPROF_REQUIRE_GPU=1` that is a failure.
//! `CUPROF_CUPTI_PATH` chooses the CUPTI library. No test changes a setting of the GPU.
#![expect(
    clippy::panic,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "helpers of tests, too, may fail a test and talk"
)]

mod frame;
mod graphs;
mod launches;
#[cfg(feature = "nvtx")]
mod nvtx_ranges;
mod ranges;
mod session;
mod sessions;
mod transfers;

type Outcome = Result<(), Box<dyn std::error::Error>>;
