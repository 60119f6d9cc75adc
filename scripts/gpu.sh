#!/bin/bash
# Runs the prebuilt GPU tests, examples and benches on a machine with a GPU; Rust is not needed.
# scripts/build-gpu-bundle.sh makes the binaries.
#
#   scripts/gpu.sh                              # everything
#   scripts/gpu.sh tests examples               # some: facts, tests, matrix, examples, tutorials, counters, cost,
#                                               # bench
#
# Environment (all optional):
#   BIN                binaries (default ./carry/bin, or what ./carry/bin.tar.gz holds)
#   CUPTI              folder of CUPTI libraries; `matrix` and `counters` run with each (default ./carry/cupti)
#   CUPROF_CUPTI_PATH  the CUPTI library for all other sections (default: searched for)
#   OUT                where results go (default ./gpu-out)
#   TESTS              test names to run, by part (default: all)
#   MATRIX_TESTS       the same for each library of the matrix
#   COST_ARGS          arguments of `launch_cost` (default: --all)
#   LIMIT_TESTS, LIMIT_MATRIX (each library), LIMIT_EXAMPLES (each), LIMIT_TUTORIALS (each),
#   LIMIT_COUNTERS (each run), LIMIT_COST, LIMIT_BENCH (each run)   seconds
#   NCU                Nsight Compute for `counters`, `bench` and `tutorials` (default: searched for)
#
# Settings of the GPU (clocks, power, MIG, persistence) are only read. A failure does not stop what follows; the table
# at the end has them all, and the exit status is 1 if there was one.
set -u
here=$(cd "$(dirname "$0")/.." && pwd)
BIN=${BIN:-$here/carry/bin}
CUPTI=${CUPTI:-$here/carry/cupti}
OUT=${OUT:-gpu-out}
TESTS=${TESTS:-}
MATRIX_TESTS=${MATRIX_TESTS:-launches:: graphs:: ranges:: sessions::the_library sessions::twenty}
COST_ARGS=${COST_ARGS:---all}
LIMIT_TESTS=${LIMIT_TESTS:-240}
LIMIT_MATRIX=${LIMIT_MATRIX:-120}
LIMIT_EXAMPLES=${LIMIT_EXAMPLES:-60}
LIMIT_TUTORIALS=${LIMIT_TUTORIALS:-120}
LIMIT_COST=${LIMIT_COST:-420}
LIMIT_BENCH=${LIMIT_BENCH:-180}
LIMIT_COUNTERS=${LIMIT_COUNTERS:-120}

# Whatever a program asks for here, clocks stay as they are.
export CUPROF_FORBID_CLOCK_CONTROL=1

mkdir -p "$OUT"
OUT=$(cd "$OUT" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
if [ ! -d "$BIN" ] && [ -f "$BIN.tar.gz" ]; then
    mkdir "$scratch/bin" && tar -C "$scratch/bin" -xzf "$BIN.tar.gz" && BIN=$scratch/bin
fi
table=()
status=0

# note SECTION RESULT SECONDS REMARK
note() {
    table+=("$(printf '%-28s %-9s %5ss  %s' "$1" "$2" "$3" "$4")")
    case "$2" in ok|skipped) ;; *) status=1 ;; esac
}

# limited NAME SECONDS FILE COMMAND…: runs the command with its output to the screen and appended to the file.
limited() {
    local name=$1 limit=$2 file=$3 started=$SECONDS code
    shift 3
    { echo; echo "== $name: $*"; } >> "$file"
    timeout -k 10 "$limit" "$@" > "$scratch/output" 2>&1
    code=$?
    elapsed=$((SECONDS - started))
    cat "$scratch/output" >> "$file"
    case $code in
        0) result=ok ;;
        124|137) result=timeout ;;
        *) result="exit $code" ;;
    esac
}

# Counts of the test harness.
counts() {
    local line
    line=$(grep -h '^test result:' "$scratch/output" | tail -1 | sed 's/^test result: [A-Za-z]*\. //; s/; 0 ignored.*//')
    echo "${line:-no result}"
}

run_tests() { # NAME BINARY LIMIT FILE FILTERS…
    local name=$1 binary=$2 limit=$3 file=$4
    shift 4
    limited "$name" "$limit" "$file" "$BIN/$binary" --include-ignored --test-threads=1 --nocapture "$@"
    note "$name" "$result" "$elapsed" "$(counts)"
    if [ "$result" != ok ]; then
        grep -h -A12 'panicked at\|^Error' "$scratch/output" | head -60
    fi
}

