//! Maps whose neighbouring keys lie side by side.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A map by ids that are counted up: calls, ranges and records come nearly in the order of their ids, so that entries
/// of ids that follow each other should share cache lines. A hash that scatters them costs a miss of every cache, and
/// for large maps of the page table too, on each look-up.
pub(super) type NearMap<K, V> = HashMap<K, V, BuildHasherDefault<NearHasher>>;

/// So many ids stay together; the blocks themselves are scattered, whatever the distance of ids.
const BLOCK_BITS: u32 = 8;

/// Hashes one integer.
#[derive(Default)]
pub(super) struct NearHasher(u64);

impl Hasher for NearHasher {
    fn write_u64(&mut self, id: u64) {
        const SCATTER: u64 = 0x9e37_79b9_7f4a_7c15;
        let in_block = id & ((1 << BLOCK_BITS) - 1);
        let block = (id >> BLOCK_BITS).wrapping_mul(SCATTER).rotate_left(20) << BLOCK_BITS;
        // The map takes the place from the low bits, and from the highest seven a tag that tells neighbours apart.
        let (place, tag) = (block | in_block, id.wrapping_mul(SCATTER));
        self.0 = (place & (u64::MAX >> 7)) | (tag & !(u64::MAX >> 7));
    }

    fn write_u32(&mut self, id: u32) {
        self.write_u64(id.into());
    }

    /// Keys are integers; this is for completeness only.
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(self.0.rotate_left(8) ^ u64::from(*byte));
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn ids_at_any_distance_are_found_in_time() {
        for distance in (0..32).map(|bit| 1_u64 << bit).chain([3, 255, 257, 65_537]) {
            let start = Instant::now();
            let mut map = NearMap::default();
            let ids = || (1..20_000_u64).map(|i| i * distance);
            ids().for_each(|id| assert_eq!(map.insert(id, id), None));
            assert!(ids().all(|id| map.get(&id) == Some(&id)));
            assert!(start.elapsed() < Duration::from_secs(2), "{distance}: {:?}", start.elapsed());
        }
    }
}
