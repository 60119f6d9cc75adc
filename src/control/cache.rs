//! The state of the L2 cache before a measured kernel.

use std::fmt;

use crate::driver::{Context, Device, Driver, Function, Memory, Module, Stream};
use crate::error::{Error, ErrorKind, Result};
use crate::range::internally;

/// The crate's own kernels; the driver compiles them for the device.
const KERNELS: &str = concat!(include_str!("kernels.ptx"), "\0");

/// The same, as the driver takes it.
pub(super) fn kernels() -> Result<&'static std::ffi::CStr> {
    std::ffi::CStr::from_bytes_with_nul(KERNELS.as_bytes())
        .map_err(|source| Error::new(ErrorKind::Format, "the kernels' text").with_source(source))
}

/// How much the flush reads, in sizes of the L2 cache. On an H200, one size left as little as two, and four bought
/// nothing more; two leave room for caches that do not replace the oldest line first.
const SWEEP_SIZES: u64 = 2;

/// Threads in a block of our kernels, and blocks per multiprocessor: together what a multiprocessor holds at most, so
/// that the grid is one wave.
const SWEEP_THREADS: u32 = 512;
const SWEEP_BLOCKS_PER_MULTIPROCESSOR: u32 = 4;

/// The scratch buffer and the sweep are a whole number of this.
const GRANULE_BYTES: u64 = 1 << 20;

/// What the L2 cache holds when a measured kernel starts.
///
/// ```
/// use cuprof::{Cache, FillSize};
///
/// assert_eq!(Cache::default(), Cache::Flush);
/// assert_eq!(Cache::Flush.state(), "cold_clean");
/// assert_eq!(Cache::Memset(FillSize::TimesL2(1)).state(), "cold_dirty");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Cache {
    /// Nothing is done: the cache holds what the program left in it.
    Keep,
    /// Nothing of the program's: the cache is swept by reading twice its size of the crate's own memory.
    ///
    /// The lines that are left are clean. That matters: what a fill leaves is dirty, and is written back while the
    /// measured kernel runs, which made a read of 16 MiB look 32 % slower on an H200 (and a copy 21 %).
    #[default]
    Flush,
    /// The cache is filled by a memset of the crate's own memory, as many tools do, for comparison with them. The
    /// lines that are left are dirty.
    Memset(FillSize),
    /// CUPTI empties the cache before each pass of a counter session, where its version can (13.4); without counters
    /// this does nothing.
    Cupti(CuptiCache),
}

impl Cache {
    /// The state in one word, as tables have it: `none` (nothing was done), `cold_clean`, `cold_dirty`, `cupti`.
    #[must_use]
    pub fn state(self) -> &'static str {
        match self {
            Self::Keep => "none",
            Self::Flush => "cold_clean",
            Self::Memset(_) => "cold_dirty",
            Self::Cupti(_) => "cupti",
        }
    }

    /// The `CUpti_CacheControl_Mode` that a counter session enables with: 0 unless CUPTI was asked.
    #[must_use]
    pub fn cupti_mode(self) -> u32 {
        use cupti_sys::bindings::CUpti_CacheControl_Mode as Mode;
        match self {
            Self::Cupti(CuptiCache::All) => Mode::CUPTI_CACHE_CONTROL_MODE_ALL.0,
            Self::Cupti(CuptiCache::L2) => Mode::CUPTI_CACHE_CONTROL_MODE_L2.0,
            Self::Keep | Self::Flush | Self::Memset(_) => Mode::CUPTI_CACHE_CONTROL_MODE_NONE.0,
        }
    }

    /// How many bytes one application reads or writes on a device with this L2 cache.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] where a fill has no size, or one beyond what a device has.
    fn bytes(self, l2_bytes: u64) -> Result<u64> {
        const MOST: u64 = 1 << 40;
        let bytes = match self {
            Self::Keep | Self::Cupti(_) => return Ok(0),
            Self::Flush => l2_bytes.saturating_mul(SWEEP_SIZES),
            Self::Memset(FillSize::TimesL2(times)) => l2_bytes.saturating_mul(times.into()),
            Self::Memset(FillSize::Bytes(bytes)) => bytes,
        };
        if (1..=MOST).contains(&bytes) {
            return Ok(bytes.next_multiple_of(GRANULE_BYTES));
        }
        Err(Error::new(ErrorKind::Config, format!("{self} would touch {bytes} bytes"))
            .with_hint(format!("it must be at least 1 and at most {MOST}")))
    }
}

