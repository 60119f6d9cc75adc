//! What every call does first: it is counted, and fails or hangs as the script says. Also what libraries here share.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::ffi::{c_char, c_int, c_void};
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Condvar, LazyLock, Mutex, MutexGuard, RwLock};

pub type Code = u32;
pub const SUCCESS: Code = 0;
pub const INVALID_PARAMETER: Code = 1;
pub const INVALID_OPERATION: Code = 7;
pub const MAX_LIMIT_REACHED: Code = 12;
pub const NOT_COMPATIBLE: Code = 14;
pub const INVALID_KIND: Code = 21;
pub const NOT_SUPPORTED: Code = 27;
pub const MULTIPLE_SUBSCRIBERS: Code = 39;

/// A first argument that no rule of the script names.
pub const NO_ARGUMENT: u32 = u32::MAX;

pub fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// A number from the environment.
pub fn number<T: FromStr>(name: &str) -> Option<T> {
    variable(name).map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text}")))
}

// ---- Rules that a client must keep ----------------------------------------------------------------------------

static VIOLATIONS: AtomicU32 = AtomicU32::new(0);

/// Prints and counts something that CUPTI forbids.
pub fn violation(what: &str) {
    eprintln!("simulated CUPTI: {what}");
    VIOLATIONS.fetch_add(1, Ordering::Relaxed);
}

/// How often the client did what CUPTI forbids.
#[unsafe(no_mangle)]
pub extern "C" fn sim_violations() -> u32 {
    VIOLATIONS.load(Ordering::Relaxed)
}

/// Whether a structure's `structSize` is one that this release knows: exactly one of these.
pub fn struct_size(call: &str, given: usize, known: &[usize]) -> Result<(), Code> {
    if known.contains(&given) {
        return Ok(());
    }
    violation(&format!("{call} was given {given} as structSize; this release knows {known:?}"));
    Err(INVALID_PARAMETER)
}

// ---- The script -----------------------------------------------------------------------------------------------

/// `call:argument or *:code or hang[:n-th call]`.
struct Rule {
    call: String,
    argument: Option<u32>,
    /// None: the call never returns.
    code: Option<Code>,
    nth: Option<u64>,
}

static SCRIPT: LazyLock<Vec<Rule>> = LazyLock::new(|| {
    let script = variable("SIM_FAIL").unwrap_or_default();
    let rules = script.split(',').filter(|rule| !rule.is_empty()).map(|rule| {
        let parts: Vec<_> = rule.split(':').collect();
        let [call, argument, code] = parts[..3] else { panic!("{rule} is no rule") };
        Rule {
            call: call.to_owned(),
            argument: (argument != "*").then(|| argument.parse().expect("an argument")),
            code: (code != "hang").then(|| code.parse().expect("a result code")),
            nth: parts.get(3).map(|nth| nth.parse().expect("which call")),
        }
    });
    rules.collect()
});

/// Calls until one fails with `FAIL_CODE`; 0: none will.
static FAIL_IN: AtomicU32 = AtomicU32::new(0);
static FAIL_CODE: AtomicU32 = AtomicU32::new(0);

/// Whether a call was made to fail, so that the client is excused for what it could not end.
pub fn is_excused() -> bool {
    FAIL_CODE.load(Ordering::Relaxed) != 0 && FAIL_IN.load(Ordering::Relaxed) == 0
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

/// Held for writing by a call that hangs with the library's lock.
static GATE: RwLock<()> = RwLock::new(());
/// The call that never returns, and meanwhile no other does either.
static HANGS_LOCKED: Mutex<&'static str> = Mutex::new("");
static ANY_HANGS_LOCKED: AtomicBool = AtomicBool::new(false);
/// Whether it has been called and holds the lock.
static HANGING: Mutex<bool> = Mutex::new(false);
static HANGS: Condvar = Condvar::new();

/// From here on, this function never returns, and once it has been called no other does either.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sim_hang_locked(name: *const c_char) {
    *HANGS_LOCKED.lock().unwrap() = String::leak(unsafe { text(name) }.to_owned());
    ANY_HANGS_LOCKED.store(true, Ordering::Relaxed);
}

