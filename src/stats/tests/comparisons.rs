use super::super::*;
use super::{Outcome, close, normal, sample};

/// Eight pairs of block values, with `noise` for each block and a common drift of both sides of a pair.
fn pairs(random: &mut Random, count: usize, change: f64, noise: f64) -> Vec<(f64, f64)> {
    let mut machine = 1_000.0;
    let mut pairs = Vec::new();
    for _ in 0..count {
        machine *= 1.0 + 0.01 * normal(random);
        let mut block = |factor: f64| machine * factor * (1.0 + noise * normal(random));
        pairs.push((block(1.0), block(1.0 + change)));
    }
    pairs
}

#[test]
fn a_pair_is_compared_by_its_ratio() -> Outcome {
    // ln ratios: ln 1.02 three times and ln 1.04 once, by hand.
    let comparison = paired(&[(100.0, 102.0), (200.0, 204.0), (50.0, 51.0), (100.0, 104.0)])?;
    let logs = [1.02_f64.ln(), 1.02_f64.ln(), 1.02_f64.ln(), 1.04_f64.ln()];
    let mean = logs.iter().sum::<f64>() / 4.0;
    let s = (logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / 3.0).sqrt();
    assert!(close(comparison.log_ratio, mean, 1e-12) && close(comparison.standard_error, s / 2.0, 1e-12));
    let interval = comparison.change_interval().ok_or("none")?;
    assert!(close(interval.low, (mean - 3.182_446 * s / 2.0).exp_m1(), 1e-6), "{interval:?}");
    Ok(())
}

#[test]
fn welch_has_the_degrees_of_freedom_of_its_formula() -> Outcome {
    // Logarithms with variances 1 and 4 (sides of 3 and 5): se² = 1/3 + 4/5.
    let a: Vec<f64> = [-1.0_f64, 0.0, 1.0].map(f64::exp).to_vec();
    let deviation = (4.0_f64 * 4.0 / 10.0).sqrt();
    let b: Vec<f64> = [-2.0, -1.0, 0.0, 1.0, 2.0].map(|x: f64| (x * deviation).exp()).to_vec();
    let comparison = welch(&a, &b)?;
    let (va, vb) = (1.0 / 3.0, 4.0 / 5.0);
    let df = (va + vb) * (va + vb) / (va * va / 2.0 + vb * vb / 4.0);
    assert!(close(comparison.df, df, 1e-9) && close(comparison.standard_error, (va + vb).sqrt(), 1e-9));
    Ok(())
}

#[test]
fn verdicts_follow_the_interval_and_the_margin() -> Outcome {
    let verdict = |pairs: &[(f64, f64)]| Ok::<_, crate::error::Error>(paired(pairs)?.verdict(DEFAULT_MARGIN));
    let around = |centre: f64| [(100.0, centre - 0.1), (100.0, centre + 0.1), (100.0, centre)];
    assert_eq!(verdict(&around(103.0))?, Verdict::Slower);
    assert_eq!(verdict(&around(97.0))?, Verdict::Faster);
    assert_eq!(verdict(&around(100.2))?, Verdict::Same);
    let unknown = paired(&around(101.0))?;
    assert!(matches!(unknown.verdict(0.01), Verdict::Inconclusive(Inconclusive::Overlap { .. })));
    assert_eq!(unknown.direction(), Direction::Slower);
    assert_eq!(verdict(&[(100.0, 150.0)])?, Verdict::Inconclusive(Inconclusive::TooFewRuns));
    assert_eq!(verdict(&[])?, Verdict::Inconclusive(Inconclusive::TooFewRuns));
    assert!(paired(&[(0.0, 1.0)]).is_err() && paired(&[(1.0, f64::NAN)]).is_err());
    Ok(())
}

