//! Records, names and ranges that are not as they should be: rows are kept where there is something to keep, and
//! everything that is missing is counted.

use std::time::Duration;

use cuprof::{Dataset, Profile, Profiler, Table};
use tempfile::TempDir;

use crate::Outcome;
use crate::frame::Frame;
use crate::library::{Simulated, Work};
use crate::process::Process;
use crate::session::{Ends, assert_losses, lost};

/// Buffers of 256 KiB in the 256 MiB that the crate takes at most.
const ALL_BUFFERS: u32 = 1024;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Runs a session with a dataset around some work. The dataset is there for as long as its folder.
fn session(work: impl FnOnce(Simulated)) -> Result<(Profile, Dataset, TempDir)> {
    let folder = crate::process::folder()?;
    let output = folder.path().join("run.cuprof");
    // No flush but the last, so that tests decide what CUPTI holds.
    let profiler = Profiler::builder().output(&output).flush_period(Duration::ZERO).start()?;
    work(Simulated::get());
    let profile = profiler.losing_something("each test says it")?;
    let dataset = Dataset::open(&output)?;
    Ok((profile, dataset, folder))
}

#[test]
fn b10_records_of_unknown_kinds_and_sizes_are_counted_and_their_neighbours_read() -> Outcome {
    Process::of(b10_records_of_unknown_kinds_and_sizes_are_counted_and_their_neighbours_read).run(|| {
        let (profile, dataset, _folder) = session(|cupti| {
            for (kind, size) in [(60, 64), (9_999, 8), (0x7fff_ffff, 4_096), (0, 24), (u32::MAX, 808)] {
                cupti.launch(1);
                cupti.work(Work { kind, size, cbid: 0, ..Work::KERNEL });
            }
            cupti.launch(1);
        })?;
        assert_eq!(profile.launches(), 6);
        assert_losses(&profile, &[("records_unknown", 5)]);
        let rows = Frame::read(&dataset, Table::Losses, &["cause", "count"])?;
        let told = rows.rows().map(|row| (row.text("cause").unwrap_or_default(), row.number("count")));
        assert_eq!(told.collect::<Vec<_>>(), [("records_unknown", 5)]);
        Ok(())
    })
}

#[test]
fn a_buffer_that_ends_inside_a_record_is_counted_and_read_up_to_there() -> Outcome {
    Process::of(a_buffer_that_ends_inside_a_record_is_counted_and_read_up_to_there).run(|| {
        let (profile, ..) = session(|cupti| {
            cupti.launch(10);
            cupti.cut(100);
        })?;
        assert_eq!(profile.launches(), 9);
        assert_losses(&profile, &[("buffers_damaged", 1)]);
        Ok(())
    })
}

#[test]
fn a_walk_that_fails_is_counted() -> Outcome {
    let process = Process::of(a_walk_that_fails_is_counted);
    process.failing("cuptiActivityGetNextRecord:*:999").run(|| {
        let (profile, ..) = session(|cupti| {
            cupti.launch(10);
        })?;
        assert_eq!(profile.launches(), 0);
        assert_losses(&profile, &[("buffers_damaged", 1)]);
        Ok(())
    })
}

#[test]
fn b62_kernel_names_that_are_not_utf_8_or_absent_are_kept_as_far_as_they_can_be() -> Outcome {
    Process::of(b62_kernel_names_that_are_not_utf_8_or_absent_are_kept_as_far_as_they_can_be).run(|| {
        let (profile, dataset, _folder) = session(|cupti| {
            let names = [c"\xff\xfe kernel \xc3", c"", c"_ZN", c"_Z\xff", c"a\"b\\c\nd", c"plain"];
            for name in names {
                cupti.work(Work { name: name.as_ptr(), ..Work::KERNEL });
            }
            cupti.work(Work { name: std::ptr::null(), ..Work::KERNEL });
        })?;
        assert_eq!(profile.launches(), 7);
        assert_losses(&profile, &[]);
        let rows = Frame::read(&dataset, Table::Launches, &["kernel", "kernel_mangled"])?;
        let names: Vec<_> = rows.rows().map(|row| row.text("kernel_mangled").unwrap_or_default()).collect();
        let expected =
            ["\u{fffd}\u{fffd} kernel \u{fffd}", "", "_ZN", "_Z\u{fffd}", "a\"b\\c\nd", "plain", "(unknown)"];
        assert_eq!(names, expected);
        let _prints = profile.summary().to_string();
        Ok(())
    })
}

