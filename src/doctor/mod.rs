//! What keeps this machine and this process from being profiled, in plain words.

mod machine;
mod permission;
mod text;
mod tools;

use std::fmt;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

use cupti_sys::LibraryVersion;
use cupti_sys::loader::{Environment, LoadOptions, Search, Source, search};

use self::machine::Machine;
use crate::cupti::Libraries;
use crate::driver::Driver;
use crate::driver::nvml::Nvml;
use crate::error::{Error, ErrorKind, printable, shown};
use crate::issues;
use crate::limit::{Step, within};
use crate::trace::{self, DEFAULT_START_TIMEOUT, Profiler};
use crate::under_way;

/// How much a [`Finding`] matters, from the least on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Severity {
    /// As it should be.
    Ok,
    /// Worth knowing.
    Note,
    /// Something does not work, or can go wrong; tracing works.
    Warning,
    /// Tracing does not work.
    Problem,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Ok => "ok",
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Problem => "problem",
        })
    }
}

/// What a [`Finding`] is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Topic {
    /// The CUDA driver.
    Driver,
    /// The GPUs.
    Gpu,
    /// NVML, by which clocks and temperatures are read.
    Nvml,
    /// The CUPTI library.
    Cupti,
    /// Whether a session can start.
    Session,
    /// Hardware counters.
    Counters,
    /// Other tools in this process.
    OtherTools,
    /// A known fault of this CUPTI version.
    KnownIssue,
    /// A session that was tried, see [`Diagnosis::self_test`].
    SelfTest,
}

impl fmt::Display for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Driver => "driver",
            Self::Gpu => "GPU",
            Self::Nvml => "NVML",
            Self::Cupti => "CUPTI",
            Self::Session => "session",
            Self::Counters => "counters",
            Self::OtherTools => "other tools",
            Self::KnownIssue => "known issue",
            Self::SelfTest => "self-test",
        })
    }
}

/// One thing that was found, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// How much it matters.
    pub severity: Severity,
    /// What it is about.
    pub topic: Topic,
    /// What was found. Further lines are a list.
    pub text: String,
    /// What to do about it, where something can be done.
    pub remedy: Option<String>,
}

impl Finding {
    fn new(severity: Severity, topic: Topic, text: impl Into<String>) -> Self {
        Self { severity, topic, text: text.into(), remedy: None }
    }

    fn with_remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }

    /// An error whose hint is the remedy.
    fn from_error(severity: Severity, topic: Topic, mut error: Error) -> Self {
        let remedy = error.hint.take();
        Self { severity, topic, text: error.to_string(), remedy }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.severity, self.topic, printable(&self.text))?;
        self.remedy.iter().try_for_each(|remedy| write!(f, "\n  {}", printable(remedy)))
    }
}

/// What [`doctor`] found. Printed, it fits the terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnosis {
    findings: Vec<Finding>,
}

impl Diagnosis {
    /// Everything that was found, in the order in which it was looked for.
    #[must_use]
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// Whether nothing was found that keeps a session from starting.
    #[must_use]
    pub fn can_trace(&self) -> bool {
        self.findings.iter().all(|finding| finding.severity < Severity::Problem)
    }

    /// Runs this GPU work in a session, and adds what came of it: a session that starts and records nothing is a
    /// problem that cannot be seen otherwise. (A CUPTI older than the GPU does that.)
    ///
    /// The work launches at least one kernel and may fail. It is not run where something else is a problem already.
    /// Costs what a session without files costs.
    pub fn self_test<E: fmt::Display>(&mut self, work: impl FnOnce() -> Result<(), E>) {
        if self.can_trace() {
            self.findings.extend(tried(work));
        }
    }

    /// The findings as text for a terminal of this width; below 40 it is taken as 40.
    #[must_use]
    pub fn render(&self, width: usize) -> String {
        text::render(self, width)
    }
}

impl fmt::Display for Diagnosis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(text::width_of_stdout()))
    }
}

/// Looks at the driver, the GPUs, CUPTI, permissions and other tools, and says what keeps a session from working, what
/// may go wrong in it, and what to do about each.
///
/// It works on a machine with nothing installed: that is then what it says. Nothing is changed. The driver is
/// initialised (`cuInit`), no context is created; CUPTI is loaded, as a session would, and stays loaded; a subscription
/// is asked for and given back, unless a session of this crate runs. That takes some 10 ms where there is no GPU, and
/// as long as the driver takes to start where there is one. What does not come back in the time that a session's start
/// has ([`DEFAULT_START_TIMEOUT`]) is a problem that is told, see [`doctor_within`].
///
/// ```
/// let diagnosis = cuprof::doctor();
/// print!("{diagnosis}");
/// if !diagnosis.can_trace() {
///     let worst = diagnosis.findings().iter().max_by_key(|finding| finding.severity);
///     assert_eq!(worst.map(|finding| finding.severity), Some(cuprof::Severity::Problem));
/// }
/// ```
#[must_use]
pub fn doctor() -> Diagnosis {
    doctor_within(DEFAULT_START_TIMEOUT)
}

