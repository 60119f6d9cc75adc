//! The traced session: from a builder to a profile.

mod aside;
mod builder;
mod collector;
mod delivered;
mod flusher;
mod internal;
mod kernels;
mod marks;
mod missing;
mod observer;
mod output;
mod pipeline;
mod probe;
mod profile;
mod profiler;
mod replay;
mod session;
mod suspend;
mod texts;
mod warnings;
mod watch;
mod worker;

pub use builder::{
    Builder, DEFAULT_DEVICE_BUFFERS, DEFAULT_FINISH_TIMEOUT, DEFAULT_FLUSH_PERIOD, DEFAULT_START_TIMEOUT,
};
pub use profile::{FinishError, Profile};
pub use profiler::Profiler;
pub use replay::Replay;

pub(crate) use collector::{Collector, Run};
pub(crate) use observer::Observer;
pub(crate) use pipeline::{Pipeline, Start};
pub(crate) use probe::subscribe;
pub(crate) use replay::feed;
pub(crate) use session::precludes_counting;
pub(crate) use warnings::{is_broken, of_libraries};

#[cfg(test)]
mod tests;
