//! What the command does with measurements. Their values are made up here: no recording has any.

use std::path::Path;
use std::process::Command;

use cuprof::testing::{Measured, write_counted, write_measured, write_measured_and_counted};

use crate::run::{Outcome, root, run};

/// Names and values, the values as JSON.
type Parameters<'a> = &'a [(&'a str, String)];

/// A duration in runs that are all a little different. `waver` is by how much, as a part of it.
fn measured(parameters: Parameters<'_>, annotation: &str, runs: u32, centre_ns: f64, waver: f64) -> Measured {
    let value = |run: u32| centre_ns * (1.0 + waver * (f64::from(run * run * 7 % 23) / 23.0 - 0.4));
    Measured {
        parameters: parameters.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect(),
        annotation: annotation.to_owned(),
        metric: ("gpu__time_duration.sum".to_owned(), "ns".to_owned()),
        values: (0..runs).map(|run| Some(value(run).round())).collect(),
    }
}

const FACTS: [(&str, &str); 5] = [
    ("bench.name", "precision"),
    ("process.id", "7"),
    ("gpu.name", "NVIDIA H200"),
    ("bench.cache_state", "cold_clean"),
    ("bench.clock_mode", "free"),
];

/// Sizes with two annotations, of which one run failed each.
fn sweep() -> Vec<Measured> {
    let of = |n: u32, annotation: &str, cost: f64| {
        let mut of =
            measured(&[("n", n.to_string())], annotation, 12, cost * f64::from(n) * f64::from(n) / 80.0, 0.2);
        of.values[5] = None;
        of
    };
    [256, 512, 1_024, 2_048, 4_096]
        .into_iter()
        .flat_map(|n| [of(n, "fp32", 1.0), of(n, "fp16", 0.6)])
        .collect()
}

/// One configuration without parameters, of three annotations.
fn one() -> Vec<Measured> {
    [("copy", 9_000.0), ("scale", 11_500.0), ("triad", 14_200.0)]
        .map(|(name, ns)| measured(&[], name, 20, ns, 0.1))
        .into()
}

/// Forty kinds of work, by name.
fn forty() -> Vec<Measured> {
    (0..40_u32)
        .map(|i| {
            let kernel =
                format!("\"layer_{i:02}_{}\"", ["attention", "mlp", "norm", "residual"][i as usize % 4]);
            measured(&[("layer", kernel)], "forward", 10, 20_000.0 + 1_500.0 * f64::from(i * i % 17), 0.15)
        })
        .collect()
}

/// Kernels with the names that C++ gives them, in two runs each.
fn long_names() -> Vec<Measured> {
    let names = [
        "void cutlass::Kernel2<cutlass_80_tensorop_f16_s16816gemm_relu_f16_256x128_32x3_nn_align8>(cutlass::Params)",
        "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3>>(int)",
        "void flash::flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<128, 64, 128, 4>, true, false>(Flash_params)",
    ];
    let of = |(name, ns): (&str, f64)| {
        [1, 8].map(|batch| measured(&[("batch", batch.to_string())], name, 2, ns * f64::from(batch), 0.3))
    };
    names.into_iter().zip([30_000.0, 12_000.0, 55_000.0]).flat_map(of).collect()
}

/// From a microsecond to a second, with three parameters.
fn wide() -> Vec<Measured> {
    let mut all = Vec::new();
    for (tile, cost) in [("64x64", 1.0), ("128x64", 0.7), ("128x128", 0.55)] {
        for dtype in ["fp16", "fp32"] {
            for power in [10_u32, 13, 16, 19, 22, 25, 28, 30] {
                let n = 1_u64 << power;
                let ns = cost * n as f64 * if dtype == "fp32" { 1.0 } else { 0.5 };
                let parameters = [
                    ("n", n.to_string()),
                    ("dtype", format!("\"{dtype}\"")),
                    ("tile", format!("\"{tile}\"")),
                ];
                all.push(measured(&parameters, "scan", 8, ns, 0.4));
            }
        }
    }
    all
}

/// Some that never ran, and one that ran once.
fn failed() -> Vec<Measured> {
    let mut all: Vec<Measured> = [1, 2, 4, 8, 16]
        .map(|gib| measured(&[("gib", gib.to_string())], "sort", 9, 1e6 * f64::from(gib), 0.1))
        .into();
    all[3].values.truncate(1);
    all[4].values.iter_mut().for_each(|value| *value = None);
    all
}

/// A thousand runs with two states, and some that are far out.
fn many() -> Vec<Measured> {
    let value = |run: u32, high: f64| {
        let state = if run.is_multiple_of(5) { high } else { 0.0 };
        let tail = if run.is_multiple_of(97) { 9_000.0 } else { 0.0 };
        Some((10_000.0 + state + tail + f64::from(run * 7_919 % 1_009)).round())
    };
    let of = |name: &str, high: f64| Measured {
        values: (0..1_000).map(|run| value(run, high)).collect(),
        ..measured(&[], name, 0, 0.0, 0.0)
    };
    vec![of("warm", 2_500.0), of("cold", 4_000.0)]
}

/// A chip, and what ranges did on it.
fn counted(folder: &Path) -> Outcome {
    let ops = |precision: char, operation: &str| {
        format!("smsp__sass_thread_inst_executed_op_{precision}{operation}_pred_on.sum")
    };
    let peak = |precision: char| {
        format!("sm__sass_thread_inst_executed_op_{precision}fma_pred_on.sum.peak_sustained")
    };
    let range = |time_ns: f64, bytes: f64, fma: f64| {
        let mut metrics = vec![
            ("gpu__time_duration.sum".to_owned(), time_ns),
            ("sm__cycles_elapsed.avg.per_second".to_owned(), 1.755e9),
            ("dram__cycles_elapsed.avg.per_second".to_owned(), 3.2e9),
            ("dram__bytes.sum".to_owned(), bytes),
            ("dram__bytes.sum.peak_sustained".to_owned(), 1_500.0),
        ];
        for (precision, done, most) in
            [('f', fma, 16_896.0), ('d', fma / 40.0, 8_448.0), ('h', 0.0, 33_792.0)]
        {
            metrics.extend([
                (ops(precision, "add"), 0.0),
                (ops(precision, "mul"), 0.0),
                (ops(precision, "fma"), done),
            ]);
            metrics.push((peak(precision), most));
        }
        metrics
    };
    let ranges = [
        ("step/gemm", range(2.4e6, 1.5e8, 5.5e10)),
        ("step/softmax", range(9.1e4, 3.9e8, 2.2e8)),
        ("step/stencil", range(4.4e5, 6.1e8, 3.3e9)),
        ("step/stencil", range(4.6e5, 6.2e8, 3.3e9)),
        ("load/copy", range(1.2e5, 5.4e8, 0.0)),
    ];
    let ranges: Vec<(&str, Vec<(&str, f64)>)> = ranges
        .iter()
        .map(|(path, metrics)| (*path, metrics.iter().map(|(name, value)| (name.as_str(), *value)).collect()))
        .collect();
    let ranges: Vec<(&str, &[(&str, f64)])> =
        ranges.iter().map(|(path, metrics)| (*path, metrics.as_slice())).collect();
    Ok(write_counted(folder, &ranges, &FACTS)?)
}

pub fn write_sweep(dataset: &Path) -> Outcome {
    Ok(write_measured(dataset, &sweep(), Some("fp32"), &FACTS)?)
}

/// Writes all of them into a folder: `sweep.cuprof` and so on.
pub fn write_all(folder: &Path) -> Outcome {
    let at = |name: &str| folder.join(name).with_extension("cuprof");
    write_sweep(&at("sweep"))?;
    for (name, measured) in [
        ("one", one()),
        ("forty", forty()),
        ("long_names", long_names()),
        ("wide", wide()),
        ("failed", failed()),
        ("many", many()),
    ] {
        write_measured(&at(name), &measured, None, &FACTS)?;
    }
    counted(&at("counted"))
}

#[test]
fn a_report_is_printed_from_its_files() -> Outcome {
    let folder = tempfile::tempdir()?;
    let dataset = folder.path().join("sweep.cuprof");
    write_sweep(&dataset)?;
    let report = cuprof::bench::Report::open(&dataset)?;
    let path = dataset.to_string_lossy();
    for (format, expected) in [
        ("text", report.to_string()),
        ("markdown", report.markdown()),
        ("csv", report.csv()),
        ("compat", report.compat_csv()),
    ] {
        let run = run(["report", &path, "--format", format])?.expect(0)?;
        assert_eq!(run.out, expected, "{format}");
        // Of a dataset whose parameters are no columns, the configurations are one.
        assert!(run.out.contains("fp16") && run.out.contains("n=4096"), "{run:?}");
    }
    std::fs::remove_file(dataset.join("losses-00000.parquet"))?;
    for (format, first) in
        [("text", "note: the dataset was not closed"), ("markdown", "**note: the dataset was not closed")]
    {
        let incomplete = run(["report", &path, "--format", format])?.expect(65)?;
        assert!(incomplete.out.starts_with(first), "{format}: {}", incomplete.out);
    }
    let trace = run(["report", "quickstart.cuprof"])?.expect(65)?;
    assert!(trace.err.contains("holds no measurement") && trace.err.contains("cuprof summary"), "{trace:?}");
    Ok(())
}

#[test]
fn a_measurement_with_counters_is_read_by_each_command() -> Outcome {
    let folder = tempfile::tempdir()?;
    let dataset = folder.path().join("both.cuprof");
    let counted = [
        ("gpu__time_duration.sum", 1e6),
        ("sm__cycles_elapsed.avg.per_second", 1.7e9),
        ("dram__cycles_elapsed.avg.per_second", 3.2e9),
        ("dram__bytes.sum", 1e6),
        ("dram__bytes.sum.peak_sustained", 1_500.0),
        ("sm__sass_thread_inst_executed_op_ffma_pred_on.sum.peak_sustained", 16_896.0),
        ("smsp__sass_thread_inst_executed_op_fadd_pred_on.sum", 0.0),
        ("smsp__sass_thread_inst_executed_op_fmul_pred_on.sum", 0.0),
        ("smsp__sass_thread_inst_executed_op_ffma_pred_on.sum", 5e6),
    ];
    let ranges: [(&str, &[(&str, f64)]); 2] = [("fp32", &counted), ("fp16", &counted)];
    write_measured_and_counted(&dataset, &sweep(), &[&ranges, &ranges], &FACTS)?;
    let path = dataset.to_string_lossy();
    let report = run(["report", &path])?.expect(0)?;
    assert!(report.out.contains("fp16"), "{report:?}");
    run(["summary", &path])?.expect(0)?;
    run(["compare", &path, &path])?.expect(2)?;
    let trace = folder.path().join("both.pftrace");
    run(["trace", &path, "--output", &trace.to_string_lossy()])?.expect(0)?;
    for (kind, shows) in [("times", "fp16"), ("samples", "fp16"), ("roofline", "fp32, n=512")] {
        let picture = folder.path().join(kind).with_extension("svg");
        run(["plot", &path, "--kind", kind, "--output", &picture.to_string_lossy()])?.expect(0)?;
        assert!(std::fs::read_to_string(&picture)?.contains(shows), "{kind}");
    }
    Ok(())
}

#[test]
fn a_summary_of_what_has_no_records_says_what_else_is_there() -> Outcome {
    let folder = tempfile::tempdir()?;
    write_sweep(&folder.path().join("sweep.cuprof"))?;
    counted(&folder.path().join("counted.cuprof"))?;
    for (name, next) in [("sweep", "`cuprof report`"), ("counted", "`cuprof plot --kind roofline`")] {
        let path = folder.path().join(name).with_extension("cuprof");
        let found = run(["summary", &path.to_string_lossy()])?.expect(0)?;
        assert!(found.err.starts_with("note: ") && found.err.contains(next), "{name}: {}", found.err);
    }
    Ok(())
}

/// Set `CUPROF_PYTHON` to an interpreter with what `tests/py/check_command.py` needs.
#[test]
#[ignore = "needs CUPROF_PYTHON"]
fn perfetto_sees_the_runs_of_a_measurement_and_their_conditions() -> Outcome {
    let python = std::env::var_os("CUPROF_PYTHON").ok_or("CUPROF_PYTHON names no interpreter")?;
    let folder = tempfile::tempdir()?;
    let dataset = folder.path().join("sweep.cuprof");
    write_sweep(&dataset)?;
    let output = Command::new(python)
        .arg(root().join("tests/py/check_command.py"))
        .arg(env!("CARGO_BIN_EXE_cuprof"))
        .arg(&dataset)
        .output()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    println!("{}", String::from_utf8_lossy(&output.stdout));
    Ok(())
}
