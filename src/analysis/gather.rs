//! Rows of launches, transfers and ranges, summed up by the thread that reads them.

use std::sync::Arc;

use arrow_array::RecordBatch;
use rustc_hash::FxHashMap;

use super::busy::{Piece, Queue, Span};
use super::filter::Filter;
use super::tree::{Instances, Own};
use crate::error::Result;
use crate::summary::Counts;
use crate::table::collection::Place;
use crate::table::columns::{Names, boolean, duration_ns, int64, uint32, value};

#[derive(Clone, Copy, Default)]
pub(super) struct KernelSums {
    pub calls: u64,
    pub total_ns: i64,
    pub min_ns: i64,
    pub max_ns: i64,
}

impl KernelSums {
    pub fn add(&mut self, other: Self) {
        if other.calls == 0 {
            return;
        }
        let is_first = self.calls == 0;
        self.min_ns = if is_first { other.min_ns } else { self.min_ns.min(other.min_ns) };
        self.max_ns = if is_first { other.max_ns } else { self.max_ns.max(other.max_ns) };
        self.calls += other.calls;
        self.total_ns = self.total_ns.saturating_add(other.total_ns);
    }
}

#[derive(Clone, Copy, Default)]
pub(super) struct TransferSums {
    pub calls: u64,
    pub bytes: u64,
    pub total_ns: i64,
}

/// What a thread has seen of launches or transfers.
pub(super) struct Seen<'a> {
    pub filter: &'a Filter,
    pub window: (i64, i64),
    /// Kernels, or kinds of transfers.
    pub names: Names,
    pub wanted_names: Vec<bool>,
    pub paths: Names,
    pub wanted_paths: Vec<bool>,
    pub kernels: Vec<KernelSums>,
    pub transfers: Vec<TransferSums>,
    pub own: Vec<Own>,
    /// By set of process-wide ranges; only where they are filtered.
    pub sets: FxHashMap<(usize, i64), Own>,
    /// By path and kernel.
    pub pairs: FxHashMap<(u32, u32), i64>,
    pub counts: Counts,
    pub span: Option<(i64, i64)>,
    pub queues: FxHashMap<Queue, Vec<Piece>>,
    pub name_codes: Vec<u32>,
    pub path_codes: Vec<u32>,
    pub other_codes: Vec<u32>,
    pub directions: Names,
}

impl<'a> Seen<'a> {
    pub fn new(filter: &'a Filter, window: (i64, i64)) -> Self {
        Self {
            filter,
            window,
            names: Names::default(),
            wanted_names: Vec::new(),
            paths: Names::default(),
            wanted_paths: Vec::new(),
            kernels: Vec::new(),
            transfers: Vec::new(),
            own: Vec::new(),
            sets: FxHashMap::default(),
            pairs: FxHashMap::default(),
            counts: Counts::default(),
            span: None,
            queues: FxHashMap::default(),
            name_codes: Vec::new(),
            path_codes: Vec::new(),
            other_codes: Vec::new(),
            directions: Names::default(),
        }
    }

    /// Looks at names that are new.
    fn learn(&mut self) {
        let (names, paths) = (self.names.texts(), self.paths.texts());
        let filter = self.filter;
        let kernel = |name: &Arc<str>| filter.kernel.as_ref().is_none_or(|pattern| pattern.matches(name));
        let range = |path: &Arc<str>| filter.range.as_ref().is_none_or(|pattern| pattern.matches_path(path));
        self.wanted_names.extend(names.iter().skip(self.wanted_names.len()).map(kernel));
        self.wanted_paths.extend(paths.iter().skip(self.wanted_paths.len()).map(range));
        self.kernels.resize(names.len(), KernelSums::default());
        self.transfers.resize(names.len(), TransferSums::default());
        self.own.resize(paths.len(), Own::default());
    }

    fn wants_path(&self, path: u32) -> bool {
        match self.wanted_paths.get(path as usize) {
            Some(wanted) => *wanted,
            None => self.filter.range.is_none(),
        }
    }

    fn extend_span(&mut self, start_ns: i64, end_ns: i64) {
        let (start, end) = self.span.unwrap_or((start_ns, end_ns));
        self.span = Some((start.min(start_ns), end.max(end_ns)));
    }

    /// Where the busy times of a queue go.
    fn spans(queues: &mut FxHashMap<Queue, Vec<Piece>>, queue: Queue, group: usize) -> &mut Piece {
        let pieces = queues.entry(queue).or_default();
        if pieces.last().is_none_or(|piece| piece.group != group) {
            pieces.push(Piece { group, launches: 0, transfers: 0, spans: Vec::new() });
        }
        // Pushed where there was none.
        let last = pieces.len() - 1;
        &mut pieces[last]
    }

