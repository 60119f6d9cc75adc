//! Clocks that this process has pinned.

use std::fmt;
use std::path::Path;

use super::clocks::{ClockBackend, ClockOwner, Clocks};
use super::lock_file::{Acquired, Holder, LockFile};
use super::monitor::GpuMonitor;
use super::switch;
use super::watchdog::Watchdog;
use crate::cupti::{ClockLock, ClockMode, Cupti};
use crate::driver::nvml::{Gpu, Nvml, ThrottleReasons};
use crate::driver::{Context, Driver};
use crate::error::{Error, ErrorKind, Result};

/// What to do where the right to lock is missing.
const DENIED: &str = "locking clocks needs administrator's rights: run as root, or have an administrator run \
                      `nvidia-smi --lock-gpu-clocks` before; without, clocks are measured and recorded";

/// Clocks that are pinned. Dropping it without [`Pin::release`] leaves the release to the watchdog.
pub(super) struct Pin {
    /// A forked child has a copy, which is not its own.
    process: u32,
    lock: LockFile,
    by: By,
}

enum By {
    Nvml { gpu: Gpu, watchdog: Option<Watchdog> },
    Cupti { cupti: Cupti },
}

impl fmt::Debug for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pin").field("lock", &self.lock).finish_non_exhaustive()
    }
}

impl Pin {
    /// Has NVML lock the clock of the multiprocessors.
    pub fn by_nvml(
        monitor: &GpuMonitor,
        clocks: Clocks,
        mhz: Option<u32>,
        asked: String,
        without_watchdog: bool,
    ) -> Result<Self> {
        let (mut lock, left) = prepare(monitor)?;
        let mut gpu = monitor.another()?;
        let watchdog = match Watchdog::start(monitor.uuid(), &lock) {
            Ok(watchdog) => Some(watchdog),
            Err(_) if without_watchdog => None,
            Err(error) => return Err(error),
        };
        // Before the lock: whatever ends this process from here on is noticed.
        let locked =
            lock.write(&Holder::this_process(ClockBackend::Nvml, asked)).and_then(|()| match (clocks, mhz) {
                (Clocks::Measure, _) => Ok(()),
                (Clocks::Base, _) => gpu.lock_base(),
                (_, Some(mhz)) => gpu.lock_mhz(mhz),
                (_, None) => Err(Error::new(
                    ErrorKind::NotSupported,
                    "NVML does not tell the highest clock of this GPU",
                )),
            });
        if let Err(error) = locked {
            let _told = put_back(&mut lock, left);
            if let Some(watchdog) = watchdog {
                watchdog.dismiss();
            }
            return Err(explain(error));
        }
        Ok(Self { process: std::process::id(), lock, by: By::Nvml { gpu, watchdog } })
    }

    /// Has CUPTI lock the clocks of the context's device.
    pub fn by_cupti(
        monitor: &GpuMonitor,
        cupti: Cupti,
        context: Context,
        clocks: Clocks,
        asked: String,
    ) -> Result<Self> {
        let mode = match clocks {
            Clocks::Base => ClockMode::Base,
            Clocks::Boost => ClockMode::Boost,
            Clocks::Measure | Clocks::Mhz(_) => {
                return Err(Error::new(
                    ErrorKind::NotSupported,
                    format!("CUPTI cannot lock clocks at {clocks}"),
                )
                .with_hint("it has `Clocks::Base` and `Clocks::Boost`; NVML has any clock"));
            }
        };
        let (mut lock, left) = prepare(monitor)?;
        // Locking what is locked succeeds without being the owner, so it has to be asked before.
        if cupti.clock_lock(context)? != ClockLock::Unlocked {
            return Err(somebody_elses());
        }
        lock.write(&Holder::this_process(ClockBackend::Cupti, asked))?;
        if let Err(error) = cupti.lock_clocks(context, mode) {
            let _told = put_back(&mut lock, left);
            return Err(explain(error));
        }
        Ok(Self { process: std::process::id(), lock, by: By::Cupti { cupti } })
    }

    pub fn watchdog_pid(&self) -> Option<u32> {
        match &self.by {
            By::Nvml { watchdog, .. } => watchdog.as_ref().map(Watchdog::pid),
            By::Cupti { .. } => None,
        }
    }

    /// Releases the clocks.
    pub fn release(self) -> Result<()> {
        if self.process != std::process::id() {
            // Nothing of the parent's may be ended or waited for.
            std::mem::forget(self);
            return Ok(());
        }
        let Self { mut lock, by, .. } = self;
        match by {
            By::Nvml { mut gpu, watchdog } => {
                // Where this fails, the watchdog, whose pipe ends here, tries in its turn.
                gpu.unlock()?;
                lock.clear()?;
                if let Some(watchdog) = watchdog {
                    watchdog.dismiss();
                }
                Ok(())
            }
            By::Cupti { cupti } => {
                cupti.unlock_clocks()?;
                lock.clear()
            }
        }
    }
}

/// The file as it was: what somebody dead had left is still to be released.
fn put_back(lock: &mut LockFile, left: Option<Holder>) -> Result<()> {
    match left {
        Some(left) => lock.write(&left),
        None => lock.clear(),
    }
}

