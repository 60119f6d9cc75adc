//! The offsets and sizes against numbers measured from the headers of each release with a C compiler.

use super::*;

fn offsets<const N: usize>(fields: [Field; N]) -> [u16; N] {
    fields.map(|field| field.offset)
}

#[test]
fn kernel_fields_lie_where_c_puts_them() {
    use kernel::*;
    let dimensions = [GRID_X, GRID_Y, GRID_Z, BLOCK_X, BLOCK_Y, BLOCK_Z];
    assert_eq!(offsets(dimensions), [52, 56, 60, 64, 68, 72]);
    assert_eq!(offsets([KIND, CACHE_CONFIG, SHARED_MEMORY_CONFIG, REGISTERS_PER_THREAD]), [0, 4, 5, 6]);
    assert_eq!(offsets([START, END, COMPLETED, DEVICE_ID, CONTEXT_ID, STREAM_ID]), [16, 24, 32, 40, 44, 48]);
    let memory = [STATIC_SHARED_MEMORY, DYNAMIC_SHARED_MEMORY, LOCAL_MEMORY_PER_THREAD, LOCAL_MEMORY_TOTAL];
    assert_eq!(offsets(memory), [76, 80, 84, 88]);
    assert_eq!(offsets([CORRELATION_ID, GRID_ID, NAME, QUEUED, SUBMITTED]), [92, 96, 104, 120, 128]);
    assert_eq!(offsets([LAUNCH_TYPE, SHARED_MEMORY_EXECUTED, GRAPH_NODE_ID, GRAPH_ID]), [136, 140, 144, 156]);
    assert_eq!(offsets([SHMEM_LIMIT_CONFIG, ACCESS_POLICY_WINDOW]), [152, 160]);
    assert_eq!(
        offsets([CHANNEL_ID, CHANNEL_TYPE, CLUSTER_X, CLUSTER_Y, CLUSTER_Z]),
        [168, 172, 176, 180, 184]
    );
    assert_eq!(offsets([CLUSTER_SCHEDULING_POLICY, LOCAL_MEMORY_TOTAL_V2]), [188, 192]);
    assert_eq!(
        offsets([MAX_POTENTIAL_CLUSTER_SIZE, MAX_ACTIVE_CLUSTERS, IS_DEVICE_LAUNCHED]),
        [200, 204, 208]
    );
    assert_eq!(
        offsets([PRIORITY, EXECUTION_MODEL, SOURCE_GRAPH_ID, SOURCE_GRAPH_NODE_ID]),
        [216, 224, 232, 240]
    );
    assert_eq!([START.width, GRID_X.width, REGISTERS_PER_THREAD.width, LAUNCH_TYPE.width], [8, 4, 2, 1]);
}

#[test]
fn transfer_fields_lie_where_c_puts_them() {
    {
        use memcpy::*;
        assert_eq!(
            offsets([COPY_KIND, SRC_KIND, DST_KIND, FLAGS, BYTES, START, END]),
            [4, 5, 6, 7, 8, 16, 24]
        );
        assert_eq!(offsets([DEVICE_ID, CONTEXT_ID, STREAM_ID, CORRELATION_ID]), [32, 36, 40, 44]);
        assert_eq!(offsets([RUNTIME_CORRELATION_ID, GRAPH_NODE_ID, GRAPH_ID, CHANNEL_ID]), [48, 64, 72, 76]);
        assert_eq!(offsets([CHANNEL_TYPE, IS_DEVICE_LAUNCHED, COPY_COUNT]), [80, 84, 88]);
        assert_eq!(offsets([SOURCE_GRAPH_ID, SOURCE_GRAPH_NODE_ID]), [96, 104]);
    }
    {
        use memcpy_peer::*;
        assert_eq!(offsets([SRC_DEVICE_ID, SRC_CONTEXT_ID, DST_DEVICE_ID, DST_CONTEXT_ID]), [44, 48, 52, 56]);
        assert_eq!(
            offsets([CORRELATION_ID, GRAPH_NODE_ID, GRAPH_ID, CHANNEL_ID, CHANNEL_TYPE]),
            [60, 72, 80, 84, 88]
        );
    }
    {
        use memset::*;
        assert_eq!(offsets([VALUE, BYTES, START, END, DEVICE_ID, CONTEXT_ID]), [4, 8, 16, 24, 32, 36]);
        assert_eq!(offsets([STREAM_ID, CORRELATION_ID, FLAGS, MEMORY_KIND]), [40, 44, 48, 50]);
        assert_eq!(offsets([GRAPH_NODE_ID, GRAPH_ID, CHANNEL_ID, CHANNEL_TYPE]), [64, 72, 76, 80]);
        assert_eq!(offsets([IS_DEVICE_LAUNCHED, SOURCE_GRAPH_ID, SOURCE_GRAPH_NODE_ID]), [84, 88, 96]);
    }
}

