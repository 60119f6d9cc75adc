//! For GitHub.

use super::compared::{Compared, SideValues};
use super::text::{VERDICTS, changed, direction, interval_of, method, rows_of, runs, tally};
use crate::summary::Symbols;
use crate::summary::escaped::{markdown_escaped, markdown_heading, markdown_row};
use crate::summary::text::time;

impl Compared {
    /// GitHub's Markdown, with at most `top` rows of each verdict; none for all.
    #[must_use]
    pub fn to_markdown(&self, top: Option<usize>) -> String {
        let mut text = String::new();
        for (name, side) in [("base", &self.base), ("new", &self.new)] {
            for lost in &side.losses {
                let told = format!("{name}: {} {}: {}", lost.count, lost.cause, lost.meaning);
                text += &format!("**Incomplete: {}**\n\n", markdown_escaped(&told));
            }
            for warning in &side.warnings {
                text += &format!("**{name}: {}**\n\n", markdown_escaped(warning));
            }
        }
        text += &format!("**{}**\n\n", tally(self));
        text += &format!("- base: {}\n", markdown_escaped(&self.base.to_string()));
        text += &format!("- new: {}\n", markdown_escaped(&self.new.to_string()));
        text += &format!("- {}\n", markdown_escaped(&method(self)));
        for note in self.notes() {
            text += &format!("- **{}**\n", markdown_escaped(&note));
        }
        for allowance in self.allowances() {
            text += &format!("- {}\n", markdown_escaped(&allowance));
        }
        if !self.left_out.is_empty() {
            text += &format!("- {} without a counterpart left out, as allowed\n", self.left_out.len());
        }
        if self.rows.is_empty() {
            return text;
        }
        let titles =
            ["Verdict", "What", "Change", "95 % interval", "Direction", "Base", "New", "Runs", "Why"];
        text.push('\n');
        text += &markdown_heading(&titles, |column| [0, 1, 4, 8].contains(&column));
        for verdict in VERDICTS {
            let rows = rows_of(self, verdict);
            let shown = top.unwrap_or(usize::MAX).min(rows.len());
            for row in &rows[..shown] {
                let ns = |values: Option<&SideValues>| {
                    let ns = values.and_then(|values| values.time_ns);
                    ns.map_or_else(String::new, |ns| time(ns, Symbols::Ascii).replace("  ", " "))
                };
                let reason = row.reason();
                let why: Vec<String> =
                    Some(reason).filter(|reason| !reason.is_empty()).into_iter().chain(row.notes()).collect();
                let cells = [
                    verdict.to_owned(),
                    markdown_escaped(&self.name_of(row)),
                    changed(row),
                    interval_of(row),
                    direction(row).to_owned(),
                    ns(row.base.as_ref()),
                    ns(row.new.as_ref()),
                    runs(row),
                    markdown_escaped(&why.join("; ")),
                ];
                text += &markdown_row(cells);
            }
            if rows.len() > shown {
                text += &format!("| {verdict} | ({} more) | | | | | | | |\n", rows.len() - shown);
            }
        }
        text
    }
}
