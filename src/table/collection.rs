//! Datasets that are looked at together.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow_array::RecordBatch;

use super::columns::{Texts, duration_ns, int64};
use super::files::is_untidy;
use super::reader::{Dataset, Group};
use super::rows::WARNING;
use super::schema::Table;
use crate::error::{Error, ErrorKind, Result};
use crate::losses::Cause;

/// One dataset, or several: of the processes of a job, or of runs that are summed up.
///
/// Opening reads the footers of all parts and the small tables `env` and `losses`.
#[derive(Debug)]
pub struct Collection {
    pub(crate) members: Vec<Member>,
    repeated: Vec<PathBuf>,
}

/// A dataset among others.
#[derive(Debug)]
#[non_exhaustive]
pub struct Member {
    /// Its folder.
    pub path: PathBuf,
    /// Its facts.
    pub facts: BTreeMap<String, String>,
    /// Its losses.
    pub losses: Vec<LostRows>,
    /// Whether it was closed, and is here as a whole.
    pub is_complete: bool,
    /// Whether [`recover`](crate::recover) has something to do there.
    pub is_untidy: bool,
    pub(crate) dataset: Dataset,
}

/// A cause of lost or unusable records, with its count.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LostRows {
    /// The cause, by its name.
    pub cause: Arc<str>,
    /// How many records it concerns.
    pub count: u64,
    /// The cause in words, and what helps.
    pub meaning: Arc<str>,
}

/// Told while something long is read: how many rows of how many.
pub type Progress<'a> = &'a (dyn Fn(u64, u64) + Sync);

impl Collection {
    /// Opens datasets. A folder that is none itself, and has folders named `*.cuprof`, stands for these. One that is named
    /// several times is read once.
    ///
    /// # Errors
    /// As [`Dataset::open`]; [`ErrorKind::Config`] where no folder is named.
    pub fn open<P: AsRef<Path>>(folders: impl IntoIterator<Item = P>) -> Result<Self> {
        let (mut members, mut repeated) = (Vec::new(), Vec::new());
        let mut known = BTreeSet::new();
        for folder in folders {
            for folder in datasets_in(folder.as_ref()) {
                // What is not there is for the reader to refuse.
                if folder.canonicalize().is_ok_and(|folder| !known.insert(folder)) {
                    repeated.push(folder);
                } else {
                    members.push(Member::open(folder)?);
                }
            }
        }
        if members.is_empty() {
            return Err(Error::new(ErrorKind::Config, "no dataset was named"));
        }
        Ok(Self { members, repeated })
    }

    /// The datasets.
    #[must_use]
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// What was named again, by the same path or another, and is read once.
    #[must_use]
    pub fn repeated(&self) -> &[PathBuf] {
        &self.repeated
    }

    /// The rows of a table in all of them.
    #[must_use]
    pub fn rows(&self, table: Table) -> u64 {
        self.members.iter().map(|member| member.dataset.rows(table)).sum()
    }

    /// All causes of loss, each with the sum of its counts, in the order in which this crate declares them.
    #[must_use]
    pub fn losses(&self) -> Vec<LostRows> {
        let mut sums: Vec<LostRows> = Vec::new();
        for lost in self.members.iter().flat_map(|member| &member.losses) {
            match sums.iter_mut().find(|sum| sum.cause == lost.cause) {
                Some(sum) => sum.count = sum.count.saturating_add(lost.count),
                None => sums.push(lost.clone()),
            }
        }
        let place = |lost: &LostRows| Cause::ALL.iter().position(|cause| cause.name() == &*lost.cause);
        sums.sort_by_key(|lost| (place(lost).unwrap_or(usize::MAX), Arc::clone(&lost.cause)));
        sums
    }

    /// Whether something is known to be missing: losses, a run that was not closed, parts that are not here.
    #[must_use]
    pub fn is_lossy(&self) -> bool {
        self.members.iter().any(|member| !member.is_complete || !member.losses.is_empty())
    }

