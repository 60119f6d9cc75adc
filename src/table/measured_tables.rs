//! The tables of what was measured over configurations and runs.

use std::sync::Arc;

use super::added::Cell;
use super::batch::table;
use super::column::{Coded, Delta, Flags, Nullable, Reals, Words};
use super::rows::{AggregateRow, SampleRow};

table! {
    /// `samples`.
    Samples(row: &SampleRow) {
        /// The configuration in words, `n=512, half=true`; empty without parameters.
        config: Words<Arc<str>> = &row.config;
        /// Number of the configuration, from 0.
        config_index: Coded<i64> = row.config_index;
        /// The parameters of the configuration, as a JSON object; each is also a column `p_<name>`.
        parameters: Words<Arc<str>> = &row.parameters;
        /// Number of the run in its configuration, from 0; of counters, which are counted in runs of their own, the number
        /// of the counting.
        run: Nullable<Delta<i64>> = row.run;
        /// Number of the run in the order in which all were made, from 0; null for counters.
        order_index: Nullable<Delta<i64>> = row.order;
        /// When the run began on the host, since the Unix epoch, on the clock of `launches`; of counters, when counting
        /// began.
        start_ns: Delta<i64> ["ns"] = row.start_ns;
        /// Number of the round that the run was made in, from 0: in each, all configurations have a block of runs
        /// (a single one where they are all made one after the other); null for counters.
        block_index: Nullable<Delta<i64>> = row.block;
        /// Name of the annotation.
        annotation: Words<Arc<str>> = &row.annotation;
        /// Id of the annotation in `ranges`, whose kernels have it in `launches`; null for counters, and where the dataset
        /// has no launches.
        range_id: Nullable<Delta<i64>> = row.range_id;
        /// How often the annotation was used before in the same run.
        repeat: Coded<i64> = row.repeat;
        /// The kernel, where the value is of one of them; null for the whole annotation.
        kernel: Nullable<Words<Arc<str>>> = row.kernel.as_ref();
        /// Name of the metric.
        metric: Words<Arc<str>> = &row.metric;
        /// Unit of the value.
        unit: Words<Arc<str>> = &row.unit;
        /// The value; null where not valid.
        value: Nullable<Reals> = row.value;
        /// Whether there is a value.
        valid: Flags = row.value.is_some();
        /// Why not valid: `no_kernel`, `no_selected_kernel`, `zero_timestamp`, `end_before_start`, `out_of_range`,
        /// `not_a_number`, `not_counted`, `queue_broken: …`, `failed: …`; null where valid.
        invalid_reason: Nullable<Words<Arc<str>>> = row.invalid_reason.as_ref();
        /// How far the value lies from the bulk of those of the same annotation, metric and configuration: `low_severe`,
        /// `low_mild`, `high_mild`, `high_severe` (more than 3, or 1.5, interquartile ranges beyond the quartiles); null
        /// where it belongs to it.
        outlier: Nullable<Words<&'static str>> = row.outlier.as_ref();
        /// Kernels that the value is of; 0 for counters.
        n_launches: Coded<i64> = row.n_launches;
        /// How the kernels came to the GPU: `stream`, as they were launched; `blocked`, all together, behind a kernel that
        /// waited for the last launch; `graph`, all or some as nodes of a graph; `serialized`, each after the end of the
        /// one before, without CUPTI's code in it. Null for counters.
        launch_mode: Nullable<Words<&'static str>> = row.launch_mode.as_ref();
        /// Time of the whole run on the host; null for counters.
        wall_ns: Nullable<Delta<i64>> ["ns"] = row.wall_ns;
        /// State of the L2 cache before the annotation, `none` where nothing was done to it.
        cache_state: Words<Arc<str>> = &row.cache_state;
        /// The clocks: `fixed_frequency` where somebody pinned them, `free` otherwise.
        clock_mode: Words<Arc<str>> = &row.clock_mode;
        /// Clock of the multiprocessors, within 50 ms of the run's end, or at the end of the counting; null where not known, as in the columns below.
        sm_clock_mhz: Nullable<Coded<u32>> ["MHz"] = row.sm_clock_mhz;
        /// Clock of the device memory.
        memory_clock_mhz: Nullable<Coded<u32>> ["MHz"] = row.memory_clock_mhz;
        /// Temperature of the GPU.
        temperature_c: Nullable<Coded<i64>> ["C"] = row.temperature_c;
        /// Distance to the temperature at which the GPU slows down.
        thermal_margin_c: Nullable<Coded<i64>> ["C"] = row.thermal_margin_c;
        /// Power draw.
        power_mw: Nullable<Coded<u32>> ["mW"] = row.power_mw;
        /// What held the clocks down.
        throttle: Nullable<Words<Arc<str>>> = row.throttle.as_ref();
        /// For how long the power limit held the clocks down, in some 50 ms around the run, in a longer run, or in the counting.
        power_throttled_ns: Nullable<Delta<i64>> ["ns"] = row.power_throttled_ns;
        /// For how long heat did.
        thermal_throttled_ns: Nullable<Delta<i64>> ["ns"] = row.thermal_throttled_ns;
    } with parameters_added = &row.cells
}

