//! When enough has been measured.

use std::fmt;
use std::time::Duration;

use super::interval::{fenced_mean_interval, median_interval, median_interval_correlated};
use super::sample::Sample;
use super::series::{drift, effective_n};
use crate::error::Result;

/// Half the width of the interval, as a share of its centre, that [`Precision`] aims at by default: 0.25 %.
pub const DEFAULT_TARGET: f64 = 0.0025;

/// How many runs [`Precision`] makes at most, by default.
pub const DEFAULT_MAX_RUNS: usize = 5_120;

/// How long [`Precision`] measures one configuration at most, by default.
pub const DEFAULT_MAX_TIME: Duration = Duration::from_secs(1);

/// [`Precision`] looks after this many valid runs, and whenever their number has doubled.
pub const FIRST_LOOK: usize = 20;

/// More invalid runs than this share end a measurement by [`Precision`].
pub const MAX_INVALID_SHARE: f64 = 0.2;

/// Where this share of the values is one and the same, the clock's resolution decides.
const TIED: f64 = 0.95;

/// When to stop measuring a configuration.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum StopRule {
    /// After so many runs.
    Fixed(usize),
    /// When the interval is narrow enough, or cannot become so.
    Precision(Precision),
    /// When so much time has passed; one run is made in any case.
    TimeBudget(Duration),
}

/// How narrow the interval of the centre has to be, and what that may take.
///
/// It looks at 20, 40, 80, … valid runs: looks that far apart cost no coverage. The centre is the median; where
/// the target is below half a tick of it, which a median cannot resolve, it is the fenced mean.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Precision {
    /// Half the width of the 95 % interval over its centre.
    pub target: f64,
    /// Runs at most.
    pub max_runs: usize,
    /// Time at most.
    pub max_time: Duration,
}

impl Default for Precision {
    fn default() -> Self {
        Self { target: DEFAULT_TARGET, max_runs: DEFAULT_MAX_RUNS, max_time: DEFAULT_MAX_TIME }
    }
}

/// What a [`StopRule`] looks at.
#[derive(Clone, Copy, Debug)]
pub struct Looked<'a> {
    /// Values of the valid runs, in their order.
    pub values: &'a [f64],
    /// Runs made, the invalid ones included.
    pub runs: usize,
    /// Time since the first of them began.
    pub elapsed: Duration,
    /// Resolution of the values, in their unit; 0 for none.
    pub tick: f64,
}

/// That it is enough, and why.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Stopped {
    /// Why.
    pub reason: StopReason,
    /// The precision that was reached, not the one that was wished for: half the width of the interval over its
    /// centre. None where there is no interval.
    pub achieved: Option<f64>,
}

/// Why a measurement was ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StopReason {
    /// The runs asked for were made.
    RunsMade,
    /// The interval is as narrow as asked for, and there is no drift.
    PrecisionReached,
    /// All values are the same but for the clock's resolution, which is coarser than what was asked for.
    ResolutionLimited,
    /// The most runs allowed were made.
    MaxRuns,
    /// The time allowed is over.
    MaxTime,
    /// More than 20 % of the runs were invalid.
    TooManyInvalid,
    /// At this spread, the precision would take more runs or time than is allowed.
    OutOfReach,
    /// A run failed, and failures were to end it.
    Failed,
}

impl StopReason {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::RunsMade,
        Self::PrecisionReached,
        Self::ResolutionLimited,
        Self::MaxRuns,
        Self::MaxTime,
        Self::TooManyInvalid,
        Self::OutOfReach,
        Self::Failed,
    ];

    /// In one word, as tables have it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::RunsMade => "runs_made",
            Self::PrecisionReached => "precision_reached",
            Self::ResolutionLimited => "resolution_limited",
            Self::MaxRuns => "max_runs",
            Self::MaxTime => "max_time",
            Self::TooManyInvalid => "too_many_invalid",
            Self::OutOfReach => "out_of_reach",
            Self::Failed => "failed",
        }
    }
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl StopRule {
    /// Whether to stop now; none to go on.
    ///
    /// # Errors
    /// As [`Sample::new`].
    pub fn look(&self, looked: Looked<'_>) -> Result<Option<Stopped>> {
        let reason = match self {
            Self::Fixed(runs) => (looked.runs >= *runs).then_some(StopReason::RunsMade),
            Self::TimeBudget(time) => {
                (looked.runs > 0 && looked.elapsed >= *time).then_some(StopReason::MaxTime)
            }
            Self::Precision(precision) => return precision.look(looked),
        };
        let Some(reason) = reason else { return Ok(None) };
        let achieved = achieved_precision(&Sample::new(looked.values)?, looked.tick);
        Ok(Some(Stopped { reason, achieved }))
    }

    /// How many runs this makes at most, where that is known beforehand.
    #[must_use]
    pub fn max_runs(&self) -> Option<usize> {
        match self {
            Self::Fixed(runs) => Some(*runs),
            Self::Precision(precision) => Some(precision.max_runs),
            Self::TimeBudget(_) => None,
        }
    }
}

