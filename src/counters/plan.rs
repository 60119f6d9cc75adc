//! Which metrics are counted, and what that takes.

use std::fmt;

use super::catalogue::{Catalogue, Metric};
use super::grammar;
use super::presets::{self, Preset};
use crate::cupti::host::Configured;
use crate::error::{Error, ErrorKind, Result};
use crate::summary::text::counted;

/// A set of metrics that one chip can count, with the exact number of passes that this takes. Made without a GPU.
///
/// ```no_run
/// # fn main() -> cuprof::Result<()> {
/// use cuprof::counters::Plan;
///
/// let plan = Plan::new("GH100", ["headline", "sm__inst_executed.sum"])?;
/// println!("{} passes", plan.passes());
/// for missing in plan.missing() {
///     println!("{}: {}", missing.name, missing.reason);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Plan {
    catalogue: Catalogue,
    /// As they were asked for, so that it can be made again where more is known.
    asked: Vec<String>,
    metrics: Vec<PlannedMetric>,
    missing: Vec<MissingMetric>,
    passes: usize,
}

/// A metric of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PlannedMetric {
    /// The metric, by the name that the chip has for it.
    pub metric: Metric,
    /// The name that was asked for, by the program or by a preset. Another one than the metric's: an alias.
    pub asked: String,
    /// The preset that it comes from; none where it was named itself.
    pub preset: Option<Preset>,
}

/// A metric that was asked for and is not counted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MissingMetric {
    /// The name that was asked for.
    pub name: String,
    /// Why not.
    pub reason: String,
    /// Names that may have been meant.
    pub near: Vec<String>,
    /// The preset that it comes from; none where it was named itself.
    pub preset: Option<Preset>,
}

impl Plan {
    /// A plan for a chip: names of metrics with their suffixes, and names of [presets](Preset).
    ///
    /// A metric that the chip lacks does not fail the plan: it is in [`missing`](Self::missing), with near names, and
    /// the rest is planned. [`complete`](Self::complete) makes it an error.
    ///
    /// # Errors
    /// As [`Catalogue::of_chip`]; [`ErrorKind::Config`] where nothing is left to be counted.
    pub fn new<S: AsRef<str>>(chip: &str, metrics: impl IntoIterator<Item = S>) -> Result<Self> {
        Catalogue::of_chip(chip)?.plan(metrics)
    }

    /// A plan for a device of this machine.
    ///
    /// # Errors
    /// As [`Catalogue::of_device`]; [`ErrorKind::Config`] where nothing is left to be counted.
    pub fn for_device<S: AsRef<str>>(ordinal: u32, metrics: impl IntoIterator<Item = S>) -> Result<Self> {
        Catalogue::of_device(ordinal)?.plan(metrics)
    }

    /// Fails if a metric is missing; [`missing`](Self::missing) would name it.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] with each missing metric, the reason and near names.
    pub fn complete(self) -> Result<Self> {
        // What a preset leaves out for the sake of its passes was not asked for by name.
        let missing: Vec<_> = self.missing.iter().filter(|missing| missing.preset.is_none()).collect();
        if missing.is_empty() { Ok(self) } else { Err(not_countable(&missing)) }
    }

    /// The chip that it is for.
    #[must_use]
    pub fn chip(&self) -> &str {
        self.catalogue.chip()
    }

    /// The catalogue that it was made from.
    #[must_use]
    pub fn catalogue(&self) -> &Catalogue {
        &self.catalogue
    }

    /// How often the work has to run, for one level of ranges.
    ///
    /// A device can have fewer counters free than its chip has, and then needs more; a session tells the number that it
    /// took.
    #[must_use]
    pub fn passes(&self) -> usize {
        self.passes
    }

    /// The metrics that are counted, in the order in which they were asked for.
    #[must_use]
    pub fn metrics(&self) -> &[PlannedMetric] {
        &self.metrics
    }

    /// The metrics that were asked for and are not counted.
    #[must_use]
    pub fn missing(&self) -> &[MissingMetric] {
        &self.missing
    }

    /// The metrics that have another name on this chip than the one that was asked for.
    pub fn aliases(&self) -> impl Iterator<Item = &PlannedMetric> {
        self.metrics.iter().filter(|planned| planned.asked != planned.metric.name)
    }

