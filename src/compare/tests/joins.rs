//! What is compared with what.

use super::super::{FailOn, JoinKey, Rules};
use super::*;

fn five(level_ns: f64) -> Vec<Process> {
    processes(30, 5, 1, 50, level_ns, QUIET)
}

fn with_fact(processes: Vec<Process>, key: &'static str, value: &str) -> Vec<Process> {
    processes.into_iter().map(|process| process.fact(key, value)).collect()
}

fn with_rows(mut processes: Vec<Process>, change: impl Fn(&mut SampleRow)) -> Vec<Process> {
    processes.iter_mut().flat_map(|process| &mut process.rows).for_each(change);
    processes
}

#[test]
fn each_key_that_differs_is_named_and_can_be_allowed() -> TestOutcome {
    let kernel = |row: &mut SampleRow| row.kernel = Some("sgemm".into());
    // (key, its value on the second side)
    let cases: [(JoinKey, Vec<Process>); 11] = [
        (JoinKey::Bench, with_fact(five(2e4), "bench.name", "other")),
        (JoinKey::Config, with_rows(five(2e4), |row| row.config = "n=7".into())),
        (JoinKey::Region, with_rows(five(2e4), |row| row.annotation = "walk".into())),
        (JoinKey::Kernel, with_rows(five(2e4), kernel)),
        (JoinKey::Gpu, with_fact(five(2e4), "gpu.uuid", "GPU-2")),
        (JoinKey::Driver, with_fact(five(2e4), "driver.version", "590.1")),
        (JoinKey::Cache, with_rows(five(2e4), |row| row.cache_state = "none".into())),
        (JoinKey::Clocks, with_rows(five(2e4), |row| row.clock_mode = "free".into())),
        (JoinKey::Launch, with_rows(five(2e4), |row| row.launch_mode = Some("graph"))),
        (JoinKey::Fill, with_fact(five(2e4), "bench.input_fill", "normal")),
        (JoinKey::Cupti, with_fact(five(2e4), "cupti.version", "13.4.1")),
    ];
    for (key, new) in cases {
        let rules = Rules { kernels: true, ..Rules::default() };
        let found = compared(&rules, &five(2e4), &new)?;
        let named = mismatches(&found);
        assert!(!named.is_empty() && named.iter().all(|name| *name == key.name()), "{key}: {named:?}");
        assert_eq!(found.exit_code(FailOn::Slower, false), 3, "{key}");
        assert!(found.to_string().contains(&format!("INCOMPARABLE: {key}")), "{found}");
        // A condition has both values in one row, a subject a row for each side.
        assert_eq!(found.rows.len(), if key.is_subject() { 2 } else { 1 }, "{found}");

        let allowing = Rules { allow: vec![key], ..rules.clone() };
        let found = compared(&allowing, &five(2e4), &new)?;
        assert_eq!(only(&found)?, ("SAME", String::new()), "{key}");
        let notes = found.rows[0].notes().join("\n");
        assert!(notes.contains(&format!("{key} differs")) && notes.contains("(allowed)"), "{key}: {notes}");
        assert!(found.to_string().contains(&format!("--allow {key}")), "{found}");

        // Another key does not help.
        let other = if key == JoinKey::Cache { JoinKey::Gpu } else { JoinKey::Cache };
        let found = compared(&Rules { allow: vec![other], ..rules }, &five(2e4), &new)?;
        assert_eq!(mismatches(&found).first(), Some(&key.name()), "{key}: {found}");
    }
    Ok(())
}