/// Waits until that function has been called, and no other returns any more.
#[unsafe(no_mangle)]
pub extern "C" fn sim_await_hang() {
    drop(HANGS.wait_while(HANGING.lock().unwrap(), |hanging| !*hanging).unwrap());
}

/// The call that waits until the test says that it may go on: `SIM_SLOW`.
static SLOW: LazyLock<String> = LazyLock::new(|| variable("SIM_SLOW").unwrap_or_default());
static GOES_ON: Mutex<bool> = Mutex::new(false);
static MAY_GO_ON: Condvar = Condvar::new();

/// What waits goes on.
#[unsafe(no_mangle)]
pub extern "C" fn sim_go_on() {
    *GOES_ON.lock().unwrap() = true;
    MAY_GO_ON.notify_all();
}

pub fn park() -> ! {
    loop {
        std::thread::park();
    }
}

// ---- The journal ----------------------------------------------------------------------------------------------

/// One function of the library: how often it was called, and on which threads.
pub struct Call {
    name: &'static str,
    count: AtomicU64,
    threads: Mutex<BTreeSet<u64>>,
    listed: AtomicBool,
}

static CALLS: Mutex<Vec<&'static Call>> = Mutex::new(Vec::new());
static CALLED: Condvar = Condvar::new();
static WAITING: AtomicU32 = AtomicU32::new(0);

thread_local! { static LAST_CALLED: Cell<*const Call> = const { Cell::new(std::ptr::null()) }; }

impl Call {
    pub const fn new(name: &'static str) -> Self {
        Self {
            name,
            count: AtomicU64::new(0),
            threads: Mutex::new(BTreeSet::new()),
            listed: AtomicBool::new(false),
        }
    }

    fn note(&'static self) -> u64 {
        if !self.listed.swap(true, Ordering::Relaxed) {
            CALLS.lock().unwrap().push(self);
        }
        let count = self.count.fetch_add(1, Ordering::Relaxed) + 1;
        // Most calls are the same as the last of their thread.
        if LAST_CALLED.replace(self) != self {
            self.threads.lock().unwrap().insert(this_thread());
        }
        if WAITING.load(Ordering::Relaxed) > 0 {
            let _in_order = CALLS.lock().unwrap();
            CALLED.notify_all();
        }
        count
    }
}

fn find(calls: &[&'static Call], name: &str) -> Option<&'static Call> {
    calls.iter().find(|call| call.name == name).copied()
}

unsafe fn text<'a>(name: *const c_char) -> &'a str {
    unsafe { std::ffi::CStr::from_ptr(name) }.to_str().expect("a name")
}

/// How often a function was called.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sim_calls(name: *const c_char) -> u64 {
    let call = find(&CALLS.lock().unwrap(), unsafe { text(name) });
    call.map_or(0, |call| call.count.load(Ordering::Relaxed))
}

/// Whether this thread has called a function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sim_called_here(name: *const c_char) -> bool {
    let call = find(&CALLS.lock().unwrap(), unsafe { text(name) });
    call.is_some_and(|call| call.threads.lock().unwrap().contains(&this_thread()))
}

/// Waits until a function has been called so often.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sim_await_call(name: *const c_char, count: u64) {
    let name = unsafe { text(name) };
    let fewer = |calls: &mut Vec<&'static Call>| {
        find(calls, name).map_or(0, |call| call.count.load(Ordering::Relaxed)) < count
    };
    WAITING.fetch_add(1, Ordering::SeqCst);
    // Looked at now and then, too: a call may have been counted just before this one was known to wait.
    let mut calls = CALLS.lock().unwrap();
    while fewer(&mut calls) {
        calls = CALLED.wait_timeout(calls, std::time::Duration::from_millis(10)).unwrap().0;
    }
    WAITING.fetch_sub(1, Ordering::SeqCst);
}

/// Prints the functions that were called, `called NAME`.
#[unsafe(no_mangle)]
pub extern "C" fn sim_print_calls() {
    CALLS.lock().unwrap().iter().for_each(|call| println!("called {}", call.name));
}

/// How often any function was called.
#[unsafe(no_mangle)]
pub extern "C" fn sim_all_calls() -> u64 {
    CALLS.lock().unwrap().iter().map(|call| call.count.load(Ordering::Relaxed)).sum()
}

