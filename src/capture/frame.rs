//! The frames of a recording and their bytes.

use std::borrow::Cow;

use crate::units::{Nanos, ThreadId};

/// The name of an API call in the recording process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CallName {
    pub kind: u32,
    pub cbid: u32,
    pub name: String,
}

/// What the pointers and call numbers in one buffer meant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Strings {
    pub pointers: Vec<(u64, Vec<u8>)>,
    pub calls: Vec<CallName>,
}

/// One piece of a recording, in the order in which the worker got it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Frame<'a> {
    /// First: which library wrote the records, when the session started, the number that the set of process-wide
    /// ranges had then, and the facts that are in every file's metadata.
    Start { cupti_version: u32, time: Nanos, epoch: u32, facts: Vec<(String, String)> },
    /// A later fact for `env`.
    Fact { key: String, value: String },
    /// Events of one thread, whole records of its ring.
    Events { thread: ThreadId, name: Option<String>, bytes: Cow<'a, [u8]> },
    /// One activity buffer: its bytes, where records begin, and whether the walk over it ended at its end.
    Buffer { received: Nanos, bytes: Cow<'a, [u8]>, offsets: Vec<u32>, complete: bool, strings: Strings },
    /// Both clocks at one moment.
    Clock { cupti_ns: i64, host: Nanos },
    /// A loss that the worker was told of, by the name of its cause.
    Loss { cause: String, count: u64 },
    /// Last: the session ended in an orderly way.
    End { time: Nanos },
}

impl<'a> Frame<'a> {
    fn kind(&self) -> u8 {
        match self {
            Self::Start { .. } => 1,
            Self::Fact { .. } => 2,
            Self::Events { .. } => 3,
            Self::Buffer { .. } => 4,
            Self::Clock { .. } => 5,
            Self::Loss { .. } => 6,
            Self::End { .. } => 7,
        }
    }

    /// The kind, which the checksum thus covers too, and the contents.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.push(self.kind());
        match self {
            Self::Start { cupti_version, time, epoch, facts } => {
                put_u32(out, *cupti_version);
                put_i64(out, time.0);
                put_u32(out, *epoch);
                put_count(out, facts.len());
                for (key, value) in facts {
                    put_bytes(out, key.as_bytes());
                    put_bytes(out, value.as_bytes());
                }
            }
            Self::Fact { key, value } => {
                put_bytes(out, key.as_bytes());
                put_bytes(out, value.as_bytes());
            }
            Self::Events { thread, name, bytes } => {
                put_u32(out, thread.0);
                put_u32(out, u32::from(name.is_some()));
                put_bytes(out, name.as_deref().unwrap_or_default().as_bytes());
                put_bytes(out, bytes);
            }
            Self::Buffer { received, bytes, offsets, complete, strings } => {
                put_i64(out, received.0);
                put_u32(out, u32::from(*complete));
                put_bytes(out, bytes);
                put_count(out, offsets.len());
                offsets.iter().for_each(|offset| put_u32(out, *offset));
                put_count(out, strings.pointers.len());
                for (pointer, text) in &strings.pointers {
                    out.extend_from_slice(&pointer.to_le_bytes());
                    put_bytes(out, text);
                }
                put_count(out, strings.calls.len());
                for call in &strings.calls {
                    put_u32(out, call.kind);
                    put_u32(out, call.cbid);
                    put_bytes(out, call.name.as_bytes());
                }
            }
            Self::Clock { cupti_ns, host } => {
                put_i64(out, *cupti_ns);
                put_i64(out, host.0);
            }
            Self::Loss { cause, count } => {
                put_bytes(out, cause.as_bytes());
                out.extend_from_slice(&count.to_le_bytes());
            }
            Self::End { time } => put_i64(out, time.0),
        }
    }

    /// The frame of this kind with these bytes, the long ones borrowed; none if they do not make one.
    pub(crate) fn decode(bytes: &'a [u8]) -> Option<Self> {
        let (kind, bytes) = bytes.split_first()?;
        let mut input = Input(bytes);
        let frame = match kind {
            1 => Self::Start {
                cupti_version: input.u32()?,
                time: Nanos(input.i64()?),
                epoch: input.u32()?,
                facts: input.list(8, |input| Some((input.text()?, input.text()?)))?,
            },
            2 => Self::Fact { key: input.text()?, value: input.text()? },
            3 => {
                let thread = ThreadId(input.u32()?);
                let named = input.u32()? != 0;
                let name = input.text()?;
                Self::Events { thread, name: named.then_some(name), bytes: input.bytes()?.into() }
            }
            4 => Self::Buffer {
                received: Nanos(input.i64()?),
                complete: input.u32()? != 0,
                bytes: input.bytes()?.into(),
                offsets: input.list(4, Input::u32)?,
                strings: Strings {
                    pointers: input.list(12, |input| Some((input.u64()?, input.bytes()?.to_vec())))?,
                    calls: input.list(12, |input| {
                        Some(CallName { kind: input.u32()?, cbid: input.u32()?, name: input.text()? })
                    })?,
                },
            },
            5 => Self::Clock { cupti_ns: input.i64()?, host: Nanos(input.i64()?) },
            6 => Self::Loss { cause: input.text()?, count: input.u64()? },
            7 => Self::End { time: Nanos(input.i64()?) },
            _ => return None,
        };
        input.0.is_empty().then_some(frame)
    }
}

fn put_u32(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_le_bytes());
}

fn put_i64(out: &mut Vec<u8>, value: i64) {
    out.extend_from_slice(&value.to_le_bytes());
}

/// A length. One that does not fit makes a frame that is too large to be written anyway.
fn put_count(out: &mut Vec<u8>, count: usize) {
    put_u32(out, u32::try_from(count).unwrap_or(u32::MAX));
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_count(out, bytes.len());
    out.extend_from_slice(bytes);
}

/// What is left of a frame's bytes. Every read is checked.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take(4)?.try_into().ok().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take(8)?.try_into().ok().map(u64::from_le_bytes)
    }

    fn i64(&mut self) -> Option<i64> {
        self.take(8)?.try_into().ok().map(i64::from_le_bytes)
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = self.u32()?;
        self.take(length as usize)
    }

    fn text(&mut self) -> Option<String> {
        Some(String::from_utf8_lossy(self.bytes()?).into_owned())
    }

    /// A list of items of at least `least_bytes` each, so that a damaged count cannot ask for much memory.
    fn list<T>(&mut self, least_bytes: usize, item: impl Fn(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let count = self.u32()? as usize;
        if count.checked_mul(least_bytes)? > self.0.len() {
            return None;
        }
        (0..count).map(|_| item(self)).collect()
    }
}
