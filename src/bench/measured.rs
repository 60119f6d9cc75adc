//! What one use of an annotation took.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::kernels::KernelFilter;
use super::rig::{Gate, Kernel};

/// The measured values of one sample, for what is derived from them.
#[derive(Clone, Copy, Debug)]
pub struct Measured<'a> {
    pub(super) annotation: &'a str,
    pub(super) times: &'a Times,
    pub(super) gate: &'a Gate,
    pub(super) counts: &'a BTreeMap<String, f64>,
}

impl Measured<'_> {
    /// The annotation.
    #[must_use]
    pub fn annotation(&self) -> &str {
        self.annotation
    }

    /// The sum of the durations of its kernels, in nanoseconds.
    #[must_use]
    pub fn duration_ns(&self) -> f64 {
        self.times.sum_ns as f64 // CAST: exact below 2^53 ns, which are 104 days
    }

    /// From the first start to the last end of its kernels, in nanoseconds. Not a number where launches should have been
    /// held back ([`Bench::launch_ahead`](super::Bench::launch_ahead)) and were not.
    #[must_use]
    pub fn span_ns(&self) -> f64 {
        match self.gate {
            Gate::Broken(_) => f64::NAN,
            Gate::None | Gate::Held => self.times.span_ns as f64, // CAST: as above
        }
    }

    /// How many kernels ran.
    #[must_use]
    pub fn launches(&self) -> usize {
        self.times.launches
    }

    /// A counted metric of this configuration and annotation; none where it has no value.
    #[must_use]
    pub fn value(&self, metric: &str) -> Option<f64> {
        self.counts.get(metric).copied()
    }
}

/// How the kernels of an annotation came to the GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LaunchMode {
    /// As they were launched, one after the other.
    Stream,
    /// All together, behind a kernel that waited until the last one was launched
    /// ([`Bench::launch_ahead`](super::Bench::launch_ahead)).
    Blocked,
    /// All or some as nodes of a graph, which the GPU launches itself.
    Graph,
    /// Each after the end of the one before, unchanged ([`Bench::serialize_kernels`](super::Bench::serialize_kernels)).
    Serialized,
}

impl LaunchMode {
    pub(super) const ALL: [Self; 4] = [Self::Stream, Self::Blocked, Self::Graph, Self::Serialized];

    /// In one word, as tables have it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stream => "stream",
            Self::Blocked => "blocked",
            Self::Graph => "graph",
            Self::Serialized => "serialized",
        }
    }
}

/// The times of the kernels of one use of an annotation.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Times {
    /// Σ(end − start).
    pub sum_ns: i64,
    /// max(end) − min(start).
    pub span_ns: i64,
    /// In which at least one ran.
    pub busy_ns: i64,
    pub launches: usize,
    /// Whether one of them was a node of a graph.
    pub in_graph: bool,
    /// Name, sum and number of each kernel, in the order of their first start.
    pub kernels: Vec<(Arc<str>, i64, usize)>,
}

impl Times {
    /// Of these kernels, as far as they count; or why there are none.
    pub fn of(kernels: &[&Kernel], filter: &KernelFilter) -> Result<Self, &'static str> {
        if kernels.is_empty() {
            return Err("no_kernel");
        }
        let mut taken: Vec<&Kernel> =
            kernels.iter().copied().filter(|kernel| filter.takes(&kernel.name)).collect();
        if taken.is_empty() {
            return Err("no_selected_kernel");
        }
        if let Some(reason) = taken.iter().find_map(|kernel| kernel.invalid) {
            return Err(reason);
        }
        taken.sort_by_key(|kernel| (kernel.start_ns, kernel.end_ns));
        let mut times = Self { launches: taken.len(), ..Self::default() };
        let (first, mut last) = (taken[0].start_ns, i64::MIN);
        for kernel in taken {
            let duration = kernel.end_ns - kernel.start_ns;
            times.sum_ns += duration;
            times.busy_ns += (kernel.end_ns - kernel.start_ns.max(last)).max(0);
            last = last.max(kernel.end_ns);
            times.in_graph |= kernel.in_graph;
            match times.kernels.iter_mut().find(|(name, ..)| *name == kernel.name.demangled) {
                Some((_, sum, count)) => {
                    *sum += duration;
                    *count += 1;
                }
                None => times.kernels.push((Arc::clone(&kernel.name.demangled), duration, 1)),
            }
        }
        times.span_ns = last - first;
        Ok(times)
    }

    /// How its kernels came to the GPU.
    pub fn launch_mode(&self, gate: &Gate) -> LaunchMode {
        match gate {
            Gate::Held => LaunchMode::Blocked,
            _ if self.in_graph => LaunchMode::Graph,
            Gate::None | Gate::Broken(_) => LaunchMode::Stream,
        }
    }
}

/// How values of one metric of several parts become that of the whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rollup {
    Sum,
    Max,
    Min,
    /// Weighted by how long each part took.
    Mean,
}

/// Combines values of a metric of several uses of an annotation in one run, each with how long it took, by the
/// metric's own rule: sums add up; of largest and smallest values the largest and smallest; averages and percentages are
/// averaged by time. None without values.
pub(super) fn combined(metric: &str, parts: &[(f64, f64)]) -> Option<f64> {
    let (first, _) = parts.first()?;
    let suffixes: Vec<&str> = metric.split('.').skip(1).collect();
    // A rate or a percentage of a sum is an average all the same.
    let rollup = match suffixes.as_slice() {
        ["sum"] => Rollup::Sum,
        ["max"] => Rollup::Max,
        ["min"] => Rollup::Min,
        _ => Rollup::Mean,
    };
    let values = parts.iter().map(|(value, _)| *value);
    Some(match rollup {
        Rollup::Sum => values.sum(),
        Rollup::Max => values.fold(*first, f64::max),
        Rollup::Min => values.fold(*first, f64::min),
        Rollup::Mean => {
            let weight: f64 = parts.iter().map(|(_, weight)| weight).sum();
            if weight > 0.0 {
                parts.iter().map(|(value, weight)| value * weight).sum::<f64>() / weight
            } else {
                values.sum::<f64>() / parts.len() as f64
            }
        }
    })
}
