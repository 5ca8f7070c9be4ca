"""Asks `trackiops query` and an engine the same questions.

    equality.py TRACKIOPS SEED

in a directory that has `store`: random questions, and DuckDB is asked about the single requests. Counts and sums must be equal,
percentiles within their documented bound.

    equality.py TRACKIOPS QUESTIONS GRANULARITY [--live] ENGINE...

in a directory that has the stores `one` and `two`: the questions of a file, and engines are asked about the Parquet files of a granularity.
With --live the stores are being merged meanwhile: a file may vanish, or rows be missing for an instant, so an engine is asked again.
"""

import argparse
import collections
import copy
import csv
import datetime
import io
import itertools
import math
import pathlib
import random
import re
import shlex
import sqlite3
import subprocess
import sys
import time

import duckdb

QUESTIONS = 60
# 2026-11-21T03:00:00Z, when recordings begin, and their length.
START, SECONDS = 1795230000, 190
BOUND = 0.011
# Numbers in CSV have three decimals.
ROUNDED = 0.00051
# While a store is merged, an answer is tried again for this long.
LIVE_SECONDS = 20
STEPS = {"1s": 1, "5s": 5, "10s": 10, "20s": 20, "1m": 60, "all": None}
SUMS = {
    "requests": "count(*)",
    "bytes": "sum(done_bytes)",
    "errors": "count(errno)",
    "short": "count(*) FILTER (errno IS NULL AND done_bytes < asked_bytes AND NOT coalesce(eof, false))",
    "retrans": "sum(retrans)",
    "untimed": "count(*) FILTER (latency_ns IS NULL)",
    "unsplit": "count(*) FILTER (latency_ns IS NOT NULL AND queue_ns IS NULL)",
    "direct": "count(*) FILTER (direct)",
    "latency_us_sum": "sum(latency_ns) // 1000",
    "latency_us_max": "max(latency_ns) // 1000",
    "queue_us_sum": "sum(queue_ns) // 1000",
    "rtt_us_sum": "sum(rtt_ns) // 1000",
}
PERCENTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999}
# Columns that distinguish rows, by the subject of rows.
BY = {
    "file": ["file_key"],
    "file,tenant": ["file_key", "tenant_name", "uid", "cgroup"],
    "tenant": ["host", "tenant_name", "uid", "cgroup"],
    "mount": ["mount"],
    "host": ["host"],
}
# The questions, in the words of both sides.
FILES = [
    ([], "true"),
    (["--file", "/mnt/all/d1/sub1/f1"], "path = '/mnt/all/d1/sub1/f1'"),
    (["--file", "/mnt/all/shared/f5"], "path = '/mnt/all/shared/f5'"),
    (["--file", "/mnt/all/d*/sub1/f*1"], r"regexp_full_match(path, '/mnt/all/d[^/]*/sub1/f[^/]*1')"),
    (["--dir", "/mnt/all/d2"], "starts_with(path, '/mnt/all/d2/')"),
    (["--dir", "/mnt/all/d0", "--file", "/mnt/all/**/f7"], "starts_with(path, '/mnt/all/d0/') OR path LIKE '/mnt/all/%/f7'"),
    (["--mount", "srv:/odd"], "mount = 'srv:/odd'"),
    (["--mount", "srv:/e*", "--dir", "/mnt/all/d1"], "mount = 'srv:/even' AND starts_with(path, '/mnt/all/d1/')"),
]


def trackiops(program, *args):
    return subprocess.run([program, *args], capture_output=True, text=True)


