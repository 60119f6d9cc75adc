//! Everything that is told about one sample.

use super::interval::{
    Interval, fenced_mean_interval, mean_interval, median_interval, median_interval_correlated,
};
use super::modes::{Modes, modes};
use super::sample::{FencedMean, Outliers, Sample};
use super::series::{Drift, drift, effective_n, lag1_autocorrelation};

/// What values are like: their number, centre, spread, shape, and how certain that is. In the unit of the values.
///
/// What is not known from so few values is none.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Description {
    /// How many values.
    pub n: usize,
    /// How many independent values they are worth.
    pub n_eff: f64,
    /// The resolution of the values; 0 for none.
    pub tick: f64,
    /// The share of the values that are the most frequent one.
    pub ties_ratio: Option<f64>,
    /// Mean.
    pub mean: Option<f64>,
    /// 95 % interval of the mean, by Student's t with `n_eff`.
    pub mean_interval: Option<Interval>,
    /// Standard deviation (n − 1), at least tick/√12.
    pub std_dev: Option<f64>,
    /// Standard deviation over mean.
    pub cv: Option<f64>,
    /// The least value.
    pub min: Option<f64>,
    /// The greatest value.
    pub max: Option<f64>,
    /// P1, P5, P25, P50, P75, P95 and P99, see [`QUANTILES`](Self::QUANTILES).
    pub quantiles: Option<[f64; 7]>,
    /// 95 % interval of the median; see [`median_is_correlated`](Self::median_is_correlated).
    pub median_interval: Option<Interval>,
    /// Whether that interval is wider because neighbours depend on each other (`n_eff` is less than `n`).
    pub median_is_correlated: bool,
    /// Median by Harrell and Davis.
    pub harrell_davis_p50: Option<f64>,
    /// P99 by Harrell and Davis.
    pub harrell_davis_p99: Option<f64>,
    /// Median absolute deviation times 1.4826, at least tick/√12.
    pub mad: Option<f64>,
    /// That over the median.
    pub robust_cv: Option<f64>,
    /// Interquartile range.
    pub iqr: Option<f64>,
    /// Whether a spread above is the resolution's and not the values' own: it was less than tick/√12.
    pub is_resolution_limited: bool,
    /// The mean of what is not far out.
    pub fenced_mean: Option<FencedMean>,
    /// Its 95 % interval.
    pub fenced_mean_interval: Option<Interval>,
    /// Values far from the bulk.
    pub outliers: Outliers,
    /// Correlation of neighbours.
    pub lag1_autocorrelation: Option<f64>,
    /// Change over the last half.
    pub drift: Option<Drift>,
    /// Two states that the values alternate between, if they do.
    pub modes: Option<Modes>,
}

/// What the standard deviation of a stable measurement is below, as a share of the mean.
pub const DEFAULT_STABLE_BELOW: f64 = 0.02;

impl Description {
    /// What [`quantiles`](Self::quantiles) are for.
    pub const QUANTILES: [f64; 7] = [0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99];

    /// Whether the standard deviation is less than [2 %](DEFAULT_STABLE_BELOW) of the mean; false where it is not known.
    #[must_use]
    pub fn is_stable(&self) -> bool {
        self.is_stable_below(DEFAULT_STABLE_BELOW)
    }

    /// The same with another share of the mean.
    #[must_use]
    pub fn is_stable_below(&self, share: f64) -> bool {
        self.cv.is_some_and(|cv| cv < share)
    }

    /// The median.
    #[must_use]
    pub fn median(&self) -> Option<f64> {
        self.quantiles.map(|quantiles| quantiles[3])
    }
}

/// Describes a sample; `tick` is the resolution of its values, 0 where there is none.
///
/// ```
/// use cuprof::stats::{Sample, describe};
///
/// let told = describe(&Sample::new([3_200.0, 3_232.0, 3_200.0, 3_264.0, 3_232.0, 3_200.0])?, 32.0);
/// assert_eq!((told.n, told.median()), (6, Some(3_216.0)));
/// let interval = told.median_interval.expect("six values have one");
/// assert_eq!((interval.low, interval.high), (3_200.0, 3_264.0));
/// # Ok::<(), cuprof::Error>(())
/// ```
#[must_use]
pub fn describe(sample: &Sample, tick: f64) -> Description {
    let least_spread = tick / 12_f64.sqrt();
    let n_eff = effective_n(sample);
    let (mean, median) = (sample.mean(), sample.median());
    let quantiles = Description::QUANTILES.map(|p| sample.quantile(p));
    let share = |spread: Option<f64>, centre: Option<f64>| {
        spread.zip(centre).map(|(spread, centre)| spread / centre.abs()).filter(|share| share.is_finite())
    };
    let floored = |spread: Option<f64>| spread.map(|spread| spread.max(least_spread));
    let is_limited = |spread: Option<f64>| spread.is_some_and(|spread| spread < least_spread);
    let (std_dev, mad) = (sample.std_dev(), sample.mad().filter(|_| sample.n() > 1));
    let median_is_correlated = n_eff < sample.n() as f64;
    Description {
        n: sample.n(),
        n_eff,
        tick,
        ties_ratio: sample.ties_ratio(),
        mean,
        mean_interval: mean_interval(sample, n_eff),
        std_dev: floored(std_dev),
        cv: share(floored(std_dev), mean),
        min: sample.min(),
        max: sample.max(),
        quantiles: quantiles.iter().all(Option::is_some).then(|| quantiles.map(Option::unwrap_or_default)),
        median_interval: if median_is_correlated {
            median_interval_correlated(sample, n_eff)
        } else {
            median_interval(sample)
        },
        median_is_correlated,
        harrell_davis_p50: sample.harrell_davis(0.5),
        harrell_davis_p99: sample.harrell_davis(0.99),
        mad: floored(mad),
        robust_cv: share(floored(mad), median),
        iqr: sample.iqr(),
        is_resolution_limited: is_limited(std_dev) || is_limited(mad),
        fenced_mean: sample.fenced_mean(tick),
        fenced_mean_interval: fenced_mean_interval(sample, tick, n_eff),
        outliers: sample.outliers(),
        lag1_autocorrelation: lag1_autocorrelation(sample),
        drift: drift(sample),
        modes: modes(sample, tick),
    }
}
