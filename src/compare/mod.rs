//! Two sides compared: slower, faster, the same, or not known; and what has to hold for such a verdict.
//!
//! A side is a [`Collection`]: the datasets of several process runs, best five or more. What is compared is the time of
//! each annotation in each configuration (table `samples`), or of each kernel in each range where there are no samples
//! (table `launches`). The command `cuprof compare` (feature `cli`) is a thin front of it.
//!
//! # How a verdict comes about
//!
//! 1. **Rows.** A row of one side is compared with the row of the other that has the same [`JoinKey`]s. One without such a
//!    counterpart is incomparable, and the key says why. A key that is [allowed](Rules::allow) to differ is recorded.
//! 2. **Block values.** The runs of a row in one process run are divided into blocks of about
//!    [25](DEFAULT_BLOCK_RUNS) that followed each other. A block's value is their
//!    [fenced mean](crate::stats::Sample::fenced_mean), which resolves less than a tick of the GPU's clock.
//! 3. **Between processes.** A process run has one value: the geometric mean of its blocks. Both sides' values are compared
//!    by [Welch's test](crate::stats::welch) of their logarithms, since what differs from one start of a process to the next is
//!    mostly more than what differs within. A side with fewer than three is inconclusive.
//! 4. **Within one process.** Two annotations of the same runs ([`Rules::compare_annotations`]) are compared by
//!    [pairs](crate::stats::paired) of blocks, which had the same conditions.
//! 5. **The margin.** [SLOWER](Verdict::Slower) if the whole 95 % interval is above the margin (1 % by default),
//!    [FASTER](Verdict::Faster) if it is below, [SAME](Verdict::Same) if it is inside, else
//!    [INCONCLUSIVE](Verdict::Inconclusive), with about how many more process runs would tell.
//! 6. **Clocks.** Unless they were pinned, the verdict has to hold in cycles as well. Where nobody knows the clock, as in
//!    a trace, there is no verdict, unless that is [allowed](Rules::allow_unknown_clock).
//! 7. **Kernels.** Where an annotation launched other kernels on one side, or another number of them, that is a note
//!    beside the verdict. Kernels are told apart by name: code that changed under the same name is not noticed.
//! 8. **Many rows.** Before any row counts as slower, [Benjamini and Hochberg's](crate::stats::benjamini_hochberg) rule is
//!    applied to all that were tested.

mod compared;
#[cfg(feature = "analysis")]
mod json;
mod judge;
mod junit;
mod key;
mod markdown;
mod measured;
mod pairing;
mod self_test;
#[cfg(test)]
mod tests;
mod text;

use std::collections::BTreeSet;
use std::sync::Arc;

use compared::Sides;
use judge::Design;
use measured::{AllMeasured, Source, metrics, read};

use crate::error::{Error, ErrorKind, Result};
#[cfg(doc)]
use crate::stats::Verdict;
use crate::stats::{DEFAULT_FALSE_DISCOVERY_RATE, DEFAULT_MARGIN};

pub use crate::table::collection::{Collection, LostRows, Member};
pub use compared::{Compared, FailOn, Outcome, Row, Side, SideValues};
pub use key::{JoinKey, Key, Mismatch};
pub use self_test::{MAX_ALARMS, SPLITS, SelfTest, SelfTested};

/// Runs of a block, by default.
pub const DEFAULT_BLOCK_RUNS: usize = 25;

/// The metric that is compared, by default: the sum of the durations of an annotation's kernels.
pub const DEFAULT_METRIC: &str = "gpu__time_duration.sum";

/// What is compared, and what is asked of it.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let recording = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/recordings/quickstart.cuprofrec");
/// # let folder = tempfile::tempdir()?;
/// # let (before, after) = (folder.path().join("before.cuprof"), folder.path().join("after.cuprof"));
/// # cuprof::Replay::open(recording)?.output(&before).run()?;
/// # cuprof::Replay::open(recording)?.output(&after).run()?;
/// use cuprof::compare::{Collection, FailOn, Rules};
///
/// // One process run a side tells nothing about other process runs.
/// let compared = Rules::default().compare(&Collection::open([before])?, &Collection::open([after])?)?;
/// assert_eq!(compared.exit_code(FailOn::Inconclusive, false), 2);
/// print!("{compared}");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Rules {
    /// Differences up to this share do not matter. Default: [`DEFAULT_MARGIN`], 1 %.
    pub margin: f64,
    /// The share of false ones that may be among what is called slower. Default: [`DEFAULT_FALSE_DISCOVERY_RATE`].
    pub false_discovery_rate: f64,
    /// Runs of a block. Default: [`DEFAULT_BLOCK_RUNS`].
    pub block_runs: usize,
    /// The metric of samples that is compared; in nanoseconds. Default: [`DEFAULT_METRIC`].
    pub metric: String,
    /// Whether each kernel of an annotation is compared as well. Of traces, kernels always are.
    pub kernels: bool,
    /// Keys that may differ. Where it is one of what is measured (bench, config, region, kernel), rows without a
    /// counterpart are left out; those that are left on both sides, one each, are compared.
    pub allow: Vec<JoinKey>,
    /// Gives verdicts on fewer than three process runs a side, and lets a [`SelfTest`] split the blocks of fewer than six;
    /// these hold within the runs only.
    pub allow_single_run: bool,
    /// Gives verdicts on times alone where clocks were neither pinned nor recorded.
    pub allow_unknown_clock: bool,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            margin: DEFAULT_MARGIN,
            false_discovery_rate: DEFAULT_FALSE_DISCOVERY_RATE,
            block_runs: DEFAULT_BLOCK_RUNS,
            metric: DEFAULT_METRIC.to_owned(),
            kernels: false,
            allow: Vec::new(),
            allow_single_run: false,
            allow_unknown_clock: false,
        }
    }
}

