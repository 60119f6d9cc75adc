//! A dataset that is being written: a folder of parts for each table.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::time::{Duration, Instant};

use super::added::{AddedColumn, Cell};
use super::counted_tables::Metrics;
use super::device_tables::{Launches, MemoryOperations, Transfers};
use super::encode::chunk::Chunk;
use super::files::{Disk, Entered, PartFiles, check_folder, prepare_folder};
use super::host_tables::{ApiCalls, Env, Losses, Marks, Overheads, RangeSets, Ranges, Synchronizations};
use super::measured_tables::{Aggregates, Compat, Samples};
use super::rows::{
    AggregateRow, ApiRow, EnvRow, LaunchRow, LossRow, MarkRow, MemoryRow, MetricRow, OverheadRow, RangeRow,
    RangeSetRow, SampleRow, SynchronizationRow, TransferRow,
};
use super::schema::Table;
use super::table_writer::{Shared, TableWriter};
use crate::error::{Error, ErrorKind, Result};

/// How many rows a part holds by default: some 100 MB of launches.
pub const DEFAULT_MAX_ROWS_PER_PART: u64 = 8 << 20;

/// How old a part's first row becomes by default before the part is finished: what a killed process loses.
pub const DEFAULT_MAX_PART_AGE: Duration = Duration::from_secs(60);

/// The tables that every finished dataset has, so that queries need not ask.
pub const ALWAYS: [Table; 5] = [Table::Launches, Table::Transfers, Table::Ranges, Table::Env, Table::Losses];

/// The fact of `env` that tells how many parts of a table there are: of each but `env` and `losses`, which are not
/// finished yet when it is written.
pub(super) fn parts_fact(table: Table) -> String {
    format!("{PARTS}{table}")
}

/// How the keys of these facts begin.
pub(crate) const PARTS: &str = "dataset.parts.";

/// How a dataset is written.
#[derive(Clone, Debug)]
pub(crate) struct WriterOptions {
    /// Replace a dataset that is there already.
    pub overwrite: bool,
    /// Rows after which a part is finished; at least one.
    pub max_rows_per_part: u64,
    /// Age after which a part is finished.
    pub max_part_age: Duration,
    /// Tables that are to exist even without rows, beside [`ALWAYS`].
    pub tables: Vec<Table>,
    /// Facts that are stored in the metadata of each file, beside the version and the table's name.
    pub provenance: Vec<(String, String)>,
}

impl Default for WriterOptions {
    fn default() -> Self {
        Self {
            overwrite: false,
            max_rows_per_part: DEFAULT_MAX_ROWS_PER_PART,
            max_part_age: DEFAULT_MAX_PART_AGE,
            tables: Vec::new(),
            provenance: Vec::new(),
        }
    }
}

/// Takes the rows of every table. Never fails: a sink that cannot keep a row counts it.
pub(crate) trait TableSink {
    fn launch(&mut self, row: &LaunchRow);
    fn transfer(&mut self, row: &TransferRow);
    fn range(&mut self, row: &RangeRow);
    fn range_set(&mut self, row: &RangeSetRow);
    fn mark(&mut self, row: &MarkRow);
    fn overhead(&mut self, row: &OverheadRow);
    fn api_call(&mut self, row: &ApiRow);
    fn synchronization(&mut self, row: &SynchronizationRow);
    fn memory_operation(&mut self, row: &MemoryRow);
    fn env(&mut self, row: &EnvRow);
    fn loss(&mut self, row: &LossRow);
}

/// What became of the rows of one table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableReport {
    /// Finished parts.
    pub parts: u32,
    /// Rows in them.
    pub rows: u64,
    /// Their size.
    pub bytes: u64,
    /// Rows that could not be written.
    pub rows_lost: u64,
}

/// What a dataset's files hold in the end.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct CloseReport {
    /// Each table that has parts or lost rows.
    pub tables: BTreeMap<Table, TableReport>,
    /// The first failed write; later ones usually have the same cause.
    pub first_error: Option<Error>,
}

impl CloseReport {
    /// The sum over all tables.
    #[must_use]
    pub fn total(&self) -> TableReport {
        self.tables.values().fold(TableReport::default(), |sum, table| TableReport {
            parts: sum.parts + table.parts,
            rows: sum.rows + table.rows,
            bytes: sum.bytes + table.bytes,
            rows_lost: sum.rows_lost + table.rows_lost,
        })
    }
}

