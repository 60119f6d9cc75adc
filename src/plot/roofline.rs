//! What counted ranges reached of what their GPU can do.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rustc_hash::FxHashMap;

use super::Plot;
use super::axes::{Bottom, draw_panel};
use super::font;
use super::frame::{Entry, Frame, SMALL, Style, Swatch};
use super::measurements::{missing, names_and_gpus};
use super::scale::{Scale, Spacing};

use super::scene::{Anchor, Area, Label, Scene, Shape};
use super::unit::{Unit, digits};
use crate::analysis::{Collection, Filter};
use crate::compare::DEFAULT_METRIC;
use crate::counters::{self, Roofline};
use crate::error::{Error, ErrorKind, Result};
use crate::table::columns::{Texts, float64, int64, value};
use crate::table::schema::Table;

const HEIGHT: f64 = 400.0;

/// A range or kernel, once counted.
struct Point {
    name: String,
    verdict: Roofline,
}

impl Point {
    /// Operations by byte, and by second.
    fn spot(&self) -> Option<(f64, f64)> {
        let by_byte = self.verdict.flop_per_byte.filter(|by_byte| *by_byte > 0.0)?;
        Some((by_byte, self.flop() / self.verdict.duration_ns * 1e9))
    }

    fn flop(&self) -> f64 {
        self.verdict.flop.iter().map(|(_, flop)| flop).sum()
    }

    /// What stands behind its name.
    fn text(&self) -> String {
        let most = self.verdict.ceilings.first().map_or_else(String::new, |ceiling| {
            format!(": {:.0} % of the {} peak", 100.0 * ceiling.ratio, ceiling.unit)
        });
        let Some((by_byte, by_second)) = self.spot() else { return most };
        format!(": {}, {} FLOP/B{most}", Unit::of("FLOP/s").text(by_second), digits(by_byte))
    }
}

/// A peak, and what it is of.
#[derive(Clone, Copy)]
struct Roof {
    unit: counters::Unit,
    per_second: f64,
}

/// Draws a roofline of what was counted: for each range or kernel the floating-point operations by second over those by
/// byte of device memory, below the peaks that were counted with them. What was counted several times is several points.
///
/// Times are those that were measured of the annotation in its configuration, or of traced ranges of the same path, where the
/// dataset has them, else the counted ones, which are longer.
/// Ranges without floating-point operations have no place in it, and are listed.
///
/// # Errors
/// [`Format`](ErrorKind::Format) where the counters for it are not there: those of the preset `roofline`;
/// [`Config`](ErrorKind::Config) where nothing matches the filter.
pub fn roofline(collection: &Collection, filter: &Filter, style: &Style) -> Result<Plot> {
    let points = read(collection, filter)?;
    let path =
        collection.members().first().map(|member| member.path.display().to_string()).unwrap_or_default();
    if points.is_empty() {
        return Err(if collection.rows(Table::Metrics) > 0 && !filter.is_all() {
            Error::new(ErrorKind::Config, "no range or kernel that was counted matches")
        } else {
            Error::new(ErrorKind::Format, format!("nothing was counted in {path}"))
                .with_hint("count the preset roofline: counters::Session, or Profiler::count")
        });
    }
    let roofs = roofs(&points);
    let drawn: Vec<(&Point, (f64, f64))> =
        points.iter().filter_map(|point| Some((point, point.spot()?))).collect();
    if drawn.is_empty() || roofs.is_empty() {
        let what = format!("what was counted in {path} is not enough for a roofline");
        return Err(Error::new(ErrorKind::Format, what)
            .with_hint("count the preset roofline; a range needs floating-point operations to be in it"));
    }
    Ok(draw(collection, style, &points, &drawn, &roofs))
}

/// The greatest peak of each unit with a rate; of the precisions only those that something was computed in.
fn roofs(points: &[Point]) -> Vec<Roof> {
    let mut roofs: Vec<Roof> = Vec::new();
    for (ceiling, rate) in points
        .iter()
        .flat_map(|point| &point.verdict.ceilings)
        .filter_map(|ceiling| Some((ceiling, ceiling.rate?)))
    {
        let is_used = points
            .iter()
            .any(|point| point.verdict.ceiling(ceiling.unit).is_some_and(|ceiling| ceiling.ratio > 0.0));
        match roofs.iter_mut().find(|roof| roof.unit == ceiling.unit) {
            Some(roof) => roof.per_second = roof.per_second.max(rate.peak_per_second),
            None if is_used && rate.peak_per_second > 0.0 => {
                roofs.push(Roof { unit: ceiling.unit, per_second: rate.peak_per_second });
            }
            None => {}
        }
    }
    roofs.sort_by(|a, b| b.per_second.total_cmp(&a.per_second));
    roofs
}

