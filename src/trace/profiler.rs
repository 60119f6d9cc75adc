//! The session's handle.

use std::ffi::OsString;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::builder::Builder;
use super::collector::Collector;
use super::output::Output;
use super::pipeline::{Pipeline, Start};
use super::profile::{FinishError, Profile};
use super::session::{OtherNvtx, Tracing};
use super::warnings;
use super::watch::Watch;
use super::worker::{Control, Ended, LastWords, Recording, Worker};
use crate::buffer::{INITIAL_BLOCKS, Pool};
use crate::capture::{Frame, Place, Writer};
use crate::channel;
use crate::cupti::{self, Holder, Libraries, Slot};
use crate::error::{Error, ErrorKind, Result};
use crate::issues;
use crate::limit::{Step, timed_out, within};
use crate::losses::Cause;
use crate::range::{self, nvtx, nvtx::env::Injection};
use crate::record::Decoder;
use crate::table::writer::DatasetWriter;
use crate::units::{Nanos, ThreadId, process_run};

/// The start of a session.
const START: Step = Step { what: "starting the session", setting: Some("Builder::start_timeout") };

/// Going on with it, after counters.
const RESUME: Step = Step { what: "switching tracing on again", ..START };

/// Its end, and flushes before.
const END: Step = Step { what: "ending the session", setting: Some("Builder::finish_timeout") };

/// A running session: every kernel, copy and fill of this process is recorded until [`finish`](Profiler::finish).
///
/// One session can run in a process at a time. Dropping it ends it like `finish`, without a profile: files are
/// complete, and nobody is told of failures.
///
/// # Cost
/// While it runs: kernel tracing by CUPTI itself adds 0.5 to 1.3 µs a launch on an H200 machine; a range around each
/// launch 0.15 to 0.2 µs; the launch callback less than could be resolved there (`benches/results/trace-h200.md`).
/// Memory: 16 MiB of buffers at first and 256 MiB at most, 256 KiB for each thread that launches or opens ranges,
/// 128 MiB at most of events that wait, and some 100 MB at most for launches and ranges whose records have not come.
#[must_use = "dropping the profiler ends the session at once"]
pub struct Profiler {
    /// None: disabled.
    pub(super) running: Option<Running>,
}

pub(super) struct Running {
    pub(super) control: Sender<Control>,
    /// None: it had no work.
    pub(super) worker: JoinHandle<Option<Ended>>,
    /// Closed when the worker has ended.
    worker_ended: Mutex<Receiver<()>>,
    /// Whether the worker is inside CUPTI.
    watch: Arc<Watch>,
    /// What is switched on. None where CUPTI has not come back from a call: the thread that made the call has it, so that
    /// nothing goes that CUPTI still uses.
    tracing: Option<Tracing>,
    /// Shared with calls of CUPTI, so that no other session starts while one is under way.
    pub(super) slot: Arc<Slot>,
    pub(super) libraries: Libraries,
    nvtx_injection: Option<Injection>,
    start_timeout: Duration,
    finish_timeout: Duration,
    process: u32,
    /// How often tracing was suspended.
    pub(super) suspensions: usize,
    /// Ranges that counter sessions counted meanwhile.
    pub(super) counted_ranges: i64,
    /// What is known so far that the worker does not know.
    words: LastWords,
}

/// A session that was switched on; none once somebody has taken it.
struct Started(Option<(Slot, Tracing, LastWords)>);

impl Drop for Started {
    /// Nobody waits for it any more: everything is switched off, and buffers are not kept for anybody.
    fn drop(&mut self) {
        if let Some((slot, tracing, _words)) = self.0.take() {
            drop(tracing);
            cupti::end_session();
            drop(slot);
        }
    }
}

impl Profiler {
    /// Configures a session.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// A profiler that records nothing and costs nothing: every call succeeds, and its profile is empty.
    ///
    /// For programs that profile on request: `let profiler = if asked { builder.start()? } else { Profiler::disabled() };`
    pub fn disabled() -> Self {
        Self { running: None }
    }

