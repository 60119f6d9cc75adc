//! Bytes to typed records: pure, bounds-checked, by the layout of the library that wrote them.
//!
//! A newer library appends fields to a record and an older one lacks them, so every field is read only if the
//! record, as the running library lays it out, reaches that far. No byte outside the record is ever looked at,
//! and no pointer is followed: a name is a number here, resolved by whoever knows what it meant.

mod kinds;
#[cfg(test)]
pub(crate) mod synthetic;
mod view;

pub(crate) use kinds::{
    api_kind, copy_kind, memory_kind, memory_operation, overhead_kind, synchronization_kind,
};
pub(crate) use view::View;

use cupti_sys::bindings::CUpti_ActivityObjectKind;
use cupti_sys::layout::{self, Field};
use cupti_sys::{LibraryVersion, kind};

use crate::units::CorrelationId;

/// What every record of work on the device has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Common {
    pub start: u64,
    pub end: u64,
    pub device: u32,
    pub context: u32,
    pub stream: u32,
    pub correlation: CorrelationId,
    /// 0 where the work is not part of a graph, or the library does not tell.
    pub graph: u32,
    pub graph_node: u64,
    pub device_launched: bool,
}

/// A kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kernel {
    pub common: Common,
    /// The address of the name in the recording process.
    pub name: u64,
    pub grid: [i32; 3],
    pub block: [i32; 3],
    /// All zero where the kernel has no cluster.
    pub cluster: Option<[u32; 3]>,
    pub registers_per_thread: u16,
    pub static_shared_memory: i32,
    pub dynamic_shared_memory: i32,
    pub local_memory_per_thread: u32,
}

/// A copy, within a device, between host and device, or between devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Copy {
    pub common: Common,
    pub bytes: u64,
    pub kind: u8,
    pub src_kind: u8,
    pub dst_kind: u8,
    pub flags: u8,
    /// Source and destination device of a peer copy.
    pub peers: Option<(u32, u32)>,
}

/// A fill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fill {
    pub common: Common,
    pub bytes: u64,
    pub value: u32,
    pub memory_kind: u16,
    pub flags: u16,
}

/// Time that CUPTI or the driver spent on itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Overhead {
    pub kind: u32,
    pub start: u64,
    pub end: u64,
    /// The thread, where the record is about one.
    pub thread: Option<u32>,
    pub correlation: Option<CorrelationId>,
}

/// A runtime or driver API call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Api {
    pub kind: u32,
    pub cbid: u32,
    pub start: u64,
    pub end: u64,
    pub thread: u32,
    pub correlation: CorrelationId,
    pub return_value: u32,
}

/// A synchronising call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Synchronization {
    pub kind: u32,
    pub start: u64,
    pub end: u64,
    pub correlation: CorrelationId,
    pub context: u32,
    pub stream: u32,
}

/// An allocation or a release of device memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Memory {
    pub operation: u32,
    pub kind: u32,
    pub correlation: CorrelationId,
    pub address: u64,
    pub bytes: u64,
    pub time: u64,
    pub device: u32,
    pub context: u32,
    pub stream: u32,
    pub asynchronous: bool,
}

/// One record of an activity buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Record {
    Kernel(Kernel),
    Copy(Copy),
    Fill(Fill),
    Overhead(Overhead),
    Api(Api),
    Synchronization(Synchronization),
    Memory(Memory),
    /// A kind that this crate does not decode.
    Unknown {
        kind: u32,
    },
    /// Bytes that end inside the record.
    Truncated {
        kind: Option<u32>,
    },
}

/// Decodes records as one version of the library writes them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Decoder {
    version: LibraryVersion,
}

impl Decoder {
    pub fn new(version: LibraryVersion) -> Self {
        Self { version }
    }

