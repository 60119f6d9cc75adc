//! Large recordings made of small ones, and replays that stop half way.

use std::hint::black_box;
use std::path::Path;

use cupti_sys::layout::{self, Field};
use cupti_sys::{LibraryVersion, kind};

use crate::capture::{Frame, Place, Reader, Strings, Writer};
use crate::channel::{self, Args, Event, Payload, RangeKind};
use crate::error::{Error, ErrorKind, Result};
use crate::record::{Decoder, Record};
use crate::table::rows::{
    ApiRow, EnvRow, LaunchRow, LossRow, MarkRow, MemoryRow, OverheadRow, RangeRow, RangeSetRow,
    SynchronizationRow, TransferRow,
};
use crate::table::writer::TableSink;
use crate::trace::{self, Pipeline};
use crate::units::{CorrelationId, Nanos, ProcessEpoch, RangeId, ThreadId};

/// Which ranges the launches of an enlarged recording are in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ranges {
    /// Those of the recording.
    Recorded,
    /// Kernels only, this many in each range.
    Every(u64),
}

/// What an enlarged recording holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Enlarged {
    /// Kernel records.
    pub kernels: u64,
    /// Records of all kinds.
    pub records: u64,
    /// Events of all kinds.
    pub events: u64,
}

/// The size of the buffers that a session hands to CUPTI.
const BUFFER_BYTES: usize = crate::buffer::BLOCK_BYTES;

/// How much a busy thread logs between two visits of the worker.
const RUN_BYTES: usize = 128 << 10;

/// The tick of the device's clock.
const TICK_NS: u64 = 32;

/// Repeats a recording until it has this many kernels, with fresh ids and later times each time, in buffers and runs
/// as full as those of a busy session. Times waver a little, since what repeats exactly compresses too well.
///
/// # Errors
/// What reading and writing recordings can fail with.
pub fn enlarge(recording: &Path, ranges: Ranges, kernels: u64, to: &Path) -> Result<Enlarged> {
    let template = Template::read(recording)?;
    let mut copy = Copier::new(&template, Writer::begin(Place::find(to, true)?)?);
    copy.writer.write(&template.start);
    while copy.made.kernels < kernels {
        match ranges {
            Ranges::Recorded => copy.once(),
            Ranges::Every(launches) => copy.kernels_only(launches),
        }
    }
    copy.finish()
}

/// A recording taken apart.
struct Template {
    start: Frame<'static>,
    runs: Vec<(ThreadId, Option<String>, Vec<u8>)>,
    /// Records with their kinds.
    records: Vec<(Record, Vec<u8>)>,
    strings: Strings,
    /// The ids of ranges, in order. A thread takes many ids at once, and copies have no use for the gaps.
    ranges: Vec<RangeId>,
    /// What to add per copy.
    step: Step,
}

/// How far the ids and times of one copy lie from those of the one before.
#[derive(Clone, Copy, Default)]
struct Step {
    correlation: u32,
    range: u64,
    epoch: u32,
    ns: i64,
}

impl Template {
    fn read(path: &Path) -> Result<Self> {
        let empty = || Error::new(ErrorKind::Format, "a recording without a beginning or without kernels");
        let mut reader = Reader::open(path)?;
        let Some(Frame::Start { cupti_version, time, epoch, facts }) = reader.next()? else {
            return Err(empty());
        };
        let start = Frame::Start { cupti_version, time, epoch, facts };
        let version = LibraryVersion::from_api(cupti_version);
        let decoder = Decoder::new(version);
        let mut template = Self {
            start,
            runs: Vec::new(),
            records: Vec::new(),
            strings: Strings::default(),
            ranges: Vec::new(),
            step: Step::default(),
        };
        let mut last = time;
        while let Some(frame) = reader.next()? {
            match frame {
                Frame::Events { thread, name, bytes } => {
                    template.runs.push((thread, name, bytes.into_owned()));
                }
                Frame::Buffer { bytes, offsets, strings, received, .. } => {
                    last = last.max(received);
                    for (pointer, text) in strings.pointers {
                        if template.strings.pointers.iter().all(|(known, _)| *known != pointer) {
                            template.strings.pointers.push((pointer, text));
                        }
                    }
                    template.strings.calls.extend(strings.calls);
                    for offset in offsets {
                        let record = decoder.decode(&bytes, offset);
                        let rest = bytes.get(offset as usize..).unwrap_or_default();
                        let kind = rest.first_chunk().map_or(0, |kind| u32::from_ne_bytes(*kind));
                        let size = layout::record_size(kind, version).unwrap_or(0) as usize;
                        template.records.push((record, rest.get(..size).unwrap_or_default().to_vec()));
                    }
                }
                Frame::End { time } => last = last.max(time),
                _ => {}
            }
        }
        if !template.records.iter().any(|(record, _)| matches!(record, Record::Kernel(_))) {
            return Err(empty());
        }
        let begun = |event| if let Event::Begin { range, .. } = event { Some(range) } else { None };
        let mut ranges: Vec<RangeId> = template.events().filter_map(begun).collect();
        ranges.sort_unstable();
        template.step = Step {
            correlation: template.highest_correlation(),
            range: ranges.len() as u64,
            epoch: template.highest_epoch().saturating_sub(epoch),
            ns: last.0 - time.0,
        };
        template.ranges = ranges;
        Ok(template)
    }