    /// Those of these metrics and presets that could be counted as well without another pass, together.
    ///
    /// Some milliseconds for each that is tried.
    ///
    /// # Errors
    /// The failed CUPTI call.
    pub fn free<S: AsRef<str>>(&self, candidates: impl IntoIterator<Item = S>) -> Result<Vec<String>> {
        let resolved = Resolved::new(&self.catalogue, candidates)?;
        let has = |name: &str| self.metrics.iter().any(|planned| planned.metric.name == name);
        let mut names: Vec<&str> = self.names().collect();
        let mut free = Vec::new();
        for planned in resolved.metrics.iter().filter(|planned| !has(&planned.metric.name)) {
            let name = planned.metric.name.as_str();
            names.push(name);
            match self.catalogue.configure(names.iter().copied()) {
                Ok(configured) if configured.passes <= self.passes => free.push(name.to_owned()),
                _dearer_or_not_with_these => drop(names.pop()),
            }
        }
        Ok(free)
    }

    /// The metrics to leave out so that the others take no more than so many passes; metrics that were asked for
    /// earlier are kept first.
    ///
    /// # Errors
    /// The failed CUPTI call.
    pub fn beyond(&self, passes: usize) -> Result<Vec<String>> {
        if self.passes <= passes {
            return Ok(Vec::new());
        }
        let (_, dropped) = fitting(&self.catalogue, self.metrics.clone(), Some(passes));
        Ok(dropped.into_iter().map(|(planned, _)| planned.metric.name).collect())
    }

    /// The same requests where more is known of the counters, ready to be counted.
    pub(super) fn again_with(&self, catalogue: &Catalogue) -> Result<(Self, Configured)> {
        // The names are the same chip's and the same library's; only how many passes they take can differ.
        match catalogue.configure(self.names()) {
            Ok(configured) if configured.passes <= self.passes => {
                let passes = configured.passes;
                Ok((Self { catalogue: catalogue.clone(), passes, ..self.clone() }, configured))
            }
            _others_must_be_left_out_or_more_passes_made => {
                let plan = catalogue.plan(&self.asked)?;
                let configured = plan.configure()?;
                Ok((plan, configured))
            }
        }
    }

    pub(super) fn configure(&self) -> Result<Configured> {
        self.catalogue.configure(self.names())
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.metrics.iter().map(|planned| planned.metric.name.as_str())
    }
}

impl Catalogue {
    /// A plan for this chip: names of metrics with their suffixes, and names of [presets](Preset). See [`Plan::new`].
    ///
    /// # Errors
    /// [`ErrorKind::Config`] where nothing is left to be counted.
    pub fn plan<S: AsRef<str>>(&self, metrics: impl IntoIterator<Item = S>) -> Result<Plan> {
        let asked: Vec<_> = metrics.into_iter().map(|name| name.as_ref().to_owned()).collect();
        let Resolved { metrics, mut missing } = Resolved::new(self, &asked)?;
        let (metrics, passes) = match self.passes(&metrics) {
            Ok(passes) => (metrics, passes),
            Err(_) if metrics.is_empty() => (metrics, 0),
            // CUPTI does not say which of them it minds.
            Err(error) => {
                let (kept, dropped) = fitting(self, metrics, None);
                if kept.is_empty() && missing.is_empty() {
                    return Err(error);
                }
                missing.extend(dropped.into_iter().map(|(planned, reason)| planned.missing(reason)));
                let passes = if kept.is_empty() { 0 } else { self.passes(&kept)? };
                (kept, passes)
            }
        };
        if metrics.is_empty() {
            return Err(match missing.as_slice() {
                [] => Error::new(ErrorKind::Config, "no metric was asked for")
                    .with_hint("name metrics, or a preset such as headline"),
                missing => not_countable(&missing.iter().collect::<Vec<_>>()),
            });
        }
        Ok(Plan { catalogue: self.clone(), asked, metrics, missing, passes })
    }
}

impl Catalogue {
    fn passes(&self, metrics: &[PlannedMetric]) -> Result<usize> {
        let names = metrics.iter().map(|planned| planned.metric.name.as_str());
        Ok(self.configure(names)?.passes)
    }
}

/// Names that have been looked up.
struct Resolved {
    metrics: Vec<PlannedMetric>,
    missing: Vec<MissingMetric>,
}

impl Resolved {
    fn new<S: AsRef<str>>(catalogue: &Catalogue, asked: impl IntoIterator<Item = S>) -> Result<Self> {
        let mut resolved = Self { metrics: Vec::new(), missing: Vec::new() };
        for name in asked {
            let name = name.as_ref().trim();
            match Preset::from_name(name) {
                Some(preset) => resolved.add_preset(catalogue, preset)?,
                None => resolved.add(catalogue, name, None)?,
            }
        }
        Ok(resolved)
    }

