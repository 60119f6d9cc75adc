//! What a session counted.

use std::path::Path;
use std::sync::Arc;

use super::controlled::L2Residual;
use super::plan::{MissingMetric, Plan, PlannedMetric};
use super::timings::Timings;
use crate::control::{CacheReport, RunConditions};
use crate::cupti::host::Host;
use crate::cupti::params::{Image, Names};
use crate::error::{Error, ErrorKind, Result};
use crate::names::StringPool;
use crate::table::rows::{EnvRow, KernelName, MetricRow};
use crate::table::writer::{CloseReport, DatasetWriter, TableSink, WriterOptions};

/// Who repeats the work for each pass, and what a range is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Replay {
    /// The program's code runs once for each pass, and opens the ranges: [`Session::run`](super::Session::run).
    User,
    /// CUPTI repeats each kernel, which is a range of its own: [`Session::run_kernels`](super::Session::run_kernels).
    Kernel,
}

impl Replay {
    pub(super) fn range_mode(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Kernel => "auto",
        }
    }

    pub(super) fn replay_mode(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Kernel => "kernel",
        }
    }
}

/// Why a metric has no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NullReason {
    /// The plan has no such metric: see [`Plan::missing`].
    NotOnChip,
    /// The counters gave no number: what it is made of did not occur, or the product or a MIG instance lacks it.
    NotANumber,
    /// CUPTI refused to evaluate it.
    NotEvaluated,
    /// The counter data has nothing of this range.
    NoData,
}

impl NullReason {
    /// The reason as the column `null_reason` has it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotOnChip => "not_on_chip",
            Self::NotANumber => "not_a_number",
            Self::NotEvaluated => "not_evaluated",
            Self::NoData => "no_data",
        }
    }
}

/// A counted range: of the program, or one kernel.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CountedRange {
    /// Names of the range and those around it, joined by `/`. Of a kernel: of the ranges that it was launched in; none
    /// outside every range.
    pub path: Option<String>,
    /// How deep it lies in other ranges of the session, from 1.
    pub level: u16,
    /// The kernel for people, where each kernel is counted by itself; none if it is not known, see
    /// [`Counted::kernels_known`].
    pub kernel: Option<String>,
    /// The kernel as its module has it.
    pub kernel_mangled: Option<String>,
    pub(super) values: Vec<Result<f64, NullReason>>,
}

/// One metric of one range.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Row<'a> {
    /// The range.
    pub range: &'a CountedRange,
    /// Its number in the session, from 0.
    pub range_index: usize,
    /// The metric, by the name that the chip has for it; one that is missing, by the name that was asked for.
    pub metric: &'a str,
    /// The unit; empty for one that is missing.
    pub unit: &'a str,
    /// The value; none never means zero.
    pub value: Option<f64>,
    /// Why there is no value.
    pub null_reason: Option<NullReason>,
    /// Passes that the set of metrics took.
    pub passes: usize,
    /// How the work was repeated.
    pub replay: Replay,
}

/// The values of a session's metrics, for each range.
#[derive(Debug)]
#[non_exhaustive]
pub struct Counted {
    /// The plan as it was carried out: a device may lack what its chip has.
    pub plan: Plan,
    /// The ranges in the order in which they began.
    pub ranges: Vec<CountedRange>,
    /// How the work was repeated.
    pub replay: Replay,
    /// How often the work ran: passes by nesting levels. One where CUPTI repeats the kernels.
    pub rounds: usize,
    /// Clocks, temperature and what held the clocks down, in each round; where CUPTI repeats the kernels, in all passes
    /// together. Empty without NVML. In files: the facts `counters.pass.N` of `env`.
    pub conditions: Vec<RunConditions>,
    /// How long it took, step by step.
    pub timings: Timings,
    /// What the [cache control](super::Session::cache) did; none where nothing was to be done, or by CUPTI.
    pub cache: Option<CacheReport>,
    /// What it leaves in the cache, where that [was verified](super::Session::verify_cache).
    pub residual: Option<L2Residual>,
    /// Whether each range that is one kernel has its kernel's name. Not so where graphs were launched, or kernels were
    /// launched from the device: then there are more kernels than launching calls.
    pub kernels_known: bool,
    /// The device that was counted on, by its number in this process.
    pub device: u32,
    /// Its product name.
    pub device_name: String,
    pub(super) cache_state: String,
    pub(super) clock_mode: String,
    pub(super) facts: Vec<(String, String)>,
}

