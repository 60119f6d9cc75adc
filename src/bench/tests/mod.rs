mod bad_input;
mod counting;
mod failures;
mod output;
#[cfg(feature = "plot")]
mod plots;
mod runs;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use super::rig::{Gate, Kernel, Opened, Region, Regions, Rig, Work};
use super::value::Config;
use super::{Bench, BenchError, Outcome, Report, Run};
use crate::control::RunConditions;
use crate::error::{Error, ErrorKind, Result};
use crate::losses::Loss;
use crate::table::rows::{KernelName, MetricRow};

pub(in crate::bench) type TestOutcome = Result<(), Box<dyn std::error::Error>>;

/// A GPU whose kernels take as long as the test says, on a clock that only they move.
#[derive(Clone, Default)]
pub(in crate::bench) struct Gpu(Rc<RefCell<World>>);

#[derive(Default)]
struct World {
    now_ns: i64,
    regions: u64,
    open: Vec<Region>,
    kernels: Vec<Kernel>,
    /// What was asked of the rig, in order.
    log: Vec<String>,
    /// The next of these fails with this error.
    failing: Option<(&'static str, ErrorKind)>,
    conditions: Option<RunConditions>,
    /// The next run has to wait.
    is_hot: bool,
    losses: Vec<Loss>,
    /// Values of counters, by annotation and metric: of the first counting, the second, …, and in each of its first use in a
    /// pass, the second, …; the last for all others.
    counts: Vec<(&'static str, &'static str, Vec<Vec<f64>>)>,
    countings: usize,
    planned: Vec<String>,
    counts_first: bool,
    /// What becomes of the gates, the next one last.
    gates: Vec<Gate>,
}

impl Gpu {
    /// Runs a kernel after everything before.
    pub fn launch(&self, name: &str, duration_ns: i64) {
        let start = self.0.borrow().now_ns + 1_000;
        self.launch_at(name, start, start + duration_ns, None);
    }

    pub fn launch_at(&self, name: &str, start_ns: i64, end_ns: i64, invalid: Option<&'static str>) {
        let mut world = self.0.borrow_mut();
        world.now_ns = world.now_ns.max(end_ns);
        if let Some(region) = world.open.last().copied() {
            let name: Arc<str> = name.into();
            let name = Arc::new(KernelName { mangled: Arc::clone(&name), demangled: name });
            world.kernels.push(Kernel { region, name, start_ns, end_ns, in_graph: false, invalid });
        }
    }

    pub fn now_ns(&self) -> i64 {
        self.0.borrow().now_ns
    }

    /// Time that passes on the host.
    pub fn sleep(&self, time: Duration) {
        self.0.borrow_mut().now_ns += time.as_nanos() as i64;
    }

    /// The next call of this name fails.
    pub fn fail(&self, call: &'static str, kind: ErrorKind) {
        self.0.borrow_mut().failing = Some((call, kind));
    }

    /// The next run has to wait.
    pub fn is_hot(&self) {
        self.0.borrow_mut().is_hot = true;
    }

    pub fn lose(&self, loss: Loss) {
        self.0.borrow_mut().losses.push(loss);
    }

    /// This becomes of the gates of the next annotations, in turn.
    pub fn gates(&self, mut gates: Vec<Gate>) {
        gates.reverse();
        self.0.borrow_mut().gates = gates;
    }

    pub fn has(&self, conditions: RunConditions) {
        self.0.borrow_mut().conditions = Some(conditions);
    }

    pub fn counts(&self, annotation: &'static str, metric: &'static str, value: f64) {
        self.counts_of_uses(annotation, metric, &[value]);
    }

    pub fn counts_of_uses(&self, annotation: &'static str, metric: &'static str, values: &[f64]) {
        self.0.borrow_mut().counts.push((annotation, metric, vec![values.to_vec()]));
    }

    pub fn counts_each_time(&self, annotation: &'static str, metric: &'static str, values: &[f64]) {
        let values = values.iter().map(|value| vec![*value]).collect();
        self.0.borrow_mut().counts.push((annotation, metric, values));
    }

    /// Nothing can be counted once something was traced.
    pub fn counts_first(&self) {
        self.0.borrow_mut().counts_first = true;
    }

    pub fn log(&self) -> Vec<String> {
        self.0.borrow().log.clone()
    }

    fn call(&self, name: &str) -> Result<()> {
        let mut world = self.0.borrow_mut();
        world.log.push(name.to_owned());
        match world.failing {
            Some((call, kind)) if call == name => {
                world.failing = None;
                Err(Error::new(kind, format!("the simulated {call} failed")))
            }
            _ => Ok(()),
        }
    }

    /// Measures with this GPU.
    pub fn run<C: Config, R: Outcome>(
        &self,
        bench: Bench<C>,
        work: impl FnMut(&Run<'_>, &C) -> R,
    ) -> Result<Report, BenchError> {
        let mut bench = bench.progress(false);
        bench.apply_overrides();
        super::engine::run(bench, &mut self.clone(), work)
    }
}

impl Rig for Gpu {
    fn plan(&mut self, names: &[String]) -> Result<Vec<String>> {
        let mut world = self.0.borrow_mut();
        let known: Vec<String> = world.counts.iter().map(|(_, metric, _)| (*metric).to_owned()).collect();
        // A preset: all that there is.
        let planned = if names == ["headline"] { known.clone() } else { names.to_vec() };
        if let Some(missing) = planned.iter().find(|metric| !known.contains(metric)) {
            return Err(Error::new(ErrorKind::Config, format!("no metric {missing:?} on this chip")));
        }
        world.planned.clone_from(&planned);
        Ok(planned)
    }

