//! Sessions that end by SIGKILL, and outputs that go away under them.

use std::fs;
use std::io::{BufRead, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use cuprof::{Dataset, ErrorKind, Profiler, Table, recover};

use crate::Outcome;
use crate::library::Simulated;
use crate::process::{Process, given, is_inside, read, skip};
use crate::session::Ends;

/// How many processes are killed.
const KILLED: u64 = 50;

/// One in so many of them launches much, so that it is likely killed while a large part is written.
const LARGE_EVERY: u64 = 12;

/// Splitmix64.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Launches until it is killed, and says how far it is: `launched N`, and `flushed N` once rows can be read.
fn work_until_killed() -> Outcome {
    let is_large = std::env::var("LARGE").is_ok_and(|large| !large.is_empty());
    // A row group is written when it is full: 131 072 rows.
    let (calls, rows_per_part) = if is_large { (20_000, 1 << 20) } else { (7, 60) };
    let profiler = Profiler::builder().output(given("OUTPUT")).max_rows_per_part(rows_per_part).start()?;
    let cupti = Simulated::get();
    let mut stdout = std::io::stdout();
    for line in 1_u64.. {
        let launched = line * u64::from(calls);
        let _range = cuprof::range!("step", launched = launched);
        cupti.launch(calls);
        writeln!(stdout, "launched {launched}")?;
        if line % 5 == 0 && !is_large {
            profiler.flush()?;
            writeln!(stdout, "flushed {launched}")?;
        }
    }
    Ok(())
}

/// What must be in the folder of a killed process that had said that so many launches are flushed.
fn assert_no_finished_row_is_lost(folder: &Path, flushed: u64, context: &str) -> Outcome {
    let check = |when: &str| -> Result<u64, Box<dyn std::error::Error>> {
        let dataset = match Dataset::open(folder) {
            Ok(dataset) => dataset,
            Err(_) if flushed == 0 => return Ok(0),
            Err(error) => return Err(format!("{context}, {when}: {error}").into()),
        };
        assert!(!dataset.is_complete(), "{context}, {when}: it was killed");
        let read: usize = dataset.read(Table::Launches)?.iter().map(|batch| batch.num_rows()).sum();
        assert_eq!(read as u64, dataset.rows(Table::Launches), "{context}, {when}");
        assert!(read as u64 >= flushed, "{context}, {when}: {read} launches of at least {flushed}");
        Ok(read as u64)
    };
    let before = check("as it was left")?;
    let recovery = recover(folder).map_err(|error| format!("{context}: {error}"))?;
    assert!(recovery.was_killed && recovery.damaged.is_empty(), "{context}: {recovery}");
    let after = check("recovered")?;
    assert!(after >= before, "{context}: recovering lost {before} - {after} rows");
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        assert!(name.ends_with(".parquet") && !name.starts_with('.'), "{context}: {name} is left");
    }
    Ok(())
}

#[test]
fn a_process_killed_at_any_moment_keeps_every_part_that_was_finished() -> Outcome {
    kill_many(&|| Process::of(a_process_killed_at_any_moment_keeps_every_part_that_was_finished), |_| Ok(()))
}

#[test]
#[ignore = "needs pyarrow and DuckDB: CUPROF_PYTHON; ./check runs it"]
fn other_readers_open_what_killed_processes_leave() -> Outcome {
    kill_many(&|| Process::of(other_readers_open_what_killed_processes_leave), others_can_open)
}

