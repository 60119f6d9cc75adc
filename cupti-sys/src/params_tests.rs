//! The sizes against numbers that a C program over the same headers, and over older ones, prints.

use super::*;

#[test]
fn struct_sizes_are_those_of_the_c_macros() {
    let measured = [
        (CUpti_ActivityConfig_STRUCT_SIZE, 40),
        (CUpti_Device_GetChipName_Params_STRUCT_SIZE, 32),
        (CUpti_GetCubinCrcParams_STRUCT_SIZE, 32),
        (CUpti_GetSassToSourceCorrelationParams_STRUCT_SIZE, 64),
        (CUpti_PCSamplingConfigurationInfoParams_STRUCT_SIZE, 40),
        (CUpti_PCSamplingDisableParams_STRUCT_SIZE, 24),
        (CUpti_PCSamplingEnableParams_STRUCT_SIZE, 24),
        (CUpti_PCSamplingGetDataParams_STRUCT_SIZE, 32),
        (CUpti_PCSamplingGetNumStallReasonsParams_STRUCT_SIZE, 32),
        (CUpti_PCSamplingGetStallReasonsParams_STRUCT_SIZE, 48),
        (CUpti_PCSamplingStartParams_STRUCT_SIZE, 24),
        (CUpti_PCSamplingStopParams_STRUCT_SIZE, 24),
        (CUpti_PmSampling_CounterDataImage_Initialize_Params_STRUCT_SIZE, 40),
        (CUpti_PmSampling_CounterData_GetSampleInfo_Params_STRUCT_SIZE, 64),
        (CUpti_PmSampling_DecodeData_Params_STRUCT_SIZE, 45),
        (CUpti_PmSampling_Disable_Params_STRUCT_SIZE, 24),
        (CUpti_PmSampling_Enable_Params_STRUCT_SIZE, 32),
        (CUpti_PmSampling_GetCounterAvailability_Params_STRUCT_SIZE, 40),
        (CUpti_PmSampling_GetCounterDataInfo_Params_STRUCT_SIZE, 56),
        (CUpti_PmSampling_GetCounterDataSize_Params_STRUCT_SIZE, 56),
        (CUpti_PmSampling_SetConfig_Params_STRUCT_SIZE, 64),
        (CUpti_PmSampling_Start_Params_STRUCT_SIZE, 24),
        (CUpti_PmSampling_Stop_Params_STRUCT_SIZE, 24),
        (CUpti_Profiler_BeginPass_Params_STRUCT_SIZE, 24),
        (CUpti_Profiler_BeginSession_Params_STRUCT_SIZE, 96),
        (CUpti_Profiler_CounterDataImageOptions_STRUCT_SIZE, 44),
        (CUpti_Profiler_CounterDataImage_CalculateScratchBufferSize_Params_STRUCT_SIZE, 40),
        (CUpti_Profiler_CounterDataImage_CalculateSize_Params_STRUCT_SIZE, 40),
        (CUpti_Profiler_CounterDataImage_InitializeScratchBuffer_Params_STRUCT_SIZE, 48),
        (CUpti_Profiler_CounterDataImage_Initialize_Params_STRUCT_SIZE, 48),
        (CUpti_Profiler_DeInitialize_Params_STRUCT_SIZE, 16),
        (CUpti_Profiler_DeviceSupported_Params_STRUCT_SIZE, 56),
        (CUpti_Profiler_DisableProfiling_Params_STRUCT_SIZE, 24),
        (CUpti_Profiler_EnableProfiling_Params_STRUCT_SIZE, 24),
        (CUpti_Profiler_EndPass_Params_STRUCT_SIZE, 41),
        (CUpti_Profiler_EndSession_Params_STRUCT_SIZE, 24),
        (CUpti_Profiler_FlushCounterData_Params_STRUCT_SIZE, 40),
        (CUpti_Profiler_GetCounterAvailability_Params_STRUCT_SIZE, 41),
        (CUpti_Profiler_Host_ConfigAddMetrics_Params_STRUCT_SIZE, 40),
        (CUpti_Profiler_Host_Deinitialize_Params_STRUCT_SIZE, 24),
        (CUpti_Profiler_Host_EvaluateToGpuValues_Params_STRUCT_SIZE, 72),
        (CUpti_Profiler_Host_GetBaseMetrics_Params_STRUCT_SIZE, 48),
        (CUpti_Profiler_Host_GetConfigImageSize_Params_STRUCT_SIZE, 32),
        (CUpti_Profiler_Host_GetConfigImage_Params_STRUCT_SIZE, 40),
        (CUpti_Profiler_Host_GetMaxNumHardwareMetricsPerPass_Params_STRUCT_SIZE, 48),
        (CUpti_Profiler_Host_GetMetricProperties_Params_STRUCT_SIZE, 64),
        (CUpti_Profiler_Host_GetMetricsInSinglePassSet_Params_STRUCT_SIZE, 64),
        (CUpti_Profiler_Host_GetNumOfPasses_Params_STRUCT_SIZE, 40),
        (CUpti_Profiler_Host_GetRangeName_Params_STRUCT_SIZE, 56),
        (CUpti_Profiler_Host_GetSinglePassSets_Params_STRUCT_SIZE, 40),
        (CUpti_Profiler_Host_GetSubMetrics_Params_STRUCT_SIZE, 56),
        (CUpti_Profiler_Host_GetSupportedChips_Params_STRUCT_SIZE, 32),
        (CUpti_Profiler_Host_Initialize_Params_STRUCT_SIZE, 56),
        (CUpti_Profiler_Host_SetDevicePartitionInfo_Params_STRUCT_SIZE, 40),
        (CUpti_Profiler_Initialize_Params_STRUCT_SIZE, 16),
        (CUpti_Profiler_IsPassCollected_Params_STRUCT_SIZE, 42),
        (CUpti_Profiler_PopRange_Params_STRUCT_SIZE, 24),
        (CUpti_Profiler_PushRange_Params_STRUCT_SIZE, 40),
        (CUpti_Profiler_SetConfig_Params_STRUCT_SIZE, 58),
        (CUpti_Profiler_UnsetConfig_Params_STRUCT_SIZE, 24),
        (CUpti_RangeProfiler_CounterDataImage_Initialize_Params_STRUCT_SIZE, 40),
        (CUpti_RangeProfiler_CounterData_GetRangeInfo_Params_STRUCT_SIZE, 56),
        (CUpti_RangeProfiler_DecodeData_Params_STRUCT_SIZE, 32),
        (CUpti_RangeProfiler_Disable_Params_STRUCT_SIZE, 24),
        (CUpti_RangeProfiler_Enable_Params_STRUCT_SIZE, 36),
        (CUpti_RangeProfiler_GetCounterDataInfo_Params_STRUCT_SIZE, 40),
        (CUpti_RangeProfiler_GetCounterDataSize_Params_STRUCT_SIZE, 64),
        (CUpti_RangeProfiler_GetDevicePartitionInfo_Params_STRUCT_SIZE, 40),
        (CUpti_RangeProfiler_PopRange_Params_STRUCT_SIZE, 24),
        (CUpti_RangeProfiler_PushRange_Params_STRUCT_SIZE, 32),
        (CUpti_RangeProfiler_SetConfig_Params_STRUCT_SIZE, 90),
        (CUpti_RangeProfiler_Start_Params_STRUCT_SIZE, 24),
        (CUpti_RangeProfiler_Stop_Params_STRUCT_SIZE, 41),
        (CUpti_SassMetricsDisable_Params_STRUCT_SIZE, 32),
        (CUpti_SassMetricsEnable_Params_STRUCT_SIZE, 25),
        (CUpti_SassMetricsFlushData_Params_STRUCT_SIZE, 40),
        (CUpti_SassMetricsGetDataProperties_Params_STRUCT_SIZE, 40),
        (CUpti_SassMetricsSetConfig_Params_STRUCT_SIZE, 36),
        (CUpti_SassMetricsUnsetConfig_Params_STRUCT_SIZE, 20),
        (CUpti_SassMetrics_GetMetrics_Params_STRUCT_SIZE, 40),
        (CUpti_SassMetrics_GetNumOfMetrics_Params_STRUCT_SIZE, 32),
        (CUpti_SassMetrics_GetProperties_Params_STRUCT_SIZE, 56),
        (CUpti_SassMetrics_InstanceValue_STRUCT_SIZE, 16),
        (CUpti_SubscriberParams_STRUCT_SIZE, 40),
    ];
    for (index, (constant, c)) in measured.into_iter().enumerate() {
        assert_eq!(constant, c, "line {index} of the table");
    }
}

