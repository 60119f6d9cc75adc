//! What the doctor says of each driver, each CUPTI, and each other tool.

use std::convert::Infallible;
use std::fs;
use std::os::unix::fs::symlink;
use std::time::Duration;

use cuprof::{Dataset, Diagnosis, ErrorKind, Profiler, Severity, Topic, doctor, doctor_within};

use crate::Outcome;
use crate::library::Simulated;
use crate::process::{End, Process, is_inside, libraries, skip};
use crate::session::Ends;

/// A limit for what never comes back; what comes back does so sooner, also on a busy machine.
const SOON: Duration = Duration::from_secs(2);

/// What was found of this topic, with the folder of the simulated libraries left out.
fn told(diagnosis: &Diagnosis, topic: Topic) -> String {
    let of_topic = diagnosis.findings().iter().filter(|finding| finding.topic == topic);
    let lines: String = of_topic.map(|finding| format!("{finding}\n")).collect();
    lines.replace(&format!("{}/", libraries().display()), "")
}

#[track_caller]
fn assert_problem(diagnosis: &Diagnosis, topic: Topic, words: &[&str]) {
    let text = told(diagnosis, topic);
    assert!(text.starts_with("problem: "), "{text}");
    for word in words {
        assert!(text.contains(word), "{word:?} is not in:\n{text}");
    }
    assert!(!diagnosis.can_trace());
}

#[test]
fn a_healthy_machine_is_told_so_and_nothing_is_left_on() -> Outcome {
    let process = Process::of(a_healthy_machine_is_told_so_and_nothing_is_left_on).version("13.5");
    process.run(|| {
        let diagnosis = doctor();
        assert!(diagnosis.can_trace(), "{diagnosis}");
        let driver = told(&diagnosis, Topic::Driver);
        assert!(driver.starts_with("ok: driver: libcuda.so.1 for CUDA 13.0"), "{driver}");
        assert!(driver.contains(": libcuda.so.1\n"), "its path is told: {driver}");
        let gpu = told(&diagnosis, Topic::Gpu);
        assert!(gpu.starts_with("ok: GPU: 0: ") && gpu.contains("compute capability 75.76"), "{gpu}");
        assert_eq!(
            told(&diagnosis, Topic::Cupti),
            "ok: CUPTI: CUPTI 13.5 (API 130500) is used: 13.5/libcupti.so.13 (named by CUPROF_CUPTI_PATH)\n"
        );
        assert_eq!(
            told(&diagnosis, Topic::Session),
            "ok: session: CUPTI accepts a session in this process\n"
        );
        assert_eq!(told(&diagnosis, Topic::KnownIssue), "", "13.5 has none");
        let cupti = Simulated::get();
        assert_eq!(cupti.left_on(), 0);
        let harmless = [c"cuptiGetVersion", c"cuptiSubscribe", c"cuptiUnsubscribe"];
        assert_eq!(harmless.map(|name| cupti.calls(name)).iter().sum::<u64>(), cupti.all_calls());
        // And a session starts afterwards.
        let profiler = Profiler::builder().start()?;
        cupti.launch(5);
        assert_eq!(profiler.whole()?.launches(), 5);
        Ok(())
    })
}

#[test]
fn without_a_driver_that_is_the_problem_and_libraries_are_listed_all_the_same() -> Outcome {
    let empty = crate::process::folder()?;
    let process = Process::of(without_a_driver_that_is_the_problem_and_libraries_are_listed_all_the_same);
    process.with("LD_LIBRARY_PATH", empty.path()).run(|| {
        let diagnosis = doctor();
        if diagnosis.can_trace() {
            return skip("this machine has a driver");
        }
        assert_problem(&diagnosis, Topic::Driver, &["libcuda.so.1", "install the NVIDIA driver"]);
        assert_eq!(
            told(&diagnosis, Topic::Cupti),
            "note: CUPTI: libcupti.so.13 (named by CUPROF_CUPTI_PATH): found, and not tried without a driver\n"
        );
        Ok(())
    })
}

#[test]
fn a_named_cupti_that_is_not_there_is_a_problem_with_and_without_a_driver() -> Outcome {
    let empty = crate::process::folder()?;
    for folder in [libraries(), empty.path()] {
        let process = Process::of(a_named_cupti_that_is_not_there_is_a_problem_with_and_without_a_driver);
        process.with("LD_LIBRARY_PATH", folder).with("CUPROF_CUPTI_PATH", "/nowhere").run(|| {
            assert_problem(&doctor(), Topic::Cupti, &["/nowhere", "let CUPROF_CUPTI_PATH name", "unset it"]);
            Ok(())
        })?;
    }
    Ok(())
}

