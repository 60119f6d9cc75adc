//! Small kernels as `cargo bench` measures them: an example of `cuprof::bench::Harness`.
//!
//! ```text
//! cargo bench --bench kernels                                 # all of them
//! cargo bench --bench kernels -- read --runs 20               # what has "read" in its name
//! cargo bench --bench kernels -- --save-baseline main         # five processes, kept
//! cargo bench --bench kernels -- --baseline main              # five more, compared with those
//! ```
//!
//! Needs a GPU; without one it says so and measures nothing.

use std::process::ExitCode;

use cuprof::bench::Harness;
use cuprof::{Cache, Stream};
use cuprof_workload::{Gpu, Victims};

const MIB: usize = 1 << 20;

fn main() -> ExitCode {
    Harness::from_args()
        .needs(Gpu::probe())
        .bench("read", |bench| {
            let gpu = Gpu::open()?;
            let stream = gpu.stream()?;
            let bench = bench.configs([1_usize, 4, 16]).parameters(["mib"]).runs(100);
            let bench = bench.derive("bandwidth", "GB/s", |m, mib| (mib * MIB) as f64 / m.duration_ns());
            Ok(bench.run(|run, mib| {
                let mut victims = Victims::new(&gpu, &stream, mib * MIB)?; // not measured
                run.measure("read", || victims.read(&stream))
            })?)
        })
        .bench("many_launches", |bench| {
            let gpu = Gpu::open()?;
            let stream = gpu.stream()?;
            // SAFETY: it is a stream of the only context, and outlives the measurement.
            #[expect(unsafe_code, reason = "names a stream by its handle")]
            let handle = unsafe { Stream::from_raw(stream.cu_stream().cast()) };
            // All twenty are queued before the first begins, so that the span is that of the GPU.
            let bench = bench.stream(handle).launch_ahead().cache(Cache::Keep).runs(100);
            Ok(bench.run(|run, ()| run.measure("twenty", || (0..20).try_for_each(|_| gpu.empty(&stream))))?)
        })
        .run()
}
