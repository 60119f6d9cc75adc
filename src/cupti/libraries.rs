//! The libraries of this process: the driver and CUPTI.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use cupti_sys::LibraryVersion;
use cupti_sys::loader::{self, Environment, LoadOptions, Source};

use super::Cupti;
use crate::driver::Driver;
use crate::error::{Error, ErrorKind, Result, shown};
use crate::under_way;

/// The driver and CUPTI, for sessions.
#[derive(Clone, Copy)]
pub(crate) struct Libraries {
    pub driver: &'static Driver,
    pub loaded: &'static cupti_sys::Cupti,
    pub cupti: Cupti,
    pub version: LibraryVersion,
}

impl Libraries {
    /// Finds the driver and CUPTI. Both stay for the life of the process: a later session with another path gets an
    /// error, since two CUPTI libraries in one process disturb each other.
    pub fn get(path: Option<&Path>) -> Result<Self> {
        static LOADED: OnceLock<cupti_sys::Cupti> = OnceLock::new();
        super::pin::keep_loaded();
        let driver = Driver::get()?;
        if LOADED.get().is_none() {
            let options = LoadOptions {
                path: path.map(Path::to_owned),
                max_major: Some(driver.version.major()),
                // Only counters need them, and they cost 100 ms.
                companions: false,
            };
            let opening = under_way::enter("dlopen");
            let here = Environment::from_process().watched(under_way::at);
            let cupti = cupti_sys::Cupti::load_in(&here, &options).map_err(|error| not_found(&error))?;
            drop(opening);
            let _other_thread_was_first = LOADED.set(cupti);
        }
        let Some(loaded) = LOADED.get() else {
            return Err(Error::new(ErrorKind::CuptiNotFound, "CUPTI was not loaded"));
        };
        // One library can be named in several ways.
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        if let Some(path) = path.filter(|path| !real(loaded.path()).starts_with(real(path))) {
            let what = format!("{} was asked for, but {} is loaded", shown(path), shown(loaded.path()));
            return Err(
                Error::new(ErrorKind::Config, what).with_hint("choose the library in the first session")
            );
        }
        let cupti = Cupti::new(loaded.symbols());
        let version = cupti.version().map_err(|error| error.about(&shown(loaded.path())))?;
        if version < LibraryVersion::OLDEST {
            let what = format!("{} is {version}", shown(loaded.path()));
            return Err(Error::new(ErrorKind::CuptiTooOld, what).with_hint("install CUPTI 12.0 or newer"));
        }
        Ok(Self { driver, loaded, cupti, version })
    }
}

fn not_found(error: &loader::LoadError) -> Error {
    let mut what = "none of these can be used".to_owned();
    for attempt in error.tried() {
        what += &format!("\n  {attempt}");
    }
    Error::new(ErrorKind::CuptiNotFound, what).with_hint(error.remedy())
}

/// A CUPTI whose host functions answer: names, units and passes of metrics. It needs no GPU, and of some versions not
/// even a driver.
#[derive(Clone, Copy)]
pub(crate) struct PlanningLibrary {
    pub cupti: Cupti,
    pub loaded: &'static cupti_sys::Cupti,
    pub version: Option<LibraryVersion>,
}

/// What to do where no library answers without a driver.
const WITHOUT_A_DRIVER: &str = "install one that can (12.6 to 13.1): pip install 'nvidia-cuda-cupti==13.1.*'; or name \
    the folder of one in CUPROF_CUPTI_PATH; or plan on a machine with a driver";

/// Came with 13.2, and tells that a library is not older.
const MARK_OF_13_2: &str = "cuptiActivityGetStructSize";

impl PlanningLibrary {
    /// The library for planning: where there is a driver, the one of sessions; else the first that can do without.
    ///
    /// # Errors
    /// [`ErrorKind::CuptiNotFound`], [`ErrorKind::CuptiTooOld`] or [`ErrorKind::NoDriver`], with what was tried.
    pub fn get(path: Option<&Path>) -> Result<Self> {
        match Driver::get() {
            Ok(_) => {
                let Libraries { cupti, loaded, version, .. } = Libraries::get(path)?;
                let library = Self { cupti, loaded, version: Some(version) };
                library.check()?;
                load_companions(loaded)?;
                Ok(library)
            }
            Err(_no_driver) => Self::without_driver(path),
        }
    }

