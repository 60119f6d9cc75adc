//! CUPTI with nothing of cuprof around it: what its records cost at least.
//!
//! The floor is as good as it gets: buffers are pooled, touched before use, and handed back cleared, so that CUPTI need
//! not clear them in a launch. The usual recipe is as it is found in tools: 8 MiB from malloc for each request, freed
//! after use, and all driver calls recorded. Either way records are only counted.
#![expect(unsafe_code, reason = "calls CUPTI directly")]

use std::alloc::Layout;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use cupti_sys::bindings::{
    CUcontext, CUpti_Activity, CUpti_ActivityAttribute, CUpti_ActivityKind, CUpti_CallbackDomain,
    CUpti_Subscriber_st, CUpti_driver_api_trace_cbid_enum, CUptiResult,
};
use cupti_sys::{Cupti, LoadOptions, Symbols};

/// The size of a buffer.
pub const BUFFER_BYTES: usize = 1 << 20;
/// How many there are.
const BUFFERS: usize = 384;
/// Device-side buffers that CUPTI allocates with a context.
const DEVICE_BUFFERS: usize = 40;

const MARKER: u32 = 12;
const DRIVER: u32 = 4;
const CONCURRENT_KERNEL: u32 = 10;

/// What was delivered since the last start.
#[derive(Default)]
pub struct Seen {
    kernels: AtomicU64,
    markers: AtomicU64,
    calls: AtomicU64,
    others: AtomicU64,
    /// Requests for which there was no buffer.
    declined: AtomicU64,
    /// Buffers that are not ours: another client's, delivered late.
    foreign: AtomicU64,
}

/// The counts, read.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    pub kernels: u64,
    pub markers: u64,
    pub calls: u64,
    #[expect(dead_code, reason = "shown where the counts are not as they should be")]
    pub others: u64,
    pub declined: u64,
    pub foreign: u64,
    /// Buffers that CUPTI has not given back: the next client would get them.
    pub outstanding: u64,
}

struct Shared {
    next_record: unsafe extern "C" fn(*mut u8, usize, *mut *mut CUpti_Activity) -> CUptiResult,
    /// The slab's addresses.
    slab: std::ops::Range<usize>,
    free: Mutex<Vec<usize>>,
    seen: Seen,
}

static SHARED: OnceLock<Shared> = OnceLock::new();
static PREPARED: AtomicBool = AtomicBool::new(false);

unsafe extern "C" fn request(buffer: *mut *mut u8, size: *mut usize, max_records: *mut usize) {
    let Some(shared) = SHARED.get() else { return };
    let block = shared.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
    if block.is_none() {
        shared.seen.declined.fetch_add(1, Ordering::Relaxed);
    }
    // SAFETY: CUPTI gives three places to write to.
    unsafe { buffer.write(block.unwrap_or(0) as *mut u8) };
    // SAFETY: as above.
    unsafe { size.write(if block.is_some() { BUFFER_BYTES } else { 0 }) };
    // SAFETY: as above.
    unsafe { max_records.write(0) };
}

unsafe extern "C" fn complete(
    _context: CUcontext,
    _stream: u32,
    buffer: *mut u8,
    _size: usize,
    valid: usize,
) {
    let Some(shared) = SHARED.get() else { return };
    if !shared.slab.contains(&(buffer as usize)) {
        shared.seen.foreign.fetch_add(1, Ordering::Relaxed);
        return;
    }
    shared.count(buffer, valid);
    // SAFETY: the block is ours again, and CUPTI was promised cleared ones.
    unsafe { std::ptr::write_bytes(buffer, 0, BUFFER_BYTES) };
    shared.free.lock().unwrap_or_else(PoisonError::into_inner).push(buffer as usize);
}

/// The usual recipe's buffers.
const USUAL: Layout = match Layout::from_size_align(8 << 20, 8) {
    Ok(layout) => layout,
    Err(_) => unreachable!(),
};

static USUAL_OUTSTANDING: AtomicU64 = AtomicU64::new(0);

/// The subscriber of `Records::KernelsAndCallback`.
static SUBSCRIBER: AtomicPtr<CUpti_Subscriber_st> = AtomicPtr::new(std::ptr::null_mut());

unsafe extern "C" fn nothing(_: *mut c_void, _: CUpti_CallbackDomain, _: u32, _: *const c_void) {}