impl Rules {
    /// Compares two sides of several process runs each: how much longer `new` takes than `base`. Reads the samples, or the
    /// launches where a side has no samples, on all processors, and keeps 32 bytes of each until the end.
    ///
    /// # Errors
    /// `Io` or `Format` if a file cannot be read; `Config` for a rule that makes no sense, or a metric that is not there
    /// or no time.
    pub fn compare(&self, base: &Collection, new: &Collection) -> Result<Compared> {
        self.check()?;
        let (of_base, of_new) = (Source::of(base), Source::of(new));
        let source = match (of_base, of_new) {
            (Source::Nothing, source) | (source, Source::Nothing) => source,
            (a, b) if a == b => a,
            _ => Source::Launches,
        };
        let (of_base, of_new) = (read(base, source, self)?, read(new, source, self)?);
        if source == Source::Samples && of_base.rows.is_empty() && of_new.rows.is_empty() {
            return Err(self.no_such_metric(&[base, new])?);
        }
        let (base, new) = (Side::of(base, of_base.copies), Side::of(new, of_new.copies));
        Compared::of(self, Sides { base, new, design: Design::Apart }, of_base.rows, of_new.rows)
    }

    /// Compares two annotations that were measured in the same runs, such as `a` and `b` of a
    /// [`Bench`](crate::Bench) whose runs measure both, in turns `a b`, `b a`.
    ///
    /// # Errors
    /// As [`compare`](Self::compare); `Config` if there are no samples of one of them.
    pub fn compare_annotations(&self, collection: &Collection, base: &str, new: &str) -> Result<Compared> {
        self.check()?;
        if Source::of(collection) != Source::Samples {
            let what = "annotations are compared by their samples, and there are none";
            return Err(Error::new(ErrorKind::Config, what)
                .with_hint("datasets with samples are written by bench::Report::write"));
        }
        let AllMeasured { rows: all, copies } = read(collection, Source::Samples, self)?;
        if all.is_empty() {
            return Err(self.no_such_metric(&[collection])?);
        }
        let side = |name: &str| {
            let of = all.iter().filter(|row| row.key.get(JoinKey::Region) == Some(name));
            let mut rows: Vec<_> = of.cloned().collect();
            let region: Arc<str> = format!("{base} -> {new}").into();
            rows.iter_mut().for_each(|row| row.key.set(JoinKey::Region, Some(region.clone())));
            if !rows.is_empty() {
                return Ok(rows);
            }
            let mut names: Vec<&str> = all.iter().filter_map(|row| row.key.get(JoinKey::Region)).collect();
            names.sort_unstable();
            names.dedup();
            Err(Error::new(ErrorKind::Config, format!("there is no annotation {name:?}"))
                .with_hint(format!("there are {}", names.join(", "))))
        };
        let told = |name: &str| {
            let side = Side::of(collection, copies);
            Side { label: format!("{name} in {}", side.label), ..side }
        };
        let sides = Sides { base: told(base), new: told(new), design: Design::Interleaved };
        Compared::of(self, sides, side(base)?, side(new)?)
    }

    /// Compares a side with itself: how often would random halves of its process runs, six or more, be called slower or
    /// faster?
    ///
    /// # Errors
    /// As [`compare`](Self::compare).
    pub fn self_test(&self, collection: &Collection) -> Result<SelfTest> {
        self.check()?;
        let all = read(collection, Source::of(collection), self)?;
        SelfTest::of(self, Side::of(collection, all.copies), &all.rows)
    }

    fn no_such_metric(&self, sides: &[&Collection]) -> Result<Error> {
        let metrics = sides.iter().map(|side| metrics(side)).collect::<Result<Vec<_>>>()?;
        let metrics: BTreeSet<&str> = metrics.iter().flatten().map(|metric| &**metric).collect();
        let metrics = metrics.into_iter().collect::<Vec<_>>().join(", ");
        let what = format!("no sample is of the metric {:?}", self.metric);
        Ok(Error::new(ErrorKind::Config, what).with_hint(format!("there are {metrics}")))
    }

    fn check(&self) -> Result<()> {
        let wrong = |what: String| Err(Error::new(ErrorKind::Config, what));
        if !(self.margin > 0.0 && self.margin < 1.0) {
            return wrong(format!("a margin of {} is not between 0 and 1", self.margin));
        }
        if !(self.false_discovery_rate > 0.0 && self.false_discovery_rate < 1.0) {
            return wrong(format!(
                "a false discovery rate of {} is not between 0 and 1",
                self.false_discovery_rate
            ));
        }
        if self.block_runs == 0 {
            return wrong("a block has at least one run".to_owned());
        }
        Ok(())
    }
}
