//! Counters on a simulated CUPTI: the order of calls, what is checked, and every way to fail.

use std::cell::RefCell;
use std::rc::Rc;

use cuprof::counters::{BetweenPasses, Bound, Catalogue, MetricKind, NullReason, Pass, Plan, Session};
use cuprof::{Cache, CuptiCache, Dataset, Error, ErrorKind, Profiler, Table};

use crate::Outcome;
use crate::frame::Frame;
use crate::library::Simulated;
use crate::process::{Process, given, libraries};
use crate::session::Ends;

const READ: &str = "dram__bytes_read.sum";
const HITS: &str = "lts__t_sector_hit_rate.pct";
const THROUGHPUT: &str = "sm__throughput.avg.pct_of_peak_sustained_elapsed";
const NAN: &str = "nan__of_a_missing_unit.sum";

fn plan(metrics: &[&str]) -> cuprof::Result<Plan> {
    Plan::new("GH100", metrics)
}

fn two_ranges(pass: &Pass<'_>) {
    pass.range("add", || Simulated::get().launch(1));
    pass.range("mul", || Simulated::get().launch(2));
}

#[track_caller]
fn failed<T>(result: cuprof::Result<T>) -> Error {
    match result {
        Ok(_) => panic!("it succeeded"),
        Err(error) => error,
    }
}

/// Nothing is left on, and the next session counts.
#[track_caller]
fn nothing_is_left_on() {
    let cupti = Simulated::get();
    assert_eq!((cupti.left_on(), cupti.profiler_left_on()), (0, 0));
}

fn counts_ranges_in_passes() -> Outcome {
    let plan = plan(&[READ, HITS, NAN, THROUGHPUT, "no__such_metric.sum"])?;
    assert_eq!((plan.passes(), plan.metrics().len(), plan.missing().len()), (3, 4, 1), "{plan}");
    let mut runs = 0;
    let counted = Session::new(plan).run(|pass| {
        assert_eq!(pass.number(), runs);
        runs += 1;
        two_ranges(pass);
    })?;
    assert_eq!((runs, counted.rounds, counted.timings.rounds.len()), (3, 3, 3));
    assert_eq!((counted.value("add", READ), counted.value("mul", READ)), (Some(0.0), Some(1.0)));
    assert_eq!(counted.value("mul", HITS), Some(7001.0));
    assert_eq!(counted.value("mul", NAN), None);
    let rows: Vec<_> = counted.rows().map(|row| (row.metric, row.unit, row.null_reason)).collect();
    let of_one = [
        (READ, "byte", None),
        (HITS, "%", None),
        (NAN, "byte", Some(NullReason::NotANumber)),
        (THROUGHPUT, "%", None),
        ("no__such_metric.sum", "", Some(NullReason::NotOnChip)),
    ];
    assert_eq!(rows, [of_one, of_one].concat());

    let folder = crate::process::folder()?;
    let path = folder.path().join("counters.cuprof");
    counted.write(&path)?;
    let dataset = Dataset::open(&path)?;
    let frame = Frame::read(
        &dataset,
        Table::Metrics,
        &["range_path", "metric", "null_reason", "passes", "range_mode"],
    )?;
    assert_eq!(frame.len(), 10);
    assert!(frame.rows().all(|row| row.number("passes") == 3 && row.text("range_mode") == Some("user")));
    assert_eq!(frame.rows().filter(|row| row.text("null_reason").is_some()).count(), 4);
    assert_eq!(dataset.env()?["counters.rounds"], "3");
    drop(counted);
    nothing_is_left_on();
    Ok(())
}

#[test]
fn ranges_are_counted_in_passes_by_the_cupti_of_12_9() -> Outcome {
    let process = Process::of(ranges_are_counted_in_passes_by_the_cupti_of_12_9);
    process.version("12.9").run(counts_ranges_in_passes)
}

