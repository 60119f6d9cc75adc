//! Datasets that nobody would make on purpose.

use std::error::Error;
use std::fs;
use std::path::Path;

use super::samples::*;
use crate::analysis::{Collection, Digest, Filter, Moment, Section, View};
use crate::error::{ErrorKind, is_steering};
use crate::summary::Symbols;
use crate::table::writer::{DatasetWriter, TableSink, WriterOptions};

type Outcome = std::result::Result<(), Box<dyn Error>>;

fn digest(folder: &Path) -> crate::error::Result<Digest> {
    Collection::open([folder])?.digest(&Filter::default(), &|_, _| {})
}

#[test]
fn an_empty_dataset_is_an_answer() -> Outcome {
    let folder = tempfile::tempdir()?;
    write(folder.path(), |_| {})?;
    let digest = digest(folder.path())?;
    assert_eq!((digest.counts.launches, digest.kernels.len(), digest.devices.len()), (0, 0, 0));
    let text = digest.to_text(&View::default(), 80, Symbols::Ascii);
    assert!(text.contains("0 launches of 0 kernels, 0 transfers, 0 ranges"), "{text}");
    Ok(())
}

#[test]
fn a_dataset_that_was_not_closed_says_so() -> Outcome {
    let folder = tempfile::tempdir()?;
    let mut writer = DatasetWriter::create(folder.path(), WriterOptions::default())?;
    writer.launch(&launch("k", 4, "step", 1_000, 10));
    writer.finish_parts();
    let collection = Collection::open([folder.path()])?;
    assert!(collection.is_lossy());
    let digest = collection.digest(&Filter::default(), &|_, _| {})?;
    assert!(digest.warnings[0].contains("was not closed"), "{:?}", digest.warnings);
    // The rows of ranges come when they close; what was launched in them is known before.
    assert_eq!((&*digest.ranges[0].path, digest.ranges[0].launches, digest.ranges[0].calls), ("step", 1, 0));
    drop(writer);
    Ok(())
}

#[test]
fn what_cannot_be_read_is_named() -> Outcome {
    let folder = tempfile::tempdir()?;
    let dataset = folder.path().join("run.cuprof");
    write(&dataset, |sink| (0..2_000).for_each(|i| sink.launch(&launch("k", 0, "", 1_000 * i, 10))))?;
    let part = dataset.join("launches-00000.parquet");
    let whole = fs::read(&part)?;

    fs::write(&part, &whole[..whole.len() / 2])?;
    let error = Collection::open([&dataset]).err().ok_or("it was cut short")?;
    assert_eq!(error.kind, ErrorKind::Format);
    assert!(error.to_string().contains("launches-00000.parquet"), "{error}");

    // A page that does not match its checksum is found when it is read.
    let mut damaged = whole.clone();
    damaged[whole.len() / 3] ^= 0xff;
    fs::write(&part, &damaged)?;
    let error = digest(&dataset).err().ok_or("it is damaged")?;
    assert_eq!(error.kind, ErrorKind::Format);
    assert!(error.to_string().contains("launches-00000.parquet"), "{error}");

    fs::rename(&part, dataset.join("launches-00001.parquet"))?;
    let error = Collection::open([&dataset]).err().ok_or("a part is missing")?;
    assert!(error.to_string().contains("launches-00000.parquet is missing"), "{error}");
    Ok(())
}

