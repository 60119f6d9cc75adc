//! Finding libraries, and telling their versions.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use cuprof::{Dataset, ErrorKind, Profiler, Table};
use cupti_sys::loader::{Environment, LoadOptions};

use crate::Outcome;
use crate::library::{Work, kind};
use crate::process::{End, Process, VERSIONS, cupti_has, given, is_inside, libraries};
use crate::session::{Ends, traced, traced_as, unwrapped};

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
        let printed = unwrapped(run.profile.summary());
        assert!(printed.contains("older than the driver"), "it is printed: {printed}");
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
        // Where there is no other, it is not taken either.
        let root = crate::process::folder()?;
        place(root.path(), "usr/lib/x86_64-linux-gnu/libcupti.so.13")?;
        let environment = Environment::below(root.path());
        for (driver, is_taken) in [(12, false), (13, true)] {
            let options = LoadOptions { max_major: Some(driver), ..LoadOptions::default() };
            let loaded = cupti_sys::Cupti::load_in(&environment, &options);
            assert_eq!(loaded.is_ok(), is_taken, "CUDA {driver}");
            let told = loaded.err().map(|error| error.to_string()).unwrap_or_default();
            assert_eq!(told.contains("skipped, since CUPTI 13 is newer"), !is_taken, "{told}");
        }
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
    // CUPTI 13.5 is the first whose records of memory are read here.
    let process = Process::of(b10_numbers_that_no_header_knows_are_rows_with_their_numbers).version("13.5");
    process.run(|| {
        // The largest number, in as many bits as each field has.
        let unknown = Work { enums: u32::MAX, cbid: 0, ..Work::KERNEL };
        let builder = Profiler::builder().synchronizations().memory_operations();
        let run = traced_as(builder, &[], |cupti| {
            for kind in [kind::MEMCPY, kind::MEMCPY2, kind::MEMSET] {
                cupti.work(Work { kind, cbid: Work::COPY.cbid, ..unknown });
            }
            cupti.work(Work::COPY);
            cupti.work(Work { kind: kind::OVERHEAD, ..unknown });
            cupti.work(Work { kind: kind::SYNCHRONIZATION, ..unknown });
            cupti.work(Work { kind: kind::MEMORY2, ..unknown });
        })?;
        let (byte, half, word) = ("kind_255", "kind_65535", "kind_4294967295");
        let expected: [(_, _, &[&str]); 7] = [
            (Table::Transfers, "copy_kind", &[byte, byte, "", "host_to_device"]),
            (Table::Transfers, "src_kind", &[byte, byte, "", "pageable"]),
            (Table::Transfers, "dst_kind", &[byte, byte, half, "device"]),
            (Table::Overheads, "kind", &[word]),
            (Table::Synchronizations, "kind", &[word]),
            (Table::MemoryOperations, "operation", &[word]),
            (Table::MemoryOperations, "memory_kind", &[word]),
        ];
        for (table, column, expected) in expected {
            let told = run.texts(table, column)?.into_iter().map(Option::unwrap_or_default);
            assert_eq!(told.collect::<Vec<_>>(), expected, "{table} {column}");
        }
        let copies: BTreeSet<_> =
            run.profile.summary().transfers.iter().map(|transfer| &*transfer.kind).collect();
        assert_eq!(copies, BTreeSet::from(["host_to_device", byte, "memset", "peer"]));
        Ok(())
    })
}

#[test]
fn b10_a_library_that_lacks_any_one_optional_function_works_without_it() -> Outcome {
    // What the simulation does not have is missing in every test. The process of a test knows which one it lacks.
    let lacking = std::env::var("LACKING").ok();
    let is_optional = |name: &&str| match &lacking {
        Some(lacking) => lacking == name,
        None => !cupti_sys::symbols::REQUIRED.contains(name) && cupti_has(name),
    };
    let optional: Vec<_> =
        cupti_sys::Symbols::ALL.iter().map(|symbol| symbol.name).filter(is_optional).collect();
    assert!(is_inside() || optional.len() > 30, "{optional:?}");
    for name in optional {
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
