//! Counting: the work is run again and again until every pass has been made.

use std::cell::RefCell;
use std::fmt;
use std::time::{Duration, Instant};

use super::counted::{self, Counted, CountedRange, NullReason, Replay};
use super::device::{Target, explained};
use super::hook::{BetweenPasses, Leave};
use super::kernels::LaunchLog;
use super::pass::{Opened, Pass, PassOutcome};
use super::plan::Plan;
use crate::cupti::host::{Configured, Host};
use crate::cupti::params::Names;
use crate::cupti::range_profiler::{Mode, RangeProfiler, Setup};
use crate::cupti::{Holder, Slot};
use crate::error::{Error, ErrorKind, Result};

/// How many ranges of one pass a session has room for, by default.
pub const DEFAULT_MAX_RANGES: usize = 512;

/// Rounds beyond the expected number after which a session gives up: CUPTI would go on for ever.
const EXTRA_ROUNDS: usize = 2;

/// Counts the metrics of a plan on the GPU whose context is current to this thread.
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
/// run of their own. `gpu__time_duration` of a range has the time around the kernels in it, and is no duration of a
/// kernel.
///
/// # What it takes
/// On an H200 the first round takes some 0.2 s, and each further one 25 ms and the work. The process must be allowed to
/// use counters; the error says how.
#[must_use = "nothing is counted before `run`"]
pub struct Session {
    plan: Plan,
    max_ranges: usize,
    nesting_levels: u16,
    single_pass: bool,
    hook: Box<dyn BetweenPasses>,
}

impl Session {
    /// A session for this plan.
    pub fn new(plan: Plan) -> Self {
        Self {
            plan,
            max_ranges: DEFAULT_MAX_RANGES,
            nesting_levels: 1,
            single_pass: false,
            hook: Box::new(Leave),
        }
    }

