//! Sessions: when they start, how they end, how many there are, and which library they use.

use cuprof::{Dataset, ErrorKind, Table};
use cuprof_workload::{Expected, Gpu, Kernel, work};

use crate::Outcome;
use crate::frame::Frame;
use crate::session::{Place, Trace, gpu, in_a_process_of_its_own, launches_at, record, turn};

fn empties(count: u64) -> Expected {
    Expected::default().kernel(Kernel::Empty, count)
}

#[test]
#[ignore = "needs a GPU"]
fn a_session_started_before_the_driver_is_initialised_records_everything() -> Outcome {
    in_a_process_of_its_own(
        "sessions::a_session_started_before_the_driver_is_initialised_records_everything",
        || {
            let place = Place::new()?;
            let profiler = place.start()?;
            let gpu = Gpu::open()?; // cuInit, the first context, the first modules
            let stream = gpu.stream()?;
            {
                let _range = cuprof::range!("early");
                work::empties(&gpu, &stream, 1_000)?;
            }
            gpu.synchronize()?;
            let trace = Trace::of(profiler.finish()?, place)?;
            assert_eq!(trace.launches_in("early").count(), 1_000);
            assert_eq!(trace.launches().count(), 1_000);
            for row in trace.launches() {
                assert!(row.flag("valid") && row.text("attribution") == Some("range"));
            }
            // The driver may copy or fill on its own while it creates a context or loads a module.
            let own = trace
                .transfers
                .rows()
                .filter(|row| row.text("attribution") == Some("launch_not_seen"))
                .count();
            println!("{own} copies and fills of the driver itself");
            for loss in trace.profile.losses().iter().filter(|loss| loss.count > 0) {
                assert!(loss.cause == "launch_not_seen", "{} × {}", loss.count, loss.cause);
                assert_eq!(loss.count, own as u64);
            }
            Ok(())
        },
    )
}

#[test]
#[ignore = "needs a GPU"]
fn a_session_started_after_much_work_records_what_follows() -> Outcome {
    let _turn = turn();
    let gpu = gpu()?;
    let stream = gpu.stream()?;
    work::empties(&gpu, &stream, 5_000)?;
    gpu.synchronize()?;
    let (trace, expected) = record(|| {
        let _range = cuprof::range!("late");
        let expected = work::empties(&gpu, &stream, 1_000)?;
        gpu.synchronize()?;
        Ok(expected)
    })?;
    trace.assert_is(&[(Some("late"), expected)]);
    trace.assert_nothing_lost();
    Ok(())
}

#[test]
#[ignore = "needs a GPU"]
fn work_launched_before_the_start_is_never_given_to_a_range() -> Outcome {
    let _turn = turn();
    let gpu = gpu()?;
    let stream = gpu.stream()?;
    let mut buffer = gpu.spin_buffer(&stream)?;
    gpu.synchronize()?;
    gpu.spin(&stream, 100_000_000, &mut buffer)?;
    let (trace, ()) = record(|| {
        let _range = cuprof::range!("inside");
        work::empties(&gpu, &stream, 2)?;
        gpu.synchronize()
    })?;
    assert_eq!(trace.launches_in("inside").count(), 2);
    for row in trace.launches().filter(|row| row.text("kernel_mangled") == Some("_Z4spinyPy")) {
        assert_eq!(row.text("attribution"), Some("launched_before_start"));
        assert_eq!(row.text("range_path"), None);
    }
    Ok(())
}

#[test]
#[ignore = "needs a GPU"]
fn twenty_sessions_in_a_row_each_have_their_own_launches() -> Outcome {
    let _turn = turn();
    let gpu = gpu()?;
    let stream = gpu.stream()?;
    for session in 1..=20_u64 {
        let path = format!("session {session}");
        let (trace, expected) = record(|| {
            let _range = cuprof::range!(&path);
            let expected = work::empties(&gpu, &stream, 100 * session)?;
            gpu.synchronize()?;
            Ok(expected)
        })?;
        trace.assert_is(&[(Some(&path), expected)]);
        trace.assert_nothing_lost();
        work::empties(&gpu, &stream, 50)?; // between sessions: in none of them
        gpu.synchronize()?;
    }
    Ok(())
}

#[test]
#[ignore = "needs a GPU"]
fn a_context_destroyed_between_sessions_is_not_waited_for() -> Outcome {
    let _turn = turn();
    for _ in 0..3 {
        let gpu = gpu()?;
        let stream = gpu.stream()?;
        // No session sees this context go: its last reference is dropped at the end of this block.
        let (trace, expected) = record(|| {
            let expected = work::empties(&gpu, &stream, 10)?;
            gpu.synchronize()?;
            Ok(expected)
        })?;
        trace.assert_is(&[(None, expected)]);
        trace.assert_nothing_lost();
    }
    Ok(())
}

