//! From what was delivered to rows: the same for a live session and for a recording.
//!
//! The pipeline is pure apart from the sink that it writes rows to. It is fed in any order with events and
//! buffers, and ends with [`Pipeline::finish`].

use std::sync::Arc;

use rustc_hash::FxHashSet;

pub(crate) use super::delivered::{Buffer, Finished, Meanings, Start};
use super::internal::{Internal, Purpose};
use super::kernels::Kernels;
use super::marks::Marks;
use super::missing;
use super::profile::Tally;
use super::texts::{args_json, payload_text};
use super::warnings::WARNING;
use crate::attribute::{Attributor, Begin, Launch, Origin, Settled, Totals};
use crate::channel::{self, Event, Named, RangeKind};
use crate::cupti::calls::{Leads, LeadsTable};
use crate::losses::{Cause, Losses};
use crate::names::StringPool;
use crate::range::INTERNAL_KERNELS;
use crate::record::{self, Common, Decoder, Record};
use crate::table::rows::{
    ApiRow, Attribution, DeviceWork, EnvRow, InvalidReason, LaunchRow, MarkRow, MemoryRow, OverheadRow,
    RangeRow, RangeSetRow, SynchronizationRow, TransferRow,
};
use crate::table::writer::TableSink;
use crate::units::{Nanos, SymbolId, ThreadId};

/// Stamps further than this outside the session are not believed.
const PLAUSIBLE_NS: i64 = 3_600_000_000_000;

/// Clocks that differ by less than this are the same clock, read one after the other.
pub(super) const CLOCK_TOLERANCE_NS: u64 = 1_000_000;

/// The state of one session's worker.
pub(crate) struct Pipeline<S> {
    sink: S,
    start: Start,
    decoder: Decoder,
    leads: LeadsTable,
    attributor: Attributor,
    kernels: Kernels,
    strings: StringPool,
    marks: Marks,
    threads: FxHashSet<ThreadId>,
    losses: Losses,
    tally: Tally,
    /// What the crate launched itself.
    internal: Internal,
    /// What to add to host times so that they are on CUPTI's clock; 0 where both are the same clock.
    clock_shift_ns: i64,
    last_time: Nanos,
}

impl<S: TableSink> Pipeline<S> {
    pub fn new(start: Start, sink: S) -> Self {
        Self {
            sink,
            start,
            decoder: Decoder::new(start.version),
            leads: LeadsTable::new(),
            attributor: Attributor::new(start.time, start.epoch),
            kernels: Kernels::default(),
            strings: StringPool::default(),
            marks: Marks::default(),
            threads: FxHashSet::default(),
            losses: Losses::default(),
            tally: Tally::default(),
            internal: Internal::default(),
            clock_shift_ns: 0,
            last_time: start.time,
        }
    }

    /// Counts a loss that happened outside.
    pub fn loss(&mut self, cause: Cause, count: u64) {
        self.losses.add(cause, count);
    }

    /// A fact about the run.
    pub fn fact(&mut self, key: &str, value: &str) {
        self.sink.env(&EnvRow { key: key.to_owned(), value: value.to_owned() });
    }

    /// Both clocks at one moment.
    pub fn clock(&mut self, cupti_ns: i64, host: Nanos) {
        let shift = cupti_ns.saturating_sub(host.0);
        self.clock_shift_ns = if shift.unsigned_abs() < CLOCK_TOLERANCE_NS { 0 } else { shift };
    }

    /// A thread that events come from; its name is told once.
    pub fn thread(&mut self, thread: ThreadId, name: Option<&str>) {
        if self.threads.insert(thread)
            && let Some(name) = name
        {
            self.fact(&format!("thread.{}.name", thread.0), name);
        }
    }

    /// Events of one thread, as `channel::drain` hands them over.
    pub fn events(&mut self, thread: ThreadId, run: &[u8]) {
        for event in channel::decode(run) {
            match event {
                Ok(event) => self.event(thread, event),
                Err(_) => self.losses.add(Cause::EventsMalformed, 1),
            }
        }
    }

