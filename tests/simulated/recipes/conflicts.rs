//! Other tools in the process, and what a session without records says.

use std::fs;

use cuprof::{ErrorKind, Profiler};

use crate::Outcome;
use crate::library::{Simulated, Work, kind};
use crate::process::{Process, libraries};
use crate::session::{Ends, traced, traced_as, unwrapped};

#[test]
fn b12_the_sanitizer_is_recognised_by_its_library() -> Outcome {
    let folder = crate::process::folder()?;
    let sanitizer = folder.path().join("libsanitizer-collection.so");
    fs::copy(libraries().join("libcuda.so.1"), &sanitizer)?;
    let process = Process::of(b12_the_sanitizer_is_recognised_by_its_library);
    process.failing("cuptiSubscribe:*:39").with("LD_PRELOAD", &sanitizer).run(|| {
        let Err(error) = Profiler::builder().start() else { return Err("a session was started".into()) };
        assert_eq!(error.kind, ErrorKind::Busy);
        let text = error.to_string();
        assert!(
            text.contains("compute-sanitizer") && text.contains("libsanitizer-collection.so is loaded"),
            "{text}"
        );
        Ok(())
    })
}

#[test]
fn b33_each_reason_for_a_session_without_records_is_told_apart() -> Outcome {
    Process::of(b33_each_reason_for_a_session_without_records_is_told_apart).run(|| {
        let cupti = Simulated::get();
        // Another profiler has CUPTI.
        cupti.fail_in(2, 39);
        let Err(busy) = Profiler::builder().start() else { return Err("a session was started".into()) };
        assert_eq!(busy.kind, ErrorKind::Busy);
        cupti.fail_in(0, 0);
        // No work.
        let idle = traced(&[], |_| ())?;
        // Work, of which CUPTI gave nothing.
        let silent = traced(&[("launches_without_record", 3)], |cupti| {
            cupti.work(Work { calls: 3, records: 0, ..Work::KERNEL })
        })?;
        // The kind was switched off.
        let off = traced(&[("kinds_switched_off", 1)], |cupti| {
            cupti.switch_off(kind::CONCURRENT_KERNEL);
            cupti.launch(3)
        })?;
        // Records were dropped.
        let dropped = traced(&[("records_dropped", 3)], |cupti| {
            cupti.drop_records(3);
            cupti.work(Work { calls: 3, records: 0, ..Work::KERNEL })
        })?;
        let mut told = vec![busy.to_string()];
        for run in [idle, silent, off, dropped] {
            assert_eq!(run.profile.launches(), 0);
            let text = unwrapped(run.profile.summary());
            assert!(text.starts_with('!'), "the first line says so:\n{text}");
            told.push(text);
        }
        let words = [
            "another profiler",
            "no call that launches",
            "CUPTI gave no record",
            "switched off",
            "dropped for want",
        ];
        for (text, words) in told.iter().zip(words) {
            assert!(text.contains(words), "{words:?} is not in\n{text}");
        }
        told.sort();
        told.dedup();
        assert_eq!(told.len(), words.len());
        Ok(())
    })
}

#[test]
fn b35_a_kind_that_something_else_switches_off_is_counted() -> Outcome {
    Process::of(b35_a_kind_that_something_else_switches_off_is_counted).version("13.5").run(|| {
        for gone in [kind::CONCURRENT_KERNEL, kind::MEMCPY, kind::MEMSET, kind::OVERHEAD] {
            let run = traced(&[("kinds_switched_off", 1)], |cupti| {
                cupti.launch(5);
                cupti.work(Work::COPY);
                cupti.switch_off(gone);
                cupti.launch(5);
            })?;
            assert_eq!(run.profile.launches(), if gone == kind::CONCURRENT_KERNEL { 5 } else { 10 });
            assert!(run.fact(&format!("switched_off.{gone}"))?.is_some());
            assert_eq!(Simulated::get().left_on(), 0);
        }
        traced(&[], |cupti| cupti.launch(5))?;
        Ok(())
    })
}

#[test]
fn b58_b88_kernels_are_serialised_only_where_that_is_asked_for() -> Outcome {
    // In all other tests the simulation takes its being asked for as a violation.
    let process = Process::of(b58_b88_kernels_are_serialised_only_where_that_is_asked_for);
    process.with("SIM_MAY_SERIALIZE", "1").run(|| {
        let everything = || Profiler::builder().api_calls().synchronizations().memory_operations();
        for (builder, how) in [
            (everything(), "concurrent"),
            (everything().serialize_kernels(true), "serialized"),
            (everything().serialize_kernels(false), "concurrent"),
        ] {
            let run = traced_as(builder, &[], |cupti| {
                assert_eq!(cupti.is_on(kind::KERNEL), how == "serialized");
                assert_eq!(cupti.is_on(kind::CONCURRENT_KERNEL), how == "concurrent");
                cupti.launch(3)
            })?;
            assert_eq!(run.profile.launches(), 3);
            assert_eq!(run.fact("session.kernels")?.as_deref(), Some(how));
            assert_eq!(Simulated::get().left_on(), 0);
        }
        Ok(())
    })
}

#[test]
fn kernels_that_stay_traced_cannot_be_serialised_later_and_the_error_says_what_to_do() -> Outcome {
    let process =
        Process::of(kernels_that_stay_traced_cannot_be_serialised_later_and_the_error_says_what_to_do);
    process.version("12.9").with("SIM_MAY_SERIALIZE", "1").run(|| {
        traced(&[], |cupti| cupti.launch(1))?;
        let Err(error) = Profiler::builder().serialize_kernels(true).start() else {
            return Err("kernels are recorded both ways".into());
        };
        let text = error.to_string();
        assert!(text.contains("CUPTI_ERROR_NOT_COMPATIBLE"), "{text}");
        assert!(text.contains("serialise them from the first session on"), "{text}");
        traced(&[], |cupti| cupti.launch(1))?;
        Ok(())
    })
}

#[test]
fn a_second_profiler_of_this_crate_is_refused_with_what_to_do() -> Outcome {
    Process::of(a_second_profiler_of_this_crate_is_refused_with_what_to_do).run(|| {
        let first = Profiler::builder().start()?;
        let Err(error) = Profiler::builder().start() else { return Err("a session was started".into()) };
        assert_eq!(error.kind, ErrorKind::AlreadyRunning);
        assert!(error.hint.is_some_and(|hint| hint.contains("finish the running session first")));
        Simulated::get().launch(2);
        assert_eq!(first.whole()?.launches(), 2);
        traced(&[], |cupti| cupti.launch(1))?;
        Ok(())
    })
}
