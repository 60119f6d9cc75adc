//! The GPU of the current context, traced for times and counted in passes.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustc_hash::{FxHashMap, FxHashSet};

use super::builder::Bench;
use super::progress;
use super::report::{BenchError, Report};
use super::rig::{Gate, Kernel, Opened, Region, Regions, Rig, Work};
use super::text::in_line;
use crate::channel::Arg;
use crate::control::{
    Cache, ClockGuard, ClockRequest, Clocks, L2Control, LaunchGate, RunConditions, Thermal, ThermalGuard,
};
use crate::counters::{BetweenPasses, Pass, Plan, Session};
use crate::cupti::Libraries;
use crate::driver::nvml::GpuReading;
use crate::driver::{Context, Driver, Stream};
use crate::error::{Error, ErrorKind, Result};
use crate::losses::Loss;
use crate::range::Range;
use crate::table::rows::{InvalidReason, LaunchRow, MetricRow};
use crate::table::writer::DatasetWriter;
use crate::trace::{Observer, Profiler, precludes_counting};
use crate::units::{Nanos, RangeId};

/// How often NVML is asked: it answers in the time of many short runs.
const ASK_EVERY: Duration = Duration::from_millis(50);

pub(super) struct Live {
    cache: Cache,
    asked_clocks: Clocks,
    thermal: Thermal,
    thermal_budget: Duration,
    stream: Option<Stream>,
    /// For how long launches are held back at most, if they are.
    launch_ahead: Option<Duration>,
    serializes_kernels: bool,
    output: Option<PathBuf>,
    overwrite: bool,
    /// The dataset that launches were written to, once that is over.
    dataset: Option<DatasetWriter>,
    progress: bool,
    began: Instant,
    plan: Option<Plan>,
    tracing: Option<Tracing>,
    /// From the first run to the last, of those that are timed and those that are counted.
    clocks: Option<HeldClocks>,
    /// Number of the configuration, and of its run.
    run: (usize, usize),
    facts: Vec<(String, String)>,
    /// Why clocks are not as asked for, and why heat is not watched.
    denied: [Option<String>; 2],
    clock_mode: &'static str,
}

struct HeldClocks {
    guard: ClockGuard,
    /// When they were last read.
    read: (Instant, GpuReading),
}

/// What there is while times are taken.
struct Tracing {
    profiler: Profiler,
    observer: Observer,
    driver: &'static Driver,
    context: Context,
    l2: L2Control,
    gate: Option<LaunchGate>,
    heat: ThermalGuard,
    /// When the temperature was asked for.
    heat_asked: Option<Instant>,
    /// The annotations that are open, and those that ever were.
    open: Vec<(Region, Range)>,
    regions: FxHashSet<Region>,
    /// The range around each range that has ended.
    parents: FxHashMap<RangeId, Option<RangeId>>,
    /// Kernels whose annotation is not known yet, since a range around them has not ended.
    waiting: Vec<LaunchRow>,
}

impl Live {
    pub fn new<C>(bench: &Bench<C>) -> Self {
        Self {
            cache: bench.cache,
            asked_clocks: bench.clocks,
            thermal: bench.thermal,
            thermal_budget: bench.thermal_budget,
            stream: bench.stream,
            launch_ahead: bench.launch_ahead,
            serializes_kernels: bench.serializes_kernels,
            output: bench.output.clone(),
            overwrite: bench.overwrite,
            dataset: None,
            progress: bench.progress,
            began: Instant::now(),
            plan: None,
            tracing: None,
            clocks: None,
            run: (0, 0),
            facts: Vec::new(),
            denied: [const { None }; 2],
            clock_mode: "free",
        }
    }

    /// Fails where there can be no dataset in the folder, before anything is measured for it.
    pub fn check_output(&self) -> Result<()> {
        self.output.as_deref().map_or(Ok(()), |folder| DatasetWriter::check(folder, self.overwrite))
    }

