//! Rows to write, and a way to look at what was read.

use std::path::Path;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int32Type, Int64Type, UInt16Type, UInt32Type, UInt64Type};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::DataType;

use crate::error::Result;
use crate::table::added::{AddedColumn, Cell, CellType};
use crate::table::reader::Dataset;
use crate::table::rows::*;
use crate::table::schema::Table;
use crate::table::writer::{CloseReport, DatasetWriter, TableSink, WriterOptions};
use crate::units::{CorrelationId, RangeId, ThreadId};

pub(super) fn work(i: i64) -> DeviceWork {
    DeviceWork {
        range: RangeId::from_raw(i.unsigned_abs() % 5),
        range_path: Some(format!("step/{}", i % 3).into()),
        range_set: (i % 4 == 0).then_some(i),
        start_ns: 1_790_000_000_000_000_000 + i * 5_000,
        end_ns: 1_790_000_000_000_001_504 + i * 5_000,
        duration_ns: Some(1_504),
        launch_lead_ns: (i % 7 != 0).then_some(4_000 - i),
        thread: (i % 7 != 0).then_some(ThreadId(77)),
        correlation: CorrelationId(i as u32),
        device: 0,
        context: 1,
        stream: 7 + (i % 2) as u32,
        graph: (i % 10 == 0).then_some(3),
        graph_node: (i % 10 == 0).then_some(u64::MAX - i as u64),
        invalid: None,
        attribution: Attribution::Range,
    }
}

pub(super) fn launch(i: i64) -> LaunchRow {
    LaunchRow {
        work: work(i),
        kernel: Arc::new(KernelName {
            mangled: format!("_Z3add{}", i % 3).into(),
            demangled: format!("add<{}>", i % 3).into(),
        }),
        grid: [1 + i as i32 % 9, 2, 1],
        block: [128, 1, 1],
        cluster: (i % 2 == 0).then_some([2, 1, 1]),
        registers_per_thread: 32,
        static_shared_memory_bytes: 0,
        dynamic_shared_memory_bytes: 49_152,
        local_memory_per_thread_bytes: 0,
    }
}

pub(super) fn transfer(i: i64) -> TransferRow {
    TransferRow {
        work: work(i),
        operation: if i % 2 == 0 { "memcpy" } else { "memset" },
        copy_kind: (i % 2 == 0).then(|| "host_to_device".into()),
        bytes: 1 << (i % 20),
        src_kind: (i % 2 == 0).then(|| "pinned".into()),
        dst_kind: Some("device".into()),
        src_device: None,
        dst_device: None,
        asynchronous: i % 3 == 0,
        value: (i % 2 == 1).then_some(0xff),
    }
}

pub(super) fn range(i: u64) -> Option<RangeRow> {
    Some(RangeRow {
        range: RangeId::from_raw(i)?,
        parent: RangeId::from_raw(i / 2),
        name: format!("{i}").into(),
        path: format!("step/{i}").into(),
        domain: i.is_multiple_of(2).then(|| "lib".into()),
        category: None,
        color: Some(0xff00_ff00),
        payload: i.is_multiple_of(3).then(|| i.to_string()),
        args: (i % 3 == 1).then(|| format!("{{\"n\":{i}}}")),
        kind: "stack",
        thread: ThreadId(77),
        start_ns: 1_790_000_000_000_000_000 + i as i64,
        end_ns: 1_790_000_000_000_009_000 + i as i64,
        closed: true,
        n_launches: i,
        n_transfers: 0,
        gpu_sum_ns: 10 * i as i64,
        gpu_span_ns: (!i.is_multiple_of(5)).then_some(12 * i as i64),
    })
}

/// A parameter of each type, and one that the rows lack.
fn added_parameters() -> Vec<AddedColumn> {
    let kinds = [
        ("p_n", CellType::Int),
        ("p_scale", CellType::Real),
        ("p_half", CellType::Flag),
        ("p_layout, \"x\"", CellType::Text),
        ("p_lacking", CellType::Text),
    ];
    let column = |(name, kind): (&str, CellType)| AddedColumn {
        name: name.to_owned(),
        kind,
        description: "A parameter.".to_owned(),
    };
    kinds.map(column).to_vec()
}

fn parameters() -> Arc<[Option<Cell>]> {
    [Cell::Int(512), Cell::Int(2), Cell::Flag(true), Cell::Text("row".into())].map(Some).into()
}

