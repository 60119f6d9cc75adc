//! Rows of all tables in the order of time, with no more of them in memory than a window holds.
//!
//! Rows lie in their files nearly in that order, and ranges in the order of their ends: a range that was open all the
//! time comes last. So the times are cut into windows with about as many rows each, and for each window those row groups
//! are read that have rows in it. Mostly that is each row group twice.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::items::{Item, SOURCES, Source, Text, What, Words, items};
use super::tracks::Owner;
use crate::analysis::filter::Filter;
use crate::error::Result;
use crate::table::collection::{Collection, Progress};
use crate::table::columns::int64;
use crate::table::reader::Group;
use crate::table::schema::Table;

/// Rows of a window, about. Tests have many windows, and not many rows.
const WINDOW_ROWS: usize = if cfg!(test) { 1 << 12 } else { 1 << 18 };

/// Every so many rows, a time is kept to cut windows at.
const SAMPLE_ROWS: usize = 1 << 7;

/// A row group, and the times that its rows start at.
struct Extent {
    member: usize,
    group: Group,
    /// The place of its first row among all.
    first: u64,
    rows: u64,
    least_ns: i64,
    most_ns: i64,
    /// The first time that may be one.
    first_ns: i64,
}

/// The windows of datasets, and where their rows are.
pub(super) struct Windows<'a> {
    collection: &'a Collection,
    filter: &'a Filter,
    /// By table, in the order of [`SOURCES`].
    extents: Vec<(&'static Source, Vec<Extent>, Words)>,
    /// Where windows begin; the last is an end.
    cuts: Vec<i64>,
    next: usize,
    wanted: Wanted,
    /// All rows that are drawn.
    pub rows: u64,
    /// Rows that are left out, for want of valid times.
    pub left_out: u64,
    /// The first time; of no rows, the last that there is.
    pub start_ns: i64,
}

impl<'a> Windows<'a> {
    /// Looks at all times once.
    pub fn new(collection: &'a Collection, filter: &'a Filter) -> Result<Self> {
        let mut extents = Vec::new();
        let mut samples = Vec::new();
        let (mut rows, mut start_ns) = (0u64, i64::MAX);
        for (rank, source) in (0u64..).zip(&SOURCES) {
            if !is_drawn(source.table, filter) {
                continue;
            }
            let groups = collection.groups(source.table);
            let seen = collection.scan(
                source.table,
                &["start_ns"],
                &|_| {},
                Vec::new,
                |seen: &mut Vec<(usize, Extent, Vec<i64>)>, place, batch| {
                    let starts = int64(batch, 0)?.values();
                    if seen.last().is_none_or(|(group, ..)| *group != place.group) {
                        let Some((member, group)) = groups.get(place.group) else { return Ok(()) };
                        let (member, group) = (*member, *group);
                        let (least_ns, most_ns, first_ns) = (i64::MAX, i64::MIN, i64::MAX);
                        let extent = Extent { member, group, first: 0, rows: 0, least_ns, most_ns, first_ns };
                        seen.push((place.group, extent, Vec::new()));
                    }
                    let Some((_, extent, samples)) = seen.last_mut() else { return Ok(()) };
                    for start in starts {
                        extent.least_ns = extent.least_ns.min(*start);
                        extent.most_ns = extent.most_ns.max(*start);
                        // Without a valid time, it may be zero.
                        if *start > 0 {
                            extent.first_ns = extent.first_ns.min(*start);
                        }
                    }
                    extent.rows += starts.len() as u64;
                    samples.extend(starts.iter().step_by(SAMPLE_ROWS));
                    Ok(())
                },
            )?;
            let mut seen: Vec<_> = seen.into_iter().flatten().collect();
            seen.sort_by_key(|(group, ..)| *group);
            let mut first = rank << 56;
            let mut of_table = Vec::new();
            for (_, mut extent, sampled) in seen {
                extent.first = first;
                first += extent.rows;
                rows += extent.rows;
                start_ns = start_ns.min(extent.first_ns);
                samples.extend(sampled);
                of_table.push(extent);
            }
            extents.push((source, of_table, Words::default()));
        }
        samples.sort_unstable();
        let limits =
            filter.window(if filter.is_relative() { collection.start_ns()?.unwrap_or(0) } else { 0 })?;
        let mut cuts = vec![limits.0];
        cuts.extend(
            samples
                .into_iter()
                .step_by(WINDOW_ROWS / SAMPLE_ROWS)
                .filter(|cut| limits.0 < *cut && *cut < limits.1),
        );
        cuts.dedup();
        cuts.push(limits.1);
        Ok(Self {
            collection,
            filter,
            extents,
            cuts,
            next: 0,
            wanted: Wanted::default(),
            rows,
            left_out: 0,
            start_ns,
        })
    }

