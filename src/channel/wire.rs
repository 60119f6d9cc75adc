//! The form of an event in a ring and in a recording: a record of little-endian 64-bit words.
//!
//! The first word is the header: its length in words (bits 0–31, itself included), the kind of event (32–39),
//! small fields of that kind (40–47), and the session's tag (48–63, only inside rings, else 0). The fields
//! follow, two 32-bit numbers to a word where they fit; text comes last, padded with zeros to a whole word. A
//! record holds no pointer, so a run of records means the same anywhere.
//!
//! Decoding trusts nothing: whatever the bytes are, it yields events or errors, and reads only what it was given.

use super::clock::{Stamp, Timeline};
use super::event::{Arg, ArgValue, Args, Event, Named, Payload, RangeKind};
use crate::error::{Error, ErrorKind, Result};
use crate::units::{CorrelationId, Nanos, ProcessEpoch, RangeId, SymbolId};

pub(super) const WORD_BYTES: usize = size_of::<u64>();

/// Kinds of record. Numbers are never reused: recordings outlive versions of this crate.
mod kind {
    pub const LAUNCH: u8 = 1;
    pub const BEGIN: u8 = 2;
    pub const END: u8 = 3;
    pub const MARK: u8 = 4;
    pub const UNBALANCED: u8 = 5;
    pub const NAME: u8 = 6;
    pub const INTERNAL_LAUNCH: u8 = 7;
    pub const LAUNCH_FAILED: u8 = 8;
    pub const UNSEEN_CAPTURE_ENDED: u8 = 9;
    /// Only inside rings: stands for a record that is too long for one.
    pub const SPILLED: u8 = 255;
}

/// The first word of a record.
#[derive(Clone, Copy)]
pub(super) struct Header {
    pub words: u32,
    pub kind: u8,
    /// Small fields, by kind.
    pub small: u8,
    /// The session that the record belongs to.
    pub tag: u16,
}

impl Header {
    /// The placeholder of a record that travels beside the ring.
    pub fn spilled(tag: u16) -> Self {
        Self { words: 1, kind: kind::SPILLED, small: 0, tag }
    }

    pub fn is_spilled(self) -> bool {
        self.kind == kind::SPILLED
    }

    #[inline]
    pub fn to_word(self) -> u64 {
        u64::from(self.words)
            | u64::from(self.kind) << 32
            | u64::from(self.small) << 40
            | u64::from(self.tag) << 48
    }

    #[inline]
    pub fn from_word(word: u64) -> Self {
        // CAST: each takes the bits that it was shifted to.
        Self {
            words: word as u32,
            kind: (word >> 32) as u8,
            small: (word >> 40) as u8,
            tag: (word >> 48) as u16,
        }
    }
}

/// The time of an event, as a word.
pub(super) trait Time: Copy {
    fn to_word(self) -> u64;
}

impl Time for Nanos {
    #[inline]
    fn to_word(self) -> u64 {
        self.0.cast_unsigned()
    }
}

impl Time for Stamp {
    #[inline]
    fn to_word(self) -> u64 {
        self.0
    }
}

/// Where the words of a record go.
pub(super) trait Sink {
    fn word(&mut self, word: u64);

    #[inline]
    fn bytes(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<WORD_BYTES>();
        for &word in words {
            self.word(u64::from_le_bytes(word));
        }
        if !rest.is_empty() {
            let mut word = [0; WORD_BYTES];
            word[..rest.len()].copy_from_slice(rest);
            self.word(u64::from_le_bytes(word));
        }
    }

    #[inline]
    fn pair(&mut self, low: u32, high: u32) {
        self.word(u64::from(low) | u64::from(high) << 32);
    }
}

impl Sink for Vec<u8> {
    #[inline]
    fn word(&mut self, word: u64) {
        self.extend_from_slice(&word.to_le_bytes());
    }
}