#[test]
fn ranges_are_counted_in_passes_by_the_first_cupti_that_can() -> Outcome {
    let process = Process::of(ranges_are_counted_in_passes_by_the_first_cupti_that_can);
    process.version("12.6").run(counts_ranges_in_passes)
}

/// In which version exactly a struct grew is not told: it may be an update of the one before, or of the one after.
#[test]
fn structs_that_grew_in_another_version_than_expected_are_found() -> Outcome {
    for (version, structs) in [("13.5", "130000"), ("13.5", "130100"), ("13.5", "130300"), ("13.0", "130500")]
    {
        let process = Process::of(structs_that_grew_in_another_version_than_expected_are_found);
        process.version(version).with("SIM_STRUCTS", structs).run(counts_ranges_in_passes)?;
        if crate::process::is_inside() {
            break;
        }
    }
    Ok(())
}

#[test]
fn a_cupti_before_the_range_profiler_says_so() -> Outcome {
    Process::of(a_cupti_before_the_range_profiler_says_so).version("12.4").run(|| {
        let error = failed(plan(&[READ]));
        assert_eq!(error.kind, ErrorKind::CuptiTooOld);
        assert!(error.to_string().contains("12.6"), "{error}");
        Ok(())
    })
}

#[test]
fn ranges_are_counted_in_passes_by_the_cupti_of_13_0() -> Outcome {
    let process = Process::of(ranges_are_counted_in_passes_by_the_cupti_of_13_0);
    process.version("13.0").run(counts_ranges_in_passes)
}

#[test]
fn ranges_are_counted_in_passes_by_the_cupti_of_13_5() -> Outcome {
    let process = Process::of(ranges_are_counted_in_passes_by_the_cupti_of_13_5);
    process.version("13.5").run(counts_ranges_in_passes)
}

#[test]
fn ranges_are_counted_in_passes_by_a_cupti_of_the_future() -> Outcome {
    let process = Process::of(ranges_are_counted_in_passes_by_a_cupti_of_the_future);
    process.version("13.99").run(counts_ranges_in_passes)
}

#[test]
fn nested_ranges_take_the_passes_of_each_level() -> Outcome {
    Process::of(nested_ranges_take_the_passes_of_each_level).run(|| {
        let work = |pass: &Pass<'_>| {
            pass.range("a/b", || {
                pass.range("add", || Simulated::get().launch(1));
                pass.range("add", || Simulated::get().launch(1));
            });
            pass.range("c", || ());
        };
        let counted = Session::new(plan(&[READ, HITS])?).nesting_levels(2).run(work)?;
        assert_eq!((counted.plan.passes(), counted.rounds), (2, 4));
        let ranges =
            counted.ranges.iter().map(|range| (range.path.as_deref().unwrap_or_default(), range.level));
        assert_eq!(ranges.collect::<Vec<_>>(), [("a/b", 1), ("a/b/add", 2), ("a/b/add", 2), ("c", 1)]);
        let values = counted.rows().filter(|row| row.metric == READ).map(|row| row.value);
        assert_eq!(values.collect::<Vec<_>>(), [Some(0.0), Some(1.0), Some(2.0), Some(3.0)]);

        let error = failed(Session::new(plan(&[READ])?).run(work));
        assert!(
            error.kind == ErrorKind::Config && error.to_string().contains("nesting_levels(2)"),
            "{error}"
        );
        drop(counted);
        nothing_is_left_on();
        Ok(())
    })
}