#[test]
fn call_and_annotation_fields_lie_where_c_puts_them() {
    {
        use api::*;
        assert_eq!(offsets([CBID, START, END, PROCESS_ID, THREAD_ID]), [4, 8, 16, 24, 28]);
        assert_eq!(offsets([CORRELATION_ID, RETURN_VALUE]), [32, 36]);
    }
    {
        use external_correlation::*;
        assert_eq!(offsets([EXTERNAL_KIND, EXTERNAL_ID, CORRELATION_ID]), [4, 8, 16]);
    }
    {
        use marker::*;
        assert_eq!(
            offsets([FLAGS, TIMESTAMP, ID, OBJECT_KIND, OBJECT_ID, NAME, DOMAIN]),
            [4, 8, 16, 20, 24, 40, 48]
        );
        assert_eq!(OBJECT_ID.width, 12);
    }
    {
        use marker_data::*;
        assert_eq!(
            offsets([FLAGS, ID, PAYLOAD_KIND, PAYLOAD, COLOR, CATEGORY, DOMAIN_ID]),
            [4, 8, 12, 16, 24, 28, 32]
        );
    }
    {
        use overhead::*;
        assert_eq!(offsets([OVERHEAD_KIND, OBJECT_KIND, OBJECT_ID, START, END]), [4, 8, 12, 24, 32]);
        assert_eq!(offsets([CORRELATION_ID, OVERHEAD_DATA]), [40, 48]);
    }
}

#[test]
fn graph_and_wait_fields_lie_where_c_puts_them() {
    {
        use graph_trace::*;
        assert_eq!(offsets([CORRELATION_ID, START, END, DEVICE_ID, GRAPH_ID]), [4, 8, 16, 24, 28]);
        assert_eq!(offsets([CONTEXT_ID, STREAM_ID, END_DEVICE_ID, END_CONTEXT_ID]), [32, 36, 48, 52]);
    }
    {
        use synchronization::*;
        assert_eq!(
            offsets([TYPE, START, END, CORRELATION_ID, CONTEXT_ID, STREAM_ID]),
            [4, 8, 16, 24, 28, 32]
        );
        assert_eq!(offsets([CUDA_EVENT_ID, CUDA_EVENT_SYNC_ID, RETURN_VALUE]), [36, 40, 48]);
    }
    {
        use cuda_event::*;
        assert_eq!(offsets([CORRELATION_ID, CONTEXT_ID, STREAM_ID, EVENT_ID]), [4, 8, 12, 16]);
        assert_eq!(offsets([DEVICE_ID, DEVICE_TIMESTAMP, CUDA_EVENT_SYNC_ID]), [24, 40, 48]);
    }
    {
        use graph_host_node::*;
        assert_eq!(offsets([STREAM_ID, CONTEXT_ID, DEVICE_ID, CORRELATION_ID]), [4, 8, 12, 16]);
        assert_eq!(
            offsets([GRAPH_ID, GRAPH_NODE_ID, PROCESS_ID, THREAD_ID, START, END]),
            [20, 24, 32, 36, 40, 48]
        );
    }
    {
        use host_launch::*;
        assert_eq!(offsets([CORRELATION_ID, PROCESS_ID, THREAD_ID, START, END]), [16, 20, 24, 32, 40]);
    }
}

#[test]
fn device_and_object_fields_lie_where_c_puts_them() {
    {
        use context::*;
        assert_eq!(offsets([CONTEXT_ID, DEVICE_ID, COMPUTE_API_KIND, NULL_STREAM_ID]), [4, 8, 12, 14]);
        assert_eq!(offsets([PARENT_CONTEXT_ID, IS_GREEN_CONTEXT, NUM_MULTIPROCESSORS]), [16, 20, 22]);
        assert_eq!(offsets([CIG_MODE, PROCESS_ID]), [24, 32]);
    }
    {
        use device::*;
        assert_eq!(offsets([NUM_MULTIPROCESSORS, L2_CACHE_SIZE]), [44, 28]);
        assert_eq!(offsets([COMPUTE_CAPABILITY_MAJOR, COMPUTE_CAPABILITY_MINOR, ID]), [104, 108, 112]);
        assert_eq!(offsets([UUID, NAME, IS_CUDA_VISIBLE, IS_MIG_ENABLED]), [120, 136, 144, 145]);
        assert_eq!(offsets([GPU_INSTANCE_ID, COMPUTE_INSTANCE_ID, MIG_UUID, NUM_TPCS]), [152, 156, 160, 184]);
        assert_eq!([UUID.width, MIG_UUID.width], [16, 16]);
    }
    {
        use memory::*;
        assert_eq!(offsets([OPERATION, MEMORY_KIND, CORRELATION_ID, ADDRESS, BYTES]), [4, 8, 12, 16, 24]);
        assert_eq!(offsets([TIMESTAMP, PC, PROCESS_ID, DEVICE_ID, CONTEXT_ID]), [32, 40, 48, 52, 56]);
        assert_eq!(offsets([STREAM_ID, NAME, IS_ASYNC, SOURCE]), [60, 64, 72, 120]);
    }
    assert_eq!(offsets([stream::CONTEXT_ID, stream::STREAM_ID, name::NAME, module::CUBIN]), [4, 8, 24, 16]);
}

