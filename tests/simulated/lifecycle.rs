//! How sessions end: late, never, twice, in the wrong process, or a thousand times.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use cuprof::{Dataset, ErrorKind, Profiler, Table};

use crate::Outcome;
use crate::library::{Simulated, Work};
use crate::process::{Process, fork_and_run, given, is_inside};
use crate::session::Ends;

/// A timeout for sessions whose end hangs.
const SOON: Duration = Duration::from_millis(300);

#[test]
fn a_disabled_profiler_does_nothing_and_succeeds() -> Outcome {
    Process::of(a_disabled_profiler_does_nothing_and_succeeds).failing("cuptiSubscribe:*:39").run(|| {
        let cupti = Simulated::get();
        let profiler = Profiler::disabled();
        assert!(!profiler.is_enabled());
        {
            let _range = cuprof::range!("nobody listens", n = 1_u32);
            cupti.launch(10);
        }
        profiler.flush()?;
        let profile = profiler.whole()?;
        assert_eq!((profile.launches(), profile.ranges(), profile.losses().len()), (0, 0, 0));
        assert!(profile.dataset().is_none());
        drop(Profiler::disabled());
        assert_eq!(cupti.all_calls(), 0);
        Ok(())
    })
}

#[test]
fn b44_a_process_without_gpu_work_is_never_flushed() -> Outcome {
    // A CUPTI that never came up can hang when asked to.
    let process = Process::of(b44_a_process_without_gpu_work_is_never_flushed);
    process.failing("cuptiActivityFlushAll:*:hang").run(|| {
        let folder = crate::process::folder()?;
        let output = folder.path().join("run.cuprof");
        let profiler = Profiler::builder().output(&output).start()?;
        {
            let _range = cuprof::range!("on the host");
        }
        profiler.flush()?;
        let profile = profiler.whole()?;
        assert_eq!((profile.launches(), profile.ranges()), (0, 1));
        let cupti = Simulated::get();
        assert_eq!(cupti.calls(c"cuptiActivityFlushAll"), 0);
        assert_eq!(cupti.left_on(), 0);
        let dataset = Dataset::open(&output)?;
        assert!(dataset.is_complete());
        assert_eq!(dataset.rows(Table::Ranges), 1);
        Ok(())
    })
}

#[test]
fn b44_a_flush_that_never_returns_is_left_alone_and_told() -> Outcome {
    let process = Process::of(b44_a_flush_that_never_returns_is_left_alone_and_told);
    process.failing("cuptiActivityFlushAll:*:hang").run(|| {
        let folder = crate::process::folder()?;
        let output = folder.path().join("run.cuprof");
        let profiler = Profiler::builder().output(&output).finish_timeout(SOON).start()?;
        let cupti = Simulated::get();
        cupti.launch(5_000);
        cupti.await_delivery();
        let error = profiler.flush().err().ok_or("the flush came back")?;
        assert_eq!(error.kind, ErrorKind::Timeout);
        let before = Instant::now();
        let (error, profile) = profiler.failing(&[("flush_timeouts", 1)])?;
        assert!(before.elapsed() < Duration::from_secs(20));
        assert!(!cuprof::__private::is_recording(), "ranges are still logged");
        assert_eq!(error.kind, ErrorKind::Timeout);
        assert!(error.to_string().contains("finish_timeout"), "{error}");
        // What had come is there, in the profile and in the files: every full buffer.
        let came = profile.launches();
        assert!((2_500..5_000).contains(&came), "{came}");
        let dataset = Dataset::open(&output)?;
        assert!(dataset.is_complete());
        assert_eq!(dataset.rows(Table::Launches), came);
        // CUPTI is still inside the call, so another session cannot be had.
        let Err(error) = Profiler::builder().start() else { panic!("a session was started") };
        assert_eq!(error.kind, ErrorKind::AlreadyRunning);
        Ok(())
    })
}

