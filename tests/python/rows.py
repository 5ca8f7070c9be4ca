"""The rows of the finest granularity of a store, as JSON: `rows.py STORE COLUMN...`; `time` is in ms."""

import json
import sqlite3
import sys

import pyarrow.dataset as ds

store, *columns = sys.argv[1:]
# Only listed files: merged ones stay for a while.
catalog = sqlite3.connect(f"file:{store}/catalog.db?mode=ro", uri=True)
segments = catalog.execute("SELECT path FROM segment WHERE dataset = 'rollup' AND granularity_ms = (SELECT min(granularity_ms) FROM segment)")
table = ds.dataset([f"{store}/{path}" for (path,) in segments], format="parquet").to_table(columns=columns)
for row in table.to_pylist():
    if "time" in row:
        row["time"] = int(row["time"].timestamp() * 1000)
    print(json.dumps(row))
