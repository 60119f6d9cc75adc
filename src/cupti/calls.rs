//! The driver calls that launch work on the device, by CUPTI's callback id.

use std::sync::LazyLock;

use cupti_sys::bindings::CUpti_driver_api_trace_cbid_enum as Cbid;

/// What one call can lead to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::enum_variant_names, reason = "they are read with the type's name: leads to one")]
pub(crate) enum Leads {
    /// One kernel's record.
    ToKernel,
    /// One record at most, of a copy or a fill.
    ToOne,
    /// Several records: a batch of copies, or a launch on several devices.
    ToMany,
    /// A record for each node of a graph.
    ToGraph,
}

macro_rules! launching_calls {
    ($($leads:ident: $($cbid:ident)*;)*) => {
        /// Every launching call that CUPTI's newest headers know, with its per-thread-stream twin. An older library
        /// refuses the ids that it does not know, which is as it should be: they cannot occur there.
        pub(crate) const LAUNCHING: &[(Cbid, Leads)] = &[$($((Cbid::$cbid, Leads::$leads),)*)*];

        const LAUNCHING_NAMES: &[&str] = &[$($(stringify!($cbid),)*)*];
    };
}

macro_rules! waiting_calls {
    ($($cbid:ident)*) => {
        /// Calls that launch nothing, and may return only when work that was launched before has run: those that are
        /// made for that, and those that take memory, give it back, or load and unload code.
        pub(crate) const WAITING: &[Cbid] = &[$(Cbid::$cbid,)*];

        const WAITING_NAMES: &[&str] = &[$(stringify!($cbid),)*];
    };
}

waiting_calls! {
    CUPTI_DRIVER_TRACE_CBID_cuArray3DCreate_v2
    CUPTI_DRIVER_TRACE_CBID_cuArrayCreate_v2
    CUPTI_DRIVER_TRACE_CBID_cuArrayDestroy
    CUPTI_DRIVER_TRACE_CBID_cuCtxDestroy_v2
    CUPTI_DRIVER_TRACE_CBID_cuCtxResetPersistingL2Cache
    CUPTI_DRIVER_TRACE_CBID_cuCtxSetLimit
    CUPTI_DRIVER_TRACE_CBID_cuCtxSynchronize
    CUPTI_DRIVER_TRACE_CBID_cuCtxSynchronize_v2
    CUPTI_DRIVER_TRACE_CBID_cuDestroyExternalMemory
    CUPTI_DRIVER_TRACE_CBID_cuDeviceGraphMemTrim
    CUPTI_DRIVER_TRACE_CBID_cuDevicePrimaryCtxRelease_v2
    CUPTI_DRIVER_TRACE_CBID_cuDevicePrimaryCtxReset_v2
    CUPTI_DRIVER_TRACE_CBID_cuEventSynchronize
    CUPTI_DRIVER_TRACE_CBID_cuGraphicsUnregisterResource
    CUPTI_DRIVER_TRACE_CBID_cuIpcCloseMemHandle
    CUPTI_DRIVER_TRACE_CBID_cuLibraryLoadData
    CUPTI_DRIVER_TRACE_CBID_cuLibraryLoadFromFile
    CUPTI_DRIVER_TRACE_CBID_cuLibraryUnload
    CUPTI_DRIVER_TRACE_CBID_cuMemAllocHost_v2
    CUPTI_DRIVER_TRACE_CBID_cuMemAllocManaged
    CUPTI_DRIVER_TRACE_CBID_cuMemAllocPitch_v2
    CUPTI_DRIVER_TRACE_CBID_cuMemAlloc_v2
    CUPTI_DRIVER_TRACE_CBID_cuMemFreeHost
    CUPTI_DRIVER_TRACE_CBID_cuMemFree_v2
    CUPTI_DRIVER_TRACE_CBID_cuMemHostAlloc
    CUPTI_DRIVER_TRACE_CBID_cuMemHostRegister_v2
    CUPTI_DRIVER_TRACE_CBID_cuMemHostUnregister
    CUPTI_DRIVER_TRACE_CBID_cuMemPoolTrimTo
    CUPTI_DRIVER_TRACE_CBID_cuMemUnmap
    CUPTI_DRIVER_TRACE_CBID_cuMipmappedArrayDestroy
    CUPTI_DRIVER_TRACE_CBID_cuModuleLoad
    CUPTI_DRIVER_TRACE_CBID_cuModuleLoadData
    CUPTI_DRIVER_TRACE_CBID_cuModuleLoadDataEx
    CUPTI_DRIVER_TRACE_CBID_cuModuleLoadFatBinary
    CUPTI_DRIVER_TRACE_CBID_cuModuleUnload
    CUPTI_DRIVER_TRACE_CBID_cuStreamSynchronize
    CUPTI_DRIVER_TRACE_CBID_cuStreamSynchronize_ptsz
}

