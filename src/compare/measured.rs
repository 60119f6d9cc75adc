//! What was measured, by key and process run, as the files have it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow_array::{Array, RecordBatch};
use rustc_hash::{FxHashMap, FxHashSet};

use super::Rules;
use super::key::{JoinKey, Key};
use crate::error::{Error, ErrorKind, Result};
use crate::stats::tick_ns;
use crate::table::collection::{Collection, Member, Place};
use crate::table::columns::{NONE, Names, float64, int64, uint32, value};
use crate::table::schema::Table;

/// A valid value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Value {
    /// The run's number, or the stamp of a launch: what the order is by.
    pub run: i64,
    /// Which use of the annotation in the run.
    pub repeat: i64,
    pub ns: f64,
    /// The clock of the multiprocessors, where it is known.
    pub sm_clock_mhz: Option<u32>,
}

/// The values of one key in one process run, in their order.
#[derive(Clone, Debug, Default)]
pub(super) struct ProcessValues {
    /// The process that they were measured in.
    pub process: Arc<str>,
    pub values: Vec<Value>,
    /// Rows without a time.
    pub invalid: u64,
    /// The fewest and the most kernels of a value.
    pub launches: Option<(i64, i64)>,
    /// Which kernels an annotation launched; empty for a kernel by itself.
    pub kernels: BTreeSet<Arc<str>>,
    /// The resolution of the values.
    pub tick_ns: f64,
    /// The wrapping sum of the stamps of all rows, which tells measurements with the same values apart.
    stamps: i64,
}

impl ProcessValues {
    fn add(&mut self, value: Value, n_launches: i64, start_ns: i64) {
        self.stamps = self.stamps.wrapping_add(start_ns);
        // A time of 0 is no time, and has no ratio to another.
        if value.ns.is_finite() && value.ns > 0.0 {
            self.values.push(value);
        } else {
            self.invalid += 1;
        }
        let (least, most) = self.launches.unwrap_or((n_launches, n_launches));
        self.launches = Some((least.min(n_launches), most.max(n_launches)));
    }

    fn merge(&mut self, more: Self) {
        self.values.extend(more.values);
        self.invalid += more.invalid;
        self.stamps = self.stamps.wrapping_add(more.stamps);
        self.kernels.extend(more.kernels);
        self.launches = match (self.launches, more.launches) {
            (Some((a, b)), Some((c, d))) => Some((a.min(c), b.max(d))),
            (some, none) => some.or(none),
        };
    }

    fn sort(&mut self) {
        let order = |value: &Value| (value.run, value.repeat);
        self.values.sort_by(|a, b| order(a).cmp(&order(b)).then(a.ns.total_cmp(&b.ns)));
    }

    /// Whether both are the same measurement, and not only as long. Both are sorted.
    fn is_copy_of(&self, other: &Self) -> bool {
        let same = |(a, b): (&Value, &Value)| (a.run, a.repeat, a.ns) == (b.run, b.repeat, b.ns);
        (self.stamps, self.invalid, self.values.len()) == (other.stamps, other.invalid, other.values.len())
            && self.values.iter().zip(&other.values).all(same)
    }
}

/// The values of one key, by process run.
#[derive(Clone, Debug)]
pub(super) struct Measured {
    pub key: Key,
    pub processes: Vec<ProcessValues>,
}

/// What times are taken from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// The table `samples`: values of annotations.
    Samples,
    /// The table `launches`: one value a kernel.
    Launches,
    /// There is nothing.
    Nothing,
}

impl Source {
    pub fn of(collection: &Collection) -> Self {
        match () {
            () if collection.rows(Table::Samples) > 0 => Self::Samples,
            () if collection.rows(Table::Launches) > 0 => Self::Launches,
            () => Self::Nothing,
        }
    }
}

/// The process that wrote a dataset, so that two datasets of one are no two process runs.
pub(super) fn process_of(member: &Member) -> String {
    let fact = |key: &str| member.facts.get(key).map_or("", String::as_str);
    match (fact("process.run"), fact("session.start_ns")) {
        ("", "") => {
            std::fs::canonicalize(&member.path).as_ref().unwrap_or(&member.path).display().to_string()
        }
        ("", start) => [fact("host.name"), fact("process.id"), start].join(" "),
        (run, _) => run.to_owned(),
    }
}

/// All that is measured.
pub(super) struct AllMeasured {
    /// By key.
    pub rows: Vec<Measured>,
    /// Datasets with values that another of the same process run has already.
    pub copies: usize,
}

