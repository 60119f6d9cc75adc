//! Kernels measured over configurations and runs on a real GPU. Prints a line of JSON for each result.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use cuprof::bench::{DURATION, LaunchMode, Purpose, Report};
use cuprof::stats::{Comparison, DEFAULT_MARGIN, Direction, Sample, Verdict, paired};
use cuprof::{Bench, Cache, Dataset, L2Control, Stream, Table};
use cuprof_workload::cudarc::driver::CudaStream;
use cuprof_workload::{Graph, Known, Victims};

use crate::Outcome;
use crate::session::{gpu, turn};

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

fn raw(stream: &CudaStream) -> Stream {
    // SAFETY: the handle is that of a stream that outlives its uses here, of the only context.
    #[expect(unsafe_code, reason = "names a stream by its handle")]
    unsafe {
        Stream::from_raw(stream.cu_stream().cast())
    }
}

/// The median duration of the only annotation in a configuration, in nanoseconds.
fn median_ns(report: &Report, config: usize) -> Result<f64, Box<dyn std::error::Error>> {
    let aggregate = report.aggregate(config, "read", DURATION).ok_or("no aggregate")?;
    Ok(aggregate.told.median().ok_or("no valid run")?)
}

/// A JSON number, or null.
fn json(value: Option<f64>) -> String {
    value.map_or("null".to_owned(), |value| format!("{value:?}"))
}

