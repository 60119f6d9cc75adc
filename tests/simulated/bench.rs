//! Measurements through live sessions: times from traced records, then counters from passes.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::time::{Duration, Instant, UNIX_EPOCH};

use cuprof::bench::{BenchError, DURATION, LaunchMode, OnFailure, Order, Purpose, Report};
use cuprof::stats::{Precision, StopRule};
use cuprof::{Bench, Cache, Dataset, ErrorKind, Pattern, Profiler, Table, recover};

use crate::Outcome;
use crate::frame::Frame;
use crate::library::{Simulated, Work};
use crate::process::{Process, given, is_inside, libraries, read};
use crate::session::Ends;

const READ: &str = "dram__bytes_read.sum";

const METRIC_COLUMNS: [&str; 11] = [
    "config",
    "config_index",
    "run",
    "range_path",
    "range_mode",
    "replay_mode",
    "cache_state",
    "clock_mode",
    "passes",
    "metric",
    "unit",
];

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
    let process = process.with("SIM_CUDA_RUNS", "1"); // the flush runs, too
    process.with("CUPROF_NVML_PATH", libraries().join("libnvidia-ml.so.1")).run(|| {
        let cupti = Simulated::get();
        let bench =
            Bench::new("simulated").configs([1_u32, 5]).parameters(["launches"]).runs(25).metrics([READ]);
        let folder = crate::process::folder()?;
        let output = folder.path().join("bench.cuprof");
        let bench = bench.counter_runs(2).order(Order::Shuffled(1)).output(&output).progress(false);
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
        let samples = || report.samples().iter().filter(|sample| sample.order.is_some());
        assert!(
            samples()
                .all(|sample| sample.valid && sample.conditions.is_some_and(|c| c.sm_clock_mhz.is_some()))
        );
        // Counted in passes of their own, when the traced session had ended.
        let counted =
            report.samples().iter().filter(|sample| &*sample.metric == READ && sample.value.is_some());
        assert_eq!(counted.count(), 2 * 2 * 3, "{:?}", report.warnings());
        // Everything is in one dataset: the samples, and what was counted.
        let dataset = Dataset::open(&output)?;
        assert!(dataset.is_complete());
        assert_eq!(dataset.rows(Table::Samples), report.samples().len() as u64);
        assert_eq!(dataset.rows(Table::Aggregates), report.aggregates().len() as u64);
        let metrics = Frame::read(&dataset, Table::Metrics, &METRIC_COLUMNS)?;
        let counted: Vec<_> = metrics
            .rows()
            .map(|row| {
                (row.text("config"), row.number("config_index"), row.number("run"), row.text("range_path"))
            })
            .collect();
        let annotations = ["work", "outer", "outer/nested"];
        let expected = [("launches=1", 0), ("launches=5", 1)].into_iter().flat_map(|(config, index)| {
            [0, 1].into_iter().flat_map(move |run| {
                annotations.map(|annotation| (Some(config), index, run, Some(annotation)))
            })
        });
        assert_eq!(counted, expected.collect::<Vec<_>>());
        let modes = ["user", "user", "cold_clean", "free"].map(Some);
        let names = ["range_mode", "replay_mode", "cache_state", "clock_mode"];
        assert!(
            metrics.rows().all(|row| names.map(|name| row.text(name)) == modes && row.number("passes") > 0)
        );
        assert!(
            metrics.rows().all(|row| row.text("metric") == Some(READ) && row.text("unit") == Some("byte"))
        );
        // Every kernel is there, under its annotation, whose arguments have its configuration and run. What flushes the
        // cache is apart from what the program launches.
        let ranges = Frame::read(&dataset, Table::Ranges, &["range_path", "args", "n_launches", "start_ns"])?;
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
        let launches = Frame::read(&dataset, Table::Launches, &["range_id", "range_path", "duration_ns"])?;
        let runs = 25 + 2; // those that warm up as well
        let in_runs = [1, 5].map(|count| runs * (3 + count + 1 + 2 + 1 + 2)).iter().sum::<i64>();
        assert_eq!(launches.rows().count() as i64, in_runs);
        let overheads = Frame::read(&dataset, Table::Overheads, &["kind"])?;
        let flushes = overheads.rows().filter(|row| row.text("kind") == Some("cuprof_cache_flush")).count();
        assert_eq!(flushes, 1 + 2 * 25 * 2, "a first one, and one for each annotation that is in no other");
        // A sample names its range, and launches there do as well.
        let nested = report.samples().iter().filter(|sample| &*sample.annotation == "nested");
        for sample in nested.filter(|sample| &*sample.metric == DURATION && sample.kernel.is_none()) {
            let its = launches.rows().filter(|row| row.int("range_id") == sample.range_id);
            let paths: Vec<_> = its.map(|row| (row.text("range_path"), row.int("duration_ns"))).collect();
            assert_eq!(paths, [(Some("outer/nested"), sample.value.map(|ns| ns as i64))]);
        }
        let read = Report::open(&output)?;
        assert_eq!((read.to_string(), read.markdown()), (report.to_string(), report.markdown()));
        assert_eq!((read.csv(), read.compat_csv()), (report.csv(), report.compat_csv()));
        // Of the report alone there is a dataset without launches, and so without ids of ranges.
        let alone = folder.path().join("alone.cuprof");
        report.write(&alone)?;
        assert_eq!(Dataset::open(&alone)?.rows(Table::Metrics), dataset.rows(Table::Metrics));
        assert!(Report::open(&alone)?.samples().iter().all(|sample| sample.range_id.is_none()));
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

/// Launches so many kernels.
fn launch(cupti: Simulated, count: u32) {
    cupti.launch(count);
}

#[test]
fn what_was_measured_is_in_the_dataset_of_a_bench_that_ends_early() -> Outcome {
    let process = Process::of(what_was_measured_is_in_the_dataset_of_a_bench_that_ends_early);
    process.with("CUPROF_NVML_PATH", libraries().join("libnvidia-ml.so.1")).run(|| {
        let cupti = Simulated::get();
        let folder = crate::process::folder()?;
        let output = folder.path().join("stopped.cuprof");
        let bench = |runs: usize| Bench::new("stopped").runs(runs).progress(false).output(&output);
        let stopping = bench(9).on_failure(OnFailure::Stop).warm_up(0);
        let failed = stopping.run(|run, ()| {
            run.measure("work", || launch(cupti, 2));
            if run.number() == 3 { Err("out of memory") } else { Ok(()) }
        });
        let failed = failed.err().ok_or("it went on")?;
        assert_eq!(failed.error.kind, ErrorKind::Program);
        let dataset = Dataset::open(&output)?;
        assert!(dataset.is_complete());
        assert_eq!(dataset.rows(Table::Launches), 4 * 2);
        let read = Report::open(&output)?;
        assert_eq!(read.samples(), failed.report.samples());
        assert!(read.warnings()[0].starts_with("measuring failed: "), "{read}");
        assert!(read.warnings()[0].ends_with("run 3 of configuration 0 failed: out of memory"), "{read}");
        // It is refused a second time, before anything runs, unless it is to be replaced.
        let launched = cupti.calls(c"cuLaunchKernel");
        let refused = bench(2).run(|run, ()| run.measure("work", || launch(cupti, 1))).err();
        assert_eq!(refused.map(|refused| refused.error.kind), Some(ErrorKind::OutputExists));
        assert_eq!(cupti.calls(c"cuLaunchKernel"), launched, "nothing ran");
        bench(2).overwrite(true).run(|run, ()| run.measure("work", || launch(cupti, 1)))?;
        assert_eq!(Report::open(&output)?.aggregate(0, "work", DURATION).map(|one| one.runs), Some(2));
        // Where nothing was launched, that is there.
        let nothing = bench(2).overwrite(true).run(|run, ()| run.measure("work", || ())).err();
        assert!(nothing.is_some_and(|nothing| nothing.error.to_string().contains("launched any kernel")));
        let read = Report::open(&output)?;
        assert!(read.samples().iter().all(|sample| sample.invalid_reason.as_deref() == Some("no_kernel")));
        // Where the files cannot be written, that is the error, and the report is in it.
        let failed = bench(2).overwrite(true).run(|run, ()| {
            run.measure("work", || launch(cupti, 1));
            let _gone_already_the_second_time = fs::remove_dir_all(&output);
        });
        let failed = failed.err().ok_or("nobody noticed")?;
        assert_eq!(failed.error.kind, ErrorKind::Io, "{failed}");
        assert_eq!(failed.report.aggregate(0, "work", DURATION).map(|one| one.told.n), Some(2));
        // A panic that goes on up leaves the launches.
        let panicking = || {
            let _never = bench(5).overwrite(true).warm_up(0).run(|run, ()| {
                run.measure("work", || launch(cupti, 1));
                assert!(run.number() < 2, "as it should");
            });
        };
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(panicking)).is_err());
        let dataset = Dataset::open(&output)?;
        assert!(dataset.is_complete());
        assert_eq!((dataset.rows(Table::Launches), dataset.rows(Table::Samples)), (3, 0));
        Ok(())
    })
}

