//! Values, and what describes where they lie and how far apart.

use super::distributions::beta_cdf;
use crate::error::{Error, ErrorKind, Result};

/// What makes the median absolute deviation of normal values their standard deviation: 1/Φ⁻¹(¾).
const MAD_TO_SIGMA: f64 = 1.4826;

/// More values than this are a large sample: the incomplete beta function is not computed exactly any more, and what it
/// would be needed for has simple limits.
pub(super) const LARGE: usize = 10_000;

/// Finite values in the order in which they were measured.
///
/// ```
/// use cuprof::stats::Sample;
///
/// let sample = Sample::new([4.0, 1.0, 3.0, 2.0])?;
/// assert_eq!(sample.median(), Some(2.5));
/// assert_eq!(sample.quantile(0.25), Some(1.75));
/// assert!(Sample::new([1.0, f64::NAN]).is_err());
/// # Ok::<(), cuprof::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    values: Vec<f64>,
    sorted: Vec<f64>,
}

/// The mean of the values that are not far outside the bulk.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct FencedMean {
    /// The mean of what is inside.
    pub mean: f64,
    /// Standard deviation of what is inside (n − 1); none for one value.
    pub std_dev: Option<f64>,
    /// How many values are inside.
    pub n: usize,
    /// How many are not.
    pub left_out: usize,
}

/// How many values lie far from the bulk, by Tukey's fences. They are counted, not removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Outliers {
    /// More than 3 interquartile ranges below the lower quartile.
    pub low_severe: usize,
    /// More than 1.5, at most 3, below it.
    pub low_mild: usize,
    /// More than 1.5, at most 3, above the upper quartile.
    pub high_mild: usize,
    /// More than 3 above it.
    pub high_severe: usize,
}

/// A value far from the bulk, by Tukey's fences. It is flagged, not removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Outlier {
    /// More than 3 interquartile ranges below the lower quartile.
    LowSevere,
    /// More than 1.5, at most 3, below it.
    LowMild,
    /// More than 1.5, at most 3, above the upper quartile.
    HighMild,
    /// More than 3 above it.
    HighSevere,
}

impl Outlier {
    /// As tables have it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::LowSevere => "low_severe",
            Self::LowMild => "low_mild",
            Self::HighMild => "high_mild",
            Self::HighSevere => "high_severe",
        }
    }
}

impl Sample {
    /// The values, in the order in which they were measured.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] where one is NaN or infinite; the message has its place.
    pub fn new(values: impl Into<Vec<f64>>) -> Result<Self> {
        let values = values.into();
        if let Some(place) = values.iter().position(|value| !value.is_finite()) {
            let what = format!("value {place} of {} is {}, not a finite number", values.len(), values[place]);
            return Err(Error::new(ErrorKind::Config, what)
                .with_hint("leave invalid measurements out, and count them"));
        }
        let mut sorted = values.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        Ok(Self { values, sorted })
    }

    /// How many there are.
    #[must_use]
    pub fn n(&self) -> usize {
        self.values.len()
    }

    /// The values, as they were measured.
    #[must_use]
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// The values, from the least to the greatest.
    #[must_use]
    pub fn sorted(&self) -> &[f64] {
        &self.sorted
    }

