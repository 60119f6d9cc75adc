//! The crate's error: what failed, which call, its code by name, and what to do next.

// Benches have this file as a module of theirs.
#[path = "error/cuda.rs"]
pub(crate) mod cuda;
#[path = "error/nvml.rs"]
pub(crate) mod nvml;
#[path = "error/open.rs"]
mod open;

use std::path::Path;
use std::{fmt, io};

pub(crate) use self::open::{open_file, open_stream, other_than_a_file};

/// Whether a character does more than it shows: control characters move a terminal's cursor, or worse; marks of direction
/// turn the text around them, so that it reads as another; and two end lines.
pub(crate) fn is_steering(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A text for a terminal: control characters and marks of direction, which could change what is shown there, are escaped,
/// but for the ends of lines.
#[must_use]
pub fn printable(text: &str) -> String {
    let mut printable = String::with_capacity(text.len());
    for c in text.chars() {
        if is_steering(c) && c != '\n' {
            printable.extend(c.escape_default());
        } else {
            printable.push(c);
        }
    }
    printable
}

/// A path in a message, on one line whatever it is called.
pub(crate) fn shown(path: impl AsRef<Path>) -> String {
    printable(&path.as_ref().to_string_lossy()).replace('\n', "\\n")
}

/// The result of a fallible call of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, in the words of somebody who profiles a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The CUDA driver library is not installed, or it could not be initialised.
    NoDriver,
    /// The driver is there but sees no GPU.
    NoDevice,
    /// No usable CUPTI library was found; the message lists every path that was tried.
    CuptiNotFound,
    /// The CUPTI library in use is older than what the request needs.
    CuptiTooOld,
    /// Another profiler holds CUPTI's only subscription in this process.
    Busy,
    /// A session of this crate already runs in this process.
    AlreadyRunning,
    /// The driver or CUPTI refused for want of permission.
    PermissionDenied,
    /// NVML, the library of clocks and temperatures, is not installed, or what is there in its place is none.
    NvmlNotFound,
    /// Others use the GPU, or have set its clocks: what was asked for would change it for them, too.
    GpuInUse,
    /// A CUPTI or driver call failed in a way that has no kind of its own.
    Call,
    /// A call did not come back within its limit.
    Timeout,
    /// The GPU, or the way in which it is used here, cannot do what was asked for.
    NotSupported,
    /// The profiled code, which the crate called, returned an error: the source of this one.
    Program,
    /// The configuration contradicts itself or names something that does not exist.
    Config,
    /// The output exists already and overwriting was not asked for.
    OutputExists,
    /// Reading or writing a file failed.
    Io,
    /// A file is not what it should be: foreign, truncated, damaged, or of a newer schema.
    Format,
}

impl ErrorKind {
    /// Every kind.
    pub const ALL: [Self; 17] = [
        Self::NoDriver,
        Self::NoDevice,
        Self::CuptiNotFound,
        Self::CuptiTooOld,
        Self::Busy,
        Self::AlreadyRunning,
        Self::PermissionDenied,
        Self::NvmlNotFound,
        Self::GpuInUse,
        Self::Call,
        Self::Timeout,
        Self::NotSupported,
        Self::Program,
        Self::Config,
        Self::OutputExists,
        Self::Io,
        Self::Format,
    ];

    /// Whether the machine as it is stands in the way, and not the request: a driver, a GPU, CUPTI or NVML is absent or too
    /// old, in use, or not to be used by this user.
    #[must_use]
    pub fn is_of_the_machine(self) -> bool {
        match self {
            Self::NoDriver
            | Self::NoDevice
            | Self::CuptiNotFound
            | Self::CuptiTooOld
            | Self::Busy
            | Self::AlreadyRunning
            | Self::PermissionDenied
            | Self::NvmlNotFound
            | Self::GpuInUse
            | Self::NotSupported => true,
            Self::Call
            | Self::Timeout
            | Self::Program
            | Self::Config
            | Self::OutputExists
            | Self::Io
            | Self::Format => false,
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::NoDriver => "no CUDA driver",
            Self::NoDevice => "no GPU",
            Self::CuptiNotFound => "CUPTI not found",
            Self::CuptiTooOld => "CUPTI too old",
            Self::Busy => "another profiler is active",
            Self::AlreadyRunning => "a session already runs",
            Self::PermissionDenied => "permission denied",
            Self::NvmlNotFound => "NVML not found",
            Self::GpuInUse => "others use the GPU",
            Self::Call => "call failed",
            Self::Timeout => "timed out",
            Self::NotSupported => "not supported",
            Self::Program => "the profiled code failed",
            Self::Config => "invalid configuration",
            Self::OutputExists => "output exists",
            Self::Io => "input or output failed",
            Self::Format => "unusable input",
        }
    }
}