/// Turns the stamp in the record of an `Event<Stamp>` into a time, so that it becomes that of an `Event<Nanos>`.
pub(super) fn place_in_time(record: &mut [u8], timeline: &Timeline) {
    let (words, _) = record.as_chunks_mut::<WORD_BYTES>();
    let Some(header) = words.first() else { return };
    let word = time_word(Header::from_word(u64::from_le_bytes(*header)));
    if let Some(word) = word.and_then(|word| words.get_mut(word)) {
        *word = timeline.time(Stamp(u64::from_le_bytes(*word))).to_word().to_le_bytes();
    }
}

/// Which word of a record `body` puts the time into; none if it has no time.
fn time_word(header: Header) -> Option<usize> {
    let after_header = match header.kind {
        kind::LAUNCH => 3,
        kind::BEGIN if header.small & PLAIN != 0 => 2,
        kind::BEGIN => 5,
        kind::END if header.small & SHORT != 0 => 1,
        kind::END => 2,
        kind::MARK => 4,
        kind::UNBALANCED | kind::INTERNAL_LAUNCH => 1,
        kind::UNSEEN_CAPTURE_ENDED => 0,
        _ => return None,
    };
    Some(1 + after_header)
}

/// Counts words, so that the layout is written down only once.
struct Count(usize);

impl Sink for Count {
    #[inline]
    fn word(&mut self, _: u64) {
        self.0 += 1;
    }

    #[inline]
    fn bytes(&mut self, bytes: &[u8]) {
        self.0 += bytes.len().div_ceil(WORD_BYTES);
    }
}

/// The record's length in words.
#[inline]
pub(super) fn words<T: Time>(event: &Event<'_, T>) -> usize {
    let mut count = Count(1);
    body(event, &mut count);
    count.0
}

/// Writes the record of an event, whose length is `words(event)`. Allocates nothing by itself.
#[inline]
pub(super) fn encode<T: Time>(event: &Event<'_, T>, words: usize, tag: u16, sink: &mut impl Sink) {
    let (kind, small) = head(event);
    // CAST: a record's length is bounded by `MAX_EVENT_BYTES` before it is encoded.
    sink.word(Header { words: words as u32, kind, small, tag }.to_word());
    body(event, sink);
}

/// Appends an event to a run of records, as `drain` would deliver it.
pub(crate) fn append(event: &Event<'_>, run: &mut Vec<u8>) {
    encode(event, words(event), 0, run);
}

#[inline]
fn head<T: Time>(event: &Event<'_, T>) -> (u8, u8) {
    match event {
        Event::Launch { is_recorded, .. } => (kind::LAUNCH, u8::from(*is_recorded)),
        Event::LaunchFailed { .. } => (kind::LAUNCH_FAILED, 0),
        Event::UnseenCaptureEnded { .. } => (kind::UNSEEN_CAPTURE_ENDED, 0),
        Event::InternalLaunch { .. } => (kind::INTERNAL_LAUNCH, 0),
        Event::Begin { kind, payload, color, .. } => {
            let small = *kind as u8 | payload_kind(*payload) << 2 | u8::from(color.is_some()) << 4;
            (kind::BEGIN, if is_plain(event) { small | PLAIN } else { small })
        }
        Event::End { epoch: Some(_), .. } => (kind::END, 1),
        Event::End { epoch: None, .. } => (kind::END, SHORT),
        Event::Mark { payload, color, .. } => {
            (kind::MARK, payload_kind(*payload) << 2 | u8::from(color.is_some()) << 4)
        }
        Event::Unbalanced { process, .. } => (kind::UNBALANCED, u8::from(*process)),
        Event::Name { what: Named::Domain { .. }, .. } => (kind::NAME, 1),
        Event::Name { what: Named::Category { .. }, .. } => (kind::NAME, 2),
        Event::Name { what: Named::Thread { .. }, .. } => (kind::NAME, 3),
        Event::Name { what: Named::Symbol { .. }, .. } => (kind::NAME, 4),
    }
}

