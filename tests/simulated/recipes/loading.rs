//! Finding libraries, and telling their versions.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use cuprof::{Dataset, ErrorKind, Profiler, Table};
use cupti_sys::loader::{Environment, LoadOptions};

use crate::Outcome;
use crate::library::Work;
use crate::process::{End, Process, VERSIONS, given, is_inside, libraries};
use crate::session::{Ends, traced};

/// Puts the simulated CUPTI at a path below a root.
fn place(root: &Path, path: &str) -> Outcome {
    let path = root.join(path);
    fs::create_dir_all(path.parent().ok_or("a file in a folder")?)?;
    symlink(libraries().join("libcupti.so.13"), path)?;
    Ok(())
}

#[test]
fn b01_cupti_is_found_in_every_layout_that_it_is_installed_in() -> Outcome {
    Process::of(b01_cupti_is_found_in_every_layout_that_it_is_installed_in).run(|| {
        let layouts = [
            (
                "venv/lib/python3.12/site-packages/nvidia/cuda_cupti/lib/libcupti.so.12",
                Some("VIRTUAL_ENV"),
                "/venv",
            ),
            (
                "venv/lib/python3.12/site-packages/nvidia/cu13/lib/libcupti.so.13",
                Some("VIRTUAL_ENV"),
                "/venv",
            ),
            (
                "home/.local/lib/python3.10/site-packages/nvidia/cu13/lib/libcupti.so.13",
                Some("HOME"),
                "/home",
            ),
            ("opt/toolkit/extras/CUPTI/lib64/libcupti.so.13", Some("CUDA_HOME"), "/opt/toolkit"),
            ("opt/toolkit/targets/x86_64-linux/lib/libcupti.so.13", Some("CUDA_PATH"), "/opt/toolkit"),
            ("usr/local/cuda-13.0/extras/CUPTI/lib64/libcupti.so.13", None, ""),
            ("conda/lib/libcupti.so.13", Some("CONDA_PREFIX"), "/conda"),
            ("usr/lib/x86_64-linux-gnu/libcupti.so.13", None, ""),
        ];
        for (path, variable, value) in layouts {
            let root = crate::process::folder()?;
            place(root.path(), path)?;
            // A folder that must never be looked into.
            place(root.path(), "opt/toolkit/lib64/stubs/libcupti.so.13")?;
            let mut environment = Environment::below(root.path());
            if let Some(variable) = variable {
                environment = environment.with_variable(variable, value);
            }
            let cupti = cupti_sys::Cupti::load_in(&environment, &LoadOptions::default())?;
            assert_eq!(cupti.path(), root.path().join(path));
        }
        Ok(())
    })
}

#[test]
fn b02_a_stub_on_the_library_path_is_named_by_its_file() -> Outcome {
    let folder = crate::process::folder()?;
    let stubs = folder.path().join("lib64/stubs");
    fs::create_dir_all(&stubs)?;
    fs::copy(libraries().join("libcuda.so.1"), stubs.join("libcuda.so.1"))?;
    let process = Process::of(b02_a_stub_on_the_library_path_is_named_by_its_file);
    process.with("LD_LIBRARY_PATH", &stubs).with("SIM_CUDA_FAIL", "cuDriverGetVersion:34").run(|| {
        let Err(error) = Profiler::builder().start() else { return Err("a session was started".into()) };
        assert_eq!(error.kind, ErrorKind::NoDriver);
        assert!(error.to_string().contains("lib64/stubs/libcuda.so.1"), "{error}");
        Ok(())
    })
}

#[test]
fn b03_a_library_older_than_the_driver_is_warned_of_by_its_path() -> Outcome {
    let process = Process::of(b03_a_library_older_than_the_driver_is_warned_of_by_its_path).version("12.4");
    process.with("SIM_CUDA_VERSION", "13000").run(|| {
        let run = traced(&[], |cupti| cupti.launch(3))?;
        let [warning] = &run.profile.summary().warnings[..] else { panic!("one warning") };
        for words in ["12.4/libcupti.so.12", "CUPTI 12.4", "CUDA 13.0", "install CUPTI 13.0"] {
            assert!(warning.contains(words), "{words:?} is not in {warning}");
        }
        // Where its lines break depends on the path.
        let printed = run.profile.summary().to_string();
        let words: Vec<_> = printed.split_whitespace().collect();
        assert!(words.join(" ").contains("older than the driver"), "it is printed: {printed}");
        assert_eq!(run.fact("warning.old_cupti")?.as_ref(), Some(warning));
        Ok(())
    })
}

