//! How long kernels are that read so much, by `Bench`, by CUDA events, and by Nsight Compute; lines of JSON.
//!
//! ```text
//! bench_proof                    measures with `Bench` and with CUDA events, warm and cold
//! bench_proof counted            the same kernels in counted ranges, warm
//! bench_proof plain warm|cold    launches the same kernels and records nothing, for Nsight Compute
//! ```
//!
//! Needs a GPU. `cold` flushes the L2 cache before each kernel, in its stream, as `Bench` does there. The exit status is 1
//! where the spread is more than it may be. A second kernel reads alike and stamps when its blocks begin and end, by the
//! GPU's own timer: what a tool's duration is longer than that is the tool's. `scripts/gpu.sh bench` runs it, and beside Nsight Compute;
//! `scripts/compare_ncu.py --durations` compares. No setting of the GPU is changed.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program that talks")]

use std::cell::RefCell;
use std::process::ExitCode;
use std::sync::Arc;

use cuprof::bench::DURATION;
use cuprof::counters::{Plan, Session};
use cuprof::stats::Sample;
use cuprof::{Bench, Cache, L2Control, Stream};
use cuprof_workload::cudarc::driver::{CudaStream, sys::CUevent_flags};
use cuprof_workload::{Compiled, Gpu, Stamps, Victims};

type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

/// 64 KiB to 64 MiB.
const SIZES: [usize; 11] = {
    let mut sizes = [64 << 10; 11];
    let mut at = 1;
    while at < sizes.len() {
        sizes[at] = sizes[at - 1] * 2;
        at += 1;
    }
    sizes
};
const RUNS: usize = 100;
const WARM_UP: usize = 5;

/// From this duration on, the robust relative spread may be at most this.
const SPREAD_FROM_NS: f64 = 3_000.0;
const MAX_SPREAD: f64 = 0.02;

const STATES: [(&str, Cache); 2] = [("warm", Cache::Keep), ("cold", Cache::Flush)];

fn raw(stream: &CudaStream) -> Stream {
    // SAFETY: the handle is that of a stream that outlives its uses here, of the only context.
    #[expect(unsafe_code, reason = "names a stream by its handle")]
    unsafe {
        Stream::from_raw(stream.cu_stream().cast())
    }
}

fn victims(gpu: &Gpu, stream: &Arc<CudaStream>) -> Outcome<Vec<RefCell<Victims>>> {
    let victims = SIZES.iter().map(|bytes| Victims::new(gpu, stream, *bytes).map(RefCell::new));
    Ok(victims.collect::<Result<_, _>>()?)
}

/// The median of what two events around each kernel tell, in nanoseconds.
fn by_events(
    gpu: &Gpu,
    stream: &CudaStream,
    launch: &dyn Fn() -> Result<(), String>,
    l2: &mut L2Control,
) -> Outcome<Option<f64>> {
    let mut times = Vec::new();
    for run in 0..WARM_UP + RUNS {
        l2.apply_on(raw(stream))?;
        let begin = stream.record_event(Some(CUevent_flags::CU_EVENT_DEFAULT))?;
        launch()?;
        let end = stream.record_event(Some(CUevent_flags::CU_EVENT_DEFAULT))?;
        gpu.synchronize()?;
        if run >= WARM_UP {
            times.push(f64::from(begin.elapsed_ms(&end)?) * 1e6);
        }
    }
    Ok(Sample::new(times)?.median())
}

