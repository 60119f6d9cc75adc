//! What a session is asked for.

use std::path::{Path, PathBuf};
use std::time::Duration;

use cupti_sys::kind;

use super::observer::Observer;
use super::profiler::Profiler;
use crate::error::{Error, ErrorKind, Result};
use crate::table::schema::Table;
use crate::table::writer::{DEFAULT_MAX_PART_AGE, DEFAULT_MAX_ROWS_PER_PART, WriterOptions};

/// How often CUPTI is asked to deliver what is complete, by default: often enough that a crash loses about this
/// much, rarely enough that launches do not notice.
pub const DEFAULT_FLUSH_PERIOD: Duration = Duration::from_secs(1);

/// How long the end of a session waits for the GPU and for CUPTI, by default.
pub const DEFAULT_FINISH_TIMEOUT: Duration = Duration::from_secs(30);

/// How long the start of a session waits for CUPTI, by default: switching kernel records on can take seconds where
/// large modules are loaded already.
pub const DEFAULT_START_TIMEOUT: Duration = Duration::from_secs(30);

/// How many device-side buffers (3.2 MB of device memory each) CUPTI allocates with each context, by default: enough
/// that none has to be allocated inside a launch while the worker keeps up. Together with cleared host buffers this
/// took the worst launch of a million to the level without a profiler (`benches/results/`).
pub const DEFAULT_DEVICE_BUFFERS: usize = 40;

/// Configures a [`Profiler`]. Made by [`Profiler::builder`].
///
/// ```no_run
/// # fn main() -> cuprof::Result<()> {
/// let profiler = cuprof::Profiler::builder().output("run.cuprof").start()?;
/// // … GPU work …
/// print!("{}", profiler.finish()?.summary());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "nothing is recorded before `start`"]
pub struct Builder {
    pub(super) output: Option<PathBuf>,
    pub(super) recording: Option<PathBuf>,
    pub(super) overwrite: bool,
    pub(super) extra_kinds: Vec<u32>,
    pub(super) extra_tables: Vec<Table>,
    pub(super) serializes_kernels: bool,
    pub(super) flush_period: Duration,
    pub(super) start_timeout: Duration,
    pub(super) finish_timeout: Duration,
    pub(super) device_buffers: usize,
    pub(super) cupti_path: Option<PathBuf>,
    pub(super) nvtx_libraries: bool,
    pub(super) max_rows_per_part: u64,
    pub(super) max_part_age: Duration,
    pub(super) observer: Option<Observer>,
    pub(super) watches_waits: bool,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            output: None,
            recording: None,
            overwrite: false,
            extra_kinds: Vec::new(),
            extra_tables: Vec::new(),
            serializes_kernels: false,
            flush_period: DEFAULT_FLUSH_PERIOD,
            start_timeout: DEFAULT_START_TIMEOUT,
            finish_timeout: DEFAULT_FINISH_TIMEOUT,
            device_buffers: DEFAULT_DEVICE_BUFFERS,
            cupti_path: None,
            nvtx_libraries: false,
            max_rows_per_part: DEFAULT_MAX_ROWS_PER_PART,
            max_part_age: DEFAULT_MAX_PART_AGE,
            observer: None,
            watches_waits: false,
        }
    }
}

impl Builder {
    /// Writes the tables as Parquet parts into this folder, `NAME.cuprof` by convention. Without it the profile has
    /// its summary only.
    pub fn output(mut self, folder: impl AsRef<Path>) -> Self {
        self.output = Some(folder.as_ref().to_owned());
        self
    }

    /// Also records what CUPTI and the threads deliver into this file, `NAME.cuprofrec` by convention, from which
    /// [`Replay`](crate::Replay) makes the same tables anywhere.
    pub fn record(mut self, file: impl AsRef<Path>) -> Self {
        self.recording = Some(file.as_ref().to_owned());
        self
    }

