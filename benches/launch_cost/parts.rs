//! The parts of the bench, each a table of its own.

use super::*;

impl Bench {
    /// Cost of a launch: all turns in this process, or each in a `fresh` one.
    pub fn launch(&mut self, fresh: bool) -> Result<()> {
        let modes = self.modes(&Mode::ALL);
        for threads in self.options.threads.clone() {
            let count = self.options.count;
            let mut samples = vec![Sample::default(); modes.len()];
            let mut finishes = vec![Sample::default(); modes.len()];
            let mut complaints: Vec<Option<String>> = vec![None; modes.len()];
            for repetition in 0..self.options.repetitions {
                for index in order(&modes, repetition) {
                    let turn = if fresh {
                        child::throughput(modes[index], threads, &self.options)?
                    } else {
                        self.throughput(modes[index], threads, count)?
                    };
                    samples[index].0.push(turn.nanoseconds);
                    finishes[index].0.push(turn.finish.as_secs_f64() * 1e3);
                    complaints[index] = complaints[index].take().or(turn.complaint);
                }
            }
            println!(
                "\n### Cost of a launch{}: {threads} thread{}, {} repetitions of {count} launches each\n",
                if fresh { ", each turn in a process of its own" } else { "" },
                if threads == 1 { "" } else { "s with a stream each" },
                self.options.repetitions
            );
            let bare = samples[0].clone();
            println!(
                "| | mode | ns per launch: median (min–max) | added to (a): median [95 % interval] | end, ms | records |"
            );
            println!("|---|---|---:|---:|---:|---|");
            let mut json = Json::default();
            for (index, mode) in modes.iter().enumerate() {
                let sample = &samples[index];
                let above = sample.above(&bare);
                let (low, high) = above.median_interval();
                let added = format!("{:.0} [{low:.0}, {high:.0}]", above.median());
                let added = if index == 0 { "–".to_owned() } else { added };
                let records = match (&complaints[index], mode) {
                    (Some(complaint), _) => complaint.as_str(),
                    (None, Mode::Bare) => "–",
                    (None, _) => "all",
                };
                let end =
                    if index == 0 { "–".to_owned() } else { format!("{:.1}", finishes[index].median()) };
                println!(
                    "| {} | {} | {} | {added} | {end} | {records} |",
                    mode.letter(),
                    mode.name(),
                    sample.spread(0)
                );
                json.numbers(mode.letter(), &sample.0);
                json.numbers(&format!("{}_end_ms", mode.letter()), &finishes[index].0);
            }
            let added = |wanted: Mode| {
                let index = modes.iter().position(|mode| *mode == wanted);
                index.map(|index| samples[index].above(&bare).median())
            };
            println!();
            if let (Some(floor), Some(ranges)) = (added(Mode::Floor), added(Mode::Ranges)) {
                let limit = 1.15 * floor + 100.0;
                verdict(
                    &format!(
                        "(d) adds {ranges:.0} ns; the target is at most 1.15 × (b) + 100 ns = {limit:.0} ns"
                    ),
                    ranges <= limit,
                );
                json.number("d_limit_from_b", limit);
            }
            match (added(Mode::Markers), added(Mode::Ranges)) {
                (Some(markers), Some(ranges)) => {
                    let limit = 0.6 * markers;
                    let ratio = ranges / markers;
                    verdict(
                        &format!(
                            "(d) adds {ranges:.0} ns, {ratio:.2} × (c); the target is at most 0.6 × (c) = {limit:.0} ns"
                        ),
                        ranges <= limit,
                    );
                    json.number("d_limit_from_c", limit);
                }
                _ => println!(
                    "* (c) was not measured: {}",
                    self.handlers.as_ref().err().map_or("", String::as_str)
                ),
            }
            let part = if fresh { "fresh" } else { "launch" };
            self.json.object(&format!("{part}_{threads}_threads_ns"), &json);
        }
        Ok(())
    }

