//! A summary of datasets, from their files.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustc_hash::{FxHashMap, FxHashSet};

use super::busy::{Piece, Queue, devices};
use super::filter::Filter;
use super::gather::{
    KernelSums, LAUNCH_COLUMNS, RANGE_COLUMNS, Seen, SeenRanges, TRANSFER_COLUMNS, TransferSums,
};
use super::tree::{Instances, Key, Own, tree};
use crate::error::Result;
use crate::summary::{Counts, KernelSummary, TransferSummary, sort_kernels, sort_transfers};
use crate::table::collection::{Collection, LostRows, Progress};
use crate::table::columns::{Names, int64};
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
/// use cuprof::Pattern;
/// use cuprof::analysis::{Collection, Filter};
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
    /// T0: when the first record of the datasets begins, in nanoseconds since the Unix epoch. From here a filter's times
    /// are counted, which does not apply to it.
    pub start_ns: Option<i64>,
    /// When the first of these kernels and transfers starts, in nanoseconds since the Unix epoch.
    pub first_ns: Option<i64>,
    /// Everything in one line.
    pub counts: Counts,
    /// Ranges by path: parents before their children, siblings by GPU time. A filter of kernels, devices or streams leaves
    /// those paths that such a kernel was launched in, with all of their instances.
    pub ranges: Vec<RangeTime>,
    /// Kernels by name, the longest total first.
    pub kernels: Vec<KernelSummary>,
    /// Transfers by kind, the longest total first.
    pub transfers: Vec<TransferSummary>,
    /// Devices, and the streams of each: when they worked, and when not.
    pub devices: Vec<DeviceTime>,
    /// The time of each kernel in each range path, without nested ranges; none for outside of all ranges.
    pub by_range_and_kernel: BTreeMap<(Option<Arc<str>>, Arc<str>), i64>,
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

impl Collection {
    /// Sums the datasets up. Reads the tables `launches`, `transfers` and `ranges` on all processors, and keeps 16 bytes
    /// of each launch and transfer until the end.
    ///
    /// # Errors
    /// `Io` or `Format` if a file cannot be read; the file is named. `Config` where the filter's times end before they
    /// begin.
    pub fn digest(&self, filter: &Filter, progress: Progress<'_>) -> Result<Digest> {
        let total = [Table::Launches, Table::Transfers, Table::Ranges].map(|table| self.rows(table));
        let total: u64 = total.iter().sum();
        let done = AtomicU64::new(0);
        let told = |rows: u64| progress(done.fetch_add(rows, Ordering::Relaxed) + rows, total);
        let start_ns = self.start_ns()?;
        let window = filter.window(start_ns.unwrap_or(0))?;
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
        let mut pairs = BTreeMap::new();
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
                let text = |names: &Names, code: u32| names.texts().get(code as usize).cloned();
                for ((path, name), ns) in &seen.pairs {
                    let Some(name) = text(&seen.names, *name) else { continue };
                    let sum: &mut i64 = pairs.entry((text(&seen.paths, *path), name)).or_default();
                    *sum = sum.saturating_add(*ns);
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
        let mut ranges = tree(instances, own, counts.kernel_ns, filter.is_all());
        if filter.is_of_work() {
            ranges.retain(|range| range.launches > 0);
        }
        for range in &ranges {
            counts.ranges += range.calls;
            counts.open_ranges += range.open_calls;
        }
        Ok(Digest {
            filter: filter.to_string(),
            datasets: self.members().iter().map(DatasetFacts::of).collect(),
            losses: self.losses(),
            warnings: self.warnings(),
            start_ns,
            first_ns: span.map(|(start, _)| start),
            counts,
            ranges,
            kernels: kernel_summaries(kernels, counts.kernel_ns),
            transfers: transfer_summaries(moved, counts.transfer_ns),
            devices: devices(self, queues),
            by_range_and_kernel: pairs,
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
}

impl DatasetFacts {
    fn of(member: &crate::table::collection::Member) -> Self {
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

fn kernel_summaries(kernels: BTreeMap<Arc<str>, KernelSums>, kernel_ns: i64) -> Vec<KernelSummary> {
    let summary = |(name, sums): (Arc<str>, KernelSums)| {
        KernelSummary::new(name, sums.calls, sums.total_ns, (sums.min_ns, sums.max_ns), kernel_ns)
    };
    let mut kernels: Vec<_> = kernels.into_iter().map(summary).collect();
    sort_kernels(&mut kernels);
    kernels
}

fn transfer_summaries(transfers: BTreeMap<Arc<str>, TransferSums>, transfer_ns: i64) -> Vec<TransferSummary> {
    let summary = |(kind, sums): (Arc<str>, TransferSums)| {
        TransferSummary::new(kind, sums.calls, sums.bytes, sums.total_ns, transfer_ns)
    };
    let mut transfers: Vec<_> = transfers.into_iter().map(summary).collect();
    sort_transfers(&mut transfers);
    transfers
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
