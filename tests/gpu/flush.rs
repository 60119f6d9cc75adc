//! What is left in the L2 cache before a kernel, by the kernel's time, and what that costs; all traced.
//!
//! Prints one line of JSON for each way and victim.

use cuprof::counters::{Plan, Session, l2_residual};
use cuprof::{Cache, FillSize, L2Control, Stream, Table};
use cuprof_workload::cudarc::driver::CudaStream;
use cuprof_workload::{Gpu, Victims};

use crate::Outcome;
use crate::frame::Frame;
use crate::session::{elsewhere, gpu, record, turn};

const VICTIM_BYTES: usize = 16 << 20;
const TIMES: usize = 30;
/// Kind of the rows that the crate's own work has.
const FLUSH: &str = "cuprof_cache_flush";

#[derive(Clone, Copy, PartialEq)]
enum Victim {
    Read,
    Copy,
}

/// Medians over [`TIMES`].
#[derive(Clone, Copy, Debug)]
struct Row {
    victim_ns: i64,
    flush_ns: i64,
    /// From the end of the flush to the start of the victim.
    gap_ns: i64,
}

fn median(mut values: Vec<i64>) -> i64 {
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or(0)
}

fn raw(stream: &CudaStream) -> Stream {
    // SAFETY: the handle is that of a stream that outlives its uses here, of the only context.
    #[expect(unsafe_code, reason = "names a stream by its handle")]
    unsafe {
        Stream::from_raw(stream.cu_stream().cast())
    }
}

/// Victims behind this state of the cache, in a traced session; the flush is queued right before the victim.
fn measure(gpu: &Gpu, cache: Cache, victim: Victim) -> Result<Row, Box<dyn std::error::Error>> {
    let stream = gpu.stream()?;
    let mut victims = Victims::new(gpu, &stream, VICTIM_BYTES)?;
    let mut control = L2Control::new(cache)?;
    let touched = control.report().bytes;
    let mut run = |victims: &mut Victims| -> Result<(), String> {
        control.apply_on(raw(&stream)).map_err(|error| error.to_string())?;
        match victim {
            Victim::Read => victims.read(&stream)?,
            Victim::Copy => victims.copy(&stream)?,
        }
        gpu.synchronize()
    };
    for _ in 0..5 {
        run(&mut victims)?;
    }
    let (trace, ()) = record(|| {
        let _range = cuprof::range!("victims");
        (0..TIMES).try_for_each(|_| run(&mut victims))
    })?;
    trace.assert_nothing_lost();
    // The crate's own work is in no table of the program's.
    assert_eq!(trace.launches().count(), TIMES, "launches of the program");
    assert_eq!(trace.transfers.rows().count(), 0, "copies and fills of the program");
    assert_eq!(trace.range("victims").number("n_launches"), TIMES as i64);
    assert_eq!(trace.range("victims").number("n_transfers"), 0);
    let overheads = Frame::read(&trace.dataset, Table::Overheads, &["kind", "start_ns", "end_ns"])?;
    let mut flushes: Vec<_> = overheads
        .rows()
        .filter(|row| row.text("kind") == Some(FLUSH))
        .map(|row| (row.number("start_ns"), row.number("end_ns")))
        .collect();
    flushes.sort_unstable();
    assert_eq!(flushes.len(), if touched > 0 { TIMES } else { 0 }, "flushes");
    let mut spans: Vec<_> =
        trace.launches().map(|row| (row.number("start_ns"), row.number("end_ns"))).collect();
    spans.sort_unstable();
    let gaps: Vec<_> = flushes.iter().zip(&spans).map(|(flush, victim)| victim.0 - flush.1).collect();
    assert!(gaps.iter().all(|gap| *gap >= 0), "a flush ran into its victim: {gaps:?}");
    if touched > 0 {
        assert_eq!(trace.fact("control.cache_flushes")?, TIMES.to_string());
    }
    let row = Row {
        victim_ns: median(spans.iter().map(|(start, end)| end - start).collect()),
        flush_ns: median(flushes.iter().map(|(start, end)| end - start).collect()),
        gap_ns: median(gaps),
    };
    println!(
        r#"{{"test":"flush","gpu":"{}","l2_bytes":{},"cache":"{cache}","victim":"{}","victim_bytes":{VICTIM_BYTES},"runs":{TIMES},"victim_ns":{},"flush_ns":{},"gap_ns":{},"touched_bytes":{touched}}}"#,
        gpu.describe(),
        control.report().l2_bytes,
        if victim == Victim::Read { "read" } else { "copy" },
        row.victim_ns,
        row.flush_ns,
        row.gap_ns,
    );
    Ok(row)
}

#[test]
#[ignore = "needs a GPU"]
fn a_flush_leaves_a_cold_clean_cache_and_is_not_taken_for_the_programs() -> Outcome {
    let _turn = turn();
    let gpu = gpu()?;
    for victim in [Victim::Read, Victim::Copy] {
        let hot = measure(&gpu, Cache::Keep, victim)?;
        let flushed = measure(&gpu, Cache::Flush, victim)?;
        let filled = measure(&gpu, Cache::Memset(FillSize::TimesL2(1)), victim)?;
        measure(&gpu, Cache::Memset(FillSize::TimesL2(2)), victim)?;
        measure(&gpu, Cache::Memset(FillSize::Bytes(256 << 20)), victim)?;
        assert!(flushed.victim_ns > hot.victim_ns, "cold is not slower than hot: {flushed:?}, {hot:?}");
        // Dirty lines are written back while the victim runs.
        assert!(
            filled.victim_ns > flushed.victim_ns,
            "the flush leaves dirty lines: {flushed:?}, {filled:?}"
        );
    }
    Ok(())
}

