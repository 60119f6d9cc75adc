//! What a reader concludes from a picture is so.

use super::super::frame::EDGE;
use super::super::scene::Shape;
use super::super::{Form, Share, Spacing, Style, Times, kernel_share, roofline};
use super::{Outcome, measured, read};
use crate::analysis::{Collection, Filter};
use crate::plot::Measurements;
use crate::testing::{Measured, write_counted, write_measured, write_measured_and_counted};

/// The texts of a picture.
fn texts(plot: &super::super::Plot) -> Vec<String> {
    plot.scene.labels().map(|label| label.text.clone()).collect()
}

/// What a roofline takes of a range: bytes of device memory; and additions, multiplications and both at once. It took a
/// millisecond on a GPU of a thousand bytes and operations a cycle, and of 10^9 cycles a second.
fn counted(bytes: f64, [adds, multiplies, fused]: [f64; 3]) -> [(&'static str, f64); 9] {
    [
        ("gpu__time_duration.sum", 1e6),
        ("sm__cycles_elapsed.avg.per_second", 1e9),
        ("dram__cycles_elapsed.avg.per_second", 1e9),
        ("dram__bytes.sum", bytes),
        ("dram__bytes.sum.peak_sustained", 1_000.0),
        ("sm__sass_thread_inst_executed_op_ffma_pred_on.sum.peak_sustained", 1_000.0),
        ("smsp__sass_thread_inst_executed_op_fadd_pred_on.sum", adds),
        ("smsp__sass_thread_inst_executed_op_fmul_pred_on.sum", multiplies),
        ("smsp__sass_thread_inst_executed_op_ffma_pred_on.sum", fused),
    ]
}

#[test]
fn points_of_many_series_stand_at_their_number_and_inside_of_the_panel() -> Outcome {
    let folder = tempfile::tempdir()?;
    for (series, width) in [(2_usize, 880_u32), (5, 880), (24, 880), (24, 320)] {
        let all: Vec<Measured> = (0..series)
            .flat_map(|of| {
                [256, 512, 1024].map(|n| measured(&[("n", n.to_string())], &format!("a{of}"), 1e3))
            })
            .collect();
        let folder = folder.path().join(format!("{series}_{width}"));
        std::fs::create_dir(&folder)?;
        let times = Times { style: Style { width, ..Style::default() }, ..Times::default() };
        let plot = read(&folder, &all)?.times(&times)?;
        let palette = plot.scene.palette;
        let lines: Vec<Vec<f64>> = plot
            .scene
            .shapes
            .iter()
            .filter_map(|shape| match shape {
                Shape::Line { spots, color, .. } if palette.series.contains(color) && spots.len() == 3 => {
                    Some(spots.iter().map(|(x, _)| *x).collect())
                }
                _ => None,
            })
            .collect();
        assert_eq!(lines.len(), series);
        let between = lines[0][1] - lines[0][0];
        let shift = lines[series - 1][0] - lines[0][0];
        assert!(shift <= 0.101 * between, "{series} {width}: {shift} of {between}");
        assert_eq!(shift == 0.0, series == 24, "{series} {width}: {shift}");
        let right = plot.scene.width - EDGE;
        assert!(lines.iter().flatten().all(|x| (EDGE..right).contains(x)), "{lines:?}");
    }
    Ok(())
}

#[test]
fn the_median_stands_for_all_and_those_without_an_interval_are_counted() -> Outcome {
    let folder = tempfile::tempdir()?;
    let few = |n: u32, values: &[f64]| Measured {
        values: values.iter().map(|value| Some(*value)).collect(),
        ..measured(&[("n", n.to_string())], "a", 1.0)
    };
    let sizes = [1, 2, 4].map(|n| measured(&[("n", n.to_string())], "a", f64::from(n)));
    let one_has_few: Vec<Measured> = sizes.iter().cloned().chain([few(8, &[1.0, 1.0, 10.0])]).collect();
    for (name, all, said) in [
        ("all", sizes.to_vec(), "median of 10 values with its 95 % interval"),
        ("one", one_has_few, "1 of 4 has none, worth fewer than six independent runs"),
        (
            "none",
            vec![few(1, &[1.0, 2.0, 3.0])],
            "median of 3 values without a 95 % interval: they are worth fewer than six independent runs",
        ),
        ("single", vec![few(1, &[1.0])], "median of 1 value"),
    ] {
        let folder = folder.path().join(name);
        std::fs::create_dir(&folder)?;
        let plot = read(&folder, &all)?.times(&Times { values: true, ..Times::default() })?;
        let told = texts(&plot).join(" ");
        assert!(told.contains("median of") && told.contains(said), "{name}: {told}");
    }
    Ok(())
}

#[test]
fn conditions_of_one_dataset_are_not_told_of_another() -> Outcome {
    let folder = tempfile::tempdir()?;
    let paths =
        [("h", "NVIDIA H200"), ("b", "NVIDIA B200")].map(|(name, gpu)| (folder.path().join(name), gpu));
    let all = [1, 2].map(|n| measured(&[("n", n.to_string())], "gemm", 1e3));
    for (path, gpu) in &paths {
        write_measured(path, &all, None, &[("gpu.name", gpu), ("bench.clock_mode", "base")])?;
    }
    let both = Collection::open(paths.iter().map(|(path, _)| path))?;
    let measured = Measurements::read(&both, &Filter::default())?;
    let told = texts(&measured.times(&Times::default())?);
    assert!(told.iter().any(|text| text.contains("clocks base") && !text.contains("NVIDIA")), "{told:?}");
    for (name, gpu) in [("h", "NVIDIA H200"), ("b", "NVIDIA B200")] {
        let expected = format!("{name} ({gpu}): gemm");
        assert!(told.contains(&expected), "{expected:?} is none of {told:?}");
    }
    let again = folder.path().join("again");
    write_measured(&again, &all, None, &[("gpu.name", "NVIDIA H200"), ("bench.clock_mode", "base")])?;
    let same = Collection::open([&paths[0].0, &again])?;
    let told = texts(&Measurements::read(&same, &Filter::default())?.times(&Times::default())?);
    assert!(told.iter().any(|text| text.contains("NVIDIA H200, clocks base")), "{told:?}");
    Ok(())
}

#[test]
fn shares_of_several_datasets_are_of_the_time_of_each() -> Outcome {
    let folder = tempfile::tempdir()?;
    let [path, again] = ["trace.cuprof", "again.cuprof"].map(|name| folder.path().join(name));
    let recording = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/recordings/quickstart.cuprofrec");
    for path in [&path, &again] {
        crate::Replay::open(recording)?.output(path).run()?;
    }
    let of = |paths: &[&std::path::PathBuf]| -> Result<String, Box<dyn std::error::Error>> {
        let plot = kernel_share(&Collection::open(paths)?, &Filter::default(), &Share::default())?;
        Ok(texts(&plot).into_iter().filter(|text| text.contains(" % of the ")).collect())
    };
    let part = |text: &str| {
        let end = text.find(" % of the ").unwrap_or_default();
        text[..end].rsplit(' ').next().map(str::to_owned)
    };
    let (one, two) = (of(&[&path])?, of(&[&path, &again])?);
    assert!(one.contains("kernel times add up to"), "{one}");
    assert_eq!(part(&one), part(&two), "{one} | {two}");
    assert!(two.contains("in 2 datasets") || !two.contains("elapsed"), "{two}");
    Ok(())
}

#[test]
fn a_range_without_traffic_is_not_said_to_be_without_operations() -> Outcome {
    let folder = tempfile::tempdir()?;
    let range = |bytes: f64, operations: f64| counted(bytes, [operations; 3]);
    let (usual, cached, copy) = (range(1e6, 1e7), range(0.0, 1e7), range(1e6, 0.0));
    let path = folder.path().join("counted.cuprof");
    write_counted(&path, &[("usual", &usual), ("cached", &cached), ("copy", &copy)], &[])?;
    let plot = roofline(&Collection::open([path])?, &Filter::default(), &Style::default())?;
    let told = texts(&plot).join(" ");
    assert!(told.contains("Without floating-point operations: copy"), "{told}");
    assert!(told.contains("Without a count of bytes of device memory above zero: cached"), "{told}");
    // No label lies on a roof.
    let roofs = plot.scene.shapes.iter().filter_map(|shape| match shape {
        Shape::Line { spots, color, .. } if *color == plot.scene.palette.text => Some(spots),
        _ => None,
    });
    for roof in roofs {
        for label in plot.scene.labels() {
            assert!(!label.area().is_crossed(roof), "{:?} lies on a roof", label.text);
        }
    }
    Ok(())
}

#[test]
fn values_of_a_legend_are_never_shortened() -> Outcome {
    let folder = tempfile::tempdir()?;
    let names: Vec<String> =
        (0..40).map(|layer| format!("decoder.layers.{layer}.self_attention.qkv_projection")).collect();
    let metrics = counted(1e6, [1e7; 3]);
    let ranges: Vec<(&str, &[(&str, f64)])> =
        names.iter().map(|name| (name.as_str(), metrics.as_slice())).collect();
    let path = folder.path().join("counted.cuprof");
    write_counted(&path, &ranges, &[])?;
    let plot = roofline(&Collection::open([path])?, &Filter::default(), &Style::default())?;
    let mut entries: Vec<String> = texts(&plot)
        .into_iter()
        .filter(|text| text.contains("FLOP/s, ") && text.ends_with(" peak"))
        .collect();
    entries.sort_unstable();
    entries.dedup();
    assert_eq!(entries.len(), 40, "{entries:?}");
    Ok(())
}

#[test]
fn bars_begin_at_zero_and_values_lie_on_no_bar() -> Outcome {
    let folder = tempfile::tempdir()?;
    let all: Vec<Measured> = (0..6_u32)
        .flat_map(|n| {
            (0..4).map(move |of| {
                measured(
                    &[("name", format!("\"n{n}\""))],
                    &format!("a{of}"),
                    10_f64.powi((n * 7 + of).rem_euclid(5) as i32),
                )
            })
        })
        .collect();
    let times = Times { form: Form::Bar, values: true, ..Times::default() };
    let measured = read(folder.path(), &all)?;
    let plot = measured.times(&times)?;
    let is_bar = |shape: &Shape| match shape {
        Shape::Box { area, color } if plot.scene.palette.series.contains(color) => Some(*area),
        _ => None,
    };
    // Those of the legend are 12 by 10.
    let bars: Vec<_> = plot
        .scene
        .shapes
        .iter()
        .filter_map(is_bar)
        .filter(|area| area.height != 10.0 || area.width != 12.0)
        .collect();
    assert_eq!(bars.len(), 24);
    for label in plot.scene.labels() {
        assert!(!bars.iter().any(|bar| bar.overlaps(&label.area())), "{:?} lies on a bar", label.text);
    }
    assert!(texts(&plot).iter().any(|text| text == "0"), "there is no zero: {:?}", texts(&plot));
    let log = measured.times(&Times { spacing: Spacing::Log, ..times })?;
    assert!(log.scene.shapes.iter().filter_map(is_bar).next().is_none(), "bars on a logarithmic axis");
    Ok(())
}

#[test]
fn a_roofline_of_a_measurement_keeps_configurations_apart_and_takes_their_times() -> Outcome {
    let folder = tempfile::tempdir()?;
    let counted = counted(1e6, [0.0, 0.0, 5e6]);
    let of = |n: u32, ns: f64| Measured {
        parameters: vec![("n".to_owned(), n.to_string())],
        annotation: "gemm".to_owned(),
        metric: ("gpu__time_duration.sum".to_owned(), "ns".to_owned()),
        values: vec![Some(0.9 * ns), None, Some(1.1 * ns)],
    };
    let ranges: [(&str, &[(&str, f64)]); 1] = [("step/gemm", &counted)];
    let path = folder.path().join("both.cuprof");
    write_measured_and_counted(&path, &[of(1, 1e5), of(2, 1e4)], &[&ranges, &ranges], &[])?;
    let plot = roofline(&Collection::open([path])?, &Filter::default(), &Style::default())?;
    let told = texts(&plot).join("\n");
    // 10^7 operations in 0.1 ms and in 0.01 ms, and not in the millisecond that was counted.
    for (name, speed) in [("step/gemm, n=1", "100 GFLOP/s"), ("step/gemm, n=2", "1 TFLOP/s")] {
        assert!(told.contains(name) && told.contains(speed), "{name} {speed}:\n{told}");
    }
    Ok(())
}
