//! The letters: DejaVu Sans, of which the parts that names and units need come with the crate (`src/plot/font`).
//!
//! Pictures are laid out by its widths. It is wider than most, so that an SVG whose viewer has another font has room for it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

pub(super) use ttf_parser::OutlineBuilder;
use ttf_parser::{Face, GlyphId};

static BYTES: &[u8] = include_bytes!("font/DejaVuSans-subset.ttf");

/// What a viewer of an SVG is to look for.
pub(super) const FAMILY: &str = "DejaVu Sans, Verdana, Helvetica, Arial, sans-serif";

/// Above and below the line that letters stand on, as a part of their size.
pub(super) const ASCENT: f64 = 0.78;
pub(super) const DESCENT: f64 = 0.24;

fn face() -> Option<&'static Face<'static>> {
    static FACE: OnceLock<Option<Face<'static>>> = OnceLock::new();
    FACE.get_or_init(|| Face::parse(BYTES, 0).ok()).as_ref()
}

/// The letter, or the box that stands for one that is not there.
fn glyph(face: &Face<'_>, c: char) -> GlyphId {
    face.glyph_index(c).unwrap_or(GlyphId(0))
}

/// Whether there is such a letter.
pub(super) fn has(c: char) -> bool {
    face().is_some_and(|face| face.glyph_index(c).is_some())
}

/// The width of a text.
pub(super) fn width(text: &str, size: f64) -> f64 {
    let Some(face) = face() else { return text.chars().count() as f64 * size * 0.65 };
    let em = f64::from(face.units_per_em());
    let advance = |c| f64::from(face.glyph_hor_advance(glyph(face, c)).unwrap_or(0));
    text.chars().map(advance).sum::<f64>() * size / em
}

/// Hands over the outline of each letter with its place, and how much larger than wanted it is drawn.
pub(super) fn outlines<B: OutlineBuilder>(
    text: &str,
    size: f64,
    mut each: impl FnMut(f64, f64) -> B,
    mut done: impl FnMut(B),
) {
    let Some(face) = face() else { return };
    let scale = size / f64::from(face.units_per_em());
    let mut x = 0.0;
    for c in text.chars() {
        let glyph = glyph(face, c);
        let mut builder = each(x, scale);
        face.outline_glyph(glyph, &mut builder);
        done(builder);
        x += f64::from(face.glyph_hor_advance(glyph).unwrap_or(0)) * scale;
    }
}

/// The text in at most this width: its beginning and its end, which tell more than its middle.
pub(super) fn shortened(text: &str, size: f64, most: f64) -> String {
    if width(text, size) <= most {
        return text.to_owned();
    }
    let chars: Vec<char> = text.chars().collect();
    let cut = |kept: usize| -> String {
        let tail = kept * 2 / 5;
        let head = chars.iter().take(kept - tail);
        head.chain(&['…']).chain(chars.iter().skip(chars.len() - tail)).collect()
    };
    // Fewer letters are narrower.
    let kept: Vec<usize> = (1..chars.len()).collect();
    let fitting = kept.partition_point(|kept| width(&cut(*kept), size) <= most);
    cut(fitting.max(1))
}

/// The texts in at most this width each, so that those that differ still do: of what is too long, that goes which is the
/// same at the beginnings and ends of those that would look alike.
pub(super) fn shortened_together(texts: &[String], size: f64, most: f64) -> Vec<String> {
    let mut short: Vec<String> = texts.iter().map(|text| shortened(text, size, most)).collect();
    tell_apart(texts, &mut short, size, most);
    // Whatever is alike still, as far apart as it may be, is counted.
    for place in 0..texts.len() {
        let is_taken =
            |text: &str| (0..place).any(|other| short[other] == text && texts[other] != texts[place]);
        if let Some(same) = (0..place).find(|other| texts[*other] == texts[place]) {
            short[place] = short[same].clone();
        } else if is_taken(&short[place]) {
            let counted = (2..=texts.len() + 1).map(|number| {
                let end = format!(" ({number})");
                shortened(&texts[place], size, most - width(&end, size)) + &end
            });
            if let Some(text) = counted.into_iter().find(|text| !is_taken(text)) {
                short[place] = text;
            }
        }
    }
    short
}

