//! For terminals.

use std::cmp::Reverse;

use super::{Section, View};
use crate::analysis::digest::{Busy, DeviceTime, Digest, RangeTime, StreamTime};
use crate::summary::page::{Grid, JOINED_SPACE, Page};
use crate::summary::text::{count, counted, one_line, percent};
use crate::summary::{Symbols, share};

pub(super) fn render(digest: &Digest, view: &View, width: usize, symbols: Symbols) -> String {
    let mut page = Page::new(width, symbols);
    losses(&mut page, digest);
    head(&mut page, digest);
    // Who asks for nothing else is answered.
    if view.sections == [Section::Losses] && page.text.lines().all(|line| !line.starts_with('!')) {
        page.paragraph("", "", "no record was lost");
    }
    if view.has(Section::Ranges) {
        ranges(&mut page, digest, view);
    }
    if view.has(Section::Kernels) {
        kernels(&mut page, digest, view);
    }
    if view.has(Section::Transfers) {
        page.transfer_grid(&digest.transfers);
    }
    if view.has(Section::Devices) {
        devices(&mut page, digest, view);
    }
    page.text
}

fn losses(page: &mut Page, digest: &Digest) {
    let invalid = digest.counts.without_times();
    if !digest.losses.is_empty() || invalid.is_some() {
        page.paragraph("! ", "! ", "This result is incomplete:");
        for lost in &digest.losses {
            let line = format!("{} {}: {}", count(lost.count), lost.cause, lost.meaning);
            page.paragraph("!   ", "!     ", &line);
        }
        if let Some(line) = invalid {
            page.paragraph("!   ", "!     ", &line);
        }
        page.text.push('\n');
    }
    for warning in &digest.warnings {
        page.paragraph("! ", "! ", &one_line(warning));
    }
    if !digest.warnings.is_empty() {
        page.text.push('\n');
    }
}

fn head(page: &mut Page, digest: &Digest) {
    for (number, dataset) in digest.datasets.iter().enumerate() {
        page.paragraph("", "  ", &format!("{}{dataset}", numbered(digest, number, "", " ")));
    }
    if !digest.filter.is_empty() {
        page.paragraph("", "  ", &format!("only {}", digest.filter));
    }
    let counts = &digest.counts;
    let mut line = format!(
        "{} of {}, {}, {}",
        counted(counts.launches, "launch"),
        counted(digest.kernels.len() as u64, "kernel"),
        counted(counts.transfers, "transfer"),
        counted(counts.ranges, "range"),
    );
    line += &counts.never_closed();
    page.paragraph("", "", &line);
    if counts.span_ns > 0 {
        let time = |ns: i64| page.time(ns).trim().replace("  ", " ").replace(' ', JOINED_SPACE);
        let [kernels, transfers, span] = [counts.kernel_ns, counts.transfer_ns, counts.span_ns].map(time);
        page.paragraph("", "", &format!("{kernels} in kernels, {transfers} in transfers, within {span}"));
    }
    if let (Some(start), Some(first)) = (digest.start_ns, digest.first_ns) {
        let after =
            page.time(first.saturating_sub(start)).trim().replace("  ", " ").replace(' ', JOINED_SPACE);
        let line = format!("from {after} after T0 on; T0 is the first record, @{start}");
        page.paragraph("", "", &line);
    }
}

