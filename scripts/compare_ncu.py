#!/usr/bin/env python3
"""Compares counts of `counters_proof` with those of Nsight Compute; prints a Markdown table.

    ncu --clock-control none --cache-control none --csv --page raw --print-units base \\
        --metrics "$(counters_proof metrics)" counters_proof plain > ncu.csv
    counters_proof kernels ranges > counters.jsonl
    scripts/compare_ncu.py counters.jsonl ncu.csv

    scripts/compare_ncu.py --durations durations.jsonl ncu-warm-none.csv ncu-cold-none.csv ncu-warm-all.csv

compares durations of `bench_proof` with `gpu__time_duration` of `bench_proof plain`: that is longer by the launch overhead,
which the kernel's record leaves out, and so by one constant for all sizes of a state. Kernels run at another speed under
Nsight Compute, so that each is measured from the time that the kernel's blocks saw under it, by stamps of the GPU's own
timer. The exit status is 1 where one size is off by more than 200 ns.

Each value is a median over the launches of a kernel that are not warm-up. Both repeat each kernel for each pass and
leave clocks and caches alone. A difference beyond 2 % for counts and 5 % for rates is marked; the exit status is 1 then.
"""

import csv
import json
import statistics
import sys
from collections import defaultdict

WARM_UP = 2
# What follows from the program; the rest are rates and times, which clocks and caches move.
COUNTS = ("bytes", "sectors.sum", "inst_executed.sum", "inst_executed_pipe", "inst_executed_op", "launched", "conflicts")
RATES = ("pct", "per_cycle", "throughput")


def tolerance(metric):
    if any(part in metric for part in RATES):
        return 0.05
    return 0.02 if any(part in metric for part in COUNTS) else 0.05


def short(kernel):
    """The name as it stands in the source, whether mangled or with its parameters."""
    kernel = kernel.split("(")[0].strip()
    return "saxpy" if kernel.startswith("_Z5saxpy") else kernel


def ours(path):
    by_label = {}
    for line in open(path, encoding="utf-8"):
        if not line.startswith("{"):
            continue
        row = json.loads(line)
        if "metric" not in row or row.get("section") not in ("kernels", "ranges"):
            continue
        values = by_label.setdefault(row["section"], defaultdict(list))
        values[short(row["range"]), row["metric"]].append(row["value"])
    # Of kernels, the launches that warm up are ranges too.
    for key, values in by_label.get("kernels", {}).items():
        by_label["kernels"][key] = values[WARM_UP:]
    return by_label


def theirs(path):
    lines = [line for line in open(path, encoding="utf-8") if not line.startswith("==")]
    start = next(at for at, line in enumerate(lines) if "Kernel Name" in line)
    rows = csv.DictReader(lines[start:])
    values = defaultdict(list)
    for row in rows:
        if not (row.get("ID") or "").strip().isdigit():
            continue  # the row of units
        for metric, text in row.items():
            if metric and "__" in metric and text:
                try:
                    values[short(row["Kernel Name"]), metric].append(float(text.replace(",", "")))
                except ValueError:
                    pass
    return {key: series[WARM_UP:] for key, series in values.items()}


def median(values):
    values = [value for value in values or [] if value is not None]
    return statistics.median(values) if values else None


def text(value):
    if value is None:
        return "–"
    return f"{value:.0f}" if float(value).is_integer() else f"{value:.4g}" if abs(value) < 1e6 else f"{value:.6g}"


# Of `bench_proof`: launches that warm up, bytes that a block reads, and how far from the constant a difference may be.
PROOF_WARM_UP = 5
BLOCK_BYTES = 512 * 16
MAX_DEVIATION_NS = 200


def durations_of_ncu(path):
    """Durations of `victim_read` and of `victim_stamp`, by the kernel and the bytes that it reads."""
    lines = [line for line in open(path, encoding="utf-8") if not line.startswith("==")]
    start = next(at for at, line in enumerate(lines) if "Kernel Name" in line)
    series = defaultdict(list)
    for row in csv.DictReader(lines[start:]):
        if (row.get("ID") or "").strip().isdigit():
            size = int(row["Grid Size"].strip("( ").split(",")[0]) * BLOCK_BYTES
            duration = float(row["gpu__time_duration.sum"].replace(",", ""))
            series[short(row["Kernel Name"]), size].append(duration)
    return {key: statistics.median(durations[PROOF_WARM_UP:]) for key, durations in series.items()}


def rows_of(path, section):
    """The lines of JSON that `bench_proof` printed for a section; under Nsight Compute they stand before its own."""
    lines = [line for line in open(path, encoding="utf-8") if line.startswith('{"section":"%s"' % section)]
    return [json.loads(line) for line in lines]


