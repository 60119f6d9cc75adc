//! Matrix products of cuBLAS, if it is installed.
#![expect(unsafe_code, reason = "calls functions of libcublas by their C signatures")]

use std::ffi::c_void;
use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream, DevicePtr, DevicePtrMut};

use crate::gpu::failed;
use crate::toolkit::{Toolkit, call};
use crate::{Gpu, Result};

// Values of the enums in the headers cublas_api.h and library_types.h.
const OP_N: i32 = 0;
const COMPUTE_32F: i32 = 68;
const GEMM_DEFAULT: i32 = -1;
const R_32F: i32 = 0;
const R_16F: i32 = 2;

/// What the elements of a matrix are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Elements {
    /// 16 bits (`fp16`); products are summed in 32.
    Half,
    /// 32 bits (`fp32`).
    Single,
}

impl Elements {
    /// `fp16` or `fp32`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Half => "fp16",
            Self::Single => "fp32",
        }
    }

    fn bytes(self) -> usize {
        match self {
            Self::Half => 2,
            Self::Single => 4,
        }
    }

    fn one(self) -> &'static [u8] {
        match self {
            Self::Half => &[0x00, 0x3c],
            Self::Single => &[0x00, 0x00, 0x80, 0x3f],
        }
    }

    fn data_type(self) -> i32 {
        match self {
            Self::Half => R_16F,
            Self::Single => R_32F,
        }
    }

    fn read(self, bytes: &[u8]) -> f32 {
        match (self, bytes) {
            (Self::Half, [low, high, ..]) => half(u16::from_le_bytes([*low, *high])),
            (Self::Single, [a, b, c, d, ..]) => f32::from_le_bytes([*a, *b, *c, *d]),
            _ => f32::NAN,
        }
    }
}

/// A number of 16 bits, for those that are not subnormal.
fn half(bits: u16) -> f32 {
    let (sign, exponent, mantissa) = (bits >> 15, (bits >> 10) & 0x1f, bits & 0x3ff);
    let magnitude = match exponent {
        0 => 0.0,
        0x1f => f32::INFINITY,
        _ => (1.0 + f32::from(mantissa) / 1024.0) * 2_f32.powi(i32::from(exponent) - 15),
    };
    if sign == 1 { -magnitude } else { magnitude }
}

/// `c = a b` for square matrices of ones, so that each element of `c` is the number of rows.
pub struct Product {
    elements: Elements,
    rows: i32,
    a: CudaSlice<u8>,
    b: CudaSlice<u8>,
    c: CudaSlice<u8>,
}

impl Product {
    /// Matrices of so many rows; `c` is zero until it is computed.
    ///
    /// # Errors
    /// The driver's.
    pub fn of_ones(stream: &Arc<CudaStream>, elements: Elements, rows: u16) -> Result<Self> {
        let count = usize::from(rows) * usize::from(rows);
        let ones = elements.one().repeat(count);
        let upload = || stream.clone_htod(&ones).map_err(failed("copying to the device"));
        let c = stream.alloc_zeros(ones.len()).map_err(failed("allocating"))?;
        Ok(Self { elements, rows: rows.into(), a: upload()?, b: upload()?, c })
    }

    /// Floating-point operations: a multiplication and an addition for each element of each sum.
    #[must_use]
    pub fn flop(&self) -> f64 {
        2.0 * f64::from(self.rows).powi(3)
    }

    /// Checks the last element of `c`.
    ///
    /// # Errors
    /// Where it is another than it should be, or cannot be copied.
    pub fn check(&self, stream: &Arc<CudaStream>) -> Result<()> {
        let last = self.c.slice(self.c.len() - self.elements.bytes()..);
        let bytes = stream.clone_dtoh(&last).map_err(failed("copying to the host"))?;
        stream.synchronize().map_err(failed("waiting for a copy"))?;
        let value = self.elements.read(&bytes);
        if f64::from(value) == f64::from(self.rows) {
            return Ok(());
        }
        Err(format!("cuBLAS computed {value} instead of {} in {}", self.rows, self.elements.name()))
    }
}

/// An open libcublas, with a handle whose work goes to one stream.
pub struct Blas {
    library: Toolkit,
    handle: *mut c_void,
    stream: Arc<CudaStream>,
}

impl Blas {
    /// Opens cuBLAS; `CUBLAS_PATH` in the environment names the library.
    ///
    /// # Errors
    /// One sentence, with what to do, where it is not installed; the call that failed.
    pub fn open(gpu: &Gpu, stream: &Arc<CudaStream>) -> Result<Self> {
        gpu.bind()?;
        let library = Toolkit::open("cublas", "CUBLAS_PATH")?;
        let mut handle = std::ptr::null_mut();
        call!(library, "cublasCreate_v2", (&raw mut handle => *mut *mut c_void))?;
        let this = Self { library, handle, stream: Arc::clone(stream) };
        let stream = stream.cu_stream().cast::<c_void>();
        call!(this.library, "cublasSetStream_v2", (this.handle => *mut c_void, stream => *mut c_void))?;
        Ok(this)
    }

    /// The library's name and version, `libcublas.so.13 (13.0.2)`.
    ///
    /// # Errors
    /// The call that failed.
    pub fn describe(&self) -> Result<String> {
        let mut version = 0;
        call!(
            self.library,
            "cublasGetVersion_v2",
            (self.handle => *mut c_void, &raw mut version => *mut i32)
        )?;
        let [major, minor, patch] = [version / 10_000, version / 100 % 100, version % 100];
        Ok(format!("{} ({major}.{minor}.{patch})", self.library.name))
    }

    /// Computes the product, in the stream. cuBLAS chooses which kernels that takes.
    ///
    /// # Errors
    /// The call that failed.
    pub fn multiply(&self, product: &mut Product) -> Result<()> {
        let Product { elements, rows, a, b, c } = product;
        let (kind, rows) = (elements.data_type(), *rows);
        let ((a, _a), (b, _b)) = (a.device_ptr(&self.stream), b.device_ptr(&self.stream));
        let (c, _c) = c.device_ptr_mut(&self.stream);
        let (alpha, beta) = (1.0_f32, 0.0_f32);
        call!(
            self.library,
            "cublasGemmEx",
            (
                self.handle => *mut c_void, OP_N => i32, OP_N => i32, rows => i32, rows => i32, rows => i32,
                &raw const alpha => *const f32, a => u64, kind => i32, rows => i32, b => u64, kind => i32, rows => i32,
                &raw const beta => *const f32, c => u64, kind => i32, rows => i32, COMPUTE_32F => i32,
                GEMM_DEFAULT => i32,
            )
        )
    }
}

impl Drop for Blas {
    fn drop(&mut self) {
        // The work may still use what the handle has.
        let _ = self.stream.synchronize();
        let _ = call!(self.library, "cublasDestroy_v2", (self.handle => *mut c_void));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_16_bits_are_read() {
        let read = |bits: u16| Elements::Half.read(&bits.to_le_bytes());
        assert_eq!([0x0000, 0x3c00, 0xc000, 0x6c00, 0x7bff].map(read), [0.0, 1.0, -2.0, 4096.0, 65504.0]);
        assert_eq!(Elements::Half.read(Elements::Half.one()), 1.0);
        assert_eq!(Elements::Single.read(Elements::Single.one()), 1.0);
    }
}