/// Set in the header of a beginning that has nothing but a name: its record is half as long as a full one, which
/// matters, because every cache line that is logged has to come back from the worker's core first.
const PLAIN: u8 = 0x20;

/// Set in the header of the end of a range that is not process-wide, and has no epoch.
const SHORT: u8 = 0x2;

#[inline]
fn is_plain<T: Time>(event: &Event<'_, T>) -> bool {
    match event {
        Event::Begin { domain: 0, category: 0, color: None, payload: Payload::None, args, .. } => {
            args.is_empty()
        }
        _ => false,
    }
}

#[inline]
fn body<T: Time>(event: &Event<'_, T>, sink: &mut impl Sink) {
    match event {
        Event::Begin { range, parent, epoch, time, name, .. } if is_plain(event) => {
            sink.word(range.0.get());
            sink.word(raw(*parent));
            sink.word(time.to_word());
            sink.pair(epoch.0, len32(name));
            sink.bytes(name);
        }
        Event::Launch { correlation, range, epoch, cbid, symbol, is_recorded: _, time } => {
            sink.word(raw(*range));
            sink.pair(correlation.0, *cbid);
            sink.pair(epoch.0, symbol.map_or(0, SymbolId::to_raw));
            sink.word(time.to_word());
        }
        Event::LaunchFailed { correlation } => sink.pair(correlation.0, 0),
        Event::UnseenCaptureEnded { time } => sink.word(time.to_word()),
        Event::InternalLaunch { correlation, time } => {
            sink.pair(correlation.0, 0);
            sink.word(time.to_word());
        }
        Event::Begin {
            range,
            kind: _,
            parent,
            epoch,
            domain,
            category,
            color,
            payload,
            time,
            name,
            args,
        } => {
            sink.word(range.0.get());
            sink.word(raw(*parent));
            sink.pair(epoch.0, *domain);
            sink.pair(*category, color.unwrap_or(0));
            sink.word(payload_bits(*payload));
            sink.word(time.to_word());
            sink.pair(len32(name), args.len() as u32); // CAST: see `encode`
            sink.bytes(name);
            for arg in args.iter() {
                put_arg(arg, sink);
            }
        }
        Event::End { range, epoch, time } => {
            sink.word(range.0.get());
            if let Some(epoch) = epoch {
                sink.pair(epoch.0, 0);
            }
            sink.word(time.to_word());
        }
        Event::Mark { range, domain, category, color, payload, time, name } => {
            sink.word(raw(*range));
            sink.pair(*domain, *category);
            sink.pair(color.unwrap_or(0), len32(name));
            sink.word(payload_bits(*payload));
            sink.word(time.to_word());
            sink.bytes(name);
        }
        Event::Unbalanced { domain, process: _, time } => {
            sink.pair(*domain, 0);
            sink.word(time.to_word());
        }
        Event::Name { what, name } => {
            match *what {
                Named::Domain { domain } => sink.pair(domain, 0),
                Named::Category { domain, category } => sink.pair(domain, category),
                Named::Thread { tid } => sink.pair(tid, 0),
                Named::Symbol { symbol } => sink.pair(symbol.to_raw(), 0),
            }
            sink.pair(len32(name), 0);
            sink.bytes(name);
        }
    }
}

#[inline]
fn raw(range: Option<RangeId>) -> u64 {
    range.map_or(0, |range| range.0.get())
}

#[inline]
fn len32(text: &[u8]) -> u32 {
    text.len() as u32 // CAST: see `encode`
}

#[inline]
fn payload_kind(payload: Payload) -> u8 {
    match payload {
        Payload::None => 0,
        Payload::U64(_) => 1,
        Payload::I64(_) => 2,
        Payload::F64(_) => 3,
    }
}

#[inline]
fn payload_bits(payload: Payload) -> u64 {
    match payload {
        Payload::None => 0,
        Payload::U64(value) => value,
        Payload::I64(value) => value.cast_unsigned(),
        Payload::F64(value) => value.to_bits(),
    }
}

