//! All threads' rings: each thread finds its own, the worker drains them all.
//!
//! Nothing here makes an application thread wait: rings change hands through lock-free queues, and the only
//! lock belongs to the draining side.

use std::cell::{Cell, OnceCell};
use std::sync::{Arc, PoisonError};

use super::clock::{Stamp, Timeline};
use super::event::Event;
use super::ring::{self, Pushed, Ring};
use super::session::Session;
use super::wire::WORD_BYTES;
use crate::sync::{
    AtomicU64, AtomicUsize, Mutex, MutexGuard, Ordering, RwLock, SegQueue, Thread, sized, statics,
    thread_locals,
};
use crate::units::ThreadId;

/// The memory of one thread's ring: about 6500 launches, which is half full after some milliseconds of the
/// fastest launching there is.
pub(crate) const DEFAULT_RING_BYTES: usize = sized(256 << 10, 512);

/// How many threads may log at the same time; events of further threads are dropped and counted.
pub(crate) const MAX_THREADS: usize = 1024;

statics! {
    /// Rings that exist, in use or waiting for a thread.
    static RINGS: AtomicUsize = AtomicUsize::new(0);

    /// Rings that threads have taken and the worker does not know yet.
    static NEW: SegQueue<Source> = SegQueue::new();

    /// Drained rings of threads that have exited.
    static FREE: SegQueue<Arc<Ring>> = SegQueue::new();

    /// Whom to wake when a ring becomes half full.
    static WORKER: RwLock<Option<Thread>> = RwLock::new(None);

    static DRAINER: Mutex<Drainer> =
        Mutex::new(Drainer { sources: Vec::new(), ends: Vec::new(), timeline: Timeline::new(), run: Vec::new() });

    static DROPPED_LAUNCHES: AtomicU64 = AtomicU64::new(0);
    static DROPPED_RANGE_EVENTS: AtomicU64 = AtomicU64::new(0);
}

/// Which thread events come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ThreadMeta {
    pub tid: ThreadId,
    /// As Rust, or else the operating system, knew the thread at its first event.
    pub name: Option<String>,
}

impl ThreadMeta {
    fn of_this_thread() -> Self {
        let own_name = std::thread::current().name().map(str::to_owned);
        let system_name = || rustix::thread::name().ok().map(|name| name.to_string_lossy().into_owned());
        Self {
            tid: ThreadId(rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned()),
            name: own_name.or_else(system_name),
        }
    }
}

/// Events of the session that were lost because a ring was full, a thread was exiting, or an event came while
/// its thread was inside another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Dropped {
    pub launches: u64,
    pub range_events: u64,
}

/// Counts one event as lost.
#[cold]
pub(crate) fn count_dropped(event_is_launch: bool) {
    let counter: &AtomicU64 = if event_is_launch { &DROPPED_LAUNCHES } else { &DROPPED_RANGE_EVENTS };
    counter.fetch_add(1, Ordering::Relaxed);
}

/// What the session has lost so far.
pub(crate) fn dropped() -> Dropped {
    Dropped {
        launches: DROPPED_LAUNCHES.load(Ordering::Relaxed),
        range_events: DROPPED_RANGE_EVENTS.load(Ordering::Relaxed),
    }
}

/// The memory that rings and spilled records hold now; bounded by `MAX_THREADS` rings and `MAX_SPILLED_BYTES`.
pub(crate) fn memory_bytes() -> usize {
    RINGS.load(Ordering::Relaxed) * DEFAULT_RING_BYTES + ring::spilled_bytes()
}

/// Begins a session: forgets what earlier ones left in the rings, and opens the gate. `worker` is unparked
/// whenever a ring becomes half full or a long record waits.
pub(crate) fn begin_session(worker: Thread) -> Session {
    let mut drainer = lock_drainer();
    Session::end();
    drainer.each_run(Session::latest_tag(), |_, _| {});
    DROPPED_LAUNCHES.store(0, Ordering::Relaxed);
    DROPPED_RANGE_EVENTS.store(0, Ordering::Relaxed);
    drainer.timeline.begin();
    *WORKER.write().unwrap_or_else(PoisonError::into_inner) = Some(worker);
    Session::begin()
}

/// Closes the gate. What was logged before can still be drained, until the next session begins.
pub(crate) fn end_session() {
    Session::end();
    *WORKER.write().unwrap_or_else(PoisonError::into_inner) = None;
}

/// Empties all rings: hands each thread's new events, as one run of whole records for `decode`, to `sink`.
/// Returns how many bytes that were. `sink` must not call back into this module.
pub(crate) fn drain(sink: impl FnMut(&ThreadMeta, &[u8])) -> usize {
    lock_drainer().each_run(Session::latest_tag(), sink)
}

fn lock_drainer() -> MutexGuard<'static, Drainer> {
    DRAINER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A ring with the thread that fills it.
struct Source {
    thread: ThreadMeta,
    ring: Arc<Ring>,
}

struct Drainer {
    sources: Vec<Source>,
    /// Of each source, whether its thread has exited, and how far it is drained this time. Reused.
    ends: Vec<(bool, usize)>,
    timeline: Timeline,
    /// Reused from ring to ring.
    run: Vec<u8>,
}

