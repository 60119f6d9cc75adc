//! Whether the values come from one state of the machine or from two.

use super::sample::Sample;

/// Fewer values say nothing about modes.
const MIN_VALUES: usize = 20;

/// By how much the Bayesian information criterion must prefer two modes.
const MIN_BIC_GAIN: f64 = 10.0;

/// Ashman's D: modes closer than this, in common spreads, are one.
const MIN_SEPARATION: f64 = 2.0;

/// Steps of the fit at most; it is done long before.
const MAX_STEPS: usize = 200;

/// Two states that values alternate between, such as two clocks.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Modes {
    /// The lower centre.
    pub low: f64,
    /// The upper centre.
    pub high: f64,
    /// The share of the values around the upper one, from 0 to 1.
    pub high_weight: f64,
    /// By how much the Bayesian information criterion prefers two modes over one.
    pub bic_gain: f64,
}

/// Two modes, if a mixture of two normal distributions fits better than one: a BIC lower by more than 10, centres at
/// least two spreads (Ashman, Bird and Zepf 1994) and two `tick`s apart. Fitted by expectation and maximisation, with
/// spreads of at least tick/√12. None for one mode, and for fewer than 20 values.
#[must_use]
pub fn modes(sample: &Sample, tick: f64) -> Option<Modes> {
    let x = sample.sorted();
    let n = x.len() as f64;
    let spread = sample.std_dev().filter(|spread| x.len() >= MIN_VALUES && *spread > 0.0)?;
    let least = (tick / 12_f64.sqrt()).max(spread * 1e-3);
    let mean = sample.mean()?;
    // Begins with the values cut where the gap between both means says most (the cut of least squares).
    let cut = best_cut(x, mean)?;
    let mut fit = [Mode::of(&x[..cut], least, n)?, Mode::of(&x[cut..], least, n)?];
    let mut likelihood = f64::NEG_INFINITY;
    for _ in 0..MAX_STEPS {
        let mut sums = [[0.0; 3]; 2];
        let mut next = 0.0;
        for value in x {
            let densities = fit.map(|mode| mode.weight * density(*value, mode.centre, mode.spread));
            let both = densities[0] + densities[1];
            if both <= 0.0 {
                continue;
            }
            next += both.ln();
            for (sum, density) in sums.iter_mut().zip(densities) {
                let share = density / both;
                sum[0] += share;
                sum[1] += share * (value - mean);
                sum[2] += share * (value - mean).powi(2);
            }
        }
        for (mode, [share, first, second]) in fit.iter_mut().zip(sums) {
            if share < 1.0 {
                return None;
            }
            let centre = first / share;
            let variance = (second / share - centre * centre).max(least * least);
            *mode = Mode { weight: share / n, centre: mean + centre, spread: variance.sqrt() };
        }
        if (next - likelihood).abs() < 1e-9 * n {
            break;
        }
        likelihood = next;
    }
    let one: f64 = x.iter().map(|value| density(*value, mean, spread.max(least)).ln()).sum();
    // Two parameters against five.
    let bic_gain = 2.0 * (likelihood - one) - 3.0 * n.ln();
    let [low, high] = if fit[0].centre <= fit[1].centre { fit } else { [fit[1], fit[0]] };
    let apart = high.centre - low.centre;
    let common = ((low.spread.powi(2) + high.spread.powi(2)) / 2.0).sqrt();
    let are_two = bic_gain > MIN_BIC_GAIN && apart > MIN_SEPARATION * common && apart > 2.0 * tick;
    are_two.then_some(Modes { low: low.centre, high: high.centre, high_weight: high.weight, bic_gain })
}

#[derive(Clone, Copy)]
struct Mode {
    weight: f64,
    centre: f64,
    spread: f64,
}

impl Mode {
    fn of(part: &[f64], least: f64, n: f64) -> Option<Self> {
        let centre = super::sample::mean(part)?;
        let spread = super::sample::std_dev(part).unwrap_or_default().max(least);
        Some(Self { weight: part.len() as f64 / n, centre, spread })
    }
}

fn density(x: f64, centre: f64, spread: f64) -> f64 {
    let z = (x - centre) / spread;
    (-0.5 * z * z).exp() / (spread * std::f64::consts::TAU.sqrt())
}

/// Where cutting the sorted values makes the sum of squares between both parts greatest.
fn best_cut(x: &[f64], mean: f64) -> Option<usize> {
    let n = x.len();
    let mut sum = 0.0;
    let mut best = None;
    for (i, value) in x.iter().enumerate().take(n - 1) {
        sum += value - mean;
        let (below, above) = ((i + 1) as f64, (n - i - 1) as f64);
        let between = sum * sum * (1.0 / below + 1.0 / above);
        if best.is_none_or(|(_, most)| between > most) {
            best = Some((i + 1, between));
        }
    }
    best.map(|(cut, _)| cut)
}
