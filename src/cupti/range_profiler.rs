//! The Range Profiler: counters of one context, in ranges.

use std::marker::PhantomData;
use std::ptr::NonNull;

use cupti_sys::LibraryVersion;
use cupti_sys::bindings as c;
use cupti_sys::params as ladders;

use super::params::{Grown, Image, Names, c_string, copied, params};
use super::{Cupti, call};
use crate::driver::Context;
use crate::error::{Error, ErrorKind, Result};

static ENABLE: Grown = Grown::new(ladders::RANGE_PROFILER_ENABLE);

/// Who says where a range begins and ends, and who repeats the work for each pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// The caller pushes and pops ranges, and repeats the work.
    UserRangeUserReplay,
    /// Each kernel is a range, and CUPTI repeats it.
    AutoRangeKernelReplay,
}

/// What is set before the first pass.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    pub mode: Mode,
    /// The most ranges between one start and stop, which is also what the data has room for.
    pub max_ranges: usize,
    /// How many levels of nested ranges are counted; each takes passes of its own.
    pub nesting_levels: u16,
}

/// What the end of a pass tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stopped {
    /// Every pass that the metrics need has been run.
    pub all_submitted: bool,
}

/// The Range Profiler, enabled on one context. It is used on the thread that made it, with the context current.
///
/// CUPTI keeps pointers into both images until it is disabled, so they live here, and are freed after that.
pub(crate) struct RangeProfiler {
    cupti: Cupti,
    object: NonNull<c::CUpti_RangeProfiler_Object>,
    started: bool,
    config: Image,
    data: Image,
    _on_this_thread: PhantomData<*const ()>,
}

impl RangeProfiler {
    /// `cuptiRangeProfilerEnable` on this context.
    #[doc(alias = "cuptiRangeProfilerEnable")]
    ///
    /// The cache mode is a `CUpti_CacheControl_Mode`; 0 leaves the caches as they are.
    ///
    /// # Errors
    /// [`ErrorKind::CuptiTooOld`] for a cache mode before CUPTI 13.4; else the failed call.
    pub fn enable(
        cupti: Cupti,
        version: LibraryVersion,
        context: Context,
        config: Image,
        cache_mode: u32,
    ) -> Result<Self> {
        let object = ENABLE.call(Some(version), |size| {
            // A library that takes the smaller struct would leave the cache alone without a word.
            if cache_mode != 0 && size < c::CUpti_RangeProfiler_Enable_Params_STRUCT_SIZE {
                let what = format!("{version} cannot control the caches");
                return Err(Error::new(ErrorKind::CuptiTooOld, what)
                    .with_hint("install CUPTI 13.4 or newer, or use Cache::Flush"));
            }
            let mut params = params!(
                CUpti_RangeProfiler_Enable_Params,
                size,
                ctx: context.0.as_ptr().cast(),
                cacheControlMode: c::CUpti_CacheControl_Mode(cache_mode),
            );
            call!(cupti, cuptiRangeProfilerEnable, &raw mut params)?;
            Ok(params.pRangeProfilerObject)
        })?;
        let object = NonNull::new(object).ok_or_else(|| {
            Error::new(ErrorKind::Call, "cuptiRangeProfilerEnable succeeded without an object")
        })?;
        let data = Image::new(0);
        Ok(Self { cupti, object, started: false, config, data, _on_this_thread: PhantomData })
    }

