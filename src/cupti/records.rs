//! The records of a buffer that CUPTI has filled.

use std::cell::OnceCell;
use std::ffi::{CStr, c_char};
use std::sync::OnceLock;

use cupti_sys::bindings as c;
use rustc_hash::FxHashSet;

use super::{Cupti, MAX_LIMIT_REACHED, call};
use crate::buffer::Filled;
use crate::record::{Decoder, Record};

/// Where the records of a buffer begin, as CUPTI tells, and what they point to.
pub(crate) struct Records<'b> {
    filled: &'b Filled,
    offsets: &'b [u32],
    /// The walk ended at the end of the valid bytes, as it should.
    pub is_complete: bool,
    /// As the library writes them; none where it does not tell its version.
    decoder: Option<&'static Decoder>,
    /// Pointers to names that are in the records, once one is asked for.
    names: OnceCell<FxHashSet<u64>>,
}

impl Cupti {
    /// `cuptiActivityGetNextRecord` over a whole buffer. `offsets` is room that is used again.
    pub fn records<'b>(self, filled: &'b Filled, offsets: &'b mut Vec<u32>) -> Records<'b> {
        /// One library is used in a process.
        static DECODER: OnceLock<Option<Decoder>> = OnceLock::new();
        let is_complete = self.walk(filled, offsets);
        let decoder = DECODER.get_or_init(|| self.version().ok().map(Decoder::new)).as_ref();
        Records { filled, offsets, is_complete, decoder, names: OnceCell::new() }
    }

    fn walk(self, filled: &Filled, offsets: &mut Vec<u32>) -> bool {
        offsets.clear();
        let start = filled.block.as_ptr();
        let mut record: *mut c::CUpti_Activity = std::ptr::null_mut();
        loop {
            match call!(self, cuptiActivityGetNextRecord, start, filled.valid_bytes, &raw mut record) {
                Ok(()) => {
                    let offset = (record as usize).wrapping_sub(start as usize);
                    let Ok(offset) = u32::try_from(offset) else { return false };
                    if offset as usize >= filled.valid_bytes {
                        return false;
                    }
                    offsets.push(offset);
                }
                Err(end) => return end.code == Some(MAX_LIMIT_REACHED),
            }
        }
    }
}

impl<'b> Records<'b> {
    pub fn offsets(&self) -> &'b [u32] {
        self.offsets
    }

    pub fn bytes(&self) -> &'b [u8] {
        self.filled.block.bytes(self.filled.valid_bytes)
    }

    /// The bytes of a kernel's name, without the NUL; none for an address that no kernel of these records has as its
    /// name.
    ///
    /// CUPTI keeps these strings for as long as the module is loaded, in fact longer; the caller copies at once.
    pub fn name(&self, pointer: u64) -> Option<&[u8]> {
        let names = self.names.get_or_init(|| {
            let decoded = |offset: &u32| self.decoder.map(|decoder| decoder.decode(self.bytes(), *offset));
            let kernels = self.offsets.iter().filter_map(|offset| match decoded(offset)? {
                Record::Kernel(kernel) => Some(kernel.name),
                _ => None,
            });
            kernels.collect()
        });
        if pointer == 0 || !names.contains(&pointer) {
            return None;
        }
        let name = pointer as usize as *const c_char;
        // SAFETY: it is the name in a record of a kernel, which CUPTI has just delivered in a block that only CUPTI
        // writes to, read as this library lays it out: a NUL-terminated string that CUPTI owns.
        Some(unsafe { CStr::from_ptr(name) }.to_bytes())
    }
}
