//! Launches that are held back until all of them are made, and what opens the gate before.
#![expect(unsafe_code, reason = "calls a function of a library that was opened at run time")]

use std::ffi::{c_int, c_void};
use std::time::{Duration, Instant};

use cuprof::bench::{DURATION, LaunchMode, Report};
use cuprof::{Bench, Cache, Dataset, Profiler, Stream, Table};
use cupti_sys::bindings::CUpti_driver_api_trace_cbid_enum as Cbid;
use libloading::Library;

use crate::Outcome;
use crate::frame::Frame;
use crate::library::{Simulated, Work, kind};
use crate::process::{End, Process};
use crate::session::Ends;

/// Longer than a test may take: what waits for it fails.
const NEVER: Duration = Duration::from_secs(60);

/// A call that launches nothing.
const STREAM_SYNCHRONIZE: Work = Work {
    kind: kind::SYNCHRONIZATION,
    cbid: Cbid::CUPTI_DRIVER_TRACE_CBID_cuStreamSynchronize.0,
    records: 0,
    ..Work::KERNEL
};

/// The driver, from the side of a program.
struct Cuda(Library);

impl Cuda {
    fn get() -> Result<Self, libloading::Error> {
        // SAFETY: it is the simulation, which does nothing when it is loaded.
        unsafe { Library::new("libcuda.so.1") }.map(Self)
    }

    /// Waits for the gate, as for all work.
    fn synchronize(&self) -> Result<(), libloading::Error> {
        type Function = unsafe extern "C" fn(*mut c_void) -> c_int;
        // SAFETY: the simulation declares the function with this signature.
        let function = unsafe { self.0.get::<Function>(b"cuStreamSynchronize") }?;
        // SAFETY: the simulation looks at no stream.
        let status = unsafe { function(std::ptr::null_mut()) };
        assert_eq!(status, 0);
        Ok(())
    }
}

fn ahead(limit: Duration) -> Bench {
    let bench = Bench::new("ahead").stream(Stream::PER_THREAD_DEFAULT).launch_ahead_within(limit);
    bench.cache(Cache::Keep).warm_up(1).runs(3).progress(false)
}

/// How each span's launches were made, and why it is not valid.
fn spans(report: &Report) -> Vec<(Option<LaunchMode>, Option<String>)> {
    let spans = report.samples().iter().filter(|sample| &*sample.metric == "gpu_span");
    spans.map(|s| (s.launch_mode, s.invalid_reason.as_deref().map(str::to_owned))).collect()
}

fn valid_durations(report: &Report) -> usize {
    let whole =
        report.samples().iter().filter(|sample| &*sample.metric == DURATION && sample.kernel.is_none());
    whole.filter(|sample| sample.valid).count()
}

#[test]
fn work_is_held_back_until_all_of_it_is_launched_and_the_gate_is_not_the_programs() -> Outcome {
    let process = Process::of(work_is_held_back_until_all_of_it_is_launched_and_the_gate_is_not_the_programs);
    process.with("CUPROF_NVML_PATH", "/nowhere/libnvidia-ml.so.1").run(|| {
        let (cupti, cuda) = (Simulated::get(), Cuda::get()?);
        let folder = crate::process::folder()?;
        let traced = folder.path().join("trace.cuprof");
        let report = ahead(NEVER).output(&traced).run(|run, ()| {
            run.measure("work", || {
                cupti.launch(20);
            });
        })?;
        assert_eq!(spans(&report), vec![(Some(LaunchMode::Blocked), None); 3], "{report}");
        assert!(report.to_string().contains("gpu_span"), "it was asked for: {report}");
        assert!(report.samples().iter().all(|sample| sample.valid && sample.launches <= 20), "{report}");
        // Without NVML nothing is known of clocks and heat, here and in the files.
        assert!(report.warnings()[0].starts_with("heat is not watched: NVML not found"), "{report}");
        let read = Report::open(&traced)?;
        assert_eq!((read.samples(), read.to_string()), (report.samples(), report.to_string()));
        let kernels = Frame::read(&Dataset::open(&traced)?, Table::Launches, &["kernel"])?;
        assert!(kernels.rows().all(|row| row.text("kernel").is_some_and(|name| !name.contains("gate"))));
        // It is open.
        cuda.synchronize()?;
        assert_eq!(cupti.left_on(), 0);
        Ok(())
    })
}

