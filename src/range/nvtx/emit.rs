//! The crate's own ranges as NVTX ranges, for Nsight tools (feature `nvtx`).

use std::cell::Cell;
use std::ffi::CStr;
use std::marker::PhantomData;

thread_local! {
    /// Set while this thread is inside an NVTX call made here.
    static EMITTING: Cell<bool> = const { Cell::new(false) };
    /// Names with the NUL that NVTX wants; reused, so that it allocates only for the longest name so far.
    static NAME: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Whether the present NVTX call comes from here: the handler must not take it for one of the program's.
#[inline]
pub(super) fn emitting() -> bool {
    EMITTING.get()
}

/// An NVTX push that is popped when this is dropped.
#[derive(Debug)]
pub(in crate::range) struct Emitted(PhantomData<*const ()>);

impl Emitted {
    /// Pushes a range, if another tool listens to the program's NVTX: while this crate's own handler does, nobody
    /// would see it. A name is cut at its first NUL, which NVTX cannot express.
    #[inline]
    pub fn push(name: &str) -> Option<Self> {
        if super::initialised() {
            return None;
        }
        let mut bytes = NAME.try_with(Cell::take).unwrap_or_default();
        bytes.extend_from_slice(name.as_bytes());
        bytes.push(0);
        let pushed = CStr::from_bytes_until_nul(&bytes).ok().map(|name| {
            call(|| nvtx::sys::range_push_ascii(name));
            Self(PhantomData)
        });
        bytes.clear();
        let _ = NAME.try_with(|place| place.set(bytes));
        pushed
    }
}

/// Has the program's NVTX look for its tool, which each instance does at its first call.
pub(super) fn initialise() {
    call(|| nvtx::sys::mark_ascii(c"cuprof"));
}

impl Drop for Emitted {
    #[inline]
    fn drop(&mut self) {
        call(nvtx::sys::range_pop);
    }
}

fn call<R>(nvtx_call: impl FnOnce() -> R) {
    EMITTING.set(true);
    nvtx_call();
    EMITTING.set(false);
}
