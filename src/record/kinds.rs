//! The words for CUPTI's numbers, as the tables spell them.
//!
//! Numbers that this crate does not know are normal with a newer library: they become `kind_<number>`.

use std::borrow::Cow;

use cupti_sys::bindings as c;
use cupti_sys::kind;

macro_rules! words {
    ($(#[$doc:meta])* $function:ident: $type:ident { $($variant:ident => $word:literal,)+ }) => {
        $(#[$doc])*
        pub(crate) fn $function(number: u32) -> Cow<'static, str> {
            match c::$type(number) {
                $(c::$type::$variant => Cow::Borrowed($word),)+
                c::$type(unknown) => format!("kind_{unknown}").into(),
            }
        }
    };
}

words! {
    /// The direction of a copy.
    copy_kind: CUpti_ActivityMemcpyKind {
        CUPTI_ACTIVITY_MEMCPY_KIND_UNKNOWN => "unknown",
        CUPTI_ACTIVITY_MEMCPY_KIND_HTOD => "host_to_device",
        CUPTI_ACTIVITY_MEMCPY_KIND_DTOH => "device_to_host",
        CUPTI_ACTIVITY_MEMCPY_KIND_HTOA => "host_to_array",
        CUPTI_ACTIVITY_MEMCPY_KIND_ATOH => "array_to_host",
        CUPTI_ACTIVITY_MEMCPY_KIND_ATOA => "array_to_array",
        CUPTI_ACTIVITY_MEMCPY_KIND_ATOD => "array_to_device",
        CUPTI_ACTIVITY_MEMCPY_KIND_DTOA => "device_to_array",
        CUPTI_ACTIVITY_MEMCPY_KIND_DTOD => "device_to_device",
        CUPTI_ACTIVITY_MEMCPY_KIND_HTOH => "host_to_host",
        CUPTI_ACTIVITY_MEMCPY_KIND_PTOP => "peer_to_peer",
    }
}

words! {
    /// The kind of memory at an end of a copy or fill.
    memory_kind: CUpti_ActivityMemoryKind {
        CUPTI_ACTIVITY_MEMORY_KIND_UNKNOWN => "unknown",
        CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE => "pageable",
        CUPTI_ACTIVITY_MEMORY_KIND_PINNED => "pinned",
        CUPTI_ACTIVITY_MEMORY_KIND_DEVICE => "device",
        CUPTI_ACTIVITY_MEMORY_KIND_ARRAY => "array",
        CUPTI_ACTIVITY_MEMORY_KIND_MANAGED => "managed",
        CUPTI_ACTIVITY_MEMORY_KIND_DEVICE_STATIC => "device_static",
        CUPTI_ACTIVITY_MEMORY_KIND_MANAGED_STATIC => "managed_static",
    }
}

words! {
    /// What CUPTI or the driver spent time on.
    overhead_kind: CUpti_ActivityOverheadKind {
        CUPTI_ACTIVITY_OVERHEAD_UNKNOWN => "unknown",
        CUPTI_ACTIVITY_OVERHEAD_DRIVER_COMPILER => "driver_compiler",
        CUPTI_ACTIVITY_OVERHEAD_CUPTI_BUFFER_FLUSH => "buffer_flush",
        CUPTI_ACTIVITY_OVERHEAD_CUPTI_INSTRUMENTATION => "instrumentation",
        CUPTI_ACTIVITY_OVERHEAD_CUPTI_RESOURCE => "resource",
        CUPTI_ACTIVITY_OVERHEAD_RUNTIME_TRIGGERED_MODULE_LOADING => "module_loading",
        CUPTI_ACTIVITY_OVERHEAD_LAZY_FUNCTION_LOADING => "lazy_function_loading",
        CUPTI_ACTIVITY_OVERHEAD_COMMAND_BUFFER_FULL => "command_buffer_full",
        CUPTI_ACTIVITY_OVERHEAD_ACTIVITY_BUFFER_REQUEST => "buffer_request",
        CUPTI_ACTIVITY_OVERHEAD_UVM_ACTIVITY_INIT => "unified_memory_init",
    }
}

words! {
    /// What a synchronising call waits for.
    synchronization_kind: CUpti_ActivitySynchronizationType {
        CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_UNKNOWN => "unknown",
        CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_EVENT_SYNCHRONIZE => "event",
        CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT => "stream_wait_event",
        CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE => "stream",
        CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE => "context",
    }
}

words! {
    /// What happened to memory.
    memory_operation: CUpti_ActivityMemoryOperationType {
        CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION => "allocation",
        CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_RELEASE => "release",
    }
}

/// Which API a call record belongs to.
pub(crate) fn api_kind(kind: u32) -> &'static str {
    if kind == kind::RUNTIME { "runtime" } else { "driver" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_nobody_knows_keeps_it() {
        assert_eq!(copy_kind(1), "host_to_device");
        assert_eq!(memory_kind(3), "device");
        for words in [copy_kind, memory_kind, overhead_kind, synchronization_kind, memory_operation] {
            assert_eq!(words(200), "kind_200");
            assert_eq!(words(u32::MAX), "kind_4294967295");
        }
    }
}
