//! From values to block values, and from these to a verdict.

use super::Rules;
use super::key::JoinKey;
use super::measured::{Measured, ProcessValues, Value};
use crate::error::Result;
use crate::stats::{
    Comparison, Inconclusive, MIN_PROCESS_RUNS, Sample, Verdict, geometric_mean, paired, welch,
};

/// Clocks of two sides that differ by more than this share are not the same clock, even if both were pinned.
const SAME_CLOCK: f64 = 0.01;

/// What `clock_mode` says of clocks that were pinned.
const PINNED: &str = "fixed_frequency";

/// What the values tell.
pub(super) struct Judged {
    pub comparison: Comparison,
    /// The same of cycles, where the verdict has to hold in them and the clock is known.
    pub in_cycles: Option<Comparison>,
    /// Before it is known how many others there are.
    pub verdict: Verdict,
    /// Whether it holds within the process runs only.
    pub is_within_run: bool,
}

/// How the values of both sides go together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Design {
    /// Each side has process runs of its own.
    Apart,
    /// Both were measured in the same runs.
    Interleaved,
}

pub(super) fn judge(base: &Measured, new: &Measured, design: Design, rules: &Rules) -> Result<Judged> {
    let compare = |unit: Unit| match design {
        Design::Apart => between_processes(base, new, unit, rules),
        Design::Interleaved => interleaved(base, new, unit, rules),
    };
    let (comparison, is_within_run) = compare(Unit::Time)?;
    let clocks_known = [base, new].into_iter().all(knows_clocks);
    let verdict_of = |comparison: &Comparison| {
        if rules.allow_single_run {
            comparison.verdict_of_any_number(rules.margin)
        } else {
            comparison.verdict(rules.margin)
        }
    };
    let verdict = verdict_of(&comparison);
    if are_pinned(base, new) {
        return Ok(Judged { comparison, in_cycles: None, verdict, is_within_run });
    }
    if !clocks_known {
        let verdict = match verdict {
            Verdict::Inconclusive(_) => verdict,
            _ if rules.allow_unknown_clock => verdict,
            _ => Verdict::Inconclusive(Inconclusive::UnknownClock),
        };
        return Ok(Judged { comparison, in_cycles: None, verdict, is_within_run });
    }
    let (in_cycles, _) = compare(Unit::Cycles)?;
    let verdict = verdict.confirmed_in_cycles(verdict_of(&in_cycles));
    Ok(Judged { comparison, in_cycles: Some(in_cycles), verdict, is_within_run })
}

#[derive(Clone, Copy)]
enum Unit {
    Time,
    Cycles,
}

impl Unit {
    fn of(self, value: &Value) -> Option<f64> {
        match self {
            Self::Time => Some(value.ns),
            Self::Cycles => Some(value.ns * f64::from(value.sm_clock_mhz?) / 1e3),
        }
    }
}

/// The mean clock; none where it is not known for any value.
pub(super) fn clock_mhz(measured: &Measured) -> Option<f64> {
    let values = measured.processes.iter().flat_map(|process| &process.values);
    let clocks: Vec<f64> = values.filter_map(|value| value.sm_clock_mhz).map(f64::from).collect();
    (!clocks.is_empty()).then(|| clocks.iter().sum::<f64>() / clocks.len() as f64)
}

/// Whether each process run has values with a clock.
fn knows_clocks(measured: &Measured) -> bool {
    let knows = |process: &ProcessValues| process.values.iter().any(|value| value.sm_clock_mhz.is_some());
    measured.processes.iter().filter(|process| !process.values.is_empty()).all(knows)
}

fn are_pinned(base: &Measured, new: &Measured) -> bool {
    let is_pinned = |side: &Measured| side.key.get(JoinKey::Clocks) == Some(PINNED);
    let same = match (clock_mhz(base), clock_mhz(new)) {
        (Some(a), Some(b)) => (b / a).ln().abs() <= SAME_CLOCK,
        _ => true,
    };
    is_pinned(base) && is_pinned(new) && same
}

/// The fenced mean of values that followed each other.
fn block_value(values: &[f64], tick: f64) -> Option<f64> {
    Sample::new(values).ok()?.fenced_mean(tick).map(|fenced| fenced.mean)
}

/// How `n` runs are divided into blocks of about as many as asked for, all of the same size give or take one.
fn bounds(n: usize, block_runs: usize) -> impl Iterator<Item = std::ops::Range<usize>> {
    let blocks = ((n + block_runs / 2) / block_runs.max(1)).clamp(1, n.max(1));
    (0..blocks)
        .map(move |block| block * n / blocks..(block + 1) * n / blocks)
        .filter(|range| !range.is_empty())
}

/// The resolution of the values in their unit.
fn tick(process: &ProcessValues, unit: Unit) -> f64 {
    match (unit, process.values.iter().find_map(|value| value.sm_clock_mhz)) {
        (Unit::Cycles, Some(mhz)) => process.tick_ns * f64::from(mhz) / 1e3,
        _ => process.tick_ns,
    }
}

/// The block values of a process run, in their order.
fn block_values(process: &ProcessValues, unit: Unit, rules: &Rules) -> Vec<f64> {
    let values: Vec<f64> = process.values.iter().filter_map(|value| unit.of(value)).collect();
    let tick = tick(process, unit);
    bounds(values.len(), rules.block_runs).filter_map(|range| block_value(&values[range], tick)).collect()
}

/// The block values of each process run that has any.
fn by_process(measured: &Measured, unit: Unit, rules: &Rules) -> Vec<Vec<f64>> {
    let blocks = measured.processes.iter().map(|process| block_values(process, unit, rules));
    blocks.filter(|blocks| !blocks.is_empty()).collect()
}

