//! Counters on a real GPU: known work, counted in one pass and in several, by ranges and by kernels.
//!
//! Measured numbers are printed as lines of JSON.

use std::sync::Arc;

use cuprof::counters::{Catalogue, Counted, NullReason, Plan, Preset, Session};
use cuprof::{Cache, ErrorKind, Profiler, Table};
use cuprof_workload::cudarc::driver::{CudaSlice, CudaStream};
use cuprof_workload::{Gpu, KNOWN_THREADS, Known};

use crate::Outcome;
use crate::frame::Frame;
use crate::session::{Place, Trace, elsewhere, gpu, turn};

const INSTRUCTIONS: &str = "smsp__inst_executed.sum";
const L2_BYTES: &str = "lts__t_bytes.sum";
const TIME: &str = "gpu__time_duration.sum";
/// Takes eight passes on an H100 or H200.
const THROUGHPUT: &str = "sm__throughput.avg.pct_of_peak_sustained_elapsed";

/// 16 MiB.
const ELEMENTS: usize = 4 << 20;
const BYTES: f64 = (ELEMENTS * 4) as f64;

struct Work {
    gpu: Gpu,
    stream: Arc<CudaStream>,
    x: CudaSlice<f32>,
    y: CudaSlice<f32>,
    sums: CudaSlice<f32>,
}

impl Work {
    fn new() -> Result<Self, Box<dyn std::error::Error>> {
        let gpu = gpu()?;
        let stream = gpu.stream()?;
        let (mut x, y) = (gpu.zeros(&stream, ELEMENTS)?, gpu.zeros(&stream, ELEMENTS)?);
        let sums = gpu.zeros(&stream, ELEMENTS / 256)?;
        gpu.fill(&stream, &mut x, 1.0)?;
        gpu.synchronize()?;
        Ok(Self { gpu, stream, x, y, sums })
    }

    fn copy(&mut self) -> Result<(), String> {
        self.gpu.copy(&self.stream, &self.x, &mut self.y)
    }

    fn read(&mut self) -> Result<(), String> {
        self.gpu.reduce(&self.stream, &self.x, &mut self.sums)
    }

    /// `y += x`
    fn add(&mut self) -> Result<(), String> {
        self.gpu.saxpy(&self.stream, &mut self.y, &self.x, 1.0)
    }

    fn empty(&self, blocks: u32) -> Result<(), String> {
        self.gpu.empty_of_shape(&self.stream, [blocks, 1, 1], [128, 1, 1], 0)
    }

    fn y(&self) -> Result<Vec<f32>, Box<dyn std::error::Error>> {
        self.gpu.synchronize()?;
        let y = self.stream.clone_dtoh(&self.y)?;
        self.stream.synchronize()?;
        Ok(y)
    }
}

/// Before 13.0 Update 1, CUPTI goes on tracing kernels.
fn can_count_after_tracing() -> Result<bool, Box<dyn std::error::Error>> {
    let version = Catalogue::of_device(0)?.cupti_version();
    Ok(!version.starts_with("12.") && !version.starts_with("13.0.0"))
}

fn value(counted: &Counted, range: &str, metric: &str) -> f64 {
    counted.value(range, metric).unwrap_or_else(|| panic!("{metric} of {range} is null: {counted:?}"))
}

fn report(test: &str, counted: &Counted) {
    println!("{{\"test\": {test:?}, \"timings\": {:?}}}", format!("{:?}", counted.timings));
    let rounds: Vec<_> = counted.timings.rounds.iter().map(|round| round.total().as_micros()).collect();
    println!(
        "{{\"test\": {test:?}, \"cupti\": {:?}, \"chip\": {:?}, \"metrics\": {}, \"passes\": {}, \"rounds\": {}, \
         \"round_us\": {rounds:?}, \"overhead_us\": {}, \"ranges\": {}}}",
        counted.plan.catalogue().cupti_version(),
        counted.plan.chip(),
        counted.plan.metrics().len(),
        counted.plan.passes(),
        counted.rounds,
        counted.timings.overhead().as_micros(),
        counted.ranges.len(),
    );
    for row in counted.rows() {
        let name = row.range.path.as_deref().or(row.range.kernel.as_deref()).unwrap_or_default();
        let value = row.value.map_or_else(|| "null".to_owned(), |value| value.to_string());
        let reason = row.null_reason.map_or("", NullReason::as_str);
        println!(
            "{{\"test\": {test:?}, \"range\": {name:?}, \"level\": {}, \"metric\": {:?}, \"value\": {value}, \
             \"unit\": {:?}, \"null_reason\": {reason:?}}}",
            row.range.level, row.metric, row.unit
        );
    }
}