    fn counts_first(&self) -> bool {
        self.0.borrow().counts_first
    }

    fn start(&mut self) -> Result<()> {
        self.call("start")
    }

    fn elapsed(&self) -> Duration {
        Duration::from_nanos(self.0.borrow().now_ns as u64)
    }

    fn now_ns(&self) -> i64 {
        Gpu::now_ns(self)
    }

    fn next_run(&mut self, _config: usize, _run: usize) {}

    fn before_run(&mut self) -> Result<bool> {
        self.call("before_run")?;
        Ok(std::mem::take(&mut self.0.borrow_mut().is_hot))
    }

    fn before_region(&mut self) -> Result<()> {
        self.call("before_region")
    }

    fn after_region(&mut self) -> Gate {
        self.0.borrow_mut().gates.pop().unwrap_or(Gate::None)
    }

    fn open(&mut self, name: &str) -> Region {
        let mut world = self.0.borrow_mut();
        world.regions += 1;
        let region = Region(world.regions);
        world.open.push(region);
        world.log.push(format!("open {name}"));
        region
    }

    fn close(&mut self, region: Region) {
        self.0.borrow_mut().open.retain(|open| *open != region);
    }

    fn range_id(&self, _region: Region) -> Option<i64> {
        None
    }

    fn after_run(&mut self) -> Result<()> {
        self.call("after_run")
    }

    fn conditions(&mut self, last: bool) -> Option<RunConditions> {
        self.0.borrow().conditions.filter(|_| last)
    }

    fn collect(&mut self) -> Result<Vec<Kernel>> {
        self.call("collect")?;
        Ok(std::mem::take(&mut self.0.borrow_mut().kernels))
    }

    fn stop(&mut self) -> Result<(Vec<Kernel>, Vec<Loss>)> {
        self.call("stop")?;
        let mut world = self.0.borrow_mut();
        Ok((std::mem::take(&mut world.kernels), world.losses.clone()))
    }

    fn count(&mut self, levels: u16, work: &mut Work<'_>) -> Result<Vec<MetricRow>> {
        self.call(&format!("count {levels}"))?;
        let mut opened = Vec::new();
        for _ in 0..2 {
            let pass = FakePass { names: RefCell::default() };
            let failed = |source: Box<dyn std::error::Error + Send + Sync>| {
                Error::new(ErrorKind::Program, "the work failed").with_source(source)
            };
            work(&pass).map_err(failed)?;
            opened = pass.names.into_inner();
        }
        if opened.is_empty() {
            return Err(Error::new(ErrorKind::Config, "the work opened no range"));
        }
        let mut world = self.0.borrow_mut();
        world.countings += 1;
        let nth = |values: &[Vec<f64>], counting: usize, uses: usize| {
            let of_uses = values.get(counting - 1).or(values.last())?;
            of_uses.get(uses).or(of_uses.last()).copied()
        };
        let mut counts = Vec::new();
        for (range, annotation) in opened.iter().enumerate() {
            for metric in &world.planned {
                let known = world.counts.iter().find(|(at, name, _)| at == annotation && name == metric);
                let uses = opened[..range].iter().filter(|before| *before == annotation).count();
                counts.push(MetricRow {
                    range_path: Some((*annotation).as_str().into()),
                    range_index: range as i64,
                    nesting_level: 1,
                    kernel: None,
                    metric: metric.as_str().into(),
                    asked: metric.as_str().into(),
                    value: known.and_then(|(.., values)| nth(values, world.countings, uses)),
                    null_reason: known.is_none().then(|| "no_data".into()),
                    unit: "bytes".into(),
                    passes: 2,
                    range_mode: "user".into(),
                    replay_mode: "user".into(),
                    cache_state: "cold_clean".into(),
                    clock_mode: "free".into(),
                    chip: "GH100".into(),
                    device: 0,
                    config: None,
                    config_index: None,
                    run: None,
                });
            }
        }
        Ok(counts)
    }

    fn cache_state(&self) -> &'static str {
        "cold_clean"
    }

    fn clock_mode(&self) -> String {
        "free".to_owned()
    }

    fn not_in_force(&self) -> Vec<String> {
        Vec::new()
    }

    fn facts(&self) -> Vec<(String, String)> {
        let facts = [("gpu.name", "Simulated"), ("host.name", "desk"), ("gpu.clock_rate_khz", "1980000")];
        facts.map(|(key, value)| (key.to_owned(), value.to_owned())).to_vec()
    }
}

struct FakePass {
    names: RefCell<Vec<String>>,
}

impl Regions for FakePass {
    fn open<'a>(&'a self, name: &str) -> Box<dyn Opened + 'a> {
        self.names.borrow_mut().push(name.to_owned());
        Box::new(Nothing)
    }
}

struct Nothing;

impl Opened for Nothing {
    fn failed(&mut self, _what: String) {}
}

/// The values of a metric of a whole annotation in a configuration, in order.
pub(super) fn values(report: &Report, config: usize, annotation: &str, metric: &str) -> Vec<Option<f64>> {
    let is_it = |sample: &&super::RunSample| {
        sample.config_index == config
            && &*sample.annotation == annotation
            && &*sample.metric == metric
            && sample.kernel.is_none()
    };
    report.samples().iter().filter(is_it).map(|sample| sample.value).collect()
}
