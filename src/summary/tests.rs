use std::sync::Arc;

use super::*;
use crate::error::is_steering;
use crate::table::rows::{Attribution, DeviceWork, InvalidReason, KernelName};
use crate::units::{CorrelationId, RangeId, ThreadId};

fn work(start_ns: i64, duration_ns: i64, in_range: bool) -> DeviceWork {
    DeviceWork {
        range: RangeId::from_raw(u64::from(in_range)),
        range_path: None,
        range_set: None,
        start_ns,
        end_ns: start_ns + duration_ns,
        duration_ns: Some(duration_ns),
        launch_lead_ns: None,
        thread: None,
        correlation: CorrelationId(1),
        device: 0,
        context: 1,
        stream: 7,
        graph: None,
        graph_node: None,
        invalid: None,
        attribution: Attribution::Range,
    }
}

fn launch(name: &str, work: DeviceWork) -> LaunchRow {
    LaunchRow {
        work,
        kernel: Arc::new(KernelName { mangled: name.into(), demangled: name.into() }),
        grid: [1, 1, 1],
        block: [1, 1, 1],
        cluster: None,
        registers_per_thread: 32,
        static_shared_memory_bytes: 0,
        dynamic_shared_memory_bytes: 0,
        local_memory_per_thread_bytes: 0,
    }
}

fn transfer(kind: Option<&'static str>, bytes: u64, work: DeviceWork) -> TransferRow {
    TransferRow {
        work,
        operation: if kind.is_some() { "memcpy" } else { "memset" },
        copy_kind: kind.map(Into::into),
        bytes,
        src_kind: None,
        dst_kind: None,
        src_device: None,
        dst_device: None,
        asynchronous: true,
        value: None,
    }
}

fn range(path: &str, name: &str, launches: u64, gpu_sum_ns: i64) -> Option<RangeRow> {
    Some(RangeRow {
        range: RangeId::from_raw(1)?,
        parent: None,
        name: name.into(),
        path: path.into(),
        domain: None,
        category: None,
        color: None,
        payload: None,
        args: None,
        kind: "stack",
        thread: ThreadId(1),
        start_ns: 0,
        end_ns: 1,
        closed: true,
        n_launches: launches,
        n_transfers: 0,
        gpu_sum_ns,
        gpu_span_ns: (launches > 0).then_some(gpu_sum_ns * 5 / 4),
    })
}

const GEMM: &str = "void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cute::tuple<int, int, int>, \
                    cutlass::gemm::collective::CollectiveMma<128, 256, 64>>>(Params)";

/// A small training run.
fn training() -> Summary {
    let mut builder = SummaryBuilder::default();
    for i in 0..1_000 {
        builder.launch(&launch(GEMM, work(i * 100_000, 60_000 + i, true)));
        builder.launch(&launch("softmax(float*, int)", work(i * 100_000 + 70_000, 9_876, true)));
        builder.launch(&launch("add(float*, float*, int)", work(i * 100_000 + 80_000, 1_504, i % 2 == 0)));
        builder.launch(&launch("copy_größe<漢字>(int)", work(i * 100_000 + 90_000, 32, true)));
    }
    builder.transfer(&transfer(Some("host_to_device"), 1 << 30, work(0, 20_000_000, true)));
    builder.transfer(&transfer(Some("host_to_device"), 1 << 30, work(0, 21_000_000, true)));
    builder.transfer(&transfer(None, 4_096, work(0, 1_024, true)));
    let ranges = [
        ("train", "train", 3_500, 71_000_000),
        ("train/step", "step", 3_500, 71_000_000),
        ("train/step/forward", "forward", 2_500, 61_000_000),
        ("train/step/forward/attn/qkv", "attn/qkv", 500, 30_000_000),
        ("train/step/backward", "backward", 1_000, 10_000_000),
        ("train/step/log", "log", 0, 0),
        ("lost parent/child", "child", 1, 20_000),
    ];
    for (path, name, launches, ns) in ranges {
        range(path, name, launches, ns).iter().for_each(|row| builder.range(row));
    }
    builder.finish()
}

