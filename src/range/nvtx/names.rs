//! Domains, registered strings, and names of categories and threads.
//!
//! They are made before a session as well as in one, so they are kept for the whole process. Making one is rare and
//! may allocate or wait; looking one up does neither.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::channel::{Event, Named, Session, append, log};

/// The domain of calls that name none.
pub(super) const DEFAULT_DOMAIN: u32 = 0;

/// Handles that this handler gives out are this plus a number: no pointer on any 64-bit system, and no small
/// number, so they cannot be confused with handles that CUPTI gave out.
const OWN_HANDLE: usize = 0x6375_7072 << 32;

/// The memory that names may take which are kept for later sessions.
const MAX_KNOWN_BYTES: usize = 4 << 20;

/// Everything that was named so far, as a run of `Event::Name`.
static KNOWN: Mutex<Vec<u8>> = Mutex::new(Vec::new());

static DOMAINS: Growing = Growing::new();
static STRINGS: Growing = Growing::new();

static FOREIGN_DOMAINS: HandleMap = HandleMap::new();
static FOREIGN_STRINGS: HandleMap = HandleMap::new();

/// Everything that was named so far, as a run of events for `channel::decode`: what a session that begins now needs
/// to know, to be read before the first events of its rings.
pub(crate) fn known() -> Vec<u8> {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Keeps a name, and logs it if a session runs.
pub(super) fn name(what: Named, name: &[u8]) {
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if known.len() + name.len() < MAX_KNOWN_BYTES {
        append(&Event::Name { what, name }, &mut known);
    }
    drop(known);
    if let Some(session) = Session::current() {
        log(session, &Event::Name { what, name });
    }
}

/// The handle of the domain of this name; the same name is the same domain. 0, the default domain, if there are too
/// many.
pub(super) fn create_domain(text: &[u8]) -> usize {
    let found = (0..DOMAINS.len()).find(|&index| DOMAINS.get(index) == Some(text));
    let Some(index) = found.or_else(|| DOMAINS.add(text)) else { return 0 };
    if found.is_none() {
        name(Named::Domain { domain: index as u32 + 1 }, text); // CAST: `Growing` is far smaller
    }
    OWN_HANDLE + index + 1
}

/// The domain of a handle, whoever gave it out. A handle that nobody gave out counts as the default domain.
#[inline]
pub(super) fn domain(handle: usize) -> u32 {
    if handle == 0 {
        return DEFAULT_DOMAIN;
    }
    match handle.checked_sub(OWN_HANDLE) {
        Some(number) if number <= DOMAINS.len() => number as u32, // CAST: `Growing` is far smaller
        _ => FOREIGN_DOMAINS.get(handle).unwrap_or(DEFAULT_DOMAIN),
    }
}

/// The handle of a string that is registered now; NULL, which stands for no text, if there are too many.
pub(super) fn register_string(text: &[u8]) -> usize {
    STRINGS.add(text).map_or(0, |index| OWN_HANDLE + index + 1)
}

/// The text of a registered string; empty if nobody gave out the handle.
#[inline]
pub(super) fn registered(handle: usize) -> &'static [u8] {
    let number = match handle.checked_sub(OWN_HANDLE) {
        Some(number) if number <= STRINGS.len() => Some(number),
        _ => FOREIGN_STRINGS.get(handle).map(|number| number as usize),
    };
    number.and_then(|number| STRINGS.get(number.checked_sub(1)?)).unwrap_or(&[])
}

/// CUPTI gave out a handle for what this handler knows under its own.
pub(super) fn alias_domain(foreign: usize, own: usize) {
    FOREIGN_DOMAINS.set(foreign, domain(own));
}

/// See [`alias_domain`].
pub(super) fn alias_string(foreign: usize, own: usize) {
    FOREIGN_STRINGS.set(foreign, own.saturating_sub(OWN_HANDLE) as u32); // CAST: `Growing` is far smaller
}

/// Texts that are only added and never move, so that readers need no lock: chunks of 64, 128, 256, …
struct Growing {
    chunks: [OnceLock<Chunk>; Self::CHUNKS],
    len: AtomicUsize,
}

type Chunk = Box<[OnceLock<Box<[u8]>>]>;

impl Growing {
    /// About a million texts.
    const CHUNKS: usize = 14;
    const FIRST: usize = 64;

    const fn new() -> Self {
        Self { chunks: [const { OnceLock::new() }; Self::CHUNKS], len: AtomicUsize::new(0) }
    }

    fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    /// Where a text is: its chunk, and its place there.
    fn place(index: usize) -> (usize, usize) {
        let chunk = (index / Self::FIRST + 1).ilog2() as usize;
        (chunk, index - Self::FIRST * ((1 << chunk) - 1))
    }

    fn add(&self, text: &[u8]) -> Option<usize> {
        let limit = Self::FIRST * ((1 << Self::CHUNKS) - 1);
        let next = |len| (len < limit).then_some(len + 1);
        let index = self.len.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).ok()?;
        let (chunk, at) = Self::place(index);
        let new = || (0..Self::FIRST << chunk).map(|_| OnceLock::new()).collect();
        self.chunks.get(chunk)?.get_or_init(new).get(at)?.set(text.into()).ok()?;
        Some(index)
    }

    fn get(&self, index: usize) -> Option<&[u8]> {
        let (chunk, at) = Self::place(index);
        self.chunks.get(chunk)?.get()?.get(at)?.get().map(|text| &**text)
    }
}

/// Numbers by foreign handle. Fixed in size; handles beyond that are not known.
struct HandleMap {
    places: OnceLock<Box<[Place]>>,
}

/// A handle (0 for a free place) and its number.
type Place = (AtomicUsize, AtomicU32);

impl HandleMap {
    const PLACES: usize = 8192;

    const fn new() -> Self {
        Self { places: OnceLock::new() }
    }

    /// The places where a handle may be, in the order in which they are tried.
    fn probe(places: &[Place], handle: usize) -> impl Iterator<Item = &Place> {
        // Multiplying by the golden ratio spreads pointers, whose low bits are alike.
        let first = handle.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        (0..places.len()).filter_map(move |step| places.get((first + step) % places.len()))
    }

    fn set(&self, handle: usize, number: u32) {
        let new = || (0..Self::PLACES).map(|_| (AtomicUsize::new(0), AtomicU32::new(0))).collect();
        for (key, value) in Self::probe(self.places.get_or_init(new), handle) {
            let taken = key.compare_exchange(0, handle, Ordering::Relaxed, Ordering::Relaxed);
            if taken.is_ok() || taken == Err(handle) {
                // ATOMICS: pairs with the acquire load in `get`: whoever has the number also finds what it names.
                value.store(number, Ordering::Release);
                return;
            }
        }
    }

    fn get(&self, handle: usize) -> Option<u32> {
        for (key, value) in Self::probe(self.places.get()?, handle) {
            match key.load(Ordering::Relaxed) {
                0 => return None,
                // ATOMICS: pairs with the release store in `set`.
                key if key == handle => return Some(value.load(Ordering::Acquire)),
                _ => {}
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_stay_where_they_are_while_others_are_added() {
        let texts = Growing::new();
        for index in 0..5000_usize {
            assert_eq!(texts.add(index.to_string().as_bytes()), Some(index));
        }
        assert!((0..5000).all(|index| texts.get(index) == Some(index.to_string().as_bytes())));
        assert_eq!(texts.get(5000), None);
        assert_eq!(texts.get(usize::MAX / 2), None);
    }

    #[test]
    fn foreign_handles_are_found_until_the_map_is_full() {
        let map = HandleMap::new();
        assert_eq!(map.get(16), None);
        let handles = || (1..=HandleMap::PLACES + 5).map(|n| n * 16);
        handles().for_each(|handle| map.set(handle, handle as u32));
        map.set(16, 99);
        assert_eq!(map.get(16), Some(99));
        let found = handles().filter(|&handle| map.get(handle).is_some()).count();
        assert_eq!(found, HandleMap::PLACES);
    }

    #[test]
    fn equal_names_are_one_domain_and_handles_that_nobody_gave_out_are_the_default_one() {
        let _alone = crate::channel::tests::no_session();
        let one = create_domain(b"one domain");
        let other = create_domain(b"another domain");
        assert_eq!(create_domain(b"one domain"), one);
        assert_ne!(domain(one), domain(other));
        for wild in [0, 1, usize::MAX, OWN_HANDLE + 1_000_000, 0xdead_beef] {
            assert_eq!(domain(wild), DEFAULT_DOMAIN);
            assert_eq!(registered(wild), b"");
        }
        alias_domain(0x7fff_0000_1000, other);
        assert_eq!(domain(0x7fff_0000_1000), domain(other));
    }
}
