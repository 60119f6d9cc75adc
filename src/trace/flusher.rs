//! Asks CUPTI now and then for what is complete, so that a crash loses little of a program that launches little.
//!
//! It asks only if CUPTI has delivered nothing by itself in the meantime: a flush holds launching threads up for some
//! 300 µs (seen on an H200 with 13.0), and where buffers fill up, they come without it.
//!
//! CUPTI's own `cuptiActivityFlushPeriod` is not used: while it is set, CUPTI keeps full buffers back until the period
//! is over (measured with 13.0: a second's launches were held at 1 s, none without it). This is a thread of its own
//! because a flush can hang.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::buffer::Pool;
use crate::cupti::{self, Cupti};
use crate::error::{Error, ErrorKind, Result};

pub(super) struct Flusher {
    stop: Arc<AtomicBool>,
    handle: Option<JoinHandle<()>>,
}

impl Flusher {
    /// Flushes once a period; never if that is zero.
    pub fn start(cupti: Cupti, period: Duration) -> Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let for_thread = Arc::clone(&stop);
        let spawn = || {
            std::thread::Builder::new()
                .name("cuprof-flusher".into())
                .spawn(move || flush_every(cupti, period, &for_thread))
                .map_err(|source| Error::new(ErrorKind::Io, "cannot start a thread").with_source(source))
        };
        let handle = if period.is_zero() { None } else { Some(spawn()?) };
        Ok(Self { stop, handle })
    }
}

impl Drop for Flusher {
    /// Waits for a flush that is under way, which is why the end of a session does this where it may take its time.
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(handle) = self.handle.take() {
            handle.thread().unpark();
            let _it_cannot_panic = handle.join();
        }
    }
}

fn flush_every(cupti: Cupti, period: Duration, stop: &AtomicBool) {
    let mut due = Instant::now() + period;
    let mut delivered = Pool::get().delivered();
    while !stop.load(Ordering::Relaxed) {
        let now = Instant::now();
        if now < due {
            std::thread::park_timeout(due - now);
            continue;
        }
        due = now + period;
        let before = std::mem::replace(&mut delivered, Pool::get().delivered());
        // A CUPTI that has never asked for a buffer has nothing to deliver, and can hang when asked to.
        if delivered == before && !cupti::seen_nothing() {
            // A failure shows again, and is counted, at the end.
            let _counted_at_the_end = cupti.flush_all(false);
        }
    }
}
