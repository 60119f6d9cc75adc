//! Where bytes from outside enter the crate, for fuzzing. Each function takes any bytes, and has to come back from all.
//!
//! The targets in `tests/fuzz` and the regression test over `tests/corpus` call the same functions.

use std::hint::black_box;
use std::path::Path;

use cupti_sys::LibraryVersion;

use super::recordings::Nowhere;
use crate::capture::{Frame, Reader};
use crate::channel;
use crate::error::Result;
use crate::record::Decoder;
use crate::trace::{self, Pipeline};
use crate::units::{Nanos, ProcessEpoch};

/// API numbers whose layouts differ.
const VERSIONS: [u32; 9] = [18, 22, 24, 26, 28, 130_001, 130_100, 130_401, 130_500];

/// A time in 2026, so that stamps of a seed are inside of its session.
const TIME: Nanos = Nanos(1_790_000_000_000_000_000);

/// An activity buffer with a record at each multiple of eight, and a run of events: the first byte chooses the version.
pub fn decode(bytes: &[u8]) {
    let Some((version, buffer)) = bytes.split_first() else { return };
    let decoder = Decoder::new(version_of(*version));
    // One offset after the end, too.
    for offset in (0..=buffer.len() + 8).step_by(8) {
        black_box(decoder.decode(buffer, u32::try_from(offset).unwrap_or(u32::MAX)));
    }
    let mut events = 0;
    channel::decode(buffer).for_each(|event| {
        events += 1;
        drop(black_box(event));
    });
    assert!(events <= buffer.len(), "more events than bytes");
}

/// Frames of a recording as they are once unpacked, each after its length in two bytes, through the whole pipeline. The
/// first byte chooses the version.
pub fn frames(bytes: &[u8]) {
    let Some((version, mut rest)) = bytes.split_first() else { return };
    let mut pipeline = begin(version_of(*version), TIME, ProcessEpoch(0));
    let mut end = TIME;
    while let Some((frame, after)) = next_frame(rest) {
        if let Some(frame) = Frame::decode(frame) {
            end = end.max(trace::feed(&mut pipeline, frame));
        }
        rest = after;
    }
    black_box(pipeline.finish(end).sink.rows);
}

/// A recording's file.
///
/// # Errors
/// Where it is damaged, as nearly any input is.
pub fn recording(bytes: &[u8]) -> Result<u64> {
    let mut reader = Reader::new(Path::new("hostile"), bytes)?;
    let Some(Frame::Start { cupti_version, time, epoch, .. }) = reader.next()? else { return Ok(0) };
    let mut pipeline = begin(LibraryVersion::from_api(cupti_version), time, ProcessEpoch(epoch));
    let mut end = time;
    while let Some(frame) = reader.next()? {
        end = end.max(trace::feed(&mut pipeline, frame));
    }
    Ok(pipeline.finish(end).sink.rows)
}

/// A small input for [`frames`], made of the beginning of a recording.
///
/// # Errors
/// What reading a recording can fail with.
pub fn seed_of_frames(file: &Path, most_frames: usize) -> Result<Vec<u8>> {
    let mut reader = Reader::open(file)?;
    let mut seed = vec![0];
    for _ in 0..most_frames {
        let Some(mut frame) = reader.next()? else { break };
        match &mut frame {
            Frame::Start { cupti_version, .. } => seed[0] = place_of(*cupti_version),
            // A few records or events are as good as thousands.
            Frame::Buffer { bytes, offsets, .. } => {
                offsets.truncate(8);
                let end = offsets.last().map_or(0, |last| *last as usize + 512).min(bytes.len());
                *bytes = bytes[..end].to_vec().into();
            }
            Frame::Events { bytes, .. } => *bytes = bytes[..bytes.len().min(1024)].to_vec().into(),
            _ => {}
        }
        let mut bytes = Vec::new();
        frame.encode(&mut bytes);
        if let Ok(length) = u16::try_from(bytes.len()) {
            seed.extend_from_slice(&length.to_le_bytes());
            seed.extend_from_slice(&bytes);
        }
    }
    Ok(seed)
}

/// A small input for [`decode`]: the first records of a recording, of whatever kinds they are.
///
/// # Errors
/// What reading a recording can fail with.
pub fn seed_of_records(file: &Path) -> Result<Vec<u8>> {
    let mut reader = Reader::open(file)?;
    let mut seed = vec![0];
    while let Some(frame) = reader.next()? {
        match frame {
            Frame::Start { cupti_version, .. } => seed[0] = place_of(cupti_version),
            Frame::Buffer { bytes, .. } if seed.len() < 2048 => {
                seed.extend_from_slice(&bytes[..bytes.len().min(1024)]);
            }
            Frame::Events { bytes, .. } if seed.len() == 1 => {
                seed.extend_from_slice(&bytes[..bytes.len().min(512)]);
            }
            _ => {}
        }
    }
    Ok(seed)
}

/// The byte that chooses a version, or the one before it.
fn place_of(cupti_version: u32) -> u8 {
    VERSIONS.iter().rposition(|known| *known <= cupti_version).unwrap_or(0) as u8 // CAST: a place in VERSIONS
}

fn begin(version: LibraryVersion, time: Nanos, epoch: ProcessEpoch) -> Pipeline<Nowhere> {
    Pipeline::new(trace::Start { version, time, epoch }, Nowhere::default())
}

fn version_of(byte: u8) -> LibraryVersion {
    LibraryVersion::from_api(VERSIONS[usize::from(byte) % VERSIONS.len()])
}

fn next_frame(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk()?;
    rest.split_at_checked(usize::from(u16::from_le_bytes(*length)))
}