launching_calls! {
    ToKernel:
        CUPTI_DRIVER_TRACE_CBID_cuLaunch
        CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel
        CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel_ptsz
        CUPTI_DRIVER_TRACE_CBID_cuLaunchGrid
        CUPTI_DRIVER_TRACE_CBID_cuLaunchGridAsync
        CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel
        CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx
        CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx_ptsz
        CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel_ptsz;
    ToOne:
        CUPTI_DRIVER_TRACE_CBID_cuMemcpy
        CUPTI_DRIVER_TRACE_CBID_cuMemcpy2D
        CUPTI_DRIVER_TRACE_CBID_cuMemcpy2DAsync
        CUPTI_DRIVER_TRACE_CBID_cuMemcpy2DAsync_v2
        CUPTI_DRIVER_TRACE_CBID_cuMemcpy2DAsync_v2_ptsz
        CUPTI_DRIVER_TRACE_CBID_cuMemcpy2DUnaligned
        CUPTI_DRIVER_TRACE_CBID_cuMemcpy2DUnaligned_v2
        CUPTI_DRIVER_TRACE_CBID_cuMemcpy2DUnaligned_v2_ptds
        CUPTI_DRIVER_TRACE_CBID_cuMemcpy2D_v2
        CUPTI_DRIVER_TRACE_CBID_cuMemcpy2D_v2_ptds
        CUPTI_DRIVER_TRACE_CBID_cuMemcpy3D
        CUPTI_DRIVER_TRACE_CBID_cuMemcpy3DAsync
        CUPTI_DRIVER_TRACE_CBID_cuMemcpy3DAsync_v2
        CUPTI_DRIVER_TRACE_CBID_cuMemcpy3DAsync_v2_ptsz
        CUPTI_DRIVER_TRACE_CBID_cuMemcpy3DPeer
        CUPTI_DRIVER_TRACE_CBID_cuMemcpy3DPeerAsync
        CUPTI_DRIVER_TRACE_CBID_cuMemcpy3DPeerAsync_ptsz
        CUPTI_DRIVER_TRACE_CBID_cuMemcpy3DPeer_ptds
        CUPTI_DRIVER_TRACE_CBID_cuMemcpy3DWithAttributesAsync
        CUPTI_DRIVER_TRACE_CBID_cuMemcpy3DWithAttributesAsync_ptsz
        CUPTI_DRIVER_TRACE_CBID_cuMemcpy3D_v2
        CUPTI_DRIVER_TRACE_CBID_cuMemcpy3D_v2_ptds
        CUPTI_DRIVER_TRACE_CBID_cuMemcpyAsync
        CUPTI_DRIVER_TRACE_CBID_cuMemcpyAsync_ptsz
        CUPTI_DRIVER_TRACE_CBID_cuMemcpyAtoA
        CUPTI_DRIVER_TRACE_CBID_cuMemcpyAtoA_v2
        CUPTI_DRIVER_TRACE_CBID_cuMemcpyAtoA_v2_ptds
        CUPTI_DRIVER_TRACE_CBID_cuMemcpyAtoD
        CUPTI_DRIVER_TRACE_CBID_cuMemcpyAtoD_v2
        CUPTI_DRIVER_TRACE_CBID_cuMemcpyAtoD_v2_ptds
        CUPTI_DRIVER_TRACE_CBID_cuMemcpyAtoH
        CUPTI_DRIVER_TRACE_CBID_cuMemcpyAtoHAsync
        CUPTI_DRIVER_TRACE_CBID_cuMemcpyAtoHAsync_v2
        CUPTI_DRIVER_TRACE_CBID_cuMemcpyAtoHAsync_v2_ptsz
        CUPTI_DRIVER_TRACE_CBID_cuMemcpyAtoH_v2
        CUPTI_DRIVER_TRACE_CBID_cuMemcpyAtoH_v2_ptds
        CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoA
        CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoA_v2
        CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoA_v2_ptds
        CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoD
        CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoDAsync
        CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoDAsync_v2
        CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoDAsync_v2_ptsz
        CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoD_v2
        CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoD_v2_ptds
        CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoH
        CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoHAsync
        CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoHAsync_v2
        CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoHAsync_v2_ptsz
        CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoH_v2
        CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoH_v2_ptds
        CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoA
        CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoAAsync
        CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoAAsync_v2
        CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoAAsync_v2_ptsz
        CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoA_v2
        CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoA_v2_ptds
        CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoD
        CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoDAsync
        CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoDAsync_v2
        CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoDAsync_v2_ptsz
        CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoD_v2
        CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoD_v2_ptds
        CUPTI_DRIVER_TRACE_CBID_cuMemcpyPeer
        CUPTI_DRIVER_TRACE_CBID_cuMemcpyPeerAsync
        CUPTI_DRIVER_TRACE_CBID_cuMemcpyPeerAsync_ptsz
        CUPTI_DRIVER_TRACE_CBID_cuMemcpyPeer_ptds
        CUPTI_DRIVER_TRACE_CBID_cuMemcpyWithAttributesAsync
        CUPTI_DRIVER_TRACE_CBID_cuMemcpyWithAttributesAsync_ptsz
        CUPTI_DRIVER_TRACE_CBID_cuMemcpy_ptds
        CUPTI_DRIVER_TRACE_CBID_cuMemsetD16
        CUPTI_DRIVER_TRACE_CBID_cuMemsetD16Async
        CUPTI_DRIVER_TRACE_CBID_cuMemsetD16Async_ptsz
        CUPTI_DRIVER_TRACE_CBID_cuMemsetD16_v2
        CUPTI_DRIVER_TRACE_CBID_cuMemsetD16_v2_ptds
        CUPTI_DRIVER_TRACE_CBID_cuMemsetD2D16
        CUPTI_DRIVER_TRACE_CBID_cuMemsetD2D16Async
        CUPTI_DRIVER_TRACE_CBID_cuMemsetD2D16Async_ptsz
        CUPTI_DRIVER_TRACE_CBID_cuMemsetD2D16_v2
        CUPTI_DRIVER_TRACE_CBID_cuMemsetD2D16_v2_ptds
        CUPTI_DRIVER_TRACE_CBID_cuMemsetD2D32
        CUPTI_DRIVER_TRACE_CBID_cuMemsetD2D32Async
        CUPTI_DRIVER_TRACE_CBID_cuMemsetD2D32Async_ptsz
        CUPTI_DRIVER_TRACE_CBID_cuMemsetD2D32_v2
        CUPTI_DRIVER_TRACE_CBID_cuMemsetD2D32_v2_ptds
        CUPTI_DRIVER_TRACE_CBID_cuMemsetD2D8
        CUPTI_DRIVER_TRACE_CBID_cuMemsetD2D8Async
        CUPTI_DRIVER_TRACE_CBID_cuMemsetD2D8Async_ptsz
        CUPTI_DRIVER_TRACE_CBID_cuMemsetD2D8_v2
        CUPTI_DRIVER_TRACE_CBID_cuMemsetD2D8_v2_ptds
        CUPTI_DRIVER_TRACE_CBID_cuMemsetD32
        CUPTI_DRIVER_TRACE_CBID_cuMemsetD32Async
        CUPTI_DRIVER_TRACE_CBID_cuMemsetD32Async_ptsz
        CUPTI_DRIVER_TRACE_CBID_cuMemsetD32_v2
        CUPTI_DRIVER_TRACE_CBID_cuMemsetD32_v2_ptds
        CUPTI_DRIVER_TRACE_CBID_cuMemsetD8
        CUPTI_DRIVER_TRACE_CBID_cuMemsetD8Async
        CUPTI_DRIVER_TRACE_CBID_cuMemsetD8Async_ptsz
        CUPTI_DRIVER_TRACE_CBID_cuMemsetD8_v2
        CUPTI_DRIVER_TRACE_CBID_cuMemsetD8_v2_ptds;
    ToMany:
        CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernelMultiDevice
        CUPTI_DRIVER_TRACE_CBID_cuMemcpy3DBatchAsync
        CUPTI_DRIVER_TRACE_CBID_cuMemcpy3DBatchAsync_ptsz
        CUPTI_DRIVER_TRACE_CBID_cuMemcpy3DBatchAsync_v2
        CUPTI_DRIVER_TRACE_CBID_cuMemcpy3DBatchAsync_v2_ptsz
        CUPTI_DRIVER_TRACE_CBID_cuMemcpyBatchAsync
        CUPTI_DRIVER_TRACE_CBID_cuMemcpyBatchAsync_ptsz
        CUPTI_DRIVER_TRACE_CBID_cuMemcpyBatchAsync_v2
        CUPTI_DRIVER_TRACE_CBID_cuMemcpyBatchAsync_v2_ptsz;
    ToGraph:
        CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch
        CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch_ptsz;
}

