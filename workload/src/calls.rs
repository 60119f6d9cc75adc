//! Every driver call that starts work on a device, under each name that the driver exports it by.
//!
//! The `_ptsz` and `_ptds` names are what a program calls that was compiled for per-thread default streams; the
//! CUDA runtime calls them too. [`CALLS`] lists them all; [`Ground`] has the memory and the handles that they need.
#![expect(unsafe_code, reason = "calls functions of libcuda by their C signatures")]

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::Arc;

use cudarc::driver::CudaStream;

pub use crate::raw::Outcome;
use crate::raw::{Memory, must, raw};
use crate::{Expected, Gpu, Graph, Kernel, Result};

/// Bytes that one plain copy or fill moves.
pub const BYTES: usize = 4096;
/// The rows of two- and three-dimensional copies: 8 rows of 512 bytes, so the bytes are the same.
const ROWS: usize = 8;
const ROW_BYTES: usize = BYTES / ROWS;
/// Rows of two-dimensional work lie so many bytes apart.
const PITCH: usize = 1024;
/// What each buffer has room for.
const ROOM: usize = PITCH * ROWS;

/// What a call starts on the device when it succeeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// One execution of a kernel.
    Kernel(Kernel),
    /// So many copies of [`BYTES`] with this copy kind.
    Copies(&'static str, u64),
    /// One copy of [`BYTES`] between two contexts or devices. On one device a profiler may see a plain copy.
    Peer,
    /// One fill of [`BYTES`].
    Fill,
}

/// One driver call.
#[derive(Clone, Copy)]
pub struct Call {
    /// The symbol in libcuda.
    pub name: &'static str,
    /// What it starts.
    pub work: Work,
    /// Whether a successful call is known to leave one record for each piece of work. Legacy calls, arrays, peers and
    /// batches are not: what they become on the device differs by driver.
    pub certain: bool,
    run: fn(&Ground, &'static str) -> Outcome,
}

impl Call {
    /// What one successful call does.
    #[must_use]
    pub fn expected(&self) -> Expected {
        let bytes = BYTES as u64;
        match self.work {
            Work::Kernel(kernel) => Expected::default().kernel(kernel, 1),
            Work::Copies(kind, count) => Expected::default().copy(kind, count, bytes),
            Work::Peer => Expected::default().copy("peer_to_peer", 1, bytes),
            Work::Fill => Expected::default().fill(1, bytes),
        }
    }

    /// Whether the call takes a stream; it is then made on [`Ground`]'s own, or on the per-thread default stream.
    #[must_use]
    pub fn is_per_thread(&self) -> bool {
        self.name.ends_with("_ptsz") || self.name.ends_with("_ptds")
    }
}

/// What the calls work on. One per thread: it is not for use by two threads at once.
pub struct Ground {
    stream: Arc<CudaStream>,
    function: u64,
    clustered: Option<u64>,
    context: u64,
    a: Memory,
    b: Memory,
    pinned: Memory,
    pageable: Vec<u8>,
    array: Memory,
    array_b: Memory,
    clusters: Memory,
    graph: Graph,
}

impl Ground {
    /// Allocates what the calls need. Starts no work itself, but loads the graph of one kernel that
    /// `cuGraphLaunch` launches.
    ///
    /// # Errors
    /// The driver's.
    pub fn new(gpu: &Gpu) -> Result<Self> {
        gpu.bind()?;
        let clustered = gpu.function(Kernel::Clustered).ok().map(|function| function.cu_function() as u64);
        let stream = gpu.stream()?;
        Ok(Self {
            function: gpu.function(Kernel::Empty)?.cu_function() as u64,
            clustered,
            context: gpu.context().cu_ctx() as u64,
            a: Memory::on_device(ROOM)?,
            b: Memory::on_device(ROOM)?,
            pinned: Memory::pinned(ROOM)?,
            pageable: vec![0; ROOM],
            array: Memory::array(BYTES)?,
            array_b: Memory::array(BYTES)?,
            clusters: Memory::on_device(64)?,
            graph: Graph::of_kernels(gpu, 1)?,
            stream,
        })
    }

