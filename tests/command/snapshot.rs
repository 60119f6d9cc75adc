//! Outputs as they were reviewed.

use std::error::Error;
use std::path::Path;

/// Compares with the file in `snapshots`.
pub fn compare(name: &str, found: &str) -> Result<(), Box<dyn Error>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/command/snapshots").join(name);
    if crate::bless::is_asked_for() {
        std::fs::create_dir_all(path.parent().unwrap_or(&path))?;
        return Ok(std::fs::write(path, found)?);
    }
    let known = std::fs::read_to_string(&path).unwrap_or_default();
    if known == found {
        return Ok(());
    }
    let differs = known.lines().zip(found.lines()).find(|(known, found)| known != found);
    let (path, hint) = (path.display(), "CUPROF_BLESS=1 writes it anew");
    Err(format!("{path} differs ({hint}), first in {differs:#?}; all of it:\n{found}").into())
}
