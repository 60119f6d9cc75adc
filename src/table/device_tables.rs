//! The tables of what ran on the device: `launches`, `transfers`, `memory_operations`.

use std::sync::Arc;

use super::batch::table;
use super::column::{Coded, Delta, Flags, Nullable, Reals, Words};
use super::rows::{DeviceWork, InvalidReason, LaunchRow, MemoryRow, TransferRow};
use crate::units::RangeId;

/// A number from CUPTI that no run brings near 2^63; larger ones are cut to it rather than turned negative.
pub(super) fn saturated(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// A graph node id keeps its bits, so that one above 2^63 looks negative; readers' 64-bit ids are signed.
fn graph_node(work: &DeviceWork) -> Option<i64> {
    work.graph_node.map(u64::cast_signed)
}

fn bandwidth(row: &TransferRow) -> Option<f64> {
    let duration_ns = row.work.duration_ns.filter(|ns| *ns > 0 && row.work.invalid.is_none())?;
    // CAST: above 2^53 bytes or ns the last digits do not matter to a ratio
    Some(row.bytes as f64 * 1e9 / duration_ns as f64)
}

table! {
    /// `launches`.
    Launches(row: &LaunchRow) {
        /// Innermost range that was open on the launching thread (`ranges`); null outside every range.
        range_id: Nullable<Delta<i64>> = row.work.range.map(RangeId::to_i64);
        /// Names of that range and those around it, joined by `/`.
        range_path: Nullable<Words<Arc<str>>> = row.work.range_path.as_ref();
        /// Set of process-wide ranges that were open at the launch (`range_sets`); null if there was none.
        range_set_id: Nullable<Delta<i64>> = row.work.range_set;
        /// Kernel name for people.
        kernel: Words<Arc<str>> = &row.kernel.demangled;
        /// Kernel name as the module has it.
        kernel_mangled: Words<Arc<str>> = &row.kernel.mangled;
        /// Start on the device, since the Unix epoch; as recorded even where not valid.
        start_ns: Delta<i64> ["ns"] = row.work.start_ns;
        /// End on the device, since the Unix epoch; as recorded even where not valid.
        end_ns: Delta<i64> ["ns"] = row.work.end_ns;
        /// `end_ns` minus `start_ns`; null where not valid.
        duration_ns: Nullable<Delta<i64>> ["ns"] = row.work.duration_ns;
        /// `start_ns` minus the host time of the launching call; null where that call was not seen.
        launch_lead_ns: Nullable<Delta<i64>> ["ns"] = row.work.launch_lead_ns;
        /// Operating system's id of the launching thread; null where the call was not seen.
        thread_id: Nullable<Coded<u32>> = row.work.thread.map(|thread| thread.0);
        /// CUPTI's correlation id; all kernels of one graph launch share it.
        correlation_id: Delta<u32> = row.work.correlation.0;
        /// Device ordinal in the process.
        device: Coded<u32> = row.work.device;
        /// CUPTI's id of the context.
        context: Coded<u32> = row.work.context;
        /// CUPTI's id of the stream.
        stream: Coded<u32> = row.work.stream;
        /// Graph that was launched; null outside graphs.
        graph_id: Nullable<Coded<u32>> = row.work.graph;
        /// Node of the graph (64 bits, kept as they are; may look negative); null outside graphs.
        graph_node_id: Nullable<Coded<i64>> = graph_node(&row.work);
        /// Blocks in x.
        grid_x: Coded<u32> = row.grid[0].cast_unsigned();
        /// Blocks in y.
        grid_y: Coded<u32> = row.grid[1].cast_unsigned();
        /// Blocks in z.
        grid_z: Coded<u32> = row.grid[2].cast_unsigned();
        /// Threads of a block in x.
        block_x: Coded<u32> = row.block[0].cast_unsigned();
        /// Threads of a block in y.
        block_y: Coded<u32> = row.block[1].cast_unsigned();
        /// Threads of a block in z.
        block_z: Coded<u32> = row.block[2].cast_unsigned();
        /// Blocks of a cluster in x; null without clusters.
        cluster_x: Nullable<Coded<u32>> = row.cluster.map(|cluster| cluster[0]);
        /// Blocks of a cluster in y; null without clusters.
        cluster_y: Nullable<Coded<u32>> = row.cluster.map(|cluster| cluster[1]);
        /// Blocks of a cluster in z; null without clusters.
        cluster_z: Nullable<Coded<u32>> = row.cluster.map(|cluster| cluster[2]);
        /// Registers of each thread.
        registers_per_thread: Coded<u16> = row.registers_per_thread;
        /// Shared memory of a block that the kernel declares.
        static_shared_memory_bytes: Coded<u32> ["bytes"] = row.static_shared_memory_bytes.cast_unsigned();
        /// Shared memory of a block that the launch asks for.
        dynamic_shared_memory_bytes: Coded<u32> ["bytes"] = row.dynamic_shared_memory_bytes.cast_unsigned();
        /// Local memory of each thread.
        local_memory_per_thread_bytes: Coded<u32> ["bytes"] = row.local_memory_per_thread_bytes;
        /// False where the times cannot be used.
        valid: Flags = row.work.invalid.is_none();
        /// Why not valid; null where valid.
        invalid_reason: Nullable<Words<&'static str>> = row.work.invalid.map(InvalidReason::as_str).as_ref();
        /// How the row was tied to its launch, or why it was not.
        attribution: Words<&'static str> = &row.work.attribution.as_str();
    }
}

table! {
    /// `transfers`.
    Transfers(row: &TransferRow) {
        /// `memcpy`, `memset` or `peer`.
        operation: Words<&'static str> = &row.operation;
        /// Direction of a copy (`host_to_device`, …; `kind_<number>` of one that the crate does not know); null for a memset.
        copy_kind: Nullable<Words<Arc<str>>> = row.copy_kind.as_ref();
        /// Bytes copied or filled.
        bytes: Coded<i64> ["bytes"] = saturated(row.bytes);
        /// `bytes` over `duration_ns`; null where not valid or without a duration.
        bandwidth_bytes_per_s: Nullable<Reals> ["bytes/s"] = bandwidth(row);
        /// Kind of memory that was read (`pageable`, `pinned`, `device`, …, `kind_<number>`); null for a memset.
        src_kind: Nullable<Words<Arc<str>>> = row.src_kind.as_ref();
        /// Kind of memory that was written, likewise.
        dst_kind: Nullable<Words<Arc<str>>> = row.dst_kind.as_ref();
        /// Device that was read, of a peer copy.
        src_device: Nullable<Coded<u32>> = row.src_device;
        /// Device that was written, of a peer copy.
        dst_device: Nullable<Coded<u32>> = row.dst_device;
        /// Whether the call was asynchronous.
        asynchronous: Flags = row.asynchronous;
        /// Value that a memset filled with; null for copies.
        value: Nullable<Coded<u32>> = row.value;
        /// Innermost range that was open on the calling thread (`ranges`); null outside every range.
        range_id: Nullable<Delta<i64>> = row.work.range.map(RangeId::to_i64);
        /// Names of that range and those around it, joined by `/`.
        range_path: Nullable<Words<Arc<str>>> = row.work.range_path.as_ref();
        /// Set of process-wide ranges that were open at the call (`range_sets`); null if there was none.
        range_set_id: Nullable<Delta<i64>> = row.work.range_set;
        /// Start on the device, since the Unix epoch; as recorded even where not valid.
        start_ns: Delta<i64> ["ns"] = row.work.start_ns;
        /// End on the device, since the Unix epoch; as recorded even where not valid.
        end_ns: Delta<i64> ["ns"] = row.work.end_ns;
        /// `end_ns` minus `start_ns`; null where not valid.
        duration_ns: Nullable<Delta<i64>> ["ns"] = row.work.duration_ns;
        /// `start_ns` minus the host time of the call; null where that call was not seen.
        launch_lead_ns: Nullable<Delta<i64>> ["ns"] = row.work.launch_lead_ns;
        /// Operating system's id of the calling thread; null where the call was not seen.
        thread_id: Nullable<Coded<u32>> = row.work.thread.map(|thread| thread.0);
        /// CUPTI's correlation id.
        correlation_id: Delta<u32> = row.work.correlation.0;
        /// Device ordinal in the process.
        device: Coded<u32> = row.work.device;
        /// CUPTI's id of the context.
        context: Coded<u32> = row.work.context;
        /// CUPTI's id of the stream.
        stream: Coded<u32> = row.work.stream;
        /// Graph that was launched; null outside graphs.
        graph_id: Nullable<Coded<u32>> = row.work.graph;
        /// Node of the graph (64 bits, kept as they are; may look negative); null outside graphs.
        graph_node_id: Nullable<Coded<i64>> = graph_node(&row.work);
        /// False where the times cannot be used.
        valid: Flags = row.work.invalid.is_none();
        /// Why not valid; null where valid.
        invalid_reason: Nullable<Words<&'static str>> = row.work.invalid.map(InvalidReason::as_str).as_ref();
        /// How the row was tied to its call, or why it was not.
        attribution: Words<&'static str> = &row.work.attribution.as_str();
    }
}

table! {
    /// `memory_operations`.
    MemoryOperations(row: &MemoryRow) {
        /// `allocation` or `release`, or `kind_<number>`.
        operation: Words<Arc<str>> = &row.operation;
        /// Kind of memory (`device`, `managed`, …, `kind_<number>`).
        memory_kind: Words<Arc<str>> = &row.memory_kind;
        /// Address of the memory.
        address: Delta<u64> = row.address;
        /// Size of the memory.
        bytes: Coded<i64> ["bytes"] = saturated(row.bytes);
        /// Time of the operation, since the Unix epoch.
        start_ns: Delta<i64> ["ns"] = row.time_ns;
        /// Device ordinal in the process.
        device: Coded<u32> = row.device;
        /// CUPTI's id of the context.
        context: Coded<u32> = row.context;
        /// CUPTI's id of the stream; null where the operation is not bound to one.
        stream: Nullable<Coded<u32>> = row.stream;
        /// CUPTI's correlation id.
        correlation_id: Delta<u32> = row.correlation.0;
        /// Whether the operation is ordered by a stream.
        asynchronous: Flags = row.asynchronous;
    }
}
