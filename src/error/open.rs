//! Opening files that somebody named.

use std::fs::{self, File};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use super::{Error, ErrorKind, Result, shown};

const PIPE: &str = "a pipe";

/// What a path leads to where that is no file; none where it is one, or nothing.
pub(crate) fn other_than_a_file(path: &Path) -> Option<&'static str> {
    let kind = fs::metadata(path).ok()?.file_type();
    match kind {
        _ if kind.is_file() => None,
        _ if kind.is_dir() => Some("a folder"),
        _ if kind.is_fifo() => Some(PIPE),
        _ if kind.is_socket() => Some("a socket"),
        _ => Some("a device"),
    }
}

/// Opens a file for reading. What is no file is refused unopened: a pipe keeps its reader until somebody writes, and a
/// device does what it likes.
///
/// # Errors
/// `Format` where there is something else, `Io` where it cannot be opened.
pub(crate) fn open_file(path: &Path) -> Result<File> {
    match other_than_a_file(path) {
        None => open(path),
        Some(other) => {
            let hint = "name a file; copy into one what a pipe or a device gives";
            Err(not_a_file(path, other).with_hint(hint))
        }
    }
}

/// Opens what is read from its start to its end: a file, or the pipe that somebody named and writes to.
///
/// # Errors
/// As [`open_file`].
pub(crate) fn open_stream(path: &Path) -> Result<File> {
    match other_than_a_file(path) {
        None | Some(PIPE) => open(path),
        Some(other) => Err(not_a_file(path, other).with_hint("name a file, or a pipe that is written to")),
    }
}

fn not_a_file(path: &Path, other: &str) -> Error {
    Error::new(ErrorKind::Format, format!("{} is not a file: it is {other}", shown(path)))
}

fn open(path: &Path) -> Result<File> {
    File::open(path).map_err(|error| Error::io("cannot open", path, error))
}
