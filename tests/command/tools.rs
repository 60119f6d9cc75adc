//! The fronts of the library's tools.

use std::fs;

use crate::run::{Outcome, RECORDINGS, compare, copy_of, cuprof, finished, line, root, run};

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
        assert!(folder.path().join(page).exists(), "{page}");
    }
    Ok(())
}
