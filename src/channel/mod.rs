//! From the application's threads to the worker: one ring of events a thread.
//!
//! Logging never waits, and allocates only at a thread's first event. Whatever does not fit is dropped and counted.

mod clock;
mod event;
mod registry;
mod ring;
mod session;
#[cfg(test)]
pub(crate) mod tests;
mod wire;

pub(crate) use clock::Stamp;
pub use event::{Arg, ArgValue};
pub(crate) use event::{Args, Event, Named, Payload, RangeKind};
pub(crate) use registry::{
    ThreadMeta, begin_session, count_dropped, drain, dropped, end_session, log, memory_bytes,
};
pub(crate) use session::Session;
pub(crate) use wire::{append, decode};
