//! The command on a machine with a GPU: what it says of the device that is there.

use std::path::PathBuf;
use std::process::Command;

use crate::Outcome;
use crate::process::{HOME, libraries};

/// What the command prints, to both ends, and its exit code.
struct Said {
    out: String,
    err: String,
    code: Option<i32>,
}

/// `cuprof metrics`, with the simulated driver.
fn metrics(arguments: &str, set: &[(&str, &str)]) -> Result<Said, Box<dyn std::error::Error>> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cuprof"));
    command
        .env_clear()
        .env("HOME", HOME)
        .env("LD_LIBRARY_PATH", libraries())
        .env("CUPROF_CUPTI_PATH", libraries().join("libcupti.so.13"));
    for (name, value) in set {
        if value.is_empty() {
            command.env_remove(name)
        } else {
            command.env(name, value)
        };
    }
    let output = command.arg("metrics").args(arguments.split_whitespace()).output()?;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Ok(Said { out: text(output.stdout), err: text(output.stderr), code: output.status.code() })
}

#[test]
fn without_a_chip_it_is_that_of_the_first_device() -> Outcome {
    for command in ["plan", "passes", "describe"] {
        let names = "dram__bytes_read.sum lts__t_sector_hit_rate.pct";
        let present = metrics(&format!("{command} {names}"), &[])?;
        assert_eq!((present.code, present.err.as_str()), (Some(0), ""), "{command}");
        let named = metrics(&format!("{command} --chip GH100 {names}"), &[])?;
        assert_eq!(present.out, named.out, "{command}");
        let path = libraries().join("libcupti.so.13");
        let by_path = format!("{command} --cupti {} {names}", path.display());
        let by_path = metrics(&by_path, &[("CUPROF_CUPTI_PATH", "")])?;
        assert_eq!(present.out, by_path.out, "{command}");
    }
    let other = metrics("plan dram__bytes_read.sum", &[("SIM_CHIP", "GA100")])?;
    assert!(other.out.starts_with("1 metric on GA100 in 1 pass (CUPTI 13.0"), "{}", other.out);
    let list = metrics("list dram", &[])?;
    assert_eq!(list.out, "dram__bytes_read\ndram__bytes_write\n");
    Ok(())
}

#[test]
fn what_keeps_a_present_device_from_being_planned_for_is_told() -> Outcome {
    let old: PathBuf = libraries().join("12.0").join("libcupti.so.12");
    let old = old.to_string_lossy();
    let of_12_0 = [("SIM_VERSION", "12.0"), ("SIM_CUDA_VERSION", "12090"), ("CUPROF_CUPTI_PATH", &*old)];
    for (arguments, set, code, said) in [
        // A library that is named is the one that is used, and no other.
        ("plan --cupti /nowhere dram__bytes_read.sum", &[][..], 69, "/nowhere"),
        (
            "plan dram__bytes_read.sum",
            &[("SIM_CUDA_FAIL", "cuInit:100")][..],
            69,
            "name a chip: --chip GH100",
        ),
        ("plan dram__bytes_read.sum", &[("LD_LIBRARY_PATH", "")][..], 69, "name a chip: --chip GH100"),
        ("plan dram__bytes_read.sum", &[("SIM_CHIP", "XX100")][..], 69, "use a newer CUPTI"),
        ("plan dram__bytes_read.sum", &of_12_0[..], 69, "counters need CUPTI 12.6 or newer"),
        ("plan no__such_metric.sum", &[][..], 64, "cuprof metrics list"),
        ("describe dram__byts_read", &[][..], 64, "near: dram__bytes_read"),
    ] {
        let found = metrics(arguments, set)?;
        assert_eq!(found.code, Some(code), "{arguments} {set:?}: {}{}", found.out, found.err);
        assert!(found.err.contains(said) && found.out.is_empty(), "{arguments} {set:?}: {}", found.err);
    }
    Ok(())
}
