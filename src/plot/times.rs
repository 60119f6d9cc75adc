//! A metric over configurations, with how certain it is.

use rustc_hash::FxHashMap;

use super::Plot;
use super::arrange::{Arranged, Spot, Wanted, arrange};
use super::axes::{Bottom, OUTSIDE, band_middle, bottom_height, draw_bottom, draw_left, left_width};
use super::font;
use super::frame::{Entry, Frame, LINE, SMALL, Style, Swatch, TEXT};
use super::measurements::{Cell, Measurements, unknown};
use super::scale::{Scale, Spacing, Tick};
use super::scene::{Anchor, Area, Label, Scene, Shape};
use super::theme::Look;
use super::unit::{Unit, digits};
use crate::error::{Error, ErrorKind, Result};
use crate::stats;

/// What stands for the runs of a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Statistic {
    /// The mean, with its interval by Student's t.
    Mean,
    /// The median, with its interval by ranks, which there is of six independent runs or more.
    Median,
}

/// How values are drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Form {
    /// Lines over numbers, bars over anything else, and points alone where bars would need a logarithmic axis.
    #[default]
    Auto,
    /// Points, joined.
    Line,
    /// Bars side by side, from zero; points on an axis without a zero: a logarithmic one, or one that fits the values.
    Bar,
}

/// How a metric over configurations is drawn, see [`Measurements::times`].
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Times {
    /// The metric; the first that was measured by default.
    pub metric: Option<String>,
    /// The median by default.
    pub statistic: Option<Statistic>,
    /// Lines, bars, or what suits.
    pub form: Form,
    /// The parameters along the axis; by default the number with the most values.
    pub x: Vec<String>,
    /// The parameter whose values are panels below each other.
    pub rows: Option<String>,
    /// The parameter whose values are panels beside each other.
    pub columns: Option<String>,
    /// How values are spaced.
    pub spacing: Spacing,
    /// The annotation whose values others are divided by, run by run.
    pub relative_to: Option<String>,
    /// Whether each value is written beside its point.
    pub values: bool,
    /// Colours and sizes.
    pub style: Style,
}

/// A value with its interval.
#[derive(Clone, Copy, Debug)]
struct Point {
    spot: Spot,
    center: Option<f64>,
    ends: Option<[f64; 2]>,
}

const PANEL_HEIGHT: f64 = 300.0;
const PANEL_HEIGHT_OF_SEVERAL: f64 = 180.0;
/// Less is no picture, whatever was asked for.
const MIN_PANEL_HEIGHT: f64 = 60.0;
const BETWEEN_PANELS: f64 = 2.0 * OUTSIDE + 4.0;
/// Bars of one configuration take this part of its width.
const BARS: f64 = 0.8;

impl Measurements {
    /// Draws a metric over the configurations: a point or bar for each, with its 95 % interval.
    ///
    /// One parameter lies along the axis (a logarithmic one where the numbers double and double), others are panels if
    /// asked for, and every combination of what is left is a series. The axis of values begins at zero, or is logarithmic where
    /// the spread demands it. A configuration whose runs all failed is a cross.
    ///
    /// # Errors
    /// [`Config`](ErrorKind::Config) where there is no such metric, parameter or annotation.
    pub fn times(&self, how: &Times) -> Result<Plot> {
        let cells = self.cells_of(how.metric.as_deref())?;
        let wanted = Wanted { x: &how.x, rows: how.rows.as_deref(), columns: how.columns.as_deref() };
        let drawn: Vec<&Cell> = match &how.relative_to {
            Some(base) => {
                cells.iter().copied().filter(|cell| &*cell.key.annotation != base.as_str()).collect()
            }
            None => cells.clone(),
        };
        if drawn.is_empty() {
            return Err(Error::new(
                ErrorKind::Config,
                "there is nothing but the annotation that others are relative to",
            ));
        }
        let arranged = arrange(self, &drawn, wanted)?;
        let statistic = how.statistic.unwrap_or(Statistic::Median);
        let centers: Vec<Center> = match &how.relative_to {
            Some(base) => self.ratios(&cells, &drawn, base)?,
            None => drawn.iter().map(|cell| center(cell, statistic)).collect(),
        };
        let points: Vec<Point> = arranged
            .spots
            .iter()
            .zip(centers)
            .map(|(spot, (center, ends))| Point { spot: *spot, center, ends })
            .collect();
        let first = drawn[0];
        let unit = if how.relative_to.is_some() { Unit::none() } else { Unit::of(&first.unit) };
        let picture = Picture { how, arranged: &arranged, points: &points, unit: &unit };
        Ok(picture.draw(self, &drawn, statistic))
    }