/// As [`doctor`], with another limit for each of its looks at the driver, at NVML and at CUPTI: at most so long is waited
/// for one, also where a library lies on a file server that does not answer. One that does not come back is a problem
/// that names the call, and the file if there is one; then no further library is looked at, and the thread that hangs is
/// left alone. Where it is `dlopen` that does not return, the linker serves nobody else in this process: it can neither
/// load a library nor exit but by [`std::process::abort`] or a signal.
#[must_use]
pub fn doctor_within(limit: Duration) -> Diagnosis {
    let before = Machine::here();
    let mut looks = Looks { limit, findings: Vec::new(), hangs: false };
    let machine = before.clone();
    let driver = looks.at(Topic::Driver, move |findings| {
        folders_of_the_linker(&machine);
        driver(&machine, findings)
    });
    let driver = driver.flatten();
    if let Some(driver) = driver {
        let machine = before.clone();
        looks.at(Topic::Gpu, move |findings| gpus(driver, &machine, findings));
    }
    looks.at(Topic::Nvml, nvml);
    let libraries =
        driver.and_then(|driver| looks.at(Topic::Cupti, move |findings| cupti(driver, findings)).flatten());
    match libraries {
        Some(libraries) => {
            looks.at(Topic::Session, move |findings| session(&libraries, findings));
            looks.at(Topic::Counters, move |findings| companions(libraries.loaded.path(), findings));
        }
        None if driver.is_none() => drop(looks.at(Topic::Cupti, candidates)),
        None => {}
    }
    let mut findings = looks.findings;
    findings.extend(permission::findings(&before));
    // Stubs are what was loaded above, if anything; other tools were there before.
    findings.extend(tools::stubs(&Machine { mapped: Environment::from_process().mapped, ..before.clone() }));
    findings.extend(tools::findings(&before));
    if let Some(libraries) = libraries {
        findings.extend(known_issues(libraries.version));
    }
    Diagnosis { findings }
}

/// Looks at what may never come back.
struct Looks {
    limit: Duration,
    findings: Vec<Finding>,
    /// One has not come back. Others would wait for the same: the linker opens one library at a time.
    hangs: bool,
}

impl Looks {
    fn at<T: Send + 'static>(
        &mut self,
        topic: Topic,
        look: impl FnOnce(&mut Vec<Finding>) -> T + Send + 'static,
    ) -> Option<T> {
        const LOOK: Step = Step { what: "a look at the libraries", setting: None };
        if self.hangs {
            return None;
        }
        let looked = within(self.limit, "cuprof-doctor", LOOK, move || {
            let mut findings = Vec::new();
            let value = look(&mut findings);
            (findings, value)
        });
        match looked {
            Ok((found, value)) => {
                self.findings.extend(found);
                Some(value)
            }
            Err(error) => {
                self.hangs = true;
                self.findings.push(Finding::from_error(Severity::Problem, topic, error));
                None
            }
        }
    }
}

/// Looks at the folders that the linker looks into by itself: of these, too, it is told which one does not answer, and
/// before the linker waits for it.
fn folders_of_the_linker(machine: &Machine) {
    let folders = machine.variable("LD_LIBRARY_PATH").unwrap_or_default().split(':');
    for folder in folders.filter(|folder| !folder.is_empty()).map(Path::new) {
        under_way::at(folder);
        let _it_answers = folder.metadata();
    }
}

fn driver(machine: &Machine, findings: &mut Vec<Finding>) -> Option<&'static Driver> {
    match Driver::get() {
        Ok(driver) => {
            let mut text = format!("libcuda.so.1 for CUDA {}", driver.version);
            if let Some(version) = &machine.driver {
                text += &format!(", driver {version}");
            }
            if let Some(file) = Driver::file() {
                text += &format!(": {}", shown(file));
            }
            findings.push(Finding::new(Severity::Ok, Topic::Driver, text));
            Some(driver)
        }
        Err(error) => {
            findings.push(Finding::from_error(Severity::Problem, Topic::Driver, error));
            None
        }
    }
}

