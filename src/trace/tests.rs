//! Bytes in, rows out: what CUPTI and the threads may deliver, and in which order, must not matter.

mod delivery;
mod rows;

use cupti_sys::{LibraryVersion, kind, layout};
use proptest::prelude::*;

use self::delivery::{Choices, Parts, recordings};
use self::rows::{Rows, sorted};
use super::pipeline::{Buffer, Finished, Pipeline, Start};
use super::replay::{Recorded, feed};
use crate::capture::{CallName, Frame, Strings};
use crate::channel::{Arg, ArgValue, Args, Event, Named, Payload, RangeKind, append, decode};
use crate::losses::Cause;
use crate::record::synthetic::{self, Bytes};
use crate::table::rows::{Attribution, DeviceWork, InvalidReason};
use crate::units::{CorrelationId, Nanos, ProcessEpoch, RangeId, SymbolId, ThreadId};

const VERSIONS: [u32; 9] = [18, 22, 24, 26, 28, 130_001, 130_100, 130_401, 130_500];

/// Each recording with the rows of its records, one by one.
fn taken_apart() -> Vec<(Parts, Vec<String>)> {
    let one = |path: std::path::PathBuf| {
        let parts = Parts::read(&path);
        let all: Vec<usize> = (0..parts.records()).collect();
        let rows = parts.plainly(&all).sink.of_records;
        assert_eq!(rows.len(), all.len(), "{}: each record has a row", path.display());
        (parts, rows)
    };
    recordings().into_iter().map(one).collect()
}

fn any_choices() -> impl Strategy<Value = Choices> {
    proptest::collection::vec(any::<u16>(), 1..200).prop_map(Choices::new)
}

/// A fifth of the usual cases, since each delivers every recording.
fn few() -> ProptestConfig {
    let usual = ProptestConfig::default();
    ProptestConfig { cases: usual.cases.div_ceil(5), ..usual }
}

#[test]
fn a_recording_taken_apart_is_what_it_was() {
    for (path, (_, rows)) in recordings().into_iter().zip(taken_apart()) {
        let profile = crate::Replay::open(&path).and_then(|replay| Ok(replay.run()?)).expect("it replays");
        let count = |table: &str| rows.iter().filter(|row| row.starts_with(table)).count() as u64;
        assert_eq!(count("LaunchRow"), profile.launches(), "{}", path.display());
        assert_eq!(count("TransferRow"), profile.transfers());
    }
}

#[test]
fn records_in_other_buffers_and_events_in_other_runs_give_the_same_rows() {
    let recordings = taken_apart();
    proptest!(few(), |(choices in any_choices())| {
        for (parts, rows) in &recordings {
            let all: Vec<usize> = (0..parts.records()).collect();
            let plain = parts.plainly(&all);
            let other = parts.delivered(all, &mut choices.clone());
            prop_assert_eq!(sorted(&other.sink.of_records), sorted(rows));
            prop_assert_eq!(sorted(&other.sink.ranges), sorted(&plain.sink.ranges));
            prop_assert_eq!(sorted(&other.sink.sets), sorted(&plain.sink.sets));
            prop_assert_eq!(sorted(&other.sink.marks), sorted(&plain.sink.marks));
            let without = "session.calls_without_record";
            prop_assert_eq!(other.sink.fact(without), plain.sink.fact(without));
            prop_assert_eq!(&other.losses, &plain.losses);
            prop_assert_eq!(other.tally, plain.tally);
        }
    });
}

#[test]
fn a_record_that_is_lost_or_comes_twice_changes_no_other_row() {
    let recordings = taken_apart();
    let fates = proptest::collection::vec(prop_oneof![Just(0_usize), Just(1), Just(1), Just(2)], 1..50);
    proptest!(few(), |(choices in any_choices(), fates in fates)| {
        for (parts, rows) in &recordings {
            let copies = |index: usize| std::iter::repeat_n(index, fates[index % fates.len()]);
            let survivors: Vec<usize> = (0..parts.records()).flat_map(copies).collect();
            let expected: Vec<&str> = survivors.iter().map(|index| &*rows[*index]).collect();
            let plain = parts.plainly(&survivors);
            let other = parts.delivered(survivors.clone(), &mut choices.clone());
            let mut got: Vec<&str> = other.sink.of_records.iter().map(|row| &**row).collect();
            got.sort_unstable();
            let mut wanted = expected;
            wanted.sort_unstable();
            prop_assert_eq!(got, wanted);
            let without = "session.calls_without_record";
            prop_assert_eq!(other.sink.fact(without), plain.sink.fact(without));
            let mut late = plain.losses.clone();
            let incomplete = other.losses.count(Cause::RangeRowIncomplete);
            late.add(Cause::RangeRowIncomplete, incomplete);
            prop_assert_eq!(&other.losses, &late, "only what comes twice can come too late");
            if incomplete == 0 {
                prop_assert_eq!(sorted(&other.sink.ranges), sorted(&plain.sink.ranges));
            } else {
                prop_assert!(fates.contains(&2));
            }
        }
    });
}

