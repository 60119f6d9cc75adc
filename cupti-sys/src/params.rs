//! `structSize`: what each `*_Params` struct must say of itself, by library version.
//!
//! A parameter struct begins with its own size, and that size is the **end of the last field**, not `size_of`: 45
//! against 48 for one of them. The constants `*_STRUCT_SIZE` in [`bindings`](crate::bindings) hold it.
//!
//! A library accepts exactly the sizes that it knows. A larger one is refused with `CUPTI_ERROR_INVALID_PARAMETER`, so
//! a client with newer headers must say the size of the older struct to an older library. [`Ladder`] holds these sizes
//! for the structs that have grown since CUPTI 12.0; all others have one size in every version.

use crate::bindings::*;
use crate::version::LibraryVersion;

/// The size in bytes of the field that `field` projects to; what `sizeof(((S *)0)->field)` is in C.
///
/// The generated `*_STRUCT_SIZE` constants are made with it: `offset_of!` gives a field's start, and this its width.
pub const fn field_size<S, F>(_field: fn(&S) -> &F) -> usize {
    size_of::<F>()
}

/// One size of a struct, and the first library version that expects it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rung {
    /// The first version that accepts [`size`](Self::size).
    pub since: LibraryVersion,
    /// The value of `structSize`, in bytes.
    pub size: usize,
}

/// The sizes of one `*_Params` struct, newest first.
#[derive(Clone, Copy, Debug)]
pub struct Ladder {
    name: &'static str,
    rungs: &'static [Rung],
}

impl Ladder {
    /// The name of the C struct.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Every size, newest first.
    pub const fn rungs(&self) -> &'static [Rung] {
        self.rungs
    }

    /// The size that a library of this version expects; the oldest one for versions before the ladder begins.
    ///
    /// Without a version (a library that refuses to tell it) the newest size is as good a guess as any: walk
    /// [`candidates`](Self::candidates).
    pub fn size(&self, version: LibraryVersion) -> usize {
        let expected = self.rungs.iter().find(|rung| rung.since <= version).or(self.rungs.last());
        expected.map_or(0, |rung| rung.size)
    }

    /// The sizes to try, best guess first: the one that the version expects, then the others from newest to oldest.
    ///
    /// The version in which a struct grew is known to the minor release at best, and an update may have brought the
    /// change. Retry with the next size only after `CUPTI_ERROR_INVALID_PARAMETER`, with the same arguments, and keep
    /// the size that worked: the same code also means a truly bad argument.
    pub fn candidates(&self, version: Option<LibraryVersion>) -> impl Iterator<Item = usize> + use<> {
        let first = version.map(|version| self.size(version));
        let rest = self.rungs.iter().map(|rung| rung.size).filter(move |size| Some(*size) != first);
        first.into_iter().chain(rest)
    }
}

/// Declares a ladder: versions as CUPTI API numbers, sizes as ends of a field of the newest struct.
macro_rules! ladder {
    ($(#[$doc:meta])* $name:ident: $record:ident { $($since:literal => $last:ident,)+ }) => {
        $(#[$doc])*
        pub const $name: Ladder = Ladder {
            name: stringify!($record),
            rungs: &[$(Rung {
                since: LibraryVersion::from_api($since),
                size: core::mem::offset_of!($record, $last) + field_size(|s: &$record| &s.$last),
            }),+],
        };
    };
}

ladder! {
    /// `cuptiSubscribe_v2`, which came with 13.0; the choice to allow several subscribers came with 13.2.
    SUBSCRIBER: CUpti_SubscriberParams { 130_200 => padding, 0 => oldSubscriberSize, }
}
ladder! {
    /// `cuptiProfilerDeviceSupported`. 12.0 declares `cmp` but ends the struct before it.
    DEVICE_SUPPORTED: CUpti_Profiler_DeviceSupported_Params {
        130_300 => sku,
        22 => api,
        0 => confidentialCompute,
    }
}
ladder! {
    /// `cuptiProfilerGetCounterAvailability`; 13.1 added the choice of device-level counters.
    COUNTER_AVAILABILITY: CUpti_Profiler_GetCounterAvailability_Params {
        130_100 => bAllowDeviceLevelCounters,
        0 => pCounterAvailabilityImage,
    }
}
ladder! {
    /// `cuptiProfilerHostInitialize`; 13.3 added the name of a single-pass set.
    HOST_INITIALIZE: CUpti_Profiler_Host_Initialize_Params { 130_300 => pSinglePassMetricSetName, 0 => pHostObject, }
}
ladder! {
    /// `cuptiProfilerHostGetMetricProperties`; 13.1 added the collection scope.
    METRIC_PROPERTIES: CUpti_Profiler_Host_GetMetricProperties_Params {
        130_100 => metricCollectionScope,
        0 => metricType,
    }
}
ladder! {
    /// `cuptiRangeProfilerEnable`; 13.4 added the cache control mode.
    RANGE_PROFILER_ENABLE: CUpti_RangeProfiler_Enable_Params { 130_400 => cacheControlMode, 0 => pRangeProfilerObject, }
}

/// Every ladder above.
pub const LADDERS: &[Ladder] = &[
    SUBSCRIBER,
    DEVICE_SUPPORTED,
    COUNTER_AVAILABILITY,
    HOST_INITIALIZE,
    METRIC_PROPERTIES,
    RANGE_PROFILER_ENABLE,
];

#[cfg(test)]
#[path = "params_tests.rs"]
mod tests;
