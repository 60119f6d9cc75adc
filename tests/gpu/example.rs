//! The examples as programs, where they were built.

use std::path::PathBuf;
use std::process::Command;

use crate::Outcome;

/// Where cargo puts an example, or the bundle for a machine without Rust; if it is there.
pub fn find(name: &str) -> Option<PathBuf> {
    let folder = std::env::current_exe().ok()?.parent()?.to_path_buf();
    let candidates = [folder.join(name), folder.parent()?.join("examples").join(name)];
    candidates.into_iter().find(|path| path.is_file())
}

/// Runs a tutorial with a folder of its own for its files. Returns its exit code, what it prints, and what it says of
/// errors. None, after having said why, where it was not built.
pub fn run(name: &str) -> Result<Option<(Option<i32>, String, String)>, Box<dyn std::error::Error>> {
    let Some(path) = find(name) else {
        println!("skipped: `cargo build --example {name}` makes the program that this test runs");
        return Ok(None);
    };
    let folder = tempfile::tempdir()?;
    let output = Command::new(path).arg("--output").arg(folder.path().join("out")).output()?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok(Some((output.status.code(), text(&output.stdout), text(&output.stderr))))
}

/// Runs a tutorial, which must end well: all that it claims then holds.
pub fn ends_well(name: &str) -> Outcome {
    let Some((code, output, errors)) = run(name)? else { return Ok(()) };
    println!("{output}");
    assert_eq!((code, errors.as_str()), (Some(0), ""), "{name}");
    let holds = output.lines().filter(|line| line.starts_with("holds: ")).count();
    assert!(output.contains(": live on ") && holds > 0, "{name} measured nothing");
    Ok(())
}
