//! A context with the kernels loaded, and a safe method to launch each of them.
#![expect(unsafe_code, reason = "launches kernels, whose arguments only the author of the kernel can check")]

use std::fmt::Write as _;
use std::sync::Arc;

use cudarc::driver::{
    CudaContext, CudaFunction, CudaModule, CudaSlice, CudaStream, LaunchConfig, PushKernelArg,
};
use cudarc::driver::{DriverError, result, sys};
use cudarc::nvrtc::Ptx;

use crate::Result;

/// Every kernel of this crate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernel {
    /// Does nothing.
    Empty,
    /// Does nothing, under a C name.
    PlainC,
    /// `y = a * x + y`.
    Saxpy,
    /// Copies floats.
    Copy,
    /// Sets floats to a value; an instance of a template.
    Fill,
    /// Sums per block; uses 1024 bytes of static shared memory.
    Reduce,
    /// A naive matrix product.
    Gemm,
    /// Waits by the GPU's own clock.
    Spin,
    /// Writes each block's rank in its cluster; needs compute capability 9.0.
    Clustered,
}

impl Kernel {
    /// The kernels that run on every GPU.
    pub const GENERAL: [Self; 8] = [
        Self::Empty,
        Self::PlainC,
        Self::Saxpy,
        Self::Copy,
        Self::Fill,
        Self::Reduce,
        Self::Gemm,
        Self::Spin,
    ];

    /// The name in the module.
    #[must_use]
    pub const fn mangled(self) -> &'static str {
        match self {
            Self::Empty => "_Z5emptyv",
            Self::PlainC => "plain_c",
            Self::Saxpy => "_Z5saxpyPfS_fi",
            Self::Copy => "_Z4copyPKfPfi",
            Self::Fill => "_Z4fillIfEvPT_S0_i",
            Self::Reduce => "_Z6reducePKfPfi",
            Self::Gemm => "_Z4gemmPKfS0_Pfi",
            Self::Spin => "_Z4spinyPy",
            Self::Clustered => "_Z9clusteredPi",
        }
    }

    /// The name as a C++ programmer wrote it.
    #[must_use]
    pub const fn demangled(self) -> &'static str {
        match self {
            Self::Empty => "empty()",
            Self::PlainC => "plain_c",
            Self::Saxpy => "saxpy(float*, float*, float, int)",
            Self::Copy => "copy(float const*, float*, int)",
            Self::Fill => "void fill<float>(float*, float, int)",
            Self::Reduce => "reduce(float const*, float*, int)",
            Self::Gemm => "gemm(float const*, float const*, float*, int)",
            Self::Spin => "spin(unsigned long long, unsigned long long*)",
            Self::Clustered => "clustered(int*)",
        }
    }
}

/// What a spinning kernel measured itself.
#[derive(Clone, Copy, Debug)]
pub struct SpinReport {
    /// The GPU's nanosecond timer when the kernel began and ended. Its resolution differs by GPU (32 ns on an H200).
    pub globaltimer_ns: (u64, u64),
    /// The SM's cycle counter when the kernel began and ended.
    pub clock: (u64, u64),
}

/// The first GPU, with a context of its own and this crate's kernels.
pub struct Gpu {
    context: Arc<CudaContext>,
    general: Vec<CudaFunction>,
    clustered: Option<CudaFunction>,
}

pub(crate) fn failed(what: &str) -> impl FnOnce(DriverError) -> String {
    move |error| format!("{what}: {error}")
}

impl Gpu {
    /// Says whether there is a driver with a GPU, without creating a context.
    ///
    /// # Errors
    /// One sentence: no libcuda, a libcuda that does not start, or no device.
    pub fn probe() -> Result<()> {
        // SAFETY: opens the library, whose initialisers are trusted like any other dependency's.
        if !unsafe { sys::is_culib_present() } {
            return Err("libcuda is not installed".to_owned());
        }
        result::init().map_err(failed("cuInit"))?;
        match result::device::get_count().map_err(failed("cuDeviceGetCount"))? {
            0 => Err("the driver sees no GPU".to_owned()),
            _ => Ok(()),
        }
    }

