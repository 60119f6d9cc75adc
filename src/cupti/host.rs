//! CUPTI's host objects: what metrics a chip has, how many passes a set of them takes, and values from counter data.
//! Nothing here touches a GPU.

use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cupti_sys::LibraryVersion;
use cupti_sys::bindings as c;
use cupti_sys::params as ladders;

use super::params::{Grown, Image, Names, c_string, copied, copied_all, params};
use super::{Cupti, call};
use crate::error::{Error, ErrorKind, Result};

static INITIALIZE: Grown = Grown::new(ladders::HOST_INITIALIZE);
static PROPERTIES: Grown = Grown::new(ladders::METRIC_PROPERTIES);

/// How a metric is made from what the hardware counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MetricKind {
    /// A count of events, with a rollup over the units of the chip and, if wanted, a rate.
    Counter,
    /// A quotient of counters.
    Ratio,
    /// How near a part of the chip came to its limit, in percent: the largest of several counters.
    Throughput,
}

impl MetricKind {
    /// Every kind, in CUPTI's order.
    pub const ALL: [Self; 3] = [Self::Counter, Self::Ratio, Self::Throughput];

    fn to_c(self) -> c::CUpti_MetricType {
        match self {
            Self::Counter => c::CUpti_MetricType::CUPTI_METRIC_TYPE_COUNTER,
            Self::Ratio => c::CUpti_MetricType::CUPTI_METRIC_TYPE_RATIO,
            Self::Throughput => c::CUpti_MetricType::CUPTI_METRIC_TYPE_THROUGHPUT,
        }
    }

    fn from_c(kind: c::CUpti_MetricType) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.to_c() == kind)
    }
}

/// Where a metric is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MetricScope {
    /// For the context that is profiled.
    Context,
    /// For the whole device, whoever uses it.
    Device,
}

/// What CUPTI tells of a base metric.
#[derive(Clone, Debug)]
pub(crate) struct Properties {
    pub kind: MetricKind,
    pub description: String,
    /// The hardware unit that counts it.
    pub hardware_unit: String,
    /// In CUPTI's words, of the base metric, whatever the suffix.
    pub unit: String,
    /// None: the library is older than 13.1 and does not tell.
    pub scope: Option<MetricScope>,
}

/// One host object of CUPTI.
///
/// Metrics can be added to it once: a second time adds passes, and a failure spoils the object.
pub(crate) struct Host {
    cupti: Cupti,
    version: Option<LibraryVersion>,
    /// Taken when it is given back.
    object: Mutex<NonNull<c::CUpti_Profiler_Host_Object>>,
    /// CUPTI may look into it for as long as the object lives.
    _availability: Option<Arc<Image>>,
}

// SAFETY: the object is used by one thread at a time, by the mutex; CUPTI's host functions have no thread of their own
// and keep nothing in thread-local storage (objects used from four threads gave the same answers in 80 runs).
unsafe impl Send for Host {}
// SAFETY: as above.
unsafe impl Sync for Host {}

impl Cupti {
    /// `cuptiProfilerHostGetSupportedChips`: the chips whose metrics the library knows.
    #[doc(alias = "cuptiProfilerHostGetSupportedChips")]
    pub fn chips(self) -> Result<Vec<String>> {
        let mut params = params!(
            CUpti_Profiler_Host_GetSupportedChips_Params,
            c::CUpti_Profiler_Host_GetSupportedChips_Params_STRUCT_SIZE
        );
        call!(self, cuptiProfilerHostGetSupportedChips, &raw mut params)?;
        // SAFETY: on success CUPTI has set the pointer to an array of this many string constants.
        Ok(unsafe { copied_all(params.ppChipNames, params.numChips) })
    }

    /// `cuptiProfilerHostGetNumOfPasses` of a configuration that [`Host::config_image`] gave.
    #[doc(alias = "cuptiProfilerHostGetNumOfPasses")]
    pub fn passes(self, config: &mut Image) -> Result<usize> {
        let mut params = params!(
            CUpti_Profiler_Host_GetNumOfPasses_Params,
            c::CUpti_Profiler_Host_GetNumOfPasses_Params_STRUCT_SIZE,
            configImageSize: config.len(),
            pConfigImage: config.as_mut_ptr(),
        );
        call!(self, cuptiProfilerHostGetNumOfPasses, &raw mut params)?;
        Ok(params.numOfPasses)
    }
}

