//! The border to C: no panic unwinds into it. What is caught there is counted.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

static CAUGHT: AtomicU64 = AtomicU64::new(0);

/// Panics caught since a session began.
pub(crate) fn caught() -> u64 {
    CAUGHT.load(Ordering::Relaxed)
}

/// A session begins.
pub(crate) fn forget() {
    CAUGHT.store(0, Ordering::Relaxed);
}

/// Runs the body of a function that C calls, by the name under which `panic_in` knows it. A panic gives `otherwise`.
#[inline]
pub(crate) fn contain<R>(_callback: &'static str, otherwise: R, body: impl FnOnce() -> R) -> R {
    let body = || {
        #[cfg(debug_assertions)]
        on_purpose::panic_if_asked(_callback);
        body()
    };
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| {
        // Dropping the payload could panic again.
        std::mem::forget(panic);
        CAUGHT.fetch_add(1, Ordering::Relaxed);
        otherwise
    })
}

/// The next time, this callback panics: `buffer_requested`, `buffer_completed`, `api` or `nvtx`. Nothing in builds for
/// release.
pub(crate) fn panic_in(_callback: &'static str) {
    #[cfg(debug_assertions)]
    on_purpose::ask(_callback);
}

/// Panics that tests ask for.
#[cfg(debug_assertions)]
mod on_purpose {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Mutex, PoisonError};

    static ASKED: Mutex<Option<&str>> = Mutex::new(None);
    static ANY: AtomicBool = AtomicBool::new(false);

    pub(super) fn ask(callback: &'static str) {
        *ASKED.lock().unwrap_or_else(PoisonError::into_inner) = Some(callback);
        ANY.store(true, Ordering::Relaxed);
    }

    pub(super) fn panic_if_asked(callback: &str) {
        if !ANY.load(Ordering::Relaxed) {
            return;
        }
        let mut asked = ASKED.lock().unwrap_or_else(PoisonError::into_inner);
        if *asked == Some(callback) {
            *asked = None;
            drop(asked);
            // Any panic will do; this one is not forbidden by the lints that keep real ones out.
            std::panic::resume_unwind(Box::new("asked for by a test"));
        }
    }
}
