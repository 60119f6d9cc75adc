//! What is known beforehand to go wrong with this driver and this CUPTI: rows of `env`.

use cupti_sys::{LibraryVersion, Release};

use crate::cupti::Libraries;
use crate::error::shown;

/// What everybody should read: the summary prints facts with this beginning.
pub(super) use crate::table::rows::WARNING;

/// Facts about the libraries in use.
pub(super) fn of(libraries: &Libraries) -> Vec<(String, String)> {
    let Libraries { driver, loaded, version, .. } = libraries;
    let driver_release = Release::new(driver.version.major(), driver.version.minor());
    let mut facts = Vec::new();
    if is_older(*version, driver_release) {
        let text = format!(
            "{} is {version}, older than the driver (CUDA {driver_release}): a GPU that it does not know gives no records; \
             install CUPTI {driver_release}",
            shown(loaded.path()),
        );
        facts.push((format!("{WARNING}old_cupti"), text));
    }
    facts
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