#[test]
fn a_stub_of_the_driver_is_the_problem() -> Outcome {
    let process =
        Process::of(a_stub_of_the_driver_is_the_problem).with("SIM_CUDA_FAIL", "cuDriverGetVersion:34");
    process.run(|| {
        assert_problem(&doctor(), Topic::Driver, &["stub", "LD_LIBRARY_PATH"]);
        Ok(())
    })
}

#[test]
fn a_stub_in_the_process_is_named_with_its_folder() -> Outcome {
    let folder = crate::process::folder()?;
    let stubs = folder.path().join("stubs");
    fs::create_dir(&stubs)?;
    fs::copy(libraries().join("libcuda.so.1"), stubs.join("libcuda.so.1"))?;
    Process::of(a_stub_in_the_process_is_named_with_its_folder).with("LD_LIBRARY_PATH", &stubs).run(|| {
        let diagnosis = doctor();
        let text = told(&diagnosis, Topic::Driver);
        assert!(
            text.contains("problem: driver: ") && text.contains("stubs/libcuda.so.1 is a stub"),
            "{text}"
        );
        assert!(!diagnosis.can_trace());
        Ok(())
    })
}

#[test]
fn a_machine_without_a_gpu_is_told_so() -> Outcome {
    let process = Process::of(a_machine_without_a_gpu_is_told_so).with("SIM_CUDA_FAIL", "cuInit:100");
    process.run(|| {
        assert_problem(&doctor(), Topic::Gpu, &["no GPU", "cuInit returned 100", "CUDA_VISIBLE_DEVICES"]);
        Ok(())
    })
}

#[test]
fn without_cupti_every_path_that_was_tried_is_listed() -> Outcome {
    let folder = crate::process::folder()?;
    symlink(libraries().join("libcuda.so.1"), folder.path().join("libcuda.so.1"))?;
    Process::of(without_cupti_every_path_that_was_tried_is_listed)
        .with("LD_LIBRARY_PATH", folder.path())
        .with("CUPROF_CUPTI_PATH", "")
        .with("CUDA_HOME", "/nowhere/cuda")
        .run(|| {
            let diagnosis = doctor();
            if diagnosis.can_trace() {
                return skip("this machine has a CUPTI");
            }
            assert_problem(&diagnosis, Topic::Cupti, &["/nowhere/cuda", "libcupti.so.13", "install"]);
            // On a narrow terminal, too, each path begins a line.
            for width in [40, 72, 200] {
                let text = diagnosis.render(width);
                let lines = text.lines().map(str::trim_start);
                assert_eq!(lines.filter(|line| line.starts_with("/nowhere/cuda ")).count(), 1, "{text}");
            }
            Ok(())
        })
}

#[test]
fn a_library_newer_than_the_driver_is_passed_over_and_others_are_named() -> Outcome {
    let folder = crate::process::folder()?;
    let home = folder.path().join("cuda/extras/CUPTI/lib64");
    fs::create_dir_all(&home)?;
    for name in ["libcupti.so.13", "libcupti.so.12"] {
        fs::copy(libraries().join(name), home.join(name))?;
    }
    for driver in ["12090", "13000"] {
        Process::of(a_library_newer_than_the_driver_is_passed_over_and_others_are_named)
            .with("CUPROF_CUPTI_PATH", "")
            .with("CUDA_HOME", folder.path().join("cuda"))
            .with("SIM_CUDA_VERSION", driver)
            .run(|| {
                let passed_over = std::env::var("SIM_CUDA_VERSION")? == "12090";
                let diagnosis = doctor();
                let text = told(&diagnosis, Topic::Cupti);
                assert!(diagnosis.can_trace(), "{diagnosis}");
                assert_eq!(
                    text.contains("libcupti.so.13 (CUDA toolkit): skipped, since CUPTI 13 is newer"),
                    passed_over,
                    "{text}"
                );
                assert_eq!(
                    text.contains("libcupti.so.12 (CUDA toolkit): not needed"),
                    !passed_over,
                    "{text}"
                );
                assert!(!text.contains("older than the driver"), "each is the driver's own: {text}");
                Ok(())
            })?;
        if is_inside() {
            return Ok(());
        }
    }
    Ok(())
}

