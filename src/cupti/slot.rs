//! The right to be the one session of this process.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

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

/// Tracing has the slot, but has switched itself off for a counter session.
const SUSPENDED: u8 = 3;

static TAKEN: AtomicU8 = AtomicU8::new(FREE);

/// Whether kernels are traced although no session runs.
static KERNELS_ARE_ON: AtomicBool = AtomicBool::new(false);

/// A traced session ends and cannot switch off that kernels are traced, for the rest of the process.
pub(crate) fn leave_kernels_on() {
    KERNELS_ARE_ON.store(true, Ordering::Relaxed);
}

/// Whether kernels are traced although no session runs: counters would be wrong.
pub(crate) fn kernels_are_on() -> bool {
    KERNELS_ARE_ON.load(Ordering::Relaxed)
}

/// Whether a counter session runs.
pub(crate) fn counts_now() -> bool {
    TAKEN.load(Ordering::Relaxed) == Holder::Counters as u8
}

/// Held by the session that runs.
pub(crate) struct Slot {
    /// What is in force again when it is dropped.
    before: u8,
}

/// While it lives, the traced session that has the slot lets counter sessions have it.
pub(crate) struct Suspended<'a>(PhantomData<&'a Slot>);

impl Slot {
    /// Takes the slot for a session of this sort.
    ///
    /// # Errors
    /// [`ErrorKind::AlreadyRunning`] while another session has it; the message says which.
    pub fn take(holder: Holder) -> Result<Self> {
        // ATOMICS: Acquire pairs with the Release in `drop`, so that the earlier session's teardown is visible.
        let mut before = FREE;
        loop {
            match TAKEN.compare_exchange(before, holder as u8, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Ok(Self { before }),
                Err(SUSPENDED) if holder == Holder::Counters && before == FREE => before = SUSPENDED,
                Err(present) => return Err(refusal(holder, present)),
            }
        }
    }

    /// Lets counter sessions have the slot of a traced session that has been switched off.
    pub fn suspend(&self) -> Suspended<'_> {
        // ATOMICS: Release pairs with the Acquire in `take`.
        TAKEN.store(SUSPENDED, Ordering::Release);
        Suspended(PhantomData)
    }
}

fn refusal(wanted: Holder, present: u8) -> Error {
    let counts = matches!(present, SUSPENDED) || present == Holder::Counters as u8;
    let (what, hint) = match (wanted, counts) {
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
            "have the profiler suspend itself (Profiler::count), or finish it first",
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
        TAKEN.store(self.before, Ordering::Release);
    }
}

impl Drop for Suspended<'_> {
    fn drop(&mut self) {
        // ATOMICS: Acquire pairs with the Release of a counter session's end; Release with the Acquire in `take`.
        TAKEN.swap(Holder::Tracing as u8, Ordering::AcqRel);
    }
}
