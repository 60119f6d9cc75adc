//! What the tables are called, which columns they have, and what a file says about itself.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use arrow_schema::{Field, Schema, SchemaRef};

use super::batch::Batch;
use super::column::Column;
use super::{
    counted_tables as counted, device_tables as device, host_tables as host, measured_tables as measured,
};

/// The version of the tables' layout, stored in every file. A later version adds columns and changes none, so that a
/// reader can read files of earlier ones; it refuses files of a later version.
pub const SCHEMA_VERSION: u32 = 2;

/// The key of [`SCHEMA_VERSION`] in a file's metadata.
pub const SCHEMA_VERSION_KEY: &str = "cuprof.schema_version";
/// The key of the table's name in a file's metadata.
pub const TABLE_KEY: &str = "cuprof.table";

/// The tables of a dataset.
///
/// In all of them, times are columns named `*_ns`: nanoseconds since the Unix epoch for stamps, nanoseconds for
/// durations. A stamp is never null; null always means "absent" or "not known", never zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Table {
    /// One kernel execution a row.
    Launches,
    /// One memory copy, fill or peer copy a row.
    Transfers,
    /// One range instance a row.
    Ranges,
    /// One member of one set of process-wide ranges a row.
    RangeSets,
    /// One instantaneous mark a row.
    Marks,
    /// One span that the profiling library or the driver spent on itself a row.
    Overheads,
    /// One runtime or driver API call a row; only if asked for.
    ApiCalls,
    /// One synchronisation a row; only if asked for.
    Synchronizations,
    /// One allocation or release of memory a row; only if asked for.
    MemoryOperations,
    /// One metric of one counted range or kernel a row.
    Metrics,
    /// One measured value of one run a row.
    Samples,
    /// One metric of one annotation or kernel in one configuration a row: what its samples are like.
    Aggregates,
    /// The aggregates of whole annotations in the columns of Nsight Python's table of processed data
    /// ([`Report::compat_csv`](crate::bench::Report::compat_csv)), a row each. All columns are the dataset's own.
    Compat,
    /// One fact about the run a row.
    Env,
    /// One cause of lost or unusable records a row, with its count.
    Losses,
}

impl Table {
    /// Every table.
    pub const ALL: [Self; 15] = [
        Self::Launches,
        Self::Transfers,
        Self::Ranges,
        Self::RangeSets,
        Self::Marks,
        Self::Overheads,
        Self::ApiCalls,
        Self::Synchronizations,
        Self::MemoryOperations,
        Self::Metrics,
        Self::Samples,
        Self::Aggregates,
        Self::Compat,
        Self::Env,
        Self::Losses,
    ];

    /// The table's name, which its files begin with.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Launches => "launches",
            Self::Transfers => "transfers",
            Self::Ranges => "ranges",
            Self::RangeSets => "range_sets",
            Self::Marks => "marks",
            Self::Overheads => "overheads",
            Self::ApiCalls => "api_calls",
            Self::Synchronizations => "synchronizations",
            Self::MemoryOperations => "memory_operations",
            Self::Metrics => "metrics",
            Self::Samples => "samples",
            Self::Aggregates => "aggregates",
            Self::Compat => "compat",
            Self::Env => "env",
            Self::Losses => "losses",
        }
    }

    /// The table with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|table| table.name() == name)
    }

    /// The table's columns. Each field's metadata holds a `description`, and a `unit` if the column has one. Datasets add
    /// columns of their own to some tables, last: `p_<name>` for each parameter to `samples` and `aggregates`, and all
    /// columns of `compat`.
    #[must_use]
    pub fn schema(self) -> SchemaRef {
        let columns = match self {
            Self::Launches => device::Launches::columns(),
            Self::Transfers => device::Transfers::columns(),
            Self::Ranges => host::Ranges::columns(),
            Self::RangeSets => host::RangeSets::columns(),
            Self::Marks => host::Marks::columns(),
            Self::Overheads => host::Overheads::columns(),
            Self::ApiCalls => host::ApiCalls::columns(),
            Self::Synchronizations => host::Synchronizations::columns(),
            Self::MemoryOperations => device::MemoryOperations::columns(),
            Self::Metrics => counted::Metrics::columns(),
            Self::Samples => measured::Samples::columns(),
            Self::Aggregates => measured::Aggregates::columns(),
            Self::Compat => measured::Compat::columns(),
            Self::Env => host::Env::columns(),
            Self::Losses => host::Losses::columns(),
        };
        Arc::new(Schema::new(columns))
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The Arrow field of a column; `description` is its doc comment.
pub(super) fn field<C: Column>(name: &str, unit: Option<&str>, description: &str) -> Field {
    let description = description.trim().to_owned();
    let unit = unit.map(|unit| ("unit".to_owned(), unit.to_owned()));
    let metadata = HashMap::from_iter(unit.into_iter().chain([("description".to_owned(), description)]));
    Field::new(name, C::arrow_type(), C::NULLABLE).with_metadata(metadata)
}