#[test]
fn a_library_under_two_names_is_told_once() -> Outcome {
    let folder = crate::process::folder()?;
    let home = folder.path().join("cuda/extras/CUPTI/lib64");
    let conda = folder.path().join("conda/lib");
    for folder in [&home, &conda] {
        fs::create_dir_all(folder)?;
    }
    fs::copy(libraries().join("libcupti.so.13"), home.join("libcupti.so.13"))?;
    symlink(home.join("libcupti.so.13"), conda.join("libcupti.so.13"))?;
    Process::of(a_library_under_two_names_is_told_once)
        .with("CUPROF_CUPTI_PATH", "")
        .with("CUDA_HOME", folder.path().join("cuda"))
        .with("CONDA_PREFIX", folder.path().join("conda"))
        .run(|| {
            let text = told(&doctor(), Topic::Cupti);
            assert!(text.contains("is used: "), "{text}");
            assert_eq!(text.matches("libcupti.so.13 (").count(), 1, "{text}");
            Ok(())
        })
}

#[test]
fn a_cupti_older_than_the_driver_is_a_warning() -> Outcome {
    let process = Process::of(a_cupti_older_than_the_driver_is_a_warning)
        .version("12.9")
        .with("CUPROF_CUPTI_PATH", libraries().join("libcupti.so.12"))
        .with("SIM_CUDA_VERSION", "13000");
    process.run(|| {
        let diagnosis = doctor();
        let text = told(&diagnosis, Topic::Cupti);
        assert!(text.contains("is CUPTI 12.9 (API 28), older than the driver (CUDA 13.0)"), "{text}");
        assert!(text.contains("install CUPTI 13.0"), "{text}");
        assert!(diagnosis.can_trace());
        Ok(())
    })
}

/// Runs the doctor and a session; both warn of the library in these words.
fn both_warn(words: &str) -> Outcome {
    let diagnosis = doctor();
    let text = told(&diagnosis, Topic::Cupti);
    let warning = text.lines().find(|line| line.starts_with("warning: ") && line.contains(words));
    assert!(warning.is_some(), "{words:?} is not in:\n{text}");
    assert!(diagnosis.can_trace());
    let profiler = Profiler::builder().start()?;
    let warnings = profiler.whole()?.summary().warnings.join("\n");
    assert!(warnings.contains(words), "{words:?} is not in:\n{warnings}");
    Ok(())
}

#[test]
fn the_doctor_and_a_session_warn_alike_of_a_cupti_that_is_a_release_older() -> Outcome {
    for (version, words) in [
        ("13.0", "is CUPTI 13.0.1 (API 130001), older than the driver (CUDA 13.2)"),
        ("12.4", "is CUPTI 12.4 (API 22), older than the driver (CUDA 13.2)"),
    ] {
        let process = Process::of(the_doctor_and_a_session_warn_alike_of_a_cupti_that_is_a_release_older)
            .version(version);
        process
            .with("SIM_CUDA_VERSION", "13020")
            .with("WORDS", words)
            .run(|| both_warn(&std::env::var("WORDS")?))?;
        if is_inside() {
            return Ok(());
        }
    }
    Ok(())
}

#[test]
fn a_preferred_library_that_was_tried_and_is_broken_is_warned_of_by_both() -> Outcome {
    let folder = crate::process::folder()?;
    fs::write(folder.path().join("libcupti.so.13"), "no library")?;
    fs::copy(libraries().join("libcupti.so.12"), folder.path().join("libcupti.so.12"))?;
    let process = Process::of(a_preferred_library_that_was_tried_and_is_broken_is_warned_of_by_both);
    process.with("CUPROF_CUPTI_PATH", folder.path()).run(|| {
        both_warn("libcupti.so.13 (named by CUPROF_CUPTI_PATH): cannot be opened: ")?;
        let text = told(&doctor(), Topic::Cupti);
        assert_eq!(text.matches("libcupti.so.13 (").count(), 1, "it is told once: {text}");
        assert!(!text.contains("not needed"), "{text}");
        Ok(())
    })
}

