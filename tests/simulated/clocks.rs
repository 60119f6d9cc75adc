//! Clocks that are measured, pinned and released; all against the simulated NVML, which journals every call.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use cuprof::bench::Purpose;
use cuprof::counters::{Plan, Session};
use cuprof::{
    Bench, ClockBackend, ClockGuard, ClockOwner, ClockRequest, ClockStatus, Clocks, Dataset, ErrorKind,
    GpuMonitor, ResetOutcome, Table, ThrottleReasons, forbid_clock_control, reset_clocks,
};
use tempfile::TempDir;

use crate::Outcome;
use crate::frame::Frame;
use crate::library::Simulated;
use crate::process::{Process, fork_and_run, given, is_inside, libraries};

const JOURNAL: &str = "SIM_NVML_JOURNAL";
const FOLDER: &str = "CUPROF_STATE_DIR";
const ROLE: &str = "ROLE";

/// The simulated driver's GPU.
const GPU: &str = "GPU-abababab-abab-abab-abab-abababababab";

/// Signals by their numbers.
const SIGINT: i32 = 2;
const SIGKILL: i32 = 9;
const SIGTERM: i32 = 15;

/// A process of a test, with the simulated `nvidia-smi` and a folder of its own. The folder must outlive it.
fn process<Test: Fn() -> Outcome>(test: Test) -> Result<(Process, TempDir), std::io::Error> {
    let folder = crate::process::folder()?;
    let path =
        std::env::join_paths([libraries(), Path::new("/usr/bin"), Path::new("/bin")]).unwrap_or_default();
    let process = Process::of(test)
        .with("PATH", path)
        .with(JOURNAL, folder.path().join("journal"))
        .with(FOLDER, folder.path())
        .with("CUPROF_NVML_PATH", libraries().join("libnvidia-ml.so.1"));
    Ok((process, folder))
}

/// A request, once it is certain that no real NVML is in this process.
fn request(clocks: Clocks) -> Result<ClockRequest, Box<dyn std::error::Error>> {
    let monitor = GpuMonitor::open(GPU, None)?;
    assert_eq!(monitor.uuid(), GPU);
    let maps = std::fs::read_to_string("/proc/self/maps")?;
    let mut loaded = maps.lines().filter(|line| line.contains("libnvidia-ml")).peekable();
    assert!(loaded.peek().is_some());
    let simulated = libraries().to_str().ok_or("not UTF-8")?;
    assert!(loaded.all(|line| line.contains(simulated)), "a real NVML is loaded");
    Ok(ClockRequest::new(clocks).gpu_uuid(GPU))
}

/// What was set and reset so far, by any process.
fn settings() -> std::io::Result<Vec<String>> {
    let text = std::fs::read_to_string(given(JOURNAL))?;
    let lines = text.lines().filter_map(|line| line.strip_prefix("nvmlDevice"));
    Ok(lines.filter(|line| line.starts_with("Set") || line.starts_with("Reset")).map(str::to_owned).collect())
}

const SET_BASE: &str = "SetGpuLockedClocks 1 0xffffff01 0xffffff01";
const RESET: &str = "ResetGpuLockedClocks 1";

fn lock_file() -> PathBuf {
    given(FOLDER).join(format!("cuprof-clocks-{GPU}.lock"))
}

fn lock_text() -> String {
    std::fs::read_to_string(lock_file()).unwrap_or_default()
}

/// Waits until nobody holds the clocks: neither the process nor its watchdog.
fn await_release() -> Outcome {
    let file = std::fs::File::open(lock_file())?;
    rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive)?;
    Ok(())
}

