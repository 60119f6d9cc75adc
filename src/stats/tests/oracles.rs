//! Known answers: tables of textbooks, and values worked out by hand.

use super::super::distributions::{t_quantile, t_survival};
use super::super::*;
use super::{Outcome, close, normal, sample};

#[test]
fn student_t_is_that_of_the_tables() -> Outcome {
    let table = [(1.0, 12.7062), (2.0, 4.3027), (4.0, 2.7764), (9.0, 2.2622), (19.0, 2.0930), (99.0, 1.9842)];
    for (df, expected) in table {
        let t = t_quantile(0.975, df).ok_or("no quantile")?;
        assert!((t - expected).abs() < 5e-5, "df {df}: {t}, and the table has {expected}");
        assert!(close(t_survival(t, df).ok_or("no p")?, 0.025, 1e-6), "df {df}");
    }
    assert!(close(t_quantile(0.975, 1e9).ok_or("no quantile")?, 1.959_964, 1e-6));
    Ok(())
}

#[test]
fn ranks_of_the_median_are_those_of_the_table() {
    let table = [
        (6, (1, 6)),
        (10, (2, 9)),
        (20, (6, 15)),
        (30, (10, 21)),
        (50, (18, 33)),
        (100, (40, 61)),
        (200, (86, 115)),
    ];
    for (n, ranks) in table {
        assert_eq!(median_ranks(n), Some(ranks), "n = {n}");
    }
    assert_eq!(median_ranks(5), None);
    assert!(median_ranks(5_120).is_some());
}

#[test]
fn quantiles_are_of_type_7() -> Outcome {
    // R: quantile(c(1, 2, 4, 8, 16), c(.05, .25, .5, .9))
    let values = sample(&[16.0, 1.0, 8.0, 2.0, 4.0])?;
    for (p, expected) in [(0.0, 1.0), (0.05, 1.2), (0.25, 2.0), (0.5, 4.0), (0.9, 12.8), (1.0, 16.0)] {
        assert!(close(values.quantile(p).ok_or("none")?, expected, 1e-12), "p = {p}");
    }
    assert_eq!(values.quantile(1.5), None);
    assert_eq!(values.quantile(f64::NAN), None);
    Ok(())
}

#[test]
fn harrell_davis_weights_the_order_statistics_by_the_beta_distribution() -> Outcome {
    // For n = 2 and p = ½: a = b = 1.5, I_½ = ½, so that it is the mean of both.
    assert!(close(sample(&[1.0, 3.0])?.harrell_davis(0.5).ok_or("none")?, 2.0, 1e-12));
    // For n = 3 and p = ½: a = b = 2, I_x = 3x² − 2x³, weights 7/27, 13/27, 7/27.
    let expected = (7.0 * 1.0 + 13.0 * 2.0 + 7.0 * 6.0) / 27.0;
    assert!(close(sample(&[1.0, 2.0, 6.0])?.harrell_davis(0.5).ok_or("none")?, expected, 1e-12));
    assert_eq!(sample(&[1.0, 2.0])?.harrell_davis(1.0), None);
    Ok(())
}

#[test]
fn moments_and_robust_spreads_are_right() -> Outcome {
    let values = sample(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0])?;
    assert_eq!(values.mean(), Some(5.0));
    assert!(close(values.std_dev().ok_or("none")?, (32.0_f64 / 7.0).sqrt(), 1e-12));
    // Distances from the median 4.5: 0.5 four times or more, so that their median is 0.5.
    assert!(close(values.mad().ok_or("none")?, 1.4826 * 0.5, 1e-12));
    assert_eq!(values.ties_ratio(), Some(3.0 / 8.0));
    Ok(())
}

#[test]
fn a_fence_leaves_interruptions_out_of_the_mean_and_counts_them() -> Outcome {
    let mut values = vec![100.0, 101.0, 102.0, 103.0, 104.0, 105.0, 106.0, 107.0, 108.0];
    values.push(1_000.0);
    let fenced = sample(&values)?.fenced_mean(0.0).ok_or("none")?;
    assert_eq!((fenced.mean, fenced.n, fenced.left_out), (104.0, 9, 1));
    // Values of two ticks: without the tick the fence would be of no width.
    let mut values = vec![3_200.0; 20];
    values.push(3_232.0);
    let sample = sample(&values)?;
    assert_eq!(sample.fenced_mean(0.0).ok_or("none")?.left_out, 1);
    assert_eq!(sample.fenced_mean(32.0).ok_or("none")?.left_out, 0);
    Ok(())
}

