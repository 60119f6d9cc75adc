//! What fails, and what is left then.

use std::time::Duration;

use super::super::{Bench, DURATION, OnFailure, Scope};
use super::{Gpu, TestOutcome, values};
use crate::error::ErrorKind;
use crate::losses::Loss;
use crate::stats::StopReason;

/// Fails in its second run.
fn second_fails(gpu: &Gpu, run: &super::super::Run<'_>) -> Result<(), String> {
    run.measure("good", || gpu.launch("g", 1_000));
    run.measure("bad", || {
        gpu.launch("b", 500);
        if run.number() == 1 { Err("out of luck".to_owned()) } else { Ok(()) }
    })
}

#[test]
fn a_failed_annotation_is_flagged_with_its_error_and_the_rest_goes_on() -> TestOutcome {
    let gpu = Gpu::default();
    let report = gpu.run(Bench::new("flag").warm_up(0).runs(3), |run, ()| {
        let _handled_here = second_fails(&gpu, run);
    })?;
    assert_eq!(values(&report, 0, "bad", DURATION), [Some(500.0), None, Some(500.0)]);
    assert_eq!(values(&report, 0, "good", DURATION), [Some(1_000.0); 3]);
    let failed = report.samples().iter().find(|sample| !sample.valid).ok_or("nothing failed")?;
    assert_eq!(failed.invalid_reason.as_deref(), Some("failed: out of luck"));
    let told = &report.aggregate(0, "bad", DURATION).ok_or("none")?;
    assert_eq!((told.runs, told.told.n), (3, 2));
    assert!(report.to_string().contains("note: 1 samples are not valid: failed: "), "{report}");
    assert!(report.to_string().contains("2/3"), "{report}");
    Ok(())
}

#[test]
fn a_failed_run_flags_all_of_its_annotations() -> TestOutcome {
    let gpu = Gpu::default();
    let report = gpu.run(Bench::new("flag").warm_up(0).runs(3), |run, ()| second_fails(&gpu, run))?;
    // Another annotation of a failed run may have run on what was half done.
    assert_eq!(values(&report, 0, "good", DURATION), [Some(1_000.0), None, Some(1_000.0)]);
    Ok(())
}

#[test]
fn a_failure_ends_the_measurement_where_that_is_asked_for_and_keeps_the_results() -> TestOutcome {
    let gpu = Gpu::default();
    let bench = Bench::new("stop").configs([1, 2]).warm_up(0).runs(5).on_failure(OnFailure::Stop);
    let failed = gpu.run(bench, |run, _| second_fails(&gpu, run)).err().ok_or("went on")?;
    assert_eq!(failed.error.kind, ErrorKind::Program);
    assert!(failed.to_string().contains("run 1 of configuration 0 failed: out of luck"), "{failed}");
    assert_eq!(values(&failed.report, 0, "bad", DURATION), [Some(500.0), None]);
    let reason = failed.report.aggregate(0, "bad", DURATION).and_then(|bad| bad.stop_reason);
    assert_eq!(reason, Some(StopReason::Failed));
    assert!(crate::error::Error::from(failed).to_string().contains("out of luck"));
    Ok(())
}

#[test]
fn a_panic_is_a_failed_run_where_that_is_asked_for() -> TestOutcome {
    let gpu = Gpu::default();
    let report = gpu.run(Bench::new("panic").warm_up(0).runs(3).catch_panics(true), |run, ()| {
        run.measure("work", || {
            gpu.launch("k", 1_000);
            assert!(run.number() != 1, "not the second");
        });
    })?;
    assert_eq!(values(&report, 0, "work", DURATION), [Some(1_000.0), None, Some(1_000.0)]);
    let failed = report.samples().iter().find(|sample| !sample.valid).ok_or("nothing failed")?;
    let reason = failed.invalid_reason.as_deref().unwrap_or_default();
    assert!(reason.contains("panicked"), "{reason}");
    Ok(())
}

#[test]
fn a_panic_goes_on_up_by_default() {
    let gpu = Gpu::default();
    let run = std::panic::AssertUnwindSafe(|| {
        let _never = gpu.run(Bench::new("panic").warm_up(0).runs(1), |run, ()| {
            run.measure("work", || assert!(gpu.now_ns() < 0, "straight through"));
        });
    });
    assert!(std::panic::catch_unwind(run).is_err());
}