#[test]
fn b44_switching_off_that_never_returns_loses_nothing_and_is_told() -> Outcome {
    for call in ["cuptiActivityDisable", "cuptiUnsubscribe"] {
        let process = Process::of(b44_switching_off_that_never_returns_loses_nothing_and_is_told);
        process.with("CALL", call).failing(&format!("{call}:*:hang")).run(|| {
            let call = given("CALL").to_string_lossy().into_owned();
            let folder = crate::process::folder()?;
            let output = folder.path().join("run.cuprof");
            let profiler = Profiler::builder().output(&output).finish_timeout(SOON).start()?;
            Simulated::get().launch(5_000);
            let (error, profile) = profiler.failing(&[])?;
            assert!(error.to_string().contains(&format!("({call} did not return)")), "{error}");
            assert_eq!((profile.launches(), Dataset::open(&output)?.rows(Table::Launches)), (5_000, 5_000));
            // CUPTI is still inside the call.
            let Err(error) = Profiler::builder().start() else { panic!("a session was started") };
            assert_eq!(error.kind, ErrorKind::AlreadyRunning);
            Ok(())
        })?;
        if is_inside() {
            return Ok(());
        }
    }
    Ok(())
}

#[test]
fn what_fails_when_all_is_switched_off_is_told_by_its_call() -> Outcome {
    let process = Process::of(what_fails_when_all_is_switched_off_is_told_by_its_call);
    process.failing("cuptiActivityDisable:1:999,cuptiUnsubscribe:*:999").run(|| {
        let folder = crate::process::folder()?;
        let output = folder.path().join("run.cuprof");
        let profiler = Profiler::builder().output(&output).start()?;
        Simulated::get().launch(5);
        assert_eq!(profiler.losing(&[("cupti_calls_failed", 2)])?.launches(), 5);
        let facts = Dataset::open(&output)?.env()?;
        let told = ["failed.0", "failed.1"].map(|key| facts.get(key).cloned().unwrap_or_default());
        assert!(told[0].contains("cuptiActivityDisable returned 999"), "{told:?}");
        assert!(told[1].contains("cuptiUnsubscribe returned 999"), "{told:?}");
        Ok(())
    })
}

#[test]
fn a_flush_that_hangs_with_cuptis_lock_does_not_take_the_profile_along() -> Outcome {
    Process::of(a_flush_that_hangs_with_cuptis_lock_does_not_take_the_profile_along).run(|| {
        let folder = crate::process::folder()?;
        let output = folder.path().join("run.cuprof");
        let profiler = Profiler::builder().output(&output).finish_timeout(SOON).start()?;
        let cupti = Simulated::get();
        cupti.launch(10);
        cupti.hang_locked(c"cuptiActivityFlushAll");
        let (error, _profile) = profiler.failing(&[("flush_timeouts", 1)])?;
        assert_eq!(error.kind, ErrorKind::Timeout);
        assert!(Dataset::open(&output)?.is_complete());
        Ok(())
    })
}

#[test]
fn a_clock_that_is_never_told_keeps_no_row_back() -> Outcome {
    Process::of(a_clock_that_is_never_told_keeps_no_row_back).run(|| {
        let profiler = Profiler::builder().finish_timeout(SOON).start()?;
        let cupti = Simulated::get();
        cupti.launch(10);
        profiler.flush()?;
        cupti.hang_locked(c"cuptiGetTimestamp");
        cupti.await_hang(); // it is asked at least every second
        let (error, profile) = profiler.failing(&[("flush_timeouts", 1)])?;
        assert_eq!(error.kind, ErrorKind::Timeout);
        assert_eq!(profile.launches(), 10);
        Ok(())
    })
}

#[test]
fn a_worker_that_hangs_in_cupti_is_left_alone() -> Outcome {
    let process = Process::of(a_worker_that_hangs_in_cupti_is_left_alone);
    process.failing("cuptiActivityGetNextRecord:*:hang").run(|| {
        let profiler = Profiler::builder().finish_timeout(SOON).start()?;
        let cupti = Simulated::get();
        cupti.launch(5_000);
        cupti.await_call(c"cuptiActivityGetNextRecord", 1);
        let error = profiler.flush().err().ok_or("the worker answered")?;
        assert_eq!(error.kind, ErrorKind::Timeout);
        let (error, _empty) = profiler.failing(&[])?;
        assert_eq!(error.kind, ErrorKind::Timeout);
        // What hangs would get in the way of another session.
        let Err(error) = Profiler::builder().start() else { panic!("a session was started") };
        assert_eq!(error.kind, ErrorKind::AlreadyRunning);
        Ok(())
    })
}

