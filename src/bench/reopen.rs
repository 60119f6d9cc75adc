//! A report read back from its dataset.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{Array, ArrowPrimitiveType, PrimitiveArray, RecordBatch};

use super::aggregates;
use super::columns::Columns;
use super::compat;
use super::facts::{BASELINE, CACHE_STATE, CLOCK_MODE, COLLECTOR, NAME, STABLE_BELOW, TICK, WARNING};
use super::measured::LaunchMode;
use super::report::{Report, RunSample};
use super::value::Value;
use crate::control::RunConditions;
use crate::driver::nvml::ThrottleReasons;
use crate::error::{Error, ErrorKind, Result};
use crate::losses::{Cause, Loss};
use crate::stats::{DEFAULT_STABLE_BELOW, StopReason};
use crate::table::added::PARAMETER;
use crate::table::columns::{Texts, float64, int64, uint16, uint32, value};
use crate::table::reader::Dataset;
use crate::table::rows::MetricRow;
use crate::table::schema::Table;
use crate::table::writer::PARTS;

pub(super) fn report(folder: &Path) -> Result<Report> {
    let dataset = Dataset::open(folder)?;
    if !dataset.tables().any(|table| table == Table::Samples) {
        let what = format!("{} holds no measurement", folder.display());
        return Err(Error::new(ErrorKind::Format, what).with_hint(
            "it has no table `samples`, which Bench::output and bench::Report::write make; `cuprof summary` sums up a trace",
        ));
    }
    let (mut facts, mut warnings, mut notes) = (Vec::new(), BTreeMap::new(), Vec::new());
    for (key, value) in dataset.env()? {
        if let Some(number) = key.strip_prefix(WARNING).and_then(|number| number.parse::<usize>().ok()) {
            warnings.insert(number, value);
        } else if key.starts_with(COLLECTOR) {
            notes.push((key, value));
        } else if !key.starts_with(PARTS) {
            facts.push((key, value));
        }
    }
    let mut warnings: Vec<String> = warnings.into_values().collect();
    if !dataset.is_complete() {
        warnings.push(
            "the dataset was not closed, or a part of it is not here: values may be missing".to_owned(),
        );
    }
    let fact = |key: &str| facts.iter().find(|(name, _)| name == key).map(|(_, value)| value.clone());

    let batches = dataset.read(Table::Samples)?;
    let mut samples = samples(&batches)?;
    aggregates::flag_outliers(&mut samples);
    let told = dataset.read(Table::Aggregates)?;
    let mut configs = Vec::new();
    let mut parameters = Columns::read(&batches, PARAMETER)?;
    if parameters.names().is_empty() {
        parameters = as_one(&batches)?;
    }
    let indices = samples.iter().map(|sample| sample.config_index);
    place(&mut configs, indices, &parameters);
    let tick = fact(TICK).and_then(|tick| tick.parse().ok()).unwrap_or(0.0);
    let baseline = fact(BASELINE);
    let stable_below = fact(STABLE_BELOW).and_then(|share| share.parse().ok());
    let stopped = stop_reasons(&told)?;
    let mut report = Report {
        name: fact(NAME).unwrap_or_default(),
        parameters: parameters.names().to_vec(),
        configs,
        aggregates: aggregates::of(&samples, tick, baseline.as_deref(), |config| {
            stopped.get(&config).copied()
        }),
        samples,
        counted: counted(&dataset.read(Table::Metrics)?)?,
        compat: Columns::default(),
        notes,
        losses: losses(&dataset)?,
        warnings,
        baseline,
        stable_below: stable_below.unwrap_or(DEFAULT_STABLE_BELOW),
        cache_state: fact(CACHE_STATE).unwrap_or_default(),
        clock_mode: fact(CLOCK_MODE).unwrap_or_default(),
        facts,
    };
    let compat = dataset.read(Table::Compat)?;
    // Earlier versions did not write it; what collectors gave is then not in it.
    report.compat = if compat.is_empty() { compat::table(&report, &[]) } else { Columns::read(&compat, "")? };
    Ok(report)
}

