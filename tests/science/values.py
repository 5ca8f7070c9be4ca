"""Reads a store and its export with some engines, and compares the values with what was recorded.

    values.py TRACKIOPS ENGINE...

in a directory that has `store` and `expected.json`: of each dataset its rows, in order; times are in us.
"""

import datetime
import json
import os
import subprocess
import sys
from glob import glob

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)


def duckdb_rows(files, columns):
    import duckdb

    duckdb.sql("SET TimeZone = 'UTC'")
    names = ", ".join(f"epoch_us({c})" if c.endswith("time") else c for c in columns)
    kinds = duckdb.sql(f"DESCRIBE SELECT {', '.join(columns)} FROM read_parquet({files})").fetchall()
    assert all(kind[1] in ("BIGINT", "INTEGER", "TIMESTAMP WITH TIME ZONE", "VARCHAR") for kind in kinds), kinds
    return duckdb.sql(f"SELECT {names} FROM read_parquet({files})").fetchall()


def polars_rows(files, columns):
    import polars as pl

    rows = pl.concat([pl.read_parquet(file, columns=columns, hive_partitioning=False) for file in files])
    return [tuple(map(plain, row)) for row in rows.select(columns).rows()]


def pandas_rows(files, columns):
    import pandas as pd

    parts = [pd.read_parquet(file, columns=columns, partitioning=None, dtype_backend="pyarrow") for file in files]
    rows = pd.concat(parts)[columns]
    return [tuple(map(plain, row)) for row in rows.itertuples(index=False)]


def spark_rows(files, columns):
    from pyspark.sql import SparkSession, functions as F

    spark = SparkSession.builder.master("local[1]").config("spark.sql.session.timeZone", "UTC").getOrCreate()
    names = [F.unix_micros(c) if c.endswith("time") else F.col(c) for c in columns]
    return [tuple(row) for row in spark.read.parquet(*files).select(*names).collect()]


def clickhouse_rows(files, columns):
    import chdb

    names = ", ".join(f"toUnixTimestamp64Micro({c})" if c.endswith("time") else c for c in columns)
    settings = "SETTINGS output_format_json_quote_64bit_integers = 0, use_hive_partitioning = 0"
    rows = []
    for file in files:
        asked = f"SELECT {names} FROM file('{os.path.abspath(file)}', Parquet) {settings}"
        rows += [tuple(json.loads(line)) for line in str(chdb.query(asked, "JSONCompactEachRow")).splitlines()]
    return rows


def plain(value):
    """None where nothing is known, us where it is a time."""
    if isinstance(value, str):
        return value
    if value is None or type(value).__name__ == "NAType":
        return None
    if isinstance(value, datetime.datetime):
        return (value - EPOCH) // datetime.timedelta(microseconds=1)
    assert type(value).__name__ in ("int", "int32", "int64"), type(value)
    return int(value)


ENGINES = {"DuckDB": duckdb_rows, "Polars": polars_rows, "pandas": pandas_rows, "PySpark": spark_rows, "ClickHouse": clickhouse_rows}


def main():
    program, *engines = sys.argv[1:]
    with open("expected.json", encoding="utf-8") as file:
        expected = json.load(file)
    for dataset, rows in expected.items():
        columns = list(rows[0])
        wanted = sorted((tuple(row[c] for c in columns) for row in rows), key=str)
        granularity = ["--granularity", "1s"] if dataset == "rollup" else []
        exported = f"{dataset}.parquet"
        args = ["export", "--store", "store", "--dataset", dataset, *granularity, "--output", exported]
        subprocess.run([program, *args], check=True, capture_output=True)
        finest = "granularity=1s/" if dataset == "rollup" else ""
        for files in (sorted(glob(f"store/{dataset}/{finest}**/*.parquet", recursive=True)), [exported]):
            assert files, dataset
            for engine in engines:
                found = sorted(ENGINES[engine](files, columns), key=str)
                assert found == wanted, f"{engine}, {files[0]}: {found}, expected {wanted}"
    print(f"{sum(map(len, expected.values()))} rows, read by {', '.join(engines)}")


main()
