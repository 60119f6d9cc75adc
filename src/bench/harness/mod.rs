//! Benchmarks as `cargo bench` runs them: filters, baselines, exit codes.

mod args;

use std::fmt;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use self::args::{Args, HELP};
use super::builder::Bench;
use super::report::{BenchError, Report};
use crate::compare::{Collection, FailOn, Rules};
use crate::error::{Error, ErrorKind};

type Failed = Box<dyn std::error::Error>;
type Measure = dyn FnOnce(Bench) -> Result<Report, Failed>;

/// Set in a process that measures for another one: which of them it is.
const PROCESS: &str = "CUPROF_BENCH_PROCESS";

/// The name under which results are kept that are to have none.
const LATEST: &str = "latest";

/// Benchmarks of a program, which cargo runs: the whole of `benches/NAME.rs` with `harness = false`.
///
/// ```
/// use std::process::ExitCode;
///
/// use cuprof::bench::Harness;
/// # fn launch(n: usize) -> cuprof::Result<()> { Ok(()) }
/// # fn gpu() -> Result<(), &'static str> { Err("no GPU here") }
///
/// fn main() -> ExitCode {
///     Harness::from_args()
///         .needs(gpu()) // what is absent is told, and nothing is measured
///         .bench("gemm", |bench| {
///             let bench = bench.configs([512_usize, 1024]).parameters(["n"]).runs(50);
///             Ok(bench.run(|run, n| run.measure("fp32", || launch(*n)))?)
///         })
///         .run()
/// }
/// ```
///
/// `cargo bench` measures and prints each report; `cargo bench -- gemm` what has that in its name. Results are datasets
/// under `target/cuprof/NAME/BENCHMARK/`, which `cuprof compare` and others read.
///
/// `cargo bench -- --save-baseline main` keeps them, and `cargo bench -- --baseline main` compares with them, by the rules of
/// [`compare`](crate::compare). These need several process runs of each side, since what differs from one start of a
/// process to the next is mostly more than what differs within: the program starts itself five times (`--processes`).
///
/// `--help` lists all arguments and the exit codes: 0, 1 (slower), 2 (not known), 3 (cannot be compared), and from 64 on
/// what went wrong. Without `--bench`, which `cargo bench` passes, as under `cargo test`, each benchmark is tried with one run.
#[must_use = "nothing is measured before `run`"]
pub struct Harness {
    args: Result<Args, String>,
    /// What is absent.
    absent: Option<String>,
    benches: Vec<(String, Box<Measure>)>,
    /// Which process it is of those that measure for another one.
    process: Option<usize>,
    executable: PathBuf,
}

impl fmt::Debug for Harness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.benches.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("Harness").field("args", &self.args).field("benches", &names).finish_non_exhaustive()
    }
}

/// What a harness puts in place of what a benchmark says of itself.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Overrides {
    pub runs: Option<usize>,
    /// It is only tried.
    pub is_test: bool,
}

/// A code to end with, and what to say.
struct Ended(u8, String);

const SUCCESS: u8 = 0;
const USAGE: u8 = 64;
const INPUT: u8 = 65;
const UNAVAILABLE: u8 = 69;
const FAILED: u8 = 70;
const OUTPUT: u8 = 73;

impl Harness {
    /// With the arguments of this process.
    pub fn from_args() -> Self {
        let executable = std::env::current_exe().unwrap_or_default();
        let process = std::env::var(PROCESS).ok().and_then(|number| number.parse().ok());
        Self::new(std::env::args().skip(1), executable, process)
    }

    fn new(args: impl IntoIterator<Item = String>, executable: PathBuf, process: Option<usize>) -> Self {
        Self { args: Args::parse(args), absent: None, benches: Vec::new(), process, executable }
    }

    /// What has to be there to measure. Where it is not, the harness says why, measures nothing and succeeds, unless a
    /// baseline is to be saved or compared with. Names can be listed all the same.
    pub fn needs<T, E: fmt::Display>(mut self, found: Result<T, E>) -> Self {
        if let Err(absent) = found {
            self.absent.get_or_insert(absent.to_string());
        }
        self
    }

