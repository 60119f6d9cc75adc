//! Records that are late, missing, twice there, or of another launch.

use std::collections::BTreeMap;

use cuprof::{Profiler, Replay, Table};

use crate::Outcome;
use crate::frame::Frame;
use crate::library::{Simulated, Work, kind};
use crate::process::Process;
use crate::session::{Ends, assert_losses, traced, traced_as};

/// The numbers of CUDA's launching driver calls, with their twins for per-thread streams (`…_ptsz`), and the number of
/// the runtime's call around it.
const LAUNCHES: [(&str, u32); 12] = [
    ("cuLaunchKernel", 307),
    ("cuLaunchKernel_ptsz", 442),
    ("cuLaunchKernelEx", 652),
    ("cuLaunchKernelEx_ptsz", 653),
    ("cuLaunchCooperativeKernel", 477),
    ("cuLaunchCooperativeKernel_ptsz", 478),
    ("cuLaunchCooperativeKernelMultiDevice", 480),
    ("cuLaunch", 115),
    ("cuLaunchGrid", 116),
    ("cuLaunchGridAsync", 117),
    ("cuGraphLaunch", 514),
    ("cuGraphLaunch_ptsz", 515),
];

#[test]
fn b24_what_an_unfinished_record_holds_back_is_fetched_by_force() -> Outcome {
    Process::of(b24_what_an_unfinished_record_holds_back_is_fetched_by_force).run(|| {
        let run = traced(&[("zero_timestamp", 1)], |cupti| {
            cupti.launch(3);
            // A kernel that has not ended when the session does: CUPTI has no times for it.
            cupti.work(Work { unfinished: 1, ..Work::KERNEL.stamped(0, 0) });
            cupti.launch(2);
        })?;
        assert_eq!(run.profile.launches(), 6);
        let cupti = Simulated::get();
        assert_eq!(cupti.buffers_held(), 0);
        Ok(())
    })
}

#[test]
fn b24_a_flush_midway_leaves_what_is_unfinished_to_the_end() -> Outcome {
    Process::of(b24_a_flush_midway_leaves_what_is_unfinished_to_the_end).run(|| {
        let cupti = Simulated::get();
        let profiler = Profiler::builder().start()?;
        cupti.work(Work { unfinished: 1, ..Work::KERNEL.stamped(0, 0) });
        profiler.flush()?;
        assert_eq!(cupti.buffers_held(), 1, "it is not forced out early");
        assert_eq!(profiler.losing(&[("zero_timestamp", 1)])?.launches(), 1);
        Ok(())
    })
}

#[test]
fn b26_sixteen_threads_at_once_get_buffers_of_their_own() -> Outcome {
    // The simulation checks that no buffer is handed out twice, and that nobody changes one that it has.
    for version in ["12.9", "13.5"] {
        let process = Process::of(b26_sixteen_threads_at_once_get_buffers_of_their_own).version(version);
        process.run(|| {
            let run = traced(&[], |cupti| {
                let barrier = std::sync::Barrier::new(16);
                std::thread::scope(|scope| {
                    for _ in 0..16 {
                        scope.spawn(|| {
                            barrier.wait();
                            cupti.launch(2_500);
                        });
                    }
                });
            })?;
            let mut ids = run.numbers(Table::Launches, "correlation_id")?;
            assert_eq!(ids.len(), 40_000);
            ids.sort_unstable();
            ids.dedup();
            assert_eq!(ids.len(), 40_000, "a record is there twice");
            Ok(())
        })?;
        if crate::process::is_inside() {
            return Ok(());
        }
    }
    Ok(())
}

#[test]
fn b28_a_launch_its_call_and_its_kernel_in_three_buffers_of_any_order_are_one() -> Outcome {
    const ORDERS: [[u32; 3]; 6] = [[0, 0, 0], [0, 1, 0], [1, 0, 0], [1, 1, 0], [2, 0, 0], [2, 1, 0]];
    let process = Process::of(b28_a_launch_its_call_and_its_kernel_in_three_buffers_of_any_order_are_one);
    process.with("SIM_HOLD", "1").with("SIM_BUFFER_RECORDS", "1").run(|| {
        for order in ORDERS {
            let run = traced_as(Profiler::builder().api_calls(), &[], |cupti| {
                cuprof::in_range("annotation", || cupti.launch(1));
                // The kernel's record, that of the driver's call, and that of the runtime's.
                assert_eq!(cupti.close_buffers(), 3);
                order.iter().for_each(|place| cupti.deliver(*place));
            })?;
            assert_eq!(run.by_path()?, BTreeMap::from([(Some("annotation".to_owned()), 1)]));
            assert_eq!(run.dataset.rows(Table::ApiCalls), 2);
            let ids = [
                run.numbers(Table::Launches, "correlation_id")?,
                run.numbers(Table::ApiCalls, "correlation_id")?,
            ];
            assert!(ids.concat().iter().all(|id| *id == ids[0][0]), "{ids:?}");
        }
        Ok(())
    })
}

