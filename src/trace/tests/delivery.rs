//! Recordings taken apart, and delivered in other ways.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use cupti_sys::{LibraryVersion, layout};
use rustc_hash::FxHashMap;

use super::rows::Rows;
use crate::capture::{Frame, Reader, Strings};
use crate::channel::{Event, decode};
use crate::record::{Decoder, Record};
use crate::trace::pipeline::{Buffer, Finished, Pipeline, Start};
use crate::trace::replay::Recorded;
use crate::units::{CorrelationId, Nanos, ProcessEpoch, ThreadId};

/// One event, with the time before which it was logged.
#[derive(Clone)]
struct Logged {
    time: Nanos,
    bytes: Vec<u8>,
}

/// One record.
struct Piece {
    bytes: Vec<u8>,
    /// The meanings of the buffer that it was in.
    strings: Rc<Strings>,
    /// When the launching call was logged.
    launched: Nanos,
}

/// What a recording holds.
pub(super) struct Parts {
    start: Start,
    end: Nanos,
    received: Nanos,
    clocks: Vec<(i64, Nanos)>,
    threads: BTreeMap<ThreadId, Vec<Logged>>,
    records: Vec<Piece>,
}

/// Every committed recording.
pub(super) fn recordings() -> Vec<PathBuf> {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/recordings"));
    let entries = std::fs::read_dir(folder).expect("the recordings are there");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("readable").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "cuprofrec"));
    paths.sort();
    assert!(paths.len() >= 2, "{paths:?}");
    paths
}

impl Parts {
    pub fn read(path: &Path) -> Self {
        let mut reader = Reader::open(path).expect("a recording");
        let Ok(Some(Frame::Start { cupti_version, time, epoch, .. })) = reader.next() else {
            panic!("{}: it has no beginning", path.display());
        };
        let version = LibraryVersion::from_api(cupti_version);
        let mut parts = Self {
            start: Start { version, time, epoch: ProcessEpoch(epoch) },
            end: time,
            received: time,
            clocks: Vec::new(),
            threads: BTreeMap::new(),
            records: Vec::new(),
        };
        while let Some(frame) = reader.next().expect("sound") {
            match frame {
                Frame::Events { thread, bytes, .. } => parts.log(thread, &bytes),
                Frame::Buffer { received, bytes, offsets, strings, .. } => {
                    parts.received = received;
                    let strings = Rc::new(strings);
                    for offset in offsets {
                        let rest = &bytes[offset as usize..];
                        let kind = u32::from_le_bytes(*rest.first_chunk().expect("a kind"));
                        let size = layout::record_size(kind, version).expect("a known kind");
                        let bytes = rest[..size as usize].to_vec();
                        let (strings, launched) = (Rc::clone(&strings), Nanos(i64::MIN));
                        parts.records.push(Piece { bytes, strings, launched });
                    }
                }
                Frame::Clock { cupti_ns, host } => parts.clocks.push((cupti_ns, host)),
                Frame::End { time } => parts.end = time,
                _ => {}
            }
        }
        parts.find_launches();
        parts
    }

    /// Cuts a run into its events.
    fn log(&mut self, thread: ThreadId, mut run: &[u8]) {
        let log = self.threads.entry(thread).or_default();
        while let Some(words) = run.first_chunk().map(|length| u32::from_le_bytes(*length)) {
            let (event, rest) = run.split_at(words as usize * 8);
            let before = log.last().map_or(self.start.time, |last| last.time);
            let time = match decode(event).next() {
                Some(Ok(
                    Event::Launch { time, .. }
                    | Event::Begin { time, .. }
                    | Event::End { time, .. }
                    | Event::Mark { time, .. }
                    | Event::Unbalanced { time, .. },
                )) => time.max(before),
                _ => before,
            };
            log.push(Logged { time, bytes: event.to_vec() });
            run = rest;
        }
    }

    fn find_launches(&mut self) {
        let mut launches = FxHashMap::default();
        for logged in self.threads.values().flatten() {
            if let Some(Ok(Event::Launch { correlation, .. })) = decode(&logged.bytes).next() {
                launches.insert(correlation, logged.time);
            }
        }
        let decoder = Decoder::new(self.start.version);
        for piece in &mut self.records {
            let correlation = match decoder.decode(&piece.bytes, 0) {
                Record::Kernel(kernel) => kernel.common.correlation,
                Record::Copy(copy) => copy.common.correlation,
                Record::Fill(fill) => fill.common.correlation,
                _ => CorrelationId(0),
            };
            if let Some(time) = launches.get(&correlation) {
                piece.launched = *time;
            }
        }
    }