fn put_arg(arg: &Arg<'_>, sink: &mut impl Sink) {
    let (tag, value) = match arg.value {
        ArgValue::U64(value) => (0, value),
        ArgValue::I64(value) => (1, value.cast_unsigned()),
        ArgValue::F64(value) => (2, value.to_bits()),
        ArgValue::Bool(value) => (3, u64::from(value)),
        ArgValue::Str(text) => (4, text.len() as u64),
    };
    sink.pair(len32(arg.key.as_bytes()), tag);
    sink.word(value);
    sink.bytes(arg.key.as_bytes());
    if let ArgValue::Str(text) = arg.value {
        sink.bytes(text.as_bytes());
    }
}

/// The events in a run of records.
///
/// A record that is damaged inside, or of a kind that this version does not know, is one error, and the next
/// record follows; a damaged length is one error and the end.
pub(crate) fn decode(run: &[u8]) -> impl Iterator<Item = Result<Event<'_>>> {
    Records { rest: run }
}

struct Records<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Event<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let run = std::mem::take(&mut self.rest);
        let Some((header, after_header)) = run.split_first_chunk::<WORD_BYTES>() else {
            return Some(Err(damaged("a run of events ends inside a record's header")));
        };
        let header = Header::from_word(u64::from_le_bytes(*header));
        let body_bytes = (header.words as usize).checked_sub(1).map(|words| words * WORD_BYTES);
        let Some((body, rest)) = body_bytes.and_then(|bytes| after_header.split_at_checked(bytes)) else {
            return Some(Err(damaged("an event's length is zero or reaches beyond its run")));
        };
        self.rest = rest;
        Some(
            event(header, Fields { rest: body })
                .ok_or_else(|| damaged("an event of unknown kind or content")),
        )
    }
}

fn damaged(what: &str) -> Error {
    Error::new(ErrorKind::Format, what)
}

/// Reads the fields of one record, never beyond it.
struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    fn word(&mut self) -> Option<u64> {
        let (word, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(u64::from_le_bytes(*word))
    }

    fn pair(&mut self) -> Option<(u32, u32)> {
        let word = self.word()?;
        Some((word as u32, (word >> 32) as u32)) // CAST: the halves of a word
    }

    fn time(&mut self) -> Option<Nanos> {
        self.word().map(|word| Nanos(word.cast_signed()))
    }

    fn bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let (padded, rest) = self.rest.split_at_checked(len.checked_next_multiple_of(WORD_BYTES)?)?;
        self.rest = rest;
        padded.get(..len)
    }

    fn text(&mut self, len: usize) -> Option<&'a str> {
        str::from_utf8(self.bytes(len)?).ok()
    }

    fn arg(&mut self) -> Option<Arg<'a>> {
        let (key_len, tag) = self.pair()?;
        let value = self.word()?;
        let key = self.text(key_len as usize)?;
        let value = match tag {
            0 => ArgValue::U64(value),
            1 => ArgValue::I64(value.cast_signed()),
            2 => ArgValue::F64(f64::from_bits(value)),
            3 => ArgValue::Bool(value != 0),
            4 => ArgValue::Str(self.text(usize::try_from(value).ok()?)?),
            _ => return None,
        };
        Some(Arg { key, value })
    }
}

