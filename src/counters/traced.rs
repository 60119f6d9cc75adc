//! Durations and counters of the same work in one dataset, from passes of their own.

use std::time::Instant;

use super::counted::Counted;
use super::pass::{Pass, PassOutcome};
use super::session::Session;
use crate::error::Result;
use crate::trace::Profiler;

impl Profiler {
    /// Counts without ending the traced session: runs the work once with tracing, then suspends tracing while the
    /// counter session runs it once for each pass, and goes on tracing afterwards.
    ///
    /// ```no_run
    /// # fn main() -> cuprof::Result<()> {
    /// use cuprof::Profiler;
    /// use cuprof::counters::{Plan, Session};
    /// # fn launch() -> cuprof::Result<()> { Ok(()) }
    ///
    /// let mut profiler = Profiler::builder().output("run.cuprof").start()?;
    /// launch()?; // traced
    /// let plan = Plan::for_device(0, ["headline"])?;
    /// let counted = profiler.count(Session::new(plan), |pass| pass.range("step", launch))?;
    /// println!("{:?} bytes", counted.value("step", "dram__bytes_read.sum"));
    /// profiler.finish()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// In the traced pass ([`Pass::is_traced`]) the ranges that the work opens by [`Pass::range`] are ranges of the traced
    /// session, inside those that are open already, and find the cache in the same state as the counted ones
    /// (but for [`Cache::Cupti`](crate::Cache::Cupti), which is of counted passes only). So
    /// durations are in `launches` and `ranges`, of the traced pass only, and counters are in `metrics`, of the counted
    /// passes only; `range_path` of both ends in the same names. Ranges that the work opens otherwise are in `ranges` once
    /// for each pass, with launches in the first. `env` tells from when to when nothing was traced
    /// (`tracing.suspended.…`); what other threads launched meanwhile was not traced either.
    ///
    /// It may be called several times in a session, with other metrics or for other work. `range_index` then goes on from
    /// one counting to the next, and is that of the first range of counting N in `env`, as `counters.N.first_range_index`.
    ///
    /// A [disabled](Profiler::disabled) profiler only counts. Recordings ([`Builder::record`](crate::Builder::record))
    /// have no counters.
    ///
    /// # Errors
    /// As [`Session::run`]; [`CuptiTooOld`](crate::ErrorKind::CuptiTooOld) before CUPTI 13.0 Update 1, which can hang when
    /// tracing is switched off; [`Timeout`](crate::ErrorKind::Timeout) where CUPTI does not come back from having everything
    /// delivered or switched off ([`finish_timeout`](crate::Builder::finish_timeout) for each), or switched on again
    /// ([`start_timeout`](crate::Builder::start_timeout)): the session then has no records from there on; else the failed
    /// call. The counters' own calls have no limit: they have to be made on the caller's thread, whose context is current
    /// to them, and nobody could take that thread back from a call. Tracing goes on after an error, unless that is what failed: what was
    /// counted is in the dataset then.
    pub fn count<R: PassOutcome>(
        &mut self,
        mut session: Session,
        mut work: impl FnMut(&Pass<'_>) -> R,
    ) -> Result<Counted> {
        if !self.is_enabled() {
            return session.run(work);
        }
        let _context = session.enter()?;
        let mut between = session.between()?;
        session.run_traced(&mut between, &mut work)?;
        let number = self.suspensions();
        let (counted, resumed) = self.suspended(|| session.run_with(between, Instant::now(), &mut work))?;
        let counted = counted?;
        let of_this = |key: &str| match key.split_once('.') {
            Some((counters, rest)) => format!("{counters}.{number}.{rest}"),
            None => format!("{key}.{number}"),
        };
        let first = ("counters.first_range_index".to_owned(), self.counted_ranges().to_string());
        let facts = counted.facts.iter().chain([&first]).map(|(key, value)| (of_this(key), value.clone()));
        let facts = facts.collect();
        self.add_metrics(counted.metric_rows(), facts);
        resumed.map(|()| counted)
    }
}
