//! A scene as SVG.

use std::fmt::Write;

use super::font::FAMILY;
use super::scene::{Anchor, Label, Scene, Shape, Spot};
use super::theme::Color;
use crate::summary::escaped::xml_escaped;

/// The same scene gives the same text. Everything is written out: no style sheet, no script, nothing that a viewer has
/// to fetch.
pub(super) fn svg(scene: &Scene) -> String {
    let Scene { width, height, palette, title, shapes } = scene;
    let (width, height) = (number(*width), number(*height));
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" role=\"img\" font-family=\"{FAMILY}\">\n<title>{}</title>\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"{}\"/>\n",
        xml_escaped(title),
        hex(palette.background)
    );
    for shape in shapes {
        put(&mut text, shape);
        text.push('\n');
    }
    text.push_str("</svg>\n");
    text
}

fn put(text: &mut String, shape: &Shape) {
    // Writing to a String does not fail.
    let _ = match shape {
        Shape::Box { area, color } => write!(
            text,
            "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\"/>",
            number(area.x),
            number(area.y),
            number(area.width),
            number(area.height),
            hex(*color)
        ),
        Shape::Line { spots, color, width, dashes } => {
            let dashes: Vec<String> = dashes.iter().map(|length| number(*length)).collect();
            let dashes = if dashes.is_empty() {
                String::new()
            } else {
                format!(" stroke-dasharray=\"{}\"", dashes.join(" "))
            };
            write!(
                text,
                "<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{}\" stroke-linejoin=\"round\"{dashes}/>",
                path(spots),
                hex(*color),
                number(*width)
            )
        }
        Shape::Fill { spots, color } => {
            write!(text, "<path d=\"{}Z\" fill=\"{}\"/>", path(spots), hex(*color))
        }
        Shape::Circle { at, radius, color } => write!(
            text,
            "<circle cx=\"{}\" cy=\"{}\" r=\"{}\" fill=\"{}\"/>",
            number(at.0),
            number(at.1),
            number(*radius),
            hex(*color)
        ),
        Shape::Label(label) => put_label(text, label),
    };
}

fn put_label(text: &mut String, label: &Label) -> std::fmt::Result {
    let anchor = match label.anchor {
        Anchor::Start => "",
        Anchor::Middle => " text-anchor=\"middle\"",
        Anchor::End => " text-anchor=\"end\"",
    };
    let (x, y) = (number(label.at.0), number(label.at.1));
    let turn = if label.upwards { format!(" transform=\"rotate(-90 {x} {y})\"") } else { String::new() };
    let (size, color, words) = (number(label.size), hex(label.color), xml_escaped(&label.text));
    write!(
        text,
        "<text x=\"{x}\" y=\"{y}\" font-size=\"{size}\" fill=\"{color}\"{anchor}{turn}>{words}</text>"
    )
}

fn path(spots: &[Spot]) -> String {
    let mut path = String::new();
    for (place, (x, y)) in spots.iter().enumerate() {
        let _ = write!(path, "{}{} {}", if place == 0 { 'M' } else { 'L' }, number(*x), number(*y));
    }
    path
}

/// With two decimals at most.
fn number(value: f64) -> String {
    let text = format!("{value:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

fn hex([red, green, blue]: Color) -> String {
    format!("#{red:02x}{green:02x}{blue:02x}")
}