unsafe extern "C" fn usual_request(buffer: *mut *mut u8, size: *mut usize, max_records: *mut usize) {
    USUAL_OUTSTANDING.fetch_add(1, Ordering::Relaxed);
    // SAFETY: the layout has a size.
    let block = unsafe { std::alloc::alloc(USUAL) };
    // SAFETY: CUPTI gives three places to write to.
    unsafe { buffer.write(block) };
    // SAFETY: as above.
    unsafe { size.write(if block.is_null() { 0 } else { USUAL.size() }) };
    // SAFETY: as above.
    unsafe { max_records.write(0) };
}

unsafe extern "C" fn usual_complete(_: CUcontext, _: u32, buffer: *mut u8, size: usize, valid: usize) {
    let Some(shared) = SHARED.get() else { return };
    if size != USUAL.size() {
        shared.seen.foreign.fetch_add(1, Ordering::Relaxed);
        return;
    }
    shared.count(buffer, valid);
    USUAL_OUTSTANDING.fetch_sub(1, Ordering::Relaxed);
    // SAFETY: only `usual_request` hands out blocks of this size.
    unsafe { std::alloc::dealloc(buffer, USUAL) };
}

impl Shared {
    /// Walks a buffer that CUPTI has just handed back, with `valid` bytes of records.
    fn count(&self, buffer: *mut u8, valid: usize) {
        let (mut kernels, mut markers, mut calls, mut others) = (0, 0, 0, 0);
        let mut record: *mut CUpti_Activity = std::ptr::null_mut();
        // SAFETY: both callbacks pass on what CUPTI gave them.
        while unsafe { (self.next_record)(buffer, valid, &raw mut record) }.0 == 0 {
            // SAFETY: the record lies in the buffer; every record begins with its kind.
            match unsafe { record.cast::<u32>().read() } {
                CONCURRENT_KERNEL => kernels += 1,
                MARKER => markers += 1,
                DRIVER => calls += 1,
                _ => others += 1,
            }
        }
        let seen = &self.seen;
        for (counter, count) in
            [(&seen.kernels, kernels), (&seen.markers, markers), (&seen.calls, calls), (&seen.others, others)]
        {
            counter.fetch_add(count, Ordering::Relaxed);
        }
    }
}

/// The CUPTI library, loaded like cuprof loads it.
pub struct Raw {
    cupti: Cupti,
}

/// Which records are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Records {
    Kernels,
    /// Kernels, and a callback at each launch that does nothing: what attribution by launch cannot do without.
    KernelsAndCallback,
    /// Kernels, one record for each driver call, and two for each NVTX range.
    UsualRecipe,
}

impl Records {
    fn kinds(self) -> &'static [u32] {
        match self {
            Self::Kernels | Self::KernelsAndCallback => &[CONCURRENT_KERNEL],
            Self::UsualRecipe => &[CONCURRENT_KERNEL, MARKER, DRIVER],
        }
    }
}

macro_rules! call {
    ($symbols:expr, $name:ident ( $($arg:expr),* )) => {
        match $symbols.$name {
            None => Err(concat!("this libcupti exports no ", stringify!($name)).to_owned()),
            Some(function) => {
                // SAFETY: the table gives the function its declared type; pointers are to locals that outlive the call.
                match unsafe { function($($arg),*) }.0 {
                    0 => Ok(()),
                    code => Err(format!("{} returned {code}", stringify!($name))),
                }
            }
        }
    };
}

impl Raw {
    /// Loads the library. Before the first context, also asks for device-side buffers to be allocated with it, as
    /// cuprof does, so that both find the same.
    pub fn load(cuda_major: Option<u32>) -> Result<Self, String> {
        let options = LoadOptions { max_major: cuda_major, companions: false, ..LoadOptions::default() };
        let cupti = Cupti::load(&options).map_err(|error| error.to_string())?;
        let next_record = cupti
            .symbols()
            .cuptiActivityGetNextRecord
            .ok_or("libcupti exports no cuptiActivityGetNextRecord")?;
        SHARED.get_or_init(|| {
            let slab = vec![0_u64; BUFFERS * BUFFER_BYTES / 8].leak();
            slab.iter_mut().for_each(|word| {
                // SAFETY: a plain store to memory that we own; volatile, so that every page is really touched.
                unsafe { std::ptr::write_volatile(word, 0) }
            });
            let start = slab.as_ptr() as usize;
            let free = (0..BUFFERS).map(|index| start + index * BUFFER_BYTES).collect();
            Shared {
                next_record,
                slab: start..start + BUFFERS * BUFFER_BYTES,
                free: Mutex::new(free),
                seen: Seen::default(),
            }
        });
        let this = Self { cupti };
        if !PREPARED.swap(true, Ordering::Relaxed)
            && let Err(error) = this.set(
                CUpti_ActivityAttribute::CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_PRE_ALLOCATE_VALUE,
                DEVICE_BUFFERS,
            )
        {
            println!("(device-side buffers are not pre-allocated: {error})");
        }
        Ok(this)
    }

