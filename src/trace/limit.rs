//! A limit on what may never come back: the driver, CUPTI, and the files that they lie in.

use std::sync::{Arc, mpsc};
use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};
use crate::under_way;

/// What was waited for.
#[derive(Clone, Copy)]
pub(crate) struct Step {
    /// What was being done, where the call does not tell.
    pub what: &'static str,
    /// The setting that says for how long.
    pub setting: Option<&'static str>,
}

/// The start of a session.
pub(super) const START: Step = Step { what: "starting the session", setting: Some("Builder::start_timeout") };

/// Its end, and flushes before.
pub(super) const END: Step = Step { what: "ending the session", setting: Some("Builder::finish_timeout") };

/// Runs what may hang on a thread of its own and waits for it that long; then the thread is left alone.
pub(crate) fn within<T: Send + 'static>(
    limit: Duration,
    name: &str,
    step: Step,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T> {
    let (done, wait) = mpsc::channel();
    let waited = Arc::new(under_way::Waited::new());
    let there = Arc::clone(&waited);
    std::thread::Builder::new()
        .name(name.into())
        .spawn(move || {
            let _nobody_waits = done.send(there.run(work));
        })
        .map_err(|source| Error::new(ErrorKind::Io, "cannot start a thread").with_source(source))?;
    wait.recv_timeout(limit).map_err(|_| timed_out(limit, step, waited.call()))
}

/// The error of a step that took longer than its limit, inside this call.
pub(super) fn timed_out(limit: Duration, step: Step, call: Option<&'static str>) -> Error {
    let (what, remedy) = call.and_then(known).unwrap_or((
        step.what,
        "the driver or CUPTI hangs: end other profilers and debuggers of this process, or use another version of CUPTI",
    ));
    let mut error = Error::new(ErrorKind::Timeout, format!("{what} took longer than {limit:?}"));
    error.call = call;
    error.with_hint(match step.setting {
        Some(setting) => format!("{remedy}; {setting} sets a longer limit"),
        None => remedy.to_owned(),
    })
}

/// What a call does, and what to do where it does not return.
fn known(call: &'static str) -> Option<(&'static str, &'static str)> {
    Some(match call {
        "dlopen" => (
            "opening the libraries",
            "the file system that they lie in may not answer: look at the paths that CUPROF_CUPTI_PATH and \
             LD_LIBRARY_PATH name",
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
