//! Measuring kernels over configurations and runs: what [`Bench`] takes and gives.
//!
//! A [`Bench`] makes the runs, a [`Run`] has annotations measured, and a [`Report`] has the samples, with the statistics
//! of [`stats`](crate::stats). A [`Config`] is what is varied.

mod aggregates;
mod builder;
mod collectors;
mod columns;
mod compat;
mod engine;
mod facts;
mod harness;
mod kernels;
mod live;
mod measured;
mod order;
#[cfg(feature = "plot")]
mod plots;
mod progress;
mod reopen;
mod report;
mod results;
mod rig;
mod run;
mod settings;
mod text;
mod value;

#[cfg(test)]
mod tests;

pub use builder::{
    Bench, DEFAULT_COUNTER_RUNS, DEFAULT_LAUNCH_AHEAD_LIMIT, DEFAULT_RUNS, DEFAULT_WARM_UP_RUNS, DURATION,
    OnFailure,
};
pub use collectors::{Occasion, Scope};
pub use harness::Harness;
pub use measured::{LaunchMode, Measured};
pub use order::Order;
pub use report::{Aggregate, BenchError, Normalised, Report, RunSample};
pub use run::{Purpose, Run};
pub use value::{Config, Outcome, Parameter, Value};
