//! Ranges of a shared library with an NVTX of its own, which arrive through CUPTI (`Builder::nvtx_libraries`).
//!
//! `CUPROF_NVTX_PLUGIN` names the library that `examples/nvtx_plugin.rs` becomes.
//!
//! With the feature `nvtx` this program has an NVTX too. An instance looks for a tool once, at its first call: if
//! that were in the session, it would go to CUPTI like the library's. The test makes it before, so that both ways
//! are in use, and their ranges have to nest. The program's instance then belongs to the handler that is linked into
//! it, so `cuprof::range!` emits nothing. All this holds once in a process, so the test has one to itself.

use std::path::PathBuf;

use cuprof::{Profiler, Table};
use cuprof_workload::{Expected, Gpu, Kernel, work};

use crate::Outcome;
use crate::frame::{Frame, Row};
use crate::plugin::Plugin;
use crate::session::{Place, Trace, in_a_process_of_its_own};

const VARIABLE: &str = "NVTX_INJECTION64_PATH";

fn empties(count: u64) -> Expected {
    Expected::default().kernel(Kernel::Empty, count)
}

#[test]
#[ignore = "needs a GPU and CUPROF_NVTX_PLUGIN"]
fn ranges_of_a_shared_library_nest_with_those_of_the_program() -> Outcome {
    let path = std::env::var_os("CUPROF_NVTX_PLUGIN").map(PathBuf::from);
    let path = path.ok_or("CUPROF_NVTX_PLUGIN names no libnvtx_plugin.so")?;
    let name = "nvtx_libraries::ranges_of_a_shared_library_nest_with_those_of_the_program";
    in_a_process_of_its_own(name, || {
        assert_eq!(std::env::var_os(VARIABLE), None, "another tool has this process");
        nvtx::mark(c"before the session"); // see above
        assert!(cuprof::testing::nvtx_initialised());

        let gpu = Gpu::open()?;
        let stream = gpu.stream()?;
        let place = Place::new()?;
        let builder = Profiler::builder().output(place.dataset()).overwrite(true).nvtx_libraries(true);
        let profiler = builder.start()?;
        let plugin = Plugin::open(&path)?;
        assert!(std::env::var_os(VARIABLE).is_some());

        let started = plugin.start(c"started");
        plugin.push(c"pushed");
        work::empties(&gpu, &stream, 1)?;
        {
            let _own = cuprof::range!("own");
            work::empties(&gpu, &stream, 2)?;
            plugin.push_in_domain(c"in domain");
            work::empties(&gpu, &stream, 3)?;
            let _program = nvtx::LocalRange::new(c"of the program");
            work::empties(&gpu, &stream, 4)?;
            plugin.mark(c"mark");
            drop(_program);
            plugin.pop_in_domain();
        }
        plugin.pop();
        plugin.end(started);
        work::empties(&gpu, &stream, 5)?;
        gpu.synchronize()?;
        let trace = Trace::of(profiler.finish()?, place)?;
        assert_eq!(std::env::var_os(VARIABLE), None, "child processes would be injected");

        let paths = [
            "pushed",
            "pushed/own",
            "pushed/own/in domain",
            "pushed/own/in domain/of the program",
            "started",
        ];
        trace.assert_is(&[
            (Some(paths[0]), empties(1)),
            (Some(paths[1]), empties(2)),
            (Some(paths[2]), empties(3)),
            (Some(paths[3]), empties(4)),
            (None, empties(5)),
        ]);
        trace.assert_nothing_lost();
        let ranges = Frame::read(&trace.dataset, Table::Ranges, &["range_path", "kind", "domain", "closed"])?;
        let mut seen: Vec<_> = ranges.rows().map(what_is_said).collect();
        seen.sort_unstable();
        let expected = [
            (Some(paths[0]), Some("stack"), None, true),
            (Some(paths[1]), Some("own"), None, true),
            (Some(paths[2]), Some("stack"), Some("plugin"), true),
            (Some(paths[3]), Some("stack"), None, true),
            (Some(paths[4]), Some("process"), None, true),
        ];
        assert_eq!(seen, expected);
        assert_eq!(trace.range("started").number("n_launches"), 10);

        let marks = Frame::read(&trace.dataset, Table::Marks, &["name", "domain", "range_id"])?;
        let innermost = trace.range(paths[3]).int("range_id");
        let seen: Vec<_> =
            marks.rows().map(|row| (row.text("name"), row.text("domain"), row.int("range_id"))).collect();
        assert_eq!(seen, [(Some("mark"), None, innermost)]);
        Ok(())
    })
}

fn what_is_said(row: Row<'_>) -> (Option<&str>, Option<&str>, Option<&str>, bool) {
    (row.text("range_path"), row.text("kind"), row.text("domain"), row.flag("closed"))
}
