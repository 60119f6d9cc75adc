//! The function table: every CUPTI function that a profiler may use, each absent in some version.
//!
//! The fields of [`Symbols`] have the C names. An absent function is `None`; what to do then is the caller's decision,
//! and [`SymbolInfo::since`] gives the error message its "needs CUPTI 12.6". A function that is present may still
//! answer `CUPTI_ERROR_NOT_SUPPORTED`.
//!
//! Each signature is compared with the generated declaration at compile time, so that the table cannot drift from the
//! headers. The comparison is a constant that is never emitted: nothing refers to libcupti at link time.
#![expect(unsafe_code, reason = "looks functions up by name and gives them their declared type")]

use core::ffi::{c_char, c_int, c_void};
use core::fmt;

use libloading::Library;

use crate::bindings::*;
use crate::version::Release;

/// What is known of a function without loading a library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SymbolInfo {
    /// The C name.
    pub name: &'static str,
    /// The first release that was seen to export it, among 12.0, 12.4, 12.6, 12.8, 12.9, 13.0, 13.4 and 13.5. A release
    /// between two of these may have it already: probe, and use this for messages only.
    pub since: Release,
}

/// The export table that NVTX hands to an injected library: gives the table with an id, or NULL.
pub type NvtxGetExportTable = unsafe extern "C" fn(export_table_id: u32) -> *const c_void;

/// The entry point through which NVTX installs a handler; returns 1 if it was installed.
pub type InitializeInjectionNvtx2Fn = unsafe extern "C" fn(Option<NvtxGetExportTable>) -> c_int;

/// Names that a file must export to be taken for libcupti: what no profiler can do without. A stub or a foreign file
/// of the same name lacks them.
pub const REQUIRED: [&str; 10] = [
    "cuptiGetVersion",
    "cuptiGetTimestamp",
    "cuptiSubscribe",
    "cuptiUnsubscribe",
    "cuptiEnableCallback",
    "cuptiActivityEnable",
    "cuptiActivityDisable",
    "cuptiActivityRegisterCallbacks",
    "cuptiActivityGetNextRecord",
    "cuptiActivityFlushAll",
];

macro_rules! symbols {
    ($(since ($major:literal, $minor:literal) {
        $($name:ident($($arg:ident: $ty:ty),* $(,)?);)+
    })+) => {
        /// The functions of one loaded library.
        #[allow(non_snake_case, reason = "the fields have the names of the C functions")]
        #[derive(Clone)]
        pub struct Symbols {
            $($(
                #[doc = concat!("`", stringify!($name), "`, from ", $major, ".", $minor, " on.")]
                pub $name: Option<unsafe extern "C" fn($($arg: $ty),*) -> CUptiResult>,
            )+)+
            /// The library's own NVTX handler. No header declares it; NVTX calls it in a library that is named by
            /// `NVTX_INJECTION64_PATH`.
            pub InitializeInjectionNvtx2: Option<InitializeInjectionNvtx2Fn>,
        }

        // The table against the headers: a different signature does not compile.
        $($(const _: unsafe extern "C" fn($($ty),*) -> CUptiResult = $name;)+)+

        impl Symbols {
            /// Every function of the table, in its order.
            pub const ALL: &'static [SymbolInfo] = &[
                $($(SymbolInfo { name: stringify!($name), since: Release::new($major, $minor) },)+)+
                SymbolInfo { name: "InitializeInjectionNvtx2", since: Release::new(12, 0) },
            ];

            /// A table without any function, to be filled by a test with its own.
            pub const fn empty() -> Self {
                Self { $($($name: None,)+)+ InitializeInjectionNvtx2: None }
            }

            /// Looks every function up. None is called.
            ///
            /// The library is borrowed for ever, since the functions are good for as long as it stays loaded.
            pub fn load(library: &'static Library) -> Self {
                Self {
                    $($(
                        // SAFETY: the type is compared with the header's declaration of the same name above.
                        $name: unsafe { find(library, concat!(stringify!($name), "\0")) },
                    )+)+
                    // SAFETY: the type is that of NVTX's own header, whose loader calls the function by this name.
                    InitializeInjectionNvtx2: unsafe { find(library, "InitializeInjectionNvtx2\0") },
                }
            }

            /// Each function, with whether the library has it, in the order of [`ALL`](Self::ALL).
            pub fn iter(&self) -> impl Iterator<Item = (&'static SymbolInfo, bool)> {
                let present = [
                    $($(self.$name.is_some(),)+)+
                    self.InitializeInjectionNvtx2.is_some(),
                ];
                Self::ALL.iter().zip(present)
            }
        }
    };
}

