//! What is summed up, against what is known of it.

use std::error::Error;
use std::path::Path;

use super::samples::*;
use crate::analysis::{Collection, Digest, Filter, Moment, Section, Sort, View};
use crate::pattern::Pattern;
use crate::summary::Symbols;
use crate::table::writer::TableSink;
use crate::trace::Replay;

type Outcome = std::result::Result<(), Box<dyn Error>>;

fn digest(folder: &Path, filter: &Filter) -> crate::error::Result<Digest> {
    Collection::open([folder])?.digest(filter, &|_, _| {})
}

#[test]
fn a_digest_of_the_files_is_the_summary_of_the_run() -> Outcome {
    for name in ["quickstart", "graph", "threads", "nvtx"] {
        let folder = tempfile::tempdir()?;
        let output = folder.path().join("run.cuprof");
        let recordings = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/recordings");
        let recording = recordings.join(name).with_extension("cuprofrec");
        let summary = Replay::open(recording)?.output(&output).run()?.summary().clone();
        let digest = digest(&output, &Filter::default())?;
        assert_eq!(digest.counts, summary.counts, "{name}");
        assert_eq!(digest.warnings, summary.warnings);
        assert_eq!(digest.losses.len(), summary.losses.len());
        assert_eq!(digest.kernels.len(), summary.kernels.len());
        for (found, known) in digest.kernels.iter().zip(&summary.kernels) {
            assert_eq!(
                (&found.name, found.calls, found.total_ns),
                (&known.name, known.calls, known.total_ns)
            );
            assert_eq!((found.min_ns, found.max_ns), (known.min_ns, known.max_ns));
            assert_eq!((found.mean_ns, found.share), (known.mean_ns, known.share));
        }
        assert_eq!(digest.ranges.len(), summary.ranges.len());
        for (found, known) in digest.ranges.iter().zip(&summary.ranges) {
            assert_eq!((&found.path, &found.name, found.depth), (&known.path, &known.name, known.depth));
            assert_eq!(
                (&*found.kind, found.calls, found.launches),
                (known.kind, known.calls, known.launches)
            );
            assert_eq!((found.gpu_time_ns, found.share), (known.gpu_time_ns, known.share));
            assert_eq!(found.span_ns, Some(known.span_ns));
        }
        assert_eq!(digest.transfers.len(), summary.transfers.len());
        for (found, known) in digest.transfers.iter().zip(&summary.transfers) {
            assert_eq!((&*found.kind, found.calls, found.bytes), (&*known.kind, known.calls, known.bytes));
            assert_eq!((found.total_ns, found.share), (known.total_ns, known.share));
            assert_eq!(found.bandwidth_bytes_per_s, known.bandwidth_bytes_per_s);
        }
        let own: i64 = digest.ranges.iter().filter_map(|range| range.own_gpu_time_ns).sum();
        assert_eq!(own + digest.counts.kernel_without_range_ns, digest.counts.kernel_ns, "{name}");
    }
    Ok(())
}

/// Two kernels in `a/b`, one in `a`, one outside; a copy.
fn small(folder: &Path) -> crate::error::Result<()> {
    write(folder, |sink| {
        sink.launch(&launch("mul", 2, "a/b", 10_000, 100));
        sink.launch(&launch("add", 2, "a/b", 10_050, 200));
        sink.launch(&launch("mul", 1, "a", 20_000, 400));
        let mut other = launch("add", 0, "", 30_000, 800);
        (other.work.device, other.work.stream) = (1, 9);
        sink.launch(&other);
        sink.transfer(&transfer("host_to_device", 4_096, 25_000, 1_000));
        for row in [range(2, 1, "a/b", "b", 5_000, 11_000), range(1, 0, "a", "a", 4_000, 21_000)] {
            row.iter().for_each(|row| sink.range(row));
        }
    })
}

#[test]
fn time_is_busy_or_idle() -> Outcome {
    let folder = tempfile::tempdir()?;
    small(folder.path())?;
    let digest = digest(folder.path(), &Filter::default())?;
    let devices: Vec<_> = digest.devices.iter().map(|device| (device.device, device.busy)).collect();
    assert_eq!(devices.iter().map(|(device, _)| *device).collect::<Vec<_>>(), [0, 1]);
    // 10 000 to 10 250 with an overlap of 50, 20 000 to 20 400, 25 000 to 26 000.
    let first = devices[0].1;
    assert_eq!((first.launches, first.transfers), (3, 1));
    assert_eq!((first.span_ns, first.busy_ns, first.idle_ns), (16_000, 250 + 400 + 1_000, 9_750 + 4_600));
    assert_eq!((first.gaps, first.longest_gap_ns), (2, 9_750));
    assert_eq!((devices[1].1.busy_ns, devices[1].1.gaps), (800, 0));
    Ok(())
}

