//! Values with their units, as people write them.

/// A unit of the tables, and what it is in a base unit that prefixes go in front of.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Unit {
    base: String,
    factor: f64,
    /// Whether `k`, `M`, … stand in front of it; else powers of ten.
    takes_prefixes: bool,
}

/// A power of a thousand, with its prefix.
const PREFIXES: [(i32, &str); 11] = [
    (-5, "f"),
    (-4, "p"),
    (-3, "n"),
    (-2, "µ"),
    (-1, "m"),
    (0, ""),
    (1, "k"),
    (2, "M"),
    (3, "G"),
    (4, "T"),
    (5, "P"),
];

/// Units that have prefixes, as they begin in tables: with what is written, and its value.
const BASES: [(&str, &str, f64); 14] = [
    ("ns", "s", 1e-9),
    ("us", "s", 1e-6),
    ("µs", "s", 1e-6),
    ("ms", "s", 1e-3),
    ("s", "s", 1.0),
    ("nsecond", "s", 1e-9),
    ("second", "s", 1.0),
    ("bytes", "B", 1.0),
    ("byte", "B", 1.0),
    ("B", "B", 1.0),
    ("FLOP", "FLOP", 1.0),
    ("flop", "FLOP", 1.0),
    ("hz", "Hz", 1.0),
    ("Hz", "Hz", 1.0),
];

impl Unit {
    pub fn of(unit: &str) -> Self {
        // What it is by is left as it is: GB/s, bytes/cycle.
        let (top, by) = unit.split_once('/').map_or((unit, ""), |(top, _)| (top, &unit[top.len()..]));
        let known = |top: &str| BASES.iter().find(|(name, ..)| *name == top);
        if let Some((_, base, factor)) = known(top) {
            return Self { base: format!("{base}{by}"), factor: *factor, takes_prefixes: true };
        }
        for (power, prefix) in PREFIXES.iter().filter(|(_, prefix)| !prefix.is_empty()) {
            if let Some((_, base, factor)) = top.strip_prefix(prefix).and_then(known) {
                let factor = factor * 1e3_f64.powi(*power);
                return Self { base: format!("{base}{by}"), factor, takes_prefixes: true };
            }
        }
        Self { base: unit.to_owned(), factor: 1.0, takes_prefixes: false }
    }

    /// No unit: a ratio.
    pub fn none() -> Self {
        Self::of("")
    }

    /// What values up to this one are divided by, and the unit that they then have.
    pub fn scaled(&self, largest: f64) -> (f64, String) {
        let (power, factor) = self.power(largest);
        let unit = if self.takes_prefixes {
            let prefix = PREFIXES.iter().find(|(of, _)| *of == power).map_or("", |(_, prefix)| prefix);
            format!("{prefix}{}", self.base)
        } else if power == 0 {
            self.base.clone()
        } else {
            format!("10{} {}", superscript(3 * power), self.base).trim_end().to_owned()
        };
        (factor / self.factor, unit)
    }

    /// The power of a thousand of the base unit that suits a value, and it as a number.
    fn power(&self, value: f64) -> (i32, f64) {
        let base = (value * self.factor).abs();
        let mut power = 0;
        if base > 0.0 && base.is_finite() {
            // CAST: within the powers of a double
            power = ((base.log10() + 1e-9) / 3.0).floor() as i32;
        }
        // Percentages and the like are read as they are while they are short.
        if !self.takes_prefixes && (1e-2..1e5).contains(&base) {
            power = 0;
        }
        power = if self.takes_prefixes { power.clamp(-5, 5) } else { power };
        (power, 1e3_f64.powi(power))
    }

    /// A value with its unit and three digits: `12.3 µs`.
    pub fn text(&self, value: f64) -> String {
        let (divisor, unit) = self.scaled(value);
        format!("{} {unit}", digits(value / divisor)).trim_end().to_owned()
    }
}

/// With three digits, and no zeros behind the point.
pub(super) fn digits(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    // CAST: within the powers of a double
    let whole = (value.abs().log10() + 1e-9).floor() as i32 + 1;
    let decimals = usize::try_from(3 - whole).unwrap_or(0);
    let text = format!("{value:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

fn superscript(power: i32) -> String {
    let digit = |c| match c {
        '-' => '⁻',
        '0' => '⁰',
        '1' => '¹',
        '2' => '²',
        '3' => '³',
        '4' => '⁴',
        '5' => '⁵',
        '6' => '⁶',
        '7' => '⁷',
        '8' => '⁸',
        _ => '⁹',
    };
    power.to_string().chars().map(digit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_the_prefix_that_keeps_them_short() {
        let text = |value, unit| Unit::of(unit).text(value);
        assert_eq!(text(999.0, "ns"), "999 ns");
        assert_eq!(text(1_000.0, "ns"), "1 µs");
        assert_eq!(text(12_345.0, "ns"), "12.3 µs");
        assert_eq!(text(1e9, "ns"), "1 s");
        assert_eq!(text(4.8e12, "bytes/s"), "4.8 TB/s");
        assert_eq!(text(0.25, "TFLOP/s"), "250 GFLOP/s");
        assert_eq!(text(512.0, "byte/cycle"), "512 B/cycle");
        assert_eq!(text(99.5, "%"), "99.5 %");
        assert_eq!(text(1.5e9, "inst"), "1.5 10⁹ inst");
        assert_eq!(text(0.0, "ns"), "0 s");
        assert_eq!(text(1.25, ""), "1.25");
    }
}
