//! Pictures of datasets.

use std::io::Write;
use std::path::Path;

use clap::{Args, ValueEnum};
use cuprof::Pattern;
use cuprof::analysis::Collection;
use cuprof::plot::{
    DEFAULT_KERNELS, DEFAULT_PIXEL_RATIO, DEFAULT_WIDTH, Distribution, Form, Measurements, Plot, Share,
    Spacing, Statistic, Style, Theme, Times, kernel_share, roofline,
};
use cuprof::{ErrorKind, Table};

use crate::args::{Destination, Input};
use crate::exit::{Failure, USAGE, verdict};
use crate::output::Output;
use crate::show::open;

#[derive(Args, Debug)]
pub struct PlotArguments {
    #[command(flatten)]
    pub input: Input,
    #[command(flatten)]
    pub destination: Destination,
    /// What to draw; what the dataset has by default: times, else a roofline, else the share of kernels
    #[arg(short, long, value_enum)]
    pub kind: Option<Kind>,
    /// What to write; what the output's name ends in by default
    #[arg(short, long, value_enum)]
    pub format: Option<Format>,

    /// The metric, for times and samples; the first that was measured by default
    #[arg(long, value_name = "NAME", help_heading = "Measurements")]
    pub metric: Option<String>,
    /// Only configurations that match, as they are written: 'n=512*', '*half=true'
    #[arg(long, value_name = "GLOB", help_heading = "Measurements", value_parser = Pattern::glob)]
    pub config: Option<Pattern>,
    /// What stands for the runs; the median by default, whose interval takes six independent runs
    #[arg(long, value_enum, help_heading = "Measurements")]
    pub statistic: Option<Stands>,
    /// Lines or bars; by default lines over numbers, bars over anything else
    #[arg(long, value_enum, help_heading = "Measurements")]
    pub form: Option<Shape>,
    /// The parameters along the axis; by default the number with the most values
    #[arg(long, value_name = "PARAMETER", value_delimiter = ',', help_heading = "Measurements")]
    pub x: Vec<String>,
    /// The parameter whose values are panels below each other
    #[arg(long, value_name = "PARAMETER", help_heading = "Measurements")]
    pub rows: Option<String>,
    /// The parameter whose values are panels beside each other
    #[arg(long, value_name = "PARAMETER", help_heading = "Measurements")]
    pub columns: Option<String>,
    /// Divide by the values of this annotation, run by run
    #[arg(long, value_name = "ANNOTATION", help_heading = "Measurements")]
    pub relative_to: Option<String>,
    /// How values are spaced
    #[arg(long, value_enum, default_value_t, help_heading = "Measurements")]
    pub spacing: Spaced,
    /// Write each value beside its point, where there is room
    #[arg(long, help_heading = "Measurements")]
    pub values: bool,
    /// Kernels that are shown by themselves, for the share of kernels
    #[arg(long, value_name = "N", default_value_t = DEFAULT_KERNELS, help_heading = "Share of kernels")]
    pub top: usize,

    /// What it is to be read on
    #[arg(long, value_enum, default_value_t, help_heading = "Looks")]
    pub theme: Ground,
    /// The title; one that says what is shown by default
    #[arg(long, help_heading = "Looks")]
    pub title: Option<String>,
    /// Width in pixels
    #[arg(long, value_name = "PIXELS", default_value_t = DEFAULT_WIDTH, help_heading = "Looks",
        value_parser = clap::value_parser!(u32).range(320..=8_000))]
    pub width: u32,
    /// Height of the panels in pixels, to which title, legend and notes come
    #[arg(long, value_name = "PIXELS", help_heading = "Looks", value_parser = clap::value_parser!(u32).range(120..=8_000))]
    pub height: Option<u32>,
    /// Pixels of a PNG for each pixel of width and height
    #[arg(long, value_name = "RATIO", default_value_t = DEFAULT_PIXEL_RATIO, help_heading = "Looks")]
    pub pixel_ratio: f64,
}

/// What is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// A metric over configurations, with intervals
    Times,
    /// The distribution of the runs
    Samples,
    /// What counted ranges reached of what the GPU can do
    Roofline,
    /// The share of each kernel over time
    Share,
}

/// What is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Shapes and texts
    Svg,
    /// Pixels
    Png,
}

/// What stands for the runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Stands {
    /// With its interval by ranks
    Median,
    /// With its interval by Student's t
    Mean,
}

/// How values are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Shape {
    /// Points, joined
    Line,
    /// Side by side
    Bar,
}

/// How values are spaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Spaced {
    /// Logarithmic where the spread demands it, else linear from zero
    #[default]
    Auto,
    /// From zero
    Linear,
    /// From the least value to the greatest
    Fit,
    /// Logarithmic
    Log,
}

/// What a picture is to be read on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Ground {
    /// Dark on white
    #[default]
    Light,
    /// Light on dark grey
    Dark,
}

