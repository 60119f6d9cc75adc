//! Which files may be libcupti, best first. Reads folders, opens no library.

use std::fs;
use std::path::{Path, PathBuf};

use super::LoadOptions;
use super::environment::{Environment, PATH_VAR};
use super::error::{Attempt, Reason, Source};

/// A file that may be libcupti.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The file, or for [`Source::Linker`] a bare name.
    pub path: PathBuf,
    /// Why it is a candidate.
    pub source: Source,
    /// The major version that its names tell; `None` if they tell none.
    pub major: Option<u32>,
}

/// The result of a search.
#[derive(Clone, Debug, Default)]
pub struct Search {
    /// What to try, best first.
    pub candidates: Vec<Candidate>,
    /// What was passed over, and why.
    pub skipped: Vec<Attempt>,
}

/// The oldest major version that the crate supports.
const MIN_MAJOR: u32 = 12;

/// Names that the dynamic linker is asked for, newest first.
const SONAMES: [(&str, Option<u32>); 3] =
    [("libcupti.so.13", Some(13)), ("libcupti.so.12", Some(12)), ("libcupti.so", None)];

/// Libraries of CUDA that come in the same installation as a libcupti.
const RUNTIME_LIBRARIES: [&str; 5] = ["libcudart", "libnvrtc", "libcublas", "libcublasLt", "libnvJitLink"];

/// Architecture folders: of toolkits (`targets/…`), and of Debian-like systems.
#[cfg(target_arch = "aarch64")]
const TARGETS: [&str; 2] = ["sbsa-linux", "aarch64-linux"];
#[cfg(not(target_arch = "aarch64"))]
const TARGETS: [&str; 1] = ["x86_64-linux"];
#[cfg(target_arch = "aarch64")]
const MULTIARCH: &str = "aarch64-linux-gnu";
#[cfg(not(target_arch = "aarch64"))]
const MULTIARCH: &str = "x86_64-linux-gnu";

/// Every file that may be libcupti, best first.
///
/// A library that the caller or `CUPROF_CUPTI_PATH` names is the only candidate: to use another one silently would hide
/// the mistake. Otherwise a copy that the process already has comes first, since two copies in one process disturb each
/// other, then one that belongs to the CUDA libraries of the process. Of the rest, those of the driver's own major
/// version come first.
pub fn search(environment: &Environment, options: &LoadOptions) -> Search {
    let mut finder =
        Finder { environment, options, found: Search::default(), seen: Vec::new(), folders: Vec::new() };
    if let Some(path) = &options.path {
        finder.named(path, Source::Option);
    } else if let Some(path) = environment.variable(PATH_VAR) {
        finder.named(Path::new(path), Source::Variable);
    } else {
        finder.mapped();
        finder.beside_runtime();
        let unsorted = finder.found.candidates.len();
        finder.wheels();
        finder.toolkits();
        finder.conda();
        finder.system();
        finder.linker();
        if let Some(max) = options.max_major {
            // Stable: otherwise the order of the sources stays.
            finder.found.candidates[unsorted..].sort_by_key(|candidate| candidate.major != Some(max));
        }
    }
    finder.found
}

struct Finder<'a> {
    environment: &'a Environment,
    options: &'a LoadOptions,
    found: Search,
    /// Files already listed, without links: an installation is reached in many ways.
    seen: Vec<PathBuf>,
    /// Folders already looked at, as they were named.
    folders: Vec<PathBuf>,
}

