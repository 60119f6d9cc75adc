//! Public bug reports that only a GPU can answer; `tests/RECIPES.md` lists all.
#![expect(unsafe_code, reason = "makes driver calls that the workload has no function for")]

use std::ffi::{CString, c_char, c_int, c_uint, c_void};
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use cuprof::{Builder, Dataset, Profiler, Table};
use cuprof_workload::{Graph, work};
use libloading::Library;

use crate::Outcome;
use crate::session::{Place, gpu, in_a_process_of_its_own, in_a_process_with, turn};

/// The driver, by the few calls that are made here.
struct Driver(Library);

macro_rules! driver_calls {
    ($($name:ident = $symbol:literal($($arg:ident: $type:ty),*);)*) => {
        #[expect(clippy::too_many_arguments, reason = "a launch has so many")]
        impl Driver {$(
            fn $name(&self $(, $arg: $type)*) -> Result<(), Box<dyn std::error::Error>> {
                // SAFETY: NVIDIA documents the function with this type.
                let call = unsafe { self.0.get::<unsafe extern "C" fn($($type),*) -> c_int>($symbol) }?;
                // SAFETY: pointers are to live values of the caller's, or are what the driver gave.
                match unsafe { call($($arg),*) } {
                    0 => Ok(()),
                    code => Err(format!("{} returned {code}", stringify!($name)).into()),
                }
            }
        )*}
    };
}

type Handle = *mut c_void;

driver_calls! {
    init = b"cuInit"(flags: c_uint);
    create_context = b"cuCtxCreate_v2"(context: *mut Handle, flags: c_uint, device: c_int);
    destroy_context = b"cuCtxDestroy_v2"(context: Handle);
    synchronize = b"cuCtxSynchronize"();
    allocate = b"cuMemAlloc_v2"(pointer: *mut u64, bytes: usize);
    fill = b"cuMemsetD8_v2"(pointer: u64, value: u8, bytes: usize);
    memory = b"cuMemGetInfo_v2"(free: *mut usize, total: *mut usize);
    load = b"cuModuleLoadData"(module: *mut Handle, image: *const c_char);
    function = b"cuModuleGetFunction"(function: *mut Handle, module: Handle, name: *const c_char);
    create_stream = b"cuStreamCreate"(stream: *mut Handle, flags: c_uint);
    query_stream = b"cuStreamQuery"(stream: Handle);
    launch = b"cuLaunchKernel"(
        function: Handle, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint,
        block_z: c_uint, shared: c_uint, stream: Handle, arguments: *mut *mut c_void, extra: *mut *mut c_void
    );
}

impl Driver {
    fn open() -> Result<Self, Box<dyn std::error::Error>> {
        // SAFETY: the driver is made to be opened by any program.
        let driver = Self(unsafe { Library::new("libcuda.so.1") }?);
        driver.init(0)?;
        Ok(driver)
    }

    fn context(&self) -> Result<Handle, Box<dyn std::error::Error>> {
        let mut context = std::ptr::null_mut();
        self.create_context(&raw mut context, 0, 0)?;
        Ok(context)
    }

    fn used_bytes(&self) -> Result<usize, Box<dyn std::error::Error>> {
        let (mut free, mut total) = (0, 0);
        self.memory(&raw mut free, &raw mut total)?;
        Ok(total - free)
    }
}

fn resident_bytes() -> Result<usize, Box<dyn std::error::Error>> {
    let pages = std::fs::read_to_string("/proc/self/statm")?;
    Ok(pages.split(' ').nth(1).ok_or("statm")?.parse::<usize>()? * 4096)
}

#[test]
#[ignore = "needs a GPU"]
fn b16_kernels_beyond_the_device_side_pool_are_valid_or_flagged() -> Outcome {
    const TEST: &str = "reports::b16_kernels_beyond_the_device_side_pool_are_valid_or_flagged";
    in_a_process_of_its_own(TEST, || {
        const KERNELS: u64 = 200;
        const REPLAYS: u64 = 500;
        let place = Place::new()?;
        let profiler = Profiler::builder().output(place.dataset()).device_buffers(1).start()?;
        // Before there is a context: as few buffers on the device as CUPTI allows.
        let cupti = cupti_sys::Cupti::load(&cupti_sys::LoadOptions::default())?;
        let set = cupti.symbols().cuptiActivitySetAttribute.ok_or("no cuptiActivitySetAttribute")?;
        let (mut size, mut limit) = (size_of::<usize>(), 2_usize);
        let attribute =
            cupti_sys::bindings::CUpti_ActivityAttribute::CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_POOL_LIMIT;
        // SAFETY: both pointers are to live values; the attribute is of type size_t.
        let status = unsafe { set(attribute, &raw mut size, (&raw mut limit).cast()) };
        println!("the pool was limited to 2 buffers: {status:?}");
        let gpu = gpu()?;
        let stream = gpu.stream()?;
        let graph = Graph::of_kernels(&gpu, KERNELS)?;
        for _ in 0..REPLAYS {
            graph.launch(&stream)?;
        }
        gpu.synchronize()?;
        let profile = profiler.finish()?;
        let flagged = profile.losses().iter().find(|loss| loss.cause == "zero_timestamp");
        println!(
            "{} kernels, {} of them without times",
            profile.launches(),
            flagged.map_or(0, |loss| loss.count)
        );
        assert_eq!(profile.launches(), KERNELS * REPLAYS);
        Ok(())
    })
}

