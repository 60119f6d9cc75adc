//! The aggregates as Nsight Python's table of processed data has them.

use std::collections::BTreeMap;

use super::collectors::{Notes, Scope};
use super::columns::Columns;
use super::report::{Aggregate, Report};
use super::value::Value;
use crate::stats::geometric_mean;
use crate::table::added::CellType;

/// Below this standard deviation in per cent of the mean, that table calls a measurement stable.
const STABLE_BELOW_PCT: f64 = 2.0;

/// That table's factor for an interval, whatever the number of runs.
const NORMAL_95: f64 = 1.96;

struct Row<'a> {
    aggregate: &'a Aggregate,
    mean: Option<f64>,
    std_dev: Option<f64>,
    baseline: Option<f64>,
}

impl Row<'_> {
    fn average(&self) -> Option<f64> {
        self.mean.map(|mean| mean / self.baseline.unwrap_or(1.0))
    }
}

/// Columns of ours that say more, in front of the last two, which are words.
pub(super) const MORE: [&str; 6] =
    ["Median", "CI95_Median_Lower", "CI95_Median_Upper", "CI95_t_Lower", "CI95_t_Upper", "EffectiveRuns"];
/// The last two columns.
pub(super) const STATE: [&str; 2] = ["CacheState", "ClockMode"];

pub(super) fn table(report: &Report, notes: &[Notes]) -> Columns {
    let rows: Vec<Row<'_>> = report
        .aggregates
        .iter()
        .filter(|aggregate| aggregate.kernel.is_none())
        .map(|aggregate| row(report, aggregate))
        .collect();
    let mut heading = Vec::new();
    let mut add = |kind: Option<CellType>, names: &[&str]| {
        heading.extend(names.iter().map(|name| ((*name).to_owned(), kind)));
    };
    add(Some(CellType::Text), &["Annotation", "Metric"]);
    report.parameters.iter().for_each(|name| add(None, &[name]));
    add(Some(CellType::Real), &["AvgValue", "StdDev", "MinValue", "MaxValue"]);
    add(Some(CellType::Int), &["NumRuns"]);
    add(Some(CellType::Text), &["Kernel", "GPU", "Host"]);
    add(Some(CellType::Int), &["ComputeClock", "MemoryClock"]);
    add(Some(CellType::Text), &["Unit"]);
    for collected in notes {
        collector_columns(collected).iter().for_each(|name| add(None, &[name]));
    }
    add(Some(CellType::Real), &["CI95_Lower", "CI95_Upper", "RelativeStdDevPct"]);
    add(Some(CellType::Flag), &["StableMeasurement", "Normalized"]);
    if report.baseline.is_some() {
        add(Some(CellType::Real), &["NormalizationValue"]);
    }
    add(Some(CellType::Real), &["Geomean"]);
    add(Some(CellType::Real), &MORE);
    add(Some(CellType::Text), &STATE);
    let geomeans = geomeans(&rows);
    let rows = rows.iter().map(|row| cells(report, notes, row, &geomeans)).collect();
    Columns::new(heading, rows)
}

fn row<'a>(report: &'a Report, aggregate: &'a Aggregate) -> Row<'a> {
    // Not those of the description, which are floored at the clock's resolution.
    let values: Vec<f64> = values(report, aggregate).collect();
    let n = values.len() as f64;
    let mean = (!values.is_empty()).then(|| values.iter().sum::<f64>() / n);
    let std_dev = mean
        .filter(|_| values.len() > 1)
        .map(|mean| (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0)).sqrt());
    let baseline = report.baseline.as_deref().and_then(|baseline| {
        let base = report.aggregate(aggregate.config_index, baseline, &aggregate.metric)?;
        base.told.mean.filter(|mean| *mean != 0.0)
    });
    Row { aggregate, mean, std_dev, baseline }
}

fn values<'a>(report: &'a Report, aggregate: &'a Aggregate) -> impl Iterator<Item = f64> + 'a {
    let is_its = |sample: &&super::report::RunSample| {
        sample.config_index == aggregate.config_index
            && sample.annotation == aggregate.annotation
            && sample.metric == aggregate.metric
            && sample.kernel.is_none()
    };
    report.samples.iter().filter(is_its).filter_map(|sample| sample.value)
}

/// Over the configurations of each annotation and metric, after normalising.
fn geomeans<'a>(rows: &[Row<'a>]) -> BTreeMap<(&'a str, &'a str), Option<f64>> {
    let mut groups: BTreeMap<(&str, &str), Vec<f64>> = BTreeMap::new();
    for row in rows {
        let group = groups.entry((&row.aggregate.annotation, &row.aggregate.metric)).or_default();
        group.extend(row.average());
    }
    groups.into_iter().map(|(key, values)| (key, geometric_mean(&values))).collect()
}

