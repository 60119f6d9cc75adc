//! Releases the clocks that dead processes of cuprof left pinned on this machine.
//!
//! Nothing else is touched: neither the clocks of a living process nor those that somebody set by other means.
//!
//! ```sh
//! cargo run --release --example clocks_reset
//! ```
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "an example talks to its reader")]

use std::process::ExitCode;

use cuprof::ResetOutcome;

fn main() -> ExitCode {
    let resets = match cuprof::reset_clocks(None) {
        Ok(resets) => resets,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    if resets.is_empty() {
        println!("no process of cuprof has ever pinned clocks here");
    }
    let mut failed = false;
    for reset in &resets {
        let gpu = &reset.gpu_uuid;
        match &reset.outcome {
            ResetOutcome::Nothing => println!("{gpu}: nothing was left"),
            ResetOutcome::Held(Some(pid)) => println!("{gpu}: process {pid} has the clocks, and keeps them"),
            ResetOutcome::Held(None) => println!("{gpu}: a process has the clocks, and keeps them"),
            ResetOutcome::Released(pid) => println!("{gpu}: released what process {pid} had left"),
            ResetOutcome::Outlived(pid) => println!("{gpu}: what process {pid} had left went with a reboot"),
            ResetOutcome::Failed(error) => {
                failed = true;
                println!("{gpu}: {error}");
            }
            other => println!("{gpu}: {other:?}"),
        }
    }
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
