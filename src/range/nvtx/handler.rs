//! What the calls of NVTX mean.

use std::cell::RefCell;
use std::ffi::c_int;

use super::abi::{Said, Text};
use super::names;
use crate::channel::{Event, Named, RangeKind, Session, Stamp, log};
use crate::range::{Description, begin_on_stack, end_on_stack, guard, ids, stack};
use crate::units::RangeId;

/// What push and pop return when nothing is open (`nvToolsExt.h`: negative means error).
pub(super) const NOT_OPEN: c_int = -1;

/// What push and pop return when depths are not tracked (`NVTX_NO_PUSH_POP_TRACKING`).
pub(super) const NOT_TRACKED: c_int = -2;

/// How a call came, which decides who made its handles and ids.
#[derive(Clone, Copy)]
pub(super) enum Via {
    /// From the program's own NVTX: this handler's return value is what the program gets.
    Table,
    /// Through CUPTI's callbacks: the program gets what CUPTI returned.
    Cupti { returned: u64 },
}

/// The bits of a start/end id that are the range's number; those above are the session's tag, so that the end of a
/// range that was started outside the session is recognised without a table of open ranges.
const RANGE_BITS: u32 = 48;

/// Ranges that CUPTI numbers: far above those that `ids` hands out, below `i64::MAX`.
const CUPTI_RANGES: u64 = 1 << 62;

pub(super) fn mark(domain: usize, said: impl Said) {
    if is_own_emission() {
        return;
    }
    let Some(session) = Session::current() else { return };
    said.describe(names::domain(domain), |description| {
        let Description { domain, category, color, payload, name, args: _ } = *description;
        let (range, time) = (stack::innermost(session), Stamp::now());
        log(session, &Event::Mark { range, domain, category, color, payload, time, name });
    });
}

pub(super) fn start(via: Via, domain: usize, said: impl Said) -> u64 {
    let (range, id) = match via {
        Via::Table => {
            let range = ids::next_range();
            let tag = Session::current().map_or(0, Session::tag);
            (range, range.0.get() | u64::from(tag) << RANGE_BITS)
        }
        Via::Cupti { returned } => (cupti_range(returned), returned),
    };
    if let Some(session) = Session::current() {
        said.describe(names::domain(domain), |description| guard::start_process(session, range, description));
    }
    id
}

pub(super) fn end(via: Via, domain: usize, id: u64) {
    let Some(session) = Session::current() else { return };
    let range = match via {
        Via::Table if id >> RANGE_BITS == u64::from(session.tag()) => {
            RangeId::from_raw(id & ((1 << RANGE_BITS) - 1))
        }
        Via::Table => None,
        Via::Cupti { .. } => Some(cupti_range(id)),
    };
    match range {
        Some(range) => guard::end_process(session, range),
        None => log_unbalanced(session, names::domain(domain), true),
    }
}

fn cupti_range(id: u64) -> RangeId {
    RangeId(std::num::NonZeroU64::MIN | CUPTI_RANGES | id)
}

pub(super) fn push(domain: usize, said: impl Said) -> c_int {
    if is_own_emission() {
        return NOT_TRACKED;
    }
    let domain = names::domain(domain);
    if let Some(session) = Session::current() {
        said.describe(domain, |description| {
            begin_on_stack(session, RangeKind::Stack, stack::Owner::Domain(domain), description)
        });
    }
    depth(domain, |depth| {
        *depth += 1;
        *depth - 1
    })
}

pub(super) fn pop(domain: usize) -> c_int {
    if is_own_emission() {
        return NOT_TRACKED;
    }
    let domain = names::domain(domain);
    if let Some(session) = Session::current() {
        match stack::pop(session, domain) {
            Some(range) => end_on_stack(session, range),
            None => log_unbalanced(session, domain, false),
        }
    }
    depth(domain, |depth| {
        if *depth == 0 {
            return NOT_OPEN;
        }
        *depth -= 1;
        *depth
    })
}

fn log_unbalanced(session: Session, domain: u32, process: bool) {
    log(session, &Event::Unbalanced { domain, process, time: Stamp::now() });
}

/// Ranges that this crate emits for Nsight tools must not come back as NVTX ranges of the program.
#[inline]
fn is_own_emission() -> bool {
    #[cfg(feature = "nvtx")]
    return super::emit::emitting();
    #[cfg(not(feature = "nvtx"))]
    false
}

/// Changes how many pushes of this thread and domain are open. Counted apart from the stack of ranges, because it
/// goes on without a session and across sessions.
#[inline]
fn depth(domain: u32, change: impl FnOnce(&mut c_int) -> c_int) -> c_int {
    thread_local! {
        static DEPTHS: RefCell<Vec<c_int>> = const { RefCell::new(Vec::new()) };
    }
    let changed = DEPTHS.try_with(|depths| {
        let mut depths = depths.try_borrow_mut().ok()?;
        let at = domain as usize;
        if depths.len() <= at {
            depths.resize(at + 1, 0);
        }
        depths.get_mut(at).map(change)
    });
    changed.ok().flatten().unwrap_or(NOT_TRACKED)
}

pub(super) fn create_domain(via: Via, text: impl Text) -> usize {
    let own = text.read(names::create_domain);
    if let Via::Cupti { returned } = via {
        names::alias_domain(returned as usize, own); // CAST: a handle
    }
    own
}

pub(super) fn register_string(via: Via, text: impl Text) -> usize {
    let own = text.read(names::register_string);
    if let Via::Cupti { returned } = via {
        names::alias_string(returned as usize, own); // CAST: a handle
    }
    own
}

pub(super) fn name_category(domain: usize, category: u32, text: impl Text) {
    let what = Named::Category { domain: names::domain(domain), category };
    text.read(|text| names::name(what, text));
}

pub(super) fn name_thread(tid: u32, text: impl Text) {
    text.read(|text| names::name(Named::Thread { tid }, text));
}