fn is_alive(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

/// Another process of this test, in this role. It says `held` when it holds the clocks. What it says further must have
/// somebody who could read it, and its input ends when this is dropped: waiting for it would end the input, too.
type Role = (Child, (ChildStdin, BufReader<ChildStdout>));

fn in_role(role: &str, variables: &[(&str, &str)]) -> Result<Role, Box<dyn std::error::Error>> {
    let test = std::env::var("CUPROF_TEST_INSIDE")?;
    let mut child = Command::new(std::env::current_exe()?)
        .args(["--exact", &test, "--nocapture", "--test-threads=1"])
        .env(ROLE, role)
        .envs(variables.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut output = BufReader::new(child.stdout.take().ok_or("no output")?);
    let mut line = String::new();
    while output.read_line(&mut line)? > 0 {
        if line.contains("held") {
            let input = child.stdin.take().ok_or("no input")?;
            return Ok((child, (input, output)));
        }
        line.clear();
    }
    Err("the holder ended early".into())
}

fn role() -> Option<String> {
    std::env::var(ROLE).ok()
}

/// Holds the clocks until its input ends.
fn hold(request: ClockRequest) -> Result<ClockGuard, Box<dyn std::error::Error>> {
    let guard = request.start()?;
    assert_eq!(guard.report().status, ClockStatus::Applied, "{}", guard.report());
    println!("held");
    std::io::stdout().flush()?;
    std::io::stdin().lock().read_line(&mut String::new())?;
    Ok(guard)
}

fn signal(child: &Child, signal: i32) -> Outcome {
    let sent = Command::new("kill").arg(format!("-{signal}")).arg(child.id().to_string()).status()?;
    assert!(sent.success());
    Ok(())
}

#[test]
fn measuring_changes_nothing_and_tells_clocks_and_throttling() -> Outcome {
    let (process, _folder) = process(measuring_changes_nothing_and_tells_clocks_and_throttling)?;
    process.with("SIM_NVML_THROTTLE", "0x1,0x1,0x4").with("SIM_NVML_POWER_THROTTLED", "100,100,400").run(
        || {
            let guard = ClockRequest::new(Clocks::Measure).start()?;
            let report = guard.report().clone();
            assert_eq!(
                (report.status, report.owner, report.backend),
                (ClockStatus::Measured, ClockOwner::Nobody, None)
            );
            assert_eq!(report.gpu_uuid, GPU, "the GPU of the current context");
            assert_eq!(
                (report.reading.sm_clock_mhz, report.reading.memory_clock_mhz),
                (Some(1980), Some(3201))
            );
            assert_eq!(report.reading.thermal_margin.map(|margin| margin.margin_c), Some(50));
            let run = guard.watch().ok_or("not watched")?;
            let conditions = run.end();
            assert_eq!((conditions.sm_clock_mhz, conditions.power_throttled_ns), (Some(1980), Some(300)));
            assert!(conditions.throttle.is_some_and(|reasons| reasons.contains(ThrottleReasons::POWER_CAP)));
            assert!(conditions.is_throttled());
            drop(guard);
            assert!(settings()?.is_empty());
            assert!(!lock_file().exists());
            Ok(())
        },
    )
}

#[test]
fn pinned_clocks_are_told_and_released() -> Outcome {
    let (process, _folder) = process(pinned_clocks_are_told_and_released)?;
    process.run(|| {
        let guard = request(Clocks::Base)?.start()?;
        let report = guard.report().clone();
        assert_eq!((report.status, report.owner), (ClockStatus::Applied, ClockOwner::Us));
        assert_eq!((report.backend, report.pinned_mhz), (Some(ClockBackend::Nvml), None));
        assert_eq!((report.reading.sm_clock_mhz, report.message.as_deref()), (Some(1500), None));
        assert!(report.to_string().contains("base (applied), SM at 1500 MHz"), "{report}");
        let watchdog = report.watchdog_pid.ok_or("no watchdog")?;
        assert!(is_alive(watchdog));
        assert!(lock_text().contains(&format!("pid {}", std::process::id())), "{}", lock_text());
        let released = guard.release()?;
        assert_eq!((released.status, released.owner), (ClockStatus::Released, ClockOwner::Nobody));
        assert!(!is_alive(watchdog), "the watchdog is gone and reaped");
        assert_eq!(lock_text(), "");
        assert_eq!(settings()?, [SET_BASE, RESET], "once each: the watchdog had nothing to do");
        for (clocks, set) in [(Clocks::Boost, "0x7bc 0x7bc"), (Clocks::Mhz(1305), "0x519 0x519")] {
            let guard = request(clocks)?.start()?;
            assert_eq!(guard.report().pinned_mhz, guard.read().sm_clock_mhz);
            drop(guard);
            let settings = settings()?;
            assert_eq!(
                settings[settings.len() - 2..],
                [format!("SetGpuLockedClocks 1 {set}"), RESET.to_owned()]
            );
        }
        Ok(())
    })
}

/// A measurement at the base clock. Returns what it tells of the clocks, the clock in its runs, and its notes.
fn measured_at_base() -> Result<(String, u32, Vec<String>), Box<dyn std::error::Error>> {
    let _no_other_nvml = request(Clocks::Measure)?;
    let cupti = Simulated::get();
    let bench = Bench::new("pinned").clocks(Clocks::Base).runs(3).progress(false);
    let report = bench.run(|run, ()| {
        run.measure("work", || {
            cupti.launch(1);
        });
    })?;
    let told =
        report.facts().iter().find(|(key, _)| key == "bench.clock_status").map(|(_, mode)| mode.clone());
    let mut runs = report.samples().iter().filter_map(|sample| sample.conditions?.sm_clock_mhz);
    let clock = runs.next_back().ok_or("the clock is not known")?;
    Ok((told.ok_or("not told")?, clock, report.warnings().to_vec()))
}

#[test]
fn a_measurement_pins_clocks_for_as_long_as_it_takes() -> Outcome {
    let (process, _folder) = process(a_measurement_pins_clocks_for_as_long_as_it_takes)?;
    process.run(|| {
        assert_eq!(measured_at_base()?, ("applied".to_owned(), 1500, Vec::new()));
        assert_eq!(settings()?, [SET_BASE, RESET]);
        Ok(())
    })
}

/// What was set and reset of the clocks so far, at each run.
type AtRuns = Vec<(Purpose, Vec<String>)>;

/// The runs, timed and counted, of a bench at the base clock that counts.
fn counted_at_base(mut at_counting: impl FnMut() -> Outcome) -> Result<AtRuns, Box<dyn std::error::Error>> {
    let _no_other_nvml = request(Clocks::Measure)?;
    let cupti = Simulated::get();
    let bench = Bench::new("pinned").clocks(Clocks::Base).runs(2).warm_up(0).progress(false);
    let bench = bench.metrics(["dram__bytes_read.sum"]).output(given("OUTPUT"));
    let mut at_runs = AtRuns::new();
    bench.run(|run, ()| {
        if run.purpose() != Purpose::WarmUp {
            at_runs.push((run.purpose(), settings()?));
        }
        if run.purpose() == Purpose::Counting {
            at_counting()?;
        }
        run.measure("work", || {
            cupti.launch(1);
        });
        Outcome::Ok(())
    })?;
    Ok(at_runs)
}

fn counters_are_counted_at(purposes: [Purpose; 3]) -> Outcome {
    let at_runs = counted_at_base(|| Ok(()))?;
    let pinned = vec![SET_BASE.to_owned()];
    assert_eq!(at_runs, purposes.map(|purpose| (purpose, pinned.clone())));
    assert_eq!(settings()?, [SET_BASE, RESET], "once for times and counters");
    let dataset = Dataset::open(given("OUTPUT"))?;
    let samples = Frame::read(&dataset, Table::Samples, &["metric", "clock_mode", "sm_clock_mhz"])?;
    assert!(samples.rows().any(|row| row.text("metric") == Some("dram__bytes_read.sum")));
    for row in samples.rows() {
        let told = (row.text("clock_mode"), row.int("sm_clock_mhz"));
        assert_eq!(told, (Some("fixed_frequency"), Some(1500)), "{:?}", row.text("metric"));
    }
    let metrics = Frame::read(&dataset, Table::Metrics, &["clock_mode"])?;
    let modes: Vec<_> = metrics.rows().map(|row| row.text("clock_mode")).collect();
    assert_eq!(modes, [Some("fixed_frequency")]);
    Ok(())
}

#[test]
fn counters_are_counted_at_the_clocks_that_were_asked_for() -> Outcome {
    let (process, folder) = process(counters_are_counted_at_the_clocks_that_were_asked_for)?;
    process
        .with("OUTPUT", folder.path().join("pinned.cuprof"))
        .run(|| counters_are_counted_at([Purpose::Timing, Purpose::Timing, Purpose::Counting]))
}

#[test]
fn counters_that_come_before_times_are_counted_at_the_clocks_that_were_asked_for() -> Outcome {
    let (process, folder) =
        process(counters_that_come_before_times_are_counted_at_the_clocks_that_were_asked_for)?;
    process
        .with("OUTPUT", folder.path().join("pinned.cuprof"))
        .version("12.9")
        .run(|| counters_are_counted_at([Purpose::Counting, Purpose::Timing, Purpose::Timing]))
}

#[test]
fn clocks_are_released_when_counting_fails_or_panics() -> Outcome {
    let (process, folder) = process(clocks_are_released_when_counting_fails_or_panics)?;
    process.with("OUTPUT", folder.path().join("pinned.cuprof")).run(|| {
        counted_at_base(|| Err("no counting today".into()))?;
        assert_eq!(settings()?, [SET_BASE, RESET]);
        std::fs::remove_dir_all(given("OUTPUT"))?;
        let panicked = std::panic::catch_unwind(|| {
            let _never = counted_at_base(|| panic!("in the middle of counting")).is_ok();
        });
        assert!(panicked.is_err());
        assert_eq!(settings()?, [SET_BASE, RESET, SET_BASE, RESET]);
        assert!(!lock_text().contains("pid "), "{}", lock_text());
        Ok(())
    })
}

#[test]
fn a_measurement_that_may_not_pin_is_made_at_free_clocks_and_tells() -> Outcome {
    let (process, _folder) = process(a_measurement_that_may_not_pin_is_made_at_free_clocks_and_tells)?;
    process.with("SIM_NVML_FAIL", "nvmlDeviceSetGpuLockedClocks:4").run(|| {
        let (status, clock, notes) = measured_at_base()?;
        assert_eq!((status.as_str(), clock), ("denied", 1980));
        assert!(notes[0].starts_with("clocks are not as asked: permission denied"), "{notes:?}");
        assert_eq!(settings()?, [SET_BASE], "tried, and nothing reset: nothing of ours was set");
        Ok(())
    })
}

#[test]
fn a_clock_that_the_gpu_has_not_is_refused_before_anything_is_done() -> Outcome {
    let (process, _folder) = process(a_clock_that_the_gpu_has_not_is_refused_before_anything_is_done)?;
    process.run(|| {
        for mhz in [0, 1981] {
            let error = request(Clocks::Mhz(mhz))?.start().err().ok_or("it was accepted")?;
            assert_eq!(error.kind, ErrorKind::Config);
            assert!(error.to_string().contains("from 1 to 1980"), "{error}");
        }
        let error = ClockRequest::new(Clocks::Base).gpu_uuid("GPU-0").start().err().ok_or("it was found")?;
        assert_eq!(error.kind, ErrorKind::NoDevice);
        assert!(settings()?.is_empty());
        Ok(())
    })
}

#[test]
fn without_the_right_to_pin_the_measurement_goes_on_and_the_remedy_is_told() -> Outcome {
    let (process, _folder) =
        process(without_the_right_to_pin_the_measurement_goes_on_and_the_remedy_is_told)?;
    process.with("SIM_NVML_FAIL", "nvmlDeviceSetGpuLockedClocks:4").run(|| {
        let guard = request(Clocks::Base)?.start()?;
        let report = guard.report();
        assert_eq!((report.status, report.owner), (ClockStatus::Denied, ClockOwner::Nobody));
        let message = report.message.as_deref().unwrap_or_default();
        assert!(
            message.contains("administrator") && message.contains("nvidia-smi --lock-gpu-clocks"),
            "{message}"
        );
        assert_eq!(guard.watch().ok_or("not watched")?.end().sm_clock_mhz, Some(1980));
        drop(guard);
        assert_eq!(settings()?, [SET_BASE], "tried, and nothing reset: nothing of ours was set");
        assert_eq!(lock_text(), "");
        await_release()
    })
}

#[test]
fn a_panic_releases_pinned_clocks() -> Outcome {
    let (process, _folder) = process(a_panic_releases_pinned_clocks)?;
    process.run(|| {
        let guard = request(Clocks::Base)?.start()?;
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
            let _guard = guard;
            panic!("in the measured code");
        }));
        assert!(panicked.is_err());
        assert_eq!(settings()?, [SET_BASE, RESET]);
        Ok(())
    })
}

