//! What a device says of itself before counters are used.

use std::ffi::c_int;
use std::sync::Arc;

use cupti_sys::LibraryVersion;
use cupti_sys::bindings as c;
use cupti_sys::params as ladders;

use super::params::{Grown, Image, copied, params};
use super::{Cupti, call};
use crate::driver::Context;
use crate::error::Result;

static DEVICE_SUPPORTED: Grown = Grown::new(ladders::DEVICE_SUPPORTED);
static AVAILABILITY: Grown = Grown::new(ladders::COUNTER_AVAILABILITY);

/// A condition for counters, and how it is met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Support {
    pub supported: bool,
    /// The conditions that are not met.
    pub obstacles: Vec<&'static str>,
}

impl Cupti {
    /// `cuptiProfilerInitialize`; may be called again.
    #[doc(alias = "cuptiProfilerInitialize")]
    pub fn initialize_profiler(self) -> Result<()> {
        let mut params =
            params!(CUpti_Profiler_Initialize_Params, c::CUpti_Profiler_Initialize_Params_STRUCT_SIZE);
        call!(self, cuptiProfilerInitialize, &raw mut params)
    }

    /// `cuptiProfilerDeviceSupported` for ranges.
    #[doc(alias = "cuptiProfilerDeviceSupported")]
    pub fn device_supported(self, version: LibraryVersion, device: c_int) -> Result<Support> {
        let params = DEVICE_SUPPORTED.call(Some(version), |size| {
            let mut params = params!(CUpti_Profiler_DeviceSupported_Params, size, cuDevice: device);
            call!(self, cuptiProfilerDeviceSupported, &raw mut params)?;
            Ok(params)
        })?;
        use c::CUpti_Profiler_Support_Level as Level;
        let bad = |level: Level| {
            matches!(
                level,
                Level::CUPTI_PROFILER_CONFIGURATION_UNSUPPORTED
                    | Level::CUPTI_PROFILER_CONFIGURATION_DISABLED
            )
        };
        let conditions = [
            (params.architecture, "the GPU is older than Turing"),
            (params.sli, "SLI is on"),
            (params.vGpu, "this is a virtual GPU without profiling (enable_profiling)"),
            (params.confidentialCompute, "confidential computing is on"),
            (params.cmp, "this is a mining board"),
            (params.wsl, "the driver of WSL is too old"),
            (params.sku, "the product lacks counters"),
        ];
        let obstacles =
            conditions.into_iter().filter(|(level, _)| bad(*level)).map(|(_, text)| text).collect();
        Ok(Support { supported: !bad(params.isSupported), obstacles })
    }

    /// `cuptiDeviceGetChipName`: what metrics of the device go by, `GH100`.
    #[doc(alias = "cuptiDeviceGetChipName")]
    pub fn chip_name(self, ordinal: u32) -> Result<String> {
        let mut params = params!(
            CUpti_Device_GetChipName_Params,
            c::CUpti_Device_GetChipName_Params_STRUCT_SIZE,
            deviceIndex: ordinal as usize,
        );
        call!(self, cuptiDeviceGetChipName, &raw mut params)?;
        // SAFETY: on success CUPTI has set the pointer to a string constant, or left it null.
        Ok(unsafe { copied(params.pChipName) })
    }

    /// `cuptiProfilerGetCounterAvailability`: which counters the context may use. Where permission is missing, or the
    /// counters are held by others, it is this call that says so.
    #[doc(alias = "cuptiProfilerGetCounterAvailability")]
    pub fn counter_availability(self, version: LibraryVersion, context: Context) -> Result<Arc<Image>> {
        let context: c::CUcontext = context.0.as_ptr().cast();
        let bytes = AVAILABILITY.call(Some(version), |size| {
            let mut params = params!(CUpti_Profiler_GetCounterAvailability_Params, size, ctx: context);
            call!(self, cuptiProfilerGetCounterAvailability, &raw mut params)?;
            Ok(params.counterAvailabilityImageSize)
        })?;
        AVAILABILITY.call(Some(version), |size| {
            let mut image = Image::new(bytes);
            let mut params = params!(
                CUpti_Profiler_GetCounterAvailability_Params,
                size,
                ctx: context,
                counterAvailabilityImageSize: image.len(),
                pCounterAvailabilityImage: image.as_mut_ptr(),
            );
            call!(self, cuptiProfilerGetCounterAvailability, &raw mut params)?;
            Ok(Arc::new(image))
        })
    }
}
