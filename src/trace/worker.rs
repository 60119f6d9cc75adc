//! The thread that turns what was delivered into rows.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError};
use std::time::{Duration, Instant};

use super::aside::Aside;
use super::collector::{Collector, Run};
use super::output::{Closed, Output};
use super::pipeline::{Buffer, CLOCK_TOLERANCE_NS, Meanings, Pipeline};
use super::profile::Tally;
use super::watch::Watch;
use crate::attribute::SETTLING_ROUNDS;
use crate::buffer::{Filled, Pool};
use crate::capture::{CallName, Frame, Strings, Writer};
use crate::channel;
use crate::cupti::{self, Cupti, Records};
use crate::error::{Error, Result};
use crate::losses::Cause;
use crate::record::{Decoder, Record};
use crate::table::rows::MetricRow;
use crate::units::Nanos;

/// How long the worker sleeps when there is nothing to do.
const IDLE: Duration = Duration::from_millis(10);

/// How often parts are looked at, and the clocks compared.
const HOUSEKEEPING: Duration = Duration::from_secs(1);

/// What the worker is told.
pub(super) enum Control {
    /// Process what has been delivered, finish the parts, and answer.
    Flush(Sender<()>),
    /// Write what a counter session counted, and these facts.
    Counted(Vec<MetricRow>, Vec<(String, String)>),
    /// The same, then end with these last words.
    Finish(LastWords),
}

/// What the end of a session knows that the worker does not.
#[derive(Debug, Default)]
pub(super) struct LastWords {
    pub facts: Vec<(String, String)>,
    pub losses: Vec<(Cause, u64)>,
    /// Calls of CUPTI and of the driver that failed.
    pub failures: Vec<Error>,
    /// CUPTI does not come back from a call: no other may be made.
    pub cupti_hangs: bool,
    /// Others go on with the dataset.
    pub leaves_open: bool,
}

impl LastWords {
    pub fn add(&mut self, more: Self) {
        self.facts.extend(more.facts);
        self.losses.extend(more.losses);
        self.failures.extend(more.failures);
        self.cupti_hangs |= more.cupti_hangs;
    }
}

/// What the worker leaves.
pub(super) struct Ended {
    pub closed: Closed,
    pub tally: Tally,
    pub recording_error: Option<Error>,
}

pub(super) struct Worker {
    cupti: Cupti,
    collector: Collector,
    pipeline: Pipeline<Output>,
    recording: Option<Recording>,
    offsets: Vec<u32>,
    housekeeping_due: Instant,
    watch: Arc<Watch>,
    aside: Aside,
    /// Records that CUPTI said it dropped, and that are not counted yet.
    dropped: Arc<AtomicU64>,
    /// How far CUPTI's clock was ahead of the host's at the last comparison.
    ahead_ns: i64,
}

impl Worker {
    pub fn new(
        cupti: Cupti,
        collector: Collector,
        pipeline: Pipeline<Output>,
        recording: Option<Recording>,
        watch: Arc<Watch>,
    ) -> Result<Self> {
        Ok(Self {
            cupti,
            collector,
            pipeline,
            recording,
            offsets: Vec::new(),
            housekeeping_due: Instant::now() + HOUSEKEEPING,
            watch,
            aside: Aside::start()?,
            dropped: Arc::default(),
            ahead_ns: 0,
        })
    }

    /// Works until told to finish, or until nobody can tell any more.
    pub fn run(mut self, control: &Receiver<Control>) -> Ended {
        self.compare_clocks();
        loop {
            let busy = self.round();
            match control.try_recv() {
                Ok(Control::Flush(done)) => {
                    while self.round() {}
                    // Nothing is logged for these ranges any more; their rows need not wait for further rounds.
                    for _ in 0..=SETTLING_ROUNDS {
                        self.events_before(Instant::now());
                        self.pipeline.settle();
                    }
                    self.pipeline.sink().finish_parts();
                    let _nobody_waits = done.send(());
                }
                Ok(Control::Counted(rows, facts)) => {
                    rows.iter().for_each(|row| self.pipeline.sink().metric(row));
                    facts.iter().for_each(|(key, value)| self.fact(key, value));
                }
                Ok(Control::Finish(words)) => return self.finish(words),
                Err(TryRecvError::Disconnected) => return self.finish(LastWords::default()),
                Err(TryRecvError::Empty) if busy => {}
                Err(TryRecvError::Empty) => std::thread::park_timeout(IDLE),
            }
            self.housekeeping();
        }
    }