    /// Makes the call and waits for the context. The context must be current to the thread.
    ///
    /// # Errors
    /// Where waiting fails, which means that the work failed on the device.
    pub fn run(&mut self, call: &Call) -> Result<Outcome> {
        let outcome = (call.run)(self, call.name);
        must("cuCtxSynchronize", raw!("cuCtxSynchronize", ()))?;
        Ok(outcome)
    }

    /// The stream of a call: our own, or the (per-thread) default stream for the twin of this name.
    fn stream_of(&self, name: &str) -> u64 {
        if name.ends_with("_ptsz") { 0 } else { self.stream.cu_stream() as u64 }
    }

    fn pageable(&self) -> u64 {
        self.pageable.as_ptr() as u64
    }

    fn pageable_for_writing(&self) -> u64 {
        // Only the driver writes there, during a call that is waited for, and nobody reads.
        self.pageable.as_ptr().cast_mut() as u64
    }
}

// ---- launches

#[repr(C)]
struct LaunchConfig {
    grid: [u32; 3],
    block: [u32; 3],
    shared_bytes: u32,
    stream: u64,
    attributes: *const LaunchAttribute,
    attribute_count: u32,
}

#[repr(C, align(8))]
struct LaunchAttribute {
    id: u32,
    padding: u32,
    value: [u32; 16],
}

fn launch_kernel(ground: &Ground, name: &'static str) -> Outcome {
    let none: *mut *mut c_void = null_mut();
    raw!(name, (
        ground.function => u64,
        2 => u32, 1 => u32, 1 => u32,
        64 => u32, 1 => u32, 1 => u32,
        0 => u32,
        ground.stream_of(name) => u64,
        none => *mut *mut c_void,
        none => *mut *mut c_void,
    ))
}

fn launch_kernel_ex(ground: &Ground, name: &'static str) -> Outcome {
    let config = LaunchConfig {
        grid: [2, 1, 1],
        block: [64, 1, 1],
        shared_bytes: 0,
        stream: ground.stream_of(name),
        attributes: std::ptr::null(),
        attribute_count: 0,
    };
    let none: *mut *mut c_void = null_mut();
    raw!(name, (
        &raw const config => *const LaunchConfig,
        ground.function => u64,
        none => *mut *mut c_void,
        none => *mut *mut c_void,
    ))
}

/// `cuLaunchKernelEx` with clusters of two blocks.
fn launch_clusters(ground: &Ground, name: &'static str) -> Outcome {
    const CLUSTER_DIMENSION: u32 = 4;
    let Some(function) = ground.clustered else { return Outcome::Missing };
    let mut value = [0; 16];
    value[..3].copy_from_slice(&[2, 1, 1]);
    let attribute = LaunchAttribute { id: CLUSTER_DIMENSION, padding: 0, value };
    let config = LaunchConfig {
        grid: [4, 1, 1],
        block: [32, 1, 1],
        shared_bytes: 0,
        stream: ground.stream_of(name),
        attributes: &raw const attribute,
        attribute_count: 1,
    };
    let mut out = ground.clusters.address;
    let mut arguments: [*mut c_void; 1] = [(&raw mut out).cast()];
    let none: *mut *mut c_void = null_mut();
    raw!(name, (
        &raw const config => *const LaunchConfig,
        function => u64,
        arguments.as_mut_ptr() => *mut *mut c_void,
        none => *mut *mut c_void,
    ))
}

fn launch_cooperative(ground: &Ground, name: &'static str) -> Outcome {
    let none: *mut *mut c_void = null_mut();
    raw!(name, (
        ground.function => u64,
        2 => u32, 1 => u32, 1 => u32,
        64 => u32, 1 => u32, 1 => u32,
        0 => u32,
        ground.stream_of(name) => u64,
        none => *mut *mut c_void,
    ))
}

fn launch_cooperative_devices(ground: &Ground, name: &'static str) -> Outcome {
    #[repr(C)]
    struct LaunchParams {
        function: u64,
        grid: [u32; 3],
        block: [u32; 3],
        shared_bytes: u32,
        stream: u64,
        arguments: *mut *mut c_void,
    }
    let mut params = LaunchParams {
        function: ground.function,
        grid: [2, 1, 1],
        block: [64, 1, 1],
        shared_bytes: 0,
        stream: ground.stream_of(name),
        arguments: null_mut(),
    };
    raw!(name, (&raw mut params => *mut LaunchParams, 1 => u32, 0 => u32))
}

fn shape_for_legacy(ground: &Ground) -> Outcome {
    match raw!("cuFuncSetBlockShape", (ground.function => u64, 64 => i32, 1 => i32, 1 => i32)) {
        Outcome::Done => raw!("cuParamSetSize", (ground.function => u64, 0 => u32)),
        other => other,
    }
}

fn launch_legacy(ground: &Ground, name: &'static str) -> Outcome {
    match shape_for_legacy(ground) {
        Outcome::Done => raw!(name, (ground.function => u64)),
        other => other,
    }
}

fn launch_grid(ground: &Ground, name: &'static str) -> Outcome {
    match shape_for_legacy(ground) {
        Outcome::Done => raw!(name, (ground.function => u64, 2 => i32, 1 => i32)),
        other => other,
    }
}

fn launch_grid_async(ground: &Ground, name: &'static str) -> Outcome {
    match shape_for_legacy(ground) {
        Outcome::Done => {
            let stream = ground.stream.cu_stream() as u64;
            raw!(name, (ground.function => u64, 2 => i32, 1 => i32, stream => u64))
        }
        other => other,
    }
}

fn launch_graph(ground: &Ground, name: &'static str) -> Outcome {
    raw!(name, (ground.graph.exec() => u64, ground.stream_of(name) => u64))
}

// ---- copies

/// `(to, from, bytes)`, where each is an address on the device or the host.
fn copy_to_device(ground: &Ground, name: &'static str) -> Outcome {
    raw!(name, (ground.a.address => u64, ground.pageable() => u64, BYTES => usize))
}

fn copy_to_device_async(ground: &Ground, name: &'static str) -> Outcome {
    let stream = ground.stream_of(name);
    raw!(name, (ground.a.address => u64, ground.pinned.address => u64, BYTES => usize, stream => u64))
}

fn copy_to_host(ground: &Ground, name: &'static str) -> Outcome {
    raw!(name, (ground.pageable_for_writing() => u64, ground.a.address => u64, BYTES => usize))
}

fn copy_to_host_async(ground: &Ground, name: &'static str) -> Outcome {
    let stream = ground.stream_of(name);
    raw!(name, (ground.pinned.address => u64, ground.a.address => u64, BYTES => usize, stream => u64))
}

fn copy_on_device(ground: &Ground, name: &'static str) -> Outcome {
    raw!(name, (ground.b.address => u64, ground.a.address => u64, BYTES => usize))
}

fn copy_on_device_async(ground: &Ground, name: &'static str) -> Outcome {
    let stream = ground.stream_of(name);
    raw!(name, (ground.b.address => u64, ground.a.address => u64, BYTES => usize, stream => u64))
}

fn copy_peer(ground: &Ground, name: &'static str) -> Outcome {
    let (a, b, context) = (ground.a.address, ground.b.address, ground.context);
    raw!(name, (b => u64, context => u64, a => u64, context => u64, BYTES => usize))
}

fn copy_peer_async(ground: &Ground, name: &'static str) -> Outcome {
    let (a, b, context) = (ground.a.address, ground.b.address, ground.context);
    let stream = ground.stream_of(name);
    raw!(name, (b => u64, context => u64, a => u64, context => u64, BYTES => usize, stream => u64))
}

/// One side of a two-dimensional copy; the addresses are as wide as pointers.
#[repr(C)]
#[derive(Default)]
struct Side2D {
    x_bytes: usize,
    y: usize,
    memory: u32,
    host: usize,
    device: u64,
    array: usize,
    pitch: usize,
}

#[repr(C)]
struct Copy2D {
    from: Side2D,
    to: Side2D,
    width_bytes: usize,
    height: usize,
}

const DEVICE: u32 = 2;

fn copy_2d_params(ground: &Ground) -> Copy2D {
    let side = |device| Side2D { memory: DEVICE, device, pitch: PITCH, ..Side2D::default() };
    Copy2D { from: side(ground.a.address), to: side(ground.b.address), width_bytes: ROW_BYTES, height: ROWS }
}

fn copy_2d(ground: &Ground, name: &'static str) -> Outcome {
    let params = copy_2d_params(ground);
    raw!(name, (&raw const params => *const Copy2D))
}

fn copy_2d_async(ground: &Ground, name: &'static str) -> Outcome {
    let params = copy_2d_params(ground);
    raw!(name, (&raw const params => *const Copy2D, ground.stream_of(name) => u64))
}

/// One side of a three-dimensional copy; `context` is reserved (zero) where both sides share one.
#[repr(C)]
#[derive(Default)]
pub(crate) struct Side3D {
    x_bytes: usize,
    y: usize,
    z: usize,
    lod: usize,
    memory: u32,
    host: usize,
    device: u64,
    array: usize,
    context: u64,
    pitch: usize,
    height: usize,
}

#[repr(C)]
pub(crate) struct Copy3D {
    from: Side3D,
    to: Side3D,
    width_bytes: usize,
    height: usize,
    depth: usize,
}

impl Copy3D {
    /// So many bytes in one row on one device.
    pub fn row(from: u64, to: u64, bytes: usize) -> Self {
        let side = |device| Side3D { memory: DEVICE, device, pitch: bytes, height: 1, ..Side3D::default() };
        Self { from: side(from), to: side(to), width_bytes: bytes, height: 1, depth: 1 }
    }
}

fn copy_3d_params(ground: &Ground, context: u64) -> Copy3D {
    let height = ROWS / 2;
    let side = |device| Side3D { memory: DEVICE, device, pitch: PITCH, height, context, ..Side3D::default() };
    let (from, to) = (side(ground.a.address), side(ground.b.address));
    Copy3D { from, to, width_bytes: ROW_BYTES, height, depth: 2 }
}

fn copy_3d(ground: &Ground, name: &'static str) -> Outcome {
    let params = copy_3d_params(ground, 0);
    raw!(name, (&raw const params => *const Copy3D))
}

fn copy_3d_async(ground: &Ground, name: &'static str) -> Outcome {
    let params = copy_3d_params(ground, 0);
    raw!(name, (&raw const params => *const Copy3D, ground.stream_of(name) => u64))
}

fn copy_3d_peer(ground: &Ground, name: &'static str) -> Outcome {
    let params = copy_3d_params(ground, ground.context);
    raw!(name, (&raw const params => *const Copy3D))
}

fn copy_3d_peer_async(ground: &Ground, name: &'static str) -> Outcome {
    let params = copy_3d_params(ground, ground.context);
    raw!(name, (&raw const params => *const Copy3D, ground.stream_of(name) => u64))
}

fn copy_host_to_array(ground: &Ground, name: &'static str) -> Outcome {
    raw!(name, (ground.array.address => u64, 0 => usize, ground.pageable() => u64, BYTES => usize))
}

fn copy_host_to_array_async(ground: &Ground, name: &'static str) -> Outcome {
    let (array, host, stream) = (ground.array.address, ground.pinned.address, ground.stream_of(name));
    raw!(name, (array => u64, 0 => usize, host => u64, BYTES => usize, stream => u64))
}

fn copy_array_to_host(ground: &Ground, name: &'static str) -> Outcome {
    raw!(name, (ground.pageable_for_writing() => u64, ground.array.address => u64, 0 => usize, BYTES => usize))
}

fn copy_array_to_host_async(ground: &Ground, name: &'static str) -> Outcome {
    let (array, host, stream) = (ground.array.address, ground.pinned.address, ground.stream_of(name));
    raw!(name, (host => u64, array => u64, 0 => usize, BYTES => usize, stream => u64))
}

fn copy_array_to_device(ground: &Ground, name: &'static str) -> Outcome {
    raw!(name, (ground.a.address => u64, ground.array.address => u64, 0 => usize, BYTES => usize))
}

fn copy_device_to_array(ground: &Ground, name: &'static str) -> Outcome {
    raw!(name, (ground.array.address => u64, 0 => usize, ground.a.address => u64, BYTES => usize))
}

fn copy_array_to_array(ground: &Ground, name: &'static str) -> Outcome {
    let (from, to) = (ground.array.address, ground.array_b.address);
    raw!(name, (to => u64, 0 => usize, from => u64, 0 => usize, BYTES => usize))
}

/// How the operations of a batch may be ordered, and where their memory lies.
#[repr(C)]
struct BatchAttributes {
    source_order: u32,
    from_location: [u32; 2],
    to_location: [u32; 2],
    flags: u32,
}

/// Two copies on the device in one call. The first form has one more argument, for the operation that failed.
fn copy_batch(ground: &Ground, name: &'static str) -> Outcome {
    const STREAM_ORDER: u32 = 1;
    let (a, b) = (ground.a.address, ground.b.address);
    let mut to = [b, b + BYTES as u64];
    let mut from = [a, a + BYTES as u64];
    let mut sizes = [BYTES, BYTES];
    let mut attributes =
        BatchAttributes { source_order: STREAM_ORDER, from_location: [0, 0], to_location: [0, 0], flags: 0 };
    let mut first_of_attribute = [0_usize];
    let stream = ground.stream_of(name);
    if name.contains("_v2") {
        return raw!(name, (
            to.as_mut_ptr() => *mut u64, from.as_mut_ptr() => *mut u64, sizes.as_mut_ptr() => *mut usize, 2 => usize,
            &raw mut attributes => *mut BatchAttributes, first_of_attribute.as_mut_ptr() => *mut usize, 1 => usize,
            stream => u64,
        ));
    }
    let mut failed = 0_usize;
    raw!(name, (
        to.as_mut_ptr() => *mut u64, from.as_mut_ptr() => *mut u64, sizes.as_mut_ptr() => *mut usize, 2 => usize,
        &raw mut attributes => *mut BatchAttributes, first_of_attribute.as_mut_ptr() => *mut usize, 1 => usize,
        &raw mut failed => *mut usize, stream => u64,
    ))
}

// ---- fills

fn fill_8(ground: &Ground, name: &'static str) -> Outcome {
    raw!(name, (ground.a.address => u64, 7 => u8, BYTES => usize))
}

fn fill_16(ground: &Ground, name: &'static str) -> Outcome {
    raw!(name, (ground.a.address => u64, 7 => u16, BYTES / 2 => usize))
}

fn fill_32(ground: &Ground, name: &'static str) -> Outcome {
    raw!(name, (ground.a.address => u64, 7 => u32, BYTES / 4 => usize))
}

fn fill_8_async(ground: &Ground, name: &'static str) -> Outcome {
    raw!(name, (ground.a.address => u64, 7 => u8, BYTES => usize, ground.stream_of(name) => u64))
}

fn fill_16_async(ground: &Ground, name: &'static str) -> Outcome {
    raw!(name, (ground.a.address => u64, 7 => u16, BYTES / 2 => usize, ground.stream_of(name) => u64))
}

fn fill_32_async(ground: &Ground, name: &'static str) -> Outcome {
    raw!(name, (ground.a.address => u64, 7 => u32, BYTES / 4 => usize, ground.stream_of(name) => u64))
}

fn fill_2d_8(ground: &Ground, name: &'static str) -> Outcome {
    raw!(name, (ground.a.address => u64, PITCH => usize, 7 => u8, ROW_BYTES => usize, ROWS => usize))
}

fn fill_2d_16(ground: &Ground, name: &'static str) -> Outcome {
    raw!(name, (ground.a.address => u64, PITCH => usize, 7 => u16, ROW_BYTES / 2 => usize, ROWS => usize))
}

fn fill_2d_32(ground: &Ground, name: &'static str) -> Outcome {
    raw!(name, (ground.a.address => u64, PITCH => usize, 7 => u32, ROW_BYTES / 4 => usize, ROWS => usize))
}

fn fill_2d_8_async(ground: &Ground, name: &'static str) -> Outcome {
    let (a, stream) = (ground.a.address, ground.stream_of(name));
    raw!(name, (a => u64, PITCH => usize, 7 => u8, ROW_BYTES => usize, ROWS => usize, stream => u64))
}

fn fill_2d_16_async(ground: &Ground, name: &'static str) -> Outcome {
    let (a, stream) = (ground.a.address, ground.stream_of(name));
    raw!(name, (a => u64, PITCH => usize, 7 => u16, ROW_BYTES / 2 => usize, ROWS => usize, stream => u64))
}

fn fill_2d_32_async(ground: &Ground, name: &'static str) -> Outcome {
    let (a, stream) = (ground.a.address, ground.stream_of(name));
    raw!(name, (a => u64, PITCH => usize, 7 => u32, ROW_BYTES / 4 => usize, ROWS => usize, stream => u64))
}

const fn sure(name: &'static str, work: Work, run: fn(&Ground, &'static str) -> Outcome) -> Call {
    Call { name, work, certain: true, run }
}