const START: Nanos = Nanos(1_700_000_000_000_000_000);
const NOW: u64 = START.0 as u64 + 1_000_000;
const MAIN: ThreadId = ThreadId(1);
const LAUNCH_KERNEL: u32 = 307;
const LAUNCH_GRAPH: u32 = 514;
const HOUR: i64 = 3_600_000_000_000;

fn newest() -> LibraryVersion {
    LibraryVersion::HEADERS
}

fn range(number: u64) -> RangeId {
    RangeId::from_raw(number).expect("not 0")
}

/// A pipeline that is told things one by one.
struct Session(Pipeline<Rows>);

impl Session {
    fn new(version: LibraryVersion) -> Self {
        let start = Start { version, time: START, epoch: ProcessEpoch(0) };
        Self(Pipeline::new(start, Rows::default()))
    }

    fn event(&mut self, thread: ThreadId, event: &Event<'_>) {
        let mut run = Vec::new();
        append(event, &mut run);
        self.0.events(thread, &run);
    }

    fn launch(&mut self, correlation: u32, range: Option<RangeId>, cbid: u32, symbol: u32) {
        let event = Event::Launch {
            correlation: CorrelationId(correlation),
            range,
            epoch: ProcessEpoch(0),
            cbid,
            symbol: SymbolId::from_raw(symbol),
            is_recorded: true,
            time: Nanos(START.0 + 1_000),
        };
        self.event(MAIN, &event);
    }

