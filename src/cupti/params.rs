//! What calls with a parameter struct share: its size, images that CUPTI fills, and strings on both ways.

use std::ffi::{CStr, CString, c_char};
use std::sync::atomic::{AtomicUsize, Ordering};

use cupti_sys::LibraryVersion;
use cupti_sys::bindings::CUptiResult;
use cupti_sys::params::Ladder;

use crate::error::{Error, ErrorKind, Result};

/// A parameter struct with its size and these fields set, and zero in all others.
macro_rules! params {
    ($type:ident, $size:expr $(, $field:ident: $value:expr)* $(,)?) => {{
        let params = std::mem::MaybeUninit::<cupti_sys::bindings::$type>::zeroed();
        // SAFETY: these structs consist of integers, newtypes of integers and raw pointers, for which zero is a value.
        let mut params = unsafe { params.assume_init() };
        params.structSize = $size;
        $(params.$field = $value;)*
        params
    }};
}
pub(super) use params;

/// A struct that has grown, with the size that the library took last.
pub(super) struct Grown {
    ladder: Ladder,
    taken: AtomicUsize,
}

impl Grown {
    pub const fn new(ladder: Ladder) -> Self {
        Self { ladder, taken: AtomicUsize::new(0) }
    }

    /// Makes a call with the size that worked last, else with the one of this version, else with all others from the
    /// newest on. Only "invalid parameter" leads to the next: it may mean the size, or a truly bad argument.
    pub fn call<T>(
        &self,
        version: Option<LibraryVersion>,
        mut call: impl FnMut(usize) -> Result<T>,
    ) -> Result<T> {
        let taken = self.taken.load(Ordering::Relaxed);
        let first = (taken != 0).then_some(taken);
        let others = self.ladder.candidates(version).filter(|size| Some(*size) != first);
        let mut refused = None;
        for size in first.into_iter().chain(others) {
            match call(size) {
                Err(error) if error.code == Some(INVALID_PARAMETER) => refused = refused.or(Some(error)),
                Err(error) => return Err(error),
                Ok(value) => {
                    self.taken.store(size, Ordering::Relaxed);
                    return Ok(value);
                }
            }
        }
        Err(refused.unwrap_or_else(|| Error::new(ErrorKind::Call, "a parameter struct without a size")))
    }
}

const INVALID_PARAMETER: i32 = CUptiResult::CUPTI_ERROR_INVALID_PARAMETER.0 as i32;

/// Bytes for CUPTI at one place that never moves, aligned to 8 bytes.
pub(crate) struct Image {
    words: Box<[u64]>,
    bytes: usize,
}

impl Image {
    /// Zeros.
    pub fn new(bytes: usize) -> Self {
        Self { words: vec![0; bytes.div_ceil(8)].into_boxed_slice(), bytes }
    }

    /// The size in bytes, as CUPTI asked for it.
    pub fn len(&self) -> usize {
        self.bytes
    }

    pub(super) fn as_ptr(&self) -> *const u8 {
        self.words.as_ptr().cast()
    }

    pub(super) fn as_mut_ptr(&mut self) -> *mut u8 {
        self.words.as_mut_ptr().cast()
    }
}

/// Names for a call that takes an array of C strings.
pub(crate) struct Names {
    /// What the pointers point to.
    _owned: Vec<CString>,
    pointers: Vec<*const c_char>,
}

// SAFETY: the pointers are to the strings that it owns, which nobody changes.
unsafe impl Send for Names {}

impl Names {
    /// # Errors
    /// [`ErrorKind::Config`] for a name with a NUL in it.
    pub fn new<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Self> {
        let owned = names.into_iter().map(c_string).collect::<Result<Vec<_>>>()?;
        let pointers = owned.iter().map(|name| name.as_ptr()).collect();
        Ok(Self { _owned: owned, pointers })
    }

    pub fn len(&self) -> usize {
        self.pointers.len()
    }

    /// For functions that declare the array as writable; they only read it.
    pub(super) fn as_mut_ptr(&self) -> *mut *const c_char {
        self.pointers.as_ptr().cast_mut()
    }
}

/// A name for CUPTI.
pub(super) fn c_string(name: &str) -> Result<CString> {
    CString::new(name).map_err(|source| {
        Error::new(ErrorKind::Config, format!("the name {name:?} contains a NUL")).with_source(source)
    })
}

/// A copy of a string of CUPTI's, empty for none.
///
/// # Safety
/// The pointer is null or to a string that ends in a NUL.
pub(super) unsafe fn copied(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: the caller promises a string.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// Copies of an array of strings of CUPTI's.
///
/// # Safety
/// The array has that many pointers, each null or to a string that ends in a NUL.
pub(super) unsafe fn copied_all(array: *const *const c_char, count: usize) -> Vec<String> {
    if array.is_null() || count == 0 {
        return Vec::new();
    }
    // SAFETY: the caller promises the array.
    let pointers = unsafe { std::slice::from_raw_parts(array, count) };
    // SAFETY: the caller promises strings.
    pointers.iter().map(|text| unsafe { copied(*text) }).collect()
}