fn draw(
    collection: &Collection,
    style: &Style,
    points: &[Point],
    drawn: &[(&Point, (f64, f64))],
    roofs: &[Roof],
) -> Plot {
    let palette = style.theme.palette();
    let mut names: Vec<&str> = Vec::new();
    drawn.iter().for_each(|(point, _)| {
        if !names.contains(&point.name.as_str()) {
            names.push(&point.name)
        }
    });
    let look = |name: &str| palette.look(names.iter().position(|known| *known == name).unwrap_or(0));
    let mut legend: Vec<Entry> = Vec::new();
    for name in &names {
        let all: Vec<&Point> =
            drawn.iter().map(|(point, _)| *point).filter(|point| point.name == **name).collect();
        let times = if all.len() > 1 { format!(" ({} times)", all.len()) } else { String::new() };
        legend.push(Entry {
            after: format!("{}{times}", all[0].text()),
            ..Entry::named(Swatch::Mark(look(name)), (*name).to_owned())
        });
    }
    let mut notes = missing(collection);
    for (of_what, has_operations) in
        [("floating-point operations", false), ("a count of bytes of device memory above zero", true)]
    {
        let is_it = |point: &&Point| point.spot().is_none() && (point.flop() > 0.0) == has_operations;
        let told = |point: &Point| format!("{}{}", point.name, point.text());
        let mut without: Vec<String> = points.iter().filter(is_it).map(told).collect();
        without.dedup();
        if !without.is_empty() {
            notes.push(format!("Without {of_what}: {}.", without.join("; ")));
        }
    }
    if points.iter().any(|point| !point.verdict.duration_is_given) {
        notes.push(
            "Times are counted ones, which are longer than those of kernels that nothing is counted of."
                .to_owned(),
        );
    }
    let (_, gpus) = names_and_gpus(collection);
    let subtitle = match gpus.as_slice() {
        [] => "peaks at the clocks that were counted".to_owned(),
        [gpu] => format!("{gpu}; peaks at the clocks that were counted"),
        _ => format!("the greatest peaks of {}, at the clocks that were counted", gpus.join(" and ")),
    };
    let frame = Frame { title: "Roofline".to_owned(), subtitle, legend, notes };
    let (mut scene, area) = frame.draw(style, style.height.map_or(HEIGHT, f64::from));

    let memory = roofs.iter().find(|roof| roof.unit == counters::Unit::Dram).copied();
    let flat: Vec<Roof> = roofs.iter().copied().filter(|roof| roof.unit != counters::Unit::Dram).collect();
    let ridges = flat.iter().filter_map(|roof| Some(roof.per_second / memory?.per_second));
    let intensities = || drawn.iter().map(|(_, (by_byte, _))| *by_byte);
    let reach = intensities().chain(ridges).flat_map(|by_byte| [by_byte / 2.5, by_byte * 4.0]);
    let along = Scale::of(reach, Spacing::Log, &Unit::none(), 9);
    let (least, most) = along.ends();
    let rates = drawn.iter().map(|(_, (_, by_second))| *by_second);
    let rates = rates.chain(flat.iter().map(|roof| roof.per_second * 1.6));
    let top = flat.iter().map(|roof| roof.per_second).fold(f64::NEG_INFINITY, f64::max);
    let lowest = drawn.iter().map(|(_, (_, by_second))| by_second / 2.0).fold(f64::INFINITY, f64::min);
    let slope_ends = memory.map(|memory| {
        [(memory.per_second * least).max(lowest), if top > 0.0 { top } else { memory.per_second * most }]
    });
    let up = Scale::of(
        rates.chain(slope_ends.into_iter().flatten()).chain([lowest]),
        Spacing::Log,
        &Unit::of("FLOP/s"),
        8,
    );
    let y_title = "floating-point operations per second";
    let x_title = "floating-point operations per byte of device memory (FLOP/B)";
    let bottom = Bottom::Scale(along);
    let Bottom::Scale(along) = &bottom else { return Plot { scene } };
    let panel = draw_panel(&mut scene, area, (&up, y_title), (&bottom, x_title));
    let x_of = |by_byte: f64| panel.x + along.place(by_byte).unwrap_or(0.0) * panel.width;
    let y_of = |by_second: f64| panel.bottom() - up.place(by_second).unwrap_or(0.0) * panel.height;
    let mut taken: Vec<Area> = drawn
        .iter()
        .map(|(_, (by_byte, by_second))| {
            let (x, y) = (x_of(*by_byte), y_of(*by_second));
            Area { x: x - 6.0, y: y - 6.0, width: 12.0, height: 12.0 }
        })
        .collect();
    for roof in &flat {
        let from = memory.map_or(least, |memory| (roof.per_second / memory.per_second).max(least));
        let y = y_of(roof.per_second);
        scene.line(vec![(x_of(from), y), (panel.right(), y)], palette.text, 1.5, &[]);
        let text = format!("{} {}", roof.unit, Unit::of("FLOP/s").text(roof.per_second));
        let spots = [(panel.right() - 4.0, y - 5.0), (panel.right() - 4.0, y + 4.0 + font::ASCENT * SMALL)];
        place_label(&mut scene, panel, &text, Anchor::End, &spots, &mut taken);
    }
    if let Some(memory) = memory {
        let (low, high) = up.ends();
        let until = if flat.is_empty() { high } else { top };
        let (from, to) = ((low / memory.per_second).max(least), (until / memory.per_second).min(most));
        if from < to {
            let end = |by_byte: f64| (x_of(by_byte), y_of(by_byte * memory.per_second));
            scene.line(vec![end(from), end(to)], palette.text, 1.5, &[]);
            let text = format!("{} {}", memory.unit, Unit::of("bytes/s").text(memory.per_second));
            // Beside the slope, right of it and below.
            let along_it = |share: f64| {
                let (x, y) = end(from * (to / from).powf(share));
                (x + 10.0, y + 12.0)
            };
            let spots = [0.35, 0.5, 0.2, 0.65, 0.05].map(along_it);
            place_label(&mut scene, panel, &text, Anchor::Start, &spots, &mut taken);
        }
    }
    for (point, (by_byte, by_second)) in drawn {
        let look = look(&point.name);
        scene.mark(look.marker, (x_of(*by_byte), y_of(*by_second)), 4.5, look.color);
    }
    Plot { scene }
}

