//! Starts that are refused, and what must be as before then.

use cuprof::{Dataset, ErrorKind, Profile, Profiler, Table};

use crate::Outcome;
use crate::library::{Simulated, kind};
use crate::process::{Process, given, is_inside};
use crate::session::{Ends, assert_losses};

/// A session of some launches, which loses nothing.
fn session_of(launches: u32) -> Result<Profile, Box<dyn std::error::Error>> {
    let profiler = Profiler::builder().start()?;
    Simulated::get().launch(launches);
    let profile = profiler.whole()?;
    assert_eq!(profile.launches(), u64::from(launches));
    Ok(profile)
}

#[track_caller]
fn another_profiler_is_busy(code: i32) -> Outcome {
    let folder = crate::process::folder()?;
    let output = folder.path().join("run.cuprof");
    let cupti = Simulated::get();
    let Err(error) = Profiler::builder().output(&output).record(folder.path().join("run.cuprofrec")).start()
    else {
        panic!("a session was started");
    };
    assert_eq!((error.kind, error.call, error.code), (ErrorKind::Busy, Some("cuptiSubscribe"), Some(code)));
    let text = error.to_string();
    assert!(text.contains("another profiler is active") && text.contains("nsys"), "{text}");
    assert!(text.contains("NSYS_PROFILING_SESSION_ID=7"), "the holder is named: {text}");
    // Nothing of the other's was touched.
    let harmless = [c"cuptiGetVersion", c"cuptiGetTimestamp", c"cuptiSubscribe"];
    assert_eq!(harmless.map(|name| cupti.calls(name)).iter().sum::<u64>(), cupti.all_calls());
    assert_eq!(cupti.left_on(), 0);
    assert!(!output.exists(), "an output without a session");
    assert!(!folder.path().join("run.cuprofrec").exists(), "a recording without a session");
    // And the program goes on, unprofiled.
    assert!(cupti.launch(10) == 10);
    let _range = cuprof::range!("nobody listens");
    Ok(())
}

#[test]
fn b11_a_second_subscriber_is_refused_and_touches_nothing() -> Outcome {
    let process = Process::of(b11_a_second_subscriber_is_refused_and_touches_nothing);
    let process = process.failing("cuptiSubscribe:*:39").with("NSYS_PROFILING_SESSION_ID", "7");
    process.run(|| another_profiler_is_busy(39))
}

#[test]
fn b11_a_second_subscriber_is_refused_in_the_words_of_old_versions_too() -> Outcome {
    let process =
        Process::of(b11_a_second_subscriber_is_refused_in_the_words_of_old_versions_too).version("12.0");
    let process = process.failing("cuptiSubscribe:*:12").with("NSYS_PROFILING_SESSION_ID", "7");
    process.run(|| another_profiler_is_busy(12))
}

#[test]
fn a_refused_start_leaves_a_dataset_that_it_may_overwrite() -> Outcome {
    let process = Process::of(a_refused_start_leaves_a_dataset_that_it_may_overwrite);
    process.run(|| {
        let folder = crate::process::folder()?;
        let output = folder.path().join("run.cuprof");
        let builder = Profiler::builder().output(&output).overwrite(true);
        let profiler = builder.clone().start()?;
        let cupti = Simulated::get();
        cupti.launch(5);
        profiler.whole()?;
        cupti.fail_in(2, 39); // after cuptiGetVersion
        let Err(error) = builder.start() else { panic!("a session was started") };
        assert_eq!(error.kind, ErrorKind::Busy);
        assert_eq!(Dataset::open(&output)?.rows(Table::Launches), 5, "the earlier data are gone for nothing");
        Ok(())
    })
}

#[test]
fn a_missing_permission_to_subscribe_is_told_apart() -> Outcome {
    let process = Process::of(a_missing_permission_to_subscribe_is_told_apart);
    process.failing("cuptiSubscribe:*:35").run(|| {
        let Err(error) = Profiler::builder().start() else { panic!("a session was started") };
        assert_eq!((error.kind, error.call), (ErrorKind::PermissionDenied, Some("cuptiSubscribe")));
        let text = error.to_string();
        assert!(text.contains("INSUFFICIENT_PRIVILEGES") && text.contains('\n'), "with a remedy: {text}");
        Ok(())
    })
}

