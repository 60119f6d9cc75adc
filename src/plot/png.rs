//! A scene as pixels.

use tiny_skia::{FillRule, Paint, Path, PathBuilder, Pixmap, Rect, Stroke, StrokeDash, Transform};

use super::font::{self, OutlineBuilder};
use super::scene::{Anchor, Label, Scene, Shape, Spot};
use super::theme::Color;
use crate::error::{Error, ErrorKind, Result};

/// The side of a picture, in pixels, that is still made: beyond, few viewers open it.
const MAX_SIDE: f64 = 16_384.0;

/// PNG, with so many pixels for each of the scene's units.
pub(super) fn png(scene: &Scene, ratio: f64) -> Result<Vec<u8>> {
    let side = |length: f64| Some(length * ratio).filter(|side| (1.0..=MAX_SIDE).contains(side));
    let too_large = || {
        let (width, height) = (scene.width * ratio, scene.height * ratio);
        Error::new(ErrorKind::Config, format!("a picture of {width:.0} x {height:.0} pixels is not made"))
            .with_hint("SVG has no such limit; or draw fewer configurations")
    };
    let (Some(width), Some(height)) = (side(scene.width), side(scene.height)) else {
        return Err(too_large());
    };
    // CAST: both are in range
    let mut pixels = Pixmap::new(width.ceil() as u32, height.ceil() as u32).ok_or_else(too_large)?;
    let [red, green, blue] = scene.palette.background;
    pixels.fill(tiny_skia::Color::from_rgba8(red, green, blue, 255));
    let mut canvas = Canvas { pixels: &mut pixels, ratio: ratio as f32 }; // CAST: a few
    scene.shapes.iter().for_each(|shape| canvas.draw(shape));
    let failed = |error| Error::new(ErrorKind::Call, "the picture could not be encoded").with_source(error);
    pixels.encode_png().map_err(failed)
}

struct Canvas<'a> {
    pixels: &'a mut Pixmap,
    ratio: f32,
}

/// Pixels are placed by half as many digits.
fn near((x, y): Spot) -> (f32, f32) {
    (x as f32, y as f32) // CAST: rounds to far less than a pixel
}

impl Canvas<'_> {
    fn draw(&mut self, shape: &Shape) {
        match shape {
            Shape::Box { area, color } => {
                let ((x, y), (width, height)) = (near((area.x, area.y)), near((area.width, area.height)));
                if let Some(rect) = Rect::from_xywh(x, y, width, height) {
                    self.fill(&PathBuilder::from_rect(rect), *color);
                }
            }
            Shape::Line { spots, color, width, dashes } => {
                let Some(path) = polygon(spots, false) else { return };
                let dashes: Vec<f32> = dashes.iter().map(|length| *length as f32).collect();
                let stroke = Stroke {
                    width: *width as f32,
                    line_join: tiny_skia::LineJoin::Round,
                    dash: if dashes.is_empty() { None } else { StrokeDash::new(dashes, 0.0) },
                    ..Stroke::default()
                };
                let transform = self.transform();
                self.pixels.stroke_path(&path, &paint(*color), &stroke, transform, None);
            }
            Shape::Fill { spots, color } => {
                if let Some(path) = polygon(spots, true) {
                    self.fill(&path, *color);
                }
            }
            Shape::Circle { at, radius, color } => {
                let (x, y) = near(*at);
                if let Some(path) = PathBuilder::from_circle(x, y, *radius as f32) {
                    self.fill(&path, *color);
                }
            }
            Shape::Label(label) => self.label(label),
        }
    }

    fn label(&mut self, label: &Label) {
        let length = font::width(&label.text, label.size);
        let before = match label.anchor {
            Anchor::Start => 0.0,
            Anchor::Middle => length / 2.0,
            Anchor::End => length,
        };
        let mut letters = Vec::new();
        let begin = |x: f64, scale: f64| Outline {
            path: PathBuilder::new(),
            x: (x - before) as f32,
            scale: scale as f32,
        };
        font::outlines(&label.text, label.size, begin, |outline: Outline| {
            letters.extend(outline.path.finish())
        });
        let (x, y) = near(label.at);
        let mut place = self.transform().pre_translate(x, y);
        if label.upwards {
            place = place.pre_rotate(-90.0);
        }
        for letter in letters {
            self.pixels.fill_path(&letter, &paint(label.color), FillRule::Winding, place, None);
        }
    }

    fn fill(&mut self, path: &Path, color: Color) {
        let transform = self.transform();
        self.pixels.fill_path(path, &paint(color), FillRule::Winding, transform, None);
    }

    fn transform(&self) -> Transform {
        Transform::from_scale(self.ratio, self.ratio)
    }
}

fn paint([red, green, blue]: Color) -> Paint<'static> {
    let mut paint = Paint::default();
    paint.set_color_rgba8(red, green, blue, 255);
    paint
}

fn polygon(spots: &[Spot], closed: bool) -> Option<Path> {
    let mut path = PathBuilder::new();
    for (place, spot) in spots.iter().enumerate() {
        let (x, y) = near(*spot);
        if place == 0 { path.move_to(x, y) } else { path.line_to(x, y) }
    }
    if closed {
        path.close();
    }
    path.finish()
}

/// A letter that becomes a path. Fonts count upwards, pictures downwards.
struct Outline {
    path: PathBuilder,
    x: f32,
    scale: f32,
}

impl Outline {
    fn at(&self, x: f32, y: f32) -> (f32, f32) {
        (self.x + x * self.scale, -y * self.scale)
    }
}

impl OutlineBuilder for Outline {
    fn move_to(&mut self, x: f32, y: f32) {
        let (x, y) = self.at(x, y);
        self.path.move_to(x, y);
    }

    fn line_to(&mut self, x: f32, y: f32) {
        let (x, y) = self.at(x, y);
        self.path.line_to(x, y);
    }

    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        let ((x1, y1), (x, y)) = (self.at(x1, y1), self.at(x, y));
        self.path.quad_to(x1, y1, x, y);
    }

    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        let ((x1, y1), (x2, y2), (x, y)) = (self.at(x1, y1), self.at(x2, y2), self.at(x, y));
        self.path.cubic_to(x1, y1, x2, y2, x, y);
    }

    fn close(&mut self) {
        self.path.close();
    }
}