/// An error with its kind, the C call and code behind it if there was one, and a hint what to do.
///
/// Its text is all of it, the errors that caused it included: often only the innermost one says why ("invalid ELF
/// header"). So `source()` gives nothing, and what prints chains of errors says nothing twice; [`cause`](Self::cause)
/// has the error behind it for programs. Printing needs no library call: names of codes are the crate's own.
///
/// ```
/// # use std::error::Error as _;
/// let error = cuprof::Dataset::open("/nowhere/run.cuprof").expect_err("there is none");
/// assert_eq!(error.to_string(), "input or output failed: cannot list /nowhere/run.cuprof: \
///     No such file or directory (os error 2)\n  \
///     no such path is there: look for a mistake in it, and whether it starts in the right folder");
/// assert!(error.source().is_none());
/// let cause = error.cause().and_then(|cause| cause.downcast_ref::<std::io::Error>());
/// assert_eq!(cause.map(|cause| cause.kind()), Some(std::io::ErrorKind::NotFound));
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct Error {
    /// The kind, for matching.
    pub kind: ErrorKind,
    /// What failed, as a sentence part.
    pub what: String,
    /// The C function that failed, if one did.
    pub call: Option<&'static str>,
    /// The code that it returned, if it returned one.
    pub code: Option<i32>,
    /// What to do next.
    pub hint: Option<String>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// An error of this kind; `what` says what failed.
    #[must_use]
    pub fn new(kind: ErrorKind, what: impl Into<String>) -> Self {
        Self { kind, what: what.into(), call: None, code: None, hint: None, source: None }
    }

    /// Adds what to do next.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds the C call and the code that it returned.
    #[must_use]
    pub fn with_call(mut self, call: &'static str, code: i32) -> Self {
        self.call = Some(call);
        self.code = Some(code);
        self
    }

    /// Adds what it is about.
    pub(crate) fn about(mut self, what: &str) -> Self {
        self.what = format!("{}: {what}", self.what);
        self
    }

    /// Adds the error that caused this one.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// The error that caused this one, if one did. Its text is part of this one's.
    #[must_use]
    pub fn cause(&self) -> Option<&(dyn std::error::Error + Send + Sync + 'static)> {
        self.source.as_deref()
    }

    /// An input or output error on a path.
    #[must_use]
    pub fn io(what: &str, path: &std::path::Path, source: std::io::Error) -> Self {
        let hint = next_step(&source);
        let error = Self::new(ErrorKind::Io, format!("{what} {}", shown(path))).with_source(source);
        match hint {
            Some(hint) => error.with_hint(hint),
            None => error,
        }
    }
}

/// What to do about an error of the system.
fn next_step(error: &io::Error) -> Option<&'static str> {
    use rustix::io::Errno;
    let number = error.raw_os_error().map(Errno::from_raw_os_error);
    Some(match error.kind() {
        _ if matches!(number, Some(Errno::MFILE | Errno::NFILE)) => {
            "close files or raise the limit of open files (ulimit -n), and try again"
        }
        _ if number == Some(Errno::LOOP) => "it is a link that leads to itself: name what it should lead to",
        io::ErrorKind::NotFound => {
            "no such path is there: look for a mistake in it, and whether it starts in the right folder"
        }
        io::ErrorKind::PermissionDenied => {
            "this user may not do that there: choose another path, or change its owner or mode (ls -ld tells them)"
        }
        io::ErrorKind::NotADirectory => {
            "a part of the path is a file and no folder: look for a mistake in it"
        }
        io::ErrorKind::IsADirectory => "it is a folder: name a file in it",
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "make room there (df -h tells how much is left), or choose another path"
        }
        io::ErrorKind::ReadOnlyFilesystem => "nothing can be written there: choose another path",
        io::ErrorKind::StaleNetworkFileHandle | io::ErrorKind::TimedOut | io::ErrorKind::HostUnreachable => {
            "the file server does not answer as it should: try again, or mount it anew"
        }
        _ if number == Some(Errno::IO) => {
            "the disk or the file server has a fault: see the kernel's log (dmesg)"
        }
        _ => return None,
    })
}

