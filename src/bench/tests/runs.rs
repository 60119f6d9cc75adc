//! What is measured, in which order, and when it ends.

use std::cell::RefCell;
use std::time::Duration;

use arrow_array::cast::AsArray;

use super::super::builder::{BUSY, SPAN};
use super::super::rig::Gate;
use super::super::{Bench, BenchError, Config, DURATION, LaunchMode, Order, Purpose, Report, Scope, Value};
use super::{Gpu, TestOutcome, values};
use crate::control::RunConditions;
use crate::pattern::Pattern;
use crate::stats::{Precision, Random, StopReason, StopRule, Verdict, tick_ns};
use crate::table::reader::Dataset;
use crate::table::schema::Table;

#[test]
fn kernels_of_an_annotation_are_summed_up_and_listed_one_by_one() -> TestOutcome {
    let gpu = Gpu::default();
    let report = gpu.run(Bench::new("sum").runs(3), |run, ()| {
        gpu.launch("set_up", 50_000); // in no annotation
        run.measure("work", || {
            let start = gpu.now_ns();
            gpu.launch_at("a", start + 100, start + 1_100, None);
            gpu.launch_at("b", start + 600, start + 1_600, None); // overlaps
            gpu.launch_at("a", start + 2_600, start + 2_900, None); // after a gap
        });
    })?;
    assert_eq!(values(&report, 0, "work", DURATION), [Some(2_300.0); 3]);
    assert_eq!(values(&report, 0, "work", SPAN), [Some(2_800.0); 3]);
    assert_eq!(values(&report, 0, "work", BUSY), [Some(1_800.0); 3]);
    let kernels: Vec<_> = report.samples().iter().filter(|sample| sample.run == Some(0)).collect();
    let of = |name: &str| kernels.iter().find(|sample| sample.kernel.as_deref() == Some(name));
    assert_eq!(of("a").map(|sample| (sample.value, sample.launches)), Some((Some(1_300.0), 2)));
    assert_eq!(of("b").map(|sample| (sample.value, sample.launches)), Some((Some(1_000.0), 1)));
    assert!(of("set_up").is_none());
    // After two runs that warm up.
    let starts: Vec<_> = report.samples().iter().filter(|sample| &*sample.metric == SPAN).collect();
    let starts: Vec<_> = starts.iter().map(|sample| (sample.start_ns, sample.wall_ns)).collect();
    assert_eq!(starts, [2, 3, 4].map(|run| (run * 53_900, Some(53_900))));
    let told = &report.aggregate(0, "work", DURATION).ok_or("no aggregate")?.told;
    assert_eq!((told.n, told.median(), told.std_dev), (3, Some(2_300.0), Some(1.0 / 12_f64.sqrt())));
    assert!(report.warnings().is_empty(), "{:?}", report.warnings());
    Ok(())
}

#[test]
fn warm_up_runs_come_first_and_are_not_measured() -> TestOutcome {
    let gpu = Gpu::default();
    let purposes = RefCell::new(Vec::new());
    let report = gpu.run(Bench::new("warm").configs([1, 2]).warm_up(2).runs(1), |run, config| {
        purposes.borrow_mut().push((*config, run.purpose(), run.number()));
        run.measure("work", || gpu.launch("k", 1_000));
    })?;
    let of =
        |config| [(config, Purpose::WarmUp, 0), (config, Purpose::WarmUp, 1), (config, Purpose::Timing, 0)];
    assert_eq!(purposes.into_inner(), [of(1), of(2)].concat());
    assert_eq!(values(&report, 0, "work", DURATION).len(), 1);
    Ok(())
}

#[test]
fn after_a_pause_for_heat_it_warms_up_again() -> TestOutcome {
    let gpu = Gpu::default();
    let purposes = RefCell::new(Vec::new());
    let report = gpu.run(Bench::new("hot").warm_up(1).runs(3), |run, ()| {
        purposes.borrow_mut().push(run.purpose());
        if run.purpose() == Purpose::Timing && run.number() == 0 {
            gpu.is_hot();
        }
        run.measure("work", || gpu.launch("k", 1_000));
    })?;
    let [warm, timed] = [Purpose::WarmUp, Purpose::Timing];
    assert_eq!(purposes.into_inner(), [warm, timed, warm, timed, timed]);
    assert_eq!(values(&report, 0, "work", DURATION).len(), 3);
    Ok(())
}