impl Finder<'_> {
    /// A file or a folder that a person named: taken whatever its version.
    fn named(&mut self, path: &Path, source: Source) {
        let path = self.environment.resolve(path);
        self.environment.at(&path);
        if path.is_dir() {
            let libraries = libraries_in(&path);
            if libraries.is_empty() {
                self.skip(path, source, Reason::NothingInside);
            }
            for library in libraries {
                self.found.candidates.push(Candidate { path: library.path, source, major: library.major });
            }
        } else if is_no_file(&path) {
            self.skip(path, source, Reason::NotAFile);
        } else if path.exists() {
            let major = major_of(&path);
            self.found.candidates.push(Candidate { path, source, major });
        } else {
            self.skip(path, source, Reason::Absent);
        }
    }

    fn mapped(&mut self) {
        let files = self.environment.mapped.iter().filter(|file| is_library(file, &["libcupti"]));
        for file in files {
            let path = self.environment.resolve(file);
            self.environment.at(&path);
            let major = major_of(&path);
            self.seen.push(without_links(&path));
            self.found.candidates.push(Candidate { path, source: Source::Mapped, major });
        }
    }

    fn beside_runtime(&mut self) {
        let files = self.environment.mapped.iter().filter(|file| is_library(file, &RUNTIME_LIBRARIES));
        for folder in files.filter_map(|file| file.parent()) {
            let beside = [
                // All in one folder: the wheels of CUDA 13, Conda, distributions.
                folder.to_path_buf(),
                // The wheels of CUDA 12: nvidia/cuda_runtime/lib beside nvidia/cuda_cupti/lib.
                folder.join("../../cuda_cupti/lib"),
                // A toolkit, from lib64 and from targets/x86_64-linux/lib.
                folder.join("../extras/CUPTI/lib64"),
                folder.join("../../../extras/CUPTI/lib64"),
            ];
            let before = self.found.candidates.len() + self.found.skipped.len();
            let new = beside.iter().filter(|folder| self.folder(folder, Source::BesideRuntime)).count();
            if new > 0 && self.found.candidates.len() + self.found.skipped.len() == before {
                self.skip(self.environment.resolve(folder), Source::BesideRuntime, Reason::NothingInside);
            }
        }
    }

    /// Packages of PyPI, in every Python prefix that can be guessed.
    fn wheels(&mut self) {
        let variable = |name| self.environment.variable(name).map(PathBuf::from);
        let program = self.environment.program.as_deref();
        let prefixes = [
            variable("VIRTUAL_ENV"),
            variable("CONDA_PREFIX"),
            // bin/python3 of a prefix.
            program.and_then(|program| Some(program.parent()?.parent()?.to_path_buf())),
            variable("PYTHONUSERBASE").or_else(|| Some(variable("HOME")?.join(".local"))),
            Some(PathBuf::from("/usr/local")),
            Some(PathBuf::from("/usr")),
        ];
        for prefix in prefixes.into_iter().flatten() {
            for packages in self.site_packages(&prefix) {
                // cu13 has all of CUDA 13; cuda_cupti is for CUDA 12. Newest first, as in a folder.
                let is_cupti = |name: &str| name == "cuda_cupti" || numbered(name, "cu");
                for package in self.subfolders(&packages.join("nvidia"), is_cupti) {
                    self.folder(&package.join("lib"), Source::Wheel);
                }
                self.folder(&packages.join("triton/backends/nvidia/lib/cupti"), Source::Wheel);
            }
        }
    }

    fn site_packages(&self, prefix: &Path) -> Vec<PathBuf> {
        let mut packages = Vec::new();
        for lib in ["lib", "lib64"] {
            for python in self.subfolders(&prefix.join(lib), |name| name.starts_with("python3")) {
                packages.extend(["site-packages", "dist-packages"].map(|name| python.join(name)));
            }
        }
        packages
    }

    fn toolkits(&mut self) {
        for name in ["CUDA_HOME", "CUDA_PATH"] {
            let Some(home) = self.environment.variable(name).map(PathBuf::from) else { continue };
            let before = self.found.candidates.len() + self.found.skipped.len();
            let new = self.toolkit(&home);
            if new && self.found.candidates.len() + self.found.skipped.len() == before {
                let path = self.environment.resolve(&home);
                let reason = if path.is_dir() { Reason::NothingInside } else { Reason::Absent };
                self.skip(path, Source::Toolkit, reason);
            }
        }
        // /usr/local/cuda is a link to the one in use; the others follow, newest first.
        let mut homes = vec![PathBuf::from("/usr/local/cuda")];
        homes.extend(self.subfolders(Path::new("/usr/local"), |name| numbered(name, "cuda-")));
        homes.push(PathBuf::from("/opt/cuda"));
        for home in homes {
            self.toolkit(&home);
        }
    }

    /// Whether this toolkit was not looked at before.
    fn toolkit(&mut self, home: &Path) -> bool {
        let new = self.folder(&home.join("extras/CUPTI/lib64"), Source::Toolkit);
        for target in TARGETS {
            self.folder(&home.join("targets").join(target).join("lib"), Source::Toolkit);
        }
        self.folder(&home.join("lib64"), Source::Toolkit);
        new
    }

    fn conda(&mut self) {
        if let Some(prefix) = self.environment.variable("CONDA_PREFIX").map(PathBuf::from) {
            self.folder(&prefix.join("lib"), Source::Conda);
            for target in TARGETS {
                self.folder(&prefix.join("targets").join(target).join("lib"), Source::Conda);
            }
        }
    }

    fn system(&mut self) {
        for folder in [&format!("/usr/lib/{MULTIARCH}"), "/usr/lib64", "/usr/lib"] {
            self.folder(Path::new(folder), Source::System);
        }
    }

    fn linker(&mut self) {
        if self.environment.linker {
            for (name, major) in SONAMES {
                self.offer(Candidate { path: PathBuf::from(name), source: Source::Linker, major });
            }
        }
    }

    /// Offers every library of a folder of the described machine. Whether the folder was not looked at before.
    fn folder(&mut self, folder: &Path, source: Source) -> bool {
        let folder = self.environment.resolve(folder);
        if self.folders.contains(&folder) {
            return false;
        }
        self.folders.push(folder.clone());
        self.environment.at(&folder);
        let libraries = libraries_in(&folder);
        if !libraries.is_empty() && is_stubs(&folder) {
            self.skip(folder, source, Reason::Stubs);
            return true;
        }
        for library in libraries {
            let file = without_links(&library.path);
            if !self.seen.contains(&file) {
                self.seen.push(file);
                self.offer(Candidate { path: library.path, source, major: library.major });
            }
        }
        let stubs = folder.join("stubs");
        if !libraries_in(&stubs).is_empty() {
            self.skip(stubs, source, Reason::Stubs);
        }
        true
    }

    /// Lists a candidate, unless its version rules it out.
    fn offer(&mut self, candidate: Candidate) {
        match (candidate.major, self.options.max_major) {
            (Some(major), Some(max)) if major > max => {
                self.skip(candidate.path, candidate.source, Reason::TooNew { major, max });
            }
            (Some(major), _) if major < MIN_MAJOR => {
                self.skip(candidate.path, candidate.source, Reason::TooOld { major });
            }
            _ => self.found.candidates.push(candidate),
        }
    }

    fn skip(&mut self, path: PathBuf, source: Source, reason: Reason) {
        self.found.skipped.push(Attempt { path, source, reason });
    }

    /// What a folder of the described machine holds under names like this, newest version first, with paths of that
    /// machine.
    fn subfolders(&self, folder: &Path, is_wanted: impl Fn(&str) -> bool) -> Vec<PathBuf> {
        let resolved = self.environment.resolve(folder);
        self.environment.at(&resolved);
        let mut names: Vec<String> = names_in(&resolved);
        names.retain(|name| is_wanted(name));
        // By number, so that python3.12 comes before python3.9.
        names.sort_by_key(|name| std::cmp::Reverse(numbers(name)));
        names.into_iter().map(|name| folder.join(name)).collect()
    }
}

