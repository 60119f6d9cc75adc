//! Which range a launch belongs to.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc;

use cuprof::{Profiler, Table};

use crate::Outcome;
use crate::frame::Frame;
use crate::library::Simulated;
use crate::process::Process;
use crate::session::{Ends, Traced, traced, traced_as};

/// Launches by the path of their range and the names of the process-wide ranges that were open.
type Places = BTreeMap<(Option<String>, BTreeSet<String>), usize>;

fn places(run: &Traced) -> Result<Places, Box<dyn std::error::Error>> {
    let ranges = Frame::read(&run.dataset, Table::Ranges, &["range_id", "name"])?;
    let names: BTreeMap<_, _> =
        ranges.rows().map(|row| (row.number("range_id"), row.text("name").unwrap_or_default())).collect();
    let members = Frame::read(&run.dataset, Table::RangeSets, &["range_set_id", "range_id"])?;
    let mut sets: BTreeMap<i64, BTreeSet<String>> = BTreeMap::new();
    for row in members.rows() {
        let name = names[&row.number("range_id")].to_owned();
        sets.entry(row.number("range_set_id")).or_default().insert(name);
    }
    let launches = Frame::read(&run.dataset, Table::Launches, &["range_path", "range_set_id"])?;
    let mut places = Places::new();
    for row in launches.rows() {
        let set = row.int("range_set_id").map(|set| sets[&set].clone()).unwrap_or_default();
        *places.entry((row.text("range_path").map(str::to_owned), set)).or_default() += 1;
    }
    Ok(places)
}

fn place(path: Option<&str>, set: &[&str]) -> (Option<String>, BTreeSet<String>) {
    (path.map(str::to_owned), set.iter().map(|name| (*name).to_owned()).collect())
}

#[test]
fn b55_work_of_another_thread_is_in_the_processs_range_and_not_in_this_threads() -> Outcome {
    Process::of(b55_work_of_another_thread_is_in_the_processs_range_and_not_in_this_threads).run(|| {
        let run = traced(&[], |cupti| {
            let carried = cuprof::range!("carried");
            let handle = carried.handle();
            drop(carried);
            cuprof::testing::nvtx_push(c"A");
            let started = cuprof::process_range("B");
            std::thread::scope(|scope| {
                scope.spawn(|| cupti.launch(3));
                scope.spawn(|| {
                    let _entered = handle.enter();
                    cupti.launch(5)
                });
            });
            cupti.launch(2);
            drop(started);
            cuprof::testing::nvtx_pop();
        })?;
        let expected =
            [(place(None, &["B"]), 3), (place(Some("carried"), &["B"]), 5), (place(Some("A"), &["B"]), 2)];
        assert_eq!(places(&run)?, Places::from(expected));
        Ok(())
    })
}

#[test]
fn b56_overlapping_process_ranges_are_a_set_at_each_launch() -> Outcome {
    Process::of(b56_overlapping_process_ranges_are_a_set_at_each_launch).run(|| {
        let run = traced(&[], |cupti| {
            let one = cuprof::process_range("one");
            cupti.launch(1);
            // The second begins and the first ends on another thread, crosswise.
            let (sender, receiver) = mpsc::channel();
            let two = std::thread::scope(|scope| {
                let other = scope.spawn(move || {
                    let two = cuprof::process_range("two");
                    cupti.launch(2);
                    let three = cuprof::process_range("three");
                    cupti.launch(4);
                    drop(one);
                    cupti.launch(8);
                    let _received = sender.send(three);
                    two
                });
                other.join().map_err(|_| "the thread panicked")
            });
            drop(receiver.recv());
            cupti.launch(16);
            drop(two);
            cupti.launch(32);
        })?;
        let expected = [
            (place(None, &["one"]), 1),
            (place(None, &["one", "two"]), 2),
            (place(None, &["one", "two", "three"]), 4),
            (place(None, &["two", "three"]), 8),
            (place(None, &["two"]), 16),
            (place(None, &[]), 32),
        ];
        assert_eq!(places(&run)?, Places::from(expected));
        Ok(())
    })
}

#[test]
fn b60_child_processes_are_not_injected_after_the_session_or_a_refused_start() -> Outcome {
    let process = Process::of(b60_child_processes_are_not_injected_after_the_session_or_a_refused_start);
    process.failing("cuptiActivityEnable:10:999:1").run(|| {
        let childs = || -> Result<String, Box<dyn std::error::Error>> {
            let output = std::process::Command::new("env").output()?;
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        };
        let before = childs()?;
        let builder = Profiler::builder().nvtx_libraries(true);
        assert!(builder.clone().start().is_err(), "the first is refused");
        assert_eq!(childs()?, before);
        let profiler = builder.clone().start()?;
        assert!(childs()?.contains("NVTX_INJECTION64_PATH="), "while it runs, they are: the docs say so");
        profiler.whole()?;
        assert_eq!(childs()?, before);
        let profiler = builder.start()?;
        drop(profiler);
        assert_eq!(childs()?, before);
        Ok(())
    })
}

