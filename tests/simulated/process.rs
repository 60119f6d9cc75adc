//! A process for each test, with the simulated libraries on its library path.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc;
use std::time::Duration;

use crate::Outcome;

/// Set in the process of a test: the test's name.
const INSIDE: &str = "CUPROF_TEST_INSIDE";

/// Set in the process of a test: where the simulated libraries are.
const BUILT: &str = "CUPROF_TEST_LIBRARIES";

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

/// A test takes no longer, unless it says so, and but for what `CUPROF_TEST_PATIENCE` multiplies it with. A hanging one
/// is killed.
const LIMIT: Duration = Duration::from_secs(50);

/// How the process of a test ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// By itself, when its test has passed.
    Passed,
    /// With this exit code.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

/// Where a process finds nothing of the user who runs the tests.
pub const HOME: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/home");

/// A process in which one test runs.
pub struct Process {
    test: &'static str,
    variables: Vec<(OsString, OsString)>,
    script: &'static str,
    end: End,
    limit: Duration,
    violations: &'static [&'static str],
    program: Option<PathBuf>,
    /// Kept until the process has ended.
    _folders: Vec<tempfile::TempDir>,
}

impl Process {
    /// For this test: a function of this crate.
    pub fn of<Test: Fn() -> Outcome>(_test: Test) -> Self {
        let path = std::any::type_name::<Test>();
        let test = path.split_once("::").map_or(path, |(_crate, test)| test);
        let libraries = libraries();
        let process = Self {
            test,
            variables: Vec::new(),
            script: "",
            end: End::Passed,
            limit: LIMIT,
            violations: &[],
            program: None,
            _folders: Vec::new(),
        };
        process
            .with("LD_LIBRARY_PATH", libraries)
            .with("CUPROF_CUPTI_PATH", libraries.join("libcupti.so.13"))
            // Below the folder that cargo cleans up: what runs here may make it.
            .with("HOME", HOME)
    }

    /// With a variable set; set to nothing, it is as if it were not there.
    pub fn with(mut self, variable: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.variables.push((variable.into(), value.into()));
        self
    }

    /// As this CUPTI, with the functions that it has, under a driver of the same CUDA major version.
    pub fn version(self, version: &str) -> Self {
        let (driver, name) =
            if version.starts_with("12") { ("12090", "libcupti.so.12") } else { ("13000", "libcupti.so.13") };
        self.with("SIM_VERSION", version)
            .with("SIM_CUDA_VERSION", driver)
            .with("CUPROF_CUPTI_PATH", libraries().join(version).join(name))
    }

    /// With a CUPTI that lacks these functions.
    pub fn without(mut self, functions: &[&str]) -> Self {
        if is_inside() {
            return self;
        }
        let folder = folder().unwrap();
        let library = folder.path().join("libcupti.so.13");
        functions.iter().for_each(|name| assert!(cupti_has(name), "it has no {name} to lose"));
        fs::write(&library, take_out(fs::read(libraries().join("libcupti.so.13")).unwrap(), functions))
            .unwrap();
        self._folders.push(folder);
        self.with("CUPROF_CUPTI_PATH", library)
    }

    /// With calls of CUPTI failing: `name:first argument or *:code or hang[:n-th call]`, separated by commas.
    pub fn failing(self, script: &str) -> Self {
        self.with("SIM_FAIL", script)
    }

    /// With shell commands run before, for limits that a process cannot set for itself without unsafe code.
    pub fn after(self, script: &'static str) -> Self {
        Self { script, ..self }
    }

    /// Taking up to so many seconds.
    pub fn lasting(self, seconds: u64) -> Self {
        Self { limit: Duration::from_secs(seconds), ..self }
    }

    /// Ending in this way.
    pub fn ending(self, end: End) -> Self {
        Self { end, ..self }
    }