    /// Makes the counter data for these metrics, and sets everything up for the first pass.
    #[doc(alias = "cuptiRangeProfilerGetCounterDataSize")]
    #[doc(alias = "cuptiRangeProfilerCounterDataImageInitialize")]
    #[doc(alias = "cuptiRangeProfilerSetConfig")]
    pub fn set_up(&mut self, names: &Names, setup: Setup) -> Result<()> {
        let Setup { mode, max_ranges, nesting_levels } = setup;
        let mut size = params!(
            CUpti_RangeProfiler_GetCounterDataSize_Params,
            c::CUpti_RangeProfiler_GetCounterDataSize_Params_STRUCT_SIZE,
            pRangeProfilerObject: self.object.as_ptr(),
            pMetricNames: names.as_mut_ptr(),
            numMetrics: names.len(),
            maxNumOfRanges: max_ranges,
            maxNumRangeTreeNodes: u32::try_from(max_ranges).unwrap_or(u32::MAX),
        );
        call!(self.cupti, cuptiRangeProfilerGetCounterDataSize, &raw mut size)?;
        self.data = Image::new(size.counterDataSize);
        let mut initialize = params!(
            CUpti_RangeProfiler_CounterDataImage_Initialize_Params,
            c::CUpti_RangeProfiler_CounterDataImage_Initialize_Params_STRUCT_SIZE,
            pRangeProfilerObject: self.object.as_ptr(),
            counterDataSize: self.data.len(),
            pCounterData: self.data.as_mut_ptr(),
        );
        call!(self.cupti, cuptiRangeProfilerCounterDataImageInitialize, &raw mut initialize)?;
        let (range, replay) = match mode {
            Mode::UserRangeUserReplay => {
                (c::CUpti_ProfilerRange::CUPTI_UserRange, c::CUpti_ProfilerReplayMode::CUPTI_UserReplay)
            }
            Mode::AutoRangeKernelReplay => {
                (c::CUpti_ProfilerRange::CUPTI_AutoRange, c::CUpti_ProfilerReplayMode::CUPTI_KernelReplay)
            }
        };
        let mut config = params!(
            CUpti_RangeProfiler_SetConfig_Params,
            c::CUpti_RangeProfiler_SetConfig_Params_STRUCT_SIZE,
            pRangeProfilerObject: self.object.as_ptr(),
            configSize: self.config.len(),
            pConfig: self.config.as_ptr(),
            counterDataImageSize: self.data.len(),
            pCounterDataImage: self.data.as_mut_ptr(),
            range: range,
            replayMode: replay,
            maxRangesPerPass: max_ranges,
            numNestingLevels: nesting_levels,
            minNestingLevel: 1,
            passIndex: 0,
            targetNestingLevel: 1,
        );
        call!(self.cupti, cuptiRangeProfilerSetConfig, &raw mut config)
    }

    /// `cuptiRangeProfilerStart`: a pass begins.
    #[doc(alias = "cuptiRangeProfilerStart")]
    pub fn start(&mut self) -> Result<()> {
        let mut params = params!(
            CUpti_RangeProfiler_Start_Params,
            c::CUpti_RangeProfiler_Start_Params_STRUCT_SIZE,
            pRangeProfilerObject: self.object.as_ptr(),
        );
        call!(self.cupti, cuptiRangeProfilerStart, &raw mut params)?;
        self.started = true;
        Ok(())
    }

    /// `cuptiRangeProfilerStop`: the pass ends.
    #[doc(alias = "cuptiRangeProfilerStop")]
    pub fn stop(&mut self) -> Result<Stopped> {
        let mut params = params!(
            CUpti_RangeProfiler_Stop_Params,
            c::CUpti_RangeProfiler_Stop_Params_STRUCT_SIZE,
            pRangeProfilerObject: self.object.as_ptr(),
        );
        self.started = false;
        call!(self.cupti, cuptiRangeProfilerStop, &raw mut params)?;
        Ok(Stopped { all_submitted: params.isAllPassSubmitted != 0 })
    }

    /// `cuptiRangeProfilerPushRange`.
    #[doc(alias = "cuptiRangeProfilerPushRange")]
    pub fn push(&self, name: &str) -> Result<()> {
        let name = c_string(name)?;
        let mut params = params!(
            CUpti_RangeProfiler_PushRange_Params,
            c::CUpti_RangeProfiler_PushRange_Params_STRUCT_SIZE,
            pRangeProfilerObject: self.object.as_ptr(),
            pRangeName: name.as_ptr(),
        );
        call!(self.cupti, cuptiRangeProfilerPushRange, &raw mut params)
    }

