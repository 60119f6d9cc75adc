//! Collectors and heat: what else should stand beside the times?
//!
//! A collector notes a value once, for each configuration, run or annotation. One that fails gives null and is told of,
//! and the measurement goes on. Runs wait while the GPU is about to slow down by heat.
//!
//! ```sh
//! cargo run --release --example tutorial_07_collectors_and_heat   # writes tutorial_07_…/, needs a GPU, cuBLAS
//! ```

mod common;

use std::cell::RefCell;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;

use common::tutorial::{Outcome, csv, durations, fact, holds, median};
use cuprof::bench::{DURATION, Scope};
use cuprof::{Bench, GpuMonitor, Thermal};
use cuprof_workload::{Blas, Elements, Gpu, Product, cuda_version};

const RUNS: usize = 10;
const ABSENT: &str = "fan_rpm";
const COLLECTED: [&str; 2] = ["sm_clock_mhz", "temperature_c"];

fn main() -> ExitCode {
    common::tutorial::run(measure, |_| {
        // What NVML would be asked, if it were there.
        match GpuMonitor::open("any", None) {
            Ok(monitor) => writeln!(std::io::stdout(), "{:?}", monitor.read())?,
            Err(error) => writeln!(std::io::stdout(), "clocks and heat are not known either: {error}")?,
        }
        Ok(())
    })
}

fn measure(gpu: &Gpu, folder: &Path) -> Outcome {
    let mut out = std::io::stdout();
    let stream = gpu.stream()?;
    let blas = Blas::open(gpu, &stream)?;
    let product = RefCell::new(Product::of_ones(&stream, Elements::Half, 4096)?);
    let monitor = Rc::new(GpuMonitor::of_current_context(None)?);
    for thermal in [Thermal::Off, Thermal::Auto] {
        let [for_clock, for_heat] = [Rc::clone(&monitor), Rc::clone(&monitor)];
        let report = Bench::new(format!("fp16 matmul, heat: {thermal:?}"))
            .runs(RUNS)
            .output(folder.join(format!("{thermal:?}").to_lowercase()).with_extension("cuprof"))
            .thermal(thermal)
            .thermal_budget(Duration::from_secs(60)) // then it is an error, with what was measured so far
            .collect("cuda", Scope::Once, |_| cuda_version().map(Into::into).ok_or_else(|| "not told".into()))
            .collect(COLLECTED[0], Scope::Run, move |_| {
                for_clock.read().sm_clock_mhz.map(Into::into).ok_or_else(|| "NVML does not tell".into())
            })
            .collect(COLLECTED[1], Scope::Run, move |_| {
                for_heat.read().temperature_c.map(Into::into).ok_or_else(|| "NVML does not tell".into())
            })
            .collect(ABSENT, Scope::Run, |_| Err("a GPU in a server has no fan".into()))
            .run(|run, ()| run.measure("matmul", || blas.multiply(&mut product.borrow_mut())))?;
        writeln!(out, "{report}")?;

        let (heading, rows) = csv(&report.compat_csv());
        let row = rows.first().ok_or("the table is empty")?;
        let mut columns = 0;
        for (column, value) in heading.iter().zip(row) {
            let of = |name: &&str| {
                column.strip_prefix(*name).is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
            };
            if ["cuda", ABSENT].iter().chain(&COLLECTED).any(&of) {
                writeln!(out, "{column:>20}  {}", if value.is_empty() { "(null)" } else { value })?;
                columns += usize::from(COLLECTED.iter().any(of));
            }
        }
        writeln!(out, "{}", fact(&report, "bench.thermal")?)?;
        let conditions: Vec<_> = report.samples().iter().filter_map(|sample| sample.conditions).collect();
        let margin = conditions.iter().filter_map(|run| run.thermal_margin_c).min();
        let slowed = |ns: Option<u64>| ns.unwrap_or_default() / 1000;
        let by_heat = conditions.iter().map(|run| slowed(run.thermal_throttled_ns)).max().unwrap_or_default();
        let by_power = conditions.iter().map(|run| slowed(run.power_throttled_ns)).max().unwrap_or_default();
        let margin = margin.map_or("an unknown number of".to_owned(), |margin| margin.to_string());
        writeln!(
            out,
            "{margin} degrees were left at least; slowed down for {by_heat} us by heat, {by_power} us by power\n"
        )?;

        let runs = durations(&report, 0, "matmul").len();
        let us = median(&report, 0, "matmul", DURATION)? / 1e3;
        holds(
            runs == RUNS,
            format!("the failing collector has stopped none of the {runs} runs ({us:.1} us)"),
        )?;
        let told = report.warnings().iter().find(|warning| warning.contains(ABSENT));
        holds(told.is_some(), format!("it is told of: {}", told.map_or("", |told| told.as_str())))?;
        holds(columns == 8, "each numeric collector has the columns _Avg, _Std, _Min and _Max\n")?;
    }
    product.borrow().check(&stream)?;
    Ok(())
}
