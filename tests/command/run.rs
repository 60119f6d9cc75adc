//! Running the command, and comparing what it prints.

use std::error::Error;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

pub type Outcome = Result<(), Box<dyn Error>>;

/// The recordings that come with the crate.
pub const RECORDINGS: [&str; 4] = ["quickstart", "graph", "threads", "nvtx"];

/// What the command printed, and how it ended.
#[derive(Debug)]
pub struct Run {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Run {
    pub fn expect(self, code: i32) -> Result<Self, Box<dyn Error>> {
        if self.code == Some(code) { Ok(self) } else { Err(format!("{self:#?} instead of {code}").into()) }
    }
}

/// The command, in a folder with the datasets of all recordings, with the environment of nobody.
pub fn cuprof() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cuprof"));
    command.current_dir(datasets()).env_clear().env("COLUMNS", "100").stdin(Stdio::null());
    command
}

pub fn run<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Result<Run, Box<dyn Error>> {
    finished(cuprof().args(arguments))
}

/// The arguments as they would be typed, apart at spaces.
pub fn line(arguments: &str) -> Result<Run, Box<dyn Error>> {
    run(arguments.split_whitespace())
}

pub fn finished(command: &mut Command) -> Result<Run, Box<dyn Error>> {
    let output = command.output()?;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Ok(Run { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) })
}

pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A folder with `quickstart.cuprof` and so on, made once.
#[expect(clippy::expect_used, reason = "no test can go on without it")]
pub fn datasets() -> &'static Path {
    static FOLDER: OnceLock<tempfile::TempDir> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a folder for datasets");
        for name in RECORDINGS {
            let recording = root().join("examples/recordings").join(name).with_extension("cuprofrec");
            let output = folder.path().join(name).with_extension("cuprof");
            let made = cuprof::Replay::open(recording).map(|replay| replay.output(&output).run());
            assert!(matches!(made, Ok(Ok(_))), "{name} cannot be replayed");
        }
        folder
    });
    folder.path()
}

/// A copy of a dataset to be spoilt.
pub fn copy_of(name: &str, to: &Path) -> Result<PathBuf, Box<dyn Error>> {
    let copy = to.join(name);
    std::fs::create_dir_all(&copy)?;
    for entry in std::fs::read_dir(datasets().join(name))? {
        let entry = entry?;
        std::fs::copy(entry.path(), copy.join(entry.file_name()))?;
    }
    Ok(copy)
}

/// Compares with the file in `snapshots`.
pub fn compare(name: &str, found: &str) -> Outcome {
    let path = root().join("tests/command/snapshots").join(name);
    if crate::bless::is_asked_for() {
        std::fs::create_dir_all(path.parent().unwrap_or(&path))?;
        return Ok(std::fs::write(path, found)?);
    }
    let known = std::fs::read_to_string(&path).unwrap_or_default();
    if known == found {
        return Ok(());
    }
    let differs = known.lines().zip(found.lines()).find(|(known, found)| known != found);
    let (path, hint) = (path.display(), "CUPROF_BLESS=1 writes it anew");
    Err(format!("{path} differs ({hint}), first in {differs:#?}; all of it:\n{found}").into())
}
