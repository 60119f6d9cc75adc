use std::time::Duration;

use super::super::*;
use super::{Outcome, normal};

fn looked(values: &[f64], runs: usize, millis: u64, tick: f64) -> Looked<'_> {
    Looked { values, runs, elapsed: Duration::from_millis(millis), tick }
}

fn normals(seed: u64, n: usize, spread: f64) -> Vec<f64> {
    let mut random = Random::new(seed);
    (0..n).map(|_| 20_000.0 * (1.0 + spread * normal(&mut random))).collect()
}

#[test]
fn a_fixed_number_is_made_and_no_more() -> Outcome {
    let rule = StopRule::Fixed(3);
    assert_eq!(rule.look(looked(&[1.0, 2.0], 2, 0, 0.0))?, None);
    let stopped = rule.look(looked(&[1.0, 2.0], 3, 0, 0.0))?.ok_or("goes on")?;
    assert_eq!((stopped.reason, stopped.achieved), (StopReason::RunsMade, None));
    assert_eq!((rule.max_runs(), StopRule::TimeBudget(Duration::ZERO).max_runs()), (Some(3), None));
    Ok(())
}

#[test]
fn a_time_budget_makes_at_least_one_run() -> Outcome {
    let rule = StopRule::TimeBudget(Duration::from_millis(100));
    assert_eq!(rule.look(looked(&[], 0, 500, 0.0))?, None);
    assert_eq!(rule.look(looked(&[1.0], 1, 99, 0.0))?, None);
    let stopped = rule.look(looked(&[1.0], 1, 100, 0.0))?.ok_or("goes on")?;
    assert_eq!(stopped.reason, StopReason::MaxTime);
    Ok(())
}

#[test]
fn a_steady_kernel_reaches_its_precision_at_the_first_look() -> Outcome {
    let rule = StopRule::Precision(Precision::default());
    let values = normals(31, 20, 0.001);
    assert_eq!(rule.look(looked(&values[..19], 19, 1, 0.0))?, None);
    let stopped = rule.look(looked(&values, 20, 1, 0.0))?.ok_or("goes on")?;
    assert_eq!(stopped.reason, StopReason::PrecisionReached);
    assert!(stopped.achieved.is_some_and(|achieved| achieved > 0.0 && achieved <= DEFAULT_TARGET));
    Ok(())
}

#[test]
fn a_noisy_kernel_runs_on_until_it_is_known_or_cannot_be() -> Outcome {
    let rule = StopRule::Precision(Precision::default());
    let values = normals(32, 5_120, 0.01);
    let first = (1..=5_120).find_map(|n| rule.look(looked(&values[..n], n, 1, 0.0)).transpose());
    let stopped = first.ok_or("never stops")??;
    assert_eq!(stopped.reason, StopReason::PrecisionReached);
    let wild = normals(33, 20, 0.3);
    let stopped = rule.look(looked(&wild, 20, 1, 0.0))?.ok_or("goes on")?;
    assert_eq!(stopped.reason, StopReason::OutOfReach);
    assert!(stopped.achieved.is_some_and(|achieved| achieved > 0.05), "{stopped:?}");
    Ok(())
}

#[test]
fn the_limits_end_a_measurement_and_are_named() -> Outcome {
    let precision = Precision { max_runs: 30, ..Precision::default() };
    let values = normals(34, 30, 0.01);
    let reason = |looked: Looked<'_>| {
        Ok::<_, crate::error::Error>(
            StopRule::Precision(precision).look(looked)?.map(|stopped| stopped.reason),
        )
    };
    assert_eq!(reason(looked(&values, 30, 1, 0.0))?, Some(StopReason::MaxRuns));
    assert_eq!(reason(looked(&values[..10], 10, 1_000, 0.0))?, Some(StopReason::MaxTime));
    assert_eq!(reason(looked(&values[..19], 25, 1, 0.0))?, Some(StopReason::TooManyInvalid));
    assert_eq!(reason(looked(&[], 25, 1, 0.0))?, Some(StopReason::TooManyInvalid));
    assert_eq!(reason(looked(&values[..19], 21, 1, 0.0))?, None);
    Ok(())
}

#[test]
fn a_drift_is_waited_for() -> Outcome {
    let rule = StopRule::Precision(Precision { target: 0.05, ..Precision::default() });
    let drifting: Vec<f64> = (0..160).map(|i| 1_000.0 + 2.0 * f64::from(i)).collect();
    assert_eq!(rule.look(looked(&drifting, 160, 1, 0.0))?, None);
    Ok(())
}

#[test]
fn values_of_one_tick_stop_and_claim_no_more_than_half_a_tick() -> Outcome {
    let rule = StopRule::Precision(Precision::default());
    let values = [3_200.0; 20];
    let stopped = rule.look(looked(&values, 20, 1, 32.0))?.ok_or("goes on")?;
    assert_eq!((stopped.reason, stopped.achieved), (StopReason::ResolutionLimited, Some(16.0 / 3_200.0)));
    // A long kernel's tick is within the target.
    let stopped = rule.look(looked(&[32_000.0; 20], 20, 1, 32.0))?.ok_or("goes on")?;
    assert_eq!(stopped.reason, StopReason::PrecisionReached);
    Ok(())
}

/// How often the interval at the stop has the true median in it, of values with this correlation of neighbours, and of
/// which 5 % are interruptions.
fn coverage_at_the_stop(seed: u64, correlation: f64) -> Result<f64, Box<dyn std::error::Error>> {
    const TRIALS: usize = 300;
    let rule = StopRule::Precision(Precision { max_runs: 2_560, ..Precision::default() });
    let mut random = Random::new(seed);
    let mut held = 0;
    for _ in 0..TRIALS {
        let mut state = normal(&mut random);
        let mut values = Vec::new();
        loop {
            state = correlation * state + (1.0 - correlation * correlation).sqrt() * normal(&mut random);
            let interruption = if random.unit() < 0.05 { -0.08 * random.unit().ln() } else { 0.0 };
            values.push(20_000.0 * (1.0 + 0.01 * state + interruption));
            if !values.len().is_multiple_of(20) {
                continue;
            }
            let looked = looked(&values, values.len(), 1, 0.0);
            match rule.look(looked)?.map(|stopped| stopped.reason) {
                // Planned out of reach from few values: the next look decides.
                Some(StopReason::OutOfReach) | None => {}
                Some(_) => break,
            }
        }
        let told = describe(&Sample::new(values)?, 0.0);
        let median = 20_000.0 * (1.0 + 0.01 * MIXTURE_SHIFT);
        held += usize::from(told.median_interval.is_some_and(|interval| interval.contains(median)));
    }
    Ok(held as f64 / TRIALS as f64)
}

/// By how much the median is above that of the undisturbed values, in units of σ: the solution of
/// 0.95 Φ(x) + 0.05 G(x) = ½ with G the distribution of a normal value plus an exponential one of mean 8.
const MIXTURE_SHIFT: f64 = 0.059_448;

#[test]
fn to_look_again_and_again_costs_no_coverage() -> Outcome {
    for (seed, correlation) in [(41, 0.0), (42, 0.5)] {
        let share = coverage_at_the_stop(seed, correlation)?;
        println!("at the stop, correlation {correlation}: {share:.3}");
        assert!(share >= 0.93, "{share} for a correlation of {correlation}");
    }
    Ok(())
}