#[test]
fn b03_a_cupti_that_gives_no_records_is_warned_of() -> Outcome {
    Process::of(b03_a_cupti_that_gives_no_records_is_warned_of).run(|| {
        let run = traced(&[("launches_without_record", 12)], |cupti| {
            cupti.work(Work { calls: 12, records: 0, ..Work::KERNEL });
        })?;
        let warnings = &run.profile.summary().warnings;
        assert!(warnings[0].starts_with("12 calls that launch GPU work were seen, and CUPTI gave no record"));
        Ok(())
    })
}

#[test]
fn b04_a_library_newer_than_the_driver_is_passed_over() -> Outcome {
    let toolkit = crate::process::folder()?;
    let folder = toolkit.path().join("extras/CUPTI/lib64");
    fs::create_dir_all(&folder)?;
    for name in ["libcupti.so.12", "libcupti.so.13"] {
        fs::copy(libraries().join("12.4").join(name), folder.join(name))?;
    }
    let process = Process::of(b04_a_library_newer_than_the_driver_is_passed_over);
    let process = process.version("12.4").with("CUPROF_CUPTI_PATH", "").with("CUDA_HOME", toolkit.path());
    process.with("SIM_CUDA_VERSION", "12020").run(|| {
        let output = crate::process::folder()?;
        let dataset = output.path().join("run.cuprof");
        Profiler::builder().output(&dataset).start()?.whole()?;
        let path = Dataset::open(&dataset)?.env()?.remove("cupti.path").unwrap_or_default();
        assert!(path.ends_with("libcupti.so.12"), "{path}");
        Ok(())
    })
}

#[test]
fn b07_the_library_stays_loaded_when_everything_is_dropped() -> Outcome {
    Process::of(b07_the_library_stays_loaded_when_everything_is_dropped).run(|| {
        let options = LoadOptions { path: Some(given("CUPROF_CUPTI_PATH")), ..LoadOptions::default() };
        drop(cupti_sys::Cupti::load(&options)?);
        traced(&[], |cupti| cupti.launch(1))?;
        let maps = fs::read_to_string("/proc/self/maps")?;
        assert!(maps.contains("libcupti.so.13"));
        Ok(())
    })
}

#[test]
fn b08_where_nothing_is_installed_the_program_ends_as_without_a_profiler() -> Outcome {
    let empty = crate::process::folder()?;
    let process = Process::of(b08_where_nothing_is_installed_the_program_ends_as_without_a_profiler);
    process
        .with("LD_LIBRARY_PATH", empty.path())
        .with("CUPROF_CUPTI_PATH", "/nowhere")
        .ending(End::Code(7))
        .run(|| {
            let profiler = Profiler::builder().start().unwrap_or_else(|_| Profiler::disabled());
            let _range = cuprof::range!("nobody listens");
            profiler.whole()?;
            std::process::exit(7)
        })
}

#[test]
fn b09_no_attribute_is_needed() -> Outcome {
    let process = Process::of(b09_no_attribute_is_needed);
    process.failing("cuptiActivitySetAttribute:*:27,cuptiSetThreadIdType:*:27").run(|| {
        let run = traced(&[], |cupti| cupti.launch(20))?;
        assert_eq!(run.profile.launches(), 20);
        let refused = run.dataset.env()?.keys().filter(|key| key.starts_with("refused.")).count();
        assert_eq!(refused, 3, "each is told");
        Ok(())
    })
}

#[test]
fn b09_each_attribute_is_optional_by_itself() -> Outcome {
    // Cleared buffers, buffers of the device, and how threads are numbered.
    for script in
        ["cuptiActivitySetAttribute:5:27", "cuptiActivitySetAttribute:6:27", "cuptiSetThreadIdType:*:27"]
    {
        let process = Process::of(b09_each_attribute_is_optional_by_itself).failing(script);
        process.with("REFUSED", script).run(|| {
            if given("REFUSED").to_str() != Some(script) {
                return Ok(());
            }
            let run = traced(&[], |cupti| cupti.launch(20))?;
            assert_eq!(run.profile.launches(), 20);
            let refused = run.dataset.env()?.keys().filter(|key| key.starts_with("refused.")).count();
            assert_eq!(refused, 1, "{script}");
            Ok(())
        })?;
    }
    Ok(())
}

