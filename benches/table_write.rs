//! What a launch row costs from the pipeline's hands to the disk: `cargo bench --bench table_write`.
//!
//! The rooms are compiled into the bench, so that they need not be public. The rows imitate a training step: 25
//! kernels on 4 streams and from 2 threads, 40 range paths, one launch in ten from a graph, about 5 µs apart.
//! The alternative that was rejected, the `parquet` crate's own Arrow writer with the same encodings, is
//! measured on the same rows, already converted to Arrow.
//!
//! Options, after `--`: a number of rows (default 2 000 000), `keep DIR` to keep the dataset, `ours` to leave out
//! the comparison.
#![allow(
    dead_code,
    unused_imports,
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout
)]

#[path = "../src/error.rs"]
mod error;
#[path = "../src/losses.rs"]
mod losses;
#[path = "../src/summary/mod.rs"]
mod summary;
#[path = "../src/table/mod.rs"]
mod table;
#[path = "../src/units.rs"]
mod units;

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;
use summary::SummaryBuilder;
use table::reader::Dataset;
use table::rows::{Attribution, DeviceWork, KernelName, LaunchRow};
use table::schema::Table;
use table::writer::{DatasetWriter, TableSink, WriterOptions};
use units::{CorrelationId, RangeId, ThreadId};

const REPETITIONS: usize = 7;

/// Splitmix64: the same rows every time.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
}

fn kernels() -> Vec<Arc<KernelName>> {
    (0..25)
        .map(|i| {
            let demangled = format!(
                "void at::native::vectorized_elementwise_kernel<{i}, at::native::CUDAFunctor_add<float>, \
                 std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>)"
            );
            let mangled = format!("_ZN2at6native29vectorized_elementwise_kernelILi{i}ENS0_15CUDAFunctor_addIfEESt5arrayIPcLm3EEEEviT0_T1_");
            Arc::new(KernelName { mangled: mangled.into(), demangled: demangled.into() })
        })
        .collect()
}

fn launches(count: usize) -> Vec<LaunchRow> {
    let mut random = Random(1);
    let kernels = kernels();
    let paths: Vec<Arc<str>> = (0..40).map(|i| format!("train/step/layer {i}/forward").into()).collect();
    let mut clock_ns = 1_790_000_000_000_000_000;
    let mut graph_left = 0;
    (0..count)
        .map(|i| {
            clock_ns += 3_000 + random.below(4_000) as i64;
            // Mostly the same order, with one launch in five out of it, so that compression has something to do.
            let astray = if random.below(5) == 0 { random.below(25) as usize } else { 0 };
            let kernel = (i * 7 + i / 1_000 + astray) % kernels.len();
            let ticks = |ns: i64| ns / 32 * 32;
            let start_ns = ticks(clock_ns);
            let end_ns = ticks(clock_ns + 1_500 + kernel as i64 * 200 + random.below(400) as i64);
            if graph_left == 0 && random.below(100) == 0 {
                graph_left = 10;
            }
            let in_graph = graph_left > 0;
            graph_left -= i32::from(in_graph);
            LaunchRow {
                work: DeviceWork {
                    range: RangeId::from_raw(1 + i as u64 / 12),
                    range_path: Some(paths[i / 12 % paths.len()].clone()),
                    range_set: None,
                    start_ns,
                    end_ns,
                    duration_ns: Some(end_ns - start_ns),
                    launch_lead_ns: Some(4_000 + random.below(6_000) as i64),
                    thread: Some(ThreadId(4_000 + (i as u32 / 500) % 2)),
                    correlation: CorrelationId(1 + i as u32),
                    device: 0,
                    context: 1,
                    stream: 7 + random.below(8).saturating_sub(4) as u32,
                    graph: in_graph.then_some(3),
                    graph_node: in_graph.then_some(0x3_0000_0000 + graph_left as u64),
                    invalid: None,
                    attribution: Attribution::Range,
                },
                kernel: kernels[kernel].clone(),
                grid: [(1 + kernel as i32) * 64 + random.below(4) as i32, 1 + (kernel as i32) % 3, 1],
                block: [128 << (kernel % 3), 1, 1],
                cluster: None,
                registers_per_thread: 32 + kernel as u16 * 4,
                static_shared_memory_bytes: 1_024 * (kernel as i32 % 5),
                dynamic_shared_memory_bytes: 0,
                local_memory_per_thread_bytes: 0,
            }
        })
        .collect()
}

