//! Folders that a killed process, or a broken machine, leaves behind.

use std::fs;
use std::path::Path;

use super::samples::{launch, transfer, write};
use crate::error::ErrorKind;
use crate::table::reader::Dataset;
use crate::table::recover::{Recovery, recover};
use crate::table::rows::LossRow;
use crate::table::schema::Table;
use crate::table::writer::{DatasetWriter, TableSink, WriterOptions};

type TestResult = std::result::Result<(), Box<dyn std::error::Error>>;

/// Three parts of launches, and one of transfers.
fn dataset(folder: &Path) -> TestResult {
    let options = WriterOptions { max_rows_per_part: 14, overwrite: true, ..WriterOptions::default() };
    write(folder, options, |writer| {
        (0..30).for_each(|i| writer.launch(&launch(i)));
        (0..5).for_each(|i| writer.transfer(&transfer(i)));
    })?;
    Ok(())
}

fn names(folder: &Path, ends: &str) -> std::io::Result<Vec<String>> {
    let mut names = fs::read_dir(folder)?
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect::<std::io::Result<Vec<_>>>()?;
    names.retain(|name| name.ends_with(ends));
    names.sort();
    Ok(names)
}

/// Its text with the folder's name left out.
fn told(recovery: &Recovery, folder: &Path) -> String {
    recovery.to_string().replace(&format!("{}/", folder.display()), "")
}

#[test]
fn a_closed_dataset_needs_nothing() -> TestResult {
    let folder = tempfile::tempdir()?;
    dataset(folder.path())?;
    let before = names(folder.path(), "")?;
    let recovery = recover(folder.path())?;
    assert_eq!(names(folder.path(), "")?, before);
    assert!(recovery.is_complete && !recovery.was_killed);
    assert_eq!(recovery.rows[&Table::Launches], 30);
    assert!(told(&recovery, folder.path()).ends_with("the dataset is complete\n"));
    Ok(())
}

#[test]
fn what_a_killed_process_leaves_is_tidied_and_told() -> TestResult {
    let folder = tempfile::tempdir()?;
    dataset(folder.path())?;
    // Killed before `env` and `losses`, in a part of launches, and between the last byte of a part and its name.
    fs::remove_file(folder.path().join("env-00000.parquet"))?;
    fs::remove_file(folder.path().join("losses-00000.parquet"))?;
    fs::write(folder.path().join(".launches-00003.parquet.tmp"), "PAR1 and some rows")?;
    fs::rename(
        folder.path().join("transfers-00000.parquet"),
        folder.path().join(".transfers-00000.parquet.tmp"),
    )?;
    fs::write(folder.path().join(".writing"), "")?;
    fs::write(folder.path().join("notes.txt"), "mine")?;

    let recovery = recover(folder.path())?;
    assert_eq!(
        told(&recovery, folder.path()),
        "the process was killed: rows after the last finished part of each table are lost\n\
         removed an unfinished part of launches (18 bytes)\n\
         transfers-00000.parquet was whole but for its name\n\
         launches: 30 rows\n\
         transfers: 5 rows\n\
         ranges: 0 rows\n\
         the dataset can be read, and is not complete\n"
    );
    assert!(names(folder.path(), "tmp")?.is_empty() && names(folder.path(), ".writing")?.is_empty());
    assert_eq!(fs::read_to_string(folder.path().join("notes.txt"))?, "mine");
    assert_eq!(Dataset::open(folder.path())?.rows(Table::Transfers), 5);

    let again = recover(folder.path())?;
    assert!(again.unfinished.is_empty() && again.published.is_empty() && !again.was_killed);
    assert_eq!(again.rows, recovery.rows);
    Ok(())
}

#[test]
fn an_unfinished_part_never_takes_the_place_of_a_finished_one() -> TestResult {
    let folder = tempfile::tempdir()?;
    dataset(folder.path())?;
    let (part, another) =
        (folder.path().join("launches-00000.parquet"), folder.path().join("launches-00002.parquet"));
    let before = fs::read(&part)?;
    // Whole, and under the temporary name of a part that is there.
    fs::copy(&another, folder.path().join(".launches-00000.parquet.tmp"))?;
    let recovery = recover(folder.path())?;
    assert_eq!((recovery.unfinished.len(), recovery.published.len()), (1, 0), "{recovery}");
    assert_eq!(fs::read(&part)?, before);
    Ok(())
}

