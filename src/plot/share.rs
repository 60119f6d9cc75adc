//! Which kernels the time of a session went into.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow_array::{Array, RecordBatch};
use rustc_hash::FxHashMap;

use super::Plot;
use super::axes::{Bottom, draw_panel};
use super::frame::{Entry, Frame, Style, Swatch};
use super::measurements::missing;
use super::scale::{Scale, Spacing};
use super::scene::Shape;
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

/// Draws how the time of the kernels is shared out over a session: in each of 160 stretches of it, the sum of the times of
/// each of the kernels with the longest total, stacked, as a part of the stretch. Kernels that overlap each count, so that
/// the sum can be more than 100 %, and is not the part of the time in which the GPU was busy.
///
/// Of several datasets each begins at its own first kernel, and parts are of the elapsed time of all their devices together.
///
/// Reads the table twice.
///
/// # Errors
/// [`Format`](ErrorKind::Format) where no kernel has valid times; [`Config`](ErrorKind::Config) where none matches the filter.
pub fn kernel_share(collection: &Collection, filter: &Filter, how: &Share) -> Result<Plot> {
    let limits = filter.window(if filter.is_relative() { collection.start_ns()?.unwrap_or(0) } else { 0 })?;
    let members = collection.members();
    let state = || Totals { sessions: vec![Session::default(); members.len()], ..Totals::default() };
    let totals = collection.scan(Table::Launches, &COLUMNS, &|_| {}, state, |totals, place, batch| {
        let Totals { rows, by_kernel, sessions } = totals;
        rows.each(batch, filter, limits, |launch| {
            by_kernel.resize(by_kernel.len().max(launch.kernel + 1), 0);
            by_kernel[launch.kernel] = by_kernel[launch.kernel].saturating_add(launch.duration_ns);
            sessions[place.member].take(launch);
        })
    })?;
    let mut sessions = vec![Session::default(); members.len()];
    let mut sums: FxHashMap<Arc<str>, i64> = FxHashMap::default();
    for totals in &totals {
        sessions.iter_mut().zip(&totals.sessions).for_each(|(session, part)| session.join(part));
        for (name, ns) in totals.rows.names.texts().iter().zip(&totals.by_kernel) {
            let sum = sums.entry(Arc::clone(name)).or_default();
            *sum = sum.saturating_add(*ns);
        }
    }
    if sessions.iter().all(|session| session.devices.is_empty()) {
        return Err(nothing(collection, filter));
    }
    sums.retain(|_, ns| *ns > 0);
    let mut sums: Vec<(Arc<str>, i64)> = sums.into_iter().collect();
    sums.sort_by(|(a, a_ns), (b, b_ns)| b_ns.cmp(a_ns).then_with(|| a.cmp(b)));
    let most = how.kernels.max(1);
    let top: Vec<Arc<str>> = sums.iter().take(most).map(|(name, _)| Arc::clone(name)).collect();

    let span_ns = sessions.iter().map(Session::span_ns).max().unwrap_or(1);
    let bin_ns = span_ns as f64 / BINS as f64;
    let state = || (Rows::default(), Vec::new(), vec![vec![0.0; BINS]; top.len() + 1]);
    let parts = collection.scan(
        Table::Launches,
        &COLUMNS,
        &|_| {},
        state,
        |(rows, places, bins): &mut (Rows, Vec<usize>, Vec<Vec<f64>>), member, batch| {
            rows.learn(batch)?;
            let place = |name: &Arc<str>| top.iter().position(|top| top == name).unwrap_or(top.len());
            places.extend(rows.names.texts()[places.len()..].iter().map(place));
            let first_ns = sessions[member.member].first_ns;
            rows.each(batch, filter, limits, |launch| {
                let from = launch.start_ns.saturating_sub(first_ns) as f64 / bin_ns;
                spread(&mut bins[places[launch.kernel]], from, launch.duration_ns as f64 / bin_ns);
            })
        },
    )?;
    // How much of each stretch elapsed, on all devices together.
    let mut elapsed = vec![0.0; BINS];
    for session in &sessions {
        let of_one = &mut vec![0.0; BINS];
        spread(of_one, 0.0, session.span_ns() as f64 / bin_ns);
        let devices = session.devices.len() as f64;
        elapsed.iter_mut().zip(of_one).for_each(|(sum, part)| *sum += *part * devices);
    }
    let mut bins = vec![vec![0.0; BINS]; top.len() + 1];
    for (.., part) in &parts {
        for (sum, part) in bins.iter_mut().zip(part) {
            let parts =
                part.iter().zip(&elapsed).map(|(part, elapsed)| part / elapsed.max(f64::MIN_POSITIVE));
            sum.iter_mut().zip(parts).for_each(|(sum, part)| *sum += part);
        }
    }
    let all_ns = sums.iter().fold(0_i64, |sum, (_, ns)| sum.saturating_add(*ns));
    let entry = |ns: i64, name: String| {
        let share = 100.0 * ns as f64 / all_ns.max(1) as f64;
        (format!("{share:.1} %  "), name)
    };
    let mut legend: Vec<(String, String)> =
        sums.iter().take(most).map(|(name, ns)| entry(*ns, name.to_string())).collect();
    let rest = sums.iter().skip(most).fold(0_i64, |sum, (_, ns)| sum.saturating_add(*ns));
    if sums.len() > most {
        legend.push(entry(rest, format!("{} others", sums.len() - most)));
    }
    Ok(draw(how, &bins, (legend, subtitle(collection, &sessions, all_ns), missing(collection)), span_ns))
}

