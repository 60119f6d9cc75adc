//! What the search looks at: variables, mapped files, and the file system below a root.

use std::collections::BTreeMap;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// The variables that the search reads; the first may name a file or a folder.
pub(super) const PATH_VAR: &str = "CUPROF_CUPTI_PATH";
const VARIABLES: [&str; 7] =
    [PATH_VAR, "VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONUSERBASE", "HOME", "CUDA_HOME", "CUDA_PATH"];

/// The machine as the search sees it. [`from_process`](Self::from_process) is the real one; a test, or a check of a
/// container image from outside, describes another.
///
/// Variables and mapped files hold paths as seen from inside: they are looked up below [`root`](Self::root).
#[derive(Clone, Debug)]
pub struct Environment {
    /// Values of the variables that are set and not empty.
    pub variables: BTreeMap<String, OsString>,
    /// The folder that is taken for `/`.
    pub root: PathBuf,
    /// Files mapped into the process.
    pub mapped: Vec<PathBuf>,
    /// The running program. Where it is a Python interpreter, packages are installed beside it.
    pub program: Option<PathBuf>,
    /// Whether the dynamic linker may be asked for bare names, which looks at this machine's library path.
    pub linker: bool,
    /// Told of what is looked at, see [`watched`](Self::watched).
    watch: Option<fn(&Path)>,
}

impl Environment {
    /// The running process: its variables, its mappings, the whole file system. What cannot be read counts as absent.
    pub fn from_process() -> Self {
        let value =
            |name: &str| Some((name.to_owned(), env::var_os(name).filter(|value| !value.is_empty())?));
        Self {
            variables: VARIABLES.into_iter().filter_map(value).collect(),
            root: PathBuf::from("/"),
            mapped: fs::read("/proc/self/maps").map(|maps| mapped_files(&maps)).unwrap_or_default(),
            program: env::current_exe().ok(),
            linker: true,
            watch: None,
        }
    }

    /// An environment of nothing but the files below `root`.
    pub fn below(root: impl Into<PathBuf>) -> Self {
        Self {
            variables: BTreeMap::new(),
            root: root.into(),
            mapped: Vec::new(),
            program: None,
            linker: false,
            watch: None,
        }
    }

    /// The same with a variable set.
    #[must_use]
    pub fn with_variable(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.variables.insert(name.to_owned(), value.into());
        self
    }

    /// The same with a file mapped.
    #[must_use]
    pub fn with_mapped(mut self, file: impl Into<PathBuf>) -> Self {
        self.mapped.push(file.into());
        self
    }

    /// The same, which tells of each file and folder before it is looked at or opened: of one that lies where the file
    /// system does not answer, nothing is told afterwards.
    #[must_use]
    pub fn watched(mut self, watch: fn(&Path)) -> Self {
        self.watch = Some(watch);
        self
    }

    pub(super) fn at(&self, path: &Path) {
        if let Some(watch) = self.watch {
            watch(path);
        }
    }

    pub(super) fn variable(&self, name: &str) -> Option<&OsStr> {
        self.variables.get(name).map(OsString::as_os_str).filter(|value| !value.is_empty())
    }

    /// Where a path of the described machine lies on this one. A relative path stays relative to the working folder.
    pub(super) fn resolve(&self, path: &Path) -> PathBuf {
        match path.strip_prefix("/") {
            Ok(below) => self.root.join(below),
            Err(_) => path.to_path_buf(),
        }
    }
}

/// The files named in the text of `/proc/self/maps`, each once, in order of appearance.
pub(super) fn mapped_files(maps: &[u8]) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for line in maps.split(|byte| *byte == b'\n') {
        // Five fields without blanks come first; a path begins with the first slash and may itself contain blanks.
        let Some(start) = line.iter().position(|byte| *byte == b'/') else { continue };
        let path = &line[start..];
        // A library that was replaced on disk while it is in use cannot be opened again by its path.
        if path.ends_with(b" (deleted)") {
            continue;
        }
        let path = PathBuf::from(OsString::from_vec(path.to_vec()));
        if files.last() != Some(&path) && !files.contains(&path) {
            files.push(path);
        }
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mapped_files_are_named_once_and_without_those_deleted() {
        let maps = b"7f00-7f01 r-xp 00000000 08:01 123    /usr/lib/libcudart.so.12.9.79\n\
            7f01-7f02 r--p 00001000 08:01 123    /usr/lib/libcudart.so.12.9.79\n\
            7f02-7f03 rw-p 00000000 00:00 0 \n\
            7f03-7f04 r-xp 00000000 08:01 125    /opt/my app/libx.so\n\
            7f04-7f05 r-xp 00000000 08:01 126    /opt/libcupti.so.12 (deleted)\n\
            7f05-7f06 rw-p 00000000 00:00 0      [heap]\n";
        let expected = ["/usr/lib/libcudart.so.12.9.79", "/opt/my app/libx.so"].map(PathBuf::from);
        assert_eq!(mapped_files(maps), expected);
    }

    #[test]
    fn absolute_paths_lie_below_the_root() {
        let environment = Environment::below("/tmp/image");
        assert_eq!(environment.resolve(Path::new("/usr/lib")), Path::new("/tmp/image/usr/lib"));
        assert_eq!(environment.resolve(Path::new("lib")), Path::new("lib"));
        assert_eq!(Environment::below("/").resolve(Path::new("/usr/lib")), Path::new("/usr/lib"));
    }

    #[test]
    fn the_process_maps_its_own_program() {
        let environment = Environment::from_process();
        let program = environment.program.unwrap();
        assert!(environment.mapped.contains(&program), "{program:?}");
    }
}
