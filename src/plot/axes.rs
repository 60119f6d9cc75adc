//! The axes of a panel.

use super::font;
use super::frame::{LINE, SMALL, TEXT};
use super::scale::{Scale, Tick};
use super::scene::{Anchor, Area, Scene};

/// Between an axis and the texts of its ticks.
const GAP: f64 = 7.0;

/// Texts of ticks of one axis that lie nearer are not read apart.
const BETWEEN: f64 = 8.0;

/// Texts below a panel reach so far beyond its sides.
pub(super) const OUTSIDE: f64 = 12.0;

/// What stands below a panel.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Bottom {
    /// A scale with ticks.
    Scale(Scale),
    /// Names side by side.
    Names(Vec<String>),
    /// A number for each of some values.
    Values(Scale, Vec<Tick>),
}

/// How much room names take below a panel of some width, and how they are written.
#[derive(Clone, Debug, PartialEq)]
struct Names {
    upwards: bool,
    /// Each of so many is written.
    every: usize,
    texts: Vec<String>,
    height: f64,
}

/// Longer names are shortened, where they are written upwards.
const MAX_UPWARDS: f64 = 150.0;

fn names(texts: &[String], width: f64) -> Names {
    let band = width / texts.len().max(1) as f64;
    let line = TEXT * LINE;
    let widest = texts.iter().map(|text| font::width(text, TEXT)).fold(0.0, f64::max);
    if widest + BETWEEN <= band {
        return Names { upwards: false, every: 1, texts: texts.to_vec(), height: line };
    }
    // A few long names are shortened before they are turned.
    let upright = font::shortened_together(texts, TEXT, band - BETWEEN);
    if band >= 90.0 && upright.iter().all(|short| texts.contains(short) || font::width(short, TEXT) > 70.0) {
        return Names { upwards: false, every: 1, texts: upright, height: line };
    }
    let short = font::shortened_together(texts, TEXT, MAX_UPWARDS);
    let height = short.iter().map(|text| font::width(text, TEXT)).fold(0.0, f64::max);
    // CAST: a few
    let every = ((line / band).ceil() as usize).max(1);
    Names { upwards: true, every, texts: short, height: height + 2.0 }
}

/// The room that a scale's texts and title take at the left of a panel.
pub(super) fn left_width(scale: &Scale, title: &str) -> f64 {
    let widest = scale.ticks.iter().map(|tick| font::width(&tick.text, SMALL)).fold(0.0, f64::max);
    widest + GAP + if title.is_empty() { 0.0 } else { TEXT * LINE + 4.0 }
}

/// The room below a panel.
pub(super) fn bottom_height(bottom: &Bottom, width: f64, title: &str) -> f64 {
    let texts = match bottom {
        Bottom::Names(texts) => names(texts, width).height,
        Bottom::Scale(_) | Bottom::Values(..) => SMALL * LINE,
    };
    GAP + texts + if title.is_empty() { 0.0 } else { TEXT * LINE + 2.0 }
}

/// Draws lines across the panel, texts at its left, and the title upwards beside them. Without `texts` only the lines.
pub(super) fn draw_left(scene: &mut Scene, panel: Area, scale: &Scale, title: &str, texts: bool) {
    let palette = scene.palette;
    let at = |value| scale.place(value).map(|share| panel.bottom() - share * panel.height);
    for y in scale.minor.iter().filter_map(|value| at(*value)) {
        let color = palette.faint(palette.grid, 0.5);
        scene.line(vec![(panel.x, y), (panel.right(), y)], color, 1.0, &[]);
    }
    let mut last: Option<Area> = None;
    for tick in &scale.ticks {
        let Some(y) = at(tick.value) else { continue };
        scene.line(vec![(panel.x, y), (panel.right(), y)], palette.grid, 1.0, &[]);
        if !texts || last.is_some_and(|last| y + font::DESCENT * SMALL > last.y) {
            continue;
        }
        let spot = (panel.x - GAP, y + 0.36 * SMALL);
        last = Some(scene.label(&tick.text, spot, Anchor::End, SMALL, palette.muted));
    }
    if texts && !title.is_empty() {
        let x = panel.x - left_width(scale, title) + font::ASCENT * TEXT;
        let short = font::shortened(title, TEXT, panel.height);
        scene.label_upwards(&short, (x, panel.y + panel.height / 2.0), Anchor::Middle, TEXT, palette.text);
    }
}