/// The medians over the runs behind those that warm up.
fn print_stamps(by: &str, state: &str, bytes: usize, stamps: &[Stamps], recorded_ns: Option<f64>) -> Outcome {
    let stamps = stamps.get(WARM_UP..).ok_or("too few runs")?;
    let median = |of: fn(&Stamps) -> f64| -> Outcome<f64> {
        Ok(Sample::new(stamps.iter().map(of).collect::<Vec<_>>())?.median().ok_or("no stamps")?)
    };
    #[expect(clippy::cast_precision_loss, reason = "below a second")]
    let span = median(|stamps| stamps.span_ns as f64)?;
    let recorded = recorded_ns.map_or("null".to_owned(), |ns| format!("{ns}"));
    println!(
        r#"{{"section":"stamps","by":"{by}","bytes":{bytes},"state":"{state}","n":{},"span_ns":{span},"sm_mhz":{:.0},"recorded_ns":{recorded}}}"#,
        stamps.len(),
        median(|stamps| stamps.sm_mhz)?,
    );
    Ok(())
}

/// The stamping kernel by `Bench`: what it records beside what the blocks saw.
fn measure_stamped(
    stream: &Arc<CudaStream>,
    victims: &[RefCell<Victims>],
    state: &str,
    cache: Cache,
    serialize: bool,
) -> Outcome {
    let stamps = RefCell::new(vec![Vec::new(); SIZES.len()]);
    let bench = Bench::new(state).configs(0..SIZES.len()).parameters(["size"]).serialize_kernels(serialize);
    let bench = bench.stream(raw(stream)).cache(cache).warm_up(WARM_UP).runs(RUNS).progress(false);
    let report = bench.run(|run, size| {
        let mut victims = victims[*size].borrow_mut();
        run.measure("stamped", || victims.read_stamped(stream))?;
        stamps.borrow_mut()[*size].push(victims.stamps(stream)?);
        Ok::<(), String>(())
    })?;
    let by = if serialize { "serialized" } else { "bench" };
    for (size, stamps) in stamps.borrow().iter().enumerate() {
        let recorded = report.aggregate(size, "stamped", DURATION).and_then(|row| row.told.median());
        print_stamps(by, state, SIZES[size], stamps, recorded)?;
    }
    Ok(())
}

/// The stamping kernel while counters are on, warm.
fn count_stamped() -> Outcome {
    let gpu = Gpu::open()?;
    let stream = gpu.stream()?;
    let victims = victims(&gpu, &stream)?;
    let plan = Plan::for_device(0, ["smsp__inst_executed.sum"])?;
    for (victims, bytes) in victims.iter().zip(SIZES) {
        let mut stamps = Vec::new();
        Session::new(plan.clone()).max_ranges(1).single_pass().run(|pass| {
            pass.range("stamped", || -> Result<(), String> {
                let mut victims = victims.borrow_mut();
                for _ in 0..WARM_UP + RUNS {
                    victims.read_stamped(&stream)?;
                    stamps.push(victims.stamps(&stream)?);
                }
                Ok(())
            })
        })?;
        print_stamps("counted", "warm", bytes, &stamps, None)?;
    }
    Ok(())
}

