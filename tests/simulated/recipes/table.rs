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

/// The rows: which tests each names.
fn rows() -> std::io::Result<BTreeMap<String, Vec<(PathBuf, String)>>> {
    let text = fs::read_to_string(root().join("tests/RECIPES.md"))?;
    let mut rows = BTreeMap::new();
    for line in text.lines().filter(|line| line.starts_with("| B")) {
        let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
        let tests =
            cells[2..].iter().flat_map(|cell| cell.split('`')).filter_map(|test| test.split_once("::"));
        let tests: Vec<_> = tests.map(|(file, name)| (PathBuf::from(file), name.to_owned())).collect();
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
        for (file, name) in tests {
            if !files.contains_key(file.as_path()) {
                files.insert(file, fs::read_to_string(root().join(file))?);
            }
            let exists = functions(&files[file.as_path()]).any(|function| function == name);
            assert!(exists, "{report} names {}::{name}, which does not exist", file.display());
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
                if !row.iter().any(|(listed, test)| listed == file && test == name) {
                    missing.push(format!("{report}: `{}::{name}`", file.display()));
                }
            }
        }
    }
    assert_eq!(missing, [""; 0]);
    Ok(())
}
