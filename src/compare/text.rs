//! For terminals.

use super::JoinKey;
use super::compared::{Compared, Outcome, Row, Side, SideValues};
use super::self_test::{MAX_ALARMS, SPLITS, SelfTest};
use crate::stats::{Direction, Inconclusive, Interval, Verdict};
use crate::summary::Symbols;
use crate::summary::page::{Grid, Page};
use crate::summary::text::{count, counted, one_line, time};

/// Rows of a verdict that are shown where nothing else is asked for.
pub(super) const DEFAULT_TOP: usize = 20;

/// Verdicts in the order in which people want to know of them.
pub(super) const VERDICTS: [&str; 5] = ["SLOWER", "INCOMPARABLE", "INCONCLUSIVE", "FASTER", "SAME"];

/// A share as a change: `+3.12%`.
fn change(ratio: f64) -> String {
    format!("{:+.2}%", ratio * 100.0)
}

pub(super) fn changed(row: &Row) -> String {
    row.comparison.map_or_else(String::new, |comparison| change(comparison.change_ratio()))
}

pub(super) fn interval_of(row: &Row) -> String {
    let interval = row.comparison.and_then(|comparison| comparison.change_interval());
    interval
        .map_or_else(String::new, |Interval { low, high, .. }| format!("{} to {}", change(low), change(high)))
}

pub(super) fn direction(row: &Row) -> &'static str {
    match row.comparison.map(|comparison| comparison.direction()) {
        Some(Direction::Slower) => "slower",
        Some(Direction::Faster) => "faster",
        Some(Direction::Unknown) | None => "",
    }
}

/// About how many more process runs or pairs would tell.
fn more(row: &Row) -> String {
    match row.outcome {
        Outcome::Compared(Verdict::Inconclusive(Inconclusive::Overlap { more: Some(more) })) => count(more),
        _ => String::new(),
    }
}

/// `5 x 200`: process runs, and values of each, `5 x 198-200` where these differ; of both sides where they do.
pub(super) fn runs(row: &Row) -> String {
    let of = |values: &SideValues| {
        let (least, most) = values.values_of_a_run.unwrap_or_default();
        let rest = if least == most { String::new() } else { format!("-{}", count(most as u64)) };
        format!("{} x {}{rest}", values.process_runs, count(least as u64))
    };
    let mut sides: Vec<String> = row.base.iter().chain(&row.new).map(of).collect();
    sides.dedup();
    sides.join(", ")
}

/// The counts of the verdicts that occur: `1 SLOWER, 12 SAME`.
pub(super) fn tally(compared: &Compared) -> String {
    let counts = VERDICTS.iter().map(|verdict| (compared.count(verdict), *verdict));
    let told: Vec<String> =
        counts.filter(|(n, _)| *n > 0).map(|(n, verdict)| format!("{n} {verdict}")).collect();
    if told.is_empty() { "nothing to compare".to_owned() } else { told.join(", ") }
}

/// By what and how it was compared.
pub(super) fn method(compared: &Compared) -> String {
    let rules = &compared.rules;
    let way = if compared.is_interleaved {
        "pairs of blocks of the same runs"
    } else {
        let tested = compared.rows.iter().filter(|row| row.comparison.is_some());
        let (by_block, by_process): (Vec<&Row>, Vec<&Row>) = tested.partition(|row| row.is_by_block());
        match (by_block.is_empty(), by_process.is_empty()) {
            (true, _) => "Welch's test of process runs",
            (false, true) => "Welch's test of blocks within the process runs",
            (false, false) => "Welch's test of process runs, of blocks where a side has only one",
        }
    };
    format!(
        "{way}, 95% intervals, margin {}%, false discovery rate {}%",
        rules.margin * 100.0,
        rules.false_discovery_rate * 100.0
    )
}

/// Rows with a verdict, those that changed most first.
pub(super) fn rows_of<'a>(compared: &'a Compared, verdict: &str) -> Vec<&'a Row> {
    let mut rows: Vec<&Row> = compared.rows.iter().filter(|row| row.verdict() == verdict).collect();
    let size = |row: &Row| row.comparison.map_or(0.0, |comparison| comparison.log_ratio.abs());
    rows.sort_by(|a, b| size(b).total_cmp(&size(a)));
    rows
}

