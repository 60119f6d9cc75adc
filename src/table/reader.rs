//! A dataset that is read.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{Array, RecordBatch, StringArray, new_null_array};
use arrow_schema::{Field, Schema, SchemaRef};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use parquet::errors::ParquetError;
use parquet::file::statistics::Statistics;

use super::files::{cannot_list, is_entered, parse_part, part_path};
use super::schema::{SCHEMA_VERSION, SCHEMA_VERSION_KEY, TABLE_KEY, Table};
use super::source::Source;
use super::writer::{ALWAYS, parts_fact};
use crate::error::{Error, ErrorKind, Result, shown};

/// Rows of a batch that is read.
pub const READ_BATCH_ROWS: usize = 65_536;

/// A dataset on disk: the parts of its tables, checked.
///
/// Opening reads the footer of each part and no rows. Files of earlier versions of the tables
/// ([`SCHEMA_VERSION`]) are read like those of today: columns that came later are there, and null.
#[derive(Debug)]
pub struct Dataset {
    tables: BTreeMap<Table, Vec<Part>>,
}

/// A row group of a part.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Group {
    pub table: Table,
    part: usize,
    index: usize,
}

#[derive(Debug)]
struct Part {
    path: PathBuf,
    metadata: ArrowReaderMetadata,
    /// The columns as they are handed out, where the file lacks some of them.
    completed: Option<SchemaRef>,
}

impl Part {
    fn rows(&self) -> u64 {
        u64::try_from(self.metadata.metadata().file_metadata().num_rows()).unwrap_or(0)
    }

    /// The batch with the columns that its file lacks, all null.
    fn complete(&self, batch: RecordBatch) -> Result<RecordBatch, ParquetError> {
        let Some(schema) = &self.completed else { return Ok(batch) };
        let column = |field: &Arc<Field>| match batch.column_by_name(field.name()) {
            Some(column) => Arc::clone(column),
            None => new_null_array(field.data_type(), batch.num_rows()),
        };
        Ok(RecordBatch::try_new(Arc::clone(schema), schema.fields().iter().map(column).collect())?)
    }
}

impl Part {
    /// These columns, in this order; all null where the file lacks one.
    fn pick(&self, batch: &RecordBatch, columns: &[&str]) -> Result<RecordBatch, ParquetError> {
        let schema = self.completed.as_ref().unwrap_or_else(|| self.metadata.schema());
        let (mut fields, mut picked) = (Vec::with_capacity(columns.len()), Vec::with_capacity(columns.len()));
        for name in columns {
            let field = schema.field_with_name(name)?;
            fields.push(field.clone());
            picked.push(match batch.column_by_name(name) {
                Some(column) => Arc::clone(column),
                None => new_null_array(field.data_type(), batch.num_rows()),
            });
        }
        Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), picked)?)
    }
}

impl Dataset {
    /// Opens the dataset in a folder.
    ///
    /// # Errors
    ///
    /// `Io` if the folder or a file cannot be read; `Format` if the folder is no dataset, if a part is missing
    /// between two others, or if a file is cut short, was not written by this crate, or has a later version of
    /// the tables. The file is named.
    pub fn open(folder: impl AsRef<Path>) -> Result<Self> {
        let folder = folder.as_ref();
        let list = |error| cannot_list(folder, error);
        let mut numbers: BTreeMap<Table, Vec<u32>> = BTreeMap::new();
        for entry in std::fs::read_dir(folder).map_err(list)? {
            let name = entry.map_err(list)?.file_name();
            // Everything else is left alone: parts that were not finished, and files of others.
            if let Some((table, number)) = name.to_str().and_then(parse_part) {
                numbers.entry(table).or_default().push(number);
            }
        }
        if numbers.is_empty() {
            let hint = if is_entered(folder) {
                "its session is still running, or was killed before its first part was finished"
            } else {
                "a dataset is a folder with files such as launches-00000.parquet"
            };
            let what = format!("{} holds no finished part of a dataset", shown(folder));
            return Err(Error::new(ErrorKind::Format, what).with_hint(hint));
        }

        let mut tables = BTreeMap::new();
        for (table, mut numbers) in numbers {
            numbers.sort_unstable();
            let mut parts = Vec::with_capacity(numbers.len());
            for (expected, number) in (0u32..).zip(numbers) {
                if number != expected {
                    let missing = part_path(folder, table, expected);
                    return Err(Error::new(ErrorKind::Format, format!("{} is missing", shown(missing)))
                        .with_hint("later parts of the table are there; the dataset was copied in part"));
                }
                let path = part_path(folder, table, number);
                let source = Source::open(&path)?;
                parts.push(open_part(path, &source, table)?);
            }
            tables.insert(table, parts);
        }
        Ok(Self { tables })
    }

    /// The tables that are there.
    pub fn tables(&self) -> impl Iterator<Item = Table> {
        self.tables.keys().copied()
    }

