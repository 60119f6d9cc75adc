//! Folders, parts, and what goes wrong with them.

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use arrow_schema::DataType;

use super::samples::{column, fill, launch, transfer, write};
use crate::error::{Error, ErrorKind, Result};
use crate::table::files::{Disk, PartFiles};
use crate::table::reader::Dataset;
use crate::table::schema::{SCHEMA_VERSION, SCHEMA_VERSION_KEY, TABLE_KEY, Table};
use crate::table::writer::{ALWAYS, DatasetWriter, TableSink, WriterOptions};

type TestResult = std::result::Result<(), Box<dyn std::error::Error>>;

fn names(folder: &Path) -> io::Result<Vec<String>> {
    let mut names: Vec<String> = fs::read_dir(folder)?
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect::<io::Result<_>>()?;
    names.sort();
    Ok(names)
}

fn kind<T>(result: Result<T>) -> Option<ErrorKind> {
    result.err().map(|error| error.kind)
}

fn overwriting() -> WriterOptions {
    WriterOptions { overwrite: true, ..WriterOptions::default() }
}

/// The worker owns the writer and may be moved to any thread.
const _: fn() = || {
    fn is_send<T: Send>() {}
    is_send::<DatasetWriter>();
};

#[test]
fn an_empty_run_leaves_the_tables_that_queries_expect() -> TestResult {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("a/run.cuprof");
    let options = WriterOptions { tables: vec![Table::ApiCalls], ..WriterOptions::default() };
    write(&path, options, |_| ())?;
    let dataset = Dataset::open(&path)?;
    let mut wanted = ALWAYS.to_vec();
    wanted.push(Table::ApiCalls);
    wanted.sort();
    assert_eq!(dataset.tables().collect::<Vec<_>>(), wanted);
    assert!(dataset.is_complete());
    assert_eq!(dataset.rows(Table::Launches), 0);
    assert!(dataset.read(Table::Launches)?.is_empty());
    assert!(dataset.read(Table::Marks)?.is_empty());
    Ok(())
}

#[test]
fn a_dataset_is_only_replaced_when_asked() -> TestResult {
    let folder = tempfile::tempdir()?;
    write(folder.path(), WriterOptions { max_rows_per_part: 10, ..WriterOptions::default() }, |writer| {
        fill(writer, 30);
    })?;
    fs::write(folder.path().join("notes.txt"), "mine")?;
    fs::write(folder.path().join(".launches-00003.parquet.tmp"), "left by a killed process")?;
    assert_eq!(
        kind(DatasetWriter::create(folder.path(), WriterOptions::default())),
        Some(ErrorKind::OutputExists)
    );
    assert_eq!(Dataset::open(folder.path())?.rows(Table::Launches), 30);

    write(folder.path(), overwriting(), |writer| writer.launch(&launch(1)))?;
    assert_eq!(Dataset::open(folder.path())?.rows(Table::Launches), 1);
    assert_eq!(fs::read_to_string(folder.path().join("notes.txt"))?, "mine");
    assert!(!names(folder.path())?.iter().any(|name| name.ends_with("tmp")));
    Ok(())
}

#[test]
fn a_path_that_names_no_folder_of_its_own_is_refused() -> TestResult {
    let folder = tempfile::tempdir()?;
    for path in [Path::new(""), &folder.path().join("absent/..")] {
        assert_eq!(kind(DatasetWriter::create(path, overwriting())), Some(ErrorKind::Config), "{path:?}");
    }
    assert!(names(folder.path())?.is_empty(), "nothing was created");
    Ok(())
}

#[test]
fn a_file_in_a_datasets_place_is_told_what_a_dataset_is() -> TestResult {
    let file = tempfile::NamedTempFile::new()?;
    let error = Dataset::open(file.path()).err().ok_or("a file was opened as a dataset")?;
    assert!(error.to_string().contains("a dataset is a folder"), "{error}");
    Ok(())
}

