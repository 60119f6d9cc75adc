//! What the measurements of both sides must have in common.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};

/// What both sides must have in common for their times to be comparable. Where it differs, a row is incomparable, unless
/// that is [allowed](super::Rules::allow).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum JoinKey {
    /// The name of the [`Bench`](crate::Bench); none for traces.
    Bench,
    /// The configuration in words; none for traces.
    Config,
    /// The annotation, or the path of the range that launched; none outside of all.
    Region,
    /// The kernel; none for a whole annotation.
    Kernel,
    /// The GPU's UUID.
    Gpu,
    /// The driver's version.
    Driver,
    /// The state of the L2 cache before each run.
    Cache,
    /// Whether the clocks were pinned.
    Clocks,
    /// How kernels came to the GPU: in a stream, or as nodes of a graph.
    Launch,
    /// What the inputs were filled with ([`Bench::input_fill`](crate::Bench::input_fill)): data change the power draw, and
    /// so the clocks.
    Fill,
    /// How CUPTI took the times: its version.
    Cupti,
}

impl JoinKey {
    /// Every key: first what is measured, from the whole to its parts, then under which conditions.
    pub const ALL: [Self; 11] = [
        Self::Bench,
        Self::Config,
        Self::Region,
        Self::Kernel,
        Self::Gpu,
        Self::Driver,
        Self::Cache,
        Self::Clocks,
        Self::Launch,
        Self::Fill,
        Self::Cupti,
    ];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Bench => "bench",
            Self::Config => "config",
            Self::Region => "region",
            Self::Kernel => "kernel",
            Self::Gpu => "gpu",
            Self::Driver => "driver",
            Self::Cache => "cache",
            Self::Clocks => "clocks",
            Self::Launch => "launch",
            Self::Fill => "fill",
            Self::Cupti => "cupti",
        }
    }

    /// Whether it says what is measured, and not how.
    pub(super) fn is_subject(self) -> bool {
        self <= Self::Kernel
    }
}

impl fmt::Display for JoinKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for JoinKey {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|key| key.name() == name).ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            Error::new(ErrorKind::Config, format!("{name:?} is no key")).with_hint(format!("known: {names}"))
        })
    }
}

/// The values of all keys for one row.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Key([Option<Arc<str>>; JoinKey::ALL.len()]);

impl Key {
    /// The value; none where there is none, or nobody knows.
    #[must_use]
    pub fn get(&self, key: JoinKey) -> Option<&str> {
        self.0[key as usize].as_deref()
    }

    pub(super) fn set(&mut self, key: JoinKey, value: Option<Arc<str>>) {
        self.0[key as usize] = value;
    }

    /// Only the values of these keys.
    pub(super) fn only(&self, wanted: impl Fn(JoinKey) -> bool) -> Self {
        let mut only = Self::default();
        for key in JoinKey::ALL.into_iter().filter(|key| wanted(*key)) {
            only.set(key, self.0[key as usize].clone());
        }
        only
    }

    /// Where two differ.
    pub(super) fn differences(&self, other: &Self) -> Vec<Mismatch> {
        let differs = |key: &JoinKey| self.get(*key) != other.get(*key);
        let mismatch = |key| Mismatch {
            key,
            base: self.0[key as usize].clone(),
            new: other.0[key as usize].clone(),
            only_in: None,
            is_ambiguous: false,
        };
        JoinKey::ALL.into_iter().filter(differs).map(mismatch).collect()
    }
}

/// By the values, numbers in them by what they count: `n=256` comes before `n=1024`.
impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        let values = self.0.iter().zip(&other.0).map(|(a, b)| match (a, b) {
            (Some(a), Some(b)) => counted(a, b),
            _ => a.cmp(b),
        });
        values.fold(Ordering::Equal, Ordering::then)
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Runs of digits are compared as numbers of any length, all else letter by letter.
fn counted(a: &str, b: &str) -> Ordering {
    let is_digit = |byte: &u8| byte.is_ascii_digit();
    let (mut left, mut right) = (a.as_bytes(), b.as_bytes());
    while let (Some(x), Some(y)) = (left.first(), right.first()) {
        if is_digit(x) && is_digit(y) {
            let number = |text: &[u8]| text.iter().take_while(|byte| is_digit(byte)).count();
            let ((m, left_rest), (n, right_rest)) =
                (left.split_at(number(left)), right.split_at(number(right)));
            let significant = |digits: &[u8]| digits.iter().skip_while(|digit| **digit == b'0').count();
            let (m, n) = (&m[m.len() - significant(m)..], &n[n.len() - significant(n)..]);
            match m.len().cmp(&n.len()).then(m.cmp(n)) {
                Ordering::Equal => (left, right) = (left_rest, right_rest),
                unequal => return unequal,
            }
        } else if x == y {
            (left, right) = (&left[1..], &right[1..]);
        } else {
            return x.cmp(y);
        }
    }
    left.len().cmp(&right.len()).then_with(|| a.cmp(b))
}

impl Key {
    /// In words: where a kernel is, `gemm (n=512): `, and its name; of a whole annotation its name alone.
    pub(super) fn place_and_name(&self) -> (String, String) {
        let [config, region, kernel] =
            [JoinKey::Config, JoinKey::Region, JoinKey::Kernel].map(|key| self.get(key).unwrap_or_default());
        let mut whole = region.to_owned();
        if !config.is_empty() {
            whole += &format!("{}({config})", if region.is_empty() { "" } else { " " });
        }
        match (whole.is_empty(), kernel.is_empty()) {
            (_, true) => (String::new(), whole),
            (true, false) => (whole, kernel.to_owned()),
            (false, false) => (whole + ": ", kernel.to_owned()),
        }
    }
}

/// What is measured, for people: `gemm (n=512): kernel`. Without the bench.
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (place, name) = self.place_and_name();
        write!(f, "{place}{name}")
    }
}

/// A key whose values keep two rows from being compared, or would without having been allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Mismatch {
    /// The key.
    pub key: JoinKey,
    /// Its value on the first side; none where it is not known there, or nothing is measured there.
    pub base: Option<Arc<str>>,
    /// Its value on the second side.
    pub new: Option<Arc<str>>,
    /// The side, `base` or `new`, that alone has anything with its value; none where both have.
    pub only_in: Option<&'static str>,
    /// Whether it may differ, but a side has several values, so that nobody knows which rows go together.
    pub is_ambiguous: bool,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, base, new, only_in, is_ambiguous } = self;
        if *is_ambiguous {
            return write!(
                f,
                "{key} may differ, but a side has several, and which of them go together is not known"
            );
        }
        if let Some(side) = only_in {
            return write!(f, "{key}: only in {side}");
        }
        let told = |value: &Option<Arc<str>>| value.as_deref().unwrap_or("not known").to_owned();
        write!(f, "{key} differs: {} in base, {} in new", told(base), told(new))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_ordered_by_what_they_count() {
        let ordered = ["", "a", "a=2, b=x", "a=10, b=1", "a=10, b=02", "a=10, b=2", "a=10, b=11", "b"];
        for (i, a) in ordered.iter().enumerate() {
            for (j, b) in ordered.iter().enumerate() {
                assert_eq!(counted(a, b), i.cmp(&j), "{a:?} {b:?}");
            }
        }
    }
}
