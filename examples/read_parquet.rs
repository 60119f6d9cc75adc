//! Reading a dataset back: the time of each kernel, and of each range, from Arrow batches.
//!
//! ```sh
//! cargo run --release --example read_parquet                   # of a recording that comes with the crate
//! cargo run --release --example read_parquet -- my.cuprof      # of any dataset
//! ```
//!
//! The files are plain Parquet. DuckDB, polars and pandas read them as well; this is for programs in Rust.

mod common;

use std::collections::HashMap;
use std::error::Error;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use cuprof::{Dataset, Table};

/// A number of launches and the nanoseconds that they took together.
type Total = (u64, i64);

fn main() -> ExitCode {
    common::exit_code(run())
}

fn run() -> Result<(), Box<dyn Error>> {
    let options = common::Options::from_args("read_parquet.cuprof")?;
    let folder: PathBuf = match options.rest.first() {
        Some(folder) => folder.into(),
        None => {
            let recording = common::recordings().join("quickstart.cuprofrec");
            writeln!(std::io::stdout(), "replaying {}", recording.display())?;
            common::replay(&recording, &options.output)?;
            options.output
        }
    };

    let dataset = Dataset::open(&folder)?;
    let mut by_kernel: HashMap<String, Total> = HashMap::new();
    let mut by_range: HashMap<String, Total> = HashMap::new();
    for batch in dataset.batches(Table::Launches) {
        let batch = batch?; // some ten thousand rows, column by column
        let column = |name: &str| batch.column_by_name(name).ok_or_else(|| format!("no column {name}"));
        let kernels = common::texts(column("kernel")?)?;
        let ranges = common::texts(column("range_path")?)?;
        // Null where the times cannot be used; `invalid_reason` says why.
        let durations = column("duration_ns")?.as_primitive::<Int64Type>();
        for ((kernel, range), duration) in kernels.into_iter().zip(ranges).zip(durations) {
            let Some(duration) = duration else { continue };
            let range = range.unwrap_or_else(|| "(no range)".to_owned());
            for total in [by_kernel.entry(kernel.unwrap_or_default()), by_range.entry(range)] {
                let total = total.or_default();
                total.0 += 1;
                total.1 += duration;
            }
        }
    }
    print_totals("kernel", by_kernel)?;
    print_totals("range (innermost)", by_range)?;
    Ok(())
}

fn print_totals(what: &str, totals: HashMap<String, Total>) -> std::io::Result<()> {
    let mut totals: Vec<_> = totals.into_iter().collect();
    totals.sort_by(|(name, a), (other, b)| b.1.cmp(&a.1).then(name.cmp(other)));
    let mut stdout = std::io::stdout();
    writeln!(stdout, "\nlaunches   total ms    mean µs   {what}")?;
    for (name, (launches, nanoseconds)) in totals {
        let (total, mean) = (nanoseconds as f64 / 1e6, nanoseconds as f64 / 1e3 / launches as f64);
        writeln!(stdout, "{launches:>8} {total:>10.3} {mean:>10.2}   {name}")?;
    }
    Ok(())
}