    fn add_preset(&mut self, catalogue: &Catalogue, preset: Preset) -> Result<()> {
        let mut own = Self { metrics: Vec::new(), missing: Vec::new() };
        for name in preset.metrics() {
            own.add(catalogue, name, Some(preset))?;
        }
        if let Some(passes) = preset.max_passes() {
            let (kept, dropped) = fitting(catalogue, own.metrics, Some(passes));
            own.metrics = kept;
            own.missing.extend(dropped.into_iter().map(|(planned, reason)| planned.missing(reason)));
        }
        own.metrics.into_iter().for_each(|planned| self.keep(planned));
        self.missing.extend(own.missing);
        Ok(())
    }

    fn add(&mut self, catalogue: &Catalogue, name: &str, preset: Option<Preset>) -> Result<()> {
        let asked = name.to_owned();
        match catalogue.countable(name)? {
            Ok(metric) => self.keep(PlannedMetric { metric, asked, preset }),
            Err(unknown) => match presets::alias(catalogue, name)? {
                Some(alias) => {
                    let metric = catalogue.describe(&alias)?;
                    self.keep(PlannedMetric { metric, asked, preset });
                }
                None => {
                    let (reason, mut near) = (unknown.reason, unknown.near);
                    if !name.contains('.') {
                        let presets = grammar::near(name, Preset::ALL.iter().map(|preset| preset.name()), 1);
                        near.splice(..0, presets);
                    }
                    let near = if preset.is_some() { Vec::new() } else { near };
                    self.missing.push(MissingMetric { name: asked, reason, near, preset });
                }
            },
        }
        Ok(())
    }

    /// Once, however often it is asked for.
    fn keep(&mut self, planned: PlannedMetric) {
        if self.metrics.iter().all(|known| known.metric.name != planned.metric.name) {
            self.metrics.push(planned);
        }
    }
}

impl PlannedMetric {
    fn missing(self, reason: String) -> MissingMetric {
        MissingMetric { name: self.asked, reason, near: Vec::new(), preset: self.preset }
    }
}

/// Adds metrics one by one and leaves out those that CUPTI does not take beside the earlier ones, or that would need
/// more passes than these.
fn fitting(
    catalogue: &Catalogue,
    metrics: Vec<PlannedMetric>,
    most: Option<usize>,
) -> (Vec<PlannedMetric>, Vec<(PlannedMetric, String)>) {
    let fits = |passes: usize| most.is_none_or(|most| passes <= most);
    if catalogue.passes(&metrics).is_ok_and(fits) {
        return (metrics, Vec::new());
    }
    let (mut kept, mut dropped): (Vec<PlannedMetric>, Vec<_>) = (Vec::new(), Vec::new());
    for planned in metrics {
        kept.push(planned);
        let reason = match catalogue.passes(&kept) {
            Ok(passes) if fits(passes) => continue,
            Ok(passes) => format!("it would take {passes} passes with the metrics before it"),
            Err(error) => {
                format!("it cannot be counted together with the metrics before it ({error}); plan it alone")
            }
        };
        dropped.extend(kept.pop().map(|planned| (planned, reason.replace('\n', ";"))));
    }
    (kept, dropped)
}

fn not_countable(missing: &[&MissingMetric]) -> Error {
    let mut what = match missing {
        [_] => "a metric cannot be counted".to_owned(),
        more => format!("{} metrics cannot be counted", more.len()),
    };
    for MissingMetric { name, reason, near, .. } in missing {
        what += &format!("\n  {name}: {reason}");
        if !near.is_empty() {
            what += &format!("; near: {}", near.join(", "));
        }
    }
    Error::new(ErrorKind::Config, what).with_hint("look for names with Catalogue::search")
}

impl fmt::Display for Plan {
    /// The plan for people: passes, metrics with units, aliases, and what is missing.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} on {} in {} (CUPTI {})",
            counted(self.metrics.len() as u64, "metric"),
            self.chip(),
            counted(self.passes as u64, "pass"),
            self.catalogue.cupti_version()
        )?;
        for PlannedMetric { metric, asked, .. } in &self.metrics {
            write!(f, "  {} [{}]", metric.name, metric.unit)?;
            if *asked != metric.name {
                write!(f, ", for {asked}")?;
            }
            writeln!(f)?;
        }
        for MissingMetric { name, reason, near, .. } in &self.missing {
            write!(f, "  not {name}: {reason}")?;
            if !near.is_empty() {
                write!(f, "; near: {}", near.join(", "))?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}