/// What a call that we are told of does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Does {
    /// It launches, and returns at once.
    Launch,
    /// It launches a copy and may wait for it, and so for what is in front of it.
    LaunchAndWait,
    /// It launches nothing and may wait.
    Wait,
    /// It begins to capture a stream into a graph: what is launched meanwhile runs when the graph does.
    BeginCapture,
    /// It ends that.
    EndCapture,
}

/// Every call that begins or ends a capture.
pub(crate) const CAPTURING: &[(Cbid, Does)] = &[
    (Cbid::CUPTI_DRIVER_TRACE_CBID_cuStreamBeginCapture, Does::BeginCapture),
    (Cbid::CUPTI_DRIVER_TRACE_CBID_cuStreamBeginCaptureToCig, Does::BeginCapture),
    (Cbid::CUPTI_DRIVER_TRACE_CBID_cuStreamBeginCaptureToCig_ptsz, Does::BeginCapture),
    (Cbid::CUPTI_DRIVER_TRACE_CBID_cuStreamBeginCaptureToGraph, Does::BeginCapture),
    (Cbid::CUPTI_DRIVER_TRACE_CBID_cuStreamBeginCaptureToGraph_ptsz, Does::BeginCapture),
    (Cbid::CUPTI_DRIVER_TRACE_CBID_cuStreamBeginCapture_ptsz, Does::BeginCapture),
    (Cbid::CUPTI_DRIVER_TRACE_CBID_cuStreamBeginCapture_v2, Does::BeginCapture),
    (Cbid::CUPTI_DRIVER_TRACE_CBID_cuStreamBeginCapture_v2_ptsz, Does::BeginCapture),
    (Cbid::CUPTI_DRIVER_TRACE_CBID_cuStreamEndCapture, Does::EndCapture),
    (Cbid::CUPTI_DRIVER_TRACE_CBID_cuStreamEndCaptureToCig, Does::EndCapture),
    (Cbid::CUPTI_DRIVER_TRACE_CBID_cuStreamEndCaptureToCig_ptsz, Does::EndCapture),
    (Cbid::CUPTI_DRIVER_TRACE_CBID_cuStreamEndCapture_ptsz, Does::EndCapture),
];