pub fn this_thread() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    thread_local! { static ID: u64 = NEXT.fetch_add(1, Ordering::Relaxed); }
    ID.with(|id| *id)
}

// ---- Calls and callbacks --------------------------------------------------------------------------------------

thread_local! { static IN_CALLBACK: Cell<bool> = const { Cell::new(false) }; }

/// A lock that the library holds while it calls back, and takes in every call, if `SIM_LOCKED_CALLBACKS` is set.
static LOCK: Mutex<()> = Mutex::new(());
static LOCKED_CALLBACKS: LazyLock<bool> = LazyLock::new(|| variable("SIM_LOCKED_CALLBACKS").is_some());

fn locked() -> Option<MutexGuard<'static, ()>> {
    LOCKED_CALLBACKS.then(|| LOCK.lock().unwrap())
}

/// Runs a callback of the client, in which neither CUPTI nor CUDA may be called.
pub fn in_callback<T>(body: impl FnOnce() -> T) -> T {
    let _lock = locked();
    IN_CALLBACK.set(true);
    tell_driver(true);
    let result = body();
    tell_driver(false);
    IN_CALLBACK.set(false);
    result
}

unsafe extern "C" {
    fn dlopen(file: *const c_char, mode: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
}

/// Has the simulated driver know that this thread is in a callback, too.
fn tell_driver(inside: bool) {
    const LAZY_AND_LOADED: c_int = 1 | 4;
    static TELL: LazyLock<Option<extern "C" fn(bool)>> = LazyLock::new(|| {
        let driver = unsafe { dlopen(c"libcuda.so.1".as_ptr(), LAZY_AND_LOADED) };
        if driver.is_null() {
            return None;
        }
        let function = unsafe { dlsym(driver, c"sim_cuda_in_callback".as_ptr()) };
        (!function.is_null())
            .then(|| unsafe { std::mem::transmute::<*mut c_void, extern "C" fn(bool)>(function) })
    });
    if let Some(tell) = *TELL {
        tell(inside);
    }
}

/// Counts a call, and fails or hangs as the script says.
pub fn enter(call: &'static Call, argument: u32) -> Result<(), Code> {
    if IN_CALLBACK.get() {
        violation(&format!("{} was called from inside a callback", call.name));
        return Err(INVALID_OPERATION);
    }
    let count = call.note();
    drop(locked());
    if *SLOW == call.name {
        drop(MAY_GO_ON.wait_while(GOES_ON.lock().unwrap(), |goes_on| !*goes_on).unwrap());
    }
    if ANY_HANGS_LOCKED.load(Ordering::Relaxed) {
        if *HANGS_LOCKED.lock().unwrap() == call.name {
            let _locked = GATE.write();
            *HANGING.lock().unwrap() = true;
            HANGS.notify_all();
            park();
        }
        drop(GATE.read());
    }
    if FAIL_IN.load(Ordering::Relaxed) > 0
        && FAIL_IN.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)) == Ok(1)
    {
        return Err(FAIL_CODE.load(Ordering::Relaxed));
    }
    for rule in SCRIPT.iter().filter(|rule| rule.call == call.name) {
        if rule.argument.is_none_or(|value| value == argument) && rule.nth.is_none_or(|nth| nth == count) {
            match rule.code {
                Some(code) => return Err(code),
                None => park(),
            }
        }
    }
    Ok(())
}

macro_rules! functions {
    ($($name:ident($($arg:ident: $type:ty),*) [$first:expr] $body:block)*) => {$(
        #[allow(non_snake_case)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $type),*) -> Code {
            static CALL: Call = Call::new(stringify!($name));
            if let Err(code) = enter(&CALL, $first) {
                return code;
            }
            $body
        }
    )*};
}

/// Functions that no client of this kind has a reason to call, as far as a program can find out that they exist.
macro_rules! forbidden {
    ($($name:ident: $why:literal;)*) => {$(
        #[allow(non_snake_case)]
        #[unsafe(no_mangle)]
        pub extern "C" fn $name() -> Code {
            violation(concat!(stringify!($name), " was called, ", $why));
            NOT_SUPPORTED
        }
    )*};
}