    /// Takes one buffer, or at least the events. Returns whether there may be more to do at once.
    fn round(&mut self) -> bool {
        let pool = Pool::get();
        pool.refill();
        // First the buffer, then the events: a record's launching call was logged before its buffer was full.
        let filled = pool.next_full();
        self.events_before(filled.as_ref().map_or_else(Instant::now, |filled| filled.completed));
        let Some(filled) = filled else { return false };
        self.follow_clock();
        self.buffer(&filled);
        pool.recycle(filled.block);
        true
    }

    fn events_before(&mut self, moment: Instant) {
        let runs = self.collector.take_before(moment);
        if runs.iter().any(|run| !run.bytes.is_empty()) {
            self.follow_clock();
        }
        for Run { thread, bytes } in runs {
            self.pipeline.thread(thread.tid, thread.name.as_deref());
            self.pipeline.events(thread.tid, &bytes);
            if let Some(Recording { writer, .. }) = &mut self.recording {
                writer.write(&Frame::Events { thread: thread.tid, name: thread.name, bytes: bytes.into() });
            }
        }
    }

    fn buffer(&mut self, filled: &Filled) {
        let Self { watch, cupti, offsets, recording, pipeline, .. } = self;
        let records = watch.call("cuptiActivityGetNextRecord", || cupti.records(filled, offsets));
        let buffer = Buffer {
            received: Nanos::now(),
            bytes: records.bytes(),
            offsets: records.offsets(),
            complete: records.is_complete,
        };
        let meanings = Live { cupti: *cupti, watch, records: &records };
        if let Some(recording) = recording {
            recording.buffer(&buffer, &meanings);
        }
        pipeline.buffer(&buffer, &meanings);
    }

    fn housekeeping(&mut self) {
        let now = Instant::now();
        if now < self.housekeeping_due {
            return;
        }
        self.housekeeping_due = now + HOUSEKEEPING;
        self.pipeline.now_is(Nanos::now());
        self.pipeline.settle();
        self.pipeline.sink().tick(now);
        self.compare_clocks();
        let (cupti, sum) = (self.cupti, Arc::clone(&self.dropped));
        // Added up over there: what was read is gone from CUPTI, even if it comes too late for this call.
        let read = move || sum.fetch_add(cupti.take_dropped().unwrap_or(0), Ordering::Relaxed);
        let _later = self.aside.call(read);
        let dropped = self.dropped.swap(0, Ordering::Relaxed);
        self.loss(Cause::RecordsDropped, dropped);
    }

    /// Both clocks at one moment. To be read before anything is converted from one to the other.
    fn compare_clocks(&mut self) {
        if let Some((cupti_ns, host)) = self.both_clocks() {
            self.clocks(cupti_ns, host);
        }
    }

    /// Follows CUPTI to another clock, which it takes once CUDA has come up: what was launched since is on that one.
    fn follow_clock(&mut self) {
        if let Some((cupti_ns, host)) = self.both_clocks()
            && cupti_ns.saturating_sub(host.0).abs_diff(self.ahead_ns) > CLOCK_TOLERANCE_NS
        {
            self.clocks(cupti_ns, host);
        }
    }

    fn both_clocks(&self) -> Option<(i64, Nanos)> {
        let cupti = self.cupti;
        let read = move || {
            let before = Nanos::now();
            let cupti_ns = cupti.timestamp_ns().ok()?;
            let host = Nanos(before.0 + (Nanos::now().0 - before.0) / 2);
            Some((i64::try_from(cupti_ns).ok()?, host))
        };
        self.aside.call(read)?
    }

    fn clocks(&mut self, cupti_ns: i64, host: Nanos) {
        self.ahead_ns = cupti_ns.saturating_sub(host.0);
        if let Some(recording) = &mut self.recording {
            recording.writer.write(&Frame::Clock { cupti_ns, host });
        }
        self.pipeline.clock(cupti_ns, host);
    }

    fn loss(&mut self, cause: Cause, count: u64) {
        if count == 0 {
            return;
        }
        if let Some(recording) = &mut self.recording {
            recording.writer.write(&Frame::Loss { cause: cause.name().to_owned(), count });
        }
        self.pipeline.loss(cause, count);
    }

