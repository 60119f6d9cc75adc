//! Where output goes: standard output, or a file that is there when it is whole.

use std::borrow::Cow;
use std::fs::File;
use std::io::{BufWriter, ErrorKind, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, Once};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use cuprof::analysis::printable;

use crate::closed::stdout_was_closed;
use crate::color::Color;
use crate::exit::{Failure, OUTPUT, USAGE, WRITE, shown, written};

/// An output that grows.
pub enum Output {
    Standard(BufWriter<std::io::Stdout>),
    File { writer: BufWriter<File>, unfinished: Unfinished, path: PathBuf, force: bool },
}

impl Output {
    /// Standard output for `-` and for none; else a file, which is not replaced unasked.
    pub fn create(path: Option<&Path>, force: bool) -> Result<Self, Failure> {
        let Some(path) = path.filter(|path| *path != Path::new("-")) else {
            if stdout_was_closed() {
                return Err(Failure::closed_output());
            }
            return Ok(Self::Standard(BufWriter::with_capacity(1 << 16, std::io::stdout())));
        };
        refuse_existing(path, force)?;
        let path = &behind_links(path)?;
        let unfinished = Unfinished::beside(path)?;
        let file = File::create_new(unfinished.path()).map_err(|error| cannot("create", path, error))?;
        let writer = BufWriter::with_capacity(1 << 18, file);
        Ok(Self::File { writer, unfinished, path: path.to_owned(), force })
    }

    /// The same for what no terminal shows.
    pub fn create_binary(path: Option<&Path>, force: bool) -> Result<Self, Failure> {
        let output = Self::create(path, force)?;
        if matches!(output, Self::Standard(_)) && std::io::stdout().is_terminal() {
            let what = "this would fill the terminal with bytes: name a file with --output, or use a pipe";
            return Err(Failure::new(USAGE, what));
        }
        Ok(output)
    }

    /// Writes out what is left, and gives a file its name.
    pub fn finish(self) -> Result<(), Failure> {
        match self {
            Self::Standard(mut writer) => writer.flush().map_err(|error| written("standard output", &error)),
            Self::File { mut writer, unfinished, path, force } => {
                writer.flush().map_err(|error| cannot("write", &path, error))?;
                drop(writer);
                unfinished.publish(&path, force)
            }
        }
    }

    fn name(&self) -> String {
        match self {
            Self::Standard(_) => "standard output".to_owned(),
            Self::File { path, .. } => shown(path),
        }
    }

    /// Why writing failed, for the command to end with.
    pub fn failed(&self, error: &std::io::Error) -> Failure {
        written(&self.name(), error)
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match self {
            Self::Standard(writer) => writer.write(bytes),
            Self::File { writer, .. } => writer.write(bytes),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        match self {
            Self::Standard(writer) => writer.flush(),
            Self::File { writer, .. } => writer.flush(),
        }
    }
}

/// Writes a text and is done. Names are anybody's: a terminal gets what is [`printable`] of it, files and pipes get it as it
/// is.
pub fn write_text(path: Option<&Path>, force: bool, text: &str) -> Result<(), Failure> {
    write_painted(path, force, text, Color::Never)
}

/// The same; standard output gets it in colours where these are wanted.
pub fn write_painted(path: Option<&Path>, force: bool, text: &str, color: Color) -> Result<(), Failure> {
    let mut output = Output::create(path, force)?;
    let mut text = Cow::Borrowed(text);
    if matches!(output, Output::Standard(_)) {
        if std::io::stdout().is_terminal() {
            text = printable(&text).into();
        }
        text = color.paint(&text).into();
    }
    if let Err(error) = output.write_all(text.as_bytes()) {
        return Err(output.failed(&error));
    }
    output.finish()
}

/// Refuses an output among the files that are read.
pub fn refuse_inside<'a>(
    output: Option<&Path>,
    read: impl IntoIterator<Item = &'a Path>,
) -> Result<(), Failure> {
    let Some(output) = output.filter(|output| *output != Path::new("-")) else { return Ok(()) };
    let output = &behind_links(output).unwrap_or_else(|_| output.to_owned());
    let parent = output.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let is_inside =
        |folder: &Path| Some(parent.canonicalize().ok()?.starts_with(folder.canonicalize().ok()?));
    match read.into_iter().find(|folder| folder.is_dir() && is_inside(folder) == Some(true)) {
        Some(folder) => {
            let (output, folder) = (shown(output), shown(folder));
            let what = format!("{output} would be inside of {folder}, which is read\n  name another output");
            Err(Failure::new(OUTPUT, what))
        }
        None => Ok(()),
    }
}

/// What a link leads to: that is replaced, and the link stays.
pub fn behind_links(path: &Path) -> Result<PathBuf, Failure> {
    if !path.is_symlink() {
        return Ok(path.to_owned());
    }
    path.canonicalize().map_err(|error| cannot("create", path, error))
}

/// Refuses what is there already, and always what is no file or folder: a new file would take a device's place.
pub fn refuse_existing(path: &Path, force: bool) -> Result<(), Failure> {
    refuse_existing_with(path, force, "leave --output out, and redirect standard output to it")
}

