//! The names of launched functions, each told once by each thread that launches it.
//!
//! A kernel's record points to its name, but by the time that the record is read the module may be gone and the
//! pointer used again for another kernel (CUPTI before 13.4 Update 1 does so). At the launch itself the name is good.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::channel::{Event, Named, Session, log};
use crate::units::SymbolId;

/// Functions that a thread remembers; a power of two. One beyond them is told again.
const REMEMBERED: usize = 64;

/// Counts unloaded modules: what was remembered before may be another function's name by now.
static GENERATION: AtomicU32 = AtomicU32::new(0);

static NEXT: AtomicU32 = AtomicU32::new(1);

#[derive(Clone, Copy)]
struct Entry {
    address: usize,
    id: SymbolId,
}

struct Known {
    session: Option<Session>,
    generation: u32,
    entries: [Option<Entry>; REMEMBERED],
}

thread_local! {
    static KNOWN: RefCell<Known> =
        const { RefCell::new(Known { session: None, generation: 0, entries: [None; REMEMBERED] }) };
}

/// A module is about to go, and with it the names of its functions.
pub(crate) fn forget_symbols() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

/// The id of the function whose name lies at this address, which is read and logged if this thread has not told it
/// before. None for address 0, or where the thread is exiting.
#[inline]
pub(super) fn symbol<'a>(
    session: Session,
    address: usize,
    name: impl FnOnce() -> &'a [u8],
) -> Option<SymbolId> {
    if address == 0 {
        return None;
    }
    let look_up = |known: &RefCell<Known>| {
        let mut known = known.try_borrow_mut().ok()?;
        let generation = GENERATION.load(Ordering::Relaxed);
        if known.session != Some(session) || known.generation != generation {
            *known = Known { session: Some(session), generation, entries: [None; REMEMBERED] };
        }
        // Names are at least 16 bytes apart, being parts of larger objects.
        let slot = known.entries.get_mut(address / 16 % REMEMBERED)?;
        if let Some(entry) = slot.filter(|entry| entry.address == address) {
            return Some(entry.id);
        }
        let id = SymbolId::from_raw(NEXT.fetch_add(1, Ordering::Relaxed))?;
        *slot = Some(Entry { address, id });
        log(session, &Event::Name { what: Named::Symbol { symbol: id }, name: name() });
        Some(id)
    };
    KNOWN.try_with(look_up).ok().flatten()
}
