//! Rows of two sides, whatever their keys are.

use proptest::prelude::*;

use super::super::key::{JoinKey, Key};
use super::super::measured::Measured;
use super::super::pairing::pair;

/// Keys of few values, so that many are alike.
fn any_side() -> impl Strategy<Value = Vec<Key>> {
    let key = prop::collection::vec(prop::option::of(0..3_u8), JoinKey::ALL.len()).prop_map(|values| {
        let mut key = Key::default();
        for (name, value) in JoinKey::ALL.into_iter().zip(values) {
            // Most keys are the same for all rows.
            let is_varied =
                matches!(name, JoinKey::Config | JoinKey::Kernel | JoinKey::Gpu | JoinKey::Driver);
            let value = if is_varied { value } else { Some(0) };
            key.set(name, value.map(|value| value.to_string().into()));
        }
        key
    });
    prop::collection::btree_set(key, 0..12).prop_map(|keys| keys.into_iter().collect())
}

fn rows(keys: &[Key]) -> Vec<Measured> {
    keys.iter().map(|key| Measured { key: key.clone(), processes: Vec::new() }).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn each_row_is_compared_or_incomparable_or_left_out_once(
        base in any_side(),
        new in any_side(),
        allowed in prop::sample::subsequence(JoinKey::ALL.to_vec(), 0..4),
    ) {
        let pairing = pair(rows(&base), rows(&new), &allowed);
        let mut seen = [Vec::new(), Vec::new()];
        for (a, b, differences) in &pairing.pairs {
            seen[0].push(&a.key);
            seen[1].push(&b.key);
            prop_assert_eq!(differences, &a.key.differences(&b.key));
            prop_assert!(differences.iter().all(|differs| allowed.contains(&differs.key)));
        }
        for (a, b, mismatches) in &pairing.apart {
            seen[0].extend(a.iter().map(|row| &row.key));
            seen[1].extend(b.iter().map(|row| &row.key));
            prop_assert!(!mismatches.is_empty() && (a.is_some() || b.is_some()));
        }
        let left_out = |side: &str| pairing.left_out.iter().filter(|what| what.only_in == Some(side)).count();
        prop_assert_eq!(seen[0].len() + left_out("base"), base.len());
        prop_assert_eq!(seen[1].len() + left_out("new"), new.len());
        for (keys, of) in seen.iter_mut().zip([&base, &new]) {
            keys.sort();
            let all = keys.len();
            keys.dedup();
            prop_assert_eq!(keys.len(), all);
            prop_assert!(keys.iter().all(|key| of.contains(key)));
        }
        // Rows with the same keys are always compared, and nothing is left out unasked.
        for key in base.iter().filter(|key| new.contains(key)) {
            prop_assert!(pairing.pairs.iter().any(|(a, b, _)| a.key == *key && b.key == *key));
        }
        prop_assert!(!allowed.is_empty() || pairing.left_out.is_empty());
    }

    #[test]
    fn sides_that_are_exchanged_pair_the_same(base in any_side(), new in any_side()) {
        let (there, back) = (pair(rows(&base), rows(&new), &[]), pair(rows(&new), rows(&base), &[]));
        prop_assert_eq!(there.pairs.len(), back.pairs.len());
        prop_assert_eq!(there.apart.len(), back.apart.len());
    }
}
