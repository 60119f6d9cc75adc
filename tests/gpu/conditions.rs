//! Clocks, heat and throttling of a real GPU, as NVML tells them. Nothing is changed.

use std::process::Command;

use cuprof::{GpuMonitor, MarginSource, Thermal, ThermalGuard};
use cuprof_workload::work;

use crate::Outcome;
use crate::session::{gpu, turn};

#[test]
#[ignore = "needs a GPU with NVML"]
fn the_gpu_of_the_context_is_read_and_a_load_shows_in_its_clocks() -> Outcome {
    let _turn = turn();
    let gpu = gpu()?;
    let stream = gpu.stream()?;
    let monitor = GpuMonitor::of_current_context(None)?;
    let idle = monitor.read();
    let run = monitor.watch();
    let began = std::time::Instant::now();
    work::spin(&gpu, &stream, 200_000_000)?;
    let spun = began.elapsed();
    let reading_began = std::time::Instant::now();
    let conditions = run.end();
    let reading = reading_began.elapsed();
    println!(
        r#"{{"test":"conditions","gpu":"{}","uuid":"{}","idle_sm_mhz":{:?},"conditions":"{conditions}","spun_ms":{},"reading_us":{},"margin":"{:?}"}}"#,
        gpu.describe(),
        monitor.uuid(),
        idle.sm_clock_mhz,
        spun.as_millis(),
        reading.as_micros(),
        idle.thermal_margin,
    );
    assert!(monitor.uuid().starts_with("GPU-"), "a physical GPU");
    assert!(conditions.sm_clock_mhz.is_some_and(|mhz| mhz > 0), "{conditions}");
    assert!(conditions.memory_clock_mhz.is_some_and(|mhz| mhz > 0), "{conditions}");
    assert!(conditions.temperature_c.is_some_and(|degrees| (0..120).contains(&degrees)), "{conditions}");
    assert!(conditions.throttle.is_some(), "{conditions}");
    Ok(())
}

#[test]
#[ignore = "needs a GPU with NVML"]
fn what_is_read_is_what_nvidia_smi_prints() -> Outcome {
    let _turn = turn();
    let gpu = gpu()?;
    gpu.bind()?;
    let monitor = GpuMonitor::of_current_context(None)?;
    let query = "uuid,clocks.max.sm,temperature.gpu";
    let output = Command::new("nvidia-smi")
        .args([
            &format!("--id={}", monitor.uuid()),
            &format!("--query-gpu={query}"),
            "--format=csv,noheader,nounits",
        ])
        .output();
    let Ok(output) = output else {
        println!("skipped: there is no nvidia-smi");
        return Ok(());
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let fields: Vec<_> = text.trim().split(", ").collect();
    println!("nvidia-smi: {text}");
    assert_eq!(fields.first().copied(), Some(monitor.uuid()));
    let temperature: i32 = fields.get(2).ok_or("no temperature")?.parse()?;
    let read = monitor.read().temperature_c.ok_or("no temperature")?;
    assert!((read - temperature).abs() <= 5, "{read} C against {temperature} C");
    Ok(())
}

#[test]
#[ignore = "needs a GPU with NVML"]
fn a_cool_gpu_is_not_waited_for() -> Outcome {
    let _turn = turn();
    let gpu = gpu()?;
    gpu.bind()?;
    let mut heat = ThermalGuard::of_current_context(Thermal::Auto, None)?;
    let began = std::time::Instant::now();
    let pause = heat.before_run()?;
    let asked = began.elapsed();
    println!(
        r#"{{"test":"heat","gpu":"{}","report":"{}","source":"{:?}","asked_us":{}}}"#,
        gpu.describe(),
        heat.report(),
        heat.report().source,
        asked.as_micros()
    );
    let source = heat.report().source.ok_or_else(|| format!("no margin: {:?}", heat.report().message))?;
    assert!(matches!(source, MarginSource::Margin | MarginSource::Threshold));
    if pause.is_none() {
        assert!(asked < std::time::Duration::from_secs(1), "asking took {asked:?}");
    }
    Ok(())
}
