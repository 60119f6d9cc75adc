//! What NVTX callers pass, and how it is read: only when a session wants it, and trusting as little as C allows.
#![expect(unsafe_code, reason = "reads the strings and structures that C callers of NVTX pass")]

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_void};

use super::names;
use crate::channel::Payload;
use crate::range::Description;

/// A `const char*` argument: NULL, or a string that outlives the call.
///
/// Values of this type, and of the two below, come only from C callers of NVTX, who promise that.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct Narrow(*const c_char);

/// A `const wchar_t*` argument: NULL, or a string of 32-bit characters that outlives the call.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct Wide(*const u32);

/// A `const nvtxEventAttributes_t*` argument: NULL, or attributes that are as long as they say.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct Attributes(*const c_void);

/// What a call says of its event, not yet read.
pub(super) trait Said {
    /// Reads it and hands it on.
    fn describe<R>(self, domain: u32, act: impl FnOnce(&Description<'_>) -> R) -> R;
}

/// Text that a call passes, not yet read.
pub(super) trait Text: Copy {
    /// Reads it, as the program's bytes or as UTF-8, and hands it on; NULL is empty.
    fn read<R>(self, act: impl FnOnce(&[u8]) -> R) -> R;
}

impl<T: Text> Said for T {
    #[inline]
    fn describe<R>(self, domain: u32, act: impl FnOnce(&Description<'_>) -> R) -> R {
        self.read(|name| act(&Description { domain, name, ..Description::default() }))
    }
}

impl Text for Narrow {
    #[inline]
    fn read<R>(self, act: impl FnOnce(&[u8]) -> R) -> R {
        if self.0.is_null() {
            return act(&[]);
        }
        // SAFETY: not NULL, so by the promise of `Narrow` a string that ends with NUL and outlives this call.
        act(unsafe { CStr::from_ptr(self.0) }.to_bytes())
    }
}

thread_local! {
    /// Where wide text becomes UTF-8; reused, so that it allocates only for the longest text so far.
    static UTF8: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// A buffer that has grown beyond this is given back.
const KEEP_UTF8_BYTES: usize = 64 << 10;

impl Text for Wide {
    fn read<R>(self, act: impl FnOnce(&[u8]) -> R) -> R {
        // Taken, not borrowed: a signal handler that interrupts this finds an empty buffer and makes its own.
        let mut utf8 = UTF8.try_with(Cell::take).unwrap_or_default();
        for &character in self.characters() {
            let character = char::from_u32(character).unwrap_or(char::REPLACEMENT_CHARACTER);
            utf8.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        }
        let result = act(&utf8);
        utf8.clear();
        utf8.shrink_to(KEEP_UTF8_BYTES);
        // A thread that exits has no place for the buffer any more; it is freed then.
        let _ = UTF8.try_with(|place| place.set(utf8));
        result
    }
}

impl Wide {
    fn characters(&self) -> &[u32] {
        if self.0.is_null() || !self.0.is_aligned() {
            return &[];
        }
        let mut len = 0;
        // SAFETY: every character before this one was not NUL, so this one belongs to the string, too.
        while unsafe { self.0.wrapping_add(len).read() } != 0 {
            len += 1;
        }
        // SAFETY: these `len` characters have just been read; they outlive the call by the promise of `Wide`.
        unsafe { std::slice::from_raw_parts(self.0, len) }
    }
}

/// `nvtxEventAttributes_v2`.
#[derive(Clone, Copy)]
#[repr(C)]
struct EventAttributes {
    version: u16,
    size: u16,
    category: u32,
    color_type: i32,
    color: u32,
    payload_type: i32,
    reserved: i32,
    /// A union; its 32-bit members are the low half (little endian).
    payload: u64,
    message_type: i32,
    /// A union of pointers and of the handle of a registered string.
    message: *const c_void,
}

const _: () = assert!(size_of::<EventAttributes>() == 48);

/// Up to and including `size`: what any version has.
const HEAD_BYTES: usize = 4;

impl Attributes {
    /// The attributes, with zeros (which mean "not given") for what a shorter version does not have. None if there
    /// are none, or if they say that they have no version.
    fn load(self) -> Option<EventAttributes> {
        if self.0.is_null() {
            return None;
        }
        // SAFETY: by the promise of `Attributes` there are at least the version and the size; not always aligned.
        let [version, size] = unsafe { self.0.cast::<[u16; 2]>().read_unaligned() };
        if version == 0 {
            return None;
        }
        let mut attributes = EventAttributes {
            version,
            size,
            category: 0,
            color_type: 0,
            color: 0,
            payload_type: 0,
            reserved: 0,
            payload: 0,
            message_type: 0,
            message: std::ptr::null(),
        };
        let given = usize::from(size).clamp(HEAD_BYTES, size_of::<EventAttributes>());
        // SAFETY: the caller's structure is `size` bytes long by the promise of `Attributes`, ours is not shorter
        // than `given`, and any bytes are a value of its fields.
        unsafe {
            self.0.cast::<u8>().copy_to_nonoverlapping((&raw mut attributes).cast::<u8>(), given);
        }
        Some(attributes)
    }
}

impl Said for Attributes {
    #[inline]
    fn describe<R>(self, domain: u32, act: impl FnOnce(&Description<'_>) -> R) -> R {
        let Some(attributes) = self.load() else {
            return act(&Description { domain, ..Description::default() });
        };
        let unnamed = Description {
            domain,
            category: attributes.category,
            color: (attributes.color_type == 1).then_some(attributes.color),
            payload: payload(attributes.payload_type, attributes.payload),
            ..Description::default()
        };
        let act = |name: &[u8]| act(&Description { name, ..unnamed });
        match attributes.message_type {
            1 => Narrow(attributes.message.cast()).read(act),
            2 => Wide(attributes.message.cast()).read(act),
            3 => act(names::registered(attributes.message.addr())),
            // None given, or of a type that this handler does not know, whose pointer must not be followed.
            _ => act(&[]),
        }
    }
}

/// `nvtxPayloadType_t`.
fn payload(kind: i32, bits: u64) -> Payload {
    let low = bits as u32; // CAST: the 32-bit members of the union
    match kind {
        1 => Payload::U64(bits),
        2 => Payload::I64(bits.cast_signed()),
        3 => Payload::F64(f64::from_bits(bits)),
        4 => Payload::U64(low.into()),
        5 => Payload::I64(low.cast_signed().into()),
        6 => Payload::F64(f32::from_bits(low).into()),
        _ => Payload::None,
    }
}
