//! What was measured.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use super::columns::Columns;
use super::facts::{TIMES, WARNING};
use super::measured::LaunchMode;
use super::value::{Value, json_text};
use super::{reopen, text};
use crate::control::RunConditions;
use crate::error::Error;
use crate::losses::Loss;
use crate::names::StringPool;
use crate::stats::{Comparison, Description, Interval, Outlier, Outliers, StopReason};
use crate::summary::escaped::markdown_escaped;
use crate::summary::text::one_line;
use crate::table::added::{Cell, PARAMETER};
use crate::table::rows::{AggregateRow, AggregateValues, EnvRow, LossRow, MetricRow, SampleRow};
use crate::table::schema::Table;
use crate::table::writer::{CloseReport, DatasetWriter, TableSink, WriterOptions};

/// One measured value of one use of an annotation.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RunSample {
    /// Which configuration, from 0.
    pub config_index: usize,
    /// Which run of it, from 0; of counters, which are not counted in the timed runs, which counting of it.
    pub run: Option<usize>,
    /// Which run of all, in the order in which they were made; none for counters.
    pub order: Option<usize>,
    /// When the run began on the host, in nanoseconds since the Unix epoch, on the clock of the kernels' times; of counters,
    /// when counting began.
    pub start_ns: i64,
    /// Which round of the [order](super::Order) it was made in; none for counters.
    pub block: Option<usize>,
    /// The annotation.
    pub annotation: Arc<str>,
    /// Its row in `ranges` ([`Bench::output`](super::Bench::output)), whose id its kernels have in `launches`; none for
    /// counters, and where launches were not written.
    pub range_id: Option<i64>,
    /// How often the annotation was used before in the same run.
    pub repeat: usize,
    /// The kernel, where this is the time of one of them; none for the whole annotation.
    pub kernel: Option<Arc<str>>,
    /// The metric.
    pub metric: Arc<str>,
    /// Its unit.
    pub unit: Arc<str>,
    /// The value; none where it is not valid.
    pub value: Option<f64>,
    /// Whether there is a value.
    pub valid: bool,
    /// Why not: `no_kernel`, `no_selected_kernel`, `zero_timestamp`, `end_before_start`, `out_of_range`,
    /// `not_a_number`, `not_counted`, `queue_broken: …`, `failed: …`.
    pub invalid_reason: Option<Arc<str>>,
    /// How far it lies from the bulk of the values of its metric, annotation and configuration; none if it belongs to it.
    pub outlier: Option<Outlier>,
    /// Kernels in it.
    pub launches: usize,
    /// How its kernels came to the GPU; none for counters.
    pub launch_mode: Option<LaunchMode>,
    /// How long the closure of the run took on the host, in nanoseconds.
    pub wall_ns: Option<i64>,
    /// Clocks, temperature and throttling in some 50 ms around the run, or in the run if it took longer; of counters, in
    /// all passes of the counting. None without NVML.
    pub conditions: Option<RunConditions>,
}

/// The ratio to another annotation.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Normalised {
    /// The annotation that it is compared with.
    pub baseline: String,
    /// The value over that of the baseline: the geometric mean over pairs of the same run.
    pub ratio: f64,
    /// Its 95 % interval ([`stats::paired`](crate::stats::paired)); none for a single pair.
    pub interval: Option<Interval>,
    /// How many pairs.
    pub pairs: usize,
    /// The comparison that both come from; gives a [verdict](Comparison::verdict) for a margin.
    pub comparison: Comparison,
    /// The mean of the baseline's values.
    pub baseline_mean: f64,
}

