//! Tracks: who is drawn where.

use std::io;

use rustc_hash::FxHashMap;

use super::items::CONDITIONS;
use super::packets::Packets;
use super::proto::{CounterDescriptor, ProcessDescriptor, SIZE_BYTES, ThreadDescriptor, TrackDescriptor};
use crate::table::collection::Collection;

/// What a track is of. The dataset comes first.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Owner {
    Process(usize),
    Device(usize, u32),
    /// Device, context, stream.
    Stream(usize, u32, u32, u32),
    Thread(usize, u32),
    ProcessRanges(usize),
    Calls(usize, u32),
    Overheads(usize, Option<u32>),
    /// Context, stream.
    Synchronizations(usize, u32, Option<u32>),
    /// Device, kind of memory.
    Memory(usize, u32, String),
    Runs(usize),
    /// One of [`CONDITIONS`].
    Condition(usize, usize),
}

impl Owner {
    /// The dataset.
    pub fn member(&self) -> usize {
        match self {
            Self::Process(member)
            | Self::Device(member, _)
            | Self::Stream(member, ..)
            | Self::Thread(member, _)
            | Self::ProcessRanges(member)
            | Self::Calls(member, _)
            | Self::Overheads(member, _)
            | Self::Synchronizations(member, ..)
            | Self::Memory(member, ..)
            | Self::Runs(member)
            | Self::Condition(member, _) => *member,
        }
    }
}

/// Slices of one owner. Where they overlap and are not nested, they need several tracks: a track is a stack. Viewers
/// draw tracks of one name below each other.
#[derive(Default)]
struct Lanes {
    lanes: Vec<Lane>,
}

struct Lane {
    track: u64,
    /// Ends of the slices that are open.
    open: Vec<i64>,
}

impl Lane {
    /// Whether a slice can be put on top. Slices come in the order of their starts, the longer first.
    fn takes(&mut self, start_ns: i64, end_ns: i64, nested: bool) -> bool {
        while self.open.last().is_some_and(|end| *end <= start_ns) {
            self.open.pop();
        }
        match self.open.last() {
            None => true,
            Some(end) => nested && end_ns <= *end,
        }
    }
}

/// All tracks. They are described when they are first used.
pub(super) struct Tracks<'a> {
    collection: &'a Collection,
    pids: Vec<i32>,
    lanes: FxHashMap<Owner, Lanes>,
    next: u64,
}

impl<'a> Tracks<'a> {
    pub fn new(collection: &'a Collection) -> Self {
        // Two datasets may have one id: of processes on two machines, or one after the other.
        let mut pids: Vec<i32> = Vec::new();
        for member in collection.members() {
            let told = member.facts.get("process.id").and_then(|id| id.parse().ok());
            let mut pid = told.filter(|pid| *pid > 0).unwrap_or(1);
            while pids.contains(&pid) {
                pid += 1;
            }
            pids.push(pid);
        }
        Self { collection, pids, lanes: FxHashMap::default(), next: 1 }
    }

    /// The track of what does not take time.
    pub fn track(&mut self, owner: &Owner, packets: &mut Packets<'_>) -> io::Result<u64> {
        if let Some(lane) = self.lanes.get(owner).and_then(|lanes| lanes.lanes.first()) {
            return Ok(lane.track);
        }
        let track = self.describe(owner, true, packets)?;
        self.lanes.entry(owner.clone()).or_default().lanes.push(Lane { track, open: Vec::new() });
        Ok(track)
    }

    /// The track of a slice. Slices of an owner come in the order of their starts, the longer first.
    pub fn slice(
        &mut self,
        owner: &Owner,
        (start_ns, end_ns): (i64, i64),
        nested: bool,
        packets: &mut Packets<'_>,
    ) -> io::Result<u64> {
        if !self.lanes.contains_key(owner) {
            self.track(owner, packets)?;
        }
        let free = self.lanes.get_mut(owner).and_then(|lanes| {
            let lane = lanes
                .lanes
                .iter_mut()
                .find_map(|lane| lane.takes(start_ns, end_ns, nested).then_some(lane))?;
            lane.open.push(end_ns);
            Some(lane.track)
        });
        if let Some(track) = free {
            return Ok(track);
        }
        let track = self.describe(owner, false, packets)?;
        let lane = Lane { track, open: vec![end_ns] };
        self.lanes.entry(owner.clone()).or_default().lanes.push(lane);
        Ok(track)
    }

