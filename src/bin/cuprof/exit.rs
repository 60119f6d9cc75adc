//! Exit codes, and errors that end the command.

use std::fmt;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use cuprof::ErrorKind;
use cuprof::analysis::printable;

use crate::closed::stdout_was_closed;

/// The result is what was asked for.
pub const SUCCESS: u8 = 0;
/// `doctor`: this machine cannot be profiled.
pub const NOT_READY: u8 = 1;
/// Arguments that are not understood.
pub const USAGE: u8 = 64;
/// Input that cannot be read, or whose losses make the result incomplete.
pub const INPUT: u8 = 65;
/// Something of the machine is absent or fails: a driver, a GPU, CUPTI, NVML.
pub const UNAVAILABLE: u8 = 69;
/// A fault of this program.
pub const INTERNAL: u8 = 70;
/// The output exists, or cannot be created.
pub const OUTPUT: u8 = 73;
/// Output that could not be written to its end.
pub const WRITE: u8 = 74;

/// Why the command ends without its result.
#[derive(Debug)]
pub struct Failure {
    code: u8,
    what: String,
}

impl Failure {
    pub fn new(code: u8, what: impl Into<String>) -> Self {
        Self { code, what: what.into() }
    }

    /// Somebody closed the other end of a pipe: they have what they wanted.
    pub fn closed_pipe() -> Self {
        Self { code: SUCCESS, what: String::new() }
    }

    /// There is no standard output.
    pub fn closed_output() -> Self {
        Self::new(WRITE, "cannot write standard output: it is closed")
    }

    /// Whether it is that.
    pub fn is_closed_pipe(&self) -> bool {
        self.what.is_empty()
    }

    /// An error whose input or output was the output.
    pub fn of_output(error: &cuprof::Error) -> Self {
        let mut failure = Self::from(error);
        if error.kind == ErrorKind::Io {
            failure.code = WRITE;
        }
        failure
    }

    /// The same, in which a temporary path has the name of what it will be.
    pub fn naming(mut self, temporary: &Path, path: &Path) -> Self {
        self.what = self.what.replace(&shown(temporary), &shown(path));
        self
    }

    /// Says it, unless there is nothing to say.
    pub fn report(self) -> ExitCode {
        if !self.what.is_empty() {
            say(&format!("error: {}", self.what));
        }
        ExitCode::from(self.code)
    }
}

/// The exit code of a result that has been printed. Where that is not 0, says what is missing and how to let it be.
pub fn verdict(missing: &[String], allow_losses: bool) -> u8 {
    if missing.is_empty() || allow_losses {
        return SUCCESS;
    }
    for what in missing {
        say(&format!("incomplete: {what}"));
    }
    say("  therefore exit code 65; --allow-losses makes it 0");
    INPUT
}

/// What is no error and has to be known, on standard error.
pub fn say(what: &str) {
    // Nobody can be told that nobody can be told.
    let _ = writeln!(std::io::stderr(), "{}", printable(what));
}

/// A path in a message, on one line whatever it is called.
pub fn shown(path: &Path) -> String {
    printable(&path.to_string_lossy()).replace('\n', "\\n")
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl From<&cuprof::Error> for Failure {
    fn from(error: &cuprof::Error) -> Self {
        Self { code: code_of(error), what: error.to_string() }
    }
}

/// The exit code of an error of the library.
fn code_of(error: &cuprof::Error) -> u8 {
    match error.kind {
        ErrorKind::Config => USAGE,
        ErrorKind::Io | ErrorKind::Format => INPUT,
        ErrorKind::OutputExists => OUTPUT,
        kind if kind.is_of_the_machine() => UNAVAILABLE,
        ErrorKind::Timeout => UNAVAILABLE,
        // One that names no call of a library is of this program's own threads.
        ErrorKind::Call if error.call.is_some() => UNAVAILABLE,
        // Among them what only programs that are profiled can meet.
        _ => INTERNAL,
    }
}

impl From<cuprof::Error> for Failure {
    fn from(error: cuprof::Error) -> Self {
        Self::from(&error)
    }
}

/// Help and version were asked for, or the arguments are wrong.
pub fn usage(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        if stdout_was_closed() {
            return Failure::closed_output().report();
        }
        // In colour on a terminal.
        let printed = error.print().and_then(|()| std::io::stdout().flush());
        return match printed.map_err(|error| written("standard output", &error)) {
            Ok(()) => ExitCode::from(SUCCESS),
            Err(failure) => failure.report(),
        };
    }
    // What is wrong with the arguments repeats them, whatever they are.
    let text = error.render().to_string();
    let _ = if text == printable(&text) {
        error.print()
    } else {
        write!(std::io::stderr(), "{}", printable(&text))
    };
    ExitCode::from(USAGE)
}

/// Why output could not be written.
pub fn written(name: &str, error: &std::io::Error) -> Failure {
    match error.kind() {
        std::io::ErrorKind::BrokenPipe => Failure::closed_pipe(),
        _ => Failure::new(WRITE, format!("cannot write {name}: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_error_has_the_code_that_was_chosen_for_it() {
        for kind in ErrorKind::ALL {
            let chosen = match kind {
                ErrorKind::Config => USAGE,
                ErrorKind::Io | ErrorKind::Format => INPUT,
                ErrorKind::OutputExists => OUTPUT,
                ErrorKind::NoDriver
                | ErrorKind::NoDevice
                | ErrorKind::CuptiNotFound
                | ErrorKind::CuptiTooOld
                | ErrorKind::NvmlNotFound
                | ErrorKind::Busy
                | ErrorKind::AlreadyRunning
                | ErrorKind::GpuInUse
                | ErrorKind::PermissionDenied
                | ErrorKind::NotSupported
                | ErrorKind::Timeout => UNAVAILABLE,
                // Those without the call that failed; nothing here runs code of others.
                ErrorKind::Call | ErrorKind::Program => INTERNAL,
                other => panic!("no code was chosen for {other:?}"),
            };
            assert_eq!(code_of(&cuprof::Error::new(kind, "x")), chosen, "{kind:?}");
        }
        let failed = cuprof::Error::new(ErrorKind::Call, "x").with_call("cuInit", 999);
        assert_eq!(code_of(&failed), UNAVAILABLE);
    }
}
