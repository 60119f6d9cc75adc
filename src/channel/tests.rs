//! Tests of the rings and of the form of events.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, Mutex, MutexGuard, PoisonError};

use proptest::prelude::*;

use super::clock::{Stamp, Timeline};
use super::event::{Arg, ArgValue, Args, Event, Named, Payload, RangeKind};
use super::registry::DEFAULT_RING_BYTES;
use super::ring::{MAX_EVENT_BYTES, Pushed, Ring};
use super::wire::{append, decode, place_in_time};
use super::{Session, ThreadMeta, begin_session, drain, dropped, end_session, log, memory_bytes};
use crate::units::{CorrelationId, Nanos, ProcessEpoch, RangeId, SymbolId};

/// A session that a test has for itself: tests that log wait for one another here.
pub(crate) struct TestSession {
    pub session: Session,
    _alone: MutexGuard<'static, ()>,
}

/// No session runs while this lives: for tests that log without wanting to be in another test's session.
pub(crate) fn no_session() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl TestSession {
    pub fn begin() -> Self {
        let alone = no_session();
        Self { session: begin_session(std::thread::current()), _alone: alone }
    }

    /// Ends the session and begins another, while no other test can.
    pub fn again(&mut self) {
        end_session();
        self.session = begin_session(std::thread::current());
    }

    pub fn drain(&self) -> Vec<(ThreadMeta, Vec<u8>)> {
        let mut runs = Vec::new();
        drain(|thread, run| runs.push((thread.clone(), run.to_vec())));
        runs
    }
}

impl Drop for TestSession {
    fn drop(&mut self) {
        end_session();
    }
}

/// The events of all drained runs.
pub(crate) fn events(runs: &[(ThreadMeta, Vec<u8>)]) -> Vec<Event<'_>> {
    runs.iter().flat_map(|(_, run)| decode(run)).map(|event| event.unwrap()).collect()
}

fn launch(correlation: u32) -> Event<'static, Stamp> {
    launch_at(Stamp(1), correlation)
}

fn launch_at<T>(time: T, correlation: u32) -> Event<'static, T> {
    let correlation = CorrelationId(correlation);
    Event::Launch {
        correlation,
        range: None,
        epoch: ProcessEpoch(0),
        cbid: 307,
        symbol: None,
        is_recorded: true,
        time,
    }
}

fn named<T>(name: &[u8]) -> Event<'_, T> {
    Event::Name { what: Named::Thread { tid: 1 }, name }
}

fn drained(ring: &Ring, tag: u16) -> Vec<u8> {
    let mut run = Vec::new();
    drain_into(&mut run, ring, tag);
    run
}

/// Drains a ring whose stamps are times.
fn drain_into(run: &mut Vec<u8>, ring: &Ring, tag: u16) {
    ring.drain(ring.head(), tag, &Timeline::new(), run);
}

fn correlations(run: &[u8]) -> Vec<u32> {
    let correlation = |event| match event {
        Ok(Event::Launch { correlation, .. }) => correlation.0,
        other => panic!("{other:?}"),
    };
    decode(run).map(correlation).collect()
}

fn any_payload() -> impl Strategy<Value = Payload> {
    prop_oneof![
        Just(Payload::None),
        any::<u64>().prop_map(Payload::U64),
        any::<i64>().prop_map(Payload::I64),
        (-1e300..1e300).prop_map(Payload::F64),
    ]
}

/// An argument with its text, which the `Arg` then borrows.
#[derive(Clone, Debug)]
struct OwnedArg(String, u8, u64, String);

impl OwnedArg {
    fn borrow(&self) -> Arg<'_> {
        let Self(key, which, bits, text) = self;
        let value = match which % 5 {
            0 => ArgValue::U64(*bits),
            1 => ArgValue::I64(bits.cast_signed()),
            2 => ArgValue::F64(*bits as f64),
            3 => ArgValue::Bool(bits % 2 == 0),
            _ => ArgValue::Str(text),
        };
        Arg { key, value }
    }
}

fn any_args() -> impl Strategy<Value = Vec<OwnedArg>> {
    let arg = (".{0,12}", any::<u8>(), any::<u64>(), ".{0,40}").prop_map(|(k, w, b, t)| OwnedArg(k, w, b, t));
    prop::collection::vec(arg, 0..5)
}