#[test]
fn a_bench_that_is_killed_while_it_counts_leaves_its_launches() -> Outcome {
    let of = || Process::of(a_bench_that_is_killed_while_it_counts_leaves_its_launches);
    if is_inside() {
        return of().run(|| {
            let cupti = Simulated::get();
            let bench = Bench::new("killed").runs(3).progress(false).metrics([READ]).output(given("OUTPUT"));
            bench.run(|run, ()| {
                if run.purpose() == Purpose::Counting {
                    println!("counting");
                    loop {
                        std::thread::park(); // until it is killed
                    }
                }
                run.measure("work", || launch(cupti, 1));
            })?;
            Ok(())
        });
    }
    let folder = crate::process::folder()?;
    let output = folder.path().join("killed.cuprof");
    let mut child = of().with("OUTPUT", &output).start()?;
    let errors = read(child.stderr.take());
    let mut lines = BufReader::new(child.stdout.take().ok_or("no output")?).lines();
    let is_counting = lines.any(|line| line.is_ok_and(|line| line.ends_with("counting")));
    child.kill()?;
    child.wait()?;
    assert!(is_counting, "it ended by itself: {}", errors.recv()?);
    let dataset = Dataset::open(&output)?;
    assert!(!dataset.is_complete());
    let recovery = recover(&output)?;
    assert!(recovery.was_killed && recovery.damaged.is_empty(), "{recovery}");
    let dataset = Dataset::open(&output)?;
    assert_eq!((dataset.rows(Table::Launches), dataset.rows(Table::Ranges)), (3 + 2, 3));
    Ok(())
}

