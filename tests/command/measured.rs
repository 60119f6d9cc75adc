//! What the command does with measurements. Their values are made up here: no recording has any.

use std::path::Path;
use std::process::Command;

use cuprof::testing::{Measured, write_measured};

use crate::run::{Outcome, root, run};

/// A metric of an annotation with some parameters, in twelve runs of which one failed.
fn measured(n: u32, annotation: &str, centre_ns: f64) -> Measured {
    let value = |run: u32| (run != 5).then_some(centre_ns + f64::from(run * run % 11) * 32.0);
    Measured {
        parameters: vec![("n".to_owned(), n.to_string())],
        annotation: annotation.to_owned(),
        metric: ("gpu__time_duration.sum".to_owned(), "ns".to_owned()),
        values: (0..12).map(value).collect(),
    }
}

/// Writes a sweep over two annotations.
fn write_sweep(folder: &Path) -> Outcome {
    let sizes = [256_u32, 512, 1_024, 2_048];
    let measured: Vec<Measured> = sizes
        .into_iter()
        .flat_map(|n| {
            [("fp32", 1.0), ("fp16", 0.6)]
                .map(|(name, cost)| measured(n, name, cost * f64::from(n * n) / 8.0))
        })
        .collect();
    Ok(write_measured(folder, &measured, Some("fp32"), &[("process.id", "7")])?)
}

#[test]
fn a_report_is_printed_from_its_files() -> Outcome {
    let folder = tempfile::tempdir()?;
    let dataset = folder.path().join("sweep.cuprof");
    write_sweep(&dataset)?;
    let report = cuprof::bench::Report::open(&dataset)?;
    let path = dataset.to_string_lossy();
    for (format, expected) in [
        ("text", report.to_string()),
        ("markdown", report.markdown()),
        ("csv", report.csv()),
        ("compat", report.compat_csv()),
    ] {
        let run = run(["report", &path, "--format", format])?.expect(0)?;
        assert_eq!(run.out, expected, "{format}");
        assert!(run.out.contains("fp16"), "{run:?}");
    }
    let trace = run(["report", "quickstart.cuprof"])?.expect(65)?;
    assert!(trace.err.contains("holds no measurement") && trace.err.contains("cuprof summary"), "{trace:?}");
    Ok(())
}

/// Set `CUPROF_PYTHON` to an interpreter with what `tests/py/check_command.py` needs.
#[test]
#[ignore = "needs CUPROF_PYTHON"]
fn perfetto_sees_the_runs_of_a_measurement_and_their_conditions() -> Outcome {
    let python = std::env::var_os("CUPROF_PYTHON").ok_or("CUPROF_PYTHON names no interpreter")?;
    let folder = tempfile::tempdir()?;
    let dataset = folder.path().join("sweep.cuprof");
    write_sweep(&dataset)?;
    let output = Command::new(python)
        .arg(root().join("tests/py/check_command.py"))
        .arg(env!("CARGO_BIN_EXE_cuprof"))
        .arg(&dataset)
        .output()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    println!("{}", String::from_utf8_lossy(&output.stdout));
    Ok(())
}