impl Host {
    /// `cuptiProfilerHostInitialize` for the Range Profiler on this chip, with what the device says of its counters if
    /// there is one.
    #[doc(alias = "cuptiProfilerHostInitialize")]
    pub fn new(
        cupti: Cupti,
        version: Option<LibraryVersion>,
        chip: &str,
        availability: Option<Arc<Image>>,
    ) -> Result<Self> {
        let chip = c_string(chip)?;
        let image = availability.as_ref().map_or(std::ptr::null(), |image| image.as_ptr());
        let object = INITIALIZE.call(version, |size| {
            let mut params = params!(
                CUpti_Profiler_Host_Initialize_Params,
                size,
                profilerType: c::CUpti_ProfilerType::CUPTI_PROFILER_TYPE_RANGE_PROFILER,
                pChipName: chip.as_ptr(),
                pCounterAvailabilityImage: image,
            );
            call!(cupti, cuptiProfilerHostInitialize, &raw mut params)?;
            Ok(params.pHostObject)
        })?;
        let object = NonNull::new(object).ok_or_else(|| {
            Error::new(ErrorKind::Call, "cuptiProfilerHostInitialize succeeded without an object")
        })?;
        Ok(Self { cupti, version, object: Mutex::new(object), _availability: availability })
    }

    fn lock(&self) -> MutexGuard<'_, NonNull<c::CUpti_Profiler_Host_Object>> {
        self.object.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `cuptiProfilerHostGetBaseMetrics`: the names of all metrics of a kind, without suffixes.
    #[doc(alias = "cuptiProfilerHostGetBaseMetrics")]
    pub fn base_metrics(&self, kind: MetricKind) -> Result<Vec<String>> {
        let object = self.lock();
        let mut params = params!(
            CUpti_Profiler_Host_GetBaseMetrics_Params,
            c::CUpti_Profiler_Host_GetBaseMetrics_Params_STRUCT_SIZE,
            pHostObject: object.as_ptr(),
            metricType: kind.to_c(),
        );
        call!(self.cupti, cuptiProfilerHostGetBaseMetrics, &raw mut params)?;
        // SAFETY: on success CUPTI has set the pointer to an array of this many strings, which live until the next
        // such call on this object; the lock is held.
        Ok(unsafe { copied_all(params.ppMetricNames, params.numMetrics) })
    }

    /// `cuptiProfilerHostGetSubMetrics`: the suffixes that the base of a metric can have, without a dot in front.
    #[doc(alias = "cuptiProfilerHostGetSubMetrics")]
    pub fn sub_metrics(&self, kind: MetricKind, name: &str) -> Result<Vec<String>> {
        let name = c_string(name)?;
        let object = self.lock();
        let mut params = params!(
            CUpti_Profiler_Host_GetSubMetrics_Params,
            c::CUpti_Profiler_Host_GetSubMetrics_Params_STRUCT_SIZE,
            pHostObject: object.as_ptr(),
            metricType: kind.to_c(),
            pMetricName: name.as_ptr(),
        );
        call!(self.cupti, cuptiProfilerHostGetSubMetrics, &raw mut params)?;
        // SAFETY: as for base metrics.
        let suffixes = unsafe { copied_all(params.ppSubMetrics, params.numOfSubmetrics) };
        Ok(suffixes.into_iter().map(|suffix| suffix.trim_start_matches('.').to_owned()).collect())
    }

    /// `cuptiProfilerHostGetMetricProperties` of a metric with a suffix.
    #[doc(alias = "cuptiProfilerHostGetMetricProperties")]
    pub fn properties(&self, name: &str) -> Result<Properties> {
        const WITH_SCOPE: usize = c::CUpti_Profiler_Host_GetMetricProperties_Params_STRUCT_SIZE;
        let c_name = c_string(name)?;
        let object = self.lock();
        PROPERTIES.call(self.version, |size| {
            let mut params = params!(
                CUpti_Profiler_Host_GetMetricProperties_Params,
                size,
                pHostObject: object.as_ptr(),
                pMetricName: c_name.as_ptr(),
            );
            call!(self.cupti, cuptiProfilerHostGetMetricProperties, &raw mut params)?;
            let kind = MetricKind::from_c(params.metricType).ok_or_else(|| {
                let what = format!("{name} is of a kind ({}) that is not known", params.metricType.0);
                Error::new(ErrorKind::Call, what)
                    .with_hint("leave it out, or use a newer version of this crate")
            })?;
            let scope = match params.metricCollectionScope {
                _ if size < WITH_SCOPE => None,
                c::CUpti_MetricCollectionScope::CUPTI_METRIC_COLLECTION_SCOPE_CONTEXT => {
                    Some(MetricScope::Context)
                }
                c::CUpti_MetricCollectionScope::CUPTI_METRIC_COLLECTION_SCOPE_DEVICE => {
                    Some(MetricScope::Device)
                }
                _ => None,
            };
            // SAFETY: on success CUPTI has set these to strings of the object, which is locked and alive, or to null.
            let description = unsafe { copied(params.pDescription) };
            // SAFETY: as above.
            let hardware_unit = unsafe { copied(params.pHwUnit) };
            // SAFETY: as above.
            let unit = unsafe { copied(params.pDimUnit) };
            Ok(Properties { kind, description, hardware_unit, unit, scope })
        })
    }

