//! What is called slower, and what is not.

use super::super::{Collection, FailOn, Rules, SelfTest};
use super::*;
use crate::summary::Symbols;

#[test]
fn two_percent_slower_is_found_and_two_percent_faster() -> TestOutcome {
    let base = processes(1, 5, 40, 50, 20_000.0, QUIET);
    let slower = compared(&Rules::default(), &base, &processes(2, 5, 40, 50, 20_400.0, QUIET))?;
    assert!(slower.count("SLOWER") >= 38, "{:?}", verdicts(&slower));
    assert_eq!(slower.exit_code(FailOn::Inconclusive, false), 1);
    let faster = compared(&Rules::default(), &base, &processes(3, 5, 40, 50, 19_600.0, QUIET))?;
    assert!(faster.count("FASTER") >= 38, "{:?}", verdicts(&faster));
    let same = compared(&Rules::default(), &base, &processes(4, 5, 40, 50, 20_000.0, QUIET))?;
    assert_eq!((same.count("SAME"), same.exit_code(FailOn::Inconclusive, false)), (40, 0));
    let row = slower.rows.first().ok_or("none")?;
    let comparison = row.comparison.ok_or("none")?;
    assert!((comparison.change_ratio() - 0.02).abs() < 0.005, "{comparison:?}");
    let base = row.base.ok_or("none")?;
    assert_eq!((base.process_runs, base.values, base.invalid, base.launches), (5, 250, 0, Some((1, 1))));
    Ok(())
}

#[test]
fn what_did_not_change_is_hardly_ever_called_so() -> TestOutcome {
    // Process runs that differ by 1 %, as they do where clocks are free: 200 comparisons.
    let noisy = Noise { process: 0.01, within: 0.005 };
    let (a, b) = (processes(5, 5, 200, 30, 20_000.0, noisy), processes(6, 5, 200, 30, 20_000.0, noisy));
    let found = compared(&Rules::default(), &a, &b)?;
    assert!(found.count("SLOWER") + found.count("FASTER") <= 10, "{}", found);
    // Where any difference counts, one-sided tests at 2.5 % are alarmed as often: within three standard errors.
    let rules = Rules { margin: 1e-9, ..Rules::default() };
    let found = compared(&rules, &a, &b)?;
    let limit = 200.0 * 0.025 + 3.0 * (200.0_f64 * 0.025 * 0.975).sqrt();
    assert!((found.count("FASTER") as f64) <= limit, "{}", found.count("FASTER"));
    assert!(found.count("SLOWER") <= 3, "corrected for 200 comparisons: {}", found.count("SLOWER"));
    Ok(())
}

#[test]
fn a_slow_one_among_many_may_be_chance() -> TestOutcome {
    // One barely slower row alone is slower; among 300 others it may be one of those that always are.
    let alone = processes(7, 4, 1, 50, 20_000.0, QUIET);
    let slower = processes(8, 4, 1, 50, 20_260.0, QUIET);
    assert_eq!(only(&compared(&Rules::default(), &alone, &slower)?)?.0, "SLOWER");
    let others = processes(9, 4, 300, 25, 20_000.0, QUIET);
    let with = |one: &[Process], config: &str| -> Vec<Process> {
        let both = one.iter().zip(&others).map(|(one, others)| {
            let renamed = one.rows.iter().map(|row| SampleRow { config: config.into(), ..row.clone() });
            Process { rows: renamed.chain(others.rows.iter().cloned()).collect(), ..Process::default() }
        });
        both.collect()
    };
    let found = compared(&Rules::default(), &with(&alone, "one"), &with(&slower, "one"))?;
    let row = found.rows.iter().find(|row| row.key.to_string() == "run (one)").ok_or("none")?;
    assert_eq!(row.verdict(), "INCONCLUSIVE");
    assert!(row.reason().starts_with("many comparisons"), "{}", row.reason());
    Ok(())
}