#[test]
fn configurations_may_launch_different_kernels_in_different_numbers() -> TestOutcome {
    let gpu = Gpu::default();
    let report = gpu.run(Bench::new("numbers").configs([1_i64, 2, 3]).runs(2), |run, launches| {
        run.measure("work", || (0..*launches).for_each(|i| gpu.launch(&format!("k{i}"), 100 * launches)));
    })?;
    for (config, expected) in [100.0, 400.0, 900.0].into_iter().enumerate() {
        assert_eq!(values(&report, config, "work", DURATION), [Some(expected); 2]);
    }
    assert!(report.warnings().is_empty());
    Ok(())
}

#[test]
fn parameters_have_the_names_of_their_fields_or_those_that_are_given() -> TestOutcome {
    struct Gemm {
        n: usize,
        half: bool,
    }
    crate::config_columns!(Gemm { n, half });
    let gpu = Gpu::default();
    let configs = [Gemm { n: 512, half: true }, Gemm { n: 512, half: false }];
    let work = || gpu.launch("k", 1_000);
    let report = gpu.run(Bench::new("struct").configs(configs).runs(1), |run, gemm| {
        assert_eq!(gemm.n, 512);
        run.measure("gemm", work);
    })?;
    assert_eq!(report.config_text(0), "n=512, half=true");
    let named = Bench::new("tuple").configs([(1.5_f64, "x")]).parameters(["ratio", "name"]).runs(1);
    assert_eq!(gpu.run(named, |run, _| run.measure("gemm", work))?.config_text(0), "ratio=1.5, name=x");
    let unnamed = Bench::new("tuple").configs([(1_u8, true)]).runs(1);
    assert_eq!(
        gpu.run(unnamed, |run, _| run.measure("gemm", work))?.config_text(0),
        "config_0=1, config_1=true"
    );
    assert_eq!(gpu.run(Bench::new("none").runs(1), |run, ()| run.measure("gemm", work))?.config_text(0), "");
    assert_eq!(u64::MAX.parameters()[0].1, Value::Real(u64::MAX as f64));
    Ok(())
}

/// The configurations in the order in which their timed runs were made.
fn order_of(bench: Bench<usize>) -> Result<Vec<usize>, Box<dyn std::error::Error>> {
    let gpu = Gpu::default();
    let order = RefCell::new(Vec::new());
    gpu.run(bench, |run, config| {
        if run.purpose() == Purpose::Timing {
            order.borrow_mut().push(*config);
        }
        run.measure("work", || gpu.launch("k", 1_000));
    })?;
    Ok(order.into_inner())
}

#[test]
fn runs_come_in_the_order_that_was_asked_for() -> TestOutcome {
    let bench = |order| Bench::new("order").configs([0_usize, 1, 2]).runs(4).order(order);
    assert_eq!(order_of(bench(Order::Sequential))?, [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2]);
    let shuffled = order_of(bench(Order::Shuffled(7)))?;
    assert_eq!(shuffled, order_of(bench(Order::Shuffled(7)))?, "the seed decides");
    assert_ne!(shuffled, order_of(bench(Order::Shuffled(8)))?);
    for round in shuffled.chunks(3) {
        let mut round = round.to_vec();
        round.sort_unstable();
        assert_eq!(round, [0, 1, 2], "each once in a round");
    }
    let blocks = order_of(bench(Order::Interleaved { block: 2, seed: 1 }))?;
    assert!(blocks.chunks(2).all(|block| block[0] == block[1]), "{blocks:?}");
    assert!((0..3).all(|config| blocks.iter().filter(|made| **made == config).count() == 4));
    Ok(())
}

#[test]
fn values_far_from_the_bulk_are_flagged_and_kept() -> TestOutcome {
    let gpu = Gpu::default();
    let report = gpu.run(Bench::new("outliers").warm_up(0).runs(21), |run, ()| {
        let long = if run.number() == 10 { 9_000 } else { 0 };
        run.measure("work", || gpu.launch("k", 1_000 + 32 * (run.number() as i64 % 3) + long));
    })?;
    let whole = report.samples().iter().filter(|s| &*s.metric == DURATION && s.kernel.is_none());
    let flagged: Vec<_> = whole.filter_map(|s| Some((s.run?, s.outlier?.as_str(), s.valid))).collect();
    assert_eq!(flagged, [(10, "high_severe", true)]);
    let told = report.aggregate(0, "work", DURATION).map(|a| (a.told.n, a.told.outliers.high_severe));
    assert_eq!(told, Some((21, 1)));
    Ok(())
}

