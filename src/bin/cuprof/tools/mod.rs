//! Fronts of the library's tools.

pub mod metrics;

use std::path::Path;

use clap::CommandFactory;
use cuprof::{ErrorKind, ResetOutcome};

use crate::args::{self, Arguments};
use crate::exit::{Failure, INPUT, NOT_READY, OUTPUT, SUCCESS, UNAVAILABLE, shown, verdict};
use crate::output::{Unfinished, behind_links, cannot, refuse_existing, refuse_existing_with, write_text};

pub fn doctor() -> Result<u8, Failure> {
    let diagnosis = cuprof::doctor();
    write_text(None, false, &diagnosis.to_string())?;
    Ok(if diagnosis.can_trace() { SUCCESS } else { NOT_READY })
}

pub fn recover(recover: &args::Recover) -> Result<u8, Failure> {
    let recovery = cuprof::recover(&recover.path)?;
    write_text(None, false, &recovery.to_string())?;
    Ok(if recovery.rows.is_empty() { INPUT } else { SUCCESS })
}

pub fn reset_clocks() -> Result<u8, Failure> {
    let resets = cuprof::reset_clocks(None)?;
    let mut text = String::new();
    if resets.is_empty() {
        text += "no process of cuprof has ever pinned clocks here\n";
    }
    let mut failed = false;
    for reset in &resets {
        let what = match &reset.outcome {
            ResetOutcome::Nothing => "nothing was left".to_owned(),
            ResetOutcome::Held(Some(pid)) => format!("process {pid} has the clocks, and keeps them"),
            ResetOutcome::Held(None) => "a process has the clocks, and keeps them".to_owned(),
            ResetOutcome::Released(pid) => format!("released what process {pid} had left"),
            ResetOutcome::Outlived(pid) => format!("what process {pid} had left went with a reboot"),
            ResetOutcome::Failed(error) => {
                failed = true;
                error.to_string()
            }
            other => format!("{other:?}"),
        };
        text += &format!("{}: {what}\n", reset.gpu_uuid);
    }
    write_text(None, false, &text)?;
    Ok(if failed { UNAVAILABLE } else { SUCCESS })
}

pub fn replay(replay: &args::Replay) -> Result<u8, Failure> {
    if replay.recording.is_dir() {
        let what = format!("{} is a folder, and a recording is a file", shown(&replay.recording));
        return Err(Failure::new(
            INPUT,
            format!("{what}\n  datasets are folders: `cuprof summary` reads them"),
        ));
    }
    let output = match &replay.output {
        Some(output) => output.clone(),
        None => Path::new(replay.recording.file_name().unwrap_or_default()).with_extension("cuprof"),
    };
    refuse_existing_with(&output, replay.force, "a dataset is a folder: name one that is not there yet")?;
    let output = behind_links(&output)?;
    let is_input = replay.recording == Path::new("-");
    let recording = cuprof::Replay::open(if is_input { Path::new("/dev/stdin") } else { &replay.recording })?;
    // The dataset gets its name when it is whole; whatever is there is replaced then.
    let unfinished = Unfinished::beside(&output)?;
    std::fs::create_dir_all(unfinished.path()).map_err(|error| cannot("create", &output, error))?;
    let (profile, failed) = match recording.output(unfinished.path()).run() {
        Ok(profile) => (profile, None),
        // What could be read is in the dataset.
        Err(failed) if failed.error.kind == ErrorKind::Format && failed.profile.dataset().is_some() => {
            (*failed.profile, Some(failed.error))
        }
        Err(failed) => {
            let mut error = failed.error;
            // Nothing is kept of what has no name yet.
            if error.kind == ErrorKind::Io {
                let next = "nothing was kept: make room, or name another output, and replay again";
                error.hint = Some(next.to_owned());
            }
            return Err(Failure::of_output(&error).naming(unfinished.path(), &output));
        }
    };
    match place_of_replaced(&output)? {
        Some(old) => unfinished.publish_over(&output, old)?,
        None => unfinished.publish(&output, false)?,
    }
    write_text(None, false, &format!("{}\n{}", shown(&output), profile.summary()))?;
    if let Some(error) = failed {
        return Err(error.into());
    }
    let lost = |loss: &cuprof::Loss| format!("{} {}: {}", loss.count, loss.cause, loss.meaning);
    Ok(verdict(&profile.losses().iter().map(lost).collect::<Vec<_>>(), replay.allow_losses))
}