#[test]
fn what_makes_no_sense_is_refused_and_leaves_no_folder() -> Outcome {
    Process::of(what_makes_no_sense_is_refused_and_leaves_no_folder).run(|| {
        let cupti = Simulated::get();
        let folder = crate::process::folder()?;
        let output = folder.path().join("refused.cuprof");
        let refused = |bench: Bench<u32>| -> Result<String, Box<dyn std::error::Error>> {
            let bench = bench.progress(false).output(&output);
            let failed = bench.run(|run, _| run.measure("work", || launch(cupti, 1))).err();
            let BenchError { error, report, .. } = failed.ok_or("it was accepted")?;
            assert_eq!((error.kind, report.samples().len()), (ErrorKind::Config, 0), "{error}");
            assert!(!output.exists(), "{error}");
            Ok(error.to_string())
        };
        let bench = |configs: &[u32]| Bench::new("refused").configs(configs.to_vec());
        assert!(refused(bench(&[]))?.contains("no configurations"));
        assert!(refused(bench(&[1]).runs(0))?.contains("runs is 0"));
        assert!(refused(bench(&[1]).metrics([READ]).counter_runs(0))?.contains("counter_runs is 0"));
        assert!(refused(bench(&[1]).metrics(["no__such_metric.sum"]))?.contains("no__such_metric.sum"));
        // A name that only the preset brings.
        let derived = bench(&[1]).metrics(["headline"]).derive(READ, "byte", |_, _| 1.0);
        assert!(refused(derived)?.contains("is derived, and counted as well"));
        assert_eq!(cupti.calls(c"cuptiSubscribe"), 0, "nothing was started");
        Ok(())
    })
}