fn gpus(driver: &Driver, machine: &Machine, findings: &mut Vec<Finding>) {
    match driver.devices() {
        Ok(devices) => findings.extend(devices.iter().map(|device| {
            let (major, minor) = device.compute_capability;
            let text = format!(
                "{}: {}, compute capability {major}.{minor}, {} multiprocessors",
                device.ordinal, device.name, device.multiprocessors
            );
            Finding::new(Severity::Ok, Topic::Gpu, text)
        })),
        Err(error) => {
            let mut finding = Finding::from_error(Severity::Problem, Topic::Gpu, error);
            if machine.container.is_some() {
                let start =
                    "; a container needs to be given the GPUs when it is started (docker run --gpus all)";
                finding.remedy.get_or_insert_default().push_str(start);
            }
            findings.push(finding);
        }
    }
}

fn nvml(findings: &mut Vec<Finding>) {
    findings.push(match Nvml::get(None) {
        Ok(_) => Finding::new(
            Severity::Ok,
            Topic::Nvml,
            "NVML answers: clocks, temperatures and throttling can be read",
        ),
        // Tracing does without.
        Err(error) => Finding::from_error(Severity::Warning, Topic::Nvml, error),
    });
}

/// The library that a session would use, and why; and what else there is.
fn cupti(driver: &Driver, findings: &mut Vec<Finding>) -> Option<Libraries> {
    let finding = |severity, text| Finding::new(severity, Topic::Cupti, text);
    // Before it is loaded: a library in the process is all that is looked at afterwards.
    let found = search_for(Some(driver.version.major()));
    let libraries = match Libraries::get(None) {
        Ok(libraries) => libraries,
        Err(error) => {
            findings.push(Finding::from_error(Severity::Problem, Topic::Cupti, error));
            return None;
        }
    };
    let Libraries { loaded, version, .. } = libraries;
    let text = format!("{version} is used: {} ({})", named(loaded.path()), loaded.source());
    findings.push(finding(Severity::Ok, text));
    for warning in trace::of_libraries(&libraries) {
        findings.push(finding(Severity::Warning, warning.text).with_remedy(warning.remedy));
    }
    let real = |path: &Path| {
        under_way::at(path);
        path.canonicalize().unwrap_or_else(|_| path.to_owned())
    };
    let mut told = vec![real(loaded.path())];
    // What was tried and did not do comes before what was not tried.
    let tried = loaded.tried().iter().cloned();
    let others =
        found.candidates.into_iter().map(|other| (other.path, other.source, "not needed".to_owned()));
    let broken = tried.clone().filter(trace::is_broken).map(|attempt| real(&attempt.path));
    told.extend(broken);
    let passed_over = tried.chain(found.skipped);
    let passed_over = passed_over.map(|other| (other.path, other.source, other.reason.to_string()));
    for (path, source, why) in passed_over.chain(others).filter(|(_, source, _)| *source != Source::Linker) {
        if !told.contains(&real(&path)) {
            findings.push(finding(Severity::Note, format!("{} ({source}): {why}", named(&path))));
            told.push(real(&path));
        }
    }
    Some(libraries)
}

/// Without a driver nothing is loaded, but it can be said what is there.
fn candidates(findings: &mut Vec<Finding>) {
    let found = search_for(None);
    let there = found.candidates.into_iter().map(|other| {
        let is_library = is_elf(&other.path);
        let why = if is_library { "found, and not tried without a driver" } else { "is no library" };
        (other.path, other.source, why.to_owned(), is_library)
    });
    let skipped =
        found.skipped.into_iter().map(|other| (other.path, other.source, other.reason.to_string(), false));
    let mut is_empty = true;
    for (path, source, why, may_do) in
        there.chain(skipped).filter(|(_, source, ..)| *source != Source::Linker)
    {
        is_empty = false;
        let text = format!("{} ({source}): {why}", named(&path));
        // Where one is named, no other is looked for.
        findings.push(if source == Source::Variable && !may_do {
            Finding::new(Severity::Problem, Topic::Cupti, text).with_remedy(
                "let CUPROF_CUPTI_PATH name libcupti.so.12 or .13, or its folder, or unset it to search for one",
            )
        } else {
            Finding::new(Severity::Note, Topic::Cupti, text)
        });
    }
    if is_empty {
        findings.push(Finding::new(Severity::Note, Topic::Cupti, "no library was found").with_remedy(
            "install a CUDA toolkit or the Python package nvidia-cuda-cupti (CUDA 13) or nvidia-cuda-cupti-cu12",
        ));
    }
}

/// The libraries that exist, and those that are passed over. Bare names are among them, which only the linker can look
/// up.
fn search_for(max_major: Option<u32>) -> Search {
    let here = Environment::from_process().watched(under_way::at);
    search(&here, &LoadOptions { path: None, max_major, companions: false })
}

