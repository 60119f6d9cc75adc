//! Datasets that are read: summed up, and drawn as traces (feature `analysis`).
//!
//! Everything here is a function of the files alone: it needs no GPU, no driver and no CUPTI, and the same files give
//! the same bytes. The command `cuprof` (feature `cli`) is a thin front of it.

mod busy;
mod digest;
mod filter;
mod gather;
mod report;
#[cfg(test)]
mod tests;
mod trace;
mod tree;
mod unmatched;

pub use crate::error::printable;
pub use crate::table::collection::{Collection, LostRows, Member, Progress};
pub use digest::{Busy, DatasetFacts, DeviceTime, Digest, RangeTime, StreamTime};
pub use filter::{Filter, Moment};
pub use report::{DEFAULT_TOP, Section, Sort, View, terminal};
pub use trace::{TraceError, Traced};
