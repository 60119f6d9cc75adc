//! The contexts that work was launched in, so that the end of a session can wait for it.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use crate::driver::Context;

/// Contexts that can be remembered; a program has one a GPU, rarely more.
const CAPACITY: usize = 64;

/// The contexts of this process.
pub(crate) static CONTEXTS: Contexts = Contexts::new();

/// A small lock-free set of live contexts.
pub(crate) struct Contexts {
    slots: [AtomicPtr<std::ffi::c_void>; CAPACITY],
    /// The context noted last: nearly always the next one, too.
    last: AtomicPtr<std::ffi::c_void>,
    overflowed: AtomicU64,
}

impl Contexts {
    const fn new() -> Self {
        Self {
            slots: [const { AtomicPtr::new(std::ptr::null_mut()) }; CAPACITY],
            last: AtomicPtr::new(std::ptr::null_mut()),
            overflowed: AtomicU64::new(0),
        }
    }

    /// Remembers a context.
    #[inline]
    pub fn note(&self, context: Context) {
        let pointer = context.0.as_ptr();
        if self.last.load(Ordering::Relaxed) != pointer {
            self.insert(context);
            self.last.store(pointer, Ordering::Relaxed);
        }
    }

    fn insert(&self, context: Context) {
        let pointer = context.0.as_ptr();
        if self.slots.iter().any(|slot| slot.load(Ordering::Relaxed) == pointer) {
            return;
        }
        // Two threads may note the same context at once and use two slots; it is then waited for twice.
        let empty = std::ptr::null_mut();
        let placed = self
            .slots
            .iter()
            .any(|slot| slot.compare_exchange(empty, pointer, Ordering::Relaxed, Ordering::Relaxed).is_ok());
        if !placed {
            self.overflowed.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Forgets a context that is being destroyed.
    pub fn forget(&self, context: Context) {
        let (pointer, empty) = (context.0.as_ptr(), std::ptr::null_mut());
        let _was_last = self.last.compare_exchange(pointer, empty, Ordering::Relaxed, Ordering::Relaxed);
        for slot in &self.slots {
            let _was_here = slot.compare_exchange(pointer, empty, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Forgets all contexts.
    pub fn clear(&self) {
        let empty = std::ptr::null_mut();
        self.slots.iter().chain([&self.last]).for_each(|slot| slot.store(empty, Ordering::Relaxed));
    }

    /// The contexts that are alive.
    pub fn live(&self) -> Vec<Context> {
        let pointers = self.slots.iter().filter_map(|slot| NonNull::new(slot.load(Ordering::Relaxed)));
        pointers.map(Context).collect()
    }

    /// How often a context found no slot since the last call.
    pub fn take_overflowed(&self) -> u64 {
        self.overflowed.swap(0, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context(address: usize) -> Context {
        Context(NonNull::new(address as *mut std::ffi::c_void).expect("not null"))
    }

    #[test]
    fn a_context_is_remembered_once_until_it_is_destroyed() {
        let contexts = Contexts::new();
        contexts.note(context(8));
        contexts.note(context(16));
        contexts.note(context(8));
        assert_eq!(contexts.live(), [context(8), context(16)]);
        contexts.forget(context(8));
        assert_eq!(contexts.live(), [context(16)]);
        contexts.note(context(8));
        assert_eq!(contexts.live().len(), 2);
    }

    #[test]
    fn more_contexts_than_slots_are_counted() {
        let contexts = Contexts::new();
        for address in 1..=CAPACITY + 3 {
            contexts.note(context(address * 8));
        }
        assert_eq!(contexts.live().len(), CAPACITY);
        assert_eq!(contexts.take_overflowed(), 3);
    }
}
