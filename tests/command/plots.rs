//! Pictures. `CUPROF_BLESS=1` also leaves a PNG of each in `target/tmp/plots`: look at them before they are kept.

use std::path::Path;
use std::process::Command;

use crate::measured::write_all;
use crate::run::{Outcome, Shared, compare, copy_of, cuprof, datasets, finished};

/// A folder with measurements.
fn measurements() -> &'static Path {
    static FOLDER: Shared = Shared::new();
    FOLDER.path(write_all)
}

/// The command among the measurements, or among the recordings' datasets; arguments are apart at spaces.
fn plot(arguments: &str) -> Command {
    let mut command = cuprof();
    let is_trace = arguments.starts_with("quickstart") || arguments.starts_with("threads");
    command.current_dir(if is_trace { datasets() } else { measurements() });
    command.arg("plot").args(arguments.split_whitespace());
    command
}

/// Pictures whose SVG is kept, by the names of its files.
const KEPT: [(&str, &str); 13] = [
    ("sweep", "sweep.cuprof --statistic mean"),
    ("sweep_dark", "sweep.cuprof --statistic mean --theme dark"),
    ("sweep_bars", "sweep.cuprof --form bar --spacing linear"),
    ("sweep_values", "sweep.cuprof --statistic mean --values --spacing log"),
    ("sweep_ratio", "sweep.cuprof --relative-to fp32"),
    ("sweep_samples", "sweep.cuprof --kind samples --range fp16"),
    ("one", "one.cuprof --values"),
    ("long_names", "long_names.cuprof"),
    ("long_names_samples", "long_names.cuprof --kind samples --theme dark"),
    ("failed", "failed.cuprof"),
    ("small", "sweep.cuprof --width 320 --height 200"),
    ("roofline", "counted.cuprof"),
    ("share_threads", "threads.cuprof"),
];

/// Larger ones, which are only looked at.
const LARGE: [(&str, &str); 10] = [
    ("one_samples", "one.cuprof --kind samples"),
    ("forty", "forty.cuprof"),
    ("forty_samples", "forty.cuprof --kind samples --config *_0?_*"),
    ("forty_samples_cut", "forty.cuprof --kind samples --width 500"),
    ("wide", "wide.cuprof"),
    ("wide_panels", "wide.cuprof --rows dtype --columns tile"),
    ("wide_along_two", "wide.cuprof --x tile,dtype"),
    ("many_samples", "many.cuprof --kind samples"),
    ("roofline_dark", "counted.cuprof --theme dark --width 640"),
    ("share_quickstart", "quickstart.cuprof"),
];

#[test]
fn pictures_are_as_reviewed() -> Outcome {
    for (name, arguments) in KEPT {
        let found = finished(&mut plot(arguments))?.expect(0)?;
        assert!(found.err.is_empty(), "{}", found.err);
        compare(&format!("plot_{name}.svg"), &found.out)?;
        if name == "sweep" {
            // The picture of the README.
            compare("../../../docs/plot.svg", &found.out)?;
        }
    }
    for (_, arguments) in LARGE {
        assert!(finished(&mut plot(arguments))?.expect(0)?.out.ends_with("</svg>\n"));
    }
    for (name, arguments) in KEPT.into_iter().chain(LARGE) {
        if crate::bless::is_asked_for() {
            let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("plots");
            std::fs::create_dir_all(&folder)?;
            let file = folder.join(name).with_extension("png");
            finished(plot(arguments).args(["--force", "--output"]).arg(file))?.expect(0)?;
        }
    }
    Ok(())
}

#[test]
fn what_cannot_be_drawn_is_refused_with_what_can() -> Outcome {
    for (arguments, code, said) in [
        ("sweep.cuprof --metric gpu_time_duration", 64, "there is: gpu__time_duration.sum"),
        ("sweep.cuprof --x size", 64, "there is no parameter \"size\""),
        ("sweep.cuprof --relative-to fp64", 64, "there is: fp32, fp16"),
        ("sweep.cuprof --range nothing", 64, "no annotation or kernel that was measured matches"),
        ("sweep.cuprof --config n=3*", 64, "no configuration like \"n=3*\""),
        ("sweep.cuprof --kind share", 65, "draw --kind times or samples"),
        ("sweep.cuprof --kind roofline", 65, "count the preset roofline"),
        ("counted.cuprof --kind times", 65, "of a trace, draw --kind share"),
        ("counted.cuprof --kind samples", 65, "nothing was measured in counted.cuprof"),
        ("sweep.cuprof --kind pie", 64, "roofline"),
        ("sweep.cuprof --output sweep.gif", 64, "ends neither in .svg nor in .png"),
        ("sweep.cuprof --output sweep.png --format svg", 64, "is not what the name sweep.png says"),
        ("sweep.cuprof --width 10", 64, "320"),
        ("sweep.cuprof --format png --pixel-ratio 0", 64, "--pixel-ratio"),
        ("sweep.cuprof --format png --pixel-ratio 16 --width 8000", 64, "SVG has no such limit"),
        ("nothing.cuprof", 65, "nothing.cuprof"),
    ] {
        let found = finished(&mut plot(arguments))?.expect(code)?;
        assert!(found.err.contains(said), "{arguments}: {}", found.err);
        assert!(found.out.is_empty(), "{arguments}");
    }
    Ok(())
}

#[test]
fn a_picture_goes_where_it_is_told() -> Outcome {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("sweep.svg");
    finished(plot("sweep.cuprof --output").arg(&file))?.expect(0)?;
    let drawn = std::fs::read_to_string(&file)?;
    assert_eq!(finished(&mut plot("sweep.cuprof --output -"))?.expect(0)?.out, drawn);
    let found = finished(plot("sweep.cuprof --theme dark --output").arg(&file))?.expect(73)?;
    assert!(found.err.contains("--force") && std::fs::read_to_string(&file)? == drawn);
    finished(plot("sweep.cuprof --theme dark --force --output").arg(&file))?.expect(0)?;
    assert_ne!(std::fs::read_to_string(&file)?, drawn);
    let png = plot("sweep.cuprof --format png --pixel-ratio 0.5").output()?.stdout;
    assert!(png.starts_with(b"\x89PNG\r\n"));
    let boxes = plot("sweep.cuprof --format png --pixel-ratio 0.5 --title 漢字").output()?;
    let told = String::from_utf8(boxes.stderr)?;
    assert!(boxes.status.success() && told.contains("are boxes (字漢)"), "{told}");
    assert_eq!(std::fs::read_dir(folder.path())?.count(), 1, "nothing half written is left");
    Ok(())
}

#[test]
fn a_picture_of_what_is_not_whole_says_so() -> Outcome {
    let folder = tempfile::tempdir()?;
    let all = folder.path();
    write_all(all)?;
    copy_of("quickstart.cuprof", all)?;
    for (name, kind) in
        [("sweep", "times"), ("sweep", "samples"), ("counted", "roofline"), ("quickstart", "share")]
    {
        let dataset = all.join(name).with_extension("cuprof");
        let _ = std::fs::remove_file(dataset.join("losses-00000.parquet"));
        let found = finished(cuprof().args(["plot", "--kind", kind]).arg(&dataset))?.expect(65)?;
        assert!(found.out.contains(">Incomplete: "), "{kind}: {}", found.out);
    }
    Ok(())
}

#[test]
fn several_datasets_are_series_of_their_own() -> Outcome {
    let found = finished(&mut plot("sweep.cuprof one.cuprof --x n"))?.expect(0)?;
    for name in ["sweep: fp32", "sweep: fp16", "one: copy"] {
        assert!(found.out.contains(name), "{name}");
    }
    Ok(())
}