/// A library of a folder: one file, under the best of its names.
#[derive(Debug)]
struct Library {
    path: PathBuf,
    major: Option<u32>,
}

/// The libcupti files of a folder: by soname, newest first, then by full version, then the bare `libcupti.so`. Names that
/// lead to one file count once, and tell its major version together.
fn libraries_in(folder: &Path) -> Vec<Library> {
    let mut names = names_in(folder);
    names.retain(|name| name == "libcupti.so" || name.starts_with("libcupti.so."));
    names.sort_by_key(|name| {
        let soname = soname_major(name);
        (soname.is_none(), std::cmp::Reverse(soname), name == "libcupti.so", std::cmp::Reverse(numbers(name)))
    });
    let mut libraries: Vec<(PathBuf, Library)> = Vec::new();
    for name in names {
        let path = folder.join(&name);
        let file = without_links(&path);
        let major = soname_major(&name);
        match libraries.iter_mut().find(|(known, _)| *known == file) {
            Some((_, library)) => library.major = library.major.or(major),
            None if path.exists() => {
                libraries.push((file, Library { major: major.or(major_of(&path)), path }))
            }
            // A dangling link, such as one left behind when the package with the library was removed.
            None => {}
        }
    }
    libraries.into_iter().map(|(_, library)| library).collect()
}

/// The major version that a file's name tells, or the name of any link on the way to it.
pub(super) fn major_of(path: &Path) -> Option<u32> {
    let mut path = path.to_path_buf();
    // A bound, in case of links in a circle.
    for _ in 0..8 {
        if let Some(major) = path.file_name().and_then(|name| soname_major(name.to_str()?)) {
            return Some(major);
        }
        let target = fs::read_link(&path).ok()?;
        path = path.parent()?.join(target);
    }
    None
}

/// 12 for `libcupti.so.12`, 11 for `libcupti.so.11.8`; `None` for `libcupti.so` and for `libcupti.so.2025.3.1`.
fn soname_major(name: &str) -> Option<u32> {
    let (_, version) = name.split_once(".so.")?;
    let major: u32 = version.split('.').next()?.parse().ok()?;
    (major < 2000).then_some(major)
}

/// Whether a file's name is that of one of these libraries, perhaps with a hash in it, as bundled in wheels:
/// `libcupti-5b17d09c.so.12`.
pub(super) fn is_library(path: &Path, libraries: &[&str]) -> bool {
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return false };
    let Some((stem, _)) = name.split_once(".so") else { return false };
    libraries.iter().any(|library| {
        stem.strip_prefix(library).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    })
}

fn is_stubs(folder: &Path) -> bool {
    folder.file_name().is_some_and(|name| name == "stubs")
}

/// Whether a name is this prefix and a number: `cu13`, `cuda-12.9`.
fn numbered(name: &str, prefix: &str) -> bool {
    name.strip_prefix(prefix).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// The runs of digits in a name, for an order by version.
fn numbers(name: &str) -> Vec<u64> {
    name.split(|c: char| !c.is_ascii_digit()).filter_map(|digits| digits.parse().ok()).collect()
}

/// The names in a folder, sorted; none if it cannot be read. Names that are no text cannot be what is searched for.
fn names_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

/// Whether something other than a file is there. It is not opened to find out.
pub(super) fn is_no_file(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| !found.is_file())
}

fn without_links(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf())
}

#[cfg(test)]
#[path = "search_tests.rs"]
mod tests;