#[test]
fn each_kernel_is_counted_with_its_name_and_range() -> Outcome {
    Process::of(each_kernel_is_counted_with_its_name_and_range).run(|| {
        let cupti = Simulated::get();
        let counted = Session::new(plan(&[READ, HITS])?).run_kernels(|| {
            cupti.launch(1);
            let _step = cuprof::range!("step");
            cuprof::in_range("inner", || cupti.launch(1));
            cupti.launch(1);
        })?;
        assert_eq!((counted.rounds, counted.ranges.len(), counted.kernels_known), (1, 3, true));
        let paths: Vec<_> = counted.ranges.iter().map(|range| range.path.as_deref()).collect();
        assert_eq!(paths, [None, Some("step/inner"), Some("step")]);
        assert!(counted.ranges.iter().all(|range| range.kernel_mangled.as_deref() == Some("_Z5saxpyPfS_fi")));
        assert_eq!(counted.value("saxpy(float*, float*, float, int)", READ), Some(0.0));
        drop(counted);
        nothing_is_left_on();
        // Ranges go nowhere without a session.
        let profiler = Profiler::builder().start()?;
        cupti.launch(5);
        assert_eq!(profiler.whole()?.launches(), 5);
        Ok(())
    })
}

#[track_caller]
fn refused(kind: ErrorKind, words: &[&str]) -> Outcome {
    let error = failed(Session::new(plan(&[READ])?).run(two_ranges));
    assert_eq!(error.kind, kind, "{error}");
    let text = error.to_string();
    assert!(words.iter().all(|word| text.contains(word)), "{text}");
    nothing_is_left_on();
    Ok(())
}

#[test]
fn missing_permission_is_told_with_what_gives_it() -> Outcome {
    let process = Process::of(missing_permission_is_told_with_what_gives_it);
    process.failing("cuptiProfilerGetCounterAvailability:*:35").run(|| {
        let remedies = ["CAP_SYS_ADMIN", "NVreg_RestrictProfilingToAdminUsers=0", "GetCounterAvailability"];
        refused(ErrorKind::PermissionDenied, &remedies)
    })
}

#[test]
fn permission_that_is_missing_only_when_a_pass_starts_is_told_the_same() -> Outcome {
    let process = Process::of(permission_that_is_missing_only_when_a_pass_starts_is_told_the_same);
    let process = process.failing("cuptiRangeProfilerStart:*:35");
    process.run(|| refused(ErrorKind::PermissionDenied, &["CAP_SYS_ADMIN", "cuptiRangeProfilerStart"]))
}

#[test]
fn counters_that_others_hold_are_busy() -> Outcome {
    let process = Process::of(counters_that_others_hold_are_busy);
    let process = process.failing("cuptiProfilerGetCounterAvailability:*:26");
    process.run(|| refused(ErrorKind::Busy, &["dcgmi profile --pause", "ncu"]))
}

#[test]
fn a_gpu_that_cannot_be_profiled_says_so() -> Outcome {
    let process = Process::of(a_gpu_that_cannot_be_profiled_says_so).with("SIM_SUPPORT", "1");
    process.run(|| refused(ErrorKind::NotSupported, &["Simulated GPU", "does not say why", "another GPU"]))
}

#[test]
fn a_plan_for_another_chip_is_refused() -> Outcome {
    let process = Process::of(a_plan_for_another_chip_is_refused).with("SIM_CHIP", "GA100");
    process.run(|| refused(ErrorKind::Config, &["the plan is for GH100", "GA100"]))
}

