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

pub use error::{Error, ErrorKind, Result};
