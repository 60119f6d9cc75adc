//! Which CUPTI is loaded, over both of its numbering schemes.

use core::fmt;

use crate::bindings::CUPTI_API_VERSION;

/// The number that `cuptiGetVersion` reports.
///
/// Before 13.0 CUPTI counts its API changes (18, 22, 28), and several toolkits can share a number; from 13.0 on the
/// number is `xxyyzz`: 130401 is 13.4, update 1. Numbers of both schemes are ordered by age, and so is this type.
///
/// Without a driver a library may report nothing: `cuptiGetVersion` of 13.4 fails then.
///
/// ```
/// use cupti_sys::LibraryVersion;
///
/// let (old, new) = (LibraryVersion::from_api(28), LibraryVersion::from_api(130_401));
/// assert!(old < new);
/// assert_eq!(old.to_string(), "CUPTI 12.9 (API 28)");
/// assert_eq!(new.to_string(), "CUPTI 13.4.1 (API 130401)");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LibraryVersion(u32);

/// A CUDA toolkit release, as people name it: 12.9.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Release {
    /// 12 in 12.9; also the number in the library's soname.
    pub major: u32,
    /// 9 in 12.9.
    pub minor: u32,
}

impl Release {
    /// The release `major.minor`.
    pub const fn new(major: u32, minor: u32) -> Self {
        Self { major, minor }
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// The first number of the scheme `xxyyzz`.
const FIRST_DATED: u32 = 130_000;

/// API number → oldest and newest toolkit that reports it, for the numbers before 13.0. Numbers that no toolkit is
/// known to report, such as 25, are left out.
///
/// 18 is what the libraries of 11.8, 12.0 and 12.1 all say, although the headers reserve 19 for 12.0.
const COUNTED: [(u32, Release, Release); 15] = [
    (13, Release::new(11, 0), Release::new(11, 0)),
    (14, Release::new(11, 1), Release::new(11, 1)),
    (15, Release::new(11, 2), Release::new(11, 4)),
    (16, Release::new(11, 5), Release::new(11, 6)),
    (17, Release::new(11, 6), Release::new(11, 7)),
    (18, Release::new(11, 8), Release::new(12, 1)),
    (19, Release::new(12, 0), Release::new(12, 1)),
    (20, Release::new(12, 2), Release::new(12, 2)),
    (21, Release::new(12, 3), Release::new(12, 3)),
    (22, Release::new(12, 4), Release::new(12, 4)),
    (23, Release::new(12, 5), Release::new(12, 5)),
    (24, Release::new(12, 6), Release::new(12, 6)),
    (26, Release::new(12, 8), Release::new(12, 8)),
    (27, Release::new(12, 9), Release::new(12, 9)),
    (28, Release::new(12, 9), Release::new(12, 9)),
];

impl LibraryVersion {
    /// The version of the headers that the bindings are generated from: records and structs are declared up to it.
    pub const HEADERS: Self = Self(CUPTI_API_VERSION);

    /// The oldest number of a supported library (12.0 reports it, and so do 11.8 and 12.1). What it has, all have: use
    /// it where the version is unknown.
    pub const OLDEST: Self = Self(18);

    /// The version with this API number.
    pub const fn from_api(number: u32) -> Self {
        Self(number)
    }

    /// The API number, as `cuptiGetVersion` reports it.
    pub const fn api(self) -> u32 {
        self.0
    }

    /// The oldest and the newest toolkit known to report this number; `None` for a number that none is known to report.
    ///
    /// They differ only where the number is ambiguous: 18 gives 11.8 and 12.1.
    pub fn releases(self) -> Option<(Release, Release)> {
        if self.0 >= FIRST_DATED {
            let release = Release::new(self.0 / 10_000, self.0 / 100 % 100);
            return Some((release, release));
        }
        COUNTED.iter().find(|(api, ..)| *api == self.0).map(|(_, oldest, newest)| (*oldest, *newest))
    }

    /// The number in the library's file name, `libcupti.so.12`. Where the number could mean two, the newer.
    pub fn soname_major(self) -> Option<u32> {
        self.releases().map(|(_, newest)| newest.major)
    }

    /// Whether the library is at least this release. `false` where the number is ambiguous and may mean an older one.
    pub fn is_at_least(self, release: Release) -> bool {
        self.releases().is_some_and(|(oldest, _)| oldest >= release)
    }

    /// The CUPTI update, `zz` of `xxyyzz`; it need not be the update number of the toolkit.
    const fn update(self) -> u32 {
        if self.0 >= FIRST_DATED { self.0 % 100 } else { 0 }
    }
}

impl fmt::Display for LibraryVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CUPTI ")?;
        if let Some((oldest, newest)) = self.releases() {
            write!(f, "{oldest}")?;
            if newest != oldest {
                write!(f, "–{newest}")?;
            }
            if self.update() != 0 {
                write!(f, ".{}", self.update())?;
            }
            f.write_str(" ")?;
        }
        write!(f, "(API {})", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(number: u32) -> String {
        LibraryVersion::from_api(number).to_string()
    }

    #[test]
    fn versions_are_shown_by_release_and_number() {
        assert_eq!(shown(18), "CUPTI 11.8–12.1 (API 18)");
        assert_eq!(shown(22), "CUPTI 12.4 (API 22)");
        assert_eq!(shown(28), "CUPTI 12.9 (API 28)");
        assert_eq!(shown(130_001), "CUPTI 13.0.1 (API 130001)");
        assert_eq!(shown(130_401), "CUPTI 13.4.1 (API 130401)");
        assert_eq!(shown(130_500), "CUPTI 13.5 (API 130500)");
        assert_eq!(shown(140_203), "CUPTI 14.2.3 (API 140203)");
        assert_eq!(shown(25), "CUPTI (API 25)");
        assert_eq!(shown(0), "CUPTI (API 0)");
    }

    #[test]
    fn both_schemes_are_ordered_by_age() {
        let ages = [18, 22, 24, 26, 28, 130_001, 130_401, 130_500].map(LibraryVersion::from_api);
        assert!(ages.is_sorted());
    }

    #[test]
    fn an_ambiguous_number_claims_no_more_than_its_oldest_release() {
        let ambiguous = LibraryVersion::from_api(18);
        assert!(ambiguous.is_at_least(Release::new(11, 8)));
        assert!(!ambiguous.is_at_least(Release::new(12, 0)));
        assert_eq!(ambiguous.soname_major(), Some(12));
        assert!(LibraryVersion::from_api(130_001).is_at_least(Release::new(13, 0)));
        assert!(!LibraryVersion::from_api(28).is_at_least(Release::new(13, 0)));
        assert!(!LibraryVersion::from_api(25).is_at_least(Release::new(11, 0)));
    }
}