    /// Each cell's values over those of the base, in pairs of the same run.
    fn ratios(&self, cells: &[&Cell], drawn: &[&Cell], base: &str) -> Result<Vec<Center>> {
        let annotations: Vec<&str> = cells.iter().map(|cell| &*cell.key.annotation).collect();
        if !annotations.contains(&base) {
            let mut known: Vec<&str> = Vec::new();
            annotations.into_iter().for_each(|name| {
                if !known.contains(&name) {
                    known.push(name)
                }
            });
            return Err(unknown("annotation", base, &known));
        }
        Ok(drawn.iter().map(|cell| ratio(cell, cells, base).unwrap_or_default()).collect())
    }
}

/// A value, and the ends of its interval.
type Center = (Option<f64>, Option<[f64; 2]>);

fn ratio(cell: &Cell, cells: &[&Cell], base: &str) -> Option<Center> {
    let is_base = |other: &&&Cell| {
        other.config() == cell.config()
            && &*other.key.annotation == base
            && other.key.kernel == cell.key.kernel
    };
    let base = cells.iter().find(is_base)?;
    let of_runs: FxHashMap<_, f64> =
        base.values.iter().filter_map(|value| Some(((value.run, value.repeat), value.value?))).collect();
    let pairs = cell
        .values
        .iter()
        .filter_map(|value| Some((*of_runs.get(&(value.run, value.repeat))?, value.value?)));
    let pairs: Vec<(f64, f64)> = pairs.filter(|(base, value)| *base > 0.0 && *value > 0.0).collect();
    let compared = stats::paired(&pairs).ok()?;
    let ends = compared.ratio_interval().map(|ends| [ends.low, ends.high]);
    Some((Some(compared.log_ratio.exp()).filter(|_| !pairs.is_empty()), ends))
}

fn center(cell: &Cell, statistic: Statistic) -> Center {
    let told = &cell.told;
    let (center, [low, high]) = match statistic {
        Statistic::Mean => (told.mean, told.mean_ends),
        Statistic::Median => (told.median, told.median_ends),
    };
    (center, low.zip(high).map(|(low, high)| [low, high]))
}

struct Picture<'a> {
    how: &'a Times,
    arranged: &'a Arranged,
    points: &'a [Point],
    unit: &'a Unit,
}

/// How far series of one number lie apart: so little that they are still read at their number, and inside of the panel.
fn step_of_series(panel: Area, middles: &[f64], series: usize) -> f64 {
    const MOST: f64 = 3.5;
    /// Less tells no two points apart.
    const LEAST: f64 = 1.5;
    /// All of a number together take this part of the way to the next.
    const SHARE: f64 = 0.1;
    let (Some(first), Some(last)) = (middles.first(), middles.last()) else { return 0.0 };
    let nearest = middles.windows(2).map(|pair| pair[1] - pair[0]).fold(f64::INFINITY, f64::min);
    let to_edge = (first - panel.x).min(panel.right() - last);
    let step = (SHARE * nearest).min(2.0 * to_edge) / (series - 1).max(1) as f64;
    if step < LEAST { 0.0 } else { step.min(MOST) }
}

