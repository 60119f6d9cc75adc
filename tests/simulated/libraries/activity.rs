//! The functions about records.

use std::ffi::c_void;

use crate::entry::*;
use crate::layout::{CONCURRENT_KERNEL, KERNEL, PROFILE};
use crate::state::*;

functions! {
    cuptiActivityRegisterCallbacks(requested: Option<Requested>, completed: Option<Completed>) [NO_ARGUMENT] {
        let mut state = state();
        state.check_subscribed("cuptiActivityRegisterCallbacks");
        let (Some(requested), Some(completed)) = (requested, completed) else { return INVALID_PARAMETER };
        state.buffer_callbacks = Some((requested, completed));
        drop(state);
        start_delivery();
        SUCCESS
    }
    cuptiActivityEnable(kind: u32) [kind] {
        let mut state = state();
        state.check_subscribed("cuptiActivityEnable");
        if state.buffer_callbacks.is_none() {
            violation("cuptiActivityEnable before cuptiActivityRegisterCallbacks");
        }
        let other = match kind {
            KERNEL => CONCURRENT_KERNEL,
            CONCURRENT_KERNEL => KERNEL,
            _ => u32::MAX,
        };
        if kind == KERNEL && variable("SIM_MAY_SERIALIZE").is_none() {
            violation("kernel records of the kind that serialises kernels were asked for");
        }
        if state.kinds.contains(&other) {
            return NOT_COMPATIBLE;
        }
        if PROFILE.size(kind).is_none() {
            return INVALID_KIND;
        }
        state.kinds.insert(kind);
        SUCCESS
    }
    cuptiActivityDisable(kind: u32) [kind] {
        // As CUPTI did before 13.0 Update 1.
        if kind == CONCURRENT_KERNEL && PROFILE.api < 130_001 {
            park();
        }
        let mut state = state();
        state.check_subscribed("cuptiActivityDisable");
        if state.kinds.remove(&kind) { SUCCESS } else { INVALID_KIND }
    }
    cuptiActivityGetNextRecord(buffer: *mut u8, valid: usize, record: *mut *mut u8) [NO_ARGUMENT] {
        let size = |at: usize| {
            let kind = unsafe { (at as *const u32).read_unaligned() };
            PROFILE.size(kind).unwrap_or_else(|| unsafe { (at as *const u32).add(1).read_unaligned() as usize })
        };
        let (end, last) = (buffer as usize + valid, unsafe { record.read() } as usize);
        let next = if last == 0 { buffer as usize } else { last + size(last) };
        if next >= end {
            return MAX_LIMIT_REACHED;
        }
        if next + 8 > end || next + size(next) > end {
            return INVALID_KIND;
        }
        unsafe { record.write(next as *mut u8) };
        SUCCESS
    }
    cuptiActivityGetNumDroppedRecords(_context: *mut c_void, _stream: u32, dropped: *mut usize) [NO_ARGUMENT] {
        unsafe { dropped.write(std::mem::take(&mut state().dropped)) };
        SUCCESS
    }
    cuptiActivityFlushAll(flag: u32) [flag] {
        if flag > 1 {
            return INVALID_PARAMETER;
        }
        let mut state = state();
        state.check_subscribed("cuptiActivityFlushAll");
        state.deliver_everything(flag == 1);
        SUCCESS
    }
    cuptiActivityFlushPeriod(period: u32) [period] {
        state().check_subscribed("cuptiActivityFlushPeriod");
        SUCCESS
    }
    cuptiActivitySetAttribute(attribute: u32, size: *mut usize, value: *mut c_void) [attribute] {
        let mut state = state();
        state.check_subscribed("cuptiActivitySetAttribute");
        let known: &[usize] = match attribute {
            0..=2 | 6 | 10 => &[8],
            5 | 8 | 9 => &[1],
            // Semaphore pools, which no release since 12.3 supports.
            3 | 4 | 7 => return NOT_SUPPORTED,
            _ => &[],
        };
        struct_size(&format!("attribute {attribute}"), unsafe { size.read() }, known)
            .map_or_else(|code| code, |()| {
                match attribute {
                    5 => state.zeroed_is_promised = unsafe { value.cast::<u8>().read() } == 1,
                    9 if !state.kinds.is_empty() => violation("the kind of buffers was changed in a session"),
                    _ => {}
                }
                SUCCESS
            })
    }
    cuptiActivityGetEnabledKinds(_subscriber: usize, buffer: *mut u32, size: *mut u32, count: *mut u32) [NO_ARGUMENT] {
        let state = state();
        let room = if size.is_null() || buffer.is_null() { 0 } else { unsafe { size.read() } };
        for (place, kind) in state.kinds.iter().take(room as usize).enumerate() {
            unsafe { buffer.add(place).write(*kind) };
        }
        unsafe { count.write(state.kinds.len() as u32) };
        SUCCESS
    }
}