fn plan(metrics: &[&str]) -> Result<Plan, Box<dyn std::error::Error>> {
    Ok(Plan::for_device(0, metrics)?.complete()?)
}

#[test]
#[ignore = "needs a GPU"]
fn presets_are_planned_for_the_present_device() -> Outcome {
    if let Some(outcome) = elsewhere("counters::presets_are_planned_for_the_present_device") {
        return outcome;
    }
    let _turn = turn();
    let _gpu = gpu()?;
    let catalogue = Catalogue::of_device(0)?;
    for preset in Preset::ALL {
        let start = std::time::Instant::now();
        let plan = catalogue.plan([preset.name()])?;
        println!(
            "{{\"test\": \"plan\", \"preset\": {:?}, \"cupti\": {:?}, \"metrics\": {}, \"missing\": {:?}, \"passes\": {}, \
             \"us\": {}}}",
            preset.name(),
            catalogue.cupti_version(),
            plan.metrics().len(),
            plan.missing().iter().map(|missing| missing.name.as_str()).collect::<Vec<_>>(),
            plan.passes(),
            start.elapsed().as_micros()
        );
        assert!(preset != Preset::Headline || plan.passes() == 1, "{plan}");
    }
    Ok(())
}

#[test]
#[ignore = "needs a GPU"]
fn the_headline_set_is_counted_in_one_pass() -> Outcome {
    if let Some(outcome) = elsewhere("counters::the_headline_set_is_counted_in_one_pass") {
        return outcome;
    }
    let _turn = turn();
    let mut work = Work::new()?;
    let mut runs = 0;
    let counted = Session::new(Plan::for_device(0, ["headline"])?).single_pass().run(|pass| {
        runs += 1;
        pass.range("copy", || work.copy())?;
        pass.range("read", || work.read())?;
        pass.range("empty", || work.empty(1000))
    })?;
    report("headline", &counted);
    assert_eq!((runs, counted.rounds, counted.ranges.len()), (1, 1, 3));
    let (copied, read) = (value(&counted, "copy", L2_BYTES), value(&counted, "read", L2_BYTES));
    assert!(copied >= 2.0 * BYTES * 0.95, "a copy of {BYTES} bytes moved {copied} through L2");
    assert!(read >= BYTES * 0.95, "a read of {BYTES} bytes moved {read} through L2");
    assert!(read < copied, "a read moved as much as a copy");
    assert!(value(&counted, "empty", L2_BYTES) < BYTES * 0.05);
    assert!(value(&counted, "copy", TIME) > value(&counted, "empty", TIME));
    Ok(())
}

#[test]
#[ignore = "needs a GPU"]
fn instructions_are_counted_exactly() -> Outcome {
    if let Some(outcome) = elsewhere("counters::instructions_are_counted_exactly") {
        return outcome;
    }
    let _turn = turn();
    let work = Work::new()?;
    let counted = Session::new(plan(&[INSTRUCTIONS, "sm__ctas_launched.sum"])?).run(|pass| {
        for blocks in [1000_u32, 2000, 4000] {
            pass.range(&blocks.to_string(), || work.empty(blocks))?;
        }
        // The same name again is a range of its own.
        pass.range("1000", || work.empty(3000))
    })?;
    report("instructions", &counted);
    assert_eq!(counted.ranges.len(), 4);
    let executed: Vec<_> =
        counted.rows().filter(|row| row.metric == INSTRUCTIONS).map(|row| row.value).collect();
    let one = executed[0].ok_or("no value")?;
    // Four warps a block, each of the same few instructions.
    assert!(one >= 4000.0 && one % 4000.0 == 0.0, "{executed:?}");
    assert_eq!(executed, [Some(one), Some(2.0 * one), Some(4.0 * one), Some(3.0 * one)]);
    Ok(())
}

