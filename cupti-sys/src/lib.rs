//! CUPTI for Rust: generated bindings, record layouts by library version, and a loader.

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
