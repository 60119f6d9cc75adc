//! One table on its way to the disk: rows, row group, part.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use parquet::errors::{ParquetError, Result};

use super::added::AddedColumn;
use super::batch::Batch;
use super::encode::chunk::Chunk;
use super::files::PartFiles;
use super::part::{Layout, Part};
use super::schema::Table;
use super::writer::TableReport;
use crate::error::{Error, ErrorKind, shown};

/// Rows of one row group, which is what is held in memory of each table.
///
/// From 16 000 to a million rows, the size of the files changes by less than 2 %.
pub(crate) const ROW_GROUP_ROWS: usize = 131_072;

/// Text that ends a row group early, since arguments and names have no length of their own.
pub(crate) const ROW_GROUP_TEXT_BYTES: usize = 32 << 20;

/// Text is summed up only now and then; a table of many columns would notice.
const ROWS_PER_TEXT_CHECK: usize = 64;

/// What the tables of one dataset share.
pub(super) struct Shared {
    pub folder: PathBuf,
    pub files: Box<dyn PartFiles>,
    pub chunk: Chunk,
    pub provenance: Vec<(String, String)>,
    pub max_rows_per_part: u64,
    pub max_part_age: Duration,
    pub first_error: Option<Error>,
}

/// The writer of one table. Costs nothing until it is used.
pub(super) struct TableWriter<B> {
    batch: B,
    layout: Option<Layout>,
    part: Option<Part>,
    /// When the first row came that is not in a finished part.
    since: Option<Instant>,
    failed: bool,
    report: TableReport,
}

impl<B: Batch> Default for TableWriter<B> {
    fn default() -> Self {
        Self {
            batch: B::default(),
            layout: None,
            part: None,
            since: None,
            failed: false,
            report: TableReport::default(),
        }
    }
}

impl<B: Batch> TableWriter<B> {
    /// Which table it writes.
    pub fn table(&self) -> Table {
        B::TABLE
    }

    /// Adds columns of this dataset's own, before the first row.
    pub fn add(&mut self, columns: &[AddedColumn]) {
        self.batch.add(columns);
    }

    /// Adds a row; writes a row group, and ends the part, when they are full.
    pub fn push(&mut self, row: &B::Row, shared: &mut Shared) {
        if self.failed {
            self.report.rows_lost += 1;
            return;
        }
        if self.since.is_none() {
            self.since = Some(Instant::now());
        }
        self.batch.push(row);
        if self.group_is_full(shared) {
            self.attempt(shared, Self::write_group);
            if self.part.as_ref().is_some_and(|part| part.rows() >= shared.max_rows_per_part) {
                self.end_part(shared);
            }
        }
    }

    fn group_is_full(&self, shared: &Shared) -> bool {
        let rows = self.batch.rows();
        if rows.is_multiple_of(ROWS_PER_TEXT_CHECK) && self.batch.text_bytes() >= ROW_GROUP_TEXT_BYTES {
            return true;
        }
        let room = shared.max_rows_per_part.saturating_sub(self.part.as_ref().map_or(0, Part::rows));
        rows >= ROW_GROUP_ROWS || rows as u64 >= room
    }

    /// Ends the part if its first row is older than a part may be.
    pub fn tick(&mut self, now: Instant, shared: &mut Shared) {
        if self.since.is_some_and(|since| now.saturating_duration_since(since) >= shared.max_part_age) {
            self.end_part(shared);
        }
    }

    /// Ends the part if there are rows.
    pub fn finish_part(&mut self, shared: &mut Shared) {
        if self.since.is_some() {
            self.end_part(shared);
        }
    }

    /// Writes what is there, and a part without rows if the table must exist and has none.
    pub fn close(&mut self, shared: &mut Shared, must_exist: bool) {
        if self.since.is_none() && must_exist && self.report.parts == 0 && !self.failed {
            self.attempt(shared, |table, shared| table.open_part(shared).map(drop));
        }
        self.end_part(shared);
    }

    /// What became of the rows; those not in a finished part are not among them yet.
    pub fn report(&self) -> TableReport {
        self.report
    }

    fn end_part(&mut self, shared: &mut Shared) {
        self.attempt(shared, |table, shared| {
            table.write_group(shared)?;
            let Some(part) = table.part.take() else { return Ok(()) };
            let rows = part.rows();
            match part.finish(shared.files.as_mut()) {
                Ok(bytes) => {
                    table.report.parts += 1;
                    table.report.rows += rows;
                    table.report.bytes += bytes;
                    table.since = None;
                    Ok(())
                }
                Err(error) => {
                    table.report.rows_lost += rows;
                    Err(error)
                }
            }
        });
    }

    fn open_part(&mut self, shared: &mut Shared) -> Result<&mut Part> {
        let layout = match self.layout.take() {
            Some(layout) => layout,
            None => Layout::new(B::TABLE, self.batch.added(), &shared.provenance)?,
        };
        let layout = self.layout.insert(layout);
        let part = match self.part.take() {
            Some(part) => part,
            None => Part::create(shared.files.as_mut(), &shared.folder, layout, self.report.parts)?,
        };
        Ok(self.part.insert(part))
    }

    fn write_group(&mut self, shared: &mut Shared) -> Result<()> {
        let rows = self.batch.rows() as u64;
        if rows == 0 {
            return Ok(());
        }
        self.open_part(shared)?;
        let written = match &mut self.part {
            Some(part) => part.write_group(&mut self.batch, &mut shared.chunk),
            None => Ok(()),
        };
        if written.is_err() {
            self.report.rows_lost += rows;
            self.batch = B::default(); // half drained
        }
        written
    }

    /// Runs a step; the first one that fails ends the table: the open part is given up, its rows are lost.
    fn attempt(&mut self, shared: &mut Shared, step: impl FnOnce(&mut Self, &mut Shared) -> Result<()>) {
        let Err(error) = step(self, shared) else { return };
        self.failed = true;
        self.report.rows_lost += self.batch.rows() as u64;
        self.batch = B::default();
        if let Some(part) = self.part.take() {
            self.report.rows_lost += part.rows();
            part.discard(shared.files.as_mut());
        }
        shared.first_error.get_or_insert_with(|| write_error::<B>(error, shared.folder.as_path()));
    }
}

fn write_error<B: Batch>(error: ParquetError, folder: &std::path::Path) -> Error {
    Error::new(ErrorKind::Io, format!("cannot write table {} in {}", B::TABLE, shown(folder)))
        .with_source(error)
        .with_hint("finished parts stay readable; later rows of this table are counted as lost")
}
