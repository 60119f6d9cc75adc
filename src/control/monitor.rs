//! Clocks, temperature and throttling of one GPU, as they are.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::driver::Driver;
use crate::driver::nvml::{Gpu, GpuReading, Nvml, ThrottleReasons};
use crate::error::Result;

/// Reads the state of one physical GPU; changes nothing.
///
/// A reading asks NVML eight times. Take it between runs, not inside of what is timed.
///
/// ```no_run
/// # fn main() -> cuprof::Result<()> {
/// let monitor = cuprof::GpuMonitor::of_current_context(None)?;
/// let run = monitor.watch();
/// // … GPU work …
/// let conditions = run.end();
/// if conditions.is_throttled() {
///     println!("slowed down: {conditions}");
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct GpuMonitor {
    gpu: Gpu,
    nvml_path: Option<PathBuf>,
}

impl GpuMonitor {
    /// Of the GPU with this UUID, as CUDA or `nvidia-smi -L` print it; for a MIG slice, of the GPU that it is part of.
    /// NVML is the library at the path, else the one that `CUPROF_NVML_PATH` names, else the driver's.
    ///
    /// # Errors
    /// [`NvmlNotFound`](crate::ErrorKind::NvmlNotFound), [`NoDriver`](crate::ErrorKind::NoDriver),
    /// [`NoDevice`](crate::ErrorKind::NoDevice): what is missing; [`Call`](crate::ErrorKind::Call).
    pub fn open(uuid: &str, nvml_path: Option<&Path>) -> Result<Self> {
        Ok(Self { gpu: Nvml::get(nvml_path)?.gpu(uuid)?, nvml_path: nvml_path.map(Path::to_owned) })
    }

    /// Of the GPU of the context that is current to this thread.
    ///
    /// # Errors
    /// As [`GpuMonitor::open`]; [`Config`](crate::ErrorKind::Config) where no context is current.
    pub fn of_current_context(nvml_path: Option<&Path>) -> Result<Self> {
        let (_, device) = Driver::get()?.current()?;
        Self::open(&device.uuid, nvml_path)
    }

    /// UUID of the physical GPU, as `nvidia-smi -L` prints it.
    #[must_use]
    pub fn uuid(&self) -> &str {
        &self.gpu.uuid
    }

    /// The state now.
    #[must_use]
    pub fn read(&self) -> GpuReading {
        self.gpu.read()
    }

    /// Begins a run, whose conditions [`Watch::end`] gives.
    pub fn watch(&self) -> Watch<'_> {
        Watch { monitor: self, before: self.read() }
    }

    pub(super) fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    /// Another handle of the same GPU.
    pub(super) fn another(&self) -> Result<Gpu> {
        Nvml::get(self.nvml_path.as_deref())?.gpu(&self.gpu.uuid)
    }
}

/// A run that is being watched.
#[derive(Debug)]
#[must_use = "the conditions are what `end` gives"]
pub struct Watch<'a> {
    monitor: &'a GpuMonitor,
    before: GpuReading,
}

impl Watch<'_> {
    /// Ends the run: what the GPU did meanwhile.
    #[must_use]
    pub fn end(self) -> RunConditions {
        RunConditions::between(&self.before, &self.monitor.read())
    }
}

/// The conditions of one run (or pass). What NVML does not tell for this GPU is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunConditions {
    /// Clock of the multiprocessors at the run's end.
    pub sm_clock_mhz: Option<u32>,
    /// Clock of the device memory at the run's end.
    pub memory_clock_mhz: Option<u32>,
    /// Temperature at the run's end.
    pub temperature_c: Option<i32>,
    /// Distance to the slow-down limit at the run's end, in degrees Celsius.
    pub thermal_margin_c: Option<i32>,
    /// Power draw at the run's end, in milliwatts.
    pub power_mw: Option<u32>,
    /// What held the clocks down at its start or at its end. What came and went between is only in the times below.
    pub throttle: Option<ThrottleReasons>,
    /// For how long the power limit held the clocks down in the run: a difference of NVML's accumulated time.
    pub power_throttled_ns: Option<u64>,
    /// For how long heat did.
    pub thermal_throttled_ns: Option<u64>,
}

