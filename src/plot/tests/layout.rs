//! Nothing covers anything, whatever is drawn.

use proptest::prelude::*;

use super::super::scene::{Area, Label, Scene};
use super::super::{Distribution, Form, Plot, Share, Spacing, Style, Theme, Times, kernel_share, roofline};
use super::{Outcome, measured, read};
use crate::analysis::{Collection, Filter};
use crate::testing::{Measured, write_counted};

/// The labels that overlap, and those that leave the picture.
fn faults(scene: &Scene) -> Vec<String> {
    let whole = Area { x: 0.0, y: 0.0, width: scene.width, height: scene.height };
    let labels: Vec<(&Label, Area)> = scene.labels().map(|label| (label, label.area())).collect();
    let mut faults = Vec::new();
    for (place, (label, area)) in labels.iter().enumerate() {
        if !whole.contains(area) {
            faults.push(format!("{:?} leaves the picture: {area:?} of {whole:?}", label.text));
        }
        for (other, other_area) in &labels[..place] {
            if area.overlaps(other_area) {
                faults.push(format!("{:?} covers {:?}", label.text, other.text));
            }
        }
    }
    faults
}

/// What is to be drawn, in any form.
#[derive(Clone, Debug)]
struct Any {
    configs: usize,
    annotations: usize,
    /// Kinds of a second parameter.
    kinds: usize,
    is_number: bool,
    name_letters: usize,
    /// Values run from 1 to this power of ten.
    powers: f64,
    width: u32,
    height: Option<u32>,
    form: Form,
    spacing: Spacing,
    panels: bool,
    values: bool,
}

fn any_picture() -> impl Strategy<Value = Any> {
    let sizes = (1_usize..45, 1_usize..5, 1_usize..5, any::<bool>(), 1_usize..90, 0.0..10.0_f64);
    let forms = prop_oneof![Just(Form::Auto), Just(Form::Line), Just(Form::Bar)];
    let spacings =
        prop_oneof![Just(Spacing::Auto), Just(Spacing::Linear), Just(Spacing::Fit), Just(Spacing::Log)];
    let looks =
        (300_u32..1_600, proptest::option::of(120_u32..900), forms, spacings, any::<bool>(), any::<bool>());
    (sizes, looks).prop_map(|(sizes, looks)| {
        let (configs, annotations, kinds, is_number, name_letters, powers) = sizes;
        let (width, height, form, spacing, panels, values) = looks;
        Any {
            configs,
            annotations,
            kinds,
            is_number,
            name_letters,
            powers,
            width,
            height,
            form,
            spacing,
            panels,
            values,
        }
    })
}

impl Any {
    fn measured(&self) -> Vec<Measured> {
        let long =
            |what: &str, number: usize| format!("{what}{}{number}", "_name".repeat(self.name_letters / 5));
        let mut all = Vec::new();
        for config in 0..self.configs {
            let x = if self.is_number {
                (1_u64 << config).to_string()
            } else {
                format!("\"{}\"", long("x", config))
            };
            for kind in 0..self.kinds {
                let parameters = [("x", x.clone()), ("kind", format!("\"{}\"", long("k", kind)))];
                for annotation in 0..self.annotations {
                    let part =
                        (config * 7 + annotation) as f64 / (self.configs * 7 + self.annotations) as f64;
                    all.push(measured(&parameters, &long("a", annotation), 10_f64.powf(self.powers * part)));
                }
            }
        }
        all
    }