#[test]
fn without_a_context_the_primary_one_is_retained_and_released() -> Outcome {
    const JOURNAL: &str = "SIM_CUDA_JOURNAL";
    let folder = crate::process::folder()?;
    let process = Process::of(without_a_context_the_primary_one_is_retained_and_released)
        .with("SIM_CUDA_NO_CONTEXT", "1")
        .with("SIM_CUDA_DEVICES", "1,2")
        .with(JOURNAL, folder.path().join("journal"));
    process.run(|| {
        let calls = |name: &str| -> std::io::Result<usize> {
            Ok(std::fs::read_to_string(given(JOURNAL))?.lines().filter(|call| *call == name).count())
        };
        let counted = Session::new(plan(&[READ])?).cache(Cache::Flush).run(two_ranges)?;
        assert_eq!((counted.device, counted.device_name.as_str()), (0, "Simulated GPU"));
        Session::new(plan(&[READ])?).device(1).run_kernels(|| {
            Simulated::get().launch(1);
        })?;
        let error = failed(Session::new(plan(&[READ])?).run(|_| Err::<(), _>("out of luck")));
        assert_eq!(error.kind, ErrorKind::Program);
        let error = failed(Session::new(plan(&[READ])?).device(2).run(two_ranges));
        assert_eq!(error.kind, ErrorKind::NoDevice);
        assert!(error.to_string().contains("there is no device 2: the process sees 2"), "{error}");
        assert_eq!(calls("cuDevicePrimaryCtxRetain")?, 3);
        assert_eq!(calls("cuDevicePrimaryCtxRelease_v2")?, 3);
        assert_eq!(calls("cuCtxPushCurrent_v2")?, calls("cuCtxPopCurrent_v2")?);
        drop(counted);
        nothing_is_left_on();
        Ok(())
    })
}

#[test]
fn passes_that_never_end_are_ended() -> Outcome {
    let process = Process::of(passes_that_never_end_are_ended).with("SIM_ROUNDS", "never");
    process.run(|| refused(ErrorKind::Call, &["after 3 rounds"]))
}

#[test]
fn dropped_ranges_are_an_error_that_names_the_room_needed() -> Outcome {
    let process =
        Process::of(dropped_ranges_are_an_error_that_names_the_room_needed).with("SIM_DROPPED", "3");
    process.run(|| refused(ErrorKind::Config, &["max_ranges(19)"]))
}

#[test]
fn a_metric_that_is_not_evaluated_spoils_no_other() -> Outcome {
    let process = Process::of(a_metric_that_is_not_evaluated_spoils_no_other);
    process.with("SIM_EVALUATION_FAILS", HITS).run(|| {
        let counted = Session::new(plan(&[READ, HITS])?).run(two_ranges)?;
        assert_eq!(counted.value("mul", READ), Some(1.0));
        let reasons: Vec<_> = counted.rows().filter_map(|row| row.null_reason).collect();
        assert_eq!(reasons, [NullReason::NotEvaluated; 2]);
        Ok(())
    })
}

#[test]
fn work_that_goes_wrong_ends_the_session_and_leaves_nothing_on() -> Outcome {
    Process::of(work_that_goes_wrong_ends_the_session_and_leaves_nothing_on).run(|| {
        let session = || plan(&[READ, THROUGHPUT]).map(Session::new);

        let error = failed(session()?.run(|pass| {
            two_ranges(pass);
            if pass.number() == 1 { Err("out of luck") } else { Ok(()) }
        }));
        assert_eq!(error.kind, ErrorKind::Program);
        assert!(
            error.to_string().contains("pass 2 of 3") && error.to_string().contains("out of luck"),
            "{error}"
        );
        nothing_is_left_on();

        let session_that_panics = session()?;
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            session_that_panics.run(|pass| pass.range("add", || -> () { panic!("as asked") }))
        }));
        assert!(panicked.is_err());
        nothing_is_left_on();

        let error = failed(session()?.run(|pass| {
            two_ranges(pass);
            if pass.number() == 2 {
                pass.range("more", || ());
            }
        }));
        assert!(error.to_string().contains("as number 3 \"more\" instead of none"), "{error}");
        nothing_is_left_on();

        let error = failed(session()?.run(|pass| {
            if pass.number() == 0 {
                two_ranges(pass)
            }
        }));
        assert!(error.to_string().contains("none instead of \"add\""), "{error}");
        let error = failed(session()?.max_ranges(1).run(two_ranges));
        assert!(error.to_string().contains("max_ranges(2)"), "{error}");
        let error = failed(session()?.run(|_| ()));
        assert!(error.to_string().contains("pass.range"), "{error}");
        let error = failed(session()?.run_kernels(|| Err::<(), _>("no kernels")));
        assert!(error.to_string().contains("no kernels"), "{error}");
        nothing_is_left_on();

        assert!(session()?.run(two_ranges).is_ok());
        Ok(())
    })
}

