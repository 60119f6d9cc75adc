//! Counters that cannot be had, and tracing that goes on all the same.

use cuprof::counters::{Pass, Plan, Session};
use cuprof::{ErrorKind, Profiler};

use crate::Outcome;
use crate::library::Simulated;
use crate::process::{Process, is_inside, libraries};
use crate::session::{Ends, traced};

fn one_launch(pass: &Pass<'_>) {
    pass.range("range", || Simulated::get().launch(1));
}

/// A session of counters, which fails like this; then one of tracing, which does not.
fn refused_but_traced(kind: ErrorKind, words: &[&str]) -> Outcome {
    let counted =
        Plan::new("GH100", ["dram__bytes_read.sum"]).and_then(|plan| Session::new(plan).run(one_launch));
    let Err(error) = counted else { return Err("counters were counted".into()) };
    assert_eq!(error.kind, kind, "{error}");
    for word in words {
        assert!(error.to_string().contains(word), "{word:?} is not in {error}");
    }
    assert_eq!(traced(&[], |cupti| cupti.launch(5))?.profile.launches(), 5);
    Ok(())
}

#[test]
fn b06_without_the_libraries_for_counters_kernels_are_traced_all_the_same() -> Outcome {
    let folder = crate::process::folder()?;
    let alone = folder.path().join("libcupti.so.13");
    std::fs::copy(libraries().join("libcupti.so.13"), &alone)?;
    let process = Process::of(b06_without_the_libraries_for_counters_kernels_are_traced_all_the_same);
    process
        .with("CUPROF_CUPTI_PATH", alone)
        .run(|| refused_but_traced(ErrorKind::CuptiNotFound, &["libnvperf_host.so"]))
}

#[test]
fn b13_b14_counters_that_are_forbidden_or_taken_at_any_step_leave_tracing_alone() -> Outcome {
    for call in ["cuptiProfilerGetCounterAvailability", "cuptiRangeProfilerStart"] {
        for code in ["35", "26"] {
            let process =
                Process::of(b13_b14_counters_that_are_forbidden_or_taken_at_any_step_leave_tracing_alone);
            process.failing(&format!("{call}:*:{code}")).with("CODE", code).run(|| {
                if std::env::var("CODE")? == "35" {
                    refused_but_traced(ErrorKind::PermissionDenied, &["CAP_SYS_ADMIN"])
                } else {
                    refused_but_traced(ErrorKind::Busy, &["dcgmi profile --pause"])
                }
            })?;
            if is_inside() {
                return Ok(());
            }
        }
    }
    Ok(())
}

#[test]
fn b13_a_refused_subscription_is_told_in_other_words_than_refused_counters() -> Outcome {
    let process = Process::of(b13_a_refused_subscription_is_told_in_other_words_than_refused_counters);
    process.failing("cuptiSubscribe:*:35").run(|| {
        let Err(error) = Profiler::builder().start() else { return Err("a session was started".into()) };
        assert_eq!(error.kind, ErrorKind::PermissionDenied);
        let text = error.to_string();
        assert!(text.contains("even tracing is forbidden") && !text.contains("allow counters"), "{text}");
        Ok(())
    })
}

#[test]
fn b73_counters_inside_a_traced_session_are_refused_and_it_goes_on() -> Outcome {
    Process::of(b73_counters_inside_a_traced_session_are_refused_and_it_goes_on).run(|| {
        let profiler = Profiler::builder().start()?;
        let plan = Plan::new("GH100", ["dram__bytes_read.sum"])?;
        let counted = Session::new(plan).run(one_launch);
        assert!(counted.is_err_and(|error| error.kind == ErrorKind::AlreadyRunning));
        Simulated::get().launch(4);
        assert_eq!(profiler.whole()?.launches(), 4);
        Ok(())
    })
}