#[test]
fn names_may_have_any_characters() -> Outcome {
    let folder = tempfile::tempdir()?;
    let names = [
        "a|b",
        "say \"hi\", you",
        "two\nlines\ttab",
        "\u{1b}[31mred",
        "日本語 核",
        "",
        "a/b",
        "𝕜`*_<b>&amp;",
        "\u{202e}elif_ton\u{202c} \u{2066}x\u{2069}\u{200f}\u{9b}2J",
    ];
    write(folder.path(), |sink| {
        for (i, name) in (0..).zip(names) {
            let id = i + 1;
            let at = 1_000 * i64::try_from(i).unwrap_or(0);
            sink.launch(&launch(name, id, name, at, 10));
            range(id, 0, name, name, at, at + 500).iter().for_each(|row| sink.range(row));
        }
    })?;
    let digest = digest(folder.path())?;
    assert_eq!(digest.kernels.len(), names.len());
    let view = View { top: None, ..View::default() };
    let text = digest.to_text(&view, 80, Symbols::Ascii);
    let (markdown, json) = (digest.to_markdown(&view), digest.to_json(&view));
    for text in [&text, &markdown, &json] {
        assert!(text.chars().all(|c| c == '\n' || !is_steering(c)), "{text:?}");
    }
    let csv = digest.to_csv(Section::Kernels, &view);
    assert!(names.iter().all(|name| csv.contains(&name.replace('"', "\"\""))), "{csv}");
    assert!(csv.contains("\"say \"\"hi\"\", you\","), "{csv}");
    assert!(csv.contains("\"two\nlines\ttab\","), "{csv}");
    assert!(markdown.contains("| a\\|b |") && markdown.contains("\\\\u{202e}elif\\_ton"), "{markdown}");
    let json: serde_json::Value = serde_json::from_str(&json)?;
    let found = json["kernels"].as_array().ok_or("no kernels")?;
    assert!(names.iter().all(|name| found.iter().any(|kernel| kernel["name"] == **name)), "{json}");
    Ok(())
}

#[test]
fn a_hundred_thousand_kernels_are_kept_apart() -> Outcome {
    let folder = tempfile::tempdir()?;
    write(folder.path(), |sink| {
        (0..100_000).for_each(|i| sink.launch(&launch(&format!("kernel_{i}"), 0, "", 1_000 * i, i + 1)));
    })?;
    let digest = digest(folder.path())?;
    assert_eq!(digest.kernels.len(), 100_000);
    assert_eq!(&*digest.kernels[0].name, "kernel_99999");
    let text = digest.to_text(&View::default(), 80, Symbols::Ascii);
    assert!(text.contains("(99,980 kernels more)"), "{text}");
    Ok(())
}

#[test]
fn ranges_may_be_nested_a_thousand_deep() -> Outcome {
    let folder = tempfile::tempdir()?;
    write(folder.path(), |sink| {
        let mut path = String::new();
        let mut rows = Vec::new();
        for depth in 0..1_000u64 {
            if depth > 0 {
                path.push('/');
            }
            path += "r";
            let at = i64::try_from(depth).unwrap_or(0);
            rows.extend(range(depth + 1, depth, &path, "r", at, 10_000 - at));
        }
        sink.launch(&launch("k", 1_000, &path, 2_000, 10));
        rows.iter().rev().for_each(|row| sink.range(row));
    })?;
    let digest = digest(folder.path())?;
    assert_eq!(digest.ranges.len(), 1_000);
    let last = &digest.ranges[999];
    assert_eq!((last.depth, last.gpu_time_ns, last.own_gpu_time_ns), (999, 10, Some(10)));
    assert!(digest.ranges.iter().all(|range| range.gpu_time_ns == 10));
    for columns in [40, 80, 200] {
        let text = digest.to_text(&View { top: None, ..View::default() }, columns, Symbols::Ascii);
        assert!(text.lines().all(|line| line.len() <= columns), "{text}");
        // Each level is told apart from the one above, by its indentation or its number.
        let rows = text.lines().skip_while(|line| !line.ends_with("Range")).skip(1);
        let rows: Vec<&str> = rows.take_while(|line| line.contains("100.0%")).collect();
        let indented = rows.iter().take_while(|row| !row.contains('>')).count();
        assert!((3..50).contains(&indented), "{text}");
        assert!(rows[..indented].windows(2).all(|rows| rows[1].len() == rows[0].len() + 2), "{text}");
        let numbered = |(depth, row): (usize, &&str)| row.ends_with(&format!(" {depth}> r"));
        assert!(rows.len() == 1_000 && rows.iter().enumerate().skip(indented).all(numbered), "{text}");
        let flat = text.replace('\n', " ");
        assert!(flat.contains(&format!("({indented}> is {indented} levels down")), "{text}");
    }
    Ok(())
}

