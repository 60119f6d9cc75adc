//! A session that empties the L2 cache before each range, with the proof that it is empty, or that holds the clocks.

use super::hook::BetweenPasses;
use super::plan::Plan;
use super::session::Session;
use crate::control::{ClockGuard, L2Control};
use crate::error::{Error, ErrorKind, Result};

/// Applies the control before each pass and before each range that is in no other, and waits for it, so that no work of
/// its own is counted.
///
/// In a session that counts each kernel by itself only the first kernel of a pass finds the cache so: for the others,
/// CUPTI has to do it ([`Cache::Cupti`](crate::Cache::Cupti)).
impl BetweenPasses for L2Control {
    fn before_pass(&mut self, _pass: usize) -> Result<()> {
        self.apply()
    }

    fn before_range(&mut self, _name: &str, level: u16) -> Result<()> {
        if level == 1 { self.apply() } else { Ok(()) }
    }

    fn cache_state(&self) -> &str {
        self.report().cache.state()
    }
}

/// Holds the clocks for as long as the session counts; its rows say at which they were counted. The cache is
/// [`Session::cache`]'s.
impl BetweenPasses for ClockGuard {
    fn clock_mode(&self) -> &str {
        self.report().clock_mode()
    }
}

/// Of what the SMs load and store: instructions and constants, which each SM fetches for the probe itself, hit after its
/// neighbours' first fetch (3 % of all look-ups on an H200, with every byte of the data from device memory).
const HITS: &str = "lts__t_sectors_srcunit_tex_lookup_hit.sum";
const MISSES: &str = "lts__t_sectors_srcunit_tex_lookup_miss.sum";
const DRAM_READ: &str = "dram__bytes_read.sum";

/// What an [`L2Control`] leaves of a program's data in the L2 cache. Made by [`l2_residual`].
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct L2Residual {
    /// Hits over look-ups of the L2 cache, from 0 to 1, of what the SMs load and store:
    /// `lts__t_sectors_srcunit_tex_lookup_hit` and `…_miss`.
    pub hit_ratio: f64,
    /// Bytes that came from the device memory over bytes that were read: `dram__bytes_read.sum`. About 1 where nothing
    /// was left in the cache; none where the chip does not count it.
    pub dram_read_ratio: Option<f64>,
    /// How much was read: a quarter of the cache.
    pub probe_bytes: u64,
}

/// Measures what a control of the L2 cache leaves in it.
///
/// A kernel of the crate reads a buffer of a quarter of the cache, which brings it in; then the control is applied; then
/// the kernel reads the buffer again, and that is counted. After a flush that works, hardly anything hits: on an H200
/// at most 2 %.
///
/// # Errors
/// As [`Session::run`]; [`ErrorKind::Config`] for a control that does nothing to the cache;
/// [`ErrorKind::NotSupported`] where the chip does not count hits.
pub fn l2_residual(control: &mut L2Control) -> Result<L2Residual> {
    let plan = Plan::for_device(control.ordinal(), [HITS, MISSES, DRAM_READ])?;
    control.verify(|probe| {
        let counted = Session::new(plan).run(|pass| {
            probe.prepare()?;
            pass.range("probe", || probe.launch())
        })?;
        let value = |metric| counted.value("probe", metric).filter(|value| value.is_finite());
        let look_ups = value(HITS).zip(value(MISSES)).filter(|(hits, misses)| hits + misses > 0.0);
        let (hits, misses) = look_ups.ok_or_else(|| {
            Error::new(ErrorKind::NotSupported, format!("there is no value of {HITS} or {MISSES}"))
        })?;
        // CAST: exact up to 2^53 bytes.
        let dram_read_ratio = value(DRAM_READ).map(|bytes| bytes / probe.bytes() as f64);
        Ok(L2Residual { hit_ratio: hits / (hits + misses), dram_read_ratio, probe_bytes: probe.bytes() })
    })
}