#[test]
fn struct_sizes_are_not_the_sizes_of_the_structs() {
    assert_eq!(size_of::<CUpti_PmSampling_DecodeData_Params>(), 48);
    assert_eq!(CUpti_PmSampling_DecodeData_Params_STRUCT_SIZE, 45);
    assert_eq!(size_of::<CUpti_RangeProfiler_SetConfig_Params>(), 96);
    assert_eq!(CUpti_RangeProfiler_SetConfig_Params_STRUCT_SIZE, 90);
}

#[test]
fn each_version_gets_its_own_size() {
    // 12.0, 12.9, 13.0 and 13.5: printed from the headers of these releases. 13.4: accepted by its library.
    let sizes = |ladder: Ladder| {
        [18, 28, 130_001, 130_401, 130_500].map(|api| ladder.size(LibraryVersion::from_api(api)))
    };
    assert_eq!(sizes(DEVICE_SUPPORTED), [40, 52, 52, 56, 56]);
    assert_eq!(sizes(COUNTER_AVAILABILITY), [40, 40, 40, 41, 41]);
    assert_eq!(sizes(HOST_INITIALIZE), [48, 48, 48, 56, 56]);
    assert_eq!(sizes(METRIC_PROPERTIES), [60, 60, 60, 64, 64]);
    assert_eq!(sizes(RANGE_PROFILER_ENABLE), [32, 32, 32, 36, 36]);
    assert_eq!(sizes(SUBSCRIBER)[2..], [32, 40, 40]);
}

