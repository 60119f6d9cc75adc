//! Outputs that cannot be written.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use cuprof::{Dataset, ErrorKind, Profiler, Table};

use crate::Outcome;
use crate::killed::Mounted;
use crate::library::Simulated;
use crate::process::{Process, given, is_inside, skip};
use crate::session::Ends;

#[test]
fn an_output_without_permission_is_an_error_before_anything_starts() -> Outcome {
    Process::of(an_output_without_permission_is_an_error_before_anything_starts).run(|| {
        let folder = crate::process::folder()?;
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o555))?;
        // Root may write there all the same, but nobody may make a folder in /proc.
        let root = fs::write(folder.path().join("probe"), []).is_ok();
        let parent = if root { "/proc".into() } else { folder.path().to_owned() };
        for recording in [false, true] {
            let path = parent.join("run.cuprof");
            let builder = Profiler::builder();
            let builder = if recording { builder.record(&path) } else { builder.output(&path) };
            let Err(error) = builder.start() else { panic!("a session was started") };
            assert_eq!(error.kind, ErrorKind::Io, "{error}");
            assert!(error.to_string().contains("run.cuprof"), "the path is named: {error}");
            assert_eq!(Simulated::get().left_on(), 0);
        }
        // Nothing keeps the next session from starting.
        Profiler::builder().start()?.whole()?;
        Ok(())
    })
}

#[test]
fn an_existing_dataset_is_refused_unless_overwriting_was_asked_for() -> Outcome {
    Process::of(an_existing_dataset_is_refused_unless_overwriting_was_asked_for).run(|| {
        let folder = crate::process::folder()?;
        let output = folder.path().join("run.cuprof");
        let session = |launches, overwrite| -> Outcome {
            let profiler = Profiler::builder().output(&output).overwrite(overwrite).start()?;
            Simulated::get().launch(launches);
            profiler.whole()?;
            Ok(())
        };
        session(5, false)?;
        let Err(error) = session(6, false) else { panic!("it was overwritten") };
        let error = error.downcast::<cuprof::Error>()?;
        assert_eq!(error.kind, ErrorKind::OutputExists);
        assert!(error.to_string().contains("run.cuprof"), "{error}");
        assert_eq!(Dataset::open(&output)?.rows(Table::Launches), 5);
        session(7, true)?;
        assert_eq!(Dataset::open(&output)?.rows(Table::Launches), 7);
        Ok(())
    })
}

#[test]
fn a_foreign_folder_is_never_taken_for_output() -> Outcome {
    Process::of(a_foreign_folder_is_never_taken_for_output).run(|| {
        let folder = crate::process::folder()?;
        fs::write(folder.path().join("thesis.tex"), "all my work")?;
        for overwrite in [false, true] {
            let Err(error) = Profiler::builder().output(folder.path()).overwrite(overwrite).start() else {
                panic!("a session was started");
            };
            assert_eq!(error.kind, ErrorKind::OutputExists);
        }
        assert_eq!(fs::read_to_string(folder.path().join("thesis.tex"))?, "all my work");
        assert_eq!(fs::read_dir(folder.path())?.count(), 1);
        Ok(())
    })
}

#[test]
fn a_file_is_never_taken_for_an_output_folder() -> Outcome {
    Process::of(a_file_is_never_taken_for_an_output_folder).run(|| {
        let file = tempfile::NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR"))?;
        fs::write(file.path(), "content")?;
        for overwrite in [false, true] {
            let Err(error) = Profiler::builder().output(file.path()).overwrite(overwrite).start() else {
                panic!("a session was started");
            };
            assert!(matches!(error.kind, ErrorKind::OutputExists | ErrorKind::Io), "{error}");
        }
        assert_eq!(fs::read_to_string(file.path())?, "content");
        Ok(())
    })
}

#[test]
fn an_existing_recording_is_refused_and_leaves_no_dataset() -> Outcome {
    Process::of(an_existing_recording_is_refused_and_leaves_no_dataset).run(|| {
        let folder = crate::process::folder()?;
        let recording = folder.path().join("run.cuprofrec");
        let output = folder.path().join("run.cuprof");
        fs::write(&recording, "precious")?;
        let builder = Profiler::builder().record(&recording).output(&output);
        let Err(error) = builder.start() else { panic!("a session was started") };
        assert_eq!(error.kind, ErrorKind::OutputExists);
        assert_eq!(fs::read_to_string(&recording)?, "precious");
        assert!(!output.exists(), "a dataset without a session");
        Ok(())
    })
}