impl RunConditions {
    /// What two readings say of the time between them.
    #[must_use]
    pub fn between(before: &GpuReading, after: &GpuReading) -> Self {
        // A counter that went back belongs to a driver that was loaded again.
        let grown = |before: Option<u64>, after: Option<u64>| after?.checked_sub(before?);
        let throttle = match (before.throttle, after.throttle) {
            (Some(before), Some(after)) => Some(before.union(after)),
            (before, after) => before.or(after),
        };
        Self {
            sm_clock_mhz: after.sm_clock_mhz,
            memory_clock_mhz: after.memory_clock_mhz,
            temperature_c: after.temperature_c,
            thermal_margin_c: after.thermal_margin.map(|margin| margin.margin_c),
            power_mw: after.power_mw,
            throttle,
            power_throttled_ns: grown(before.power_throttled_ns, after.power_throttled_ns),
            thermal_throttled_ns: grown(before.thermal_throttled_ns, after.thermal_throttled_ns),
        }
    }

    /// Whether power, heat or the hardware slowed the GPU down in the run, as far as NVML tells.
    #[must_use]
    pub fn is_throttled(&self) -> bool {
        let accumulated = [self.power_throttled_ns, self.thermal_throttled_ns];
        self.throttle.is_some_and(ThrottleReasons::is_throttled)
            || accumulated.iter().any(|time| time.is_some_and(|time| time > 0))
    }
}

impl fmt::Display for RunConditions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        let mut part = |name: &str, value: Option<String>| {
            if let Some(value) = value {
                parts.push(format!("{name} {value}"));
            }
        };
        part("SM", self.sm_clock_mhz.map(|mhz| format!("{mhz} MHz")));
        part("memory", self.memory_clock_mhz.map(|mhz| format!("{mhz} MHz")));
        part("at", self.temperature_c.map(|degrees| format!("{degrees} C")));
        part("throttle", self.throttle.map(|reasons| reasons.to_string()));
        part("power cap", self.power_throttled_ns.map(|time| format!("{time} ns")));
        part("heat", self.thermal_throttled_ns.map(|time| format!("{time} ns")));
        if parts.is_empty() { f.write_str("conditions not known") } else { f.write_str(&parts.join(", ")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn throttling_that_came_and_went_between_two_readings_is_in_the_times() {
        let before = GpuReading {
            throttle: Some(ThrottleReasons::GPU_IDLE),
            power_throttled_ns: Some(1_000),
            thermal_throttled_ns: Some(5),
            ..GpuReading::default()
        };
        let same = RunConditions::between(&before, &before);
        assert!(!same.is_throttled(), "{same}");
        let after = GpuReading { power_throttled_ns: Some(1_700), ..before };
        let conditions = RunConditions::between(&before, &after);
        assert_eq!((conditions.power_throttled_ns, conditions.thermal_throttled_ns), (Some(700), Some(0)));
        assert!(conditions.is_throttled());
    }

    #[test]
    fn reasons_at_either_end_count_and_unknown_is_not_throttled() {
        let hot = GpuReading { throttle: Some(ThrottleReasons::THERMAL), ..GpuReading::default() };
        let unknown = GpuReading::default();
        assert!(RunConditions::between(&hot, &unknown).is_throttled());
        assert!(RunConditions::between(&unknown, &hot).is_throttled());
        let conditions = RunConditions::between(&unknown, &unknown);
        assert!(!conditions.is_throttled());
        assert_eq!(conditions.to_string(), "conditions not known");
    }

    #[test]
    fn a_counter_that_went_back_is_no_time() {
        let reading = |time| GpuReading { power_throttled_ns: Some(time), ..GpuReading::default() };
        assert_eq!(RunConditions::between(&reading(10), &reading(3)).power_throttled_ns, None);
    }
}
