//! The program that uses CUDA, as a test plays it (`sim_…`).

use std::ffi::{c_char, c_void};
use std::ptr::{null, null_mut};
use std::sync::atomic::Ordering;

use crate::entry::{in_callback, variable};
use crate::layout::{DRIVER, RUNTIME, Record};
use crate::state::*;
use crate::subscriber::{CUDA_IS_UP, now};
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

/// The handle of a context; nobody may look inside.
fn handle(context: u32) -> *mut c_void {
    (0x00c0_7e00_0000 + context as usize * 16) as *mut c_void
}

fn tell_of_context(what: u32, context: u32) {
    tell_of_resource(what, handle(context));
}

fn tell_of_resource(what: u32, context: *mut c_void) {
    let data = ResourceData { context, handle: null_mut(), descriptor: null_mut() };
    tell(3, what, (&raw const data).cast());
}

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
    let (mut own, mut result) = (0_u64, work.fails);
    let data = CallbackData {
        site,
        function_name: c"cuSomething".as_ptr(),
        function_params: null(),
        // At the entrance there is none yet.
        return_value: if site == 1 { (&raw mut result).cast::<c_void>() } else { null_mut() },
        symbol_name: work.name,
        context: handle(work.context),
        context_uid: work.context,
        correlation_data: &raw mut own,
        correlation,
    };
    tell(1, work.cbid, (&raw const data).cast());
}

/// Makes the calls on this thread. Returns the correlation id of the last.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sim_work(work: *const Work) -> u32 {
    let work = unsafe { &*work };
    if state().contexts.insert(work.context) {
        CUDA_IS_UP.store(true, Ordering::Relaxed);
        tell_of_context(1, work.context);
    }
    let mut correlation = 0;
    for call in 1..=work.calls {
        correlation = match work.correlation {
            0 => CORRELATION.fetch_add(1, Ordering::Relaxed) + 1,
            given => given,
        };
        let called = now();
        tell_of_call(0, work, correlation);
        if work.kind == crate::layout::CONCURRENT_KERNEL {
            crate::profiler::kernel_ran();
        }
        let mut state = state();
        for number in 0..if work.fails == 0 { work.records } else { 0 } {
            let (start, end) = match work.stamped {
                0 => (called, called + u64::from(correlation)),
                _ => (work.start, work.end),
            };
            if call != work.lost {
                state.write(&Record { kind: work.kind, work, correlation, number, start, end });
            }
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

/// Destroys a context.
#[unsafe(no_mangle)]
pub extern "C" fn sim_destroy_context(context: u32) {
    if state().contexts.remove(&context) {
        tell_of_context(2, context);
    }
}

/// Unloads a module.
#[unsafe(no_mangle)]
pub extern "C" fn sim_unload_module() {
    tell_of_resource(7, handle(1));
}

/// Has `count` kernels launched on this thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sim_launch(count: u32) -> u32 {
    let work = Work { calls: count, ..Work::KERNEL };
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

/// Switches a kind off, as another part of the process can.
#[unsafe(no_mangle)]
pub extern "C" fn sim_switch_off(kind: u32) {
    state().kinds.remove(&kind);
}

/// Whether a kind is on.
#[unsafe(no_mangle)]
pub extern "C" fn sim_is_on(kind: u32) -> bool {
    state().kinds.contains(&kind)
}

/// Nothing more is written into the buffers that are being filled. Returns how many wait for delivery.
#[unsafe(no_mangle)]
pub extern "C" fn sim_close_buffers() -> u32 {
    let mut state = state();
    state.close_buffers();
    state.full.len() as u32
}

/// Delivers the full buffer with this place in the row, on this thread, as threads that launch do at times. Only with
/// `SIM_HOLD`: otherwise the delivering thread may have been faster.
#[unsafe(no_mangle)]
pub extern "C" fn sim_deliver(place: u32) {
    assert!(variable("SIM_HOLD").is_some(), "without SIM_HOLD, another thread delivers, too");
    let mut state = state();
    let buffer = state.full.remove(place as usize);
    state.deliver(buffer);
}

/// Takes the full buffers and keeps them over every flush, as a CUPTI that has forgotten them does.
#[unsafe(no_mangle)]
pub extern "C" fn sim_keep() -> u32 {
    let mut state = state();
    state.close_buffers();
    let buffers = std::mem::take(&mut state.full);
    state.kept.extend(buffers);
    state.kept.len() as u32
}

/// Writes into every buffer that is kept, and gives all back at the next flush.
#[unsafe(no_mangle)]
pub extern "C" fn sim_write_late() {
    let mut state = state();
    let mut kept = std::mem::take(&mut state.kept);
    kept.iter_mut().for_each(Buffer::write_late);
    state.hoarded.extend(kept);
}

/// Waits until every full buffer has been delivered.
#[unsafe(no_mangle)]
pub extern "C" fn sim_await_delivery() {
    drop(CHANGED.wait_while(state(), |state| !state.full.iter().all(|buffer| buffer.unfinished)).unwrap());
}

/// How much is switched on: the subscription, each callback, domain and kind. It is printed, too.
#[unsafe(no_mangle)]
pub extern "C" fn sim_left_on() -> u32 {
    let State { subscriber, callbacks, domains, kinds, .. } = &*state();
    let count = usize::from(subscriber.is_some()) + callbacks.len() + domains.len() + kinds.len();
    if count > 0 {
        eprintln!("left on: {} {callbacks:?} {domains:?} {kinds:?}", subscriber.is_some());
    }
    count as u32
}

/// Buffers that the simulation has.
#[unsafe(no_mangle)]
pub extern "C" fn sim_buffers_held() -> u32 {
    state().held.len() as u32
}