#[test]
#[ignore = "needs a GPU"]
fn a_cold_cache_is_slower_than_a_warm_one_and_the_report_says_by_how_much() -> Outcome {
    let _turn = turn();
    let gpu = gpu()?;
    let stream = gpu.stream()?;
    let sizes = [64 * KIB, 256 * KIB, MIB, 4 * MIB, 8 * MIB, 16 * MIB, 32 * MIB, 64 * MIB];
    let victims = sizes.iter().map(|bytes| Victims::new(&gpu, &stream, *bytes).map(RefCell::new));
    let victims = victims.collect::<Result<Vec<_>, _>>()?;
    let measure = |bench: Bench| -> Result<Report, Box<dyn std::error::Error>> {
        let bench = bench.configs(0..sizes.len()).parameters(["size"]).warm_up(5).runs(40);
        Ok(bench.run(|run, size| {
            let mut victims = victims[*size].borrow_mut();
            run.measure("read", || victims.read(&stream))
        })?)
    };
    let warm = measure(Bench::new("warm").cache(Cache::Keep))?;
    let cold = measure(Bench::new("cold"))?;
    let queued = measure(Bench::new("queued").stream(raw(&stream)))?;
    for (size, bytes) in sizes.iter().enumerate() {
        let told = |report: &Report| -> Result<String, Box<dyn std::error::Error>> {
            let told = &report.aggregate(size, "read", DURATION).ok_or("none")?.told;
            let interval =
                told.median_interval.map_or("null".to_owned(), |i| format!("[{:?},{:?}]", i.low, i.high));
            let (median, cv) = (json(told.median()), json(told.robust_cv));
            Ok(format!(
                r#"{{"median_ns":{median},"interval_ns":{interval},"robust_cv":{cv},"n":{}}}"#,
                told.n
            ))
        };
        println!(
            r#"{{"test":"bench_read","gpu":"{}","bytes":{bytes},"warm":{},"cold":{},"cold_queued":{}}}"#,
            gpu.describe(),
            told(&warm)?,
            told(&cold)?,
            told(&queued)?
        );
        if (MIB..=16 * MIB).contains(bytes) {
            assert!(median_ns(&cold, size)? > median_ns(&warm, size)?, "{bytes} bytes");
            assert!(
                median_ns(&queued, size)? > median_ns(&warm, size)?,
                "{bytes} bytes, flushed in the stream"
            );
        }
    }
    for report in [&warm, &cold, &queued] {
        assert!(report.losses().is_empty(), "{report}");
        assert!(report.samples().iter().all(|sample| sample.valid), "{report}");
        let sums = |config: usize| {
            let of_run = |kernel: bool| {
                let samples = report.samples().iter();
                let samples = samples.filter(|s| s.config_index == config && &*s.metric == DURATION);
                samples.filter(|s| s.kernel.is_some() == kernel).filter_map(|s| s.value).sum::<f64>()
            };
            (of_run(false), of_run(true))
        };
        assert!((0..sizes.len()).all(|config| sums(config).0 == sums(config).1), "kernels do not add up");
    }
    let fact = |key: &str| cold.facts().iter().find(|(name, _)| name == key).map(|(_, value)| value.clone());
    println!("{cold}");
    println!(r#"{{"test":"bench_facts","tick_ns":"{}"}}"#, fact("bench.tick_ns").ok_or("no tick")?);
    Ok(())
}

/// How long the timed runs took, from the first one's beginning to the last one's end.
fn wall_of(
    bench: Bench,
    runs: usize,
    mut work: impl FnMut() -> Result<(), String>,
) -> Result<Duration, Box<dyn std::error::Error>> {
    let mut first = None;
    let mut last = None;
    bench.runs(runs).warm_up(10).progress(false).run(|run, ()| {
        if run.purpose() == Purpose::Timing {
            first.get_or_insert_with(Instant::now);
        }
        let result = run.measure("spin", &mut work);
        last = Some(Instant::now());
        result
    })?;
    Ok(last.ok_or("no run")? - first.ok_or("no run")?)
}

#[test]
#[ignore = "needs a GPU"]
fn a_hundred_cold_runs_of_a_short_kernel_take_no_longer_than_they_must() -> Outcome {
    const RUNS: usize = 100;
    const KERNEL_NS: u64 = 10_000;
    const REPETITIONS: usize = 9;
    let _turn = turn();
    let gpu = gpu()?;
    let stream = gpu.stream()?;
    let mut buffer = gpu.spin_buffer(&stream)?;
    gpu.synchronize()?;
    let mut spin = || gpu.spin(&stream, KERNEL_NS, &mut buffer);
    let (mut walls, mut bares) = (Vec::new(), Vec::new());
    for _ in 0..REPETITIONS {
        let wall = wall_of(Bench::new("hundred"), RUNS, &mut spin)?;
        // The same by hand: the flush, the kernel, and the wait for it.
        let mut l2 = L2Control::new(Cache::Flush)?;
        let mut by_hand = |runs: usize| -> Result<Duration, Box<dyn std::error::Error>> {
            let began = Instant::now();
            for _ in 0..runs {
                l2.apply()?;
                spin()?;
                gpu.synchronize()?;
            }
            Ok(began.elapsed())
        };
        by_hand(10)?;
        let bare = by_hand(RUNS)?;
        walls.push(wall);
        bares.push(bare);
        println!(
            r#"{{"test":"bench_overhead","gpu":"{}","runs":{RUNS},"kernel_ns":{KERNEL_NS},"wall_us":{},"by_hand_us":{},"overhead_us_per_run":{:.2}}}"#,
            gpu.describe(),
            wall.as_micros(),
            bare.as_micros(),
            (wall.as_secs_f64() - bare.as_secs_f64()) * 1e6 / RUNS as f64
        );
    }
    walls.sort_unstable();
    bares.sort_unstable();
    assert!(walls[REPETITIONS / 2] <= Duration::from_millis(30), "100 runs take {walls:?}");
    // This machine waits in two ways, 48 us a run apart, for either loop and for whole repetitions: the least of each.
    let overhead_us = (walls[0].as_secs_f64() - bares[0].as_secs_f64()) * 1e6 / RUNS as f64;
    assert!(
        overhead_us <= 20.0,
        "a run has {overhead_us} us beside the flush and the kernel: {walls:?}, {bares:?}"
    );
    Ok(())
}

#[test]
#[ignore = "needs a GPU"]
fn serialised_kernels_take_what_they_take_untraced() -> Outcome {
    const RUNS: usize = 60;
    const WARM_UP: usize = 5;
    let _turn = turn();
    let gpu = gpu()?;
    let stream = gpu.stream()?;
    let victims = RefCell::new(Victims::new(&gpu, &stream, 16 * MIB)?);
    // What the kernel's blocks see of the GPU's own timer.
    let read = || -> Result<f64, String> {
        victims.borrow_mut().read_stamped(&stream)?;
        Ok(victims.borrow().stamps(&stream)?.span_ns as f64)
    };
    let median = |spans: &[f64]| -> Result<f64, Box<dyn std::error::Error>> {
        Ok(Sample::new(&spans[WARM_UP..])?.median().ok_or("no runs")?)
    };
    let untraced = median(&(0..WARM_UP + RUNS).map(|_| read()).collect::<Result<Vec<_>, _>>()?)?;
    let traced = |serialize: bool| -> Result<(f64, f64), Box<dyn std::error::Error>> {
        let spans = RefCell::new(Vec::new());
        let bench = Bench::new("read").cache(Cache::Keep).warm_up(WARM_UP).runs(RUNS);
        let report = bench.serialize_kernels(serialize).run(|run, ()| -> Result<(), String> {
            spans.borrow_mut().push(run.measure("read", read)?);
            Ok(())
        })?;
        Ok((median(&spans.borrow())?, median_ns(&report, 0)?))
    };
    let (serialized, serialized_record) = traced(true)?;
    let (concurrent, concurrent_record) = traced(false)?;
    println!(
        r#"{{"test":"bench_serialized","gpu":"{}","bytes":{},"blocks_ns":{{"untraced":{untraced},"serialized":{serialized},"concurrent":{concurrent}}},"recorded_ns":{{"serialized":{serialized_record},"concurrent":{concurrent_record}}}}}"#,
        gpu.describe(),
        16 * MIB,
    );
    let change = (serialized - untraced) / untraced;
    assert!(change.abs() <= 0.03, "serialised, its blocks take {serialized} ns, and {untraced} ns untraced");
    assert!(serialized_record > serialized && concurrent_record > concurrent);
    Ok(())
}

/// Pairs of blocks of two sides that are measured in turns, and runs of a block.
const BLOCKS: usize = 8;
const BLOCK: usize = 25;

/// The annotations `a` and `b` of a configuration, by pairs of blocks.
fn compared(report: &Report, config: usize) -> Result<Comparison, Box<dyn std::error::Error>> {
    let blocks = |side: &str| -> Result<Vec<f64>, Box<dyn std::error::Error>> {
        let samples = report.samples().iter().filter(|sample| {
            sample.config_index == config && &*sample.annotation == side && &*sample.metric == DURATION
        });
        let values: Vec<f64> = samples.filter(|s| s.kernel.is_none()).filter_map(|s| s.value).collect();
        assert_eq!(values.len(), BLOCKS * BLOCK);
        let fenced = values.chunks(BLOCK).map(|block| Some(Sample::new(block).ok()?.fenced_mean(32.0)?.mean));
        Ok(fenced.collect::<Option<Vec<f64>>>().ok_or("an empty block")?)
    };
    let pairs: Vec<(f64, f64)> = blocks("a")?.into_iter().zip(blocks("b")?).collect();
    Ok(paired(&pairs)?)
}

#[test]
#[ignore = "needs a GPU"]
fn a_kernel_that_is_one_per_cent_slower_is_nearly_always_found_to_be() -> Outcome {
    const KERNELS: u32 = 40;
    let _turn = turn();
    let gpu = gpu()?;
    let stream = gpu.stream()?;
    let known = Known::new(&gpu)?;
    let mut to = gpu.zeros(&stream, 1)?;
    // Some 20 to 300 us; a hundredth of the rounds more is a hundredth of the time.
    let bench = Bench::new("slower").configs(3..3 + KERNELS).parameters(["hundreds_of_rounds"]);
    let bench = bench.cache(Cache::Keep).warm_up(5).runs(BLOCKS * BLOCK).progress(false);
    let report = bench.run(|run, hundreds| {
        let mut side = |name: &str, rounds: u32| {
            run.measure(name, || known.fma_chain(&stream, &mut to, 132, rounds * hundreds).map(drop))
        };
        // A B, B A, A B, …
        if run.number() % 2 == 0 {
            side("a", 100)?;
            side("b", 101)
        } else {
            side("b", 101)?;
            side("a", 100)
        }
    })?;
    let (mut found, mut wrong, mut changes) = (0, 0, Vec::new());
    for config in 0..KERNELS as usize {
        let comparison = compared(&report, config)?;
        found += usize::from(comparison.direction() == Direction::Slower);
        wrong += usize::from(comparison.direction() == Direction::Faster);
        changes.push(comparison.log_ratio.exp() - 1.0);
    }
    changes.sort_unstable_by(f64::total_cmp);
    println!(
        r#"{{"test":"bench_slower","gpu":"{}","kernels":{KERNELS},"pairs":{BLOCKS},"runs_a_side":{},"found":{found},"wrong":{wrong},"median_change":{:?},"least_change":{:?}}}"#,
        gpu.describe(),
        BLOCKS * BLOCK,
        changes[changes.len() / 2],
        changes[0],
    );
    assert!(found * 20 >= KERNELS as usize * 19 && wrong == 0, "{found} of {KERNELS} found, {wrong} wrong");
    Ok(())
}

#[test]
#[ignore = "needs a GPU"]
fn the_same_kernel_twice_is_hardly_ever_faster_or_slower_than_itself() -> Outcome {
    const KERNELS: usize = 50;
    let _turn = turn();
    let gpu = gpu()?;
    let stream = gpu.stream()?;
    let victims = (0..KERNELS).map(|i| Victims::new(&gpu, &stream, (i + 1) * 256 * KIB).map(RefCell::new));
    let victims = victims.collect::<Result<Vec<_>, _>>()?;
    let bench = Bench::new("aa").configs(0..KERNELS).parameters(["kernel"]).warm_up(5).runs(BLOCKS * BLOCK);
    let report = bench.run(|run, kernel| {
        let mut victims = victims[*kernel].borrow_mut();
        let mut side = |name: &str| run.measure(name, || victims.read(&stream));
        // A B, B A, A B, …
        let [first, second] = if run.number() % 2 == 0 { ["a", "b"] } else { ["b", "a"] };
        side(first)?;
        side(second)
    })?;
    assert!(report.losses().is_empty(), "{:?}", report.losses());
    let (mut alarms, mut directions, mut half_widths) = (0, 0, Vec::new());
    for kernel in 0..KERNELS {
        let comparison = compared(&report, kernel)?;
        let verdict = comparison.verdict(DEFAULT_MARGIN);
        alarms += usize::from(matches!(verdict, Verdict::Slower | Verdict::Faster));
        directions += usize::from(comparison.direction() != Direction::Unknown);
        half_widths.extend(comparison.change_interval().map(|interval| interval.half_width()));
    }
    half_widths.sort_unstable_by(f64::total_cmp);
    println!(
        r#"{{"test":"bench_aa","gpu":"{}","kernels":{KERNELS},"pairs":{BLOCKS},"runs_a_side":{},"alarms":{alarms},"direction_alarms":{directions},"median_half_width":{:?}}}"#,
        gpu.describe(),
        BLOCKS * BLOCK,
        half_widths[half_widths.len() / 2]
    );
    assert!(
        alarms * 20 <= KERNELS,
        "{alarms} of {KERNELS} comparisons of a kernel with itself gave a verdict"
    );
    Ok(())
}

#[test]
#[ignore = "needs a GPU"]
fn graphs_and_other_threads_belong_to_the_annotation_that_they_were_launched_in() -> Outcome {
    let _turn = turn();
    let gpu = gpu()?;
    let stream = gpu.stream()?;
    let graph = Graph::of_kernels(&gpu, 7)?;
    let report = Bench::new("launches").runs(5).cache(Cache::Keep).run(|run, ()| -> Result<(), String> {
        gpu.empty(&stream)?; // set-up
        run.measure("graph", || graph.launch(&stream))?;
        run.measure("threads", || {
            let range = cuprof::range!("work");
            let handle = range.handle();
            std::thread::scope(|scope| {
                let launch = || {
                    let _entered = handle.enter();
                    gpu.bind()?;
                    gpu.empty(&stream)
                };
                let threads = [scope.spawn(launch), scope.spawn(launch)];
                threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| "panicked".to_owned())?)
            })
        })
    })?;
    let launches = |annotation: &str| -> Vec<usize> {
        let samples = report.samples().iter().filter(|s| &*s.annotation == annotation && s.kernel.is_none());
        samples.filter(|s| &*s.metric == DURATION).map(|s| s.launches).collect()
    };
    println!("{report}");
    assert_eq!(launches("graph"), [7; 5]);
    assert_eq!(launches("threads"), [2; 5]);
    Ok(())
}