symbols! {
    // Version, errors, time.
    since (12, 0) {
        cuptiGetVersion(version: *mut u32);
        cuptiGetResultString(result: CUptiResult, text: *mut *const c_char);
        cuptiGetTimestamp(timestamp: *mut u64);
        cuptiFinalize();
    }
    since (12, 4) {
        cuptiGetErrorMessage(result: CUptiResult, text: *mut *const c_char);
    }
    since (13, 4) {
        cuptiGetTimestamp_v2(subscriber: CUpti_SubscriberHandle, timestamp: *mut u64);
        cuptiIsTracingSessionRunning(isRunning: *mut u8);
    }
    // Callbacks.
    since (12, 0) {
        cuptiSubscribe(
            subscriber: *mut CUpti_SubscriberHandle,
            callback: CUpti_CallbackFunc,
            userdata: *mut c_void,
        );
        cuptiUnsubscribe(subscriber: CUpti_SubscriberHandle);
        cuptiSupportedDomains(domainCount: *mut usize, domainTable: *mut CUpti_DomainTable);
        cuptiGetCallbackState(
            enable: *mut u32,
            subscriber: CUpti_SubscriberHandle,
            domain: CUpti_CallbackDomain,
            cbid: CUpti_CallbackId,
        );
        cuptiEnableCallback(
            enable: u32,
            subscriber: CUpti_SubscriberHandle,
            domain: CUpti_CallbackDomain,
            cbid: CUpti_CallbackId,
        );
        cuptiEnableDomain(enable: u32, subscriber: CUpti_SubscriberHandle, domain: CUpti_CallbackDomain);
        cuptiEnableAllDomains(enable: u32, subscriber: CUpti_SubscriberHandle);
        cuptiGetCallbackName(domain: CUpti_CallbackDomain, cbid: u32, name: *mut *const c_char);
    }
    since (13, 0) {
        cuptiSubscribe_v2(
            subscriber: *mut CUpti_SubscriberHandle,
            callback: CUpti_CallbackFunc,
            userdata: *mut c_void,
            pParams: *mut CUpti_SubscriberParams,
        );
    }
    since (13, 4) {
        cuptiGetEnabledCallbacks(
            subscriber: CUpti_SubscriberHandle,
            domain: CUpti_CallbackDomain,
            buffer: *mut CUpti_CallbackId,
            bufferSize: *mut u32,
            enabledCallbacksCount: *mut u32,
        );
    }
    // Ids of what a callback or a record is about.
    since (12, 0) {
        cuptiGetContextId(context: CUcontext, contextId: *mut u32);
        cuptiGetStreamId(context: CUcontext, stream: CUstream, streamId: *mut u32);
        cuptiGetStreamIdEx(context: CUcontext, stream: CUstream, perThreadStream: u8, streamId: *mut u32);
        cuptiGetDeviceId(context: CUcontext, deviceId: *mut u32);
        cuptiGetGraphId(graph: CUgraph, pId: *mut u32);
        cuptiGetGraphNodeId(node: CUgraphNode, nodeId: *mut u64);
    }
    since (12, 4) {
        cuptiGetGraphExecId(graphExec: CUgraphExec, pId: *mut u32);
    }
    since (13, 4) {
        cuptiGetCudaEventId(event: CUevent, pEventId: *mut u32);
    }
    // Activity records.
    since (12, 0) {
        cuptiActivityEnable(kind: CUpti_ActivityKind);
        cuptiActivityEnableAndDump(kind: CUpti_ActivityKind);
        cuptiActivityDisable(kind: CUpti_ActivityKind);
        cuptiActivityRegisterCallbacks(
            funcBufferRequested: CUpti_BuffersCallbackRequestFunc,
            funcBufferCompleted: CUpti_BuffersCallbackCompleteFunc,
        );
        cuptiActivityGetNextRecord(
            buffer: *mut u8,
            validBufferSizeBytes: usize,
            record: *mut *mut CUpti_Activity,
        );
        cuptiActivityGetNumDroppedRecords(context: CUcontext, streamId: u32, dropped: *mut usize);
        cuptiActivityFlushAll(flag: u32);
        cuptiActivityFlushPeriod(time: u32);
        cuptiActivityGetAttribute(attr: CUpti_ActivityAttribute, valueSize: *mut usize, value: *mut c_void);
        cuptiActivitySetAttribute(attr: CUpti_ActivityAttribute, valueSize: *mut usize, value: *mut c_void);
        cuptiActivityRegisterTimestampCallback(funcTimestamp: CUpti_TimestampCallbackFunc);
        cuptiActivityEnableLatencyTimestamps(enable: u8);
        cuptiActivityEnableLaunchAttributes(enable: u8);
        cuptiActivityPushExternalCorrelationId(kind: CUpti_ExternalCorrelationKind, id: u64);
        cuptiActivityPopExternalCorrelationId(kind: CUpti_ExternalCorrelationKind, lastId: *mut u64);
        cuptiActivityConfigureUnifiedMemoryCounter(
            config: *mut CUpti_ActivityUnifiedMemoryCounterConfig,
            count: u32,
        );
        cuptiSetThreadIdType(kind: CUpti_ActivityThreadIdType);
        cuptiGetThreadIdType(kind: *mut CUpti_ActivityThreadIdType);
    }
    since (12, 4) {
        cuptiActivityEnableDeviceGraph(enable: u8);
    }
    since (12, 6) {
        cuptiActivityEnableDriverApi(cbid: CUpti_CallbackId, enable: u8);
        cuptiActivityEnableRuntimeApi(cbid: CUpti_CallbackId, enable: u8);
        cuptiActivityEnableAllocationSource(enable: u8);
    }
    since (12, 8) {
        cuptiActivityEnableAllSyncRecords(enable: u8);
        cuptiActivityEnableHWTrace(enable: u8);
    }
    since (13, 0) {
        cuptiActivityEnableCudaEventDeviceTimestamps(enable: u8);
    }
    since (13, 4) {
        cuptiActivityGetStructSize(
            activityKind: CUpti_ActivityKind,
            version: u32,
            activityStructSize: *mut usize,
        );
        cuptiActivityGetEnabledKinds(
            subscriber: CUpti_SubscriberHandle,
            buffer: *mut CUpti_ActivityKind,
            bufferSize: *mut u32,
            enabledKindsCount: *mut u32,
        );
        cuptiActivityEnable_v2(
            subscriber: CUpti_SubscriberHandle,
            kind: CUpti_ActivityKind,
            pActivityConfig: *mut CUpti_ActivityConfig,
        );
        cuptiActivityDisable_v2(
            subscriber: CUpti_SubscriberHandle,
            kind: CUpti_ActivityKind,
            pActivityConfig: *mut CUpti_ActivityConfig,
        );
        cuptiActivityEnableAndDump_v2(
            subscriber: CUpti_SubscriberHandle,
            kind: CUpti_ActivityKind,
            activityConfig: *mut CUpti_ActivityConfig,
        );
        cuptiActivityRegisterCallbacks_v2(
            subscriber: CUpti_SubscriberHandle,
            funcBufferRequested: CUpti_BuffersCallbackRequestFunc_v2,
            funcBufferCompleted: CUpti_BuffersCallbackCompleteFunc_v2,
        );
        cuptiActivityGetNextRecord_v2(
            subscriber: CUpti_SubscriberHandle,
            buffer: *mut u8,
            validBufferSizeBytes: usize,
            record: *mut *mut CUpti_Activity,
        );
        cuptiActivityGetNumDroppedRecords_v2(
            subscriber: CUpti_SubscriberHandle,
            context: CUcontext,
            streamId: u32,
            dropped: *mut usize,
        );
        cuptiActivityGetAttribute_v2(
            subscriber: CUpti_SubscriberHandle,
            attr: CUpti_ActivityAttribute,
            valueSize: *mut usize,
            value: *mut c_void,
        );
        cuptiActivitySetAttribute_v2(
            subscriber: CUpti_SubscriberHandle,
            attr: CUpti_ActivityAttribute,
            valueSize: *mut usize,
            value: *mut c_void,
        );
        cuptiActivityPushExternalCorrelationId_v2(
            subscriber: CUpti_SubscriberHandle,
            kind: CUpti_ExternalCorrelationKind,
            id: u64,
        );
        cuptiActivityPopExternalCorrelationId_v2(
            subscriber: CUpti_SubscriberHandle,
            kind: CUpti_ExternalCorrelationKind,
            lastId: *mut u64,
        );
        cuptiActivityEnableDriverApi_v2(
            subscriber: CUpti_SubscriberHandle,
            cbid: CUpti_CallbackId,
            enable: u8,
        );
        cuptiActivityEnableRuntimeApi_v2(
            subscriber: CUpti_SubscriberHandle,
            cbid: CUpti_CallbackId,
            enable: u8,
        );
    }
    // Devices, and what may be profiled on them.
    since (12, 0) {
        cuptiProfilerInitialize(pParams: *mut CUpti_Profiler_Initialize_Params);
        cuptiProfilerDeInitialize(pParams: *mut CUpti_Profiler_DeInitialize_Params);
        cuptiProfilerDeviceSupported(pParams: *mut CUpti_Profiler_DeviceSupported_Params);
        cuptiProfilerGetCounterAvailability(pParams: *mut CUpti_Profiler_GetCounterAvailability_Params);
        cuptiDeviceGetChipName(pParams: *mut CUpti_Device_GetChipName_Params);
        cuptiDeviceVirtualizationMode(dev: CUdevice, mode: *mut CUpti_DeviceVirtualizationMode);
    }
    // Metrics on the host: names, passes, evaluation.
    since (12, 6) {
        cuptiProfilerHostInitialize(pParams: *mut CUpti_Profiler_Host_Initialize_Params);
        cuptiProfilerHostDeinitialize(pParams: *mut CUpti_Profiler_Host_Deinitialize_Params);
        cuptiProfilerHostGetSupportedChips(pParams: *mut CUpti_Profiler_Host_GetSupportedChips_Params);
        cuptiProfilerHostGetBaseMetrics(pParams: *mut CUpti_Profiler_Host_GetBaseMetrics_Params);
        cuptiProfilerHostGetSubMetrics(pParams: *mut CUpti_Profiler_Host_GetSubMetrics_Params);
        cuptiProfilerHostGetMetricProperties(pParams: *mut CUpti_Profiler_Host_GetMetricProperties_Params);
        cuptiProfilerHostGetRangeName(pParams: *mut CUpti_Profiler_Host_GetRangeName_Params);
        cuptiProfilerHostEvaluateToGpuValues(pParams: *mut CUpti_Profiler_Host_EvaluateToGpuValues_Params);
        cuptiProfilerHostConfigAddMetrics(pParams: *mut CUpti_Profiler_Host_ConfigAddMetrics_Params);
        cuptiProfilerHostGetConfigImageSize(pParams: *mut CUpti_Profiler_Host_GetConfigImageSize_Params);
        cuptiProfilerHostGetConfigImage(pParams: *mut CUpti_Profiler_Host_GetConfigImage_Params);
        cuptiProfilerHostGetNumOfPasses(pParams: *mut CUpti_Profiler_Host_GetNumOfPasses_Params);
        cuptiProfilerHostGetMaxNumHardwareMetricsPerPass(
            pParams: *mut CUpti_Profiler_Host_GetMaxNumHardwareMetricsPerPass_Params,
        );
    }
    since (13, 4) {
        cuptiProfilerHostGetSinglePassSets(pParams: *mut CUpti_Profiler_Host_GetSinglePassSets_Params);
        cuptiProfilerHostGetMetricsInSinglePassSet(
            pParams: *mut CUpti_Profiler_Host_GetMetricsInSinglePassSet_Params,
        );
        cuptiProfilerHostSetDevicePartitionInfo(
            pParams: *mut CUpti_Profiler_Host_SetDevicePartitionInfo_Params,
        );
    }
    // Counters of ranges.
    since (12, 6) {
        cuptiRangeProfilerSetConfig(pParams: *mut CUpti_RangeProfiler_SetConfig_Params);
        cuptiRangeProfilerEnable(pParams: *mut CUpti_RangeProfiler_Enable_Params);
        cuptiRangeProfilerDisable(pParams: *mut CUpti_RangeProfiler_Disable_Params);
        cuptiRangeProfilerStart(pParams: *mut CUpti_RangeProfiler_Start_Params);
        cuptiRangeProfilerStop(pParams: *mut CUpti_RangeProfiler_Stop_Params);
        cuptiRangeProfilerPushRange(pParams: *mut CUpti_RangeProfiler_PushRange_Params);
        cuptiRangeProfilerPopRange(pParams: *mut CUpti_RangeProfiler_PopRange_Params);
        cuptiRangeProfilerDecodeData(pParams: *mut CUpti_RangeProfiler_DecodeData_Params);
        cuptiRangeProfilerGetCounterDataSize(pParams: *mut CUpti_RangeProfiler_GetCounterDataSize_Params);
        cuptiRangeProfilerCounterDataImageInitialize(
            pParams: *mut CUpti_RangeProfiler_CounterDataImage_Initialize_Params,
        );
        cuptiRangeProfilerGetCounterDataInfo(pParams: *mut CUpti_RangeProfiler_GetCounterDataInfo_Params);
        cuptiRangeProfilerCounterDataGetRangeInfo(
            pParams: *mut CUpti_RangeProfiler_CounterData_GetRangeInfo_Params,
        );
    }
    since (13, 4) {
        cuptiRangeProfilerGetDevicePartitionInfo(
            pParams: *mut CUpti_RangeProfiler_GetDevicePartitionInfo_Params,
        );
    }
    // Clocks.
    since (13, 4) {
        cuptiClockControlGetStatus(ctx: CUcontext, pStatus: *mut CUpti_ClockControl_Status);
        cuptiClockControlLock(ctx: CUcontext, mode: CUpti_ClockControl_Mode);
        cuptiClockControlUnlock();
    }
    // Samples of the whole device over time.
    since (12, 6) {
        cuptiPmSamplingSetConfig(pParams: *mut CUpti_PmSampling_SetConfig_Params);
        cuptiPmSamplingEnable(pParams: *mut CUpti_PmSampling_Enable_Params);
        cuptiPmSamplingDisable(pParams: *mut CUpti_PmSampling_Disable_Params);
        cuptiPmSamplingStart(pParams: *mut CUpti_PmSampling_Start_Params);
        cuptiPmSamplingStop(pParams: *mut CUpti_PmSampling_Stop_Params);
        cuptiPmSamplingDecodeData(pParams: *mut CUpti_PmSampling_DecodeData_Params);
        cuptiPmSamplingGetCounterAvailability(pParams: *mut CUpti_PmSampling_GetCounterAvailability_Params);
        cuptiPmSamplingGetCounterDataSize(pParams: *mut CUpti_PmSampling_GetCounterDataSize_Params);
        cuptiPmSamplingCounterDataImageInitialize(
            pParams: *mut CUpti_PmSampling_CounterDataImage_Initialize_Params,
        );
        cuptiPmSamplingGetCounterDataInfo(pParams: *mut CUpti_PmSampling_GetCounterDataInfo_Params);
        cuptiPmSamplingCounterDataGetSampleInfo(
            pParams: *mut CUpti_PmSampling_CounterData_GetSampleInfo_Params,
        );
    }
    // Samples of program counters.
    since (12, 0) {
        cuptiPCSamplingSetConfigurationAttribute(pParams: *mut CUpti_PCSamplingConfigurationInfoParams);
        cuptiPCSamplingGetConfigurationAttribute(pParams: *mut CUpti_PCSamplingConfigurationInfoParams);
        cuptiPCSamplingGetData(pParams: *mut CUpti_PCSamplingGetDataParams);
        cuptiPCSamplingEnable(pParams: *mut CUpti_PCSamplingEnableParams);
        cuptiPCSamplingDisable(pParams: *mut CUpti_PCSamplingDisableParams);
        cuptiPCSamplingStart(pParams: *mut CUpti_PCSamplingStartParams);
        cuptiPCSamplingStop(pParams: *mut CUpti_PCSamplingStopParams);
        cuptiPCSamplingGetNumStallReasons(pParams: *mut CUpti_PCSamplingGetNumStallReasonsParams);
        cuptiPCSamplingGetStallReasons(pParams: *mut CUpti_PCSamplingGetStallReasonsParams);
        cuptiGetSassToSourceCorrelation(pParams: *mut CUpti_GetSassToSourceCorrelationParams);
        cuptiGetCubinCrc(pParams: *mut CUpti_GetCubinCrcParams);
    }
    // Counts per instruction, by patched code.
    since (12, 4) {
        cuptiSassMetricsGetNumOfMetrics(pParams: *mut CUpti_SassMetrics_GetNumOfMetrics_Params);
        cuptiSassMetricsGetMetrics(pParams: *mut CUpti_SassMetrics_GetMetrics_Params);
        cuptiSassMetricsGetProperties(pParams: *mut CUpti_SassMetrics_GetProperties_Params);
        cuptiSassMetricsSetConfig(pParams: *mut CUpti_SassMetricsSetConfig_Params);
        cuptiSassMetricsUnsetConfig(pParams: *mut CUpti_SassMetricsUnsetConfig_Params);
        cuptiSassMetricsEnable(pParams: *mut CUpti_SassMetricsEnable_Params);
        cuptiSassMetricsDisable(pParams: *mut CUpti_SassMetricsDisable_Params);
        cuptiSassMetricsGetDataProperties(pParams: *mut CUpti_SassMetricsGetDataProperties_Params);
        cuptiSassMetricsFlushData(pParams: *mut CUpti_SassMetricsFlushData_Params);
    }
}