#[test]
fn what_only_one_side_has_is_incomparable_or_left_out() -> TestOutcome {
    let (base, new) = (processes(31, 5, 3, 50, 2e4, QUIET), processes(32, 5, 5, 50, 2e4, QUIET));
    let found = compared(&Rules::default(), &base, &new)?;
    assert_eq!((found.count("SAME"), found.count("INCOMPARABLE")), (3, 2));
    assert!(found.to_string().contains("INCOMPARABLE: config: only in new"), "{found}");
    let found = compared(&Rules { allow: vec![JoinKey::Config], ..Rules::default() }, &base, &new)?;
    assert_eq!((found.count("SAME"), found.rows.len(), found.left_out.len()), (3, 3, 2));
    assert_eq!(found.exit_code(FailOn::Inconclusive, false), 0);
    assert!(found.to_string().contains("2 rows without a counterpart left out"), "{found}");
    // Where that leaves nothing, nothing is known.
    let found = compared(
        &Rules { allow: vec![JoinKey::Region], ..Rules::default() },
        &with_rows(base, |row| row.annotation = row.config.clone()),
        &with_rows(new, |row| row.annotation = format!("other {}", row.config).into()),
    )?;
    assert_eq!(found.count("SAME"), 3, "one region a config, whatever its name: {found}");
    Ok(())
}

#[test]
fn a_side_is_named_also_where_its_key_has_no_value() -> TestOutcome {
    let kernel = |row: &mut SampleRow| row.kernel = Some("sgemm".into());
    let both = |processes: Vec<Process>| {
        let with_kernel = with_rows(processes.clone(), kernel);
        let both = processes.into_iter().zip(with_kernel);
        both.map(|(mut a, b)| {
            a.rows.extend(b.rows);
            a
        })
    };
    let rules = Rules { kernels: true, ..Rules::default() };
    let found = compared(&rules, &both(five(2e4)).collect::<Vec<_>>(), &with_rows(five(2e4), kernel))?;
    assert_eq!((found.count("SAME"), found.count("INCOMPARABLE")), (1, 1));
    assert!(found.to_string().contains("INCOMPARABLE: kernel: only in base"), "{found}");
    Ok(())
}

#[test]
fn two_gpus_are_two_rows() -> TestOutcome {
    let on = |gpu: &str, seed, level| with_fact(processes(seed, 5, 1, 50, level, QUIET), "gpu.uuid", gpu);
    let both = |level| [on("GPU-1", 33, 2e4), on("GPU-2", 34, level)].concat();
    let found = compared(&Rules::default(), &both(3e4), &both(3.3e4))?;
    let told: Vec<_> = found.rows.iter().map(|row| (row.key.get(JoinKey::Gpu), row.verdict())).collect();
    assert_eq!(told, [(Some("GPU-1"), "SAME"), (Some("GPU-2"), "SLOWER")]);
    // One of them is not measured any more: which one a row goes with is not guessed.
    let found = compared(&Rules::default(), &both(3e4), &on("GPU-3", 35, 2e4))?;
    assert_eq!(found.exit_code(FailOn::Inconclusive, false), 3);
    let found = compared(
        &Rules { allow: vec![JoinKey::Gpu], ..Rules::default() },
        &both(3e4),
        &on("GPU-3", 35, 2e4),
    )?;
    assert_eq!(
        (found.count("INCOMPARABLE"), found.exit_code(FailOn::Inconclusive, false)),
        (2, 3),
        "{found}"
    );
    let reason = "gpu may differ, but a side has several, and which of them go together is not known";
    assert!(found.rows.iter().all(|row| row.reason() == reason), "{found}");
    // Also where one of them is on both sides.
    let found = compared(
        &Rules { allow: vec![JoinKey::Gpu], ..Rules::default() },
        &both(3e4),
        &on("GPU-1", 35, 3e4),
    )?;
    let told: Vec<String> = found.rows.iter().map(super::super::Row::reason).collect();
    assert_eq!(told, [String::new(), reason.to_owned()]);
    Ok(())
}

#[test]
fn what_is_not_known_on_either_side_does_not_differ() -> TestOutcome {
    let without = |key| with_fact(five(2e4), key, "");
    for key in ["gpu.uuid", "driver.version", "bench.name", "bench.input_fill", "cupti.version"] {
        assert_eq!(only(&compared(&Rules::default(), &without(key), &without(key))?)?.0, "SAME", "{key}");
        let found = compared(&Rules::default(), &five(2e4), &without(key))?;
        assert_eq!(found.count("INCOMPARABLE"), found.rows.len(), "{key}: {found}");
    }
    Ok(())
}