pub fn plot(arguments: &PlotArguments) -> Result<u8, Failure> {
    let Destination { output: path, force } = &arguments.destination;
    let path = path.as_deref().filter(|path| *path != Path::new("-"));
    let format = format(path, arguments.format)?;
    if !(0.1..=16.0).contains(&arguments.pixel_ratio) {
        return Err(Failure::new(USAGE, "--pixel-ratio takes a number from 0.1 to 16"));
    }
    // Before the work, not after it.
    if let Some(path) = path {
        crate::output::refuse_existing(path, *force)?;
    }
    let collection = open(&arguments.input)?;
    crate::output::refuse_inside(path, crate::show::folders(&collection))?;
    let plot = draw(arguments, &collection)?;
    let bytes = match format {
        Format::Svg => plot.to_svg().into_bytes(),
        Format::Png => plot.to_png(arguments.pixel_ratio)?,
    };
    let mut output = match format {
        Format::Svg => Output::create(path, *force)?,
        Format::Png => Output::create_binary(path, *force)?,
    };
    if let Err(error) = output.write_all(&bytes) {
        return Err(output.failed(&error));
    }
    output.finish()?;
    let boxed = plot.boxed_letters();
    if format == Format::Png && !boxed.is_empty() {
        const TOLD: usize = 8;
        let told: String = boxed.iter().take(TOLD).collect();
        let more = if boxed.len() > TOLD { "…" } else { "" };
        let _ = writeln!(
            std::io::stderr(),
            "note: letters that the font of PNG does not have are boxes ({told}{more}): an SVG has them"
        );
    }
    Ok(verdict(&collection.missing(), arguments.input.allow_losses))
}

/// What to write: what was asked for, else what the name says.
fn format(path: Option<&Path>, asked: Option<Format>) -> Result<Format, Failure> {
    let Some(path) = path else { return Ok(asked.unwrap_or(Format::Svg)) };
    let end = path.extension().map(|end| end.to_string_lossy().to_ascii_lowercase());
    match (asked, end.as_deref()) {
        (Some(Format::Svg), Some("png")) | (Some(Format::Png), Some("svg")) => {
            let what =
                format!("--format is not what the name {} says: leave one of them out", path.display());
            Err(Failure::new(USAGE, what))
        }
        (Some(asked), _) => Ok(asked),
        (None, Some("svg")) => Ok(Format::Svg),
        (None, Some("png")) => Ok(Format::Png),
        _ => {
            let what =
                format!("{} ends neither in .svg nor in .png: say which with --format", path.display());
            Err(Failure::new(USAGE, what))
        }
    }
}

fn draw(arguments: &PlotArguments, collection: &Collection) -> Result<Plot, Failure> {
    let filter = arguments.input.filter();
    let mut style = Style::default();
    style.theme = match arguments.theme {
        Ground::Light => Theme::Light,
        Ground::Dark => Theme::Dark,
    };
    style.title.clone_from(&arguments.title);
    (style.width, style.height) = (arguments.width, arguments.height);
    let kind = arguments.kind.unwrap_or_else(|| match () {
        () if collection.rows(Table::Aggregates) > 0 => Kind::Times,
        () if collection.rows(Table::Metrics) > 0 => Kind::Roofline,
        () => Kind::Share,
    });
    let measured = || match &arguments.config {
        Some(configs) => Measurements::read(collection, &filter)?.only(configs),
        None => Measurements::read(collection, &filter),
    };
    let drawn = match kind {
        Kind::Times => {
            let mut times = Times::default();
            times.metric.clone_from(&arguments.metric);
            times.statistic = arguments.statistic.map(|statistic| match statistic {
                Stands::Median => Statistic::Median,
                Stands::Mean => Statistic::Mean,
            });
            times.form = match arguments.form {
                None => Form::Auto,
                Some(Shape::Line) => Form::Line,
                Some(Shape::Bar) => Form::Bar,
            };
            times.x.clone_from(&arguments.x);
            times.rows.clone_from(&arguments.rows);
            times.columns.clone_from(&arguments.columns);
            times.relative_to.clone_from(&arguments.relative_to);
            times.spacing = spacing(arguments.spacing);
            times.values = arguments.values;
            times.style = style;
            measured().and_then(|measured| measured.times(&times))
        }
        Kind::Samples => {
            let mut distribution = Distribution::default();
            distribution.metric.clone_from(&arguments.metric);
            distribution.spacing = spacing(arguments.spacing);
            distribution.style = style;
            measured().and_then(|measured| measured.distribution(&distribution))
        }
        Kind::Roofline => roofline(collection, &filter, &style),
        Kind::Share => {
            let mut share = Share::default();
            share.kernels = arguments.top;
            share.style = style;
            kernel_share(collection, &filter, &share)
        }
    };
    drawn.map_err(|error| in_words(error).into())
}

/// What to do next as it is done here.
fn in_words(error: cuprof::Error) -> cuprof::Error {
    if error.kind != ErrorKind::Format {
        return error;
    }
    match error.hint.as_deref() {
        Some(hint) if hint.contains("draw the kernels' share") => {
            error.with_hint("a measurement is written by Bench::output or bench::Report::write; of a trace, draw --kind share")
        }
        Some(hint) if hint.contains("draw its times") => {
            error.with_hint("a trace is written by Profiler; of a measurement, draw --kind times or samples")
        }
        _ => error,
    }
}

fn spacing(spaced: Spaced) -> Spacing {
    match spaced {
        Spaced::Auto => Spacing::Auto,
        Spaced::Linear => Spacing::Linear,
        Spaced::Fit => Spacing::Fit,
        Spaced::Log => Spacing::Log,
    }
}
