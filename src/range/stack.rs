//! Each thread's stack of open ranges, of all makers: guards, NVTX pushes, entered handles and spans.

use std::cell::RefCell;

use crate::channel::Session;
use crate::units::RangeId;

/// The deepest nesting that is followed; ranges opened deeper (a push without a pop in a loop) are dropped and
/// counted, and launches inside them belong to the deepest range that was followed.
pub(crate) const MAX_DEPTH: usize = 1 << 16;

/// Room from the start, so that ordinary nesting allocates once a thread.
const INITIAL_DEPTH: usize = 64;

/// Who put a range on the stack, which decides what may take it off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// A guard or a span: taken off by its id, in any order.
    Guard,
    /// An NVTX push in this domain: the topmost one is taken off by a pop in the same domain.
    Domain(u32),
}

/// The stack cannot be used: it is full, its thread is exiting, or this is an interruption (a signal handler) of
/// another operation on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unavailable;

struct Stack {
    /// Ranges of another session than this are stale.
    session: Option<Session>,
    open: Vec<(RangeId, Owner)>,
}

thread_local! {
    static STACK: RefCell<Stack> = const { RefCell::new(Stack { session: None, open: Vec::new() }) };
}

#[inline]
fn with<R>(session: Session, act: impl FnOnce(&mut Stack) -> R) -> Result<R, Unavailable> {
    let act_on = |stack: &RefCell<Stack>| {
        let mut stack = stack.try_borrow_mut().ok()?;
        if stack.session != Some(session) {
            stack.session = Some(session);
            stack.open.clear();
        }
        Some(act(&mut stack))
    };
    STACK.try_with(act_on).ok().flatten().ok_or(Unavailable)
}

/// The innermost open range of this thread.
#[inline]
pub(super) fn innermost(session: Session) -> Option<RangeId> {
    with(session, |stack| stack.top()).unwrap_or(None)
}

/// Puts a range on the stack; returns the one that was innermost.
#[inline]
pub(super) fn push(session: Session, range: RangeId, owner: Owner) -> Result<Option<RangeId>, Unavailable> {
    with(session, |stack| {
        let below = stack.top();
        if stack.open.capacity() == 0 {
            stack.open.reserve(INITIAL_DEPTH);
        }
        if stack.open.len() == MAX_DEPTH {
            return Err(Unavailable);
        }
        stack.open.push((range, owner));
        Ok(below)
    })?
}

/// Takes the topmost entry of a guard's range off, wherever it is. Whether there was one.
#[inline]
pub(super) fn remove(session: Session, range: RangeId) -> bool {
    let is_it = |entry: &(RangeId, Owner)| *entry == (range, Owner::Guard);
    with(session, |stack| stack.take(is_it)).unwrap_or(None).is_some()
}

/// Takes the topmost range of an NVTX domain off.
#[inline]
pub(super) fn pop(session: Session, domain: u32) -> Option<RangeId> {
    with(session, |stack| stack.take(|entry| entry.1 == Owner::Domain(domain))).unwrap_or(None)
}

impl Stack {
    #[inline]
    fn top(&self) -> Option<RangeId> {
        self.open.last().map(|&(range, _)| range)
    }

    #[inline]
    fn take(&mut self, wanted: impl Fn(&(RangeId, Owner)) -> bool) -> Option<RangeId> {
        let at = self.open.iter().rposition(wanted)?;
        Some(self.open.remove(at).0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channel::tests::TestSession;
    use crate::range::ids;

    #[test]
    fn an_interruption_of_another_operation_finds_the_stack_unavailable() {
        let test = TestSession::begin();
        let range = ids::next_range();
        with(test.session, |_| {
            assert_eq!(push(test.session, range, Owner::Guard), Err(Unavailable));
            assert_eq!((innermost(test.session), pop(test.session, 0)), (None, None));
        })
        .unwrap();
        assert_eq!(push(test.session, range, Owner::Guard), Ok(None));
        assert_eq!(innermost(test.session), Some(range));
        assert!(remove(test.session, range));
    }

    #[test]
    fn a_range_entered_twice_is_left_one_at_a_time() {
        let test = TestSession::begin();
        let range = ids::next_range();
        push(test.session, range, Owner::Guard).unwrap();
        push(test.session, range, Owner::Guard).unwrap();
        assert!(remove(test.session, range));
        assert_eq!(innermost(test.session), Some(range));
        assert!(remove(test.session, range));
        assert!(!remove(test.session, range));
    }
}