pub(super) fn read(collection: &Collection, source: Source, rules: &Rules) -> Result<AllMeasured> {
    let members: Vec<Facts> = collection.members().iter().map(Facts::of).collect();
    let mut found: BTreeMap<Key, BTreeMap<usize, ProcessValues>> = BTreeMap::new();
    let groups = match source {
        Source::Samples => samples(collection, &members, rules)?,
        Source::Launches => launches(collection, &members)?,
        Source::Nothing => Vec::new(),
    };
    for (key, member, values) in groups {
        found.entry(key).or_default().entry(member).or_default().merge(values);
    }
    let mut copies = BTreeSet::new();
    let mut by_process = |datasets: BTreeMap<usize, ProcessValues>| {
        let mut processes: BTreeMap<&str, Vec<ProcessValues>> = BTreeMap::new();
        for (member, mut values) in datasets {
            values.sort();
            let process = members.get(member).map_or("", |facts| facts.process.as_str());
            let known = processes.entry(process).or_default();
            if known.iter().any(|known| values.is_copy_of(known)) {
                copies.insert(member);
            } else {
                known.push(values);
            }
        }
        processes
    };
    let ticks: FxHashMap<&str, f64> =
        members.iter().filter_map(|facts| Some((facts.process.as_str(), facts.tick_ns?))).collect();
    // Kernels alone are of what has no value of this metric.
    let has_rows = |of: &ProcessValues| of.launches.is_some();
    found.retain(|_, datasets| datasets.values().any(has_rows));
    let measured = found.into_iter().map(|(key, datasets)| {
        let processes = by_process(datasets).into_iter().map(|(process, datasets)| {
            let mut found = ProcessValues { process: process.into(), ..ProcessValues::default() };
            datasets.into_iter().for_each(|values| found.merge(values));
            found.sort();
            found.tick_ns = ticks.get(process).copied().unwrap_or_else(|| {
                // CAST: what was an integer is one
                tick_ns(&found.values.iter().map(|value| value.ns as i64).collect::<Vec<_>>())
            });
            found
        });
        Measured { key, processes: processes.collect() }
    });
    let rows = measured.collect();
    Ok(AllMeasured { rows, copies: copies.len() })
}

/// What a dataset says of all its rows.
struct Facts {
    process: String,
    tick_ns: Option<f64>,
    /// With the keys that are the same for all rows.
    key: Key,
    /// By ordinal; the GPU of a dataset that names one only is that of all its rows.
    gpus: FxHashMap<Option<u32>, Arc<str>>,
}

impl Facts {
    fn of(member: &Member) -> Self {
        let fact = |name: &str| member.facts.get(name).filter(|value| !value.is_empty());
        let text = |name: &str| fact(name).map(|value| value.as_str().into());
        let mut key = Key::default();
        key.set(JoinKey::Bench, text("bench.name"));
        key.set(JoinKey::Driver, text("driver.version").or_else(|| text("driver.cuda_version")));
        key.set(JoinKey::Fill, text("bench.input_fill"));
        key.set(JoinKey::Cupti, text("cupti.version"));
        let mut gpus = FxHashMap::default();
        gpus.extend(text("gpu.uuid").map(|uuid| (None, uuid)));
        for (name, uuid) in &member.facts {
            let ordinal = name.strip_prefix("gpu.").and_then(|rest| rest.strip_suffix(".uuid"));
            if let Some(ordinal) = ordinal.and_then(|ordinal| ordinal.parse().ok()) {
                gpus.insert(Some(ordinal), uuid.as_str().into());
            }
        }
        let tick_ns = fact("bench.tick_ns").and_then(|tick| tick.parse().ok());
        Self { process: process_of(member), tick_ns, key, gpus }
    }

    fn gpu(&self, ordinal: Option<u32>) -> Option<Arc<str>> {
        let gpu = self.gpus.get(&ordinal);
        gpu.or_else(|| self.gpus.values().next().filter(|_| self.gpus.len() == 1)).cloned()
    }
}

/// Values of a key in one dataset.
type Found = (Key, usize, ProcessValues);

const SAMPLE_COLUMNS: [&str; 14] = [
    "config",
    "annotation",
    "kernel",
    "metric",
    "unit",
    "cache_state",
    "clock_mode",
    "launch_mode",
    "value",
    "run",
    "repeat",
    "sm_clock_mhz",
    "n_launches",
    "start_ns",
];

/// What a thread has seen of `samples`. `W` columns of words come first.
struct Seen<const W: usize> {
    words: [Names; W],
    codes: [Vec<u32>; W],
    /// By dataset, words and device.
    groups: FxHashMap<(usize, [u32; W], u32), ProcessValues>,
    /// Of samples, which kernels there are: by dataset and words, but for those that the kernel's own rows have.
    kernels: FxHashSet<(usize, [u32; W], u32)>,
}

impl<const W: usize> Seen<W> {
    fn new() -> Self {
        let (words, codes) = (std::array::from_fn(|_| Names::default()), std::array::from_fn(|_| Vec::new()));
        Self { words, codes, groups: FxHashMap::default(), kernels: FxHashSet::default() }
    }

    fn words(&mut self, batch: &RecordBatch) -> Result<()> {
        for (column, (names, codes)) in self.words.iter_mut().zip(&mut self.codes).enumerate() {
            names.codes(batch, column, codes)?;
        }
        Ok(())
    }

    fn text(&self, column: usize, code: u32) -> Option<Arc<str>> {
        self.words.get(column)?.texts().get(code as usize).cloned()
    }
}