impl Compared {
    /// Text for a terminal of this width, with at most `top` rows of each verdict; none for all.
    #[must_use]
    pub fn to_text(&self, top: Option<usize>, width: usize, symbols: Symbols) -> String {
        let mut page = Page::new(width, symbols);
        losses(&mut page, &[("base", &self.base), ("new", &self.new)]);
        page.paragraph("base  ", "      ", &self.base.to_string());
        page.paragraph("new   ", "      ", &self.new.to_string());
        page.paragraph("by    ", "      ", &method(self));
        for allowance in self.notes().into_iter().chain(self.allowances()) {
            page.paragraph("note  ", "      ", &allowance);
        }
        if !self.left_out.is_empty() {
            let rows = counted(self.left_out.len() as u64, "row");
            page.paragraph("note  ", "      ", &format!("{rows} without a counterpart left out, as allowed"));
        }
        page.text.push('\n');
        page.paragraph(
            "",
            "",
            &format!("{} compared: {}", counted(self.rows.len() as u64, "row"), tally(self)),
        );
        for verdict in VERDICTS {
            let rows = rows_of(self, verdict);
            for (reason, rows) in by_reason(rows) {
                page.text.push('\n');
                let heading =
                    if reason.is_empty() { verdict.to_owned() } else { format!("{verdict}: {reason}") };
                page.paragraph("", "  ", &heading);
                self.grid(&mut page, &rows, top);
            }
        }
        page.text
    }

    fn grid(&self, page: &mut Page, rows: &[&Row], top: Option<usize>) {
        let shown = &rows[..top.unwrap_or(usize::MAX).min(rows.len())];
        let ns = |values: &Option<SideValues>| {
            let ns = values.as_ref().and_then(|values| values.time_ns);
            ns.map_or_else(String::new, |ns| time(ns, page.symbols))
        };
        // (title, which ones make way first where there is little room, cells)
        let columns: [(&str, usize, Vec<String>); 7] = [
            ("Change", 0, shown.iter().map(|row| changed(row)).collect()),
            ("95% interval", 0, shown.iter().map(|row| interval_of(row)).collect()),
            ("More", 1, shown.iter().map(|row| more(row)).collect()),
            ("Base", 3, shown.iter().map(|row| ns(&row.base)).collect()),
            ("New", 2, shown.iter().map(|row| ns(&row.new)).collect()),
            ("Direction", 4, shown.iter().map(|row| direction(row).to_owned()).collect()),
            ("Runs", 5, shown.iter().map(|row| runs(row)).collect()),
        ];
        let columns: Vec<_> =
            columns.iter().filter(|(.., cells)| cells.iter().any(|cell| !cell.is_empty())).collect();
        let titles: Vec<&str> = columns.iter().map(|(title, ..)| *title).collect();
        let mut expendable: Vec<usize> = (0..columns.len()).filter(|column| columns[*column].1 > 0).collect();
        expendable.sort_by_key(|column| std::cmp::Reverse(columns[*column].1));
        let mut grid = Grid::new("What", &titles, expendable);
        for (place, row) in shown.iter().enumerate() {
            let cells: Vec<String> = columns.iter().map(|(.., cells)| cells[place].clone()).collect();
            let (place, name) = self.place_and_name(row);
            grid.push_at(cells, &place, &name);
        }
        page.grid_here(grid);
        page.left_out(rows.len() - shown.len(), "row");
        for (note, of) in by_note(shown) {
            let names: Vec<String> = of.iter().take(MAX_NAMES).map(|row| self.name_of(row)).collect();
            let whose = match of.len() {
                all if all == shown.len() && all > 1 => "all".to_owned(),
                some if some > MAX_NAMES => format!("{} and {} more", names.join(", "), some - MAX_NAMES),
                _ => names.join(", "),
            };
            page.paragraph("  ", "    ", &format!("{whose}: {note}"));
        }
    }
}

/// Names of rows that have the same note.
const MAX_NAMES: usize = 3;

