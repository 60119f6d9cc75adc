//! Intervals that have the true value in them with a known probability.

use super::distributions::{fair_binomial_cdf, normal_quantile, t_quantile};
use super::sample::{LARGE, Sample};

/// The confidence of every interval: in 95 of 100 experiments it has the true value in it.
pub const CONFIDENCE: f64 = 0.95;

/// What the confidence leaves at each side.
const TAIL: f64 = (1.0 - CONFIDENCE) / 2.0;

/// Fewer values than this have no distribution-free interval of their median.
const MIN_FOR_MEDIAN: usize = 6;

/// From `low` to `high`, both in the unit of the values.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Interval {
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

impl Interval {
    pub(super) fn new(low: f64, high: f64) -> Self {
        Self { low, high }
    }

    pub(super) fn around(centre: f64, half_width: f64) -> Self {
        Self::new(centre - half_width, centre + half_width)
    }

    /// Half of its width.
    #[must_use]
    pub fn half_width(self) -> f64 {
        (self.high - self.low) / 2.0
    }

    /// Whether a value lies in it; its ends do.
    #[must_use]
    pub fn contains(self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }

    /// With a function that keeps the order applied to both ends.
    pub(super) fn map(self, f: impl Fn(f64) -> f64) -> Self {
        Self::new(f(self.low), f(self.high))
    }
}

/// The value of Student's t that both ends of an interval are standard errors away from the centre.
pub(super) fn t_two_sided(df: f64) -> Option<f64> {
    if df > 0.0 { t_quantile(1.0 - TAIL, df) } else { None }
}

/// The interval of the mean: x̄ ± t·s/√n_eff, with Student's t for n_eff − 1 degrees of freedom. Not 1.96 for t: that
/// holds the true mean in 70 % of experiments with two values, and in 88 % with five.
///
/// `n_eff` is the number of independent values that these are worth ([`effective_n`](super::effective_n)), the number
/// of values where they are independent. None for fewer than two.
#[must_use]
pub fn mean_interval(sample: &Sample, n_eff: f64) -> Option<Interval> {
    t_interval(sample.mean()?, sample.std_dev()?, n_eff.min(sample.n() as f64))
}

/// The interval of the [fenced mean](Sample::fenced_mean), as [`mean_interval`] from the values inside the fence.
/// `n_eff` is reduced in proportion to what is left out.
#[must_use]
pub fn fenced_mean_interval(sample: &Sample, tick: f64, n_eff: f64) -> Option<Interval> {
    let fenced = sample.fenced_mean(tick)?;
    let inside = fenced.n as f64 / sample.n() as f64;
    t_interval(fenced.mean, fenced.std_dev?, n_eff.min(sample.n() as f64) * inside)
}

fn t_interval(mean: f64, std_dev: f64, n_eff: f64) -> Option<Interval> {
    let t = t_two_sided(n_eff - 1.0)?;
    Some(Interval::around(mean, t * std_dev / n_eff.sqrt()))
}

/// The interval of the level halfway through a measurement that drifts evenly: x̄ ± t·s/√n, where s is the standard
/// deviation around the line of least squares, with n − 2 degrees of freedom. None for fewer than three values.
///
/// [`mean_interval`] has the drift itself in its spread, and is far too wide here.
#[must_use]
pub fn level_interval(sample: &Sample) -> Option<Interval> {
    let n = sample.n();
    if n < 3 {
        return None;
    }
    let (mean, middle) = (sample.mean()?, (n - 1) as f64 / 2.0);
    let places = || sample.values().iter().enumerate().map(|(i, value)| (i as f64 - middle, value - mean));
    let slope = places().map(|(x, y)| x * y).sum::<f64>() / places().map(|(x, _)| x * x).sum::<f64>();
    let squares: f64 = places().map(|(x, y)| (y - slope * x).powi(2)).sum();
    let df = (n - 2) as f64;
    Some(Interval::around(mean, t_two_sided(df)? * (squares / df / n as f64).sqrt()))
}

