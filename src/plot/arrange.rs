//! Which parameters of configurations lie along an axis, which are series, and which are panels.

use super::measurements::{Cell, Measurements, unknown};
use crate::error::{Error, ErrorKind, Result};

/// What is asked for; what is left open is chosen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted<'a> {
    pub x: &'a [String],
    pub rows: Option<&'a str>,
    pub columns: Option<&'a str>,
}

/// Where a cell goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spot {
    pub x: usize,
    pub series: usize,
    pub row: usize,
    pub column: usize,
}

/// The places of all cells.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Arranged {
    /// One for each cell.
    pub spots: Vec<Spot>,
    /// What is along the axis, and its title.
    pub x: Vec<String>,
    pub x_title: String,
    /// The values along the axis, where all are numbers.
    pub numbers: Option<Vec<f64>>,
    /// Names of series; a single one may have none.
    pub series: Vec<String>,
    /// Titles of panels; one without text for a single one.
    pub rows: Vec<String>,
    pub columns: Vec<String>,
    /// Parameters that are the same everywhere.
    pub constant: String,
}

/// Arranges cells of one metric.
pub(super) fn arrange(all: &Measurements, cells: &[&Cell], wanted: Wanted<'_>) -> Result<Arranged> {
    let parameters = |cell: &Cell| &all.configs[cell.config()].parameters;
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in cells.iter().flat_map(|cell| parameters(cell)) {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    let asked = wanted.x.iter().map(String::as_str).chain(wanted.rows).chain(wanted.columns);
    let mut taken: Vec<&str> = Vec::new();
    for name in asked {
        if !names.contains(&name) {
            return Err(unknown("parameter", name, &names));
        }
        if taken.contains(&name) {
            return Err(Error::new(
                ErrorKind::Config,
                format!("the parameter {name:?} is asked for in two places"),
            ));
        }
        taken.push(name);
    }
    let value = |cell: &Cell, name: &str| {
        let found = parameters(cell).iter().find(|(known, _)| known == name);
        found.map_or_else(|| "–".to_owned(), |(_, value)| value.clone())
    };
    let distinct = |name: &str| Distinct::of(cells.iter().map(|cell| value(cell, name)));
    let is_varying = |name: &&&str| distinct(name).texts.len() > 1;
    let free: Vec<&str> =
        names.iter().filter(|name| !taken.contains(name)).filter(is_varying).copied().collect();
    let constant = names.iter().filter(|name| !taken.contains(*name) && !free.contains(*name));
    let constant = constant
        .map(|name| format!("{name}={}", cells.first().map_or(String::new(), |cell| value(cell, name))));
    let constant = constant.collect::<Vec<_>>().join(", ");

    // Along the axis: what was asked for, else the number with the most values, else the text with the most.
    let mut along: Vec<&str> = wanted.x.iter().map(String::as_str).collect();
    if along.is_empty() {
        let best = free.iter().copied().rev().max_by_key(|name| {
            let of = distinct(name);
            (of.numbers.is_some(), of.texts.len())
        });
        along.extend(best);
    }
    let apart: Vec<&str> = free.into_iter().filter(|name| !along.contains(name)).collect();
    let annotations = Distinct::of(cells.iter().map(|cell| all.name(cell)));

    let is_by_annotation = along.is_empty();
    let joined = |cell: &Cell, names: &[&str], with_names: bool| {
        let part = |name: &&str| {
            if with_names { format!("{name}={}", value(cell, name)) } else { value(cell, name) }
        };
        names.iter().map(part).collect::<Vec<_>>().join(", ")
    };
    let x_of = |cell: &Cell| if is_by_annotation { all.name(cell) } else { joined(cell, &along, false) };
    let series_of = |cell: &Cell| {
        let mut parts = Vec::new();
        if !is_by_annotation && annotations.texts.len() > 1 {
            parts.push(all.name(cell));
        }
        parts.extend((!apart.is_empty()).then(|| joined(cell, &apart, true)));
        parts.join(", ")
    };
    let panel_of = |cell: &Cell, name: Option<&str>| {
        name.map_or_else(String::new, |name| format!("{name}={}", value(cell, name)))
    };
    let x = Distinct::of(cells.iter().map(|cell| x_of(cell)));
    let series = Distinct::of(cells.iter().map(|cell| series_of(cell)));
    let rows = Distinct::of(cells.iter().map(|cell| panel_of(cell, wanted.rows)));
    let columns = Distinct::of(cells.iter().map(|cell| panel_of(cell, wanted.columns)));
    let spots = cells
        .iter()
        .map(|cell| Spot {
            x: x.place(&x_of(cell)),
            series: series.place(&series_of(cell)),
            row: rows.place(&panel_of(cell, wanted.rows)),
            column: columns.place(&panel_of(cell, wanted.columns)),
        })
        .collect();
    Ok(Arranged {
        spots,
        x_title: along.join(", "),
        numbers: x.numbers.filter(|numbers| numbers.len() > 1),
        x: x.texts,
        series: series.texts,
        rows: rows.texts,
        columns: columns.texts,
        constant,
    })
}

/// Distinct texts, in the order in which they came; in that of their numbers where all are numbers.
struct Distinct {
    texts: Vec<String>,
    numbers: Option<Vec<f64>>,
}

impl Distinct {
    fn of(texts: impl Iterator<Item = String>) -> Self {
        let mut distinct: Vec<String> = Vec::new();
        for text in texts {
            if !distinct.contains(&text) {
                distinct.push(text);
            }
        }
        let number = |text: &String| text.parse::<f64>().ok().filter(|number| number.is_finite());
        let numbers: Option<Vec<f64>> = distinct.iter().map(number).collect();
        let Some(numbers) = numbers else { return Self { texts: distinct, numbers: None } };
        let mut both: Vec<(f64, String)> = numbers.into_iter().zip(distinct).collect();
        both.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        let (numbers, texts) = both.into_iter().unzip();
        Self { texts, numbers: Some(numbers) }
    }

    fn place(&self, text: &str) -> usize {
        self.texts.iter().position(|known| known == text).unwrap_or(0)
    }
}
