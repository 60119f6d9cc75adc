#!/usr/bin/env python3
"""Checks that other readers see a dataset as it was written.

    check_dataset.py RUN.cuprof [--rows TABLE=N]... [--sum TABLE.COLUMN=N]...

pyarrow is needed and sets the standard; DuckDB, polars and pandas are compared with it where they are installed.
For every table: the same columns, types without loss, and for every column the same number of rows and nulls and
the same sum (numbers), number of true values (booleans) or of distinct texts and their total length (texts).
"""

import argparse
import glob
import importlib
import os
import re
import sys

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

PART = re.compile(r"^([a-z_]+)-(\d{5,})\.parquet$")


def optional(name):
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


duckdb, polars, pandas = optional("duckdb"), optional("polars"), optional("pandas")


def is_text(kind):
    return pa.types.is_dictionary(kind) or pa.types.is_string(kind)


def digest_texts(values):
    """How many are null, distinct, and how long they are together (in characters)."""
    present = [value for value in values if value is not None]
    return (len(values) - len(present), len(set(present)), sum(map(len, present)))


def digest_arrow(column, kind):
    if is_text(kind):
        return digest_texts(column.to_pylist())
    if pa.types.is_boolean(kind):
        return (column.null_count, column.to_pylist().count(True))
    # Summed in Python: sums of stamps leave 64 bits.
    return (column.null_count, sum(value for value in column.to_pylist() if value is not None))


def same(a, b):
    """Equal, but for the order in which floats were added up."""
    return all(x == y or (isinstance(x, float) and abs(x - y) <= 1e-9 * abs(x)) for x, y in zip(a, b, strict=True))


def check_duckdb(files, schema, digests):
    pattern = re.sub(r"\d+\.parquet$", "*.parquet", files[0]).replace("'", "''")
    source = f"read_parquet('{pattern}')"
    described = duckdb.sql(f"describe select * from {source}").fetchall()
    kinds = {name: kind for name, kind, *_ in described}
    assert list(kinds) == schema.names, f"columns {list(kinds)}"
    for field in schema:
        name, kind = field.name, kinds[field.name]
        expected = (
            "VARCHAR" if is_text(field.type)
            else "BOOLEAN" if pa.types.is_boolean(field.type)
            else "DOUBLE" if pa.types.is_float64(field.type)
            else {"int64": "BIGINT", "uint64": "UBIGINT", "uint32": "UINTEGER", "uint16": "USMALLINT"}[str(field.type)]
        )
        assert kind == expected, f"{name} is {kind}, not {expected}"
        name = name.replace('"', '""')
        nulls = f'count(*) filter ("{name}" is null)'
        if is_text(field.type):
            what = f'{nulls}, count(distinct "{name}"), coalesce(sum(length("{name}")), 0)'
        elif pa.types.is_boolean(field.type):
            what = f'{nulls}, count(*) filter ("{name}")'
        else:
            what = f'{nulls}, coalesce(sum("{name}"), 0)'
        found = duckdb.sql(f"select {what} from {source}").fetchall()[0]
        found = tuple(value if isinstance(value, float) else int(value) for value in found)
        assert same(found, digests[field.name]), f"{name}: {found}, not {digests[field.name]}"


def check_polars(files, schema, digests):
    frame = polars.read_parquet(files)
    assert frame.columns == schema.names, f"columns {frame.columns}"
    for field in schema:
        column = frame[field.name]
        if is_text(field.type):
            found = digest_texts(column.cast(polars.String).to_list())
        else:
            assert str(column.dtype).lower() == {"bool": "boolean", "double": "float64"}.get(
                str(field.type), str(field.type)
            ), f"{field.name} is {column.dtype}"
            values = column.drop_nulls().to_list()
            found = (column.null_count(), sum(values))
        assert same(found, digests[field.name]), f"{field.name}: {found}, not {digests[field.name]}"


def check_pandas(files, schema, digests):
    plain = pandas.concat([pandas.read_parquet(file) for file in files], ignore_index=True)
    for field in schema:
        if field.name.endswith("_ns") and not field.nullable:
            assert plain[field.name].dtype == "int64", f"{field.name} is {plain[field.name].dtype}"
    exact = pandas.concat([pandas.read_parquet(file, dtype_backend="pyarrow") for file in files], ignore_index=True)
    assert list(exact.columns) == schema.names, f"columns {list(exact.columns)}"
    for field in schema:
        column = exact[field.name]
        values = [None if pandas.isna(value) else value for value in column.tolist()]
        if is_text(field.type):
            found = digest_texts(values)
        else:
            present = [value for value in values if value is not None]
            found = (len(values) - len(present), sum(present))
        assert same(found, digests[field.name]), f"{field.name}: {found}, not {digests[field.name]}"


def tables_of(folder):
    tables = {}
    for file in sorted(glob.glob(os.path.join(glob.escape(folder), "*.parquet"))):
        if match := PART.match(os.path.basename(file)):
            tables.setdefault(match[1], []).append(file)
    return tables


def check_metadata(table, files):
    for file in files:
        metadata = pq.read_schema(file).metadata
        assert metadata[b"cuprof.table"] == table.encode(), f"{file} holds {metadata[b'cuprof.table']}"
        assert metadata[b"cuprof.schema_version"] == b"2", f"{file}: version {metadata[b'cuprof.schema_version']}"
    for field in pq.read_schema(files[0]):
        assert b"description" in field.metadata, f"{field.name} has no description"
        assert not field.name.endswith("_ns") or field.metadata[b"unit"] == b"ns", f"{field.name} has no unit"
        assert not pa.types.is_nested(field.type) and not pa.types.is_duration(field.type), f"{field.name}: {field.type}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("dataset")
    parser.add_argument("--rows", action="append", default=[], metavar="TABLE=N")
    parser.add_argument("--sum", action="append", default=[], metavar="TABLE.COLUMN=N")
    arguments = parser.parse_args()

    readers = {"duckdb": (duckdb, check_duckdb), "polars": (polars, check_polars), "pandas": (pandas, check_pandas)}
    present = {name: check for name, (module, check) in readers.items() if module}
    missing = [name for name in readers if name not in present]
    tables = tables_of(arguments.dataset)
    assert tables, f"{arguments.dataset} holds no dataset"
    rows, sums = {}, {}
    for table, files in tables.items():
        check_metadata(table, files)
        read = pa.concat_tables([pq.read_table(file, partitioning=None) for file in files])
        rows[table] = read.num_rows
        digests = {field.name: digest_arrow(read[field.name], field.type) for field in read.schema}
        sums |= {f"{table}.{name}": digest[1] for name, digest in digests.items()}
        for name, check in present.items():
            try:
                check(files, read.schema, digests)
            except AssertionError as error:
                sys.exit(f"{name}, table {table}: {error}")
        print(f"{table}: {read.num_rows} rows in {len(files)} parts, {len(digests)} columns")
    for known, wanted in ((rows, arguments.rows), (sums, arguments.sum)):
        for what, value in (item.rsplit("=", 1) for item in wanted):
            assert known[what] == int(value), f"{what} is {known[what]}, not {value}"
    print("agree: pyarrow, " + ", ".join(present) + (f"; not installed: {', '.join(missing)}" if missing else ""))


if __name__ == "__main__":
    main()
