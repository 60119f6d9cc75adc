//! Where rows go: the summary always, the dataset if one was asked for.

use std::path::{Path, PathBuf};
use std::time::Instant;

use super::observer::Observer;
use crate::error::Result;
use crate::losses::{Cause, Loss, Losses};
use crate::summary::{Summary, SummaryBuilder};
use crate::table::rows::{
    ApiRow, EnvRow, LaunchRow, LossRow, MarkRow, MemoryRow, MetricRow, OverheadRow, RangeRow, RangeSetRow,
    SynchronizationRow, TransferRow,
};
use crate::table::writer::{CloseReport, DatasetWriter, TableSink, WriterOptions};

/// The sink of a session.
pub(super) struct Output {
    summary: SummaryBuilder,
    observer: Option<Observer>,
    writer: Option<(PathBuf, DatasetWriter)>,
}

/// What the sink leaves.
pub(super) struct Closed {
    pub summary: Summary,
    pub losses: Vec<Loss>,
    pub dataset: Option<PathBuf>,
    pub report: CloseReport,
    /// The dataset's writer, where others go on with it.
    pub open: Option<DatasetWriter>,
}

impl Output {
    pub fn new(folder: Option<&Path>, options: WriterOptions) -> Result<Self> {
        let writer = match folder {
            Some(folder) => Some((folder.to_owned(), DatasetWriter::create(folder, options)?)),
            None => None,
        };
        Ok(Self { summary: SummaryBuilder::default(), observer: None, writer })
    }

    /// Hands rows to this one as well.
    pub fn observed_by(mut self, observer: Option<Observer>) -> Self {
        self.observer = observer;
        self
    }

    /// Finishes parts that are old enough.
    pub fn tick(&mut self, now: Instant) {
        if let Some((_, writer)) = &mut self.writer {
            writer.tick(now);
        }
    }

    /// Finishes every part, so that all rows so far can be read.
    pub fn finish_parts(&mut self) {
        if let Some((_, writer)) = &mut self.writer {
            writer.finish_parts();
        }
    }

    /// A row of a counter session; the summary has none of these.
    pub fn metric(&mut self, row: &MetricRow) {
        if let Some((_, writer)) = &mut self.writer {
            writer.metric(row);
        }
    }

    /// Writes the losses and closes the files; those of a dataset that others go on with (`leaves_open`) once all rows so
    /// far can be read.
    pub fn close(mut self, mut losses: Losses, leaves_open: bool) -> Closed {
        if let Some((_, writer)) = &mut self.writer {
            losses.add(Cause::RowsNotWritten, writer.rows_lost());
            for Loss { cause, count, meaning } in losses.to_vec() {
                writer.loss(&LossRow { cause, count, meaning });
            }
        }
        let (dataset, report, open) = match self.writer {
            Some((folder, mut writer)) if leaves_open => {
                writer.finish_parts();
                (Some(folder), CloseReport::default(), Some(writer))
            }
            Some((folder, writer)) => (Some(folder), writer.close(), None),
            None => (None, CloseReport::default(), None),
        };
        // Rows can also be lost by closing; the files cannot tell that any more, but the profile can.
        let told = losses.count(Cause::RowsNotWritten);
        losses.add(Cause::RowsNotWritten, report.total().rows_lost.saturating_sub(told));
        let losses = losses.to_vec();
        for Loss { cause, count, meaning } in losses.iter().copied() {
            self.summary.loss(&LossRow { cause, count, meaning });
        }
        Closed { summary: self.summary.finish(), losses, dataset, report, open }
    }
}

/// Hands a row to the writer, if there is one.
macro_rules! written {
    ($self:ident.$table:ident($row:ident)) => {
        if let Some((_, writer)) = &mut $self.writer {
            writer.$table($row);
        }
    };
}

impl TableSink for Output {
    fn launch(&mut self, row: &LaunchRow) {
        self.summary.launch(row);
        if let Some(observer) = &self.observer {
            observer.launch(row);
        }
        written!(self.launch(row));
    }

    fn transfer(&mut self, row: &TransferRow) {
        self.summary.transfer(row);
        written!(self.transfer(row));
    }

    fn range(&mut self, row: &RangeRow) {
        self.summary.range(row);
        if let Some(observer) = &self.observer {
            observer.range(row);
        }
        written!(self.range(row));
    }

    fn range_set(&mut self, row: &RangeSetRow) {
        written!(self.range_set(row));
    }

    fn mark(&mut self, row: &MarkRow) {
        written!(self.mark(row));
    }

    fn overhead(&mut self, row: &OverheadRow) {
        written!(self.overhead(row));
    }

    fn api_call(&mut self, row: &ApiRow) {
        written!(self.api_call(row));
    }

    fn synchronization(&mut self, row: &SynchronizationRow) {
        written!(self.synchronization(row));
    }

    fn memory_operation(&mut self, row: &MemoryRow) {
        written!(self.memory_operation(row));
    }

    fn env(&mut self, row: &EnvRow) {
        self.summary.env(row);
        written!(self.env(row));
    }

    fn loss(&mut self, row: &LossRow) {
        written!(self.loss(row));
    }
}