impl Precision {
    fn look(&self, looked: Looked<'_>) -> Result<Option<Stopped>> {
        let Looked { values, runs, elapsed, tick } = looked;
        let limit = if runs >= FIRST_LOOK
            && (runs.saturating_sub(values.len()) as f64) > MAX_INVALID_SHARE * runs as f64
        {
            Some(StopReason::TooManyInvalid)
        } else if runs >= self.max_runs {
            Some(StopReason::MaxRuns)
        } else if runs > 0 && elapsed >= self.max_time {
            Some(StopReason::MaxTime)
        } else {
            None
        };
        if limit.is_none() && !is_look(values.len()) {
            return Ok(None);
        }
        let sample = Sample::new(values)?;
        let reached = Reached::of(&sample, tick, self.target);
        let achieved = reached.map(|reached| reached.precision);
        let stopped = |reason| Ok(Some(Stopped { reason, achieved }));
        let looked_at = reached.filter(|_| is_look(values.len()));
        if let Some(reached) = looked_at {
            if reached.precision <= self.target {
                if !drift(&sample).is_some_and(|drift| drift.exceeds(self.target)) {
                    return stopped(StopReason::PrecisionReached);
                }
            } else if reached.is_tied {
                return stopped(StopReason::ResolutionLimited);
            } else if limit.is_none() && self.is_out_of_reach(reached.precision, looked) {
                return stopped(StopReason::OutOfReach);
            }
        }
        limit.map_or(Ok(None), stopped)
    }

    /// n·(h/goal)² runs would be needed.
    fn is_out_of_reach(&self, precision: f64, looked: Looked<'_>) -> bool {
        let factor = (precision / self.target).powi(2);
        let time = looked.elapsed.as_secs_f64() * factor;
        looked.runs as f64 * factor > self.max_runs as f64 || time > self.max_time.as_secs_f64()
    }
}

fn is_look(n: usize) -> bool {
    n >= FIRST_LOOK && n.is_multiple_of(FIRST_LOOK) && (n / FIRST_LOOK).is_power_of_two()
}

/// How precisely the centre of values is known: half the width of its 95 % interval over the centre. None where there
/// is no interval, as for fewer than six values. For values with a resolution `tick` (0 for none), never less than half
/// of it where nearly all values are the same.
#[must_use]
pub fn achieved_precision(sample: &Sample, tick: f64) -> Option<f64> {
    Reached::of(sample, tick, DEFAULT_TARGET).map(|reached| reached.precision)
}

/// How precisely the centre is known.
#[derive(Clone, Copy)]
struct Reached {
    precision: f64,
    is_tied: bool,
}

impl Reached {
    fn of(sample: &Sample, tick: f64, target: f64) -> Option<Self> {
        let median = sample.median()?;
        let n_eff = effective_n(sample);
        let (centre, interval) = if tick > 0.0 && target * median.abs() < tick / 2.0 {
            (sample.fenced_mean(tick)?.mean, fenced_mean_interval(sample, tick, n_eff))
        } else if n_eff < sample.n() as f64 {
            (median, median_interval_correlated(sample, n_eff))
        } else {
            (median, median_interval(sample))
        };
        let is_tied = sample.ties_ratio()? >= TIED;
        let mut half_width = interval?.half_width();
        if is_tied {
            half_width = half_width.max(tick / 2.0);
        }
        let precision = half_width / centre.abs();
        precision.is_finite().then_some(Self { precision, is_tied })
    }
}