#[test]
fn the_time_between_two_datasets_is_no_gap() -> Outcome {
    let folder = tempfile::tempdir()?;
    let (mut alone, mut paths) = (Vec::new(), Vec::new());
    for name in ["quickstart", "graph"] {
        let path = folder.path().join(name);
        Replay::open(format!("examples/recordings/{name}.cuprofrec"))?.output(&path).run()?;
        alone.push(digest(&path, &Filter::default())?.devices[0].busy);
        paths.push(path);
    }
    let both = Collection::open(&paths)?.digest(&Filter::default(), &|_, _| {})?.devices[0].busy;
    let [a, b] = [alone[0], alone[1]];
    assert_eq!((both.span_ns, both.busy_ns), (a.span_ns + b.span_ns, a.busy_ns + b.busy_ns));
    assert_eq!((both.idle_ns, both.gaps), (a.idle_ns + b.idle_ns, a.gaps + b.gaps));
    assert_eq!(both.longest_gap_ns, a.longest_gap_ns.max(b.longest_gap_ns));
    Ok(())
}

#[test]
fn times_of_a_tree_are_its_own_and_those_inside() -> Outcome {
    let folder = tempfile::tempdir()?;
    small(folder.path())?;
    let digest = digest(folder.path(), &Filter::default())?;
    let ranges: Vec<_> = digest
        .ranges
        .iter()
        .map(|range| (&*range.path, range.depth, range.gpu_time_ns, range.own_gpu_time_ns, range.launches))
        .collect();
    assert_eq!(ranges, [("a", 0, 700, Some(400), 3), ("a/b", 1, 300, Some(300), 2)]);
    assert_eq!(digest.counts.kernel_without_range_ns, 800);
    Ok(())
}

#[test]
fn filters_leave_out_what_does_not_match() -> Outcome {
    let folder = tempfile::tempdir()?;
    small(folder.path())?;
    let launches = |change: &dyn Fn(&mut Filter)| -> crate::error::Result<(u64, i64, u64)> {
        let mut filter = Filter::default();
        change(&mut filter);
        let counts = digest(folder.path(), &filter)?.counts;
        Ok((counts.launches, counts.kernel_ns, counts.transfers))
    };
    let (mul, in_b, a) = (Pattern::glob("mu?")?, Pattern::glob("*/b")?, Pattern::regex("^a$")?);
    assert_eq!(launches(&|filter| filter.kernel = Some(mul.clone()))?, (2, 500, 0));
    assert_eq!(launches(&|filter| filter.range = Some(in_b.clone()))?, (2, 300, 0));
    assert_eq!(launches(&|filter| filter.range = Some(a.clone()))?, (1, 400, 0));
    assert_eq!(launches(&|filter| filter.devices = vec![1])?, (1, 800, 0));
    assert_eq!(launches(&|filter| filter.streams = vec![7])?, (3, 700, 1));
    // The first thing is the range `a`, at 4 000.
    let window = |from, to| {
        launches(&|filter| {
            (filter.from, filter.to) = (Some(Moment::AfterStart(from)), Some(Moment::AfterStart(to)));
        })
    };
    assert_eq!(window(6_050, 16_000)?, (1, 200, 0));
    assert_eq!(window(16_000, 21_001)?, (1, 400, 1));
    assert_eq!(launches(&|filter| filter.from = Some(Moment::SinceEpoch(START_NS + 30_000)))?, (1, 800, 0));
    Ok(())
}

#[test]
fn ranges_of_a_filter_of_kernels_are_those_that_launched_such() -> Outcome {
    let folder = tempfile::tempdir()?;
    small(folder.path())?;
    let ranges = |change: &dyn Fn(&mut Filter)| -> crate::error::Result<(Vec<String>, u64, u64)> {
        let mut filter = Filter::default();
        change(&mut filter);
        let digest = digest(folder.path(), &filter)?;
        let calls = digest.ranges.iter().map(|range| range.calls).sum();
        Ok((digest.ranges.iter().map(|range| range.path.to_string()).collect(), calls, digest.counts.ranges))
    };
    let both = ["a", "a/b"].map(str::to_owned).to_vec();
    assert_eq!(ranges(&|_| {})?, (both.clone(), 2, 2));
    let add = Pattern::glob("add")?;
    assert_eq!(ranges(&|filter| filter.kernel = Some(add.clone()))?, (both, 2, 2));
    assert_eq!(ranges(&|filter| filter.devices = vec![1])?, (Vec::new(), 0, 0));
    assert_eq!(ranges(&|filter| filter.streams = vec![9])?, (Vec::new(), 0, 0));
    Ok(())
}

