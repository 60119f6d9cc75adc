//! The gate that holds launched work back, from the side of those who open it: the thread that closed it, CUPTI's
//! callbacks, and the thread that watches the time.
//!
//! On the device the gate is a kernel that polls a word of the host's memory ([`WORDS`]), so that work launched behind it
//! in its stream waits. Who waits on the host for that work waits for ever, and so does who launches more than the
//! driver queues: the gate is opened first. Everything here is atomics: callbacks neither wait nor allocate.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Launches that are queued behind the gate at most. When the driver's queue is full, a launch waits; its size is not
/// documented, and is above this.
pub(crate) const MAX_LAUNCHES: u32 = 256;

/// What the gate's kernel reads: a page of its own, since memory is lent to the device in pages.
#[derive(Debug)]
#[repr(C, align(4096))]
pub(crate) struct Words {
    /// Gates with a number up to this one are open.
    opened: AtomicU32,
    _rest_of_the_page: [u32; 1_023],
}

/// Lent to the device while there is a gate. Static, so that a kernel that outlives everything else still polls memory
/// of this program.
pub(crate) static WORDS: Words = Words { opened: AtomicU32::new(0), _rest_of_the_page: [0; 1_023] };

/// Why a gate was opened before all work was launched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// This driver call, by CUPTI's number, may wait for work behind the gate.
    Waits(u32),
    /// More than [`MAX_LAUNCHES`].
    TooManyLaunches,
    /// Time was over, and this was the last driver call that launched, if any did.
    TimeOut(Option<u32>),
}

/// The number of the last gate, and below it what became of it: closed, opened by its owner, or one of the causes.
static STATE: AtomicU64 = AtomicU64::new(OPENED);
/// Launches behind the gate.
static LAUNCHES: AtomicU32 = AtomicU32::new(0);
/// The last call among them; 0 for none.
static LAST_CALL: AtomicU32 = AtomicU32::new(0);

const CLOSED: u64 = 0;
const OPENED: u64 = 1;
const TOO_MANY: u64 = 2;
const TIME_OUT: u64 = 3;
/// And from here on the numbers of calls that wait.
const WAITS: u64 = 16;

fn number_of(state: u64) -> u32 {
    (state >> 32) as u32 // CAST: the upper half
}

fn is_closed(state: u64) -> bool {
    state & u64::from(u32::MAX) == CLOSED
}

/// The number of the next gate, for its kernel.
pub(crate) fn next() -> u32 {
    number_of(STATE.load(Ordering::Relaxed)).wrapping_add(1)
}

/// Closes the next gate, whose kernel is launched: what comes now is behind it. The one before is open.
pub(crate) fn close(number: u32) {
    LAUNCHES.store(0, Ordering::Relaxed);
    LAST_CALL.store(0, Ordering::Relaxed);
    STATE.store(u64::from(number) << 32 | CLOSED, Ordering::Relaxed);
}

/// Opens it, if that has not happened; then, why it had been opened before.
pub(crate) fn open(number: u32) -> Option<Cause> {
    // Whoever opened it before may not have come to this yet.
    let was_open = !end(u64::from(number) << 32 | CLOSED, OPENED);
    let state = STATE.load(Ordering::Relaxed);
    if !was_open || number_of(state) != number {
        return None;
    }
    match state & u64::from(u32::MAX) {
        CLOSED | OPENED => None,
        TOO_MANY => Some(Cause::TooManyLaunches),
        TIME_OUT => Some(timed_out()),
        waits => Some(Cause::Waits((waits - WAITS) as u32)), // CAST: was one
    }
}

/// Time is over: opens the gate with this number if it is closed.
pub(crate) fn expire(number: u32) {
    end(u64::from(number) << 32 | CLOSED, TIME_OUT);
}

/// The cause of a gate that its time opened.
pub(crate) fn timed_out() -> Cause {
    Cause::TimeOut(Some(LAST_CALL.load(Ordering::Relaxed)).filter(|call| *call != 0))
}

