//! The whole way from a launch to a row that is read, on a CUPTI of each version.

use std::collections::BTreeMap;
use std::sync::Barrier;

use cuprof::{Dataset, Profiler, Replay, Table};

use crate::Outcome;
use crate::frame::Frame;
use crate::library::{Simulated, Work, kind};
use crate::process::{Process, VERSIONS, given, is_inside};
use crate::session::Ends;

/// Launches by range path.
fn by_path(dataset: &Dataset) -> Result<BTreeMap<Option<String>, u64>, Box<dyn std::error::Error>> {
    let rows = Frame::read(dataset, Table::Launches, &["range_path", "attribution", "valid"])?;
    let mut counts = BTreeMap::new();
    for row in rows.rows() {
        let path = row.text("range_path").map(str::to_owned);
        let expected = if path.is_some() { "range" } else { "no_range" };
        assert_eq!(row.text("attribution"), Some(expected));
        assert!(row.flag("valid"));
        *counts.entry(path).or_default() += 1;
    }
    Ok(counts)
}

#[test]
fn launches_of_sixteen_threads_are_rows_under_the_ranges_of_their_threads() -> Outcome {
    const THREADS: usize = 16;
    let process = Process::of(launches_of_sixteen_threads_are_rows_under_the_ranges_of_their_threads);
    process.version("13.5").run(|| {
        let folder = crate::process::folder()?;
        let (output, recording) = (folder.path().join("run.cuprof"), folder.path().join("run.cuprofrec"));
        let profiler = Profiler::builder().output(&output).record(&recording).start()?;
        let cupti = Simulated::get();
        let barrier = Barrier::new(THREADS);
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let barrier = &barrier;
                scope.spawn(move || {
                    barrier.wait();
                    let _thread = cuprof::range!(&format!("thread {thread}"));
                    for step in 0..10_u32 {
                        let _step = cuprof::range!("step", number = step);
                        cupti.launch(20);
                        cuprof::in_range("copy", || cupti.work(Work::COPY));
                    }
                    cupti.launch(1);
                });
            }
        });
        cupti.launch(7);
        let profile = profiler.whole()?;
        let mut expected = BTreeMap::from([(None, 7)]);
        for thread in 0..THREADS {
            expected.insert(Some(format!("thread {thread}/step")), 200);
            expected.insert(Some(format!("thread {thread}")), 1);
        }
        let dataset = Dataset::open(&output)?;
        assert_eq!(by_path(&dataset)?, expected);
        assert_eq!(profile.launches(), THREADS as u64 * 201 + 7);
        assert_eq!((profile.transfers(), dataset.rows(Table::Transfers)), (160, 160));
        assert_eq!(profile.ranges(), THREADS as u64 * 21);

        // Ranges know their parents, threads and launches; every launch carries the thread of its range.
        let columns = [
            "range_id",
            "parent_range_id",
            "range_path",
            "thread_id",
            "closed",
            "n_launches",
            "n_transfers",
            "args",
        ];
        let ranges = Frame::read(&dataset, Table::Ranges, &columns)?;
        let threads: BTreeMap<_, _> =
            ranges.rows().map(|row| (row.number("range_id"), row.number("thread_id"))).collect();
        for row in ranges.rows() {
            let path = row.text("range_path").unwrap_or_default();
            let work = (row.number("n_launches"), row.number("n_transfers"));
            match path.split('/').count() {
                // With what is in the ranges inside.
                1 => assert_eq!((row.int("parent_range_id"), work), (None, (201, 10))),
                2 => assert_eq!(work, (20, 1)),
                _ => assert_eq!(work, (0, 1)),
            }
            if let Some(parent) = row.int("parent_range_id") {
                assert_eq!(threads[&parent], row.number("thread_id"));
            }
            assert!(row.flag("closed"));
        }
        let launches = Frame::read(&dataset, Table::Launches, &["range_id", "thread_id", "correlation_id"])?;
        let mut correlations: Vec<_> = launches.rows().map(|row| row.number("correlation_id")).collect();
        for row in launches.rows() {
            if let Some(range) = row.int("range_id") {
                assert_eq!(threads[&range], row.number("thread_id"));
            }
        }
        correlations.sort_unstable();
        correlations.dedup();
        assert_eq!(correlations.len(), launches.len(), "a launch is there twice");

        // A replay of the recording is the same run.
        let replayed = Replay::open(&recording)?.output(folder.path().join("replay.cuprof")).run()?;
        assert_eq!(by_path(&Dataset::open(folder.path().join("replay.cuprof"))?)?, expected);
        assert_eq!(replayed.summary().kernels, profile.summary().kernels);
        assert!(replayed.losses().is_empty());
        Ok(())
    })
}

