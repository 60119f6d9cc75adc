//! What a session leaves.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::losses::Loss;
use crate::summary::Summary;
use crate::table::writer::CloseReport;

/// How many records and rows there were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub launches: u64,
    pub transfers: u64,
    pub ranges: u64,
    pub records: u64,
    /// Calls that launch work.
    pub calls: u64,
}

impl Tally {
    /// Why there is nothing about the GPU, where there is nothing. What was lost is told elsewhere.
    pub fn nothing_recorded(self) -> Option<String> {
        match self {
            Self { launches: 0, transfers: 0, calls: 0, .. } => Some(
                "no call that launches GPU work was seen: the work ran before the session, after it, or in another \
                 process"
                    .to_owned(),
            ),
            Self { launches: 0, transfers: 0, calls, .. } => Some(format!(
                "{calls} calls that launch GPU work were seen, and CUPTI gave no record for any: they failed, or \
                 were captured into a graph that was not launched, or this CUPTI does not know this GPU"
            )),
            _ => None,
        }
    }
}

/// The result of a session or of a replay.
#[derive(Debug)]
pub struct Profile {
    pub(super) summary: Summary,
    pub(super) losses: Vec<Loss>,
    pub(super) tally: Tally,
    pub(super) dataset: Option<PathBuf>,
    pub(super) report: CloseReport,
}

impl Profile {
    /// The profile of a session that never ran.
    pub(super) fn empty() -> Self {
        Self {
            summary: Summary::default(),
            losses: Vec::new(),
            tally: Tally::default(),
            dataset: None,
            report: CloseReport::default(),
        }
    }

    /// Ranges, kernels and transfers by name, with their losses first; prints as a table.
    #[must_use]
    pub fn summary(&self) -> &Summary {
        &self.summary
    }

    /// What is missing or could not be placed, by cause; empty if nothing is.
    #[must_use]
    pub fn losses(&self) -> &[Loss] {
        &self.losses
    }

    /// Kernel executions recorded.
    #[must_use]
    pub fn launches(&self) -> u64 {
        self.tally.launches
    }

    /// Copies and fills recorded.
    #[must_use]
    pub fn transfers(&self) -> u64 {
        self.tally.transfers
    }

    /// Range instances recorded.
    #[must_use]
    pub fn ranges(&self) -> u64 {
        self.tally.ranges
    }

    /// The dataset's folder, if one was written.
    #[must_use]
    pub fn dataset(&self) -> Option<&Path> {
        self.dataset.as_deref()
    }

    /// Parts, rows and bytes of each table of the dataset.
    #[must_use]
    pub fn files(&self) -> &CloseReport {
        &self.report
    }
}

/// A session that ended, but not well: what went wrong, and the profile of what was recorded all the same.
#[derive(Debug)]
#[non_exhaustive]
pub struct FinishError {
    /// What went wrong.
    pub error: Error,
    /// What was recorded; its losses say what is missing.
    pub profile: Box<Profile>,
}

impl fmt::Display for FinishError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for FinishError {}

impl From<FinishError> for Error {
    fn from(failed: FinishError) -> Self {
        failed.error
    }
}
