//! An in-process CUPTI profiler: linked into a GPU application, it records every kernel, copy and fill with the
//! ranges that it was launched from, and streams them as typed rows into Parquet files.
//!
//! # Quick start
//!
//! Start a session before the first CUDA call, name what the program does, finish the session:
//!
//! ```no_run
//! # fn launch() {}
//! # fn main() -> cuprof::Result<()> {
//! let profiler = cuprof::Profiler::builder().output("run.cuprof").start()?;
//! for index in 0..20_u32 {
//!     let _step = cuprof::range!("step", index = index); // or any NVTX range
//!     launch(); // kernels belong to the range, whenever they run on the GPU
//! }
//! let profile = profiler.finish()?; // waits for the GPU and closes the files
//! print!("{}", profile.summary());
//! # Ok(())
//! # }
//! ```
//!
//! On a machine without a GPU, a recording made elsewhere gives the same profile and the same files:
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let recording = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/recordings/quickstart.cuprofrec");
//! # let folder = tempfile::tempdir()?;
//! # let output = folder.path().join("run.cuprof");
//! let profile = cuprof::Replay::open(recording)?.output(&output).run()?;
//! assert!(profile.losses().is_empty());
//!
//! let dataset = cuprof::Dataset::open(&output)?;
//! assert_eq!(dataset.rows(cuprof::Table::Launches), profile.launches());
//! # Ok(())
//! # }
//! ```
//!
//! `docs/schema.md` has the tables with all their columns, `docs/cookbook.md` queries for DuckDB.
//!
//! # Features
//!
//! None is on by default. The default build needs Rust and a C toolchain only: neither CUDA nor libclang.
//!
//! | feature | what it adds | what it needs |
//! |---|---|---|
//! | `nvtx` | [`range!`] is also emitted as an NVTX range, so that Nsight tools see it; the `nvtx` crate itself | libclang |
//! | `tracing` | `cuprof::tracing::Layer`: spans are ranges | |
//! | `analysis` | `cuprof::analysis`: datasets summed up, drawn as traces | |
//! | `plot` | `cuprof::plot`: measurements, counters and traces as pictures; `bench::Report::plot` | |
//! | `cli` | the command `cuprof`, and what the two above add | |
//! | `bindgen` | regenerates the bindings and compares them; for work on this crate | libclang, CUDA's headers |
//!
//! # The same conditions each time
//!
//! [`L2Control`] empties the L2 cache before a measured kernel, [`ClockGuard`] measures or pins the clocks, and
//! [`ThermalGuard`] has runs wait while the GPU is hot. Each changes as little as it can, reports what it did, and undoes
//! it. [`GpuMonitor`] reads clocks, temperature and throttling of a run.
//!
//! Whether kernels became slower, [`compare`] tells from the datasets of several process runs, with a margin, an interval
//! and a reason.
//!
//! # Failure modes
//!
//! Absence is a value: [`Builder::start`] fails with an [`Error`] that has a [kind](ErrorKind) to match and says what
//! to do. A program that is to run on regardless takes [`Profiler::disabled`], whose calls all succeed:
//!
//! ```
//! let profiler = cuprof::Profiler::builder().start().unwrap_or_else(|error| {
//!     println!("not profiled: {error}");
//!     cuprof::Profiler::disabled()
//! });
//! # drop(profiler);
//! ```
//!
//! | what happens | what the program sees |
//! |---|---|
//! | no driver, no CUPTI, one that is too old, another profiler attached | [`Builder::start`] fails, by kind; nothing is left half started |
//! | CUPTI refuses a setting that only saves time | the session goes on; `env` has a fact `refused.…` |
//! | a record is dropped, cut off, without times, or cannot be tied to its launch | its row is kept where there is one, flagged, and counted in [`Profile::losses`] |
//! | a thread's ring or the pool of buffers is full | events or records are dropped and counted; the application never waits |
//! | the disk is full | that table ends, its finished parts stay, [`Profiler::finish`] fails with the profile inside |
//! | CUPTI hangs at the start | [`Builder::start`] gives up after [`Builder::start_timeout`] |
//! | a kernel never ends, or CUPTI hangs | [`Profiler::finish`] gives up: each of its three steps (GPU and CUPTI, facts of the devices, last rows) may take [`Builder::finish_timeout`]; what was recorded is in the error, unless the last step hangs |
//! | the profiler is dropped, also by a panic | as [`Profiler::finish`], without a profile |
//! | the process is killed | each table keeps all parts but its last, see [`Builder::max_part_age`]; [`recover()`] tidies the folder and tells what is lost |
//! | clocks cannot be pinned, or there is no NVML | the guard's report says why; the measurement goes on |
//! | a process that has pinned clocks is killed | its watchdog releases them; what is left after that, [`reset_clocks`] does |
//! | the process forks | the child's calls fail or do nothing; the parent's session goes on |
//! | a callback panics | it is caught before it reaches C, and counted |
//!
//! # What it costs
//!
//! Nearly all of the cost is CUPTI's own kernel tracing: 0.5 to 1.3 µs a launch on an H200 machine (driver 580.159).
//! A range costs two readings of the processor's counter and two events in a ring, 0.08 µs by itself and 0.14 µs
//! around a launch there. Threads of the application never wait for the profiler, never allocate for it in steady
//! state, and never run its formatting or logging: that is the worker's.
//! [`Profiler`] states the memory. Figures with machine, command and spread are in `benches/results/`.
//!
//! Each context that is created in a session gets 128 MB of device buffers, which takes about 0.1 s once;
//! [`Builder::device_buffers`] sets their number.
//!
//! Without a session, a range is a few nanoseconds; [`Profiler::disabled`] is nothing.
//!
//! # What it is not
//!
//! - No sampling: durations, counters and where they come from, as files that other tools read.
//! - No tool that attaches to a process from outside: the program links this crate.
//! - No second profiler in a process: CUPTI serves one client, so it does not run under Nsight Systems, Nsight
//!   Compute, cuda-gdb or compute-sanitizer.
//! - Not for anything but CUDA on 64-bit Linux.
//!
//! # Internals
//!
//! ```text
//! application thread                        worker thread                              result
//! ──────────────────                        ─────────────                              ──────
//! range!, NVTX, tracing ─▶ range ─┐
//! CUPTI: a launching call ────────┴▶ channel ─┐
//! CUPTI: buffers ─────────▶ buffer ───────────┴▶ record ─▶ attribute ─▶ rows ─┬▶ table ─▶ Parquet parts
//!                                                   │                         └▶ summary
//!                                                   └▶ capture: a recording, which enters here again
//! ```
//!
//! Attribution is by launch, not by time: a callback on the launching driver calls logs the call's correlation id with
//! the innermost range of its thread and the set of open process-wide ranges. A device record has the same id,
//! whenever and wherever it ran; a launched graph is one call with many records.
//!
//! | floor | rooms | |
//! |---|---|---|
//! | 0 | `error`, `issues`, `losses`, `panics`, `sync`, `units` | typed errors; CUPTI's own faults; causes of loss; the border to C; what threads share; ids and nanoseconds |
//! | 1 | `driver` | the few calls of libcuda and NVML, each optional |
//! | 1 | `gate` | what holds launched work back until all of it is launched |
//! | 1 | `buffer`, `channel` | the pool that CUPTI fills; a bounded ring for each thread |
//! | 1 | `record` | bytes to typed records, by the layout of the library that runs |
//! | 1 | `table`, `capture` | Arrow and Parquet; recordings |
//! | 1 | `limit` | an end to waiting for what may never come back |
//! | 1 | `pattern` | which names are meant |
//! | 1 | `stats` | what repeated measurements tell, and how certainly |
//! | 2 | `range` | stacks, process-wide sets, guards, the NVTX handler, the `tracing` layer |
//! | 2 | `attribute`, `names`, `summary` | records to launches to ranges; kernel names; the printed result |
//! | 3 | `analysis` | datasets, summed up and drawn |
//! | 3 | `compare` | two sides of datasets: slower, faster, the same, or not known |
//! | 3 | `cupti` | the only caller of CUPTI, and what CUPTI calls back |
//! | 4 | `trace` | a session: builder, worker, end; replay |
//! | 4 | `control` | what is done to a GPU so that a measurement can be repeated |
//! | 5 | `counters` | hardware counters: metrics of a chip, plans, replayed passes |
//! | 6 | `plot` | datasets as pictures |
//! | 7 | `bench` | kernels measured over configurations and runs |
//! | 7 | `doctor` | what keeps a machine from being profiled |
//!
//! A room uses only rooms of lower floors; `tests/floors.rs` enforces that. The raw interface (generated bindings, the
//! layouts of every version, the loader) is the crate `cupti-sys`.

