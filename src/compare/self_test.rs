//! A side compared with itself.

use super::Rules;
use super::compared::Side;
use super::judge::{block_times, process_values};
use super::key::Key;
use super::measured::Measured;
use crate::error::Result;
use crate::stats::{MIN_PROCESS_RUNS, Random, Verdict, aa_alarms, welch};

/// How often each row is split at random.
pub const SPLITS: usize = 200;

/// The share of splits that may be called slower or faster.
pub const MAX_ALARMS: f64 = 0.05;

/// What the splits are drawn from, so that they come out the same again.
const SEED: u64 = 0x5eed;

/// How often random halves of the same measurements would be called slower or faster than each other.
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
    /// What is split: process runs, where there are six or more; else blocks, each beside its neighbour.
    pub is_by_process: bool,
    /// How many of them there are.
    pub parts: usize,
}

impl SelfTest {
    pub(super) fn of(rules: &Rules, side: Side, measured: &[Measured]) -> Result<Self> {
        let mut rows = Vec::with_capacity(measured.len());
        for row in measured {
            let blocks = block_times(row, rules);
            let is_by_process = blocks.len() >= 2 * MIN_PROCESS_RUNS;
            let (alarms_ratio, parts) = if is_by_process {
                let values = process_values(&blocks);
                (Some(split_processes(&values, rules.margin)?), values.len())
            } else {
                // Neighbours are those of one process run.
                let pairs: Vec<f64> = blocks.iter().flat_map(|of| &of[..of.len() / 2 * 2]).copied().collect();
                (aa_alarms(&pairs, rules.margin, SPLITS, SEED)?, pairs.len())
            };
            rows.push(SelfTested { key: row.key.clone(), alarms_ratio, is_by_process, parts });
        }
        Ok(Self { rules: rules.clone(), side, rows })
    }

    /// The share of all splits of all rows that gave SLOWER or FASTER; none where nothing could be split.
    #[must_use]
    pub fn alarms_ratio(&self) -> Option<f64> {
        let ratios: Vec<f64> = self.rows.iter().filter_map(|row| row.alarms_ratio).collect();
        (!ratios.is_empty()).then(|| ratios.iter().sum::<f64>() / ratios.len() as f64)
    }

    /// Whether verdicts of measurements like these can be trusted: at most [5 %](MAX_ALARMS) of the splits were called
    /// slower or faster.
    #[must_use]
    pub fn has_passed(&self) -> bool {
        self.alarms_ratio().is_some_and(|ratio| ratio <= MAX_ALARMS)
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

/// Random halves of process runs, compared as two sides are.
fn split_processes(values: &[f64], margin: f64) -> Result<f64> {
    let mut random = Random::new(SEED);
    let mut values = values.to_vec();
    let half = values.len() / 2;
    let mut alarms = 0;
    for _ in 0..SPLITS {
        random.shuffle(&mut values);
        let verdict = welch(&values[..half], &values[half..2 * half])?.verdict(margin);
        alarms += usize::from(matches!(verdict, Verdict::Slower | Verdict::Faster));
    }
    Ok(alarms as f64 / SPLITS as f64)
}
