//! Counting: the work is run again and again until every pass has been made.

use std::cell::RefCell;
use std::fmt;
use std::time::{Duration, Instant};

use super::counted::{self, Counted, CountedRange, NullReason, Replay};
use super::device::{self, Target, explained};
use super::hook::{Between, BetweenPasses, Conditions, Leave};
use super::kernels::LaunchLog;
use super::pass::{Opened, Pass, PassOutcome};
use super::plan::Plan;
use super::timings::{RoundTimings, Timings, timed};
use crate::control::Cache;
use crate::cupti::host::{Configured, Host};
use crate::cupti::params::Names;
use crate::cupti::range_profiler::{Mode, RangeProfiler, Setup};
use crate::cupti::{Holder, Slot};
use crate::driver::{Driver, Primary};
use crate::error::{Error, ErrorKind, Result};

/// How many ranges of one pass a session has room for by default, where the work runs once only: in
/// [`Session::run_kernels`], and after [`Session::single_pass`].
pub const DEFAULT_MAX_RANGES: usize = 128;

/// The same at first where the work can run again with more room.
const FIRST_MAX_RANGES: usize = 16;

/// Rounds beyond the expected number after which a session gives up: CUPTI would go on for ever.
const EXTRA_ROUNDS: usize = 2;

/// Counts the metrics of a plan on the GPU whose context is current to this thread, or on another
/// [device](Session::device).
///
/// ```no_run
/// # fn main() -> cuprof::Result<()> {
/// use cuprof::counters::{Plan, Session};
/// # fn launch() -> cuprof::Result<()> { Ok(()) }
///
/// let plan = Plan::for_device(0, ["dram__bytes_read.sum", "sm__throughput.avg.pct_of_peak_sustained_elapsed"])?;
/// let counted = Session::new(plan).run(|pass| pass.range("add", launch))?;
/// println!("{:?} bytes", counted.value("add", "dram__bytes_read.sum"));
/// counted.write("counters.cuprof")?;
/// # Ok(())
/// # }
/// ```
///
/// Hardware counts few things at once, so that many metrics take several passes, and the work runs once for each. It
/// must do the same in each: restore what it changes (an in-place update is made once for each pass), and launch the
/// same work in the same order. That each pass had the same ranges is checked.
///
/// # Never together with tracing
/// Tracing kernels changes what is counted (11.5 % more instructions on an H200), and counting changes durations. So a
/// session is refused while a [`Profiler`](crate::Profiler) runs, and the other way round: durations come from a traced
/// run of their own. [`Profiler::count`](crate::Profiler::count) makes both, one after the other. `gpu__time_duration` of a range has the time around the kernels in it, and is no duration of a
/// kernel.
///
/// # What it takes
/// On an H200 the first round takes some 0.2 s, and each further one 4 to 30 ms and the work; [`Counted::timings`] has
/// each step. The process must be allowed to
/// use counters; the error says how.
#[must_use = "nothing is counted before `run`"]
pub struct Session {
    plan: Plan,
    max_ranges: Option<usize>,
    nesting_levels: u16,
    single_pass: bool,
    device: Option<u32>,
    cache: Cache,
    verifies_cache: bool,
    hook: Box<dyn BetweenPasses>,
}

impl Session {
    /// A session for this plan.
    pub fn new(plan: Plan) -> Self {
        Self {
            plan,
            max_ranges: None,
            nesting_levels: 1,
            single_pass: false,
            device: None,
            cache: Cache::Keep,
            verifies_cache: false,
            hook: Box::new(Leave),
        }
    }

    /// How many ranges a pass may have, or with [`run_kernels`](Self::run_kernels) how many kernels.
    ///
    /// CUPTI takes about a millisecond for each range that it has to have room for, once in a session (H200, CUPTI 13.0
    /// and 13.5), and 4000 were accepted there. By default, work that can run again begins with room for 16; if it opens
    /// more ranges, that round is thrown away, and it begins anew with the room that it needs. Work that runs once has
    /// room for [`DEFAULT_MAX_RANGES`].
    pub fn max_ranges(mut self, ranges: usize) -> Self {
        self.max_ranges = Some(ranges);
        self
    }

