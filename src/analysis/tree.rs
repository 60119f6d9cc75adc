//! Ranges in their tree, with the time that is their own and the time of all inside.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::summary::share;

/// All instances of one range path.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RangeTime {
    /// Names of the ranges around it and its own, joined by `/`.
    pub path: Arc<str>,
    /// Its own name; the whole path where the range around it is not among these.
    pub name: Arc<str>,
    /// How many ranges around it are among these.
    pub depth: usize,
    /// `stack`, `process` or `own`; empty where only its launches are known. Process-wide ranges overlap all others.
    pub kind: Arc<str>,
    /// Instances. A filter of devices, streams or kernels does not apply.
    pub calls: u64,
    /// Those of them that were still open at the end.
    pub open_calls: u64,
    /// Time that they were open on the host, summed up.
    pub host_ns: i64,
    /// Kernels launched inside, nested ranges included.
    pub launches: u64,
    /// Sum of their durations.
    pub gpu_time_ns: i64,
    /// Kernels launched inside and in no nested range.
    pub own_launches: u64,
    /// Sum of their durations: what is left of `gpu_time_ns` without nested ranges. None for process-wide ranges, which
    /// nest nothing.
    pub own_gpu_time_ns: Option<i64>,
    /// Part of the time of all kernels.
    pub share: f64,
    /// From the first start to the last end of the kernels of one instance, summed up; none where launches were
    /// filtered.
    pub span_ns: Option<i64>,
}

/// What was launched in ranges of a path, and in no nested one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Own {
    pub launches: u64,
    pub gpu_ns: i64,
}

impl Own {
    pub fn add(&mut self, duration_ns: i64) {
        self.merge(Self { launches: 1, gpu_ns: duration_ns });
    }

    pub fn merge(&mut self, other: Self) {
        self.launches = self.launches.saturating_add(other.launches);
        self.gpu_ns = self.gpu_ns.saturating_add(other.gpu_ns);
    }
}

/// What the rows of ranges say of a path.
#[derive(Clone, Debug)]
pub(super) struct Instances {
    name: Arc<str>,
    kind: Arc<str>,
    pub calls: u64,
    pub open_calls: u64,
    pub host_ns: i64,
    pub launches: u64,
    pub gpu_ns: i64,
    pub span_ns: i64,
}

impl Instances {
    pub fn new(name: Arc<str>, kind: Arc<str>) -> Self {
        Self { name, kind, calls: 0, open_calls: 0, host_ns: 0, launches: 0, gpu_ns: 0, span_ns: 0 }
    }

    pub fn merge(&mut self, other: &Self) {
        // Threads meet rows in no certain order.
        if (&other.name, &other.kind) < (&self.name, &self.kind) {
            (self.name, self.kind) = (Arc::clone(&other.name), Arc::clone(&other.kind));
        }
        self.calls += other.calls;
        self.open_calls += other.open_calls;
        self.host_ns = self.host_ns.saturating_add(other.host_ns);
        self.launches = self.launches.saturating_add(other.launches);
        self.gpu_ns = self.gpu_ns.saturating_add(other.gpu_ns);
        self.span_ns = self.span_ns.saturating_add(other.span_ns);
    }
}

/// Whether a range is process-wide, and its path: both kinds may have the same one, and are not the same.
pub(super) type Key = (bool, Arc<str>);

/// Puts ranges below the ranges around them. Times of nested ranges are summed up from the launches, so that they are
/// right where rows of ranges are missing, or launches were filtered; those of process-wide ranges are the rows'.
pub(super) fn tree(
    mut instances: BTreeMap<Key, Instances>,
    own: BTreeMap<Arc<str>, Own>,
    kernel_ns: i64,
    is_all: bool,
) -> Vec<RangeTime> {
    // Of a killed process, launches can be there without the rows of their ranges.
    for path in own.keys() {
        let unknown = || Instances::new(Arc::clone(path), "".into());
        instances.entry((false, Arc::clone(path))).or_insert_with(unknown);
    }
    let nodes: Vec<(Key, Instances)> = instances.into_iter().collect();
    let at = |path: &str| {
        nodes.binary_search_by(|((process, known), _)| (*process, &**known).cmp(&(false, path))).ok()
    };
    // A name may hold a `/` itself, so that only the end of a path tells its parent.
    let parent_of = |((process, path), range): &(Key, Instances)| {
        let parent = path.strip_suffix(&*range.name)?.strip_suffix('/')?;
        if *process { None } else { at(parent) }
    };
    let parents: Vec<Option<usize>> = nodes.iter().map(parent_of).collect();
    let owns: Vec<Own> = nodes
        .iter()
        .map(|((process, path), _)| own.get(path).filter(|_| !process).copied().unwrap_or_default())
        .collect();

    // Parents have shorter paths than their children.
    let mut by_length: Vec<usize> = (0..nodes.len()).collect();
    by_length.sort_by_key(|node| Reverse(nodes[*node].0.1.len()));
    let mut sums = owns.clone();
    for node in by_length {
        if let Some(parent) = parents[node] {
            let sum = sums[node];
            sums[parent].merge(sum);
        }
    }
    for (sum, ((process, _), range)) in sums.iter_mut().zip(&nodes) {
        if *process {
            *sum = Own { launches: range.launches, gpu_ns: range.gpu_ns };
        }
    }

    let mut children: Vec<Vec<usize>> = vec![Vec::new(); nodes.len()];
    let mut roots = Vec::new();
    for (node, parent) in parents.iter().enumerate() {
        match parent {
            Some(parent) => children[*parent].push(node),
            None => roots.push(node),
        }
    }
    // Process-wide ranges last, then by time. Reversed, to be taken from the end.
    let sort = |siblings: &mut Vec<usize>| {
        siblings.sort_by_key(|node| {
            let (process, path) = &nodes[*node].0;
            Reverse((*process, Reverse(sums[*node].gpu_ns), path))
        });
    };
    sort(&mut roots);
    children.iter_mut().for_each(sort);

    let mut ordered = Vec::with_capacity(nodes.len());
    let mut open = vec![roots];
    while let Some(siblings) = open.last_mut() {
        let Some(node) = siblings.pop() else {
            open.pop();
            continue;
        };
        let depth = open.len() - 1;
        let ((process, path), range) = &nodes[node];
        ordered.push(RangeTime {
            path: Arc::clone(path),
            name: if depth == 0 { Arc::clone(path) } else { Arc::clone(&range.name) },
            depth,
            kind: Arc::clone(&range.kind),
            calls: range.calls,
            open_calls: range.open_calls,
            host_ns: range.host_ns,
            launches: sums[node].launches,
            gpu_time_ns: sums[node].gpu_ns,
            own_launches: owns[node].launches,
            own_gpu_time_ns: (!process).then_some(owns[node].gpu_ns),
            share: share(sums[node].gpu_ns, kernel_ns),
            span_ns: is_all.then_some(range.span_ns),
        });
        open.push(std::mem::take(&mut children[node]));
    }
    ordered
}
