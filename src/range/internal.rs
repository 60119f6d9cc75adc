//! Work that the crate launches itself, so that nobody takes it for the program's.

use std::cell::Cell;

/// The names of all kernels of the crate begin so: by this they are known where the event of their launch is missing.
pub(crate) const INTERNAL_KERNELS: &str = "cuprof_internal_";

thread_local! {
    static INTERNAL: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread is inside of [`internally`]. Not so while the thread exits.
#[inline]
pub(super) fn is_internal() -> bool {
    INTERNAL.try_with(Cell::get).unwrap_or(false)
}

/// Runs driver calls of the crate: what they launch on this thread is not the program's.
pub(crate) fn internally<T>(calls: impl FnOnce() -> T) -> T {
    /// Puts back what was, also where the calls panic.
    struct Before(bool);

    impl Drop for Before {
        fn drop(&mut self) {
            let _thread_exits = INTERNAL.try_with(|internal| internal.set(self.0));
        }
    }

    let _before = Before(INTERNAL.try_with(|internal| internal.replace(true)).unwrap_or(false));
    calls()
}