    /// Several libraries may be opened one after the other here: without a driver, none of them can trace, so that
    /// they do not disturb each other.
    fn without_driver(path: Option<&Path>) -> Result<Self> {
        static FOUND: Mutex<Option<PlanningLibrary>> = Mutex::new(None);
        let mut found = FOUND.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = *found
            && path.is_none_or(|path| found.loaded.path().starts_with(path))
        {
            return Ok(found);
        }
        let options = LoadOptions { path: path.map(Path::to_owned), ..LoadOptions::default() };
        let first = cupti_sys::Cupti::load(&options).map_err(|error| {
            let is_named = error.tried().iter().any(|attempt| attempt.source <= Source::Variable);
            let error = not_found(&error);
            if is_named { error } else { error.with_hint(WITHOUT_A_DRIVER) }
        })?;
        let mut candidates = vec![first];
        if path.is_none() {
            let others = loader::search(&Environment::from_process(), &options).candidates;
            let others = others.into_iter().filter(|other| other.path.is_absolute());
            let load =
                |path| cupti_sys::Cupti::load(&LoadOptions { path: Some(path), ..LoadOptions::default() });
            candidates.extend(others.filter_map(|other| load(other.path).ok()));
        }
        let mut tried: Vec<(PathBuf, Error)> = Vec::new();
        for candidate in candidates {
            let path = candidate.path().to_owned();
            if tried.iter().any(|(known, _)| *known == path) {
                continue;
            }
            match Self::usable_without_driver(candidate) {
                Ok(library) => {
                    *found = Some(library);
                    return Ok(library);
                }
                Err(error) => tried.push((path, error)),
            }
        }
        let mut what = "none of these CUPTI libraries plans without one".to_owned();
        for (path, error) in &tried {
            what += &format!("\n  {}: {}", shown(path), error.what);
        }
        match <[_; 1]>::try_from(tried) {
            Ok([(_, only)]) => Err(only),
            Err(_) => Err(Error::new(ErrorKind::NoDriver, what).with_hint(WITHOUT_A_DRIVER)),
        }
    }

    fn usable_without_driver(loaded: cupti_sys::Cupti) -> Result<Self> {
        // Asked before any call: 13.2 crashes the process without a driver, and newer ones answer 999 to everything.
        if loaded.symbols().has(MARK_OF_13_2) {
            let path = shown(loaded.path());
            let what = format!("{path} is CUPTI 13.2 or newer, which needs a driver for every call");
            return Err(Error::new(ErrorKind::NoDriver, what).with_hint(WITHOUT_A_DRIVER));
        }
        let loaded: &'static cupti_sys::Cupti = Box::leak(Box::new(loaded));
        let cupti = Cupti::new(loaded.symbols());
        let library = Self { cupti, loaded, version: cupti.version().ok() };
        library.check()?;
        load_companions(loaded)?;
        cupti.chips()?;
        Ok(library)
    }

    fn check(&self) -> Result<()> {
        if self.loaded.symbols().has("cuptiProfilerHostInitialize") {
            return Ok(());
        }
        let version = self.version.map_or_else(|| "unknown".to_owned(), |version| version.to_string());
        let what = format!("{} ({version}) has no counters by this interface", shown(self.loaded.path()));
        Err(Error::new(ErrorKind::CuptiTooOld, what).with_hint("counters need CUPTI 12.6 or newer"))
    }
}

/// Loads what libcupti opens by name when counters are used.
fn load_companions(loaded: &cupti_sys::Cupti) -> Result<()> {
    for companion in loaded.load_companions() {
        if let Some(reason) = companion.failure {
            let what = format!("{} beside {}: {reason}", companion.name, shown(loaded.path()));
            return Err(Error::new(ErrorKind::CuptiNotFound, what).with_hint(
                "counters need it: install the whole CUPTI package (pip install nvidia-cuda-cupti)",
            ));
        }
    }
    Ok(())
}
