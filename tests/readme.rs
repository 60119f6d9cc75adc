//! What the README and `docs/schema.md` say of tables and losses is what the crate has.
//!
//! `CUPROF_BLESS=1` in front of `cargo test --test readme` rewrites those parts of them.

mod bless;

use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::sync::Mutex;

use arrow_schema::{DataType, Field};
use cuprof::Table;

type Outcome = Result<(), Box<dyn Error>>;

/// Compares what stands between two marks of the README with what should stand there.
fn check(part: &str, expected: &str) -> Outcome {
    check_in("README.md", part, expected)
}

fn check_in(file: &str, part: &str, expected: &str) -> Outcome {
    // Tests run side by side, and blessing writes the file.
    static FILE: Mutex<()> = Mutex::new(());
    let _alone = FILE.lock()?;
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    let readme = fs::read_to_string(&path)?;
    let (begin, end) = (format!("<!-- {part}: begin -->\n"), format!("<!-- {part}: end -->"));
    let missing = || format!("{file} has no part {part}");
    let (before, rest) = readme.split_once(&begin).ok_or_else(missing)?;
    let (found, after) = rest.split_once(&end).ok_or_else(missing)?;
    if found == expected {
        return Ok(());
    }
    if bless::is_asked_for() {
        fs::write(&path, [before, &begin, expected, &end, after].concat())?;
        return Ok(());
    }
    Err(format!("the part {part} of {file} is out of date: run this test with CUPROF_BLESS=1").into())
}

fn row_of(table: Table) -> Result<&'static str, Box<dyn Error>> {
    Ok(match table {
        Table::Launches => "one kernel execution",
        Table::Transfers => "one copy, fill or peer copy",
        Table::Ranges => "one range instance",
        Table::RangeSets => "one member of one set of process-wide ranges",
        Table::Marks => "one NVTX mark",
        Table::Overheads => "one span that CUPTI, the driver or a cache flush took",
        Table::ApiCalls => "one runtime or driver call; if asked for (`Builder::api_calls`)",
        Table::Synchronizations => "one synchronising call; if asked for (`Builder::synchronizations`)",
        Table::MemoryOperations => "one allocation or release; if asked for (`Builder::memory_operations`)",
        Table::Metrics => {
            "one metric of one counted range or kernel; written by `counters::Counted::write`, `Bench::output` and `bench::Report::write`"
        }
        Table::Samples => {
            "one measured value of one run; written by `Bench::output` and `bench::Report::write`"
        }
        Table::Aggregates => {
            "what the samples of one metric are like; written by `Bench::output` and `bench::Report::write`"
        }
        Table::Compat => {
            "what Nsight Python tells of one metric; written by `Bench::output` and `bench::Report::write`"
        }
        Table::Env => "one fact about the run",
        Table::Losses => "one cause of loss, with its count",
        other => return Err(format!("{other} is not described").into()),
    })
}

/// What is to be said of columns that a dataset adds itself.
fn added_to(table: Table) -> &'static str {
    match table {
        Table::Samples | Table::Aggregates => {
            " Behind the columns here, each parameter of the measurement is one, `p_<name>`: int64, float64, bool or text, \
             and null where a configuration lacks it."
        }
        Table::Compat => {
            " The columns have the names, the order and the formulas of its table of processed data, ours behind them, as \
             `bench::Report::compat_csv` says; parameters and collectors are among them."
        }
        _ => "",
    }
}

fn type_of(field: &Field) -> String {
    match field.data_type() {
        DataType::Utf8 | DataType::Dictionary(..) => "text".to_owned(),
        DataType::Boolean => "bool".to_owned(),
        other => other.to_string().to_lowercase(),
    }
}

#[test]
fn the_tables_are_those_of_the_schema() -> Outcome {
    let mut text = String::from("| table | a row is | columns |\n|---|---|---:|\n");
    for table in Table::ALL {
        let (row, columns) = (row_of(table)?, table.schema().fields().len());
        writeln!(text, "| [`{table}`](docs/schema.md#{table}) | {row} | {columns} |")?;
    }
    check("tables", &text)
}

#[test]
fn the_page_of_the_schema_has_every_column() -> Outcome {
    let mut text = String::new();
    for table in Table::ALL {
        write!(text, "## `{table}`\n\nA row is {}.{}\n\n", row_of(table)?, added_to(table))?;
        if table.schema().fields().is_empty() {
            continue;
        }
        text += "| column | type | unit | null | meaning |\n|---|---|---|---|---|\n";
        for field in table.schema().fields() {
            let null = if field.is_nullable() { "yes" } else { "never" };
            let fact = |key| field.metadata().get(key).map(String::as_str);
            let description = fact("description").ok_or("a column without a description")?;
            let (name, kind, unit) = (field.name(), type_of(field), fact("unit").unwrap_or_default());
            writeln!(text, "| `{name}` | {kind} | {unit} | {null} | {description} |")?;
        }
        text.push('\n');
    }
    check_in("docs/schema.md", "tables", &text)
}

#[test]
fn the_losses_are_those_of_the_crate() -> Outcome {
    let mut text = String::from("| cause | what is counted |\n|---|---|\n");
    for (cause, meaning) in cuprof::testing::causes() {
        writeln!(text, "| `{cause}` | {meaning} |")?;
    }
    check("losses", &text)
}

#[test]
fn what_the_quick_start_prints_is_what_the_readme_shows() -> Outcome {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let profile = cuprof::Replay::open(root.join("examples/recordings/quickstart.cuprofrec"))?.run()?;
    let printed = profile.summary().render(100, cuprof::Symbols::Ascii);
    let readme = fs::read_to_string(root.join("README.md"))?;
    let (_, shown) = readme.split_once("```text\nno GPU here").ok_or("the README shows no output")?;
    let (shown, _) = shown.split_once("```").ok_or("the output has no end")?;
    // Shortened, but in its order. The first line is the example's own.
    let mut rest = printed.lines();
    for line in shown.lines().skip(1) {
        let found = rest.any(|printed| printed.trim_end() == line.trim_end());
        assert!(found, "not printed, or not here: {line:?}\n{printed}");
    }
    Ok(())
}

#[test]
fn the_page_of_the_examples_has_each_of_them() -> Outcome {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(root.join("examples/README.md"))?;
    let readme = fs::read_to_string(root.join("README.md"))?;
    for entry in fs::read_dir(root.join("examples"))? {
        let path = entry?.path();
        let (Some(name), Some("rs")) = (
            path.file_stem().and_then(|name| name.to_str()),
            path.extension().and_then(|extension| extension.to_str()),
        ) else {
            continue;
        };
        assert!(
            page.contains(&format!("`{name}`")) || page.contains(&format!("--example {name}\n")),
            "{name}"
        );
        if name.starts_with("tutorial_") {
            // Where its output goes.
            let marks = ["begin", "end"].map(|mark| format!("<!-- {name}: {mark} -->"));
            assert!(marks.iter().all(|mark| page.matches(mark.as_str()).count() == 1), "{name}");
            assert!(readme.contains(&format!("`{name}`")), "{name} is not in README.md");
        }
    }
    Ok(())
}