impl Counted {
    /// One row for each range and metric, ranges in their order and metrics in the plan's; missing metrics come last.
    pub fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        let (passes, replay) = (self.plan.passes(), self.replay);
        self.ranges.iter().enumerate().flat_map(move |(range_index, range)| {
            let planned = self.plan.metrics().iter().zip(&range.values);
            let planned = planned.map(move |(PlannedMetric { metric, .. }, value)| Row {
                range,
                range_index,
                metric: &metric.name,
                unit: &metric.unit,
                value: value.ok(),
                null_reason: value.err(),
                passes,
                replay,
            });
            let missing = self.plan.missing().iter().map(move |MissingMetric { name, .. }| Row {
                range,
                range_index,
                metric: name,
                unit: "",
                value: None,
                null_reason: Some(NullReason::NotOnChip),
                passes,
                replay,
            });
            planned.chain(missing)
        })
    }

    /// The value of a metric, by the name that was asked for or the chip's, in the first range with this path; of a
    /// kernel, by its name. None where there is none; [`rows`](Self::rows) says why.
    #[must_use]
    pub fn value(&self, range: &str, metric: &str) -> Option<f64> {
        let range = self.find(range)?;
        let is_it = |planned: &PlannedMetric| planned.metric.name == metric || planned.asked == metric;
        let index = self.plan.metrics().iter().position(is_it)?;
        range.values.get(index)?.ok()
    }

    fn find(&self, range: &str) -> Option<&CountedRange> {
        let named = |name: &Option<String>| name.as_deref() == Some(range);
        self.ranges.iter().find(|known| match self.replay {
            Replay::User => named(&known.path),
            Replay::Kernel => named(&known.kernel) || named(&known.kernel_mangled),
        })
    }

    /// An error that names the ranges that there are, unless this is one.
    pub(super) fn must_have(&self, range: &str) -> Result<()> {
        if self.find(range).is_some() {
            return Ok(());
        }
        let names = self.ranges.iter().filter_map(|known| match self.replay {
            Replay::User => known.path.as_deref(),
            Replay::Kernel => known.kernel.as_deref(),
        });
        let names: Vec<_> = names.take(8).collect();
        let error = Error::new(ErrorKind::Config, format!("no range {range:?} was counted"));
        Err(error.with_hint(format!("there are {} ranges: {}, …", self.ranges.len(), names.join(", "))))
    }

    /// Writes a dataset with the table `metrics`, and `env` with what was in force.
    ///
    /// # Errors
    /// [`OutputExists`](crate::ErrorKind::OutputExists) if something is there already, [`Io`](crate::ErrorKind::Io) if
    /// it cannot be written.
    pub fn write(&self, folder: impl AsRef<Path>) -> Result<CloseReport> {
        let mut facts = vec![
            ("cuprof.version".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
            ("cupti.version".to_owned(), self.plan.catalogue().cupti_version()),
            ("cupti.path".to_owned(), self.plan.catalogue().cupti_path().display().to_string()),
        ];
        facts.extend(self.facts.iter().cloned());
        let options = WriterOptions {
            tables: vec![crate::table::schema::Table::Metrics],
            provenance: facts.clone(),
            ..WriterOptions::default()
        };
        let mut writer = DatasetWriter::create(folder.as_ref(), options)?;
        self.metric_rows().iter().for_each(|row| writer.metric(row));
        facts.into_iter().for_each(|(key, value)| writer.env(&EnvRow { key, value }));
        let mut report = writer.close();
        match report.first_error.take() {
            Some(error) => Err(error),
            None => Ok(report),
        }
    }

    /// The rows of `metrics`.
    pub(crate) fn metric_rows(&self) -> Vec<MetricRow> {
        let mut texts = StringPool::default();
        let asked: Vec<_> = self.plan.metrics().iter().map(|planned| planned.asked.as_str()).collect();
        let per_range = asked.len() + self.plan.missing().len();
        let row = |(at, row): (usize, Row<'_>)| {
            let asked = asked.get(at % per_range.max(1)).copied().unwrap_or(row.metric);
            let kernel = row.range.kernel.as_deref().zip(row.range.kernel_mangled.as_deref());
            let kernel = kernel.map(|(demangled, mangled)| {
                Arc::new(KernelName { mangled: texts.intern(mangled), demangled: texts.intern(demangled) })
            });
            MetricRow {
                range_path: row.range.path.as_deref().map(|path| texts.intern(path)),
                range_index: i64::try_from(row.range_index).unwrap_or(i64::MAX),
                nesting_level: row.range.level,
                kernel,
                metric: texts.intern(row.metric),
                asked: texts.intern(asked),
                value: row.value,
                null_reason: row.null_reason.map(|reason| texts.intern(reason.as_str())),
                unit: texts.intern(row.unit),
                passes: u32::try_from(row.passes).unwrap_or(u32::MAX),
                range_mode: texts.intern(row.replay.range_mode()),
                replay_mode: texts.intern(row.replay.replay_mode()),
                cache_state: texts.intern(&self.cache_state),
                clock_mode: texts.intern(&self.clock_mode),
                chip: texts.intern(self.plan.chip()),
                device: self.device,
                config: None,
                config_index: None,
                run: None,
            }
        };
        self.rows().enumerate().map(row).collect()
    }
}

/// The values of all metrics in one range of the counter data.
pub(super) fn evaluate(
    host: &Host,
    data: &Image,
    range: usize,
    plan: &Plan,
) -> Result<Vec<Result<f64, NullReason>>> {
    let number = |value: f64| if value.is_finite() { Ok(value) } else { Err(NullReason::NotANumber) };
    if let Ok(values) = host.evaluate(data, range, &Names::new(plan.names())?) {
        return Ok(values.into_iter().map(number).collect());
    }
    // One of them spoils the call for all.
    let mut values = Vec::new();
    for name in plan.names() {
        let value = host.evaluate(data, range, &Names::new([name])?);
        values.push(match value.as_deref() {
            Ok([value]) => number(*value),
            _ => Err(NullReason::NotEvaluated),
        });
    }
    Ok(values)
}
