//! Empties the threads' rings into a queue, so that a ring need only hold what a thread logs in some milliseconds.
//!
//! The worker cannot do that itself: writing a row group takes it tens of milliseconds. The queue is bounded: if the
//! worker falls behind for long, rings stay full, and their events are dropped and counted.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{JoinHandle, Thread};
use std::time::{Duration, Instant};

use crate::channel::{self, ThreadMeta};
use crate::error::{Error, ErrorKind, Result};

/// Bytes of events that may wait for the worker: a million launches in ranges of their own.
const MAX_QUEUED_BYTES: usize = 128 << 20;

/// How long the collector sleeps. Threads wake it when their ring is half full.
const IDLE: Duration = Duration::from_millis(10);

/// Events of one thread, in their order.
pub(crate) struct Run {
    pub thread: ThreadMeta,
    pub bytes: Vec<u8>,
}

/// What one visit to all rings found.
struct Visit {
    /// Everything that was logged before this is in this visit or an earlier one.
    started: Instant,
    runs: Vec<Run>,
    bytes: usize,
}

#[derive(Default)]
struct Queue {
    visits: VecDeque<Visit>,
    bytes: usize,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    stop: AtomicBool,
}

impl Shared {
    fn lock(&self) -> std::sync::MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Moves what is in the rings to the queue.
    fn fill(&self) {
        // Held over the visit, so that visits are queued in their order. Only the worker and the collector wait here.
        let mut queue = self.lock();
        let mut visit = Visit { started: Instant::now(), runs: Vec::new(), bytes: 0 };
        visit.bytes = channel::drain(|thread, run| {
            visit.runs.push(Run { thread: thread.clone(), bytes: run.to_vec() });
        });
        queue.bytes += visit.bytes;
        queue.visits.push_back(visit);
    }

    /// The same, unless the worker has fallen far behind.
    fn fill_within_bound(&self) {
        if self.lock().bytes < MAX_QUEUED_BYTES {
            self.fill();
        }
    }
}

/// The collecting thread and its queue.
pub(crate) struct Collector {
    shared: Arc<Shared>,
    thread: Thread,
    /// Taken when it is joined.
    handle: Option<JoinHandle<()>>,
}

impl Collector {
    pub fn start() -> Result<Self> {
        let shared = Arc::new(Shared::default());
        let for_thread = Arc::clone(&shared);
        let handle = std::thread::Builder::new()
            .name("cuprof-collector".into())
            .spawn(move || collect(&for_thread))
            .map_err(|source| Error::new(ErrorKind::Io, "cannot start a thread").with_source(source))?;
        Ok(Self { shared, thread: handle.thread().clone(), handle: Some(handle) })
    }

    /// The thread to wake when a ring fills up.
    pub fn thread(&self) -> &Thread {
        &self.thread
    }

    /// Takes from the queue everything that any thread had logged before this moment, and little more: what waits in
    /// the queue is smaller than what the worker makes of it.
    pub fn take_before(&self, moment: Instant) -> Vec<Run> {
        let mut runs = Vec::new();
        loop {
            let mut queue = self.shared.lock();
            let Some(visit) = queue.visits.pop_front() else {
                drop(queue);
                self.shared.fill();
                continue;
            };
            queue.bytes -= visit.bytes;
            runs.extend(visit.runs);
            if visit.started >= moment {
                return runs;
            }
        }
    }
}

impl Drop for Collector {
    /// Ends the thread; what is in the rings stays there.
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(handle) = self.handle.take() {
            handle.thread().unpark();
            let _it_cannot_panic = handle.join();
        }
    }
}

fn collect(shared: &Shared) {
    while !shared.stop.load(Ordering::Relaxed) {
        shared.fill_within_bound();
        std::thread::park_timeout(IDLE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channel::tests::TestSession;
    use crate::channel::{Event, Named, log};

    #[test]
    fn while_the_queue_is_full_events_stay_in_their_rings() {
        let test = TestSession::begin();
        log(test.session, &Event::Name { what: Named::Thread { tid: 1 }, name: b"thread" });
        let shared = Shared::default();
        shared.lock().bytes = MAX_QUEUED_BYTES;
        shared.fill_within_bound();
        assert!(shared.lock().visits.is_empty());
        shared.lock().bytes = 0;
        shared.fill_within_bound();
        assert_eq!(shared.lock().visits.len(), 1);
        assert!(shared.lock().bytes > 0);
    }
}