#[track_caller]
fn a_signal_releases_and_then_ends_the_process(number: i32) -> Outcome {
    if role().is_some() {
        let _guard = hold(request(Clocks::Base)?.release_on_signals(true))?;
        return Err("the signal did not end the process".into());
    }
    let (mut child, _ends) = in_role("holder", &[])?;
    assert_eq!(settings()?, [SET_BASE]);
    signal(&child, number)?;
    let status = child.wait()?;
    assert_eq!(status.signal(), Some(number), "it ended as the signal ends a process: {status}");
    await_release()?;
    assert_eq!((settings()?, lock_text()), (vec![SET_BASE.to_owned(), RESET.to_owned()], String::new()));
    // By the process, and not by its watchdog, which would have opened NVML, too.
    let journal = std::fs::read_to_string(given(JOURNAL))?;
    assert_eq!(journal.lines().filter(|line| *line == "nvmlInit_v2").count(), 1, "{journal}");
    Ok(())
}

#[test]
fn sigterm_releases_pinned_clocks() -> Outcome {
    let (process, _folder) = process(sigterm_releases_pinned_clocks)?;
    process.run(|| a_signal_releases_and_then_ends_the_process(SIGTERM))
}

#[test]
fn sigint_releases_pinned_clocks() -> Outcome {
    let (process, _folder) = process(sigint_releases_pinned_clocks)?;
    process.run(|| a_signal_releases_and_then_ends_the_process(SIGINT))
}

