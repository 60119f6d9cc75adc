#!/usr/bin/env python3
"""Compares counts of `counters_proof` with those of Nsight Compute; prints a Markdown table.

    ncu --clock-control none --cache-control none --csv --page raw --print-units base \\
        --metrics "$(counters_proof metrics)" counters_proof plain > ncu.csv
    counters_proof kernels ranges > counters.jsonl
    scripts/compare_ncu.py counters.jsonl ncu.csv

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


def main():
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
