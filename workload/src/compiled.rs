//! Kernels in CUDA C++, compiled at run time by NVRTC, if it is installed.
#![expect(unsafe_code, reason = "calls functions of libnvrtc by their C signatures, and launches kernels")]

use std::ffi::{CString, c_char, c_void};
use std::ptr::null;
use std::sync::Arc;

use cudarc::driver::{CudaFunction, CudaSlice, CudaStream, LaunchConfig, PushKernelArg};
use cudarc::nvrtc::Ptx;

use crate::gpu::{elements, failed};
use crate::toolkit::{Toolkit, call};
use crate::{Gpu, Result};

const SOURCE: &str = include_str!("compiled.cu");

/// Element-wise kernels and a softmax.
pub struct Compiled {
    scale: CudaFunction,
    multiply: CudaFunction,
    add: CudaFunction,
    multiply_add: CudaFunction,
    softmax: CudaFunction,
    compiler: String,
}

impl Compiled {
    /// Compiles and loads the kernels; `NVRTC_PATH` in the environment names the library.
    ///
    /// # Errors
    /// One sentence, with what to do, where NVRTC is not installed; what the compiler says; the driver's, as for every
    /// launch below.
    pub fn new(gpu: &Gpu) -> Result<Self> {
        let capability = gpu.context().compute_capability().map_err(failed("compute capability"))?;
        let (binary, compiler) = compile(SOURCE, capability)?;
        let module = gpu
            .context()
            .load_module(Ptx::from_binary(binary))
            .map_err(failed("loading compiled kernels"))?;
        let function = |name| module.load_function(name).map_err(failed(name));
        Ok(Self {
            scale: function("scale")?,
            multiply: function("multiply")?,
            add: function("add")?,
            multiply_add: function("multiply_add")?,
            softmax: function("softmax")?,
            compiler,
        })
    }

    /// The compiler's library and version, `libnvrtc.so.13 (13.0)`.
    #[must_use]
    pub fn compiler(&self) -> &str {
        &self.compiler
    }

    /// `y = 2 x`: reads and writes four bytes an element.
    ///
    /// # Errors
    /// The driver's, or where `x` is shorter than `y`.
    pub fn scale(&self, stream: &CudaStream, x: &CudaSlice<f32>, y: &mut CudaSlice<f32>) -> Result<()> {
        self.launch(stream, &self.scale, &[x], y)
    }

    /// `y = a b`: reads eight bytes an element and writes four.
    ///
    /// # Errors
    /// As above.
    pub fn multiply(
        &self,
        stream: &CudaStream,
        [a, b]: [&CudaSlice<f32>; 2],
        y: &mut CudaSlice<f32>,
    ) -> Result<()> {
        self.launch(stream, &self.multiply, &[a, b], y)
    }

    /// `y = a + b`: reads eight bytes an element and writes four.
    ///
    /// # Errors
    /// As above.
    pub fn add(
        &self,
        stream: &CudaStream,
        [a, b]: [&CudaSlice<f32>; 2],
        y: &mut CudaSlice<f32>,
    ) -> Result<()> {
        self.launch(stream, &self.add, &[a, b], y)
    }

    /// `y = a + b c`: reads twelve bytes an element and writes four.
    ///
    /// # Errors
    /// As above.
    pub fn multiply_add(
        &self,
        stream: &CudaStream,
        [a, b, c]: [&CudaSlice<f32>; 3],
        y: &mut CudaSlice<f32>,
    ) -> Result<()> {
        self.launch(stream, &self.multiply_add, &[a, b, c], y)
    }

    fn launch(
        &self,
        stream: &CudaStream,
        kernel: &CudaFunction,
        from: &[&CudaSlice<f32>],
        to: &mut CudaSlice<f32>,
    ) -> Result<()> {
        if from.iter().any(|from| from.len() < to.len()) {
            return Err("a kernel needs as many elements to read as it writes".to_owned());
        }
        let (count, config) = elements(to.len())?;
        let mut launch = stream.launch_builder(kernel);
        for from in from {
            launch.arg(*from);
        }
        launch.arg(to).arg(&count);
        // SAFETY: the arguments are those of the kernel, which touches `count` elements of each buffer.
        unsafe { launch.launch(config) }.map_err(failed("launching a compiled kernel"))?;
        Ok(())
    }

    /// The softmax of each row: reads each row three times, from memory once if the caches hold a row, and writes it.
    ///
    /// # Errors
    /// The driver's, or where a buffer has no such rows.
    pub fn softmax(
        &self,
        stream: &CudaStream,
        x: &CudaSlice<f32>,
        y: &mut CudaSlice<f32>,
        [rows, columns]: [u32; 2],
    ) -> Result<()> {
        let elements = u64::from(rows) * u64::from(columns);
        if elements == 0 || (x.len().min(y.len()) as u64) < elements || columns > i32::MAX as u32 {
            return Err(format!(
                "softmax of {rows} rows of {columns} needs two buffers of {elements} elements"
            ));
        }
        let config = LaunchConfig { grid_dim: (rows, 1, 1), block_dim: (256, 1, 1), shared_mem_bytes: 0 };
        let mut launch = stream.launch_builder(&self.softmax);
        launch.arg(x).arg(y).arg(&columns);
        // SAFETY: the arguments are those of the kernel, which touches `rows` times `columns` elements of each buffer.
        unsafe { launch.launch(config) }.map_err(failed("launching softmax"))?;
        Ok(())
    }

