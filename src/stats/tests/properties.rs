//! What holds for any values.

use proptest::prelude::*;

use super::super::*;
use super::close;

fn values() -> impl Strategy<Value = Vec<f64>> {
    // Multiples of a tick, as durations are, so that there are ties.
    proptest::collection::vec((1_u32..400).prop_map(|ticks| f64::from(ticks) * 32.0), 0..60)
}

fn of(values: &[f64]) -> Result<Sample, TestCaseError> {
    Sample::new(values).map_err(|error| TestCaseError::fail(error.to_string()))
}

/// Everything that lies on the axis of the values, and everything that is a distance on it.
fn places_and_distances(values: &[f64], tick: f64) -> Result<(Vec<f64>, Vec<f64>), TestCaseError> {
    let sample = of(values)?;
    let told = describe(&sample, tick);
    let ends = |interval: Option<Interval>| interval.map(|interval| [interval.low, interval.high]);
    let mut places: Vec<f64> =
        [told.mean, told.min, told.max, told.harrell_davis_p50, told.harrell_davis_p99]
            .into_iter()
            .flatten()
            .collect();
    places.extend(told.quantiles.into_iter().flatten());
    places.extend(told.fenced_mean.map(|fenced| fenced.mean));
    let intervals = [
        told.mean_interval,
        told.median_interval,
        told.fenced_mean_interval,
        median_interval_interpolated(&sample),
        level_interval(&sample),
    ];
    places.extend(intervals.into_iter().filter_map(ends).flatten());
    let distances = [told.std_dev, told.mad, told.iqr].into_iter().flatten().collect();
    Ok((places, distances))
}

fn all_close(a: &[f64], b: &[f64]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| close(*a, *b, 1e-7))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn a_shift_moves_places_and_leaves_distances(values in values(), ticks in 0_u32..1_000) {
        let shift = f64::from(ticks) * 32.0;
        let moved: Vec<f64> = values.iter().map(|value| value + shift).collect();
        let (places, distances) = places_and_distances(&values, 32.0)?;
        let (places_moved, distances_moved) = places_and_distances(&moved, 32.0)?;
        let expected: Vec<f64> = places.iter().map(|place| place + shift).collect();
        prop_assert!(all_close(&expected, &places_moved), "{expected:?} {places_moved:?}");
        prop_assert!(all_close(&distances, &distances_moved));
    }

    #[test]
    fn another_unit_scales_everything(values in values()) {
        let scaled: Vec<f64> = values.iter().map(|value| value * 8.0).collect();
        let (places, distances) = places_and_distances(&values, 32.0)?;
        let (places_scaled, distances_scaled) = places_and_distances(&scaled, 8.0 * 32.0)?;
        let by_eight = |values: &[f64]| values.iter().map(|value| value * 8.0).collect::<Vec<f64>>();
        prop_assert!(all_close(&by_eight(&places), &places_scaled));
        prop_assert!(all_close(&by_eight(&distances), &distances_scaled));
    }

    #[test]
    fn what_is_not_about_the_order_does_not_depend_on_it(values in values(), seed in any::<u64>()) {
        let mut shuffled = values.clone();
        Random::new(seed).shuffle(&mut shuffled);
        let (a, b) = (of(&values)?, of(&shuffled)?);
        prop_assert_eq!(a.sorted(), b.sorted());
        prop_assert_eq!((a.mean(), a.std_dev(), a.mad()), (b.mean(), b.std_dev(), b.mad()));
        prop_assert_eq!(median_interval(&a), median_interval(&b));
        prop_assert_eq!((a.outliers(), modes(&a, 32.0)), (b.outliers(), modes(&b, 32.0)));
    }

    #[test]
    fn every_value_twice_changes_no_median_and_no_mean(values in values()) {
        let twice: Vec<f64> = values.iter().flat_map(|value| [*value; 2]).collect();
        let (once, twice) = (of(&values)?, of(&twice)?);
        prop_assert_eq!(once.median(), twice.median());
        prop_assert_eq!(once.ties_ratio(), twice.ties_ratio());
        prop_assert!(once.mean().zip(twice.mean()).is_none_or(|(a, b)| close(a, b, 1e-12)));
    }

    #[test]
    fn centres_lie_among_the_values_and_intervals_around_centres(values in values()) {
        let sample = of(&values)?;
        let told = describe(&sample, 32.0);
        if let (Some(min), Some(max)) = (told.min, told.max) {
            for centre in [told.mean, told.median(), told.harrell_davis_p50, told.fenced_mean.map(|f| f.mean)] {
                prop_assert!(centre.is_some_and(|centre| min - 1e-6 <= centre && centre <= max + 1e-6));
            }
        }
        if let (Some(interval), Some(median)) = (told.median_interval, told.median()) {
            prop_assert!(interval.contains(median));
        }
        prop_assert!(told.n_eff <= values.len() as f64);
        prop_assert_eq!(told.mean_interval.is_some(), told.n_eff > 1.0);
    }

    #[test]
    fn what_is_not_a_number_is_rejected(values in values(), place in any::<prop::sample::Index>()) {
        for wrong in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let mut values = values.clone();
            let place = place.index(values.len() + 1);
            values.insert(place, wrong);
            let error = Sample::new(values).err().map(|error| error.to_string()).unwrap_or_default();
            prop_assert!(error.contains(&format!("value {place} ")), "{error}");
        }
    }

    #[test]
    fn swapped_sides_give_the_opposite_verdict(
        pairs in proptest::collection::vec((900.0_f64..1_100.0, 900.0_f64..1_100.0), 2..20),
    ) {
        let swapped: Vec<(f64, f64)> = pairs.iter().map(|(a, b)| (*b, *a)).collect();
        let forth = paired(&pairs).map_err(|error| TestCaseError::fail(error.to_string()))?;
        let back = paired(&swapped).map_err(|error| TestCaseError::fail(error.to_string()))?;
        prop_assert!(close(forth.log_ratio, -back.log_ratio, 1e-12));
        let opposite = match forth.direction() {
            Direction::Slower => Direction::Faster,
            Direction::Faster => Direction::Slower,
            Direction::Unknown => Direction::Unknown,
        };
        prop_assert_eq!(back.direction(), opposite);
    }
}

#[test]
fn none_one_and_two_values_are_described_as_far_as_they_go() -> super::Outcome {
    let none = Sample::new([])?;
    assert_eq!((none.mean(), none.median(), none.std_dev(), none.iqr()), (None, None, None, None));
    assert_eq!((none.harrell_davis(0.5), none.mad(), none.ties_ratio()), (None, None, None));
    let one = describe(&Sample::new([7.0])?, 0.0);
    assert_eq!((one.mean, one.median(), one.min, one.max), (Some(7.0), Some(7.0), Some(7.0), Some(7.0)));
    assert_eq!((one.std_dev, one.mad, one.mean_interval, one.median_interval), (None, None, None, None));
    let two = describe(&Sample::new([7.0, 9.0])?, 0.0);
    assert_eq!((two.mean, two.median()), (Some(8.0), Some(8.0)));
    assert!(two.std_dev.is_some() && two.mean_interval.is_some() && two.median_interval.is_none());
    Ok(())
}