facts() {
    local file="$OUT/facts.txt"
    {
        date -u
        uname -a
        echo "$(nproc) CPUs: $(grep -m1 'model name' /proc/cpuinfo | cut -d: -f2)"
        free -g | sed -n 2p
        cat /proc/driver/nvidia/version 2> /dev/null
        nvidia-smi --query-gpu=name,uuid,driver_version,memory.total,compute_mode,mig.mode.current,persistence_mode,clocks.current.sm,clocks.max.sm,clocks.current.memory,temperature.gpu,power.draw --format=csv
        nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv
        grep -i RmProfilingAdminOnly /proc/driver/nvidia/params 2> /dev/null
        echo "libcuda: $(ldconfig -p | grep -m1 'libcuda\.so\.1 ')"
        echo "libcudart: $(ldconfig -p | grep -m1 'libcudart\.so')"
        echo "libcupti:"
        { ldconfig -p | sed -n 's/.*=> \(.*libcupti\.so.*\)/\1/p'
          find /usr/local/cuda*/extras/CUPTI /usr/local/cuda*/targets /opt -maxdepth 4 -name 'libcupti.so*' 2> /dev/null
          timeout 20 find / -xdev -path '*nvidia*' -name 'libcupti.so*' 2> /dev/null
          ls -d "$CUPTI"/* 2> /dev/null; } | sort -u | sed 's/^/  /'
        env | grep -E '^(CUDA|NVTX|NSYS|NV_|CUPROF)' | sed 's/^/  /'
    } > "$file" 2>&1
    cat "$file"
    note facts ok 0 "$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2> /dev/null | head -1)"
}

tests() {
    : > "$OUT/tests.txt"
    local without=(--skip tutorials::) # the section `tutorials` runs the same programs, and keeps what they print
    if [ -z "${CUDA_RUNTIME_PATH:-}" ] && ! ldconfig -p | grep -q 'libcudart\.so'; then
        without+=(--skip calls_of_the_cuda_runtime)
        note "tests of the CUDA runtime" skipped 0 "no libcudart here"
    fi
    # Splitting is meant: several parts of names.
    # shellcheck disable=SC2086
    run_tests tests gpu "$LIMIT_TESTS" "$OUT/tests.txt" ${without[@]+"${without[@]}"} $TESTS
    if [ -x "$BIN/gpu_nvtx" ] && [ -z "$TESTS" ]; then
        CUPROF_NVTX_PLUGIN=$BIN/libnvtx_plugin.so \
            run_tests "tests of NVTX" gpu_nvtx "$LIMIT_TESTS" "$OUT/tests.txt" nvtx_ranges:: nvtx_libraries::
    fi
}

matrix() {
    : > "$OUT/matrix.txt"
    local library found=no
    for library in "$CUPTI"/*; do
        [ -e "$library" ] || continue
        found=yes
        # shellcheck disable=SC2086
        CUPROF_CUPTI_PATH=$library run_tests "matrix $(basename "$library")" gpu "$LIMIT_MATRIX" "$OUT/matrix.txt" $MATRIX_TESTS
    done
    [ $found = yes ] || note matrix skipped 0 "no library in $CUPTI"
}

examples() {
    local file="$OUT/examples.txt" records="$scratch/recordings" name recording
    : > "$file"
    mkdir -p "$records"
    for name in quickstart graphs threads nvtx_ranges; do
        [ -x "$BIN/$name" ] || { note "example $name" skipped 0 "not built"; continue; }
        case $name in
            graphs) recording=graph ;;
            nvtx_ranges) recording=nvtx ;;
            *) recording=$name ;;
        esac
        limited "example $name" "$LIMIT_EXAMPLES" "$file" \
            "$BIN/$name" --output "$scratch/$name.cuprof" --record "$records/$recording.cuprofrec"
        note "example $name" "$result" "$elapsed" "$(head -1 "$scratch/output")"
        cat "$scratch/output"
    done
    if [ -x "$BIN/read_parquet" ]; then
        limited "example read_parquet" "$LIMIT_EXAMPLES" "$file" "$BIN/read_parquet" "$scratch/quickstart.cuprof"
        note "example read_parquet" "$result" "$elapsed" ""
        cat "$scratch/output"
    fi
    if [ -x "$BIN/sweep" ]; then
        limited "example sweep" "$LIMIT_EXAMPLES" "$file" "$BIN/sweep" --output "$scratch/sweep.cuprof"
        note "example sweep" "$result" "$elapsed" ""
        cat "$scratch/output"
    fi
    ls -l "$records"
    tar -C "$records" -czf "$OUT/recordings.tar.gz" .
}

# Each prints to a file of its own, which scripts/paste_tutorials.py puts into examples/README.md. A tutorial fails where
# one of its claims does not hold.
tutorials() {
    local program name kept="$OUT/tutorials"
    : > "$OUT/tutorials.txt"
    mkdir -p "$kept" "$scratch/tutorials"
    for program in "$BIN"/tutorial_*; do
        [ -x "$program" ] || { note tutorials skipped 0 "not built"; continue; }
        name=$(basename "$program")
        limited "$name" "$LIMIT_TUTORIALS" "$OUT/tutorials.txt" env -C "$scratch/tutorials" "$program"
        cat "$scratch/output"
        if grep -q ': not measured' "$scratch/output"; then
            note "${name#tutorial_}" skipped 0 "$(head -1 "$scratch/output")"
            continue
        fi
        note "${name#tutorial_}" "$result" "$elapsed" "$(grep -c '^holds: ' "$scratch/output") claims hold"
        [ "$result" = ok ] || continue
        # The page is about the GPU, and not about this host.
        sed "s/$(uname -n)/host/g" "$scratch/output" > "$kept/$name.txt"
        # For replays elsewhere.
        cp "$scratch/tutorials/$name/run.cuprofrec" "$kept/$name.cuprofrec" 2> /dev/null
    done
}

# Where Nsight Compute is; nothing where it is not.
nsight_compute() {
    local name
    for name in "${NCU:-}" "$(command -v ncu)" /usr/local/cuda/bin/ncu /opt/nvidia/nsight-compute/*/ncu; do
        [ -x "$name" ] && { echo "$name"; return; }
    done
}

# Counts that are known beforehand with each CUPTI, and the same kernels under Nsight Compute. The comparison needs
# Python; without one: scripts/compare_ncu.py elsewhere, with the files.
counters() {
    local library name section ncu=${NCU:-} libraries=()
    for library in "$CUPTI"/*; do
        [ -e "$library" ] && libraries+=("$library")
    done
    [ ${#libraries[@]} -gt 0 ] || libraries=("${CUPROF_CUPTI_PATH:-}")
    for library in "${libraries[@]}"; do
        name=$(basename "${library:-searched}")
        : > "$OUT/counters-$name.jsonl"
        # A process each: what a section leaves in a process is not in the times of the next.
        for section in cost known flush replay verdicts kernels ranges; do
            CUPROF_CUPTI_PATH=$library limited "counters $name $section" "$LIMIT_COUNTERS" \
                "$OUT/counters-$name.jsonl" "$BIN/counters_proof" "$section"
            note "counters $name $section" "$result" "$elapsed" "$(grep -c '"ok":true' "$scratch/output") right, $(grep -c '"ok":false' "$scratch/output") wrong"
        done
    done
    ncu=$(nsight_compute)
    if [ -z "$ncu" ]; then
        note "Nsight Compute" skipped 0 "not installed"
        return
    fi
    "$ncu" --version | tail -2 > "$OUT/ncu.txt"
    timeout -k 10 "$LIMIT_COUNTERS" "$ncu" --clock-control none --cache-control none --csv --page raw \
        --print-units base --metrics "$("$BIN/counters_proof" metrics)" "$BIN/counters_proof" plain \
        > "$OUT/ncu.csv" 2>> "$OUT/ncu.txt"
    note "Nsight Compute" "$([ -s "$OUT/ncu.csv" ] && echo ok || echo empty)" 0 "$(wc -l < "$OUT/ncu.csv") lines"
    if ! command -v python3 > /dev/null; then
        note "comparison" skipped 0 "no python3"
        return
    fi
    for library in "${libraries[@]}"; do
        name=$(basename "${library:-searched}")
        limited "comparison $name" 60 "$OUT/ncu.md" python3 "$here/scripts/compare_ncu.py" \
            "$OUT/counters-$name.jsonl" "$OUT/ncu.csv"
        note "comparison $name" "$result" "$elapsed" "$(tail -1 "$scratch/output")"
    done
}

cost() {
    : > "$OUT/cost.md"
    # shellcheck disable=SC2086
    limited cost "$LIMIT_COST" "$OUT/cost.md" "$BIN/launch_cost" $COST_ARGS --json "$OUT/cost.json"
    cat "$scratch/output"
    note cost "$result" "$elapsed" \
        "$(grep -c '\*\*met\*\*' "$scratch/output") targets met, $(grep -c '\*\*not met\*\*' "$scratch/output") not met"
}

# What Bench measures: its tests; durations beside CUDA events and Nsight Compute; a baseline, and a comparison with it.
bench() {
    local file="$OUT/bench.txt" ours="$OUT/bench-durations.jsonl" state cache ncu ncu_files=()
    : > "$file"
    run_tests "bench tests" gpu "$LIMIT_BENCH" "$file" bench::
    cp "$scratch/output" "$OUT/bench-tests.txt"
    : > "$ours"
    limited "bench durations" "$LIMIT_BENCH" "$ours" "$BIN/bench_proof"
    note "bench durations" "$result" "$elapsed" "$(grep -c '"ok":true' "$scratch/output") steady, $(grep -c '"ok":false' "$scratch/output") not"
    # The stamping kernel without any tool, and while counters are on.
    for state in "plain warm" "plain cold" counted; do
        # Splitting is meant.
        # shellcheck disable=SC2086
        limited "bench $state" "$LIMIT_BENCH" "$ours" "$BIN/bench_proof" $state
        note "bench $state" "$result" "$elapsed" ""
    done
    ncu=$(nsight_compute)
    if [ -z "$ncu" ]; then
        note "bench beside ncu" skipped 0 "Nsight Compute is not installed"
    else
        # The cache as the program leaves it, warm and behind its flush; and as Nsight Compute empties it.
        for state in warm/none cold/none warm/all; do
            cache=${state#*/}
            state=${state%/*}
            timeout -k 10 "$LIMIT_BENCH" "$ncu" --clock-control none --cache-control "$cache" --csv --page raw \
                --print-units base --kernel-name 'regex:victim_(read|stamp)' \
                --metrics gpu__time_duration.sum \
                "$BIN/bench_proof" plain "$state" > "$OUT/bench-ncu-$state-$cache.csv" 2>> "$file"
            ncu_files+=("$OUT/bench-ncu-$state-$cache.csv")
            note "ncu $state, $cache" "$([ -s "$OUT/bench-ncu-$state-$cache.csv" ] && echo ok || echo empty)" 0 \
                "$(wc -l < "$OUT/bench-ncu-$state-$cache.csv") lines"
        done
        if command -v python3 > /dev/null; then
            limited "bench beside ncu" 60 "$OUT/bench-ncu.md" python3 "$here/scripts/compare_ncu.py" --durations \
                "$ours" "${ncu_files[@]}"
            note "bench beside ncu" "$result" "$elapsed" "$(tail -1 "$scratch/output")"
        else
            note "bench beside ncu" skipped 0 "no python3: scripts/compare_ncu.py --durations elsewhere, with the files"
        fi
    fi
    # The same program twice: nothing may be called slower (exit 1) or incomparable (exit 3); not known (2) may be.
    limited "bench baseline" "$LIMIT_BENCH" "$file" "$BIN/kernels" --bench --folder "$scratch/kernels" --save-baseline first
    note "bench baseline" "$result" "$elapsed" ""
    limited "bench comparison" "$LIMIT_BENCH" "$file" "$BIN/kernels" --bench --folder "$scratch/kernels" \
        --baseline first --fail-on slower
    cat "$scratch/output"
    note "bench comparison" "$result" "$elapsed" "$(tail -1 "$scratch/output")"
}

export RUST_BACKTRACE=${RUST_BACKTRACE:-1}
cd "$here" || exit 1

[ $# -gt 0 ] || set -- facts tests matrix examples tutorials counters cost bench
for section; do
    echo
    echo "######## $section"
    case $section in
        facts|tests|matrix|examples|tutorials|counters|cost|bench) "$section" ;;
        *) echo "there is no section $section"; note "$section" unknown 0 "" ;;
    esac
done

{
    echo
    echo "######## results"
    printf '%s\n' "${table[@]}"
} | tee "$OUT/results.txt"
exit $status