    fn begin(&mut self, range: RangeId, parent: Option<RangeId>, name: &[u8], args: &[Arg<'_>]) {
        let event = Event::Begin {
            range,
            kind: RangeKind::Own,
            parent,
            epoch: ProcessEpoch(0),
            domain: 0,
            category: 0,
            color: None,
            payload: Payload::None,
            time: Nanos(START.0 + 500),
            name,
            args: Args::Borrowed(args),
        };
        self.event(MAIN, &event);
    }

    fn end(&mut self, range: RangeId) {
        self.event(MAIN, &Event::End { range, epoch: None, time: Nanos(START.0 + 2_000) });
    }

    fn symbol(&mut self, symbol: u32, name: &[u8]) {
        let symbol = SymbolId::from_raw(symbol).expect("not 0");
        self.event(MAIN, &Event::Name { what: Named::Symbol { symbol }, name });
    }

    fn buffer(&mut self, records: &[Bytes], strings: &Strings) {
        let mut offsets = Vec::new();
        let mut bytes = Vec::new();
        for record in records {
            offsets.push(bytes.len() as u32);
            bytes.extend_from_slice(&record.0);
        }
        let received = Nanos(START.0 + 2_000_000);
        let buffer = Buffer { received, bytes: &bytes, offsets: &offsets, complete: true };
        self.0.buffer(&buffer, &Recorded::new(strings));
    }

    fn finish(self) -> Finished<Rows> {
        self.0.finish(Nanos(START.0 + 3_000_000))
    }
}

fn names(pointers: &[(u64, &str)]) -> Strings {
    let pointers = pointers.iter().map(|(pointer, name)| (*pointer, name.as_bytes().to_vec())).collect();
    Strings { pointers, calls: Vec::new() }
}

/// A record of any kind, in a range, outside every range, or of a launch that was not seen.
fn any_records() -> impl Strategy<Value = Vec<(u8, u32, u64, u64)>> {
    proptest::collection::vec((0_u8..8, 1_u32..6, 0_u64..1000, 0_u64..1000), 0..30)
}

fn record(version: LibraryVersion, what: (u8, u32, u64, u64)) -> Bytes {
    let (kind, correlation, start, length) = what;
    let (start, end) = (NOW + start, NOW + start + length);
    match kind {
        0 => synthetic::kernel(version, correlation, start, end, 0x10),
        1 => synthetic::memcpy(version, correlation, start, end, length),
        2 => synthetic::peer_copy(version, correlation, start, end),
        3 => synthetic::memset(version, correlation, start, end),
        4 => synthetic::api(version, kind::DRIVER, LAUNCH_KERNEL, correlation, start),
        5 => synthetic::overhead(version, start, end),
        6 => synthetic::synchronization(version, correlation, start, end),
        _ => synthetic::memory(version, correlation, start),
    }
}

proptest! {
    #[test]
    fn every_layout_of_records_gives_the_same_rows(records in any_records()) {
        let run = |version: u32| {
            let version = LibraryVersion::from_api(version);
            let mut session = Session::new(version);
            session.begin(range(1), None, b"outer", &[]);
            session.begin(range(2), Some(range(1)), b"inner", &[]);
            session.launch(2, None, LAUNCH_KERNEL, 0);
            session.launch(3, Some(range(1)), LAUNCH_KERNEL, 0);
            session.launch(4, Some(range(2)), LAUNCH_KERNEL, 0);
            let bytes: Vec<Bytes> = records.iter().map(|what| record(version, *what)).collect();
            session.buffer(&bytes, &names(&[(0x10, "saxpy")]));
            session.end(range(2));
            session.finish()
        };
        let newest = run(130_500);
        prop_assert_eq!(newest.sink.of_records.len(), records.len());
        for version in VERSIONS {
            let other = run(version);
            prop_assert_eq!(&other.sink.of_records, &newest.sink.of_records);
            prop_assert_eq!(sorted(&other.sink.ranges), sorted(&newest.sink.ranges));
            prop_assert_eq!(&other.losses, &newest.losses);
        }
    }
}

#[test]
fn a_name_pointer_that_is_used_again_gives_each_record_its_own_name() {
    let mut session = Session::new(newest());
    session.symbol(1, b"_Z3oldv");
    session.launch(1, None, LAUNCH_KERNEL, 1);
    session.symbol(2, b"_Z3newv");
    session.launch(2, None, LAUNCH_KERNEL, 2);
    session.launch(3, None, LAUNCH_GRAPH, 0);
    session.launch(4, None, LAUNCH_KERNEL, 0);
    let kernel = |correlation| synthetic::kernel(newest(), correlation, NOW, NOW + 10, 0x10);
    let node = || kernel(3).set(layout::kernel::GRAPH_NODE_ID, 8);
    session.buffer(&[kernel(2), node()], &names(&[(0x10, "_Z5firstv")]));
    session.buffer(&[kernel(1), node(), kernel(4)], &names(&[(0x10, "_Z6secondv")]));
    session.buffer(&[node()], &Strings::default());
    let launches = session.finish().sink.launches;
    let got: Vec<&str> = launches.iter().map(|row| &*row.kernel.demangled).collect();
    assert_eq!(got, ["new()", "first()", "old()", "second()", "second()", "(unknown)"]);
}

#[test]
fn a_graph_gives_a_row_for_each_node_and_is_one_launch() {
    let nodes = |correlation| -> Vec<Bytes> {
        let kernels = (0..24).map(|node| {
            synthetic::kernel(newest(), correlation, NOW + node, NOW + node + 5, 0x10)
                .set(layout::kernel::GRAPH_ID, 3)
                .set(layout::kernel::GRAPH_NODE_ID, 100 + node)
        });
        let copies = (24..31).map(|node| {
            synthetic::memcpy(newest(), correlation, NOW + node, NOW + node + 5, 64)
                .set(layout::memcpy::GRAPH_ID, 3)
                .set(layout::memcpy::GRAPH_NODE_ID, 100 + node)
        });
        kernels.chain(copies).collect()
    };
    let mut session = Session::new(newest());
    session.begin(range(1), None, b"step", &[]);
    session.launch(1, Some(range(1)), LAUNCH_GRAPH, 0);
    session.launch(2, Some(range(1)), LAUNCH_GRAPH, 0); // its records never come
    session.end(range(1));
    let records = nodes(1);
    let (first, rest) = records.split_at(10);
    session.buffer(rest, &names(&[(0x10, "k")]));
    (0..4).for_each(|_| session.0.settle());
    session.buffer(first, &names(&[(0x10, "k")]));
    let finished = session.finish();
    let rows = &finished.sink;
    let work = rows.launches.iter().map(|row| &row.work).chain(rows.transfers.iter().map(|row| &row.work));
    let mut ids = Vec::new();
    for work in work {
        assert_eq!((work.graph, work.attribution), (Some(3), Attribution::Range));
        assert_eq!(work.range_path.as_deref(), Some("step"));
        ids.extend(work.graph_node);
    }
    ids.sort_unstable();
    assert_eq!(ids, (100..131).collect::<Vec<u64>>());
    assert_eq!((rows.ranges[0].n_launches, rows.ranges[0].n_transfers), (24, 7));
    assert_eq!((rows.ranges[0].gpu_sum_ns, rows.ranges[0].gpu_span_ns), (24 * 5, Some(23 + 5)));
    assert_eq!(rows.fact("session.calls_without_record"), "1");
    assert_eq!(finished.losses, Default::default());
}

#[test]
fn a_runtime_call_and_the_driver_call_inside_it_are_one_launch() {
    let mut session = Session::new(newest());
    session.begin(range(1), None, b"step", &[]);
    session.launch(1, Some(range(1)), LAUNCH_KERNEL, 0);
    session.end(range(1));
    let call = |kind, cbid| synthetic::api(newest(), kind, cbid, 1, NOW);
    let mut strings = names(&[(0x10, "k")]);
    strings.calls.push(CallName { kind: kind::DRIVER, cbid: LAUNCH_KERNEL, name: "cuLaunchKernel".into() });
    let kernel = synthetic::kernel(newest(), 1, NOW, NOW + 10, 0x10);
    session.buffer(&[call(kind::RUNTIME, 211), call(kind::DRIVER, LAUNCH_KERNEL), kernel], &strings);
    let finished = session.finish();
    let rows = &finished.sink;
    let calls: Vec<_> = rows.api_calls.iter().map(|row| (row.domain, &*row.name)).collect();
    assert_eq!(calls, [("runtime", "cbid_211"), ("driver", "cuLaunchKernel")]);
    assert_eq!((rows.launches.len(), rows.ranges[0].n_launches), (1, 1));
    assert_eq!(rows.fact("session.calls_without_record"), "0");
    assert_eq!(finished.losses, Default::default());
}

fn internal_launch(session: &mut Session, correlation: u32) {
    let event =
        Event::InternalLaunch { correlation: CorrelationId(correlation), time: Nanos(START.0 + 1_000) };
    session.event(MAIN, &event);
}

#[test]
fn what_the_crate_ran_itself_is_in_no_table_of_the_programs() {
    let mut session = Session::new(newest());
    session.begin(range(1), None, b"measured", &[]);
    internal_launch(&mut session, 1);
    session.launch(2, Some(range(1)), LAUNCH_KERNEL, 0);
    internal_launch(&mut session, 3);
    session.end(range(1));
    let strings = names(&[(0x10, "cuprof_internal_flush_l2"), (0x20, "victim")]);
    let records = [
        synthetic::kernel(newest(), 1, NOW, NOW + 30, 0x10),
        synthetic::api(newest(), kind::DRIVER, LAUNCH_KERNEL, 1, NOW),
        synthetic::kernel(newest(), 2, NOW + 40, NOW + 50, 0x20),
        synthetic::memset(newest(), 3, NOW + 60, NOW + 75),
        // The event of this one's launch was lost: its name tells.
        synthetic::kernel(newest(), 4, NOW + 80, NOW + 85, 0x10),
    ];
    session.buffer(&records, &strings);
    let finished = session.finish();
    let rows = &finished.sink;
    assert_eq!((rows.launches.len(), rows.transfers.len(), rows.api_calls.len()), (1, 0, 0));
    let range = &rows.ranges[0];
    assert_eq!((range.n_launches, range.n_transfers, range.gpu_sum_ns), (1, 0, 10));
    let flushes: Vec<_> = rows
        .overheads
        .iter()
        .map(|row| (&*row.kind, row.end_ns - row.start_ns, row.thread, row.correlation.map(|id| id.0)))
        .collect();
    let kind = "cuprof_cache_flush";
    let expected =
        [(kind, 30, Some(MAIN), Some(1)), (kind, 15, Some(MAIN), Some(3)), (kind, 5, None, Some(4))];
    assert_eq!(flushes, expected);
    assert_eq!((rows.fact("control.cache_flushes"), rows.fact("control.cache_flush_sum_ns")), ("3", "50"));
    assert_eq!((finished.tally.launches, finished.tally.transfers), (1, 0));
    assert_eq!(finished.losses, Default::default());
}

#[test]
fn a_correlation_id_that_is_used_again_by_the_program_is_the_programs() {
    let mut session = Session::new(newest());
    internal_launch(&mut session, 1);
    session.launch(1, None, LAUNCH_KERNEL, 0);
    session.buffer(&[synthetic::kernel(newest(), 1, NOW, NOW + 10, 0x10)], &names(&[(0x10, "k")]));
    let finished = session.finish();
    assert_eq!((finished.sink.launches.len(), finished.sink.overheads.len()), (1, 0));
}

fn work(rows: &Rows) -> impl Iterator<Item = &DeviceWork> {
    rows.launches.iter().map(|row| &row.work).chain(rows.transfers.iter().map(|row| &row.work))
}

#[test]
fn stamps_that_cannot_be_are_flagged_and_stay_out_of_every_sum() {
    use InvalidReason::{EndBeforeStart, OutOfRange, ZeroTimestamp};
    let top = 1 << 63;
    let (early, late) = (NOW - 2 * HOUR as u64, NOW + 2 * HOUR as u64);
    let stamps = [
        (0, 0, ZeroTimestamp),
        (NOW + 9, NOW, EndBeforeStart),
        (top, top + 5, OutOfRange),
        (NOW | top, (NOW + 5) | top, OutOfRange),
        (NOW, u64::MAX, OutOfRange),
        (u64::MAX, u64::MAX, OutOfRange),
        (u64::MAX, 0, OutOfRange),
        (0, NOW, OutOfRange),
        (NOW, 0, OutOfRange),
        (1, 2, OutOfRange),
        (early, early + 5, OutOfRange),
        (NOW, late, OutOfRange),
    ];
    let mut session = Session::new(newest());
    session.begin(range(1), None, b"step", &[]);
    let mut records = vec![synthetic::kernel(newest(), 1, NOW, NOW + 100, 0x10)];
    session.launch(1, Some(range(1)), LAUNCH_KERNEL, 0);
    for (correlation, (start, end, _)) in (2..).step_by(2).zip(stamps) {
        session.launch(correlation, Some(range(1)), LAUNCH_KERNEL, 0);
        session.launch(correlation + 1, Some(range(1)), LAUNCH_KERNEL, 0);
        records.push(synthetic::kernel(newest(), correlation, start, end, 0x10));
        records.push(synthetic::memcpy(newest(), correlation + 1, start, end, 64));
    }
    session.end(range(1));
    session.buffer(&records, &names(&[(0x10, "k")]));
    let finished = session.finish();
    let rows = &finished.sink;
    assert_eq!(rows.launches[0].work.duration_ns, Some(100));
    assert_eq!(rows.launches[0].work.invalid, None);
    let launches = rows.launches[1..].iter().map(|row| &row.work);
    for rows in [launches.collect::<Vec<_>>(), rows.transfers.iter().map(|row| &row.work).collect()] {
        assert_eq!(rows.len(), stamps.len());
        for (work, (start, end, reason)) in rows.into_iter().zip(stamps) {
            assert_eq!((work.invalid, work.duration_ns), (Some(reason), None), "{start} to {end}");
            assert_eq!(work.launch_lead_ns, None);
            assert_eq!(work.start_ns, i64::try_from(start).unwrap_or(0));
            assert_eq!(work.end_ns, i64::try_from(end).unwrap_or(0));
            assert_eq!(work.attribution, Attribution::Range);
        }
    }
    let row = &rows.ranges[0];
    assert_eq!((row.n_launches, row.n_transfers), (13, 12));
    assert_eq!((row.gpu_sum_ns, row.gpu_span_ns), (100, Some(100)));
    let count = |cause| finished.losses.count(cause);
    assert_eq!(count(Cause::RecordsZeroTimestamp), 2);
    assert_eq!(count(Cause::RecordsEndBeforeStart), 2);
    assert_eq!(count(Cause::RecordsOutOfRange), 20);
}

#[test]
fn a_little_before_the_session_and_after_it_is_valid() {
    let mut session = Session::new(newest());
    session.launch(1, None, LAUNCH_KERNEL, 0);
    let second = 1_000_000_000;
    let at = |start| synthetic::kernel(newest(), 1, start, start + 10, 0);
    session.buffer(&[at(NOW - second), at(NOW + second)], &Strings::default());
    let finished = session.finish();
    assert!(work(&finished.sink).all(|work| work.invalid.is_none() && work.duration_ns == Some(10)));
    assert_eq!(finished.losses, Default::default());
}

#[test]
fn unknown_and_truncated_records_are_counted_beside_their_neighbours() {
    let kernel = synthetic::kernel(newest(), 1, NOW, NOW + 10, 0x10);
    let size = kernel.0.len() as u32;
    let mut session = Session::new(newest());
    session.launch(1, None, LAUNCH_KERNEL, 0);
    let mut bytes = [&kernel.0[..], &9999_u32.to_le_bytes(), &[0; 12], &kernel.0].concat();
    let last = size + 16 + size;
    bytes.extend_from_slice(&kernel.0[..size as usize - 1]);
    let offsets = [0, size, size + 16, last, last + size - 2, last + size - 1, last + 9000, u32::MAX];
    let buffer = Buffer { received: START, bytes: &bytes, offsets: &offsets, complete: false };
    session.0.buffer(&buffer, &Recorded::new(&names(&[(0x10, "k")])));
    let finished = session.finish();
    assert_eq!(finished.sink.launches.len(), 2);
    assert_eq!(finished.losses.count(Cause::RecordsUnknown), 1);
    assert_eq!(finished.losses.count(Cause::RecordsTruncated), 5);
    assert_eq!(finished.losses.count(Cause::BuffersDamaged), 1);
    assert_eq!(finished.tally.records, 8);
}

/// Numbers at which arithmetic goes wrong, and small ones that meet each other.
fn any_number() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => 0_u64..6,
        1 => Just(u64::MAX),
        1 => Just(1 << 63),
        1 => Just((1 << 63) - 1),
        1 => Just(NOW),
        1 => any::<u64>(),
    ]
}