#[test]
fn streams_of_datasets_with_the_same_name_are_told_apart() -> Outcome {
    let folder = tempfile::tempdir()?;
    let mut paths = Vec::new();
    for (parent, uuid) in [("monday", "GPU-1"), ("tuesday", "GPU-1"), ("wednesday", "")] {
        let path = folder.path().join(parent).join("a_run_of_training_with_a_long_name.cuprof");
        write(&path, |sink| {
            if !uuid.is_empty() {
                sink.env(&fact("gpu.0.uuid", uuid));
            }
            sink.launch(&launch("k", 0, "", 1_000, 100));
        })?;
        paths.push(path);
    }
    let digest = Collection::open(&paths)?.digest(&Filter::default(), &|_, _| {})?;
    for columns in [40, 60, 80, 200] {
        let text = digest.to_text(&View::default(), columns, Symbols::Ascii);
        let names = text.lines().skip_while(|line| !line.ends_with("Device")).skip(1);
        let wanted = [
            "device 0: NV",
            "  stream 7 of [1]",
            "  stream 7 of [2]",
            "device 0 of [3]: ",
            "  stream 7 of [3]",
        ];
        let found = names.zip(wanted).filter(|(line, wanted)| line.contains(wanted));
        assert_eq!(found.count(), wanted.len(), "{text}");
        let head = text.replace("\n  ", " ");
        assert!(paths.iter().zip(["[1] ", "[2] ", "[3] "]).all(|(path, number)| {
            head.lines().any(|line| line.starts_with(&format!("{number}{}", path.display())))
        }));
    }
    let markdown = digest.to_markdown(&View::default());
    let of_tuesday = |line: &str| line.starts_with("| 0 | 1 | 7 |") && line.contains("tuesday");
    assert!(markdown.lines().any(of_tuesday), "{markdown}");
    Ok(())
}

#[test]
fn clocks_may_step_backwards() -> Outcome {
    let folder = tempfile::tempdir()?;
    write(folder.path(), |sink| {
        sink.launch(&launch("k", 1, "step", 9_000, 100));
        // The clock was set back by an hour, in the middle of the range.
        sink.launch(&launch("k", 1, "step", -3_600_000_000_000, 100));
        sink.launch(&without_times(launch("k", 1, "step", 100, -50)));
        range(1, 0, "step", "step", 8_000, -3_599_999_000_000).iter().for_each(|row| sink.range(row));
    })?;
    let digest = digest(folder.path())?;
    assert_eq!((digest.counts.launches, digest.counts.invalid_launches), (3, 1));
    assert_eq!(digest.counts.kernel_ns, 200);
    assert_eq!(digest.devices[0].busy.busy_ns, 200);
    assert_eq!(digest.devices[0].busy.gaps, 1);
    Ok(())
}

#[test]
fn datasets_of_different_gpus_are_different_devices() -> Outcome {
    let folder = tempfile::tempdir()?;
    let paths = [("a", "GPU-1"), ("b", "GPU-2"), ("c", "GPU-1")].map(|(name, uuid)| {
        let path = folder.path().join(name).with_extension("cuprof");
        let at = 10_000 * i64::from(name.as_bytes()[0]);
        let written = write(&path, |sink| {
            sink.env(&fact("gpu.0.uuid", uuid));
            sink.launch(&launch("k", 0, "", at, 100));
        });
        written.map(|()| path)
    });
    let paths = paths.into_iter().collect::<Result<Vec<_>, _>>()?;
    // The folder stands for the datasets in it.
    for collection in [Collection::open(&paths)?, Collection::open([folder.path()])?] {
        let digest = collection.digest(&Filter::default(), &|_, _| {})?;
        assert_eq!(digest.counts.launches, 3);
        let devices: Vec<_> = digest
            .devices
            .iter()
            .map(|device| (device.uuid.as_deref(), device.busy.launches, device.streams.len()))
            .collect();
        assert_eq!(devices, [(Some("GPU-1"), 2, 2), (Some("GPU-2"), 1, 1)]);
    }
    Ok(())
}