    /// A benchmark: it is given a [`Bench`] with its name, and returns the report.
    pub fn bench(
        mut self,
        name: impl Into<String>,
        measure: impl FnOnce(Bench) -> Result<Report, Failed> + 'static,
    ) -> Self {
        self.benches.push((name.into(), Box::new(measure)));
        self
    }

    /// Does what the arguments ask for, prints it, and gives the code to end with.
    pub fn run(self) -> ExitCode {
        // Nobody can be told that nobody reads.
        let (mut out, mut err) = (std::io::stdout(), std::io::stderr());
        let Ended(code, what) = match self.run_to(&mut out) {
            Ok(code) => Ended(code, String::new()),
            Err(ended) => ended,
        };
        if !what.is_empty() {
            let _gone = writeln!(err, "error: {what}");
        }
        ExitCode::from(code)
    }

    fn run_to(mut self, out: &mut dyn Write) -> Result<u8, Ended> {
        let args = std::mem::replace(&mut self.args, Ok(Args::default()));
        let args = args.map_err(|what| Ended(USAGE, format!("{what}\n\n{HELP}")))?;
        let mut tell = |text: &str| {
            let _gone = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        };
        if args.help {
            tell(HELP);
            return Ok(SUCCESS);
        }
        let names: Vec<String> =
            self.benches.iter().map(|(name, _)| name.clone()).filter(|name| args.takes(name)).collect();
        if let Some(twice) = (0..names.len()).find(|at| names[..*at].contains(&names[*at])) {
            return Err(Ended(FAILED, format!("there are two benchmarks {:?}", names[twice])));
        }
        if args.list {
            names.iter().for_each(|name| tell(&format!("{name}: benchmark\n")));
            if !args.terse {
                tell(&format!("\n0 tests, {} benchmarks\n", names.len()));
            }
            return Ok(SUCCESS);
        }
        if names.is_empty() && !self.benches.is_empty() {
            // No failure: cargo hands the same filter to all programs of benchmarks.
            tell("nothing is measured: no benchmark has such a name (--list lists them)\n");
            return Ok(SUCCESS);
        }
        if let Some(why) = &self.absent {
            tell(&format!("nothing is measured: {why}\n"));
            let is_asked = args.save.is_some() || args.baseline.is_some();
            return Ok(if is_asked { UNAVAILABLE } else { SUCCESS });
        }
        let folder = Folder::of(&args, &self.executable);
        let place = args.save.clone().unwrap_or_else(|| LATEST.to_owned());
        if let Some(baseline) = &args.baseline {
            // Before hours of measuring.
            let lacking = names.iter().find(|name| !folder.holds(name, baseline));
            if let Some(name) = lacking {
                let what = format!(
                    "there is no baseline {baseline:?} of {name} in {}: make it with --save-baseline {baseline}",
                    folder.0.display()
                );
                return Err(Ended(INPUT, what));
            }
        }
        if self.process.is_none() && !args.test {
            for name in &names {
                folder.clear(name, &place)?;
            }
        }
        match (self.process, args.processes()) {
            (None, processes @ 2..) => start_processes(&self.executable, processes)?,
            (process, _) => {
                for (name, measure) in self.benches.into_iter().filter(|(name, _)| args.takes(name)) {
                    let bench = Bench::new(name.clone());
                    let bench = bench.overridden(Overrides { runs: args.runs, is_test: args.test });
                    let report = measure(bench).map_err(|error| failed(&name, &error))?;
                    if !args.test {
                        folder.keep(&report, &name, &place, process.unwrap_or(0))?;
                        tell(&format!("{report}\n"));
                    } else {
                        tell(&format!("{name}: ok\n"));
                    }
                }
            }
        }
        let (Some(baseline), None) = (&args.baseline, self.process) else { return Ok(SUCCESS) };
        let side = |place: &str| Collection::open(names.iter().map(|name| folder.path(name, place)));
        let unreadable = |error: Error| Ended(INPUT, error.to_string());
        let (base, new) = (side(baseline).map_err(unreadable)?, side(&place).map_err(unreadable)?);
        let compared = Rules::default().compare(&base, &new).map_err(unreadable)?;
        tell(&compared.to_string());
        let fail_on = if args.fail_on_slower_only { FailOn::Slower } else { FailOn::Inconclusive };
        Ok(compared.exit_code(fail_on, false))
    }
}

