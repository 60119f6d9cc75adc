//! Numbers of a bench: medians, percentiles, a histogram, and JSON.

use std::fmt::Write as _;

/// Repeated measurements of one thing.
#[derive(Clone, Debug, Default)]
pub struct Sample(pub Vec<f64>);

impl Sample {
    fn sorted(&self) -> Vec<f64> {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        sorted
    }

    /// The middle one; of two middle ones, their mean. NaN if there is none.
    pub fn median(&self) -> f64 {
        let sorted = self.sorted();
        let middle = sorted.len() / 2;
        match sorted.len() {
            0 => f64::NAN,
            odd if odd % 2 == 1 => sorted[middle],
            _ => (sorted[middle - 1] + sorted[middle]) / 2.0,
        }
    }

    /// Where the median of endlessly many measurements lies, with a confidence of 95 %: between two of these, by their
    /// ranks (the binomial's normal approximation; nothing is assumed of how they are distributed).
    pub fn median_interval(&self) -> (f64, f64) {
        let sorted = self.sorted();
        let n = sorted.len() as f64;
        let rank =
            |rank: f64| sorted.get(rank.max(0.0) as usize).or(sorted.last()).copied().unwrap_or(f64::NAN);
        (rank((n / 2.0 - 0.98 * n.sqrt()).floor()), rank((n / 2.0 + 0.98 * n.sqrt()).ceil()))
    }

    pub fn min(&self) -> f64 {
        self.0.iter().copied().fold(f64::INFINITY, f64::min)
    }

    pub fn max(&self) -> f64 {
        self.0.iter().copied().fold(f64::NEG_INFINITY, f64::max)
    }

    /// What this is above another, repetition by repetition: both were measured within seconds of each other.
    pub fn above(&self, other: &Self) -> Self {
        Self(self.0.iter().zip(&other.0).map(|(a, b)| a - b).collect())
    }

    /// `median (min–max)`.
    pub fn spread(&self, digits: usize) -> String {
        format!("{:.digits$} ({:.digits$}–{:.digits$})", self.median(), self.min(), self.max())
    }
}

/// The value below which this part of a sorted list lies.
pub fn quantile(sorted: &[u32], part: f64) -> u32 {
    let index = (sorted.len() as f64 * part) as usize;
    sorted.get(index.min(sorted.len().saturating_sub(1))).copied().unwrap_or(0)
}

/// How many values lie in each power of two: `(upper bound, count)`, without empty ends.
pub fn histogram(values: &[u32]) -> Vec<(u64, u64)> {
    let mut counts = [0_u64; 33];
    for value in values {
        counts[(32 - value.leading_zeros()) as usize] += 1;
    }
    let first = counts.iter().position(|count| *count > 0).unwrap_or(0);
    let last = counts.iter().rposition(|count| *count > 0).unwrap_or(0);
    (first..=last).map(|bits| (1_u64 << bits, counts[bits])).collect()
}

/// A JSON object, written field by field.
#[derive(Clone, Debug, Default)]
pub struct Json(String);

impl Json {
    fn key(&mut self, key: &str) {
        let comma = if self.0.is_empty() { "" } else { ", " };
        // Writing to a String does not fail.
        let _ = write!(self.0, "{comma}\"{key}\": ");
    }

    pub fn text(&mut self, key: &str, value: &str) {
        self.key(key);
        let escaped = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let _ = write!(self.0, "\"{escaped}\"");
    }

    pub fn number(&mut self, key: &str, value: f64) {
        self.key(key);
        if value.is_finite() {
            let _ = write!(self.0, "{value}");
        } else {
            self.0.push_str("null");
        }
    }

    pub fn numbers(&mut self, key: &str, values: &[f64]) {
        self.key(key);
        let values: Vec<_> = values.iter().map(|value| format!("{value:.1}")).collect();
        let _ = write!(self.0, "[{}]", values.join(", "));
    }

    pub fn object(&mut self, key: &str, value: &Self) {
        self.key(key);
        let _ = write!(self.0, "{{{}}}", value.0);
    }

    pub fn into_text(self) -> String {
        format!("{{{}}}\n", self.0)
    }
}
