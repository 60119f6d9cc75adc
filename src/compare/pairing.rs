//! Which rows of one side go with which of the other.

use rustc_hash::{FxHashMap, FxHashSet};

use super::key::{JoinKey, Key, Mismatch};
use super::measured::Measured;

/// What became of the rows of both sides.
#[derive(Debug, Default)]
pub(super) struct Pairing {
    /// Rows that are compared, with where they differ as it is allowed.
    pub pairs: Vec<(Measured, Measured, Vec<Mismatch>)>,
    /// Rows that cannot be compared, and why.
    pub apart: Vec<(Option<Measured>, Option<Measured>, Vec<Mismatch>)>,
    /// Rows without a counterpart, as it is allowed.
    pub left_out: Vec<Mismatch>,
}

/// Pairs rows whose keys are equal; then those that differ in allowed keys only, where there is no choice. What is left
/// differs in its conditions, or one side has nothing of it.
pub(super) fn pair(base: Vec<Measured>, new: Vec<Measured>, allowed: &[JoinKey]) -> Pairing {
    let mut pairing = Pairing::default();
    let (mut base, mut new) = joined(base, new, Key::clone, &mut pairing.pairs);
    if !allowed.is_empty() {
        let unless_allowed = |key: &Key| key.only(|each| !allowed.contains(&each));
        (base, new) = joined(base, new, unless_allowed, &mut pairing.pairs);
    }
    if base.is_empty() && new.is_empty() {
        return pairing;
    }
    let of_pairs =
        |side: fn(&(Measured, Measured, Vec<Mismatch>)) -> &Measured| pairing.pairs.iter().map(side);
    let in_base = Known::of(of_pairs(|pair| &pair.0).chain(&base), allowed);
    let in_new = Known::of(of_pairs(|pair| &pair.1).chain(&new), allowed);

    // Of the same subject, under other conditions.
    let subject = |key: &Key| key.only(JoinKey::is_subject);
    let mut others: FxHashMap<Key, Vec<Measured>> = FxHashMap::default();
    for row in new.into_iter().rev() {
        others.entry(subject(&row.key)).or_default().push(row);
    }
    for row in base {
        match others.get_mut(&subject(&row.key)).and_then(Vec::pop) {
            Some(other) => {
                let mut differences = row.key.differences(&other.key);
                // Where all are allowed, there was a choice.
                if differences.iter().any(|differs| !allowed.contains(&differs.key)) {
                    differences.retain(|differs| !allowed.contains(&differs.key));
                } else {
                    differences.iter_mut().for_each(|differs| differs.is_ambiguous = true);
                }
                pairing.apart.push((Some(row), Some(other), differences));
            }
            None => match in_new.lacks(&row.key, true) {
                Lack::Allowed(what) => pairing.left_out.push(what),
                Lack::Refused(what) => pairing.apart.push((Some(row), None, vec![what])),
            },
        }
    }
    for row in others.into_values().flatten() {
        match in_base.lacks(&row.key, false) {
            Lack::Allowed(what) => pairing.left_out.push(what),
            Lack::Refused(what) => pairing.apart.push((None, Some(row), vec![what])),
        }
    }
    pairing
}

/// Pairs rows by what is taken of their keys, where either side has one of it; returns the others.
fn joined(
    base: Vec<Measured>,
    new: Vec<Measured>,
    by: impl Fn(&Key) -> Key,
    pairs: &mut Vec<(Measured, Measured, Vec<Mismatch>)>,
) -> (Vec<Measured>, Vec<Measured>) {
    let mut both: FxHashMap<Key, (Vec<Measured>, Vec<Measured>)> = FxHashMap::default();
    for row in base {
        both.entry(by(&row.key)).or_default().0.push(row);
    }
    for row in new {
        both.entry(by(&row.key)).or_default().1.push(row);
    }
    let (mut base, mut new) = (Vec::new(), Vec::new());
    for (mut of_base, mut of_new) in both.into_values() {
        if let ([_], [_]) = (of_base.as_slice(), of_new.as_slice())
            && let (Some(a), Some(b)) = (of_base.pop(), of_new.pop())
        {
            let differences = a.key.differences(&b.key);
            pairs.push((a, b, differences));
        }
        base.append(&mut of_base);
        new.append(&mut of_new);
    }
    base.sort_by(|a, b| a.key.cmp(&b.key));
    new.sort_by(|a, b| a.key.cmp(&b.key));
    (base, new)
}

/// What a side has: each subject from the whole to its parts, and each condition of a subject.
struct Known<'a> {
    allowed: &'a [JoinKey],
    parts: FxHashSet<(JoinKey, Key)>,
}

/// What keeps a row alone.
enum Lack {
    Allowed(Mismatch),
    Refused(Mismatch),
}

impl<'a> Known<'a> {
    fn of<'m>(rows: impl Iterator<Item = &'m Measured>, allowed: &'a [JoinKey]) -> Self {
        let mut known = Self { allowed, parts: FxHashSet::default() };
        for row in rows {
            for to in JoinKey::ALL {
                known.parts.insert((to, part(&row.key, to)));
                known.parts.insert((to, known.masked(&row.key, to)));
            }
        }
        known
    }

    /// A part, whatever allowed keys have.
    fn masked(&self, key: &Key, to: JoinKey) -> Key {
        part(key, to).only(|each| !self.allowed.contains(&each))
    }

    /// Why no row here goes with this one.
    fn lacks(&self, key: &Key, is_base: bool) -> Lack {
        let absent = |of: &dyn Fn(JoinKey) -> Key| {
            JoinKey::ALL.into_iter().find(|to| !self.parts.contains(&(*to, of(*to))))
        };
        let mismatch = |name: JoinKey| {
            let value = key.get(name).map(Into::into);
            let (base, new, side) = if is_base { (value, None, "base") } else { (None, value, "new") };
            Mismatch { key: name, base, new, only_in: Some(side), is_ambiguous: false }
        };
        if let Some(name) = absent(&|to| self.masked(key, to)) {
            return Lack::Refused(mismatch(name));
        }
        match absent(&|to| part(key, to)) {
            Some(name) if self.allowed.contains(&name) && name.is_subject() => Lack::Allowed(mismatch(name)),
            // There are several that it could go with.
            name => {
                let allowed = || self.allowed.iter().copied().find(|key| !key.is_subject());
                let name = name.or_else(allowed).unwrap_or(JoinKey::Gpu);
                Lack::Refused(Mismatch { is_ambiguous: self.allowed.contains(&name), ..mismatch(name) })
            }
        }
    }
}

/// A subject down to one of its parts, or a subject with one condition.
fn part(key: &Key, to: JoinKey) -> Key {
    key.only(|each| each == to || each.is_subject() && (each < to || !to.is_subject()))
}