    fn fact(&mut self, key: &str, value: &str) {
        if let Some(recording) = &mut self.recording {
            recording.writer.write(&Frame::Fact { key: key.to_owned(), value: value.to_owned() });
        }
        self.pipeline.fact(key, value);
    }

    fn finish(mut self, words: LastWords) -> Ended {
        if !words.cupti_hangs {
            self.compare_clocks();
        }
        while self.round() {}
        let late = self.dropped.swap(0, Ordering::Relaxed);
        self.loss(Cause::RecordsDropped, late);
        let dropped = channel::dropped();
        self.loss(Cause::LaunchEventsDropped, dropped.launches);
        self.loss(Cause::RangeEventsDropped, dropped.range_events);
        self.loss(Cause::BufferRequestsDeclined, Pool::get().take_declined());
        let faults = cupti::faults();
        self.loss(Cause::CallbackPanics, faults.panics);
        self.loss(Cause::CuptiFatalErrors, faults.fatal_errors);
        self.loss(Cause::ContextsForgotten, cupti::CONTEXTS.take_overflowed());
        for (cause, count) in words.losses {
            self.loss(cause, count);
        }
        self.loss(Cause::CallsFailed, words.failures.len() as u64);
        for (number, error) in words.failures.iter().enumerate() {
            self.fact(&format!("failed.{number}"), &error.to_string());
        }
        self.fact("memory.buffers_bytes", &Pool::get().memory_bytes().to_string());
        self.fact("memory.rings_bytes", &channel::memory_bytes().to_string());
        for (key, value) in words.facts {
            self.fact(&key, &value);
        }
        let end = Nanos::now();
        drop(self.collector);
        let mut finished = self.pipeline.finish(end);
        let mut recording_error = None;
        if let Some(mut recording) = self.recording.take() {
            recording.writer.write(&Frame::End { time: end });
            let (lost, error) = recording.writer.close();
            // After the rest: what the recording lacks is no reason for what the session does.
            finished.losses.add(Cause::RecordingFramesLost, lost);
            recording_error = error;
        }
        Ended {
            closed: finished.sink.close(finished.losses, words.leaves_open),
            tally: finished.tally,
            recording_error,
        }
    }
}

/// The meanings in this process.
struct Live<'a> {
    cupti: Cupti,
    watch: &'a Watch,
    records: &'a Records<'a>,
}

impl Meanings for Live<'_> {
    fn string(&self, pointer: u64) -> Option<&[u8]> {
        self.records.name(pointer)
    }

    fn call_name(&self, kind: u32, cbid: u32) -> Option<String> {
        let name = || self.cupti.callback_name(cupti::api_domain(kind), cbid);
        self.watch.call("cuptiGetCallbackName", name)
    }
}

/// The recording beside a session.
pub(super) struct Recording {
    pub writer: Writer,
    pub decoder: Decoder,
}

impl Recording {
    fn buffer(&mut self, buffer: &Buffer<'_>, meanings: &impl Meanings) {
        let frame = Frame::Buffer {
            received: buffer.received,
            bytes: buffer.bytes.into(),
            offsets: buffer.offsets.to_vec(),
            complete: buffer.complete,
            strings: self.strings(buffer, meanings),
        };
        self.writer.write(&frame);
    }

    /// What this buffer's pointers and call numbers mean, each once.
    fn strings(&self, buffer: &Buffer<'_>, meanings: &impl Meanings) -> Strings {
        let mut strings = Strings::default();
        let mut pointers = rustc_hash::FxHashSet::default();
        let mut calls = rustc_hash::FxHashSet::default();
        for offset in buffer.offsets {
            match self.decoder.decode(buffer.bytes, *offset) {
                Record::Kernel(kernel) if pointers.insert(kernel.name) => {
                    let text = meanings.string(kernel.name).map(<[u8]>::to_vec);
                    strings.pointers.extend(text.map(|text| (kernel.name, text)));
                }
                Record::Api(api) if calls.insert((api.kind, api.cbid)) => {
                    let name = meanings.call_name(api.kind, api.cbid);
                    let call = name.map(|name| CallName { kind: api.kind, cbid: api.cbid, name });
                    strings.calls.extend(call);
                }
                _ => {}
            }
        }
        strings
    }
}