#[test]
fn the_newest_size_is_that_of_the_headers() {
    let newest = |ladder: Ladder| ladder.size(LibraryVersion::HEADERS);
    assert_eq!(newest(SUBSCRIBER), CUpti_SubscriberParams_STRUCT_SIZE);
    assert_eq!(newest(DEVICE_SUPPORTED), CUpti_Profiler_DeviceSupported_Params_STRUCT_SIZE);
    assert_eq!(newest(COUNTER_AVAILABILITY), CUpti_Profiler_GetCounterAvailability_Params_STRUCT_SIZE);
    assert_eq!(newest(HOST_INITIALIZE), CUpti_Profiler_Host_Initialize_Params_STRUCT_SIZE);
    assert_eq!(newest(METRIC_PROPERTIES), CUpti_Profiler_Host_GetMetricProperties_Params_STRUCT_SIZE);
    assert_eq!(newest(RANGE_PROFILER_ENABLE), CUpti_RangeProfiler_Enable_Params_STRUCT_SIZE);
}

#[test]
fn candidates_begin_with_the_best_guess_and_name_every_size_once() {
    let candidates = |api: Option<u32>| -> Vec<usize> {
        DEVICE_SUPPORTED.candidates(api.map(LibraryVersion::from_api)).collect()
    };
    assert_eq!(candidates(None), [56, 52, 40]);
    assert_eq!(candidates(Some(130_500)), [56, 52, 40]);
    assert_eq!(candidates(Some(28)), [52, 56, 40]);
    assert_eq!(candidates(Some(18)), [40, 56, 52]);
}

#[test]
fn ladders_descend() {
    for ladder in LADDERS {
        let rungs = ladder.rungs();
        assert!(rungs.is_sorted_by(|newer, older| newer.since > older.since && newer.size > older.size));
        assert!(rungs.last().is_some_and(|oldest| oldest.since.api() == 0), "{}", ladder.name());
    }
}
