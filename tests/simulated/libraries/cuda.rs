//! A simulation of `libcuda.so.1`: one device, and contexts in which everything has already run.
//!
//! `SIM_CUDA_VERSION` is the driver's CUDA version (13000), `SIM_CUDA_FAIL` makes calls fail
//! (`cuInit:999,cuCtxSynchronize:719`), `SIM_CUDA_DEVICES` lists devices (171), and the call that `SIM_CUDA_HANG` names
//! never returns. With `SIM_CUDA_NO_CONTEXT` no context is current but those that are
//! pushed. The names of calls are appended to the file that
//! `SIM_CUDA_JOURNAL` names. With `SIM_CUDA_RUNS` the simulated CUPTI records what is launched; otherwise only tests say
//! what runs.
#![deny(warnings, unsafe_op_in_unsafe_fn)]

use std::cell::Cell;
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::io::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

mod work;
use work::Work;

thread_local! { static IN_CALLBACK: Cell<bool> = const { Cell::new(false) }; }
// Contexts that were pushed and not popped.
thread_local! { static PUSHED: Cell<i32> = const { Cell::new(0) }; }
// Kernels of the stream capture of this thread, if there is one.
thread_local! { static CAPTURED: Cell<Option<u32>> = const { Cell::new(None) }; }
static CALLS: AtomicU64 = AtomicU64::new(0);
static VIOLATIONS: AtomicU32 = AtomicU32::new(0);

/// CUPTI tells whether it calls back on this thread.
#[unsafe(no_mangle)]
pub extern "C" fn sim_cuda_in_callback(inside: bool) {
    IN_CALLBACK.set(inside);
}

/// Calls to any function.
#[unsafe(no_mangle)]
pub extern "C" fn sim_cuda_calls() -> u64 {
    CALLS.load(Ordering::Relaxed)
}

/// How often a client did what it must not.
#[unsafe(no_mangle)]
pub extern "C" fn sim_cuda_violations() -> u32 {
    VIOLATIONS.load(Ordering::Relaxed)
}

fn violation(what: &str) {
    eprintln!("simulated driver: {what}");
    VIOLATIONS.fetch_add(1, Ordering::Relaxed);
}

/// Whether the script lets this call succeed.
fn enter(name: &str) -> Result<(), c_int> {
    CALLS.fetch_add(1, Ordering::Relaxed);
    if IN_CALLBACK.get() {
        violation(&format!("{name} was called from inside a callback"));
    }
    while std::env::var("SIM_CUDA_HANG").is_ok_and(|hangs| hangs == name) {
        std::thread::park();
    }
    if let Some(path) = std::env::var_os("SIM_CUDA_JOURNAL") {
        let file = std::fs::File::options().create(true).append(true).open(path);
        let _told = file.and_then(|mut file| writeln!(file, "{name}"));
    }
    let script = std::env::var("SIM_CUDA_FAIL").unwrap_or_default();
    let mut rules = script.split(',').filter_map(|rule| rule.split_once(':'));
    match rules.find(|(call, _)| *call == name) {
        Some((_, code)) => Err(code.parse().unwrap_or(999)),
        None => Ok(()),
    }
}

/// The devices that are visible, `SIM_CUDA_DEVICES`: a byte that its UUID consists of, for each.
fn devices() -> Vec<u8> {
    let visible = std::env::var("SIM_CUDA_DEVICES").unwrap_or_else(|_| "171".into());
    visible.split(',').map(|device| device.parse().expect("a byte")).collect()
}