#[test]
#[ignore = "needs a GPU"]
fn b36_the_first_launches_of_a_session_wait_for_no_buffer() -> Outcome {
    let _turn = turn();
    let gpu = gpu()?;
    let stream = gpu.stream()?;
    let launcher = gpu.launcher(&stream)?;
    assert_eq!(launcher.launch(), 0);
    launcher.synchronize()?;
    let place = Place::new()?;
    let profiler = place.start()?;
    let mut times = Vec::new();
    for _ in 0..20 {
        for _ in 0..1000 {
            let begun = Instant::now();
            assert_eq!(launcher.launch(), 0);
            times.push(begun.elapsed());
        }
        launcher.synchronize()?;
    }
    profiler.finish()?;
    let slow = times.iter().filter(|time| **time > Duration::from_millis(1)).count();
    let worst = times.iter().max().copied().ok_or("launches")?;
    times[1000..].sort();
    println!("worst {worst:?}, median {:?}, {slow} of {} above 1 ms", times[times.len() / 2], times.len());
    assert!(slow <= times.len() / 1000, "{slow} launches above 1 ms");
    Ok(())
}

#[test]
#[ignore = "needs a GPU"]
fn b40_memory_does_not_grow_with_sessions() -> Outcome {
    let _turn = turn();
    let gpu = gpu()?;
    let stream = gpu.stream()?;
    let session = || -> Outcome {
        let profiler = Profiler::builder().start()?;
        work::empties(&gpu, &stream, 20)?;
        assert_eq!(profiler.finish()?.launches(), 20);
        Ok(())
    };
    for _ in 0..100 {
        session()?;
    }
    let before = resident_bytes()?;
    for _ in 0..300 {
        session()?;
    }
    let grown = resident_bytes()?.saturating_sub(before);
    println!("{} KiB for 300 sessions", grown >> 10);
    // CUPTI's own share is in it; ours alone is measured on the simulated driver.
    assert!(grown < 300 * (100 << 10), "{grown} bytes");
    Ok(())
}

#[test]
#[ignore = "needs a GPU"]
fn b41_thirty_two_threads_launch_as_fast_as_without_ranges() -> Outcome {
    let _turn = turn();
    let gpu = gpu()?;
    let run = |ranges: bool| -> Result<Duration, Box<dyn std::error::Error>> {
        let profiler = Profiler::builder().start()?;
        let barrier = Barrier::new(33);
        let elapsed = std::thread::scope(|scope| {
            for _ in 0..32 {
                scope.spawn(|| {
                    gpu.bind().unwrap();
                    let stream = gpu.stream().unwrap();
                    let launcher = gpu.launcher(&stream).unwrap();
                    barrier.wait();
                    for _ in 0..1000 {
                        let _range = ranges.then(|| cuprof::range!("launch"));
                        assert_eq!(launcher.launch(), 0);
                    }
                    barrier.wait();
                });
            }
            barrier.wait();
            let begun = Instant::now();
            barrier.wait();
            begun.elapsed()
        });
        gpu.synchronize()?;
        assert_eq!(profiler.finish()?.launches(), 32_000);
        Ok(elapsed)
    };
    run(true)?;
    let (with, without) = (run(true)?, run(false)?);
    println!("32 000 launches of 32 threads: {with:?} with ranges, {without:?} without");
    assert!(with < 2 * without, "{with:?} against {without:?}");
    Ok(())
}

