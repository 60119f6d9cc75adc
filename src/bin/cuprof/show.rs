//! Datasets that are read.

use std::io::BufRead;
use std::path::{Path, PathBuf};

use cuprof::analysis::{Collection, Section, TraceError, View, terminal};
use cuprof::bench::Report;

use crate::args::{self, Format, Input, ReportFormat, TraceFormat};
use crate::exit::{Failure, INPUT, INTERNAL, SUCCESS};
use crate::output::{Meter, Output, refuse_existing, refuse_inside, write_text};

pub fn summary(summary: &args::Summary) -> Result<u8, Failure> {
    let destination = &summary.destination;
    let output = destination.output.as_deref().filter(|output| *output != Path::new("-"));
    if let Some(output) = output {
        // Before the work, not after it.
        refuse_existing(output, destination.force)?;
    }
    let view = view(summary);
    let section = match (summary.format, view.sections.as_slice()) {
        (Format::Csv, [section]) => *section,
        (Format::Csv, _) if summary.show.is_empty() => Section::Kernels,
        (Format::Csv, _) => {
            let what = "csv prints one section: name one with --show, or use --format json";
            return Err(Failure::new(crate::exit::USAGE, what));
        }
        _ => Section::Kernels,
    };
    let collection = open(&summary.input)?;
    refuse_inside(output, folders(&collection))?;
    let meter = Meter::new("reading");
    let digest = collection.digest(&summary.input.filter(), &|done, total| meter.tell(done, total))?;
    drop(meter);
    let text = match summary.format {
        Format::Text => {
            let (width, symbols) = terminal();
            let text = digest.to_text(&view, width, symbols);
            if output.is_none() { summary.color.paint(&text) } else { text }
        }
        Format::Markdown => digest.to_markdown(&view),
        Format::Csv => digest.to_csv(section, &view),
        Format::Json => digest.to_json(&view),
    };
    write_text(output, destination.force, &text)?;
    Ok(verdict(&collection, &summary.input))
}

pub fn report(arguments: &args::Report) -> Result<u8, Failure> {
    refuse_inside(arguments.destination.output.as_deref(), [arguments.path.as_path()])?;
    let report = Report::open(&arguments.path)?;
    let text = match arguments.format {
        ReportFormat::Text => report.to_string(),
        ReportFormat::Markdown => report.markdown(),
        ReportFormat::Csv => report.csv(),
        ReportFormat::Compat => report.compat_csv(),
    };
    write_text(arguments.destination.output.as_deref(), arguments.destination.force, &text)?;
    let is_whole = report.losses().is_empty() || arguments.allow_losses;
    Ok(if is_whole { SUCCESS } else { INPUT })
}

pub fn trace(trace: &args::Trace) -> Result<u8, Failure> {
    let destination = &trace.destination;
    let path = destination.output.as_deref();
    let collection = open(&trace.input)?;
    refuse_inside(path, folders(&collection))?;
    let filter = trace.input.filter();
    let meter = Meter::new("drawing");
    let tell = |done, total| meter.tell(done, total);
    match trace.format {
        TraceFormat::Collapsed => {
            let stacks = collection.digest(&filter, &tell)?.to_collapsed();
            drop(meter);
            write_text(path, destination.force, &stacks)?;
        }
        TraceFormat::Perfetto => {
            let mut output = Output::create_binary(path, destination.force)?;
            match collection.write_perfetto(&filter, &mut output, &tell) {
                Ok(_traced) => {}
                Err(TraceError::Read(error)) => return Err(error.into()),
                Err(TraceError::Write(error)) => return Err(output.failed(&error)),
                Err(other) => return Err(Failure::new(INTERNAL, other.to_string())),
            }
            drop(meter);
            output.finish()?;
        }
    }
    Ok(verdict(&collection, &trace.input))
}

fn view(summary: &args::Summary) -> View {
    let mut view = View::default();
    if !summary.show.is_empty() {
        view.sections = summary.show.iter().map(|part| (*part).into()).collect();
    }
    view.sort = summary.sort.into();
    let is_for_people = matches!(summary.format, Format::Text | Format::Markdown);
    view.top = match summary.top {
        Some(top) => Some(top),
        None if summary.all || !is_for_people => None,
        None => view.top,
    };
    view
}

/// Opens what was named.
pub fn open(input: &Input) -> Result<Collection, Failure> {
    let mut paths: Vec<PathBuf> = Vec::new();
    for path in &input.paths {
        if path == Path::new("-") {
            for line in std::io::stdin().lock().lines() {
                let line = line.map_err(|error| Failure::new(INPUT, format!("standard input: {error}")))?;
                paths.extend((!line.is_empty()).then(|| line.into()));
            }
        } else {
            paths.push(path.clone());
        }
    }
    Ok(Collection::open(paths)?)
}

/// Where the datasets are.
pub fn folders(collection: &Collection) -> impl Iterator<Item = &Path> {
    collection.members().iter().map(|member| member.path.as_path())
}

/// The exit code of a result that has been printed.
pub fn verdict(collection: &Collection, input: &Input) -> u8 {
    if collection.is_lossy() && !input.allow_losses { INPUT } else { SUCCESS }
}