#[test]
fn more_records_than_many_buffers_hold_all_arrive() -> Outcome {
    Process::of(more_records_than_many_buffers_hold_all_arrive).run(|| {
        let folder = crate::process::folder()?;
        let output = folder.path().join("run.cuprof");
        let profiler = Profiler::builder().output(&output).max_rows_per_part(25_000).start()?;
        let cupti = Simulated::get();
        for _ in 0..30 {
            cuprof::in_range("batch", || cupti.launch(2_000));
            profiler.flush()?; // so that no ring overflows, however slow the worker is
        }
        let profile = profiler.whole()?;
        assert_eq!(profile.launches(), 60_000);
        assert_eq!(by_path(&Dataset::open(&output)?)?, BTreeMap::from([(Some("batch".to_owned()), 60_000)]));
        Ok(())
    })
}

#[test]
fn what_was_flushed_can_be_read_while_the_session_runs() -> Outcome {
    Process::of(what_was_flushed_can_be_read_while_the_session_runs).run(|| {
        let folder = crate::process::folder()?;
        let output = folder.path().join("run.cuprof");
        let profiler = Profiler::builder().output(&output).start()?;
        let cupti = Simulated::get();
        for round in 1..=3 {
            cupti.launch(100);
            profiler.flush()?;
            let dataset = Dataset::open(&output)?;
            assert_eq!(dataset.rows(Table::Launches), 100 * round);
            assert!(!dataset.is_complete());
        }
        profiler.whole()?;
        assert!(Dataset::open(&output)?.is_complete());
        Ok(())
    })
}

#[test]
fn the_nodes_of_a_graph_are_rows_of_its_one_launch() -> Outcome {
    Process::of(the_nodes_of_a_graph_are_rows_of_its_one_launch).run(|| {
        let folder = crate::process::folder()?;
        let output = folder.path().join("run.cuprof");
        let profiler = Profiler::builder().output(&output).start()?;
        let cupti = Simulated::get();
        let graph = Work { cbid: 514, graph: 9, records: 50, calls: 4, ..Work::KERNEL }; // cuGraphLaunch
        cuprof::in_range("graph", || cupti.work(graph));
        // A correlation id of a call that launches no graph: a fault of CUPTI before 13.1 Update 1.
        cuprof::in_range("not a graph", || cupti.work(Work { cbid: 307, calls: 1, records: 2, ..graph }));
        let profile = profiler.losing(&[("graph_unmapped", 2)])?;
        assert_eq!(profile.launches(), 202);
        let rows = Frame::read(
            &Dataset::open(&output)?,
            Table::Launches,
            &["graph_id", "graph_node_id", "range_path", "attribution"],
        )?;
        let nodes = rows.rows().filter(|row| row.text("attribution") == Some("range"));
        let nodes: Vec<_> = nodes.map(|row| (row.int("graph_id"), row.number("graph_node_id"))).collect();
        let expected = (0..4).flat_map(|_| (1..=50).map(|node| (Some(9), node)));
        assert_eq!(nodes, expected.collect::<Vec<_>>());
        Ok(())
    })
}

#[test]
fn after_a_flush_every_range_that_has_ended_can_be_read() -> Outcome {
    Process::of(after_a_flush_every_range_that_has_ended_can_be_read).run(|| {
        let folder = crate::process::folder()?;
        let output = folder.path().join("run.cuprof");
        let builder = Profiler::builder().flush_period(std::time::Duration::ZERO);
        let profiler = builder.output(&output).start()?;
        for flushes in 1..=3 {
            cuprof::in_range("range", || Simulated::get().launch(1));
            drop(cuprof::process_range("everywhere"));
            profiler.flush()?;
            assert_eq!(Dataset::open(&output)?.rows(Table::Ranges), 2 * flushes);
        }
        profiler.whole()?;
        Ok(())
    })
}

