//! Names of NVML's result codes, and what to do about them, without calling the library.

/// The name of an `nvmlReturn_t`; none for one that is not listed here.
pub(crate) fn name(code: i32) -> Option<&'static str> {
    CODES.iter().find(|known| known.0 == code).map(|known| known.1)
}

/// What to do about it.
pub(crate) fn remedy(code: i32) -> &'static str {
    match code {
        3 => "this GPU cannot do it: go without, or use another one",
        4 => "run as root, or have an administrator do it",
        6 | 28 => "the GPU is not there for NVML: compare with nvidia-smi -L",
        9 => "the NVIDIA kernel module is not loaded: see whether nvidia-smi works",
        12 | 13 | 25 => "NVML and the driver do not fit: install the one that came with the driver",
        15 | 16 => "the GPU needs a reset: see the kernel's log (dmesg), and reset it or restart the machine",
        17 => "give the container or the control group the GPU's device files",
        18 => "NVML and the kernel module are of different versions: restart the machine after an update",
        _ => "see what nvidia-smi and the kernel's log (dmesg) say of the GPU",
    }
}

/// In the order of their numbers.
const CODES: &[(i32, &str)] = &[
    (1, "NVML_ERROR_UNINITIALIZED"),
    (2, "NVML_ERROR_INVALID_ARGUMENT"),
    (3, "NVML_ERROR_NOT_SUPPORTED"),
    (4, "NVML_ERROR_NO_PERMISSION"),
    (5, "NVML_ERROR_ALREADY_INITIALIZED"),
    (6, "NVML_ERROR_NOT_FOUND"),
    (7, "NVML_ERROR_INSUFFICIENT_SIZE"),
    (8, "NVML_ERROR_INSUFFICIENT_POWER"),
    (9, "NVML_ERROR_DRIVER_NOT_LOADED"),
    (10, "NVML_ERROR_TIMEOUT"),
    (11, "NVML_ERROR_IRQ_ISSUE"),
    (12, "NVML_ERROR_LIBRARY_NOT_FOUND"),
    (13, "NVML_ERROR_FUNCTION_NOT_FOUND"),
    (14, "NVML_ERROR_CORRUPTED_INFOROM"),
    (15, "NVML_ERROR_GPU_IS_LOST"),
    (16, "NVML_ERROR_RESET_REQUIRED"),
    (17, "NVML_ERROR_OPERATING_SYSTEM"),
    (18, "NVML_ERROR_LIB_RM_VERSION_MISMATCH"),
    (19, "NVML_ERROR_IN_USE"),
    (20, "NVML_ERROR_MEMORY"),
    (21, "NVML_ERROR_NO_DATA"),
    (22, "NVML_ERROR_VGPU_ECC_NOT_SUPPORTED"),
    (23, "NVML_ERROR_INSUFFICIENT_RESOURCES"),
    (24, "NVML_ERROR_FREQ_NOT_SUPPORTED"),
    (25, "NVML_ERROR_ARGUMENT_VERSION_MISMATCH"),
    (26, "NVML_ERROR_DEPRECATED"),
    (27, "NVML_ERROR_NOT_READY"),
    (28, "NVML_ERROR_GPU_NOT_FOUND"),
    (29, "NVML_ERROR_INVALID_STATE"),
    (30, "NVML_ERROR_RESET_TYPE_NOT_SUPPORTED"),
    (999, "NVML_ERROR_UNKNOWN"),
];
