//! What CUPTI calls: on the application's threads inside its CUDA calls, and on CUPTI's own.
//!
//! Each callback is one call through the guard, takes or pushes a block or logs one event, and never waits, logs, or
//! calls CUDA or CUPTI. It allocates only where a buffer is asked for while all are in use.

use std::ffi::CStr;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Instant;

use cupti_sys::bindings as c;

use super::calls::{self, Does};
use super::contexts::CONTEXTS;
use crate::buffer::{BLOCK_BYTES, Block, Filled, Pool};
use crate::driver::Context;
use crate::gate;
use crate::panics;
use crate::range::{self, nvtx};
use crate::units::CorrelationId;

static FATAL_ERRORS: AtomicU64 = AtomicU64::new(0);
static WORKER_LISTENS: AtomicBool = AtomicBool::new(false);
static BUFFER_REQUESTED: AtomicBool = AtomicBool::new(false);
/// Whether CUPTI records what is launched now.
static RECORDS: AtomicBool = AtomicBool::new(false);
/// Streams that are being captured into graphs, as far as the session has seen.
static CAPTURES: AtomicU32 = AtomicU32::new(0);

/// What went wrong inside callbacks since the session began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Faults {
    /// Panics that were caught at the border to C.
    pub panics: u64,
    /// CUPTI's own fatal errors: it has then finalised itself.
    pub fatal_errors: u64,
}

pub(crate) fn faults() -> Faults {
    Faults { panics: panics::caught(), fatal_errors: FATAL_ERRORS.load(Ordering::Relaxed) }
}

/// From now on, filled buffers are queued for the worker.
pub(crate) fn begin_session() {
    panics::forget();
    FATAL_ERRORS.store(0, Ordering::Relaxed);
    // A context that was destroyed between sessions went unnoticed.
    CONTEXTS.clear();
    CAPTURES.store(0, Ordering::Relaxed);
    RECORDS.store(false, Ordering::Relaxed);
    WORKER_LISTENS.store(true, Ordering::Relaxed);
}

/// From now on, CUPTI has a record for each kernel that is launched; or, from now on, nobody waits for one.
pub(crate) fn expect_records(expect: bool) {
    RECORDS.store(expect, Ordering::Relaxed);
}

/// The session goes on after callbacks were off.
pub(crate) fn resume_session() {
    // Contexts that were destroyed and modules that were unloaded meanwhile went unnoticed.
    CONTEXTS.clear();
    CAPTURES.store(0, Ordering::Relaxed);
    range::forget_symbols();
}

/// From now on, filled buffers go straight back to the free ones: nobody reads them.
pub(crate) fn end_session() {
    WORKER_LISTENS.store(false, Ordering::Relaxed);
}

/// Whether CUPTI has never asked for a buffer in this process: then there is nothing to flush, and flushing a CUPTI
/// that never came up can hang. (In the session would not do: it may fill a buffer that it got before.)
pub(crate) fn seen_nothing() -> bool {
    !BUFFER_REQUESTED.load(Ordering::Relaxed)
}

/// CUPTI needs a buffer; called inside a CUDA call of the application.
pub(super) unsafe extern "C" fn buffer_requested(
    buffer: *mut *mut u8,
    size: *mut usize,
    max_num_records: *mut usize,
) {
    let give = |pointer: *mut u8, bytes: usize| {
        // SAFETY: CUPTI passes a valid out-pointer.
        unsafe { buffer.write(pointer) };
        // SAFETY: as above.
        unsafe { size.write(bytes) };
        // SAFETY: as above. 0 means: as many records as fit.
        unsafe { max_num_records.write(0) };
    };
    // Nothing at first, so that CUPTI has an answer whatever happens: it then drops records and counts them.
    give(std::ptr::null_mut(), 0);
    panics::contain("buffer_requested", (), || {
        BUFFER_REQUESTED.store(true, Ordering::Relaxed);
        if let Some(block) = Pool::get().take() {
            give(block.into_raw(), BLOCK_BYTES);
        }
    });
}

/// CUPTI gives a buffer back.
pub(super) unsafe extern "C" fn buffer_completed(
    _context: c::CUcontext,
    _stream_id: u32,
    buffer: *mut u8,
    _size: usize,
    valid_size: usize,
) {
    panics::contain("buffer_completed", (), || {
        let Some(pointer) = NonNull::new(buffer) else { return };
        // SAFETY: every buffer that CUPTI has came from `buffer_requested`, and it gives each back once.
        let block = unsafe { Block::from_raw(pointer) };
        if WORKER_LISTENS.load(Ordering::Relaxed) {
            Pool::get().complete(Filled {
                block,
                valid_bytes: valid_size.min(BLOCK_BYTES),
                completed: Instant::now(),
            });
        } else {
            Pool::get().recycle(block);
        }
    });
}

