//! The same tables as CSV and as Markdown.

use super::{Section, View};
use crate::analysis::digest::{Busy, Digest};
use crate::summary::Symbols;
use crate::summary::escaped::{csv_line, markdown_escaped, markdown_heading, markdown_row};
use crate::summary::text::{bandwidth, bytes, count, counted, percent, time};

/// A value of a table: as a number, and as people read it.
enum Cell {
    Text(String),
    Count(u64),
    Ns(f64),
    Share(f64),
    Bytes(u64),
    Bandwidth(f64),
    /// A name with how deep it stands in a tree; CSV has the depth in a column of its own.
    Nested(String, usize),
    Null,
}

struct Sheet {
    columns: Vec<&'static str>,
    titles: Vec<&'static str>,
    rows: Vec<Vec<Cell>>,
}

fn optional(ns: Option<i64>) -> Cell {
    ns.map_or(Cell::Null, nanos)
}

fn nanos(ns: i64) -> Cell {
    Cell::Ns(ns as f64) // CAST: exact below 104 days, and for people beyond
}

fn text(text: Option<&str>) -> Cell {
    text.map_or(Cell::Null, |text| Cell::Text(text.to_owned()))
}

fn busy(busy: &Busy) -> Vec<Cell> {
    let share = crate::summary::share(busy.busy_ns, busy.span_ns);
    let longest = if busy.gaps > 0 { nanos(busy.longest_gap_ns) } else { Cell::Null };
    let times = [nanos(busy.span_ns), nanos(busy.busy_ns), Cell::Share(share), nanos(busy.idle_ns)];
    let counts = [Cell::Count(busy.launches), Cell::Count(busy.transfers)];
    times.into_iter().chain([Cell::Count(busy.gaps), longest]).chain(counts).collect()
}