    /// `cuptiProfilerHostConfigAddMetrics` and the calls that turn this into a configuration. Once for each object, so
    /// that it takes the object by value and gives it back with the result.
    #[doc(alias = "cuptiProfilerHostConfigAddMetrics")]
    #[doc(alias = "cuptiProfilerHostGetConfigImageSize")]
    #[doc(alias = "cuptiProfilerHostGetConfigImage")]
    pub fn configure(self, names: &Names) -> Result<Configured> {
        let object = self.lock();
        let mut add = params!(
            CUpti_Profiler_Host_ConfigAddMetrics_Params,
            c::CUpti_Profiler_Host_ConfigAddMetrics_Params_STRUCT_SIZE,
            pHostObject: object.as_ptr(),
            ppMetricNames: names.as_mut_ptr(),
            numMetrics: names.len(),
        );
        call!(self.cupti, cuptiProfilerHostConfigAddMetrics, &raw mut add)?;
        let mut size = params!(
            CUpti_Profiler_Host_GetConfigImageSize_Params,
            c::CUpti_Profiler_Host_GetConfigImageSize_Params_STRUCT_SIZE,
            pHostObject: object.as_ptr(),
        );
        call!(self.cupti, cuptiProfilerHostGetConfigImageSize, &raw mut size)?;
        let mut config = Image::new(size.configImageSize);
        let mut image = params!(
            CUpti_Profiler_Host_GetConfigImage_Params,
            c::CUpti_Profiler_Host_GetConfigImage_Params_STRUCT_SIZE,
            pHostObject: object.as_ptr(),
            configImageSize: config.len(),
            pConfigImage: config.as_mut_ptr(),
        );
        call!(self.cupti, cuptiProfilerHostGetConfigImage, &raw mut image)?;
        let passes = self.cupti.passes(&mut config)?;
        drop(object);
        Ok(Configured { host: self, config, passes })
    }

    /// `cuptiProfilerHostEvaluateToGpuValues`: the metrics' values in one range of counter data, in the names' order.
    #[doc(alias = "cuptiProfilerHostEvaluateToGpuValues")]
    pub fn evaluate(&self, data: &Image, range: usize, names: &Names) -> Result<Vec<f64>> {
        let mut values = vec![f64::NAN; names.len()];
        let object = self.lock();
        let mut params = params!(
            CUpti_Profiler_Host_EvaluateToGpuValues_Params,
            c::CUpti_Profiler_Host_EvaluateToGpuValues_Params_STRUCT_SIZE,
            pHostObject: object.as_ptr(),
            pCounterDataImage: data.as_ptr(),
            counterDataImageSize: data.len(),
            rangeIndex: range,
            ppMetricNames: names.as_mut_ptr(),
            numMetrics: names.len(),
            pMetricValues: values.as_mut_ptr(),
        );
        call!(self.cupti, cuptiProfilerHostEvaluateToGpuValues, &raw mut params)?;
        Ok(values)
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let object = *self.lock();
        let mut params = params!(
            CUpti_Profiler_Host_Deinitialize_Params,
            c::CUpti_Profiler_Host_Deinitialize_Params_STRUCT_SIZE,
            pHostObject: object.as_ptr(),
        );
        // Once for each object, since this is the only place and the object is dropped once.
        let _nobody_to_tell: Result<()> = call!(self.cupti, cuptiProfilerHostDeinitialize, &raw mut params);
    }
}

/// A set of metrics, ready to be counted.
pub(crate) struct Configured {
    /// The object that evaluates them later.
    pub host: Host,
    pub config: Image,
    pub passes: usize,
}