/// The values of the spans of the only annotation, and why those without a value are not valid.
fn spans(report: &Report) -> (Vec<f64>, Vec<String>) {
    let spans = || report.samples().iter().filter(|sample| &*sample.metric == "gpu_span");
    let reasons = spans().filter_map(|sample| Some(sample.invalid_reason.as_deref()?.to_owned()));
    (spans().filter_map(|sample| sample.value).collect(), reasons.collect())
}

#[test]
#[ignore = "needs a GPU"]
fn launches_that_are_held_back_are_not_in_the_span_of_many_kernels() -> Outcome {
    const KERNELS: usize = 20;
    const RUNS: usize = 30;
    let _turn = turn();
    let gpu = gpu()?;
    let stream = gpu.stream()?;
    let bench = |name: &str| Bench::new(name).stream(raw(&stream)).cache(Cache::Keep).warm_up(5).runs(RUNS);
    let measure = |bench: Bench| {
        bench
            .progress(false)
            .run(|run, ()| run.measure("layers", || (0..KERNELS).try_for_each(|_| gpu.empty(&stream))))
    };
    let plain = measure(bench("plain"))?;
    let ahead = measure(bench("ahead").launch_ahead())?;
    let median = |report: &Report| -> Result<f64, Box<dyn std::error::Error>> {
        let (values, reasons) = spans(report);
        assert_eq!((values.len(), reasons), (RUNS, Vec::new()));
        Ok(Sample::new(values)?.median().ok_or("no value")?)
    };
    let (plain_ns, ahead_ns) = (median(&plain)?, median(&ahead)?);
    println!(
        r#"{{"test":"launch_ahead","gpu":"{}","kernels":{KERNELS},"span_ns":{plain_ns:?},"held_back_span_ns":{ahead_ns:?}}}"#,
        gpu.describe()
    );
    let launches = ahead.samples().iter().filter(|s| &*s.metric == DURATION && s.kernel.is_none());
    assert!(launches.clone().all(|s| s.launches == KERNELS), "the gate is nobody's kernel: {ahead}");
    assert!(launches.clone().all(|s| s.launch_mode == Some(LaunchMode::Blocked)));
    assert!(ahead_ns <= plain_ns, "{ahead_ns} ns held back, {plain_ns} ns as they come");
    Ok(())
}

