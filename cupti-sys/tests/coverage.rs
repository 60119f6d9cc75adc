//! `COVERAGE.md` tells which functions of the headers are in the table, and why the others are not.
//!
//! `CUPROF_BLESS=1` in front of `cargo test -p cupti-sys --test coverage` rewrites it.

#[path = "../../tests/bless/mod.rs"]
mod bless;

use std::error::Error;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use cupti_sys::{LibraryVersion, Symbols};

#[test]
fn the_ledger_lists_every_function_of_the_headers() -> Result<(), Box<dyn Error>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("COVERAGE.md");
    let ledger = ledger()?;
    if bless::is_asked_for() {
        fs::write(&path, &ledger)?;
    }
    let checked_in = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        checked_in == ledger,
        "COVERAGE.md is out of date: run this test with CUPROF_BLESS=1, and review the diff"
    );
    Ok(())
}

fn ledger() -> Result<String, Box<dyn Error>> {
    let declared = declared_functions();
    let (mut wrapped, mut left_out) = (String::new(), String::new());
    for info in Symbols::ALL {
        writeln!(wrapped, "| `{}` | {} |", info.name, info.since)?;
    }
    for name in declared.iter().filter(|name| Symbols::info(name).is_none()) {
        let reason =
            reason_to_leave_out(name).ok_or_else(|| format!("{name} is in no table, without a reason"))?;
        writeln!(left_out, "| `{name}` | {reason} |")?;
    }
    Ok(format!(
        "# Which CUPTI functions the table has\n\n\
         Written by `tests/coverage.rs`. The headers are those of {}. \"From\" is the first release that was seen to have \
         the function, among 12.0, 12.4, 12.6, 12.8, 12.9, 13.0, 13.4 and 13.5.\n\n\
         ## In `Symbols`: {}\n\n| function | from |\n|---|---|\n{wrapped}\n\
         ## Declared, but not in `Symbols`: {}\n\n| function | why |\n|---|---|\n{left_out}\n\
         The event and metric interfaces (`cuptiEvent*`, `cuptiMetric*`, …) are not generated at all: libraries refuse \
         them from 13.0 on. OpenACC, OpenMP and checkpoints have headers of their own, which are not read.\n",
        LibraryVersion::HEADERS,
        Symbols::ALL.len(),
        left_out.lines().count(),
    ))
}

/// The functions in the generated bindings, in alphabetical order.
fn declared_functions() -> Vec<String> {
    let source = include_str!("../src/bindings.rs");
    let functions = source.lines().filter_map(|line| line.trim_start().strip_prefix("pub fn cupti"));
    let mut names: Vec<String> = functions
        .map(|rest| {
            format!(
                "cupti{}",
                rest.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap_or("")
            )
        })
        .collect();
    names.sort();
    names
}

fn reason_to_leave_out(name: &str) -> Option<&'static str> {
    Some(match name {
        "cuptiActivityEnableContext" | "cuptiActivityDisableContext" => {
            "per context; kinds are enabled for all"
        }
        "cuptiActivityFlush" => "superseded by `cuptiActivityFlushAll`",
        "cuptiActivityConfigurePCSampling" => "superseded by `cuptiPCSampling*`",
        "cuptiComputeCapabilitySupported" | "cuptiDeviceSupported" => {
            "superseded by `cuptiProfilerDeviceSupported`"
        }
        "cuptiGetAutoBoostState" => "NVML tells clocks",
        "cuptiGetLastError" => "every call returns its own code",
        "cuptiRegisterComputeCrcCallback" => "calls user code on threads of the driver",
        name if name.starts_with("cuptiProfiler") => {
            "legacy range profiler, superseded by `cuptiRangeProfiler*`"
        }
        _ => return None,
    })
}
