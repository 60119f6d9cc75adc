//! A small program is made up at random, with what must come out of it. Its events and records are then delivered
//! in every way in which CUPTI and the threads may deliver them.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// What a made-up thread does.
#[derive(Clone, Copy, Debug)]
enum Step {
    Push,
    Pop,
    Launch,
    Graph,
    StartProcess,
    EndProcess,
}

fn any_program() -> impl Strategy<Value = Vec<Vec<Step>>> {
    let step = prop_oneof![
        4 => Just(Step::Push),
        4 => Just(Step::Pop),
        6 => Just(Step::Launch),
        1 => Just(Step::Graph),
        1 => Just(Step::StartProcess),
        1 => Just(Step::EndProcess),
    ];
    proptest::collection::vec(proptest::collection::vec(step, 0..40), 1..4)
}

/// Calls of the attributor, in the order of one thread.
#[derive(Clone, Debug)]
enum Call {
    Begin(Begin, ProcessEpoch),
    End(RangeId, Option<ProcessEpoch>),
    Launch(Launch),
}

/// One record and what must be found for it.
#[derive(Clone, Debug)]
struct Expected {
    origin: Origin,
    range: Option<RangeId>,
    path: Option<String>,
    members: Vec<RangeId>,
}

#[derive(Clone, Debug, Default)]
struct Program {
    threads: Vec<Vec<Call>>,
    records: Vec<Expected>,
    /// Kernels inside each range, nested ones included.
    totals: BTreeMap<RangeId, u64>,
}

const BASE: ProcessEpoch = ProcessEpoch(40);

fn run(threads: &[Vec<Step>]) -> Program {
    let mut program = Program { threads: vec![Vec::new(); threads.len()], ..Program::default() };
    let mut stacks: Vec<Vec<(RangeId, String)>> = vec![Vec::new(); threads.len()];
    let (mut next_range, mut correlation, mut epoch) = (0, 100, BASE.0);
    let mut open: Vec<RangeId> = Vec::new();
    let longest = threads.iter().map(Vec::len).max().unwrap_or(0);
    for index in 0..longest {
        for (thread, steps) in threads.iter().enumerate() {
            let Some(step) = steps.get(index) else { continue };
            let stack = &mut stacks[thread];
            let calls = &mut program.threads[thread];
            let mut begin = |kind, parent: Option<RangeId>| {
                next_range += 1;
                let range = RangeId::from_raw(next_range).expect("not 0");
                let name = format!("r{}", next_range % 5);
                let begin = Begin {
                    range,
                    kind,
                    parent,
                    name: name.as_str().into(),
                    domain: 0,
                    category: 0,
                    color: None,
                    payload: None,
                    args: None,
                    thread: ThreadId(thread as u32),
                    start_ns: 0,
                };
                (range, name, begin)
            };
            match step {
                Step::Push => {
                    let outer = stack.last().cloned();
                    let (range, name, begun) = begin(RangeKind::Own, outer.as_ref().map(|(range, _)| *range));
                    let path = outer.map_or(name.clone(), |(_, path)| format!("{path}/{name}"));
                    stack.push((range, path));
                    program.totals.insert(range, 0);
                    calls.push(Call::Begin(begun, ProcessEpoch(epoch)));
                }
                Step::Pop => {
                    if let Some((range, _)) = stack.pop() {
                        calls.push(Call::End(range, None));
                    }
                }
                Step::StartProcess => {
                    let (range, _, begun) = begin(RangeKind::Process, None);
                    epoch += 1;
                    open.push(range);
                    program.totals.insert(range, 0);
                    calls.push(Call::Begin(begun, ProcessEpoch(epoch)));
                }
                Step::EndProcess => {
                    if let Some(range) = open.pop() {
                        epoch += 1;
                        calls.push(Call::End(range, Some(ProcessEpoch(epoch))));
                    }
                }
                Step::Launch | Step::Graph => {
                    correlation += 1;
                    let graph = matches!(step, Step::Graph);
                    let innermost = stack.last().cloned();
                    calls.push(Call::Launch(Launch {
                        correlation: CorrelationId(correlation),
                        range: innermost.as_ref().map(|(range, _)| *range),
                        epoch: ProcessEpoch(epoch),
                        thread: ThreadId(thread as u32),
                        symbol: None,
                        time: Nanos(1),
                        many: graph,
                        graph,
                        due: !graph,
                    }));
                    for _ in 0..if graph { 3 } else { 1 } {
                        for range in stack.iter().map(|(range, _)| range).chain(&open) {
                            *program.totals.entry(*range).or_default() += 1;
                        }
                        program.records.push(Expected {
                            origin: Origin {
                                correlation: CorrelationId(correlation),
                                graph_node: graph,
                                device_launched: false,
                                start_ns: 2000,
                            },
                            range: innermost.as_ref().map(|(range, _)| *range),
                            path: innermost.as_ref().map(|(_, path)| path.clone()),
                            members: open.clone(),
                        });
                    }
                }
            }
        }
    }
    program
}