#[test]
fn b29_every_record_of_a_graph_belongs_to_its_one_launch() -> Outcome {
    Process::of(b29_every_record_of_a_graph_belongs_to_its_one_launch).run(|| {
        let run = traced_as(Profiler::builder().api_calls(), &[], |cupti| {
            for _ in 0..10 {
                let _step = cuprof::range!("graph");
                let correlation = cupti.work(Work { cbid: 514, graph: 5, records: 24, ..Work::KERNEL });
                // The copies of the same launch.
                cupti.work(Work { cbid: 0, correlation, graph: 5, records: 7, ..Work::COPY });
            }
        })?;
        assert_eq!((run.profile.launches(), run.profile.transfers()), (240, 70));
        for table in [Table::Launches, Table::Transfers] {
            let paths = run.texts(table, "range_path")?;
            assert!(paths.iter().all(|path| path.as_deref() == Some("graph")));
        }
        let mut ids = run.numbers(Table::Launches, "correlation_id")?;
        ids.dedup();
        assert_eq!(ids.len(), 10, "one call each");
        let ranges = Frame::read(&run.dataset, Table::Ranges, &["n_launches", "n_transfers"])?;
        assert!(ranges.rows().all(|row| (row.number("n_launches"), row.number("n_transfers")) == (24, 7)));
        Ok(())
    })
}

#[test]
fn b30_graph_kernels_under_the_id_of_a_plain_launch_are_flagged() -> Outcome {
    let process = Process::of(b30_graph_kernels_under_the_id_of_a_plain_launch_are_flagged);
    process.version("13.0").run(|| {
        traced(&[], |cupti| cupti.work(Work { cbid: 514, graph: 5, records: 8, ..Work::KERNEL }))?;
        // In a session after the first, CUPTI gives the graph's kernels the id of another launch.
        let run = traced(&[("graph_unmapped", 8)], |cupti| {
            let _range = cuprof::range!("plain");
            let correlation = cupti.launch(1);
            cupti.work(Work { cbid: 0, correlation, graph: 5, records: 8, ..Work::KERNEL })
        })?;
        let attributions = run.texts(Table::Launches, "attribution")?;
        let unmapped = attributions.iter().filter(|text| text.as_deref() == Some("graph_unmapped")).count();
        assert_eq!((attributions.len(), unmapped), (9, 8));
        assert!(run.fact("issue.graph_correlation")?.is_some(), "the known fault of this version is told");
        Ok(())
    })
}

#[test]
fn b34_dropped_records_are_told_once_with_their_sum() -> Outcome {
    Process::of(b34_dropped_records_are_told_once_with_their_sum).run(|| {
        let run = traced(&[("records_dropped", 12)], |cupti| {
            cupti.launch(1);
            cupti.drop_records(5);
            let readings = cupti.calls(c"cuptiActivityGetNumDroppedRecords");
            cupti.await_call(c"cuptiActivityGetNumDroppedRecords", readings + 2);
            cupti.drop_records(7);
        })?;
        let text = run.profile.summary().to_string();
        assert_eq!(text.matches("records_dropped").count(), 1, "{text}");
        assert!(text.starts_with("! This result is incomplete"), "{text}");
        assert_eq!(run.texts(Table::Losses, "cause")?, [Some("records_dropped".to_owned())]);
        assert_eq!(run.numbers(Table::Losses, "count")?, [Some(12)]);
        Ok(())
    })
}

#[test]
fn b64_a_missing_record_shifts_no_neighbour() -> Outcome {
    Process::of(b64_a_missing_record_shifts_no_neighbour).run(|| {
        for lost in 1..=10 {
            let run = traced(&[("launches_without_record", 1)], |cupti| {
                for call in 1..=10 {
                    let _range = cuprof::range!(&format!("launch {call}"));
                    cupti.work(Work { lost: u32::from(call == lost), ..Work::KERNEL });
                }
            })?;
            let expected =
                (1..=10).filter(|call| *call != lost).map(|call| (Some(format!("launch {call}")), 1));
            assert_eq!(run.by_path()?, expected.collect::<BTreeMap<_, _>>());
            let text = run.profile.summary().to_string();
            assert!(text.starts_with("! This result is incomplete"), "{text}");
        }
        Ok(())
    })
}