    /// Whether this profiler records.
    #[must_use]
    pub fn is_enabled(&self) -> bool {
        self.running.is_some()
    }

    pub(super) fn start(builder: Builder) -> Result<Self> {
        let slot = Slot::take(Holder::Tracing)?;
        let limit = builder.start_timeout;
        let path = builder.cupti_path.clone();
        // The slot goes along: where a library never comes back, no other session may start.
        let load = move || Libraries::get(path.as_deref()).map(|libraries| (slot, libraries));
        let (slot, libraries) = within(limit, "cuprof-load", START, load)??;
        nvtx::keep();
        let time = Nanos::now();
        let start = Start { version: libraries.version, time, epoch: range::epoch() };

        Pool::get().prepare(INITIAL_BLOCKS);
        while let Some(stale) = Pool::get().next_full() {
            Pool::get().recycle(stale.block); // from an earlier session, delivered after its end
        }
        // The thread waits for its work: there is none unless CUPTI and the outputs can be had.
        let (work, work_comes) = mpsc::channel::<Worker>();
        let (control, controls) = mpsc::channel();
        let (end, ended) = mpsc::channel::<()>();
        let collector = Collector::start()?;
        let run = move || {
            let _at_the_end = end;
            work_comes.recv().ok().map(|worker| worker.run(&controls))
        };
        let worker =
            std::thread::Builder::new().name("cuprof-worker".into()).spawn(run).map_err(|source| {
                Error::new(ErrorKind::Io, "cannot start the worker thread").with_source(source)
            })?;
        let named = nvtx::known_names();
        channel::begin_session(collector.thread().clone());

        let may_be_injected = issues::of(libraries.version).all(|issue| issue.name != issues::NVTX_CRASHES);
        if builder.nvtx_libraries && may_be_injected {
            nvtx::initialise();
        }
        let nvtx_injection =
            (builder.nvtx_libraries && may_be_injected).then(|| Injection::set(libraries.loaded.path()));
        let other_nvtx = match &nvtx_injection {
            Some(Injection::Set(_)) => OtherNvtx::Take,
            Some(Injection::Taken(by)) => OtherNvtx::Taken(by.clone()),
            None if builder.nvtx_libraries => OtherNvtx::Crashes,
            None => OtherNvtx::Leave,
        };
        let asked = builder.clone();
        let switch_on = move || {
            Tracing::start(libraries, &asked, other_nvtx)
                .map(|(tracing, words)| Started(Some((slot, tracing, words))))
        };
        let watch = Arc::new(Watch::new());
        // CUPTI first: where it refuses, no file has been touched, least of all one that was to be overwritten.
        let started =
            within(limit, "cuprof-start", START, switch_on).and_then(|started| started).and_then(|started| {
                let watch = Arc::clone(&watch);
                match prepare(&builder, &libraries, start, named, collector, watch) {
                    Ok(prepared) => Ok((prepared, started)),
                    Err(error) => {
                        // Switching off may hang like everything else.
                        let _told_is_the_first = within(limit, "cuprof-undo", START, || drop(started));
                        Err(error)
                    }
                }
            });
        match started.map(|(prepared, mut started)| (prepared, started.0.take())) {
            Ok((prepared, Some((slot, tracing, words)))) => {
                let _thread_waits = work.send(prepared);
                let running = Running {
                    control,
                    worker,
                    worker_ended: Mutex::new(ended),
                    watch,
                    tracing: Some(tracing),
                    slot: Arc::new(slot),
                    libraries,
                    nvtx_injection,
                    start_timeout: builder.start_timeout,
                    finish_timeout: builder.finish_timeout,
                    process: std::process::id(),
                    suspensions: 0,
                    counted_ranges: 0,
                    words,
                };
                Ok(Self { running: Some(running) })
            }
            Ok((_, None)) => Err(Error::new(ErrorKind::Call, "CUPTI was not switched on")),
            Err(error) => {
                channel::end_session();
                cupti::end_session();
                drop(work); // the thread ends by itself
                let _without_work = worker.join();
                Err(error)
            }
        }
    }