    /// Whether the run was closed, and every part that it finished then is here. A process that was killed leaves all
    /// parts but the last of each table, and neither `env` nor `losses`; [`recover`](crate::recover) tidies its folder.
    ///
    /// Reads `env`, where a closed run has the number of parts of each table.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        let here = |table: Table| self.parts(table).len();
        if here(Table::Env) == 0 || here(Table::Losses) == 0 {
            return false;
        }
        let Ok(facts) = self.env() else { return false };
        Table::ALL.into_iter().all(|table| match facts.get(&parts_fact(table)) {
            Some(told) => told.parse() == Ok(here(table)),
            // Earlier versions did not tell.
            None => here(table) > 0 || !ALWAYS.contains(&table),
        })
    }

    /// The number of rows of a table; 0 if it is not there.
    #[must_use]
    pub fn rows(&self, table: Table) -> u64 {
        self.parts(table).iter().map(Part::rows).sum()
    }

    /// All rows of a table, in the order in which they were written; empty if it is not there.
    ///
    /// # Errors
    ///
    /// `Io` or `Format` if a file cannot be read; the file is named.
    pub fn read(&self, table: Table) -> Result<Vec<RecordBatch>> {
        self.batches(table).collect()
    }

    /// The rows of a table, batch by batch. An error ends its part.
    pub fn batches(&self, table: Table) -> impl Iterator<Item = Result<RecordBatch>> {
        self.parts(table).iter().flat_map(|part| {
            let read = || {
                let source = Source::open(&part.path)?;
                let batches = source.guarded(|| read_part(source.clone(), part))?;
                Ok((source, batches))
            };
            let mut reader = Some(read());
            std::iter::from_fn(move || match reader.take()? {
                Ok((source, mut batches)) => {
                    let next = || batches.next().transpose()?.map(|batch| part.complete(batch)).transpose();
                    let batch = source.guarded(next).transpose()?;
                    if batch.is_ok() {
                        reader = Some(Ok((source, batches)));
                    }
                    Some(batch)
                }
                Err(error) => Some(Err(error)),
            })
        })
    }

    /// The facts about the run (`env`); of a fact that is told twice, the last.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    pub fn env(&self) -> Result<BTreeMap<String, String>> {
        let mut facts = BTreeMap::new();
        for batch in self.batches(Table::Env) {
            let batch = batch?;
            let text = |name| batch.column_by_name(name)?.as_any().downcast_ref::<StringArray>();
            let (Some(keys), Some(values)) = (text("key"), text("value")) else { continue };
            let pairs = keys.iter().zip(values).filter_map(|(key, value)| key.zip(value));
            facts.extend(pairs.map(|(key, value)| (key.to_owned(), value.to_owned())));
        }
        Ok(facts)
    }

    /// The row groups of a table, in the order in which they were written.
    pub(crate) fn groups(&self, table: Table) -> Vec<Group> {
        let mut groups = Vec::new();
        for (part, found) in self.parts(table).iter().enumerate() {
            for index in 0..found.metadata.metadata().num_row_groups() {
                groups.push(Group { table, part, index });
            }
        }
        groups
    }

    /// A number that no value of a column in a row group is below, where the file's statistics have one.
    pub(crate) fn lower_bound(&self, group: &Group, column: &str) -> Option<i64> {
        let metadata = self.parts(group.table).get(group.part)?.metadata.metadata();
        let columns = metadata.row_groups().get(group.index)?.columns();
        let found = columns.iter().find(|found| found.column_path().string() == column)?;
        match found.statistics()? {
            Statistics::Int64(statistics) => statistics.min_opt().copied(),
            _ => None,
        }
    }

    /// Some columns of a row group, batch by batch, in the order in which they are named. An error ends it.
    pub(crate) fn scan<'a>(
        &'a self,
        group: &Group,
        columns: &'a [&'a str],
    ) -> impl Iterator<Item = Result<RecordBatch>> + 'a {
        let part = self.parts(group.table).get(group.part);
        let index = group.index;
        let mut reader = part.map(|part| {
            let source = Source::open(&part.path)?;
            let batches = source.guarded(|| read_group(source.clone(), part, index, columns))?;
            Ok((part, source, batches))
        });
        std::iter::from_fn(move || match reader.take()? {
            Ok((part, source, mut batches)) => {
                let next = || batches.next().transpose()?.map(|batch| part.pick(&batch, columns)).transpose();
                let batch = source.guarded(next).transpose()?;
                if batch.is_ok() {
                    reader = Some(Ok((part, source, batches)));
                }
                Some(batch)
            }
            Err(error) => Some(Err(error)),
        })
    }

    fn parts(&self, table: Table) -> &[Part] {
        self.tables.get(&table).map_or(&[], Vec::as_slice)
    }
}

