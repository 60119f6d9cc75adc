//! What is measured, and how.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::collectors::{Collected, Collector, Occasion, Scope};
use super::harness::Overrides;
use super::kernels::KernelFilter;
use super::live::Live;
use super::measured::Measured;
use super::order::Order;
use super::report::{BenchError, Report};
use super::run::Run;
use super::value::{Config, Outcome};
use crate::control::{Cache, Clocks, DEFAULT_THERMAL_BUDGET, Thermal};
use crate::driver::Stream;
use crate::error::Result;
use crate::pattern::Pattern;
use crate::stats::{DEFAULT_STABLE_BELOW, Precision, StopRule};

/// Runs of a configuration that are measured, by default.
pub const DEFAULT_RUNS: usize = 20;

/// Runs of each configuration before those that are measured, by default.
pub const DEFAULT_WARM_UP_RUNS: usize = 2;

/// How often counters are counted in each configuration, by default.
pub const DEFAULT_COUNTER_RUNS: usize = 1;

/// For how long [`Bench::launch_ahead`] holds launches back at most, by default.
pub const DEFAULT_LAUNCH_AHEAD_LIMIT: Duration = Duration::from_millis(500);

/// The metric that every annotation has: the sum of its kernels' durations, from their traced records.
pub const DURATION: &str = "gpu__time_duration.sum";

/// What happens after a run that failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnFailure {
    /// Its samples are flagged, and the next run is made.
    #[default]
    Flag,
    /// Its samples are flagged, and measuring ends with an error that has all results so far.
    Stop,
}

/// Measures kernels over configurations and runs.
///
/// ```no_run
/// # fn launch(n: usize) -> cuprof::Result<()> { Ok(()) }
/// # fn main() -> cuprof::Result<()> {
/// use cuprof::{Bench, Cache};
///
/// let report = Bench::new("precision")
///     .configs([512_usize, 1024, 2048])
///     .parameters(["n"])
///     .runs(20)
///     .cache(Cache::Flush)
///     .output("precision.cuprof")
///     .derive("tflops", "TFLOP/s", |m, n: &usize| 2.0 * (*n as f64).powi(3) / m.duration_ns() / 1e3)
///     .normalize_against("fp32")
///     .run(|run, n| {
///         // … set-up, which is not measured …
///         run.measure("fp32", || launch(*n))?;
///         run.measure("fp16", || launch(*n))
///     })?;
/// print!("{report}");
/// # Ok(())
/// # }
/// ```
///
/// The program's context is current to the thread before [`run`](Self::run). For each configuration there are runs that
/// warm up, and runs that are measured. Each of these waits while the GPU is too hot, calls the collectors, and runs the
/// closure; what it [measures](Run::measure) finds the L2 cache in its state. Durations are those of the kernels' records
/// of a traced session, without any replay: nothing of the flush or of the launching is in them. Counters, where
/// asked for, are counted afterwards, when nothing is traced: the closure then runs once for each pass. Everything is in the
/// report, and in a dataset if [asked for](Self::output).
///
/// Where there is no GPU, no CUPTI, or another session runs, that is the error:
///
/// ```
/// let failed = cuprof::Bench::new("nothing").run(|run, ()| run.measure("work", || ())).err();
/// println!("not measured: {}", failed.expect("no context is current to this thread"));
/// ```
///
/// # What it costs
/// Beside the flush (30 µs on an H200) and the kernels, a run has a few clock readings, a range and waits for the GPU;
/// `tests/gpu/bench.rs` measures what that takes and holds it below 20 µs. NVML is asked between runs, at most every 50 ms.
#[must_use = "nothing is measured before `run`"]
pub struct Bench<C = ()> {
    pub(super) name: String,
    pub(super) configs: Vec<C>,
    pub(super) parameters: Option<Vec<String>>,
    pub(super) rule: StopRule,
    pub(super) warm_up: usize,
    pub(super) stable_below: f64,
    pub(super) order: Order,
    pub(super) cache: Cache,
    pub(super) clocks: Clocks,
    pub(super) thermal: Thermal,
    pub(super) thermal_budget: Duration,
    pub(super) stream: Option<Stream>,
    /// For how long launches are held back at most, if they are.
    pub(super) launch_ahead: Option<Duration>,
    pub(super) serializes_kernels: bool,
    pub(super) output: Option<PathBuf>,
    pub(super) overwrite: bool,
    pub(super) input_fill: Option<String>,
    pub(super) metrics: Vec<String>,
    pub(super) counter_runs: usize,
    pub(super) derived: Vec<Derived<C>>,
    pub(super) baseline: Option<String>,
    pub(super) kernels: KernelFilter,
    pub(super) collectors: Vec<Collector<C>>,
    pub(super) on_failure: OnFailure,
    pub(super) catch_panics: bool,
    pub(super) progress: bool,
    pub(super) overrides: Overrides,
}