#[test]
fn a_kernel_that_never_ends_does_not_keep_the_session_from_ending() -> Outcome {
    let process = Process::of(a_kernel_that_never_ends_does_not_keep_the_session_from_ending);
    process.with("SIM_CUDA_HANG", "cuCtxSynchronize").run(|| {
        let profiler = Profiler::builder().finish_timeout(SOON).start()?;
        Simulated::get().launch(3);
        let (error, _profile) = profiler.failing(&[("flush_timeouts", 1)])?;
        assert_eq!(error.kind, ErrorKind::Timeout);
        Ok(())
    })
}

#[test]
fn failing_calls_at_the_end_are_counted_and_told_in_the_dataset() -> Outcome {
    let process = Process::of(failing_calls_at_the_end_are_counted_and_told_in_the_dataset);
    let process = process.failing("cuptiActivityFlushAll:0:999,cuptiActivityDisable:1:999");
    process.with("SIM_CUDA_FAIL", "cuCtxSynchronize:719,cuInit:999").run(|| {
        let folder = crate::process::folder()?;
        let output = folder.path().join("run.cuprof");
        let profiler = Profiler::builder().output(&output).start()?;
        let cupti = Simulated::get();
        cupti.launch(10);
        let profile = profiler.losing(&[("cupti_calls_failed", 3)])?;
        assert_eq!(profile.launches(), 10, "the forced flush has delivered them");
        let facts = Dataset::open(&output)?.env()?;
        let failed: Vec<_> = facts.iter().filter(|(key, _)| key.starts_with("failed.")).collect();
        let told = |what: &str| failed.iter().any(|(_, value)| value.contains(what));
        assert!(told("cuCtxSynchronize returned 719"), "{failed:?}");
        assert!(told("cuptiActivityFlushAll returned 999"), "{failed:?}");
        Ok(())
    })
}

#[test]
fn a_session_that_is_dropped_has_complete_files() -> Outcome {
    Process::of(a_session_that_is_dropped_has_complete_files).run(|| {
        let folder = crate::process::folder()?;
        let output = folder.path().join("run.cuprof");
        let profiler = Profiler::builder().output(&output).start()?;
        let cupti = Simulated::get();
        cupti.launch(10);
        drop(profiler);
        assert_eq!((cupti.left_on(), cupti.buffers_held()), (0, 0));
        let dataset = Dataset::open(&output)?;
        assert!(dataset.is_complete());
        assert_eq!(dataset.rows(Table::Launches), 10);
        Ok(())
    })
}

#[test]
fn b82_a_session_that_is_dropped_by_a_panic_has_complete_files() -> Outcome {
    Process::of(b82_a_session_that_is_dropped_by_a_panic_has_complete_files).run(|| {
        let folder = crate::process::folder()?;
        let output = folder.path().join("run.cuprof");
        let cupti = Simulated::get();
        let unwound = catch_unwind(AssertUnwindSafe(|| {
            let _profiler = Profiler::builder().output(&output).start().unwrap();
            let _range = cuprof::range!("doomed");
            cupti.launch(10);
            panic!("the program fails");
        }));
        assert!(unwound.is_err());
        assert_eq!(cupti.left_on(), 0);
        let dataset = Dataset::open(&output)?;
        assert!(dataset.is_complete());
        assert_eq!(dataset.rows(Table::Launches), 10);
        assert_eq!(dataset.rows(Table::Ranges), 1);
        Profiler::builder().start()?.whole()?;
        Ok(())
    })
}

