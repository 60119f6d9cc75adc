//! Rows for somebody who measures while the session runs.

use std::sync::{Arc, Mutex, PoisonError};

use crate::table::rows::{LaunchRow, RangeRow};
use crate::units::RangeId;

/// Collects the rows of kernels in ranges, and which range lies in which. Handles share what is collected.
#[derive(Clone, Debug, Default)]
pub(crate) struct Observer(Arc<Mutex<Observed>>);

/// What came since it was last taken.
#[derive(Debug, Default)]
pub(crate) struct Observed {
    /// Kernels that were launched in a range.
    pub launches: Vec<LaunchRow>,
    /// Ranges that have ended, each with the one around it.
    pub ranges: Vec<(RangeId, Option<RangeId>)>,
}

impl Observer {
    pub fn launch(&self, row: &LaunchRow) {
        if row.work.range.is_some() {
            self.with(|observed| observed.launches.push(row.clone()));
        }
    }

    pub fn range(&self, row: &RangeRow) {
        self.with(|observed| observed.ranges.push((row.range, row.parent)));
    }

    /// What was collected, which is forgotten here.
    pub fn take(&self) -> Observed {
        self.with(std::mem::take)
    }

    fn with<T>(&self, change: impl FnOnce(&mut Observed) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
