//! What cannot be drawn is refused, with what can.

use super::super::{Distribution, Form, Share, Style, Times, kernel_share, roofline};
use super::{Outcome, measured, read};
use crate::analysis::{Collection, Filter};
use crate::error::{Error, ErrorKind};
use crate::pattern::Pattern;
use crate::plot::Measurements;
use crate::testing::{Measured, write_measured};

fn told<T>(result: Result<T, Error>) -> Result<(ErrorKind, String), &'static str> {
    result.err().map(|error| (error.kind, error.to_string())).ok_or("it was not refused")
}

#[test]
fn a_name_that_is_not_there_is_told_with_those_that_are_like_it() -> Outcome {
    let folder = tempfile::tempdir()?;
    let sizes = [1, 2].map(|n| measured(&[("size", n.to_string())], "gemm", 1e3));
    let measured = read(folder.path(), &sizes)?;
    let metric = Times { metric: Some("gpu__time_duration".to_owned()), ..Times::default() };
    let (kind, text) = told(measured.times(&metric))?;
    assert!(kind == ErrorKind::Config && text.contains("there is: gpu__time_duration.sum"), "{text}");
    let (_, text) = told(measured.times(&Times { x: vec!["sice".to_owned()], ..Times::default() }))?;
    assert!(text.contains("no parameter \"sice\"") && text.contains("size"), "{text}");
    let (_, text) = told(measured.times(&Times { relative_to: Some("gem".to_owned()), ..Times::default() }))?;
    assert!(text.contains("no annotation \"gem\"") && text.contains("gemm"), "{text}");
    let twice = Times { x: vec!["size".to_owned()], rows: Some("size".to_owned()), ..Times::default() };
    assert!(told(measured.times(&twice))?.1.contains("in two places"));
    let alone = Times { relative_to: Some("gemm".to_owned()), ..Times::default() };
    assert!(told(measured.times(&alone))?.1.contains("nothing but the annotation"));
    let distribution = Distribution { metric: Some("x".to_owned()), ..Distribution::default() };
    assert_eq!(told(measured.distribution(&distribution))?.0, ErrorKind::Config);
    Ok(())
}

#[test]
fn a_dataset_without_what_is_asked_for_says_what_makes_it() -> Outcome {
    let folder = tempfile::tempdir()?;
    let trace = folder.path().join("trace.cuprof");
    let recording = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/recordings/quickstart.cuprofrec");
    crate::Replay::open(recording)?.output(&trace).run()?;
    let trace = Collection::open([trace])?;
    let all = Filter::default();
    let (kind, text) = told(Measurements::read(&trace, &all))?;
    assert!(kind == ErrorKind::Format && text.contains("bench::Report::write"), "{text}");
    let (kind, text) = told(roofline(&trace, &all, &Style::default()))?;
    assert!(kind == ErrorKind::Format && text.contains("preset roofline"), "{text}");
    let nothing = Filter { kernel: Some(Pattern::glob("nothing")?), ..Filter::default() };
    assert_eq!(told(kernel_share(&trace, &nothing, &Share::default()))?.0, ErrorKind::Config);

    let measurement = folder.path().join("measured.cuprof");
    write_measured(&measurement, &[measured(&[], "a", 1.0)], None, &[])?;
    let measurement = Collection::open([measurement])?;
    let (kind, text) = told(kernel_share(&measurement, &all, &Share::default()))?;
    assert!(kind == ErrorKind::Format && text.contains("no kernel with valid times"), "{text}");
    let other = Filter { range: Some(Pattern::glob("b")?), ..Filter::default() };
    assert_eq!(told(Measurements::read(&measurement, &other))?.0, ErrorKind::Config);
    Ok(())
}

#[test]
fn values_that_no_axis_has_a_place_for_are_drawn_all_the_same() -> Outcome {
    let folder = tempfile::tempdir()?;
    let odd =
        |name: &str, values: &[Option<f64>]| Measured { values: values.to_vec(), ..measured(&[], name, 0.0) };
    let all = [
        odd("none", &[]),
        odd("failed", &[None, None]),
        odd("zero", &[Some(0.0), Some(0.0)]),
        odd("less", &[Some(-5.0), Some(-3.0)]),
        odd("huge", &[Some(1e300), Some(f64::MAX / 4.0)]),
        odd("tiny", &[Some(1e-300)]),
    ];
    let measured = read(folder.path(), &all)?;
    for form in [Form::Auto, Form::Line, Form::Bar] {
        for spacing in [super::super::Spacing::Auto, super::super::Spacing::Log, super::super::Spacing::Fit] {
            let svg = measured.times(&Times { form, spacing, values: true, ..Times::default() })?.to_svg();
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{form:?} {spacing:?}\n{svg}");
            let svg = measured.distribution(&Distribution { spacing, ..Distribution::default() })?.to_svg();
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{spacing:?}\n{svg}");
        }
    }
    Ok(())
}

#[test]
fn a_file_that_exists_is_not_replaced_and_its_name_says_what_it_is() -> Outcome {
    let folder = tempfile::tempdir()?;
    let plot = read(folder.path(), &[measured(&[], "a", 1.0)])?.times(&Times::default())?;
    let svg = folder.path().join("a.svg");
    plot.write(&svg)?;
    assert_eq!(std::fs::read_to_string(&svg)?, plot.to_svg());
    assert_eq!(told(plot.write(&svg))?.0, ErrorKind::OutputExists);
    assert_eq!(told(plot.write(folder.path().join("a.gif")))?.0, ErrorKind::Config);
    assert_eq!(told(plot.to_png(1e3))?.0, ErrorKind::Config);
    Ok(())
}
