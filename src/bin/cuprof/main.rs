//! The command `cuprof`: datasets read on any machine, and fronts of the library's tools.
//!
//! What it does is the library's: `cuprof::analysis` for datasets, and the functions that its other subcommands are named
//! after. Here are arguments, where output goes, and exit codes.

mod args;
mod closed;
mod color;
mod compare;
mod exit;
mod help;
mod output;
mod plot;
mod show;
mod tools;

use std::process::ExitCode;

use clap::Parser;

use crate::args::{Arguments, ClocksCommand, Command};
use crate::exit::{Failure, INTERNAL};

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return exit::usage(&error),
    };
    // A panic is a fault of this program's; its text has been printed.
    let run = || std::panic::catch_unwind(|| dispatch(arguments.command));
    match run() {
        Ok(Ok(code)) => ExitCode::from(code),
        Ok(Err(failure)) => failure.report(),
        Err(_) => ExitCode::from(INTERNAL),
    }
}

fn dispatch(command: Command) -> Result<u8, Failure> {
    match command {
        Command::Summary(summary) => show::summary(&summary),
        Command::Report(report) => show::report(&report),
        Command::Compare(compare) => compare::run(&compare),
        Command::Trace(trace) => show::trace(&trace),
        Command::Plot(arguments) => plot::plot(&arguments),
        Command::Doctor => tools::doctor(),
        Command::Replay(replay) => tools::replay(&replay),
        Command::Recover(recover) => tools::recover(&recover),
        Command::Metrics(metrics) => tools::metrics::run(&metrics),
        Command::Clocks { what: ClocksCommand::Reset } => tools::reset_clocks(),
        Command::Completions { shell } => tools::completions(shell),
        Command::Man { output, force } => tools::man(output.as_deref(), force),
    }
}