#[test]
#[ignore = "needs a GPU"]
fn b42_device_buffers_cost_what_the_setting_says() -> Outcome {
    const TEST: &str = "reports::b42_device_buffers_cost_what_the_setting_says";
    in_a_process_of_its_own(TEST, || {
        // In one process, which has eight contexts in each case.
        let used = |builder: Option<Builder>| -> Result<usize, Box<dyn std::error::Error>> {
            let profiler = builder.map(Builder::start).transpose()?;
            let driver = Driver::open()?;
            let contexts = (0..8).map(|_| driver.context()).collect::<Result<Vec<_>, _>>()?;
            let used = driver.used_bytes()?;
            for context in contexts {
                driver.destroy_context(context)?;
            }
            if let Some(profiler) = profiler {
                profiler.finish()?;
            }
            Ok(used)
        };
        let few = used(Some(Profiler::builder().device_buffers(4)))?;
        let many = used(Some(Profiler::builder().device_buffers(40)))?;
        let without = used(None)?;
        println!(
            "MiB in use with 8 contexts: {} without, {} with 4 buffers each, {} with 40",
            without >> 20,
            few >> 20,
            many >> 20
        );
        let more = many.saturating_sub(few);
        // 36 buffers of 3.2 MB more in each context; half of that at least, and not much more.
        let expected = 8 * 36 * 3_200_000;
        assert!((expected / 2..expected * 2).contains(&more), "{more} bytes against {expected}");
        Ok(())
    })
}

#[test]
#[ignore = "needs a GPU"]
fn b49_a_kernel_that_waits_for_another_launch_ends() -> Outcome {
    const TEST: &str = "reports::b49_a_kernel_that_waits_for_another_launch_ends";
    /// `wait` ends when `set` has run, or after two seconds.
    const PTX: &str = "
        .version 7.0
        .target sm_70
        .address_size 64
        .visible .entry wait(.param .u64 flag) {
            .reg .pred %p<3>; .reg .u32 %r<2>; .reg .u64 %rd<6>;
            ld.param.u64 %rd1, [flag];
            mov.u64 %rd2, %globaltimer;
            add.u64 %rd3, %rd2, 2000000000;
        again:
            ld.volatile.global.u32 %r1, [%rd1];
            setp.ne.u32 %p1, %r1, 0;
            @%p1 bra done;
            mov.u64 %rd4, %globaltimer;
            setp.lt.u64 %p2, %rd4, %rd3;
            @%p2 bra again;
        done:
            ret;
        }
        .visible .entry set(.param .u64 flag) {
            .reg .u32 %r<2>; .reg .u64 %rd<2>;
            ld.param.u64 %rd1, [flag];
            mov.u32 %r1, 1;
            st.volatile.global.u32 [%rd1], %r1;
            ret;
        }";
    // Where modules are loaded lazily, loading a kernel's waits for what runs: the program's own doing.
    in_a_process_with(TEST, &[("CUDA_MODULE_LOADING", "EAGER")], || {
        let place = Place::new()?;
        let profiler = place.start()?;
        let driver = Driver::open()?;
        let context = driver.context()?;
        let (image, mut module) = (CString::new(PTX)?, std::ptr::null_mut());
        driver.load(&raw mut module, image.as_ptr())?;
        let mut flag = 0_u64;
        driver.allocate(&raw mut flag, 4)?;
        driver.fill(flag, 0, 4)?;
        let launch = |name: &str| -> Result<Handle, Box<dyn std::error::Error>> {
            let (name, mut function, mut stream) =
                (CString::new(name)?, std::ptr::null_mut(), std::ptr::null_mut());
            driver.function(&raw mut function, module, name.as_ptr())?;
            driver.create_stream(&raw mut stream, 1)?;
            let mut argument = flag;
            let mut arguments = [(&raw mut argument).cast::<c_void>()];
            driver.launch(
                function,
                1,
                1,
                1,
                1,
                1,
                1,
                0,
                stream,
                arguments.as_mut_ptr(),
                std::ptr::null_mut(),
            )?;
            Ok(stream)
        };
        let begun = Instant::now();
        let waiting = launch("wait")?;
        launch("set")?;
        driver.synchronize()?;
        driver.query_stream(waiting)?;
        assert!(begun.elapsed() < Duration::from_millis(1500), "the second launch waited for the first");
        assert_eq!(profiler.finish()?.launches(), 2);
        driver.destroy_context(context)?;
        Ok(())
    })
}

