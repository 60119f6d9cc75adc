//! Whether a session could start, found out without starting one.

use super::session::name_the_holder;
use crate::cupti::{Holder, Libraries, Slot};
use crate::error::Result;

/// Subscribes to CUPTI and gives the subscription back, which touches nothing of another profiler's. Where CUPTI does not
/// come back, this does not either, and no session can start from then on.
///
/// # Errors
/// As the start of a session has them: `Busy`, `AlreadyRunning`, `PermissionDenied`, `Call`.
pub(crate) fn subscribe(libraries: &Libraries) -> Result<()> {
    let _slot = Slot::take(Holder::Tracing)?;
    let subscriber = libraries.cupti.subscribe().map_err(name_the_holder)?;
    libraries.cupti.unsubscribe(&subscriber)
}
