"""Holds the single requests of a store against its rollup, with DuckDB.

Usage: requests.py STORE FILEID. Prints as JSON what they come to, what they do not agree about, and the requests of the
file in their order.
"""

import datetime
import json
import pathlib
import sqlite3
import sys

import duckdb
import pyarrow.parquet as pq

store, fileid = pathlib.Path(sys.argv[1]), int(sys.argv[2])
requests = f"read_parquet('{store}/requests/**/*.parquet')"
# Only listed files: merged ones stay for a while.
catalog = sqlite3.connect(f"file:{store / 'catalog.db'}?mode=ro", uri=True)
segments = catalog.execute("SELECT path FROM segment WHERE dataset = 'rollup' AND granularity_ms = 1000")
rollup = f"read_parquet({[str(store / path) for (path,) in segments]})"

files = sorted((store / "requests").rglob("*.parquet"))
for file in files:
    table = pq.read_table(file, partitioning=None)
    ends = table.column("end_time_ns").to_pylist()
    assert ends == sorted(ends), f"{file}: not ordered by time"
    date = datetime.date.fromisoformat(file.parent.name.removeprefix("date="))
    days = {end // 86_400_000_000_000 for end in ends}
    assert days == {(date - datetime.date(1970, 1, 1)).days}, f"{file}: rows of other dates"
    assert pq.read_metadata(file).metadata[b"trackiops.format"] == b"1", f"{file}: no format version"

# Columns of a rollup, computed from single requests. Latencies are in us, rounded by row.
COUNTS = {
    "requests": "count(*)",
    "bytes": "sum(done_bytes)",
    "errors": "count(errno)",
    "retrans": "sum(coalesce(retrans, 0))",
    "short": "count(*) FILTER (errno IS NULL AND done_bytes < asked_bytes AND NOT coalesce(eof, false))",
    "untimed": "count(*) - count(latency_ns)",
    "unsplit": "count(latency_ns) - count(rtt_ns)",
    "direct": "count(*) FILTER (direct)",
}
SUMS = {"latency_us_sum": "latency_ns", "queue_us_sum": "queue_ns", "rtt_us_sum": "rtt_ns"}


def by_file(source, columns, where=""):
    sums = ", ".join(f"coalesce({expression}, 0)::BIGINT" for expression in columns.values())
    rows = duckdb.sql(f"SELECT file_key, {sums}, count(*) FROM {source} {where} GROUP BY file_key").fetchall()
    return {row[0]: dict(zip([*columns, "rows"], row[1:])) for row in rows}


disagreements, totals = [], {}
for direction in ["read", "write"]:
    single = {**COUNTS, **{name: f"sum({of}) // 1000" for name, of in SUMS.items()}}
    single = by_file(requests, single, f"WHERE op = '{direction.upper()}'")
    rolled = by_file(rollup, {name: f"sum({direction}_{name})" for name in [*COUNTS, *SUMS]})
    for key, row in rolled.items():
        own = single.pop(key, dict.fromkeys([*COUNTS, *SUMS], 0))
        for name in [*COUNTS, *SUMS]:
            allowed = row["rows"] + 1 if name in SUMS else 0
            if abs(own[name] - row[name]) > allowed:
                disagreements.append(f"{key}: {own[name]} single, {row[name]} {direction}_{name}")
    disagreements += [f"{key}: {row} without a rollup" for key, row in single.items()]
    totals[f"{direction}_requests"], totals[f"{direction}_bytes"] = duckdb.sql(
        f"SELECT count(*), sum(done_bytes)::BIGINT FROM {requests} WHERE op = '{direction.upper()}'"
    ).fetchall()[0]

known = {}
for column in ["xid", "pid", "uid", "cgroup", "latency_ns", "queue_ns", "rtt_ns", "path", "mount"]:
    known[column] = duckdb.sql(f"SELECT count({column}) FROM {requests}").fetchall()[0][0]
parts = f"SELECT count(*) FROM {requests} WHERE queue_ns + rtt_ns > latency_ns"
twice = f"SELECT count(*) - count(DISTINCT xid) FROM {requests}"
rows = duckdb.sql(f"""SELECT op, offset_bytes, asked_bytes, done_bytes, direct FROM {requests}
    WHERE fileid = {fileid} ORDER BY end_time_ns""").fetchall()
print(
    json.dumps(
        {
            "files": len(files),
            "bytes_on_disk": sum(file.stat().st_size for file in files),
            **totals,
            "known": known,
            "parts_beyond_latency": duckdb.sql(parts).fetchall()[0][0],
            "xids_twice": duckdb.sql(twice).fetchall()[0][0],
            "disagreements": disagreements,
            "of_file": rows,
        }
    )
)