type DerivedFunction<C> = dyn Fn(&Measured<'_>, &C) -> Option<f64>;

/// A metric that is computed from others.
pub(super) struct Derived<C> {
    pub name: String,
    pub unit: String,
    pub function: Box<DerivedFunction<C>>,
}

impl<C> fmt::Debug for Bench<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bench")
            .field("name", &self.name)
            .field("configs", &self.configs.len())
            .field("rule", &self.rule)
            .field("order", &self.order)
            .field("cache", &self.cache)
            .finish_non_exhaustive()
    }
}

impl Bench {
    /// A measurement with this name and a single configuration without parameters.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            configs: vec![()],
            parameters: None,
            rule: StopRule::Fixed(DEFAULT_RUNS),
            warm_up: DEFAULT_WARM_UP_RUNS,
            stable_below: DEFAULT_STABLE_BELOW,
            order: Order::default(),
            cache: Cache::default(),
            clocks: Clocks::default(),
            thermal: Thermal::default(),
            thermal_budget: DEFAULT_THERMAL_BUDGET,
            stream: None,
            launch_ahead: None,
            serializes_kernels: false,
            output: None,
            overwrite: false,
            input_fill: None,
            metrics: Vec::new(),
            counter_runs: DEFAULT_COUNTER_RUNS,
            derived: Vec::new(),
            baseline: None,
            kernels: KernelFilter::default(),
            collectors: Vec::new(),
            on_failure: OnFailure::default(),
            catch_panics: false,
            progress: true,
            overrides: Overrides::default(),
        }
    }

    /// Measures for each of these. What is derived and collected is to be named afterwards, since it may look at them.
    pub fn configs<C: Config>(self, configs: impl IntoIterator<Item = C>) -> Bench<C> {
        let derived = self.derived.into_iter().map(|Derived { name, unit, function }| Derived {
            name,
            unit,
            function: Box::new(move |measured: &Measured<'_>, _: &C| function(measured, &()))
                as Box<DerivedFunction<C>>,
        });
        let collectors =
            self.collectors.into_iter().map(|Collector { name, scope, mut function, failure }| Collector {
                name,
                scope,
                function: Box::new(move |at: &Occasion<'_, C>| {
                    function(&Occasion {
                        config: at.config.map(|_| &()),
                        run: at.run,
                        annotation: at.annotation,
                    })
                }) as Box<dyn FnMut(&Occasion<'_, C>) -> Collected>,
                failure,
            });
        Bench {
            name: self.name,
            configs: configs.into_iter().collect(),
            parameters: self.parameters,
            rule: self.rule,
            warm_up: self.warm_up,
            stable_below: self.stable_below,
            order: self.order,
            cache: self.cache,
            clocks: self.clocks,
            thermal: self.thermal,
            thermal_budget: self.thermal_budget,
            stream: self.stream,
            launch_ahead: self.launch_ahead,
            serializes_kernels: self.serializes_kernels,
            output: self.output,
            overwrite: self.overwrite,
            input_fill: self.input_fill,
            metrics: self.metrics,
            counter_runs: self.counter_runs,
            derived: derived.collect(),
            baseline: self.baseline,
            kernels: self.kernels,
            collectors: collectors.collect(),
            on_failure: self.on_failure,
            catch_panics: self.catch_panics,
            progress: self.progress,
            overrides: self.overrides,
        }
    }
}

