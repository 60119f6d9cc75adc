//! Which rows are looked at.

use std::fmt;

use crate::error::{Error, ErrorKind, Result};
use crate::pattern::Pattern;

/// A moment of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Moment {
    /// Nanoseconds after the first thing that is in the datasets.
    AfterStart(i64),
    /// Nanoseconds since the Unix epoch, as in the tables.
    SinceEpoch(i64),
}

/// Which rows are looked at: those that meet everything that is set here. The default is all.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Filter {
    /// Kernels by their demangled names. Leaves out transfers.
    pub kernel: Option<Pattern>,
    /// What was launched inside of ranges of these paths.
    pub range: Option<Pattern>,
    /// Device ordinals; none for all.
    pub devices: Vec<u32>,
    /// CUPTI's ids of streams; none for all.
    pub streams: Vec<u32>,
    /// What starts at this moment or later.
    pub from: Option<Moment>,
    /// What starts before this moment.
    pub to: Option<Moment>,
}

impl Filter {
    /// Whether nothing is left out.
    #[must_use]
    pub fn is_all(&self) -> bool {
        let Self { kernel, range, devices, streams, from, to } = self;
        let everything = kernel.is_none() && range.is_none() && from.is_none() && to.is_none();
        everything && devices.is_empty() && streams.is_empty()
    }

    /// Whether it chooses kernels and transfers by what ranges have not.
    pub(super) fn is_of_work(&self) -> bool {
        self.kernel.is_some() || !self.devices.is_empty() || !self.streams.is_empty()
    }

    /// Whether it needs to know when the run began.
    pub(crate) fn is_relative(&self) -> bool {
        [self.from, self.to].iter().any(|moment| matches!(moment, Some(Moment::AfterStart(_))))
    }

    /// The times to look at, first included and last not.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] where nothing can be between them.
    pub(crate) fn window(&self, start_ns: i64) -> Result<(i64, i64)> {
        let at = |moment: Option<Moment>| {
            moment.map(|moment| match moment {
                Moment::AfterStart(ns) => start_ns.saturating_add(ns),
                Moment::SinceEpoch(ns) => ns,
            })
        };
        let (from, to) = (at(self.from).unwrap_or(i64::MIN), at(self.to).unwrap_or(i64::MAX));
        if from >= to {
            return Err(Error::new(
                ErrorKind::Config,
                "nothing is between these times: they end before they begin",
            )
            .with_hint(
                "let `from` be earlier than `to`; times after the start are written 1.5s, stamps @N",
            ));
        }
        Ok((from, to))
    }

    pub(crate) fn has_device(&self, device: u32) -> bool {
        self.devices.is_empty() || self.devices.contains(&device)
    }

    pub(crate) fn has_stream(&self, stream: u32) -> bool {
        self.streams.is_empty() || self.streams.contains(&stream)
    }
}

/// In words, for people: `kernel *gemm*, device 0`.
impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        parts.extend(self.kernel.iter().map(|pattern| format!("kernel {pattern}")));
        parts.extend(self.range.iter().map(|pattern| format!("range {pattern}")));
        parts.extend(self.devices.iter().map(|device| format!("device {device}")));
        parts.extend(self.streams.iter().map(|stream| format!("stream {stream}")));
        let moment = |moment: Moment| match moment {
            Moment::AfterStart(ns) => format!("{} ms", ns as f64 / 1e6), // CAST: for people
            Moment::SinceEpoch(ns) => format!("@{ns}"),
        };
        parts.extend(self.from.map(|from| format!("from {}", moment(from))));
        parts.extend(self.to.map(|to| format!("before {}", moment(to))));
        f.write_str(&parts.join(", "))
    }
}
