//! A part that is open, and tells what kept it from being read from what is wrong in it.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use bytes::Bytes;
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, Length};

use crate::error::{Error, ErrorKind, Result, open_file, shown};

/// A file that is read at any place by whoever has it. No other file descriptor is needed for that.
#[derive(Clone)]
pub(super) struct Source(Arc<Open>);

struct Open {
    path: PathBuf,
    file: File,
    bytes: u64,
    /// The system's number of the error that reading met; 0 for none. Readers of the format keep its words at best.
    failed: AtomicI32,
}

impl Source {
    pub fn open(path: &Path) -> Result<Self> {
        Self::of(path, open_file(path)?)
    }

    fn of(path: &Path, file: File) -> Result<Self> {
        let bytes = file.metadata().map_err(|error| Error::io("cannot look at", path, error))?.len();
        Ok(Self(Arc::new(Open { path: path.to_owned(), file, bytes, failed: AtomicI32::new(0) })))
    }

    /// Reads something of it. `Io` where the system refused: nothing is known of the content then. `Format` where it
    /// was read and is wrong.
    ///
    /// The `parquet` crate panics on some damaged footers (pages have checksums), which must not end the program that
    /// looks at them.
    pub fn guarded<T>(&self, read: impl FnOnce() -> Result<T, ParquetError>) -> Result<T> {
        // Nothing that the closure leaves half done is used again: its reader is dropped.
        let read = std::panic::catch_unwind(AssertUnwindSafe(read))
            .unwrap_or_else(|_| Err(ParquetError::General("the reader panicked".into())));
        read.map_err(|error| match self.0.failed.load(Ordering::Relaxed) {
            0 => {
                let hint = hint(&error);
                let what = format!("cannot read {}", shown(&self.0.path));
                Error::new(ErrorKind::Format, what).with_source(error).with_hint(hint)
            }
            code => Error::io("cannot read", &self.0.path, io::Error::from_raw_os_error(code)),
        })
    }

    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        if at >= self.0.bytes {
            // A damaged footer can name any place, some of which the system has other errors for.
            return Ok(0);
        }
        self.0.file.read_at(buffer, at).inspect_err(|error| {
            if error.kind() != io::ErrorKind::Interrupted {
                self.0.failed.store(error.raw_os_error().unwrap_or(0), Ordering::Relaxed);
            }
        })
    }
}

/// What to do about a file that cannot be read.
fn hint(error: &ParquetError) -> &'static str {
    // It has no kind of its own.
    if error.to_string().contains("Disabled feature at compile time") {
        "another program rewrote it with a compression that this crate does not read: have it write zstd, or none"
    } else {
        "the file is damaged or was cut short"
    }
}

impl Length for Source {
    fn len(&self) -> u64 {
        self.0.bytes
    }
}

impl ChunkReader for Source {
    type T = BufReader<Cursor>;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        Ok(BufReader::new(Cursor { source: self.clone(), at: start }))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        // Before memory is taken for what a damaged footer says.
        let end = start.checked_add(length as u64).filter(|end| *end <= self.0.bytes);
        end.ok_or_else(|| ParquetError::EOF(format!("{length} bytes at {start} are not in the file")))?;
        let mut bytes = Vec::with_capacity(length);
        Cursor { source: self.clone(), at: start }.take(length as u64).read_to_end(&mut bytes)?;
        if bytes.len() != length {
            return Err(ParquetError::EOF(format!("{} of {length} bytes at {start}", bytes.len())));
        }
        Ok(bytes.into())
    }
}

/// It, from a place on.
pub(super) struct Cursor {
    source: Source,
    at: u64,
}

impl Read for Cursor {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.source.read_at(buffer, self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_system_refuses_is_not_called_damage() -> std::result::Result<(), Box<dyn std::error::Error>> {
        let file = tempfile::NamedTempFile::new()?;
        std::fs::write(&file, "PAR1 and no more")?;
        let read = |source: &Source| source.guarded(|| source.get_bytes(0, 4)).map_err(|error| error.kind);
        assert_eq!(read(&Source::open(file.path())?), Ok(Bytes::from_static(b"PAR1")));
        // A file descriptor that may only write.
        let unreadable = Source::of(file.path(), File::options().write(true).open(file.path())?)?;
        assert_eq!(read(&unreadable), Err(ErrorKind::Io));
        Ok(())
    }

    #[test]
    fn places_that_are_not_in_the_file_are_damage() -> std::result::Result<(), Box<dyn std::error::Error>> {
        let file = tempfile::NamedTempFile::new()?;
        std::fs::write(&file, "PAR1")?;
        let source = Source::open(file.path())?;
        for (start, length) in [(0, 5), (u64::MAX, 1), (1 << 63, 4), (0, usize::MAX)] {
            let read = source.guarded(|| source.get_bytes(start, length));
            assert_eq!(read.map_err(|error| error.kind), Err(ErrorKind::Format), "{start} {length}");
        }
        let mut rest = Vec::new();
        source.get_read(u64::MAX)?.read_to_end(&mut rest)?;
        assert!(rest.is_empty());
        Ok(())
    }
}
