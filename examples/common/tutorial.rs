//! What the tutorials share: they measure where there is a GPU, and elsewhere say what to do and show what they can.

use std::error::Error;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use cuprof::bench::{Aggregate, DURATION, Report};
use cuprof::counters::Plan;
use cuprof_workload::Gpu;

/// An error of any kind, as a sentence.
pub type Outcome = Result<(), Box<dyn Error>>;

/// Runs a tutorial: the first function where there is a GPU, with an empty folder for its files (`--output`), the second
/// one elsewhere. Nothing in this process can change clocks.
pub fn run(live: impl FnOnce(&Gpu, &Path) -> Outcome, elsewhere: impl FnOnce(&Path) -> Outcome) -> ExitCode {
    let example = env!("CARGO_BIN_NAME");
    super::exit_code((|| {
        cuprof::forbid_clock_control();
        let options = super::Options::from_args(example)?;
        let mut out = std::io::stdout();
        match Gpu::probe() {
            Ok(()) => {
                let gpu = Gpu::open()?;
                writeln!(out, "{example}: live on {}\n", gpu.describe())?;
                live(&gpu, &new_folder(options.output)?)
            }
            Err(reason) => {
                writeln!(
                    out,
                    "{example}: not measured, no GPU here: {reason}\n\
                     On a machine with an NVIDIA GPU and its driver, `cargo run --release --example {example}`\n\
                     measures; examples/README.md has what it prints. `cuprof::doctor()` says what else is missing.\n"
                )?;
                elsewhere(&options.output)
            }
        }
    })())
}

/// Measured results are not written over.
fn new_folder(folder: PathBuf) -> Result<PathBuf, Box<dyn Error>> {
    fs::create_dir_all(folder.parent().unwrap_or(Path::new("")))?;
    match fs::create_dir(&folder) {
        Ok(()) => Ok(folder),
        Err(error) => {
            let folder = folder.display();
            Err(format!("{folder}: {error}; choose another folder with --output, or remove this one").into())
        }
    }
}

/// Elsewhere: the plan for counting these metrics. That needs no GPU, but some versions of CUPTI a driver.
pub fn plan(metrics: &[&str]) -> Outcome {
    match Plan::new("GH100", metrics) {
        Ok(plan) => write!(std::io::stdout(), "the plan for an H100 or H200: {plan}")?,
        Err(error) => writeln!(std::io::stdout(), "not planned either: {error}")?,
    }
    Ok(())
}

/// Prints that a condition holds, or fails because it does not. A tutorial ends non-zero then.
pub fn holds(condition: bool, what: impl AsRef<str>) -> Outcome {
    let what = what.as_ref();
    if !condition {
        return Err(format!("this does not hold: {what}").into());
    }
    writeln!(std::io::stdout(), "holds: {what}")?;
    Ok(())
}

/// The metric of an annotation in a configuration, which must be there.
pub fn aggregate<'a>(
    report: &'a Report,
    config: usize,
    annotation: &str,
    metric: &str,
) -> Result<&'a Aggregate, String> {
    report
        .aggregate(config, annotation, metric)
        .ok_or_else(|| format!("no {metric} of {annotation:?} in configuration {config}\n{report}"))
}

/// The median of a metric; an error, with what the report tells, where no run has a value.
pub fn median(report: &Report, config: usize, annotation: &str, metric: &str) -> Result<f64, String> {
    let median = aggregate(report, config, annotation, metric)?.told.median();
    median.ok_or_else(|| format!("{metric} of {annotation:?} has no value: {}", report.warnings().join("; ")))
}

/// The durations of an annotation in a configuration, in nanoseconds, of each run that is valid.
pub fn durations(report: &Report, config: usize, annotation: &str) -> Vec<f64> {
    values(report, config, annotation, DURATION)
}

/// The values of a metric, of each run that is valid.
pub fn values(report: &Report, config: usize, annotation: &str, metric: &str) -> Vec<f64> {
    let its = report.samples().iter().filter(|sample| {
        sample.config_index == config
            && &*sample.annotation == annotation
            && &*sample.metric == metric
            && sample.kernel.is_none()
    });
    its.filter_map(|sample| sample.value).collect()
}

/// A fact that the report notes, such as `gpu.l2_bytes`.
pub fn fact<'a>(report: &'a Report, key: &str) -> Result<&'a str, String> {
    let fact = report.facts().iter().find(|(name, _)| name == key);
    fact.map(|(_, value)| value.as_str()).ok_or_else(|| format!("the report notes no {key}"))
}

/// A table of comma-separated values: its heading, and its rows with as many cells.
pub fn csv(text: &str) -> (Vec<String>, Vec<Vec<String>>) {
    let mut rows = vec![vec![String::new()]];
    let mut quoted = false;
    for c in text.trim_end().chars() {
        let row = rows.last_mut();
        match (c, quoted, row) {
            // Where two stand for one, that one is left out; no table here has any.
            ('"', ..) => quoted = !quoted,
            (',', false, Some(row)) => row.push(String::new()),
            ('\n', false, _) => rows.push(vec![String::new()]),
            (c, _, Some(row)) => row.last_mut().into_iter().for_each(|cell| cell.push(c)),
            (_, _, None) => {}
        }
    }
    (rows.remove(0), rows)
}
