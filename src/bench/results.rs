//! From runs and kernels to samples and what they tell.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::aggregates;
use super::builder::{BUSY, Bench, DURATION, SPAN};
use super::collectors::{Collector, Note, Notes};
use super::columns::Columns;
use super::compat;
use super::engine::{Made, Timed};
use super::facts::{BASELINE, CACHE_STATE, CLOCK_MODE, NAME, STABLE_BELOW, TICK, TIMES};
use super::measured::{LaunchMode, Measured, Times, combined};
use super::report::{Aggregate, Report, RunSample, signed};
use super::rig::{Gate, Rig};
use super::text::in_line;
use super::value::{Config, Value};
use crate::control::RunConditions;
use crate::names::StringPool;
use crate::stats::{DEFAULT_MARGIN, tick_ns};
use crate::table::rows::MetricRow;
use crate::units::process_run;

/// What counters gave for a configuration, all passes together.
#[derive(Debug)]
pub(super) struct CountedRun {
    pub config_index: usize,
    /// Which counting of it, from 0.
    pub number: usize,
    pub start_ns: i64,
    pub conditions: Option<RunConditions>,
    pub metrics: Vec<Counted>,
}

/// A counted metric of one use of an annotation.
#[derive(Debug)]
pub(super) struct Counted {
    pub annotation: String,
    pub repeat: usize,
    pub row: MetricRow,
}

/// Everything that a report is made from.
pub(super) struct Results<'a, C> {
    pub bench: &'a Bench<C>,
    pub parameters: Vec<String>,
    pub timed: &'a Timed,
    pub counted: &'a [CountedRun],
    pub counters: &'a [String],
}

/// Metrics of an annotation, as they were counted once.
type Counts = BTreeMap<String, f64>;

/// The values of each metric, with their weights.
type Parts<'a> = BTreeMap<&'a str, Vec<(f64, f64)>>;

