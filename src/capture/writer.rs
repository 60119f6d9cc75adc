//! Writing a recording.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use super::{Frame, MAGIC, MAX_FRAME_BYTES};
use crate::error::{Error, ErrorKind, Result};

/// zstd's default: records compress to about a tenth at several hundred MB/s.
const COMPRESSION_LEVEL: i32 = 3;

/// A recording being written.
pub(crate) struct Writer {
    path: PathBuf,
    file: BufWriter<File>,
    compressor: zstd::bulk::Compressor<'static>,
    raw: Vec<u8>,
    frames_lost: u64,
    first_error: Option<Error>,
}

impl Writer {
    /// Creates the file, or refuses if it exists and `overwrite` is not set.
    ///
    /// # Errors
    /// [`ErrorKind::OutputExists`], or [`ErrorKind::Io`] where the file cannot be created.
    pub fn create(path: &Path, overwrite: bool) -> Result<Self> {
        let mut options = File::options();
        options.write(true);
        if overwrite {
            options.create(true).truncate(true)
        } else {
            options.create_new(true)
        };
        let file = options.open(path).map_err(|source| {
            if source.kind() == std::io::ErrorKind::AlreadyExists {
                Error::new(ErrorKind::OutputExists, format!("{} exists", path.display()))
                    .with_hint("choose another path, or ask for overwriting")
            } else {
                Error::io("cannot create the recording", path, source)
            }
        })?;
        let mut compressor = zstd::bulk::Compressor::new(COMPRESSION_LEVEL)
            .map_err(|source| Error::io("cannot start compression for", path, source))?;
        compressor
            .include_checksum(true)
            .map_err(|source| Error::io("cannot add checksums to", path, source))?;
        let mut file = BufWriter::new(file);
        file.write_all(&MAGIC).map_err(|source| Error::io("cannot write", path, source))?;
        Ok(Self {
            path: path.to_owned(),
            file,
            compressor,
            raw: Vec::new(),
            frames_lost: 0,
            first_error: None,
        })
    }

    /// Appends a frame. After the first failure nothing more is written, so that the file stays readable up to
    /// there, and frames are counted as lost.
    pub fn write(&mut self, frame: &Frame<'_>) {
        if self.first_error.is_none()
            && let Err(error) = self.try_write(frame)
        {
            self.first_error = Some(Error::io("cannot write the recording", &self.path, error));
        }
        self.frames_lost += u64::from(self.first_error.is_some());
    }

    fn try_write(&mut self, frame: &Frame<'_>) -> std::io::Result<()> {
        self.raw.clear();
        frame.encode(&mut self.raw);
        if self.raw.len() > MAX_FRAME_BYTES {
            return Err(std::io::Error::other("a frame is larger than a recording can hold"));
        }
        let packed = self.compressor.compress(&self.raw)?;
        // CAST: both lengths are bounded by MAX_FRAME_BYTES and zstd's small overhead.
        self.file.write_all(&(packed.len() as u32).to_le_bytes())?;
        self.file.write_all(&(self.raw.len() as u32).to_le_bytes())?;
        self.file.write_all(&packed)
    }

    /// Closes the file. Returns how many frames are missing, and the first failure.
    pub fn close(mut self) -> (u64, Option<Error>) {
        if let Err(source) = self.file.flush() {
            let error = Error::io("cannot write the recording", &self.path, source);
            self.first_error.get_or_insert(error);
            self.frames_lost += 1;
        }
        (self.frames_lost, self.first_error)
    }
}
