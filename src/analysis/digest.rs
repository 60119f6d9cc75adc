//! A summary of datasets, from their files.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_array::RecordBatch;
use rustc_hash::{FxHashMap, FxHashSet};

use super::busy::{Piece, Queue, Span, devices};
use super::collection::{Collection, LostRows, Place, Progress};
use super::columns::{Names, boolean, int64, uint32, value};
use super::filter::Filter;
use super::tree::{Instances, Key, Own, tree};
use crate::error::Result;
use crate::summary::{Counts, WARNING};
use crate::table::schema::Table;

pub use super::busy::{Busy, DeviceTime, StreamTime};
pub use super::tree::RangeTime;

/// What datasets hold, in numbers: the same as the [`Summary`](crate::Summary) of their runs, and more.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let recording = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/recordings/quickstart.cuprofrec");
/// # let folder = tempfile::tempdir()?;
/// # let output = folder.path().join("run.cuprof");
/// # let profile = cuprof::Replay::open(recording)?.output(&output).run()?;
/// use cuprof::analysis::{Collection, Filter, Pattern};
///
/// let collection = Collection::open([&output])?;
/// let all = collection.digest(&Filter::default(), &|_, _| {})?;
/// assert_eq!(all.counts, profile.summary().counts);
///
/// let mut filter = Filter::default();
/// filter.range = Some(Pattern::glob("epoch/step/forward")?);
/// let forward = collection.digest(&filter, &|_, _| {})?;
/// assert_eq!(forward.counts.launches, 40);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Digest {
    /// The filter in words; empty where nothing was left out.
    pub filter: String,
    /// The datasets, in the order in which they were named.
    pub datasets: Vec<DatasetFacts>,
    /// Causes of lost or unusable records, of all datasets together; a filter does not apply.
    pub losses: Vec<LostRows>,
    /// What else everybody should know of the runs, a sentence each.
    pub warnings: Vec<String>,
    /// Everything in one line.
    pub counts: Counts,
    /// Ranges by path: parents before their children, siblings by GPU time.
    pub ranges: Vec<RangeTime>,
    /// Kernels by name, the longest total first.
    pub kernels: Vec<KernelTime>,
    /// Transfers by kind, the longest total first.
    pub transfers: Vec<TransferTime>,
    /// Devices, and the streams of each: when they worked, and when not.
    pub devices: Vec<DeviceTime>,
}

/// A dataset, in short.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DatasetFacts {
    /// Its folder.
    pub path: String,
    /// Names of its GPUs.
    pub gpus: Vec<String>,
    /// The CUDA driver's version.
    pub driver: Option<String>,
    /// CUPTI's version.
    pub cupti: Option<String>,
    /// The program and its arguments.
    pub command: Option<String>,
    /// Whether it was closed, and is here as a whole.
    pub is_complete: bool,
}

/// All launches of the kernels of one name.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct KernelTime {
    /// Demangled name.
    pub name: Arc<str>,
    /// Launches with valid times.
    pub calls: u64,
    /// Sum of their durations.
    pub total_ns: i64,
    /// Mean duration.
    pub mean_ns: f64,
    /// Shortest duration.
    pub min_ns: i64,
    /// Longest duration.
    pub max_ns: i64,
    /// Part of the time of all kernels.
    pub share: f64,
}

/// All transfers of one kind.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct TransferTime {
    /// Direction of a copy, or `memset`, or `peer`.
    pub kind: Arc<str>,
    /// Transfers with valid times.
    pub calls: u64,
    /// Bytes that they moved.
    pub bytes: u64,
    /// Sum of their durations.
    pub total_ns: i64,
    /// Part of the time of all transfers.
    pub share: f64,
    /// `bytes` over `total_ns`; none without a duration.
    pub bandwidth_bytes_per_s: Option<f64>,
}

#[derive(Clone, Copy, Default)]
struct KernelSums {
    calls: u64,
    total_ns: i64,
    min_ns: i64,
    max_ns: i64,
}

