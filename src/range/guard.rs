//! The crate's own ranges: guards for a scope, handles that carry a range to other threads, and ranges of the
//! whole process.

use std::marker::PhantomData;

use super::{Description, begin_own, end_on_stack, ids, stack};
use crate::channel::{Arg, Event, RangeKind, Session, Stamp, count_dropped, log};
use crate::units::RangeId;

/// A range instance of one session.
#[derive(Clone, Copy, Debug)]
pub(super) struct Instance {
    pub session: Session,
    pub range: RangeId,
}

/// Makes a guard `!Send`: what it undoes is on the stack of the thread that made it.
type NotSend = PhantomData<*const ()>;

/// An open range of this thread; it ends when this is dropped. Made by [`range!`](crate::range!).
///
/// Work that the thread launches while the range is its innermost one belongs to it. Ranges may be dropped in any
/// order. Without a running session, and after the session that it began in, a range does nothing.
///
/// Bind it to a name: `let _ = range!(…)` would end it at once, `let _range = range!(…)` does not.
///
/// It stays on its thread:
///
/// ```compile_fail
/// let range = cuprof::range!("step");
/// std::thread::spawn(move || drop(range));
/// ```
///
/// Use [`handle`](Self::handle) to let other threads work for it.
///
/// **Cost**: a few nanoseconds without a session; with one, two readings of the processor's counter and two events on the
/// thread's ring (`cargo bench --bench range_cost`).
#[derive(Debug)]
#[must_use = "the range ends when this is dropped: bind it to a name"]
pub struct Range {
    open: Option<Instance>,
    #[cfg(feature = "nvtx")]
    _emitted: Option<super::nvtx::emit::Emitted>,
    _not_send: NotSend,
}

impl Range {
    /// Begins a range of this thread.
    #[inline]
    pub fn new(name: &str) -> Self {
        Self::with_args(name, &[])
    }

    /// Begins a range with typed arguments. [`range!`](crate::range!) writes them more conveniently, and does not
    /// even evaluate them without a session.
    #[inline]
    pub fn with_args(name: &str, args: &[Arg<'_>]) -> Self {
        let open = Session::current().and_then(|session| {
            let description = Description { name: name.as_bytes(), args, ..Description::default() };
            begin_own(session, &description)
        });
        Self {
            open,
            #[cfg(feature = "nvtx")]
            _emitted: super::nvtx::emit::Emitted::push(name),
            _not_send: PhantomData,
        }
    }

    /// The range's number; none without a session.
    pub(crate) fn id(&self) -> Option<RangeId> {
        self.open.map(|open| open.range)
    }

    /// A handle with which other threads can work for this range.
    #[inline]
    #[must_use]
    pub fn handle(&self) -> RangeHandle {
        RangeHandle { instance: self.open }
    }
}

impl Drop for Range {
    #[inline]
    fn drop(&mut self) {
        if let Some(Instance { session, range }) = self.open
            && session.is_current()
        {
            stack::remove(session, range);
            end_on_stack(session, range);
        }
    }
}

/// Carries a range to other threads; see [`Range::handle`].
///
/// It does not keep the range open. Work that is launched through a handle after its range has ended still counts
/// for that range.
#[derive(Clone, Copy, Debug)]
pub struct RangeHandle {
    instance: Option<Instance>,
}

impl RangeHandle {
    /// Makes the range the innermost one of this thread, until the result is dropped.
    #[inline]
    pub fn enter(&self) -> Entered {
        let instance = self.instance.filter(|instance| instance.session.is_current());
        Entered { entered: instance.filter(|instance| enter(*instance)), _not_send: PhantomData }
    }
}

/// Puts a range on this thread's stack. Whether that was possible; if not, it is counted.
pub(super) fn enter(instance: Instance) -> bool {
    let entered = stack::push(instance.session, instance.range, stack::Owner::Guard).is_ok();
    if !entered {
        count_dropped(false);
    }
    entered
}

/// While this lives, its range is open on this thread too; made by [`RangeHandle::enter`].
///
/// It stays on its thread:
///
/// ```compile_fail
/// let range = cuprof::range!("step");
/// let entered = range.handle().enter();
/// std::thread::spawn(move || drop(entered));
/// ```
#[derive(Debug)]
#[must_use = "the range is left when this is dropped: bind it to a name"]
pub struct Entered {
    entered: Option<Instance>,
    _not_send: NotSend,
}

impl Drop for Entered {
    #[inline]
    fn drop(&mut self) {
        if let Some(Instance { session, range }) = self.entered
            && session.is_current()
        {
            stack::remove(session, range);
        }
    }
}

/// Begins a range of the whole process: work launched by any thread while it is open belongs to it, beside the
/// ranges of that thread. Such ranges may overlap in any way.
///
/// ```
/// let epoch = cuprof::process_range("epoch 1");
/// std::thread::spawn(move || epoch.end()).join().unwrap(); // it may end on another thread
/// ```
#[inline]
pub fn process_range(name: &str) -> ProcessRange {
    let description = Description { name: name.as_bytes(), ..Description::default() };
    let start = |session| start_process(session, ids::next_range(), &description);
    ProcessRange { open: Session::current().map(start) }
}

/// Starts a process-wide range and logs it.
pub(super) fn start_process(session: Session, range: RangeId, description: &Description<'_>) -> Instance {
    // No parent: it belongs to the process, not to what its thread happened to be in.
    log(session, &description.begin(range, RangeKind::Process, None, ids::next_epoch()));
    Instance { session, range }
}

/// Ends a process-wide range of the running session and logs it.
pub(super) fn end_process(session: Session, range: RangeId) {
    log(session, &Event::End { range, epoch: Some(ids::next_epoch()), time: Stamp::now() });
}

/// An open process-wide range; it ends when this is dropped, on whichever thread. Made by [`process_range`].
#[derive(Debug)]
#[must_use = "the range ends when this is dropped: bind it to a name"]
pub struct ProcessRange {
    open: Option<Instance>,
}

impl ProcessRange {
    /// Ends the range; the same as dropping it.
    pub fn end(self) {}
}

impl Drop for ProcessRange {
    #[inline]
    fn drop(&mut self) {
        if let Some(Instance { session, range }) = self.open
            && session.is_current()
        {
            end_process(session, range);
        }
    }
}
