//! Installations as they are found in the wild, imitated in temporary folders.

use std::os::unix::fs::symlink;

use tempfile::TempDir;

use super::*;

/// A file system of empty files.
struct Machine {
    root: TempDir,
}

impl Machine {
    fn new() -> Self {
        Self { root: TempDir::new().unwrap() }
    }

    fn file(self, path: &str) -> Self {
        let path = self.at(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, []).unwrap();
        self
    }

    fn link(self, path: &str, target: &str) -> Self {
        let path = self.at(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(target, path).unwrap();
        self
    }

    /// The files of a toolkit, with the chain of links that it comes with.
    fn toolkit(self, home: &str, major: u32, version: &str) -> Self {
        let lib = format!("{home}/extras/CUPTI/lib64");
        self.file(&format!("{lib}/libcupti.so.{version}"))
            .link(&format!("{lib}/libcupti.so.{major}"), &format!("libcupti.so.{version}"))
            .link(&format!("{lib}/libcupti.so"), &format!("libcupti.so.{major}"))
    }

    fn at(&self, path: &str) -> PathBuf {
        self.root.path().join(path.trim_start_matches('/'))
    }

    fn environment(&self) -> Environment {
        Environment::below(self.root.path())
    }

    /// The candidates as paths of the machine.
    fn paths(&self, search: &Search) -> Vec<String> {
        search.candidates.iter().map(|candidate| self.inside(&candidate.path)).collect()
    }

    fn inside(&self, path: &Path) -> String {
        format!("/{}", path.strip_prefix(self.root.path()).unwrap_or(path).display())
    }

    fn skipped(&self, search: &Search) -> Vec<(String, Reason)> {
        search.skipped.iter().map(|attempt| (self.inside(&attempt.path), attempt.reason.clone())).collect()
    }
}

fn up_to(max: u32) -> LoadOptions {
    LoadOptions { max_major: Some(max), ..LoadOptions::default() }
}

fn anything() -> LoadOptions {
    LoadOptions::default()
}

#[test]
fn an_empty_machine_has_no_candidate() {
    let machine = Machine::new();
    let search = search(&machine.environment(), &anything());
    assert!(search.candidates.is_empty() && search.skipped.is_empty());
}

#[test]
fn a_toolkit_is_found_without_any_variable() {
    let machine =
        Machine::new().toolkit("/usr/local/cuda-12.9", 12, "2025.2.1").link("/usr/local/cuda", "cuda-12.9");
    let search = search(&machine.environment(), &anything());
    assert_eq!(machine.paths(&search), ["/usr/local/cuda/extras/CUPTI/lib64/libcupti.so.12"]);
    assert_eq!(search.candidates[0].source, Source::Toolkit);
    assert_eq!(search.candidates[0].major, Some(12));
}

#[test]
fn newer_toolkits_come_first_by_number() {
    let machine = Machine::new()
        .toolkit("/usr/local/cuda-12.10", 12, "2025.9.0")
        .toolkit("/usr/local/cuda-12.9", 12, "2025.2.1")
        .toolkit("/usr/local/cuda-13.0", 13, "2025.3.1");
    let search = search(&machine.environment(), &anything());
    let lib = "extras/CUPTI/lib64/libcupti.so";
    assert_eq!(
        machine.paths(&search),
        [
            format!("/usr/local/cuda-13.0/{lib}.13"),
            format!("/usr/local/cuda-12.10/{lib}.12"),
            format!("/usr/local/cuda-12.9/{lib}.12"),
        ]
    );
}

#[test]
fn cuda_home_comes_before_the_standard_place() {
    let machine = Machine::new()
        .toolkit("/usr/local/cuda", 13, "2025.3.1")
        .file("/opt/cuda-12/targets/x86_64-linux/lib/libcupti.so.12")
        .file("/opt/cuda-12/targets/sbsa-linux/lib/libcupti.so.12");
    let search = search(&machine.environment().with_variable("CUDA_HOME", "/opt/cuda-12"), &anything());
    let paths = machine.paths(&search);
    assert!(paths[0].starts_with("/opt/cuda-12/targets/"), "{paths:?}");
    assert_eq!(paths[1], "/usr/local/cuda/extras/CUPTI/lib64/libcupti.so.13");
}

#[test]
fn a_variable_that_leads_nowhere_is_reported() {
    let machine = Machine::new().file("/opt/empty/version.json");
    let environment = machine
        .environment()
        .with_variable("CUDA_HOME", "/opt/gone")
        .with_variable("CUDA_PATH", "/opt/empty");
    let search = search(&environment, &anything());
    let expected =
        [("/opt/gone".to_owned(), Reason::Absent), ("/opt/empty".to_owned(), Reason::NothingInside)];
    assert_eq!(machine.skipped(&search), expected);
}

#[test]
fn wheels_of_both_layouts_are_found_in_a_virtual_environment() {
    let packages = "/venv/lib/python3.12/site-packages/nvidia";
    let machine = Machine::new()
        .file(&format!("{packages}/cuda_cupti/lib/libcupti.so.12"))
        .file(&format!("{packages}/cu13/lib/libcupti.so.13"))
        .file(&format!("{packages}/cudnn/lib/libcudnn.so.9"));
    let environment = machine.environment().with_variable("VIRTUAL_ENV", "/venv");
    let found = search(&environment, &anything());
    let cu12 = format!("{packages}/cuda_cupti/lib/libcupti.so.12");
    let cu13 = format!("{packages}/cu13/lib/libcupti.so.13");
    assert_eq!(machine.paths(&found), [cu13.clone(), cu12.clone()]);

    let found = search(&environment, &up_to(12));
    assert_eq!(machine.paths(&found), [cu12]);
    assert_eq!(machine.skipped(&found), [(cu13, Reason::TooNew { major: 13, max: 12 })]);
}

#[test]
fn wheels_are_found_beside_the_interpreter_in_the_home_and_in_the_system() {
    let wheel = "site-packages/nvidia/cuda_cupti/lib/libcupti.so.12";
    let machine = Machine::new()
        .file(&format!("/opt/py/lib/python3.9/{wheel}"))
        .file(&format!("/opt/py/lib/python3.12/{wheel}"))
        .file(&format!("/home/me/.local/lib/python3.12/{wheel}"))
        .file("/usr/local/lib/python3.12/dist-packages/triton/backends/nvidia/lib/cupti/libcupti.so.12");
    let mut environment = machine.environment().with_variable("HOME", "/home/me");
    environment.program = Some("/opt/py/bin/python3".into());
    let search = search(&environment, &anything());
    assert_eq!(
        machine.paths(&search),
        [
            format!("/opt/py/lib/python3.12/{wheel}"),
            format!("/opt/py/lib/python3.9/{wheel}"),
            format!("/home/me/.local/lib/python3.12/{wheel}"),
            "/usr/local/lib/python3.12/dist-packages/triton/backends/nvidia/lib/cupti/libcupti.so.12"
                .to_owned(),
        ]
    );
}

#[test]
fn the_copy_in_the_process_comes_first_and_is_not_offered_twice() {
    let machine =
        Machine::new().toolkit("/usr/local/cuda", 13, "2025.3.1").file("/app/libcupti-5b17d09c.so.12");
    let environment = machine
        .environment()
        .with_mapped("/usr/local/cuda/extras/CUPTI/lib64/libcupti.so.2025.3.1")
        .with_mapped("/app/libcupti-5b17d09c.so.12")
        .with_mapped("/app/libcupti_helper.so");
    // In the process already: taken although it is newer than the driver.
    let search = search(&environment, &up_to(12));
    assert_eq!(
        machine.paths(&search),
        ["/usr/local/cuda/extras/CUPTI/lib64/libcupti.so.2025.3.1", "/app/libcupti-5b17d09c.so.12"]
    );
    assert!(search.candidates.iter().all(|candidate| candidate.source == Source::Mapped));
}

#[test]
fn the_cupti_of_the_running_runtime_comes_before_all_that_is_installed() {
    let packages = "/app/site-packages/nvidia";
    let machine = Machine::new()
        .toolkit("/usr/local/cuda", 13, "2025.3.1")
        .file(&format!("{packages}/cuda_runtime/lib/libcudart.so.12"))
        .file(&format!("{packages}/cuda_cupti/lib/libcupti.so.12"));
    let environment =
        machine.environment().with_mapped(format!("{packages}/cuda_runtime/lib/libcudart.so.12"));
    let search = search(&environment, &up_to(13));
    let found = &search.candidates[0];
    assert_eq!(found.source, Source::BesideRuntime);
    assert_eq!(
        fs::canonicalize(&found.path).unwrap(),
        fs::canonicalize(machine.at(packages)).unwrap().join("cuda_cupti/lib/libcupti.so.12")
    );
    assert_eq!(search.candidates[1].source, Source::Toolkit);
}

#[test]
fn the_runtime_of_a_toolkit_leads_to_its_extras() {
    for lib in ["lib64", "targets/x86_64-linux/lib"] {
        let machine = Machine::new()
            .toolkit("/opt/nvidia/cuda", 12, "2025.2.1")
            .file(&format!("/opt/nvidia/cuda/{lib}/libcudart.so.12"));
        let environment =
            machine.environment().with_mapped(format!("/opt/nvidia/cuda/{lib}/libcudart.so.12"));
        let search = search(&environment, &anything());
        assert_eq!(search.candidates.len(), 1, "{lib}");
        assert_eq!(search.candidates[0].source, Source::BesideRuntime);
    }
}

#[test]
fn a_runtime_without_cupti_is_reported() {
    let machine = Machine::new().file("/app/lib/libcudart.so.12");
    let search = search(&machine.environment().with_mapped("/app/lib/libcudart.so.12"), &anything());
    assert_eq!(machine.skipped(&search), [("/app/lib".to_owned(), Reason::NothingInside)]);
}

#[test]
fn stubs_are_passed_over_and_reported() {
    let machine = Machine::new().file("/usr/local/cuda/lib64/stubs/libcupti.so").toolkit(
        "/usr/local/cuda",
        12,
        "2025.2.1",
    );
    let search = search(&machine.environment(), &anything());
    assert_eq!(machine.paths(&search), ["/usr/local/cuda/extras/CUPTI/lib64/libcupti.so.12"]);
    assert_eq!(machine.skipped(&search), [("/usr/local/cuda/lib64/stubs".to_owned(), Reason::Stubs)]);
}

#[test]
fn conda_and_the_system_are_looked_at() {
    let machine = Machine::new()
        .file("/conda/lib/libcupti.so.12")
        .file(&format!("/usr/lib/{MULTIARCH}/libcupti.so.12.0.90"))
        .link(&format!("/usr/lib/{MULTIARCH}/libcupti.so.12"), "libcupti.so.12.0.90");
    let search = search(&machine.environment().with_variable("CONDA_PREFIX", "/conda"), &anything());
    let sources: Vec<_> = search.candidates.iter().map(|candidate| candidate.source).collect();
    assert_eq!(sources, [Source::Conda, Source::System]);
}

#[test]
fn the_drivers_own_version_comes_first() {
    let machine = Machine::new()
        .file("/venv/lib/python3.12/site-packages/nvidia/cuda_cupti/lib/libcupti.so.12")
        .toolkit("/usr/local/cuda", 13, "2025.3.1");
    let environment = machine.environment().with_variable("VIRTUAL_ENV", "/venv");
    let majors = |options: &LoadOptions| -> Vec<_> {
        search(&environment, options).candidates.iter().map(|candidate| candidate.major).collect()
    };
    assert_eq!(majors(&anything()), [Some(12), Some(13)]);
    assert_eq!(majors(&up_to(13)), [Some(13), Some(12)]);
    assert_eq!(majors(&up_to(12)), [Some(12)]);
}

#[test]
fn a_library_before_12_is_passed_over() {
    let machine = Machine::new().toolkit("/usr/local/cuda", 11, "2022.3.0");
    let search = search(&machine.environment(), &anything());
    assert!(search.candidates.is_empty());
    let path = "/usr/local/cuda/extras/CUPTI/lib64/libcupti.so.11".to_owned();
    assert_eq!(machine.skipped(&search), [(path, Reason::TooOld { major: 11 })]);
}

#[test]
fn a_named_library_is_the_only_candidate() {
    let machine = Machine::new().toolkit("/usr/local/cuda", 13, "2025.3.1").file("/mine/libcupti.so.12");
    let environment = machine.environment();
    let mine = ["/mine/libcupti.so.12".to_owned()];
    // By the variable: as a file, and as a folder.
    for value in ["/mine/libcupti.so.12", "/mine"] {
        let search = search(&environment.clone().with_variable(PATH_VAR, value), &anything());
        assert_eq!(machine.paths(&search), mine);
        assert_eq!(search.candidates[0].source, Source::Variable);
    }
    // By the caller, who overrules the variable and the driver.
    let options = LoadOptions { path: Some("/usr/local/cuda/extras/CUPTI/lib64".into()), ..up_to(12) };
    let search = search(&environment.with_variable(PATH_VAR, "/mine"), &options);
    assert_eq!(machine.paths(&search), ["/usr/local/cuda/extras/CUPTI/lib64/libcupti.so.13"]);
    assert_eq!(search.candidates[0].source, Source::Option);
}

#[test]
fn a_named_path_that_is_no_library_is_reported_and_nothing_else_is_tried() {
    let machine = Machine::new().toolkit("/usr/local/cuda", 13, "2025.3.1").file("/empty/readme");
    for (value, reason) in [("/gone", Reason::Absent), ("/empty", Reason::NothingInside)] {
        let search = search(&machine.environment().with_variable(PATH_VAR, value), &anything());
        assert!(search.candidates.is_empty());
        assert_eq!(machine.skipped(&search), [(value.to_owned(), reason)]);
    }
}

#[test]
fn an_empty_variable_counts_as_unset() {
    let machine = Machine::new().toolkit("/usr/local/cuda", 13, "2025.3.1");
    let search = search(&machine.environment().with_variable(PATH_VAR, ""), &anything());
    assert_eq!(search.candidates.len(), 1);
}

#[test]
fn the_linker_is_asked_last_and_only_of_this_machine() {
    let machine = Machine::new().file("/usr/lib/libcupti.so.12");
    let mut environment = machine.environment();
    environment.linker = true;
    let found = search(&environment, &anything());
    let names: Vec<_> =
        found.candidates[1..].iter().map(|candidate| candidate.path.to_str().unwrap()).collect();
    assert_eq!(names, ["libcupti.so.13", "libcupti.so.12", "libcupti.so"]);

    let found = search(&environment, &up_to(12));
    assert!(found.skipped.iter().any(|attempt| attempt.path == Path::new("libcupti.so.13")));
}

#[test]
fn the_names_in_a_folder_are_ordered_and_tell_the_version() {
    let machine = Machine::new()
        .file("/lib/libcupti.so.2025.3.1")
        .link("/lib/libcupti.so.13", "libcupti.so.2025.3.1")
        .file("/lib/libcupti.so.12")
        .link("/lib/libcupti.so", "libcupti.so.12")
        .file("/lib/libcupti.so.2023.1.0")
        .link("/lib/libcupti.so.14", "gone")
        .file("/lib/libcupti_static.a");
    let libraries: Vec<_> = libraries_in(&machine.at("/lib"))
        .into_iter()
        .map(|library| (machine.inside(&library.path), library.major))
        .collect();
    let expected = [
        ("/lib/libcupti.so.13", Some(13)),
        ("/lib/libcupti.so.12", Some(12)),
        ("/lib/libcupti.so.2023.1.0", None),
    ];
    assert_eq!(libraries, expected.map(|(path, major)| (path.to_owned(), major)));
}

#[test]
fn versions_are_read_from_names() {
    assert_eq!(soname_major("libcupti.so.12"), Some(12));
    assert_eq!(soname_major("libcupti.so.11.8"), Some(11));
    assert_eq!(soname_major("libcupti.so"), None);
    assert_eq!(soname_major("libcupti.so.2025.3.1"), None);
    assert_eq!(soname_major("libcupti-5b17d09c.so.12"), Some(12));
}

#[test]
fn whatever_is_looked_at_is_told_before() {
    use std::sync::Mutex;
    static TOLD: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
    let machine = Machine::new().toolkit("/usr/local/cuda", 13, "2025.3.1").file("/opt/lib/libcudart.so.13");
    let environment = machine.environment().with_mapped("/opt/lib/libcudart.so.13");
    let environment = environment.with_variable("CUDA_HOME", "/mnt/cuda").with_variable("HOME", "/mnt/home");
    let environment = environment.watched(|path| TOLD.lock().unwrap().push(path.to_owned()));
    search(&environment, &anything());
    let told = std::mem::take(&mut *TOLD.lock().unwrap());
    for path in [
        "/opt/lib",
        "/mnt/home/.local/lib",
        "/mnt/cuda/extras/CUPTI/lib64",
        "/usr/local/cuda/extras/CUPTI/lib64",
        "/usr/lib64",
    ] {
        assert!(told.contains(&machine.at(path)), "{path} is not among {told:#?}");
    }
    search(&environment, &LoadOptions { path: Some("/mnt/named.so".into()), ..anything() });
    assert_eq!(*TOLD.lock().unwrap(), [machine.at("/mnt/named.so")]);
}
