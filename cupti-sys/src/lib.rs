//! CUPTI, NVIDIA's profiling interface, as Rust sees it: generated bindings, what differs between library versions, and
//! a loader. One build works with every CUPTI from 12.0 to 13.5, and starts on a machine that has none.
//!
//! ```
//! use cupti_sys::{Cupti, LoadOptions};
//!
//! match Cupti::load(&LoadOptions::default()) {
//!     Ok(cupti) => match cupti.version() {
//!         Ok(version) => println!("{version} in {}", cupti.path().display()),
//!         // Newer libraries do not tell their version without a driver.
//!         Err(code) => println!("{}: {:?}", cupti.path().display(), cupti_sys::result::name(code.0)),
//!     },
//!     // Lists every path that was looked at, and what to do.
//!     Err(error) => println!("{error}"),
//! }
//! ```
//!
//! | module | what it has |
//! |---|---|
//! | [`bindings`] | types, constants and declarations of the headers, as generated |
//! | [`loader`] | finding and loading the library; the reasons if that fails |
//! | [`symbols`] | the function table, each function optional |
//! | [`version`] | versions over both numbering schemes |
//! | [`layout`], [`kind`] | where the fields of activity records lie, and how much of a record a version writes |
//! | [`params`] | `structSize` of parameter structs by version |
//! | [`result`] | names of result codes and what a user can do, without the library |
//!
//! # What it is not
//!
//! It is no safe interface: what is called through the table is `unsafe`, and the C documentation has the rules. It does
//! not link to libcupti, so the `extern` declarations in [`bindings`] cannot be called: they are there for their types,
//! and the program that calls one does not link. It has no part of NVIDIA's headers but their names and numbers; what
//! the functions do is written there.
//!
//! # Versions
//!
//! Four things differ between libraries, and each has its module. A function may be absent: its entry in [`Symbols`] is
//! `None`. A record may be shorter than the newest struct: read a field only if [`layout::Field::within`] says that it
//! is there, never through a cast. A parameter struct may be shorter: take its size from a [`params::Ladder`]. And an
//! enum may have new values: C enums are structs around an integer here, so that an unknown value is no undefined
//! behaviour.
//!
//! Layouts and sizes are those of 64-bit Linux, asserted at compile time.
//!
//! # How the bindings are made
//!
//! `bindings.rs` is checked in, so that a build needs neither libclang nor CUDA. It is written by the `build.rs` in the
//! root of the repository, from `wrapper.h` beside it, and never by hand. To move to newer headers:
//!
//! 1. Unpack the wheels `nvidia-cuda-cupti`, `nvidia-cuda-runtime` and `nvidia-cuda-crt` of one release together.
//! 2. `CUPROF_BLESS=1 CUPROF_CUPTI_INCLUDE=…/nvidia/cu13/include cargo test --features bindgen --test bindings_drift`;
//!    without `CUPROF_BLESS` the same compares and fails on a difference.
//! 3. Read the diff. A new record struct is a new line in [`layout`], a larger parameter struct one in [`params`], a new
//!    function one in [`symbols`], or a reason in `tests/coverage.rs`; the tests point at what is missing.
//! 4. Bless `COVERAGE.md`, and run `tests/real_libraries.rs` on the libraries of that release.

#[cfg(not(all(unix, target_pointer_width = "64")))]
compile_error!("cupti-sys supports 64-bit Linux: its record layouts and its loader are of no use elsewhere");

// Formatted by the generator; the drift test compares bytes.
#[rustfmt::skip]
#[allow(
    missing_docs,
    unsafe_code,
    unsafe_op_in_unsafe_fn,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "generated code, which has the names of C"
)]
pub mod bindings;
pub mod kind;
pub mod layout;
pub mod loader;
pub mod params;
pub mod result;
pub mod symbols;
pub mod version;

pub use loader::{Cupti, LoadError, LoadOptions};
pub use symbols::{SymbolInfo, Symbols};
pub use version::{LibraryVersion, Release};
