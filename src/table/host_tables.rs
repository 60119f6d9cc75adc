//! The tables of what happened on the host, and of the run itself.

use std::sync::Arc;

use super::batch::table;
use super::column::{Coded, Delta, Flags, Nullable, Texts, Words};
use super::device_tables::saturated;
use super::rows::{ApiRow, EnvRow, LossRow, MarkRow, OverheadRow, RangeRow, RangeSetRow, SynchronizationRow};
use crate::units::RangeId;

table! {
    /// `ranges`.
    Ranges(row: &RangeRow) {
        /// The range, unique in the process.
        range_id: Delta<i64> = row.range.to_i64();
        /// Range that was innermost on the thread when this one opened; null at the top.
        parent_range_id: Nullable<Delta<i64>> = row.parent.map(RangeId::to_i64);
        /// Name, as given.
        name: Words<Arc<str>> = &row.name;
        /// Names of the ranges around it and its own, joined by `/`.
        range_path: Words<Arc<str>> = &row.path;
        /// Name of the NVTX domain; null for the default domain.
        domain: Nullable<Words<Arc<str>>> = row.domain.as_ref();
        /// Name of the NVTX category, or its number; null for none.
        category: Nullable<Words<Arc<str>>> = row.category.as_ref();
        /// Colour as ARGB.
        color: Nullable<Coded<u32>> = row.color;
        /// NVTX payload, as the text of the number.
        payload: Nullable<Texts> = row.payload.as_deref();
        /// Typed arguments, as a JSON object.
        args: Nullable<Texts> = row.args.as_deref();
        /// `stack`, `process` or `own`.
        kind: Words<&'static str> = &row.kind;
        /// Operating system's id of the thread that opened it.
        thread_id: Coded<u32> = row.thread.0;
        /// Opened, since the Unix epoch.
        start_ns: Delta<i64> ["ns"] = row.start_ns;
        /// Closed, since the Unix epoch; the last known time where it was never closed.
        end_ns: Delta<i64> ["ns"] = row.end_ns;
        /// `end_ns` minus `start_ns`, on the host.
        duration_ns: Delta<i64> ["ns"] = row.end_ns.saturating_sub(row.start_ns);
        /// False: still open when the session ended.
        closed: Flags = row.closed;
        /// Kernels launched inside, nested ranges included.
        n_launches: Delta<i64> = saturated(row.n_launches);
        /// Copies and fills made inside, nested ranges included.
        n_transfers: Delta<i64> = saturated(row.n_transfers);
        /// Sum of the durations of the kernels.
        gpu_sum_ns: Delta<i64> ["ns"] = row.gpu_sum_ns;
        /// First start to last end of the kernels; null without a valid kernel.
        gpu_span_ns: Nullable<Delta<i64>> ["ns"] = row.gpu_span_ns;
    }
}

table! {
    /// `range_sets`.
    RangeSets(row: &RangeSetRow) {
        /// The set.
        range_set_id: Delta<i64> = row.set;
        /// A range that was open in it.
        range_id: Delta<i64> = row.range.to_i64();
    }
}

table! {
    /// `marks`.
    Marks(row: &MarkRow) {
        /// Time of the mark, since the Unix epoch.
        start_ns: Delta<i64> ["ns"] = row.time_ns;
        /// Text of the mark.
        name: Words<Arc<str>> = &row.name;
        /// Name of the NVTX domain; null for the default domain.
        domain: Nullable<Words<Arc<str>>> = row.domain.as_ref();
        /// Name of the NVTX category, or its number; null for none.
        category: Nullable<Words<Arc<str>>> = row.category.as_ref();
        /// Colour as ARGB.
        color: Nullable<Coded<u32>> = row.color;
        /// NVTX payload, as the text of the number.
        payload: Nullable<Texts> = row.payload.as_deref();
        /// Operating system's id of the thread.
        thread_id: Coded<u32> = row.thread.0;
        /// Innermost range that was open on the thread; null outside every range.
        range_id: Nullable<Delta<i64>> = row.range.map(RangeId::to_i64);
    }
}

table! {
    /// `overheads`.
    Overheads(row: &OverheadRow) {
        /// What the time was spent on; `cuprof_cache_flush`: time on the device for the crate's own cache control,
        /// and `kind_<number>`: CUPTI's number, which the crate does not know.
        kind: Words<Arc<str>> = &row.kind;
        /// Start, since the Unix epoch.
        start_ns: Delta<i64> ["ns"] = row.start_ns;
        /// End, since the Unix epoch.
        end_ns: Delta<i64> ["ns"] = row.end_ns;
        /// `end_ns` minus `start_ns`.
        duration_ns: Delta<i64> ["ns"] = row.end_ns.saturating_sub(row.start_ns);
        /// Operating system's id of the thread; null where it is not about one.
        thread_id: Nullable<Coded<u32>> = row.thread.map(|thread| thread.0);
        /// Correlation id of the call that it delayed, or of its own; null where not known.
        correlation_id: Nullable<Delta<u32>> = row.correlation.map(|correlation| correlation.0);
    }
}

table! {
    /// `api_calls`.
    ApiCalls(row: &ApiRow) {
        /// `driver` or `runtime`.
        domain: Words<&'static str> = &row.domain;
        /// Name of the function, or `cbid_<n>` where it is not known.
        name: Words<Arc<str>> = &row.name;
        /// Call, since the Unix epoch.
        start_ns: Delta<i64> ["ns"] = row.start_ns;
        /// Return, since the Unix epoch.
        end_ns: Delta<i64> ["ns"] = row.end_ns;
        /// `end_ns` minus `start_ns`.
        duration_ns: Delta<i64> ["ns"] = row.end_ns.saturating_sub(row.start_ns);
        /// Operating system's id of the calling thread.
        thread_id: Coded<u32> = row.thread.0;
        /// CUPTI's correlation id, shared with what the call caused on the device.
        correlation_id: Delta<u32> = row.correlation.0;
        /// Result code of the call.
        return_value: Coded<u32> = row.return_value;
    }
}

table! {
    /// `synchronizations`.
    Synchronizations(row: &SynchronizationRow) {
        /// What was waited for (`event`, `stream`, …, `kind_<number>`).
        kind: Words<Arc<str>> = &row.kind;
        /// Start, since the Unix epoch.
        start_ns: Delta<i64> ["ns"] = row.start_ns;
        /// End, since the Unix epoch.
        end_ns: Delta<i64> ["ns"] = row.end_ns;
        /// `end_ns` minus `start_ns`.
        duration_ns: Delta<i64> ["ns"] = row.end_ns.saturating_sub(row.start_ns);
        /// CUPTI's correlation id.
        correlation_id: Delta<u32> = row.correlation.0;
        /// CUPTI's id of the context.
        context: Coded<u32> = row.context;
        /// CUPTI's id of the stream; null where the call is not about one stream.
        stream: Nullable<Coded<u32>> = row.stream;
    }
}

table! {
    /// `env`.
    Env(row: &EnvRow) {
        /// What the fact is about.
        key: Texts = &row.key;
        /// The fact, as text.
        value: Texts = &row.value;
    }
}

table! {
    /// `losses`.
    Losses(row: &LossRow) {
        /// The cause, by its name.
        cause: Words<&'static str> = &row.cause;
        /// How many records it concerns.
        count: Delta<i64> = saturated(row.count);
        /// The cause in words, and what helps.
        meaning: Words<&'static str> = &row.meaning;
    }
}