#[test]
fn without_a_driver_a_file_that_is_no_library_is_not_said_to_be_found() -> Outcome {
    let empty = crate::process::folder()?;
    let text = empty.path().join("libcupti.so.13");
    fs::write(&text, "no library")?;
    let process = Process::of(without_a_driver_a_file_that_is_no_library_is_not_said_to_be_found);
    process.with("LD_LIBRARY_PATH", empty.path()).with("CUPROF_CUPTI_PATH", &text).run(|| {
        let diagnosis = doctor();
        assert_problem(&diagnosis, Topic::Cupti, &["is no library", "let CUPROF_CUPTI_PATH name"]);
        Ok(())
    })
}

#[test]
fn an_nvml_that_cannot_be_opened_is_told_without_a_driver_too() -> Outcome {
    let empty = crate::process::folder()?;
    let text = empty.path().join("libnvidia-ml.so.1");
    fs::write(&text, "no library")?;
    let process = Process::of(an_nvml_that_cannot_be_opened_is_told_without_a_driver_too);
    process.with("LD_LIBRARY_PATH", empty.path()).with("CUPROF_NVML_PATH", &text).run(|| {
        let text = told(&doctor(), Topic::Nvml);
        let words =
            ["NVML not found: cannot open ", "(dlopen)", "file too short", "let CUPROF_NVML_PATH name"];
        for word in words {
            assert!(text.contains(word), "{word:?} is not in:\n{text}");
        }
        Ok(())
    })
}

#[test]
fn another_library_in_nvmls_place_is_said_to_be_none() -> Outcome {
    let process = Process::of(another_library_in_nvmls_place_is_said_to_be_none);
    process.with("CUPROF_NVML_PATH", libraries().join("libcuda.so.1")).run(|| {
        let text = told(&doctor(), Topic::Nvml);
        for word in ["NVML not found: ", "is not NVML: it lacks nvmlInit_v2", "let CUPROF_NVML_PATH name"] {
            assert!(text.contains(word), "{word:?} is not in:\n{text}");
        }
        Ok(())
    })
}

#[test]
fn an_nvml_whose_call_fails_is_told_with_the_codes_name() -> Outcome {
    let process = Process::of(an_nvml_whose_call_fails_is_told_with_the_codes_name);
    let process = process.with("CUPROF_NVML_PATH", libraries().join("libnvidia-ml.so.1"));
    process.with("SIM_NVML_FAIL", "nvmlInit_v2:18").run(|| {
        let text = told(&doctor(), Topic::Nvml);
        let words =
            ["(nvmlInit_v2 returned 18, NVML_ERROR_LIB_RM_VERSION_MISMATCH)", "CUPROF_NVML_PATH", "restart"];
        for word in words {
            assert!(text.contains(word), "{word:?} is not in:\n{text}");
        }
        Ok(())
    })
}

#[test]
fn another_profiler_is_the_problem_and_its_signs_are_named() -> Outcome {
    for (version, code) in [("13.5", "39"), ("12.0", "12")] {
        let process = Process::of(another_profiler_is_the_problem_and_its_signs_are_named).version(version);
        let process = process.failing(&format!("cuptiSubscribe:*:{code}"));
        process.with("NSYS_PROFILING_SESSION_ID", "7").run(|| {
            let diagnosis = doctor();
            let words =
                ["another profiler is active", "cuptiSubscribe returned", "NSYS_PROFILING_SESSION_ID=7"];
            assert_problem(&diagnosis, Topic::Session, &words);
            let tools = told(&diagnosis, Topic::OtherTools);
            assert!(tools.contains("the process was started by Nsight Systems"), "{tools}");
            assert_eq!(Simulated::get().left_on(), 0);
            Ok(())
        })?;
        if is_inside() {
            return Ok(());
        }
    }
    Ok(())
}

#[test]
fn a_missing_permission_to_subscribe_is_a_problem_of_its_own() -> Outcome {
    let process = Process::of(a_missing_permission_to_subscribe_is_a_problem_of_its_own);
    process.failing("cuptiSubscribe:*:35").run(|| {
        assert_problem(
            &doctor(),
            Topic::Session,
            &["permission denied", "INSUFFICIENT_PRIVILEGES", "even tracing is forbidden"],
        );
        Ok(())
    })
}

#[test]
fn a_cupti_that_does_not_come_back_is_a_problem_and_the_doctor_does() -> Outcome {
    let process = Process::of(a_cupti_that_does_not_come_back_is_a_problem_and_the_doctor_does);
    process.failing("cuptiSubscribe:*:hang").run(|| {
        let diagnosis = doctor_within(SOON);
        assert_problem(&diagnosis, Topic::Session, &["timed out", "(cuptiSubscribe did not return)"]);
        let text = told(&diagnosis, Topic::Session);
        assert!(!text.contains("start_timeout"), "it has no such limit: {text}");
        // CUPTI is still inside the call.
        let Err(error) = Profiler::builder().start() else { panic!("a session was started") };
        assert_eq!(error.kind, ErrorKind::AlreadyRunning);
        Ok(())
    })
}