#[test]
fn outliers_are_counted_by_side_and_by_distance() -> Outcome {
    // Quartiles 10 and 20 of the bulk: mild from 35 on, severe from 50 on.
    let mut values: Vec<f64> = (0..41).map(|i| 5.0 + f64::from(i) * 0.5).collect();
    values.extend([40.0, 60.0, -30.0, -8.0]);
    let outliers = sample(&values)?.outliers();
    assert_eq!((outliers.low_severe, outliers.low_mild), (1, 1));
    assert_eq!((outliers.high_mild, outliers.high_severe), (1, 1));
    Ok(())
}

#[test]
fn intervals_of_the_mean_follow_student_and_not_the_normal_distribution() -> Outcome {
    let values = sample(&[10.0, 12.0])?;
    let interval = mean_interval(&values, 2.0).ok_or("none")?;
    // x̄ = 11, s = √2, s/√2 = 1, t = 12.7062.
    assert!(close(interval.high, 23.7062, 1e-5) && close(interval.low, -1.7062, 1e-4), "{interval:?}");
    assert_eq!(mean_interval(&sample(&[10.0])?, 1.0), None);
    Ok(())
}

#[test]
fn intervals_of_correlated_values_have_the_ranks_of_the_formula() -> Outcome {
    let values: Vec<f64> = (1..=100).map(f64::from).collect();
    // w = 1.96/(2√25) = 0.196: ranks ⌊30.4⌋ and ⌈69.6⌉ + 1.
    let interval = median_interval_correlated(&sample(&values)?, 25.0).ok_or("none")?;
    assert_eq!((interval.low, interval.high), (30.0, 71.0));
    assert_eq!(median_interval_correlated(&sample(&values)?, 3.0), None);
    Ok(())
}

#[test]
fn interpolated_ranks_lie_between_the_exact_ones() -> Outcome {
    // n = 10: γ₂ = 0.97852, γ₃ = 0.89063, I = 0.32444, λ = 8·0.32444/(2 + 6·0.32444) = 0.65771.
    let values: Vec<f64> = (1..=10).map(f64::from).collect();
    let interval = median_interval_interpolated(&sample(&values)?).ok_or("none")?;
    assert!(close(interval.low, 2.657_7, 1e-4) && close(interval.high, 8.342_3, 1e-4), "{interval:?}");
    Ok(())
}

#[test]
fn a_level_is_known_in_spite_of_a_drift() -> Outcome {
    // On a line exactly: no spread around it.
    let values: Vec<f64> = (0..11).map(|i| 100.0 + f64::from(i)).collect();
    let interval = level_interval(&sample(&values)?).ok_or("none")?;
    assert!(close(interval.low, 105.0, 1e-9) && close(interval.high, 105.0, 1e-9), "{interval:?}");
    Ok(())
}

#[test]
fn values_that_depend_on_each_other_are_worth_fewer() -> Outcome {
    let mut random = Random::new(3);
    let independent: Vec<f64> = (0..2_000).map(|_| normal(&mut random)).collect();
    let worth = effective_n(&sample(&independent)?);
    assert!(worth > 1_600.0, "{worth}");
    // For an autoregressive series n_eff/n = (1 − ρ)/(1 + ρ): a ninth for 0.8. Interruptions must not hide it.
    let mut state = 0.0;
    let series: Vec<f64> = (0..4_000)
        .map(|_| {
            state = 0.8 * state + 0.6 * normal(&mut random);
            let interruption = if random.unit() < 0.05 { -8.0 * random.unit().ln() } else { 0.0 };
            state + interruption
        })
        .collect();
    let worth = effective_n(&sample(&series)?) / 4_000.0;
    assert!((0.06..0.20).contains(&worth), "{worth}");
    assert_eq!(effective_n(&sample(&[5.0; 50])?), 50.0);
    Ok(())
}

