//! The functions of NVTX that are handled, once for both ways in which a call arrives.
#![expect(unsafe_code, reason = "reads the arguments that CUPTI's NVTX callbacks pass as structures")]

use std::ffi::{c_int, c_void};

use super::abi::{Attributes, Narrow, Wide};
use super::handler::{self, NOT_TRACKED, Via};
use crate::panics;

/// A place in one of NVTX's function tables, and what belongs there.
pub(super) struct Slot {
    pub module: c_int,
    pub id: usize,
    pub function: *const c_void,
}

/// `NVTX_CB_MODULE_CORE`: functions without a domain.
pub(super) const CORE: c_int = 1;

/// `NVTX_CB_MODULE_CORE2`: functions with a domain.
pub(super) const CORE2: c_int = 5;

/// The handle of the default domain.
const DEFAULT: usize = 0;

/// Each line: the table and the place in it, CUPTI's id of the same call, the function with its arguments, what it
/// returns if its handling panics, and what it does.
macro_rules! calls {
    ($(
        $module:ident $id:literal cupti $cbid:literal
        $function:ident($($argument:ident: $type:ty),*) -> $returns:ty = $otherwise:expr,
        |$via:ident| $handle:expr;
    )+) => {
        $(
            extern "C" fn $function($($argument: $type),*) -> $returns {
                panics::contain("nvtx", $otherwise, || {
                    let $via = Via::Table;
                    $handle
                })
            }
        )+

        /// What belongs into NVTX's function tables.
        pub(super) fn slots() -> impl Iterator<Item = Slot> {
            [$(Slot { module: $module, id: $id, function: $function as *const c_void }),+].into_iter()
        }

        /// Handles a call that arrived through CUPTI's NVTX callbacks: the callback's id, and `functionParams` and
        /// `functionReturnValue` of its data.
        ///
        /// # Safety
        ///
        /// Each pointer is NULL, or points to what CUPTI defines for this `cbid`, as in a callback.
        pub(crate) unsafe fn dispatch_cupti(cbid: u32, params: *const c_void, return_value: *const c_void) {
            panics::contain("nvtx", (), || match cbid {
                $($cbid => {
                    /// The arguments in a row, as C lays them out.
                    #[repr(C)]
                    struct Params {
                        $($argument: $type),*
                    }
                    if params.is_null() && size_of::<Params>() != 0 {
                        return;
                    }
                    // SAFETY: the caller promises that this structure is behind `params`; `read_unaligned` asks for
                    // no more.
                    let Params { $($argument),* } = unsafe { params.cast::<Params>().read_unaligned() };
                    // Only ids and handles matter, and they have 64 bits.
                    let returned = if size_of::<$returns>() == size_of::<u64>() && !return_value.is_null() {
                        // SAFETY: the caller promises that the call's return value is there, which has this size.
                        unsafe { return_value.cast::<u64>().read_unaligned() }
                    } else {
                        0
                    };
                    let $via = Via::Cupti { returned };
                    let _: $returns = $handle;
                })+
                _ => {}
            });
        }
    };
}

// CUPTI defines no parameters for naming a category of a domain; 0x10025 and 0x10026 are ids that it never sends.
calls! {
    CORE 1 cupti 3 mark_ex(said: Attributes) -> () = (), |_via| handler::mark(DEFAULT, said);
    CORE 2 cupti 1 mark_a(said: Narrow) -> () = (), |_via| handler::mark(DEFAULT, said);
    CORE 3 cupti 2 mark_w(said: Wide) -> () = (), |_via| handler::mark(DEFAULT, said);
    CORE 4 cupti 6 start_ex(said: Attributes) -> u64 = 0, |via| handler::start(via, DEFAULT, said);
    CORE 5 cupti 4 start_a(said: Narrow) -> u64 = 0, |via| handler::start(via, DEFAULT, said);
    CORE 6 cupti 5 start_w(said: Wide) -> u64 = 0, |via| handler::start(via, DEFAULT, said);
    CORE 7 cupti 7 end(id: u64) -> () = (), |via| handler::end(via, DEFAULT, id);
    CORE 8 cupti 10 push_ex(said: Attributes) -> c_int = NOT_TRACKED, |_via| handler::push(DEFAULT, said);
    CORE 9 cupti 8 push_a(said: Narrow) -> c_int = NOT_TRACKED, |_via| handler::push(DEFAULT, said);
    CORE 10 cupti 9 push_w(said: Wide) -> c_int = NOT_TRACKED, |_via| handler::push(DEFAULT, said);
    CORE 11 cupti 11 pop() -> c_int = NOT_TRACKED, |_via| handler::pop(DEFAULT);
    CORE 12 cupti 12 name_category_a(category: u32, name: Narrow) -> () = (),
        |_via| handler::name_category(DEFAULT, category, name);
    CORE 13 cupti 13 name_category_w(category: u32, name: Wide) -> () = (),
        |_via| handler::name_category(DEFAULT, category, name);
    CORE 14 cupti 14 name_thread_a(tid: u32, name: Narrow) -> () = (), |_via| handler::name_thread(tid, name);
    CORE 15 cupti 15 name_thread_w(tid: u32, name: Wide) -> () = (), |_via| handler::name_thread(tid, name);

    CORE2 1 cupti 30 domain_mark_ex(domain: usize, said: Attributes) -> () = (),
        |_via| handler::mark(domain, said);
    CORE2 2 cupti 31 domain_start_ex(domain: usize, said: Attributes) -> u64 = 0,
        |via| handler::start(via, domain, said);
    CORE2 3 cupti 32 domain_end(domain: usize, id: u64) -> () = (), |via| handler::end(via, domain, id);
    CORE2 4 cupti 33 domain_push_ex(domain: usize, said: Attributes) -> c_int = NOT_TRACKED,
        |_via| handler::push(domain, said);
    CORE2 5 cupti 34 domain_pop(domain: usize) -> c_int = NOT_TRACKED, |_via| handler::pop(domain);
    CORE2 8 cupti 0x10025 domain_name_category_a(domain: usize, category: u32, name: Narrow) -> () = (),
        |_via| handler::name_category(domain, category, name);
    CORE2 9 cupti 0x10026 domain_name_category_w(domain: usize, category: u32, name: Wide) -> () = (),
        |_via| handler::name_category(domain, category, name);
    CORE2 10 cupti 39 register_string_a(_domain: usize, text: Narrow) -> usize = 0,
        |via| handler::register_string(via, text);
    CORE2 11 cupti 40 register_string_w(_domain: usize, text: Wide) -> usize = 0,
        |via| handler::register_string(via, text);
    CORE2 12 cupti 41 create_domain_a(name: Narrow) -> usize = 0, |via| handler::create_domain(via, name);
    CORE2 13 cupti 42 create_domain_w(name: Wide) -> usize = 0, |via| handler::create_domain(via, name);
}

/// `nvtxRangePushA` as NVTX would call it; for benches.
pub(crate) fn push(name: &std::ffi::CStr) -> c_int {
    push_a(Narrow::from(name))
}

/// `nvtxRangePop` as NVTX would call it; for benches.
pub(crate) fn pop_pushed() -> c_int {
    pop()
}
