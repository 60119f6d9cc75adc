//! What limits kernels of which that is known, and what a fused kernel saves.

use std::time::Duration;

use cuprof::counters::{Roofline, Session};
use cuprof::{Dataset, Profiler};
use cuprof_workload::{Gpu, Known, Victims};

use crate::{Outcome, check, number, plan, print_timings};

fn print(range: &str, roofline: &Roofline) {
    let ceilings: Vec<_> = roofline
        .ceilings
        .iter()
        .map(|ceiling| {
            format!(
                r#"{{"unit":"{}","ratio":{},"reached_per_second":{},"peak_per_second":{}}}"#,
                ceiling.unit,
                ceiling.ratio,
                number(ceiling.rate.map(|rate| rate.reached_per_second)),
                number(ceiling.rate.map(|rate| rate.peak_per_second)),
            )
        })
        .collect();
    println!(
        r#"{{"section":"verdicts","range":"{range}","bound":"{}","duration_ns":{},"traced":{},"flop_per_byte":{},"ceilings":[{}]}}"#,
        roofline.bound.as_str(),
        roofline.duration_ns,
        roofline.duration_is_given,
        number(roofline.flop_per_byte),
        ceilings.join(",")
    );
}

/// Durations come from a traced pass, and counters from passes of their own.
pub fn run() -> Outcome {
    let gpu = Gpu::open()?;
    let stream = gpu.stream()?;
    let mut large = Victims::new(&gpu, &stream, 256 << 20)?;
    let known = Known::new(&gpu)?;
    let elements = 16 << 20;
    let (x, mut y) = (gpu.zeros(&stream, elements)?, gpu.zeros(&stream, elements)?);
    large.copy(&stream)?;
    known.fma_chain(&stream, &mut y, 132 * 16, 512)?;
    gpu.saxpy(&stream, &mut y, &x, 1.0)?;
    gpu.synchronize()?;

    let folder = std::env::temp_dir().join(format!("cuprof-proof-{}.cuprof", std::process::id()));
    let mut profiler = Profiler::builder().output(&folder).overwrite(true).start()?;
    let session = Session::new(plan(&["roofline", "smsp__inst_executed.sum"])?);
    let counted = profiler.count(session, |pass| -> Result<(), String> {
        pass.range("copy", || large.copy(&stream))?;
        pass.range("fma_chain", || known.fma_chain(&stream, &mut y, 132 * 16, 512))?;
        pass.range("empty", || gpu.empty_of_shape(&stream, [1000, 1, 1], [128, 1, 1], 0))?;
        // y += 3 x in three kernels, and in one.
        pass.range("three", || (0..3).try_for_each(|_| gpu.saxpy(&stream, &mut y, &x, 1.0)))?;
        pass.range("one", || gpu.saxpy(&stream, &mut y, &x, 3.0))
    })?;
    let profile = profiler.finish()?;
    print_timings("verdicts", "beside a trace", &counted);

    let ranges = &profile.summary().ranges;
    for range in ["copy", "fma_chain", "empty"] {
        let traced = ranges.iter().find(|summary| &*summary.path == range);
        let duration = traced.map(|summary| Duration::from_nanos(summary.gpu_time_ns.unsigned_abs()));
        print(range, &counted.roofline(range)?);
        let Some(duration) = duration else { continue };
        let roofline = counted.roofline_in(range, duration)?;
        print(range, &roofline);
        let expected = match range {
            "copy" => "memory",
            "fma_chain" => "compute",
            _ => "neither",
        };
        let right = f64::from(u8::from(roofline.bound.as_str() == expected));
        check("verdicts", &format!("{range} is limited by {expected}"), 1.0, Some(right), 0.0);
    }
    for saved in counted.saved(["three"], "one")? {
        println!(
            r#"{{"section":"verdicts","saved":"{}","unit":"{}","before":{},"after":{},"left_ratio":{}}}"#,
            saved.metric,
            saved.unit,
            saved.before,
            saved.after,
            number(saved.left_ratio())
        );
        if saved.metric == "smsp__inst_executed.sum" {
            check("verdicts", "instructions of one of three kernels", 1.0 / 3.0, saved.left_ratio(), 0.0001);
        }
    }
    let metrics = Dataset::open(&folder)?.env()?;
    println!(
        r#"{{"section":"verdicts","label":"suspended","value":{:?}}}"#,
        metrics.get("tracing.suspended.0").map_or("", String::as_str)
    );
    let _left_for_the_system = std::fs::remove_dir_all(&folder);
    Ok(())
}
