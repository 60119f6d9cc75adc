//! One row of each table, as the pipeline hands it over.
//!
//! Times are nanoseconds since the Unix epoch on CUPTI's clock. A stamp is never null (pandas would turn the
//! column into floats and lose digits); what may be unknown is a small difference or an id beside it.

use std::sync::Arc;

use super::added::Cell;
use crate::units::{CorrelationId, RangeId, ThreadId};

/// A kernel's name in both forms.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct KernelName {
    /// As the module has it.
    pub mangled: Arc<str>,
    /// For people; equal to `mangled` where that is not a mangled name.
    pub demangled: Arc<str>,
}

/// How a device record was tied to the call that launched it, or why it was not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Attribution {
    /// The launching call was seen, inside a range.
    Range,
    /// The launching call was seen, outside every range.
    NoRange,
    /// The work was launched before the session started.
    LaunchedBeforeStart,
    /// The launching call's event was lost (a full ring, counted in `losses`) or never seen.
    LaunchNotSeen,
    /// The launching call left the bounded table before this record came (counted in `losses`).
    LaunchEvicted,
    /// A record with a graph node id whose correlation id belongs to a call that is not a graph launch.
    GraphUnmapped,
    /// Work that was launched from the device, not by a host call.
    DeviceLaunched,
}

impl Attribution {
    /// The column's text.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Range => "range",
            Self::NoRange => "no_range",
            Self::LaunchedBeforeStart => "launched_before_start",
            Self::LaunchNotSeen => "launch_not_seen",
            Self::LaunchEvicted => "launch_evicted",
            Self::GraphUnmapped => "graph_unmapped",
            Self::DeviceLaunched => "device_launched",
        }
    }
}

/// Why a record's times cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum InvalidReason {
    /// CUPTI could not collect times: both are zero (its device-side pool was exhausted).
    ZeroTimestamp,
    /// The end lies before the start.
    EndBeforeStart,
    /// A time lies far outside the session (more than an hour before its start or after its end), or above 2^63.
    OutOfRange,
}

impl InvalidReason {
    /// The column's text.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ZeroTimestamp => "zero_timestamp",
            Self::EndBeforeStart => "end_before_start",
            Self::OutOfRange => "out_of_range",
        }
    }
}

/// What every device record shares: when, where, and from which launch.
#[derive(Clone, Debug)]
pub(crate) struct DeviceWork {
    pub range: Option<RangeId>,
    pub range_path: Option<Arc<str>>,
    /// The set of process-wide ranges that were open at the launch (`range_sets`); none if empty.
    pub range_set: Option<i64>,
    /// As recorded; kept even where invalid (0 where it does not fit i64).
    pub start_ns: i64,
    pub end_ns: i64,
    /// Null where the times are invalid.
    pub duration_ns: Option<i64>,
    /// `start_ns` minus the host time of the launching call; null where that call was not seen.
    pub launch_lead_ns: Option<i64>,
    pub thread: Option<ThreadId>,
    pub correlation: CorrelationId,
    pub device: u32,
    pub context: u32,
    pub stream: u32,
    pub graph: Option<u32>,
    pub graph_node: Option<u64>,
    pub invalid: Option<InvalidReason>,
    pub attribution: Attribution,
}

/// `launches`: one kernel execution.
#[derive(Clone, Debug)]
pub(crate) struct LaunchRow {
    pub work: DeviceWork,
    pub kernel: Arc<KernelName>,
    pub grid: [i32; 3],
    pub block: [i32; 3],
    /// Null where the kernel had no cluster, or the library does not tell.
    pub cluster: Option<[u32; 3]>,
    pub registers_per_thread: u16,
    pub static_shared_memory_bytes: i32,
    pub dynamic_shared_memory_bytes: i32,
    pub local_memory_per_thread_bytes: u32,
}

/// `transfers`: one memcpy, memset or peer copy.
#[derive(Clone, Debug)]
pub(crate) struct TransferRow {
    pub work: DeviceWork,
    /// `memcpy`, `memset`, `peer`.
    pub operation: &'static str,
    /// CUPTI's copy kind in words (`host_to_device`, …); null for memset.
    pub copy_kind: Option<Arc<str>>,
    pub bytes: u64,
    /// Memory kinds in words (`pageable`, `pinned`, `device`, …); for memset only the destination.
    pub src_kind: Option<Arc<str>>,
    pub dst_kind: Option<Arc<str>>,
    pub src_device: Option<u32>,
    pub dst_device: Option<u32>,
    pub asynchronous: bool,
    /// The fill value of a memset.
    pub value: Option<u32>,
}

