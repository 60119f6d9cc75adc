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

/// Writes events. Each is put together from [`event`](Self::event) on, and written by [`write`](Self::write).
///
/// An event is written field by field into memory that is used again: half of the time of drawing goes into this, and
/// structs of messages cost three times as much, most of it for finding out how long they will be.
pub(super) struct Packets<'a> {
    to: &'a mut dyn Write,
    time_ns: u64,
    /// The present `TrackEvent`.
    event: Vec<u8>,
    /// The present `DebugAnnotation`.
    argument: Vec<u8>,
    /// Texts that the present event is the first to use.
    fresh: InternedData,
    has_fresh: bool,
    categories: Interned,
    names: Interned,
    keys: Interned,
    values: Interned,
    sizes: FxHashMap<[u32; 3], Arc<str>>,
    bytes: Vec<u8>,
    pub written_bytes: u64,
}

/// A number in as few bytes as it needs.
fn varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80); // CAST: the lowest seven bits, and the mark that more follow
        value >>= 7;
    }
    bytes.push(value as u8); // CAST: below 0x80
}

fn number(bytes: &mut Vec<u8>, field: u32, value: u64) {
    varint(bytes, u64::from(field << 3));
    varint(bytes, value);
}

fn fixed64(bytes: &mut Vec<u8>, field: u32, value: u64) {
    varint(bytes, u64::from(field << 3 | 1));
    bytes.extend_from_slice(&value.to_le_bytes());
}

fn delimited(bytes: &mut Vec<u8>, field: u32, value: &[u8]) {
    varint(bytes, u64::from(field << 3 | 2));
    varint(bytes, value.len() as u64);
    bytes.extend_from_slice(value);
}

#[derive(Default)]
struct Interned {
    numbers: FxHashMap<Arc<str>, u64>,
    /// By where a text lies, which is quicker to look up.
    by_address: FxHashMap<(usize, usize), u64>,
    /// Keeps them where they lie.
    held: Vec<Arc<str>>,
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

    /// The same for a text that is shared, or never goes away.
    fn tell_held(
        &mut self,
        text: &str,
        hold: Option<&Arc<str>>,
        fresh: &mut Vec<InternedName>,
        has_fresh: &mut bool,
    ) -> Told {
        let address = (text.as_ptr() as usize, text.len());
        if let Some(number) = self.by_address.get(&address) {
            return Told::Number(*number);
        }
        let told = self.tell(text, fresh, has_fresh);
        if let Told::Number(number) = told
            && self.by_address.len() < MAX_TEXTS
        {
            self.by_address.insert(address, number);
            self.held.extend(hold.cloned());
        }
        told
    }
}