#[test]
fn the_clocks_of_each_pass_are_told_where_there_is_nvml() -> Outcome {
    let process = Process::of(the_clocks_of_each_pass_are_told_where_there_is_nvml);
    process.with("CUPROF_NVML_PATH", libraries().join("libnvidia-ml.so.1")).run(|| {
        let counted = Session::new(plan(&[READ, HITS, THROUGHPUT])?).run(two_ranges)?;
        assert_eq!(counted.conditions.len(), counted.rounds);
        assert!(counted.conditions.iter().all(|pass| pass.sm_clock_mhz == Some(1_980)));
        let path = crate::process::folder()?.path().join("counters.cuprof");
        counted.write(&path)?;
        let env = Dataset::open(&path)?.env()?;
        let told = (0..counted.rounds).filter_map(|pass| env.get(&format!("counters.pass.{pass}")));
        assert_eq!(told.filter(|told| told.starts_with("SM 1980 MHz")).count(), counted.rounds, "{env:?}");
        let repeated = Session::new(plan(&[READ])?).run_kernels(|| {
            Simulated::get().launch(2);
        })?;
        assert_eq!(repeated.conditions.len(), 1);
        Ok(())
    })
}

#[test]
fn one_pass_is_refused_with_the_metrics_to_drop() -> Outcome {
    Process::of(one_pass_is_refused_with_the_metrics_to_drop).run(|| {
        let error = failed(Session::new(plan(&[HITS, READ, THROUGHPUT])?).single_pass().run(two_ranges));
        assert!(error.to_string().contains(&format!("drop {HITS}, {THROUGHPUT}")), "{error}");
        assert!(Session::new(plan(&[READ])?).single_pass().run(two_ranges).is_ok());
        Ok(())
    })
}

#[test]
fn counters_and_tracing_refuse_each_other() -> Outcome {
    Process::of(counters_and_tracing_refuse_each_other).run(|| {
        let session = || plan(&[READ]).map(Session::new);
        let profiler = Profiler::builder().start()?;
        let error = failed(session()?.run(two_ranges));
        assert_eq!(error.kind, ErrorKind::AlreadyRunning);
        assert!(error.to_string().contains("tracing would change the counters"), "{error}");
        Simulated::get().launch(2);
        assert_eq!(profiler.whole()?.launches(), 2);

        let mut inside = Vec::new();
        session()?.run(|pass| {
            inside.push(failed(Profiler::builder().start()));
            inside.push(failed(session().and_then(|session| session.run(two_ranges))));
            two_ranges(pass);
        })?;
        assert!(inside.iter().all(|error| error.kind == ErrorKind::AlreadyRunning), "{inside:?}");
        assert!(inside[0].to_string().contains("counters are being collected"), "{}", inside[0]);
        assert!(
            inside[1].to_string().contains("one after the other")
                || inside[1].to_string().contains("after the other")
        );
        nothing_is_left_on();
        Ok(())
    })
}

/// Notes what it is asked for.
#[derive(Clone, Default)]
struct Notes(Rc<RefCell<Vec<String>>>);

impl BetweenPasses for Notes {
    fn before_pass(&mut self, pass: usize) -> cuprof::Result<()> {
        self.0.borrow_mut().push(format!("pass {pass}"));
        Ok(())
    }

    fn before_range(&mut self, name: &str, level: u16) -> cuprof::Result<()> {
        self.0.borrow_mut().push(format!("{name} {level}"));
        match name {
            "forbidden" => Err(Error::new(ErrorKind::Config, "not this one")),
            _ => Ok(()),
        }
    }

    fn cache_state(&self) -> &str {
        "cold_clean"
    }
}