/// A subscribed event: a driver call that launches, or waits where a gate holds work back, a context, NVTX of another library, or CUPTI's own state.
pub(super) unsafe extern "C" fn api(
    _userdata: *mut std::ffi::c_void,
    domain: c::CUpti_CallbackDomain,
    cbid: c::CUpti_CallbackId,
    data: *const std::ffi::c_void,
) {
    use c::CUpti_CallbackDomain as Domain;
    panics::contain("api", (), || match domain {
        Domain::CUPTI_CB_DOMAIN_DRIVER_API => {
            // SAFETY: in this domain CUPTI passes a CUpti_CallbackData that lives during the callback.
            let data = unsafe { &*data.cast::<c::CUpti_CallbackData>() };
            driver_call(cbid, data);
        }
        Domain::CUPTI_CB_DOMAIN_RESOURCE => {
            // SAFETY: in this domain CUPTI passes a CUpti_ResourceData that lives during the callback.
            let data = unsafe { &*data.cast::<c::CUpti_ResourceData>() };
            context_event(cbid, data.context);
        }
        Domain::CUPTI_CB_DOMAIN_NVTX => {
            // SAFETY: in this domain CUPTI passes a CUpti_NvtxData that lives during the callback.
            let data = unsafe { &*data.cast::<c::CUpti_NvtxData>() };
            // SAFETY: CUPTI passes the structure that it defines for this callback id.
            unsafe { nvtx::dispatch_cupti(cbid, data.functionParams, data.functionReturnValue) };
        }
        Domain::CUPTI_CB_DOMAIN_STATE if cbid == c::CUpti_CallbackIdState::CUPTI_CBID_STATE_FATAL_ERROR.0 => {
            FATAL_ERRORS.fetch_add(1, Ordering::Relaxed);
        }
        _ => {}
    });
}

#[inline]
fn driver_call(cbid: u32, data: &c::CUpti_CallbackData) {
    let does = calls::does(cbid);
    if data.callbackSite == c::CUpti_ApiCallbackSite::CUPTI_API_ENTER {
        match does {
            Does::Launch | Does::LaunchAndWait => {
                gate::launching(cbid, does == Does::LaunchAndWait);
                launch(cbid, data);
            }
            Does::Wait => gate::waiting(cbid),
            Does::BeginCapture | Does::EndCapture => {}
        }
        return;
    }
    let result = result(data);
    match does {
        Does::Launch | Does::LaunchAndWait if result != SUCCESS => {
            range::log_failed_launch(CorrelationId(data.correlationId));
        }
        Does::BeginCapture if result == SUCCESS => {
            CAPTURES.fetch_add(1, Ordering::Relaxed);
        }
        Does::EndCapture if result == SUCCESS || ENDED_IN_VAIN.contains(&result) => {
            let less = |open: u32| open.checked_sub(1);
            // One that began before the session is not among them.
            if CAPTURES.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_err() {
                range::log_unseen_capture_end();
            }
        }
        _ => {}
    }
}

#[inline]
fn launch(cbid: u32, data: &c::CUpti_CallbackData) {
    let name = || {
        // SAFETY: in a launching call CUPTI passes the launched function's name, good during the callback; it is
        // read only if the pointer is not null.
        unsafe { CStr::from_ptr(data.symbolName) }.to_bytes()
    };
    // What a capture takes has no record. Which streams are captured is not told by the call, so that while there is
    // a capture no launch must have one.
    let is_recorded = RECORDS.load(Ordering::Relaxed) && CAPTURES.load(Ordering::Relaxed) == 0;
    let correlation = CorrelationId(data.correlationId);
    range::log_launch(correlation, is_recorded, cbid, data.symbolName.addr(), name);
    if let Some(context) = NonNull::new(data.context) {
        CONTEXTS.note(Context(context.cast()));
    }
}

const SUCCESS: u32 = 0;

/// Codes with which the end of a capture fails and has ended it all the same: it was invalidated, or is left with open
/// ends.
const ENDED_IN_VAIN: std::ops::RangeInclusive<u32> = 900..=907;

/// What a driver call that has come back returned.
#[inline]
fn result(data: &c::CUpti_CallbackData) -> u32 {
    // SAFETY: at the exit of a driver call CUPTI passes the address of its CUresult, good during the callback.
    unsafe { data.functionReturnValue.cast::<u32>().as_ref() }.copied().unwrap_or(SUCCESS)
}

fn context_event(cbid: u32, context: c::CUcontext) {
    let Some(context) = NonNull::new(context) else { return };
    let context = Context(context.cast());
    match c::CUpti_CallbackIdResource(cbid) {
        c::CUpti_CallbackIdResource::CUPTI_CBID_RESOURCE_CONTEXT_CREATED => CONTEXTS.note(context),
        c::CUpti_CallbackIdResource::CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING => {
            range::forget_symbols();
            CONTEXTS.forget(context);
        }
        c::CUpti_CallbackIdResource::CUPTI_CBID_RESOURCE_MODULE_UNLOAD_STARTING => range::forget_symbols(),
        _ => {}
    }
}
