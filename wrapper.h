/* The C headers from which build.rs generates cupti-sys/src/bindings.rs.
 *
 * The headers themselves are NVIDIA's and are not part of this repository: they come with a CUDA toolkit, or from the
 * wheels nvidia-cuda-cupti, nvidia-cuda-runtime and nvidia-cuda-crt. CUPROF_CUPTI_INCLUDE names their folders.
 */

/* Activity records, callbacks, results, the version, and the ids of driver, runtime and NVTX callbacks.
 * cupti_activity.h ends by including cupti_activity_deprecated.h: the record structs of older libraries. */
#include <cupti.h>

/* Hardware counters: metric plans on the host, ranges on the device. */
#include <cupti_profiler_host.h>
#include <cupti_profiler_target.h>
#include <cupti_range_profiler.h>
#include <cupti_target.h>

/* Sampling. */
#include <cupti_pcsampling.h>
#include <cupti_pmsampling.h>
#include <cupti_sass_metrics.h>