/// Writes a dataset: a folder with numbered Parquet parts for each table.
///
/// A part has a temporary name until it is whole, so that a killed process loses at most the last part of each
/// table. A failed write ends its table and nothing else: finished parts stay, the other tables go on, and the
/// rows that are missing are counted. Holds one row group of each table in use in memory (130 bytes a row of
/// `launches`, 17 MB).
pub(crate) struct DatasetWriter {
    shared: Shared,
    entered: Option<Entered>,
    must_exist: Vec<Table>,
    /// What `env` has so far: a fact that two tell is one.
    facts: HashSet<EnvRow>,
    closed: bool,
    launches: TableWriter<Launches>,
    transfers: TableWriter<Transfers>,
    ranges: TableWriter<Ranges>,
    range_sets: TableWriter<RangeSets>,
    marks: TableWriter<Marks>,
    overheads: TableWriter<Overheads>,
    api_calls: TableWriter<ApiCalls>,
    synchronizations: TableWriter<Synchronizations>,
    memory_operations: TableWriter<MemoryOperations>,
    metrics: TableWriter<Metrics>,
    samples: TableWriter<Samples>,
    aggregates: TableWriter<Aggregates>,
    compat: TableWriter<Compat>,
    env: TableWriter<Env>,
    losses: TableWriter<Losses>,
}

/// Does the same with each table's writer.
macro_rules! each_table {
    ($writer:ident, |$table:ident, $shared:ident| $body:expr) => {{
        let $shared = &mut $writer.shared;
        each_table!(@ $writer, $table, $body, launches, transfers, ranges, range_sets, marks, overheads,
            api_calls, synchronizations, memory_operations, metrics, samples, aggregates, compat, env, losses);
    }};
    (@ $writer:ident, $table:ident, $body:expr, $($field:ident),*) => {
        $({ let $table = &mut $writer.$field; $body; })*
    };
}

impl DatasetWriter {
    /// Fails where [`create`](Self::create) would because of what is there; touches nothing.
    pub fn check(folder: &Path, overwrite: bool) -> Result<()> {
        check_folder(folder, overwrite).map(drop)
    }

    /// Creates the folder, or takes an empty one.
    ///
    /// # Errors
    ///
    /// `OutputExists` if something is there already (with `overwrite`: something that is not a dataset), `Io` if
    /// the folder cannot be made, `Config` if an option contradicts itself.
    pub fn create(folder: &Path, options: WriterOptions) -> Result<Self> {
        Self::create_with(folder, options, Box::new(Disk))
    }

    /// Like [`create`](Self::create), with another way to make files.
    pub fn create_with(folder: &Path, options: WriterOptions, files: Box<dyn PartFiles>) -> Result<Self> {
        if options.max_rows_per_part == 0 {
            return Err(Error::new(ErrorKind::Config, "max_rows_per_part is 0")
                .with_hint("a part holds at least one row"));
        }
        let entered = prepare_folder(folder, options.overwrite)?;
        let chunk = Chunk::new()
            .map_err(|error| Error::new(ErrorKind::Io, "cannot start compression").with_source(error))?;
        let shared = Shared {
            folder: folder.to_owned(),
            files,
            chunk,
            provenance: options.provenance,
            max_rows_per_part: options.max_rows_per_part,
            max_part_age: options.max_part_age,
            first_error: None,
        };
        Ok(Self {
            shared,
            entered: Some(entered),
            must_exist: ALWAYS.into_iter().chain(options.tables).collect(),
            facts: HashSet::new(),
            closed: false,
            launches: TableWriter::default(),
            transfers: TableWriter::default(),
            ranges: TableWriter::default(),
            range_sets: TableWriter::default(),
            marks: TableWriter::default(),
            overheads: TableWriter::default(),
            api_calls: TableWriter::default(),
            synchronizations: TableWriter::default(),
            memory_operations: TableWriter::default(),
            metrics: TableWriter::default(),
            samples: TableWriter::default(),
            aggregates: TableWriter::default(),
            compat: TableWriter::default(),
            env: TableWriter::default(),
            losses: TableWriter::default(),
        })
    }

    /// These tables are to exist as well, even without rows.
    pub fn must_have(&mut self, tables: impl IntoIterator<Item = Table>) {
        self.must_exist.extend(tables);
    }

