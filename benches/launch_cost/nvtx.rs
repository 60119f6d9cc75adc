//! An NVTX of our own, as far as libcupti needs one: its handlers of push and pop, called directly.
//!
//! A program that is annotated with NVTX and profiled through CUPTI calls exactly these handlers. Going through the
//! real NVTX would add nothing but a load and a jump.
#![expect(unsafe_code, reason = "speaks NVTX's C interface with libcupti")]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

use cupti_sys::Symbols;

const ETID_CALLBACKS: u32 = 1;
const ETID_VERSION: u32 = 3;
const CORE: usize = 1;
const CORE_PUSH_A: usize = 9;
const CORE_POP: usize = 11;

/// Functions of each module, by the module's number: none, core, CUDA, OpenCL, CUDA runtime, core2, sync.
const SIZES: [usize; 7] = [0, 16, 9, 15, 7, 16, 7];
const LARGEST: usize = 16;

type Slot = AtomicPtr<c_void>;

/// The function pointers that libcupti fills in.
static SLOTS: [[Slot; LARGEST]; SIZES.len()] =
    [const { [const { Slot::new(null_mut()) }; LARGEST] }; SIZES.len()];

/// What `GetModuleFunctionTable` hands out: pointers to the slots. The first entry and the one past the end are null.
struct Tables([[*const Slot; LARGEST + 1]; SIZES.len()]);

// SAFETY: the pointers are to statics, whose contents are atomic.
unsafe impl Sync for Tables {}

static TABLES: Tables = Tables({
    let mut tables = [[std::ptr::null(); LARGEST + 1]; SIZES.len()];
    let mut module = 0;
    while module < SIZES.len() {
        let mut id = 1;
        while id < SIZES[module] {
            tables[module][id] = &raw const SLOTS[module][id];
            id += 1;
        }
        module += 1;
    }
    tables
});

#[repr(C)]
struct Callbacks {
    size: usize,
    get_module_function_table:
        unsafe extern "C" fn(module: u32, table: *mut *const *const Slot, size: *mut u32) -> c_int,
}

#[repr(C)]
struct Version {
    size: usize,
    version: u32,
    reserved: u32,
    set_injection_version: extern "C" fn(u32),
}

static CALLBACKS: Callbacks =
    Callbacks { size: size_of::<Callbacks>(), get_module_function_table: module_function_table };
static VERSION: Version =
    Version { size: size_of::<Version>(), version: 3, reserved: 0, set_injection_version: ignore };

extern "C" fn ignore(_version: u32) {}

unsafe extern "C" fn module_function_table(
    module: u32,
    table: *mut *const *const Slot,
    size: *mut u32,
) -> c_int {
    let Some((entries, count)) = TABLES.0.get(module as usize).zip(SIZES.get(module as usize)) else {
        return 0;
    };
    if *count == 0 {
        return 0;
    }
    if !table.is_null() {
        // SAFETY: the caller gave a place for the table's address, or null.
        unsafe { table.write(entries.as_ptr()) };
    }
    if !size.is_null() {
        // SAFETY: the caller gave a place for the number of entries, or null.
        unsafe { size.write(*count as u32) };
    }
    1
}

unsafe extern "C" fn export_table(id: u32) -> *const c_void {
    match id {
        ETID_CALLBACKS => (&raw const CALLBACKS).cast(),
        ETID_VERSION => (&raw const VERSION).cast(),
        _ => std::ptr::null(),
    }
}

/// libcupti's handlers of ranges on a thread's stack.
#[derive(Clone, Copy)]
pub struct Handlers {
    push: unsafe extern "C" fn(*const c_char) -> c_int,
    pop: unsafe extern "C" fn() -> c_int,
}

impl Handlers {
    /// Lets libcupti install itself.
    pub fn of(cupti: &Symbols) -> Result<Self, String> {
        let initialize =
            cupti.InitializeInjectionNvtx2.ok_or("this libcupti exports no InitializeInjectionNvtx2")?;
        // SAFETY: the function is NVTX's entry point, and gets an export table of NVTX's layout.
        let installed = unsafe { initialize(Some(export_table)) };
        if installed != 1 {
            return Err(format!("InitializeInjectionNvtx2 returned {installed}"));
        }
        let slot = |id: usize| {
            let handler = SLOTS[CORE][id].load(Ordering::Acquire);
            if handler.is_null() { Err(format!("libcupti installed no handler {id}")) } else { Ok(handler) }
        };
        let (push, pop) = (slot(CORE_PUSH_A)?, slot(CORE_POP)?);
        Ok(Self {
            // SAFETY: the slot holds a function with NVTX's signature of nvtxRangePushA.
            push: unsafe {
                std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*const c_char) -> c_int>(push)
            },
            // SAFETY: the slot holds a function with NVTX's signature of nvtxRangePop.
            pop: unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn() -> c_int>(pop) },
        })
    }

    /// `nvtxRangePushA`.
    #[inline]
    pub fn push(self, name: &CStr) {
        // SAFETY: the name is a C string that lives through the call.
        unsafe { (self.push)(name.as_ptr()) };
    }

    /// `nvtxRangePop`.
    #[inline]
    pub fn pop(self) {
        // SAFETY: the function has no conditions.
        unsafe { (self.pop)() };
    }
}
