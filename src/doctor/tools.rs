//! Other tools in the process: variables by which they come in, and libraries by which they are known.

use std::path::Path;

use super::machine::Machine;
use super::{Finding, Severity, Topic};
use crate::error::shown;

/// The beginning of a library's name, and whose it is.
const LIBRARIES: [(&str, &str); 8] = [
    ("libsanitizer-collection", "compute-sanitizer"),
    ("libsanitizer-public", "compute-sanitizer"),
    ("libTreeLauncherTargetInjection", "compute-sanitizer or Nsight Compute"),
    ("libInterceptorInjectionTarget", "compute-sanitizer or Nsight Compute"),
    ("libcuda-injection", "Nsight Compute"),
    ("libToolsInjection", "Nsight Systems"),
    ("libcudadebugger", "cuda-gdb"),
    ("libnvperf_host", "a counter tool, or a session of counters"),
];

/// Variables that a tool sets in the processes that it starts.
const PREFIXES: [(&str, &str); 2] = [("NSYS_", "Nsight Systems"), ("NV_COMPUTE_PROFILER", "Nsight Compute")];

/// What was found, if anything.
pub(super) fn findings(machine: &Machine) -> Vec<Finding> {
    let finding = |severity, text: String| Finding::new(severity, Topic::OtherTools, text);
    let alone = "run without it: CUPTI serves one profiler in a process";
    let mut found = Vec::new();
    if let Some(library) = machine.variable("CUDA_INJECTION64_PATH") {
        let text = format!(
            "CUDA_INJECTION64_PATH={library}: the driver loads this library, likely another profiler"
        );
        found.push(finding(Severity::Warning, text).with_remedy(alone));
    }
    if let Some(library) = machine.variable("NVTX_INJECTION64_PATH") {
        let text = format!(
            "NVTX_INJECTION64_PATH={library}: NVTX of shared libraries goes to that tool; ranges of this program and \
             of cuprof itself are seen all the same"
        );
        found.push(finding(Severity::Note, text));
    }
    for (prefix, tool) in PREFIXES {
        let mut names = machine.variables.iter().map(|(name, _)| name.as_str());
        if let Some(name) = names.find(|name| name.starts_with(prefix)) {
            let text = format!("{name} is set: the process was started by {tool}");
            found.push(finding(Severity::Warning, text).with_remedy(alone));
        }
    }
    let name = |file: &Path| file.file_name().map(|name| name.to_string_lossy().into_owned());
    for (beginning, tool) in LIBRARIES {
        let mut files = machine.mapped.iter();
        if let Some(file) = files.find(|file| name(file).is_some_and(|name| name.starts_with(beginning))) {
            let text = format!("{} is in the process: {tool}", shown(file));
            let severity =
                if beginning.starts_with("libnvperf") { Severity::Note } else { Severity::Warning };
            let hint = (severity == Severity::Warning).then_some(alone);
            found.push(hint.into_iter().fold(finding(severity, text), Finding::with_remedy));
        }
    }
    if found.is_empty() {
        found.push(finding(Severity::Ok, "there is no sign of another tool in this process".into()));
    }
    found
}