    /// What is known to be missing, a sentence for each loss and each dataset that is not whole; empty unless
    /// [`is_lossy`](Self::is_lossy).
    #[must_use]
    pub fn missing(&self) -> Vec<String> {
        let lost = |lost: LostRows| format!("{} {}: {}", lost.count, lost.cause, lost.meaning);
        let unfinished = self.members.iter().filter_map(Member::unfinished);
        unfinished.chain(self.losses().into_iter().map(lost)).collect()
    }

    /// What else everybody should know of the runs, a sentence each.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let several = self.members.len() > 1;
        let mut warnings = Vec::new();
        for member in &self.members {
            let path = member.path.display();
            warnings.extend(member.unfinished());
            let facts = member.facts.iter().filter(|(key, _)| key.starts_with(WARNING));
            warnings.extend(facts.map(
                |(_, told)| {
                    if several { format!("{path}: {told}") } else { told.clone() }
                },
            ));
        }
        warnings
    }

    /// The row groups of a table, each with the number of its dataset.
    pub(crate) fn groups(&self, table: Table) -> Vec<(usize, Group)> {
        let of = |(number, member): (usize, &Member)| {
            member.dataset.groups(table).into_iter().map(move |group| (number, group))
        };
        self.members.iter().enumerate().flat_map(of).collect()
    }

    /// Reads columns of a table on all processors. Each thread makes a state for itself and is handed batches with the
    /// number of their row group, row groups in any order, the batches of one in theirs.
    ///
    /// # Errors
    /// The first in the order of the rows.
    pub(crate) fn scan<S: Send>(
        &self,
        table: Table,
        columns: &[&str],
        progress: &(dyn Fn(u64) + Sync),
        state: impl Fn() -> S + Sync,
        each: impl Fn(&mut S, Place, &RecordBatch) -> Result<()> + Sync,
    ) -> Result<Vec<S>> {
        let groups = self.groups(table);
        let next = AtomicUsize::new(0);
        let work = || -> Result<S, (usize, Error)> {
            let mut state = state();
            loop {
                let job = next.fetch_add(1, Ordering::Relaxed);
                let Some((member, group)) = groups.get(job) else { return Ok(state) };
                let place = Place { member: *member, group: job };
                let Some(found) = self.members.get(*member) else { return Ok(state) };
                for batch in found.dataset.scan(group, columns) {
                    let batch = batch.map_err(|error| (job, error))?;
                    each(&mut state, place, &batch).map_err(|error| (job, error))?;
                    progress(batch.num_rows() as u64);
                }
            }
        };
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS);
        let threads = threads.min(groups.len().max(1));
        let results: Vec<Result<S, (usize, Error)>> = std::thread::scope(|scope| {
            let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
            let own = work();
            let joined = others.into_iter().map(|other| {
                let panicked = |_| (usize::MAX, Error::new(ErrorKind::Call, "a reading thread panicked"));
                other.join().map_err(panicked).and_then(|result| result)
            });
            std::iter::once(own).chain(joined.collect::<Vec<_>>()).collect()
        });
        let mut states = Vec::new();
        let mut failed: Option<(usize, Error)> = None;
        for result in results {
            match result {
                Ok(state) => states.push(state),
                Err(error) if failed.as_ref().is_none_or(|(job, _)| error.0 < *job) => failed = Some(error),
                Err(_) => {}
            }
        }
        match failed {
            Some((_, error)) => Err(error),
            None => Ok(states),
        }
    }

    /// When the first record of the datasets begins: of kernels and transfers, the first with valid times.
    ///
    /// Reads those row groups alone that can have an earlier one, by the statistics in their files.
    pub(crate) fn start_ns(&self) -> Result<Option<i64>> {
        let mut first: Option<i64> = None;
        for (table, columns) in [
            (Table::Ranges, &["start_ns"][..]),
            (Table::Launches, &["start_ns", "duration_ns"][..]),
            (Table::Transfers, &["start_ns", "duration_ns"][..]),
            (Table::Samples, &["start_ns"][..]),
            (Table::Marks, &["start_ns"][..]),
            (Table::ApiCalls, &["start_ns"][..]),
            (Table::Overheads, &["start_ns"][..]),
            (Table::Synchronizations, &["start_ns"][..]),
            (Table::MemoryOperations, &["start_ns"][..]),
        ] {
            let bounded = |(member, group): (usize, Group)| {
                let dataset = &self.members[member].dataset;
                (dataset.lower_bound(&group, "start_ns"), dataset, group)
            };
            let mut groups: Vec<_> = self.groups(table).into_iter().map(bounded).collect();
            // Those without a bound come first.
            groups.sort_by_key(|(bound, ..)| *bound);
            for (bound, dataset, group) in groups {
                if first.zip(bound).is_some_and(|(first, bound)| first <= bound) {
                    break;
                }
                for batch in dataset.scan(&group, columns) {
                    let batch = batch?;
                    let starts = int64(&batch, 0)?;
                    let durations = if columns.len() > 1 { Some(int64(&batch, 1)?) } else { None };
                    for (row, start) in starts.values().iter().enumerate() {
                        // Without a valid time, it may be zero.
                        if *start > 0
                            && durations.is_none_or(|durations| duration_ns(durations, row).is_some())
                        {
                            first = Some(first.map_or(*start, |first| first.min(*start)));
                        }
                    }
                }
            }
        }
        Ok(first)
    }
}

