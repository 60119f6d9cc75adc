//! Reports as pictures.

use crate::error::Result;
use crate::names::StringPool;
use crate::plot::{Measurements, Plot, Times, Told, Value};
use crate::stats::Interval;

use super::report::Report;

impl Report {
    /// What was measured, to be drawn (feature `plot`): whole annotations, as `cuprof plot` draws them of a dataset.
    #[must_use]
    pub fn measurements(&self) -> Measurements {
        let mut texts = StringPool::default();
        let mut measured = Measurements::default();
        let fact =
            |key: &str| self.facts().iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str());
        measured.tell_facts(&fact);
        let configs: Vec<_> = (0..self.configs.len())
            .map(|index| (texts.intern(&self.config_text(index)), self.config_json(index)))
            .collect();
        let place = |index: usize| (0, i64::try_from(index).unwrap_or(i64::MAX));
        for aggregate in self.aggregates().iter().filter(|aggregate| aggregate.kernel.is_none()) {
            let Some((text, json)) = configs.get(aggregate.config_index) else { continue };
            let what = (aggregate.annotation.clone(), None, aggregate.metric.clone());
            let key = measured.key(place(aggregate.config_index), (text, json), what);
            let ends =
                |interval: Option<Interval>| [interval.map(|ends| ends.low), interval.map(|ends| ends.high)];
            let told = &aggregate.told;
            let told = Told {
                n_valid: i64::try_from(told.n).unwrap_or(i64::MAX),
                mean: told.mean,
                mean_ends: ends(told.mean_interval),
                median: told.median(),
                median_ends: ends(told.median_interval),
            };
            measured.tell(key, aggregate.unit.clone(), told);
        }
        for sample in self.samples().iter().filter(|sample| sample.kernel.is_none()) {
            let Some((text, json)) = configs.get(sample.config_index) else { continue };
            let what = (sample.annotation.clone(), None, sample.metric.clone());
            let key = measured.key(place(sample.config_index), (text, json), what);
            let signed = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
            let value =
                Value { run: sample.run.map(signed), repeat: signed(sample.repeat), value: sample.value };
            measured.sample(key, sample.unit.clone(), value);
        }
        measured
    }

    /// Draws a metric over the configurations (feature `plot`); [`Plot::write`] makes an SVG or PNG of it.
    ///
    /// # Errors
    /// As [`Measurements::times`].
    pub fn plot(&self, how: &Times) -> Result<Plot> {
        self.measurements().times(how)
    }
}
