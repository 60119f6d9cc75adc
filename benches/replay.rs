//! What it costs to make tables of a recording, on one thread: `cargo bench --bench replay`.
//!
//! The recordings in `examples/recordings` are repeated, with fresh ids and later times, until they hold some two
//! million kernels. Each is then replayed several times as far as each stage, and in full; the cost of a stage is the
//! difference to the stage before. Time is the processor time of the one thread that does everything, so that other
//! programs on the machine count only through the caches that they share; the wall time of the whole run stands
//! beside it.
//!
//! Results: `benches/results/replay.md`.
//!
//! Options, after `--`: a number of kernels (default 2 100 000), `repeat N` (default 5), `only NAME` for one input,
//! `keep DIR` to keep the recordings and the datasets, `full` to leave out the stages (for a profiler).
//!
//! What could make the numbers wrong: a shared machine (hence medians with their spread); copies that are too much
//! alike, and so compress too well (hence times that waver); a file system that is slower than this one.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout)]

use std::path::{Path, PathBuf};
use std::time::Instant;

use cuprof::testing::{Enlarged, Ranges, Stage, enlarge, replay_up_to};
use cuprof::{Profile, Replay, Table};

struct Input {
    name: &'static str,
    recording: &'static str,
    ranges: Ranges,
}

const INPUTS: [Input; 4] = [
    Input { name: "quick start", recording: "quickstart", ranges: Ranges::Recorded },
    Input { name: "CUDA graph", recording: "graph", ranges: Ranges::Recorded },
    Input { name: "1000 kernels a range", recording: "quickstart", ranges: Ranges::Every(1000) },
    Input { name: "one kernel a range", recording: "quickstart", ranges: Ranges::Every(1) },
];

/// The stages in their order, each including those before.
const STAGES: [&str; 5] = ["read", "decode", "attribute", "summary", "write"];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let value_of = |key: &str| {
        let at = arguments.iter().position(|argument| argument == key)?;
        arguments.get(at + 1)
    };
    let kernels = arguments.first().and_then(|count| count.parse().ok()).unwrap_or(2_100_000);
    let repetitions = value_of("repeat").and_then(|count| count.parse().ok()).unwrap_or(5);
    let temporary = tempfile::tempdir().unwrap();
    let folder = value_of("keep").map_or_else(|| temporary.path().to_owned(), PathBuf::from);
    let stages = !arguments.iter().any(|argument| argument == "full");
    let inputs = INPUTS.iter().filter(|input| value_of("only").is_none_or(|only| only == input.name));

    let measured: Vec<Measured> =
        inputs.map(|input| measure(input, kernels, repetitions, stages, &folder)).collect();
    println!(
        "| input | kernel rows | all rows | M kernel rows/s | spread | M rows/s | wall: M kernel rows/s | bytes/launch row | peak RSS |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    for measured in &measured {
        measured.print_rate();
    }
    if !stages {
        return;
    }
    println!("\nCost of each stage in ns per kernel row (median of {repetitions}):\n");
    println!("| input | {} | all |", STAGES.join(" | "));
    println!("|---|---|---|---|---|---|---|");
    for measured in &measured {
        measured.print_stages();
    }
}

struct Measured {
    name: &'static str,
    made: Enlarged,
    rows: u64,
    /// Processor seconds of each repetition, by stage.
    cpu: [Vec<f64>; STAGES.len()],
    /// Wall seconds of the full runs.
    wall: Vec<f64>,
    launches_bytes: u64,
    peak_kib: u64,
}

fn measure(input: &Input, kernels: u64, repetitions: usize, stages: bool, folder: &Path) -> Measured {
    let recordings = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/recordings");
    let small = recordings.join(input.recording).with_extension("cuprofrec");
    let name = input.name.replace(' ', "_");
    let large = folder.join(&name).with_extension("cuprofrec");
    let dataset = folder.join(&name).with_extension("cuprof");
    let made = enlarge(&small, input.ranges, kernels, &large).unwrap();
    let mut measured = Measured {
        name: input.name,
        made,
        rows: 0,
        cpu: Default::default(),
        wall: Vec::new(),
        launches_bytes: 0,
        peak_kib: 0,
    };
    for _ in 0..repetitions {
        if stages {
            for (at, stage) in [Stage::Read, Stage::Decode, Stage::Attribute].into_iter().enumerate() {
                let start = cpu_seconds();
                replay_up_to(stage, &large).unwrap();
                measured.cpu[at].push(cpu_seconds() - start);
            }
            let start = cpu_seconds();
            let profile = Replay::open(&large).unwrap().run().unwrap();
            measured.cpu[3].push(cpu_seconds() - start);
            check(&profile, made);
        }

        forget_peak();
        let (start, start_wall) = (cpu_seconds(), Instant::now());
        let profile = Replay::open(&large).unwrap().output(&dataset).overwrite(true).run().unwrap();
        measured.cpu[4].push(cpu_seconds() - start);
        measured.wall.push(start_wall.elapsed().as_secs_f64());
        measured.peak_kib = measured.peak_kib.max(peak_kib());
        check(&profile, made);
        assert!(profile.files().first_error.is_none());
        measured.rows = profile.files().total().rows;
        measured.launches_bytes = profile.files().tables[&Table::Launches].bytes;
    }
    measured
}

fn check(profile: &Profile, made: Enlarged) {
    assert_eq!(profile.launches(), made.kernels);
    assert!(profile.losses().is_empty(), "{:?}", profile.losses());
}

impl Measured {
    fn print_rate(&self) {
        let kernels = self.made.kernels as f64;
        let rate = |seconds: f64| kernels / seconds / 1e6;
        let (least, median, most) = spread(&self.cpu[4]);
        println!(
            "| {} | {} | {} | {:.2} | {:.2} to {:.2} | {:.2} | {:.2} | {:.2} | {} MiB |",
            self.name,
            self.made.kernels,
            self.rows,
            rate(median),
            rate(most),
            rate(least),
            self.rows as f64 / median / 1e6,
            rate(spread(&self.wall).1),
            self.launches_bytes as f64 / kernels,
            self.peak_kib / 1024,
        );
    }

    fn print_stages(&self) {
        let medians = self.cpu.each_ref().map(|seconds| spread(seconds).1 * 1e9 / self.made.kernels as f64);
        print!("| {} |", self.name);
        let mut before = 0.0;
        for median in medians {
            print!(" {:.0} |", median - before);
            before = median;
        }
        println!(" {before:.0} |");
    }
}

/// Least, median and most.
fn spread(values: &[f64]) -> (f64, f64, f64) {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    (sorted[0], sorted[sorted.len() / 2], sorted[sorted.len() - 1])
}

/// Time that this thread has had a processor.
fn cpu_seconds() -> f64 {
    let schedule = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let ns = schedule.split_whitespace().next().and_then(|ns| ns.parse::<u64>().ok());
    ns.map_or(f64::NAN, |ns| ns as f64 / 1e9)
}

/// Starts the peak of the resident memory afresh, where the kernel allows it.
fn forget_peak() {
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

/// The peak of the resident memory.
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).unwrap_or(0)
}
