//! Tells a worker that writes for long from one that does not come back from CUPTI.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::under_way::Place;

/// Since when a thread has been inside a call of CUPTI.
#[derive(Debug)]
pub(super) struct Watch {
    origin: Instant,
    /// Nanoseconds from the origin to the beginning of the call; 0: no call is under way.
    entered_ns: AtomicU64,
    /// The call that was made last.
    name: Mutex<&'static str>,
}

impl Watch {
    pub fn new() -> Self {
        Self { origin: Instant::now(), entered_ns: AtomicU64::new(0), name: Mutex::new("") }
    }

    /// Makes the call of this name. Some 50 ns.
    pub fn call<T>(&self, name: &'static str, call: impl FnOnce() -> T) -> T {
        // CAST: 500 years.
        let now = (self.origin.elapsed().as_nanos() as u64).max(1);
        *self.name.lock().unwrap_or_else(PoisonError::into_inner) = name;
        self.entered_ns.store(now, Ordering::Relaxed);
        let result = call();
        self.entered_ns.store(0, Ordering::Relaxed);
        result
    }

    /// The call that is under way.
    pub fn place(&self) -> Place {
        let is_inside = self.entered_ns.load(Ordering::Relaxed) != 0;
        let call = is_inside.then(|| *self.name.lock().unwrap_or_else(PoisonError::into_inner));
        Place { call, path: None }
    }

    /// How long the call that is under way has taken so far.
    pub fn inside_for(&self) -> Duration {
        match self.entered_ns.load(Ordering::Relaxed) {
            0 => Duration::ZERO,
            entered_ns => self.origin.elapsed().saturating_sub(Duration::from_nanos(entered_ns)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_time_inside_a_call_counts() {
        let watch = Watch::new();
        assert_eq!(watch.inside_for(), Duration::ZERO);
        let inside = watch.call("cuptiActivityGetNextRecord", || {
            assert_eq!(watch.place().call, Some("cuptiActivityGetNextRecord"));
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_millis(2) {
                std::hint::spin_loop();
            }
            watch.inside_for()
        });
        assert!(inside >= Duration::from_millis(2), "{inside:?}");
        assert_eq!((watch.inside_for(), watch.place().call), (Duration::ZERO, None));
    }
}