/// What is wrong in a file that should be a part of a table; none where it is whole: its footer is there and says so,
/// and each of its rows can be read, which checks the pages' checksums.
///
/// # Errors
/// Why that cannot be told: the file cannot be read now, or was written by a later version of this crate.
pub(super) fn damage(path: &Path, table: Table) -> Result<Option<Error>> {
    let source = Source::open(path)?;
    let read = || {
        let part = open_part(path.to_owned(), &source, table)?;
        source.guarded(|| {
            let mut batches = read_part(source.clone(), &part)?;
            batches.try_for_each(|batch| batch.map(drop).map_err(ParquetError::from))
        })
    };
    match read() {
        Ok(()) => Ok(None),
        Err(error) if error.kind == ErrorKind::Io => Err(error),
        Err(error) => match source.guarded(|| load(&source)) {
            Ok(metadata) if version(&metadata).is_some_and(|version| version > SCHEMA_VERSION) => Err(error),
            _ => Ok(Some(error)),
        },
    }
}

fn open_part(path: PathBuf, source: &Source, table: Table) -> Result<Part> {
    let metadata = source.guarded(|| load(source))?;
    let completed = check(&path, table, &metadata)?;
    Ok(Part { path, metadata, completed })
}

fn load(source: &Source) -> Result<ArrowReaderMetadata, ParquetError> {
    ArrowReaderMetadata::load(source, ArrowReaderOptions::new())
}

fn fact<'a>(metadata: &'a ArrowReaderMetadata, key: &str) -> Option<&'a str> {
    let facts = metadata.metadata().file_metadata().key_value_metadata();
    facts?.iter().find(|fact| fact.key == key)?.value.as_deref()
}

fn version(metadata: &ArrowReaderMetadata) -> Option<u32> {
    fact(metadata, SCHEMA_VERSION_KEY)?.parse().ok()
}

/// Refuses what this crate did not write, and what it cannot know yet. Returns the columns to hand out, if they are not
/// those of the file.
fn check(path: &Path, table: Table, metadata: &ArrowReaderMetadata) -> Result<Option<SchemaRef>> {
    let refuse = |why: String| Error::new(ErrorKind::Format, format!("{}: {why}", shown(path)));
    let (Some(told), Some(name)) = (fact(metadata, SCHEMA_VERSION_KEY), fact(metadata, TABLE_KEY)) else {
        return Err(refuse("a Parquet file, but not of this crate".into()));
    };
    let version = match version(metadata) {
        Some(version) if version <= SCHEMA_VERSION => version,
        Some(version) => {
            return Err(refuse(format!("schema version {version}, known up to {SCHEMA_VERSION}"))
                .with_hint("it was written by a later version of this crate: update to read it"));
        }
        None => return Err(refuse(format!("schema version {told:?} is not a number"))),
    };
    if name != table.name() {
        return Err(refuse(format!("holds the table {name}")).with_hint("the file was renamed"));
    }
    columns(table, metadata.schema(), version < SCHEMA_VERSION)
        .ok_or_else(|| refuse("its columns are not those of its schema version".into()))
}

/// How a file's columns are handed out: as they are (`Some(None)`), or, of an earlier version, with those that came
/// later. None where a column has another type than it should, is not known, or is absent and should not be. Columns that
/// the dataset added itself come last.
fn columns(table: Table, found: &Schema, is_earlier: bool) -> Option<Option<SchemaRef>> {
    let known = table.schema();
    let is_common = |found: &&Arc<Field>| known.field_with_name(found.name()).is_ok();
    let (common, added): (Vec<_>, Vec<_>) = found.fields().iter().partition(is_common);
    let is_its = |found: &&Arc<Field>| {
        known.field_with_name(found.name()).is_ok_and(|known| known.data_type() == found.data_type())
    };
    if !common.iter().all(is_its) || !added.iter().all(|field| table.may_add(field)) {
        return None;
    }
    let expected = known.fields().iter().map(|field| field.name());
    if expected.eq(common.iter().map(|field| field.name())) {
        return Some(None);
    }
    let whole = known.fields().iter().map(|field| match found.field_with_name(field.name()) {
        Ok(found) => found.clone(),
        Err(_) => field.as_ref().clone().with_nullable(true),
    });
    let whole = whole.chain(added.iter().map(|field| field.as_ref().clone()));
    is_earlier.then(|| Some(Arc::new(Schema::new(whole.collect::<Vec<_>>()))))
}

fn read_part(source: Source, part: &Part) -> Result<ParquetRecordBatchReader, ParquetError> {
    ParquetRecordBatchReaderBuilder::new_with_metadata(source, part.metadata.clone())
        .with_batch_size(READ_BATCH_ROWS)
        .build()
}

fn read_group(
    source: Source,
    part: &Part,
    index: usize,
    columns: &[&str],
) -> Result<ParquetRecordBatchReader, ParquetError> {
    let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(source, part.metadata.clone());
    let mask = ProjectionMask::columns(builder.parquet_schema(), columns.iter().copied());
    builder.with_projection(mask).with_row_groups(vec![index]).with_batch_size(READ_BATCH_ROWS).build()
}
