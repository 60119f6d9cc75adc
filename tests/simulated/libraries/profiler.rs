//! Metrics on the host and the Range Profiler: one chip with a few metrics, and values that follow from names.
//!
//! Parameter structs are looked at as words, by the offsets that the headers give their fields; their sizes must be
//! exactly those that the release knows (`SIM_STRUCTS`: those of another, by its API number). `SIM_ROUNDS` is the number of rounds after which all passes are made (`never`:
//! at no time), `SIM_DROPPED` how many ranges are said to have been dropped, `SIM_CHIP` what the device's chip is called.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CStr, CString, c_char};
use std::sync::{LazyLock, Mutex, MutexGuard};

use crate::entry::{
    Call, Code, INVALID_OPERATION, INVALID_PARAMETER, NO_ARGUMENT, SUCCESS, enter, is_excused, variable,
    violation,
};
use crate::layout::PROFILE;
use crate::state::state;

const NOT_SUPPORTED: Code = 27;
const INVALID_METRIC_NAME: Code = 17;
const INVALID_CHIP_NAME: Code = 46;
const UNKNOWN: Code = 999;
const MAGIC: u64 = 0x5eed_c0de;

/// Base name, kind (counter 0, ratio 1, throughput 2), unit, passes, scope.
const METRICS: [(&CStr, u64, &CStr, usize, u64); 11] = [
    (c"dram__bytes_read", 0, c"byte", 1, 0),
    (c"dram__bytes_write", 0, c"byte", 1, 0),
    (c"gpu__time_duration", 0, c"nanosecond", 1, 0),
    (c"smsp__inst_executed", 0, c"instruction", 1, 0),
    (c"nan__of_a_missing_unit", 0, c"byte", 1, 0),
    (c"nvlrx__bytes", 0, c"byte", 1, 1),
    (c"l1tex__t_sector_hit_rate", 1, c"", 1, 0),
    (c"lts__t_sector_hit_rate", 1, c"", 2, 0),
    (c"sm__throughput", 2, c"percent", 3, 0),
    (c"lts__t_sectors_srcunit_tex_lookup_hit", 0, c"sector", 2, 0),
    (c"lts__t_sectors_srcunit_tex_lookup_miss", 0, c"sector", 2, 0),
];
const CHIPS: [&CStr; 2] = [c"GA100", c"GH100"];

fn suffixes(kind: u64) -> &'static [&'static CStr] {
    match kind {
        0 => &[c".sum", c".avg", c".sum.per_second", c".avg.pct_of_peak_sustained_elapsed"],
        1 => &[c".pct", c".ratio"],
        _ => &[c".avg.pct_of_peak_sustained_elapsed"],
    }
}

/// The metric with this name, if the name is one of a metric with a suffix that it has.
fn metric(name: &str) -> Option<usize> {
    METRICS.iter().position(|(base, kind, ..)| {
        let suffix = name.strip_prefix(base.to_str().unwrap());
        suffix.is_some_and(|suffix| suffixes(*kind).iter().any(|known| known.to_str() == Ok(suffix)))
    })
}

/// A parameter struct, as words.
#[derive(Clone, Copy)]
pub struct Params(*mut u64);

impl Params {
    /// If its size is one of these, the second from a release on.
    fn new(words: *mut u64, size: usize, newer: Option<(u32, usize)>) -> Result<Self, Code> {
        if words.is_null() {
            return Err(INVALID_PARAMETER);
        }
        let params = Self(words);
        let told = params.get(0) as usize;
        let api = variable("SIM_STRUCTS").map_or(PROFILE.api, |api| api.parse().unwrap());
        let known = told == size || newer.is_some_and(|(since, size)| api >= since && told == size);
        if known { Ok(params) } else { Err(INVALID_PARAMETER) }
    }

    fn get(self, offset: usize) -> u64 {
        unsafe { self.0.byte_add(offset).read() }
    }

    fn get16(self, offset: usize) -> u16 {
        unsafe { self.0.byte_add(offset).cast::<u16>().read() }
    }

    fn get32(self, offset: usize) -> u32 {
        unsafe { self.0.byte_add(offset).cast::<u32>().read() }
    }

