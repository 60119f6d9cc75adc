//! When devices and streams worked, and when they did not.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use rustc_hash::FxHashMap;

use crate::table::collection::Collection;

/// A device of the datasets: the same GPU in all of them is one.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct DeviceTime {
    /// Ordinal in the process.
    pub device: u32,
    /// Name of the GPU; none where the dataset does not have it.
    pub name: Option<String>,
    /// Unique id of the GPU; none where the dataset does not have it.
    pub uuid: Option<String>,
    /// The dataset, where the GPU has no unique id and there are several.
    pub dataset: Option<String>,
    /// All of it.
    pub busy: Busy,
    /// Its streams.
    pub streams: Vec<StreamTime>,
}

/// A stream of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StreamTime {
    /// CUPTI's id of the stream.
    pub stream: u32,
    /// CUPTI's id of its context.
    pub context: u32,
    /// The dataset, by its number in [`Digest::datasets`](super::Digest::datasets).
    pub dataset: usize,
    /// What it did.
    pub busy: Busy,
}

/// Kernels and transfers, and the time without any.
///
/// `span_ns` is `busy_ns` and `idle_ns` together: from the first start to the last end of each dataset. What lies between
/// two datasets, when none of them was recorded, is neither. Rows without valid times count as launches and transfers only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Busy {
    /// Kernel launches.
    pub launches: u64,
    /// Transfers.
    pub transfers: u64,
    /// From the first start to the last end; of several datasets, without the time between them.
    pub span_ns: i64,
    /// Time with at least one kernel or transfer.
    pub busy_ns: i64,
    /// Time without, inside of the span.
    pub idle_ns: i64,
    /// Gaps: how often it went idle and worked again later.
    pub gaps: u64,
    /// The longest gap.
    pub longest_gap_ns: i64,
}

/// What a stream of a dataset is known by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Queue {
    pub member: usize,
    pub device: u32,
    pub context: u32,
    pub stream: u32,
}

/// The time of one kernel or transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Span {
    pub start_ns: i64,
    pub end_ns: i64,
}

/// What a queue did in one row group.
pub(super) struct Piece {
    pub group: usize,
    pub launches: u64,
    pub transfers: u64,
    pub spans: Vec<Span>,
}

/// Takes spans in the order of their starts.
#[derive(Default)]
struct Sweep {
    /// First start, and last end so far.
    seen: Option<(i64, i64)>,
    /// Time between datasets.
    apart_ns: i64,
    busy: Busy,
}

impl Sweep {
    /// `is_recorded` tells whether some dataset has work before and after a time: a gap there is one of the device, and not
    /// the time between two datasets.
    fn take(&mut self, span: Span, is_recorded: impl Fn(i64) -> bool) {
        let Some((_, last)) = &mut self.seen else {
            self.seen = Some((span.start_ns, span.end_ns.max(span.start_ns)));
            return;
        };
        if span.start_ns > *last {
            let gap = span.start_ns.saturating_sub(*last);
            if is_recorded(*last) {
                self.busy.gaps += 1;
                self.busy.idle_ns = self.busy.idle_ns.saturating_add(gap);
                self.busy.longest_gap_ns = self.busy.longest_gap_ns.max(gap);
            } else {
                self.apart_ns = self.apart_ns.saturating_add(gap);
            }
        }
        *last = span.end_ns.max(*last);
    }

    fn finish(mut self, launches: u64, transfers: u64) -> Busy {
        if let Some((first, last)) = self.seen {
            self.busy.span_ns = last.saturating_sub(first).saturating_sub(self.apart_ns);
            self.busy.busy_ns = self.busy.span_ns.saturating_sub(self.busy.idle_ns);
        }
        Busy { launches, transfers, ..self.busy }
    }
}

/// Spans of a queue in their order, in as few pieces as they came.
struct Ordered {
    pieces: Vec<Vec<Span>>,
    launches: u64,
    transfers: u64,
}

impl Ordered {
    fn new(mut pieces: Vec<Piece>) -> Self {
        // Row groups of transfers have numbers of their own.
        pieces.sort_by_key(|piece| (piece.spans.first().map(|span| span.start_ns), piece.group));
        let (launches, transfers) = pieces.iter().fold((0, 0), |(launches, transfers), piece| {
            (launches + piece.launches, transfers + piece.transfers)
        });
        let mut pieces: Vec<Vec<Span>> =
            pieces.into_iter().map(|piece| piece.spans).filter(|spans| !spans.is_empty()).collect();
        for spans in &mut pieces {
            if !spans.is_sorted() {
                spans.sort_unstable();
            }
        }
        pieces.sort_by_key(|spans| spans.first().copied());
        Self { pieces, launches, transfers }
    }

