//! What is done to the GPU between passes.

use super::controlled::{L2Residual, l2_residual};
use crate::control::{Cache, CacheReport, GpuMonitor, L2Control, RunConditions};
use crate::driver::nvml::GpuReading;
use crate::error::{Error, ErrorKind, Result};

/// Puts the GPU into a known state before each pass and each range: cache, clocks, temperature, inputs.
///
/// Calls come on the thread of [`Session::run`](super::Session::run), with the context current. Nothing waits for the
/// GPU before them but at the beginning of a pass, where everything launched before has run. Work that is launched here
/// is not in any range; it is counted only where each kernel is counted by itself, where `before_range` is not called.
/// An error ends the session, which cleans up and returns it.
pub trait BetweenPasses {
    /// Before the pass with this number, from 0; not inside a pass.
    ///
    /// # Errors
    /// Whatever prevents the state that was asked for.
    fn before_pass(&mut self, pass: usize) -> Result<()> {
        let _ = pass;
        Ok(())
    }

    /// Before a range is opened, inside a pass. Level 1 is a range in no other; inside a counted one, this work counts
    /// for that one.
    ///
    /// # Errors
    /// As [`before_pass`](Self::before_pass).
    fn before_range(&mut self, name: &str, level: u16) -> Result<()> {
        let _ = (name, level);
        Ok(())
    }

    /// The state of the L2 cache that this leaves before a range, as the column `cache_state` has it.
    fn cache_state(&self) -> &str {
        "none"
    }

    /// What was done to the clocks, as the column `clock_mode` has it.
    fn clock_mode(&self) -> &str {
        "free"
    }
}

/// Leaves the GPU as it is. The default.
#[derive(Clone, Copy, Debug, Default)]
pub struct Leave;

impl BetweenPasses for Leave {}

/// What a session does before passes and ranges: its own cache control, then the program's hook.
pub(super) struct Between {
    cache: Cache,
    control: Option<L2Control>,
    residual: Option<L2Residual>,
    hook: Box<dyn BetweenPasses>,
}

impl Between {
    /// In the context that is current.
    pub fn new(cache: Cache, hook: Box<dyn BetweenPasses>) -> Result<Self> {
        let control = match cache {
            Cache::Keep | Cache::Cupti(_) => None,
            _ => Some(L2Control::new(cache)?),
        };
        Ok(Self { cache, control, residual: None, hook })
    }

    /// Measures what the control leaves in the cache, in a session of its own.
    pub fn verify(&mut self) -> Result<()> {
        let Some(control) = &mut self.control else {
            let what = format!("the cache control {:?} leaves nothing to verify", self.cache);
            return Err(
                Error::new(ErrorKind::Config, what).with_hint("choose one: Session::cache(Cache::Flush)")
            );
        };
        self.residual = Some(l2_residual(control)?);
        Ok(())
    }

    pub fn before_pass(&mut self, pass: usize) -> Result<()> {
        self.control.as_mut().map_or(Ok(()), L2Control::apply)?;
        self.hook.before_pass(pass)
    }

    pub fn before_range(&mut self, name: &str, level: u16) -> Result<()> {
        if let Some(control) = &mut self.control
            && level == 1
        {
            control.apply()?;
        }
        self.hook.before_range(name, level)
    }

    pub fn report(&self) -> Option<&CacheReport> {
        self.control.as_ref().map(L2Control::report)
    }

    pub fn residual(&self) -> Option<L2Residual> {
        self.residual
    }

    /// The hook's, where the session itself does nothing.
    pub fn cache_state(&self) -> &str {
        match self.cache {
            Cache::Keep => self.hook.cache_state(),
            cache => cache.state(),
        }
    }

    pub fn clock_mode(&self) -> &str {
        self.hook.clock_mode()
    }

    /// What the session's control did, for the dataset.
    pub fn facts(&self) -> Vec<(String, String)> {
        let mut facts = vec![("counters.cache".to_owned(), self.cache.to_string())];
        if let Some(report) = self.report() {
            facts.push(("counters.cache_applied".to_owned(), report.applied.to_string()));
            facts.push(("counters.cache_bytes".to_owned(), report.bytes.to_string()));
        }
        if let Some(residual) = &self.residual {
            let ratio = residual.hit_ratio.to_string();
            facts.push(("counters.cache_residual_hit_ratio".to_owned(), ratio));
        }
        facts
    }
}

/// What the GPU was like in each pass.
pub(super) struct Conditions {
    monitor: Option<GpuMonitor>,
    before: GpuReading,
    pub passes: Vec<RunConditions>,
}

impl Conditions {
    /// Of the GPU with this UUID. Without NVML nothing is known of it, and that stops no counting.
    pub fn of(uuid: &str) -> Self {
        let monitor = GpuMonitor::open(uuid, None).ok();
        Self { monitor, before: GpuReading::default(), passes: Vec::new() }
    }

    pub fn before_pass(&mut self) {
        // The reading after one pass is that before the next.
        if let (Some(monitor), true) = (&self.monitor, self.passes.is_empty()) {
            self.before = monitor.read();
        }
    }

    pub fn after_pass(&mut self) {
        if let Some(monitor) = &self.monitor {
            let after = monitor.read();
            self.passes.push(RunConditions::between(&self.before, &after));
            self.before = after;
        }
    }
}