    fn describe(&mut self, owner: &Owner, first: bool, packets: &mut Packets<'_>) -> io::Result<u64> {
        let mut track = TrackDescriptor::default();
        match owner {
            Owner::Process(member) => {
                let found = &self.collection.members()[*member];
                let command = found.facts.get("process.command").cloned().unwrap_or_default();
                let program = command.split(' ').next().unwrap_or_default();
                let name = program.rsplit('/').next().unwrap_or_default();
                let name = if name.is_empty() { found.path.display().to_string() } else { name.to_owned() };
                track.process = Some(ProcessDescriptor {
                    pid: Some(self.pids[*member]),
                    process_name: Some(name),
                    cmdline: if command.is_empty() { Vec::new() } else { vec![command] },
                });
            }
            Owner::Thread(member, tid) => {
                self.track(&Owner::Process(*member), packets)?;
                let name = self.collection.members()[*member].facts.get(&format!("thread.{tid}.name"));
                if first {
                    track.thread = Some(ThreadDescriptor {
                        pid: Some(self.pids[*member]),
                        tid: Some((*tid).into()),
                        thread_name: name.cloned(),
                    });
                } else {
                    track.parent_uuid = Some(self.track(owner, packets)?);
                    track.name = Some("overlapping ranges".to_owned());
                }
            }
            Owner::Device(member, device) => {
                track.parent_uuid = Some(self.track(&Owner::Process(*member), packets)?);
                let gpu = self.collection.members()[*member].device(*device).0;
                let gpu = gpu.map(|gpu| format!(": {gpu}")).unwrap_or_default();
                track.name = Some(format!("device {device}{gpu}"));
            }
            Owner::Stream(member, device, context, stream) => {
                track.parent_uuid = Some(self.track(&Owner::Device(*member, *device), packets)?);
                track.name = Some(match context {
                    1 => format!("stream {stream}"),
                    context => format!("stream {stream} of context {context}"),
                });
            }
            Owner::ProcessRanges(member) => {
                track.parent_uuid = Some(self.track(&Owner::Process(*member), packets)?);
                track.name = Some("process-wide ranges".to_owned());
            }
            Owner::Calls(member, tid) => {
                track.parent_uuid = Some(self.track(&Owner::Thread(*member, *tid), packets)?);
                track.name = Some("CUDA calls".to_owned());
            }
            Owner::Overheads(member, tid) => {
                let parent = tid.map_or(Owner::Process(*member), |tid| Owner::Thread(*member, tid));
                track.parent_uuid = Some(self.track(&parent, packets)?);
                track.name = Some("profiling overhead".to_owned());
            }
            Owner::Synchronizations(member, context, stream) => {
                track.parent_uuid = Some(self.track(&Owner::Process(*member), packets)?);
                let of = stream.map_or(format!("context {context}"), |stream| format!("stream {stream}"));
                track.name = Some(format!("synchronizations of {of}"));
            }
            Owner::Memory(member, device, kind) => {
                track.parent_uuid = Some(self.track(&Owner::Device(*member, *device), packets)?);
                track.name = Some(format!("{kind} memory allocated since the start"));
                track.counter = Some(CounterDescriptor { unit: Some(SIZE_BYTES), unit_name: None });
            }
            Owner::Runs(member) => {
                track.parent_uuid = Some(self.track(&Owner::Process(*member), packets)?);
                track.name = Some("runs".to_owned());
            }
            Owner::Condition(member, condition) => {
                track.parent_uuid = Some(self.track(&Owner::Process(*member), packets)?);
                let (_, name, unit) = CONDITIONS[*condition];
                track.name = Some(name.to_owned());
                track.counter = Some(CounterDescriptor { unit: None, unit_name: Some(unit.to_owned()) });
            }
        }
        let uuid = self.next;
        self.next += 1;
        track.uuid = Some(uuid);
        packets.track(track)?;
        Ok(uuid)
    }
}
