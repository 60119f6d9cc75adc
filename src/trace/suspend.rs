//! A traced session that steps aside for a counter session, and goes on afterwards.

use cupti_sys::LibraryVersion;

use super::profiler::{Profiler, Running};
use super::session::precludes_counting;
use super::worker::Control;
use crate::error::{Error, ErrorKind, Result};
use crate::table::rows::MetricRow;
use crate::units::Nanos;

/// Switches tracing on again, also when the work panics.
struct Resume<'a>(Option<&'a mut Running>);

impl Resume<'_> {
    fn now(mut self) -> Result<()> {
        self.0.take().map_or(Ok(()), Running::resume)
    }
}

impl Drop for Resume<'_> {
    fn drop(&mut self) {
        if let Some(running) = self.0.take() {
            let _the_panic_goes_on = running.resume();
        }
    }
}

impl Profiler {
    /// Runs this while nothing is traced: everything launched before is waited for and delivered, records and callbacks
    /// are switched off, and counter sessions may run. Ranges are recorded all the while.
    ///
    /// Also returns whether tracing goes on; if not, the session is without records from here on.
    ///
    /// # Errors
    /// Of suspending, and then nothing was run: [`ErrorKind::CuptiTooOld`] where kernel records cannot be switched off
    /// without the risk to hang; [`ErrorKind::Timeout`] where CUPTI does not come back, and the session is without records
    /// from there on.
    pub(crate) fn suspended<T>(&mut self, work: impl FnOnce() -> T) -> Result<(T, Result<()>)> {
        let Some(running) = &mut self.running else { return Ok((work(), Ok(()))) };
        running.check_process()?;
        check_version(running.libraries.version)?;
        running.deliver()?;
        running.stop()?;
        let from = Nanos::now();
        let resume = Resume(Some(running));
        let outcome = {
            let _others_may_count = resume.0.as_ref().map(|running| running.slot.suspend());
            work()
        };
        let resumed = resume.now();
        if let Some(running) = &mut self.running {
            let until = match &resumed {
                Ok(()) => format!("{} ns", Nanos::now().0),
                Err(error) => format!("the end, since tracing could not go on ({error})"),
            };
            let value =
                format!("from {} ns to {until}: nothing was traced while counters were collected", from.0);
            let key = format!("tracing.suspended.{}", running.suspensions);
            running.suspensions += 1;
            self.add_metrics(Vec::new(), vec![(key, value)]);
        }
        Ok((outcome, resumed))
    }

    /// Hands rows of `metrics`, and facts, to the session's dataset. Their ranges are numbered on from those of the
    /// countings before.
    pub(crate) fn add_metrics(&mut self, mut rows: Vec<MetricRow>, facts: Vec<(String, String)>) {
        if let Some(running) = &mut self.running {
            let first = running.counted_ranges;
            for row in &mut rows {
                row.range_index += first;
                running.counted_ranges = running.counted_ranges.max(row.range_index + 1);
            }
            // Without a worker there is no dataset, which the end of the session tells.
            let _worker_is_there = running.control.send(Control::Counted(rows, facts));
            running.worker.thread().unpark();
        }
    }

    /// How many ranges were counted in this session: the number of the next.
    pub(crate) fn counted_ranges(&self) -> i64 {
        self.running.as_ref().map_or(0, |running| running.counted_ranges)
    }

    /// How often counters were collected in this session.
    pub(crate) fn suspensions(&self) -> usize {
        self.running.as_ref().map_or(0, |running| running.suspensions)
    }
}

fn check_version(version: LibraryVersion) -> Result<()> {
    if !precludes_counting(version) {
        return Ok(());
    }
    let what = format!("{version} can hang when tracing is switched off, and tracing changes the counters");
    Err(Error::new(ErrorKind::CuptiTooOld, what)
        .with_hint("install CUPTI 13.0 Update 1 or newer, or finish the profiler before counting"))
}
