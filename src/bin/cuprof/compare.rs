//! Two sides compared.

use std::path::{Path, PathBuf};

use cuprof::analysis::terminal;
use cuprof::compare::{Collection, Compared, FailOn, Rules, SelfTest};

use crate::args::{self, CompareFormat};
use crate::color::Color;
use crate::exit::{Failure, INPUT, USAGE, verdict};
use crate::output::{refuse_existing, refuse_inside, write_painted};

pub fn run(compare: &args::Compare) -> Result<u8, Failure> {
    let destination = &compare.destination;
    let output = destination.output.as_deref().filter(|output| *output != Path::new("-"));
    if let Some(output) = output {
        // Before the work, not after it.
        refuse_existing(output, destination.force)?;
    }
    if compare.aa && !matches!(compare.format, CompareFormat::Text | CompareFormat::Json) {
        return Err(Failure::new(USAGE, "--aa is printed as text or as json"));
    }
    refuse_inside(output, [&compare.base].into_iter().chain(&compare.new).map(PathBuf::as_path))?;
    let rules = rules(compare);
    let base = Collection::open([&compare.base])?;
    let mut missing = base.missing();
    let (text, code) = if compare.aa {
        let test = rules.self_test(&base)?;
        (print_self_test(&test, compare), test.exit_code(compare.allow_losses))
    } else {
        let compared = match (&compare.annotations, &compare.new) {
            (Some(names), _) => match names.as_slice() {
                [old, new] => rules.compare_annotations(&base, old, new)?,
                _ => return Err(Failure::new(USAGE, "--annotations takes two names")),
            },
            (None, Some(new)) => {
                let new = Collection::open([new])?;
                missing.extend(new.missing());
                rules.compare(&base, &new)?
            }
            (None, None) => return Err(Failure::new(USAGE, "there is nothing to compare with")),
        };
        let code = compared.exit_code(fail_on(compare), compare.allow_losses);
        (print(&compared, compare), code)
    };
    let color = if compare.format == CompareFormat::Text { compare.color } else { Color::Never };
    match write_painted(output, destination.force, &text, color) {
        // Who reads no further still wants to know how it ends.
        Err(failure) if !failure.is_closed_pipe() => Err(failure),
        _ if code == INPUT => Ok(verdict(&missing, compare.allow_losses)),
        _ => Ok(code),
    }
}

fn rules(compare: &args::Compare) -> Rules {
    let mut rules = Rules::default();
    rules.margin = compare.margin;
    rules.block_runs = compare.block;
    rules.metric.clone_from(&compare.metric);
    rules.kernels = compare.kernels;
    rules.allow.clone_from(&compare.allow);
    rules.allow_single_run = compare.allow_single_run;
    rules.allow_unknown_clock = compare.allow_unknown_clock;
    rules
}

fn fail_on(compare: &args::Compare) -> FailOn {
    match compare.fail_on {
        args::FailOn::Inconclusive => FailOn::Inconclusive,
        args::FailOn::Slower => FailOn::Slower,
    }
}

fn top(compare: &args::Compare) -> Option<usize> {
    (!compare.all).then_some(compare.top)
}

fn print(compared: &Compared, compare: &args::Compare) -> String {
    match compare.format {
        CompareFormat::Text => {
            let (width, symbols) = terminal();
            compared.to_text(top(compare), width, symbols)
        }
        CompareFormat::Markdown => compared.to_markdown(top(compare)),
        CompareFormat::Json => compared.to_json(fail_on(compare), compare.allow_losses),
        CompareFormat::Junit => compared.to_junit(),
    }
}

fn print_self_test(test: &SelfTest, compare: &args::Compare) -> String {
    if compare.format == CompareFormat::Json {
        return test.to_json(compare.allow_losses);
    }
    let (width, symbols) = terminal();
    test.to_text(top(compare), width, symbols)
}
