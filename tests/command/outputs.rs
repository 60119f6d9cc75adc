//! Every subcommand on the recordings, as reviewed.

use crate::run::{Outcome, RECORDINGS, compare, cuprof, finished, line};

#[test]
fn summaries_are_as_reviewed() -> Outcome {
    for name in RECORDINGS {
        for columns in ["80", "140"] {
            let found =
                finished(cuprof().env("COLUMNS", columns).args(["summary", &format!("{name}.cuprof")]))?
                    .expect(0)?;
            compare(&format!("summary_{name}_{columns}.txt"), &found.out)?;
            let is_too_wide = |line: &&str| line.chars().count() > columns.parse().unwrap_or(0);
            assert_eq!(found.out.lines().find(is_too_wide), None);
            assert!(found.err.is_empty(), "{}", found.err);
        }
    }
    Ok(())
}

#[test]
fn other_forms_of_a_summary_are_as_reviewed() -> Outcome {
    for (file, arguments) in [
        ("summary_quickstart.md", "summary quickstart.cuprof --format markdown"),
        ("summary_quickstart.json", "summary quickstart.cuprof --format json"),
        ("ranges_nvtx.csv", "summary nvtx.cuprof --format csv --show ranges"),
        ("kernels_quickstart.csv", "summary quickstart.cuprof --format csv"),
        ("devices_threads.csv", "summary threads.cuprof --format csv --show devices"),
        ("transfers_quickstart.csv", "summary quickstart.cuprof --format csv --show transfers"),
        ("filtered_quickstart.txt", "summary quickstart.cuprof --kernel *gemm* --range */forward --from 1ms"),
        ("sorted_quickstart.txt", "summary quickstart.cuprof --show kernels --sort max --top 2"),
        ("all_of_them.txt", "summary . --show ranges,devices --top 8"),
    ] {
        compare(file, &line(arguments)?.expect(0)?.out)?;
    }
    let mut narrow = cuprof();
    narrow.env("COLUMNS", "80").args(["summary", ".", "--show", "devices", "--top", "8"]);
    compare("all_of_them_80.txt", &finished(&mut narrow)?.expect(0)?.out)
}

#[test]
fn who_asks_for_losses_is_told_that_there_are_none() -> Outcome {
    let found = line("summary quickstart.cuprof --show losses")?.expect(0)?.out;
    assert!(found.ends_with("\nno record was lost\n"), "{found}");
    Ok(())
}

#[test]
fn help_is_as_reviewed() -> Outcome {
    for (file, arguments) in [
        ("help.txt", "--help"),
        ("help_short.txt", "-h"),
        ("help_summary.txt", "summary --help"),
        ("help_compare.txt", "compare --help"),
        ("help_replay.txt", "replay --help"),
        ("help_metrics.txt", "metrics --help"),
        ("help_report.txt", "report --help"),
        ("help_trace.txt", "trace --help"),
        ("help_plot.txt", "plot --help"),
        ("help_clocks.txt", "clocks --help"),
        ("help_recover.txt", "recover --help"),
    ] {
        compare(file, &line(arguments)?.expect(0)?.out)?;
    }
    Ok(())
}

#[test]
fn the_same_files_give_the_same_bytes() -> Outcome {
    for arguments in ["summary . --format json", "summary . --all", "summary . --format csv --show devices"] {
        // As many threads read them, which finish in no certain order.
        let first = line(arguments)?.expect(0)?.out;
        let all_same =
            (0..10).map(|_| line(arguments)).all(|found| found.is_ok_and(|found| found.out == first));
        assert!(all_same, "{arguments}");
    }
    Ok(())
}

#[test]
fn traces_are_written_and_never_into_a_terminal() -> Outcome {
    for name in RECORDINGS {
        let dataset = format!("{name}.cuprof");
        let stacks = line(&format!("trace {dataset} --format collapsed"))?.expect(0)?.out;
        compare(&format!("stacks_{name}.txt"), &stacks)?;
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("run.pftrace");
        finished(cuprof().args(["trace", &dataset, "--output"]).arg(&file))?.expect(0)?;
        let piped = cuprof().args(["trace", &dataset]).output()?.stdout;
        assert!(std::fs::read(&file)? == piped, "{name}: a pipe gets what a file gets");
        finished(cuprof().args(["trace", &dataset, "--output"]).arg(&file))?.expect(73)?;
    }
    Ok(())
}