/// `ranges`: one range instance.
#[derive(Clone, Debug)]
pub(crate) struct RangeRow {
    pub range: RangeId,
    pub parent: Option<RangeId>,
    pub name: Arc<str>,
    pub path: Arc<str>,
    /// The NVTX domain's name; null for the default domain and for our own ranges.
    pub domain: Option<Arc<str>>,
    /// The category's name, or its number as text; null for 0.
    pub category: Option<Arc<str>>,
    /// ARGB.
    pub color: Option<u32>,
    /// The NVTX payload, as text of the number.
    pub payload: Option<String>,
    /// Typed arguments as a JSON object.
    pub args: Option<String>,
    /// `stack`, `process`, `own`.
    pub kind: &'static str,
    pub thread: ThreadId,
    pub start_ns: i64,
    /// The last time known where the range was never closed.
    pub end_ns: i64,
    /// False: still open when the session ended.
    pub closed: bool,
    /// Kernels launched inside, nested ranges included.
    pub n_launches: u64,
    /// Copies and fills launched inside, nested ranges included.
    pub n_transfers: u64,
    /// Sum of the kernels' durations.
    pub gpu_sum_ns: i64,
    /// First start to last end of the kernels; null without a valid kernel.
    pub gpu_span_ns: Option<i64>,
}

/// `range_sets`: membership of one process-wide range in one set of ranges that were open together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RangeSetRow {
    pub set: i64,
    pub range: RangeId,
}

/// `marks`: one instantaneous NVTX mark.
#[derive(Clone, Debug)]
pub(crate) struct MarkRow {
    pub time_ns: i64,
    pub name: Arc<str>,
    pub domain: Option<Arc<str>>,
    pub category: Option<Arc<str>>,
    pub color: Option<u32>,
    pub payload: Option<String>,
    pub thread: ThreadId,
    pub range: Option<RangeId>,
}

/// `overheads`: a span that CUPTI or the driver spent on itself, or that the crate's own work took on the device.
#[derive(Clone, Debug)]
pub(crate) struct OverheadRow {
    pub kind: Arc<str>,
    pub start_ns: i64,
    pub end_ns: i64,
    pub thread: Option<ThreadId>,
    pub correlation: Option<CorrelationId>,
}

/// `api_calls` (opt-in): one runtime or driver API call.
#[derive(Clone, Debug)]
pub(crate) struct ApiRow {
    /// `driver` or `runtime`.
    pub domain: &'static str,
    /// The function's name, or `cbid_<n>` where it is unknown.
    pub name: Arc<str>,
    pub start_ns: i64,
    pub end_ns: i64,
    pub thread: ThreadId,
    pub correlation: CorrelationId,
    pub return_value: u32,
}

/// `synchronizations` (opt-in).
#[derive(Clone, Debug)]
pub(crate) struct SynchronizationRow {
    pub kind: Arc<str>,
    pub start_ns: i64,
    pub end_ns: i64,
    pub correlation: CorrelationId,
    pub context: u32,
    /// Null where the call is not about one stream.
    pub stream: Option<u32>,
}

/// `memory_operations` (opt-in): one allocation or release.
#[derive(Clone, Debug)]
pub(crate) struct MemoryRow {
    /// `allocation`, `release`.
    pub operation: Arc<str>,
    pub memory_kind: Arc<str>,
    pub address: u64,
    pub bytes: u64,
    pub time_ns: i64,
    pub device: u32,
    pub context: u32,
    pub stream: Option<u32>,
    pub correlation: CorrelationId,
    pub asynchronous: bool,
}

/// `metrics`: one metric of one counted range or kernel.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MetricRow {
    /// The range, those around it in front; null for a kernel outside every range.
    pub range_path: Option<Arc<str>>,
    /// Which one of the session, in the order in which they began.
    pub range_index: i64,
    pub nesting_level: u16,
    /// The kernel, where each kernel was counted by itself.
    pub kernel: Option<Arc<KernelName>>,
    pub metric: Arc<str>,
    /// The name that was asked for.
    pub asked: Arc<str>,
    pub value: Option<f64>,
    pub null_reason: Option<Arc<str>>,
    pub unit: Arc<str>,
    pub passes: u32,
    pub range_mode: Arc<str>,
    pub replay_mode: Arc<str>,
    pub cache_state: Arc<str>,
    pub clock_mode: Arc<str>,
    pub chip: Arc<str>,
    pub device: u32,
    /// The configuration of a measurement, in words and by its number.
    pub config: Option<Arc<str>>,
    pub config_index: Option<i64>,
    /// Which counting of the configuration.
    pub run: Option<i64>,
}

