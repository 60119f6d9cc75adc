//! Datasets as traces for timeline viewers.

mod items;
mod packets;
mod proto;
mod tracks;
mod windows;

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use rustc_hash::FxHashMap;

use self::items::{Item, Kernel, Range, Run, Text, Transfer, What, Work};
use self::packets::Packets;
use self::proto::{COUNTER, INSTANT, SLICE_BEGIN, SLICE_END};
use self::tracks::{Owner, Tracks};
use self::windows::Windows;
use super::filter::Filter;
use crate::error::{Error, ErrorKind};
use crate::table::collection::{Collection, Progress};

/// Why a trace is not whole.
#[derive(Debug)]
#[non_exhaustive]
pub enum TraceError {
    /// A file could not be read; it is named.
    Read(Error),
    /// The trace could not be written.
    Write(io::Error),
}

impl std::fmt::Display for TraceError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Read(error) => error.fmt(f),
            Self::Write(error) => write!(f, "cannot write the trace: {error}"),
        }
    }
}

impl std::error::Error for TraceError {}

impl From<Error> for TraceError {
    fn from(error: Error) -> Self {
        Self::Read(error)
    }
}

impl From<io::Error> for TraceError {
    fn from(error: io::Error) -> Self {
        Self::Write(error)
    }
}

/// What a trace holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Traced {
    /// Kernels, transfers, ranges, calls, overheads, synchronizations and runs of a measurement.
    pub slices: u64,
    /// Launching calls and marks.
    pub instants: u64,
    /// Arrows from a launching call to a kernel or transfer.
    pub flows: u64,
    /// Values of counters.
    pub counter_values: u64,
    /// Rows that are not in it: their times are not valid.
    pub left_out: u64,
    /// Bytes that were written.
    pub bytes: u64,
}

impl Collection {
    /// Writes a trace in Perfetto's protobuf format, for <https://ui.perfetto.dev> and its `trace_processor`.
    ///
    /// - Each process has its threads with their ranges, launching calls and marks, its devices with their streams,
    ///   and a track of process-wide ranges. Where slices of a track overlap and are not nested, there are several
    ///   tracks of the same name.
    /// - A kernel or transfer has an arrow from the call that launched it, and the arguments of its row.
    /// - Calls, synchronizations, overheads and allocations are drawn where they were recorded: allocations as a counter
    ///   of the bytes that were allocated and not released since the start.
    /// - The runs of a measurement have a track, and the clocks, temperature, power and throttling that its `samples` tell of
    ///   each are counters, from the run's start until the next run's.
    /// - Times are those of the tables: nanoseconds since the Unix epoch.
    ///
    /// The same files give the same bytes. Memory does not grow with the datasets, but for distinct texts; rows are read
    /// in windows of time, each row group about twice, on a thread of its own.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let recording = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/recordings/quickstart.cuprofrec");
    /// # let folder = tempfile::tempdir()?;
    /// # let output = folder.path().join("run.cuprof");
    /// # cuprof::Replay::open(recording)?.output(&output).run()?;
    /// use cuprof::analysis::{Collection, Filter};
    ///
    /// let mut file = std::fs::File::create(folder.path().join("run.pftrace"))?;
    /// let collection = Collection::open([&output])?;
    /// let traced = collection.write_perfetto(&Filter::default(), &mut file, &|_, _| {})?;
    /// assert_eq!(traced.flows, 120 + 103);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`TraceError`]; what was written until then is no whole trace.
    pub fn write_perfetto(
        &self,
        filter: &Filter,
        to: &mut dyn Write,
        progress: Progress<'_>,
    ) -> Result<Traced, TraceError> {
        let mut windows = Windows::new(self, filter)?;
        let start_ns = u64::try_from(windows.start_ns).unwrap_or(0);
        let mut drawing = Drawing {
            packets: Packets::begin(to, start_ns)?,
            tracks: Tracks::new(self),
            traced: Traced::default(),
            allocated: FxHashMap::default(),
            last_runs: FxHashMap::default(),
            next_flow: 1,
        };
        // One window is written while the next is read.
        let left_out = std::thread::scope(|scope| -> Result<u64, TraceError> {
            let (sender, receiver) = sync_channel(0);
            let reading = scope.spawn(move || {
                while let Some(window) = windows.next(progress) {
                    // Nobody wants it where writing failed.
                    if sender.send(window).is_err() {
                        break;
                    }
                }
                windows.left_out
            });
            for window in receiver {
                drawing.window(window?)?;
            }
            let panicked = |_| Error::new(ErrorKind::Call, "a reading thread panicked").into();
            reading.join().map_err(panicked)
        })?;
        to_end(drawing, left_out)
    }
}

fn to_end(drawing: Drawing<'_>, left_out: u64) -> Result<Traced, TraceError> {
    let bytes = drawing.packets.written_bytes;
    let left_out = drawing.traced.left_out + left_out;
    Ok(Traced { left_out, bytes, ..drawing.traced })
}