/// Writes it at the first of the places where nothing is.
fn place_label(
    scene: &mut Scene,
    panel: Area,
    text: &str,
    anchor: Anchor,
    spots: &[(f64, f64)],
    taken: &mut Vec<Area>,
) {
    let color = scene.palette.muted;
    let label = |at| Label { at, anchor, size: SMALL, color, text: text.to_owned(), upwards: false };
    let is_roof = |shape: &Shape, area: &Area| match shape {
        Shape::Line { spots, color, .. } => *color == scene.palette.text && area.is_crossed(spots),
        _ => false,
    };
    let is_free = |label: &Label| {
        let area = label.area();
        panel.contains(&area)
            && !taken.iter().any(|other| other.overlaps(&area))
            && !scene.shapes.iter().any(|shape| is_roof(shape, &area))
    };
    if let Some(label) = spots.iter().map(|spot| label(*spot)).find(is_free) {
        taken.push(scene.put(label));
    }
}

/// A range or kernel of a session: its metrics.
struct Counted {
    name: String,
    /// The range's path; none for a kernel.
    path: Option<Arc<str>>,
    /// The number of the configuration, where it was measured in one.
    config: Option<i64>,
    values: FxHashMap<Arc<str>, f64>,
}

/// One number for each metric of each range of each session.
fn read(collection: &Collection, filter: &Filter) -> Result<Vec<Point>> {
    const COLUMNS: [&str; 9] =
        ["range_index", "range_path", "kernel", "metric", "asked", "value", "config", "config_index", "run"];
    let members = collection.members();
    let (sources, _) = names_and_gpus(collection);
    let mut ranges: BTreeMap<(usize, [Option<i64>; 3]), Counted> = BTreeMap::new();
    for (source, group) in collection.groups(Table::Metrics) {
        for batch in members[source].dataset.scan(&group, &COLUMNS) {
            let batch = batch?;
            let words = |column| Texts::default().of(&batch, column);
            let (paths, kernels, metrics, asked) = (words(1)?, words(2)?, words(3)?, words(4)?);
            let (indices, values, configs) = (int64(&batch, 0)?, float64(&batch, 5)?, words(6)?);
            let (config_indices, runs) = (int64(&batch, 7)?, int64(&batch, 8)?);
            for row in 0..batch.num_rows() {
                let (path, kernel) = (&paths[row], &kernels[row]);
                let by_kernel = filter
                    .kernel
                    .as_ref()
                    .is_none_or(|pattern| kernel.as_ref().is_some_and(|kernel| pattern.matches(kernel)));
                let by_range = filter
                    .range
                    .as_ref()
                    .is_none_or(|pattern| path.as_ref().is_some_and(|path| pattern.matches_path(path)));
                if !by_kernel || !by_range {
                    continue;
                }
                let name = kernel.as_deref().or(path.as_deref()).unwrap_or("?").to_owned();
                let name = match configs[row].as_deref() {
                    None | Some("") => name,
                    Some(config) => format!("{name}, {config}"),
                };
                let name = if members.len() > 1 { format!("{}: {name}", sources[source]) } else { name };
                let path = path.clone().filter(|_| kernel.is_none());
                // Each counting of a configuration is a session.
                let config = value(config_indices, row);
                let entry = ranges.entry((source, [config, value(runs, row), value(indices, row)]));
                let found =
                    entry.or_insert_with(|| Counted { name, path, config, values: FxHashMap::default() });
                if let Some(number) = value(values, row) {
                    for name in [&metrics[row], &asked[row]].into_iter().flatten() {
                        found.values.insert(Arc::clone(name), number);
                    }
                }
            }
        }
    }
    let (traced, measured) = (traced(collection)?, measured(collection)?);
    let points = ranges.into_iter().filter_map(|((source, _), Counted { name, path, config, values })| {
        let given = path.and_then(|path| match config {
            None => traced.get(&(source, path)).copied(),
            Some(config) => measured
                .get(&(source, config))?
                .iter()
                .filter(|(annotation, _)| path.strip_suffix(&***annotation).is_some_and(ends_a_name))
                .max_by_key(|(annotation, _)| annotation.len())
                .map(|(_, time)| *time),
        });
        let verdict = Roofline::new(|metric| values.get(metric).copied(), given)?;
        Some(Point { name, verdict })
    });
    Ok(points.collect())
}