fn ranges(page: &mut Page, digest: &Digest, view: &View) {
    if digest.ranges.is_empty() {
        return;
    }
    let counts = &digest.counts;
    let titles = ["Share", "GPU time", "Self", "Calls", "Launches", "Span"];
    let mut grid = Grid::new("Range", &titles, [5, 4, 3, 2]);
    let shown = view.ranges(digest);
    for range in &shown {
        let has_kernels = range.launches > 0;
        let some = |text: String| if has_kernels { text } else { String::new() };
        let cells = [
            some(percent(range.share)),
            some(page.time(range.gpu_time_ns)),
            some(range.own_gpu_time_ns.map(|ns| page.time(ns)).unwrap_or_default()),
            if range.calls > 0 { count(range.calls) } else { String::new() },
            count(range.launches),
            some(range.span_ns.map(|ns| page.time(ns)).unwrap_or_default()),
        ];
        grid.push(cells, range.depth, label(range));
    }
    if counts.launches_without_range > 0 {
        let ns = counts.kernel_without_range_ns;
        let (share, time) = (percent(share(ns, counts.kernel_ns)), page.time(ns));
        let launches = count(counts.launches_without_range);
        let cells = [share, time.clone(), time, String::new(), launches, String::new()];
        grid.push(cells, 0, "(no range)".to_owned());
    }
    page.grid(grid);
    page.left_out(digest.ranges.len() - shown.len(), "range path");
}

fn label(range: &RangeTime) -> String {
    if &*range.kind == "process" { format!("{} (process-wide)", range.name) } else { range.name.to_string() }
}

fn kernels(page: &mut Page, digest: &Digest, view: &View) {
    if digest.kernels.is_empty() {
        return;
    }
    let (shown, rest) = view.kernels(digest);
    page.kernel_grid(&shown, &rest);
}

fn devices(page: &mut Page, digest: &Digest, view: &View) {
    if digest.devices.is_empty() {
        return;
    }
    let titles = ["Busy", "Busy time", "Idle", "Gaps", "Longest gap", "Launches", "Transfers"];
    let mut grid = Grid::new("Device", &titles, [6, 5, 4, 3, 2]);
    let cells = |page: &Page, busy: &Busy| {
        [
            percent(share(busy.busy_ns, busy.span_ns)),
            page.time(busy.busy_ns),
            page.time(busy.idle_ns),
            count(busy.gaps),
            if busy.gaps > 0 { page.time(busy.longest_gap_ns) } else { String::new() },
            count(busy.launches),
            count(busy.transfers),
        ]
    };
    for device in &digest.devices {
        let name = device.name.as_deref().map(|name| format!(": {name}")).unwrap_or_default();
        // One that nobody can tell from those of other datasets is of one dataset.
        let of = device.streams.first().filter(|_| device.dataset.is_some());
        let of = of.map(|stream| numbered(digest, stream.dataset, " of ", "")).unwrap_or_default();
        grid.push_kept(cells(page, &device.busy), 0, format!("device {}{of}", device.device), name);
        // The busiest, in the order of their ids.
        let mut shown: Vec<usize> = (0..device.streams.len()).collect();
        shown.sort_by_key(|at| (Reverse(device.streams[*at].busy.busy_ns), *at));
        shown.truncate(view.top.unwrap_or(usize::MAX));
        shown.sort_unstable();
        for stream in shown.iter().map(|at| &device.streams[*at]) {
            let label = stream_label(digest, device, stream);
            grid.push_kept(cells(page, &stream.busy), 1, label, String::new());
        }
        let left_out = device.streams.len() - shown.len();
        if left_out > 0 {
            grid.push(
                [const { String::new() }; 7],
                1,
                format!("({} more)", counted(left_out as u64, "stream")),
            );
        }
    }
    page.grid(grid);
}

/// The number of a dataset, by which the head of the page has it; nothing where there is only one.
fn numbered(digest: &Digest, dataset: usize, before: &str, after: &str) -> String {
    if digest.datasets.len() > 1 { format!("{before}[{}]{after}", dataset + 1) } else { String::new() }
}

/// The stream's number, and what tells it from others of its device.
fn stream_label(digest: &Digest, device: &DeviceTime, stream: &StreamTime) -> String {
    let mut label = format!("stream {}", stream.stream);
    let is_other = |other: &StreamTime| other.dataset == stream.dataset && other.context != stream.context;
    if device.streams.iter().any(is_other) {
        label += &format!(", context {}", stream.context);
    }
    label + &numbered(digest, stream.dataset, " of ", "")
}
