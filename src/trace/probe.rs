//! Whether a session could start, found out without starting one.

use std::time::Duration;

use super::limit::{Step, within};
use super::session::name_the_holder;
use crate::cupti::{Holder, Libraries, Slot};
use crate::error::Result;

const PROBE: Step = Step { what: "asking CUPTI for a session", setting: None };

/// Subscribes to CUPTI and gives the subscription back, which touches nothing of another profiler's.
///
/// # Errors
/// As the start of a session has them: `Busy`, `AlreadyRunning`, `PermissionDenied`, `Call`; `Timeout` where CUPTI does
/// not come back.
pub(crate) fn subscribe(libraries: &Libraries) -> Result<()> {
    let slot = Slot::take(Holder::Tracing)?;
    let cupti = libraries.cupti;
    within(Duration::from_secs(10), "cuprof-probe", PROBE, move || {
        // With the thread, so that a probe that hangs keeps the slot.
        let _slot = slot;
        let subscriber = cupti.subscribe().map_err(name_the_holder)?;
        cupti.unsubscribe(&subscriber)
    })?
}
