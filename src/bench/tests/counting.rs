//! Counters: in passes of their own, combined by their own rules, and beside times that do not suffer from them.

use std::cell::RefCell;

use super::super::measured::combined;
use super::super::{Bench, DURATION, Purpose};
use super::{Gpu, TestOutcome, values};
use crate::error::ErrorKind;

const BYTES: &str = "dram__bytes_read.sum";

#[test]
fn counters_come_after_all_times_and_in_runs_of_their_own() -> TestOutcome {
    let gpu = Gpu::default();
    gpu.counts("work", BYTES, 4_096.0);
    let purposes = RefCell::new(Vec::new());
    let bench = Bench::new("counted").configs([1, 2]).warm_up(0).runs(2).metrics([DURATION, BYTES]);
    let bench =
        bench.derive("bandwidth", "bytes/ns", |m, _| m.value(BYTES).map(|bytes| bytes / m.duration_ns()));
    let report = gpu.run(bench, |run, _| {
        purposes.borrow_mut().push(run.purpose());
        run.measure("work", || gpu.launch("k", 1_024));
    })?;
    let expected = [[Purpose::Timing; 4], [Purpose::Counting; 4]].concat();
    assert_eq!(purposes.into_inner(), expected);
    assert_eq!(
        gpu.log().iter().skip_while(|call| *call != "stop").cloned().collect::<Vec<_>>(),
        ["stop", "count 1", "count 1"]
    );
    assert_eq!(values(&report, 1, "work", BYTES), [Some(4_096.0)]);
    assert_eq!(values(&report, 1, "work", "bandwidth"), [Some(4.0); 2]);
    let counted = report.aggregate(0, "work", BYTES).ok_or("none")?;
    assert_eq!((&*counted.unit, counted.stop_reason), ("bytes", None));
    Ok(())
}

#[test]
fn what_has_no_value_anywhere_is_told_with_the_reason() -> TestOutcome {
    let gpu = Gpu::default();
    gpu.counts("work", BYTES, 4_096.0);
    gpu.counts("elsewhere", "sm__cycles_active.avg", 1.0);
    let bench = Bench::new("null").runs(3).metrics([BYTES, "sm__cycles_active.avg"]);
    let bench = bench.derive("odd", "", |_, ()| f64::NAN).derive("speed", "", |m, ()| m.value(BYTES));
    let report = gpu.run(bench, |run, ()| run.measure("work", || gpu.launch("k", 1_000)))?;
    let told: Vec<_> = report.warnings().iter().filter(|warning| warning.contains("without any")).collect();
    assert_eq!(
        told,
        ["without any value, no_data: sm__cycles_active.avg", "without any value, not_a_number: odd"]
    );
    Ok(())
}

#[test]
fn where_tracing_would_spoil_the_counts_they_come_first() -> TestOutcome {
    let gpu = Gpu::default();
    gpu.counts("inner", BYTES, 4_096.0);
    gpu.counts_first();
    let bench = Bench::new("old").warm_up(0).runs(1).metrics([BYTES]);
    let report = gpu.run(bench, |run, ()| {
        run.measure("outer", || run.measure("inner", || gpu.launch("k", 1_000)));
    })?;
    let order: Vec<String> =
        gpu.log().into_iter().filter(|call| ["start", "count 2", "stop"].contains(&call.as_str())).collect();
    assert_eq!(order, ["count 2", "start", "stop"]);
    assert_eq!(values(&report, 0, "inner", BYTES), [Some(4_096.0)]);
    assert_eq!(values(&report, 0, "inner", DURATION), [Some(1_000.0)]);
    Ok(())
}

#[test]
fn averages_of_several_uses_are_weighted_by_their_times() -> TestOutcome {
    const HITS: &str = "lts__t_sector_hit_rate.pct";
    let gpu = Gpu::default();
    let bench = Bench::new("weighted").warm_up(0).runs(2).metrics([HITS]);
    let bench = bench.derive("hits", "%", |m, ()| m.value(HITS));
    gpu.counts_of_uses("work", HITS, &[10.0, 40.0]);
    let report = gpu.run(bench, |run, ()| {
        run.measure("work", || gpu.launch("k", 1_000));
        run.measure("work", || gpu.launch("k", 3_000));
    })?;
    // (10 · 1 + 40 · 3) / 4.
    assert_eq!(values(&report, 0, "work", "hits"), [Some(32.5); 4]);
    let told = report.warnings().iter().any(|warning| warning.contains("counted once in each configuration"));
    assert!(told, "{:?}", report.warnings());
    Ok(())
}