fn hostile_event() -> impl Strategy<Value = Vec<u8>> {
    let numbers = proptest::array::uniform5(any_number());
    let text = proptest::collection::vec(any::<u8>(), 0..20);
    (0_u8..8, numbers, text).prop_map(|(what, [a, b, c, d, time], name)| {
        let id = RangeId::from_raw(a).unwrap_or(range(1));
        let time = Nanos(time.cast_signed());
        let (epoch, number) = (ProcessEpoch(c as u32), d as u32);
        let begin = |kind| Event::Begin {
            range: id,
            kind,
            parent: RangeId::from_raw(b),
            epoch,
            domain: number,
            category: number,
            color: None,
            payload: Payload::F64(f64::from_bits(d)),
            time,
            name: &name,
            args: Args::Borrowed(&[]),
        };
        let event = match what {
            0 => Event::Launch {
                correlation: CorrelationId(a as u32),
                range: RangeId::from_raw(b),
                epoch,
                cbid: [LAUNCH_KERNEL, LAUNCH_GRAPH, number][d as usize % 3],
                symbol: SymbolId::from_raw(number),
                is_recorded: number % 2 == 0,
                time,
            },
            1 => begin(RangeKind::Own),
            2 => begin(RangeKind::Process),
            3 => Event::End { range: id, epoch: None, time },
            4 => Event::End { range: id, epoch: Some(epoch), time },
            5 => Event::Mark {
                range: RangeId::from_raw(b),
                domain: number,
                category: number,
                color: Some(number),
                payload: Payload::I64(d.cast_signed()),
                time,
                name: &name,
            },
            6 => Event::Unbalanced { domain: number, process: d == 0, time },
            _ => {
                let named = Named::Category { domain: number, category: number };
                let symbol = SymbolId::from_raw(number).map(|symbol| Named::Symbol { symbol });
                Event::Name { what: symbol.unwrap_or(named), name: &name }
            }
        };
        let mut run = Vec::new();
        append(&event, &mut run);
        run
    })
}

