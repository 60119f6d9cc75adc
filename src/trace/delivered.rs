//! What the pipeline is fed with, live or from a recording, and what it leaves.

use cupti_sys::LibraryVersion;

use super::profile::Tally;
use crate::losses::Losses;
use crate::units::{Nanos, ProcessEpoch};

/// What the numbers and pointers in a buffer meant in the recording process.
pub(crate) trait Meanings {
    /// The bytes of a string that a record points to.
    fn string(&self, pointer: u64) -> Option<&[u8]>;
    /// The name of an API call.
    fn call_name(&self, kind: u32, cbid: u32) -> Option<String>;
}

/// One activity buffer.
pub(crate) struct Buffer<'a> {
    /// Host time at which the worker got it.
    pub received: Nanos,
    pub bytes: &'a [u8],
    /// Where records begin.
    pub offsets: &'a [u32],
    /// The walk over the buffer ended at its end.
    pub complete: bool,
}

/// How the session began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Start {
    pub version: LibraryVersion,
    pub time: Nanos,
    pub epoch: ProcessEpoch,
}

/// What a pipeline leaves.
pub(crate) struct Finished<S> {
    pub sink: S,
    pub losses: Losses,
    pub tally: Tally,
}
