//! What a picture consists of, before it is an SVG or pixels.

use super::font;
use super::theme::{Color, Dashes, Marker, Palette};
use crate::error::is_steering;

/// A place: to the right, and down.
pub(super) type Spot = (f64, f64);

/// A rectangle.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Area {
    pub x: f64,
    pub y: f64,
    pub width: f64,
    pub height: f64,
}

impl Area {
    pub fn right(&self) -> f64 {
        self.x + self.width
    }

    pub fn bottom(&self) -> f64 {
        self.y + self.height
    }

    /// Whether two share more than an edge.
    pub fn overlaps(&self, other: &Self) -> bool {
        const SLACK: f64 = 0.01;
        self.x + SLACK < other.right()
            && other.x + SLACK < self.right()
            && self.y + SLACK < other.bottom()
            && other.y + SLACK < self.bottom()
    }

    /// Whether a line goes through it.
    pub fn is_crossed(&self, line: &[Spot]) -> bool {
        const STEP: f64 = 2.0;
        line.windows(2).any(|ends| {
            let [(x, y), (to_x, to_y)] = [ends[0], ends[1]];
            // CAST: as many as fit a picture
            let steps = ((to_x - x).hypot(to_y - y) / STEP).ceil().max(1.0) as usize;
            (0..=steps).any(|step| {
                let share = step as f64 / steps as f64;
                let (x, y) = (x + (to_x - x) * share, y + (to_y - y) * share);
                (self.x..self.right()).contains(&x) && (self.y..self.bottom()).contains(&y)
            })
        })
    }

    pub fn contains(&self, other: &Self) -> bool {
        const SLACK: f64 = 0.01;
        other.x >= self.x - SLACK
            && other.y >= self.y - SLACK
            && other.right() <= self.right() + SLACK
            && other.bottom() <= self.bottom() + SLACK
    }
}

/// Which end of a text its place is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Label {
    /// On the line that the letters stand on.
    pub at: Spot,
    pub anchor: Anchor,
    pub size: f64,
    pub color: Color,
    pub text: String,
    /// Read from the bottom to the top.
    pub upwards: bool,
}

impl Label {
    /// What it covers.
    pub fn area(&self) -> Area {
        let length = font::width(&self.text, self.size);
        let before = match self.anchor {
            Anchor::Start => 0.0,
            Anchor::Middle => length / 2.0,
            Anchor::End => length,
        };
        let (above, below) = (font::ASCENT * self.size, font::DESCENT * self.size);
        let (x, y) = self.at;
        if self.upwards {
            Area { x: x - above, y: y + before - length, width: above + below, height: length }
        } else {
            Area { x: x - before, y: y - above, width: length, height: above + below }
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Shape {
    Box { area: Area, color: Color },
    Line { spots: Vec<Spot>, color: Color, width: f64, dashes: Dashes },
    Fill { spots: Vec<Spot>, color: Color },
    Circle { at: Spot, radius: f64, color: Color },
    Label(Label),
}

/// A picture.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Scene {
    pub width: f64,
    pub height: f64,
    pub palette: &'static Palette,
    /// What a reader who does not see it is told.
    pub title: String,
    /// The later cover the earlier.
    pub shapes: Vec<Shape>,
}

impl Scene {
    pub fn fill_box(&mut self, area: Area, color: Color) {
        self.shapes.push(Shape::Box { area, color });
    }

    pub fn line(&mut self, spots: Vec<Spot>, color: Color, width: f64, dashes: Dashes) {
        if spots.len() > 1 {
            self.shapes.push(Shape::Line { spots, color, width, dashes });
        }
    }

    /// Text on one line, without what would be no XML or turns the letters around it.
    pub fn label(&mut self, text: &str, at: Spot, anchor: Anchor, size: f64, color: Color) -> Area {
        self.put(Label { at, anchor, size, color, text: printable(text), upwards: false })
    }

    pub fn label_upwards(&mut self, text: &str, at: Spot, anchor: Anchor, size: f64, color: Color) -> Area {
        self.put(Label { at, anchor, size, color, text: printable(text), upwards: true })
    }

    pub fn put(&mut self, label: Label) -> Area {
        let area = label.area();
        self.shapes.push(Shape::Label(label));
        area
    }

    pub fn labels(&self) -> impl Iterator<Item = &Label> {
        self.shapes.iter().filter_map(|shape| match shape {
            Shape::Label(label) => Some(label),
            _ => None,
        })
    }

    /// A point of a series: a filled shape about as large as a circle of this radius.
    pub fn mark(&mut self, marker: Marker, at: Spot, radius: f64, color: Color) {
        let around = |corners: u32, turn: f64, radius: f64| -> Vec<Spot> {
            let corner = |corner: u32| {
                let angle = std::f64::consts::TAU * (f64::from(corner) / f64::from(corners) + turn);
                (at.0 + radius * angle.sin(), at.1 - radius * angle.cos())
            };
            (0..corners).map(corner).collect()
        };
        let spots = match marker {
            Marker::Circle => {
                self.shapes.push(Shape::Circle { at, radius, color });
                return;
            }
            Marker::Square => around(4, 0.125, 1.25 * radius),
            Marker::Triangle => around(3, 0.0, 1.4 * radius),
            Marker::Diamond => around(4, 0.0, 1.35 * radius),
            Marker::Wedge => around(3, 0.5, 1.4 * radius),
            Marker::Hexagon => around(6, 0.0, 1.15 * radius),
            Marker::Star => {
                let (outer, inner) = (around(5, 0.0, 1.55 * radius), around(5, 0.1, 0.7 * radius));
                outer.into_iter().zip(inner).flat_map(|(outer, inner)| [outer, inner]).collect()
            }
        };
        self.shapes.push(Shape::Fill { spots, color });
    }

    /// A cross where there is no value.
    pub fn cross(&mut self, (x, y): Spot, radius: f64, color: Color) {
        for turn in [1.0, -1.0] {
            let spots = vec![(x - radius, y - turn * radius), (x + radius, y + turn * radius)];
            self.line(spots, color, 1.6, &[]);
        }
    }
}

fn printable(text: &str) -> String {
    text.chars()
        .map(|c| if is_steering(c) || matches!(c, '\u{fffe}' | '\u{ffff}') { ' ' } else { c })
        .collect()
}