    pub fn records(&self) -> usize {
        self.records.len()
    }

    fn pipeline(&self) -> Pipeline<Rows> {
        let mut pipeline = Pipeline::new(self.start, Rows::default());
        for (cupti_ns, host) in &self.clocks {
            pipeline.clock(*cupti_ns, *host);
        }
        pipeline
    }

    /// One buffer with these records, with something between them that is no record.
    fn buffer(&self, pipeline: &mut Pipeline<Rows>, records: &[usize]) {
        let (mut bytes, mut offsets, mut strings) = (vec![0xa5; 24], Vec::new(), Strings::default());
        for index in records {
            let piece = &self.records[*index];
            offsets.push(bytes.len() as u32);
            bytes.extend_from_slice(&piece.bytes);
            bytes.extend_from_slice(&[0xa5; 8]);
            strings.pointers.extend_from_slice(&piece.strings.pointers);
            strings.calls.extend_from_slice(&piece.strings.calls);
        }
        let buffer = Buffer { received: self.received, bytes: &bytes, offsets: &offsets, complete: true };
        pipeline.buffer(&buffer, &Recorded::new(&strings));
    }

    /// All events, thread by thread, then these records in one buffer.
    pub fn plainly(&self, records: &[usize]) -> Finished<Rows> {
        let mut pipeline = self.pipeline();
        for (thread, log) in &self.threads {
            log.iter().for_each(|logged| pipeline.events(*thread, &logged.bytes));
        }
        self.buffer(&mut pipeline, records);
        pipeline.finish(self.end)
    }

    /// Delivers these records, and all events, in one of the ways in which that can happen.
    ///
    /// In each round a buffer is taken, and then every thread is asked for its events, one after the other. So what
    /// was logged before the buffer was taken has come when its records are looked at, and what was logged since has
    /// come from some threads and not yet from others.
    pub fn delivered(&self, mut records: Vec<usize>, choices: &mut Choices) -> Finished<Rows> {
        let mut pipeline = self.pipeline();
        let mut queues: Vec<(ThreadId, VecDeque<&Logged>)> =
            self.threads.iter().map(|(thread, log)| (*thread, log.iter().collect())).collect();
        let times: Vec<Nanos> = self.threads.values().flatten().map(|logged| logged.time).collect();
        let mut borders: Vec<Nanos> =
            (0..choices.pick(6)).map(|_| times[choices.pick(times.len())]).collect();
        borders.sort_unstable();
        borders.push(Nanos(i64::MAX));
        choices.shuffle(&mut records);
        let mut taken = Nanos(i64::MIN);
        for border in borders {
            choices.shuffle(&mut queues);
            for (thread, queue) in &mut queues {
                let must = queue.iter().take_while(|logged| logged.time <= taken).count();
                let may = queue.iter().take_while(|logged| logged.time <= border).count();
                let count = if border.0 == i64::MAX { may } else { must + choices.pick(may - must + 1) };
                let first = choices.pick(count + 1);
                for length in [first, count - first] {
                    let run: Vec<u8> =
                        queue.drain(..length).flat_map(|logged| logged.bytes.iter().copied()).collect();
                    pipeline.events(*thread, &run);
                }
            }
            let (mut now, mut later) = (Vec::new(), Vec::new());
            for index in records {
                let is_ready = self.records[index].launched <= taken;
                if is_ready && choices.pick(3) > 0 { now.push(index) } else { later.push(index) }
            }
            records = later;
            if now.is_empty() {
                pipeline.settle();
            } else {
                self.buffer(&mut pipeline, &now);
            }
            taken = border;
        }
        while !records.is_empty() {
            let rest = records.split_off((1 + choices.pick(100)).min(records.len()));
            self.buffer(&mut pipeline, &records);
            records = rest;
        }
        (0..choices.pick(4)).for_each(|_| pipeline.settle());
        pipeline.finish(self.end)
    }
}

/// Numbers that decide how things go; all zero is the plainest way.
#[derive(Clone, Debug)]
pub(super) struct Choices {
    numbers: Vec<u16>,
    next: usize,
}

impl Choices {
    pub fn new(numbers: Vec<u16>) -> Self {
        Self { numbers, next: 0 }
    }

    /// A number below this.
    pub fn pick(&mut self, below: usize) -> usize {
        let number = self.numbers[self.next % self.numbers.len()];
        self.next += 1;
        usize::from(number) % below.max(1)
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for index in 1..items.len() {
            items.swap(index, index - self.pick(index + 1));
        }
    }
}
