//! Makes the runs.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

use rustc_hash::FxHashMap;

use super::builder::{Bench, DURATION, OnFailure};
use super::collectors::{Collector, Occasion, Scope};
use super::measured::Times;
use super::order::Schedule;
use super::progress::Progress;
use super::report::{BenchError, Report};
use super::results::{Counted, CountedRun, Results};
use super::rig::{Kernel, Opened, Region, Regions, Rig};
use super::run::{Instance, Purpose, Run, Timing};
use super::text::in_line;
use super::value::{Config, Outcome, Value};
use crate::control::RunConditions;
use crate::error::{Error, ErrorKind, Result};
use crate::losses::Loss;
use crate::stats::{FIRST_LOOK, Looked, StopReason, StopRule, Stopped, tick_ns};

/// A run that was made.
#[derive(Debug)]
pub(super) struct Made {
    pub config: usize,
    /// In its configuration, from 0.
    pub number: usize,
    pub start_ns: i64,
    /// The round of the schedule that it was made in, from 0.
    pub block: usize,
    pub wall_ns: i64,
    pub instances: Vec<Instance>,
    /// What went wrong with all of it.
    pub failure: Option<String>,
    pub conditions: Option<RunConditions>,
    /// Of the collectors for runs.
    pub collected: Vec<(usize, Option<Value>)>,
}

/// Everything that timing gave.
#[derive(Debug, Default)]
pub(super) struct Timed {
    pub runs: Vec<Made>,
    pub kernels: FxHashMap<Region, Vec<Kernel>>,
    /// Why each configuration was left; none where it was not finished.
    pub stopped: Vec<Option<StopReason>>,
    /// When counting began, or would have.
    pub counting_ns: i64,
    /// Of the collectors for everything, and for configurations.
    pub once: Vec<(usize, Option<Value>)>,
    pub of_configs: Vec<Vec<(usize, Option<Value>)>>,
    pub losses: Vec<Loss>,
    pub warnings: Vec<String>,
}

impl Timed {
    fn add(&mut self, kernels: Vec<Kernel>) {
        for kernel in kernels {
            self.kernels.entry(kernel.region).or_default().push(kernel);
        }
    }

    /// How deep annotations are in each other.
    fn nesting_levels(&self) -> u16 {
        let depth = |run: &Made, mut at: usize| {
            let mut depth = 1_u16;
            while let Some(parent) = run.instances[at].parent {
                (at, depth) = (parent, depth + 1);
            }
            depth
        };
        let depths = self.runs.iter().flat_map(|run| (0..run.instances.len()).map(move |at| depth(run, at)));
        depths.max().unwrap_or(1)
    }

    /// The kernels of an annotation, with those of the ones inside of it.
    pub fn kernels_of(&self, run: &Made, place: usize) -> Vec<&Kernel> {
        let is_inside = |mut at: usize| loop {
            if at == place {
                return true;
            }
            match run.instances[at].parent {
                Some(parent) => at = parent,
                None => return false,
            }
        };
        let inside = (place..run.instances.len()).filter(|at| is_inside(*at));
        inside.filter_map(|at| self.kernels.get(&run.instances[at].region)).flatten().collect()
    }
}

/// Where one configuration is.
#[derive(Clone, Debug, Default)]
struct State {
    is_warm: bool,
    runs: usize,
    elapsed: Duration,
    /// Uses of annotations that were not looked at yet.
    unseen: usize,
    /// Valid values of the annotation that has the fewest, when that was last looked at.
    valid: usize,
}

