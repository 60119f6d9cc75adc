//! The result: rows with their verdicts, and the exit code that they come to.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use super::key::{JoinKey, Key, Mismatch};
use super::measured::{Measured, process_of};
use super::pairing::{Pairing, pair};
use super::{Rules, judge};
use crate::error::Result;
use crate::stats::{Comparison, Inconclusive, Verdict, benjamini_hochberg};
use crate::summary::Symbols;
use crate::summary::text::{one_line, shortened};
use crate::table::collection::{Collection, LostRows};

/// Two sides and what became of their rows.
///
/// Prints as a text for a terminal of 100 columns.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Compared {
    /// What was asked for.
    pub rules: Rules,
    /// The first side.
    pub base: Side,
    /// The second side, which is slower or faster than the first.
    pub new: Side,
    /// Whether both were measured in the same runs, and compared by pairs.
    pub is_interleaved: bool,
    /// By key.
    pub rows: Vec<Row>,
    /// What has no counterpart, as it was allowed.
    pub left_out: Vec<Mismatch>,
    /// Process runs that both sides have, though each should have its own: what is compared with itself tells nothing of a
    /// change.
    pub in_common: usize,
    varying: Vec<JoinKey>,
}

/// One side.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Side {
    /// Its folder.
    pub label: String,
    /// Processes whose datasets it has.
    pub process_runs: usize,
    /// Names of its GPUs.
    pub gpus: Vec<String>,
    /// Versions of the driver.
    pub drivers: Vec<String>,
    /// Causes of lost or unusable records.
    pub losses: Vec<LostRows>,
    /// What else everybody should know of its runs.
    pub warnings: Vec<String>,
    /// Whether something is known to be missing.
    pub is_lossy: bool,
    /// Datasets that have what another of the same process run has; that counts once.
    pub copies: usize,
    pub(super) processes: BTreeSet<String>,
}

/// What is compared, and the verdict.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Row {
    /// What is measured and how, as the first side that has it says.
    pub key: Key,
    /// What the first side has of it.
    pub base: Option<SideValues>,
    /// What the second side has of it.
    pub new: Option<SideValues>,
    /// The difference with its uncertainty; none for what is incomparable.
    pub comparison: Option<Comparison>,
    /// The same in cycles; none where clocks were pinned, or nobody knows them.
    pub in_cycles: Option<Comparison>,
    /// The verdict.
    pub outcome: Outcome,
    /// Whether that holds within the process runs only.
    pub is_within_run: bool,
    /// Keys that differ, as it was allowed.
    pub allowed: Vec<Mismatch>,
    /// Kernels of an annotation that the first side launched and the second never did, by their names; empty where either
    /// side's are not known. Code that changed under the same name is not seen.
    pub only_in_base: Vec<Arc<str>>,
    /// Kernels that only the second side launched.
    pub only_in_new: Vec<Arc<str>>,
}

/// What one side has of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct SideValues {
    /// Process runs with values.
    pub process_runs: usize,
    /// Valid values.
    pub values: usize,
    /// The fewest and the most of a process run that has any.
    pub values_of_a_run: Option<(usize, usize)>,
    /// Values without a time, which are left out.
    pub invalid: u64,
    /// The geometric mean over the process runs' values, in nanoseconds.
    pub time_ns: Option<f64>,
    /// The mean clock of the multiprocessors, where it is known.
    pub sm_clock_mhz: Option<f64>,
    /// The fewest and the most kernels of a value.
    pub launches: Option<(i64, i64)>,
}

/// What became of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// Both sides were compared.
    Compared(Verdict),
    /// They cannot be compared, for these keys.
    Incomparable(Vec<Mismatch>),
}

/// What makes a comparison fail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum FailOn {
    /// Whatever is not known to be as fast as before.
    #[default]
    Inconclusive,
    /// Only what is slower, or cannot be compared: what is inconclusive passes.
    Slower,
}