#[cfg(feature = "analysis")]
pub mod analysis;
mod attribute;
pub mod bench;
mod buffer;
mod capture;
mod channel;
pub mod compare;
mod control;
pub mod counters;
mod cupti;
mod doctor;
mod driver;
mod error;
mod gate;
mod issues;
mod limit;
mod losses;
mod names;
mod panics;
mod pattern;
#[cfg(feature = "plot")]
pub mod plot;
mod range;
mod record;
pub mod stats;
mod summary;
mod sync;
mod table;
#[doc(hidden)]
pub mod testing;
mod trace;
mod under_way;
mod units;

pub use bench::Bench;
pub use channel::{Arg, ArgValue};
pub use control::{
    Cache, CacheReport, ClockBackend, ClockGuard, ClockOwner, ClockReport, ClockRequest, ClockReset,
    ClockStatus, Clocks, CuptiCache, DEFAULT_PAUSE_AT_MARGIN_C, DEFAULT_RESUME_AT_MARGIN_C,
    DEFAULT_THERMAL_BUDGET, FillSize, GpuMonitor, L2Control, Probe, ResetOutcome, RunConditions, Thermal,
    ThermalGuard, ThermalPause, ThermalReport, ThermalWait, Watch, forbid_clock_control, reset_clocks,
};
pub use doctor::{Diagnosis, Finding, Severity, Topic, doctor, doctor_within};
pub use driver::Stream;
pub use driver::nvml::{GpuReading, MarginSource, ThermalMargin, ThrottleReasons};
pub use error::{Error, ErrorKind, Result};
pub use losses::Loss;
pub use pattern::Pattern;
pub use range::{Entered, ProcessRange, Range, RangeHandle, in_range, process_range};
pub use summary::{Counts, KernelSummary, RangeSummary, Summary, Symbols, TransferSummary};
pub use table::reader::Dataset;
pub use table::recover::{Damaged, Recovery, Unfinished, recover};
pub use table::schema::{SCHEMA_VERSION, Table};
pub use table::writer::{CloseReport, DEFAULT_MAX_PART_AGE, DEFAULT_MAX_ROWS_PER_PART, TableReport};
pub use trace::{
    Builder, DEFAULT_DEVICE_BUFFERS, DEFAULT_FINISH_TIMEOUT, DEFAULT_FLUSH_PERIOD, DEFAULT_START_TIMEOUT,
    FinishError, Profile, Profiler, Replay,
};

/// Spans of `tracing` as ranges (feature `tracing`).
#[cfg(feature = "tracing")]
pub mod tracing {
    pub use crate::range::tracing_layer::Layer;
}

/// For the crate's macros.
#[doc(hidden)]
pub mod __private {
    pub use crate::range::is_recording;
}

/// Runs the README's examples as doctests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