#[test]
fn a_forked_child_can_neither_finish_nor_disturb_its_parents_session() -> Outcome {
    Process::of(a_forked_child_can_neither_finish_nor_disturb_its_parents_session).run(|| {
        let folder = crate::process::folder()?;
        let output = folder.path().join("run.cuprof");
        let mut profiler = Some(Profiler::builder().output(&output).start()?);
        let cupti = Simulated::get();
        cupti.launch(5);
        let succeeded = fork_and_run(|| {
            let calls = cupti.all_calls();
            let Some(profiler) = profiler.take() else { return false };
            let flushed = profiler.flush().is_err_and(|error| error.kind == ErrorKind::Config);
            let _range = cuprof::range!("in the child");
            let finished = profiler.failing(&[]).is_ok_and(|(error, _)| {
                error.kind == ErrorKind::Config && error.to_string().contains("forked child")
            });
            flushed && finished && cupti.all_calls() == calls
        })?;
        assert!(succeeded, "the child's finish");
        let dropped = fork_and_run(|| {
            let calls = cupti.all_calls();
            drop(profiler.take());
            cupti.all_calls() == calls
        })?;
        assert!(dropped, "the child's drop");
        cupti.launch(5);
        let profile = profiler.take().unwrap().whole()?;
        assert_eq!((profile.launches(), profile.ranges()), (10, 0));
        assert_eq!(Dataset::open(&output)?.rows(Table::Launches), 10);
        Ok(())
    })
}

#[test]
fn forks_while_threads_launch_disturb_neither_side() -> Outcome {
    Process::of(forks_while_threads_launch_disturb_neither_side).run(|| {
        let cupti = Simulated::get();
        let mut profiler = Some(Profiler::builder().start()?);
        drop(cuprof::range!("this thread is known"));
        let stop = AtomicBool::new(false);
        let launched = std::thread::scope(|scope| {
            let launch = || {
                let mut launched = 0;
                while !stop.load(Ordering::Relaxed) {
                    cuprof::in_range("range", || cupti.launch(5));
                    launched += 5;
                    std::thread::yield_now();
                }
                launched
            };
            let threads = [scope.spawn(launch), scope.spawn(launch), scope.spawn(launch)];
            let forked: std::io::Result<Vec<_>> = (0..20)
                .map(|_| {
                    fork_and_run(|| {
                        let _range = cuprof::range!("in the child");
                        let ended = profiler.take().map(|profiler| profiler.failing(&[]));
                        ended.is_some_and(|ended| {
                            ended.is_ok_and(|(error, _)| error.kind == ErrorKind::Config)
                        })
                    })
                })
                .collect();
            stop.store(true, Ordering::Relaxed);
            let launched: u64 = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
            assert!(forked?.into_iter().all(|succeeded| succeeded));
            Ok::<_, std::io::Error>(launched)
        })?;
        let profile = profiler.take().unwrap().whole()?;
        assert_eq!(profile.launches(), launched);
        Ok(())
    })
}

/// Memory in use, and threads.
fn footprint() -> Result<(usize, usize), Box<dyn std::error::Error>> {
    let pages = std::fs::read_to_string("/proc/self/statm")?;
    let resident = pages.split(' ').nth(1).ok_or("statm")?.parse::<usize>()?;
    Ok((resident * 4096, std::fs::read_dir("/proc/self/task")?.count()))
}

#[test]
fn b40_a_thousand_sessions_in_a_row_do_not_grow() -> Outcome {
    Process::of(b40_a_thousand_sessions_in_a_row_do_not_grow).version("13.5").run(|| {
        let cupti = Simulated::get();
        let session = || -> Outcome {
            let profiler = Profiler::builder().start()?;
            {
                let _range = cuprof::range!("session");
                cupti.launch(20);
            }
            let profile = profiler.whole()?;
            assert_eq!((profile.launches(), profile.ranges()), (20, 1));
            Ok(())
        };
        for _ in 0..100 {
            session()?;
        }
        let (memory, threads) = footprint()?;
        for _ in 0..900 {
            session()?;
        }
        let (memory_after, threads_after) = footprint()?;
        assert!(memory_after < memory + (4 << 20), "{memory} bytes have become {memory_after}");
        // One of them may still be on its way out.
        assert!(threads_after <= threads + 1, "{threads} threads have become {threads_after}");
        assert_eq!((cupti.left_on(), cupti.buffers_held()), (0, 0));
        Ok(())
    })
}