const fn unsure(name: &'static str, work: Work, run: fn(&Ground, &'static str) -> Outcome) -> Call {
    Call { name, work, certain: false, run }
}

const EMPTY: Work = Work::Kernel(Kernel::Empty);
const CLUSTERED: Work = Work::Kernel(Kernel::Clustered);
const TO_DEVICE: Work = Work::Copies("host_to_device", 1);
const TO_HOST: Work = Work::Copies("device_to_host", 1);
const ON_DEVICE: Work = Work::Copies("device_to_device", 1);
const TWO_ON_DEVICE: Work = Work::Copies("device_to_device", 2);
const HOST_TO_ARRAY: Work = Work::Copies("host_to_array", 1);
const ARRAY_TO_HOST: Work = Work::Copies("array_to_host", 1);
const ARRAY_TO_DEVICE: Work = Work::Copies("array_to_device", 1);
const DEVICE_TO_ARRAY: Work = Work::Copies("device_to_array", 1);
const ARRAY_TO_ARRAY: Work = Work::Copies("array_to_array", 1);

/// All of them.
pub static CALLS: &[Call] = &[
    sure("cuLaunchKernel", EMPTY, launch_kernel),
    sure("cuLaunchKernel_ptsz", EMPTY, launch_kernel),
    sure("cuLaunchKernelEx", EMPTY, launch_kernel_ex),
    sure("cuLaunchKernelEx_ptsz", EMPTY, launch_kernel_ex),
    sure("cuLaunchKernelEx", CLUSTERED, launch_clusters),
    sure("cuLaunchKernelEx_ptsz", CLUSTERED, launch_clusters),
    sure("cuLaunchCooperativeKernel", EMPTY, launch_cooperative),
    sure("cuLaunchCooperativeKernel_ptsz", EMPTY, launch_cooperative),
    unsure("cuLaunchCooperativeKernelMultiDevice", EMPTY, launch_cooperative_devices),
    unsure("cuLaunch", EMPTY, launch_legacy),
    unsure("cuLaunchGrid", EMPTY, launch_grid),
    unsure("cuLaunchGridAsync", EMPTY, launch_grid_async),
    sure("cuGraphLaunch", EMPTY, launch_graph),
    sure("cuGraphLaunch_ptsz", EMPTY, launch_graph),
    sure("cuMemcpyHtoD_v2", TO_DEVICE, copy_to_device),
    sure("cuMemcpyHtoD_v2_ptds", TO_DEVICE, copy_to_device),
    sure("cuMemcpyHtoDAsync_v2", TO_DEVICE, copy_to_device_async),
    sure("cuMemcpyHtoDAsync_v2_ptsz", TO_DEVICE, copy_to_device_async),
    sure("cuMemcpyDtoH_v2", TO_HOST, copy_to_host),
    sure("cuMemcpyDtoH_v2_ptds", TO_HOST, copy_to_host),
    sure("cuMemcpyDtoHAsync_v2", TO_HOST, copy_to_host_async),
    sure("cuMemcpyDtoHAsync_v2_ptsz", TO_HOST, copy_to_host_async),
    sure("cuMemcpyDtoD_v2", ON_DEVICE, copy_on_device),
    sure("cuMemcpyDtoD_v2_ptds", ON_DEVICE, copy_on_device),
    sure("cuMemcpyDtoDAsync_v2", ON_DEVICE, copy_on_device_async),
    sure("cuMemcpyDtoDAsync_v2_ptsz", ON_DEVICE, copy_on_device_async),
    sure("cuMemcpy", ON_DEVICE, copy_on_device),
    sure("cuMemcpy_ptds", ON_DEVICE, copy_on_device),
    sure("cuMemcpyAsync", ON_DEVICE, copy_on_device_async),
    sure("cuMemcpyAsync_ptsz", ON_DEVICE, copy_on_device_async),
    unsure("cuMemcpyPeer", Work::Peer, copy_peer),
    unsure("cuMemcpyPeer_ptds", Work::Peer, copy_peer),
    unsure("cuMemcpyPeerAsync", Work::Peer, copy_peer_async),
    unsure("cuMemcpyPeerAsync_ptsz", Work::Peer, copy_peer_async),
    sure("cuMemcpy2D_v2", ON_DEVICE, copy_2d),
    sure("cuMemcpy2D_v2_ptds", ON_DEVICE, copy_2d),
    sure("cuMemcpy2DUnaligned_v2", ON_DEVICE, copy_2d),
    sure("cuMemcpy2DUnaligned_v2_ptds", ON_DEVICE, copy_2d),
    sure("cuMemcpy2DAsync_v2", ON_DEVICE, copy_2d_async),
    sure("cuMemcpy2DAsync_v2_ptsz", ON_DEVICE, copy_2d_async),
    sure("cuMemcpy3D_v2", ON_DEVICE, copy_3d),
    sure("cuMemcpy3D_v2_ptds", ON_DEVICE, copy_3d),
    sure("cuMemcpy3DAsync_v2", ON_DEVICE, copy_3d_async),
    sure("cuMemcpy3DAsync_v2_ptsz", ON_DEVICE, copy_3d_async),
    unsure("cuMemcpy3DPeer", Work::Peer, copy_3d_peer),
    unsure("cuMemcpy3DPeer_ptds", Work::Peer, copy_3d_peer),
    unsure("cuMemcpy3DPeerAsync", Work::Peer, copy_3d_peer_async),
    unsure("cuMemcpy3DPeerAsync_ptsz", Work::Peer, copy_3d_peer_async),
    unsure("cuMemcpyHtoA_v2", HOST_TO_ARRAY, copy_host_to_array),
    unsure("cuMemcpyHtoA_v2_ptds", HOST_TO_ARRAY, copy_host_to_array),
    unsure("cuMemcpyHtoAAsync_v2", HOST_TO_ARRAY, copy_host_to_array_async),
    unsure("cuMemcpyHtoAAsync_v2_ptsz", HOST_TO_ARRAY, copy_host_to_array_async),
    unsure("cuMemcpyAtoH_v2", ARRAY_TO_HOST, copy_array_to_host),
    unsure("cuMemcpyAtoH_v2_ptds", ARRAY_TO_HOST, copy_array_to_host),
    unsure("cuMemcpyAtoHAsync_v2", ARRAY_TO_HOST, copy_array_to_host_async),
    unsure("cuMemcpyAtoHAsync_v2_ptsz", ARRAY_TO_HOST, copy_array_to_host_async),
    unsure("cuMemcpyAtoD_v2", ARRAY_TO_DEVICE, copy_array_to_device),
    unsure("cuMemcpyAtoD_v2_ptds", ARRAY_TO_DEVICE, copy_array_to_device),
    unsure("cuMemcpyDtoA_v2", DEVICE_TO_ARRAY, copy_device_to_array),
    unsure("cuMemcpyDtoA_v2_ptds", DEVICE_TO_ARRAY, copy_device_to_array),
    unsure("cuMemcpyAtoA_v2", ARRAY_TO_ARRAY, copy_array_to_array),
    unsure("cuMemcpyAtoA_v2_ptds", ARRAY_TO_ARRAY, copy_array_to_array),
    unsure("cuMemcpyBatchAsync", TWO_ON_DEVICE, copy_batch),
    unsure("cuMemcpyBatchAsync_ptsz", TWO_ON_DEVICE, copy_batch),
    unsure("cuMemcpyBatchAsync_v2", TWO_ON_DEVICE, copy_batch),
    unsure("cuMemcpyBatchAsync_v2_ptsz", TWO_ON_DEVICE, copy_batch),
    sure("cuMemsetD8_v2", Work::Fill, fill_8),
    sure("cuMemsetD8_v2_ptds", Work::Fill, fill_8),
    sure("cuMemsetD8Async", Work::Fill, fill_8_async),
    sure("cuMemsetD8Async_ptsz", Work::Fill, fill_8_async),
    sure("cuMemsetD16_v2", Work::Fill, fill_16),
    sure("cuMemsetD16_v2_ptds", Work::Fill, fill_16),
    sure("cuMemsetD16Async", Work::Fill, fill_16_async),
    sure("cuMemsetD16Async_ptsz", Work::Fill, fill_16_async),
    sure("cuMemsetD32_v2", Work::Fill, fill_32),
    sure("cuMemsetD32_v2_ptds", Work::Fill, fill_32),
    sure("cuMemsetD32Async", Work::Fill, fill_32_async),
    sure("cuMemsetD32Async_ptsz", Work::Fill, fill_32_async),
    sure("cuMemsetD2D8_v2", Work::Fill, fill_2d_8),
    sure("cuMemsetD2D8_v2_ptds", Work::Fill, fill_2d_8),
    sure("cuMemsetD2D8Async", Work::Fill, fill_2d_8_async),
    sure("cuMemsetD2D8Async_ptsz", Work::Fill, fill_2d_8_async),
    sure("cuMemsetD2D16_v2", Work::Fill, fill_2d_16),
    sure("cuMemsetD2D16_v2_ptds", Work::Fill, fill_2d_16),
    sure("cuMemsetD2D16Async", Work::Fill, fill_2d_16_async),
    sure("cuMemsetD2D16Async_ptsz", Work::Fill, fill_2d_16_async),
    sure("cuMemsetD2D32_v2", Work::Fill, fill_2d_32),
    sure("cuMemsetD2D32_v2_ptds", Work::Fill, fill_2d_32),
    sure("cuMemsetD2D32Async", Work::Fill, fill_2d_32_async),
    sure("cuMemsetD2D32Async_ptsz", Work::Fill, fill_2d_32_async),
];