impl KernelSums {
    fn add(&mut self, other: Self) {
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
struct TransferSums {
    calls: u64,
    bytes: u64,
    total_ns: i64,
}

/// What a thread has seen of launches or transfers.
struct Seen<'a> {
    filter: &'a Filter,
    window: (i64, i64),
    /// Kernels, or kinds of transfers.
    names: Names,
    wanted_names: Vec<bool>,
    paths: Names,
    wanted_paths: Vec<bool>,
    kernels: Vec<KernelSums>,
    transfers: Vec<TransferSums>,
    own: Vec<Own>,
    /// By set of process-wide ranges; only where they are filtered.
    sets: FxHashMap<(usize, i64), Own>,
    counts: Counts,
    span: Option<(i64, i64)>,
    queues: FxHashMap<Queue, Vec<Piece>>,
    name_codes: Vec<u32>,
    path_codes: Vec<u32>,
    other_codes: Vec<u32>,
    directions: Names,
}

impl<'a> Seen<'a> {
    fn new(filter: &'a Filter, window: (i64, i64)) -> Self {
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

    fn launches(&mut self, place: Place, batch: &RecordBatch) -> Result<()> {
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
            let duration = value(durations, row);
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
            self.extend_span(start, end);
        }
        (self.name_codes, self.path_codes) = (names, paths);
        Ok(())
    }