#[test]
fn counters_that_are_counted_several_times_have_a_spread_and_an_interval() -> TestOutcome {
    let gpu = Gpu::default();
    gpu.counts_each_time("work", BYTES, &[4_096.0, 5_120.0, 6_144.0]);
    let bench = Bench::new("several").warm_up(0).runs(4).metrics([BYTES]).counter_runs(3);
    let bench =
        bench.derive("bandwidth", "bytes/ns", |m, ()| m.value(BYTES).map(|bytes| bytes / m.duration_ns()));
    let report = gpu.run(bench, |run, ()| run.measure("work", || gpu.launch("k", 1_024)))?;
    let counted: Vec<_> =
        report.samples().iter().filter(|s| &*s.metric == BYTES).map(|s| (s.run, s.order, s.value)).collect();
    let expected = [(0, 4_096.0), (1, 5_120.0), (2, 6_144.0)];
    assert_eq!(counted, expected.map(|(run, value)| (Some(run), None, Some(value))));
    let told = report.aggregate(0, "work", BYTES).ok_or("none")?;
    assert_eq!((told.runs, told.told.mean, told.told.std_dev), (3, Some(5_120.0), Some(1_024.0)));
    // Student's t for two degrees of freedom, 4.303.
    let ends = told.told.mean_interval.ok_or("no interval")?;
    assert!((ends.high - ends.low - 2.0 * 4.303 * 1_024.0 / 3_f64.sqrt()).abs() < 1.0, "{ends:?}");
    assert_eq!(told.stop_reason, None);
    assert!(!report.warnings().iter().any(|warning| warning.contains("no interval")));
    // Each timed run with a counting of its own, in turn.
    assert_eq!(values(&report, 0, "work", "bandwidth"), [4.0, 5.0, 6.0, 4.0].map(Some));
    let runs: Vec<_> = report.counted.iter().map(|row| (row.config_index, row.run, row.value)).collect();
    assert_eq!(runs, expected.map(|(run, value)| (Some(0), Some(run as i64), Some(value))));
    Ok(())
}

#[test]
fn a_configuration_that_cannot_be_counted_keeps_no_other_from_it() -> TestOutcome {
    let gpu = Gpu::default();
    gpu.counts("work", BYTES, 4_096.0);
    let bench = Bench::new("some").configs([0, 1]).runs(2).metrics([BYTES]);
    let report = gpu.run(bench, |run, config| {
        if *config == 1 {
            run.measure("work", || gpu.launch("k", 1_000));
        }
    })?;
    assert_eq!(values(&report, 1, "work", BYTES), [Some(4_096.0)]);
    let told = |what: &str| report.warnings().iter().filter(|warning| warning.contains(what)).count();
    assert_eq!((told("nothing was measured in configurations 0"), told("were not counted")), (1, 0));
    Ok(())
}

#[test]
fn a_counting_that_fails_is_null_and_the_others_are_kept() -> TestOutcome {
    let gpu = Gpu::default();
    gpu.counts_each_time("work", BYTES, &[1.0, 2.0]);
    let bench = Bench::new("failing").warm_up(0).runs(1).metrics([BYTES]).counter_runs(3);
    let passes = RefCell::new(0);
    let report = gpu.run(bench, |run, ()| {
        run.measure("work", || gpu.launch("k", 1_000));
        let is_counting = run.purpose() == Purpose::Counting;
        *passes.borrow_mut() += usize::from(is_counting);
        // In the first pass of the second counting.
        if is_counting && *passes.borrow() == 3 { Err("out of memory") } else { Ok(()) }
    })?;
    assert_eq!(values(&report, 0, "work", BYTES), [Some(1.0), None, Some(2.0)]);
    let reasons: Vec<_> = report.samples().iter().filter_map(|s| s.invalid_reason.as_deref()).collect();
    assert_eq!(reasons, ["not_counted"]);
    assert!(report.warnings().iter().any(|w| w.contains("out of memory")), "{:?}", report.warnings());
    Ok(())
}