#[test]
fn b63_range_names_that_are_not_utf_8_and_pops_without_a_push_are_kept_and_counted() -> Outcome {
    let process =
        Process::of(b63_range_names_that_are_not_utf_8_and_pops_without_a_push_are_kept_and_counted);
    process.run(|| {
        let (profile, dataset, _folder) = session(|cupti| {
            cuprof::testing::nvtx_push(c"bad \xff name");
            cupti.launch(3);
            cuprof::testing::nvtx_pop();
            cuprof::testing::nvtx_pop();
            cuprof::testing::nvtx_pop();
            cupti.launch(1);
        })?;
        assert_losses(&profile, &[("unbalanced_pops", 2)]);
        let rows = Frame::read(&dataset, Table::Launches, &["range_path"])?;
        let paths: Vec<_> = rows.rows().map(|row| row.text("range_path")).collect();
        let bad = Some("bad \u{fffd} name");
        assert_eq!(paths, [bad, bad, bad, None]);
        Ok(())
    })
}

#[test]
fn b63_ranges_that_are_open_at_the_end_are_kept_and_counted() -> Outcome {
    Process::of(b63_ranges_that_are_open_at_the_end_are_kept_and_counted).run(|| {
        let mut open = Vec::new();
        let (profile, dataset, _folder) = session(|cupti| {
            let outer = cuprof::range!("outer");
            let inner = cuprof::range!("inner");
            cupti.launch(3);
            open.extend([inner, outer]); // dropped after the session
        })?;
        assert_losses(&profile, &[("ranges_open_at_finish", 2)]);
        let ranges = Frame::read(
            &dataset,
            Table::Ranges,
            &["range_path", "closed", "n_launches", "start_ns", "end_ns", "duration_ns"],
        )?;
        assert_eq!(ranges.len(), 2);
        for row in ranges.rows() {
            assert!(!row.flag("closed"));
            assert!(row.number("start_ns") <= row.number("end_ns"));
            assert_eq!(row.number("n_launches"), 3);
        }
        drop(open);
        // What ends in the next session but began in this one is not the next one's.
        let (next, ..) = session(|_| ())?;
        assert_losses(&next, &[]);
        Ok(())
    })
}

#[test]
fn b19_impossible_times_are_flagged_and_counted_and_never_become_durations() -> Outcome {
    Process::of(b19_impossible_times_are_flagged_and_counted_and_never_become_durations).run(|| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_nanos() as u64;
        let (profile, dataset, _folder) = session(|cupti| {
            let _range = cuprof::range!("range");
            for work in [Work::KERNEL, Work::COPY, Work::FILL] {
                cupti.work(work.stamped(0, 0));
                cupti.work(work.stamped(now + 100, now));
                cupti.work(work.stamped(1 << 63, (1 << 63) + 10));
                cupti.work(work.stamped(now, u64::MAX));
                cupti.work(work.stamped(u64::MAX, u64::MAX));
                cupti.work(work.stamped(0, now));
                cupti.work(work.stamped(1, 2));
                cupti.work(work.stamped(now, now)); // possible
                cupti.work(work);
            }
        })?;
        assert_eq!((profile.launches(), profile.transfers()), (9, 18));
        assert_losses(&profile, &[("zero_timestamp", 3), ("end_before_start", 3), ("out_of_range", 15)]);
        let columns =
            ["valid", "invalid_reason", "duration_ns", "launch_lead_ns", "range_path", "start_ns", "end_ns"];
        for table in [Table::Launches, Table::Transfers] {
            let rows = Frame::read(&dataset, table, &columns)?;
            for (number, row) in rows.rows().enumerate() {
                let reason = match number % 9 {
                    0 => Some("zero_timestamp"),
                    1 => Some("end_before_start"),
                    2..=6 => Some("out_of_range"),
                    _ => None,
                };
                assert_eq!(row.text("invalid_reason"), reason, "row {number} of {table}");
                assert_eq!(row.flag("valid"), reason.is_none());
                assert_eq!(row.int("duration_ns").is_some(), reason.is_none());
                assert!(row.int("duration_ns").is_none_or(|duration| duration >= 0));
                assert_eq!(row.int("launch_lead_ns").is_some(), reason.is_none());
                assert_eq!(row.text("range_path"), Some("range"), "attribution needs no times");
            }
        }
        let summary = profile.summary();
        assert!(summary.kernels.iter().all(|kernel| kernel.mean_ns.is_finite() && kernel.min_ns >= 0));
        assert_eq!(summary.kernels.iter().map(|kernel| kernel.calls).sum::<u64>(), 2, "valid ones");
        let printed = summary.to_string();
        assert!(!printed.contains("NaN") && !printed.contains("inf"), "{printed}");
        Ok(())
    })
}

