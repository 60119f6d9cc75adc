//! The simulated CUPTI from the side of a test: the program that uses CUDA.
#![expect(unsafe_code, reason = "calls the functions of a library that was opened at run time")]

use std::ffi::{CStr, c_char};

use libloading::Library;

#[path = "libraries/work.rs"]
mod work;
pub use work::Work;

/// Numbers of record kinds.
pub mod kind {
    pub const MEMCPY: u32 = 1;
    pub const MEMSET: u32 = 2;
    pub const KERNEL: u32 = 3;
    pub const CONCURRENT_KERNEL: u32 = 10;
    pub const OVERHEAD: u32 = 17;
    pub const MEMCPY2: u32 = 22;
    pub const SYNCHRONIZATION: u32 = 38;
    pub const MEMORY2: u32 = 49;
}

impl Work {
    /// One copy to the device.
    pub const COPY: Self = Self { kind: kind::MEMCPY, cbid: 277, bytes: 4096, ..Self::KERNEL }; // cuMemcpyHtoDAsync_v2

    /// One fill.
    pub const FILL: Self = Self { kind: kind::MEMSET, cbid: 249, bytes: 512, ..Self::KERNEL }; // cuMemsetD8Async

    /// The same with these stamps.
    pub fn stamped(self, start: u64, end: u64) -> Self {
        Self { stamped: 1, start, end, ..self }
    }
}

/// The loaded library.
#[derive(Clone, Copy)]
pub struct Simulated {
    library: &'static Library,
}

macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident = $symbol:literal($($arg:ident: $type:ty),*) $(-> $result:ty)?;)*) => {
        impl Simulated {$(
            $(#[$doc])*
            pub fn $name(self $(, $arg: $type)*) $(-> $result)? {
                type Function = unsafe extern "C" fn($($type),*) $(-> $result)?;
                // SAFETY: the simulation declares the function with this signature.
                let function = unsafe { self.library.get::<Function>($symbol) }.unwrap();
                // SAFETY: as above; pointers, if any, are to live values, since this is only called below and in tests
                // with constants.
                unsafe { function($($arg),*) }
            }
        )*}
    };
}

functions! {
    /// Launches kernels on this thread. Returns the last correlation id.
    launch = b"sim_launch"(count: u32) -> u32;
    do_work = b"sim_work"(work: *const Work) -> u32;
    /// Takes buffers and keeps them until the next flush. Returns how many there were.
    hoard = b"sim_hoard"(count: u32) -> u32;
    /// Drops records.
    drop_records = b"sim_drop"(count: usize);
    /// Leaves bytes off the end of the next buffer.
    cut = b"sim_cut"(bytes: usize);
    /// Reports a fatal error.
    fatal = b"sim_fatal"();
    /// The call with this number from here on fails.
    fail_in = b"sim_fail_in"(calls: u32, code: u32);
    /// Calls that are left until then; 0: it has failed.
    fail_left = b"sim_fail_left"() -> u32;
    called_here_in = b"sim_called_here"(name: *const c_char) -> bool;
    /// Destroys a context.
    destroy_context = b"sim_destroy_context"(context: u32);
    /// Unloads a module.
    unload_module = b"sim_unload_module"();
    /// Another part of the process switches a kind off.
    switch_off = b"sim_switch_off"(kind: u32);
    /// What `SIM_SLOW` names goes on.
    go_on = b"sim_go_on"();
    /// Whether a kind is on.
    is_on = b"sim_is_on"(kind: u32) -> bool;
    /// Ends the buffers that are being filled. Returns how many wait for delivery.
    close_buffers = b"sim_close_buffers"() -> u32;
    /// Delivers one of them on this thread.
    deliver = b"sim_deliver"(place: u32);
    /// Keeps the filled buffers over every flush. Returns how many it keeps.
    keep = b"sim_keep"() -> u32;
    /// Writes into the buffers that are kept, and gives them back at the next flush.
    write_late = b"sim_write_late"();
    hang_locked_in = b"sim_hang_locked"(name: *const c_char);
    /// Waits until the function that hangs has been called, and no other returns any more.
    await_hang = b"sim_await_hang"();
    calls_to = b"sim_calls"(name: *const c_char) -> u64;
    await_call_to = b"sim_await_call"(name: *const c_char, count: u64);
    /// Prints which functions were called.
    print_calls = b"sim_print_calls"();
    /// Calls to any function.
    all_calls = b"sim_all_calls"() -> u64;
    /// Waits until full buffers have been delivered.
    await_delivery = b"sim_await_delivery"();
    /// Subscriptions, callbacks and kinds that are on.
    left_on = b"sim_left_on"() -> u32;
    /// Switches off what a client failed to.
    reset = b"sim_reset"();
    /// Enabled range profilers and host objects.
    profiler_left_on = b"sim_profiler_left_on"() -> u32;
    /// The cache control mode of the last range profiler.
    cache_mode = b"sim_cache_mode"() -> u32;
    /// Buffers that it has.
    buffers_held = b"sim_buffers_held"() -> u32;
}

impl Simulated {
    /// The library that this process's sessions use, or will use.
    pub fn get() -> Self {
        let path = std::env::var_os("CUPROF_CUPTI_PATH").unwrap();
        // SAFETY: it is the simulation, which does nothing when it is loaded. Leaked: it is never closed.
        let library = unsafe { Library::new(path) }.unwrap();
        Self { library: Box::leak(Box::new(library)) }
    }

    /// Does this work on this thread. Returns the last correlation id.
    pub fn work(self, work: Work) -> u32 {
        self.do_work(&raw const work)
    }

    /// This function never returns from here on, and once it has been called no other does.
    pub fn hang_locked(self, name: &CStr) {
        self.hang_locked_in(name.as_ptr());
    }

    /// How often a function was called.
    pub fn calls(self, name: &CStr) -> u64 {
        self.calls_to(name.as_ptr())
    }

    /// Whether this thread has called a function.
    pub fn called_here(self, name: &CStr) -> bool {
        self.called_here_in(name.as_ptr())
    }

    /// Waits until a function has been called so often.
    pub fn await_call(self, name: &CStr, count: u64) {
        self.await_call_to(name.as_ptr(), count);
    }
}

/// Writes a name over another of the same length, as a module that is loaded where another was does.
pub fn write_name(place: *mut c_char, name: &[u8]) {
    // SAFETY: tests pass a leaked name of theirs, and nobody reads it at this moment.
    unsafe { std::ptr::copy_nonoverlapping(name.as_ptr(), place.cast(), name.len()) };
}