#[test]
fn the_time_of_a_counted_range_is_no_duration() -> TestOutcome {
    let gpu = Gpu::default();
    gpu.counts("work", DURATION, 20_000.0);
    gpu.counts("work", BYTES, 4_096.0);
    // Every preset has it, for percentages of it.
    let bench = Bench::new("preset").warm_up(0).runs(2).metrics(["headline"]);
    let report = gpu.run(bench, |run, ()| run.measure("work", || gpu.launch("k", 1_000)))?;
    assert_eq!(values(&report, 0, "work", DURATION), [Some(1_000.0); 2]);
    assert_eq!(values(&report, 0, "work", BYTES), [Some(4_096.0)]);
    // It is told with the other counters, though.
    let counted: Vec<_> = report.counted.iter().map(|row| (&*row.metric, row.value)).collect();
    assert_eq!(counted, [(DURATION, Some(20_000.0)), (BYTES, Some(4_096.0))]);
    Ok(())
}

#[test]
fn nested_annotations_are_counted_as_deep_as_they_are() -> TestOutcome {
    let gpu = Gpu::default();
    gpu.counts("inner", BYTES, 1.0);
    let bench = Bench::new("nested").warm_up(0).runs(1).metrics([BYTES]);
    let report = gpu.run(bench, |run, ()| {
        run.measure("outer", || run.measure("inner", || gpu.launch("k", 1_000)));
    })?;
    assert!(gpu.log().contains(&"count 2".to_owned()));
    assert_eq!(values(&report, 0, "inner", BYTES), [Some(1.0)]);
    // Not known is null, with the reason.
    let outer =
        report.samples().iter().find(|s| &*s.annotation == "outer" && &*s.metric == BYTES).ok_or("none")?;
    assert_eq!((outer.value, outer.invalid_reason.as_deref()), (None, Some("no_data")));
    Ok(())
}

#[test]
fn counters_that_cannot_be_counted_leave_the_times_and_say_why() -> TestOutcome {
    let gpu = Gpu::default();
    gpu.counts("work", BYTES, 1.0);
    gpu.fail("count 1", ErrorKind::PermissionDenied);
    let bench = Bench::new("denied").configs([1, 2]).warm_up(0).runs(2).metrics([BYTES]);
    let report = gpu.run(bench, |run, _| run.measure("work", || gpu.launch("k", 1_000)))?;
    assert_eq!(values(&report, 0, "work", DURATION), [Some(1_000.0); 2]);
    assert_eq!(values(&report, 0, "work", BYTES), [None]);
    assert_eq!(values(&report, 1, "work", BYTES), [None]);
    assert!(
        report.warnings().iter().any(|warning| warning.contains("permission denied")),
        "{:?}",
        report.warnings()
    );
    Ok(())
}

#[test]
fn several_uses_are_combined_by_the_rule_of_the_metric() {
    let parts = [(10.0, 1.0), (40.0, 3.0)];
    let cases = [
        ("dram__bytes_read.sum", 50.0),
        ("sm__cycles_elapsed.max", 40.0),
        ("sm__cycles_elapsed.min", 10.0),
        ("sm__cycles_active.avg", 32.5),
        ("sm__throughput.avg.pct_of_peak_sustained_elapsed", 32.5),
        ("lts__t_sector_hit_rate.pct", 32.5),
        ("dram__bytes.sum.per_second", 32.5),
    ];
    for (metric, expected) in cases {
        assert_eq!(combined(metric, &parts), Some(expected), "{metric}");
    }
    assert_eq!(combined("dram__bytes_read.sum", &[]), None);
    assert_eq!(combined("sm__cycles_active.avg", &[(10.0, 0.0), (20.0, 0.0)]), Some(15.0));
}