/// The same, with what to do instead of an output to a device.
pub fn refuse_existing_with(path: &Path, force: bool, instead: &str) -> Result<(), Failure> {
    if path.symlink_metadata().is_err() {
        return Ok(());
    }
    if path.metadata().is_ok_and(|found| !(found.is_file() || found.is_dir())) {
        let what = format!("{} is a device or a pipe\n  {instead}", shown(path));
        return Err(Failure::new(OUTPUT, what));
    }
    if !force {
        let what = format!("{} exists\n  name another output, or replace it with --force", shown(path));
        return Err(Failure::new(OUTPUT, what));
    }
    Ok(())
}

pub fn cannot(what: &str, path: &Path, error: std::io::Error) -> Failure {
    let code = if what == "create" { OUTPUT } else { WRITE };
    let error = cuprof::Error::io(&format!("cannot {what}"), path, error);
    Failure::new(code, error.to_string())
}

/// What a signal has to remove before it ends the process.
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// A file or folder under a temporary name, beside the one that it will have. Gone when it is dropped, or the process is
/// interrupted.
pub struct Unfinished(PathBuf);

impl Unfinished {
    /// A name for it; nothing is created.
    pub fn beside(path: &Path) -> Result<Self, Failure> {
        watch_signals();
        let name = path
            .file_name()
            .ok_or_else(|| Failure::new(OUTPUT, format!("{} is no name for an output", shown(path))))?;
        let temporary = format!(".{}.{}.tmp", name.to_string_lossy(), std::process::id());
        let temporary = path.with_file_name(temporary);
        unfinished().push(temporary.clone());
        Ok(Self(temporary))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Gives it its name.
    pub fn publish(self, path: &Path, force: bool) -> Result<(), Failure> {
        // Before a signal, or not at all.
        let _held = unfinished();
        // A hard link replaces nothing, even what came into being meanwhile; folders and some file systems have none.
        let renamed = if force || self.0.is_dir() {
            std::fs::rename(&self.0, path)
        } else {
            match std::fs::hard_link(&self.0, path) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                    return refuse_existing(path, false);
                }
                Err(_) => std::fs::rename(&self.0, path),
                linked => linked,
            }
        };
        renamed.map_err(|error| cannot("create", path, error))
    }

    /// Gives it its name, and what has that name goes to `old` and is removed. A signal comes before both or after both.
    pub fn publish_over(self, path: &Path, old: Self) -> Result<(), Failure> {
        let _held = unfinished();
        let replaced = |error| cannot("create", path, error);
        std::fs::rename(path, &old.0).map_err(replaced)?;
        std::fs::rename(&self.0, path).map_err(|error| {
            let _back = std::fs::rename(&old.0, path);
            replaced(error)
        })
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // While a signal has the list, it removes what is in it.
        let mut unfinished = unfinished();
        remove(&self.0);
        unfinished.retain(|path| *path != self.0);
    }
}

fn unfinished() -> std::sync::MutexGuard<'static, Vec<PathBuf>> {
    // A thread that panicked while it held the list left it as it was.
    UNFINISHED.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn remove(path: &Path) {
    // Mostly it has its name by now. What cannot be removed stays, under a name that says what it is.
    let _ = if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
}

/// Removes what another thread may be writing to. For a while, a file in its place lets nothing more be created there: who
/// wants to fails, and waits for the end of the process when it drops what is [`Unfinished`].
fn remove_from_under(path: &Path) {
    const ATTEMPTS: usize = 1000;
    for _ in 0..ATTEMPTS {
        remove(path);
        if File::create_new(path).is_ok() {
            std::thread::sleep(Duration::from_millis(20));
            break;
        }
    }
    remove(path);
}

/// Has a thread wait for signals, from the first output on.
fn watch_signals() {
    static WATCHING: Once = Once::new();
    WATCHING.call_once(|| {
        // Without it, an interrupted command leaves a temporary file.
        let Ok(mut signals) = Signals::new([SIGINT, SIGTERM, SIGHUP]) else { return };
        let wait = move || {
            if let Some(signal) = signals.forever().next() {
                // Held to the end of the process, so that nothing gets its name meanwhile.
                let unfinished = unfinished();
                unfinished.iter().for_each(|path| remove_from_under(path));
                // At once, before anything is created anew.
                signal_hook::low_level::exit(128 + signal);
            }
        };
        drop(std::thread::Builder::new().name("signals".to_owned()).spawn(wait));
    });
}

/// Tells how far long work is, on a terminal only.
pub struct Meter {
    what: &'static str,
    shown: Mutex<Shown>,
    is_terminal: bool,
}

struct Shown {
    last: Instant,
    is_there: bool,
}

/// Work that takes less is not told of.
const PATIENCE: Duration = Duration::from_millis(400);

impl Meter {
    pub fn new(what: &'static str) -> Self {
        let shown = Mutex::new(Shown { last: Instant::now(), is_there: false });
        Self { what, shown, is_terminal: std::io::stderr().is_terminal() }
    }

    pub fn tell(&self, done: u64, total: u64) {
        if !self.is_terminal {
            return;
        }
        let Ok(mut shown) = self.shown.try_lock() else { return };
        if shown.last.elapsed() >= PATIENCE {
            let percent = (done * 100).checked_div(total).unwrap_or(100);
            let _ = write!(std::io::stderr(), "\r{} {percent}% of {total} rows", self.what);
            *shown = Shown { last: Instant::now(), is_there: true };
        }
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        if self.shown.get_mut().is_ok_and(|shown| shown.is_there) {
            let _ = write!(std::io::stderr(), "\r\u{1b}[K");
        }
    }
}