    fn throughput(&self, mode: Mode, threads: usize, count: u64) -> Result<Turn> {
        let active = self.start(mode)?;
        let launchers = &self.launchers[..threads];
        let nanoseconds = self.around(mode, Throughput { gpu: &self.gpu, launchers, count });
        let kernels = threads as u64 * (count + WARM_UP);
        let ranges = if matches!(mode, Mode::Markers | Mode::Ranges) { kernels } else { 0 };
        self.gpu.synchronize()?;
        let (finish, complaint) = active.end(kernels, ranges)?;
        Ok(Turn { nanoseconds: nanoseconds?, finish, complaint })
    }

    /// What a range adds to a launch, in one session: blocks with and without ranges take turns, a few milliseconds
    /// each, so that nothing else changes between them.
    pub fn range(&mut self) -> Result<()> {
        const BLOCK: u64 = 1_000;
        let blocks = (self.options.count / BLOCK).max(10) * 4;
        let mut added = Sample::default();
        let mut plain = Sample::default();
        self.gpu.bind()?;
        pin(0);
        let active = self.start(Mode::Ranges)?;
        let launcher = &self.launchers[0];
        let mut failed = 0;
        let mut block = |with_range: bool| -> Result<f64> {
            let start = Instant::now();
            for _ in 0..BLOCK {
                failed |= if with_range { OwnRange.around(|| launcher.launch()) } else { launcher.launch() };
            }
            let elapsed = start.elapsed();
            launcher.synchronize()?;
            Ok(elapsed.as_nanos() as f64 / BLOCK as f64)
        };
        for index in 0..blocks {
            // Which comes first alternates.
            let (first, second) = (block(index % 2 == 0)?, block(index % 2 == 1)?);
            let (with, without) = if index % 2 == 0 { (first, second) } else { (second, first) };
            added.0.push(with - without);
            plain.0.push(without);
        }
        if failed != 0 {
            return Err("a launch failed".into());
        }
        let (_, complaint) = active.end(2 * blocks * BLOCK, blocks * BLOCK)?;
        let quartiles = |sample: &Sample| {
            let mut sorted = sample.0.clone();
            sorted.sort_by(f64::total_cmp);
            let at = |part: f64| sorted[(part * (sorted.len() - 1) as f64) as usize];
            format!("{:.0} ns (quartiles {:.0} to {:.0})", at(0.5), at(0.25), at(0.75))
        };
        println!(
            "\n### A range around each launch, in one session: {blocks} pairs of blocks of {BLOCK} launches\n"
        );
        println!("* a launch without a range: {}", quartiles(&plain));
        println!(
            "* added by a range: {}; records: {}",
            quartiles(&added),
            complaint.as_deref().unwrap_or("all")
        );
        let mut json = Json::default();
        json.numbers("added", &added.0);
        self.json.object("range_in_place_ns", &json);
        Ok(())
    }

