//! What limits a kernel: computing, moving data, or waiting?
//!
//! Times and counters come from different runs of the same work: first it is traced, and afterwards, when nothing is
//! traced any more, it runs once for each pass that the counters take. How many that are is known before.
//!
//! ```sh
//! cargo run --release --example tutorial_05_what_limits        # writes tutorial_05_what_limits/, needs a GPU, cuBLAS, NVRTC
//! ```

mod common;

use std::cell::{Cell, RefCell};
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use common::tutorial::{Outcome, holds, median};
use cuprof::bench::DURATION;
use cuprof::counters::{Bound, Plan, Session, Unit};
use cuprof::{Bench, Cache, ErrorKind, Profiler};
use cuprof_workload::{Blas, Compiled, Elements, Gpu, Product};

/// The time is counted, too, since percentages of it are.
const METRICS: [&str; 3] = [
    "gpu__time_duration.sum",
    "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "dram__throughput.avg.pct_of_peak_sustained_elapsed",
];
const NAMES: [&str; 3] = ["fp16 matmul, 4096 rows", "y = 2 x, 256 MiB", "softmax, 8192 rows of 1024"];
const FLOATS: usize = 64 << 20;
const SOFTMAX: [u32; 2] = [8192, 1024];

fn main() -> ExitCode {
    common::tutorial::run(measure, |_| common::tutorial::plan(&METRICS))
}

fn measure(gpu: &Gpu, folder: &Path) -> Outcome {
    let mut out = std::io::stdout();
    let stream = gpu.stream()?;
    let (blas, kernels) = (Blas::open(gpu, &stream)?, Compiled::new(gpu)?);
    kernels.check(gpu, &stream)?;
    let product = RefCell::new(Product::of_ones(&stream, Elements::Half, 4096)?);
    let (x, y) = (gpu.zeros(&stream, FLOATS)?, RefCell::new(gpu.zeros(&stream, FLOATS)?));
    let work: [&dyn Fn() -> Result<(), String>; 3] = [
        &|| blas.multiply(&mut product.borrow_mut()),
        &|| kernels.scale(&stream, &x, &mut y.borrow_mut()),
        &|| kernels.softmax(&stream, &x, &mut y.borrow_mut(), SOFTMAX),
    ];

    let plan = Plan::for_device(0, METRICS)?.complete()?;
    writeln!(out, "{plan}")?;

    let bench = Bench::new("times").cache(Cache::Flush).output(folder.join("bench.cuprof"));
    let times = bench.run(|run, ()| -> Result<(), String> {
        NAMES.iter().zip(work).try_for_each(|(name, work)| run.measure(name, work))
    })?;

    let (passes, refused) = (Cell::new(0), Cell::new(0));
    let counted = Session::new(plan).cache(Cache::Flush).run(|pass| -> Result<(), String> {
        passes.set(passes.get() + 1);
        let second = Profiler::builder().start();
        refused.set(
            refused.get() + usize::from(second.is_err_and(|error| error.kind == ErrorKind::AlreadyRunning)),
        );
        NAMES.iter().zip(work).try_for_each(|(name, work)| pass.range(name, work))
    })?;
    counted.write(folder.join("counters.cuprof"))?;

    writeln!(out, "{:<28} {:>9} {:>7} {:>9}  limited by", "", "us", "SM", "memory")?;
    let mut counted_both = 0;
    for name in NAMES {
        let duration_ns = median(&times, 0, name, DURATION)?;
        let roofline = counted.roofline_in(name, Duration::from_nanos(duration_ns as u64))?;
        let reached =
            |unit| roofline.ceiling(unit).map_or("-".to_owned(), |c| format!("{:.1} %", 100.0 * c.ratio));
        // Below 60 % of both, the kernel waits for something else.
        let bound = if roofline.bound == Bound::Neither { "latency" } else { roofline.bound.as_str() };
        let (sm, memory) = (reached(Unit::Sm), reached(Unit::Dram));
        writeln!(out, "{name:<28} {:>9.1} {sm:>7} {memory:>9}  {bound}", duration_ns / 1e3)?;
        counted_both +=
            usize::from([Unit::Sm, Unit::Dram].iter().all(|unit| roofline.ceiling(*unit).is_some()));
    }
    writeln!(out)?;
    holds(counted_both == NAMES.len(), "both percentages were counted for each of them")?;
    let (passes, refused) = (passes.get(), refused.get());
    holds(passes == refused, format!("tracing was refused in each of the {passes} counted passes"))
}
