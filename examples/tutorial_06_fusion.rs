//! Fusion: what does one kernel in place of two save?
//!
//! `a + b c` for 32 Mi floats. With two kernels, the product goes to memory and comes back: 512 MiB are read and 256 MiB
//! written, against 384 and 128 with one. What the L2 cache keeps does not go to memory, so that each figure may be less
//! by up to its size.
//!
//! ```sh
//! cargo run --release --example tutorial_06_fusion             # writes tutorial_06_fusion/, needs a GPU, NVRTC
//! ```

mod common;

use std::cell::RefCell;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use common::tutorial::{Outcome, aggregate, fact, holds, median};
use cuprof::bench::DURATION;
use cuprof::{Bench, Cache};
use cuprof_workload::{Compiled, Gpu};

const FLOATS: usize = 32 << 20;
const READ: &str = "dram__bytes_read.sum";
const WRITTEN: &str = "dram__bytes_write.sum";
const MIB: f64 = (1 << 20) as f64;
/// Annotations with what they read and write, in vectors: those inside others come after them.
const PARTS: [(&str, [f64; 2]); 4] =
    [("two kernels", [4.0, 2.0]), ("multiply", [2.0, 1.0]), ("add", [2.0, 1.0]), ("one kernel", [3.0, 1.0])];

fn main() -> ExitCode {
    common::tutorial::run(measure, |_| common::tutorial::plan(&[READ, WRITTEN]))
}

fn measure(gpu: &Gpu, folder: &Path) -> Outcome {
    let mut out = std::io::stdout();
    let stream = gpu.stream()?;
    let kernels = Compiled::new(gpu)?;
    writeln!(out, "compiled by {}", kernels.compiler())?;
    kernels.check(gpu, &stream)?;
    let vector = || gpu.zeros(&stream, FLOATS);
    let (a, b, c) = (vector()?, vector()?, vector()?);
    let (product, sum) = (RefCell::new(vector()?), RefCell::new(vector()?));

    // Annotations inside one another: the outer one has the kernels of both, and so its bytes and its time.
    let report = Bench::new("a + b c")
        .cache(Cache::Flush)
        .metrics([READ, WRITTEN])
        .output(folder.join("bench.cuprof")) // times, counters and launches
        .normalize_against("one kernel")
        .run(|run, ()| {
            run.measure("one kernel", || kernels.multiply_add(&stream, [&a, &b, &c], &mut sum.borrow_mut()))?;
            run.measure("two kernels", || {
                run.measure("multiply", || kernels.multiply(&stream, [&b, &c], &mut product.borrow_mut()))?;
                run.measure("add", || kernels.add(&stream, [&a, &product.borrow()], &mut sum.borrow_mut()))
            })
        })?;
    writeln!(out, "{report}")?;

    let l2 = fact(&report, "gpu.l2_bytes")?.parse::<f64>()? / MIB;
    let vector = 4.0 * FLOATS as f64 / MIB;
    writeln!(out, "MiB, of which the cache ({l2:.0} MiB) may keep a part\n")?;
    writeln!(
        out,
        "{:<12} {:>9} {:>6} {:>9} {:>6} {:>9} {:>9}",
        "", "read", "of", "written", "of", "us", "kernels"
    )?;
    let mut bytes = Vec::new();
    for (name, expected) in PARTS {
        let counted = [READ, WRITTEN].map(|metric| median(&report, 0, name, metric));
        let [read, written] = counted.map(|bytes| bytes.map(|bytes| bytes / MIB));
        let (read, written) = (read?, written?);
        let of_kernels =
            report.aggregates().iter().filter(|a| &*a.annotation == name && a.kernel.is_some()).count();
        let [of_read, of_written] = expected.map(|vectors| vectors * vector);
        writeln!(
            out,
            "{name:<12} {read:>9.1} {of_read:>6} {written:>9.1} {of_written:>6} {:>9.1} {of_kernels:>9}",
            median(&report, 0, name, DURATION)? / 1e3
        )?;
        bytes.push((name, [(read, of_read), (written, of_written)]));
    }
    writeln!(out)?;
    for (name, figures) in &bytes {
        // What is left dirty in the cache is written when something else needs its place, perhaps in the next kernel.
        let right = figures.iter().all(|(counted, of)| (counted - of).abs() <= l2 + 0.03 * of);
        holds(
            right,
            format!("{name}: what was counted is what the vectors are, but for what the cache keeps"),
        )?;
    }
    let total = |at: usize| bytes.get(at).map_or(0.0, |(_, [(read, _), (written, _)])| read + written);
    holds(
        total(0) > 1.2 * total(3),
        format!(
            "two kernels move {:.2} times the bytes of one (1.5, but for the cache)",
            total(0) / total(3)
        ),
    )?;
    let ratio = aggregate(&report, 0, "two kernels", DURATION)?.normalised.as_ref();
    let ratio = ratio.ok_or("the annotations were not compared")?.ratio;
    holds(ratio > 1.0, format!("and take {ratio:.2} times its time"))?;
    let singly = |name: &str| report.aggregate(0, name, DURATION).is_some_and(|of_one| of_one.told.n > 0);
    holds(singly("multiply") && singly("add"), "each kernel of the region is listed by itself")
}