/// Everything that a full disk must not do to a session whose files went to `folder`.
fn assert_a_full_disk_is_told(folder: &std::path::Path) -> Outcome {
    let output = folder.join("run.cuprof");
    let profiler = Profiler::builder().output(&output).max_rows_per_part(1000).start()?;
    let cupti = Simulated::get();
    for _ in 0..40 {
        cupti.launch(1000);
        // Names that do not compress, so that `ranges` is what fills the disk.
        for number in 0..1000_u64 {
            let noise = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            cuprof::in_range(&format!("{noise:016x}{:016x}", noise.rotate_left(17) ^ number), || ());
        }
        profiler.flush()?;
    }
    let (error, profile) =
        profiler.failing_somehow("rows and frames are lost in blocks, as they are written")?;
    assert_eq!(error.kind, ErrorKind::Io, "{}", error);
    assert!(error.to_string().contains("run.cuprof"), "the file is named: {error}");
    assert_eq!(profile.launches(), 40_000, "the summary is whole all the same");
    let lost = profile.losses().iter().find(|loss| loss.cause == "rows_not_written");
    assert!(lost.is_some_and(|loss| loss.count > 0), "{:?}", profile.losses());
    // What was finished before can be read.
    let dataset = Dataset::open(&output)?;
    let rows = dataset.read(Table::Launches)?.iter().map(|batch| batch.num_rows()).sum::<usize>();
    assert_eq!(rows as u64, dataset.rows(Table::Launches));
    assert!(rows >= 1000, "finished parts stay, but only {rows} rows are there");
    assert_eq!(cupti.left_on(), 0);
    Profiler::builder().start()?.whole()?;
    Ok(())
}

#[test]
fn on_a_full_disk_finished_parts_stay_and_the_loss_is_told() -> Outcome {
    let folder = crate::process::folder()?;
    let mounted = if is_inside() { None } else { Mounted::on(folder.path(), 1024) };
    let process = Process::of(on_a_full_disk_finished_parts_stay_and_the_loss_is_told);
    let process =
        process.with("FOLDER", if mounted.is_some() { folder.path().as_os_str() } else { "".as_ref() });
    process.run(|| match given("FOLDER") {
        folder if folder.as_os_str().is_empty() => skip("a small disk cannot be mounted here"),
        folder => assert_a_full_disk_is_told(&folder),
    })
}

#[test]
fn a_row_that_cannot_be_written_is_counted_once_whenever_that_is_found() -> Outcome {
    Process::of(a_row_that_cannot_be_written_is_counted_once_whenever_that_is_found).run(|| {
        let folder = crate::process::folder()?;
        let output = folder.path().join("run.cuprof");
        let profiler = Profiler::builder().output(&output).start()?;
        std::os::unix::fs::symlink("/dev/full", output.join(".launches-00000.parquet.tmp"))?;
        // Ten are lost by the flush, and five more before the files are closed.
        Simulated::get().launch(10);
        profiler.flush()?;
        Simulated::get().launch(5);
        let (error, _profile) = profiler.failing(&[("rows_not_written", 15)])?;
        assert_eq!(error.kind, ErrorKind::Io, "{error}");
        Ok(())
    })
}

#[test]
fn a_limit_on_file_sizes_is_an_error_and_not_the_end() -> Outcome {
    // Without the signal, writing past the limit is an error like any other.
    let process = Process::of(a_limit_on_file_sizes_is_an_error_and_not_the_end);
    process.after("trap '' XFSZ; ulimit -f 16;").run(|| {
        let folder = crate::process::folder()?;
        let output = folder.path().join("run.cuprof");
        let profiler = Profiler::builder().output(&output).start()?;
        Simulated::get().launch(20_000);
        let (error, profile) =
            profiler.failing_somehow("rows and frames are lost in blocks, as they are written")?;
        assert_eq!(error.kind, ErrorKind::Io, "{}", error);
        assert_eq!(profile.launches(), 20_000);
        let dataset = Dataset::open(&output)?;
        assert_eq!(dataset.rows(Table::Launches), 0);
        assert!(dataset.is_complete(), "the other tables are whole");
        Ok(())
    })
}

#[test]
fn a_recording_onto_a_full_disk_is_an_error_and_the_dataset_is_whole() -> Outcome {
    Process::of(a_recording_onto_a_full_disk_is_an_error_and_the_dataset_is_whole).run(|| {
        let folder = crate::process::folder()?;
        let output = folder.path().join("run.cuprof");
        let builder = Profiler::builder().output(&output).record("/dev/full").overwrite(true);
        let profiler = builder.start()?;
        Simulated::get().launch(20_000);
        let (error, profile) =
            profiler.failing_somehow("rows and frames are lost in blocks, as they are written")?;
        assert_eq!(error.kind, ErrorKind::Io, "{}", error);
        assert!(error.to_string().contains("/dev/full"), "{error}");
        let lost = profile.losses().iter().find(|loss| loss.cause == "recording_frames_lost");
        assert!(lost.is_some_and(|loss| loss.count > 0), "{:?}", profile.losses());
        assert_eq!(Dataset::open(&output)?.rows(Table::Launches), 20_000);
        Ok(())
    })
}
