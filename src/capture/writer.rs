//! Writing a recording.

use std::fs::File;
use std::io::{BufWriter, Read, Seek, Write};
use std::path::{Path, PathBuf};

use super::{Frame, MAGIC, MAX_FRAME_BYTES};
use crate::error::{Error, ErrorKind, Result, shown};

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

/// Where a recording can be written; what was there before is still there.
pub(crate) struct Place {
    path: PathBuf,
    file: File,
    is_new: bool,
}

impl Place {
    /// Opens the file, or refuses if it exists and `overwrite` is not set, or is not a recording.
    ///
    /// # Errors
    /// [`ErrorKind::OutputExists`], or [`ErrorKind::Io`] where the file cannot be created.
    pub fn find(path: &Path, overwrite: bool) -> Result<Self> {
        let exists = |why: &str, hint: &str| {
            Error::new(ErrorKind::OutputExists, format!("{} {why}", shown(path))).with_hint(hint)
        };
        let cannot = |source| Error::io("cannot create the recording", path, source);
        match File::options().write(true).create_new(true).open(path) {
            Ok(file) => return Ok(Self { path: path.to_owned(), file, is_new: true }),
            Err(source) if source.kind() != std::io::ErrorKind::AlreadyExists => return Err(cannot(source)),
            Err(_) if !overwrite => {
                let hint = "choose another path, or ask for it to be replaced with overwrite(true)";
                return Err(exists("exists", hint));
            }
            Err(_) => {}
        }
        let mut file = File::options().read(true).write(true).open(path).map_err(cannot)?;
        if file.metadata().map_err(cannot)?.is_file() {
            let mut start = Vec::new();
            (&mut file).take(MAGIC.len() as u64).read_to_end(&mut start).map_err(cannot)?;
            if !start.is_empty() && !start.starts_with(&MAGIC[..MAGIC.len() - 1]) {
                return Err(exists("is no recording, and is not replaced", "choose another path"));
            }
        }
        Ok(Self { path: path.to_owned(), file, is_new: false })
    }

    /// Leaves the file as it was found.
    pub fn leave(self) {
        if self.is_new {
            let _it_is_empty = std::fs::remove_file(&self.path);
        }
    }
}

impl Writer {
    /// Begins the recording, which ends what was in the file before.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] where it cannot be written.
    pub fn begin(place: Place) -> Result<Self> {
        let Place { path, mut file, .. } = place;
        let cannot = |source| Error::io("cannot write", &path, source);
        // Devices and pipes have neither a length nor a position.
        if file.metadata().map_err(cannot)?.is_file() {
            file.set_len(0).map_err(cannot)?;
            file.rewind().map_err(cannot)?;
        }
        let mut compressor = zstd::bulk::Compressor::new(COMPRESSION_LEVEL)
            .map_err(|source| Error::io("cannot start compression for", &path, source))?;
        compressor
            .include_checksum(true)
            .map_err(|source| Error::io("cannot add checksums to", &path, source))?;
        let mut file = BufWriter::new(file);
        file.write_all(&MAGIC).map_err(|source| Error::io("cannot write", &path, source))?;
        Ok(Self { path, file, compressor, raw: Vec::new(), frames_lost: 0, first_error: None })
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