fn call(attributor: &mut Attributor, call: Call) {
    match call {
        Call::Begin(begin, epoch) => attributor.begin(begin, epoch),
        Call::End(range, epoch) => attributor.end(range, epoch, 10),
        Call::Launch(launch) => attributor.launch(launch),
    }
}

/// Delivers the threads' calls, each thread in its order, interleaved as `turns` say.
fn deliver(attributor: &mut Attributor, threads: Vec<Vec<Call>>, turns: &[usize]) {
    let mut queues: Vec<_> = threads.into_iter().map(Vec::into_iter).collect();
    for turn in turns {
        let index = turn % queues.len();
        if let Some(next) = queues[index].next() {
            call(attributor, next);
        }
    }
    for next in queues.into_iter().flatten() {
        call(attributor, next);
    }
}

const ONE: Totals = Totals { launches: 1, transfers: 0, gpu_sum_ns: 3, span: Some((2000, 2003)) };

fn check(attributor: &mut Attributor, expected: &Expected) -> Result<(), TestCaseError> {
    let link = attributor.attribute(expected.origin, ONE);
    prop_assert_eq!(link.range, expected.range);
    prop_assert_eq!(link.path.as_deref(), expected.path.as_deref());
    let attribution = if expected.range.is_some() { Attribution::Range } else { Attribution::NoRange };
    prop_assert_eq!(link.attribution, attribution);
    prop_assert_eq!(link.set.is_some(), !expected.members.is_empty());
    Ok(())
}

fn totals(settled: &[Settled]) -> BTreeMap<RangeId, u64> {
    settled.iter().map(|row| (row.begin.range, row.totals.launches)).collect()
}

proptest! {
    #[test]
    fn any_order_of_threads_and_records_gives_the_same(
        threads in any_program(),
        turns in proptest::collection::vec(0_usize..4, 0..120),
        order in any::<u64>(),
    ) {
        let mut program = run(&threads);
        let mut attributor = Attributor::new(Nanos(0), BASE);
        deliver(&mut attributor, program.threads, &turns);
        let count = program.records.len().max(1);
        program.records.rotate_left(order as usize % count);
        if order % 2 == 0 {
            program.records.reverse();
        }
        let mut rows = Vec::new();
        let mut sets = Vec::new();
        for expected in &program.records {
            check(&mut attributor, expected)?;
            attributor.advance();
            let (settled, set_rows) = attributor.take_rows();
            rows.extend(settled);
            sets.extend(set_rows);
        }
        let (settled, set_rows, counts) = attributor.finish(99);
        rows.extend(settled);
        sets.extend(set_rows);
        prop_assert_eq!(counts, Counts::default());
        prop_assert_eq!(totals(&rows), program.totals);
        prop_assert_eq!(attributor.ranges.len(), 0);
        // The relation of sets says for each launch which process ranges were open.
        for expected in &program.records {
            let link = attributor.sites.find(expected.origin.correlation);
            let Found::Site(site) = link else { continue };
            let members: Vec<_> =
                sets.iter().filter(|row| row.set == i64::from(site.epoch.0)).map(|row| row.range).collect();
            prop_assert_eq!(&members, &expected.members);
        }
    }

    #[test]
    fn losing_and_repeating_records_changes_nothing_else(
        threads in any_program(),
        fate in proptest::collection::vec(0_u8..4, 0..200),
    ) {
        let program = run(&threads);
        let mut attributor = Attributor::new(Nanos(0), BASE);
        deliver(&mut attributor, program.threads, &[]);
        let mut delivered: BTreeMap<RangeId, u64> = program.totals.keys().map(|range| (*range, 0)).collect();
        let mut rows = Vec::new();
        for (index, expected) in program.records.iter().enumerate() {
            for _ in 0..*fate.get(index).unwrap_or(&1) {
                let written_before = attributor.counts.range_row_incomplete;
                check(&mut attributor, expected)?;
                attributor.advance();
                rows.extend(attributor.take_rows().0);
                if let Some(range) = expected.range {
                    let late = attributor.counts.range_row_incomplete - written_before;
                    *delivered.entry(range).or_default() += u64::from(late == 0);
                }
            }
        }
        let (settled, _, counts) = attributor.finish(99);
        rows.extend(settled);
        prop_assert_eq!(rows.len(), program.totals.len(), "each range has one row");
        prop_assert_eq!(counts.range_begin_lost, 0);
    }

    #[test]
    fn losing_events_is_counted_and_harms_no_other_launch(
        threads in any_program(),
        lost in proptest::collection::vec(any::<bool>(), 1..200),
    ) {
        let program = run(&threads);
        let mut attributor = Attributor::new(Nanos(0), BASE);
        let mut missing = std::collections::BTreeSet::new();
        let mut index = 0;
        for next in program.threads.into_iter().flatten() {
            index += 1;
            if lost[index % lost.len()] && index % 3 == 0 {
                if let Call::Launch(launch) = &next {
                    missing.insert(launch.correlation);
                }
                continue;
            }
            call(&mut attributor, next);
        }
        for expected in &program.records {
            let link = attributor.attribute(expected.origin, ONE);
            if missing.contains(&expected.origin.correlation) {
                prop_assert!(matches!(
                    link.attribution,
                    Attribution::LaunchNotSeen | Attribution::LaunchedBeforeStart
                ));
            } else {
                prop_assert_eq!(link.range, expected.range);
            }
        }
        attributor.finish(99);
    }
}