impl<'a> Packets<'a> {
    /// Begins a trace: `start_ns` is its first time, which is both the time of the trace and of the wall clock.
    pub fn begin(to: &'a mut dyn Write, start_ns: u64) -> io::Result<Self> {
        let mut packets = Self {
            to,
            time_ns: start_ns,
            event: Vec::new(),
            argument: Vec::new(),
            fresh: InternedData::default(),
            has_fresh: false,
            categories: Interned::default(),
            names: Interned::default(),
            keys: Interned::default(),
            values: Interned::default(),
            sizes: FxHashMap::default(),
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
    pub fn event(&mut self, kind: u64, time_ns: u64, track: u64) {
        self.time_ns = time_ns;
        self.event.clear();
        number(&mut self.event, track_event::TYPE, kind);
        number(&mut self.event, track_event::TRACK_UUID, track);
    }

    pub fn named(&mut self, category: &'static str, name: &str, hold: Option<&Arc<str>>) {
        let fresh = &mut self.fresh;
        let told =
            self.categories.tell_held(category, None, &mut fresh.event_categories, &mut self.has_fresh);
        if let Told::Number(told) = told {
            number(&mut self.event, track_event::CATEGORY_IIDS, told);
        }
        let told = match hold {
            Some(_) => self.names.tell_held(name, hold, &mut fresh.event_names, &mut self.has_fresh),
            None => self.names.tell(name, &mut fresh.event_names, &mut self.has_fresh),
        };
        match told {
            Told::Number(told) => number(&mut self.event, track_event::NAME_IID, told),
            Told::Text(text) => delimited(&mut self.event, track_event::NAME, text.as_bytes()),
        }
    }

    pub fn value(&mut self, value: i64) {
        number(&mut self.event, track_event::COUNTER_VALUE, value.cast_unsigned());
    }

    pub fn flow_from(&mut self, flow: u64) {
        fixed64(&mut self.event, track_event::FLOW_IDS, flow);
    }

    pub fn flow_to(&mut self, flow: u64) {
        fixed64(&mut self.event, track_event::TERMINATING_FLOW_IDS, flow);
    }

    /// Adds an argument, whose value the closure writes.
    fn argument(&mut self, key: &'static str, value: impl FnOnce(&mut Vec<u8>)) {
        let fresh = &mut self.fresh.debug_annotation_names;
        let told = self.keys.tell_held(key, None, fresh, &mut self.has_fresh);
        self.argument.clear();
        match told {
            Told::Number(told) => number(&mut self.argument, debug_annotation::NAME_IID, told),
            Told::Text(text) => delimited(&mut self.argument, debug_annotation::NAME, text.as_bytes()),
        }
        value(&mut self.argument);
        delimited(&mut self.event, track_event::DEBUG_ANNOTATIONS, &self.argument);
    }

    pub fn uint(&mut self, key: &'static str, value: u64) {
        self.argument(key, |argument| number(argument, debug_annotation::UINT_VALUE, value));
    }

    pub fn int(&mut self, key: &'static str, value: i64) {
        self.argument(key, |argument| number(argument, debug_annotation::INT_VALUE, value.cast_unsigned()));
    }

    pub fn double(&mut self, key: &'static str, value: f64) {
        self.argument(key, |argument| fixed64(argument, debug_annotation::DOUBLE_VALUE, value.to_bits()));
    }

    pub fn bool(&mut self, key: &'static str, value: bool) {
        self.argument(key, |argument| number(argument, debug_annotation::BOOL_VALUE, value.into()));
    }

    /// A text that repeats.
    pub fn word(&mut self, key: &'static str, value: &Arc<str>) {
        let fresh = &mut self.fresh.debug_annotation_string_values;
        let told = self.values.tell_held(value, Some(value), fresh, &mut self.has_fresh);
        self.argument(key, |argument| match told {
            Told::Number(told) => number(argument, debug_annotation::STRING_VALUE_IID, told),
            Told::Text(text) => delimited(argument, debug_annotation::STRING_VALUE, text.as_bytes()),
        });
    }

    /// A size in three dimensions: `128 x 1 x 1`.
    pub fn size(&mut self, key: &'static str, size: [u32; 3]) {
        let [x, y, z] = size;
        if self.sizes.len() >= MAX_TEXTS {
            self.sizes.clear();
        }
        let text = self.sizes.entry(size).or_insert_with(|| format!("{x} x {y} x {z}").into());
        let text = Arc::clone(text);
        self.word(key, &text);
    }

    /// A text that does not.
    pub fn text(&mut self, key: &'static str, value: &str) {
        self.argument(key, |argument| delimited(argument, debug_annotation::STRING_VALUE, value.as_bytes()));
    }

    /// An argument that holds others.
    pub fn object(&mut self, key: &'static str, values: &serde_json::Map<String, Value>) {
        let mut entries = Vec::with_capacity(16 * values.len());
        let mut entry = Vec::with_capacity(16);
        for (name, value) in values {
            entry.clear();
            match self.keys.tell(name, &mut self.fresh.debug_annotation_names, &mut self.has_fresh) {
                Told::Number(told) => number(&mut entry, debug_annotation::NAME_IID, told),
                Told::Text(text) => delimited(&mut entry, debug_annotation::NAME, text.as_bytes()),
            }
            let text = |entry: &mut Vec<u8>, text: &str| {
                delimited(entry, debug_annotation::STRING_VALUE, text.as_bytes());
            };
            match value {
                Value::Bool(value) => number(&mut entry, debug_annotation::BOOL_VALUE, (*value).into()),
                Value::Number(value) => match (value.as_u64(), value.as_i64(), value.as_f64()) {
                    (Some(value), ..) => number(&mut entry, debug_annotation::UINT_VALUE, value),
                    (_, Some(value), _) => {
                        number(&mut entry, debug_annotation::INT_VALUE, value.cast_unsigned());
                    }
                    (.., Some(value)) => fixed64(&mut entry, debug_annotation::DOUBLE_VALUE, value.to_bits()),
                    _ => text(&mut entry, &value.to_string()),
                },
                Value::String(value) => text(&mut entry, value),
                other => text(&mut entry, &other.to_string()),
            }
            delimited(&mut entries, debug_annotation::DICT_ENTRIES, &entry);
        }
        self.argument(key, |argument| argument.extend_from_slice(&entries));
    }

    /// Writes the event.
    pub fn write(&mut self) -> io::Result<()> {
        self.bytes.clear();
        number(&mut self.bytes, trace_packet::TIMESTAMP, self.time_ns);
        number(&mut self.bytes, trace_packet::SEQUENCE_ID, SEQUENCE.into());
        delimited(&mut self.bytes, trace_packet::TRACK_EVENT, &self.event);
        number(&mut self.bytes, trace_packet::SEQUENCE_FLAGS, NEEDS_INCREMENTAL_STATE.into());
        if self.has_fresh {
            delimited(&mut self.bytes, trace_packet::INTERNED_DATA, &self.fresh.encode_to_vec());
            self.fresh = InternedData::default();
            self.has_fresh = false;
        }
        // The head of a packet, into memory that is free now.
        self.argument.clear();
        self.argument.push(PACKET);
        varint(&mut self.argument, self.bytes.len() as u64);
        self.written_bytes += (self.argument.len() + self.bytes.len()) as u64;
        self.to.write_all(&self.argument)?;
        self.to.write_all(&self.bytes)
    }
}