    /// The rows of the next window, in the order of time: the longer first where they start together.
    pub fn next(&mut self, progress: Progress<'_>) -> Option<Result<Vec<Item>>> {
        let window = (*self.cuts.get(self.next)?, *self.cuts.get(self.next + 1)?);
        self.next += 1;
        let mut found = Vec::new();
        let mut left_out = 0;
        for (source, extents, words) in &mut self.extents {
            for extent in
                extents.iter().filter(|extent| extent.least_ns < window.1 && window.0 <= extent.most_ns)
            {
                let dataset = &self.collection.members()[extent.member].dataset;
                let mut first = extent.first;
                for batch in dataset.scan(&extent.group, source.columns) {
                    let batch = match batch {
                        Ok(batch) => batch,
                        Err(error) => return Some(Err(error)),
                    };
                    match items(source, (extent.member, first), window, &batch, words, &mut found) {
                        Ok(without_times) => left_out += without_times,
                        Err(error) => return Some(Err(error)),
                    }
                    first += batch.num_rows() as u64;
                }
            }
        }
        self.left_out += left_out;
        found.retain(|item| self.wanted.wants(self.filter, item));
        found.sort_unstable_by_key(|item| (item.start_ns, std::cmp::Reverse(item.end_ns), item.order));
        progress(self.rows / (self.cuts.len() as u64 - 1) * self.next as u64, self.rows);
        Some(Ok(found))
    }
}

/// Whether the rows of a table can match a filter: what has no kernel, range, device or stream does not.
fn is_drawn(table: Table, filter: &Filter) -> bool {
    let Filter { kernel, range, devices, streams, .. } = filter;
    match table {
        Table::Launches => true,
        Table::Transfers => kernel.is_none(),
        Table::Ranges => kernel.is_none() && devices.is_empty() && streams.is_empty(),
        _ => kernel.is_none() && range.is_none() && devices.is_empty() && streams.is_empty(),
    }
}

/// Names that were matched before.
#[derive(Default)]
struct Wanted {
    kernels: FxHashMap<Arc<str>, bool>,
    paths: FxHashMap<Arc<str>, bool>,
}

impl Wanted {
    fn wants(&mut self, filter: &Filter, item: &Item) -> bool {
        let Self { kernels, paths } = self;
        let known = |map: &mut FxHashMap<Arc<str>, bool>, text: &Text, matches: &dyn Fn(&str) -> bool| {
            let Some(text) = text else { return false };
            *map.entry(Arc::clone(text)).or_insert_with(|| matches(text))
        };
        let path = match &item.what {
            What::Range(range) => &range.path,
            _ => item.work().map_or(&None, |work| &work.range_path),
        };
        let by_kernel = filter
            .kernel
            .as_ref()
            .is_none_or(|pattern| known(kernels, &item.name, &|name| pattern.matches(name)));
        let by_range = filter
            .range
            .as_ref()
            .is_none_or(|pattern| known(paths, path, &|path| pattern.matches_path(path)));
        let on_device = match &item.owner {
            Owner::Stream(_, device, _, stream) => filter.has_device(*device) && filter.has_stream(*stream),
            _ => true,
        };
        by_kernel && by_range && on_device
    }
}
