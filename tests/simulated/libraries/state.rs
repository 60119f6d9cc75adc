//! What the simulation knows of its client, and the client's buffers.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::atomic::AtomicU32;
use std::sync::{Condvar, LazyLock, Mutex, MutexGuard};

use crate::entry::*;
use crate::layout::{CONCURRENT_KERNEL, KERNEL, PROFILE, Record};

pub type ApiCallback = unsafe extern "C" fn(*mut c_void, u32, u32, *const c_void);
pub type Requested = unsafe extern "C" fn(*mut *mut u8, *mut usize, *mut usize);
pub type Completed = unsafe extern "C" fn(*mut c_void, u32, *mut u8, usize, usize);

#[derive(Clone, Copy)]
pub struct Subscriber {
    pub callback: ApiCallback,
    pub userdata: usize,
}

/// A buffer of the client, which nobody else may touch while the simulation has it.
pub struct Buffer {
    pub pointer: usize,
    pub size: usize,
    pub used: usize,
    pub records: u32,
    /// Of the records, in their order.
    sum: u64,
    /// It has a record of work that has not ended.
    pub unfinished: bool,
}

/// What the client would see if it looked: nothing, if `SIM_GUARD` is set. A look ends the process then.
static GUARDED: LazyLock<bool> = LazyLock::new(|| variable("SIM_GUARD").is_some());

unsafe extern "C" {
    fn mprotect(address: *mut c_void, length: usize, protection: c_int) -> c_int;
}

impl Buffer {
    /// Takes a buffer as the client gave it.
    fn take(pointer: usize, size: usize) -> Self {
        Self { pointer, size, used: 0, records: 0, sum: 0, unfinished: false }
    }

    /// Opens it to this process, or closes it.
    fn guard(&self, closed: bool) {
        let (none, read_and_write) = (0, 3);
        if *GUARDED {
            let protection = if closed { none } else { read_and_write };
            let outcome = unsafe { mprotect(self.pointer as *mut c_void, self.size, protection) };
            assert_eq!(outcome, 0, "buffers lie on whole pages");
        }
    }

    fn bytes(&self) -> &'static mut [u8] {
        unsafe { std::slice::from_raw_parts_mut(self.pointer as *mut u8, self.size) }
    }

    /// Appends a record.
    fn append(&mut self, size: usize, write: impl FnOnce(&mut [u8])) {
        self.guard(false);
        let room = &mut self.bytes()[self.used..self.used + size];
        if room.iter().any(|byte| *byte != 0) {
            violation("a buffer was written to while CUPTI had it");
        }
        write(room);
        self.sum = sum(self.sum, room);
        self.used += size;
        self.records += 1;
        self.guard(true);
    }

    /// Writes over the first of its records, late.
    pub fn write_late(&mut self) {
        self.guard(false);
        let written = &mut self.bytes()[..self.used];
        for byte in written.iter_mut().skip(16).take(16) {
            *byte ^= 0x55;
        }
        self.sum = sum(0, written);
        self.guard(true);
    }

    /// It goes back: it must be as it was left.
    fn check(&self) {
        self.guard(false);
        let (written, rest) = self.bytes().split_at(self.used);
        if sum(0, written) != self.sum || rest.iter().any(|byte| *byte != 0) {
            violation("a buffer was changed while CUPTI had it");
        }
    }
}

fn sum(so_far: u64, bytes: &[u8]) -> u64 {
    let words = bytes.chunks(8).map(|word| word.iter().fold(0, |sum: u64, byte| sum << 8 | u64::from(*byte)));
    words.fold(so_far, |sum, word| (sum ^ word).wrapping_mul(0x0100_0000_01b3).rotate_left(23))
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
    pub contexts: BTreeSet<u32>,
    /// Buffers being filled, by thread where the release does so.
    pub filling: BTreeMap<u64, Buffer>,
    pub full: Vec<Buffer>,
    pub hoarded: Vec<Buffer>,
    /// Buffers that no flush gives back.
    pub kept: Vec<Buffer>,
    /// Addresses of all buffers that the simulation has.
    pub held: BTreeSet<usize>,
    pub dropped: usize,
    /// Bytes to leave off the end of the next buffer.
    pub cut: usize,
    /// Callbacks of the subscriber that are running.
    pub running: u32,
}

