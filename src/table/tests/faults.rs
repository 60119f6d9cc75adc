//! A disk that fails at each of the operations that writing a dataset takes, in turn.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use super::samples::{launch, transfer};
use crate::error::ErrorKind;
use crate::table::files::{Disk, PartFiles};
use crate::table::reader::Dataset;
use crate::table::schema::Table;
use crate::table::writer::{DatasetWriter, TableSink, WriterOptions};

type TestResult = std::result::Result<(), Box<dyn std::error::Error>>;

/// Which operations fail.
#[derive(Clone, Copy, Debug)]
enum Fails {
    /// One only, as on a network.
    Once(usize),
    /// That one and all later ones, as on a full disk.
    From(usize),
}

struct FailingDisk {
    fails: Fails,
    done: Arc<AtomicUsize>,
    /// What got its name.
    published: Arc<Mutex<Vec<PathBuf>>>,
}

fn step(fails: Fails, done: &AtomicUsize) -> io::Result<()> {
    let number = done.fetch_add(1, Ordering::Relaxed);
    let fails = match fails {
        Fails::Once(at) => number == at,
        Fails::From(at) => number >= at,
    };
    if fails { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
}

struct FailingFile {
    file: Box<dyn Write + Send>,
    fails: Fails,
    done: Arc<AtomicUsize>,
}

impl Write for FailingFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        step(self.fails, &self.done)?;
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        step(self.fails, &self.done)?;
        self.file.flush()
    }
}

impl PartFiles for FailingDisk {
    fn create(&mut self, path: &Path) -> io::Result<Box<dyn Write + Send>> {
        step(self.fails, &self.done)?;
        let file = Disk.create(path)?;
        Ok(Box::new(FailingFile { file, fails: self.fails, done: self.done.clone() }))
    }

    fn publish(&mut self, temporary: &Path, path: &Path) -> io::Result<()> {
        step(self.fails, &self.done)?;
        Disk.publish(temporary, path)?;
        self.published.lock().map_err(|_| io::ErrorKind::Other)?.push(path.to_owned());
        Ok(())
    }

    /// Removing works on a full disk, too.
    fn discard(&mut self, temporary: &Path) -> io::Result<()> {
        Disk.discard(temporary)
    }
}

const LAUNCHES: u64 = 45;
const TRANSFERS: u64 = 12;

/// Writes a dataset on such a disk, and checks that nothing is lost without being told. Returns whether an operation
/// failed.
fn assert_a_failure_is_told(fails: Fails) -> Result<bool, Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let (done, published) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(Vec::new())));
    let disk = FailingDisk { fails, done: done.clone(), published: published.clone() };
    let options = WriterOptions { max_rows_per_part: 20, ..WriterOptions::default() };
    let mut writer = DatasetWriter::create_with(folder.path(), options, Box::new(disk))?;
    for i in 0..LAUNCHES {
        writer.launch(&launch(i as i64));
        if i < TRANSFERS {
            writer.transfer(&transfer(i as i64));
        }
    }
    let report = writer.close();

    let number = match fails {
        Fails::Once(at) | Fails::From(at) => at,
    };
    let failed = done.load(Ordering::Relaxed) > number;
    let error = report.first_error;
    assert_eq!(error.is_some(), failed, "{fails:?}: {error:?}");
    if let Some(error) = error {
        assert_eq!(error.kind, ErrorKind::Io);
        assert!(error.to_string().contains("table "), "the table is named: {error}");
    }
    for (table, pushed) in [(Table::Launches, LAUNCHES), (Table::Transfers, TRANSFERS)] {
        let told = report.tables.get(&table).copied().unwrap_or_default();
        assert_eq!(
            told.rows + told.rows_lost,
            pushed,
            "{fails:?}: rows of {table} are neither written nor lost"
        );
    }
    // Every part that got its name is there and whole, and nothing else is.
    let published = published.lock().map_err(|_| "a panic")?.clone();
    if published.is_empty() {
        assert!(Dataset::open(folder.path()).is_err());
    } else {
        let dataset = Dataset::open(folder.path()).map_err(|error| format!("{fails:?}: {error}"))?;
        let mut rows = BTreeMap::new();
        for table in dataset.tables() {
            let read: usize = dataset.read(table)?.iter().map(|batch| batch.num_rows()).sum();
            rows.insert(table, read as u64);
        }
        for (table, told) in &report.tables {
            assert_eq!(rows.get(table).copied().unwrap_or(0), told.rows, "{fails:?}: {table}");
        }
        assert_eq!(
            dataset.is_complete(),
            [Table::Env, Table::Losses].iter().all(|table| rows.contains_key(table))
        );
    }
    let files = std::fs::read_dir(folder.path())?.count();
    assert_eq!(files, published.len(), "{fails:?}: something else is left");
    Ok(failed)
}

#[test]
fn a_disk_that_fails_at_any_operation_costs_rows_that_are_counted_and_nothing_that_was_finished() -> TestResult
{
    for fails in [Fails::Once, Fails::From] {
        let operations = (0..).map(|at| assert_a_failure_is_told(fails(at)));
        let mut failed = 0;
        for outcome in operations {
            if !outcome? {
                break;
            }
            failed += 1;
        }
        assert!(failed > 30, "only {failed} operations were seen");
    }
    Ok(())
}
