//! What the order of the values tells: how much they depend on each other, and whether they drift.

use super::distributions::{normal_quantile, normal_two_sided};
use super::sample::Sample;

/// More values than this of a half are thinned out evenly before all pairs of them are looked at.
const MAX_DRIFT_VALUES: usize = 2_000;

/// Products that are added up for one effective number at most: all lags, up to some 6000 values.
const MAX_PRODUCTS: usize = 20_000_000;

/// A drift with less than this probability of being chance is one.
const DRIFT_P: f64 = 0.01;

/// The correlation of neighbours, from −1 to 1: Σ(xᵢ − x̄)(xᵢ₊₁ − x̄)/Σ(xᵢ − x̄)². None for fewer than three values, and
/// where all are equal.
#[must_use]
pub fn lag1_autocorrelation(sample: &Sample) -> Option<f64> {
    let mean = sample.mean()?;
    let centred: Vec<f64> = sample.values().iter().map(|value| value - mean).collect();
    if centred.len() < 3 { None } else { autocorrelation(&centred, 1) }
}

fn autocorrelation(centred: &[f64], lag: usize) -> Option<f64> {
    let squares: f64 = centred.iter().map(|value| value * value).sum();
    if squares <= 0.0 {
        return None;
    }
    let products: f64 = centred.iter().zip(&centred[lag.min(centred.len())..]).map(|(a, b)| a * b).sum();
    Some(products / squares)
}

/// How many independent values these are worth, at most their number.
///
/// With zᵢ = Φ⁻¹((rankᵢ − ½)/n), equal values sharing their middle rank, and r_k the autocorrelation of z: pairs
/// Γ_m = r_{2m} + r_{2m+1}, r₀ = 1, are added while they are positive (Geyer 1992); τ = max(1, 2ΣΓ_m − 1), and
/// n_eff = n/τ. Of the ranks, because single interruptions hide the correlation of the values themselves. Of more than
/// some 6000 values, not all lags are looked at: 2·10⁷/n.
#[must_use]
pub fn effective_n(sample: &Sample) -> f64 {
    n_eff(sample.values())
}

fn n_eff(values: &[f64]) -> f64 {
    let n = values.len();
    let scores = normal_scores(values);
    let mut sum = 0.0;
    let mut pair = 0;
    let last_lag = n.min(MAX_PRODUCTS / n.max(1));
    while 2 * pair + 1 < last_lag {
        let (Some(even), Some(odd)) =
            (autocorrelation(&scores, 2 * pair), autocorrelation(&scores, 2 * pair + 1))
        else {
            return n as f64; // all are equal
        };
        if even + odd <= 0.0 {
            break;
        }
        sum += even + odd;
        pair += 1;
    }
    n as f64 / (2.0 * sum - 1.0).max(1.0)
}

/// Φ⁻¹ of the middle ranks; their mean is 0 by symmetry, but for ties.
fn normal_scores(values: &[f64]) -> Vec<f64> {
    let n = values.len();
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_unstable_by(|a, b| values[*a].total_cmp(&values[*b]));
    let mut scores = vec![0.0; n];
    let mut from = 0;
    for ties in order.chunk_by(|a, b| values[*a] == values[*b]) {
        let rank = from as f64 + (ties.len() + 1) as f64 / 2.0;
        let score = normal_quantile((rank - 0.5) / n as f64).unwrap_or_default();
        ties.iter().for_each(|place| scores[*place] = score);
        from += ties.len();
    }
    let mean = scores.iter().sum::<f64>() / (n as f64).max(1.0);
    scores.iter_mut().for_each(|score| *score -= mean);
    scores
}

/// How the values change from one to the next.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Drift {
    /// By how much the values change over the whole of what was looked at, relative to the median.
    pub change_ratio: f64,
    /// The same for each value: the Theil-Sen slope, the median of the slopes of all pairs.
    pub slope_per_value: f64,
    /// The probability that independent values in random order look so (Kendall's test).
    pub p: f64,
}

impl Drift {
    /// Whether it is no chance (p below 1 %) and changes the values by more than this share.
    #[must_use]
    pub fn exceeds(&self, share: f64) -> bool {
        self.p < DRIFT_P && self.change_ratio.abs() > share
    }
}

/// Whether the last half of the values goes up or down.
///
/// The slope is Theil's and Sen's. The test is Kendall's τ_b against the order, z = 3τ√(n(n − 1))/√(2(2n + 5)), with
/// n_eff for n: values that depend on each other wander without a drift. n_eff is that of what the slope leaves, since
/// a drift itself makes neighbours alike. None for a half of fewer than ten values, or a median of 0. Of a half of more
/// than 2000 values, as many are looked at, evenly spread.
#[must_use]
pub fn drift(sample: &Sample) -> Option<Drift> {
    let half = &sample.values()[sample.n() / 2..];
    let step = half.len().div_ceil(MAX_DRIFT_VALUES).max(1);
    let half: Vec<f64> = half.iter().copied().step_by(step).collect();
    let n = half.len();
    if n < 10 {
        return None;
    }
    let mut slopes = Vec::with_capacity(n * (n - 1) / 2);
    let (mut rising, mut ties) = (0_i64, 0_u64);
    for (i, a) in half.iter().enumerate() {
        for (distance, b) in half[i + 1..].iter().enumerate() {
            slopes.push((b - a) / (distance + 1) as f64);
            match b.total_cmp(a) {
                std::cmp::Ordering::Greater => rising += 1,
                std::cmp::Ordering::Less => rising -= 1,
                std::cmp::Ordering::Equal => ties += 1,
            }
        }
    }
    let middle = slopes.len() / 2;
    let (_, slope, _) = slopes.select_nth_unstable_by(middle, f64::total_cmp);
    let slope = *slope;
    let median = Sample::new(&*half).ok()?.median().filter(|median| *median != 0.0)?;
    let pairs = n as f64 * (n - 1) as f64 / 2.0;
    let untied = pairs - ties as f64;
    let tau = if untied > 0.0 { rising as f64 / (untied * pairs).sqrt() } else { 0.0 };
    let left: Vec<f64> = half.iter().enumerate().map(|(i, value)| value - slope * i as f64).collect();
    let n_eff = n_eff(&left).max(2.0);
    let z = 3.0 * tau * (n_eff * (n_eff - 1.0)).sqrt() / (2.0 * (2.0 * n_eff + 5.0)).sqrt();
    let change_ratio = slope * (n - 1) as f64 / median;
    Some(Drift { change_ratio, slope_per_value: slope / step as f64, p: normal_two_sided(z) })
}
