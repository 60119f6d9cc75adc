//! A process that releases locked clocks when this one dies without doing so.
//!
//! It is a shell that reads a pipe whose other end only this process has: when this process is gone, for whatever
//! reason, the pipe ends, and the shell has `nvidia-smi` reset the clocks. Both are where NVML is; the program need
//! not ship a helper. It is in a process group of its own and ignores the signals of a terminal, so that what ends the
//! program does not end it. What kills everything at once (the container, the service's control group, the machine)
//! does; then the lock file tells, and `reset` cleans up.

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

use super::lock_file::LockFile;
use crate::error::{Error, ErrorKind, Result};

/// Arguments: nvidia-smi, the UUID, the lock file. The lock file is also the standard output, so that the lock is held
/// until the clocks are released.
const SCRIPT: &str = r#"trap '' INT TERM HUP
read -r nothing
"$1" --id="$2" --reset-gpu-clocks >/dev/null && : >"$3"
"#;

/// A running watchdog.
#[derive(Debug)]
pub(super) struct Watchdog {
    child: Child,
    /// Nothing is ever written to it: in a program that does not ignore SIGPIPE that could end the program.
    _pipe: ChildStdin,
}

impl Watchdog {
    /// Starts it. Nothing may have been locked before.
    ///
    /// # Errors
    /// [`ErrorKind::NotSupported`] where there is no `nvidia-smi`; [`ErrorKind::Io`] where there is no shell.
    pub fn start(uuid: &str, lock: &LockFile) -> Result<Self> {
        let nvidia_smi = find_in_path("nvidia-smi").ok_or_else(|| {
            Error::new(
                ErrorKind::NotSupported,
                "nvidia-smi is not in PATH: nobody could release the clocks after a crash",
            )
            .with_hint("in a container it needs the capability `utility`; `without_watchdog` does without")
        })?;
        let held: File = lock.share()?;
        let io = |error| Error::new(ErrorKind::Io, "cannot start the watchdog").with_source(error);
        let mut child = Command::new("/bin/sh")
            .args(["-c", SCRIPT, "cuprof-clock-watchdog"])
            .arg(nvidia_smi)
            .arg(uuid)
            .arg(&lock.path)
            .stdin(Stdio::piped())
            .stdout(held)
            .stderr(Stdio::null())
            .current_dir("/")
            .process_group(0)
            .spawn()
            .map_err(io)?;
        match child.stdin.take() {
            Some(pipe) => Ok(Self { child, _pipe: pipe }),
            None => Err(Error::new(ErrorKind::Io, "the watchdog has no pipe")),
        }
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The clocks are released: it has nothing to do any more. Ends it before its pipe ends, and waits for that.
    pub fn dismiss(mut self) {
        let _ended_before = self.child.kill();
        let _reaped = self.child.wait();
    }
}

fn find_in_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    // An empty entry means the working folder, which is not trusted here.
    let folders = std::env::split_paths(&path).filter(|folder| folder.is_absolute());
    folders.map(|folder| folder.join(name)).find(|file| is_executable(file))
}

fn is_executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    file.metadata().is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}
