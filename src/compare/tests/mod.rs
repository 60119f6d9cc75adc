//! Comparisons of datasets whose values are made up.

mod joins;
mod outputs;
mod pairing;
mod verdicts;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Collection, Compared, Outcome, Rules};
use crate::stats::Random;
use crate::table::rows::{EnvRow, LossRow, SampleRow};
use crate::table::schema::Table;
use crate::table::writer::{DatasetWriter, TableSink, WriterOptions};

type TestOutcome = std::result::Result<(), Box<dyn std::error::Error>>;

/// Facts that all datasets share unless a test says otherwise.
const FACTS: [(&str, &str); 7] = [
    ("bench.name", "gemm"),
    ("bench.tick_ns", "32"),
    ("bench.input_fill", "zeros"),
    ("gpu.name", "NVIDIA H200"),
    ("gpu.uuid", "GPU-1"),
    ("driver.version", "580.159"),
    ("cupti.version", "13.0.85"),
];

/// A dataset of one process run.
#[derive(Clone, Default)]
struct Process {
    rows: Vec<SampleRow>,
    /// In place of facts of the same key; an empty value takes it away.
    facts: Vec<(&'static str, String)>,
    losses: Vec<LossRow>,
}

impl Process {
    fn fact(mut self, key: &'static str, value: &str) -> Self {
        self.facts.push((key, value.to_owned()));
        self
    }

    fn write(&self, folder: &Path) -> TestOutcome {
        let options = WriterOptions { tables: vec![Table::Samples], ..WriterOptions::default() };
        let mut writer = DatasetWriter::create(folder, options)?;
        self.rows.iter().for_each(|row| writer.sample(row));
        let own =
            |key: &str| self.facts.iter().rev().find(|(own, _)| *own == key).map(|(_, value)| value.as_str());
        let shared = FACTS.iter().filter(|(key, _)| own(key).is_none()).map(|(key, value)| (*key, *value));
        let facts: Vec<(&str, &str)> =
            shared.chain(self.facts.iter().map(|(key, value)| (*key, value.as_str()))).collect();
        for (key, value) in facts.into_iter().filter(|(_, value)| !value.is_empty()) {
            writer.env(&EnvRow { key: key.to_owned(), value: value.to_owned() });
        }
        self.losses.iter().for_each(|loss| writer.loss(loss));
        writer.close().first_error.map_or(Ok(()), |error| Err(error.into()))
    }
}

/// One value of one run, with pinned clocks.
fn sample(config: &str, annotation: &str, run: i64, ns: f64) -> SampleRow {
    SampleRow {
        config: config.into(),
        config_index: 0,
        parameters: "{}".into(),
        run: Some(run),
        order: Some(run),
        start_ns: 1_790_000_000_000_000_000 + run * 1_000_000,
        block: Some(0),
        annotation: annotation.into(),
        range_id: None,
        repeat: 0,
        kernel: None,
        metric: "gpu__time_duration.sum".into(),
        unit: "ns".into(),
        value: Some(ns),
        invalid_reason: None,
        outlier: None,
        n_launches: 1,
        launch_mode: Some("stream"),
        wall_ns: None,
        cache_state: "cold_clean".into(),
        clock_mode: "fixed_frequency".into(),
        sm_clock_mhz: Some(1_980),
        memory_clock_mhz: None,
        temperature_c: None,
        thermal_margin_c: None,
        power_mw: None,
        throttle: None,
        power_throttled_ns: None,
        thermal_throttled_ns: None,
        cells: Arc::default(),
    }
}

/// A normal deviate (Box and Muller).
fn normal(random: &mut Random) -> f64 {
    (-2.0 * random.unit().ln()).sqrt() * (std::f64::consts::TAU * random.unit()).cos()
}

/// How values scatter: from process run to process run, and within one, as shares.
#[derive(Clone, Copy)]
struct Noise {
    process: f64,
    within: f64,
}

const QUIET: Noise = Noise { process: 0.001, within: 0.003 };

/// Process runs of a measurement with some configurations, all around a level.
fn processes(
    seed: u64,
    process_runs: usize,
    configs: usize,
    runs: i64,
    level_ns: f64,
    noise: Noise,
) -> Vec<Process> {
    let mut random = Random::new(seed);
    let mut process = |_| {
        let mut rows = Vec::new();
        for config in 0..configs {
            let level = level_ns * (1.0 + noise.process * normal(&mut random));
            let name = format!("n={config}");
            rows.extend(
                (0..runs)
                    .map(|run| sample(&name, "run", run, level * (1.0 + noise.within * normal(&mut random)))),
            );
        }
        Process { rows, ..Process::default() }
    };
    (0..process_runs).map(&mut process).collect()
}

/// A folder with a dataset for each process run.
fn side(folder: &Path, name: &str, processes: &[Process]) -> Result<PathBuf, Box<dyn std::error::Error>> {
    let side = folder.join(name);
    for (number, process) in processes.iter().enumerate() {
        process.write(&side.join(format!("{number}.cuprof")))?;
    }
    Ok(side)
}

/// Both sides, compared.
fn compared(
    rules: &Rules,
    base: &[Process],
    new: &[Process],
) -> Result<Compared, Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let (base, new) = (side(folder.path(), "base", base)?, side(folder.path(), "new", new)?);
    Ok(rules.compare(&Collection::open([base])?, &Collection::open([new])?)?)
}

/// The verdicts and the reasons of all rows.
fn verdicts(compared: &Compared) -> Vec<(String, &'static str, String)> {
    compared.rows.iter().map(|row| (row.key.to_string(), row.verdict(), row.reason())).collect()
}

fn only(compared: &Compared) -> Result<(&'static str, String), String> {
    match compared.rows.as_slice() {
        [row] => Ok((row.verdict(), row.reason())),
        rows => Err(format!("{} rows: {:?}", rows.len(), verdicts(compared))),
    }
}

/// The keys that keep the only row from being compared.
fn mismatches(compared: &Compared) -> Vec<&'static str> {
    let outcomes = compared.rows.iter().map(|row| &row.outcome);
    let found = outcomes.filter_map(|outcome| match outcome {
        Outcome::Incomparable(mismatches) => Some(mismatches),
        Outcome::Compared(_) => None,
    });
    found.flatten().map(|mismatch| mismatch.key.name()).collect()
}