/// Where the middle of a name is.
pub(super) fn band_middle(panel: Area, count: usize, place: usize) -> f64 {
    panel.x + panel.width * (place as f64 + 0.5) / count.max(1) as f64
}

/// Draws the axis, its texts and its title below the panel.
pub(super) fn draw_bottom(scene: &mut Scene, panel: Area, bottom: &Bottom, title: &str, texts: bool) {
    let palette = scene.palette;
    scene.line(vec![(panel.x, panel.bottom()), (panel.right(), panel.bottom())], palette.axis, 1.0, &[]);
    let top = panel.bottom() + GAP;
    match bottom {
        Bottom::Names(all) if texts => {
            let laid = names(all, panel.width);
            for (place, text) in laid.texts.iter().enumerate().step_by(laid.every) {
                let x = band_middle(panel, all.len(), place);
                if laid.upwards {
                    let spot = (x + 0.36 * TEXT, top);
                    scene.label_upwards(text, spot, Anchor::End, TEXT, palette.muted);
                } else {
                    let spot = (x, top + font::ASCENT * TEXT);
                    scene.label(text, spot, Anchor::Middle, TEXT, palette.muted);
                }
            }
        }
        Bottom::Names(_) => {}
        Bottom::Scale(scale) => ticks(scene, panel, scale, &scale.ticks, texts, true),
        Bottom::Values(scale, values) => ticks(scene, panel, scale, values, texts, false),
    }
    if texts && !title.is_empty() {
        let y = panel.bottom() + bottom_height(bottom, panel.width, title) - font::DESCENT * TEXT - 1.0;
        let short = font::shortened(title, TEXT, panel.width);
        scene.label(&short, (panel.x + panel.width / 2.0, y), Anchor::Middle, TEXT, palette.text);
    }
}

/// Draws the axes of the one panel that an area is for, with their titles. Returns where it is.
pub(super) fn draw_panel(
    scene: &mut Scene,
    area: Area,
    (up, y_title): (&Scale, &str),
    (bottom, x_title): (&Bottom, &str),
) -> Area {
    let left = left_width(up, y_title);
    let below = bottom_height(bottom, 0.0, x_title);
    let panel = Area {
        x: area.x + left,
        y: area.y + 4.0,
        width: area.width - left - 20.0,
        height: area.height - below - 4.0,
    };
    draw_left(scene, panel, up, y_title, true);
    draw_bottom(scene, panel, bottom, x_title, true);
    panel
}

fn ticks(scene: &mut Scene, panel: Area, scale: &Scale, ticks: &[Tick], texts: bool, lines: bool) {
    let palette = scene.palette;
    let at = |value| scale.place(value).map(|share| panel.x + share * panel.width);
    if lines {
        for x in scale.minor.iter().filter_map(|value| at(*value)) {
            let color = palette.faint(palette.grid, 0.5);
            scene.line(vec![(x, panel.y), (x, panel.bottom())], color, 1.0, &[]);
        }
    }
    // The ends are written before what is between them, as far as there is room.
    let last = ticks.len().saturating_sub(1);
    let order = (0..ticks.len().min(1)).chain((last > 0).then_some(last)).chain(1..last);
    let mut taken: Vec<(f64, f64)> = Vec::new();
    for tick in order.filter_map(|place| ticks.get(place)) {
        let Some(x) = at(tick.value) else { continue };
        if lines {
            scene.line(vec![(x, panel.y), (x, panel.bottom())], palette.grid, 1.0, &[]);
        } else {
            scene.line(vec![(x, panel.bottom()), (x, panel.bottom() + 4.0)], palette.axis, 1.0, &[]);
        }
        let half = font::width(&tick.text, SMALL) / 2.0;
        // Not into what is beside the panel.
        let (least, most) = (panel.x - OUTSIDE + half, panel.right() + OUTSIDE - half);
        if least > most {
            continue;
        }
        let x = x.clamp(least, most);
        let (from, to) = (x - half - BETWEEN / 2.0, x + half + BETWEEN / 2.0);
        if texts && taken.iter().all(|(start, end)| to <= *start || *end <= from) {
            let spot = (x, panel.bottom() + GAP + font::ASCENT * SMALL);
            scene.label(&tick.text, spot, Anchor::Middle, SMALL, palette.muted);
            taken.push((from, to));
        }
    }
}
