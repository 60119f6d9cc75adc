//! In-process CUPTI profiler.
#![allow(dead_code, unused_imports)] // until the rooms are joined

mod attribute;
mod buffer;
mod channel;
mod driver;
mod error;
mod range;
mod record;
mod table;
mod units;

pub use channel::{Arg, ArgValue};
pub use error::{Error, ErrorKind, Result};
pub use range::{Entered, ProcessRange, Range, RangeHandle, in_range, process_range};

/// For the crate's macros.
#[doc(hidden)]
pub mod __private {
    pub use crate::range::is_recording;
}