    /// Has CUPTI deliver what is complete, and finishes the files' parts, so that every row so far can be read by
    /// others. Work that still runs on the GPU is delivered later: synchronise before, if it matters.
    ///
    /// # Errors
    /// The failed CUPTI call, or [`ErrorKind::Timeout`] where the flush did not come back in the time that
    /// [`Builder::finish_timeout`] sets.
    pub fn flush(&self) -> Result<()> {
        let Some(running) = &self.running else { return Ok(()) };
        running.check_process()?;
        let (cupti, timeout) = (running.libraries.cupti, running.finish_timeout);
        within(timeout, "cuprof-flush", END, move || {
            if cupti::seen_nothing() { Ok(()) } else { cupti.flush_all(false) }
        })??;
        let (done, wait) = mpsc::channel();
        let gone = || Error::new(ErrorKind::Call, "the worker thread has ended");
        running.control.send(Control::Flush(done)).map_err(|_| gone())?;
        running.worker.thread().unpark();
        wait.recv_timeout(timeout)
            .map_err(|_| timed_out(timeout, Step { what: "writing the rows", ..END }, running.watch.place()))
    }

    /// Ends the session: waits for the GPU, has CUPTI deliver everything, writes the last rows and closes the files.
    ///
    /// A [disabled](Profiler::disabled) profiler gives an empty profile.
    ///
    /// # Errors
    /// [`FinishError`] where the profile could not be written as asked, or CUPTI did not come back in time. It holds
    /// the profile of what was recorded all the same, and converts into [`Error`] with `?`.
    pub fn finish(mut self) -> Result<Profile, FinishError> {
        match self.running.take() {
            Some(running) => running.finish(false).0,
            None => Ok(Profile::empty()),
        }
    }

    /// The same, but for the dataset, if there is one: it is left open for further tables.
    pub(crate) fn finish_open(mut self) -> (Result<Profile, FinishError>, Option<DatasetWriter>) {
        match self.running.take() {
            Some(running) => running.finish(true),
            None => (Ok(Profile::empty()), None),
        }
    }
}

impl Drop for Profiler {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            let _nobody_to_tell = running.finish(false);
        }
    }
}

