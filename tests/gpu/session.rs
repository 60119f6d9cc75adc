//! A session around a piece of work, and the comparison of what it recorded with what the work did.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

use cuprof::{Dataset, Profile, Profiler, Table};
use cuprof_workload::{Expected, Gpu};
use tempfile::TempDir;

use crate::frame::{Frame, Row};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// CUPTI runs kernels of its own now and then; they are no launches of the program.
const KERNELS_OF_CUPTI: &str = "WaitNs";

/// One test at a time, even without `--test-threads=1`: there is one CUPTI in the process.
pub fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The GPU; without one, the test fails with the reason.
pub fn gpu() -> Result<Gpu> {
    // Nothing here may change the clocks of a GPU that others may use, too.
    cuprof::forbid_clock_control();
    Ok(Gpu::open().map_err(|reason| format!("no GPU to test on: {reason}"))?)
}

/// Runs a test, by its full name, in a process of its own; `inner` is what it does there.
pub fn in_a_process_of_its_own(test: &str, inner: impl FnOnce() -> Result<()>) -> Result<()> {
    in_a_process_with(test, &[], inner)
}

/// The same with these variables set there.
pub fn in_a_process_with(
    test: &str,
    variables: &[(&str, &str)],
    inner: impl FnOnce() -> Result<()>,
) -> Result<()> {
    const INSIDE: &str = "CUPROF_TEST_INSIDE";
    cuprof::forbid_clock_control();
    if std::env::var_os(INSIDE).is_some_and(|inside| inside == test) {
        return inner();
    }
    let _turn = turn();
    Gpu::probe().map_err(|reason| format!("no GPU to test on: {reason}"))?;
    let output = Command::new(std::env::current_exe()?)
        .args(["--exact", test, "--include-ignored", "--nocapture", "--test-threads=1"])
        .env(INSIDE, test)
        .envs(variables.iter().copied())
        .output()?;
    print!("{}", String::from_utf8_lossy(&output.stdout));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "the process ended with {}\n{errors}", output.status);
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"), "the test did not run there");
    Ok(())
}

/// Runs a test in a process of its own, and returns how that went; nothing in that process, where the test goes on.
///
/// For counters: before CUPTI 13.0 Update 1, a process in which kernels were traced once cannot count any more.
pub fn elsewhere(test: &str) -> Option<Result<()>> {
    let mut is_here = false;
    let outcome = in_a_process_of_its_own(test, || {
        is_here = true;
        Ok(())
    });
    (!is_here).then_some(outcome)
}

/// A folder for one dataset, removed afterwards.
pub struct Place {
    folder: TempDir,
}

impl Place {
    pub fn new() -> Result<Self> {
        Ok(Self { folder: tempfile::tempdir()? })
    }

    pub fn dataset(&self) -> PathBuf {
        self.folder.path().join("run.cuprof")
    }

    pub fn start(&self) -> Result<Profiler> {
        Ok(Profiler::builder().output(self.dataset()).overwrite(true).start()?)
    }
}

/// What one session recorded.
pub struct Trace {
    pub profile: Profile,
    pub dataset: Dataset,
    pub launches: Frame,
    pub transfers: Frame,
    pub ranges: Frame,
    _place: Place,
}

/// Records a piece of work.
pub fn record<T>(work: impl FnOnce() -> std::result::Result<T, String>) -> Result<(Trace, T)> {
    let place = Place::new()?;
    let profiler = place.start()?;
    let result = work();
    let trace = Trace::of(profiler.finish()?, place)?;
    Ok((trace, result?))
}

/// Kernels by range path and name; copies and fills by range path and kind, with their bytes.
type ByPath = BTreeMap<(Option<String>, String), (u64, u64)>;

impl Trace {
    /// Reads what a finished session wrote.
    pub fn of(profile: Profile, place: Place) -> Result<Self> {
        let dataset = Dataset::open(profile.dataset().ok_or("the session wrote no dataset")?)?;
        Ok(Self {
            launches: launches(&dataset)?,
            transfers: Frame::read(
                &dataset,
                Table::Transfers,
                &[
                    "operation",
                    "copy_kind",
                    "bytes",
                    "range_path",
                    "attribution",
                    "valid",
                    "start_ns",
                    "end_ns",
                ],
            )?,
            ranges: Frame::read(
                &dataset,
                Table::Ranges,
                &[
                    "range_id",
                    "parent_range_id",
                    "name",
                    "range_path",
                    "kind",
                    "thread_id",
                    "start_ns",
                    "end_ns",
                    "closed",
                    "n_launches",
                    "n_transfers",
                    "gpu_sum_ns",
                    "gpu_span_ns",
                ],
            )?,
            profile,
            dataset,
            _place: place,
        })
    }

