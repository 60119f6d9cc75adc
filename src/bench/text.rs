//! Reports as text: for people on a terminal or in Markdown, for programs as CSV.

use rustc_hash::FxHashSet;

use super::builder::{BUSY, SPAN};
use super::measured::LaunchMode;
use super::report::{Aggregate, Normalised, Report};
use super::value::Value;
use crate::stats::{DEFAULT_MARGIN, Interval, StopReason};
use crate::summary::escaped::{csv_line, markdown_escaped, markdown_heading, markdown_row};
use crate::summary::text::one_line;

/// A heading, and rows of as many cells.
#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    pub heading: Vec<String>,
    pub rows: Vec<Vec<String>>,
    /// How many of the first columns are words; the rest is numbers.
    pub words: usize,
}

/// The metrics of whole annotations, as people read them.
pub(super) fn people(report: &Report) -> Table {
    // The span is that of the launches, mostly; it is the GPU's own where they were held back.
    let held = report.samples.iter().filter(|sample| sample.launch_mode == Some(LaunchMode::Blocked));
    let held: FxHashSet<_> = held.map(|sample| (sample.config_index, &*sample.annotation)).collect();
    let is_shown = |aggregate: &&Aggregate| {
        aggregate.kernel.is_none()
            && match &*aggregate.metric {
                BUSY => false,
                SPAN => held.contains(&(aggregate.config_index, &*aggregate.annotation)),
                _ => true,
            }
    };
    let with_ratio = report.baseline.is_some();
    let mut heading: Vec<String> =
        ["config", "annotation", "metric", "n", "median", "95 % interval", "mean", "CV"]
            .map(str::to_owned)
            .to_vec();
    let is_other = |reason: StopReason| reason != StopReason::RunsMade;
    let with_reason = report.aggregates.iter().any(|aggregate| aggregate.stop_reason.is_some_and(is_other));
    if with_reason {
        heading.extend(["precision", "stopped"].map(str::to_owned));
    }
    if let Some(baseline) = &report.baseline {
        heading.push(format!("/ {baseline}"));
        heading.extend(["95 % interval", "verdict"].map(str::to_owned));
    }
    let rows = report.aggregates.iter().filter(is_shown).map(|aggregate| {
        let told = &aggregate.told;
        let value = |value: Option<f64>| value.map_or("-".to_owned(), |value| amount(value, &aggregate.unit));
        let n = if told.n == aggregate.runs {
            told.n.to_string()
        } else {
            format!("{}/{}", told.n, aggregate.runs)
        };
        let interval = |interval: Option<Interval>, text: &dyn Fn(f64) -> String| {
            interval.map_or("-".to_owned(), |Interval { low, high, .. }| {
                format!("{} to {}", text(low), text(high))
            })
        };
        let mut cells = vec![
            report.config_text(aggregate.config_index),
            aggregate.annotation.to_string(),
            aggregate.metric.to_string(),
            n,
            value(told.median()),
            interval(told.median_interval, &|value| amount(value, &aggregate.unit)),
            value(told.mean),
            told.cv.map_or("-".to_owned(), |cv| format!("{:.2} %", cv * 100.0)),
        ];
        if with_reason {
            // What was reached, and not what was wished for.
            cells.push(aggregate.achieved.map_or("-".to_owned(), |share| format!("{:.2} %", share * 100.0)));
            cells.push(aggregate.stop_reason.map_or("-".to_owned(), |reason| reason.to_string()));
        }
        if with_ratio {
            let normalised = aggregate.normalised.as_ref();
            let ratio = |ratio: f64| format!("{ratio:.4}");
            cells.push(normalised.map_or("-".to_owned(), |normalised| ratio(normalised.ratio)));
            cells.push(interval(normalised.and_then(|normalised| normalised.interval), &ratio));
            let is_time_of_another =
                |n: &&Normalised| &*aggregate.unit == "ns" && *n.baseline != *aggregate.annotation;
            let verdict = normalised.filter(is_time_of_another).filter(|n| n.interval.is_some());
            let verdict = verdict.map(|n| n.comparison.verdict(DEFAULT_MARGIN).to_string());
            cells.push(verdict.unwrap_or_else(|| "-".to_owned()));
        }
        cells
    });
    Table { heading, rows: rows.collect(), words: 3 }
}

