//! Who has which buffer when, and how much memory all of it takes.

use cuprof::{Profiler, Table};

use crate::Outcome;
use crate::library::{Simulated, Work};
use crate::process::{End, Process};
use crate::session::{Ends, lost, traced};

/// What the pool of buffers, the rings and their queue may take at most, and what the program itself does.
const CAP_BYTES: usize = (256 + 128 + 64) << 20;

fn resident_bytes() -> Result<usize, Box<dyn std::error::Error>> {
    let pages = std::fs::read_to_string("/proc/self/statm")?;
    Ok(pages.split(' ').nth(1).ok_or("statm")?.parse::<usize>()? * 4096)
}

#[test]
fn b37_a_consumer_that_is_paused_costs_counted_records_and_bounded_memory() -> Outcome {
    // The walk over the first buffer takes as long as the test does.
    let process = Process::of(b37_a_consumer_that_is_paused_costs_counted_records_and_bounded_memory);
    process.with("SIM_SLOW", "cuptiActivityGetNextRecord").run(|| {
        let before = resident_bytes()?;
        let cupti = Simulated::get();
        let profiler = Profiler::builder().start()?;
        // Large records of a kind that is not known: 64 fill a buffer. Four times what all buffers hold.
        for _ in 0..4 {
            cupti.work(Work { kind: 9_999, size: 4_096, cbid: 0, records: 1024 * 64, ..Work::KERNEL });
        }
        assert_eq!(cupti.hoard(1_000_000), 0, "a million requests find nothing");
        let grown = resident_bytes()?.saturating_sub(before);
        assert!(grown < CAP_BYTES, "{} MiB", grown >> 20);
        cupti.go_on();
        let profile =
            profiler.losing_something("how many buffers the worker had freed is a matter of time")?;
        let (dropped, unknown) = (lost(&profile, "records_dropped"), lost(&profile, "records_unknown"));
        assert_eq!(dropped + unknown, 4 * 1024 * 64, "each record is there or counted");
        assert!(dropped > 2 * 1024 * 64 && lost(&profile, "buffer_requests_declined") >= 1_000_000);
        assert_eq!(profile.losses().len(), 3);
        Ok(())
    })
}

#[test]
fn b39_buffers_that_cupti_keeps_are_its_own_after_the_session_and_at_exit() -> Outcome {
    let process = Process::of(b39_buffers_that_cupti_keeps_are_its_own_after_the_session_and_at_exit);
    process.with("SIM_BUFFER_RECORDS", "10").run(|| {
        let cupti = Simulated::get();
        let profiler = Profiler::builder().start()?;
        cupti.launch(5);
        assert_eq!(cupti.keep(), 1, "it is not delivered at the end either");
        assert_eq!(profiler.losing(&[("launches_without_record", 5)])?.launches(), 0);
        assert_eq!(cupti.buffers_held(), 1);
        // A session in between, which gets others; then CUPTI writes into the first one, and gives it back.
        assert_eq!(traced(&[], |cupti| cupti.launch(100))?.profile.launches(), 100);
        cupti.write_late();
        traced(&[], |cupti| cupti.launch(1))?;
        assert_eq!(cupti.buffers_held(), 0);
        // And once more at the end of the process, which must not notice.
        let _left = Profiler::builder().start()?.whole()?;
        Ok(())
    })
}

#[test]
fn b39_nobody_looks_into_a_buffer_that_cupti_has() -> Outcome {
    // Looking ends the process.
    let process = Process::of(b39_nobody_looks_into_a_buffer_that_cupti_has).with("SIM_GUARD", "1");
    process.with("SIM_BUFFER_RECORDS", "20").run(|| {
        for _ in 0..3 {
            let run = traced(&[], |cupti| {
                std::thread::scope(|scope| {
                    for _ in 0..8 {
                        scope.spawn(|| cuprof::in_range("thread", || cupti.launch(200)));
                    }
                });
            })?;
            assert_eq!(run.dataset.rows(Table::Launches), 1600);
        }
        Ok(())
    })
}

#[test]
fn b39_a_process_may_exit_while_cupti_has_buffers() -> Outcome {
    let process = Process::of(b39_a_process_may_exit_while_cupti_has_buffers).with("SIM_GUARD", "1");
    process.ending(End::Code(5)).run(|| {
        let profiler = Profiler::builder().start()?;
        let cupti = Simulated::get();
        cupti.launch(10);
        cupti.keep();
        cupti.hoard(10);
        std::mem::forget(profiler);
        std::process::exit(5)
    })
}

#[test]
fn b51_a_context_that_is_destroyed_is_flushed_by_nobody_inside_the_callback() -> Outcome {
    // The simulation takes every call from inside a callback as a violation.
    Process::of(b51_a_context_that_is_destroyed_is_flushed_by_nobody_inside_the_callback).run(|| {
        let run = traced(&[], |cupti| {
            std::thread::scope(|scope| {
                for context in 1..=32 {
                    scope.spawn(move || {
                        cupti.work(Work { context, calls: 50, ..Work::KERNEL });
                        cupti.unload_module();
                        cupti.destroy_context(context);
                        assert!(
                            !cupti.called_here(c"cuptiActivityFlushAll"),
                            "a flush on the program's thread"
                        );
                    });
                }
            });
        })?;
        assert_eq!(run.profile.launches(), 32 * 50);
        Ok(())
    })
}
