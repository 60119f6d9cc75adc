//! What a measurement is made with: the GPU and its profilers, or a stand-in.

use std::sync::Arc;
use std::time::Duration;

use crate::control::RunConditions;
use crate::error::Result;
use crate::losses::Loss;
use crate::table::rows::{KernelName, MetricRow};

/// One annotated stretch of one run, numbered by its rig.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Region(pub u64);

/// What became of the gate in front of an annotation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Gate {
    /// There was none.
    None,
    /// It held until everything was launched.
    Held,
    /// It was opened before: why.
    Broken(String),
}

/// A kernel that ran.
#[derive(Clone, Debug)]
pub(super) struct Kernel {
    /// The innermost annotation that it was launched in.
    pub region: Region,
    pub name: Arc<KernelName>,
    pub start_ns: i64,
    pub end_ns: i64,
    /// Whether it was a node of a graph.
    pub in_graph: bool,
    /// Why its times cannot be used.
    pub invalid: Option<&'static str>,
}

/// Opens annotations, which end when what it returns is dropped.
pub(super) trait Regions {
    fn open<'a>(&'a self, name: &str) -> Box<dyn Opened + 'a>;
}

/// An open annotation.
pub(super) trait Opened {
    /// Says that what was measured failed.
    fn failed(&mut self, what: String);
}

/// The failed work, boxed as the counters want it.
pub(super) type Work<'w> =
    dyn FnMut(&dyn Regions) -> Result<(), Box<dyn std::error::Error + Send + Sync>> + 'w;

/// Everything that touches the GPU.
///
/// Runs are made like this: `before_run`, for each annotation `before_region`, `open`, `after_region`, `close`, then
/// `after_run`; around annotations inside of others only `open` and `close`.
pub(super) trait Rig {
    /// The metrics that these names stand for; fails where they cannot be counted here. Before anything is measured.
    fn plan(&mut self, names: &[String]) -> Result<Vec<String>>;
    /// Whether counters have to be counted before anything is traced, since they could not be afterwards.
    fn counts_first(&self) -> bool;
    /// Begins to trace.
    fn start(&mut self) -> Result<()>;
    /// Time since some moment.
    fn elapsed(&self) -> Duration;
    /// The present time on the clock of the kernels' times.
    fn now_ns(&self) -> i64;
    /// Which run comes next, for what is noted of its annotations.
    fn next_run(&mut self, config: usize, run: usize);
    /// Waits while the GPU is too hot. Whether it had to.
    fn before_run(&mut self) -> Result<bool>;
    /// Brings the cache into its state, and closes the gate, if there is to be one.
    fn before_region(&mut self) -> Result<()>;
    /// Opens the gate: all of the annotation is launched.
    fn after_region(&mut self) -> Gate;
    fn open(&mut self, name: &str) -> Region;
    fn close(&mut self, region: Region);
    /// Its id in `ranges`, where these are written.
    fn range_id(&self, region: Region) -> Option<i64>;
    /// Waits for what the run launched.
    fn after_run(&mut self) -> Result<()>;
    /// What the GPU was like since it was last asked, or since counting began. None: it is too early to ask again, unless it
    /// is the `last` time; or nothing is known.
    fn conditions(&mut self, last: bool) -> Option<RunConditions>;
    /// Kernels that came since it was last asked.
    fn collect(&mut self) -> Result<Vec<Kernel>>;
    /// Ends tracing: the kernels that are left, and what was lost.
    fn stop(&mut self) -> Result<(Vec<Kernel>, Vec<Loss>)>;
    /// Runs the work in passes and counts what was planned, with annotations as deep in each other as `levels` says. A row's `range_index` is
    /// the number of the annotation in each of the passes.
    fn count(&mut self, levels: u16, work: &mut Work<'_>) -> Result<Vec<MetricRow>>;
    /// In one word, as tables have it.
    fn cache_state(&self) -> &'static str;
    /// In one word, as tables have it.
    fn clock_mode(&self) -> String;
    /// What was asked for and is not in force: why, and what to do.
    fn not_in_force(&self) -> Vec<String>;
    /// What was in force, for `env`.
    fn facts(&self) -> Vec<(String, String)>;
}