fn launch(correlation: u32, range: Option<RangeId>) -> Launch {
    Launch {
        correlation: CorrelationId(correlation),
        range,
        epoch: BASE,
        thread: ThreadId(1),
        symbol: None,
        time: Nanos(5),
        many: false,
        graph: false,
        due: true,
    }
}

fn begin_of(range: RangeId) -> Begin {
    Begin {
        range,
        kind: RangeKind::Own,
        parent: None,
        name: "capture".into(),
        domain: 0,
        category: 0,
        color: None,
        payload: None,
        args: None,
        thread: ThreadId(1),
        start_ns: 0,
    }
}

fn origin(correlation: u32) -> Origin {
    let correlation = CorrelationId(correlation);
    Origin { correlation, graph_node: false, device_launched: false, start_ns: 2000 }
}

#[test]
fn work_from_before_the_session_says_so() {
    let mut attributor = Attributor::new(Nanos(1000), BASE);
    assert_eq!(attributor.attribute(origin(3), ONE).attribution, Attribution::LaunchedBeforeStart);
    attributor.launch(launch(10, None));
    assert_eq!(attributor.attribute(origin(9), ONE).attribution, Attribution::LaunchedBeforeStart);
    assert_eq!(attributor.attribute(origin(11), ONE).attribution, Attribution::LaunchNotSeen);
    let early = Origin { start_ns: 900, ..origin(11) };
    assert_eq!(attributor.attribute(early, ONE).attribution, Attribution::LaunchedBeforeStart);
}

#[test]
fn a_graph_record_of_a_plain_launch_is_flagged() {
    let mut attributor = Attributor::new(Nanos(0), BASE);
    attributor.launch(launch(1, None));
    let link = attributor.attribute(Origin { graph_node: true, ..origin(1) }, ONE);
    assert_eq!(link.attribution, Attribution::GraphUnmapped);
}

#[test]
fn launches_that_are_only_captured_do_not_pile_up() {
    let mut attributor = Attributor::new(Nanos(0), BASE);
    for id in 0..1_000_000_u32 {
        let range = RangeId::from_raw(u64::from(id) + 1).expect("not 0");
        attributor.begin(begin_of(range), BASE);
        attributor.launch(launch(id, Some(range)));
        attributor.end(range, None, 1);
        attributor.advance();
        attributor.take_rows();
    }
    let (sites, ranges) = attributor.peaks();
    assert!(sites < 600_000 && ranges < 140_000, "{sites} launches and {ranges} ranges were held");
    let (_, _, counts) = attributor.finish(2);
    assert_eq!(counts.calls_without_record, 1_000_000);
    assert_eq!(counts.launches_without_record, 1_000_000);
}

#[test]
fn only_a_launch_that_should_have_a_record_lacks_one() {
    let mut attributor = Attributor::new(Nanos(0), BASE);
    attributor.launch(launch(1, None));
    attributor.attribute(origin(1), ONE);
    attributor.launch(Launch { due: false, ..launch(2, None) });
    attributor.launch(launch(3, None));
    attributor.launch_failed(CorrelationId(3));
    attributor.launch_failed(CorrelationId(99)); // nobody has heard of that one
    attributor.launch(launch(4, None));
    // Its id is used again: what was under it before lacks one, too.
    attributor.launch(launch(4, None));
    let (_, _, counts) = attributor.finish(9);
    assert_eq!((counts.calls_without_record, counts.launches_without_record), (4, 2));
}

