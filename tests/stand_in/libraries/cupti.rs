//! A library that stands in for libcupti: the part of its first API that the crate calls, and functions (`standin_…`)
//! with which a test plays the program that uses CUDA.
//!
//! It is scripted by the environment:
//!
//! | variable | meaning |
//! |---|---|
//! | `STANDIN_VERSION` | which CUPTI it is: a name in [`PROFILES`] |
//! | `STANDIN_API` | the number that `cuptiGetVersion` reports, if another |
//! | `STANDIN_FAIL` | calls that fail, by first argument: `cuptiActivityEnable:10:999,cuptiSubscribe:*:39` |
//! | `STANDIN_HANG` | the call that never returns |
//! | `STANDIN_CLOCK_SHIFT` | nanoseconds that CUPTI's clock is ahead of the host's |
//!
//! It also checks what CUPTI asks of its clients. Violations are printed and counted.
#![deny(warnings, unsafe_op_in_unsafe_fn)]
#![allow(clippy::missing_safety_doc, reason = "every function has the obligations of CUPTI's own")]

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CStr, c_char, c_void};
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Condvar, LazyLock, Mutex, MutexGuard, RwLock};
use std::time::SystemTime;

mod work;
use work::Work;

type Code = u32;
const SUCCESS: Code = 0;
const INVALID_PARAMETER: Code = 1;
const INVALID_OPERATION: Code = 7;
const MAX_LIMIT_REACHED: Code = 12;
const INVALID_KIND: Code = 21;
const MULTIPLE_SUBSCRIBERS: Code = 39;

const MEMCPY: u32 = 1;
const MEMSET: u32 = 2;
const KERNEL: u32 = 3;
const DRIVER: u32 = 4;
const RUNTIME: u32 = 5;
const CONCURRENT_KERNEL: u32 = 10;
const OVERHEAD: u32 = 17;
const MEMCPY2: u32 = 22;
const SYNCHRONIZATION: u32 = 38;
const MEMORY2: u32 = 49;

/// One release: what it reports, which driver calls it knows, how it hands out buffers, and how large its records are.
struct Profile {
    name: &'static str,
    api: u32,
    newest_cbid: u32,
    buffer_per_thread: bool,
    kernel: usize,
    memcpy: usize,
    memset: usize,
    memcpy2: usize,
    overhead: usize,
    synchronization: usize,
    memory: usize,
}

#[rustfmt::skip]
const PROFILES: [Profile; 5] = [
    // 12.0 reports the number of 11.8.
    Profile { name: "12.0", api: 18, newest_cbid: 670, buffer_per_thread: false,
        kernel: 208, memcpy: 88, memset: 88, memcpy2: 96, overhead: 40, synchronization: 40, memory: 120 },
    Profile { name: "12.9", api: 28, newest_cbid: 780, buffer_per_thread: false,
        kernel: 208, memcpy: 96, memset: 88, memcpy2: 96, overhead: 56, synchronization: 56, memory: 128 },
    Profile { name: "13.0", api: 130_001, newest_cbid: 800, buffer_per_thread: true,
        kernel: 216, memcpy: 96, memset: 88, memcpy2: 96, overhead: 56, synchronization: 56, memory: 128 },
    Profile { name: "13.5", api: 130_500, newest_cbid: 850, buffer_per_thread: true,
        kernel: 248, memcpy: 112, memset: 104, memcpy2: 96, overhead: 56, synchronization: 56, memory: 128 },
    // Newer than anything that is known: every record has grown at its end.
    Profile { name: "13.99", api: 139_999, newest_cbid: 2000, buffer_per_thread: true,
        kernel: 280, memcpy: 136, memset: 120, memcpy2: 112, overhead: 64, synchronization: 72, memory: 144 },
];

static PROFILE: LazyLock<&Profile> = LazyLock::new(|| {
    let wanted = variable("STANDIN_VERSION").unwrap_or_else(|| "13.0".into());
    PROFILES.iter().find(|profile| profile.name == wanted).expect("STANDIN_VERSION names a profile")
});

