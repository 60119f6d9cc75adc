//! One run, from the side of the measured code; and how its annotations are timed.

use std::cell::{Cell, RefCell};
use std::fmt;

use super::rig::{Gate, Opened, Region, Regions, Rig};
use super::value::{Outcome, Value};
use crate::error::Error;

/// What a run is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Purpose {
    /// It brings the GPU and the program into their steady state, and is not measured.
    WarmUp,
    /// Its kernels are timed.
    Timing,
    /// It is one of the passes in which counters are counted; times of it mean nothing.
    Counting,
}

/// One run of one configuration: has annotations measured. Made by [`Bench::run`](super::Bench::run).
pub struct Run<'a> {
    number: usize,
    purpose: Purpose,
    /// None: annotations are not measured.
    regions: Option<&'a dyn Regions>,
    at_annotation: &'a dyn Fn(&str),
}

impl<'a> Run<'a> {
    pub(super) fn new(
        number: usize,
        purpose: Purpose,
        regions: Option<&'a dyn Regions>,
        at_annotation: &'a dyn Fn(&str),
    ) -> Self {
        Self { number, purpose, regions, at_annotation }
    }

    /// The run's number in its configuration, from 0, or the number of the pass where counters are counted.
    #[must_use]
    pub fn number(&self) -> usize {
        self.number
    }

    /// What the run is for.
    #[must_use]
    pub fn purpose(&self) -> Purpose {
        self.purpose
    }

    /// Measures the kernels that this work launches, under a name, and returns what the work returns.
    ///
    /// The cache is brought into its state before. Kernels belong to the annotation by their launch: whenever they run,
    /// also as nodes of a graph that is launched here, and also from other threads that
    /// [enter](crate::RangeHandle::enter) a range opened here ([`range!`](crate::range!)). Annotations may be nested: the
    /// outer one has the kernels of the inner one as well, and the cache is left alone between. One may be used again in
    /// the same run; each use is a sample.
    ///
    /// An error that the work returns makes the sample invalid, with its text.
    pub fn measure<R: Outcome>(&self, name: &str, work: impl FnOnce() -> R) -> R {
        if self.purpose == Purpose::Timing {
            (self.at_annotation)(name);
        }
        let mut open = self.regions.map(|regions| regions.open(name));
        let result = work();
        if let (Some(open), Some(what)) = (&mut open, result.failure()) {
            open.failed(what);
        }
        result
    }
}

impl fmt::Debug for Run<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run")
            .field("number", &self.number)
            .field("purpose", &self.purpose)
            .finish_non_exhaustive()
    }
}

/// One use of an annotation in a timed run.
#[derive(Clone, Debug)]
pub(super) struct Instance {
    pub name: String,
    pub region: Region,
    /// The place of the one around it, in its run.
    pub parent: Option<usize>,
    /// What went wrong.
    pub failure: Option<String>,
    /// What became of the gate in front of it, or of the one around it.
    pub gate: Gate,
    /// Of the collectors for annotations.
    pub collected: Vec<(usize, Option<Value>)>,
}

/// The annotations of the run that is being timed.
pub(super) struct Timing<'r> {
    pub rig: RefCell<&'r mut dyn Rig>,
    pub instances: RefCell<Vec<Instance>>,
    /// The innermost one that is open.
    innermost: Cell<Option<usize>>,
    /// What collectors gave for the annotation that opens next.
    pub collected: RefCell<Vec<(usize, Option<Value>)>>,
    /// The first failure of the rig.
    pub error: RefCell<Option<Error>>,
}

impl<'r> Timing<'r> {
    pub fn new(rig: &'r mut dyn Rig) -> Self {
        Self {
            rig: RefCell::new(rig),
            instances: RefCell::default(),
            innermost: Cell::new(None),
            collected: RefCell::default(),
            error: RefCell::default(),
        }
    }
}

impl Regions for Timing<'_> {
    fn open<'a>(&'a self, name: &str) -> Box<dyn Opened + 'a> {
        let parent = self.innermost.get();
        let mut rig = self.rig.borrow_mut();
        let prepared = if parent.is_none() { rig.before_region() } else { Ok(()) };
        let failure = prepared.as_ref().err().map(ToString::to_string);
        if let Err(error) = prepared {
            self.error.borrow_mut().get_or_insert(error);
        }
        let region = rig.open(name);
        let mut instances = self.instances.borrow_mut();
        let collected = std::mem::take(&mut *self.collected.borrow_mut());
        instances.push(Instance {
            name: name.to_owned(),
            region,
            parent,
            failure,
            gate: Gate::None,
            collected,
        });
        let place = instances.len() - 1;
        self.innermost.set(Some(place));
        Box::new(OpenRegion { timing: self, place, parent, region })
    }
}

/// Closes the region, also when the work panics.
struct OpenRegion<'a, 'r> {
    timing: &'a Timing<'r>,
    place: usize,
    parent: Option<usize>,
    region: Region,
}

impl Opened for OpenRegion<'_, '_> {
    fn failed(&mut self, what: String) {
        if let Some(instance) = self.timing.instances.borrow_mut().get_mut(self.place) {
            instance.failure.get_or_insert(what);
        }
    }
}

impl Drop for OpenRegion<'_, '_> {
    fn drop(&mut self) {
        if self.parent.is_none() {
            let gate = self.timing.rig.borrow_mut().after_region();
            for instance in self.timing.instances.borrow_mut().iter_mut().skip(self.place) {
                instance.gate = gate.clone();
            }
        }
        self.timing.rig.borrow_mut().close(self.region);
        self.timing.innermost.set(self.parent);
        if std::thread::panicking() {
            self.failed("the work panicked".to_owned());
        }
    }
}
