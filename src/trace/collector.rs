//! Empties the threads' rings into a queue, so that a ring need only hold what a thread logs in some milliseconds.
//!
//! The worker cannot do that itself: writing a row group takes it tens of milliseconds. The queue is bounded: if the
//! worker falls behind for long, rings stay full, and their events are dropped and counted.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{JoinHandle, Thread};
use std::time::Duration;

use crate::channel::{self, ThreadMeta};
use crate::error::{Error, ErrorKind, Result};

/// Bytes of events that may wait for the worker: half a million launches in ranges of their own.
const MAX_QUEUED_BYTES: usize = 64 << 20;

/// How long the collector sleeps. Threads wake it when their ring is half full.
const IDLE: Duration = Duration::from_millis(10);

/// Events of one thread, in their order.
pub(super) struct Run {
    pub thread: ThreadMeta,
    pub bytes: Vec<u8>,
}

#[derive(Default)]
struct Queue {
    runs: VecDeque<Run>,
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

    /// Moves what is in the rings to the queue. The channel's own lock keeps the order of two callers.
    fn fill(&self) {
        channel::drain(|thread, run| {
            let mut queue = self.lock();
            queue.bytes += run.len();
            queue.runs.push_back(Run { thread: thread.clone(), bytes: run.to_vec() });
        });
    }
}

/// The collecting thread and its queue.
pub(super) struct Collector {
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

    /// Everything that any thread had logged when this was called, and nothing from before the last call.
    pub fn take(&self) -> VecDeque<Run> {
        self.shared.fill();
        let mut queue = self.shared.lock();
        queue.bytes = 0;
        std::mem::take(&mut queue.runs)
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
        if shared.lock().bytes < MAX_QUEUED_BYTES {
            shared.fill();
        }
        std::thread::park_timeout(IDLE);
    }
}
