"""The rows of the finest granularity of a store, as JSON: `rows.py STORE COLUMN...`; `time` is in ms."""

import json
import sys

import pyarrow.dataset as ds

store, *columns = sys.argv[1:]
table = ds.dataset(f"{store}/rollup/granularity=1s", format="parquet").to_table(columns=columns)
for row in table.to_pylist():
    if "time" in row:
        row["time"] = int(row["time"].timestamp() * 1000)
    print(json.dumps(row))
