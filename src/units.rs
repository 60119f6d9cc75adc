//! Newtypes for ids and times, so that two of them cannot be exchanged in a call.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::num::{NonZeroU32, NonZeroU64};
use std::sync::OnceLock;

/// A time in nanoseconds on CUPTI's host clock: nanoseconds since the Unix epoch (CUPTI's default on Linux).
///
/// `i64` reaches until the year 2262 and is what every Parquet reader keeps without loss.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub i64);

impl Nanos {
    /// The present host time, from `CLOCK_REALTIME` (about 20 ns, no system call on Linux).
    #[must_use]
    pub fn now() -> Self {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
        // Seconds since 1970 fit 34 bits until 2514, so the product stays inside i64 until 2262.
        Self(now.tv_sec.wrapping_mul(1_000_000_000).wrapping_add(now.tv_nsec))
    }
}

/// What tells this process from every other, also from one with the same id in another container or at another time: 16
/// hexadecimal digits, drawn once.
pub(crate) fn process_run() -> &'static str {
    static DRAWN: OnceLock<String> = OnceLock::new();
    DRAWN.get_or_init(|| {
        // Its keys are from the system's source of random bytes.
        let mut hasher = RandomState::new().build_hasher();
        hasher.write_i64(Nanos::now().0);
        hasher.write_u32(std::process::id());
        format!("{:016x}", hasher.finish())
    })
}

/// CUPTI's correlation id: the same number on an API call and on every device record that it caused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CorrelationId(pub u32);

/// One range instance, unique in the process; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RangeId(pub NonZeroU64);

impl RangeId {
    /// The id as a table column; ids are handed out from 1 upwards and stay far below `i64::MAX`.
    #[must_use]
    pub fn to_i64(self) -> i64 {
        // CAST: ids are counted up from 1 by one process, which cannot reach 2^63.
        self.0.get() as i64
    }

    /// The range with this number, or none for 0, which stands for "no range" on the wire.
    #[must_use]
    pub fn from_raw(raw: u64) -> Option<Self> {
        NonZeroU64::new(raw).map(Self)
    }
}

/// How often the set of open process-wide ranges had changed at some moment; 0 before the first change.
///
/// Every change (a process range starts or ends) takes the next number, so a launch that carries the number
/// names the exact set that was open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessEpoch(pub u32);

/// The name of a launched function, as one thread told it; only good within one session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SymbolId(NonZeroU32);

impl SymbolId {
    /// The symbol with this number, or none for 0, which stands for "no name" on the wire.
    #[must_use]
    pub fn from_raw(raw: u32) -> Option<Self> {
        NonZeroU32::new(raw).map(Self)
    }

    /// The number on the wire.
    #[must_use]
    pub fn to_raw(self) -> u32 {
        self.0.get()
    }
}

/// The operating system's id of a thread (`gettid`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ThreadId(pub u32);
