//! Reading fields of one record.

use cupti_sys::layout::Field;

/// One record's bytes, exactly as many as the library that wrote it lays out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View<'a>(&'a [u8]);

macro_rules! readers {
    ($($name:ident -> $type:ty),*) => {$(
        /// The field's value, or none where the record does not reach it.
        pub fn $name(self, field: Field) -> Option<$type> {
            let start = usize::from(field.offset);
            let bytes = self.0.get(start..start + size_of::<$type>())?;
            bytes.try_into().ok().map(<$type>::from_ne_bytes)
        }
    )*};
}

impl<'a> View<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    readers! { u8 -> u8, u16 -> u16, u32 -> u32, i32 -> i32, u64 -> u64 }
}