fn hostile_record() -> impl Strategy<Value = Vec<u8>> {
    let numbers = proptest::array::uniform4(any_number());
    let kind = prop_oneof![
        Just(kind::CONCURRENT_KERNEL),
        Just(kind::KERNEL),
        Just(kind::MEMCPY),
        Just(kind::MEMCPY2),
        Just(kind::MEMSET),
        Just(kind::OVERHEAD),
        Just(kind::DRIVER),
        Just(kind::SYNCHRONIZATION),
        Just(kind::MEMORY2),
        Just(kind::MARKER),
        any::<u32>(),
    ];
    let noise = proptest::collection::vec(any::<u8>(), 0..400);
    prop_oneof![
        (numbers, 0_u64..3, any::<u8>()).prop_map(|([correlation, start, end, name], node, device)| {
            synthetic::kernel(newest(), correlation as u32, start, end, name)
                .set(layout::kernel::GRAPH_NODE_ID, node)
                .set(layout::kernel::IS_DEVICE_LAUNCHED, u64::from(device == 0))
                .0
        }),
        (kind, noise).prop_map(|(kind, noise)| [&kind.to_le_bytes()[..], &noise].concat()),
    ]
}

fn hostile_frame() -> impl Strategy<Value = Frame<'static>> {
    let records = proptest::collection::vec(hostile_record(), 0..8);
    let events = proptest::collection::vec(hostile_event(), 0..12);
    let flips = proptest::collection::vec((any::<usize>(), any::<u8>()), 0..3);
    let number = || any_number().prop_map(u64::cast_signed);
    prop_oneof![
        4 => (0_u32..3, events, flips.clone()).prop_map(|(thread, events, flips)| {
            let bytes = damaged(events.concat(), &flips);
            Frame::Events { thread: ThreadId(thread), name: None, bytes: bytes.into() }
        }),
        1 => proptest::collection::vec(any::<u8>(), 0..100).prop_map(|bytes| {
            Frame::Events { thread: ThreadId(1), name: Some("x".into()), bytes: bytes.into() }
        }),
        4 => (records, flips, proptest::collection::vec(any::<u32>(), 0..3), number(), any::<bool>())
            .prop_map(|(records, flips, more_offsets, received, complete)| {
                let mut end = 0;
                let starts = records.iter().map(|record| {
                    end += record.len() as u32;
                    end - record.len() as u32
                });
                let mut offsets: Vec<u32> = starts.collect();
                offsets.extend(more_offsets.iter().map(|offset| offset % 4000));
                offsets.extend(more_offsets.first());
                let bytes = damaged(records.concat(), &flips).into();
                let mut strings = names(&[(0, "zero"), (1, "_Z3onev"), (u64::MAX, "")]);
                strings.pointers.push((2, vec![0xff, 0, b'_']));
                Frame::Buffer { received: Nanos(received), bytes, offsets, complete, strings }
            }),
        1 => (number(), number())
            .prop_map(|(cupti_ns, host)| Frame::Clock { cupti_ns, host: Nanos(host) }),
        1 => any_number().prop_map(|count| Frame::Loss { cause: "records_dropped".into(), count }),
        1 => any_number().prop_map(|count| Frame::Loss { cause: "of_a_later_version".into(), count }),
    ]
}

