//! One kernel: how long does a matrix product of 2048 rows take, and what is known of it?
//!
//! A run launches kernels that prepare it, too. What counts is what `measure` is around, however many kernels that is;
//! nothing has to be said of how they combine.
//!
//! ```sh
//! cargo run --release --example tutorial_01_one_kernel         # writes tutorial_01_one_kernel/, needs a GPU
//! ```

mod common;

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use common::frame::Frame;
use common::tutorial::{Outcome, csv, durations, holds};
use cuprof::{Bench, Dataset, Table};
use cuprof_workload::Gpu;

const ROWS: u32 = 2048;
const RUNS: usize = 10;
const ANNOTATIONS: [&str; 2] = ["matmul", "matmul and sums"];

fn main() -> ExitCode {
    common::tutorial::run(measure, |_| {
        write!(std::io::stdout(), "{}", cuprof::doctor())?;
        Ok(())
    })
}

fn measure(gpu: &Gpu, folder: &Path) -> Outcome {
    let mut out = std::io::stdout();
    let environment: Vec<_> = std::env::vars_os().collect();
    let stream = gpu.stream()?;
    let len = (ROWS * ROWS) as usize;
    let (mut a, b, mut c) =
        (gpu.zeros(&stream, len)?, gpu.upload(&stream, &vec![1.0; len])?, gpu.zeros(&stream, len)?);
    let mut sums = gpu.zeros(&stream, len / 256)?;

    let dataset = folder.join("bench.cuprof");
    let report = Bench::new("one kernel")
        .runs(RUNS)
        .output(&dataset) // the times of each run, and a row for each kernel
        .derive("speed", "TFLOP/s", |measured, ()| {
            2.0 * f64::from(ROWS).powi(3) / measured.duration_ns() / 1e3
        })
        .run(|run, ()| {
            gpu.fill(&stream, &mut a, 1.0)?; // prepares the run, and does not count
            run.measure(ANNOTATIONS[0], || gpu.gemm(&stream, &a, &b, &mut c, ROWS))?;
            run.measure(ANNOTATIONS[1], || {
                gpu.gemm(&stream, &a, &b, &mut c, ROWS)?;
                gpu.reduce(&stream, &c, &mut sums)
            })
        })?;
    writeln!(out, "{report}")?;

    // The same in the columns that users of Nsight Python know; those after `Geomean` are this crate's.
    let (heading, rows) = csv(&report.compat_csv());
    for (column, value) in heading.iter().zip(rows.first().ok_or("the table is empty")?) {
        writeln!(out, "{column:>20}  {value}")?;
    }

    // Each kernel by itself.
    let launches = Frame::read(
        &Dataset::open(&dataset)?,
        Table::Launches,
        &[
            "range_path",
            "kernel",
            "grid_x",
            "grid_y",
            "block_x",
            "block_y",
            "registers_per_thread",
            "duration_ns",
        ],
    )?;
    writeln!(out, "\nfirst launches of each annotation     grid       block  registers      ns")?;
    for (annotation, kernels) in ANNOTATIONS.iter().zip([1, 2]) {
        let its = launches.rows().filter(|row| row.text("range_path") == Some(annotation));
        for row in its.take(kernels) {
            let kernel = row.text("kernel").and_then(|name| name.split('(').next()).unwrap_or_default();
            writeln!(
                out,
                "{annotation:<16}  {kernel:<12}  {:>6} x {:<4} {:>4} x {:<4} {:>9} {:>9}",
                row.number("grid_x"),
                row.number("grid_y"),
                row.number("block_x"),
                row.number("block_y"),
                row.number("registers_per_thread"),
                row.number("duration_ns"),
            )?;
        }
    }
    writeln!(out)?;

    for (annotation, kernels) in ANNOTATIONS.iter().zip([1, 2]) {
        let rows = launches.rows().filter(|row| row.text("range_path") == Some(annotation));
        let rows: Vec<i64> = rows.filter_map(|row| row.int("duration_ns")).collect();
        let sum: f64 = durations(&report, 0, annotation).iter().sum();
        holds(
            rows.len() == RUNS * kernels && rows.iter().sum::<i64>() as f64 == sum,
            format!("the runs of {annotation:?} take {sum} ns, the sum over their {} kernels", rows.len()),
        )?;
    }
    let outside = launches.rows().filter(|row| row.text("range_path").is_none()).count();
    holds(
        outside > RUNS,
        format!("{outside} launches that prepared runs or warmed up are in no annotation"),
    )?;
    holds(
        environment.into_iter().eq(std::env::vars_os()),
        "measuring has changed no variable of the environment",
    )
}
