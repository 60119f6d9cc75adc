//! The kinds of activity records, as the plain numbers that records begin with.
//!
//! A number that is not here is normal: a newer library has newer kinds.

use crate::bindings::CUpti_ActivityKind as Kind;

/// Declares each kind as a number, from the generated enum.
macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $declared:ident;)+) => {
        $($(#[$doc])* pub const $name: u32 = Kind::$declared.0;)+

        /// The name of a kind, without the prefix that all share; `None` for one that is not declared here.
        pub fn name(kind: u32) -> Option<&'static str> {
            match kind {
                $($name => Some(stringify!($name)),)+
                _ => None,
            }
        }
    };
}

kinds! {
    /// A copy within a device, or between it and the host.
    MEMCPY = CUPTI_ACTIVITY_KIND_MEMCPY;
    /// A fill of device memory.
    MEMSET = CUPTI_ACTIVITY_KIND_MEMSET;
    /// A kernel, with kernels serialised while this kind is enabled. The record is that of [`CONCURRENT_KERNEL`].
    KERNEL = CUPTI_ACTIVITY_KIND_KERNEL;
    /// A call of the driver API.
    DRIVER = CUPTI_ACTIVITY_KIND_DRIVER;
    /// A call of the runtime API.
    RUNTIME = CUPTI_ACTIVITY_KIND_RUNTIME;
    /// A device.
    DEVICE = CUPTI_ACTIVITY_KIND_DEVICE;
    /// A context.
    CONTEXT = CUPTI_ACTIVITY_KIND_CONTEXT;
    /// A kernel, without influence on which kernels run at once.
    CONCURRENT_KERNEL = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
    /// A name given to a thread, a stream or a device.
    NAME = CUPTI_ACTIVITY_KIND_NAME;
    /// An NVTX event.
    MARKER = CUPTI_ACTIVITY_KIND_MARKER;
    /// The attributes of an NVTX event.
    MARKER_DATA = CUPTI_ACTIVITY_KIND_MARKER_DATA;
    /// Time that CUPTI or the driver took from the program.
    OVERHEAD = CUPTI_ACTIVITY_KIND_OVERHEAD;
    /// Clocks, temperature, power.
    ENVIRONMENT = CUPTI_ACTIVITY_KIND_ENVIRONMENT;
    /// A copy between two devices.
    MEMCPY2 = CUPTI_ACTIVITY_KIND_MEMCPY2;
    /// A count of unified memory transfers or faults.
    UNIFIED_MEMORY_COUNTER = CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER;
    /// A function of a module.
    FUNCTION = CUPTI_ACTIVITY_KIND_FUNCTION;
    /// A module that was loaded.
    MODULE = CUPTI_ACTIVITY_KIND_MODULE;
    /// An attribute of a device.
    DEVICE_ATTRIBUTE = CUPTI_ACTIVITY_KIND_DEVICE_ATTRIBUTE;
    /// A CUDA event that was recorded.
    CUDA_EVENT = CUPTI_ACTIVITY_KIND_CUDA_EVENT;
    /// A stream.
    STREAM = CUPTI_ACTIVITY_KIND_STREAM;
    /// A wait for an event, a stream or a context.
    SYNCHRONIZATION = CUPTI_ACTIVITY_KIND_SYNCHRONIZATION;
    /// A client's id for the calls that follow.
    EXTERNAL_CORRELATION = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION;
    /// An NVLink connection.
    NVLINK = CUPTI_ACTIVITY_KIND_NVLINK;
    /// Memory over its lifetime; superseded by [`MEMORY2`].
    MEMORY = CUPTI_ACTIVITY_KIND_MEMORY;
    /// A device or bridge of the PCI Express tree.
    PCIE = CUPTI_ACTIVITY_KIND_PCIE;
    /// A launch made by CUPTI or the driver itself.
    INTERNAL_LAUNCH_API = CUPTI_ACTIVITY_KIND_INTERNAL_LAUNCH_API;
    /// An allocation or a release of memory.
    MEMORY2 = CUPTI_ACTIVITY_KIND_MEMORY2;
    /// A change of a memory pool.
    MEMORY_POOL = CUPTI_ACTIVITY_KIND_MEMORY_POOL;
    /// A launch of a whole graph; replaces the records of its nodes.
    GRAPH_TRACE = CUPTI_ACTIVITY_KIND_GRAPH_TRACE;
    /// A just-in-time compilation.
    JIT = CUPTI_ACTIVITY_KIND_JIT;
    /// A launch of a whole graph from the device.
    DEVICE_GRAPH_TRACE = CUPTI_ACTIVITY_KIND_DEVICE_GRAPH_TRACE;
    /// A decompression by the copy engine.
    MEM_DECOMPRESS = CUPTI_ACTIVITY_KIND_MEM_DECOMPRESS;
    /// A change of keys under confidential computing.
    CONFIDENTIAL_COMPUTE_ROTATION = CUPTI_ACTIVITY_KIND_CONFIDENTIAL_COMPUTE_ROTATION;
    /// A host function run by a graph.
    GRAPH_HOST_NODE = CUPTI_ACTIVITY_KIND_GRAPH_HOST_NODE;
    /// A switch of contexts on the compute engine.
    COMPUTE_ENGINE_CTX_SWITCH = CUPTI_ACTIVITY_KIND_COMPUTE_ENGINE_CTX_SWITCH;
    /// A host function run by a stream.
    HOST_LAUNCH = CUPTI_ACTIVITY_KIND_HOST_LAUNCH;
    /// A green context.
    GREEN_CONTEXT = CUPTI_ACTIVITY_KIND_GREEN_CONTEXT;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_have_their_numbers_and_names() {
        assert_eq!([MEMCPY, MEMSET, KERNEL, CONCURRENT_KERNEL, MEMCPY2, HOST_LAUNCH], [1, 2, 3, 10, 22, 58]);
        assert_eq!(name(10), Some("CONCURRENT_KERNEL"));
        assert_eq!(name(6), None);
    }
}