/// All aggregates with all digits, kernels included.
pub(super) fn numbers(report: &Report) -> Table {
    let heading = [
        "annotation",
        "kernel",
        "metric",
        "unit",
        "n",
        "n_valid",
        "mean",
        "mean_low",
        "mean_high",
        "median",
        "median_low",
        "median_high",
        "std_dev",
        "cv",
        "mad",
        "min",
        "max",
        "n_eff",
        "achieved_precision",
        "stop_reason",
        "normalized_against",
        "ratio",
        "ratio_low",
        "ratio_high",
    ];
    let heading = report.parameters.iter().cloned().chain(heading.map(str::to_owned)).collect();
    let rows = report.aggregates.iter().map(|aggregate| {
        let told = &aggregate.told;
        let ends = |interval: Option<Interval>| {
            [real(interval.map(|interval| interval.low)), real(interval.map(|interval| interval.high))]
        };
        let normalised = aggregate.normalised.as_ref();
        let parameters = report.configs.get(aggregate.config_index).into_iter().flatten();
        let text = |value: &Option<Value>| value.as_ref().map(ToString::to_string).unwrap_or_default();
        let mut cells: Vec<String> = parameters.map(text).collect();
        cells.extend([
            aggregate.annotation.to_string(),
            aggregate.kernel.as_deref().unwrap_or_default().to_owned(),
            aggregate.metric.to_string(),
            aggregate.unit.to_string(),
            aggregate.runs.to_string(),
            told.n.to_string(),
            real(told.mean),
        ]);
        cells.extend(ends(told.mean_interval));
        cells.push(real(told.median()));
        cells.extend(ends(told.median_interval));
        cells.extend([told.std_dev, told.cv, told.mad, told.min, told.max, Some(told.n_eff)].map(real));
        cells.push(real(aggregate.achieved));
        cells.push(aggregate.stop_reason.map_or(String::new(), |reason| reason.to_string()));
        cells.push(normalised.map_or(String::new(), |normalised| normalised.baseline.clone()));
        cells.push(real(normalised.map(|normalised| normalised.ratio)));
        cells.extend(ends(normalised.and_then(|normalised| normalised.interval)));
        cells
    });
    Table { heading, rows: rows.collect(), words: 0 }
}

/// A number in the fewest digits that give it back; empty for none.
pub(super) fn real(value: Option<f64>) -> String {
    value.map_or(String::new(), |value| format!("{value:?}"))
}

/// A value as people read it: times in a fitting unit, all others with four digits.
fn amount(value: f64, unit: &str) -> String {
    if unit != "ns" {
        let text = digits(value);
        return if unit.is_empty() { text } else { format!("{text} {unit}") };
    }
    let (scale, unit) = match value.abs() {
        ns if ns < 1e3 => (1.0, "ns"),
        ns if ns < 1e6 => (1e3, "us"),
        ns if ns < 1e9 => (1e6, "ms"),
        _ => (1e9, "s"),
    };
    format!("{} {unit}", digits(value / scale))
}

/// Four significant digits.
fn digits(value: f64) -> String {
    let size = value.abs();
    if size != 0.0 && !(1e-3..1e6).contains(&size) {
        return format!("{value:.3e}");
    }
    let decimals = match size {
        _ if size >= 1e3 => 0,
        _ if size >= 1e2 => 1,
        _ if size >= 1e1 => 2,
        _ => 3,
    };
    format!("{value:.decimals$}")
}

/// An error and what to do, in one line.
pub(super) fn in_line(error: &impl ToString) -> String {
    error.to_string().replace("\n  ", "; ")
}

/// With columns side by side; words to the left, numbers to the right.
pub(super) fn terminal(table: &Table) -> String {
    let clean = |row: &[String]| row.iter().map(|cell| one_line(cell)).collect::<Vec<_>>();
    let rows: Vec<Vec<String>> =
        std::iter::once(clean(&table.heading)).chain(table.rows.iter().map(|row| clean(row))).collect();
    let mut widths = vec![0; table.heading.len()];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    let mut text = String::new();
    for row in &rows {
        let cells = row.iter().zip(&widths).enumerate().filter(|(_, (_, width))| **width > 0).map(
            |(column, (cell, width))| {
                if column < table.words { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
            },
        );
        text += cells.collect::<Vec<_>>().join("  ").trim_end();
        text.push('\n');
    }
    text
}

/// A table of GitHub's Markdown.
pub(super) fn markdown(table: &Table) -> String {
    let escaped = |cell: &String| markdown_escaped(cell);
    let titles: Vec<String> = table.heading.iter().map(escaped).collect();
    let heading = markdown_heading(&titles, |column| column < table.words);
    heading + &table.rows.iter().map(|row| markdown_row(row.iter().map(escaped))).collect::<String>()
}

/// By RFC 4180, but for line ends, which are those of Unix.
pub(super) fn csv(table: &Table) -> String {
    std::iter::once(&table.heading).chain(&table.rows).map(csv_line).collect()
}