fn damaged(mut bytes: Vec<u8>, flips: &[(usize, u8)]) -> Vec<u8> {
    for (at, mask) in flips {
        let length = bytes.len().max(1);
        if let Some(byte) = bytes.get_mut(at % length) {
            *byte ^= mask;
        }
    }
    bytes
}

proptest! {
    #[test]
    fn whatever_is_delivered_each_record_is_a_row_or_counted(
        version in proptest::sample::select(VERSIONS.to_vec()),
        time in any_number(),
        epoch in any_number(),
        end in any_number(),
        frames in proptest::collection::vec(hostile_frame(), 0..20),
    ) {
        let start = Start {
            version: LibraryVersion::from_api(version),
            time: Nanos(time.cast_signed()),
            epoch: ProcessEpoch(epoch as u32),
        };
        let mut pipeline = Pipeline::new(start, Rows::default());
        let (mut records, mut marks, mut malformed) = (0, 0, 0);
        for frame in frames {
            match &frame {
                Frame::Buffer { offsets, .. } => records += offsets.len() as u64,
                Frame::Events { bytes, .. } => {
                    for event in decode(bytes) {
                        marks += usize::from(matches!(event, Ok(Event::Mark { .. })));
                        malformed += u64::from(event.is_err());
                    }
                }
                _ => {}
            }
            feed(&mut pipeline, frame);
        }
        let Finished { sink, losses, tally } = pipeline.finish(Nanos(end.cast_signed()));
        let counted = losses.count(Cause::RecordsUnknown) + losses.count(Cause::RecordsTruncated);
        prop_assert_eq!(tally.records, records);
        prop_assert_eq!(sink.of_records.len() as u64 + counted, records);
        prop_assert_eq!(sink.marks.len(), marks);
        prop_assert_eq!(losses.count(Cause::EventsMalformed), malformed);
        prop_assert_eq!(tally.ranges, sink.ranges.len() as u64);
        for work in work(&sink) {
            prop_assert_eq!(work.duration_ns.is_none(), work.invalid.is_some());
            prop_assert!(work.duration_ns.is_none_or(|duration| duration >= 0));
        }
        for row in &sink.ranges {
            prop_assert!(row.end_ns >= row.start_ns && row.gpu_sum_ns >= 0);
            prop_assert!(row.gpu_span_ns.is_none_or(|span| span >= 0));
        }
    }
}