#[test]
fn process_wide_ranges_are_filtered_by_their_sets() -> Outcome {
    let folder = tempfile::tempdir()?;
    write(folder.path(), |sink| {
        for (start, kernel) in [(1_000, "mul"), (2_000, "add"), (3_000, "mul")] {
            let mut row = launch(kernel, 0, "", start, 100);
            row.work.range_set = (start < 3_000).then_some(5);
            sink.launch(&row);
        }
        process_range(9, "epoch").iter().for_each(|row| sink.range(row));
        set(5, 9).iter().for_each(|row| sink.range_set(row));
    })?;
    let filter = Filter { kernel: Some(Pattern::glob("mul")?), ..Filter::default() };
    let digest = digest(folder.path(), &filter)?;
    assert_eq!((digest.ranges[0].launches, digest.ranges[0].gpu_time_ns), (1, 100));
    assert_eq!(digest.counts.kernel_ns, 200);
    Ok(())
}

#[test]
fn kernels_are_sorted_as_asked_and_the_rest_is_one_line() -> Outcome {
    let folder = tempfile::tempdir()?;
    write(folder.path(), |sink| {
        for (kernel, calls, duration) in [("a", 1, 1_000), ("b", 5, 100), ("c", 2, 300), ("d", 1, 10)] {
            for call in 0..calls {
                sink.launch(&launch(kernel, 0, "", 10_000 * (call + 1), duration));
            }
        }
    })?;
    let digest = digest(folder.path(), &Filter::default())?;
    let names = |sort, top| {
        let view = View { sort, top, sections: vec![Section::Kernels] };
        let text = digest.to_text(&view, 100, Symbols::Ascii);
        let rows = text.lines().skip_while(|line| !line.contains("Kernel")).skip(1);
        rows.map(|line| line.rsplit("  ").next().unwrap_or_default().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(Sort::Total, None), ["a", "c", "b", "d"]);
    assert_eq!(names(Sort::Calls, None), ["b", "c", "a", "d"]);
    assert_eq!(names(Sort::Mean, None), ["a", "c", "b", "d"]);
    assert_eq!(names(Sort::Min, None), ["d", "b", "c", "a"]);
    assert_eq!(names(Sort::Max, None), ["a", "c", "b", "d"]);
    assert_eq!(names(Sort::Name, None), ["a", "b", "c", "d"]);
    assert_eq!(names(Sort::Total, Some(1)), ["a", "(3 kernels more)"]);
    assert_eq!(
        names(Sort::Total, Some(3)),
        ["a", "c", "b", "d"],
        "one more takes no more room than its line"
    );
    Ok(())
}

#[test]
fn markdown_says_what_its_tables_leave_out() -> Outcome {
    let folder = tempfile::tempdir()?;
    small(folder.path())?;
    let digest = digest(folder.path(), &Filter::default())?;
    let all = digest.to_markdown(&View::default());
    assert!(all.contains("\nNo range: 1 launch, 800 ns (53.3%)\n") && !all.contains("more"), "{all}");
    let none = digest.to_markdown(&View { top: Some(0), ..View::default() });
    for line in ["2 range paths more", "2 kernels more: 1.500 us (100.0%)"] {
        assert!(none.lines().any(|found| found == line), "{none}");
    }
    Ok(())
}

#[test]
fn losses_stand_first_in_every_form_for_people() -> Outcome {
    let folder = tempfile::tempdir()?;
    write(folder.path(), |sink| {
        sink.launch(&launch("k", 0, "", 1_000, 10));
        sink.launch(&without_times(launch("k", 0, "", 2_000, 10)));
        sink.loss(&loss("records_dropped", 7));
        sink.loss(&loss("zero_timestamp", 1));
    })?;
    let collection = Collection::open([folder.path()])?;
    assert!(collection.is_lossy());
    let digest = collection.digest(&Filter::default(), &|_, _| {})?;
    let text = digest.to_text(&View::default(), 80, Symbols::Ascii);
    assert!(text.starts_with("! This result is incomplete:\n!   7 records_dropped:"), "{text}");
    assert!(text.contains("1 launch without valid times"), "{text}");
    let markdown = digest.to_markdown(&View::default());
    assert!(markdown.starts_with("**This result is incomplete.**"), "{markdown}");
    assert!(markdown.contains("\n1 launch without valid times, left out of all times below\n"), "{markdown}");
    let csv = digest.to_csv(Section::Losses, &View::default());
    assert_eq!(csv.lines().nth(1), Some("records_dropped,7,records that are missing"));
    Ok(())
}
