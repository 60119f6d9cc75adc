//! Which C call and which file a thread is at, for whoever waits for the thread and gives up.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

thread_local! {
    /// This thread's number, if somebody waits for it.
    static NUMBER: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Where a thread is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    /// The call that it is inside of.
    pub call: Option<&'static str>,
    /// The file or folder that it has come to in this call.
    pub path: Option<PathBuf>,
}

/// Where the threads are that somebody waits for.
static PLACES: Mutex<Vec<(u64, Place)>> = Mutex::new(Vec::new());

fn places() -> MutexGuard<'static, Vec<(u64, Place)>> {
    PLACES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A thread that somebody waits for.
pub(crate) struct Waited(u64);

impl Waited {
    pub fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        places().push((number, Place::default()));
        Self(number)
    }

    /// Runs this on the thread that is waited for.
    pub fn run<T>(&self, work: impl FnOnce() -> T) -> T {
        NUMBER.set(Some(self.0));
        let done = work();
        NUMBER.set(None);
        done
    }

    /// Where the thread is now.
    pub fn place(&self) -> Place {
        let places = places();
        places
            .iter()
            .find(|(number, _)| *number == self.0)
            .map(|(_, place)| place.clone())
            .unwrap_or_default()
    }
}

impl Drop for Waited {
    fn drop(&mut self) {
        places().retain(|(number, _)| *number != self.0);
    }
}

/// A call that is under way, until this is dropped.
pub(crate) struct Entered(Option<(u64, Place)>);

/// The thread makes this call. Where nobody waits for the thread, it costs a look at a thread's variable.
pub(crate) fn enter(call: &'static str) -> Entered {
    Entered(
        NUMBER.get().and_then(|number| Some((number, put(number, Place { call: Some(call), path: None })?))),
    )
}

impl Drop for Entered {
    fn drop(&mut self) {
        if let Some((number, before)) = self.0.take() {
            put(number, before);
        }
    }
}

/// The thread comes to this file or folder, whose file system may not answer.
pub(crate) fn at(path: &Path) {
    if let Some(number) = NUMBER.get()
        && let Some((_, place)) = places().iter_mut().find(|(known, _)| *known == number)
    {
        place.path = Some(path.to_owned());
    }
}

fn put(number: u64, place: Place) -> Option<Place> {
    let mut places = places();
    let (_, there) = places.iter_mut().find(|(known, _)| *known == number)?;
    Some(std::mem::replace(there, place))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_call_of_the_waited_thread_is_told_with_its_file() {
        let waited = Waited::new();
        let other = Waited::new();
        drop(enter("not waited for"));
        waited.run(|| {
            let outer = enter("cuInit");
            assert_eq!(waited.place().call, Some("cuInit"));
            let inner = enter("dlopen");
            at(Path::new("/a"));
            at(Path::new("/b"));
            let place = Place { call: Some("dlopen"), path: Some("/b".into()) };
            assert_eq!(waited.place(), place);
            drop(inner);
            let place = Place { call: Some("cuInit"), path: None };
            assert_eq!(waited.place(), place, "it is back in the outer one");
            drop(outer);
            assert_eq!(waited.place(), Place::default());
        });
        assert_eq!(other.place(), Place::default());
    }
}