fn cells(
    report: &Report,
    notes: &[Notes],
    row: &Row<'_>,
    geomeans: &BTreeMap<(&str, &str), Option<f64>>,
) -> Vec<Option<Value>> {
    let Row { aggregate, mean, std_dev, baseline } = *row;
    let told = &aggregate.told;
    let fact = |key: &str| report.facts.iter().find(|(name, _)| name == key).map(|(_, value)| value);
    let text = |text: &str| Some(Value::Text(text.to_owned()));
    let number = |key: &str| fact(key)?.parse().ok().map(Value::Int);
    let reals =
        |values: &[Option<f64>]| values.iter().map(|value| value.map(Value::Real)).collect::<Vec<_>>();
    let kernels: Vec<&str> = report
        .aggregates
        .iter()
        .filter(|other| {
            other.config_index == aggregate.config_index && other.annotation == aggregate.annotation
        })
        .filter_map(|other| other.kernel.as_deref())
        .collect();
    let half = std_dev.filter(|_| told.n > 0).map(|std_dev| NORMAL_95 * std_dev / (told.n as f64).sqrt());
    let relative_pct =
        std_dev.zip(mean).filter(|(_, mean)| *mean != 0.0).map(|(s, mean)| 100.0 * s / mean.abs());
    let mut cells = vec![text(&aggregate.annotation), text(&aggregate.metric)];
    cells.extend(report.configs.get(aggregate.config_index).into_iter().flatten().cloned());
    cells.extend(reals(&[row.average(), std_dev, told.min, told.max]));
    cells.push(i64::try_from(told.n).ok().map(Value::Int));
    cells.push(text(&kernels.join("|")).filter(|_| !kernels.is_empty()));
    cells.extend(["gpu.name", "host.name"].map(|key| fact(key).and_then(|value| text(value))));
    cells.extend(["gpu.clock_rate_khz", "gpu.memory_clock_rate_khz"].map(number));
    cells.push(text(&aggregate.unit));
    for collected in notes {
        cells.extend(collector_cells(collected, aggregate));
    }
    let end = |sign: f64| mean.zip(half).map(|(mean, half)| mean + sign * half);
    cells.extend(reals(&[end(-1.0), end(1.0), relative_pct]));
    cells.push(relative_pct.map(|pct| Value::Flag(pct < STABLE_BELOW_PCT)));
    match &report.baseline {
        Some(name) => cells.extend([text(name), baseline.map(Value::Real)]),
        None => cells.push(Some(Value::Flag(false))),
    }
    cells.extend(reals(&[geomeans.get(&(&*aggregate.annotation, &*aggregate.metric)).copied().flatten()]));
    cells.extend(reals(&[told.median()]));
    for interval in [told.median_interval, told.mean_interval] {
        cells.extend(reals(&[interval.map(|ends| ends.low), interval.map(|ends| ends.high)]));
    }
    cells.extend(reals(&[(told.n > 0).then_some(told.n_eff)]));
    cells.extend([text(&report.cache_state), text(&report.clock_mode)]);
    cells
}

/// Whether the collector has columns for mean, spread and extremes.
fn is_numeric(collected: &Notes) -> bool {
    let mut values = collected.notes.iter().filter_map(|note| note.value.as_ref()).peekable();
    collected.scope != Scope::Once && values.peek().is_some() && values.all(|value| value.number().is_some())
}

fn collector_columns(collected: &Notes) -> Vec<String> {
    if is_numeric(collected) { numeric_columns(&collected.name).into() } else { vec![collected.name.clone()] }
}

/// The columns of a collector whose values are numbers.
pub(super) fn numeric_columns(collector: &str) -> [String; 4] {
    ["Avg", "Std", "Min", "Max"].map(|suffix| format!("{collector}_{suffix}"))
}

fn collector_cells(collected: &Notes, aggregate: &Aggregate) -> Vec<Option<Value>> {
    let mut its = collected.notes.iter().filter(|note| {
        note.config.is_none_or(|config| config == aggregate.config_index)
            && note.annotation.as_deref().is_none_or(|annotation| annotation == &*aggregate.annotation)
    });
    if !is_numeric(collected) {
        return vec![its.find_map(|note| note.value.clone())];
    }
    let numbers: Vec<f64> = its.filter_map(|note| note.value.as_ref()?.number()).collect();
    let Ok(sample) = crate::stats::Sample::new(numbers) else { return vec![None; 4] };
    [sample.mean(), sample.std_dev(), sample.min(), sample.max()].map(|value| value.map(Value::Real)).to_vec()
}