unsafe extern "C" {
    fn dlopen(file: *const c_char, mode: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
}

/// Has CUPTI record this, if it is there.
fn run(work: Work) {
    const LAZY_AND_LOADED: c_int = 1 | 4;
    let path = std::env::var("CUPROF_CUPTI_PATH").ok().and_then(|path| CString::new(path).ok());
    let Some(path) = path.filter(|_| std::env::var_os("SIM_CUDA_RUNS").is_some()) else { return };
    let cupti = unsafe { dlopen(path.as_ptr(), LAZY_AND_LOADED) };
    let function = if cupti.is_null() { cupti } else { unsafe { dlsym(cupti, c"sim_work".as_ptr()) } };
    if !function.is_null() {
        let sim_work: unsafe extern "C" fn(*const Work) -> u32 = unsafe { std::mem::transmute(function) };
        unsafe { sim_work(&raw const work) };
    }
}

/// The last launch of the kernel that holds back what is launched behind it: the word that it polls, what it waits for,
/// and until when. Nothing else takes any time here.
static GATE: Mutex<Option<(usize, u32, Instant)>> = Mutex::new(None);

/// Waits for the device, as whoever synchronises does.
fn await_gate() {
    let Some((word, ticket, end)) = *GATE.lock().expect("nobody panics with it") else { return };
    let word = unsafe { &*std::ptr::with_exposed_provenance::<AtomicU32>(word) };
    let is_closed = || (word.load(Ordering::Relaxed).wrapping_sub(ticket) as i32) < 0;
    while is_closed() && Instant::now() < end {
        std::thread::yield_now();
    }
}

/// A kernel is launched, or captured. Its handle is its name.
///
/// # Safety
/// The gate's kernel has three numbers for parameters.
unsafe fn launch(kernel: *mut c_void, parameters: *const *const u64) {
    if unsafe { CStr::from_ptr(kernel.cast_const().cast()) } == c"cuprof_internal_gate" {
        let parameters: [*const u64; 3] = std::array::from_fn(|at| unsafe { *parameters.add(at) });
        let [word, ticket, limit_ns] = parameters.map(|parameter| unsafe { *parameter });
        let end = Instant::now() + Duration::from_nanos(limit_ns);
        *GATE.lock().expect("nobody panics with it") = Some((word as usize, ticket as u32, end));
    }
    match CAPTURED.get() {
        Some(kernels) => CAPTURED.set(Some(kernels + 1)),
        None => run(Work { name: kernel.cast_const().cast(), ..Work::KERNEL }),
    }
}

/// Handles of graphs are numbers of kernels.
fn launch_graph(kernels: *mut c_void) {
    const CU_GRAPH_LAUNCH: u32 = 514;
    run(Work { cbid: CU_GRAPH_LAUNCH, graph: 9, records: kernels.addr() as u32, ..Work::KERNEL });
}

/// A name that stays where it is, for each name one.
///
/// # Safety
/// It is a C string.
unsafe fn kept(name: *const c_char) -> *mut c_void {
    let name = unsafe { CStr::from_ptr(name) };
    CString::from(name).into_raw().cast()
}

macro_rules! functions {
    ($($name:ident($($arg:ident: $type:ty),*) { $($out:ident = $value:expr;)* $(=> $action:expr;)? })*) => {$(
        /// # Safety
        /// As the driver's: pointers can be written to.
        #[allow(non_snake_case)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $type),*) -> c_int {
            if let Err(code) = enter(stringify!($name)) {
                return code;
            }
            $(unsafe { $out.write($value) };)*
            $($action;)?
            0
        }
    )*};
}

/// Makes a context current.
#[allow(non_snake_case)]
#[unsafe(no_mangle)]
pub extern "C" fn cuCtxPushCurrent_v2(_context: *mut c_void) -> c_int {
    if let Err(code) = enter("cuCtxPushCurrent_v2") {
        return code;
    }
    PUSHED.set(PUSHED.get() + 1);
    0
}

