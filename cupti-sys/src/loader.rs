//! Finds libcupti on the running machine and loads it, for good.
//!
//! Nothing is linked: a program that uses this crate starts on a machine without CUPTI, and gets a [`LoadError`] that
//! lists what was looked at and what to do. The file that is taken is the first that [`search`] offers and that has the
//! functions of [`symbols::REQUIRED`](crate::symbols::REQUIRED).
//!
//! | order | where | condition |
//! |---|---|---|
//! | 1 | [`LoadOptions::path`] | then nothing else is tried |
//! | 2 | `CUPROF_CUPTI_PATH`, a file or a folder | then nothing else is tried |
//! | 3 | a libcupti that the process already has | |
//! | 4 | where the CUDA libraries of the process have theirs | |
//! | 5 | Python packages: `$VIRTUAL_ENV`, `$CONDA_PREFIX`, the running interpreter, the user's, the system's | |
//! | 6 | toolkits: `$CUDA_HOME`, `$CUDA_PATH`, `/usr/local/cuda*`, `/opt/cuda` | |
//! | 7 | `$CONDA_PREFIX/lib` | |
//! | 8 | library folders of the system | |
//! | 9 | the names `libcupti.so.13`, `.12` and no version, as the dynamic linker finds them | |
//!
//! Of 5 to 9, those of the driver's major version come first if [`LoadOptions::max_major`] tells it.
//!
//! The counter interfaces of libcupti open `libnvperf_host.so` and `libnvperf_target.so` by bare name, which fails
//! wherever their folder is not on the library path. So these two are loaded beforehand, from libcupti's own folder.
#![expect(unsafe_code, reason = "opens libraries, and asks one for its version")]

mod environment;
mod error;
mod search;

use std::fmt;
use std::path::{Path, PathBuf};

use libloading::Library;
use libloading::os::unix::{Library as UnixLibrary, RTLD_LOCAL, RTLD_NOW};

pub use self::environment::Environment;
pub use self::error::{Attempt, LoadError, Reason, Source};
pub use self::search::{Candidate, Search, search};
use crate::bindings::CUptiResult;
use crate::symbols::{REQUIRED, Symbols};
use crate::version::LibraryVersion;

/// What the caller wishes of the library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadOptions {
    /// The library or its folder. Then nothing else is tried.
    pub path: Option<PathBuf>,
    /// The driver's CUDA major version (13 of `cuDriverGetVersion`'s 13000). A library of this version is preferred, and
    /// a newer one is passed over, unless it was named or is in the process already.
    pub max_major: Option<u32>,
    /// Whether to load the libraries that the counter interfaces need along with it. On by default.
    ///
    /// Tracing alone does without, and loading them is what loading costs: 1.5 ms without them, 125 to 155 ms with them
    /// (CUPTI 12.9 and 13.5 from a warm page cache on two cores of a server). [`Cupti::load_companions`] loads them later.
    pub companions: bool,
}

impl Default for LoadOptions {
    fn default() -> Self {
        Self { path: None, max_major: None, companions: true }
    }
}

/// A library that libcupti opens by name when counters are used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Companion {
    /// The name by which libcupti asks for it.
    pub name: &'static str,
    /// Why it could not be loaded from libcupti's folder; `None` if it was. Counters then need it on the library path.
    pub failure: Option<Reason>,
}

impl Companion {
    /// Whether it is loaded.
    pub fn is_loaded(&self) -> bool {
        self.failure.is_none()
    }
}

/// In the order in which they are loaded.
const COMPANIONS: [&str; 2] = ["libnvperf_host.so", "libnvperf_target.so"];

/// A loaded libcupti. It stays loaded until the process ends, also when this is dropped: CUPTI has threads and exit
/// handlers of its own, and unloading some versions crashes.
#[derive(Clone)]
pub struct Cupti {
    path: PathBuf,
    source: Source,
    major: Option<u32>,
    symbols: Symbols,
    companions: Vec<Companion>,
    tried: Vec<Attempt>,
}

// Shared by the application's threads and the worker. Functions and paths only: the compiler checks that it stays so.
const _: () = {
    const fn shareable<T: Send + Sync>() {}
    shareable::<Cupti>();
};

impl Cupti {
    /// Finds and loads libcupti.
    ///
    /// No function of it is called, and no driver is needed. Loading it twice gives the same library again.
    ///
    /// # Errors
    ///
    /// [`LoadError`] if no file could be taken. It lists all that were looked at, and what to do.
    pub fn load(options: &LoadOptions) -> Result<Self, LoadError> {
        Self::load_in(&Environment::from_process(), options)
    }

    /// The same on a described machine.
    ///
    /// # Errors
    ///
    /// As [`load`](Self::load).
    pub fn load_in(environment: &Environment, options: &LoadOptions) -> Result<Self, LoadError> {
        let Search { candidates, skipped: mut tried } = search(environment, options);
        for candidate in candidates {
            environment.at(&candidate.path);
            match Self::open(&candidate, options) {
                Ok(cupti) => return Ok(Self { tried, ..cupti }),
                Err(reason) => {
                    tried.push(Attempt { path: candidate.path, source: candidate.source, reason });
                }
            }
        }
        Err(LoadError { tried, max_major: options.max_major })
    }

