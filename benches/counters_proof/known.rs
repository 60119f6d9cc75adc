//! Counts that are known beforehand.

use cuprof::Cache;
use cuprof::counters::Session;
use cuprof_workload::{Gpu, Known, Victims};

use crate::{Outcome, check, plan, print_rows};

const READ: &str = "dram__bytes_read.sum";
const WRITTEN: &str = "dram__bytes_write.sum";
const INSTRUCTIONS: &str = "smsp__inst_executed.sum";
const FMAS: &str = "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum";
const BLOCKS: &str = "sm__ctas_launched.sum";
const REPEATS: usize = 10;

pub fn run() -> Outcome {
    let gpu = Gpu::open()?;
    let stream = gpu.stream()?;

    let copied = 256 << 20;
    let mut large = Victims::new(&gpu, &stream, copied)?;
    let counted = Session::new(plan(&[READ, WRITTEN])?).run(|pass| {
        // The lines that it leaves dirty are written back in the range, as many as the counted one leaves.
        large.copy(&stream)?;
        gpu.synchronize()?;
        pass.range("copy", || large.copy(&stream))
    })?;
    print_rows("known", "copy of 256 MiB", &counted);
    check("known", "bytes read by a copy of 256 MiB", copied as f64, counted.value("copy", READ), 0.01);
    check("known", "bytes written by a copy of 256 MiB", copied as f64, counted.value("copy", WRITTEN), 0.01);
    drop(large);

    let bytes = 16 << 20;
    let mut small = Victims::new(&gpu, &stream, bytes)?;
    let counted = Session::new(plan(&[READ, "lts__t_sector_hit_rate.pct"])?)
        .cache(Cache::Flush)
        .verify_cache()
        .run(|pass| {
            small.read(&stream)?;
            pass.range("read", || small.read(&stream))
        })?;
    print_rows("known", "read of 16 MiB behind a flush", &counted);
    check(
        "known",
        "bytes read by a read of 16 MiB behind a flush",
        bytes as f64,
        counted.value("read", READ),
        0.02,
    );
    let residual = counted.residual.map(|residual| residual.hit_ratio);
    println!(
        r#"{{"section":"known","label":"hit ratio behind a flush","value":{}}}"#,
        crate::number(residual)
    );

    let known = Known::new(&gpu)?;
    let mut to = gpu.zeros(&stream, 1024)?;
    let (mut fmas, blocks) = (0, 132 * 8);
    let counted = Session::new(plan(&[INSTRUCTIONS, FMAS, BLOCKS])?).run(|pass| {
        for _ in 0..REPEATS {
            fmas = pass.range("fma_chain", || known.fma_chain(&stream, &mut to, blocks, 100))?;
            pass.range("empty", || gpu.empty_of_shape(&stream, [1000, 1, 1], [128, 1, 1], 0))?;
            pass.range("read", || small.read(&stream))?;
        }
        Ok::<_, String>(())
    })?;
    print_rows("known", "instructions", &counted);
    check("known", "multiply-adds of fma_chain", fmas as f64, counted.value("fma_chain", FMAS), 0.0);
    check("known", "blocks of fma_chain", blocks.into(), counted.value("fma_chain", BLOCKS), 0.0);
    for range in ["fma_chain", "empty", "read"] {
        let values: Vec<_> = counted
            .rows()
            .filter(|row| row.metric == INSTRUCTIONS && row.range.path.as_deref() == Some(range))
            .filter_map(|row| row.value)
            .collect();
        let same = values.iter().filter(|value| Some(*value) == values.first()).count();
        let what = format!("repeats of {range} with the same instructions");
        check("known", &what, REPEATS as f64, Some(same as f64), 0.0);
    }
    // Each of the 4 warps of its 1000 blocks executes the same few.
    let each = counted.value("empty", INSTRUCTIONS).map(|value| value % 4000.0);
    check("known", "instructions of empty, modulo its warps", 0.0, each, 0.0);
    Ok(())
}