    /// The worst launch of a million, each run in a process of its own: device-side buffers are allocated with the
    /// context, so that a profiler has to be there before it.
    pub fn tail(&mut self) -> Result<()> {
        let modes = [Mode::Bare, Mode::Floor, Mode::Ranges];
        let repetitions = self.options.repetitions.min(5);
        let mut all: Vec<Vec<Vec<u32>>> = vec![Vec::new(); modes.len()];
        let mut complaints = vec![None; modes.len()];
        for repetition in 0..repetitions {
            for index in order(&modes, repetition) {
                let (latencies, complaint) = child::latencies(modes[index], &self.options)?;
                complaints[index] = complaints[index].take().or(complaint);
                all[index].push(latencies);
            }
        }
        println!("\n### Single launches: {repetitions} repetitions of a million, ns\n");
        println!("| | mode | p50 | p99 | p99.9 | p99.99 | worst of each repetition | records |");
        println!("|---|---|---:|---:|---:|---:|---|---|");
        let mut json = Json::default();
        for (index, mode) in modes.iter().enumerate() {
            let worst: Vec<f64> =
                all[index].iter().map(|run| f64::from(run.iter().copied().max().unwrap_or(0))).collect();
            let mut sorted: Vec<u32> = all[index].iter().flatten().copied().collect();
            sorted.sort_unstable();
            let [p50, p99, p999, p9999] = [0.5, 0.99, 0.999, 0.9999].map(|part| quantile(&sorted, part));
            println!(
                "| {} | {} | {p50} | {p99} | {p999} | {p9999} | {} | {} |",
                mode.letter(),
                mode.name(),
                worst.iter().map(|worst| format!("{worst:.0}")).collect::<Vec<_>>().join(", "),
                complaints[index].as_deref().unwrap_or("all"),
            );
            json.numbers(&format!("{}_worst", mode.letter()), &worst);
            json.numbers(
                &format!("{}_p50_p99_p999_p9999", mode.letter()),
                &[p50, p99, p999, p9999].map(f64::from),
            );
        }
        println!("\nLaunches by time:\n");
        let histograms: Vec<_> = all.iter().map(|runs| histogram(&runs.concat())).collect();
        println!(
            "| below, ns | {} |",
            modes.iter().map(|mode| mode.letter()).collect::<Vec<_>>().join(" | ")
        );
        println!("|---:|{}", "---:|".repeat(modes.len()));
        let mut bounds: Vec<u64> = histograms.iter().flatten().map(|(bound, _)| *bound).collect();
        bounds.sort_unstable();
        bounds.dedup();
        for bound in bounds {
            let counts = histograms.iter().map(|histogram| {
                let found = histogram.iter().find(|(other, _)| *other == bound);
                found.map_or(0, |(_, count)| *count).to_string()
            });
            println!("| {bound} | {} |", counts.collect::<Vec<_>>().join(" | "));
        }
        let worst = |index: usize| {
            Sample(all[index].iter().map(|run| f64::from(*run.iter().max().unwrap_or(&0))).collect())
        };
        let (bare, ranges) = (worst(0).median(), worst(2).median());
        println!();
        verdict(
            &format!(
                "the worst launch of (d), median of {repetitions} runs, is {:.0} µs above that of (a); the target is at most 150 µs",
                (ranges - bare) / 1e3
            ),
            ranges <= bare + 150e3,
        );
        self.json.object("tail_ns", &json);
        Ok(())
    }

    /// Cost of a node of a graph.
    pub fn graph(&mut self) -> Result<()> {
        let graph = Graph::of_kernels(&self.gpu, GRAPH_NODES)?;
        let modes = self.modes(&[Mode::Bare, Mode::Floor, Mode::Ranges]);
        let mut samples = vec![Sample::default(); modes.len()];
        let mut complaints = vec![None; modes.len()];
        for repetition in 0..self.options.repetitions {
            for index in order(&modes, repetition) {
                let mode = modes[index];
                let active = self.start(mode)?;
                let nanoseconds = self.around(mode, Replays { gpu: &self.gpu, graph: &graph });
                let launches = GRAPH_LAUNCHES + GRAPH_WARM_UP;
                let ranges = if mode == Mode::Ranges { launches } else { 0 };
                let (_, complaint) = active.end(launches * GRAPH_NODES, ranges)?;
                complaints[index] = complaints[index].take().or(complaint);
                samples[index].0.push(nanoseconds?);
            }
        }
        println!(
            "\n### A graph of {GRAPH_NODES} empty kernels, launched {GRAPH_LAUNCHES} times: {} repetitions\n",
            self.options.repetitions
        );
        println!("| | mode | ns per node: median (min–max) | records |\n|---|---|---:|---|");
        let mut json = Json::default();
        for (index, mode) in modes.iter().enumerate() {
            let records = complaints[index].as_deref().unwrap_or("all");
            println!("| {} | {} | {} | {records} |", mode.letter(), mode.name(), samples[index].spread(0));
            json.numbers(mode.letter(), &samples[index].0);
        }
        if let [_, floor, ranges] = &samples[..] {
            let (floor, ranges) = (floor.median(), ranges.median());
            println!();
            verdict(
                &format!("(d) takes {:.2} × (b); the target is at most 1.1 ×", ranges / floor),
                ranges <= 1.1 * floor,
            );
        }
        self.json.object("graph_ns_per_node", &json);
        Ok(())
    }

