//! What the command takes for a large dataset: `cargo bench --features cli --bench command`.
//!
//! A recording of `examples/recordings` is repeated until it holds ten million kernels, and replayed to a dataset. Then the
//! command sums it up and draws it, several times, each in a process of its own: wall time, processor time (user and
//! system, of all its threads), and the peak of its memory. Beside it, where `CUPROF_PYTHON` names a Python that has
//! `duckdb`, DuckDB makes the same sums of the same files, on as many threads.
//!
//! `compare` gets two sides of five process runs, each with 100 configurations of 1000 runs, with the three times of each
//! run that a measurement has; their values are made up. DuckDB computes the means of blocks, and of these of process
//! runs, with their variance.
//!
//! Results: `benches/results/command.md`.
//!
//! Options, after `--`: a number of kernels (default 10 000 000), `repeat N` (default 5), `keep DIR` to keep the recording
//! and the dataset, and to use those that are there.
//!
//! What could make the numbers wrong: a shared machine (hence processor time beside wall time, and medians with their
//! spread); copies that are too much alike, and so compress too well; files that are in the page cache, as here.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout)]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use cuprof::stats::Random;
use cuprof::testing::{Measured, Ranges, enlarge, write_measured};
use cuprof::{Dataset, Replay, Table};

/// The queries that the summary's tables are.
const DUCKDB: &str = "
import sys, duckdb
d = sys.argv[1]
duckdb.sql(f\"SELECT kernel, count(*), sum(duration_ns), avg(duration_ns), min(duration_ns), max(duration_ns) FROM '{d}/launches-*.parquet' WHERE valid GROUP BY 1\").fetchall()
duckdb.sql(f\"SELECT range_path, count(*), sum(duration_ns) FROM '{d}/launches-*.parquet' WHERE valid GROUP BY 1\").fetchall()
duckdb.sql(f\"SELECT range_path, name, kind, count(*), sum(n_launches), sum(gpu_sum_ns), sum(gpu_span_ns) FROM '{d}/ranges-*.parquet' GROUP BY 1, 2, 3\").fetchall()
duckdb.sql(f\"SELECT operation, copy_kind, count(*), sum(bytes), sum(duration_ns) FROM '{d}/transfers-*.parquet' WHERE valid GROUP BY 1, 2\").fetchall()
";

/// Means of blocks, of these the logarithms' mean of each process run, and of these the mean and the variance.
const DUCKDB_COMPARE: &str = "
import sys, duckdb
d = sys.argv[1]
duckdb.sql(f\"\"\"
WITH samples AS (
  SELECT *, 'base' AS side FROM read_parquet('{d}/base/*/samples-*.parquet', filename = true) UNION ALL BY NAME
  SELECT *, 'new' AS side FROM read_parquet('{d}/new/*/samples-*.parquet', filename = true)),
blocks AS (
  SELECT side, filename, config, annotation, run // 25 AS block, avg(value) AS mean FROM samples
  WHERE metric = 'gpu__time_duration.sum' AND valid GROUP BY ALL),
processes AS (SELECT side, filename, config, annotation, avg(ln(mean)) AS x FROM blocks GROUP BY ALL)
SELECT side, config, annotation, avg(x), var_samp(x), count(*) FROM processes GROUP BY ALL\"\"\").fetchall()
";

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let value_of = |key: &str| {
        let at = arguments.iter().position(|argument| argument == key)?;
        arguments.get(at + 1)
    };
    let kernels = arguments.first().and_then(|count| count.parse().ok()).unwrap_or(10_000_000);
    let repetitions = value_of("repeat").and_then(|count| count.parse().ok()).unwrap_or(5);
    let temporary = tempfile::tempdir().unwrap();
    let folder = value_of("keep").map_or_else(|| temporary.path().to_owned(), PathBuf::from);
    let cuprof = env!("CARGO_BIN_EXE_cuprof");

    println!(
        "| input | rows: launches, transfers, ranges | what | wall s | user + sys s | peak MB | output MB |"
    );
    println!("|---|---|---|---|---|---|---|");
    for (name, ranges) in [("quick start", Ranges::Recorded), ("1000 kernels a range", Ranges::Every(1_000))]
    {
        let dataset = dataset(&folder, name, ranges, kernels);
        let found = Dataset::open(&dataset).unwrap();
        let rows =
            [Table::Launches, Table::Transfers, Table::Ranges].map(|table| found.rows(table).to_string());
        let rows = rows.join(", ");
        let trace = folder.join("run.pftrace");
        let mut ways: Vec<(&str, Command)> = vec![
            ("summary", command(cuprof, &["summary", "--allow-losses"], &dataset)),
            ("trace", {
                let mut trace_it =
                    command(cuprof, &["trace", "--allow-losses", "--force", "--output"], &trace);
                trace_it.arg(&dataset);
                trace_it
            }),
        ];
        if let Some(python) = std::env::var_os("CUPROF_PYTHON") {
            let mut duckdb = Command::new(python);
            duckdb.args(["-c", DUCKDB]).arg(&dataset);
            ways.push(("DuckDB, the sums of summary", duckdb));
        }
        for (what, mut command) in ways {
            let runs: Vec<Run> = (0..repetitions).map(|_| measure(&mut command)).collect();
            let output = if what == "trace" { std::fs::metadata(&trace).unwrap().len() } else { 0 };
            print_row(name, &rows, what, &runs, output);
        }
        let _ = std::fs::remove_file(&trace);
    }
    let sides = sides(&folder);
    let of = |side: &str| sides.join(side);
    let rows: u64 = ["base", "new"]
        .iter()
        .flat_map(|side| std::fs::read_dir(of(side)).unwrap())
        .map(|dataset| Dataset::open(dataset.unwrap().path()).unwrap().rows(Table::Samples))
        .sum();
    let mut ways = vec![("compare", {
        let mut compare = Command::new(cuprof);
        compare.args(["compare", "--margin", "5%"]).args([of("base"), of("new")]);
        compare
    })];
    if let Some(python) = std::env::var_os("CUPROF_PYTHON") {
        let mut duckdb = Command::new(python);
        duckdb.args(["-c", DUCKDB_COMPARE]).arg(&sides);
        ways.push(("DuckDB, the means of compare", duckdb));
    }
    for (what, mut command) in ways {
        let runs: Vec<Run> = (0..repetitions).map(|_| measure(&mut command)).collect();
        print_row("2 x 5 process runs", &format!("{rows} samples"), what, &runs, 0);
    }
    let starts: Vec<Run> = (0..50).map(|_| measure(Command::new(cuprof).arg("--version"))).collect();
    print_row("-", "-", "start (--version)", &starts, 0);
}

fn dataset(folder: &Path, name: &str, ranges: Ranges, kernels: u64) -> PathBuf {
    let name = name.replace(' ', "_");
    let dataset = folder.join(&name).with_extension("cuprof");
    if Dataset::open(&dataset).is_ok_and(|dataset| dataset.rows(Table::Launches) >= kernels) {
        return dataset;
    }
    let small = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/recordings/quickstart.cuprofrec");
    let large = folder.join(&name).with_extension("cuprofrec");
    enlarge(&small, ranges, kernels, &large).unwrap();
    Replay::open(&large).unwrap().output(&dataset).overwrite(true).run().unwrap();
    std::fs::remove_file(&large).unwrap();
    dataset
}

/// A folder with two sides of a comparison.
fn sides(folder: &Path) -> PathBuf {
    const CONFIGS: usize = 100;
    const RUNS: usize = 1_000;
    let sides = folder.join("sides");
    for (number, name) in ["base", "new"].iter().flat_map(|side| (0..5).map(move |run| (run, side))) {
        let dataset = sides.join(name).join(format!("{number}.cuprof"));
        if Dataset::open(&dataset).is_ok() {
            continue;
        }
        let mut random = Random::new(number + 10 * name.len() as u64);
        let mut measured = Vec::new();
        for config in 0..CONFIGS {
            let level = 2_000.0 * (config + 1) as f64 * (1.0 + 0.002 * (random.unit() - 0.5));
            let values: Vec<Option<f64>> =
                (0..RUNS).map(|_| Some((level * (1.0 + 0.01 * random.unit())).round())).collect();
            measured.extend(["gpu__time_duration.sum", "gpu_span", "gpu_busy"].map(|metric| Measured {
                parameters: vec![("n".to_owned(), config.to_string())],
                annotation: "run".to_owned(),
                metric: (metric.to_owned(), "ns".to_owned()),
                values: values.clone(),
            }));
        }
        write_measured(&dataset, &measured, None, &[("bench.tick_ns", "32")]).unwrap();
    }
    sides
}

fn command(program: &str, arguments: &[&str], last: &Path) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).arg(last);
    command
}

struct Run {
    wall: f64,
    cpu: f64,
    peak_kib: u64,
}

fn measure(command: &mut Command) -> Run {
    let (before, start) = (children_seconds(), Instant::now());
    let mut child = command.stdout(Stdio::null()).spawn().unwrap();
    let status = PathBuf::from(format!("/proc/{}/status", child.id()));
    let mut peak_kib = 0;
    let ended = loop {
        peak_kib = peak_kib.max(peak(&status));
        if let Some(ended) = child.try_wait().unwrap() {
            break ended;
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    let wall = start.elapsed().as_secs_f64();
    assert!(ended.success());
    Run { wall, cpu: children_seconds() - before, peak_kib }
}

/// The peak of a process's resident memory so far.
fn peak(status: &Path) -> u64 {
    let status = std::fs::read_to_string(status).unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).unwrap_or(0)
}

/// Processor time of all children that have ended.
fn children_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    // After the name, which may hold anything, in clock ticks of 10 ms.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    let ticks: f64 = fields[13..15].iter().map(|field| field.parse::<f64>().unwrap()).sum();
    ticks / 100.0
}

fn print_row(name: &str, rows: &str, what: &str, runs: &[Run], output: u64) {
    let spread = |of: fn(&Run) -> f64| {
        let mut values: Vec<f64> = runs.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        let (least, median, most) = (values[0], values[values.len() / 2], values[values.len() - 1]);
        format!("{median:.3} ({least:.3} to {most:.3})")
    };
    let peak = runs.iter().map(|run| run.peak_kib).max().unwrap_or(0) as f64 * 1024.0 / 1e6;
    let output = if output > 0 { format!("{:.0}", output as f64 / 1e6) } else { String::new() };
    println!(
        "| {name} | {rows} | {what} | {} | {} | {peak:.0} | {output} |",
        spread(|run| run.wall),
        spread(|run| run.cpu)
    );
}
