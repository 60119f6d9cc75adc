//! Tutorials that need nothing but a driver and CUPTI, on the simulated ones. What they print is right there too, but for
//! times: those are the simulation's.

use std::fs;
use std::path::Path;

use crate::Outcome;
use crate::example::{ends_well, run};
use crate::process::{Process, libraries};

fn on_simulated_libraries(process: Process) -> Process {
    process.with("SIM_CUDA_RUNS", "1").with("CUPROF_NVML_PATH", libraries().join("libnvidia-ml.so.1"))
}

#[test]
fn without_a_gpu_each_tutorial_says_so_and_shows_what_it_can() -> Outcome {
    let process = Process::of(without_a_gpu_each_tutorial_says_so_and_shows_what_it_can);
    process.with("SIM_CUDA_FAIL", "cuInit:100").run(|| {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
        let names = fs::read_dir(folder)?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let names = names.filter_map(|name| name.strip_suffix(".rs").map(str::to_owned));
        let tutorials: Vec<_> = names.filter(|name| name.starts_with("tutorial_")).collect();
        assert_eq!(tutorials.len(), 10);
        for name in tutorials {
            let Some(output) = run(&name)? else { continue };
            let (printed, errors) = (String::from_utf8(output.stdout)?, String::from_utf8(output.stderr)?);
            assert_eq!((output.status.code(), errors.as_str()), (Some(0), ""), "{name}");
            let (said, shown) = printed.split_once("\n\n").ok_or_else(|| format!("{name}: {printed}"))?;
            assert!(said.starts_with(&format!("{name}: not measured, no GPU here: ")), "{said}");
            assert!(!shown.trim().is_empty(), "{name} shows nothing");
        }
        Ok(())
    })
}

#[test]
fn a_tutorial_counts_the_kernels_of_its_annotations() -> Outcome {
    on_simulated_libraries(Process::of(a_tutorial_counts_the_kernels_of_its_annotations))
        .run(|| ends_well("tutorial_01_one_kernel"))
}

#[test]
fn a_tutorial_tells_the_spread_of_its_runs() -> Outcome {
    on_simulated_libraries(Process::of(a_tutorial_tells_the_spread_of_its_runs))
        .run(|| ends_well("tutorial_02_spread"))
}

#[test]
fn a_tutorial_rebuilds_its_evidence() -> Outcome {
    on_simulated_libraries(Process::of(a_tutorial_rebuilds_its_evidence))
        .run(|| ends_well("tutorial_09_evidence"))
}

#[test]
fn a_tutorial_places_the_nodes_of_a_graph_that_a_worker_launches() -> Outcome {
    on_simulated_libraries(Process::of(a_tutorial_places_the_nodes_of_a_graph_that_a_worker_launches))
        .run(|| ends_well("tutorial_10_graph_on_a_worker"))
}

#[test]
fn a_tutorial_whose_claim_does_not_hold_fails() -> Outcome {
    let process = on_simulated_libraries(Process::of(a_tutorial_whose_claim_does_not_hold_fails));
    process.with("NCU", "/nowhere/ncu").run(|| {
        // Simulated kernels take longer and longer, in one process other times than in a fresh one.
        let Some(output) = run("tutorial_08_beside_nsight_compute")? else { return Ok(()) };
        let (printed, errors) = (String::from_utf8(output.stdout)?, String::from_utf8(output.stderr)?);
        assert!(printed.contains("counting is refused while a session traces"), "{printed}\n{errors}");
        assert!(errors.starts_with("error: this does not hold: 512 rows: after counting"), "{errors}");
        assert_eq!(output.status.code(), Some(1));
        Ok(())
    })
}