    /// Breaking these rules of CUPTI: what the simulation prints of each contains this.
    pub fn breaking(self, violations: &'static [&'static str]) -> Self {
        Self { violations, ..self }
    }

    /// Running this program instead of the test.
    pub fn program(self, program: PathBuf) -> Self {
        Self { program: Some(program), ..self }
    }

    /// Runs `inside` there. It must end as it should, and without violating CUPTI's rules.
    pub fn run(self, inside: impl FnOnce() -> Outcome) -> Outcome {
        self.output(inside).map(|_| ())
    }

    /// The same. Returns what it printed to its standard output; inside, nothing.
    pub fn output(self, inside: impl FnOnce() -> Outcome) -> Result<String, Box<dyn std::error::Error>> {
        match std::env::var_os(INSIDE) {
            Some(test) if test == self.test => inside().map(|()| String::new()),
            _ => self.spawn(),
        }
    }

    /// Starts the test in its process, with its standard output to be read, and leaves it alone.
    pub fn start(&self) -> std::io::Result<Child> {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("{} exec \"$0\" \"$@\"", self.script)]);
        match &self.program {
            Some(program) => command.arg(program),
            None => command.arg(std::env::current_exe()?).args([
                "--exact",
                self.test,
                "--nocapture",
                "--test-threads=1",
                "--include-ignored",
            ]),
        };
        command
            .envs(self.variables.iter().map(|(variable, value)| (variable, value)))
            .env(INSIDE, self.test)
            .env(BUILT, libraries())
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

    fn spawn(&self) -> Result<String, Box<dyn std::error::Error>> {
        let mut child = self.start()?;
        let readers = [read(child.stdout.take()), read(child.stderr.take())];
        let patience = std::env::var("CUPROF_TEST_PATIENCE").ok().and_then(|times| times.parse().ok());
        let mut texts = Vec::new();
        for reader in readers {
            let Ok(text) = reader.recv_timeout(self.limit * patience.unwrap_or(1)) else {
                child.kill()?;
                child.wait()?;
                return Err(format!("{} hung", self.test).into());
            };
            texts.push(text);
        }
        let status = child.wait()?;
        let (output, errors) = (texts.swap_remove(0), texts.swap_remove(0));
        let end = match (status.code(), status.signal()) {
            (Some(0), _) if output.contains("1 passed") => End::Passed,
            (Some(code), _) => End::Code(code),
            (None, signal) => End::Signal(signal.unwrap_or_default()),
        };
        assert_eq!(end, self.end, "{} ended with {status}\n{output}\n{errors}", self.test);
        self.assert_rules_kept(&errors);
        // libtest has begun its own line before.
        let skipped = output.lines().filter_map(|line| line.find("skipped: ").map(|start| &line[start..]));
        skipped.for_each(|reason| println!("{reason}"));
        Ok(output)
    }

    /// Nothing but what was expected was violated: both libraries print to the standard error what nobody may do, and how
    /// the process ends does not matter to that.
    pub fn assert_rules_kept(&self, errors: &str) {
        let broken: Vec<_> = errors.lines().filter(|line| line.starts_with("simulated ")).collect();
        let as_expected = broken.len() == self.violations.len()
            && broken.iter().zip(self.violations).all(|(line, expected)| line.contains(expected));
        assert!(as_expected, "{}: CUPTI's rules were violated: {broken:#?}", self.test);
    }
}

/// Reads a pipe to its end on a thread of its own.
pub fn read(pipe: Option<impl Read + Send + 'static>) -> mpsc::Receiver<String> {
    let (done, wait) = mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _what_came = pipe.map(|mut pipe| pipe.read_to_end(&mut bytes));
        let _nobody_waits = done.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    wait
}

/// The simulated libraries: the source of each in `libraries/`, and the names under which it is found.
const LIBRARIES: [(&str, &[&str]); 5] = [
    ("cuda", &["libcuda.so.1"]),
    ("cupti", &["libcupti.so.13", "libcupti.so.12"]),
    ("nvml", &["libnvidia-ml.so.1"]),
    ("nvidia_smi", &["nvidia-smi"]),
    ("nvperf", &["libnvperf_host.so", "libnvperf_target.so"]),
];

/// The releases of CUPTI that can be simulated.
pub const VERSIONS: [&str; 8] = ["12.0", "12.4", "12.6", "12.9", "13.0.0", "13.0", "13.5", "13.99"];

/// The folder with the simulated libraries, built at the first call. Those of CUPTI have every function; below are
/// folders named by version, where CUPTI has those of that release.
pub fn libraries() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        if let Some(built) = std::env::var_os(BUILT) {
            return built.into();
        }
        // Named by what they are made of: they are built again when that has changed.
        let name = format!("simulated-{:016x}", fingerprint().unwrap());
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let complete = folder.join("complete");
        if !complete.exists() {
            fs::create_dir_all(&folder).unwrap();
            std::thread::scope(|scope| {
                for (source, names) in LIBRARIES {
                    let folder = &folder;
                    scope.spawn(move || build(folder, source, names));
                }
            });
            fs::write(complete, []).unwrap();
        }
        folder
    })
}

/// A folder that is removed when it is dropped; where a test was killed, it lies among what cargo cleans up.
pub fn folder() -> std::io::Result<tempfile::TempDir> {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))
}

/// Builds an example with these arguments for rustc, as this program was built otherwise. That takes no time where it is
/// there; cargo builds examples with all tests, but not with one of them.
pub fn example(name: &str, file: &str, rustc: &[&str]) -> Result<PathBuf, Box<dyn std::error::Error>> {
    // TARGET/PROFILE/deps/simulated-HASH
    let program = std::env::current_exe()?;
    let folder = program.ancestors().nth(2).ok_or("a folder for the profile")?;
    let profile = match folder.file_name().ok_or("a profile")?.to_str().ok_or("a text")? {
        "debug" => "dev",
        other => other,
    };
    let features = [
        ("nvtx", cfg!(feature = "nvtx")),
        ("tracing", cfg!(feature = "tracing")),
        ("analysis", cfg!(feature = "analysis")),
        ("cli", cfg!(feature = "cli")),
        ("bindgen", cfg!(feature = "bindgen")),
    ];
    let features: Vec<_> = features.iter().filter(|(_, is_on)| *is_on).map(|(name, _)| *name).collect();
    let output = Command::new(env!("CARGO"))
        .args(["rustc", "--locked", "--example", name, "--profile", profile, "--features"])
        .args([features.join(","), "--target-dir".to_owned()])
        .arg(folder.parent().ok_or("a folder for targets")?)
        .arg("--")
        .args(rustc)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()?;
    let built = folder.join("examples").join(file);
    if output.status.success() && built.exists() {
        return Ok(built);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("the example {name} could not be built as {}: {said}", built.display()).into())
}

