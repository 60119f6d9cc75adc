//! The right to be the one session of this process.

use std::sync::atomic::{AtomicU8, Ordering};

use crate::error::{Error, ErrorKind, Result};

/// What a session does. CUPTI serves one at a time: tracing kernels changes what counters count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Holder {
    /// Activity records, by `Profiler`.
    Tracing = 1,
    /// Hardware counters, by `counters::Session`.
    Counters = 2,
}

const FREE: u8 = 0;

static TAKEN: AtomicU8 = AtomicU8::new(FREE);

/// Held by the session that runs.
pub(crate) struct Slot(());

impl Slot {
    /// Takes the slot for a session of this sort.
    ///
    /// # Errors
    /// [`ErrorKind::AlreadyRunning`] while another session has it; the message says which.
    pub fn take(holder: Holder) -> Result<Self> {
        // ATOMICS: Acquire pairs with the Release in `drop`, so that the earlier session's teardown is visible.
        match TAKEN.compare_exchange(FREE, holder as u8, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => Ok(Self(())),
            Err(present) => Err(refusal(holder, present)),
        }
    }
}

fn refusal(wanted: Holder, present: u8) -> Error {
    let (what, hint) = match (wanted, present == Holder::Counters as u8) {
        (Holder::Tracing, false) => (
            "one profiling session can run in a process at a time",
            "finish the running session first; an earlier one whose end timed out still counts",
        ),
        (Holder::Tracing, true) => (
            "counters are being collected, and tracing would change them",
            "start the profiler before or after counters::Session::run, not inside it",
        ),
        (Holder::Counters, false) => (
            "a traced session runs, and tracing would change the counters",
            "finish the profiler first: durations come from a traced run, counters from a run of their own",
        ),
        (Holder::Counters, true) => (
            "counters are being collected already, and the GPU has one set of them",
            "run one counters::Session after the other, not one inside the other",
        ),
    };
    Error::new(ErrorKind::AlreadyRunning, what).with_hint(hint)
}

impl Drop for Slot {
    fn drop(&mut self) {
        // ATOMICS: Release pairs with the Acquire in `take`.
        TAKEN.store(FREE, Ordering::Release);
    }
}
