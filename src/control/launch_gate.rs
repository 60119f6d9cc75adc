//! Holds work in a stream back until all of it is launched.

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::cache::kernels;
use crate::cupti::calls::name_of;
use crate::driver::{Context, Driver, Function, Module, Stream};
use crate::error::{Error, ErrorKind, Result};
use crate::gate::{self, Cause, MAX_LAUNCHES, WORDS};
use crate::range::internally;

/// A gate in a stream of the program.
///
/// While it is closed, the GPU runs nothing of what comes in the stream, so that it never waits for the host when it does:
/// launches do not show in the time from the first kernel's start to the last one's end.
///
/// It never stays closed. Its owner opens it; a driver call that may wait for the work opens it before it waits, in a
/// session that is told of these; so does the launch that is one too many; and so does a thread, when time is over. Should
/// none of these come to it, because the process is stopped, say, the kernel ends by itself after twice that time.
pub(crate) struct LaunchGate {
    driver: &'static Driver,
    context: Context,
    stream: Stream,
    timeout: Duration,
    held: Held,
    watch: Watch,
    closed: Option<(u32, Instant)>,
}

/// What is to be given back.
#[derive(Default)]
struct Held {
    module: Option<Module>,
    kernel: Option<Function>,
    /// Where the device has the words.
    words: Option<u64>,
}

/// A gate that was open before all work was launched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Broken {
    cause: Cause,
    timeout: Duration,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.cause {
            Cause::Waits(call) => {
                let name = name_of(call).unwrap_or("a driver call");
                write!(f, "{name} may wait for the work that was queued")
            }
            Cause::TooManyLaunches => write!(f, "more than {MAX_LAUNCHES} launches"),
            Cause::TimeOut(last) => {
                let ms = self.timeout.as_millis();
                write!(f, "it took more than {ms} ms")?;
                match last.and_then(name_of) {
                    Some(name) => write!(f, ", the last launch being {name}"),
                    None => f.write_str(", and nothing was launched"),
                }
            }
        }
    }
}

impl fmt::Debug for LaunchGate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LaunchGate").field("timeout", &self.timeout).finish_non_exhaustive()
    }
}

impl LaunchGate {
    /// A gate in a stream of the context that is current to this thread, which is open at first. There may be one in a
    /// process.
    ///
    /// # Errors
    /// [`ErrorKind::Call`] where the driver refuses; [`ErrorKind::Io`] where there can be no thread;
    /// [`ErrorKind::Config`] where the stream is being captured into a graph.
    pub fn new(stream: Stream, timeout: Duration) -> Result<Self> {
        let driver = Driver::get()?;
        let (context, _) = driver.current()?;
        let watch = Watch::start()?;
        let mut gate = Self { driver, context, stream, timeout, held: Held::default(), watch, closed: None };
        // On failure, dropping the half-made value gives back what was made.
        let held = &mut gate.held;
        driver.within(context, || {
            let module = held.module.insert(driver.load(kernels()?)?);
            held.kernel = Some(driver.function(module, c"cuprof_internal_gate")?);
            held.words = Some(driver.lend(&WORDS)?);
            Ok(())
        })?;
        // Once, so that the first time that counts is like the others: it may be loaded now.
        gate.close()?;
        gate.open();
        Ok(gate)
    }

    /// Closes it, behind what is in the stream and before what comes.
    ///
    /// # Errors
    /// As [`new`](Self::new); it is open then.
    pub fn close(&mut self) -> Result<()> {
        let Held { kernel: Some(kernel), words: Some(words), .. } = self.held else {
            return Ok(()); // not from `new`
        };
        let (driver, stream) = (self.driver, self.stream);
        let limit_ns = u64::try_from(self.timeout.as_nanos()).unwrap_or(u64::MAX).saturating_mul(2);
        let closed = driver.within(self.context, || {
            if driver.is_capturing(stream)? {
                let what = "the stream of the gate is being captured into a graph";
                return Err(Error::new(ErrorKind::Config, what)
                    .with_hint("capture before it is measured, and launch the graph where it is"));
            }
            let number = gate::next();
            self.closed = Some((number, Instant::now()));
            self.watch.until(number, self.timeout);
            internally(|| driver.launch(kernel, 1, 1, stream, [words, number.into(), limit_ns]))?;
            gate::close(number);
            Ok(())
        });
        if closed.is_err() {
            self.open();
        }
        closed
    }