/// By hand: `cargo test --release --test simulated -- --ignored thirty_million --nocapture`.
#[test]
#[ignore = "takes minutes"]
fn thirty_million_launches_do_not_grow() -> Outcome {
    const MILLION: u32 = 1_000_000;
    const STEP: u32 = 4_000;
    let folder = crate::process::folder()?;
    let process = Process::of(thirty_million_launches_do_not_grow).version("13.5").lasting(1200);
    let output = process.with("OUTPUT", folder.path().join("run.cuprof")).output(|| {
        let cupti = Simulated::get();
        let profiler = Profiler::builder().output(given("OUTPUT")).start()?;
        let begun = Instant::now();
        let mut after = Vec::new();
        for million in 1..=30_u32 {
            // No more at a time than a thread's ring holds, so that nothing is lost however busy the machine is.
            for _ in 0..MILLION / STEP {
                cuprof::in_range("step", || cupti.launch(STEP));
                profiler.flush()?;
            }
            let (memory, _) = footprint()?;
            println!(
                "told {million} million launches, {} s, {} KiB",
                begun.elapsed().as_secs(),
                memory >> 10
            );
            after.push(memory);
        }
        assert_eq!(profiler.whole()?.launches(), 30 * u64::from(MILLION));
        // Everything has its size after the first third.
        let grown = after[29].saturating_sub(after[9]);
        println!("told {} KiB more for the last 20 million launches", grown >> 10);
        assert!(grown < 5 << 20, "{after:?}");
        Ok(())
    })?;
    output.lines().filter_map(|line| line.strip_prefix("told ")).for_each(|line| println!("{line}"));
    Ok(())
}

#[test]
fn work_between_two_sessions_is_in_neither_and_hides_nothing_of_the_second() -> Outcome {
    // This release must not switch kernel records off, so work between sessions is recorded, too: into a buffer that
    // CUPTI still has when the second session starts.
    let process =
        Process::of(work_between_two_sessions_is_in_neither_and_hides_nothing_of_the_second).version("12.9");
    process.run(|| {
        let cupti = Simulated::get();
        let profiler = Profiler::builder().start()?;
        cupti.launch(1);
        assert_eq!(profiler.whole()?.launches(), 1);
        cupti.launch(10);
        let folder = crate::process::folder()?;
        let output = folder.path().join("run.cuprof");
        let profiler = Profiler::builder().output(&output).start()?;
        cupti.work(Work { calls: 20, ..Work::KERNEL });
        let profile = profiler.whole()?;
        assert_eq!(profile.launches(), 20);
        assert_eq!(Dataset::open(&output)?.rows(Table::Launches), 20);
        Ok(())
    })
}

#[test]
fn a_panic_in_the_program_while_ranges_are_open_closes_them() -> Outcome {
    Process::of(a_panic_in_the_program_while_ranges_are_open_closes_them).run(|| {
        let profiler = Profiler::builder().start()?;
        let panicked = catch_unwind(|| {
            let _outer = cuprof::range!("outer");
            let _inner = cuprof::range!("inner");
            panic!("the program fails");
        });
        assert!(panicked.is_err());
        assert_eq!(profiler.whole()?.ranges(), 2);
        Ok(())
    })
}

#[test]
fn a_later_session_may_name_the_same_library_in_another_way() -> Outcome {
    Process::of(a_later_session_may_name_the_same_library_in_another_way).run(|| {
        Profiler::builder().start()?.whole()?;
        let library = given("CUPROF_CUPTI_PATH");
        let folder = crate::process::folder()?;
        let link = folder.path().join("link.so.13");
        std::os::unix::fs::symlink(&library, &link)?;
        Profiler::builder().cupti_path(&link).start()?.whole()?;
        let Err(error) = Profiler::builder().cupti_path(folder.path()).start() else {
            return Err("another library was taken for the loaded one".into());
        };
        assert_eq!(error.kind, ErrorKind::Config);
        Ok(())
    })
}
