//! The aggregates as Nsight Python's table of processed data has them.

use std::collections::BTreeMap;

use super::collectors::Scope;
use super::report::{Aggregate, Collected, Report};
use super::text::{Table, real};
use super::value::Value;
use crate::stats::geometric_mean;

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

pub(super) fn table(report: &Report) -> Table {
    let rows: Vec<Row<'_>> = report
        .aggregates
        .iter()
        .filter(|aggregate| aggregate.kernel.is_none())
        .map(|aggregate| row(report, aggregate))
        .collect();
    let mut heading: Vec<String> = vec!["Annotation".into(), "Metric".into()];
    heading.extend(report.parameters.iter().cloned());
    let fixed =
        ["AvgValue", "StdDev", "MinValue", "MaxValue", "NumRuns", "Kernel", "GPU", "Host", "ComputeClock"];
    heading.extend(fixed.map(str::to_owned));
    heading.extend(["MemoryClock", "Unit"].map(str::to_owned));
    for collected in &report.collected {
        heading.extend(collector_columns(collected));
    }
    heading.extend(
        ["CI95_Lower", "CI95_Upper", "RelativeStdDevPct", "StableMeasurement", "Normalized"]
            .map(str::to_owned),
    );
    if report.baseline.is_some() {
        heading.push("NormalizationValue".to_owned());
    }
    heading.push("Geomean".to_owned());
    let more = [
        "Median",
        "CI95_Median_Lower",
        "CI95_Median_Upper",
        "CI95_t_Lower",
        "CI95_t_Upper",
        "EffectiveRuns",
        "CacheState",
        "ClockMode",
    ];
    heading.extend(more.map(str::to_owned));
    let geomeans = geomeans(&rows);
    let rows = rows.iter().map(|row| cells(report, row, &geomeans)).collect();
    Table { heading, rows, words: 2 }
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

fn cells(report: &Report, row: &Row<'_>, geomeans: &BTreeMap<(&str, &str), Option<f64>>) -> Vec<String> {
    let Row { aggregate, mean, std_dev, baseline } = *row;
    let told = &aggregate.told;
    let fact = |key: &str| {
        let fact = report.facts.iter().find(|(name, _)| name == key);
        fact.map_or(String::new(), |(_, value)| value.clone())
    };
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
    let flag = |flag: bool| if flag { "True" } else { "False" }.to_owned();
    let mut cells = vec![aggregate.annotation.to_string(), aggregate.metric.to_string()];
    let parameters = report.configs.get(aggregate.config_index).into_iter().flatten();
    cells.extend(parameters.map(python));
    cells.extend([row.average(), std_dev, told.min, told.max].map(real));
    cells.push(told.n.to_string());
    cells.extend([kernels.join("|"), fact("gpu.name"), fact("host.name")]);
    cells.extend([String::new(), String::new(), aggregate.unit.to_string()]);
    for collected in &report.collected {
        cells.extend(collector_cells(collected, aggregate));
    }
    cells.push(real(mean.zip(half).map(|(mean, half)| mean - half)));
    cells.push(real(mean.zip(half).map(|(mean, half)| mean + half)));
    cells.push(real(relative_pct));
    cells.push(relative_pct.map_or(String::new(), |pct| flag(pct < STABLE_BELOW_PCT)));
    match &report.baseline {
        Some(name) => cells.extend([name.clone(), real(baseline)]),
        None => cells.push(flag(false)),
    }
    let geomean = geomeans.get(&(&*aggregate.annotation, &*aggregate.metric)).copied().flatten();
    cells.push(real(geomean));
    cells.push(real(told.median()));
    for interval in [told.median_interval, told.mean_interval] {
        cells.extend(
            [interval.map(|interval| interval.low), interval.map(|interval| interval.high)].map(real),
        );
    }
    cells.push(real((told.n > 0).then_some(told.n_eff)));
    cells.extend([report.cache_state.to_owned(), report.clock_mode.clone()]);
    cells
}

/// A value as Python writes it.
fn python(value: &Value) -> String {
    match value {
        Value::Flag(true) => "True".to_owned(),
        Value::Flag(false) => "False".to_owned(),
        Value::Real(value) => real(Some(*value)),
        other => other.to_string(),
    }
}

/// Whether the collector has columns for mean, spread and extremes.
fn is_numeric(collected: &Collected) -> bool {
    let mut values = collected.notes.iter().filter_map(|note| note.value.as_ref()).peekable();
    collected.scope != Scope::Once && values.peek().is_some() && values.all(|value| value.number().is_some())
}

fn collector_columns(collected: &Collected) -> Vec<String> {
    if !is_numeric(collected) {
        return vec![collected.name.clone()];
    }
    ["Avg", "Std", "Min", "Max"].iter().map(|suffix| format!("{}_{suffix}", collected.name)).collect()
}

fn collector_cells(collected: &Collected, aggregate: &Aggregate) -> Vec<String> {
    let mut its = collected.notes.iter().filter(|note| {
        note.config.is_none_or(|config| config == aggregate.config_index)
            && note.annotation.as_deref().is_none_or(|annotation| annotation == &*aggregate.annotation)
    });
    if !is_numeric(collected) {
        let first = its.find_map(|note| note.value.as_ref());
        return vec![first.map(python).unwrap_or_default()];
    }
    let numbers: Vec<f64> = its.filter_map(|note| note.value.as_ref()?.number()).collect();
    let Ok(sample) = crate::stats::Sample::new(numbers) else { return vec![String::new(); 4] };
    [sample.mean(), sample.std_dev(), sample.min(), sample.max()].map(real).to_vec()
}