#[test]
fn a_missing_permission_to_trace_kernels_undoes_the_subscription() -> Outcome {
    let process = Process::of(a_missing_permission_to_trace_kernels_undoes_the_subscription);
    process.failing("cuptiActivityEnable:10:35").run(|| {
        let Err(error) = Profiler::builder().start() else { panic!("a session was started") };
        assert_eq!((error.kind, error.call), (ErrorKind::PermissionDenied, Some("cuptiActivityEnable")));
        assert_eq!(Simulated::get().left_on(), 0);
        Ok(())
    })
}

#[test]
fn b15_a_failing_call_of_the_start_is_undone_or_done_without_whichever_it_is() -> Outcome {
    for version in ["12.0", "13.5"] {
        let process = Process::of(b15_a_failing_call_of_the_start_is_undone_or_done_without_whichever_it_is);
        process.version(version).run(each_call_of_the_start_fails)?;
        if is_inside() {
            return Ok(());
        }
    }
    Ok(())
}

/// Starts sessions of which call 1, 2, … fails, until one makes fewer calls.
fn each_call_of_the_start_fails() -> Outcome {
    let cupti = Simulated::get();
    let folder = crate::process::folder()?;
    let (mut failed, mut without) = (0, 0);
    for call in 1.. {
        let output = folder.path().join(format!("{call}.cuprof"));
        let recording = folder.path().join(format!("{call}.cuprofrec"));
        let builder = Profiler::builder().output(&output).record(&recording).synchronizations();
        let builder = builder.nvtx_libraries(true);
        let calls_before = cupti.all_calls();
        cupti.fail_in(call, 999);
        let started = builder.clone().start();
        let was_called = cupti.fail_left() == 0;
        cupti.fail_in(0, 0);
        if !was_called {
            started?.whole()?;
            assert!(call > 100 && cupti.all_calls() - calls_before > 100, "{call} calls are too few");
            break;
        }
        match started {
            Err(error) => {
                failed += 1;
                assert_eq!((error.kind, error.code), (ErrorKind::Call, Some(999)), "call {call}: {error}");
                assert!(!output.exists() && !recording.exists(), "files of no session");
                // The program goes on, and what it launches is nobody's.
                cupti.launch(2);
                assert_undone(cupti, call);
                // The same once more, with the same output.
                let profiler = builder.start().map_err(|error| format!("after call {call}: {error}"))?;
                cupti.launch(3);
                assert_eq!(profiler.whole()?.launches(), 3, "after call {call}");
            }
            Ok(profiler) => {
                without += 1;
                cupti.launch(3);
                let why = "where the call is not told of, its launches have no ranges";
                let profile = profiler.losing_something(why)?;
                assert_eq!(profile.launches(), 3, "call {call} of the start failed");
                if let [loss] = profile.losses() {
                    assert_eq!((loss.cause, loss.count), ("launched_before_start", 3));
                    let facts = Dataset::open(&output)?.env()?;
                    assert!(facts.contains_key("refused.cuptiEnableCallback(1, 307)"), "{facts:#?}");
                } else {
                    assert_losses(&profile, &[]);
                }
            }
        }
        assert_undone(cupti, call);
    }
    println!("{failed} calls are needed, {without} are not");
    // cuptiGetVersion, cuptiSubscribe, cuptiActivityRegisterCallbacks, cuptiActivityEnable(kernels)
    assert_eq!(failed, 4);
    session_of(5)?;
    Ok(())
}

/// Nothing is on, CUPTI has no buffer, and the environment is as it was.
fn assert_undone(cupti: Simulated, call: u32) {
    // Before 13.0 Update 1, kernel records stay on: see `b48`.
    let stay_on =
        u32::from(cupti.is_on(kind::CONCURRENT_KERNEL) && std::env::var("SIM_VERSION").unwrap() == "12.0");
    assert_eq!(cupti.left_on(), stay_on, "call {call} of the start failed");
    assert!(stay_on == 1 || cupti.buffers_held() == 0, "call {call} of the start failed");
    assert_eq!(std::env::var_os("NVTX_INJECTION64_PATH"), None, "call {call} of the start failed");
}

#[test]
fn b15_a_failing_call_of_the_driver_is_undone_too() -> Outcome {
    for script in ["cuDriverGetVersion:999", "cuInit:100", "cuDeviceGetCount:999", "cuDeviceGetName:1"] {
        let process = Process::of(b15_a_failing_call_of_the_driver_is_undone_too);
        process.with("SIM_CUDA_FAIL", script).with("SCRIPT", script).run(|| {
            // Only the version is asked for at the start; what else is not known is missing in `env`.
            match Profiler::builder().start() {
                Err(error) => {
                    assert!(given("SCRIPT").to_str().is_some_and(|script| script.starts_with("cuDriver")));
                    assert_eq!((error.kind, error.code), (ErrorKind::Call, Some(999)), "{error}");
                    assert_eq!(Simulated::get().all_calls(), 0);
                }
                Ok(profiler) => {
                    Simulated::get().launch(3);
                    assert_eq!(profiler.whole()?.launches(), 3);
                }
            }
            Ok(())
        })?;
        if is_inside() {
            return Ok(());
        }
    }
    Ok(())
}