    /// The arithmetic mean; none without values.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        mean(&self.sorted)
    }

    /// The standard deviation, with n − 1; none for fewer than two values.
    #[must_use]
    pub fn std_dev(&self) -> Option<f64> {
        std_dev(&self.sorted)
    }

    /// The least value.
    #[must_use]
    pub fn min(&self) -> Option<f64> {
        self.sorted.first().copied()
    }

    /// The greatest value.
    #[must_use]
    pub fn max(&self) -> Option<f64> {
        self.sorted.last().copied()
    }

    /// The quantile for `p` from 0 to 1, by linear interpolation between the values at both sides of (n − 1)p (type 7
    /// of Hyndman and Fan 1996, as NumPy and R have by default). None without values, and for another `p`.
    #[must_use]
    pub fn quantile(&self, p: f64) -> Option<f64> {
        quantile(&self.sorted, p)
    }

    /// The value in the middle, or the mean of the two there.
    #[must_use]
    pub fn median(&self) -> Option<f64> {
        self.quantile(0.5)
    }

    /// The quantile for `p` by Harrell and Davis (1982): Σ wᵢ x₍ᵢ₎ with wᵢ = I_{i/n}(a, b) − I_{(i−1)/n}(a, b),
    /// a = (n + 1)p, b = (n + 1)(1 − p), I the regularised incomplete beta function. It uses all values, and so moves
    /// by less than a tick where [`quantile`](Self::quantile) moves by one or none. None without values, and for a `p`
    /// that is not inside 0 to 1. For more than 10 000 values it is [`quantile`](Self::quantile), which then hardly differs.
    #[must_use]
    pub fn harrell_davis(&self, p: f64) -> Option<f64> {
        let n = self.n();
        if n == 0 || !(p > 0.0 && p < 1.0) {
            return None;
        }
        if n > LARGE {
            return self.quantile(p);
        }
        let (a, b) = ((n as f64 + 1.0) * p, (n as f64 + 1.0) * (1.0 - p));
        let (mut sum, mut below) = (0.0, 0.0);
        for (i, value) in self.sorted.iter().enumerate() {
            let up_to = beta_cdf(a, b, (i + 1) as f64 / n as f64);
            sum += (up_to - below) * value;
            below = up_to;
        }
        // The weights add up to 1; rounding must not take the result out of the values' range.
        Some(sum.clamp(self.sorted[0], self.sorted[n - 1]))
    }

    /// The interquartile range: P75 − P25.
    #[must_use]
    pub fn iqr(&self) -> Option<f64> {
        Some(self.quantile(0.75)? - self.quantile(0.25)?)
    }

    /// 1.4826 times the median distance from the median: for normal values their standard deviation, and hardly moved
    /// by outliers.
    #[must_use]
    pub fn mad(&self) -> Option<f64> {
        let median = self.median()?;
        let mut distances: Vec<f64> = self.sorted.iter().map(|value| (value - median).abs()).collect();
        distances.sort_unstable_by(f64::total_cmp);
        Some(MAD_TO_SIGMA * quantile(&distances, 0.5)?)
    }

    /// The mean of the values in [P25 − 3w, P75 + 3w] with w = max(IQR, 2·tick), where `tick` is the resolution of the
    /// values (0 for none).
    ///
    /// A mean resolves less than a tick where a median does not; the fence keeps single interruptions out of it.
    #[must_use]
    pub fn fenced_mean(&self, tick: f64) -> Option<FencedMean> {
        let (low, high) = (self.quantile(0.25)?, self.quantile(0.75)?);
        let width = (high - low).max(2.0 * tick.max(0.0));
        let (low, high) = (low - 3.0 * width, high + 3.0 * width);
        let from = self.sorted.partition_point(|value| *value < low);
        let to = self.sorted.partition_point(|value| *value <= high);
        let inside = &self.sorted[from..to];
        let n = inside.len();
        Some(FencedMean { mean: mean(inside)?, std_dev: std_dev(inside), n, left_out: self.n() - n })
    }

    /// How many values lie outside Tukey's fences, 1.5 and 3 interquartile ranges from the quartiles.
    #[must_use]
    pub fn outliers(&self) -> Outliers {
        let mut outliers = Outliers::default();
        for value in &self.sorted {
            match self.outlier(*value) {
                Some(Outlier::LowSevere) => outliers.low_severe += 1,
                Some(Outlier::LowMild) => outliers.low_mild += 1,
                Some(Outlier::HighMild) => outliers.high_mild += 1,
                Some(Outlier::HighSevere) => outliers.high_severe += 1,
                None => {}
            }
        }
        outliers
    }

    /// How far a value lies from the bulk of these; none if it belongs to it.
    #[must_use]
    pub fn outlier(&self, value: f64) -> Option<Outlier> {
        let (low, high) = (self.quantile(0.25)?, self.quantile(0.75)?);
        let iqr = high - low;
        match value {
            value if value < low - 3.0 * iqr => Some(Outlier::LowSevere),
            value if value < low - 1.5 * iqr => Some(Outlier::LowMild),
            value if value > high + 3.0 * iqr => Some(Outlier::HighSevere),
            value if value > high + 1.5 * iqr => Some(Outlier::HighMild),
            _ => None,
        }
    }

    /// The share of the values that are the most frequent one, from 0 to 1. Where it is large, the resolution of the
    /// clock decides, and not the spread.
    #[must_use]
    pub fn ties_ratio(&self) -> Option<f64> {
        let longest = self.sorted.chunk_by(|a, b| a == b).map(<[f64]>::len).max()?;
        Some(longest as f64 / self.n() as f64)
    }
}

pub(super) fn mean(values: &[f64]) -> Option<f64> {
    let first = *values.first()?;
    // Around the first value: sums of large, near equal numbers lose digits.
    Some(first + values.iter().map(|value| value - first).sum::<f64>() / values.len() as f64)
}

pub(super) fn std_dev(values: &[f64]) -> Option<f64> {
    if values.len() < 2 {
        return None;
    }
    let mean = mean(values)?;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    Some((squares / (values.len() - 1) as f64).sqrt())
}

/// Type 7, of sorted values.
fn quantile(sorted: &[f64], p: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    if !(0.0..=1.0).contains(&p) {
        return None;
    }
    let place = last as f64 * p;
    let below = place as usize; // CAST: from 0 to `last`; the fraction is dealt with below
    let (low, high) = (sorted[below], sorted[(below + 1).min(last)]);
    Some(low + (place - below as f64) * (high - low))
}

/// Durations on these machines are multiples of this or of a larger one, or arbitrary.
const TICKS_NS: [i64; 8] = [1_024, 512, 256, 128, 64, 32, 16, 8];

/// The resolution of durations in nanoseconds: the largest of 8, 16, …, 1024 that 95 % of them are multiples of, give
/// or take 1 (32 on an H200); else 1. Told from 20 durations below 0.1 ms or more: longer ones are stretched with the
/// GPU's clock to the host's, by more than a nanosecond.
#[must_use]
pub fn tick_ns(durations: &[i64]) -> f64 {
    const MIN_DURATIONS: usize = 20;
    const STRETCHED_FROM_NS: i64 = 100_000;
    let short: Vec<i64> = durations.iter().copied().filter(|ns| *ns < STRETCHED_FROM_NS).collect();
    let fits = |tick: i64| {
        let is_near = |ns: i64| (ns.rem_euclid(tick) + 1) % tick <= 2;
        let near = short.iter().filter(|ns| is_near(**ns)).count();
        near * 20 >= short.len() * 19
    };
    if short.len() < MIN_DURATIONS {
        return 1.0;
    }
    TICKS_NS.into_iter().find(|tick| fits(*tick)).unwrap_or(1) as f64
}