impl<C: Config> Results<'_, C> {
    pub fn report(self, collectors: &[Collector<C>], rig: &dyn Rig) -> Report {
        let (bench, timed, counted) = (self.bench, self.timed, self.counted);
        let mut texts = StringPool::default();
        let mut samples = Vec::new();
        let mut durations = Vec::new();
        for (order, run) in timed.runs.iter().enumerate() {
            for place in 0..run.instances.len() {
                self.of_instance(rig, order, run, place, &mut texts, &mut samples);
            }
        }
        for sample in samples.iter().filter(|sample| &*sample.metric == DURATION) {
            durations.extend(sample.value.map(|ns| ns as i64)); // CAST: was an integer
        }
        let tick = tick_ns(&durations);
        self.of_counters(&mut texts, &mut samples);
        // What is derived comes after what it is derived from.
        self.derived(rig, &mut texts, &mut samples);
        let mut warnings = timed.warnings.clone();
        let baseline = bench.baseline.as_deref();
        let aggregates = aggregates::of(&samples, tick, baseline, |config| timed.stopped[config]);
        warnings.extend(rig.not_in_force());
        self.warn(&samples, &aggregates, collectors, &mut warnings);
        aggregates::flag_outliers(&mut samples);
        let configs = bench.configs.iter().map(|config| self.values_of(config));
        let notes = self.notes(collectors);
        let mut report = Report {
            name: bench.name.clone(),
            configs: configs.collect(),
            samples,
            aggregates,
            counted: Vec::new(),
            compat: Columns::default(),
            notes: notes.iter().flat_map(Notes::facts).collect(),
            losses: timed.losses.clone(),
            warnings,
            facts: self.facts(tick, rig),
            stable_below: bench.stable_below,
            cache_state: rig.cache_state().to_owned(),
            clock_mode: rig.clock_mode(),
            parameters: self.parameters,
            baseline: bench.baseline.clone(),
        };
        report.counted = counted.iter().flat_map(|run| rows_of(&report, run, &mut texts)).collect();
        report.compat = compat::table(&report, &notes);
        report
    }

    /// The parameters of a configuration, in the report's order; none where it lacks one.
    fn values_of(&self, config: &C) -> Vec<Option<Value>> {
        let mut own = config.parameters();
        if self.bench.parameters.is_some() {
            return own.into_iter().map(|(_, value)| Some(value)).collect();
        }
        let take = |name: &String| Some(own.remove(own.iter().position(|(own, _)| own == name)?).1);
        self.parameters.iter().map(take).collect()
    }

    /// The samples of one use of an annotation: its times, and the time of each of its kernels.
    fn of_instance(
        &self,
        rig: &dyn Rig,
        order: usize,
        run: &Made,
        place: usize,
        texts: &mut StringPool,
        samples: &mut Vec<RunSample>,
    ) {
        let instance = &run.instances[place];
        let repeat = run.instances[..place].iter().filter(|other| other.name == instance.name).count();
        let times = self.times(run, place);
        let ns = |value: i64| value as f64; // CAST: exact below 104 days
        let base = RunSample {
            config_index: run.config,
            run: Some(run.number),
            order: Some(order),
            start_ns: run.start_ns,
            block: Some(run.block),
            annotation: texts.intern(&instance.name),
            range_id: rig.range_id(instance.region),
            repeat,
            kernel: None,
            metric: texts.intern(DURATION),
            unit: texts.intern("ns"),
            value: None,
            valid: times.is_ok(),
            invalid_reason: times.as_ref().err().map(|reason| texts.intern(reason)),
            outlier: None,
            launches: times.as_ref().map_or(0, |times| times.launches),
            launch_mode: times.as_ref().ok().map(|times| self.launch_mode(times, &instance.gate)),
            wall_ns: Some(run.wall_ns),
            conditions: run.conditions,
        };
        let times = times.ok();
        let values = times.as_ref().map(|times| [times.sum_ns, times.span_ns, times.busy_ns].map(ns));
        for (place, metric) in [DURATION, SPAN, BUSY].into_iter().enumerate() {
            let value = values.map(|values| values[place]);
            let mut sample = RunSample { metric: texts.intern(metric), value, ..base.clone() };
            // What was to be kept out of it, and only out of it, may be in it.
            if let (SPAN, Gate::Broken(cause), true) = (metric, &instance.gate, sample.valid) {
                let reason = Some(texts.intern(&format!("queue_broken: {cause}")));
                sample = RunSample { value: None, valid: false, invalid_reason: reason, ..sample };
            }
            samples.push(sample);
        }
        for (kernel, sum_ns, launches) in times.iter().flat_map(|times| &times.kernels) {
            let (kernel, launches) = (Some(Arc::clone(kernel)), *launches);
            samples.push(RunSample { kernel, launches, value: Some(ns(*sum_ns)), ..base.clone() });
        }
    }

    /// The times of one use of an annotation, or why they are none.
    fn launch_mode(&self, times: &Times, gate: &Gate) -> LaunchMode {
        if self.bench.serializes_kernels { LaunchMode::Serialized } else { times.launch_mode(gate) }
    }

    fn times(&self, run: &Made, place: usize) -> Result<Times, String> {
        let failure = run.instances[place].failure.as_ref().or(run.failure.as_ref());
        match failure {
            Some(failure) => Err(format!("failed: {failure}")),
            None => Times::of(&self.timed.kernels_of(run, place), &self.bench.kernels).map_err(str::to_owned),
        }
    }

    /// A sample for each counted metric; null where it could not be counted.
    fn of_counters(&self, texts: &mut StringPool, samples: &mut Vec<RunSample>) {
        if self.counters.is_empty() {
            return;
        }
        let runs = |config| (0..self.bench.counter_runs).map(move |number| (config, number));
        for (config_index, number) in (0..self.bench.configs.len()).flat_map(runs) {
            let is_it = |run: &&CountedRun| (run.config_index, run.number) == (config_index, number);
            let run = self.counted.iter().find(is_it);
            let base = RunSample {
                config_index,
                run: Some(number),
                order: None,
                start_ns: run.map_or(self.timed.counting_ns, |run| run.start_ns),
                block: None,
                annotation: Arc::default(),
                range_id: None,
                repeat: 0,
                kernel: None,
                metric: Arc::default(),
                unit: Arc::default(),
                value: None,
                valid: false,
                invalid_reason: None,
                outlier: None,
                launches: 0,
                launch_mode: None,
                wall_ns: None,
                conditions: run.and_then(|run| run.conditions),
            };
            if let Some(run) = run {
                // The time of a counted range has that between its kernels, and what counting takes: it is no duration.
                let counted = run.metrics.iter().filter(|counted| &*counted.row.metric != DURATION);
                let sample = |Counted { annotation, repeat, row }: &Counted| RunSample {
                    annotation: texts.intern(annotation),
                    repeat: *repeat,
                    metric: Arc::clone(&row.asked),
                    unit: Arc::clone(&row.unit),
                    value: row.value,
                    valid: row.value.is_some(),
                    invalid_reason: row.null_reason.clone(),
                    ..base.clone()
                };
                samples.extend(counted.map(sample));
                continue;
            }
            for annotation in self.annotations(config_index) {
                for metric in self.counters {
                    samples.push(RunSample {
                        annotation: texts.intern(&annotation),
                        metric: texts.intern(metric),
                        invalid_reason: Some(texts.intern("not_counted")),
                        ..base.clone()
                    });
                }
            }
        }
    }

    /// The annotations of a configuration, in the order in which they came first.
    fn annotations(&self, config: usize) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for run in self.timed.runs.iter().filter(|run| run.config == config) {
            for instance in &run.instances {
                if !names.contains(&instance.name) {
                    names.push(instance.name.clone());
                }
            }
        }
        names
    }

    fn derived(&self, rig: &dyn Rig, texts: &mut StringPool, samples: &mut Vec<RunSample>) {
        if self.bench.derived.is_empty() {
            return;
        }
        let counts = self.counts();
        let none = Counts::new();
        for (order, run) in self.timed.runs.iter().enumerate() {
            for (place, instance) in run.instances.iter().enumerate() {
                let times = self.times(run, place);
                let repeat =
                    run.instances[..place].iter().filter(|other| other.name == instance.name).count();
                let counts = counts.get(&(run.config, instance.name.as_str()));
                let counts = counts.map_or(&none, |countings| &countings[run.number % countings.len()]);
                for derived in &self.bench.derived {
                    let value = times.as_ref().ok().and_then(|times| {
                        let measured =
                            Measured { annotation: &instance.name, times, gate: &instance.gate, counts };
                        (derived.function)(&measured, &self.bench.configs[run.config])
                    });
                    let value = value.filter(|value| value.is_finite());
                    let reason = match &times {
                        Err(reason) => Some(reason.as_str()),
                        Ok(_) => value.is_none().then_some("not_a_number"),
                    };
                    samples.push(RunSample {
                        config_index: run.config,
                        run: Some(run.number),
                        order: Some(order),
                        start_ns: run.start_ns,
                        block: Some(run.block),
                        annotation: texts.intern(&instance.name),
                        range_id: rig.range_id(instance.region),
                        repeat,
                        kernel: None,
                        metric: texts.intern(&derived.name),
                        unit: texts.intern(&derived.unit),
                        value,
                        valid: value.is_some(),
                        invalid_reason: reason.map(|reason| texts.intern(reason)),
                        outlier: None,
                        launches: times.as_ref().map_or(0, |times| times.launches),
                        launch_mode: times.as_ref().ok().map(|times| self.launch_mode(times, &instance.gate)),
                        wall_ns: Some(run.wall_ns),
                        conditions: run.conditions,
                    });
                }
            }
        }
    }

    /// The metrics of each annotation, from each counting that has it; of one that is used several times in a run, all of
    /// them together.
    fn counts(&self) -> BTreeMap<(usize, &str), Vec<Counts>> {
        let weights = self.weights();
        let mut counts: BTreeMap<(usize, &str), Vec<Counts>> = BTreeMap::new();
        for CountedRun { config_index, metrics, .. } in self.counted {
            let mut parts: BTreeMap<(usize, &str), Parts<'_>> = BTreeMap::new();
            for Counted { annotation, repeat, row } in metrics {
                let of_annotation = parts.entry((*config_index, annotation.as_str())).or_default();
                let weight = weights.get(&(*config_index, annotation.as_str(), *repeat)).copied();
                if let Some(value) = row.value {
                    of_annotation.entry(&row.asked).or_default().push((value, weight.unwrap_or(0.0)));
                }
            }
            for (key, metrics) in parts {
                let whole = metrics
                    .into_iter()
                    .filter_map(|(metric, parts)| Some((metric.to_owned(), combined(metric, &parts)?)));
                counts.entry(key).or_default().push(whole.collect());
            }
        }
        counts
    }

    /// How long each use of an annotation takes, all valid runs together: they are equally many for each use.
    fn weights(&self) -> BTreeMap<(usize, &str, usize), f64> {
        let mut weights = BTreeMap::new();
        for run in &self.timed.runs {
            for (place, instance) in run.instances.iter().enumerate() {
                let before = &run.instances[..place];
                let repeat = before.iter().filter(|other| other.name == instance.name).count();
                if let Ok(times) = self.times(run, place) {
                    let weight = weights.entry((run.config, instance.name.as_str(), repeat)).or_insert(0.0);
                    *weight += times.sum_ns as f64; // CAST: exact below 104 days
                }
            }
        }
        weights
    }

    fn warn(
        &self,
        samples: &[RunSample],
        aggregates: &[Aggregate],
        collectors: &[Collector<C>],
        warnings: &mut Vec<String>,
    ) {
        let times = aggregates.iter().filter(|one| one.kernel.is_none() && &*one.metric == DURATION);
        for (of, drift) in times.filter_map(|one| Some((one, one.told.drift?))) {
            if drift.exceeds(DEFAULT_MARGIN) {
                warnings.push(format!(
                    "the time of {:?} in configuration {} changes by {:+.1} % over the last half of its runs: warm up \
                     longer, or look at clocks and heat",
                    of.annotation,
                    of.config_index,
                    drift.change_ratio * 100.0
                ));
            }
        }
        if let Some(baseline) = &self.bench.baseline {
            let is_compared = |config: &usize| {
                let mut its = aggregates.iter().filter(|aggregate| aggregate.config_index == *config);
                its.any(|aggregate| aggregate.normalised.is_some())
            };
            let without = (0..self.bench.configs.len()).filter(|config| !is_compared(config));
            let without = without.map(|config| config.to_string()).collect::<Vec<_>>().join(", ");
            if !without.is_empty() {
                warnings.push(format!(
                    "nothing to compare with: no valid {baseline:?} in configurations {without}"
                ));
            }
        }
        for collector in collectors {
            if let Some(failure) = &collector.failure {
                warnings.push(format!(
                    "the collector {:?} failed, its values are null: {failure}",
                    collector.name
                ));
            }
        }
        let mut numbers: BTreeMap<(usize, &str, usize), usize> = BTreeMap::new();
        let mut differing: Vec<(usize, &str)> = Vec::new();
        let mut invalid: BTreeMap<&str, usize> = BTreeMap::new();
        let whole = samples.iter().filter(|sample| &*sample.metric == DURATION && sample.kernel.is_none());
        for sample in whole {
            if let Some(reason) = sample.invalid_reason.as_deref() {
                *invalid.entry(reason).or_default() += 1;
            }
            let key = (sample.config_index, &*sample.annotation);
            let first = *numbers.entry((key.0, key.1, sample.repeat)).or_insert(sample.launches);
            if sample.valid && first != 0 && sample.launches != first && !differing.contains(&key) {
                differing.push(key);
            }
        }
        let mut broken: BTreeMap<&str, usize> = BTreeMap::new();
        let instances = self.timed.runs.iter().flat_map(|run| &run.instances);
        for cause in instances.filter_map(|instance| match &instance.gate {
            Gate::Broken(cause) => Some(cause.as_str()),
            Gate::None | Gate::Held => None,
        }) {
            *broken.entry(cause).or_default() += 1;
        }
        for (cause, times) in broken {
            warnings
                .push(format!("launches were not held back {times} times, which leaves no span: {cause}"));
        }
        if !invalid.is_empty() {
            let all: usize = invalid.values().sum();
            let mut why: Vec<_> = invalid.into_iter().collect();
            why.sort_by_key(|(_, times)| std::cmp::Reverse(*times));
            let why: Vec<_> =
                why.iter().take(3).map(|(why, times)| format!("{} ({times})", in_line(why))).collect();
            warnings.push(format!("{all} samples are not valid: {}", why.join(", ")));
        }
        let measured = |config: &usize| {
            self.timed.runs.iter().any(|run| run.config == *config && !run.instances.is_empty())
        };
        let without = (0..self.bench.configs.len())
            .filter(|config| self.timed.stopped[*config].is_some() && !measured(config));
        let without: Vec<_> = without.map(|config| config.to_string()).collect();
        if !without.is_empty() {
            warnings.push(format!(
                "nothing was measured in configurations {}: no annotation was used",
                without.join(", ")
            ));
        }
        for (config, annotation) in differing {
            warnings.push(format!(
                "runs of {annotation:?} in configuration {config} launched different numbers of kernels"
            ));
        }
        let throttled = |run: &&Made| run.conditions.is_some_and(|conditions| conditions.is_throttled());
        let throttled = self.timed.runs.iter().filter(throttled).count();
        if throttled > 0 {
            let all = self.timed.runs.len();
            warnings.push(format!("the GPU was slowed down by power or heat in {throttled} of {all} runs"));
        }
        warnings.extend(without_values(samples));
        if !self.counted.is_empty() && self.bench.counter_runs == 1 {
            warnings.push("counters are counted once in each configuration, and have no interval".to_owned());
        }
        if !self.bench.kernels.is_empty() && !self.counters.is_empty() {
            warnings.push(
                "counters count all kernels of an annotation, also those left out of its times".to_owned(),
            );
        }
    }

    fn notes(&self, collectors: &[Collector<C>]) -> Vec<Notes> {
        let timed = self.timed;
        let mut collected: Vec<Notes> = collectors
            .iter()
            .map(|collector| Notes {
                name: collector.name.clone(),
                scope: collector.scope,
                notes: Vec::new(),
            })
            .collect();
        let mut note =
            |values: &[(usize, Option<Value>)], config: Option<usize>, run, annotation: Option<&str>| {
                for (index, value) in values {
                    let annotation = annotation.map(str::to_owned);
                    collected[*index].notes.push(Note { config, run, annotation, value: value.clone() });
                }
            };
        note(&timed.once, None, None, None);
        for (config, values) in timed.of_configs.iter().enumerate() {
            note(values, Some(config), None, None);
        }
        for run in &timed.runs {
            note(&run.collected, Some(run.config), Some(run.number), None);
            for instance in &run.instances {
                note(&instance.collected, Some(run.config), Some(run.number), Some(&instance.name));
            }
        }
        collected
    }

    fn facts(&self, tick: f64, rig: &dyn Rig) -> Vec<(String, String)> {
        let bench = self.bench;
        let mut facts = vec![
            ("cuprof.version".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
            (NAME.to_owned(), bench.name.clone()),
            ("bench.stop_rule".to_owned(), format!("{:?}", bench.rule)),
            ("bench.order".to_owned(), format!("{:?}", bench.order)),
            (STABLE_BELOW.to_owned(), bench.stable_below.to_string()),
            ("bench.warm_up_runs".to_owned(), bench.warm_up.to_string()),
            (TICK.to_owned(), tick.to_string()),
            (TIMES.to_owned(), what_times_contain(bench.serializes_kernels).to_owned()),
            (CACHE_STATE.to_owned(), rig.cache_state().to_owned()),
            (CLOCK_MODE.to_owned(), rig.clock_mode()),
            ("process.run".to_owned(), process_run().to_owned()),
        ];
        if !self.counters.is_empty() {
            facts.push(("bench.counter_runs".to_owned(), bench.counter_runs.to_string()));
        }
        facts.extend(bench.input_fill.iter().map(|fill| ("bench.input_fill".to_owned(), fill.clone())));
        facts.extend(bench.baseline.clone().map(|baseline| (BASELINE.to_owned(), baseline)));
        facts.extend(rig.facts());
        facts
    }
}

