//! What the samples tell, by configuration, annotation, and metric.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::report::{Aggregate, Normalised, RunSample};
use crate::stats::{self, Sample, StopReason};

/// The values of each run and repeat.
type OfRuns = FxHashMap<(Option<usize>, usize), f64>;

/// The aggregates of samples: by configuration, then by annotation in the order in which they come first, kernels after
/// their annotation. `tick` is the resolution of times in nanoseconds; `stopped` tells why no more runs of a configuration
/// were made. The same samples give the same aggregates, whether they were just measured or read from files.
pub(super) fn of(
    samples: &[RunSample],
    tick: f64,
    baseline: Option<&str>,
    stopped: impl Fn(usize) -> Option<StopReason>,
) -> Vec<Aggregate> {
    let mut groups: Vec<Vec<&RunSample>> = Vec::new();
    let mut places = FxHashMap::default();
    for sample in samples {
        let key = (sample.config_index, &sample.annotation, &sample.kernel, &sample.metric);
        let place = *places.entry(key).or_insert_with(|| {
            groups.push(Vec::new());
            groups.len() - 1
        });
        groups[place].push(sample);
    }
    let mut firsts = FxHashMap::default();
    for (place, sample) in samples.iter().enumerate() {
        firsts.entry((sample.config_index, &sample.annotation)).or_insert(place);
    }
    let rank = |sample: &RunSample| {
        let first = firsts.get(&(sample.config_index, &sample.annotation)).copied();
        (sample.config_index, first, sample.kernel.is_some())
    };
    let bases = baseline.map(|baseline| Bases::of(baseline, samples));
    let mut ranked: Vec<_> = groups.into_iter().map(|group| (rank(group[0]), group)).collect();
    ranked.sort_by_key(|(rank, _)| *rank);
    let aggregates = ranked.into_iter().filter_map(|(_, group)| {
        let first = group[0];
        let values: Vec<f64> = group.iter().filter_map(|sample| sample.value).collect();
        let tick = if &*first.unit == "ns" { tick } else { 0.0 };
        let sample = Sample::new(values).ok()?;
        let bases = bases.as_ref().filter(|_| first.kernel.is_none());
        Some(Aggregate {
            config_index: first.config_index,
            annotation: Arc::clone(&first.annotation),
            kernel: first.kernel.clone(),
            metric: Arc::clone(&first.metric),
            unit: Arc::clone(&first.unit),
            runs: group.len(),
            told: stats::describe(&sample, tick),
            achieved: stats::achieved_precision(&sample, tick),
            stop_reason: stopped(first.config_index).filter(|_| first.order.is_some()),
            normalised: bases.and_then(|bases| bases.compare(&group)),
        })
    });
    aggregates.collect()
}

/// Flags the values that lie far from the bulk of those of the same metric, annotation, kernel and configuration.
pub(super) fn flag_outliers(samples: &mut [RunSample]) {
    let key = |sample: &RunSample| {
        let RunSample { config_index, annotation, kernel, metric, .. } = sample;
        (*config_index, Arc::clone(annotation), kernel.clone(), Arc::clone(metric))
    };
    let mut groups: FxHashMap<_, Vec<f64>> = FxHashMap::default();
    for sample in samples.iter() {
        groups.entry(key(sample)).or_default().extend(sample.value);
    }
    let groups: FxHashMap<_, Sample> =
        groups.into_iter().filter_map(|(key, values)| Some((key, Sample::new(values).ok()?))).collect();
    for sample in samples {
        let group = groups.get(&key(sample));
        sample.outlier = group.zip(sample.value).and_then(|(group, value)| group.outlier(value));
    }
}

/// The values of the annotation that others are compared with: by configuration and metric, of each run.
struct Bases<'a> {
    baseline: &'a str,
    values: FxHashMap<(usize, &'a str), OfRuns>,
}

impl<'a> Bases<'a> {
    fn of(baseline: &'a str, samples: &'a [RunSample]) -> Self {
        let mut values: FxHashMap<_, OfRuns> = FxHashMap::default();
        for sample in
            samples.iter().filter(|sample| &*sample.annotation == baseline && sample.kernel.is_none())
        {
            if let Some(value) = sample.value {
                let of_runs = values.entry((sample.config_index, &*sample.metric)).or_default();
                of_runs.insert((sample.run, sample.repeat), value);
            }
        }
        Self { baseline, values }
    }

    /// The group's values over those of the baseline, from pairs of the same run. Counters pair by their countings;
    /// a single one has no interval.
    fn compare(&self, group: &[&RunSample]) -> Option<Normalised> {
        let first = group[0];
        let bases = self.values.get(&(first.config_index, &*first.metric))?;
        let pairs = group
            .iter()
            .filter_map(|sample| Some((*bases.get(&(sample.run, sample.repeat))?, sample.value?)));
        let pairs: Vec<(f64, f64)> = pairs.filter(|(base, value)| *base > 0.0 && *value > 0.0).collect();
        if pairs.is_empty() {
            return None;
        }
        let comparison = stats::paired(&pairs).ok()?;
        let means: Vec<f64> = bases.values().copied().collect();
        Some(Normalised {
            baseline: self.baseline.to_owned(),
            ratio: comparison.log_ratio.exp(),
            interval: comparison.ratio_interval(),
            pairs: pairs.len(),
            comparison,
            baseline_mean: Sample::new(means).ok()?.mean()?,
        })
    }
}
