//! Every fault that can be simulated, what comes of a session that meets it, and what its user is told:
//! `docs/FAULTS.md`, made by running them.
//!
//! ```sh
//! cargo test --test simulated fault_matrix -- --nocapture                     # prints it
//! CUPROF_BLESS=1 cargo test --test simulated fault_matrix                     # writes it
//! ```

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::Duration;

use cuprof::counters::{Plan, Session};
use cuprof::{
    Builder, Cache, ClockRequest, ClockStatus, Clocks, Dataset, Error, L2Control, Profile, Profiler, Stream,
    Table, Thermal, ThermalGuard,
};

use crate::Outcome;
use crate::killed::Mounted;
use crate::library::{Simulated, Work, kind};
use crate::process::{End, Process, given, is_inside, libraries, skip};
use crate::session::Ends;

/// Buffers of 256 KiB in the 256 MiB that the crate takes at most.
const ALL_BUFFERS: u32 = 1024;

const SOON: Duration = Duration::from_millis(300);

/// What a row about NVML has: the code's name, or that the library cannot be loaded.
const NVML_CALL: [&str; 2] = [", NVML_ERROR_", "CUPROF_NVML_PATH"];

/// What the program does: it is given a running session, launches ten kernels, and ends the session.
type Program = fn(Simulated, Profiler) -> Result<Told, Box<dyn std::error::Error>>;

/// What a session left: its error, if it has one, and its profile.
type Told = (Option<Error>, Option<Profile>);

struct Fault {
    /// What happens.
    what: &'static str,
    /// What the program does, which is told: a traced session, unless something else is said.
    meet: fn(&Self) -> Outcome,
    /// Whether its output lies in a file system of its own.
    mounted: bool,
    /// How it is brought about.
    setup: fn(Process) -> Process,
    /// What the session is asked for.
    builder: fn(Builder) -> Builder,
    program: Program,
    end: End,
    /// How long the start and the end may take.
    limit: Duration,
}

/// Ten launches in a range, and the end.
fn ten_launches(cupti: Simulated, profiler: Profiler) -> Result<Told, Box<dyn std::error::Error>> {
    cuprof::in_range("range", || cupti.launch(10));
    end(profiler)
}

fn end(profiler: Profiler) -> Result<Told, Box<dyn std::error::Error>> {
    let (error, profile) = profiler.ending_somehow("what comes of it is told");
    Ok((error, Some(profile)))
}

const PLAIN: Fault = Fault {
    what: "nothing goes wrong",
    meet: trace,
    mounted: false,
    setup: |process| process,
    builder: |builder| builder,
    program: ten_launches,
    end: End::Passed,
    limit: Duration::from_secs(30),
};

macro_rules! faults {
    ($($what:literal $({ $($field:ident: $value:expr),* $(,)? })?;)*) => {
        &[$(Fault { what: $what, $($($field: $value,)*)? ..PLAIN }),*]
    };
}