#[test]
fn tables_that_were_asked_for_have_their_rows_and_the_threads_of_the_kernel() -> Outcome {
    let process = Process::of(tables_that_were_asked_for_have_their_rows_and_the_threads_of_the_kernel);
    process.version("13.5").run(|| {
        let folder = crate::process::folder()?;
        let output = folder.path().join("run.cuprof");
        let builder = Profiler::builder().api_calls().synchronizations().memory_operations();
        let profiler = builder.output(&output).start()?;
        let cupti = Simulated::get();
        for kind in [kind::OVERHEAD, kind::SYNCHRONIZATION, kind::MEMORY2, kind::MEMCPY2] {
            cupti.work(Work { kind, cbid: 307, ..Work::KERNEL });
        }
        // What tells of other things than work is no record of a launch.
        profiler.losing(&[("launches_without_record", 3)])?;
        let dataset = Dataset::open(&output)?;
        let rows = [Table::Overheads, Table::Synchronizations, Table::MemoryOperations, Table::Transfers];
        assert_eq!(rows.map(|table| dataset.rows(table)), [1; 4]);
        // Each call is in both domains.
        let calls = Frame::read(&dataset, Table::ApiCalls, &["domain", "name", "thread_id"])?;
        assert_eq!(calls.len(), 8);
        let own = rustix::thread::gettid().as_raw_nonzero().get().into();
        for row in calls.rows() {
            let name = if row.text("domain") == Some("driver") {
                "cuLaunchKernel"
            } else {
                "cudaLaunchKernel_v7000"
            };
            assert_eq!((row.text("name"), row.number("thread_id")), (Some(name), own));
        }
        Ok(())
    })
}

/// Everything in these tables that every version of CUPTI tells.
fn common_rows(dataset: &Dataset) -> Result<Vec<String>, Box<dyn std::error::Error>> {
    let work = ["range_path", "attribution", "duration_ns", "correlation_id", "device", "context", "stream"];
    let graph = ["graph_id", "graph_node_id", "valid"];
    let kernel = ["kernel", "kernel_mangled", "grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z"];
    let more = ["cluster_x", "cluster_y", "cluster_z", "registers_per_thread", "static_shared_memory_bytes"];
    let memory = ["dynamic_shared_memory_bytes", "local_memory_per_thread_bytes"];
    let copy =
        ["operation", "copy_kind", "bytes", "src_kind", "dst_kind", "src_device", "dst_device", "value"];
    let launches = [&work[..], &graph, &kernel, &more, &memory].concat();
    let transfers = [&work[..], &graph, &copy, &["asynchronous"]].concat();
    let mut rows = Vec::new();
    for (table, columns) in [(Table::Launches, launches), (Table::Transfers, transfers)] {
        let frame = Frame::read(dataset, table, &columns)?;
        rows.extend(frame.rows().map(|row| format!("{table} {}", row.cells(&columns))));
    }
    Ok(rows)
}

#[test]
fn b10_every_version_of_cupti_gives_the_same_rows() -> Outcome {
    let folder = crate::process::folder()?;
    let mut runs = Vec::new();
    for version in VERSIONS {
        let output = folder.path().join(version);
        let process = Process::of(b10_every_version_of_cupti_gives_the_same_rows).version(version);
        process.with("OUTPUT", &output).run(|| {
            let profiler = Profiler::builder().output(given("OUTPUT")).start()?;
            let cupti = Simulated::get();
            {
                let _outer = cuprof::range!("outer");
                cupti.launch(50);
                cuprof::in_range("inner", || cupti.work(Work { calls: 20, ..Work::COPY }));
                cupti.work(Work { calls: 20, ..Work::FILL });
            }
            cupti.work(Work { kind: kind::MEMCPY2, calls: 5, bytes: 77, ..Work::KERNEL });
            cupti.work(Work { cbid: 514, graph: 3, records: 10, ..Work::KERNEL });
            cupti.work(Work { cbid: 514, graph: 3, records: 10, ..Work::COPY });
            cupti.work(Work { cbid: 514, graph: 3, records: 10, ..Work::FILL });
            profiler.whole()?;
            Ok(())
        })?;
        if is_inside() {
            return Ok(());
        }
        runs.push((version, common_rows(&Dataset::open(&output)?)?));
    }
    let (_, first) = &runs[0];
    assert_eq!(first.len(), 50 + 20 + 20 + 5 + 30);
    for (version, rows) in &runs[1..] {
        assert_eq!(rows, first, "CUPTI {version}");
    }
    Ok(())
}
