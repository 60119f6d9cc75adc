//! How sessions end here: each test says what its session lost, and everything else is a failure.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cuprof::{Builder, Dataset, Error, Profile, Profiler, Summary, Symbols, Table};
use tempfile::TempDir;

use crate::frame::Frame;
use crate::library::Simulated;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// The end of a session, with a look at its losses. `finish` itself is only called here; a test sees to that.
pub trait Ends: Sized {
    /// Ends the session, which has lost exactly this.
    fn losing(self, expected: &[(&str, u64)]) -> Result<Profile>;

    /// Ends the session, which fails, having lost exactly this.
    fn failing(self, expected: &[(&str, u64)]) -> Result<(Error, Profile)>;

    /// Ends the session, which fails; how much it lost cannot be said beforehand, for this reason.
    fn failing_somehow(self, why: &str) -> Result<(Error, Profile)>;

    /// Ends the session; how much it lost cannot be said beforehand, for this reason.
    fn losing_something(self, why: &str) -> Result<Profile>;

    /// Ends the session, well or not, having lost whatever it did, for this reason.
    fn ending_somehow(self, why: &str) -> (Option<Error>, Profile);

    /// Ends the session, which has lost nothing.
    fn whole(self) -> Result<Profile> {
        self.losing(&[])
    }
}

impl Ends for Profiler {
    #[track_caller]
    fn losing(self, expected: &[(&str, u64)]) -> Result<Profile> {
        let profile = self.finish()?;
        assert!(!cuprof::__private::is_recording(), "ranges are still logged");
        assert_losses(&profile, expected);
        Ok(profile)
    }

    #[track_caller]
    fn failing(self, expected: &[(&str, u64)]) -> Result<(Error, Profile)> {
        let (error, profile) = self.failing_somehow("looked at below")?;
        assert_losses(&profile, expected);
        Ok((error, profile))
    }

    fn failing_somehow(self, _why: &str) -> Result<(Error, Profile)> {
        match self.finish() {
            Ok(_) => Err("the session ended well".into()),
            Err(failed) => Ok((failed.error, *failed.profile)),
        }
    }

    fn ending_somehow(self, _why: &str) -> (Option<Error>, Profile) {
        match self.finish() {
            Ok(profile) => (None, profile),
            Err(failed) => (Some(failed.error), *failed.profile),
        }
    }

    fn losing_something(self, _why: &str) -> Result<Profile> {
        Ok(self.finish()?)
    }
}

/// What a session lost is this, no more and no less.
#[track_caller]
pub fn assert_losses(profile: &Profile, expected: &[(&str, u64)]) {
    let losses: Vec<_> = profile.losses().iter().map(|loss| (loss.cause, loss.count)).collect();
    assert_eq!(losses, expected);
}

/// The count of a loss.
pub fn lost(profile: &Profile, cause: &str) -> u64 {
    profile.losses().iter().find(|loss| loss.cause == cause).map_or(0, |loss| loss.count)
}

/// A session that has ended, with its dataset, which is there for as long as this.
pub struct Traced {
    pub profile: Profile,
    pub dataset: Dataset,
    _folder: TempDir,
}

/// Runs a session around some work. It loses exactly this.
#[track_caller]
pub fn traced<T>(losses: &[(&str, u64)], work: impl FnOnce(Simulated) -> T) -> Result<Traced> {
    // No flush but the last, so that tests decide what CUPTI holds.
    traced_as(Profiler::builder().flush_period(Duration::ZERO), losses, work)
}

/// The same, with a session that is asked for more.
#[track_caller]
pub fn traced_as<T>(
    builder: Builder,
    losses: &[(&str, u64)],
    work: impl FnOnce(Simulated) -> T,
) -> Result<Traced> {
    let folder = crate::process::folder()?;
    let output = folder.path().join("run.cuprof");
    let profiler = builder.output(&output).start()?;
    work(Simulated::get());
    let profile = profiler.losing(losses)?;
    Ok(Traced { profile, dataset: Dataset::open(&output)?, _folder: folder })
}

impl Traced {
    /// One column of a table, as text; null as nothing.
    pub fn texts(&self, table: Table, column: &'static str) -> Result<Vec<Option<String>>> {
        let rows = Frame::read(&self.dataset, table, &[column])?;
        Ok(rows.rows().map(|row| row.text(column).map(str::to_owned)).collect())
    }

    /// One column of numbers; null as none.
    pub fn numbers(&self, table: Table, column: &'static str) -> Result<Vec<Option<i64>>> {
        let rows = Frame::read(&self.dataset, table, &[column])?;
        Ok(rows.rows().map(|row| row.int(column)).collect())
    }

    /// A fact about the run.
    pub fn fact(&self, key: &str) -> Result<Option<String>> {
        Ok(self.dataset.env()?.remove(key))
    }

    /// The launches under each range path.
    pub fn by_path(&self) -> Result<BTreeMap<Option<String>, usize>> {
        let mut counts = BTreeMap::new();
        for path in self.texts(Table::Launches, "range_path")? {
            *counts.entry(path).or_default() += 1;
        }
        Ok(counts)
    }
}

fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(files(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    Ok(found)
}

#[test]
fn folders_of_tests_lie_where_cargo_cleans_up() -> Result<()> {
    // In two pieces, so that this line is none of them.
    let elsewhere = concat!("tempfile::temp", "dir()");
    for path in files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/simulated"))? {
        let text = std::fs::read_to_string(&path)?;
        assert!(!text.contains(elsewhere), "{}: use process::folder", path.display());
    }
    Ok(())
}

#[test]
fn sessions_end_nowhere_else() -> Result<()> {
    // In two pieces, so that this line is none of them.
    let ends = concat!(".finish", "()");
    let mut elsewhere = Vec::new();
    for path in files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/simulated"))? {
        if path.ends_with("session.rs") {
            continue;
        }
        for (number, line) in std::fs::read_to_string(&path)?.lines().enumerate() {
            if line.contains(ends) {
                elsewhere.push(format!("{}:{}", path.display(), number + 1));
            }
        }
    }
    assert_eq!(elsewhere, [""; 0], "use session::Ends");
    Ok(())
}

/// A summary as it is printed where no line is too long: where lines break depends on paths.
pub fn unwrapped(summary: &Summary) -> String {
    summary.render(10_000, Symbols::Ascii)
}