    /// How many levels of nested ranges are counted. Each takes all passes once more. Default: 1, ranges in no other.
    pub fn nesting_levels(mut self, levels: u16) -> Self {
        self.nesting_levels = levels;
        self
    }

    /// Refuses a plan that takes more than one pass, for work that cannot be repeated. The error says which metrics to
    /// drop.
    pub fn single_pass(mut self) -> Self {
        self.single_pass = true;
        self
    }

    /// Counts in the context of this device that is current, or in its primary one. Default: in whichever context is
    /// current to the thread, and without one in the primary context of device 0. A primary context is retained and
    /// current for as long as the session runs; it is the one that the CUDA runtime uses.
    pub fn device(mut self, ordinal: u32) -> Self {
        self.device = Some(ordinal);
        self
    }

    /// What the L2 cache holds when a range begins. Default: [`Cache::Keep`], what the program left in it.
    ///
    /// The cache is brought into this state before each pass and before each range of the first level, outside what is
    /// counted, and waited for. It is not before ranges inside another one: it would count for that. What it does is in
    /// [`Counted::cache`] and, with the time that it takes, in [`Counted::timings`].
    ///
    /// [`Cache::Cupti`] has CUPTI do it instead, before each pass only; it is the one that works where CUPTI repeats
    /// kernels, and needs CUPTI 13.4.
    pub fn cache(mut self, cache: Cache) -> Self {
        self.cache = cache;
        self
    }

    /// Measures before the first pass what [`cache`](Self::cache) leaves in the L2 cache, by a short session of its own
    /// (two passes over a read of the crate's own memory). The result is [`Counted::residual`].
    pub fn verify_cache(mut self) -> Self {
        self.verifies_cache = true;
        self
    }

    /// What is done before each pass and each range, after the [cache](Self::cache) control. Default: nothing. A
    /// [`ClockGuard`](crate::ClockGuard) here holds the clocks until all is counted, and has `clock_mode` tell of it.
    pub fn between_passes(mut self, hook: impl BetweenPasses + 'static) -> Self {
        self.hook = Box::new(hook);
        self
    }