#[test]
fn times_at_the_end_of_all_times_are_drawn_or_left_out() -> Outcome {
    let folder = tempfile::tempdir()?;
    write(folder.path(), |sink| {
        for (start, duration) in [(i64::MIN, i64::MAX), (i64::MAX - 1, i64::MAX), (i64::MIN, 0), (5, 10)] {
            let mut row = launch("k", 0, "", 0, 0);
            (row.work.start_ns, row.work.duration_ns) = (start, Some(duration));
            sink.launch(&row);
            let mut row = transfer("host to device", 8, 0, 0);
            (row.work.start_ns, row.work.duration_ns) = (start, Some(duration));
            sink.transfer(&row);
        }
    })?;
    let digest = digest(folder.path())?;
    assert_eq!((digest.counts.launches, digest.counts.transfers, digest.counts.invalid_launches), (4, 4, 0));
    assert!(digest.to_text(&View::default(), 80, Symbols::Ascii).contains("4 launches"));
    let collection = Collection::open([folder.path()])?;
    let traced = collection.write_perfetto(&Filter::default(), &mut Vec::new(), &|_, _| {})?;
    assert_eq!((traced.slices, traced.left_out), (4, 4));
    Ok(())
}

#[test]
fn nothing_lasts_less_than_no_time() -> Outcome {
    let folder = tempfile::tempdir()?;
    write(folder.path(), |sink| {
        for duration in [-100, 10] {
            let mut row = launch("k", 0, "", 1_000, 0);
            row.work.duration_ns = Some(duration);
            sink.launch(&row);
        }
    })?;
    let digest = digest(folder.path())?;
    assert_eq!((digest.counts.launches, digest.counts.invalid_launches), (2, 1));
    assert_eq!((digest.kernels[0].calls, digest.kernels[0].min_ns), (1, 10));
    let text = digest.to_text(&View::default(), 80, Symbols::Ascii);
    assert!(text.contains("1 launch without valid times"), "{text}");
    let collection = Collection::open([folder.path()])?;
    let traced = collection.write_perfetto(&Filter::default(), &mut Vec::new(), &|_, _| {})?;
    assert_eq!((traced.slices, traced.left_out), (1, 1));
    Ok(())
}

#[test]
fn the_times_of_a_filter_count_from_the_zero_that_is_told() -> Outcome {
    let folder = tempfile::tempdir()?;
    write(folder.path(), |sink| {
        range(1, 0, "step", "step", 0, 9_000_000).iter().for_each(|row| sink.range(row));
        sink.launch(&launch("k", 1, "step", 8_000_000, 10));
    })?;
    let all = digest(folder.path())?;
    let (start, first) = (all.start_ns.ok_or("no zero")?, all.first_ns.ok_or("no first")?);
    assert_eq!((start, first - start), (START_NS, 8_000_000));
    let text = all.to_text(&View::default(), 80, Symbols::Ascii);
    assert!(
        text.contains(&format!("from 8.000 ms after T0 on; T0 is the first record, @{START_NS}")),
        "{text}"
    );
    for (from, launches) in [(first - start, 1), (first - start + 1, 0)] {
        let filter = Filter { from: Some(Moment::AfterStart(from)), ..Filter::default() };
        let digest = Collection::open([folder.path()])?.digest(&filter, &|_, _| {})?;
        assert_eq!((digest.counts.launches, digest.start_ns), (launches, Some(start)));
    }
    Ok(())
}

#[test]
fn the_first_record_is_found_wherever_it_lies() -> Outcome {
    // Two to a row group. Without valid times, the first of them all is none, and its group is not the first.
    let rows = [200, 700, 500, 900, 100, 300];
    for last_is_valid in [true, false] {
        let folder = tempfile::tempdir()?;
        let options = WriterOptions { max_rows_per_part: 2, ..WriterOptions::default() };
        let mut writer = DatasetWriter::create(folder.path(), options)?;
        for start in rows {
            let row = launch("k", 0, "", start, 10);
            let is_valid = last_is_valid || start != 100;
            writer.launch(&if is_valid { row } else { without_times(row) });
        }
        assert!(writer.close().first_error.is_none());
        let first = if last_is_valid { 100 } else { 200 };
        assert_eq!(digest(folder.path())?.start_ns, Some(START_NS + first));
    }
    Ok(())
}
