//! Names for the numbers of NVTX domains and categories, and the marks that wait for them.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::table::rows::MarkRow;

/// Marks that wait for the name of their domain or category; one more is written without.
const MAX_UNNAMED: usize = 1 << 16;

/// A mark with the numbers that names may still come for.
#[derive(Debug)]
struct Unnamed {
    row: MarkRow,
    domain: u32,
    category: u32,
}

#[derive(Debug, Default)]
pub(super) struct Marks {
    domains: FxHashMap<u32, Arc<str>>,
    categories: FxHashMap<(u32, u32), Arc<str>>,
    /// Marks whose domain or category has no name yet: those since the last round, and those of the round before. The
    /// thread that gave the name may be asked for its events after the one that used it.
    unnamed: [Vec<Unnamed>; Self::ROUNDS],
}

impl Marks {
    /// After so many rounds no mark waits any more.
    pub const ROUNDS: usize = 2;

    pub fn name_domain(&mut self, domain: u32, name: Arc<str>) {
        self.domains.insert(domain, name);
    }

    pub fn name_category(&mut self, domain: u32, category: u32, name: Arc<str>) {
        self.categories.insert((domain, category), name);
    }

    /// The domain's name, or its number; none for the default domain.
    pub fn domain(&self, domain: u32) -> Option<Arc<str>> {
        match self.domains.get(&domain) {
            Some(name) => Some(Arc::clone(name)),
            None => (domain != 0).then(|| domain.to_string().into()),
        }
    }

    /// The same for a category of a domain.
    pub fn category(&self, domain: u32, category: u32) -> Option<Arc<str>> {
        match self.categories.get(&(domain, category)) {
            Some(name) => Some(Arc::clone(name)),
            None => (category != 0).then(|| category.to_string().into()),
        }
    }

    /// The mark's row, if there is a name for each of its numbers; else it waits.
    pub fn add(&mut self, row: MarkRow, domain: u32, category: u32) -> Option<MarkRow> {
        let mark = Unnamed { row, domain, category };
        let is_named = (domain == 0 || self.domains.contains_key(&domain))
            && (category == 0 || self.categories.contains_key(&(domain, category)));
        if is_named || self.unnamed[0].len() >= MAX_UNNAMED {
            return Some(self.named(mark));
        }
        self.unnamed[0].push(mark);
        None
    }

    /// Begins a round: the rows of those that have waited for one.
    pub fn advance(&mut self) -> Vec<MarkRow> {
        self.unnamed.rotate_right(1);
        let waited = std::mem::take(&mut self.unnamed[0]);
        waited.into_iter().map(|mark| self.named(mark)).collect()
    }

    fn named(&self, mark: Unnamed) -> MarkRow {
        let Unnamed { row, domain, category } = mark;
        MarkRow { domain: self.domain(domain), category: self.category(domain, category), ..row }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::ThreadId;

    fn mark() -> MarkRow {
        MarkRow {
            time_ns: 1,
            name: "mark".into(),
            domain: None,
            category: None,
            color: None,
            payload: None,
            thread: ThreadId(1),
            range: None,
        }
    }

    #[test]
    fn only_so_many_marks_wait_for_names_that_may_never_come() {
        let mut marks = Marks::default();
        let waiting = (0..MAX_UNNAMED).filter(|_| marks.add(mark(), 7, 0).is_none()).count();
        assert_eq!(waiting, MAX_UNNAMED);
        let row = marks.add(mark(), 7, 0);
        assert_eq!(row.and_then(|row| row.domain).as_deref(), Some("7"), "by its number, and at once");
        assert!(marks.advance().is_empty(), "those of the round before");
        marks.name_domain(7, "late".into());
        let named = marks.advance();
        assert!(named.len() == MAX_UNNAMED && named.iter().all(|row| row.domain.as_deref() == Some("late")));
    }
}
