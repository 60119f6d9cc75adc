//! The tutorials: each ends well only where everything that it claims of its numbers holds.

use cuprof_workload::Gpu;

use crate::Outcome;
use crate::example::ends_well;
use crate::session::turn;

macro_rules! tutorials {
    ($($test:ident: $example:literal),* $(,)?) => {$(
        #[test]
        #[ignore = "needs a GPU"]
        fn $test() -> Outcome {
            let _turn = turn();
            // In a process of its own; this one leaves the GPU alone.
            Gpu::probe().map_err(|reason| format!("no GPU to test on: {reason}"))?;
            ends_well($example)
        }
    )*};
}

tutorials! {
    one_kernel: "tutorial_01_one_kernel",
    spread: "tutorial_02_spread",
    cache_and_clocks: "tutorial_03_cache_and_clocks",
    sweep: "tutorial_04_sweep",
    what_limits: "tutorial_05_what_limits",
    fusion: "tutorial_06_fusion",
    collectors_and_heat: "tutorial_07_collectors_and_heat",
    beside_nsight_compute: "tutorial_08_beside_nsight_compute",
    evidence: "tutorial_09_evidence",
    graph_on_a_worker: "tutorial_10_graph_on_a_worker",
}