    /// How many ranges a pass may have, or with [`run_kernels`](Self::run_kernels) how many kernels. More memory is taken
    /// for more; CUPTI itself has refused more than 2000 to 3000. Default: [`DEFAULT_MAX_RANGES`].
    pub fn max_ranges(mut self, ranges: usize) -> Self {
        self.max_ranges = ranges;
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

    /// What is done before each pass and each range. Default: nothing.
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
    /// [`PermissionDenied`](ErrorKind::PermissionDenied) and [`Busy`](ErrorKind::Busy) with the remedy;
    /// [`Config`](ErrorKind::Config) where the plan is for another chip, takes more passes than allowed, or passes had
    /// different or too many ranges; [`Program`](ErrorKind::Program) where the work failed; else the failed call.
    pub fn run<R: PassOutcome>(self, mut work: impl FnMut(&Pass<'_>) -> R) -> Result<Counted> {
        let started = Instant::now();
        let Ready { slot: _slot, target, host, profiler } =
            self.prepare(Mode::UserRangeUserReplay, self.nesting_levels)?;
        let Self { max_ranges, nesting_levels, mut hook, .. } = self;
        let expected = target.plan.passes() * usize::from(nesting_levels);
        let profiler = RefCell::new(profiler);
        let mut first: Option<Vec<Opened>> = None;
        let mut round_durations = Vec::new();
        loop {
            let number = round_durations.len();
            if number >= expected + EXTRA_ROUNDS {
                let what =
                    format!("CUPTI has not made all passes after {number} rounds, and {expected} were to do");
                return Err(Error::new(ErrorKind::Call, what).with_hint("use another version of CUPTI"));
            }
            target.libraries.driver.synchronize(target.context)?;
            hook.before_pass(number)?;
            let begun = Instant::now();
            profiler.borrow_mut().start().map_err(explained)?;
            let opened = {
                let hook = RefCell::new(&mut *hook as &mut dyn BetweenPasses);
                let pass = Pass::new(number, &profiler, &hook, nesting_levels);
                let outcome = work(&pass).into_result();
                outcome.map_err(|source| failed_work(number, expected, source))?;
                pass.finish()?
            };
            let stopped = profiler.borrow_mut().stop()?;
            round_durations.push(begun.elapsed());
            match &first {
                None => check_ranges(&opened, max_ranges)?,
                Some(first) => check_same(first, &opened, number)?,
            }
            first.get_or_insert(opened);
            if stopped.all_submitted {
                break;
            }
        }
        let opened = first.unwrap_or_default();
        let mut profiler = profiler.into_inner();
        let mut ranges = named(&opened);
        check_dropped(profiler.decode().map_err(explained)?, max_ranges)?;
        for index in 0..profiler.ranges()? {
            let name = profiler.range_name(index)?;
            let number = name.rsplit('/').next().and_then(|number| number.parse::<usize>().ok());
            let Some(range) = number.and_then(|number| ranges.get_mut(number)) else {
                let what = format!("the counter data has a range {name:?} that was not opened");
                return Err(Error::new(ErrorKind::Call, what));
            };
            range.values = counted::evaluate(&host, profiler.data(), index, &target.plan)?;
        }
        drop(profiler);
        for range in ranges.iter_mut().filter(|range| range.values.is_empty()) {
            range.values = vec![Err(NullReason::NoData); target.plan.metrics().len()];
        }
        let rounds_took: Duration = round_durations.iter().sum();
        Ok(finished(
            target,
            ranges,
            Replay::User,
            round_durations,
            started.elapsed() - rounds_took,
            &*hook,
            true,
        ))
    }

    /// Runs the work once, and counts each kernel by itself: CUPTI repeats it for each pass, and restores the device
    /// memory that it changes.
    ///
    /// Each kernel is waited for, so kernels that wait for one another (collective communication, some pipelines) hang.
    /// A kernel has the name that its launching call gives it, and the path of the ranges (`cuprof::range!`, NVTX) that
    /// were opened inside the work.
    ///
    /// # Errors
    /// As [`run`](Self::run), and [`Busy`](ErrorKind::Busy) where another profiler listens to the launches.
    pub fn run_kernels<R: PassOutcome>(self, work: impl FnOnce() -> R) -> Result<Counted> {
        let started = Instant::now();
        let Ready { slot: _slot, target, host, mut profiler } =
            self.prepare(Mode::AutoRangeKernelReplay, 1)?;
        let Self { max_ranges, mut hook, .. } = self;
        let log = LaunchLog::start(&target.libraries)?;
        target.libraries.driver.synchronize(target.context)?;
        hook.before_pass(0)?;
        let begun = Instant::now();
        profiler.start().map_err(explained)?;
        work().into_result().map_err(|source| failed_work(0, 1, source))?;
        target.libraries.driver.synchronize(target.context)?;
        let stopped = profiler.stop()?;
        let round = begun.elapsed();
        let launches = log.finish();
        if !stopped.all_submitted {
            return Err(Error::new(ErrorKind::Call, "CUPTI has not made all passes of each kernel"));
        }
        check_dropped(profiler.decode().map_err(explained)?, max_ranges)?;
        let count = profiler.ranges()?;
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
        drop(profiler);
        let overhead = started.elapsed() - round;
        Ok(finished(target, ranges, Replay::Kernel, vec![round], overhead, &*hook, kernels_known))
    }

    fn prepare(&self, mode: Mode, nesting_levels: u16) -> Result<Ready> {
        if self.max_ranges == 0 || nesting_levels == 0 {
            return Err(Error::new(ErrorKind::Config, "max_ranges and nesting_levels are at least 1"));
        }
        let slot = Slot::take(Holder::Counters)?;
        let target = Target::open(&self.plan)?;
        if self.single_pass && target.plan.passes() * usize::from(nesting_levels) > 1 {
            return Err(too_many_passes(&target.plan, nesting_levels));
        }
        let names = Names::new(target.plan.names())?;
        let Configured { host, config, .. } = target.plan.configure()?;
        let (cupti, version) = (target.libraries.cupti, target.libraries.version);
        let mut profiler =
            RangeProfiler::enable(cupti, version, target.context, config).map_err(explained)?;
        let setup = Setup { mode, max_ranges: self.max_ranges, nesting_levels };
        profiler.set_up(&names, setup).map_err(explained)?;
        Ok(Ready { slot, target, host, profiler })
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("plan", &self.plan)
            .field("max_ranges", &self.max_ranges)
            .field("nesting_levels", &self.nesting_levels)
            .field("single_pass", &self.single_pass)
            .finish_non_exhaustive()
    }
}

/// Everything that the first pass needs. Taken apart in this order, the slot becomes free last.
struct Ready {
    slot: Slot,
    target: Target,
    host: Host,
    profiler: RangeProfiler,
}

fn finished(
    target: Target,
    ranges: Vec<CountedRange>,
    replay: Replay,
    round_durations: Vec<Duration>,
    overhead: Duration,
    hook: &dyn BetweenPasses,
    kernels_known: bool,
) -> Counted {
    let facts = vec![
        ("counters.device_uuid".to_owned(), target.device.uuid.clone()),
        ("counters.device_name".to_owned(), target.device.name.clone()),
        ("counters.rounds".to_owned(), round_durations.len().to_string()),
        ("counters.traced".to_owned(), "false: no kernel was traced while it was counted".to_owned()),
    ];
    Counted {
        plan: target.plan,
        ranges,
        replay,
        rounds: round_durations.len(),
        round_durations,
        overhead,
        kernels_known,
        device: target.device.ordinal,
        cache_state: hook.cache_state().to_owned(),
        clock_mode: hook.clock_mode().to_owned(),
        facts,
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

fn check_ranges(opened: &[Opened], max_ranges: usize) -> Result<()> {
    match opened.len() {
        0 => Err(Error::new(ErrorKind::Config, "the work opened no range")
            .with_hint("call pass.range(\"name\", || …) around what is to be counted")),
        count if count > max_ranges => Err(too_many_ranges(count, max_ranges)),
        _ => Ok(()),
    }
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
