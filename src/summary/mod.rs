//! The result in short: kernels, ranges and transfers by name, summed up while the rows stream by.

pub(crate) mod escaped;
pub(crate) mod page;
pub(crate) mod render;
#[cfg(test)]
mod tests;
pub(crate) mod text;

use std::fmt;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::losses::Loss;
use crate::table::rows::{EnvRow, LaunchRow, LossRow, RangeRow, TransferRow, WARNING};

pub use render::Symbols;

/// Distinct kernels that are kept apart; all further ones are summed up as [`OTHER`].
pub const MAX_KERNELS: usize = 10_000;

/// Distinct range paths that are kept apart; all further ones are summed up as [`OTHER`].
pub const MAX_RANGE_PATHS: usize = 10_000;

/// The name of what is not kept apart.
pub const OTHER: &str = "(other)";

/// What a run did, in numbers: print it, or use them.
///
/// Times are of the device, in nanoseconds, and only of rows with valid times. A share is a part of 1: of the
/// time of all kernels, or of all transfers.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Summary {
    /// Kernels by name, the longest total first.
    pub kernels: Vec<KernelSummary>,
    /// Ranges by path: parents before their children, siblings by GPU time.
    pub ranges: Vec<RangeSummary>,
    /// Transfers by kind, the longest total first.
    pub transfers: Vec<TransferSummary>,
    /// Causes of lost or unusable records, as in the table `losses`; none with a count of zero.
    pub losses: Vec<Loss>,
    /// What else everybody should know of the run, a sentence each: the facts of `env` named `warning.…`.
    pub warnings: Vec<String>,
    /// Everything in one line.
    pub counts: Counts,
}

/// All launches of the kernels of one name.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct KernelSummary {
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

/// All instances of one range path.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RangeSummary {
    /// Names of the ranges around it and its own, joined by `/`.
    pub path: Arc<str>,
    /// Its own name; the whole path where the range around it is not among the summaries.
    pub name: Arc<str>,
    /// How many ranges around it are among the summaries.
    pub depth: usize,
    /// `stack`, `process` or `own`. Process-wide ranges overlap all others.
    pub kind: &'static str,
    /// Instances.
    pub calls: u64,
    /// Kernels launched inside, nested ranges included.
    pub launches: u64,
    /// Sum of their durations.
    pub gpu_time_ns: i64,
    /// Part of the time of all kernels.
    pub share: f64,
    /// From the first start to the last end of the kernels of one instance, summed up.
    pub span_ns: i64,
}

/// All transfers of one kind.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct TransferSummary {
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

/// The run as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Kernel launches, with and without valid times.
    pub launches: u64,
    /// Launches without valid times.
    pub invalid_launches: u64,
    /// Launches outside every range, or whose range is not known.
    pub launches_without_range: u64,
    /// Transfers, with and without valid times.
    pub transfers: u64,
    /// Transfers without valid times.
    pub invalid_transfers: u64,
    /// Range instances.
    pub ranges: u64,
    /// Ranges that were still open at the end.
    pub open_ranges: u64,
    /// Sum of the durations of all kernels.
    pub kernel_ns: i64,
    /// Sum of the durations of the launches without a range.
    pub kernel_without_range_ns: i64,
    /// Sum of the durations of all transfers.
    pub transfer_ns: i64,
    /// From the first start to the last end on the device.
    pub span_ns: i64,
}

/// Sums rows up; bounded in memory.
#[derive(Default)]
pub(crate) struct SummaryBuilder {
    kernels: ByText<KernelSums>,
    ranges: ByText<RangeSums>,
    transfers: FxHashMap<Box<str>, TransferSums>,
    losses: Vec<Loss>,
    warnings: Vec<String>,
    counts: Counts,
    /// First start and last end on the device.
    span: Option<(i64, i64)>,
}

#[derive(Default)]
struct KernelSums {
    calls: u64,
    total_ns: i64,
    /// None before the first call.
    min_max_ns: Option<(i64, i64)>,
}

struct RangeSums {
    name: Arc<str>,
    kind: &'static str,
    calls: u64,
    launches: u64,
    gpu_time_ns: i64,
    span_ns: i64,
}

#[derive(Default)]
struct TransferSums {
    calls: u64,
    bytes: u64,
    total_ns: i64,
}

impl SummaryBuilder {
    /// Counts a launch. A few nanoseconds where the kernel is known.
    pub fn launch(&mut self, row: &LaunchRow) {
        let counts = &mut self.counts;
        counts.launches += 1;
        let outside = row.work.range.is_none();
        counts.launches_without_range += u64::from(outside);
        let Some(duration_ns) = row.work.duration_ns.filter(|_| row.work.invalid.is_none()) else {
            counts.invalid_launches += 1;
            return;
        };
        counts.kernel_ns = counts.kernel_ns.saturating_add(duration_ns);
        if outside {
            counts.kernel_without_range_ns = counts.kernel_without_range_ns.saturating_add(duration_ns);
        }
        let sums = self.kernels.entry(&row.kernel.demangled, MAX_KERNELS, KernelSums::default);
        sums.calls += 1;
        sums.total_ns = sums.total_ns.saturating_add(duration_ns);
        let (min, max) = sums.min_max_ns.unwrap_or((duration_ns, duration_ns));
        sums.min_max_ns = Some((min.min(duration_ns), max.max(duration_ns)));
        self.extend_span(row.work.start_ns, row.work.end_ns);
    }

