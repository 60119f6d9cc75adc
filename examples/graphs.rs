//! CUDA graphs: one call launches many kernels, and each of them is a row under the range around that call.
//!
//! ```sh
//! cargo run --release --example graphs                         # writes graphs.cuprof/
//! ```

mod common;

use std::collections::BTreeMap;
use std::error::Error;
use std::io::Write;
use std::process::ExitCode;

use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use cuprof::{Dataset, Table};
use cuprof_workload::{Expected, Graph, Kernel};

const ROWS: u32 = 128;
const LEN: usize = (ROWS * ROWS) as usize;

fn main() -> ExitCode {
    common::exit_code(run())
}

fn run() -> Result<(), Box<dyn Error>> {
    let options = common::Options::from_args("graphs.cuprof")?;
    let profile = common::live_or_replayed(&options, "graph", |gpu| {
        let stream = gpu.stream()?;
        let a = gpu.upload(&stream, &vec![1.0; LEN])?;
        let mut b = gpu.zeros(&stream, LEN)?;
        let mut c = gpu.zeros(&stream, LEN)?;
        gpu.synchronize()?;

        // Capturing records the calls instead of running them. Nothing runs in this range.
        let graph = {
            let _capture = cuprof::range!("capture");
            let once =
                Expected::default().kernel(Kernel::Saxpy, 1).kernel(Kernel::Gemm, 2).kernel(Kernel::Copy, 1);
            Graph::capture(gpu, once, |stream| {
                gpu.saxpy(stream, &mut b, &a, 2.0)?;
                gpu.gemm(stream, &a, &b, &mut c, ROWS)?;
                gpu.copy(stream, &c, &mut b)?;
                gpu.gemm(stream, &b, &a, &mut c, ROWS)
            })?
        };

        // Each launch of the graph runs its four kernels. They belong to the range that is open here.
        for replay in 0..10_u32 {
            let _replay = cuprof::range!("replay", index = replay);
            graph.launch(&stream)?;
        }
        gpu.synchronize()
    })?;
    common::print_summary(&profile)?;

    // `graph_node_id` tells the nodes apart, also those that run the same kernel.
    let dataset = Dataset::open(profile.dataset().ok_or("no dataset was written")?)?;
    let mut nodes: BTreeMap<(i64, String), (u64, i64)> = BTreeMap::new();
    for batch in dataset.batches(Table::Launches) {
        let batch = batch?;
        let column = |name: &str| batch.column_by_name(name).ok_or_else(|| format!("no column {name}"));
        let (node, duration) = (column("graph_node_id")?, column("duration_ns")?);
        let (node, duration) = (node.as_primitive::<Int64Type>(), duration.as_primitive::<Int64Type>());
        let kernels = common::texts(column("kernel")?)?;
        for (row, kernel) in kernels.into_iter().enumerate() {
            if node.is_null(row) || duration.is_null(row) {
                continue; // not from a graph, or without usable times
            }
            let entry = nodes.entry((node.value(row), kernel.unwrap_or_default())).or_default();
            entry.0 += 1;
            entry.1 += duration.value(row);
        }
    }
    let mut stdout = std::io::stdout();
    writeln!(stdout, "\nnode of the graph    launches   mean µs   kernel")?;
    for ((node, kernel), (launches, total)) in nodes {
        let mean = total as f64 / launches as f64 / 1e3;
        writeln!(stdout, "{node:<20} {launches:>8} {mean:>9.1}   {kernel}")?;
    }
    Ok(())
}
