//! What the checks look at, apart from the libraries: the process and the files of the driver.

use std::fs;
use std::path::PathBuf;

use cupti_sys::loader::Environment;

/// The process and its machine, as texts. A test describes another.
#[derive(Clone, Debug, Default)]
pub(super) struct Machine {
    /// Variables whose values are text.
    pub variables: Vec<(String, String)>,
    /// Files mapped into the process.
    pub mapped: Vec<PathBuf>,
    /// `/proc/driver/nvidia/params`.
    pub params: Option<String>,
    /// `/proc/self/status`.
    pub status: Option<String>,
    /// What the process runs in, if it is a container.
    pub container: Option<&'static str>,
    /// Lines of the system's settings of kernel modules that are about profiling, each with its file.
    pub settings: Vec<(PathBuf, String)>,
    /// The version of the driver's kernel module.
    pub driver: Option<String>,
}

/// Where settings of kernel modules are kept; the first that has a file of a name hides the others.
const SETTINGS: [&str; 4] = ["/etc/modprobe.d", "/run/modprobe.d", "/usr/lib/modprobe.d", "/lib/modprobe.d"];

/// The setting of the driver that keeps counters for administrators.
pub(super) const RESTRICTS: &str = "NVreg_RestrictProfilingToAdminUsers";

impl Machine {
    /// The running process. What cannot be read counts as absent.
    pub fn here() -> Self {
        let text = |path: &str| fs::read_to_string(path).ok();
        Self {
            variables: std::env::vars_os()
                .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
                .collect(),
            mapped: Environment::from_process().mapped,
            params: text("/proc/driver/nvidia/params"),
            status: text("/proc/self/status"),
            container: container(),
            settings: settings(),
            driver: text("/sys/module/nvidia/version").map(|version| version.trim().to_owned()),
        }
    }

    /// The value of a variable that is set and not empty.
    pub fn variable(&self, name: &str) -> Option<&str> {
        let set = self.variables.iter().find(|(known, _)| known == name);
        set.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }
}

fn container() -> Option<&'static str> {
    let exists = |path: &str| fs::exists(path).unwrap_or(false);
    if std::env::var_os("KUBERNETES_SERVICE_HOST").is_some() {
        Some("Kubernetes")
    } else if exists("/.dockerenv") {
        Some("Docker")
    } else if exists("/run/.containerenv") {
        Some("Podman")
    } else {
        None
    }
}

fn settings() -> Vec<(PathBuf, String)> {
    let mut lines = Vec::new();
    let mut read = |path: PathBuf, text: &str| {
        for line in
            text.lines().filter(|line| line.contains(RESTRICTS) && !line.trim_start().starts_with('#'))
        {
            lines.push((path.clone(), line.trim().to_owned()));
        }
    };
    for folder in SETTINGS {
        let files = fs::read_dir(folder).into_iter().flatten().flatten();
        let mut files: Vec<_> = files.map(|file| file.path()).collect();
        files.sort();
        for file in files {
            if let Ok(text) = fs::read_to_string(&file) {
                read(file, &text);
            }
        }
    }
    let command_line = PathBuf::from("/proc/cmdline");
    if let Ok(text) = fs::read_to_string(&command_line) {
        text.split_whitespace().for_each(|word| read(command_line.clone(), word));
    }
    lines
}
