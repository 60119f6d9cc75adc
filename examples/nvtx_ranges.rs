//! A program that is annotated with NVTX already: nothing has to be changed in it.
//!
//! cuprof installs itself as the handler of the NVTX that is linked into the program, so the ranges of the `nvtx`
//! crate arrive like those of `cuprof::range!`.
//!
//! ```sh
//! cargo run --release --features nvtx --example nvtx_ranges    # writes nvtx_ranges.cuprof/
//! ```
//!
//! Building the `nvtx` crate needs libclang.

mod common;

use std::error::Error;
use std::process::ExitCode;

use cuprof_workload::work;

fn main() -> ExitCode {
    common::exit_code(run())
}

fn run() -> Result<(), Box<dyn Error>> {
    let options = common::Options::from_args("nvtx_ranges.cuprof")?;
    let profile = common::live_or_replayed(&options, "nvtx", |gpu| {
        let stream = gpu.stream()?;
        // Domains keep the ranges of libraries apart.
        let domain = nvtx::Domain::new(c"solver");
        // `Range` is NVTX's start/end: it is around the work of all threads (kind `process`).
        let epoch = nvtx::Range::new(c"epoch");
        for step in 0..10_u32 {
            // `LocalRange` is NVTX's push/pop: it is on this thread's stack (kind `stack`).
            let _step = nvtx::LocalRange::new(c"step");
            work::empties(gpu, &stream, 5)?;
            {
                let _solve = domain.local_range(c"solve");
                work::empties(gpu, &stream, 3)?;
            }
            // cuprof's own ranges nest with them.
            let _log = cuprof::range!("log", index = step);
            work::empties(gpu, &stream, 1)?;
        }
        drop(epoch);
        nvtx::mark(c"done");
        gpu.synchronize()
    })?;
    common::print_summary(&profile)?;
    Ok(())
}
