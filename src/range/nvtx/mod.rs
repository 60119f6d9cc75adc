//! NVTX: a handler inside the program, so that ranges of any library that was built with NVTX are seen without a
//! tool from outside.
//!
//! NVTX asks at its first call for a tool: first the library that `NVTX_INJECTION64_PATH` names, then the symbol
//! `InitializeInjectionNvtx2_fnptr`, which NVTX itself defines weakly and `install` defines strongly. That reaches
//! the NVTX linked into the program. NVTX inside shared libraries has that symbol to itself: it is reached by
//! pointing the variable at CUPTI (`env`), whose NVTX callbacks come here through [`dispatch_cupti`].
//!
//! `abi` reads what C passes, `calls` lists the functions, `handler` does what they mean, `names` knows domains and
//! registered strings.

mod abi;
mod calls;
#[cfg(feature = "nvtx")]
pub(super) mod emit;
pub(crate) mod env;
mod handler;
mod install;
mod names;
#[cfg(test)]
mod tests;

/// Has the program's own NVTX find this crate's handler, before the environment names another tool for the NVTX of other
/// libraries. Without the feature `nvtx` there is no NVTX that could be called from here: one that is linked into the
/// program all the same, and was not called before, comes through CUPTI then.
pub(crate) fn initialise() {
    #[cfg(feature = "nvtx")]
    emit::initialise();
}

pub(crate) use calls::{dispatch_cupti, pop_pushed as pop, push};
pub(crate) use install::{initialised, keep};
pub(crate) use names::known as known_names;