/// By the time at which they strike.
const FAULTS: &[(&str, &[Fault])] = &[
    ("Nothing", faults! { "nothing goes wrong"; }),
    (
        "At the start",
        faults! {
            "no driver is installed" { setup: |process| process.with("LD_LIBRARY_PATH", broken_driver()) };
            "the driver is the toolkit's stub" { setup: |process| process.with("SIM_CUDA_FAIL", "cuDriverGetVersion:34") };
            "no CUPTI is installed where one is named" { setup: |process| process.with("CUPROF_CUPTI_PATH", "/nowhere/libcupti.so.13") };
            "the library is not CUPTI" { setup: |process| process.with("CUPROF_CUPTI_PATH", libraries().join("libcuda.so.1")) };
            "CUPTI lacks a function that is needed" { setup: |process| process.without(&["cuptiActivityFlushAll"]) };
            "CUPTI is older than 12.0" { setup: |process| process.with("SIM_API", "17") };
            "CUPTI is older than the driver" { setup: |process| process.version("12.9").with("SIM_CUDA_VERSION", "13000") };
            "CUPTI does not tell its version" { setup: |process| process.failing("cuptiGetVersion:*:999") };
            "another profiler is active" { setup: |process| process.failing("cuptiSubscribe:*:39") };
            "a session runs already" { program: |cupti, profiler| {
                let refused = Profiler::builder().start().err();
                let (_, profile) = ten_launches(cupti, profiler)?;
                Ok((refused, profile))
            } };
            "tracing is not permitted" { setup: |process| process.failing("cuptiSubscribe:*:35") };
            "kernel records are not permitted" { setup: |process| process.failing("cuptiActivityEnable:10:35") };
            "an optional function is missing" { setup: |process| process.without(&["cuptiSetThreadIdType"]) };
            "every setting is refused" { setup: |process| process.failing("cuptiActivitySetAttribute:*:27,cuptiSetThreadIdType:*:27") };
            "records of copies are refused" { setup: |process| process.failing("cuptiActivityEnable:1:27") };
            "subscribing never returns" { limit: SOON, setup: |process| process.failing("cuptiSubscribe:*:hang") };
            "switching kernel records on never returns" { limit: SOON, setup: |process| process.failing("cuptiActivityEnable:10:hang") };
            "NVTX of other libraries would crash with this CUPTI" {
                setup: |process| process.version("13.0.0"),
                builder: |builder| builder.nvtx_libraries(true)
            };
            "the output cannot be made" { builder: |builder| builder.output("/proc/run.cuprof") };
            "the output exists" { builder: |builder| builder.output(libraries()) };
        },
    ),
    (
        "While it runs",
        faults! {
            "there is no GPU work" { program: |_, profiler| end(profiler) };
            "CUPTI gives no records" { program: |cupti, profiler| {
                cupti.work(Work { calls: 10, records: 0, ..Work::KERNEL });
                end(profiler)
            } };
            "CUPTI gives no records of some launches" { program: |cupti, profiler| {
                cupti.launch(7);
                cupti.work(Work { calls: 3, records: 0, ..Work::KERNEL });
                end(profiler)
            } };
            "three more launching calls fail" { program: |cupti, profiler| {
                cupti.work(Work { calls: 3, fails: 1, ..Work::KERNEL });
                ten_launches(cupti, profiler)
            } };
            "CUPTI drops records" { program: |cupti, profiler| {
                cupti.drop_records(5);
                ten_launches(cupti, profiler)
            } };
            "something else switches kernel records off" { program: |cupti, profiler| {
                cupti.launch(5);
                cupti.switch_off(kind::CONCURRENT_KERNEL);
                cupti.launch(5);
                end(profiler)
            } };
            "CUPTI reports a fatal error" { program: |cupti, profiler| {
                cupti.fatal();
                ten_launches(cupti, profiler)
            } };
            "records have no times" { program: |cupti, profiler| {
                cupti.work(Work { calls: 10, ..Work::KERNEL.stamped(0, 0) });
                end(profiler)
            } };
            "records have impossible times" { program: |cupti, profiler| {
                cupti.work(Work { calls: 10, ..Work::KERNEL.stamped(1 << 63, u64::MAX) });
                end(profiler)
            } };
            "CUPTI takes to another clock" { setup: |process| process.with("SIM_CLOCK_JUMP", "36000000000000") };
            "records are of an unknown kind" { program: |cupti, profiler| {
                cupti.work(Work { kind: 9_999, size: 64, cbid: 0, ..Work::KERNEL });
                ten_launches(cupti, profiler)
            } };
            "a buffer ends inside a record" { program: |cupti, profiler| {
                cupti.cut(100);
                ten_launches(cupti, profiler)
            } };
            "the walk over a buffer fails" { setup: |process| process.failing("cuptiActivityGetNextRecord:*:999") };
            "kernels of a graph have the id of another launch" { program: |cupti, profiler| {
                let correlation = cupti.launch(1);
                cupti.work(Work { cbid: 0, correlation, graph: 3, records: 9, ..Work::KERNEL });
                end(profiler)
            } };
            "a launching call is newer than this crate" { program: |cupti, profiler| {
                cupti.launch(9);
                cupti.work(Work { cbid: 100_000, ..Work::KERNEL });
                end(profiler)
            } };
            "names are not text" { program: |cupti, profiler| {
                cupti.work(Work { name: c"\xff\xfe".as_ptr(), calls: 10, ..Work::KERNEL });
                end(profiler)
            } };
            "ranges are popped that were not pushed, and not closed" { program: |cupti, profiler| {
                cuprof::testing::nvtx_pop();
                let open = cuprof::range!("open");
                let ended = ten_launches(cupti, profiler);
                drop(open);
                ended
            } };
            "all buffers are in use" { program: |cupti, profiler| {
                while cupti.buffers_held() < ALL_BUFFERS {
                    cupti.hoard(64);
                }
                ten_launches(cupti, profiler)
            } };
            "a callback panics" { program: |cupti, profiler| {
                cuprof::testing::panic_in_callback("buffer_completed");
                ten_launches(cupti, profiler)
            } };
            "the output's disk is full" { program: |cupti, profiler| {
                let part = given("OUTPUT").join(".launches-00000.parquet.tmp");
                std::os::unix::fs::symlink("/dev/full", part)?;
                ten_launches(cupti, profiler)
            } };
            "the output becomes read-only" { mounted: true, program: |cupti, profiler| {
                let mut mount = std::process::Command::new("mount");
                let folder = given("OUTPUT");
                mount.args(["-o", "remount,ro"]).arg(folder.parent().ok_or("a folder")?);
                assert!(mount.status()?.success());
                ten_launches(cupti, profiler)
            } };
            "the output is removed" { program: |cupti, profiler| {
                fs::remove_dir_all(given("OUTPUT"))?;
                ten_launches(cupti, profiler)
            } };
            "the recording's disk is full" { builder: |builder| builder.record("/dev/full").overwrite(true) };
        },
    ),
    (
        "At the end",
        faults! {
            "a kernel has not ended" { program: |cupti, profiler| {
                cupti.launch(9);
                cupti.work(Work { unfinished: 1, ..Work::KERNEL.stamped(0, 0) });
                end(profiler)
            } };
            "waiting for the GPU never returns" { limit: SOON, setup: |process| process.with("SIM_CUDA_HANG", "cuCtxSynchronize") };
            "waiting for the GPU fails" { setup: |process| process.with("SIM_CUDA_FAIL", "cuCtxSynchronize:719") };
            "the flush never returns" { limit: SOON, setup: |process| process.failing("cuptiActivityFlushAll:*:hang") };
            "the flush fails" { setup: |process| process.failing("cuptiActivityFlushAll:*:999") };
            "the walk over a buffer never returns" { limit: SOON, setup: |process| process.failing("cuptiActivityGetNextRecord:*:hang") };
            "switching off never returns" { limit: SOON, setup: |process| process.failing("cuptiActivityDisable:*:hang") };
            "switching off fails" { setup: |process| process.failing("cuptiUnsubscribe:*:999") };
            "the driver does not tell its devices" { setup: |process| process.with("SIM_CUDA_FAIL", "cuInit:999") };
            "the session is dropped" { program: |cupti, profiler| {
                cupti.launch(10);
                drop(profiler);
                Ok((None, None))
            } };
            "the program exits after a flush" { program: |_, profiler| exits(&profiler, || std::process::exit(3)), end: End::Code(3) };
            "the program aborts after a flush" { program: |_, profiler| exits(&profiler, || std::process::abort()), end: End::Signal(6) };
            "the program is killed after a flush" { program: |_, profiler| exits(&profiler, killed), end: End::Signal(9) };
        },
    ),
    (
        "Counters",
        faults! {
            "nothing goes wrong while counting" { meet: count };
            "counters are not permitted" { meet: count, setup: |process| process.failing("cuptiProfilerGetCounterAvailability:*:35") };
            "counters are not permitted, which shows when a pass starts" { meet: count, setup: |process| process.failing("cuptiRangeProfilerStart:*:35") };
            "another program holds the counters" { meet: count, setup: |process| process.failing("cuptiProfilerGetCounterAvailability:*:26") };
            "the GPU cannot be profiled" { meet: count, setup: |process| process.with("SIM_SUPPORT", "1") };
            "the plan is for another chip" { meet: count, setup: |process| process.with("SIM_CHIP", "GA100") };
            "CUPTI is older than the range profiler" { meet: count, setup: |process| process.version("12.4") };
            "a struct of CUPTI grew in another version than expected" { meet: count, setup: |process| process.with("SIM_STRUCTS", "130000") };
            "passes never end" { meet: count, setup: |process| process.with("SIM_ROUNDS", "never") };
            "CUPTI drops ranges" { meet: count, setup: |process| process.with("SIM_DROPPED", "3") };
            "a metric is not evaluated" { meet: count, setup: |process| process.with("SIM_EVALUATION_FAILS", "lts__t_sector_hit_rate.pct") };
            "the evaluation fails" { meet: count, setup: |process| process.failing("cuptiRangeProfilerDecodeData:*:999") };
            "no context is current" { meet: count, setup: |process| process.with("SIM_CUDA_NO_CONTEXT", "1") };
            "a trace runs" { program: |_, profiler| {
                let plan = Plan::new("GH100", ["dram__bytes_read.sum"])?;
                let refused = Session::new(plan).run(|_| ()).err();
                let (_, profile) = ten_launches(Simulated::get(), profiler)?;
                Ok((refused, profile))
            } };
        },
    ),
    (
        "Clocks, heat and the cache",
        faults! {
            "nothing goes wrong while clocks are pinned" { meet: pin, setup: with_nvml };
            "NVML is not installed" { meet: pin, setup: |process| with_nvml(process).with("CUPROF_NVML_PATH", "/nowhere/libnvidia-ml.so.1") };
            "the library is not NVML" { meet: pin, setup: |process| with_nvml(process).with("CUPROF_NVML_PATH", libraries().join("libcuda.so.1")) };
            "NVML cannot be initialised" { meet: pin, setup: |process| with_nvml(process).with("SIM_NVML_FAIL", "nvmlInit_v2:9") };
            "clocks may not be pinned" { meet: pin, setup: |process| with_nvml(process).with("SIM_NVML_FAIL", "nvmlDeviceSetGpuLockedClocks:4") };
            "the GPU has no clocks to pin" { meet: pin, setup: |process| with_nvml(process).with("SIM_NVML_FAIL", "nvmlDeviceSetGpuLockedClocks:3") };
            "others compute on the GPU" { meet: pin, setup: |process| with_nvml(process).with("SIM_NVML_PROCESSES", "own,17,18") };
            "the GPU is partitioned" { meet: pin, setup: |process| with_nvml(process).with("SIM_NVML_MIG", "1") };
            "the GPU stays hot" { meet: cool, setup: |process| with_nvml(process).with("SIM_NVML_MARGIN", "3") };
            "the GPU does not tell how hot it may get" { meet: cool, setup: |process| with_nvml(process).with("SIM_NVML_FAIL", "nvmlDeviceGetTemperatureThreshold:3") };
            "no context is current when the cache is to be emptied" { meet: empty_the_cache, setup: |process| process.with("SIM_CUDA_NO_CONTEXT", "1") };
            "the stream is being captured" { meet: empty_the_cache, setup: |process| process.with("SIM_CUDA_CAPTURING", "1") };
            "there is no memory for emptying the cache" { meet: empty_the_cache, setup: |process| process.with("SIM_CUDA_FAIL", "cuMemAlloc_v2:2") };
        },
    ),
];