#[test]
fn a_clock_that_is_hours_off_shifts_what_the_host_saw() {
    for shift in [5 * HOUR, -5 * HOUR, 2_000_000] {
        let mut session = Session::new(newest());
        session.0.clock(START.0 + shift, START);
        session.begin(range(1), None, b"step", &[]);
        session.launch(1, Some(range(1)), LAUNCH_KERNEL, 0);
        session.end(range(1));
        let start = (START.0 + 1_700 + shift).cast_unsigned();
        session.buffer(&[synthetic::kernel(newest(), 1, start, start + 10, 0)], &Strings::default());
        let Finished { sink, losses, .. } = session.finish();
        assert_eq!(sink.launches[0].work.launch_lead_ns, Some(700), "{shift}");
        assert_eq!(sink.launches[0].work.duration_ns, Some(10));
        assert_eq!(sink.ranges[0].start_ns, START.0 + 500 + shift);
        assert_eq!(sink.fact("session.end_ns"), (START.0 + 3_000_000 + shift).to_string());
        assert_eq!(losses, Default::default());
    }
}

#[test]
fn a_capture_excuses_what_was_launched_before_its_end_on_any_clock() {
    for shift in [0, 5 * HOUR, -5 * HOUR] {
        for (end, missing) in [(1_000, 0), (999, 1)] {
            let mut session = Session::new(newest());
            session.0.clock(START.0 + shift, START);
            session.event(ThreadId(2), &Event::UnseenCaptureEnded { time: Nanos(START.0 + end) });
            session.launch(1, None, LAUNCH_KERNEL, 0);
            let losses = session.finish().losses;
            assert_eq!(losses.count(Cause::LaunchesWithoutRecord), missing, "{shift} {end}");
        }
    }
}

#[test]
fn clocks_within_a_millisecond_are_left_alone() {
    for difference in [900_000, -900_000, 0] {
        let mut session = Session::new(newest());
        session.0.clock(START.0 + difference, START);
        session.launch(1, None, LAUNCH_KERNEL, 0);
        let start = (START.0 + 1_700).cast_unsigned();
        session.buffer(&[synthetic::kernel(newest(), 1, start, start + 10, 0)], &Strings::default());
        assert_eq!(session.finish().sink.launches[0].work.launch_lead_ns, Some(700));
    }
}

#[test]
fn a_launch_that_was_not_seen_is_told_from_one_before_the_session_on_any_clock() {
    for shift in [0, 5 * HOUR, -5 * HOUR] {
        let mut session = Session::new(newest());
        session.0.clock(START.0 + shift, START);
        session.launch(1, None, LAUNCH_KERNEL, 0);
        let at = |time: i64| {
            let start = (START.0 + time + shift).cast_unsigned();
            synthetic::kernel(newest(), 9, start, start + 10, 0)
        };
        session.buffer(&[at(5_000), at(-5_000)], &Strings::default());
        let rows = session.finish().sink;
        let got: Vec<_> = work(&rows).map(|work| work.attribution).collect();
        assert_eq!(got, [Attribution::LaunchNotSeen, Attribution::LaunchedBeforeStart], "{shift}");
    }
}

#[test]
fn a_mark_has_its_domain_even_if_another_thread_named_it() {
    let mut session = Session::new(newest());
    let mark = |domain, category| Event::Mark {
        range: None,
        domain,
        category,
        color: None,
        payload: Payload::U64(7),
        time: START,
        name: b"here",
    };
    // Threads are asked one after the other: the one that made the domain can come last.
    session.event(ThreadId(2), &mark(3, 4));
    session.event(ThreadId(2), &mark(5, 0));
    session.event(MAIN, &Event::Name { what: Named::Domain { domain: 3 }, name: b"solver" });
    session.event(MAIN, &Event::Name { what: Named::Category { domain: 3, category: 4 }, name: b"io" });
    let mut rows = session.finish().sink.marks;
    rows.sort_by_key(|row| row.domain.clone());
    let got: Vec<_> = rows.iter().map(|row| (row.domain.as_deref(), row.category.as_deref())).collect();
    assert_eq!(got, [(Some("5"), None), (Some("solver"), Some("io"))]);
}

#[test]
fn unbalanced_deep_and_unclosed_ranges_are_all_told() {
    let mut session = Session::new(newest());
    for depth in 1..=100 {
        session.begin(range(depth), RangeId::from_raw(depth - 1), b"r", &[]);
    }
    session.launch(1, Some(range(100)), LAUNCH_KERNEL, 0);
    (51..=100).for_each(|depth| session.end(range(depth)));
    session.event(MAIN, &Event::Unbalanced { domain: 0, process: false, time: START });
    session.event(MAIN, &Event::Unbalanced { domain: 0, process: true, time: START });
    session.buffer(&[synthetic::kernel(newest(), 1, NOW, NOW + 10, 0)], &Strings::default());
    let Finished { sink, losses, .. } = session.finish();
    assert_eq!(sink.launches[0].work.range_path.as_deref(), Some(&*vec!["r"; 100].join("/")));
    assert_eq!(sink.ranges.len(), 100);
    for row in &sink.ranges {
        assert_eq!((row.n_launches, row.closed), (1, row.range > range(50)));
    }
    assert_eq!(losses.count(Cause::RangesOpenAtFinish), 50);
    assert_eq!((losses.count(Cause::UnbalancedPop), losses.count(Cause::UnbalancedEnd)), (1, 1));
}

