//! Waiting until a GPU is cool enough for the next run.

use std::fmt;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use super::monitor::{GpuMonitor, Watch};
use crate::driver::nvml::MarginSource;
use crate::error::{Error, ErrorKind, Result};

/// Margin to the slow-down limit, in degrees Celsius, at which runs pause by default.
pub const DEFAULT_PAUSE_AT_MARGIN_C: i32 = 10;

/// Margin at which they go on by default. The distance between the two keeps a pause from being followed by the next.
pub const DEFAULT_RESUME_AT_MARGIN_C: i32 = 20;

/// How long all pauses together may take by default.
pub const DEFAULT_THERMAL_BUDGET: Duration = Duration::from_secs(180);

/// How often the margin is asked for in a pause.
const POLL: Duration = Duration::from_millis(50);

/// How often a pause is told of.
const TELL: Duration = Duration::from_secs(5);

/// With [`Thermal::Auto`]: a pause after fewer runs than this since the last one came too early, and the next lasts
/// until a larger margin; one after more runs than [`LATE_RUNS`] allows a smaller one. By so many degrees, up to this
/// margin. These are the figures that users of Nsight Python know.
const EARLY_RUNS: u64 = 5;
const LATE_RUNS: u64 = 50;
const STEP_C: i32 = 3;
const MAX_RESUME_AT_MARGIN_C: i32 = 50;
/// The resuming margin stays so far above the pausing one.
const MIN_DISTANCE_C: i32 = 2;

/// When runs wait for the GPU to cool down.
///
/// The margin is how many degrees Celsius are left until heat slows the GPU down: what NVML tells as such, else its
/// slow-down threshold minus the temperature.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Thermal {
    /// Never.
    Off,
    /// At a margin of [`DEFAULT_PAUSE_AT_MARGIN_C`] or less, until [`DEFAULT_RESUME_AT_MARGIN_C`], or a margin that
    /// adapts: 3 degrees more (up to 50) where pauses follow each other within 5 runs, 3 degrees less where there are
    /// more than 50 runs between.
    #[default]
    Auto,
    /// At this margin or less, until that one.
    Manual {
        /// Runs pause at this margin or less.
        pause_at_margin_c: i32,
        /// They go on at this margin or more; it must be the larger one.
        resume_at_margin_c: i32,
    },
}

/// One pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ThermalPause {
    /// When it began, on the host's clock.
    pub began: SystemTime,
    /// How long it took.
    pub waited: Duration,
    /// Margin before and after, in degrees Celsius.
    pub margin_before_c: i32,
    /// See above.
    pub margin_after_c: i32,
    /// The margin that was waited for.
    pub wanted_margin_c: i32,
    /// Runs since the pause before, or since the beginning.
    pub runs_before: u64,
}

/// A pause that goes on, as [`ThermalGuard::on_wait`] is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ThermalWait {
    /// How long this pause has taken so far.
    pub waited: Duration,
    /// How much longer it may take.
    pub left: Duration,
    /// The margin now, in degrees Celsius.
    pub margin_c: i32,
    /// The margin that is waited for.
    pub wanted_margin_c: i32,
}

impl fmt::Display for ThermalWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { waited, left, margin_c, wanted_margin_c } = self;
        let (waited, left) = (waited.as_secs(), left.as_secs());
        write!(
            f,
            "waiting for the GPU to cool down: {margin_c} C to its slow-down limit, {wanted_margin_c} C wanted; \
             {waited} s so far, {left} s at most"
        )
    }
}

/// What a [`ThermalGuard`] did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ThermalReport {
    /// UUID of the physical GPU, as `nvidia-smi -L` prints it; none where it is not watched.
    pub gpu_uuid: Option<String>,
    /// Where the margin comes from; none where it is not known.
    pub source: Option<MarginSource>,
    /// The pauses, in their order.
    pub pauses: Vec<ThermalPause>,
    /// How long they took together.
    pub waited: Duration,
    /// Runs that were let go.
    pub runs: u64,
    /// Why nothing is watched, although it was asked for; with what to do.
    pub message: Option<String>,
}

impl fmt::Display for ThermalReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.gpu_uuid, &self.message) {
            (_, Some(message)) => write!(f, "heat: not watched\n  {message}"),
            (None, None) => f.write_str("heat: not watched"),
            (Some(uuid), None) => {
                let (pauses, seconds) = (self.pauses.len(), self.waited.as_secs_f64());
                write!(f, "heat of {uuid}: {pauses} pauses in {} runs, {seconds:.1} s", self.runs)
            }
        }
    }
}