    /// Adds what was measured to the dataset that has the launches, whether measuring ended well or not.
    pub fn write(&mut self, measured: Result<Report, BenchError>) -> Result<Report, BenchError> {
        // Others may want the clocks meanwhile.
        self.clocks = None;
        let Some(dataset) = self.dataset.take() else { return measured };
        let (mut report, error) = match measured {
            Ok(report) => (Box::new(report), None),
            Err(BenchError { error, report }) => (report, Some(error)),
        };
        let written = report.add_to(dataset, true).err();
        match (error, written) {
            (None, None) => Ok(*report),
            (Some(error), Some(written)) => {
                report.warnings.push(format!("not everything is in the files: {written}"));
                Err(BenchError { error, report })
            }
            (Some(error), None) | (None, Some(error)) => Err(BenchError { error, report }),
        }
    }

    /// Has the clocks as asked for, as far as that can be, and begins to watch them.
    fn hold_clocks(&mut self) -> Result<&HeldClocks> {
        let guard = match self.clocks.take() {
            Some(held) => held.guard,
            None => ClockRequest::new(self.asked_clocks).start()?,
        };
        self.clock_mode = guard.report().clock_mode();
        self.denied[0] = guard.report().message.clone().filter(|_| self.asked_clocks != Clocks::Measure);
        let read = (Instant::now(), guard.read());
        Ok(self.clocks.insert(HeldClocks { guard, read }))
    }

    fn tracing(&mut self) -> Result<&mut Tracing> {
        self.tracing.as_mut().ok_or_else(|| Error::new(ErrorKind::Config, "nothing is traced"))
    }
}

impl Tracing {
    fn take(&mut self) -> Vec<Kernel> {
        let observed = self.observer.take();
        self.parents.extend(observed.ranges);
        self.waiting.extend(observed.launches);
        let mut kernels = Vec::new();
        let Self { waiting, parents, regions, .. } = self;
        waiting.retain(|row| {
            let region = row.work.range.map(|range| innermost(range, parents, regions));
            match region {
                Some(Found::In(region)) => kernels.push(Kernel {
                    region,
                    name: row.kernel.clone(),
                    start_ns: row.work.start_ns,
                    end_ns: row.work.end_ns,
                    in_graph: row.work.graph.is_some(),
                    invalid: row.work.invalid.map(InvalidReason::as_str),
                }),
                Some(Found::Later) => return true,
                Some(Found::Nowhere) | None => {}
            }
            false
        });
        kernels
    }
}

enum Found {
    In(Region),
    /// It is in no annotation.
    Nowhere,
    /// A range around it has not ended yet, so that what is around that is not known.
    Later,
}

/// The innermost annotation around a range, itself included.
fn innermost(
    range: RangeId,
    parents: &FxHashMap<RangeId, Option<RangeId>>,
    regions: &FxHashSet<Region>,
) -> Found {
    let mut at = range;
    // A range is younger than the one around it, so that this ends.
    loop {
        let region = Region(at.0.get());
        if regions.contains(&region) {
            return Found::In(region);
        }
        match parents.get(&at) {
            Some(Some(parent)) => at = *parent,
            Some(None) => return Found::Nowhere,
            None => return Found::Later,
        }
    }
}

impl Rig for Live {
    fn plan(&mut self, names: &[String]) -> Result<Vec<String>> {
        let (_, device) = Driver::get()?.current()?;
        let plan = self.plan.insert(Plan::for_device(device.ordinal, names)?.complete()?);
        let missing = plan.missing().iter().map(|missing| missing.name.clone());
        Ok(plan.metrics().iter().map(|planned| planned.asked.clone()).chain(missing).collect())
    }

    fn counts_first(&self) -> bool {
        Libraries::get(None).is_ok_and(|libraries| precludes_counting(libraries.version))
    }

