//! What is known beforehand to go wrong with this driver and this CUPTI: rows of `env`.

use cupti_sys::loader::{Attempt, Reason, Source};
use cupti_sys::{LibraryVersion, Release};

use crate::cupti::Libraries;
use crate::error::{printable, shown};

/// What everybody should read: the summary prints facts with this beginning.
pub(super) use crate::table::rows::WARNING;

/// Something about the libraries in use that can spoil every session.
pub(crate) struct LibraryWarning {
    name: &'static str,
    /// What is so.
    pub text: String,
    /// What to do about it.
    pub remedy: String,
}

/// What is to be warned of, for sessions and for the doctor alike.
pub(crate) fn of_libraries(libraries: &Libraries) -> Vec<LibraryWarning> {
    let Libraries { driver, loaded, version, .. } = libraries;
    let used = shown(loaded.path());
    let release = Release::new(driver.version.major(), driver.version.minor());
    let mut warnings = Vec::new();
    if is_older(*version, release) {
        let package = if release.major >= 13 { "nvidia-cuda-cupti" } else { "nvidia-cuda-cupti-cu12" };
        warnings.push(LibraryWarning {
            name: "old_cupti",
            text: format!(
                "{used} is {version}, older than the driver (CUDA {release}): a GPU that it does not know gives no records"
            ),
            remedy: format!(
                "install CUPTI {release} (the Python package {package}), or let CUPROF_CUPTI_PATH name it"
            ),
        });
    }
    if let Some(attempt) = loaded.tried().iter().find(|attempt| is_broken(attempt)) {
        warnings.push(LibraryWarning {
            name: "broken_cupti",
            text: format!("{}; {used} is used in its place", printable(&attempt.to_string())),
            remedy: "remove it or install it again".to_owned(),
        });
    }
    warnings
}

/// Whether a library was preferred and is there, but of no use. A bare name need not be of anything.
pub(crate) fn is_broken(attempt: &Attempt) -> bool {
    attempt.source != Source::Linker && matches!(attempt.reason, Reason::NotOpened(_) | Reason::Lacks(_))
}

/// The same as facts.
pub(super) fn of(libraries: &Libraries) -> Vec<(String, String)> {
    let fact =
        |LibraryWarning { name, text, remedy }| (format!("{WARNING}{name}"), format!("{text}; {remedy}"));
    of_libraries(libraries).into_iter().map(fact).collect()
}

/// Whether no toolkit of the driver's release or a newer one has this CUPTI.
fn is_older(version: LibraryVersion, driver: Release) -> bool {
    version.releases().is_some_and(|(_, newest)| newest < driver)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_is_old_if_every_release_that_it_may_be_is_older_than_the_driver() {
        let is_older =
            |api, major, minor| is_older(LibraryVersion::from_api(api), Release::new(major, minor));
        assert!(is_older(18, 13, 0) && is_older(18, 12, 2) && !is_older(18, 12, 1) && !is_older(18, 12, 0));
        assert!(is_older(28, 13, 0) && !is_older(28, 12, 9));
        assert!(!is_older(130_401, 13, 0));
        assert!(!is_older(25, 13, 0), "a number that no release is known to have");
    }
}
