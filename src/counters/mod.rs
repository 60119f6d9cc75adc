//! Hardware counters: what a chip can count, what that takes, and counting it by running the work again and again.
//!
//! # Without a GPU
//!
//! A [`Catalogue`] and a [`Plan`] come from the host half of CUPTI's libraries. Where there is a driver, that is the
//! library of the sessions. On a machine without one it depends on the version: 12.6 to 13.1 plan all the same, 13.2
//! and newer need a driver for every call (13.2 ends the process otherwise, so it is not called). The error says which
//! to install, and the plan which one was used: a newer CUPTI knows more metrics of the same chip.

mod catalogue;
mod controlled;
mod counted;
mod device;
mod grammar;
mod hook;
mod kernels;
mod pass;
mod plan;
mod presets;
mod session;
mod timings;
mod traced;
mod verdict;

pub use crate::cupti::host::{MetricKind, MetricScope};
pub use catalogue::{Catalogue, Metric, chips, chips_with};
pub use controlled::{L2Residual, l2_residual};
pub use counted::{Counted, CountedRange, NullReason, Replay, Row};
#[cfg(feature = "plot")]
pub(crate) use grammar::near;
pub use hook::{BetweenPasses, Leave};
pub use pass::{Pass, PassOutcome};
pub use plan::{MissingMetric, Plan, PlannedMetric};
pub use presets::Preset;
pub use session::{DEFAULT_MAX_RANGES, Session};
pub use timings::{RoundTimings, Timings};
pub use verdict::{Bound, Ceiling, LIMITED_FROM_RATIO, Precision, Rate, Roofline, Saved, Unit};
