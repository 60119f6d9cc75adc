//! What was measured, out of the tables `samples` and `aggregates`.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::analysis::{Collection, Filter, Member};
use crate::counters::near;
use crate::error::{Error, ErrorKind, Result};
use crate::pattern::Pattern;
use crate::table::columns::{Texts, float64, int64, value};
use crate::table::schema::Table;

/// Measured values over configurations, and what they tell; of one dataset or several.
///
/// Draws [times](Self::times) and [distributions](Self::distribution).
#[derive(Clone, Debug, Default)]
pub struct Measurements {
    pub(super) configs: Vec<Config>,
    pub(super) cells: Vec<Cell>,
    /// The names of the datasets, where there are several.
    pub(super) sources: Vec<String>,
    /// What the measurement is called; empty for several.
    pub(super) name: String,
    /// What was in force, a sentence of it.
    pub(super) conditions: String,
    /// What is missing.
    pub(super) missing: Vec<String>,
    places: FxHashMap<(usize, i64), usize>,
    cell_places: FxHashMap<Key, usize>,
}

/// A configuration of one dataset.
#[derive(Clone, Debug)]
pub(super) struct Config {
    pub source: usize,
    pub text: Arc<str>,
    /// Names and values, in their order.
    pub parameters: Vec<(String, String)>,
}

/// What a cell is of.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    /// Which of the configurations.
    config: usize,
    pub annotation: Arc<str>,
    pub kernel: Option<Arc<str>>,
    pub metric: Arc<str>,
}

/// One metric of one annotation, or of a kernel in it, in one configuration.
#[derive(Clone, Debug)]
pub(super) struct Cell {
    pub key: Key,
    pub unit: Arc<str>,
    pub told: Told,
    pub values: Vec<Value>,
}

impl Cell {
    pub fn config(&self) -> usize {
        self.key.config
    }
}

/// What an aggregate tells.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Told {
    pub n_valid: i64,
    pub mean: Option<f64>,
    pub mean_ends: [Option<f64>; 2],
    pub median: Option<f64>,
    pub median_ends: [Option<f64>; 2],
}

/// One run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Value {
    pub run: Option<i64>,
    pub repeat: i64,
    pub value: Option<f64>,
}

impl Measurements {
    /// Reads what was measured: of annotations whose names match the filter's ranges, and of kernels that match its kernels
    /// where it has any, else of whole annotations.
    ///
    /// # Errors
    /// [`Format`](ErrorKind::Format) where nothing was measured; [`Config`](ErrorKind::Config) where nothing matches; as
    /// [`Dataset::open`](crate::Dataset::open).
    pub fn read(collection: &Collection, filter: &Filter) -> Result<Self> {
        let mut found = Self { missing: missing(collection), ..Self::default() };
        let members = collection.members();
        let told = |member: &Member| conditions(&|key| member.facts.get(key).map(String::as_str));
        let told: Vec<[Option<String>; 3]> = members.iter().map(told).collect();
        match members {
            [one] => found.tell_facts(&|key| one.facts.get(key).map(String::as_str)),
            _ => (found.sources, found.conditions) = with_conditions(&names_of(collection), &told),
        }
        let rows = collection.rows(Table::Aggregates) + collection.rows(Table::Samples);
        if rows == 0 {
            let path = members.first().map(|member| member.path.display().to_string()).unwrap_or_default();
            return Err(Error::new(ErrorKind::Format, format!("nothing was measured in {path}")).with_hint(
                "Bench::output and bench::Report::write make datasets with the tables samples and aggregates; of a trace, draw the kernels' share",
            ));
        }
        found.read_aggregates(collection, filter)?;
        found.read_samples(collection, filter)?;
        if found.cells.is_empty() {
            return Err(Error::new(ErrorKind::Config, "no annotation or kernel that was measured matches"));
        }
        Ok(found)
    }