    fn draw(&self) -> Result<[Plot; 2], Box<dyn std::error::Error>> {
        let folder = tempfile::tempdir()?;
        let measured = read(folder.path(), &self.measured())?;
        let style = Style { width: self.width, height: self.height, ..Style::default() };
        let times = Times {
            form: self.form,
            spacing: self.spacing,
            columns: (self.panels && self.kinds > 1).then(|| "kind".to_owned()),
            values: self.values,
            style: style.clone(),
            ..Times::default()
        };
        let distribution = Distribution { spacing: self.spacing, style, ..Distribution::default() };
        Ok([measured.times(&times)?, measured.distribution(&distribution)?])
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn no_label_covers_another_or_leaves_the_picture(any in any_picture()) {
        for plot in any.draw().map_err(|error| TestCaseError::fail(error.to_string()))? {
            prop_assert_eq!(faults(&plot.scene), Vec::<String>::new());
        }
    }
}

#[test]
fn nor_in_a_roofline_or_over_time() -> Outcome {
    let folder = tempfile::tempdir()?;
    let (trace, counted) = (folder.path().join("trace.cuprof"), folder.path().join("counted.cuprof"));
    let recording = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/recordings/quickstart.cuprofrec");
    crate::Replay::open(recording)?.output(&trace).run()?;
    let peak = |precision: char| {
        format!("sm__sass_thread_inst_executed_op_{precision}fma_pred_on.sum.peak_sustained")
    };
    let executed = |precision: char, what: &str| {
        format!("smsp__sass_thread_inst_executed_op_{precision}{what}_pred_on.sum")
    };
    // Three peaks that lie close to each other, and points all along the slope.
    let range = |part: f64| {
        let mut metrics = vec![
            ("gpu__time_duration.sum".to_owned(), 1e6),
            ("sm__cycles_elapsed.avg.per_second".to_owned(), 1e9),
            ("dram__cycles_elapsed.avg.per_second".to_owned(), 1e9),
            ("dram__bytes.sum".to_owned(), 9e8),
            ("dram__bytes.sum.peak_sustained".to_owned(), 1_000.0),
        ];
        for (precision, most) in [('f', 1_000.0), ('d', 960.0), ('h', 1_040.0)] {
            metrics.push((peak(precision), most));
            metrics.extend(["add", "mul", "fma"].map(|what| (executed(precision, what), 1e8 * part)));
        }
        metrics
    };
    let names: Vec<String> =
        (0..12).map(|place| format!("{}/{place}", "a_long_name_of_a_range".repeat(4))).collect();
    let ranges: Vec<_> = (0..12).map(|place| range(1.6_f64.powi(place) / 100.0)).collect();
    let ranges: Vec<Vec<(&str, f64)>> = ranges
        .iter()
        .map(|metrics| metrics.iter().map(|(name, value)| (name.as_str(), *value)).collect())
        .collect();
    let ranges: Vec<(&str, &[(&str, f64)])> =
        names.iter().zip(&ranges).map(|(name, metrics)| (name.as_str(), metrics.as_slice())).collect();
    write_counted(&counted, &ranges, &[])?;
    let (trace, counted) = (Collection::open([trace])?, Collection::open([counted])?);
    for width in [320, 500, 880, 1_600] {
        let style = Style { width, ..Style::default() };
        let plot = roofline(&counted, &Filter::default(), &style)?;
        assert_eq!(faults(&plot.scene), Vec::<String>::new(), "{width}");
        assert!(plot.to_svg().contains("device memory 1 TB/s"), "{width}");
        let share = Share { style, ..Share::default() };
        assert_eq!(faults(&kernel_share(&trace, &Filter::default(), &share)?.scene), Vec::<String>::new());
    }
    Ok(())
}

#[test]
fn the_same_measurements_give_the_same_bytes_and_themes_differ_in_colours_alone() -> Outcome {
    let folder = tempfile::tempdir()?;
    let all: Vec<Measured> =
        (1..4_u32).map(|n| measured(&[("n", n.to_string())], "a", f64::from(n))).collect();
    let measured = read(folder.path(), &all)?;
    let style = |theme| Times { style: Style { theme, ..Style::default() }, ..Times::default() };
    let light = measured.times(&style(Theme::Light))?;
    assert_eq!(light.to_svg(), measured.times(&style(Theme::Light))?.to_svg());
    assert!(light.to_png(1.0)? == measured.times(&style(Theme::Light))?.to_png(1.0)?);
    let dark = measured.times(&style(Theme::Dark))?;
    let without_colours = |svg: &str| -> String {
        svg.split('#').map(|part| part.get(6..).filter(|_| !part.starts_with('<')).unwrap_or(part)).collect()
    };
    assert_ne!(light.to_svg(), dark.to_svg());
    assert_eq!(without_colours(&light.to_svg()), without_colours(&dark.to_svg()));
    Ok(())
}

#[test]
fn names_are_escaped_and_a_png_has_its_size() -> Outcome {
    let folder = tempfile::tempdir()?;
    let measured = read(folder.path(), &[measured(&[], "a<b> & \"c\"\n\u{1}", 5.0)])?;
    let plot = measured.times(&Times::default())?;
    let svg = plot.to_svg();
    assert!(svg.contains("a&lt;b&gt; &amp; &quot;c&quot;"), "{svg}");
    assert!(!svg.contains('\u{1}'));
    let png = plot.to_png(2.0)?;
    let side = |at: usize| {
        png.get(at..at + 4).map(|bytes| u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    };
    let (width, height) = plot.size();
    assert_eq!((side(16), side(20)), (Some(2 * width as u32), Some(2 * height as u32)));
    Ok(())
}

/// The least contrast of text and of what shows values with the background, by WCAG 2.2.
#[test]
fn text_and_series_stand_out_from_the_background() {
    let luminance = |color: [u8; 3]| {
        let linear = |value: u8| {
            let value = f64::from(value) / 255.0;
            if value <= 0.040_45 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * linear(color[0]) + 0.7152 * linear(color[1]) + 0.0722 * linear(color[2])
    };
    let contrast = |a, b| {
        let (a, b) = (luminance(a), luminance(b));
        (f64::max(a, b) + 0.05) / (f64::min(a, b) + 0.05)
    };
    for theme in [Theme::Light, Theme::Dark] {
        let palette = theme.palette();
        for text in [palette.text, palette.muted, palette.warning] {
            assert!(contrast(text, palette.background) >= 4.5, "{theme:?} {text:?}");
        }
        for series in palette.series {
            assert!(contrast(series, palette.background) >= 2.0, "{theme:?} {series:?}");
        }
    }
}