#[test]
fn serialised_kernels_are_measured_as_such() -> Outcome {
    Process::of(serialised_kernels_are_measured_as_such).with("SIM_MAY_SERIALIZE", "1").run(|| {
        let cupti = Simulated::get();
        let modes = |serialize: bool| -> Result<Vec<_>, Box<dyn std::error::Error>> {
            let bench = Bench::new("one by one").runs(3).serialize_kernels(serialize).progress(false);
            let report = bench.run(|run, ()| run.measure("work", || launch(cupti, 2)))?;
            Ok(report.samples().iter().filter_map(|sample| sample.launch_mode).collect())
        };
        assert!(modes(true)?.iter().all(|mode| *mode == LaunchMode::Serialized));
        assert!(modes(false)?.iter().all(|mode| *mode == LaunchMode::Stream));
        Ok(())
    })
}

#[test]
fn what_is_odd_is_measured_and_told() -> Outcome {
    let process = Process::of(what_is_odd_is_measured_and_told);
    process.with("CUPROF_NVML_PATH", libraries().join("libnvidia-ml.so.1")).run(|| {
        let cupti = Simulated::get();
        let folder = crate::process::folder()?;
        let output = folder.path().join("odd.cuprof");
        let bench =
            Bench::new("odd, \"quoted\"\nand broken").configs(["a,b", "c\"d\ne"]).parameters(["name"]);
        let bench = bench.runs(3).warm_up(0).progress(false).normalize_against("base").output(&output);
        // Runs take longer than all waiting for heat may.
        let budget = Duration::from_micros(500);
        let report = bench.thermal_budget(budget).run(|run, name| {
            let begun = Instant::now();
            // In one configuration only, and failing in the first run there.
            if *name == "a,b" {
                let _flagged = run.measure("base", || {
                    launch(cupti, 1);
                    if run.number() == 0 { Err("failed") } else { Ok(()) }
                });
            }
            run.measure("twice, \"a\"\nb", || launch(cupti, 1));
            run.measure("twice, \"a\"\nb", || launch(cupti, 2));
            run.measure("empty", || ());
            while begun.elapsed() < 2 * budget {
                std::hint::spin_loop();
            }
        })?;
        assert_eq!(launches(&report, 0, "twice, \"a\"\nb"), [1, 2, 1, 2, 1, 2]);
        assert!(launches(&report, 1, "base").is_empty());
        assert_eq!(launches(&report, 1, "empty"), [0; 3]);
        let reasons = |annotation: &str| -> Vec<_> {
            let its = report.samples().iter().filter(|sample| &*sample.annotation == annotation);
            let its = its.filter(|sample| &*sample.metric == DURATION && sample.kernel.is_none());
            its.map(|sample| sample.invalid_reason.as_deref()).collect()
        };
        assert_eq!(reasons("base"), [Some("failed: failed"), None, None]);
        assert_eq!(reasons("empty"), [Some("no_kernel"); 6]);
        let pairs = |config| {
            let twice = report.aggregate(config, "twice, \"a\"\nb", DURATION)?;
            twice.normalised.as_ref().map(|normalised| normalised.pairs)
        };
        assert_eq!((pairs(0), pairs(1)), (Some(2), None), "of the runs in which the baseline is valid");
        let warned = |what: &str| report.warnings().iter().any(|warning| warning.contains(what));
        assert!(
            warned("no valid \"base\" in configurations 1") && warned("samples are not valid"),
            "{report}"
        );
        // Names come out of the files as they went in.
        let read = Report::open(&output)?;
        assert_eq!((read.to_string(), read.compat_csv()), (report.to_string(), report.compat_csv()));
        assert_eq!(
            (read.samples().len(), read.config_text(1)),
            (report.samples().len(), report.config_text(1))
        );
        let ranges = Frame::read(&Dataset::open(&output)?, Table::Ranges, &["name"])?;
        let odd = ranges.rows().filter(|row| row.text("name") == Some("twice, \"a\"\nb")).count();
        assert_eq!(odd, 2 * 3 * 2);
        Ok(())
    })
}
