use cupti_sys::{LibraryVersion, kind, layout};
use proptest::prelude::*;

use super::*;

const VERSIONS: [u32; 9] = [18, 22, 24, 26, 28, 130_001, 130_100, 130_401, 130_500];

fn any_version() -> impl Strategy<Value = LibraryVersion> {
    proptest::sample::select(VERSIONS.to_vec()).prop_map(LibraryVersion::from_api)
}

#[test]
fn a_kernel_reads_the_same_in_every_layout() {
    for version in VERSIONS.map(LibraryVersion::from_api) {
        let bytes = synthetic::kernel(version, 9, 100, 228, 0xabc).set(layout::kernel::GRAPH_NODE_ID, 5).0;
        let Record::Kernel(kernel) = Decoder::new(version).decode(&bytes, 0) else {
            panic!("{version}: not a kernel");
        };
        assert_eq!((kernel.common.start, kernel.common.end, kernel.name), (100, 228, 0xabc));
        assert_eq!((kernel.grid, kernel.block), ([4, 2, 1], [32, 1, 1]));
        assert_eq!(kernel.common.graph_node, 5);
        assert_eq!(kernel.cluster, None);
    }
}

#[test]
fn fields_of_newer_libraries_are_absent_in_older_records() {
    let (old, new) = (LibraryVersion::from_api(28), LibraryVersion::from_api(130_500));
    let launched = |version| {
        let bytes = synthetic::kernel(version, 1, 1, 2, 0).set(layout::kernel::IS_DEVICE_LAUNCHED, 1).0;
        // The record that follows must not be read as part of this one.
        let buffer = [bytes, vec![0xff; 300]].concat();
        match Decoder::new(version).decode(&buffer, 0) {
            Record::Kernel(kernel) => kernel.common.device_launched,
            other => panic!("not a kernel: {other:?}"),
        }
    };
    assert!(!launched(old));
    assert!(launched(new));
}

#[test]
fn an_unknown_kind_is_a_value() {
    let record = Decoder::new(LibraryVersion::HEADERS).decode(&9999_u32.to_le_bytes(), 0);
    assert_eq!(record, Record::Unknown { kind: 9999 });
}

#[test]
fn a_record_that_ends_early_is_truncated() {
    let version = LibraryVersion::HEADERS;
    let bytes = synthetic::kernel(version, 1, 1, 2, 0).0;
    for length in 0..bytes.len() {
        let record = Decoder::new(version).decode(&bytes[..length], 0);
        assert!(matches!(record, Record::Truncated { .. }), "{length} bytes gave {record:?}");
    }
}

proptest! {
    #[test]
    fn hostile_bytes_never_panic(
        version in any_version(),
        kind in prop_oneof![Just(kind::CONCURRENT_KERNEL), Just(kind::MEMCPY), Just(kind::MEMCPY2),
            Just(kind::MEMSET), Just(kind::OVERHEAD), Just(kind::DRIVER), Just(kind::SYNCHRONIZATION),
            Just(kind::MEMORY2), any::<u32>()],
        mut bytes in proptest::collection::vec(any::<u8>(), 0..400),
        offset in 0_u32..500,
    ) {
        if bytes.len() >= 4 {
            bytes[..4].copy_from_slice(&kind.to_le_bytes());
        }
        Decoder::new(version).decode(&bytes, offset);
        Decoder::new(version).decode(&bytes, 0);
    }
}
