//! Every input that the fuzz targets (`tests/fuzz`) began with, or that once broke something, through the same functions.

mod bless;

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use cuprof::testing::hostile;

type Outcome = Result<(), Box<dyn Error>>;

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Runs every input of a target. They are run one by one in this thread: the name of the last is told by the panic.
fn run(target: &str, input: impl Fn(&[u8])) -> Outcome {
    let mut inputs = fs::read_dir(here("tests/corpus").join(target))?
        .map(|entry| Ok(entry?.path()))
        .collect::<std::io::Result<Vec<_>>>()?;
    inputs.sort();
    assert!(inputs.len() > 3, "the corpus of {target} is not there");
    for path in &inputs {
        let bytes = fs::read(path)?;
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| input(&bytes)));
        assert!(outcome.is_ok(), "{}", path.display());
    }
    Ok(())
}

#[test]
fn activity_buffers_of_the_corpus_are_decoded() -> Outcome {
    run("decode", hostile::decode)
}

#[test]
fn frames_of_the_corpus_go_through_the_pipeline() -> Outcome {
    run("frames", hostile::frames)
}

#[test]
fn recordings_of_the_corpus_are_read_or_refused() -> Outcome {
    run("recording", |bytes| drop(hostile::recording(bytes)))
}

/// `CUPROF_BLESS=1` has them written.
#[test]
fn each_recording_of_the_examples_is_a_seed() -> Outcome {
    let bless = bless::is_asked_for();
    for entry in fs::read_dir(here("examples/recordings"))? {
        let path = entry?.path();
        let name = path.file_stem().unwrap_or_default().to_owned();
        let bytes = fs::read(&path)?;
        let seeds = [
            ("frames", hostile::seed_of_frames(&path, 12)?),
            ("recording", bytes[..bytes.len().min(4096)].to_vec()),
            ("decode", hostile::seed_of_records(&path)?),
        ];
        for (target, seed) in seeds {
            let file = here("tests/corpus").join(target).join(&name);
            if bless {
                fs::write(&file, &seed)?;
            }
            let kept = fs::read(&file).unwrap_or_default();
            assert!(
                kept == seed,
                "{} is not the recording's: run this test with CUPROF_BLESS=1 once",
                file.display()
            );
        }
    }
    Ok(())
}
