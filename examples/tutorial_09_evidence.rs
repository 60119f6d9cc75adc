//! Evidence: which files are left of a run, and can others rebuild the result from them?
//!
//! A traced session leaves Parquet files and, if asked for, a recording of all that CUPTI delivered. The recording makes
//! the same files and the same summary on any machine. `.ncu-rep` files are not written: they are Nsight Compute's.
//!
//! ```sh
//! cargo run --release --example tutorial_09_evidence           # writes tutorial_09_evidence/, on a machine with a GPU
//! ```
//!
//! Without a GPU it takes the recording of the quick start, and rebuilds from that.

mod common;

use std::error::Error;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use common::tutorial::{Outcome, holds};
use cuprof::counters::{Plan, Session};
use cuprof::{Bench, Cache, Dataset, Profile, Profiler, Replay, Symbols, Table};
use cuprof_workload::Gpu;

const ROWS: u32 = 512;
const LEN: usize = (ROWS * ROWS) as usize;

fn main() -> ExitCode {
    common::tutorial::run(measure, |folder| {
        let recording = common::recordings().join("quickstart.cuprofrec");
        writeln!(std::io::stdout(), "from {}:", recording.display())?;
        rebuild(&common::replay(&recording, &folder.join("run.cuprof"))?, &recording, folder)
    })
}

fn measure(gpu: &Gpu, folder: &Path) -> Outcome {
    let stream = gpu.stream()?;
    let (a, b) = (gpu.upload(&stream, &vec![1.0; LEN])?, gpu.upload(&stream, &vec![1.0; LEN])?);
    let mut c = gpu.zeros(&stream, LEN)?;

    // A session that traces and records.
    let (dataset, recording) = (folder.join("run.cuprof"), folder.join("run.cuprofrec"));
    let profiler = Profiler::builder().output(&dataset).record(&recording).start()?;
    for step in 0..20_u32 {
        let _step = cuprof::range!("step", index = step);
        cuprof::in_range("product", || gpu.gemm(&stream, &a, &b, &mut c, ROWS))?;
        cuprof::in_range("update", || gpu.saxpy(&stream, &mut c, &a, 0.5))?;
    }
    let profile = profiler.finish()?;

    // A measurement, whose samples and aggregates are tables, too, beside its launches.
    let report = Bench::new("product")
        .cache(Cache::Flush)
        .output(folder.join("bench.cuprof"))
        .run(|run, ()| run.measure("product", || gpu.gemm(&stream, &a, &b, &mut c, ROWS)))?;
    fs::write(folder.join("processed_data.csv"), report.compat_csv())?;

    // Counters, where this user may read them.
    let counted = Plan::for_device(0, ["headline"]).and_then(|plan| {
        Session::new(plan).run(|pass| pass.range("product", || gpu.gemm(&stream, &a, &b, &mut c, ROWS)))
    });
    match counted {
        Ok(counted) => drop(counted.write(folder.join("counters.cuprof"))?),
        Err(error) => writeln!(std::io::stdout(), "not counted: {error}")?,
    }
    rebuild(&profile, &recording, folder)
}

fn rebuild(profile: &Profile, recording: &Path, folder: &Path) -> Outcome {
    let mut out = std::io::stdout();
    let dataset = profile.dataset().ok_or("no dataset was written")?;
    let rebuilt = Replay::open(recording)?.output(folder.join("rebuilt.cuprof")).overwrite(true).run()?;

    for path in files(folder)? {
        let bytes = fs::metadata(&path)?.len();
        writeln!(out, "{bytes:>9} bytes  {}", path.strip_prefix(folder)?.display())?;
    }
    writeln!(out, "\n{}", profile.summary())?;
    let shown = dataset.display();
    writeln!(
        out,
        "Others read the files with what reads Parquet, such as DuckDB and pyarrow:\n  \
         duckdb -c \"SELECT kernel, count(*) FROM '{shown}/launches-*.parquet' GROUP BY ALL\"\n  \
         python -c \"import pyarrow.parquet as pq; print(pq.read_table('{shown}/launches-00000.parquet'))\"\n\
         The command (`cargo install --path . --features cli`) has the summary again, a timeline, and comparisons (with itself: never slower):\n  \
         cuprof summary {shown}\n  \
         cuprof trace {shown} --output run.pftrace\n  \
         cuprof compare {shown} {shown}\n"
    )?;

    let (original, again) = (Dataset::open(dataset)?, Dataset::open(folder.join("rebuilt.cuprof"))?);
    holds(original.is_complete(), "the dataset is complete")?;
    holds(profile.losses().is_empty(), "nothing was lost")?;
    for table in [Table::Launches, Table::Transfers, Table::Ranges] {
        let rows = original.rows(table);
        holds(rows == again.rows(table), format!("the recording has the same {rows} rows of {table}"))?;
    }
    let text = |profile: &Profile| profile.summary().render(100, Symbols::Ascii);
    holds(text(profile) == text(&rebuilt), "the summary that is rebuilt is the same, byte for byte")
}

/// Every file below a folder, by name.
fn files(folder: &Path) -> Result<Vec<std::path::PathBuf>, Box<dyn Error>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() { files.extend(self::files(&path)?) } else { files.push(path) }
    }
    files.sort();
    Ok(files)
}
