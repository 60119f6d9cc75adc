//! Findings on a terminal.

use std::fmt::Write;

use super::{Diagnosis, Finding, Severity};

const DEFAULT_WIDTH: usize = 100;
const MIN_WIDTH: usize = 40;

/// Columns before a finding's text: severity and topic.
const MARGIN: usize = 22;

/// A terminal narrower than this has the text below its topic.
const BESIDE: usize = 72;

/// What fits where standard output goes.
pub(super) fn width_of_stdout() -> usize {
    let terminal = rustix::termios::tcgetwinsize(std::io::stdout()).ok().map(|size| usize::from(size.ws_col));
    let columns = || std::env::var("COLUMNS").ok()?.parse().ok();
    terminal.filter(|width| *width > 0).or_else(columns).unwrap_or(DEFAULT_WIDTH)
}

pub(super) fn render(diagnosis: &Diagnosis, width: usize) -> String {
    let width = width.max(MIN_WIDTH);
    let mut page = String::new();
    for finding in diagnosis.findings() {
        write(&mut page, finding, width);
    }
    page.push('\n');
    let count = |severity| diagnosis.findings().iter().filter(|finding| finding.severity == severity).count();
    let counted = |count: usize, what: &str| match count {
        0 => format!("no {what}s"),
        1 => format!("1 {what}"),
        more => format!("{more} {what}s"),
    };
    let verdict = if diagnosis.can_trace() { "Tracing can work" } else { "Tracing cannot work" };
    let (problems, warnings) = (count(Severity::Problem), count(Severity::Warning));
    let text = format!("{verdict}: {}, {}.", counted(problems, "problem"), counted(warnings, "warning"));
    wrap(&mut page, &text, "", "", width);
    page
}

fn write(page: &mut String, finding: &Finding, width: usize) {
    let Finding { severity, topic, text, remedy } = finding;
    let margin = if width < BESIDE {
        let _to_a_string = writeln!(page, "{severity:<8} {topic}");
        "  ".to_owned()
    } else {
        " ".repeat(MARGIN)
    };
    let first = if width < BESIDE { margin.clone() } else { format!("{severity:<8} {topic:<11}  ") };
    wrap(page, text, &first, &margin, width);
    if let Some(remedy) = remedy {
        wrap(page, remedy, &format!("{margin}-> "), &format!("{margin}   "), width);
    }
}

/// Writes a text in lines of at most this width where its words allow it. A line of a list is indented.
fn wrap(page: &mut String, text: &str, first: &str, margin: &str, width: usize) {
    let mut before = first.to_owned();
    for line in text.lines() {
        let indent = &line[..line.len() - line.trim_start().len()];
        let mut written = before.clone() + indent;
        let mut empty = true;
        for word in line.split_whitespace() {
            if !empty && written.chars().count() + 1 + word.chars().count() > width {
                page.push_str(written.trim_end());
                page.push('\n');
                // What goes on is set off from what begins, where there is a list.
                written = format!("{margin}{indent}{indent}");
                empty = true;
            }
            if !empty {
                written.push(' ');
            }
            written.extend(word.chars().map(|c| if c.is_control() { ' ' } else { c }));
            empty = false;
        }
        page.push_str(written.trim_end());
        page.push('\n');
        before = margin.to_owned();
    }
}
