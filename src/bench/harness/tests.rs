//! What a harness prints, keeps and ends with, with benchmarks on a simulated GPU.

use std::cell::RefCell;
use std::rc::Rc;

use super::*;
use crate::bench::tests::{Gpu, TestOutcome};
use crate::table::reader::Dataset;
use crate::table::schema::Table;

/// The names of the benchmarks that were measured, and how many runs each of them made.
type Measured = Rc<RefCell<Vec<(&'static str, usize)>>>;

/// A program with two benchmarks, whose kernels take so many times 1 µs, and a little more or less.
fn program(args: &[&str], process: Option<usize>, times: i64) -> (Harness, Measured) {
    let measured = Measured::default();
    let args = args.iter().map(|arg| (*arg).to_owned());
    let mut harness = Harness::new(args, PathBuf::from("/nowhere/deps/gemm-0123456789abcdef"), process);
    for name in ["gemm", "soft max"] {
        let measured = Rc::clone(&measured);
        harness = harness.bench(name, move |bench| {
            let gpu = Gpu::default();
            let runs = RefCell::new(0);
            let seed = process.unwrap_or(0) as i64;
            let report = gpu.run(bench.runs(50), |run, ()| {
                *runs.borrow_mut() += 1;
                let jitter = (run.number() as i64 * 7 + seed * 3) % 11;
                run.measure("work", || gpu.launch("k", times * 1_000 + jitter));
            })?;
            measured.borrow_mut().push((name, runs.take()));
            Ok(report)
        });
    }
    (harness, measured)
}

/// What it prints, and the code that it ends with.
fn output(harness: Harness) -> (String, u8) {
    let mut out = Vec::new();
    let code = match harness.run_to(&mut out) {
        Ok(code) => code,
        Err(Ended(code, what)) => {
            out.extend_from_slice(what.as_bytes());
            code
        }
    };
    (String::from_utf8_lossy(&out).into_owned(), code)
}

#[test]
fn names_are_listed_as_rusts_harness_lists_them_and_nothing_is_measured() {
    let (harness, measured) = program(&["--list"], None, 1);
    let expected = "gemm: benchmark\nsoft max: benchmark\n\n0 tests, 2 benchmarks\n";
    assert_eq!(output(harness), (expected.to_owned(), SUCCESS));
    let (harness, _) = program(&["--list", "--format=terse", "soft"], None, 1);
    assert_eq!(output(harness.needs(Err::<(), _>("no GPU"))), ("soft max: benchmark\n".to_owned(), SUCCESS));
    assert!(measured.borrow().is_empty());
}

#[test]
fn as_cargo_test_calls_it_one_run_each_is_made_and_nothing_is_kept() -> TestOutcome {
    let folder = tempfile::tempdir()?;
    let (harness, measured) = program(&["--folder", &folder.path().to_string_lossy()], None, 1);
    assert_eq!(output(harness), ("gemm: ok\nsoft max: ok\n".to_owned(), SUCCESS));
    assert_eq!(*measured.borrow(), [("gemm", 1), ("soft max", 1)]);
    assert_eq!(std::fs::read_dir(&folder)?.count(), 0);
    Ok(())
}

#[test]
fn what_is_filtered_is_measured_printed_and_kept() -> TestOutcome {
    let folder = tempfile::tempdir()?;
    let path = folder.path().to_string_lossy().into_owned();
    for _again in 0..2 {
        let (harness, measured) = program(&["--bench", "soft", "--runs", "3", "--folder", &path], None, 1);
        let (text, code) = output(harness);
        assert!(text.starts_with("soft max: cache") && code == SUCCESS, "{text}");
        // Two that warm up are among them.
        assert_eq!(*measured.borrow(), [("soft max", 5)]);
    }
    let kept = Dataset::open(folder.path().join("soft%20max/latest/0.cuprof"))?;
    assert_eq!(kept.env()?["bench.name"], "soft max");
    assert!(kept.rows(Table::Samples) > 0);
    assert!(!folder.path().join("gemm").exists());
    Ok(())
}

#[test]
fn a_filter_that_nothing_has_in_its_name_is_told() {
    let (harness, measured) = program(&["--bench", "softmax"], None, 1);
    let (text, code) = output(harness);
    assert!(text.contains("no benchmark has such a name") && code == SUCCESS, "{text}");
    assert!(measured.borrow().is_empty());
}

/// Measures in five processes, as one that starts others would.
fn keep(folder: &str, place: &str, times: i64) {
    for process in 0..5 {
        let args = ["--bench", "--folder", folder, "--save-baseline", place];
        let (harness, _) = program(&args, Some(process), times);
        assert_eq!(output(harness).1, SUCCESS);
    }
}

#[test]
fn a_baseline_is_compared_with_and_the_verdict_is_the_code() -> TestOutcome {
    let folder = tempfile::tempdir()?;
    let path = folder.path().to_string_lossy().into_owned();
    keep(&path, "main", 10);
    // One process is measured here and tells nothing of others.
    let args = ["--bench", "--folder", &path, "--baseline", "main", "--processes", "1"];
    let (text, code) = output(program(&args, None, 10).0);
    assert_eq!(code, 2, "{text}");
    let (text, code) = output(program(&[&args[..], &["--fail-on", "slower"]].concat(), None, 10).0);
    assert_eq!(code, SUCCESS, "{text}");
    Ok(())
}

#[test]
fn a_baseline_that_is_not_there_is_told_before_anything_is_measured() -> TestOutcome {
    let folder = tempfile::tempdir()?;
    let path = folder.path().to_string_lossy().into_owned();
    let (harness, measured) = program(&["--bench", "--folder", &path, "--baseline", "main"], None, 1);
    let (text, code) = output(harness);
    assert_eq!(code, INPUT);
    assert!(text.contains("no baseline \"main\" of gemm") && text.contains("--save-baseline main"), "{text}");
    assert!(measured.borrow().is_empty());
    Ok(())
}

#[test]
fn without_a_gpu_it_says_so_and_fails_only_where_a_result_was_asked_for() {
    let without = |args: &[&str]| output(program(args, None, 1).0.needs(Err::<(), _>("no driver")));
    assert_eq!(without(&["--bench"]), ("nothing is measured: no driver\n".to_owned(), SUCCESS));
    assert_eq!(without(&[]).1, SUCCESS);
    assert_eq!(without(&["--bench", "--save-baseline", "main"]).1, UNAVAILABLE);
    assert_eq!(without(&["--bench", "--baseline", "main"]).1, UNAVAILABLE);
}

#[test]
fn a_benchmark_that_fails_ends_it_with_its_name_and_a_code() {
    let ending = |error: fn() -> Failed| {
        let harness = Harness::new(["--bench".to_owned()], PathBuf::new(), None);
        output(harness.bench("broken", move |_| Err(error())))
    };
    let (text, code) = ending(|| "no input".into());
    assert_eq!((text.as_str(), code), ("broken: no input", FAILED));
    let (_, code) = ending(|| Error::new(ErrorKind::CuptiNotFound, "no CUPTI").into());
    assert_eq!(code, UNAVAILABLE);
    let (text, code) = output(program(&["--frobnicate"], None, 1).0);
    assert!(
        code == USAGE && text.contains("--frobnicate is not known") && text.contains("Exit codes:"),
        "{text}"
    );
    let twice = program(&["--bench"], None, 1).0.bench("gemm", |_| Err("never".into()));
    assert_eq!(output(twice), ("there are two benchmarks \"gemm\"".to_owned(), FAILED));
}

#[test]
fn results_are_kept_in_the_target_folder_under_the_programs_name() {
    let of = |executable: &str| Folder::of(&Args::default(), Path::new(executable)).0;
    assert_eq!(of("/t/release/deps/gemm-0123456789abcdef"), Path::new("/t/cuprof/gemm"));
    assert_eq!(
        of("/t/x86_64-unknown-linux-gnu/release/deps/a-b-0123456789abcdef"),
        Path::new("/t/x86_64-unknown-linux-gnu/cuprof/a-b")
    );
    assert_eq!(of("/elsewhere/gemm-v2"), Path::new("target/cuprof/gemm-v2"));
    assert_eq!(["a/b", "..", "ü", "v1.2"].map(file_name), ["a%2fb", "%2e.", "%c3%bc", "v1.2"]);
}

#[test]
fn processes_that_fail_end_it_and_their_code_is_no_verdict() {
    let started = |executable: &str| {
        start_processes(Path::new(executable), 3)
            .map_or_else(|Ended(code, what)| (code, what), |()| (SUCCESS, String::new()))
    };
    assert_eq!(started("/bin/true").0, SUCCESS);
    let (code, what) = started("/bin/false");
    assert!(code == FAILED && what.starts_with("process 1 of 3 ended early"), "{code}: {what}");
    assert_eq!(started("/nowhere/bench").0, FAILED);
}
