//! Catalogue and plans against real libraries, each in a process of its own. Needs no GPU; without a driver, only some
//! versions plan, and the others must say what to do.
//!
//! `CUPROF_TEST_CUPTI_DIRS` names their folders, separated by ':', for example those of unpacked wheels.
#![expect(clippy::print_stdout, reason = "says what was tested")]

use std::env;
use std::error::Error;
use std::process::Command;
use std::time::{Duration, Instant};

use cuprof::ErrorKind;
use cuprof::counters::{Catalogue, MetricKind, Plan, Preset, chips};

type Outcome = Result<(), Box<dyn Error>>;

const DIRS: &str = "CUPROF_TEST_CUPTI_DIRS";
const CHILD: &str = "CUPROF_TEST_CUPTI_CHILD";

#[test]
#[ignore = "needs CUPROF_TEST_CUPTI_DIRS"]
fn metrics_are_planned_by_each_library_or_it_says_what_to_do() -> Outcome {
    if env::var_os(CHILD).is_some() {
        return check();
    }
    let dirs = env::var_os(DIRS).ok_or_else(|| format!("{DIRS} names no folder with a libcupti"))?;
    for folder in env::split_paths(&dirs) {
        let output = Command::new(env::current_exe()?)
            .args(["--exact", "metrics_are_planned_by_each_library_or_it_says_what_to_do"])
            .args(["--include-ignored", "--nocapture"])
            .env(CHILD, "1")
            .env("CUPROF_CUPTI_PATH", &folder)
            .output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {}\n{text}{errors}", folder.display(), output.status);
        let lines: Vec<_> = text.lines().filter(|line| line.starts_with("planned")).collect();
        assert_eq!(lines.len(), 1, "{text}");
        println!("{}", lines[0]);
    }
    Ok(())
}

fn check() -> Outcome {
    let start = Instant::now();
    let known = match chips() {
        Ok(known) => known,
        Err(error) => {
            let text = error.to_string();
            match error.kind {
                ErrorKind::CuptiTooOld => assert!(text.contains("12.6"), "{text}"),
                ErrorKind::NoDriver => {
                    assert!(text.contains("pip install 'nvidia-cuda-cupti==13.1.*'"), "{text}")
                }
                _ => return Err(error.into()),
            }
            println!("planned nothing: {}", text.replace('\n', ";"));
            return Ok(());
        }
    };
    let opened = start.elapsed();
    for chip in ["TU102", "GA100", "GA102", "GH100", "AD102", "GB100", "GB202"] {
        assert!(known.iter().any(|known| known == chip), "{chip} is not in {known:?}");
    }

    let start = Instant::now();
    let catalogue = Catalogue::of_chip("GH100")?;
    let listed = MetricKind::ALL.into_iter().map(|kind| Ok(catalogue.base_metrics(kind)?.len()));
    let listed: usize = listed.sum::<cuprof::Result<_>>()?;
    assert!(listed > 3000, "{listed} metrics");
    let listing = start.elapsed();
    assert!(listing < Duration::from_secs(2), "listing took {listing:?}");

    names(&catalogue)?;
    units(&catalogue)?;
    passes(&catalogue)?;
    let planning = presets()?;
    let (version, path) = (catalogue.cupti_version(), catalogue.cupti_path().display());
    println!(
        "planned with {path}, {version}: {} chips, {listed} metrics; opening {opened:?}, listing {listing:?}, \
         slowest preset {planning:?}",
        known.len()
    );
    Ok(())
}

fn names(catalogue: &Catalogue) -> Outcome {
    let found = catalogue.search("READ dram bytes")?;
    assert!(found.contains(&"dram__bytes_read") && !found.contains(&"dram__bytes_write"), "{found:?}");
    assert!(catalogue.sub_metrics("dram__bytes_read")?.iter().any(|suffix| suffix == "sum.per_second"));
    assert!(catalogue.sub_metrics("l1tex__t_sector_hit_rate")?.iter().any(|suffix| suffix == "pct"));

    // Each of these would spoil a whole set: CUPTI fails it without saying which name it minds.
    let plan = catalogue.plan([
        "dram__bytes_read.sum",
        "dram_bytes_read.sum",
        "dram__bytes_read",
        "dram__bytes_read.summ",
        "",
        ".sum",
        "lts__t_sector_hit_rate.sum",
        "sm__throughput",
        "dram__bytes_read.sum",
    ])?;
    assert_eq!((plan.metrics().len(), plan.passes()), (1, 1), "{plan}");
    assert_eq!(plan.missing().len(), 7, "{plan}");
    assert_eq!(plan.missing()[0].near[0], "dram__bytes_read.sum");
    assert!(plan.missing()[1].near.contains(&"dram__bytes_read.sum".to_owned()), "{plan}");
    assert_eq!(plan.missing()[2].near[0], "dram__bytes_read.sum");
    let error = plan.complete().err().ok_or("an incomplete plan passed for a complete one")?;
    assert_eq!(error.kind, ErrorKind::Config);
    assert!(error.to_string().contains("near: dram__bytes_read.sum"), "{error}");

    let error = Plan::new("GH200", ["headline"]).err().ok_or("there is no chip GH200")?;
    assert!(error.kind == ErrorKind::Config && error.to_string().contains("GH100"), "{error}");
    let error = catalogue.plan(["a\0b"]).err().ok_or("a NUL passed")?;
    assert_eq!(error.kind, ErrorKind::Config);
    let error = catalogue.plan([""; 0]).err().ok_or("nothing was planned")?;
    assert_eq!(error.kind, ErrorKind::Config);
    Ok(())
}