/// A number for everything that the libraries are made of.
fn fingerprint() -> std::io::Result<u64> {
    let mut sources = Vec::new();
    for file in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/simulated/libraries"))? {
        let path = file?.path();
        sources.push((path.clone(), fs::read(path)?));
    }
    sources.push((file!().into(), include_bytes!("process.rs").to_vec()));
    sources.sort();
    let mut hasher = DefaultHasher::new();
    sources.hash(&mut hasher);
    std::env::var_os("RUSTUP_TOOLCHAIN").hash(&mut hasher);
    Ok(Hasher::finish(&hasher))
}

/// Whether the simulated CUPTI has this function.
pub fn cupti_has(function: &str) -> bool {
    static NAMES: OnceLock<BTreeSet<Vec<u8>>> = OnceLock::new();
    let names = NAMES.get_or_init(|| {
        let library = fs::read(libraries().join("libcupti.so.13")).unwrap();
        library
            .split(|byte| *byte == 0)
            .filter(|text| text.starts_with(b"cupti"))
            .map(<[u8]>::to_vec)
            .collect()
    });
    names.contains(function.as_bytes())
}

/// Renames functions in a library, so that nobody finds them.
fn take_out(mut library: Vec<u8>, functions: &[&str]) -> Vec<u8> {
    for text in library.split_mut(|byte| *byte == 0) {
        if functions.iter().any(|function| function.as_bytes() == text) {
            text[0] = b'X';
        }
    }
    library
}

/// The functions that a release did not have yet.
fn missing_in(version: &str) -> Vec<&'static str> {
    let mut numbers = version.split('.').map(|number| number.parse().unwrap());
    let release = cupti_sys::Release::new(numbers.next().unwrap(), numbers.next().unwrap());
    let newer = cupti_sys::Symbols::ALL.iter().filter(|symbol| symbol.since > release);
    newer.map(|symbol| symbol.name).collect()
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
        if names.iter().all(|name| name.contains(".so")) {
            "--crate-type=cdylib"
        } else {
            "--crate-type=bin"
        },
        "--crate-name=simulated",
        "-Copt-level=1",
        "-Cpanic=abort",
        "-Cstrip=symbols",
        "-o",
    ];
    let status = Command::new(rustc).args(options).args([&built, &source]).status();
    assert!(status.is_ok_and(|status| status.success()), "rustc could not build {}", source.display());
    let bytes = fs::read(&built).unwrap();
    let place = |bytes: &[u8], target: PathBuf| {
        fs::write(&built, bytes).unwrap();
        fs::rename(&built, target).unwrap();
    };
    for name in names {
        place(&bytes, folder.join(name));
    }
    let is_cupti = source.ends_with("cupti.rs");
    for version in VERSIONS.iter().filter(|_| is_cupti || source.ends_with("nvperf.rs")) {
        fs::create_dir_all(folder.join(version)).unwrap();
        let bytes = if is_cupti { take_out(bytes.clone(), &missing_in(version)) } else { bytes.clone() };
        names.iter().for_each(|name| place(&bytes, folder.join(version).join(name)));
    }
}

/// Whether this is the process of a test, and not the one that started it.
pub fn is_inside() -> bool {
    std::env::var_os(INSIDE).is_some()
}

/// Says why a test does not run here. That is a failure where `CUPROF_TEST_ALL` is set, as `./check --ci` does.
pub fn skip(reason: impl std::fmt::Display) -> Outcome {
    if std::env::var_os("CUPROF_TEST_ALL").is_some() {
        return Err(format!("it cannot run here, and CUPROF_TEST_ALL is set: {reason}").into());
    }
    println!("skipped: {reason}");
    Ok(())
}

/// The value of a variable that a test gave to its process.
pub fn given(variable: impl AsRef<OsStr>) -> PathBuf {
    std::env::var_os(variable).unwrap().into()
}

/// Gives a signal its default action: a process that a shell has started in the background ignores SIGINT, and so do
/// all that it starts.
#[expect(unsafe_code, reason = "std has no way to set a signal's action")]
pub fn default_action(number: i32) {
    const SIG_DFL: usize = 0;
    // SAFETY: this is the C library's own, which every program of std is linked with; a handler is as large as a
    // pointer.
    unsafe extern "C" {
        fn signal(number: i32, handler: usize) -> usize;
    }
    // SAFETY: the default action needs no handler.
    unsafe { signal(number, SIG_DFL) };
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
