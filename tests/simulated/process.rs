//! A process for each test, with the simulated libraries on its library path.

use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc;
use std::time::Duration;

use crate::Outcome;
use crate::library::Simulated;

/// Set in the process of a test: the test's name.
const INSIDE: &str = "CUPROF_TEST_INSIDE";

/// The variables by which the crate searches for CUPTI. Tests set them as they need.
const SEARCHED: [&str; 7] = [
    "CUPROF_CUPTI_PATH",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "PYTHONUSERBASE",
    "CUDA_HOME",
    "CUDA_PATH",
    "NVTX_INJECTION64_PATH",
];

/// No test takes longer. A hanging one is killed.
const LIMIT: Duration = Duration::from_secs(50);

/// A process in which one test runs.
pub struct Process {
    test: &'static str,
    variables: Vec<(OsString, OsString)>,
    script: &'static str,
}

impl Process {
    /// For this test: a function of this crate.
    pub fn of<Test: Fn() -> Outcome>(_test: Test) -> Self {
        let path = std::any::type_name::<Test>();
        let test = path.split_once("::").map_or(path, |(_crate, test)| test);
        let libraries = libraries();
        let process = Self { test, variables: Vec::new(), script: "" };
        process
            .with("LD_LIBRARY_PATH", libraries)
            .with("CUPROF_CUPTI_PATH", libraries.join("libcupti.so.13"))
            .with("HOME", "/nowhere/home")
    }

    /// With a variable set; set to nothing, it is as if it were not there.
    pub fn with(mut self, variable: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.variables.push((variable.into(), value.into()));
        self
    }

    /// As this CUPTI, under a driver of the same CUDA major version.
    pub fn version(self, version: &str) -> Self {
        let driver = if version.starts_with("12") { "12090" } else { "13000" };
        self.with("SIM_VERSION", version).with("SIM_CUDA_VERSION", driver)
    }

    /// With calls of CUPTI failing: `name:first argument or *:code`, separated by commas.
    pub fn failing(self, script: &str) -> Self {
        self.with("SIM_FAIL", script)
    }

    /// With shell commands run before, for limits that a process cannot set for itself without unsafe code.
    pub fn after(self, script: &'static str) -> Self {
        Self { script, ..self }
    }

    /// Runs `inside` there. It must end by itself, with exit code 0, and without violating CUPTI's rules.
    pub fn run(self, inside: impl FnOnce() -> Outcome) -> Outcome {
        match std::env::var_os(INSIDE) {
            Some(test) if test == self.test => {
                inside()?;
                if let Some(cupti) = Simulated::if_loaded() {
                    assert_eq!(cupti.violations(), 0, "CUPTI's rules were violated");
                }
                Ok(())
            }
            _ => self.spawn(),
        }
    }

    /// Starts the test in its process, with its standard output to be read, and leaves it alone.
    pub fn start(&self) -> std::io::Result<Child> {
        let program = std::env::current_exe()?;
        let mut command = Command::new("sh");
        command
            .args(["-c", &format!("{} exec \"$0\" \"$@\"", self.script)])
            .arg(&program)
            .args(["--exact", self.test, "--nocapture", "--test-threads=1"])
            .envs(self.variables.iter().map(|(variable, value)| (variable, value)))
            .env(INSIDE, self.test)
            .env("RUST_BACKTRACE", "0")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        for variable in SEARCHED {
            let set = self.variables.iter().rev().find(|(name, _)| name == variable);
            if set.is_none_or(|(_, value)| value.is_empty()) {
                command.env_remove(variable);
            }
        }
        command.spawn()
    }

