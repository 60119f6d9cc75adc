//! The functions that are not about records: versions, clocks, and the subscription.

use std::ffi::{c_char, c_void};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use crate::entry::*;
use crate::layout::PROFILE;
use crate::state::*;

/// The present time on CUPTI's clock: the host's, and what the script puts on it.
pub fn now() -> u64 {
    static SHIFT: LazyLock<i64> = LazyLock::new(|| number("SIM_CLOCK_SHIFT").unwrap_or(0));
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
    (since.as_nanos() as u64).wrapping_add_signed(*SHIFT).wrapping_add_signed(jump())
}

/// Whether there has been a context.
pub static CUDA_IS_UP: AtomicBool = AtomicBool::new(false);

/// `SIM_CLOCK_JUMP`: once CUDA is up, another clock is read.
fn jump() -> i64 {
    static JUMP: LazyLock<i64> = LazyLock::new(|| number("SIM_CLOCK_JUMP").unwrap_or(0));
    if CUDA_IS_UP.load(Ordering::Relaxed) { *JUMP } else { 0 }
}

const HANDLE: usize = 0x5ab5;

functions! {
    cuptiGetVersion(version: *mut u32) [NO_ARGUMENT] {
        unsafe { version.write(number("SIM_API").unwrap_or(PROFILE.api)) };
        SUCCESS
    }
    cuptiGetTimestamp(timestamp: *mut u64) [NO_ARGUMENT] {
        unsafe { timestamp.write(now()) };
        SUCCESS
    }
    cuptiGetResultString(_code: Code, text: *mut *const c_char) [NO_ARGUMENT] {
        unsafe { text.write(c"simulated".as_ptr()) };
        SUCCESS
    }
    cuptiSubscribe(handle: *mut usize, callback: Option<ApiCallback>, userdata: *mut c_void) [NO_ARGUMENT] {
        let mut state = state();
        let Some(callback) = callback else { return INVALID_PARAMETER };
        if state.subscriber.is_some() {
            return MULTIPLE_SUBSCRIBERS;
        }
        state.subscriber = Some(Subscriber { callback, userdata: userdata as usize });
        unsafe { handle.write(HANDLE) };
        SUCCESS
    }
    cuptiUnsubscribe(handle: usize) [NO_ARGUMENT] {
        let mut state = state();
        if handle != HANDLE || state.subscriber.is_none() {
            violation("cuptiUnsubscribe without a subscription");
            return INVALID_PARAMETER;
        }
        state.subscriber = None;
        state.callbacks.clear();
        state.domains.clear();
        while state.running > 0 {
            state = CHANGED.wait(state).unwrap();
        }
        SUCCESS
    }
    cuptiEnableCallback(enable: u32, handle: usize, domain: u32, cbid: u32) [cbid] {
        let mut state = state();
        state.check_subscribed("cuptiEnableCallback");
        let known = match domain {
            1 => cbid <= PROFILE.newest_cbid,
            2 => cbid <= 600,
            3 => cbid <= 23,
            6 => cbid <= 3,
            _ => false,
        };
        if handle != HANDLE || !known || enable > 1 {
            return INVALID_PARAMETER;
        }
        if enable == 1 { state.callbacks.insert((domain, cbid)) } else { state.callbacks.remove(&(domain, cbid)) };
        SUCCESS
    }
    cuptiEnableDomain(enable: u32, handle: usize, domain: u32) [domain] {
        let mut state = state();
        state.check_subscribed("cuptiEnableDomain");
        if handle != HANDLE || !(1..=6).contains(&domain) {
            return INVALID_PARAMETER;
        }
        if enable == 1 { state.domains.insert(domain) } else { state.domains.remove(&domain) };
        SUCCESS
    }
    cuptiGetCallbackName(domain: u32, cbid: u32, name: *mut *const c_char) [cbid] {
        let known = match (domain, cbid) {
            (1, 307) => c"cuLaunchKernel",
            (2, 211) => c"cudaLaunchKernel_v7000",
            _ => return INVALID_PARAMETER,
        };
        unsafe { name.write(known.as_ptr()) };
        SUCCESS
    }
    cuptiSetThreadIdType(kind: u32) [kind] {
        let mut state = state();
        state.check_subscribed("cuptiSetThreadIdType");
        state.system_thread_ids = kind == 1;
        SUCCESS
    }
}

forbidden! {
    cuptiFinalize: "which detaches everybody and races with threads inside CUPTI";
    cuptiEnableAllDomains: "which has every call of the program called back";
    cuptiActivityRegisterTimestampCallback: "which replaces the clock of every record";
    cuptiSetEventCollectionMode: "which belongs to an interface that is gone";
    cuptiEnableKernelReplayMode: "which replays the program's kernels";
}