#[test]
#[ignore = "needs a GPU"]
fn the_work_runs_once_for_each_pass() -> Outcome {
    if let Some(outcome) = elsewhere("counters::the_work_runs_once_for_each_pass") {
        return outcome;
    }
    let _turn = turn();
    let mut work = Work::new()?;
    let plan = plan(&[THROUGHPUT, INSTRUCTIONS, TIME, "lts__t_sector_hit_rate.pct"])?;
    assert!(plan.passes() > 1, "{plan}");
    let mut runs = 0_u32;
    let counted = Session::new(plan).run(|pass| {
        assert_eq!(pass.number(), runs as usize);
        runs += 1;
        pass.range("add", || work.add())
    })?;
    report("passes", &counted);
    assert_eq!((runs as usize, counted.rounds), (counted.plan.passes(), counted.plan.passes()));
    assert!(value(&counted, "add", THROUGHPUT) > 0.0);
    // In-place updates are made once for each pass: restoring is the program's.
    assert!(work.y()?.iter().all(|y| *y == runs as f32), "y += x was not made {runs} times");
    Ok(())
}

#[test]
#[ignore = "needs a GPU"]
fn nested_ranges_are_counted_level_by_level() -> Outcome {
    if let Some(outcome) = elsewhere("counters::nested_ranges_are_counted_level_by_level") {
        return outcome;
    }
    let _turn = turn();
    let mut work = Work::new()?;
    let mut nested = |levels: u16| {
        Session::new(plan(&[INSTRUCTIONS])?)
            .nesting_levels(levels)
            .run(|pass| {
                pass.range("outer/with a slash", || {
                    pass.range("copy", || work.copy())?;
                    pass.range("read", || work.read())
                })
            })
            .map_err(Box::<dyn std::error::Error>::from)
    };
    let counted = nested(2)?;
    report("nested", &counted);
    let paths: Vec<_> = counted.ranges.iter().filter_map(|range| range.path.as_deref()).collect();
    let outer = "outer/with a slash";
    assert_eq!(paths, [outer, "outer/with a slash/copy", "outer/with a slash/read"]);
    assert_eq!(counted.rounds, 2);
    let inner = value(&counted, paths[1], INSTRUCTIONS) + value(&counted, paths[2], INSTRUCTIONS);
    assert_eq!(value(&counted, outer, INSTRUCTIONS), inner);
    let error = nested(1).err().ok_or("two levels were counted as one")?.to_string();
    assert!(error.contains("nesting_levels(2)"), "{error}");
    Ok(())
}

