//! The file by which processes know who of them holds the clocks of a GPU.
//!
//! One file for each GPU, never removed. Whoever holds the clocks has an exclusive `flock` on it and has written who
//! it is. An unlocked file with something in it was left by a process that died without releasing the clocks, and
//! whose watchdog could not either.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags, flock};

use super::clocks::ClockBackend;
use crate::error::{Error, ErrorKind, Result, shown};

/// Names the folder of the files.
const VARIABLE: &str = "CUPROF_STATE_DIR";

const PREFIX: &str = "cuprof-clocks-";
const SUFFIX: &str = ".lock";
const FIRST_LINE: &str = "cuprof clocks 1";

/// Who holds the clocks, or held them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Holder {
    pub pid: u32,
    /// The boot in which it was; locked clocks do not outlive it.
    pub boot: String,
    /// What pinned them.
    pub backend: String,
    /// What it had asked for.
    pub asked: String,
}

impl Holder {
    pub fn this_process(backend: ClockBackend, asked: String) -> Self {
        Self { pid: std::process::id(), boot: boot_id(), backend: backend.to_string(), asked }
    }

    fn to_text(&self) -> String {
        let Self { pid, boot, backend, asked } = self;
        format!("{FIRST_LINE}\npid {pid}\nboot {boot}\nbackend {backend}\nasked {asked}\n")
    }

    fn from_text(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        if lines.next()? != FIRST_LINE {
            return None;
        }
        let mut field = |name| lines.next()?.strip_prefix(name)?.strip_prefix(' ').map(str::to_owned);
        let (pid, boot, backend, asked) = (field("pid")?, field("boot")?, field("backend")?, field("asked")?);
        Some(Self { pid: pid.parse().ok()?, boot, backend, asked })
    }

    /// Whether what it locked can still be locked.
    pub fn is_of_this_boot(&self) -> bool {
        self.boot == boot_id()
    }

    /// Whether what it locked is still locked, and only it could have released that.
    pub fn cannot_be_released(&self) -> bool {
        self.is_of_this_boot() && self.backend == ClockBackend::Cupti.to_string()
    }
}

fn boot_id() -> String {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
    id.map_or_else(|_| "unknown".to_owned(), |id| id.trim().to_owned())
}

/// The folder: what `CUPROF_STATE_DIR` names, else `/run/lock`, else the one for temporary files.
pub(super) fn folder() -> PathBuf {
    let run_lock = Path::new("/run/lock");
    match std::env::var_os(VARIABLE).filter(|folder| !folder.is_empty()) {
        Some(folder) => folder.into(),
        None if run_lock.is_dir() => run_lock.to_owned(),
        None => std::env::temp_dir(),
    }
}

/// The file of a GPU, locked by this process.
#[derive(Debug)]
pub(super) struct LockFile {
    file: File,
    pub path: PathBuf,
}

/// What came of wanting it.
#[derive(Debug)]
pub(super) enum Acquired {
    /// It is ours; somebody dead may have left something.
    Ours(LockFile, Option<Holder>),
    /// A living process (or its watchdog, which is about to release the clocks) has it.
    Held(Option<Holder>),
}

impl LockFile {
    /// The file of the GPU with this UUID.
    pub fn acquire(uuid: &str) -> Result<Acquired> {
        Self::acquire_at(&Self::path(uuid), true)
    }

    /// Who holds the clocks of a GPU: the holder, and whether it is alive. Creates no file.
    pub fn look(uuid: &str) -> Option<(Holder, bool)> {
        let path = Self::path(uuid);
        // A file with nothing in it is not locked even for a moment: somebody might want it just then.
        Holder::from_text(&std::fs::read_to_string(&path).ok()?)?;
        match Self::acquire_at(&path, false).ok()? {
            Acquired::Held(holder) => Some((holder?, true)),
            Acquired::Ours(_, left) => Some((left?, false)),
        }
    }

    fn path(uuid: &str) -> PathBuf {
        // A UUID of NVML's has no slash, but this is part of a path.
        let name: String = uuid.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').collect();
        folder().join(format!("{PREFIX}{name}{SUFFIX}"))
    }