#[test]
fn b60_the_variable_of_another_tool_is_left_as_it_was() -> Outcome {
    let process = Process::of(b60_the_variable_of_another_tool_is_left_as_it_was);
    process.with("NVTX_INJECTION64_PATH", "/opt/tool/libtool.so").run(|| {
        let theirs =
            || std::env::var_os("NVTX_INJECTION64_PATH").is_some_and(|path| path == "/opt/tool/libtool.so");
        let run = traced_as(Profiler::builder().nvtx_libraries(true), &[], |cupti| {
            assert!(theirs());
            cupti.launch(1)
        })?;
        assert!(theirs());
        let told = run.fact("NVTX_INJECTION64_PATH")?;
        assert!(told.is_some_and(|text| text.contains("/opt/tool/libtool.so")));
        Ok(())
    })
}

#[test]
fn b62_names_of_any_bytes_and_length_come_back_from_the_files() -> Outcome {
    Process::of(b62_names_of_any_bytes_and_length_come_back_from_the_files).run(|| {
        let long = "x".repeat(1 << 20);
        let names =
            ["", "a\u{0}b", "emoji 🚀", "\"quotes\" and 'more'", "new\nline\ttab", "a/b/c", "::", &long];
        let run = traced(&[], |cupti| {
            for name in names {
                cuprof::in_range(name, || cupti.launch(1));
            }
            cuprof::testing::nvtx_push(c"\xff\xfe");
            cupti.launch(1);
            cuprof::testing::nvtx_pop();
        })?;
        let mut told: Vec<_> = run.texts(Table::Ranges, "name")?.into_iter().flatten().collect();
        let mut expected: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        expected.push("\u{fffd}\u{fffd}".into());
        told.sort();
        expected.sort();
        // Not printed where they differ: a megabyte.
        assert!(told == expected, "{:?}", told.iter().map(String::len).collect::<Vec<_>>());
        assert_eq!(run.profile.launches(), 9);
        let _prints = run.profile.summary().to_string();
        Ok(())
    })
}

#[test]
fn b63_unbalanced_nested_and_equal_ranges_keep_who_is_who() -> Outcome {
    Process::of(b63_unbalanced_nested_and_equal_ranges_keep_who_is_who).run(|| {
        // Open before the session, and closed in it: not its own, and not a pop without a push.
        cuprof::testing::nvtx_push(c"before the session");
        let mut open = Vec::new();
        let run = traced(&[("unbalanced_pops", 2), ("ranges_open_at_finish", 1)], |cupti| {
            cuprof::testing::nvtx_pop();
            cuprof::testing::nvtx_pop();
            for depth in 0..100 {
                cuprof::testing::nvtx_push(if depth % 2 == 0 { c"even" } else { c"odd" });
            }
            cupti.launch(1);
            for _ in 0..100 {
                cuprof::testing::nvtx_pop();
            }
            for launches in 1..=2 {
                cuprof::in_range("sibling", || cupti.launch(launches));
            }
            open.push(cuprof::range!("open"));
            cupti.launch(1);
        })?;
        drop(open);
        let columns = ["name", "range_id", "parent_range_id", "closed", "n_launches"];
        let ranges = Frame::read(&run.dataset, Table::Ranges, &columns)?;
        let ids: BTreeSet<_> = ranges.rows().map(|row| row.number("range_id")).collect();
        assert_eq!((ranges.len(), ids.len()), (103, 103), "every instance has a number of its own");
        let siblings = ranges.rows().filter(|row| row.text("name") == Some("sibling"));
        let launches: BTreeSet<_> = siblings.map(|row| row.number("n_launches")).collect();
        assert_eq!(launches, BTreeSet::from([1, 2]));
        let unclosed: Vec<_> = ranges.rows().filter(|row| !row.flag("closed")).collect();
        assert_eq!(unclosed.len(), 1);
        assert_eq!(unclosed[0].text("name"), Some("open"));
        let deepest = run.by_path()?.into_keys().flatten().map(|path| path.split('/').count()).max();
        assert_eq!(deepest, Some(100));
        assert_eq!(Simulated::get().left_on(), 0);
        Ok(())
    })
}

#[cfg(feature = "nvtx")]
#[test]
fn b59_the_programs_own_nvtx_is_not_given_away_with_that_of_other_libraries() -> Outcome {
    // Its first call comes while the environment names CUPTI, which does not take NVTX on here.
    let process = Process::of(b59_the_programs_own_nvtx_is_not_given_away_with_that_of_other_libraries);
    process.run(|| {
        let run = traced_as(Profiler::builder().nvtx_libraries(true), &[], |cupti| {
            assert!(std::env::var_os("NVTX_INJECTION64_PATH").is_some());
            let _range = nvtx::LocalRange::new(c"of the program");
            cupti.launch(3)
        })?;
        assert_eq!(run.by_path()?, BTreeMap::from([(Some("of the program".to_owned()), 3)]));
        assert_eq!(run.dataset.rows(Table::Marks), 0, "what woke it is not told");
        Ok(())
    })
}