    /// Opens it. Where it was open already: why.
    pub fn open(&mut self) -> Option<Broken> {
        let (number, since) = self.closed.take()?;
        self.watch.rest();
        let is_over = since.elapsed() >= self.timeout;
        let cause = gate::open(number).or_else(|| is_over.then(gate::timed_out))?;
        Some(Broken { cause, timeout: self.timeout })
    }
}

impl Drop for LaunchGate {
    fn drop(&mut self) {
        self.open();
        let (driver, held) = (self.driver, std::mem::take(&mut self.held));
        // Where this fails, the context is gone, and with it what was in it.
        let _gone_with_its_context = driver.within(self.context, || {
            // The kernel reads what is taken from it here.
            driver.synchronize_current()?;
            let back = held.words.map_or(Ok(()), |_| driver.take_back(&WORDS));
            held.module.map_or(Ok(()), |module| driver.unload(module)).and(back)
        });
    }
}

/// The thread that opens a gate whose time is over.
struct Watch {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    task: Mutex<Task>,
    changed: Condvar,
}

#[derive(Clone, Copy, Default)]
enum Task {
    #[default]
    Rest,
    /// The gate with this number is to be open by then.
    Until(u32, Instant),
    End,
}

impl Watch {
    fn start() -> Result<Self> {
        let shared = Arc::new(Shared::default());
        let its = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("cuprof-gate".to_owned()).spawn(move || its.watch());
        let thread = thread.map_err(|source| {
            Error::new(ErrorKind::Io, "cannot start the thread that watches the gate").with_source(source)
        })?;
        Ok(Self { shared, thread: Some(thread) })
    }

    fn until(&self, number: u32, timeout: Duration) {
        self.set(Task::Until(number, Instant::now() + timeout));
    }

    fn rest(&self) {
        // It need not know before it wakes up by itself.
        *self.shared.lock() = Task::Rest;
    }

    fn set(&self, task: Task) {
        *self.shared.lock() = task;
        self.shared.changed.notify_one();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Task> {
        self.task.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn watch(&self) {
        let mut task = self.lock();
        loop {
            match *task {
                Task::End => return,
                Task::Rest => task = self.changed.wait(task).unwrap_or_else(PoisonError::into_inner),
                Task::Until(number, end) => match end.checked_duration_since(Instant::now()) {
                    Some(left) if !left.is_zero() => {
                        let woken = self.changed.wait_timeout(task, left);
                        (task, _) = woken.unwrap_or_else(PoisonError::into_inner);
                    }
                    _ => {
                        gate::expire(number);
                        *task = Task::Rest;
                    }
                },
            }
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.set(Task::End);
        if let Some(thread) = self.thread.take() {
            let _nothing_panics_in_it = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_named_with_the_call() {
        let told = |cause| Broken { cause, timeout: Duration::from_millis(500) }.to_string();
        let waits =
            crate::cupti::calls::WAITING.iter().find(|cbid| name_of(cbid.0) == Some("cuCtxSynchronize"));
        let waits = waits.map_or(0, |cbid| cbid.0);
        assert_eq!(told(Cause::Waits(waits)), "cuCtxSynchronize may wait for the work that was queued");
        assert_eq!(told(Cause::TooManyLaunches), "more than 256 launches");
        let over = "it took more than 500 ms";
        assert_eq!(told(Cause::TimeOut(Some(307))), format!("{over}, the last launch being cuLaunchKernel"));
        assert_eq!(told(Cause::TimeOut(None)), format!("{over}, and nothing was launched"));
    }
}