/// All values of one metric, of an annotation or of one kernel in it, in one configuration.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Aggregate {
    /// Which configuration, from 0.
    pub config_index: usize,
    /// The annotation.
    pub annotation: Arc<str>,
    /// The kernel; none for the whole annotation.
    pub kernel: Option<Arc<str>>,
    /// The metric.
    pub metric: Arc<str>,
    /// Its unit.
    pub unit: Arc<str>,
    /// Samples, those that are not valid included.
    pub runs: usize,
    /// What the valid ones are like.
    pub told: Description,
    /// Half the width of the interval of the centre over the centre.
    pub achieved: Option<f64>,
    /// Why no more runs of the configuration were made.
    pub stop_reason: Option<StopReason>,
    /// Compared with the annotation that was asked for.
    pub normalised: Option<Normalised>,
}

/// The result of a [`Bench`](super::Bench): samples, and what they tell.
///
/// Prints as a table: one line for each configuration, annotation and metric, with the median and its interval, the
/// spread, and the ratio to the baseline if there is one, with the verdict for a margin of 1 %. Warnings come first. Spans
/// (`gpu_span`) are printed where [launches were held back](super::Bench::launch_ahead); all of them, the time in which
/// at least one kernel ran (`gpu_busy`), and the times of each kernel are in [`csv`](Self::csv) and in
/// [`aggregates`](Self::aggregates).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    pub(super) name: String,
    pub(super) parameters: Vec<String>,
    /// The values of these in each configuration; none where it lacks one.
    pub(super) configs: Vec<Vec<Option<Value>>>,
    pub(super) samples: Vec<RunSample>,
    pub(super) aggregates: Vec<Aggregate>,
    /// What counters counted, as rows of `metrics`.
    pub(super) counted: Vec<MetricRow>,
    pub(super) compat: Columns,
    /// What collectors gave, as facts.
    pub(super) notes: Vec<(String, String)>,
    pub(super) losses: Vec<Loss>,
    pub(super) warnings: Vec<String>,
    pub(super) facts: Vec<(String, String)>,
    pub(super) baseline: Option<String>,
    /// Share of the mean that the standard deviation of what is stable is below.
    pub(super) stable_below: f64,
    pub(super) cache_state: String,
    pub(super) clock_mode: String,
}

/// A measurement that ended early, or had no result: why, and the report of what was measured all the same.
#[derive(Debug)]
#[non_exhaustive]
pub struct BenchError {
    /// What went wrong.
    pub error: Error,
    /// What was measured.
    pub report: Box<Report>,
}

impl fmt::Display for BenchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for BenchError {}

impl From<BenchError> for Error {
    fn from(failed: BenchError) -> Self {
        failed.error
    }
}

impl Report {
    /// The report of a dataset that [`Bench::output`](super::Bench::output) or [`write`](Self::write) made. It prints the same table, gives the same Markdown and CSV, and
    /// has the same samples and aggregates, without the distances to the slow-down limit, which files do not have.
    ///
    /// # Errors
    /// [`Format`](crate::ErrorKind::Format) if the folder holds no measurement, or a part is damaged or missing;
    /// [`Io`](crate::ErrorKind::Io) if it cannot be read.
    pub fn open(folder: impl AsRef<Path>) -> crate::error::Result<Self> {
        reopen::report(folder.as_ref())
    }

    /// The samples: of each run in the order in which they were made, then counters, then what is derived.
    #[must_use]
    pub fn samples(&self) -> &[RunSample] {
        &self.samples
    }

    /// What the samples tell, by configuration, annotation, and metric; kernels come after their annotation.
    #[must_use]
    pub fn aggregates(&self) -> &[Aggregate] {
        &self.aggregates
    }

    /// The metric of a whole annotation in a configuration.
    #[must_use]
    pub fn aggregate(&self, config_index: usize, annotation: &str, metric: &str) -> Option<&Aggregate> {
        self.aggregates.iter().find(|aggregate| {
            aggregate.config_index == config_index
                && &*aggregate.annotation == annotation
                && &*aggregate.metric == metric
                && aggregate.kernel.is_none()
        })
    }