#[test]
#[ignore = "needs a GPU"]
fn what_waits_behind_the_gate_goes_on_at_once_and_what_waits_unseen_after_the_limit() -> Outcome {
    const RUNS: usize = 3;
    let _turn = turn();
    let gpu = gpu()?;
    let stream = gpu.stream()?;
    let bench = |limit_ms| {
        let bench =
            Bench::new("waits").stream(raw(&stream)).launch_ahead_within(Duration::from_millis(limit_ms));
        bench.warm_up(2).runs(RUNS).progress(false)
    };
    // Synchronises. Half a minute for the limit: it must not be what ends it.
    let began = Instant::now();
    let report = bench(30_000).run(|run, ()| {
        run.measure("work", || {
            gpu.empty(&stream)?;
            gpu.synchronize()?;
            gpu.empty(&stream)
        })
    })?;
    let (values, reasons) = spans(&report);
    println!(
        r#"{{"test":"launch_ahead_waits","reason":{:?},"wall_ms":{}}}"#,
        reasons,
        began.elapsed().as_millis()
    );
    assert!(values.is_empty() && reasons.len() == RUNS, "{report}");
    assert!(reasons.iter().all(|reason| reason.contains("Synchronize may wait for the work")), "{reasons:?}");
    assert!(began.elapsed() < Duration::from_secs(25), "it waited for the limit");
    // Polls, which no callback tells of.
    let began = Instant::now();
    let report = bench(100).run(|run, ()| {
        run.measure("work", || -> Result<(), Box<dyn std::error::Error>> {
            gpu.empty(&stream)?;
            let event = stream.record_event(None)?;
            while !event.is_complete() {
                std::hint::spin_loop();
            }
            Ok(())
        })
    })?;
    let (values, reasons) = spans(&report);
    println!(
        r#"{{"test":"launch_ahead_polls","reason":{:?},"wall_ms":{}}}"#,
        reasons,
        began.elapsed().as_millis()
    );
    assert!(values.is_empty() && reasons.len() == RUNS, "{report}");
    assert!(reasons.iter().all(|reason| reason.contains("more than 100 ms")), "{reasons:?}");
    Ok(())
}