    fn transfers(&mut self, place: Place, batch: &RecordBatch) -> Result<()> {
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
            let Some(duration_ns) = value(durations, row) else {
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
struct SeenRanges {
    paths: Names,
    names: Names,
    kinds: Names,
    /// By path; process-wide ones apart.
    by_path: [Vec<Option<Instances>>; 2],
    ranges: u64,
    open_ranges: u64,
    /// The paths of process-wide ranges; only where they are filtered.
    process: FxHashMap<(usize, i64), u32>,
    codes: [Vec<u32>; 3],
}

const LAUNCH_COLUMNS: [&str; 8] =
    ["kernel", "range_path", "start_ns", "duration_ns", "device", "context", "stream", "range_set_id"];
const TRANSFER_COLUMNS: [&str; 9] = [
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
const RANGE_COLUMNS: [&str; 10] = [
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
    fn add(
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
            self.ranges += 1;
            self.open_ranges += u64::from(!closed.value(row));
            let by_path = &mut self.by_path[usize::from(kinds[row] == process)];
            let Some(instances) = by_path.get_mut(path as usize) else { continue };
            let instances = instances.get_or_insert_with(|| {
                let text = |names: &Names, code: u32| names.texts().get(code as usize).cloned();
                let name = text(&self.names, names[row]).unwrap_or_else(|| "".into());
                Instances::new(name, text(&self.kinds, kinds[row]).unwrap_or_else(|| "".into()))
            });
            instances.calls += 1;
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

impl Collection {
    /// Sums the datasets up. Reads the tables `launches`, `transfers` and `ranges` on all processors, and keeps 16 bytes
    /// of each launch and transfer until the end.
    ///
    /// # Errors
    /// `Io` or `Format` if a file cannot be read; the file is named.
    pub fn digest(&self, filter: &Filter, progress: Progress<'_>) -> Result<Digest> {
        let total = [Table::Launches, Table::Transfers, Table::Ranges].map(|table| self.rows(table));
        let total: u64 = total.iter().sum();
        let done = AtomicU64::new(0);
        let told = |rows: u64| progress(done.fetch_add(rows, Ordering::Relaxed) + rows, total);
        let start_ns = if filter.is_relative() { self.start_ns()?.unwrap_or(0) } else { 0 };
        let window = filter.window(start_ns);
        let seen = || Seen::new(filter, window);

        let columns = if filter.is_all() { &LAUNCH_COLUMNS[..7] } else { &LAUNCH_COLUMNS[..] };
        let launches = self.scan(Table::Launches, columns, &told, seen, Seen::launches)?;
        // A kernel's name is no transfer's.
        let transfers = if filter.kernel.is_some() {
            Vec::new()
        } else {
            self.scan(Table::Transfers, &TRANSFER_COLUMNS, &told, seen, Seen::transfers)?
        };
        let ids = !filter.is_all();
        let columns = if ids { &RANGE_COLUMNS[..] } else { &RANGE_COLUMNS[..9] };
        let ranges = self.scan(
            Table::Ranges,
            columns,
            &told,
            SeenRanges::default,
            |seen: &mut SeenRanges, place, batch| seen.add(filter, window, place, batch, ids),
        )?;

        let mut counts = Counts::default();
        let mut span: Option<(i64, i64)> = None;
        let mut queues: FxHashMap<Queue, Vec<Piece>> = FxHashMap::default();
        let mut kernels: BTreeMap<Arc<str>, KernelSums> = BTreeMap::new();
        let mut moved: BTreeMap<Arc<str>, TransferSums> = BTreeMap::new();
        let mut own: BTreeMap<Arc<str>, Own> = BTreeMap::new();
        let mut sets: FxHashMap<(usize, i64), Own> = FxHashMap::default();
        for (seen, of_launches) in launches
            .into_iter()
            .map(|seen| (seen, true))
            .chain(transfers.into_iter().map(|seen| (seen, false)))
        {
            add_counts(&mut counts, &seen.counts);
            if let Some((start, end)) = seen.span {
                let (first, last) = span.unwrap_or((start, end));
                span = Some((first.min(start), last.max(end)));
            }
            for (queue, pieces) in seen.queues {
                queues.entry(queue).or_default().extend(pieces);
            }
            if of_launches {
                for (name, sums) in
                    seen.names.texts().iter().zip(&seen.kernels).filter(|(_, sums)| sums.calls > 0)
                {
                    kernels.entry(Arc::clone(name)).or_default().add(*sums);
                }
                for (path, sums) in
                    seen.paths.texts().iter().zip(&seen.own).filter(|(_, own)| own.launches > 0)
                {
                    own.entry(Arc::clone(path)).or_default().merge(*sums);
                }
                for (set, sums) in seen.sets {
                    sets.entry(set).or_default().merge(sums);
                }
            } else {
                for (kind, sums) in seen.names.texts().iter().zip(&seen.transfers) {
                    if sums.calls > 0 {
                        let sum = moved.entry(Arc::clone(kind)).or_default();
                        sum.calls += sums.calls;
                        sum.bytes = sum.bytes.saturating_add(sums.bytes);
                        sum.total_ns = sum.total_ns.saturating_add(sums.total_ns);
                    }
                }
            }
        }
        counts.span_ns = span.map_or(0, |(start, end)| end.saturating_sub(start));

        let mut instances: BTreeMap<Key, Instances> = BTreeMap::new();
        let mut process: FxHashMap<(usize, i64), Arc<str>> = FxHashMap::default();
        for seen in ranges {
            counts.ranges += seen.ranges;
            counts.open_ranges += seen.open_ranges;
            for (is_process, by_path) in [false, true].into_iter().zip(seen.by_path) {
                for (path, found) in seen.paths.texts().iter().zip(by_path) {
                    let Some(found) = found else { continue };
                    match instances.entry((is_process, Arc::clone(path))) {
                        Entry::Occupied(mut sum) => sum.get_mut().merge(&found),
                        Entry::Vacant(empty) => drop(empty.insert(found)),
                    }
                }
            }
            let path = |code: u32| seen.paths.texts().get(code as usize).cloned();
            process.extend(seen.process.iter().filter_map(|(id, code)| Some((*id, path(*code)?))));
        }
        if !filter.is_all() {
            self.filter_process_ranges(&mut instances, &process, &sets)?;
        }
        Ok(Digest {
            filter: filter.to_string(),
            datasets: self.members().iter().map(DatasetFacts::of).collect(),
            losses: self.losses(),
            warnings: self.warnings(),
            counts,
            ranges: tree(instances, own, counts.kernel_ns, filter.is_all()),
            kernels: kernel_times(kernels, counts.kernel_ns),
            transfers: transfer_times(moved, counts.transfer_ns),
            devices: devices(self, queues),
        })
    }

    /// Process-wide ranges are around launches of all threads: what was launched in them is known by their sets.
    fn filter_process_ranges(
        &self,
        instances: &mut BTreeMap<Key, Instances>,
        process: &FxHashMap<(usize, i64), Arc<str>>,
        sets: &FxHashMap<(usize, i64), Own>,
    ) -> Result<()> {
        for (_, instances) in instances.iter_mut().filter(|((process, _), _)| *process) {
            (instances.launches, instances.gpu_ns) = (0, 0);
        }
        // A path counts a launch once, however many of its instances were open.
        let mut counted: FxHashSet<(usize, i64, Arc<str>)> = FxHashSet::default();
        for (number, member) in self.members.iter().enumerate() {
            for batch in member.dataset.batches(Table::RangeSets) {
                let batch = batch?;
                let (set_ids, range_ids) = (int64(&batch, 0)?.values(), int64(&batch, 1)?.values());
                for (set, range) in set_ids.iter().zip(range_ids) {
                    let (Some(own), Some(path)) = (sets.get(&(number, *set)), process.get(&(number, *range)))
                    else {
                        continue;
                    };
                    if let Some(instances) = instances.get_mut(&(true, Arc::clone(path)))
                        && counted.insert((number, *set, Arc::clone(path)))
                    {
                        instances.launches = instances.launches.saturating_add(own.launches);
                        instances.gpu_ns = instances.gpu_ns.saturating_add(own.gpu_ns);
                    }
                }
            }
        }
        Ok(())
    }

    fn warnings(&self) -> Vec<String> {
        let several = self.members.len() > 1;
        let mut warnings = Vec::new();
        for member in &self.members {
            let path = member.path.display();
            if !member.is_complete {
                let what =
                    "was not closed, or is not here as a whole: rows are missing, nobody knows how many";
                warnings.push(format!("{path} {what}; `cuprof recover` tidies and tells"));
            }
            let facts = member.facts.iter().filter(|(key, _)| key.starts_with(WARNING));
            warnings.extend(facts.map(
                |(_, told)| {
                    if several { format!("{path}: {told}") } else { told.clone() }
                },
            ));
        }
        warnings
    }
}

impl DatasetFacts {
    fn of(member: &super::collection::Member) -> Self {
        let fact = |key: &str| member.facts.get(key).cloned();
        let is_name = |key: &str| key.strip_prefix("gpu.").is_some_and(|rest| rest.ends_with(".name"));
        let gpus = member.facts.iter().filter(|(key, _)| is_name(key)).map(|(_, name)| name.clone());
        Self {
            path: member.path.display().to_string(),
            gpus: gpus.collect(),
            driver: fact("driver.version").or_else(|| fact("driver.cuda_version")),
            cupti: fact("cupti.version"),
            command: fact("process.command"),
            is_complete: member.is_complete,
        }
    }
}

fn add_counts(sum: &mut Counts, more: &Counts) {
    sum.launches += more.launches;
    sum.invalid_launches += more.invalid_launches;
    sum.launches_without_range += more.launches_without_range;
    sum.transfers += more.transfers;
    sum.invalid_transfers += more.invalid_transfers;
    sum.kernel_ns = sum.kernel_ns.saturating_add(more.kernel_ns);
    sum.kernel_without_range_ns = sum.kernel_without_range_ns.saturating_add(more.kernel_without_range_ns);
    sum.transfer_ns = sum.transfer_ns.saturating_add(more.transfer_ns);
}

fn kernel_times(kernels: BTreeMap<Arc<str>, KernelSums>, kernel_ns: i64) -> Vec<KernelTime> {
    let time = |(name, sums): (Arc<str>, KernelSums)| KernelTime {
        name,
        calls: sums.calls,
        total_ns: sums.total_ns,
        mean_ns: sums.total_ns as f64 / sums.calls.max(1) as f64, // CAST: a mean
        min_ns: sums.min_ns,
        max_ns: sums.max_ns,
        share: share(sums.total_ns, kernel_ns),
    };
    let mut kernels: Vec<KernelTime> = kernels.into_iter().map(time).collect();
    kernels.sort_by(|a, b| b.total_ns.cmp(&a.total_ns).then_with(|| a.name.cmp(&b.name)));
    kernels
}

fn transfer_times(transfers: BTreeMap<Arc<str>, TransferSums>, transfer_ns: i64) -> Vec<TransferTime> {
    let time = |(kind, sums): (Arc<str>, TransferSums)| TransferTime {
        kind,
        calls: sums.calls,
        bytes: sums.bytes,
        total_ns: sums.total_ns,
        share: share(sums.total_ns, transfer_ns),
        // CAST: a ratio
        bandwidth_bytes_per_s: (sums.total_ns > 0).then(|| sums.bytes as f64 * 1e9 / sums.total_ns as f64),
    };
    let mut transfers: Vec<TransferTime> = transfers.into_iter().map(time).collect();
    transfers.sort_by(|a, b| b.total_ns.cmp(&a.total_ns).then_with(|| a.kind.cmp(&b.kind)));
    transfers
}

pub(super) fn share(part: i64, whole: i64) -> f64 {
    if whole > 0 { part as f64 / whole as f64 } else { 0.0 } // CAST: a ratio
}

impl fmt::Display for DatasetFacts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        if !self.gpus.is_empty() {
            parts.push(self.gpus.join(", "));
        }
        parts.extend(self.driver.iter().map(|driver| format!("driver {driver}")));
        parts.extend(self.cupti.iter().filter_map(|cupti| Some(cupti.split(" (").next()?.to_owned())));
        write!(f, "{}", self.path)?;
        if parts.is_empty() { Ok(()) } else { write!(f, " ({})", parts.join(", ")) }
    }
}