#[test]
fn sizes_follow_the_version() {
    // To 13.0: from the headers of these releases. From 13.1 on: what the library of 13.5 tells of them, too.
    let versions = [18, 22, 24, 26, 28, 130_001, 130_100, 130_300, 130_401, 130_500];
    let sizes = |kind| versions.map(|api| record_size(kind, LibraryVersion::from_api(api)).unwrap());
    assert_eq!(sizes(kind::CONCURRENT_KERNEL), [200, 208, 208, 208, 208, 216, 224, 232, 248, 248]);
    assert_eq!(sizes(kind::KERNEL), sizes(kind::CONCURRENT_KERNEL));
    assert_eq!(sizes(kind::MEMCPY), [88, 88, 88, 96, 96, 96, 96, 96, 112, 112]);
    assert_eq!(sizes(kind::MEMCPY2), [96; 10]);
    assert_eq!(sizes(kind::MEMSET), [88, 88, 88, 88, 88, 88, 88, 88, 104, 104]);
    assert_eq!(sizes(kind::DRIVER), [40; 10]);
    assert_eq!(sizes(kind::OVERHEAD), [40, 56, 56, 56, 56, 56, 56, 56, 56, 56]);
    assert_eq!(sizes(kind::DEVICE), [176, 184, 184, 184, 184, 184, 184, 192, 192, 192]);
    assert_eq!(sizes(kind::CONTEXT), [16, 24, 32, 32, 32, 32, 32, 32, 40, 40]);
    assert_eq!(sizes(kind::MARKER), [56; 10]);
    assert_eq!(sizes(kind::MARKER_DATA), [32, 32, 32, 32, 32, 40, 40, 40, 40, 40]);
    assert_eq!(sizes(kind::SYNCHRONIZATION), [40, 40, 40, 56, 56, 56, 56, 56, 56, 56]);
    assert_eq!(sizes(kind::CUDA_EVENT), [24, 24, 24, 56, 56, 56, 56, 56, 56, 80]);
    assert_eq!(sizes(kind::MEMORY2), [120, 120, 128, 128, 128, 128, 128, 128, 128, 128]);
    assert_eq!(sizes(kind::GRAPH_TRACE), [48, 56, 56, 56, 56, 56, 56, 56, 56, 56]);
    assert_eq!(sizes(kind::EXTERNAL_CORRELATION), [24; 10]);
    assert_eq!(sizes(kind::STREAM), [24; 10]);
    assert_eq!(sizes(kind::NAME), [32; 10]);
    assert_eq!(sizes(kind::GRAPH_HOST_NODE), [56; 10]);
    assert_eq!(sizes(kind::HOST_LAUNCH), [48; 10]);
}

#[test]
fn every_ladder_descends_to_the_first_version() {
    for kind in 0..100 {
        let Some(sizes) = record_sizes(kind) else { continue };
        assert!(
            sizes.is_sorted_by(|newer, older| newer.since > older.since && newer.size > older.size),
            "{kind}"
        );
        assert_eq!(sizes.last().map(|rung| rung.since.api()), Some(0), "{kind}");
    }
}

#[test]
fn an_undeclared_kind_has_no_size() {
    assert_eq!(record_size(0, LibraryVersion::HEADERS), None);
    assert_eq!(record_size(9_999, LibraryVersion::HEADERS), None);
}

#[test]
fn a_field_that_the_library_does_not_write_is_outside_the_record() {
    let size = record_size(kind::CONCURRENT_KERNEL, LibraryVersion::OLDEST).unwrap();
    assert!(kernel::LOCAL_MEMORY_TOTAL_V2.within(size));
    assert!(!kernel::MAX_POTENTIAL_CLUSTER_SIZE.within(size));
}

#[test]
fn fields_are_those_of_the_newest_declared_struct() {
    // With newer headers this points at each record that has grown.
    let bindings = include_str!("bindings.rs");
    let structs = |stem: &str| -> Vec<u32> {
        let declarations =
            bindings.lines().filter_map(|line| line.strip_prefix("pub struct ")?.strip_prefix(stem));
        declarations.filter_map(|rest| rest.trim_end_matches(" {").parse().ok()).collect()
    };
    let records = include_str!("layout.rs").lines().filter_map(|line| {
        let (_, record) = line.strip_suffix(" {")?.split_once(": CUpti_Activity")?;
        Some(record)
    });
    let mut checked = 0;
    for record in records {
        let stem = record.trim_end_matches(|c: char| c.is_ascii_digit());
        let version: u32 = record[stem.len()..].parse().unwrap_or(1);
        let newest = structs(&format!("CUpti_Activity{stem}")).into_iter().max().unwrap_or(1);
        assert_eq!(version, newest, "CUpti_Activity{record}");
        checked += 1;
    }
    assert_eq!(checked, 20);
}