impl Profile {
    /// The bytes of a record of this kind; none for a kind that only its writer knows.
    fn size(&self, kind: u32) -> Option<usize> {
        Some(match kind {
            KERNEL | CONCURRENT_KERNEL => self.kernel,
            MEMCPY => self.memcpy,
            MEMSET => self.memset,
            MEMCPY2 => self.memcpy2,
            DRIVER | RUNTIME => 40,
            OVERHEAD => self.overhead,
            SYNCHRONIZATION => self.synchronization,
            MEMORY2 => self.memory,
            _ => return None,
        })
    }
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// The present time on the stand-in's clock.
fn now() -> u64 {
    static SHIFT: LazyLock<i64> =
        LazyLock::new(|| variable("STANDIN_CLOCK_SHIFT").map_or(0, |text| text.parse().expect("a number")));
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
    (since.as_nanos() as u64).wrapping_add_signed(*SHIFT)
}

// ---- What every call does first -------------------------------------------------------------------------------

/// A first argument that no rule of the script names.
const NO_ARGUMENT: u32 = u32::MAX;

/// Held for writing by a call that hangs with the library's lock.
static GATE: RwLock<()> = RwLock::new(());
static CALLS: Mutex<BTreeMap<&'static str, u64>> = Mutex::new(BTreeMap::new());
static CALLED: Condvar = Condvar::new();
static VIOLATIONS: AtomicU32 = AtomicU32::new(0);
/// Calls until one fails with `FAIL_CODE`; 0: none will.
static FAIL_IN: AtomicU32 = AtomicU32::new(0);
static FAIL_CODE: AtomicU32 = AtomicU32::new(0);

/// The call that never returns, and meanwhile no other does either.
static HANGS_LOCKED: Mutex<&'static str> = Mutex::new("");

thread_local! { static IN_CALLBACK: Cell<bool> = const { Cell::new(false) }; }

fn violation(what: &str) {
    eprintln!("stand-in: {what}");
    VIOLATIONS.fetch_add(1, Ordering::Relaxed);
}

/// Counts a call, and fails or hangs as the script says.
fn enter(name: &'static str, argument: u32) -> Result<(), Code> {
    if IN_CALLBACK.get() {
        violation(&format!("{name} was called from inside a callback"));
        return Err(INVALID_OPERATION);
    }
    *CALLS.lock().unwrap().entry(name).or_default() += 1;
    CALLED.notify_all();
    if *HANGS_LOCKED.lock().unwrap() == name {
        let _locked = GATE.write();
        park();
    }
    let _open = GATE.read();
    if variable("STANDIN_HANG").is_some_and(|hangs| hangs == name) {
        park();
    }
    if FAIL_IN.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)) == Ok(1) {
        return Err(FAIL_CODE.load(Ordering::Relaxed));
    }
    static SCRIPT: LazyLock<String> = LazyLock::new(|| variable("STANDIN_FAIL").unwrap_or_default());
    for rule in SCRIPT.split(',').filter(|rule| !rule.is_empty()) {
        let [call, value, code] = rule.split(':').collect::<Vec<_>>().try_into().expect("call:argument:code");
        if call == name && (value == "*" || value.parse() == Ok(argument)) {
            return Err(code.parse().expect("a result code"));
        }
    }
    Ok(())
}

fn park() -> ! {
    loop {
        std::thread::park();
    }
}

macro_rules! functions {
    ($($name:ident($($arg:ident: $type:ty),*) [$first:expr] $body:block)*) => {$(
        #[allow(non_snake_case)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $type),*) -> Code {
            if let Err(code) = enter(stringify!($name), $first) {
                return code;
            }
            $body
        }
    )*};
}

// ---- State ----------------------------------------------------------------------------------------------------

type ApiCallback = unsafe extern "C" fn(*mut c_void, u32, u32, *const c_void);
type Requested = unsafe extern "C" fn(*mut *mut u8, *mut usize, *mut usize);
type Completed = unsafe extern "C" fn(*mut c_void, u32, *mut u8, usize, usize);

#[derive(Clone, Copy)]
struct Subscriber {
    callback: ApiCallback,
    userdata: usize,
}

/// A buffer of the client.
struct Buffer {
    pointer: usize,
    size: usize,
    used: usize,
}

#[derive(Default)]
struct State {
    subscriber: Option<Subscriber>,
    callbacks: BTreeSet<(u32, u32)>,
    domains: BTreeSet<u32>,
    kinds: BTreeSet<u32>,
    buffer_callbacks: Option<(Requested, Completed)>,
    zeroed_is_promised: bool,
    system_thread_ids: bool,
    context_exists: bool,
    /// Buffers being filled, by thread where the release does so.
    filling: BTreeMap<u64, Buffer>,
    full: Vec<Buffer>,
    hoarded: Vec<Buffer>,
    /// Addresses of all buffers that the stand-in has.
    held: BTreeSet<usize>,
    dropped: usize,
    /// Bytes to leave off the end of the next buffer.
    cut: usize,
    /// Callbacks of the subscriber that are running.
    running: u32,
}

