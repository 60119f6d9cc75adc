//! The GPU that is counted on: the current context, what may be counted there, and why not.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use super::catalogue::Catalogue;
use super::plan::Plan;
use super::timings::{Timings, timed};
use crate::cupti::host::Configured;
use crate::cupti::params::Image;
use crate::cupti::{self, Libraries, PlanningLibrary};
use crate::driver::{Context, Device, Driver, Primary};
use crate::error::{Error, ErrorKind, Result};

/// The context of a session, ready for counters.
pub(super) struct Target {
    pub libraries: Libraries,
    pub context: Context,
    pub device: Device,
    /// The plan with what this device says of its counters.
    pub plan: Plan,
    /// The same for CUPTI, until counters are switched on with it.
    pub configured: Option<Configured>,
}

/// Has the device's context current to this thread: the one that is, if it is on this device, or no device was asked
/// for; else the device's primary one, until the result is dropped.
pub(super) fn enter(device: Option<u32>) -> Result<Option<Primary>> {
    let driver = Driver::get()?;
    match (driver.current(), device) {
        (Ok(_), None) => Ok(None),
        (Ok((_, current)), Some(device)) if current.ordinal == device => Ok(None),
        (Err(error), _) if error.kind != ErrorKind::Config => Err(error),
        (_, device) => driver.retain_primary(device.unwrap_or(0)).map(Some),
    }
}

/// What contexts said of their counters; a session takes 70 to 130 ms less by knowing (H200).
static KNOWN: Mutex<Vec<(Context, String, Arc<Image>)>> = Mutex::new(Vec::new());

/// Which counters this context may use: asked once.
fn availability(libraries: &Libraries, context: Context, device: &Device) -> Result<Arc<Image>> {
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let is_it = |(of, uuid, _): &&(Context, String, Arc<Image>)| *of == context && *uuid == device.uuid;
    if let Some((_, _, image)) = known.iter().find(is_it) {
        return Ok(Arc::clone(image));
    }
    let image = libraries.cupti.counter_availability(libraries.version, context)?;
    known.push((context, device.uuid.clone(), Arc::clone(&image)));
    Ok(image)
}

/// The same for a plan: of the context that is current, if it is on this device and says so.
pub(super) fn availability_for_plan(ordinal: u32) -> Option<Arc<Image>> {
    let (context, device) = Driver::get().ok()?.current().ok()?;
    if device.ordinal != ordinal || cupti::counts_now() {
        return None;
    }
    // Where it is forbidden, plans are made all the same; a session says so.
    availability(&Libraries::get(None).ok()?, context, &device).ok()
}

impl Target {
    pub fn open(plan: &Plan, timings: &mut Timings) -> Result<Self> {
        let begun = Instant::now();
        let (context, device) = Driver::get()?.current()?;
        let planner = PlanningLibrary::get(None)?;
        let libraries = Libraries::get(None)?;
        if cupti::kernels_are_on() {
            // 40020 instructions instead of 8000, and not one kernel by itself, on an H200 with 12.9.
            let what = format!(
                "kernels were traced before in this process, {} cannot switch that off, and it would falsify counters",
                libraries.version
            );
            return Err(Error::new(ErrorKind::CuptiTooOld, what).with_hint(
                "use CUPTI 13.0 Update 1 or newer, or count before the process's first traced session",
            ));
        }
        let cupti = libraries.cupti;
        cupti.initialize_profiler().map_err(explained)?;
        let ordinal = i32::try_from(device.ordinal).unwrap_or(0);
        let support = cupti.device_supported(libraries.version, ordinal).map_err(explained)?;
        if !support.supported {
            let why = match &support.obstacles[..] {
                [] => "CUPTI does not say why".to_owned(),
                obstacles => obstacles.join(", "),
            };
            let what = format!("{} cannot be profiled: {why}", device.name);
            return Err(Error::new(ErrorKind::NotSupported, what)
                .with_hint("count on another GPU; durations are traced on this one, too"));
        }
        let chip = cupti.chip_name(device.ordinal).map_err(explained)?;
        if chip != plan.chip() {
            let what = format!("the plan is for {}, and {} is a {chip}", plan.chip(), device.name);
            return Err(Error::new(ErrorKind::Config, what)
                .with_hint(format!("make it for {chip}, or Plan::for_device")));
        }
        timings.device = begun.elapsed();
        let availability = timed(&mut timings.availability, || availability(&libraries, context, &device))
            .map_err(explained)?;
        let begun = Instant::now();
        let catalogue = Catalogue::with(planner, &chip, Some(availability))?;
        let (plan, configured) = plan.again_with(&catalogue)?;
        timings.plan = begun.elapsed();
        Ok(Self { libraries, context, device, plan, configured: Some(configured) })
    }
}

/// An error of the profiler with the remedy that fits this machine.
pub(super) fn explained(error: Error) -> Error {
    match error.code {
        Some(35) => permission(error),
        Some(26) => error.with_hint(
            "the GPU's counters are held by somebody else: pause DCGM (dcgmi profile --pause), end ncu, nsys with GPU \
             metrics, and other counter sessions on this GPU",
        ),
        _ => error,
    }
}

/// Permission is a setting of the driver, and a capability lifts it.
fn permission(error: Error) -> Error {
    const PARAMETERS: &str = "/proc/driver/nvidia/params";
    let text = std::fs::read_to_string(PARAMETERS).unwrap_or_default();
    let setting = text.lines().find_map(|line| line.strip_prefix("RmProfilingAdminOnly:"));
    let setting = match setting.map(str::trim) {
        Some("1") => "the driver lets administrators count only (RmProfilingAdminOnly: 1)",
        Some("0") => {
            "the driver lets everybody count (RmProfilingAdminOnly: 0), so something around it forbids it, \
                      such as a container or a virtual GPU"
        }
        _ => "the driver lets administrators count only",
    };
    error.with_hint(format!(
        "{setting}: run as root or with CAP_SYS_ADMIN (docker run --cap-add=SYS_ADMIN), or have the administrator load \
         the driver with NVreg_RestrictProfilingToAdminUsers=0; durations need no permission"
    ))
}
