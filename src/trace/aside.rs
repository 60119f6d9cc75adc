//! Calls of CUPTI that the worker can do without: a thread of their own makes them, so that a CUPTI that hangs does not
//! take along what the worker still has to write.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};

/// How long the worker waits for one call. They take microseconds.
const PATIENCE: Duration = Duration::from_millis(200);

type Call = Box<dyn FnOnce() + Send>;

pub(super) struct Aside {
    /// None when it ends.
    calls: Option<Sender<Call>>,
    /// A call is under way.
    busy: Arc<AtomicBool>,
    handle: Option<JoinHandle<()>>,
}

impl Aside {
    pub fn start() -> Result<Self> {
        let (calls, come) = mpsc::channel::<Call>();
        let handle = std::thread::Builder::new()
            .name("cuprof-calls".into())
            .spawn(move || come.into_iter().for_each(|call| call()))
            .map_err(|source| Error::new(ErrorKind::Io, "cannot start a thread").with_source(source))?;
        Ok(Self { calls: Some(calls), busy: Arc::new(AtomicBool::new(false)), handle: Some(handle) })
    }

    /// Makes the call; none if it does not come back soon, or an earlier one has not.
    pub fn call<T: Send + 'static>(&self, call: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        if self.busy.swap(true, Ordering::Relaxed) {
            return None;
        }
        let (done, wait) = mpsc::channel();
        let busy = Arc::clone(&self.busy);
        let made = move || {
            let result = call();
            busy.store(false, Ordering::Relaxed);
            let _nobody_waits = done.send(result);
        };
        self.calls.as_ref()?.send(Box::new(made)).ok()?;
        wait.recv_timeout(PATIENCE).ok()
    }
}

impl Drop for Aside {
    /// Ends the thread, which is left alone if it does not come back.
    fn drop(&mut self) {
        self.calls = None;
        if let Some(handle) = self.handle.take().filter(|_| !self.busy.load(Ordering::Relaxed)) {
            let _it_cannot_panic = handle.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_does_not_come_back_is_waited_for_once() -> Result<()> {
        let aside = Aside::start()?;
        assert_eq!(aside.call(|| 7), Some(7));
        let (release, wait) = mpsc::channel::<()>();
        assert_eq!(aside.call(move || wait.recv().is_ok()), None);
        let begun = std::time::Instant::now();
        assert_eq!(aside.call(|| 8), None);
        assert!(begun.elapsed() < PATIENCE, "nobody waits for it again");
        drop(release);
        drop(aside);
        Ok(())
    }
}