#[test]
fn a_library_that_is_never_opened_is_a_problem_with_its_path_and_the_doctor_comes_back() -> Outcome {
    let process =
        Process::of(a_library_that_is_never_opened_is_a_problem_with_its_path_and_the_doctor_comes_back);
    // The linker is inside, so that the process cannot exit in any other way.
    process.with("SIM_LOAD_HANGS", "1").version("13.5").ending(End::Signal(6)).run(|| {
        let diagnosis = doctor_within(SOON);
        let words = [
            "timed out",
            ", at 13.5/libcupti.so.13 (dlopen did not return)",
            "file servers",
            "CUPROF_CUPTI_PATH",
        ];
        assert_problem(&diagnosis, Topic::Cupti, &words);
        assert_eq!(told(&diagnosis, Topic::Session), "", "nothing was asked of it");
        assert_eq!(
            told(&diagnosis, Topic::OtherTools).lines().count(),
            1,
            "what needs no library is told all the same"
        );
        std::process::abort()
    })
}

#[test]
fn a_start_names_the_library_that_is_never_opened() -> Outcome {
    let process = Process::of(a_start_names_the_library_that_is_never_opened);
    process.with("SIM_LOAD_HANGS", "1").version("13.5").ending(End::Signal(6)).run(|| {
        let Err(error) = Profiler::builder().start_timeout(SOON).start() else {
            panic!("a session was started")
        };
        let text = error.to_string();
        for word in ["13.5/libcupti.so.13 (dlopen did not return)", "file servers", "Builder::start_timeout"]
        {
            assert!(text.contains(word), "{word:?} is not in:\n{text}");
        }
        std::process::abort()
    })
}

#[test]
fn a_driver_or_nvml_that_does_not_come_back_is_told_once_and_nothing_else_is_asked() -> Outcome {
    for (variable, call, topic) in [
        ("SIM_CUDA_HANG", "cuInit", "GPU"),
        ("SIM_CUDA_HANG", "cuDriverGetVersion", "driver"),
        ("SIM_NVML_HANG", "nvmlInit_v2", "NVML"),
    ] {
        let process =
            Process::of(a_driver_or_nvml_that_does_not_come_back_is_told_once_and_nothing_else_is_asked);
        let process = process.with("CUPROF_NVML_PATH", libraries().join("libnvidia-ml.so.1"));
        process.with(variable, call).with("CALL", call).with("TOPIC", topic).run(|| {
            let (call, topic) = (std::env::var("CALL")?, std::env::var("TOPIC")?);
            let diagnosis = doctor_within(SOON);
            let problems =
                diagnosis.findings().iter().filter(|finding| finding.severity == Severity::Problem);
            let text: String = problems.map(|finding| format!("{finding}\n")).collect();
            assert!(text.starts_with(&format!("problem: {topic}: timed out")), "{text}");
            assert!(text.contains(&format!("({call} did not return)")), "{text}");
            assert_eq!(text.matches("did not return").count(), 1, "{text}");
            assert_eq!(told(&diagnosis, Topic::Cupti), "");
            Ok(())
        })?;
        if is_inside() {
            return Ok(());
        }
    }
    Ok(())
}

#[test]
fn a_running_session_is_not_disturbed() -> Outcome {
    Process::of(a_running_session_is_not_disturbed).run(|| {
        let profiler = Profiler::builder().start()?;
        let cupti = Simulated::get();
        cupti.launch(5);
        let diagnosis = doctor();
        assert_eq!(
            told(&diagnosis, Topic::Session),
            "note: session: a session of this crate runs, so that no other was tried\n"
        );
        assert!(diagnosis.can_trace(), "{diagnosis}");
        assert_eq!(cupti.calls(c"cuptiSubscribe"), 1);
        cupti.launch(5);
        assert_eq!(profiler.whole()?.launches(), 10);
        Ok(())
    })
}