    fn read_aggregates(&mut self, collection: &Collection, filter: &Filter) -> Result<()> {
        const NUMBERS: [&str; 7] =
            ["n_valid", "mean", "mean_low", "mean_high", "median", "median_low", "median_high"];
        let columns = [&Words::COLUMNS[..], &NUMBERS].concat();
        for (source, group) in collection.groups(Table::Aggregates) {
            for batch in collection.members()[source].dataset.scan(&group, &columns) {
                let batch = batch?;
                let words = Words::of(&batch)?;
                let (indices, valid) = (int64(&batch, 0)?, int64(&batch, 7)?);
                let mut reals = Vec::new();
                for column in 8..14 {
                    reals.push(float64(&batch, column)?);
                }
                for row in 0..batch.num_rows() {
                    let Some((key, unit)) = words.key(self, source, indices.value(row), row, filter) else {
                        continue;
                    };
                    let real = |column: usize| value(reals[column], row);
                    self.tell(
                        key,
                        unit,
                        Told {
                            n_valid: valid.value(row),
                            mean: real(0),
                            mean_ends: [real(1), real(2)],
                            median: real(3),
                            median_ends: [real(4), real(5)],
                        },
                    );
                }
            }
        }
        Ok(())
    }

    fn read_samples(&mut self, collection: &Collection, filter: &Filter) -> Result<()> {
        const NUMBERS: [&str; 3] = ["run", "repeat", "value"];
        let columns = [&Words::COLUMNS[..], &NUMBERS].concat();
        for (source, group) in collection.groups(Table::Samples) {
            for batch in collection.members()[source].dataset.scan(&group, &columns) {
                let batch = batch?;
                let words = Words::of(&batch)?;
                let (indices, runs, repeats) = (int64(&batch, 0)?, int64(&batch, 7)?, int64(&batch, 8)?);
                let values = float64(&batch, 9)?;
                for row in 0..batch.num_rows() {
                    let Some((key, unit)) = words.key(self, source, indices.value(row), row, filter) else {
                        continue;
                    };
                    let (run, repeat, value) = (value(runs, row), repeats.value(row), value(values, row));
                    self.sample(key, unit, Value { run, repeat, value });
                }
            }
        }
        Ok(())
    }

    /// The name of the measurement, and what was in force, out of the facts.
    pub(crate) fn tell_facts<'a>(&mut self, fact: &dyn Fn(&str) -> Option<&'a str>) {
        fact("bench.name").unwrap_or_default().clone_into(&mut self.name);
        self.conditions = conditions(fact).into_iter().flatten().collect::<Vec<_>>().join(", ");
    }

    /// What a row is of; its configuration is noted.
    pub(crate) fn key(
        &mut self,
        (source, index): (usize, i64),
        (text, parameters): (&Arc<str>, &str),
        (annotation, kernel, metric): (Arc<str>, Option<Arc<str>>, Arc<str>),
    ) -> Key {
        let next = self.configs.len();
        let config = *self.places.entry((source, index)).or_insert(next);
        if config == next {
            let parameters = parsed(parameters, text);
            self.configs.push(Config { source, text: Arc::clone(text), parameters });
        }
        Key { config, annotation, kernel, metric }
    }

    fn cell(&mut self, key: Key, unit: Arc<str>) -> Option<&mut Cell> {
        let next = self.cells.len();
        let place = *self.cell_places.entry(key.clone()).or_insert(next);
        if place == next {
            self.cells.push(Cell { key, unit, told: Told::default(), values: Vec::new() });
        }
        self.cells.get_mut(place)
    }

    pub(crate) fn tell(&mut self, key: Key, unit: Arc<str>, told: Told) {
        if let Some(cell) = self.cell(key, unit) {
            cell.told = told;
        }
    }

    pub(crate) fn sample(&mut self, key: Key, unit: Arc<str>, value: Value) {
        if let Some(cell) = self.cell(key, unit) {
            cell.values.push(value);
        }
    }

    /// Only the configurations whose text (`n=512, half=true`) matches.
    ///
    /// # Errors
    /// [`Config`](ErrorKind::Config) where none does.
    pub fn only(mut self, configs: &Pattern) -> Result<Self> {
        let texts: Vec<Arc<str>> = self.configs.iter().map(|config| Arc::clone(&config.text)).collect();
        self.cells.retain(|cell| texts.get(cell.config()).is_some_and(|text| configs.matches(text)));
        self.cell_places.clear();
        if self.cells.is_empty() {
            let texts: Vec<&str> = texts.iter().map(|text| &**text).collect();
            return Err(unknown("configuration like", &configs.to_string(), &texts));
        }
        Ok(self)
    }

    /// `precision: ` in front of a title, if it has a name.
    pub(super) fn named(&self, title: &str) -> String {
        if self.name.is_empty() { title.to_owned() } else { format!("{}: {title}", self.name) }
    }

    /// The metrics that were measured, in the order in which they come.
    #[must_use]
    pub fn metrics(&self) -> Vec<&str> {
        let mut metrics: Vec<&str> = Vec::new();
        for cell in &self.cells {
            if !metrics.contains(&&*cell.key.metric) {
                metrics.push(&cell.key.metric);
            }
        }
        metrics
    }

    /// The cells of a metric; of none, of the first.
    pub(super) fn cells_of(&self, metric: Option<&str>) -> Result<Vec<&Cell>> {
        let metrics = self.metrics();
        let Some(wanted) = metric.or(metrics.first().copied()) else {
            return Err(Error::new(ErrorKind::Format, "nothing was measured"));
        };
        let cells: Vec<&Cell> = self.cells.iter().filter(|cell| &*cell.key.metric == wanted).collect();
        if cells.is_empty() {
            return Err(unknown("metric", wanted, &metrics));
        }
        Ok(cells)
    }

    /// The name of an annotation, with the kernel and the dataset where these are needed.
    pub(super) fn name(&self, cell: &Cell) -> String {
        let config = &self.configs[cell.config()];
        let kernel = cell.key.kernel.as_deref().map(|kernel| format!(" {kernel}")).unwrap_or_default();
        let source = self.sources.get(config.source).map(|source| format!("{source}: ")).unwrap_or_default();
        format!("{source}{}{kernel}", cell.key.annotation)
    }
}