    /// Runs the work once for each pass, and counts in the ranges that it opens.
    ///
    /// The work may return nothing or a result; an error ends the session at once and is the
    /// [source](std::error::Error::source) of the one returned. The GPU's counters are free again in any case.
    ///
    /// # Errors
    /// [`AlreadyRunning`](ErrorKind::AlreadyRunning) beside a traced or another counter session;
    /// [`CuptiTooOld`](ErrorKind::CuptiTooOld) after a traced session in this process, before CUPTI 13.0 Update 1, which
    /// goes on tracing kernels;
    /// [`PermissionDenied`](ErrorKind::PermissionDenied) and [`Busy`](ErrorKind::Busy) with the remedy;
    /// [`Config`](ErrorKind::Config) where the plan is for another chip, takes more passes than allowed, or passes had
    /// different or too many ranges; [`Program`](ErrorKind::Program) where the work failed; else the failed call.
    pub fn run<R: PassOutcome>(mut self, work: impl FnMut(&Pass<'_>) -> R) -> Result<Counted> {
        let started = Instant::now();
        let _context = self.enter()?;
        let between = self.between()?;
        self.run_with(between, started, work)
    }

    /// Runs the work once, its ranges as ranges of the traced session that runs.
    pub(super) fn run_traced<R: PassOutcome>(
        &self,
        between: &mut Between,
        work: &mut impl FnMut(&Pass<'_>) -> R,
    ) -> Result<()> {
        let driver = Driver::get()?;
        let (context, _) = driver.current()?;
        driver.synchronize(context)?;
        between.before_pass(0)?;
        let between = RefCell::new(between);
        let pass = Pass::traced(&between, self.nesting_levels);
        work(&pass).into_result().map_err(|source| {
            Error::new(ErrorKind::Program, "the work failed in its traced pass").with_source(source)
        })?;
        pass.finish()?;
        driver.synchronize(context)
    }

    /// Has the context current.
    pub(super) fn enter(&self) -> Result<Option<Primary>> {
        device::enter(self.device)
    }

    /// What is done before passes and ranges, made ready.
    pub(super) fn between(&mut self) -> Result<Between> {
        Between::new(self.cache, std::mem::replace(&mut self.hook, Box::new(Leave)))
    }

    pub(super) fn run_with<R: PassOutcome>(
        self,
        mut between: Between,
        started: Instant,
        mut work: impl FnMut(&Pass<'_>) -> R,
    ) -> Result<Counted> {
        if self.verifies_cache {
            between.verify()?;
        }
        let may_grow = self.max_ranges.is_none() && !self.single_pass;
        let mut room = match self.max_ranges {
            Some(room) => room,
            None if may_grow => FIRST_MAX_RANGES,
            None => DEFAULT_MAX_RANGES,
        };
        let levels = self.nesting_levels;
        let mut ready = self.prepare(between, started, room, levels)?;
        let (host, mut profiler, opened) = loop {
            let begun = Instant::now();
            let (host, mut profiler) = ready.enable(Mode::UserRangeUserReplay, room, levels)?;
            let opened = ready.rounds(&mut profiler, room, levels, &mut work)?;
            if opened.len() <= room {
                break (host, profiler, opened);
            }
            if !may_grow {
                return Err(too_many_ranges(opened.len(), room));
            }
            room = opened.len();
            drop(profiler);
            ready.begin_anew(begun.elapsed());
        };
        let mut ranges = named(&opened);
        let Ready { target, timings, .. } = &mut ready;
        check_dropped(timed(&mut timings.decode, || profiler.decode()).map_err(explained)?, room)?;
        let begun = Instant::now();
        for index in 0..profiler.ranges()? {
            let name = profiler.range_name(index)?;
            let number = name.rsplit('/').next().and_then(|number| number.parse::<usize>().ok());
            let Some(range) = number.and_then(|number| ranges.get_mut(number)) else {
                let what = format!("the counter data has a range {name:?} that was not opened");
                return Err(Error::new(ErrorKind::Call, what));
            };
            range.values = counted::evaluate(&host, profiler.data(), index, &target.plan)?;
        }
        for range in ranges.iter_mut().filter(|range| range.values.is_empty()) {
            range.values = vec![Err(NullReason::NoData); target.plan.metrics().len()];
        }
        timings.evaluate = begun.elapsed();
        timed(&mut timings.disable, || drop(profiler));
        Ok(ready.counted(ranges, Replay::User, true))
    }

    /// Runs the work once, and counts each kernel by itself: CUPTI repeats it for each pass, and restores the device
    /// memory that it changes.
    ///
    /// Each kernel is waited for, so kernels that wait for one another (collective communication, some pipelines) hang.
    /// A kernel has the name that its launching call gives it, and the path of the ranges (`cuprof::range!`, NVTX) that
    /// were opened inside the work. Nothing of the crate's comes between the passes of a kernel, so of the
    /// [cache](Self::cache) controls only [`Cache::Cupti`] can be had.
    ///
    /// # Errors
    /// As [`run`](Self::run), and [`Busy`](ErrorKind::Busy) where another profiler listens to the launches.
    pub fn run_kernels<R: PassOutcome>(mut self, work: impl FnOnce() -> R) -> Result<Counted> {
        let started = Instant::now();
        if !matches!(self.cache, Cache::Keep | Cache::Cupti(_)) {
            let what =
                format!("the cache control {:?} cannot come between the passes of a kernel", self.cache);
            return Err(Error::new(ErrorKind::Config, what)
                .with_hint("use Cache::Cupti (CUPTI 13.4), or ranges with Session::run"));
        }
        let room = self.max_ranges.unwrap_or(DEFAULT_MAX_RANGES);
        let _context = self.enter()?;
        let mut between = self.between()?;
        if self.verifies_cache {
            between.verify()?;
        }
        let mut ready = self.prepare(between, started, room, 1)?;
        let (host, mut profiler) = ready.enable(Mode::AutoRangeKernelReplay, room, 1)?;
        let Ready { target, between, conditions, timings, .. } = &mut ready;
        let log = LaunchLog::start(&target.libraries)?;
        let mut round = RoundTimings::default();
        timed(&mut round.wait, || target.libraries.driver.synchronize(target.context))?;
        timed(&mut round.between, || {
            conditions.before_pass();
            between.before_pass(0)
        })?;
        timed(&mut round.start, || profiler.start()).map_err(explained)?;
        timed(&mut round.work, || {
            work().into_result().map_err(|source| failed_work(0, 1, source))?;
            target.libraries.driver.synchronize(target.context)
        })?;
        let stopped = timed(&mut round.stop, || profiler.stop())?;
        timed(&mut round.between, || conditions.after_pass());
        timings.rounds.push(round);
        let launches = log.finish();
        if !stopped.all_submitted {
            return Err(Error::new(ErrorKind::Call, "CUPTI has not made all passes of each kernel"));
        }
        check_dropped(timed(&mut timings.decode, || profiler.decode()).map_err(explained)?, room)?;
        let begun = Instant::now();
        let count = profiler.ranges()?;
        if count == 0 && !launches.kernels.is_empty() {
            // 12.9 on an H200 with a driver of CUDA 13.0.
            let version = target.libraries.version;
            let what = format!("{version} counted none of {} kernels by itself", launches.kernels.len());
            return Err(Error::new(ErrorKind::NotSupported, what)
                .with_hint("use CUPTI 13.0 or newer, or ranges with Session::run"));
        }
        let kernels_known = launches.kernels.len() == count && !launches.is_uncertain;
        let mut ranges = Vec::with_capacity(count);
        // CUPTI calls the ranges 0, 1, … in the order of the launches; their order in the data is not promised.
        let mut order = (0..count)
            .map(|index| Ok((profiler.range_name(index)?.parse().unwrap_or(index), index)))
            .collect::<Result<Vec<(usize, usize)>>>()?;
        order.sort_unstable();
        for (place, (_, index)) in order.into_iter().enumerate() {
            let launch = launches.kernels.get(place).filter(|_| kernels_known);
            ranges.push(CountedRange {
                path: launch.and_then(|launch| launch.path.clone()),
                level: 1,
                kernel: launch.map(|launch| launch.name.demangled.to_string()),
                kernel_mangled: launch.map(|launch| launch.name.mangled.to_string()),
                values: counted::evaluate(&host, profiler.data(), index, &target.plan)?,
            });
        }
        timings.evaluate = begun.elapsed();
        timed(&mut timings.disable, || drop(profiler));
        Ok(ready.counted(ranges, Replay::Kernel, kernels_known))
    }

    fn prepare(self, between: Between, started: Instant, room: usize, nesting_levels: u16) -> Result<Ready> {
        if room == 0 || nesting_levels == 0 {
            return Err(Error::new(ErrorKind::Config, "max_ranges and nesting_levels are at least 1"));
        }
        let mut timings = Timings { cache: started.elapsed(), ..Timings::default() };
        let slot = Slot::take(Holder::Counters)?;
        let target = Target::open(&self.plan, &mut timings)?;
        if self.single_pass && target.plan.passes() * usize::from(nesting_levels) > 1 {
            return Err(too_many_passes(&target.plan, nesting_levels));
        }
        let conditions = timed(&mut timings.device, || Conditions::of(&target.device.uuid));
        Ok(Ready {
            slot,
            target,
            between,
            conditions,
            cupti_cache: self.cache.cupti_mode(),
            timings,
            started,
        })
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("plan", &self.plan)
            .field("max_ranges", &self.max_ranges)
            .field("nesting_levels", &self.nesting_levels)
            .field("single_pass", &self.single_pass)
            .field("device", &self.device)
            .field("cache", &self.cache)
            .finish_non_exhaustive()
    }
}

/// Everything that the counters are switched on with.
struct Ready {
    target: Target,
    between: Between,
    conditions: Conditions,
    cupti_cache: u32,
    timings: Timings,
    started: Instant,
    /// Dropped last.
    slot: Slot,
}

impl Ready {
    /// Switches the counters on, with room for so many ranges.
    fn enable(
        &mut self,
        mode: Mode,
        max_ranges: usize,
        nesting_levels: u16,
    ) -> Result<(Host, RangeProfiler)> {
        let Self { target, timings, cupti_cache, .. } = self;
        let names = Names::new(target.plan.names())?;
        let Configured { host, config, .. } = match target.configured.take() {
            Some(configured) => configured,
            // With more room.
            None => timed(&mut timings.plan, || target.plan.configure())?,
        };
        let (cupti, version) = (target.libraries.cupti, target.libraries.version);
        let mut profiler = timed(&mut timings.enable, || {
            RangeProfiler::enable(cupti, version, target.context, config, *cupti_cache)
        })
        .map_err(explained)?;
        let setup = Setup { mode, max_ranges, nesting_levels };
        timed(&mut timings.set_up, || profiler.set_up(&names, setup)).map_err(explained)?;
        Ok((host, profiler))
    }

    /// Runs the work until every pass has been made. Returns the ranges that it opened; after the first round, if there
    /// was no room for them.
    fn rounds<R: PassOutcome>(
        &mut self,
        profiler: &mut RangeProfiler,
        max_ranges: usize,
        nesting_levels: u16,
        work: &mut impl FnMut(&Pass<'_>) -> R,
    ) -> Result<Vec<Opened>> {
        let Self { target, between, conditions, timings, .. } = self;
        let expected = target.plan.passes() * usize::from(nesting_levels);
        let mut first: Option<Vec<Opened>> = None;
        let (profiler, between) = (RefCell::new(profiler), RefCell::new(between));
        loop {
            let number = timings.rounds.len();
            if number >= expected + EXTRA_ROUNDS {
                let what =
                    format!("CUPTI has not made all passes after {number} rounds, and {expected} were to do");
                return Err(Error::new(ErrorKind::Call, what).with_hint("use another version of CUPTI"));
            }
            let mut times = RoundTimings::default();
            timed(&mut times.wait, || target.libraries.driver.synchronize(target.context))?;
            timed(&mut times.between, || {
                conditions.before_pass();
                between.borrow_mut().before_pass(number)
            })?;
            timed(&mut times.start, || profiler.borrow_mut().start()).map_err(explained)?;
            let opened = {
                let pass = Pass::new(number, &profiler, &between, nesting_levels, max_ranges, times);
                let begun = Instant::now();
                let outcome = work(&pass).into_result();
                let took = begun.elapsed();
                outcome.map_err(|source| failed_work(number, expected, source))?;
                let before = times.between;
                let opened;
                (opened, times) = pass.finish()?;
                times.work = took.saturating_sub(times.between - before + times.push + times.pop);
                opened
            };
            let stopped = timed(&mut times.stop, || profiler.borrow_mut().stop())?;
            timed(&mut times.between, || conditions.after_pass());
            timings.rounds.push(times);
            if opened.len() > max_ranges {
                return Ok(opened);
            }
            match &first {
                None if opened.is_empty() => return Err(no_ranges()),
                None => {}
                Some(first) => check_same(first, &opened, number)?,
            }
            let first = first.get_or_insert(opened);
            if stopped.all_submitted {
                return Ok(std::mem::take(first));
            }
        }
    }

    /// What was done so far does not count, but for the time it took.
    fn begin_anew(&mut self, took: Duration) {
        let Timings { thrown_away, enable, set_up, rounds, .. } = &mut self.timings;
        rounds.clear();
        self.conditions.passes.clear();
        (*enable, *set_up) = (Duration::ZERO, Duration::ZERO);
        *thrown_away += took;
    }

    fn counted(self, ranges: Vec<CountedRange>, replay: Replay, kernels_known: bool) -> Counted {
        let Self { slot, target, between, conditions, mut timings, started, .. } = self;
        drop(slot);
        let rounds = timings.rounds.len();
        timings.total = started.elapsed();
        let mut facts = vec![
            ("counters.device_uuid".to_owned(), target.device.uuid.clone()),
            ("counters.device_name".to_owned(), target.device.name.clone()),
            ("counters.rounds".to_owned(), rounds.to_string()),
            ("counters.overhead_ns".to_owned(), timings.overhead().as_nanos().to_string()),
            ("counters.traced".to_owned(), "false: no kernel was traced while it was counted".to_owned()),
        ];
        facts.extend(between.facts());
        let of_passes = conditions.passes.iter().enumerate();
        facts.extend(of_passes.map(|(pass, of)| (format!("counters.pass.{pass}"), of.to_string())));
        Counted {
            plan: target.plan,
            ranges,
            replay,
            rounds,
            conditions: conditions.passes,
            timings,
            kernels_known,
            cache: between.report().cloned(),
            residual: between.residual(),
            device: target.device.ordinal,
            device_name: target.device.name,
            cache_state: between.cache_state().to_owned(),
            clock_mode: between.clock_mode().to_owned(),
            facts,
        }
    }
}

fn failed_work(number: usize, expected: usize, source: Box<dyn std::error::Error + Send + Sync>) -> Error {
    Error::new(ErrorKind::Program, format!("the work failed in pass {} of {expected}", number + 1))
        .with_source(source)
}

fn too_many_passes(plan: &Plan, nesting_levels: u16) -> Error {
    let what = format!("one pass is allowed, and {} metrics take {}", plan.metrics().len(), plan.passes());
    let error = Error::new(ErrorKind::Config, what);
    if nesting_levels > 1 {
        return error.with_hint("each of the nesting levels takes a pass: count one level");
    }
    match plan.beyond(1) {
        Ok(names) => error.with_hint(format!("drop {}", names.join(", "))),
        Err(_) => error,
    }
}

/// The ranges with their paths, without values as yet.
fn named(opened: &[Opened]) -> Vec<CountedRange> {
    let mut path: Vec<&str> = Vec::new();
    let with_path = |Opened { level, name }: &'_ Opened, path: &[&str]| CountedRange {
        path: Some(path.iter().copied().chain([name.as_str()]).collect::<Vec<_>>().join("/")),
        level: *level,
        kernel: None,
        kernel_mangled: None,
        values: Vec::new(),
    };
    let mut ranges = Vec::with_capacity(opened.len());
    for range in opened {
        path.truncate(usize::from(range.level) - 1);
        ranges.push(with_path(range, &path));
        path.push(&range.name);
    }
    ranges
}

fn no_ranges() -> Error {
    Error::new(ErrorKind::Config, "the work opened no range")
        .with_hint("call pass.range(\"name\", || …) around what is to be counted")
}

fn check_dropped(dropped: usize, max_ranges: usize) -> Result<()> {
    if dropped == 0 { Ok(()) } else { Err(too_many_ranges(max_ranges + dropped, max_ranges)) }
}

fn too_many_ranges(count: usize, max_ranges: usize) -> Error {
    let what = format!("a pass has {count} ranges, and there is room for {max_ranges}");
    Error::new(ErrorKind::Config, what).with_hint(format!("call Session::max_ranges({count})"))
}

fn check_same(first: &[Opened], now: &[Opened], pass: usize) -> Result<()> {
    if first == now {
        return Ok(());
    }
    let at = first.iter().zip(now).take_while(|(a, b)| a == b).count();
    let told = |ranges: &[Opened]| {
        ranges.get(at).map_or_else(|| "none".to_owned(), |range| format!("{:?}", range.name))
    };
    let what = format!(
        "pass {} opened other ranges than the first: as number {} {} instead of {}",
        pass + 1,
        at + 1,
        told(now),
        told(first)
    );
    Err(Error::new(ErrorKind::Config, what)
        .with_hint("the work must open the same ranges in the same order each time"))
}