/// Measures in other processes, one after the other. What the first prints is printed.
fn start_processes(executable: &Path, processes: usize) -> Result<(), Ended> {
    for process in 0..processes {
        let mut command = Command::new(executable);
        command.args(std::env::args_os().skip(1)).env(PROCESS, process.to_string());
        if process > 0 {
            command.stdout(Stdio::null());
        }
        let status = command.status().map_err(|error| {
            Ended(FAILED, format!("cannot start {} once more: {error}", executable.display()))
        })?;
        if !status.success() {
            let code = status.code().and_then(|code| u8::try_from(code).ok());
            // Lower ones are verdicts here, which a single process does not give.
            let code = code.filter(|code| *code >= USAGE).unwrap_or(FAILED);
            return Err(Ended(code, format!("process {} of {processes} ended early: {status}", process + 1)));
        }
    }
    Ok(())
}

fn failed(name: &str, error: &Failed) -> Ended {
    let of_bench = error.downcast_ref::<BenchError>().map(|failed| &failed.error);
    let kind = of_bench.or_else(|| error.downcast_ref::<Error>()).map(|error| error.kind);
    let code = if kind.is_some_and(ErrorKind::is_of_the_machine) { UNAVAILABLE } else { FAILED };
    Ended(code, format!("{name}: {error}"))
}

/// Where results are kept: a folder for each benchmark, in it one for each baseline, in it a dataset of each process.
struct Folder(PathBuf);

impl Folder {
    fn of(args: &Args, executable: &Path) -> Self {
        if let Some(folder) = &args.folder {
            return Self(folder.clone());
        }
        let stem = executable
            .file_stem()
            .map_or_else(|| "bench".to_owned(), |stem| stem.to_string_lossy().into_owned());
        let is_hash = |text: &str| text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let name = match stem.rsplit_once('-') {
            Some((name, hash)) if is_hash(hash) => name,
            _ => &stem,
        };
        // Cargo builds it as `target/release/deps/NAME-HASH`.
        let deps = executable.parent().filter(|folder| folder.ends_with("deps"));
        let target = deps.and_then(|deps| deps.parent()?.parent());
        Self(target.unwrap_or(Path::new("target")).join("cuprof").join(name))
    }

    fn path(&self, bench: &str, place: &str) -> PathBuf {
        self.0.join(file_name(bench)).join(file_name(place))
    }

    fn holds(&self, bench: &str, place: &str) -> bool {
        self.path(bench, place).is_dir()
    }

    /// Removes what is to be replaced, dataset by dataset: nothing else in the folder is touched.
    fn clear(&self, bench: &str, place: &str) -> Result<(), Ended> {
        let path = self.path(bench, place);
        let failed = |error: std::io::Error| Ended(OUTPUT, format!("{}: {error}", path.display()));
        for process in 0.. {
            let dataset = dataset(&path, process);
            if !dataset.is_dir() {
                break;
            }
            std::fs::remove_dir_all(&dataset).map_err(failed)?;
        }
        Ok(())
    }

    fn keep(&self, report: &Report, bench: &str, place: &str, process: usize) -> Result<(), Ended> {
        let path = self.path(bench, place);
        std::fs::create_dir_all(&path)
            .map_err(|error| Ended(OUTPUT, format!("{}: {error}", path.display())))?;
        let written = report.write(dataset(&path, process));
        written.map(drop).map_err(|error| Ended(OUTPUT, error.to_string()))
    }
}

fn dataset(folder: &Path, process: usize) -> PathBuf {
    folder.join(format!("{process}.cuprof"))
}

/// The name of a file, another one for each name: letters, digits, `.`, `_` and `-` stay, but for a `.` in front.
fn file_name(name: &str) -> String {
    let mut file = String::new();
    for (at, byte) in name.bytes().enumerate() {
        let stays = byte.is_ascii_alphanumeric() || b"_-".contains(&byte) || (byte == b'.' && at > 0);
        if stays {
            file.push(byte.into());
        } else {
            file += &format!("%{byte:02x}");
        }
    }
    file
}

#[cfg(test)]
mod tests;