/// Both sides before their rows are known.
pub(super) struct Sides {
    pub base: Side,
    pub new: Side,
    pub design: judge::Design,
}

impl Side {
    pub(super) fn of(collection: &Collection, copies: usize) -> Self {
        let members = collection.members();
        let fact = |wanted: &dyn Fn(&str) -> bool| -> Vec<String> {
            let facts = members.iter().flat_map(|member| &member.facts);
            let values: BTreeSet<&String> =
                facts.filter(|(key, _)| wanted(key)).map(|(_, value)| value).collect();
            values.into_iter().cloned().collect()
        };
        let processes: BTreeSet<String> = members.iter().map(process_of).collect();
        let label = match members {
            [only] => only.path.display().to_string(),
            [first, rest @ ..] if rest.iter().all(|other| other.path.parent() == first.path.parent()) => {
                let parent =
                    first.path.parent().map(|parent| parent.display().to_string()).unwrap_or_default();
                if parent.is_empty() { ".".to_owned() } else { parent }
            }
            _ => format!("{} datasets", members.len()),
        };
        let versions = fact(&|key| key == "driver.version");
        Self {
            label,
            process_runs: processes.len(),
            gpus: fact(&|key| key.starts_with("gpu.") && key.ends_with(".name")),
            drivers: if versions.is_empty() { fact(&|key| key == "driver.cuda_version") } else { versions },
            losses: collection.losses(),
            warnings: collection.warnings(),
            is_lossy: collection.is_lossy(),
            copies,
            processes,
        }
    }

    /// That some datasets count once, where there are such.
    pub(super) fn copies_told(&self, side: &str) -> Option<String> {
        match self.copies {
            0 => None,
            1 => Some(format!("1 dataset of {side} is a copy of another: each process run counts once")),
            copies => Some(format!(
                "{copies} datasets of {side} are copies of others: each process run counts once"
            )),
        }
    }
}

/// As the text's head has it: `before (5 process runs, NVIDIA H200, driver 580.159)`.
impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let runs = if self.process_runs == 1 { "process run" } else { "process runs" };
        write!(f, "{} ({} {runs}", self.label, self.process_runs)?;
        self.gpus.iter().try_for_each(|gpu| write!(f, ", {gpu}"))?;
        self.drivers.iter().try_for_each(|driver| write!(f, ", driver {driver}"))?;
        f.write_str(")")
    }
}

impl SideValues {
    fn of(measured: &Measured, rules: &Rules) -> Self {
        let blocks = judge::block_times(measured, rules);
        let processes = &measured.processes;
        let launches = processes.iter().filter_map(|process| process.launches);
        let each = processes.iter().map(|process| process.values.len()).filter(|values| *values > 0);
        let values_of_a_run = each.clone().min().zip(each.max());
        Self {
            process_runs: blocks.len(),
            values: processes.iter().map(|process| process.values.len()).sum(),
            values_of_a_run,
            invalid: processes.iter().map(|process| process.invalid).sum(),
            time_ns: crate::stats::geometric_mean(&judge::process_values(&blocks)),
            sm_clock_mhz: judge::clock_mhz(measured),
            launches: launches.reduce(|(a, b), (c, d)| (a.min(c), b.max(d))),
        }
    }
}

