//! Measurements through live sessions: times from traced records, then counters from passes.

use std::time::{Duration, UNIX_EPOCH};

use cuprof::bench::{DURATION, Order, Report};
use cuprof::stats::{Precision, StopRule};
use cuprof::{Bench, Cache, Dataset, ErrorKind, Pattern, Profiler, Table};

use crate::Outcome;
use crate::frame::Frame;
use crate::library::{Simulated, Work};
use crate::process::{Process, libraries};
use crate::session::Ends;

const READ: &str = "dram__bytes_read.sum";

/// Kernels of each sample of an annotation in a configuration.
fn launches(report: &Report, config: usize, annotation: &str) -> Vec<usize> {
    let samples = report.samples().iter().filter(|sample| {
        sample.config_index == config
            && &*sample.annotation == annotation
            && &*sample.metric == DURATION
            && sample.kernel.is_none()
    });
    samples.map(|sample| sample.launches).collect()
}

#[test]
fn a_bench_times_what_its_annotations_launch_and_then_counts_it() -> Outcome {
    let process = Process::of(a_bench_times_what_its_annotations_launch_and_then_counts_it);
    process.with("CUPROF_NVML_PATH", libraries().join("libnvidia-ml.so.1")).run(|| {
        let cupti = Simulated::get();
        let bench =
            Bench::new("simulated").configs([1_u32, 5]).parameters(["launches"]).runs(25).metrics([READ]);
        let folder = crate::process::folder()?;
        let (traced, output) = (folder.path().join("trace.cuprof"), folder.path().join("bench.cuprof"));
        let bench = bench.order(Order::Shuffled(1)).output(&traced).progress(false);
        let report = bench.run(|run, count| {
            cupti.launch(3); // set-up
            run.measure("work", || {
                cupti.launch(*count);
                // In ranges of the program, and on other threads that work for one.
                cuprof::in_range("inner", || cupti.launch(1));
                let range = cuprof::range!("threads");
                let handle = range.handle();
                std::thread::scope(|scope| {
                    scope.spawn(move || {
                        let _entered = handle.enter();
                        cupti.launch(2);
                    });
                });
            });
            cupti.launch(1);
            run.measure("outer", || {
                cupti.launch(1);
                run.measure("nested", || {
                    cupti.launch(1);
                });
            });
        });
        let report = report?;
        assert!(report.losses().is_empty(), "{report}");
        assert_eq!(launches(&report, 0, "work"), [4; 25]);
        assert_eq!(launches(&report, 1, "work"), [8; 25]);
        assert_eq!(launches(&report, 1, "outer"), [2; 25]);
        assert_eq!(launches(&report, 1, "nested"), [1; 25]);
        let samples = || report.samples().iter().filter(|sample| sample.run.is_some());
        assert!(
            samples()
                .all(|sample| sample.valid && sample.conditions.is_some_and(|c| c.sm_clock_mhz.is_some()))
        );
        // Counted in passes of their own, when the traced session had ended.
        let counted =
            report.samples().iter().filter(|sample| &*sample.metric == READ && sample.value.is_some());
        assert_eq!(counted.count(), 2 * 3, "{:?}", report.warnings());
        // Every kernel is in the trace, under its annotation, whose arguments have its configuration and run.
        let traced = Dataset::open(&traced)?;
        let ranges = Frame::read(&traced, Table::Ranges, &["range_path", "args", "n_launches", "start_ns"])?;
        let works: Vec<_> = ranges.rows().filter(|row| row.text("range_path") == Some("work")).collect();
        assert_eq!(works.len(), 2 * 25);
        for config in [0, 1] {
            let wanted = format!(r#"{{"config":{config},"run":24}}"#);
            let row = works.iter().find(|row| row.text("args") == Some(wanted.as_str()));
            assert_eq!(row.map(|row| row.number("n_launches")), Some(4 + 4 * config));
        }
        // Runs begin on the clock of their ranges.
        let begun =
            |row: &&crate::frame::Row<'_>| row.text("args").is_some_and(|args| args.contains("\"run\":24"));
        let first = works.iter().find(begun).map(|row| row.number("start_ns"));
        let started =
            report.samples().iter().find(|sample| sample.run == Some(24)).map(|sample| sample.start_ns);
        assert!(started.zip(first).is_some_and(|(run, range)| (0..1_000_000_000).contains(&(range - run))));
        report.write(&output)?;
        assert_eq!(Dataset::open(&output)?.rows(Table::Samples), report.samples().len() as u64);
        let fact =
            |key: &str| report.facts().iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str());
        assert!(
            fact("bench.cache").is_some_and(|told| told.starts_with("cache: flush")),
            "{:?}",
            report.facts()
        );
        assert!(
            fact("gpu.uuid").is_some() && fact("bench.clocks").is_some() && fact("bench.thermal").is_some()
        );
        // Another session can start.
        Profiler::builder().start()?.whole()?;
        Ok(())
    })
}