/// Refuses a name, with those that are near.
pub(super) fn unknown(what: &str, name: &str, known: &[&str]) -> Error {
    const MOST: usize = 5;
    // A few are all told.
    let names: Vec<String> = if known.len() <= 2 * MOST {
        known.iter().map(|name| (*name).to_owned()).collect()
    } else {
        near(name, known.iter().copied(), MOST)
    };
    let error = Error::new(ErrorKind::Config, format!("there is no {what} {name:?}"));
    match names.as_slice() {
        [] => error,
        names => error.with_hint(format!("there is: {}", names.join(", "))),
    }
}

/// What was in force: the GPU, the state of the cache, and the clocks.
fn conditions<'a>(fact: &dyn Fn(&str) -> Option<&'a str>) -> [Option<String>; 3] {
    let gpu = fact("gpu.name").or_else(|| fact("gpu.0.name")).map(str::to_owned);
    let cache = fact("bench.cache_state").map(|state| format!("cache {state}"));
    let clocks = fact("bench.clock_mode").map(|mode| format!("clocks {mode}"));
    [gpu, cache, clocks]
}

/// The names with what was in force for them alone, and what was for all.
pub(super) fn with_conditions(names: &[String], told: &[[Option<String>; 3]]) -> (Vec<String>, String) {
    let is_shared = |place: usize| told.iter().all(|one| one[place] == told[0][place]);
    let parts = |told: &[Option<String>; 3], shared: bool| {
        let parts = (0..told.len()).filter(|place| is_shared(*place) == shared);
        parts.filter_map(|place| told[place].clone()).collect::<Vec<_>>().join(", ")
    };
    let named = names.iter().zip(told).map(|(name, told)| match parts(told, false) {
        own if own.is_empty() => name.clone(),
        own => format!("{name} ({own})"),
    });
    (named.collect(), told.first().map(|told| parts(told, true)).unwrap_or_default())
}

/// What is missing, which a picture says wherever it is shown.
pub(super) fn missing(collection: &Collection) -> Vec<String> {
    collection.missing().iter().map(|what| format!("Incomplete: {what}")).collect()
}