    /// Opens the first GPU, with its primary context made current to this thread.
    ///
    /// # Errors
    /// As [`Gpu::probe`], and where the context or the kernels cannot be loaded.
    pub fn open() -> Result<Self> {
        Self::probe()?;
        let context = CudaContext::new(0).map_err(failed("creating a context"))?;
        // SAFETY: no work of this crate shares a buffer between streams without waiting for the first of them.
        unsafe { context.disable_event_tracking() };
        let module = context
            .load_module(Ptx::from_src(include_str!("general.ptx")))
            .map_err(failed("loading the kernels"))?;
        let general = Kernel::GENERAL
            .iter()
            .map(|kernel| module.load_function(kernel.mangled()).map_err(failed(kernel.mangled())))
            .collect::<Result<_>>()?;
        let (major, _) = context.compute_capability().map_err(failed("compute capability"))?;
        let clustered = if major >= 9 {
            let module = context
                .load_module(Ptx::from_src(include_str!("cluster.ptx")))
                .map_err(failed("loading the cluster kernel"))?;
            Some(module.load_function(Kernel::Clustered.mangled()).map_err(failed("clustered"))?)
        } else {
            None
        };
        Ok(Self { context, general, clustered })
    }

    /// The context, for cudarc's own API.
    #[must_use]
    pub fn context(&self) -> &Arc<CudaContext> {
        &self.context
    }

    /// The GPU's name and the driver's version, as in `NVIDIA H200 (driver 580.159.03)`.
    #[must_use]
    pub fn describe(&self) -> String {
        let name = self.context.name().unwrap_or_else(|_| "a GPU".to_owned());
        match driver_release().or_else(|| cuda_version().map(|version| format!("for CUDA {version}"))) {
            Some(driver) => format!("{name} (driver {driver})"),
            None => name,
        }
    }

    /// Whether the GPU has thread-block clusters.
    #[must_use]
    pub fn has_clusters(&self) -> bool {
        self.clustered.is_some()
    }

    /// Makes the context current to the calling thread.
    ///
    /// # Errors
    /// The driver's.
    pub fn bind(&self) -> Result<()> {
        self.context.bind_to_thread().map_err(failed("binding the context"))
    }

    /// Waits for all work of the context.
    ///
    /// # Errors
    /// The driver's, including errors of earlier work.
    pub fn synchronize(&self) -> Result<()> {
        self.context.synchronize().map_err(failed("waiting for the GPU"))
    }

    /// A new stream that does not wait for the default stream.
    ///
    /// # Errors
    /// The driver's.
    pub fn stream(&self) -> Result<Arc<CudaStream>> {
        self.context.new_stream().map_err(failed("creating a stream"))
    }

    /// A buffer of zeros; filling it is one memset of `4 * len` bytes on the stream.
    ///
    /// # Errors
    /// The driver's.
    pub fn zeros(&self, stream: &Arc<CudaStream>, len: usize) -> Result<CudaSlice<f32>> {
        stream.alloc_zeros(len).map_err(failed("allocating"))
    }

    /// A buffer with these values: one copy of `4 * len` bytes to the device.
    ///
    /// # Errors
    /// The driver's.
    pub fn upload(&self, stream: &Arc<CudaStream>, values: &[f32]) -> Result<CudaSlice<f32>> {
        stream.clone_htod(values).map_err(failed("copying to the device"))
    }

    /// The buffer's values: one copy of `4 * len` bytes to the host, waited for.
    ///
    /// # Errors
    /// The driver's.
    pub fn download(&self, stream: &Arc<CudaStream>, values: &CudaSlice<f32>) -> Result<Vec<f32>> {
        let host = stream.clone_dtoh(values).map_err(failed("copying to the host"))?;
        stream.synchronize().map_err(failed("waiting for a copy"))?;
        Ok(host)
    }

    pub(crate) fn function(&self, kernel: Kernel) -> Result<&CudaFunction> {
        let position = Kernel::GENERAL.iter().position(|each| *each == kernel);
        match position {
            Some(position) => self.general.get(position).ok_or_else(|| format!("{kernel:?} is not loaded")),
            None => self.clustered.as_ref().ok_or_else(|| "this GPU has no clusters".to_owned()),
        }
    }

    /// Launches the empty kernel with one block of one warp.
    ///
    /// # Errors
    /// The driver's, as for every launch below.
    pub fn empty(&self, stream: &CudaStream) -> Result<()> {
        self.empty_of_shape(stream, [1, 1, 1], [32, 1, 1], 0)
    }