struct Drawing<'a> {
    packets: Packets<'a>,
    tracks: Tracks<'a>,
    traced: Traced,
    /// By counter track.
    allocated: FxHashMap<u64, i64>,
    /// The run of each dataset that was drawn last.
    last_runs: FxHashMap<usize, i64>,
    next_flow: u64,
}

/// A launching call (dataset, thread, time, correlation id) and an arrow from it. A launched graph is one call.
type Arrow = ((usize, u32, u64, u32), u64);

impl Drawing<'_> {
    fn window(&mut self, items: Vec<Item>) -> io::Result<()> {
        let mut arrows: Vec<Arrow> = Vec::with_capacity(items.len());
        for item in items {
            // Times before 1970 are no times of this clock.
            let (Ok(start), Ok(end)) = (u64::try_from(item.start_ns), u64::try_from(item.end_ns)) else {
                self.traced.left_out += 1;
                continue;
            };
            match item.what {
                What::Mark { .. } => self.mark(&item, start)?,
                What::Memory(bytes) => self.memory(&item.owner, start, bytes)?,
                What::Run(ref run) => self.run(&item, run, start, end)?,
                _ => {
                    arrows.extend(self.slice(&item, start, end)?);
                }
            }
        }
        arrows.sort_unstable();
        for arrows in arrows.chunk_by(|(call, _), (other, _)| call == other) {
            let Some(((member, thread, time_ns, correlation), _)) = arrows.first().copied() else { continue };
            let track = self.tracks.track(&Owner::Thread(member, thread), &mut self.packets)?;
            self.packets.event(INSTANT, time_ns, track);
            self.packets.named("launch", "launch", None);
            self.packets.uint("correlation_id", correlation.into());
            arrows.iter().for_each(|(_, flow)| self.packets.flow_from(*flow));
            self.packets.write()?;
            self.traced.instants += 1;
        }
        Ok(())
    }

    fn mark(&mut self, item: &Item, start: u64) -> io::Result<()> {
        let track = self.tracks.track(&item.owner, &mut self.packets)?;
        self.packets.event(INSTANT, start, track);
        self.packets.named("mark", name(&item.name), item.name.as_ref());
        if let What::Mark { category, payload } = &item.what {
            word(&mut self.packets, "category", category);
            word(&mut self.packets, "payload", payload);
        }
        self.traced.instants += 1;
        self.packets.write()
    }

    fn memory(&mut self, owner: &Owner, start: u64, bytes: i64) -> io::Result<()> {
        let track = self.tracks.track(owner, &mut self.packets)?;
        let allocated = self.allocated.entry(track).or_default();
        *allocated = allocated.saturating_add(bytes);
        let allocated = *allocated;
        self.counter(track, start, allocated)
    }

    fn counter(&mut self, track: u64, start: u64, value: i64) -> io::Result<()> {
        self.packets.event(COUNTER, start, track);
        self.packets.value(value);
        self.traced.counter_values += 1;
        self.packets.write()
    }

    fn run(&mut self, item: &Item, run: &Run, start: u64, end: u64) -> io::Result<()> {
        let member = item.owner.member();
        if self.last_runs.insert(member, run.order_index) == Some(run.order_index) {
            return Ok(());
        }
        self.slice(item, start, end)?;
        for (condition, value) in run.conditions.iter().enumerate() {
            if let Some(value) = value {
                let track = self.tracks.track(&Owner::Condition(member, condition), &mut self.packets)?;
                self.counter(track, start, *value)?;
            }
        }
        Ok(())
    }

    /// Writes a slice. Returns the arrow that leads to it.
    fn slice(&mut self, item: &Item, start: u64, end: u64) -> io::Result<Option<Arrow>> {
        let times = (item.start_ns, item.end_ns);
        // What runs on a stream at the same time is not inside of each other.
        let nested = !matches!(item.owner, Owner::Stream(..));
        let track = self.tracks.slice(&item.owner, times, nested, &mut self.packets)?;
        let packets = &mut self.packets;
        packets.event(SLICE_BEGIN, start, track);
        let name = name(&item.name);
        match &item.what {
            What::Kernel(kernel) => {
                packets.named("kernel", name, item.name.as_ref());
                kernel_arguments(packets, kernel);
            }
            What::Transfer(transfer) => {
                packets.named("transfer", name, item.name.as_ref());
                transfer_arguments(packets, transfer, item.end_ns.saturating_sub(item.start_ns));
            }
            What::Range(range) => {
                packets.named("range", name, item.name.as_ref());
                range_arguments(packets, range);
            }
            What::Call { correlation, return_value } => {
                packets.named("call", name, item.name.as_ref());
                packets.uint("correlation_id", (*correlation).into());
                packets.uint("return_value", (*return_value).into());
            }
            What::Overhead { correlation } => {
                packets.named("overhead", name, item.name.as_ref());
                correlation.iter().for_each(|id| packets.uint("correlation_id", (*id).into()));
            }
            What::Synchronization { correlation } => {
                packets.named("synchronization", name, item.name.as_ref());
                packets.uint("correlation_id", (*correlation).into());
            }
            What::Run(run) => {
                packets.named("run", if name.is_empty() { "run" } else { name }, None);
                packets.int("run", run.number);
                word(packets, "throttle", &run.throttle);
            }
            What::Mark { .. } | What::Memory(_) => {}
        }
        let called = item.work().and_then(|work| Some((work, work.call?)));
        let flow = called.and_then(|(work, (time, thread))| {
            let call = (item.owner.member(), thread, u64::try_from(time).ok()?, work.correlation);
            Some((call, self.next_flow))
        });
        if let Some((_, flow)) = flow {
            packets.flow_to(flow);
            self.next_flow += 1;
            self.traced.flows += 1;
        }
        packets.write()?;
        packets.event(SLICE_END, end, track);
        packets.write()?;
        self.traced.slices += 1;
        Ok(flow)
    }
}

