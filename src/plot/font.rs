//! The letters: DejaVu Sans, of which the parts that names and units need come with the crate (`src/plot/font`).
//!
//! Pictures are laid out by its widths. It is wider than most, so that an SVG whose viewer has another font has room for it.

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
