//! Clocks: measured by default, pinned where asked and allowed, and released whatever happens.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::monitor::{GpuMonitor, Watch};
use super::pin::{self, Pin};
use super::signals;
use crate::cupti::Libraries;
use crate::driver::nvml::GpuReading;
use crate::driver::{Context, Driver};
use crate::error::{Error, ErrorKind, Result};

/// Which clock a measurement should run at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Clocks {
    /// Whatever the GPU chooses; nothing is changed, and the clocks of each run are recorded.
    #[default]
    Measure,
    /// The rated clock, which the GPU can hold under any load, unless heat or power forbid. NVML knows it by a symbol
    /// only (its TDP limit); there is no call that tells its number.
    Base,
    /// The highest clock that NVML tells. Heavy loads fall below it by the power limit: see the recorded throttling.
    Boost,
    /// This clock of the multiprocessors, in MHz; the GPU takes the nearest one that it has.
    Mhz(u32),
}

impl fmt::Display for Clocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Measure => f.write_str("measure"),
            Self::Base => f.write_str("base"),
            Self::Boost => f.write_str("boost"),
            Self::Mhz(mhz) => write!(f, "{mhz} MHz"),
        }
    }
}

/// What pins the clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ClockBackend {
    /// NVML's locked clocks, which a watchdog can release after a crash.
    #[default]
    Nvml,
    /// CUPTI's clock control (13.4 and newer). Its lock outlives the process, and no other process can release it: after
    /// a crash it stays until the driver is loaded again. So it must be asked for.
    Cupti,
}

impl fmt::Display for ClockBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nvml => "NVML",
            Self::Cupti => "CUPTI",
        })
    }
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ClockStatus {
    /// Nothing was asked for: the clocks are free, as far as this process goes.
    Measured,
    /// The clocks are pinned.
    Applied,
    /// They were, and are released.
    Released,
    /// This user may not.
    Denied,
    /// This GPU, driver or machine cannot.
    Unsupported,
    /// Somebody else has set the clocks, or computes on the GPU; theirs is left alone.
    Busy,
    /// It failed in another way.
    Failed,
}

impl ClockStatus {
    /// The word that tables have.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Applied => "applied",
            Self::Released => "released",
            Self::Denied => "denied",
            Self::Unsupported => "unsupported",
            Self::Busy => "busy",
            Self::Failed => "failed",
        }
    }

    fn of(error: &Error) -> Self {
        match error.kind {
            ErrorKind::PermissionDenied => Self::Denied,
            ErrorKind::NotSupported | ErrorKind::NvmlNotFound | ErrorKind::CuptiTooOld => Self::Unsupported,
            ErrorKind::GpuInUse => Self::Busy,
            _ => Self::Failed,
        }
    }
}

/// Who has set the clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ClockOwner {
    /// Nobody, as far as can be told: NVML does not tell whether clocks are locked while a GPU idles.
    Nobody,
    /// This guard.
    Us,
    /// A process of this crate that is still there, by its id.
    Process(u32),
    /// A process of this crate that died and left them: [`reset_clocks`](crate::reset_clocks) releases them.
    DeadProcess(u32),
    /// Somebody else.
    Other,
}

impl fmt::Display for ClockOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nobody => f.write_str("nobody"),
            Self::Us => f.write_str("this process"),
            Self::Process(pid) => write!(f, "process {pid}"),
            Self::DeadProcess(pid) => write!(f, "process {pid}, which has died"),
            Self::Other => f.write_str("somebody else"),
        }
    }
}

/// What was asked for, what is in force, and who owns it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClockReport {
    /// What was asked for.
    pub asked: Clocks,
    /// What became of it.
    pub status: ClockStatus,
    /// Who has set the clocks.
    pub owner: ClockOwner,
    /// What was to pin them; none where nothing was asked for.
    pub backend: Option<ClockBackend>,
    /// UUID of the physical GPU, as `nvidia-smi -L` prints it.
    pub gpu_uuid: String,
    /// The clock that was set, where it has a number; none for [`Clocks::Base`].
    pub pinned_mhz: Option<u32>,
    /// The GPU right after the request. An idle GPU shows a low clock even where a higher one is pinned: what was in
    /// force in a run is in that run's conditions.
    pub reading: GpuReading,
    /// The process that releases the clocks if this one dies.
    pub watchdog_pid: Option<u32>,
    /// Why the clocks are not as asked, with what to do.
    pub message: Option<String>,
}

impl ClockReport {
    /// The clocks in one word, as tables have it: `fixed_frequency` where they are pinned by this guard or somebody else,
    /// `free` otherwise.
    #[must_use]
    pub fn clock_mode(&self) -> &'static str {
        if self.owner == ClockOwner::Nobody { "free" } else { "fixed_frequency" }
    }
}

