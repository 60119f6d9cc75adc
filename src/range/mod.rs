//! Ranges: which ones are open on each thread and in the process, and the events that tell of them.
//!
//! Three makers share one stack per thread: the crate's own guards, NVTX (`nvtx`), and spans of `tracing`
//! (`tracing_layer`). A launch is tagged with the innermost range of its thread, whoever made it.

mod guard;
mod ids;
mod internal;
pub(crate) mod nvtx;
mod stack;
mod symbols;
#[cfg(test)]
mod tests;
#[cfg(feature = "tracing")]
pub(crate) mod tracing_layer;

pub use guard::{Entered, ProcessRange, Range, RangeHandle, process_range};
pub(crate) use ids::epoch;
pub(crate) use internal::{INTERNAL_KERNELS, internally};
pub(crate) use symbols::forget_symbols;

use crate::channel::{Arg, Args, Event, Payload, RangeKind, Session, Stamp, count_dropped, log};
use crate::units::{CorrelationId, ProcessEpoch, RangeId};

/// Logs that a driver call is about to launch work: with the innermost range of this thread, the present set of
/// process-wide ranges, the name of what is launched, and the time.
///
/// What the crate launches itself ([`internally`]) is logged as such, outside of every range.
///
/// For CUPTI's callback: it never waits, and without a session it is one relaxed load. `symbol` is the address of the
/// function's name, 0 for none, and `name` reads it.
#[inline]
pub(crate) fn log_launch<'a>(
    correlation: CorrelationId,
    is_recorded: bool,
    cbid: u32,
    symbol: usize,
    name: impl FnOnce() -> &'a [u8],
) {
    let Some(session) = Session::current() else { return };
    if internal::is_internal() {
        log(session, &Event::InternalLaunch { correlation, time: Stamp::now() });
        return;
    }
    let range = stack::innermost(session);
    let symbol = symbols::symbol(session, symbol, name);
    let (epoch, time) = (ids::epoch(), Stamp::now());
    log(session, &Event::Launch { correlation, range, epoch, cbid, symbol, is_recorded, time });
}

/// Logs that a launching call has failed.
#[cold]
pub(crate) fn log_failed_launch(correlation: CorrelationId) {
    if let Some(session) = Session::current() {
        log(session, &Event::LaunchFailed { correlation });
    }
}

/// Logs that a stream capture has ended that the session did not see begin.
#[cold]
pub(crate) fn log_unseen_capture_end() {
    if let Some(session) = Session::current() {
        log(session, &Event::UnseenCaptureEnded { time: Stamp::now() });
    }
}

/// Whether a session runs, so that arguments of ranges are worth evaluating.
#[doc(hidden)]
#[inline]
#[must_use]
pub fn is_recording() -> bool {
    Session::current().is_some()
}

/// What a program says of a range when it begins one.
#[derive(Clone, Copy, Default)]
struct Description<'a> {
    domain: u32,
    category: u32,
    color: Option<u32>,
    payload: Payload,
    name: &'a [u8],
    args: &'a [Arg<'a>],
}

impl<'a> Description<'a> {
    /// The event of such a range beginning now.
    #[inline]
    fn begin(
        &self,
        range: RangeId,
        kind: RangeKind,
        parent: Option<RangeId>,
        epoch: ProcessEpoch,
    ) -> Event<'a, Stamp> {
        let Self { domain, category, color, payload, name, args } = *self;
        let (time, args) = (Stamp::now(), Args::Borrowed(args));
        Event::Begin { range, kind, parent, epoch, domain, category, color, payload, time, name, args }
    }
}

/// Begins a range on this thread's stack and logs it. None, and one event counted as lost, if the stack cannot be
/// used.
#[inline]
fn begin_on_stack(
    session: Session,
    kind: RangeKind,
    owner: stack::Owner,
    description: &Description<'_>,
) -> Option<RangeId> {
    let range = ids::next_range();
    let Ok(parent) = stack::push(session, range, owner) else {
        count_dropped(false);
        return None;
    };
    log(session, &description.begin(range, kind, parent, ids::epoch()));
    Some(range)
}

#[inline]
fn begin_own(session: Session, description: &Description<'_>) -> Option<guard::Instance> {
    let range = begin_on_stack(session, RangeKind::Own, stack::Owner::Guard, description)?;
    Some(guard::Instance { session, range })
}

/// Begins a range that is on no thread's stack, and logs it.
#[cfg(feature = "tracing")]
#[inline]
fn begin_detached(
    session: Session,
    parent: Option<RangeId>,
    description: &Description<'_>,
) -> guard::Instance {
    let range = ids::next_range();
    log(session, &description.begin(range, RangeKind::Own, parent, ids::epoch()));
    guard::Instance { session, range }
}

/// Logs the end of a range that has left the stack.
#[inline]
fn end_on_stack(session: Session, range: RangeId) {
    log(session, &Event::End { range, epoch: None, time: Stamp::now() });
}

/// Runs a closure inside a range of this thread.
///
/// ```
/// let sum = cuprof::in_range("sum", || 1 + 1);
/// assert_eq!(sum, 2);
/// ```
#[inline]
pub fn in_range<T>(name: &str, work: impl FnOnce() -> T) -> T {
    let _range = Range::new(name);
    work()
}

/// Begins a range of this thread, with typed arguments if wanted; it ends when the result, a
/// [`Range`](crate::Range), is dropped.
///
/// Arguments are `key = value`, where a value is any integer up to 64 bits, a float, a `bool`, a `&str` or a
/// `&String`. They are evaluated only while a session runs.
///
/// ```
/// let n = 2048_usize;
/// let _step = cuprof::range!("step");
/// let _gemm = cuprof::range!("gemm", n = n, beta = 0.5, transposed = false, precision = "fp16");
/// ```
#[macro_export]
macro_rules! range {
    ($name:expr $(,)?) => {
        $crate::Range::new($name)
    };
    ($name:expr, $($key:ident = $value:expr),+ $(,)?) => {
        if $crate::__private::is_recording() {
            $crate::Range::with_args($name, &[$($crate::Arg::new(stringify!($key), $value)),+])
        } else {
            $crate::Range::new($name)
        }
    };
}