#[test]
fn b10_numbers_that_no_header_knows_are_rows_with_their_numbers() -> Outcome {
    Process::of(b10_numbers_that_no_header_knows_are_rows_with_their_numbers).run(|| {
        let run = traced(&[], |cupti| {
            cupti.work(Work { copy_kind: 200, ..Work::COPY });
            cupti.work(Work::COPY);
        })?;
        let kinds = run.texts(Table::Transfers, "copy_kind")?;
        assert_eq!(kinds.len(), 2);
        assert_ne!(kinds[0], kinds[1], "an unknown direction is not taken for a known one");
        assert_eq!(kinds[1].as_deref(), Some("host_to_device"));
        Ok(())
    })
}

#[test]
fn b10_a_library_that_lacks_any_one_optional_function_works_without_it() -> Outcome {
    const OPTIONAL: [&str; 6] = [
        "cuptiActivitySetAttribute",
        "cuptiSetThreadIdType",
        "cuptiActivityGetNumDroppedRecords",
        "cuptiGetCallbackName",
        "cuptiEnableDomain",
        "cuptiActivityGetEnabledKinds",
    ];
    for name in OPTIONAL {
        let process = Process::of(b10_a_library_that_lacks_any_one_optional_function_works_without_it);
        process.without(&[name]).with("LACKING", name).run(|| {
            let lacking = given("LACKING");
            // What it cannot count at the end is told as a call that failed.
            let dropped = lacking.to_str() == Some("cuptiActivityGetNumDroppedRecords");
            let losses: &[_] = if dropped { &[("cupti_calls_failed", 1)] } else { &[] };
            let run = traced(losses, |cupti| cupti.launch(20))?;
            assert_eq!(run.profile.launches(), 20);
            Ok(())
        })?;
        if is_inside() {
            return Ok(());
        }
    }
    Ok(())
}

#[test]
fn b10_a_library_that_lacks_a_needed_function_is_refused_by_its_name() -> Outcome {
    for name in cupti_sys::symbols::REQUIRED {
        let process = Process::of(b10_a_library_that_lacks_a_needed_function_is_refused_by_its_name);
        process.without(&[name]).with("LACKING", name).run(|| {
            let Err(error) = Profiler::builder().start() else { return Err("a session was started".into()) };
            assert_eq!(error.kind, ErrorKind::CuptiNotFound);
            let lacking = given("LACKING");
            assert!(error.to_string().contains(lacking.to_str().unwrap_or_default()), "{error}");
            Ok(())
        })?;
        if is_inside() {
            return Ok(());
        }
    }
    Ok(())
}

#[test]
fn b27_b47_what_is_known_of_a_version_is_told_with_its_sessions() -> Outcome {
    let names = [
        "issue.kernels_untraced_at_first",
        "issue.graph_captured_before",
        "issue.graph_correlation",
        "issue.stale_kernel_names",
    ];
    let told = [
        ("12.0", "0111"),
        ("12.4", "1111"),
        ("12.6", "0011"),
        ("12.9", "0011"),
        ("13.0.0", "0011"),
        ("13.0", "0011"),
        ("13.5", "0000"),
        ("13.99", "0000"),
    ];
    assert_eq!(told.map(|(version, _)| version), VERSIONS);
    for (version, expected) in told {
        let process = Process::of(b27_b47_what_is_known_of_a_version_is_told_with_its_sessions);
        process.version(version).with("EXPECTED", expected).run(|| {
            let run = traced(&[], |cupti| cupti.launch(1))?;
            let facts = run.dataset.env()?;
            let told = names.map(|name| if facts.contains_key(name) { "1" } else { "0" });
            assert_eq!(Some(told.concat().as_str()), given("EXPECTED").to_str(), "{facts:#?}");
            Ok(())
        })?;
        if is_inside() {
            return Ok(());
        }
    }
    Ok(())
}

#[test]
fn b80_devices_are_told_by_their_uuid() -> Outcome {
    Process::of(b80_devices_are_told_by_their_uuid).with("SIM_CUDA_DEVICES", "3,1").run(|| {
        let run = traced(&[], |cupti| {
            cupti.work(Work { device: 1, ..Work::KERNEL });
        })?;
        let uuid = |ordinal: u32| run.fact(&format!("gpu.{ordinal}.uuid"));
        assert_eq!(run.numbers(Table::Launches, "device")?, [Some(1)]);
        assert_eq!(uuid(0)?.as_deref(), Some("GPU-03030303-0303-0303-0303-030303030303"));
        assert_eq!(uuid(1)?.as_deref(), Some("GPU-01010101-0101-0101-0101-010101010101"));
        Ok(())
    })
}