/// More threads than this read no faster: they wait for memory.
const MAX_THREADS: usize = 16;

/// Where a batch is from.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    /// The dataset's number.
    pub member: usize,
    /// The row group's number among all of the table.
    pub group: usize,
}

impl Member {
    fn open(path: PathBuf) -> Result<Self> {
        let dataset = Dataset::open(&path)?;
        let facts = dataset.env()?;
        let is_complete = dataset.is_complete();
        let mut losses = Vec::new();
        for group in dataset.groups(Table::Losses) {
            for batch in dataset.scan(&group, &["cause", "count", "meaning"]) {
                let batch = batch?;
                let (mut causes, mut meanings) = (Texts::default(), Texts::default());
                let (cause, meaning) = (causes.of(&batch, 0)?, meanings.of(&batch, 2)?);
                let counts = int64(&batch, 1)?.values();
                for (row, count) in counts.iter().enumerate() {
                    let count = u64::try_from(*count).unwrap_or(0);
                    let lost = || Some((cause.get(row)?.clone()?, meaning.get(row)?.clone()?));
                    if let Some((cause, meaning)) = lost().filter(|_| count > 0) {
                        losses.push(LostRows { cause, count, meaning });
                    }
                }
            }
        }
        let is_untidy = is_untidy(&path);
        Ok(Self { path, facts, losses, is_complete, is_untidy, dataset })
    }

    /// What to say of one that is not whole.
    fn unfinished(&self) -> Option<String> {
        let what = "was not closed, or is not here as a whole: rows are missing, nobody knows how many";
        let advice = if self.is_untidy { "; `cuprof recover` tidies and tells" } else { "" };
        (!self.is_complete).then(|| format!("{} {what}{advice}", self.path.display()))
    }

    /// The name of a device, and what tells it from all others, where the facts have them.
    pub(crate) fn device(&self, ordinal: u32) -> (Option<&str>, Option<&str>) {
        let fact = |name: &str| self.facts.get(&format!("gpu.{ordinal}.{name}")).map(String::as_str);
        (fact("name"), fact("uuid"))
    }
}

/// The datasets that a path stands for.
fn datasets_in(folder: &Path) -> Vec<PathBuf> {
    let is_dataset = |path: &Path| path.is_dir() && path.extension().is_some_and(|end| end == "cuprof");
    let entries = || std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let has_parts = entries().any(|path| path.extension().is_some_and(|end| end == "parquet"));
    let mut inside: Vec<PathBuf> =
        if has_parts { Vec::new() } else { entries().filter(|path| is_dataset(path)).collect() };
    inside.sort();
    // What is no dataset is for the reader to refuse, in its words.
    if inside.is_empty() { vec![folder.to_owned()] } else { inside }
}
