//! Facts of `env` that a report is read back from, by their keys.

pub(super) const NAME: &str = "bench.name";
/// The annotation that others are compared with; absent where there is none.
pub(super) const BASELINE: &str = "bench.normalize_against";
/// The resolution of times in nanoseconds.
pub(super) const TICK: &str = "bench.tick_ns";
/// The share of the mean that the standard deviation of what is stable is below.
pub(super) const STABLE_BELOW: &str = "bench.stable_below";
pub(super) const CACHE_STATE: &str = "bench.cache_state";
pub(super) const CLOCK_MODE: &str = "bench.clock_mode";
/// What the times of kernels contain, and what not.
pub(super) const TIMES: &str = "bench.times";
/// In front of the warnings' numbers.
pub(super) const WARNING: &str = "warning.bench.";
/// In front of the collectors' names.
pub(super) const COLLECTOR: &str = "collector.";