/// Whether a file begins as libraries do. What is no file is not opened: a pipe would never answer.
fn is_elf(path: &Path) -> bool {
    let mut magic = [0; 4];
    under_way::at(path);
    let is_file = path.metadata().is_ok_and(|data| data.is_file());
    let file = if is_file { std::fs::File::open(path).ok() } else { None };
    file.is_some_and(|mut file| file.read_exact(&mut magic).is_ok()) && magic == *b"\x7fELF"
}

/// A path, with the file behind it where it is a link: that name often has the full version.
fn named(path: &Path) -> String {
    under_way::at(path);
    let link = std::fs::read_link(path).ok();
    match link.as_deref().and_then(Path::file_name) {
        Some(target) => format!("{} -> {}", shown(path), target.to_string_lossy()),
        None => shown(path),
    }
}

fn session(libraries: &Libraries, findings: &mut Vec<Finding>) {
    findings.push(match trace::subscribe(libraries) {
        Ok(()) => Finding::new(Severity::Ok, Topic::Session, "CUPTI accepts a session in this process"),
        Err(error) if error.kind == ErrorKind::AlreadyRunning => Finding::new(
            Severity::Note,
            Topic::Session,
            "a session of this crate runs, so that no other was tried",
        ),
        Err(error) => Finding::from_error(Severity::Problem, Topic::Session, error),
    });
}

/// Libraries that counters need, which libcupti opens by name.
fn companions(libcupti: &Path, findings: &mut Vec<Finding>) {
    under_way::at(libcupti);
    let absent = |name: &&str| !libcupti.with_file_name(name).exists();
    let missing: Vec<_> = ["libnvperf_host.so", "libnvperf_target.so"].into_iter().filter(absent).collect();
    findings.push(if missing.is_empty() {
        Finding::new(Severity::Ok, Topic::Counters, "the libraries that counters need are beside CUPTI")
    } else {
        let are = if missing.len() == 1 { "is" } else { "are" };
        let text =
            format!("{} {are} not beside CUPTI: counters need that, tracing does not", missing.join(" and "));
        Finding::new(Severity::Warning, Topic::Counters, text).with_remedy(
            "install the whole package that CUPTI comes from, or copy its folder and not one file",
        )
    });
}

fn known_issues(version: LibraryVersion) -> impl Iterator<Item = Finding> {
    issues::of(version).map(|issue| {
        let severity = if issue.matters { Severity::Warning } else { Severity::Note };
        let text = format!("{} (before {})", issue.what, issue.repaired);
        Finding::new(severity, Topic::KnownIssue, text).with_remedy(issue.remedy)
    })
}

fn tried<E: fmt::Display>(work: impl FnOnce() -> Result<(), E>) -> Vec<Finding> {
    let finding = |severity, text: String| Finding::new(severity, Topic::SelfTest, text);
    let profiler = match Profiler::builder().start() {
        Ok(profiler) => profiler,
        Err(error) => return vec![Finding::from_error(Severity::Problem, Topic::SelfTest, error)],
    };
    if let Err(error) = work() {
        return vec![finding(
            Severity::Warning,
            format!("the GPU work failed, so that nothing was tested: {error}"),
        )];
    }
    let profile = match profiler.finish() {
        Ok(profile) => profile,
        Err(failed) => return vec![Finding::from_error(Severity::Problem, Topic::SelfTest, failed.error)],
    };
    let mut findings = vec![match profile.launches() {
        0 => finding(Severity::Problem, "no records: the GPU work ran, and its session is empty".into()).with_remedy(
            "this CUPTI does not know this GPU, or another one is used than the program's: let CUPROF_CUPTI_PATH name \
             the CUPTI of the driver's version",
        ),
        launches => finding(Severity::Ok, format!("{launches} launches and {} transfers were recorded", profile.transfers())),
    }];
    findings.extend(
        profile.losses().iter().map(|loss| {
            finding(Severity::Warning, format!("{} {}: {}", loss.count, loss.cause, loss.meaning))
        }),
    );
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_of_the_linkers_that_does_not_answer_would_be_named() {
        let machine = Machine {
            variables: vec![("LD_LIBRARY_PATH".into(), "/usr/lib::/mnt/server".into())],
            ..Machine::default()
        };
        let waited = under_way::Waited::new();
        waited.run(|| {
            folders_of_the_linker(&machine);
            assert_eq!(waited.place().path.as_deref(), Some(Path::new("/mnt/server")), "the last one");
        });
    }
}