static STATE: LazyLock<Mutex<State>> = LazyLock::new(Mutex::default);
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
        let buffer = Buffer::take(pointer as usize, size);
        if !self.zeroed_is_promised {
            buffer.bytes().fill(0);
        } else if buffer.bytes().iter().any(|byte| *byte != 0) {
            violation("a buffer was promised to be zeroed and is not");
        }
        buffer.guard(true);
        Some(buffer)
    }

    pub fn deliver(&mut self, buffer: Buffer) {
        let Some((_, completed)) = self.buffer_callbacks else { return };
        buffer.check();
        self.held.remove(&buffer.pointer);
        let valid = buffer.used - std::mem::take(&mut self.cut).min(buffer.used);
        in_callback(|| unsafe { completed(null_mut(), 0, buffer.pointer as *mut u8, buffer.size, valid) });
    }

    /// Gives back what is complete; by force, the others, too.
    pub fn deliver_everything(&mut self, forced: bool) {
        self.close_buffers();
        let buffers = std::mem::take(&mut self.full).into_iter().chain(std::mem::take(&mut self.hoarded));
        for buffer in buffers.collect::<Vec<_>>() {
            if buffer.unfinished && !forced {
                self.full.push(buffer);
            } else {
                self.deliver(buffer);
            }
        }
        CHANGED.notify_all();
    }

    /// Nothing more is written into the buffers that are being filled.
    pub fn close_buffers(&mut self) {
        self.full.extend(std::mem::take(&mut self.filling).into_values());
    }

    /// The buffer of this thread or of all, with room for a record.
    fn room(&mut self, size: usize) -> Option<&mut Buffer> {
        static MOST_RECORDS: LazyLock<u32> =
            LazyLock::new(|| number("SIM_BUFFER_RECORDS").unwrap_or(u32::MAX));
        let key = if PROFILE.buffer_per_thread { this_thread() } else { 0 };
        let is_full = |buffer: &Buffer| buffer.size - buffer.used < size || buffer.records >= *MOST_RECORDS;
        if self.filling.get(&key).is_some_and(is_full) {
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
        self.filling.get_mut(&key)
    }

    pub fn write(&mut self, record: &Record<'_>) {
        // Kernels are recorded one way or the other.
        let serialized = record.kind == CONCURRENT_KERNEL && self.kinds.contains(&KERNEL);
        let record = &Record { kind: if serialized { KERNEL } else { record.kind }, ..*record };
        let known = PROFILE.size(record.kind);
        // A kind that is not known is always on.
        if known.is_some() && !self.kinds.contains(&record.kind) {
            return;
        }
        let size = known.unwrap_or(record.work.size as usize);
        let system_thread_ids = self.system_thread_ids;
        if let Some(buffer) = self.room(size) {
            buffer.append(size, |room| record.lay_out(room, system_thread_ids));
            buffer.unfinished |= record.work.unfinished != 0;
        }
    }
}

pub fn kernel_thread_id() -> u32 {
    let link = std::fs::read_link("/proc/thread-self").expect("Linux");
    link.file_name().and_then(|name| name.to_str()?.parse().ok()).expect("a thread id")
}

/// The thread that delivers full buffers; with `SIM_HOLD` there is none, and the test says what is delivered when.
pub fn start_delivery() {
    static THREAD: LazyLock<()> = LazyLock::new(|| {
        if variable("SIM_HOLD").is_some() {
            return;
        }
        std::thread::spawn(|| {
            let mut state = state();
            loop {
                match state.full.iter().position(|buffer| !buffer.unfinished) {
                    None => state = CHANGED.wait(state).unwrap(),
                    Some(place) => {
                        let buffer = state.full.remove(place);
                        state.deliver(buffer);
                        CHANGED.notify_all();
                    }
                }
            }
        });
    });
    LazyLock::force(&THREAD);
}
