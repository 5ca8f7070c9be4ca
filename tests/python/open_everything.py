"""Opens every Parquet file of a store with pyarrow and DuckDB and holds the catalog against them.

Usage: open_everything.py STORE. Prints totals of the finest granularity as JSON; exits non-zero with
the reason when something does not fit.
"""

import json
import pathlib
import sqlite3
import sys

import duckdb
import pyarrow.parquet as pq

store = pathlib.Path(sys.argv[1])
catalog = sqlite3.connect(f"file:{store / 'catalog.db'}?mode=ro", uri=True)
assert catalog.execute("PRAGMA integrity_check").fetchone() == ("ok",)
segments = catalog.execute(
    "SELECT path, dataset, granularity_ms, start_ms, end_ms, rows, bytes FROM segment"
).fetchall()

on_disk = {str(p.relative_to(store)) for p in store.rglob("*.parquet")}
assert on_disk == {s[0] for s in segments}, f"catalog and files differ: {on_disk ^ {s[0] for s in segments}}"

for path, dataset, granularity_ms, start_ms, end_ms, rows, size in segments:
    file = store / path
    assert file.stat().st_size == size, f"{path}: {file.stat().st_size} bytes, catalog {size}"
    table = pq.read_table(file, partitioning=None)
    assert table.num_rows == rows > 0, f"{path}: {table.num_rows} rows, catalog {rows}"
    counted = duckdb.sql(f"SELECT count(*) FROM read_parquet('{file}', hive_partitioning = false)").fetchall()[0][0]
    assert counted == rows, f"{path}: DuckDB sees {counted} rows, catalog {rows}"
    times = [us // 1000 for us in table.column("time").cast("int64").to_pylist()]
    assert min(times) == start_ms and max(times) + granularity_ms == end_ms, f"{path}: times outside the catalog's"
    assert all(t % granularity_ms == 0 for t in times), f"{path}: windows are not aligned"
    dates = {t.date().isoformat() for t in table.column("time").to_pylist()}
    assert dates == {file.parent.name.removeprefix("date=")}, f"{path}: rows of other dates"
    if dataset == "rollup":
        keys = list(zip(table.column("file_key").to_pylist(), times))
        assert keys == sorted(keys), f"{path}: not sorted by (file_key, time)"
        types = {name: str(table.schema.field(name).type) for name in ["uid", "user", "cgroup"]}
        assert types == {"uid": "int64", "user": "string", "cgroup": "string"}, f"{path}: tenants are {types}"
        for d in ["read", "write"]:
            odd = duckdb.sql(f"""SELECT count(*) FROM read_parquet('{file}', hive_partitioning = false)
                WHERE coalesce(list_sum([b.count FOR b IN {d}_latency_hist]), 0) <> {d}_requests - {d}_folded - {d}_untimed""")
            assert odd.fetchall() == [(0,)], f"{path}: histograms do not hold every timed {d} that was not folded"
    if dataset == "ops":
        odd = duckdb.sql(f"""SELECT count(*) FROM read_parquet('{file}', hive_partitioning = false)
            WHERE op <> '(other)' AND coalesce(list_sum([b.count FOR b IN execute_hist]), 0) <> requests""")
        assert odd.fetchall() == [(0,)], f"{path}: histograms do not hold every operation"
    metadata = pq.read_metadata(file).metadata
    assert metadata[b"trackiops.format"] == b"1" and b"trackiops.writer" in metadata, f"{path}: no format version"

finest = min(s[2] for s in segments if s[1] == "rollup")
label = next(s[0] for s in segments if s[1] == "rollup" and s[2] == finest).split("/")[1]
keys = ["read_requests", "write_requests", "read_bytes", "write_bytes"]
sums = ", ".join(f"sum({k})::BIGINT" for k in keys)
totals = {}
for granularity in {s[0].split("/")[1] for s in segments if s[1] == "rollup"}:
    files = [str(store / s[0]) for s in segments if s[0].startswith(f"rollup/{granularity}/")]
    totals[granularity] = duckdb.sql(f"SELECT {sums} FROM read_parquet({files})").fetchall()[0]
assert len(set(totals.values())) == 1, f"granularities disagree: {totals}"
print(json.dumps({"segments": len(segments), **dict(zip(keys, totals[label]))}))
