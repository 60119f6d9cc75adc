//! A side compared with itself.

use super::Rules;
use super::compared::Side;
use super::judge::Parts;
use super::key::Key;
use super::measured::Measured;
use crate::error::Result;
use crate::stats::{MIN_PROCESS_RUNS, Random, Verdict};

/// How often each row is split at random.
pub const SPLITS: usize = 200;

/// The share of splits that may be called slower or faster.
pub const MAX_ALARMS: f64 = 0.05;

/// What the splits are drawn from, so that they come out the same again.
const SEED: u64 = 0x5eed;

/// Fewer blocks do not make two sides with a spread each.
const MIN_BLOCKS: usize = 4;

/// How often random halves of the same measurements would be called slower or faster than each other, by the test that
/// two sides are compared with.
///
/// What a verdict is about are process runs, and six of them make two sides of three. Fewer are split into their blocks:
/// that tells of what happens within them only, and is no answer unless [`Rules::allow_single_run`] is set.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SelfTest {
    /// What was asked for.
    pub rules: Rules,
    /// What is split.
    pub side: Side,
    /// By key.
    pub rows: Vec<SelfTested>,
}

/// One row's splits.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SelfTested {
    /// What is measured and how.
    pub key: Key,
    /// The share of the splits that gave SLOWER or FASTER; none where there is too little to split.
    pub alarms_ratio: Option<f64>,
    /// What is split: process runs, where there are six or more; else their blocks.
    pub is_by_process: bool,
    /// How many of them there are.
    pub parts: usize,
    /// Process runs with values.
    pub process_runs: usize,
}

impl SelfTest {
    pub(super) fn of(rules: &Rules, side: Side, measured: &[Measured]) -> Result<Self> {
        let rows = measured.iter().map(|row| {
            let parts = Parts::of(row, rules);
            let is_enough = parts.is_by_process || parts.len() >= MIN_BLOCKS;
            Ok(SelfTested {
                key: row.key.clone(),
                alarms_ratio: if is_enough { Some(alarms_ratio(&parts, rules)?) } else { None },
                is_by_process: parts.is_by_process,
                parts: parts.len(),
                process_runs: parts.process_runs,
            })
        });
        Ok(Self { rules: rules.clone(), side, rows: rows.collect::<Result<_>>()? })
    }

    /// The share of all splits of all rows that gave SLOWER or FASTER; none where nothing could be split.
    #[must_use]
    pub fn alarms_ratio(&self) -> Option<f64> {
        let ratios: Vec<f64> = self.rows.iter().filter_map(|row| row.alarms_ratio).collect();
        (!ratios.is_empty()).then(|| ratios.iter().sum::<f64>() / ratios.len() as f64)
    }

    /// `FAILED` if more than [5 %](MAX_ALARMS) of the splits were called slower or faster; `INCONCLUSIVE` if a row had too
    /// little to tell; else `PASSED`.
    #[must_use]
    pub fn verdict(&self) -> &'static str {
        match self.alarms_ratio() {
            Some(ratio) if ratio > MAX_ALARMS => "FAILED",
            Some(_) if self.rows.iter().all(|row| self.is_told(row)) => "PASSED",
            _ => "INCONCLUSIVE",
        }
    }

    /// Whether verdicts of measurements like these can be trusted.
    #[must_use]
    pub fn has_passed(&self) -> bool {
        self.verdict() == "PASSED"
    }

    fn is_told(&self, row: &SelfTested) -> bool {
        row.alarms_ratio.is_some() && (row.is_by_process || self.rules.allow_single_run)
    }

    /// What the verdict does not tell, a sentence part each; and copies among the datasets.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let within: Vec<&SelfTested> = self.rows.iter().filter(|row| !row.is_by_process).collect();
        let runs = within.iter().map(|row| row.process_runs);
        let copies = self.side.copies_told("the side");
        let Some((least, most)) = runs.clone().min().zip(runs.max()) else {
            return copies.into_iter().collect();
        };
        let mut told = match (least, most) {
            (1, 1) => "1 process run".to_owned(),
            (least, most) if least == most => format!("{least} process runs"),
            (least, most) => format!("{least} to {most} process runs"),
        };
        if within.len() < self.rows.len() {
            told += &format!(" in {} of {} rows", within.len(), self.rows.len());
        }
        let needed = 2 * MIN_PROCESS_RUNS;
        let mut notes = vec![format!("within-run only: {told}, {needed} are needed to split them")];
        let short = within.iter().filter(|row| row.alarms_ratio.is_none()).count();
        if short > 0 {
            notes.push(format!(
                "too little to split within: {short} of {} rows have fewer than {MIN_BLOCKS} blocks (--block makes them shorter)",
                self.rows.len()
            ));
        }
        notes.extend(copies);
        notes
    }

    /// The code that a process ends with: 65 where records were lost and that is not allowed, 0 if it
    /// [passed](Self::has_passed), else 2.
    #[must_use]
    pub fn exit_code(&self, allow_losses: bool) -> u8 {
        match () {
            () if self.side.is_lossy && !allow_losses => 65,
            () if self.has_passed() => 0,
            () => 2,
        }
    }
}

/// Random halves, compared as two sides are.
fn alarms_ratio(parts: &Parts, rules: &Rules) -> Result<f64> {
    let mut random = Random::new(SEED);
    let mut order: Vec<usize> = (0..parts.len()).collect();
    let mut alarms = 0;
    for _ in 0..SPLITS {
        random.shuffle(&mut order);
        let verdict = parts.verdict_of_halves(&order, rules)?;
        alarms += usize::from(matches!(verdict, Verdict::Slower | Verdict::Faster));
    }
    Ok(alarms as f64 / SPLITS as f64)
}