#[test]
fn the_watchdog_releases_what_a_killed_process_had_pinned() -> Outcome {
    let (process, _folder) = process(the_watchdog_releases_what_a_killed_process_had_pinned)?;
    process.run(|| {
        if role().is_some() {
            let _guard = hold(request(Clocks::Base)?)?;
            return Err("it was to be killed".into());
        }
        let (mut child, _ends) = in_role("holder", &[])?;
        assert_eq!(settings()?, [SET_BASE]);
        child.kill()?;
        assert_eq!(child.wait()?.signal(), Some(SIGKILL));
        await_release()?;
        assert_eq!(settings()?, [SET_BASE, RESET]);
        assert_eq!(lock_text(), "");
        Ok(())
    })
}

#[test]
fn a_process_that_exits_without_dropping_leaves_the_release_to_the_watchdog() -> Outcome {
    let (process, _folder) =
        process(a_process_that_exits_without_dropping_leaves_the_release_to_the_watchdog)?;
    process.run(|| {
        if role().is_some() {
            std::mem::forget(hold(request(Clocks::Base)?)?);
            std::process::exit(0);
        }
        let (mut child, ends) = in_role("holder", &[])?;
        drop(ends.0);
        assert!(child.wait()?.success());
        await_release()?;
        assert_eq!((settings()?, lock_text()), (vec![SET_BASE.to_owned(), RESET.to_owned()], String::new()));
        Ok(())
    })
}

