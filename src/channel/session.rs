//! The gate in front of every producer: is there a session, and which one.

use std::num::NonZeroU32;

use crate::sync::{AtomicU32, Ordering, statics};

statics! {
    /// The running session's number; 0 while none runs.
    static RUNNING: AtomicU32 = AtomicU32::new(0);

    /// The number of the session that began last, running or not.
    static LATEST: AtomicU32 = AtomicU32::new(0);
}

/// One session's number. Threads mark with it what they keep, so that nothing of an earlier session is taken
/// for the present one's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Session(NonZeroU32);

impl Session {
    /// The running session. One relaxed load: this is all that an event costs while no session runs.
    ///
    /// Relaxed suffices, because nothing is published through this number: rings synchronise by their own
    /// positions, and records carry the session's tag.
    #[inline]
    pub fn current() -> Option<Self> {
        NonZeroU32::new(RUNNING.load(Ordering::Relaxed)).map(Self)
    }

    /// Whether this is the session that runs now.
    #[inline]
    pub fn is_current(self) -> bool {
        Self::current() == Some(self)
    }

    /// The mark on the session's records. Sixteen bits do: what they tell apart is a record that a thread was
    /// writing while its session ended from those of the next.
    #[inline]
    pub fn tag(self) -> u16 {
        self.0.get() as u16 // CAST: the low bits are the tag
    }

    pub(super) fn begin() -> Self {
        let latest = LATEST.load(Ordering::Relaxed);
        let session = Self(NonZeroU32::MIN.checked_add(latest).unwrap_or(NonZeroU32::MIN));
        LATEST.store(session.0.get(), Ordering::Relaxed);
        RUNNING.store(session.0.get(), Ordering::Relaxed);
        session
    }

    pub(super) fn end() {
        RUNNING.store(0, Ordering::Relaxed);
    }

    /// The tag of the session that began last: the worker still drains it after it has ended.
    pub(super) fn latest_tag() -> u16 {
        LATEST.load(Ordering::Relaxed) as u16 // CAST: the low bits are the tag
    }
}
