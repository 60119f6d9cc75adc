//! What counters say about kernels whose counts are known beforehand, and what counting costs; lines of JSON.
//!
//! ```text
//! counters_proof [SECTION…]      cost known flush replay verdicts kernels ranges; default: all
//! counters_proof plain           launches the kernels of `kernels` without counting, for another profiler
//! counters_proof metrics         prints the metrics of `kernels` and `ranges`, joined by commas
//! ```
//!
//! Needs a GPU. `CUPROF_CUPTI_PATH` chooses the CUPTI library. The exit status is 1 if an answer was wrong. No setting
//! of the GPU is changed. `scripts/gpu.sh counters` runs it with each CUPTI and beside Nsight Compute, and
//! `scripts/compare_ncu.py` compares.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program that talks")]

mod cost;
mod flush;
mod known;
mod replay;
mod sequence;
mod verdicts;

use std::cell::Cell;
use std::process::ExitCode;

use cuprof::ErrorKind;
use cuprof::counters::{Counted, NullReason, Plan};

type Outcome<T = ()> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

thread_local! {
    static WRONG: Cell<u32> = const { Cell::new(0) };
}

/// An answer that is known beforehand, within this fraction of it.
fn check(section: &str, what: &str, expected: f64, found: Option<f64>, tolerance: f64) {
    let ok = found.is_some_and(|found| (found - expected).abs() <= tolerance * expected.abs());
    if !ok {
        WRONG.set(WRONG.get() + 1);
    }
    println!(
        r#"{{"section":"{section}","check":"{what}","expected":{expected},"found":{},"tolerance":{tolerance},"ok":{ok}}}"#,
        number(found)
    );
}

fn number(value: Option<f64>) -> String {
    value.map_or_else(|| "null".to_owned(), |value| value.to_string())
}

/// Each value of a session.
fn print_rows(section: &str, label: &str, counted: &Counted) {
    for row in counted.rows() {
        let name = row.range.path.as_deref().or(row.range.kernel_mangled.as_deref()).unwrap_or("?");
        println!(
            r#"{{"section":"{section}","label":"{label}","range":"{name}","range_index":{},"metric":"{}","value":{},"unit":"{}","null_reason":"{}","passes":{}}}"#,
            row.range_index,
            row.metric,
            number(row.value),
            row.unit,
            row.null_reason.map_or("", NullReason::as_str),
            row.passes,
        );
    }
}

/// What a session took, in microseconds.
fn print_timings(section: &str, label: &str, counted: &Counted) {
    let us = |time: std::time::Duration| time.as_secs_f64() * 1e6;
    let timings = &counted.timings;
    let rounds: Vec<_> = timings
        .rounds
        .iter()
        .map(|round| {
            format!(
                r#"{{"wait":{:.0},"between":{:.0},"start":{:.0},"push":{:.0},"first_push":{:.0},"pop":{:.0},"first_pop":{:.0},"work":{:.0},"stop":{:.0}}}"#,
                us(round.wait),
                us(round.between),
                us(round.start),
                us(round.push),
                us(round.first_push),
                us(round.pop),
                us(round.first_pop),
                us(round.work),
                us(round.stop)
            )
        })
        .collect();
    println!(
        r#"{{"section":"{section}","label":"{label}","ranges":{},"passes":{},"total_us":{:.0},"overhead_us":{:.0},"device":{:.0},"availability":{:.0},"plan":{:.0},"cache":{:.0},"enable":{:.0},"set_up":{:.0},"thrown_away":{:.0},"decode":{:.0},"evaluate":{:.0},"disable":{:.0},"rounds":[{}]}}"#,
        counted.ranges.len(),
        counted.plan.passes(),
        us(timings.total),
        us(timings.overhead()),
        us(timings.device),
        us(timings.availability),
        us(timings.plan),
        us(timings.cache),
        us(timings.enable),
        us(timings.set_up),
        us(timings.thrown_away),
        us(timings.decode),
        us(timings.evaluate),
        us(timings.disable),
        rounds.join(",")
    );
}

fn plan(metrics: &[&str]) -> Outcome<Plan> {
    Ok(Plan::for_device(0, metrics)?)
}

fn run(section: &str) -> Outcome {
    match section {
        "cost" => cost::run(),
        "known" => known::run(),
        "flush" => flush::run(),
        "replay" => replay::run(),
        "verdicts" => verdicts::run(),
        "kernels" => sequence::by_kernels(),
        "ranges" => sequence::by_ranges(),
        "plain" => sequence::plain(),
        "metrics" => {
            println!("{}", sequence::METRICS.join(","));
            Ok(())
        }
        _ => Err(format!("there is no section {section:?}").into()),
    }
}

fn main() -> ExitCode {
    let mut sections: Vec<_> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    if sections.is_empty() {
        sections =
            ["cost", "known", "flush", "replay", "verdicts", "kernels", "ranges"].map(str::to_owned).to_vec();
    }
    let mut failed = false;
    for section in sections {
        if let Err(error) = run(&section) {
            // What a library cannot do is no wrong answer, if it says so.
            let refusals = [ErrorKind::CuptiTooOld, ErrorKind::NotSupported];
            if error.downcast_ref().is_some_and(|error: &cuprof::Error| refusals.contains(&error.kind)) {
                println!(r#"{{"section":"{section}","refused":{:?}}}"#, error.to_string());
                continue;
            }
            eprintln!("{section}: {error}");
            println!(r#"{{"section":"{section}","error":{:?}}}"#, error.to_string());
            failed = true;
        }
    }
    match WRONG.get() {
        0 if !failed => ExitCode::SUCCESS,
        wrong => {
            eprintln!("{wrong} answers were wrong");
            ExitCode::FAILURE
        }
    }
}