#[test]
#[ignore = "needs a GPU"]
fn each_kernel_is_counted_under_its_name_and_range() -> Outcome {
    if let Some(outcome) = elsewhere("counters::each_kernel_is_counted_under_its_name_and_range") {
        return outcome;
    }
    let _turn = turn();
    let mut work = Work::new()?;
    for metrics in [&[INSTRUCTIONS][..], &[INSTRUCTIONS, THROUGHPUT]] {
        work.y = work.gpu.zeros(&work.stream, ELEMENTS)?;
        work.gpu.synchronize()?;
        let counted = Session::new(plan(metrics)?).run_kernels(|| {
            let _step = cuprof::range!("step");
            work.add()?;
            cuprof::in_range("inner", || work.read())?;
            work.empty(1000)?;
            work.add()
        });
        if counted.as_ref().is_err_and(|error| error.kind == ErrorKind::NotSupported) {
            // 12.9 counts no kernel by itself, and the error says so.
            assert!(Catalogue::of_device(0)?.cupti_version().starts_with("12."), "{counted:?}");
            return Ok(());
        }
        let counted = counted?;
        report(&format!("kernels of {} passes", counted.plan.passes()), &counted);
        assert!(counted.kernels_known);
        let kernels: Vec<_> =
            counted.ranges.iter().filter_map(|range| range.kernel_mangled.as_deref()).collect();
        assert_eq!(kernels, ["_Z5saxpyPfS_fi", "_Z6reducePKfPfi", "_Z5emptyv", "_Z5saxpyPfS_fi"]);
        let paths: Vec<_> = counted.ranges.iter().filter_map(|range| range.path.as_deref()).collect();
        assert_eq!(paths, ["step", "step/inner", "step", "step"]);
        let instructions = value(&counted, "empty()", INSTRUCTIONS);
        assert!(instructions >= 4000.0 && instructions % 4000.0 == 0.0);
        // CUPTI restores what a kernel changed before it repeats it.
        assert!(work.y()?.iter().all(|y| *y == 2.0), "y += x was not made twice");
    }
    Ok(())
}

#[test]
#[ignore = "needs a GPU"]
fn waiting_inside_a_range_changes_no_count() -> Outcome {
    if let Some(outcome) = elsewhere("counters::waiting_inside_a_range_changes_no_count") {
        return outcome;
    }
    let _turn = turn();
    let mut work = Work::new()?;
    let counted = Session::new(plan(&[INSTRUCTIONS, L2_BYTES])?).run(|pass| {
        pass.range("not waited for", || work.copy())?;
        pass.range("waited for", || {
            work.copy()?;
            work.gpu.synchronize()
        })
    })?;
    report("waiting", &counted);
    let [without, with] = ["not waited for", "waited for"].map(|range| value(&counted, range, INSTRUCTIONS));
    assert_eq!(without, with);
    Ok(())
}

#[test]
#[ignore = "needs a GPU"]
fn a_plan_of_many_passes_is_refused_where_one_is_allowed() -> Outcome {
    if let Some(outcome) = elsewhere("counters::a_plan_of_many_passes_is_refused_where_one_is_allowed") {
        return outcome;
    }
    let _turn = turn();
    let work = Work::new()?;
    let plan = plan(&[INSTRUCTIONS, THROUGHPUT])?;
    let refused = Session::new(plan).single_pass().run(|pass| pass.range("empty", || work.empty(1)));
    let error = refused.err().ok_or("it was not refused")?;
    assert_eq!(error.kind, ErrorKind::Config);
    assert!(error.to_string().contains(&format!("drop {THROUGHPUT}")), "{error}");
    Ok(())
}

/// Each of these ends a session, and the next one counts.
#[test]
#[ignore = "needs a GPU"]
fn a_session_that_fails_leaves_the_counters_free() -> Outcome {
    if let Some(outcome) = elsewhere("counters::a_session_that_fails_leaves_the_counters_free") {
        return outcome;
    }
    let _turn = turn();
    let work = Work::new()?;
    let session = || Ok::<_, Box<dyn std::error::Error>>(Session::new(plan(&[INSTRUCTIONS, THROUGHPUT])?));
    let counts = || {
        let counted = session()?.run(|pass| pass.range("empty", || work.empty(1000)))?;
        assert!(value(&counted, "empty", INSTRUCTIONS) > 0.0);
        Ok::<_, Box<dyn std::error::Error>>(())
    };
    counts()?;

    let failed = session()?.run(|pass| match pass.number() {
        1 => Err("out of luck".to_owned()),
        _ => pass.range("empty", || work.empty(1)),
    });
    let error = failed.err().ok_or("the work failed")?;
    assert!(error.kind == ErrorKind::Program && error.to_string().contains("out of luck"), "{error}");
    counts()?;

    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        session().map(|session| {
            session.run(|pass| pass.range("empty", || -> Result<(), String> { panic!("as asked") }))
        })
    }));
    assert!(panicked.is_err());
    counts()?;

    let differs = session()?.run(|pass| {
        pass.range("empty", || work.empty(1))?;
        if pass.number() == 1 { pass.range("more", || work.empty(1)) } else { Ok(()) }
    });
    let error = differs.err().ok_or("passes differed")?.to_string();
    assert!(error.contains("\"more\" instead of none"), "{error}");
    counts()?;

    let crowded =
        session()?.max_ranges(2).run(|pass| (0..3).try_for_each(|_| pass.range("empty", || work.empty(1))));
    let error = crowded.err().ok_or("three ranges had room for two")?.to_string();
    println!("{{\"test\": \"crowded\", \"error\": {error:?}}}");
    counts()?;

    let nothing = session()?.run(|_| work.empty(1));
    assert!(nothing.err().ok_or("no range was opened")?.to_string().contains("pass.range"));
    counts()
}

