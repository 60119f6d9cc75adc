//! Packets, one after the other, with texts that are written once.

use std::io::{self, Write};
use std::sync::Arc;

use prost::Message;
use rustc_hash::FxHashMap;
use serde_json::Value;

use super::proto::*;

/// Distinct texts of a kind that are written once; later ones are written each time, so that memory stays bounded.
const MAX_TEXTS: usize = 200_000;

/// What one writer of packets is called; there is only this.
const SEQUENCE: u32 = 1;

/// Writes events. Each is described in [`event`](Self::event) and written by [`write`](Self::write), with the memory of
/// the one before.
pub(super) struct Packets<'a> {
    to: &'a mut dyn Write,
    packet: TracePacket,
    /// Texts that the present event is the first to use.
    fresh: InternedData,
    has_fresh: bool,
    categories: Interned,
    names: Interned,
    keys: Interned,
    values: Interned,
    bytes: Vec<u8>,
    pub written_bytes: u64,
}

#[derive(Default)]
struct Interned {
    numbers: FxHashMap<Arc<str>, u64>,
}

/// A text as it is written: a number, or itself.
enum Told {
    Number(u64),
    Text(String),
}

impl Interned {
    fn tell(&mut self, text: &str, fresh: &mut Vec<InternedName>, has_fresh: &mut bool) -> Told {
        if let Some(number) = self.numbers.get(text) {
            return Told::Number(*number);
        }
        if self.numbers.len() >= MAX_TEXTS {
            return Told::Text(text.to_owned());
        }
        let number = self.numbers.len() as u64 + 1;
        self.numbers.insert(text.into(), number);
        fresh.push(InternedName { iid: Some(number), name: Some(text.to_owned()) });
        *has_fresh = true;
        Told::Number(number)
    }
}

impl<'a> Packets<'a> {
    /// Begins a trace: `start_ns` is its first time, which is both the time of the trace and of the wall clock.
    pub fn begin(to: &'a mut dyn Write, start_ns: u64) -> io::Result<Self> {
        let mut packets = Self {
            to,
            packet: TracePacket::default(),
            fresh: InternedData::default(),
            has_fresh: false,
            categories: Interned::default(),
            names: Interned::default(),
            keys: Interned::default(),
            values: Interned::default(),
            bytes: Vec::new(),
            written_bytes: 0,
        };
        let clock = |clock_id| Clock { clock_id: Some(clock_id), timestamp: Some(start_ns) };
        let snapshot = TracePacket {
            clock_snapshot: Some(ClockSnapshot { clocks: vec![clock(BOOTTIME), clock(REALTIME)] }),
            trusted_packet_sequence_id: Some(SEQUENCE),
            sequence_flags: Some(INCREMENTAL_STATE_CLEARED),
            ..TracePacket::default()
        };
        packets.put(&snapshot)?;
        packets.packet.trusted_packet_sequence_id = Some(SEQUENCE);
        packets.packet.sequence_flags = Some(NEEDS_INCREMENTAL_STATE);
        Ok(packets)
    }

    fn put(&mut self, packet: &TracePacket) -> io::Result<()> {
        self.bytes.clear();
        self.bytes.push(PACKET);
        // A Vec grows.
        packet.encode_length_delimited(&mut self.bytes).map_err(io::Error::other)?;
        self.written_bytes += self.bytes.len() as u64;
        self.to.write_all(&self.bytes)
    }

    /// Describes a track.
    pub fn track(&mut self, track: TrackDescriptor) -> io::Result<()> {
        let packet = TracePacket {
            trusted_packet_sequence_id: Some(SEQUENCE),
            track_descriptor: Some(track),
            ..TracePacket::default()
        };
        self.put(&packet)
    }