    fn open(candidate: &Candidate, options: &LoadOptions) -> Result<Self, Reason> {
        // A bare name has no folder; its companions follow below, once the linker has said where it found it.
        let has_folder = candidate.source != Source::Linker;
        if has_folder && search::is_no_file(&candidate.path) {
            return Err(Reason::NotAFile);
        }
        let mut companions = Vec::new();
        if options.companions && has_folder {
            companions = companions_of(&candidate.path);
        }

        let library = open_for_ever(&candidate.path).map_err(Reason::NotOpened)?;
        let symbols = Symbols::load(library);
        if let Some(missing) = REQUIRED.into_iter().find(|name| !symbols.has(name)) {
            return Err(Reason::Lacks(missing));
        }

        let mut path = candidate.path.clone();
        if !has_folder {
            path = mapped_path(&path).unwrap_or(path);
            if options.companions {
                companions = companions_of(&path);
            }
        }
        let major = candidate.major.or_else(|| search::major_of(&path));
        Ok(Self { path, source: candidate.source, major, symbols, companions, tried: Vec::new() })
    }

    /// The file that was loaded.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Why this file was taken.
    pub fn source(&self) -> Source {
        self.source
    }

    /// The major version that the file's names tell; `None` if they tell none.
    pub fn soname_major(&self) -> Option<u32> {
        self.major
    }

    /// The function table.
    pub fn symbols(&self) -> &Symbols {
        &self.symbols
    }

    /// The libraries that counters need, with how loading them went. Empty if they were not asked for.
    pub fn companions(&self) -> &[Companion] {
        &self.companions
    }

    /// Loads the libraries that counters need, if [`LoadOptions::companions`] did not; harmless if it did.
    ///
    /// Without them the host functions answer `CUPTI_ERROR_NOT_INITIALIZED`. They work from then on, also if one has
    /// been called before (seen with CUPTI 12.9 and 13.0).
    pub fn load_companions(&self) -> Vec<Companion> {
        companions_of(&self.path)
    }

    /// What was passed over before this library was taken.
    pub fn tried(&self) -> &[Attempt] {
        &self.tried
    }

    /// What the library says of its version.
    ///
    /// # Errors
    ///
    /// The result code of `cuptiGetVersion`. Without a driver, CUPTI 13.4 and newer answer `CUPTI_ERROR_UNKNOWN`.
    pub fn version(&self) -> Result<LibraryVersion, CUptiResult> {
        let version = self.symbols.cuptiGetVersion.ok_or(CUptiResult::CUPTI_ERROR_API_NOT_IMPLEMENTED)?;
        let mut number = 0;
        // SAFETY: the header asks for a pointer to a number that can be written, which this is; nothing need be set up
        // before, and the library is never unloaded.
        let result = unsafe { version(&raw mut number) };
        match result {
            CUptiResult::CUPTI_SUCCESS => Ok(LibraryVersion::from_api(number)),
            error => Err(error),
        }
    }
}

impl fmt::Debug for Cupti {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cupti")
            .field("path", &self.path)
            .field("source", &self.source)
            .field("symbols", &self.symbols)
            .field("companions", &self.companions)
            .finish_non_exhaustive()
    }
}

/// Loads the companions of this libcupti from its folder. libcupti finds them later by their bare names, since the linker
/// compares names with those of the libraries already loaded.
fn companions_of(libcupti: &Path) -> Vec<Companion> {
    let load = |name| {
        let path = libcupti.with_file_name(name);
        let failure = if search::is_no_file(&path) {
            Some(Reason::NotAFile)
        } else if path.exists() {
            open_for_ever(&path).err().map(Reason::NotOpened)
        } else {
            Some(Reason::Absent)
        };
        Companion { name, failure }
    };
    COMPANIONS.map(load).into()
}

/// Opens a library and never closes it; the error is in the linker's words.
fn open_for_ever(path: &Path) -> Result<&'static Library, String> {
    // SAFETY: runs the initialisers of the file, which is named as NVIDIA names its libraries, and is where they are
    // installed or where the user says. They do not touch the state of this program.
    let library = unsafe { UnixLibrary::open(Some(path), RTLD_NOW | RTLD_LOCAL) };
    match library {
        Ok(library) => Ok(Box::leak(Box::new(library.into()))),
        Err(error) => Err(words(&error)),
    }
}

/// The message of the innermost error: the linker's own.
fn words(error: &libloading::Error) -> String {
    let mut error: &dyn std::error::Error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

/// Where the linker found a library that it was asked for by name.
fn mapped_path(name: &Path) -> Option<PathBuf> {
    let mapped = Environment::from_process().mapped;
    let mut files = mapped.into_iter().filter(|file| search::is_library(file, &["libcupti"]));
    // The name may be a link: what is mapped is the file behind it. No other copy is in the process, since a mapped one
    // would have been taken before.
    let first = files.next()?;
    files.find(|file| file.file_name() == name.file_name()).or(Some(first))
}
