//! Numbers and names as people read them, and how wide they are.

use super::Symbols;
use crate::error::is_steering;

/// A time with four digits and its unit: `1.234 ms`. Whole nanoseconds below a microsecond.
pub(crate) fn time(ns: f64, symbols: Symbols) -> String {
    let micro = if symbols == Symbols::Unicode { "µs" } else { "us" };
    scaled(ns, &["ns", micro, "ms", " s"])
}

/// An amount of memory: `1.234 MB`, in powers of 1000 as bandwidths are.
pub(crate) fn bytes(bytes: f64) -> String {
    scaled(bytes, &[" B", "kB", "MB", "GB", "TB"])
}

/// A bandwidth: `1.234 GB/s`.
pub(crate) fn bandwidth(bytes_per_s: f64) -> String {
    bytes(bytes_per_s) + "/s"
}

/// A number below 1000 in the largest unit that leaves it at 1 or more, as it is rounded.
fn scaled(value: f64, units: &[&str]) -> String {
    let mut value = value;
    let mut unit = 0;
    while unit + 1 < units.len() && value >= 999.95 {
        value /= 1e3;
        unit += 1;
    }
    // The smallest unit is only ever counted, so that its decimals would be an average's.
    let decimals = match value {
        _ if unit == 0 => 0,
        _ if value >= 99.995 => 1,
        _ if value >= 9.999_5 => 2,
        _ => 3,
    };
    format!("{value:.decimals$} {}", units[unit])
}

/// A part of 1 as a percentage: `12.3%`, and never `0.0%` for what is there.
pub(crate) fn percent(share: f64) -> String {
    if share > 0.0 && share < 0.0005 { "<0.1%".to_owned() } else { format!("{:.1}%", share * 100.0) }
}

/// A count with its thousands apart: `12,345`.
pub(crate) fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 launch`, `2 launches`.
pub(crate) fn counted(value: u64, one: &str) -> String {
    let plural = match value {
        1 => "",
        _ if one.ends_with("ch") || one.ends_with("ss") => "es",
        _ => "s",
    };
    format!("{} {one}{plural}", count(value))
}

/// Columns that a character takes on a terminal. Simple: East Asian and emoji blocks take two, marks none.
fn char_width(c: char) -> usize {
    match u32::from(c) {
        0x0300..=0x036f | 0x200b..=0x200f | 0x202a..=0x202e | 0x2060..=0x2069 | 0xfe00..=0xfe0f | 0xfeff => 0,
        0x1100..=0x115f
        | 0x2e80..=0xa4cf
        | 0xac00..=0xd7a3
        | 0xf900..=0xfaff
        | 0xfe30..=0xfe6f
        | 0xff00..=0xff60
        | 0xffe0..=0xffe6
        | 0x1f300..=0x1f64f
        | 0x1f680..=0x1faff
        | 0x20000..=0x3fffd => 2,
        _ => 1,
    }
}

/// Columns that a text takes.
pub(crate) fn width(text: &str) -> usize {
    text.chars().map(char_width).sum()
}

/// A text on one line of a terminal: what ends a line or is a tab becomes a space, and what else would change what is
/// shown is escaped.
pub(crate) fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            c if !is_steering(c) => line.push(c),
            c if c.is_whitespace() => line.push(' '),
            c => line.extend(c.escape_default()),
        }
    }
    line
}

/// The text in at most `columns`: its end.
pub(crate) fn end_of(text: &str, columns: usize, symbols: Symbols) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let mark = mark(symbols);
    let room = columns.saturating_sub(width(mark));
    let end: Vec<char> = fitting(text.chars().rev(), room);
    mark.chars().take(columns).chain(end.into_iter().rev()).collect()
}

/// What stands for a part that is left out.
fn mark(symbols: Symbols) -> &'static str {
    if symbols == Symbols::Unicode { "…" } else { "..." }
}

/// As many of the characters as there is room for.
fn fitting(chars: impl Iterator<Item = char>, room: usize) -> Vec<char> {
    let mut used = 0;
    chars
        .take_while(|c| {
            used += char_width(*c);
            used <= room
        })
        .collect()
}

/// The name in at most `columns`: its beginning and its end, which tell more than its middle.
pub(crate) fn shortened(name: &str, columns: usize, symbols: Symbols) -> String {
    if width(name) <= columns {
        return name.to_owned();
    }
    let mark = mark(symbols);
    let room = columns.saturating_sub(width(mark));
    let tail_room = room * 2 / 5;
    let head = fitting(name.chars(), room - tail_room);
    let tail = fitting(name.chars().rev(), tail_room);
    head.into_iter().chain(mark.chars()).chain(tail.into_iter().rev()).collect()
}
