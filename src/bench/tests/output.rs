//! Tables: of people, of programs, and of those who come from Nsight Python.

use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int32Type, Int64Type};
use arrow_schema::DataType;

use super::super::{Bench, Config, Report, Scope, Value};
use super::{Gpu, TestOutcome};
use crate::table::reader::Dataset;
use crate::table::schema::Table;

/// Two annotations in two configurations, with values that are easy to compute.
fn measured() -> Result<Report, Box<dyn std::error::Error>> {
    let gpu = Gpu::default();
    let bench = Bench::new("compat").configs([(64, "a,b"), (128, "c\"d\ne")]).parameters(["n", "name"]);
    let bench = bench
        .warm_up(0)
        .runs(3)
        .normalize_against("base")
        .collect("temp", Scope::Run, |at| Ok((at.run.unwrap_or_default() as f64).into()));
    let bench = bench.collect("driver", Scope::Once, |_| Ok("580".into()));
    Ok(gpu.run(bench, |run, (n, _)| {
        let step = 10 * run.number() as i64;
        run.measure("base", || gpu.launch("copy", 10 * n + step));
        run.measure("a|b, \"c\"\nd", || {
            gpu.launch("first(int)", 15 * n + step);
            gpu.launch("second, or not", 5 * n + step);
        });
    })?)
}

#[test]
fn the_compatible_table_has_their_columns_order_and_formulas() -> TestOutcome {
    let csv = measured()?.compat_csv();
    let (heading, rows) = csv.split_once('\n').ok_or("no rows")?;
    assert_eq!(
        heading,
        "Annotation,Metric,n,name,AvgValue,StdDev,MinValue,MaxValue,NumRuns,Kernel,GPU,Host,ComputeClock,MemoryClock,\
         Unit,temp_Avg,temp_Std,temp_Min,temp_Max,driver,CI95_Lower,CI95_Upper,RelativeStdDevPct,StableMeasurement,\
         Normalized,NormalizationValue,Geomean,Median,CI95_Median_Lower,CI95_Median_Upper,CI95_t_Lower,CI95_t_Upper,\
         EffectiveRuns,CacheState,ClockMode"
    );
    // By hand: values 640, 650, 660 of the baseline; mean 650, s = 10, 1.96·10/√3 = 11.31606526…, 100·10/650.
    let first = rows.lines().next().ok_or("no row")?;
    let cells: Vec<&str> = first.split(',').collect();
    assert_eq!(&cells[..3], ["base", "gpu__time_duration.sum", "64"]);
    assert_eq!(&cells[3..5], ["\"a", "b\""]);
    let expected = [
        (5, 1.0),
        (6, 10.0),
        (7, 640.0),
        (8, 660.0),
        (9, 3.0),
        (16, 1.0),
        (17, 1.0),
        (21, 650.0 - 1.96 * 10.0 / 3_f64.sqrt()),
        (22, 650.0 + 1.96 * 10.0 / 3_f64.sqrt()),
        (23, 100.0 * 10.0 / 650.0),
        (26, 650.0),
        (27, 1.0),
        (28, 650.0),
    ];
    for (place, value) in expected {
        let found: f64 = cells[place].parse().map_err(|_| format!("{place}: {first}"))?;
        assert!(
            (found - value).abs() <= 1e-12 * value.abs(),
            "cell {place}: {found}, and not {value}\n{first}"
        );
    }
    assert_eq!((cells[10], cells[11], cells[12]), ("copy", "Simulated", "desk"));
    assert_eq!((cells[24], cells[25]), ("True", "base"));
    // The other annotation: its kernels' names joined, its mean over the baseline's (1290 + 10 + …)/650.
    assert!(rows.contains("\"first(int)|second, or not\""), "{rows}");
    let ratio = (1_280.0 + 1_300.0 + 1_320.0) / 3.0 / 650.0;
    assert!(rows.contains(&format!("{ratio:?}")), "{ratio}: {rows}");
    Ok(())
}

/// The cells of a CSV text.
fn parsed(csv: &str) -> Vec<Vec<String>> {
    let (mut rows, mut row, mut cell, mut quoted) = (Vec::new(), Vec::new(), String::new(), false);
    let mut chars = csv.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => cell.extend(chars.next()),
            '"' => quoted = !quoted,
            ',' if !quoted => row.push(std::mem::take(&mut cell)),
            '\n' if !quoted => {
                row.push(std::mem::take(&mut cell));
                rows.push(std::mem::take(&mut row));
            }
            c => cell.push(c),
        }
    }
    rows
}

#[test]
fn names_with_commas_quotes_and_line_breaks_survive_csv() -> TestOutcome {
    let report = measured()?;
    for csv in [report.csv(), report.compat_csv()] {
        let rows = parsed(&csv);
        assert!(rows.iter().all(|row| row.len() == rows[0].len()), "{csv}");
        let all: Vec<&str> = rows.iter().flatten().map(String::as_str).collect();
        for name in ["a|b, \"c\"\nd", "a,b", "c\"d\ne"] {
            assert!(all.contains(&name), "{name:?} is not in {csv}");
        }
    }
    Ok(())
}