    /// Whether an output or recording that exists is replaced. Default: it is refused.
    pub fn overwrite(mut self, overwrite: bool) -> Self {
        self.overwrite = overwrite;
        self
    }

    /// Adds a row for each runtime and driver API call (`api_calls`). This costs about 1 µs a launch, more than
    /// everything else together.
    pub fn api_calls(self) -> Self {
        self.with(&[kind::DRIVER, kind::RUNTIME], Table::ApiCalls)
    }

    /// Adds a row for each synchronising call (`synchronizations`).
    pub fn synchronizations(self) -> Self {
        self.with(&[kind::SYNCHRONIZATION], Table::Synchronizations)
    }

    /// Adds a row for each allocation and release of device memory (`memory_operations`).
    pub fn memory_operations(self) -> Self {
        self.with(&[kind::MEMORY2], Table::MemoryOperations)
    }

    /// Whether kernels run one after the other, unchanged, while the session runs. Default: they run as the program
    /// launches them, and CUPTI adds code to each of them that takes its times (kind `CONCURRENT_KERNEL`).
    ///
    /// That code makes kernels that are bound by memory take longer, by the clock that they see themselves: a read of 8 to
    /// 32 MiB from the L2 cache by 11 to 12 %, one from DRAM by 3 to 11 % (H200, `benches/results/bench-h200.md`).
    /// Serialised (kind `KERNEL`), a kernel takes what it takes without a profiler, and its row some 1.5 µs of launch more.
    /// The price: the host waits for each kernel at its launch, so that nothing overlaps, and kernels that wait for one
    /// another hang; kernels of graphs have no times (rows with `zero_timestamp`). For kernels measured one by one.
    pub fn serialize_kernels(mut self, serialize: bool) -> Self {
        self.serializes_kernels = serialize;
        self
    }

    /// The kind of the kernels' records.
    pub(super) fn kernel_kind(&self) -> u32 {
        if self.serializes_kernels { kind::KERNEL } else { kind::CONCURRENT_KERNEL }
    }

    fn with(mut self, kinds: &[u32], table: Table) -> Self {
        if !self.extra_tables.contains(&table) {
            self.extra_kinds.extend_from_slice(kinds);
            self.extra_tables.push(table);
        }
        self
    }

    /// Also takes NVTX ranges of other shared libraries, which have NVTX instances of their own.
    ///
    /// An instance looks for a tool once, at its first NVTX call, in the variable `NVTX_INJECTION64_PATH`. So the
    /// variable names the CUPTI library in use while the session runs, and is put back at its end. Libraries that
    /// made NVTX calls before are not reached. If the variable is set already, another tool owns it, and it is left
    /// alone; `env` says so. Child processes that are started meanwhile inherit it.
    ///
    /// Default: off; ranges of this program itself (through the `nvtx` crate or linked C code) need none of this.
    pub fn nvtx_libraries(mut self, take: bool) -> Self {
        self.nvtx_libraries = take;
        self
    }

    /// After how long without a buffer from CUPTI it is asked for those that are complete but not full, which is what a
    /// crash loses. Zero: never. Default: [`DEFAULT_FLUSH_PERIOD`].
    pub fn flush_period(mut self, period: Duration) -> Self {
        self.flush_period = period;
        self
    }

    /// How long [`start`](Self::start) waits for the driver and CUPTI, to load them and again to switch records on; what
    /// hangs keeps what it may still use, and no other session starts. Default: [`DEFAULT_START_TIMEOUT`].
    pub fn start_timeout(mut self, timeout: Duration) -> Self {
        self.start_timeout = timeout;
        self
    }

    /// How long [`Profiler::finish`] and [`Profiler::count`](crate::Profiler::count) wait for the GPU and for CUPTI: to
    /// have everything delivered, and again to switch records off. Default: [`DEFAULT_FINISH_TIMEOUT`].
    pub fn finish_timeout(mut self, timeout: Duration) -> Self {
        self.finish_timeout = timeout;
        self
    }

