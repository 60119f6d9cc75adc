//! One pass over the work, from the side of the work.

use std::cell::{Cell, RefCell};
use std::fmt;

use super::hook::Between;
use super::timings::{RoundTimings, timed};
use crate::cupti::range_profiler::RangeProfiler;
use crate::error::{Error, ErrorKind, Result};

/// A range that was opened in a pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Opened {
    /// From 1.
    pub level: u16,
    pub name: String,
}

/// One pass over the work: opens the ranges that are counted. Made by [`Session::run`](super::Session::run).
///
/// It stays on the thread of `run`. Work that other threads launch meanwhile counts for the range that is open, if it is
/// in the same context.
pub struct Pass<'a> {
    number: usize,
    /// None: it is traced, and not counted.
    profiler: Option<&'a RefCell<&'a mut RangeProfiler>>,
    between: &'a RefCell<&'a mut Between>,
    levels: u16,
    max_ranges: usize,
    level: Cell<u16>,
    opened: RefCell<Vec<Opened>>,
    times: RefCell<RoundTimings>,
    /// The first thing that went wrong.
    failure: RefCell<Option<Error>>,
}

impl<'a> Pass<'a> {
    pub(super) fn new(
        number: usize,
        profiler: &'a RefCell<&'a mut RangeProfiler>,
        between: &'a RefCell<&'a mut Between>,
        levels: u16,
        max_ranges: usize,
        times: RoundTimings,
    ) -> Self {
        let (level, opened, failure) = (Cell::new(0), RefCell::default(), RefCell::default());
        let times = RefCell::new(times);
        let profiler = Some(profiler);
        Self { number, profiler, between, levels, max_ranges, level, opened, times, failure }
    }

    /// The pass whose durations are traced.
    pub(super) fn traced(between: &'a RefCell<&'a mut Between>, levels: u16) -> Self {
        let (level, opened, failure) = (Cell::new(0), RefCell::default(), RefCell::default());
        let (number, max_ranges, times) = (0, usize::MAX, RefCell::default());
        Self { number, profiler: None, between, levels, max_ranges, level, opened, times, failure }
    }

    /// Whether nothing is counted in this pass: it is the one whose durations are traced, the first of
    /// [`Profiler::count`](crate::Profiler::count).
    #[must_use]
    pub fn is_traced(&self) -> bool {
        self.profiler.is_none()
    }

    /// The pass's number, from 0. With nested ranges each level has its own passes. A [traced](Self::is_traced) pass is
    /// number 0, too.
    #[must_use]
    pub fn number(&self) -> usize {
        self.number
    }

    /// Runs this as a counted range. Ranges can be nested, as deep as
    /// [`Session::nesting_levels`](super::Session::nesting_levels) says; the same ranges must come in the same order in
    /// each pass.
    ///
    /// What goes wrong with a range ends the session after this pass; the work runs all the same.
    pub fn range<T>(&self, name: &str, work: impl FnOnce() -> T) -> T {
        let _open = self.open(name);
        let _traced = self.is_traced().then(|| crate::range::Range::new(name));
        work()
    }

    /// Opens a range, which ends when the result is dropped.
    pub(crate) fn open(&self, name: &str) -> Open<'_, 'a> {
        let level = self.level.get().saturating_add(1);
        self.level.set(level);
        // CUPTI is told a number instead of the name: names may repeat, and contain what separates nested ones.
        let number = self.opened.borrow().len();
        self.opened.borrow_mut().push(Opened { level, name: name.to_owned() });
        let is_pushed = self.push(name, level, number).unwrap_or_else(|error| {
            self.failure.borrow_mut().get_or_insert(error);
            false
        });
        Open { pass: self, is_pushed }
    }

    /// Whether it was opened.
    fn push(&self, name: &str, level: u16, number: usize) -> Result<bool> {
        if level > self.levels {
            let what = format!("the range {name:?} is {level} ranges deep, and {} are counted", self.levels);
            return Err(Error::new(ErrorKind::Config, what).with_hint(format!(
                "call Session::nesting_levels({level}); each level takes all passes once more"
            )));
        }
        if self.failure.borrow().is_some() || number >= self.max_ranges {
            return Ok(false); // nothing of this pass will be used
        }
        let mut times = self.times.borrow_mut();
        timed(&mut times.between, || self.between.borrow_mut().before_range(name, level))?;
        let Some(profiler) = self.profiler else { return Ok(false) };
        timed(&mut times.push, || profiler.borrow().push(&number.to_string()))?;
        if number == 0 {
            times.first_push = times.push;
        }
        Ok(true)
    }

    /// What was opened and how long it took, or what went wrong.
    pub(super) fn finish(self) -> Result<(Vec<Opened>, RoundTimings)> {
        match self.failure.into_inner() {
            Some(error) => Err(error),
            None => Ok((self.opened.into_inner(), self.times.into_inner())),
        }
    }
}

impl fmt::Debug for Pass<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pass").field("number", &self.number).finish_non_exhaustive()
    }
}

/// Closes the range, also when the work panics.
pub(crate) struct Open<'p, 'a> {
    pass: &'p Pass<'a>,
    is_pushed: bool,
}

impl Drop for Open<'_, '_> {
    fn drop(&mut self) {
        let pass = self.pass;
        pass.level.set(pass.level.get().saturating_sub(1));
        let Some(profiler) = pass.profiler.filter(|_| self.is_pushed) else { return };
        let mut times = pass.times.borrow_mut();
        let is_first = times.pop.is_zero();
        if let Err(error) = timed(&mut times.pop, || profiler.borrow().pop()) {
            pass.failure.borrow_mut().get_or_insert(error);
        }
        if is_first {
            times.first_pop = times.pop;
        }
    }
}

/// What a closure that is run in passes may return: nothing, or a result whose error ends the session.
#[diagnostic::on_unimplemented(
    message = "work that is counted returns nothing or a `Result`, and not `{Self}`",
    note = "end the closure with `;`, or hand the value out in an `Ok`"
)]
pub trait PassOutcome {
    /// The error, if the work failed.
    ///
    /// # Errors
    /// The work's own.
    fn into_result(self) -> Result<(), Box<dyn std::error::Error + Send + Sync>>;
}

impl PassOutcome for () {
    fn into_result(self) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        Ok(())
    }
}

impl<T, E: Into<Box<dyn std::error::Error + Send + Sync>>> PassOutcome for Result<T, E> {
    fn into_result(self) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        self.map(|_| ()).map_err(Into::into)
    }
}
