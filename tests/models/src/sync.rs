//! Stands in for `src/sync.rs` of the crate: loom's types, under which every interleaving is tried.

use std::collections::VecDeque;

pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
pub(crate) use loom::sync::{Mutex, MutexGuard, RwLock};
pub(crate) use loom::thread::Thread;

/// The small size.
pub(crate) const fn sized(_size: usize, in_a_model: usize) -> usize {
    in_a_model
}

macro_rules! statics {
    ($($(#[$about:meta])* static $name:ident: $type:ty = $value:expr;)*) => {
        $(loom::lazy_static! { $(#[$about])* static ref $name: $type = $value; })*
    };
}

macro_rules! thread_locals {
    ($(#[$about:meta])* static $name:ident: $type:ty = $value:expr;) => {
        loom::thread_local! { $(#[$about])* static $name: $type = $value; }
    };
}

pub(crate) use {statics, thread_locals};

/// What a queue of crossbeam promises: an element is popped once, after everything that its pusher did before.
#[derive(Debug)]
pub(crate) struct ArrayQueue<T> {
    items: Mutex<VecDeque<T>>,
    capacity: usize,
}

impl<T> ArrayQueue<T> {
    pub fn new(capacity: usize) -> Self {
        Self { items: Mutex::new(VecDeque::new()), capacity }
    }

    pub fn push(&self, item: T) -> Result<(), T> {
        let mut items = self.items.lock().unwrap();
        if items.len() == self.capacity {
            return Err(item);
        }
        items.push_back(item);
        Ok(())
    }

    pub fn pop(&self) -> Option<T> {
        self.items.lock().unwrap().pop_front()
    }

    pub fn len(&self) -> usize {
        self.items.lock().unwrap().len()
    }

    pub fn is_full(&self) -> bool {
        self.len() == self.capacity
    }
}

/// The same without a bound.
pub(crate) struct SegQueue<T>(ArrayQueue<T>);

impl<T> SegQueue<T> {
    pub fn new() -> Self {
        Self(ArrayQueue::new(usize::MAX))
    }

    pub fn push(&self, item: T) {
        let _has_no_bound = self.0.push(item);
    }

    pub fn pop(&self) -> Option<T> {
        self.0.pop()
    }
}