#[test]
fn b09_a_refused_setting_is_noted_and_the_session_works_without_it() -> Outcome {
    let refusals = [
        ("cuptiActivitySetAttribute:5:27", "CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER"),
        ("cuptiActivitySetAttribute:6:27", "CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_PRE_ALLOCATE_VALUE"),
        ("cuptiSetThreadIdType:*:27", "cuptiSetThreadIdType"),
        ("cuptiActivityEnable:17:27", "cuptiActivityEnable(17)"),
        ("cuptiActivityEnable:38:27", "cuptiActivityEnable(38)"),
        ("cuptiActivityEnable:22:27", "cuptiActivityEnable(22)"),
        ("cuptiEnableCallback:1:27", "cuptiEnableCallback"),
    ];
    for (script, fact) in refusals {
        let process = Process::of(b09_a_refused_setting_is_noted_and_the_session_works_without_it);
        process.failing(script).with("REFUSED", fact).run(|| {
            let folder = crate::process::folder()?;
            let output = folder.path().join("run.cuprof");
            let profiler = Profiler::builder().output(&output).synchronizations().start()?;
            Simulated::get().launch(20);
            assert_eq!(profiler.whole()?.launches(), 20);
            let facts = Dataset::open(&output)?.env()?;
            let refused = format!("refused.{}", std::env::var("REFUSED")?);
            let why =
                facts.get(&refused).ok_or_else(|| format!("{refused} is not among {:?}", facts.keys()))?;
            assert!(why.contains("CUPTI_ERROR_NOT_SUPPORTED"), "{why}");
            Ok(())
        })?;
        if is_inside() {
            return Ok(());
        }
    }
    Ok(())
}

#[test]
fn two_sessions_at_once_are_refused_and_the_first_goes_on() -> Outcome {
    Process::of(two_sessions_at_once_are_refused_and_the_first_goes_on).run(|| {
        let cupti = Simulated::get();
        let profiler = Profiler::builder().start()?;
        cupti.launch(5);
        let Err(error) = Profiler::builder().start() else { panic!("a second session was started") };
        assert_eq!(error.kind, ErrorKind::AlreadyRunning);
        assert!(error.to_string().contains("finish the running session first"), "{error}");
        cupti.launch(5);
        assert_eq!(profiler.whole()?.launches(), 10);
        session_of(7)?;
        Ok(())
    })
}

#[test]
fn settings_out_of_range_are_refused_before_anything_is_touched() -> Outcome {
    Process::of(settings_out_of_range_are_refused_before_anything_is_touched).run(|| {
        use std::time::Duration;
        let wrong = [
            (Profiler::builder().max_rows_per_part(0), "max_rows_per_part"),
            (Profiler::builder().device_buffers(250), "device_buffers"),
            (Profiler::builder().finish_timeout(Duration::ZERO), "finish_timeout"),
        ];
        for (builder, field) in wrong {
            let Err(error) = builder.start() else { panic!("{field} was accepted") };
            assert_eq!(error.kind, ErrorKind::Config);
            assert!(error.to_string().contains(field) && error.to_string().contains("must be"), "{error}");
        }
        assert_eq!(Simulated::get().all_calls(), 0);
        Ok(())
    })
}

#[test]
fn a_start_whose_undoing_hangs_comes_back_all_the_same() -> Outcome {
    let process = Process::of(a_start_whose_undoing_hangs_comes_back_all_the_same);
    process.failing("cuptiActivityDisable:*:hang").run(|| {
        let limit = std::time::Duration::from_millis(300);
        let builder = Profiler::builder().start_timeout(limit).output("/proc/run.cuprof");
        let Err(error) = builder.start() else { panic!("a session was started") };
        assert_eq!(error.kind, ErrorKind::Io, "{error}");
        // CUPTI is still inside the call.
        let Err(error) = Profiler::builder().start() else { panic!("a session was started") };
        assert_eq!(error.kind, ErrorKind::AlreadyRunning);
        assert!(Simulated::get().launch(3) == 3, "the program goes on");
        Ok(())
    })
}