    /// The spans of all pieces, in order.
    fn merged(&self) -> impl Iterator<Item = Span> + '_ {
        merged(self.pieces.iter().map(|spans| spans.iter().copied()))
    }
}

/// Merges what is in order. Mostly one source is far ahead of all others and is taken from for long.
fn merged(sources: impl Iterator<Item = impl Iterator<Item = Span>>) -> impl Iterator<Item = Span> {
    let mut sources: Vec<_> = sources.collect();
    let first = |(at, source): (usize, &mut _)| {
        let next: Option<Span> = Iterator::next(source);
        next.map(|span| Reverse((span, at)))
    };
    let mut heads: BinaryHeap<Reverse<(Span, usize)>> =
        sources.iter_mut().enumerate().filter_map(first).collect();
    std::iter::from_fn(move || {
        let mut head = heads.peek_mut()?;
        let Reverse((span, at)) = *head;
        match sources.get_mut(at).and_then(Iterator::next) {
            // The heap finds the new place when the borrow ends; mostly that is where it is.
            Some(next) => *head = Reverse((next, at)),
            None => drop(std::collections::binary_heap::PeekMut::pop(head)),
        }
        Some(span)
    })
}

/// First start and last end of each dataset's work on a device.
fn extents(queues: &[(Queue, Ordered)]) -> BTreeMap<usize, (i64, i64)> {
    let mut extents = BTreeMap::new();
    for (queue, ordered) in queues {
        for spans in &ordered.pieces {
            let first = spans.first().map_or(i64::MAX, |span| span.start_ns);
            let last = spans.iter().map(|span| span.end_ns).max().unwrap_or(i64::MIN);
            let (start, end) = extents.entry(queue.member).or_insert((first, last));
            (*start, *end) = (first.min(*start), last.max(*end));
        }
    }
    extents
}

/// Devices by unique id where there is one, and their streams.
pub(super) fn devices(collection: &Collection, queues: FxHashMap<Queue, Vec<Piece>>) -> Vec<DeviceTime> {
    let several = collection.members().len() > 1;
    // The first dataset that has the device, and its ordinal there.
    let mut devices: BTreeMap<(usize, u32), Vec<(Queue, Ordered)>> = BTreeMap::new();
    let mut by_uuid: FxHashMap<String, (usize, u32)> = FxHashMap::default();
    let mut queues: Vec<(Queue, Vec<Piece>)> = queues.into_iter().collect();
    queues.sort_by_key(|(queue, _)| *queue);
    for (queue, pieces) in queues {
        let own = (queue.member, queue.device);
        let uuid = collection.members().get(queue.member).and_then(|member| member.device(queue.device).1);
        let key = match uuid {
            Some(uuid) => *by_uuid.entry(uuid.to_owned()).or_insert(own),
            None => own,
        };
        devices.entry(key).or_default().push((queue, Ordered::new(pieces)));
    }
    let time = |((member, ordinal), queues): ((usize, u32), Vec<(Queue, Ordered)>)| {
        let found = collection.members().get(member);
        let (name, uuid) = found.map_or((None, None), |member| member.device(ordinal));
        let extents = extents(&queues);
        let is_recorded = |at: i64| extents.values().any(|(first, last)| *first <= at && at < *last);
        let sweep = |spans: &mut dyn Iterator<Item = Span>, launches, transfers| {
            let mut sweep = Sweep::default();
            spans.for_each(|span| sweep.take(span, is_recorded));
            sweep.finish(launches, transfers)
        };
        let streams: Vec<StreamTime> = queues
            .iter()
            .map(|(queue, ordered)| StreamTime {
                stream: queue.stream,
                context: queue.context,
                dataset: queue.member,
                busy: sweep(&mut ordered.merged(), ordered.launches, ordered.transfers),
            })
            .collect();
        let busy = match streams.as_slice() {
            [only] => only.busy,
            _ => {
                let (launches, transfers) = streams.iter().fold((0, 0), |(launches, transfers), stream| {
                    (launches + stream.busy.launches, transfers + stream.busy.transfers)
                });
                let pieces = queues.iter().flat_map(|(_, ordered)| &ordered.pieces);
                sweep(&mut merged(pieces.map(|spans| spans.iter().copied())), launches, transfers)
            }
        };
        DeviceTime {
            device: ordinal,
            name: name.map(str::to_owned),
            uuid: uuid.map(str::to_owned),
            dataset: (several && uuid.is_none())
                .then(|| found.map(|member| member.path.display().to_string()))
                .flatten(),
            busy,
            streams,
        }
    };
    devices.into_iter().map(time).collect()
}
