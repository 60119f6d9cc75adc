//! Two sides compared. What was measured is made up here: no recording has samples.

use std::path::Path;

use cuprof::stats::Random;
use cuprof::testing::{Measured, write_measured};

use crate::run::{Outcome, Run, Shared, compare, cuprof, finished, line};

/// What a GPU takes for each size, before and after; how much its process runs differ; and whether both sides have it.
const SIZES: [(u32, f64, f64, f64, bool); 5] = [
    (256, 4_000.0, 4_160.0, 0.001, true),
    (512, 9_000.0, 9_010.0, 0.001, true),
    (1_024, 40_000.0, 38_000.0, 0.002, true),
    (2_048, 300_000.0, 303_000.0, 0.01, true),
    (4_096, 0.0, 2_400_000.0, 0.001, false),
];

const FACTS: [(&str, &str); 6] = [
    ("bench.name", "gemm"),
    ("bench.tick_ns", "32"),
    ("gpu.name", "NVIDIA H200"),
    ("gpu.uuid", "GPU-7c1e"),
    ("driver.version", "580.159"),
    ("cupti.version", "13.0.85"),
];

/// About normal, with a standard deviation of 1.
fn noise(random: &mut Random) -> f64 {
    (0..12).map(|_| random.unit()).sum::<f64>() - 6.0
}

fn write_process(folder: &Path, seed: u64, is_after: bool, facts: &[(&str, &str)]) -> Outcome {
    let mut random = Random::new(seed);
    let mut measured = Vec::new();
    for (n, before, after, between, _) in SIZES.iter().filter(|size| is_after || size.4) {
        for (annotation, cost) in [("fp32", 1.0), ("fp16", 0.6)] {
            let level = cost * if is_after { after } else { before } * (1.0 + between * noise(&mut random));
            let values = (0..50).map(|_| Some((level * (1.0 + 0.004 * noise(&mut random))).round()));
            measured.push(Measured {
                parameters: vec![("n".to_owned(), n.to_string())],
                annotation: annotation.to_owned(),
                metric: ("gpu__time_duration.sum".to_owned(), "ns".to_owned()),
                values: values.collect(),
            });
        }
    }
    Ok(write_measured(folder, &measured, None, &[&FACTS[..], facts].concat())?)
}

/// A folder with `before` and `after`, five process runs each; `six`, six of them; `alone.cuprof`, one; `driver`, on another driver; `again`,
/// as before; and `lossy`.
fn sides() -> &'static Path {
    static FOLDER: Shared = Shared::new();
    FOLDER.path(|folder| {
        let write = |name: &str, seed, is_after, facts: &[(&str, &str)]| {
            write_process(&folder.join(name), seed, is_after, facts)
        };
        for run in 0..5 {
            write(&format!("before/{run}.cuprof"), run, false, &[])?;
            write(&format!("after/{run}.cuprof"), 10 + run, true, &[])?;
            write(&format!("again/{run}.cuprof"), 20 + run, false, &[])?;
            write(&format!("driver/{run}.cuprof"), 30 + run, false, &[("driver.version", "590.44")])?;
            write(&format!("lossy/{run}.cuprof"), 40 + run, true, &[])?;
        }
        for run in 0..6 {
            write(&format!("six/{run}.cuprof"), 60 + run, false, &[])?;
        }
        write("alone.cuprof", 50, false, &[])?;
        write("alone_after.cuprof", 51, true, &[])?;
        // A process that was killed has no table of losses.
        Ok(std::fs::remove_file(folder.join("lossy/2.cuprof/losses-00000.parquet"))?)
    })
}

/// The arguments as they would be typed, apart at spaces, in that folder.
fn compared(arguments: &str) -> Result<Run, Box<dyn std::error::Error>> {
    finished(cuprof().current_dir(sides()).arg("compare").args(arguments.split_whitespace()))
}