impl fmt::Display for ClockReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "clocks of {}: {} ({})", self.gpu_uuid, self.asked, self.status.as_str())?;
        if let Some(mhz) = self.reading.sm_clock_mhz {
            write!(f, ", SM at {mhz} MHz")?;
        }
        if let Some(mhz) = self.reading.memory_clock_mhz {
            write!(f, ", memory at {mhz} MHz")?;
        }
        if let Some(reasons) = self.reading.throttle {
            write!(f, ", throttle: {reasons}")?;
        }
        if self.owner != ClockOwner::Nobody {
            write!(f, ", set by {}", self.owner)?;
        }
        match &self.message {
            Some(message) => write!(f, "\n  {message}"),
            None => Ok(()),
        }
    }
}

/// A request for clocks; [`ClockRequest::start`] makes the guard.
#[derive(Clone, Debug, Default)]
#[must_use = "nothing is done before `start`"]
pub struct ClockRequest {
    asked: Clocks,
    gpu_uuid: Option<String>,
    nvml_path: Option<PathBuf>,
    backend: ClockBackend,
    on_signals: bool,
    without_watchdog: bool,
}

impl ClockRequest {
    /// For the GPU of the context that is current to the thread at the start.
    pub fn new(asked: Clocks) -> Self {
        Self { asked, ..Self::default() }
    }

    /// For the GPU with this UUID, as CUDA or `nvidia-smi -L` print it.
    pub fn gpu_uuid(mut self, uuid: impl Into<String>) -> Self {
        self.gpu_uuid = Some(uuid.into());
        self
    }

    /// The NVML library, in place of what `CUPROF_NVML_PATH` names, or else the driver's.
    pub fn nvml_path(mut self, path: impl AsRef<Path>) -> Self {
        self.nvml_path = Some(path.as_ref().to_owned());
        self
    }

    /// What pins the clocks. Default: [`ClockBackend::Nvml`].
    pub fn backend(mut self, backend: ClockBackend) -> Self {
        self.backend = backend;
        self
    }

    /// Whether SIGINT and SIGTERM release the clocks before they end the process, as they do by default. For programs
    /// without handlers of their own for these: others call [`ClockGuard::release`] there. Default: off; the watchdog
    /// then releases the clocks right after the process has ended.
    pub fn release_on_signals(mut self, release: bool) -> Self {
        self.on_signals = release;
        self
    }

    /// Whether clocks are pinned even if no watchdog can be started. They then stay pinned after a crash. Default: off.
    pub fn without_watchdog(mut self, without: bool) -> Self {
        self.without_watchdog = without;
        self
    }

    /// Pins the clocks, if that was asked for and can be done. Where it cannot (no permission, somebody else's clocks, no
    /// NVML, …), the guard's report says why and what to do, and the measurement goes on with the clocks as they are.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] where no GPU is named and no context is current, or where the clock is above the highest of
    /// this GPU; [`ErrorKind::NoDriver`]; [`ErrorKind::NoDevice`] where NVML has no GPU with this UUID.
    pub fn start(self) -> Result<ClockGuard> {
        let current = || Driver::get().and_then(Driver::current);
        let uuid = match &self.gpu_uuid {
            Some(uuid) => uuid.clone(),
            None => current()?.1.uuid,
        };
        let monitor = match GpuMonitor::open(&uuid, self.nvml_path.as_deref()) {
            Ok(monitor) => monitor,
            Err(error) if error.kind == ErrorKind::NoDevice => return Err(error),
            Err(error) => {
                let report = self.report(uuid, GpuReading::default(), Some(&error));
                return Ok(ClockGuard { report, monitor: None, pin: Arc::default() });
            }
        };
        let uuid = monitor.uuid().to_owned();
        if self.asked == Clocks::Measure {
            let mut report = self.report(uuid, monitor.read(), None);
            report.owner = pin::owner(&monitor);
            return Ok(ClockGuard { report, monitor: Some(monitor), pin: Arc::default() });
        }
        let mhz = self.mhz(&monitor)?;
        let context = match self.backend {
            ClockBackend::Nvml => None,
            ClockBackend::Cupti => Some(current()?.0),
        };
        let pinned = self.pin(&monitor, mhz, context);
        let mut report = self.report(uuid, monitor.read(), pinned.as_ref().err());
        let slot = Arc::<Mutex<Option<Pin>>>::default();
        match pinned {
            Ok(pin) => {
                report.status = ClockStatus::Applied;
                report.owner = ClockOwner::Us;
                report.pinned_mhz = mhz;
                report.watchdog_pid = pin.watchdog_pid();
                *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(pin);
                signals::remember(&slot);
            }
            Err(_) => report.owner = pin::owner(&monitor),
        }
        Ok(ClockGuard { report, monitor: Some(monitor), pin: slot })
    }

