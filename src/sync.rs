//! What threads share: the standard library's atomics and locks, and crossbeam's queues.
//!
//! The rooms `buffer` and `channel` take them from here, because `tests/models` builds the same sources on a scheduler
//! that tries every interleaving, with a module like this one of its own.

pub(crate) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
pub(crate) use std::sync::{Mutex, MutexGuard, RwLock};
pub(crate) use std::thread::Thread;

pub(crate) use crossbeam_queue::{ArrayQueue, SegQueue};

/// A size, or the small one that a model can try everything with.
pub(crate) const fn sized(size: usize, _in_a_model: usize) -> usize {
    size
}

/// Statics, which a model makes anew for each interleaving.
macro_rules! statics {
    ($($(#[$about:meta])* static $name:ident: $type:ty = $value:expr;)*) => {
        $($(#[$about])* static $name: $type = $value;)*
    };
}

/// Values of each thread.
macro_rules! thread_locals {
    ($(#[$about:meta])* static $name:ident: $type:ty = $value:expr;) => {
        thread_local! { $(#[$about])* static $name: $type = const { $value }; }
    };
}

pub(crate) use {statics, thread_locals};