static STATE: LazyLock<Mutex<State>> = LazyLock::new(Mutex::default);
/// A full buffer waits, or has been delivered, or a callback has returned.
static CHANGED: Condvar = Condvar::new();
static CORRELATION: AtomicU32 = AtomicU32::new(0);

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap()
}

/// Runs a callback of the client, in which no call is allowed.
fn in_callback<T>(body: impl FnOnce() -> T) -> T {
    IN_CALLBACK.set(true);
    let result = body();
    IN_CALLBACK.set(false);
    result
}

impl State {
    /// What must be set before activity calls.
    fn check_subscribed(&self, call: &str) {
        if self.subscriber.is_none() {
            violation(&format!("{call} without a subscription"));
        }
    }

    fn request(&mut self) -> Option<Buffer> {
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

    fn deliver(&mut self, buffer: Buffer) {
        let Some((_, completed)) = self.buffer_callbacks else { return };
        self.held.remove(&buffer.pointer);
        let valid = buffer.used - std::mem::take(&mut self.cut).min(buffer.used);
        in_callback(|| unsafe { completed(null_mut(), 0, buffer.pointer as *mut u8, buffer.size, valid) });
    }

    fn deliver_everything(&mut self) {
        let filling = std::mem::take(&mut self.filling).into_values();
        let buffers = std::mem::take(&mut self.full).into_iter().chain(filling);
        let hoarded = std::mem::take(&mut self.hoarded);
        for buffer in buffers.chain(hoarded).collect::<Vec<_>>() {
            self.deliver(buffer);
        }
        CHANGED.notify_all();
    }

    /// Room for a record, in the buffer of this thread or of all.
    fn room(&mut self, size: usize) -> Option<&'static mut [u8]> {
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

    fn write(&mut self, record: &Record<'_>) {
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

fn this_thread() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    thread_local! { static ID: u64 = NEXT.fetch_add(1, Ordering::Relaxed); }
    ID.with(|id| *id)
}

fn kernel_thread_id() -> u32 {
    let link = std::fs::read_link("/proc/thread-self").expect("Linux");
    link.file_name().and_then(|name| name.to_str()?.parse().ok()).expect("a thread id")
}

// ---- Records --------------------------------------------------------------------------------------------------

struct Record<'a> {
    kind: u32,
    work: &'a Work,
    correlation: u32,
    /// Which of the call's records.
    number: u32,
    start: u64,
    end: u64,
}

/// Writes a field at its offset, if the record reaches so far.
fn put<const N: usize>(record: &mut [u8], offset: usize, value: [u8; N]) {
    if let Some(field) = record.get_mut(offset..offset + N) {
        field.copy_from_slice(&value);
    }
}

impl Record<'_> {
    /// Lays the record out. The offsets are those of CUPTI's headers; see also `cupti-sys`.
    fn lay_out(&self, record: &mut [u8], system_thread_ids: bool) {
        let put4 = |record: &mut [u8], offset, value: u32| put(record, offset, value.to_ne_bytes());
        let put8 = |record: &mut [u8], offset, value: u64| put(record, offset, value.to_ne_bytes());
        let Self { kind, work, correlation, number, start, end } = *self;
        // What nobody should read as something else: everything that a newer release has appended.
        record.fill(if PROFILE.size(kind).is_some() { 0 } else { 0xee });
        put4(record, 0, kind);
        let (device, context, stream) = (0, 1, work.stream);
        let (graph, node) = if work.graph == 0 { (0, 0) } else { (work.graph, u64::from(number) + 1) };
        match kind {
            KERNEL | CONCURRENT_KERNEL => {
                put(record, 6, 32_u16.to_ne_bytes()); // registers
                (put8(record, 16, start), put8(record, 24, end), put8(record, 32, end));
                (put4(record, 40, device), put4(record, 44, context), put4(record, 48, stream));
                for (offset, size) in [(52, 4), (56, 3), (60, 2), (64, 128), (68, 2), (72, 1)] {
                    put4(record, offset, size); // grid, block
                }
                (put4(record, 76, 1024), put4(record, 80, 2048), put4(record, 84, 16));
                (put4(record, 92, correlation), put8(record, 96, correlation.into()));
                put8(record, 104, work.name as u64);
                (put8(record, 144, node), put4(record, 156, graph));
                (put4(record, 176, 2), put4(record, 180, 1), put4(record, 184, 1)); // cluster
            }
            MEMCPY | MEMCPY2 => {
                put(record, 4, [1, 1, 3, 1]); // host to device, pageable, device, asynchronous
                (put8(record, 8, work.bytes), put8(record, 16, start), put8(record, 24, end));
                (put4(record, 32, device), put4(record, 36, context), put4(record, 40, stream));
                if kind == MEMCPY {
                    (put4(record, 44, correlation), put8(record, 64, node), put4(record, 72, graph));
                } else {
                    (put4(record, 44, 0), put4(record, 48, 1), put4(record, 52, 1), put4(record, 56, 2));
                    (put4(record, 60, correlation), put8(record, 72, node), put4(record, 80, graph));
                }
            }
            MEMSET => {
                (put4(record, 4, 0xff), put8(record, 8, work.bytes));
                (put8(record, 16, start), put8(record, 24, end));
                (put4(record, 32, device), put4(record, 36, context), put4(record, 40, stream));
                (put4(record, 44, correlation), put(record, 48, [1, 0, 3, 0])); // asynchronous, device
                (put8(record, 64, node), put4(record, 72, graph));
            }
            DRIVER | RUNTIME => {
                put4(record, 4, if kind == DRIVER { work.cbid } else { 211 });
                (put8(record, 8, start), put8(record, 16, end), put4(record, 24, std::process::id()));
                put4(record, 28, if system_thread_ids { kernel_thread_id() } else { 0x5000_0000 });
                put4(record, 32, correlation);
            }
            OVERHEAD => {
                // Instrumentation, of a thread.
                (put4(record, 4, 2 << 16), put4(record, 8, 2));
                (put4(record, 12, std::process::id()), put4(record, 16, kernel_thread_id()));
                (put8(record, 24, start), put8(record, 32, end), put4(record, 40, correlation));
            }
            SYNCHRONIZATION => {
                (put4(record, 4, 3), put8(record, 8, start), put8(record, 16, end));
                (put4(record, 24, correlation), put4(record, 28, context), put4(record, 32, stream));
            }
            MEMORY2 => {
                (put4(record, 4, 1), put4(record, 8, 3), put4(record, 12, correlation));
                (put8(record, 16, 0xdead_0000), put8(record, 24, work.bytes), put8(record, 32, start));
                (put4(record, 48, std::process::id()), put4(record, 52, device));
                (put4(record, 56, context), put4(record, 60, stream));
            }
            // For the walk.
            _ => put4(record, 4, record.len() as u32),
        }
    }
}