#[test]
fn what_happens_between_passes_comes_before_each_pass_and_range() -> Outcome {
    Process::of(what_happens_between_passes_comes_before_each_pass_and_range).run(|| {
        let notes = Notes::default();
        Session::new(plan(&[HITS])?).between_passes(notes.clone()).run(two_ranges)?;
        assert_eq!(*notes.0.borrow(), ["pass 0", "add 1", "mul 1", "pass 1", "add 1", "mul 1"]);
        let session = Session::new(plan(&[HITS])?).between_passes(notes);
        let error = failed(session.run(|pass| pass.range("forbidden", || ())));
        assert!(error.to_string().contains("not this one"), "{error}");
        nothing_is_left_on();
        Ok(())
    })
}

#[test]
fn whichever_call_fails_nothing_is_left_on() -> Outcome {
    Process::of(whichever_call_fails_nothing_is_left_on).run(|| {
        let cupti = Simulated::get();
        // Opens the libraries.
        plan(&[READ])?;
        let mut failures = 0;
        for kernels in [false, true] {
            for call in 1.. {
                assert!(call < 500, "there is no end to the calls");
                let ready = plan(&[READ, HITS])?;
                cupti.fail_in(call, 999);
                let session = Session::new(ready);
                let result = match kernels {
                    false => session.run(two_ranges),
                    true => session.run_kernels(|| {
                        cupti.launch(2);
                    }),
                };
                let has_failed = cupti.fail_left() == 0;
                if !has_failed {
                    cupti.fail_in(0, 0);
                    assert!(result.is_ok_and(|counted| counted.ranges.len() == 2));
                    break;
                }
                failures += 1;
                // What fails when it is switched off is nobody's concern; and values are asked for one by one where they
                // cannot be had together.
                if result.is_err() {
                    nothing_is_left_on();
                }
                drop(result);
                cupti.fail_in(0, 0);
                cupti.reset();
            }
        }
        assert!(failures > 60, "only {failures} calls failed");
        Ok(())
    })
}

#[test]
fn without_the_libraries_for_counters_it_says_which() -> Outcome {
    let folder = crate::process::folder()?;
    let process = Process::of(without_the_libraries_for_counters_it_says_which);
    let copy = folder.path().join("libcupti.so.13");
    if !crate::process::is_inside() {
        std::fs::copy(libraries().join("libcupti.so.13"), &copy)?;
    }
    process.with("CUPROF_CUPTI_PATH", copy).run(|| {
        let error = failed(plan(&[READ]));
        assert_eq!(error.kind, ErrorKind::CuptiNotFound);
        assert!(error.to_string().contains("libnvperf_host.so"), "{error}");
        Ok(())
    })
}

#[test]
fn names_are_looked_up_before_they_are_used() -> Outcome {
    Process::of(names_are_looked_up_before_they_are_used).version("12.9").run(|| {
        let catalogue = Catalogue::of_chip("GH100")?;
        assert_eq!(catalogue.base_metrics(MetricKind::Throughput)?, ["sm__throughput"]);
        assert_eq!(catalogue.search("bytes DRAM")?, ["dram__bytes_read", "dram__bytes_write"]);
        assert_eq!(catalogue.describe("dram__bytes_read.sum.per_second")?.unit, "byte/s");
        let error = failed(plan(&["dram_bytes_read.sum"]));
        assert!(error.to_string().contains("near: dram__bytes_read.sum"), "{error}");
        let error = failed(plan(&["headlin"]));
        assert!(error.to_string().contains("near: headline"), "{error}");
        let mixed = plan(&[READ, "nvlrx__bytes.sum"])?;
        assert_eq!((mixed.metrics().len(), mixed.missing().len()), (1, 1), "{mixed}");
        let error = failed(Plan::new("GH200", [READ]));
        assert!(error.to_string().contains("GH100"), "{error}");
        Ok(())
    })
}