    /// How many device-side buffers CUPTI allocates with each context that is created after the session's start.
    /// Default: [`DEFAULT_DEVICE_BUFFERS`]. 0 leaves CUPTI's own default.
    pub fn device_buffers(mut self, buffers: usize) -> Self {
        self.device_buffers = buffers;
        self
    }

    /// The CUPTI library or its folder, instead of searching for one.
    pub fn cupti_path(mut self, path: impl AsRef<Path>) -> Self {
        self.cupti_path = Some(path.as_ref().to_owned());
        self
    }

    /// Rows after which a part of a table is finished. Default: [`DEFAULT_MAX_ROWS_PER_PART`].
    pub fn max_rows_per_part(mut self, rows: u64) -> Self {
        self.max_rows_per_part = rows;
        self
    }

    /// Age after which a part of a table is finished, which is what a killed process loses.
    /// Default: [`DEFAULT_MAX_PART_AGE`].
    pub fn max_part_age(mut self, age: Duration) -> Self {
        self.max_part_age = age;
        self
    }

    /// Also hands the rows of kernels and ranges to somebody who measures.
    pub(crate) fn observer(mut self, observer: Observer) -> Self {
        self.observer = Some(observer);
        self
    }

    /// Has calls that wait for the GPU open the gate that holds work back.
    pub(crate) fn watch_waits(mut self, watch: bool) -> Self {
        self.watches_waits = watch;
        self
    }

    /// Starts recording. Best called before the program's first CUDA call: device-side buffers are then in place when
    /// the context is created.
    ///
    /// # Errors
    /// Nothing is left half started. By kind:
    /// [`NoDriver`](ErrorKind::NoDriver), [`CuptiNotFound`](ErrorKind::CuptiNotFound): what is missing and where it
    /// was looked for; [`Busy`](ErrorKind::Busy): another profiler holds CUPTI in this process;
    /// [`CuptiTooOld`](ErrorKind::CuptiTooOld): it is older than 12.0;
    /// [`PermissionDenied`](ErrorKind::PermissionDenied), [`Call`](ErrorKind::Call): CUPTI refused, with its code;
    /// [`AlreadyRunning`](ErrorKind::AlreadyRunning): a session of this crate runs;
    /// [`OutputExists`](ErrorKind::OutputExists), [`Io`](ErrorKind::Io): the output cannot be made;
    /// [`Timeout`](ErrorKind::Timeout): CUPTI did not come back in the time that
    /// [`start_timeout`](Self::start_timeout) sets; no other session can start in this process then, unless it does;
    /// [`Config`](ErrorKind::Config): a setting is out of range.
    pub fn start(self) -> Result<Profiler> {
        self.validate()?;
        Profiler::start(self)
    }

    fn validate(&self) -> Result<()> {
        let out_of_range = |field: &str, value: String, range: &str| {
            Err(Error::new(ErrorKind::Config, format!("{field} is {value}"))
                .with_hint(format!("it must be {range}")))
        };
        if self.max_rows_per_part == 0 {
            return out_of_range("max_rows_per_part", "0".into(), "at least 1");
        }
        // CUPTI's own limit on buffers is 250.
        if self.device_buffers >= 250 {
            return out_of_range("device_buffers", self.device_buffers.to_string(), "below 250");
        }
        for (field, timeout) in
            [("start_timeout", self.start_timeout), ("finish_timeout", self.finish_timeout)]
        {
            if timeout.is_zero() {
                return out_of_range(field, "0".into(), "above 0");
            }
        }
        Ok(())
    }

    pub(super) fn writer_options(&self, provenance: Vec<(String, String)>) -> WriterOptions {
        WriterOptions {
            overwrite: self.overwrite,
            max_rows_per_part: self.max_rows_per_part,
            max_part_age: self.max_part_age,
            tables: self.extra_tables.clone(),
            provenance,
        }
    }
}
