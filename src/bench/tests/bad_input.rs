//! What makes no sense, or only some.

use std::time::Duration;

use super::super::{Bench, Config, DURATION, Order, Run, Scope};
use super::{Gpu, TestOutcome, values};
use crate::control::{Cache, CuptiCache};
use crate::driver::Stream;
use crate::error::ErrorKind;
use crate::stats::{Precision, StopRule};

/// The refusal of what is wrong before anything runs.
fn refused<C: Config>(bench: Bench<C>) -> Result<String, Box<dyn std::error::Error>> {
    let gpu = Gpu::default();
    let failed = gpu.run(bench, |run: &Run<'_>, _| run.measure("work", || gpu.launch("k", 1))).err();
    let failed = failed.ok_or("it was accepted")?;
    assert_eq!(failed.error.kind, ErrorKind::Config);
    assert!(gpu.log().is_empty(), "nothing was started");
    assert!(failed.report.samples().is_empty());
    Ok(failed.to_string())
}

#[test]
fn settings_out_of_range_are_refused_before_anything_runs() -> TestOutcome {
    let none: [u32; 0] = [];
    assert!(refused(Bench::new("x").configs(none))?.contains("no configurations"));
    assert!(refused(Bench::new("x").runs(0))?.contains("runs is 0"));
    assert!(refused(Bench::new("x").counter_runs(0))?.contains("counter_runs is 0"));
    assert!(refused(Bench::new("x").precision(0.0))?.contains("precision is 0"));
    assert!(refused(Bench::new("x").precision(f64::NAN))?.contains("precision is NaN"));
    let rule = StopRule::Precision(Precision { max_runs: 0, ..Precision::default() });
    assert!(refused(Bench::new("x").stop_rule(rule))?.contains("max_runs is 0"));
    assert!(refused(Bench::new("x").order(Order::Interleaved { block: 0, seed: 1 }))?.contains("block"));
    assert!(refused(Bench::new("x").stable_below(-0.1))?.contains("below -0.1"));
    let by_cupti = Bench::new("x").cache(Cache::Cupti(CuptiCache::L2));
    assert!(refused(by_cupti)?.contains("controlled by CUPTI"));
    assert!(refused(Bench::new("x").launch_ahead())?.contains("no stream is named"));
    let queued = || Bench::new("x").stream(Stream::PER_THREAD_DEFAULT);
    assert!(
        refused(queued().launch_ahead().serialize_kernels(true))?.contains("waited for at each launch"),
        "the gate would wait for its own launch"
    );
    assert!(refused(queued().launch_ahead_within(Duration::ZERO))?.contains("for at most 0ns"));
    assert!(refused(queued().launch_ahead_within(Duration::from_secs(61)))?.contains("for at most 61s"));
    assert!(refused(Bench::new("x").configs([1]).parameters(["a", "b"]))?.contains("2 names for 1"));
    Ok(())
}

#[test]
fn names_that_are_taken_are_refused() -> TestOutcome {
    let collect = |bench: Bench, name: &str| bench.collect(name, Scope::Run, |_| Ok(1.into()));
    assert!(refused(collect(Bench::new("x"), "Metric"))?.contains("\"Metric\""));
    assert!(refused(collect(collect(Bench::new("x"), "a"), "a"))?.contains("\"a\""));
    assert!(refused(Bench::new("x").configs([1]).parameters(["Unit"]))?.contains("\"Unit\""));
    let clash = Bench::new("x").configs([1]).parameters(["n"]).collect("n", Scope::Run, |_| Ok(1.into()));
    assert!(refused(clash)?.contains("\"n\""));
    assert!(refused(Bench::new("x").derive("gpu_span", "", |_, ()| 1.0))?.contains("gpu_span"));
    assert!(refused(Bench::new("x").metrics(["a.sum", " a.sum "]))?.contains("a.sum"));
    Ok(())
}

#[test]
fn a_metric_that_does_not_exist_is_refused_before_anything_runs() -> TestOutcome {
    assert!(refused(Bench::new("x").metrics(["dram__bytes_raed.sum"]))?.contains("dram__bytes_raed.sum"));
    Ok(())
}

#[test]
fn a_closure_that_measures_nothing_is_an_error() -> TestOutcome {
    let gpu = Gpu::default();
    let failed = gpu.run(Bench::new("x").runs(2), |_, ()| gpu.launch("k", 1_000)).err().ok_or("accepted")?;
    assert!(failed.to_string().contains("no run measured anything"), "{failed}");
    assert!(failed.to_string().contains("run.measure"), "{failed}");
    Ok(())
}

#[test]
fn a_closure_that_launches_nothing_is_an_error_with_its_samples() -> TestOutcome {
    let gpu = Gpu::default();
    let failed =
        gpu.run(Bench::new("x").runs(2), |run, ()| run.measure("work", || ())).err().ok_or("accepted")?;
    assert!(failed.to_string().contains("no annotation launched any kernel"), "{failed}");
    assert_eq!(values(&failed.report, 0, "work", DURATION), [None; 2]);
    let reasons: Vec<_> =
        failed.report.samples().iter().map(|sample| sample.invalid_reason.as_deref()).collect();
    assert!(reasons.iter().all(|reason| *reason == Some("no_kernel")), "{reasons:?}");
    // With the precision rule it ends as well.
    let failed = gpu.run(Bench::new("x").precision(0.01), |run, ()| run.measure("work", || ())).err();
    assert!(failed.is_some());
    Ok(())
}

#[test]
fn an_annotation_that_launches_nothing_beside_one_that_does_is_flagged() -> TestOutcome {
    let gpu = Gpu::default();
    let report = gpu.run(Bench::new("x").runs(1), |run, ()| {
        run.measure("empty", || ());
        run.measure("work", || gpu.launch("k", 1_000));
    })?;
    assert_eq!(values(&report, 0, "empty", DURATION), [None]);
    assert_eq!(values(&report, 0, "work", DURATION), [Some(1_000.0)]);
    assert!(report.to_string().contains("0/1"), "{report}");
    Ok(())
}

#[test]
fn an_annotation_may_be_used_in_some_configurations_only() -> TestOutcome {
    let gpu = Gpu::default();
    let bench = Bench::new("x").configs([1_i64, 2]).runs(2).normalize_against("half");
    let report = gpu.run(bench, |run, n| {
        run.measure("full", || gpu.launch("f", 1_000 * n));
        if *n == 2 {
            run.measure("half", || gpu.launch("h", 1_000));
        }
    })?;
    assert!(report.aggregate(0, "half", DURATION).is_none());
    let ratio = |config| report.aggregate(config, "full", DURATION)?.normalised.as_ref().map(|n| n.ratio);
    assert_eq!((ratio(0), ratio(1)), (None, Some(2.0)));
    let told = report.warnings().iter().any(|w| w.contains("no valid \"half\" in configurations 0"));
    assert!(told, "{:?}", report.warnings());
    Ok(())
}

#[test]
fn a_baseline_that_is_missing_or_failed_gives_null_and_a_warning() -> TestOutcome {
    let gpu = Gpu::default();
    let report = gpu.run(Bench::new("x").warm_up(0).runs(3).normalize_against("nobody"), |run, ()| {
        run.measure("work", || gpu.launch("k", 1_000));
    })?;
    assert!(report.aggregates().iter().all(|aggregate| aggregate.normalised.is_none()));
    assert!(report.warnings()[0].contains("\"nobody\""), "{:?}", report.warnings());
    let report = gpu.run(Bench::new("x").warm_up(0).runs(3).normalize_against("base"), |run, ()| {
        let _flagged = run.measure("base", || {
            gpu.launch("b", 500);
            if run.number() == 0 { Err("failed") } else { Ok(()) }
        });
        run.measure("work", || gpu.launch("k", 1_000));
    })?;
    // The pairs that are left.
    let normalised = report.aggregate(0, "work", DURATION).and_then(|aggregate| aggregate.normalised.clone());
    assert_eq!(normalised.map(|n| (n.ratio, n.pairs)), Some((2.0, 2)));
    Ok(())
}

#[test]
fn a_precision_that_an_invalid_measurement_cannot_reach_ends_it() -> TestOutcome {
    let gpu = Gpu::default();
    let rule = Precision { max_time: Duration::from_secs(3_600), ..Precision::default() };
    let bench = Bench::new("x").warm_up(0).stop_rule(StopRule::Precision(rule));
    let report = gpu.run(bench, |run, ()| {
        let _flagged = run.measure("work", || {
            gpu.launch("k", 1_000);
            if run.number() % 2 == 0 { Err("every other") } else { Ok(()) }
        });
    })?;
    let aggregate = report.aggregate(0, "work", DURATION).ok_or("none")?;
    assert_eq!(aggregate.stop_reason.map(|reason| reason.as_str()), Some("too_many_invalid"));
    assert!(aggregate.runs < 100, "{}", aggregate.runs);
    Ok(())
}