    fn start(&mut self) -> Result<()> {
        let driver = Driver::get()?;
        let (context, device) = driver.current()?;
        let clocks = self.hold_clocks()?.guard.report().clone();
        let observer = Observer::default();
        let profiler = Profiler::builder()
            .observer(observer.clone())
            .watch_waits(self.launch_ahead.is_some())
            .serialize_kernels(self.serializes_kernels);
        let profiler = match &self.output {
            Some(folder) => profiler.output(folder).overwrite(self.overwrite),
            None => profiler,
        };
        let profiler = profiler.start()?;
        let l2 = L2Control::new(self.cache)?;
        let gate = self.stream.zip(self.launch_ahead);
        let gate = gate.map(|(stream, timeout)| LaunchGate::new(stream, timeout)).transpose()?;
        let mut heat = ThermalGuard::of_current_context(self.thermal, None)?.budget(self.thermal_budget);
        if self.progress {
            heat = heat.on_wait(|wait| progress::tell(&wait.to_string()));
        }
        let uname = rustix::system::uname();
        self.facts = vec![
            ("gpu.name".to_owned(), device.name.clone()),
            ("gpu.uuid".to_owned(), device.uuid.clone()),
            ("gpu.l2_bytes".to_owned(), device.l2_bytes.to_string()),
            ("driver.cuda_version".to_owned(), driver.version.to_string()),
            ("host.name".to_owned(), uname.nodename().to_string_lossy().into_owned()),
            ("bench.clocks".to_owned(), clocks.to_string()),
            ("bench.clock_status".to_owned(), clocks.status.as_str().to_owned()),
            ("cupti.version".to_owned(), Libraries::get(None)?.version.to_string()),
        ];
        let peaks = [
            ("gpu.clock_rate_khz", device.clock_rate_khz),
            ("gpu.memory_clock_rate_khz", device.memory_clock_rate_khz),
        ];
        self.facts
            .extend(peaks.iter().filter_map(|(key, khz)| Some(((*key).to_owned(), (*khz)?.to_string()))));
        let version = std::fs::read_to_string("/sys/module/nvidia/version");
        self.facts
            .extend(version.ok().map(|version| ("driver.version".to_owned(), version.trim().to_owned())));
        self.tracing = Some(Tracing {
            profiler,
            observer,
            driver,
            context,
            l2,
            gate,
            heat,
            heat_asked: None,
            open: Vec::new(),
            regions: FxHashSet::default(),
            parents: FxHashMap::default(),
            waiting: Vec::new(),
        });
        Ok(())
    }

    fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    fn now_ns(&self) -> i64 {
        Nanos::now().0
    }

    fn next_run(&mut self, config: usize, run: usize) {
        self.run = (config, run);
    }

    fn before_run(&mut self) -> Result<bool> {
        let tracing = self.tracing()?;
        let now = Instant::now();
        if tracing.heat_asked.is_none_or(|asked| now - asked >= ASK_EVERY) {
            let pause = tracing.heat.before_run()?;
            tracing.heat_asked = Some(Instant::now());
            return Ok(pause.is_some());
        }
        Ok(false)
    }

    fn before_region(&mut self) -> Result<()> {
        let stream = self.stream;
        let tracing = self.tracing()?;
        match stream {
            Some(stream) => tracing.l2.apply_on(stream)?,
            None => tracing.l2.apply()?,
        }
        tracing.gate.as_mut().map_or(Ok(()), LaunchGate::close)
    }

    fn after_region(&mut self) -> Gate {
        let gate = self.tracing.as_mut().and_then(|tracing| tracing.gate.as_mut());
        match gate.map(LaunchGate::open) {
            None => Gate::None,
            Some(None) => Gate::Held,
            Some(Some(broken)) => Gate::Broken(broken.to_string()),
        }
    }

    fn open(&mut self, name: &str) -> Region {
        let (config, run) = self.run;
        // CAST: `usize` has 64 bits at most
        let args = [Arg::new("config", config as u64), Arg::new("run", run as u64)];
        let range = Range::with_args(name, &args);
        let region = Region(range.id().map_or(0, |id| id.0.get()));
        if let Some(tracing) = &mut self.tracing {
            tracing.regions.insert(region);
            tracing.open.push((region, range));
        }
        region
    }

    fn close(&mut self, region: Region) {
        if let Some(tracing) = &mut self.tracing {
            tracing.open.retain(|(open, _)| *open != region);
        }
    }

    fn range_id(&self, region: Region) -> Option<i64> {
        self.output.as_ref()?;
        RangeId::from_raw(region.0).map(RangeId::to_i64)
    }

