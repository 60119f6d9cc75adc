//! Hardware counters, planned.

use std::fmt::Write;

use cuprof::ErrorKind;
use cuprof::counters::{Catalogue, Metric, MetricKind, Plan, Preset, chips, chips_with};

use crate::args::{Chip, Metrics, MetricsCommand};
use crate::exit::{Failure, SUCCESS, USAGE, say};
use crate::output::write_text;

pub fn run(metrics: &Metrics) -> Result<u8, Failure> {
    let text = match &metrics.what {
        MetricsCommand::Chips { cupti: None } => lines(chips()?),
        MetricsCommand::Chips { cupti: Some(path) } => lines(chips_with(path)?),
        MetricsCommand::List { chip, words } => list(&catalogue(chip)?, words)?,
        MetricsCommand::Describe { chip, names } => describe(&catalogue(chip)?, names)?,
        MetricsCommand::Plan { chip, names } => planned(chip, names)?.to_string(),
        MetricsCommand::Passes { chip, names } => {
            let plan = planned(chip, names)?;
            if let Some(missing) = plan.missing().iter().find(|missing| missing.preset.is_none()) {
                return Err(Failure::new(USAGE, format!("{}: {}", missing.name, missing.reason)));
            }
            format!("{}\n", plan.passes())
        }
        MetricsCommand::Presets { names } => presets(names)?,
    };
    write_text(None, false, &text)?;
    Ok(SUCCESS)
}

fn lines(texts: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    texts.into_iter().map(|text| format!("{}\n", text.as_ref())).collect()
}

fn planned(chip: &Chip, names: &[String]) -> Result<Plan, Failure> {
    Ok(catalogue(chip)?.plan(names).map_err(in_words)?)
}

/// What to do next as it is done here.
fn in_words(error: cuprof::Error) -> cuprof::Error {
    let is_about_names = error.hint.as_deref().is_some_and(|hint| hint.contains("Catalogue::search"));
    if is_about_names {
        error.with_hint("look for names with `cuprof metrics list --chip NAME WORDS`")
    } else {
        error
    }
}

fn catalogue(chip: &Chip) -> Result<Catalogue, Failure> {
    let found = match (&chip.chip, &chip.cupti) {
        (Some(name), Some(path)) => Catalogue::of_chip_with(name, path),
        (Some(name), None) => Catalogue::of_chip(name),
        (None, Some(path)) => Catalogue::of_device_with(0, path).map_err(without_device),
        (None, None) => Catalogue::of_device(0).map_err(without_device),
    };
    Ok(found?)
}

/// What to do where there is no device to ask.
fn without_device(error: cuprof::Error) -> cuprof::Error {
    match error.kind {
        ErrorKind::NoDriver | ErrorKind::NoDevice => {
            error.with_hint("name a chip: --chip GH100 (that is an H100 or H200)")
        }
        _ => error,
    }
}

fn list(catalogue: &Catalogue, words: &[String]) -> Result<String, Failure> {
    if !words.is_empty() {
        let found = catalogue.search(&words.join(" "))?;
        if found.is_empty() {
            say(&no_metric(words));
        }
        return Ok(lines(found));
    }
    let mut text = String::new();
    for kind in MetricKind::ALL {
        text += &lines(catalogue.base_metrics(kind)?);
    }
    Ok(text)
}

fn no_metric(words: &[String]) -> String {
    format!("note: no metric of this chip has in its name or description all of: {}", words.join(" "))
}

fn describe(catalogue: &Catalogue, names: &[String]) -> Result<String, Failure> {
    let mut text = String::new();
    for name in names {
        let Metric { kind, unit, hardware_unit, description, .. } =
            catalogue.describe(name).map_err(in_words)?;
        let kind = format!("{kind:?}").to_lowercase();
        // Writing to a String does not fail.
        let _ = writeln!(text, "{name}\n  {description}\n  {kind}, in {unit}");
        if !hardware_unit.is_empty() {
            let _ = writeln!(text, "  counted by {hardware_unit}");
        }
        let base = name.split('.').next().unwrap_or(name);
        if base == name {
            let _ = writeln!(text, "  suffixes: {}", catalogue.sub_metrics(base)?.join(" "));
        }
    }
    Ok(text)
}

fn presets(names: &[String]) -> Result<String, Failure> {
    if names.is_empty() {
        return Ok(Preset::ALL
            .iter()
            .map(|preset| format!("{:<10} {} metrics\n", preset.name(), preset.metrics().len()))
            .collect());
    }
    let mut text = String::new();
    for name in names {
        let preset = Preset::from_name(name).ok_or_else(|| {
            let known: Vec<_> = Preset::ALL.iter().map(|preset| preset.name()).collect();
            Failure::new(USAGE, format!("there is no preset {name}\n  known: {}", known.join(" ")))
        })?;
        let _ = writeln!(text, "{}", preset.name());
        for metric in preset.metrics() {
            let _ = writeln!(text, "  {metric}");
        }
    }
    Ok(text)
}