    /// Counts a transfer.
    pub fn transfer(&mut self, row: &TransferRow) {
        self.counts.transfers += 1;
        let Some(duration_ns) = row.work.duration_ns.filter(|_| row.work.invalid.is_none()) else {
            self.counts.invalid_transfers += 1;
            return;
        };
        self.counts.transfer_ns = self.counts.transfer_ns.saturating_add(duration_ns);
        let kind = row.copy_kind.as_deref().filter(|_| row.operation == "memcpy").unwrap_or(row.operation);
        let sums = match self.transfers.get_mut(kind) {
            Some(sums) => sums,
            None => self.transfers.entry(kind.into()).or_default(),
        };
        sums.calls += 1;
        sums.bytes = sums.bytes.saturating_add(row.bytes);
        sums.total_ns = sums.total_ns.saturating_add(duration_ns);
        self.extend_span(row.work.start_ns, row.work.end_ns);
    }

    /// Counts a range instance.
    pub fn range(&mut self, row: &RangeRow) {
        self.counts.ranges += 1;
        self.counts.open_ranges += u64::from(!row.closed);
        let sums = self.ranges.entry(&row.path, MAX_RANGE_PATHS, || RangeSums {
            name: row.name.clone(),
            kind: row.kind,
            calls: 0,
            launches: 0,
            gpu_time_ns: 0,
            span_ns: 0,
        });
        sums.calls += 1;
        sums.launches = sums.launches.saturating_add(row.n_launches);
        sums.gpu_time_ns = sums.gpu_time_ns.saturating_add(row.gpu_sum_ns);
        sums.span_ns = sums.span_ns.saturating_add(row.gpu_span_ns.unwrap_or(0));
    }

    /// Takes a cause of loss.
    pub fn loss(&mut self, row: &LossRow) {
        if row.count > 0 {
            self.losses.push(Loss { cause: row.cause, count: row.count, meaning: row.meaning });
        }
    }

    /// Takes a fact: the warnings.
    pub fn env(&mut self, row: &EnvRow) {
        if row.key.starts_with(WARNING) {
            self.warnings.push(row.value.clone());
        }
    }

    /// The summary of all rows so far.
    pub fn finish(self) -> Summary {
        let mut counts = self.counts;
        counts.span_ns = self.span.map_or(0, |(start, end)| end.saturating_sub(start));
        let mut kernels: Vec<KernelSummary> = self
            .kernels
            .into_entries(OTHER)
            .map(|(name, sums)| {
                let (min_ns, max_ns) = sums.min_max_ns.unwrap_or_default();
                KernelSummary::new(name, sums.calls, sums.total_ns, (min_ns, max_ns), counts.kernel_ns)
            })
            .collect();
        sort_kernels(&mut kernels);

        let mut transfers: Vec<TransferSummary> = self
            .transfers
            .into_iter()
            .map(|(kind, sums)| {
                TransferSummary::new(kind.into(), sums.calls, sums.bytes, sums.total_ns, counts.transfer_ns)
            })
            .collect();
        sort_transfers(&mut transfers);

        let ranges = tree(self.ranges.into_entries(OTHER).collect(), counts.kernel_ns);
        Summary { kernels, ranges, transfers, losses: self.losses, warnings: self.warnings, counts }
    }

    fn extend_span(&mut self, start_ns: i64, end_ns: i64) {
        let (start, end) = self.span.unwrap_or((start_ns, end_ns));
        self.span = Some((start.min(start_ns), end.max(end_ns)));
    }
}

impl Summary {
    /// The summary as text for a terminal of this width; below 40 it is taken as 40.
    #[must_use]
    pub fn render(&self, width: usize, symbols: Symbols) -> String {
        render::render(self, width, symbols)
    }
}

/// As wide as the terminal of standard output, or `COLUMNS`, or 100; with `µ` and `…` only on a terminal.
impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (width, symbols) = render::of_stdout();
        f.write_str(&self.render(width, symbols))
    }
}

impl KernelSummary {
    /// Of what was summed up; `kernel_ns` is the time of all kernels.
    pub(crate) fn new(
        name: Arc<str>,
        calls: u64,
        total_ns: i64,
        (min_ns, max_ns): (i64, i64),
        kernel_ns: i64,
    ) -> Self {
        let mean_ns = ratio(total_ns, calls.max(1));
        Self { name, calls, total_ns, mean_ns, min_ns, max_ns, share: share(total_ns, kernel_ns) }
    }
}

impl TransferSummary {
    /// Of what was summed up; `transfer_ns` is the time of all transfers.
    pub(crate) fn new(kind: Arc<str>, calls: u64, bytes: u64, total_ns: i64, transfer_ns: i64) -> Self {
        // CAST: a ratio for people
        let bandwidth_bytes_per_s = (total_ns > 0).then(|| bytes as f64 * 1e9 / total_ns as f64);
        Self { kind, calls, bytes, total_ns, share: share(total_ns, transfer_ns), bandwidth_bytes_per_s }
    }
}