    /// Runs each kernel once and checks what it computes.
    ///
    /// # Errors
    /// The driver's, or where a kernel computes something else than it should.
    pub fn check(&self, gpu: &Gpu, stream: &Arc<CudaStream>) -> Result<()> {
        const LEN: usize = 1024;
        let (two, three) = (gpu.upload(stream, &[2.0; LEN])?, gpu.upload(stream, &[3.0; LEN])?);
        let mut y = gpu.zeros(stream, LEN)?;
        let mut z = gpu.zeros(stream, LEN)?;
        self.scale(stream, &three, &mut y)?; // 6
        self.multiply(stream, [&two, &y], &mut z)?; // 12
        self.add(stream, [&two, &z], &mut y)?; // 14
        self.multiply_add(stream, [&two, &three, &y], &mut z)?; // 44
        expect(gpu, stream, &z, 44.0)?;
        self.softmax(stream, &z, &mut y, [4, 256])?;
        expect(gpu, stream, &y, 1.0 / 256.0)
    }
}

fn expect(gpu: &Gpu, stream: &Arc<CudaStream>, values: &CudaSlice<f32>, expected: f32) -> Result<()> {
    let values = gpu.download(stream, values)?;
    match values.iter().find(|value| (**value - expected).abs() > 1e-5 * expected) {
        Some(value) => Err(format!("the compiled kernels computed {value} instead of {expected}")),
        None => Ok(()),
    }
}

/// Compiles for this compute capability. Returns the binary and what compiled it.
fn compile(source: &str, (major, minor): (i32, i32)) -> Result<(Vec<u8>, String)> {
    let library = Toolkit::open("nvrtc", "NVRTC_PATH")?;
    let mut version = (0, 0);
    call!(library, "nvrtcVersion", (&raw mut version.0 => *mut i32, &raw mut version.1 => *mut i32))?;
    let _builtins = library.open_beside(&format!("libnvrtc-builtins.so.{}.{}", version.0, version.1));
    let text = |text: &str| CString::new(text).map_err(|error| error.to_string());
    let (source, name) = (text(source)?, text("compiled.cu")?);
    let architecture = text(&format!("--gpu-architecture=sm_{major}{minor}"))?;
    let mut program = Program { library: &library, handle: std::ptr::null_mut() };
    call!(
        library,
        "nvrtcCreateProgram",
        (
            &raw mut program.handle => *mut *mut c_void, source.as_ptr() => *const c_char,
            name.as_ptr() => *const c_char, 0 => i32, null() => *const *const c_char, null() => *const *const c_char,
        )
    )?;
    let options = [architecture.as_ptr()];
    let compiled = call!(
        library,
        "nvrtcCompileProgram",
        (program.handle => *mut c_void, 1 => i32, options.as_ptr() => *const *const c_char)
    );
    compiled.map_err(|error| format!("{error}: {}", program.log()))?;
    let mut bytes = 0_usize;
    call!(
        library,
        "nvrtcGetCUBINSize",
        (program.handle => *mut c_void, &raw mut bytes => *mut usize)
    )?;
    let mut binary = vec![0_u8; bytes];
    call!(library, "nvrtcGetCUBIN", (program.handle => *mut c_void, binary.as_mut_ptr() => *mut u8))?;
    let told = format!("{} ({}.{})", library.name, version.0, version.1);
    drop(program);
    Ok((binary, told))
}

/// A program of NVRTC's, destroyed when dropped.
struct Program<'a> {
    library: &'a Toolkit,
    handle: *mut c_void,
}

impl Program<'_> {
    /// What the compiler says.
    fn log(&self) -> String {
        let mut bytes = 0_usize;
        let size = call!(
            self.library,
            "nvrtcGetProgramLogSize",
            (self.handle => *mut c_void, &raw mut bytes => *mut usize)
        );
        let mut log = vec![0_u8; bytes];
        let got = size.and_then(|()| {
            call!(
                self.library,
                "nvrtcGetProgramLog",
                (self.handle => *mut c_void, log.as_mut_ptr() => *mut u8)
            )
        });
        let text = String::from_utf8_lossy(&log);
        got.map_or_else(|error| error, |()| text.trim_end_matches('\0').trim().to_owned())
    }
}

impl Drop for Program<'_> {
    fn drop(&mut self) {
        let _ = call!(
            self.library,
            "nvrtcDestroyProgram",
            (&raw mut self.handle => *mut *mut c_void)
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// NVRTC needs no GPU.
    #[test]
    fn the_kernels_compile_where_there_is_a_compiler_and_an_error_is_what_it_says() {
        let compiled = match compile(SOURCE, (9, 0)) {
            Ok((binary, compiler)) => {
                println!("{} bytes by {compiler}", binary.len());
                binary
            }
            Err(reason) if reason.contains("is not installed") => {
                println!("skipped: {reason}");
                return;
            }
            Err(reason) => panic!("{reason}"),
        };
        assert_eq!(compiled.get(..4), Some(b"\x7fELF".as_slice()));
        let error = compile("__global__ void wrong() { nothing_of_this_name(); }", (9, 0)).unwrap_err();
        assert!(error.contains("nothing_of_this_name"), "{error}");
    }
}
