//! Rows as they are drawn.

use std::sync::Arc;

use arrow_array::{Array, RecordBatch};

use super::tracks::Owner;
use crate::error::Result;
use crate::table::columns::{Names, boolean, duration_ns, int64, uint16, uint32, value};
use crate::table::schema::Table;

/// Something to draw.
pub(super) struct Item {
    pub start_ns: i64,
    pub end_ns: i64,
    /// The place of its row among all, where times are equal.
    pub order: u64,
    pub owner: Owner,
    pub name: Text,
    pub what: What,
}

pub(super) type Text = Option<Arc<str>>;

/// What it is, with its arguments.
pub(super) enum What {
    Kernel(Box<Kernel>),
    Transfer(Box<Transfer>),
    Range(Box<Range>),
    Mark {
        category: Text,
        payload: Text,
    },
    Call {
        correlation: u32,
        return_value: u32,
    },
    Overhead {
        correlation: Option<u32>,
    },
    Synchronization {
        correlation: u32,
    },
    /// Bytes that came, or went.
    Memory(i64),
    Run(Box<Run>),
}

/// How work came to the device.
pub(super) struct Work {
    /// Host time and thread of the call.
    pub call: Option<(i64, u32)>,
    pub correlation: u32,
    pub graph: Option<u32>,
    pub graph_node: Option<i64>,
    pub range_path: Text,
    pub attribution: Text,
}

pub(super) struct Kernel {
    pub work: Work,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub cluster: Option<[u32; 3]>,
    pub registers: u16,
    pub static_shared: u32,
    pub dynamic_shared: u32,
    pub local: u32,
}

pub(super) struct Transfer {
    pub work: Work,
    pub bytes: i64,
    pub src_kind: Text,
    pub dst_kind: Text,
    pub asynchronous: bool,
}

pub(super) struct Range {
    pub domain: Text,
    pub category: Text,
    pub payload: Text,
    pub args: Text,
    pub kind: Text,
    pub path: Text,
    pub closed: bool,
    pub launches: i64,
    pub gpu_sum_ns: i64,
    pub gpu_span_ns: Option<i64>,
}

/// A run of a measurement, with the conditions that it was made in. Each of its values has a row, of which any tells.
pub(super) struct Run {
    /// Its place in the order of all runs.
    pub order_index: i64,
    pub number: i64,
    pub throttle: Text,
    /// Of each of [`CONDITIONS`].
    pub conditions: [Option<i64>; 6],
}

/// The conditions that become counters: the column, the counter's name, and its unit.
pub(super) const CONDITIONS: [(&str, &str, &str); 6] = [
    ("sm_clock_mhz", "SM clock", "MHz"),
    ("memory_clock_mhz", "memory clock", "MHz"),
    ("temperature_c", "temperature", "C"),
    ("power_mw", "power", "mW"),
    ("power_throttled_ns", "held down by the power limit", "ns"),
    ("thermal_throttled_ns", "held down by heat", "ns"),
];

/// A table that is drawn, and its columns; the start comes first.
pub(super) struct Source {
    pub table: Table,
    pub columns: &'static [&'static str],
}

