//! Arrow schemas, batches, Parquet parts, and the reader.

pub(crate) mod rows;