#[test]
fn a_drift_is_told() -> TestOutcome {
    let gpu = Gpu::default();
    let report = gpu.run(Bench::new("drift").warm_up(0).runs(60), |run, ()| {
        run.measure("work", || gpu.launch("k", 100_000 + 500 * run.number() as i64));
    })?;
    let told =
        |report: &Report| report.warnings().iter().any(|warning| warning.contains("over the last half"));
    assert!(told(&report), "{:?}", report.warnings());
    let steady = gpu.run(Bench::new("steady").warm_up(0).runs(60), |run, ()| {
        run.measure("work", || gpu.launch("k", 100_000 + 32 * (run.number() as i64 * 7 % 5)));
    })?;
    assert!(!told(&steady), "{:?}", steady.warnings());
    Ok(())
}

#[test]
fn what_is_stable_can_be_set_and_why_it_stopped_is_printed() -> TestOutcome {
    let gpu = Gpu::default();
    let measure = |bench: Bench| {
        gpu.run(bench.warm_up(0), |run, ()| {
            run.measure("work", || gpu.launch("k", 100_000 + 1_000 * (run.number() as i64 * 7 % 5)));
        })
    };
    let stable = |report: &Report| -> Result<bool, Box<dyn std::error::Error>> {
        let folder = tempfile::tempdir()?;
        report.write(folder.path().join("b.cuprof"))?;
        let batches = Dataset::open(folder.path().join("b.cuprof"))?.read(Table::Aggregates)?;
        Ok(batches[0].column_by_name("stable").ok_or("no column")?.as_boolean().value(0))
    };
    // Its standard deviation is 1.4 % of the mean.
    let plain = measure(Bench::new("plain").runs(20))?;
    assert!(stable(&plain)?);
    assert!(!plain.to_string().contains("stopped"), "{plain}");
    let strict = measure(Bench::new("strict").precision(0.05).stable_below(0.01))?;
    assert!(!stable(&strict)?);
    assert!(strict.to_string().contains("stopped"), "{strict}");
    Ok(())
}

#[test]
fn a_span_is_valid_only_where_the_gate_held() -> TestOutcome {
    let gpu = Gpu::default();
    let waits = Gate::Broken("cuStreamSynchronize may wait for the work that was queued".to_owned());
    gpu.gates(vec![Gate::Held, waits, Gate::None]);
    let bench = Bench::new("ahead").warm_up(0).runs(3).derive("span", "ns", |m, ()| m.span_ns());
    let report = gpu.run(bench, |run, ()| {
        run.measure("outer", || {
            gpu.launch("a", 1_000);
            run.measure("inner", || gpu.launch("b", 500));
        });
    })?;
    let of = |annotation: &str, metric: &str| values(&report, 0, annotation, metric);
    assert_eq!(of("outer", SPAN), [Some(2_500.0), None, Some(2_500.0)]);
    assert_eq!(of("inner", SPAN), [Some(500.0), None, Some(500.0)], "what is inside is behind the same gate");
    assert_eq!(of("outer", "span"), [Some(2_500.0), None, Some(2_500.0)]);
    assert_eq!(of("outer", DURATION), [Some(1_500.0); 3], "the kernels took as long as they took");
    let spans = report.samples().iter().filter(|s| &*s.metric == SPAN && &*s.annotation == "outer");
    let told: Vec<_> =
        spans.map(|s| (s.launch_mode.map(LaunchMode::as_str), s.invalid_reason.as_deref())).collect();
    let reason = "queue_broken: cuStreamSynchronize may wait for the work that was queued";
    assert_eq!(told, [(Some("blocked"), None), (Some("stream"), Some(reason)), (Some("stream"), None)]);
    let warned = report.warnings().iter().any(|warning| warning.contains("not held back 2 times"));
    assert!(warned, "{:?}", report.warnings());
    Ok(())
}

