//! From the application's threads to the worker: one byte ring a thread, and the events on it.

mod event;

pub(crate) use event::{Arg, ArgValue, Event, Named, Payload, RangeKind};
