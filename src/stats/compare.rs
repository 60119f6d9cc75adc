//! Two sides compared: faster, slower, the same, or not known.

use std::fmt;

use super::distributions::t_survival;
use super::interval::{Interval, t_two_sided};
use super::sample::{mean, std_dev};
use crate::error::{Error, ErrorKind, Result};

/// Differences up to this share count as none, by default: 1 %.
pub const DEFAULT_MARGIN: f64 = 0.01;

/// Process runs that a side needs for a verdict between processes.
pub const MIN_PROCESS_RUNS: usize = 3;

/// The share of false ones that may be among what is called slower, by default.
pub const DEFAULT_FALSE_DISCOVERY_RATE: f64 = 0.05;

/// How much longer the second side (`b`) takes than the first (`a`): the difference of the logarithms, with its
/// standard error. A ratio has the same uncertainty in both directions only there.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Comparison {
    /// The mean of ln(b/a).
    pub log_ratio: f64,
    /// The standard error of that mean.
    pub standard_error: f64,
    /// Degrees of freedom of the standard error.
    pub df: f64,
    /// How many pairs, or process runs of the smaller side, there were.
    pub n: usize,
    /// Whether these are process runs, of which a verdict needs three.
    pub between_processes: bool,
}

/// What is known about a difference and a margin within which it does not matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The second side takes longer, by more than the margin: the whole interval is above it.
    Slower,
    /// It takes less time, by more than the margin.
    Faster,
    /// The difference is less than the margin: the whole interval is inside it (two one-sided tests, at 2.5 % each).
    Same,
    /// It cannot be told.
    Inconclusive(Inconclusive),
}

/// Why there is no verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Inconclusive {
    /// The interval has the margin's edge in it. `more`: about how many further pairs (or process runs a side) would
    /// tell, if spread and difference stay as they are; none where no number would.
    Overlap {
        /// About how many more.
        more: Option<u64>,
    },
    /// Fewer than three process runs a side, or fewer than two pairs.
    TooFewRuns,
    /// The verdict is not the same in cycles: the clock made it.
    Clock,
    /// Clocks were not pinned, and nobody knows what they were.
    UnknownClock,
    /// Among so many comparisons one as slow as this is likely to be chance.
    ManyTests,
}

/// Whether there is a difference at all, however small.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The interval is above 0.
    Slower,
    /// The interval is below 0.
    Faster,
    /// The interval has 0 in it.
    Unknown,
}

/// Compares pairs (a, b) that were measured next to each other, so that both had the same conditions: the mean d̄ of
/// ln(b/a), with standard error s_d/√K for K pairs and K − 1 degrees of freedom.
///
/// ```
/// use cuprof::stats::{Verdict, paired};
///
/// let pairs = [(100.0, 103.1), (101.0, 104.0), (99.5, 102.4), (100.2, 103.3)];
/// let comparison = paired(&pairs)?;
/// assert_eq!(comparison.verdict(0.01), Verdict::Slower); // by 3 %
/// # Ok::<(), cuprof::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::Config`] where a value is not finite or not above 0.
pub fn paired(pairs: &[(f64, f64)]) -> Result<Comparison> {
    let logs = |value: f64, place| positive(value, place).map(f64::ln);
    let differences = pairs
        .iter()
        .enumerate()
        .map(|(place, (a, b))| Ok(logs(*b, place)? - logs(*a, place)?))
        .collect::<Result<Vec<f64>>>()?;
    Ok(of_differences(&differences))
}

fn of_differences(differences: &[f64]) -> Comparison {
    let n = differences.len();
    Comparison {
        log_ratio: mean(differences).unwrap_or_default(),
        standard_error: std_dev(differences).map_or(f64::INFINITY, |s| s / (n as f64).sqrt()),
        df: n.saturating_sub(1) as f64,
        n,
        between_processes: false,
    }
}