    fn spawn(&self) -> Outcome {
        let mut child = self.start()?;
        let readers = [read(child.stdout.take()), read(child.stderr.take())];
        let mut texts = Vec::new();
        for reader in readers {
            let Ok(text) = reader.recv_timeout(LIMIT) else {
                child.kill()?;
                child.wait()?;
                return Err(format!("{} hung", self.test).into());
            };
            texts.push(text);
        }
        let status = child.wait()?;
        let (output, errors) = (&texts[0], &texts[1]);
        assert_eq!(status.code(), Some(0), "{} ended with {status}\n{output}\n{errors}", self.test);
        assert!(output.contains("1 passed"), "the test did not run in its process:\n{output}");
        output.lines().filter(|line| line.starts_with("skipped")).for_each(|line| println!("{line}"));
        Ok(())
    }
}

/// Reads a pipe to its end on a thread of its own.
fn read(pipe: Option<impl Read + Send + 'static>) -> mpsc::Receiver<String> {
    let (done, wait) = mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _what_came = pipe.map(|mut pipe| pipe.read_to_end(&mut bytes));
        let _nobody_waits = done.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    wait
}

/// The simulated libraries: the source of each in `libraries/`, and the names under which it is found.
const LIBRARIES: [(&str, &[&str]); 2] =
    [("cuda", &["libcuda.so.1"]), ("cupti", &["libcupti.so.13", "libcupti.so.12"])];

/// The folder with the simulated libraries, built at the first call.
pub fn libraries() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("simulated");
        if std::env::var_os(INSIDE).is_none() {
            std::fs::create_dir_all(&folder).unwrap();
            std::thread::scope(|scope| {
                for (source, names) in LIBRARIES {
                    let folder = &folder;
                    scope.spawn(move || build(folder, source, names));
                }
            });
        }
        folder
    })
}

/// Compiles one of them, in a folder of its own: other runs of this program may do the same meanwhile. Files appear
/// whole or not at all.
fn build(folder: &Path, source: &str, names: &[&str]) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/simulated/libraries/{source}.rs"));
    let workshop = tempfile::tempdir_in(folder).unwrap();
    let built = workshop.path().join("built");
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let options = [
        "--edition=2024",
        "--crate-type=cdylib",
        "--crate-name=simulated",
        "-Copt-level=1",
        "-Cpanic=abort",
        "-o",
    ];
    let status = Command::new(rustc).args(options).args([&built, &source]).status();
    assert!(status.is_ok_and(|status| status.success()), "rustc could not build {}", source.display());
    for name in names {
        let copy = workshop.path().join(name);
        std::fs::copy(&built, &copy).unwrap();
        std::fs::rename(copy, folder.join(name)).unwrap();
    }
}

/// Whether this is the process of a test, and not the one that started it.
pub fn is_inside() -> bool {
    std::env::var_os(INSIDE).is_some()
}

/// Says why a test does not run here.
pub fn skip(reason: impl std::fmt::Display) -> Outcome {
    println!("skipped: {reason}");
    Ok(())
}

/// The value of a variable that a test gave to its process.
pub fn given(variable: impl AsRef<OsStr>) -> PathBuf {
    std::env::var_os(variable).unwrap().into()
}

/// Forks; the child runs this and exits at once. Returns whether it was true there.
#[expect(unsafe_code, reason = "there is no safe way to fork")]
pub fn fork_and_run(inside: impl FnOnce() -> bool) -> std::io::Result<bool> {
    // SAFETY: these are the C library's own, which every program of std is linked with.
    unsafe extern "C" {
        fn fork() -> i32;
        fn _exit(status: i32) -> !;
        fn waitpid(process: i32, status: *mut i32, options: i32) -> i32;
    }
    // SAFETY: the child is left with this thread only; the C library's allocator supports that, and what runs there
    // is meant to be safe in this state: it is what is tested.
    match unsafe { fork() } {
        -1 => Err(std::io::Error::last_os_error()),
        0 => {
            let succeeded = inside();
            // SAFETY: it has no preconditions. Nothing of the parent's is closed or run twice.
            unsafe { _exit(if succeeded { 0 } else { 1 }) }
        }
        child => {
            let mut status = 0;
            // SAFETY: `status` can be written to.
            let waited = unsafe { waitpid(child, &raw mut status, 0) };
            Ok(waited == child && status == 0)
        }
    }
}