#[test]
fn libraries_that_counters_need_are_looked_for_beside_cupti() -> Outcome {
    let folder = crate::process::folder()?;
    fs::copy(libraries().join("libcupti.so.13"), folder.path().join("libcupti.so.13"))?;
    for (file, expected) in [
        ("", "warning: counters: libnvperf_host.so and libnvperf_target.so are not beside CUPTI"),
        ("libnvperf_host.so", "warning: counters: libnvperf_target.so is not beside CUPTI"),
        ("libnvperf_target.so", "ok: counters: the libraries that counters need are beside CUPTI"),
    ] {
        if !is_inside() && !file.is_empty() {
            fs::write(folder.path().join(file), "")?;
        }
        let process = Process::of(libraries_that_counters_need_are_looked_for_beside_cupti);
        process
            .with("CUPROF_CUPTI_PATH", folder.path().join("libcupti.so.13"))
            .with("EXPECTED", expected)
            .run(|| {
                let text = told(&doctor(), Topic::Counters);
                assert!(text.starts_with(&std::env::var("EXPECTED")?), "{text}");
                Ok(())
            })?;
        if is_inside() {
            return Ok(());
        }
    }
    Ok(())
}

#[test]
fn known_issues_of_the_version_are_told_and_stored_with_a_session() -> Outcome {
    for (version, api, issues) in
        [("12.9", "22", 10), ("13.0", "130000", 8), ("13.0", "130001", 5), ("13.5", "130500", 0)]
    {
        let process = Process::of(known_issues_of_the_version_are_told_and_stored_with_a_session);
        process.version(version).with("SIM_API", api).with("ISSUES", issues.to_string()).run(|| {
            let diagnosis = doctor();
            let told = told(&diagnosis, Topic::KnownIssue);
            assert!(diagnosis.can_trace(), "known issues are no problem: {diagnosis}");
            assert_eq!(
                told.lines().filter(|line| !line.starts_with(' ')).count().to_string(),
                std::env::var("ISSUES")?,
                "{told}"
            );
            let has = |words: &str| told.contains(words);
            assert_eq!(has("until the activity API has been used once"), std::env::var("SIM_API")? == "22");
            assert_eq!(has("names its threads through NVTX crashes"), std::env::var("SIM_API")? == "130000");

            // Those that can affect it are in the session's facts.
            let folder = crate::process::folder()?;
            let output = folder.path().join("run.cuprof");
            let profiler = Profiler::builder().output(&output).start()?;
            Simulated::get().launch(1);
            profiler.whole()?;
            let facts = Dataset::open(&output)?.env()?;
            let stored: Vec<_> = facts.iter().filter(|(key, _)| key.starts_with("issue.")).collect();
            let matter = diagnosis.findings().iter().filter(|finding| finding.topic == Topic::KnownIssue);
            assert_eq!(stored.len(), matter.filter(|finding| finding.severity == Severity::Warning).count());
            for (_, text) in stored {
                assert!(told.contains(text.as_str()), "{text} is not in:\n{told}");
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
fn a_session_that_records_nothing_is_found_by_the_self_test() -> Outcome {
    Process::of(a_session_that_records_nothing_is_found_by_the_self_test).run(|| {
        let mut diagnosis = doctor();
        let cupti = Simulated::get();
        diagnosis.self_test(|| -> Result<(), Infallible> {
            cupti.launch(10);
            Ok(())
        });
        assert_eq!(
            told(&diagnosis, Topic::SelfTest),
            "ok: self-test: 10 launches and 0 transfers were recorded\n"
        );
        assert!(diagnosis.can_trace());

        let mut lossy = doctor();
        lossy.self_test(|| -> Result<(), Infallible> {
            cupti.launch(10);
            cupti.drop_records(3);
            Ok(())
        });
        let text = told(&lossy, Topic::SelfTest);
        assert!(text.contains("warning: self-test: 3 records_dropped"), "{text}");
        assert!(lossy.can_trace());

        let mut failing = doctor();
        failing.self_test(|| Err("no memory"));
        let text = told(&failing, Topic::SelfTest);
        assert!(
            text.contains("warning: self-test: the GPU work failed, so that nothing was tested: no memory"),
            "{text}"
        );

        let mut silent = doctor();
        silent.self_test(|| Ok::<(), Infallible>(()));
        assert_problem(&silent, Topic::SelfTest, &["no records", "CUPROF_CUPTI_PATH"]);
        // Where something is a problem already, nothing is run.
        silent.self_test(|| -> Result<(), Infallible> { panic!("it was run") });
        Ok(())
    })
}
