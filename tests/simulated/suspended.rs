//! Durations and counters in one dataset: a traced session that steps aside for a counter session.

use std::time::Duration;

use cuprof::counters::{Pass, Plan, Session};
use cuprof::{Cache, Dataset, ErrorKind, Profiler, Table};

use crate::Outcome;
use crate::frame::Frame;
use crate::library::{Simulated, Work};
use crate::process::{Process, given, is_inside};
use crate::session::Ends;

/// A limit for what never comes back; what comes back does so sooner, also on a busy machine.
const SOON: Duration = Duration::from_secs(1);

const READ: &str = "dram__bytes_read.sum";
const HITS: &str = "lts__t_sector_hit_rate.pct";

fn session() -> cuprof::Result<Session> {
    Plan::new("GH100", [READ, HITS]).map(Session::new)
}

fn work(pass: &Pass<'_>) {
    pass.range("add", || Simulated::get().launch(2));
    pass.range("mul", || {
        let _inner = cuprof::range!("inner");
        Simulated::get().launch(1)
    });
}

/// The simulated CUPTI minds counters while records are on, and would count what callbacks are left.
fn counts_beside_a_trace() -> Outcome {
    let folder = crate::process::folder()?;
    let output = folder.path().join("run.cuprof");
    let cupti = Simulated::get();
    let mut profiler = Profiler::builder().output(&output).start()?;
    cupti.launch(3);
    let mut passes = Vec::new();
    let counted = {
        let _step = cuprof::range!("step");
        profiler.count(session()?.cache(Cache::Flush).verify_cache(), |pass| {
            passes.push((pass.is_traced(), pass.number(), cupti.left_on() > 0));
            work(pass);
        })?
    };
    // Subscriptions and records are on in the traced pass only.
    assert_eq!(passes, [(true, 0, true), (false, 0, false), (false, 1, false)]);
    assert_eq!((counted.value("add", READ), counted.value("mul", READ)), (Some(0.0), Some(1.0)));
    assert!(counted.residual.is_some());
    cuprof::in_range("after", || cupti.launch(5));
    profiler.count(session()?, work)?;
    let profile = profiler.whole()?;
    assert_eq!(profile.launches(), 3 + 3 + 5 + 3);

    let dataset = Dataset::open(&output)?;
    let launches = Frame::read(&dataset, Table::Launches, &["range_path"])?;
    let under = |path: &str| launches.rows().filter(|row| row.text("range_path") == Some(path)).count();
    assert_eq!([under("step/add"), under("step/mul/inner"), under("after")], [2, 1, 5]);
    assert_eq!([under("add"), under("mul/inner")], [2, 1]);
    // The range outside is closed, with what was launched in the traced pass.
    let ranges = Frame::read(&dataset, Table::Ranges, &["range_path", "closed", "n_launches"])?;
    let step = ranges.rows().find(|row| row.text("range_path") == Some("step")).ok_or("no step")?;
    assert!(step.flag("closed") && step.number("n_launches") == 3);
    // Opened by the work itself: once for each pass, with launches in the traced one.
    let inner: i64 = ranges
        .rows()
        .filter(|row| row.text("range_path").is_some_and(|path| path.ends_with("inner")))
        .map(|row| row.number("n_launches"))
        .sum();
    assert_eq!(inner, 2);
    let columns = ["range_path", "range_index", "metric", "value", "cache_state"];
    let metrics = Frame::read(&dataset, Table::Metrics, &columns)?;
    assert_eq!(metrics.len(), 2 * 2 * 2);
    // Ranges of the second counting are none of the first, although they are called the same.
    let of_one: Vec<_> = metrics.rows().filter(|row| row.text("metric") == Some(READ)).collect();
    let of_one: Vec<_> =
        of_one.iter().map(|row| (row.text("range_path"), row.number("range_index"))).collect();
    assert_eq!(of_one, [(Some("add"), 0), (Some("mul"), 1), (Some("add"), 2), (Some("mul"), 3)]);
    let first = metrics.rows().next().ok_or("no metrics")?;
    assert_eq!((first.text("range_path"), first.text("metric")), (Some("add"), Some(READ)));
    assert_eq!(first.text("cache_state"), Some("cold_clean"));
    let facts = dataset.env()?;
    assert_eq!((facts["counters.0.rounds"].as_str(), facts["counters.1.rounds"].as_str()), ("2", "2"));
    let first = |number: usize| facts[&format!("counters.{number}.first_range_index")].as_str();
    assert_eq!((first(0), first(1)), ("0", "2"));
    assert!(facts["tracing.suspended.1"].contains("nothing was traced"), "{facts:?}");
    Ok(())
}

#[test]
fn a_traced_session_steps_aside_for_counters_of_13_0() -> Outcome {
    let process = Process::of(a_traced_session_steps_aside_for_counters_of_13_0);
    process.version("13.0").run(counts_beside_a_trace)
}