/// A section with all of its columns.
fn sheet(digest: &Digest, section: Section, view: &View) -> Sheet {
    let (names, rows): (&[(&str, &str)], Vec<Vec<Cell>>) = match section {
        Section::Ranges => (
            &[
                ("path", "Range"),
                ("depth", ""),
                ("kind", "Kind"),
                ("calls", "Calls"),
                ("open_calls", ""),
                ("host_ns", "Host time"),
                ("launches", "Launches"),
                ("gpu_time_ns", "GPU time"),
                ("own_launches", ""),
                ("own_gpu_time_ns", "Self"),
                ("share", "Share"),
                ("span_ns", "Span"),
            ],
            view.ranges(digest)
                .into_iter()
                .map(|range| {
                    vec![
                        Cell::Nested(range.path.to_string(), range.depth),
                        Cell::Count(range.depth as u64),
                        Cell::Text(range.kind.to_string()),
                        Cell::Count(range.calls),
                        Cell::Count(range.open_calls),
                        nanos(range.host_ns),
                        Cell::Count(range.launches),
                        nanos(range.gpu_time_ns),
                        Cell::Count(range.own_launches),
                        optional(range.own_gpu_time_ns),
                        Cell::Share(range.share),
                        optional(range.span_ns),
                    ]
                })
                .collect(),
        ),
        Section::Kernels => (
            &[
                ("name", "Kernel"),
                ("share", "Share"),
                ("total_ns", "Total"),
                ("calls", "Calls"),
                ("mean_ns", "Mean"),
                ("min_ns", "Min"),
                ("max_ns", "Max"),
            ],
            view.kernels(digest)
                .0
                .into_iter()
                .map(|kernel| {
                    vec![
                        Cell::Text(kernel.name.to_string()),
                        Cell::Share(kernel.share),
                        nanos(kernel.total_ns),
                        Cell::Count(kernel.calls),
                        Cell::Ns(kernel.mean_ns),
                        nanos(kernel.min_ns),
                        nanos(kernel.max_ns),
                    ]
                })
                .collect(),
        ),
        Section::Transfers => (
            &[
                ("kind", "Transfer"),
                ("share", "Share"),
                ("total_ns", "Total"),
                ("calls", "Calls"),
                ("bytes", "Size"),
                ("bandwidth_bytes_per_s", "Bandwidth"),
            ],
            digest
                .transfers
                .iter()
                .map(|transfer| {
                    vec![
                        Cell::Text(transfer.kind.to_string()),
                        Cell::Share(transfer.share),
                        nanos(transfer.total_ns),
                        Cell::Count(transfer.calls),
                        Cell::Bytes(transfer.bytes),
                        transfer.bandwidth_bytes_per_s.map_or(Cell::Null, Cell::Bandwidth),
                    ]
                })
                .collect(),
        ),
        Section::Devices => {
            let mut rows = Vec::new();
            for device in &digest.devices {
                let gpu = || [text(device.name.as_deref()), text(device.uuid.as_deref())];
                let mut row = vec![Cell::Count(device.device.into()), Cell::Null, Cell::Null];
                row.extend(
                    gpu().into_iter().chain([text(device.dataset.as_deref())]).chain(busy(&device.busy)),
                );
                rows.push(row);
                for stream in &device.streams {
                    let path = digest.datasets.get(stream.dataset).map(|dataset| dataset.path.as_str());
                    let (number, context) = (stream.stream.into(), stream.context.into());
                    let mut row =
                        vec![Cell::Count(device.device.into()), Cell::Count(context), Cell::Count(number)];
                    row.extend(gpu().into_iter().chain([text(path)]).chain(busy(&stream.busy)));
                    rows.push(row);
                }
            }
            (
                &[
                    ("device", "Device"),
                    ("context", "Context"),
                    ("stream", "Stream"),
                    ("gpu", "GPU"),
                    ("uuid", ""),
                    ("dataset", "Dataset"),
                    ("span_ns", "Span"),
                    ("busy_ns", "Busy time"),
                    ("busy_share", "Busy"),
                    ("idle_ns", "Idle"),
                    ("gaps", "Gaps"),
                    ("longest_gap_ns", "Longest gap"),
                    ("launches", "Launches"),
                    ("transfers", "Transfers"),
                ],
                rows,
            )
        }
        Section::Losses => (
            &[("cause", "Cause"), ("count", "Count"), ("meaning", "What is counted")],
            digest
                .losses
                .iter()
                .map(|lost| {
                    vec![
                        Cell::Text(lost.cause.to_string()),
                        Cell::Count(lost.count),
                        Cell::Text(lost.meaning.to_string()),
                    ]
                })
                .collect(),
        ),
    };
    let several = digest.datasets.len() > 1;
    let titled = |name: &(_, _)| if name.0 == "dataset" && !several { (name.0, "") } else { *name };
    let (columns, titles) = names.iter().map(titled).unzip();
    Sheet { columns, titles, rows }
}

pub(super) fn csv(digest: &Digest, section: Section, view: &View) -> String {
    let sheet = sheet(digest, section, view);
    let rows = sheet.rows.iter().map(|row| csv_line(row.iter().map(field)));
    std::iter::once(csv_line(&sheet.columns)).chain(rows).collect()
}

fn field(cell: &Cell) -> String {
    match cell {
        Cell::Text(text) | Cell::Nested(text, _) => text.clone(),
        Cell::Count(value) | Cell::Bytes(value) => value.to_string(),
        // The shortest text that reads back as the same number; whole ones have no point.
        Cell::Ns(value) | Cell::Share(value) | Cell::Bandwidth(value) => value.to_string(),
        Cell::Null => String::new(),
    }
}

