//! Reading a recording, which may be cut off or damaged anywhere.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use super::{Frame, MAGIC, MAX_FRAME_BYTES};
use crate::error::{Error, ErrorKind, Result};

/// zstd adds at most this much to what does not compress.
const MAX_PACKED_BYTES: usize = MAX_FRAME_BYTES + (MAX_FRAME_BYTES >> 7) + 64;

/// A recording being read, from a file or from memory.
pub(crate) struct Reader<R> {
    path: PathBuf,
    input: R,
    position: u64,
}

impl Reader<BufReader<File>> {
    /// Opens a recording and checks its first bytes.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] where it cannot be opened, [`ErrorKind::Format`] where it is no recording or of another
    /// version.
    pub fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(|source| Error::io("cannot open the recording", path, source))?;
        Self::new(path, BufReader::new(file))
    }
}

impl<R: Read> Reader<R> {
    /// Reads from any source; `path` names it in errors.
    pub fn new(path: &Path, input: R) -> Result<Self> {
        let mut reader = Self { path: path.to_owned(), input, position: 0 };
        let mut magic = [0; MAGIC.len()];
        let read = reader.fill(&mut magic)?;
        let (name, version) = magic.split_at(MAGIC.len() - 1);
        if read < MAGIC.len() || name != &MAGIC[..MAGIC.len() - 1] {
            return Err(reader.format("this is not a cuprof recording"));
        }
        if version != &MAGIC[MAGIC.len() - 1..] {
            return Err(reader
                .format("this recording has another format version")
                .with_hint("read it with the cuprof version that wrote it"));
        }
        Ok(reader)
    }

    /// The next frame; none at the end of the file.
    ///
    /// # Errors
    /// [`ErrorKind::Format`] where the file ends inside a frame or a frame is damaged: nothing can be read after
    /// that. Everything before was sound, as its checksums show.
    pub fn next(&mut self) -> Result<Option<Frame>> {
        let mut header = [0; 9];
        match self.fill(&mut header)? {
            0 => return Ok(None),
            9 => {}
            _ => return Err(self.format("the recording ends inside a frame")),
        }
        let [kind, p0, p1, p2, p3, r0, r1, r2, r3] = header;
        let packed_bytes = u32::from_le_bytes([p0, p1, p2, p3]) as usize;
        let raw_bytes = u32::from_le_bytes([r0, r1, r2, r3]) as usize;
        if packed_bytes > MAX_PACKED_BYTES || raw_bytes > MAX_FRAME_BYTES {
            return Err(self.format("a frame claims an impossible size"));
        }
        // `take` allocates as bytes arrive, so a damaged length cannot ask for more than the file has.
        let mut packed = Vec::new();
        let read = (&mut self.input)
            .take(packed_bytes as u64)
            .read_to_end(&mut packed)
            .map_err(|source| Error::io("cannot read the recording", &self.path, source))?;
        self.position += read as u64;
        if read < packed_bytes {
            return Err(self.format("the recording ends inside a frame"));
        }
        let raw = zstd::bulk::decompress(&packed, raw_bytes)
            .map_err(|source| self.format("a frame is damaged").with_source(source))?;
        if raw.len() != raw_bytes {
            return Err(self.format("a frame is shorter than it claims"));
        }
        match Frame::decode(kind, &raw) {
            Some(frame) => Ok(Some(frame)),
            None => Err(self.format("a frame has contents that this version does not know")),
        }
    }

    /// Reads until the slice is full or the input ends.
    fn fill(&mut self, bytes: &mut [u8]) -> Result<usize> {
        let mut filled = 0;
        while filled < bytes.len() {
            match self.input.read(&mut bytes[filled..]) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(source) => return Err(Error::io("cannot read the recording", &self.path, source)),
            }
        }
        self.position += filled as u64;
        Ok(filled)
    }

    fn format(&self, what: &str) -> Error {
        Error::new(ErrorKind::Format, format!("{}: {what} (byte {})", self.path.display(), self.position))
    }
}
