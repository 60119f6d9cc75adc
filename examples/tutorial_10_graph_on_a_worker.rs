//! A CUDA graph that a worker thread launches, in ranges inside ranges: whose kernels are they?
//!
//! One call launches every kernel of the graph, on another thread than the one that waits for the result, while a third
//! thread launches work of its own. Each node is a row, in the ranges of the thread that launched the graph and of the one
//! that it works for; the third thread's kernels are in none of them.
//!
//! ```sh
//! cargo run --release --example tutorial_10_graph_on_a_worker  # writes tutorial_10_…/, on a machine with a GPU
//! ```

mod common;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use common::frame::Frame;
use common::tutorial::{Outcome, durations, holds};
use cuprof::{Bench, Cache, Dataset, Profiler, Table};
use cuprof_workload::{Expected, Gpu, Graph, Kernel};

const ROWS: u32 = 128;
const LEN: usize = (ROWS * ROWS) as usize;
/// Launches of the graph, and kernels that each runs.
const STEPS: u32 = 10;
const NODES: usize = 4;
/// Kernels of the third thread.
const FOREIGN: usize = 50;

fn main() -> ExitCode {
    common::tutorial::run(measure, |folder| {
        // A recorded graph, launched on the thread of its range.
        let recording = common::recordings().join("graph.cuprofrec");
        writeln!(std::io::stdout(), "the nodes of the graph in {}:\n", recording.display())?;
        common::replay(&recording, folder)?;
        nodes(&Dataset::open(folder)?, "replay")
    })
}

fn measure(gpu: &Gpu, folder: &Path) -> Outcome {
    let (stream, other) = (gpu.stream()?, gpu.stream()?);
    let a = gpu.upload(&stream, &vec![1.0; LEN])?;
    let (mut b, mut c) = (gpu.zeros(&stream, LEN)?, gpu.zeros(&stream, LEN)?);
    let once = Expected::default().kernel(Kernel::Saxpy, 1).kernel(Kernel::Gemm, 2).kernel(Kernel::Copy, 1);
    let graph = Graph::capture(gpu, once, |stream| {
        gpu.saxpy(stream, &mut b, &a, 2.0)?;
        gpu.gemm(stream, &a, &b, &mut c, ROWS)?;
        gpu.copy(stream, &c, &mut b)?;
        gpu.gemm(stream, &b, &a, &mut c, ROWS)
    })?;
    // The worker enters the range that it works for; its own ranges are inside.
    let worker = |request: &cuprof::RangeHandle| -> Result<(), String> {
        let _request = request.enter();
        let _decode = cuprof::range!("decode");
        gpu.bind()?;
        for step in 0..STEPS {
            let _step = cuprof::range!("step", index = step);
            graph.launch(&stream)?;
        }
        gpu.synchronize()
    };
    let stranger = || -> Result<(), String> {
        gpu.bind()?;
        (0..FOREIGN).try_for_each(|_| gpu.empty(&other))?;
        gpu.synchronize()
    };
    let on_threads = |request: &cuprof::RangeHandle| -> Result<(), String> {
        std::thread::scope(|scope| {
            let threads = [scope.spawn(|| worker(request)), scope.spawn(stranger)];
            threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| "a thread panicked")?)
        })
    };

    // Traced: a row for each node of each launch.
    let trace = folder.join("run.cuprof");
    let profiler = Profiler::builder().output(&trace).record(folder.join("run.cuprofrec")).start()?;
    {
        let request = cuprof::range!("request");
        on_threads(&request.handle())?;
    }
    let profile = profiler.finish()?;
    let dataset = Dataset::open(&trace)?;
    nodes(&dataset, "request/decode/step")?;
    let launches = Frame::read(&dataset, Table::Launches, &["range_path", "graph_id"])?;
    let foreign = launches.rows().filter(|row| row.int("graph_id").is_none());
    let (inside, outside): (Vec<_>, Vec<_>) = foreign.partition(|row| row.text("range_path").is_some());
    holds(
        inside.is_empty() && outside.len() == FOREIGN,
        format!("the {} kernels of the other thread are in no range", outside.len()),
    )?;
    holds(profile.losses().is_empty(), "nothing was lost")?;

    // Measured: the annotation has the worker's kernels, and only these.
    let report = Bench::new("request").runs(5).cache(Cache::Keep).run(|run, ()| {
        run.measure("request", || {
            let request = cuprof::range!("work");
            on_threads(&request.handle())
        })
    })?;
    writeln!(std::io::stdout(), "\n{report}")?;
    let samples = report.samples().iter().filter(|sample| sample.kernel.is_none());
    let kernels: Vec<usize> = samples.map(|sample| sample.launches).collect();
    let expected = STEPS as usize * NODES;
    holds(
        kernels.iter().all(|kernels| *kernels == expected) && durations(&report, 0, "request").len() == 5,
        format!("each run of the measurement has the {expected} kernels of the graph's launches"),
    )
}

/// Lists the nodes of the graph that was launched in this range, with how often and how long each ran.
fn nodes(dataset: &Dataset, path: &str) -> Outcome {
    let mut out = std::io::stdout();
    let columns = ["range_path", "kernel", "graph_id", "graph_node_id", "thread_id", "duration_ns"];
    let launches = Frame::read(dataset, Table::Launches, &columns)?;
    let mut nodes: BTreeMap<(i64, i64, &str), Vec<i64>> = BTreeMap::new();
    for row in launches.rows() {
        if let (Some(graph), Some(node)) = (row.int("graph_id"), row.int("graph_node_id")) {
            if row.text("range_path") != Some(path) {
                return Err(format!("a node is in {:?} and not in {path}", row.text("range_path")).into());
            }
            let times = nodes.entry((graph, node, row.text("kernel").unwrap_or_default())).or_default();
            times.extend(row.int("duration_ns"));
        }
    }
    writeln!(out, "graph        node  launches  mean us  kernel")?;
    for ((graph, node, kernel), times) in &nodes {
        let mean_us = times.iter().sum::<i64>() as f64 / times.len().max(1) as f64 / 1e3;
        writeln!(out, "{graph:>5} {node:>11} {:>9} {mean_us:>8.2}  {kernel}", times.len())?;
    }
    writeln!(out)?;
    let each: Vec<usize> = nodes.values().map(Vec::len).collect();
    holds(
        each == [STEPS as usize; NODES],
        format!("each of the {} nodes ran once for each of the {STEPS} launches, all in {path}", each.len()),
    )
}
