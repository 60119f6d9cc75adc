//! Around the panels: the title and what was in force above, the legend and notes below.

use super::font;
use super::scene::{Anchor, Area, Scene};
use super::theme::{Color, Look, Theme};

/// How a picture is made, whatever it shows.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Style {
    /// What it is to be read on.
    pub theme: Theme,
    /// Width in pixels.
    pub width: u32,
    /// Height of the panels together, in pixels; the legend and notes come below. None: as much as they need.
    pub height: Option<u32>,
    /// The title; none: one that says what is shown.
    pub title: Option<String>,
    /// Below the title; none: what was in force.
    pub subtitle: Option<String>,
}

/// The width of a picture, in pixels.
pub const DEFAULT_WIDTH: u32 = 880;

/// Narrower, nothing has room.
const MIN_WIDTH: u32 = 320;

impl Default for Style {
    fn default() -> Self {
        Self { theme: Theme::default(), width: DEFAULT_WIDTH, height: None, title: None, subtitle: None }
    }
}

impl Style {
    /// The width that is left between the edges.
    pub(super) fn room(&self) -> f64 {
        f64::from(self.width.max(MIN_WIDTH)) - 2.0 * EDGE
    }
}

pub(super) const EDGE: f64 = 14.0;
pub(super) const TITLE: f64 = 16.0;
pub(super) const TEXT: f64 = 12.0;
pub(super) const SMALL: f64 = 11.0;

/// From one line of text to the next, for a size.
pub(super) const LINE: f64 = 1.35;

/// What an entry of a legend shows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Swatch {
    Line(Look),
    Mark(Look),
    Fill(Color),
    Cross,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    pub swatch: Swatch,
    /// In front of the name, and behind it: values, which are never shortened.
    pub before: String,
    pub name: String,
    pub after: String,
}

impl Entry {
    pub fn named(swatch: Swatch, name: String) -> Self {
        Self { swatch, before: String::new(), name, after: String::new() }
    }
}

/// What stands around the panels.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Frame {
    pub title: String,
    pub subtitle: String,
    pub legend: Vec<Entry>,
    pub notes: Vec<String>,
}

/// Up to so many entries of a legend may take the whole width.
const FEW: usize = 9;
/// Names have so much room, whatever stands beside them.
const NAME: f64 = 160.0;
const SWATCH: f64 = 22.0;
const BETWEEN_ENTRIES: f64 = 18.0;

impl Frame {
    /// Draws it, and returns where the panels go.
    pub fn draw(&self, style: &Style, panels_height: f64) -> (Scene, Area) {
        let room = style.room();
        let width = room + 2.0 * EDGE;
        let palette = style.theme.palette();
        let title = style.title.as_deref().unwrap_or(&self.title);
        let subtitle = style.subtitle.as_deref().unwrap_or(&self.subtitle);
        let mut scene = Scene { width, height: 0.0, palette, title: title.to_owned(), shapes: Vec::new() };
        let mut y = EDGE;
        for line in wrapped(title, TITLE, room) {
            scene.label(&line, (EDGE, y + font::ASCENT * TITLE), Anchor::Start, TITLE, palette.text);
            y += TITLE * LINE;
        }
        for line in wrapped(subtitle, SMALL, room) {
            scene.label(&line, (EDGE, y + font::ASCENT * SMALL), Anchor::Start, SMALL, palette.muted);
            y += SMALL * LINE;
        }
        y += 6.0;
        let panels = Area { x: EDGE, y, width: room, height: panels_height };
        y = panels.bottom() + 8.0;
        y = self.legend(&mut scene, y, room);
        for note in &self.notes {
            for line in wrapped(note, SMALL, room) {
                scene.label(&line, (EDGE, y + font::ASCENT * SMALL), Anchor::Start, SMALL, palette.muted);
                y += SMALL * LINE;
            }
        }
        scene.height = (y + EDGE - 4.0).ceil();
        (scene, panels)
    }

    /// Entries in columns of one width, as many beside each other as have room.
    fn legend(&self, scene: &mut Scene, top: f64, room: f64) -> f64 {
        // A few long names may have a line each.
        let most = if self.legend.len() <= FEW { room } else { room.min(360.0) } - SWATCH;
        let beside = |entry: &Entry| font::width(&entry.before, TEXT) + font::width(&entry.after, TEXT);
        let beside = self.legend.iter().map(beside).fold(0.0, f64::max);
        let names: Vec<String> = self.legend.iter().map(|entry| entry.name.clone()).collect();
        let names = font::shortened_together(&names, TEXT, (most - beside).max(most.min(NAME)));
        let texts: Vec<Vec<String>> = self
            .legend
            .iter()
            .zip(names)
            .map(|(Entry { before, after, .. }, name)| {
                let text = format!("{before}{name}{after}");
                if font::width(&text, TEXT) <= room - SWATCH {
                    vec![text]
                } else {
                    wrapped(&text, TEXT, room - SWATCH)
                }
            })
            .collect();
        let widest = texts.iter().flatten().map(|text| font::width(text, TEXT)).fold(0.0, f64::max);
        let column = SWATCH + widest + BETWEEN_ENTRIES;
        // CAST: a few
        let columns = (((room + BETWEEN_ENTRIES) / column).floor() as usize).max(1);
        let line = TEXT * LINE + 2.0;
        let color = scene.palette.text;
        let mut y = top;
        for (entries, texts) in self.legend.chunks(columns).zip(texts.chunks(columns)) {
            for (place, (entry, lines)) in entries.iter().zip(texts).enumerate() {
                let x = EDGE + column * place as f64;
                draw_swatch(scene, entry.swatch, (x, y + line / 2.0));
                for (place, text) in lines.iter().enumerate() {
                    let y = y + line * (place as f64 + 0.5) + 0.36 * TEXT;
                    scene.label(text, (x + SWATCH, y), Anchor::Start, TEXT, color);
                }
            }
            y += line * texts.iter().map(Vec::len).max().unwrap_or(0) as f64;
        }
        if self.legend.is_empty() { top } else { y + 4.0 }
    }
}

fn draw_swatch(scene: &mut Scene, swatch: Swatch, (x, middle): (f64, f64)) {
    let center = (x + 8.0, middle);
    match swatch {
        Swatch::Line(look) => {
            scene.line(vec![(x, middle), (x + 16.0, middle)], look.color, 1.8, look.dashes);
            scene.mark(look.marker, center, 3.2, look.color);
        }
        Swatch::Mark(look) => scene.mark(look.marker, center, 4.0, look.color),
        Swatch::Fill(color) => {
            scene.fill_box(Area { x: x + 2.0, y: middle - 5.0, width: 12.0, height: 10.0 }, color);
        }
        Swatch::Cross => {
            let color = scene.palette.warning;
            scene.cross(center, 4.0, color);
        }
    }
}

/// The text in lines of at most this width; a word that is wider is shortened.
pub(super) fn wrapped(text: &str, size: f64, most: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let word = font::shortened(word, size, most);
        match lines.last_mut() {
            Some(line)
                if font::width(line, size) + font::width(" ", size) + font::width(&word, size) <= most =>
            {
                line.push(' ');
                line.push_str(&word);
            }
            _ => lines.push(word),
        }
    }
    lines
}