#[test]
fn comparisons_are_as_reviewed() -> Outcome {
    for columns in ["80", "140"] {
        for (file, arguments, code) in [
            ("compare", "compare before after", 1),
            ("compare_allowed", "compare before driver --allow driver --top 2", 2),
            (
                "compare_single",
                "compare alone.cuprof alone_after.cuprof --allow-single-run --allow config",
                1,
            ),
            ("compare_annotations", "compare before --annotations fp32 fp16", 0),
            ("compare_aa", "compare six --aa", 0),
            ("compare_aa_few", "compare before --aa", 2),
        ] {
            let mut command = cuprof();
            command.current_dir(sides()).env("COLUMNS", columns).args(arguments.split_whitespace());
            let found = finished(&mut command)?.expect(code)?;
            compare(&format!("{file}_{columns}.txt"), &found.out)?;
            let is_too_wide = |line: &&str| line.chars().count() > columns.parse().unwrap_or(0);
            assert_eq!(found.out.lines().find(is_too_wide), None);
            assert!(found.err.is_empty(), "{}", found.err);
        }
    }
    for (file, arguments, code) in [
        ("compare.md", "before after --format markdown", 1),
        ("compare.json", "before after --format json", 1),
        ("compare.xml", "before after --format junit", 1),
        ("compare_aa.json", "six --aa --format json", 0),
    ] {
        compare(file, &compared(arguments)?.expect(code)?.out)?;
    }
    Ok(())
}

#[test]
fn every_end_of_a_comparison_has_its_code() -> Outcome {
    // (arguments, code, a part of what is printed or said)
    let table: [(&str, i32, &str); 32] = [
        ("before again", 2, "SAME"),
        ("before again --fail-on slower", 0, "INCONCLUSIVE"),
        ("before after", 1, "SLOWER"),
        ("before after --fail-on slower", 1, "SLOWER"),
        ("before after --margin 10%", 3, "INCOMPARABLE"),
        ("before after --margin 10% --allow config", 0, "2 rows without a counterpart left out"),
        ("before driver", 3, "driver differs: 580.159 in base, 590.44 in new"),
        ("before driver --allow driver --margin 3%", 0, "driver may differ (--allow driver)"),
        ("before driver --allow gpu", 3, "INCOMPARABLE"),
        ("before before", 2, "5 process runs are on both sides"),
        ("before before/ --format markdown", 2, "5 process runs are on both sides"),
        ("before before --format junit", 2, "5 process runs are on both sides"),
        ("before before --format json", 2, "5 process runs are on both sides"),
        ("alone.cuprof alone.cuprof", 2, "too few runs"),
        ("alone.cuprof alone_after.cuprof --allow config", 2, "too few runs"),
        ("alone.cuprof alone_after.cuprof --allow-single-run --allow config", 1, "within-run only"),
        ("before lossy", 65, "is not here as a whole"),
        ("before lossy --allow-losses", 1, "is not here as a whole"),
        ("before --aa", 2, "within-run only: 5 process runs, 6 are needed to split them"),
        ("before --aa --allow-single-run", 0, "within-run only: 5 process runs"),
        ("lossy --aa", 65, "is not here as a whole"),
        ("before nowhere", 65, "nowhere"),
        ("before before/0.cuprof/samples-00000.parquet", 65, "samples-00000.parquet"),
        ("before", 64, "<NEW"),
        ("before after --margin 1", 64, "is no percentage"),
        ("before after --allow colour", 64, "known: bench, config, region"),
        ("before after --aa", 64, "cannot be used with"),
        ("before after --annotations fp32 fp16", 64, "cannot be used with"),
        ("before --annotations fp32 fp8", 64, "there are fp16, fp32"),
        ("before after --metric speed", 64, "there are gpu__time_duration.sum"),
        ("before after --block 0", 64, "at least one run"),
        ("before --aa --format junit", 64, "as text or as json"),
    ];
    for (arguments, code, said) in table {
        let found = compared(arguments)?.expect(code)?;
        let text = format!("{}{}", found.out, found.err);
        assert!(text.contains(said), "{arguments}: {text}");
        assert_eq!(found.err.is_empty(), code < 64, "{arguments}: {text}");
    }
    Ok(())
}

#[test]
fn a_reader_that_is_gone_changes_no_verdict() -> Outcome {
    let (reader, writer) = std::io::pipe()?;
    drop(reader);
    let status =
        cuprof().current_dir(sides()).args(["compare", "before", "after"]).stdout(writer).status()?;
    assert_eq!(status.code(), Some(1));
    Ok(())
}