    /// Finishes the parts that are old enough. To be called every second or so; rows alone do not look at the
    /// clock.
    pub fn tick(&mut self, now: Instant) {
        each_table!(self, |table, shared| table.tick(now, shared));
    }

    /// Finishes the parts of all tables that have rows, however young they are.
    pub fn finish_parts(&mut self) {
        each_table!(self, |table, shared| table.finish_part(shared));
    }

    /// Rows that could not be written so far, of all tables: to be told in `losses` before closing.
    pub fn rows_lost(&mut self) -> u64 {
        let mut lost = 0;
        each_table!(self, |table, _shared| lost += table.report().rows_lost);
        lost
    }

    /// Adds a row of `metrics`.
    pub fn metric(&mut self, row: &MetricRow) {
        self.metrics.push(row, &mut self.shared);
    }

    /// Adds a row of `samples`.
    pub fn sample(&mut self, row: &SampleRow) {
        self.samples.push(row, &mut self.shared);
    }

    /// Adds a row of `aggregates`.
    pub fn aggregate(&mut self, row: &AggregateRow) {
        self.aggregates.push(row, &mut self.shared);
    }

    /// Adds a column to `samples` and `aggregates` for each parameter of a measurement. Before the first row of either.
    pub fn add_parameters(&mut self, columns: &[AddedColumn]) {
        self.samples.add(columns);
        self.aggregates.add(columns);
    }

    /// Writes the table `compat`: these columns, which are all that it has, and rows of as many cells.
    pub fn compat(&mut self, columns: &[AddedColumn], rows: &[Vec<Option<Cell>>]) {
        self.compat.add(columns);
        rows.iter().for_each(|row| self.compat.push(row, &mut self.shared));
    }

    /// Writes what is left and finishes every part.
    pub fn close(mut self) -> CloseReport {
        self.closed = true;
        let mut report = CloseReport::default();
        let must_exist = std::mem::take(&mut self.must_exist);
        let mut facts = Vec::new();
        for last in [false, true] {
            each_table!(self, |table, shared| {
                let name = table.table();
                if last == matches!(name, Table::Env | Table::Losses) {
                    table.close(shared, must_exist.contains(&name));
                    if table.report() != TableReport::default() {
                        report.tables.insert(name, table.report());
                    }
                    facts.push(EnvRow { key: parts_fact(name), value: table.report().parts.to_string() });
                }
            });
            // The last facts, after everything that they are about.
            facts.drain(..).filter(|_| !last).for_each(|fact| self.env.push(&fact, &mut self.shared));
        }
        report.first_error = self.shared.first_error.take();
        self.entered = None;
        report
    }
}

impl Drop for DatasetWriter {
    /// Without [`close`](DatasetWriter::close), rows are still written as far as possible; nobody is told.
    fn drop(&mut self) {
        if !self.closed {
            each_table!(self, |table, shared| table.close(shared, false));
        }
    }
}

impl TableSink for DatasetWriter {
    fn launch(&mut self, row: &LaunchRow) {
        self.launches.push(row, &mut self.shared);
    }

    fn transfer(&mut self, row: &TransferRow) {
        self.transfers.push(row, &mut self.shared);
    }

    fn range(&mut self, row: &RangeRow) {
        self.ranges.push(row, &mut self.shared);
    }

    fn range_set(&mut self, row: &RangeSetRow) {
        self.range_sets.push(row, &mut self.shared);
    }

    fn mark(&mut self, row: &MarkRow) {
        self.marks.push(row, &mut self.shared);
    }

    fn overhead(&mut self, row: &OverheadRow) {
        self.overheads.push(row, &mut self.shared);
    }

    fn api_call(&mut self, row: &ApiRow) {
        self.api_calls.push(row, &mut self.shared);
    }

    fn synchronization(&mut self, row: &SynchronizationRow) {
        self.synchronizations.push(row, &mut self.shared);
    }

    fn memory_operation(&mut self, row: &MemoryRow) {
        self.memory_operations.push(row, &mut self.shared);
    }

    fn env(&mut self, row: &EnvRow) {
        if !self.facts.insert(row.clone()) {
            return;
        }
        self.env.push(row, &mut self.shared);
    }

    fn loss(&mut self, row: &LossRow) {
        self.losses.push(row, &mut self.shared);
    }
}
