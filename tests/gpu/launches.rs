//! Launches recorded are the launches made, over every way to launch.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{SystemTime, UNIX_EPOCH};

use cuprof_workload::calls::{CALLS, Ground, Outcome as Called, Work};
use cuprof_workload::{Expected, Kernel, work};

use crate::Outcome;
use crate::session::{gpu, record, turn};

fn now_ns() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

#[test]
#[ignore = "needs a GPU"]
fn every_driver_call_that_starts_work_is_recorded_in_its_range() -> Outcome {
    const TIMES: u64 = 3;
    let _turn = turn();
    let gpu = gpu()?;
    let mut ground = Ground::new(&gpu)?;
    let name = |call: &cuprof_workload::calls::Call| match call.work {
        Work::Kernel(Kernel::Clustered) => format!("{} with clusters", call.name),
        _ => call.name.to_owned(),
    };
    let (trace, outcomes) = record(|| {
        let mut outcomes = Vec::new();
        for call in CALLS {
            let _range = cuprof::range!(&name(call));
            for _ in 1..TIMES {
                ground.run(call)?;
            }
            outcomes.push(ground.run(call)?);
        }
        Ok(outcomes)
    })?;
    let mut wrong = Vec::new();
    for (call, outcome) in CALLS.iter().zip(outcomes) {
        let path = name(call);
        let kernels = trace.launches_in(&path).count() as u64;
        let transfers: Vec<_> =
            trace.transfers.rows().filter(|row| row.text("range_path") == Some(path.as_str())).collect();
        let bytes: i64 = transfers.iter().map(|row| row.number("bytes")).sum();
        let kinds: BTreeSet<_> = transfers.iter().map(|row| crate::session::kind(*row)).collect();
        println!(
            "{path:<44} {outcome:?}: {kernels} kernels, {} transfers {kinds:?}, {bytes} bytes",
            transfers.len()
        );
        let expected = call.expected().times(if outcome == Called::Done { TIMES } else { 0 });
        let moved: u64 =
            expected.copies.values().map(|traffic| traffic.bytes).sum::<u64>() + expected.fills.bytes;
        let fits = kernels == expected.launches()
            && transfers.len() as u64 == expected.transfers()
            && bytes.unsigned_abs() == moved
            && (expected.copies.keys().all(|kind| kinds.contains(kind)));
        if call.certain && !fits {
            wrong.push(format!("{path}: expected {expected:?}"));
        }
        if call.certain && !matches!(outcome, Called::Done | Called::Missing) {
            wrong.push(format!("{path}: {outcome:?}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    // Whatever else was recorded, it is known where it came from. A CUPTI that is older than the driver does not tell
    // of the driver's newest calls, though it records what they do.
    let older = trace.fact("cupti.version")?.starts_with("CUPTI 12");
    for row in trace.launches().chain(trace.transfers.rows()) {
        let unseen = older && row.text("attribution") == Some("launch_not_seen");
        assert!(unseen || row.text("attribution") == Some("range"), "{:?}", row.text("range_path"));
    }
    if !older {
        trace.assert_nothing_lost();
    }
    Ok(())
}

#[test]
#[ignore = "needs a GPU"]
fn every_kernel_has_its_name_its_shape_and_its_memory() -> Outcome {
    let _turn = turn();
    let gpu = gpu()?;
    let stream = gpu.stream()?;
    let (trace, expected) = record(|| {
        let _range = cuprof::range!("kernels");
        let expected = work::every_kernel(&gpu, &stream)?;
        gpu.empty_of_shape(&stream, [7, 3, 2], [96, 2, 1], 2048)?;
        gpu.synchronize()?;
        Ok(expected.kernel(Kernel::Empty, 1))
    })?;
    trace.assert_is(&[(Some("kernels"), expected)]);
    trace.assert_nothing_lost();
    for kernel in Kernel::GENERAL {
        let row = trace.launches().find(|row| row.text("kernel_mangled") == Some(kernel.mangled()));
        let row = row.unwrap_or_else(|| panic!("{kernel:?} was not recorded"));
        assert_eq!(row.text("kernel"), Some(kernel.demangled()));
        assert!(row.number("registers_per_thread") > 0);
        let shared = if kernel == Kernel::Reduce { 1024 } else { 0 };
        assert_eq!(row.number("static_shared_memory_bytes"), shared, "{kernel:?}");
        assert_eq!(row.int("graph_id"), None);
        assert_eq!(row.int("graph_node_id"), None);
    }
    let shaped = trace.launches().find(|row| row.number("grid_x") == 7).ok_or("no grid of 7")?;
    let shape =
        ["grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z"].map(|name| shaped.number(name));
    assert_eq!(shape, [7, 3, 2, 96, 2, 1]);
    assert_eq!(shaped.number("dynamic_shared_memory_bytes"), 2048);
    Ok(())
}

#[test]
#[ignore = "needs a GPU with clusters"]
fn clusters_are_recorded_with_their_size() -> Outcome {
    let _turn = turn();
    let gpu = gpu()?;
    assert!(gpu.has_clusters(), "this GPU has no clusters");
    let mut ground = Ground::new(&gpu)?;
    let call = CALLS
        .iter()
        .find(|call| call.work == Work::Kernel(Kernel::Clustered))
        .ok_or("no call that launches clusters")?;
    let (trace, outcome) = record(|| ground.run(call))?;
    assert_eq!(outcome, Called::Done);
    let row = trace.launches().next().ok_or("nothing was recorded")?;
    assert_eq!((row.text("kernel"), row.int("cluster_x")), (Some("clustered(int*)"), Some(2)));
    Ok(())
}

#[test]
#[ignore = "needs a GPU"]
fn many_launches_fill_many_buffers_and_none_is_lost() -> Outcome {
    const COUNT: u64 = 50_000;
    let _turn = turn();
    let gpu = gpu()?;
    let stream = gpu.stream()?;
    let (trace, expected) = record(|| {
        let _range = cuprof::range!("many");
        work::empties(&gpu, &stream, COUNT)
    })?;
    trace.assert_is(&[(Some("many"), expected)]);
    trace.assert_nothing_lost();
    let ids: BTreeSet<_> = trace.launches().map(|row| row.number("correlation_id")).collect();
    assert_eq!(ids.len() as u64, COUNT, "each launch has a correlation id of its own");
    assert_eq!(trace.range("many").number("n_launches").unsigned_abs(), COUNT);
    Ok(())
}

#[test]
#[ignore = "needs a GPU"]
fn threads_launch_at_once_and_each_launch_has_its_threads_range() -> Outcome {
    let _turn = turn();
    let gpu = gpu()?;
    for (threads, count) in [(1_u64, 2_000_u64), (8, 1_000), (64, 200)] {
        let (trace, ()) = record(|| {
            std::thread::scope(|scope| {
                let workers: Vec<_> = (0..threads)
                    .map(|index| {
                        let gpu = &gpu;
                        scope.spawn(move || {
                            let stream = gpu.stream()?;
                            let _range = cuprof::range!(&format!("thread {index}"));
                            work::empties(gpu, &stream, count)?;
                            gpu.synchronize()
                        })
                    })
                    .collect();
                workers
                    .into_iter()
                    .try_for_each(|worker| worker.join().unwrap_or(Err("a thread panicked".into())))
            })
        })?;
        let expected: Vec<_> = (0..threads).map(|index| format!("thread {index}")).collect();
        let each = Expected::default().kernel(Kernel::Empty, count);
        trace.assert_is(&expected.iter().map(|path| (Some(path.as_str()), each.clone())).collect::<Vec<_>>());
        trace.assert_nothing_lost();
        let mut threads_of: BTreeMap<&str, BTreeSet<i64>> = BTreeMap::new();
        let mut streams_of: BTreeMap<&str, BTreeSet<i64>> = BTreeMap::new();
        for row in trace.launches() {
            let path = row.text("range_path").unwrap_or_default();
            threads_of.entry(path).or_default().insert(row.number("thread_id"));
            streams_of.entry(path).or_default().insert(row.number("stream"));
        }
        assert!(threads_of.values().chain(streams_of.values()).all(|ids| ids.len() == 1));
        for of in [&threads_of, &streams_of] {
            let distinct: BTreeSet<_> = of.values().flatten().collect();
            assert_eq!(distinct.len() as u64, threads, "every thread has an id and a stream of its own");
        }
        println!("{threads} threads × {count} launches: all recorded");
    }
    Ok(())
}

#[test]
#[ignore = "needs a GPU"]
fn a_kernels_duration_is_what_it_measured_itself() -> Outcome {
    let _turn = turn();
    let gpu = gpu()?;
    let stream = gpu.stream()?;
    work::spin(&gpu, &stream, 1_000)?; // the first launch of a kernel may load it
    let before = now_ns();
    let (trace, spans) = record(|| {
        [100_000_u64, 1_000_000, 10_000_000]
            .into_iter()
            .map(|nanoseconds| {
                let (_, report) = work::spin(&gpu, &stream, nanoseconds)?;
                Ok(report.globaltimer_ns.1 - report.globaltimer_ns.0)
            })
            .collect::<Result<Vec<u64>, String>>()
    })?;
    let after = now_ns();
    let mut rows: Vec<_> =
        trace.launches().filter(|row| row.text("kernel_mangled") == Some("_Z4spinyPy")).collect();
    rows.sort_by_key(|row| row.number("start_ns"));
    assert_eq!(rows.len(), spans.len());
    for (row, span) in rows.iter().zip(spans) {
        let (duration, span) = (row.number("duration_ns"), i64::try_from(span)?);
        println!("spun for {span} ns by the GPU's timer, recorded as {duration} ns");
        assert_eq!(duration, row.number("end_ns") - row.number("start_ns"));
        assert!((duration - span).abs() <= (span / 50).max(5_000), "{duration} ns against {span} ns");
        // On the wall clock, within 10 ms; and the work starts after its launch.
        assert!(row.number("start_ns") >= before - 10_000_000 && row.number("end_ns") <= after + 10_000_000);
        let lead = row.number("launch_lead_ns");
        assert!((-1_000_000..1_000_000_000).contains(&lead), "started {lead} ns after its launch");
    }
    Ok(())
}

#[test]
#[ignore = "needs a GPU"]
fn kernels_of_two_streams_overlap_in_the_trace() -> Outcome {
    let _turn = turn();
    let gpu = gpu()?;
    work::overlap(&gpu, 1_000)?;
    let (trace, expected) = record(|| {
        let _range = cuprof::range!("overlap");
        work::overlap(&gpu, 20_000_000)
    })?;
    trace.assert_is(&[(Some("overlap"), expected)]);
    let spans: Vec<_> = trace.launches().map(|row| (row.number("start_ns"), row.number("end_ns"))).collect();
    let [(start_a, end_a), (start_b, end_b)] = spans[..] else { return Err("not two kernels".into()) };
    assert!(start_a.max(start_b) < end_a.min(end_b), "they ran one after the other: {spans:?}");
    // The range's sum counts both, its span counts the time once.
    let range = trace.range("overlap");
    assert_eq!(range.number("gpu_sum_ns"), end_a - start_a + end_b - start_b);
    assert_eq!(range.number("gpu_span_ns"), end_a.max(end_b) - start_a.min(start_b));
    Ok(())
}

#[test]
#[ignore = "needs a GPU"]
fn kernels_of_modules_that_come_and_go_keep_their_names() -> Outcome {
    let _turn = turn();
    let gpu = gpu()?;
    let stream = gpu.stream()?;
    let (trace, expected) = record(|| {
        let _range = cuprof::range!("modules");
        work::modules(&gpu, &stream, 20, 25)
    })?;
    trace.assert_is(&[(Some("modules"), expected)]);
    trace.assert_nothing_lost();
    Ok(())
}

#[test]
#[ignore = "needs a GPU"]
fn streams_have_ids_of_their_own() -> Outcome {
    let _turn = turn();
    let gpu = gpu()?;
    let streams = (0..4).map(|_| gpu.stream()).collect::<Result<Vec<_>, _>>()?;
    let (trace, ()) = record(|| {
        for stream in &streams {
            work::empties(&gpu, stream, 10)?;
        }
        gpu.synchronize()
    })?;
    let mut launches: BTreeMap<i64, u64> = BTreeMap::new();
    for row in trace.launches() {
        *launches.entry(row.number("stream")).or_default() += 1;
    }
    assert_eq!(launches.len(), 4);
    assert!(launches.values().all(|count| *count == 10));
    trace.assert_is(&[(None, Expected::default().kernel(Kernel::Empty, 40))]);
    Ok(())
}
