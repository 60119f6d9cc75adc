#!/usr/bin/env bash
# Fuzzes what reads bytes from outside, guided by coverage, with a stable compiler.
#
#   tests/fuzz/run.sh SECONDS [TARGET...]
#
# Each target (decode, frames, recording) runs that long, from the corpus in tests/corpus. What it finds new goes into a
# folder below CARGO_TARGET_DIR; an input that crashes, hangs or takes too much memory is written there and named in the
# last lines. Such an input is kept in tests/corpus/TARGET under the name of what it found; `cargo test --test corpus`
# runs it from then on. The corpus has what ten minutes found, reduced to what reaches all that they reached
# (`-set_cover_merge=1`).
#
# Needs a C++ compiler.
set -euo pipefail
cd "$(dirname "$0")"
seconds=${1:?for how many seconds?}
shift
[ $# -gt 0 ] || set -- decode frames recording

export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/../../target}/fuzz
# Counters at each edge, and the compared values, which libFuzzer then tries. The same as cargo-fuzz sets.
export RUSTFLAGS="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4
 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table
 -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1 --cfg fuzzing"
RUSTFLAGS=${RUSTFLAGS//$'\n'/}
# Versions are those of the crate itself.
cp ../../Cargo.lock .
cargo build -q --release --target x86_64-unknown-linux-gnu
for target in "$@"; do
    found=$CARGO_TARGET_DIR/found/$target
    mkdir -p "$found"
    echo "+ $target for $seconds s"
    "$CARGO_TARGET_DIR/x86_64-unknown-linux-gnu/release/$target" "$found" "../corpus/$target" \
        -artifact_prefix="$found/" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -max_len=65536 \
        -print_final_stats=1 -verbosity=0
done