/// The events that can be made of these values, one of each kind.
fn all_events(
    ((a, b, c), time): ((u64, u32, u32), Nanos),
    color: Option<u32>,
    payload: Payload,
    name: &[u8],
    args: &[OwnedArg],
    out: impl FnOnce(&[Event<'_>]),
) {
    let range = RangeId::from_raw(a.max(1)).unwrap();
    let (parent, epoch) = (RangeId::from_raw(a / 2), ProcessEpoch(b));
    let args: Vec<_> = args.iter().map(OwnedArg::borrow).collect();
    let kind = [RangeKind::Stack, RangeKind::Process, RangeKind::Own][b as usize % 3];
    let (domain, category) = (b, c);
    let begin = Event::Begin {
        range,
        kind,
        parent,
        epoch,
        domain,
        category,
        color,
        payload,
        time,
        name,
        args: Args::Borrowed(&args),
    };
    out(&[
        Event::Launch {
            correlation: CorrelationId(b),
            range: parent,
            epoch,
            cbid: c,
            symbol: SymbolId::from_raw(c),
            is_recorded: c % 2 == 0,
            time,
        },
        Event::LaunchFailed { correlation: CorrelationId(b) },
        Event::UnseenCaptureEnded { time },
        Event::InternalLaunch { correlation: CorrelationId(b), time },
        begin,
        Event::End { range, epoch: (b % 3 == 0).then_some(epoch), time },
        Event::Mark { range: parent, domain, category, color, payload, time, name },
        Event::Unbalanced { domain, process: b % 2 == 0, time },
        Event::Name { what: Named::Domain { domain }, name },
        Event::Name { what: Named::Category { domain, category }, name },
        Event::Name { what: Named::Thread { tid: b }, name },
        Event::Name { what: Named::Symbol { symbol: SymbolId::from_raw(c | 1).expect("not 0") }, name },
    ]);
}

proptest! {
    #[test]
    fn what_is_encoded_is_decoded(
        numbers: (u64, u32, u32),
        color: Option<u32>,
        payload in any_payload(),
        name in prop::collection::vec(any::<u8>(), 0..100),
        args in any_args(),
    ) {
        all_events((numbers, Nanos(numbers.0.cast_signed())), color, payload, &name, &args, |events| {
            let mut run = Vec::new();
            events.iter().for_each(|event| append(event, &mut run));
            let decoded: Vec<_> = decode(&run).map(|event| event.unwrap()).collect();
            assert_eq!(decoded, events);
        });
    }

    #[test]
    fn only_the_time_of_an_event_is_placed(
        numbers: (u64, u32, u32),
        color: Option<u32>,
        payload in any_payload(),
        name in prop::collection::vec(any::<u8>(), 0..40),
        args in any_args(),
    ) {
        let timeline = Timeline::between((1_000, Nanos(17_000)), (2_000, Nanos(18_000)));
        let records = |time| {
            let mut records = Vec::new();
            all_events((numbers, time), color, payload, &name, &args, |events| {
                for event in events {
                    records.push(Vec::new());
                    append(event, records.last_mut().unwrap());
                }
            });
            records
        };
        let mut stamped = records(Nanos(1_500));
        stamped.iter_mut().for_each(|record| place_in_time(record, &timeline));
        assert_eq!(stamped, records(Nanos(17_500)));
    }

    #[test]
    fn a_ring_delivers_what_was_pushed_whatever_the_interleaving(
        numbers: (u64, u32, u32),
        name in prop::collection::vec(any::<u8>(), 0..5000),
        args in any_args(),
        drains in prop::collection::vec(any::<bool>(), 40),
    ) {
        let ring = Ring::new(2048);
        let (mut expected, mut run) = (Vec::new(), Vec::new());
        let mut drains = drains.into_iter();
        all_events((numbers, Nanos(numbers.0.cast_signed())), None, Payload::None, &name, &args, |events| {
            for event in events.iter().cycle().take(40) {
                if ring.push(7, event) != Pushed::Dropped {
                    append(event, &mut expected);
                }
                if drains.next() == Some(true) {
                    drain_into(&mut run, &ring, 7);
                }
            }
        });
        drain_into(&mut run, &ring, 7);
        assert_eq!(run, expected);
    }

    #[test]
    fn arbitrary_bytes_decode_to_events_or_errors_and_end(run in prop::collection::vec(any::<u8>(), 0..400)) {
        decode(&run).for_each(drop);
    }

    #[test]
    fn damaged_records_decode_to_events_or_errors_and_end(
        numbers: (u64, u32, u32),
        name in prop::collection::vec(any::<u8>(), 0..40),
        args in any_args(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut run = Vec::new();
        all_events((numbers, Nanos(numbers.0.cast_signed())), Some(1), Payload::None, &name, &args, |events| {
            events.iter().for_each(|event| append(event, &mut run));
        });
        for (at, byte) in damage {
            let at = at.index(run.len());
            run[at] = byte;
        }
        decode(&run).for_each(drop);
    }
}

#[test]
fn a_record_of_unknown_kind_is_one_error_and_the_next_record_follows() {
    let mut run = Vec::new();
    append(&launch_at(Nanos(1), 1), &mut run);
    run[4] = 99;
    append(&launch_at(Nanos(1), 2), &mut run);
    let decoded: Vec<_> = decode(&run).collect();
    assert!(matches!(decoded[..], [Err(_), Ok(Event::Launch { .. })]));
}

#[test]
fn a_full_ring_drops_counts_and_goes_on_after_a_drain() {
    let ring = Ring::new(64); // twelve launches of five words
    let pushed: Vec<_> = (0..20).map(|n| ring.push(1, &launch(n))).collect();
    assert_eq!(pushed.iter().filter(|&&pushed| pushed == Pushed::Dropped).count(), 8);
    assert_eq!(pushed.iter().filter(|&&pushed| pushed == Pushed::Pressing).count(), 1);
    assert_eq!(correlations(&drained(&ring, 1)), (0..12).collect::<Vec<_>>());
    assert_eq!(ring.push(1, &launch(20)), Pushed::Stored);
    assert_eq!(correlations(&drained(&ring, 1)), [20]);
}

#[test]
fn records_of_another_session_are_forgotten() {
    let ring = Ring::new(4096);
    let long = vec![b'x'; 10_000];
    ring.push(1, &launch(1));
    ring.push(1, &named::<Stamp>(&long));
    ring.push(2, &launch(2));
    let longer = vec![b'y'; 20_000];
    ring.push(2, &named::<Stamp>(&longer));
    let run = drained(&ring, 2);
    let events: Vec<_> = decode(&run).map(|event| event.unwrap()).collect();
    assert!(matches!(events[..], [Event::Launch { correlation: CorrelationId(2), .. }, _]), "{events:?}");
    assert_eq!(events[1], named(&longer), "not what the other session left");
    assert!(drained(&ring, 1).is_empty());
}

#[test]
fn names_of_any_length_arrive_whole_up_to_the_limit() {
    let ring = Ring::new(4096);
    for len in [0, 1, 7, 8, 9, 4095, 4096, 4097, 100_000, 1 << 20] {
        let name: Vec<u8> = (0..len).map(|n| n as u8).collect();
        assert_ne!(ring.push(3, &named::<Stamp>(&name)), Pushed::Dropped);
        let run = drained(&ring, 3);
        let events: Vec<_> = decode(&run).map(|event| event.unwrap()).collect();
        assert_eq!(events, [named(&name)]);
    }
    assert_eq!(ring.push(3, &named::<Stamp>(&vec![0; MAX_EVENT_BYTES])), Pushed::Dropped);
}

#[test]
fn only_so_many_long_names_wait_at_once() {
    let ring = Ring::new(4096);
    let name = vec![b'n'; 8192];
    let stored = (0..100).filter(|_| ring.push(1, &named::<Stamp>(&name)) != Pushed::Dropped).count();
    assert_eq!(stored, 32);
    assert_eq!(decode(&drained(&ring, 1)).count(), 32);
    assert_ne!(ring.push(1, &named::<Stamp>(&name)), Pushed::Dropped);
    drained(&ring, 1);
}

#[test]
fn a_producer_and_a_consumer_at_full_speed_lose_only_what_was_dropped() {
    const EVENTS: u32 = 200_000;
    let ring = Arc::new(Ring::new(512));
    let done = Arc::new(AtomicBool::new(false));
    let producer = std::thread::spawn({
        let (ring, done) = (Arc::clone(&ring), Arc::clone(&done));
        let long = vec![b'x'; 6000];
        move || {
            let mut kept = Vec::new();
            for n in 0..EVENTS {
                if ring.push(5, &launch(n)) != Pushed::Dropped {
                    kept.push(n);
                }
                if n % 5000 == 0 {
                    ring.push(5, &named::<Stamp>(&long));
                }
            }
            // ATOMICS: pairs with the acquire load below, so that the last drain sees every event.
            done.store(true, Ordering::Release);
            kept
        }
    });
    let (mut run, mut last) = (Vec::new(), false);
    while !last {
        // ATOMICS: pairs with the release store above.
        last = done.load(Ordering::Acquire);
        drain_into(&mut run, &ring, 5);
    }
    let seen: Vec<_> = decode(&run)
        .filter_map(|event| match event.unwrap() {
            Event::Launch { correlation, .. } => Some(correlation.0),
            _ => None,
        })
        .collect();
    assert_eq!(seen, producer.join().unwrap());
}

#[test]
fn each_threads_events_arrive_in_order_under_its_name_even_after_it_has_exited() {
    let test = TestSession::begin();
    let session = test.session;
    let spawn = |name: &str, first: u32| {
        let log_all = move || (first..first + 100).for_each(|n| log(session, &launch(n)));
        std::thread::Builder::new().name(name.to_owned()).spawn(log_all).unwrap()
    };
    for thread in [spawn("one", 1000), spawn("two", 2000)] {
        thread.join().unwrap();
    }
    let runs = test.drain();
    for (name, first) in [("one", 1000), ("two", 2000)] {
        let (_, run) = runs.iter().find(|(thread, _)| thread.name.as_deref() == Some(name)).unwrap();
        assert_eq!(correlations(run), (first..first + 100).collect::<Vec<_>>());
    }
}

#[test]
fn rings_of_exited_threads_are_used_again() {
    let test = TestSession::begin();
    let session = test.session;
    let one_thread = || {
        std::thread::spawn(move || log(session, &launch(1))).join().unwrap();
        test.drain();
    };
    one_thread();
    let before = memory_bytes();
    (0..50).for_each(|_| one_thread());
    // Other tests' spilled names come and go meanwhile, a few rings' worth.
    assert!(memory_bytes() < before + 20 * DEFAULT_RING_BYTES);
}

#[test]
fn events_that_find_no_room_are_counted_by_kind() {
    let test = TestSession::begin();
    let session = test.session;
    let (launches, told) = (100_000, 10);
    std::thread::spawn(move || {
        (0..launches).for_each(|n| log(session, &launch(n)));
        log(session, &named(b"this one finds no room either, the ring is full"));
        // What is told of launches counts as such; several, for the first may just fit.
        for n in 0..told {
            let correlation = CorrelationId(n);
            log(session, &Event::LaunchFailed { correlation });
            log(session, &Event::InternalLaunch { correlation, time: Stamp::now() });
            log(session, &Event::UnseenCaptureEnded { time: Stamp::now() });
        }
    })
    .join()
    .unwrap();
    let kept = events(&test.drain()).len() as u64;
    assert_eq!(dropped().launches, u64::from(launches + 3 * told) - kept);
    assert_eq!(dropped().range_events, 1);
}

#[test]
fn a_new_session_starts_with_empty_rings_and_counters() {
    let mut test = TestSession::begin();
    log(test.session, &launch(1));
    super::count_dropped(true);
    let earlier = test.session;
    test.again();
    log(earlier, &launch(2)); // a thread that was slower than the end of its session
    log(test.session, &launch(3));
    let runs = test.drain();
    assert_eq!(correlations(&runs[0].1), [3]);
    assert_eq!(dropped().launches, 0);
}

#[test]
fn a_ring_that_becomes_half_full_wakes_the_worker() {
    let test = TestSession::begin();
    let session = test.session;
    let full = Arc::new(Barrier::new(2));
    let producer = std::thread::spawn({
        let full = Arc::clone(&full);
        move || {
            (0..4000).for_each(|n| log(session, &launch(n)));
            full.wait();
        }
    });
    std::thread::park(); // returns because of the wake (or by chance, which the count below would show)
    full.wait();
    assert_eq!(events(&test.drain()).len(), 4000);
    producer.join().unwrap();
}
