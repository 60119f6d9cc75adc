//! Tidying the folder of a process that was killed.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use super::files::{
    WRITING, cannot_list, is_being_written, is_entered, is_written, parse_part, parse_set_aside,
    parse_temporary, part_path, set_aside_path,
};
use super::reader::{Dataset, damage};
use super::schema::Table;
use crate::error::{Error, ErrorKind, Result, other_than_a_file, shown};

/// What [`recover`] found and did. Its text is one line for each thing.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Recovery {
    /// Parts that had not been finished: removed. Their rows are lost, and nobody knows how many they were.
    pub unfinished: Vec<Unfinished>,
    /// Parts that were whole and had no name yet: they got it.
    pub published: Vec<PathBuf>,
    /// Parts that cannot be read, as a crash of the whole machine leaves them: set aside as `NAME.damaged`.
    pub damaged: Vec<Damaged>,
    /// Parts that an earlier call set aside: their rows are still missing.
    pub set_aside_before: Vec<PathBuf>,
    /// Parts after a damaged or a missing one, with their new names: a table's parts are numbered without gaps.
    pub renumbered: Vec<(PathBuf, PathBuf)>,
    /// Whether the mark of a writer was still there: the process did not end its session.
    pub was_killed: bool,
    /// The rows of each table that can be read.
    pub rows: BTreeMap<Table, u64>,
    /// Whether every table is whole: the session had been closed, and nothing was damaged since. What was lost while it
    /// ran, the table `losses` tells.
    pub is_complete: bool,
}

/// A part that had not been finished.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unfinished {
    /// The table.
    pub table: Table,
    /// Bytes that had been written; 0 where the rows were in memory only.
    pub bytes: u64,
}

/// A part that cannot be read.
#[derive(Debug)]
#[non_exhaustive]
pub struct Damaged {
    /// The part.
    pub part: PathBuf,
    /// Its new name.
    pub set_aside: PathBuf,
    /// Why it cannot be read.
    pub error: Error,
}

impl fmt::Display for Recovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let killed = "the process was killed: rows after the last finished part of each table are lost";
        if self.was_killed {
            writeln!(f, "{killed}")?;
        }
        for Unfinished { table, bytes } in &self.unfinished {
            writeln!(f, "removed an unfinished part of {table} ({bytes} bytes)")?;
        }
        for part in &self.published {
            writeln!(f, "{} was whole but for its name", shown(part))?;
        }
        for Damaged { part, set_aside, error } in &self.damaged {
            writeln!(f, "set {} aside as {}: {error}", shown(part), shown(set_aside))?;
        }
        for part in &self.set_aside_before {
            writeln!(f, "{} was set aside before: its rows are missing", shown(part))?;
        }
        for (from, to) in &self.renumbered {
            writeln!(f, "renamed {} to {}, so that no number is missing", shown(from), shown(to))?;
        }
        for (table, rows) in &self.rows {
            writeln!(f, "{table}: {rows} rows")?;
        }
        let losses = self.rows.get(&Table::Losses).copied().unwrap_or(0);
        match (self.rows.is_empty(), self.is_complete) {
            (true, _) => writeln!(f, "no part had been finished: nothing can be read"),
            (false, true) if losses > 0 => {
                writeln!(f, "every part is there; what was lost before it could be written is in `losses`")
            }
            (false, true) => writeln!(f, "the dataset is complete"),
            (false, false) => writeln!(f, "the dataset can be read, and is not complete"),
        }
    }
}

