//! The simulation notices what it is there to notice: clients that do what CUPTI forbids.
#![expect(unsafe_code, reason = "plays a client that keeps to no rule")]

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use libloading::Library;

use crate::Outcome;
use crate::library::Simulated;
use crate::process::{End, Process, given};

/// One buffer, which this client gives again and again.
static BUFFER: [AtomicU64; 1024] = [const { AtomicU64::new(0) }; 1024];
/// The client calls CUPTI from inside a callback.
static CALLS_BACK: AtomicBool = AtomicBool::new(false);

type Requested = unsafe extern "C" fn(*mut *mut u8, *mut usize, *mut usize);
type Completed = unsafe extern "C" fn(*mut c_void, u32, *mut u8, usize, usize);

unsafe extern "C" fn requested(buffer: *mut *mut u8, size: *mut usize, records: *mut usize) {
    if CALLS_BACK.load(Ordering::Relaxed) {
        raw::<unsafe extern "C" fn(u32) -> u32, _>(b"cuptiActivityFlushAll", |flush| {
            // SAFETY: the simulation refuses the call.
            unsafe { flush(0) }
        });
    }
    // SAFETY: the simulation passes pointers that can be written to.
    unsafe { buffer.write(BUFFER.as_ptr().cast_mut().cast()) };
    // SAFETY: as above.
    unsafe { size.write(8192) };
    // SAFETY: as above.
    unsafe { records.write(0) };
}

unsafe extern "C" fn completed(_: *mut c_void, _: u32, _: *mut u8, _: usize, _: usize) {}

unsafe extern "C" fn called(_: *mut c_void, _: u32, _: u32, _: *const c_void) {}

/// Calls a function of the library with this type.
fn raw<Function: Copy, T>(name: &[u8], call: impl FnOnce(Function) -> T) -> T {
    // SAFETY: the simulation does nothing harmful when it is loaded.
    let library = unsafe { Library::new(given("CUPROF_CUPTI_PATH")) }.unwrap();
    // SAFETY: callers name the type that the function has.
    let function = *unsafe { library.get::<Function>(name) }.unwrap();
    std::mem::forget(library);
    call(function)
}

fn subscribe() -> u32 {
    type Callback = unsafe extern "C" fn(*mut c_void, u32, u32, *const c_void);
    let mut handle = 0_usize;
    raw::<unsafe extern "C" fn(*mut usize, Callback, *mut c_void) -> u32, _>(b"cuptiSubscribe", |subscribe| {
        // SAFETY: the handle lives; the callback has the type that the library calls.
        unsafe { subscribe(&raw mut handle, called, std::ptr::null_mut()) }
    })
}

fn enable(kind: u32) -> u32 {
    raw::<unsafe extern "C" fn(u32) -> u32, _>(b"cuptiActivityEnable", |enable| {
        // SAFETY: any number may be passed.
        unsafe { enable(kind) }
    })
}

fn register() -> u32 {
    raw::<unsafe extern "C" fn(Requested, Completed) -> u32, _>(
        b"cuptiActivityRegisterCallbacks",
        |register| {
            // SAFETY: the callbacks have the types that the library calls.
            unsafe { register(requested, completed) }
        },
    )
}

#[test]
fn an_unloaded_library_is_noticed() -> Outcome {
    let process =
        Process::of(an_unloaded_library_is_noticed).breaking(&["was unloaded"]).ending(End::Code(97));
    process.run(|| {
        // SAFETY: the simulation does nothing harmful when it is loaded.
        drop(unsafe { Library::new(given("CUPROF_CUPTI_PATH")) }?);
        Ok(())
    })
}

#[test]
fn calls_without_a_subscription_and_to_forbidden_functions_are_noticed() -> Outcome {
    let process = Process::of(calls_without_a_subscription_and_to_forbidden_functions_are_noticed);
    let rules = &[
        "cuptiActivityEnable without a subscription",
        "cuptiActivityEnable before cuptiActivityRegisterCallbacks",
        "the kind that serialises",
        "cuptiFinalize was called",
    ];
    process.breaking(rules).run(|| {
        assert_eq!(enable(10), 0);
        assert_eq!(subscribe(), 0);
        register();
        assert_eq!(enable(3), 14, "NOT_COMPATIBLE");
        raw::<extern "C" fn() -> u32, _>(b"cuptiFinalize", |finalize| finalize());
        Ok(())
    })
}

#[test]
fn a_structure_of_another_size_is_noticed() -> Outcome {
    let process = Process::of(a_structure_of_another_size_is_noticed).breaking(&["attribute 5 was given 8"]);
    process.run(|| {
        assert_eq!(subscribe(), 0);
        type Set = unsafe extern "C" fn(u32, *mut usize, *mut c_void) -> u32;
        let (mut size, mut value) = (8_usize, 1_u64);
        let code = raw::<Set, _>(b"cuptiActivitySetAttribute", |set| {
            // SAFETY: both live.
            unsafe { set(5, &raw mut size, (&raw mut value).cast()) }
        });
        assert_eq!(code, 1, "INVALID_PARAMETER");
        Ok(())
    })
}

#[test]
fn a_buffer_that_is_given_twice_or_changed_and_a_call_from_a_callback_are_noticed() -> Outcome {
    let process = Process::of(a_buffer_that_is_given_twice_or_changed_and_a_call_from_a_callback_are_noticed);
    let rules: &'static [&'static str] = &[
        "handed out twice",
        "was changed while CUPTI had it",
        "was changed while CUPTI had it",
        "from inside a callback",
    ];
    process.breaking(rules).run(|| {
        assert_eq!((subscribe(), register(), enable(10)), (0, 0, 0));
        let cupti = Simulated::get();
        assert_eq!(cupti.hoard(2), 2);
        BUFFER[500].store(7, Ordering::Relaxed);
        CALLS_BACK.store(true, Ordering::Relaxed);
        type Flush = unsafe extern "C" fn(u32) -> u32;
        raw::<Flush, _>(b"cuptiActivityFlushAll", |flush| {
            // SAFETY: it gives the buffers back.
            unsafe { flush(1) }
        });
        BUFFER[500].store(0, Ordering::Relaxed);
        assert_eq!(cupti.hoard(1), 1);
        Ok(())
    })
}