    /// The clock to pin, where it has a number.
    fn mhz(&self, monitor: &GpuMonitor) -> Result<Option<u32>> {
        let most = monitor.gpu().max_sm_clock_mhz();
        match (self.asked, most) {
            (Clocks::Measure | Clocks::Base, _) => Ok(None),
            (Clocks::Boost, most) => Ok(most.ok()),
            (Clocks::Mhz(mhz), Ok(most)) if mhz == 0 || mhz > most => {
                Err(Error::new(ErrorKind::Config, format!("a clock of {mhz} MHz was asked for"))
                    .with_hint(format!("it must be from 1 to {most}, the highest of this GPU")))
            }
            (Clocks::Mhz(mhz), _) => Ok(Some(mhz)),
        }
    }

    fn pin(&self, monitor: &GpuMonitor, mhz: Option<u32>, context: Option<Context>) -> Result<Pin> {
        // Before anything is pinned, so that no signal comes between.
        if self.on_signals {
            signals::listen()?;
        }
        let asked = self.asked.to_string();
        match context {
            None => Pin::by_nvml(monitor, self.asked, mhz, asked, self.without_watchdog),
            Some(context) => Pin::by_cupti(monitor, Libraries::get(None)?.cupti, context, self.asked, asked),
        }
    }

    fn report(&self, gpu_uuid: String, reading: GpuReading, error: Option<&Error>) -> ClockReport {
        let asked = self.asked;
        ClockReport {
            asked,
            status: error.map_or(ClockStatus::Measured, ClockStatus::of),
            owner: ClockOwner::Nobody,
            backend: (asked != Clocks::Measure).then_some(self.backend),
            gpu_uuid,
            pinned_mhz: None,
            reading,
            watchdog_pid: None,
            message: error.map(ToString::to_string),
        }
    }
}

/// Holds the clocks of a GPU as asked for, or measures them.
///
/// Pinned clocks are released when the guard is dropped, also by a panic; by SIGINT and SIGTERM, if
/// [asked for](ClockRequest::release_on_signals); and by a watchdog process when this process ends in any other way,
/// SIGKILL included. The watchdog runs `nvidia-smi --reset-gpu-clocks`. Only what kills both at once (a container, a
/// service's control group) leaves clocks pinned; [`reset_clocks`](crate::reset_clocks) releases those, and a reboot
/// does. A forked child that never calls exec keeps the watchdog from noticing, for as long as the child lives.
///
/// Clocks that somebody else has set are left alone, and never released. That is known from a lock file for each GPU
/// (`CUPROF_STATE_DIR`, else `/run/lock`) between processes of this crate, and from NVML's throttle reasons of a
/// GPU that is not idle.
///
/// ```no_run
/// # fn main() -> cuprof::Result<()> {
/// use cuprof::{ClockRequest, Clocks};
///
/// let clocks = ClockRequest::new(Clocks::Measure).start()?;
/// let run = clocks.watch();
/// // … GPU work …
/// println!("{}", clocks.report());
/// println!("{:?}", run.map(|run| run.end()));
/// # Ok(())
/// # }
/// ```
///
/// Absence is a value here, too:
///
/// ```
/// # fn main() -> cuprof::Result<()> {
/// use cuprof::{ClockRequest, ClockStatus, Clocks};
///
/// let request = ClockRequest::new(Clocks::Base).gpu_uuid("GPU-0").nvml_path("/nowhere/libnvidia-ml.so.1");
/// let clocks = request.start()?;
/// assert_eq!(clocks.report().status, ClockStatus::Unsupported);
/// assert!(clocks.report().message.is_some());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "dropping it releases the clocks"]
pub struct ClockGuard {
    report: ClockReport,
    monitor: Option<GpuMonitor>,
    /// Shared with the thread that serves signals. None: nothing is pinned (any more).
    pin: Arc<Mutex<Option<Pin>>>,
}

impl ClockGuard {
    /// What was asked for, what is in force, and who owns it.
    #[must_use]
    pub fn report(&self) -> &ClockReport {
        &self.report
    }

    /// The GPU now; empty where there is no NVML.
    #[must_use]
    pub fn read(&self) -> GpuReading {
        self.monitor.as_ref().map(GpuMonitor::read).unwrap_or_default()
    }

    /// Begins a run, whose clocks and throttling [`Watch::end`] gives; none where there is no NVML. A counter session
    /// watches each of its passes by itself.
    #[must_use]
    pub fn watch(&self) -> Option<Watch<'_>> {
        self.monitor.as_ref().map(GpuMonitor::watch)
    }

    /// Releases what is pinned, and tells how that went.
    ///
    /// # Errors
    /// The failed call. The watchdog then tries, and the lock file keeps telling.
    pub fn release(mut self) -> Result<ClockReport> {
        self.let_go()?;
        Ok(self.report.clone())
    }

    fn let_go(&mut self) -> Result<()> {
        let pin = self.pin.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(pin) = pin else { return Ok(()) };
        pin.release()?;
        self.report.status = ClockStatus::Released;
        self.report.owner = ClockOwner::Nobody;
        Ok(())
    }
}

impl Drop for ClockGuard {
    fn drop(&mut self) {
        let _nobody_to_tell = self.let_go();
    }
}