#[test]
#[ignore = "needs a GPU"]
fn counters_and_tracing_never_run_together() -> Outcome {
    if let Some(outcome) = elsewhere("counters::counters_and_tracing_never_run_together") {
        return outcome;
    }
    let _turn = turn();
    let mut work = Work::new()?;
    let session = || Ok::<_, Box<dyn std::error::Error>>(Session::new(plan(&[INSTRUCTIONS])?));

    let profiler = Profiler::builder().start()?;
    work.copy()?;
    let refused = session()?.run(|pass| pass.range("copy", || work.copy()));
    let error = refused.err().ok_or("counted in a traced session")?;
    assert_eq!(error.kind, ErrorKind::AlreadyRunning);
    assert_eq!(profiler.finish()?.launches(), 1);

    if !can_count_after_tracing()? {
        let refused = session()?.run(|pass| pass.range("copy", || work.copy()));
        assert_eq!(refused.err().map(|error| error.kind), Some(ErrorKind::CuptiTooOld));
        return Ok(());
    }
    let mut inside = Vec::new();
    let counted = session()?.run(|pass| {
        inside.push(Profiler::builder().start().err().map(|error| error.kind));
        inside.push(session().ok().and_then(|session| {
            session.run(|pass| pass.range("inner", || work.empty(1))).err().map(|error| error.kind)
        }));
        pass.range("copy", || work.copy())
    })?;
    assert_eq!(inside, [Some(ErrorKind::AlreadyRunning); 2]);
    assert!(value(&counted, "copy", INSTRUCTIONS) > 0.0);

    let profiler = Profiler::builder().start()?;
    work.copy()?;
    assert_eq!(profiler.finish()?.launches(), 1);
    let counted_again = session()?.run(|pass| pass.range("copy", || work.copy()))?;
    assert_eq!(value(&counted, "copy", INSTRUCTIONS), value(&counted_again, "copy", INSTRUCTIONS));
    Ok(())
}

