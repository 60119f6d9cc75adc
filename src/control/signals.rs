//! Releases pinned clocks when SIGINT or SIGTERM comes, where that was asked for.
//!
//! NVML cannot be called in a signal handler. So the handler only wakes a thread, which releases what is pinned and
//! then lets the signal do what it does by default: end the process.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::pin::Pin;
use crate::error::{Error, ErrorKind, Result};

type Slot = Mutex<Option<Pin>>;

static PINS: Mutex<Vec<Weak<Slot>>> = Mutex::new(Vec::new());

/// What is to be released.
pub(super) fn remember(slot: &Arc<Slot>) {
    let mut pins = PINS.lock().unwrap_or_else(PoisonError::into_inner);
    pins.retain(|pin| pin.strong_count() > 0);
    pins.push(Arc::downgrade(slot));
}

/// Starts the thread, once for the process.
pub(super) fn listen() -> Result<()> {
    static LISTENS: Mutex<bool> = Mutex::new(false);
    let mut listens = LISTENS.lock().unwrap_or_else(PoisonError::into_inner);
    if *listens {
        return Ok(());
    }
    let failed = |source| Error::new(ErrorKind::Io, "cannot listen for signals").with_source(source);
    let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(failed)?;
    let thread = std::thread::Builder::new().name("cuprof-signals".into());
    thread
        .spawn(move || {
            for signal in signals.forever() {
                release_all();
                let _it_ends_here = signal_hook::low_level::emulate_default_handler(signal);
            }
        })
        .map_err(failed)?;
    *listens = true;
    Ok(())
}

fn release_all() {
    let pins = std::mem::take(&mut *PINS.lock().unwrap_or_else(PoisonError::into_inner));
    for slot in pins.iter().filter_map(Weak::upgrade) {
        let pin = slot.lock().unwrap_or_else(PoisonError::into_inner).take();
        // What fails here is left to the watchdog.
        let _nobody_to_tell = pin.map(Pin::release);
    }
}