#[test]
fn what_even_the_watchdog_could_not_release_is_known_and_reset_later() -> Outcome {
    let (process, _folder) = process(what_even_the_watchdog_could_not_release_is_known_and_reset_later)?;
    process.run(|| {
        if role().is_some() {
            let _guard = hold(request(Clocks::Base)?)?;
            return Err("it was to be killed".into());
        }
        let (mut child, _output) =
            in_role("holder", &[("SIM_NVML_FAIL", "nvmlDeviceResetGpuLockedClocks:4")])?;
        let dead = child.id();
        child.kill()?;
        child.wait()?;
        await_release()?;
        assert!(lock_text().contains(&format!("pid {dead}")), "{}", lock_text());
        let measuring = request(Clocks::Measure)?.start()?;
        assert_eq!(measuring.report().owner, ClockOwner::DeadProcess(dead));
        let before = settings()?.len();
        let resets = reset_clocks(None)?;
        let [reset] = &resets[..] else { return Err(format!("{resets:?}").into()) };
        assert_eq!(reset.gpu_uuid, GPU);
        assert!(matches!(reset.outcome, ResetOutcome::Released(pid) if pid == dead), "{reset:?}");
        assert_eq!(settings()?.split_off(before), [RESET]);
        assert_eq!(lock_text(), "");
        // Once is enough.
        assert!(
            matches!(reset_clocks(None)?[..], [ref reset] if matches!(reset.outcome, ResetOutcome::Nothing))
        );
        assert_eq!(settings()?.len(), before + 1);
        Ok(())
    })
}

#[test]
fn what_a_dead_process_left_can_be_pinned_anew_and_is_released_then() -> Outcome {
    let (process, _folder) = process(what_a_dead_process_left_can_be_pinned_anew_and_is_released_then)?;
    // NVML tells that clocks are set: by the dead process, which is known.
    process.with("SIM_NVML_THROTTLE", "0x2").run(|| {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
        let left = format!("cuprof clocks 1\npid 1\nboot {}\nbackend NVML\nasked base\n", boot.trim());
        std::fs::write(lock_file(), left)?;
        let guard = request(Clocks::Base)?.start()?;
        assert_eq!(guard.report().status, ClockStatus::Applied, "{}", guard.report());
        drop(guard);
        assert_eq!((settings()?, lock_text()), (vec![SET_BASE.to_owned(), RESET.to_owned()], String::new()));
        Ok(())
    })
}

#[test]
fn what_was_left_before_the_last_boot_is_forgotten_without_a_reset() -> Outcome {
    let (process, _folder) = process(what_was_left_before_the_last_boot_is_forgotten_without_a_reset)?;
    process.run(|| {
        std::fs::write(lock_file(), "cuprof clocks 1\npid 17\nboot another\nbackend NVML\nasked base\n")?;
        let resets = reset_clocks(None)?;
        assert!(
            matches!(resets[..], [ref reset] if matches!(reset.outcome, ResetOutcome::Outlived(17))),
            "{resets:?}"
        );
        assert_eq!(lock_text(), "");
        assert!(!given(JOURNAL).exists(), "NVML was not even opened");
        Ok(())
    })
}

#[test]
fn the_clocks_of_a_living_process_are_its_own() -> Outcome {
    let (process, _folder) = process(the_clocks_of_a_living_process_are_its_own)?;
    process.run(|| {
        if role().is_some() {
            return hold(request(Clocks::Base)?).map(drop);
        }
        let (mut child, ends) = in_role("holder", &[])?;
        let holder = child.id();
        let guard = request(Clocks::Boost)?.start()?;
        assert_eq!((guard.report().status, guard.report().owner), (ClockStatus::Busy, ClockOwner::Process(holder)));
        let message = guard.report().message.clone().unwrap_or_default();
        assert!(message.contains(&format!("process {holder} holds the clocks")), "{message}");
        drop(guard);
        let resets = reset_clocks(None)?;
        let held = matches!(resets[..], [ref reset] if matches!(reset.outcome, ResetOutcome::Held(Some(pid)) if pid == holder));
        assert!(held, "{resets:?}");
        assert_eq!(settings()?, [SET_BASE], "the other's clocks are as they were");
        drop(ends.0);
        assert!(child.wait()?.success());
        await_release()?;
        let guard = request(Clocks::Boost)?.start()?;
        assert_eq!(guard.report().status, ClockStatus::Applied);
        Ok(())
    })
}