    /// What everybody should know of the measurement, a sentence each.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Records that were lost, by cause; empty if none were.
    #[must_use]
    pub fn losses(&self) -> &[Loss] {
        &self.losses
    }

    /// What was in force: settings, cache, clocks, GPU.
    #[must_use]
    pub fn facts(&self) -> &[(String, String)] {
        &self.facts
    }

    /// A configuration in words: `n=512, half=true`; empty where there is no parameter.
    #[must_use]
    pub fn config_text(&self, config_index: usize) -> String {
        let named = self.parameters_of(config_index).map(|(name, value)| format!("{name}={value}"));
        named.collect::<Vec<_>>().join(", ")
    }

    /// The parameters that a configuration has, with their names.
    fn parameters_of(&self, config_index: usize) -> impl Iterator<Item = (&str, &Value)> {
        let values = self.configs.get(config_index).into_iter().flatten();
        self.parameters.iter().zip(values).filter_map(|(name, value)| Some((name.as_str(), value.as_ref()?)))
    }

    /// The parameters of a configuration as a JSON object.
    pub(super) fn config_json(&self, config_index: usize) -> String {
        let named = self.parameters_of(config_index);
        let named = named.map(|(name, value)| format!("{}:{}", json_text(name), value.json()));
        format!("{{{}}}", named.collect::<Vec<_>>().join(","))
    }

    /// What the report prints in GitHub's Markdown: losses and warnings first, then what was in force, and the aggregates of
    /// whole annotations as a table.
    #[must_use]
    pub fn markdown(&self) -> String {
        let first = self.warned().map(|line| format!("**{}**\n\n", markdown_escaped(&line)));
        let in_force = std::iter::once(self.conditions()).chain(self.contained());
        let in_force = in_force.map(|line| format!("- {}\n", markdown_escaped(&line)));
        first.chain(in_force).collect::<String>() + "\n" + &text::markdown(&self.table())
    }

    /// What is lost, and what else has to be known: a line each.
    fn warned(&self) -> impl Iterator<Item = String> {
        let losses = self.losses.iter().map(|loss| format!("LOST: {} {}", loss.count, loss.meaning));
        losses.chain(self.warnings.iter().map(|warning| format!("note: {}", one_line(warning))))
    }

    fn conditions(&self) -> String {
        format!("{}: cache {}, clocks {}", one_line(&self.name), self.cache_state, self.clock_mode)
    }

    /// What times contain.
    fn contained(&self) -> Option<String> {
        self.facts.iter().find(|(key, _)| key == TIMES).map(|(_, contain)| format!("times: {contain}"))
    }

    /// All aggregates as CSV (RFC 4180), those of kernels, spans and busy times included, with numbers in full.
    #[must_use]
    pub fn csv(&self) -> String {
        text::csv(&text::numbers(self))
    }

    /// The aggregates in the columns, in the order and by the formulas of Nsight Python's table of processed data, so that
    /// what reads those reads this: means, 1.96 standard errors around them, and values over the baseline's mean. Columns
    /// of this crate that say more come last: the median, intervals that hold what they promise, and the state of the
    /// cache.
    ///
    /// `ComputeClock` and `MemoryClock` are the device's peak clocks in kHz, and not clocks that were measured; empty where
    /// the driver does not tell them. [`write`](Self::write) writes the same table as `compat`.
    #[must_use]
    pub fn compat_csv(&self) -> String {
        text::csv(&self.compat.texts())
    }

    fn table(&self) -> text::Table {
        text::people(self)
    }

