//! Datasets of measurements and of counters that never were: their values are the test's.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use crate::error::Result;
use crate::stats::{Interval, Sample, describe, paired};
use crate::table::rows::{AggregateRow, AggregateValues, EnvRow, MetricRow, SampleRow};
use crate::table::schema::Table;
use crate::table::writer::{DatasetWriter, TableSink, WriterOptions};

/// The values of one metric of one annotation in one configuration: run by run, none where the run failed.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// The parameters of the configuration, by name, each as JSON.
    pub parameters: Vec<(String, String)>,
    /// The annotation.
    pub annotation: String,
    /// The metric, and its unit.
    pub metric: (String, String),
    /// One for each run.
    pub values: Vec<Option<f64>>,
}

/// When the first run begins; each takes a millisecond.
const START_NS: i64 = 1_790_000_000_000_000_000;
const RUN_NS: i64 = 1_000_000;

/// Writes them as a measurement does: `samples`, with clocks and temperature that change from run to run and are not
/// known of each seventh; `aggregates`, with ratios to the annotation that is the baseline; and these facts.
///
/// What has the same parameters is of one configuration; they are numbered as they come first.
///
/// # Errors
/// Where the dataset cannot be written.
pub fn write_measured(
    folder: &Path,
    measured: &[Measured],
    baseline: Option<&str>,
    facts: &[(&str, &str)],
) -> Result<()> {
    write(folder, vec![Table::Samples, Table::Aggregates], facts, |writer| {
        samples(writer, measured, baseline).map(drop)
    })
}

/// Metrics of ranges: the path of each, and its metrics with their values.
pub type CountedRanges<'a> = [(&'a str, &'a [(&'a str, f64)])];

/// Writes metrics of ranges, as counters do.
///
/// # Errors
/// Where the dataset cannot be written.
pub fn write_counted(folder: &Path, ranges: &CountedRanges<'_>, facts: &[(&str, &str)]) -> Result<()> {
    write(folder, vec![Table::Metrics], facts, |writer| {
        metrics(writer, None, ranges);
        Ok(())
    })
}

/// Writes both in one dataset, as a measurement does that counts as well: ranges by the number of their configuration.
///
/// # Errors
/// Where the dataset cannot be written.
pub fn write_measured_and_counted(
    folder: &Path,
    measured: &[Measured],
    counted: &[&CountedRanges<'_>],
    facts: &[(&str, &str)],
) -> Result<()> {
    write(folder, vec![Table::Samples, Table::Aggregates, Table::Metrics], facts, |writer| {
        let configs = samples(writer, measured, None)?;
        for (ranges, (index, parameters)) in counted.iter().zip(configs.iter().enumerate()) {
            metrics(writer, Some((words(parameters).0, signed(index))), ranges);
        }
        Ok(())
    })
}

/// A dataset with these tables and facts, and the rows that are added.
fn write(
    folder: &Path,
    tables: Vec<Table>,
    facts: &[(&str, &str)],
    rows: impl FnOnce(&mut DatasetWriter) -> Result<()>,
) -> Result<()> {
    let mut writer = DatasetWriter::create(folder, WriterOptions { tables, ..WriterOptions::default() })?;
    rows(&mut writer)?;
    for (key, value) in facts {
        writer.env(&EnvRow { key: (*key).to_owned(), value: (*value).to_owned() });
    }
    writer.close().first_error.map_or(Ok(()), Err)
}

/// Returns the parameters of each configuration.
fn samples<'a>(
    writer: &mut DatasetWriter,
    measured: &'a [Measured],
    baseline: Option<&str>,
) -> Result<Vec<&'a [(String, String)]>> {
    let mut configs: Vec<&[(String, String)]> = Vec::new();
    let mut orders: BTreeMap<(usize, usize), usize> = BTreeMap::new();
    for of in measured {
        let config = configs.iter().position(|parameters| *parameters == of.parameters);
        let config = config.unwrap_or_else(|| {
            configs.push(&of.parameters);
            configs.len() - 1
        });
        for (run, value) in of.values.iter().enumerate() {
            let next = orders.len();
            let order = *orders.entry((config, run)).or_insert(next);
            writer.sample(&sample_row(of, config, (run, order), *value));
        }
        let is_base = |other: &&Measured| {
            Some(&*other.annotation) == baseline
                && other.parameters == of.parameters
                && other.metric == of.metric
        };
        writer.aggregate(&aggregate_row(of, config, measured.iter().find(is_base))?);
    }
    Ok(configs)
}