    /// The end of a session after a million kernels.
    pub fn finish(&mut self) -> Result<()> {
        let repetitions = self.options.repetitions.min(3);
        println!("\n### The end of a session after a million kernels in a million ranges\n");
        println!(
            "| repetition | finish, s | resident before, MiB | at the end of the work | after finish | dataset, MB | records |"
        );
        println!("|---:|---:|---:|---:|---:|---:|---|");
        let (mut seconds, mut growth, mut held) = (Vec::new(), Vec::new(), Vec::new());
        for repetition in 1..=repetitions {
            let before = rss_mib("VmRSS");
            let folder = tempfile::tempdir()?;
            let dataset = folder.path().join("bench.cuprof");
            let profiler = self.options.profiler().output(&dataset).start()?;
            let launchers = &self.launchers[..1];
            self.around(Mode::Ranges, Throughput { gpu: &self.gpu, launchers, count: MILLION - WARM_UP })?;
            let worked = rss_mib("VmRSS");
            let start = Instant::now();
            let profile = profiler.finish()?;
            let elapsed = start.elapsed().as_secs_f64();
            let after = rss_mib("VmRSS");
            let facts = cuprof::Dataset::open(&dataset)?.env()?;
            for key in ["session.most_launches_held", "session.most_ranges_held"] {
                held.push(format!("{key} {}", facts.get(key).map_or("", String::as_str)));
            }
            let bytes: u64 = std::fs::read_dir(&dataset)?
                .flatten()
                .filter_map(|file| Some(file.metadata().ok()?.len()))
                .sum();
            println!(
                "| {repetition} | {elapsed:.3} | {before:.0} | {worked:.0} | {after:.0} | {:.1} | {} |",
                bytes as f64 / 1e6,
                complaint(&profile, MILLION, MILLION).as_deref().unwrap_or("all")
            );
            seconds.push(elapsed * 1e3);
            growth.push(worked - before);
        }
        println!("\nHeld in memory at most: {}.", held.join(", "));
        println!("\nThe largest the process has been: {:.0} MiB.", rss_mib("VmHWM"));
        let mut json = Json::default();
        json.numbers("finish_ms", &seconds);
        json.numbers("rss_growth_mib", &growth);
        self.json.object("finish_after_a_million", &json);
        Ok(())
    }

    /// A session in which nothing happens.
    pub fn empty(&mut self) -> Result<()> {
        const SESSIONS: usize = 20;
        let (mut starts, mut ends) = (Sample::default(), Sample::default());
        let before = rss_mib("VmRSS");
        let mut after_first = f64::NAN;
        for session in 0..SESSIONS {
            let folder = tempfile::tempdir()?;
            let begin = Instant::now();
            let profiler = Profiler::builder().output(folder.path().join("bench.cuprof")).start()?;
            let started = Instant::now();
            profiler.finish()?;
            starts.0.push(started.duration_since(begin).as_secs_f64() * 1e3);
            ends.0.push(started.elapsed().as_secs_f64() * 1e3);
            if session == 0 {
                after_first = rss_mib("VmRSS");
            }
        }
        let after = rss_mib("VmRSS");
        println!("\n### A session without work, {SESSIONS} times, beside a context\n");
        println!("| | first | the others: median (min–max) |\n|---|---:|---:|");
        for (name, sample) in [("start, ms", &starts), ("finish, ms", &ends)] {
            println!("| {name} | {:.2} | {} |", sample.0[0], Sample(sample.0[1..].to_vec()).spread(2));
        }
        println!(
            "| resident memory added, MiB | {:.1} | {:.1} by all the others |",
            after_first - before,
            after - after_first
        );
        let mut json = Json::default();
        json.numbers("start_ms", &starts.0);
        json.numbers("finish_ms", &ends.0);
        json.number("rss_first_mib", after_first - before);
        json.number("rss_others_mib", after - after_first);
        self.json.object("empty_session", &json);
        Ok(())
    }
}
