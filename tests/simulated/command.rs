//! The command on a machine with a GPU: what it says of the device that is there, and of a measurement made there. And on a small
//! disk.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use cuprof::bench::{BenchError, Report};
use cuprof::{Bench, Dataset, Table};

use crate::Outcome;
use crate::killed::Mounted;
use crate::library::Simulated;
use crate::process::{HOME, Process, libraries, skip};

#[path = "../command/snapshot.rs"]
mod snapshot;

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
    said(command.arg("metrics").args(arguments.split_whitespace()))
}

fn said(command: &mut Command) -> Result<Said, Box<dyn std::error::Error>> {
    let output = command.output()?;
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

/// `cuprof replay` of an example into this dataset.
fn replay(example: &str, output: &Path, force: bool) -> Result<Said, Box<dyn std::error::Error>> {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/recordings");
    let mut command = Command::new(env!("CARGO_BIN_EXE_cuprof"));
    command.arg("replay").arg(examples.join(example).with_extension("cuprofrec")).arg("--output").arg(output);
    said(command.args(force.then_some("--force")))
}

#[test]
fn a_replay_that_finds_the_disk_full_keeps_what_was_there_and_says_what_to_do() -> Outcome {
    let disk = crate::process::folder()?;
    let Some(_mounted) = Mounted::on(disk.path(), 256) else {
        return skip("a small disk cannot be mounted here");
    };
    let output = disk.path().join("run.cuprof");
    let first = replay("quickstart", &output, false)?;
    assert_eq!(first.code, Some(0), "{}", first.err);
    let before = Dataset::open(&output)?.rows(Table::Launches);
    let filler = disk.path().join("filler");
    let filled = std::fs::write(&filler, vec![1; 1 << 20]);
    assert!(filled.is_err_and(|error| error.kind() == std::io::ErrorKind::StorageFull));
    for (name, force) in [("run.cuprof", true), ("other.cuprof", false)] {
        let output = disk.path().join(name);
        let full = replay("quickstart", &output, force)?;
        assert_eq!((full.code, full.out.as_str()), (Some(74), ""), "{}", full.err);
        let named = output.display().to_string();
        for words in
            [&*named, "No space left on device", "nothing was kept: make room, or name another output"]
        {
            assert!(full.err.contains(words), "{words:?} is not in:\n{}", full.err);
        }
        assert!(!full.err.contains(&format!(".{name}.")), "by its name alone: {}", full.err);
    }
    std::fs::remove_file(filler)?;
    let left: Vec<_> = std::fs::read_dir(disk.path())?.flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(left, ["run.cuprof"]);
    let dataset = Dataset::open(&output)?;
    assert_eq!((dataset.is_complete(), dataset.rows(Table::Launches)), (true, before));
    Ok(())
}

#[test]
fn a_forced_replay_replaces_all_of_a_dataset_and_only_by_a_whole_one() -> Outcome {
    let folder = crate::process::folder()?;
    let output = folder.path().join("run.cuprof");
    let rows =
        |output: &Path| Dataset::open(output).map(|dataset| Table::ALL.map(|table| dataset.rows(table)));
    for example in ["threads", "nvtx"] {
        let alone = folder.path().join(example).with_extension("cuprof");
        assert_eq!(replay(example, &alone, false)?.code, Some(0));
        let forced = replay(example, &output, true)?;
        assert_eq!((forced.code, forced.err.as_str()), (Some(0), ""));
        assert_eq!(rows(&output)?, rows(&alone)?, "nothing of the one before");
    }
    let before = rows(&output)?;
    let failed = replay("no such recording", &output, true)?;
    assert!(failed.code != Some(0) && failed.err.contains("no such recording"), "{}", failed.err);
    assert_eq!(rows(&output)?, before);
    Ok(())
}

#[test]
fn what_the_doctor_says_is_as_reviewed() -> Outcome {
    for (file, library, set, code) in [
        ("doctor.txt", "13.5/libcupti.so.13", ("SIM_VERSION", "13.5"), 0),
        ("doctor_issues.txt", "libcupti.so.13", ("SIM_VERSION", "13.0"), 0),
        ("doctor_busy.txt", "13.5/libcupti.so.13", ("SIM_FAIL", "cuptiSubscribe:*:39"), 1),
        ("doctor_no_cupti.txt", "nowhere/libcupti.so.13", ("SIM_VERSION", "13.5"), 1),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cuprof"));
        // Paths from this folder are the same on every machine.
        command.current_dir(libraries()).env_clear().env("HOME", HOME).env("LD_LIBRARY_PATH", ".");
        command.env("CUPROF_CUPTI_PATH", library).env("COLUMNS", "80").env(set.0, set.1);
        let output = command.arg("doctor").output()?;
        assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(code), &b""[..]), "{file}");
        let mut text = String::new();
        let mut is_left_out = false;
        // But that of the driver, which has a line of its own, however long it is.
        let folder = libraries().canonicalize()?;
        let mut out = String::from_utf8(output.stdout)?.replace(&*folder.to_string_lossy(), "LIBRARIES");
        if let Ok(module) = std::fs::read_to_string("/sys/module/nvidia/version") {
            out = out.replace(&format!(", driver {}", module.trim()), "");
        }
        for line in out.lines() {
            // Who may read counters, the kernel module of the machine that this runs on says.
            let is_of_this_machine =
                ["may read counters", "it is set in"].iter().any(|part| line.contains(part));
            is_left_out = is_of_this_machine || is_left_out && line.starts_with(' ');
            if !is_left_out {
                let without_counts = line.split(':').next().filter(|_| line.starts_with("Tracing"));
                text += &format!("{}\n", without_counts.unwrap_or(line));
            }
        }
        snapshot::compare(file, &text)?;
    }
    Ok(())
}