#[test]
fn names_of_any_bytes_become_text() {
    let huge = vec![b'x'; 1 << 20];
    let names: [&[u8]; 6] = [b"\xff\xfe", b"a\0b", b"", &huge, "\u{1f980} \"quoted\"\n".as_bytes(), b"a/b"];
    let mut session = Session::new(newest());
    for (number, name) in (1..).zip(names) {
        session.begin(range(number), None, name, &[]);
        session.end(range(number));
    }
    let mut rows = session.finish().sink.ranges;
    rows.sort_by_key(|row| row.range);
    for (row, name) in rows.iter().zip(names) {
        assert_eq!(*row.name, *String::from_utf8_lossy(name));
    }
}

/// Reads the flat JSON objects that arguments become, strictly: pairs of a key and the text of a value.
fn read_json(json: &str) -> Option<Vec<(String, String)>> {
    fn text(rest: &str) -> Option<(String, &str)> {
        let mut characters = rest.strip_prefix('"')?.chars();
        let mut out = String::new();
        loop {
            match characters.next()? {
                '"' => return Some((out, characters.as_str())),
                '\\' => out.push(match characters.next()? {
                    'n' => '\n',
                    plain @ ('"' | '\\') => plain,
                    'u' => {
                        let (digits, rest) = characters.as_str().split_at_checked(4)?;
                        characters = rest.chars();
                        char::from_u32(u32::from_str_radix(digits, 16).ok()?)?
                    }
                    _ => return None,
                }),
                control if control < ' ' => return None,
                plain => out.push(plain),
            }
        }
    }
    fn is_number(text: &str) -> bool {
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let text = text.strip_prefix('-').unwrap_or(text);
        let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, "0"));
        digits(whole)
            && (whole == "0" || !whole.starts_with('0'))
            && digits(fraction)
            && digits(exponent.strip_prefix('-').unwrap_or(exponent))
    }
    let mut rest = json.strip_prefix('{')?;
    let mut pairs = Vec::new();
    loop {
        let (key, after) = text(rest)?;
        let after = after.strip_prefix(':')?;
        let (value, after) = if after.starts_with('"') {
            text(after)?
        } else {
            let end = after.find([',', '}'])?;
            let (value, after) = after.split_at(end);
            if value != "true" && value != "false" && !is_number(value) {
                return None;
            }
            (value.to_owned(), after)
        };
        pairs.push((key, value));
        match after.strip_prefix(',') {
            Some(next) => rest = next,
            None => return (after == "}").then_some(pairs),
        }
    }
}

fn args_of(args: &[Arg<'_>]) -> Option<String> {
    let mut session = Session::new(newest());
    session.begin(range(1), None, b"r", args);
    session.finish().sink.ranges.remove(0).args
}

#[test]
fn arguments_are_json_whatever_they_contain() {
    let hostile =
        "quote \" backslash \\ newline \n tab \t null \0 escape \u{1b} delete \u{7f} crab \u{1f980}";
    let args = [
        Arg::new(hostile, hostile),
        Arg::new("nan", f64::NAN),
        Arg::new("inf", f64::INFINITY),
        Arg::new("-inf", f64::NEG_INFINITY),
        Arg::new("huge", f64::MAX),
        Arg::new("tiny", 5e-324),
        Arg::new("minus zero", -0.0),
        Arg::new("most", u64::MAX),
        Arg::new("least", i64::MIN),
        Arg::new("yes", true),
        Arg::new("", ""),
    ];
    let json = args_of(&args).expect("there are arguments");
    let pairs = read_json(&json).unwrap_or_else(|| panic!("this is no JSON: {json}"));
    let pairs: Vec<(&str, &str)> = pairs.iter().map(|(key, value)| (&**key, &**value)).collect();
    let expected = [
        (hostile, hostile),
        ("nan", "NaN"),
        ("inf", "inf"),
        ("-inf", "-inf"),
        ("huge", "1.7976931348623157e308"),
        ("tiny", "5e-324"),
        ("minus zero", "-0.0"),
        ("most", "18446744073709551615"),
        ("least", "-9223372036854775808"),
        ("yes", "true"),
        ("", ""),
    ];
    assert_eq!(pairs, expected);
    assert_eq!(args_of(&[]), None);
}

proptest! {
    #[test]
    fn any_arguments_are_json(
        texts in proptest::collection::vec((any::<String>(), any::<String>()), 1..5),
        number in any::<f64>(),
    ) {
        let mut args: Vec<Arg<'_>> = texts.iter().map(|(key, value)| Arg::new(key, value)).collect();
        args.push(Arg { key: "number", value: ArgValue::F64(number) });
        let json = args_of(&args).expect("there are arguments");
        let pairs = read_json(&json);
        let mut expected = texts;
        expected.push(("number".into(), format!("{number:?}")));
        prop_assert_eq!(pairs, Some(expected), "{}", json);
    }
}
