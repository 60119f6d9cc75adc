//! The fronts of the library's tools.

use std::fs;

use crate::run::{Outcome, RECORDINGS, compare, copy_of, cuprof, finished, line, root, run, skipped};

#[test]
fn a_recording_becomes_a_dataset() -> Outcome {
    for name in RECORDINGS {
        let folder = tempfile::tempdir()?;
        let recording = root().join("examples/recordings").join(name).with_extension("cuprofrec");
        let replay = |more: &[&str]| {
            finished(cuprof().arg("replay").arg(&recording).args(more).current_dir(folder.path()))
        };
        let printed = replay(&[])?.expect(0)?.out;
        compare(&format!("replay_{name}.txt"), &printed)?;
        let dataset = cuprof::Dataset::open(folder.path().join(name).with_extension("cuprof"))?;
        assert!(dataset.is_complete());
        assert!(replay(&[])?.expect(73)?.err.contains("--force"));
        replay(&["--force"])?.expect(0)?;
        let left: Vec<_> = fs::read_dir(folder.path())?.flatten().map(|entry| entry.file_name()).collect();
        assert_eq!(left, [format!("{name}.cuprof").as_str()]);
    }
    Ok(())
}

#[test]
fn what_is_no_dataset_is_never_replaced() -> Outcome {
    let folder = tempfile::tempdir()?;
    let mine = folder.path().join("mine");
    fs::create_dir(&mine)?;
    fs::write(mine.join("thesis.tex"), "years of work")?;
    let recording = root().join("examples/recordings/nvtx.cuprofrec");
    let found = finished(cuprof().arg("replay").arg(recording).arg("--output").arg(&mine).arg("--force"))?;
    assert!(found.expect(73)?.err.contains("thesis.tex"));
    assert_eq!(fs::read_to_string(mine.join("thesis.tex"))?, "years of work");
    Ok(())
}

#[test]
fn a_recording_that_is_cut_off_gives_what_it_has_and_65() -> Outcome {
    let folder = tempfile::tempdir()?;
    let whole = fs::read(root().join("examples/recordings/quickstart.cuprofrec"))?;
    let cut = folder.path().join("cut.cuprofrec");
    fs::write(&cut, &whole[..whole.len() - 40])?;
    let found = finished(cuprof().arg("replay").arg(&cut).current_dir(folder.path()))?.expect(65)?;
    assert!(found.out.contains("! This result is incomplete"), "{}", found.out);
    assert!(found.err.contains("cut.cuprofrec"), "{}", found.err);
    let facts = cuprof::Dataset::open(folder.path().join("cut.cuprof"))?.env()?;
    let stamp = |key: &str| facts.get(key).and_then(|text| text.parse::<i64>().ok());
    assert!(
        stamp("session.end_ns") > stamp("session.start_ns"),
        "the end is the last that is known: {facts:?}"
    );
    Ok(())
}

#[test]
fn a_killed_process_is_recovered() -> Outcome {
    let folder = tempfile::tempdir()?;
    let dataset = copy_of("quickstart.cuprof", folder.path())?;
    fs::write(dataset.join(".launches-00001.parquet.tmp"), "PAR1 and no more")?;
    fs::remove_file(dataset.join("losses-00000.parquet"))?;
    let advice = |path: &std::path::Path| -> Result<bool, Box<dyn std::error::Error>> {
        let found = run([std::ffi::OsStr::new("summary"), path.as_os_str()])?.expect(65)?;
        assert!(found.out.contains("rows are missing"), "{}", found.out);
        Ok(found.out.contains("cuprof recover"))
    };
    assert!(advice(&dataset)?);
    let found = run([std::ffi::OsStr::new("recover"), dataset.as_os_str()])?.expect(0)?;
    assert!(found.out.contains("removed an unfinished part of launches (16 bytes)"), "{}", found.out);
    let again = run([std::ffi::OsStr::new("recover"), dataset.as_os_str()])?.expect(0)?;
    assert!(!again.out.contains("removed"), "{}", again.out);
    assert!(!advice(&dataset)?, "it is tidy now");
    Ok(())
}

#[test]
fn the_doctor_says_what_is_absent() -> Outcome {
    // Where this runs, there may or may not be a GPU; the library is tested on simulated ones.
    let found = line("doctor")?;
    let expected = if cuprof::doctor().can_trace() { 0 } else { 1 };
    assert_eq!(found.code, Some(expected), "{found:#?}");
    assert!(found.out.contains("driver"), "{}", found.out);
    Ok(())
}

#[test]
fn presets_need_no_library() -> Outcome {
    let all = line("metrics presets")?.expect(0)?.out;
    for preset in cuprof::counters::Preset::ALL {
        let told = format!("{:<10} {} metrics", preset.name(), preset.metrics().len());
        assert!(all.contains(&told), "{all}");
    }
    let headline = line("metrics presets headline")?.expect(0)?.out;
    assert!(headline.contains("gpu__time_duration.sum"), "{headline}");
    Ok(())
}