/// Ten launches that are flushed, and the end of the process.
fn exits(profiler: &Profiler, end: fn() -> !) -> Result<Told, Box<dyn std::error::Error>> {
    cuprof::in_range("range", || Simulated::get().launch(10));
    profiler.flush()?;
    end()
}

fn killed() -> ! {
    let kill = format!("kill -KILL {}", std::process::id());
    let _status = std::process::Command::new("sh").args(["-c", &kill]).status();
    std::process::abort()
}

/// A folder with a driver that is no library: what a machine without one has, even where there is one.
fn broken_driver() -> std::path::PathBuf {
    let folder = libraries().join("no-driver");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("libcuda.so.1"), "no library").unwrap();
    folder
}

/// Prints what came of a fault.
fn tell(key: &str, text: &str) {
    println!("told {key} {}", text.replace('\n', " "));
}

/// Runs the session of a fault and prints what came of it, `told KEY TEXT`.
fn trace(fault: &Fault) -> Outcome {
    let builder = Profiler::builder()
        .start_timeout(fault.limit)
        .finish_timeout(fault.limit)
        .flush_period(Duration::ZERO);
    let started = (fault.builder)(builder.output(given("OUTPUT"))).start();
    let profiler = match started {
        Ok(profiler) => profiler,
        Err(error) => {
            tell("start", &error.to_string());
            return Ok(());
        }
    };
    let (error, profile) = (fault.program)(Simulated::get(), profiler)?;
    if let Some(error) = error {
        tell("end", &error.to_string());
    }
    if let Some(profile) = profile {
        tell("launches", &profile.launches().to_string());
        for loss in profile.losses() {
            // How often CUPTI asks is a matter of time, and how many rows `env` has, of the machine.
            let varies = ["buffer_requests_declined", "rows_not_written"].contains(&loss.cause);
            let count = if varies { "some".into() } else { loss.count.to_string() };
            tell("also", &format!("`{}` {count}: {}", loss.cause, loss.meaning));
        }
        for warning in &profile.summary().warnings {
            tell("also", warning);
        }
    }
    Ok(())
}