#[test]
fn a_call_that_waits_for_the_work_opens_the_gate_at_once_and_is_named() -> Outcome {
    Process::of(a_call_that_waits_for_the_work_opens_the_gate_at_once_and_is_named).run(|| {
        let (cupti, cuda) = (Simulated::get(), Cuda::get()?);
        let began = Instant::now();
        let report = ahead(NEVER).run(|run, ()| {
            run.measure("work", || {
                cupti.launch(2);
                cupti.work(STREAM_SYNCHRONIZE);
                cuda.synchronize()
            })
        })?;
        assert!(began.elapsed() < NEVER / 2, "it waited for the limit");
        let reason = "queue_broken: cuStreamSynchronize may wait for the work that was queued".to_owned();
        assert_eq!(spans(&report), vec![(Some(LaunchMode::Stream), Some(reason)); 3], "{report}");
        assert_eq!(valid_durations(&report), 3, "the kernels' own times are what they are");
        // So does a copy that is not asynchronous, which is a launch, too.
        let copy = Work { cbid: Cbid::CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoH_v2.0, ..Work::COPY };
        let report = ahead(NEVER).run(|run, ()| {
            run.measure("work", || {
                cupti.launch(1);
                cupti.work(copy);
                cuda.synchronize()
            })
        })?;
        let reasons = spans(&report).into_iter().filter_map(|(_, reason)| reason);
        assert_eq!(reasons.filter(|reason| reason.contains("cuMemcpyDtoH_v2")).count(), 3, "{report}");
        Ok(())
    })
}

#[test]
fn what_waits_unseen_goes_on_after_the_limit_and_the_last_launch_is_named() -> Outcome {
    Process::of(what_waits_unseen_goes_on_after_the_limit_and_the_last_launch_is_named).run(|| {
        let (cupti, cuda) = (Simulated::get(), Cuda::get()?);
        let report = ahead(Duration::from_millis(20)).run(|run, ()| {
            run.measure("work", || {
                cupti.launch(2);
                cuda.synchronize() // and CUPTI tells nobody
            })
        })?;
        let reason = "queue_broken: it took more than 20 ms, the last launch being cuLaunchKernel".to_owned();
        assert_eq!(spans(&report), vec![(Some(LaunchMode::Stream), Some(reason)); 3], "{report}");
        assert_eq!(valid_durations(&report), 3);
        Ok(())
    })
}

#[test]
fn more_launches_than_may_be_queued_open_the_gate() -> Outcome {
    Process::of(more_launches_than_may_be_queued_open_the_gate).run(|| {
        let cupti = Simulated::get();
        let report = ahead(NEVER).run(|run, ()| {
            run.measure("work", || {
                cupti.launch(if run.number() == 0 { 256 } else { 257 });
            });
        })?;
        let broken = || (Some(LaunchMode::Stream), Some("queue_broken: more than 256 launches".to_owned()));
        assert_eq!(spans(&report), [(Some(LaunchMode::Blocked), None), broken(), broken()], "{report}");
        Ok(())
    })
}

#[test]
fn work_that_fails_or_panics_leaves_the_gate_open() -> Outcome {
    Process::of(work_that_fails_or_panics_leaves_the_gate_open).run(|| {
        let (cupti, cuda) = (Simulated::get(), Cuda::get()?);
        let report = ahead(NEVER).catch_panics(true).run(|run, ()| {
            let result: Result<(), &str> = run.measure("fails", || {
                cupti.launch(1);
                Err("out of memory")
            });
            cuda.synchronize().map_err(|_| "no driver")?;
            run.measure("panics", || {
                cupti.launch(1);
                assert!(run.number() != 1, "half way");
            });
            result
        })?;
        assert_eq!(report.samples().iter().filter(|sample| sample.valid).count(), 0, "{report}");
        // Where nobody catches it, everything is given back on its way up.
        let up = std::panic::catch_unwind(|| {
            ahead(NEVER).run(|run, ()| {
                run.measure("work", || {
                    cupti.launch(1);
                    assert_eq!(run.number(), usize::MAX, "all the way");
                });
            })
        });
        assert!(up.is_err());
        cuda.synchronize()?;
        assert_eq!(cupti.left_on(), 0);
        Ok(())
    })
}

#[test]
fn a_process_that_ends_behind_the_gate_ends() -> Outcome {
    Process::of(a_process_that_ends_behind_the_gate_ends).ending(End::Code(3)).run(|| {
        let cupti = Simulated::get();
        ahead(NEVER).run(|run, ()| {
            run.measure("work", || {
                cupti.launch(1);
                if run.number() == 1 {
                    std::process::exit(3);
                }
            });
        })?;
        Ok(())
    })
}

#[test]
fn only_sessions_that_hold_work_back_are_told_of_calls_that_wait() -> Outcome {
    Process::of(only_sessions_that_hold_work_back_are_told_of_calls_that_wait).run(|| {
        let cupti = Simulated::get();
        let on_in = |bench: Bench| -> Result<u32, Box<dyn std::error::Error>> {
            let mut on = 0;
            bench.runs(1).progress(false).run(|run, ()| {
                run.measure("work", || {
                    cupti.launch(1);
                });
                on = cupti.left_on();
            })?;
            Ok(on)
        };
        let profiler = Profiler::builder().start()?;
        let plain = cupti.left_on();
        profiler.whole()?;
        assert_eq!(on_in(Bench::new("plain"))?, plain);
        assert!(on_in(ahead(NEVER))? >= plain + 30);
        Ok(())
    })
}
