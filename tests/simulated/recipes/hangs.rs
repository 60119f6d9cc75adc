//! Locks, calls that never return, panics in callbacks, and how the process ends.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use cuprof::{Dataset, ErrorKind, Profiler, Table};

use crate::Outcome;
use crate::library::{Simulated, Work};
use crate::process::{End, Process, default_action, given, is_inside, skip};
use crate::session::{Ends, traced, traced_as};

/// A limit for calls that hang, and what a test allows on top.
const SOON: Duration = Duration::from_millis(300);
const LATE: Duration = Duration::from_secs(10);

#[test]
fn b43_a_lock_that_cupti_holds_over_callbacks_and_takes_in_calls_stops_nobody() -> Outcome {
    let process = Process::of(b43_a_lock_that_cupti_holds_over_callbacks_and_takes_in_calls_stops_nobody);
    process.with("SIM_LOCKED_CALLBACKS", "1").with("SIM_BUFFER_RECORDS", "50").run(|| {
        let cupti = Simulated::get();
        let profiler = Profiler::builder().flush_period(Duration::from_millis(1)).start()?;
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        let _range = cuprof::range!("range");
                        cuprof::testing::nvtx_push(c"pushed");
                        cupti.launch(20);
                        cuprof::testing::nvtx_pop();
                    }
                });
            }
            for _ in 0..20 {
                profiler.flush()?;
            }
            Ok::<_, cuprof::Error>(())
        })?;
        assert_eq!(profiler.whole()?.launches(), 8000);
        Ok(())
    })
}

#[test]
fn b44_no_call_of_cupti_that_never_returns_keeps_a_program_from_going_on() -> Outcome {
    // Every call that a session makes: found by asking which there were, not by a list.
    let calls = Process::of(b44_no_call_of_cupti_that_never_returns_keeps_a_program_from_going_on);
    let output = calls.with("TASK", "list").output(|| hang("list"))?;
    if is_inside() {
        return Ok(());
    }
    let names: Vec<_> = output.lines().filter_map(|line| line.strip_prefix("called ")).collect();
    assert!(names.len() >= 12, "{output}");
    for name in names {
        let process = Process::of(b44_no_call_of_cupti_that_never_returns_keeps_a_program_from_going_on);
        process.with("TASK", "hang").failing(&format!("{name}:*:hang")).run(|| hang("hang"))?;
    }
    Ok(())
}

/// A session whose calls may hang; or, to `list`, one that prints which calls it made.
fn hang(_task: &str) -> Outcome {
    if given("TASK").to_str() == Some("list") {
        traced_as(Profiler::builder().api_calls(), &[], |cupti| cupti.launch(10))?;
        Simulated::get().print_calls();
        return Ok(());
    }
    let folder = crate::process::folder()?;
    let begun = Instant::now();
    let builder = Profiler::builder().start_timeout(SOON).finish_timeout(SOON).api_calls();
    let started = builder.output(folder.path().join("run.cuprof")).start();
    let cupti = Simulated::get();
    assert!(cupti.launch(10) >= 10, "the program goes on");
    match started {
        Err(error) => {
            assert_eq!(error.kind, ErrorKind::Timeout, "{error}");
            assert!(error.to_string().contains("start_timeout"), "{error}");
        }
        Ok(profiler) => {
            let flushed = profiler.flush();
            match profiler.failing_somehow("it depends on the call that hangs") {
                Ok((error, _)) => assert_eq!(error.kind, ErrorKind::Timeout, "{error}"),
                // Not every call is made in every session's end.
                Err(_ended_well) => flushed?,
            }
        }
    }
    assert!(begun.elapsed() < LATE, "{:?}", begun.elapsed());
    let _range = cuprof::range!("nobody listens");
    Ok(())
}

#[test]
fn b46_sessions_begin_and_end_while_threads_launch_and_nobody_is_detached() -> Outcome {
    // The simulation takes cuptiFinalize as a violation.
    let process = Process::of(b46_sessions_begin_and_end_while_threads_launch_and_nobody_is_detached);
    process.version("13.5").run(|| {
        let cupti = Simulated::get();
        let stop = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..16 {
                scope.spawn(|| {
                    while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                        cuprof::in_range("range", || cupti.launch(5));
                        std::thread::yield_now();
                    }
                });
            }
            let outcome = (0..50).try_for_each(|_| {
                let profiler = Profiler::builder().start()?;
                let why = "what was launched at the border of two sessions is a matter of time";
                profiler.losing_something(why).map(drop)
            });
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
            outcome
        })?;
        assert_eq!(cupti.left_on(), 0);
        traced(&[], |cupti| cupti.launch(1))?;
        Ok(())
    })
}