/// Compares process runs, one positive value each (the mean of a run's block values): Welch's test on their logarithms,
/// se² = s_a²/R_a + s_b²/R_b, df = se⁴/(s_a⁴/(R_a²(R_a − 1)) + s_b⁴/(R_b²(R_b − 1))).
///
/// # Errors
/// [`ErrorKind::Config`] where a value is not finite or not above 0.
pub fn welch(a: &[f64], b: &[f64]) -> Result<Comparison> {
    let logs = |side: &[f64]| {
        let values = side.iter().enumerate();
        values.map(|(place, value)| positive(*value, place).map(f64::ln)).collect::<Result<Vec<f64>>>()
    };
    let (a, b) = (logs(a)?, logs(b)?);
    let part = |side: &[f64]| {
        let variance = std_dev(side).map_or(f64::INFINITY, |s| s * s / side.len() as f64);
        (variance, variance * variance / (side.len() as f64 - 1.0))
    };
    let ((variance_a, term_a), (variance_b, term_b)) = (part(&a), part(&b));
    let variance = variance_a + variance_b;
    // Two sides without any spread: as many degrees of freedom as there are.
    let df = if variance > 0.0 && variance.is_finite() {
        variance * variance / (term_a + term_b)
    } else {
        (a.len() + b.len()).saturating_sub(2) as f64
    };
    Ok(Comparison {
        log_ratio: mean(&b).zip(mean(&a)).map_or(0.0, |(b, a)| b - a),
        standard_error: variance.sqrt(),
        df,
        n: a.len().min(b.len()),
        between_processes: true,
    })
}

fn positive(value: f64, place: usize) -> Result<f64> {
    if value.is_finite() && value > 0.0 {
        return Ok(value);
    }
    let what = format!("value {place} is {value}, and only values above 0 have ratios");
    Err(Error::new(ErrorKind::Config, what).with_hint("leave invalid measurements out, and count them"))
}

impl Comparison {
    /// By how much longer the second side takes: 0.02 is 2 % slower.
    #[must_use]
    pub fn change_ratio(&self) -> f64 {
        self.log_ratio.exp_m1()
    }

    /// The 95 % interval of [`change_ratio`](Self::change_ratio). None for too few to have a spread.
    #[must_use]
    pub fn change_interval(&self) -> Option<Interval> {
        Some(self.log_interval()?.map(f64::exp_m1))
    }

    /// The 95 % interval of b/a.
    #[must_use]
    pub fn ratio_interval(&self) -> Option<Interval> {
        Some(self.log_interval()?.map(f64::exp))
    }

    fn log_interval(&self) -> Option<Interval> {
        if !self.standard_error.is_finite() {
            return None;
        }
        Some(Interval::around(self.log_ratio, t_two_sided(self.df)? * self.standard_error))
    }

    /// The verdict for a margin: 0.01 is 1 %.
    ///
    /// A true change as large as the margin is called slower in 2.5 % of cases only; one of twice the margin is found
    /// where the spread allows it.
    #[must_use]
    pub fn verdict(&self, margin: f64) -> Verdict {
        if self.between_processes && self.n < MIN_PROCESS_RUNS {
            return Verdict::Inconclusive(Inconclusive::TooFewRuns);
        }
        self.verdict_of_any_number(margin)
    }

    /// As [`verdict`](Self::verdict), with two process runs a side as well: these say what holds within the runs, not
    /// whether other runs would show it.
    #[must_use]
    pub fn verdict_of_any_number(&self, margin: f64) -> Verdict {
        let Some(Interval { low, high }) = self.change_interval() else {
            return Verdict::Inconclusive(Inconclusive::TooFewRuns);
        };
        if low > margin {
            Verdict::Slower
        } else if high < -margin {
            Verdict::Faster
        } else if -margin < low && high < margin {
            Verdict::Same
        } else {
            Verdict::Inconclusive(Inconclusive::Overlap { more: self.more_needed(margin) })
        }
    }