#[test]
fn runs_of_the_same_round_have_the_same_number_of_it() -> TestOutcome {
    let blocks = |order| -> Result<Vec<Vec<Option<usize>>>, BenchError> {
        let gpu = Gpu::default();
        let bench = Bench::new("blocks").configs([0_usize, 1]).warm_up(0).runs(4).order(order);
        let report = gpu.run(bench, |run, _| run.measure("work", || gpu.launch("k", 1_000)))?;
        let of = |config: usize| {
            let samples = report.samples().iter().filter(|s| s.config_index == config && s.kernel.is_none());
            samples.filter(|s| &*s.metric == DURATION).map(|s| s.block).collect()
        };
        Ok(vec![of(0), of(1)])
    };
    let both = |rounds: [usize; 4]| vec![rounds.map(Some).to_vec(); 2];
    assert_eq!(blocks(Order::Sequential)?, both([0; 4]));
    assert_eq!(blocks(Order::Shuffled(3))?, both([0, 1, 2, 3]));
    assert_eq!(blocks(Order::Interleaved { block: 2, seed: 3 })?, both([0, 0, 1, 1]));
    Ok(())
}

#[test]
fn the_cache_is_brought_into_its_state_before_each_outermost_annotation() -> TestOutcome {
    let gpu = Gpu::default();
    let report = gpu.run(Bench::new("cache").warm_up(0).runs(1), |run, ()| {
        run.measure("outer", || {
            gpu.launch("o", 1_000);
            run.measure("inner", || gpu.launch("i", 500));
        });
        run.measure("next", || gpu.launch("n", 200));
    })?;
    let calls = gpu.log();
    let expected = [
        "start",
        "before_run",
        "before_region",
        "open outer",
        "open inner",
        "before_region",
        "open next",
        "after_run",
        "stop",
    ];
    assert_eq!(calls, expected);
    // The outer one has the inner one's kernels as well.
    assert_eq!(values(&report, 0, "outer", DURATION), [Some(1_500.0)]);
    assert_eq!(values(&report, 0, "inner", DURATION), [Some(500.0)]);
    Ok(())
}

#[test]
fn an_annotation_that_is_used_twice_in_a_run_gives_two_samples() -> TestOutcome {
    let gpu = Gpu::default();
    let report = gpu.run(Bench::new("twice").runs(2).normalize_against("base"), |run, ()| {
        run.measure("base", || gpu.launch("b", 1_000));
        run.measure("step", || gpu.launch("s", 2_000));
        run.measure("base", || gpu.launch("b", 500));
        run.measure("step", || gpu.launch("s", 1_000));
    })?;
    assert_eq!(
        values(&report, 0, "step", DURATION),
        [Some(2_000.0), Some(1_000.0), Some(2_000.0), Some(1_000.0)]
    );
    let normalised = report.aggregate(0, "step", DURATION).and_then(|aggregate| aggregate.normalised.clone());
    let normalised = normalised.ok_or("not normalised")?;
    // Each use with its own.
    assert_eq!(normalised.pairs, 4);
    assert!((normalised.ratio - 2.0).abs() < 1e-12);
    Ok(())
}

#[test]
fn a_ratio_has_an_interval_from_pairs_of_the_same_run() -> TestOutcome {
    let gpu = Gpu::default();
    let mut random = Random::new(1);
    let report = gpu.run(Bench::new("ratio").runs(20).normalize_against("fp32"), |run, ()| {
        // The machine's own changes are in both.
        let machine = 1.0 + 0.1 * random.unit();
        let mut ns = |base: f64| (base * machine * (1.0 + 0.002 * random.unit())) as i64;
        run.measure("fp32", || gpu.launch("a", ns(100_000.0)));
        run.measure("fp16", || gpu.launch("b", ns(50_000.0)));
    })?;
    let normalised = report.aggregate(0, "fp16", DURATION).and_then(|aggregate| aggregate.normalised.clone());
    let normalised = normalised.ok_or("not normalised")?;
    let interval = normalised.interval.ok_or("no interval")?;
    assert!(interval.contains(normalised.ratio) && (normalised.ratio - 0.5).abs() < 0.001, "{normalised:?}");
    assert!(interval.half_width() < 0.001, "far less than the machine's own 10 %: {interval:?}");
    assert_eq!(normalised.comparison.verdict(0.01), Verdict::Faster);
    assert!(report.to_string().contains("FASTER"), "{report}");
    let own = report.aggregate(0, "fp32", DURATION).and_then(|aggregate| aggregate.normalised.clone());
    assert_eq!(own.map(|own| own.ratio), Some(1.0));
    Ok(())
}

