//! What is drawn. That other programs read it as it is meant is for `tests/py/check_command.py`.

use std::error::Error;
use std::path::Path;

use super::samples::*;
use crate::analysis::{Collection, Filter, Moment, TraceError, Traced};
use crate::pattern::Pattern;
use crate::table::writer::TableSink;

type Outcome = std::result::Result<(), Box<dyn Error>>;

fn trace(folder: &Path, filter: &Filter) -> Result<(Traced, Vec<u8>), TraceError> {
    let mut bytes = Vec::new();
    let traced = Collection::open([folder])?.write_perfetto(filter, &mut bytes, &|_, _| {})?;
    assert_eq!(traced.bytes, bytes.len() as u64);
    Ok((traced, bytes))
}

#[test]
fn rows_are_drawn_once_whatever_window_they_fall_in() -> Outcome {
    let folder = tempfile::tempdir()?;
    let rows = 20_000;
    write(folder.path(), |sink| {
        for i in 0..rows {
            let id = u64::try_from(i).unwrap_or(0) + 2;
            sink.launch(&launch("k", id, "all/step", 1_000 * i + 100, 500));
            range(id, 1, "all/step", "step", 1_000 * i, 1_000 * i + 900)
                .iter()
                .for_each(|row| sink.range(row));
        }
        // Around all of them, and written last.
        range(1, 0, "all", "all", -10, 1_000 * rows).iter().for_each(|row| sink.range(row));
    })?;
    let (traced, bytes) = trace(folder.path(), &Filter::default())?;
    assert_eq!(traced.slices, 2 * u64::try_from(rows)? + 1);
    assert_eq!((traced.flows, traced.instants), (u64::try_from(rows)?, u64::try_from(rows)?));
    assert_eq!(traced.left_out, 0);
    let (_, again) = trace(folder.path(), &Filter::default())?;
    assert!(bytes == again, "the same files give the same bytes");
    Ok(())
}

#[test]
fn filters_apply_to_traces() -> Outcome {
    let folder = tempfile::tempdir()?;
    write(folder.path(), |sink| {
        sink.launch(&launch("mul", 1, "a", 10_000, 100));
        sink.launch(&launch("add", 1, "a", 20_000, 100));
        sink.launch(&launch("add", 0, "", 30_000, 100));
        sink.transfer(&transfer("host_to_device", 64, 40_000, 100));
        range(1, 0, "a", "a", 5_000, 25_000).iter().for_each(|row| sink.range(row));
    })?;
    let slices = |filter: Filter| trace(folder.path(), &filter).map(|(traced, _)| traced.slices);
    assert_eq!(slices(Filter::default())?, 5);
    assert_eq!(slices(Filter { kernel: Some(Pattern::glob("add")?), ..Filter::default() })?, 2);
    assert_eq!(slices(Filter { range: Some(Pattern::glob("a")?), ..Filter::default() })?, 3);
    assert_eq!(slices(Filter { streams: vec![8], ..Filter::default() })?, 0);
    let (from, to) = (Some(Moment::AfterStart(10_000)), Some(Moment::AfterStart(30_000)));
    assert_eq!(slices(Filter { from, to, ..Filter::default() })?, 2);
    Ok(())
}

#[test]
fn what_has_no_valid_times_is_counted() -> Outcome {
    let folder = tempfile::tempdir()?;
    write(folder.path(), |sink| {
        sink.launch(&launch("k", 0, "", 1_000, 10));
        sink.launch(&without_times(launch("k", 0, "", 2_000, -10)));
        sink.launch(&launch("before 1970", 0, "", -2 * START_NS, 10));
        range(1, 0, "back", "back", 8_000, -3_599_999_000_000).iter().for_each(|row| sink.range(row));
    })?;
    let (traced, _) = trace(folder.path(), &Filter::default())?;
    assert_eq!((traced.slices, traced.left_out), (2, 2));
    Ok(())
}

#[test]
fn an_empty_dataset_is_an_empty_trace() -> Outcome {
    let folder = tempfile::tempdir()?;
    write(folder.path(), |_| {})?;
    let (traced, bytes) = trace(folder.path(), &Filter::default())?;
    assert_eq!(traced.slices, 0);
    assert!(!bytes.is_empty(), "it says what its clock is");
    Ok(())
}

#[test]
fn ranges_a_thousand_deep_and_many_kernels_are_drawn() -> Outcome {
    let folder = tempfile::tempdir()?;
    write(folder.path(), |sink| {
        for depth in (0..1_000u64).rev() {
            let at = i64::try_from(depth).unwrap_or(0);
            let path = vec!["r"; usize::try_from(depth).unwrap_or(0) + 1].join("/");
            range(depth + 1, depth, &path, "r", at, 10_000 - at).iter().for_each(|row| sink.range(row));
        }
        (0..100_000).for_each(|i| sink.launch(&launch(&format!("kernel_{i}"), 0, "", 1_000 * i, 10)));
    })?;
    let (traced, _) = trace(folder.path(), &Filter::default())?;
    assert_eq!(traced.slices, 101_000);
    Ok(())
}

#[test]
fn stacks_have_no_characters_of_their_form() -> Outcome {
    let folder = tempfile::tempdir()?;
    write(folder.path(), |sink| {
        sink.launch(&launch("k;1\n2", 2, "a/b;c/d", 1_000, 10));
        sink.launch(&launch("k", 0, "", 2_000, 5));
        range(1, 0, "a/b;c", "a/b;c", 0, 9_000).iter().for_each(|row| sink.range(row));
        range(2, 1, "a/b;c/d", "d", 0, 9_000).iter().for_each(|row| sink.range(row));
    })?;
    let digest = Collection::open([folder.path()])?.digest(&Filter::default(), &|_, _| {})?;
    assert_eq!(digest.to_collapsed(), "a/b c;d;k 1 2 10\nk 5\n");
    Ok(())
}