/// Each configuration in its words, as one parameter; none where they have no words. Version 1 had no columns of parameters.
fn as_one(batches: &[RecordBatch]) -> Result<Columns> {
    let (mut texts, mut rows) = (Texts::default(), Vec::new());
    for batch in batches {
        let configs = texts.of(batch, at(batch, "config")?)?;
        rows.extend(configs.into_iter().map(|config| vec![config.map(|text| Value::Text(text.to_string()))]));
    }
    let no_words = Value::Text(String::new());
    match rows.iter().flatten().flatten().all(|words| *words == no_words) {
        true => Ok(Columns::default()),
        false => Ok(Columns::new(vec![("config".to_owned(), None)], rows)),
    }
}

/// Puts the parameters of each row where its configuration is.
fn place(configs: &mut Vec<Vec<Option<Value>>>, indices: impl Iterator<Item = usize>, parameters: &Columns) {
    for (index, values) in indices.zip(parameters.rows()) {
        if configs.len() <= index {
            configs.resize(index + 1, vec![None; values.len()]);
        }
        configs[index].clone_from(values);
    }
}

/// The number of a column.
fn at(batch: &RecordBatch, name: &str) -> Result<usize> {
    batch.schema_ref().index_of(name).map_err(|error| {
        Error::new(ErrorKind::Format, format!("the table has no column {name}")).with_source(error)
    })
}

/// The values of a column, none for null, as a type that holds them.
fn numbers<'a, T, N>(column: &'a PrimitiveArray<T>) -> impl Iterator<Item = Option<N>> + 'a
where
    T: ArrowPrimitiveType,
    N: TryFrom<T::Native>,
{
    column.iter().map(|value| N::try_from(value?).ok())
}

fn samples(batches: &[RecordBatch]) -> Result<Vec<RunSample>> {
    let mut texts = Texts::default();
    let mut samples = Vec::new();
    for batch in batches {
        let mut words = |name| texts.of(batch, at(batch, name)?);
        let (annotations, kernels) = (words("annotation")?, words("kernel")?);
        let (metrics, units) = (words("metric")?, words("unit")?);
        let (reasons, modes, throttles) =
            (words("invalid_reason")?, words("launch_mode")?, words("throttle")?);
        let whole = |name| int64(batch, at(batch, name)?);
        let counts = |name| Ok::<_, Error>(numbers::<_, usize>(whole(name)?).collect::<Vec<_>>());
        let (configs, runs, orders) = (counts("config_index")?, counts("run")?, counts("order_index")?);
        let (blocks, repeats, launches) = (counts("block_index")?, counts("repeat")?, counts("n_launches")?);
        let values = float64(batch, at(batch, "value")?)?;
        let ranges: Vec<Option<i64>> = numbers(whole("range_id")?).collect();
        let (starts, walls) = (whole("start_ns")?, whole("wall_ns")?);
        let conditions = conditions(batch, &throttles)?;
        let mode = |name: &Option<Arc<str>>| {
            LaunchMode::ALL.into_iter().find(|mode| Some(mode.as_str()) == name.as_deref())
        };
        let text = |text: &Option<Arc<str>>| text.clone().unwrap_or_default();
        for (row, conditions) in conditions.into_iter().enumerate() {
            let value = value(values, row);
            samples.push(RunSample {
                config_index: configs[row].unwrap_or_default(),
                run: runs[row],
                order: orders[row],
                start_ns: starts.value(row),
                block: blocks[row],
                annotation: text(&annotations[row]),
                range_id: ranges[row],
                repeat: repeats[row].unwrap_or_default(),
                kernel: kernels[row].clone(),
                metric: text(&metrics[row]),
                unit: text(&units[row]),
                value,
                valid: value.is_some(),
                invalid_reason: reasons[row].clone(),
                outlier: None,
                launches: launches[row].unwrap_or_default(),
                launch_mode: mode(&modes[row]),
                wall_ns: walls.is_valid(row).then(|| walls.value(row)),
                conditions,
            });
        }
    }
    Ok(samples)
}