impl Running {
    /// After a fork the child has neither the worker nor a usable CUDA.
    pub(super) fn check_process(&self) -> Result<()> {
        if self.process == std::process::id() {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Config, "the session belongs to the parent process")
            .with_hint("a forked child cannot use its parent's CUDA state; start a session after exec"))
    }

    /// Calls CUPTI on a thread of its own. Where that does not come back in time, tracing stays with the thread.
    fn call<T: Send + 'static>(
        &mut self,
        limit: Duration,
        step: Step,
        calls: impl FnOnce(&mut Tracing) -> T + Send + 'static,
    ) -> Result<T> {
        let mut tracing = self.tracing.take().ok_or_else(|| {
            Error::new(ErrorKind::Timeout, "CUPTI has not come back from an earlier call of this session")
                .with_hint("the error of that call says which it was, and what to do")
        })?;
        let slot = Arc::clone(&self.slot);
        let (outcome, tracing, _slot) = within(limit, "cuprof-session", step, move || {
            let outcome = calls(&mut tracing);
            (outcome, tracing, slot)
        })?;
        self.tracing = Some(tracing);
        Ok(outcome)
    }

    /// Waits for the GPU and has CUPTI deliver everything.
    pub(super) fn deliver(&mut self) -> Result<()> {
        let can_flush = self.tracing.is_some();
        let delivered = self.call(self.finish_timeout, END, Tracing::flush_to_the_end);
        if can_flush && delivered.is_err() {
            self.words.losses.push((Cause::FlushTimeouts, 1));
        }
        self.words.add(delivered?);
        Ok(())
    }

    /// Switches everything off.
    pub(super) fn stop(&mut self) -> Result<()> {
        let failures = self.call(self.finish_timeout, END, Tracing::stop)?;
        self.words.failures.extend(failures);
        Ok(())
    }

    /// Switches everything on again.
    pub(super) fn resume(&mut self) -> Result<()> {
        self.call(self.start_timeout, RESUME, Tracing::resume)?
    }

    fn finish(mut self, leaves_open: bool) -> (Result<Profile, FinishError>, Option<DatasetWriter>) {
        let nothing = |error| (Err(FinishError { error, profile: Box::new(Profile::empty()) }), None);
        if let Err(error) = self.check_process() {
            // Nothing of the parent's may be touched, and joining the worker would never return.
            std::mem::forget(self);
            return nothing(error);
        }
        let delivered = self.deliver();
        channel::end_session();
        let timeout = delivered.and_then(|()| self.stop()).err();
        let Self { control, worker, worker_ended, watch, tracing, slot, libraries, .. } = self;
        let Self { nvtx_injection, finish_timeout, mut words, .. } = self;
        drop(nvtx_injection);
        words.cupti_hangs = tracing.is_none();
        let facts = within(finish_timeout, "cuprof-facts", END, move || last_facts(&libraries));
        words.facts.extend(facts.unwrap_or_default());
        words.leaves_open = leaves_open;
        let _worker_is_there = control.send(Control::Finish(words));
        worker.thread().unpark();
        if !comes_to_an_end(&worker_ended, &watch, finish_timeout) {
            cupti::end_session();
            // The worker still uses what a session has; another would get in its way.
            std::mem::forget(slot);
            return nothing(timeout.unwrap_or_else(|| timed_out(finish_timeout, END, watch.place())));
        }
        let ended = worker.join();
        cupti::end_session();
        drop(slot);
        let Ok(Some(mut ended)) = ended else {
            let what = "the worker thread panicked; finished parts are complete";
            return nothing(Error::new(ErrorKind::Call, what));
        };
        let open = ended.closed.open.take();
        (Profile::from_ended(ended, timeout), open)
    }
}

/// Waits for the worker. Writing takes as long as it takes, but a call of CUPTI no longer than the limit: false then.
fn comes_to_an_end(ended: &Mutex<Receiver<()>>, watch: &Watch, limit: Duration) -> bool {
    let ended = ended.lock().unwrap_or_else(PoisonError::into_inner);
    let look = limit.min(Duration::from_millis(100));
    while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(look) {
        if watch.inside_for() > limit {
            return false;
        }
    }
    true
}

impl Profile {
    /// The profile, or why it is not what was asked for.
    pub(super) fn from_ended(ended: Ended, timeout: Option<Error>) -> Result<Self, FinishError> {
        let Ended { closed, tally, recording_error } = ended;
        let mut report = closed.report;
        let error = timeout.or_else(|| report.first_error.take()).or(recording_error);
        let profile =
            Self { summary: closed.summary, losses: closed.losses, tally, dataset: closed.dataset, report };
        match error {
            Some(error) => Err(FinishError { error, profile: Box::new(profile) }),
            None => Ok(profile),
        }
    }
}