table! {
    /// `aggregates`.
    Aggregates(row: &AggregateRow) {
        /// The configuration in words; empty without parameters.
        config: Words<Arc<str>> = &row.config;
        /// Number of the configuration, from 0.
        config_index: Coded<i64> = row.config_index;
        /// The parameters of the configuration, as a JSON object; each is also a column `p_<name>`.
        parameters: Words<Arc<str>> = &row.parameters;
        /// Name of the annotation.
        annotation: Words<Arc<str>> = &row.annotation;
        /// The kernel; null for the whole annotation.
        kernel: Nullable<Words<Arc<str>>> = row.kernel.as_ref();
        /// Name of the metric.
        metric: Words<Arc<str>> = &row.metric;
        /// Unit of the values below, unless they are ratios or numbers of samples.
        unit: Words<Arc<str>> = &row.unit;
        /// Samples.
        n: Coded<i64> = row.n;
        /// Samples with a value, which all that follows is about.
        n_valid: Coded<i64> = row.told.n_valid;
        /// Independent samples that these are worth.
        n_eff: Nullable<Reals> = row.told.n_eff;
        /// Resolution of the values; null for none.
        tick: Nullable<Reals> = row.told.tick;
        /// Share of the samples that have the most frequent value.
        ties_ratio: Nullable<Reals> = row.told.ties_ratio;
        /// Mean.
        mean: Nullable<Reals> = row.told.mean;
        /// Lower end of the 95 % interval of the mean, by Student's t with n_eff.
        mean_low: Nullable<Reals> = row.told.mean_interval[0];
        /// Upper end of it.
        mean_high: Nullable<Reals> = row.told.mean_interval[1];
        /// Standard deviation (n - 1), at least tick/sqrt(12).
        std_dev: Nullable<Reals> = row.told.std_dev;
        /// Standard deviation over mean.
        cv_ratio: Nullable<Reals> = row.told.cv;
        /// Whether cv_ratio is below 2 %, or the share that was set (`Bench::stable_below`); false where it is not known.
        stable: Flags = row.told.is_stable;
        /// Least value.
        min: Nullable<Reals> = row.told.min;
        /// Greatest value.
        max: Nullable<Reals> = row.told.max;
        /// Quantile for 1 %, interpolated linearly (type 7), as those that follow.
        p1: Nullable<Reals> = row.told.quantiles[0];
        /// Quantile for 5 %.
        p5: Nullable<Reals> = row.told.quantiles[1];
        /// Lower quartile.
        p25: Nullable<Reals> = row.told.quantiles[2];
        /// Median.
        median: Nullable<Reals> = row.told.quantiles[3];
        /// Upper quartile.
        p75: Nullable<Reals> = row.told.quantiles[4];
        /// Quantile for 95 %.
        p95: Nullable<Reals> = row.told.quantiles[5];
        /// Quantile for 99 %.
        p99: Nullable<Reals> = row.told.quantiles[6];
        /// Lower end of the 95 % interval of the median, by ranks; null for fewer than 6 samples.
        median_low: Nullable<Reals> = row.told.median_interval[0];
        /// Upper end of it.
        median_high: Nullable<Reals> = row.told.median_interval[1];
        /// Median by Harrell and Davis.
        hd_p50: Nullable<Reals> = row.told.harrell_davis_p50;
        /// Quantile for 99 % by Harrell and Davis.
        hd_p99: Nullable<Reals> = row.told.harrell_davis_p99;
        /// Median absolute deviation times 1.4826, at least tick/sqrt(12).
        mad: Nullable<Reals> = row.told.mad;
        /// That over the median.
        robust_cv_ratio: Nullable<Reals> = row.told.robust_cv;
        /// Whether a spread above is the resolution's, and not the values' own.
        resolution_limited: Flags = row.told.is_resolution_limited;
        /// Mean of the values that are not far out.
        fenced_mean: Nullable<Reals> = row.told.fenced_mean;
        /// Lower end of its 95 % interval.
        fenced_mean_low: Nullable<Reals> = row.told.fenced_mean_interval[0];
        /// Upper end of it.
        fenced_mean_high: Nullable<Reals> = row.told.fenced_mean_interval[1];
        /// Values that it leaves out.
        n_fenced_out: Coded<i64> = row.told.n_fenced_out;
        /// Values more than 3 interquartile ranges below the lower quartile.
        n_low_severe: Coded<i64> = row.told.outliers[0];
        /// Values 1.5 to 3 interquartile ranges below it.
        n_low_mild: Coded<i64> = row.told.outliers[1];
        /// Values 1.5 to 3 interquartile ranges above the upper quartile.
        n_high_mild: Coded<i64> = row.told.outliers[2];
        /// Values more than 3 above it.
        n_high_severe: Coded<i64> = row.told.outliers[3];
        /// Correlation of neighbours.
        lag1_autocorrelation: Nullable<Reals> = row.told.lag1_autocorrelation;
        /// Change over the last half, as a share of its median.
        drift_ratio: Nullable<Reals> = row.told.drift_ratio;
        /// Probability that this is chance.
        drift_p: Nullable<Reals> = row.told.drift_p;
        /// Lower of two states that the values alternate between; null for one state, as in the columns below.
        mode_low: Nullable<Reals> = row.told.modes[0];
        /// Upper one.
        mode_high: Nullable<Reals> = row.told.modes[1];
        /// Share of the values around the upper one.
        mode_high_ratio: Nullable<Reals> = row.told.modes[2];
        /// Half the width of the interval of the centre over the centre: the precision that was reached.
        achieved_precision_ratio: Nullable<Reals> = row.told.achieved_precision;
        /// Why no more runs of the configuration were made; null for counters.
        stop_reason: Nullable<Words<&'static str>> = row.stop_reason.as_ref();
        /// The annotation that this one is compared with; null where it is not.
        normalized_against: Nullable<Words<Arc<str>>> = row.normalized_against.as_ref();
        /// Value over that one's: the geometric mean over pairs of the same run.
        ratio: Nullable<Reals> = row.told.ratio;
        /// Lower end of its 95 % interval, by Student's t of the logarithms.
        ratio_low: Nullable<Reals> = row.told.ratio_interval[0];
        /// Upper end of it.
        ratio_high: Nullable<Reals> = row.told.ratio_interval[1];
    } with parameters_added = &row.cells
}

table! {
    /// `compat`.
    Compat(row: &Vec<Option<Cell>>) {
    } with columns_added = row
}