#[test]
fn presets_are_as_reviewed() -> Outcome {
    compare("metrics_presets.txt", &line("metrics presets")?.expect(0)?.out)?;
    compare("metrics_presets_headline.txt", &line("metrics presets headline")?.expect(0)?.out)
}

/// Set `CUPROF_TEST_CUPTI_13_1` to the folder with the libcupti of NVIDIA's wheel of 13.1, which plans without a driver.
#[test]
#[ignore = "needs CUPROF_TEST_CUPTI_13_1"]
fn what_is_told_of_metrics_is_as_reviewed() -> Outcome {
    let folder =
        std::env::var_os("CUPROF_TEST_CUPTI_13_1").ok_or("CUPROF_TEST_CUPTI_13_1 names no folder")?;
    for (file, arguments) in [
        ("metrics_chips.txt", "chips"),
        ("metrics_list.txt", "list --chip GH100 dram bytes"),
        ("metrics_describe.txt", "describe --chip GH100 dram__bytes_read.sum sm__throughput"),
        ("metrics_plan.txt", "plan --chip GH100 headline sm__inst_executed.sum dram_bytes_read.sum"),
        ("metrics_plan_roofline.txt", "plan --chip GH100 roofline"),
        ("metrics_passes.txt", "passes --chip GH100 roofline"),
    ] {
        let words = ["metrics"].into_iter().chain(arguments.split(' '));
        let found = finished(cuprof().args(words).env("CUPROF_CUPTI_PATH", &folder))?.expect(0)?;
        assert_eq!(found.err, "", "{arguments}");
        compare(file, &found.out)?;
    }
    Ok(())
}

#[test]
fn absent_libraries_are_named_with_the_way_to_get_them() -> Outcome {
    let found =
        finished(cuprof().args(["metrics", "plan", "--chip", "GH100", "headline", "--cupti", "/nowhere"]))?;
    let found = found.expect(69)?;
    assert!(found.err.contains("/nowhere"), "{}", found.err);
    let help = line("metrics --help")?.expect(0)?.out;
    assert!(help.contains("pip install 'nvidia-cuda-cupti==13.1.*'"), "{help}");
    Ok(())
}

#[test]
fn completions_and_pages_are_generated() -> Outcome {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = line(&format!("completions {shell}"))?.expect(0)?.out;
        assert!(script.contains("summary") && script.contains("allow-losses"), "{shell}");
    }
    let page = line("man")?.expect(0)?.out;
    assert!(page.contains(".TH") && page.contains("Exit codes"), "{page}");
    let folder = tempfile::tempdir()?;
    finished(cuprof().args(["man", "--output"]).arg(folder.path()))?.expect(0)?;
    for page in ["cuprof.1", "cuprof-summary.1", "cuprof-replay.1", "cuprof-metrics-plan.1"] {
        let page = fs::read_to_string(folder.path().join(page))?;
        let version = format!("\"cuprof {}\"", env!("CARGO_PKG_VERSION"));
        assert!(
            page.lines().any(|line| line.starts_with(".TH cuprof") && line.ends_with(&version)),
            "{page}"
        );
    }
    Ok(())
}

#[test]
fn tables_of_the_manual_keep_their_form() -> Outcome {
    let folder = tempfile::tempdir()?;
    finished(cuprof().args(["man", "--output"]).arg(folder.path()))?.expect(0)?;
    // Names, and whether the help's tables would be filled up to paragraphs.
    let mut tables = 0;
    for entry in fs::read_dir(folder.path())? {
        let page = fs::read_to_string(entry?.path())?;
        let mut is_filled = true;
        for line in page.lines() {
            match line {
                ".nf" | ".fi" => is_filled = line == ".fi",
                line => assert_eq!(is_filled, !line.starts_with("  "), "{line}"),
            }
            tables += usize::from(line == ".nf");
        }
    }
    assert!(tables > 12, "{tables}");
    let Ok(groff) = std::process::Command::new("groff")
        .args(["-man", "-Tascii", "-P-cbou", "-ww"])
        .arg(folder.path().join("cuprof-compare.1"))
        .output()
    else {
        return skipped("there is no groff");
    };
    assert!(groff.status.success() && groff.stderr.is_empty(), "{}", String::from_utf8_lossy(&groff.stderr));
    let shown = String::from_utf8_lossy(&groff.stdout);
    let help = line("compare --help")?.expect(0)?.out;
    let kept = help.lines().skip_while(|line| *line != "Examples:").filter(|line| line.starts_with("  "));
    assert!(kept.clone().count() > 15, "{help}");
    for line in kept {
        let wanted = format!("       {line}");
        assert!(shown.lines().any(|found| found.trim_end() == wanted), "{line:?} is not in\n{shown}");
    }
    Ok(())
}
