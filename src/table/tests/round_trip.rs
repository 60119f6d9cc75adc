//! What is written is what is read.

use std::sync::Arc;

use proptest::prelude::*;

use super::samples::{column, fill, launch, range, transfer, write};
use crate::error::Result;
use crate::table::reader::Dataset;
use crate::table::rows::{Attribution, InvalidReason, KernelName, LaunchRow, RangeRow};
use crate::table::schema::Table;
use crate::table::writer::{TableSink, WriterOptions};
use crate::units::{CorrelationId, RangeId, ThreadId};

fn shown<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

/// A row's value of some columns, as the reader would show it.
fn expected(row: &LaunchRow, name: &str) -> String {
    match name {
        "range_id" => shown(row.work.range.map(RangeId::to_i64)),
        "range_path" => shown(row.work.range_path.clone()),
        "range_set_id" => shown(row.work.range_set),
        "kernel" => row.kernel.demangled.to_string(),
        "kernel_mangled" => row.kernel.mangled.to_string(),
        "start_ns" => row.work.start_ns.to_string(),
        "end_ns" => row.work.end_ns.to_string(),
        "duration_ns" => shown(row.work.duration_ns),
        "launch_lead_ns" => shown(row.work.launch_lead_ns),
        "thread_id" => shown(row.work.thread.map(|thread| thread.0)),
        "correlation_id" => row.work.correlation.0.to_string(),
        "stream" => row.work.stream.to_string(),
        "graph_node_id" => shown(row.work.graph_node.map(|node| node as i64)),
        "grid_x" => (row.grid[0] as u32).to_string(),
        "cluster_z" => shown(row.cluster.map(|cluster| cluster[2])),
        "registers_per_thread" => row.registers_per_thread.to_string(),
        "valid" => row.work.invalid.is_none().to_string(),
        "invalid_reason" => shown(row.work.invalid.map(InvalidReason::as_str)),
        "attribution" => row.work.attribution.as_str().to_owned(),
        other => panic!("{other} is not checked here"),
    }
}

const CHECKED: [&str; 19] = [
    "range_id",
    "range_path",
    "range_set_id",
    "kernel",
    "kernel_mangled",
    "start_ns",
    "end_ns",
    "duration_ns",
    "launch_lead_ns",
    "thread_id",
    "correlation_id",
    "stream",
    "graph_node_id",
    "grid_x",
    "cluster_z",
    "registers_per_thread",
    "valid",
    "invalid_reason",
    "attribution",
];

fn any_name() -> impl Strategy<Value = Arc<str>> {
    prop_oneof![
        Just(Arc::from("")),
        any::<String>().prop_map(Arc::from),
        "[a-c]".prop_map(Arc::from), // equal texts at different addresses
    ]
}

