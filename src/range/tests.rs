//! Tests of guards, handles and process ranges.

use crate::channel::tests::{TestSession, events};
use crate::channel::{Arg, ArgValue, Event, RangeKind, Session};
use crate::range::{in_range, internally, log_launch, process_range, stack};
use crate::units::{CorrelationId, ProcessEpoch, RangeId};

/// The parts of begin events that most tests ask for.
fn begins<'a>(events: &'a [Event<'a>]) -> Vec<(&'a str, RangeId, Option<RangeId>)> {
    let begin = |event: &'a Event<'a>| match event {
        Event::Begin { name, range, parent, .. } => Some((str::from_utf8(name).unwrap(), *range, *parent)),
        _ => None,
    };
    events.iter().filter_map(begin).collect()
}

fn ends(events: &[Event<'_>]) -> Vec<RangeId> {
    let end = |event: &Event<'_>| match event {
        Event::End { range, .. } => Some(*range),
        _ => None,
    };
    events.iter().filter_map(end).collect()
}

fn launches(events: &[Event<'_>]) -> Vec<(u32, Option<RangeId>, ProcessEpoch)> {
    let launch = |event: &Event<'_>| match event {
        Event::Launch { correlation, range, epoch, .. } => Some((correlation.0, *range, *epoch)),
        _ => None,
    };
    events.iter().filter_map(launch).collect()
}

fn launch(correlation: u32) {
    log_launch(CorrelationId(correlation), true, 307, 0, || b"");
}

#[test]
fn a_launch_belongs_to_the_innermost_range_of_its_thread() {
    let test = TestSession::begin();
    launch(1);
    {
        let _outer = crate::range!("outer");
        launch(2);
        in_range("inner", || launch(3));
        launch(4);
    }
    launch(5);
    let runs = test.drain();
    let events = events(&runs);
    let [("outer", outer, None), ("inner", inner, Some(parent))] = begins(&events)[..] else {
        panic!("{events:?}")
    };
    assert_eq!(parent, outer);
    let ranges: Vec<_> = launches(&events).into_iter().map(|(_, range, _)| range).collect();
    assert_eq!(ranges, [None, Some(outer), Some(inner), Some(outer), None]);
    assert_eq!(ends(&events), [inner, outer]);
}

#[test]
fn what_the_crate_launches_itself_is_in_no_range() {
    let test = TestSession::begin();
    {
        let _range = crate::range!("measured");
        launch(1);
        internally(|| launch(2));
        let panicked = std::panic::catch_unwind(|| internally(|| panic!("inside")));
        assert!(panicked.is_err());
        launch(3);
        internally(|| std::thread::spawn(|| launch(4)).join()).expect("it launched");
    }
    let runs = test.drain();
    let events = events(&runs);
    let internal: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            Event::InternalLaunch { correlation, .. } => Some(correlation.0),
            _ => None,
        })
        .collect();
    assert_eq!(internal, [2]);
    let mut others: Vec<_> = launches(&events).into_iter().map(|(correlation, ..)| correlation).collect();
    others.sort_unstable();
    assert_eq!(others, [1, 3, 4], "the calls of the program, on any thread");
}

#[test]
fn arguments_keep_their_types() {
    let test = TestSession::begin();
    let text = String::from("fp16");
    drop(crate::range!(
        "gemm",
        n = 7_u8,
        m = -7_i32,
        beta = 0.5_f32,
        t = true,
        kind = "a",
        precision = &text
    ));
    let runs = test.drain();
    let events = events(&runs);
    let Event::Begin { kind: RangeKind::Own, args, .. } = &events[0] else { panic!("{events:?}") };
    let expected = [
        Arg::new("n", 7_u64),
        Arg::new("m", -7_i64),
        Arg::new("beta", 0.5),
        Arg::new("t", true),
        Arg::new("kind", "a"),
        Arg { key: "precision", value: ArgValue::Str("fp16") },
    ];
    assert_eq!(args[..], expected);
}

#[test]
fn arguments_are_not_evaluated_without_a_session() {
    let mut evaluated = 0;
    let mut count = || {
        evaluated += 1;
        evaluated
    };
    {
        let _test = TestSession::begin();
        let _range = crate::range!("seen", n = count());
        crate::channel::end_session();
        let _range = crate::range!("unseen", n = count());
    }
    assert_eq!(evaluated, 1);
}

