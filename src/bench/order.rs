//! In which order runs are made.

use crate::stats::Random;

/// The order of the runs of several configurations.
///
/// A GPU changes while it is measured: it warms up, clocks fall, others come and go. With
/// [`Sequential`](Self::Sequential) that change is part of the difference between configurations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Order {
    /// All runs of a configuration, then those of the next.
    #[default]
    Sequential,
    /// Round by round: in each round one run of each configuration, in an order that is drawn anew from this seed.
    Shuffled(u64),
    /// Round by round: in each round so many runs of each configuration, in an order that is drawn anew.
    Interleaved {
        /// Runs of a configuration in a row; at least 1.
        block: usize,
        /// What the order is drawn from.
        seed: u64,
    },
}

/// Gives the configuration of the next run, until all have stopped.
#[derive(Debug)]
pub(super) struct Schedule {
    /// Runs of a configuration in a row; none: until it stops.
    block: Option<usize>,
    random: Option<Random>,
    active: Vec<usize>,
    /// Configurations still to come in this round.
    round: Vec<usize>,
    /// The present one, and how many runs of its block are left.
    current: Option<(usize, usize)>,
    /// Rounds that were begun.
    rounds: usize,
}

impl Schedule {
    pub fn new(order: Order, configs: usize) -> Self {
        let (block, seed) = match order {
            Order::Sequential => (None, None),
            Order::Shuffled(seed) => (Some(1), Some(seed)),
            Order::Interleaved { block, seed } => (Some(block.max(1)), Some(seed)),
        };
        Self {
            block,
            random: seed.map(Random::new),
            active: (0..configs).collect(),
            round: Vec::new(),
            current: None,
            rounds: 0,
        }
    }

    /// The number of the round of the present run, from 0.
    pub fn round(&self) -> usize {
        self.rounds.saturating_sub(1)
    }

    /// No further run of this configuration.
    pub fn stop(&mut self, config: usize) {
        self.active.retain(|active| *active != config);
        self.round.retain(|active| *active != config);
        self.current = self.current.filter(|(current, _)| *current != config);
    }
}

impl Iterator for Schedule {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        if let Some((config, left @ 1..)) = self.current {
            self.current = Some((config, left - 1));
            return Some(config);
        }
        if self.round.is_empty() {
            self.round.clone_from(&self.active);
            if let Some(random) = &mut self.random {
                random.shuffle(&mut self.round);
            }
            self.round.reverse();
            self.rounds += 1;
        }
        let config = self.round.pop()?;
        self.current = Some((config, self.block.map_or(usize::MAX, |block| block - 1)));
        Some(config)
    }
}
