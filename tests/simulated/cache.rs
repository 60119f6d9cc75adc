//! The control of the L2 cache: what it asks of the driver, and that it gives everything back.

use std::path::Path;

use cuprof::counters::{Plan, Session, l2_residual};
use cuprof::{Cache, CuptiCache, Dataset, ErrorKind, FillSize, L2Control, Stream, Table};

use crate::Outcome;
use crate::frame::Frame;
use crate::library::Simulated;
use crate::process::{Process, given, is_inside};

const JOURNAL: &str = "SIM_CUDA_JOURNAL";

/// What the driver was asked, without how contexts are made current and devices are described.
fn asked(journal: &Path) -> std::io::Result<Vec<String>> {
    let text = match std::fs::read_to_string(journal) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        other => other?,
    };
    let of_work = ["cuModule", "cuMem", "cuLaunch", "cuStream", "cuCtxSynchronize", "cuCtxReset"];
    let lines = text.lines().filter(|line| of_work.iter().any(|prefix| line.starts_with(prefix)));
    Ok(lines.map(str::to_owned).collect())
}

/// How often what was taken and what was given back.
fn held(calls: &[String]) -> [(usize, usize); 3] {
    let count = |name: &str| calls.iter().filter(|call| *call == name).count();
    [
        (count("cuMemAlloc_v2"), count("cuMemFree_v2")),
        (count("cuModuleLoadDataEx"), count("cuModuleUnload")),
        (count("cuStreamCreate"), count("cuStreamDestroy_v2")),
    ]
}

#[test]
fn a_flush_is_one_kernel_and_everything_is_given_back() -> Outcome {
    let folder = crate::process::folder()?;
    let process = Process::of(a_flush_is_one_kernel_and_everything_is_given_back);
    process.with(JOURNAL, folder.path().join("journal")).run(|| {
        let journal = given(JOURNAL);
        let mut control = L2Control::new(Cache::Flush)?.with_persisting_reset(true);
        let before = asked(&journal)?.len();
        control.apply()?;
        let calls = asked(&journal)?.split_off(before);
        let awaited =
            ["cuCtxResetPersistingL2Cache", "cuCtxSynchronize", "cuLaunchKernel", "cuStreamSynchronize"];
        assert_eq!(calls, awaited);
        let before = asked(&journal)?.len();
        control.apply_on(Stream::PER_THREAD_DEFAULT)?;
        let calls = asked(&journal)?.split_off(before);
        assert_eq!(calls, ["cuCtxResetPersistingL2Cache", "cuStreamIsCapturing", "cuLaunchKernel"]);
        let bytes = control.verify(|probe| {
            probe.prepare()?;
            probe.launch()?;
            Ok(probe.bytes())
        })?;
        assert_eq!(bytes, 1 << 20);
        let report = control.report().clone();
        assert_eq!((report.applied, report.persisting_resets, report.bytes), (3, 3, 1 << 20));
        assert!(
            report.to_string().starts_with("cache: flush (read 2x L2), 3 times 1 MiB on GPU-"),
            "{report}"
        );
        drop(control);
        assert_eq!(held(&asked(&journal)?), [(2, 2), (1, 1), (1, 1)]);
        Ok(())
    })
}

#[test]
fn a_fill_is_one_memset_and_keeping_asks_for_nothing() -> Outcome {
    let folder = crate::process::folder()?;
    let process = Process::of(a_fill_is_one_memset_and_keeping_asks_for_nothing);
    process.with(JOURNAL, folder.path().join("journal")).run(|| {
        let journal = given(JOURNAL);
        for cache in [Cache::Keep, Cache::Cupti(CuptiCache::L2)] {
            let mut control = L2Control::new(cache)?;
            control.apply()?;
            control.apply_on(Stream::LEGACY_DEFAULT)?;
            assert_eq!(control.report().applied, 0);
            let nothing = control.verify(|_| Ok(()));
            assert_eq!(nothing.err().map(|error| error.kind), Some(ErrorKind::Config));
        }
        assert!(asked(&journal)?.is_empty(), "{:?}", asked(&journal)?);
        let mut control = L2Control::new(Cache::Memset(FillSize::Bytes(256 << 20)))?;
        let before = asked(&journal)?.len();
        control.apply()?;
        let calls = asked(&journal)?.split_off(before);
        assert_eq!(calls, ["cuCtxSynchronize", "cuMemsetD32Async", "cuStreamSynchronize"]);
        Ok(())
    })
}