fn name(name: &Text) -> &str {
    name.as_deref().unwrap_or("?")
}

fn word(packets: &mut Packets<'_>, key: &'static str, text: &Text) {
    if let Some(text) = text {
        packets.word(key, text);
    }
}

fn work_arguments(packets: &mut Packets<'_>, work: &Work) {
    word(packets, "range_path", &work.range_path);
    packets.uint("correlation_id", work.correlation.into());
    word(packets, "attribution", &work.attribution);
    work.graph.iter().for_each(|graph| packets.uint("graph_id", (*graph).into()));
    work.graph_node.iter().for_each(|node| packets.int("graph_node_id", *node));
}

fn kernel_arguments(packets: &mut Packets<'_>, kernel: &Kernel) {
    packets.size("grid", kernel.grid);
    packets.size("block", kernel.block);
    kernel.cluster.iter().for_each(|cluster| packets.size("cluster", *cluster));
    packets.uint("registers_per_thread", kernel.registers.into());
    packets.uint("static_shared_memory_bytes", kernel.static_shared.into());
    packets.uint("dynamic_shared_memory_bytes", kernel.dynamic_shared.into());
    packets.uint("local_memory_per_thread_bytes", kernel.local.into());
    work_arguments(packets, &kernel.work);
}

fn transfer_arguments(packets: &mut Packets<'_>, transfer: &Transfer, duration_ns: i64) {
    packets.int("bytes", transfer.bytes);
    if duration_ns > 0 {
        // CAST: a ratio
        packets.double("bandwidth_bytes_per_s", transfer.bytes as f64 * 1e9 / duration_ns as f64);
    }
    word(packets, "src_kind", &transfer.src_kind);
    word(packets, "dst_kind", &transfer.dst_kind);
    packets.bool("asynchronous", transfer.asynchronous);
    work_arguments(packets, &transfer.work);
}

fn range_arguments(packets: &mut Packets<'_>, range: &Range) {
    word(packets, "kind", &range.kind);
    word(packets, "domain", &range.domain);
    word(packets, "category", &range.category);
    if let Some(payload) = &range.payload {
        packets.text("payload", payload);
    }
    packets.int("n_launches", range.launches);
    if range.launches > 0 {
        packets.int("gpu_sum_ns", range.gpu_sum_ns);
        range.gpu_span_ns.iter().for_each(|span| packets.int("gpu_span_ns", *span));
    }
    if !range.closed {
        packets.bool("closed", false);
    }
    let Some(args) = &range.args else { return };
    match serde_json::from_str(args) {
        Ok(serde_json::Value::Object(values)) => packets.object("args", &values),
        _ => packets.text("args", args),
    }
}

impl super::digest::Digest {
    /// Collapsed stacks, as `flamegraph.pl`, inferno and speedscope read them: the names of nested ranges and the kernel,
    /// joined by `;`, and nanoseconds of kernels, a line each, sorted. Process-wide ranges, which nest nothing, are not in it.
    #[must_use]
    pub fn to_collapsed(&self) -> String {
        let clean = |name: &str| -> String {
            name.chars().map(|c| if c == ';' || c.is_control() { ' ' } else { c }).collect()
        };
        let mut frames: FxHashMap<&Arc<str>, String> = FxHashMap::default();
        let mut open: Vec<String> = Vec::new();
        for range in self.ranges.iter().filter(|range| range.own_gpu_time_ns.is_some()) {
            open.truncate(range.depth);
            open.push(clean(&range.name));
            frames.insert(&range.path, open.join(";"));
        }
        let line = |((path, kernel), ns): (&(Option<Arc<str>>, Arc<str>), &i64)| {
            let stack = path.as_ref().and_then(|path| frames.get(path));
            let kernel = clean(kernel);
            stack.map_or_else(|| format!("{kernel} {ns}\n"), |stack| format!("{stack};{kernel} {ns}\n"))
        };
        let mut lines: Vec<String> = self.by_range_and_kernel.iter().map(line).collect();
        lines.sort();
        lines.concat()
    }
}
