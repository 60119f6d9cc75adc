//! Where the fields of activity records lie, and how much of a record a library of some version writes.
//!
//! A library writes the newest struct that *it* knows, whatever headers the client was built with. Each record that is
//! declared here has only ever grown at its end (since CUPTI 11.8), so one set of offsets serves every version, and a
//! field exists if it ends within the size that the running library writes:
//!
//! ```
//! use cupti_sys::{LibraryVersion, kind, layout};
//!
//! let cupti_12_9 = LibraryVersion::from_api(28);
//! let size = layout::record_size(kind::CONCURRENT_KERNEL, cupti_12_9).unwrap();
//! assert!(layout::kernel::START.within(size));
//! assert!(!layout::kernel::SOURCE_GRAPH_ID.within(size)); // came with 13.4
//! ```
//!
//! Never cast a record to a generated struct, and never step through a buffer by these sizes: the next record is where
//! `cuptiActivityGetNextRecord` says.
//!
//! Where a version number is shared by several releases, sizes are those of the oldest: a field may be missed, but never
//! read from the record that follows.

use crate::bindings::*;
use crate::kind;
use crate::version::LibraryVersion;

/// Where a field lies in its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Bytes from the start of the record.
    pub offset: u16,
    /// The field's size in bytes.
    pub width: u8,
}

impl Field {
    /// The end of the field: the size that a record must have to contain it.
    pub const fn end(self) -> u32 {
        self.offset as u32 + self.width as u32
    }

    /// Whether a record of `size` bytes contains the whole field.
    pub const fn within(self, size: u32) -> bool {
        self.end() <= size
    }

    /// From what `offset_of!` and `size_of` give. Evaluated at compile time only, where a value out of range is an
    /// error: the subtraction overflows.
    const fn from_declaration(offset: usize, width: usize) -> Self {
        let _in_range = (u16::MAX as usize - offset, u8::MAX as usize - width);
        // CAST: both are in range by the line above.
        Self { offset: offset as u16, width: width as u8 }
    }
}

/// A size of a record, and the first version that writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordSize {
    /// The first version that writes records of this size.
    pub since: LibraryVersion,
    /// Bytes.
    pub size: u32,
}

/// How many bytes of a record of this kind a library of this version writes; `None` for a kind that is not declared
/// here.
///
/// Newer libraries tell it themselves, through `cuptiActivityGetStructSize` with version 0; where both answers exist, the
/// smaller is safe. What they tell of other versions is incomplete: 13.5 knows no size for 13.4.1, and none of copies
/// before 13.3.
pub fn record_size(kind: u32, version: LibraryVersion) -> Option<u32> {
    let sizes = record_sizes(kind)?;
    let written = sizes.iter().find(|rung| rung.since <= version).or(sizes.last())?;
    Some(written.size)
}

/// Declares sizes by API number, newest first, each as the size of a generated struct.
macro_rules! sizes {
    ($($since:literal => $record:ident),+ $(,)?) => {
        const {
            &[$(RecordSize {
                since: LibraryVersion::from_api($since),
                // CAST: the largest record has 304 bytes.
                size: size_of::<$record>() as u32,
            }),+]
        }
    };
}