    fn event(&mut self, thread: ThreadId, event: Event<'_>) {
        match event {
            Event::Launch { correlation, range, epoch, cbid, symbol, is_recorded, time } => {
                self.tally.calls += 1;
                self.internal.forget(correlation);
                let leads = self.leads.of(cbid);
                let time = self.on_cupti_clock(time);
                self.attributor.launch(Launch {
                    correlation,
                    range,
                    epoch,
                    thread,
                    symbol,
                    time,
                    many: matches!(leads, Leads::ToMany | Leads::ToGraph),
                    graph: leads == Leads::ToGraph,
                    // Not so of copies: one of no bytes has no record.
                    due: is_recorded && leads == Leads::ToKernel,
                });
            }
            Event::LaunchFailed { correlation } => self.attributor.launch_failed(correlation),
            Event::UnseenCaptureEnded { time } => {
                let time = self.on_cupti_clock(time);
                self.attributor.may_be_captured_until(time);
            }
            Event::InternalLaunch { correlation, time } => {
                self.on_cupti_clock(time);
                self.internal.launched(correlation, thread);
            }
            Event::Begin {
                range,
                kind,
                parent,
                epoch,
                domain,
                category,
                color,
                payload,
                time,
                name,
                args,
            } => {
                let begin = Begin {
                    range,
                    kind,
                    parent,
                    name: self.text(name),
                    domain,
                    category,
                    color,
                    payload: payload_text(payload),
                    args: args_json(&args),
                    thread,
                    start_ns: self.on_cupti_clock(time).0,
                };
                self.attributor.begin(begin, epoch);
            }
            Event::End { range, epoch, time } => {
                let end = self.on_cupti_clock(time);
                self.attributor.end(range, epoch, end.0);
            }
            Event::Mark { range, domain, category, color, payload, time, name } => {
                let row = MarkRow {
                    time_ns: self.on_cupti_clock(time).0,
                    name: self.text(name),
                    domain: None,
                    category: None,
                    color,
                    payload: payload_text(payload),
                    thread,
                    range,
                };
                if let Some(row) = self.marks.add(row, domain, category) {
                    self.sink.mark(&row);
                }
            }
            Event::Unbalanced { process, .. } => {
                let cause = if process { Cause::UnbalancedEnd } else { Cause::UnbalancedPop };
                self.losses.add(cause, 1);
            }
            Event::Name { what, name } => self.name(what, name),
        }
    }

    fn on_cupti_clock(&mut self, host: Nanos) -> Nanos {
        let time = Nanos(host.0.saturating_add(self.clock_shift_ns));
        self.last_time = self.last_time.max(time);
        time
    }

    fn text(&mut self, bytes: &[u8]) -> Arc<str> {
        self.strings.intern(&String::from_utf8_lossy(bytes))
    }

    fn name(&mut self, what: Named, name: &[u8]) {
        if let Named::Symbol { symbol } = what {
            self.kernels.tell(symbol, name);
            return;
        }
        let name = self.text(name);
        match what {
            Named::Domain { domain } => self.marks.name_domain(domain, name),
            Named::Category { domain, category } => self.marks.name_category(domain, category, name),
            Named::Thread { tid } => self.fact(&format!("thread.{tid}.name"), &name),
            Named::Symbol { .. } => {} // above
        }
    }

    /// Begins a round for marks: writes those that have waited for one.
    fn advance_marks(&mut self) {
        self.marks.advance().iter().for_each(|row| self.sink.mark(row));
    }

    /// One activity buffer.
    pub fn buffer(&mut self, buffer: &Buffer<'_>, meanings: &impl Meanings) {
        self.attributor.now_is(buffer.received);
        if !buffer.complete {
            self.losses.add(Cause::BuffersDamaged, 1);
        }
        for offset in buffer.offsets {
            let record = self.decoder.decode(buffer.bytes, *offset);
            self.tally.records += 1;
            self.record(record, buffer.received, meanings);
        }
        self.settle();
    }

    /// Time has passed, although no buffer came.
    pub fn now_is(&mut self, now: Nanos) {
        self.attributor.now_is(now);
    }

    /// Writes the rows of ranges and marks that can no longer change. Called after each buffer, before which the events
    /// of all threads were taken.
    pub fn settle(&mut self) {
        self.attributor.advance();
        self.advance_marks();
        self.write_settled();
    }

