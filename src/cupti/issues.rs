//! Faults of CUPTI itself that a session can meet, by version: from NVIDIA's release notes and public reports.

use cupti_sys::LibraryVersion;

/// One fault: in libraries from `since` on, before `fixed`.
struct Issue {
    since: u32,
    fixed: u32,
    text: &'static str,
}

/// The number of 12.0, before which nothing is supported.
const OLDEST: u32 = LibraryVersion::OLDEST.api();

/// By the number that `cuptiGetVersion` reports. An update that shares its number with the release that it mends is
/// counted to it.
const ISSUES: [Issue; 9] = [
    Issue {
        since: OLDEST,
        fixed: 24,
        text: "replaying a CUDA graph that was captured before the session started can crash or hang: start the \
               session before the first CUDA call",
    },
    Issue {
        since: 22,
        fixed: 24,
        text: "kernels can go unrecorded until an activity has been enabled once (12.4 Update 1, mended in 12.5 \
               Update 1): start the session before the first CUDA call",
    },
    Issue {
        since: OLDEST,
        fixed: 26,
        text: "another component that disables a callback domain switches activity records off, too (mended in 12.6 \
               Update 1)",
    },
    Issue {
        since: NVTX_CRASHES,
        fixed: NVTX_CRASHES + 1,
        text: "NVTX crashes in nvtxNameOsThread when it is injected: NVTX of other libraries is left alone",
    },
    Issue {
        since: OLDEST,
        fixed: KERNELS_CAN_BE_DISABLED,
        text: "switching kernel records off can hang: they stay on after the session",
    },
    Issue {
        since: OLDEST,
        fixed: 130_101,
        text: "kernels of CUDA graphs can have wrong correlation ids in sessions after the first: such rows are \
               graph_unmapped",
    },
    Issue { since: 130_200, fixed: 130_300, text: "repeated CUPTI calls become slower" },
    Issue {
        since: OLDEST,
        fixed: 130_401,
        text: "CUPTI's own host memory grows in long sessions, and records of a context that is being destroyed can \
               lack times",
    },
    Issue {
        since: OLDEST,
        fixed: 130_401,
        text: "after a module was unloaded, CUPTI can give a kernel of another the old name; names told here are those \
               of the launch",
    },
];

/// This version crashes in NVTX if it is injected into it.
const NVTX_CRASHES: u32 = 130_000;

/// Before this version, switching kernel records off can hang for ever.
const KERNELS_CAN_BE_DISABLED: u32 = 130_001;

/// What is known to be wrong with this version, a sentence each.
pub(crate) fn known(version: LibraryVersion) -> impl Iterator<Item = &'static str> {
    let has = move |issue: &&Issue| (issue.since..issue.fixed).contains(&version.api());
    ISSUES.iter().filter(has).map(|issue| issue.text)
}

/// Whether kernel records must stay on once they are.
pub(crate) fn kernels_stay_on(version: LibraryVersion) -> bool {
    version.api() < KERNELS_CAN_BE_DISABLED
}

/// Whether NVTX may be given this library.
pub(crate) fn nvtx_may_be_injected(version: LibraryVersion) -> bool {
    version.api() != NVTX_CRASHES
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known_of(number: u32) -> Vec<&'static str> {
        known(LibraryVersion::from_api(number)).collect()
    }

    #[test]
    fn a_version_has_the_faults_that_it_was_released_with_and_no_others() {
        let has = |number, word: &str| known_of(number).iter().any(|text| text.contains(word));
        assert!(has(22, "12.4 Update 1") && !has(21, "12.4 Update 1") && !has(24, "12.4 Update 1"));
        assert!(has(18, "captured before") && !has(24, "captured before"));
        assert!(has(130_000, "nvtxNameOsThread") && !has(130_001, "nvtxNameOsThread"));
        assert!(has(130_000, "can hang: they stay on") && !has(130_001, "can hang: they stay on"));
        assert_eq!(known_of(130_500), [""; 0]);
        assert_eq!(known_of(139_999), [""; 0], "nothing is known of the future");
    }
}