/// Kills processes of this test at any moment, and has the folder with what they left looked at.
fn kill_many(process: &dyn Fn() -> Process, look: fn(&Path) -> Outcome) -> Outcome {
    if is_inside() {
        return process().run(work_until_killed);
    }
    let seed = std::env::var("CUPROF_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed: u64 = seed.unwrap_or_else(|| std::process::id().into());
    println!("CUPROF_TEST_SEED={seed}");
    let mut state = seed;
    let folder = crate::process::folder()?;
    let mut unfinished = 0;
    for number in 0..KILLED {
        let output = folder.path().join(format!("{number}.cuprof"));
        let is_large = if number % LARGE_EVERY == 0 { "1" } else { "" };
        let process = process().with("OUTPUT", &output).with("LARGE", is_large);
        let mut child = process.start()?;
        let errors = read(child.stderr.take());
        let stdout = child.stdout.take().ok_or("no output")?;
        let moment = random(&mut state) % 60;
        let mut flushed = 0;
        let mut lines = BufReader::new(stdout).lines();
        // Lines come as the process makes progress; what else it does meanwhile differs each time.
        let mut seen = 0;
        while seen < moment {
            let line = lines.next().ok_or("it ended by itself")??;
            seen += u64::from(line.starts_with("launched "));
            flushed = line.strip_prefix("flushed ").map_or(Ok(flushed), str::parse)?;
        }
        child.kill()?;
        child.wait()?;
        process.assert_rules_kept(&errors.recv()?);
        // What it had said before is still in the pipe.
        for line in lines.map_while(Result::ok) {
            flushed = line.strip_prefix("flushed ").and_then(|count| count.parse().ok()).unwrap_or(flushed);
        }
        if !output.exists() {
            continue; // killed before its session started
        }
        let left = fs::read_dir(&output)?.filter(|entry| {
            entry.as_ref().is_ok_and(|entry| entry.file_name().to_string_lossy().ends_with(".tmp"))
        });
        unfinished += left.count();
        let context = format!("seed {seed}, process {number}, killed after {moment} lines");
        assert_no_finished_row_is_lost(&output, flushed, &context)?;
    }
    println!("{unfinished} parts had not been finished");
    look(folder.path())
}

/// Has pyarrow and DuckDB open every part below a folder.
fn others_can_open(folder: &Path) -> Outcome {
    let python =
        std::env::var_os("CUPROF_PYTHON").ok_or("CUPROF_PYTHON names no interpreter that has them")?;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/py/opens.py");
    let output = Command::new(python).arg(script).arg(folder).output()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    println!("{}", String::from_utf8_lossy(&output.stdout));
    Ok(())
}

#[test]
fn an_output_that_is_removed_under_a_session_is_an_error_and_not_the_end() -> Outcome {
    Process::of(an_output_that_is_removed_under_a_session_is_an_error_and_not_the_end).run(|| {
        let folder = crate::process::folder()?;
        let output = folder.path().join("run.cuprof");
        let profiler = Profiler::builder().output(&output).start()?;
        let cupti = Simulated::get();
        cupti.launch(100);
        profiler.flush()?;
        assert_eq!(Dataset::open(&output)?.rows(Table::Launches), 100);
        fs::remove_dir_all(&output)?;
        cupti.launch(50);
        let why = "rows are lost in blocks, as they are written";
        let (error, profile) = profiler.failing_somehow(why)?;
        assert_eq!(error.kind, ErrorKind::Io, "{error}");
        assert!(error.to_string().contains("run.cuprof"), "the folder is named: {error}");
        assert_eq!(profile.launches(), 150, "the summary is whole all the same");
        let lost = profile.losses().iter().find(|loss| loss.cause == "rows_not_written");
        assert!(lost.is_some_and(|loss| loss.count >= 50), "{:?}", profile.losses());
        assert!(!output.exists(), "it was removed on purpose");
        assert_eq!(cupti.left_on(), 0);
        Ok(())
    })
}

/// A small file system of its own in a folder; it can be made read-only, which stops an administrator, too. None where
/// nothing can be mounted.
pub struct Mounted(PathBuf);

impl Mounted {
    /// With room for so many KiB.
    pub fn on(folder: &Path, kib: u64) -> Option<Self> {
        let mount = |options: &str| {
            let mut command = Command::new("mount");
            command
                .args(["-t", "tmpfs", "-o", options, "tmpfs"])
                .arg(folder)
                .stderr(std::process::Stdio::null());
            command.status().is_ok_and(|status| status.success())
        };
        mount(&format!("size={kib}k")).then(|| Self(folder.to_owned()))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _unmounted = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn a_folder_that_becomes_read_only_keeps_what_is_finished_and_the_rest_is_told() -> Outcome {
    let folder = crate::process::folder()?;
    // Permissions do not stop an administrator, a file system does.
    let mounted = if is_inside() { None } else { Mounted::on(folder.path(), 8192) };
    let process = Process::of(a_folder_that_becomes_read_only_keeps_what_is_finished_and_the_rest_is_told);
    let given_folder = if mounted.is_some() { folder.path().as_os_str() } else { "".as_ref() };
    process.with("FOLDER", given_folder).run(|| {
        let folder = given("FOLDER");
        if folder.as_os_str().is_empty() {
            return skip("a file system cannot be mounted here");
        }
        let output = folder.join("run.cuprof");
        let profiler = Profiler::builder().output(&output).start()?;
        let cupti = Simulated::get();
        cupti.launch(100);
        profiler.flush()?;
        // Nothing that a session has open between its parts keeps this from being done.
        assert!(Command::new("mount").args(["-o", "remount,ro"]).arg(&folder).status()?.success());
        cupti.launch(50);
        let why = "rows are lost in blocks, as they are written";
        let finished = profiler.failing_somehow(why);
        Command::new("mount").args(["-o", "remount,rw"]).arg(&folder).status()?;
        let (error, profile) = finished?;
        assert_eq!(error.kind, ErrorKind::Io, "{error}");
        assert!(error.to_string().contains("Read-only"), "{error}");
        assert_eq!(profile.launches(), 150);
        assert_eq!(Dataset::open(&output)?.rows(Table::Launches), 100, "what was finished stays");
        Ok(())
    })
}

#[test]
fn a_read_only_folder_is_refused_before_anything_starts() -> Outcome {
    Process::of(a_read_only_folder_is_refused_before_anything_starts).run(|| {
        // Nobody can make folders here, not even an administrator.
        let Err(error) = Profiler::builder().output("/proc/run.cuprof").start() else {
            panic!("a session was started")
        };
        assert_eq!(error.kind, ErrorKind::Io, "{error}");
        assert!(error.to_string().contains("/proc/run.cuprof"), "{error}");
        assert_eq!(Simulated::get().left_on(), 0);
        Ok(())
    })
}
