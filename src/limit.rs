//! A limit on what may never come back: the driver, CUPTI, and the files that they lie in.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::error::{Error, ErrorKind, Result, shown};
use crate::under_way::{self, Place};

/// What was waited for.
#[derive(Clone, Copy)]
pub(crate) struct Step {
    /// What was being done, where the call does not tell.
    pub what: &'static str,
    /// The setting that says for how long.
    pub setting: Option<&'static str>,
}

/// What has become of the work.
enum State<T> {
    UnderWay,
    Done(T),
    /// Nobody waits any more, or nothing will come.
    Left,
}

struct Shared<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
}

impl<T> Shared<T> {
    /// Changes the state; returns what it was.
    fn put(&self, state: State<T>) -> State<T> {
        std::mem::replace(&mut *self.state.lock().unwrap_or_else(PoisonError::into_inner), state)
    }
}

/// Held by the thread that works.
struct Report<T>(Arc<Shared<T>>);

impl<T> Report<T> {
    fn done(self, value: T) {
        let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        // What nobody waits for is dropped here, by whoever made it.
        if matches!(*state, State::UnderWay) {
            *state = State::Done(value);
        }
    }
}

impl<T> Drop for Report<T> {
    /// Also where the work has panicked.
    fn drop(&mut self) {
        let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*state, State::UnderWay) {
            *state = State::Left;
        }
        self.0.changed.notify_all();
    }
}

/// Runs what may hang on a thread of its own and waits for it that long; then the thread is left alone.
///
/// The wait is no channel's: a thread's first wait for one registers with the linker what is to be done at the thread's
/// end, and a linker that is opening a library for ever would not answer that either.
pub(crate) fn within<T: Send + 'static>(
    limit: Duration,
    name: &str,
    step: Step,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T> {
    let shared = Arc::new(Shared { state: Mutex::new(State::UnderWay), changed: Condvar::new() });
    let waited = Arc::new(under_way::Waited::new());
    let (report, there) = (Report(Arc::clone(&shared)), Arc::clone(&waited));
    std::thread::Builder::new()
        .name(name.into())
        .spawn(move || {
            let value = there.run(work);
            report.done(value);
        })
        .map_err(|source| Error::new(ErrorKind::Io, "cannot start a thread").with_source(source))?;
    let state = shared.state.lock().unwrap_or_else(PoisonError::into_inner);
    let is_under_way = |state: &mut State<T>| matches!(state, State::UnderWay);
    drop(shared.changed.wait_timeout_while(state, limit, is_under_way));
    match shared.put(State::Left) {
        State::Done(value) => Ok(value),
        State::UnderWay | State::Left => Err(timed_out(limit, step, waited.place())),
    }
}

/// The error of a step that took longer than its limit, at this place.
pub(crate) fn timed_out(limit: Duration, step: Step, place: Place) -> Error {
    let Place { call, path } = place;
    let (what, remedy) = match (call.and_then(known), &path) {
        (Some(known), _) => known,
        (None, Some(_)) => (step.what, FILES),
        (None, None) => (step.what, HANGS),
    };
    let at = path.map(|path| format!(", at {}", shown(&path))).unwrap_or_default();
    let mut error = Error::new(ErrorKind::Timeout, format!("{what} took longer than {limit:?}{at}"));
    error.call = call;
    error.with_hint(match step.setting {
        Some(setting) => format!("{remedy}; {setting} sets a longer limit"),
        None => remedy.to_owned(),
    })
}

/// What to do where anything hangs.
const HANGS: &str = "the driver or CUPTI hangs: end other profilers and debuggers of this process, or use another version of \
     CUPTI";

/// What to do where a file does not answer.
const FILES: &str = "the file system that it lies in may not answer: look at the paths that CUPROF_CUPTI_PATH and \
     LD_LIBRARY_PATH name, and at mounts of file servers";