#[test]
#[ignore = "needs a GPU"]
fn sessions_of_few_launches_lose_none_of_them() -> Outcome {
    let _turn = turn();
    let gpu = gpu()?;
    let stream = gpu.stream()?;
    for session in 0..10 {
        // CUPTI may still hold a buffer of the session before, and then asks for none.
        let (trace, expected) = record(|| {
            let expected = work::empties(&gpu, &stream, 1)?;
            gpu.synchronize()?;
            Ok(expected)
        })?;
        assert_eq!(trace.profile.launches(), 1, "session {session}");
        trace.assert_is(&[(None, expected)]);
    }
    Ok(())
}

#[test]
#[ignore = "needs a GPU"]
fn a_second_session_at_once_is_refused_and_the_first_goes_on() -> Outcome {
    let _turn = turn();
    let gpu = gpu()?;
    let stream = gpu.stream()?;
    let (trace, ()) = record(|| {
        work::empties(&gpu, &stream, 5)?;
        let second = Place::new().map_err(|error| error.to_string())?;
        match cuprof::Profiler::builder().output(second.dataset()).start() {
            Ok(_) => return Err("a second session was started".to_owned()),
            Err(error) if error.kind == ErrorKind::AlreadyRunning => println!("{error}"),
            Err(error) => return Err(format!("not AlreadyRunning: {error}")),
        }
        work::empties(&gpu, &stream, 5)?;
        gpu.synchronize()
    })?;
    trace.assert_is(&[(None, empties(10))]);
    Ok(())
}

#[test]
#[ignore = "needs a GPU"]
fn a_flush_midway_makes_what_is_done_readable() -> Outcome {
    let _turn = turn();
    let gpu = gpu()?;
    let stream = gpu.stream()?;
    let place = Place::new()?;
    let profiler = place.start()?;
    let _range = cuprof::range!("around");
    work::empties(&gpu, &stream, 100)?;
    gpu.synchronize()?;
    profiler.flush()?;
    assert_eq!(launches_at(&place.dataset())?, 100);
    work::empties(&gpu, &stream, 50)?;
    gpu.synchronize()?;
    drop(_range);
    let trace = Trace::of(profiler.finish()?, place)?;
    trace.assert_is(&[(Some("around"), empties(150))]);
    trace.assert_nothing_lost();
    Ok(())
}

#[test]
#[ignore = "needs a GPU"]
fn finishing_waits_for_work_that_still_runs() -> Outcome {
    let _turn = turn();
    let gpu = gpu()?;
    let stream = gpu.stream()?;
    let mut buffer = gpu.spin_buffer(&stream)?;
    gpu.synchronize()?;
    let (trace, ()) = record(|| {
        gpu.spin(&stream, 50_000_000, &mut buffer)?;
        work::empties(&gpu, &stream, 3).map(drop) // not waited for
    })?;
    trace.assert_is(&[(None, empties(3).kernel(Kernel::Spin, 1))]);
    trace.assert_nothing_lost();
    Ok(())
}

#[test]
#[ignore = "needs a GPU"]
fn a_session_dropped_without_finish_leaves_readable_files() -> Outcome {
    let _turn = turn();
    let gpu = gpu()?;
    let stream = gpu.stream()?;
    let place = Place::new()?;
    let profiler = place.start()?;
    work::empties(&gpu, &stream, 200)?;
    gpu.synchronize()?;
    drop(profiler);
    let found = launches_at(&place.dataset())?;
    println!("{found} of 200 launches are readable");
    assert!(found <= 200);
    let dataset = Dataset::open(place.dataset())?;
    for table in Table::ALL {
        for batch in dataset.batches(table) {
            batch?;
        }
    }
    // The next session starts as if nothing had happened.
    let (trace, expected) = record(|| {
        let expected = work::empties(&gpu, &stream, 10)?;
        gpu.synchronize()?;
        Ok(expected)
    })?;
    trace.assert_is(&[(None, expected)]);
    Ok(())
}

#[test]
#[ignore = "needs a GPU"]
fn a_session_without_any_work_is_empty_and_ends() -> Outcome {
    let _turn = turn();
    let _gpu = gpu()?;
    let (trace, ()) = record(|| Ok(()))?;
    assert_eq!((trace.profile.launches(), trace.profile.transfers()), (0, 0));
    assert_eq!(trace.launches.len() + trace.transfers.len() + trace.ranges.len(), 0);
    trace.assert_nothing_lost();
    println!("{}", trace.profile.summary());
    Ok(())
}

