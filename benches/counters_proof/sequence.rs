//! Five kernels, each launched some times in a row: counted by us, or left to another profiler.

use std::sync::Arc;

use cuprof::counters::Session;
use cuprof_workload::cudarc::driver::{CudaSlice, CudaStream};
use cuprof_workload::{Gpu, Known, Victims};

use crate::{Outcome, plan, print_rows, print_timings};

/// Launches of each kernel before those that count, and of those.
const WARM_UP: usize = 2;
const COUNTED: usize = 5;

const KERNELS: [&str; 5] = ["victim_copy", "victim_read", "_Z5saxpyPfS_fi", "fma_chain", "transpose"];

/// Bytes and counts first, then rates.
pub const METRICS: [&str; 24] = [
    "dram__bytes_read.sum",
    "dram__bytes_write.sum",
    "lts__t_bytes.sum",
    "lts__t_sectors.sum",
    "l1tex__t_bytes.sum",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum",
    "smsp__inst_executed.sum",
    "smsp__inst_executed_pipe_lsu.sum",
    "smsp__warps_launched.sum",
    "sm__ctas_launched.sum",
    "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum",
    "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum",
    "gpu__time_duration.sum",
    "sm__cycles_elapsed.max",
    "sm__cycles_active.avg",
    "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "lts__throughput.avg.pct_of_peak_sustained_elapsed",
    "l1tex__throughput.avg.pct_of_peak_sustained_active",
    "lts__t_sector_hit_rate.pct",
    "l1tex__t_sector_hit_rate.pct",
    "sm__warps_active.avg.pct_of_peak_sustained_active",
    "sm__inst_executed.avg.per_cycle_active",
    "smsp__issue_active.avg.pct_of_peak_sustained_active",
];

const MATRIX_ROWS: u32 = 4096;

struct Work {
    gpu: Gpu,
    stream: Arc<CudaStream>,
    large: Victims,
    small: Victims,
    known: Known,
    x: CudaSlice<f32>,
    y: CudaSlice<f32>,
}

impl Work {
    fn new() -> Outcome<Self> {
        let gpu = Gpu::open()?;
        let stream = gpu.stream()?;
        let large = Victims::new(&gpu, &stream, 256 << 20)?;
        let small = Victims::new(&gpu, &stream, 16 << 20)?;
        let known = Known::new(&gpu)?;
        let elements = MATRIX_ROWS as usize * MATRIX_ROWS as usize;
        let (x, y) = (gpu.zeros(&stream, elements)?, gpu.zeros(&stream, elements)?);
        gpu.synchronize()?;
        Ok(Self { gpu, stream, large, small, known, x, y })
    }

    fn launch(&mut self, kernel: &str) -> Result<(), String> {
        let stream = &self.stream;
        match kernel {
            "victim_copy" => self.large.copy(stream),
            "victim_read" => self.small.read(stream),
            "fma_chain" => self.known.fma_chain(stream, &mut self.y, 132 * 16, 512).map(drop),
            "transpose" => self.known.transpose(stream, &self.x, &mut self.y, MATRIX_ROWS),
            _ => self.gpu.saxpy(stream, &mut self.y, &self.x, 1.0),
        }
    }

    /// Each kernel as often as it is launched, waited for each time.
    fn sequence(&mut self) -> Result<(), String> {
        for kernel in KERNELS {
            for _ in 0..WARM_UP + COUNTED {
                self.launch(kernel)?;
                self.gpu.synchronize()?;
            }
        }
        Ok(())
    }
}

/// Without counting.
pub fn plain() -> Outcome {
    Ok(Work::new()?.sequence()?)
}

/// Each kernel by itself, repeated by CUPTI. Launches have the same numbers as in `plain`.
pub fn by_kernels() -> Outcome {
    let mut work = Work::new()?;
    let room = KERNELS.len() * (WARM_UP + COUNTED);
    let counted = Session::new(plan(&METRICS)?).max_ranges(room).run_kernels(|| work.sequence())?;
    print_rows("kernels", "", &counted);
    print_timings("kernels", "timings", &counted);
    Ok(())
}

/// Ranges of one launch, behind launches that are not counted.
pub fn by_ranges() -> Outcome {
    let mut work = Work::new()?;
    let counted = Session::new(plan(&METRICS)?).run(|pass| {
        for kernel in KERNELS {
            (0..WARM_UP).try_for_each(|_| work.launch(kernel))?;
            work.gpu.synchronize()?;
            for _ in 0..COUNTED {
                pass.range(kernel, || work.launch(kernel))?;
                work.gpu.synchronize()?;
            }
        }
        Ok::<_, String>(())
    })?;
    print_rows("ranges", "", &counted);
    print_timings("ranges", "timings", &counted);
    Ok(())
}