    /// Begins an event at a time on a track.
    pub fn event(&mut self, kind: i32, time_ns: u64, track: u64) {
        self.packet.timestamp = Some(time_ns);
        let event = self.packet.track_event.get_or_insert_with(TrackEvent::default);
        event.category_iids.clear();
        event.debug_annotations.clear();
        event.flow_ids.clear();
        event.terminating_flow_ids.clear();
        (event.r#type, event.track_uuid) = (Some(kind), Some(track));
        (event.name_iid, event.name, event.counter_value) = (None, None, None);
    }

    fn present(&mut self) -> &mut TrackEvent {
        self.packet.track_event.get_or_insert_with(TrackEvent::default)
    }

    pub fn named(&mut self, category: &str, name: &str) {
        let fresh = &mut self.fresh;
        let told = self.categories.tell(category, &mut fresh.event_categories, &mut self.has_fresh);
        let name = self.names.tell(name, &mut fresh.event_names, &mut self.has_fresh);
        let event = self.present();
        if let Told::Number(number) = told {
            event.category_iids.push(number);
        }
        match name {
            Told::Number(number) => event.name_iid = Some(number),
            Told::Text(text) => event.name = Some(text),
        }
    }

    pub fn value(&mut self, value: i64) {
        self.present().counter_value = Some(value);
    }

    pub fn flow_from(&mut self, flow: u64) {
        self.present().flow_ids.push(flow);
    }

    pub fn flow_to(&mut self, flow: u64) {
        self.present().terminating_flow_ids.push(flow);
    }

    fn argument(&mut self, key: &str) -> &mut DebugAnnotation {
        let told = self.keys.tell(key, &mut self.fresh.debug_annotation_names, &mut self.has_fresh);
        let mut argument = DebugAnnotation::default();
        match told {
            Told::Number(number) => argument.name_iid = Some(number),
            Told::Text(text) => argument.name = Some(text),
        }
        let arguments = &mut self.present().debug_annotations;
        arguments.push(argument);
        let last = arguments.len() - 1;
        &mut arguments[last]
    }

    pub fn uint(&mut self, key: &str, value: u64) {
        self.argument(key).uint_value = Some(value);
    }

    pub fn int(&mut self, key: &str, value: i64) {
        self.argument(key).int_value = Some(value);
    }

    pub fn double(&mut self, key: &str, value: f64) {
        self.argument(key).double_value = Some(value);
    }

    pub fn bool(&mut self, key: &str, value: bool) {
        self.argument(key).bool_value = Some(value);
    }

    /// A text that repeats.
    pub fn word(&mut self, key: &str, value: &str) {
        let fresh = &mut self.fresh.debug_annotation_string_values;
        let told = self.values.tell(value, fresh, &mut self.has_fresh);
        let argument = self.argument(key);
        match told {
            Told::Number(number) => argument.string_value_iid = Some(number),
            Told::Text(text) => argument.string_value = Some(text),
        }
    }

    /// A text that does not.
    pub fn text(&mut self, key: &str, value: &str) {
        self.argument(key).string_value = Some(value.to_owned());
    }

    /// An argument that holds others.
    pub fn object(&mut self, key: &str, values: &serde_json::Map<String, Value>) {
        let mut entries = Vec::with_capacity(values.len());
        for (name, value) in values {
            let mut entry = DebugAnnotation::default();
            let told = self.keys.tell(name, &mut self.fresh.debug_annotation_names, &mut self.has_fresh);
            match told {
                Told::Number(number) => entry.name_iid = Some(number),
                Told::Text(text) => entry.name = Some(text),
            }
            match value {
                Value::Bool(value) => entry.bool_value = Some(*value),
                Value::Number(number) => match (number.as_u64(), number.as_i64()) {
                    (Some(value), _) => entry.uint_value = Some(value),
                    (None, Some(value)) => entry.int_value = Some(value),
                    (None, None) => entry.double_value = number.as_f64(),
                },
                Value::String(value) => entry.string_value = Some(value.clone()),
                other => entry.string_value = Some(other.to_string()),
            }
            entries.push(entry);
        }
        self.argument(key).dict_entries = entries;
    }

    /// Writes the event.
    pub fn write(&mut self) -> io::Result<()> {
        if self.has_fresh {
            self.packet.interned_data = Some(std::mem::take(&mut self.fresh));
        }
        let packet = std::mem::take(&mut self.packet);
        let written = self.put(&packet);
        self.packet = packet;
        if self.has_fresh {
            self.packet.interned_data = None;
            self.has_fresh = false;
        }
        written
    }
}