#[test]
fn fewer_than_three_process_runs_tell_nothing_unless_that_is_allowed() -> TestOutcome {
    for runs in [1, 2] {
        let base = processes(10, runs, 1, 500, 20_000.0, QUIET);
        let new = processes(11, 5, 1, 500, 21_000.0, QUIET);
        let found = compared(&Rules::default(), &base, &new)?;
        let (verdict, reason) = only(&found)?;
        assert_eq!(verdict, "INCONCLUSIVE");
        assert!(reason.starts_with("too few runs"), "{reason}");
        assert_eq!(found.exit_code(FailOn::Inconclusive, false), 2);
        assert_eq!(found.exit_code(FailOn::Slower, false), 0);
    }
    let rules = Rules { allow_single_run: true, ..Rules::default() };
    let (base, new) = (processes(12, 1, 1, 500, 20_000.0, QUIET), processes(13, 1, 1, 500, 21_000.0, QUIET));
    let found = compared(&rules, &base, &new)?;
    assert_eq!(only(&found)?, ("SLOWER", "within-run only".to_owned()));
    assert!(found.to_string().contains("within-run only"), "{found}");
    // Enough process runs are compared as ever.
    let (base, new) = (processes(14, 3, 1, 500, 20_000.0, QUIET), processes(15, 3, 1, 500, 21_000.0, QUIET));
    assert_eq!(only(&compared(&rules, &base, &new)?)?, ("SLOWER", String::new()));
    // A single block has no spread.
    let (base, new) = (processes(16, 1, 1, 20, 20_000.0, QUIET), processes(17, 1, 1, 20, 21_000.0, QUIET));
    assert_eq!(only(&compared(&rules, &base, &new)?)?.0, "INCONCLUSIVE");
    Ok(())
}

#[test]
fn copies_of_a_dataset_are_one_process_run() -> TestOutcome {
    let process = |seed, level, run: &str| -> Vec<Process> {
        let one = processes(seed, 1, 1, 500, level, QUIET).remove(0).fact("process.run", run);
        vec![one; 5]
    };
    let found = compared(&Rules::default(), &process(18, 20_000.0, "a"), &process(19, 22_000.0, "b"))?;
    assert_eq!((found.base.process_runs, found.new.process_runs), (1, 1));
    assert_eq!(only(&found)?.0, "INCONCLUSIVE");
    // They count once, and that is told.
    let base = found.rows[0].base.ok_or("none")?;
    assert_eq!((base.values, found.base.copies, found.in_common), (500, 4, 0));
    let told = ["base", "new"]
        .map(|side| format!("4 datasets of {side} are copies of others: each process run counts once"));
    assert_eq!(found.notes(), told);
    assert!(found.to_markdown(None).contains(&told[0]) && found.to_junit().contains(&told[1]));
    // Two measurements of one process are one process run with the values of both.
    let two = [process(18, 20_000.0, "a")[..1].to_vec(), process(19, 20_000.0, "a")[..1].to_vec()].concat();
    let found = compared(&Rules::default(), &two, &process(20, 20_000.0, "b"))?;
    let base = found.rows[0].base.ok_or("none")?;
    assert_eq!((base.process_runs, base.values, found.base.copies), (1, 1_000, 0));
    Ok(())
}

#[test]
fn a_process_run_on_both_sides_is_told_in_every_format() -> TestOutcome {
    let of = |seeds: std::ops::Range<u64>| -> Vec<Process> {
        let one = |seed: u64| {
            processes(seed, 1, 1, 100, 20_000.0, QUIET).remove(0).fact("process.run", &format!("p{seed}"))
        };
        seeds.map(one).collect()
    };
    for (new, told) in [
        (of(50..55), "5 process runs are on both sides (5 in base, 5 in new)"),
        (of(54..58), "1 process run is on both sides (5 in base, 4 in new)"),
    ] {
        let found = compared(&Rules::default(), &of(50..55), &new)?;
        assert_eq!(only(&found)?.0, "SAME", "the verdict stays");
        for text in [found.to_text(None, 200, Symbols::Ascii), found.to_markdown(None), found.to_junit()] {
            assert!(text.contains(told), "{text}");
        }
        #[cfg(feature = "analysis")]
        assert!(found.to_json(FailOn::Inconclusive, false).contains(told));
    }
    let apart = compared(&Rules::default(), &of(50..55), &of(55..60))?;
    assert!(apart.notes().is_empty(), "{apart}");
    Ok(())
}