    fn events(&self) -> impl Iterator<Item = Event<'_>> {
        self.runs.iter().flat_map(|(_, _, run)| channel::decode(run).flatten())
    }

    fn highest_epoch(&self) -> u32 {
        let epochs = self.events().map(|event| match event {
            Event::Begin { epoch, .. } | Event::End { epoch: Some(epoch), .. } => epoch.0,
            _ => 0,
        });
        epochs.max().unwrap_or(0)
    }

    fn highest_correlation(&self) -> u32 {
        let called = self.events().map(|event| match event {
            Event::Launch { correlation, .. } | Event::InternalLaunch { correlation, .. } => correlation.0,
            _ => 0,
        });
        let recorded = self
            .records
            .iter()
            .map(|(_, bytes)| Kept::of(bytes).map_or(0, |kept| get_u32(bytes, kept.correlation)));
        called.chain(recorded).max().unwrap_or(0)
    }
}

/// Where a record keeps what changes from copy to copy.
struct Kept {
    start: Field,
    end: Field,
    correlation: Field,
}

impl Kept {
    fn of(record: &[u8]) -> Option<Self> {
        use layout::{api, kernel, memcpy, memcpy_peer, memset, overhead, synchronization};
        macro_rules! kept {
            ($at:ident) => {
                Some(Self { start: $at::START, end: $at::END, correlation: $at::CORRELATION_ID })
            };
        }
        match get_u32(record, layout::KIND) {
            kind::KERNEL | kind::CONCURRENT_KERNEL => kept!(kernel),
            kind::MEMCPY => kept!(memcpy),
            kind::MEMCPY2 => kept!(memcpy_peer),
            kind::MEMSET => kept!(memset),
            kind::OVERHEAD => kept!(overhead),
            kind::DRIVER | kind::RUNTIME => kept!(api),
            kind::SYNCHRONIZATION => kept!(synchronization),
            _ => None,
        }
    }
}

fn get<const N: usize>(bytes: &[u8], field: Field) -> Option<[u8; N]> {
    bytes.get(usize::from(field.offset)..)?.first_chunk().copied()
}

fn get_u32(bytes: &[u8], field: Field) -> u32 {
    get(bytes, field).map_or(0, u32::from_ne_bytes)
}

fn get_u64(bytes: &[u8], field: Field) -> u64 {
    get(bytes, field).map_or(0, u64::from_ne_bytes)
}

fn put(bytes: &mut [u8], field: Field, value: &[u8]) {
    if let Some(place) = bytes.get_mut(usize::from(field.offset)..usize::from(field.offset) + value.len()) {
        place.copy_from_slice(value);
    }
}

/// Writes copies of a template.
struct Copier<'a> {
    template: &'a Template,
    writer: Writer,
    /// How far the present copy lies from the template.
    shift: Step,
    random: Random,
    runs: Vec<(ThreadId, Option<String>, Vec<u8>)>,
    buffer: Vec<u8>,
    offsets: Vec<u32>,
    last: Nanos,
    made: Enlarged,
    /// Of the ranges that are made up.
    open: Option<(RangeId, u64)>,
    next_range: u64,
}

impl<'a> Copier<'a> {
    fn new(template: &'a Template, writer: Writer) -> Self {
        Self {
            template,
            writer,
            shift: Step::default(),
            random: Random(1),
            runs: Vec::new(),
            buffer: Vec::new(),
            offsets: Vec::new(),
            last: Nanos(0),
            made: Enlarged::default(),
            open: None,
            next_range: 1,
        }
    }