    fn set(self, offset: usize, value: u64) {
        unsafe { self.0.byte_add(offset).write(value) };
    }

    fn set32(self, offset: usize, value: u32) {
        unsafe { self.0.byte_add(offset).cast::<u32>().write(value) };
    }

    fn set8(self, offset: usize, value: u8) {
        unsafe { self.0.byte_add(offset).cast::<u8>().write(value) };
    }

    fn text(self, offset: usize) -> Option<String> {
        let pointer = self.get(offset) as *const c_char;
        (!pointer.is_null()).then(|| unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned())
    }

    fn texts(self, offset: usize, count: usize) -> Vec<String> {
        let array = self.get(offset) as *const *const c_char;
        let at = |index| unsafe { CStr::from_ptr(array.add(index).read()) };
        (0..count).map(|index| at(index).to_string_lossy().into_owned()).collect()
    }

    fn image(self, offset: usize) -> *mut u64 {
        let pointer = self.get(offset) as *mut u64;
        if !(pointer as usize).is_multiple_of(8) {
            violation("an image is not aligned to 8 bytes");
        }
        pointer
    }
}

/// An array of strings that lives for ever.
fn array(texts: impl Iterator<Item = &'static CStr>) -> u64 {
    let pointers: Vec<_> = texts.map(CStr::as_ptr).collect();
    Box::leak(pointers.into_boxed_slice()).as_ptr() as u64
}

#[derive(Default)]
struct Host {
    configured: Option<Vec<usize>>,
    is_spoilt: bool,
}

#[derive(Default)]
struct Ranges {
    config: u64,
    data: u64,
    is_auto: bool,
    most: usize,
    levels: usize,
    passes: usize,
    is_set_up: bool,
    is_started: bool,
    rounds: usize,
    open: Vec<String>,
    kernels: usize,
    counted: Vec<String>,
}

#[derive(Default)]
struct Profiler {
    initialized: bool,
    hosts: BTreeMap<u64, Host>,
    gone: BTreeSet<u64>,
    next: u64,
    enabled: Option<Ranges>,
    cache_mode: u32,
}

static PROFILER: LazyLock<Mutex<Profiler>> = LazyLock::new(Mutex::default);
const RANGES: u64 = 0x4a46_e500;

fn profiler() -> MutexGuard<'static, Profiler> {
    PROFILER.lock().unwrap()
}

/// A kernel ran.
pub fn kernel_ran() {
    if let Some(ranges) = &mut profiler().enabled
        && ranges.is_started
    {
        ranges.kernels += 1;
    }
}

impl Profiler {
    fn host(&mut self, params: Params) -> Result<&mut Host, Code> {
        let handle = params.get(16);
        if self.gone.contains(&handle) {
            violation("a host object was used after its end");
        }
        self.hosts.get_mut(&handle).ok_or(INVALID_PARAMETER)
    }

    fn ranges(&mut self, params: Params, call: &str) -> Result<&mut Ranges, Code> {
        if params.get(16) != RANGES || self.enabled.is_none() {
            violation(&format!("{call} without an enabled range profiler"));
        }
        self.enabled.as_mut().ok_or(INVALID_OPERATION)
    }
}

fn answer(result: Result<(), Code>) -> Code {
    result.err().unwrap_or(SUCCESS)
}

