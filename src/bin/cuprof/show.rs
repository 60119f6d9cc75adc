//! Datasets that are read.

use std::io::BufRead;
use std::path::{Path, PathBuf};

use cuprof::Table;
use cuprof::analysis::{Collection, Filter, Section, TraceError, View, terminal};
use cuprof::bench::Report;

use crate::args::{self, Format, Input, ReportFormat, TraceFormat};
use crate::color::Color;
use crate::exit::{Failure, INPUT, INTERNAL, USAGE, say, shown, verdict};
use crate::output::{Meter, Output, refuse_existing, refuse_inside, write_painted, write_text};

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
            return Err(Failure::new(USAGE, what));
        }
        _ => Section::Kernels,
    };
    let collection = open(&summary.input)?;
    refuse_inside(output, folders(&collection))?;
    let meter = Meter::new("reading");
    let filter = summary.input.filter();
    let digest = collection.digest(&filter, &|done, total| meter.tell(done, total))?;
    drop(meter);
    let counts = &digest.counts;
    if counts.launches + counts.transfers + counts.ranges == 0 {
        tell_unmatched(&collection, &filter)?;
    }
    let text = match summary.format {
        Format::Text => {
            let (width, symbols) = terminal();
            digest.to_text(&view, width, symbols)
        }
        Format::Markdown => digest.to_markdown(&view),
        Format::Csv => digest.to_csv(section, &view),
        Format::Json => digest.to_json(&view),
    };
    let color = if summary.format == Format::Text { summary.color } else { Color::Never };
    write_painted(output, destination.force, &text, color)?;
    Ok(verdict(&collection.missing(), summary.input.allow_losses))
}

pub fn report(arguments: &args::Report) -> Result<u8, Failure> {
    let paths = named(std::slice::from_ref(&arguments.path))?;
    let [path] = paths.as_slice() else {
        let what = format!("a report is of one dataset, and standard input names {}", paths.len());
        return Err(Failure::new(USAGE, what));
    };
    refuse_inside(arguments.destination.output.as_deref(), [path.as_path()])?;
    let report = Report::open(path)?;
    let collection = Collection::open([path])?;
    let text = match arguments.format {
        ReportFormat::Text => report.to_string(),
        ReportFormat::Markdown => report.markdown(),
        ReportFormat::Csv => report.csv(),
        ReportFormat::Compat => report.compat_csv(),
    };
    write_text(arguments.destination.output.as_deref(), arguments.destination.force, &text)?;
    Ok(verdict(&collection.missing(), arguments.allow_losses))
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
            let digest = collection.digest(&filter, &tell)?;
            drop(meter);
            if digest.counts.launches == 0 {
                tell_unmatched(&collection, &filter)?;
            }
            let stacks = digest.to_collapsed();
            write_text(path, destination.force, &stacks)?;
        }
        TraceFormat::Perfetto => {
            let mut output = Output::create_binary(path, destination.force)?;
            let traced = match collection.write_perfetto(&filter, &mut output, &tell) {
                Ok(traced) => traced,
                Err(TraceError::Read(error)) => return Err(error.into()),
                Err(TraceError::Write(error)) => return Err(output.failed(&error)),
                Err(other) => return Err(Failure::new(INTERNAL, other.to_string())),
            };
            drop(meter);
            if traced.slices + traced.instants + traced.counter_values == 0 {
                tell_unmatched(&collection, &filter)?;
            }
            output.finish()?;
        }
    }
    Ok(verdict(&collection.missing(), trace.input.allow_losses))
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
    let collection = Collection::open(named(&input.paths)?)?;
    for path in collection.repeated() {
        say(&format!("note: {} was named before, and is read once", shown(path)));
    }
    Ok(collection)
}

/// Says why nothing was found: what the filter misses; of all, what is there in place of records.
fn tell_unmatched(collection: &Collection, filter: &Filter) -> Result<(), Failure> {
    if !filter.is_all() {
        collection.unmatched(filter)?.iter().for_each(|why| say(&format!("note: {why}")));
        return Ok(());
    }
    for (table, what) in [
        (Table::Samples, "a measurement, which `cuprof report` prints and `cuprof plot` draws"),
        (Table::Metrics, "counters, in the table `metrics`; `cuprof plot --kind roofline` draws a roofline"),
    ] {
        if collection.rows(table) > 0 {
            say(&format!("note: there is no record of a kernel, but {what}"));
        }
    }
    Ok(())
}

/// The paths; for `-`, those that standard input has.
fn named(paths: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut named: Vec<PathBuf> = Vec::new();
    for path in paths {
        if path == Path::new("-") {
            let before = named.len();
            for line in std::io::stdin().lock().lines() {
                let line = line.map_err(|error| Failure::new(INPUT, format!("standard input: {error}")))?;
                named.extend((!line.is_empty()).then(|| line.into()));
            }
            if named.len() == before {
                let what = "standard input named no dataset\n  write the path of one on each line";
                return Err(Failure::new(USAGE, what));
            }
        } else {
            named.push(path.clone());
        }
    }
    Ok(named)
}

/// Where the datasets are.
pub fn folders(collection: &Collection) -> impl Iterator<Item = &Path> {
    collection.members().iter().map(|member| member.path.as_path())
}