impl fmt::Display for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Keep => f.write_str("keep"),
            Self::Flush => write!(f, "flush (read {SWEEP_SIZES}x L2)"),
            Self::Memset(FillSize::TimesL2(times)) => write!(f, "memset {times}x L2"),
            Self::Memset(FillSize::Bytes(bytes)) => write!(f, "memset {bytes} bytes"),
            Self::Cupti(CuptiCache::All) => f.write_str("CUPTI, all caches"),
            Self::Cupti(CuptiCache::L2) => f.write_str("CUPTI, L2"),
        }
    }
}

/// How much a [`Cache::Memset`] fills.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FillSize {
    /// So many sizes of the L2 cache.
    TimesL2(u32),
    /// So many bytes, rounded up to whole MiB.
    Bytes(u64),
}

/// What CUPTI empties.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CuptiCache {
    /// All caches that it controls.
    All,
    /// The L2 cache.
    L2,
}

/// What an [`L2Control`] did.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheReport {
    /// What was asked for.
    pub cache: Cache,
    /// UUID of the device, as `GPU-xxxxxxxx-…`.
    pub device_uuid: String,
    /// Size of its L2 cache in bytes, as the driver tells it (a slice, under MIG).
    pub l2_bytes: u64,
    /// What one application read or wrote; 0 where nothing is done.
    pub bytes: u64,
    /// How often it was applied. A session that traced them has the times: rows of `overheads` of the kind
    /// `cuprof_cache_flush`.
    pub applied: u64,
    /// How often persisting lines were made normal before.
    pub persisting_resets: u64,
}

impl fmt::Display for CacheReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cache, device_uuid, l2_bytes, bytes, applied, persisting_resets } = self;
        write!(f, "cache: {cache}")?;
        if *bytes > 0 {
            let mib = |bytes: u64| bytes / GRANULE_BYTES;
            write!(f, ", {applied} times {} MiB on {device_uuid} (L2: {} MiB)", mib(*bytes), mib(*l2_bytes))?;
        }
        if *persisting_resets > 0 {
            write!(f, ", persisting lines reset {persisting_resets} times")?;
        }
        Ok(())
    }
}

/// Brings the L2 cache of one context's device into the wished state, as often as asked.
///
/// It owns a buffer of the size that it sweeps (120 MB on an H200) and a stream in the context that was current when it
/// was made; both go when it is dropped. Drop it before the context is destroyed: a destroyed context takes them along.
///
/// A tracing session knows the work as the crate's own: it is in no range and in no table but `overheads`.
///
/// ```no_run
/// # fn main() -> cuprof::Result<()> {
/// use cuprof::{Cache, L2Control};
///
/// let mut l2 = L2Control::new(Cache::Flush)?; // the program's context is current
/// for _ in 0..20 {
///     l2.apply()?;
///     // … the measured kernel finds nothing of its own in the cache …
/// }
/// println!("{}", l2.report());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct L2Control {
    report: CacheReport,
    ordinal: u32,
    reset_persisting: bool,
    work: Option<Work>,
}

/// What it needs on the device.
#[derive(Debug)]
struct Work {
    driver: &'static Driver,
    context: Context,
    blocks: u32,
    held: Held,
}

/// What is to be given back.
#[derive(Debug, Default)]
struct Held {
    module: Option<Module>,
    sweep: Option<Function>,
    probe: Option<Function>,
    stream: Option<Stream>,
    scratch: Option<Memory>,
    /// Read by the probe. Not the scratch buffer: the sweep would bring it in.
    victim: Option<Memory>,
}

impl L2Control {
    /// Allocates what is needed in the context that is current to this thread, and does it once, so that the first
    /// time that counts is like the others.
    ///
    /// # Errors
    /// [`ErrorKind::NoDriver`]; [`ErrorKind::Config`] where no context is current or a size is out of range;
    /// [`ErrorKind::Call`] where the driver refuses, for instance for want of device memory.
    pub fn new(cache: Cache) -> Result<Self> {
        let driver = Driver::get()?;
        let (context, device) = driver.current()?;
        let bytes = cache.bytes(device.l2_bytes)?;
        let work = if bytes == 0 { None } else { Some(Work::new(driver, context, &device, bytes)?) };
        let report = CacheReport {
            cache,
            device_uuid: device.uuid,
            l2_bytes: device.l2_bytes,
            bytes,
            applied: 0,
            persisting_resets: 0,
        };
        let control = Self { report, ordinal: device.ordinal, reset_persisting: false, work };
        if let Some(work) = &control.work {
            work.run(cache, bytes, None)?;
        }
        Ok(control)
    }

    /// Also makes persisting lines of the cache normal ones before each application, since a flush does not touch
    /// them (`cuCtxResetPersistingL2Cache`). It does so for the whole device, and GPUs before compute capability 8.0
    /// have no such lines. Default: off, for programs that do not set an access policy.
    #[must_use]
    pub fn with_persisting_reset(mut self, reset: bool) -> Self {
        self.reset_persisting = reset;
        self
    }

