"""Asks `trackiops query` random questions, and DuckDB the same of the single requests.

    equality.py TRACKIOPS SEED

in a directory that has `store`. Counts and sums must be equal, percentiles within the bound that is told.
"""

import csv
import datetime
import io
import pathlib
import random
import sqlite3
import subprocess
import sys

import duckdb

QUESTIONS = 60
# 2026-11-21T03:00:00Z, when recordings begin, and how long they are.
START, SECONDS = 1795230000, 190
BOUND = 0.011
# Figures have three decimals in CSV.
ROUNDED = 0.00051
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
# What rows stand for: the columns that tell them apart.
BY = {
    "file": ["file_key"],
    "file,tenant": ["file_key", "uid", "cgroup"],
    "tenant": ["host", "uid", "cgroup"],
    "mount": ["mount"],
    "host": ["host"],
}
# What is asked for, in the words of either.
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
        # A range has whole windows.
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
    # What was merged stays for a while.
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


def main():
    program, seed = sys.argv[1], int(sys.argv[2])
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
    # Questions to which there is no answer prove little.
    assert empty < QUESTIONS / 3, f"{empty} of {QUESTIONS} questions have no answer"
    requests = db.sql("SELECT count(*) FROM requests").fetchall()[0][0]
    print(f"{QUESTIONS} questions about {requests} requests, {rows} rows")


main()