#[test]
fn a_traced_session_steps_aside_for_counters_of_13_5() -> Outcome {
    let process = Process::of(a_traced_session_steps_aside_for_counters_of_13_5);
    process.version("13.5").run(counts_beside_a_trace)
}

#[test]
fn tracing_goes_on_however_counting_ends() -> Outcome {
    Process::of(tracing_goes_on_however_counting_ends).version("13.5").run(|| {
        let cupti = Simulated::get();
        let mut profiler = Profiler::builder().start()?;
        let failed = profiler.count(session()?, |pass| {
            work(pass);
            if pass.is_traced() { Ok(()) } else { Err("out of luck") }
        });
        assert_eq!(failed.err().map(|error| error.kind), Some(ErrorKind::Program));
        cupti.launch(1);
        let failed_early = profiler.count(session()?, |pass| {
            assert!(pass.is_traced());
            Err::<(), _>("out of luck at once")
        });
        assert!(failed_early.is_err_and(|error| error.to_string().contains("in its traced pass")));
        cupti.launch(1);
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            profiler.count(session().unwrap(), |pass| {
                work(pass);
                assert!(pass.is_traced(), "as asked");
            })
        }));
        assert!(panicked.is_err());
        cupti.launch(1);
        // Another traced session waits for the end of this one, suspended or not.
        let mut inside = Vec::new();
        profiler.count(session()?, |pass| {
            inside.push(Profiler::builder().start().err().map(|error| error.kind));
            work(pass);
        })?;
        assert_eq!(inside, [Some(ErrorKind::AlreadyRunning); 3]);
        let beside = session()?.run(work).err().ok_or("counted while tracing")?;
        assert!(beside.to_string().contains("Profiler::count"), "{beside}");
        // Three in each traced pass that came to its end, and one after each.
        assert_eq!(profiler.whole()?.launches(), 3 * 3 + 3);
        assert_eq!((cupti.left_on(), cupti.profiler_left_on()), (0, 0));
        assert!(session()?.run(work).is_ok());
        Ok(())
    })
}

#[test]
fn a_cupti_that_does_not_come_back_ends_counting_and_what_was_traced_is_kept() -> Outcome {
    // Before the counted passes, and after them.
    for (rule, call, passes, losses) in [
        ("cuptiActivityFlushAll:*:hang", "cuptiActivityFlushAll", "1", "flush_timeouts"),
        ("cuptiActivityDisable:*:hang", "cuptiActivityDisable", "1", ""),
        ("cuptiSubscribe:*:hang:2", "cuptiSubscribe", "3", ""),
    ] {
        let process = Process::of(a_cupti_that_does_not_come_back_ends_counting_and_what_was_traced_is_kept);
        let process = process.version("13.5").failing(rule).with("CALL", call).with("LOSSES", losses);
        process.with("PASSES", passes).run(|| {
            let losses = given("LOSSES").to_string_lossy().into_owned();
            let losses: Vec<_> = losses.split_whitespace().map(|cause| (cause, 1)).collect();
            let cupti = Simulated::get();
            let builder = Profiler::builder().start_timeout(SOON).finish_timeout(SOON);
            let mut profiler = builder.flush_period(Duration::ZERO).start()?;
            let mut passes = 0;
            let counted = profiler.count(session()?, |pass| {
                passes += 1;
                work(pass);
            });
            let error = counted.err().ok_or("it came back")?;
            assert_eq!(error.kind, ErrorKind::Timeout, "{error}");
            assert_eq!(error.call.unwrap_or_default(), given("CALL").to_str().unwrap());
            assert_eq!(passes.to_string(), given("PASSES").to_str().unwrap());
            assert!(cupti.launch(3) > 0, "the program goes on");
            let Err(other) = Profiler::builder().start() else { panic!("a session was started") };
            assert_eq!(other.kind, ErrorKind::AlreadyRunning);
            let again = profiler.count(session()?, work).err().ok_or("it came back")?;
            assert!(again.to_string().contains("has not come back from an earlier call"), "{again}");
            let (error, profile) = profiler.failing(&losses)?;
            assert_eq!(error.kind, ErrorKind::Timeout, "{error}");
            assert_eq!(profile.launches(), if losses.is_empty() { 3 } else { 0 }, "of the traced pass");
            Ok(())
        })?;
        if is_inside() {
            return Ok(());
        }
    }
    Ok(())
}

