//! Named sets of metrics, in names that hold on every chip.

use super::catalogue::Catalogue;
use super::grammar;
use crate::error::Result;

/// A named set of metrics. Its name can stand wherever a list of metrics is asked for.
///
/// What it becomes depends on the chip and on the CUPTI version: a metric that has another name there is asked for by
/// that ([`Plan::aliases`](super::Plan::aliases)), and one that does not exist there is reported
/// ([`Plan::missing`](super::Plan::missing)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Preset {
    /// What everybody wants to know, in one pass: time, cycles, clock, DRAM traffic, L2 traffic and hit rates,
    /// occupancy, tensor and issue activity. What would need a second pass on a chip is left out, and reported.
    Headline,
    /// What a roofline is drawn from: time, bytes of DRAM and of both caches, floating-point operations, and the
    /// limits of the chip.
    Roofline,
    /// The way of the data: DRAM, L2, L1, shared and local memory.
    Memory,
    /// The pipelines: throughput of the SMs and activity of each pipe.
    Compute,
    /// Warps: how many there are, how many could issue, and why not.
    Occupancy,
    /// What fusing kernels would save: traffic to DRAM and L2, and instructions, beside the time.
    Fusion,
}

/// Names of the same thing: the first is the common one, later ones are for chips that call it otherwise.
const ALIASES: [&[&str]; 5] = [
    &["dram__bytes_read", "dram__bytes_op_read"],
    &["dram__bytes_write", "dram__bytes_op_write"],
    &["sm__pipe_tensor_op_hmma_cycles_active", "sm__pipe_tensor_subpipe_hmma_cycles_active"],
    &["sm__inst_executed_pipe_tensor_op_hmma", "sm__inst_executed_pipe_tensor_subpipe_hmma"],
    &["dram__sectors_read", "dram__sectors_op_read"],
];

const HEADLINE: &[&str] = &[
    "gpu__time_duration.sum",
    "sm__cycles_active.avg",
    "sm__cycles_elapsed.max",
    "sm__cycles_elapsed.avg.per_second",
    "dram__bytes_read.sum",
    "dram__bytes_write.sum",
    "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "lts__t_bytes.sum",
    "lts__average_t_sector_hit_rate_realtime.pct",
    "l1tex__t_sector_hit_rate.pct",
    "sm__warps_active.avg.pct_of_peak_sustained_active",
    "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
    "sm__inst_issued.avg.pct_of_peak_sustained_active",
    "smsp__inst_executed.sum",
];

const ROOFLINE: &[&str] = &[
    "gpu__time_duration.sum",
    "sm__cycles_elapsed.avg.per_second",
    "dram__bytes.sum",
    "dram__bytes_read.sum",
    "dram__bytes_write.sum",
    "dram__bytes.sum.peak_sustained",
    "dram__cycles_elapsed.avg.per_second",
    "lts__t_bytes.sum",
    "l1tex__t_bytes.sum",
    "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum",
    "smsp__sass_thread_inst_executed_op_fmul_pred_on.sum",
    "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum",
    "smsp__sass_thread_inst_executed_op_dadd_pred_on.sum",
    "smsp__sass_thread_inst_executed_op_dmul_pred_on.sum",
    "smsp__sass_thread_inst_executed_op_dfma_pred_on.sum",
    "smsp__sass_thread_inst_executed_op_hadd_pred_on.sum",
    "smsp__sass_thread_inst_executed_op_hmul_pred_on.sum",
    "smsp__sass_thread_inst_executed_op_hfma_pred_on.sum",
    "sm__sass_thread_inst_executed_op_ffma_pred_on.sum.peak_sustained",
    "sm__sass_thread_inst_executed_op_dfma_pred_on.sum.peak_sustained",
    "sm__sass_thread_inst_executed_op_hfma_pred_on.sum.peak_sustained",
    "sm__inst_executed_pipe_tensor.sum",
    "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
];