impl Row {
    /// The verdict's word.
    #[must_use]
    pub fn verdict(&self) -> &'static str {
        match &self.outcome {
            Outcome::Compared(Verdict::Slower) => "SLOWER",
            Outcome::Compared(Verdict::Faster) => "FASTER",
            Outcome::Compared(Verdict::Same) => "SAME",
            Outcome::Compared(Verdict::Inconclusive(_)) => "INCONCLUSIVE",
            Outcome::Incomparable(_) => "INCOMPARABLE",
        }
    }

    /// Whether blocks were compared, since a side has one process run.
    pub(super) fn is_by_block(&self) -> bool {
        let is_single = |side: &SideValues| side.process_runs == 1;
        self.is_within_run && [&self.base, &self.new].into_iter().flatten().any(is_single)
    }

    /// What there would have to be more of.
    pub(super) fn unit(&self) -> &'static str {
        match self.comparison {
            Some(comparison) if !comparison.between_processes => "pairs",
            _ if self.is_by_block() => "blocks a side",
            _ => "process runs a side",
        }
    }

    /// The sides without a valid value.
    fn without_values(&self) -> Option<&'static str> {
        match [&self.base, &self.new].map(|side| side.is_none_or(|side| side.values == 0)) {
            [true, true] => Some("base and in new"),
            [true, false] => Some("base"),
            [false, true] => Some("new"),
            [false, false] => None,
        }
    }

    /// Why it is not more than that; empty where there is nothing to say.
    #[must_use]
    pub fn reason(&self) -> String {
        let why = match &self.outcome {
            Outcome::Incomparable(mismatches) => {
                let told: Vec<String> = mismatches.iter().map(ToString::to_string).collect();
                return told.join("; ");
            }
            Outcome::Compared(Verdict::Inconclusive(why)) => why,
            Outcome::Compared(_) if self.is_within_run => return "within-run only".to_owned(),
            Outcome::Compared(_) => return String::new(),
        };
        if let (Inconclusive::TooFewRuns, Some(sides)) = (why, self.without_values()) {
            return format!("no valid value in {sides}");
        }
        let unit = self.unit();
        match why {
            Inconclusive::Overlap { more: Some(more) } => {
                format!("the interval reaches over the margin; about {more} more {unit} would tell")
            }
            Inconclusive::Overlap { more: None } => "the interval reaches over the margin".to_owned(),
            Inconclusive::TooFewRuns if self.is_within_run => {
                "too few runs: two blocks a side are needed (--block makes them shorter)".to_owned()
            }
            Inconclusive::TooFewRuns if unit == "pairs" => {
                "too few runs: two pairs of blocks are needed (--block makes them shorter)".to_owned()
            }
            Inconclusive::TooFewRuns => "too few runs: three process runs a side are needed".to_owned(),
            Inconclusive::Clock => "clock: the verdict is not the same in cycles".to_owned(),
            Inconclusive::UnknownClock => "clock: neither pinned nor recorded".to_owned(),
            Inconclusive::ManyTests => {
                "many comparisons: among so many, one as slow as this is likely to be chance".to_owned()
            }
        }
    }

    /// What is worth knowing beside the verdict, a sentence part each.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let mut notes: Vec<String> =
            self.allowed.iter().map(|differs| format!("{differs} (allowed)")).collect();
        let (Some(base), Some(new)) = (&self.base, &self.new) else { return notes };
        if base.launches != new.launches && self.comparison.is_some() {
            let told = |side: &SideValues| match side.launches {
                Some((least, most)) if least == most => least.to_string(),
                Some((least, most)) => format!("{least} to {most}"),
                None => "none".to_owned(),
            };
            notes.push(format!("kernels of a run: {} in base, {} in new", told(base), told(new)));
        }
        for (side, kernels) in [("base", &self.only_in_base), ("new", &self.only_in_new)] {
            if let Some(first) = kernels.first() {
                let first = shortened(&one_line(first), MAX_KERNEL_WIDTH, Symbols::Ascii);
                let more = kernels.len() - 1;
                let more = if more > 0 { format!(" and {more} more") } else { String::new() };
                notes.push(format!("only {side} launches {first}{more}"));
            }
        }
        if let (Some(a), Some(b)) = (base.sm_clock_mhz, new.sm_clock_mhz)
            && (b / a - 1.0).abs() > 0.01
        {
            notes.push(format!("SM clock: {a:.0} MHz in base, {b:.0} MHz in new"));
        }
        for (side, values) in [("base", base), ("new", new)] {
            if values.invalid > 0 {
                let all = values.values as u64 + values.invalid;
                notes.push(format!(
                    "{} of {all} values in {side} are not valid, and left out",
                    values.invalid
                ));
            }
        }
        notes
    }
}