#[test]
fn guards_may_be_dropped_out_of_order() {
    let test = TestSession::begin();
    let outer = crate::range!("outer");
    let inner = crate::range!("inner");
    drop(outer);
    launch(1);
    drop(inner);
    launch(2);
    let runs = test.drain();
    let events = events(&runs);
    let (_, inner, _) = begins(&events)[1];
    let ranges: Vec<_> = launches(&events).into_iter().map(|(_, range, _)| range).collect();
    assert_eq!(ranges, [Some(inner), None]);
}

#[test]
fn a_handle_carries_a_range_to_other_threads() {
    let test = TestSession::begin();
    let range = crate::range!("shared");
    let handle = range.handle();
    let work = |n| {
        move || {
            launch(n);
            let entered = handle.enter();
            launch(n + 1);
            drop(entered);
            launch(n + 2);
        }
    };
    for thread in [std::thread::spawn(work(10)), std::thread::spawn(work(20))] {
        thread.join().unwrap();
    }
    let runs = test.drain();
    let events = events(&runs);
    let [("shared", shared, None)] = begins(&events)[..] else { panic!("{events:?}") };
    for (correlation, range, _) in launches(&events) {
        assert_eq!(range, (correlation % 10 == 1).then_some(shared));
    }
}

#[test]
fn process_ranges_count_the_changes_of_their_set_and_may_end_on_another_thread() {
    let test = TestSession::begin();
    launch(0);
    let first = process_range("first");
    launch(1);
    let second = process_range("second");
    launch(2);
    std::thread::spawn(move || first.end()).join().unwrap();
    launch(3);
    drop(second);
    launch(4);
    let runs = test.drain();
    let events = events(&runs);
    let epochs: Vec<_> = launches(&events).into_iter().map(|(_, _, epoch)| epoch.0).collect();
    let base = epochs[0];
    assert_eq!(epochs, [base, base + 1, base + 2, base + 3, base + 4]);
    let mut changes: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            Event::Begin { kind: RangeKind::Process, epoch, .. } | Event::End { epoch: Some(epoch), .. } => {
                Some(epoch.0)
            }
            _ => None,
        })
        .collect();
    changes.sort_unstable();
    assert_eq!(changes, [base + 1, base + 2, base + 3, base + 4]);
}

#[test]
fn ranges_of_an_earlier_session_touch_nothing_of_the_next() {
    let mut test = TestSession::begin();
    let stale = crate::range!("stale");
    let stale_handle = stale.handle();
    let stale_process = process_range("stale process");
    test.again();
    launch(1);
    let entered = stale_handle.enter();
    launch(2);
    let _fresh = crate::range!("fresh");
    drop(entered);
    drop(stale);
    drop(stale_process);
    launch(3);
    let runs = test.drain();
    let events = events(&runs);
    let [("fresh", fresh, None)] = begins(&events)[..] else { panic!("{events:?}") };
    let ranges: Vec<_> = launches(&events).into_iter().map(|(_, range, _)| range).collect();
    assert_eq!(ranges, [None, None, Some(fresh)]);
    assert_eq!(ends(&events), []);
}

#[test]
fn a_hundred_deep_nesting_keeps_every_parent() {
    let test = TestSession::begin();
    let guards: Vec<_> = (0..100).map(|_| crate::range!("deep")).collect();
    guards.into_iter().rev().for_each(drop);
    let runs = test.drain();
    let events = events(&runs);
    let begins = begins(&events);
    assert!(begins.windows(2).all(|pair| pair[1].2 == Some(pair[0].1)));
    assert_eq!(ends(&events), begins.iter().rev().map(|begin| begin.1).collect::<Vec<_>>());
}

#[test]
fn nesting_without_end_is_bounded_and_counted() {
    let test = TestSession::begin();
    let session: Session = test.session;
    std::thread::spawn(move || {
        let range = super::ids::next_range();
        let push = |_| stack::push(session, range, stack::Owner::Domain(0)).is_ok();
        let pushed = (0..stack::MAX_DEPTH + 3).map(push).filter(|&pushed| pushed).count();
        assert_eq!(pushed, stack::MAX_DEPTH);
    })
    .join()
    .unwrap();
}

#[test]
fn ranges_may_be_used_while_a_thread_exits() {
    struct AtExit;
    impl Drop for AtExit {
        fn drop(&mut self) {
            in_range("at exit", || launch(1));
        }
    }
    thread_local!(static AT_EXIT: AtExit = const { AtExit });
    let _test = TestSession::begin();
    // Registered first, so destroyed last: after the ring and the stack.
    std::thread::spawn(|| {
        AT_EXIT.with(|_| ());
        in_range("early", || launch(0));
    })
    .join()
    .unwrap();
}