/// A run of which much was lost.
fn damaged() -> Summary {
    let mut builder = SummaryBuilder::default();
    let mut row = launch("a", work(0, 5, false));
    (row.work.invalid, row.work.duration_ns) = (Some(InvalidReason::ZeroTimestamp), None);
    builder.launch(&row);
    let meaning = "launch events were lost because a thread's ring was full; a larger ring helps";
    builder.loss(&LossRow { cause: "ring_full", count: 12_345, meaning });
    builder.loss(&LossRow { cause: "never_seen", count: 0, meaning: "not shown" });
    builder.finish()
}

#[test]
fn the_text_fits_its_width_and_is_as_it_was() {
    let training = training();
    for (width, symbols, wanted) in [
        (160, Symbols::Unicode, include_str!("snapshots/training_160.txt")),
        (100, Symbols::Ascii, include_str!("snapshots/training_100.txt")),
        (80, Symbols::Ascii, include_str!("snapshots/training_80.txt")),
        (40, Symbols::Unicode, include_str!("snapshots/training_40.txt")),
    ] {
        let text = training.render(width, symbols);
        assert_eq!(text, wanted, "\n{text}");
        assert!(text.lines().all(|line| text::width(line) <= width), "\n{text}");
        assert!(text.lines().all(|line| line.trim_end() == line), "\n{text}");
    }
}

#[test]
fn what_was_lost_comes_first() {
    let text = damaged().render(80, Symbols::Ascii);
    assert_eq!(text, include_str!("snapshots/damaged_80.txt"), "\n{text}");
}

#[test]
fn a_run_without_work_is_a_line() {
    let text = SummaryBuilder::default().finish().render(80, Symbols::Ascii);
    assert_eq!(text, "0 launches of 0 kernels, 0 transfers, 0 ranges\n");
    assert!(!training().to_string().is_empty());
}

#[test]
fn every_width_is_kept_and_nothing_panics() {
    for width in 0..200 {
        for symbols in [Symbols::Ascii, Symbols::Unicode] {
            for summary in [training(), damaged()] {
                let text = summary.render(width, symbols);
                assert!(text.lines().all(|line| text::width(line) <= width.max(40)), "{width}\n{text}");
            }
        }
    }
}

#[test]
fn numbers_are_those_of_the_rows() {
    let summary = training();
    let gemm = &summary.kernels[0];
    assert_eq!((gemm.calls, gemm.total_ns), (1_000, 60_499_500));
    assert_eq!((gemm.min_ns, gemm.max_ns, gemm.mean_ns), (60_000, 60_999, 60_499.5));
    assert!((summary.kernels.iter().map(|kernel| kernel.share).sum::<f64>() - 1.0).abs() < 1e-12);
    assert!((summary.transfers.iter().map(|transfer| transfer.share).sum::<f64>() - 1.0).abs() < 1e-12);
    let copies = &summary.transfers[0];
    assert_eq!((copies.calls, copies.bytes, copies.total_ns), (2, 2 << 30, 41_000_000));
    assert_eq!(summary.counts.launches_without_range, 500);
    assert_eq!(summary.counts.kernel_ns, summary.kernels.iter().map(|kernel| kernel.total_ns).sum::<i64>());
    let tree: Vec<(usize, &str)> = summary.ranges.iter().map(|range| (range.depth, &*range.name)).collect();
    let wanted = [
        (0, "train"),
        (1, "step"),
        (2, "forward"),
        (3, "attn/qkv"),
        (2, "backward"),
        (2, "log"),
        (0, "lost parent/child"),
    ];
    assert_eq!(tree, wanted);
}

#[test]
fn rows_without_valid_times_are_counted_and_not_summed() {
    let summary = damaged();
    assert_eq!((summary.counts.launches, summary.counts.invalid_launches), (1, 1));
    assert!(summary.kernels.is_empty() && summary.counts.kernel_ns == 0);
}