/// The GPUs, and how much of the time that elapsed on them the times of kernels add up to.
fn subtitle(collection: &Collection, sessions: &[Session], all_ns: i64) -> String {
    let mut gpus: Vec<&str> = Vec::new();
    for (member, session) in collection.members().iter().zip(sessions) {
        for device in &session.devices {
            let gpu =
                member.facts.get(&format!("gpu.{device}.name")).or_else(|| member.facts.get("gpu.name"));
            gpus.extend(gpu.map(String::as_str).filter(|gpu| !gpus.contains(gpu)));
        }
    }
    let gpus = if gpus.is_empty() { String::new() } else { format!("{}; ", gpus.join(" and ")) };
    let devices: usize = sessions.iter().map(|session| session.devices.len()).sum();
    let elapsed_ns: f64 =
        sessions.iter().map(|session| session.span_ns() as f64 * session.devices.len() as f64).sum();
    let drawn = sessions.iter().filter(|session| !session.devices.is_empty()).count();
    let over = match (drawn, devices) {
        (1, 1) => String::new(),
        (1, _) => format!(" on {devices} devices"),
        _ if devices == drawn => format!(" in {drawn} datasets"),
        _ => format!(" on {devices} devices in {drawn} datasets"),
    };
    format!(
        "{gpus}kernel times add up to {}, {:.1} % of the {} that elapsed{over}; kernels that overlap each count",
        ns_text(all_ns as f64),
        100.0 * all_ns as f64 / elapsed_ns.max(1.0),
        ns_text(elapsed_ns),
    )
}