functions! {
    cuptiProfilerInitialize(params: *mut u64) [NO_ARGUMENT] {
        answer(Params::new(params, 16, None).map(|_| profiler().initialized = true))
    }
    cuptiProfilerDeviceSupported(params: *mut u64) [NO_ARGUMENT] {
        answer(Params::new(params, 52, Some((130_300, 56))).map(|params| {
            let level = variable("SIM_SUPPORT").map_or(3, |level| level.parse().unwrap());
            (20..48).step_by(4).for_each(|offset| params.set32(offset, if offset == 20 { level } else { 3 }));
        }))
    }
    cuptiDeviceGetChipName(params: *mut u64) [NO_ARGUMENT] {
        answer(Params::new(params, 32, None).map(|params| {
            let name = variable("SIM_CHIP").unwrap_or_else(|| "GH100".into());
            params.set(24, CString::new(name).unwrap().into_raw() as u64);
        }))
    }
    cuptiProfilerGetCounterAvailability(params: *mut u64) [NO_ARGUMENT] {
        answer(Params::new(params, 40, Some((130_100, 41))).and_then(|params| {
            if params.get(16) == 0 || !profiler().initialized {
                return Err(INVALID_PARAMETER);
            }
            if profiler().enabled.is_some() {
                violation("the availability was asked for in a session");
            }
            match params.get(32) {
                0 => params.set(24, 20),
                _ => unsafe { params.image(32).write(MAGIC) },
            }
            Ok(())
        }))
    }
    cuptiProfilerHostGetSupportedChips(params: *mut u64) [NO_ARGUMENT] {
        answer(Params::new(params, 32, None).map(|params| {
            params.set(16, CHIPS.len() as u64);
            params.set(24, array(CHIPS.into_iter()));
        }))
    }
    cuptiProfilerHostInitialize(params: *mut u64) [NO_ARGUMENT] {
        answer(Params::new(params, 48, Some((130_300, 56))).and_then(|params| {
            let chip = params.text(24).ok_or(INVALID_PARAMETER)?;
            if !CHIPS.iter().any(|known| known.to_str() == Ok(chip.as_str())) {
                return Err(INVALID_CHIP_NAME);
            }
            if params.get(32) != 0 && unsafe { params.image(32).read() } != MAGIC {
                return Err(NOT_SUPPORTED);
            }
            let mut profiler = profiler();
            profiler.next += 8;
            let handle = 0x4057_0000 + profiler.next;
            profiler.hosts.insert(handle, Host::default());
            params.set(40, handle);
            Ok(())
        }))
    }
    cuptiProfilerHostDeinitialize(params: *mut u64) [NO_ARGUMENT] {
        answer(Params::new(params, 24, None).and_then(|params| {
            let mut profiler = profiler();
            profiler.host(params)?;
            profiler.hosts.remove(&params.get(16));
            profiler.gone.insert(params.get(16));
            Ok(())
        }))
    }
    cuptiProfilerHostGetBaseMetrics(params: *mut u64) [NO_ARGUMENT] {
        answer(Params::new(params, 48, None).and_then(|params| {
            profiler().host(params)?;
            let kind = u64::from(params.get32(24));
            let of_kind = METRICS.into_iter().filter(|metric| metric.1 == kind);
            params.set(40, of_kind.clone().count() as u64);
            params.set(32, array(of_kind.map(|metric| metric.0)));
            Ok(())
        }))
    }
    cuptiProfilerHostGetSubMetrics(params: *mut u64) [NO_ARGUMENT] {
        answer(Params::new(params, 56, None).and_then(|params| {
            profiler().host(params)?;
            let name = params.text(32).ok_or(INVALID_PARAMETER)?;
            let known = METRICS.iter().find(|known| {
                // Older ones do not know a base metric without a suffix.
                (PROFILE.api >= 130_000 && known.0.to_str() == Ok(name.as_str()))
                    || name.strip_prefix(known.0.to_str().unwrap()).is_some_and(|rest| rest.starts_with('.'))
            });
            let (_, kind, ..) = known.ok_or(INVALID_METRIC_NAME)?;
            if *kind != u64::from(params.get32(24)) {
                return Err(INVALID_PARAMETER);
            }
            params.set(40, suffixes(*kind).len() as u64);
            params.set(48, array(suffixes(*kind).iter().copied()));
            Ok(())
        }))
    }
    cuptiProfilerHostGetMetricProperties(params: *mut u64) [NO_ARGUMENT] {
        answer(Params::new(params, 60, Some((130_100, 64))).and_then(|params| {
            profiler().host(params)?;
            let name = params.text(24).ok_or(INVALID_PARAMETER)?;
            let (_, kind, unit, _, scope) = METRICS[metric(&name).ok_or(INVALID_METRIC_NAME)?];
            params.set(32, c"What it counts.".as_ptr() as u64);
            params.set(40, c"unit".as_ptr() as u64);
            params.set(48, unit.as_ptr() as u64);
            params.set32(56, kind as u32);
            if params.get(0) == 64 {
                params.set32(60, scope as u32);
            }
            Ok(())
        }))
    }
    cuptiProfilerHostConfigAddMetrics(params: *mut u64) [NO_ARGUMENT] {
        answer(Params::new(params, 40, None).and_then(|params| {
            let names = params.texts(24, params.get(32) as usize);
            let mut profiler = profiler();
            let host = profiler.host(params)?;
            if host.is_spoilt {
                return Err(UNKNOWN);
            }
            if host.configured.is_some() {
                violation("metrics were added to a host object twice");
            }
            let metrics: Option<Vec<_>> = names.iter().map(|name| metric(name)).collect();
            let scopes = metrics.iter().flatten().map(|metric| METRICS[*metric].4).collect::<BTreeSet<_>>();
            let refused = match (&metrics, names.len()) {
                (_, 0) => Some(INVALID_PARAMETER),
                (None, 1) => Some(INVALID_PARAMETER),
                (None, _) => Some(UNKNOWN),
                (Some(_), _) => (scopes.len() > 1).then_some(NOT_SUPPORTED),
            };
            host.is_spoilt = refused.is_some();
            host.configured = metrics;
            refused.map_or(Ok(()), Err)
        }))
    }
    cuptiProfilerHostGetConfigImageSize(params: *mut u64) [NO_ARGUMENT] {
        answer(Params::new(params, 32, None).and_then(|params| {
            let mut profiler = profiler();
            profiler.host(params)?.configured.as_ref().ok_or(UNKNOWN)?;
            params.set(24, 44);
            Ok(())
        }))
    }
    cuptiProfilerHostGetConfigImage(params: *mut u64) [NO_ARGUMENT] {
        answer(Params::new(params, 40, None).and_then(|params| {
            let mut profiler = profiler();
            let metrics = profiler.host(params)?.configured.as_ref().ok_or(UNKNOWN)?;
            if params.get(24) < 44 {
                return Err(INVALID_PARAMETER);
            }
            let passes = metrics.iter().map(|metric| METRICS[*metric].3).max().unwrap_or(0);
            let image = params.image(32);
            unsafe { image.write(MAGIC) };
            unsafe { image.add(1).write(passes as u64) };
            Ok(())
        }))
    }
    cuptiProfilerHostGetNumOfPasses(params: *mut u64) [NO_ARGUMENT] {
        answer(Params::new(params, 40, None).map(|params| {
            params.set(32, unsafe { params.image(24).add(1).read() });
        }))
    }
    cuptiProfilerHostEvaluateToGpuValues(params: *mut u64) [NO_ARGUMENT] {
        answer(Params::new(params, 72, None).and_then(|params| {
            let names = params.texts(48, params.get(56) as usize);
            let mut profiler = profiler();
            profiler.host(params)?;
            let counted = &profiler.enabled.as_ref().ok_or(INVALID_OPERATION)?.counted;
            let name = counted.get(params.get(40) as usize).ok_or(INVALID_PARAMETER)?;
            let last: u64 = name.rsplit('/').next().and_then(|last| last.parse().ok()).unwrap_or(0);
            if variable("SIM_EVALUATION_FAILS").is_some_and(|metric| names.contains(&metric)) {
                return Err(NOT_SUPPORTED);
            }
            for (index, name) in names.iter().enumerate() {
                let metric = metric(name).ok_or(INVALID_METRIC_NAME)?;
                let value = match name.starts_with("nan__") {
                    true => f64::NAN,
                    false => (1000 * metric as u64 + last) as f64,
                };
                unsafe { (params.get(64) as *mut f64).add(index).write(value) };
            }
            Ok(())
        }))
    }
    cuptiRangeProfilerEnable(params: *mut u64) [NO_ARGUMENT] {
        answer(Params::new(params, 32, Some((130_400, 36))).and_then(|params| {
            let mut profiler = profiler();
            if profiler.enabled.is_some() {
                return Err(26);
            }
            profiler.enabled = Some(Ranges::default());
            profiler.cache_mode = if params.get(0) == 36 { params.get32(32) } else { 0 };
            params.set(24, RANGES);
            Ok(())
        }))
    }
    cuptiRangeProfilerDisable(params: *mut u64) [NO_ARGUMENT] {
        answer(Params::new(params, 24, None).and_then(|params| {
            let mut profiler = profiler();
            let ranges = profiler.ranges(params, "cuptiRangeProfilerDisable")?;
            if ranges.is_started && !is_excused() {
                violation("the range profiler was disabled inside a pass");
            }
            ranges.check_images();
            profiler.enabled = None;
            Ok(())
        }))
    }
    cuptiRangeProfilerGetCounterDataSize(params: *mut u64) [NO_ARGUMENT] {
        answer(Params::new(params, 64, None).and_then(|params| {
            profiler().ranges(params, "cuptiRangeProfilerGetCounterDataSize")?;
            let (ranges, nodes) = (params.get(40), params.get32(48));
            if u64::from(nodes) < ranges || ranges == 0 {
                return Err(INVALID_PARAMETER);
            }
            params.set(56, 32 + 8 * ranges);
            Ok(())
        }))
    }
    cuptiRangeProfilerCounterDataImageInitialize(params: *mut u64) [NO_ARGUMENT] {
        answer(Params::new(params, 40, None).and_then(|params| {
            profiler().ranges(params, "cuptiRangeProfilerCounterDataImageInitialize")?;
            unsafe { params.image(32).write(MAGIC) };
            Ok(())
        }))
    }
    cuptiRangeProfilerSetConfig(params: *mut u64) [NO_ARGUMENT] {
        answer(Params::new(params, 90, None).and_then(|params| {
            let mut profiler = profiler();
            let ranges = profiler.ranges(params, "cuptiRangeProfilerSetConfig")?;
            let (range, replay) = (params.get32(56), params.get32(60));
            let levels = usize::from(params.get16(72));
            let first = (params.get16(74), params.get(80), params.get16(88));
            match (range, replay) {
                (1, 2) if levels == 1 => {}
                (2, 3) => {}
                _ => return Err(INVALID_OPERATION),
            }
            if first != (1, 0, 1) || params.get(64) == 0 {
                return Err(INVALID_PARAMETER);
            }
            let (config, data) = (params.image(32), params.image(48));
            let passes = unsafe { config.add(1).read() } as usize;
            let (config, data) = (config as u64, data as u64);
            let (is_auto, most) = (range == 1, params.get(64) as usize);
            *ranges = Ranges { config, data, is_auto, most, levels, passes, is_set_up: true, ..Ranges::default() };
            ranges.check_images();
            Ok(())
        }))
    }
    cuptiRangeProfilerStart(params: *mut u64) [NO_ARGUMENT] {
        if !state().kinds.is_empty() {
            violation("counters and activity records at once");
        }
        answer(Params::new(params, 24, None).and_then(|params| {
            let mut profiler = profiler();
            let ranges = profiler.ranges(params, "cuptiRangeProfilerStart")?;
            if ranges.is_started || !ranges.is_set_up {
                violation("a pass was started twice, or before its configuration");
            }
            ranges.is_started = true;
            Ok(())
        }))
    }
    cuptiRangeProfilerPushRange(params: *mut u64) [NO_ARGUMENT] {
        answer(Params::new(params, 32, None).and_then(|params| {
            let name = params.text(24).ok_or(INVALID_PARAMETER)?;
            let mut profiler = profiler();
            let ranges = profiler.ranges(params, "cuptiRangeProfilerPushRange")?;
            if !ranges.is_started || ranges.is_auto || ranges.open.len() == ranges.levels {
                violation("a range outside a pass, among automatic ones, or too deep");
            }
            ranges.open.push(name);
            let level = ranges.rounds / ranges.passes.max(1) + 1;
            let path = ranges.open.join("/");
            if ranges.open.len() == level && !ranges.counted.contains(&path) {
                ranges.counted.push(path);
            }
            Ok(())
        }))
    }
    cuptiRangeProfilerPopRange(params: *mut u64) [NO_ARGUMENT] {
        answer(Params::new(params, 24, None).and_then(|params| {
            let mut profiler = profiler();
            let ranges = profiler.ranges(params, "cuptiRangeProfilerPopRange")?;
            if ranges.open.pop().is_none() {
                violation("a range was closed that was not open");
            }
            Ok(())
        }))
    }
    cuptiRangeProfilerStop(params: *mut u64) [NO_ARGUMENT] {
        answer(Params::new(params, 41, None).and_then(|params| {
            let mut profiler = profiler();
            let ranges = profiler.ranges(params, "cuptiRangeProfilerStop")?;
            let is_whole = std::mem::replace(&mut ranges.is_started, false) && ranges.open.is_empty();
            if !is_whole && !is_excused() {
                violation("a pass was stopped that was not started, or with ranges open");
            }
            ranges.check_images();
            ranges.rounds += 1;
            if ranges.is_auto {
                ranges.counted = (0..ranges.kernels).map(|kernel| kernel.to_string()).collect();
            }
            let needed = match variable("SIM_ROUNDS").as_deref() {
                Some("never") => usize::MAX,
                Some(rounds) => rounds.parse().unwrap(),
                None if ranges.is_auto => 1,
                None => ranges.passes * ranges.levels,
            };
            params.set(24, (ranges.rounds % ranges.passes.max(1)) as u64);
            params.set(32, (ranges.rounds / ranges.passes.max(1) + 1) as u64);
            params.set8(40, u8::from(ranges.rounds >= needed));
            Ok(())
        }))
    }
    cuptiRangeProfilerDecodeData(params: *mut u64) [NO_ARGUMENT] {
        answer(Params::new(params, 32, None).and_then(|params| {
            let mut profiler = profiler();
            let ranges = profiler.ranges(params, "cuptiRangeProfilerDecodeData")?;
            ranges.check_images();
            let scripted = variable("SIM_DROPPED").map_or(0, |dropped| dropped.parse().unwrap());
            let dropped = ranges.counted.len().saturating_sub(ranges.most) + scripted;
            params.set(24, dropped as u64);
            ranges.counted.truncate(ranges.most);
            Ok(())
        }))
    }
    cuptiRangeProfilerGetCounterDataInfo(params: *mut u64) [NO_ARGUMENT] {
        answer(Params::new(params, 40, None).and_then(|params| {
            let profiler = profiler();
            let ranges = profiler.enabled.as_ref().ok_or(INVALID_OPERATION)?;
            if params.get(16) != ranges.data {
                violation("other counter data than was configured");
            }
            params.set(32, ranges.counted.len() as u64);
            Ok(())
        }))
    }
    cuptiRangeProfilerCounterDataGetRangeInfo(params: *mut u64) [NO_ARGUMENT] {
        answer(Params::new(params, 56, None).and_then(|params| {
            let profiler = profiler();
            let ranges = profiler.enabled.as_ref().ok_or(INVALID_OPERATION)?;
            let name = ranges.counted.get(params.get(32) as usize).ok_or(INVALID_PARAMETER)?;
            let name = name.replace('/', &params.text(40).ok_or(INVALID_PARAMETER)?);
            params.set(48, CString::new(name).unwrap().into_raw() as u64);
            Ok(())
        }))
    }
}

impl Ranges {
    /// CUPTI looks into them until it is disabled.
    fn check_images(&self) {
        let are_there = [self.config, self.data]
            .map(|image| image != 0 && unsafe { (image as *const u64).read() } == MAGIC);
        if self.is_set_up && are_there != [true; 2] {
            violation("an image was moved or freed while the range profiler was enabled");
        }
    }
}

/// The cache control mode that the range profiler was enabled with last.
#[unsafe(no_mangle)]
pub extern "C" fn sim_cache_mode() -> u32 {
    profiler().cache_mode
}

/// How much of it is in use: an enabled range profiler, and host objects.
#[unsafe(no_mangle)]
pub extern "C" fn sim_profiler_left_on() -> u32 {
    let profiler = profiler();
    (usize::from(profiler.enabled.is_some()) + profiler.hosts.len()) as u32
}

/// Switches off what a client failed to.
#[unsafe(no_mangle)]
pub extern "C" fn sim_reset() {
    let mut state = state();
    state.subscriber = None;
    state.callbacks.clear();
    state.domains.clear();
    drop(state);
    let mut profiler = profiler();
    profiler.enabled = None;
    profiler.hosts.clear();
}