    pub fn launches(&mut self, place: Place, batch: &RecordBatch) -> Result<()> {
        let (mut names, mut paths) =
            (std::mem::take(&mut self.name_codes), std::mem::take(&mut self.path_codes));
        self.names.codes(batch, 0, &mut names)?;
        self.paths.codes(batch, 1, &mut paths)?;
        self.learn();
        let starts = int64(batch, 2)?.values();
        let durations = int64(batch, 3)?;
        let (devices, contexts, streams) =
            (uint32(batch, 4)?.values(), uint32(batch, 5)?.values(), uint32(batch, 6)?.values());
        let sets = if self.filter.is_all() { None } else { Some(int64(batch, 7)?) };
        let is_all = self.filter.is_all();
        for row in 0..batch.num_rows() {
            let (name, path, start) = (names[row], paths[row], starts[row]);
            if !is_all {
                let in_time = self.window.0 <= start && start < self.window.1;
                let on_device = self.filter.has_device(devices[row]) && self.filter.has_stream(streams[row]);
                let named = self.wanted_names.get(name as usize).copied().unwrap_or(false);
                if !(in_time && on_device && named && self.wants_path(path)) {
                    continue;
                }
            }
            let duration = duration_ns(durations, row);
            self.counts.launches += 1;
            let duration_ns = duration.unwrap_or(0);
            match self.own.get_mut(path as usize) {
                Some(own) => own.add(duration_ns),
                None => {
                    self.counts.launches_without_range += 1;
                    self.counts.kernel_without_range_ns =
                        self.counts.kernel_without_range_ns.saturating_add(duration_ns);
                }
            }
            if let Some(set) = sets.and_then(|sets| value(sets, row)) {
                self.sets.entry((place.member, set)).or_default().add(duration_ns);
            }
            let queue = Queue {
                member: place.member,
                device: devices[row],
                context: contexts[row],
                stream: streams[row],
            };
            let piece = Self::spans(&mut self.queues, queue, place.group);
            piece.launches += 1;
            if duration.is_none() {
                self.counts.invalid_launches += 1;
                continue;
            }
            let end = start.saturating_add(duration_ns);
            piece.spans.push(Span { start_ns: start, end_ns: end });
            self.counts.kernel_ns = self.counts.kernel_ns.saturating_add(duration_ns);
            if let Some(sums) = self.kernels.get_mut(name as usize) {
                let one =
                    KernelSums { calls: 1, total_ns: duration_ns, min_ns: duration_ns, max_ns: duration_ns };
                sums.add(one);
            }
            let pair = self.pairs.entry((path, name)).or_default();
            *pair = pair.saturating_add(duration_ns);
            self.extend_span(start, end);
        }
        (self.name_codes, self.path_codes) = (names, paths);
        Ok(())
    }

    pub fn transfers(&mut self, place: Place, batch: &RecordBatch) -> Result<()> {
        let (mut names, mut paths, mut directions) = (
            std::mem::take(&mut self.name_codes),
            std::mem::take(&mut self.path_codes),
            std::mem::take(&mut self.other_codes),
        );
        self.names.codes(batch, 0, &mut names)?;
        self.paths.codes(batch, 1, &mut paths)?;
        self.directions.codes(batch, 7, &mut directions)?;
        // A copy is named by its direction.
        let copy = self.names.number("memcpy");
        let by_direction: Vec<u32> =
            self.directions.texts().iter().map(|text| self.names.number(text)).collect();
        self.learn();
        let starts = int64(batch, 2)?.values();
        let durations = int64(batch, 3)?;
        let (devices, contexts, streams) =
            (uint32(batch, 4)?.values(), uint32(batch, 5)?.values(), uint32(batch, 6)?.values());
        let bytes = int64(batch, 8)?.values();
        for row in 0..batch.num_rows() {
            let start = starts[row];
            let in_time = self.window.0 <= start && start < self.window.1;
            let on_device = self.filter.has_device(devices[row]) && self.filter.has_stream(streams[row]);
            if !(in_time && on_device && self.wants_path(paths[row])) {
                continue;
            }
            let directed = by_direction.get(directions[row] as usize).copied();
            let name = if names[row] == copy { directed.unwrap_or(names[row]) } else { names[row] };
            self.counts.transfers += 1;
            let queue = Queue {
                member: place.member,
                device: devices[row],
                context: contexts[row],
                stream: streams[row],
            };
            let piece = Self::spans(&mut self.queues, queue, place.group);
            piece.transfers += 1;
            let Some(duration_ns) = duration_ns(durations, row) else {
                self.counts.invalid_transfers += 1;
                continue;
            };
            let end = start.saturating_add(duration_ns);
            piece.spans.push(Span { start_ns: start, end_ns: end });
            self.counts.transfer_ns = self.counts.transfer_ns.saturating_add(duration_ns);
            if let Some(sums) = self.transfers.get_mut(name as usize) {
                sums.calls += 1;
                sums.bytes = sums.bytes.saturating_add(u64::try_from(bytes[row]).unwrap_or(0));
                sums.total_ns = sums.total_ns.saturating_add(duration_ns);
            }
            self.extend_span(start, end);
        }
        (self.name_codes, self.path_codes, self.other_codes) = (names, paths, directions);
        Ok(())
    }
}