/// A kernel of many blocks that do little each, `y = 2 x` with four bytes a thread, warm.
fn measure_small_blocks(gpu: &Gpu, stream: &Arc<CudaStream>) -> Outcome {
    let kernels = match Compiled::new(gpu) {
        Ok(kernels) => kernels,
        Err(why) => {
            println!(r#"{{"section":"small_blocks","not_measured":{why:?}}}"#);
            return Ok(());
        }
    };
    for bytes in [16 << 20, 64 << 20, 256 << 20] {
        let (x, y) = (gpu.zeros(stream, bytes / 4)?, RefCell::new(gpu.zeros(stream, bytes / 4)?));
        let scale = || kernels.scale(stream, &x, &mut y.borrow_mut());
        let recorded = |serialize: bool| -> Outcome<f64> {
            let bench = Bench::new("scale").serialize_kernels(serialize).cache(Cache::Keep).progress(false);
            let report = bench.warm_up(WARM_UP).runs(RUNS).run(|run, ()| run.measure("scale", scale))?;
            let row = report.aggregate(0, "scale", DURATION).ok_or("nothing was measured")?;
            Ok(row.told.median().ok_or("no run is valid")?)
        };
        let (concurrent, serialized) = (recorded(false)?, recorded(true)?);
        let mut l2 = L2Control::new(Cache::Keep)?;
        let events = by_events(gpu, stream, &scale, &mut l2)?.ok_or("no events")?;
        println!(
            r#"{{"section":"small_blocks","bytes":{bytes},"concurrent_ns":{concurrent},"serialized_ns":{serialized},"events_ns":{events:.0}}}"#
        );
    }
    Ok(())
}

/// Whether all spreads are as small as they may be.
fn measure(gpu: &Gpu) -> Outcome<bool> {
    let stream = gpu.stream()?;
    let victims = victims(gpu, &stream)?;
    let mut all_ok = true;
    for (state, cache) in STATES {
        let bench = Bench::new(state).configs(0..SIZES.len()).parameters(["size"]);
        let bench = bench.stream(raw(&stream)).cache(cache).warm_up(WARM_UP).runs(RUNS).progress(false);
        let report = bench.run(|run, size| {
            let mut victims = victims[*size].borrow_mut();
            run.measure("read", || victims.read(&stream))
        })?;
        for loss in report.losses() {
            eprintln!("LOST: {} {}", loss.count, loss.meaning);
            all_ok = false;
        }
        let mut l2 = L2Control::new(cache)?;
        for (size, bytes) in SIZES.iter().enumerate() {
            let told = &report.aggregate(size, "read", DURATION).ok_or("nothing was measured")?.told;
            let median = told.median().ok_or("no run is valid")?;
            let spread = told.robust_cv.ok_or("no spread")?;
            let is_ok = median < SPREAD_FROM_NS || spread <= MAX_SPREAD;
            all_ok &= is_ok;
            let events = by_events(gpu, &stream, &|| victims[size].borrow_mut().read(&stream), &mut l2)?;
            let events = events.map_or("null".to_owned(), |ns| format!("{ns:.0}"));
            println!(
                r#"{{"section":"durations","gpu":"{}","bytes":{bytes},"state":"{state}","median_ns":{median},"robust_cv":{spread:.5},"n":{},"events_ns":{events},"ok":{is_ok}}}"#,
                gpu.describe(),
                told.n,
            );
        }
        for serialize in [false, true] {
            measure_stamped(&stream, &victims, state, cache, serialize)?;
        }
    }
    measure_small_blocks(gpu, &stream)?;
    Ok(all_ok)
}

fn plain(gpu: &Gpu, state: &str) -> Outcome {
    let (_, cache) =
        STATES.into_iter().find(|(name, _)| *name == state).ok_or("plain warm, or plain cold")?;
    let stream = gpu.stream()?;
    let victims = victims(gpu, &stream)?;
    let mut l2 = L2Control::new(cache)?;
    for (victims, bytes) in victims.iter().zip(SIZES) {
        let mut victims = victims.borrow_mut();
        let mut stamps = Vec::new();
        for _ in 0..WARM_UP + RUNS {
            l2.apply_on(raw(&stream))?;
            victims.read(&stream)?;
            gpu.synchronize()?;
        }
        for _ in 0..WARM_UP + RUNS {
            l2.apply_on(raw(&stream))?;
            victims.read_stamped(&stream)?;
            stamps.push(victims.stamps(&stream)?);
        }
        print_stamps("plain", state, bytes, &stamps, None)?;
    }
    Ok(())
}

fn run(args: &[String]) -> Outcome<bool> {
    let gpu = Gpu::open()?;
    match args {
        [] => measure(&gpu),
        [mode] if mode == "counted" => count_stamped().map(|()| true),
        [mode, state] if mode == "plain" => plain(&gpu, state).map(|()| true),
        _ => Err("no arguments, or counted, or plain warm, or plain cold".into()),
    }
}

fn main() -> ExitCode {
    // Cargo passes it.
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    if let Err(why) = Gpu::probe() {
        println!("nothing is measured: {why}");
        return ExitCode::SUCCESS;
    }
    match run(&args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
