//! Which kernels were launched, in which ranges, in their order: CUPTI counts kernels without saying which they are.

use std::sync::Arc;
use std::time::Instant;

use cupti_sys::bindings::{CUpti_CallbackDomain, CUpti_CallbackIdResource};
use rustc_hash::FxHashMap;

use crate::channel::{self, Event, Named};
use crate::cupti::calls::{Leads, LeadsTable};
use crate::cupti::{Libraries, Subscriber};
use crate::error::Result;
use crate::names::KernelNames;
use crate::table::rows::KernelName;
use crate::trace::{Collector, Run};
use crate::units::{Nanos, RangeId, SymbolId, ThreadId};

/// A launch of a kernel.
pub(super) struct Launch {
    pub name: Arc<KernelName>,
    /// The range that it was launched in and those around it, joined by `/`.
    pub path: Option<String>,
}

/// What was launched.
pub(super) struct Launches {
    /// In the order of the launching calls.
    pub kernels: Vec<Launch>,
    /// There may have been kernels without a call of their own, or calls that were not seen.
    pub is_uncertain: bool,
}

/// Listens to launching calls and ranges.
pub(super) struct LaunchLog {
    listening: Listening,
    collector: Collector,
}

/// The subscription; dropping it ends it.
struct Listening {
    libraries: Libraries,
    subscriber: Subscriber,
}

impl Drop for Listening {
    fn drop(&mut self) {
        channel::end_session();
        let _nobody_to_tell = self.libraries.cupti.unsubscribe(&self.subscriber);
    }
}

impl LaunchLog {
    pub fn start(libraries: &Libraries) -> Result<Self> {
        let collector = Collector::start()?;
        let subscriber = libraries.cupti.subscribe()?;
        let listening = Listening { libraries: *libraries, subscriber };
        libraries.cupti.enable_launch_callbacks(&listening.subscriber);
        // Names are remembered by their addresses, which modules may leave to others.
        for end in [
            CUpti_CallbackIdResource::CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING,
            CUpti_CallbackIdResource::CUPTI_CBID_RESOURCE_MODULE_UNLOAD_STARTING,
        ] {
            let resource = CUpti_CallbackDomain::CUPTI_CB_DOMAIN_RESOURCE;
            libraries.cupti.enable_callback(&listening.subscriber, resource, end.0)?;
        }
        channel::begin_session(collector.thread().clone());
        Ok(Self { listening, collector })
    }

    /// Ends listening.
    pub fn finish(self) -> Launches {
        let Self { listening, collector } = self;
        drop(listening);
        let runs = collector.take_before(Instant::now());
        let dropped = channel::dropped();
        let mut launches = read(&runs);
        launches.is_uncertain |= dropped.launches + dropped.range_events > 0;
        launches
    }
}

/// Reads the events of all threads.
fn read(runs: &[Run]) -> Launches {
    let mut symbols: FxHashMap<(ThreadId, SymbolId), &[u8]> = FxHashMap::default();
    let mut ranges: FxHashMap<RangeId, (Option<RangeId>, &[u8])> = FxHashMap::default();
    let mut calls: Vec<(Nanos, ThreadId, SymbolId, Option<RangeId>)> = Vec::new();
    let (leads, mut is_uncertain) = (LeadsTable::new(), false);
    for Run { thread, bytes } in runs {
        for event in channel::decode(bytes) {
            let Ok(event) = event else {
                is_uncertain = true;
                break;
            };
            match event {
                Event::Launch { range, cbid, symbol, time, .. } => match (leads.of(cbid), symbol) {
                    (Leads::ToKernel | Leads::ToOne, Some(symbol)) => {
                        calls.push((time, thread.tid, symbol, range))
                    }
                    // Copies and fills have no name, and are not counted.
                    (Leads::ToKernel | Leads::ToOne | Leads::ToMany, None) => {}
                    (Leads::ToMany, Some(_)) | (Leads::ToGraph, _) => is_uncertain = true,
                },
                Event::Begin { range, parent, name, .. } => drop(ranges.insert(range, (parent, name))),
                Event::Name { what: Named::Symbol { symbol }, name } => {
                    symbols.insert((thread.tid, symbol), name);
                }
                _ => {}
            }
        }
    }
    calls.sort_by_key(|call| call.0);
    let mut names = KernelNames::default();
    let kernels = calls.into_iter().map(|(_, thread, symbol, range)| Launch {
        name: names.intern(symbols.get(&(thread, symbol)).copied().unwrap_or_default()),
        path: range.map(|range| path(range, &ranges)),
    });
    Launches { kernels: kernels.collect(), is_uncertain }
}

fn path(range: RangeId, ranges: &FxHashMap<RangeId, (Option<RangeId>, &[u8])>) -> String {
    let mut names = Vec::new();
    let mut next = Some(range);
    // A range is younger than its parent, so that this ends.
    while let Some((parent, name)) = next.and_then(|range| ranges.get(&range)) {
        names.push(String::from_utf8_lossy(name));
        next = *parent;
    }
    names.reverse();
    names.join("/")
}