    fn after_run(&mut self) -> Result<()> {
        let tracing = self.tracing()?;
        tracing.driver.synchronize(tracing.context)
    }

    fn conditions(&mut self, last: bool) -> Option<RunConditions> {
        let clocks = self.clocks.as_mut()?;
        let (asked, before) = clocks.read;
        if !last && asked.elapsed() < ASK_EVERY {
            return None;
        }
        let now = clocks.guard.read();
        clocks.read = (Instant::now(), now);
        Some(RunConditions::between(&before, &now)).filter(|known| *known != RunConditions::default())
    }

    fn collect(&mut self) -> Result<Vec<Kernel>> {
        let tracing = self.tracing()?;
        tracing.driver.synchronize(tracing.context)?;
        tracing.profiler.flush()?;
        Ok(tracing.take())
    }

    fn stop(&mut self) -> Result<(Vec<Kernel>, Vec<Loss>)> {
        let Some(mut tracing) = self.tracing.take() else { return Ok((Vec::new(), Vec::new())) };
        tracing.open.clear();
        let profiler = std::mem::replace(&mut tracing.profiler, Profiler::disabled());
        let (ended, dataset) = profiler.finish_open();
        self.dataset = dataset;
        self.facts.push(("bench.cache".to_owned(), tracing.l2.report().to_string()));
        self.facts.push(("bench.thermal".to_owned(), tracing.heat.report().to_string()));
        self.denied[1] = tracing.heat.report().message.clone();
        let kernels = tracing.take();
        let losses = match ended {
            Ok(profile) => profile.losses().to_vec(),
            // The times are there all the same, and what is missing of them or of the files is in the losses.
            Err(failed) if !failed.profile.losses().is_empty() => failed.profile.losses().to_vec(),
            Err(failed) => return Err(failed.error),
        };
        Ok((kernels, losses))
    }

    fn count(&mut self, levels: u16, work: &mut Work<'_>) -> Result<Vec<MetricRow>> {
        let plan =
            self.plan.clone().ok_or_else(|| Error::new(ErrorKind::Config, "nothing is to be counted"))?;
        self.hold_clocks()?;
        let between = Conditioned { l2: L2Control::new(self.cache)?, clock_mode: self.clock_mode };
        let session = Session::new(plan).nesting_levels(levels).between_passes(between);
        let counted = session.run(|pass| work(&Passed(pass)))?;
        Ok(counted.metric_rows())
    }

    fn cache_state(&self) -> &'static str {
        self.cache.state()
    }

    fn clock_mode(&self) -> String {
        self.clock_mode.to_owned()
    }

    fn not_in_force(&self) -> Vec<String> {
        let of = ["clocks are not as asked", "heat is not watched"].into_iter().zip(&self.denied);
        of.filter_map(|(what, why)| Some(format!("{what}: {}", in_line(why.as_ref()?)))).collect()
    }

    fn facts(&self) -> Vec<(String, String)> {
        self.facts.clone()
    }
}

/// Has counted annotations find the cache as timed ones do, and tells at which clocks.
struct Conditioned {
    l2: L2Control,
    clock_mode: &'static str,
}

impl BetweenPasses for Conditioned {
    fn before_pass(&mut self, pass: usize) -> Result<()> {
        self.l2.before_pass(pass)
    }

    fn before_range(&mut self, name: &str, level: u16) -> Result<()> {
        self.l2.before_range(name, level)
    }

    fn cache_state(&self) -> &str {
        self.l2.cache_state()
    }

    fn clock_mode(&self) -> &str {
        self.clock_mode
    }
}

/// A counted pass.
struct Passed<'a, 'p>(&'a Pass<'p>);

impl Regions for Passed<'_, '_> {
    fn open<'a>(&'a self, name: &str) -> Box<dyn Opened + 'a> {
        Box::new(PassedRange(self.0.open(name)))
    }
}

/// A counted range; it ends when it is dropped.
struct PassedRange<T>(T);

impl<T> Opened for PassedRange<T> {
    /// The work's own error ends the session, if it hands it on.
    fn failed(&mut self, _what: String) {}
}