    /// The record that begins at `offset` in an activity buffer.
    pub fn decode(&self, buffer: &[u8], offset: u32) -> Record {
        let rest = buffer.get(offset as usize..).unwrap_or_default();
        let Some(kind) = View::new(rest).u32(layout::KIND) else {
            return Record::Truncated { kind: None };
        };
        let Some(size) = layout::record_size(kind, self.version) else {
            return Record::Unknown { kind };
        };
        let Some(bytes) = rest.get(..size as usize) else {
            return Record::Truncated { kind: Some(kind) };
        };
        let view = View::new(bytes);
        let decoded = match kind {
            kind::KERNEL | kind::CONCURRENT_KERNEL => kernel(view).map(Record::Kernel),
            kind::MEMCPY => copy(view).map(Record::Copy),
            kind::MEMCPY2 => peer_copy(view).map(Record::Copy),
            kind::MEMSET => fill(view).map(Record::Fill),
            kind::OVERHEAD => overhead(view).map(Record::Overhead),
            kind::DRIVER | kind::RUNTIME => api(view, kind).map(Record::Api),
            kind::SYNCHRONIZATION => synchronization(view).map(Record::Synchronization),
            kind::MEMORY2 => memory(view).map(Record::Memory),
            _ => return Record::Unknown { kind },
        };
        // A field of the oldest supported layout is missing: the layout itself is not one that we know.
        decoded.unwrap_or(Record::Truncated { kind: Some(kind) })
    }
}

/// Where one kind of record keeps what all device work has.
struct CommonFields {
    start: Field,
    end: Field,
    device: Field,
    context: Field,
    stream: Field,
    correlation: Field,
    graph: Field,
    graph_node: Field,
    device_launched: Option<Field>,
}

/// The fields by their names, which are the same in every kind of record.
macro_rules! common_fields {
    ($at:ident, $device_launched:expr) => {
        CommonFields {
            start: $at::START,
            end: $at::END,
            device: $at::DEVICE_ID,
            context: $at::CONTEXT_ID,
            stream: $at::STREAM_ID,
            correlation: $at::CORRELATION_ID,
            graph: $at::GRAPH_ID,
            graph_node: $at::GRAPH_NODE_ID,
            device_launched: $device_launched,
        }
    };
}

impl CommonFields {
    fn read(&self, view: View<'_>) -> Option<Common> {
        Some(Common {
            start: view.u64(self.start)?,
            end: view.u64(self.end)?,
            device: view.u32(self.device)?,
            context: view.u32(self.context)?,
            stream: view.u32(self.stream)?,
            correlation: CorrelationId(view.u32(self.correlation)?),
            graph: view.u32(self.graph).unwrap_or(0),
            graph_node: view.u64(self.graph_node).unwrap_or(0),
            device_launched: self.device_launched.and_then(|field| view.u8(field)).unwrap_or(0) != 0,
        })
    }
}

fn kernel(view: View<'_>) -> Option<Kernel> {
    use layout::kernel as at;
    const COMMON: CommonFields = common_fields!(at, Some(at::IS_DEVICE_LAUNCHED));
    let cluster = match (view.u32(at::CLUSTER_X), view.u32(at::CLUSTER_Y), view.u32(at::CLUSTER_Z)) {
        (Some(x), Some(y), Some(z)) if x != 0 => Some([x, y, z]),
        _ => None,
    };
    Some(Kernel {
        common: COMMON.read(view)?,
        name: view.u64(at::NAME)?,
        grid: [view.i32(at::GRID_X)?, view.i32(at::GRID_Y)?, view.i32(at::GRID_Z)?],
        block: [view.i32(at::BLOCK_X)?, view.i32(at::BLOCK_Y)?, view.i32(at::BLOCK_Z)?],
        cluster,
        registers_per_thread: view.u16(at::REGISTERS_PER_THREAD)?,
        static_shared_memory: view.i32(at::STATIC_SHARED_MEMORY)?,
        dynamic_shared_memory: view.i32(at::DYNAMIC_SHARED_MEMORY)?,
        local_memory_per_thread: view.u32(at::LOCAL_MEMORY_PER_THREAD)?,
    })
}

