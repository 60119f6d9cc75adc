//! Reading a recording, which may be cut off or damaged anywhere.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use super::{Frame, MAGIC, MAX_FRAME_BYTES};
use crate::error::{Error, ErrorKind, Result, open_stream, shown};

/// zstd adds at most this much to what does not compress.
const MAX_PACKED_BYTES: usize = MAX_FRAME_BYTES + (MAX_FRAME_BYTES >> 7) + 64;

/// A recording being read, from a file or from memory.
pub(crate) struct Reader<R> {
    path: PathBuf,
    input: R,
    position: u64,
    decompressor: zstd::bulk::Decompressor<'static>,
    /// The frame's bytes as the file has them, and unpacked. Kept, since new memory costs as much as unpacking.
    packed: Vec<u8>,
    raw: Vec<u8>,
}

impl Reader<BufReader<File>> {
    /// Opens a recording and checks its first bytes.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] where it cannot be opened, [`ErrorKind::Format`] where it is no recording or of another
    /// version.
    pub fn open(path: &Path) -> Result<Self> {
        Self::new(path, BufReader::new(open_stream(path)?))
    }
}

impl<R: Read> Reader<R> {
    /// Reads from any source; `path` names it in errors.
    pub fn new(path: &Path, input: R) -> Result<Self> {
        let decompressor = zstd::bulk::Decompressor::new()
            .map_err(|source| Error::io("cannot start unpacking", path, source))?;
        let mut reader = Self {
            path: path.to_owned(),
            input,
            position: 0,
            decompressor,
            packed: Vec::new(),
            raw: Vec::new(),
        };
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
    pub fn next(&mut self) -> Result<Option<Frame<'_>>> {
        let mut header = [0; 8];
        match self.fill(&mut header)? {
            0 => return Ok(None),
            8 => {}
            _ => return Err(self.format("the recording ends inside a frame")),
        }
        let [p0, p1, p2, p3, r0, r1, r2, r3] = header;
        let packed_bytes = u32::from_le_bytes([p0, p1, p2, p3]) as usize;
        let raw_bytes = u32::from_le_bytes([r0, r1, r2, r3]) as usize;
        if packed_bytes > MAX_PACKED_BYTES || raw_bytes > MAX_FRAME_BYTES {
            return Err(self.format("a frame claims an impossible size"));
        }
        // `take` allocates as bytes arrive, so a damaged length cannot ask for more than the file has.
        self.packed.clear();
        let read = (&mut self.input)
            .take(packed_bytes as u64)
            .read_to_end(&mut self.packed)
            .map_err(|source| Error::io("cannot read the recording", &self.path, source))?;
        self.position += read as u64;
        if read < packed_bytes {
            return Err(self.format("the recording ends inside a frame"));
        }
        self.raw.clear();
        self.raw.reserve(raw_bytes);
        if let Err(source) = self.decompressor.decompress_to_buffer(&self.packed, &mut self.raw) {
            return Err(self.format("a frame is damaged").with_source(source));
        }
        if self.raw.len() != raw_bytes {
            return Err(self.format("a frame is shorter or longer than it claims"));
        }
        match Frame::decode(&self.raw) {
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
        Error::new(ErrorKind::Format, format!("{}: {what} (byte {})", shown(&self.path), self.position))
    }
}
