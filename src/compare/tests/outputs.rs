//! What is printed.

use super::super::Rules;
use super::*;
use crate::summary::Symbols;

/// Names that mean something to a terminal, to Markdown, and to XML.
const NAMES: [&str; 7] =
    ["a|b", "<b>&amp;", "say \"hi\"", "two\nlines\ttab", "\u{1b}[31mred", "ü 漢字 🎉", "\u{fffe}]]>"];

fn named() -> Result<Compared, Box<dyn std::error::Error>> {
    let of = |seed, level| -> Vec<Process> {
        let rename = |mut process: Process| {
            for (place, row) in process.rows.iter_mut().enumerate() {
                let name = NAMES[place / 30];
                (row.config, row.annotation) = (format!("x={name}").into(), name.into());
            }
            process
        };
        processes(seed, 4, NAMES.len(), 30, level, QUIET).into_iter().map(rename).collect()
    };
    compared(&Rules::default(), &of(40, 2e4), &of(41, 2.2e4))
}

#[test]
fn names_may_have_any_characters() -> TestOutcome {
    let found = named()?;
    assert_eq!(found.count("SLOWER"), NAMES.len());
    for width in [40, 80, 140] {
        let text = found.to_text(None, width, Symbols::Ascii);
        assert!(!text.contains('\u{1b}') && !text.contains("two\nlines"), "{text}");
        assert_eq!(text.lines().find(|line| crate::summary::text::width(line) > width), None, "{text}");
    }
    let markdown = found.to_markdown(None);
    let rows: Vec<&str> = markdown.lines().filter(|line| line.starts_with('|')).collect();
    assert_eq!(rows.len(), 2 + NAMES.len(), "{markdown}");
    assert!(rows.iter().all(|row| row.replace("\\|", "").matches('|').count() == 10), "{markdown}");
    let xml = found.to_junit();
    assert!(xml.contains("&lt;b&gt;&amp;amp;") && xml.contains("a|b (x=a|b)"), "{xml}");
    let allowed = |c: char| c == '\n' || (!c.is_control() && !matches!(c, '\u{fffe}' | '\u{ffff}'));
    assert!(xml.chars().all(allowed), "{xml}");
    Ok(())
}

#[test]
fn long_lists_are_cut_and_say_so() -> TestOutcome {
    let found = named()?;
    let text = found.to_text(Some(3), 100, Symbols::Ascii);
    assert!(text.contains("(4 rows more)"), "{text}");
    assert!(found.to_markdown(Some(3)).contains("(4 more)"));
    Ok(())
}

#[test]
#[cfg(feature = "analysis")]
fn json_has_every_number() -> TestOutcome {
    use super::super::FailOn;

    let found = named()?;
    let json: serde_json::Value = serde_json::from_str(&found.to_json(FailOn::Inconclusive, false))?;
    assert_eq!(json["exit_code"], 1);
    assert_eq!(json["counts"]["SLOWER"], NAMES.len());
    let rows = json["rows"].as_array().ok_or("no rows")?;
    let regions: Vec<_> = rows.iter().filter_map(|row| row["key"]["region"].as_str()).collect();
    assert!(NAMES.iter().all(|name| regions.contains(name)), "{regions:?}");
    let times = &rows[0]["times"];
    let change = times["change_ratio"].as_f64().ok_or("none")?;
    assert!(
        times["change_low"].as_f64() < Some(change) && Some(change) < times["change_high"].as_f64(),
        "{times}"
    );
    assert_eq!(json["rules"]["margin"], 0.01);
    assert_eq!(json["base"]["process_runs"], 4);
    Ok(())
}