    /// N = (t·s_d/(δ − |d̄|))² − K, with t for the larger number, which is found by repetition.
    fn more_needed(&self, margin: f64) -> Option<u64> {
        let distance = (margin.ln_1p() - self.log_ratio.abs()).abs();
        let per_one = self.standard_error * (self.n as f64).sqrt();
        let (mut needed, df_share) = (self.n as f64, self.df / self.n as f64);
        for _ in 0..20 {
            let t = t_two_sided((needed * df_share).max(1.0))?;
            needed = (t * per_one / distance).powi(2).max(self.n as f64 + 1.0);
        }
        let more = (needed - self.n as f64).ceil();
        // CAST: from 1 to 10⁹
        (more.is_finite() && more < 1e9).then_some(more as u64)
    }

    /// Whether the interval excludes no change at all.
    #[must_use]
    pub fn direction(&self) -> Direction {
        match self.log_interval() {
            Some(Interval { low, .. }) if low > 0.0 => Direction::Slower,
            Some(Interval { high, .. }) if high < 0.0 => Direction::Faster,
            _ => Direction::Unknown,
        }
    }

    /// The one-sided p of "slower by more than the margin": of t = (d̄ − ln(1 + δ))/se. What
    /// [`benjamini_hochberg`] takes.
    #[must_use]
    pub fn p_slower(&self, margin: f64) -> Option<f64> {
        let distance = self.log_ratio - margin.ln_1p();
        if !self.standard_error.is_finite() || self.df < 1.0 {
            None
        } else if self.standard_error == 0.0 {
            Some(if distance > 0.0 { 0.0 } else { 1.0 })
        } else {
            t_survival(distance / self.standard_error, self.df)
        }
    }
}

impl Verdict {
    /// The verdict of times that has to hold in cycles as well, for clocks that were not pinned.
    #[must_use]
    pub fn confirmed_in_cycles(self, in_cycles: Self) -> Self {
        match (self, in_cycles) {
            (Self::Inconclusive(_), _) => self,
            (a, b) if a == b => a,
            _ => Self::Inconclusive(Inconclusive::Clock),
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Slower => f.write_str("SLOWER"),
            Self::Faster => f.write_str("FASTER"),
            Self::Same => f.write_str("SAME"),
            Self::Inconclusive(Inconclusive::Overlap { more: Some(more) }) => {
                write!(f, "INCONCLUSIVE (about {more} more would tell)")
            }
            Self::Inconclusive(Inconclusive::Overlap { more: None }) => f.write_str("INCONCLUSIVE"),
            Self::Inconclusive(Inconclusive::TooFewRuns) => f.write_str("INCONCLUSIVE (too few runs)"),
            Self::Inconclusive(Inconclusive::Clock) => f.write_str("INCONCLUSIVE (clock)"),
            Self::Inconclusive(Inconclusive::UnknownClock) => f.write_str("INCONCLUSIVE (clock not known)"),
            Self::Inconclusive(Inconclusive::ManyTests) => f.write_str("INCONCLUSIVE (many comparisons)"),
        }
    }
}

/// Which of many tests are positive such that at most a share `q` of the positive ones is false, on average: those with
/// the k smallest p, k the greatest number with p₍ₖ₎ ≤ kq/m (Benjamini and Hochberg 1995). In the order given.
#[must_use]
pub fn benjamini_hochberg(p: &[f64], q: f64) -> Vec<bool> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_unstable_by(|a, b| p[*a].total_cmp(&p[*b]));
    let allowed = |k: usize| (k + 1) as f64 * q / p.len() as f64;
    let positive = (0..p.len()).rev().find(|k| p[order[*k]] <= allowed(*k)).map_or(0, |last| last + 1);
    let mut is_positive = vec![false; p.len()];
    order[..positive].iter().for_each(|place| is_positive[*place] = true);
    is_positive
}

/// The geometric mean: exp of the mean of the logarithms. None without values, or where one is not above 0.
#[must_use]
pub fn geometric_mean(values: &[f64]) -> Option<f64> {
    let logs = values.iter().map(|value| (*value > 0.0).then(|| value.ln())).collect::<Option<Vec<f64>>>()?;
    mean(&logs).map(f64::exp)
}
