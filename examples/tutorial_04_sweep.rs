//! A sweep: how fast are matrix products of 512 to 4096 rows, and what do 16 bits bring over 32?
//!
//! cuBLAS computes them, and chooses other kernels for other sizes; a run's time is that of all of them. The speed is
//! derived from each run's time, and the ratio of the two precisions comes from pairs of the same run, with an interval.
//!
//! ```sh
//! cargo run --release --example tutorial_04_sweep              # writes tutorial_04_sweep/, needs a GPU, cuBLAS
//! ```

mod common;

use std::cell::RefCell;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use common::tutorial::{Outcome, aggregate, csv, durations, holds, median, values};
use cuprof::bench::{DURATION, Report};
use cuprof::stats::Sample;
use cuprof::{Bench, Cache};
use cuprof_workload::{Blas, Elements, Gpu, Product};

const ROWS: [u16; 4] = [512, 1024, 2048, 4096];
const PRECISIONS: [Elements; 2] = [Elements::Single, Elements::Half];
const SPEED: &str = "speed";

fn main() -> ExitCode {
    common::tutorial::run(measure, |_| {
        writeln!(
            std::io::stdout(),
            "It would multiply matrices of {ROWS:?} rows in fp32 and fp16, five times each."
        )?;
        Ok(())
    })
}

fn measure(gpu: &Gpu, folder: &Path) -> Outcome {
    let mut out = std::io::stdout();
    let stream = gpu.stream()?;
    let blas = Blas::open(gpu, &stream)?;
    writeln!(out, "{}", blas.describe()?)?;
    let product = |elements, rows| Ok::<_, String>(RefCell::new(Product::of_ones(&stream, elements, rows)?));
    let products =
        ROWS.map(|rows| Ok::<_, String>((rows, PRECISIONS.map(|elements| product(elements, rows)))));
    let products = products.into_iter().collect::<Result<Vec<_>, _>>()?;

    let report = Bench::new("matrix products")
        .configs(ROWS)
        .parameters(["n"])
        .runs(5)
        .cache(Cache::Flush)
        .output(folder.join("bench.cuprof"))
        .derive(SPEED, "TFLOP/s", |measured, n| 2.0 * f64::from(*n).powi(3) / measured.duration_ns() / 1e3)
        .normalize_against(PRECISIONS[0].name())
        .run(|run, n| -> Result<(), String> {
            let (_, products) =
                products.iter().find(|(rows, _)| rows == n).ok_or("there is no such product")?;
            for (elements, product) in PRECISIONS.iter().zip(products) {
                let product = product.as_ref().map_err(Clone::clone)?;
                run.measure(elements.name(), || blas.multiply(&mut product.borrow_mut()))?;
            }
            Ok(())
        })?;
    for product in products.iter().flat_map(|(_, products)| products).flatten() {
        product.borrow().check(&stream)?;
    }
    let compat = report.compat_csv();
    fs::write(folder.join("processed_data.csv"), &compat)?;

    writeln!(out, "{report}\n      n  fp32 TFLOP/s  fp16 TFLOP/s  fp16 / fp32  95 % interval")?;
    let mut without_interval = 0;
    for (config, n) in ROWS.iter().enumerate() {
        let ratio = aggregate(&report, config, PRECISIONS[1].name(), SPEED)?.normalised.as_ref();
        let ratio = ratio.ok_or("fp16 was not compared with fp32")?;
        without_interval += usize::from(ratio.interval.is_none());
        writeln!(
            out,
            "{n:>7} {:>13.1} {:>13.1} {:>12.2}  {}",
            median(&report, config, PRECISIONS[0].name(), SPEED)?,
            median(&report, config, PRECISIONS[1].name(), SPEED)?,
            ratio.ratio,
            ratio.interval.map_or("-".to_owned(), |ends| format!("{:.2} to {:.2}", ends.low, ends.high)),
        )?;
    }
    writeln!(out)?;
    holds(without_interval == 0, "each ratio has an interval")?;
    let cells = checked_cells(&report, &compat)?;
    holds(cells > 0, format!("{cells} cells of processed_data.csv are what Nsight Python's formulas give"))
}

/// Computes the columns that Nsight Python has by its formulas, and compares.
fn checked_cells(report: &Report, compat: &str) -> Result<usize, Box<dyn std::error::Error>> {
    let (heading, rows) = csv(compat);
    let mut cells = 0;
    for row in &rows {
        let cell = |name: &str| heading.iter().position(|column| column == name).and_then(|at| row.get(at));
        let (Some(annotation), Some(metric), Some(n)) = (cell("Annotation"), cell("Metric"), cell("n"))
        else {
            return Err("the table lacks columns".into());
        };
        let config = ROWS.iter().position(|rows| rows.to_string() == *n).ok_or("an unknown configuration")?;
        let of = |annotation: &str| Sample::new(values(report, config, annotation, metric));
        let (its, base) = (of(annotation)?, of(PRECISIONS[0].name())?);
        let (mean, s) = its.mean().zip(its.std_dev()).ok_or("no values")?;
        let half_width = 1.96 * s / (its.n() as f64).sqrt();
        for (column, expected, scale) in [
            ("AvgValue", mean / base.mean().unwrap_or(1.0), 0.0),
            ("StdDev", s, mean),
            ("NumRuns", its.n() as f64, 0.0),
            ("CI95_Lower", mean - half_width, mean),
            ("CI95_Upper", mean + half_width, mean),
            ("RelativeStdDevPct", 100.0 * s / mean, 100.0),
        ] {
            let found: f64 = cell(column).ok_or("the table lacks columns")?.parse()?;
            if (found - expected).abs() > 1e-12 * (expected.abs() + scale) {
                return Err(format!(
                    "{column} of {annotation}, {metric}, n = {n} is {found}, not {expected}"
                )
                .into());
            }
            cells += 1;
        }
    }
    // Every run of every configuration went into that.
    let runs: usize =
        (0..ROWS.len()).map(|config| durations(report, config, PRECISIONS[0].name()).len()).sum();
    let told = aggregate(report, 0, PRECISIONS[0].name(), DURATION)?.runs;
    if runs == told * ROWS.len() { Ok(cells) } else { Err("a run has no duration".into()) }
}
