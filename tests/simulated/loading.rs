//! Drivers and CUPTI libraries that are absent, wrong, too old, or newer than anything known.

use std::fs;
use std::os::unix::fs::symlink;

use cuprof::{Dataset, Error, ErrorKind, Profiler, Table};

use crate::Outcome;
use crate::library::{Simulated, Work};
use crate::process::{Process, libraries, skip};
use crate::session::Ends;

/// The error with which a session cannot be started.
fn refused() -> Result<Error, Box<dyn std::error::Error>> {
    match Profiler::builder().start() {
        Ok(_) => Err("a session was started".into()),
        Err(error) => Ok(error),
    }
}

fn assert_says(error: &Error, words: &[&str]) {
    let text = error.to_string();
    for word in words {
        assert!(text.contains(word), "{word:?} is not in:\n{text}");
    }
}

#[test]
fn b08_without_a_driver_the_error_names_the_library_and_the_remedy() -> Outcome {
    let empty = crate::process::folder()?;
    let process = Process::of(b08_without_a_driver_the_error_names_the_library_and_the_remedy);
    process.with("LD_LIBRARY_PATH", empty.path()).run(|| match Profiler::builder().start() {
        Err(error) if error.kind == ErrorKind::NoDriver => {
            assert_says(&error, &["no CUDA driver", "libcuda.so.1", "install the NVIDIA driver", "replay"]);
            Ok(())
        }
        _ => skip("this machine has a driver"),
    })
}

#[test]
fn a_driver_that_is_no_library_is_no_driver() -> Outcome {
    let folder = crate::process::folder()?;
    fs::write(folder.path().join("libcuda.so.1"), "text")?;
    let process = Process::of(a_driver_that_is_no_library_is_no_driver);
    process.with("LD_LIBRARY_PATH", folder.path()).run(|| {
        let error = refused()?;
        assert_eq!(error.kind, ErrorKind::NoDriver);
        assert_says(&error, &["libcuda.so.1", "file too short", "install the NVIDIA driver"]);
        Ok(())
    })
}

#[test]
fn b02_the_toolkits_stub_of_the_driver_is_recognised() -> Outcome {
    let process = Process::of(b02_the_toolkits_stub_of_the_driver_is_recognised);
    process.with("SIM_CUDA_FAIL", "cuDriverGetVersion:34").run(|| {
        let error = refused()?;
        assert_eq!((error.kind, error.code), (ErrorKind::NoDriver, Some(34)));
        assert_says(&error, &["cuDriverGetVersion", "34", "stub", "LD_LIBRARY_PATH"]);
        Ok(())
    })
}

#[test]
fn b01_without_cupti_the_error_lists_every_path_that_was_tried() -> Outcome {
    let folder = crate::process::folder()?;
    symlink(libraries().join("libcuda.so.1"), folder.path().join("libcuda.so.1"))?;
    Process::of(b01_without_cupti_the_error_lists_every_path_that_was_tried)
        .with("LD_LIBRARY_PATH", folder.path())
        .with("CUPROF_CUPTI_PATH", "")
        .with("CUDA_HOME", "/nowhere/cuda")
        .with("CONDA_PREFIX", "/nowhere/conda")
        .with("VIRTUAL_ENV", "/nowhere/venv")
        .run(|| match Profiler::builder().start() {
            Err(error) if error.kind == ErrorKind::CuptiNotFound => {
                let places = ["/nowhere/cuda", "libcupti.so.13", "libcupti.so.12", "libcupti.so"];
                assert_says(&error, &places);
                assert_says(&error, &["CUPTI not found", "install", "CUPROF_CUPTI_PATH"]);
                let text = error.to_string();
                assert_eq!(text.matches("CUPROF_CUPTI_PATH").count(), 1, "the remedy is told once:\n{text}");
                Ok(())
            }
            _ => skip("this machine has CUPTI, or something named like it"),
        })
}

#[test]
fn cupti_is_found_through_the_library_path() -> Outcome {
    let process = Process::of(cupti_is_found_through_the_library_path).with("CUPROF_CUPTI_PATH", "");
    process.run(|| {
        let folder = crate::process::folder()?;
        let dataset = folder.path().join("run.cuprof");
        Profiler::builder().output(&dataset).start()?.whole()?;
        let path = Dataset::open(&dataset)?.env()?.remove("cupti.path").unwrap_or_default();
        if path.starts_with(libraries().to_str().unwrap()) {
            Ok(())
        } else {
            skip(format!("{path} comes first on this machine"))
        }
    })
}