/// Where a dataset goes that is there already; none is there otherwise. What is no dataset is refused.
fn place_of_replaced(output: &Path) -> Result<Option<Unfinished>, Failure> {
    if output.symlink_metadata().is_err() {
        return Ok(None);
    }
    let failed =
        |error: std::io::Error| Failure::new(OUTPUT, format!("cannot replace {}: {error}", shown(output)));
    for entry in std::fs::read_dir(output).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name().to_string_lossy().into_owned();
        // Parts, unfinished parts, and those that were set aside.
        if !name.contains(".parquet") && !name.starts_with('.') {
            let what = format!("{} is not replaced: it has {name}, which is of no dataset", shown(output));
            return Err(Failure::new(OUTPUT, what));
        }
    }
    Unfinished::beside(&output.with_extension("replaced")).map(Some)
}

pub fn completions(shell: clap_complete::Shell) -> Result<u8, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "cuprof", &mut script);
    write_text(None, false, &String::from_utf8_lossy(&script))?;
    Ok(SUCCESS)
}

pub fn man(folder: Option<&Path>, force: bool) -> Result<u8, Failure> {
    let failed = |error: std::io::Error| Failure::new(OUTPUT, format!("cannot write the manual: {error}"));
    match folder {
        Some(folder) => {
            std::fs::create_dir_all(folder).map_err(|error| cannot("create", folder, error))?;
            let unfinished = Unfinished::beside(&folder.join("pages"))?;
            std::fs::create_dir(unfinished.path()).map_err(failed)?;
            clap_mangen::generate_to(Arguments::command(), unfinished.path()).map_err(failed)?;
            let pages: Vec<_> = std::fs::read_dir(unfinished.path())
                .and_then(|entries| entries.map(|entry| Ok(entry?.file_name())).collect())
                .map_err(failed)?;
            // All of them or none.
            for page in &pages {
                refuse_existing(&folder.join(page), force)?;
            }
            for page in &pages {
                let made = unfinished.path().join(page);
                let roff = std::fs::read_to_string(&made).map_err(failed)?;
                std::fs::write(&made, with_tables_kept(&roff)).map_err(failed)?;
                std::fs::rename(made, folder.join(page)).map_err(failed)?;
            }
        }
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(Arguments::command()).render(&mut page).map_err(failed)?;
            write_text(None, false, &with_tables_kept(&String::from_utf8_lossy(&page)))?;
        }
    }
    Ok(SUCCESS)
}

/// A page of which lines that are indented stay as they are: examples and tables. Without that they would be filled up
/// like a paragraph. And options are not cut in two at the end of a line.
fn with_tables_kept(roff: &str) -> String {
    let mut page = String::with_capacity(roff.len() + 256);
    let mut is_table = false;
    for line in roff.lines() {
        if line.starts_with("  ") != is_table {
            is_table = !is_table;
            page += if is_table { ".nf\n" } else { ".fi\n" };
        }
        match line.split_once('"') {
            // The version of a subcommand is that of the whole.
            Some((title, _)) if title.starts_with(".TH ") => {
                page += &format!("{title}\"cuprof {}\"\n.nh\n.ad l", env!("CARGO_PKG_VERSION"));
            }
            _ => page += if line == ".SH EXTRA" { ".SH EXAMPLES AND NOTES" } else { line },
        }
        page.push('\n');
    }
    page
}