class Question:
    """A question in the words of either."""

    def __init__(self, numbers):
        self.step = numbers.choice(list(STEPS))
        self.by = numbers.choice(list(BY))
        self.directions = numbers.choice([["read", "write"], ["read", "write"], ["read"], ["write"]])
        self.args, self.files = numbers.choice(FILES)
        self.args = [*self.args, "--step", self.step, "--by", self.by]
        if len(self.directions) == 1:
            self.args += ["--op", self.directions[0]]
        # A range consists of whole windows.
        unit = STEPS[self.step] or 1
        first = numbers.randrange(0, SECONDS // unit + 1)
        last = numbers.randrange(first + 1, SECONDS // unit + 2)
        self.since, self.until = START + first * unit, START + last * unit
        if numbers.random() < 0.3:
            self.since, self.until = START, START + 3600
        self.having = None
        if numbers.random() < 0.25:
            least = numbers.randrange(1, 12)
            self.having = (f"requests >= {least}", f"count(*) >= {least}")
            self.args += ["--where", self.having[0]]

    def asked(self, program):
        columns = ["time", *BY[self.by]]
        columns += [f"{d}_{name}" for d in self.directions for name in SUMS]
        columns += [f"{d}_{name}" for d in self.directions for name in PERCENTILES]
        at = lambda second: ["--since", "--until"][second == self.until]
        times = [word for second in (self.since, self.until) for word in (at(second), utc(second))]
        done = trackiops(
            program, "query", "--store", "store", *self.args, *times, "--format", "csv", "--columns", ",".join(columns)
        )
        assert done.returncode in (0, 1), done.stderr
        rows = list(csv.reader(io.StringIO(done.stdout)))[1:]
        keys = 1 + len(BY[self.by])
        found = {}
        for row in rows:
            key = tuple(row[:keys] if self.step != "all" else row[1:keys])
            assert key not in found, f"two rows of {key}"
            found[key] = row[keys:]
        return found

    def computed(self, db):
        seconds = STEPS[self.step]
        window = f"end_time_ns // {seconds * 10**9} * {seconds}" if seconds else "0"
        values = []
        for d in self.directions:
            values += [f"coalesce({of(what, d)}, 0)" for what in SUMS.values()]
        for d in self.directions:
            percentiles = (f"quantile_disc(latency_ns, {q})" for q in PERCENTILES.values())
            values += [f"{of(what, d)} / 1000" for what in percentiles]
        only = "','".join(d.upper() for d in self.directions)
        keys = ", ".join(BY[self.by])
        rows = db.sql(f"""
            SELECT {window} AS time, {keys}, {', '.join(values)} FROM requests
            WHERE ({self.files}) AND op IN ('{only}') AND end_time_ns >= {self.since * 10**9}
                AND end_time_ns < {self.until * 10**9}
            GROUP BY ALL {f'HAVING {self.having[1]}' if self.having else ''}
        """).fetchall()
        count = len(BY[self.by])
        found = {}
        for time, *row in rows:
            key = ["" if part is None else str(part) for part in row[:count]]
            found[tuple([utc(time, ".000Z"), *key] if seconds else key)] = row[count:]
        return found


def compare_tenants(program, db):
    """Tenants of files over what is sealed, by the names of the store's own columns."""
    columns = ["file_key", "uid", "cgroup", "user", "read_requests", "write_bytes"]
    args = ["--step", "all", "--by", "file,tenant", "--format", "csv", "--columns", ",".join(columns)]
    done = trackiops(program, "query", "--store", "store", *args)
    assert done.returncode == 0, done.stderr
    asked = sorted(csv.reader(io.StringIO(done.stdout)))[:-1]
    # Merged files stay for a while.
    removed = {path for (path,) in sqlite3.connect("store/catalog.db").execute("SELECT path FROM removed")}
    files = [str(path) for path in pathlib.Path("store").glob("rollup/granularity=1s/**/*.parquet")]
    files = [path for path in files if path.removeprefix("store/") not in removed]
    rows = db.sql(f"""
        SELECT file_key, uid, cgroup, any_value("user"), sum(read_requests)::BIGINT, sum(write_bytes)::BIGINT
        FROM read_parquet({files}) GROUP BY file_key, uid, cgroup
    """).fetchall()
    computed = sorted(["" if part is None else str(part) for part in row] for row in rows)
    assert asked == computed, f"tenants differ: {[pair for pair in zip(asked, computed) if pair[0] != pair[1]][:5]}"
    assert {row[3] for row in asked} == {"", "alice"}, "users have no names"


def of(what, direction):
    """An aggregate of one direction's requests."""
    is_own = f"op = '{direction.upper()}'"
    if " FILTER (" in what:
        return what.replace(" FILTER (", f" FILTER ({is_own} AND ")
    head, slashes, tail = what.partition(" // ")
    return f"{head} FILTER ({is_own}){slashes}{tail}"


def utc(second, end="Z"):
    return datetime.datetime.fromtimestamp(second, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S") + end


def compare(question, asked, computed):
    assert asked.keys() == computed.keys(), f"rows differ: {sorted(asked.keys() ^ computed.keys())[:5]}"
    exact = len(SUMS) * len(question.directions)
    for key, values in computed.items():
        answered = asked[key]
        for i, (mine, theirs) in enumerate(zip(values, answered, strict=True)):
            if i < exact:
                assert int(theirs) == mine, f"{key}, value {i}: {theirs}, computed {mine}"
            elif mine is None:
                assert theirs == "", f"{key}, value {i}: {theirs}, and nothing to compute it from"
            else:
                distance = abs(float(theirs) - mine)
                assert distance <= BOUND * mine + ROUNDED, f"{key}, value {i}: {theirs}, computed {mine}"


# Questions of a table, for an engine that reads the Parquet files. The engine filters, groups, and computes sums and histograms. Means,
# percentiles, rates and the order are computed here.
DAY, COVERED = "2026-11-21", ("covered_ms", "ops_covered_ms")
DEFAULT_RANGE = (f"{DAY}T03:00:00Z", f"{DAY}T03:02:30Z")
HISTOGRAMS = ("read_latency_hist", "write_latency_hist", "execute_hist")
MAXIMA = ("read_latency_us_max", "write_latency_us_max", "execute_us_max")
IDENTITY = ["path", "mount", "dev", "fileid", "uid", "user", "cgroup", "container", "tenant_name", "labels", "transport"]
UNITS = {"us": 1, "ms": 1e3, "s": 1e6, "KiB": 2**10, "MiB": 2**20, "": 1}
STEP_US = {"1s": 10**6, "10s": 10**7, "1m": 6 * 10**7}
SIDE = ["requests", "bytes", "latency_us_sum", "latency_us_max", "queue_us_sum", "rtt_us_sum", "errors", "retrans", "short", "folded",
        "untimed", "unsplit", "direct"]
OF_OPS = ["requests", "errors", "sent_bytes", "received_bytes", "queue_us_sum", "rtt_us_sum", "execute_us_sum", "execute_us_max"]
# Columns of a file's row that correspond to columns of an operation.
AS_OP = {"requests": "requests", "errors": "errors", "queue_us_sum": "queue_us_sum", "rtt_us_sum": "rtt_us_sum",
         "execute_us_sum": "latency_us_sum", "execute_us_max": "latency_us_max", "untimed": "untimed", "unsplit": "unsplit"}


def pattern(glob):
    """A regular expression for a pattern of names. Brackets are the same in all engines, and backslashes are not."""
    parts = {"**/": "(.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    words = re.split(r"(\*\*/|\*\*|\*|\?)", glob)
    return "".join(parts.get(word) or re.sub(r"[.+()|$^]", "[\\g<0>]", word) for word in words)


class Asked:
    """A line of the table, as what an engine is to do."""

    def __init__(self, line):
        flags = argparse.ArgumentParser()
        for flag in ("by", "step", "op", "sort", "columns", "since", "until"):
            flags.add_argument(f"--{flag}")
        for flag in ("where", "file", "dir", "mount"):
            flags.add_argument(f"--{flag}", action="append", default=[])
        flags.add_argument("--depth", type=int, default=1)
        flags.add_argument("--top", type=int)
        self.line, self.words = line, shlex.split(line)
        self.flags = flags = flags.parse_args(self.words)
        if not flags.since:
            flags.since, flags.until = DEFAULT_RANGE
            self.words += ["--since", flags.since, "--until", flags.until]
        self.is_ranged = "--since" in line
        self.ops = flags.op.upper().split(",") if flags.op else []
        by = (flags.by or "file").split(",")
        of_operations = "op" in by or not set(self.ops) <= {"READ", "WRITE"}
        if of_operations and not flags.by:
            by = ["op"]
        self.step = STEP_US.get(flags.step)
        self.by = next((level for level in ("file", "dir", "mount", "host") if level in by), "mount" if of_operations else "host")
        self.source = "rollup"
        if of_operations:
            self.source = "file_ops" if {"file", "dir", "tenant"} & set(by) or flags.file or flags.dir else "ops"
        self.keys = ["host", *{"file": ["file_key"], "dir": ["mount", "dir"], "mount": ["mount"], "host": []}[self.by]]
        self.keys += ["tenant_name", "uid", "cgroup"] if "tenant" in by else []
        self.keys += ["op"] if of_operations else []
        self.keys += ["transport"] if "transport" in by else []
        self.sums = OF_OPS + ["untimed", "unsplit"] if of_operations else [f"{d}_{name}" for d in ("read", "write") for name in SIDE]
        if self.source == "ops":
            self.sums = OF_OPS
        self.histograms = ["execute_hist"] if of_operations else ["read_latency_hist", "write_latency_hist"]
        bases = "|".join(flags.dir or ["/mnt/even", "/mnt/odd"])
        # Directories up to this depth; a text that is not a path stands for itself.
        self.dir = f"^((?:{bases})(?:/[^/]+){{0,{flags.depth}}})/[^/]|^([^/].*)$"

    def conditions(self, granularity_us):
        """Lists of alternatives, all of which must hold: a column, how it is compared, and with what."""
        flags, us = self.flags, lambda at: round(datetime.datetime.fromisoformat(at).timestamp() * 10**6)
        files = [("path", "~", f"^{pattern(file)}$") for file in flags.file if file.startswith("/")]
        files += [("path", "~", f"^{path}/") for path in flags.dir]
        files += [("id", "=", file) for file in flags.file if not file.startswith("/")]
        mounts = [("mount", "~", f"^{pattern(mount)}$") for mount in flags.mount]
        # A range consists of whole stored windows.
        times = [[("us", ">", us(flags.since) - granularity_us)], [("us", "<", us(flags.until))]]
        return [each for each in (files, mounts, *times) if each]


class Sql:
    """DuckDB and Spark, which have different words for a few things."""

    def conditions(self, asked, granularity_us):
        text = lambda word: "'" + word.replace("'", "''") + "'"
        one = {
            "~": lambda column, value: f"{self.matches}({column}, {text(value)})",
            "=": lambda _, value: f"concat(dev, ':', fileid) = {text(value)}",
        }
        def condition(column, how, value):
            return one[how](column, value) if how in one else f"{column} {how} {value}"
        both = asked.conditions(granularity_us)
        return " AND ".join("(" + " OR ".join(condition(*one) for one in some) + ")" for some in both)

    def source(self, asked):
        if asked.source != "file_ops":
            return asked.source
        of = f"host, mount, path, file_key, dev, fileid, uid, {self.quoted('user')}, cgroup, container, tenant_name, labels, us"
        sides = []
        for side, sent, received in (("read", "0", "read_bytes"), ("write", "write_bytes", "0")):
            columns = [f"{side}_{mine} AS {name}" for name, mine in AS_OP.items()]
            columns += [f"{sent} AS sent_bytes", f"{received} AS received_bytes", f"{side}_latency_hist AS execute_hist"]
            sides.append(f"SELECT {of}, '{side.upper()}' AS op, {', '.join(columns)} FROM rollup WHERE {side}_requests > 0")
        others = [f"o.{name} AS {name}" for name in AS_OP if name not in ("untimed", "unsplit")]
        others += ["0 AS untimed", "0 AS unsplit", "0 AS sent_bytes", "0 AS received_bytes", "NULL AS execute_hist"]
        sides.append(f"SELECT {of}, o.op AS op, {', '.join(others)} FROM (SELECT *, {self.unnest}(ops) AS o FROM rollup)")
        return f"({' UNION ALL '.join(sides)})"

    def select(self, asked, granularity_us, columns, having=""):
        names = [self.quoted(key) for key in ["window", *asked.keys]]
        keys = [f"us {self.div} {asked.step} * {asked.step} AS {names[0]}" if asked.step else f"0 AS {names[0]}"]
        directory = [f"nullif(regexp_extract(path, '{asked.dir}', {i}), '')" for i in (1, 2)]
        keys += [f"coalesce({', '.join(directory)}) AS dir" if key == "dir" else key for key in asked.keys]
        inner = f"SELECT *, {', '.join(key for key in keys if ' AS ' in key)} FROM {self.source(asked)} WHERE {self.conditions(asked, granularity_us)}"
        if having:
            inner = f"SELECT *, {self.unnest}({having}) AS h FROM ({inner})"
        columns = [f"{what} AS {self.quoted(name)}" for name, what in columns.items()]
        return self.rows(f"SELECT {', '.join(names + columns)} FROM ({inner}) GROUP BY {', '.join(names)}" + (", h.bucket" if having else ""))

    def totals(self, asked, granularity_us):
        return self.select(asked, granularity_us, {name: f"{'max' if name in MAXIMA else 'sum'}({name})" for name in asked.sums})

    def buckets(self, asked, granularity_us, histogram):
        return self.select(asked, granularity_us, {"bucket": "h.bucket", "n": "sum(h.count)"}, histogram)

    def names(self, asked, granularity_us):
        """The last of what may differ, and whether it does."""
        columns = {}
        for name in self.identity(asked):
            column = self.quoted(name)
            columns[name] = f"max_by({column}, us)" if not self.is_spark else f"max_by({column}, us) FILTER (WHERE {column} IS NOT NULL)"
            columns[f"{name}_differ"] = f"count(DISTINCT {column}) + max(CASE WHEN {column} IS NULL THEN 1 ELSE 0 END) > 1"
        return self.select(asked, granularity_us, columns) if columns else []

    def identity(self, asked):
        there = ["transport"] if asked.source == "ops" else IDENTITY[:-1]
        return [name for name in there if name not in asked.keys]

    def covered(self, step, since, until, column):
        window = f"us {self.div} {step} * {step}" if step else "0"
        return {(row["w"], row["host"]): row["ms"] for row in self.rows(
            f"SELECT {window} AS w, host, sum({column}) AS ms FROM health WHERE us > {since} AND us < {until} GROUP BY 1, 2")}


class DuckDB(Sql):
    matches, unnest, div, is_spark = "regexp_matches", "unnest", "//", False

    def __init__(self, granularity):
        self.db = duckdb.connect()
        for dataset in ("rollup", "ops", "health"):
            files = [f"{store}/{dataset}/granularity={granularity}/**/*.parquet" for store in ("one", "two")]
            self.db.sql(f"CREATE VIEW {dataset} AS SELECT *, epoch_us(time) AS us FROM read_parquet({files})")

    @staticmethod
    def quoted(name):
        return f'"{name}"'

    def rows(self, sql):
        found = self.db.execute(sql)
        names = [column[0] for column in found.description]
        return [dict(zip(names, row)) for row in found.fetchall()]


class PySpark(Sql):
    matches, unnest, div, is_spark = "regexp_like", "explode", "div", True

    def __init__(self, granularity):
        from pyspark.sql import SparkSession, functions as F

        builder = SparkSession.builder.master("local[2]").config("spark.sql.session.timeZone", "UTC").config("spark.ui.enabled", "false")
        self.spark = builder.config("spark.sql.shuffle.partitions", "1").config("spark.sql.ansi.enabled", "false").getOrCreate()
        for dataset in ("rollup", "ops", "health"):
            files = [f"{store}/{dataset}/granularity={granularity}" for store in ("one", "two")]
            rows = self.spark.read.parquet(files[0]).unionByName(self.spark.read.parquet(files[1]))
            rows.withColumn("us", F.unix_micros("time")).cache().createOrReplaceTempView(dataset)

    @staticmethod
    def quoted(name):
        return f"`{name}`"

    def rows(self, sql):
        return [row.asDict() for row in self.spark.sql(sql).collect()]


class Polars:
    def __init__(self, granularity):
        import polars as pl

        self.pl, self.granularity = pl, granularity

    def scan(self, dataset):
        files = [f"{store}/{dataset}/granularity={self.granularity}/**/*.parquet" for store in ("one", "two")]
        return self.pl.scan_parquet(files).with_columns(us=self.pl.col("time").dt.timestamp("us"))

    def source(self, asked):
        pl = self.pl
        if asked.source != "file_ops":
            return self.scan(asked.source)
        rollup, parts = self.scan("rollup"), []
        of = ["host", "mount", "path", "file_key", "dev", "fileid", "uid", "user", "cgroup", "container", "tenant_name", "labels", "us"]
        none = pl.lit(0, pl.Int64)
        for side in ("read", "write"):
            moved = pl.col(f"{side}_bytes")
            parts.append(rollup.filter(pl.col(f"{side}_requests") > 0).select(
                *of, pl.lit(side.upper()).alias("op"), *[pl.col(f"{side}_{mine}").alias(name) for name, mine in AS_OP.items()],
                sent_bytes=moved if side == "write" else none, received_bytes=moved if side == "read" else none,
                execute_hist=pl.col(f"{side}_latency_hist")))
        others = rollup.select(*of, pl.col("ops").alias("o")).explode("o").filter(pl.col("o").is_not_null())
        fields = [pl.col("o").struct.field(name) for name in ("op", *AS_OP) if name not in ("untimed", "unsplit")]
        zeros = [none.alias(name) for name in ("untimed", "unsplit", "sent_bytes", "received_bytes")]
        parts.append(others.select(*of, *fields, *zeros))
        return pl.concat(parts, how="diagonal")

    def filtered(self, asked, granularity_us):
        pl = self.pl
        one = {
            "~": lambda column, value: pl.col(column).str.contains(value),
            "=": lambda _, value: pl.format("{}:{}", "dev", "fileid") == value,
            "<": lambda column, value: pl.col(column) < value,
            ">": lambda column, value: pl.col(column) > value,
        }
        rows = self.source(asked)
        if "dir" in asked.keys:
            rows = rows.with_columns(dir=pl.coalesce(pl.col("path").str.extract(asked.dir, 1), pl.col("path").str.extract(asked.dir, 2)))
        for some in asked.conditions(granularity_us):
            rows = rows.filter(pl.any_horizontal(*[one[how](column, value) for column, how, value in some]))
        return rows.with_columns(window=pl.col("us") // asked.step * asked.step if asked.step else pl.lit(0))

    def totals(self, asked, granularity_us):
        sums = [self.pl.max(name) if name in MAXIMA else self.pl.sum(name) for name in asked.sums]
        return self.filtered(asked, granularity_us).group_by("window", *asked.keys).agg(sums).collect().to_dicts()

    def buckets(self, asked, granularity_us, histogram):
        pl, keys = self.pl, ["window", *asked.keys]
        elements = self.filtered(asked, granularity_us).select(*keys, pl.col(histogram).alias("h")).explode("h").filter(pl.col("h").is_not_null())
        return elements.unnest("h").group_by(*keys, "bucket").agg(n=pl.sum("count")).collect().to_dicts()

    def names(self, asked, granularity_us):
        columns = []
        for name in Sql.identity(self, asked):
            column = self.pl.col(name)
            columns += [column.sort_by("us").drop_nulls().last(), (column.n_unique() > 1).alias(f"{name}_differ")]
        return self.filtered(asked, granularity_us).group_by("window", *asked.keys).agg(columns).collect().to_dicts() if columns else []

    def covered(self, step, since, until, column):
        pl = self.pl
        window = pl.col("us") // step * step if step else pl.lit(0)
        rows = self.scan("health").filter(pl.col("us") > since, pl.col("us") < until).group_by(window.alias("w"), "host").agg(pl.sum(column))
        return {(row["w"], row["host"]): row[column] for row in rows.collect().to_dicts()}


class Module(Polars):
    """The Python module of TrackIOps, which finds the Parquet files itself: the stores are told as their directory."""

    def __init__(self, granularity):
        super().__init__(granularity)
        sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "contrib/python"))
        import trackiops

        self.stores = trackiops.open(".")

    def scan(self, dataset):
        rows = getattr(self.stores, dataset)(self.granularity).with_columns(us=self.pl.col("time").dt.timestamp("us"))
        # Rows of files have several levels.
        return rows.filter(self.pl.col("level").is_null()) if dataset == "rollup" else rows


def quantile(buckets, share):
    rank, below = math.ceil(share * sum(buckets.values())), 0
    for bucket, n in sorted(buckets.items()):
        below += n
        if below >= max(rank, 1):
            return 2 ** ((bucket + 0.5) / 32)
    return None


class Row:
    """What an engine found of a group, and what follows from it."""

    def __init__(self, asked, totals, names, histograms, covered):
        self.asked, self.of, self.histograms, self.covered = asked, {**names, **totals}, histograms, covered
        if asked.source == "rollup" and asked.ops:
            for side in {"READ", "WRITE"} - set(asked.ops):
                self.of.update({f"{side.lower()}_{name}": 0 for name in SIDE})
                self.histograms[f"{side.lower()}_latency_hist"] = {}

    def is_there(self):
        if self.asked.source == "rollup":
            return self.of["read_requests"] + self.of["write_requests"] > 0
        is_asked = lambda op: op == self.of["op"] or op == "READ" and self.of["op"] == "READ_PLUS"
        return self.of["requests"] > 0 and (not self.asked.ops or any(map(is_asked, self.asked.ops)))

    def text(self, name):
        asked = self.asked
        if name == "tenant":
            named, uid, cgroup = self.text("tenant_name"), self.text("uid"), self.text("cgroup")
            known = uid is not None or cgroup is not None
            return named or (f"{'?' if uid is None else uid}{':' + cgroup if cgroup else ''}" if known else None)
        if name in asked.keys:
            return self.of[name]
        if name == "path" and asked.by == "dir":
            return self.of["dir"]
        of_one = {"path": ["file"], "dev": ["file"], "fileid": ["file"], "mount": ["file"]}
        if name in of_one:
            return self.of.get(name) if asked.by in of_one[name] else None
        if asked.source == "file_ops" and "uid" not in asked.keys:
            return None
        if name == "user":
            return None if self.text("uid") is None else self.of.get("user")
        return None if self.of.get(f"{name}_differ", True) else self.of[name]

    def number(self, name):
        of, operations = self.of, self.asked.source != "rollup"
        side = name.split("_")[0] if name.split("_")[0] in ("read", "write") and not operations else None
        name = name.removeprefix(f"{side}_")
        prefixes = [f"{side}_"] if side else [""] if operations else ["read_", "write_"]
        fold = max if name.endswith("_max") else sum
        total = lambda what: fold(of.get(prefix + what, 0) for prefix in prefixes)
        is_data = operations and self.asked.source == "file_ops"
        known = {"sent_bytes": not is_data or of["op"] == "WRITE", "received_bytes": not is_data or of["op"] == "READ"}
        latency = "execute" if operations else "latency"
        if name == "bytes" and operations:
            return of["sent_bytes"] + of["received_bytes"] if any(known.values()) else None
        if name in known:
            return of[name] if known[name] else None
        if name in (SIDE + OF_OPS):
            return total(name)
        if name.endswith("_bytes_mean"):
            return of[name[:-5]] / of["requests"] if known[name[:-5]] else None
        if name in ("iops", "throughput"):
            count = total("requests") if name == "iops" else self.number("bytes" if not side else f"{side}_bytes")
            return None if count is None or not self.covered else count * 1000 / self.covered
        if name in ("p50", "p99", "p999"):
            buckets = collections.Counter()
            for prefix in prefixes:
                buckets.update(self.histograms[f"{prefix}{latency}_hist"])
            us = quantile(buckets, {"p50": 0.5, "p99": 0.99, "p999": 0.999}[name])
            longest = max(of.get(f"{prefix}{latency}_us_max", 0) for prefix in prefixes)
            # The middle of a bucket may exceed the longest latency; 0 us means unknown.
            return us if us is None or not longest else min(us, longest)
        requests, untimed, unsplit = total("requests"), total("untimed"), total("unsplit")
        if name in ("folded_share", "untimed_share"):
            return total(name[:-6]) / requests if requests else None
        if name == "requests_share":
            return requests / of["mount_requests"]
        timed, all_time = requests - untimed, total(f"{latency}_us_sum")
        parts = {"queue": total("queue_us_sum"), "rtt": total("rtt_us_sum")}
        parts["completion"] = max(all_time - parts["queue"] - parts["rtt"], 0)
        part, _, what = name.partition("_")
        if part in parts and (what == "share" or what == "us_mean" or not what):
            if timed <= unsplit:
                return None
            divided = timed if what != "share" else all_time
            return parts[part] / divided if divided else None
        assert name in ("mean", f"{latency}_us_mean"), name
        return all_time / timed if timed else None

    def value(self, name, since):
        if name == "time":
            return self.of["window"] or since
        if name in ("host", "file_key", "op"):
            return self.of[name]
        texts = ("path", "mount", "dev", "fileid", "uid", "user", "cgroup", "tenant", "transport")
        return self.text(name) if name in texts else self.number(name)

    def holds(self):
        def compare(match):
            name, how, number, unit = match.groups()
            value = self.number(name)
            return str(value is not None and eval(f"{value} {how} {float(number) * UNITS[unit]}"))
        compared = re.compile(r"(\w+) (>=|<=|>|<) ([\d.]+)(\w*)")
        return all(eval(compared.sub(compare, condition)) for condition in self.asked.flags.where)

    def place(self):
        """What it is sorted by: the smallest first."""
        if not self.asked.flags.sort:
            return place_of([self])
        name = self.asked.flags.sort
        value = self.number(name.removesuffix(":asc"))
        value = None if value is None else round(value, 3)
        return math.inf if value is None else value if name.endswith(":asc") else -value

    def identity(self):
        """What decides between rows that are sorted alike."""
        first = lambda value: (value is not None, value)
        path, of = self.text("path"), self.of
        tenant = [first(self.text(key)) for key in ("uid", "cgroup") if key in self.asked.keys]
        if self.asked.source == "rollup":
            name = [path is None, path or ""] if self.asked.by == "file" else [path is None and self.asked.by == "dir"]
            group = {"file": [of.get("file_key")], "dir": [first(of.get("mount")), first(path)], "mount": [first(of.get("mount"))], "host": []}
            return [name, group[self.asked.by], of["host"], tenant]
        requests = 0 if self.asked.step else -of["requests"]
        about = [first(path), first(of.get("file_key"))] if self.asked.source == "file_ops" else []
        return [of["host"], first(self.text("mount")), about, tenant, requests, of["op"], first(of.get("transport") if "transport" in self.asked.keys else None)]


def place_of(rows):
    """The place of rows that are ranked together: by the sum of their order, or by the time that they took.

    Without a known time they follow, by their bytes or operations.
    """
    asked = rows[0].asked
    if asked.flags.sort:
        return sum(row.place() for row in rows)
    took, second = ("latency_us_sum", "bytes") if asked.source == "rollup" else ("execute_us_sum", "requests")
    total = lambda name: sum(row.number(name) for row in rows)
    return -total(took) if total(took) else 1 / (1 + total(second))


def ordered(asked, rows, whole):
    """Rows in the order that is asked for; `whole` are those of the whole range, by which the first of all are chosen."""
    flags, windows = asked.flags, asked.step is not None
    if flags.top:
        # A file takes one rank, even on several hosts.
        ranks, keys = {}, lambda row: tuple(row.of[key] for key in asked.keys if key != "host" or asked.source != "rollup")
        for row in (whole if windows else filter(Row.holds, rows)):
            ranks.setdefault(keys(row), []).append(row)
        assert asked.source != "rollup" or not flags.sort or not re.search("p[0-9]|mean|iops", flags.sort), "ranks add up"
        first = sorted(ranks, key=lambda key: (place_of(ranks[key]), key))[:flags.top]
        rows = [row for row in rows if keys(row) in first]
        return sorted(filter(Row.holds, rows), key=lambda row: (first.index(keys(row)), 0 if windows and flags.top else row.place() if asked.source == "rollup" else 0, row.of["window"], row.identity()))
    is_sorted = flags.sort or (asked.source == "rollup" and not windows)
    return sorted(filter(Row.holds, rows), key=lambda row: (row.place() if is_sorted else 0, row.of["window"], row.identity()))


def found(asked, engine, granularity_us):
    key = lambda row: tuple(row[name] for name in ["window", *asked.keys])
    names = {key(row): row for row in engine.names(asked, granularity_us)}
    histograms = collections.defaultdict(lambda: {name: {} for name in asked.histograms})
    for name in asked.histograms:
        for row in engine.buckets(asked, granularity_us, name):
            histograms[key(row)][name][row["bucket"]] = int(row["n"])
    times = {how: value for some in asked.conditions(granularity_us) for _, how, value in some}
    covered = engine.covered(asked.step, times[">"], times["<"], COVERED[asked.source == "ops"])
    rows = []
    for row in engine.totals(asked, granularity_us):
        totals = {name: int(value) if name in asked.sums else value for name, value in row.items()}
        rows.append(Row(asked, totals, names.get(key(row), {}), histograms[key(row)], covered.get((row["window"], row["host"]))))
    if asked.source != "rollup":
        mount = lambda row: (row.of["window"], row.of["host"], row.text("mount"))
        requests = collections.Counter()
        for row in rows:
            requests[mount(row)] += row.of["requests"]
        for row in rows:
            row.of["mount_requests"] = requests[mount(row)]
    return [row for row in rows if row.is_there()]


def as_answered(cell, value):
    if value is None or isinstance(value, str):
        return cell == (value or "")
    if isinstance(value, int):
        return cell == str(value)
    return cell != "" and math.isclose(float(cell), value, rel_tol=1e-9, abs_tol=ROUNDED)


def answers_of(asked, engine, granularity_us):
    rows = found(asked, engine, granularity_us)
    whole = []
    if asked.flags.top and asked.step:
        # A copy, because the question is asked again if a file vanishes meanwhile.
        of_all = copy.copy(asked)
        of_all.step = None
        whole = found(of_all, engine, granularity_us)
    return ordered(asked, rows, whole)


def compare_engine(program, asked, name, engine, granularity_us):
    stores = ["--store", "one", "--store", "two"]
    done = trackiops(program, "query", *stores, *asked.words, "--csv")
    assert done.returncode == 0, done.stderr
    expected = list(csv.reader(io.StringIO(done.stdout)))[1:]
    answered = answers_of(asked, engine, granularity_us)
    columns = asked.flags.columns.split(",")
    for place, (cells, row) in enumerate(itertools.zip_longest(expected, answered)):
        assert cells and row, f"{len(expected)} rows, and {len(answered)} of {name}"
        for column, cell in zip(columns, cells, strict=True):
            value = row.value(column, None)
            if column == "time":
                at = datetime.datetime.fromisoformat(cell).timestamp() * 10**6
                value, cell = (value, str(round(at))) if value else ("", "")
            assert as_answered(cell, value), f"row {place}, {column}: {cell}, and {name} says {value}: {cells}"
    return len(expected)


def compare_questions(program, questions, granularity, engines):
    """The answers of each engine to each question are those of the query."""
    is_live = engines[0] == "--live"
    with open(questions, encoding="utf-8") as file:
        lines = [line.strip() for line in file if not line.startswith("#")]
    asked = [Asked(line) for line in lines]
    granularity_us = STEP_US[granularity]
    # Without seconds, only questions about whole remaining windows can be answered.
    asked = [one for one in asked if granularity == "1s" or (one.step != STEP_US["1s"] and not one.is_ranged)]
    for name in engines[is_live:]:
        engine, rows, tries = ENGINES[name](granularity), 0, 0
        for one in asked:
            deadline = time.monotonic() + LIVE_SECONDS
            while True:
                tries += 1
                try:
                    rows += compare_engine(program, one, name, engine, granularity_us)
                    break
                except Exception as error:
                    if not is_live or time.monotonic() > deadline:
                        raise SystemExit(f"{name}: {one.line}\n{type(error).__name__}: {error}") from error
                    time.sleep(0.02)
        print(f"{name}: {len(asked)} questions, {rows} rows, {tries} tries")


# `contrib` has one interface for SQL and one for Python; each has a class here.
ENGINES = {"DuckDB": DuckDB, "Polars": Polars, "PySpark": PySpark, "module": Module}


def main():
    program = sys.argv[1]
    if len(sys.argv) > 3:
        return compare_questions(program, *sys.argv[2:4], sys.argv[4:])
    seed = int(sys.argv[2])
    exported = trackiops(program, "export", "--store", "store", "--requests", "--output", "requests.parquet")
    assert exported.returncode == 0, exported.stderr
    db = duckdb.connect()
    db.sql("SET TimeZone = 'UTC'")
    db.sql("CREATE TABLE requests AS FROM 'requests.parquet'")
    if not list(pathlib.Path("store/journal").glob("*.tij")):
        compare_tenants(program, db)
    numbers, rows, empty = random.Random(seed), 0, 0
    for _ in range(QUESTIONS):
        question = Question(numbers)
        asked, computed = question.asked(program), question.computed(db)
        try:
            compare(question, asked, computed)
        except AssertionError as error:
            raise SystemExit(f"{' '.join(question.args)} {question.since} {question.until}: {error}") from error
        rows += len(asked)
        empty += not asked
    # Questions without an answer prove little.
    assert empty < QUESTIONS / 3, f"{empty} of {QUESTIONS} questions have no answer"
    requests = db.sql("SELECT count(*) FROM requests").fetchall()[0][0]
    print(f"{QUESTIONS} questions about {requests} requests, {rows} rows")


main()
