//! What the simulation knows of its client, and the client's buffers.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Condvar, LazyLock, Mutex, MutexGuard};

use crate::entry::*;
use crate::layout::{PROFILE, Record};

pub type ApiCallback = unsafe extern "C" fn(*mut c_void, u32, u32, *const c_void);
pub type Requested = unsafe extern "C" fn(*mut *mut u8, *mut usize, *mut usize);
pub type Completed = unsafe extern "C" fn(*mut c_void, u32, *mut u8, usize, usize);

#[derive(Clone, Copy)]
pub struct Subscriber {
    pub callback: ApiCallback,
    pub userdata: usize,
}

/// A buffer of the client.
pub struct Buffer {
    pub pointer: usize,
    pub size: usize,
    pub used: usize,
}

#[derive(Default)]
pub struct State {
    pub subscriber: Option<Subscriber>,
    pub callbacks: BTreeSet<(u32, u32)>,
    pub domains: BTreeSet<u32>,
    pub kinds: BTreeSet<u32>,
    pub buffer_callbacks: Option<(Requested, Completed)>,
    pub zeroed_is_promised: bool,
    pub system_thread_ids: bool,
    pub context_exists: bool,
    /// Buffers being filled, by thread where the release does so.
    pub filling: BTreeMap<u64, Buffer>,
    pub full: Vec<Buffer>,
    pub hoarded: Vec<Buffer>,
    /// Addresses of all buffers that the simulation has.
    pub held: BTreeSet<usize>,
    pub dropped: usize,
    /// Bytes to leave off the end of the next buffer.
    pub cut: usize,
    /// Callbacks of the subscriber that are running.
    pub running: u32,
}

pub static STATE: LazyLock<Mutex<State>> = LazyLock::new(Mutex::default);
/// A full buffer waits, or has been delivered, or a callback has returned.
pub static CHANGED: Condvar = Condvar::new();
pub static CORRELATION: AtomicU32 = AtomicU32::new(0);

pub fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap()
}

impl State {
    /// What must be set before activity calls.
    pub fn check_subscribed(&self, call: &str) {
        if self.subscriber.is_none() {
            violation(&format!("{call} without a subscription"));
        }
    }

    pub fn request(&mut self) -> Option<Buffer> {
        let (requested, _) = self.buffer_callbacks?;
        let (mut pointer, mut size, mut most) = (null_mut(), 0, 77);
        // The state stays locked: as with CUPTI, a client that waits for another call here waits for ever.
        in_callback(|| unsafe { requested(&raw mut pointer, &raw mut size, &raw mut most) });
        if pointer.is_null() {
            return None;
        }
        if !(pointer as usize).is_multiple_of(8) || size < 4096 || most != 0 {
            violation("a buffer is not aligned, too small, or limited in its records");
        }
        if !self.held.insert(pointer as usize) {
            violation("a buffer was handed out twice");
        }
        let bytes = unsafe { std::slice::from_raw_parts_mut(pointer, size) };
        if !self.zeroed_is_promised {
            bytes.fill(0);
        } else if bytes.iter().any(|byte| *byte != 0) {
            violation("a buffer was promised to be zeroed and is not");
        }
        Some(Buffer { pointer: pointer as usize, size, used: 0 })
    }

    pub fn deliver(&mut self, buffer: Buffer) {
        let Some((_, completed)) = self.buffer_callbacks else { return };
        self.held.remove(&buffer.pointer);
        let valid = buffer.used - std::mem::take(&mut self.cut).min(buffer.used);
        in_callback(|| unsafe { completed(null_mut(), 0, buffer.pointer as *mut u8, buffer.size, valid) });
    }

    pub fn deliver_everything(&mut self) {
        let filling = std::mem::take(&mut self.filling).into_values();
        let buffers = std::mem::take(&mut self.full).into_iter().chain(filling);
        let hoarded = std::mem::take(&mut self.hoarded);
        for buffer in buffers.chain(hoarded).collect::<Vec<_>>() {
            self.deliver(buffer);
        }
        CHANGED.notify_all();
    }

    /// Room for a record, in the buffer of this thread or of all.
    pub fn room(&mut self, size: usize) -> Option<&'static mut [u8]> {
        let key = if PROFILE.buffer_per_thread { this_thread() } else { 0 };
        if self.filling.get(&key).is_some_and(|buffer| buffer.size - buffer.used < size) {
            self.full.extend(self.filling.remove(&key));
            CHANGED.notify_all();
        }
        if !self.filling.contains_key(&key) {
            match self.request() {
                Some(buffer) => drop(self.filling.insert(key, buffer)),
                None => {
                    self.dropped += 1;
                    return None;
                }
            }
        }
        let buffer = self.filling.get_mut(&key)?;
        let record = buffer.pointer + buffer.used;
        buffer.used += size;
        Some(unsafe { std::slice::from_raw_parts_mut(record as *mut u8, size) })
    }

    pub fn write(&mut self, record: &Record<'_>) {
        let known = PROFILE.size(record.kind);
        // A kind that is not known is always on.
        if known.is_some() && !self.kinds.contains(&record.kind) {
            return;
        }
        let size = known.unwrap_or(record.work.size as usize);
        if let Some(room) = self.room(size) {
            record.lay_out(room, self.system_thread_ids);
        }
    }
}

pub fn this_thread() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    thread_local! { static ID: u64 = NEXT.fetch_add(1, Ordering::Relaxed); }
    ID.with(|id| *id)
}

pub fn kernel_thread_id() -> u32 {
    let link = std::fs::read_link("/proc/thread-self").expect("Linux");
    link.file_name().and_then(|name| name.to_str()?.parse().ok()).expect("a thread id")
}

/// The thread that delivers full buffers.
pub fn start_delivery() {
    static THREAD: LazyLock<()> = LazyLock::new(|| {
        std::thread::spawn(|| {
            let mut state = state();
            loop {
                match state.full.is_empty() {
                    true => state = CHANGED.wait(state).unwrap(),
                    false => {
                        let buffer = state.full.remove(0);
                        state.deliver(buffer);
                        CHANGED.notify_all();
                    }
                }
            }
        });
    });
    LazyLock::force(&THREAD);
}