impl<C: Config> Bench<C> {
    /// For a harness.
    pub(super) fn overridden(mut self, overrides: Overrides) -> Self {
        self.overrides = overrides;
        self
    }

    /// Names for the parameters, in place of `config`, `config_0`, … or a struct's fields.
    pub fn parameters<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.parameters = Some(names.into_iter().map(Into::into).collect());
        self
    }

    /// Measures so many runs of each configuration. Default: [`DEFAULT_RUNS`].
    pub fn runs(self, runs: usize) -> Self {
        self.stop_rule(StopRule::Fixed(runs))
    }

    /// Measures each configuration until its time is known to this precision: half the width of the 95 % interval over
    /// its centre, 0.0025 being 0.25 %. Says so where that cannot be reached in [`Precision`]'s limits.
    pub fn precision(self, target: f64) -> Self {
        self.stop_rule(StopRule::Precision(Precision { target, ..Precision::default() }))
    }

    /// Measures each configuration for this long, with one run at least.
    pub fn time_budget(self, time: Duration) -> Self {
        self.stop_rule(StopRule::TimeBudget(time))
    }

    /// When to stop measuring a configuration. With several annotations, when all of them are measured well enough.
    pub fn stop_rule(mut self, rule: StopRule) -> Self {
        self.rule = rule;
        self
    }

    /// Runs of each configuration before those that are measured. Default: [`DEFAULT_WARM_UP_RUNS`].
    pub fn warm_up(mut self, runs: usize) -> Self {
        self.warm_up = runs;
        self
    }

    /// Calls stable what has a standard deviation below this share of its mean (`aggregates.stable`). Default:
    /// [`DEFAULT_STABLE_BELOW`], 2 %.
    pub fn stable_below(mut self, share: f64) -> Self {
        self.stable_below = share;
        self
    }

    /// The order of the runs. Default: [`Order::Sequential`].
    pub fn order(mut self, order: Order) -> Self {
        self.order = order;
        self
    }

    /// What the L2 cache holds when an annotation begins. Default: [`Cache::Flush`]. [`Cache::Cupti`] is refused: CUPTI does
    /// nothing to the cache where times are taken.
    pub fn cache(mut self, cache: Cache) -> Self {
        self.cache = cache;
        self
    }

    /// Has the cache flushed in this stream, right before what the annotations launch there: the GPU then is not idle
    /// between, which lets clocks fall. Default: in a stream of its own, and waited for, which is right for any stream.
    pub fn stream(mut self, stream: Stream) -> Self {
        self.stream = Some(stream);
        self
    }

    /// Holds back what an annotation launches in its [`stream`](Self::stream), which has to be named, until all of it is
    /// launched: the GPU then never waits for the host, and launches do not show in the span from the first kernel's start
    /// to the last one's end (`gpu_span`). For annotations of several kernels; the durations of kernels are the same.
    ///
    /// What waits for the GPU inside of the annotation would wait for ever. It is not held back then: a driver call that may
    /// wait (a synchronisation, a copy that is not asynchronous, an allocation), more than 256 launches, or
    /// [`DEFAULT_LAUNCH_AHEAD_LIMIT`] having passed ends that, at once. The span of such a sample is not valid,
    /// `queue_broken: …` naming the cause; its other values are those that it would have without this.
    ///
    /// ```
    /// use cuprof::{Bench, Stream};
    ///
    /// let bench = Bench::new("layers").stream(Stream::PER_THREAD_DEFAULT).launch_ahead();
    /// # drop(bench);
    /// ```
    ///
    /// It costs a launch more for each annotation, and a page of host memory that the GPU reads.
    pub fn launch_ahead(self) -> Self {
        self.launch_ahead_within(DEFAULT_LAUNCH_AHEAD_LIMIT)
    }

    /// The same, with another limit for how long work is held back, of at most a minute.
    pub fn launch_ahead_within(mut self, limit: Duration) -> Self {
        self.launch_ahead = Some(limit);
        self
    }

    /// Whether kernels are measured one after the other, unchanged: without the code that CUPTI adds to them to take their
    /// times, which makes kernels bound by memory up to 12 % slower. Default: no.
    /// [`Builder::serialize_kernels`](crate::Builder::serialize_kernels) has what it costs. Samples have the
    /// [launch mode](super::LaunchMode) `serialized`, and are compared with such only.
    pub fn serialize_kernels(mut self, serialize: bool) -> Self {
        self.serializes_kernels = serialize;
        self
    }

    /// Writes everything as one dataset into this folder, `NAME.cuprof` by convention. While it is measured, each kernel
    /// becomes a row of `launches`, with its grid, registers and stream; in the end, the tables of the report are added
    /// ([`Report::write`] has these alone). That is so after an error as well; what a killed process leaves,
    /// [`recover`](crate::recover) tidies.
    ///
    /// Each use of an annotation is a row of `ranges`, whose `args` have the configuration and the run:
    /// `{"config":0,"run":3}`. `samples` name that row in `range_id`, and launches that are in no range inside of it do, too.
    /// Kernels of warm-up runs and of set-up are in no annotation; those that flush the cache or hold launches back are in
    /// `overheads`.
    pub fn output(mut self, folder: impl AsRef<Path>) -> Self {
        self.output = Some(folder.as_ref().to_owned());
        self
    }

    /// Whether an [output](Self::output) that exists is replaced. Default: it is refused, before anything runs.
    pub fn overwrite(mut self, overwrite: bool) -> Self {
        self.overwrite = overwrite;
        self
    }

    /// The clocks to measure at, times and counters. Default: [`Clocks::Measure`]. Clocks that are pinned are so from before
    /// the first run until the last one is timed or counted, and released after an error or a panic, too.
    pub fn clocks(mut self, clocks: Clocks) -> Self {
        self.clocks = clocks;
        self
    }

    /// What the inputs are filled with, in words such as `zeros` or `normal, seed 7`. Data change the power draw, and so the
    /// clocks and the times: it is a fact of the dataset, and what differs in it is [not compared](crate::compare).
    pub fn input_fill(mut self, fill: impl Into<String>) -> Self {
        self.input_fill = Some(fill.into());
        self
    }

    /// When runs wait for the GPU to cool down. Default: [`Thermal::default`].
    pub fn thermal(mut self, thermal: Thermal) -> Self {
        self.thermal = thermal;
        self
    }

    /// How long the runs may wait for the GPU to cool down, all together; beyond it, measuring ends with an error that has
    /// all results so far. Default: [`DEFAULT_THERMAL_BUDGET`].
    pub fn thermal_budget(mut self, budget: Duration) -> Self {
        self.thermal_budget = budget;
        self
    }

    /// Metrics to measure, beside the durations ([`DURATION`], which may be named here and is measured in any case): all
    /// others are hardware counters, by their names or those of [presets](crate::counters::Preset), counted in passes of their own, when all times were taken. Where CUPTI is older than
    /// 13.0 Update 1, they are counted first, since kernels that were traced once stay so there, and would change them.
    pub fn metrics<S: Into<String>>(mut self, metrics: impl IntoIterator<Item = S>) -> Self {
        self.metrics.extend(metrics.into_iter().map(|metric| metric.into().trim().to_owned()));
        self
    }

    /// Counts the [metrics](Self::metrics) so often in each configuration. Default: [`DEFAULT_COUNTER_RUNS`], once, which
    /// leaves a counter without a spread and an interval: it is mostly the same each time.
    ///
    /// Each time takes what the first one takes: all passes again, with the closure run once for each, and some 0.2 s to
    /// set up (an H200). The countings are runs of their own, numbered from 0. For what is [derived](Self::derive), the first
    /// timed run goes with the first counting, and so on; where there are more timed runs, the countings are taken in turn.
    pub fn counter_runs(mut self, runs: usize) -> Self {
        self.counter_runs = runs;
        self
    }

    /// Computes another metric for each valid sample. None, or what is not a number, is null.
    pub fn derive<V: Into<Option<f64>>>(
        mut self,
        name: impl Into<String>,
        unit: impl Into<String>,
        function: impl Fn(&Measured<'_>, &C) -> V + 'static,
    ) -> Self {
        let function = Box::new(move |measured: &Measured<'_>, config: &C| function(measured, config).into());
        self.derived.push(Derived { name: name.into(), unit: unit.into(), function });
        self
    }

    /// Compares every other annotation with this one: the ratio to it, with its interval, from pairs of the same run.
    pub fn normalize_against(mut self, annotation: impl Into<String>) -> Self {
        self.baseline = Some(annotation.into());
        self
    }

    /// Leaves kernels out of the annotations' times.
    pub fn ignore_kernels(mut self, pattern: Pattern) -> Self {
        self.kernels.ignored.push(pattern);
        self
    }

    /// Has only these kernels in the annotations' times; may be called several times.
    pub fn only_kernels(mut self, pattern: Pattern) -> Self {
        self.kernels.only.push(pattern);
        self
    }

    /// Notes a value beside the measurements. A failure becomes null, and is told once.
    ///
    /// ```
    /// use cuprof::Bench;
    /// use cuprof::bench::Scope;
    ///
    /// let bench = Bench::new("sum").collect("compiler", Scope::Once, |_| Ok("13.0".into()));
    /// # drop(bench);
    /// ```
    pub fn collect(
        mut self,
        name: impl Into<String>,
        scope: Scope,
        function: impl FnMut(&Occasion<'_, C>) -> Collected + 'static,
    ) -> Self {
        let function = Box::new(function);
        self.collectors.push(Collector { name: name.into(), scope, function, failure: None });
        self
    }

    /// What happens after a run that failed. Default: [`OnFailure::Flag`].
    pub fn on_failure(mut self, on_failure: OnFailure) -> Self {
        self.on_failure = on_failure;
        self
    }

    /// Whether a panic of the measured code is a failed run. Default: no, it goes on up.
    pub fn catch_panics(mut self, catch: bool) -> Self {
        self.catch_panics = catch;
        self
    }

    /// Whether a line on the terminal shows how far it is. Default: yes; never where stderr is no terminal.
    pub fn progress(mut self, progress: bool) -> Self {
        self.progress = progress;
        self
    }

    /// Measures.
    ///
    /// # Errors
    /// [`BenchError`], which has the report of what was measured so far. Before anything runs:
    /// [`Config`](crate::ErrorKind::Config) where a setting is out of range, a metric does not exist on this GPU, or no
    /// context is current; as [`Builder::start`](crate::Builder::start), for the [output](Self::output) as well. Later:
    /// [`Io`](crate::ErrorKind::Io) where that could not be written as a whole; [`Timeout`](crate::ErrorKind::Timeout) where
    /// the GPU does not cool down; [`Call`](crate::ErrorKind::Call) where the GPU failed; [`Program`](crate::ErrorKind::Program) where
    /// a run failed and [`OnFailure::Stop`] was asked for, or where no annotation launched any kernel.
    pub fn run<R: Outcome>(mut self, work: impl FnMut(&Run<'_>, &C) -> R) -> Result<Report, BenchError> {
        self.apply_overrides();
        let mut rig = Live::new(&self);
        if let Err(error) = rig.check_output() {
            return Err(BenchError { error, report: Box::default() });
        }
        let measured = super::engine::run(self, &mut rig, work);
        rig.write(measured)
    }

    /// What a harness was told counts, and not what the program says.
    pub(super) fn apply_overrides(&mut self) {
        let Overrides { runs, is_test } = self.overrides;
        if let Some(runs) = runs {
            self.rule = StopRule::Fixed(runs);
        }
        if is_test {
            (self.rule, self.warm_up, self.progress) = (StopRule::Fixed(runs.unwrap_or(1)), 0, false);
            self.counter_runs = 1;
        }
    }
}

/// The metric of first start to last end.
pub(super) const SPAN: &str = "gpu_span";
/// The metric of the time in which at least one kernel ran.
pub(super) const BUSY: &str = "gpu_busy";