#[test]
fn names_without_end_are_summed_up_as_others() {
    let mut builder = SummaryBuilder::default();
    let rows = MAX_KERNELS + 500;
    for i in 0..rows {
        builder.launch(&launch(&format!("kernel {i}"), work(0, 10, true)));
        range(&format!("{i}"), &format!("{i}"), 1, 10).iter().for_each(|row| builder.range(row));
    }
    // Known names are still told apart, also by another copy of their text.
    builder.launch(&launch("kernel 7", work(0, 100_000, true)));
    let summary = builder.finish();
    assert_eq!(summary.kernels.len(), MAX_KERNELS + 1);
    assert_eq!(summary.ranges.len(), MAX_RANGE_PATHS + 1);
    assert_eq!((&*summary.kernels[0].name, summary.kernels[0].calls), ("kernel 7", 2));
    assert_eq!((&*summary.kernels[1].name, summary.kernels[1].calls), (OTHER, 500));
    assert_eq!(summary.kernels.iter().map(|kernel| kernel.calls).sum::<u64>(), rows as u64 + 1);
    assert!(summary.render(100, Symbols::Ascii).contains("(9,981 kernels more)"));
}

#[test]
fn names_cannot_move_the_cursor() {
    let mut builder = SummaryBuilder::default();
    builder.launch(&launch("evil\n\x1b[2Jname\t\u{85}\u{202e}", work(0, 10, true)));
    range("a\nb", "a\nb", 1, 10).iter().for_each(|row| builder.range(row));
    let text = builder.finish().render(100, Symbols::Unicode);
    assert!(text.chars().all(|c| c == '\n' || !is_steering(c)), "{text:?}");
    assert!(text.contains("evil \\u{1b}[2Jname  \\u{202e}"), "{text:?}");
}

#[test]
fn endless_nesting_and_self_reference_are_survived() {
    let mut builder = SummaryBuilder::default();
    let mut path = String::new();
    for i in 0..300 {
        path = if i == 0 { "r".to_owned() } else { path + "/r" };
        range(&path, "r", 1, 10).iter().for_each(|row| builder.range(row));
    }
    range("", "", 1, 10).iter().for_each(|row| builder.range(row));
    range("/", "", 1, 10).iter().for_each(|row| builder.range(row));
    let summary = builder.finish();
    assert_eq!(summary.ranges.len(), 302);
    assert!(summary.render(60, Symbols::Ascii).lines().all(|line| line.len() <= 60));
}

#[test]
fn units_change_where_four_digits_end() {
    let shown = |ns: f64| text::time(ns, Symbols::Ascii);
    for (ns, wanted) in [
        (0.0, "0 ns"),
        (32.4, "32 ns"),
        (999.4, "999 ns"),
        (999.96, "1.000 us"),
        (1_504.0, "1.504 us"),
        (9_999.6, "10.00 us"),
        (99_996.0, "100.0 us"),
        (999_949.0, "999.9 us"),
        (999_951.0, "1.000 ms"),
        (1.5e9, "1.500  s"),
        (7.2e12, "7200.0  s"),
    ] {
        assert_eq!(shown(ns), wanted, "{ns}");
    }
    assert_eq!(text::bytes(4_096.0), "4.096 kB");
    assert_eq!(text::bandwidth(3.2e12), "3.200 TB/s");
    assert_eq!([0.0, 0.0001, 0.123, 1.0].map(text::percent), ["0.0%", "<0.1%", "12.3%", "100.0%"]);
    assert_eq!([0, 999, 1_000, 1_234_567].map(text::count), ["0", "999", "1,000", "1,234,567"]);
}

#[test]
fn a_long_name_keeps_its_beginning_and_its_end() {
    assert_eq!(text::shortened("abcdefghij", 10, Symbols::Ascii), "abcdefghij");
    assert_eq!(text::shortened("abcdefghijk", 10, Symbols::Ascii), "abcde...jk");
    assert_eq!(text::shortened("abcdefghijk", 10, Symbols::Unicode), "abcdef…ijk");
    assert_eq!(text::shortened("漢字漢字漢字", 8, Symbols::Unicode), "漢字…字");
    assert_eq!(text::shortened("abcdef", 1, Symbols::Unicode), "…");
    let ends = [(6, "abcdef"), (5, "...ef"), (3, "..."), (2, ".."), (0, "")];
    assert!(ends.iter().all(|(columns, end)| text::end_of("abcdef", *columns, Symbols::Ascii) == *end));
    assert_eq!(text::end_of("漢字漢字", 6, Symbols::Unicode), "…漢字");
}