/// Shortens those anew that look alike, until no text changes.
fn tell_apart(texts: &[String], short: &mut [String], size: f64, most: f64) {
    // Each time the texts of a group have more in common.
    const ROUNDS: usize = 4;
    for _ in 0..ROUNDS {
        let mut groups: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (short, text) in short.iter().zip(texts) {
            groups.entry(short).or_default().insert(text);
        }
        groups.retain(|_, texts| texts.len() > 1);
        if groups.is_empty() {
            return;
        }
        let anew: Vec<String> = short
            .iter()
            .zip(texts)
            .map(|(short, text)| match groups.get(short.as_str()) {
                Some(group) => around_common(text, common(group), size, most),
                None => short.clone(),
            })
            .collect();
        short.clone_from_slice(&anew);
    }
}

/// How many letters all of them begin with, and end with.
fn common(texts: &BTreeSet<&str>) -> (usize, usize) {
    // The first and the last in order differ as early as any two.
    let (Some(first), Some(last)) = (texts.first(), texts.last()) else { return (0, 0) };
    let head = first.chars().zip(last.chars()).take_while(|(a, b)| a == b).count();
    let letters = texts.iter().map(|text| text.chars().count()).min().unwrap_or(0);
    let end = |other: &&str| first.chars().rev().zip(other.chars().rev()).take_while(|(a, b)| a == b).count();
    let tail = texts.iter().map(end).min().unwrap_or(0);
    (head, tail.min(letters - head))
}

/// The text with what it has in common with others, at both ends, in the room that is left by what it has not.
fn around_common(text: &str, (head, tail): (usize, usize), size: f64, most: f64) -> String {
    let chars: Vec<char> = text.chars().collect();
    let part = |from: usize, to: usize| chars[from..to].iter().collect::<String>();
    let own_end = chars.len() - tail;
    let (before, own, after) = (part(0, head), part(head, own_end), part(own_end, chars.len()));
    let ellipsis = width("…", size);
    let kept = ellipsis * (f64::from(u8::from(head > 0)) + f64::from(u8::from(tail > 0)));
    let own = shortened(&own, size, most - kept);
    let room = most - width(&own, size);
    let in_room = |part: &str, room: f64| {
        let short = shortened(part, size, room);
        if width(&short, size) <= room || part.is_empty() { short } else { "…".to_owned() }
    };
    let after = in_room(&after, (room - width(&before, size)).max(room / 2.0));
    let before = in_room(&before, room - width(&after, size));
    before + &own + &after
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(texts: &[String], most: f64) {
        let short = shortened_together(texts, 12.0, most);
        for (place, text) in short.iter().enumerate() {
            assert!(width(text, 12.0) <= most + 0.01, "{text:?} is wider than {most}");
            for other in 0..place {
                assert_eq!(short[other] == *text, texts[other] == texts[place], "{short:?}");
            }
        }
    }

    #[test]
    fn names_that_differ_still_do_when_they_are_shortened() {
        let layers: Vec<String> =
            (0..40).map(|layer| format!("decoder.layers.{layer}.self_attention.qkv_proj")).collect();
        let kinds: Vec<String> = (0..6)
            .flat_map(|a| {
                (0..6).map(move |b| format!("{a}_{}_{b}_{}_{a}", "long".repeat(12), "er".repeat(20)))
            })
            .collect();
        for most in [90.0, 120.0, 150.0, 230.0] {
            check(&layers, most);
            check(&kinds, most);
        }
        let short = shortened_together(&layers, 12.0, 150.0);
        assert!(short[7].contains(".7.") && short[39].contains(".39."), "{short:?}");
        check(&["a".repeat(80), "a".repeat(81), "a".repeat(80)].map(String::from), 150.0);
    }
}