#[test]
fn rows_are_looked_at_while_the_session_runs() -> Outcome {
    Process::of(rows_are_looked_at_while_the_session_runs).run(|| {
        let cupti = Simulated::get();
        let precise = |target| {
            let rule = Precision { target, max_runs: 60, max_time: Duration::from_secs(600) };
            Bench::new("precise").stop_rule(StopRule::Precision(rule)).cache(Cache::Keep).progress(false)
        };
        let ended = |report: &Report| {
            let aggregate = report.aggregate(0, "work", DURATION)?;
            Some((aggregate.stop_reason?.as_str(), aggregate.told.n))
        };
        // All of the same time.
        let steady = precise(0.01).run(|run, ()| -> Result<(), std::time::SystemTimeError> {
            let now = UNIX_EPOCH.elapsed()?.as_nanos() as u64;
            run.measure("work", || {
                cupti.work(Work::KERNEL.stamped(now, now + 10_000));
            });
            Ok(())
        })?;
        assert_eq!(ended(&steady), Some(("precision_reached", 20)), "{steady}");
        // Each longer than the one before.
        let drifting = precise(0.5).run(|run, ()| {
            run.measure("work", || {
                cupti.launch(1);
            });
        })?;
        assert_eq!(ended(&drifting), Some(("max_runs", 60)), "{drifting}");
        let drift = drifting.aggregate(0, "work", DURATION).and_then(|aggregate| aggregate.told.drift);
        assert!(drift.is_some_and(|drift| drift.exceeds(0.25)), "{drift:?}");
        Ok(())
    })
}

#[test]
fn a_bench_is_refused_where_another_session_runs_and_where_nothing_would_count() -> Outcome {
    Process::of(a_bench_is_refused_where_another_session_runs_and_where_nothing_would_count).run(|| {
        let cupti = Simulated::get();
        let measure = |bench: Bench| {
            bench.progress(false).runs(3).run(|run, ()| {
                run.measure("work", || {
                    cupti.launch(1);
                });
            })
        };
        let profiler = Profiler::builder().start()?;
        let error = measure(Bench::new("second")).err().ok_or("it ran beside another session")?.error;
        assert_eq!(error.kind, ErrorKind::AlreadyRunning);
        profiler.whole()?;
        let report = measure(Bench::new("none").only_kernels(Pattern::name("nobody")))?;
        assert!(report.samples().iter().all(|sample| !sample.valid));
        let error =
            measure(Bench::new("metric").metrics(["no__such_metric.sum"])).err().ok_or("accepted")?.error;
        assert_eq!(error.kind, ErrorKind::Config);
        assert!(error.to_string().contains("no__such_metric.sum"), "{error}");
        assert_eq!((cupti.left_on(), cupti.profiler_left_on()), (0, 0));
        Ok(())
    })
}

#[test]
fn a_cupti_that_cannot_stop_tracing_kernels_counts_before_it_traces() -> Outcome {
    let process = Process::of(a_cupti_that_cannot_stop_tracing_kernels_counts_before_it_traces);
    process.version("12.9").run(|| {
        let cupti = Simulated::get();
        let bench = Bench::new("old").runs(3).metrics([READ]).cache(Cache::Keep).progress(false);
        let report = bench.run(|run, ()| {
            run.measure("outer", || {
                run.measure("inner", || {
                    cupti.launch(1);
                });
            });
        })?;
        let counted =
            report.samples().iter().filter(|sample| &*sample.metric == READ && sample.value.is_some());
        assert_eq!(counted.count(), 2, "{:?}", report.warnings());
        assert_eq!(launches(&report, 0, "inner"), [1; 3]);
        Ok(())
    })
}