    /// Launches the empty kernel with this grid, block and dynamic shared memory.
    ///
    /// # Errors
    /// The driver's: a shape that the GPU does not allow, among others.
    pub fn empty_of_shape(
        &self,
        stream: &CudaStream,
        grid: [u32; 3],
        block: [u32; 3],
        shared_bytes: u32,
    ) -> Result<()> {
        let config = LaunchConfig {
            grid_dim: (grid[0], grid[1], grid[2]),
            block_dim: (block[0], block[1], block[2]),
            shared_mem_bytes: shared_bytes,
        };
        let mut launch = stream.launch_builder(self.function(Kernel::Empty)?);
        // SAFETY: the kernel has no arguments and touches no memory.
        unsafe { launch.launch(config) }.map_err(failed("launching empty"))?;
        Ok(())
    }

    /// Launches the empty kernel under its C name.
    ///
    /// # Errors
    /// The driver's.
    pub fn plain_c(&self, stream: &CudaStream) -> Result<()> {
        let mut launch = stream.launch_builder(self.function(Kernel::PlainC)?);
        // SAFETY: the kernel has no arguments and touches no memory.
        unsafe { launch.launch(LaunchConfig::for_num_elems(1)) }.map_err(failed("launching plain_c"))?;
        Ok(())
    }

    /// `y = a * x + y`, in blocks of 256.
    ///
    /// # Errors
    /// The driver's, or where `x` is shorter than `y`.
    pub fn saxpy(
        &self,
        stream: &CudaStream,
        y: &mut CudaSlice<f32>,
        x: &CudaSlice<f32>,
        a: f32,
    ) -> Result<()> {
        let (count, config) = elements(y.len().min(x.len()))?;
        let mut launch = stream.launch_builder(self.function(Kernel::Saxpy)?);
        launch.arg(y).arg(x).arg(&a).arg(&count);
        // SAFETY: the arguments are those of the kernel, which touches `count` elements of each buffer.
        unsafe { launch.launch(config) }.map_err(failed("launching saxpy"))?;
        Ok(())
    }

    /// Copies as many floats as both buffers have, in blocks of 256.
    ///
    /// # Errors
    /// The driver's.
    pub fn copy(&self, stream: &CudaStream, from: &CudaSlice<f32>, to: &mut CudaSlice<f32>) -> Result<()> {
        let (count, config) = elements(from.len().min(to.len()))?;
        let mut launch = stream.launch_builder(self.function(Kernel::Copy)?);
        launch.arg(from).arg(to).arg(&count);
        // SAFETY: the arguments are those of the kernel, which touches `count` elements of each buffer.
        unsafe { launch.launch(config) }.map_err(failed("launching copy"))?;
        Ok(())
    }

    /// Sets every element, in blocks of 256.
    ///
    /// # Errors
    /// The driver's.
    pub fn fill(&self, stream: &CudaStream, to: &mut CudaSlice<f32>, value: f32) -> Result<()> {
        let (count, config) = elements(to.len())?;
        let mut launch = stream.launch_builder(self.function(Kernel::Fill)?);
        launch.arg(to).arg(&value).arg(&count);
        // SAFETY: the arguments are those of the kernel, which touches `count` elements.
        unsafe { launch.launch(config) }.map_err(failed("launching fill"))?;
        Ok(())
    }

    /// Sums each 256 elements of `from` into one of `to`.
    ///
    /// # Errors
    /// The driver's, or where `to` is too short.
    pub fn reduce(&self, stream: &CudaStream, from: &CudaSlice<f32>, to: &mut CudaSlice<f32>) -> Result<()> {
        let (count, config) = elements(from.len())?;
        if to.len() < from.len().div_ceil(256) {
            return Err("reduce needs one element for each 256".to_owned());
        }
        let mut launch = stream.launch_builder(self.function(Kernel::Reduce)?);
        launch.arg(from).arg(to).arg(&count);
        // SAFETY: the arguments are those of the kernel; each block writes one element, and there are enough.
        unsafe { launch.launch(config) }.map_err(failed("launching reduce"))?;
        Ok(())
    }