    fn record(&mut self, record: Record, received: Nanos, meanings: &impl Meanings) {
        match record {
            Record::Kernel(kernel) if self.is_internal(&kernel.common, kernel.name, meanings) => {
                self.internal_work(&kernel.common, received, Purpose::of(meanings.string(kernel.name)));
            }
            Record::Fill(fill) if self.internal.thread_of(fill.common.correlation).is_some() => {
                self.internal_work(&fill.common, received, Purpose::CacheFlush);
            }
            Record::Api(api) if self.internal.thread_of(api.correlation).is_some() => {}
            Record::Kernel(kernel) => {
                let (work, symbol) = self.device_work(&kernel.common, received, Totals::kernel);
                let row = LaunchRow {
                    work,
                    kernel: self.kernels.name(symbol, kernel.name, meanings),
                    grid: kernel.grid,
                    block: kernel.block,
                    cluster: kernel.cluster,
                    registers_per_thread: kernel.registers_per_thread,
                    static_shared_memory_bytes: kernel.static_shared_memory,
                    dynamic_shared_memory_bytes: kernel.dynamic_shared_memory,
                    local_memory_per_thread_bytes: kernel.local_memory_per_thread,
                };
                self.tally.launches += 1;
                self.sink.launch(&row);
            }
            Record::Copy(copy) => {
                let copy_kind = self.strings.intern(&record::copy_kind(copy.kind.into()));
                let [src_kind, dst_kind] = [copy.src_kind, copy.dst_kind]
                    .map(|kind| self.strings.intern(&record::memory_kind(kind.into())));
                let row = self.transfer(&copy.common, received, |work| TransferRow {
                    work,
                    operation: if copy.peers.is_some() { "peer" } else { "memcpy" },
                    copy_kind: Some(copy_kind),
                    bytes: copy.bytes,
                    src_kind: Some(src_kind),
                    dst_kind: Some(dst_kind),
                    src_device: copy.peers.map(|(source, _)| source),
                    dst_device: copy.peers.map(|(_, destination)| destination),
                    asynchronous: copy.flags & 1 != 0,
                    value: None,
                });
                self.sink.transfer(&row);
            }
            Record::Fill(fill) => {
                let dst_kind = self.strings.intern(&record::memory_kind(fill.memory_kind.into()));
                let row = self.transfer(&fill.common, received, |work| TransferRow {
                    work,
                    operation: "memset",
                    copy_kind: None,
                    bytes: fill.bytes,
                    src_kind: None,
                    dst_kind: Some(dst_kind),
                    src_device: None,
                    dst_device: None,
                    asynchronous: fill.flags & 1 != 0,
                    value: Some(fill.value),
                });
                self.sink.transfer(&row);
            }
            Record::Overhead(overhead) => self.sink.overhead(&OverheadRow {
                kind: self.strings.intern(&record::overhead_kind(overhead.kind)),
                start_ns: stamp(overhead.start),
                end_ns: stamp(overhead.end),
                thread: overhead.thread.map(ThreadId),
                correlation: overhead.correlation,
            }),
            Record::Api(api) => {
                let name = meanings.call_name(api.kind, api.cbid);
                let name = name.unwrap_or_else(|| format!("cbid_{}", api.cbid));
                let row = ApiRow {
                    domain: record::api_kind(api.kind),
                    name: self.strings.intern(&name),
                    start_ns: stamp(api.start),
                    end_ns: stamp(api.end),
                    thread: ThreadId(api.thread),
                    correlation: api.correlation,
                    return_value: api.return_value,
                };
                self.sink.api_call(&row);
            }
            Record::Synchronization(synchronization) => {
                let row = SynchronizationRow {
                    kind: self.strings.intern(&record::synchronization_kind(synchronization.kind)),
                    start_ns: stamp(synchronization.start),
                    end_ns: stamp(synchronization.end),
                    correlation: synchronization.correlation,
                    context: synchronization.context,
                    stream: (synchronization.stream != u32::MAX).then_some(synchronization.stream),
                };
                self.sink.synchronization(&row);
            }
            Record::Memory(memory) => {
                let row = MemoryRow {
                    operation: self.strings.intern(&record::memory_operation(memory.operation)),
                    memory_kind: self.strings.intern(&record::memory_kind(memory.kind)),
                    address: memory.address,
                    bytes: memory.bytes,
                    time_ns: stamp(memory.time),
                    device: memory.device,
                    context: memory.context,
                    stream: (memory.stream != u32::MAX).then_some(memory.stream),
                    correlation: memory.correlation,
                    asynchronous: memory.asynchronous,
                };
                self.sink.memory_operation(&row);
            }
            Record::Unknown { .. } => self.losses.add(Cause::RecordsUnknown, 1),
            Record::Truncated { .. } => self.losses.add(Cause::RecordsTruncated, 1),
        }
    }