const MEMORY: &[&str] = &[
    "gpu__time_duration.sum",
    "dram__bytes_read.sum",
    "dram__bytes_write.sum",
    "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "lts__t_bytes.sum",
    "lts__t_sector_hit_rate.pct",
    "lts__throughput.avg.pct_of_peak_sustained_elapsed",
    "l1tex__t_bytes.sum",
    "l1tex__t_sector_hit_rate.pct",
    "l1tex__throughput.avg.pct_of_peak_sustained_active",
    "l1tex__t_bytes_pipe_lsu_mem_local_op_ld.sum",
    "l1tex__t_bytes_pipe_lsu_mem_local_op_st.sum",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum",
    "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio",
    "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_st.ratio",
];

const COMPUTE: &[&str] = &[
    "gpu__time_duration.sum",
    "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "sm__inst_executed.avg.per_cycle_active",
    "sm__inst_executed.avg.per_cycle_elapsed",
    "smsp__inst_executed.sum",
    "sm__inst_executed_pipe_alu.avg.pct_of_peak_sustained_active",
    "sm__inst_executed_pipe_fma.avg.pct_of_peak_sustained_active",
    "sm__inst_executed_pipe_fp64.avg.pct_of_peak_sustained_active",
    "sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_active",
    "sm__inst_executed_pipe_lsu.avg.pct_of_peak_sustained_active",
    "sm__inst_executed_pipe_tensor.sum",
    "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
];

const OCCUPANCY: &[&str] = &[
    "gpu__time_duration.sum",
    "sm__warps_active.avg.pct_of_peak_sustained_active",
    "sm__warps_active.avg.per_cycle_active",
    "sm__ctas_launched.sum",
    "smsp__warps_eligible.avg.per_cycle_active",
    "smsp__issue_active.avg.pct_of_peak_sustained_active",
    "smsp__average_warp_latency_per_inst_issued.ratio",
    "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio",
    "smsp__average_warps_issue_stalled_short_scoreboard_per_issue_active.ratio",
    "smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio",
    "smsp__average_warps_issue_stalled_math_pipe_throttle_per_issue_active.ratio",
    "smsp__average_warps_issue_stalled_wait_per_issue_active.ratio",
];

const FUSION: &[&str] = &[
    "gpu__time_duration.sum",
    "sm__cycles_active.avg",
    "sm__cycles_elapsed.max",
    "dram__bytes_read.sum",
    "dram__bytes_write.sum",
    "lts__t_bytes.sum",
    "l1tex__t_bytes.sum",
    "smsp__inst_executed.sum",
    "sm__warps_active.avg.pct_of_peak_sustained_active",
    "l1tex__t_bytes_pipe_lsu_mem_local_op_ld.sum",
    "l1tex__t_bytes_pipe_lsu_mem_local_op_st.sum",
];

impl Preset {
    /// Every preset.
    pub const ALL: [Self; 6] =
        [Self::Headline, Self::Roofline, Self::Memory, Self::Compute, Self::Occupancy, Self::Fusion];

    /// Its name, which stands for it in lists of metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Headline => "headline",
            Self::Roofline => "roofline",
            Self::Memory => "memory",
            Self::Compute => "compute",
            Self::Occupancy => "occupancy",
            Self::Fusion => "fusion",
        }
    }

    /// The preset with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|preset| preset.name() == name)
    }

    /// Its metrics, by the names that most chips know them by.
    #[must_use]
    pub fn metrics(self) -> &'static [&'static str] {
        match self {
            Self::Headline => HEADLINE,
            Self::Roofline => ROOFLINE,
            Self::Memory => MEMORY,
            Self::Compute => COMPUTE,
            Self::Occupancy => OCCUPANCY,
            Self::Fusion => FUSION,
        }
    }

    /// The most passes that it may take; what goes beyond is left out.
    pub(super) fn max_passes(self) -> Option<usize> {
        (self == Self::Headline).then_some(1)
    }
}

/// What the chip calls a metric that it does not have under this name.
pub(super) fn alias(catalogue: &Catalogue, name: &str) -> Result<Option<String>> {
    let (base, suffix) = grammar::split(name);
    let Some(group) = ALIASES.iter().find(|group| group.contains(&base)) else { return Ok(None) };
    for other in group.iter().filter(|other| **other != base) {
        let other = suffix.map_or_else(|| (*other).to_owned(), |suffix| format!("{other}.{suffix}"));
        if catalogue.countable(&other)?.is_ok() {
            return Ok(Some(other));
        }
    }
    Ok(None)
}
