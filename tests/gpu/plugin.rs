//! The shared library that `examples/nvtx_plugin.rs` becomes, opened at run time.
#![expect(unsafe_code, reason = "calls functions of a shared library by their C signatures")]

use std::ffi::{CStr, c_char};
use std::path::Path;

use libloading::Library;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

type Named<R> = unsafe extern "C" fn(*const c_char) -> R;

/// Its functions.
pub struct Plugin {
    push: Named<i32>,
    pop: extern "C" fn() -> i32,
    push_in_domain: Named<()>,
    pop_in_domain: extern "C" fn(),
    start: Named<u64>,
    end: extern "C" fn(u64),
    mark: Named<()>,
}

impl Plugin {
    /// Opens the library, for the life of the process: whoever handles its NVTX keeps pointers into it.
    pub fn open(path: &Path) -> Result<Self> {
        // SAFETY: it has no initialisers but those of std.
        let library = unsafe { Library::new(path) };
        let library = library.map_err(|error| format!("{}: {error}", path.display()))?;
        let library: &'static Library = Box::leak(Box::new(library));
        macro_rules! function {
            ($name:literal) => {
                // SAFETY: the fields have the types that these functions have in `examples/nvtx_plugin.rs`.
                *unsafe { library.get($name) }?
            };
        }
        Ok(Self {
            push: function!("plugin_push"),
            pop: function!("plugin_pop"),
            push_in_domain: function!("plugin_push_in_domain"),
            pop_in_domain: function!("plugin_pop_in_domain"),
            start: function!("plugin_start"),
            end: function!("plugin_end"),
            mark: function!("plugin_mark"),
        })
    }

    pub fn push(&self, name: &CStr) -> i32 {
        // SAFETY: the name is a C string, which is all that the function asks for.
        unsafe { (self.push)(name.as_ptr()) }
    }

    pub fn pop(&self) -> i32 {
        (self.pop)()
    }

    pub fn push_in_domain(&self, name: &CStr) {
        // SAFETY: as in `push`.
        unsafe { (self.push_in_domain)(name.as_ptr()) }
    }

    pub fn pop_in_domain(&self) {
        (self.pop_in_domain)();
    }

    pub fn start(&self, name: &CStr) -> u64 {
        // SAFETY: as in `push`.
        unsafe { (self.start)(name.as_ptr()) }
    }

    pub fn end(&self, id: u64) {
        (self.end)(id);
    }

    pub fn mark(&self, name: &CStr) {
        // SAFETY: as in `push`.
        unsafe { (self.mark)(name.as_ptr()) }
    }
}