/// What a thread has seen of ranges.
#[derive(Default)]
pub(super) struct SeenRanges {
    pub paths: Names,
    pub names: Names,
    pub kinds: Names,
    /// By path; process-wide ones apart.
    pub by_path: [Vec<Option<Instances>>; 2],
    /// The paths of process-wide ranges; only where they are filtered.
    pub process: FxHashMap<(usize, i64), u32>,
    pub codes: [Vec<u32>; 3],
}

pub(super) const LAUNCH_COLUMNS: [&str; 8] =
    ["kernel", "range_path", "start_ns", "duration_ns", "device", "context", "stream", "range_set_id"];
pub(super) const TRANSFER_COLUMNS: [&str; 9] = [
    "operation",
    "range_path",
    "start_ns",
    "duration_ns",
    "device",
    "context",
    "stream",
    "copy_kind",
    "bytes",
];
pub(super) const RANGE_COLUMNS: [&str; 10] = [
    "range_path",
    "name",
    "kind",
    "closed",
    "start_ns",
    "duration_ns",
    "n_launches",
    "gpu_sum_ns",
    "gpu_span_ns",
    "range_id",
];

impl SeenRanges {
    pub fn add(
        &mut self,
        filter: &Filter,
        window: (i64, i64),
        place: Place,
        batch: &RecordBatch,
        ids: bool,
    ) -> Result<()> {
        let [mut paths, mut names, mut kinds] = std::mem::take(&mut self.codes);
        self.paths.codes(batch, 0, &mut paths)?;
        self.names.codes(batch, 1, &mut names)?;
        self.kinds.codes(batch, 2, &mut kinds)?;
        let closed = boolean(batch, 3)?;
        let (starts, durations) = (int64(batch, 4)?.values(), int64(batch, 5)?.values());
        let (launches, sums) = (int64(batch, 6)?.values(), int64(batch, 7)?.values());
        let spans = int64(batch, 8)?;
        let range_ids = if ids { Some(int64(batch, 9)?.values()) } else { None };
        let process = self.kinds.number("process");
        let wanted: Vec<bool> = match &filter.range {
            Some(pattern) => self.paths.texts().iter().map(|path| pattern.matches_path(path)).collect(),
            None => Vec::new(),
        };
        let known = self.paths.texts().len();
        self.by_path.iter_mut().for_each(|by_path| by_path.resize_with(known, || None));
        for row in 0..batch.num_rows() {
            let path = paths[row];
            if let Some(ids) = range_ids
                && kinds[row] == process
            {
                self.process.insert((place.member, ids[row]), path);
            }
            let in_time = window.0 <= starts[row] && starts[row] < window.1;
            if !in_time || wanted.get(path as usize) == Some(&false) {
                continue;
            }
            let by_path = &mut self.by_path[usize::from(kinds[row] == process)];
            let Some(instances) = by_path.get_mut(path as usize) else { continue };
            let instances = instances.get_or_insert_with(|| {
                let text = |names: &Names, code: u32| names.texts().get(code as usize).cloned();
                let name = text(&self.names, names[row]).unwrap_or_else(|| "".into());
                Instances::new(name, text(&self.kinds, kinds[row]).unwrap_or_else(|| "".into()))
            });
            instances.calls += 1;
            instances.open_calls += u64::from(!closed.value(row));
            instances.host_ns = instances.host_ns.saturating_add(durations[row]);
            let count = u64::try_from(launches[row]).unwrap_or(0);
            instances.launches = instances.launches.saturating_add(count);
            instances.gpu_ns = instances.gpu_ns.saturating_add(sums[row]);
            instances.span_ns = instances.span_ns.saturating_add(value(spans, row).unwrap_or(0));
        }
        self.codes = [paths, names, kinds];
        Ok(())
    }
}
