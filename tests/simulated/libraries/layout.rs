//! Which CUPTI the simulation is, and how that one lays out its records.

use std::sync::LazyLock;

use crate::entry::variable;
use crate::state::kernel_thread_id;
use crate::work::Work;

pub const MEMCPY: u32 = 1;
pub const MEMSET: u32 = 2;
pub const KERNEL: u32 = 3;
pub const DRIVER: u32 = 4;
pub const RUNTIME: u32 = 5;
pub const CONCURRENT_KERNEL: u32 = 10;
pub const OVERHEAD: u32 = 17;
pub const MEMCPY2: u32 = 22;
pub const SYNCHRONIZATION: u32 = 38;
pub const MEMORY2: u32 = 49;

/// One release: what it reports, which driver calls it knows, how it hands out buffers, and how large its records are.
pub struct Profile {
    pub name: &'static str,
    pub api: u32,
    pub newest_cbid: u32,
    pub buffer_per_thread: bool,
    pub kernel: usize,
    pub memcpy: usize,
    pub memset: usize,
    pub memcpy2: usize,
    pub overhead: usize,
    pub synchronization: usize,
    pub memory: usize,
}

#[rustfmt::skip]
const PROFILES: [Profile; 8] = [
    // 12.0 reports the number of 11.8.
    Profile { name: "12.0", api: 18, newest_cbid: 670, buffer_per_thread: false,
        kernel: 208, memcpy: 88, memset: 88, memcpy2: 96, overhead: 40, synchronization: 40, memory: 120 },
    Profile { name: "12.4", api: 22, newest_cbid: 720, buffer_per_thread: false,
        kernel: 208, memcpy: 88, memset: 88, memcpy2: 96, overhead: 56, synchronization: 40, memory: 120 },
    Profile { name: "12.6", api: 24, newest_cbid: 740, buffer_per_thread: false,
        kernel: 208, memcpy: 88, memset: 88, memcpy2: 96, overhead: 56, synchronization: 40, memory: 128 },
    Profile { name: "12.9", api: 28, newest_cbid: 780, buffer_per_thread: false,
        kernel: 208, memcpy: 96, memset: 88, memcpy2: 96, overhead: 56, synchronization: 56, memory: 128 },
    Profile { name: "13.0.0", api: 130_000, newest_cbid: 800, buffer_per_thread: true,
        kernel: 216, memcpy: 96, memset: 88, memcpy2: 96, overhead: 56, synchronization: 56, memory: 128 },
    Profile { name: "13.0", api: 130_001, newest_cbid: 800, buffer_per_thread: true,
        kernel: 216, memcpy: 96, memset: 88, memcpy2: 96, overhead: 56, synchronization: 56, memory: 128 },
    Profile { name: "13.5", api: 130_500, newest_cbid: 850, buffer_per_thread: true,
        kernel: 248, memcpy: 112, memset: 104, memcpy2: 96, overhead: 56, synchronization: 56, memory: 128 },
    // Newer than anything that is known: every record has grown at its end.
    Profile { name: "13.99", api: 139_999, newest_cbid: 2000, buffer_per_thread: true,
        kernel: 280, memcpy: 136, memset: 120, memcpy2: 112, overhead: 64, synchronization: 72, memory: 144 },
];

pub static PROFILE: LazyLock<&Profile> = LazyLock::new(|| {
    let wanted = variable("SIM_VERSION").unwrap_or_else(|| "13.0".into());
    PROFILES.iter().find(|profile| profile.name == wanted).expect("SIM_VERSION names a profile")
});

impl Profile {
    /// The bytes of a record of this kind; none for a kind that only its writer knows.
    pub fn size(&self, kind: u32) -> Option<usize> {
        Some(match kind {
            KERNEL | CONCURRENT_KERNEL => self.kernel,
            MEMCPY => self.memcpy,
            MEMSET => self.memset,
            MEMCPY2 => self.memcpy2,
            DRIVER | RUNTIME => 40,
            OVERHEAD => self.overhead,
            SYNCHRONIZATION => self.synchronization,
            MEMORY2 => self.memory,
            _ => return None,
        })
    }
}

pub struct Record<'a> {
    pub kind: u32,
    pub work: &'a Work,
    pub correlation: u32,
    /// Which of the call's records.
    pub number: u32,
    pub start: u64,
    pub end: u64,
}

/// Writes a field at its offset, if the record reaches so far.
fn put<const N: usize>(record: &mut [u8], offset: usize, value: [u8; N]) {
    if let Some(field) = record.get_mut(offset..offset + N) {
        field.copy_from_slice(&value);
    }
}

