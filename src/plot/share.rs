//! Which kernels the time of a session went into.

use std::sync::Arc;

use arrow_array::{Array, RecordBatch};
use rustc_hash::FxHashMap;

use super::Plot;
use super::axes::{Bottom, bottom_height, draw_bottom, draw_left, left_width};
use super::frame::{Entry, Frame, Style, Swatch};
use super::scale::{Scale, Spacing};
use super::scene::{Area, Shape};
use super::unit::Unit;
use crate::analysis::{Collection, Filter};
use crate::error::{Error, ErrorKind, Result};
use crate::table::columns::{NONE, Names, int64, uint32};
use crate::table::schema::Table;

/// How many kernels [`Share`] shows by themselves.
pub const DEFAULT_KERNELS: usize = 8;

/// How the share of kernels is drawn, see [`kernel_share`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Share {
    /// So many kernels are shown by themselves, the rest as one.
    pub kernels: usize,
    /// Colours and sizes.
    pub style: Style,
}

impl Default for Share {
    fn default() -> Self {
        Self { kernels: DEFAULT_KERNELS, style: Style::default() }
    }
}

const BINS: usize = 160;
const HEIGHT: f64 = 320.0;

/// Columns that are read.
const COLUMNS: [&str; 6] = ["start_ns", "duration_ns", "kernel", "device", "stream", "range_path"];

/// Draws how the time of the kernels is shared out over a session: in each of 160 stretches of it, the time of each of
/// the kernels with the longest total, stacked, as a part of the stretch. Kernels that overlap count each, so that the sum
/// can be more than 100 %; below 100 % the GPU was idle, as far as kernels go.
///
/// Reads the table twice.
///
/// # Errors
/// [`Format`](ErrorKind::Format) where no kernel has valid times; [`Config`](ErrorKind::Config) where none matches the filter.
pub fn kernel_share(collection: &Collection, filter: &Filter, how: &Share) -> Result<Plot> {
    let limits = filter.window(if filter.is_relative() { collection.start_ns()?.unwrap_or(0) } else { 0 })?;
    let totals =
        collection.scan(Table::Launches, &COLUMNS, &|_| {}, Totals::default, |totals, _, batch| {
            totals.rows.each(batch, filter, limits, |kernel, start_ns, duration_ns| {
                totals.by_kernel.resize(totals.by_kernel.len().max(kernel + 1), 0);
                totals.by_kernel[kernel] += duration_ns;
                totals.first_ns = totals.first_ns.min(start_ns);
                totals.last_ns = totals.last_ns.max(start_ns.saturating_add(duration_ns));
            })
        })?;
    let first_ns = totals.iter().map(|totals| totals.first_ns).min().unwrap_or(i64::MAX);
    let last_ns = totals.iter().map(|totals| totals.last_ns).max().unwrap_or(i64::MIN);
    if first_ns > last_ns {
        return Err(nothing(collection, filter));
    }
    let mut sums: FxHashMap<Arc<str>, i64> = FxHashMap::default();
    for totals in &totals {
        for (name, ns) in totals.rows.names.texts().iter().zip(&totals.by_kernel) {
            *sums.entry(Arc::clone(name)).or_default() += ns;
        }
    }
    sums.retain(|_, ns| *ns > 0);
    let mut sums: Vec<(Arc<str>, i64)> = sums.into_iter().collect();
    sums.sort_by(|(a, a_ns), (b, b_ns)| b_ns.cmp(a_ns).then_with(|| a.cmp(b)));
    let most = how.kernels.max(1);
    let top: Vec<Arc<str>> = sums.iter().take(most).map(|(name, _)| Arc::clone(name)).collect();

    let span_ns = (last_ns - first_ns).max(1);
    let bin_ns = span_ns as f64 / BINS as f64;
    let state = || (Rows::default(), Vec::new(), vec![vec![0.0; BINS]; top.len() + 1]);
    let parts = collection.scan(
        Table::Launches,
        &COLUMNS,
        &|_| {},
        state,
        |(rows, places, bins): &mut (Rows, Vec<usize>, Vec<Vec<f64>>), _, batch| {
            rows.learn(batch)?;
            let place = |name: &Arc<str>| top.iter().position(|top| top == name).unwrap_or(top.len());
            places.extend(rows.names.texts()[places.len()..].iter().map(place));
            rows.each(batch, filter, limits, |kernel, start_ns, duration_ns| {
                let from = (start_ns - first_ns) as f64 / bin_ns;
                spread(&mut bins[places[kernel]], from, duration_ns as f64 / bin_ns);
            })
        },
    )?;
    let mut bins = vec![vec![0.0; BINS]; top.len() + 1];
    for (.., part) in &parts {
        for (sum, part) in bins.iter_mut().zip(part) {
            sum.iter_mut().zip(part).for_each(|(sum, part)| *sum += part);
        }
    }
    let all_ns: i64 = sums.iter().map(|(_, ns)| ns).sum();
    let share = |ns: i64| format!("{:.1} %", 100.0 * ns as f64 / all_ns.max(1) as f64);
    let mut legend: Vec<String> =
        sums.iter().take(most).map(|(name, ns)| format!("{}  {name}", share(*ns))).collect();
    let rest: i64 = sums.iter().skip(most).map(|(_, ns)| ns).sum();
    if sums.len() > most {
        legend.push(format!("{}  {} others", share(rest), sums.len() - most));
    }
    let gpus: Vec<&String> =
        collection.members().iter().filter_map(|member| member.facts.get("gpu.0.name")).collect();
    let gpu = gpus.first().map(|gpu| format!("{gpu}; ")).unwrap_or_default();
    let busy = 100.0 * all_ns as f64 / span_ns as f64;
    let subtitle = format!(
        "{gpu}kernels took {} in {}, which is {busy:.1} % of the time",
        ns_text(all_ns),
        ns_text(span_ns)
    );
    Ok(draw(how, &bins, (legend, subtitle), span_ns))
}