#[test]
fn clocks_that_somebody_else_has_set_are_never_released() -> Outcome {
    let (process, _folder) = process(clocks_that_somebody_else_has_set_are_never_released)?;
    process.with("SIM_NVML_THROTTLE", "0x2").run(|| {
        for clocks in [Clocks::Measure, Clocks::Base, Clocks::Mhz(1000)] {
            let guard = request(clocks)?.start()?;
            assert_eq!(guard.report().owner, ClockOwner::Other);
            assert_ne!(guard.report().status, ClockStatus::Applied);
            drop(guard);
        }
        reset_clocks(None)?;
        assert!(settings()?.is_empty(), "{:?}", settings()?);
        Ok(())
    })
}

#[track_caller]
fn is_not_pinned(status: ClockStatus, part_of_message: &str) -> Outcome {
    let guard = request(Clocks::Base)?.start()?;
    assert_eq!(guard.report().status, status, "{}", guard.report());
    let message = guard.report().message.clone().unwrap_or_default();
    assert!(message.contains(part_of_message), "{message}");
    drop(guard);
    assert!(settings()?.is_empty(), "{:?}", settings()?);
    Ok(())
}

#[test]
fn a_gpu_that_others_compute_on_is_not_pinned() -> Outcome {
    let (process, _folder) = process(a_gpu_that_others_compute_on_is_not_pinned)?;
    process
        .with("SIM_NVML_PROCESSES", "own,17,18")
        .run(|| is_not_pinned(ClockStatus::Busy, "2 other processes compute on this GPU"))
}

#[test]
fn a_partitioned_gpu_is_not_pinned() -> Outcome {
    let (process, _folder) = process(a_partitioned_gpu_is_not_pinned)?;
    process.with("SIM_NVML_MIG", "1").run(|| {
        is_not_pinned(ClockStatus::Unsupported, "MIG")?;
        // A slice is found under its own number, however CUDA writes it, and stands for its GPU.
        for slice in ["MIG-cdcdcdcd-cdcd-cdcd-cdcd-cdcdcdcdcdcd", "GPU-cdcdcdcd-cdcd-cdcd-cdcd-cdcdcdcdcdcd"]
        {
            let guard = ClockRequest::new(Clocks::Base).gpu_uuid(slice).start()?;
            assert_eq!(
                (guard.report().gpu_uuid.as_str(), guard.report().status),
                (GPU, ClockStatus::Unsupported)
            );
        }
        Ok(())
    })
}

#[test]
fn a_gpu_without_locked_clocks_is_not_pinned() -> Outcome {
    let (process, _folder) = process(a_gpu_without_locked_clocks_is_not_pinned)?;
    process.with("SIM_NVML_FAIL", "nvmlDeviceSetGpuLockedClocks:3").run(|| {
        let guard = request(Clocks::Base)?.start()?;
        assert_eq!(guard.report().status, ClockStatus::Unsupported);
        drop(guard);
        assert_eq!(settings()?, [SET_BASE], "tried, and not reset");
        Ok(())
    })
}

#[test]
fn without_nvidia_smi_nothing_is_pinned_unless_asked_for() -> Outcome {
    let (process, folder) = process(without_nvidia_smi_nothing_is_pinned_unless_asked_for)?;
    let path = folder.path().join("bin");
    std::fs::create_dir(&path)?;
    std::os::unix::fs::symlink("/bin/sh", path.join("sh"))?;
    process.with("PATH", path).run(|| {
        is_not_pinned(ClockStatus::Unsupported, "nvidia-smi is not in PATH")?;
        let guard = request(Clocks::Base)?.without_watchdog(true).start()?;
        assert_eq!((guard.report().status, guard.report().watchdog_pid), (ClockStatus::Applied, None));
        drop(guard);
        assert_eq!(settings()?, [SET_BASE, RESET]);
        Ok(())
    })
}

#[test]
fn without_nvml_the_measurement_goes_on() -> Outcome {
    let (process, _folder) = process(without_nvml_the_measurement_goes_on)?;
    process.run(|| {
        for clocks in [Clocks::Measure, Clocks::Base] {
            let guard = ClockRequest::new(clocks).nvml_path("/nowhere/libnvidia-ml.so.1").start()?;
            assert_eq!(guard.report().status, ClockStatus::Unsupported);
            let message = guard.report().message.clone().unwrap_or_default();
            assert!(message.contains("NVML not found") && message.contains("/nowhere/"), "{message}");
            assert!(guard.watch().is_none());
            assert_eq!(guard.read(), Default::default());
        }
        Ok(())
    })
}

