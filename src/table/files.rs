//! The folder of a dataset: which files in it are ours, and how they come to be.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use super::schema::Table;
use crate::error::{Error, ErrorKind, Result, open_file, shown};

/// The end of a part's name once it is whole.
const PART_END: &str = ".parquet";
/// The end of its name while it is written; it then also begins with a dot, so that no glob finds it.
const TEMPORARY_END: &str = ".parquet.tmp";
/// The end of its name after it was found to be damaged.
const SET_ASIDE_END: &str = ".parquet.damaged";

/// Where parts are written. A test puts a full disk here.
pub(crate) trait PartFiles: Send {
    /// Creates a file for writing.
    fn create(&mut self, path: &Path) -> io::Result<Box<dyn Write + Send>>;

    /// Gives a finished file its name.
    fn publish(&mut self, temporary: &Path, path: &Path) -> io::Result<()>;

    /// Removes a file that could not be finished.
    fn discard(&mut self, temporary: &Path) -> io::Result<()>;
}

/// The file system.
pub(crate) struct Disk;

impl PartFiles for Disk {
    fn create(&mut self, path: &Path) -> io::Result<Box<dyn Write + Send>> {
        Ok(Box::new(File::create(path)?))
    }

    fn publish(&mut self, temporary: &Path, path: &Path) -> io::Result<()> {
        fs::rename(temporary, path)
    }

    fn discard(&mut self, temporary: &Path) -> io::Result<()> {
        fs::remove_file(temporary)
    }
}

/// The name of a part.
pub(super) fn part_path(folder: &Path, table: Table, number: u32) -> PathBuf {
    folder.join(format!("{table}-{number:05}{PART_END}"))
}

/// The name of a part while it is written.
pub(super) fn temporary_path(folder: &Path, table: Table, number: u32) -> PathBuf {
    folder.join(format!(".{table}-{number:05}{TEMPORARY_END}"))
}

/// The table and number that a part's name tells, if it is one.
pub(super) fn parse_part(name: &str) -> Option<(Table, u32)> {
    parse_stem(name.strip_suffix(PART_END)?)
}

/// The table and number that the name of an unfinished part tells, if it is one.
pub(super) fn parse_temporary(name: &str) -> Option<(Table, u32)> {
    parse_stem(name.strip_prefix('.')?.strip_suffix(TEMPORARY_END)?)
}

/// Where a part goes that cannot be read: another one may have had its number.
pub(super) fn set_aside_path(folder: &Path, table: Table, number: u32) -> PathBuf {
    let path = |number| folder.join(format!("{table}-{number:05}{SET_ASIDE_END}"));
    (number..u32::MAX).map(path).find(|path| !path.exists()).unwrap_or_else(|| path(number))
}

/// The table and number that the name of a part that was set aside tells, if it is one.
pub(super) fn parse_set_aside(name: &str) -> Option<(Table, u32)> {
    parse_stem(name.strip_suffix(SET_ASIDE_END)?)
}

/// Whether somebody was killed here: a folder that has been tidied has neither the marker nor unfinished parts.
pub(crate) fn is_untidy(folder: &Path) -> bool {
    let mut entries = fs::read_dir(folder).into_iter().flatten().flatten();
    is_entered(folder) || entries.any(|entry| entry.file_name().to_str().and_then(parse_temporary).is_some())
}

fn parse_stem(stem: &str) -> Option<(Table, u32)> {
    let (table, number) = stem.rsplit_once('-')?;
    let digits = number.len() >= 5 && number.bytes().all(|byte| byte.is_ascii_digit());
    Some((Table::from_name(table)?, number.parse().ok().filter(|_| digits)?))
}

/// Lies in a dataset's folder while it is written. Two writers of one folder would replace each other's parts; the
/// second one finds this instead.
pub(super) const WRITING: &str = ".writing";

/// A writer's right to a folder. The marker stays when the process is killed; its lock does not.
#[derive(Debug)]
pub(super) struct Entered {
    marker: PathBuf,
    /// Holds the lock.
    _file: File,
}