#[test]
fn launches_that_may_have_been_captured_lack_no_record() {
    let mut attributor = Attributor::new(Nanos(0), BASE);
    let at = |id, time| Launch { time: Nanos(time), ..launch(id, None) };
    attributor.launch(at(1, 10));
    attributor.launch(at(1, 11)); // the one before is counted at once, as its id is used again
    attributor.may_be_captured_until(Nanos(20));
    // Of a thread whose events come later.
    attributor.launch(at(2, 20));
    attributor.launch(at(3, 21));
    attributor.may_be_captured_until(Nanos(15));
    let (_, _, counts) = attributor.finish(99);
    assert_eq!((counts.calls_without_record, counts.launches_without_record), (4, 1));
}

#[test]
fn work_launched_from_the_device_adds_nothing_to_the_range_of_another_launch() {
    let mut attributor = Attributor::new(Nanos(0), BASE);
    let range = RangeId::from_raw(7);
    attributor.launch(launch(1, range));
    let link = attributor.attribute(Origin { device_launched: true, ..origin(1) }, ONE);
    assert_eq!((link.attribution, link.range), (Attribution::DeviceLaunched, None));
    let link = attributor.attribute(origin(1), ONE);
    assert_eq!((link.attribution, link.range), (Attribution::Range, range));
    assert_eq!(attributor.finish(9).2.launches_without_record, 0);
}

#[test]
fn the_range_of_a_graph_is_written_when_the_graph_has_been_quiet_for_long() {
    let mut attributor = Attributor::new(Nanos(0), BASE);
    let range = RangeId::from_raw(1).expect("not 0");
    attributor.begin(begin_of(range), BASE);
    attributor.launch(Launch { many: true, graph: true, ..launch(1, Some(range)) });
    attributor.end(range, None, 1);
    let node = Origin { graph_node: true, ..origin(1) };
    let rounds = |attributor: &mut Attributor, now: i64| {
        attributor.now_is(Nanos(now));
        (0..4).for_each(|_| attributor.advance());
        attributor.take_rows().0.len()
    };
    assert_eq!(rounds(&mut attributor, 3 * QUIET_NS), 0, "no record has come yet");
    attributor.attribute(node, ONE);
    assert_eq!(rounds(&mut attributor, 7 * QUIET_NS / 2), 0);
    attributor.attribute(node, ONE);
    assert_eq!(rounds(&mut attributor, 4 * QUIET_NS), 0, "its latest record came half the time ago");
    assert_eq!(rounds(&mut attributor, 0), 0, "a clock that is set back");
    assert_eq!(rounds(&mut attributor, 5 * QUIET_NS), 1);
    let late = attributor.attribute(node, ONE);
    assert_eq!((late.attribution, late.range), (Attribution::Range, Some(range)));
    assert_eq!(attributor.finish(99).2.range_row_incomplete, 1);
}

#[test]
fn a_record_that_comes_after_its_set_was_forgotten_is_counted() {
    let mut attributor = Attributor::new(Nanos(0), BASE);
    let range = RangeId::from_raw(7).expect("not 0");
    let (opened, closed) = (ProcessEpoch(BASE.0 + 1), ProcessEpoch(BASE.0 + 2));
    let begin = Begin { kind: RangeKind::Process, name: "epoch".into(), ..begin_of(range) };
    attributor.begin(begin, opened);
    attributor.launch(Launch { epoch: opened, ..launch(1, None) });
    attributor.end(range, Some(closed), 10);
    attributor.attribute(origin(1), ONE);
    (0..5).for_each(|_| attributor.advance());
    assert_eq!(attributor.take_rows().0.len(), 1);
    attributor.attribute(origin(1), ONE);
    assert_eq!(attributor.finish(99).2.range_row_incomplete, 1);
}

#[test]
fn process_ranges_that_nobody_ends_cost_no_more_than_their_number() {
    const STARTED: u32 = 20_000;
    const TOLD_APART: u64 = 64;
    let mut attributor = Attributor::new(Nanos(0), BASE);
    let mut sets = 0;
    for number in 1..=STARTED {
        let range = RangeId::from_raw(number.into()).expect("not 0");
        let epoch = ProcessEpoch(BASE.0 + number);
        attributor.begin(Begin { kind: RangeKind::Process, ..begin_of(range) }, epoch);
        attributor.launch(Launch { epoch, ..launch(number, None) });
        attributor.attribute(origin(number), ONE);
        attributor.advance();
        sets += attributor.take_rows().1.len();
    }
    assert!(sets as u64 <= u64::from(STARTED) * TOLD_APART);
    let (rows, _, counts) = attributor.finish(99);
    assert_eq!(rows.len(), STARTED as usize, "each range has its row");
    assert_eq!(counts.process_range_left_out, u64::from(STARTED) - TOLD_APART);
}