    /// Waits for the context, brings the cache into the wished state, and waits for that. From any thread.
    ///
    /// # Errors
    /// The failed call of the driver.
    pub fn apply(&mut self) -> Result<()> {
        self.apply_to(None)
    }

    /// Has it done in a stream, behind what is there and before what comes: the device is then not left idle between
    /// the flush and the measured kernel, which lets clocks fall and shows in times. Does not wait.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] where the stream is being captured into a graph; else the failed call of the driver.
    pub fn apply_on(&mut self, stream: Stream) -> Result<()> {
        self.apply_to(Some(stream))
    }

    fn apply_to(&mut self, stream: Option<Stream>) -> Result<()> {
        let Some(work) = &self.work else { return Ok(()) };
        if self.reset_persisting {
            work.driver.within(work.context, || work.driver.reset_persisting_l2())?;
            self.report.persisting_resets += 1;
        }
        work.run(self.report.cache, self.report.bytes, stream)?;
        self.report.applied += 1;
        Ok(())
    }

    /// The device's number in this process.
    pub(crate) fn ordinal(&self) -> u32 {
        self.ordinal
    }

    /// What was done so far.
    #[must_use]
    pub fn report(&self) -> &CacheReport {
        &self.report
    }

    /// Lends the kernel by which it can be measured what is left in the cache; `counters::l2_residual` does that.
    ///
    /// `measure` calls [`Probe::prepare`] before each pass, and [`Probe::launch`] in what it measures.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] where nothing is done to the cache; else of the driver's calls and of `measure`.
    pub fn verify<T>(&mut self, measure: impl FnOnce(&mut Probe<'_>) -> Result<T>) -> Result<T> {
        let Some(work) = &mut self.work else {
            let what = format!("{} leaves nothing to verify", self.report.cache);
            return Err(Error::new(ErrorKind::Config, what));
        };
        let bytes = (self.report.l2_bytes / 4).next_multiple_of(GRANULE_BYTES);
        work.make_probe(bytes)?;
        measure(&mut Probe { control: self, bytes })
    }
}

/// The kernel by which a flush is verified.
#[derive(Debug)]
pub struct Probe<'a> {
    control: &'a mut L2Control,
    bytes: u64,
}

impl Probe<'_> {
    /// How much it reads: a quarter of the L2 cache.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Brings the probe's buffer into the cache, and then the cache into its wished state.
    ///
    /// # Errors
    /// The failed call of the driver.
    pub fn prepare(&mut self) -> Result<()> {
        self.launch()?;
        self.control.apply()
    }

    /// Reads the buffer once, and waits.
    ///
    /// # Errors
    /// The failed call of the driver.
    pub fn launch(&mut self) -> Result<()> {
        self.control.work.as_ref().map_or(Ok(()), |work| work.probe(self.bytes))
    }
}

impl Work {
    fn new(driver: &'static Driver, context: Context, device: &Device, bytes: u64) -> Result<Self> {
        let blocks = device.multiprocessors.max(1) * SWEEP_BLOCKS_PER_MULTIPROCESSOR;
        let mut work = Self { driver, context, blocks, held: Held::default() };
        let ptx = kernels()?;
        // On failure, dropping the half-made value gives back what was made.
        let held = &mut work.held;
        driver.within(context, || {
            let module = held.module.insert(driver.load(ptx)?);
            held.sweep = Some(driver.function(module, c"cuprof_internal_flush_l2")?);
            held.probe = Some(driver.function(module, c"cuprof_internal_probe_l2")?);
            let stream = *held.stream.insert(driver.create_stream()?);
            let scratch = held.scratch.insert(allocate(driver, bytes)?);
            // Zeros, on which the kernel relies.
            internally(|| driver.fill(scratch, scratch.bytes, stream))?;
            driver.synchronize_stream(stream)
        })?;
        Ok(work)
    }

    /// Once; in the stream if one is given, else in our own and waited for.
    fn run(&self, cache: Cache, bytes: u64, given: Option<Stream>) -> Result<()> {
        let Held { sweep: Some(sweep), stream: Some(own), scratch: Some(scratch), .. } = &self.held else {
            return Ok(()); // not from `new`
        };
        let driver = self.driver;
        driver.within(self.context, || {
            match given {
                Some(stream) if driver.is_capturing(stream)? => {
                    let what = "the stream for the cache control is being captured into a graph";
                    return Err(Error::new(ErrorKind::Config, what)
                        .with_hint("apply it before the graph is launched, not while it is made"));
                }
                Some(_) => {}
                None => driver.synchronize_current()?,
            }
            let stream = given.unwrap_or(*own);
            internally(|| match cache {
                Cache::Flush => {
                    let parameters = [scratch.address, bytes / 16, scratch.address];
                    driver.launch(*sweep, self.blocks, SWEEP_THREADS, stream, parameters)
                }
                Cache::Memset(_) => driver.fill(scratch, scratch.bytes, stream),
                Cache::Keep | Cache::Cupti(_) => Ok(()),
            })?;
            if given.is_none() { driver.synchronize_stream(stream) } else { Ok(()) }
        })
    }