/// The tables that are drawn. The order is that of rows with equal times.
pub(super) const SOURCES: [Source; 9] = [
    Source {
        table: Table::Ranges,
        columns: &[
            "start_ns",
            "end_ns",
            "thread_id",
            "name",
            "domain",
            "category",
            "payload",
            "args",
            "kind",
            "closed",
            "n_launches",
            "gpu_sum_ns",
            "gpu_span_ns",
            "range_path",
        ],
    },
    Source {
        table: Table::Launches,
        columns: &[
            "start_ns",
            "duration_ns",
            "device",
            "context",
            "stream",
            "range_path",
            "launch_lead_ns",
            "thread_id",
            "correlation_id",
            "graph_id",
            "graph_node_id",
            "attribution",
            "kernel",
            "grid_x",
            "grid_y",
            "grid_z",
            "block_x",
            "block_y",
            "block_z",
            "cluster_x",
            "cluster_y",
            "cluster_z",
            "registers_per_thread",
            "static_shared_memory_bytes",
            "dynamic_shared_memory_bytes",
            "local_memory_per_thread_bytes",
        ],
    },
    Source {
        table: Table::Transfers,
        columns: &[
            "start_ns",
            "duration_ns",
            "device",
            "context",
            "stream",
            "range_path",
            "launch_lead_ns",
            "thread_id",
            "correlation_id",
            "graph_id",
            "graph_node_id",
            "attribution",
            "operation",
            "copy_kind",
            "bytes",
            "src_kind",
            "dst_kind",
            "asynchronous",
        ],
    },
    Source { table: Table::Marks, columns: &["start_ns", "thread_id", "name", "category", "payload"] },
    Source {
        table: Table::ApiCalls,
        columns: &["start_ns", "end_ns", "thread_id", "name", "correlation_id", "return_value"],
    },
    Source {
        table: Table::Overheads,
        columns: &["start_ns", "end_ns", "thread_id", "kind", "correlation_id"],
    },
    Source {
        table: Table::Synchronizations,
        columns: &["start_ns", "end_ns", "context", "stream", "kind", "correlation_id"],
    },
    Source {
        table: Table::MemoryOperations,
        columns: &["start_ns", "device", "operation", "memory_kind", "bytes"],
    },
    Source {
        table: Table::Samples,
        columns: &[
            "start_ns",
            "wall_ns",
            "order_index",
            "run",
            "config",
            "throttle",
            CONDITIONS[0].0,
            CONDITIONS[1].0,
            CONDITIONS[2].0,
            CONDITIONS[3].0,
            CONDITIONS[4].0,
            CONDITIONS[5].0,
        ],
    },
];

/// The columns of texts, each with the distinct texts that were met.
#[derive(Default)]
pub(super) struct Words(Vec<(Names, Vec<u32>)>);

impl Words {
    /// Learns the texts of these columns of a batch, which are then known by their places here.
    fn learn(&mut self, batch: &RecordBatch, columns: &[usize]) -> Result<()> {
        self.0.resize_with(columns.len().max(self.0.len()), Default::default);
        for ((names, codes), column) in self.0.iter_mut().zip(columns) {
            names.codes(batch, *column, codes)?;
        }
        Ok(())
    }

    fn of(&self, place: usize, row: usize) -> Text {
        let (names, codes) = self.0.get(place)?;
        names.texts().get(*codes.get(row)? as usize).cloned()
    }
}