    fn transfer(
        &mut self,
        common: &Common,
        received: Nanos,
        row: impl FnOnce(DeviceWork) -> TransferRow,
    ) -> TransferRow {
        let (work, _no_kernel) = self.device_work(common, received, |_| Totals::transfer());
        self.tally.transfers += 1;
        row(work)
    }

    fn device_work(
        &mut self,
        common: &Common,
        received: Nanos,
        totals: impl FnOnce(Option<(i64, i64)>) -> Totals,
    ) -> (DeviceWork, Option<SymbolId>) {
        let invalid = self.invalid_reason(common, received);
        let (start_ns, end_ns) = (stamp(common.start), stamp(common.end));
        let in_graph = common.graph_node != 0;
        let valid_span = invalid.is_none().then_some((start_ns, end_ns));
        let origin = Origin {
            correlation: common.correlation,
            graph_node: in_graph,
            device_launched: common.device_launched,
            start_ns: if invalid.is_none() { start_ns.saturating_sub(self.clock_shift_ns) } else { 0 },
        };
        let link = self.attributor.attribute(origin, totals(valid_span));
        self.count(invalid, link.attribution);
        let work = DeviceWork {
            range: link.range,
            range_path: link.path,
            range_set: link.set.map(|epoch| epoch.0.into()),
            start_ns,
            end_ns,
            duration_ns: invalid.is_none().then(|| end_ns - start_ns),
            launch_lead_ns: link
                .time
                .filter(|_| invalid.is_none())
                .map(|time| start_ns.saturating_sub(time.0)),
            thread: link.thread,
            correlation: common.correlation,
            device: common.device,
            context: common.context,
            stream: common.stream,
            graph: in_graph.then_some(common.graph),
            graph_node: in_graph.then_some(common.graph_node),
            invalid,
            attribution: link.attribution,
        };
        (work, link.symbol)
    }

    /// Whether the crate launched this kernel. Its name tells where the event of the launch is missing, which is told
    /// from the program's launches only because those have an event, nearly always.
    fn is_internal(&self, common: &Common, name: u64, meanings: &impl Meanings) -> bool {
        self.internal.thread_of(common.correlation).is_some()
            || (!self.attributor.has_launch(common.correlation)
                && meanings.string(name).is_some_and(|name| name.starts_with(INTERNAL_KERNELS.as_bytes())))
    }

    /// A row of `overheads` for what the crate had the device do.
    fn internal_work(&mut self, common: &Common, received: Nanos, purpose: Purpose) {
        let invalid = self.invalid_reason(common, received);
        self.count(invalid, Attribution::NoRange);
        let (start_ns, end_ns) = (stamp(common.start), stamp(common.end));
        self.internal.ran(purpose, invalid.is_none().then_some((start_ns, end_ns)));
        self.sink.overhead(&OverheadRow {
            kind: self.strings.intern(purpose.as_str()),
            start_ns,
            end_ns,
            thread: self.internal.thread_of(common.correlation),
            correlation: Some(common.correlation),
        });
    }

    fn invalid_reason(&self, common: &Common, received: Nanos) -> Option<InvalidReason> {
        let (start, end) = (common.start, common.end);
        if start == 0 && end == 0 {
            return Some(InvalidReason::ZeroTimestamp);
        }
        // On CUPTI's clock, like the stamps.
        let earliest = self.start.time.0.saturating_add(self.clock_shift_ns).saturating_sub(PLAUSIBLE_NS);
        let latest = received.0.saturating_add(self.clock_shift_ns).saturating_add(PLAUSIBLE_NS);
        let plausible = |stamp| i64::try_from(stamp).is_ok_and(|stamp| earliest <= stamp && stamp <= latest);
        if !plausible(start) || !plausible(end) {
            Some(InvalidReason::OutOfRange)
        } else if end < start {
            Some(InvalidReason::EndBeforeStart)
        } else {
            None
        }
    }

