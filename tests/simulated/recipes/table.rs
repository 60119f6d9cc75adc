//! `tests/RECIPES.md` and the tests that exist are the same.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::Outcome;

/// Reports that have a row each.
const REPORTS: [u32; 75] = [
    1, 2, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 18, 19, 20, 21, 23, 24, 26, 27, 28, 29, 30, 32, 33,
    34, 35, 36, 37, 39, 40, 41, 42, 43, 44, 46, 47, 48, 49, 50, 51, 53, 54, 55, 56, 58, 59, 60, 62, 63, 64,
    65, 66, 68, 69, 70, 71, 72, 73, 74, 76, 77, 78, 80, 81, 82, 83, 84, 86, 87, 88, 89,
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A test that a row names.
struct Named {
    file: PathBuf,
    name: String,
    /// The row says that it does not run by itself, and what it needs.
    is_ignored: bool,
    /// The row says that the README's command does not build it, and which feature does.
    feature: Option<String>,
}

/// The rows: which tests each names.
fn rows() -> std::io::Result<BTreeMap<String, Vec<Named>>> {
    let text = fs::read_to_string(root().join("tests/RECIPES.md"))?;
    let mut rows = BTreeMap::new();
    for line in text.lines().filter(|line| line.starts_with("| B")) {
        let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
        let mut tests = Vec::new();
        for cell in &cells[2..] {
            let pieces: Vec<_> = cell.split('`').collect();
            for (index, piece) in pieces.iter().enumerate() {
                if let Some((file, name)) = piece.split_once("::") {
                    let next = pieces.get(index + 1).copied().unwrap_or_default();
                    let is_ignored = next.starts_with(" (ignored: ");
                    let feature = next.strip_prefix(" (feature ").and_then(|rest| rest.split(':').next());
                    let feature = feature.map(str::to_owned);
                    tests.push(Named { file: file.into(), name: name.to_owned(), is_ignored, feature });
                }
            }
        }
        assert!(!tests.is_empty(), "{} has no test", cells[0]);
        assert!(rows.insert(cells[0].to_owned(), tests).is_none(), "{} stands there twice", cells[0]);
    }
    Ok(rows)
}

fn sources(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(sources(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    Ok(found)
}

/// What stands before a function of this name: its attributes, without their brackets. None where there is no such
/// function, `fn NAME(`.
fn attributes<'a>(text: &'a str, name: &str) -> Option<Vec<&'a str>> {
    let lines: Vec<_> = text.lines().map(str::trim).collect();
    let place = lines.iter().position(|line| functions(line).any(|function| function == name))?;
    let before =
        lines[..place].iter().rev().take_while(|line| line.starts_with("#[") || line.starts_with("///"));
    Some(before.filter_map(|line| line.strip_prefix("#[")?.strip_suffix(']')).collect())
}

/// The feature without which a test is not built: it says so itself, or `Cargo.toml` says it of its program. Modules
/// that a feature switches on have no test that is named here; this is where one would show.
fn feature_of(test: &Named, attributes: &[&str]) -> std::io::Result<Option<String>> {
    let quoted = |text: &str| text.split('"').nth(1).map(str::to_owned);
    if let Some(own) = attributes.iter().find(|attribute| attribute.starts_with("cfg(")) {
        return Ok(quoted(own));
    }
    let manifest = fs::read_to_string(root().join("Cargo.toml"))?;
    let stem = test.file.file_stem().unwrap_or_default().to_string_lossy();
    let programs = manifest.split("\n[[test]]\n").skip(1);
    let mut lines = programs.map(|program| program.split("\n\n").next().unwrap_or_default());
    let own = lines.find(|program| {
        program.contains(&format!("name = \"{stem}\"")) || program.contains(&*test.file.to_string_lossy())
    });
    let required = own.and_then(|program| program.split_once("required-features = ["));
    Ok(required.and_then(|(_, features)| quoted(features)))
}

/// Why this is no test that runs by itself; none if it is one. Property tests are in a macro that makes them tests.
fn is_no_test(text: &str, test: &Named) -> Option<&'static str> {
    let Some(attributes) = attributes(text, &test.name) else { return Some("does not exist") };
    let is_ignored = attributes.iter().any(|attribute| attribute.starts_with("ignore"));
    match () {
        () if !attributes.contains(&"test") => Some("is no test"),
        // All GPU tests are, and run by a command of their own.
        () if test.file.starts_with("tests/gpu") => None,
        () if is_ignored && !test.is_ignored => Some("is ignored: write (ignored: what it needs) behind it"),
        () if !is_ignored && test.is_ignored => Some("is not ignored"),
        () => None,
    }
}

/// The names of functions in a text, `fn NAME(`.
fn functions(text: &str) -> impl Iterator<Item = &str> {
    text.lines()
        .filter_map(|line| line.trim_start().strip_prefix("fn ")?.split_once('('))
        .map(|(name, _)| name)
}

/// The reports that a test is named after: `b03_`, `b16_b18_`.
fn numbers(test: &str) -> Vec<String> {
    let is_number = |word: &&str| {
        word.strip_prefix('b')
            .is_some_and(|digits| digits.len() == 2 && digits.bytes().all(|b| b.is_ascii_digit()))
    };
    test.split('_').take_while(is_number).map(str::to_uppercase).collect()
}

#[test]
fn every_report_has_its_row_and_every_test_of_it_exists() -> Outcome {
    let rows = rows()?;
    let expected: BTreeSet<_> = REPORTS.iter().map(|number| format!("B{number:02}")).collect();
    assert_eq!(rows.keys().cloned().collect::<BTreeSet<_>>(), expected);
    let mut files: BTreeMap<&Path, String> = BTreeMap::new();
    for (report, tests) in &rows {
        for test in tests {
            let Named { file, name, .. } = test;
            if !files.contains_key(file.as_path()) {
                files.insert(file, fs::read_to_string(root().join(file))?);
            }
            let text = &files[file.as_path()];
            let wrong = is_no_test(text, test);
            assert_eq!(wrong, None, "{report} names {}::{name}", file.display());
            let feature = feature_of(test, &attributes(text, name).unwrap_or_default())?;
            let wanted = "write (feature NAME: `./check` runs it) behind it";
            assert_eq!(test.feature, feature, "{report} names {}::{name}: {wanted}", file.display());
        }
    }
    Ok(())
}

#[test]
fn every_test_that_is_named_after_a_report_is_in_its_row() -> Outcome {
    let rows = rows()?;
    let mut missing = Vec::new();
    for path in sources(&root().join("tests"))? {
        let text = fs::read_to_string(&path)?;
        let file = path.strip_prefix(root())?;
        for name in functions(&text) {
            for report in numbers(name) {
                let row = rows.get(&report).map(Vec::as_slice).unwrap_or_default();
                if !row.iter().any(|test| test.file == file && test.name == name) {
                    missing.push(format!("{report}: `{}::{name}`", file.display()));
                }
            }
        }
    }
    assert_eq!(missing, [""; 0]);
    Ok(())
}
