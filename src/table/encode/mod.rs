//! Columns to Parquet pages.
//!
//! The `parquet` crate writes the files; what is encoded here is the inside of the pages. The reason is speed:
//! its dictionary encoder hashes and compares the text of every value of every row, so that one long kernel name
//! costs more than all numbers of the row, while the columns here know their dictionary already. A row of
//! `launches` takes 130 ns from the pipeline's hands to the disk; the crate's own Arrow writer takes 290 ns without
//! building its batches (`benches/table_write.rs`, `benches/results/table_write.txt`).

pub(super) mod bits;
pub(super) mod chunk;
pub(super) mod delta;