#[test]
fn a_capture_that_ends_while_nothing_is_traced_excuses_nothing_afterwards() -> Outcome {
    const BEGIN_CAPTURE: Work = Work { cbid: 539, records: 0, ..Work::COPY };
    const END_CAPTURE: Work = Work { cbid: 497, ..BEGIN_CAPTURE };
    let process = Process::of(a_capture_that_ends_while_nothing_is_traced_excuses_nothing_afterwards);
    process.version("13.5").run(|| {
        let cupti = Simulated::get();
        let mut profiler = Profiler::builder().start()?;
        profiler.count(session()?, |pass| {
            work(pass);
            if pass.is_traced() {
                cupti.work(BEGIN_CAPTURE);
            } else if pass.number() == 0 {
                cupti.work(END_CAPTURE);
            }
        })?;
        cupti.work(Work { records: 0, ..Work::KERNEL });
        profiler.losing(&[("launches_without_record", 1)])?;
        Ok(())
    })
}

#[test]
fn a_cupti_that_comes_back_too_late_leaves_no_room_for_another_session_before() -> Outcome {
    let process = Process::of(a_cupti_that_comes_back_too_late_leaves_no_room_for_another_session_before);
    process.version("13.5").with("SIM_SLOW", "cuptiActivityDisable").run(|| {
        let cupti = Simulated::get();
        let mut profiler = Profiler::builder().finish_timeout(SOON).start()?;
        let error = profiler.count(session()?, work).err().ok_or("it came back")?;
        assert_eq!(error.call, Some("cuptiActivityDisable"), "{error}");
        cupti.go_on();
        cupti.await_call(c"cuptiUnsubscribe", 1);
        let Err(other) = Profiler::builder().start() else { panic!("two sessions at once") };
        assert_eq!(other.kind, ErrorKind::AlreadyRunning);
        let (error, profile) = profiler.failing(&[])?;
        assert!(error.to_string().contains("has not come back from an earlier call"), "{error}");
        assert_eq!(profile.launches(), 3);
        Ok(())
    })
}

#[test]
fn what_is_refused_is_told_once_however_often_tracing_is_switched_on() -> Outcome {
    let process = Process::of(what_is_refused_is_told_once_however_often_tracing_is_switched_on);
    process.version("13.5").failing("cuptiSetThreadIdType:*:27").run(|| {
        let folder = crate::process::folder()?;
        let output = folder.path().join("run.cuprof");
        let mut profiler = Profiler::builder().output(&output).start()?;
        profiler.count(session()?, work)?;
        profiler.count(session()?, work)?;
        profiler.whole()?;
        let facts = Frame::read(&Dataset::open(&output)?, Table::Env, &["key"])?;
        let refused = facts.rows().filter(|row| row.text("key") == Some("refused.cuptiSetThreadIdType"));
        assert_eq!(refused.count(), 1);
        Ok(())
    })
}

#[test]
fn a_disabled_profiler_only_counts() -> Outcome {
    Process::of(a_disabled_profiler_only_counts).run(|| {
        let mut traced = 0;
        let counted = Profiler::disabled().count(session()?, |pass| {
            traced += u32::from(pass.is_traced());
            work(pass);
        })?;
        assert_eq!((traced, counted.rounds), (0, 2));
        Ok(())
    })
}

#[test]
fn a_cupti_that_can_hang_when_tracing_is_switched_off_is_not_suspended() -> Outcome {
    let process = Process::of(a_cupti_that_can_hang_when_tracing_is_switched_off_is_not_suspended);
    process.version("13.0.0").run(|| {
        let mut profiler = Profiler::builder().start()?;
        let refused = profiler.count(session()?, work).err().ok_or("it was suspended")?;
        assert_eq!(refused.kind, ErrorKind::CuptiTooOld);
        assert!(refused.to_string().contains("13.0 Update 1"), "{refused}");
        Simulated::get().launch(1);
        // The traced pass was made.
        assert_eq!(profiler.whole()?.launches(), 3 + 1);
        Ok(())
    })
}

#[test]
fn a_trace_that_cannot_go_on_says_so_and_keeps_what_it_has() -> Outcome {
    let process = Process::of(a_trace_that_cannot_go_on_says_so_and_keeps_what_it_has);
    process.version("13.5").failing("cuptiActivityEnable:10:999:6").run(|| {
        let cupti = Simulated::get();
        let folder = crate::process::folder()?;
        let output = folder.path().join("run.cuprof");
        let mut profiler = Profiler::builder().output(&output).start()?;
        cupti.launch(1);
        let error = profiler.count(session()?, work).err().ok_or("tracing went on")?;
        assert_eq!(error.call, Some("cuptiActivityEnable"), "{error}");
        cupti.launch(7);
        assert_eq!(profiler.whole()?.launches(), 1 + 3);
        let dataset = Dataset::open(&output)?;
        assert_eq!(Frame::read(&dataset, Table::Metrics, &["metric"])?.len(), 4);
        assert!(dataset.env()?["tracing.suspended.0"].contains("could not go on"));
        assert_eq!((cupti.left_on(), cupti.profiler_left_on()), (0, 0));
        Ok(())
    })
}
