//! What each cache control leaves, by counters. Its traced times are those of `tests/gpu/flush.rs`.

use cuprof::counters::{Plan, Session};
use cuprof::{Cache, CuptiCache, FillSize};
use cuprof_workload::{Gpu, Victims};

use crate::{Outcome, number, plan};

const BYTES: usize = 16 << 20;
const METRICS: [&str; 5] = [
    "dram__bytes_read.sum",
    "dram__bytes_write.sum",
    "lts__t_bytes.sum",
    "lts__t_sector_hit_rate.pct",
    "gpu__time_duration.sum",
];

pub fn run() -> Outcome {
    let gpu = Gpu::open()?;
    let stream = gpu.stream()?;
    let mut victims = Victims::new(&gpu, &stream, BYTES)?;
    let plan = plan(&METRICS)?;
    for cache in [
        Cache::Keep,
        Cache::Flush,
        Cache::Memset(FillSize::TimesL2(1)),
        Cache::Memset(FillSize::TimesL2(2)),
        Cache::Memset(FillSize::Bytes(256 << 20)),
        Cache::Cupti(CuptiCache::L2),
        Cache::Cupti(CuptiCache::All),
    ] {
        if let Err(error) = one(&gpu, &mut victims, &stream, &plan, cache) {
            // Before CUPTI 13.4 it controls no caches.
            println!(r#"{{"section":"flush","cache":"{cache}","error":{:?}}}"#, error.to_string());
        }
    }
    Ok(())
}

fn one(
    gpu: &Gpu,
    victims: &mut Victims,
    stream: &cuprof_workload::cudarc::driver::CudaStream,
    plan: &Plan,
    cache: Cache,
) -> Outcome {
    let by_cupti = matches!(cache, Cache::Cupti(_));
    let mut session = Session::new(plan.clone()).cache(cache);
    if cache != Cache::Keep && !by_cupti {
        session = session.verify_cache();
    }
    let counted = session.run(|pass| {
        // CUPTI empties the cache before the pass, where the victims' data came in before it.
        if !by_cupti {
            victims.read(stream)?;
            gpu.synchronize()?;
        }
        pass.range("read", || victims.read(stream))?;
        if !by_cupti {
            victims.copy(stream)?;
            gpu.synchronize()?;
            pass.range("copy", || victims.copy(stream))?;
        }
        Ok::<_, String>(())
    })?;
    let rounds = &counted.timings.rounds;
    let between: f64 = rounds.iter().map(|round| round.between.as_secs_f64() * 1e6).sum();
    let applied = counted.cache.as_ref().map_or(0, |report| report.applied);
    for range in ["read", "copy"].iter().take(counted.ranges.len()) {
        let values: Vec<_> = METRICS
            .iter()
            .map(|metric| format!(r#""{metric}":{}"#, number(counted.value(range, metric))))
            .collect();
        println!(
            r#"{{"section":"flush","cache":"{cache}","state":"{}","victim":"{range}","victim_bytes":{BYTES},{},"residual_hit_ratio":{},"touched_bytes":{},"host_us_each":{:.1}}}"#,
            cache.state(),
            values.join(","),
            number(counted.residual.map(|residual| residual.hit_ratio)),
            counted.cache.as_ref().map_or(0, |report| report.bytes),
            if applied > 0 { between / applied as f64 } else { 0.0 },
        );
    }
    Ok(())
}
