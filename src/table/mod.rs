//! Arrow schemas, batches, Parquet parts, and the reader.
//!
//! Rows are pushed into columns ([`batch`], [`mod@column`]), columns are encoded into row groups ([`encode`]), row
//! groups go into parts, and parts into a dataset ([`writer`]).

pub(crate) mod added;
mod batch;
#[cfg_attr(not(feature = "analysis"), expect(dead_code, reason = "some of it is for `analysis` alone"))]
pub(crate) mod collection;
mod column;
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
mod source;
mod table_writer;
#[cfg(test)]
mod tests;
pub(crate) mod writer;