    /// One copy, as it was recorded.
    fn once(&mut self) {
        let template = self.template;
        for (thread, name, run) in &template.runs {
            for event in channel::decode(run).flatten() {
                if self.wants(&event) {
                    let event = self.shifted(event);
                    self.event(*thread, name.as_deref(), &event);
                }
            }
        }
        for (_, bytes) in &template.records {
            self.record(bytes);
        }
        self.next_copy();
    }

    /// One copy of the kernels and of the calls that launched them, with ranges of so many launches.
    fn kernels_only(&mut self, launches: u64) {
        let template = self.template;
        for (thread, name, run) in &template.runs {
            for event in channel::decode(run).flatten() {
                let launched =
                    |record: &Record, id| matches!(record, Record::Kernel(k) if k.common.correlation == id);
                match event {
                    Event::Name { .. } if self.wants(&event) => {
                        self.event(*thread, name.as_deref(), &event);
                    }
                    Event::Launch { correlation, time, .. }
                        if template.records.iter().any(|(record, _)| launched(record, correlation)) =>
                    {
                        let time = Nanos(time.0 + self.shift.ns);
                        let range = Some(self.range_at(*thread, time, launches));
                        let event = match self.shifted(event) {
                            Event::Launch { correlation, cbid, symbol, is_recorded, time, .. } => {
                                let epoch = ProcessEpoch(0);
                                Event::Launch { correlation, range, epoch, cbid, symbol, is_recorded, time }
                            }
                            other => other,
                        };
                        self.event(*thread, name.as_deref(), &event);
                    }
                    _ => {}
                }
            }
        }
        for (record, bytes) in &template.records {
            if matches!(record, Record::Kernel(_)) {
                self.record(bytes);
            }
        }
        self.next_copy();
    }

    /// Names are told once.
    fn wants(&self, event: &Event<'_>) -> bool {
        self.shift.ns == 0 || !matches!(event, Event::Name { .. })
    }

    fn range_at(&mut self, thread: ThreadId, time: Nanos, launches: u64) -> RangeId {
        if let Some((range, count)) = &mut self.open
            && *count < launches
        {
            *count += 1;
            return *range;
        }
        self.end_range(thread, time);
        let range = RangeId::from_raw(self.next_range).unwrap_or(RangeId(std::num::NonZeroU64::MIN));
        self.next_range += 1;
        let begin = Event::Begin {
            range,
            kind: RangeKind::Own,
            parent: None,
            epoch: ProcessEpoch(0),
            domain: 0,
            category: 0,
            color: None,
            payload: Payload::None,
            time,
            name: b"step",
            args: Args::Owned(Vec::new()),
        };
        self.event(thread, None, &begin);
        self.open = Some((range, 1));
        range
    }

    fn end_range(&mut self, thread: ThreadId, time: Nanos) {
        if let Some((range, _)) = self.open.take() {
            self.event(thread, None, &Event::End { range, epoch: None, time });
        }
    }

    fn next_copy(&mut self) {
        let step = self.template.step;
        self.shift.correlation = self.shift.correlation.wrapping_add(step.correlation);
        self.shift.range += step.range;
        self.shift.epoch = self.shift.epoch.wrapping_add(step.epoch);
        self.shift.ns += step.ns;
    }

