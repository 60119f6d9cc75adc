//! Times: absent, impossible, on another clock, out of order.

use std::time::{SystemTime, UNIX_EPOCH};

use cuprof::Table;

use crate::Outcome;
use crate::frame::Frame;
use crate::library::Work;
use crate::process::Process;
use crate::session::{Traced, traced};

fn now_ns() -> Result<u64, Box<dyn std::error::Error>> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos() as u64)
}

/// Every number of the summary is one.
fn assert_numbers(run: &Traced) {
    let summary = run.profile.summary();
    for kernel in &summary.kernels {
        assert!(kernel.mean_ns.is_finite() && kernel.share.is_finite() && kernel.min_ns >= 0);
    }
    for transfer in &summary.transfers {
        assert!(transfer.share.is_finite());
        assert!(transfer.bandwidth_bytes_per_s.is_none_or(f64::is_finite));
    }
    assert!(summary.ranges.iter().all(|range| range.share.is_finite()));
    let text = summary.to_string();
    assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
}

#[test]
fn b16_b18_records_without_times_are_kept_and_stay_out_of_every_statistic() -> Outcome {
    Process::of(b16_b18_records_without_times_are_kept_and_stay_out_of_every_statistic).run(|| {
        // Nothing else, so that every sum is zero; then with others.
        for others in [0, 10] {
            let run = traced(&[("zero_timestamp", 40)], |cupti| {
                let _range = cuprof::range!("range");
                cupti.work(Work { calls: 20, ..Work::KERNEL.stamped(0, 0) });
                cupti.work(Work { calls: 20, ..Work::COPY.stamped(0, 0) });
                cupti.work(Work { calls: others, ..Work::KERNEL });
            })?;
            assert_numbers(&run);
            assert_eq!(run.profile.launches(), 20 + u64::from(others));
            let durations = run.numbers(Table::Launches, "duration_ns")?;
            assert_eq!(durations.iter().filter(|duration| duration.is_none()).count(), 20);
        }
        Ok(())
    })
}

#[test]
fn b20_a_clock_that_changes_when_cuda_comes_up_is_followed() -> Outcome {
    // Ten hours further on.
    const LAUNCHES: u32 = 5_000; // a ring holds them, however late it is emptied
    let process = Process::of(b20_a_clock_that_changes_when_cuda_comes_up_is_followed);
    process.with("SIM_CLOCK_JUMP", "36000000000000").run(|| {
        let run = traced(&[], |cupti| {
            // Enough that some buffers come long before the end.
            cuprof::in_range("range", || cupti.launch(LAUNCHES));
        })?;
        let rows = Frame::read(&run.dataset, Table::Launches, &["launch_lead_ns", "valid", "range_path"])?;
        assert_eq!(rows.len(), LAUNCHES as usize);
        for row in rows.rows() {
            assert!(row.flag("valid"));
            assert_eq!(row.text("range_path"), Some("range"));
            assert!(row.number("launch_lead_ns").abs() < 2_000_000_000, "{}", row.number("launch_lead_ns"));
        }
        Ok(())
    })
}

#[test]
fn b21_records_a_second_outside_the_session_are_kept() -> Outcome {
    Process::of(b21_records_a_second_outside_the_session_are_kept).run(|| {
        let now = now_ns()?;
        let second = 1_000_000_000;
        let run = traced(&[], |cupti| {
            cupti.work(Work::KERNEL.stamped(now - second, now - second + 100));
            cupti.work(Work::KERNEL.stamped(now + second, now + second + 100));
            cupti.launch(1);
        })?;
        assert_eq!(run.profile.launches(), 3);
        let starts = run.numbers(Table::Launches, "start_ns")?;
        assert_eq!(starts[..2], [Some((now - second) as i64), Some((now + second) as i64)]);
        Ok(())
    })
}

#[test]
fn b23_buffers_in_every_rotation_give_the_same_rows() -> Outcome {
    const BUFFERS: u32 = 8;
    let process = Process::of(b23_buffers_in_every_rotation_give_the_same_rows);
    process.with("SIM_HOLD", "1").with("SIM_BUFFER_RECORDS", "8").run(|| {
        let now = now_ns()?;
        let mut runs = Vec::new();
        for rotation in 0..BUFFERS {
            let run = traced(&[], |cupti| {
                for step in 0..BUFFERS / 2 {
                    let _step = cuprof::range!(&format!("step {step}"));
                    for call in 0..8 {
                        // The same ids and times in every session.
                        let work = Work { correlation: 100 * (step + 1) + call, ..Work::KERNEL };
                        let start = now + u64::from(step) * 1000;
                        cupti.work(work.stamped(start, start + 10 + u64::from(call)));
                    }
                    let graph =
                        Work { correlation: 100 * (step + 1) + 50, graph: 3, cbid: 514, ..Work::KERNEL };
                    cupti.work(Work { records: 8, ..graph }.stamped(now, now + 100));
                }
                assert_eq!(cupti.close_buffers(), BUFFERS);
                for delivered in 0..BUFFERS {
                    cupti.deliver(if delivered < BUFFERS - rotation { rotation } else { 0 });
                }
            })?;
            let columns =
                ["kernel", "correlation_id", "range_path", "attribution", "duration_ns", "graph_node_id"];
            let rows = Frame::read(&run.dataset, Table::Launches, &columns)?;
            let mut rows: Vec<_> = rows.rows().map(|row| row.cells(&columns)).collect();
            rows.sort();
            assert_eq!(rows.len(), 64);
            let ranges = Frame::read(&run.dataset, Table::Ranges, &["name", "n_launches", "gpu_sum_ns"])?;
            rows.extend(ranges.rows().map(|row| row.cells(&["name", "n_launches", "gpu_sum_ns"])));
            runs.push(rows);
        }
        assert!(runs.iter().all(|rows| *rows == runs[0]), "{runs:#?}");
        Ok(())
    })
}
