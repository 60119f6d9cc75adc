mod comparisons;
mod coverage;
mod oracles;
mod properties;
mod stopping;

use super::random::Random;
use super::sample::Sample;

pub(super) type Outcome = Result<(), Box<dyn std::error::Error>>;

pub(super) fn sample(values: &[f64]) -> Result<Sample, Box<dyn std::error::Error>> {
    Ok(Sample::new(values)?)
}

/// A normal value (Box and Muller).
pub(super) fn normal(random: &mut Random) -> f64 {
    let radius = (-2.0 * random.unit().ln()).sqrt();
    radius * (std::f64::consts::TAU * random.unit()).cos()
}

pub(super) fn close(a: f64, b: f64, tolerance: f64) -> bool {
    (a - b).abs() <= tolerance * a.abs().max(b.abs()).max(1.0)
}