    fn shifted<'e>(&mut self, mut event: Event<'e>) -> Event<'e> {
        let later = self.random.below(400).cast_signed();
        let shift = self.shift;
        let ranges = &self.template.ranges;
        let moved = |range: &mut RangeId| {
            let index = ranges.binary_search(range).unwrap_or_default() as u64;
            *range = RangeId::from_raw(shift.range + index + 1).unwrap_or(*range);
        };
        match &mut event {
            Event::Launch { correlation, range, epoch, time, .. } => {
                *correlation = CorrelationId(correlation.0.wrapping_add(shift.correlation));
                range.as_mut().map(moved);
                epoch.0 = epoch.0.wrapping_add(shift.epoch);
                time.0 += shift.ns + later;
            }
            Event::LaunchFailed { correlation } => {
                *correlation = CorrelationId(correlation.0.wrapping_add(shift.correlation));
            }
            Event::UnseenCaptureEnded { time } => time.0 += shift.ns + later,
            Event::InternalLaunch { correlation, time } => {
                *correlation = CorrelationId(correlation.0.wrapping_add(shift.correlation));
                time.0 += shift.ns + later;
            }
            Event::Begin { range, parent, epoch, time, .. } => {
                moved(range);
                parent.as_mut().map(moved);
                epoch.0 = epoch.0.wrapping_add(shift.epoch);
                time.0 += shift.ns;
            }
            Event::End { range, epoch, time } => {
                moved(range);
                if let Some(epoch) = epoch {
                    epoch.0 = epoch.0.wrapping_add(shift.epoch);
                }
                time.0 += shift.ns;
            }
            Event::Mark { range, time, .. } => {
                range.as_mut().map(moved);
                time.0 += shift.ns;
            }
            Event::Unbalanced { time, .. } => time.0 += shift.ns,
            Event::Name { .. } => {}
        }
        event
    }

    fn event(&mut self, thread: ThreadId, name: Option<&str>, event: &Event<'_>) {
        self.made.events += 1;
        let at = self.runs.iter().position(|(other, ..)| *other == thread).unwrap_or_else(|| {
            self.runs.push((thread, name.map(str::to_owned), Vec::new()));
            self.runs.len() - 1
        });
        channel::append(event, &mut self.runs[at].2);
        if self.runs[at].2.len() >= RUN_BYTES {
            self.write_runs();
        }
    }

    fn record(&mut self, bytes: &[u8]) {
        if self.buffer.len() + bytes.len() > BUFFER_BYTES {
            self.write_buffer();
        }
        self.offsets.push(self.buffer.len() as u32); // CAST: below BUFFER_BYTES
        let at = self.buffer.len();
        self.buffer.extend_from_slice(bytes);
        self.made.records += 1;
        let Some(kept) = Kept::of(bytes) else { return };
        let (start, end) = (get_u64(bytes, kept.start), get_u64(bytes, kept.end));
        let record = &mut self.buffer[at..];
        let correlation = get_u32(record, kept.correlation);
        if correlation != 0 {
            let correlation = correlation.wrapping_add(self.shift.correlation);
            put(record, kept.correlation, &correlation.to_ne_bytes());
        }
        let kind = get_u32(record, layout::KIND);
        let is_kernel = matches!(kind, kind::KERNEL | kind::CONCURRENT_KERNEL);
        if start != 0 || end != 0 {
            // A start wavers by up to a microsecond, a duration by some 3 %.
            let duration = end.saturating_sub(start);
            let shift = self.shift.ns.cast_unsigned();
            let start = start + shift + self.random.below(32) * TICK_NS;
            let end = start + duration + self.random.below(duration / 32 / TICK_NS + 2) * TICK_NS;
            put(record, kept.start, &start.to_ne_bytes());
            put(record, kept.end, &end.to_ne_bytes());
            if is_kernel {
                put(record, layout::kernel::COMPLETED, &end.to_ne_bytes());
            }
            self.last.0 = self.last.0.max(end.cast_signed());
        }
        if is_kernel {
            self.made.kernels += 1;
            put(record, layout::kernel::GRID_ID, &self.made.kernels.to_ne_bytes());
        }
    }

    fn write_runs(&mut self) {
        for (thread, name, run) in &mut self.runs {
            if !run.is_empty() {
                let frame =
                    Frame::Events { thread: *thread, name: name.clone(), bytes: std::mem::take(run).into() };
                self.writer.write(&frame);
            }
        }
    }

    /// The events first: a call is logged before its record can be in a full buffer.
    fn write_buffer(&mut self) {
        self.write_runs();
        self.writer.write(&Frame::Buffer {
            received: self.last,
            bytes: std::mem::take(&mut self.buffer).into(),
            offsets: std::mem::take(&mut self.offsets),
            complete: true,
            strings: self.template.strings.clone(),
        });
    }

    fn finish(mut self) -> Result<Enlarged> {
        if let Some((thread, ..)) = self.runs.first() {
            self.end_range(*thread, self.last);
        }
        self.write_buffer();
        self.writer.write(&Frame::End { time: self.last });
        match self.writer.close() {
            (0, None) => Ok(self.made),
            (_, error) => Err(error.unwrap_or(Error::new(ErrorKind::Io, "frames could not be written"))),
        }
    }
}

/// Splitmix64: the same recording every time.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
}