/// What the call with this id does; ids that are in no list launch.
#[inline]
pub(crate) fn does(cbid: u32) -> Does {
    /// Above all ids that there are.
    const IDS: usize = 1_024;
    static DOES: LazyLock<[Does; IDS]> = LazyLock::new(|| {
        let mut does = [Does::Launch; IDS];
        let mut set = |cbid: Cbid, what| {
            if let Some(does) = does.get_mut(cbid.0 as usize) {
                *does = what;
            }
        };
        for ((cbid, _), name) in LAUNCHING.iter().zip(LAUNCHING_NAMES) {
            if name.contains("Memcpy") && !name.contains("Async") {
                set(*cbid, Does::LaunchAndWait);
            }
        }
        WAITING.iter().for_each(|cbid| set(*cbid, Does::Wait));
        CAPTURING.iter().for_each(|(cbid, captures)| set(*cbid, *captures));
        does
    });
    DOES.get(cbid as usize).copied().unwrap_or(Does::Launch)
}

/// The driver's name of a call of either list.
pub(crate) fn name_of(cbid: u32) -> Option<&'static str> {
    let launching = LAUNCHING.iter().map(|(cbid, _)| cbid).zip(LAUNCHING_NAMES);
    let mut all = launching.chain(WAITING.iter().zip(WAITING_NAMES));
    let (_, name) = all.find(|(known, _)| known.0 == cbid)?;
    name.strip_prefix("CUPTI_DRIVER_TRACE_CBID_")
}