/// Counts two metrics of a range.
fn count(_: &Fault) -> Outcome {
    let counted =
        Plan::new("GH100", ["dram__bytes_read.sum", "lts__t_sector_hit_rate.pct"]).and_then(|plan| {
            Session::new(plan).run(|pass| pass.range("range", || _ = Simulated::get().launch(10)))
        });
    match counted {
        Ok(counted) => {
            let values = counted.rows().filter(|row| row.value.is_some()).count();
            tell("outcome", &format!("{values} of 2 values are counted"));
            for row in counted.rows() {
                if let Some(reason) = row.null_reason {
                    tell("also", &format!("{} is null: `{}`", row.metric, reason.as_str()));
                }
            }
        }
        Err(error) => {
            tell("outcome", "no counters; the program runs on");
            tell("end", &error.to_string());
        }
    }
    let cupti = Simulated::get();
    assert_eq!((cupti.left_on(), cupti.profiler_left_on()), (0, 0));
    Ok(())
}

/// The simulated GPU.
const GPU: &str = "GPU-abababab-abab-abab-abab-abababababab";

/// Pins the clocks while it is safe to: the NVML is the simulated one.
fn pin(_: &Fault) -> Outcome {
    let guard = ClockRequest::new(Clocks::Base).gpu_uuid(GPU).start()?;
    let pinned = guard.report().status == ClockStatus::Applied;
    let outcome = if pinned {
        "clocks are pinned, and released"
    } else {
        "clocks stay as they are; the measurement goes on"
    };
    tell("outcome", outcome);
    guard.report().message.iter().for_each(|message| tell("also", message));
    Ok(())
}

