//! A sink that keeps every row.

use std::fmt::Debug;

use crate::table::rows::{
    ApiRow, EnvRow, LaunchRow, LossRow, MarkRow, MemoryRow, OverheadRow, RangeRow, RangeSetRow,
    SynchronizationRow, TransferRow,
};
use crate::table::writer::TableSink;

#[derive(Debug, Default)]
pub(super) struct Rows {
    /// The rows of all tables that have a row for each record, as text, in the order in which they were written.
    pub of_records: Vec<String>,
    pub launches: Vec<LaunchRow>,
    pub transfers: Vec<TransferRow>,
    pub api_calls: Vec<ApiRow>,
    pub overheads: Vec<OverheadRow>,
    pub ranges: Vec<RangeRow>,
    pub sets: Vec<RangeSetRow>,
    pub marks: Vec<MarkRow>,
    pub facts: Vec<EnvRow>,
}

impl Rows {
    fn of_record(&mut self, row: &impl Debug) {
        self.of_records.push(format!("{row:?}"));
    }

    pub fn fact(&self, key: &str) -> &str {
        &self.facts.iter().find(|fact| fact.key == key).expect("the fact was told").value
    }
}

/// Rows as text, in an order of their own.
pub(super) fn sorted<T: Debug>(rows: &[T]) -> Vec<String> {
    let mut texts: Vec<_> = rows.iter().map(|row| format!("{row:?}")).collect();
    texts.sort_unstable();
    texts
}

impl TableSink for Rows {
    fn launch(&mut self, row: &LaunchRow) {
        self.of_record(row);
        self.launches.push(row.clone());
    }

    fn transfer(&mut self, row: &TransferRow) {
        self.of_record(row);
        self.transfers.push(row.clone());
    }

    fn range(&mut self, row: &RangeRow) {
        self.ranges.push(row.clone());
    }

    fn range_set(&mut self, row: &RangeSetRow) {
        self.sets.push(*row);
    }

    fn mark(&mut self, row: &MarkRow) {
        self.marks.push(row.clone());
    }

    fn overhead(&mut self, row: &OverheadRow) {
        self.of_record(row);
        self.overheads.push(row.clone());
    }

    fn api_call(&mut self, row: &ApiRow) {
        self.of_record(row);
        self.api_calls.push(row.clone());
    }

    fn synchronization(&mut self, row: &SynchronizationRow) {
        self.of_record(row);
    }

    fn memory_operation(&mut self, row: &MemoryRow) {
        self.of_record(row);
    }

    fn env(&mut self, row: &EnvRow) {
        self.facts.push(row.clone());
    }

    fn loss(&mut self, _row: &LossRow) {}
}