/// Every size that records of this kind have had since CUPTI 11.8, newest first; `None` for a kind that is not declared
/// here.
pub fn record_sizes(kind: u32) -> Option<&'static [RecordSize]> {
    let sizes: &'static [RecordSize] = match kind {
        kind::KERNEL | kind::CONCURRENT_KERNEL => sizes![
            130_400 => CUpti_ActivityKernel13,
            130_300 => CUpti_ActivityKernel12,
            130_100 => CUpti_ActivityKernel11,
            130_000 => CUpti_ActivityKernel10,
            // 12.0 and 12.1 write it too, but report 18 like 11.8, which does not.
            19 => CUpti_ActivityKernel9,
            0 => CUpti_ActivityKernel8,
        ],
        kind::MEMCPY => sizes![
            130_400 => CUpti_ActivityMemcpy7,
            26 => CUpti_ActivityMemcpy6,
            0 => CUpti_ActivityMemcpy5,
        ],
        kind::MEMCPY2 => sizes![0 => CUpti_ActivityMemcpyPtoP4],
        kind::MEMSET => sizes![130_400 => CUpti_ActivityMemset5, 0 => CUpti_ActivityMemset4],
        kind::DRIVER | kind::RUNTIME => sizes![0 => CUpti_ActivityAPI],
        kind::DEVICE => sizes![
            130_200 => CUpti_ActivityDevice6,
            22 => CUpti_ActivityDevice5,
            0 => CUpti_ActivityDevice4,
        ],
        kind::CONTEXT => sizes![
            // Not in the headers of 13.0, in those of 13.4.
            130_400 => CUpti_ActivityContext4,
            24 => CUpti_ActivityContext3,
            22 => CUpti_ActivityContext2,
            0 => CUpti_ActivityContext,
        ],
        kind::NAME => sizes![0 => CUpti_ActivityName],
        kind::MARKER => sizes![0 => CUpti_ActivityMarker2],
        kind::MARKER_DATA => sizes![130_000 => CUpti_ActivityMarkerData2, 0 => CUpti_ActivityMarkerData],
        kind::OVERHEAD => sizes![
            22 => CUpti_ActivityOverhead3,
            20 => CUpti_ActivityOverhead2,
            0 => CUpti_ActivityOverhead,
        ],
        kind::MODULE => sizes![0 => CUpti_ActivityModule],
        kind::CUDA_EVENT => sizes![
            130_500 => CUpti_ActivityCudaEvent3,
            26 => CUpti_ActivityCudaEvent2,
            0 => CUpti_ActivityCudaEvent,
        ],
        kind::STREAM => sizes![0 => CUpti_ActivityStream],
        kind::SYNCHRONIZATION => {
            sizes![26 => CUpti_ActivitySynchronization2, 0 => CUpti_ActivitySynchronization]
        }
        kind::EXTERNAL_CORRELATION => sizes![0 => CUpti_ActivityExternalCorrelation],
        kind::MEMORY2 => sizes![24 => CUpti_ActivityMemory4, 0 => CUpti_ActivityMemory3],
        // The headers of 13.0 declare the newer struct, but 13.5 tells the older size for 13.0.
        kind::MEMORY_POOL => sizes![130_100 => CUpti_ActivityMemoryPool3, 0 => CUpti_ActivityMemoryPool2],
        kind::GRAPH_TRACE => sizes![22 => CUpti_ActivityGraphTrace2, 0 => CUpti_ActivityGraphTrace],
        kind::JIT => sizes![22 => CUpti_ActivityJit2, 0 => CUpti_ActivityJit],
        kind::DEVICE_GRAPH_TRACE => sizes![0 => CUpti_ActivityDeviceGraphTrace],
        kind::GRAPH_HOST_NODE => sizes![0 => CUpti_ActivityGraphHostNode],
        kind::HOST_LAUNCH => sizes![0 => CUpti_ActivityHostLaunch],
        kind::GREEN_CONTEXT => sizes![
            130_400 => CUpti_ActivityGreenContext3,
            130_201 => CUpti_ActivityGreenContext2,
            0 => CUpti_ActivityGreenContext,
        ],
        _ => return None,
    };
    Some(sizes)
}