pub(super) fn run<C: Config, R: Outcome>(
    mut bench: Bench<C>,
    rig: &mut dyn Rig,
    mut work: impl FnMut(&Run<'_>, &C) -> R,
) -> Result<Report, BenchError> {
    let is_counted = |metric: &String| metric != DURATION;
    let asked: Vec<String> = bench.metrics.iter().filter(|metric| is_counted(metric)).cloned().collect();
    let ready = bench.validate().and_then(|parameters| {
        let counters = if asked.is_empty() { Vec::new() } else { rig.plan(&asked)? };
        bench.check_derived(&counters)?;
        Ok((parameters, counters.into_iter().filter(is_counted).collect::<Vec<_>>()))
    });
    let (parameters, counters) = match ready {
        Ok(ready) => ready,
        Err(error) => return Err(BenchError { error, report: Box::default() }),
    };
    let mut collectors = std::mem::take(&mut bench.collectors);
    let mut timed = Timed { stopped: vec![None; bench.configs.len()], ..Timed::default() };
    timed.of_configs.resize(bench.configs.len(), Vec::new());
    let mut counted = Vec::new();
    let is_first = !counters.is_empty() && rig.counts_first();
    if is_first {
        timed.counting_ns = rig.now_ns();
        let levels = nesting_levels(&bench, &mut work);
        count(&bench, rig, levels, &mut work, &mut timed.warnings, &mut counted);
    }
    if let Err(error) = rig.start() {
        return Err(BenchError { error, report: Box::default() });
    }
    let mut error = time(&bench, &mut collectors, rig, &mut work, &mut timed).err();
    match rig.stop() {
        Ok((kernels, losses)) => {
            timed.add(kernels);
            timed.losses = losses;
        }
        Err(failed) => error = error.or(Some(failed)),
    }
    if error.is_none() {
        error = nothing_measured(&timed);
    }
    if error.is_none() && !counters.is_empty() && !is_first {
        timed.counting_ns = rig.now_ns();
        let levels = timed.nesting_levels();
        count(&bench, rig, levels, &mut work, &mut timed.warnings, &mut counted);
    }
    if let Some(error) = &error {
        timed.warnings.insert(0, format!("measuring failed: {error}"));
    }
    let results =
        Results { bench: &bench, parameters, timed: &timed, counted: &counted, counters: &counters };
    let report = results.report(&collectors, rig);
    match error {
        None => Ok(report),
        Some(error) => Err(BenchError { error, report: Box::new(report) }),
    }
}

/// Makes the timed runs of all configurations.
fn time<C: Config, R: Outcome>(
    bench: &Bench<C>,
    collectors: &mut [Collector<C>],
    rig: &mut dyn Rig,
    work: &mut impl FnMut(&Run<'_>, &C) -> R,
    timed: &mut Timed,
) -> Result<()> {
    let mut schedule = Schedule::new(bench.order, bench.configs.len());
    let mut states = vec![State::default(); bench.configs.len()];
    let mut progress = Progress::new(bench.progress, bench.rule.max_runs(), bench.configs.len());
    timed.once = call(collectors, Scope::Once, &Occasion { config: None, run: None, annotation: None });
    let timing = Timing::new(rig);
    let mut without_conditions = 0;
    while let Some(place) = schedule.next() {
        let (config, state) = (&bench.configs[place], &mut states[place]);
        if !state.is_warm {
            state.is_warm = true;
            warm_up(bench, config, &timing, work, &mut timed.warnings)?;
            let at = Occasion { config: Some(config), run: None, annotation: None };
            timed.of_configs[place] = call(collectors, Scope::Configuration, &at);
        }
        let had_to_wait = timing.rig.borrow_mut().before_run()?;
        if had_to_wait {
            // The clocks have fallen meanwhile.
            warm_up(bench, config, &timing, work, &mut timed.warnings)?;
        }
        let at = Occasion { config: Some(config), run: Some(state.runs), annotation: None };
        let collected = call(collectors, Scope::Run, &at);
        let (began, start_ns) = (timing.rig.borrow().elapsed(), timing.rig.borrow().now_ns());
        let of_annotations = RefCell::new(&mut *collectors);
        let at_annotation = |name: &str| {
            let at = Occasion { annotation: Some(name), ..at };
            *timing.collected.borrow_mut() = call(&mut of_annotations.borrow_mut(), Scope::Annotation, &at);
        };
        timing.rig.borrow_mut().next_run(place, state.runs);
        let run = Run::new(state.runs, Purpose::Timing, Some(&timing), &at_annotation);
        let mut failure = outcome(bench.catch_panics, || work(&run, config)).err();
        let wall = timing.rig.borrow().elapsed() - began;
        let waited = timing.rig.borrow_mut().after_run();
        let broken = timing.error.take().or(waited.err());
        failure = broken.as_ref().map(ToString::to_string).or(failure);
        let instances = timing.instances.take();
        let failed = failure.clone();
        state.unseen += instances.len();
        timed.runs.push(Made {
            config: place,
            number: state.runs,
            start_ns,
            block: schedule.round(),
            wall_ns: i64::try_from(wall.as_nanos()).unwrap_or(i64::MAX),
            instances,
            failure,
            conditions: None,
            collected,
        });
        state.runs += 1;
        state.elapsed += timing.rig.borrow().elapsed() - began;
        if let Some(conditions) = timing.rig.borrow_mut().conditions(false) {
            tell_conditions(timed, &mut without_conditions, conditions);
        }
        if let Some(error) = broken {
            return Err(error);
        }
        progress.run_made();
        let is_failed = failed.or_else(|| failed_annotation(timed));
        if let Some(what) = is_failed.filter(|_| bench.on_failure == OnFailure::Stop) {
            timed.stopped[place] = Some(StopReason::Failed);
            let what = format!("run {} of configuration {place} failed: {what}", state.runs - 1);
            return Err(Error::new(ErrorKind::Program, what));
        }
        if let Some(reason) = look(bench, &timing, place, state, timed)? {
            timed.stopped[place] = Some(reason);
            schedule.stop(place);
            progress.config_done();
        }
    }
    let last = timing.rig.borrow_mut().conditions(true);
    if let Some(conditions) = last {
        tell_conditions(timed, &mut without_conditions, conditions);
    }
    Ok(())
}

/// The runs since the last time had these conditions.
fn tell_conditions(timed: &mut Timed, from: &mut usize, conditions: RunConditions) {
    timed.runs[*from..].iter_mut().for_each(|run| run.conditions = Some(conditions));
    *from = timed.runs.len();
}

fn failed_annotation(timed: &Timed) -> Option<String> {
    let instances = &timed.runs.last()?.instances;
    instances
        .iter()
        .find_map(|instance| instance.failure.as_ref().map(|what| format!("{}: {what}", instance.name)))
}

fn warm_up<C: Config, R: Outcome>(
    bench: &Bench<C>,
    config: &C,
    timing: &Timing<'_>,
    work: &mut impl FnMut(&Run<'_>, &C) -> R,
    warnings: &mut Vec<String>,
) -> Result<()> {
    for number in 0..bench.warm_up {
        timing.rig.borrow_mut().before_run()?;
        let run = Run::new(number, Purpose::WarmUp, None, &|_| {});
        if let Err(what) = outcome(bench.catch_panics, || work(&run, config)) {
            warnings.push(format!("a run that was to warm up failed: {what}"));
        }
        timing.rig.borrow_mut().after_run()?;
    }
    Ok(())
}

/// What went wrong with a run, if something did.
fn outcome<R: Outcome>(catch_panics: bool, run: impl FnOnce() -> R) -> Result<(), String> {
    if !catch_panics {
        return run().failure().map_or(Ok(()), Err);
    }
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(result) => result.failure().map_or(Ok(()), Err),
        Err(panic) => {
            let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
            match text.or_else(|| panic.downcast_ref::<String>().cloned()) {
                Some(text) => Err(format!("panicked: {text}")),
                // Not a message for people: somebody else's way to unwind.
                None => resume_unwind(panic),
            }
        }
    }
}

fn call<C>(
    collectors: &mut [Collector<C>],
    scope: Scope,
    at: &Occasion<'_, C>,
) -> Vec<(usize, Option<Value>)> {
    let due = collectors.iter_mut().enumerate().filter(|(_, collector)| collector.scope == scope);
    due.map(|(index, collector)| (index, collector.collect(at))).collect()
}

/// Whether the configuration has been measured enough, and why.
fn look<C: Config>(
    bench: &Bench<C>,
    timing: &Timing<'_>,
    place: usize,
    state: &mut State,
    timed: &mut Timed,
) -> Result<Option<StopReason>> {
    let (runs, elapsed) = (state.runs, state.elapsed);
    let without_values = Looked { values: &[], runs, elapsed, tick: 0.0 };
    let StopRule::Precision(precision) = bench.rule else {
        return Ok(bench.rule.look(without_values)?.map(|stopped| stopped.reason));
    };
    // To ask for the values costs time: only where a look may be due.
    let next = next_look(state.valid);
    let is_over = runs >= precision.max_runs || elapsed >= precision.max_time;
    if !is_over && state.valid + state.unseen < next {
        return Ok(None);
    }
    let kernels = timing.rig.borrow_mut().collect()?;
    timed.add(kernels);
    let values = durations(bench, timed, place);
    state.unseen = 0;
    state.valid = values.values().map(Vec::len).min().unwrap_or(0);
    let all: Vec<i64> = values.values().flatten().map(|ns| *ns as i64).collect(); // CAST: was an integer
    let tick = tick_ns(&all);
    let mut reasons = Vec::new();
    for values in values.values() {
        // With several uses in a run, a look's number may have been stepped over.
        let at_look = &values[..last_look(values.len())];
        let stopped = if at_look.is_empty() {
            None
        } else {
            bench.rule.look(Looked { values: at_look, runs: at_look.len(), elapsed, tick })?
        };
        let stopped = match stopped {
            Some(stopped) => Some(stopped),
            None => bench.rule.look(Looked { values, runs, elapsed, tick })?,
        };
        reasons.push(stopped.map(|Stopped { reason, .. }| reason));
    }
    if reasons.is_empty() {
        return Ok(bench.rule.look(without_values)?.map(|stopped| stopped.reason));
    }
    // All have to be known; the reason is that of the one that is known worst.
    let all: Option<Vec<StopReason>> = reasons.into_iter().collect();
    let reached = |reason: &StopReason| *reason == StopReason::PrecisionReached;
    Ok(all.and_then(|all| all.iter().copied().find(|reason| !reached(reason)).or(all.first().copied())))
}

/// The next number of valid runs at which to look.
fn next_look(valid: usize) -> usize {
    let mut look = FIRST_LOOK;
    while look <= valid {
        look *= 2;
    }
    look
}

/// The last number at which a look was due; 0 for none.
fn last_look(valid: usize) -> usize {
    if valid < FIRST_LOOK { 0 } else { next_look(valid) / 2 }
}

/// The valid durations of each annotation of a configuration, in their order.
fn durations<C: Config>(bench: &Bench<C>, timed: &Timed, place: usize) -> BTreeMap<String, Vec<f64>> {
    let mut values: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for run in timed.runs.iter().filter(|run| run.config == place) {
        for (at, instance) in run.instances.iter().enumerate() {
            let values = values.entry(instance.name.clone()).or_default();
            let is_failed = run.failure.is_some() || instance.failure.is_some();
            let times = Times::of(&timed.kernels_of(run, at), &bench.kernels);
            if let Ok(times) = times.as_ref()
                && !is_failed
            {
                values.push(times.sum_ns as f64); // CAST: exact below 104 days
            }
        }
    }
    values
}

/// Why there is no result at all.
fn nothing_measured(timed: &Timed) -> Option<Error> {
    let mut instances = timed.runs.iter().flat_map(|run| &run.instances).peekable();
    let (what, hint) = if instances.peek().is_none() {
        ("no run measured anything", "call `run.measure(name, || …)` around the work to be measured")
    } else if instances.any(|instance| timed.kernels.contains_key(&instance.region)) {
        return None;
    } else {
        (
            "no annotation launched any kernel",
            "launch inside of `run.measure`, on its thread or on one that has entered a range of it",
        )
    };
    let first = timed.runs.iter().find_map(|run| {
        let of_annotation = || run.instances.iter().find_map(|instance| instance.failure.as_ref());
        run.failure.as_ref().or_else(of_annotation)
    });
    let error = Error::new(ErrorKind::Program, what).with_hint(hint);
    Some(match first {
        Some(failure) => error.with_source(failure.clone()),
        None => error,
    })
}

/// Counts in passes of their own, configuration by configuration, each as often as asked for. What cannot be counted is
/// told, and null.
fn count<C: Config, R: Outcome>(
    bench: &Bench<C>,
    rig: &mut dyn Rig,
    levels: u16,
    work: &mut impl FnMut(&Run<'_>, &C) -> R,
    warnings: &mut Vec<String>,
    counted: &mut Vec<CountedRun>,
) {
    let runs = |config_index| (0..bench.counter_runs).map(move |number| (config_index, number));
    for (config_index, number) in (0..bench.configs.len()).flat_map(runs) {
        let (config, start_ns) = (&bench.configs[config_index], rig.now_ns());
        let names = RefCell::new(Vec::new());
        let mut pass = 0;
        let result = rig.count(levels, &mut |regions| {
            names.borrow_mut().clear();
            let named = Named { regions, names: &names };
            let run = Run::new(pass, Purpose::Counting, Some(&named), &|_| {});
            pass += 1;
            outcome(bench.catch_panics, || work(&run, config)).map_err(Into::into)
        });
        let names = names.into_inner();
        match result {
            Ok(rows) => {
                let named = rows.into_iter().filter_map(|row| {
                    let (annotation, repeat) = names.get(usize::try_from(row.range_index).ok()?).cloned()?;
                    Some(Counted { annotation, repeat, row })
                });
                let (conditions, metrics) = (rig.conditions(true), named.collect());
                counted.push(CountedRun { config_index, number, start_ns, conditions, metrics });
            }
            Err(error) => {
                let is_of_its_work = matches!(error.kind, ErrorKind::Program | ErrorKind::Config);
                // Without an annotation there is nothing to count, which is told of the times.
                let is_empty = pass > 0 && names.is_empty() && error.kind == ErrorKind::Config;
                let what =
                    format!("counters of configuration {config_index} were not counted: {}", in_line(&error));
                if !is_empty && !warnings.contains(&what) {
                    warnings.push(what);
                }
                // What keeps one configuration from being counted, other than its own work, keeps all.
                if !is_of_its_work {
                    return;
                }
            }
        }
    }
}

/// How deep annotations are in each other, by runs in which nothing is measured.
fn nesting_levels<C: Config, R: Outcome>(bench: &Bench<C>, work: &mut impl FnMut(&Run<'_>, &C) -> R) -> u16 {
    let depths = Depths::default();
    for config in &bench.configs {
        let run = Run::new(0, Purpose::WarmUp, Some(&depths), &|_| {});
        // It fails once more where it is measured, and is told then.
        let _told_later = outcome(bench.catch_panics, || work(&run, config));
    }
    depths.deepest.get().max(1)
}

/// Measures nothing but how many annotations are open.
#[derive(Default)]
struct Depths {
    open: Cell<u16>,
    deepest: Cell<u16>,
}

impl Regions for Depths {
    fn open<'a>(&'a self, _name: &str) -> Box<dyn Opened + 'a> {
        self.open.set(self.open.get() + 1);
        self.deepest.set(self.deepest.get().max(self.open.get()));
        Box::new(Deep(self))
    }
}

struct Deep<'a>(&'a Depths);

impl Opened for Deep<'_> {
    fn failed(&mut self, _what: String) {}
}

impl Drop for Deep<'_> {
    fn drop(&mut self) {
        self.0.open.set(self.0.open.get() - 1);
    }
}

/// Notes the names of the annotations of a pass, each with how often it came before.
struct Named<'a> {
    regions: &'a dyn Regions,
    names: &'a RefCell<Vec<(String, usize)>>,
}

impl Regions for Named<'_> {
    fn open<'a>(&'a self, name: &str) -> Box<dyn Opened + 'a> {
        let mut names = self.names.borrow_mut();
        let repeat = names.iter().filter(|(known, _)| known == name).count();
        names.push((name.to_owned(), repeat));
        drop(names);
        self.regions.open(name)
    }
}
