//! Records made for tests, as a library of some version would write them.
#![allow(dead_code, reason = "tests use what they need of it")]

use cupti_sys::layout::{self, Field};
use cupti_sys::{LibraryVersion, kind};

/// The bytes of one record, with its fields settable.
pub(crate) struct Bytes(pub Vec<u8>);

impl Bytes {
    /// A record of this kind, all zero.
    pub fn new(kind: u32, version: LibraryVersion) -> Self {
        let size = layout::record_size(kind, version).expect("a known kind");
        Self(vec![0; size as usize]).set(layout::KIND, kind.into())
    }

    /// Sets a field to the low bytes of a value; fields that this version lacks are left out.
    pub fn set(mut self, field: Field, value: u64) -> Self {
        let (start, width) = (usize::from(field.offset), usize::from(field.width));
        if let Some(bytes) = self.0.get_mut(start..start + width) {
            bytes.copy_from_slice(&value.to_le_bytes()[..width]);
        }
        self
    }
}

/// A kernel of 32 threads with this name pointer.
pub(crate) fn kernel(version: LibraryVersion, correlation: u32, start: u64, end: u64, name: u64) -> Bytes {
    use layout::kernel as at;
    Bytes::new(kind::CONCURRENT_KERNEL, version)
        .set(at::CORRELATION_ID, correlation.into())
        .set(at::START, start)
        .set(at::END, end)
        .set(at::NAME, name)
        .set(at::STREAM_ID, 7)
        .set(at::CONTEXT_ID, 1)
        .set(at::GRID_X, 4)
        .set(at::GRID_Y, 2)
        .set(at::GRID_Z, 1)
        .set(at::BLOCK_X, 32)
        .set(at::BLOCK_Y, 1)
        .set(at::BLOCK_Z, 1)
        .set(at::REGISTERS_PER_THREAD, 16)
}

/// A copy from host to device.
pub(crate) fn memcpy(version: LibraryVersion, correlation: u32, start: u64, end: u64, bytes: u64) -> Bytes {
    use layout::memcpy as at;
    Bytes::new(kind::MEMCPY, version)
        .set(at::CORRELATION_ID, correlation.into())
        .set(at::START, start)
        .set(at::END, end)
        .set(at::BYTES, bytes)
        .set(at::COPY_KIND, 1)
        .set(at::SRC_KIND, 1)
        .set(at::DST_KIND, 3)
}

/// A copy from one device to another.
pub(crate) fn peer_copy(version: LibraryVersion, correlation: u32, start: u64, end: u64) -> Bytes {
    use layout::memcpy_peer as at;
    Bytes::new(kind::MEMCPY2, version)
        .set(at::CORRELATION_ID, correlation.into())
        .set(at::START, start)
        .set(at::END, end)
        .set(at::BYTES, 4096)
        .set(at::COPY_KIND, 10)
        .set(at::SRC_KIND, 3)
        .set(at::DST_KIND, 3)
        .set(at::SRC_DEVICE_ID, 1)
        .set(at::DST_DEVICE_ID, 2)
}

/// A fill of device memory.
pub(crate) fn memset(version: LibraryVersion, correlation: u32, start: u64, end: u64) -> Bytes {
    use layout::memset as at;
    Bytes::new(kind::MEMSET, version)
        .set(at::CORRELATION_ID, correlation.into())
        .set(at::START, start)
        .set(at::END, end)
        .set(at::BYTES, 64)
        .set(at::VALUE, 0xff)
        .set(at::MEMORY_KIND, 3)
}

/// A driver or runtime call.
pub(crate) fn api(version: LibraryVersion, kind: u32, cbid: u32, correlation: u32, start: u64) -> Bytes {
    use layout::api as at;
    Bytes::new(kind, version)
        .set(at::CBID, cbid.into())
        .set(at::CORRELATION_ID, correlation.into())
        .set(at::START, start)
        .set(at::END, start + 10)
        .set(at::THREAD_ID, 77)
}

/// A flush of buffers, on a thread.
pub(crate) fn overhead(version: LibraryVersion, start: u64, end: u64) -> Bytes {
    use layout::overhead as at;
    Bytes::new(kind::OVERHEAD, version)
        .set(at::OVERHEAD_KIND, 2 << 16)
        .set(at::OBJECT_KIND, 2)
        .set(at::START, start)
        .set(at::END, end)
}

/// A wait for a stream.
pub(crate) fn synchronization(version: LibraryVersion, correlation: u32, start: u64, end: u64) -> Bytes {
    use layout::synchronization as at;
    Bytes::new(kind::SYNCHRONIZATION, version)
        .set(at::TYPE, 3)
        .set(at::CORRELATION_ID, correlation.into())
        .set(at::START, start)
        .set(at::END, end)
        .set(at::STREAM_ID, 7)
}

/// An allocation.
pub(crate) fn memory(version: LibraryVersion, correlation: u32, time: u64) -> Bytes {
    use layout::memory as at;
    Bytes::new(kind::MEMORY2, version)
        .set(at::OPERATION, 1)
        .set(at::MEMORY_KIND, 3)
        .set(at::CORRELATION_ID, correlation.into())
        .set(at::TIMESTAMP, time)
        .set(at::BYTES, 1 << 20)
        .set(at::IS_ASYNC, 1)
}