#[test]
fn work_with_more_ranges_than_there_was_room_for_begins_anew() -> Outcome {
    Process::of(work_with_more_ranges_than_there_was_room_for_begins_anew).run(|| {
        let mut runs = Vec::new();
        let mut work = |pass: &Pass<'_>| {
            runs.push(pass.number());
            for _ in 0..40 {
                pass.range("add", || Simulated::get().launch(1));
            }
        };
        let counted = Session::new(plan(&[READ, HITS])?).run(&mut work)?;
        assert_eq!((counted.rounds, counted.ranges.len()), (2, 40));
        assert!(counted.rows().all(|row| row.value.is_some()));
        assert!(!counted.timings.thrown_away.is_zero());
        drop(counted);
        // Work that cannot run again has more room at once, or is refused.
        let counted = Session::new(plan(&[READ])?).single_pass().run(&mut work)?;
        assert_eq!((counted.rounds, counted.ranges.len()), (1, 40));
        let error = failed(Session::new(plan(&[READ])?).max_ranges(39).run(&mut work));
        assert!(error.to_string().contains("max_ranges(40)"), "{error}");
        assert_eq!(runs, [0, 0, 1, 0, 0]);
        drop(counted);
        nothing_is_left_on();
        Ok(())
    })
}

#[test]
fn the_cache_is_flushed_before_each_pass_and_each_outer_range() -> Outcome {
    const JOURNAL: &str = "SIM_CUDA_JOURNAL";
    let folder = crate::process::folder()?;
    let process = Process::of(the_cache_is_flushed_before_each_pass_and_each_outer_range);
    process.with(JOURNAL, folder.path().join("journal")).run(|| {
        let flushes = || -> std::io::Result<usize> {
            let journal = std::fs::read_to_string(given(JOURNAL))?;
            Ok(journal.lines().filter(|call| *call == "cuLaunchKernel").count())
        };
        let mut at_ranges = Vec::new();
        let session = Session::new(plan(&[READ])?).cache(Cache::Flush).nesting_levels(2);
        let counted = session.run(|pass| {
            at_ranges.push(flushes());
            pass.range("outer", || {
                at_ranges.push(flushes());
                pass.range("inner", || at_ranges.push(flushes()));
            });
        })?;
        let at_ranges = at_ranges.into_iter().collect::<Result<Vec<_>, _>>()?;
        // The first is made with the control. None comes between the outer range's beginning and the inner one.
        assert_eq!(at_ranges, [2, 3, 3, 4, 5, 5]);
        assert_eq!(counted.cache.as_ref().map(|report| report.applied), Some(4));
        assert_eq!(counted.residual, None);
        let verified = Session::new(plan(&[READ])?).cache(Cache::Flush).verify_cache().run(two_ranges)?;
        // The simulated numbers of metrics 9 and 10.
        let ratio = 9000.0 / (9000.0 + 10_000.0);
        assert_eq!(verified.residual.map(|residual| residual.hit_ratio), Some(ratio));
        let path = folder.path().join("counters.cuprof");
        verified.write(&path)?;
        let dataset = Dataset::open(&path)?;
        let frame = Frame::read(&dataset, Table::Metrics, &["cache_state"])?;
        assert!(frame.rows().all(|row| row.text("cache_state") == Some("cold_clean")));
        assert_eq!(dataset.env()?["counters.cache_residual_hit_ratio"], ratio.to_string());

        let error = failed(Session::new(plan(&[READ])?).verify_cache().run(two_ranges));
        assert!(error.to_string().contains("Session::cache"), "{error}");
        let error = failed(Session::new(plan(&[READ])?).cache(Cache::Flush).run_kernels(|| ()));
        assert!(error.to_string().contains("Cache::Cupti"), "{error}");
        drop((counted, verified));
        nothing_is_left_on();
        Ok(())
    })
}

