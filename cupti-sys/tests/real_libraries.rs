//! The function table against real libraries, each loaded in a process of its own. Needs no GPU and no driver.
//!
//! `CUPROF_TEST_CUPTI_DIRS` names their folders, separated by ':', for example those of unpacked wheels.
#![expect(unsafe_code, reason = "calls a function of the table")]

use std::env;
use std::error::Error;
use std::mem::MaybeUninit;
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use cupti_sys::bindings::{
    CUpti_ActivityKind, CUpti_Profiler_Host_GetSupportedChips_Params,
    CUpti_Profiler_Host_GetSupportedChips_Params_STRUCT_SIZE, CUptiResult,
};
use cupti_sys::{Cupti, LibraryVersion, LoadOptions, Release, Symbols, layout};

const DIRS: &str = "CUPROF_TEST_CUPTI_DIRS";
const CHILD: &str = "CUPROF_TEST_CUPTI_CHILD";

#[test]
#[ignore = "needs CUPROF_TEST_CUPTI_DIRS"]
fn real_libraries_have_the_functions_of_their_release() -> Result<(), Box<dyn Error>> {
    if let Some(folder) = env::var_os(CHILD) {
        println!("{}", check(folder.into())?);
        return Ok(());
    }
    let dirs = env::var_os(DIRS).ok_or_else(|| format!("{DIRS} names no folder with a libcupti"))?;
    for folder in env::split_paths(&dirs) {
        let output = Command::new(env::current_exe()?)
            .args(["--exact", "real_libraries_have_the_functions_of_their_release"])
            .args(["--include-ignored", "--nocapture"])
            .env(CHILD, &folder)
            .output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        // Also catches a library that crashes the process when it ends.
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {}\n{text}{errors}", folder.display(), output.status);
        text.lines().filter(|line| line.starts_with("loaded")).for_each(|line| println!("{line}"));
    }
    Ok(())
}

/// One line about the library in this folder.
fn check(folder: PathBuf) -> Result<String, Box<dyn Error>> {
    let start = Instant::now();
    let cupti = Cupti::load(&LoadOptions { path: Some(folder), ..LoadOptions::default() })?;
    let elapsed = start.elapsed();
    for companion in cupti.companions() {
        assert!(companion.is_loaded(), "{companion:?}");
    }

    let version = cupti.version();
    let missing: Vec<_> = cupti.symbols().missing().collect();
    let line = format!(
        "loaded {} in {} ms: {}, {} of {} functions, companions loaded",
        cupti.path().display(),
        elapsed.as_millis(),
        version.map_or_else(|code| format!("version unknown ({})", code.0), |version| version.to_string()),
        Symbols::ALL.len() - missing.len(),
        Symbols::ALL.len(),
    );

    // Without a driver the older libraries answer this much: the sizes, the table and the companions work together.
    if version.is_ok()
        && let Some(chips) = supported_chips(&cupti)
    {
        assert!(chips.as_ref().is_ok_and(|chips| *chips > 10), "{chips:?}");
    }

    for kind in 0..100 {
        let (Ok(version), Some(told)) = (version, told_size(&cupti, kind)) else { continue };
        if let Some(size) = layout::record_size(kind, version) {
            assert_eq!(size as usize, told, "kind {kind} of {version}");
        }
    }

    // A library that does not tell its version (13.4 and newer without a driver) has everything, or is newer still.
    let version = version.unwrap_or(LibraryVersion::HEADERS);
    let (_, release) = version.releases().ok_or("a number that no release reports")?;
    assert_eq!(cupti.soname_major(), Some(release.major));
    for (info, present) in cupti.symbols().iter() {
        // 13.1 to 13.3 have some of what the table has from 13.4 on.
        let may_be_early = info.since > release && release > Release::new(13, 0);
        assert!(present == (info.since <= release) || may_be_early, "{version}: {} is {present}", info.name);
    }
    Ok(line)
}

/// The size of the records of a kind, as the library tells it; `None` if it does not.
fn told_size(cupti: &Cupti, kind: u32) -> Option<usize> {
    let function = cupti.symbols().cuptiActivityGetStructSize?;
    let mut size = 0;
    // SAFETY: the header allows every kind and asks for a pointer to a number that can be written.
    let result = unsafe { function(CUpti_ActivityKind(kind), 0, &raw mut size) };
    (result == CUptiResult::CUPTI_SUCCESS).then_some(size)
}

/// How many chips the library can plan metrics for; `None` for a library without the host functions.
fn supported_chips(cupti: &Cupti) -> Option<Result<usize, String>> {
    let function = cupti.symbols().cuptiProfilerHostGetSupportedChips?;
    let params = MaybeUninit::<CUpti_Profiler_Host_GetSupportedChips_Params>::zeroed();
    // SAFETY: all its fields are numbers and raw pointers, for which zero is a value.
    let mut params = unsafe { params.assume_init() };
    params.structSize = CUpti_Profiler_Host_GetSupportedChips_Params_STRUCT_SIZE;
    // SAFETY: the header asks for a struct of the size that it tells, with a NULL `pPriv`; it is only written to.
    let result = unsafe { function(&raw mut params) };
    Some(if result == CUptiResult::CUPTI_SUCCESS { Ok(params.numChips) } else { Err(format!("{result:?}")) })
}
