//! What is wrong with a measurement's settings, before anything runs.

use std::time::Duration;

use super::builder::{BUSY, Bench, DURATION, Derived, SPAN};
use super::compat;
use super::order::Order;
use super::value::Config;
use crate::control::Cache;
use crate::error::{Error, ErrorKind, Result};
use crate::stats::{Precision, StopRule};

/// Names of columns, which no parameter and no collector can have.
const RESERVED: [&str; 21] = [
    "Annotation",
    "Value",
    "Metric",
    "Kernel",
    "GPU",
    "Host",
    "ComputeClock",
    "MemoryClock",
    "Unit",
    "AvgValue",
    "StdDev",
    "MinValue",
    "MaxValue",
    "NumRuns",
    "CI95_Lower",
    "CI95_Upper",
    "RelativeStdDevPct",
    "StableMeasurement",
    "Normalized",
    "NormalizationValue",
    "Geomean",
];

impl<C: Config> Bench<C> {
    /// The names of the parameters; or what is wrong.
    pub(super) fn validate(&self) -> Result<Vec<String>> {
        let wrong = |what: String, hint: &str| Err(Error::new(ErrorKind::Config, what).with_hint(hint));
        if self.configs.is_empty() {
            return wrong("there are no configurations".to_owned(), "give `configs` at least one");
        }
        match self.rule {
            StopRule::Fixed(0) => return wrong("runs is 0".to_owned(), "it must be at least 1"),
            StopRule::Precision(Precision { target, max_runs, .. }) => {
                if !(target > 0.0 && target < 1.0) {
                    return wrong(
                        format!("precision is {target}"),
                        "it must be above 0 and below 1: 0.01 is 1 %",
                    );
                }
                if max_runs == 0 {
                    return wrong("max_runs is 0".to_owned(), "it must be at least 1");
                }
            }
            _ => {}
        }
        if self.counter_runs == 0 {
            return wrong(
                "counter_runs is 0".to_owned(),
                "it must be at least 1; without metrics nothing is counted",
            );
        }
        if !(self.stable_below > 0.0 && self.stable_below.is_finite()) {
            let what = format!("what is stable is to be below {}", self.stable_below);
            return wrong(what, "it must be above 0: 0.02 is 2 % of the mean");
        }
        if let Cache::Cupti(_) = self.cache {
            let what =
                format!("the cache was to be controlled by {}, which only counted passes are", self.cache);
            return wrong(what, "use Cache::Flush, which timed runs and counted ones find the same");
        }
        if matches!(self.order, Order::Interleaved { block: 0, .. }) {
            return wrong("the block of interleaved runs is 0".to_owned(), "it must be at least 1");
        }
        if let Some(limit) = self.launch_ahead {
            if self.stream.is_none() {
                let what = "launches are to be held back, and no stream is named".to_owned();
                return wrong(what, "name the one that annotations launch in with `stream`");
            }
            if limit.is_zero() || limit > Duration::from_secs(60) {
                let what = format!("launches are to be held back for at most {limit:?}");
                return wrong(what, "it must be above 0 and at most a minute");
            }
        }
        if self.launch_ahead.is_some() && self.serializes_kernels {
            let what = "launches are to be held back, and kernels to be waited for at each launch".to_owned();
            return wrong(what, "leave out launch_ahead or serialize_kernels");
        }
        let mut own: Vec<String> = Vec::new();
        for config in &self.configs {
            let names: Vec<String> = config.parameters().into_iter().map(|(name, _)| name).collect();
            // One that stands twice in the same configuration is refused below.
            let is_new = |at: &usize| names[..*at].contains(&names[*at]) || !own.contains(&names[*at]);
            let new: Vec<usize> = (0..names.len()).filter(is_new).collect();
            own.extend(new.into_iter().map(|at| names[at].clone()));
        }
        let numbers = self.configs.iter().map(|config| config.parameters().len());
        if let Some(names) = &self.parameters
            && let Some(number) = numbers.into_iter().find(|number| *number != names.len())
        {
            let what = format!("there are {} names for {number} parameters", names.len());
            return wrong(what, "name each parameter of a configuration");
        }
        let parameters = self.parameters.clone().unwrap_or(own);
        let collectors = self.collectors.iter().map(|collector| collector.name.as_str());
        let more = self.collectors.iter().flat_map(|collector| compat::numeric_columns(&collector.name));
        let more: Vec<String> = more.collect();
        let mut seen: Vec<&str> = [&RESERVED[..], &compat::MORE, &compat::STATE].concat();
        for name in
            parameters.iter().map(String::as_str).chain(collectors).chain(more.iter().map(String::as_str))
        {
            if name.is_empty() || seen.contains(&name) {
                let what =
                    format!("the name {name:?} of a parameter or a collector is empty, taken, or a column's");
                return wrong(what, "use each name once, and no name of the report's own columns");
            }
            seen.push(name);
        }
        let mut metrics: Vec<&str> = vec![DURATION, SPAN, BUSY];
        for name in
            self.metrics.iter().filter(|name| *name != DURATION).chain(self.derived.iter().map(|d| &d.name))
        {
            if name.is_empty() || metrics.contains(&name.as_str()) {
                return wrong(
                    format!("the metric {name:?} is empty or there already"),
                    "name each metric once",
                );
            }
            metrics.push(name);
        }
        Ok(parameters)
    }

    /// Refuses what is derived under the name of a counter, as those of a preset are known later.
    pub(super) fn check_derived(&self, counters: &[String]) -> Result<()> {
        match self.derived.iter().find(|derived| counters.contains(&derived.name)) {
            None => Ok(()),
            Some(Derived { name, .. }) => {
                let what = format!("the metric {name:?} is derived, and counted as well");
                Err(Error::new(ErrorKind::Config, what).with_hint("call what is derived otherwise"))
            }
        }
    }
}