#[test]
fn what_is_not_a_dataset_is_never_touched() -> TestResult {
    let folder = tempfile::tempdir()?;
    fs::write(folder.path().join("launches-1.parquet"), "a file of somebody else")?;
    assert_eq!(kind(DatasetWriter::create(folder.path(), overwriting())), Some(ErrorKind::OutputExists));
    let file = folder.path().join("launches-1.parquet");
    assert_eq!(kind(DatasetWriter::create(&file, overwriting())), Some(ErrorKind::OutputExists));
    assert_eq!(names(folder.path())?, ["launches-1.parquet"]);
    assert_eq!(kind(Dataset::open(folder.path())), Some(ErrorKind::Format));
    assert_eq!(kind(Dataset::open(folder.path().join("absent"))), Some(ErrorKind::Io));
    Ok(())
}

#[test]
fn a_part_ends_by_rows() -> TestResult {
    let folder = tempfile::tempdir()?;
    let options = WriterOptions { max_rows_per_part: 40, ..WriterOptions::default() };
    let report = write(folder.path(), options, |writer| fill(writer, 100))?;
    assert_eq!(report.tables[&Table::Launches].parts, 3);
    assert!(folder.path().join("launches-00002.parquet").exists());
    let ids: Vec<String> = (1..=100).map(|id| id.to_string()).collect();
    assert_eq!(column(&Dataset::open(folder.path())?, Table::Launches, "correlation_id")?, ids);
    let none = WriterOptions { max_rows_per_part: 0, ..overwriting() };
    assert_eq!(kind(DatasetWriter::create(folder.path(), none)), Some(ErrorKind::Config));
    Ok(())
}

#[test]
fn a_part_ends_by_age_and_a_killed_process_keeps_it() -> TestResult {
    let folder = tempfile::tempdir()?;
    let mut writer = DatasetWriter::create(folder.path(), WriterOptions::default())?;
    writer.launch(&launch(1));
    writer.tick(Instant::now());
    assert_eq!(names(folder.path())?, [".writing"], "too young");
    writer.tick(Instant::now() + Duration::from_secs(61));
    writer.launch(&launch(2));
    writer.tick(Instant::now());
    std::mem::forget(writer); // as if the process were killed

    let dataset = Dataset::open(folder.path())?;
    assert_eq!(column(&dataset, Table::Launches, "correlation_id")?, ["1"]);
    assert!(!dataset.is_complete());
    Ok(())
}

#[test]
fn two_writers_of_one_folder_do_not_replace_each_others_parts() -> TestResult {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("run.cuprof");
    let mut first = DatasetWriter::create(&path, WriterOptions::default())?;
    assert_eq!(kind(DatasetWriter::create(&path, WriterOptions::default())), Some(ErrorKind::OutputExists));
    first.launch(&launch(1));
    first.close();
    assert_eq!(Dataset::open(&path)?.rows(Table::Launches), 1);
    assert!(!names(&path)?.contains(&".writing".to_owned()));
    Ok(())
}

#[test]
fn dropping_the_writer_keeps_the_rows() -> TestResult {
    let folder = tempfile::tempdir()?;
    DatasetWriter::create(folder.path(), WriterOptions::default())?.launch(&launch(1));
    assert_eq!(names(folder.path())?, ["launches-00000.parquet"]);
    assert_eq!(Dataset::open(folder.path())?.rows(Table::Launches), 1);
    Ok(())
}

/// A disk for so many bytes of each file of one table.
struct FullDisk {
    table: &'static str,
    room: usize,
}

struct FullFile {
    file: Box<dyn Write + Send>,
    room: usize,
}