#[test]
fn nothing_is_not_known_to_be_fast() -> TestOutcome {
    let nothing = vec![Process::default(); 3];
    let found = compared(&Rules::default(), &nothing, &nothing)?;
    assert_eq!((found.rows.len(), found.exit_code(FailOn::Inconclusive, false)), (0, 2));
    assert!(found.to_string().contains("nothing to compare"), "{found}");
    let found = compared(&Rules::default(), &five(2e4), &nothing)?;
    assert_eq!((found.count("INCOMPARABLE"), found.exit_code(FailOn::Inconclusive, false)), (1, 3));
    // All values of a side are not valid.
    let invalid = with_rows(five(2e4), |row| row.value = None);
    let found = compared(&Rules::default(), &five(2e4), &invalid)?;
    assert_eq!(only(&found)?.0, "INCONCLUSIVE");
    assert!(found.to_string().contains("250 of 250 values in new are not valid"), "{found}");
    // A time of 0 has no ratio to anything.
    let zero = with_rows(five(2e4), |row| row.value = row.value.filter(|_| row.run != Some(0)).or(Some(0.0)));
    let found = compared(&Rules::default(), &five(2e4), &zero)?;
    assert_eq!(only(&found)?.0, "SAME");
    Ok(())
}

#[test]
fn only_times_that_are_there_are_compared() -> TestOutcome {
    let rules = |metric: &str| Rules { metric: metric.to_owned(), ..Rules::default() };
    let error = compared(&rules("speed"), &five(2e4), &five(2e4)).err().ok_or("compared")?;
    assert!(error.to_string().contains("there are gpu__time_duration.sum"), "{error}");
    let bandwidth =
        || with_rows(five(2e4), |row| (row.metric, row.unit) = ("bandwidth".into(), "GB/s".into()));
    let error = compared(&rules("bandwidth"), &bandwidth(), &bandwidth()).err().ok_or("compared")?;
    assert!(error.to_string().contains("only times are compared"), "{error}");
    for wrong in [
        Rules { margin: 0.0, ..Rules::default() },
        Rules { margin: f64::NAN, ..Rules::default() },
        Rules { block_runs: 0, ..Rules::default() },
        Rules { false_discovery_rate: 1.0, ..Rules::default() },
    ] {
        assert!(compared(&wrong, &five(2e4), &five(2e4)).is_err(), "{wrong:?}");
    }
    assert_eq!(super::super::DEFAULT_METRIC, crate::bench::DURATION);
    Ok(())
}

#[test]
fn losses_come_before_every_verdict() -> TestOutcome {
    let mut lossy = five(2e4);
    lossy[2].losses.push(LossRow { cause: "records_dropped", count: 7, meaning: "records that are missing" });
    let found = compared(&Rules::default(), &lossy, &five(3e4))?;
    assert_eq!((only(&found)?.0, found.exit_code(FailOn::Slower, false)), ("SLOWER", 65));
    assert_eq!(found.exit_code(FailOn::Slower, true), 1);
    assert!(
        found.to_string().starts_with("! This result is incomplete:\n!   base: 7 records_dropped"),
        "{found}"
    );
    Ok(())
}