    fn set<T>(&self, attribute: CUpti_ActivityAttribute, mut value: T) -> Result<(), String> {
        let mut size = size_of::<T>();
        call!(self.symbols(), cuptiActivitySetAttribute(attribute, &raw mut size, (&raw mut value).cast()))
    }

    /// The function table.
    pub fn symbols(&self) -> &Symbols {
        self.cupti.symbols()
    }

    /// `CUPTI 13.0.1 (API 130001) from /usr/…`.
    pub fn describe(&self) -> String {
        let version = match self.cupti.version() {
            Ok(version) => version.to_string(),
            Err(code) => format!("CUPTI of unknown version ({})", code.0),
        };
        format!("{version} from {}", self.cupti.path().display())
    }

    /// Begins to collect records.
    pub fn start(&self, records: Records) -> Result<(), String> {
        let symbols = self.symbols();
        if let Some(Shared { seen, .. }) = SHARED.get() {
            let all =
                [&seen.kernels, &seen.markers, &seen.calls, &seen.others, &seen.declined, &seen.foreign];
            all.into_iter().for_each(|counter| counter.store(0, Ordering::Relaxed));
        }
        if records == Records::KernelsAndCallback {
            let mut subscriber = std::ptr::null_mut();
            call!(symbols, cuptiSubscribe(&raw mut subscriber, Some(nothing), std::ptr::null_mut()))?;
            SUBSCRIBER.store(subscriber, Ordering::Relaxed);
            let launch = CUpti_driver_api_trace_cbid_enum::CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel.0;
            let domain = CUpti_CallbackDomain::CUPTI_CB_DOMAIN_DRIVER_API;
            call!(symbols, cuptiEnableCallback(1, subscriber, domain, launch))?;
        }
        let usual = records == Records::UsualRecipe;
        let cleared = u8::from(!usual);
        self.set(CUpti_ActivityAttribute::CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER, cleared)?;
        if usual {
            call!(symbols, cuptiActivityRegisterCallbacks(Some(usual_request), Some(usual_complete)))?;
        } else {
            call!(symbols, cuptiActivityRegisterCallbacks(Some(request), Some(complete)))?;
        }
        for kind in records.kinds() {
            call!(symbols, cuptiActivityEnable(CUpti_ActivityKind(*kind)))?;
        }
        Ok(())
    }

    /// Ends what [`start`](Self::start) began, and tells what was delivered. The GPU's work must be done.
    pub fn stop(&self, records: Records) -> Result<Counts, String> {
        const FORCED: u32 = 1;
        let symbols = self.symbols();
        call!(symbols, cuptiActivityFlushAll(0))?;
        call!(symbols, cuptiActivityFlushAll(FORCED))?;
        for kind in records.kinds().iter().rev() {
            call!(symbols, cuptiActivityDisable(CUpti_ActivityKind(*kind)))?;
        }
        call!(symbols, cuptiActivityFlushAll(FORCED))?;
        if records == Records::KernelsAndCallback {
            call!(symbols, cuptiUnsubscribe(SUBSCRIBER.load(Ordering::Relaxed)))?;
        }
        let shared = SHARED.get().ok_or("CUPTI is not loaded")?;
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let seen = &shared.seen;
        Ok(Counts {
            kernels: count(&seen.kernels),
            markers: count(&seen.markers),
            calls: count(&seen.calls),
            others: count(&seen.others),
            declined: count(&seen.declined),
            foreign: count(&seen.foreign),
            outstanding: (BUFFERS - shared.free.lock().unwrap_or_else(PoisonError::into_inner).len()) as u64
                + USUAL_OUTSTANDING.load(Ordering::Relaxed),
        })
    }
}
