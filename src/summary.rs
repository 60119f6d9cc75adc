//! The summary.
use crate::losses::Loss;
use crate::table::rows::{LaunchRow, RangeRow, TransferRow};
/// Summary.
#[derive(Debug, Default)]
pub struct Summary;
impl std::fmt::Display for Summary {
    fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        Ok(())
    }
}
#[derive(Debug, Default)]
pub(crate) struct SummaryBuilder;
impl SummaryBuilder {
    pub fn launch(&mut self, _: &LaunchRow) {}
    pub fn transfer(&mut self, _: &TransferRow) {}
    pub fn range(&mut self, _: &RangeRow) {}
    pub fn finish(self, _: &[Loss]) -> Summary {
        Summary
    }
}