/// Measures two annotations in two configurations into this folder, one of them counted twice.
fn measure_into(output: &Path, cupti: Simulated) -> Result<Report, BenchError> {
    let bench =
        Bench::new("one dataset").configs([1_u32, 3]).parameters(["launches"]).runs(8).progress(false);
    let bench =
        bench.metrics(["dram__bytes_read.sum"]).counter_runs(2).normalize_against("half").output(output);
    bench.run(|run, count| {
        run.measure("half", || {
            cupti.launch(*count);
        });
        run.measure("whole", || {
            cupti.launch(2 * count);
        });
    })
}

#[test]
fn the_command_reads_a_measurement_with_its_launches() -> Outcome {
    let process = Process::of(the_command_reads_a_measurement_with_its_launches);
    process.with("CUPROF_NVML_PATH", libraries().join("libnvidia-ml.so.1")).run(|| {
        let folder = crate::process::folder()?;
        let [a, b] = ["a", "b"].map(|name| folder.path().join(name).with_extension("cuprof"));
        let report = measure_into(&a, Simulated::get())?;
        measure_into(&b, Simulated::get())?;
        let cuprof = |arguments: &[&OsStr]| -> Result<String, Box<dyn std::error::Error>> {
            let output = Command::new(env!("CARGO_BIN_EXE_cuprof")).args(arguments).output()?;
            let (out, err) = (String::from_utf8(output.stdout)?, String::from_utf8(output.stderr)?);
            // Two runs of one process give no verdict.
            let expected = if arguments[0] == "compare" { 2 } else { 0 };
            assert_eq!(output.status.code(), Some(expected), "{arguments:?}: {out}{err}");
            Ok(out)
        };
        let on = |command: &str, more: &[&OsStr]| {
            let first = [OsStr::new(command), a.as_os_str()];
            cuprof(&[&first, more].concat())
        };
        let words = |text: &'static str| text.split(' ').map(OsStr::new).collect::<Vec<_>>();

        assert_eq!(on("report", &[])?, report.to_string());
        let summary = on("summary", &[])?;
        assert!(summary.contains("whole") && summary.contains("half"), "{summary}");
        let (trace, plot) = (folder.path().join("a.pftrace"), folder.path().join("a.svg"));
        on("trace", &[OsStr::new("--output"), trace.as_os_str()])?;
        let trace = fs::read(trace)?;
        let has = |text: &str| trace.windows(text.len()).any(|window| window == text.as_bytes());
        assert!(has("launches=3") && has("whole"), "runs and ranges are both in the trace");
        let replaced = [OsStr::new("--force"), OsStr::new("--output"), plot.as_os_str()];
        for kind in ["times", "samples", "share"] {
            on("plot", &[&replaced[..], &[OsStr::new("--kind"), OsStr::new(kind)]].concat())?;
            assert!(fs::read_to_string(&plot)?.contains("</svg>"), "{kind}");
        }
        on("plot", &[&replaced[..], &words("--metric dram__bytes_read.sum")].concat())?;
        let compared = cuprof(&[OsStr::new("compare"), a.as_os_str(), b.as_os_str()])?;
        assert!(compared.contains("whole"), "{compared}");
        Ok(())
    })
}