fn copy(view: View<'_>) -> Option<Copy> {
    use layout::memcpy as at;
    const COMMON: CommonFields = common_fields!(at, Some(at::IS_DEVICE_LAUNCHED));
    Some(Copy {
        common: COMMON.read(view)?,
        bytes: view.u64(at::BYTES)?,
        kind: view.u8(at::COPY_KIND)?,
        src_kind: view.u8(at::SRC_KIND)?,
        dst_kind: view.u8(at::DST_KIND)?,
        flags: view.u8(at::FLAGS)?,
        peers: None,
    })
}

fn peer_copy(view: View<'_>) -> Option<Copy> {
    use layout::memcpy_peer as at;
    const COMMON: CommonFields = common_fields!(at, None);
    Some(Copy {
        common: COMMON.read(view)?,
        bytes: view.u64(at::BYTES)?,
        kind: view.u8(at::COPY_KIND)?,
        src_kind: view.u8(at::SRC_KIND)?,
        dst_kind: view.u8(at::DST_KIND)?,
        flags: view.u8(at::FLAGS)?,
        peers: Some((view.u32(at::SRC_DEVICE_ID)?, view.u32(at::DST_DEVICE_ID)?)),
    })
}

fn fill(view: View<'_>) -> Option<Fill> {
    use layout::memset as at;
    const COMMON: CommonFields = common_fields!(at, Some(at::IS_DEVICE_LAUNCHED));
    Some(Fill {
        common: COMMON.read(view)?,
        bytes: view.u64(at::BYTES)?,
        value: view.u32(at::VALUE)?,
        memory_kind: view.u16(at::MEMORY_KIND)?,
        flags: view.u16(at::FLAGS)?,
    })
}

fn overhead(view: View<'_>) -> Option<Overhead> {
    use layout::overhead as at;
    /// For objects of kind thread, the id is a process id followed by a thread id.
    const THREAD_ID: Field = Field { offset: at::OBJECT_ID.offset + 4, width: 4 };
    let thread = match CUpti_ActivityObjectKind(view.u32(at::OBJECT_KIND)?) {
        CUpti_ActivityObjectKind::CUPTI_ACTIVITY_OBJECT_THREAD => view.u32(THREAD_ID),
        _ => None,
    };
    Some(Overhead {
        kind: view.u32(at::OVERHEAD_KIND)?,
        start: view.u64(at::START)?,
        end: view.u64(at::END)?,
        thread,
        correlation: view.u32(at::CORRELATION_ID).filter(|id| *id != 0).map(CorrelationId),
    })
}

fn api(view: View<'_>, kind: u32) -> Option<Api> {
    use layout::api as at;
    Some(Api {
        kind,
        cbid: view.u32(at::CBID)?,
        start: view.u64(at::START)?,
        end: view.u64(at::END)?,
        thread: view.u32(at::THREAD_ID)?,
        correlation: CorrelationId(view.u32(at::CORRELATION_ID)?),
        return_value: view.u32(at::RETURN_VALUE)?,
    })
}

fn synchronization(view: View<'_>) -> Option<Synchronization> {
    use layout::synchronization as at;
    Some(Synchronization {
        kind: view.u32(at::TYPE)?,
        start: view.u64(at::START)?,
        end: view.u64(at::END)?,
        correlation: CorrelationId(view.u32(at::CORRELATION_ID)?),
        context: view.u32(at::CONTEXT_ID)?,
        stream: view.u32(at::STREAM_ID)?,
    })
}

fn memory(view: View<'_>) -> Option<Memory> {
    use layout::memory as at;
    Some(Memory {
        operation: view.u32(at::OPERATION)?,
        kind: view.u32(at::MEMORY_KIND)?,
        correlation: CorrelationId(view.u32(at::CORRELATION_ID)?),
        address: view.u64(at::ADDRESS)?,
        bytes: view.u64(at::BYTES)?,
        time: view.u64(at::TIMESTAMP)?,
        device: view.u32(at::DEVICE_ID)?,
        context: view.u32(at::CONTEXT_ID)?,
        stream: view.u32(at::STREAM_ID)?,
        asynchronous: view.u32(at::IS_ASYNC)? != 0,
    })
}

#[cfg(test)]
mod tests;