    /// `c = a * b` for square row-major matrices of `n` rows, in blocks of 16 × 16.
    ///
    /// # Errors
    /// The driver's, or where a buffer is shorter than `n * n`.
    pub fn gemm(
        &self,
        stream: &CudaStream,
        a: &CudaSlice<f32>,
        b: &CudaSlice<f32>,
        c: &mut CudaSlice<f32>,
        n: u32,
    ) -> Result<()> {
        let elements = n as usize * n as usize;
        if a.len().min(b.len()).min(c.len()) < elements || elements > i32::MAX as usize {
            return Err(format!("gemm of {n} rows needs three buffers of {elements} elements"));
        }
        let side = n.div_ceil(16).max(1);
        let config = LaunchConfig { grid_dim: (side, side, 1), block_dim: (16, 16, 1), shared_mem_bytes: 0 };
        let mut launch = stream.launch_builder(self.function(Kernel::Gemm)?);
        launch.arg(a).arg(b).arg(c).arg(&n);
        // SAFETY: the arguments are those of the kernel, which touches n * n elements of each buffer.
        unsafe { launch.launch(config) }.map_err(failed("launching gemm"))?;
        Ok(())
    }

    /// A buffer for the report of [`Gpu::spin`]; filling it with zeros is one memset of 32 bytes.
    ///
    /// # Errors
    /// The driver's.
    pub fn spin_buffer(&self, stream: &Arc<CudaStream>) -> Result<CudaSlice<u64>> {
        stream.alloc_zeros(4).map_err(failed("allocating"))
    }

    /// Keeps one warp busy for so many nanoseconds of the GPU's own timer.
    ///
    /// # Errors
    /// The driver's, or where the buffer is shorter than four elements.
    pub fn spin(&self, stream: &CudaStream, nanoseconds: u64, report: &mut CudaSlice<u64>) -> Result<()> {
        if report.len() < 4 {
            return Err("spin needs four elements for its report".to_owned());
        }
        let config = LaunchConfig { grid_dim: (1, 1, 1), block_dim: (32, 1, 1), shared_mem_bytes: 0 };
        let mut launch = stream.launch_builder(self.function(Kernel::Spin)?);
        launch.arg(&nanoseconds).arg(report);
        // SAFETY: the arguments are those of the kernel, which writes four elements.
        unsafe { launch.launch(config) }.map_err(failed("launching spin"))?;
        Ok(())
    }

    /// Reads what a spinning kernel measured: one copy of 32 bytes to the host, waited for.
    ///
    /// # Errors
    /// The driver's.
    pub fn spin_report(&self, stream: &Arc<CudaStream>, report: &CudaSlice<u64>) -> Result<SpinReport> {
        let values: Vec<u64> = stream.clone_dtoh(report).map_err(failed("copying to the host"))?;
        stream.synchronize().map_err(failed("waiting for a copy"))?;
        match values[..] {
            [start, end, clock_start, clock_end, ..] => {
                Ok(SpinReport { globaltimer_ns: (start, end), clock: (clock_start, clock_end) })
            }
            _ => Err("the report of spin is too short".to_owned()),
        }
    }

    /// Launches the empty kernel with `cuLaunchCooperativeKernel`.
    ///
    /// # Errors
    /// The driver's.
    pub fn cooperative(&self, stream: &CudaStream) -> Result<()> {
        let config = LaunchConfig { grid_dim: (2, 1, 1), block_dim: (64, 1, 1), shared_mem_bytes: 0 };
        let mut launch = stream.launch_builder(self.function(Kernel::Empty)?);
        // SAFETY: the kernel has no arguments and touches no memory.
        unsafe { launch.launch_cooperative(config) }.map_err(failed("launching cooperatively"))?;
        Ok(())
    }

    /// A launcher of the empty kernel with as little around the driver call as possible, for timing.
    ///
    /// # Errors
    /// The driver's.
    pub fn launcher(&self, stream: &Arc<CudaStream>) -> Result<Launcher> {
        let function = self.function(Kernel::Empty)?.clone();
        Ok(Launcher { function, stream: Arc::clone(stream) })
    }

    /// Loads a module with `count` empty kernels of their own names, `prefix0`, `prefix1`, … (C names).
    ///
    /// # Errors
    /// The driver's.
    pub fn load_empty_kernels(&self, prefix: &str, count: usize) -> Result<Vec<EmptyKernel>> {
        let module: Arc<CudaModule> = self
            .context
            .load_module(Ptx::from_src(empty_kernels(prefix, count)))
            .map_err(failed("loading a module"))?;
        (0..count)
            .map(|index| module.load_function(&format!("{prefix}{index}")).map(EmptyKernel))
            .collect::<Result<_, _>>()
            .map_err(failed("finding a kernel"))
    }

