//! Ranges: nested, repeated, carried to other threads, and of the whole process.

use cuprof_workload::{Expected, Gpu, Kernel, work};

use crate::Outcome;
use crate::session::{gpu, record, turn};

fn empties(count: u64) -> Expected {
    Expected::default().kernel(Kernel::Empty, count)
}

#[test]
#[ignore = "needs a GPU"]
fn nested_and_repeated_ranges_count_what_was_launched_in_them() -> Outcome {
    let _turn = turn();
    let gpu = gpu()?;
    let stream = gpu.stream()?;
    let (trace, ()) = record(|| {
        work::empties(&gpu, &stream, 3)?;
        for step in 0..4_u64 {
            let _step = cuprof::range!("step", n = step);
            work::empties(&gpu, &stream, 1)?;
            {
                let _forward = cuprof::range!("forward");
                work::empties(&gpu, &stream, 2)?;
                cuprof::in_range("attention", || work::empties(&gpu, &stream, 5))?;
                work::empties(&gpu, &stream, 1)?;
            }
            cuprof::in_range("backward", || work::empties(&gpu, &stream, 7))?;
        }
        gpu.synchronize()
    })?;
    trace.assert_is(&[
        (None, empties(3)),
        (Some("step"), empties(4)),
        (Some("step/forward"), empties(12)),
        (Some("step/forward/attention"), empties(20)),
        (Some("step/backward"), empties(28)),
    ]);
    trace.assert_nothing_lost();
    let of = |path: &'static str| trace.ranges.rows().filter(move |row| row.text("range_path") == Some(path));
    for (path, count) in
        [("step", 16), ("step/forward", 8), ("step/forward/attention", 5), ("step/backward", 7)]
    {
        assert_eq!(of(path).count(), 4, "{path}");
        for row in of(path) {
            assert_eq!(row.number("n_launches"), count, "{path}, nested ranges included");
            assert!(row.flag("closed"));
            assert_eq!(row.text("kind"), Some("own"));
            assert!(row.number("start_ns") <= row.number("end_ns"));
        }
    }
    for forward in of("step/forward") {
        let parent = of("step").find(|step| step.int("range_id") == forward.int("parent_range_id"));
        let parent = parent.ok_or("a range without its parent")?;
        assert!(parent.number("start_ns") <= forward.number("start_ns"));
        assert!(parent.number("end_ns") >= forward.number("end_ns"));
    }
    // Every launch names the instance that it was made in.
    for row in trace.launches() {
        let range = trace.ranges.rows().find(|range| range.int("range_id") == row.int("range_id"));
        assert_eq!(range.and_then(|range| range.text("range_path")), row.text("range_path"));
    }
    Ok(())
}

#[test]
#[ignore = "needs a GPU"]
fn the_device_time_of_a_range_is_that_of_its_kernels() -> Outcome {
    let _turn = turn();
    let gpu = gpu()?;
    let stream = gpu.stream()?;
    let (trace, _) = record(|| {
        let _range = cuprof::range!("timed");
        for _ in 0..5 {
            work::spin(&gpu, &stream, 200_000)?;
        }
        Ok(())
    })?;
    let sum: i64 = trace.launches().map(|row| row.number("duration_ns")).sum();
    let start = trace.launches().map(|row| row.number("start_ns")).min().ok_or("no launches")?;
    let end = trace.launches().map(|row| row.number("end_ns")).max().ok_or("no launches")?;
    let range = trace.range("timed");
    assert_eq!(range.number("gpu_sum_ns"), sum);
    assert_eq!(range.number("gpu_span_ns"), end - start);
    assert!(sum >= 5 * 195_000);
    Ok(())
}

/// Three threads with a stream each launch `count` empty kernels, after `enter` has run on each.
fn on_workers<G>(gpu: &Gpu, count: u64, enter: impl Fn(u64) -> G + Sync) -> Result<(), String> {
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..3)
            .map(|index| {
                let enter = &enter;
                scope.spawn(move || {
                    let stream = gpu.stream()?;
                    let _entered = enter(index);
                    work::empties(gpu, &stream, count)?;
                    gpu.synchronize()
                })
            })
            .collect();
        workers
            .into_iter()
            .try_for_each(|worker| worker.join().unwrap_or(Err("a thread panicked".to_owned())))
    })
}

#[test]
#[ignore = "needs a GPU"]
fn a_handle_carries_a_range_to_other_threads() -> Outcome {
    let _turn = turn();
    let gpu = gpu()?;
    let stream = gpu.stream()?;
    let (trace, ()) = record(|| {
        let step = cuprof::range!("step");
        let handle = step.handle();
        on_workers(&gpu, 10, |_| handle.enter())?;
        on_workers(&gpu, 5, |index| (handle.enter(), cuprof::range!(&format!("worker {index}"))))?;
        on_workers(&gpu, 2, |_| ())?;
        work::empties(&gpu, &stream, 1)?;
        gpu.synchronize()
    })?;
    trace.assert_is(&[
        (None, empties(6)),
        (Some("step"), empties(31)),
        (Some("step/worker 0"), empties(5)),
        (Some("step/worker 1"), empties(5)),
        (Some("step/worker 2"), empties(5)),
    ]);
    assert_eq!(trace.range("step").number("n_launches"), 46);
    Ok(())
}

#[test]
#[ignore = "needs a GPU"]
fn a_process_range_counts_the_launches_of_every_thread() -> Outcome {
    let _turn = turn();
    let gpu = gpu()?;
    let (trace, ()) = record(|| {
        on_workers(&gpu, 1, |_| ())?;
        let epoch = cuprof::process_range("epoch");
        on_workers(&gpu, 10, |index| cuprof::range!(&format!("worker {index}")))?;
        let overlapping = cuprof::process_range("second half");
        on_workers(&gpu, 20, |_| ())?;
        drop(epoch);
        on_workers(&gpu, 40, |_| ())?;
        drop(overlapping);
        on_workers(&gpu, 80, |_| ())
    })?;
    trace.assert_nothing_lost();
    assert_eq!(trace.launches().count(), 3 * (1 + 10 + 20 + 40 + 80));
    for (path, count) in [("epoch", 3 * 30), ("second half", 3 * 60), ("worker 0", 10), ("worker 2", 10)] {
        let range = trace.range(path);
        assert_eq!(range.number("n_launches"), count, "{path}");
        assert!(range.flag("closed"));
        let kind = if path.starts_with("worker") { "own" } else { "process" };
        assert_eq!(range.text("kind"), Some(kind));
    }
    // A launch is of its thread's range; the process ranges around it are a set beside that.
    let in_sets = trace.launches().filter(|row| row.int("range_set_id").is_some()).count();
    assert_eq!(in_sets, 3 * (10 + 20 + 40));
    assert_eq!(trace.launches_in("worker 1").count(), 10);
    Ok(())
}

#[test]
#[ignore = "needs a GPU"]
fn a_range_left_open_is_marked() -> Outcome {
    let _turn = turn();
    let gpu = gpu()?;
    let stream = gpu.stream()?;
    let (trace, open) = record(|| {
        let open = cuprof::range!("open");
        work::empties(&gpu, &stream, 3)?;
        gpu.synchronize()?;
        Ok(open)
    })?;
    drop(open);
    trace.assert_is(&[(Some("open"), empties(3))]);
    let range = trace.range("open");
    assert!(!range.flag("closed"));
    assert!(range.number("end_ns") >= range.number("start_ns"));
    Ok(())
}
