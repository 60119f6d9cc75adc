//! What is done to the GPU between passes.

use crate::error::Result;

/// Puts the GPU into a known state before each pass and each range: cache, clocks, temperature, inputs.
///
/// Calls come on the thread of [`Session::run`](super::Session::run), with the context current. Nothing waits for the
/// GPU before them but at the beginning of a pass, where everything launched before has run. Work that is launched here
/// is not in any range; it is counted only where each kernel is counted by itself, where `before_range` is not called.
/// An error ends the session, which cleans up and returns it.
pub trait BetweenPasses {
    /// Before the pass with this number, from 0; not inside a pass.
    ///
    /// # Errors
    /// Whatever prevents the state that was asked for.
    fn before_pass(&mut self, pass: usize) -> Result<()> {
        let _ = pass;
        Ok(())
    }

    /// Before a range is opened, inside a pass. Level 1 is a range in no other; inside a counted one, this work counts
    /// for that one.
    ///
    /// # Errors
    /// As [`before_pass`](Self::before_pass).
    fn before_range(&mut self, name: &str, level: u16) -> Result<()> {
        let _ = (name, level);
        Ok(())
    }

    /// The state of the L2 cache that this leaves before a range, as the column `cache_state` has it.
    fn cache_state(&self) -> &str {
        "none"
    }

    /// What was done to the clocks, as the column `clock_mode` has it.
    fn clock_mode(&self) -> &str {
        "free"
    }
}

/// Leaves the GPU as it is. The default.
#[derive(Clone, Copy, Debug, Default)]
pub struct Leave;

impl BetweenPasses for Leave {}