fn ns_text(ns: f64) -> String {
    Unit::of("ns").text(ns)
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

fn draw(
    how: &Share,
    bins: &[Vec<f64>],
    (legend, subtitle, notes): (Vec<(String, String)>, String, Vec<String>),
    span_ns: i64,
) -> Plot {
    let palette = how.style.theme.palette();
    let others = palette.axis;
    let color = |place: usize| {
        if place + 1 == bins.len() { others } else { palette.look(place).color }
    };
    let entries = legend
        .into_iter()
        .enumerate()
        .map(|(place, (before, name))| Entry { before, ..Entry::named(Swatch::Fill(color(place)), name) });
    let frame = Frame { title: "Kernels over time".to_owned(), subtitle, legend: entries.collect(), notes };
    let (mut scene, area) = frame.draw(&how.style, how.style.height.map_or(HEIGHT, f64::from));
    let sums = (0..BINS).map(|bin| 100.0 * bins.iter().map(|bins| bins[bin]).sum::<f64>());
    let most = sums.fold(0.0, f64::max);
    let up = Scale::of([most].into_iter(), Spacing::Linear, &Unit::of("%"), 6);
    // Without overlaps it goes to 100, and no further; with them as far as they do.
    let up = match most {
        80.0..=100.1 => up.up_to(100.0),
        100.1.. => up.up_to(most * 1.02),
        _ => up,
    };
    let along = Scale::of([0.0, span_ns as f64].into_iter(), Spacing::Linear, &Unit::of("ns"), 8);
    let x_title = format!("time since the first kernel ({})", along.unit);
    // It ends where the session ends.
    let bottom = Bottom::Scale(along.up_to(span_ns as f64));
    let y_title = "sum of kernel times (% of elapsed)";
    let panel = draw_panel(&mut scene, area, (&up, y_title), (&bottom, &x_title));
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
    if most > 100.1
        && let Some(share) = up.place(100.0)
    {
        let y = panel.bottom() - share * panel.height;
        scene.line(vec![(panel.x, y), (panel.right(), y)], palette.text, 1.2, &[4.0, 3.0]);
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

    /// Hands over the rows that match and have valid times.
    fn each(
        &mut self,
        batch: &RecordBatch,
        filter: &Filter,
        (from, to): (i64, i64),
        mut take: impl FnMut(Launch),
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
                && durations.value(row) >= 0
                && self.kernel_matches[kernel as usize]
                && in_range
                && (from..to).contains(&starts[row])
                && filter.has_device(devices[row])
                && filter.has_stream(streams[row]);
            if is_wanted {
                take(Launch {
                    kernel: kernel as usize,
                    device: devices[row],
                    start_ns: starts[row],
                    duration_ns: durations.value(row),
                });
            }
        }
        Ok(())
    }
}

/// A kernel by its number, and when it ran where.
#[derive(Clone, Copy)]
struct Launch {
    kernel: usize,
    device: u32,
    start_ns: i64,
    duration_ns: i64,
}

/// The time of each kernel, by its number, and when there were any in each dataset.
#[derive(Default)]
struct Totals {
    rows: Rows,
    by_kernel: Vec<i64>,
    sessions: Vec<Session>,
}

/// When kernels of a dataset ran, and on which devices.
#[derive(Clone)]
struct Session {
    first_ns: i64,
    last_ns: i64,
    devices: BTreeSet<u32>,
}

impl Default for Session {
    fn default() -> Self {
        Self { first_ns: i64::MAX, last_ns: i64::MIN, devices: BTreeSet::new() }
    }
}

impl Session {
    fn take(&mut self, launch: Launch) {
        self.first_ns = self.first_ns.min(launch.start_ns);
        self.last_ns = self.last_ns.max(launch.start_ns.saturating_add(launch.duration_ns));
        self.devices.insert(launch.device);
    }

    fn join(&mut self, other: &Self) {
        self.first_ns = self.first_ns.min(other.first_ns);
        self.last_ns = self.last_ns.max(other.last_ns);
        self.devices.extend(&other.devices);
    }

    /// At least one; of a session without kernels, too.
    fn span_ns(&self) -> i64 {
        self.last_ns.saturating_sub(self.first_ns).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_at_the_ends_of_what_a_number_holds_are_no_overflow() {
        let launch = |start_ns, duration_ns| Launch { kernel: 0, device: 0, start_ns, duration_ns };
        let mut session = Session::default();
        assert_eq!(session.span_ns(), 1);
        session.take(launch(i64::MIN, 5));
        session.take(launch(i64::MAX - 1, i64::MAX));
        assert_eq!((session.span_ns(), session.devices.len()), (i64::MAX, 1));
        let mut bins = [0.0; 4];
        spread(&mut bins, -1e300, 2e300);
        assert_eq!(bins, [1.0; 4]);
    }
}
