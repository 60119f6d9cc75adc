//! The checked-in bindings are what the generator makes of the headers, byte for byte.
//!
//! Runs with the feature `bindgen`, which needs libclang and the headers:
//! `CUPROF_CUPTI_INCLUDE=<folders> cargo test --features bindgen --test bindings_drift`.
//! `CUPROF_BLESS=1` in front of it overwrites the checked-in file.
#![cfg(feature = "bindgen")]

mod bless;

use std::error::Error;
use std::fs;
use std::path::Path;

const FRESH: &str = include_str!(concat!(env!("OUT_DIR"), "/bindings.rs"));

#[test]
fn the_checked_in_bindings_equal_the_generated_ones() -> Result<(), Box<dyn Error>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("cupti-sys/src/bindings.rs");
    let fresh = without_trailing_space(FRESH);
    if bless::is_asked_for() {
        fs::write(&path, fresh)?;
        return Ok(());
    }
    let checked_in = without_trailing_space(&fs::read_to_string(&path)?);
    let (line, old, new) = first_difference(&checked_in, &fresh);
    assert!(
        checked_in == fresh,
        "cupti-sys/src/bindings.rs differs from what the headers give, first in line {line}:\n  \
         checked in: {old}\n  generated:  {new}\n\
         If the headers are meant to be newer, run this test with CUPROF_BLESS=1, review the diff, and follow \
         \"How the bindings are made\" in the documentation of cupti-sys."
    );
    Ok(())
}

fn without_trailing_space(text: &str) -> String {
    let mut clean: String = text.lines().flat_map(|line| [line.trim_end(), "\n"]).collect();
    clean.truncate(clean.trim_end().len());
    clean.push('\n');
    clean
}

fn first_difference<'a>(old: &'a str, new: &'a str) -> (usize, &'a str, &'a str) {
    let (mut old, mut new) = (old.lines(), new.lines());
    let mut line = 1;
    loop {
        match (old.next(), new.next()) {
            (Some(a), Some(b)) if a == b => line += 1,
            // Also where both end, which is no difference.
            (a, b) => return (line, a.unwrap_or("<end of file>"), b.unwrap_or("<end of file>")),
        }
    }
}