/// Has runs wait while the GPU is hot. Changes nothing on the GPU.
///
/// A pause lets the clocks fall, too: warm up after one before measuring on.
///
/// ```no_run
/// # fn main() -> cuprof::Result<()> {
/// use cuprof::{Thermal, ThermalGuard};
///
/// let mut heat = ThermalGuard::of_current_context(Thermal::Auto, None)?.on_wait(|wait| eprintln!("{wait}"));
/// for _ in 0..100 {
///     heat.before_run()?;
///     let run = heat.watch();
///     // … GPU work …
///     let conditions = run.map(|run| run.end());
///     assert!(conditions.is_none_or(|conditions| !conditions.is_throttled()));
/// }
/// println!("{}", heat.report());
/// # Ok(())
/// # }
/// ```
pub struct ThermalGuard {
    monitor: Option<GpuMonitor>,
    cooling: Cooling,
    tell: Option<Tell>,
}

/// Is told of a pause.
type Tell = Box<dyn FnMut(&ThermalWait) + Send>;

impl fmt::Debug for ThermalGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThermalGuard")
            .field("monitor", &self.monitor)
            .field("cooling", &self.cooling)
            .finish()
    }
}

impl ThermalGuard {
    /// For the GPU with this UUID, as CUDA or `nvidia-smi -L` print it. Where NVML or the margin is not to be had, runs
    /// go on unwatched, and the report says why.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] where the margins contradict each other; [`ErrorKind::NoDevice`] where NVML has no GPU with
    /// this UUID.
    pub fn open(thermal: Thermal, uuid: &str, nvml_path: Option<&Path>) -> Result<Self> {
        let mut cooling = Cooling::new(thermal)?;
        if thermal == Thermal::Off {
            return Ok(Self { monitor: None, cooling, tell: None });
        }
        let opened = GpuMonitor::open(uuid, nvml_path)
            .and_then(|monitor| monitor.gpu().thermal_margin().map(|margin| (monitor, margin)));
        let monitor = match opened {
            Ok((monitor, margin)) => {
                cooling.report.gpu_uuid = Some(monitor.uuid().to_owned());
                cooling.report.source = Some(margin.source);
                Some(monitor)
            }
            Err(error) if error.kind == ErrorKind::NoDevice => return Err(error),
            Err(error) => {
                cooling.report.message = Some(error.to_string());
                None
            }
        };
        Ok(Self { monitor, cooling, tell: None })
    }

    /// For the GPU of the context that is current to this thread.
    ///
    /// # Errors
    /// As [`ThermalGuard::open`]; [`ErrorKind::Config`] where no context is current.
    pub fn of_current_context(thermal: Thermal, nvml_path: Option<&Path>) -> Result<Self> {
        let (_, device) = crate::driver::Driver::get()?.current()?;
        Self::open(thermal, &device.uuid, nvml_path)
    }

    /// How long all pauses together may take. Default: [`DEFAULT_THERMAL_BUDGET`].
    #[must_use]
    pub fn budget(mut self, budget: Duration) -> Self {
        self.cooling.budget = budget;
        self
    }

    /// Is told of each pause when it begins, and every 5 seconds while it lasts.
    #[must_use]
    pub fn on_wait(mut self, tell: impl FnMut(&ThermalWait) + Send + 'static) -> Self {
        self.tell = Some(Box::new(tell));
        self
    }

    /// Returns when the next run may begin: at once, or after a pause, which it then gives.
    ///
    /// # Errors
    /// [`ErrorKind::Timeout`] where the GPU does not cool down within the budget: how long was waited, the margin, and
    /// the one that was wanted.
    pub fn before_run(&mut self) -> Result<Option<ThermalPause>> {
        let Some(monitor) = &self.monitor else {
            self.cooling.report.runs += 1;
            return Ok(None);
        };
        let began = Instant::now();
        let mut gpu = RealGpu { monitor, began };
        let tell = &mut self.tell;
        self.cooling.before_run(&mut gpu, &mut |wait| {
            if let Some(tell) = tell {
                tell(wait);
            }
        })
    }

    /// Begins a run, whose throttling [`Watch::end`] gives; none where nothing is watched.
    #[must_use]
    pub fn watch(&self) -> Option<Watch<'_>> {
        self.monitor.as_ref().map(GpuMonitor::watch)
    }

    /// What was done so far.
    #[must_use]
    pub fn report(&self) -> &ThermalReport {
        &self.cooling.report
    }
}