#[test]
fn wherever_the_driver_refuses_nothing_is_kept() -> Outcome {
    let calls = [
        ("cuCtxPushCurrent_v2", "cuCtxPushCurrent"),
        ("cuModuleLoadDataEx", "cuModuleLoadDataEx"),
        ("cuModuleGetFunction", "cuModuleGetFunction"),
        ("cuStreamCreate", "cuStreamCreate"),
        ("cuMemAlloc_v2", "cuMemAlloc"),
        ("cuMemsetD32Async", "cuMemsetD32Async"),
        ("cuStreamSynchronize", "cuStreamSynchronize"),
        ("cuCtxSynchronize", "cuCtxSynchronize"),
        ("cuLaunchKernel", "cuLaunchKernel"),
    ];
    for (call, told) in calls {
        let folder = crate::process::folder()?;
        let process = Process::of(wherever_the_driver_refuses_nothing_is_kept)
            .with(JOURNAL, folder.path().join("journal"))
            .with("SIM_CUDA_FAIL", format!("{call}:2"))
            .with("TOLD", told);
        process.run(|| {
            let error = L2Control::new(Cache::Flush).err().ok_or("it was made")?;
            assert_eq!((error.call, error.code), (given("TOLD").to_str(), Some(2)));
            if error.call == Some("cuMemAlloc") {
                assert!(error.to_string().contains("MiB of device memory"), "{error}");
            }
            for (taken, given_back) in held(&asked(&given(JOURNAL))?) {
                // The call that failed is in the journal, too.
                let failed = [Some("cuMemAlloc"), Some("cuModuleLoadDataEx"), Some("cuStreamCreate")];
                let slack = usize::from(failed.contains(&error.call));
                assert!(taken - given_back <= slack, "{taken} taken, {given_back} given back");
            }
            Ok(())
        })?;
        if is_inside() {
            return Ok(());
        }
    }
    Ok(())
}

#[test]
fn without_a_context_it_says_what_to_do() -> Outcome {
    let process = Process::of(without_a_context_it_says_what_to_do).with("SIM_CUDA_NO_CONTEXT", "1");
    process.run(|| {
        let error = L2Control::new(Cache::Flush).err().ok_or("it was made")?;
        assert_eq!(error.kind, ErrorKind::Config);
        assert!(error.to_string().contains("make the program's context first"), "{error}");
        Ok(())
    })
}

#[test]
fn a_stream_that_is_being_captured_is_left_alone() -> Outcome {
    let process = Process::of(a_stream_that_is_being_captured_is_left_alone).with("SIM_CUDA_CAPTURING", "1");
    process.run(|| {
        let mut control = L2Control::new(Cache::Flush)?;
        let error = control.apply_on(Stream::LEGACY_DEFAULT).err().ok_or("a flush became part of a graph")?;
        assert_eq!(error.kind, ErrorKind::Config);
        control.apply()?;
        assert_eq!(control.report().applied, 1);
        Ok(())
    })
}

#[test]
fn a_counter_session_flushes_before_each_range_of_each_pass() -> Outcome {
    let folder = crate::process::folder()?;
    let process = Process::of(a_counter_session_flushes_before_each_range_of_each_pass);
    process.with(JOURNAL, folder.path().join("journal")).run(|| {
        let journal = given(JOURNAL);
        let launches = || -> std::io::Result<usize> {
            Ok(asked(&journal)?.iter().filter(|call| *call == "cuLaunchKernel").count())
        };
        let control = L2Control::new(Cache::Flush)?;
        let before = launches()?;
        let plan = Plan::new("GH100", ["lts__t_sector_hit_rate.pct"])?;
        let passes = plan.passes();
        let counted = Session::new(plan).between_passes(control).run(|pass| {
            pass.range("outer", || Simulated::get().launch(1));
            pass.range("other", || Simulated::get().launch(1));
        })?;
        assert_eq!(launches()? - before, 3 * passes, "one before the pass, one before each range");
        let output = journal.with_file_name("").join("counted.cuprof");
        counted.write(&output)?;
        let frame = Frame::read(&Dataset::open(&output)?, Table::Metrics, &["cache_state"])?;
        assert!(frame.len() > 0 && frame.rows().all(|row| row.text("cache_state") == Some("cold_clean")));
        Ok(())
    })
}

#[test]
fn what_is_left_in_the_cache_is_counted_by_a_kernel_of_the_crate() -> Outcome {
    let folder = crate::process::folder()?;
    let process = Process::of(what_is_left_in_the_cache_is_counted_by_a_kernel_of_the_crate);
    process.with(JOURNAL, folder.path().join("journal")).run(|| {
        let journal = given(JOURNAL);
        let mut control = L2Control::new(Cache::Flush)?;
        let before = asked(&journal)?.len();
        let residual = l2_residual(&mut control)?;
        // The simulated CUPTI's numbers are nobody's; what counts is that they are read and put into relation.
        assert!(residual.hit_ratio.is_finite() && residual.dram_read_ratio.is_some(), "{residual:?}");
        assert_eq!(residual.probe_bytes, 1 << 20);
        let calls = asked(&journal)?.split_off(before);
        let launches = calls.iter().filter(|call| *call == "cuLaunchKernel").count();
        assert!(launches > 0 && launches % 3 == 0, "bring in, flush, read again, in each pass: {calls:?}");
        let keeping = l2_residual(&mut L2Control::new(Cache::Keep)?);
        assert_eq!(keeping.err().map(|error| error.kind), Some(ErrorKind::Config));
        Ok(())
    })
}
