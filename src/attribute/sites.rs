//! The bounded table of launching calls, by correlation id.

use std::collections::VecDeque;
use std::collections::hash_map::Entry;

use super::near::NearMap;
use crate::units::{CorrelationId, Nanos, ProcessEpoch, RangeId, SymbolId, ThreadId};

/// Calls that are remembered after their record came, for a second record of the same call.
const KEEP_SEEN: usize = 1 << 16;

/// Calls that are remembered in all (about 40 MB). A call beyond this whose record has not come moves to the
/// elders, so that one long kernel is not forgotten because of many short ones.
const MAX_RECENT: usize = 1 << 19;

/// Calls without a record that outlive [`MAX_RECENT`] later ones.
const MAX_ELDERS: usize = 1 << 16;

/// A launching call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Site {
    pub range: Option<RangeId>,
    pub epoch: ProcessEpoch,
    pub thread: ThreadId,
    pub symbol: Option<SymbolId>,
    pub time: Nanos,
    pub many: bool,
    pub graph: bool,
    /// A record must come.
    pub due: bool,
    /// A record of this call has come.
    pub seen: bool,
    /// Process-wide ranges were open, as far as was known when the first record came.
    pub in_set: bool,
    /// When its latest record was received, if it may have many.
    pub last_record: Nanos,
}

impl Site {
    /// Whether further records of the call are unlikely.
    fn is_done(&self) -> bool {
        self.seen && !self.many
    }
}

/// The answer to a look-up.
pub(super) enum Found<'a> {
    Site(&'a mut Site),
    /// It was there and had to leave.
    Evicted,
    Never,
}

#[derive(Debug, Default)]
pub(super) struct Sites {
    by_correlation: NearMap<CorrelationId, Site>,
    /// Correlation ids in the order of their calls.
    recent: VecDeque<CorrelationId>,
    elders: VecDeque<CorrelationId>,
    evicted_up_to: Option<CorrelationId>,
}

impl Sites {
    /// Remembers a call. Returns the call that this displaces without hope of a further record, if its own
    /// accounts are still open.
    pub fn insert(&mut self, correlation: CorrelationId, site: Site) -> Option<Site> {
        let reused = self.by_correlation.insert(correlation, site);
        if reused.is_none() {
            self.recent.push_back(correlation);
        }
        let evicted = self.make_room();
        reused.filter(|site| !site.is_done()).or(evicted)
    }

    /// Forgets calls at the front until the table is inside its bounds; at most one of them was not done.
    fn make_room(&mut self) -> Option<Site> {
        while self.recent.len() > KEEP_SEEN {
            let front = *self.recent.front()?;
            match self.by_correlation.entry(front) {
                Entry::Occupied(site) if !site.get().is_done() => {
                    if self.recent.len() <= MAX_RECENT {
                        return None;
                    }
                    self.recent.pop_front();
                    self.elders.push_back(front);
                    return self.make_room_for_elders();
                }
                Entry::Occupied(site) => drop(site.remove_entry()),
                Entry::Vacant(_) => {}
            }
            self.recent.pop_front();
            self.note_evicted(front);
        }
        None
    }

    fn make_room_for_elders(&mut self) -> Option<Site> {
        while self.elders.len() > MAX_ELDERS {
            let eldest = self.elders.pop_front()?;
            let Some(site) = self.by_correlation.remove(&eldest) else { continue };
            self.note_evicted(eldest);
            if !site.is_done() {
                return Some(site);
            }
        }
        None
    }

    fn note_evicted(&mut self, correlation: CorrelationId) {
        self.evicted_up_to = self.evicted_up_to.max(Some(correlation));
    }

    pub fn find(&mut self, correlation: CorrelationId) -> Found<'_> {
        match self.by_correlation.get_mut(&correlation) {
            Some(site) => Found::Site(site),
            None if self.evicted_up_to >= Some(correlation) => Found::Evicted,
            None => Found::Never,
        }
    }

    pub fn has(&self, correlation: CorrelationId) -> bool {
        self.by_correlation.contains_key(&correlation)
    }

    /// Every call that is remembered; none is any more.
    pub fn take(&mut self) -> Vec<Site> {
        std::mem::take(self).by_correlation.values().copied().collect()
    }

    pub fn len(&self) -> usize {
        self.by_correlation.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(seen: bool) -> Site {
        Site {
            range: None,
            epoch: ProcessEpoch(0),
            thread: ThreadId(1),
            symbol: None,
            time: Nanos(0),
            many: false,
            graph: false,
            due: false,
            seen,
            in_set: false,
            last_record: Nanos(0),
        }
    }

    #[test]
    fn a_call_without_a_record_outlives_a_flood_of_later_calls() {
        let mut sites = Sites::default();
        sites.insert(CorrelationId(0), site(false));
        for id in 1..=(MAX_RECENT as u32 + 10) {
            assert_eq!(sites.insert(CorrelationId(id), site(true)), None);
        }
        assert!(matches!(sites.find(CorrelationId(0)), Found::Site(_)));
        assert!(matches!(sites.find(CorrelationId(1)), Found::Evicted));
        assert!(sites.len() <= KEEP_SEEN + 1);
    }

    #[test]
    fn calls_that_never_lead_to_a_record_are_bounded_and_handed_back() {
        let mut sites = Sites::default();
        let total = MAX_RECENT + MAX_ELDERS + 100;
        let mut handed_back = 0;
        for id in 0..total as u32 {
            handed_back += usize::from(sites.insert(CorrelationId(id), site(false)).is_some());
        }
        assert_eq!(handed_back, 100);
        assert_eq!(sites.len(), MAX_RECENT + MAX_ELDERS);
    }
}
