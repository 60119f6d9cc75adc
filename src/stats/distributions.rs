//! The distributions that intervals and tests are made from.

use statrs::distribution::{ContinuousCDF, Normal, StudentsT};
use statrs::function::beta::beta_reg;

/// The value that Student's t with `df` degrees of freedom is below of with probability `p`.
pub(super) fn t_quantile(p: f64, df: f64) -> Option<f64> {
    if !(p > 0.0 && p < 1.0) {
        return None;
    }
    // Where few bits of the beta function's argument are left, the t distribution is the normal one.
    if df > 1e7 {
        return normal_quantile(p);
    }
    Some(StudentsT::new(0.0, 1.0, df).ok()?.inverse_cdf(p))
}

/// The probability that Student's t is above.
pub(super) fn t_survival(t: f64, df: f64) -> Option<f64> {
    (!t.is_nan()).then_some(())?;
    Some(StudentsT::new(0.0, 1.0, df).ok()?.sf(t))
}

/// Φ⁻¹.
pub(super) fn normal_quantile(p: f64) -> Option<f64> {
    (p > 0.0 && p < 1.0).then(|| Normal::standard().inverse_cdf(p))
}

/// The probability that a normal value is farther from 0 than this, at either side.
pub(super) fn normal_two_sided(z: f64) -> f64 {
    (2.0 * Normal::standard().sf(z.abs())).min(1.0)
}

/// I_x(a, b), the regularised incomplete beta function.
pub(super) fn beta_cdf(a: f64, b: f64, x: f64) -> f64 {
    if x <= 0.0 {
        0.0
    } else if x >= 1.0 {
        1.0
    } else {
        beta_reg(a, b, x)
    }
}

/// P(Bin(n, ½) ≤ k) = I_½(n − k, k + 1).
pub(super) fn fair_binomial_cdf(n: usize, k: usize) -> f64 {
    if k >= n { 1.0 } else { beta_cdf((n - k) as f64, (k + 1) as f64, 0.5) }
}