/// Tidies the folder of a dataset whose process was killed, or whose machine was.
///
/// Finished parts can be read without this; readers pass over what was not finished. This removes what readers pass
/// over, sets aside what keeps them from reading the rest, and tells what is lost. Files that are not of a dataset are
/// left alone. A second call finds nothing to do, and tells once more what is missing.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let recording = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/recordings/quickstart.cuprofrec");
/// # let folder = tempfile::tempdir()?;
/// # let output = folder.path().join("run.cuprof");
/// # cuprof::Replay::open(recording)?.output(&output).run()?;
/// std::fs::write(output.join(".launches-00001.parquet.tmp"), "PAR1 and no more")?; // as a killed process leaves it
/// let recovery = cuprof::recover(&output)?;
/// assert_eq!(recovery.unfinished.len(), 1);
/// assert!(cuprof::Dataset::open(&output).is_ok());
/// print!("{recovery}");
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`ErrorKind::OutputExists`] where a session is writing the dataset now (known by its lock, on file systems that have
/// locks); [`ErrorKind::Format`] where the folder has no file of a dataset, a part of a later version of this crate, or
/// something to be renamed that is no file; [`ErrorKind::Io`] where the folder or a file cannot be read. Nothing has been
/// changed then: only what was read and is wrong counts as damaged. [`ErrorKind::Io`], too, where something cannot be
/// renamed or removed: what has been done until then stays done.
pub fn recover(folder: impl AsRef<Path>) -> Result<Recovery> {
    let folder = folder.as_ref();
    let list = |error| cannot_list(folder, error);
    let mut parts: BTreeMap<Table, BTreeMap<u32, PathBuf>> = BTreeMap::new();
    let mut temporaries = Vec::new();
    let mut recovery = Recovery::default();
    for entry in fs::read_dir(folder).map_err(list)? {
        let entry = entry.map_err(list)?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        if let Some((table, number)) = parse_part(&name) {
            parts.entry(table).or_default().insert(number, entry.path());
        } else if let Some((table, number)) = parse_temporary(&name) {
            temporaries.push((table, number, entry.path()));
        } else if parse_set_aside(&name).is_some() {
            recovery.set_aside_before.push(entry.path());
        }
    }
    recovery.set_aside_before.sort();
    temporaries.sort();
    let is_empty = parts.is_empty() && temporaries.is_empty() && recovery.set_aside_before.is_empty();
    if is_empty && !is_entered(folder) {
        let what = format!("{} holds nothing of a dataset", shown(folder));
        return Err(Error::new(ErrorKind::Format, what)
            .with_hint("a dataset is a folder with files such as launches-00000.parquet"));
    }
    if is_being_written(folder).map_err(untouched)? {
        return Err(is_written(folder));
    }

    // All of it is looked at before anything is changed: what cannot be read now may be whole.
    let mut found: BTreeMap<Table, BTreeMap<u32, Found>> = BTreeMap::new();
    for (table, parts) in parts {
        for (number, path) in parts {
            let damage = damage(&path, table).map_err(untouched)?;
            found.entry(table).or_default().insert(number, Found { path, damage });
        }
    }
    let (mut whole, mut unfinished) = (Vec::new(), Vec::new());
    for (table, number, temporary) in temporaries {
        let is_whole = damage(&temporary, table).map_err(untouched)?.is_none();
        check_own(&temporary)?;
        match found.entry(table).or_default().entry(number) {
            Entry::Vacant(vacant) if is_whole => {
                let path = part_path(folder, table, number);
                vacant.insert(Found { path: path.clone(), damage: None });
                whole.push((temporary, path));
            }
            _ => {
                let bytes = fs::metadata(&temporary).map_or(0, |file| file.len());
                unfinished.push((temporary, Unfinished { table, bytes }));
            }
        }
    }
    for parts in found.values() {
        let whole = parts.iter().filter(|(_, part)| part.damage.is_none());
        let moved = (0..).zip(whole).filter(|(next, (number, _))| next != *number).map(|(_, (_, part))| part);
        let mut touched = parts.values().filter(|part| part.damage.is_some()).chain(moved);
        touched.try_for_each(|part| check_own(&part.path))?;
    }
    if is_entered(folder) {
        check_own(&folder.join(WRITING))?;
    }

    for (temporary, path) in whole {
        rename(&temporary, &path)?;
        recovery.published.push(path);
    }
    for (temporary, told) in unfinished {
        remove(&temporary)?;
        recovery.unfinished.push(told);
    }
    let mut is_something_left = false;
    for (table, parts) in found {
        let mut next = 0;
        for (number, Found { path: part, damage }) in parts {
            if let Some(error) = damage {
                let set_aside = set_aside_path(folder, table, number);
                rename(&part, &set_aside)?;
                recovery.damaged.push(Damaged { part, set_aside, error });
                continue;
            }
            if number != next {
                let moved = part_path(folder, table, next);
                rename(&part, &moved)?;
                recovery.renumbered.push((part, moved));
            }
            next += 1;
            is_something_left = true;
        }
    }
    if is_entered(folder) {
        recovery.was_killed = true;
        remove(&folder.join(WRITING))?;
    }
    // Without a part, there is nothing to open.
    if is_something_left {
        let dataset = Dataset::open(folder)?;
        recovery.rows = dataset.tables().map(|table| (table, dataset.rows(table))).collect();
        let is_missing = !(recovery.damaged.is_empty() && recovery.set_aside_before.is_empty());
        recovery.is_complete = dataset.is_complete() && !is_missing;
    }
    Ok(recovery)
}

/// A part, and what is wrong in it.
struct Found {
    path: PathBuf,
    damage: Option<Error>,
}

/// Refuses to rename or remove what only has the name of a dataset's file.
fn check_own(path: &Path) -> Result<()> {
    // A link's own metadata: what it leads to is not of this folder. Parts that are there in a moment only are not yet.
    let Ok(found) = path.symlink_metadata() else { return Ok(()) };
    if found.is_file() {
        return Ok(());
    }
    let other =
        if found.is_symlink() { "a link" } else { other_than_a_file(path).unwrap_or("something else") };
    Err(Error::new(ErrorKind::Format, format!("{} is not a file: it is {other}", shown(path)))
        .with_hint("nothing was changed: a dataset has files alone; move this away, and try again"))
}

/// The error that ended it before anything was changed.
fn untouched(error: Error) -> Error {
    let next = error.hint.clone().unwrap_or_else(|| "try again once it can be read".to_owned());
    error.with_hint(format!("nothing was changed: {next}"))
}

fn rename(from: &Path, to: &Path) -> Result<()> {
    fs::rename(from, to).map_err(|error| Error::io("cannot rename", from, error))
}

fn remove(path: &Path) -> Result<()> {
    fs::remove_file(path).map_err(|error| Error::io("cannot remove", path, error))
}
