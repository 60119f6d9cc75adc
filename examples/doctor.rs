//! What keeps this machine from being profiled, and what to do about it.
//!
//! ```sh
//! cargo run --example doctor               # looks
//! cargo run --example doctor -- --no-test  # the same, without running work on the GPU
//! ```
//!
//! | exit code | meaning |
//! |---|---|
//! | 0 | tracing can work |
//! | 1 | it cannot: at least one finding is a `problem` |
//! | 2 | the arguments are not known |
#![expect(clippy::print_stderr, reason = "an example talks to its reader")]

use std::io::Write;
use std::process::ExitCode;

use cuprof_workload::Gpu;

fn main() -> ExitCode {
    let test = match std::env::args().nth(1).as_deref() {
        None => true,
        Some("--no-test") => false,
        Some(other) => {
            eprintln!("error: unknown argument {other}; there is --no-test");
            return ExitCode::from(2);
        }
    };
    let mut diagnosis = cuprof::doctor();
    if test {
        // Any work that launches kernels will do.
        diagnosis.self_test(|| -> Result<(), String> {
            let gpu = Gpu::open()?;
            let stream = gpu.stream()?;
            let (x, mut y) = (gpu.upload(&stream, &[1.0; 256])?, gpu.zeros(&stream, 256)?);
            (0..10).try_for_each(|_| gpu.saxpy(&stream, &mut y, &x, 0.5))
        });
    }
    // A reader that has seen enough is no error.
    let _told = write!(std::io::stdout(), "{diagnosis}");
    if diagnosis.can_trace() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