/// The rows of a batch that start in a window, in no order yet. `first` is the place of its first row among all.
pub(super) fn items(
    source: &Source,
    (member, first): (usize, u64),
    window: (i64, i64),
    batch: &RecordBatch,
    words: &mut Words,
    items: &mut Vec<Item>,
) -> Result<u64> {
    let starts = int64(batch, 0)?.values();
    let rows = (0..batch.num_rows()).filter(|row| window.0 <= starts[*row] && starts[*row] < window.1);
    let order = |row: usize| first + row as u64;
    let mut left_out = 0;
    match source.table {
        Table::Ranges => {
            words.learn(batch, &[3, 4, 5, 6, 7, 8, 13])?;
            let (ends, threads) = (int64(batch, 1)?.values(), uint32(batch, 2)?.values());
            let closed = boolean(batch, 9)?;
            let (launches, sums, spans) =
                (int64(batch, 10)?.values(), int64(batch, 11)?.values(), int64(batch, 12)?);
            for row in rows {
                let kind = words.of(5, row);
                let owner = match kind.as_deref() {
                    Some("process") => Owner::ProcessRanges(member),
                    _ => Owner::Thread(member, threads[row]),
                };
                let what = What::Range(Box::new(Range {
                    domain: words.of(1, row),
                    category: words.of(2, row),
                    payload: words.of(3, row),
                    args: words.of(4, row),
                    kind,
                    path: words.of(6, row),
                    closed: closed.value(row),
                    launches: launches[row],
                    gpu_sum_ns: sums[row],
                    gpu_span_ns: value(spans, row),
                }));
                let (start_ns, end_ns) = (starts[row], ends[row].max(starts[row]));
                items.push(Item { start_ns, end_ns, order: order(row), owner, name: words.of(0, row), what });
            }
        }
        Table::Launches | Table::Transfers => {
            let is_launch = source.table == Table::Launches;
            words.learn(batch, if is_launch { &[5, 11, 12] } else { &[5, 11, 12, 13, 15, 16] })?;
            let durations = int64(batch, 1)?;
            let [devices, contexts, streams] = [2, 3, 4].map(|column| uint32(batch, column));
            let (devices, contexts, streams) = (devices?.values(), contexts?.values(), streams?.values());
            let (leads, threads) = (int64(batch, 6)?, uint32(batch, 7)?);
            let correlations = uint32(batch, 8)?.values();
            let (graphs, nodes) = (uint32(batch, 9)?, int64(batch, 10)?);
            let of_kernels = if is_launch { Some(KernelColumns::of(batch)?) } else { None };
            let of_transfers =
                if is_launch { None } else { Some((int64(batch, 14)?.values(), boolean(batch, 17)?)) };
            for row in rows {
                let Some(duration_ns) = duration_ns(durations, row) else {
                    left_out += 1;
                    continue;
                };
                let start_ns = starts[row];
                let work = Work {
                    call: value(leads, row)
                        .zip(value(threads, row))
                        .map(|(lead, thread)| (start_ns.saturating_sub(lead), thread)),
                    correlation: correlations[row],
                    graph: value(graphs, row),
                    graph_node: value(nodes, row),
                    range_path: words.of(0, row),
                    attribution: words.of(1, row),
                };
                let mut name = words.of(2, row);
                let what = match (&of_kernels, of_transfers) {
                    (Some(columns), _) => What::Kernel(Box::new(columns.kernel(work, row))),
                    (None, Some((bytes, asynchronous))) => {
                        if name.as_deref() == Some("memcpy") {
                            name = words.of(3, row).or(name);
                        }
                        What::Transfer(Box::new(Transfer {
                            work,
                            bytes: bytes[row],
                            src_kind: words.of(4, row),
                            dst_kind: words.of(5, row),
                            asynchronous: asynchronous.value(row),
                        }))
                    }
                    (None, None) => continue,
                };
                let owner = Owner::Stream(member, devices[row], contexts[row], streams[row]);
                let end_ns = start_ns.saturating_add(duration_ns);
                items.push(Item { start_ns, end_ns, order: order(row), owner, name, what });
            }
        }
        Table::Marks => {
            words.learn(batch, &[2, 3, 4])?;
            let threads = uint32(batch, 1)?.values();
            for row in rows {
                let what = What::Mark { category: words.of(1, row), payload: words.of(2, row) };
                let (start_ns, owner) = (starts[row], Owner::Thread(member, threads[row]));
                let name = words.of(0, row);
                items.push(Item { start_ns, end_ns: start_ns, order: order(row), owner, name, what });
            }
        }
        Table::ApiCalls => {
            words.learn(batch, &[3])?;
            let (ends, threads) = (int64(batch, 1)?.values(), uint32(batch, 2)?.values());
            let (correlations, results) = (uint32(batch, 4)?.values(), uint32(batch, 5)?.values());
            for row in rows {
                let what = What::Call { correlation: correlations[row], return_value: results[row] };
                let (start_ns, end_ns) = (starts[row], ends[row].max(starts[row]));
                let owner = Owner::Calls(member, threads[row]);
                items.push(Item { start_ns, end_ns, order: order(row), owner, name: words.of(0, row), what });
            }
        }
        Table::Overheads => {
            words.learn(batch, &[3])?;
            let (ends, threads, correlations) =
                (int64(batch, 1)?.values(), uint32(batch, 2)?, uint32(batch, 4)?);
            for row in rows {
                let what = What::Overhead { correlation: value(correlations, row) };
                let (start_ns, end_ns) = (starts[row], ends[row].max(starts[row]));
                let owner = Owner::Overheads(member, value(threads, row));
                items.push(Item { start_ns, end_ns, order: order(row), owner, name: words.of(0, row), what });
            }
        }
        Table::Synchronizations => {
            words.learn(batch, &[4])?;
            let (ends, contexts, streams) =
                (int64(batch, 1)?.values(), uint32(batch, 2)?.values(), uint32(batch, 3)?);
            let correlations = uint32(batch, 5)?.values();
            for row in rows {
                let what = What::Synchronization { correlation: correlations[row] };
                let (start_ns, end_ns) = (starts[row], ends[row].max(starts[row]));
                let owner = Owner::Synchronizations(member, contexts[row], value(streams, row));
                items.push(Item { start_ns, end_ns, order: order(row), owner, name: words.of(0, row), what });
            }
        }
        Table::Samples => {
            words.learn(batch, &[4, 5])?;
            let (walls, orders, numbers) = (int64(batch, 1)?, int64(batch, 2)?, int64(batch, 3)?);
            let (clocks, power) = ([uint32(batch, 6)?, uint32(batch, 7)?], uint32(batch, 9)?);
            let (heat, held) = (int64(batch, 8)?, [int64(batch, 10)?, int64(batch, 11)?]);
            let mut last = None;
            for row in rows {
                // Counters are of no run, and the rows of one follow each other.
                let Some((order_index, number)) = value(orders, row).zip(value(numbers, row)) else {
                    continue;
                };
                if last.replace(order_index) == Some(order_index) {
                    continue;
                }
                let small = |column| value(column, row).map(i64::from);
                let what = What::Run(Box::new(Run {
                    order_index,
                    number,
                    throttle: words.of(1, row),
                    conditions: [
                        small(clocks[0]),
                        small(clocks[1]),
                        value(heat, row),
                        small(power),
                        value(held[0], row),
                        value(held[1], row),
                    ],
                }));
                let (start_ns, owner) = (starts[row], Owner::Runs(member));
                let end_ns = start_ns.saturating_add(value(walls, row).unwrap_or(0).max(0));
                items.push(Item { start_ns, end_ns, order: order(row), owner, name: words.of(0, row), what });
            }
        }
        _ => {
            words.learn(batch, &[2, 3])?;
            let (devices, bytes) = (uint32(batch, 1)?.values(), int64(batch, 4)?.values());
            for row in rows {
                let is_release = words.of(0, row).as_deref() == Some("release");
                let what = What::Memory(if is_release { bytes[row].saturating_neg() } else { bytes[row] });
                let kind = words.of(1, row);
                let owner =
                    Owner::Memory(member, devices[row], kind.as_deref().unwrap_or("other").to_owned());
                let start_ns = starts[row];
                items.push(Item { start_ns, end_ns: start_ns, order: order(row), owner, name: None, what });
            }
        }
    }
    Ok(left_out)
}