#[test]
fn a_drift_is_found_and_noise_is_not_one() -> Outcome {
    let mut random = Random::new(4);
    let drifting: Vec<f64> =
        (0..200).map(|i| 1_000.0 + 0.2 * f64::from(i) + 3.0 * normal(&mut random)).collect();
    let found = drift(&sample(&drifting)?).ok_or("none")?;
    // Over the last half of 200 values: 0.2·99 of some 1030.
    assert!((found.change_ratio - 0.0192).abs() < 0.003, "{found:?}");
    assert!(found.exceeds(0.0025), "{found:?}");
    let mut alarms = 0;
    for _ in 0..200 {
        let noise: Vec<f64> = (0..80).map(|_| 1_000.0 + 3.0 * normal(&mut random)).collect();
        alarms += usize::from(drift(&sample(&noise)?).ok_or("none")?.exceeds(0.0));
    }
    assert!(alarms <= 6, "{alarms} of 200, where one in a hundred is meant");
    assert_eq!(drift(&sample(&[1.0; 18])?), None);
    Ok(())
}

#[test]
fn two_states_are_told_from_one() -> Outcome {
    let mut random = Random::new(5);
    let mut values = |share: f64, n: usize| -> Vec<f64> {
        let centre = |random: &mut Random| if random.unit() < share { 1_100.0 } else { 1_000.0 };
        (0..n).map(|_| centre(&mut random) + 5.0 * normal(&mut random)).collect()
    };
    let two = modes(&sample(&values(0.3, 200))?, 0.0).ok_or("no modes")?;
    assert!(close(two.low, 1_000.0, 0.005) && close(two.high, 1_100.0, 0.005), "{two:?}");
    assert!((two.high_weight - 0.3).abs() < 0.1, "{two:?}");
    for _ in 0..50 {
        assert_eq!(modes(&sample(&values(0.0, 100))?, 0.0), None);
    }
    // Neighbouring ticks are one state, seen through a clock.
    let ticks: Vec<f64> = (0..100).map(|i| if i % 3 == 0 { 3_232.0 } else { 3_200.0 }).collect();
    assert_eq!(modes(&sample(&ticks)?, 32.0), None);
    assert_eq!(modes(&sample(&[5.0; 100])?, 32.0), None);
    Ok(())
}

#[test]
fn a_description_says_where_the_clock_decides() -> Outcome {
    let told = describe(&sample(&[3_200.0; 30])?, 32.0);
    assert!(told.is_resolution_limited);
    assert_eq!(told.std_dev, Some(32.0 / 12_f64.sqrt()));
    assert_eq!((told.ties_ratio, told.median()), (Some(1.0), Some(3_200.0)));
    let empty = describe(&sample(&[])?, 32.0);
    assert_eq!((empty.n, empty.mean, empty.std_dev, empty.median()), (0, None, None, None));
    assert_eq!((empty.median_interval, empty.mean_interval, empty.fenced_mean), (None, None, None));
    Ok(())
}

#[test]
fn a_large_sample_is_described_like_a_small_one() -> Outcome {
    // At both sides of the limit the ranks are the same but for one.
    let exact = median_ranks(10_000).ok_or("none")?;
    let limit = median_ranks(10_001).ok_or("none")?;
    assert!(exact.0.abs_diff(limit.0) <= 1 && exact == (4_902, 5_099), "{exact:?} {limit:?}");
    let mut random = Random::new(6);
    let values: Vec<f64> = (0..50_000).map(|_| 1_000.0 + 10.0 * normal(&mut random)).collect();
    let told = describe(&sample(&values)?, 0.0);
    let interval = told.median_interval.ok_or("none")?;
    assert!(interval.contains(1_000.0) && interval.half_width() < 0.2, "{interval:?}");
    assert!(told.n_eff > 40_000.0, "{}", told.n_eff);
    assert!(told.drift.is_some_and(|drift| !drift.exceeds(0.001)), "{:?}", told.drift);
    let risen: Vec<f64> = values.iter().enumerate().map(|(i, value)| value + 0.002 * i as f64).collect();
    let drift = drift(&sample(&risen)?).ok_or("none")?;
    assert!((drift.slope_per_value - 0.002).abs() < 0.000_2 && drift.exceeds(0.01), "{drift:?}");
    Ok(())
}

#[test]
fn random_numbers_are_those_of_the_published_generator() {
    // The reference implementation's first numbers for the seed 1234567.
    let mut random = Random::new(1_234_567);
    let numbers: Vec<u64> = (0..3).map(|_| random.bits()).collect();
    assert_eq!(numbers, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    assert_eq!(random.below(0), 0);
}