#[test]
fn a_foreign_library_named_libcupti_is_refused_by_name() -> Outcome {
    let folder = crate::process::folder()?;
    let foreign = folder.path().join("libcupti.so.13");
    fs::copy(libraries().join("libcuda.so.1"), &foreign)?;
    let process = Process::of(a_foreign_library_named_libcupti_is_refused_by_name);
    process.with("CUPROF_CUPTI_PATH", &foreign).run(|| {
        let error = refused()?;
        assert_eq!(error.kind, ErrorKind::CuptiNotFound);
        assert_says(&error, &["libcupti.so.13", "lacks cuptiGetVersion", "let CUPROF_CUPTI_PATH name"]);
        Ok(())
    })?;
    Ok(())
}

#[test]
fn a_cupti_that_is_too_old_is_named_with_its_version() -> Outcome {
    let process = Process::of(a_cupti_that_is_too_old_is_named_with_its_version);
    process.with("SIM_API", "17").run(|| {
        let error = refused()?;
        assert_eq!(error.kind, ErrorKind::CuptiTooOld);
        assert_says(&error, &["libcupti.so.13", "API 17", "install CUPTI 12.0 or newer"]);
        Ok(())
    })
}

#[test]
fn a_cupti_that_cannot_tell_its_version_is_an_error_with_its_code() -> Outcome {
    let process = Process::of(a_cupti_that_cannot_tell_its_version_is_an_error_with_its_code);
    process.failing("cuptiGetVersion:*:999").run(|| {
        let error = refused()?;
        assert_eq!(
            (error.kind, error.call, error.code),
            (ErrorKind::Call, Some("cuptiGetVersion"), Some(999))
        );
        assert_says(&error, &["CUPTI_ERROR_UNKNOWN"]);
        Ok(())
    })
}

#[test]
fn a_cupti_newer_than_everything_known_is_read_by_the_known_part_of_its_records() -> Outcome {
    let process = Process::of(a_cupti_newer_than_everything_known_is_read_by_the_known_part_of_its_records);
    process.version("13.99").run(|| {
        let folder = crate::process::folder()?;
        let profiler = Profiler::builder().output(folder.path().join("run.cuprof")).start()?;
        let cupti = Simulated::get();
        cupti.launch(10);
        cupti.work(Work { calls: 5, ..Work::COPY });
        cupti.work(Work { calls: 3, ..Work::FILL });
        let profile = profiler.whole()?;
        assert_eq!((profile.launches(), profile.transfers()), (10, 8));
        let dataset = Dataset::open(folder.path().join("run.cuprof"))?;
        assert_eq!(
            dataset.env()?.get("cupti.version").map(String::as_str),
            Some("CUPTI 13.99.99 (API 139999)")
        );
        assert_eq!(dataset.rows(Table::Launches), 10);
        Ok(())
    })
}

#[test]
fn records_that_are_shorter_than_their_librarys_version_says_do_not_harm() -> Outcome {
    let process = Process::of(records_that_are_shorter_than_their_librarys_version_says_do_not_harm);
    process.version("13.0").with("SIM_API", "130500").run(|| {
        let profiler = Profiler::builder().start()?;
        Simulated::get().launch(10);
        // The last one ends with its buffer.
        let profile = profiler.losing(&[("records_truncated", 1)])?;
        assert_eq!(profile.launches(), 9);
        Ok(())
    })
}

#[test]
fn a_pipe_that_is_named_as_a_library_is_refused_unopened() -> Outcome {
    let folder = crate::process::folder()?;
    let pipe = folder.path().join("libcupti.so.13");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status()?.success());
    let process = Process::of(a_pipe_that_is_named_as_a_library_is_refused_unopened);
    process.with("CUPROF_CUPTI_PATH", &pipe).with("CUPROF_NVML_PATH", &pipe).run(|| {
        let Err(error) = Profiler::builder().start() else { return Err("a session was started".into()) };
        assert!(
            error.to_string().contains("libcupti.so.13 (named by CUPROF_CUPTI_PATH): is not a file"),
            "{error}"
        );
        let told = cuprof::doctor().render(1000);
        assert_eq!(told.matches("is not a file").count(), 2, "{told}");
        Ok(())
    })
}