/// The columns that only launches have.
struct KernelColumns<'a> {
    sizes: [&'a [u32]; 6],
    cluster: [&'a arrow_array::UInt32Array; 3],
    registers: &'a [u16],
    memory: [&'a [u32]; 3],
}

impl<'a> KernelColumns<'a> {
    fn of(batch: &'a RecordBatch) -> Result<Self> {
        let values = |column| uint32(batch, column).map(|column| &column.values()[..]);
        Ok(Self {
            sizes: [values(13)?, values(14)?, values(15)?, values(16)?, values(17)?, values(18)?],
            cluster: [uint32(batch, 19)?, uint32(batch, 20)?, uint32(batch, 21)?],
            registers: uint16(batch, 22)?.values(),
            memory: [values(23)?, values(24)?, values(25)?],
        })
    }

    fn kernel(&self, work: Work, row: usize) -> Kernel {
        let [grid_x, grid_y, grid_z, block_x, block_y, block_z] = self.sizes.map(|column| column[row]);
        let [static_shared, dynamic_shared, local] = self.memory.map(|column| column[row]);
        let cluster = self.cluster[0].is_valid(row).then(|| self.cluster.map(|column| column.value(row)));
        Kernel {
            work,
            grid: [grid_x, grid_y, grid_z],
            block: [block_x, block_y, block_z],
            cluster,
            registers: self.registers[row],
            static_shared,
            dynamic_shared,
            local,
        }
    }
}

impl Item {
    /// How it came to the device, if it is on one.
    pub fn work(&self) -> Option<&Work> {
        match &self.what {
            What::Kernel(kernel) => Some(&kernel.work),
            What::Transfer(transfer) => Some(&transfer.work),
            _ => None,
        }
    }
}
