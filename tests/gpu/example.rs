//! The examples as programs, where they were built.

use std::path::PathBuf;
use std::process::{Command, Output};

use crate::Outcome;

/// Where cargo puts an example, or the bundle for a machine without Rust; if it is there.
fn find(name: &str) -> Option<PathBuf> {
    let folder = std::env::current_exe().ok()?.parent()?.to_path_buf();
    let candidates = [folder.join(name), folder.parent()?.join("examples").join(name)];
    candidates.into_iter().find(|path| path.is_file())
}

/// Runs a tutorial with a folder of its own for its files. None, after having said why, where it was not built.
pub fn run(name: &str) -> std::io::Result<Option<Output>> {
    let Some(path) = find(name) else {
        println!("skipped: `cargo build --example {name}` makes the program that this test runs");
        return Ok(None);
    };
    let folder = tempfile::tempdir()?;
    Command::new(path).arg("--output").arg(folder.path().join("out")).output().map(Some)
}

/// Runs a tutorial, which must end well: all that it claims then holds.
pub fn ends_well(name: &str) -> Outcome {
    let Some(output) = run(name)? else { return Ok(()) };
    let (printed, errors) = (String::from_utf8(output.stdout)?, String::from_utf8(output.stderr)?);
    println!("{printed}");
    assert_eq!((output.status.code(), errors.as_str()), (Some(0), ""), "{name}");
    let holds = printed.lines().filter(|line| line.starts_with("holds: ")).count();
    assert!(printed.contains(": live on ") && holds > 0, "{name} measured nothing");
    Ok(())
}
