//! The program that uses CUDA, as a test plays it (`sim_…`).

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_void};
use std::ptr::{null, null_mut};
use std::sync::atomic::Ordering;

use crate::entry::*;
use crate::layout::{CONCURRENT_KERNEL, DRIVER, RUNTIME, Record};
use crate::state::*;
use crate::work::Work;

/// The beginning of `CUpti_CallbackData`, and all that the crate may read of it.
#[repr(C)]
struct CallbackData {
    site: u32,
    function_name: *const c_char,
    function_params: *const c_void,
    return_value: *mut c_void,
    symbol_name: *const c_char,
    context: *mut c_void,
    context_uid: u32,
    correlation_data: *mut u64,
    correlation: u32,
}

#[repr(C)]
struct ResourceData {
    context: *mut c_void,
    handle: *mut c_void,
    descriptor: *mut c_void,
}

/// A context; nobody may look inside.
const CONTEXT: *mut c_void = 0x00c0_7e87_usize as *mut c_void;

/// Tells the subscriber, if it wants to know, without holding the lock: it may be told on several threads at once.
fn tell(domain: u32, cbid: u32, data: *const c_void) {
    let subscriber = {
        let mut state = state();
        if !state.callbacks.contains(&(domain, cbid)) && !state.domains.contains(&domain) {
            return;
        }
        let Some(subscriber) = state.subscriber else { return };
        state.running += 1;
        subscriber
    };
    let userdata = subscriber.userdata as *mut c_void;
    in_callback(|| unsafe { (subscriber.callback)(userdata, domain, cbid, data) });
    state().running -= 1;
    CHANGED.notify_all();
}

fn tell_of_call(site: u32, work: &Work, correlation: u32) {
    if work.cbid == 0 {
        return;
    }
    let mut own = 0;
    let data = CallbackData {
        site,
        function_name: c"cuSomething".as_ptr(),
        function_params: null(),
        return_value: null_mut(),
        symbol_name: work.name,
        context: CONTEXT,
        context_uid: 1,
        correlation_data: &raw mut own,
        correlation,
    };
    tell(1, work.cbid, (&raw const data).cast());
}

/// Makes the calls on this thread. Returns the correlation id of the last.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sim_work(work: *const Work) -> u32 {
    let work = unsafe { &*work };
    if !std::mem::replace(&mut state().context_exists, true) {
        let data = ResourceData { context: CONTEXT, handle: null_mut(), descriptor: null_mut() };
        tell(3, 1, (&raw const data).cast());
    }
    let mut correlation = 0;
    for _ in 0..work.calls {
        correlation = CORRELATION.fetch_add(1, Ordering::Relaxed) + 1;
        let called = now();
        tell_of_call(0, work, correlation);
        let mut state = state();
        for number in 0..work.records {
            let (start, end) = match work.stamped {
                0 => (called, called + u64::from(correlation)),
                _ => (work.start, work.end),
            };
            state.write(&Record { kind: work.kind, work, correlation, number, start, end });
        }
        for kind in [DRIVER, RUNTIME] {
            let (start, end) = (called, called + 100);
            state.write(&Record { kind, work, correlation, number: 0, start, end });
        }
        drop(state);
        tell_of_call(1, work, correlation);
    }
    correlation
}

/// Has `count` kernels launched on this thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sim_launch(count: u32) -> u32 {
    let work = Work {
        kind: CONCURRENT_KERNEL,
        cbid: 307,
        calls: count,
        records: 1,
        graph: 0,
        stream: 7,
        stamped: 0,
        size: 0,
        start: 0,
        end: 0,
        name: c"_Z5saxpyPfS_fi".as_ptr(),
        bytes: 0,
    };
    unsafe { sim_work(&raw const work) }
}

/// Asks for buffers and keeps them until the next flush, as threads that launch rarely do. Returns how many it got.
#[unsafe(no_mangle)]
pub extern "C" fn sim_hoard(count: u32) -> u32 {
    let mut state = state();
    let buffers: Vec<_> = (0..count).filter_map(|_| state.request()).collect();
    let got = buffers.len() as u32;
    state.hoarded.extend(buffers);
    got
}

/// Drops that many records, as CUPTI does for want of buffers.
#[unsafe(no_mangle)]
pub extern "C" fn sim_drop(count: usize) {
    state().dropped += count;
}

/// Leaves that many bytes off the end of the next buffer that is delivered.
#[unsafe(no_mangle)]
pub extern "C" fn sim_cut(bytes: usize) {
    state().cut = bytes;
}

/// Reports a fatal error.
#[unsafe(no_mangle)]
pub extern "C" fn sim_fatal() {
    tell(6, 1, null());
}

/// From here on, the call with this number fails; 0: none does.
#[unsafe(no_mangle)]
pub extern "C" fn sim_fail_in(calls: u32, code: Code) {
    FAIL_CODE.store(code, Ordering::Relaxed);
    FAIL_IN.store(calls, Ordering::Relaxed);
}

/// How many calls are left until one fails; 0: it has.
#[unsafe(no_mangle)]
pub extern "C" fn sim_fail_left() -> u32 {
    FAIL_IN.load(Ordering::Relaxed)
}

/// From here on, this function never returns, and once it has been called no other does either.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sim_hang_locked(name: *const c_char) {
    let name = unsafe { CStr::from_ptr(name) }.to_str().unwrap();
    *HANGS_LOCKED.lock().unwrap() = String::leak(name.to_owned());
}

/// How often a function was called.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sim_calls(name: *const c_char) -> u64 {
    let name = unsafe { CStr::from_ptr(name) }.to_str().unwrap();
    CALLS.lock().unwrap().get(name).copied().unwrap_or(0)
}

/// Waits until a function has been called so often.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sim_await_call(name: *const c_char, count: u64) {
    let name = unsafe { CStr::from_ptr(name) }.to_str().unwrap();
    let fewer = |calls: &mut BTreeMap<&'static str, u64>| calls.get(name).copied().unwrap_or(0) < count;
    drop(CALLED.wait_while(CALLS.lock().unwrap(), fewer).unwrap());
}

/// How often any function was called.
#[unsafe(no_mangle)]
pub extern "C" fn sim_all_calls() -> u64 {
    CALLS.lock().unwrap().values().sum()
}

/// Waits until every full buffer has been delivered.
#[unsafe(no_mangle)]
pub extern "C" fn sim_await_delivery() {
    drop(CHANGED.wait_while(state(), |state| !state.full.is_empty()).unwrap());
}

/// How much is switched on: the subscription, each callback, domain and kind. It is printed, too.
#[unsafe(no_mangle)]
pub extern "C" fn sim_left_on() -> u32 {
    let State { subscriber, callbacks, domains, kinds, .. } = &*state();
    let count = usize::from(subscriber.is_some()) + callbacks.len() + domains.len() + kinds.len();
    if count > 0 {
        eprintln!("simulated CUPTI: on are {} {callbacks:?} {domains:?} {kinds:?}", subscriber.is_some());
    }
    count as u32
}

/// Buffers that the simulation has.
#[unsafe(no_mangle)]
pub extern "C" fn sim_buffers_held() -> u32 {
    state().held.len() as u32
}

/// How often the client did what CUPTI forbids.
#[unsafe(no_mangle)]
pub extern "C" fn sim_violations() -> u32 {
    VIOLATIONS.load(Ordering::Relaxed)
}