/// Block values in nanoseconds of each process run that has any.
pub(super) fn block_times(measured: &Measured, rules: &Rules) -> Vec<Vec<f64>> {
    by_process(measured, Unit::Time, rules)
}

/// One value of each process run.
pub(super) fn process_values(blocks: &[Vec<f64>]) -> Vec<f64> {
    blocks.iter().filter_map(|blocks| geometric_mean(blocks)).collect()
}

/// What one side has to split at random: its process runs where they make two sides, else its blocks.
pub(super) struct Parts {
    pub is_by_process: bool,
    pub process_runs: usize,
    times: Vec<f64>,
    /// Where the verdict has to hold in them and the clock is known.
    cycles: Option<Vec<f64>>,
}

impl Parts {
    pub fn of(measured: &Measured, rules: &Rules) -> Self {
        let times = by_process(measured, Unit::Time, rules);
        let process_runs = times.len();
        let is_by_process = process_runs >= 2 * MIN_PROCESS_RUNS;
        let parts =
            |blocks: Vec<Vec<f64>>| if is_by_process { process_values(&blocks) } else { blocks.concat() };
        let has_to_hold = !are_pinned(measured, measured) && knows_clocks(measured);
        let cycles = has_to_hold.then(|| parts(by_process(measured, Unit::Cycles, rules)));
        let times = parts(times);
        // Where some values have no clock, blocks of cycles are others than those of times.
        let cycles = cycles.filter(|cycles| cycles.len() == times.len());
        Self { is_by_process, process_runs, times, cycles }
    }

    pub fn len(&self) -> usize {
        self.times.len()
    }

    /// The verdict on two halves: the first ones in this order, and the others.
    pub fn verdict_of_halves(&self, order: &[usize], rules: &Rules) -> Result<Verdict> {
        let (first, second) = order.split_at(order.len() / 2);
        let verdict = |values: &[f64]| -> Result<Verdict> {
            let pick = |places: &[usize]| places.iter().map(|place| values[*place]).collect::<Vec<f64>>();
            let comparison = welch(&pick(first), &pick(second))?;
            Ok(if self.is_by_process {
                comparison.verdict(rules.margin)
            } else {
                comparison.verdict_of_any_number(rules.margin)
            })
        };
        let of_times = verdict(&self.times)?;
        match &self.cycles {
            Some(cycles) => Ok(of_times.confirmed_in_cycles(verdict(cycles)?)),
            None => Ok(of_times),
        }
    }
}

/// Welch's test of process runs; of blocks where a side has one process run, if that is allowed.
fn between_processes(
    base: &Measured,
    new: &Measured,
    unit: Unit,
    rules: &Rules,
) -> Result<(Comparison, bool)> {
    let (base, new) = (by_process(base, unit, rules), by_process(new, unit, rules));
    let fewest = base.len().min(new.len());
    let is_within_run = rules.allow_single_run && fewest < MIN_PROCESS_RUNS;
    let comparison = if is_within_run && fewest == 1 {
        welch(&base.concat(), &new.concat())?
    } else {
        welch(&process_values(&base), &process_values(&new))?
    };
    Ok((comparison, is_within_run))
}

/// Pairs of blocks of the same runs; of process runs where there are several, since what differs from one to the next
/// is the same for all blocks of one.
fn interleaved(base: &Measured, new: &Measured, unit: Unit, rules: &Rules) -> Result<(Comparison, bool)> {
    let mut processes: Vec<Vec<(f64, f64)>> = Vec::new();
    for a in &base.processes {
        let Some(b) = new.processes.iter().find(|b| b.process == a.process) else { continue };
        let pairs = pairs_of_blocks(a, b, unit, rules);
        processes.extend((!pairs.is_empty()).then_some(pairs));
    }
    let comparison = match processes.as_slice() {
        [pairs] => paired(pairs)?,
        several => {
            let side = |pairs: &[(f64, f64)], of: fn(&(f64, f64)) -> f64| {
                geometric_mean(&pairs.iter().map(of).collect::<Vec<f64>>())
            };
            let pairs =
                several.iter().filter_map(|pairs| Some((side(pairs, |p| p.0)?, side(pairs, |p| p.1)?)));
            paired(&pairs.collect::<Vec<_>>())?
        }
    };
    Ok((comparison, false))
}

/// Block values of both, each of the runs that have a value of either.
fn pairs_of_blocks(a: &ProcessValues, b: &ProcessValues, unit: Unit, rules: &Rules) -> Vec<(f64, f64)> {
    let of = |process: &ProcessValues| -> Vec<(i64, f64)> {
        process.values.iter().filter_map(|value| Some((value.run, unit.of(value)?))).collect()
    };
    let (of_a, of_b) = (of(a), of(b));
    let has = |values: &[(i64, f64)], run: i64| values.binary_search_by_key(&run, |value| value.0).is_ok();
    let mut runs: Vec<i64> = of_a.iter().map(|value| value.0).filter(|run| has(&of_b, *run)).collect();
    runs.dedup();
    let block = |values: &[(i64, f64)], runs: &[i64], tick: f64| {
        let (first, last) = (runs.first()?, runs.last()?);
        let from = values.partition_point(|value| value.0 < *first);
        let to = values.partition_point(|value| value.0 <= *last);
        let block = values[from..to].iter().filter(|value| runs.binary_search(&value.0).is_ok());
        block_value(&block.map(|value| value.1).collect::<Vec<f64>>(), tick)
    };
    let (tick_a, tick_b) = (tick(a, unit), tick(b, unit));
    let pair = |range: std::ops::Range<usize>| {
        let runs = &runs[range];
        Some((block(&of_a, runs, tick_a)?, block(&of_b, runs, tick_b)?))
    };
    bounds(runs.len(), rules.block_runs).filter_map(pair).collect()
}