/// A kernel's name in a note; the whole of it is in [`Row::only_in_base`].
const MAX_KERNEL_WIDTH: usize = 60;

/// All kernels of an annotation, whichever process run launched them.
fn kernels(of: &Measured) -> BTreeSet<Arc<str>> {
    of.processes.iter().flat_map(|process| &process.kernels).cloned().collect()
}

impl Compared {
    pub(super) fn of(rules: &Rules, sides: Sides, base: Vec<Measured>, new: Vec<Measured>) -> Result<Self> {
        let Sides { base: of_base, new: of_new, design } = sides;
        let Pairing { pairs, apart, left_out } = pair(base, new, &rules.allow);
        let mut rows = Vec::with_capacity(pairs.len() + apart.len());
        for (a, b, allowed) in pairs {
            let judged = judge::judge(&a, &b, design, rules)?;
            let (of_base, of_new) = (kernels(&a), kernels(&b));
            let only_in = |one: &BTreeSet<Arc<str>>, other: &BTreeSet<Arc<str>>| {
                let is_known = !one.is_empty() && !other.is_empty();
                one.difference(other).filter(|_| is_known).cloned().collect()
            };
            let (base, new) = (SideValues::of(&a, rules), SideValues::of(&b, rules));
            rows.push(Row {
                base: Some(base),
                new: Some(new),
                // Without a value there is no difference.
                comparison: base.time_ns.and(new.time_ns).map(|_| judged.comparison),
                in_cycles: judged.in_cycles,
                outcome: Outcome::Compared(judged.verdict),
                is_within_run: judged.is_within_run,
                allowed,
                only_in_base: only_in(&of_base, &of_new),
                only_in_new: only_in(&of_new, &of_base),
                key: a.key,
            });
        }
        for (a, b, mismatches) in apart {
            let values = |side: &Option<Measured>| side.as_ref().map(|side| SideValues::of(side, rules));
            rows.push(Row {
                base: values(&a),
                new: values(&b),
                comparison: None,
                in_cycles: None,
                outcome: Outcome::Incomparable(mismatches),
                is_within_run: false,
                allowed: Vec::new(),
                only_in_base: Vec::new(),
                only_in_new: Vec::new(),
                key: a.or(b).map(|side| side.key).unwrap_or_default(),
            });
        }
        rows.sort_by(|a, b| a.key.cmp(&b.key));
        correct_for_many(&mut rows, rules);
        let is_interleaved = design == judge::Design::Interleaved;
        let in_common =
            if is_interleaved { 0 } else { of_base.processes.intersection(&of_new.processes).count() };
        let varying = varying(&rows);
        let (rules, base, new) = (rules.clone(), of_base, of_new);
        Ok(Self { rules, base, new, is_interleaved, rows, left_out, in_common, varying })
    }

    /// How many rows have the verdict with this [word](Row::verdict).
    #[must_use]
    pub fn count(&self, verdict: &str) -> usize {
        self.rows.iter().filter(|row| row.verdict() == verdict).count()
    }

    /// The code that a process ends with; the first that applies:
    ///
    /// | code | |
    /// |---|---|
    /// | 65 | records of a side were lost, and losses are not allowed |
    /// | 1 | a row is SLOWER |
    /// | 3 | a row is INCOMPARABLE |
    /// | 2 | a row is INCONCLUSIVE, or there is none; [`FailOn::Slower`] makes that 0 |
    /// | 0 | all rows are SAME or FASTER |
    #[must_use]
    pub fn exit_code(&self, fail_on: FailOn, allow_losses: bool) -> u8 {
        let has = |verdict: &str| self.count(verdict) > 0;
        match () {
            () if (self.base.is_lossy || self.new.is_lossy) && !allow_losses => 65,
            () if has("SLOWER") => 1,
            () if has("INCOMPARABLE") => 3,
            () if fail_on == FailOn::Inconclusive && (has("INCONCLUSIVE") || self.rows.is_empty()) => 2,
            () => 0,
        }
    }