impl Record<'_> {
    /// Lays the record out. The offsets are those of CUPTI's headers; see also `cupti-sys`.
    pub fn lay_out(&self, record: &mut [u8], system_thread_ids: bool) {
        let put4 = |record: &mut [u8], offset, value: u32| put(record, offset, value.to_ne_bytes());
        let put8 = |record: &mut [u8], offset, value: u64| put(record, offset, value.to_ne_bytes());
        let Self { kind, work, correlation, number, start, end } = *self;
        // What nobody should read as something else: everything that a newer release has appended.
        record.fill(if PROFILE.size(kind).is_some() { 0 } else { 0xee });
        put4(record, 0, kind);
        let (device, context, stream) = (work.device, work.context, work.stream);
        let enums = |usual| if work.enums == 0 { usual } else { work.enums };
        let (graph, node) = if work.graph == 0 { (0, 0) } else { (work.graph, u64::from(number) + 1) };
        match kind {
            KERNEL | CONCURRENT_KERNEL => {
                put(record, 6, 32_u16.to_ne_bytes()); // registers
                (put8(record, 16, start), put8(record, 24, end), put8(record, 32, end));
                (put4(record, 40, device), put4(record, 44, context), put4(record, 48, stream));
                for (offset, size) in [(52, 4), (56, 3), (60, 2), (64, 128), (68, 2), (72, 1)] {
                    put4(record, offset, size); // grid, block
                }
                (put4(record, 76, 1024), put4(record, 80, 2048), put4(record, 84, 16));
                (put4(record, 92, correlation), put8(record, 96, correlation.into()));
                put8(record, 104, work.name as u64);
                (put8(record, 144, node), put4(record, 156, graph));
                (put4(record, 176, 2), put4(record, 180, 1), put4(record, 184, 1)); // cluster
            }
            MEMCPY | MEMCPY2 => {
                put(record, 4, [1, 1, 3, 1]); // host to device, pageable, device, asynchronous
                if work.enums != 0 {
                    put(record, 4, [work.enums as u8; 3]);
                }
                (put8(record, 8, work.bytes), put8(record, 16, start), put8(record, 24, end));
                (put4(record, 32, device), put4(record, 36, context), put4(record, 40, stream));
                if kind == MEMCPY {
                    (put4(record, 44, correlation), put8(record, 64, node), put4(record, 72, graph));
                } else {
                    (put4(record, 44, 0), put4(record, 48, 1), put4(record, 52, 1), put4(record, 56, 2));
                    (put4(record, 60, correlation), put8(record, 72, node), put4(record, 80, graph));
                }
            }
            MEMSET => {
                (put4(record, 4, 0xff), put8(record, 8, work.bytes));
                (put8(record, 16, start), put8(record, 24, end));
                (put4(record, 32, device), put4(record, 36, context), put4(record, 40, stream));
                (put4(record, 44, correlation), put(record, 48, [1, 0, 3, 0])); // asynchronous, device
                if work.enums != 0 {
                    put(record, 50, (work.enums as u16).to_ne_bytes());
                }
                (put8(record, 64, node), put4(record, 72, graph));
            }
            DRIVER | RUNTIME => {
                put4(record, 4, if kind == DRIVER { work.cbid } else { 211 });
                (put8(record, 8, start), put8(record, 16, end), put4(record, 24, std::process::id()));
                put4(record, 28, if system_thread_ids { kernel_thread_id() } else { 0x5000_0000 });
                put4(record, 32, correlation);
            }
            OVERHEAD => {
                // Instrumentation, of a thread.
                (put4(record, 4, enums(2 << 16)), put4(record, 8, 2));
                (put4(record, 12, std::process::id()), put4(record, 16, kernel_thread_id()));
                (put8(record, 24, start), put8(record, 32, end), put4(record, 40, correlation));
            }
            SYNCHRONIZATION => {
                (put4(record, 4, enums(3)), put8(record, 8, start), put8(record, 16, end));
                (put4(record, 24, correlation), put4(record, 28, context), put4(record, 32, stream));
            }
            MEMORY2 => {
                (put4(record, 4, enums(1)), put4(record, 8, enums(3)), put4(record, 12, correlation));
                (put8(record, 16, 0xdead_0000), put8(record, 24, work.bytes), put8(record, 32, start));
                (put4(record, 48, std::process::id()), put4(record, 52, device));
                (put4(record, 56, context), put4(record, 60, stream));
            }
            // For the walk.
            _ => put4(record, 4, record.len() as u32),
        }
    }
}