#[test]
#[ignore = "needs a GPU"]
fn a_recording_replayed_gives_the_same_tables() -> Outcome {
    let _turn = turn();
    let gpu = gpu()?;
    let stream = gpu.stream()?;
    let (live, replayed) = (Place::new()?, Place::new()?);
    let recording = live.dataset().with_extension("cuprofrec");
    let profiler =
        cuprof::Profiler::builder().output(live.dataset()).overwrite(true).record(&recording).start()?;
    let mut expected = Expected::default();
    {
        let _range = cuprof::range!("kernels");
        expected.add(&work::every_kernel(&gpu, &stream)?);
        let _inner = cuprof::range!("inner");
        work::empties(&gpu, &stream, 10)?;
    }
    gpu.synchronize()?;
    let profile = profiler.finish()?;
    let profile_again = cuprof::Replay::open(&recording)?.output(replayed.dataset()).run()?;
    let (live, replayed) = (Trace::of(profile, live)?, Trace::of(profile_again, replayed)?);
    for trace in [&live, &replayed] {
        trace.assert_is(&[(Some("kernels"), expected.clone()), (Some("kernels/inner"), empties(10))]);
    }
    let cells = |trace: &Trace| {
        let row = |row: crate::frame::Row<'_>| {
            (row.number("correlation_id"), row.number("start_ns"), row.number("end_ns"), row.int("range_id"))
        };
        let mut rows: Vec<_> = trace.launches().map(row).collect();
        rows.sort_unstable();
        rows
    };
    assert_eq!(cells(&live), cells(&replayed));
    Ok(())
}

#[test]
#[ignore = "needs a GPU"]
fn the_library_in_use_is_told() -> Outcome {
    let _turn = turn();
    let gpu = gpu()?;
    let stream = gpu.stream()?;
    let (trace, _) = record(|| {
        let expected = work::empties(&gpu, &stream, 1)?;
        gpu.synchronize()?;
        Ok(expected)
    })?;
    let env = Frame::read(&trace.dataset, Table::Env, &["key", "value"])?;
    println!("{}", gpu.describe());
    for row in env.rows() {
        println!("{} = {}", row.text("key").unwrap_or_default(), row.text("value").unwrap_or_default());
    }
    if let Some(asked) = std::env::var_os("CUPROF_CUPTI_PATH") {
        let asked = std::fs::canonicalize(asked)?;
        let used = |row: crate::frame::Row<'_>| {
            let value = std::fs::canonicalize(row.text("value").unwrap_or_default());
            value.is_ok_and(|file| file == asked || file.parent() == Some(&asked))
        };
        assert!(env.rows().any(used), "no fact names {}", asked.display());
    }
    Ok(())
}

#[test]
#[ignore = "needs a GPU"]
fn threads_that_launch_while_sessions_start_and_end_are_not_disturbed() -> Outcome {
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
    let _turn = turn();
    let gpu = gpu()?;
    let (stop, launched) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..4)
            .map(|_| {
                let (gpu, stop, launched) = (&gpu, &stop, &launched);
                scope.spawn(move || -> Result<(), String> {
                    let stream = gpu.stream()?;
                    while !stop.load(Ordering::Relaxed) {
                        let _range = cuprof::range!("worker");
                        work::empties(gpu, &stream, 20)?;
                        gpu.synchronize()?;
                        launched.fetch_add(20, Ordering::Relaxed);
                    }
                    Ok(())
                })
            })
            .collect();
        let all_failed = || workers.iter().all(|worker| worker.is_finished());
        let sessions = (0..30).try_for_each(|_| -> Outcome {
            let (trace, ()) = record(|| {
                let before = launched.load(Ordering::Relaxed);
                while launched.load(Ordering::Relaxed) < before + 100 && !all_failed() {
                    std::thread::yield_now();
                }
                Ok(())
            })?;
            for row in trace.launches() {
                let whole = row.text("attribution") == Some("range");
                assert!(!whole || row.text("range_path") == Some("worker"));
            }
            Ok(())
        });
        stop.store(true, Ordering::Relaxed);
        for worker in workers {
            worker.join().unwrap_or(Err("a thread panicked".to_owned()))?;
        }
        sessions
    })?;
    println!("{} launches beside 30 sessions", launched.into_inner());
    Ok(())
}
