//! The only caller of CUPTI: one safe function per C function, and what CUPTI calls back.
#![expect(unsafe_code, reason = "calls into libcupti through function pointers")]

mod callbacks;
pub(crate) mod calls;
mod clocks;
mod contexts;
pub(crate) mod host;
mod libraries;
pub(crate) mod params;
mod pin;
pub(crate) mod profiler;
pub(crate) mod range_profiler;
mod records;
mod slot;

use std::ffi::{CStr, c_char, c_void};
use std::ptr::NonNull;

use cupti_sys::bindings as c;
use cupti_sys::{LibraryVersion, Symbols};

pub(crate) use callbacks::{
    begin_session, end_session, expect_records, faults, resume_session, seen_nothing,
};
pub(crate) use clocks::{ClockLock, ClockMode};
pub(crate) use contexts::CONTEXTS;
pub(crate) use libraries::{Libraries, PlanningLibrary};
pub(crate) use records::Records;
pub(crate) use slot::{Holder, Slot, counts_now, kernels_are_on, leave_kernels_on};

use crate::driver::Driver;
use crate::error::{Error, ErrorKind, Result};

/// CUPTI's functions in this process.
#[derive(Clone, Copy)]
pub(crate) struct Cupti {
    symbols: &'static Symbols,
}

/// Our subscription, the only one that CUPTI's first API allows in a process.
pub(crate) struct Subscriber(NonNull<c::CUpti_Subscriber_st>);

// SAFETY: CUPTI accepts the handle from any thread; it is an opaque pointer to state that CUPTI locks itself.
unsafe impl Send for Subscriber {}

/// Runs one CUPTI function; an absent symbol is an error like a failed call.
macro_rules! call {
    ($cupti:expr, $name:ident $(, $arg:expr)* $(,)?) => {{
        match $cupti.symbols.$name {
            None => Err($crate::cupti::absent(stringify!($name))),
            Some(function) => {
                let _under_way = $crate::under_way::enter(stringify!($name));
                // SAFETY: pointer arguments are null, function pointers of ours, or live locals of the type that the
                // signature names; the table's signatures are checked against the headers.
                let status = unsafe { function($($arg),*) };
                match status {
                    cupti_sys::bindings::CUptiResult::CUPTI_SUCCESS => Ok(()),
                    status => Err($crate::cupti::failed(stringify!($name), status)),
                }
            }
        }
    }};
}
use call;

fn absent(call: &'static str) -> Error {
    let since = Symbols::ALL.iter().find(|symbol| symbol.name == call).map(|symbol| symbol.since);
    let error = Error::new(ErrorKind::CuptiTooOld, format!("this CUPTI library does not export {call}"));
    match since {
        Some(since) => error.with_hint(format!("it needs CUPTI {since} or newer")),
        None => error,
    }
}

/// What to do where no privilege should be needed.
const TRACING_FORBIDDEN: &str = "even tracing is forbidden here, which needs no privilege as a rule: ask who runs this \
    machine, container or virtual GPU to allow profiling (old drivers: NVreg_RestrictProfilingToAdminUsers=0)";

/// What to do about the code that is no reason, where it is not for want of a driver.
const UNKNOWN: &str = "CUPTI gives no reason: a kernel of the program may have failed before (compute-sanitizer finds it); \
    see also what the driver says of the GPU in the kernel's log (dmesg)";

/// The same before anything of the program has been looked at.
const UNKNOWN_AT_FIRST: &str = "CUPTI gives no reason before anything was asked of it: this library does not go with this \
    driver, or is damaged; install the CUPTI of the driver's version again, or let CUPROF_CUPTI_PATH name another";