#[test]
fn an_error_of_the_gpu_ends_the_measurement_and_keeps_the_results() -> TestOutcome {
    for call in ["after_run", "before_region"] {
        let gpu = Gpu::default();
        let failed = gpu
            .run(Bench::new("broken").warm_up(0).runs(5), |run, ()| {
                run.measure("work", || gpu.launch("k", 1_000));
                if run.number() == 2 {
                    gpu.fail(call, ErrorKind::Call);
                }
            })
            .err()
            .ok_or("went on")?;
        assert_eq!(failed.error.kind, ErrorKind::Call);
        let values = values(&failed.report, 0, "work", DURATION);
        assert_eq!(values.iter().flatten().count(), if call == "after_run" { 2 } else { 3 }, "{call}");
        assert_eq!(values.last(), Some(&None), "the run that broke is flagged");
        assert_eq!(gpu.log().last().map(String::as_str), Some("stop"));
    }
    Ok(())
}

#[test]
fn a_gpu_that_stays_hot_ends_the_measurement_and_keeps_the_results() -> TestOutcome {
    let gpu = Gpu::default();
    let failed = gpu
        .run(Bench::new("hot").warm_up(0).runs(5), |run, ()| {
            run.measure("work", || gpu.launch("k", 1_000));
            if run.number() == 1 {
                gpu.fail("before_run", ErrorKind::Timeout);
            }
        })
        .err()
        .ok_or("went on")?;
    assert_eq!(failed.error.kind, ErrorKind::Timeout);
    assert_eq!(values(&failed.report, 0, "work", DURATION), [Some(1_000.0); 2]);
    Ok(())
}

#[test]
fn a_run_that_takes_longer_than_any_pause_may_is_measured_all_the_same() -> TestOutcome {
    // Three minutes are what all pauses for heat together may take; a run's own time is none of these.
    let gpu = Gpu::default();
    let report = gpu.run(Bench::new("long").warm_up(0).runs(2), |run, ()| {
        gpu.sleep(Duration::from_secs(400));
        run.measure("work", || gpu.launch("k", 300_000_000_000));
    })?;
    assert_eq!(values(&report, 0, "work", DURATION), [Some(3e11); 2]);
    assert!(report.samples()[0].wall_ns.is_some_and(|wall| wall > 700_000_000_000));
    Ok(())
}

#[test]
fn a_failing_collector_warns_once_and_gives_null() -> TestOutcome {
    let gpu = Gpu::default();
    let bench = Bench::new("collector").runs(3).collect("odd", Scope::Run, |at| match at.run {
        Some(1) => Ok(5.into()),
        _ => Err("no sensor".into()),
    });
    let report = gpu.run(bench, |run, ()| run.measure("work", || gpu.launch("k", 1_000)))?;
    let warnings: Vec<_> = report.warnings().iter().filter(|warning| warning.contains("no sensor")).collect();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    let values: Vec<_> = report.notes.iter().map(|(_, value)| value.as_str()).collect();
    assert_eq!(values, ["", "5", ""]);
    Ok(())
}

#[test]
fn records_without_times_are_no_samples_of_zero() -> TestOutcome {
    let gpu = Gpu::default();
    let report = gpu.run(Bench::new("zero").warm_up(0).runs(2), |run, ()| {
        run.measure("work", || {
            gpu.launch("a", 1_000);
            let reason = (run.number() == 1).then_some("zero_timestamp");
            gpu.launch_at("b", 0, 0, reason);
        });
    })?;
    assert_eq!(values(&report, 0, "work", DURATION), [Some(1_000.0), None]);
    let invalid = report.samples().iter().find(|sample| !sample.valid).ok_or("none")?;
    assert_eq!(invalid.invalid_reason.as_deref(), Some("zero_timestamp"));
    Ok(())
}

#[test]
fn losses_are_told_first() -> TestOutcome {
    let gpu = Gpu::default();
    gpu.lose(Loss { cause: "records_dropped", count: 7, meaning: "records that CUPTI dropped" });
    let report =
        gpu.run(Bench::new("lossy").runs(1), |run, ()| run.measure("work", || gpu.launch("k", 1_000)))?;
    assert!(report.to_string().starts_with("LOST: 7 records that CUPTI dropped\n"), "{report}");
    assert_eq!(report.losses().len(), 1);
    Ok(())
}

#[test]
fn a_number_of_launches_that_changes_between_runs_is_told() -> TestOutcome {
    let gpu = Gpu::default();
    let report = gpu.run(Bench::new("autotuned").warm_up(0).runs(3), |run, ()| {
        run.measure("work", || {
            (0..if run.number() == 0 { 5 } else { 1 }).for_each(|_| gpu.launch("k", 1_000))
        });
    })?;
    let told = report.warnings().iter().any(|warning| warning.contains("different numbers of kernels"));
    assert!(told, "{:?}", report.warnings());
    Ok(())
}