/// Libraries to link against, which do nothing: the toolkit's `lib64/stubs`.
pub(super) fn stubs(machine: &Machine) -> Vec<Finding> {
    let is_stubs = |path: &Path| path.components().any(|part| part.as_os_str() == "stubs");
    let remedy = "remove that folder from LD_LIBRARY_PATH: stubs are for linking only";
    let mapped = machine.mapped.iter().filter(|file| is_stubs(file)).map(|file| {
        let text = format!("{} is a stub of the toolkit", shown(file));
        Finding::new(Severity::Problem, Topic::Driver, text).with_remedy(remedy)
    });
    let mapped: Vec<_> = mapped.collect();
    let path = machine.variable("LD_LIBRARY_PATH").unwrap_or_default();
    let folder = path.split(':').find(|folder| is_stubs(Path::new(folder)));
    let listed = folder.filter(|_| mapped.is_empty()).map(|folder| {
        let text = format!("LD_LIBRARY_PATH has {folder}, with stubs that can shadow the driver");
        Finding::new(Severity::Warning, Topic::Driver, text).with_remedy(remedy)
    });
    mapped.into_iter().chain(listed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(variables: &[(&str, &str)], mapped: &[&str]) -> Machine {
        Machine {
            variables: variables.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect(),
            mapped: mapped.iter().map(Into::into).collect(),
            ..Machine::default()
        }
    }

    fn told(variables: &[(&str, &str)], mapped: &[&str]) -> String {
        let findings = findings(&machine(variables, mapped));
        findings.iter().map(|finding| format!("{finding}\n")).collect()
    }

    #[test]
    fn a_process_of_its_own_has_no_other_tool() {
        assert_eq!(
            told(&[("PATH", "/usr/bin"), ("CUDA_INJECTION64_PATH", "")], &["/usr/lib/libc.so.6"]),
            "ok: other tools: there is no sign of another tool in this process\n"
        );
    }

    #[test]
    fn each_sign_of_another_tool_is_named() {
        let remedy = "\n  run without it: CUPTI serves one profiler in a process\n";
        assert_eq!(
            told(&[("CUDA_INJECTION64_PATH", "/opt/x.so")], &[]),
            format!(
                "warning: other tools: CUDA_INJECTION64_PATH=/opt/x.so: the driver loads this library, likely another \
                 profiler{remedy}"
            )
        );
        assert_eq!(
            told(&[("NSYS_PROFILING_SESSION_ID", "7")], &[]),
            format!(
                "warning: other tools: NSYS_PROFILING_SESSION_ID is set: the process was started by Nsight \
                 Systems{remedy}"
            )
        );
        assert_eq!(
            told(&[], &["/opt/cuda/compute-sanitizer/libsanitizer-collection.so"]),
            format!(
                "warning: other tools: /opt/cuda/compute-sanitizer/libsanitizer-collection.so is in the process: \
                 compute-sanitizer{remedy}"
            )
        );
        let nvtx = told(&[("NVTX_INJECTION64_PATH", "/opt/tool.so")], &[]);
        assert!(nvtx.starts_with("note: other tools: NVTX_INJECTION64_PATH=/opt/tool.so"), "{nvtx}");
        let ncu = told(&[("NV_COMPUTE_PROFILER_PERFWORKS_DIR", "/x")], &[]);
        assert!(ncu.contains("started by Nsight Compute"), "{ncu}");
    }

    #[test]
    fn a_stub_of_the_driver_is_a_problem_in_the_process_and_a_warning_on_the_path() {
        let told = |machine: &Machine| stubs(machine).iter().map(Finding::to_string).collect::<String>();
        let mapped = told(&machine(&[], &["/usr/local/cuda/lib64/stubs/libcuda.so.1"]));
        assert!(
            mapped.starts_with("problem: driver: /usr/local/cuda/lib64/stubs/libcuda.so.1 is a stub"),
            "{mapped}"
        );
        let both = stubs(&machine(
            &[("LD_LIBRARY_PATH", "/usr/local/cuda/lib64/stubs")],
            &["/usr/local/cuda/lib64/stubs/libcuda.so.1"],
        ));
        assert_eq!(both.len(), 1, "what has happened is not said to be possible: {both:?}");
        let listed = told(&machine(&[("LD_LIBRARY_PATH", "/usr/lib:/usr/local/cuda/lib64/stubs")], &[]));
        assert!(
            listed.starts_with("warning: driver: LD_LIBRARY_PATH has /usr/local/cuda/lib64/stubs"),
            "{listed}"
        );
        assert!(listed.contains("remove that folder from LD_LIBRARY_PATH"), "{listed}");
    }
}