#[test]
fn names_end_no_line_and_no_cell_of_a_table_for_people() -> TestOutcome {
    let report = measured()?;
    let markdown = report.markdown();
    assert!(markdown.starts_with("- compat: cache cold\\_clean, clocks free\n- times: "), "{markdown}");
    let lines: Vec<&str> = markdown.lines().skip(3).collect();
    assert_eq!(lines.len(), 2 + 4, "{markdown}");
    let bars = |line: &str| line.replace("\\|", "").matches('|').count();
    assert!(lines.iter().all(|line| bars(line) == bars(lines[0])), "{markdown}");
    let printed = report.to_string();
    assert_eq!(printed.lines().count(), 2 + 4 + 1, "{printed}");
    assert!(printed.ends_with("without 1 us of launch overhead (H200)\n"), "{printed}");
    assert!(printed.starts_with("compat: cache cold_clean, clocks free\n"), "{printed}");
    assert!(!printed.contains('\u{1b}'));
    assert!(printed.contains("650.0 ns") && printed.contains("2.0000"), "{printed}");
    Ok(())
}

#[test]
fn a_report_is_written_as_a_dataset() -> TestOutcome {
    let report = measured()?;
    let folder = tempfile::tempdir()?;
    let output = folder.path().join("bench.cuprof");
    report.write(&output)?;
    let dataset = Dataset::open(&output)?;
    assert_eq!(dataset.rows(Table::Samples), report.samples().len() as u64);
    assert_eq!(dataset.rows(Table::Aggregates), report.aggregates().len() as u64);
    assert_eq!(dataset.rows(Table::Compat), 2 * 2 * 3);
    // 2 configurations, 3 runs, 3 metrics of each annotation, and a row for each of its kernels.
    assert_eq!(report.samples().len(), 2 * 3 * (3 + 1 + 3 + 2));
    assert!(report.write(&output).is_err(), "nothing is overwritten");
    Ok(())
}

