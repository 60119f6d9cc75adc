//! How the values of the runs are spread.

use super::Plot;
use super::axes::{Bottom, bottom_height, draw_bottom, draw_left};
use super::font;
use super::frame::{Frame, LINE, SMALL, Style, TEXT};
use super::measurements::{Cell, Measurements};
use super::scale::{Scale, Spacing};
use super::scene::{Anchor, Area, Scene};
use super::theme::Look;
use super::unit::Unit;
use crate::error::Result;

/// How values of runs are drawn, see [`Measurements::distribution`].
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Distribution {
    /// The metric; the first that was measured by default.
    pub metric: Option<String>,
    /// How values are spaced; from the least to the greatest by default, logarithmic where the spread demands it.
    pub spacing: Spacing,
    /// Colours and sizes.
    pub style: Style,
}

/// More are not drawn.
const MAX_GROUPS: usize = 32;
/// From so many values on there is a histogram; up to so many, a point for each.
const HISTOGRAM_FROM: usize = 20;
const POINTS_UP_TO: usize = 300;
const BINS: usize = 60;
/// Steps of a cumulative distribution that are drawn.
const MAX_STEPS: usize = 400;

const ROW: f64 = 34.0;
const CUMULATIVE: f64 = 170.0;
const MAX_NAME: f64 = 230.0;

/// What one row shows.
struct Group<'a> {
    name: String,
    cell: &'a Cell,
    /// Those that are valid, in the order of the runs.
    values: Vec<f64>,
}

impl Measurements {
    /// Draws the values of the runs: for each annotation in each configuration a row with a point for each run (for many
    /// runs a histogram), the median, and its 95 % interval; below them, which share of the values is at most how large.
    ///
    /// # Errors
    /// [`Config`](crate::ErrorKind::Config) where there is no such metric.
    pub fn distribution(&self, how: &Distribution) -> Result<Plot> {
        let cells = self.cells_of(how.metric.as_deref())?;
        let several = cells.iter().any(|cell| self.name(cell) != self.name(cells[0]));
        let groups: Vec<Group<'_>> = cells
            .iter()
            .take(MAX_GROUPS)
            .map(|cell| {
                let config = &*self.configs[cell.config()].text;
                let name = self.name(cell);
                let name = match (config.is_empty(), several) {
                    (true, _) => name,
                    (false, true) => format!("{config}: {name}"),
                    (false, false) => config.to_owned(),
                };
                Group { name, cell, values: cell.values.iter().filter_map(|value| value.value).collect() }
            })
            .collect();
        let left_out = cells.len() - groups.len();
        let unit = Unit::of(&cells[0].unit);
        let metric = &cells[0].key.metric;
        let runs: usize = groups.iter().map(|group| group.values.len()).sum();
        let mut notes = self.missing.clone();
        if left_out > 0 {
            notes.push(format!(
                "{left_out} more are not drawn: choose some by their annotations or configurations"
            ));
        }
        let interval = match groups.iter().any(|group| group.has_interval()) {
            true => ", the box its 95 % interval",
            false => " without a 95 % interval: none has values worth six independent runs",
        };
        let what = format!("{runs} values; a line is the median{interval}");
        let parts = [what, self.conditions.clone()];
        let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        let frame =
            Frame { title: self.named(metric), subtitle: parts.join("; "), legend: Vec::new(), notes };

        let values = || groups.iter().flat_map(|group| group.values.iter().copied());
        let spacing = match how.spacing {
            Spacing::Auto if !Scale::of(values(), Spacing::Auto, &unit, 6).is_log() => Spacing::Fit,
            other => other,
        };
        let along = Scale::of(values(), spacing, &unit, 7);
        let title =
            if along.unit.is_empty() { metric.to_string() } else { format!("{metric} ({})", along.unit) };
        let bottom = Bottom::Scale(along);
        let Bottom::Scale(along) = &bottom else { return Ok(Plot { scene: frame.draw(&how.style, 0.0).0 }) };
        let below = bottom_height(&bottom, 0.0, &title);
        let needed = ROW * groups.len() as f64 + 18.0 + CUMULATIVE + below;
        let height = how.style.height.map_or(needed, f64::from).max(needed);
        let (mut scene, area) = frame.draw(&how.style, height);
        let palette = scene.palette;
        let names: Vec<String> = groups.iter().map(|group| group.name.clone()).collect();
        let names = font::shortened_together(&names, TEXT, MAX_NAME);
        let left = names.iter().map(|name| font::width(name, TEXT)).fold(60.0, f64::max) + 10.0;
        let counts: Vec<String> = groups.iter().map(Group::count).collect();
        let right = counts.iter().map(|count| font::width(count, SMALL)).fold(0.0, f64::max) + 10.0;
        let rows = ROW * groups.len() as f64;
        let upper = Area { x: area.x + left, y: area.y, width: area.width - left - right, height: rows };
        let cumulative = height - rows - 18.0 - below;
        let lower = Area { y: upper.bottom() + 18.0, height: cumulative, ..upper };

        draw_bottom(&mut scene, upper, &bottom, "", false);
        for (place, group) in groups.iter().enumerate() {
            let row = Area { y: upper.y + ROW * place as f64, height: ROW, ..upper };
            let middle = row.y + row.height / 2.0 + 0.36 * TEXT;
            scene.label(&names[place], (upper.x - 8.0, middle), Anchor::End, TEXT, palette.text);
            scene.label(&counts[place], (upper.right() + 8.0, middle), Anchor::Start, SMALL, palette.muted);
            scene.line(vec![(row.x, row.bottom()), (row.right(), row.bottom())], palette.grid, 1.0, &[]);
            group.draw(&mut scene, row, along, palette.look(place));
        }
        let share = Scale::of([0.0, 100.0].into_iter(), Spacing::Linear, &Unit::of("%"), 4);
        // It goes to 100, and no further.
        let share = share.up_to(100.0);
        draw_left(&mut scene, lower, &share, "values at most this (%)", true);
        draw_bottom(&mut scene, lower, &bottom, &title, true);
        for (place, group) in groups.iter().enumerate() {
            let look = palette.look(place);
            scene.line(group.steps(lower, along), look.color, 1.6, look.dashes);
        }
        Ok(Plot { scene })
    }
}

