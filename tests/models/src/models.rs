//! The programs.
#![expect(unsafe_code, reason = "plays CUPTI, which writes into blocks")]

use std::alloc::Layout;
use std::ptr::NonNull;
use std::time::Instant;

use loom::thread;

use crate::buffer::{BLOCK_BYTES, Block, Filled, MAX_BLOCKS, Pool};
use crate::channel::{
    Event, Named, Session, Stamp, begin_session, decode, drain, dropped, end_session, log, memory_bytes,
};
use crate::sync::{Mutex, statics};
use crate::units::{CorrelationId, ProcessEpoch};

fn launch(correlation: u32) -> Event<'static, Stamp> {
    Event::Launch {
        correlation: CorrelationId(correlation),
        range: None,
        epoch: ProcessEpoch(0),
        cbid: 307,
        is_recorded: true,
        symbol: None,
        time: Stamp::now(),
    }
}

/// Logs these launches in the running session, if one runs.
fn log_launches(correlations: std::ops::Range<u32>) {
    for correlation in correlations {
        if let Some(session) = Session::current() {
            log(session, &launch(correlation));
        }
    }
}

/// What the worker finds: correlation ids, and 1000 for anything else. Whatever is damaged ends the model.
fn drained() -> Vec<u32> {
    let mut seen = Vec::new();
    drain(|_, run| {
        seen.extend(decode(run).map(|event| match event.expect("an event is whole") {
            Event::Launch { correlation, .. } => correlation.0,
            _ => 1000,
        }));
    });
    seen
}

fn begin() {
    begin_session(thread::current());
}

/// A session whose worker sleeps elsewhere. (Loom does not allow that a thread which joins another is woken.)
fn begin_for_another() {
    let worker = thread::spawn(|| ());
    begin_session(worker.thread().clone());
    worker.join().unwrap();
}

pub fn a_thread_logs_while_the_worker_drains() {
    begin();
    let logger = thread::spawn(|| log_launches(0..2));
    let mut seen = drained();
    logger.join().unwrap();
    seen.extend(drained());
    assert_eq!(seen, [0, 1]);
    assert_eq!(dropped().launches, 0);
    end_session();
}

pub fn two_threads_log_while_the_worker_drains() {
    begin();
    let loggers = [0, 10].map(|first| thread::spawn(move || log_launches(first..first + 2)));
    let mut seen = drained();
    for logger in loggers {
        logger.join().unwrap();
    }
    seen.extend(drained());
    let of = |first: u32| seen.iter().copied().filter(|id| *id / 10 == first / 10).collect::<Vec<_>>();
    assert_eq!(of(0), [0, 1], "each thread's events come once and in order");
    assert_eq!(of(10), [10, 11]);
    assert_eq!(seen.len(), 4);
    end_session();
}

/// The ring has room for 64 words; these are more.
pub fn a_full_ring_drops_whole_events() {
    const EVENTS: u32 = 18;
    begin_for_another();
    let logger = thread::spawn(|| log_launches(0..EVENTS));
    let mut seen = drained();
    logger.join().unwrap();
    seen.extend(drained());
    assert!(seen.is_sorted_by(|a, b| a < b), "{seen:?}");
    assert_eq!(seen.len() as u64 + dropped().launches, EVENTS.into());
    assert!(seen.len() >= 8, "room for eight is always there: {seen:?}");
    end_session();
}

/// Records that do not fit into the ring wait beside it; a placeholder keeps their place.
pub fn long_records_keep_their_place() {
    begin_for_another();
    let logger = thread::spawn(|| {
        let session = Session::current().expect("one runs");
        log(session, &launch(0));
        log(session, &Event::Name { what: Named::Domain { domain: 1 }, name: &[b'x'; 200] });
        log(session, &launch(1));
    });
    let mut seen = drained();
    logger.join().unwrap();
    seen.extend(drained());
    assert_eq!(seen, [0, 1000, 1]);
    assert_eq!(dropped().range_events, 0);
    end_session();
}

pub fn a_ring_serves_another_thread() {
    begin();
    let first = thread::spawn(|| log_launches(0..1));
    let mut seen = drained();
    let second = thread::spawn(|| log_launches(1..2));
    seen.extend(drained());
    first.join().unwrap();
    second.join().unwrap();
    seen.extend(drained());
    seen.sort_unstable();
    assert_eq!(seen, [0, 1]);
    // One ring if the first thread's was free when the second came, else two; never more.
    assert!(memory_bytes() <= 2 * 512);
    end_session();
}

