//! For this crate's own integration tests and benches; not part of its API.

pub mod hostile;
mod measured;
mod recordings;

use std::ffi::CStr;

use crate::channel::{self, Event, Named, decode};
use crate::losses::Cause;
use crate::range;
use crate::units::CorrelationId;

pub use measured::{CountedRanges, Measured, write_counted, write_measured, write_measured_and_counted};
pub use recordings::{Enlarged, Ranges, Stage, enlarge, replay_up_to};

/// An event as a test sees it; what an event does not have is zero or empty.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// `launch`, `internal launch`, `push`, `start`, `own`, `end`, `mark`, `unbalanced`, `name`, or `damaged`.
    pub what: &'static str,
    /// The range that begins or ends, or that a launch or mark is in.
    pub range: u64,
    /// The parent of a range that begins.
    pub parent: u64,
    /// The NVTX domain.
    pub domain: u32,
    /// The category, or the number of a thread that is named.
    pub category: u32,
    /// ARGB.
    pub color: Option<u32>,
    /// The payload, as Rust writes it.
    pub payload: String,
    /// The name, lossily.
    pub name: String,
}

/// Begins a session without CUPTI, whose worker is the calling thread.
pub fn begin_session() {
    range::nvtx::keep();
    channel::begin_session(std::thread::current());
}

/// Ends it.
pub fn end_session() {
    channel::end_session();
}

/// Logs a launch as CUPTI's callback does.
#[inline]
pub fn launch(correlation: u32) {
    range::log_launch(CorrelationId(correlation), true, 307, 0, || b"");
}

/// Empties the rings without looking.
pub fn discard() {
    channel::drain(|_, _| {});
}

/// Empties the rings.
#[must_use]
pub fn drain() -> Vec<Seen> {
    let mut seen = Vec::new();
    channel::drain(|_, run| {
        seen.extend(decode(run).map(|event| event.map_or_else(|_| damaged(), |event| see(&event))))
    });
    seen
}

/// Every cause of loss: its name, and what it means.
#[must_use]
pub fn causes() -> Vec<(&'static str, &'static str)> {
    Cause::ALL.iter().map(|cause| (cause.name(), cause.meaning())).collect()
}

/// Events lost so far.
#[must_use]
pub fn dropped() -> u64 {
    let dropped = channel::dropped();
    dropped.launches + dropped.range_events
}

/// Whether the program's NVTX belongs to this crate's handler.
#[must_use]
pub fn nvtx_initialised() -> bool {
    range::nvtx::initialised()
}

/// The next time that CUPTI or NVTX calls this back, it panics inside: `buffer_requested`, `buffer_completed`, `api`, or
/// `nvtx`. Only in builds with debug assertions.
pub fn panic_in_callback(callback: &'static str) {
    crate::panics::panic_in(callback);
}

/// `nvtxRangePushA`, straight into the handler.
pub fn nvtx_push(name: &CStr) -> i32 {
    range::nvtx::push(name)
}

/// `nvtxRangePop`, straight into the handler.
pub fn nvtx_pop() -> i32 {
    range::nvtx::pop()
}

fn damaged() -> Seen {
    Seen { what: "damaged", ..Seen::default() }
}

fn see(event: &Event<'_>) -> Seen {
    let text = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
    let raw = |range: Option<crate::units::RangeId>| range.map_or(0, |range| range.0.get());
    match event {
        Event::Launch { range, .. } => Seen { what: "launch", range: raw(*range), ..Seen::default() },
        Event::LaunchFailed { .. } => Seen { what: "failed launch", ..Seen::default() },
        Event::UnseenCaptureEnded { .. } => Seen { what: "end of a capture", ..Seen::default() },
        Event::InternalLaunch { .. } => Seen { what: "internal launch", ..Seen::default() },
        Event::Begin { range, kind, parent, domain, category, color, payload, name, .. } => Seen {
            what: match kind {
                channel::RangeKind::Stack => "push",
                channel::RangeKind::Process => "start",
                channel::RangeKind::Own => "own",
            },
            range: range.0.get(),
            parent: raw(*parent),
            domain: *domain,
            category: *category,
            color: *color,
            payload: format!("{payload:?}"),
            name: text(name),
        },
        Event::End { range, .. } => Seen { what: "end", range: range.0.get(), ..Seen::default() },
        Event::Mark { range, domain, category, color, payload, name, .. } => Seen {
            what: "mark",
            range: raw(*range),
            domain: *domain,
            category: *category,
            color: *color,
            payload: format!("{payload:?}"),
            name: text(name),
            ..Seen::default()
        },
        Event::Unbalanced { domain, .. } => Seen { what: "unbalanced", domain: *domain, ..Seen::default() },
        Event::Name { what, name } => {
            let (domain, category) = match *what {
                Named::Domain { domain } => (domain, 0),
                Named::Category { domain, category } => (domain, category),
                Named::Thread { tid } => (0, tid),
                Named::Symbol { symbol } => (0, symbol.to_raw()),
            };
            Seen { what: "name", domain, category, name: text(name), ..Seen::default() }
        }
    }
}