#[test]
#[ignore = "needs a GPU whose counters may be read"]
fn counters_are_counted_beside_the_times_of_the_same_annotation() -> Outcome {
    const BYTES: &str = "dram__bytes_read.sum";
    const VICTIM: usize = 16 * MIB;
    let _turn = turn();
    let gpu = gpu()?;
    let stream = gpu.stream()?;
    let victims = RefCell::new(Victims::new(&gpu, &stream, VICTIM)?);
    let folder = tempfile::tempdir()?;
    let output = folder.path().join("counted.cuprof");
    let bench = Bench::new("counted").runs(10).metrics([BYTES]).counter_runs(3).output(&output);
    let bench =
        bench.derive("dram_read", "GB/s", |m, ()| m.value(BYTES).map(|bytes| bytes / m.duration_ns()));
    let report = bench.run(|run, ()| {
        let mut victims = victims.borrow_mut();
        run.measure("read", || victims.read(&stream).and_then(|()| gpu.synchronize()))
    })?;
    println!("{report}");
    let median =
        |metric: &str| report.aggregate(0, "read", metric).and_then(|aggregate| aggregate.told.median());
    println!(
        r#"{{"test":"bench_counted","gpu":"{}","bytes":{VICTIM},"dram_bytes":{},"duration_ns":{},"gb_per_s":{}}}"#,
        gpu.describe(),
        json(median(BYTES)),
        json(median(DURATION)),
        json(median("dram_read"))
    );
    let Some(bytes) = median(BYTES) else {
        // Old libraries cannot count after another test has traced; the times are there, and it is told.
        assert_eq!(Report::open(&output)?.samples(), report.samples());
        let told = report.warnings().iter().any(|warning| warning.contains("CUPTI too old"));
        assert!(told && median(DURATION).is_some(), "no counters: {:?}", report.warnings());
        return Ok(());
    };
    assert!(bytes >= 0.99 * VICTIM as f64, "{bytes} bytes from DRAM for a cold read of {VICTIM}");
    // Three countings that agree, in one dataset with the launches: those of ten runs, and of two that warm up.
    let counted = report.aggregate(0, "read", BYTES).ok_or("not counted")?;
    assert!(counted.told.n == 3 && counted.told.cv.is_some_and(|cv| cv < 0.02), "{counted:?}");
    let dataset = Dataset::open(&output)?;
    assert!(dataset.is_complete());
    let per_run =
        report.samples().iter().find(|sample| &*sample.metric == DURATION).ok_or("no run")?.launches;
    let rows = [Table::Launches, Table::Ranges, Table::Metrics].map(|table| dataset.rows(table));
    assert_eq!(rows, [12 * per_run as u64, 10, 3], "launches, ranges, metrics");
    assert_eq!(Report::open(&output)?.to_string(), report.to_string());
    Ok(())
}