/// The rows of `metrics`. They are of annotations, and never of a kernel.
fn counted(batches: &[RecordBatch]) -> Result<Vec<MetricRow>> {
    let (mut texts, mut rows) = (Texts::default(), Vec::new());
    for batch in batches {
        let mut words = |name| texts.of(batch, at(batch, name)?);
        let (paths, metrics, asked) = (words("range_path")?, words("metric")?, words("asked")?);
        let (reasons, units, chips) = (words("null_reason")?, words("unit")?, words("chip")?);
        let (range_modes, replay_modes) = (words("range_mode")?, words("replay_mode")?);
        let (caches, clocks, configs) = (words("cache_state")?, words("clock_mode")?, words("config")?);
        let whole = |name| int64(batch, at(batch, name)?);
        let small = |name| uint32(batch, at(batch, name)?);
        let (ranges, indices, runs) = (whole("range_index")?, whole("config_index")?, whole("run")?);
        let (passes, devices) = (small("passes")?, small("device")?);
        let levels = uint16(batch, at(batch, "nesting_level")?)?;
        let values = float64(batch, at(batch, "value")?)?;
        let text = |text: &Option<Arc<str>>| text.clone().unwrap_or_default();
        rows.extend((0..batch.num_rows()).map(|row| MetricRow {
            range_path: paths[row].clone(),
            range_index: ranges.value(row),
            nesting_level: levels.value(row),
            kernel: None,
            metric: text(&metrics[row]),
            asked: text(&asked[row]),
            value: value(values, row),
            null_reason: reasons[row].clone(),
            unit: text(&units[row]),
            passes: passes.value(row),
            range_mode: text(&range_modes[row]),
            replay_mode: text(&replay_modes[row]),
            cache_state: text(&caches[row]),
            clock_mode: text(&clocks[row]),
            chip: text(&chips[row]),
            device: devices.value(row),
            config: configs[row].clone(),
            config_index: value(indices, row),
            run: value(runs, row),
        }));
    }
    Ok(rows)
}

/// The conditions of each row; none where nothing is known of them.
fn conditions(batch: &RecordBatch, throttles: &[Option<Arc<str>>]) -> Result<Vec<Option<RunConditions>>> {
    let small = |name| uint32(batch, at(batch, name)?);
    let whole = |name| int64(batch, at(batch, name)?);
    let (sm_clocks, memory_clocks, powers) =
        (small("sm_clock_mhz")?, small("memory_clock_mhz")?, small("power_mw")?);
    let temperatures: Vec<Option<i32>> = numbers(whole("temperature_c")?).collect();
    let margins: Vec<Option<i32>> = numbers(whole("thermal_margin_c")?).collect();
    let by_power: Vec<Option<u64>> = numbers(whole("power_throttled_ns")?).collect();
    let by_heat: Vec<Option<u64>> = numbers(whole("thermal_throttled_ns")?).collect();
    let of_row = |row: usize| {
        let conditions = RunConditions {
            sm_clock_mhz: value(sm_clocks, row),
            memory_clock_mhz: value(memory_clocks, row),
            temperature_c: temperatures[row],
            thermal_margin_c: margins[row],
            power_mw: value(powers, row),
            throttle: throttles[row].as_deref().and_then(ThrottleReasons::named),
            power_throttled_ns: by_power[row],
            thermal_throttled_ns: by_heat[row],
        };
        Some(conditions).filter(|conditions| *conditions != RunConditions::default())
    };
    Ok((0..batch.num_rows()).map(of_row).collect())
}

/// Why no more runs of each configuration were made.
fn stop_reasons(batches: &[RecordBatch]) -> Result<BTreeMap<usize, StopReason>> {
    let (mut texts, mut reasons) = (Texts::default(), BTreeMap::new());
    for batch in batches {
        let configs = numbers::<_, usize>(int64(batch, at(batch, "config_index")?)?);
        let told = texts.of(batch, at(batch, "stop_reason")?)?;
        let named = |text: &str| StopReason::ALL.into_iter().find(|reason| reason.as_str() == text);
        let rows = configs.zip(told).filter_map(|(config, text)| Some((config?, named(text.as_deref()?)?)));
        reasons.extend(rows);
    }
    Ok(reasons)
}

/// The losses that this crate knows by their names.
fn losses(dataset: &Dataset) -> Result<Vec<Loss>> {
    let (mut texts, mut losses) = (Texts::default(), Vec::new());
    for batch in dataset.batches(Table::Losses) {
        let batch = batch?;
        let counts = numbers::<_, u64>(int64(&batch, at(&batch, "count")?)?);
        for (name, count) in texts.of(&batch, at(&batch, "cause")?)?.into_iter().zip(counts) {
            let cause = Cause::ALL.iter().find(|cause| Some(cause.name()) == name.as_deref());
            losses.extend(cause.map(|cause| Loss {
                cause: cause.name(),
                count: count.unwrap_or_default(),
                meaning: cause.meaning(),
            }));
        }
    }
    Ok(losses)
}