#[test]
fn reasons_name_what_is_missing_and_counts_are_exact() -> TestOutcome {
    let of = |seed| processes(seed, 3, 1, 60, 20_000.0, Noise { process: 0.02, within: 0.003 });
    // One value of one process run is not valid.
    let mut base = of(60);
    base[1].rows[7].value = None;
    let text = compared(&Rules::default(), &base, &of(61))?.to_text(None, 140, Symbols::Ascii);
    assert!(text.contains("more process runs a side (More) would tell"), "{text}");
    assert!(text.contains("3 x 59-60, 3 x 60"), "{text}");
    assert!(text.contains("Welch's test of process runs,"), "{text}");
    // Blocks, where that is what was compared.
    let single = Rules { allow_single_run: true, ..Rules::default() };
    let of = |seed, level| processes(seed, 1, 1, 200, level, Noise { process: 0.0, within: 0.03 });
    let text = compared(&single, &of(62, 20_000.0), &of(63, 20_200.0))?.to_text(None, 140, Symbols::Ascii);
    assert!(text.contains("more blocks a side (More) would tell"), "{text}");
    assert!(text.contains("by    Welch's test of blocks within the process runs,"), "{text}");
    // No valid value, on either side or both.
    let none = || {
        let mut all = of(64, 20_000.0);
        all.iter_mut().flat_map(|process| &mut process.rows).for_each(|row| row.value = None);
        all
    };
    for rules in [Rules::default(), single] {
        for (base, new, sides) in
            [(none(), of(65, 2e4), "base"), (of(65, 2e4), none(), "new"), (none(), none(), "base and in new")]
        {
            let found = compared(&rules, &base, &new)?;
            assert_eq!(only(&found)?, ("INCONCLUSIVE", format!("no valid value in {sides}")));
        }
    }
    Ok(())
}

/// Both sides with these clocks, by side.
fn with_clocks(base_ns: f64, new_ns: f64, mode: &str, clocks: [Option<u32>; 2]) -> [Vec<Process>; 2] {
    let of = |seed, level, mhz: Option<u32>| {
        let mut processes = processes(seed, 5, 1, 100, level, QUIET);
        for row in processes.iter_mut().flat_map(|process| &mut process.rows) {
            (row.clock_mode, row.sm_clock_mhz) = (mode.into(), mhz);
        }
        processes
    };
    [of(20, base_ns, clocks[0]), of(21, new_ns, clocks[1])]
}

#[test]
fn a_verdict_holds_in_cycles_unless_clocks_were_pinned() -> TestOutcome {
    let told = |rules: &Rules, [base, new]: [Vec<Process>; 2]| -> Result<_, Box<dyn std::error::Error>> {
        Ok(only(&compared(rules, &base, &new)?)?)
    };
    let rules = Rules::default();
    // 5 % longer at a clock 5 % lower: as many cycles.
    let (verdict, reason) =
        told(&rules, with_clocks(20_000.0, 21_000.0, "free", [Some(1_980), Some(1_886)]))?;
    assert_eq!(verdict, "INCONCLUSIVE");
    assert!(reason.starts_with("clock: the verdict is not the same in cycles"), "{reason}");
    // Also where they are said to be pinned, but to other clocks.
    let pinned = with_clocks(20_000.0, 21_000.0, "fixed_frequency", [Some(1_980), Some(1_886)]);
    assert_eq!(told(&rules, pinned)?.0, "INCONCLUSIVE");
    let same_clock = with_clocks(20_000.0, 21_000.0, "free", [Some(1_980), Some(1_980)]);
    assert_eq!(told(&rules, same_clock)?.0, "SLOWER");
    // As long, with fewer cycles.
    let less = with_clocks(20_000.0, 20_000.0, "free", [Some(1_980), Some(1_700)]);
    assert_eq!(told(&rules, less)?.0, "INCONCLUSIVE");
    // Nobody knows the clock.
    let unknown = || with_clocks(20_000.0, 21_000.0, "free", [None, None]);
    let (verdict, reason) = told(&rules, unknown())?;
    assert_eq!((verdict, reason.as_str()), ("INCONCLUSIVE", "clock: neither pinned nor recorded"));
    let allowing = Rules { allow_unknown_clock: true, ..Rules::default() };
    assert_eq!(told(&allowing, unknown())?.0, "SLOWER");
    let pinned = with_clocks(20_000.0, 21_000.0, "fixed_frequency", [None, None]);
    assert_eq!(told(&rules, pinned)?.0, "SLOWER");
    Ok(())
}