#[test]
fn slower_comes_before_incomparable_before_inconclusive() -> TestOutcome {
    let part =
        |name: &'static str, processes: Vec<Process>| with_rows(processes, |row| row.config = name.into());
    let together = |parts: &[Vec<Process>]| -> Vec<Process> {
        let process = |at: usize| Process {
            rows: parts.iter().filter_map(|part| part.get(at)).flat_map(|part| part.rows.clone()).collect(),
            ..Process::default()
        };
        (0..5).map(process).collect()
    };
    let same = || part("same", five(2e4));
    let few = || part("few", five(2e4)[..1].to_vec());
    let (slow_base, slow_new) = (part("slow", five(2e4)), part("slow", five(3e4)));
    let gone = || part("gone", five(2e4));
    // (base, new, code, code with --fail-on slower)
    let cases = [
        (vec![same()], vec![same()], 0, 0),
        (vec![same(), few()], vec![same(), few()], 2, 0),
        (vec![same(), few(), gone()], vec![same(), few()], 3, 3),
        (vec![same(), few(), gone(), slow_base], vec![same(), few(), slow_new], 1, 1),
    ];
    for (base, new, code, lenient) in cases {
        let found = compared(&Rules::default(), &together(&base), &together(&new))?;
        assert_eq!(found.exit_code(FailOn::Inconclusive, false), code, "{found}");
        assert_eq!(found.exit_code(FailOn::Slower, false), lenient, "{found}");
    }
    Ok(())
}

/// Each run with these kernels, which share its time.
fn launching(processes: Vec<Process>, kernels: &[&str]) -> Vec<Process> {
    let of_kernels = |row: &SampleRow| {
        let own = |kernel: &&str| {
            let value = row.value.map(|ns| ns / kernels.len() as f64);
            SampleRow { kernel: Some((*kernel).into()), value, ..row.clone() }
        };
        let n_launches = kernels.len() as i64;
        let whole = SampleRow { n_launches, ..row.clone() };
        std::iter::once(whole).chain(kernels.iter().map(own)).collect::<Vec<_>>()
    };
    let with_kernels =
        |process: Process| Process { rows: process.rows.iter().flat_map(of_kernels).collect(), ..process };
    processes.into_iter().map(with_kernels).collect()
}

#[test]
fn other_kernels_of_the_same_configuration_are_a_note() -> TestOutcome {
    let notes = |base: &[&str], new: &[&str]| -> Result<Vec<String>, Box<dyn std::error::Error>> {
        let found = compared(&Rules::default(), &launching(five(2e4), base), &launching(five(2e4), new))?;
        let [row] = found.rows.as_slice() else { return Err(format!("{found}").into()) };
        #[cfg(feature = "analysis")]
        for (side, names) in [("only_in_base", &row.only_in_base), ("only_in_new", &row.only_in_new)] {
            let json: serde_json::Value = serde_json::from_str(&found.to_json(FailOn::Slower, false))?;
            let told = json["rows"][0][side].as_array().ok_or("no list")?;
            assert!(told.iter().eq(names.iter().map(|name| &**name)), "{json}");
        }
        assert_eq!(row.verdict(), "SAME", "a note is no verdict");
        assert!(
            row.notes().iter().all(|note| found.to_string().replace("\n    ", " ").contains(note)),
            "{found}"
        );
        Ok(row.notes())
    };
    assert_eq!(notes(&["gemm", "add"], &["gemm", "add"])?, [""; 0]);
    assert_eq!(notes(&["gemm"], &["wgmma"])?, ["only base launches gemm", "only new launches wgmma"]);
    assert_eq!(
        notes(&["gemm", "add"], &["gemm"])?,
        ["kernels of a run: 2 in base, 1 in new", "only base launches add"]
    );
    assert_eq!(
        notes(&["gemm"], &["gemm", "a\u{1b}b", "split", "reduce"])?,
        ["kernels of a run: 1 in base, 4 in new", "only new launches a\\u{1b}b and 2 more"]
    );
    // What is not recorded is not known to differ.
    assert_eq!(notes(&["gemm"], &[])?, ["kernels of a run: 1 in base, 0 in new"]);
    let by_kernel = Rules { kernels: true, ..Rules::default() };
    let found = compared(&by_kernel, &launching(five(2e4), &["gemm"]), &launching(five(2e4), &["wgmma"]))?;
    assert_eq!((found.rows.len(), found.count("SAME"), found.count("INCOMPARABLE")), (3, 1, 2), "{found}");
    Ok(())
}
