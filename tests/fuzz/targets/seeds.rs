//! Makes seeds of the recordings that come with the crate: `seeds CORPUS`.

use std::error::Error;
use std::fs;
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn Error>> {
    let corpus = PathBuf::from(std::env::args_os().nth(1).ok_or("which folder?")?);
    let recordings = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/recordings");
    for entry in fs::read_dir(recordings)? {
        let path = entry?.path();
        let name = path.file_stem().unwrap_or_default().to_owned();
        let frames = cuprof::testing::hostile::seed_of_frames(&path, 12)?;
        fs::write(corpus.join("frames").join(&name), frames)?;
        let bytes = fs::read(&path)?;
        fs::write(corpus.join("recording").join(&name), &bytes[..bytes.len().min(4096)])?;
    }
    Ok(())
}
