//! CUDA graphs, captured from a stream or built node by node.
#![expect(unsafe_code, reason = "calls functions of libcuda by their C signatures")]

use std::ffi::c_void;
use std::ptr::null_mut;

use cudarc::driver::{CudaStream, sys};

use crate::calls::Copy3D;
use crate::raw::{Memory, must, raw};
use crate::{Expected, Gpu, Kernel, Result};

/// An instantiated graph and what one launch of it does.
pub struct Graph {
    graph: u64,
    exec: u64,
    expected: Expected,
    /// What its nodes work on.
    _memory: Vec<Memory>,
}

impl Graph {
    /// So many empty kernels in a row, captured from a stream.
    ///
    /// # Errors
    /// The driver's.
    pub fn of_kernels(gpu: &Gpu, count: u64) -> Result<Self> {
        let expected = Expected::default().kernel(Kernel::Empty, count);
        Self::capture(gpu, expected, |stream| {
            for _ in 0..count {
                gpu.empty(stream)?;
            }
            Ok(())
        })
    }

    /// What `body` puts on the stream, which must be what `expected` says. Launches of other threads go on meanwhile;
    /// `body` itself must neither allocate nor wait.
    ///
    /// # Errors
    /// The driver's, or that of `body`.
    pub fn capture(
        gpu: &Gpu,
        expected: Expected,
        body: impl FnOnce(&CudaStream) -> Result<()>,
    ) -> Result<Self> {
        const THREAD_LOCAL: u32 = 1;
        gpu.bind()?;
        let stream = gpu.stream()?;
        let handle = stream.cu_stream() as u64;
        must(
            "cuStreamBeginCapture_v2",
            raw!("cuStreamBeginCapture_v2", (handle => u64, THREAD_LOCAL => u32)),
        )?;
        let done = body(&stream);
        let mut graph = 0_u64;
        let ended = raw!("cuStreamEndCapture", (handle => u64, &raw mut graph => *mut u64));
        let mut this = Self { graph, exec: 0, expected, _memory: Vec::new() };
        done?;
        must("cuStreamEndCapture", ended)?;
        this.instantiate()?;
        Ok(this)
    }

    /// One fill, then `kernels` empty kernels, then one copy on the device, built node by node.
    /// The fill and the copy are of 4096 bytes.
    ///
    /// # Errors
    /// The driver's.
    pub fn of_nodes(gpu: &Gpu, kernels: u64) -> Result<Self> {
        const BYTES: usize = 4096;
        gpu.bind()?;
        let (a, b) = (Memory::on_device(BYTES)?, Memory::on_device(BYTES)?);
        let (from, to) = (a.address, b.address);
        let expected = Expected::default().kernel(Kernel::Empty, kernels).fill(1, BYTES as u64).copy(
            "device_to_device",
            1,
            BYTES as u64,
        );
        let mut graph = 0_u64;
        must("cuGraphCreate", raw!("cuGraphCreate", (&raw mut graph => *mut u64, 0 => u32)))?;
        let mut this = Self { graph, exec: 0, expected, _memory: vec![a, b] };
        let context = gpu.context().cu_ctx() as u64;

        let fill = sys::CUDA_MEMSET_NODE_PARAMS {
            dst: from,
            pitch: BYTES,
            value: 7,
            elementSize: 1,
            width: BYTES,
            height: 1,
        };
        let mut last = 0_u64;
        must(
            "cuGraphAddMemsetNode",
            raw!("cuGraphAddMemsetNode", (
                &raw mut last => *mut u64, graph => u64, null_mut() => *const u64, 0 => usize,
                &raw const fill => *const sys::CUDA_MEMSET_NODE_PARAMS, context => u64,
            )),
        )?;

        let launch = sys::CUDA_KERNEL_NODE_PARAMS {
            func: gpu.function(Kernel::Empty)?.cu_function(),
            gridDimX: 1,
            gridDimY: 1,
            gridDimZ: 1,
            blockDimX: 32,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: 0,
            kernelParams: null_mut::<*mut c_void>(),
            extra: null_mut::<*mut c_void>(),
            kern: null_mut(),
            ctx: null_mut(),
        };
        for _ in 0..kernels {
            let after = last;
            must(
                "cuGraphAddKernelNode_v2",
                raw!("cuGraphAddKernelNode_v2", (
                    &raw mut last => *mut u64, graph => u64, &raw const after => *const u64, 1 => usize,
                    &raw const launch => *const sys::CUDA_KERNEL_NODE_PARAMS,
                )),
            )?;
        }

        let copy = Copy3D::row(from, to, BYTES);
        let after = last;
        must(
            "cuGraphAddMemcpyNode",
            raw!("cuGraphAddMemcpyNode", (
                &raw mut last => *mut u64, graph => u64, &raw const after => *const u64, 1 => usize,
                &raw const copy => *const Copy3D, context => u64,
            )),
        )?;
        this.instantiate()?;
        Ok(this)
    }

    fn instantiate(&mut self) -> Result<()> {
        must(
            "cuGraphInstantiateWithFlags",
            raw!("cuGraphInstantiateWithFlags", (&raw mut self.exec => *mut u64, self.graph => u64, 0 => u64)),
        )
    }

    pub(crate) fn exec(&self) -> u64 {
        self.exec
    }

    /// What one launch does.
    #[must_use]
    pub fn expected(&self) -> &Expected {
        &self.expected
    }

    /// One `cuGraphLaunch`. The context must be current to the thread.
    ///
    /// # Errors
    /// The driver's.
    pub fn launch(&self, stream: &CudaStream) -> Result<()> {
        let handle = stream.cu_stream() as u64;
        must("cuGraphLaunch", raw!("cuGraphLaunch", (self.exec => u64, handle => u64)))
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        let _ = raw!("cuCtxSynchronize", ());
        if self.exec != 0 {
            let _ = raw!("cuGraphExecDestroy", (self.exec => u64));
        }
        if self.graph != 0 {
            let _ = raw!("cuGraphDestroy", (self.graph => u64));
        }
    }
}
