//! How the handler gets into the program's NVTX.
#![expect(unsafe_code, reason = "defines the symbol that NVTX looks for, and fills NVTX's function tables")]

use std::ffi::{c_int, c_uint, c_void};
use std::sync::atomic::{AtomicU32, Ordering};

use super::calls;
use crate::panics;

/// NVTX instances that have taken this handler.
static INITIALISED: AtomicU32 = AtomicU32::new(0);

/// `NvtxGetExportTableFunc_t`.
type GetExportTable = unsafe extern "C" fn(u32) -> *const c_void;

/// `NvtxExportTableCallbacks`.
#[repr(C)]
struct Callbacks {
    struct_size: usize,
    get_module_function_table: Option<GetModuleFunctionTable>,
}

type GetModuleFunctionTable = unsafe extern "C" fn(c_int, *mut Table, *mut c_uint) -> c_int;

/// `NvtxFunctionTable`: an array of pointers to where NVTX keeps its function pointers.
type Table = *const *mut *const c_void;

/// `NVTX_ETID_CALLBACKS`.
const CALLBACKS: u32 = 1;

/// The symbol that NVTX defines weakly (as NULL) in every program that contains it. This strong definition replaces
/// it, so that NVTX calls `initialise` at its first call, unless a tool was named by environment variable.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "NVTX chose the name")]
pub static InitializeInjectionNvtx2_fnptr: unsafe extern "C" fn(Option<GetExportTable>) -> c_int = initialise;

/// Makes the linker take this object file, and with it the symbol, into the program. Called by every session.
pub(crate) fn keep() {
    std::hint::black_box(&InitializeInjectionNvtx2_fnptr);
}

/// Whether an NVTX instance of this program has taken this handler. Until its first call none has; after that,
/// "no" means that it belongs to another tool, or that there is no NVTX in the program.
pub(crate) fn initialised() -> bool {
    INITIALISED.load(Ordering::Relaxed) > 0
}

/// `InitializeInjectionNvtx2`: called once by each NVTX instance. Returns 1 for success.
unsafe extern "C" fn initialise(get_export_table: Option<GetExportTable>) -> c_int {
    panics::contain("nvtx", 0, || {
        let filled = get_export_table.is_some_and(|get| {
            // SAFETY: NVTX passes its own function, which takes any number.
            let callbacks = unsafe { get(CALLBACKS) }.cast::<Callbacks>();
            // SAFETY: NVTX returns NULL, or a pointer to its static structure, for this number.
            let callbacks = unsafe { callbacks.as_ref() };
            callbacks.is_some_and(|callbacks| [calls::CORE, calls::CORE2].iter().all(|&m| fill(callbacks, m)))
        });
        INITIALISED.fetch_add(u32::from(filled), Ordering::Relaxed);
        c_int::from(filled)
    })
}

/// Puts this handler's functions into the table of one module. Whether NVTX has that table.
fn fill(callbacks: &Callbacks, module: c_int) -> bool {
    if callbacks.struct_size < size_of::<Callbacks>() {
        return false;
    }
    let Some(get_table) = callbacks.get_module_function_table else { return false };
    let (mut table, mut len): (Table, c_uint) = (std::ptr::null(), 0);
    // SAFETY: NVTX's own function; it writes to the two places, which are ours.
    let known = unsafe { get_table(module, &raw mut table, &raw mut len) };
    if known == 0 || table.is_null() {
        return false;
    }
    for slot in calls::slots().filter(|slot| slot.module == module && slot.id < len as usize) {
        // SAFETY: the table has `len` entries, which NVTX never changes.
        let place = unsafe { table.wrapping_add(slot.id).read() };
        if !place.is_null() {
            // SAFETY: the entry points to a function pointer of NVTX's, which nobody reads before this returns.
            unsafe { place.write(slot.function) };
        }
    }
    true
}
