//! In-process CUPTI profiler.
#![allow(dead_code, unused_imports)] // until the rooms are joined

mod attribute;
mod buffer;
mod capture;
mod channel;
mod cupti;
mod driver;
mod error;
mod losses;
mod names;
mod range;
mod record;
mod summary;
mod table;
#[doc(hidden)]
pub mod testing;
mod trace;
mod units;

pub use channel::{Arg, ArgValue};
pub use error::{Error, ErrorKind, Result};
pub use losses::Loss;
pub use range::{Entered, ProcessRange, Range, RangeHandle, in_range, process_range};
pub use summary::{KernelSummary, RangeSummary, Summary, Symbols, TransferSummary};
pub use table::reader::Dataset;
pub use table::schema::Table;
pub use trace::{Builder, FinishError, Profile, Profiler, Replay};

/// Spans of `tracing` as ranges.
#[cfg(feature = "tracing")]
pub mod tracing {
    pub use crate::range::tracing_layer::Layer;
}

/// For the crate's macros.
#[doc(hidden)]
pub mod __private {
    pub use crate::range::is_recording;
}