fn metrics(writer: &mut DatasetWriter, config: Option<(Arc<str>, i64)>, ranges: &CountedRanges<'_>) {
    let (config, config_index) = config.unzip();
    for (index, (path, metrics)) in ranges.iter().enumerate() {
        for (metric, value) in *metrics {
            writer.metric(&MetricRow {
                range_path: Some((*path).into()),
                range_index: signed(index),
                nesting_level: 1,
                kernel: None,
                metric: (*metric).into(),
                asked: (*metric).into(),
                value: Some(*value),
                null_reason: None,
                unit: "".into(),
                passes: 3,
                range_mode: "user".into(),
                replay_mode: "user".into(),
                cache_state: "cold_clean".into(),
                clock_mode: "free".into(),
                chip: "GH100".into(),
                device: 0,
                config: config.clone(),
                config_index,
                run: config_index.map(|_| 0),
            });
        }
    }
}

/// The configuration in words, and as JSON.
fn words(parameters: &[(String, String)]) -> (Arc<str>, Arc<str>) {
    let join = |pair: &dyn Fn(&str, &str) -> String, separator| {
        parameters.iter().map(|(name, value)| pair(name, value)).collect::<Vec<_>>().join(separator)
    };
    let plain = join(&|name, value| format!("{name}={}", value.trim_matches('"')), ", ");
    (plain.into(), format!("{{{}}}", join(&|name, value| format!("\"{name}\":{value}"), ",")).into())
}

fn signed(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn sample_row(
    of: &Measured,
    config_index: usize,
    (run, order): (usize, usize),
    value: Option<f64>,
) -> SampleRow {
    let (config, parameters) = words(&of.parameters);
    let order_index = signed(order);
    let known = |value: i64| (order % 7 != 6).then_some(value);
    let small = |value: i64| known(value).and_then(|value| u32::try_from(value).ok());
    SampleRow {
        config,
        config_index: signed(config_index),
        parameters,
        run: Some(signed(run)),
        order: Some(order_index),
        start_ns: START_NS + order_index * RUN_NS,
        block: Some(0),
        annotation: of.annotation.as_str().into(),
        range_id: None,
        repeat: 0,
        kernel: None,
        metric: of.metric.0.as_str().into(),
        unit: of.metric.1.as_str().into(),
        value,
        invalid_reason: value.is_none().then(|| "failed: out of memory".into()),
        outlier: None,
        n_launches: 1,
        launch_mode: Some("stream"),
        wall_ns: Some(RUN_NS - 100_000),
        cache_state: "cold_clean".into(),
        clock_mode: "free".into(),
        sm_clock_mhz: small(1_980 - 15 * (order_index % 4)),
        memory_clock_mhz: small(2_619),
        temperature_c: known(38 + order_index % 5),
        thermal_margin_c: known(49 - order_index % 5),
        power_mw: small(120_000 + 1_375 * (order_index % 9)),
        throttle: known(order_index).filter(|order| order % 4 == 3).map(|_| "sw_power_cap".into()),
        power_throttled_ns: known(if order % 4 == 3 { 20_000 } else { 0 }),
        thermal_throttled_ns: None,
        cells: Arc::default(),
    }
}

fn aggregate_row(of: &Measured, config_index: usize, base: Option<&Measured>) -> Result<AggregateRow> {
    let values: Vec<f64> = of.values.iter().copied().flatten().collect();
    let told = describe(&Sample::new(values)?, 0.0);
    let pairs = base.into_iter().flat_map(|base| base.values.iter().zip(&of.values));
    let pairs: Vec<(f64, f64)> = pairs.filter_map(|(base, value)| base.zip(*value)).collect();
    let ratio = (!pairs.is_empty()).then(|| paired(&pairs)).transpose()?;
    let ends = |interval: Option<Interval>| [interval.map(|ends| ends.low), interval.map(|ends| ends.high)];
    let (config, parameters) = words(&of.parameters);
    Ok(AggregateRow {
        config,
        config_index: signed(config_index),
        parameters,
        annotation: of.annotation.as_str().into(),
        kernel: None,
        metric: of.metric.0.as_str().into(),
        unit: of.metric.1.as_str().into(),
        n: signed(of.values.len()),
        told: AggregateValues {
            n_valid: signed(told.n),
            mean: told.mean,
            mean_interval: ends(told.mean_interval),
            std_dev: told.std_dev,
            min: told.min,
            max: told.max,
            quantiles: told.quantiles.map_or([None; 7], |quantiles| quantiles.map(Some)),
            median_interval: ends(told.median_interval),
            fenced_mean: told.fenced_mean.map(|fenced| fenced.mean),
            fenced_mean_interval: ends(told.fenced_mean_interval),
            ratio: ratio.as_ref().map(|ratio| ratio.log_ratio.exp()),
            ratio_interval: ends(ratio.as_ref().and_then(|ratio| ratio.ratio_interval())),
            ..AggregateValues::default()
        },
        stop_reason: Some("runs_made"),
        normalized_against: base.map(|base| base.annotation.as_str().into()),
        cells: Arc::default(),
    })
}