fn failed(call: &'static str, status: c::CUptiResult) -> Error {
    use c::CUptiResult as R;
    let kind = match status {
        R::CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED | R::CUPTI_ERROR_HARDWARE_BUSY => ErrorKind::Busy,
        // Old versions say so when a second client subscribes.
        R::CUPTI_ERROR_MAX_LIMIT_REACHED if call == "cuptiSubscribe" => ErrorKind::Busy,
        R::CUPTI_ERROR_INSUFFICIENT_PRIVILEGES
        | R::CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES => ErrorKind::PermissionDenied,
        _ => ErrorKind::Call,
    };
    let error = Error::new(kind, "CUPTI refused").with_call(call, i32::from_ne_bytes(status.0.to_ne_bytes()));
    // Counters need a privilege, and the remedy is about them; where even this is refused, it is another one.
    let is_tracing = call == "cuptiSubscribe" || call.starts_with("cuptiActivity");
    match cupti_sys::result::remedy(status.0) {
        Some(_) if status == R::CUPTI_ERROR_UNKNOWN && Driver::get().is_ok() => {
            let is_first = matches!(call, "cuptiGetVersion" | "cuptiSubscribe");
            error.with_hint(if is_first { UNKNOWN_AT_FIRST } else { UNKNOWN })
        }
        Some(_) if kind == ErrorKind::PermissionDenied && is_tracing => error.with_hint(TRACING_FORBIDDEN),
        Some(remedy) => error.with_hint(remedy),
        None => error,
    }
}

impl Cupti {
    pub fn new(symbols: &'static Symbols) -> Self {
        Self { symbols }
    }

    /// `cuptiGetVersion`.
    pub fn version(self) -> Result<LibraryVersion> {
        let mut version = 0;
        call!(self, cuptiGetVersion, &raw mut version)?;
        Ok(LibraryVersion::from_api(version))
    }

    /// `cuptiGetTimestamp`: CUPTI's host clock.
    pub fn timestamp_ns(self) -> Result<u64> {
        let mut timestamp = 0;
        call!(self, cuptiGetTimestamp, &raw mut timestamp)?;
        Ok(timestamp)
    }

    /// `cuptiSubscribe` with our callback.
    pub fn subscribe(self) -> Result<Subscriber> {
        let mut handle = std::ptr::null_mut();
        call!(self, cuptiSubscribe, &raw mut handle, Some(callbacks::api), std::ptr::null_mut())?;
        NonNull::new(handle)
            .map(Subscriber)
            .ok_or_else(|| Error::new(ErrorKind::Call, "cuptiSubscribe succeeded without a handle"))
    }

    /// `cuptiUnsubscribe`; waits for callbacks in flight.
    pub fn unsubscribe(self, subscriber: &Subscriber) -> Result<()> {
        call!(self, cuptiUnsubscribe, subscriber.0.as_ptr())
    }

    /// `cuptiEnableCallback`.
    pub fn enable_callback(
        self,
        subscriber: &Subscriber,
        domain: c::CUpti_CallbackDomain,
        cbid: u32,
    ) -> Result<()> {
        call!(self, cuptiEnableCallback, 1, subscriber.0.as_ptr(), domain, cbid)
    }

    /// `cuptiEnableDomain`.
    pub fn enable_domain(self, subscriber: &Subscriber, domain: c::CUpti_CallbackDomain) -> Result<()> {
        call!(self, cuptiEnableDomain, 1, subscriber.0.as_ptr(), domain)
    }

    /// Has every launching call told to our callback. Returns those that the library knows and refuses.
    pub fn enable_launch_callbacks(self, subscriber: &Subscriber) -> Vec<(u32, Error)> {
        let driver = c::CUpti_CallbackDomain::CUPTI_CB_DOMAIN_DRIVER_API;
        let enable = |cbid: u32| Some((cbid, self.enable_callback(subscriber, driver, cbid).err()?));
        let launching = calls::LAUNCHING.iter().map(|(cbid, _)| cbid);
        let capturing = calls::CAPTURING.iter().map(|(cbid, _)| cbid);
        let refused = launching.chain(capturing).filter_map(|cbid| enable(cbid.0));
        // An older library does not know the newest calls, and says so.
        refused.filter(|(_, error)| error.code != Some(INVALID_PARAMETER)).collect()
    }

    /// Has calls that may wait for the GPU told to our callback, which is for sessions that hold work back only.
    pub fn enable_wait_callbacks(self, subscriber: &Subscriber) {
        let driver = c::CUpti_CallbackDomain::CUPTI_CB_DOMAIN_DRIVER_API;
        for cbid in calls::WAITING {
            // One that is not told of is a wait that ends by the gate's time limit.
            let _refused = self.enable_callback(subscriber, driver, cbid.0);
        }
    }

    /// `cuptiGetCallbackName`; none for ids that are newer than the library.
    pub fn callback_name(self, domain: c::CUpti_CallbackDomain, cbid: u32) -> Option<String> {
        let mut name: *const c_char = std::ptr::null();
        call!(self, cuptiGetCallbackName, domain, cbid, &raw mut name).ok()?;
        // SAFETY: on success CUPTI has set the pointer to a string constant of the library, which stays loaded.
        (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned())
    }