#[test]
fn an_inconclusive_verdict_says_how_many_more_would_tell() -> Outcome {
    let mut random = Random::new(21);
    let noisy = paired(&pairs(&mut random, 8, 0.0, 0.012))?;
    let Verdict::Inconclusive(Inconclusive::Overlap { more: Some(more) }) = noisy.verdict(0.01) else {
        return Err(format!("{:?}", noisy.verdict(0.01)).into());
    };
    // With that many, at the same spread and difference, the interval is just inside the margin.
    let n = (8 + more) as f64;
    let error = noisy.standard_error * (8.0 / n).sqrt();
    let enough = Comparison { standard_error: error, df: n - 1.0, n: 8 + more as usize, ..noisy };
    assert_eq!(enough.verdict(0.0101), Verdict::Same);
    assert!(more > 1);
    Ok(())
}

#[test]
fn two_process_runs_are_too_few_and_say_so() -> Outcome {
    let comparison = welch(&[100.0, 100.1], &[150.0, 150.1])?;
    assert_eq!(comparison.verdict(0.01), Verdict::Inconclusive(Inconclusive::TooFewRuns));
    assert_eq!(comparison.verdict_of_any_number(0.01), Verdict::Slower);
    assert_eq!(
        welch(&[100.0], &[150.0])?.verdict_of_any_number(0.01),
        Verdict::Inconclusive(Inconclusive::TooFewRuns)
    );
    assert_eq!(welch(&[100.0; 3], &[150.0; 3])?.verdict(0.01), Verdict::Slower);
    Ok(())
}

#[test]
fn what_the_clock_made_is_no_verdict() {
    let cases = [
        (Verdict::Slower, Verdict::Slower, Verdict::Slower),
        (Verdict::Slower, Verdict::Same, Verdict::Inconclusive(Inconclusive::Clock)),
        (
            Verdict::Same,
            Verdict::Inconclusive(Inconclusive::TooFewRuns),
            Verdict::Inconclusive(Inconclusive::Clock),
        ),
    ];
    for (in_time, in_cycles, expected) in cases {
        assert_eq!(in_time.confirmed_in_cycles(in_cycles), expected);
    }
}

#[test]
fn interleaved_pairs_raise_few_alarms_and_find_what_matters() -> Outcome {
    let mut random = Random::new(22);
    let mut share = |change: f64, found: fn(&Comparison) -> bool| {
        let trials = 1_000;
        let mut count = 0;
        for _ in 0..trials {
            count += usize::from(found(&paired(&pairs(&mut random, 8, change, 0.002))?));
        }
        Ok::<f64, crate::error::Error>(count as f64 / trials as f64)
    };
    let is_slower = |comparison: &Comparison| comparison.verdict(DEFAULT_MARGIN) == Verdict::Slower;
    let alarm = |comparison: &Comparison| comparison.direction() != Direction::Unknown;
    let alarms = share(0.0, alarm)?;
    assert!((0.03..0.07).contains(&alarms), "direction, of equal sides: {alarms}");
    assert_eq!(share(0.0, is_slower)?, 0.0);
    assert!(share(0.01, |comparison| comparison.direction() == Direction::Slower)? > 0.95);
    assert!(share(0.02, is_slower)? > 0.95);
    let at_the_margin = share(0.01, is_slower)?;
    assert!(at_the_margin < 0.05, "by construction 2.5 %: {at_the_margin}");
    Ok(())
}

#[test]
fn the_mean_of_blocks_finds_less_than_a_tick_and_the_median_does_not() -> Outcome {
    // A kernel of 3 µs with 0.2 % spread, seen through a clock of 32 ns, and half a per cent more.
    let mut random = Random::new(23);
    let mut block = |centre: f64| -> Vec<f64> {
        (0..25)
            .map(|_| {
                let start = random.unit() * 32.0;
                let end = start + centre * (1.0 + 0.002 * normal(&mut random));
                ((end / 32.0).floor() - (start / 32.0).floor()) * 32.0
            })
            .collect()
    };
    let mut found = [0, 0];
    for _ in 0..100 {
        let blocks: Vec<_> = (0..8).map(|_| (block(3_000.0), block(3_015.0))).collect();
        let compare = |value: &dyn Fn(&[f64]) -> Option<f64>| {
            let pairs = blocks.iter().map(|(a, b)| value(a).zip(value(b))).collect::<Option<Vec<_>>>();
            Ok::<_, Box<dyn std::error::Error>>(
                paired(&pairs.ok_or("empty")?)?.direction() == Direction::Slower,
            )
        };
        let of = |values: &[f64]| Sample::new(values).ok();
        found[0] += usize::from(compare(&|values| of(values)?.fenced_mean(32.0).map(|f| f.mean))?);
        found[1] += usize::from(compare(&|values| of(values)?.median())?);
    }
    assert!(found[0] > found[1] && found[1] < 20, "means {}, medians {}, of 100", found[0], found[1]);
    Ok(())
}