#[test]
fn a_damaged_part_is_set_aside_and_those_after_it_close_the_gap() -> TestResult {
    let folder = tempfile::tempdir()?;
    dataset(folder.path())?;
    let part = |number: u32| folder.path().join(format!("launches-{number:05}.parquet"));
    // The machine lost power: the name is there, the end is not.
    let whole = fs::read(part(1))?;
    fs::write(part(1), &whole[..whole.len() - 10])?;
    assert!(Dataset::open(folder.path()).is_err());

    let recovery = recover(folder.path())?;
    let text = told(&recovery, folder.path());
    assert!(
        text.starts_with("set launches-00001.parquet aside as launches-00001.parquet.damaged: "),
        "{text}"
    );
    assert!(text.contains("renamed launches-00002.parquet to launches-00001.parquet"), "{text}");
    assert!(text.contains("launches: 16 rows\n"), "{text}");
    assert!(text.ends_with("is not complete\n"), "{text}");
    assert_eq!(fs::read(folder.path().join("launches-00001.parquet.damaged"))?.len(), whole.len() - 10);
    assert_eq!(Dataset::open(folder.path())?.rows(Table::Launches), 16);
    assert!(!Dataset::open(folder.path())?.is_complete(), "a part is missing");
    Ok(())
}

#[test]
fn what_was_set_aside_is_told_again_and_goes_with_its_dataset() -> TestResult {
    let folder = tempfile::tempdir()?;
    dataset(folder.path())?;
    let part = folder.path().join("launches-00002.parquet");
    fs::write(&part, "PAR1")?;
    assert_eq!(recover(folder.path())?.damaged.len(), 1);
    for _ in 0..2 {
        let again = recover(folder.path())?;
        let set_aside = folder.path().join("launches-00002.parquet.damaged");
        assert_eq!((again.damaged.len(), &again.set_aside_before), (0, &vec![set_aside]));
        let text = told(&again, folder.path());
        assert!(
            text.starts_with("launches-00002.parquet.damaged was set aside before: its rows are missing\n"),
            "{text}"
        );
        assert!(text.ends_with("is not complete\n"), "{text}");
    }
    // The next one that has its number does not take its place.
    fs::write(&part, "PAR1 too")?;
    assert_eq!(recover(folder.path())?.damaged.len(), 1);
    assert_eq!(fs::read_to_string(folder.path().join("launches-00002.parquet.damaged"))?, "PAR1");
    assert_eq!(fs::read_to_string(folder.path().join("launches-00003.parquet.damaged"))?, "PAR1 too");
    // It is a dataset's, and not of another that takes its place.
    dataset(folder.path())?;
    assert!(names(folder.path(), "damaged")?.is_empty());
    assert!(recover(folder.path())?.is_complete);
    Ok(())
}

#[test]
fn a_closed_dataset_with_losses_is_not_called_complete() -> TestResult {
    let folder = tempfile::tempdir()?;
    write(folder.path(), WriterOptions { overwrite: true, ..WriterOptions::default() }, |writer| {
        writer.launch(&launch(1));
        writer.loss(&LossRow { cause: "records_dropped", count: 5, meaning: "gone" });
    })?;
    let text = told(&recover(folder.path())?, folder.path());
    assert!(
        text.ends_with("every part is there; what was lost before it could be written is in `losses`\n"),
        "{text}"
    );
    Ok(())
}

#[test]
fn a_part_whose_middle_is_damaged_is_found() -> TestResult {
    let folder = tempfile::tempdir()?;
    dataset(folder.path())?;
    let part = folder.path().join("launches-00002.parquet");
    let mut bytes = fs::read(&part)?;
    bytes[60] ^= 0x55; // in the first column's page; the footer is sound
    fs::write(&part, bytes)?;
    assert!(Dataset::open(folder.path()).is_ok(), "the footer is sound");
    let recovery = recover(folder.path())?;
    assert_eq!(recovery.damaged.len(), 1, "{recovery}");
    assert_eq!(Dataset::open(folder.path())?.read(Table::Launches)?.len(), 2);
    Ok(())
}