/// The names of the datasets' folders; their paths, where several have the same name.
fn names_of(collection: &Collection) -> Vec<String> {
    let stem = |path: &std::path::Path| {
        path.file_stem()
            .map_or_else(|| path.display().to_string(), |stem| stem.to_string_lossy().into_owned())
    };
    let members = collection.members();
    let stems: Vec<String> = members.iter().map(|member| stem(&member.path)).collect();
    let is_one = |name: &String| stems.iter().filter(|other| *other == name).count() == 1;
    let name = |(name, member): (&String, &Member)| {
        if is_one(name) { name.clone() } else { member.path.display().to_string() }
    };
    stems.iter().zip(members).map(name).collect()
}

/// The names of datasets with the GPU where they are of several; and the GPUs.
pub(super) fn names_and_gpus(collection: &Collection) -> (Vec<String>, Vec<String>) {
    let gpu = |member: &Member| {
        let [gpu, ..] = conditions(&|key| member.facts.get(key).map(String::as_str));
        [gpu, None, None]
    };
    let told: Vec<[Option<String>; 3]> = collection.members().iter().map(gpu).collect();
    let mut gpus: Vec<String> = Vec::new();
    for gpu in told.iter().flatten().flatten() {
        if !gpus.contains(gpu) {
            gpus.push(gpu.clone());
        }
    }
    (with_conditions(&names_of(collection), &told).0, gpus)
}

/// The texts of rows of both tables.
struct Words {
    config: Vec<Option<Arc<str>>>,
    parameters: Vec<Option<Arc<str>>>,
    annotation: Vec<Option<Arc<str>>>,
    kernel: Vec<Option<Arc<str>>>,
    metric: Vec<Option<Arc<str>>>,
    unit: Vec<Option<Arc<str>>>,
}

impl Words {
    /// The first columns of a scan; numbers come after them.
    const COLUMNS: [&str; 7] =
        ["config_index", "config", "parameters", "annotation", "kernel", "metric", "unit"];

    fn of(batch: &arrow_array::RecordBatch) -> Result<Self> {
        let words = |column| Texts::default().of(batch, column);
        Ok(Self {
            config: words(1)?,
            parameters: words(2)?,
            annotation: words(3)?,
            kernel: words(4)?,
            metric: words(5)?,
            unit: words(6)?,
        })
    }

    /// What a row is of, with its unit, if it is wanted.
    fn key(
        &self,
        to: &mut Measurements,
        source: usize,
        index: i64,
        row: usize,
        filter: &Filter,
    ) -> Option<(Key, Arc<str>)> {
        let annotation = self.annotation[row].clone()?;
        let kernel = self.kernel[row].clone();
        let is_wanted = match (&filter.kernel, &kernel) {
            (Some(pattern), Some(kernel)) => pattern.matches(kernel),
            (None, None) => true,
            _ => false,
        };
        let in_range = filter.range.as_ref().is_none_or(|pattern| pattern.matches_path(&annotation));
        if !is_wanted || !in_range {
            return None;
        }
        let (config, parameters) = (self.config[row].as_ref()?, self.parameters[row].as_deref()?);
        let key =
            to.key((source, index), (config, parameters), (annotation, kernel, self.metric[row].clone()?));
        Some((key, self.unit[row].clone()?))
    }
}

/// Parameters with their values as texts. JSON objects that are read have no order, so it is that of the text.
fn parsed(json: &str, text: &str) -> Vec<(String, String)> {
    let Ok(serde_json::Value::Object(values)) = serde_json::from_str(json) else { return Vec::new() };
    let mut parameters: Vec<(String, String)> = values
        .into_iter()
        .map(|(name, value)| match value {
            serde_json::Value::String(value) => (name, value),
            other => (name, other.to_string()),
        })
        .collect();
    let place = |name: &str| {
        let named = format!("{name}=");
        let inside = text.find(&format!(", {named}")).map(|place| place + 2);
        if text.starts_with(&named) { Some(0) } else { inside }
    };
    parameters.sort_by_cached_key(|(name, _)| place(name).unwrap_or(usize::MAX));
    parameters
}