fn ns_text(ns: i64) -> String {
    Unit::of("ns").text(ns as f64)
}

fn nothing(collection: &Collection, filter: &Filter) -> Error {
    if !filter.is_all() && collection.rows(Table::Launches) > 0 {
        return Error::new(ErrorKind::Config, "no kernel with valid times matches the filters");
    }
    let path =
        collection.members().first().map(|member| member.path.display().to_string()).unwrap_or_default();
    Error::new(ErrorKind::Format, format!("there is no kernel with valid times in {path}"))
        .with_hint("Profiler makes datasets with the table launches; of a measurement, draw its times")
}

/// Adds a stretch to the bins that it lies in.
fn spread(bins: &mut [f64], from: f64, length: f64) {
    let (mut at, end) = (from.max(0.0), (from + length).min(bins.len() as f64));
    while at < end {
        // CAST: below their number
        let bin = (at as usize).min(bins.len() - 1);
        let next = (bin + 1) as f64;
        bins[bin] += next.min(end) - at;
        at = next;
    }
}

fn draw(how: &Share, bins: &[Vec<f64>], (legend, subtitle): (Vec<String>, String), span_ns: i64) -> Plot {
    let palette = how.style.theme.palette();
    let others = palette.axis;
    let color = |place: usize| {
        if place + 1 == bins.len() { others } else { palette.look(place).color }
    };
    let entries = legend
        .into_iter()
        .enumerate()
        .map(|(place, text)| Entry { swatch: Swatch::Fill(color(place)), text });
    let frame = Frame {
        title: "Kernels over time".to_owned(),
        subtitle,
        legend: entries.collect(),
        notes: Vec::new(),
    };
    let (mut scene, area) = frame.draw(&how.style, how.style.height.map_or(HEIGHT, f64::from));
    let sums = (0..BINS).map(|bin| 100.0 * bins.iter().map(|bins| bins[bin]).sum::<f64>());
    let most = sums.fold(0.0, f64::max);
    let up = Scale::of([most].into_iter(), Spacing::Linear, &Unit::of("%"), 6);
    // Without overlaps it goes to 100, and no further.
    let up = if (80.0..=100.1).contains(&most) { up.up_to(100.0) } else { up };
    let along = Scale::of([0.0, span_ns as f64].into_iter(), Spacing::Linear, &Unit::of("ns"), 8);
    let x_title = format!("time since the first kernel ({})", along.unit);
    // It ends where the session ends.
    let bottom = Bottom::Scale(along.up_to(span_ns as f64));
    let y_title = "time of kernels (% of elapsed)";
    let left = left_width(&up, y_title);
    let below = bottom_height(&bottom, 0.0, &x_title);
    let panel = Area {
        x: area.x + left,
        y: area.y + 4.0,
        width: area.width - left - 20.0,
        height: area.height - below - 4.0,
    };
    draw_left(&mut scene, panel, &up, y_title, true);
    draw_bottom(&mut scene, panel, &bottom, &x_title, true);
    let mut floor = vec![0.0; BINS];
    for (place, of_kernel) in bins.iter().enumerate() {
        let ceiling: Vec<f64> = floor.iter().zip(of_kernel).map(|(floor, bin)| floor + 100.0 * bin).collect();
        if of_kernel.iter().any(|bin| *bin > 0.0) {
            let y_of = |value: f64| panel.bottom() - up.place(value).unwrap_or(0.0) * panel.height;
            let x_of = |bin: usize| panel.x + panel.width * bin as f64 / BINS as f64;
            let edge = |levels: &[f64]| -> Vec<(f64, f64)> {
                let step =
                    |(bin, level): (usize, &f64)| [(x_of(bin), y_of(*level)), (x_of(bin + 1), y_of(*level))];
                levels.iter().enumerate().flat_map(step).collect()
            };
            let spots = edge(&ceiling).into_iter().chain(edge(&floor).into_iter().rev()).collect();
            scene.shapes.push(Shape::Fill { spots, color: color(place) });
        }
        floor = ceiling;
    }
    Plot { scene }
}

