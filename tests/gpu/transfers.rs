//! Copies and fills are recorded with their exact bytes.

use cuprof_workload::cudarc::driver::PinnedHostSlice;
use cuprof_workload::runtime::Runtime;
use cuprof_workload::{Expected, Gpu, work};

use crate::Outcome;
use crate::session::{gpu, record, turn};

/// Page-locked memory, which cudarc allocates without setting it.
fn pinned(gpu: &Gpu, len: usize) -> Result<PinnedHostSlice<f32>, String> {
    #[expect(unsafe_code, reason = "cudarc's only way to page-locked memory")]
    // SAFETY: the memory is only copied to the device, where any bits will do.
    unsafe { gpu.context().alloc_pinned(len) }.map_err(|error| error.to_string())
}

#[test]
#[ignore = "needs a GPU"]
fn copies_and_fills_have_exact_bytes() -> Outcome {
    let _turn = turn();
    let gpu = gpu()?;
    let stream = gpu.stream()?;
    let (trace, parts) = record(|| {
        let mut parts = Vec::new();
        // Odd sizes, so that a rounded number would be noticed.
        for len in [1_usize, 1_000, 16_384, 123_457, 4_194_304] {
            let path = format!("{len} floats");
            let _range = cuprof::range!(&path);
            let bytes = 4 * len as u64;
            let values = vec![1.0_f32; len];
            let mut from = gpu.upload(&stream, &values)?;
            let mut to = gpu.zeros(&stream, len)?;
            stream.memcpy_dtod(&from, &mut to).map_err(|error| error.to_string())?;
            let back = gpu.download(&stream, &to)?;
            if back != values {
                return Err("the values came back changed".to_owned());
            }
            let page_locked = pinned(&gpu, len)?;
            stream.memcpy_htod(&page_locked, &mut from).map_err(|error| error.to_string())?;
            gpu.synchronize()?;
            let expected = Expected::default()
                .copy("host_to_device", 2, bytes)
                .fill(1, bytes)
                .copy("device_to_device", 1, bytes)
                .copy("device_to_host", 1, bytes);
            drop(_range);
            parts.push((path, expected));
        }
        Ok(parts)
    })?;
    trace.assert_is(
        &parts.iter().map(|(path, expected)| (Some(path.as_str()), expected.clone())).collect::<Vec<_>>(),
    );
    trace.assert_nothing_lost();
    for (path, expected) in &parts {
        assert_eq!(trace.range(path).number("n_transfers").unsigned_abs(), expected.transfers());
    }
    Ok(())
}

#[test]
#[ignore = "needs a GPU"]
fn memory_of_the_streams_pool_is_recorded_like_any_other() -> Outcome {
    let _turn = turn();
    let gpu = gpu()?;
    let stream = gpu.stream()?;
    let (trace, expected) = record(|| {
        let _range = cuprof::range!("pool");
        work::pool_traffic(&gpu, &stream, 100, 1_000)
    })?;
    trace.assert_is(&[(Some("pool"), expected)]);
    Ok(())
}

#[test]
#[ignore = "needs a GPU and libcudart"]
fn calls_of_the_cuda_runtime_are_attributed_once() -> Outcome {
    let _turn = turn();
    let gpu = gpu()?;
    let runtime = Runtime::open()?;
    gpu.bind()?;
    runtime.copies_and_fills(1024)?; // the first call initialises the runtime
    let (trace, expected) = record(|| {
        let _range = cuprof::range!("runtime");
        runtime.copies_and_fills(40_000)
    })?;
    println!("through {}", runtime.name());
    trace.assert_is(&[(Some("runtime"), expected)]);
    trace.assert_nothing_lost();
    Ok(())
}