#[test]
#[ignore = "needs a GPU"]
fn b51_contexts_of_many_threads_come_and_go() -> Outcome {
    const TEST: &str = "reports::b51_contexts_of_many_threads_come_and_go";
    in_a_process_of_its_own(TEST, || {
        const THREADS: u64 = 8;
        const ROUNDS: u64 = 4;
        const FILLS: u64 = 20;
        let place = Place::new()?;
        let profiler = Profiler::builder().output(place.dataset()).device_buffers(4).start()?;
        let driver = Driver::open()?;
        let work = || -> Outcome {
            for _ in 0..ROUNDS {
                let context = driver.context()?;
                let mut memory = 0;
                driver.allocate(&raw mut memory, 4096)?;
                for _ in 0..FILLS {
                    driver.fill(memory, 1, 4096)?;
                }
                driver.synchronize()?;
                driver.destroy_context(context)?;
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..THREADS).map(|_| scope.spawn(|| work().map_err(|error| error.to_string()))).collect();
            threads
                .into_iter()
                .try_for_each(|thread| thread.join().map_err(|_| "a thread panicked".to_owned())?)
        })?;
        let profile = profiler.finish()?;
        for loss in profile.losses() {
            println!("{} {}", loss.count, loss.cause);
        }
        assert_eq!(profile.transfers(), THREADS * ROUNDS * FILLS);
        Ok(())
    })
}

#[test]
#[ignore = "needs a GPU"]
fn b54_processes_end_as_they_would_without_a_session() -> Outcome {
    const TEST: &str = "reports::b54_processes_end_as_they_would_without_a_session";
    const WAY: &str = "CUPROF_TEST_WAY";
    const OUTPUT: &str = "CUPROF_TEST_OUTPUT";
    if let Ok(way) = std::env::var(WAY) {
        let profiler = Profiler::builder().output(std::env::var(OUTPUT)?).start()?;
        let gpu = gpu()?;
        let stream = gpu.stream()?;
        work::empties(&gpu, &stream, 50)?;
        gpu.synchronize()?;
        profiler.flush()?;
        let _running = profiler;
        match way.as_str() {
            "exit" => std::process::exit(3),
            "abort" => std::process::abort(),
            _ => {
                let (launched, wait) = std::sync::mpsc::channel();
                std::thread::spawn(move || {
                    gpu.bind().unwrap();
                    loop {
                        work::empties(&gpu, &stream, 10).unwrap();
                        let _nobody_waits = launched.send(());
                    }
                });
                wait.recv()?;
                std::process::exit(4)
            }
        }
    }
    let _turn = turn();
    drop(gpu()?);
    for (way, code, signal) in [
        ("exit", Some(3), None),
        ("abort", None, Some(6)),
        ("exit with a thread that launches", Some(4), None),
    ] {
        let place = Place::new()?;
        let status = Command::new(std::env::current_exe()?)
            .args(["--exact", TEST, "--include-ignored", "--nocapture", "--test-threads=1"])
            .envs([(WAY, way.as_ref()), (OUTPUT, place.dataset().as_os_str())])
            .status()?;
        assert_eq!((status.code(), status.signal()), (code, signal), "{way}");
        assert!(Dataset::open(place.dataset())?.rows(Table::Launches) >= 50, "{way}");
    }
    Ok(())
}

#[test]
#[ignore = "needs a GPU"]
fn b80_renumbered_devices_keep_their_uuids() -> Outcome {
    const TEST: &str = "reports::b80_renumbered_devices_keep_their_uuids";
    const OUTPUT: &str = "CUPROF_TEST_OUTPUT";
    if let Ok(output) = std::env::var(OUTPUT) {
        let profiler = Profiler::builder().output(output).start()?;
        let gpu = gpu()?;
        let stream = gpu.stream()?;
        work::empties(&gpu, &stream, 5)?;
        profiler.finish()?;
        return Ok(());
    }
    let _turn = turn();
    drop(gpu()?);
    let uuids = |visible: &str| -> Result<[Option<String>; 2], Box<dyn std::error::Error>> {
        let place = Place::new()?;
        let status = Command::new(std::env::current_exe()?)
            .args(["--exact", TEST, "--include-ignored", "--nocapture", "--test-threads=1"])
            .env(OUTPUT, place.dataset())
            .env("CUDA_VISIBLE_DEVICES", visible)
            .status()?;
        assert!(status.success(), "{status}");
        let mut facts = Dataset::open(place.dataset())?.env()?;
        Ok([facts.remove("gpu.0.uuid"), facts.remove("gpu.1.uuid")])
    };
    let [first, second] = uuids("0,1")?;
    let Some(second) = second else {
        println!("skipped: this machine has one GPU");
        return Ok(());
    };
    assert_eq!(uuids("1,0")?, [Some(second), first]);
    Ok(())
}
