//! Statistics of measured durations and counts: pure functions of numbers.
//!
//! Values are finite ([`Sample::new`] refuses others), in the order in which they were measured. What cannot be told
//! from so few values is `None`, never a NaN or a zero: a spread needs two values, a distribution-free interval of
//! the median six.
//!
//! # Which interval for what
//!
//! All are for a confidence of 95 % ([`CONFIDENCE`]). The share of 2000 simulated experiments whose interval had the
//! true value in it (`cargo test stats::tests::coverage -- --nocapture`, fixed seed):
//!
//! | data | interval | n = 5 | 10 | 20 | 100 |
//! |---|---|---|---|---|---|
//! | normal, the mean | [`mean_interval`] | 95.2 % | 95.4 % | 94.8 % | 94.0 % |
//! | skewed (log-normal, σ 0.8), the median | [`median_interval_interpolated`] | – | 94.3 % | 95.6 % | 94.3 % |
//! | skewed, the median | [`median_interval`], which promises *at least* 95 % | – | 97.6 % | 96.1 % | 96.8 % |
//! | skewed, the mean | [`mean_interval`] | 87 % | 86 % | 91 % | 93 % |
//! | linear drift of 3σ in all, the level halfway | [`level_interval`] | 95.7 % | 94.7 % | 94.3 % | 94.9 % |
//! | neighbours alike (autoregressive, ρ 0.5), the median | [`median_interval_correlated`], where there is one | – | 95.1 % | 95.7 % | 97.4 % |
//! | neighbours alike, the mean | [`mean_interval`] with [`effective_n`] | 85 % | 85 % | 87 % | 94 % |
//!
//! So three promises cannot be kept, whatever the formula: an interval of the median of five values without an
//! assumption about their distribution (from the least to the greatest is 93.75 %); one of the mean of few values of a
//! skewed distribution; and one of the mean of few values that depend on each other, since how much they do cannot be
//! told from them.

mod bootstrap;
mod compare;
mod describe;
mod distributions;
mod interval;
mod modes;
mod random;
mod sample;
mod series;
mod stop;

#[cfg(test)]
mod tests;

pub use bootstrap::{BootstrapInterval, BootstrapKind, DEFAULT_RESAMPLES, ProcessRun, bootstrap_ratio};
pub use compare::{
    Comparison, DEFAULT_FALSE_DISCOVERY_RATE, DEFAULT_MARGIN, Direction, Inconclusive, MIN_PROCESS_RUNS,
    Verdict, benjamini_hochberg, geometric_mean, paired, welch,
};
pub use describe::{DEFAULT_STABLE_BELOW, Description, describe};
pub use interval::{
    CONFIDENCE, Interval, fenced_mean_interval, level_interval, mean_interval, median_interval,
    median_interval_correlated, median_interval_interpolated, median_ranks,
};
pub use modes::{Modes, modes};
pub use random::Random;
pub use sample::{FencedMean, Outlier, Outliers, Sample, tick_ns};
pub use series::{Drift, drift, effective_n, lag1_autocorrelation};
pub use stop::{
    DEFAULT_MAX_RUNS, DEFAULT_MAX_TIME, DEFAULT_TARGET, FIRST_LOOK, Looked, MAX_INVALID_SHARE, Precision,
    StopReason, StopRule, Stopped, achieved_precision,
};
