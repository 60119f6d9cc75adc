//! What a chip can count.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use rustc_hash::{FxHashMap, FxHashSet};

use super::grammar;
use crate::cupti::PlanningLibrary;
use crate::cupti::host::{Configured, Host, MetricKind, MetricScope};
use crate::cupti::params::{Image, Names};
use crate::error::{Error, ErrorKind, Result};

/// The metrics of one chip, as the CUPTI library in use knows them. Needs no GPU; see
/// [the module's page](crate::counters#without-a-gpu) for where it needs a driver.
///
/// ```no_run
/// # fn main() -> cuprof::Result<()> {
/// use cuprof::counters::Catalogue;
///
/// let catalogue = Catalogue::of_chip("GH100")?;
/// for name in catalogue.search("dram bytes")? {
///     let metric = catalogue.describe(name)?;
///     println!("{name} [{}]: {}", metric.unit, metric.description);
/// }
/// # Ok(())
/// # }
/// ```
///
/// Cheap to clone: clones share what has been read. Listing a kind of metrics happens once, when it is first asked for
/// (a few milliseconds on two cores of a server; opening CUPTI's libraries before it, once in a process, 0.15 s).
#[derive(Clone)]
pub struct Catalogue {
    inner: Arc<Inner>,
}

struct Inner {
    library: PlanningLibrary,
    chip: String,
    availability: Option<Arc<Image>>,
    /// Only for looking at metrics: nothing is ever added to it.
    host: Host,
    lists: [OnceLock<Vec<String>>; 3],
    kinds: OnceLock<FxHashMap<Box<str>, MetricKind>>,
}

/// A metric, described.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metric {
    /// The name that was asked for.
    pub name: String,
    /// How it is made.
    pub kind: MetricKind,
    /// The unit of its values: bytes are `byte`, times `ns`, percentages `%`, and numbers without one `1`.
    /// Of a base metric without a suffix, the unit that CUPTI gives it; CUPTI does not know what a suffix does to it, so
    /// this is derived from the suffix.
    pub unit: String,
    /// The hardware unit that counts it; empty where CUPTI does not say.
    pub hardware_unit: String,
    /// CUPTI's description of the base metric.
    pub description: String,
    /// Where it is counted. None before CUPTI 13.1, which does not say.
    pub scope: Option<MetricScope>,
}

/// The chips whose metrics the CUPTI library in use knows, `TU102` to the newest; `GH100` is H100, H200 and GH200.
///
/// # Errors
/// As [`Catalogue::of_chip`].
pub fn chips() -> Result<Vec<String>> {
    PlanningLibrary::get(None)?.cupti.chips()
}

/// The same with the CUPTI library of this file or folder, instead of searching for one.
///
/// # Errors
/// As [`Catalogue::of_chip_with`].
pub fn chips_with(cupti_path: impl AsRef<Path>) -> Result<Vec<String>> {
    PlanningLibrary::get(Some(cupti_path.as_ref()))?.cupti.chips()
}

impl Catalogue {
    /// The metrics of a chip by its name. Names are case-sensitive; [`chips`] lists them.
    ///
    /// # Errors
    /// [`ErrorKind::CuptiNotFound`] where there is no CUPTI, or its libraries for counters are missing;
    /// [`ErrorKind::CuptiTooOld`] before 12.6; [`ErrorKind::NoDriver`] where the only CUPTI needs a driver to plan, with
    /// the version to install; [`ErrorKind::Config`] for a chip that it does not know, with the ones that it does.
    pub fn of_chip(chip: &str) -> Result<Self> {
        Self::with(PlanningLibrary::get(None)?, chip, None)
    }

    /// The same with the CUPTI library of this file or folder, instead of searching for one.
    ///
    /// # Errors
    /// As [`of_chip`](Self::of_chip); with a driver, [`ErrorKind::Config`] if another library is loaded already.
    pub fn of_chip_with(chip: &str, cupti_path: impl AsRef<Path>) -> Result<Self> {
        Self::with(PlanningLibrary::get(Some(cupti_path.as_ref()))?, chip, None)
    }

    /// What a device of this machine can count. Where a context of the device is current, it is asked which counters are
    /// free, once in the process (some 0.1 s), which a session would have to do; else what the chip has is planned with.
    ///
    /// # Errors
    /// As [`of_chip`](Self::of_chip), and [`ErrorKind::NoDriver`] or [`ErrorKind::NoDevice`] without one;
    /// [`ErrorKind::CuptiTooOld`] where CUPTI does not know the device's chip.
    pub fn of_device(ordinal: u32) -> Result<Self> {
        Self::of_device_by(ordinal, None)
    }

