//! A report is drawn as the dataset is that it writes.

use super::super::Bench;
use super::{Gpu, TestOutcome};
use crate::analysis::{Collection, Filter};
use crate::plot::{Distribution, Measurements, Times};

#[test]
fn a_report_and_its_dataset_are_the_same_picture() -> TestOutcome {
    let gpu = Gpu::default();
    let bench =
        Bench::new("sweep").configs([1_i64, 2, 4, 8]).parameters(["n"]).runs(8).normalize_against("a");
    let mut turn = 0;
    let report = gpu.run(bench, |run, n| {
        turn = (turn * 7 + 3) % 11;
        run.measure("a", || gpu.launch("k", 1_000 * n + turn * 10));
        run.measure("b", || gpu.launch("k", 700 * n + turn * 13));
    })?;
    let folder = tempfile::tempdir()?;
    let dataset = folder.path().join("sweep.cuprof");
    report.write(&dataset)?;
    let read = Measurements::read(&Collection::open([dataset])?, &Filter::default())?;
    let of_report = report.measurements();
    assert_eq!(read.metrics(), of_report.metrics());
    for relative_to in [None, Some("a".to_owned())] {
        let times = Times { relative_to, ..Times::default() };
        let svg = report.plot(&times)?.to_svg();
        assert_eq!(read.times(&times)?.to_svg(), svg);
        assert!(svg.contains("sweep: gpu__time_duration.sum by n"), "{svg}");
    }
    let runs = Distribution::default();
    assert_eq!(read.distribution(&runs)?.to_svg(), of_report.distribution(&runs)?.to_svg());
    Ok(())
}