impl Picture<'_> {
    fn draw(&self, all: &Measurements, cells: &[&Cell], statistic: Statistic) -> Plot {
        let Self { how, arranged, points, unit } = self;
        let (rows, columns) = (arranged.rows.len(), arranged.columns.len());
        let bar = self.is_bar();
        let ends = points.iter().flat_map(|point| point.ends.into_iter().flatten());
        let values = points.iter().filter_map(|point| point.center).chain(ends);
        let values = values.chain(how.relative_to.is_some().then_some(1.0));
        let usual = if rows > 1 { PANEL_HEIGHT_OF_SEVERAL } else { PANEL_HEIGHT };
        let guess = how.style.height.map_or(usual, |height| f64::from(height) / rows as f64 - 50.0);
        let most_ticks = (guess / 38.0).clamp(2.0, 12.0) as usize; // CAST: a few
        // Bars begin at zero.
        let spacing = if bar { Spacing::Linear } else { how.spacing };
        let scale = Scale::of(values, spacing, unit, most_ticks);
        let metric = &cells[0].key.metric;
        let title = match &how.relative_to {
            Some(base) => format!("{metric} relative to {base}"),
            None if scale.unit.is_empty() => metric.to_string(),
            None => format!("{metric} ({})", scale.unit),
        };
        let left = left_width(&scale, &title);
        let heading = if rows * columns > 1 { TEXT * LINE + 4.0 } else { 4.0 };
        let between = BETWEEN_PANELS * (columns - 1) as f64;
        let width = (how.style.room() - left - 2.0 * OUTSIDE - between) / columns as f64;
        let bottom = self.bottom(bar);
        let below = bottom_height(&bottom, width, &arranged.x_title);
        // All but the panels themselves.
        let around = below + BETWEEN_PANELS * (rows - 1) as f64 + heading * rows as f64;
        let each = how.style.height.map_or(usual, |height| (f64::from(height) - around) / rows as f64);
        let each = each.max(MIN_PANEL_HEIGHT);
        let frame = self.frame(all, cells, statistic, bar);
        let (mut scene, area) = frame.draw(&how.style, around + each * rows as f64);
        for row in 0..rows {
            for column in 0..columns {
                let panel = Area {
                    x: area.x + left + (width + BETWEEN_PANELS) * column as f64,
                    y: area.y + heading + (each + heading + BETWEEN_PANELS) * row as f64,
                    width,
                    height: each,
                };
                let (first, last) = (column == 0, row + 1 == rows);
                draw_left(&mut scene, panel, &scale, if first { &title } else { "" }, first);
                draw_bottom(&mut scene, panel, &bottom, if last { &arranged.x_title } else { "" }, last);
                self.heading(&mut scene, panel, row, column);
                if how.relative_to.is_some()
                    && let Some(share) = scale.place(1.0)
                {
                    let y = panel.bottom() - share * panel.height;
                    let color = scene.palette.axis;
                    scene.line(vec![(panel.x, y), (panel.right(), y)], color, 1.2, &[4.0, 3.0]);
                }
                let of_panel =
                    points.iter().filter(|point| (point.spot.row, point.spot.column) == (row, column));
                self.draw_points(
                    &mut scene,
                    panel,
                    (&scale, &bottom),
                    &of_panel.copied().collect::<Vec<_>>(),
                    bar,
                );
            }
        }
        Plot { scene }
    }

    fn is_bar(&self) -> bool {
        match self.how.form {
            Form::Bar => matches!(self.how.spacing, Spacing::Auto | Spacing::Linear),
            Form::Line => false,
            Form::Auto => {
                let values = self.points.iter().filter_map(|point| point.center);
                let is_log = Scale::of(values, self.how.spacing, self.unit, 5).is_log();
                self.arranged.numbers.is_none() && !is_log && self.how.spacing != Spacing::Fit
            }
        }
    }

    fn frame(&self, all: &Measurements, cells: &[&Cell], statistic: Statistic, bar: bool) -> Frame {
        let Self { how, arranged, points, .. } = self;
        let palette = how.style.theme.palette();
        let named = arranged.series.len() > 1 || arranged.series.iter().any(|name| !name.is_empty());
        let mut legend: Vec<Entry> = Vec::new();
        for (series, text) in arranged.series.iter().enumerate().filter(|_| named) {
            let look = palette.look(series);
            let swatch = match () {
                () if bar => Swatch::Fill(look.color),
                () if self.is_joined() => Swatch::Line(look),
                () => Swatch::Mark(look),
            };
            legend.push(Entry::named(swatch, text.clone()));
        }
        if points.iter().any(|point| point.center.is_none()) {
            legend.push(Entry::named(Swatch::Cross, "no valid value".to_owned()));
        }
        let metric = &cells[0].key.metric;
        let by =
            if arranged.x_title.is_empty() { String::new() } else { format!(" by {}", arranged.x_title) };
        let runs = cells.iter().map(|cell| cell.told.n_valid).filter(|n| *n > 0);
        let (least, most) = (runs.clone().min().unwrap_or(0), runs.max().unwrap_or(0));
        let runs = if least == most { most.to_string() } else { format!("{least} to {most}") };
        let of_what = match (&how.relative_to, statistic) {
            (Some(_), _) => "geometric mean of the ratios",
            (None, Statistic::Mean) => "mean",
            (None, Statistic::Median) => "median",
        };
        let certainty = self.certainty(cells, statistic);
        let runs = if runs == "1" { "1 value".to_owned() } else { format!("{runs} values") };
        let parts =
            [format!("{of_what} of {runs}{certainty}"), arranged.constant.clone(), all.conditions.clone()];
        let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        Frame {
            title: all.named(&format!("{metric}{by}")),
            subtitle: parts.join("; "),
            legend,
            notes: all.missing.clone(),
        }
    }

    /// Whether there are intervals, and how many have none.
    fn certainty(&self, cells: &[&Cell], statistic: Statistic) -> String {
        let valued = self.points.iter().filter(|point| point.center.is_some()).count();
        let without =
            self.points.iter().filter(|point| point.center.is_some() && point.ends.is_none()).count();
        let needs = match statistic {
            _ if self.how.relative_to.is_some() => "two pairs of runs",
            Statistic::Mean => "two independent runs",
            // By ranks, of as many as they are worth.
            Statistic::Median => "six independent runs",
        };
        let has = if without == 1 { "has" } else { "have" };
        match without {
            0 if valued == 0 => String::new(),
            0 => " with its 95 % interval".to_owned(),
            // A single run has no spread that anybody would look for.
            _ if without == valued && cells.iter().all(|cell| cell.told.n_valid < 2) => String::new(),
            _ if without == valued => format!(" without a 95 % interval: they are worth fewer than {needs}"),
            _ => {
                format!(" with its 95 % interval; {without} of {valued} {has} none, worth fewer than {needs}")
            }
        }
    }

    /// Whether points are joined by lines.
    fn is_joined(&self) -> bool {
        self.how.form == Form::Line || self.arranged.numbers.is_some()
    }

    fn bottom(&self, bar: bool) -> Bottom {
        match &self.arranged.numbers {
            Some(numbers) if !bar => {
                // Numbers that double and double lie equally far from each other.
                let (least, most) = (numbers[0], numbers[numbers.len() - 1]);
                let spacing = if least > 0.0 && most / least >= 8.0 { Spacing::Log } else { Spacing::Fit };
                let ticks: Vec<Tick> = numbers
                    .iter()
                    .zip(&self.arranged.x)
                    .map(|(value, text)| Tick { value: *value, text: text.clone() })
                    .collect();
                Bottom::Values(Scale::tight(least, most, spacing == Spacing::Log), ticks)
            }
            _ => Bottom::Names(self.arranged.x.clone()),
        }
    }

    fn heading(&self, scene: &mut Scene, panel: Area, row: usize, column: usize) {
        let Arranged { rows, columns, .. } = self.arranged;
        let joined = |row: &String, column: &String| {
            let parts = [row, column].map(String::as_str);
            parts.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join(", ")
        };
        let all: Vec<String> =
            rows.iter().flat_map(|row| columns.iter().map(move |column| joined(row, column))).collect();
        let text = &font::shortened_together(&all, TEXT, panel.width)[row * columns.len() + column];
        if !text.is_empty() {
            let color = scene.palette.text;
            scene.label(text, (panel.x, panel.y - 6.0), Anchor::Start, TEXT, color);
        }
    }

    fn draw_points(
        &self,
        scene: &mut Scene,
        panel: Area,
        (scale, bottom): (&Scale, &Bottom),
        points: &[Point],
        bar: bool,
    ) {
        let palette = scene.palette;
        let count = self.arranged.x.len();
        let series = self.arranged.series.len();
        let band = panel.width / count.max(1) as f64;
        let bar_width = band * BARS / series as f64;
        let joined = self.is_joined();
        let middle = |place: usize| match bottom {
            Bottom::Values(along, ticks) => {
                let share = ticks.get(place).and_then(|tick| along.place(tick.value)).unwrap_or(0.5);
                panel.x + share * panel.width
            }
            _ => band_middle(panel, count, place),
        };
        let middles: Vec<f64> = (0..count).map(middle).collect();
        // Beside each other, so that intervals do not hide each other.
        let step = match bottom {
            _ if bar => bar_width,
            Bottom::Values(..) => step_of_series(panel, &middles, series),
            _ => (band * 0.3 / series as f64).min(if joined { 3.5 } else { 9.0 }),
        };
        let x_of = |spot: Spot| middles[spot.x] + step * (spot.series as f64 - (series - 1) as f64 / 2.0);
        let y_of = |value: f64| scale.place(value).map(|share| panel.bottom() - share * panel.height);
        let zero = y_of(0.0).unwrap_or(panel.bottom());
        for index in 0..series {
            let mut of_series: Vec<&Point> =
                points.iter().filter(|point| point.spot.series == index).collect();
            of_series.sort_by_key(|point| point.spot.x);
            let look = palette.look(index);
            if joined && !bar {
                // A value that is missing is a gap.
                for joined in of_series.split(|point| point.center.and_then(y_of).is_none()) {
                    let spots =
                        joined.iter().filter_map(|point| Some((x_of(point.spot), y_of(point.center?)?)));
                    scene.line(spots.collect(), look.color, 1.8, look.dashes);
                }
            }
            for point in &of_series {
                let x = x_of(point.spot);
                let Some(y) = point.center.and_then(y_of) else {
                    scene.cross((x, panel.bottom() - 7.0), 4.0, palette.warning);
                    continue;
                };
                if bar {
                    let (top, bottom) = if y < zero { (y, zero) } else { (zero, y) };
                    let width = (bar_width * 0.92).max(0.5);
                    scene.fill_box(
                        Area { x: x - width / 2.0, y: top, width, height: bottom - top },
                        look.color,
                    );
                }
                self.interval(scene, point, (x, bar_width, bar), look, &y_of);
                if !bar {
                    scene.mark(look.marker, (x, y), 3.2, look.color);
                }
            }
        }
        if self.how.values {
            self.write_values(scene, panel, points, bar.then_some((zero, bar_width)), &x_of, &y_of);
        }
    }

    fn interval(
        &self,
        scene: &mut Scene,
        point: &Point,
        (x, bar_width, bar): (f64, f64, bool),
        look: Look,
        y_of: &dyn Fn(f64) -> Option<f64>,
    ) {
        let Some([Some(low), Some(high)]) = point.ends.map(|ends| ends.map(y_of)) else { return };
        let color = if bar { scene.palette.text } else { look.color };
        let cap = if bar { (bar_width * 0.25).clamp(1.5, 4.0) } else { 4.0 };
        scene.line(vec![(x, low), (x, high)], color, 1.3, &[]);
        scene.line(vec![(x - cap, low), (x + cap, low)], color, 1.3, &[]);
        scene.line(vec![(x - cap, high), (x + cap, high)], color, 1.3, &[]);
    }

    /// Writes values above their points, or below, beside, or not at all where there is no room. Of bars there are where
    /// they begin, and their width.
    fn write_values(
        &self,
        scene: &mut Scene,
        panel: Area,
        points: &[Point],
        bars: Option<(f64, f64)>,
        x_of: &dyn Fn(Spot) -> f64,
        y_of: &dyn Fn(f64) -> Option<f64>,
    ) {
        let palette = scene.palette;
        let mut taken: Vec<Area> = scene.labels().map(Label::area).collect();
        taken.extend(points.iter().filter_map(|point| {
            let (x, y) = (x_of(point.spot), point.center.and_then(y_of)?);
            let [low, high] = point.ends.map_or([y, y], |ends| ends.map(|end| y_of(end).unwrap_or(y)));
            let (top, bottom) = (high.min(y) - 4.0, low.max(y) + 4.0);
            if let Some((zero, width)) = bars {
                let (top, bottom) = (top.min(zero), bottom.max(zero));
                return Some(Area { x: x - width / 2.0, y: top, width, height: bottom - top });
            }
            Some(Area { x: x - 4.0, y: top, width: 8.0, height: bottom - top })
        }));
        let lines: Vec<Vec<(f64, f64)>> = scene
            .shapes
            .iter()
            .filter_map(|shape| match shape {
                Shape::Line { spots, color, .. } if palette.series.contains(color) => Some(spots.clone()),
                _ => None,
            })
            .collect();
        let room = Area {
            x: panel.x - 30.0,
            y: panel.y - 4.0,
            width: panel.width + 52.0,
            height: panel.height + 4.0,
        };
        for point in points {
            let Some((value, y)) = point.center.and_then(|value| Some((value, y_of(value)?))) else {
                continue;
            };
            let x = x_of(point.spot);
            let [low, high] = point.ends.map_or([y, y], |ends| ends.map(|end| y_of(end).unwrap_or(y)));
            let text = if self.how.relative_to.is_some() { digits(value) } else { self.unit.text(value) };
            let label = |at, anchor| Label {
                at,
                anchor,
                size: SMALL,
                color: palette.text,
                text: text.clone(),
                upwards: false,
            };
            let ascent = font::ASCENT * SMALL;
            let places = [
                label((x, high.min(y) - 7.0), Anchor::Middle),
                label((x, low.max(y) + 7.0 + ascent), Anchor::Middle),
                label((x + 8.0, y + 9.0 + ascent), Anchor::Start),
                label((x - 8.0, y - 9.0), Anchor::End),
            ];
            let fits = |label: &Label| {
                let area = label.area();
                room.contains(&area)
                    && !taken.iter().any(|other| other.overlaps(&area))
                    && !lines.iter().any(|spots| area.is_crossed(spots))
            };
            if let Some(label) = places.into_iter().find(fits) {
                taken.push(scene.put(label));
            }
        }
    }
}