#[test]
fn many_tests_are_corrected_by_benjamini_and_hochberg() {
    // The example of their paper (1995): of 15, the first four at q = 0.05.
    let p = [
        0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262, 0.5719,
        0.6528, 0.7590, 1.0,
    ];
    let positive = benjamini_hochberg(&p, DEFAULT_FALSE_DISCOVERY_RATE);
    assert_eq!(positive.iter().filter(|positive| **positive).count(), 4);
    let mut reversed = p;
    reversed.reverse();
    let positive = benjamini_hochberg(&reversed, 0.05);
    assert!(positive[11..].iter().all(|positive| *positive) && !positive[..11].contains(&true));
    assert!(benjamini_hochberg(&[], 0.05).is_empty());
}

/// Process runs whose levels differ by 1 %, with blocks that differ by 0.2 %.
fn process_runs(random: &mut Random, count: usize, factor: f64) -> Vec<ProcessRun> {
    let run = |random: &mut Random| {
        let level = 1_000.0 * factor * (1.0 + 0.01 * normal(random));
        let block = |random: &mut Random| {
            let level = level * (1.0 + 0.002 * normal(random));
            (0..5).map(|_| level * (1.0 + 0.005 * normal(random))).collect()
        };
        (0..4).map(|_| block(random)).collect()
    };
    (0..count).map(|_| run(random)).collect()
}

#[test]
fn the_bootstrap_gives_the_same_for_the_same_seed_and_holds_the_ratio() -> Outcome {
    let mut random = Random::new(25);
    let p95 = |sample: &Sample| sample.quantile(0.95);
    let mut held = 0;
    for seed in 0..40 {
        let (a, b) = (process_runs(&mut random, 8, 1.0), process_runs(&mut random, 8, 1.05));
        let result = bootstrap_ratio(&a, &b, p95, 200, seed)?;
        assert_eq!(result.kind, BootstrapKind::Studentised);
        held += usize::from(result.interval.ok_or("no interval")?.contains(1.05));
        if seed == 0 {
            assert_eq!(bootstrap_ratio(&a, &b, p95, 200, seed)?, result);
        }
    }
    assert!(held >= 34, "{held} of 40");
    let (a, b) = (process_runs(&mut random, 20, 1.0), process_runs(&mut random, 20, 1.0));
    assert_eq!(bootstrap_ratio(&a, &b, p95, 100, 1)?.kind, BootstrapKind::Percentile);
    assert!(bootstrap_ratio(&a[..1], &b, p95, 200, 1).is_err());
    assert!(bootstrap_ratio(&a, &b, |_| None, 200, 1).is_err());
    Ok(())
}

#[test]
fn few_process_runs_have_a_wide_interval_or_none() -> Outcome {
    let mut random = Random::new(26);
    let (a, b) = (process_runs(&mut random, 2, 1.0), process_runs(&mut random, 2, 1.05));
    let median = |sample: &Sample| sample.median();
    let two = bootstrap_ratio(&a, &b, median, 1_000, 1)?;
    let percentile_width = 0.03;
    assert!(two.interval.is_none_or(|interval| interval.half_width() > percentile_width), "{two:?}");
    assert!(close(two.ratio, 1.05, 0.03), "{two:?}");
    Ok(())
}

#[test]
fn ratios_are_averaged_geometrically() -> Outcome {
    assert!(close(geometric_mean(&[0.5, 2.0]).ok_or("none")?, 1.0, 1e-12));
    assert_eq!((geometric_mean(&[]), geometric_mean(&[1.0, 0.0])), (None, None));
    // Unlike the mean of the ratios, it is the same for either side as the base.
    let values = sample(&[0.5, 2.0])?;
    assert_eq!(values.mean(), Some(1.25));
    Ok(())
}