/// Some rows of every table.
pub(super) fn fill(sink: &mut DatasetWriter, rows: i64) {
    for i in 1..=rows {
        sink.launch(&launch(i));
        sink.transfer(&transfer(i));
        range(i as u64).iter().for_each(|row| sink.range(row));
    }
    if let Some(range) = RangeId::from_raw(1) {
        sink.range_set(&RangeSetRow { set: 4, range });
    }
    let (thread, correlation) = (ThreadId(77), CorrelationId(5));
    sink.mark(&MarkRow {
        time_ns: 5,
        name: "here".into(),
        domain: None,
        category: None,
        color: None,
        payload: None,
        thread,
        range: None,
    });
    sink.overhead(&OverheadRow {
        kind: "flush".into(),
        start_ns: 1,
        end_ns: 3,
        thread: None,
        correlation: None,
    });
    sink.api_call(&ApiRow {
        domain: "driver",
        name: "cuLaunchKernel".into(),
        start_ns: 1,
        end_ns: 3,
        thread,
        correlation,
        return_value: 0,
    });
    sink.synchronization(&SynchronizationRow {
        kind: "stream".into(),
        start_ns: 1,
        end_ns: 3,
        correlation,
        context: 1,
        stream: None,
    });
    sink.metric(&MetricRow {
        range_path: Some("step".into()),
        range_index: 0,
        nesting_level: 1,
        kernel: None,
        metric: "dram__bytes_op_read.sum".into(),
        asked: "dram__bytes_read.sum".into(),
        value: None,
        null_reason: Some("not_a_number".into()),
        unit: "byte".into(),
        passes: 2,
        range_mode: "user".into(),
        replay_mode: "user".into(),
        cache_state: "none".into(),
        clock_mode: "free".into(),
        chip: "GB202".into(),
        device: 0,
        config: None,
        config_index: None,
        run: None,
    });
    sink.memory_operation(&MemoryRow {
        operation: "allocation".into(),
        memory_kind: "device".into(),
        address: u64::MAX - 4_095,
        bytes: 4_096,
        time_ns: 9,
        device: 0,
        context: 1,
        stream: None,
        correlation,
        asynchronous: false,
    });
    sink.add_parameters(&added_parameters());
    sink.sample(&SampleRow {
        config: "n=512".into(),
        config_index: 0,
        parameters: "{\"n\":512}".into(),
        run: Some(3),
        order: Some(7),
        start_ns: 1_790_000_000_000_000_000,
        block: Some(3),
        annotation: "gemm".into(),
        range_id: Some(5),
        repeat: 0,
        kernel: None,
        metric: "gpu__time_duration.sum".into(),
        unit: "ns".into(),
        value: Some(3_200.0),
        invalid_reason: None,
        outlier: None,
        n_launches: 1,
        launch_mode: Some("stream"),
        wall_ns: Some(50_000),
        cache_state: "cold_clean".into(),
        clock_mode: "free".into(),
        sm_clock_mhz: Some(1_980),
        memory_clock_mhz: None,
        temperature_c: Some(41),
        thermal_margin_c: Some(46),
        power_mw: Some(120_000),
        throttle: None,
        power_throttled_ns: Some(0),
        thermal_throttled_ns: None,
        cells: parameters(),
    });
    sink.aggregate(&AggregateRow {
        config: "n=512".into(),
        config_index: 0,
        parameters: "{\"n\":512}".into(),
        annotation: "gemm".into(),
        kernel: None,
        metric: "gpu__time_duration.sum".into(),
        unit: "ns".into(),
        n: 20,
        told: AggregateValues { n_valid: 19, mean: Some(3_210.5), ..AggregateValues::default() },
        stop_reason: Some("runs_made"),
        normalized_against: None,
        cells: parameters(),
    });
    let real = |name: &str| AddedColumn {
        name: name.to_owned(),
        kind: CellType::Real,
        description: format!("{name}."),
    };
    sink.compat(&[real("AvgValue"), real("StdDev")], &[vec![Some(Cell::Real(3_210.5)), None]]);
    sink.env(&EnvRow { key: "gpu.name".into(), value: "NVIDIA H200".into() });
    sink.env(&EnvRow { key: "command".into(), value: "./a \"b\" | c\nd – ü".into() });
    sink.loss(&LossRow { cause: "ring_full", count: 3, meaning: "events were lost" });
}

pub(super) fn write(
    folder: &Path,
    options: WriterOptions,
    fill: impl FnOnce(&mut DatasetWriter),
) -> Result<CloseReport> {
    let mut writer = DatasetWriter::create(folder, options)?;
    fill(&mut writer);
    Ok(writer.close())
}

/// All values of a column as text, nulls as `-`.
pub(super) fn column(dataset: &Dataset, table: Table, name: &str) -> Result<Vec<String>> {
    let batches = dataset.read(table)?;
    Ok(batches.iter().flat_map(|batch| texts(batch, name)).collect())
}

fn texts(batch: &RecordBatch, name: &str) -> Vec<String> {
    let array = batch.column_by_name(name).unwrap_or_else(|| panic!("no column {name}"));
    (0..array.len()).map(|row| if array.is_null(row) { "-".to_owned() } else { text(array, row) }).collect()
}

fn text(array: &ArrayRef, row: usize) -> String {
    match array.data_type() {
        DataType::Int64 => array.as_primitive::<Int64Type>().value(row).to_string(),
        DataType::UInt16 => array.as_primitive::<UInt16Type>().value(row).to_string(),
        DataType::UInt32 => array.as_primitive::<UInt32Type>().value(row).to_string(),
        DataType::UInt64 => array.as_primitive::<UInt64Type>().value(row).to_string(),
        DataType::Float64 => array.as_primitive::<Float64Type>().value(row).to_string(),
        DataType::Boolean => array.as_boolean().value(row).to_string(),
        DataType::Utf8 => array.as_string::<i32>().value(row).to_owned(),
        DataType::Dictionary(_, _) => dictionary_text(array, row),
        other => panic!("unexpected type {other}"),
    }
}

fn dictionary_text(array: &ArrayRef, row: usize) -> String {
    let dictionary = array.as_dictionary::<Int32Type>();
    let key = dictionary.keys().value(row);
    dictionary.values().as_string::<i32>().value(key as usize).to_owned()
}
