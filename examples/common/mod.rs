//! What the examples share: a GPU with a session if there is one, and else a recording to replay.
//!
//! In a program of your own, none of this is needed: start a session, do the work, finish.
#![allow(dead_code, reason = "each example uses a part of it")]

#[allow(clippy::panic, clippy::unwrap_used, reason = "a column that is not there is a fault of the program")]
#[path = "../../tests/gpu/frame.rs"]
pub mod frame;
pub mod tutorial;

use std::error::Error;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_schema::DataType;
use cuprof::{Dataset, ErrorKind, Profile, Profiler, Replay};
use cuprof_workload::Gpu;

/// `--output DIR` and `--record FILE`.
pub struct Options {
    /// Where the dataset goes.
    pub output: PathBuf,
    /// Where a recording of the run goes, if one is wanted.
    pub record: Option<PathBuf>,
    /// Whatever else was given.
    pub rest: Vec<String>,
}

impl Options {
    /// Reads the program's arguments.
    pub fn from_args(default_output: &str) -> Result<Self, Box<dyn Error>> {
        let mut options = Self { output: default_output.into(), record: None, rest: Vec::new() };
        let mut args = std::env::args().skip(1);
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or_else(|| format!("{arg} needs a path"));
            match arg.as_str() {
                "--output" => options.output = value()?.into(),
                "--record" => options.record = Some(value()?.into()),
                _ if arg.starts_with('-') => {
                    return Err(
                        format!("unknown option {arg}; there are --output DIR and --record FILE").into()
                    );
                }
                _ => options.rest.push(arg),
            }
        }
        Ok(options)
    }
}

/// Prints an error as a sentence, which returning it from `main` would not. A reader that has seen enough (`| head`) is
/// no error.
pub fn exit_code(result: Result<(), Box<dyn Error>>) -> ExitCode {
    let Err(error) = result else { return ExitCode::SUCCESS };
    let cause = error.downcast_ref::<std::io::Error>();
    if cause.is_some_and(|cause| cause.kind() == std::io::ErrorKind::BrokenPipe) {
        return ExitCode::SUCCESS;
    }
    #[expect(clippy::print_stderr, reason = "a program says why it fails")]
    {
        eprintln!("error: {error}");
    }
    ExitCode::FAILURE
}

/// Runs `work` on the GPU in a session. Where there is no GPU, replays `recording` instead, which was made by the
/// same program on a machine that has one. The first line printed says which of the two it was.
pub fn live_or_replayed(
    options: &Options,
    recording: &str,
    work: impl FnOnce(&Gpu) -> Result<(), String>,
) -> Result<Profile, Box<dyn Error>> {
    match start(options)? {
        Ok((profiler, gpu)) => {
            work(&gpu)?;
            let profile = profiler.finish()?;
            let machine = machine(&profile).unwrap_or_else(|| gpu.describe());
            writeln!(std::io::stdout(), "live on {machine}")?;
            Ok(profile)
        }
        Err(reason) => {
            let file = recordings().join(recording).with_extension("cuprofrec");
            let profile = replay(&file, &options.output)
                .map_err(|error| format!("no GPU here ({reason}), and {}: {error}", file.display()))?;
            let machine = machine(&profile).unwrap_or_else(|| "another machine".to_owned());
            let file = file.display();
            writeln!(
                std::io::stdout(),
                "no GPU here ({reason}): replaying the recording {file} made on {machine}"
            )?;
            Ok(profile)
        }
    }
}

/// A session and the GPU; or, as a value, the reason why there is none.
fn start(options: &Options) -> Result<Result<(Profiler, Gpu), String>, Box<dyn Error>> {
    if let Err(reason) = Gpu::probe() {
        return Ok(Err(reason));
    }
    let mut builder = Profiler::builder().output(&options.output).overwrite(true);
    if let Some(file) = &options.record {
        builder = builder.record(file);
    }
    // A session may start before the program touches the GPU, and best does.
    match builder.start() {
        Ok(profiler) => Ok(Ok((profiler, Gpu::open()?))),
        Err(error)
            if matches!(error.kind, ErrorKind::NoDriver | ErrorKind::NoDevice | ErrorKind::CuptiNotFound) =>
        {
            // The first line is the reason; what was tried, and what to do, follows it.
            Ok(Err(error.to_string().lines().next().unwrap_or_default().to_owned()))
        }
        Err(error) => Err(error.into()),
    }
}

/// Runs a recording through what a session runs its records through.
pub fn replay(recording: &Path, output: &Path) -> Result<Profile, Box<dyn Error>> {
    Ok(Replay::open(recording)?.output(output).overwrite(true).run()?)
}

/// Where the recordings lie: beside the sources, wherever the program was started.
pub fn recordings() -> PathBuf {
    let here = PathBuf::from("examples/recordings");
    if here.is_dir() { here } else { Path::new(env!("CARGO_MANIFEST_DIR")).join(here) }
}

/// `NVIDIA H200 (driver 580.159.03, CUPTI 13.0.1)`, from the facts that are stored with every dataset.
fn machine(profile: &Profile) -> Option<String> {
    let facts = Dataset::open(profile.dataset()?).ok()?.env().ok()?;
    let gpu = facts.get("gpu.0.name")?;
    let driver = facts.get("driver.version").or_else(|| facts.get("driver.cuda_version"))?;
    let cupti = facts.get("cupti.version")?.split(" (").next()?; // "CUPTI 13.0.1 (API 130001)"
    Some(format!("{gpu} (driver {driver}, {cupti})"))
}

/// Prints the summary, and how to go on from the files.
pub fn print_summary(profile: &Profile) -> std::io::Result<()> {
    let mut stdout = std::io::stdout();
    write!(stdout, "{}", profile.summary())?;
    if let Some(dataset) = profile.dataset() {
        let dataset = dataset.display();
        writeln!(stdout, "\nThe rows are in {dataset}. For example, with DuckDB:")?;
        writeln!(
            stdout,
            "  duckdb -c \"SELECT range_path, kernel, count(*) AS launches, sum(duration_ns) / 1e6 AS ms \
             FROM '{dataset}/launches-*.parquet' GROUP BY ALL ORDER BY ms DESC\""
        )?;
    }
    Ok(())
}

/// The texts of a column, which is dictionary-encoded where texts repeat; none for null.
pub fn texts(column: &dyn Array) -> Result<Vec<Option<String>>, Box<dyn Error>> {
    let owned = |text: Option<&str>| text.map(str::to_owned);
    match column.data_type() {
        DataType::Utf8 => Ok(column.as_string::<i32>().iter().map(owned).collect()),
        DataType::Dictionary(_, _) => {
            let dictionary = column.as_any_dictionary();
            let words = texts(dictionary.values().as_ref())?;
            if words.is_empty() {
                return Ok(vec![None; column.len()]);
            }
            let keys = dictionary.normalized_keys();
            let word =
                |(row, key): (usize, usize)| if column.is_null(row) { None } else { words[key].clone() };
            Ok(keys.into_iter().enumerate().map(word).collect())
        }
        other => Err(format!("a column of type {other} holds no texts").into()),
    }
}