impl Group<'_> {
    /// Whether its median has one.
    fn has_interval(&self) -> bool {
        self.cell.told.median_ends.iter().all(Option::is_some)
    }

    fn count(&self) -> String {
        let failed = self.cell.values.len() - self.values.len();
        let failed = if failed > 0 { format!(", {failed} not valid") } else { String::new() };
        format!("n = {}{failed}", self.values.len())
    }

    fn draw(&self, scene: &mut Scene, row: Area, along: &Scale, look: Look) {
        let palette = scene.palette;
        let x_of = |value: f64| along.place(value).map(|share| row.x + share * row.width);
        let told = &self.cell.told;
        if let [Some(Some(low)), Some(Some(high))] = told.median_ends.map(|end| end.map(x_of)) {
            let area =
                Area { x: low, y: row.y + 3.0, width: (high - low).max(1.0), height: row.height - 6.0 };
            scene.fill_box(area, palette.faint(look.color, 0.25));
        }
        let n = self.values.len();
        if n >= HISTOGRAM_FROM {
            let mut bins = [0_usize; BINS];
            for share in self.values.iter().filter_map(|value| along.place(*value)) {
                // CAST: between 0 and 1 times their number
                bins[((share * BINS as f64) as usize).min(BINS - 1)] += 1;
            }
            let most = bins.iter().copied().max().unwrap_or(1).max(1);
            let width = row.width / BINS as f64;
            for (place, count) in bins.iter().enumerate().filter(|(_, count)| **count > 0) {
                let height = (row.height - 5.0) * *count as f64 / most as f64;
                let area = Area {
                    x: row.x + width * place as f64,
                    y: row.bottom() - height,
                    width: width - 0.5,
                    height,
                };
                scene.fill_box(area, palette.faint(look.color, 0.55));
            }
        }
        if n <= POINTS_UP_TO {
            for (place, x) in
                self.values.iter().enumerate().filter_map(|(place, value)| Some((place, x_of(*value)?)))
            {
                // Up and down by the golden ratio, so that neighbours of one value lie apart.
                let turn = (place as f64 * 0.618_034).fract() - 0.5;
                let spot = (x, row.y + row.height * (0.5 + 0.5 * turn));
                scene.mark(super::theme::Marker::Circle, spot, 2.0, look.color);
            }
        }
        if let Some(x) = told.median.and_then(x_of) {
            scene.line(vec![(x, row.y + 2.0), (x, row.bottom() - 2.0)], palette.text, 1.8, &[]);
        }
    }

    /// The cumulative distribution as steps.
    fn steps(&self, panel: Area, along: &Scale) -> Vec<(f64, f64)> {
        let mut sorted = self.values.clone();
        sorted.sort_by(f64::total_cmp);
        let n = sorted.len();
        let stride = n.div_ceil(MAX_STEPS).max(1);
        let mut steps = Vec::new();
        let mut y = panel.bottom();
        for (place, value) in sorted.iter().enumerate() {
            if place % stride != 0 && place + 1 != n {
                continue;
            }
            let Some(share) = along.place(*value) else { continue };
            let x = panel.x + share * panel.width;
            steps.push((x, y));
            y = panel.bottom() - panel.height * (place + 1) as f64 / n as f64;
            steps.push((x, y));
        }
        // It stays at all of them.
        steps.extend((!steps.is_empty()).then_some((panel.right(), y)));
        steps
    }
}

/// The lines of text that a row has room for.
const _: () = assert!(ROW > TEXT * LINE);