#[test]
fn traces_are_compared_by_kernel_and_range() -> Outcome {
    // One process run a side, and nobody knows the clock.
    let found = line("compare quickstart.cuprof quickstart.cuprof")?.expect(2)?;
    assert!(found.out.contains("too few runs"), "{}", found.out);
    let allowed = "--allow-single-run --allow-unknown-clock --block 1";
    let same = line(&format!("compare quickstart.cuprof quickstart.cuprof {allowed}"))?;
    assert!([Some(0), Some(2)].contains(&same.code), "{same:#?}");
    compare("compare_trace.txt", &same.out)?;
    let mut narrow = cuprof();
    narrow.env("COLUMNS", "80").args(["compare", "quickstart.cuprof", "quickstart.cuprof"]);
    let narrow = finished(narrow.args(allowed.split(' ')))?.out;
    for (range, kernel) in
        [("ward", "gemm(f"), ("ward", "reduce("), ("date", "void fil"), ("fetch", "copy(f")]
    {
        let told = format!("{range}: {kernel}");
        assert!(narrow.contains(&told), "{told} is not in\n{narrow}");
    }
    let unknown =
        line("compare quickstart.cuprof quickstart.cuprof --allow-single-run --block 1 --margin 90%")?;
    assert!(unknown.expect(2)?.out.contains("clock: neither pinned nor recorded"));
    // Another program.
    line("compare quickstart.cuprof graph.cuprof")?.expect(3)?;
    Ok(())
}

#[test]
fn the_same_files_compare_the_same() -> Outcome {
    let first = compared("before after --format json")?.expect(1)?.out;
    for _ in 0..5 {
        assert_eq!(compared("before after --format json")?.out, first);
    }
    Ok(())
}

#[test]
fn a_comparison_that_exists_is_not_replaced() -> Outcome {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("compare.xml");
    let write = |more: &[&str]| {
        let mut command = cuprof();
        command.current_dir(sides()).args(["compare", "before", "after", "--format", "junit", "--output"]);
        finished(command.arg(&file).args(more))
    };
    assert!(write(&[])?.expect(1)?.out.is_empty());
    let written = std::fs::read_to_string(&file)?;
    assert!(written.starts_with("<?xml") && written.ends_with("</testsuites>\n"), "{written}");
    assert!(write(&[])?.expect(73)?.err.contains("--force"));
    write(&["--force"])?.expect(1)?;
    Ok(())
}

/// Set `CUPROF_PYTHON` to an interpreter with `duckdb`.
#[test]
#[ignore = "needs CUPROF_PYTHON"]
fn the_numbers_are_those_of_the_formulas_and_junit_is_xml() -> Outcome {
    let python = std::env::var_os("CUPROF_PYTHON").ok_or("CUPROF_PYTHON names no interpreter")?;
    // Names that mean something to XML.
    let folder = tempfile::tempdir()?;
    for side in ["base", "new"] {
        for (run, seed) in (0..3).zip(60..) {
            let names = ["<a & \"b\">", "tab\tline\nend", "\u{1b}[1mü"];
            let measured = names.map(|name| Measured {
                parameters: vec![("n".to_owned(), "1".to_owned())],
                annotation: name.to_owned(),
                metric: ("gpu__time_duration.sum".to_owned(), "ns".to_owned()),
                values: (0..40).map(|at| Some(2_000.0 + f64::from(at * seed % 17))).collect(),
            });
            write_measured(&folder.path().join(side).join(format!("{run}.cuprof")), &measured, None, &FACTS)?;
        }
    }
    for at in [
        (sides().join("before"), sides().join("after")),
        (folder.path().join("base"), folder.path().join("new")),
    ] {
        let output = std::process::Command::new(&python)
            .arg(crate::run::root().join("tests/py/check_compare.py"))
            .arg(env!("CARGO_BIN_EXE_cuprof"))
            .args([at.0, at.1])
            .output()?;
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        println!("{}", String::from_utf8_lossy(&output.stdout));
    }
    Ok(())
}