/// Whether a path goes on with a whole name after this.
fn ends_a_name(around: &str) -> bool {
    around.is_empty() || around.ends_with('/')
}

/// Sums, with the number of what is in them.
type Sums<K> = FxHashMap<K, (f64, u32)>;

/// The mean of each.
fn means<K: Eq + std::hash::Hash>(sums: Sums<K>) -> impl Iterator<Item = (K, Duration)> {
    let mean = |(sum, count): (f64, u32)| Duration::try_from_secs_f64(sum / f64::from(count) / 1e9).ok();
    sums.into_iter().filter_map(move |(key, sum)| Some((key, mean(sum)?)))
}

/// The mean time of the kernels of each traced range, by dataset and path.
fn traced(collection: &Collection) -> Result<FxHashMap<(usize, Arc<str>), Duration>> {
    let mut sums = Sums::default();
    for (source, group) in collection.groups(Table::Ranges) {
        for batch in
            collection.members()[source].dataset.scan(&group, &["range_path", "n_launches", "gpu_sum_ns"])
        {
            let batch = batch?;
            let paths = Texts::default().of(&batch, 0)?;
            let (launches, times) = (int64(&batch, 1)?.values(), int64(&batch, 2)?.values());
            for (row, path) in paths.into_iter().enumerate() {
                let Some(path) = path.filter(|_| launches[row] > 0 && times[row] > 0) else { continue };
                let (sum, count) = sums.entry((source, path)).or_default();
                (*sum, *count) = (*sum + times[row] as f64, *count + 1); // CAST: exact below 104 days
            }
        }
    }
    Ok(means(sums).collect())
}

/// By dataset and configuration, the time of each annotation.
type Annotations = FxHashMap<(usize, i64), FxHashMap<Arc<str>, Duration>>;

/// The mean time of each annotation that was measured.
fn measured(collection: &Collection) -> Result<Annotations> {
    const COLUMNS: [&str; 5] = ["config_index", "annotation", "kernel", "metric", "value"];
    let mut sums = Sums::default();
    for (source, group) in collection.groups(Table::Samples) {
        for batch in collection.members()[source].dataset.scan(&group, &COLUMNS) {
            let batch = batch?;
            let words = |column| Texts::default().of(&batch, column);
            let (annotations, kernels, metrics) = (words(1)?, words(2)?, words(3)?);
            let (configs, values) = (int64(&batch, 0)?.values(), float64(&batch, 4)?);
            for (row, annotation) in annotations.into_iter().enumerate() {
                let is_time = metrics[row].as_deref() == Some(DEFAULT_METRIC) && kernels[row].is_none();
                let Some((annotation, ns)) = annotation.zip(value(values, row)).filter(|_| is_time) else {
                    continue;
                };
                let (sum, count) = sums.entry((source, configs[row], annotation)).or_default();
                (*sum, *count) = (*sum + ns, *count + 1);
            }
        }
    }
    let mut times = Annotations::default();
    for ((source, config, annotation), time) in means(sums) {
        times.entry((source, config)).or_default().insert(annotation, time);
    }
    Ok(times)
}