def compare_durations(ours_path, *ncu_paths):
    rows = rows_of(ours_path, "durations")
    stamps = {(row["by"], row["state"], row["bytes"]): row for row in rows_of(ours_path, "stamps")}
    # Which of ours each is beside, by what the cache holds.
    beside = {"warm-none": "warm", "cold-none": "cold", "warm-all": "cold"}
    failed = False
    for path in ncu_paths:
        state = next(name for name in beside if name in path)
        failed |= not compare_state(path, beside[state], state.split("-")[1], rows, stamps)
    steady = [row["ok"] for row in rows]
    print(f"\n{steady.count(True)} of {len(steady)} spreads are within 2 %, or of durations below 3 us")
    return 1 if failed or not all(steady) else 0


def compare_state(path, state, cache_control, rows, stamps):
    """Whether the two tools differ by one constant, once each is measured from what the kernel's blocks saw under it."""
    ncu, ncu_stamps = durations_of_ncu(path), {row["bytes"]: row for row in rows_of(path, "stamps")}
    table = []
    for row in rows:
        size = row["bytes"]
        stamped = stamps.get(("bench", state, size))
        if row["state"] != state or stamped is None or size not in ncu_stamps or ("victim_read", size) not in ncu:
            continue
        ours_beyond = stamped["recorded_ns"] - stamped["span_ns"]
        ncu_beyond = ncu["victim_stamp", size] - ncu_stamps[size]["span_ns"]
        table.append((row, ncu["victim_read", size], stamped, ncu_stamps[size], ours_beyond, ncu_beyond))
    if not table:
        print(f"{path}: nothing to compare")
        return False
    constant = statistics.median(ncu_beyond - ours_beyond for *_, ours_beyond, ncu_beyond in table)
    print(f"\n{state}, beside `--cache-control {cache_control}`; medians in ns\n")
    print(
        "| bytes | Bench | spread | events | ncu | ncu - Bench | blocks: no tool | counted | serialized | Bench | ncu "
        "| beyond blocks: serialized | Bench | ncu | ncu - Bench | from the constant |"
    )
    print("|---:|" + "---:|" * 15)
    beyond = 0
    for row, ncu_ns, stamped, ncu_stamped, ours_beyond, ncu_beyond in table:
        size, off = row["bytes"], ncu_beyond - ours_beyond - constant
        beyond += abs(off) > MAX_DEVIATION_NS
        spans = [(stamps.get((by, state, size)) or {}).get("span_ns") for by in ("plain", "counted", "serialized")]
        serialized = (stamps.get(("serialized", state, size)) or {}).get("recorded_ns")
        serialized_beyond = serialized - spans[2] if serialized and spans[2] else None
        print(
            f"| {size} | {row['median_ns']:.0f} | {row['robust_cv']:.1%} | {text(row['events_ns'])} | {ncu_ns:.0f} "
            f"| {ncu_ns - row['median_ns']:.0f} | {' | '.join(map(text, spans))} | {stamped['span_ns']:.0f} "
            f"| {ncu_stamped['span_ns']:.0f} | {text(serialized_beyond)} | {ours_beyond:.0f} | {ncu_beyond:.0f} | {ncu_beyond - ours_beyond:.0f} "
            f"| {off:+.0f}{' **beyond**' if abs(off) > MAX_DEVIATION_NS else ''} |"
        )
    told = f"{beyond} of {len(table)} sizes are more than {MAX_DEVIATION_NS} ns off"
    print(f"\nFrom its blocks, ncu is longer than Bench by {constant:.0f} ns; {told}")
    return beyond == 0


def main():
    if sys.argv[1:2] == ["--durations"]:
        return compare_durations(*sys.argv[2:])
    mine, ncu = ours(sys.argv[1]), theirs(sys.argv[2])
    kernels = mine.get("kernels", {})
    print("| kernel | metric | ncu | by kernels | difference | by ranges | |")
    print("|---|---|---:|---:|---:|---:|---|")
    beyond = compared = 0
    for (kernel, metric), values in sorted(kernels.items()):
        reference, found = median(ncu.get((kernel, metric))), median(values)
        by_range = median(mine.get("ranges", {}).get((kernel, metric)))
        if reference is None or found is None:
            print(f"| {kernel} | {metric} | {text(reference)} | {text(found)} | | {text(by_range)} | not in both |")
            continue
        compared += 1
        difference = found - reference
        relative = difference / abs(reference) if reference else (0.0 if difference == 0 else float("inf"))
        limit = tolerance(metric)
        # Where nearly nothing is counted, what the GPU does beside is all there is.
        small = max(abs(found), abs(reference)) < (1.0 if limit == 0.05 else 100_000.0)
        remark = "" if abs(relative) <= limit else "nearly nothing" if small else f"beyond {limit:.0%}"
        beyond += remark.startswith("beyond")
        print(
            f"| {kernel} | {metric} | {text(reference)} | {text(found)} | {relative:+.2%} | {text(by_range)} | {remark} |"
        )
    print(f"\n{compared} values compared, {beyond} beyond their limits")
    return 1 if beyond or not compared else 0


if __name__ == "__main__":
    sys.exit(main())
