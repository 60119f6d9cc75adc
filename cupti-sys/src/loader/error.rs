//! Why no library was found, with everything that was looked at.

use std::error::Error;
use std::fmt;
use std::path::PathBuf;

use super::environment::PATH_VAR;

/// Where a candidate comes from. In the order in which they are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Source {
    /// The caller named it.
    Option,
    /// The variable `CUPROF_CUPTI_PATH` names it.
    Variable,
    /// It is in this process already.
    Mapped,
    /// It lies where a CUDA library of this process has its CUPTI.
    BesideRuntime,
    /// It was installed as a Python package.
    Wheel,
    /// It belongs to a CUDA toolkit.
    Toolkit,
    /// It belongs to a Conda environment.
    Conda,
    /// It lies in a library folder of the system.
    System,
    /// The dynamic linker knows it by name.
    Linker,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Option => "named by the caller",
            Self::Variable => "named by CUPROF_CUPTI_PATH",
            Self::Mapped => "already in this process",
            Self::BesideRuntime => "beside a CUDA library of this process",
            Self::Wheel => "Python package",
            Self::Toolkit => "CUDA toolkit",
            Self::Conda => "Conda environment",
            Self::System => "system library folder",
            Self::Linker => "dynamic linker",
        })
    }
}

/// Why a path did not give a library.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// There is no such file or folder.
    Absent,
    /// It is a pipe, a device, a socket or, where a library was looked for, a folder: opening it could take for ever.
    NotAFile,
    /// The folder exists and holds no libcupti.
    NothingInside,
    /// The folder holds stubs: files to link against, which do nothing.
    Stubs,
    /// The library is newer than the driver supports.
    TooNew {
        /// The library's major version.
        major: u32,
        /// The newest that is allowed.
        max: u32,
    },
    /// The library is older than 12.0.
    TooOld {
        /// The library's major version.
        major: u32,
    },
    /// The dynamic linker refused the file; its words.
    NotOpened(String),
    /// The file lacks a function that every CUPTI has: a stub, or another library of the same name.
    Lacks(&'static str),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => f.write_str("does not exist"),
            Self::NotAFile => f.write_str("is not a file"),
            Self::NothingInside => f.write_str("holds no libcupti.so"),
            Self::Stubs => f.write_str("skipped, since stubs cannot be used at run time"),
            Self::TooNew { major, max } => {
                write!(f, "skipped, since CUPTI {major} is newer than the driver supports (CUDA {max})")
            }
            Self::TooOld { major } => write!(f, "skipped, since CUPTI {major} is older than 12.0"),
            Self::NotOpened(words) => write!(f, "cannot be opened: {words}"),
            Self::Lacks(symbol) => write!(f, "is no usable CUPTI: it lacks {symbol}"),
        }
    }
}

/// A path that did not give a library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The file or folder, or the bare name that the linker was asked for.
    pub path: PathBuf,
    /// Why it was looked at.
    pub source: Source,
    /// Why it was not taken.
    pub reason: Reason,
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}): {}", self.path.display(), self.source, self.reason)
    }
}

/// No CUPTI library could be loaded.
///
/// Its text lists every path that was looked at, and ends with what to do.
#[derive(Clone, Debug)]
pub struct LoadError {
    pub(super) tried: Vec<Attempt>,
    pub(super) max_major: Option<u32>,
}

impl LoadError {
    /// Everything that was looked at, in order.
    pub fn tried(&self) -> &[Attempt] {
        &self.tried
    }

    /// What a user can do about it, in one line.
    pub fn remedy(&self) -> String {
        if let Some(named) = self.tried.iter().find(|attempt| attempt.source <= Source::Variable) {
            let what = if named.source == Source::Option { "the option" } else { PATH_VAR };
            return format!(
                "let {what} name libcupti.so.12 or .13, or its folder, or unset it to search for one"
            );
        }
        // The package is named by what the driver can run; a 12 works with every driver that is new enough to matter.
        let package = match self.max_major {
            Some(..=12) => "nvidia-cuda-cupti-cu12",
            Some(_) => "nvidia-cuda-cupti",
            None => "nvidia-cuda-cupti (CUDA 13) or nvidia-cuda-cupti-cu12",
        };
        format!(
            "install a CUDA toolkit or the Python package {package}, or set {PATH_VAR} to libcupti.so.12 or .13 or to \
             its folder"
        )
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no usable CUPTI library was found")?;
        for attempt in &self.tried {
            write!(f, "\n  {attempt}")?;
        }
        write!(f, "\nTo use CUPTI: {}", self.remedy())
    }
}

impl Error for LoadError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt(path: &str, source: Source, reason: Reason) -> Attempt {
        Attempt { path: path.into(), source, reason }
    }

    #[test]
    fn the_text_lists_what_was_tried_and_ends_with_the_remedy() {
        let error = LoadError {
            tried: vec![
                attempt("/usr/local/cuda/lib64/stubs", Source::BesideRuntime, Reason::Stubs),
                attempt("/venv/libcupti.so.13", Source::Wheel, Reason::TooNew { major: 13, max: 12 }),
                attempt("libcupti.so.12", Source::Linker, Reason::NotOpened("no such file".to_owned())),
            ],
            max_major: Some(12),
        };
        assert_eq!(
            error.to_string(),
            "no usable CUPTI library was found\n  \
             /usr/local/cuda/lib64/stubs (beside a CUDA library of this process): skipped, since stubs cannot be used \
             at run time\n  \
             /venv/libcupti.so.13 (Python package): skipped, since CUPTI 13 is newer than the driver supports \
             (CUDA 12)\n  \
             libcupti.so.12 (dynamic linker): cannot be opened: no such file\n\
             To use CUPTI: install a CUDA toolkit or the Python package nvidia-cuda-cupti-cu12, or set \
             CUPROF_CUPTI_PATH to libcupti.so.12 or .13 or to its folder"
        );
    }

    #[test]
    fn the_package_is_named_by_what_the_driver_can_run_and_both_are_where_that_is_not_known() {
        let remedy = |max_major| LoadError { tried: Vec::new(), max_major }.remedy();
        assert!(remedy(Some(13)).contains("package nvidia-cuda-cupti, or"), "{}", remedy(Some(13)));
        assert!(remedy(Some(12)).contains("package nvidia-cuda-cupti-cu12, or"), "{}", remedy(Some(12)));
        assert!(
            remedy(None).contains("nvidia-cuda-cupti (CUDA 13) or nvidia-cuda-cupti-cu12"),
            "{}",
            remedy(None)
        );
    }

    #[test]
    fn a_named_library_that_fails_is_what_the_remedy_is_about() {
        let tried = vec![attempt("/nowhere", Source::Variable, Reason::Absent)];
        let error = LoadError { tried, max_major: None };
        assert!(error.remedy().contains("let CUPROF_CUPTI_PATH name"), "{}", error.remedy());
    }
}