    /// The same with the CUPTI library of this file or folder, instead of searching for one.
    ///
    /// # Errors
    /// As [`of_device`](Self::of_device); [`ErrorKind::Config`] if another library is loaded already.
    pub fn of_device_with(ordinal: u32, cupti_path: impl AsRef<Path>) -> Result<Self> {
        Self::of_device_by(ordinal, Some(cupti_path.as_ref()))
    }

    fn of_device_by(ordinal: u32, cupti_path: Option<&Path>) -> Result<Self> {
        let driver = crate::driver::Driver::get()?;
        let devices = driver.devices()?;
        if ordinal as usize >= devices.len() {
            let what = format!("there is no device {ordinal}: the process sees {}", devices.len());
            return Err(Error::new(ErrorKind::NoDevice, what).with_hint("check CUDA_VISIBLE_DEVICES"));
        }
        let library = PlanningLibrary::get(cupti_path)?;
        library.cupti.initialize_profiler()?;
        let chip = library.cupti.chip_name(ordinal)?;
        if library.cupti.chips().is_ok_and(|known| !known.contains(&chip)) {
            let path = library.loaded.path().display();
            let what = format!("{path} does not know the chip of device {ordinal}, {chip}");
            return Err(Error::new(ErrorKind::CuptiTooOld, what).with_hint("use a newer CUPTI"));
        }
        Self::with(library, &chip, super::device::availability_for_plan(ordinal))
    }

