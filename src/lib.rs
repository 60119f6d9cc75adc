//! In-process CUPTI profiler.
#![allow(dead_code, unused_imports)] // until the rooms are joined

mod channel;
mod error;
mod range;
mod record;
mod table;
#[doc(hidden)]
pub mod testing;
mod units;

pub use channel::{Arg, ArgValue};
pub use error::{Error, ErrorKind, Result};
pub use range::{Entered, ProcessRange, Range, RangeHandle, in_range, process_range};

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
