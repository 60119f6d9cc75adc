//! What every call does first: it is counted, and fails or hangs as the script says.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Condvar, LazyLock, Mutex, RwLock};
use std::time::SystemTime;

pub type Code = u32;
pub const SUCCESS: Code = 0;
pub const INVALID_PARAMETER: Code = 1;
pub const INVALID_OPERATION: Code = 7;
pub const MAX_LIMIT_REACHED: Code = 12;
pub const INVALID_KIND: Code = 21;
pub const MULTIPLE_SUBSCRIBERS: Code = 39;

pub fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// The present time on the simulated clock.
pub fn now() -> u64 {
    static SHIFT: LazyLock<i64> =
        LazyLock::new(|| variable("SIM_CLOCK_SHIFT").map_or(0, |text| text.parse().expect("a number")));
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
    (since.as_nanos() as u64).wrapping_add_signed(*SHIFT)
}

// ---- What every call does first -------------------------------------------------------------------------------

/// A first argument that no rule of the script names.
pub const NO_ARGUMENT: u32 = u32::MAX;

/// Held for writing by a call that hangs with the library's lock.
pub static GATE: RwLock<()> = RwLock::new(());
pub static CALLS: Mutex<BTreeMap<&'static str, u64>> = Mutex::new(BTreeMap::new());
pub static CALLED: Condvar = Condvar::new();
pub static VIOLATIONS: AtomicU32 = AtomicU32::new(0);
/// Calls until one fails with `FAIL_CODE`; 0: none will.
pub static FAIL_IN: AtomicU32 = AtomicU32::new(0);
pub static FAIL_CODE: AtomicU32 = AtomicU32::new(0);

/// The call that never returns, and meanwhile no other does either.
pub static HANGS_LOCKED: Mutex<&'static str> = Mutex::new("");

thread_local! { static IN_CALLBACK: Cell<bool> = const { Cell::new(false) }; }

pub fn violation(what: &str) {
    eprintln!("simulated CUPTI: {what}");
    VIOLATIONS.fetch_add(1, Ordering::Relaxed);
}

/// Runs a callback of the client, in which no call is allowed.
pub fn in_callback<T>(body: impl FnOnce() -> T) -> T {
    IN_CALLBACK.set(true);
    let result = body();
    IN_CALLBACK.set(false);
    result
}

/// Counts a call, and fails or hangs as the script says.
pub fn enter(name: &'static str, argument: u32) -> Result<(), Code> {
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
    if variable("SIM_HANG").is_some_and(|hangs| hangs == name) {
        park();
    }
    if FAIL_IN.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)) == Ok(1) {
        return Err(FAIL_CODE.load(Ordering::Relaxed));
    }
    static SCRIPT: LazyLock<String> = LazyLock::new(|| variable("SIM_FAIL").unwrap_or_default());
    for rule in SCRIPT.split(',').filter(|rule| !rule.is_empty()) {
        let [call, value, code] = rule.split(':').collect::<Vec<_>>().try_into().expect("call:argument:code");
        if call == name && (value == "*" || value.parse() == Ok(argument)) {
            return Err(code.parse().expect("a result code"));
        }
    }
    Ok(())
}

pub fn park() -> ! {
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