#[test]
fn cupti_controls_the_caches_where_it_can() -> Outcome {
    Process::of(cupti_controls_the_caches_where_it_can).version("13.5").run(|| {
        let modes = [(Cache::Keep, 0), (Cache::Cupti(CuptiCache::All), 1), (Cache::Cupti(CuptiCache::L2), 2)];
        for (cache, mode) in modes {
            Session::new(plan(&[READ])?).cache(cache).run(two_ranges)?;
            assert_eq!(Simulated::get().cache_mode(), mode);
            Session::new(plan(&[READ])?).cache(cache).run_kernels(|| {
                Simulated::get().launch(1);
            })?;
            assert_eq!(Simulated::get().cache_mode(), mode);
        }
        nothing_is_left_on();
        Ok(())
    })
}

#[test]
fn a_cupti_that_cannot_control_the_caches_says_so() -> Outcome {
    Process::of(a_cupti_that_cannot_control_the_caches_says_so).version("13.0").run(|| {
        let error = failed(Session::new(plan(&[READ])?).cache(Cache::Cupti(CuptiCache::L2)).run(two_ranges));
        assert_eq!(error.kind, ErrorKind::CuptiTooOld);
        assert!(error.to_string().contains("13.4"), "{error}");
        nothing_is_left_on();
        Ok(())
    })
}

#[test]
fn counters_after_a_trace_that_an_old_cupti_cannot_end_are_refused() -> Outcome {
    let process = Process::of(counters_after_a_trace_that_an_old_cupti_cannot_end_are_refused);
    process.version("12.9").run(|| {
        assert!(Session::new(plan(&[READ])?).run(two_ranges).is_ok());
        Profiler::builder().start()?.whole()?;
        for kernels in [false, true] {
            let session = Session::new(plan(&[READ])?);
            let result = if kernels { session.run_kernels(|| ()) } else { session.run(two_ranges) };
            let error = failed(result);
            assert_eq!(error.kind, ErrorKind::CuptiTooOld);
            assert!(error.to_string().contains("13.0 Update 1"), "{error}");
        }
        Ok(())
    })
}

#[test]
fn a_roofline_rests_on_the_metrics_that_were_counted() -> Outcome {
    Process::of(a_roofline_rests_on_the_metrics_that_were_counted).run(|| {
        let counted =
            Session::new(plan(&["gpu__time_duration.sum", READ, "dram__bytes_write.sum", THROUGHPUT])?)
                .run(two_ranges)?;
        let roofline = counted.roofline("mul")?;
        // Simulated: metric 2 of range 1, metrics 0 and 1 of it, and a percentage of metric 8.
        assert_eq!((roofline.duration_ns, roofline.dram_bytes), (2001.0, Some(1.0 + 1001.0)));
        assert_eq!((roofline.bound, roofline.ceilings.len()), (Bound::Compute, 1));
        assert_eq!(roofline.ceilings[0].from, [(THROUGHPUT, 8001.0)]);
        let by_trace = counted.roofline_in("mul", std::time::Duration::from_nanos(1000))?;
        assert!(by_trace.duration_is_given && by_trace.ceilings[0].ratio > roofline.ceilings[0].ratio);
        let error = failed(counted.roofline("div"));
        assert!(error.to_string().contains("add, mul"), "{error}");
        let untimed = Session::new(plan(&[READ])?).run(two_ranges)?;
        assert!(failed(untimed.roofline("add")).to_string().contains("gpu__time_duration.sum"));

        let saved = counted.saved(["add", "mul"], "mul")?;
        let names: Vec<_> = saved.iter().map(|saved| saved.metric.as_str()).collect();
        assert_eq!(names, ["gpu__time_duration.sum", READ, "dram__bytes_write.sum"]);
        assert_eq!((saved[0].before, saved[0].after), (2000.0 + 2001.0, 2001.0));
        assert_eq!(failed(counted.saved(["add"], "fused")).kind, ErrorKind::Config);
        Ok(())
    })
}