    /// Asserts that nothing was lost.
    pub fn assert_nothing_lost(&self) {
        for loss in self.profile.losses() {
            assert!(loss.count == 0, "{} × {}: {}", loss.count, loss.cause, loss.meaning);
        }
    }

    /// A fact of the run.
    pub fn fact(&self, key: &str) -> Result<String> {
        let facts = self.dataset.env()?;
        Ok(facts.get(key).ok_or_else(|| format!("there is no fact {key}"))?.clone())
    }

    /// Launches that the program made.
    pub fn launches(&self) -> impl Iterator<Item = Row<'_>> {
        self.launches.rows().filter(|row| !row.text("kernel").unwrap_or_default().contains(KERNELS_OF_CUPTI))
    }

    /// Launches from exactly this range.
    pub fn launches_in<'a>(&'a self, path: &'a str) -> impl Iterator<Item = Row<'a>> {
        self.launches().filter(move |row| row.text("range_path") == Some(path))
    }

    /// The only range with this path.
    pub fn range<'a>(&'a self, path: &str) -> Row<'a> {
        let mut found = self.ranges.rows().filter(|row| row.text("range_path") == Some(path));
        let range = found.next().unwrap_or_else(|| panic!("no range {path}"));
        assert!(found.next().is_none(), "more than one range {path}");
        range
    }

    /// Asserts that the session recorded exactly this: what was done in each range (none: outside of every range).
    pub fn assert_is(&self, expected: &[(Option<&str>, Expected)]) {
        let (mut kernels, mut traffic) = (ByPath::new(), ByPath::new());
        for (path, work) in expected {
            let key = |name: &str| (path.map(str::to_owned), name.to_owned());
            for (name, count) in &work.kernels {
                kernels.entry(key(name)).or_default().0 += count;
            }
            let fills = [("memset", work.fills)];
            for (kind, moved) in work.copies.iter().map(|(kind, moved)| (*kind, *moved)).chain(fills) {
                if moved.count > 0 {
                    let entry = traffic.entry(key(kind)).or_default();
                    entry.0 += moved.count;
                    entry.1 += moved.bytes;
                }
            }
        }
        let (mut seen_kernels, mut seen_traffic) = (ByPath::new(), ByPath::new());
        let path = |row: Row<'_>| row.text("range_path").map(str::to_owned);
        for row in self.launches() {
            let name = row.text("kernel").unwrap_or_default().to_owned();
            seen_kernels.entry((path(row), name)).or_default().0 += 1;
        }
        for row in self.transfers.rows() {
            let entry = seen_traffic.entry((path(row), kind(row).to_owned())).or_default();
            entry.0 += 1;
            entry.1 += row.number("bytes").unsigned_abs();
        }
        assert_eq!(seen_kernels, kernels, "kernels by range and name");
        assert_eq!(seen_traffic, traffic, "copies and fills by range and kind");
        self.assert_attributed();
    }

    /// Asserts that every row says how it was attributed, and has usable times.
    pub fn assert_attributed(&self) {
        for row in self.launches().chain(self.transfers.rows()) {
            let expected = if row.text("range_path").is_some() { "range" } else { "no_range" };
            assert_eq!(row.text("attribution"), Some(expected), "in {:?}", row.text("range_path"));
            assert!(row.flag("valid"));
            assert!(row.number("start_ns") <= row.number("end_ns"));
        }
    }
}

/// The launches of a dataset, which may still grow.
pub fn launches(dataset: &Dataset) -> Result<Frame> {
    Frame::read(
        dataset,
        Table::Launches,
        &[
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
            "graph_id",
            "graph_node_id",
            "grid_x",
            "grid_y",
            "grid_z",
            "block_x",
            "block_y",
            "block_z",
            "cluster_x",
            "static_shared_memory_bytes",
            "dynamic_shared_memory_bytes",
            "registers_per_thread",
            "valid",
            "attribution",
        ],
    )
}

/// How many launches of the program a dataset holds now.
pub fn launches_at(dataset: &Path) -> Result<usize> {
    Ok(launches(&Dataset::open(dataset)?)?.len())
}

/// The copy kind of a transfer, or `memset`.
pub fn kind(row: Row<'_>) -> &str {
    row.text("copy_kind").unwrap_or("memset")
}