/// The GPU and the time, as far as cooling down is concerned.
trait Heat {
    /// Degrees Celsius to the slow-down limit.
    fn margin_c(&mut self) -> Result<i32>;
    /// Time since some moment.
    fn now(&mut self) -> Duration;
    fn sleep(&mut self, time: Duration);
}

struct RealGpu<'a> {
    monitor: &'a GpuMonitor,
    began: Instant,
}

impl Heat for RealGpu<'_> {
    fn margin_c(&mut self) -> Result<i32> {
        self.monitor.gpu().thermal_margin().map(|margin| margin.margin_c)
    }

    fn now(&mut self) -> Duration {
        self.began.elapsed()
    }

    fn sleep(&mut self, time: Duration) {
        std::thread::sleep(time);
    }
}

/// When to pause, and for how long.
#[derive(Debug)]
struct Cooling {
    pause_at_c: i32,
    resume_at_c: i32,
    adapts: bool,
    budget: Duration,
    runs_since_pause: u64,
    report: ThermalReport,
}

impl Cooling {
    fn new(thermal: Thermal) -> Result<Self> {
        let (pause_at_c, resume_at_c) = match thermal {
            Thermal::Off | Thermal::Auto => (DEFAULT_PAUSE_AT_MARGIN_C, DEFAULT_RESUME_AT_MARGIN_C),
            Thermal::Manual { pause_at_margin_c, resume_at_margin_c } => {
                (pause_at_margin_c, resume_at_margin_c)
            }
        };
        let out_of_range = |field: &str, value: i32, range: String| {
            Err(Error::new(ErrorKind::Config, format!("{field} is {value}"))
                .with_hint(format!("it must be {range}")))
        };
        if !(0..=100).contains(&pause_at_c) {
            return out_of_range("pause_at_margin_c", pause_at_c, "from 0 to 100".to_owned());
        }
        if resume_at_c <= pause_at_c || resume_at_c > 100 {
            let range = format!("above pause_at_margin_c, which is {pause_at_c}, and at most 100");
            return out_of_range("resume_at_margin_c", resume_at_c, range);
        }
        Ok(Self {
            pause_at_c,
            resume_at_c,
            adapts: thermal == Thermal::Auto,
            budget: DEFAULT_THERMAL_BUDGET,
            runs_since_pause: 0,
            report: ThermalReport::default(),
        })
    }

    fn before_run(
        &mut self,
        gpu: &mut impl Heat,
        tell: &mut dyn FnMut(&ThermalWait),
    ) -> Result<Option<ThermalPause>> {
        let paused = match gpu.margin_c() {
            Ok(margin_c) if margin_c <= self.pause_at_c => Some(self.pause(margin_c, gpu, tell)?),
            Ok(_) => None,
            Err(error) => {
                // A GPU that stops telling is not waited for.
                self.report.message = Some(error.to_string());
                None
            }
        };
        self.report.runs += 1;
        self.runs_since_pause += 1;
        Ok(paused)
    }

    fn pause(
        &mut self,
        margin_before_c: i32,
        gpu: &mut impl Heat,
        tell: &mut dyn FnMut(&ThermalWait),
    ) -> Result<ThermalPause> {
        self.adapt();
        let (began, start) = (SystemTime::now(), gpu.now());
        let budget = self.budget.saturating_sub(self.report.waited);
        let mut margin_c = margin_before_c;
        let mut told: Option<Duration> = None;
        let mut waited = Duration::ZERO;
        let outcome = loop {
            if margin_c >= self.resume_at_c {
                break Ok(());
            }
            if waited >= budget {
                break Err(self.timed_out(waited, margin_c));
            }
            if told.is_none_or(|told| waited.saturating_sub(told) >= TELL) {
                told = Some(waited);
                let left = budget.saturating_sub(waited);
                tell(&ThermalWait { waited, left, margin_c, wanted_margin_c: self.resume_at_c });
            }
            gpu.sleep(POLL.min(budget.saturating_sub(waited)));
            waited = gpu.now().saturating_sub(start);
            match gpu.margin_c() {
                Ok(margin) => margin_c = margin,
                Err(error) => {
                    self.report.message = Some(error.to_string());
                    break Ok(());
                }
            }
        };
        let pause = ThermalPause {
            began,
            waited,
            margin_before_c,
            margin_after_c: margin_c,
            wanted_margin_c: self.resume_at_c,
            runs_before: self.runs_since_pause,
        };
        self.report.waited += waited;
        self.report.pauses.push(pause);
        self.runs_since_pause = 0;
        outcome.map(|()| pause)
    }