#[test]
fn kernels_are_selected_and_ignored_by_name_glob_or_regex() -> TestOutcome {
    let gpu = Gpu::default();
    let work = || {
        gpu.launch("fill(float*)", 10_000);
        gpu.launch("gemm<float>(Params)", 3_000);
        gpu.launch("gemm_tail", 400);
    };
    let sum = |bench: Bench| -> Result<Option<f64>, Box<dyn std::error::Error>> {
        Ok(values(&gpu.run(bench.runs(1), |run, ()| run.measure("work", work))?, 0, "work", DURATION)[0])
    };
    assert_eq!(sum(Bench::new("all"))?, Some(13_400.0));
    assert_eq!(sum(Bench::new("ignored").ignore_kernels(Pattern::name("fill")))?, Some(3_400.0));
    assert_eq!(sum(Bench::new("only").only_kernels(Pattern::glob("gemm<*>(*)")?))?, Some(3_000.0));
    assert_eq!(sum(Bench::new("regex").only_kernels(Pattern::regex("^gemm_?t")?))?, Some(400.0));
    assert_eq!(sum(Bench::new("none").only_kernels(Pattern::name("gemm")))?, None);
    Ok(())
}

#[test]
fn what_is_derived_is_computed_for_each_valid_sample() -> TestOutcome {
    let gpu = Gpu::default();
    let bench = Bench::new("derived").configs([1_000_usize]).runs(2);
    let bench = bench.derive("rate", "1/ns", |m, n| *n as f64 / m.duration_ns());
    let bench = bench.derive("odd", "", |m, _| (m.launches() > 1).then_some(1.0));
    let report = gpu.run(bench, |run, _| run.measure("work", || gpu.launch("k", 500)))?;
    assert_eq!(values(&report, 0, "work", "rate"), [Some(2.0); 2]);
    assert_eq!(values(&report, 0, "work", "odd"), [None; 2]);
    assert_eq!(report.aggregate(0, "work", "rate").map(|rate| &*rate.unit), Some("1/ns"));
    Ok(())
}

#[test]
fn collectors_are_called_for_what_they_are_for() -> TestOutcome {
    let gpu = Gpu::default();
    let calls = std::rc::Rc::new(RefCell::new(Vec::new()));
    let mut bench = Bench::new("collect").configs([10, 20]).runs(2).warm_up(1);
    for (name, scope) in [
        ("once", Scope::Once),
        ("configuration", Scope::Configuration),
        ("run", Scope::Run),
        ("annotation", Scope::Annotation),
    ] {
        let calls = std::rc::Rc::clone(&calls);
        bench = bench.collect(name, scope, move |at| {
            calls.borrow_mut().push((name, at.config.copied(), at.run, at.annotation.map(str::to_owned)));
            Ok(Value::Int(1))
        });
    }
    gpu.run(bench, |run, _| run.measure("work", || gpu.launch("k", 1_000)))?;
    let calls = calls.borrow();
    let of = |name| calls.iter().filter(|call| call.0 == name).cloned().collect::<Vec<_>>();
    assert_eq!(of("once"), [("once", None, None, None)]);
    assert_eq!(of("configuration"), [10, 20].map(|config| ("configuration", Some(config), None, None)));
    assert_eq!(of("run").len(), 4);
    let annotation = || Some("work".to_owned());
    assert_eq!(of("annotation")[3], ("annotation", Some(20), Some(1), annotation()));
    assert_eq!(calls[1].0, "configuration");
    Ok(())
}

#[test]
fn a_steady_kernel_is_measured_until_it_is_known_and_no_longer() -> TestOutcome {
    let gpu = Gpu::default();
    let mut random = Random::new(2);
    let report = gpu.run(Bench::new("precise").precision(0.01), |run, ()| {
        run.measure("work", || gpu.launch("k", 100_000 + random.below(1_000) as i64));
    })?;
    let aggregate = report.aggregate(0, "work", DURATION).ok_or("none")?;
    assert_eq!((aggregate.runs, aggregate.stop_reason), (20, Some(StopReason::PrecisionReached)));
    assert!(aggregate.achieved.is_some_and(|achieved| achieved <= 0.01));
    // Rows are asked for at looks only.
    assert_eq!(gpu.log().iter().filter(|call| *call == "collect").count(), 1);
    Ok(())
}