/// Rows of `launches`, with the kernels' names as numbers.
#[derive(Default)]
struct Rows {
    names: Names,
    codes: Vec<u32>,
    kernel_matches: Vec<bool>,
    paths: Names,
    path_codes: Vec<u32>,
    path_matches: Vec<bool>,
}

impl Rows {
    fn learn(&mut self, batch: &RecordBatch) -> Result<()> {
        self.names.codes(batch, 2, &mut self.codes)
    }

    /// Hands over kernel, start and duration of the rows that match and have valid times.
    fn each(
        &mut self,
        batch: &RecordBatch,
        filter: &Filter,
        (from, to): (i64, i64),
        mut take: impl FnMut(usize, i64, i64),
    ) -> Result<()> {
        self.learn(batch)?;
        self.paths.codes(batch, 5, &mut self.path_codes)?;
        let (names, paths) = (self.names.texts(), self.paths.texts());
        let wanted = |name: &Arc<str>| filter.kernel.as_ref().is_none_or(|pattern| pattern.matches(name));
        self.kernel_matches.extend(names[self.kernel_matches.len()..].iter().map(wanted));
        let wanted = |path: &Arc<str>| filter.range.as_ref().is_none_or(|pattern| pattern.matches_path(path));
        self.path_matches.extend(paths[self.path_matches.len()..].iter().map(wanted));
        let (starts, durations) = (int64(batch, 0)?.values(), int64(batch, 1)?);
        let (devices, streams) = (uint32(batch, 3)?.values(), uint32(batch, 4)?.values());
        for row in 0..batch.num_rows() {
            let (kernel, path) = (self.codes[row], self.path_codes[row]);
            let in_range =
                if path == NONE { filter.range.is_none() } else { self.path_matches[path as usize] };
            let is_wanted = kernel != NONE
                && durations.is_valid(row)
                && self.kernel_matches[kernel as usize]
                && in_range
                && (from..to).contains(&starts[row])
                && filter.has_device(devices[row])
                && filter.has_stream(streams[row]);
            if is_wanted {
                take(kernel as usize, starts[row], durations.value(row));
            }
        }
        Ok(())
    }
}

/// The time of each kernel, by its number, and when there were any.
struct Totals {
    rows: Rows,
    by_kernel: Vec<i64>,
    first_ns: i64,
    last_ns: i64,
}

impl Default for Totals {
    fn default() -> Self {
        Self { rows: Rows::default(), by_kernel: Vec::new(), first_ns: i64::MAX, last_ns: i64::MIN }
    }
}