#[test]
fn b34_dropped_records_are_added_up_although_each_reading_resets_them() -> Outcome {
    Process::of(b34_dropped_records_are_added_up_although_each_reading_resets_them).run(|| {
        // Before the session: another client's.
        Simulated::get().drop_records(3);
        let (profile, ..) = session(|cupti| {
            cupti.drop_records(5);
            // One reading after this one has begun once the next but one does.
            let readings = cupti.calls(c"cuptiActivityGetNumDroppedRecords");
            cupti.await_call(c"cuptiActivityGetNumDroppedRecords", readings + 2);
            cupti.drop_records(7);
        })?;
        assert_losses(&profile, &[("records_dropped", 12)]);
        Ok(())
    })
}

#[test]
fn b37_exhausted_buffers_are_counted_as_declined_requests_and_dropped_records() -> Outcome {
    Process::of(b37_exhausted_buffers_are_counted_as_declined_requests_and_dropped_records).run(|| {
        let (profile, ..) = session(|cupti| {
            cupti.launch(1);
            // As so many threads that have launched once, until there is no buffer left.
            while cupti.buffers_held() < ALL_BUFFERS {
                cupti.hoard(16);
            }
            assert_eq!(cupti.hoard(10), 0);
            std::thread::scope(|scope| {
                scope.spawn(|| cupti.launch(4)); // whose thread needs a buffer of its own
            });
            cupti.launch(1);
        })?;
        assert_eq!(profile.launches(), 2);
        assert_eq!(lost(&profile, "records_dropped"), 4);
        assert!(lost(&profile, "buffer_requests_declined") >= 14, "{:?}", profile.losses());
        // All came back, and the next session has them again.
        let cupti = Simulated::get();
        assert_eq!(cupti.buffers_held(), 0);
        let (profile, ..) = session(|cupti| assert_eq!(cupti.hoard(250), 250))?;
        assert_losses(&profile, &[]);
        Ok(())
    })
}

#[test]
fn a_fatal_error_of_cupti_is_told() -> Outcome {
    Process::of(a_fatal_error_of_cupti_is_told).run(|| {
        let (profile, ..) = session(Simulated::fatal)?;
        assert_losses(&profile, &[("cupti_fatal_errors", 1)]);
        Ok(())
    })
}

#[test]
fn b20_a_clock_of_cuptis_own_is_followed_from_the_first_record_on() -> Outcome {
    // Ten hours ahead of the host's.
    let process = Process::of(b20_a_clock_of_cuptis_own_is_followed_from_the_first_record_on);
    process.with("SIM_CLOCK_SHIFT", "36000000000000").run(|| {
        let (profile, dataset, _folder) = session(|cupti| {
            let _range = cuprof::range!("range");
            cupti.launch(10);
        })?;
        assert_losses(&profile, &[]);
        let rows = Frame::read(&dataset, Table::Launches, &["launch_lead_ns", "start_ns", "valid"])?;
        for row in rows.rows() {
            assert!(row.flag("valid"));
            assert!(row.number("launch_lead_ns").abs() < 1_000_000_000, "{}", row.number("launch_lead_ns"));
        }
        let ranges = Frame::read(&dataset, Table::Ranges, &["start_ns", "end_ns"])?;
        let (range, launch) = (ranges.rows().next().unwrap(), rows.rows().next().unwrap());
        assert!((range.number("start_ns") - launch.number("start_ns")).abs() < 1_000_000_000);
        Ok(())
    })
}
