//! Names of kernels, and the files that all of it goes to.

use std::ffi::CString;

use cuprof::testing::{Ranges, enlarge};
use cuprof::{DEFAULT_MAX_ROWS_PER_PART, Dataset, ErrorKind, Profiler, Replay, Table};

use crate::Outcome;
use crate::library::{Simulated, Work};
use crate::process::Process;
use crate::session::{Traced, traced, traced_as};

/// A launch of a kernel with this name; CUPTI keeps names for ever.
fn launch(cupti: Simulated, name: &str) {
    let name: &'static _ = Box::leak(CString::new(name).unwrap().into_boxed_c_str());
    cupti.work(Work { name: name.as_ptr(), ..Work::KERNEL });
}

fn names(run: &Traced, column: &'static str) -> Result<Vec<String>, Box<dyn std::error::Error>> {
    Ok(run.texts(Table::Launches, column)?.into_iter().flatten().collect())
}

#[test]
fn b74_names_are_there_mangled_and_for_people() -> Outcome {
    Process::of(b74_names_are_there_mangled_and_for_people).run(|| {
        let long = format!("_Z{}{}v", 100_000, "t".repeat(100_000));
        let cases = [
            ("_Z5saxpyPfS_fi", "saxpy(float*, float*, float, int)"),
            ("_ZN4core3fmt9Formatter9write_str17h0123456789abcdefE", "core::fmt::Formatter::write_str"),
            ("_RNvC6kernel4main", "kernel::main"),
            ("triton_poi_fused_add_0", "triton_poi_fused_add_0"),
            ("_Z", "_Z"),
            ("_Z9not_long", "_Z9not_long"),
        ];
        let run = traced(&[], |cupti| {
            cases.iter().for_each(|(mangled, _)| launch(cupti, mangled));
            launch(cupti, &long);
        })?;
        assert_eq!(names(&run, "kernel_mangled")?[..6], cases.map(|(mangled, _)| mangled.to_owned()));
        assert_eq!(names(&run, "kernel")?[..6], cases.map(|(_, demangled)| demangled.to_owned()));
        assert_eq!(names(&run, "kernel_mangled")?[6].len(), long.len());
        Ok(())
    })
}

#[test]
fn b76_a_name_that_takes_the_place_of_another_is_not_taken_for_it() -> Outcome {
    Process::of(b76_a_name_that_takes_the_place_of_another_is_not_taken_for_it).run(|| {
        // Names of a module that is unloaded, or goes with its context, and is loaded again with other kernels: all at
        // one address, as it happens.
        let place = Box::leak(CString::new("kernel_000")?.into_boxed_c_str()).as_ptr().cast_mut();
        let goes: [fn(Simulated); 2] = [Simulated::unload_module, |cupti| cupti.destroy_context(1)];
        for goes in goes {
            let run = traced(&[], |cupti| {
                for module in 0..100_u8 {
                    crate::library::write_name(place, format!("kernel_{module:03}").as_bytes());
                    cupti.work(Work { name: place, calls: 2, ..Work::KERNEL });
                    goes(cupti);
                }
            })?;
            let expected: Vec<_> = (0..200).map(|launch| format!("kernel_{:03}", launch / 2)).collect();
            assert_eq!(names(&run, "kernel_mangled")?, expected);
        }
        Ok(())
    })
}

#[test]
fn b77_names_of_half_a_megabyte_come_back_whole() -> Outcome {
    Process::of(b77_names_of_half_a_megabyte_come_back_whole).run(|| {
        // Half a megabyte each, all different.
        const NAMES: usize = 24;
        let run = traced(&[], |cupti| {
            for number in 0..NAMES {
                let name = format!("{number:08}{}", "n".repeat((512 << 10) - 8));
                cuprof::in_range(&name, || cupti.launch(1));
            }
        })?;
        let mut told: Vec<_> = run.texts(Table::Ranges, "name")?.into_iter().flatten().collect();
        told.sort();
        assert_eq!(told.len(), NAMES);
        assert!(told.iter().all(|name| name.len() == 512 << 10));
        let mut paths: Vec<_> = run.texts(Table::Launches, "range_path")?.into_iter().flatten().collect();
        paths.sort();
        assert!(paths == told, "each launch has its own");
        Ok(())
    })
}

#[test]
fn b82_a_profiler_that_nobody_finishes_leaves_whole_files() -> Outcome {
    Process::of(b82_a_profiler_that_nobody_finishes_leaves_whole_files).run(|| {
        let folder = crate::process::folder()?;
        let output = folder.path().join("run.cuprof");
        let profiler = Profiler::builder().output(&output).start()?;
        Simulated::get().launch(50);
        drop(profiler);
        let dataset = Dataset::open(&output)?;
        assert_eq!((dataset.rows(Table::Launches), dataset.is_complete()), (50, true));
        // A place that cannot be written to is an error before anything runs, and the program goes on.
        let Err(error) = Profiler::builder().output("/proc/nowhere.cuprof").start() else {
            return Err("a session was started".into());
        };
        assert_eq!(error.kind, ErrorKind::Io);
        Simulated::get().launch(1);
        assert_eq!(traced(&[], |cupti| cupti.launch(1))?.profile.launches(), 1);
        Ok(())
    })
}