// ---- CUPTI's own functions ------------------------------------------------------------------------------------

const HANDLE: usize = 0x5ab5;

functions! {
    cuptiGetVersion(version: *mut u32) [NO_ARGUMENT] {
        let number = variable("STANDIN_API").and_then(|text| text.parse().ok()).unwrap_or(PROFILE.api);
        unsafe { version.write(number) };
        SUCCESS
    }
    cuptiGetTimestamp(timestamp: *mut u64) [NO_ARGUMENT] {
        unsafe { timestamp.write(now()) };
        SUCCESS
    }
    cuptiGetResultString(_code: Code, text: *mut *const c_char) [NO_ARGUMENT] {
        unsafe { text.write(c"stand-in".as_ptr()) };
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
        if PROFILE.size(kind).is_none() {
            return INVALID_KIND;
        }
        state.kinds.insert(kind);
        SUCCESS
    }
    cuptiActivityDisable(kind: u32) [kind] {
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
        let mut state = state();
        state.check_subscribed("cuptiActivityFlushAll");
        state.deliver_everything();
        SUCCESS
    }
    cuptiActivityFlushPeriod(period: u32) [period] {
        state().check_subscribed("cuptiActivityFlushPeriod");
        SUCCESS
    }
    cuptiActivitySetAttribute(attribute: u32, size: *mut usize, value: *mut c_void) [attribute] {
        let mut state = state();
        state.check_subscribed("cuptiActivitySetAttribute");
        match (attribute, unsafe { size.read() }) {
            (0..=2 | 6 | 10, 8) => {}
            (5, 1) => state.zeroed_is_promised = unsafe { value.cast::<u8>().read() } == 1,
            (8 | 9, 1) => {}
            _ => {
                violation(&format!("attribute {attribute} is not known or has another size"));
                return INVALID_PARAMETER;
            }
        }
        SUCCESS
    }
}