/// [`LAUNCHING`] for look-up by id.
pub(crate) struct LeadsTable(Vec<Leads>);

impl LeadsTable {
    pub fn new() -> Self {
        let highest = LAUNCHING.iter().map(|(cbid, _)| cbid.0).max().unwrap_or(0);
        let mut table = vec![Leads::ToOne; highest as usize + 1];
        for (cbid, leads) in LAUNCHING {
            table[cbid.0 as usize] = *leads;
        }
        Self(table)
    }

    /// What the call with this id can lead to; one record for ids that are not in the table.
    pub fn of(&self, cbid: u32) -> Leads {
        self.0.get(cbid as usize).copied().unwrap_or(Leads::ToOne)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_the_headers() {
        assert_eq!(Cbid::CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel.0, 307);
        assert_eq!(Cbid::CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel_ptsz.0, 442);
        assert_eq!(Cbid::CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx.0, 652);
        let table = LeadsTable::new();
        assert_eq!(table.of(514), Leads::ToGraph);
        assert_eq!(table.of(307), Leads::ToKernel);
        assert_eq!(table.of(u32::MAX), Leads::ToOne);
    }

    #[test]
    fn every_call_stands_once_in_the_table() {
        let mut ids: Vec<u32> = LAUNCHING.iter().map(|(cbid, _)| cbid.0).collect();
        ids.extend(WAITING.iter().map(|cbid| cbid.0));
        ids.extend(CAPTURING.iter().map(|(cbid, _)| cbid.0));
        ids.sort_unstable();
        let before = ids.len();
        ids.dedup();
        assert_eq!(ids.len(), before, "an id stands twice in the table");
    }

    #[test]
    fn calls_that_wait_are_known_and_have_names() {
        assert_eq!(does(Cbid::CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel.0), Does::Launch);
        assert_eq!(does(Cbid::CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoHAsync_v2.0), Does::Launch);
        assert_eq!(does(Cbid::CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoH_v2.0), Does::LaunchAndWait);
        assert_eq!(does(Cbid::CUPTI_DRIVER_TRACE_CBID_cuStreamSynchronize.0), Does::Wait);
        assert_eq!(does(u32::MAX), Does::Launch);
        assert!(CAPTURING.iter().all(|(cbid, captures)| does(cbid.0) == *captures));
        let known = LAUNCHING.iter().map(|(cbid, _)| cbid).chain(WAITING);
        assert!(known.clone().all(|cbid| cbid.0 < 1_024), "an id is beyond the table");
        assert!(known.clone().all(|cbid| name_of(cbid.0).is_some_and(|name| name.starts_with("cu"))));
        assert_eq!(name_of(Cbid::CUPTI_DRIVER_TRACE_CBID_cuStreamSynchronize.0), Some("cuStreamSynchronize"));
    }
}