impl Entered {
    fn enter(folder: &Path) -> Result<Self> {
        let marker = folder.join(WRITING);
        match File::create_new(&marker) {
            Ok(created) => {
                // Locked by a handle that only reads: one that writes would keep the file system from becoming read-only.
                let file = File::open(&marker).unwrap_or(created);
                // Where the file system has no locks, a killed writer cannot be told from a running one.
                let _unsupported = flock(&file, FlockOperation::NonBlockingLockExclusive);
                Ok(Self { marker, _file: file })
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(is_written(folder)),
            Err(error) => Err(Error::io("cannot create", &marker, error)),
        }
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let _it_may_be_gone_with_its_folder = fs::remove_file(&self.marker);
    }
}

/// Whether a writer is in the folder, or was killed there.
pub(super) fn is_entered(folder: &Path) -> bool {
    folder.join(WRITING).exists()
}

/// Whether a writer is in the folder now.
///
/// # Errors
/// `Io` or `Format` where its mark is there and cannot be opened: then nobody knows.
pub(super) fn is_being_written(folder: &Path) -> Result<bool> {
    if !is_entered(folder) {
        return Ok(false);
    }
    let marker = open_file(&folder.join(WRITING))?;
    Ok(flock(&marker, FlockOperation::NonBlockingLockShared) == Err(rustix::io::Errno::WOULDBLOCK))
}

pub(super) fn is_written(folder: &Path) -> Error {
    let what = format!("{} is being written by another session", shown(folder));
    Error::new(ErrorKind::OutputExists, what)
        .with_hint("give each process an output of its own, for example with its id in the name")
}

/// A folder's files cannot be listed; with what to do where it is a file.
pub(super) fn cannot_list(folder: &Path, error: io::Error) -> Error {
    let is_file = error.kind() == io::ErrorKind::NotADirectory;
    let error = Error::io("cannot list", folder, error);
    if is_file {
        return error
            .with_hint("a dataset is a folder of Parquet files; a recording is replayed into one first");
    }
    error
}

/// Makes the folder ready for a new dataset. Only files that a dataset is made of are ever removed.
///
/// # Errors
///
/// As [`check_folder`]; `Io` where it cannot be made.
pub(super) fn prepare_folder(folder: &Path, overwrite: bool) -> Result<Entered> {
    let Some(ours) = check_folder(folder, overwrite)? else {
        fs::create_dir_all(folder).map_err(|error| Error::io("cannot create", folder, error))?;
        return Entered::enter(folder);
    };
    ours.iter().try_for_each(|path| {
        fs::remove_file(path).map_err(|error| Error::io("cannot remove", path, error))
    })?;
    Entered::enter(folder)
}

/// Whether a new dataset may be in the folder: which of the files there it replaces; none where there is no folder.
///
/// # Errors
///
/// `Config` where the path names no folder of its own. `OutputExists` where something is there already: a file, a folder of
/// other things, a dataset that is being written, or, without `overwrite`, another dataset.
pub(super) fn check_folder(folder: &Path, overwrite: bool) -> Result<Option<Vec<PathBuf>>> {
    let refuse = |why: &str, hint: &str| {
        Err(Error::new(ErrorKind::OutputExists, format!("{} {why}", shown(folder))).with_hint(hint))
    };
    // An empty path, or one that climbs, would be the folder of something else once what is missing was created.
    if matches!(folder.components().next_back(), None | Some(Component::ParentDir)) {
        let what = format!("{folder:?} names no folder for a dataset");
        return Err(Error::new(ErrorKind::Config, what).with_hint("name one, such as run.cuprof"));
    }
    match fs::metadata(folder) {
        Ok(found) if !found.is_dir() => return refuse("is a file", "choose another output"),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::io("cannot look at", folder, error)),
    }

    let list = |error| cannot_list(folder, error);
    let mut ours = Vec::new();
    let mut others = 0;
    for entry in fs::read_dir(folder).map_err(list)? {
        let entry = entry.map_err(list)?;
        let is_ours = |name: &str| {
            let part = parse_part(name).or_else(|| parse_temporary(name)).or_else(|| parse_set_aside(name));
            name == WRITING || part.is_some()
        };
        if entry.file_name().to_str().is_some_and(is_ours) {
            ours.push(entry.path());
        } else {
            others += 1;
        }
    }
    if ours.is_empty() && others > 0 {
        return refuse("is a folder of other things", "choose another output");
    }
    if is_being_written(folder)? {
        return Err(is_written(folder));
    }
    if !ours.is_empty() && !overwrite {
        let hint = "choose another output, or ask for it to be replaced with overwrite(true)";
        return refuse("holds a dataset, finished or not", hint);
    }
    Ok(Some(ours))
}