#[test]
fn annotations_of_the_same_runs_are_compared_by_pairs() -> TestOutcome {
    // The machine drifts by 20 % while both are measured next to each other.
    let mut random = Random::new(22);
    let mut rows = Vec::new();
    for run in 0..200 {
        let level = 20_000.0 * (1.0 + 0.001 * run as f64);
        for (name, factor) in [("old", 1.0), ("new", 1.03), ("other", 2.0)] {
            rows.push(sample("n=1", name, run, level * factor * (1.0 + 0.003 * normal(&mut random))));
        }
    }
    // Runs without a value of either are no pairs.
    rows[3].value = None;
    let process = Process { rows, ..Process::default() };
    let folder = tempfile::tempdir()?;
    let collection = Collection::open([side(folder.path(), "runs", std::slice::from_ref(&process))?])?;
    let found = Rules::default().compare_annotations(&collection, "old", "new")?;
    assert_eq!(only(&found)?, ("SLOWER", String::new()));
    let row = &found.rows[0];
    assert_eq!(row.key.to_string(), "old -> new (n=1)");
    let comparison = row.comparison.ok_or("none")?;
    assert_eq!((comparison.n, comparison.between_processes), (8, false));
    assert!((comparison.change_ratio() - 0.03).abs() < 0.003, "{comparison:?}");
    assert_eq!(row.base.ok_or("none")?.invalid, 1);
    // The other way round, and with itself.
    assert_eq!(only(&Rules::default().compare_annotations(&collection, "new", "old")?)?.0, "FASTER");
    assert_eq!(only(&Rules::default().compare_annotations(&collection, "new", "new")?)?.0, "SAME");
    let error = Rules::default().compare_annotations(&collection, "old", "now").err().ok_or("found")?;
    assert!(error.to_string().contains("there are new, old, other"), "{error}");
    // Of several process runs, each is a pair.
    let several = Collection::open([side(folder.path(), "several", &vec![process; 4])?])?;
    let found = Rules::default().compare_annotations(&several, "old", "new")?;
    assert_eq!(found.rows[0].comparison.ok_or("none")?.n, 4);
    Ok(())
}

#[test]
fn the_self_test_is_passed_by_process_runs_that_are_alike_and_failed_by_two_states() -> TestOutcome {
    let rules = Rules::default();
    let steady = self_tested(&rules, &processes(23, 8, 20, 500, 20_000.0, QUIET))?;
    assert_eq!((steady.verdict(), steady.exit_code(false)), ("PASSED", 0), "{steady:?}");
    assert!(steady.rows.iter().all(|row| row.is_by_process && row.parts == 8) && steady.notes().is_empty());
    // One of ten splits of six has each state on a side of its own, which Welch's test calls different.
    let states = self_tested(&rules, &in_two_states(6))?;
    let ratio = states.alarms_ratio().ok_or("none")?;
    assert!((0.06..0.16).contains(&ratio), "{ratio}");
    assert_eq!((states.verdict(), states.exit_code(false), states.rows[0].parts), ("FAILED", 2, 6));
    Ok(())
}