/// The longest total first.
pub(crate) fn sort_kernels(kernels: &mut [KernelSummary]) {
    kernels.sort_by(|a, b| b.total_ns.cmp(&a.total_ns).then_with(|| a.name.cmp(&b.name)));
}

/// The longest total first.
pub(crate) fn sort_transfers(transfers: &mut [TransferSummary]) {
    transfers.sort_by(|a, b| b.total_ns.cmp(&a.total_ns).then_with(|| a.kind.cmp(&b.kind)));
}

fn ratio(part: i64, whole: u64) -> f64 {
    part as f64 / whole as f64 // CAST: for people
}

/// A part of a whole, of 1; 0 of nothing.
pub(crate) fn share(part: i64, whole: i64) -> f64 {
    if whole > 0 { part as f64 / whole as f64 } else { 0.0 } // CAST: for people
}

/// Puts ranges below the ranges around them.
fn tree(ranges: Vec<(Arc<str>, RangeSums)>, kernel_ns: i64) -> Vec<RangeSummary> {
    // A name may hold a `/` itself, so that only the end of a path tells its parent.
    let parent = |path: &str, name: &str| path.strip_suffix(name)?.strip_suffix('/').map(str::to_owned);
    let mut children: FxHashMap<Option<String>, Vec<usize>> = FxHashMap::default();
    let known: FxHashSet<&str> = ranges.iter().map(|(path, _)| &**path).collect();
    for (i, (path, sums)) in ranges.iter().enumerate() {
        let parent =
            parent(path, &sums.name).filter(|parent| known.contains(parent.as_str()) && **parent != **path);
        children.entry(parent).or_default().push(i);
    }
    for siblings in children.values_mut() {
        // Process-wide ranges last, then by time. Reversed, to be taken from the end.
        siblings.sort_by(|a, b| {
            let key = |i: &usize| (ranges[*i].1.kind == "process", -ranges[*i].1.gpu_time_ns, &ranges[*i].0);
            key(b).cmp(&key(a))
        });
    }

    let mut ordered = Vec::with_capacity(ranges.len());
    let mut open = vec![children.remove(&None).unwrap_or_default()];
    while let Some(siblings) = open.last_mut() {
        let Some(i) = siblings.pop() else {
            open.pop();
            continue;
        };
        let (path, sums) = &ranges[i];
        let depth = open.len() - 1;
        ordered.push(RangeSummary {
            path: path.clone(),
            name: if depth == 0 { path.clone() } else { sums.name.clone() },
            depth,
            kind: sums.kind,
            calls: sums.calls,
            launches: sums.launches,
            gpu_time_ns: sums.gpu_time_ns,
            share: share(sums.gpu_time_ns, kernel_ns),
            span_ns: sums.span_ns,
        });
        open.push(children.remove(&Some(path.to_string())).unwrap_or_default());
    }
    ordered
}

/// Values by a shared text: found by its address first, since that is how nearly all rows repeat it.
struct ByText<V> {
    by_address: FxHashMap<usize, usize>,
    /// Keeps the texts of `by_address`, so that no address is reused.
    held: Vec<Arc<str>>,
    by_text: FxHashMap<Arc<str>, usize>,
    values: Vec<V>,
    other: Option<V>,
}

impl<V> Default for ByText<V> {
    fn default() -> Self {
        Self {
            by_address: FxHashMap::default(),
            held: Vec::new(),
            by_text: FxHashMap::default(),
            values: Vec::new(),
            other: None,
        }
    }
}

/// Addresses that are remembered; then they are collected afresh.
const MAX_ADDRESSES: usize = 20_000;

impl<V> ByText<V> {
    /// The value of a text; beyond `limit` texts, the value of all others.
    fn entry(&mut self, text: &Arc<str>, limit: usize, make: impl FnOnce() -> V) -> &mut V {
        let address = text.as_ptr() as usize;
        let index = match self.by_address.get(&address) {
            Some(index) => *index,
            None => {
                let index = match self.by_text.get(text) {
                    Some(index) => *index,
                    None if self.values.len() >= limit => return self.other.get_or_insert_with(make),
                    None => {
                        self.values.push(make());
                        self.by_text.insert(text.clone(), self.values.len() - 1);
                        self.values.len() - 1
                    }
                };
                if self.held.len() >= MAX_ADDRESSES {
                    self.by_address.clear();
                    self.held.clear();
                }
                self.by_address.insert(address, index);
                self.held.push(text.clone());
                index
            }
        };
        &mut self.values[index]
    }

    fn into_entries(self, other: &str) -> impl Iterator<Item = (Arc<str>, V)> {
        let mut texts: Vec<(Arc<str>, usize)> = self.by_text.into_iter().collect();
        texts.sort_unstable_by_key(|(_, index)| *index);
        let other = self.other.map(|value| (Arc::from(other), value));
        texts.into_iter().map(|(text, _)| text).zip(self.values).chain(other)
    }
}
