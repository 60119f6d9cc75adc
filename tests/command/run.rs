//! Running the command, and comparing what it prints.

use std::error::Error;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

pub use crate::snapshot::compare;

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

/// A folder that all tests share, made once: it is gone when the tests have ended, in whatever way.
pub struct Shared(OnceLock<(PathBuf, Child)>);

impl Shared {
    pub const fn new() -> Self {
        Self(OnceLock::new())
    }

    /// Its path; the first to ask for it fills it.
    #[expect(clippy::expect_used, reason = "no test can go on without it")]
    pub fn path(&self, fill: impl FnOnce(&Path) -> Outcome) -> &Path {
        let (path, _) = self.0.get_or_init(|| {
            let path = tempfile::tempdir().expect("a folder for datasets").keep();
            // What is static is never dropped; this shell sees the end of its input when the process ends.
            let mut shell = Command::new("/bin/sh");
            shell.args(["-c", "trap '' INT TERM HUP; cat > /dev/null; rm -rf -- \"$0\""]).arg(&path);
            let shell = shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
            let shell = shell.spawn().expect("a shell");
            fill(&path).expect("datasets");
            (path, shell)
        });
        path
    }
}

/// A folder with `quickstart.cuprof` and so on.
pub fn datasets() -> &'static Path {
    static FOLDER: Shared = Shared::new();
    FOLDER.path(|folder| {
        for name in RECORDINGS {
            let recording = root().join("examples/recordings").join(name).with_extension("cuprofrec");
            let output = folder.join(name).with_extension("cuprof");
            cuprof::Replay::open(recording)?.output(&output).run().map_err(|failed| failed.error)?;
        }
        Ok(())
    })
}

/// Says what does not run here. That is a failure where `CUPROF_TEST_ALL` is set, as `./check --ci` does.
#[expect(clippy::print_stdout, reason = "says what was skipped")]
pub fn skipped(why: &str) -> Outcome {
    if std::env::var_os("CUPROF_TEST_ALL").is_some() {
        return Err(format!("{why}, and CUPROF_TEST_ALL is set").into());
    }
    println!("skipped: {why}");
    Ok(())
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