impl Write for FullFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() > self.room {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.room -= bytes.len();
        self.file.write_all(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl PartFiles for FullDisk {
    fn create(&mut self, path: &Path) -> io::Result<Box<dyn Write + Send>> {
        let file = Disk.create(path)?;
        let is_full = path.to_string_lossy().contains(self.table);
        Ok(if is_full { Box::new(FullFile { file, room: self.room }) } else { file })
    }

    fn publish(&mut self, temporary: &Path, path: &Path) -> io::Result<()> {
        Disk.publish(temporary, path)
    }

    fn discard(&mut self, temporary: &Path) -> io::Result<()> {
        Disk.discard(temporary)
    }
}

#[test]
fn a_full_disk_costs_counted_rows_of_one_table_and_nothing_else() -> TestResult {
    let whole = tempfile::tempdir()?;
    let parts = || WriterOptions { max_rows_per_part: 100, ..WriterOptions::default() };
    write(whole.path(), parts(), |writer| (0..100).for_each(|i| writer.launch(&launch(i))))?;
    let size = fs::metadata(whole.path().join("launches-00000.parquet"))?.len() as usize;

    // From no room at all, over the first row group, to all but the last byte of the footer.
    for room in [0, 100, size / 2, size - 1] {
        let folder = tempfile::tempdir()?;
        let disk = FullDisk { table: "launches-00001", room };
        let mut writer = DatasetWriter::create_with(folder.path(), parts(), Box::new(disk))?;
        for i in 0..350 {
            writer.launch(&launch(i));
            writer.transfer(&transfer(i));
        }
        assert_eq!(writer.rows_lost(), 250, "room for {room}");
        let report = writer.close();
        let launches = report.tables[&Table::Launches];
        assert_eq!((launches.parts, launches.rows, launches.rows_lost), (1, 100, 250), "room for {room}");
        assert_eq!(report.tables[&Table::Transfers].rows, 350);
        let error = report.first_error.map(|error: Error| (error.kind, error.to_string()));
        assert!(
            matches!(&error, Some((ErrorKind::Io, text)) if text.contains("table launches")),
            "{error:?}"
        );

        let dataset = Dataset::open(folder.path())?;
        assert_eq!(dataset.rows(Table::Launches), 100);
        assert_eq!(dataset.rows(Table::Transfers), 350);
        assert!(!names(folder.path())?.iter().any(|name| name.ends_with("tmp")));
    }
    Ok(())
}

#[test]
fn a_folder_that_vanishes_is_an_error_and_not_a_panic() -> TestResult {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("run.cuprof");
    let mut writer = DatasetWriter::create(&path, WriterOptions::default())?;
    fs::remove_dir_all(&path)?;
    fill(&mut writer, 5);
    let report = writer.close();
    assert!(report.first_error.is_some());
    assert_eq!((report.total().rows, report.tables[&Table::Launches].rows_lost), (0, 5));
    Ok(())
}

#[test]
fn a_damaged_dataset_is_refused_with_the_file_named() -> TestResult {
    let folder = tempfile::tempdir()?;
    let options = WriterOptions { max_rows_per_part: 10, ..WriterOptions::default() };
    write(folder.path(), options, |writer| (0..30).for_each(|i| writer.launch(&launch(i))))?;
    let part = |number: u32| folder.path().join(format!("launches-{number:05}.parquet"));
    let refused = |file: &str, why: &str| {
        let error = Dataset::open(folder.path()).err().map(|error| (error.kind, error.to_string()));
        assert!(
            matches!(&error, Some((ErrorKind::Format, text)) if text.contains(file) && text.contains(why)),
            "{file}, {why}: {error:?}"
        );
    };
    let first = fs::read(part(0))?;

    fs::write(part(0), &first[..first.len() / 2])?;
    refused("launches-00000.parquet", "cut short");
    fs::write(part(0), b"")?;
    refused("launches-00000.parquet", "cut short");
    fs::write(part(0), b"PAR1 is not enough PAR1")?;
    refused("launches-00000.parquet", "damaged");
    fs::copy(folder.path().join("ranges-00000.parquet"), part(0))?;
    refused("launches-00000.parquet", "holds the table ranges");

    let newer = String::from_utf8_lossy(&first).contains("cuprof.schema_version");
    assert!(newer, "the footer is not compressed");
    let at = first.windows(21).position(|window| window == b"cuprof.schema_version").ok_or("no version")?;
    let mut later = first.clone();
    later[at + 23] = b'3'; // the key, the value's header and length, the value
    fs::write(part(0), &later)?;
    refused("launches-00000.parquet", "schema version 3");

    fs::write(part(0), &first)?;
    fs::remove_file(part(1))?;
    refused("launches-00001.parquet", "is missing");
    Ok(())
}

/// Writes a part once more, as an earlier version of the crate would have: with this schema version and these columns.
fn rewrite(part: &Path, version: &str, keep: impl Fn(&str) -> bool) -> TestResult {
    rewrite_as(part, version, None, keep)
}

/// The same, as a part of another table.
fn rewrite_as(part: &Path, version: &str, table: Option<&str>, keep: impl Fn(&str) -> bool) -> TestResult {
    use parquet::arrow::ArrowWriter;
    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

    let reader = ParquetRecordBatchReaderBuilder::try_new(fs::File::open(part)?)?;
    let mut facts = reader.schema().metadata().clone();
    facts.insert(SCHEMA_VERSION_KEY.to_owned(), version.to_owned());
    facts.extend(table.map(|table| (TABLE_KEY.to_owned(), table.to_owned())));
    let fields = reader.schema().fields().iter().enumerate();
    let kept: Vec<usize> = fields.filter(|(_, field)| keep(field.name())).map(|(at, _)| at).collect();
    let batches = reader.build()?.collect::<std::result::Result<Vec<_>, _>>()?;
    let schema = batches[0].schema().project(&kept)?.with_metadata(facts.clone());
    let mut properties = parquet::file::properties::WriterProperties::builder();
    let facts = facts.into_iter().map(|(key, value)| parquet::file::metadata::KeyValue::new(key, value));
    properties = properties.set_key_value_metadata(Some(facts.collect()));
    let file = fs::File::create(part)?;
    let mut writer = ArrowWriter::try_new(file, schema.into(), Some(properties.build()))?;
    for batch in batches {
        writer.write(&batch.project(&kept)?)?;
    }
    writer.close()?;
    Ok(())
}

#[test]
fn files_of_an_earlier_version_are_read_with_the_later_columns_null() -> TestResult {
    let folder = tempfile::tempdir()?;
    let options = WriterOptions { max_rows_per_part: 20, ..WriterOptions::default() };
    write(folder.path(), options, |writer| (0..30).for_each(|i| writer.launch(&launch(i))))?;
    let part = folder.path().join("launches-00000.parquet");
    // One that is text, one that is never null today, one that may be.
    let later = ["kernel", "registers_per_thread", "launch_lead_ns"];
    rewrite(&part, "0", |name| !later.contains(&name))?;

    let dataset = Dataset::open(folder.path())?;
    assert!(dataset.is_complete());
    assert_eq!(dataset.rows(Table::Launches), 30);
    let today: Vec<_> = Table::Launches.schema().fields().iter().map(|field| field.name().clone()).collect();
    let batches = dataset.read(Table::Launches)?;
    for batch in &batches {
        let names: Vec<_> = batch.schema().fields().iter().map(|field| field.name().clone()).collect();
        assert_eq!(names, today, "every batch has all of today's columns, in today's order");
    }
    for name in later {
        let nulls = |at: usize| batches[at].column_by_name(name).map(arrow_array::Array::logical_null_count);
        assert_eq!(nulls(0), Some(20), "{name} came later");
        assert!(nulls(1) < Some(10), "{name} is in the other part");
    }
    let ids: Vec<String> = (0..30).map(|id| id.to_string()).collect();
    assert_eq!(column(&dataset, Table::Launches, "correlation_id")?, ids, "what was there is read");

    // The same columns under today's version are damage.
    rewrite(&part, &SCHEMA_VERSION.to_string(), |name| !later.contains(&name))?;
    let error = Dataset::open(folder.path()).err().map(|error| error.to_string()).unwrap_or_default();
    assert!(error.contains("its columns are not those of its schema version"), "{error}");
    Ok(())
}

#[test]
fn a_file_of_a_later_version_is_refused_and_says_what_to_do() -> TestResult {
    let folder = tempfile::tempdir()?;
    write(folder.path(), WriterOptions::default(), |writer| writer.launch(&launch(1)))?;
    let later = crate::table::schema::SCHEMA_VERSION + 1;
    rewrite(&folder.path().join("launches-00000.parquet"), &later.to_string(), |_| true)?;
    let error = Dataset::open(folder.path()).err().ok_or("it was read")?;
    assert_eq!(error.kind, ErrorKind::Format);
    let text = error.to_string();
    assert!(text.contains("launches-00000.parquet"), "{text}");
    assert!(text.contains(&format!("schema version {later}, known up to {}", later - 1)), "{text}");
    assert!(text.contains("update to read it"), "{text}");
    Ok(())
}

#[test]
fn a_closed_run_is_complete_only_with_each_of_its_parts() -> TestResult {
    let folder = tempfile::tempdir()?;
    let options = || WriterOptions { max_rows_per_part: 14, overwrite: true, ..WriterOptions::default() };
    for (missing, other) in [
        ("launches-00002.parquet", "launches"),
        ("launches-00000.parquet", "transfers"),
        ("env-00000.parquet", ""),
    ] {
        write(folder.path(), options(), |writer| {
            let launches = if other == "transfers" { 10 } else { 30 };
            (0..launches).for_each(|i| writer.launch(&launch(i)));
        })?;
        assert!(Dataset::open(folder.path())?.is_complete());
        fs::remove_file(folder.path().join(missing))?;
        assert!(!Dataset::open(folder.path())?.is_complete(), "without {missing}");
    }
    Ok(())
}

#[test]
fn damaged_bytes_give_errors_or_other_values_and_never_a_panic() -> TestResult {
    let folder = tempfile::tempdir()?;
    write(folder.path(), WriterOptions::default(), |writer| {
        (0..200).for_each(|i| writer.launch(&launch(i)))
    })?;
    let part = folder.path().join("launches-00000.parquet");
    let whole = fs::read(&part)?;
    let mut refused = 0;
    for at in (0..whole.len()).step_by(17) {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x55;
        fs::write(&part, &damaged)?;
        let read = Dataset::open(folder.path()).and_then(|dataset| dataset.read(Table::Launches));
        if let Err(error) = read {
            assert!(error.to_string().contains("launches-00000.parquet"), "{at}: {error}");
            refused += 1;
        }
    }
    assert!(refused > 0);
    Ok(())
}

#[test]
fn a_foreign_parquet_file_is_refused() -> TestResult {
    use std::sync::Arc;

    let folder = tempfile::tempdir()?;
    let schema = parquet::schema::parser::parse_message_type("message foreign { required int64 a; }")?;
    let file = fs::File::create(folder.path().join("launches-00000.parquet"))?;
    parquet::file::writer::SerializedFileWriter::new(file, Arc::new(schema), Arc::default())?.close()?;
    let error = Dataset::open(folder.path()).err().map(|error| error.to_string()).unwrap_or_default();
    assert!(error.contains("launches-00000.parquet: a Parquet file, but not of this crate"), "{error}");
    Ok(())
}

/// Set `CUPROF_PYTHON` to an interpreter with pyarrow and any of DuckDB, polars and pandas.
#[test]
#[ignore = "needs CUPROF_PYTHON"]
fn other_readers_see_the_same_values() -> TestResult {
    let python = std::env::var_os("CUPROF_PYTHON").ok_or("CUPROF_PYTHON names no interpreter")?;
    let folder = tempfile::tempdir()?;
    let options = WriterOptions { max_rows_per_part: 4_000, ..WriterOptions::default() };
    // Beside plain rows those with the largest numbers: bytes are cut to 63 bits, ids of nodes keep their bits.
    let (mut huge, mut last) = (transfer(1), launch(1));
    huge.bytes = u64::MAX;
    (last.work.graph, last.work.graph_node) = (Some(u32::MAX), Some(u64::MAX - 6));
    (last.work.start_ns, last.work.end_ns) = (i64::MAX, i64::MAX);
    write(folder.path(), options, |writer| {
        fill(writer, 10_000);
        writer.transfer(&huge);
        writer.launch(&last);
    })?;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/py/check_dataset.py");
    let rows = |table| Dataset::open(folder.path()).map(|dataset| format!("{table}={}", dataset.rows(table)));
    let sum = |value: fn(i64) -> i64| (1..=10_000).map(|i| i128::from(value(i))).sum::<i128>();
    let starts = sum(|i| launch(i).work.start_ns) + i128::from(i64::MAX);
    let nodes = sum(|i| launch(i).work.graph_node.map_or(0, u64::cast_signed)) - 7;
    let bytes = sum(|i| transfer(i).bytes.cast_signed()) + i128::from(i64::MAX);
    let output = std::process::Command::new(python)
        .arg(script)
        .arg(folder.path())
        .args(["--rows", &rows(Table::Launches)?, "--rows", &rows(Table::MemoryOperations)?])
        .args([
            "--sum",
            &format!("launches.start_ns={starts}"),
            "--sum",
            &format!("launches.graph_node_id={nodes}"),
        ])
        .args(["--sum", &format!("transfers.bytes={bytes}")])
        .args(["--sum", &format!("memory_operations.address={}", u64::MAX - 4_095)])
        .output()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    println!("{}", String::from_utf8_lossy(&output.stdout));
    Ok(())
}

#[test]
fn parameters_are_columns_of_their_own_types_and_null_where_a_row_lacks_them() -> TestResult {
    let folder = tempfile::tempdir()?;
    write(folder.path(), WriterOptions::default(), |writer| fill(writer, 1))?;
    let dataset = Dataset::open(folder.path())?;
    for table in [Table::Samples, Table::Aggregates] {
        let names = ["p_n", "p_scale", "p_half", "p_layout, \"x\"", "p_lacking"];
        let found = names.map(|name| column(&dataset, table, name).unwrap_or_default());
        assert_eq!(found, ["512", "2", "true", "row", "-"].map(|text| vec![text.to_owned()]), "{table}");
        let batches = dataset.read(table)?;
        let schema = batches[0].schema();
        let kinds = names[..3].iter().map(|name| schema.field_with_name(name).map(|field| field.data_type()));
        let kinds = kinds.collect::<std::result::Result<Vec<_>, _>>()?;
        assert_eq!(kinds, [&DataType::Int64, &DataType::Float64, &DataType::Boolean]);
    }
    assert_eq!(column(&dataset, Table::Compat, "AvgValue")?, ["3210.5"]);
    assert_eq!(column(&dataset, Table::Compat, "StdDev")?, ["-"]);
    Ok(())
}

#[test]
fn samples_of_the_first_version_are_read_without_what_came_later() -> TestResult {
    let folder = tempfile::tempdir()?;
    write(folder.path(), WriterOptions::default(), |writer| fill(writer, 1))?;
    let part = folder.path().join("samples-00000.parquet");
    rewrite(&part, "1", |name| {
        !["start_ns", "block_index", "outlier", "launch_mode", "thermal_margin_c"].contains(&name)
            && !name.starts_with("p_")
    })?;
    let dataset = Dataset::open(folder.path())?;
    assert_eq!(column(&dataset, Table::Samples, "value")?, ["3200"]);
    assert_eq!(column(&dataset, Table::Samples, "block_index")?, ["-"]);
    assert_eq!(column(&dataset, Table::Samples, "launch_mode")?, ["-"]);
    Ok(())
}

#[test]
fn a_column_that_no_dataset_adds_to_a_table_is_refused() -> TestResult {
    let folder = tempfile::tempdir()?;
    write(folder.path(), WriterOptions::default(), |writer| fill(writer, 1))?;
    let (compat, launches) =
        (folder.path().join("compat-00000.parquet"), folder.path().join("launches-00000.parquet"));
    // The same columns, as those of another table.
    rewrite_as(&compat, &SCHEMA_VERSION.to_string(), Some("launches"), |_| true)?;
    fs::rename(&compat, &launches)?;
    let error = Dataset::open(folder.path()).err().map(|error| error.to_string()).unwrap_or_default();
    assert!(error.contains("its columns are not those of its schema version"), "{error}");
    Ok(())
}
