#!/usr/bin/env python3
"""Computes a comparison anew from the Parquet files, by the formulas of the documentation, and parses what is printed.

    check_compare.py CUPROF BASE NEW

BASE and NEW are folders with a dataset for each process run. Needs duckdb.
"""

import glob
import json
import math
import os
import subprocess
import sys
import xml.etree.ElementTree

import duckdb

BLOCK_RUNS = 25
METRIC = "gpu__time_duration.sum"


def quantile(ordered, p):
    """Type 7."""
    place = (len(ordered) - 1) * p
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


def fenced_mean(values, tick):
    ordered = sorted(values)
    lower, upper = quantile(ordered, 0.25), quantile(ordered, 0.75)
    reach = 3 * max(upper - lower, 2 * tick)
    inside = [value for value in ordered if lower - reach <= value <= upper + reach]
    return sum(inside) / len(inside)


def side(folder):
    """The logarithms of the process runs' values, by region and configuration."""
    found = {}
    for dataset in sorted(glob.glob(os.path.join(folder, "*.cuprof"))):
        env = dict(duckdb.sql(f"FROM '{dataset}/env-*.parquet'").fetchall())
        rows = duckdb.execute(
            f"SELECT annotation, config, list(value ORDER BY run, repeat) FROM '{dataset}/samples-*.parquet'"
            " WHERE metric = ? AND valid AND kernel IS NULL GROUP BY ALL",
            [METRIC],
        ).fetchall()
        for annotation, config, values in rows:
            blocks = max(1, (len(values) + BLOCK_RUNS // 2) // BLOCK_RUNS)
            bounds = [block * len(values) // blocks for block in range(blocks + 1)]
            tick = float(env["bench.tick_ns"])
            means = [fenced_mean(values[start:end], tick) for start, end in zip(bounds, bounds[1:])]
            found.setdefault((annotation, config), []).append(sum(map(math.log, means)) / blocks)
    return found


def moments(values):
    mean = sum(values) / len(values)
    return mean, sum((value - mean) ** 2 for value in values) / (len(values) - 1) / len(values)


def welch(base, new):
    (a, va), (b, vb) = moments(base), moments(new)
    df = (va + vb) ** 2 / (va**2 / (len(base) - 1) + vb**2 / (len(new) - 1))
    return b - a, math.sqrt(va + vb), df


def run(cuprof, *arguments):
    ended = subprocess.run([cuprof, "compare", *arguments], capture_output=True, text=True)
    assert ended.returncode in (0, 1, 2, 3), ended.stderr
    return ended.returncode, ended.stdout


def main():
    cuprof, base, new = sys.argv[1:]
    code, text = run(cuprof, base, new, "--format", "json")
    told = json.loads(text)
    assert told["exit_code"] == code
    known_base, known_new = side(base), side(new)
    compared = 0
    for row in told["rows"]:
        subject = (row["key"]["region"], row["key"]["config"])
        if row["verdict"] == "INCOMPARABLE":
            assert (subject in known_base) != (subject in known_new), row
            continue
        change, error, df = welch(known_base[subject], known_new[subject])
        times = row["times"]
        for known, found in [
            (change, math.log1p(times["change_ratio"])),
            (error, times["log_standard_error"]),
            (df, times["df"]),
            (math.exp(sum(known_base[subject]) / len(known_base[subject])), row["base"]["time_ns"]),
        ]:
            assert math.isclose(known, found, rel_tol=1e-9, abs_tol=1e-12), f"{subject}: {known} {found}"
        compared += 1
    assert compared and compared + told["counts"]["INCOMPARABLE"] == len({*known_base, *known_new})

    code, text = run(cuprof, base, new, "--format", "junit")
    suites = xml.etree.ElementTree.fromstring(text.encode())
    cases = suites.findall("testsuite/testcase")
    verdicts = {"failure": "SLOWER", "error": "INCOMPARABLE", "skipped": "INCONCLUSIVE"}
    for tag, verdict in verdicts.items():
        assert sum(case.find(tag) is not None for case in cases) == told["counts"][verdict], verdict
    assert int(suites.get("tests")) == len(cases) == len(told["rows"])
    assert len({case.get("name") for case in cases}) == len(cases)
    print(f"{compared} rows of {base} and {new} agree with DuckDB; {len(cases)} test cases were parsed")


if __name__ == "__main__":
    main()