functions! {
    cuInit(_flags: c_uint) {}
    cuDriverGetVersion(version: *mut c_int) {
        version = std::env::var("SIM_CUDA_VERSION").ok().and_then(|text| text.parse().ok()).unwrap_or(13_000);
    }
    cuDeviceGetCount(count: *mut c_int) { count = devices().len() as c_int; }
    cuDeviceGet(device: *mut c_int, ordinal: c_int) { device = ordinal; }
    cuDeviceGetName(name: *mut [u8; 14], _length: c_int, _device: c_int) { name = *b"Simulated GPU\0"; }
    cuDeviceGetUuid(uuid: *mut [u8; 16], device: c_int) { uuid = [devices()[device as usize]; 16]; }
    cuDeviceGetAttribute(value: *mut c_int, attribute: c_int, _device: c_int) { value = attribute; }
    cuDeviceTotalMem_v2(bytes: *mut usize, _device: c_int) { bytes = 1 << 30; }
    cuCtxPopCurrent_v2(context: *mut *mut c_void) {
        context = { PUSHED.set(PUSHED.get() - 1); std::ptr::null_mut() };
    }
    cuDevicePrimaryCtxRetain(context: *mut *mut c_void, _device: c_int) {
        context = std::ptr::without_provenance_mut(0xb0);
    }
    cuDevicePrimaryCtxRelease_v2(_device: c_int) {}
    cuCtxSynchronize() { => await_gate(); }
    cuCtxGetCurrent(context: *mut *mut c_void) {
        context = std::ptr::without_provenance_mut(
            if PUSHED.get() == 0 && std::env::var_os("SIM_CUDA_NO_CONTEXT").is_some() { 0 } else { 0xc0 }
        );
    }
    cuCtxSetCurrent(_context: *mut c_void) {}
    cuCtxGetDevice(device: *mut c_int) { device = 0; }
    cuCtxResetPersistingL2Cache() {}
    cuModuleLoadDataEx(
        module: *mut *mut c_void, _image: *const c_char, _options: c_uint, _keys: *mut c_int, _values: *mut *mut c_void
    ) { module = std::ptr::without_provenance_mut(0xd0); }
    cuModuleUnload(_module: *mut c_void) {}
    cuModuleLoadData(module: *mut *mut c_void, _image: *const c_void) {
        module = std::ptr::without_provenance_mut(0xd0);
    }
    cuModuleGetFunction(function: *mut *mut c_void, _module: *mut c_void, name: *const c_char) {
        function = kept(name);
    }
    cuMemAlloc_v2(address: *mut u64, _bytes: usize) { address = 0x1000; }
    cuMemFree_v2(_address: u64) {}
    cuMemAllocAsync(address: *mut u64, _bytes: usize, _stream: *mut c_void) { address = 0x1000; }
    cuMemFreeAsync(_address: u64, _stream: *mut c_void) {}
    cuMemsetD8Async(_address: u64, _value: u8, _bytes: usize, _stream: *mut c_void) {}
    cuMemcpyHtoDAsync_v2(_to: u64, _from: *const c_void, _bytes: usize, _stream: *mut c_void) {}
    cuMemsetD32Async(_address: u64, _value: c_uint, _words: usize, _stream: *mut c_void) {}
    cuLaunchKernel(
        function: *mut c_void, _grid_x: c_uint, _grid_y: c_uint, _grid_z: c_uint, _block_x: c_uint, _block_y: c_uint,
        _block_z: c_uint, _shared: c_uint, _stream: *mut c_void, parameters: *const *const u64, _extra: *mut *mut c_void
    ) { => unsafe { launch(function, parameters) }; }
    cuStreamBeginCapture_v2(_stream: *mut c_void, _mode: c_int) { => CAPTURED.set(Some(0)); }
    cuStreamEndCapture(_stream: *mut c_void, graph: *mut *mut c_void) {
        graph = std::ptr::without_provenance_mut(CAPTURED.take().unwrap_or_default() as usize);
    }
    cuGraphInstantiateWithFlags(exec: *mut *mut c_void, graph: *mut c_void, _flags: u64) { exec = graph; }
    cuGraphLaunch(exec: *mut c_void, _stream: *mut c_void) { => launch_graph(exec); }
    cuGraphExecDestroy(_exec: *mut c_void) {}
    cuGraphDestroy(_graph: *mut c_void) {}
    cuStreamCreate(stream: *mut *mut c_void, _flags: c_uint) { stream = std::ptr::without_provenance_mut(0xe0); }
    cuStreamDestroy_v2(_stream: *mut c_void) {}
    cuStreamSynchronize(_stream: *mut c_void) { => await_gate(); }
    cuMemHostRegister_v2(_memory: *mut c_void, _bytes: usize, _flags: c_uint) {}
    cuMemHostUnregister(_memory: *mut c_void) {}
    cuMemHostGetDevicePointer_v2(address: *mut u64, memory: *mut c_void, _flags: c_uint) {
        address = memory.expose_provenance() as u64;
    }
    cuStreamIsCapturing(_stream: *mut c_void, status: *mut c_int) {
        status = c_int::from(std::env::var_os("SIM_CUDA_CAPTURING").is_some());
    }
    cuGetErrorString(_code: c_int, text: *mut *const c_char) { text = c"simulated".as_ptr(); }
}