/// Each event is marked with the number of the session that its thread took it for.
pub fn no_event_gets_into_the_next_session() {
    begin();
    let logger = thread::spawn(|| {
        let mut logged = [0; 3];
        for _ in 0..2 {
            if let Some(session) = Session::current() {
                log(session, &launch(session.tag().into()));
                logged[usize::from(session.tag())] += 1;
            }
        }
        logged
    });
    let first = drained();
    end_session();
    let last_of_first = drained();
    begin();
    let second = drained();
    let logged = logger.join().unwrap();
    let last_of_second = drained();
    assert!(first.iter().chain(&last_of_first).all(|tag| *tag == 1), "{first:?} {last_of_first:?}");
    assert!(second.iter().chain(&last_of_second).all(|tag| *tag == 2), "{second:?} {last_of_second:?}");
    // What was logged in the second session while it ran is all there; of the first, what came too late is forgotten.
    assert_eq!(second.len() + last_of_second.len(), logged[2]);
    assert!(first.len() + last_of_first.len() <= logged[1]);
    end_session();
}

/// The worker sleeps until it is woken: that no wake-up gets lost shows in that no interleaving ends with all asleep.
pub fn a_half_full_ring_wakes_the_worker() {
    begin();
    let logger = thread::spawn(|| log_launches(0..8));
    thread::park();
    let mut seen = drained();
    assert!(seen.len() >= 4, "half a ring is there: {seen:?}");
    logger.join().unwrap();
    seen.extend(drained());
    assert_eq!(seen, Vec::from_iter(0..8));
    end_session();
}

statics! {
    /// The blocks that CUPTI has, by their addresses.
    static OUT: Mutex<Vec<usize>> = Mutex::new(Vec::new());
}

/// CUPTI asks for a block, fills it and gives it back.
fn fill(pool: &Pool, times: usize) -> u64 {
    let mut declined = 0;
    for _ in 0..times {
        let Some(block) = pool.take() else {
            declined += 1;
            continue;
        };
        assert!(
            block.bytes(BLOCK_BYTES).iter().all(|byte| *byte == 0),
            "a block that is handed out is clean"
        );
        let pointer = NonNull::new(block.into_raw()).expect("blocks are not null");
        let mut out = OUT.lock().unwrap();
        assert!(!out.contains(&(pointer.as_ptr() as usize)), "a block was handed out twice");
        out.push(pointer.as_ptr() as usize);
        drop(out);
        // SAFETY: the block was taken above, and nobody else has it, which is what this model checks.
        unsafe { pointer.as_ptr().write(7) };
        OUT.lock().unwrap().retain(|address| *address != pointer.as_ptr() as usize);
        // SAFETY: it came from `into_raw` above, and is given back once.
        let block = unsafe { Block::from_raw(pointer) };
        pool.complete(Filled { block, valid_bytes: 1, completed: Instant::now() });
    }
    declined
}

pub fn a_block_is_in_one_place() {
    let pool = std::sync::Arc::new(Pool::new());
    pool.prepare(1);
    let filler = {
        let pool = std::sync::Arc::clone(&pool);
        thread::spawn(move || fill(&pool, 2))
    };
    // The worker, and another thread that launches.
    let mut worked = 0;
    let mut declined = fill(&pool, 1);
    while let Some(filled) = pool.next_full() {
        assert_eq!(filled.block.bytes(filled.valid_bytes), [7]);
        pool.recycle(filled.block);
        worked += 1;
    }
    pool.refill();
    declined += filler.join().unwrap();
    while let Some(filled) = pool.next_full() {
        pool.recycle(filled.block);
        worked += 1;
    }
    assert_eq!(worked + declined, 3);
    assert_eq!(pool.take_declined(), declined);
    assert!(pool.memory_bytes() <= MAX_BLOCKS * BLOCK_BYTES);
    // Every block that was allocated is free now, once.
    let mut free = Vec::new();
    while free.len() * BLOCK_BYTES < pool.memory_bytes() {
        free.push(pool.take().expect("a block got lost").into_raw());
    }
    let count = free.len();
    free.sort_unstable();
    free.dedup();
    assert_eq!(free.len(), count, "a block is there twice");
    for block in free {
        // SAFETY: allocated by the pool with this layout, and owned here. The crate never frees; a model runs often.
        unsafe { std::alloc::dealloc(block, Layout::from_size_align(BLOCK_BYTES, 4096).expect("a layout")) };
    }
}