const BEGIN_CAPTURE: Work = Work { cbid: 539, records: 0, ..Work::COPY };
const END_CAPTURE: Work = Work { cbid: 497, ..BEGIN_CAPTURE };
const INVALIDATED: u32 = 901;

#[test]
fn b64_what_a_capture_from_before_the_session_took_is_no_loss() -> Outcome {
    Process::of(b64_what_a_capture_from_before_the_session_took_is_no_loss).run(|| {
        let folder = crate::process::folder()?;
        let recording = folder.path().join("run.cuprofrec");
        let without = Work { records: 0, ..Work::KERNEL };
        let lost = [("launches_without_record", 2)];
        traced_as(Profiler::builder().record(&recording), &lost, |cupti| {
            cupti.work(Work { calls: 3, ..without });
            std::thread::scope(|scope| {
                scope.spawn(|| cupti.work(Work { records: 0, ..Work::KERNEL })).join()
            })
            .map_err(drop)?;
            // One that the session has seen begin ends before, as far as anybody can tell.
            cupti.work(BEGIN_CAPTURE);
            cupti.work(END_CAPTURE);
            cupti.work(without);
            cupti.work(Work { fails: INVALIDATED, ..END_CAPTURE });
            cupti.work(Work { calls: 2, ..without });
            // No capture ends by that.
            cupti.work(Work { fails: 1, ..END_CAPTURE });
            Ok::<_, ()>(())
        })?;
        assert_losses(&Replay::open(&recording)?.run()?, &lost);
        // Of one that does not end it cannot be known; that is said.
        let run = traced(&[("launches_without_record", 1)], |cupti| cupti.work(without))?;
        let meaning = run.profile.losses()[0].meaning;
        assert!(
            meaning.contains("unless a stream capture took them that began before the session"),
            "{meaning}"
        );
        Ok(())
    })
}

#[test]
fn b64_a_capture_is_over_where_its_end_fails_as_it_does_for_invalid_ones() -> Outcome {
    Process::of(b64_a_capture_is_over_where_its_end_fails_as_it_does_for_invalid_ones).run(|| {
        let without = Work { records: 0, ..Work::KERNEL };
        for (code, is_over) in
            [(900, true), (INVALIDATED, true), (907, true), (1, false), (899, false), (908, false)]
        {
            traced(&[("launches_without_record", 1 + u64::from(is_over))], |cupti| {
                cupti.work(without);
                cupti.work(BEGIN_CAPTURE);
                cupti.work(Work { fails: code, ..END_CAPTURE });
                cupti.work(without);
                if !is_over {
                    cupti.work(END_CAPTURE);
                }
            })?;
        }
        Ok(())
    })
}

#[test]
fn b64_a_capture_that_ends_between_sessions_excuses_nothing_in_the_next() -> Outcome {
    Process::of(b64_a_capture_that_ends_between_sessions_excuses_nothing_in_the_next).run(|| {
        traced(&[], |cupti| cupti.work(BEGIN_CAPTURE))?;
        Simulated::get().work(END_CAPTURE);
        traced(&[("launches_without_record", 1)], |cupti| cupti.work(Work { records: 0, ..Work::KERNEL }))?;
        Ok(())
    })
}

#[test]
fn b64_where_a_call_is_not_told_of_nobody_says_that_a_record_is_missing() -> Outcome {
    // It may be one that begins a capture.
    let process = Process::of(b64_where_a_call_is_not_told_of_nobody_says_that_a_record_is_missing);
    process.failing("cuptiEnableCallback:*:27:1").run(|| {
        let run = traced(&[], |cupti| cupti.work(Work { calls: 3, records: 0, ..Work::KERNEL }))?;
        assert_eq!(run.fact("session.calls_without_record")?.as_deref(), Some("3"));
        Ok(())
    })
}

