//! Columns to Parquet pages.
//!
//! The `parquet` crate writes the files; what is encoded here is the inside of the pages. The reason is speed:
//! its dictionary encoder hashes the bytes of every value of every row, so that one long kernel name costs more
//! than all numbers of the row, while the columns here know their dictionary already. `benches/table_write.rs`
//! measures both ways.

pub(super) mod bits;
pub(super) mod chunk;
pub(super) mod delta;