    /// `cuptiActivitySetAttribute` for an attribute of one byte.
    pub fn set_flag(self, attribute: c::CUpti_ActivityAttribute, mut value: u8) -> Result<()> {
        let mut size = size_of::<u8>();
        let value = (&raw mut value).cast::<c_void>();
        call!(self, cuptiActivitySetAttribute, attribute, &raw mut size, value)
    }

    /// `cuptiActivitySetAttribute` for an attribute of type `size_t`.
    pub fn set_size(self, attribute: c::CUpti_ActivityAttribute, mut value: usize) -> Result<()> {
        let mut size = size_of::<usize>();
        let value = (&raw mut value).cast::<c_void>();
        call!(self, cuptiActivitySetAttribute, attribute, &raw mut size, value)
    }

    /// `cuptiSetThreadIdType`: kernel thread ids in API records, as everywhere else in the tables.
    pub fn use_system_thread_ids(self) -> Result<()> {
        let system = c::CUpti_ActivityThreadIdType::CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM;
        call!(self, cuptiSetThreadIdType, system)
    }

    /// `cuptiActivityRegisterCallbacks` with the callbacks that serve the process's pool.
    pub fn register_buffer_callbacks(self) -> Result<()> {
        let (requested, completed) = (callbacks::buffer_requested, callbacks::buffer_completed);
        call!(self, cuptiActivityRegisterCallbacks, Some(requested), Some(completed))
    }

    /// `cuptiActivityEnable`.
    pub fn enable(self, kind: u32) -> Result<()> {
        call!(self, cuptiActivityEnable, c::CUpti_ActivityKind(kind))
    }

    /// `cuptiActivityDisable`.
    pub fn disable(self, kind: u32) -> Result<()> {
        call!(self, cuptiActivityDisable, c::CUpti_ActivityKind(kind))
    }

    /// `cuptiActivityGetEnabledKinds` over all clients, into `kinds`; an error before 13.4.
    pub fn enabled_kinds(self, kinds: &mut Vec<u32>) -> Result<()> {
        /// More than there are kinds. Also as a number of bytes, which the headers may mean, enough for ours.
        const ROOM: usize = 128;
        let mut buffer = [c::CUpti_ActivityKind(0); ROOM];
        let (mut room, mut count) = (ROOM as u32, 0);
        let everybody = std::ptr::null_mut();
        call!(
            self,
            cuptiActivityGetEnabledKinds,
            everybody,
            buffer.as_mut_ptr(),
            &raw mut room,
            &raw mut count
        )?;
        kinds.clear();
        kinds.extend(buffer.iter().take(count as usize).map(|kind| kind.0));
        Ok(())
    }

    /// `cuptiActivityFlushAll`: with `forced`, also buffers with records that are not complete.
    pub fn flush_all(self, forced: bool) -> Result<()> {
        let flag = if forced { c::CUpti_ActivityFlag::CUPTI_ACTIVITY_FLAG_FLUSH_FORCED.0 } else { 0 };
        call!(self, cuptiActivityFlushAll, flag)
    }

    /// `cuptiActivityGetNumDroppedRecords` since the last call.
    pub fn take_dropped(self) -> Result<u64> {
        let mut dropped = 0;
        call!(self, cuptiActivityGetNumDroppedRecords, std::ptr::null_mut(), 0, &raw mut dropped)?;
        Ok(dropped as u64)
    }
}

/// The callback domain of an API record's kind.
pub(crate) fn api_domain(kind: u32) -> c::CUpti_CallbackDomain {
    if kind == cupti_sys::kind::RUNTIME {
        c::CUpti_CallbackDomain::CUPTI_CB_DOMAIN_RUNTIME_API
    } else {
        c::CUpti_CallbackDomain::CUPTI_CB_DOMAIN_DRIVER_API
    }
}

/// What CUPTI answers to a number that it does not know.
const INVALID_PARAMETER: i32 = c::CUptiResult::CUPTI_ERROR_INVALID_PARAMETER.0 as i32;

/// The code with which a walk over a buffer ends where it should.
const MAX_LIMIT_REACHED: i32 = c::CUptiResult::CUPTI_ERROR_MAX_LIMIT_REACHED.0 as i32;