/// The worker's work: the outputs are made, and what is known at the start is in them.
fn prepare(
    builder: &Builder,
    libraries: &Libraries,
    start: Start,
    named: Vec<u8>,
    collector: Collector,
    watch: Arc<Watch>,
) -> Result<Worker> {
    let mut facts = facts(libraries, start.time);
    facts.extend(warnings::of(libraries));
    // Neither may be lost for the other's sake: the recording's old contents go when the output is there.
    let place = builder.recording.as_deref().map(|path| Place::find(path, builder.overwrite)).transpose()?;
    let output = match Output::new(builder.output.as_deref(), builder.writer_options(facts.clone())) {
        Ok(output) => output.observed_by(builder.observer.clone()),
        Err(error) => {
            place.into_iter().for_each(Place::leave);
            return Err(error);
        }
    };
    let mut pipeline = Pipeline::new(start, output);
    let recording = place.map(Writer::begin).transpose()?;
    let mut recording = recording.map(|writer| Recording { writer, decoder: Decoder::new(start.version) });
    pipeline.events(ThreadId(0), &named);
    if let Some(Recording { writer, .. }) = &mut recording {
        writer.write(&Frame::Start {
            cupti_version: start.version.api(),
            time: start.time,
            epoch: start.epoch.0,
            facts: facts.clone(),
        });
        writer.write(&Frame::Events { thread: ThreadId(0), name: None, bytes: named.into() });
    }
    for (key, value) in facts {
        pipeline.fact(&key, &value);
    }
    // In `env` only: they follow from the version, which is in each file.
    for issue in issues::of(start.version).filter(|issue| issue.matters) {
        let (key, value) =
            (format!("issue.{}", issue.name), format!("{} (before {})", issue.what, issue.repaired));
        pipeline.fact(&key, &value);
        if let Some(Recording { writer, .. }) = &mut recording {
            writer.write(&Frame::Fact { key, value });
        }
    }
    Worker::new(libraries.cupti, collector, pipeline, recording, watch)
}

/// What is known at the start: stored in each file's metadata and in `env`.
fn facts(libraries: &Libraries, time: Nanos) -> Vec<(String, String)> {
    let mut facts = vec![
        ("cuprof.version".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
        ("cupti.version".to_owned(), libraries.version.to_string()),
        ("cupti.path".to_owned(), libraries.loaded.path().display().to_string()),
        ("driver.cuda_version".to_owned(), libraries.driver.version.to_string()),
        ("session.start_ns".to_owned(), time.0.to_string()),
        ("process.id".to_owned(), std::process::id().to_string()),
        ("process.run".to_owned(), process_run().to_owned()),
        ("process.command".to_owned(), command_line(std::env::args_os())),
    ];
    let uname = rustix::system::uname();
    facts.push(("host.name".to_owned(), uname.nodename().to_string_lossy().into_owned()));
    facts.push(("host.kernel".to_owned(), uname.release().to_string_lossy().into_owned()));
    let driver = std::fs::read_to_string("/sys/module/nvidia/version");
    facts.extend(driver.ok().map(|version| ("driver.version".to_owned(), version.trim().to_owned())));
    facts
}

/// A program's arguments, whatever bytes they are.
fn command_line(args: impl Iterator<Item = OsString>) -> String {
    args.map(|arg| arg.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}

/// What can be asked at the end only: asking for devices initialises CUDA, which is no harm if the program did.
fn last_facts(libraries: &Libraries) -> Vec<(String, String)> {
    if cupti::CONTEXTS.live().is_empty() && cupti::seen_nothing() {
        return Vec::new();
    }
    let devices = libraries.driver.devices().unwrap_or_default();
    let facts = devices.into_iter().flat_map(|device| {
        let key = |name: &str| format!("gpu.{}.{name}", device.ordinal);
        let (major, minor) = device.compute_capability;
        [
            (key("name"), device.name.clone()),
            (key("uuid"), device.uuid.clone()),
            (key("compute_capability"), format!("{major}.{minor}")),
            (key("multiprocessors"), device.multiprocessors.to_string()),
            (key("l2_bytes"), device.l2_bytes.to_string()),
            (key("memory_bytes"), device.memory_bytes.to_string()),
        ]
    });
    facts.collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use super::*;

    #[test]
    fn arguments_of_any_bytes_are_told() {
        let args = [b"train".to_vec(), b"\xff\xfe".to_vec()].map(OsString::from_vec);
        assert_eq!(command_line(args.into_iter()), "train \u{fffd}\u{fffd}");
    }
}