fn units(catalogue: &Catalogue) -> Outcome {
    for (name, unit) in [
        ("dram__bytes_read.sum", "byte"),
        ("dram__bytes_read.sum.per_second", "byte/s"),
        ("dram__bytes_read.sum.pct_of_peak_sustained_elapsed", "%"),
        ("gpu__time_duration.sum", "ns"),
        ("smsp__inst_executed.sum", "instruction"),
        ("l1tex__t_sector_hit_rate.pct", "%"),
        ("sm__throughput.avg.pct_of_peak_sustained_elapsed", "%"),
        ("sm__warps_active.avg.per_cycle_active", "warp"),
    ] {
        let metric = catalogue.describe(name)?;
        assert_eq!(metric.unit, unit, "{name}");
        assert!(!metric.description.is_empty(), "{name}");
    }
    Ok(())
}

/// Numbers of passes that were found with these libraries by calling them from C.
fn passes(catalogue: &Catalogue) -> Outcome {
    let passes = |names: &[&str]| catalogue.plan(names).map(|plan| plan.passes());
    assert_eq!(passes(&["gpu__time_duration.sum"])?, 1);
    assert_eq!(passes(&["lts__t_sector_hit_rate.pct"])?, 2);
    assert_eq!(passes(&["sm__throughput.avg.pct_of_peak_sustained_elapsed"])?, 8);
    assert_eq!(passes(&["gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed"])?, 5);

    let headline = catalogue.plan(["headline"])?;
    let free = headline.free(["dram__bytes.sum", "lts__t_sector_hit_rate.pct", "no__such_metric.sum"])?;
    assert_eq!(free, ["dram__bytes.sum"]);
    let two =
        catalogue.plan(["dram__bytes_read.sum", "lts__t_sector_hit_rate.pct", "smsp__inst_executed.sum"])?;
    assert_eq!(two.passes(), 2);
    assert_eq!(two.beyond(1)?, ["lts__t_sector_hit_rate.pct"]);
    assert!(two.beyond(2)?.is_empty());

    // Counted for the device, and for a context: not in one session.
    let mixed = catalogue.plan(["dram__bytes_read.sum", "nvlrx__bytes.sum"])?;
    assert_eq!((mixed.metrics().len(), mixed.missing().len()), (1, 1), "{mixed}");
    assert!(mixed.missing()[0].reason.contains("alone"), "{mixed}");
    assert_eq!(passes(&["nvlrx__bytes.sum"])?, 1);
    Ok(())
}

/// How long the slowest took.
fn presets() -> Result<Duration, Box<dyn Error>> {
    let mut slowest = Duration::ZERO;
    for chip in ["TU102", "GA100", "GH100", "GB100", "GB202"] {
        for preset in Preset::ALL {
            let start = Instant::now();
            let plan = Plan::new(chip, [preset.name()])?;
            let elapsed = start.elapsed();
            assert!(elapsed < Duration::from_secs(1), "{preset:?} on {chip} took {elapsed:?}");
            slowest = slowest.max(elapsed);
            let all = preset.metrics().len();
            assert!(plan.metrics().len() >= all / 2, "{preset:?}: {plan}");
            assert_eq!(plan.metrics().len() + plan.missing().len(), all, "{preset:?}: {plan}");
            if preset == Preset::Headline {
                assert_eq!(plan.passes(), 1, "{plan}");
            }
        }
    }
    let aliased = Plan::new("GB202", ["dram__bytes_read.sum"])?.complete()?;
    let used: Vec<_> = aliased.aliases().map(|planned| planned.metric.name.as_str()).collect();
    assert_eq!(used, ["dram__bytes_op_read.sum"]);
    Ok(slowest)
}
