//! What counting costs on the host, beside the same work without counting.

use std::time::Instant;

use cuprof::counters::Session;
use cuprof_workload::Gpu;

use crate::{Outcome, plan, print_timings};

const INSTRUCTIONS: &str = "smsp__inst_executed.sum";
/// Takes eight passes on an H200.
const THROUGHPUT: &str = "sm__throughput.avg.pct_of_peak_sustained_elapsed";

pub fn run() -> Outcome {
    let gpu = Gpu::open()?;
    let stream = gpu.stream()?;
    let mut buffer = gpu.zeros(&stream, 1 << 20)?;
    let mut work = || -> Result<(), String> {
        gpu.fill(&stream, &mut buffer, 1.0)?;
        gpu.synchronize()
    };
    for run in ["first", "second", "third"] {
        let begun = Instant::now();
        work()?;
        println!(
            r#"{{"section":"cost","label":"not counted, {run} run","us":{:.1}}}"#,
            begun.elapsed().as_secs_f64() * 1e6
        );
    }
    let begun = Instant::now();
    let headline = plan(&["headline"])?;
    println!(r#"{{"section":"cost","label":"plan of headline","us":{}}}"#, begun.elapsed().as_micros());

    for session in ["first", "second", "third"] {
        let counted = Session::new(headline.clone()).run(|pass| pass.range("fill", &mut work))?;
        print_timings("cost", &format!("headline, {session} session"), &counted);
    }
    let counted =
        Session::new(plan(&[INSTRUCTIONS, THROUGHPUT])?).run(|pass| pass.range("fill", &mut work))?;
    print_timings("cost", "eight passes", &counted);

    for room in [1, 8, 32, 128, 512] {
        let counted = Session::new(plan(&[INSTRUCTIONS])?)
            .max_ranges(room)
            .run(|pass| pass.range("fill", &mut work))?;
        print_timings("cost", &format!("one range, room for {room}"), &counted);
    }
    for ranges in [1, 32, 512] {
        let nothing = Session::new(plan(&[INSTRUCTIONS])?)
            .max_ranges(512)
            .run(|pass| (0..ranges).for_each(|_| pass.range("nothing", || ())))?;
        print_timings("cost", &format!("{ranges} ranges of nothing, room for 512"), &nothing);
        let launches = Session::new(plan(&[INSTRUCTIONS])?)
            .max_ranges(512)
            .run(|pass| (0..ranges).try_for_each(|_| pass.range("empty", || gpu.empty(&stream))))?;
        print_timings("cost", &format!("{ranges} ranges of a launch, room for 512"), &launches);
        let outside = Session::new(plan(&[INSTRUCTIONS])?).max_ranges(512).run(|pass| {
            (0..ranges).try_for_each(|_| gpu.empty(&stream))?;
            pass.range("empty", || gpu.empty(&stream))
        })?;
        print_timings("cost", &format!("{ranges} launches outside, room for 512"), &outside);
    }
    let grown = Session::new(plan(&[INSTRUCTIONS])?)
        .run(|pass| (0..100).try_for_each(|_| pass.range("empty", || gpu.empty(&stream))))?;
    print_timings("cost", "100 ranges, room found by running twice", &grown);
    let kernels = Session::new(plan(&[INSTRUCTIONS])?).max_ranges(8).run_kernels(|| gpu.empty(&stream))?;
    print_timings("cost", "one kernel by itself, room for 8", &kernels);
    Ok(())
}