    fn acquire_at(path: &Path, create: bool) -> Result<Acquired> {
        // Not through a link, which anybody could have put into a folder for temporary files.
        let opened = OpenOptions::new()
            .read(true)
            .write(true)
            .create(create)
            .mode(0o644)
            .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
            .open(path);
        let mut file = opened.map_err(|error| {
            let kind = match error.kind() {
                std::io::ErrorKind::PermissionDenied => ErrorKind::PermissionDenied,
                _ => ErrorKind::Io,
            };
            Error::new(kind, format!("cannot open {}", shown(path))).with_source(error).with_hint(format!(
                "{VARIABLE} names another folder for it, the same for everybody who locks clocks"
            ))
        })?;
        let locked = flock(&file, FlockOperation::NonBlockingLockExclusive);
        let io = |error: std::io::Error| Error::io("cannot lock or read", path, error);
        let mut text = String::new();
        match locked {
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let read = file.read_to_string(&mut text);
                return Ok(Acquired::Held(read.ok().and_then(|_| Holder::from_text(&text))));
            }
            locked => locked.map_err(|error| io(error.into()))?,
        }
        file.read_to_string(&mut text).map_err(io)?;
        let left = Holder::from_text(&text);
        Ok(Acquired::Ours(Self { file, path: path.to_owned() }, left))
    }

    /// The GPUs of which there are files, and those, where they are not held.
    pub fn all() -> Result<Vec<(String, Acquired)>> {
        let folder = folder();
        let entries = std::fs::read_dir(&folder).map_err(|error| Error::io("cannot list", &folder, error))?;
        let mut found = Vec::new();
        for entry in entries {
            let path = entry.map_err(|error| Error::io("cannot list", &folder, error))?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if let Some(uuid) = name.strip_prefix(PREFIX).and_then(|name| name.strip_suffix(SUFFIX)) {
                found.push((uuid.to_owned(), Self::acquire_at(&path, false)?));
            }
        }
        found.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(found)
    }

    /// Writes who holds the clocks.
    pub fn write(&mut self, holder: &Holder) -> Result<()> {
        self.put(&holder.to_text())
    }

    /// Nobody holds them any more.
    pub fn clear(&mut self) -> Result<()> {
        self.put("")
    }

    fn put(&mut self, text: &str) -> Result<()> {
        let Self { file, path } = self;
        let mut put = || -> std::io::Result<()> {
            file.set_len(0)?;
            file.rewind()?;
            file.write_all(text.as_bytes())?;
            file.sync_data()
        };
        put().map_err(|error| Error::io("cannot write", path, error))
    }

    /// The same open file for another process: the lock is held until both have closed it.
    pub fn share(&self) -> Result<File> {
        self.file.try_clone().map_err(|error| Error::io("cannot share", &self.path, error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_is_read_as_it_was_written() {
        let holder = Holder::this_process(ClockBackend::Nvml, "base".to_owned());
        assert_eq!(Holder::from_text(&holder.to_text()), Some(holder.clone()));
        assert!(holder.is_of_this_boot());
        for foreign in [
            "",
            "cuprof clocks 2\npid 1\nboot x\nbackend NVML\nasked base\n",
            "cuprof clocks 1\npid x\nboot b\nbackend NVML\nasked c",
        ] {
            assert_eq!(Holder::from_text(foreign), None, "{foreign:?}");
        }
    }

    #[test]
    fn the_file_is_one_holders_at_a_time_and_tells_who() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("cuprof-clocks-GPU-1.lock");
        let Acquired::Ours(mut first, None) = LockFile::acquire_at(&path, true).expect("acquired") else {
            panic!("not ours")
        };
        let holder = Holder::this_process(ClockBackend::Cupti, "boost".to_owned());
        first.write(&holder).expect("written");
        let Acquired::Held(Some(seen)) = LockFile::acquire_at(&path, true).expect("tried") else {
            panic!("not held")
        };
        assert_eq!(seen, holder);
        // Shared, it stays held until both are closed.
        let shared = first.share().expect("shared");
        drop(first);
        assert!(matches!(LockFile::acquire_at(&path, true), Ok(Acquired::Held(_))));
        drop(shared);
        let Acquired::Ours(mut left, Some(dead)) = LockFile::acquire_at(&path, true).expect("acquired")
        else {
            panic!("what was left is gone")
        };
        assert_eq!(dead, holder);
        left.clear().expect("cleared");
        drop(left);
        assert!(matches!(LockFile::acquire_at(&path, true), Ok(Acquired::Ours(_, None))));
    }

    #[test]
    fn a_link_is_not_followed() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("cuprof-clocks-GPU-1.lock");
        std::fs::write(folder.path().join("precious"), "text").expect("written");
        std::os::unix::fs::symlink("precious", &path).expect("linked");
        assert!(LockFile::acquire_at(&path, true).is_err());
    }
}