    /// Before the first pause nothing is known.
    fn adapt(&mut self) {
        if !self.adapts || self.report.pauses.is_empty() {
            return;
        }
        if self.runs_since_pause < EARLY_RUNS {
            self.resume_at_c = (self.resume_at_c + STEP_C).min(MAX_RESUME_AT_MARGIN_C);
        } else if self.runs_since_pause > LATE_RUNS {
            self.resume_at_c = (self.resume_at_c - STEP_C).max(self.pause_at_c + MIN_DISTANCE_C);
        }
    }

    fn timed_out(&self, waited: Duration, margin_c: i32) -> Error {
        let (waited, wanted) = (waited.as_secs_f64(), self.resume_at_c);
        let what = format!(
            "the GPU did not cool down in {waited:.1} s: {margin_c} C to its slow-down limit, {wanted} C wanted"
        );
        Error::new(ErrorKind::Timeout, what).with_hint(
            "see to its cooling; or use a longer budget, a smaller `resume_at_margin_c`, or `Thermal::Off`",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A GPU whose margin follows a rule of time, and a clock that only sleeping moves.
    struct Simulated<F> {
        now: Duration,
        margin: F,
        polls: u64,
    }

    impl<F: FnMut(Duration) -> Option<i32>> Heat for Simulated<F> {
        fn margin_c(&mut self) -> Result<i32> {
            self.polls += 1;
            (self.margin)(self.now).ok_or_else(|| Error::new(ErrorKind::NotSupported, "no margin"))
        }

        fn now(&mut self) -> Duration {
            self.now
        }

        fn sleep(&mut self, time: Duration) {
            assert!(!time.is_zero(), "time stands still");
            self.now += time;
        }
    }

    fn gpu<F: FnMut(Duration) -> Option<i32>>(margin: F) -> Simulated<F> {
        Simulated { now: Duration::ZERO, margin, polls: 0 }
    }

    fn silent(_: &ThermalWait) {}

    #[test]
    fn a_cool_gpu_is_asked_once_and_not_waited_for() {
        let mut cooling = Cooling::new(Thermal::Auto).unwrap();
        let mut gpu = gpu(|_| Some(11));
        for _ in 0..3 {
            assert_eq!(cooling.before_run(&mut gpu, &mut silent).unwrap(), None);
        }
        assert_eq!((gpu.polls, cooling.report.runs), (3, 3));
        assert!(cooling.report.pauses.is_empty());
    }

    #[test]
    fn a_hot_gpu_is_waited_for_until_the_larger_margin_and_the_wait_is_told() {
        let mut cooling =
            Cooling::new(Thermal::Manual { pause_at_margin_c: 10, resume_at_margin_c: 20 }).unwrap();
        // One degree a second, from 10.
        let mut gpu = gpu(|now| Some(10 + now.as_secs() as i32));
        let mut told = Vec::new();
        let pause = cooling.before_run(&mut gpu, &mut |wait| told.push(*wait)).unwrap().unwrap();
        assert_eq!(pause.waited, Duration::from_secs(10));
        assert_eq!((pause.margin_before_c, pause.margin_after_c, pause.wanted_margin_c), (10, 20, 20));
        let seconds: Vec<_> = told.iter().map(|wait| (wait.waited.as_secs(), wait.margin_c)).collect();
        assert_eq!(seconds, [(0, 10), (5, 15)], "at its beginning, and every 5 s");
        assert_eq!(told[1].left, Duration::from_secs(175));
        let text = told[1].to_string();
        assert!(
            text.contains("15 C to its slow-down limit, 20 C wanted; 5 s so far, 175 s at most"),
            "{text}"
        );
        // Polled often enough to notice within 50 ms.
        assert_eq!(gpu.polls, 1 + 200);
    }

    #[test]
    fn all_pauses_share_one_budget_and_its_end_says_what_was_waited_for() {
        let thermal = Thermal::Manual { pause_at_margin_c: 5, resume_at_margin_c: 15 };
        let mut cooling = Cooling::new(thermal).unwrap();
        cooling.budget = Duration::from_secs(60);
        // Cools down in 40 s once; then never again.
        let mut first = gpu(|now| Some(if now < Duration::from_secs(40) { 3 } else { 15 }));
        cooling.before_run(&mut first, &mut silent).unwrap();
        let mut second = gpu(|_| Some(4));
        let error = cooling.before_run(&mut second, &mut silent).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Timeout);
        let text = error.to_string();
        assert!(text.contains("20.0 s: 4 C to its slow-down limit, 15 C wanted"), "{text}");
        assert!(text.contains("Thermal::Off"), "{text}");
        assert_eq!((cooling.report.pauses.len(), cooling.report.waited), (2, Duration::from_secs(60)));
        // What has run out stays so, without another wait.
        let mut third = gpu(|_| Some(4));
        assert!(cooling.before_run(&mut third, &mut silent).is_err());
        assert_eq!(third.now, Duration::ZERO);
    }

    #[test]
    fn runs_that_take_longer_than_the_budget_are_not_charged_to_it() {
        let thermal = Thermal::Manual { pause_at_margin_c: 5, resume_at_margin_c: 15 };
        let mut cooling = Cooling::new(thermal).unwrap();
        cooling.budget = Duration::from_secs(60);
        // An hour lies between two of them.
        for hour in 0..3 {
            let since = Duration::from_secs(hour * 3_600);
            let mut hot = gpu(move |now| Some(if now < since + Duration::from_secs(20) { 3 } else { 15 }));
            hot.now = since;
            cooling.before_run(&mut hot, &mut silent).unwrap();
        }
        assert_eq!(cooling.report.waited, Duration::from_secs(60));
    }

    #[test]
    fn the_resuming_margin_adapts_to_how_often_pauses_come() {
        let mut cooling = Cooling::new(Thermal::Auto).unwrap();
        cooling.budget = Duration::from_secs(1 << 20);
        let pause = |cooling: &mut Cooling| {
            let mut hot = gpu(|now| Some(10 + now.as_secs() as i32));
            cooling.before_run(&mut hot, &mut silent).unwrap().unwrap().wanted_margin_c
        };
        let cool = |cooling: &mut Cooling, runs: u64| {
            let mut gpu = gpu(|_| Some(30));
            for _ in 0..runs {
                assert_eq!(cooling.before_run(&mut gpu, &mut silent).unwrap(), None);
            }
        };
        assert_eq!(pause(&mut cooling), 20, "the first one knows nothing");
        assert_eq!(pause(&mut cooling), 23, "the next run again");
        cool(&mut cooling, 10);
        assert_eq!(pause(&mut cooling), 23, "neither early nor late");
        cool(&mut cooling, 60);
        assert_eq!(pause(&mut cooling), 20, "late");
        for _ in 0..20 {
            pause(&mut cooling);
        }
        assert_eq!(pause(&mut cooling), 50, "bounded above");
        for _ in 0..20 {
            cool(&mut cooling, 60);
            pause(&mut cooling);
        }
        cool(&mut cooling, 60);
        assert_eq!(pause(&mut cooling), 12, "bounded below");
    }

    #[test]
    fn manual_margins_do_not_adapt() {
        let thermal = Thermal::Manual { pause_at_margin_c: 10, resume_at_margin_c: 13 };
        let mut cooling = Cooling::new(thermal).unwrap();
        for _ in 0..5 {
            let mut hot = gpu(|now| Some(10 + now.as_secs() as i32));
            let pause = cooling.before_run(&mut hot, &mut silent).unwrap().unwrap();
            assert_eq!(pause.wanted_margin_c, 13);
        }
    }

    #[test]
    fn a_gpu_that_stops_telling_is_not_waited_for() {
        let mut cooling = Cooling::new(Thermal::Auto).unwrap();
        let mut gpu = gpu(|now| (now < Duration::from_secs(1)).then_some(2));
        let pause = cooling.before_run(&mut gpu, &mut silent).unwrap().unwrap();
        assert_eq!(pause.waited, Duration::from_secs(1));
        assert!(cooling.report.message.as_deref().is_some_and(|message| message.contains("no margin")));
        assert_eq!(cooling.before_run(&mut gpu, &mut silent).unwrap(), None);
    }

    #[test]
    fn margins_that_contradict_each_other_are_refused_with_the_range() {
        for (pause_at_margin_c, resume_at_margin_c, field) in [
            (20, 20, "resume_at_margin_c is 20"),
            (20, 10, "resume"),
            (-1, 10, "pause_at_margin_c is -1"),
            (5, 101, "resume"),
        ] {
            let error = Cooling::new(Thermal::Manual { pause_at_margin_c, resume_at_margin_c }).unwrap_err();
            assert_eq!(error.kind, ErrorKind::Config);
            assert!(error.to_string().contains(field), "{error}");
        }
    }
}
