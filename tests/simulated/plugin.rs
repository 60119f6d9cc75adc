//! A profiler inside a shared library that the program loads, and perhaps closes: `examples/profiled_plugin.rs`.
#![expect(unsafe_code, reason = "calls the functions of a library that was opened at run time")]

use std::ffi::{CString, c_char};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use cuprof::{Dataset, Table};
use libloading::Library;

use crate::Outcome;
use crate::library::Simulated;
use crate::process::{End, Process, given};

struct Plugin(Library);

impl Plugin {
    /// Where it is. Cargo builds it with all tests, but not with one of them, so that it is built here as this program
    /// was, which takes no time where it is there.
    fn path() -> Result<&'static Path, Box<dyn std::error::Error>> {
        static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
        let build = || crate::process::example("profiled_plugin", "libprofiled_plugin.so", &[]);
        match BUILT.get_or_init(|| build().map_err(|error| error.to_string())) {
            Ok(path) => Ok(path),
            Err(error) => Err(error.clone().into()),
        }
    }

    fn open() -> Result<Self, Box<dyn std::error::Error>> {
        // SAFETY: it does nothing when it is loaded.
        Ok(Self(unsafe { Library::new(given("PLUGIN")) }?))
    }

    fn start(&self) -> Result<(), Box<dyn std::error::Error>> {
        let folder = CString::new(given("OUTPUT").to_str().ok_or("a text")?)?;
        // SAFETY: the example declares it with this type.
        let start = unsafe { self.0.get::<unsafe extern "C" fn(*const c_char) -> i32>(b"plugin_start") }?;
        // SAFETY: the folder is a C string.
        match unsafe { start(folder.as_ptr()) } {
            0 => Ok(()),
            _ => Err("the plugin could not start a session".into()),
        }
    }

    fn flush(&self) -> i32 {
        // SAFETY: the example declares it with this type.
        let flush = unsafe { self.0.get::<extern "C" fn() -> i32>(b"plugin_flush") };
        flush.map_or(-1, |flush| flush())
    }

    fn end(&self) -> Result<i64, Box<dyn std::error::Error>> {
        // SAFETY: the example declares it with this type.
        Ok(unsafe { self.0.get::<extern "C" fn() -> i64>(b"plugin_finish") }?())
    }
}

/// Runs this in a process that knows where the plugin is, and looks at its dataset afterwards.
fn with_plugin(process: Process, inside: fn(Plugin) -> Outcome, rows: u64, complete: bool) -> Outcome {
    if crate::process::is_inside() {
        return process.run(|| inside(Plugin::open()?));
    }
    let path = Plugin::path()?;
    let folder = crate::process::folder()?;
    let output = folder.path().join("run.cuprof");
    process.with("PLUGIN", path).with("OUTPUT", &output).run(|| Ok(()))?;
    let dataset = Dataset::open(&output)?;
    assert_eq!((dataset.rows(Table::Launches), dataset.is_complete()), (rows, complete));
    Ok(())
}

#[test]
fn b54_a_plugin_profiles_its_host() -> Outcome {
    with_plugin(
        Process::of(b54_a_plugin_profiles_its_host),
        |plugin| {
            let cupti = Simulated::get();
            for _ in 0..3 {
                plugin.start()?;
                cupti.launch(10);
                assert_eq!(plugin.end()?, 10);
            }
            assert_eq!((cupti.left_on(), cupti.buffers_held()), (0, 0));
            Ok(())
        },
        10,
        true,
    )
}

#[test]
fn b54_a_plugin_that_is_closed_is_still_there_for_cupti() -> Outcome {
    // This CUPTI keeps recording kernels, so that it asks for buffers after the session, too.
    with_plugin(
        Process::of(b54_a_plugin_that_is_closed_is_still_there_for_cupti).version("12.9"),
        |plugin| {
            let cupti = Simulated::get();
            // On a thread that ends: the destructors of a thread's variables would keep the library, too.
            let plugin = std::thread::spawn(move || {
                plugin.start().unwrap();
                cupti.launch(10);
                assert_eq!(plugin.end().unwrap(), 10);
                plugin
            });
            plugin.join().map_err(|_| "the thread panicked")?.0.close()?;
            // More than the buffers that CUPTI still has.
            cupti.launch(20_000);
            // Opened again, it is the same library.
            let plugin = Plugin::open()?;
            plugin.start()?;
            cupti.launch(7);
            assert_eq!(plugin.end()?, 7);
            Ok(())
        },
        7,
        true,
    )
}

#[test]
fn b54_a_plugin_with_a_running_session_may_be_closed_and_the_process_may_exit() -> Outcome {
    with_plugin(
        Process::of(b54_a_plugin_with_a_running_session_may_be_closed_and_the_process_may_exit)
            .ending(End::Code(6)),
        |plugin| {
            let cupti = Simulated::get();
            let plugin = std::thread::spawn(move || {
                plugin.start().unwrap();
                cupti.launch(10);
                assert_eq!(plugin.flush(), 0);
                plugin
            });
            plugin.join().map_err(|_| "the thread panicked")?.0.close()?;
            // While the threads of the session run on.
            cupti.launch(10_000);
            std::process::exit(6)
        },
        10,
        false,
    )
}
