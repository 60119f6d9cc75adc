//! Texts inside of other formats: what has a meaning there is escaped.

use super::text::one_line;
use crate::error::is_steering;

/// A text on one line in which nothing means something to Markdown, also inside of a table's cell.
pub(crate) fn markdown_escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in one_line(text).chars() {
        if matches!(c, '|' | '\\' | '`' | '*' | '_' | '<' | '>' | '[' | ']' | '#' | '~' | '&') {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

/// A row of a table of GitHub's Markdown; the cells are escaped.
pub(crate) fn markdown_row(cells: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    cells.into_iter().fold("|".to_owned(), |row, cell| row + " " + cell.as_ref() + " |") + "\n"
}

/// The first two rows of such a table; columns that hold no words are aligned to the right.
pub(crate) fn markdown_heading(titles: &[impl AsRef<str>], has_words: impl Fn(usize) -> bool) -> String {
    let rules = (0..titles.len()).map(|column| if has_words(column) { "---" } else { "---:" });
    format!("{}|{}|\n", markdown_row(titles), rules.collect::<Vec<_>>().join("|"))
}

/// A line of CSV by RFC 4180, but for its end, which is that of Unix. Fields are exact.
pub(crate) fn csv_line<T: AsRef<str>>(fields: impl IntoIterator<Item = T>) -> String {
    let quoted = |field: T| {
        let field = field.as_ref();
        let needs_quotes = field.contains(['"', ',', '\n', '\r']);
        if needs_quotes { format!("\"{}\"", field.replace('"', "\"\"")) } else { field.to_owned() }
    };
    fields.into_iter().map(quoted).collect::<Vec<_>>().join(",") + "\n"
}

/// JSON in lines, of a value whose maps have texts as keys. Texts are exact, and none changes what a terminal shows.
#[cfg(feature = "analysis")]
pub(crate) fn json(value: &serde_json::Value) -> String {
    // Such a value can always be written.
    let text = serde_json::to_string_pretty(value).unwrap_or_default();
    let mut json = String::with_capacity(text.len() + 1);
    for c in text.chars() {
        // All of these stand inside of strings, and are below U+10000.
        if is_steering(c) && c != '\n' {
            json.push_str(&format!("\\u{:04x}", u32::from(c)));
        } else {
            json.push(c);
        }
    }
    json.push('\n');
    json
}

/// A text inside of XML: what has a meaning there is escaped, and characters that it cannot hold are replaced.
pub(crate) fn xml_escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\t' | '\n' | '\r' => escaped.push_str(&format!("&#{};", u32::from(c))),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => escaped.push('\u{fffd}'),
            c if is_steering(c) => escaped.push_str(&format!("&#{};", u32::from(c))),
            c => escaped.push(c),
        }
    }
    escaped
}
