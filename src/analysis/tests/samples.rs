//! Datasets to read.

use std::path::Path;
use std::sync::Arc;

use crate::error::Result;
use crate::table::rows::{
    Attribution, DeviceWork, EnvRow, InvalidReason, KernelName, LaunchRow, LossRow, RangeRow, RangeSetRow,
    TransferRow,
};
use crate::table::writer::{DatasetWriter, TableSink, WriterOptions};
use crate::units::{CorrelationId, RangeId, ThreadId};

/// When everything begins.
pub(super) const START_NS: i64 = 1_790_000_000_000_000_000;

/// A launch in the range with this id and path; 0 for none.
pub(super) fn launch(kernel: &str, range: u64, path: &str, start_ns: i64, duration_ns: i64) -> LaunchRow {
    let name: Arc<str> = kernel.into();
    let range = RangeId::from_raw(range);
    LaunchRow {
        work: DeviceWork {
            range,
            range_path: range.map(|_| path.into()),
            range_set: None,
            start_ns: START_NS + start_ns,
            end_ns: START_NS + start_ns + duration_ns,
            duration_ns: Some(duration_ns),
            launch_lead_ns: Some(3_000),
            thread: Some(ThreadId(77)),
            correlation: CorrelationId(u32::try_from(start_ns.unsigned_abs() % 1_000_000).unwrap_or(0) + 1),
            device: 0,
            context: 1,
            stream: 7,
            graph: None,
            graph_node: None,
            invalid: None,
            attribution: if range.is_some() { Attribution::Range } else { Attribution::NoRange },
        },
        kernel: Arc::new(KernelName { mangled: name.clone(), demangled: name }),
        grid: [4, 2, 1],
        block: [128, 1, 1],
        cluster: None,
        registers_per_thread: 32,
        static_shared_memory_bytes: 0,
        dynamic_shared_memory_bytes: 1_024,
        local_memory_per_thread_bytes: 0,
    }
}

/// The same without valid times.
pub(super) fn without_times(mut row: LaunchRow) -> LaunchRow {
    row.work.duration_ns = None;
    row.work.invalid = Some(InvalidReason::EndBeforeStart);
    row
}

pub(super) fn transfer(kind: &'static str, bytes: u64, start_ns: i64, duration_ns: i64) -> TransferRow {
    TransferRow {
        work: launch("", 0, "", start_ns, duration_ns).work,
        operation: "memcpy",
        copy_kind: Some(kind.into()),
        bytes,
        src_kind: Some("pinned".into()),
        dst_kind: Some("device".into()),
        src_device: None,
        dst_device: None,
        asynchronous: true,
        value: None,
    }
}

/// A range with the ranges around it in its path.
pub(super) fn range(
    id: u64,
    parent: u64,
    path: &str,
    name: &str,
    start_ns: i64,
    end_ns: i64,
) -> Option<RangeRow> {
    Some(RangeRow {
        range: RangeId::from_raw(id)?,
        parent: RangeId::from_raw(parent),
        name: name.into(),
        path: path.into(),
        domain: None,
        category: None,
        color: None,
        payload: None,
        args: None,
        kind: "own",
        thread: ThreadId(77),
        start_ns: START_NS + start_ns,
        end_ns: START_NS + end_ns,
        closed: true,
        n_launches: 0,
        n_transfers: 0,
        gpu_sum_ns: 0,
        gpu_span_ns: None,
    })
}

pub(super) fn process_range(id: u64, name: &str) -> Option<RangeRow> {
    let row = range(id, 0, name, name, 0, 1_000_000)?;
    Some(RangeRow { kind: "process", ..row })
}

pub(super) fn set(set: i64, range: u64) -> Option<RangeSetRow> {
    Some(RangeSetRow { set, range: RangeId::from_raw(range)? })
}

pub(super) fn fact(key: &str, value: &str) -> EnvRow {
    EnvRow { key: key.into(), value: value.into() }
}

pub(super) fn loss(cause: &'static str, count: u64) -> LossRow {
    LossRow { cause, count, meaning: "records that are missing" }
}

/// Writes a dataset and closes it.
pub(super) fn write(folder: &Path, fill: impl FnOnce(&mut DatasetWriter)) -> Result<()> {
    let mut writer = DatasetWriter::create(folder, WriterOptions::default())?;
    writer.env(&fact("gpu.0.name", "NVIDIA H200"));
    fill(&mut writer);
    let closed = writer.close();
    closed.first_error.map_or(Ok(()), Err)
}
