//! GPU work with a known answer: each function says exactly which kernels it ran, how often, and which bytes it
//! moved, so that a profile of it can be checked row by row.
//!
//! The kernels are PTX text in this crate, so neither nvcc nor a CUDA toolkit is needed; the driver is opened at
//! run time, and a machine without one gets an error from [`Gpu::open`], never a panic.
//!
//! * [`Gpu`] owns a context and launches each kernel by a typed, safe method.
//! * [`work`] has small programs: copies, a training step, streams that overlap, modules that come and go.
//! * [`Graph`] captures or builds CUDA graphs.
//! * [`calls`] lists every driver call that starts work on a device, each with what it does.
//! * [`Known`] are kernels whose instructions and bytes follow from their arguments.
//! * [`Victims`] are kernels whose time tells what the L2 cache holds.
//! * [`Blas`] multiplies matrices with cuBLAS, and [`Compiled`] are kernels that NVRTC compiles at run time, if these are
//!   installed.
//! * [`runtime`] makes copies through libcudart, if one is installed.

mod blas;
pub mod calls;
mod compiled;
mod expected;
mod gpu;
mod graph;
mod known;
mod raw;
pub mod runtime;
mod toolkit;
mod victims;
pub mod work;

pub use blas::{Blas, Elements, Product};
pub use compiled::Compiled;
pub use cudarc;
pub use expected::{Expected, Traffic};
pub use gpu::{EmptyKernel, Gpu, Kernel, Launcher, SpinReport, cuda_version};
pub use graph::Graph;
pub use known::{KNOWN_THREADS, Known};
pub use victims::{Stamps, Victims};

/// The result of GPU work; the error is a sentence.
pub type Result<T, E = String> = std::result::Result<T, E>;