    /// `cuptiRangeProfilerPopRange`.
    #[doc(alias = "cuptiRangeProfilerPopRange")]
    pub fn pop(&self) -> Result<()> {
        let mut params = params!(
            CUpti_RangeProfiler_PopRange_Params,
            c::CUpti_RangeProfiler_PopRange_Params_STRUCT_SIZE,
            pRangeProfilerObject: self.object.as_ptr(),
        );
        call!(self.cupti, cuptiRangeProfilerPopRange, &raw mut params)
    }

    /// `cuptiRangeProfilerDecodeData`: waits for the context, and turns what the hardware wrote into counter data.
    /// Returns how many ranges had no room.
    #[doc(alias = "cuptiRangeProfilerDecodeData")]
    pub fn decode(&mut self) -> Result<usize> {
        let mut params = params!(
            CUpti_RangeProfiler_DecodeData_Params,
            c::CUpti_RangeProfiler_DecodeData_Params_STRUCT_SIZE,
            pRangeProfilerObject: self.object.as_ptr(),
        );
        call!(self.cupti, cuptiRangeProfilerDecodeData, &raw mut params)?;
        Ok(params.numOfRangeDropped)
    }

    /// `cuptiRangeProfilerGetCounterDataInfo`: how many ranges the counter data has.
    #[doc(alias = "cuptiRangeProfilerGetCounterDataInfo")]
    pub fn ranges(&self) -> Result<usize> {
        let mut params = params!(
            CUpti_RangeProfiler_GetCounterDataInfo_Params,
            c::CUpti_RangeProfiler_GetCounterDataInfo_Params_STRUCT_SIZE,
            pCounterDataImage: self.data.as_ptr(),
            counterDataImageSize: self.data.len(),
        );
        call!(self.cupti, cuptiRangeProfilerGetCounterDataInfo, &raw mut params)?;
        Ok(params.numTotalRanges)
    }

    /// `cuptiRangeProfilerCounterDataGetRangeInfo`: the name of a range, those around it in front, joined by `/`.
    #[doc(alias = "cuptiRangeProfilerCounterDataGetRangeInfo")]
    pub fn range_name(&self, index: usize) -> Result<String> {
        let mut params = params!(
            CUpti_RangeProfiler_CounterData_GetRangeInfo_Params,
            c::CUpti_RangeProfiler_CounterData_GetRangeInfo_Params_STRUCT_SIZE,
            pCounterDataImage: self.data.as_ptr(),
            counterDataImageSize: self.data.len(),
            rangeIndex: index,
            rangeDelimiter: c"/".as_ptr(),
        );
        call!(self.cupti, cuptiRangeProfilerCounterDataGetRangeInfo, &raw mut params)?;
        // Whose the string is, the header does not say; it is left to CUPTI: at worst some bytes for each range stay.
        // SAFETY: on success CUPTI has set the pointer to a string, or left it null.
        Ok(unsafe { copied(params.rangeName) })
    }

    /// The counter data.
    pub fn data(&self) -> &Image {
        &self.data
    }

    fn disable(&mut self) -> Result<()> {
        let mut params = params!(
            CUpti_RangeProfiler_Disable_Params,
            c::CUpti_RangeProfiler_Disable_Params_STRUCT_SIZE,
            pRangeProfilerObject: self.object.as_ptr(),
        );
        call!(self.cupti, cuptiRangeProfilerDisable, &raw mut params)
    }
}

impl Drop for RangeProfiler {
    /// Stops the pass that runs, if one does, and disables the profiler; the images go after that.
    fn drop(&mut self) {
        if self.started {
            let _nobody_to_tell = self.stop();
        }
        let _nobody_to_tell = self.disable();
    }
}