fn samples(collection: &Collection, members: &[Facts], rules: &Rules) -> Result<Vec<Found>> {
    let each = |seen: &mut Seen<8>, place: Place, batch: &RecordBatch| {
        seen.words(batch)?;
        let wanted = seen.words[3].number(&rules.metric);
        let (values, runs) = (float64(batch, 8)?, int64(batch, 9)?);
        let repeats = int64(batch, 10)?.values();
        let (clocks, launches) = (uint32(batch, 11)?, int64(batch, 12)?.values());
        let starts = int64(batch, 13)?.values();
        let codes = std::mem::replace(&mut seen.codes, std::array::from_fn(|_| Vec::new()));
        for row in 0..batch.num_rows() {
            let group: [u32; 8] = std::array::from_fn(|column| codes[column][row]);
            if group[2] != NONE {
                let whole = [group[0], group[1], NONE, wanted, NONE, group[5], group[6], group[7]];
                seen.kernels.insert((place.member, whole, group[2]));
            }
            if group[3] != wanted || (group[2] != NONE && !rules.kernels) {
                continue;
            }
            let found = seen.groups.entry((place.member, group, 0)).or_default();
            let ns = if values.is_valid(row) { values.value(row) } else { f64::NAN };
            let run = value(runs, row).unwrap_or_default();
            let sm_clock_mhz = value(clocks, row).filter(|mhz| *mhz > 0);
            found.add(Value { run, repeat: repeats[row], ns, sm_clock_mhz }, launches[row], starts[row]);
        }
        seen.codes = codes;
        Ok(())
    };
    let seen = collection.scan(Table::Samples, &SAMPLE_COLUMNS, &|_| {}, Seen::new, each)?;
    let mut found = Vec::new();
    for mut seen in seen {
        let of_kernels = std::mem::take(&mut seen.kernels).into_iter().map(|(member, codes, kernel)| {
            let kernels = seen.text(2, kernel).into_iter().collect();
            ((member, codes), ProcessValues { kernels, ..ProcessValues::default() })
        });
        let of_kernels: Vec<_> = of_kernels.collect();
        let groups = std::mem::take(&mut seen.groups).into_iter();
        let groups = groups.map(|((member, codes, _), values)| ((member, codes), values));
        for ((member, codes), values) in groups.chain(of_kernels) {
            let Some(facts) = members.get(member) else { continue };
            let text = |column: usize| seen.text(column, codes[column]);
            if let Some(unit) = text(4).filter(|unit| &**unit != "ns") {
                let what = format!("{} is in {unit:?}, and only times are compared", rules.metric);
                return Err(Error::new(ErrorKind::Config, what)
                    .with_hint("name a metric in nanoseconds, such as gpu__time_duration.sum"));
            }
            let mut key = facts.key.clone();
            key.set(JoinKey::Config, text(0));
            key.set(JoinKey::Region, text(1));
            key.set(JoinKey::Kernel, text(2));
            key.set(JoinKey::Gpu, facts.gpu(None));
            key.set(JoinKey::Cache, text(5));
            key.set(JoinKey::Clocks, text(6));
            key.set(JoinKey::Launch, text(7));
            found.push((key, member, values));
        }
    }
    Ok(found)
}

/// The metrics that samples are of.
pub(super) fn metrics(collection: &Collection) -> Result<BTreeSet<Arc<str>>> {
    let each = |seen: &mut Seen<1>, _: Place, batch: &RecordBatch| seen.words(batch);
    let seen = collection.scan(Table::Samples, &["metric"], &|_| {}, Seen::new, each)?;
    Ok(seen.iter().flat_map(|seen| seen.words[0].texts()).cloned().collect())
}

const LAUNCH_COLUMNS: [&str; 5] = ["range_path", "kernel", "start_ns", "duration_ns", "device"];

fn launches(collection: &Collection, members: &[Facts]) -> Result<Vec<Found>> {
    let each = |seen: &mut Seen<2>, place: Place, batch: &RecordBatch| {
        seen.words(batch)?;
        let starts = int64(batch, 2)?.values();
        let durations = int64(batch, 3)?;
        let devices = uint32(batch, 4)?.values();
        for row in 0..batch.num_rows() {
            let group = [seen.codes[0][row], seen.codes[1][row]];
            let found = seen.groups.entry((place.member, group, devices[row])).or_default();
            // CAST: exact below 104 days
            let ns = value(durations, row).map_or(f64::NAN, |ns| ns as f64);
            found.add(Value { run: starts[row], repeat: 0, ns, sm_clock_mhz: None }, 1, starts[row]);
        }
        Ok(())
    };
    let seen = collection.scan(Table::Launches, &LAUNCH_COLUMNS, &|_| {}, Seen::new, each)?;
    let mut found = Vec::new();
    for mut seen in seen {
        for ((member, codes, device), values) in std::mem::take(&mut seen.groups) {
            let Some(facts) = members.get(member) else { continue };
            let mut key = facts.key.clone();
            key.set(JoinKey::Region, seen.text(0, codes[0]));
            key.set(JoinKey::Kernel, seen.text(1, codes[1]));
            key.set(JoinKey::Gpu, facts.gpu(Some(device)));
            found.push((key, member, values));
        }
    }
    Ok(found)
}