    /// Launches a kernel that [`Gpu::load_empty_kernels`] made, with one block of 32.
    ///
    /// # Errors
    /// The driver's.
    pub fn launch_empty_kernel(&self, stream: &CudaStream, kernel: &EmptyKernel) -> Result<()> {
        let config = LaunchConfig { grid_dim: (1, 1, 1), block_dim: (32, 1, 1), shared_mem_bytes: 0 };
        let mut launch = stream.launch_builder(&kernel.0);
        // SAFETY: the kernel is one of `empty_kernels`, which have no arguments and touch no memory.
        unsafe { launch.launch(config) }.map_err(failed("launching a kernel"))?;
        Ok(())
    }
}

/// An empty kernel of a module made by [`Gpu::load_empty_kernels`]; the module is unloaded with its last kernel.
pub struct EmptyKernel(CudaFunction);

fn empty_kernels(prefix: &str, count: usize) -> String {
    let mut text = ".version 7.8\n.target sm_70\n.address_size 64\n".to_owned();
    for index in 0..count {
        // Writing to a String does not fail.
        let _ = writeln!(text, ".visible .entry {prefix}{index}() {{ ret; }}");
    }
    text
}

/// Launches the empty kernel on one stream; the context must be current to the thread ([`Gpu::bind`]).
pub struct Launcher {
    function: CudaFunction,
    stream: Arc<CudaStream>,
}

impl Launcher {
    /// One `cuLaunchKernel`; returns the driver's code, 0 for success.
    #[inline]
    #[must_use]
    pub fn launch(&self) -> u32 {
        let (function, stream) = (self.function.cu_function(), self.stream.cu_stream());
        let none = std::ptr::null_mut();
        // SAFETY: the function and the stream are alive in `self`; the kernel has no arguments.
        let code = unsafe { sys::cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, none, none.cast()) };
        code as u32
    }

    /// Waits for the stream.
    ///
    /// # Errors
    /// The driver's.
    pub fn synchronize(&self) -> Result<()> {
        self.stream.synchronize().map_err(failed("waiting for a stream"))
    }
}

pub(crate) fn elements(len: usize) -> Result<(i32, LaunchConfig)> {
    let count = i32::try_from(len).map_err(|_| format!("{len} elements are too many"))?;
    let blocks = count.unsigned_abs().div_ceil(256).max(1);
    Ok((count, LaunchConfig { grid_dim: (blocks, 1, 1), block_dim: (256, 1, 1), shared_mem_bytes: 0 }))
}

/// The kernel module's release, `580.159.03`, if the system tells.
fn driver_release() -> Option<String> {
    let read = |path| std::fs::read_to_string(path).ok();
    if let Some(version) = read("/sys/module/nvidia/version") {
        return Some(version.trim().to_owned());
    }
    let text = read("/proc/driver/nvidia/version")?;
    let is_release = |word: &&str| word.contains('.') && word.chars().all(|c| c.is_ascii_digit() || c == '.');
    text.lines().next()?.split_whitespace().find(is_release).map(str::to_owned)
}

/// The newest CUDA version that the driver supports, `13.0`; none without a driver.
#[must_use]
pub fn cuda_version() -> Option<String> {
    let mut version = 0;
    // SAFETY: opens the library, or finds it open.
    if !unsafe { sys::is_culib_present() } {
        return None;
    }
    // SAFETY: the pointer is valid for the call, which may be made before cuInit.
    let code = unsafe { sys::cuDriverGetVersion(&raw mut version) };
    (code == sys::CUresult::CUDA_SUCCESS).then(|| format!("{}.{}", version / 1000, version % 1000 / 10))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_is_in_its_module() {
        let general = include_str!("general.ptx");
        for kernel in Kernel::GENERAL {
            assert!(general.contains(&format!(".visible .entry {}(", kernel.mangled())), "{kernel:?}");
        }
        assert!(include_str!("cluster.ptx").contains(Kernel::Clustered.mangled()));
    }

    #[test]
    fn without_a_driver_opening_is_an_error_and_not_a_panic() {
        match Gpu::open() {
            Ok(gpu) => println!("{}", gpu.describe()),
            Err(reason) => println!("not opened: {reason}"),
        }
    }

    #[test]
    fn generated_modules_have_the_asked_names() {
        let text = empty_kernels("early_", 2);
        assert!(text.contains("early_0()") && text.contains("early_1()"));
    }
}
