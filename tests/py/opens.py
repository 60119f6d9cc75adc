#!/usr/bin/env python3
"""Checks that pyarrow and DuckDB can read every part below a folder, whole.

    opens.py FOLDER
"""

import pathlib
import sys

import duckdb
import pyarrow.parquet as pq

parts = sorted(pathlib.Path(sys.argv[1]).rglob("*.parquet"))
assert parts, "there are no parts"
rows = 0
for part in parts:
    table = pq.read_table(part)
    source = str(part).replace("'", "''")
    # The hash is of every column, so that every page is read.
    (count, _), = duckdb.sql(f"select count(*), max(hash(t)) from read_parquet('{source}') t").fetchall()
    assert count == table.num_rows, f"{part}: {count} rows in DuckDB, {table.num_rows} in pyarrow"
    rows += count
print(f"{len(parts)} parts with {rows} rows: the same in pyarrow and DuckDB")
