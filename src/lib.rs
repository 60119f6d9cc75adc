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
mod trace;
mod units;

pub use channel::{Arg, ArgValue};
pub use error::{Error, ErrorKind, Result};
pub use losses::Loss;
pub use range::{Entered, ProcessRange, Range, RangeHandle, in_range, process_range};
pub use summary::Summary;
pub use table::reader::Dataset;
pub use table::schema::Table;
pub use trace::{Builder, FinishError, Profile, Profiler, Replay};

/// For the crate's macros.
#[doc(hidden)]
pub mod __private {
    pub use crate::range::is_recording;
}
