//! Names of CUPTI's result codes, and what a user can do about them, without calling the library.
//!
//! Without a driver a library cannot name its own codes: `cuptiGetResultString` of 13.4 fails and writes nothing.

/// One result code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResultCode {
    /// The number that a CUPTI function returns.
    pub code: u32,
    /// Its name in the C header.
    pub name: &'static str,
    /// What to do about it, in one line; `None` where only a change of the calling code can help.
    pub remedy: Option<&'static str>,
}

/// The name of a result code in the C header; `None` for one that the headers do not declare.
///
/// ```
/// assert_eq!(cupti_sys::result::name(39), Some("CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED"));
/// assert_eq!(cupti_sys::result::name(500), None);
/// ```
pub fn name(code: u32) -> Option<&'static str> {
    find(code).map(|known| known.name)
}

/// What a user can do about a result code; `None` where only a change of the calling code can help.
pub fn remedy(code: u32) -> Option<&'static str> {
    find(code).and_then(|known| known.remedy)
}

/// Everything known of a result code.
pub fn find(code: u32) -> Option<&'static ResultCode> {
    CODES.binary_search_by_key(&code, |known| known.code).ok().map(|index| &CODES[index])
}

/// Declares the table: code, name without its prefix, remedy.
macro_rules! codes {
    ($($code:literal $name:literal $($remedy:literal)?;)*) => {
        /// Every code of the headers that the bindings are generated from, by number.
        pub const CODES: &[ResultCode] = &[
            ResultCode { code: 0, name: "CUPTI_SUCCESS", remedy: None },
            $(ResultCode {
                code: $code,
                name: concat!("CUPTI_ERROR_", $name),
                remedy: codes!(@remedy $($remedy)?),
            }),*
        ];
    };
    (@remedy) => { None };
    (@remedy $remedy:literal) => { Some($remedy) };
}

codes! {
    1 "INVALID_PARAMETER";
    2 "INVALID_DEVICE";
    3 "INVALID_CONTEXT" "create the CUDA context, and make it current on the calling thread, before this call";
    4 "INVALID_EVENT_DOMAIN_ID";
    5 "INVALID_EVENT_ID";
    6 "INVALID_EVENT_NAME";
    7 "INVALID_OPERATION";
    8 "OUT_OF_MEMORY" "free device or host memory, or profile fewer ranges at once";
    9 "HARDWARE";
    10 "PARAMETER_SIZE_NOT_SUFFICIENT";
    11 "API_NOT_IMPLEMENTED" "use a newer CUPTI";
    12 "MAX_LIMIT_REACHED" "end the other profiler in this process (nsys, ncu, a framework's profiler)";
    13 "NOT_READY" "initialize CUDA before this call";
    14 "NOT_COMPATIBLE" "do not combine this with what is already enabled; for kernels, enable one of the two kernel kinds";
    15 "NOT_INITIALIZED" "check that the NVIDIA driver is loaded (nvidia-smi) and that libcuda.so.1 can be opened";
    16 "INVALID_METRIC_ID";
    17 "INVALID_METRIC_NAME" "check the name: metrics differ by chip and by CUPTI version";
    18 "QUEUE_EMPTY";
    19 "INVALID_HANDLE";
    20 "INVALID_STREAM";
    21 "INVALID_KIND" "use a CUPTI that knows this kind of record";
    22 "INVALID_EVENT_VALUE";
    23 "DISABLED" "end the other profiler or debugger on this process";
    24 "INVALID_MODULE";
    25 "INVALID_METRIC_VALUE";
    26 "HARDWARE_BUSY" "stop what holds the GPU's counters: DCGM (dcgmi profile --pause), ncu, nsys, another session";
    27 "NOT_SUPPORTED" "use a newer driver or CUPTI, or leave this out on this system";
    28 "UM_PROFILING_NOT_SUPPORTED" "leave out unified memory on this system";
    29 "UM_PROFILING_NOT_SUPPORTED_ON_DEVICE" "leave out unified memory on this device";
    30 "UM_PROFILING_NOT_SUPPORTED_ON_NON_P2P_DEVICES" "restrict CUDA_VISIBLE_DEVICES to GPUs with peer access";
    31 "UM_PROFILING_NOT_SUPPORTED_WITH_MPS" "leave out unified memory under MPS";
    32 "CDP_TRACING_NOT_SUPPORTED";
    33 "VIRTUALIZED_DEVICE_NOT_SUPPORTED" "enable profiling for this virtual GPU (enable_profiling of the vGPU plugin)";
    34 "CUDA_COMPILER_NOT_COMPATIBLE" "rebuild the kernels with a newer nvcc";
    35 "INSUFFICIENT_PRIVILEGES" "allow counters: load the driver with NVreg_RestrictProfilingToAdminUsers=0, or run with CAP_SYS_ADMIN";
    36 "OLD_PROFILER_API_INITIALIZED" "do not use the legacy event or metric API in this process";
    37 "OPENACC_UNDEFINED_ROUTINE";
    38 "LEGACY_PROFILER_NOT_SUPPORTED" "use the Range Profiler: this driver or GPU has no legacy profiling API";
    39 "MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED" "end the other profiler in this process (nsys, ncu, cuda-gdb, a framework's profiler)";
    40 "VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES" "ask the administrator of the hypervisor to allow profiling";
    41 "CONFIDENTIAL_COMPUTING_NOT_SUPPORTED" "profile with confidential computing off";
    42 "CMP_DEVICE_NOT_SUPPORTED" "use another GPU: mining boards cannot be profiled";
    43 "MIG_DEVICE_NOT_SUPPORTED" "profile on a whole GPU, with MIG off";
    44 "SLI_DEVICE_NOT_SUPPORTED" "turn SLI off";
    45 "WSL_DEVICE_NOT_SUPPORTED" "use Windows 11 with a newer driver, or native Linux";
    46 "INVALID_CHIP_NAME" "check the chip's name: it is case-sensitive, and an H100 or H200 is \"GH100\"";
    47 "HES_TRACE_NOT_SUPPORTED_ON_MPS" "leave out hardware tracing under MPS";
    999 "UNKNOWN" "check that the NVIDIA driver is loaded (nvidia-smi): without it CUPTI 13 answers every call with this";
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bindings::CUptiResult;

    #[test]
    fn codes_are_sorted_and_found() {
        assert!(CODES.is_sorted_by(|a, b| a.code < b.code));
        for known in CODES {
            assert_eq!(find(known.code), Some(known));
        }
        assert_eq!(find(48), None);
    }

    #[test]
    fn names_agree_with_the_headers() {
        assert_eq!(CUptiResult::CUPTI_ERROR_INSUFFICIENT_PRIVILEGES.0, 35);
        // Without white space, since long declarations span lines.
        let source: String = include_str!("bindings.rs").split_whitespace().collect();
        let mut declared = 0;
        for item in source.split("pubconst").skip(1) {
            let Some((constant, value)) = item.split_once(":CUptiResult=CUptiResult(") else { continue };
            let digits = value.split(|c: char| !c.is_ascii_digit()).next().unwrap();
            if constant != "CUPTI_ERROR_FORCE_INT" {
                assert_eq!(name(digits.parse().unwrap()), Some(constant));
                declared += 1;
            }
        }
        assert_eq!(declared, CODES.len());
    }

    #[test]
    fn remedies_fit_on_one_line() {
        for remedy in CODES.iter().filter_map(|known| known.remedy) {
            assert!(remedy.len() <= 110 && !remedy.contains('\n'), "{remedy}");
        }
    }
}
