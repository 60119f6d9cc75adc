//! Recordings that were cut off or changed: an error with a profile of what came before, and never a panic.

use std::fs;
use std::path::Path;

use cuprof::{Error, ErrorKind, Profile, Profiler, Replay};

use crate::Outcome;
use crate::library::{Simulated, Work};
use crate::process::{Process, given, is_inside};
use crate::session::Ends;

/// The recording of a session with everything in it.
fn record(path: &Path) -> Outcome {
    Process::of(a_recording_that_is_cut_off_anywhere_gives_what_came_before).with("RECORDING", path).run(
        || {
            let builder = Profiler::builder().record(given("RECORDING"));
            let profiler = builder.api_calls().synchronizations().start()?;
            let cupti = Simulated::get();
            for step in 0..40_u32 {
                let _step = cuprof::range!("step", number = step);
                cupti.launch(30);
                cupti.work(Work::COPY);
                profiler.flush()?; // so that there are many frames
            }
            profiler.whole()?;
            Ok(())
        },
    )
}

/// Replays these bytes.
fn replay(file: &Path, bytes: &[u8]) -> Result<Profile, (Box<Error>, Option<Box<Profile>>)> {
    fs::write(file, bytes).unwrap();
    let replay = Replay::open(file).map_err(|error| (Box::new(error), None))?;
    replay.run().map_err(|failed| (Box::new(failed.error), Some(failed.profile)))
}

#[test]
fn a_recording_that_is_cut_off_anywhere_gives_what_came_before() -> Outcome {
    let folder = crate::process::folder()?;
    let path = folder.path().join("run.cuprofrec");
    record(&path)?;
    if is_inside() {
        return Ok(());
    }
    let bytes = fs::read(&path)?;
    let whole = replay(&path, &bytes).map_err(|(error, _)| error)?;
    assert_eq!((whole.launches(), whole.transfers(), whole.ranges()), (1200, 40, 40));
    assert!(bytes.len() > 20 * 997, "{} bytes are too few for this test", bytes.len());

    let cut = folder.path().join("cut.cuprofrec");
    let (mut before, mut different) = (0, 0);
    for length in (0..bytes.len()).step_by(997) {
        let Err((error, profile)) = replay(&cut, &bytes[..length]) else {
            panic!("{length} bytes are enough")
        };
        assert_eq!(error.kind, ErrorKind::Format, "{error}");
        assert!(error.to_string().contains("cut.cuprofrec"), "the file is named: {error}");
        let launches = profile.map_or(0, |profile| profile.launches());
        assert!(before <= launches && launches <= whole.launches(), "{launches} launches in {length} bytes");
        different += usize::from(before != launches);
        before = launches;
    }
    assert!(different > 10, "longer pieces hold more");
    Ok(())
}

#[test]
fn a_recording_with_a_changed_byte_anywhere_is_noticed() -> Outcome {
    let folder = crate::process::folder()?;
    let path = folder.path().join("run.cuprofrec");
    if is_inside() {
        return Ok(());
    }
    record(&path)?;
    let bytes = fs::read(&path)?;
    let whole = replay(&path, &bytes).map_err(|(error, _)| error)?;
    let changed = folder.path().join("changed.cuprofrec");
    for (number, position) in (0..bytes.len()).step_by(331).enumerate() {
        let mut bytes = bytes.clone();
        bytes[position] ^= 1 << (number % 8);
        match replay(&changed, &bytes) {
            Err((error, profile)) => {
                assert_eq!(error.kind, ErrorKind::Format, "{error}");
                assert!(profile.is_none_or(|profile| profile.launches() <= whole.launches()));
            }
            // Some bits of a compressed frame mean nothing: what comes out is the same, as its checksum says.
            Ok(profile) => assert_eq!(profile.summary(), whole.summary(), "byte {position} is not noticed"),
        }
    }
    Ok(())
}

#[test]
fn what_is_no_recording_is_refused_by_name() -> Outcome {
    let folder = crate::process::folder()?;
    let path = folder.path().join("other.cuprofrec");
    for bytes in [&b""[..], b"CUPROF", b"PAR1 and more than eight bytes", &[0; 4096], b"CUPROFR\x02......"] {
        let Err((error, _)) = replay(&path, bytes) else { panic!("{bytes:?} was taken") };
        assert_eq!(error.kind, ErrorKind::Format);
        assert!(error.to_string().contains("other.cuprofrec"), "{error}");
    }
    let Err(error) = Replay::open(folder.path().join("absent.cuprofrec")) else {
        panic!("it does not exist")
    };
    assert_eq!(error.kind, ErrorKind::Io);
    assert!(error.to_string().contains("absent.cuprofrec"), "{error}");
    Ok(())
}
