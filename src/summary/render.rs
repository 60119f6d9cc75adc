//! The summary as text.

use std::io::IsTerminal;

use super::page::{Grid, JOINED_SPACE, Page};
use super::text::{count, counted, one_line, percent};
use super::{Counts, RangeSummary, Summary};

/// Kernels that are printed; the rest is one line. The numbers of all are in [`Summary::kernels`].
const SHOWN_KERNELS: usize = 20;

/// Range paths that are printed: those with the most GPU time.
const SHOWN_RANGES: usize = 40;

const DEFAULT_WIDTH: usize = 100;

impl Counts {
    /// What is left out for its times.
    pub(crate) fn without_times(&self) -> Option<String> {
        let parts = [(self.invalid_launches, "launch"), (self.invalid_transfers, "transfer")];
        let parts: Vec<String> =
            parts.iter().filter(|(n, _)| *n > 0).map(|(n, what)| counted(*n, what)).collect();
        let all = parts.join(" and ");
        (!all.is_empty()).then(|| format!("{all} without valid times, left out of all times below"))
    }

    /// What follows the number of ranges where some are open.
    pub(crate) fn never_closed(&self) -> String {
        match self.open_ranges {
            0 => String::new(),
            open => format!(" ({} never closed)", count(open)),
        }
    }
}

/// Which characters a text may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Symbols {
    /// Nothing but ASCII, names excepted: for files and pipes.
    Ascii,
    /// `µ` and `…` too.
    Unicode,
}

/// What fits where standard output goes.
pub(crate) fn of_stdout() -> (usize, Symbols) {
    let stdout = std::io::stdout();
    let symbols = if stdout.is_terminal() { Symbols::Unicode } else { Symbols::Ascii };
    let terminal = rustix::termios::tcgetwinsize(&stdout).ok().map(|size| usize::from(size.ws_col));
    let columns = || std::env::var("COLUMNS").ok()?.parse().ok();
    let width = terminal.filter(|width| *width > 0).or_else(columns).unwrap_or(DEFAULT_WIDTH);
    (width, symbols)
}

pub(super) fn render(summary: &Summary, width: usize, symbols: Symbols) -> String {
    let mut page = Page::new(width, symbols);
    page.losses(summary);
    page.warnings(summary);
    page.totals(summary);
    page.ranges(summary);
    page.kernels(summary);
    page.transfer_grid(&summary.transfers);
    page.text
}

impl Page {
    fn losses(&mut self, summary: &Summary) {
        let invalid = summary.counts.without_times();
        if summary.losses.is_empty() && invalid.is_none() {
            return;
        }
        self.paragraph("! ", "! ", "This result is incomplete:");
        for loss in &summary.losses {
            let line = format!("{} {}: {}", count(loss.count), loss.cause, loss.meaning);
            self.paragraph("!   ", "!     ", &line);
        }
        if let Some(line) = invalid {
            self.paragraph("!   ", "!     ", &line);
        }
        self.text.push('\n');
    }

    fn warnings(&mut self, summary: &Summary) {
        for warning in &summary.warnings {
            self.paragraph("! ", "! ", &one_line(warning));
        }
        if !summary.warnings.is_empty() {
            self.text.push('\n');
        }
    }

    fn totals(&mut self, summary: &Summary) {
        let counts = &summary.counts;
        let mut line = format!(
            "{} of {}, {}, {}",
            counted(counts.launches, "launch"),
            counted(summary.kernels.len() as u64, "kernel"),
            counted(counts.transfers, "transfer"),
            counted(counts.ranges, "range"),
        );
        line += &counts.never_closed();
        self.paragraph("", "", &line);
        if counts.span_ns > 0 {
            let time = |ns: i64| self.time(ns).replacen("  ", " ", 1).replace(' ', JOINED_SPACE);
            let [kernels, transfers, span] = [counts.kernel_ns, counts.transfer_ns, counts.span_ns].map(time);
            let line = format!("{kernels} in kernels, {transfers} in transfers, within {span}");
            self.paragraph("", "", &line);
        }
    }

    fn ranges(&mut self, summary: &Summary) {
        if summary.ranges.is_empty() {
            return;
        }
        let counts = &summary.counts;
        let mut grid = Grid::new("Range", &["Share", "GPU time", "Calls", "Launches", "Span"], [4, 3, 2]);
        for range in longest(&summary.ranges) {
            let mut cells = [
                percent(range.share),
                self.time(range.gpu_time_ns),
                count(range.calls),
                count(range.launches),
                self.time(range.span_ns),
            ];
            if range.launches == 0 {
                // No kernels, so no times.
                for cell in [0, 1, 4] {
                    cells[cell].clear();
                }
            }
            grid.push(cells, range.depth, label(range));
        }
        if counts.launches_without_range > 0 {
            let ns = counts.kernel_without_range_ns;
            let share = super::share(ns, counts.kernel_ns);
            let launches = count(counts.launches_without_range);
            let cells = [percent(share), self.time(ns), String::new(), launches, String::new()];
            grid.push(cells, 0, "(no range)".to_owned());
        }
        self.grid(grid);
        self.left_out(summary.ranges.len().saturating_sub(SHOWN_RANGES), "range path");
    }

    fn kernels(&mut self, summary: &Summary) {
        if summary.kernels.is_empty() {
            return;
        }
        let shown = if summary.kernels.len() > SHOWN_KERNELS + 1 { SHOWN_KERNELS } else { SHOWN_KERNELS + 1 };
        let (first, rest) = summary.kernels.split_at(shown.min(summary.kernels.len()));
        self.kernel_grid(&first.iter().collect::<Vec<_>>(), &rest.iter().collect::<Vec<_>>());
    }
}

/// The ranges to print, in their order. A range takes at least as long as those inside of it and precedes them, so
/// that none is printed without the ranges around it.
fn longest(ranges: &[RangeSummary]) -> impl Iterator<Item = &RangeSummary> {
    let mut by_time: Vec<usize> = (0..ranges.len()).collect();
    by_time.sort_by_key(|i| (std::cmp::Reverse(ranges[*i].gpu_time_ns), *i));
    by_time.truncate(SHOWN_RANGES);
    by_time.sort_unstable();
    by_time.into_iter().map(|i| &ranges[i])
}

fn label(range: &RangeSummary) -> String {
    if range.kind == "process" { format!("{} (process-wide)", range.name) } else { range.name.to_string() }
}
