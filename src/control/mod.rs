//! What the crate does to a GPU to make a measurement repeatable, each a guard object with a report of what it did.
//!
//! The default is to change nothing that outlives the process.

mod cache;

pub use cache::{Cache, CacheReport, CuptiCache, FillSize, L2Control, Probe, Residual};