#[test]
fn fewer_than_six_process_runs_are_not_split_and_pass_no_self_test() -> TestOutcome {
    let within = Rules { allow_single_run: true, ..Rules::default() };
    for process_runs in [1, 2, 3, 5] {
        for values in [in_two_states(process_runs), processes(24, process_runs, 3, 200, 20_000.0, QUIET)] {
            let test = self_tested(&Rules::default(), &values)?;
            assert_ne!(test.verdict(), "PASSED", "{test:?}");
            assert_eq!(test.exit_code(false), 2);
            let runs = if process_runs == 1 { "run" } else { "runs" };
            let told = format!("within-run only: {process_runs} process {runs}, 6 are needed to split them");
            assert_eq!(test.notes()[0], told);
            assert_eq!(test.rows[0].process_runs, process_runs);
        }
        // Their blocks are, if that is asked for.
        let steady = processes(25, process_runs, 20, 500, 20_000.0, QUIET);
        let test = self_tested(&within, &steady)?;
        assert_eq!((test.verdict(), test.exit_code(false)), ("PASSED", 0), "{test:?}");
        assert!(test.rows.iter().all(|row| row.parts == 20 * process_runs), "{test:?}");
        assert!(test.notes()[0].starts_with("within-run only"), "{test:?}");
    }
    // Two blocks of either state: a third of the splits has each state on a side of its own. Neighbours are alike.
    let rows =
        (0..100).map(|run| sample("", "run", run, [1e4, 1.1e4][usize::from(run >= 50)] + (run / 25) as f64));
    let test = self_tested(&within, &[Process { rows: rows.collect(), ..Process::default() }])?;
    assert!(test.alarms_ratio() > Some(0.2) && test.verdict() == "FAILED", "{test:?}");
    // A single block has nothing to be compared with.
    for rules in [Rules::default(), within] {
        let test = self_tested(&rules, &processes(24, 1, 1, 20, 20_000.0, QUIET))?;
        assert_eq!((test.alarms_ratio(), test.verdict(), test.exit_code(false)), (None, "INCONCLUSIVE", 2));
        assert!(test.notes()[1].starts_with("too little to split within"), "{:?}", test.notes());
    }
    Ok(())
}

#[test]
fn the_self_test_asks_for_cycles_where_verdicts_do() -> TestOutcome {
    // Two states of the clock: as many cycles in both.
    let mut states = in_two_states(6);
    for (number, process) in states.iter_mut().enumerate() {
        for row in &mut process.rows {
            row.clock_mode = "free".into();
            row.sm_clock_mhz = Some(if number.is_multiple_of(2) { 1_980 } else { 1_800 });
        }
    }
    let test = self_tested(&Rules::default(), &states)?;
    assert_eq!((test.alarms_ratio(), test.verdict()), (Some(0.0), "PASSED"));
    Ok(())
}

#[test]
fn values_of_any_size_are_compared() -> TestOutcome {
    // CAST: the nearest of a double
    let longest = i64::MAX as f64;
    let of = |level: f64| -> Vec<Process> {
        let all = processes(26, 3, 1, 50, 20_000.0, QUIET)
            .into_iter()
            .map(|process| process.fact("bench.tick_ns", ""));
        let mut all: Vec<Process> = all.collect();
        all.iter_mut().flat_map(|process| &mut process.rows).for_each(|row| row.value = Some(level));
        all
    };
    for (level, verdict) in [(longest, "SAME"), (-longest, "INCONCLUSIVE"), (1.0, "SAME"), (f64::MAX, "SAME")]
    {
        assert_eq!(only(&compared(&Rules::default(), &of(level), &of(level))?)?.0, verdict, "{level}");
    }
    assert_eq!(only(&compared(&Rules::default(), &of(1.0), &of(longest))?)?.0, "SLOWER");
    Ok(())
}

/// Process runs of which every other one takes 10 % longer.
fn in_two_states(process_runs: usize) -> Vec<Process> {
    let of = |number: usize| {
        let level = if number.is_multiple_of(2) { 20_000.0 } else { 22_000.0 };
        processes(number as u64, 1, 1, 50, level, QUIET).remove(0)
    };
    (0..process_runs).map(of).collect()
}

fn self_tested(rules: &Rules, processes: &[Process]) -> Result<SelfTest, Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    Ok(rules.self_test(&Collection::open([side(folder.path(), "side", processes)?])?)?)
}

#[test]
fn a_side_compared_with_itself_is_never_slower() -> TestOutcome {
    for (process_runs, single) in [(1, false), (1, true), (3, false), (5, false)] {
        let noisy = Noise { process: 0.05, within: 0.1 };
        let a = processes(25, process_runs, 30, 60, 20_000.0, noisy);
        let rules = Rules { allow_single_run: single, ..Rules::default() };
        let found = compared(&rules, &a, &a)?;
        assert!([0, 2].contains(&found.exit_code(FailOn::Inconclusive, false)), "{found}");
    }
    Ok(())
}
