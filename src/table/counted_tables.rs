//! The tables of what hardware counters counted.

use std::sync::Arc;

use super::batch::table;
use super::column::{Coded, Delta, Nullable, Reals, Words};
use super::rows::MetricRow;

table! {
    /// `metrics`.
    Metrics(row: &MetricRow) {
        /// Names of the range and those around it, joined by `/`; null for a kernel outside every range.
        range_path: Nullable<Words<Arc<str>>> = row.range_path.as_ref();
        /// Number of the range or kernel in its session, from 0, in the order in which they began. In a traced session it goes
        /// on from one counting to the next; of a measurement, each counting of a configuration is a session.
        range_index: Delta<i64> = row.range_index;
        /// How deep the range lies in others of the session, from 1.
        nesting_level: Coded<u16> = row.nesting_level;
        /// Kernel name for people, where each kernel was counted by itself; null where ranges were, or where the
        /// kernel of a count is not known.
        kernel: Nullable<Words<Arc<str>>> = row.kernel.as_ref().map(|kernel| &kernel.demangled);
        /// Kernel name as the module has it; null as `kernel`.
        kernel_mangled: Nullable<Words<Arc<str>>> = row.kernel.as_ref().map(|kernel| &kernel.mangled);
        /// Name of the metric on this chip.
        metric: Words<Arc<str>> = &row.metric;
        /// Name that was asked for; another one where the chip calls it otherwise.
        asked: Words<Arc<str>> = &row.asked;
        /// Value in `unit`; null where there is none, see `null_reason`.
        value: Nullable<Reals> = row.value;
        /// Why there is no value: `not_on_chip`, `not_a_number`, `not_evaluated`, `no_data`; null where there is one.
        null_reason: Nullable<Words<Arc<str>>> = row.null_reason.as_ref();
        /// Unit of the value, derived from the metric's suffix; empty where the metric is not known.
        unit: Words<Arc<str>> = &row.unit;
        /// Passes that the whole set of metrics took, for one nesting level.
        passes: Coded<u32> = row.passes;
        /// `user`: a range of the program; `auto`: one kernel.
        range_mode: Words<Arc<str>> = &row.range_mode;
        /// `user`: the program's code ran once for each pass; `kernel`: each kernel was repeated.
        replay_mode: Words<Arc<str>> = &row.replay_mode;
        /// State of the L2 cache before each range, `none` where nothing was done to it.
        cache_state: Words<Arc<str>> = &row.cache_state;
        /// The clocks: `fixed_frequency` where somebody pinned them, `free` otherwise.
        clock_mode: Words<Arc<str>> = &row.clock_mode;
        /// Name of the chip.
        chip: Words<Arc<str>> = &row.chip;
        /// Device ordinal in the process.
        device: Coded<u32> = row.device;
        /// The configuration of a measurement in words, as in `samples`; null where this was counted otherwise.
        config: Nullable<Words<Arc<str>>> = row.config.as_ref();
        /// Number of the configuration, from 0; null as `config`.
        config_index: Nullable<Coded<i64>> = row.config_index;
        /// Which counting of the configuration, from 0; null as `config`.
        run: Nullable<Coded<i64>> = row.run;
    }
}