    /// Writes a dataset of the report alone, without launches: the tables `samples` and `aggregates`, in both of which each
    /// parameter is a column `p_<name>`; `metrics`, with what counters counted; `compat`, the table of
    /// [`compat_csv`](Self::compat_csv); `env` with what was in force, and `losses`. With
    /// [`Bench::output`](super::Bench::output), all of this is written beside the launches without asking.
    ///
    /// # Errors
    /// [`OutputExists`](crate::ErrorKind::OutputExists) if something is there already, [`Io`](crate::ErrorKind::Io) if
    /// it cannot be written.
    pub fn write(&self, folder: impl AsRef<Path>) -> crate::error::Result<CloseReport> {
        let options = WriterOptions { provenance: self.facts.clone(), ..WriterOptions::default() };
        let mut writer = DatasetWriter::create(folder.as_ref(), options)?;
        for Loss { cause, count, meaning } in self.losses.iter().copied() {
            writer.loss(&LossRow { cause, count, meaning });
        }
        self.add_to(writer, false)
    }

    /// Adds the tables to a dataset that has the losses already, and closes it. Whether it has the samples' ranges, too.
    pub(super) fn add_to(
        &self,
        mut writer: DatasetWriter,
        has_ranges: bool,
    ) -> crate::error::Result<CloseReport> {
        writer.must_have([Table::Samples, Table::Aggregates, Table::Compat]);
        let mut texts = StringPool::default();
        let parameters = Columns::of_parameters(&self.parameters, &self.configs);
        writer.add_parameters(&parameters.added(PARAMETER, |name| format!("The parameter {name}.")));
        let cells: Vec<Arc<[Option<Cell>]>> = parameters.cells().map(Into::into).collect();
        let cells_of = |config: usize| cells.get(config).cloned().unwrap_or_default();
        for sample in &self.samples {
            let cells = cells_of(sample.config_index);
            let range_id = sample.range_id.filter(|_| has_ranges);
            writer.sample(&SampleRow { cells, range_id, ..self.sample_row(sample, &mut texts) });
        }
        for aggregate in &self.aggregates {
            let cells = cells_of(aggregate.config_index);
            writer.aggregate(&AggregateRow { cells, ..self.aggregate_row(aggregate, &mut texts) });
        }
        self.counted.iter().for_each(|row| writer.metric(row));
        let columns = self.compat.added("", |name| format!("The column {name} of Nsight Python."));
        writer.compat(&columns, &self.compat.cells().collect::<Vec<_>>());
        let warnings = self.warnings.iter().enumerate();
        let warnings = warnings.map(|(index, warning)| (format!("{WARNING}{index}"), warning.clone()));
        for (key, value) in self.facts.iter().chain(&self.notes).cloned().chain(warnings) {
            writer.env(&EnvRow { key, value });
        }
        let mut report = writer.close();
        match report.first_error.take() {
            Some(error) => Err(error),
            None => Ok(report),
        }
    }

    fn sample_row(&self, sample: &RunSample, texts: &mut StringPool) -> SampleRow {
        let conditions = sample.conditions.unwrap_or_default();
        SampleRow {
            config: texts.intern(&self.config_text(sample.config_index)),
            config_index: signed(sample.config_index),
            parameters: texts.intern(&self.config_json(sample.config_index)),
            run: sample.run.map(signed),
            order: sample.order.map(signed),
            start_ns: sample.start_ns,
            block: sample.block.map(signed),
            annotation: Arc::clone(&sample.annotation),
            range_id: sample.range_id,
            repeat: signed(sample.repeat),
            kernel: sample.kernel.clone(),
            metric: Arc::clone(&sample.metric),
            unit: Arc::clone(&sample.unit),
            value: sample.value,
            invalid_reason: sample.invalid_reason.clone(),
            outlier: sample.outlier.map(Outlier::as_str),
            n_launches: signed(sample.launches),
            launch_mode: sample.launch_mode.map(LaunchMode::as_str),
            wall_ns: sample.wall_ns,
            cache_state: texts.intern(&self.cache_state),
            clock_mode: texts.intern(&self.clock_mode),
            sm_clock_mhz: conditions.sm_clock_mhz,
            memory_clock_mhz: conditions.memory_clock_mhz,
            temperature_c: conditions.temperature_c.map(i64::from),
            thermal_margin_c: conditions.thermal_margin_c.map(i64::from),
            power_mw: conditions.power_mw,
            throttle: conditions.throttle.map(|reasons| texts.intern(&reasons.to_string())),
            power_throttled_ns: conditions.power_throttled_ns.map(|ns| i64::try_from(ns).unwrap_or(i64::MAX)),
            thermal_throttled_ns: conditions
                .thermal_throttled_ns
                .map(|ns| i64::try_from(ns).unwrap_or(i64::MAX)),
            cells: Arc::default(),
        }
    }

