//! Which C call a thread is inside of, for whoever waits for the thread and gives up.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

thread_local! {
    /// This thread's number, if somebody waits for it.
    static NUMBER: Cell<Option<u64>> = const { Cell::new(None) };
}

/// The calls of the threads that somebody waits for.
static CALLS: Mutex<Vec<(u64, Option<&'static str>)>> = Mutex::new(Vec::new());

fn calls() -> MutexGuard<'static, Vec<(u64, Option<&'static str>)>> {
    CALLS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A thread that somebody waits for.
pub(crate) struct Waited(u64);

impl Waited {
    pub fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        calls().push((number, None));
        Self(number)
    }

    /// Runs this on the thread that is waited for.
    pub fn run<T>(&self, work: impl FnOnce() -> T) -> T {
        NUMBER.set(Some(self.0));
        let done = work();
        NUMBER.set(None);
        done
    }

    /// The call that the thread is inside of now.
    pub fn call(&self) -> Option<&'static str> {
        calls().iter().find(|(number, _)| *number == self.0)?.1
    }
}

impl Drop for Waited {
    fn drop(&mut self) {
        calls().retain(|(number, _)| *number != self.0);
    }
}

/// A call that is under way, until this is dropped.
pub(crate) struct Entered(Option<(u64, Option<&'static str>)>);

/// The thread makes this call. Where nobody waits for the thread, it costs a look at a thread's variable.
pub(crate) fn enter(call: &'static str) -> Entered {
    Entered(NUMBER.get().map(|number| (number, note(number, Some(call)))))
}

impl Drop for Entered {
    fn drop(&mut self) {
        if let Some((number, before)) = self.0 {
            note(number, before);
        }
    }
}

fn note(number: u64, call: Option<&'static str>) -> Option<&'static str> {
    let mut calls = calls();
    let entry = calls.iter_mut().find(|(known, _)| *known == number)?;
    std::mem::replace(&mut entry.1, call)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_call_of_the_waited_thread_is_told() {
        let waited = Waited::new();
        let other = Waited::new();
        drop(enter("not waited for"));
        waited.run(|| {
            let outer = enter("cuInit");
            assert_eq!(waited.call(), Some("cuInit"));
            drop(enter("dlopen"));
            assert_eq!(waited.call(), Some("cuInit"), "it is back in the outer one");
            drop(outer);
            assert_eq!(waited.call(), None);
        });
        assert_eq!(other.call(), None);
    }
}