#[test]
fn parameters_are_a_json_object() -> TestOutcome {
    let report = measured()?;
    assert_eq!(report.config_json(1), r#"{"n":128,"name":"c\"d\ne"}"#);
    Ok(())
}

/// A configuration that has more parameters than another.
enum Tiling {
    None,
    Square { side: u32, scale: f64 },
}

impl Config for Tiling {
    fn parameters(&self) -> Vec<(String, Value)> {
        let named = |name: &str, value: Value| (name.to_owned(), value);
        match self {
            Self::None => vec![named("scale", 1.into())],
            Self::Square { side, scale } => {
                vec![
                    named("tiled", true.into()),
                    named("side", (*side).into()),
                    named("scale", (*scale).into()),
                ]
            }
        }
    }
}

#[test]
fn parameters_become_typed_columns_that_are_null_where_a_configuration_lacks_them() -> TestOutcome {
    let gpu = Gpu::default();
    let configs = [Tiling::None, Tiling::Square { side: 16, scale: 0.5 }];
    let report = gpu.run(Bench::new("tiling").configs(configs).warm_up(0).runs(1), |run, _| {
        run.measure("work", || gpu.launch("k", 1_000));
    })?;
    assert_eq!(report.config_text(0), "scale=1");
    assert_eq!(report.config_json(1), r#"{"scale":0.5,"tiled":true,"side":16}"#);
    let folder = tempfile::tempdir()?;
    let output = folder.path().join("bench.cuprof");
    report.write(&output)?;
    let batches = Dataset::open(&output)?.read(Table::Aggregates)?;
    let first = |name: &str| batches[0].column_by_name(name).ok_or("no such column");
    // A row each of the sum, the span and the busy time of a configuration, and of its kernel.
    let (scale, side, tiled) = (first("p_scale")?, first("p_side")?, first("p_tiled")?);
    assert_eq!(scale.as_primitive::<Float64Type>().values()[..], [1.0, 1.0, 1.0, 1.0, 0.5, 0.5, 0.5, 0.5]);
    assert_eq!((side.null_count(), side.as_primitive::<Int64Type>().value(4)), (4, 16));
    assert_eq!((tiled.null_count(), tiled.as_boolean().value(4)), (4, true));
    Ok(())
}

#[test]
fn the_compatible_table_in_a_dataset_is_that_of_the_csv() -> TestOutcome {
    let report = measured()?;
    let folder = tempfile::tempdir()?;
    let output = folder.path().join("bench.cuprof");
    report.write(&output)?;
    let batches = Dataset::open(&output)?.read(Table::Compat)?;
    let schema = batches[0].schema();
    let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    let csv = parsed(&report.compat_csv());
    assert_eq!(names, csv[0]);
    for (at, name) in names.iter().enumerate() {
        let column = batches[0].column(at);
        for (row, cells) in csv[1..].iter().enumerate() {
            let cell = &cells[at];
            if column.is_null(row) {
                assert_eq!(cell, "", "{name}");
                continue;
            }
            let text = match column.data_type() {
                DataType::Int64 => column.as_primitive::<Int64Type>().value(row).to_string(),
                DataType::Float64 => format!("{:?}", column.as_primitive::<Float64Type>().value(row)),
                DataType::Boolean => if column.as_boolean().value(row) { "True" } else { "False" }.to_owned(),
                _ => {
                    let words = column.as_dictionary::<Int32Type>();
                    let key = words.keys().value(row) as usize;
                    words.values().as_string::<i32>().value(key).to_owned()
                }
            };
            assert_eq!(text, *cell, "{name}");
        }
    }
    // The simulated device's, as numbers; a driver that does not tell them leaves them null.
    let clock = |name: &str| batches[0].column_by_name(name).map(|column| column.as_primitive::<Int64Type>());
    assert_eq!(clock("ComputeClock").map(|clock| clock.value(0)), Some(1_980_000));
    assert_eq!(clock("MemoryClock").map(|clock| clock.null_count()), Some(batches[0].num_rows()));
    Ok(())
}

#[test]
fn a_report_that_is_read_back_is_the_one_that_was_written() -> TestOutcome {
    let folder = tempfile::tempdir()?;
    let written = measured()?;
    written.write(folder.path().join("a.cuprof"))?;
    let read = Report::open(folder.path().join("a.cuprof"))?;
    assert_eq!(read.to_string(), written.to_string());
    assert_eq!((read.markdown(), read.csv()), (written.markdown(), written.csv()));
    assert_eq!(read.compat_csv(), written.compat_csv());
    assert_eq!((read.samples(), read.aggregates()), (written.samples(), written.aggregates()));
    assert_eq!(read.warnings(), written.warnings());
    let sorted = |pairs: &[(String, String)]| {
        let mut pairs = pairs.to_vec();
        pairs.sort();
        pairs
    };
    assert_eq!((sorted(&read.facts), sorted(&read.notes)), (sorted(&written.facts), sorted(&written.notes)));
    // Once more: nothing is added by reading.
    read.write(folder.path().join("b.cuprof"))?;
    assert_eq!(Report::open(folder.path().join("b.cuprof"))?, read);
    Ok(())
}

#[test]
fn what_was_counted_is_in_the_files_and_read_back_from_them() -> TestOutcome {
    const BYTES: &str = "dram__bytes_read.sum";
    let gpu = Gpu::default();
    gpu.counts_each_time("work", BYTES, &[64.0, 65.0]);
    let bench = Bench::new("counted").configs([1_i64, 2]).parameters(["n"]).warm_up(0).runs(2);
    let report = gpu.run(bench.metrics([BYTES]).counter_runs(2), |run, n| {
        run.measure("work", || gpu.launch("k", 1_000 * n));
        run.measure("other", || gpu.launch("k", 500));
    })?;
    let folder = tempfile::tempdir()?;
    let (a, b) = (folder.path().join("a.cuprof"), folder.path().join("b.cuprof"));
    report.write(&a)?;
    let batches = Dataset::open(&a)?.read(Table::Metrics)?;
    // Two configurations, counted twice, of two annotations.
    assert_eq!(batches.iter().map(|batch| batch.num_rows()).sum::<usize>(), 2 * 2 * 2);
    let whole =
        |name: &str| Some(batches[0].column_by_name(name)?.as_primitive::<Int64Type>().values().to_vec());
    assert_eq!(whole("config_index"), Some(vec![0, 0, 0, 0, 1, 1, 1, 1]));
    assert_eq!(whole("run"), Some(vec![0, 0, 1, 1, 0, 0, 1, 1]));
    assert_eq!(whole("range_index"), Some(vec![0, 1, 0, 1, 0, 1, 0, 1]));
    let read = Report::open(&a)?;
    assert_eq!((&read.counted, read.samples()), (&report.counted, report.samples()));
    read.write(&b)?;
    assert_eq!(Report::open(&b)?, read);
    Ok(())
}

#[test]
fn a_trace_is_no_report() -> TestOutcome {
    let folder = tempfile::tempdir()?;
    let trace = folder.path().join("trace.cuprof");
    crate::Replay::open("examples/recordings/graph.cuprofrec")?.output(&trace).run()?;
    let error = Report::open(&trace).err().ok_or("a report of a trace")?;
    assert!(error.to_string().contains("holds no measurement"), "{error}");
    let error = Report::open(folder.path()).err().ok_or("a report of nothing")?;
    assert_eq!(error.kind, crate::ErrorKind::Format);
    Ok(())
}