/// Notes in the order in which they come first, each with its rows.
fn by_note<'a>(rows: &[&'a Row]) -> Vec<(String, Vec<&'a Row>)> {
    let notes = rows.iter().flat_map(|row| row.notes().into_iter().map(move |note| (note, *row)));
    grouped(notes)
}

fn grouped<'a>(items: impl Iterator<Item = (String, &'a Row)>) -> Vec<(String, Vec<&'a Row>)> {
    let mut groups: Vec<(String, Vec<&Row>)> = Vec::new();
    for (name, row) in items {
        match groups.iter_mut().find(|(known, _)| *known == name) {
            Some((_, rows)) => rows.push(row),
            None => groups.push((name, vec![row])),
        }
    }
    groups
}

/// What is common to rows of a verdict; what is a number of each is a column.
fn shared_reason(row: &Row) -> String {
    match &row.outcome {
        Outcome::Compared(Verdict::Inconclusive(Inconclusive::Overlap { more: Some(_) })) => {
            format!(
                "the interval reaches over the margin; about so many more {} (More) would tell",
                row.unit()
            )
        }
        _ => row.reason(),
    }
}

/// Rows by their reasons, in the order in which these come first.
fn by_reason(rows: Vec<&Row>) -> Vec<(String, Vec<&Row>)> {
    grouped(rows.into_iter().map(|row| (shared_reason(row), row)))
}

fn losses(page: &mut Page, sides: &[(&str, &Side)]) {
    let mut is_first = true;
    let before = page.text.len();
    for (name, side) in sides {
        for lost in &side.losses {
            if is_first {
                page.paragraph("! ", "! ", "This result is incomplete:");
                is_first = false;
            }
            let line = format!("{name}: {} {}: {}", count(lost.count), lost.cause, lost.meaning);
            page.paragraph("!   ", "!     ", &line);
        }
    }
    for (name, side) in sides {
        for warning in &side.warnings {
            page.paragraph("! ", "! ", &format!("{name}: {}", one_line(warning)));
        }
    }
    if page.text.len() > before {
        page.text.push('\n');
    }
}

/// What a self-test comes to.
pub(super) fn self_test_result(test: &SelfTest) -> String {
    let Some(ratio) = test.alarms_ratio() else {
        return format!("{}: nothing could be split", test.verdict());
    };
    let means = match test.verdict() {
        "FAILED" => ": verdicts on such values cannot be trusted",
        "INCONCLUSIVE" => ": too little to tell",
        _ => "",
    };
    format!(
        "{:.2}% of {SPLITS} random splits of {} gave SLOWER or FASTER, at most {}% may: {}{means}",
        ratio * 100.0,
        counted(test.rows.iter().filter(|row| row.alarms_ratio.is_some()).count() as u64, "row"),
        MAX_ALARMS * 100.0,
        test.verdict(),
    )
}

impl SelfTest {
    /// Text for a terminal of this width, with at most `top` rows; none for all.
    #[must_use]
    pub fn to_text(&self, top: Option<usize>, width: usize, symbols: Symbols) -> String {
        let mut page = Page::new(width, symbols);
        losses(&mut page, &[("side", &self.side)]);
        page.paragraph("side  ", "      ", &self.side.to_string());
        for note in self.notes() {
            page.paragraph("note  ", "      ", &note);
        }
        page.text.push('\n');
        page.paragraph("", "  ", &self_test_result(self));
        let mut rows: Vec<_> = self.rows.iter().collect();
        rows.sort_by(|a, b| b.alarms_ratio.unwrap_or(-1.0).total_cmp(&a.alarms_ratio.unwrap_or(-1.0)));
        let shown = top.unwrap_or(usize::MAX).min(rows.len());
        let mut grid = Grid::new("What", &["Alarms", "Split"], []);
        for row in &rows[..shown] {
            let alarms =
                row.alarms_ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{:.1}%", ratio * 100.0));
            let split = if row.is_by_process { "process run" } else { "block" };
            let bench = row.key.get(JoinKey::Bench).map_or_else(String::new, |bench| format!("{bench}/"));
            grid.push([alarms, counted(row.parts as u64, split)], 0, format!("{bench}{}", row.key));
        }
        page.grid(grid);
        page.left_out(rows.len() - shown, "row");
        page.text
    }
}