#[test]
fn a_process_that_forbids_it_pins_and_resets_nothing() -> Outcome {
    let (process, _folder) = process(a_process_that_forbids_it_pins_and_resets_nothing)?;
    process.run(|| {
        forbid_clock_control();
        is_not_pinned(ClockStatus::Denied, "forbidden here by forbid_clock_control()")?;
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
        std::fs::write(
            lock_file(),
            format!("cuprof clocks 1\npid 1\nboot {}\nbackend NVML\nasked base\n", boot.trim()),
        )?;
        let resets = reset_clocks(None)?;
        assert!(
            matches!(resets[..], [ref reset] if matches!(reset.outcome, ResetOutcome::Failed(_))),
            "{resets:?}"
        );
        assert!(settings()?.is_empty());
        Ok(())
    })
}

#[test]
fn whoever_runs_a_process_can_forbid_it() -> Outcome {
    let (process, _folder) = process(whoever_runs_a_process_can_forbid_it)?;
    process
        .with("CUPROF_FORBID_CLOCK_CONTROL", "1")
        .run(|| is_not_pinned(ClockStatus::Denied, "forbidden here by CUPROF_FORBID_CLOCK_CONTROL"))
}

#[test]
fn a_forked_child_does_not_release_its_parents_clocks() -> Outcome {
    let (process, _folder) = process(a_forked_child_does_not_release_its_parents_clocks)?;
    process.run(|| {
        let mut guard = Some(request(Clocks::Base)?.start()?);
        assert!(fork_and_run(|| {
            drop(guard.take());
            true
        })?);
        assert_eq!(settings()?, [SET_BASE]);
        drop(guard);
        assert_eq!(settings()?, [SET_BASE, RESET]);
        Ok(())
    })
}

#[test]
fn a_release_that_fails_is_told_and_stays_known() -> Outcome {
    let (process, _folder) = process(a_release_that_fails_is_told_and_stays_known)?;
    process.with("SIM_NVML_FAIL", "nvmlDeviceResetGpuLockedClocks:4").run(|| {
        let guard = request(Clocks::Base)?.start()?;
        let error = guard.release().err().ok_or("it was released")?;
        assert_eq!(error.kind, ErrorKind::PermissionDenied);
        await_release()?;
        assert!(lock_text().starts_with("cuprof clocks 1\npid "), "{}", lock_text());
        assert_eq!(settings()?, [SET_BASE, RESET, RESET], "the watchdog tried, too");
        assert!(!is_inside() || matches!(reset_clocks(None)?[0].outcome, ResetOutcome::Failed(_)));
        Ok(())
    })
}

#[test]
fn cupti_pins_where_it_is_asked_to_and_only_what_is_free() -> Outcome {
    let (process, _folder) = process(cupti_pins_where_it_is_asked_to_and_only_what_is_free)?;
    process.run(|| {
        let cupti = Simulated::get();
        for clocks in [Clocks::Base, Clocks::Boost] {
            let guard = request(clocks)?.backend(ClockBackend::Cupti).start()?;
            let report = guard.report();
            assert_eq!((report.status, report.owner), (ClockStatus::Applied, ClockOwner::Us), "{report}");
            assert_eq!((report.backend, report.watchdog_pid), (Some(ClockBackend::Cupti), None));
            guard.release()?;
        }
        let calls = [c"cuptiClockControlLock", c"cuptiClockControlUnlock"].map(|name| cupti.calls(name));
        assert_eq!(calls, [2, 2]);
        let guard = request(Clocks::Mhz(1000))?.backend(ClockBackend::Cupti).start()?;
        assert_eq!(guard.report().status, ClockStatus::Unsupported);
        drop(guard);
        assert_eq!(cupti.calls(c"cuptiClockControlLock"), 2);
        assert!(settings()?.is_empty(), "NVML was not asked");
        Ok(())
    })
}

#[test]
fn what_somebody_else_locked_cupti_is_not_asked_to_unlock() -> Outcome {
    let (process, _folder) = process(what_somebody_else_locked_cupti_is_not_asked_to_unlock)?;
    process.with("SIM_CLOCKS_LOCKED", "1").run(|| {
        let guard = request(Clocks::Base)?.backend(ClockBackend::Cupti).start()?;
        assert_eq!(guard.report().status, ClockStatus::Busy, "{}", guard.report());
        drop(guard);
        let cupti = Simulated::get();
        let calls = [c"cuptiClockControlLock", c"cuptiClockControlUnlock"].map(|name| cupti.calls(name));
        assert_eq!(calls, [0, 0]);
        Ok(())
    })
}

#[test]
fn a_cupti_without_clock_control_says_from_which_version_on_there_is() -> Outcome {
    let (process, _folder) = process(a_cupti_without_clock_control_says_from_which_version_on_there_is)?;
    process.without(&["cuptiClockControlGetStatus", "cuptiClockControlLock", "cuptiClockControlUnlock"]).run(
        || {
            let guard = request(Clocks::Base)?.backend(ClockBackend::Cupti).start()?;
            assert_eq!(guard.report().status, ClockStatus::Unsupported);
            let message = guard.report().message.clone().unwrap_or_default();
            assert!(message.contains("13.4"), "{message}");
            Ok(())
        },
    )
}

