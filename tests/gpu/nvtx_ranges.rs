//! Ranges of the `nvtx` crate, which arrive through the handler that is linked into the program.

use cuprof_workload::{Expected, Kernel, work};

use crate::Outcome;
use crate::session::{gpu, record, turn};

fn empties(count: u64) -> Expected {
    Expected::default().kernel(Kernel::Empty, count)
}

#[test]
#[ignore = "needs a GPU"]
fn pushed_ranges_of_all_domains_nest_with_those_of_the_crate() -> Outcome {
    let _turn = turn();
    let gpu = gpu()?;
    let stream = gpu.stream()?;
    let (trace, ()) = record(|| {
        let solver = nvtx::Domain::new(c"solver");
        let step = nvtx::LocalRange::new(c"step");
        work::empties(&gpu, &stream, 1)?;
        {
            let _solve = solver.local_range(c"solve");
            work::empties(&gpu, &stream, 2)?;
            let _own = cuprof::range!("own");
            work::empties(&gpu, &stream, 3)?;
            let _inner = nvtx::LocalRange::new(c"inner");
            work::empties(&gpu, &stream, 4)?;
        }
        drop(step);
        work::empties(&gpu, &stream, 5)?;
        gpu.synchronize()
    })?;
    trace.assert_is(&[
        (Some("step"), empties(1)),
        (Some("step/solve"), empties(2)),
        (Some("step/solve/own"), empties(3)),
        (Some("step/solve/own/inner"), empties(4)),
        (None, empties(5)),
    ]);
    trace.assert_nothing_lost();
    for (path, kind) in [("step", "stack"), ("step/solve", "stack"), ("step/solve/own", "own")] {
        assert_eq!(trace.range(path).text("kind"), Some(kind), "{path}");
    }
    assert_eq!(trace.range("step").number("n_launches"), 10);
    Ok(())
}

#[test]
#[ignore = "needs a GPU"]
fn started_ranges_are_around_the_work_of_every_thread() -> Outcome {
    let _turn = turn();
    let gpu = gpu()?;
    let (trace, ()) = record(|| {
        let epoch = nvtx::Range::new(c"epoch");
        let done = std::thread::scope(|scope| {
            let worker = scope.spawn(|| {
                let stream = gpu.stream()?;
                let _mine = nvtx::LocalRange::new(c"worker");
                work::empties(&gpu, &stream, 20)?;
                gpu.synchronize()
            });
            worker.join().unwrap_or(Err("the worker panicked".to_owned()))
        });
        drop(epoch);
        done
    })?;
    trace.assert_is(&[(Some("worker"), empties(20))]);
    let epoch = trace.range("epoch");
    assert_eq!(epoch.text("kind"), Some("process"));
    assert_eq!(epoch.number("n_launches"), 20);
    Ok(())
}
