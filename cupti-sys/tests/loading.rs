//! Loading itself: libraries that are none, one that is, and the two that counters need.
//!
//! The library stands in for libcupti; it is built here with rustc and answers nothing but its version. Environments are
//! described, so that no variable of the process is touched.

use std::error::Error;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use cupti_sys::loader::{Environment, Reason, Source};
use cupti_sys::symbols::REQUIRED;
use cupti_sys::{Cupti, LibraryVersion, LoadOptions};
use tempfile::TempDir;

type Outcome = Result<(), Box<dyn Error>>;

/// Builds a shared library that exports these functions; `cuptiGetVersion` reports 130401, the others 999.
fn build(path: &Path, functions: &[&str]) -> Outcome {
    let mut source = String::new();
    for name in functions {
        source += &match *name {
            "cuptiGetVersion" => {
                "#[unsafe(no_mangle)] pub extern \"C\" fn cuptiGetVersion(version: &mut u32) -> u32 \
                 { *version = 130_401; 0 }\n"
                    .to_owned()
            }
            name => format!("#[unsafe(no_mangle)] pub extern \"C\" fn {name}() -> u32 {{ 999 }}\n"),
        };
    }
    let file = path.with_extension("rs");
    fs::write(&file, source)?;
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let status = Command::new(rustc)
        .args(["--edition=2024", "--crate-type=cdylib", "--crate-name=stand_in", "-Anonstandard-style", "-o"])
        .args([path, &file])
        .status()?;
    if status.success() { Ok(()) } else { Err("rustc could not build the stand-in".into()) }
}

/// Any library of this process that is not CUPTI.
fn foreign_library() -> Result<std::path::PathBuf, Box<dyn Error>> {
    let mapped = Environment::from_process().mapped;
    let is_libc = |file: &&std::path::PathBuf| file.file_name().is_some_and(|name| name == "libc.so.6");
    Ok(mapped.iter().find(is_libc).ok_or("libc is not mapped")?.clone())
}

#[test]
fn the_first_usable_library_is_taken_and_the_others_are_remembered() -> Outcome {
    let root = TempDir::new()?;
    let at = |path: &str| root.path().join(path);
    for folder in ["usr/local/cuda/extras/CUPTI/lib64", "conda/lib", "usr/lib"] {
        fs::create_dir_all(at(folder))?;
    }
    // Not even a library; a foreign one; the stand-in, with one of its two companions.
    fs::write(at("usr/local/cuda/extras/CUPTI/lib64/libcupti.so.13"), "text")?;
    symlink(foreign_library()?, at("conda/lib/libcupti.so.12"))?;
    let library = at("usr/lib/libcupti.so.12");
    build(&library, &REQUIRED)?;
    fs::copy(&library, at("usr/lib/libnvperf_host.so"))?;

    let environment = Environment::below(root.path()).with_variable("CONDA_PREFIX", "/conda");
    let cupti = Cupti::load_in(&environment, &LoadOptions::default())?;
    assert_eq!(cupti.path(), library);
    assert_eq!(cupti.source(), Source::System);
    assert_eq!(cupti.soname_major(), Some(12));
    assert_eq!(cupti.version(), Ok(LibraryVersion::from_api(130_401)));

    let tried: Vec<_> = cupti.tried().iter().map(|attempt| (attempt.source, &attempt.reason)).collect();
    assert!(
        matches!(tried[0], (Source::Toolkit, Reason::NotOpened(words)) if words.contains("libcupti.so.13"))
    );
    assert_eq!(tried[1], (Source::Conda, &Reason::Lacks("cuptiGetVersion")));
    assert_eq!(tried.len(), 2);

    let companions: Vec<_> = cupti.companions().iter().map(|one| (one.name, one.failure.clone())).collect();
    assert_eq!(companions, [("libnvperf_host.so", None), ("libnvperf_target.so", Some(Reason::Absent))]);

    // The functions it lacks are absent, not an error.
    assert!(cupti.symbols().cuptiSubscribe.is_some());
    assert!(cupti.symbols().cuptiSubscribe_v2.is_none());

    // Dropped, and still there: the process has it now, and a search would begin with it.
    let version = cupti.symbols().cuptiGetVersion;
    drop(cupti);
    assert!(version.is_some());
    assert!(Environment::from_process().mapped.contains(&fs::canonicalize(&library)?));
    Ok(())
}

#[test]
fn a_library_that_lacks_one_required_function_is_refused() -> Outcome {
    let root = TempDir::new()?;
    let path = root.path().join("libcupti.so.12");
    build(&path, &REQUIRED[..REQUIRED.len() - 1])?;
    let options = LoadOptions { path: Some(path), ..LoadOptions::default() };
    let error = Cupti::load(&options).err().ok_or("it was taken")?;
    assert_eq!(error.tried()[0].reason, Reason::Lacks(REQUIRED[REQUIRED.len() - 1]));
    assert_eq!(error.tried()[0].source, Source::Option);
    Ok(())
}

#[test]
fn without_a_library_the_error_names_every_place_and_the_remedy() -> Outcome {
    let root = TempDir::new()?;
    fs::create_dir_all(root.path().join("usr/local/cuda/lib64/stubs"))?;
    fs::write(root.path().join("usr/local/cuda/lib64/stubs/libcupti.so"), [])?;
    let environment = Environment::below(root.path()).with_variable("CUDA_HOME", "/opt/gone");
    let error = Cupti::load_in(&environment, &LoadOptions::default()).err().ok_or("something was taken")?;
    let text = error.to_string();
    for expected in
        ["/opt/gone", "does not exist", "lib64/stubs", "stubs cannot be used", "CUPROF_CUPTI_PATH"]
    {
        assert!(text.contains(expected), "{expected:?} is not in:\n{text}");
    }
    Ok(())
}

#[test]
fn companions_are_not_loaded_unless_asked_for() -> Outcome {
    let root = TempDir::new()?;
    let path = root.path().join("libcupti.so.12");
    build(&path, &REQUIRED)?;
    let cupti = Cupti::load(&LoadOptions { path: Some(path), companions: false, ..LoadOptions::default() })?;
    assert!(cupti.companions().is_empty());
    Ok(())
}
