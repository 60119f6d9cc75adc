//! Recordings: what CUPTI and the application's threads delivered to the worker, in a file that the same worker
//! can be fed from, without a GPU.
//!
//! A recording holds raw activity buffers with the strings that their pointers meant, the events of each thread,
//! and facts about the run. It is test data, bench data, and what a user attaches to a bug report.
//!
//! # Format
//! Eight bytes of magic with a format version, then frames: the compressed and the raw length as little-endian
//! `u32`, and a zstd frame with its checksum, which holds a byte of kind and the contents. A reader stops at the first frame that is cut off or
//! damaged, having delivered everything before it.

mod frame;
mod reader;
mod writer;

pub(crate) use frame::{CallName, Frame, Strings};
pub(crate) use reader::Reader;
pub(crate) use writer::{Place, Writer};

/// The first bytes of every recording; the last is the format's version.
pub(crate) const MAGIC: [u8; 8] = *b"CUPROFR\x01";

/// No frame is larger: a reader refuses to allocate more because of a damaged length.
pub(crate) const MAX_FRAME_BYTES: usize = 64 << 20;

#[cfg(test)]
mod tests;