/// The ranks, counted from 1, of the values between which the median lies with at least 95 %: l and n + 1 − l with
/// l = max{l : P(Bin(n, ½) ≤ l − 1) ≤ 2.5 %}; for more than 10 000 values, l = ⌊(n − 1.96√n)/2⌋. None for fewer than six
/// values: not even the least and the greatest do.
#[must_use]
pub fn median_ranks(n: usize) -> Option<(usize, usize)> {
    if n < MIN_FOR_MEDIAN {
        return None;
    }
    if n > LARGE {
        let l = ((n as f64 - normal_quantile(1.0 - TAIL)? * (n as f64).sqrt()) / 2.0).floor();
        return Some((l as usize, n + 1 - l as usize)); // CAST: from 1 to n/2
    }
    // P grows with l, and l = 1 is allowed from six values on.
    let (mut allowed, mut too_large) = (1, n / 2 + 1);
    while too_large - allowed > 1 {
        let middle = usize::midpoint(allowed, too_large);
        if fair_binomial_cdf(n, middle - 1) <= TAIL {
            allowed = middle;
        } else {
            too_large = middle;
        }
    }
    Some((allowed, n + 1 - allowed))
}

/// The interval of the median of independent values, whatever their distribution, between the values of
/// [`median_ranks`]. It holds the true median with 95 % or more: 97.9 % for ten values, since there is no rank between.
#[must_use]
pub fn median_interval(sample: &Sample) -> Option<Interval> {
    let (low, high) = median_ranks(sample.n())?;
    Some(Interval::new(sample.sorted()[low - 1], sample.sorted()[high - 1]))
}

/// The interval of the median between ranks, by Hettmansperger and Sheather (1986): with γ_l the coverage of the ranks
/// l and n + 1 − l, γ_l ≥ 95 % ≥ γ_{l+1}, I = (γ_l − 0.95)/(γ_l − γ_{l+1}) and λ = (n − l)I/(l + (n − 2l)I), its lower
/// end is (1 − λ)x₍l₎ + λx₍l+1₎, and its upper end likewise. About 95 % for most distributions; not a promise, as
/// [`median_interval`] is.
#[must_use]
pub fn median_interval_interpolated(sample: &Sample) -> Option<Interval> {
    let n = sample.n();
    let (l, _) = median_ranks(n)?;
    if n > LARGE {
        return median_interval(sample); // no wider
    }
    let coverage = |l: usize| 1.0 - 2.0 * fair_binomial_cdf(n, l - 1);
    let (wide, narrow) = (coverage(l), coverage(l + 1));
    let between = ((wide - CONFIDENCE) / (wide - narrow)).clamp(0.0, 1.0);
    let (n_real, l_real) = (n as f64, l as f64);
    let weight = (n_real - l_real) * between / (l_real + (n_real - 2.0 * l_real) * between);
    let x = sample.sorted();
    let low = (1.0 - weight) * x[l - 1] + weight * x[l];
    let high = (1.0 - weight) * x[n - l] + weight * x[n - l - 1];
    Some(Interval::new(low, high))
}

/// The interval of the median of values of which each depends on those before: between the ranks ⌊n(½ − w)⌋ and
/// ⌈n(½ + w)⌉ + 1, kept in 1 to n, with w = 1.96/(2√n_eff). None for fewer than six values, or for an `n_eff` below
/// six.
#[must_use]
pub fn median_interval_correlated(sample: &Sample, n_eff: f64) -> Option<Interval> {
    let n = sample.n();
    if n < MIN_FOR_MEDIAN || n_eff.is_nan() || n_eff < MIN_FOR_MEDIAN as f64 {
        return None;
    }
    let w = normal_quantile(1.0 - TAIL)? / (2.0 * n_eff.min(n as f64).sqrt());
    let rank = |share: f64| n as f64 * share;
    // CAST: both are kept in 1 to n
    let low = rank(0.5 - w).floor().clamp(1.0, n as f64) as usize;
    let high = (rank(0.5 + w).ceil() + 1.0).clamp(1.0, n as f64) as usize;
    Some(Interval::new(sample.sorted()[low - 1], sample.sorted()[high - 1]))
}