/// Takes the lock file, if the GPU's clocks may be pinned, with who left something in it.
fn prepare(monitor: &GpuMonitor) -> Result<(LockFile, Option<Holder>)> {
    switch::check()?;
    let gpu = monitor.gpu();
    if gpu.sliced {
        return Err(Error::new(ErrorKind::NotSupported, "the GPU is partitioned (MIG): others use it, too")
            .with_hint("measure on a whole GPU; without, clocks are measured and recorded"));
    }
    let others = other_processes(gpu);
    if others > 0 {
        let processes = if others == 1 { "process computes" } else { "processes compute" };
        let what = format!("{others} other {processes} on this GPU: pinned clocks would be theirs, too");
        return Err(Error::new(ErrorKind::GpuInUse, what)
            .with_hint("end them (nvidia-smi lists them) or measure on a GPU that is free; without, clocks are measured and recorded"));
    }
    match LockFile::acquire(monitor.uuid())? {
        Acquired::Held(holder) => {
            let who =
                holder.map_or("a process of cuprof".to_owned(), |holder| format!("process {}", holder.pid));
            Err(Error::new(ErrorKind::GpuInUse, format!("{who} holds the clocks of this GPU"))
                .with_hint("wait until it ends, or measure on another GPU"))
        }
        Acquired::Ours(_, Some(left)) if left.cannot_be_released() => Err(cupti_left(left.pid)),
        // What a dead process of ours left is ours to change.
        Acquired::Ours(lock, Some(left)) if left.is_of_this_boot() => Ok((lock, Some(left))),
        Acquired::Ours(lock, _) => match gpu.throttle() {
            Some(reasons) if reasons.contains(ThrottleReasons::CLOCKS_SETTING) => Err(somebody_elses()),
            _ => Ok((lock, None)),
        },
    }
}

/// How many processes compute on the GPU beside this one, as far as NVML tells. In a container it may know this process
/// by another number, so one is this process if it has a context there.
fn other_processes(gpu: &Gpu) -> usize {
    let Some(pids) = gpu.compute_pids() else { return 0 };
    let has_context =
        || Driver::get().and_then(Driver::current).is_ok_and(|(_, device)| device.uuid == gpu.uuid);
    let own = pids.contains(&std::process::id()) || (!pids.is_empty() && has_context());
    pids.len() - usize::from(own)
}

fn cupti_left(pid: u32) -> Error {
    Error::new(ErrorKind::GpuInUse, format!("process {pid} had CUPTI lock the clocks, and died"))
        .with_hint("no other process can release these: load the driver again (rmmod nvidia, modprobe nvidia), or reboot")
}

fn somebody_elses() -> Error {
    Error::new(ErrorKind::GpuInUse, "somebody else has set the clocks of this GPU; they are left as they are")
        .with_hint("if nobody needs them, an administrator resets them: `nvidia-smi --reset-gpu-clocks`")
}

fn explain(error: Error) -> Error {
    if error.kind == ErrorKind::PermissionDenied { error.with_hint(DENIED) } else { error }
}

/// Who has set the clocks of a GPU that we have not, as far as can be told.
pub(super) fn owner(monitor: &GpuMonitor) -> ClockOwner {
    match LockFile::look(monitor.uuid()) {
        Some((holder, true)) => return ClockOwner::Process(holder.pid),
        Some((holder, false)) if holder.is_of_this_boot() => return ClockOwner::DeadProcess(holder.pid),
        _ => {}
    }
    match monitor.gpu().throttle() {
        Some(reasons) if reasons.contains(ThrottleReasons::CLOCKS_SETTING) => ClockOwner::Other,
        _ => ClockOwner::Nobody,
    }
}

/// What became of the clocks that a dead process left on one GPU.
#[derive(Debug)]
#[non_exhaustive]
pub struct ClockReset {
    /// UUID of the physical GPU.
    pub gpu_uuid: String,
    /// What became of them.
    pub outcome: ResetOutcome,
}

/// What a reset did on one GPU.
#[derive(Debug)]
#[non_exhaustive]
pub enum ResetOutcome {
    /// Nothing had been left.
    Nothing,
    /// A living process has the clocks, and keeps them.
    Held(Option<u32>),
    /// They are released; the process that had left them.
    Released(u32),
    /// The process had left them before the machine was started: they are long gone.
    Outlived(u32),
    /// They could not be released.
    Failed(Error),
}

/// Releases the clocks that dead processes of this crate left pinned, on all GPUs of this machine.
///
/// Only what the lock files tell of is touched: neither the clocks of a living process nor those that somebody set
/// without this crate. (Who sets other clocks over those that a dead process left loses them here: NVML does not tell
/// whose they are.)
///
/// # Errors
/// [`ErrorKind::Io`] where the folder of the lock files cannot be read. What fails on one GPU is in its outcome.
pub fn reset_clocks(nvml_path: Option<&Path>) -> Result<Vec<ClockReset>> {
    let found = LockFile::all()?;
    Ok(found
        .into_iter()
        .map(|(gpu_uuid, acquired)| {
            let outcome = reset(&gpu_uuid, acquired, nvml_path).unwrap_or_else(ResetOutcome::Failed);
            ClockReset { gpu_uuid, outcome }
        })
        .collect())
}

fn reset(uuid: &str, acquired: Acquired, nvml_path: Option<&Path>) -> Result<ResetOutcome> {
    let (mut lock, left) = match acquired {
        Acquired::Held(holder) => return Ok(ResetOutcome::Held(holder.map(|holder| holder.pid))),
        Acquired::Ours(_, None) => return Ok(ResetOutcome::Nothing),
        Acquired::Ours(lock, Some(left)) => (lock, left),
    };
    if !left.is_of_this_boot() {
        lock.clear()?;
        return Ok(ResetOutcome::Outlived(left.pid));
    }
    switch::check()?;
    if left.cannot_be_released() {
        return Err(cupti_left(left.pid));
    }
    Nvml::get(nvml_path)?.gpu(uuid)?.unlock().map_err(explain)?;
    lock.clear()?;
    Ok(ResetOutcome::Released(left.pid))
}