    fn count(&mut self, invalid: Option<InvalidReason>, attribution: Attribution) {
        let cause = invalid.map(|reason| match reason {
            InvalidReason::ZeroTimestamp => Cause::RecordsZeroTimestamp,
            InvalidReason::EndBeforeStart => Cause::RecordsEndBeforeStart,
            InvalidReason::OutOfRange => Cause::RecordsOutOfRange,
        });
        if let Some(cause) = cause {
            self.losses.add(cause, 1);
        }
        let cause = match attribution {
            Attribution::Range | Attribution::NoRange | Attribution::DeviceLaunched => return,
            Attribution::LaunchedBeforeStart => Cause::LaunchedBeforeStart,
            Attribution::LaunchNotSeen => Cause::LaunchNotSeen,
            Attribution::LaunchEvicted => Cause::LaunchEvicted,
            Attribution::GraphUnmapped => Cause::GraphUnmapped,
        };
        self.losses.add(cause, 1);
    }

    fn write_settled(&mut self) {
        let (ranges, sets) = self.attributor.take_rows();
        self.write_ranges(ranges, sets);
    }

    /// The sets that became known, and the ranges that can no longer change.
    fn write_ranges(&mut self, ranges: Vec<Settled>, sets: Vec<RangeSetRow>) {
        for set in sets {
            self.sink.range_set(&set);
        }
        for Settled { begin, path, end_ns, closed, totals } in ranges {
            self.tally.ranges += 1;
            if !closed {
                self.losses.add(Cause::RangesOpenAtFinish, 1);
            }
            let row = RangeRow {
                range: begin.range,
                parent: begin.parent,
                path,
                domain: self.marks.domain(begin.domain),
                category: self.marks.category(begin.domain, begin.category),
                name: begin.name,
                color: begin.color,
                payload: begin.payload,
                args: begin.args,
                kind: match begin.kind {
                    RangeKind::Stack => "stack",
                    RangeKind::Process => "process",
                    RangeKind::Own => "own",
                },
                thread: begin.thread,
                start_ns: begin.start_ns,
                end_ns: end_ns.max(begin.start_ns),
                closed,
                n_launches: totals.launches,
                n_transfers: totals.transfers,
                gpu_sum_ns: totals.gpu_sum_ns,
                gpu_span_ns: totals.span.map(|(start, end)| end - start),
            };
            self.sink.range(&row);
        }
    }

    /// The sink, to let it finish parts by age.
    pub fn sink(&mut self) -> &mut S {
        &mut self.sink
    }

    /// Writes what is left. The losses do not yet contain what the sink itself loses when it is closed.
    pub fn finish(mut self, end: Nanos) -> Finished<S> {
        let end = self.on_cupti_clock(end);
        for _ in 0..Marks::ROUNDS {
            self.advance_marks();
        }
        let (ranges, sets, counts) = self.attributor.finish(end.0);
        self.write_ranges(ranges, sets);
        self.losses.add(Cause::RangeRowIncomplete, counts.range_row_incomplete);
        self.losses.add(Cause::RangeBeginLost, counts.range_begin_lost);
        self.losses.add(Cause::ProcessRangeEventLost, counts.process_range_event_lost);
        self.losses.add(Cause::ProcessRangeLeftOut, counts.process_range_left_out);
        self.fact("session.end_ns", &end.0.to_string());
        self.fact("session.calls_without_record", &counts.calls_without_record.to_string());
        if let Some(why) = self.tally.nothing_recorded().filter(|_| !missing::is_explained(&self.losses)) {
            self.fact(&format!("{WARNING}nothing_recorded"), &why);
        }
        let unexplained = missing::unexplained(counts.launches_without_record, &self.losses);
        self.losses.add(Cause::LaunchesWithoutRecord, unexplained);
        for (key, value) in self.internal.facts() {
            self.fact(key, &value);
        }
        let (launches, ranges) = self.attributor.peaks();
        self.fact("session.most_launches_held", &launches.to_string());
        self.fact("session.most_ranges_held", &ranges.to_string());
        Finished { sink: self.sink, losses: self.losses, tally: self.tally }
    }
}

/// A stamp as the tables have it; what does not fit is 0, and its row is flagged.
fn stamp(stamp: u64) -> i64 {
    i64::try_from(stamp).unwrap_or(0)
}