    fn make_probe(&mut self, bytes: u64) -> Result<()> {
        let (driver, held) = (self.driver, &mut self.held);
        if held.victim.is_some() {
            return Ok(());
        }
        driver.within(self.context, || {
            let victim = held.victim.insert(allocate(driver, bytes)?);
            let Some(stream) = held.stream else { return Ok(()) };
            internally(|| driver.fill(victim, victim.bytes, stream))?;
            driver.synchronize_stream(stream)
        })
    }

    fn probe(&self, bytes: u64) -> Result<()> {
        let Held { probe: Some(probe), stream: Some(stream), victim: Some(victim), .. } = &self.held else {
            return Ok(()); // only after `make_probe`
        };
        let vectors = bytes / 16;
        let blocks = u32::try_from(vectors.div_ceil(SWEEP_THREADS.into())).unwrap_or(u32::MAX);
        let parameters = [victim.address, vectors, victim.address];
        self.driver.within(self.context, || {
            internally(|| self.driver.launch(*probe, blocks, SWEEP_THREADS, *stream, parameters))?;
            self.driver.synchronize_stream(*stream)
        })
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        let (driver, held) = (self.driver, std::mem::take(&mut self.held));
        // Where this fails, the context is gone, and with it what was in it.
        let _gone_with_its_context = driver.within(self.context, || {
            // Freeing waits for work that was queued in a stream of the program's.
            let freed: Vec<_> =
                held.scratch.into_iter().chain(held.victim).map(|memory| driver.free(memory)).collect();
            let stream = held.stream.map_or(Ok(()), |stream| driver.destroy_stream(stream));
            let module = held.module.map_or(Ok(()), |module| driver.unload(module));
            freed.into_iter().collect::<Result<()>>().and(stream).and(module)
        });
    }
}

fn allocate(driver: &Driver, bytes: u64) -> Result<Memory> {
    let size = usize::try_from(bytes).unwrap_or(usize::MAX);
    driver.allocate(size).map_err(|error| {
        error.with_hint(format!("the cache control needs {} MiB of device memory", bytes / GRANULE_BYTES))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const L2: u64 = 60 << 20;

    #[test]
    fn each_mode_touches_what_it_says() {
        let bytes = |cache: Cache| cache.bytes(L2).unwrap();
        assert_eq!(bytes(Cache::Keep), 0);
        assert_eq!(bytes(Cache::Cupti(CuptiCache::L2)), 0);
        assert_eq!(bytes(Cache::Flush), 2 * L2);
        assert_eq!(bytes(Cache::Memset(FillSize::TimesL2(1))), L2);
        assert_eq!(bytes(Cache::Memset(FillSize::Bytes(256 << 20))), 256 << 20);
        assert_eq!(bytes(Cache::Memset(FillSize::Bytes(5))), 1 << 20);
    }

    #[test]
    fn a_fill_of_nothing_or_of_more_than_there_is_is_refused_with_the_range() {
        for size in [FillSize::Bytes(0), FillSize::TimesL2(0), FillSize::Bytes(u64::MAX)] {
            let error = Cache::Memset(size).bytes(L2).unwrap_err();
            assert_eq!(error.kind, ErrorKind::Config);
            assert!(error.to_string().contains("at least 1 and at most 1099511627776"), "{error}");
        }
        // A device that does not tell its L2 cannot be swept.
        assert_eq!(Cache::Flush.bytes(0).unwrap_err().kind, ErrorKind::Config);
    }

    #[test]
    fn only_what_is_asked_of_cupti_reaches_cupti() {
        let modes = [Cache::Keep, Cache::Flush, Cache::Cupti(CuptiCache::All), Cache::Cupti(CuptiCache::L2)];
        assert_eq!(modes.map(Cache::cupti_mode), [0, 0, 1, 2]);
    }

    #[test]
    fn the_kernels_are_text_that_old_drivers_compile() {
        assert!(KERNELS.is_ascii(), "PTX is ASCII");
        assert!(KERNELS.contains(".version 6.0\n.target sm_60"));
        for kernel in KERNELS.split(".entry ").skip(1) {
            assert!(kernel.starts_with(crate::range::INTERNAL_KERNELS));
        }
    }
}
