//! Runs that wait for a GPU to cool down, by what the simulated NVML tells.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use cuprof::{Bench, ErrorKind, GpuMonitor, MarginSource, Thermal, ThermalGuard};

use crate::Outcome;
use crate::library::Simulated;
use crate::process::{Process, libraries};

const GPU: &str = "GPU-abababab-abab-abab-abab-abababababab";
const OTHER: &str = "GPU-01010101-0101-0101-0101-010101010101";

fn process<Test: Fn() -> Outcome>(test: Test) -> Process {
    Process::of(test).with("CUPROF_NVML_PATH", libraries().join("libnvidia-ml.so.1"))
}

#[test]
fn a_hot_gpu_is_waited_for_by_nvmls_own_margin() -> Outcome {
    let process = process(a_hot_gpu_is_waited_for_by_nvmls_own_margin);
    // The first is asked for at the opening.
    process.with("SIM_NVML_MARGIN", "9,9,12,20,21").run(|| {
        let told = Arc::new(Mutex::new(Vec::new()));
        let teller = Arc::clone(&told);
        let mut heat = ThermalGuard::of_current_context(Thermal::Auto, None)?
            .on_wait(move |wait| teller.lock().unwrap().push(wait.to_string()));
        let pause = heat.before_run()?.ok_or("no pause")?;
        assert_eq!((pause.margin_before_c, pause.margin_after_c, pause.wanted_margin_c), (9, 20, 20));
        assert!(pause.waited >= Duration::from_millis(100), "two polls: {:?}", pause.waited);
        assert_eq!(heat.before_run()?, None);
        let report = heat.report();
        assert_eq!((report.gpu_uuid.as_deref(), report.source), (Some(GPU), Some(MarginSource::Margin)));
        assert_eq!((report.pauses.len(), report.runs, report.waited), (1, 2, pause.waited));
        let told = told.lock().unwrap();
        assert_eq!(told.len(), 1);
        assert!(told[0].contains("9 C to its slow-down limit, 20 C wanted"), "{told:?}");
        Ok(())
    })
}

#[test]
fn without_nvmls_margin_it_is_the_threshold_minus_the_temperature() -> Outcome {
    let process = process(without_nvmls_margin_it_is_the_threshold_minus_the_temperature);
    process.with("SIM_NVML_TEMPERATURE", "60,85,70").run(|| {
        let mut heat = ThermalGuard::open(Thermal::Auto, GPU, None)?;
        assert_eq!(heat.report().source, Some(MarginSource::Threshold));
        let pause = heat.before_run()?.ok_or("no pause")?;
        assert_eq!((pause.margin_before_c, pause.margin_after_c), (5, 20));
        Ok(())
    })
}

#[test]
fn a_gpu_that_stays_hot_is_an_error_after_the_budget() -> Outcome {
    let process = process(a_gpu_that_stays_hot_is_an_error_after_the_budget);
    process.with("SIM_NVML_MARGIN", "3").run(|| {
        let mut heat = ThermalGuard::open(Thermal::Auto, GPU, None)?.budget(Duration::from_millis(120));
        let error = heat.before_run().err().ok_or("it went on")?;
        assert_eq!(error.kind, ErrorKind::Timeout);
        assert!(error.to_string().contains("3 C to its slow-down limit, 20 C wanted"), "{error}");
        assert!(heat.report().waited >= Duration::from_millis(120));
        Ok(())
    })
}

#[test]
fn the_gpu_is_found_by_its_uuid_and_not_by_its_number() -> Outcome {
    let process = process(the_gpu_is_found_by_its_uuid_and_not_by_its_number);
    let folder = crate::process::folder()?;
    let journal = folder.path().join("journal");
    process.with("SIM_NVML_JOURNAL", &journal).run(|| {
        let journal = crate::process::given("SIM_NVML_JOURNAL");
        let monitor = GpuMonitor::open(OTHER, None)?;
        assert_eq!(monitor.uuid(), OTHER);
        let mut heat = ThermalGuard::open(Thermal::Auto, OTHER, None)?;
        heat.before_run()?;
        let text = std::fs::read_to_string(journal)?;
        let asked: Vec<_> =
            text.lines().filter(|line| line.starts_with("nvmlDeviceGetTemperature")).collect();
        assert!(!asked.is_empty() && asked.iter().all(|line| line.ends_with(" 2")), "{asked:?}");
        Ok(())
    })
}

#[test]
fn a_gpu_that_tells_no_margin_is_not_watched_and_that_is_said() -> Outcome {
    let process = process(a_gpu_that_tells_no_margin_is_not_watched_and_that_is_said);
    process.with("SIM_NVML_FAIL", "nvmlDeviceGetTemperatureThreshold:3").run(|| {
        let mut heat = ThermalGuard::open(Thermal::Auto, GPU, None)?;
        assert_eq!(heat.before_run()?, None);
        assert!(heat.watch().is_none());
        let message = heat.report().message.clone().unwrap_or_default();
        assert!(message.contains("nvmlDeviceGetTemperatureThreshold"), "{message}");
        let mut absent = ThermalGuard::open(Thermal::Auto, GPU, Some("/nowhere/nvml.so".as_ref()))?;
        assert_eq!(absent.before_run()?, None);
        assert!(absent.report().to_string().contains("NVML not found"), "{}", absent.report());
        let mut off = ThermalGuard::open(Thermal::Off, GPU, Some("/nowhere/nvml.so".as_ref()))?;
        assert_eq!((off.before_run()?, off.report().message.clone()), (None, None));
        let error = ThermalGuard::open(Thermal::Auto, "GPU-0", None).err().ok_or("it was found")?;
        assert_eq!(error.kind, ErrorKind::NoDevice);
        Ok(())
    })
}

#[test]
fn a_measurement_of_a_gpu_that_stays_hot_ends_after_its_budget() -> Outcome {
    let process = process(a_measurement_of_a_gpu_that_stays_hot_ends_after_its_budget);
    process.with("SIM_NVML_MARGIN", "3").run(|| {
        let cupti = Simulated::get();
        let bench = Bench::new("hot").runs(3).thermal_budget(Duration::from_millis(120)).progress(false);
        let failed = bench.run(|run, ()| {
            run.measure("work", || {
                cupti.launch(1);
            });
        });
        let error = failed.err().ok_or("it went on")?.error;
        assert_eq!(error.kind, ErrorKind::Timeout);
        assert!(error.to_string().contains("3 C to its slow-down limit"), "{error}");
        Ok(())
    })
}