#[test]
fn a_noisy_kernel_ends_at_a_limit_that_is_named() -> TestOutcome {
    let gpu = Gpu::default();
    let mut random = Random::new(3);
    let rule = Precision { target: 0.001, max_runs: 5_120, max_time: Duration::from_secs(3_600) };
    let report = gpu.run(Bench::new("noisy").stop_rule(StopRule::Precision(rule)), |run, ()| {
        run.measure("work", || gpu.launch("k", 50_000 + random.below(50_000) as i64));
    })?;
    let aggregate = report.aggregate(0, "work", DURATION).ok_or("none")?;
    assert_eq!((aggregate.runs, aggregate.stop_reason), (20, Some(StopReason::OutOfReach)));
    let rule = Precision { max_time: Duration::from_millis(1), ..rule };
    let report = gpu.run(Bench::new("short").stop_rule(StopRule::Precision(rule)), |run, ()| {
        run.measure("work", || gpu.launch("k", 99_000));
    })?;
    let aggregate = report.aggregate(0, "work", DURATION).ok_or("none")?;
    assert_eq!((aggregate.runs, aggregate.stop_reason), (10, Some(StopReason::MaxTime)));
    Ok(())
}

#[test]
fn several_uses_in_a_run_do_not_step_over_the_looks() -> TestOutcome {
    let gpu = Gpu::default();
    let report = gpu.run(Bench::new("three").precision(0.01), |run, ()| {
        for _ in 0..3 {
            run.measure("work", || gpu.launch("k", 100_000));
        }
    })?;
    let aggregate = report.aggregate(0, "work", DURATION).ok_or("none")?;
    assert_eq!((aggregate.runs, aggregate.stop_reason), (21, Some(StopReason::PrecisionReached)));
    Ok(())
}

#[test]
fn a_time_budget_is_spent_and_makes_one_run_at_least() -> TestOutcome {
    let gpu = Gpu::default();
    let bench = Bench::new("budget").time_budget(Duration::from_micros(100));
    let report = gpu.run(bench, |run, ()| run.measure("work", || gpu.launch("k", 30_000)))?;
    let aggregate = report.aggregate(0, "work", DURATION).ok_or("none")?;
    assert_eq!((aggregate.runs, aggregate.stop_reason), (4, Some(StopReason::MaxTime)));
    Ok(())
}

#[test]
fn runs_have_the_conditions_around_them_and_throttling_is_told() -> TestOutcome {
    let gpu = Gpu::default();
    let hot =
        RunConditions { sm_clock_mhz: Some(1_200), power_throttled_ns: Some(5), ..RunConditions::default() };
    gpu.has(hot);
    let report =
        gpu.run(Bench::new("hot").runs(3), |run, ()| run.measure("work", || gpu.launch("k", 1_000)))?;
    assert!(report.samples().iter().all(|sample| sample.conditions == Some(hot)));
    assert!(
        report.warnings().iter().any(|warning| warning.contains("slowed down by power or heat in 3 of 3"))
    );
    Ok(())
}

#[test]
fn the_tick_is_found_in_the_durations() {
    let ticked: Vec<i64> = (0..40).map(|i| 3_200 + (i % 7) * 32 + i % 3 - 1).collect();
    assert_eq!(tick_ns(&ticked), 32.0);
    let odd: Vec<i64> = (0..40).map(|i| 3_001 + i * 37).collect();
    assert_eq!(tick_ns(&odd), 1.0);
    assert_eq!(tick_ns(&ticked[..19]), 1.0);
    // What CUPTI makes of the same clock for kernels of 28 ms, on an H200.
    let long = (0..20).map(|i| 28_554_356 + i * 759);
    let both: Vec<i64> = ticked.iter().copied().chain(long.clone()).collect();
    assert_eq!(tick_ns(&both), 32.0);
    assert_eq!(tick_ns(&long.collect::<Vec<_>>()), 1.0);
}