#[test]
#[ignore = "needs a GPU"]
fn many_ranges_are_counted_in_one_session() -> Outcome {
    if let Some(outcome) = elsewhere("counters::many_ranges_are_counted_in_one_session") {
        return outcome;
    }
    let _turn = turn();
    let work = Work::new()?;
    for ranges in [100, 1000, 2000, 4000] {
        let counted = Session::new(plan(&[INSTRUCTIONS])?).max_ranges(ranges).run(|pass| {
            (0..ranges).try_for_each(|index| pass.range(&format!("range {index}"), || work.empty(1000)))
        });
        match counted {
            Ok(counted) => {
                println!(
                    "{{\"test\": \"many\", \"ranges\": {ranges}, \"round_us\": {}, \"overhead_us\": {}}}",
                    counted.timings.rounds[0].total().as_micros(),
                    counted.timings.overhead().as_micros()
                );
                let first = counted.rows().next().and_then(|row| row.value);
                assert!(first.is_some() && counted.rows().all(|row| row.value == first));
            }
            Err(error) if ranges > 1000 => {
                println!("{{\"test\": \"many\", \"ranges\": {ranges}, \"error\": {:?}}}", error.to_string());
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

#[test]
#[ignore = "needs a GPU"]
fn what_was_counted_is_written_as_a_table() -> Outcome {
    if let Some(outcome) = elsewhere("counters::what_was_counted_is_written_as_a_table") {
        return outcome;
    }
    let _turn = turn();
    let mut work = Work::new()?;
    let plan = Plan::for_device(0, [INSTRUCTIONS, L2_BYTES, "no__such_metric.sum"])?;
    let counted = Session::new(plan).run(|pass| {
        pass.range("copy", || work.copy())?;
        pass.range("read", || work.read())
    })?;
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("counters.cuprof");
    counted.write(&path)?;
    let dataset = cuprof::Dataset::open(&path)?;
    let frame = Frame::read(&dataset, Table::Metrics, &["metric", "value", "null_reason"])?;
    assert_eq!(frame.len(), 6);
    let missing = frame.rows().filter(|row| row.text("null_reason") == Some("not_on_chip")).count();
    assert_eq!(missing, 2);
    let written = frame.rows().filter_map(|row| row.real("value"));
    assert!(written.eq(counted.rows().filter_map(|row| row.value)), "other values than were counted");
    Ok(())
}

#[test]
#[ignore = "needs a GPU"]
fn work_with_many_ranges_begins_anew_with_room_for_them() -> Outcome {
    if let Some(outcome) = elsewhere("counters::work_with_many_ranges_begins_anew_with_room_for_them") {
        return outcome;
    }
    let _turn = turn();
    let work = Work::new()?;
    let mut runs = 0;
    let counted = Session::new(plan(&[INSTRUCTIONS])?).run(|pass| {
        runs += 1;
        (0..100).try_for_each(|_| pass.range("empty", || work.empty(1000)))
    })?;
    assert_eq!((runs, counted.rounds, counted.ranges.len()), (2, 1, 100));
    let first = counted.rows().next().and_then(|row| row.value);
    assert!(first.is_some() && counted.rows().all(|row| row.value == first));
    Ok(())
}

#[test]
#[ignore = "needs a GPU"]
fn a_read_behind_a_flush_comes_from_dram() -> Outcome {
    if let Some(outcome) = elsewhere("counters::a_read_behind_a_flush_comes_from_dram") {
        return outcome;
    }
    let _turn = turn();
    let mut work = Work::new()?;
    let dram = "dram__bytes_read.sum";
    let read = |work: &mut Work, cache| {
        let session = Session::new(plan(&[dram])?).cache(cache);
        let session = if cache == Cache::Keep { session } else { session.verify_cache() };
        let counted = session.run(|pass| {
            work.read()?;
            pass.range("read", || work.read())
        })?;
        report(&format!("cache {cache}"), &counted);
        Ok::<_, Box<dyn std::error::Error>>(counted)
    };
    let (hot, cold) = (read(&mut work, Cache::Keep)?, read(&mut work, Cache::Flush)?);
    assert!(value(&hot, "read", dram) < BYTES / 4.0);
    assert!((value(&cold, "read", dram) - BYTES).abs() < BYTES * 0.02);
    let report = cold.cache.as_ref().ok_or("no report of the flush")?;
    let residual = cold.residual.ok_or("the flush was not verified")?;
    println!("{{\"test\": \"flush\", \"report\": {:?}, \"residual\": {residual:?}}}", report.to_string());
    assert!(residual.hit_ratio < 0.2, "{residual:?}");
    assert!(report.applied > 0 && hot.cache.is_none());
    Ok(())
}

#[test]
#[ignore = "needs a GPU"]
fn a_traced_session_steps_aside_for_counters() -> Outcome {
    if let Some(outcome) = elsewhere("counters::a_traced_session_steps_aside_for_counters") {
        return outcome;
    }
    let _turn = turn();
    let mut work = Work::new()?;
    let alone =
        Session::new(plan(&[INSTRUCTIONS, THROUGHPUT])?).run(|pass| pass.range("add", || work.add()))?;
    let place = Place::new()?;
    let mut profiler = place.start()?;
    cuprof::in_range("before", || work.copy())?;
    let mut passes = 0;
    if !can_count_after_tracing()? {
        let refused =
            profiler.count(Session::new(plan(&[INSTRUCTIONS])?), |pass| pass.range("add", || work.add()));
        assert_eq!(refused.err().map(|error| error.kind), Some(ErrorKind::CuptiTooOld));
        assert_eq!(profiler.finish()?.launches(), 2);
        return Ok(());
    }
    let counted = profiler.count(Session::new(plan(&[INSTRUCTIONS, THROUGHPUT])?), |pass| {
        passes += u32::from(!pass.is_traced());
        pass.range("add", || work.add())
    })?;
    let begun = std::time::Instant::now();
    cuprof::in_range("after", || work.copy())?;
    report("beside a trace", &counted);
    println!("{{\"test\": \"first launch after\", \"us\": {}}}", begun.elapsed().as_micros());
    let trace = Trace::of(profiler.finish()?, place)?;
    trace.assert_nothing_lost();
    assert_eq!(passes as usize, counted.plan.passes());
    // Tracing changes what is counted, so it was off.
    assert_eq!(value(&counted, "add", INSTRUCTIONS), value(&alone, "add", INSTRUCTIONS));
    let mut paths: Vec<_> = trace.launches().filter_map(|row| row.text("range_path")).collect();
    paths.sort_unstable();
    assert_eq!(paths, ["add", "after", "before"]);
    let metrics = Frame::read(&trace.dataset, Table::Metrics, &["range_path", "value"])?;
    assert_eq!(metrics.len(), 2);
    assert!(metrics.rows().all(|row| row.text("range_path") == Some("add") && row.real("value").is_some()));
    println!("{{\"test\": \"suspended\", \"fact\": {:?}}}", trace.fact("tracing.suspended.0")?);
    Ok(())
}

#[test]
#[ignore = "needs a GPU"]
fn b70_what_the_work_changes_is_as_without_counting_or_restored_by_the_program() -> Outcome {
    if let Some(outcome) =
        elsewhere("counters::b70_what_the_work_changes_is_as_without_counting_or_restored_by_the_program")
    {
        return outcome;
    }
    const BLOCKS: u32 = 64;
    let mut work = Work::new()?;
    let known = Known::new(&work.gpu)?;
    let stream = Arc::clone(&work.stream);
    let mut counter = stream.alloc_zeros::<u32>(1)?;
    let each = BLOCKS * KNOWN_THREADS;
    let counted_up = |counter: &CudaSlice<u32>| -> Result<u32, Box<dyn std::error::Error>> {
        let counted = stream.clone_dtoh(counter)?;
        stream.synchronize()?;
        Ok(counted[0])
    };
    let plan = plan(&[THROUGHPUT, INSTRUCTIONS])?;
    // CUPTI restores what each kernel changes, where it counts kernels by themselves at all.
    let by_kernels = Session::new(plan.clone()).run_kernels(|| {
        work.add()?;
        known.count_up(&stream, &mut counter, BLOCKS)
    });
    match by_kernels {
        Err(error) if error.kind == ErrorKind::NotSupported => println!("kernels by themselves: {error}"),
        counted => drop(counted?),
    }
    assert_eq!(counted_up(&counter)?, each);
    assert!(work.y()?.iter().all(|y| *y == 1.0), "y += x was not made once");
    // Known before: the work runs as often as the plan has passes.
    let passes = u32::try_from(plan.passes())?;
    Session::new(plan.clone())
        .run(|pass| pass.range("count", || known.count_up(&stream, &mut counter, BLOCKS)))?;
    assert_eq!(counted_up(&counter)?, each * (1 + passes));
    Session::new(plan).run(|pass| -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        stream.memset_zeros(&mut counter)?;
        pass.range("count", || known.count_up(&stream, &mut counter, BLOCKS))?;
        Ok(())
    })?;
    assert_eq!(counted_up(&counter)?, each);
    Ok(())
}