#[test]
#[ignore = "needs a GPU"]
fn a_flush_that_is_waited_for_is_done_when_it_returns() -> Outcome {
    let _turn = turn();
    let gpu = gpu()?;
    let stream = gpu.stream()?;
    let mut victims = Victims::new(&gpu, &stream, VICTIM_BYTES)?;
    let mut control = L2Control::new(Cache::Flush)?.with_persisting_reset(true);
    let mut waits = Vec::new();
    let (trace, ()) = record(|| {
        for _ in 0..TIMES {
            victims.read(&stream)?;
            gpu.synchronize()?;
            let began = std::time::Instant::now();
            control.apply().map_err(|error| error.to_string())?;
            waits.push(i64::try_from(began.elapsed().as_nanos()).unwrap_or(i64::MAX));
            victims.read(&stream)?;
            gpu.synchronize()?;
        }
        Ok(())
    })?;
    let mut spans: Vec<_> =
        trace.launches().map(|row| (row.number("start_ns"), row.number("duration_ns"))).collect();
    spans.sort_unstable();
    assert_eq!(spans.len(), 2 * TIMES);
    // Every second one is behind a flush, the others right behind a read of the same bytes, but for the first.
    let cold = median(spans.iter().skip(1).step_by(2).map(|(_, duration)| *duration).collect());
    let hot = median(spans.iter().skip(2).step_by(2).map(|(_, duration)| *duration).collect());
    println!(
        r#"{{"test":"flush_awaited","gpu":"{}","hot_ns":{hot},"cold_ns":{cold},"host_wait_ns":{}}}"#,
        gpu.describe(),
        median(waits)
    );
    assert!(cold > hot, "{cold} ns behind a flush, {hot} ns without");
    let report = control.report();
    assert_eq!((report.applied, report.persisting_resets), (TIMES as u64, TIMES as u64));
    println!("{report}");
    Ok(())
}

#[test]
#[ignore = "needs a GPU"]
fn a_stream_that_is_being_captured_is_left_alone() -> Outcome {
    use cuprof_workload::cudarc::driver::sys::CUstreamCaptureMode;
    let _turn = turn();
    let gpu = gpu()?;
    let stream = gpu.stream()?;
    let mut control = L2Control::new(Cache::Flush)?;
    stream.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED)?;
    let refused = control.apply_on(raw(&stream));
    // Nothing was captured, so there is no graph.
    let _no_graph = stream.end_capture(
        cuprof_workload::cudarc::driver::sys::CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH,
    );
    let error = refused.err().ok_or("a flush became part of a graph")?;
    assert_eq!(error.kind, cuprof::ErrorKind::Config);
    assert!(error.to_string().contains("captured"), "{error}");
    control.apply()?;
    assert_eq!(control.report().applied, 1);
    Ok(())
}

#[test]
#[ignore = "needs a GPU whose counters may be read"]
fn hardly_anything_is_left_in_the_cache_after_a_flush() -> Outcome {
    if let Some(outcome) = elsewhere("flush::hardly_anything_is_left_in_the_cache_after_a_flush") {
        return outcome;
    }
    let _turn = turn();
    let gpu = gpu()?;
    gpu.bind()?;
    for cache in [Cache::Flush, Cache::Memset(FillSize::TimesL2(1)), Cache::Memset(FillSize::TimesL2(2))] {
        let mut control = L2Control::new(cache)?;
        let residual = l2_residual(&mut control)?;
        println!(
            r#"{{"test":"flush_residual","gpu":"{}","cache":"{cache}","hit_ratio":{},"dram_read_ratio":{},"probe_bytes":{}}}"#,
            gpu.describe(),
            residual.hit_ratio,
            residual.dram_read_ratio.map_or("null".to_owned(), |ratio| ratio.to_string()),
            residual.probe_bytes
        );
        if cache == Cache::Flush {
            assert!(residual.hit_ratio <= 0.02, "{residual:?}");
            assert!(residual.dram_read_ratio.is_none_or(|ratio| ratio >= 0.99), "{residual:?}");
        }
    }
    Ok(())
}

#[test]
#[ignore = "needs a GPU whose counters may be read"]
fn a_counter_session_with_a_flush_counts_a_cold_cache() -> Outcome {
    if let Some(outcome) = elsewhere("flush::a_counter_session_with_a_flush_counts_a_cold_cache") {
        return outcome;
    }
    let _turn = turn();
    let gpu = gpu()?;
    let stream = gpu.stream()?;
    let mut victims = Victims::new(&gpu, &stream, VICTIM_BYTES)?;
    let mut hit_rate_pct = |cache: Cache| -> Result<f64, Box<dyn std::error::Error>> {
        const HIT_RATE: &str = "lts__t_sector_hit_rate.pct";
        let session = Session::new(Plan::for_device(0, [HIT_RATE])?).between_passes(L2Control::new(cache)?);
        let counted = session.run(|pass| {
            victims.read(&stream)?;
            gpu.synchronize()?;
            pass.range("victim", || victims.read(&stream).and_then(|()| gpu.synchronize()))
        })?;
        Ok(counted.value("victim", HIT_RATE).ok_or("no hit rate")?)
    };
    let (hot, cold) = (hit_rate_pct(Cache::Keep)?, hit_rate_pct(Cache::Flush)?);
    println!(
        r#"{{"test":"flush_counted","gpu":"{}","hot_hit_rate_pct":{hot},"cold_hit_rate_pct":{cold}}}"#,
        gpu.describe()
    );
    assert!(hot > 80.0, "{hot} % of what was just read hits");
    assert!(cold < 5.0, "{cold} % hits behind a flush");
    Ok(())
}