pub(super) fn markdown(digest: &Digest, view: &View) -> String {
    let mut text = String::new();
    let invalid = digest.counts.without_times();
    if !digest.losses.is_empty() || invalid.is_some() {
        text += "**This result is incomplete.**\n\n";
    }
    if !digest.losses.is_empty() {
        text += &table(&sheet(digest, Section::Losses, view));
        text.push('\n');
    }
    if let Some(line) = invalid {
        text += &format!("{line}\n\n");
    }
    for warning in &digest.warnings {
        text += &format!("**{}**\n\n", markdown_escaped(warning));
    }
    for dataset in &digest.datasets {
        text += &format!("- {}\n", markdown_escaped(&dataset.to_string()));
    }
    if !digest.filter.is_empty() {
        text += &format!("\nOnly {}.\n", markdown_escaped(&digest.filter));
    }
    let counts = &digest.counts;
    let of = |ns: i64| human(&nanos(ns));
    text += &format!(
        "\n{} launches, {} transfers, {} ranges{}; {} in kernels, {} in transfers, within {}\n",
        count(counts.launches),
        count(counts.transfers),
        count(counts.ranges),
        counts.never_closed(),
        of(counts.kernel_ns),
        of(counts.transfer_ns),
        of(counts.span_ns),
    );
    for section in view.sections.iter().filter(|section| **section != Section::Losses) {
        let sheet = sheet(digest, *section, view);
        if !sheet.rows.is_empty() {
            text.push('\n');
            text += &table(&sheet);
        }
        for line in left_out(digest, *section, view) {
            text += &format!("\n{line}\n");
        }
    }
    text
}

/// What a table for people does not have, with its time.
fn left_out(digest: &Digest, section: Section, view: &View) -> Vec<String> {
    let counts = &digest.counts;
    let timed = |ns: i64| {
        let share = crate::summary::share(ns, counts.kernel_ns);
        format!("{} ({})", human(&nanos(ns)), percent(share))
    };
    let mut lines = Vec::new();
    match section {
        Section::Ranges if !digest.ranges.is_empty() => {
            if counts.launches_without_range > 0 {
                let launches = counted(counts.launches_without_range, "launch");
                lines.push(format!("No range: {launches}, {}", timed(counts.kernel_without_range_ns)));
            }
            let hidden = digest.ranges.len() - view.ranges(digest).len();
            lines.extend((hidden > 0).then(|| format!("{} more", counted(hidden as u64, "range path"))));
        }
        Section::Kernels => {
            let (_, rest) = view.kernels(digest);
            let ns = rest.iter().fold(0, |sum: i64, kernel| sum.saturating_add(kernel.total_ns));
            let kernels = counted(rest.len() as u64, "kernel");
            lines.extend((!rest.is_empty()).then(|| format!("{kernels} more: {}", timed(ns))));
        }
        _ => {}
    }
    lines
}

/// A table with those columns that have a title.
fn table(sheet: &Sheet) -> String {
    let shown: Vec<usize> =
        (0..sheet.titles.len()).filter(|column| !sheet.titles[*column].is_empty()).collect();
    let is_text = |column: usize| {
        sheet.rows.iter().all(|row| matches!(row[column], Cell::Text(_) | Cell::Nested(..) | Cell::Null))
    };
    let titles: Vec<&str> = shown.iter().map(|column| sheet.titles[*column]).collect();
    let mut text = markdown_heading(&titles, |place| is_text(shown[place]));
    for row in &sheet.rows {
        text += &markdown_row(shown.iter().map(|column| human(&row[*column])));
    }
    text
}

fn human(cell: &Cell) -> String {
    match cell {
        Cell::Text(text) => markdown_escaped(text),
        Cell::Nested(text, depth) => format!("{}{}", "&ensp;".repeat(*depth), markdown_escaped(text)),
        Cell::Count(value) => count(*value),
        Cell::Ns(ns) => time(*ns, Symbols::Ascii).replace("  ", " "),
        Cell::Share(share) => percent(*share),
        Cell::Bytes(value) => bytes(*value as f64).replace("  ", " "), // CAST: for people
        Cell::Bandwidth(value) => bandwidth(*value),
        Cell::Null => String::new(),
    }
}