/// What a call does, and what to do where it does not return.
fn known(call: &'static str) -> Option<(&'static str, &'static str)> {
    Some(match call {
        "dlopen" => ("opening the libraries", FILES),
        "nvmlInit_v2" => (
            "opening NVML",
            "the driver hangs, or the file system of its library: see whether nvidia-smi answers, and what \
             CUPROF_NVML_PATH names",
        ),
        "cuInit" => (
            "initialising CUDA",
            "the driver hangs: see whether nvidia-smi answers, and what the kernel's log (dmesg) has of the GPU",
        ),
        "cuCtxSynchronize" => (
            "waiting for the GPU",
            "a kernel of the program does not end, or runs for long: cuda-gdb shows which",
        ),
        "cuptiSubscribe" => (
            "subscribing to CUPTI",
            "CUPTI hangs: run without other profilers and debuggers (cuprof doctor looks for them), or use another \
             version of CUPTI",
        ),
        "cuptiActivityEnable" => (
            "switching records on",
            "CUPTI hangs, or is busy with large modules that are loaded already: start the session before the first \
             CUDA call",
        ),
        "cuptiActivityFlushAll" => (
            "having CUPTI deliver its records",
            "CUPTI hangs, or waits for a kernel that does not end: synchronise before, or use another version of CUPTI",
        ),
        "cuptiActivityGetNextRecord" => (
            "reading CUPTI's records",
            "CUPTI hangs: use another version of it; parts of the output that are finished stay readable",
        ),
        "cuptiActivityDisable" | "cuptiUnsubscribe" => {
            ("switching records off", "CUPTI hangs when tracing ends: use another version of it")
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn what_does_not_come_back_is_told_with_the_place_that_it_hangs_at() {
        const STEP: Step = Step { what: "starting", setting: Some("Builder::limit") };
        let hangs = |place: fn()| {
            let (release, wait) = mpsc::channel::<()>();
            let hanging = move || {
                place();
                let _released = wait.recv();
            };
            let text =
                within(Duration::from_millis(50), "cuprof-test", STEP, hanging).err().map(|e| e.to_string());
            drop(release);
            text.unwrap_or_default()
        };
        let nowhere = hangs(|| {});
        assert!(
            nowhere.starts_with("timed out: starting took longer than 50ms\n  the driver or CUPTI hangs"),
            "{nowhere}"
        );
        assert!(nowhere.ends_with("; Builder::limit sets a longer limit"), "{nowhere}");
        let file = hangs(|| under_way::at(Path::new("/mnt/server/libcupti.so.13")));
        let beginning =
            "timed out: starting took longer than 50ms, at /mnt/server/libcupti.so.13\n  the file system";
        assert!(file.starts_with(beginning), "{file}");
        assert_eq!(within(Duration::from_secs(30), "cuprof-test", STEP, || 7).ok(), Some(7));
    }

    #[test]
    fn what_comes_too_late_is_dropped_where_it_was_made() {
        const STEP: Step = Step { what: "starting", setting: None };
        struct Made(mpsc::Sender<String>);
        impl Drop for Made {
            fn drop(&mut self) {
                let _heard = self.0.send(std::thread::current().name().unwrap_or_default().to_owned());
            }
        }
        let (dropped, hear) = mpsc::channel();
        let (go_on, wait) = mpsc::channel::<()>();
        let work = move || {
            let _gone = wait.recv();
            Made(dropped)
        };
        assert!(within(Duration::from_millis(1), "cuprof-late", STEP, work).is_err());
        drop(go_on);
        assert_eq!(hear.recv().as_deref(), Ok("cuprof-late"));
    }

    #[test]
    fn a_call_that_does_not_come_back_is_told_with_what_it_does() {
        let place = Place { call: Some("dlopen"), path: Some("libcuda.so.1".into()) };
        let step = Step { what: "starting", setting: None };
        let text = timed_out(Duration::from_secs(1), step, place).to_string();
        let beginning =
            "timed out: opening the libraries took longer than 1s, at libcuda.so.1 (dlopen did not return)";
        assert!(text.starts_with(beginning) && !text.contains("longer limit"), "{text}");
    }
}