/// A driver call that launches begins; `waits`: it may also wait for what was launched before.
#[inline]
pub(crate) fn launching(call: u32, waits: bool) {
    let state = STATE.load(Ordering::Relaxed);
    if !is_closed(state) {
        return;
    }
    LAST_CALL.store(call, Ordering::Relaxed);
    if waits {
        end(state, WAITS + u64::from(call));
    } else if LAUNCHES.fetch_add(1, Ordering::Relaxed) >= MAX_LAUNCHES {
        end(state, TOO_MANY);
    }
}

/// A driver call that may wait begins.
pub(crate) fn waiting(call: u32) {
    let state = STATE.load(Ordering::Relaxed);
    if is_closed(state) {
        end(state, WAITS + u64::from(call));
    }
}

/// Opens the gate of this state, and whether it was closed; the first who comes says why.
fn end(closed: u64, why: u64) -> bool {
    let is_first = STATE.compare_exchange(closed, closed | why, Ordering::Relaxed, Ordering::Relaxed).is_ok();
    // Also where somebody else was first, who may not have come here yet. Late, it changes nothing.
    // ATOMICS: nothing else is published to the device by it, which only reads this word.
    WORDS.opened.fetch_max(number_of(closed), Ordering::Relaxed);
    is_first
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, PoisonError};

    use super::*;

    /// There is one gate in a process.
    fn alone() -> std::sync::MutexGuard<'static, ()> {
        static TURN: Mutex<()> = Mutex::new(());
        TURN.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn closed() -> u32 {
        let number = next();
        close(number);
        number
    }

    fn is_open(number: u32) -> bool {
        WORDS.opened.load(Ordering::Relaxed) >= number
    }

    #[test]
    fn a_gate_stays_closed_until_its_owner_opens_it() {
        let _alone = alone();
        let number = closed();
        assert!(!is_open(number));
        launching(307, false);
        assert!(!is_open(number));
        assert_eq!(open(number), None);
        assert!(is_open(number));
        let next = closed();
        assert_eq!(next, number + 1);
        assert!(!is_open(next), "the one before does not open the next");
        // Who comes late to the one before opens nothing.
        expire(number);
        assert!(!is_open(next));
        assert_eq!(open(next), None);
    }

    #[test]
    fn what_would_wait_for_ever_opens_it_first_and_is_the_cause() {
        let _alone = alone();
        let number = closed();
        waiting(126);
        assert!(is_open(number));
        waiting(17);
        expire(number);
        assert_eq!(open(number), Some(Cause::Waits(126)), "the first one counts");
        let number = closed();
        launching(278, true);
        assert!(is_open(number));
        assert_eq!(open(number), Some(Cause::Waits(278)));
    }

    #[test]
    fn no_more_launches_are_queued_than_the_driver_holds() {
        let _alone = alone();
        let number = closed();
        (0..MAX_LAUNCHES).for_each(|_| launching(307, false));
        assert!(!is_open(number));
        launching(307, false);
        assert!(is_open(number));
        assert_eq!(open(number), Some(Cause::TooManyLaunches));
    }

    #[test]
    fn a_gate_that_its_time_opened_names_the_last_launch() {
        let _alone = alone();
        let number = closed();
        expire(number);
        assert!(is_open(number));
        assert_eq!(open(number), Some(Cause::TimeOut(None)));
        let number = closed();
        launching(307, false);
        expire(number);
        assert_eq!(open(number), Some(Cause::TimeOut(Some(307))));
    }

    #[test]
    fn calls_while_no_gate_is_closed_change_nothing() {
        let _alone = alone();
        let number = closed();
        open(number);
        let before = STATE.load(Ordering::Relaxed);
        waiting(126);
        launching(307, true);
        assert_eq!(STATE.load(Ordering::Relaxed), before);
    }
}