fn any_launch() -> impl Strategy<Value = LaunchRow> {
    let times = (any::<i64>(), any::<i64>(), any::<Option<i64>>(), any::<Option<i64>>());
    let ids = (any::<u64>(), any::<Option<i64>>(), any::<Option<u32>>(), any::<u32>(), any::<Option<u64>>());
    let shape = (any::<[i32; 3]>(), any::<Option<[u32; 3]>>(), any::<u16>());
    let names = (any_name(), any_name(), proptest::option::of(any_name()));
    (times, ids, shape, names, any::<bool>()).prop_map(|(times, ids, shape, names, invalid)| {
        let mut row = launch(1);
        (row.work.start_ns, row.work.end_ns, row.work.duration_ns, row.work.launch_lead_ns) = times;
        row.work.range = RangeId::from_raw(ids.0 >> 1);
        row.work.range_set = ids.1;
        row.work.thread = ids.2.map(ThreadId);
        row.work.correlation = CorrelationId(ids.3);
        row.work.stream = ids.3.rotate_left(7);
        row.work.graph_node = ids.4;
        (row.grid, row.cluster, row.registers_per_thread) = shape;
        row.kernel = Arc::new(KernelName { mangled: names.0, demangled: names.1 });
        row.work.range_path = names.2;
        row.work.invalid = invalid.then_some(InvalidReason::EndBeforeStart);
        row.work.attribution = if invalid { Attribution::NoRange } else { Attribution::GraphUnmapped };
        row
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn launches_come_back_whatever_they_hold(
        rows in prop::collection::vec(any_launch(), 0..400),
        repeat in 1usize..4,
        max_rows_per_part in prop_oneof![Just(u64::MAX), 1u64..300],
    ) {
        let folder = tempfile::tempdir()?;
        // Repetition makes runs, which are encoded in another way than changing values.
        let rows: Vec<&LaunchRow> = rows.iter().flat_map(|row| std::iter::repeat_n(row, repeat)).collect();
        let options = WriterOptions { max_rows_per_part, ..WriterOptions::default() };
        let report = write(folder.path(), options, |writer| rows.iter().for_each(|row| writer.launch(row)))?;
        prop_assert!(report.first_error.is_none());
        prop_assert_eq!(report.tables[&Table::Launches].rows, rows.len() as u64);

        let dataset = Dataset::open(folder.path())?;
        prop_assert_eq!(dataset.rows(Table::Launches), rows.len() as u64);
        for name in CHECKED {
            let wanted: Vec<String> = rows.iter().map(|row| expected(row, name)).collect();
            prop_assert_eq!(column(&dataset, Table::Launches, name)?, wanted, "{}", name);
        }
    }

    #[test]
    fn texts_of_ranges_come_back(
        texts in prop::collection::vec((any::<String>(), any::<Option<String>>()), 1..60),
    ) {
        let folder = tempfile::tempdir()?;
        let rows: Vec<RangeRow> = texts
            .iter()
            .filter_map(|(name, args)| {
                Some(RangeRow { name: name.as_str().into(), args: args.clone(), ..range(1)? })
            })
            .collect();
        write(folder.path(), WriterOptions::default(), |writer| rows.iter().for_each(|row| writer.range(row)))?;
        let dataset = Dataset::open(folder.path())?;
        let names: Vec<&str> = texts.iter().map(|(name, _)| name.as_str()).collect();
        let args: Vec<String> = texts.iter().map(|(_, args)| shown(args.as_ref())).collect();
        prop_assert_eq!(column(&dataset, Table::Ranges, "name")?, names);
        prop_assert_eq!(column(&dataset, Table::Ranges, "args")?, args);
    }
}

#[test]
fn every_table_comes_back() -> Result<()> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let report = write(folder.path(), WriterOptions::default(), |writer| fill(writer, 100))?;
    assert!(report.first_error.is_none(), "{report:?}");
    let dataset = Dataset::open(folder.path())?;
    assert_eq!(dataset.tables().collect::<Vec<_>>(), Table::ALL);
    assert!(dataset.is_complete());

    let total: u64 = Table::ALL.iter().map(|table| dataset.rows(*table)).sum();
    assert_eq!(total, report.total().rows);
    assert_eq!(dataset.env()?["gpu.name"], "NVIDIA H200");
    assert_eq!(dataset.env()?["command"], "./a \"b\" | c\nd – ü");
    assert_eq!(column(&dataset, Table::Losses, "cause")?, ["ring_full"]);
    assert_eq!(column(&dataset, Table::MemoryOperations, "address")?, [(u64::MAX - 4_095).to_string()]);
    assert_eq!(column(&dataset, Table::Overheads, "thread_id")?, ["-"]);
    assert_eq!(column(&dataset, Table::RangeSets, "range_set_id")?, ["4"]);
    Ok(())
}

#[test]
fn bandwidth_is_null_where_there_is_no_time() -> Result<()> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut rows = [transfer(0), transfer(0), transfer(0)];
    (rows[0].bytes, rows[0].work.duration_ns) = (3_008, Some(1_504));
    rows[1].work.duration_ns = Some(0);
    rows[2].work.duration_ns = None;
    write(folder.path(), WriterOptions::default(), |writer| {
        rows.iter().for_each(|row| writer.transfer(row))
    })?;
    let dataset = Dataset::open(folder.path())?;
    assert_eq!(column(&dataset, Table::Transfers, "bandwidth_bytes_per_s")?, ["2000000000", "-", "-"]);
    Ok(())
}

#[test]
fn more_rows_than_a_row_group_come_back_in_order() -> Result<()> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let rows = 300_000;
    let template = launch(1);
    write(folder.path(), WriterOptions::default(), |writer| {
        for i in 0..rows {
            let mut row = template.clone();
            row.work.start_ns = i * 5_003;
            writer.launch(&row);
        }
    })?;
    let starts = column(&Dataset::open(folder.path())?, Table::Launches, "start_ns")?;
    assert!(starts.iter().map(|start| start.parse::<i64>()).eq((0..rows).map(|i| Ok(i * 5_003))));
    Ok(())
}

#[test]
fn a_long_name_is_stored_once_for_each_row_group() -> Result<()> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let name: Arc<str> = "x".repeat(100_000).into();
    let kernel = Arc::new(KernelName { mangled: name.clone(), demangled: name.clone() });
    let rows = 10_000;
    let report = write(folder.path(), WriterOptions::default(), |writer| {
        for i in 0..rows {
            writer.launch(&LaunchRow { kernel: kernel.clone(), ..launch(i) });
        }
    })?;
    assert!(report.tables[&Table::Launches].bytes < 100_000, "{report:?}");
    let kernels = column(&Dataset::open(folder.path())?, Table::Launches, "kernel_mangled")?;
    assert!(kernels.iter().all(|kernel| **kernel == *name));
    Ok(())
}