#[test]
fn b48_kernel_records_are_left_on_where_switching_them_off_can_hang() -> Outcome {
    // The simulated libraries of those versions hang, as theirs did.
    for version in ["12.0", "12.9", "13.0.0", "13.0"] {
        let process = Process::of(b48_kernel_records_are_left_on_where_switching_them_off_can_hang);
        process.version(version).with("VERSION", version).run(|| {
            for _ in 0..2 {
                assert_eq!(traced(&[], |cupti| cupti.launch(5))?.profile.launches(), 5);
                let stays = given("VERSION").to_str() != Some("13.0");
                assert_eq!(Simulated::get().is_on(crate::library::kind::CONCURRENT_KERNEL), stays);
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
fn b49_callbacks_call_neither_the_driver_nor_cupti() -> Outcome {
    // Both libraries take such a call as a violation; here every callback that there is comes.
    Process::of(b49_callbacks_call_neither_the_driver_nor_cupti).with("SIM_BUFFER_RECORDS", "5").run(|| {
        let run = traced(&[("cupti_fatal_errors", 1)], |cupti| {
            for context in 1..=4 {
                let _range = cuprof::range!("range");
                cupti.work(Work { context, calls: 20, ..Work::KERNEL });
                cupti.work(Work { context, cbid: 514, graph: 2, records: 20, ..Work::KERNEL });
                cupti.unload_module();
                cupti.destroy_context(context);
            }
            cupti.fatal();
        })?;
        assert_eq!(run.profile.launches(), 160);
        Ok(())
    })
}

#[test]
fn b50_nvtx_is_not_given_a_cupti_that_crashes_in_it() -> Outcome {
    for (version, expected) in [("13.0.0", false), ("13.0", true), ("12.9", true)] {
        let process = Process::of(b50_nvtx_is_not_given_a_cupti_that_crashes_in_it).version(version);
        process.with("EXPECTED", expected.to_string()).run(|| {
            let expected = given("EXPECTED").to_str() == Some("true");
            let run = traced_as(Profiler::builder().nvtx_libraries(true), &[], |cupti| {
                assert_eq!(std::env::var_os("NVTX_INJECTION64_PATH").is_some(), expected);
                cupti.launch(3)
            })?;
            assert_eq!(run.profile.launches(), 3);
            let warned = run.profile.summary().warnings.iter().any(|text| text.contains("it would crash"));
            assert_eq!(warned, !expected);
            Ok(())
        })?;
        if is_inside() {
            return Ok(());
        }
    }
    Ok(())
}

#[test]
fn b53_a_panic_in_any_callback_stays_inside_and_is_told_at_the_end() -> Outcome {
    if !cfg!(debug_assertions) {
        return skip("callbacks panic on request only in builds with debug assertions");
    }
    Process::of(b53_a_panic_in_any_callback_stays_inside_and_is_told_at_the_end).run(|| {
        let cases: [(&str, &[(&str, u64)]); 4] = [
            // The launch was not logged; its record is there.
            ("api", &[("launched_before_start", 1), ("callback_panics", 1)]),
            // Nothing was given, and the record dropped.
            ("buffer_requested", &[("records_dropped", 1), ("callback_panics", 1)]),
            // The buffer was lost with its records.
            ("buffer_completed", &[("callback_panics", 1)]),
            // The range was not opened, and what would have closed it closes none.
            ("nvtx", &[("unbalanced_pops", 1), ("callback_panics", 1)]),
        ];
        // Contexts are told before launches are; not here.
        Simulated::get().launch(1);
        for (callback, losses) in cases {
            let run = traced(losses, |cupti| {
                cuprof::testing::panic_in_callback(callback);
                cuprof::testing::nvtx_push(c"pushed");
                cupti.launch(10);
                cuprof::testing::nvtx_pop();
            })?;
            let (launches, path) = match callback {
                "api" => (10, Some("pushed")),
                "buffer_requested" => (9, Some("pushed")),
                "buffer_completed" => (0, None),
                _ => (10, None),
            };
            assert_eq!(run.profile.launches(), launches, "{callback}");
            let paths = run.by_path()?;
            assert_eq!(paths.keys().any(|told| told.as_deref() == path && path.is_some()), path.is_some());
        }
        assert_eq!(traced(&[], |cupti| cupti.launch(10))?.profile.launches(), 10);
        Ok(())
    })
}

static IN_A_STATIC: OnceLock<Mutex<Option<Profiler>>> = OnceLock::new();
thread_local! { static IN_A_THREAD: std::cell::RefCell<Option<Profiler>> = const { std::cell::RefCell::new(None) }; }

/// Starts a session that writes to `OUTPUT`, with ten launches of which five can be read already.
fn session_under_way() -> Result<Profiler, Box<dyn std::error::Error>> {
    let profiler = Profiler::builder().output(given("OUTPUT")).start()?;
    let cupti = Simulated::get();
    cupti.launch(5);
    profiler.flush()?;
    cupti.launch(5);
    Ok(profiler)
}

/// What a process that ended in this way has left: all that was flushed, and everything if the session was dropped.
fn left_behind(way: &str, end: End, inside: fn(Profiler) -> Outcome) -> Outcome {
    let folder = crate::process::folder()?;
    let output = folder.path().join("run.cuprof");
    let process =
        Process::of(b54_however_the_process_ends_its_exit_code_is_its_own_and_the_files_can_be_read);
    process.with("OUTPUT", &output).with("WAY", way).ending(end).run(|| {
        if given("WAY").to_str() != Some(way) {
            return Ok(());
        }
        inside(session_under_way()?)
    })?;
    if is_inside() {
        return Ok(());
    }
    let dataset = Dataset::open(&output)?;
    let (rows, complete) = (dataset.rows(Table::Launches), dataset.is_complete());
    let dropped = way.starts_with("dropped");
    assert_eq!((rows, complete), if dropped { (10, true) } else { (5, false) }, "{way}");
    Ok(())
}

#[test]
fn b54_however_the_process_ends_its_exit_code_is_its_own_and_the_files_can_be_read() -> Outcome {
    left_behind("in a static", End::Passed, |profiler| {
        IN_A_STATIC.get_or_init(Mutex::default).lock().map_err(|_| "poisoned")?.replace(profiler);
        Ok(())
    })?;
    left_behind("dropped with its thread", End::Passed, |profiler| {
        let thread = std::thread::spawn(|| IN_A_THREAD.with_borrow_mut(|place| *place = Some(profiler)));
        thread.join().map_err(|_| "the thread panicked")?;
        Ok(())
    })?;
    left_behind("dropped by a panic", End::Passed, |profiler| {
        let unwound = catch_unwind(AssertUnwindSafe(|| {
            let _profiler = profiler;
            panic!("the program fails");
        }));
        assert!(unwound.is_err());
        Ok(())
    })?;
    left_behind("exit", End::Code(3), |profiler| {
        let _running = profiler;
        std::process::exit(3)
    })?;
    left_behind("exit with a thread that launches", End::Code(4), |profiler| {
        let _running = profiler;
        let (launched, wait) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            loop {
                // Into no buffer that would be delivered: five launches are expected to be readable.
                Simulated::get().work(Work { records: 0, ..Work::KERNEL });
                let _nobody_waits = launched.send(());
            }
        });
        wait.recv()?;
        std::process::exit(4)
    })?;
    left_behind("abort", End::Signal(6), |profiler| {
        let _running = profiler;
        std::process::abort()
    })?;
    for (way, signal) in [("interrupted", "INT"), ("terminated", "TERM")] {
        let number = if signal == "INT" { 2 } else { 15 };
        left_behind(way, End::Signal(number), |profiler| {
            let _running = profiler;
            let interrupted = given("WAY").to_str() == Some("interrupted");
            let (signal, number) = if interrupted { ("INT", 2) } else { ("TERM", 15) };
            default_action(number);
            let kill = format!("kill -{signal} {}", std::process::id());
            std::process::Command::new("sh").args(["-c", &kill]).status()?;
            loop {
                std::thread::park();
            }
        })?;
    }
    Ok(())
}

#[test]
fn b54_a_program_built_to_abort_at_a_panic_leaves_what_was_flushed() -> Outcome {
    // Whether a panic unwinds is decided where the program is linked; the crates in it are those of every test.
    let program = crate::process::example("panics", "panics", &["-Cpanic=abort"])?;
    let folder = crate::process::folder()?;
    let output = folder.path().join("run.cuprof");
    let process = Process::of(b54_a_program_built_to_abort_at_a_panic_leaves_what_was_flushed);
    process.program(program).with("OUTPUT", &output).ending(End::Signal(6)).run(|| Ok(()))?;
    let dataset = Dataset::open(&output)?;
    assert_eq!((dataset.rows(Table::Launches), dataset.is_complete()), (5, false));
    Ok(())
}