#[test]
fn a_dataset_that_is_being_written_is_left_alone() -> TestResult {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("run.cuprof");
    let mut writer = DatasetWriter::create(&path, WriterOptions::default())?;
    writer.launch(&launch(1));
    writer.finish_parts();
    let refused = recover(&path).err().ok_or("it was recovered under its writer")?;
    assert_eq!(refused.kind, ErrorKind::OutputExists);
    let overwriting = WriterOptions { overwrite: true, ..WriterOptions::default() };
    let refused =
        DatasetWriter::create(&path, overwriting).err().ok_or("it was replaced under its writer")?;
    assert!(refused.to_string().contains("is being written by another session"), "{refused}");
    writer.close();
    assert_eq!(recover(&path)?.rows[&Table::Launches], 1);
    Ok(())
}

#[test]
fn a_folder_of_other_things_is_refused_and_an_empty_run_is_told() -> TestResult {
    let folder = tempfile::tempdir()?;
    fs::write(folder.path().join("notes.txt"), "mine")?;
    assert_eq!(recover(folder.path()).err().map(|error| error.kind), Some(ErrorKind::Format));
    assert_eq!(recover(folder.path().join("absent")).err().map(|error| error.kind), Some(ErrorKind::Io));
    fs::write(folder.path().join(".writing"), "")?;
    let recovery = recover(folder.path())?;
    assert!(recovery.was_killed && recovery.rows.is_empty());
    assert!(told(&recovery, folder.path()).ends_with("no part had been finished: nothing can be read\n"));
    Ok(())
}

/// What is in a folder: names, and the bytes of files.
fn state(folder: &Path) -> std::io::Result<Vec<(String, Vec<u8>)>> {
    let bytes = |name: &String| match folder.join(name).symlink_metadata()?.is_file() {
        true => fs::read(folder.join(name)),
        false => Ok(Vec::new()),
    };
    names(folder, "")?.into_iter().map(|name| Ok((name.clone(), bytes(&name)?))).collect()
}

#[test]
fn what_cannot_be_read_now_leaves_everything_as_it_is() -> TestResult {
    let unreadable = ["launches-00001.parquet", ".transfers-00001.parquet.tmp", ".writing"];
    for (unreadable, other) in unreadable.iter().flat_map(|name| [(name, "loop"), (name, "folder")]) {
        let folder = tempfile::tempdir()?;
        dataset(folder.path())?;
        // All of these would be tidied otherwise.
        fs::write(folder.path().join(".ranges-00001.parquet.tmp"), "PAR1")?;
        fs::write(folder.path().join("launches-00002.parquet"), "PAR1")?;
        fs::write(folder.path().join(".writing"), "")?;
        let path = folder.path().join(unreadable);
        if path.exists() {
            fs::remove_file(&path)?;
        }
        match other {
            "loop" => std::os::unix::fs::symlink(&path, &path)?,
            _ => fs::create_dir(&path)?,
        }
        if unreadable == &".writing" && other == "loop" {
            continue; // it leads nowhere, so that there is no mark
        }
        let before = state(folder.path())?;
        let error = recover(folder.path()).err().ok_or("it was recovered")?.to_string();
        assert!(error.contains(unreadable) && error.contains("nothing was changed"), "{error}");
        assert_eq!(state(folder.path())?, before, "{unreadable} {other}");
    }
    Ok(())
}

#[test]
fn a_link_to_a_part_is_read_and_never_renamed() -> TestResult {
    let (folder, elsewhere) = (tempfile::tempdir()?, tempfile::tempdir()?);
    dataset(folder.path())?;
    let part = folder.path().join("launches-00001.parquet");
    let moved = elsewhere.path().join("part");
    fs::copy(&part, &moved)?;
    fs::remove_file(&part)?;
    std::os::unix::fs::symlink(&moved, &part)?;
    assert!(recover(folder.path())?.is_complete);
    fs::write(&moved, "PAR1")?;
    let error = recover(folder.path()).err().ok_or("a link was renamed")?.to_string();
    assert!(error.contains("launches-00001.parquet is not a file: it is a link"), "{error}");
    assert!(part.is_symlink());
    Ok(())
}