/// Measured by stamps that kernels took of the GPU's own timer: `benches/results/bench-h200.md`.
fn what_times_contain(serialized: bool) -> &'static str {
    if serialized {
        "of kernels one by one and unchanged, with 2 us of launch overhead (H200)"
    } else {
        "of CUPTI's records, with its code in the kernels, without 1 us of launch overhead (H200)"
    }
}

/// Which metrics have no value anywhere, by why not. Times are told of otherwise, and so is what was not counted.
fn without_values(samples: &[RunSample]) -> Vec<String> {
    let mut reasons: BTreeMap<&str, Option<&str>> = BTreeMap::new();
    for sample in samples.iter().filter(|sample| ![DURATION, SPAN, BUSY].contains(&&*sample.metric)) {
        let reason = sample.invalid_reason.as_deref().filter(|_| !sample.valid);
        reasons.entry(&sample.metric).and_modify(|known| *known = known.and(reason)).or_insert(reason);
    }
    let mut metrics: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let told = ["not_on_chip", "not_a_number", "not_evaluated", "no_data"];
    for (metric, reason) in reasons {
        if let Some(reason) = reason.filter(|reason| told.contains(reason)) {
            metrics.entry(reason).or_default().push(metric);
        }
    }
    let told =
        |(reason, metrics): (_, Vec<_>)| format!("without any value, {reason}: {}", metrics.join(", "));
    metrics.into_iter().map(told).collect()
}

/// The rows of `metrics` from a counting.
fn rows_of(report: &Report, run: &CountedRun, texts: &mut StringPool) -> Vec<MetricRow> {
    let config = texts.intern(&report.config_text(run.config_index));
    let row = |counted: &Counted| MetricRow {
        config: Some(Arc::clone(&config)),
        config_index: Some(signed(run.config_index)),
        run: Some(signed(run.number)),
        ..counted.row.clone()
    };
    run.metrics.iter().map(row).collect()
}
