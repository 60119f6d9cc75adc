//! The events that an application thread logs; `wire` gives their form in memory and in files.
//!
//! Each event stands for itself: it carries the ids that it is about, so that losing one (a full ring) never
//! changes what another means.

use std::ops::Deref;

use crate::units::{CorrelationId, Nanos, ProcessEpoch, RangeId, SymbolId};

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
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) enum Payload {
    #[default]
    None,
    U64(u64),
    I64(i64),
    F64(f64),
}

/// A typed argument of a range.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Arg<'a> {
    /// What it is called.
    pub key: &'a str,
    /// Its value, with its type.
    pub value: ArgValue<'a>,
}

impl<'a> Arg<'a> {
    /// An argument from anything that has a type of its own on the wire: numbers, `bool`, text.
    #[inline]
    pub fn new(key: &'a str, value: impl Into<ArgValue<'a>>) -> Self {
        Self { key, value: value.into() }
    }
}

/// The value of a typed argument. Built with `From` from every integer up to 64 bits, floats, `bool` and text.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum ArgValue<'a> {
    /// An unsigned integer.
    U64(u64),
    /// A signed integer.
    I64(i64),
    /// A floating point number.
    F64(f64),
    /// A truth value.
    Bool(bool),
    /// Text.
    Str(&'a str),
}

macro_rules! arg_from {
    ($($variant:ident($wide:ty) from $($narrow:ty),+;)+) => {$($(
        impl From<$narrow> for ArgValue<'_> {
            #[inline]
            fn from(value: $narrow) -> Self {
                // CAST: widening; `usize` and `isize` have 64 bits on every platform that CUPTI exists for.
                Self::$variant(value as $wide)
            }
        }
    )+)+};
}

arg_from! {
    U64(u64) from u8, u16, u32, u64, usize;
    I64(i64) from i8, i16, i32, i64, isize;
    F64(f64) from f32, f64;
}

impl From<bool> for ArgValue<'_> {
    #[inline]
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl<'a> From<&'a str> for ArgValue<'a> {
    #[inline]
    fn from(value: &'a str) -> Self {
        Self::Str(value)
    }
}

impl<'a> From<&'a String> for ArgValue<'a> {
    #[inline]
    fn from(value: &'a String) -> Self {
        Self::Str(value)
    }
}

/// The arguments of a range: borrowed where the event is logged, so that logging allocates nothing; owned where
/// it is decoded. (`Cow` would make events invariant over their lifetime.)
#[derive(Clone, Debug)]
pub(crate) enum Args<'a> {
    Borrowed(&'a [Arg<'a>]),
    Owned(Vec<Arg<'a>>),
}

impl<'a> Deref for Args<'a> {
    type Target = [Arg<'a>];

    #[inline]
    fn deref(&self) -> &[Arg<'a>] {
        match self {
            Self::Borrowed(args) => args,
            Self::Owned(args) => args,
        }
    }
}

impl PartialEq for Args<'_> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

/// One event of one thread. Its time is a `Stamp` where the thread logs it, and host time once rings are drained.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Event<'a, Time = Nanos> {
    /// A driver call that launches work on the device is about to run (CUPTI callback, enter).
    Launch {
        correlation: CorrelationId,
        /// The innermost range of the thread.
        range: Option<RangeId>,
        /// Which process-wide ranges were open.
        epoch: ProcessEpoch,
        /// CUPTI's driver callback id of the call.
        cbid: u32,
        /// The launched function, if the call launches one.
        symbol: Option<SymbolId>,
        /// Whether what the call launches is recorded, unless it fails. Not known of recordings that say nothing of it.
        is_recorded: bool,
        time: Time,
    },
    /// A launching call has failed.
    LaunchFailed { correlation: CorrelationId },
    /// A stream capture has ended that the session did not see begin: what was launched until now may have been captured.
    UnseenCaptureEnded { time: Time },
    /// A driver call of the crate itself launches work (the flush of a cache): its records are not the program's.
    InternalLaunch { correlation: CorrelationId, time: Time },
    /// A range instance begins.
    Begin {
        range: RangeId,
        kind: RangeKind,
        /// The range that was innermost on the thread (or a span's explicit parent); none for a process range.
        parent: Option<RangeId>,
        /// The epoch that this began, for `RangeKind::Process`; else the present one.
        epoch: ProcessEpoch,
        /// NVTX domain: 0 is the default domain; others are named by `Event::Name`.
        domain: u32,
        category: u32,
        /// ARGB, if the event had a colour.
        color: Option<u32>,
        payload: Payload,
        time: Time,
        /// The name's bytes as the program gave them; UTF-8 for wide strings.
        name: &'a [u8],
        args: Args<'a>,
    },
    /// A range instance ends. `epoch` is the one that this began, for a process range only.
    ///
    /// The range may be unknown (its `Begin` was lost) or ended already (NVTX's end called twice): only the
    /// worker, which sees all threads, can tell.
    End { range: RangeId, epoch: Option<ProcessEpoch>, time: Time },
    /// Something instantaneous (`nvtxMark`).
    Mark {
        /// The innermost range of the thread.
        range: Option<RangeId>,
        domain: u32,
        category: u32,
        color: Option<u32>,
        payload: Payload,
        time: Time,
        name: &'a [u8],
    },
    /// A pop found no range of its domain that was pushed on its thread in the session, or an end named a
    /// range that was not started in the session.
    Unbalanced { domain: u32, process: bool, time: Time },
    /// A name for a number: an NVTX domain, a category of a domain, a thread, or a launched function.
    Name { what: Named, name: &'a [u8] },
}

/// What an `Event::Name` names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Named {
    Domain { domain: u32 },
    Category { domain: u32, category: u32 },
    Thread { tid: u32 },
    Symbol { symbol: SymbolId },
}