    fn aggregate_row(&self, aggregate: &Aggregate, texts: &mut StringPool) -> AggregateRow {
        AggregateRow {
            config: texts.intern(&self.config_text(aggregate.config_index)),
            config_index: signed(aggregate.config_index),
            parameters: texts.intern(&self.config_json(aggregate.config_index)),
            annotation: Arc::clone(&aggregate.annotation),
            kernel: aggregate.kernel.clone(),
            metric: Arc::clone(&aggregate.metric),
            unit: Arc::clone(&aggregate.unit),
            n: signed(aggregate.runs),
            told: values(aggregate, self.stable_below),
            stop_reason: aggregate.stop_reason.map(StopReason::as_str),
            normalized_against: aggregate
                .normalised
                .as_ref()
                .map(|normalised| texts.intern(&normalised.baseline)),
            cells: Arc::default(),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.warned().try_for_each(|line| writeln!(f, "{line}"))?;
        writeln!(f, "{}", self.conditions())?;
        f.write_str(&text::terminal(&self.table()))?;
        self.contained().map_or(Ok(()), |line| writeln!(f, "{line}"))
    }
}

/// The numbers of an aggregate, as the table has them.
fn values(aggregate: &Aggregate, stable_below: f64) -> AggregateValues {
    let told = &aggregate.told;
    let ends = |interval: Option<Interval>| [interval.map(|ends| ends.low), interval.map(|ends| ends.high)];
    let modes = told.modes.map_or([None; 3], |modes| [modes.low, modes.high, modes.high_weight].map(Some));
    let Outliers { low_severe, low_mild, high_mild, high_severe, .. } = told.outliers;
    AggregateValues {
        n_valid: signed(told.n),
        n_eff: (told.n > 0).then_some(told.n_eff),
        tick: (told.tick > 0.0).then_some(told.tick),
        ties_ratio: told.ties_ratio,
        mean: told.mean,
        mean_interval: ends(told.mean_interval),
        std_dev: told.std_dev,
        cv: told.cv,
        is_stable: told.is_stable_below(stable_below),
        min: told.min,
        max: told.max,
        quantiles: told.quantiles.map_or([None; 7], |quantiles| quantiles.map(Some)),
        median_interval: ends(told.median_interval),
        harrell_davis_p50: told.harrell_davis_p50,
        harrell_davis_p99: told.harrell_davis_p99,
        mad: told.mad,
        robust_cv: told.robust_cv,
        is_resolution_limited: told.is_resolution_limited,
        fenced_mean: told.fenced_mean.map(|fenced| fenced.mean),
        fenced_mean_interval: ends(told.fenced_mean_interval),
        n_fenced_out: signed(told.fenced_mean.map_or(0, |fenced| fenced.left_out)),
        outliers: [low_severe, low_mild, high_mild, high_severe].map(signed),
        lag1_autocorrelation: told.lag1_autocorrelation,
        drift_ratio: told.drift.map(|drift| drift.change_ratio),
        drift_p: told.drift.map(|drift| drift.p),
        modes,
        achieved_precision: aggregate.achieved,
        ratio: aggregate.normalised.as_ref().map(|normalised| normalised.ratio),
        ratio_interval: ends(aggregate.normalised.as_ref().and_then(|normalised| normalised.interval)),
    }
}

pub(super) fn signed(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