impl Drainer {
    fn each_run(&mut self, tag: u16, mut sink: impl FnMut(&ThreadMeta, &[u8])) -> usize {
        let Self { sources, ends, timeline, run } = self;
        sources.extend(std::iter::from_fn(|| NEW.pop()));
        // Asked before draining: a thread that has exited by now has logged all that it ever will.
        ends.clear();
        ends.extend(sources.iter().map(|source| (source.ring.is_retired(), source.ring.head())));
        timeline.advance();
        let mut bytes = 0;
        let mut ends = ends.drain(..);
        sources.retain(|source| {
            let Some((retired, head)) = ends.next() else { return true };
            source.ring.drain(head, tag, timeline, run);
            if !run.is_empty() {
                sink(&source.thread, run);
            }
            bytes += run.len();
            run.clear();
            // One huge name should not keep its memory for the whole session.
            run.shrink_to(2 * DEFAULT_RING_BYTES);
            if retired {
                source.ring.revive();
                FREE.push(Arc::clone(&source.ring));
            }
            !retired
        });
        bytes
    }
}

thread_locals! {
    static LOCAL: Local = Local { busy: Cell::new(false), ring: OnceCell::new() };
}

/// This thread's end of its ring.
struct Local {
    /// Set while an event is being written. A signal handler, or an allocator that logs, may interrupt that: its
    /// own event is dropped then.
    busy: Cell<bool>,
    ring: OnceCell<Arc<Ring>>,
}

impl Local {
    #[inline]
    fn push(&self, session: Session, event: &Event<'_, Stamp>) -> Pushed {
        if self.busy.replace(true) {
            return Pushed::Dropped;
        }
        let pushed = match self.ring.get() {
            Some(ring) => ring.push(session.tag(), event),
            None => self.first_push(session, event),
        };
        self.busy.set(false);
        pushed
    }

    #[cold]
    fn first_push(&self, session: Session, event: &Event<'_, Stamp>) -> Pushed {
        let Some(ring) = take_ring() else { return Pushed::Dropped };
        NEW.push(Source { thread: ThreadMeta::of_this_thread(), ring: Arc::clone(&ring) });
        self.ring.get_or_init(|| ring).push(session.tag(), event)
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        if let Some(ring) = self.ring.get() {
            ring.retire();
        }
    }
}

/// A ring for this thread: one that an exited thread left, or a new one, unless there are too many.
fn take_ring() -> Option<Arc<Ring>> {
    FREE.pop().or_else(|| {
        if RINGS.fetch_add(1, Ordering::Relaxed) < MAX_THREADS {
            return Some(Arc::new(Ring::new(DEFAULT_RING_BYTES / WORD_BYTES)));
        }
        RINGS.fetch_sub(1, Ordering::Relaxed);
        None
    })
}

/// Logs an event on this thread's ring, or drops and counts it. Never waits; allocates only at a thread's first
/// event and for records above 4 KiB.
#[inline]
pub(crate) fn log(session: Session, event: &Event<'_, Stamp>) {
    // Without the thread's own data (the thread is exiting) there is no ring.
    match LOCAL.try_with(|local| local.push(session, event)).unwrap_or(Pushed::Dropped) {
        Pushed::Stored => {}
        Pushed::Pressing => wake_worker(),
        Pushed::Dropped => {
            use Event::{InternalLaunch, Launch, LaunchFailed, UnseenCaptureEnded};
            count_dropped(matches!(
                event,
                Launch { .. } | InternalLaunch { .. } | LaunchFailed { .. } | UnseenCaptureEnded { .. }
            ))
        }
    }
}

#[cold]
fn wake_worker() {
    // The lock is held for writing only while a session begins or ends: no reason to wait for it.
    if let Ok(worker) = WORKER.try_read() {
        worker.iter().for_each(Thread::unpark);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channel::tests::{TestSession, events};
    use crate::channel::{Named, Payload};

    #[test]
    fn an_event_inside_another_is_dropped_and_counted() {
        let test = TestSession::begin();
        let event = Event::Name { what: Named::Thread { tid: 1 }, name: b"inside" };
        LOCAL.with(|local| local.busy.set(true)); // as a signal handler finds it
        log(test.session, &event);
        LOCAL.with(|local| local.busy.set(false));
        log(test.session, &event);
        assert_eq!(dropped(), Dropped { launches: 0, range_events: 1 });
        assert_eq!(events(&test.drain()).len(), 1);
    }

    #[test]
    fn a_huge_name_does_not_keep_its_memory() {
        let test = TestSession::begin();
        let name = vec![b'n'; 4 << 20];
        log(test.session, &Event::Name { what: Named::Thread { tid: 1 }, name: &name });
        assert!(test.drain().iter().any(|(_, run)| run.len() > name.len()));
        let kept = lock_drainer().run.capacity();
        assert!(kept <= 2 * DEFAULT_RING_BYTES, "{kept} bytes");
    }

    #[test]
    fn threads_may_come_and_go_while_rings_are_drained() {
        const THREADS: usize = 200;
        const EVENTS: usize = 50;
        let test = TestSession::begin();
        let session = test.session;
        let spawner = std::thread::spawn(move || {
            for _ in 0..THREADS / 4 {
                let log_all = move || {
                    let time = Stamp(0);
                    let name = b"mark";
                    let (range, payload) = (None, Payload::None);
                    let mark =
                        Event::Mark { range, domain: 0, category: 0, color: None, payload, time, name };
                    (0..EVENTS).for_each(|_| log(session, &mark));
                };
                let four = [(); 4].map(|()| std::thread::spawn(log_all));
                four.into_iter().for_each(|thread| thread.join().unwrap());
            }
        });
        let mut seen = 0;
        while !spawner.is_finished() {
            seen += events(&test.drain()).len();
        }
        spawner.join().unwrap();
        seen += events(&test.drain()).len();
        assert_eq!(seen, THREADS * EVENTS);
    }
}