impl Error {
    /// All of it, as it came.
    fn write_to(&self, f: &mut impl fmt::Write) -> fmt::Result {
        write!(f, "{}: {}", self.kind.as_str(), self.what)?;
        if let Some(call) = self.call {
            write!(f, " ({call}")?;
            if let Some(code) = self.code {
                let name = if call.starts_with("cupti") {
                    cupti_sys::result::name(code.unsigned_abs())
                } else if call.starts_with("cu") {
                    cuda::name(code)
                } else if call.starts_with("nvml") {
                    nvml::name(code)
                } else {
                    None
                };
                match name {
                    Some(name) => write!(f, " returned {code}, {name}")?,
                    None => write!(f, " returned {code}")?,
                }
            }
            if self.kind == ErrorKind::Timeout && self.code.is_none() {
                f.write_str(" did not return")?;
            }
            f.write_char(')')?;
        }
        // The whole chain, unless an outer error has repeated an inner one's words.
        let mut told = String::new();
        let mut source = self.cause().map(|cause| cause as &dyn std::error::Error);
        while let Some(error) = source {
            let words = error.to_string();
            if !told.contains(&words) {
                write!(f, ": {words}")?;
                told = words;
            }
            source = error.source();
        }
        if let Some(hint) = &self.hint {
            write!(f, "\n  {hint}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        self.write_to(&mut text)?;
        f.write_str(&printable(&text))
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_has_the_whole_chain_once() {
        let inner = Error::new(ErrorKind::Format, "a frame is damaged").with_source("bad checksum");
        let outer = Error::new(ErrorKind::Io, "cannot copy").with_source(inner).with_hint("try again");
        assert_eq!(
            outer.to_string(),
            "input or output failed: cannot copy: unusable input: a frame is damaged: bad checksum\n  try again"
        );
        assert!(std::error::Error::source(&outer).is_none());
    }

    #[test]
    fn codes_have_the_names_that_their_libraries_give_them() {
        let told = |call, code| Error::new(ErrorKind::Call, "x").with_call(call, code).to_string();
        assert_eq!(
            told("cuCtxSynchronize", 719),
            "call failed: x (cuCtxSynchronize returned 719, CUDA_ERROR_LAUNCH_FAILED)"
        );
        assert!(told("cuptiSubscribe", 1).ends_with("returned 1, CUPTI_ERROR_INVALID_PARAMETER)"));
        assert!(told("cuInit", 12_345).ends_with("(cuInit returned 12345)"));
        assert!(told("nvmlInit_v2", 9).ends_with("(nvmlInit_v2 returned 9, NVML_ERROR_DRIVER_NOT_LOADED)"));
        assert!(told("nvmlInit_v2", 500).ends_with("(nvmlInit_v2 returned 500)"));
    }

    #[test]
    fn all_kinds_are_all_and_have_words_of_their_own() {
        let words: std::collections::BTreeSet<&str> =
            ErrorKind::ALL.iter().map(|kind| kind.as_str()).collect();
        assert_eq!(words.len(), ErrorKind::ALL.len());
        // In the order in which they are declared, so that none is left out between the first and the last.
        assert!(ErrorKind::ALL.iter().enumerate().all(|(place, kind)| *kind as usize == place));
    }

    #[test]
    fn no_text_of_others_changes_what_a_terminal_shows() {
        let absent = std::io::Error::from(std::io::ErrorKind::NotFound);
        let error = Error::io("cannot open", Path::new("a\u{1b}[2J\nerror: b\r"), absent)
            .with_source("said \u{7}")
            .with_hint("try\u{9b} \u{202e}again");
        assert_eq!(
            error.to_string(),
            "input or output failed: cannot open a\\u{1b}[2J\\nerror: b\\r: said \\u{7}\n  try\\u{9b} \\u{202e}again"
        );
    }
}
