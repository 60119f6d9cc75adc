use std::path::Path;

use proptest::prelude::*;

use super::*;
use crate::units::{Nanos, ThreadId};

fn frames() -> Vec<Frame<'static>> {
    vec![
        Frame::Start {
            cupti_version: 130_001,
            time: Nanos(5),
            epoch: 3,
            facts: vec![("host".into(), "h200".into())],
        },
        Frame::Fact { key: "gpu".into(), value: "NVIDIA H200".into() },
        Frame::Events { thread: ThreadId(7), name: Some("main".into()), bytes: vec![1, 2, 3].into() },
        Frame::Buffer {
            received: Nanos(9),
            bytes: vec![0; 4096].into(),
            offsets: vec![0, 232],
            complete: true,
            strings: Strings {
                pointers: vec![(0xdead_beef, b"_Z5saxpyPfS_fi".to_vec())],
                calls: vec![CallName { kind: 4, cbid: 307, name: "cuLaunchKernel".into() }],
            },
        },
        Frame::Clock { cupti_ns: 1, host: Nanos(2) },
        Frame::Loss { cause: "records_dropped".into(), count: 12 },
        Frame::End { time: Nanos(10) },
    ]
}

fn written() -> Vec<u8> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("x.cuprofrec");
    let mut writer = Writer::begin(Place::find(&path, false).expect("a place")).expect("begun");
    frames().iter().for_each(|frame| writer.write(frame));
    let (lost, error) = writer.close();
    assert!(lost == 0 && error.is_none());
    std::fs::read(&path).expect("readable")
}

fn owned(frame: Frame<'_>) -> Frame<'static> {
    match frame {
        Frame::Start { cupti_version, time, epoch, facts } => {
            Frame::Start { cupti_version, time, epoch, facts }
        }
        Frame::Fact { key, value } => Frame::Fact { key, value },
        Frame::Events { thread, name, bytes } => {
            Frame::Events { thread, name, bytes: bytes.into_owned().into() }
        }
        Frame::Buffer { received, bytes, offsets, complete, strings } => {
            Frame::Buffer { received, bytes: bytes.into_owned().into(), offsets, complete, strings }
        }
        Frame::Clock { cupti_ns, host } => Frame::Clock { cupti_ns, host },
        Frame::Loss { cause, count } => Frame::Loss { cause, count },
        Frame::End { time } => Frame::End { time },
    }
}

fn read(bytes: &[u8]) -> (Vec<Frame<'static>>, bool) {
    let mut frames = Vec::new();
    let Ok(mut reader) = Reader::new(Path::new("memory"), bytes) else { return (frames, true) };
    loop {
        match reader.next() {
            Ok(Some(frame)) => frames.push(owned(frame)),
            Ok(None) => return (frames, false),
            Err(_) => return (frames, true),
        }
    }
}

#[test]
fn what_was_written_is_read() {
    assert_eq!(read(&written()), (frames(), false));
}

#[test]
fn a_recording_cut_off_anywhere_gives_what_came_before() {
    let (bytes, whole) = (written(), frames());
    for length in 0..bytes.len() {
        let (read, _failed) = read(&bytes[..length]);
        assert!(read.len() < whole.len());
        assert_eq!(read, whole[..read.len()]);
    }
}

#[test]
fn a_damaged_byte_is_noticed() {
    let (bytes, whole) = (written(), frames());
    for position in 0..bytes.len() {
        let mut bytes = bytes.clone();
        bytes[position] ^= 0x10;
        let (read, failed) = read(&bytes);
        // zstd's frame header has a bit without a meaning: changing it changes nothing.
        assert!(failed || read == whole, "byte {position} was changed and nobody noticed");
        assert_eq!(read, whole[..read.len()]);
    }
}

#[test]
fn an_existing_recording_is_not_overwritten_unasked() {
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    let Err(error) = Place::find(file.path(), false) else { panic!("it was overwritten") };
    assert_eq!(error.kind, crate::ErrorKind::OutputExists);
    assert!(Place::find(file.path(), true).is_ok(), "it is empty");
    std::fs::write(file.path(), "my thesis").expect("written");
    let Err(error) = Place::find(file.path(), true) else { panic!("it would be overwritten") };
    assert_eq!(error.kind, crate::ErrorKind::OutputExists);
    std::fs::write(file.path(), written()).expect("written");
    Place::find(file.path(), true).expect("a place").leave();
    assert_eq!(std::fs::read(file.path()).expect("readable"), written(), "nothing was touched");
    drop(Writer::begin(Place::find(file.path(), true).expect("a place")).expect("begun"));
    assert_eq!(std::fs::read(file.path()).expect("readable"), MAGIC);
}

proptest! {
    #[test]
    fn hostile_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
        let mut file = MAGIC.to_vec();
        file.extend_from_slice(&bytes);
        read(&file);
        for kind in 0..9 {
            Frame::decode(&[&[kind], &*bytes].concat());
        }
    }
}