/// How far a replay goes. What follows after these, [`crate::Replay`] does: the summary, then the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Frames are read and unpacked.
    Read,
    /// Records and events are decoded.
    Decode,
    /// Rows are made, and thrown away.
    Attribute,
}

/// Replays a recording up to a stage. Returns how many frames, decoded things, or rows there were.
///
/// # Errors
/// What reading a recording can fail with.
pub fn replay_up_to(stage: Stage, recording: &Path) -> Result<u64> {
    let mut reader = Reader::open(recording)?;
    let Some(Frame::Start { cupti_version, time, epoch, .. }) = reader.next()? else { return Ok(0) };
    let version = LibraryVersion::from_api(cupti_version);
    let decoder = Decoder::new(version);
    let start = trace::Start { version, time, epoch: ProcessEpoch(epoch) };
    let mut pipeline = Pipeline::new(start, Nowhere::default());
    let mut count = 0;
    while let Some(frame) = reader.next()? {
        match (stage, frame) {
            (Stage::Read, frame) => {
                black_box(frame);
                count += 1;
            }
            (Stage::Decode, Frame::Events { bytes, .. }) => {
                count += channel::decode(&bytes).map(|event| drop(black_box(event))).count() as u64;
            }
            (Stage::Decode, Frame::Buffer { bytes, offsets, .. }) => {
                for offset in &offsets {
                    black_box(decoder.decode(&bytes, *offset));
                }
                count += offsets.len() as u64;
            }
            (Stage::Decode, _) => {}
            (Stage::Attribute, frame) => {
                trace::feed(&mut pipeline, frame);
            }
        }
    }
    let rows = pipeline.finish(time).sink.rows;
    Ok(if stage == Stage::Attribute { rows } else { count })
}

/// Counts rows.
#[derive(Default)]
pub(super) struct Nowhere {
    pub rows: u64,
}

macro_rules! thrown_away {
    ($($table:ident($row:ty),)+) => {
        impl TableSink for Nowhere {
            $(fn $table(&mut self, row: &$row) {
                self.rows += 1;
                black_box(row);
            })+
        }
    };
}

thrown_away! {
    launch(LaunchRow),
    transfer(TransferRow),
    range(RangeRow),
    range_set(RangeSetRow),
    mark(MarkRow),
    overhead(OverheadRow),
    api_call(ApiRow),
    synchronization(SynchronizationRow),
    memory_operation(MemoryRow),
    env(EnvRow),
    loss(LossRow),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quickstart() -> &'static Path {
        Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/recordings/quickstart.cuprofrec"))
    }

    #[test]
    fn a_copy_of_a_recording_tells_the_same_many_times() -> Result<(), Box<dyn std::error::Error>> {
        let folder = tempfile::tempdir()?;
        let large = folder.path().join("large.cuprofrec");
        let one = crate::Replay::open(quickstart())?.run()?;
        let made = enlarge(quickstart(), Ranges::Recorded, one.launches() * 10, &large)?;
        let ten = crate::Replay::open(&large)?.run()?;
        assert_eq!(ten.launches(), one.launches() * 10);
        assert_eq!(ten.launches(), made.kernels);
        assert_eq!(ten.transfers(), one.transfers() * 10);
        assert_eq!(ten.ranges(), one.ranges() * 10);
        assert_eq!(ten.losses(), []);
        for (range, tenfold) in one.summary().ranges.iter().zip(&ten.summary().ranges) {
            assert_eq!((&range.path, range.launches * 10), (&tenfold.path, tenfold.launches));
        }
        Ok(())
    }

    #[test]
    fn ranges_can_be_made_up() -> Result<(), Box<dyn std::error::Error>> {
        let folder = tempfile::tempdir()?;
        let large = folder.path().join("large.cuprofrec");
        for (every, ranges) in [(1, 200), (50, 4)] {
            let made = enlarge(quickstart(), Ranges::Every(every), 200, &large)?;
            let profile = crate::Replay::open(&large)?.run()?;
            assert_eq!((profile.launches(), profile.transfers()), (made.kernels, 0));
            assert!(profile.ranges() >= ranges, "{}", profile.ranges());
            assert_eq!(profile.summary().counts.launches_without_range, 0);
            assert_eq!(profile.losses(), []);
            assert!(replay_up_to(Stage::Decode, &large)? == made.events + made.records);
            assert!(replay_up_to(Stage::Attribute, &large)? >= made.kernels + profile.ranges());
        }
        Ok(())
    }
}