    /// What is odd about the sides, a sentence part each.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let in_common = (self.in_common > 0).then(|| {
            let runs = if self.in_common == 1 { "process run is" } else { "process runs are" };
            format!(
                "{} {runs} on both sides ({} in base, {} in new): what is compared with itself tells nothing of a change",
                self.in_common, self.base.process_runs, self.new.process_runs
            )
        });
        let of_new = self.new.copies_told("new").filter(|_| !self.is_interleaved);
        in_common.into_iter().chain(self.base.copies_told("base")).chain(of_new).collect()
    }

    /// The keys that were allowed to differ, and what else was.
    pub(super) fn allowances(&self) -> Vec<String> {
        let mut told: Vec<String> =
            self.rules.allow.iter().map(|key| format!("{key} may differ (--allow {key})")).collect();
        if self.rules.allow_single_run {
            told.push(
                "within-run only: where a side has fewer than three process runs (--allow-single-run)"
                    .to_owned(),
            );
        }
        if self.rules.allow_unknown_clock {
            told.push("times alone where clocks are not known (--allow-unknown-clock)".to_owned());
        }
        told
    }

    /// What a row is of; with the keys that are not the same for all rows.
    pub(super) fn name_of(&self, row: &Row) -> String {
        let (place, name) = self.place_and_name(row);
        place + &name
    }

    /// The same in two parts: where a kernel is, and its name.
    pub(super) fn place_and_name(&self, row: &Row) -> (String, String) {
        let (mut place, mut name) = row.key.place_and_name();
        for key in &self.varying {
            let value = row.key.get(*key).unwrap_or("not known");
            match key {
                JoinKey::Bench if place.is_empty() => name = format!("{value}/{name}"),
                JoinKey::Bench => place = format!("{value}/{place}"),
                _ => name += &format!(" [{key} {value}]"),
            }
        }
        (place, name)
    }
}

/// The bench and the conditions of which there is more than one.
fn varying(rows: &[Row]) -> Vec<JoinKey> {
    let is_named = |key: &JoinKey| *key == JoinKey::Bench || !key.is_subject();
    let varies = |key: &JoinKey| {
        let mut values = rows.iter().map(|row| row.key.get(*key));
        let first = values.next();
        values.any(|value| Some(value) != first)
    };
    JoinKey::ALL.into_iter().filter(is_named).filter(varies).collect()
}

/// Rows that are called slower stay so if they are among those that Benjamini and Hochberg's rule finds.
fn correct_for_many(rows: &mut [Row], rules: &Rules) {
    let is_tested = |row: &Row| {
        !matches!(row.outcome, Outcome::Compared(Verdict::Inconclusive(Inconclusive::TooFewRuns)))
    };
    let p = |row: &Row| row.comparison.filter(|_| is_tested(row))?.p_slower(rules.margin);
    let tested: Vec<(usize, f64)> =
        rows.iter().enumerate().filter_map(|(place, row)| Some((place, p(row)?))).collect();
    let found =
        benjamini_hochberg(&tested.iter().map(|(_, p)| *p).collect::<Vec<f64>>(), rules.false_discovery_rate);
    let mut is_found = vec![false; rows.len()];
    for ((place, _), found) in tested.into_iter().zip(found) {
        is_found[place] = found;
    }
    for (row, is_found) in rows.iter_mut().zip(is_found) {
        if row.outcome == Outcome::Compared(Verdict::Slower) && !is_found {
            row.outcome = Outcome::Compared(Verdict::Inconclusive(Inconclusive::ManyTests));
        }
    }
}

impl fmt::Display for Compared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_text(Some(super::text::DEFAULT_TOP), 100, crate::summary::Symbols::Ascii))
    }
}
