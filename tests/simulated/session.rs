//! How sessions end here: each test says what its session lost, and everything else is a failure.

use cuprof::{Error, Profile, Profiler};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// The end of a session, with a look at its losses. `finish` itself is only called here; a test sees to that.
pub trait Ends: Sized {
    /// Ends the session, which has lost exactly this.
    fn losing(self, expected: &[(&str, u64)]) -> Result<Profile>;

    /// Ends the session, which fails, having lost exactly this.
    fn failing(self, expected: &[(&str, u64)]) -> Result<(Error, Profile)>;

    /// Ends the session, which fails; how much it lost cannot be said beforehand, for this reason.
    fn failing_somehow(self, why: &str) -> Result<(Error, Profile)>;

    /// Ends the session; how much it lost cannot be said beforehand, for this reason.
    fn losing_something(self, why: &str) -> Result<Profile>;

    /// Ends the session, which has lost nothing.
    fn whole(self) -> Result<Profile> {
        self.losing(&[])
    }
}

impl Ends for Profiler {
    #[track_caller]
    fn losing(self, expected: &[(&str, u64)]) -> Result<Profile> {
        let profile = self.finish()?;
        assert_losses(&profile, expected);
        Ok(profile)
    }

    #[track_caller]
    fn failing(self, expected: &[(&str, u64)]) -> Result<(Error, Profile)> {
        let (error, profile) = self.failing_somehow("looked at below")?;
        assert_losses(&profile, expected);
        Ok((error, profile))
    }

    fn failing_somehow(self, _why: &str) -> Result<(Error, Profile)> {
        match self.finish() {
            Ok(_) => Err("the session ended well".into()),
            Err(failed) => Ok((failed.error, *failed.profile)),
        }
    }

    fn losing_something(self, _why: &str) -> Result<Profile> {
        Ok(self.finish()?)
    }
}

/// What a session lost is this, no more and no less.
#[track_caller]
pub fn assert_losses(profile: &Profile, expected: &[(&str, u64)]) {
    let losses: Vec<_> = profile.losses().iter().map(|loss| (loss.cause, loss.count)).collect();
    assert_eq!(losses, expected);
}

/// The count of a loss.
pub fn lost(profile: &Profile, cause: &str) -> u64 {
    profile.losses().iter().find(|loss| loss.cause == cause).map_or(0, |loss| loss.count)
}

#[test]
fn sessions_end_nowhere_else() -> Result<()> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/simulated");
    // In two pieces, so that this line is none of them.
    let ends = concat!(".finish", "()");
    let mut elsewhere = Vec::new();
    for file in std::fs::read_dir(folder)? {
        let path = file?.path();
        if path.extension().is_none_or(|extension| extension != "rs") || path.ends_with("session.rs") {
            continue;
        }
        for (number, line) in std::fs::read_to_string(&path)?.lines().enumerate() {
            if line.contains(ends) && !line.contains("// a session") {
                elsewhere.push(format!("{}:{}", path.display(), number + 1));
            }
        }
    }
    assert_eq!(elsewhere, [""; 0], "use session::Ends");
    Ok(())
}