fn event<'a>(header: Header, mut fields: Fields<'a>) -> Option<Event<'a>> {
    let f = &mut fields;
    let color_given = header.small & 0x10 != 0;
    Some(match header.kind {
        kind::LAUNCH => {
            let range = RangeId::from_raw(f.word()?);
            let (correlation, cbid) = f.pair()?;
            let (epoch, symbol) = f.pair()?;
            Event::Launch {
                correlation: CorrelationId(correlation),
                range,
                epoch: ProcessEpoch(epoch),
                cbid,
                symbol: SymbolId::from_raw(symbol),
                is_recorded: header.small & 1 != 0,
                time: f.time()?,
            }
        }
        kind::LAUNCH_FAILED => {
            let (correlation, _) = f.pair()?;
            Event::LaunchFailed { correlation: CorrelationId(correlation) }
        }
        kind::UNSEEN_CAPTURE_ENDED => Event::UnseenCaptureEnded { time: f.time()? },
        kind::INTERNAL_LAUNCH => {
            let (correlation, _) = f.pair()?;
            Event::InternalLaunch { correlation: CorrelationId(correlation), time: f.time()? }
        }
        kind::BEGIN if header.small & PLAIN != 0 => {
            let range = RangeId::from_raw(f.word()?)?;
            let parent = RangeId::from_raw(f.word()?);
            let time = f.time()?;
            let (epoch, name_len) = f.pair()?;
            Event::Begin {
                range,
                kind: range_kind(header.small)?,
                parent,
                epoch: ProcessEpoch(epoch),
                domain: 0,
                category: 0,
                color: None,
                payload: Payload::None,
                time,
                name: f.bytes(name_len as usize)?,
                args: Args::Owned(Vec::new()),
            }
        }
        kind::BEGIN => {
            let range = RangeId::from_raw(f.word()?)?;
            let parent = RangeId::from_raw(f.word()?);
            let (epoch, domain) = f.pair()?;
            let (category, color) = f.pair()?;
            let payload = payload(header.small, f.word()?);
            let time = f.time()?;
            let (name_len, arg_count) = f.pair()?;
            let name = f.bytes(name_len as usize)?;
            let args = (0..arg_count).map(|_| f.arg()).collect::<Option<Vec<_>>>()?;
            Event::Begin {
                range,
                kind: range_kind(header.small)?,
                parent,
                epoch: ProcessEpoch(epoch),
                domain,
                category,
                color: color_given.then_some(color),
                payload,
                time,
                name,
                args: Args::Owned(args),
            }
        }
        kind::END => {
            let range = RangeId::from_raw(f.word()?)?;
            let epoch = if header.small & SHORT != 0 { 0 } else { f.pair()?.0 };
            let epoch = (header.small & 1 != 0).then_some(ProcessEpoch(epoch));
            Event::End { range, epoch, time: f.time()? }
        }
        kind::MARK => {
            let range = RangeId::from_raw(f.word()?);
            let (domain, category) = f.pair()?;
            let (color, name_len) = f.pair()?;
            let payload = payload(header.small, f.word()?);
            let time = f.time()?;
            let name = f.bytes(name_len as usize)?;
            Event::Mark { range, domain, category, color: color_given.then_some(color), payload, time, name }
        }
        kind::UNBALANCED => {
            let (domain, _) = f.pair()?;
            Event::Unbalanced { domain, process: header.small != 0, time: f.time()? }
        }
        kind::NAME => {
            let (first, second) = f.pair()?;
            let what = match header.small {
                1 => Named::Domain { domain: first },
                2 => Named::Category { domain: first, category: second },
                3 => Named::Thread { tid: first },
                4 => Named::Symbol { symbol: SymbolId::from_raw(first)? },
                _ => return None,
            };
            let (name_len, _) = f.pair()?;
            Event::Name { what, name: f.bytes(name_len as usize)? }
        }
        _ => return None,
    })
}

fn range_kind(small: u8) -> Option<RangeKind> {
    match small & 0b11 {
        1 => Some(RangeKind::Stack),
        2 => Some(RangeKind::Process),
        3 => Some(RangeKind::Own),
        _ => None,
    }
}

fn payload(small: u8, bits: u64) -> Payload {
    match small >> 2 & 0b11 {
        1 => Payload::U64(bits),
        2 => Payload::I64(bits.cast_signed()),
        3 => Payload::F64(f64::from_bits(bits)),
        _ => Payload::None,
    }
}