    /// With what a context says of its counters.
    pub(super) fn with(
        library: PlanningLibrary,
        chip: &str,
        availability: Option<Arc<Image>>,
    ) -> Result<Self> {
        let host = Host::new(library.cupti, library.version, chip, availability.clone());
        let host = host.map_err(|error| match library.cupti.chips() {
            Ok(known) if !known.iter().any(|known| known == chip) => unknown_chip(chip, &known),
            _ => error,
        })?;
        let lists = [const { OnceLock::new() }; 3];
        let inner =
            Inner { library, chip: chip.to_owned(), availability, host, lists, kinds: OnceLock::new() };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// The chip's name.
    #[must_use]
    pub fn chip(&self) -> &str {
        &self.inner.chip
    }

    /// The version of the CUPTI library, in words. The same chip has more metrics in newer ones.
    #[must_use]
    pub fn cupti_version(&self) -> String {
        let words = self.inner.library.version.map(|version| version.to_string());
        words.map_or_else(|| "unknown".to_owned(), |words| words.trim_start_matches("CUPTI ").to_owned())
    }

    /// The file of the CUPTI library.
    #[must_use]
    pub fn cupti_path(&self) -> &Path {
        self.inner.library.loaded.path()
    }

    /// The base names of all metrics of a kind, in CUPTI's order, each once. Those that only samples of the whole device
    /// have (`LTS.TriageCompute.…`) are left out.
    ///
    /// # Errors
    /// The failed CUPTI call.
    pub fn base_metrics(&self, kind: MetricKind) -> Result<&[String]> {
        let list = &self.inner.lists[kind as usize];
        if let Some(names) = list.get() {
            return Ok(names);
        }
        let mut names = self.inner.host.base_metrics(kind)?;
        let mut seen = FxHashSet::default();
        names.retain(|name| !name.contains('.') && seen.insert(name.clone()));
        Ok(list.get_or_init(|| names))
    }

    /// The kind of a base metric; none if the chip has none of this name.
    fn kind(&self, base: &str) -> Result<Option<MetricKind>> {
        if let Some(kinds) = self.inner.kinds.get() {
            return Ok(kinds.get(base).copied());
        }
        let mut kinds = FxHashMap::default();
        for kind in MetricKind::ALL {
            kinds.extend(self.base_metrics(kind)?.iter().map(|name| (name.as_str().into(), kind)));
        }
        Ok(self.inner.kinds.get_or_init(|| kinds).get(base).copied())
    }

    fn suffixes(&self, kind: MetricKind, base: &str) -> Result<Vec<String>> {
        self.inner.host.sub_metrics(kind, &grammar::example(kind, base))
    }

    fn all_base_metrics(&self) -> Result<impl Iterator<Item = &str>> {
        let [counters, ratios, throughputs] = MetricKind::ALL.map(|kind| self.base_metrics(kind));
        Ok(counters?.iter().chain(ratios?).chain(throughputs?).map(String::as_str))
    }

    /// The base metrics whose names contain each of these words, whatever their case and order.
    ///
    /// # Errors
    /// The failed CUPTI call.
    pub fn search(&self, words: &str) -> Result<Vec<&str>> {
        let words: Vec<_> = words.split_whitespace().map(str::to_ascii_lowercase).collect();
        let has_all =
            |name: &&str| words.iter().all(|word| name.to_ascii_lowercase().contains(word.as_str()));
        Ok(self.all_base_metrics()?.filter(has_all).collect())
    }

    /// The suffixes that make a base metric a metric: `sum`, `avg.per_second`, … .
    ///
    /// # Errors
    /// [`ErrorKind::Config`] for a base metric that the chip lacks, with near names.
    pub fn sub_metrics(&self, base: &str) -> Result<Vec<String>> {
        let (base, _) = grammar::split(base);
        match self.kind(base)? {
            Some(kind) => self.suffixes(kind, base),
            None => self.describe(base).map(|_| Vec::new()),
        }
    }

    /// What a metric is: by its base name, or by its name with a suffix, which is checked and gives the unit.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] for a metric that the chip lacks, with near names.
    pub fn describe(&self, name: &str) -> Result<Metric> {
        match self.look_up(name)? {
            Ok(metric) => Ok(metric),
            Err(unknown) => {
                let what = format!("{name}: {}", unknown.reason);
                let error = Error::new(ErrorKind::Config, what);
                Err(match unknown.near.as_slice() {
                    [] => error.with_hint("search the catalogue: Catalogue::search"),
                    near => error.with_hint(format!("near: {}", near.join(", "))),
                })
            }
        }
    }

    /// The metric, or why there is none; an error only where CUPTI fails.
    pub(super) fn look_up(&self, name: &str) -> Result<Result<Metric, Unknown>> {
        let (base, suffix) = grammar::split(name);
        let Some(kind) = self.kind(base)? else {
            let suffix = suffix.map(|suffix| format!(".{suffix}")).unwrap_or_default();
            let near = grammar::near(base, self.all_base_metrics()?, NEAR);
            let near = near.into_iter().map(|near| format!("{near}{suffix}")).collect();
            let chip = &self.inner.chip;
            let reason = format!("{chip} has no metric {base:?} (CUPTI {})", self.cupti_version());
            return Ok(Err(Unknown { reason, near }));
        };
        let known = self.suffixes(kind, base)?;
        if let Some(suffix) = suffix
            && !known.iter().any(|known| known == suffix)
        {
            let near = grammar::near(suffix, known.iter().map(String::as_str), NEAR);
            let near = if near.is_empty() { known.into_iter().take(NEAR).collect() } else { near };
            let near = near.into_iter().map(|near| format!("{base}.{near}")).collect();
            return Ok(Err(Unknown { reason: format!("{base} has no suffix .{suffix}"), near }));
        }
        let properties = self.inner.host.properties(&grammar::example(kind, base))?;
        let unit = grammar::unit(properties.kind, &properties.unit, suffix);
        Ok(Ok(Metric {
            name: name.to_owned(),
            kind: properties.kind,
            unit,
            hardware_unit: properties.hardware_unit,
            description: properties.description,
            scope: properties.scope,
        }))
    }

    /// The metric with its suffix, or why it cannot be counted.
    pub(super) fn countable(&self, name: &str) -> Result<Result<Metric, Unknown>> {
        let found = self.look_up(name)?;
        let (base, suffix) = grammar::split(name);
        let (Ok(metric), None) = (&found, suffix) else { return Ok(found) };
        let mut near = self.suffixes(metric.kind, base)?;
        near.sort_by_key(String::len); // the plain ones
        let near = near.into_iter().take(NEAR).map(|suffix| format!("{base}.{suffix}")).collect();
        Ok(Err(Unknown { reason: format!("{base} needs a suffix that says how to sum it up"), near }))
    }

    /// A set of metrics as a configuration, on a host object of its own.
    pub(super) fn configure<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> Result<Configured> {
        let Inner { library, chip, availability, .. } = &*self.inner;
        let host = Host::new(library.cupti, library.version, chip, availability.clone())?;
        host.configure(&Names::new(names)?)
    }
}

/// How many near names are told.
const NEAR: usize = 4;

/// Why a name is none of a metric.
#[derive(Clone, Debug)]
pub(super) struct Unknown {
    pub reason: String,
    pub near: Vec<String>,
}

fn unknown_chip(chip: &str, known: &[String]) -> Error {
    let what = format!("this CUPTI knows no chip {chip:?}");
    Error::new(ErrorKind::Config, what).with_hint(format!(
        "names are case-sensitive, and an H100 or H200 is GH100; known: {}",
        known.join(" ")
    ))
}

impl fmt::Debug for Catalogue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { library, chip, .. } = &*self.inner;
        f.debug_struct("Catalogue")
            .field("chip", chip)
            .field("cupti", &library.loaded.path())
            .finish_non_exhaustive()
    }
}