/// The most memory that this process has had, in bytes.
fn peak_bytes() -> Result<u64, Box<dyn std::error::Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).ok_or("VmHWM")?;
    Ok(peak.trim().trim_end_matches(" kB").parse::<u64>()? << 10)
}

/// Writes so many launches, a thousand to a range, with nobody who ends parts or row groups between: a recording that
/// is made while it is read, through a pipe. Returns the most memory that all of this took.
fn write_launches(launches: u64) -> Result<u64, Box<dyn std::error::Error>> {
    let folder = crate::process::folder()?;
    let pipe = folder.path().join("run.cuprofrec");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status()?.success());
    let template = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/recordings/quickstart.cuprofrec");
    let profile = std::thread::scope(|scope| {
        let made = scope.spawn(|| enlarge(template.as_ref(), Ranges::Every(1000), launches, &pipe));
        let profile = Replay::open(&pipe)?.output(folder.path().join("run.cuprof")).run()?;
        made.join().map_err(|_| "the recording's thread panicked")??;
        Ok::<_, Box<dyn std::error::Error>>(profile)
    })?;
    assert!(profile.losses().is_empty() && profile.launches() >= launches, "{:?}", profile.losses());
    let files = profile.files().tables[&Table::Launches];
    assert_eq!(files.rows, profile.launches());
    assert_eq!(u64::from(files.parts), files.rows.div_ceil(DEFAULT_MAX_ROWS_PER_PART));
    peak_bytes()
}

#[test]
fn b83_the_writers_memory_does_not_grow_with_the_rows() -> Outcome {
    Process::of(b83_the_writers_memory_does_not_grow_with_the_rows).lasting(150).run(|| {
        // A row group, which has its full size then.
        let first = write_launches(140_000)?;
        // A row takes some 130 bytes before it is written: without an end to row groups, these would take 34 MB more.
        let then = write_launches(400_000)?;
        assert!(then - first < 16 << 20, "{first} bytes at most for 140 000 rows, {then} for 400 000");
        assert!(then < 200 << 20, "{then} bytes");
        Ok(())
    })
}

/// By hand: `cargo test --release --test simulated -- --ignored hundred_million --nocapture`.
#[test]
#[ignore = "takes minutes, and some gigabytes of disk"]
fn b83_a_hundred_million_rows_are_written_in_less_than_200_mb() -> Outcome {
    let process = Process::of(b83_a_hundred_million_rows_are_written_in_less_than_200_mb).lasting(3600);
    let output = process.output(|| {
        let begun = std::time::Instant::now();
        let peak = write_launches(100_000_000)?;
        // libtest's own line does not end before.
        println!();
        println!("told a hundred million launches, {} s, {} KiB", begun.elapsed().as_secs(), peak >> 10);
        assert!(peak < 200_000_000, "{peak} bytes");
        Ok(())
    })?;
    output.lines().filter_map(|line| line.strip_prefix("told ")).for_each(|line| println!("{line}"));
    Ok(())
}

#[test]
fn b84_numbers_keep_their_values_whatever_their_size() -> Outcome {
    Process::of(b84_numbers_keep_their_values_whatever_their_size).run(|| {
        let run = traced_as(Profiler::builder(), &[("out_of_range", 1)], |cupti| {
            cupti.work(Work { stream: u32::MAX, correlation: u32::MAX, ..Work::KERNEL });
            cupti.work(Work { bytes: i64::MAX as u64, ..Work::COPY });
            cupti.work(Work { bytes: u64::MAX, ..Work::COPY });
            cupti.work(Work::FILL.stamped(u64::MAX - 1, u64::MAX))
        })?;
        assert_eq!(run.numbers(Table::Launches, "correlation_id")?, [Some(i64::from(u32::MAX))]);
        assert_eq!(run.numbers(Table::Launches, "stream")?, [Some(i64::from(u32::MAX))]);
        // Cut to what is a number to every reader, and never negative. Ids of nodes keep their bits: `src/table/tests`.
        assert_eq!(run.numbers(Table::Transfers, "bytes")?[..2], [Some(i64::MAX); 2]);
        assert_eq!(run.numbers(Table::Transfers, "duration_ns")?[2], None);
        assert!(run.numbers(Table::Transfers, "start_ns")?.iter().flatten().all(|start| *start >= 0));
        Ok(())
    })
}
