//! The events that an application thread logs, and their form on the wire.
//!
//! Each event stands for itself: it carries the ids that it is about, so that losing one (a full ring) never
//! changes what another means.

use crate::units::{CorrelationId, Nanos, ProcessEpoch, RangeId};

/// How a range is bounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub(crate) enum RangeKind {
    /// NVTX push/pop: a stack per thread and domain.
    Stack = 1,
    /// NVTX start/end, or `cuprof::process_range`: open for the whole process, may overlap arbitrarily.
    Process = 2,
    /// `cuprof::range!` and spans of the `tracing` layer.
    Own = 3,
}

/// The numeric payload of an NVTX event.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Payload {
    None,
    U64(u64),
    I64(i64),
    F64(f64),
}

/// A typed argument of a range.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Arg<'a> {
    pub key: &'a str,
    pub value: ArgValue<'a>,
}

/// The value of a typed argument.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum ArgValue<'a> {
    U64(u64),
    I64(i64),
    F64(f64),
    Bool(bool),
    Str(&'a str),
}

/// One event of one thread.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Event<'a> {
    /// A driver call that launches work on the device is about to run (CUPTI callback, enter).
    Launch {
        correlation: CorrelationId,
        /// The innermost range of the thread.
        range: Option<RangeId>,
        /// Which process-wide ranges were open.
        epoch: ProcessEpoch,
        /// CUPTI's driver callback id of the call.
        cbid: u32,
        time: Nanos,
    },
    /// A range instance begins.
    Begin {
        range: RangeId,
        kind: RangeKind,
        parent: Option<RangeId>,
        /// The epoch that this began, for `RangeKind::Process`; else the present one.
        epoch: ProcessEpoch,
        /// NVTX domain: 0 is the default domain; others are named by `Event::Name`.
        domain: u32,
        category: u32,
        /// ARGB, if the event had a colour.
        color: Option<u32>,
        payload: Payload,
        time: Nanos,
        /// The name's bytes as the program gave them; UTF-8 for wide strings.
        name: &'a [u8],
        args: Vec<Arg<'a>>,
    },
    /// A range instance ends. `epoch` is the one that this began, for a process range.
    End { range: RangeId, epoch: ProcessEpoch, time: Nanos },
    /// Something instantaneous (`nvtxMark`).
    Mark {
        range: Option<RangeId>,
        domain: u32,
        category: u32,
        color: Option<u32>,
        payload: Payload,
        time: Nanos,
        name: &'a [u8],
    },
    /// A pop found no open range of its domain on its thread, or an end named a range that is not open.
    Unbalanced { domain: u32, process: bool, time: Nanos },
    /// A name for a number: an NVTX domain, a category of a domain, or a thread.
    Name { what: Named, name: &'a [u8] },
}

/// What an `Event::Name` names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Named {
    Domain { domain: u32 },
    Category { domain: u32, category: u32 },
    Thread { tid: u32 },
}