#[test]
fn b64_launches_that_can_have_no_record_are_no_loss() -> Outcome {
    Process::of(b64_launches_that_can_have_no_record_are_no_loss).run(|| {
        let without = Work { records: 0, ..Work::KERNEL };
        let run = traced(&[("launches_without_record", 5)], |cupti| {
            cupti.launch(1);
            // Whatever is captured afterwards.
            cupti.work(without);
            // Calls that fail, copies of nothing, and graphs of nothing.
            cupti.work(Work { fails: 1, ..Work::KERNEL });
            cupti.work(Work { records: 0, ..Work::COPY });
            cupti.work(Work { cbid: 514, graph: 3, ..without });
            // What is captured while any stream is. The second capture ends although its end fails.
            cupti.work(BEGIN_CAPTURE);
            cupti.work(BEGIN_CAPTURE);
            cupti.work(without);
            cupti.work(Work { fails: INVALIDATED, ..END_CAPTURE });
            cupti.work(without);
            cupti.work(Work { fails: 1, ..END_CAPTURE });
            cupti.work(without);
            cupti.work(END_CAPTURE);
            cupti.work(Work { calls: 2, ..without });
            // A capture that does not begin.
            cupti.work(Work { fails: 1, ..BEGIN_CAPTURE });
            cupti.work(Work { calls: 2, ..without });
        })?;
        assert_eq!(run.profile.launches(), 1);
        assert_eq!(run.fact("session.calls_without_record")?.as_deref(), Some("11"));
        Ok(())
    })
}

#[test]
fn b64_a_launch_whose_record_is_lost_for_a_known_reason_is_counted_once() -> Outcome {
    Process::of(b64_a_launch_whose_record_is_lost_for_a_known_reason_is_counted_once).run(|| {
        let run = traced(&[("records_dropped", 3), ("launches_without_record", 2)], |cupti| {
            cupti.work(Work { calls: 5, records: 0, ..Work::KERNEL });
            cupti.drop_records(3);
        })?;
        let warnings = &run.profile.summary().warnings;
        assert!(warnings.is_empty(), "that nothing was recorded has a reason: {warnings:?}");
        traced(&[("kinds_switched_off", 1)], |cupti| {
            cupti.switch_off(kind::CONCURRENT_KERNEL);
            cupti.launch(5)
        })?;
        Ok(())
    })
}

#[test]
fn b65_every_launching_call_is_one_launch_although_the_runtime_is_recorded_too() -> Outcome {
    let process = Process::of(b65_every_launching_call_is_one_launch_although_the_runtime_is_recorded_too);
    process.version("13.5").run(|| {
        let run = traced_as(Profiler::builder().api_calls(), &[], |cupti| {
            for (name, cbid) in LAUNCHES {
                let graph = u32::from(name.contains("Graph"));
                cuprof::in_range(name, || cupti.work(Work { cbid, graph, ..Work::KERNEL }));
            }
        })?;
        let expected = LAUNCHES.map(|(name, _)| (Some(name.to_owned()), 1));
        assert_eq!(run.by_path()?, BTreeMap::from(expected));
        let calls = Frame::read(&run.dataset, Table::ApiCalls, &["domain", "correlation_id"])?;
        let mut by_id = BTreeMap::new();
        for row in calls.rows() {
            by_id.entry(row.number("correlation_id")).or_insert_with(Vec::new).push(row.text("domain"));
        }
        assert_eq!(by_id.len(), LAUNCHES.len());
        assert!(by_id.values().all(|domains| domains.len() == 2 && domains[0] != domains[1]));
        Ok(())
    })
}

#[test]
fn b78_calls_that_the_library_cannot_name_are_told_by_their_number() -> Outcome {
    let process = Process::of(b78_calls_that_the_library_cannot_name_are_told_by_their_number);
    process.failing("cuptiGetCallbackName:307:1").run(|| {
        let run = traced_as(Profiler::builder().api_calls(), &[], |cupti| {
            cupti.launch(1);
            // Newer than anything known: nobody is called back for it, and its kernel has no launch.
            cupti.work(Work { cbid: 100_000, records: 0, ..Work::KERNEL });
        })?;
        let mut names: Vec<_> = run.texts(Table::ApiCalls, "name")?.into_iter().flatten().collect();
        names.sort();
        names.dedup();
        assert_eq!(names, ["cbid_100000", "cbid_307", "cudaLaunchKernel_v7000"]);
        Ok(())
    })
}

#[test]
fn a_call_newer_than_the_crate_leads_to_a_row_without_a_launch() -> Outcome {
    Process::of(a_call_newer_than_the_crate_leads_to_a_row_without_a_launch).run(|| {
        let run = traced(&[("launch_not_seen", 1)], |cupti| {
            cupti.launch(1);
            cuprof::in_range("new", || cupti.work(Work { cbid: 100_000, ..Work::KERNEL }));
            cupti.launch(1)
        })?;
        assert_eq!(run.profile.launches(), 3);
        Ok(())
    })
}