/// Waits for a GPU to be cool enough.
fn cool(_: &Fault) -> Outcome {
    let mut heat = ThermalGuard::open(Thermal::Auto, GPU, None)?.budget(Duration::from_millis(120));
    match heat.before_run() {
        Ok(_) => tell("outcome", "runs are not held back; the measurement goes on"),
        Err(error) => {
            tell("outcome", "an error instead of a hot run");
            // How far it came is a matter of time.
            tell("end", error.to_string().split(" after ").next().unwrap_or_default());
        }
    }
    heat.report().message.iter().for_each(|message| tell("also", message));
    Ok(())
}

/// Empties the cache.
fn empty_the_cache(_: &Fault) -> Outcome {
    let flushed =
        L2Control::new(Cache::Flush).and_then(|mut control| control.apply_on(Stream::LEGACY_DEFAULT));
    match flushed {
        Ok(()) => tell("outcome", "the cache is emptied"),
        Err(error) => {
            tell("outcome", "an error instead of a warm cache; the program runs on");
            tell("end", &error.to_string());
        }
    }
    Ok(())
}

/// With the simulated NVML, and a folder for who has the clocks.
fn with_nvml(process: Process) -> Process {
    let state = libraries().join("state");
    fs::create_dir_all(&state).unwrap();
    let path = std::env::join_paths([libraries(), Path::new("/usr/bin"), Path::new("/bin")]).unwrap();
    process
        .with("PATH", path)
        .with("CUPROF_STATE_DIR", state)
        .with("CUPROF_NVML_PATH", libraries().join("libnvidia-ml.so.1"))
}

/// A line of the matrix: what came of it, and what the user is told.
fn line(fault: &Fault, output: &str, dataset: &Path) -> String {
    let told = |key: &str| -> Vec<String> {
        let lines = output.lines().filter_map(|line| line.strip_prefix("told ")?.strip_prefix(key));
        lines.map(|text| text.trim().to_owned()).collect()
    };
    let dataset = Dataset::open(dataset).ok();
    let files = dataset.as_ref().map(|dataset| {
        let complete = if dataset.is_complete() { "" } else { ", up to the last flush" };
        format!("{} in the files{complete}", dataset.rows(Table::Launches))
    });
    let files = files.unwrap_or_else(|| "no files".to_owned());
    let mut texts = told("start");
    texts.extend(told("end"));
    let outcome = match (&texts[..], told("launches").first()) {
        _ if !told("outcome").is_empty() => told("outcome").join(", "),
        ([_], None) if !told("start").is_empty() => "no session; the program runs on".to_owned(),
        ([], Some(launches)) => {
            let ends =
                if launches == "10" { "the session ends well" } else { "the session ends without an error" };
            format!("{ends}: {launches} of 10 launches are told, {files}")
        }
        ([_], Some(launches)) => {
            format!("an error with a profile: {launches} of 10 launches are told, {files}")
        }
        _ => files,
    };
    let facts = dataset.and_then(|dataset| dataset.env().ok()).unwrap_or_default();
    texts.extend(told("also"));
    let keys = facts.iter().filter(|(key, _)| key.starts_with("refused.") || key.starts_with("failed."));
    texts.extend(keys.map(|(key, value)| format!("`env`: {key}: {}", value.replace('\n', " "))));
    if texts.is_empty() {
        texts.push("nothing".to_owned());
    }
    let texts: Vec<_> = texts.iter().map(|text| without_places(text).replace('|', "\\|")).collect();
    format!("| {} | {outcome} | {} |\n", fault.what, texts.join("<br>"))
}