/// `samples`: one measured value of one use of an annotation.
#[derive(Clone, Debug)]
pub(crate) struct SampleRow {
    pub config: Arc<str>,
    pub config_index: i64,
    /// The parameters as a JSON object.
    pub parameters: Arc<str>,
    pub run: Option<i64>,
    pub order: Option<i64>,
    /// When the run began; of counters, when counting began.
    pub start_ns: i64,
    pub block: Option<i64>,
    pub annotation: Arc<str>,
    /// Of `ranges`, where these are in the same dataset.
    pub range_id: Option<i64>,
    pub repeat: i64,
    pub kernel: Option<Arc<str>>,
    pub metric: Arc<str>,
    pub unit: Arc<str>,
    pub value: Option<f64>,
    pub invalid_reason: Option<Arc<str>>,
    pub outlier: Option<&'static str>,
    pub n_launches: i64,
    pub launch_mode: Option<&'static str>,
    pub wall_ns: Option<i64>,
    pub cache_state: Arc<str>,
    pub clock_mode: Arc<str>,
    pub sm_clock_mhz: Option<u32>,
    pub memory_clock_mhz: Option<u32>,
    pub temperature_c: Option<i64>,
    pub thermal_margin_c: Option<i64>,
    pub power_mw: Option<u32>,
    pub throttle: Option<Arc<str>>,
    pub power_throttled_ns: Option<i64>,
    pub thermal_throttled_ns: Option<i64>,
    /// The parameters, in the order of the columns that were added for them.
    pub cells: Arc<[Option<Cell>]>,
}

/// `aggregates`: what the samples of one metric in one configuration are like.
#[derive(Clone, Debug)]
pub(crate) struct AggregateRow {
    pub config: Arc<str>,
    pub config_index: i64,
    /// As in [`SampleRow`].
    pub parameters: Arc<str>,
    pub annotation: Arc<str>,
    pub kernel: Option<Arc<str>>,
    pub metric: Arc<str>,
    pub unit: Arc<str>,
    /// Those that are not valid included.
    pub n: i64,
    pub told: AggregateValues,
    pub stop_reason: Option<&'static str>,
    pub normalized_against: Option<Arc<str>>,
    /// As in [`SampleRow`].
    pub cells: Arc<[Option<Cell>]>,
}

/// The numbers of an aggregate; what is not known is none.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AggregateValues {
    pub n_valid: i64,
    pub n_eff: Option<f64>,
    pub tick: Option<f64>,
    pub ties_ratio: Option<f64>,
    pub mean: Option<f64>,
    pub mean_interval: [Option<f64>; 2],
    pub std_dev: Option<f64>,
    pub cv: Option<f64>,
    pub is_stable: bool,
    pub min: Option<f64>,
    pub max: Option<f64>,
    /// P1, P5, P25, P50, P75, P95, P99.
    pub quantiles: [Option<f64>; 7],
    pub median_interval: [Option<f64>; 2],
    pub harrell_davis_p50: Option<f64>,
    pub harrell_davis_p99: Option<f64>,
    pub mad: Option<f64>,
    pub robust_cv: Option<f64>,
    pub is_resolution_limited: bool,
    pub fenced_mean: Option<f64>,
    pub fenced_mean_interval: [Option<f64>; 2],
    pub n_fenced_out: i64,
    /// Low severe, low mild, high mild, high severe.
    pub outliers: [i64; 4],
    pub lag1_autocorrelation: Option<f64>,
    pub drift_ratio: Option<f64>,
    pub drift_p: Option<f64>,
    pub modes: [Option<f64>; 3],
    pub achieved_precision: Option<f64>,
    pub ratio: Option<f64>,
    pub ratio_interval: [Option<f64>; 2],
}

/// Facts of `env` with this beginning are for everybody to read.
pub(crate) const WARNING: &str = "warning.";

/// `env`: one fact about the run.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct EnvRow {
    pub key: String,
    pub value: String,
}

/// `losses`: one cause with its count.
#[derive(Clone, Debug)]
pub(crate) struct LossRow {
    pub cause: &'static str,
    pub count: u64,
    pub meaning: &'static str,
}
