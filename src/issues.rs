//! Known faults of CUPTI itself, by the versions that have them.
//!
//! From NVIDIA's release notes, and from public reports where those say nothing. Numbers before 13.0 do not tell the
//! update of a release: a fault that an update repairs is then listed for the whole release.

use cupti_sys::LibraryVersion;

/// A fault of some versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Issue {
    /// What it is called in facts: `issue.<name>`.
    pub name: &'static str,
    /// The first version that has it.
    since: LibraryVersion,
    /// The first that surely has it no more.
    until: LibraryVersion,
    /// The release that repaired it, as people name it.
    pub repaired: &'static str,
    /// What happens.
    pub what: &'static str,
    /// What to do, or what this crate does about it.
    pub remedy: &'static str,
    /// Whether a session can be affected; else this crate steers clear of it.
    pub matters: bool,
}

/// NVTX must not be given the libraries that have this one.
pub(crate) const NVTX_CRASHES: &str = "nvtx_naming_threads";

macro_rules! issues {
    ($($name:literal [$since:literal .. $until:literal, $repaired:literal] $matters:literal: $what:literal => $remedy:literal;)*) => {
        /// Every known issue, oldest first.
        pub(crate) const ISSUES: &[Issue] = &[$(Issue {
            name: $name,
            since: LibraryVersion::from_api($since),
            until: LibraryVersion::from_api($until),
            repaired: $repaired,
            what: $what,
            remedy: $remedy,
            matters: $matters,
        }),*];
    };
}

issues! {
    "graph_captured_before" [18..24, "12.6"] true:
        "replaying a CUDA graph that was captured before CUPTI was there can crash or hang"
        => "start the session before the first CUDA call";
    "kernels_untraced_at_first" [22..24, "12.5 Update 1"] true:
        "kernels are not recorded until the activity API has been used once in the process"
        => "start the session before the first launch";
    "domain_disable_spreads" [18..26, "12.6 Update 1"] false:
        "switching a callback domain off switches other activities off"
        => "nothing: this crate switches no domain off while a session runs";
    "nvtx_naming_threads" [130_000..130_001, "13.0 Update 1"] false:
        "a library that names its threads through NVTX crashes while CUPTI is its NVTX tool"
        => "nothing: this crate does not make it one, and says so where that was asked for";
    "disable_kernels_hangs" [18..130_001, "13.0 Update 1"] false:
        "switching kernel records off can hang"
        => "nothing: this crate leaves them on, and their buffers unread";
    "flush_crashes" [18..130_001, "13.0 Update 1"] true:
        "a flush can crash, and synchronizations of a whole device are not recorded"
        => "use CUPTI 13.0 Update 1 or newer if `synchronizations` matter";
    "graph_correlation" [18..130_101, "13.1 Update 1"] true:
        "in the second and later sessions of a process, kernels of graphs have wrong correlation ids"
        => "count on the first session only; `graph_unmapped` in `losses` counts those that are noticed";
    "repeated_calls_slow" [130_200..130_300, "13.3"] true:
        "repeated CUPTI calls slow down"
        => "use CUPTI 13.3 or newer for long sessions";
    "mig_uuids" [18..130_301, "13.3 Update 1"] false:
        "records of MIG devices have wrong UUIDs"
        => "nothing: this crate asks the driver for UUIDs";
    "host_memory_grows" [18..130_401, "13.4 Update 1"] true:
        "host memory grows without bound in long sessions"
        => "watch the process's memory in sessions of hours, or use CUPTI 13.4 Update 1 or newer";
    "zero_times_at_context_end" [18..130_401, "13.4 Update 1"] true:
        "work that is still running when its context is destroyed can have no times"
        => "synchronise before destroying a context; `zero_timestamp` in `losses` counts such rows";
    "stale_kernel_names" [18..130_401, "13.4 Update 1"] true:
        "after a module was unloaded and another loaded, kernels can have a name of the old one"
        => "keep modules loaded while a session runs";
}

/// The issues of a version, oldest first.
pub(crate) fn of(version: LibraryVersion) -> impl Iterator<Item = &'static Issue> {
    ISSUES.iter().filter(move |issue| (issue.since..issue.until).contains(&version))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(api: u32) -> Vec<&'static str> {
        of(LibraryVersion::from_api(api)).map(|issue| issue.name).collect()
    }

    #[test]
    fn each_version_has_its_issues_and_no_others() {
        let has = |api, name| names(api).contains(&name);
        // 12.4 and 12.5; 12.6 is repaired.
        assert!(!has(21, "kernels_untraced_at_first") && has(22, "kernels_untraced_at_first"));
        assert!(has(23, "kernels_untraced_at_first") && !has(24, "kernels_untraced_at_first"));
        // The number of 12.6 does not tell whether it is Update 1.
        assert!(has(24, "domain_disable_spreads") && !has(26, "domain_disable_spreads"));
        // 13.0.0 only.
        assert!(!has(28, "nvtx_naming_threads") && has(130_000, "nvtx_naming_threads"));
        assert!(!has(130_001, "nvtx_naming_threads"));
        assert!(has(28, "disable_kernels_hangs") && !has(130_001, "disable_kernels_hangs"));
        assert!(has(130_100, "graph_correlation") && !has(130_101, "graph_correlation"));
        assert_eq!(names(130_400).len(), 3);
        assert!(names(130_401).is_empty() && names(130_500).is_empty() && names(140_000).is_empty());
    }

    #[test]
    fn names_differ_and_texts_are_one_line() {
        for (at, issue) in ISSUES.iter().enumerate() {
            assert!(ISSUES[..at].iter().all(|other| other.name != issue.name), "{}", issue.name);
            assert!(issue.since < issue.until, "{}", issue.name);
            for text in [issue.what, issue.remedy] {
                assert!(text.len() <= 110 && !text.contains('\n') && !text.ends_with('.'), "{text}");
            }
        }
    }
}