/// Without what differs from run to run: the folders that things lie in.
fn without_places(text: &str) -> String {
    let words = text.split(' ').map(|word| {
        let start = word.find('/')?;
        let folder = word.find("/simulated-").or_else(|| word.find("/.tmp"))? + 1;
        let end = word[folder..].find('/').map_or(word.len(), |length| folder + length);
        Some(format!("{}…{}", &word[..start], &word[end..]))
    });
    let kept = text.split(' ').map(str::to_owned);
    words.zip(kept).map(|(changed, kept)| changed.unwrap_or(kept)).collect::<Vec<_>>().join(" ")
}

#[test]
fn fault_matrix() -> Outcome {
    if !cfg!(debug_assertions) {
        return skip("callbacks panic on request only in builds with debug assertions");
    }
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/FAULTS.md");
    let kept = fs::read_to_string(&page).unwrap_or_default();
    let mut text = "\
# What goes wrong, what comes of it, and what is told

Made by running every fault on the simulated driver: `CUPROF_BLESS=1 cargo test --test simulated fault_matrix`. In each case
a program starts a session that writes to files, launches ten kernels, and ends the session, with limits of 300 ms for calls
that never return; for counters it counts two metrics, and then clocks, heat and the cache are controlled. In no case is the
program itself disturbed: its launches run, its exit code is its own, and CUPTI's rules are kept.
"
    .to_owned();
    for (time, faults) in FAULTS {
        write!(text, "\n## {time}\n\n| fault | what comes of it | what is told |\n|---|---|---|\n")?;
        for fault in *faults {
            let folder = crate::process::folder()?;
            let dataset = folder.path().join("run.cuprof");
            let mounted = fault.mounted.then(|| Mounted::on(folder.path(), 8192)).filter(|_| !is_inside());
            if matches!(mounted, Some(None)) {
                skip(format_args!("{}: nothing can be mounted here; its row is kept as it is", fault.what))?;
                let row = format!("| {} |", fault.what);
                text += kept.lines().find(|line| line.starts_with(&row)).ok_or(row)?;
                text += "\n";
                continue;
            }
            let process = (fault.setup)(Process::of(fault_matrix).version("13.5"));
            let process = process.with("FAULT", fault.what).with("OUTPUT", &dataset).ending(fault.end);
            let output = process.output(|| {
                let this = given("FAULT");
                let fault = FAULTS
                    .iter()
                    .flat_map(|(_, faults)| *faults)
                    .find(|fault| this.as_os_str() == fault.what);
                let fault = fault.ok_or("no such fault")?;
                // libtest's own line does not end before.
                println!();
                (fault.meet)(fault)
            })?;
            if is_inside() {
                return Ok(());
            }
            let row = line(fault, &output, &dataset);
            assert!(fault.limit != SOON || row.contains(" did not return)"), "which call it was: {row}");
            assert!(
                !row.contains("nvml") || NVML_CALL.iter().any(|part| row.contains(part)),
                "its code: {row}"
            );
            text += &row;
        }
    }
    println!("{text}");
    if crate::bless::is_asked_for() {
        fs::create_dir_all(page.parent().ok_or("a folder")?)?;
        fs::write(page, text)?;
        return Ok(());
    }
    for (now, before) in text.lines().zip(kept.lines()) {
        assert_eq!(now, before, "docs/FAULTS.md is out of date: run this test with CUPROF_BLESS=1");
    }
    assert_eq!(text.lines().count(), kept.lines().count(), "docs/FAULTS.md is out of date");
    Ok(())
}
