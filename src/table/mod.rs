//! Arrow schemas, batches, Parquet parts, and the reader.
//!
//! Rows are pushed into columns ([`batch`], [`mod@column`]), columns are encoded into row groups ([`encode`]), row
//! groups go into parts, and parts into a dataset ([`writer`]).

pub(crate) mod added;
mod batch;
#[cfg(feature = "analysis")]
pub(crate) mod collection;
mod column;
#[cfg(feature = "analysis")]
pub(crate) mod columns;
mod counted_tables;
mod device_tables;
mod encode;
mod files;
mod host_tables;
mod measured_tables;
mod part;
pub(crate) mod reader;
pub(crate) mod recover;
pub(crate) mod rows;
pub(crate) mod schema;
mod table_writer;
#[cfg(test)]
mod tests;
pub(crate) mod writer;