#[cfg(test)]
mod tests {
    use std::mem::{offset_of, size_of};

    use cudarc::driver::sys;

    use super::*;

    #[test]
    fn structs_are_those_of_the_header() {
        assert_eq!(size_of::<LaunchConfig>(), size_of::<sys::CUlaunchConfig>());
        assert_eq!(offset_of!(LaunchConfig, stream), offset_of!(sys::CUlaunchConfig, hStream));
        assert_eq!(offset_of!(LaunchConfig, attributes), offset_of!(sys::CUlaunchConfig, attrs));
        assert_eq!(size_of::<LaunchAttribute>(), size_of::<sys::CUlaunchAttribute>());
        assert_eq!(offset_of!(LaunchAttribute, value), offset_of!(sys::CUlaunchAttribute, value));
        assert_eq!(size_of::<Copy2D>(), size_of::<sys::CUDA_MEMCPY2D>());
        assert_eq!(offset_of!(Copy2D, to), offset_of!(sys::CUDA_MEMCPY2D, dstXInBytes));
        assert_eq!(offset_of!(Copy2D, width_bytes), offset_of!(sys::CUDA_MEMCPY2D, WidthInBytes));
        assert_eq!(size_of::<Copy3D>(), size_of::<sys::CUDA_MEMCPY3D>());
        assert_eq!(size_of::<Copy3D>(), size_of::<sys::CUDA_MEMCPY3D_PEER>());
        assert_eq!(offset_of!(Copy3D, to), offset_of!(sys::CUDA_MEMCPY3D, dstXInBytes));
        assert_eq!(offset_of!(Side3D, context), offset_of!(sys::CUDA_MEMCPY3D_PEER, srcContext));
        assert_eq!(offset_of!(Side3D, pitch), offset_of!(sys::CUDA_MEMCPY3D, srcPitch));
        assert_eq!(offset_of!(Copy3D, depth), offset_of!(sys::CUDA_MEMCPY3D, Depth));
    }

    #[test]
    fn each_call_is_listed_once_for_each_kind_of_work() {
        for (index, call) in CALLS.iter().enumerate() {
            let twin = CALLS[..index].iter().find(|other| other.name == call.name && other.work == call.work);
            assert!(twin.is_none(), "{}", call.name);
        }
    }
}
