//! A digest as text, Markdown, CSV and JSON.

mod json;
mod tables;
mod text;

use std::cmp::Reverse;
use std::fmt;

use super::digest::{Digest, RangeTime};
use crate::summary::KernelSummary;
use crate::summary::Symbols;

/// A part of a digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Section {
    /// Ranges in their tree.
    Ranges,
    /// Kernels by name.
    Kernels,
    /// Transfers by kind.
    Transfers,
    /// Devices and streams.
    Devices,
    /// Causes of loss.
    Losses,
}

impl Section {
    /// Every section.
    pub const ALL: [Self; 5] = [Self::Ranges, Self::Kernels, Self::Transfers, Self::Devices, Self::Losses];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Ranges => "ranges",
            Self::Kernels => "kernels",
            Self::Transfers => "transfers",
            Self::Devices => "devices",
            Self::Losses => "losses",
        }
    }
}

impl fmt::Display for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What kernels are sorted by; what is equal is sorted by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Sort {
    /// The longest total first.
    #[default]
    Total,
    /// The most launches first.
    Calls,
    /// The longest mean first.
    Mean,
    /// The shortest minimum first.
    Min,
    /// The longest maximum first.
    Max,
    /// By name.
    Name,
}

/// How a digest is shown.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct View {
    /// What is shown; losses and warnings always are.
    pub sections: Vec<Section>,
    /// The order of kernels.
    pub sort: Sort,
    /// Kernels and ranges that are shown; none for all. Ranges are those with the most GPU time, in their tree.
    pub top: Option<usize>,
}

impl Default for View {
    fn default() -> Self {
        Self { sections: Section::ALL.to_vec(), sort: Sort::Total, top: Some(DEFAULT_TOP) }
    }
}

/// Kernels and ranges that are shown where nothing else is asked for.
pub const DEFAULT_TOP: usize = 20;

impl View {
    fn has(&self, section: Section) -> bool {
        self.sections.contains(&section)
    }

    /// The kernels to show in their order, and those that are left out.
    fn kernels<'a>(&self, digest: &'a Digest) -> (Vec<&'a KernelSummary>, Vec<&'a KernelSummary>) {
        let mut kernels: Vec<&KernelSummary> = digest.kernels.iter().collect();
        match self.sort {
            Sort::Total => {}
            Sort::Calls => kernels.sort_by(|a, b| b.calls.cmp(&a.calls).then_with(|| a.name.cmp(&b.name))),
            Sort::Mean => {
                kernels.sort_by(|a, b| b.mean_ns.total_cmp(&a.mean_ns).then_with(|| a.name.cmp(&b.name)));
            }
            Sort::Min => kernels.sort_by(|a, b| (a.min_ns, &a.name).cmp(&(b.min_ns, &b.name))),
            Sort::Max => kernels.sort_by(|a, b| b.max_ns.cmp(&a.max_ns).then_with(|| a.name.cmp(&b.name))),
            Sort::Name => kernels.sort_by(|a, b| a.name.cmp(&b.name)),
        }
        // A line for one that is left out takes as much room as the one.
        let shown = match self.top {
            Some(top) if kernels.len() > top + 1 => top,
            Some(top) if kernels.len() == top + 1 && top > 0 => top + 1,
            Some(top) => top.min(kernels.len()),
            None => kernels.len(),
        };
        let rest = kernels.split_off(shown);
        (kernels, rest)
    }

    /// The ranges to show in their order. A range takes at least as long as those inside of it and precedes them, so that
    /// none is shown without the ranges around it.
    fn ranges<'a>(&self, digest: &'a Digest) -> Vec<&'a RangeTime> {
        let ranges = &digest.ranges;
        let mut by_time: Vec<usize> = (0..ranges.len()).collect();
        by_time.sort_by_key(|at| (Reverse(ranges[*at].gpu_time_ns), *at));
        by_time.truncate(self.top.unwrap_or(usize::MAX));
        by_time.sort_unstable();
        by_time.into_iter().map(|at| &ranges[at]).collect()
    }
}

impl Digest {
    /// Text for a terminal of this width.
    #[must_use]
    pub fn to_text(&self, view: &View, width: usize, symbols: Symbols) -> String {
        text::render(self, view, width, symbols)
    }

    /// GitHub's Markdown.
    #[must_use]
    pub fn to_markdown(&self, view: &View) -> String {
        tables::markdown(self, view)
    }

    /// One section as CSV (RFC 4180, with a header, lines end with LF); null is an empty field.
    #[must_use]
    pub fn to_csv(&self, section: Section, view: &View) -> String {
        tables::csv(self, section, view)
    }

    /// JSON: an object with a field for each section, and the facts of the datasets. Names of fields are those of the
    /// structs here.
    #[must_use]
    pub fn to_json(&self, view: &View) -> String {
        json::json(self, view)
    }
}

/// How wide standard output is, and which characters fit: a terminal's width, or `COLUMNS`, or 100.
#[must_use]
pub fn terminal() -> (usize, Symbols) {
    crate::summary::render::of_stdout()
}
