//! What is left of work that changes its own inputs, after it was counted.

use cuprof::counters::Session;
use cuprof_workload::{Gpu, Known};

use crate::{Outcome, check, plan};

/// Takes eight passes on an H200.
const THROUGHPUT: &str = "sm__throughput.avg.pct_of_peak_sustained_elapsed";
const ELEMENTS: usize = 1 << 20;
const BLOCKS: u32 = 64;

pub fn run() -> Outcome {
    let gpu = Gpu::open()?;
    let stream = gpu.stream()?;
    let known = Known::new(&gpu)?;
    let mut ones = gpu.zeros(&stream, ELEMENTS)?;
    gpu.fill(&stream, &mut ones, 1.0)?;
    let plan = plan(&[THROUGHPUT])?;
    println!(r#"{{"section":"replay","label":"passes, known beforehand","value":{}}}"#, plan.passes());

    // By ranges: each pass runs the work.
    for restores in [false, true] {
        let mut sums = gpu.zeros(&stream, ELEMENTS)?;
        let mut counter = stream.alloc_zeros::<u32>(1)?;
        let mut expected = 0;
        Session::new(plan.clone()).run(|pass| -> Outcome {
            if restores {
                gpu.fill(&stream, &mut sums, 0.0)?;
                stream.memset_zeros(&mut counter)?;
            }
            pass.range("add in place", || gpu.saxpy(&stream, &mut sums, &ones, 1.0))?;
            expected = pass.range("count", || known.count_up(&stream, &mut counter, BLOCKS))?;
            Ok(())
        })?;
        let times = if restores { 1 } else { plan.passes() as u32 };
        let label = if restores { "restored in each pass" } else { "run once a pass" };
        let (sum, count) = results(&gpu, &stream, &sums, &counter)?;
        check("replay", &format!("by ranges, {label}: in-place sum"), times.into(), sum, 0.0);
        let counted = f64::from(expected * times);
        check("replay", &format!("by ranges, {label}: atomic counter"), counted, count, 0.0);
    }
    // By kernels: CUPTI restores what each changes.
    let mut sums = gpu.zeros(&stream, ELEMENTS)?;
    let mut counter = stream.alloc_zeros::<u32>(1)?;
    gpu.synchronize()?;
    let mut expected = 0;
    Session::new(plan).max_ranges(8).run_kernels(|| -> Outcome {
        gpu.saxpy(&stream, &mut sums, &ones, 1.0)?;
        expected = known.count_up(&stream, &mut counter, BLOCKS)?;
        Ok(())
    })?;
    let (sum, count) = results(&gpu, &stream, &sums, &counter)?;
    check("replay", "by kernels: in-place sum", 1.0, sum, 0.0);
    check("replay", "by kernels: atomic counter", expected.into(), count, 0.0);
    Ok(())
}

/// The value that all elements have, if they have one, and the counter.
fn results(
    gpu: &Gpu,
    stream: &std::sync::Arc<cuprof_workload::cudarc::driver::CudaStream>,
    sums: &cuprof_workload::cudarc::driver::CudaSlice<f32>,
    counter: &cuprof_workload::cudarc::driver::CudaSlice<u32>,
) -> Outcome<(Option<f64>, Option<f64>)> {
    gpu.synchronize()?;
    let sums = gpu.download(stream, sums)?;
    let counter = stream.clone_dtoh(counter)?;
    stream.synchronize()?;
    let first = sums.first().copied();
    let same = sums.iter().all(|sum| Some(*sum) == first);
    Ok((first.filter(|_| same).map(f64::from), counter.first().copied().map(f64::from)))
}