#[test]
fn a_boost_that_cupti_does_not_allow_is_denied_with_the_remedy() -> Outcome {
    let (process, _folder) = process(a_boost_that_cupti_does_not_allow_is_denied_with_the_remedy)?;
    process.failing("cuptiClockControlLock:2:35").run(|| {
        let guard = request(Clocks::Boost)?.backend(ClockBackend::Cupti).start()?;
        assert_eq!(guard.report().status, ClockStatus::Denied);
        assert!(guard.report().message.as_deref().is_some_and(|message| message.contains("administrator")));
        drop(guard);
        assert_eq!(Simulated::get().calls(c"cuptiClockControlUnlock"), 0);
        assert_eq!(lock_text(), "");
        Ok(())
    })
}

#[test]
fn one_process_without_a_known_number_is_this_one_if_it_has_a_context() -> Outcome {
    let (process, _folder) = process(one_process_without_a_known_number_is_this_one_if_it_has_a_context)?;
    // In a container, NVML knows processes by the numbers of the host.
    process.with("SIM_NVML_PROCESSES", "4711").run(|| {
        let guard = request(Clocks::Base)?.start()?;
        assert_eq!(guard.report().status, ClockStatus::Applied, "{}", guard.report());
        drop(guard);
        assert_eq!(settings()?, [SET_BASE, RESET]);
        Ok(())
    })
}

#[test]
fn one_process_is_somebody_elses_if_this_one_has_no_context() -> Outcome {
    let (process, _folder) = process(one_process_is_somebody_elses_if_this_one_has_no_context)?;
    process
        .with("SIM_NVML_PROCESSES", "4711")
        .with("SIM_CUDA_NO_CONTEXT", "1")
        .run(|| is_not_pinned(ClockStatus::Busy, "1 other process computes"))
}

#[test]
fn what_a_dead_process_had_cupti_lock_is_told_and_left() -> Outcome {
    let (process, _folder) = process(what_a_dead_process_had_cupti_lock_is_told_and_left)?;
    process.run(|| {
        if role().is_some() {
            let _guard = hold(request(Clocks::Base)?.backend(ClockBackend::Cupti))?;
            return Err("it was to be killed".into());
        }
        let (mut child, _ends) = in_role("holder", &[])?;
        let dead = child.id();
        child.kill()?;
        child.wait()?;
        await_release()?;
        is_not_pinned(ClockStatus::Busy, "had CUPTI lock the clocks, and died")?;
        let resets = reset_clocks(None)?;
        let [reset] = &resets[..] else { return Err(format!("{resets:?}").into()) };
        let ResetOutcome::Failed(error) = &reset.outcome else { return Err(format!("{reset:?}").into()) };
        assert!(error.to_string().contains("reboot"), "{error}");
        assert!(settings()?.is_empty(), "NVML's reset was not tried on what is not NVML's");
        assert!(lock_text().contains(&format!("pid {dead}")), "and it stays known");
        Ok(())
    })
}

#[test]
fn each_pass_of_a_counter_session_has_its_conditions() -> Outcome {
    let (process, _folder) = process(each_pass_of_a_counter_session_has_its_conditions)?;
    process.with("SIM_NVML_POWER_THROTTLED", "0,100,300").run(|| {
        let plan = Plan::new("GH100", ["lts__t_sector_hit_rate.pct"])?;
        let counted = Session::new(plan).run(|pass| {
            pass.range("work", || Simulated::get().launch(1));
        })?;
        let throttled: Vec<_> = counted.conditions.iter().map(|pass| pass.power_throttled_ns).collect();
        assert_eq!(throttled, [Some(100), Some(200)], "two passes");
        assert!(counted.conditions.iter().all(|pass| pass.sm_clock_mhz == Some(1980)));
        Ok(())
    })
}

#[test]
fn a_counter_session_holds_the_clocks_that_it_is_given() -> Outcome {
    let (process, folder) = process(a_counter_session_holds_the_clocks_that_it_is_given)?;
    process.with("OUTPUT", folder.path().join("counters.cuprof")).run(|| {
        let session = Session::new(Plan::new("GH100", ["dram__bytes_read.sum"])?);
        let session = session.between_passes(request(Clocks::Base)?.start()?);
        let counted = session.run(|pass| {
            assert_eq!(settings()?, [SET_BASE]);
            pass.range("work", || Simulated::get().launch(1));
            std::io::Result::Ok(())
        })?;
        assert_eq!(settings()?, [SET_BASE, RESET]);
        counted.write(given("OUTPUT"))?;
        let metrics = Frame::read(&Dataset::open(given("OUTPUT"))?, Table::Metrics, &["clock_mode"])?;
        let modes: Vec<_> = metrics.rows().map(|row| row.text("clock_mode")).collect();
        assert_eq!(modes, [Some("fixed_frequency")]);
        Ok(())
    })
}