impl Symbols {
    /// The functions that the library lacks, in the order of [`ALL`](Self::ALL).
    pub fn missing(&self) -> impl Iterator<Item = &'static SymbolInfo> {
        self.iter().filter(|(_, present)| !present).map(|(info, _)| info)
    }

    /// Whether the library has this function; `false` for a name that is not in the table.
    pub fn has(&self, name: &str) -> bool {
        self.iter().any(|(info, present)| present && info.name == name)
    }

    /// What is known of the function with this name; `None` for a name that is not in the table.
    pub fn info(name: &str) -> Option<&'static SymbolInfo> {
        Self::ALL.iter().find(|info| info.name == name)
    }
}

impl fmt::Debug for Symbols {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let missing: Vec<_> = self.missing().map(|info| info.name).collect();
        f.debug_struct("Symbols")
            .field("present", &(Self::ALL.len() - missing.len()))
            .field("missing", &missing)
            .finish()
    }
}

/// The function with this name, which ends in a zero byte.
///
/// # Safety
///
/// `F` is the type of a function pointer, and the library's function of this name, if it has one, is of this type.
unsafe fn find<F: Copy>(library: &'static Library, name: &'static str) -> Option<F> {
    // SAFETY: the caller promises the type.
    let symbol = unsafe { library.get::<F>(name) };
    symbol.ok().map(|symbol| *symbol)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn required_functions_are_in_the_table() {
        for name in REQUIRED {
            assert!(Symbols::info(name).is_some_and(|info| info.since == Release::new(12, 0)), "{name}");
        }
    }

    #[test]
    fn no_function_is_listed_twice() {
        let mut names: Vec<_> = Symbols::ALL.iter().map(|info| info.name).collect();
        let listed = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), listed);
    }

    #[test]
    fn a_function_that_is_put_in_is_found() {
        unsafe extern "C" fn version(_number: *mut u32) -> CUptiResult {
            CUptiResult::CUPTI_SUCCESS
        }
        let symbols = Symbols { cuptiGetVersion: Some(version), ..Symbols::empty() };
        assert!(symbols.has("cuptiGetVersion") && !symbols.has("cuptiGetTimestamp"));
        assert_eq!(symbols.missing().count(), Symbols::ALL.len() - 1);
    }

    #[test]
    fn a_foreign_library_has_none_of_them() {
        // This very program: a library without any CUPTI function.
        let symbols = Symbols::load(Box::leak(Box::new(libloading::os::unix::Library::this().into())));
        assert_eq!(symbols.missing().count(), Symbols::ALL.len());
        assert!(!symbols.has("cuptiGetVersion"));
        assert!(format!("{symbols:?}").starts_with("Symbols { present: 0, missing: [\"cuptiGetVersion\""));
    }
}