/// Our way: rows to a dataset.
fn write_dataset(folder: &Path, rows: &[LaunchRow]) -> u64 {
    let options = WriterOptions { overwrite: true, ..WriterOptions::default() };
    let mut writer = DatasetWriter::create(folder, options).unwrap();
    for row in rows {
        writer.launch(row);
    }
    let report = writer.close();
    assert!(report.first_error.is_none());
    report.tables[&Table::Launches].bytes
}

/// The rejected way, from the same rows as Arrow batches.
fn write_arrow(path: &Path, dataset: &Dataset) -> u64 {
    let schema = Table::Launches.schema();
    let mut properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(1).unwrap()))
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_offset_index_disabled(true)
        .set_max_row_group_row_count(Some(131_072));
    for column in ["range_id", "start_ns", "end_ns", "duration_ns", "launch_lead_ns", "correlation_id"] {
        properties = properties
            .set_column_dictionary_enabled(ColumnPath::from(column), false)
            .set_column_encoding(ColumnPath::from(column), Encoding::DELTA_BINARY_PACKED);
    }
    let file = std::fs::File::create(path).unwrap();
    let mut writer = ArrowWriter::try_new(file, schema, Some(properties.build())).unwrap();
    for batch in dataset.batches(Table::Launches) {
        writer.write(&batch.unwrap()).unwrap();
    }
    writer.close().unwrap();
    std::fs::metadata(path).unwrap().len()
}

/// Time that this thread has run, system calls included. Other users of the machine count less than on the wall.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Runs a few times and prints the median, the spread, and the size. The run returns the size of its file.
fn measure(what: &str, rows: usize, mut run: impl FnMut() -> u64) {
    let mut bytes = 0;
    let mut ns_per_row: Vec<f64> = (0..REPETITIONS)
        .map(|_| {
            let start = cpu_time();
            bytes = run();
            (cpu_time() - start).as_secs_f64() * 1e9 / rows as f64
        })
        .collect();
    ns_per_row.sort_by(f64::total_cmp);
    let median = ns_per_row[REPETITIONS / 2];
    println!(
        "{what:<30} {median:7.1} ns/row ({:.1} to {:.1})  {:5.2} M rows/s  {:5.2} bytes/row",
        ns_per_row[0],
        ns_per_row[REPETITIONS - 1],
        1e3 / median,
        bytes as f64 / rows as f64,
    );
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let count = arguments.first().and_then(|count| count.parse().ok()).unwrap_or(2_000_000);
    let keep = arguments.iter().position(|argument| argument == "keep").map(|at| arguments[at + 1].clone());
    let temporary = tempfile::tempdir().unwrap();
    let folder = keep.map_or_else(|| temporary.path().join("bench.cuprof"), Into::into);
    let rows = launches(count);

    // What it takes to fetch the bench's rows from memory; the pipeline's rows are in the cache.
    measure("(reading the bench's rows)", count, || {
        for row in &rows {
            black_box((row.work.end_ns, row.kernel.as_ref() as *const _, row.grid[0], row.work.graph));
        }
        0
    });
    measure("rows to dataset", count, || write_dataset(&folder, black_box(&rows)));
    measure("rows to summary", count, || {
        let mut summary = SummaryBuilder::default();
        rows.iter().for_each(|row| summary.launch(row));
        assert_eq!(black_box(summary.finish()).counts.launches, count as u64);
        0
    });
    if arguments.iter().any(|argument| argument == "ours") {
        return;
    }
    let dataset = Dataset::open(&folder).unwrap();
    assert_eq!(dataset.rows(Table::Launches), count as u64);
    measure("dataset to Arrow (reader)", count, || {
        let read: usize = dataset.batches(Table::Launches).map(|batch| batch.unwrap().num_rows()).sum();
        assert_eq!(read, count);
        0
    });
    // Reading is part of this one and to be subtracted; building the batches from rows is not.
    measure("Arrow to Parquet (ArrowWriter)", count, || {
        write_arrow(&temporary.path().join("arrow.parquet"), &dataset)
    });
}