/// The thread that delivers full buffers.
fn start_delivery() {
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

// ---- The program that uses CUDA -------------------------------------------------------------------------------

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
pub unsafe extern "C" fn standin_work(work: *const Work) -> u32 {
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
pub unsafe extern "C" fn standin_launch(count: u32) -> u32 {
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
    unsafe { standin_work(&raw const work) }
}

/// Asks for buffers and keeps them until the next flush, as threads that launch rarely do. Returns how many it got.
#[unsafe(no_mangle)]
pub extern "C" fn standin_hoard(count: u32) -> u32 {
    let mut state = state();
    let buffers: Vec<_> = (0..count).filter_map(|_| state.request()).collect();
    let got = buffers.len() as u32;
    state.hoarded.extend(buffers);
    got
}

/// Drops that many records, as CUPTI does for want of buffers.
#[unsafe(no_mangle)]
pub extern "C" fn standin_drop(count: usize) {
    state().dropped += count;
}

/// Leaves that many bytes off the end of the next buffer that is delivered.
#[unsafe(no_mangle)]
pub extern "C" fn standin_cut(bytes: usize) {
    state().cut = bytes;
}

/// Reports a fatal error.
#[unsafe(no_mangle)]
pub extern "C" fn standin_fatal() {
    tell(6, 1, null());
}

/// From here on, the call with this number fails; 0: none does.
#[unsafe(no_mangle)]
pub extern "C" fn standin_fail_in(calls: u32, code: Code) {
    FAIL_CODE.store(code, Ordering::Relaxed);
    FAIL_IN.store(calls, Ordering::Relaxed);
}

/// How many calls are left until one fails; 0: it has.
#[unsafe(no_mangle)]
pub extern "C" fn standin_fail_left() -> u32 {
    FAIL_IN.load(Ordering::Relaxed)
}

/// From here on, this function never returns, and once it has been called no other does either.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn standin_hang_locked(name: *const c_char) {
    let name = unsafe { CStr::from_ptr(name) }.to_str().unwrap();
    *HANGS_LOCKED.lock().unwrap() = String::leak(name.to_owned());
}

/// How often a function was called.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn standin_calls(name: *const c_char) -> u64 {
    let name = unsafe { CStr::from_ptr(name) }.to_str().unwrap();
    CALLS.lock().unwrap().get(name).copied().unwrap_or(0)
}

/// Waits until a function has been called so often.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn standin_await_call(name: *const c_char, count: u64) {
    let name = unsafe { CStr::from_ptr(name) }.to_str().unwrap();
    let fewer = |calls: &mut BTreeMap<&'static str, u64>| calls.get(name).copied().unwrap_or(0) < count;
    drop(CALLED.wait_while(CALLS.lock().unwrap(), fewer).unwrap());
}

/// How often any function was called.
#[unsafe(no_mangle)]
pub extern "C" fn standin_all_calls() -> u64 {
    CALLS.lock().unwrap().values().sum()
}

/// Waits until every full buffer has been delivered.
#[unsafe(no_mangle)]
pub extern "C" fn standin_await_delivery() {
    drop(CHANGED.wait_while(state(), |state| !state.full.is_empty()).unwrap());
}

/// How much is switched on: the subscription, each callback, domain and kind. It is printed, too.
#[unsafe(no_mangle)]
pub extern "C" fn standin_left_on() -> u32 {
    let State { subscriber, callbacks, domains, kinds, .. } = &*state();
    let count = usize::from(subscriber.is_some()) + callbacks.len() + domains.len() + kinds.len();
    if count > 0 {
        eprintln!("stand-in: on are {} {callbacks:?} {domains:?} {kinds:?}", subscriber.is_some());
    }
    count as u32
}

/// Buffers that the stand-in has.
#[unsafe(no_mangle)]
pub extern "C" fn standin_buffers_held() -> u32 {
    state().held.len() as u32
}

/// How often the client did what CUPTI forbids.
#[unsafe(no_mangle)]
pub extern "C" fn standin_violations() -> u32 {
    VIOLATIONS.load(Ordering::Relaxed)
}