/// Declares the fields of a record as a module of constants, from the newest generated struct.
macro_rules! fields {
    ($(#[$doc:meta])* $module:ident: $record:ident { $($name:ident = $field:ident,)+ }) => {
        $(#[$doc])*
        pub mod $module {
            use super::{Field, $record};
            use crate::params::field_size;

            $(
                #[doc = concat!("`", stringify!($field), "` of `", stringify!($record), "`.")]
                pub const $name: Field = Field::from_declaration(
                    core::mem::offset_of!($record, $field),
                    field_size(|record: &$record| &record.$field),
                );
            )+
        }
    };
}

/// The kind, a `u32` that every record begins with.
pub const KIND: Field = Field { offset: 0, width: 4 };

fields! {
    /// A kernel execution (kinds 3 and 10).
    kernel: CUpti_ActivityKernel13 {
        KIND = kind,
        CACHE_CONFIG = cacheConfig,
        SHARED_MEMORY_CONFIG = sharedMemoryConfig,
        REGISTERS_PER_THREAD = registersPerThread,
        PARTITIONED_GLOBAL_CACHE_REQUESTED = partitionedGlobalCacheRequested,
        PARTITIONED_GLOBAL_CACHE_EXECUTED = partitionedGlobalCacheExecuted,
        START = start,
        END = end,
        COMPLETED = completed,
        DEVICE_ID = deviceId,
        CONTEXT_ID = contextId,
        STREAM_ID = streamId,
        GRID_X = gridX,
        GRID_Y = gridY,
        GRID_Z = gridZ,
        BLOCK_X = blockX,
        BLOCK_Y = blockY,
        BLOCK_Z = blockZ,
        STATIC_SHARED_MEMORY = staticSharedMemory,
        DYNAMIC_SHARED_MEMORY = dynamicSharedMemory,
        LOCAL_MEMORY_PER_THREAD = localMemoryPerThread,
        LOCAL_MEMORY_TOTAL = localMemoryTotal,
        CORRELATION_ID = correlationId,
        GRID_ID = gridId,
        NAME = name,
        QUEUED = queued,
        SUBMITTED = submitted,
        LAUNCH_TYPE = launchType,
        IS_SHARED_MEMORY_CARVEOUT_REQUESTED = isSharedMemoryCarveoutRequested,
        SHARED_MEMORY_CARVEOUT_REQUESTED = sharedMemoryCarveoutRequested,
        SHARED_MEMORY_EXECUTED = sharedMemoryExecuted,
        GRAPH_NODE_ID = graphNodeId,
        SHMEM_LIMIT_CONFIG = shmemLimitConfig,
        GRAPH_ID = graphId,
        ACCESS_POLICY_WINDOW = pAccessPolicyWindow,
        CHANNEL_ID = channelID,
        CHANNEL_TYPE = channelType,
        CLUSTER_X = clusterX,
        CLUSTER_Y = clusterY,
        CLUSTER_Z = clusterZ,
        CLUSTER_SCHEDULING_POLICY = clusterSchedulingPolicy,
        LOCAL_MEMORY_TOTAL_V2 = localMemoryTotal_v2,
        MAX_POTENTIAL_CLUSTER_SIZE = maxPotentialClusterSize,
        MAX_ACTIVE_CLUSTERS = maxActiveClusters,
        IS_DEVICE_LAUNCHED = isDeviceLaunched,
        PRIORITY = priority,
        EXECUTION_MODEL = executionModel,
        SOURCE_GRAPH_ID = sourceGraphId,
        SOURCE_GRAPH_NODE_ID = sourceGraphNodeId,
    }
}
fields! {
    /// A copy within a device, or between it and the host (kind 1).
    memcpy: CUpti_ActivityMemcpy7 {
        KIND = kind,
        COPY_KIND = copyKind,
        SRC_KIND = srcKind,
        DST_KIND = dstKind,
        FLAGS = flags,
        BYTES = bytes,
        START = start,
        END = end,
        DEVICE_ID = deviceId,
        CONTEXT_ID = contextId,
        STREAM_ID = streamId,
        CORRELATION_ID = correlationId,
        RUNTIME_CORRELATION_ID = runtimeCorrelationId,
        GRAPH_NODE_ID = graphNodeId,
        GRAPH_ID = graphId,
        CHANNEL_ID = channelID,
        CHANNEL_TYPE = channelType,
        IS_DEVICE_LAUNCHED = isDeviceLaunched,
        COPY_COUNT = copyCount,
        SOURCE_GRAPH_ID = sourceGraphId,
        SOURCE_GRAPH_NODE_ID = sourceGraphNodeId,
    }
}
fields! {
    /// A copy between two devices (kind 22).
    memcpy_peer: CUpti_ActivityMemcpyPtoP4 {
        KIND = kind,
        COPY_KIND = copyKind,
        SRC_KIND = srcKind,
        DST_KIND = dstKind,
        FLAGS = flags,
        BYTES = bytes,
        START = start,
        END = end,
        DEVICE_ID = deviceId,
        CONTEXT_ID = contextId,
        STREAM_ID = streamId,
        SRC_DEVICE_ID = srcDeviceId,
        SRC_CONTEXT_ID = srcContextId,
        DST_DEVICE_ID = dstDeviceId,
        DST_CONTEXT_ID = dstContextId,
        CORRELATION_ID = correlationId,
        GRAPH_NODE_ID = graphNodeId,
        GRAPH_ID = graphId,
        CHANNEL_ID = channelID,
        CHANNEL_TYPE = channelType,
    }
}
fields! {
    /// A fill of device memory (kind 2).
    memset: CUpti_ActivityMemset5 {
        KIND = kind,
        VALUE = value,
        BYTES = bytes,
        START = start,
        END = end,
        DEVICE_ID = deviceId,
        CONTEXT_ID = contextId,
        STREAM_ID = streamId,
        CORRELATION_ID = correlationId,
        FLAGS = flags,
        MEMORY_KIND = memoryKind,
        GRAPH_NODE_ID = graphNodeId,
        GRAPH_ID = graphId,
        CHANNEL_ID = channelID,
        CHANNEL_TYPE = channelType,
        IS_DEVICE_LAUNCHED = isDeviceLaunched,
        SOURCE_GRAPH_ID = sourceGraphId,
        SOURCE_GRAPH_NODE_ID = sourceGraphNodeId,
    }
}
fields! {
    /// A driver or runtime call (kinds 4 and 5).
    api: CUpti_ActivityAPI {
        KIND = kind,
        CBID = cbid,
        START = start,
        END = end,
        PROCESS_ID = processId,
        THREAD_ID = threadId,
        CORRELATION_ID = correlationId,
        RETURN_VALUE = returnValue,
    }
}
fields! {
    /// Time that CUPTI or the driver took from the program (kind 17).
    overhead: CUpti_ActivityOverhead3 {
        KIND = kind,
        OVERHEAD_KIND = overheadKind,
        OBJECT_KIND = objectKind,
        OBJECT_ID = objectId,
        START = start,
        END = end,
        CORRELATION_ID = correlationId,
        OVERHEAD_DATA = overheadData,
    }
}
fields! {
    /// A wait for an event, a stream or a context (kind 38).
    synchronization: CUpti_ActivitySynchronization2 {
        KIND = kind,
        TYPE = type_,
        START = start,
        END = end,
        CORRELATION_ID = correlationId,
        CONTEXT_ID = contextId,
        STREAM_ID = streamId,
        CUDA_EVENT_ID = cudaEventId,
        CUDA_EVENT_SYNC_ID = cudaEventSyncId,
        RETURN_VALUE = returnValue,
    }
}
fields! {
    /// An allocation or a release of memory (kind 49). The configuration of the memory pool in it is left out.
    memory: CUpti_ActivityMemory4 {
        KIND = kind,
        OPERATION = memoryOperationType,
        MEMORY_KIND = memoryKind,
        CORRELATION_ID = correlationId,
        ADDRESS = address,
        BYTES = bytes,
        TIMESTAMP = timestamp,
        PC = PC,
        PROCESS_ID = processId,
        DEVICE_ID = deviceId,
        CONTEXT_ID = contextId,
        STREAM_ID = streamId,
        NAME = name,
        IS_ASYNC = isAsync,
        SOURCE = source,
    }
}
fields! {
    /// A client's id for the calls that follow (kind 39).
    external_correlation: CUpti_ActivityExternalCorrelation {
        KIND = kind,
        EXTERNAL_KIND = externalKind,
        EXTERNAL_ID = externalId,
        CORRELATION_ID = correlationId,
    }
}
fields! {
    /// An NVTX event (kind 12).
    marker: CUpti_ActivityMarker2 {
        KIND = kind,
        FLAGS = flags,
        TIMESTAMP = timestamp,
        ID = id,
        OBJECT_KIND = objectKind,
        OBJECT_ID = objectId,
        NAME = name,
        DOMAIN = domain,
    }
}
fields! {
    /// The attributes of an NVTX event (kind 13).
    marker_data: CUpti_ActivityMarkerData2 {
        KIND = kind,
        FLAGS = flags,
        ID = id,
        PAYLOAD_KIND = payloadKind,
        PAYLOAD = payload,
        COLOR = color,
        CATEGORY = category,
        DOMAIN_ID = cuptiDomainId,
    }
}
fields! {
    /// A CUDA event that was recorded (kind 36).
    cuda_event: CUpti_ActivityCudaEvent3 {
        KIND = kind,
        CORRELATION_ID = correlationId,
        CONTEXT_ID = contextId,
        STREAM_ID = streamId,
        EVENT_ID = eventId,
        DEVICE_ID = deviceId,
        DEVICE_TIMESTAMP = deviceTimestamp,
        CUDA_EVENT_SYNC_ID = cudaEventSyncId,
        GRAPH_NODE_ID = graphNodeId,
        GRAPH_ID = graphId,
        SOURCE_GRAPH_ID = sourceGraphId,
        SOURCE_GRAPH_NODE_ID = sourceGraphNodeId,
    }
}
fields! {
    /// A device (kind 8).
    device: CUpti_ActivityDevice6 {
        KIND = kind,
        FLAGS = flags,
        GLOBAL_MEMORY_BANDWIDTH = globalMemoryBandwidth,
        GLOBAL_MEMORY_SIZE = globalMemorySize,
        CONSTANT_MEMORY_SIZE = constantMemorySize,
        L2_CACHE_SIZE = l2CacheSize,
        NUM_THREADS_PER_WARP = numThreadsPerWarp,
        CORE_CLOCK_RATE = coreClockRate,
        NUM_MEMCPY_ENGINES = numMemcpyEngines,
        NUM_MULTIPROCESSORS = numMultiprocessors,
        MAX_IPC = maxIPC,
        MAX_WARPS_PER_MULTIPROCESSOR = maxWarpsPerMultiprocessor,
        MAX_BLOCKS_PER_MULTIPROCESSOR = maxBlocksPerMultiprocessor,
        MAX_SHARED_MEMORY_PER_MULTIPROCESSOR = maxSharedMemoryPerMultiprocessor,
        MAX_REGISTERS_PER_MULTIPROCESSOR = maxRegistersPerMultiprocessor,
        MAX_REGISTERS_PER_BLOCK = maxRegistersPerBlock,
        MAX_SHARED_MEMORY_PER_BLOCK = maxSharedMemoryPerBlock,
        MAX_THREADS_PER_BLOCK = maxThreadsPerBlock,
        COMPUTE_CAPABILITY_MAJOR = computeCapabilityMajor,
        COMPUTE_CAPABILITY_MINOR = computeCapabilityMinor,
        ID = id,
        ECC_ENABLED = eccEnabled,
        UUID = uuid,
        NAME = name,
        IS_CUDA_VISIBLE = isCudaVisible,
        IS_MIG_ENABLED = isMigEnabled,
        GPU_INSTANCE_ID = gpuInstanceId,
        COMPUTE_INSTANCE_ID = computeInstanceId,
        MIG_UUID = migUuid,
        IS_NUMA_NODE = isNumaNode,
        NUMA_ID = numaId,
        NUM_TPCS = numTpcs,
    }
}
fields! {
    /// A context (kind 9).
    context: CUpti_ActivityContext4 {
        KIND = kind,
        CONTEXT_ID = contextId,
        DEVICE_ID = deviceId,
        COMPUTE_API_KIND = computeApiKind,
        NULL_STREAM_ID = nullStreamId,
        PARENT_CONTEXT_ID = parentContextId,
        IS_GREEN_CONTEXT = isGreenContext,
        NUM_MULTIPROCESSORS = numMultiprocessors,
        CIG_MODE = cigMode,
        PROCESS_ID = processId,
    }
}
fields! {
    /// A launch of a whole graph (kind 51).
    graph_trace: CUpti_ActivityGraphTrace2 {
        KIND = kind,
        CORRELATION_ID = correlationId,
        START = start,
        END = end,
        DEVICE_ID = deviceId,
        GRAPH_ID = graphId,
        CONTEXT_ID = contextId,
        STREAM_ID = streamId,
        END_DEVICE_ID = endDeviceId,
        END_CONTEXT_ID = endContextId,
    }
}
fields! {
    /// A host function run by a graph (kind 56).
    graph_host_node: CUpti_ActivityGraphHostNode {
        KIND = kind,
        STREAM_ID = streamId,
        CONTEXT_ID = contextId,
        DEVICE_ID = deviceId,
        CORRELATION_ID = correlationId,
        GRAPH_ID = graphId,
        GRAPH_NODE_ID = graphNodeId,
        PROCESS_ID = processId,
        THREAD_ID = threadId,
        START = start,
        END = end,
    }
}
fields! {
    /// A host function run by a stream (kind 58).
    host_launch: CUpti_ActivityHostLaunch {
        KIND = kind,
        STREAM_ID = streamId,
        CONTEXT_ID = contextId,
        DEVICE_ID = deviceId,
        CORRELATION_ID = correlationId,
        PROCESS_ID = processId,
        THREAD_ID = threadId,
        START = start,
        END = end,
    }
}
fields! {
    /// A stream (kind 37).
    stream: CUpti_ActivityStream {
        KIND = kind,
        CONTEXT_ID = contextId,
        STREAM_ID = streamId,
        PRIORITY = priority,
        FLAG = flag,
        CORRELATION_ID = correlationId,
    }
}
fields! {
    /// A name that the program gave to a thread, a stream or a device (kind 11).
    name: CUpti_ActivityName {
        KIND = kind,
        OBJECT_KIND = objectKind,
        OBJECT_ID = objectId,
        NAME = name,
    }
}
fields! {
    /// A module that was loaded (kind 27).
    module: CUpti_ActivityModule {
        KIND = kind,
        CONTEXT_ID = contextId,
        ID = id,
        CUBIN_SIZE = cubinSize,
        CUBIN = cubin,
    }
}

#[cfg(test)]
#[path = "layout_tests.rs"]
mod tests;
