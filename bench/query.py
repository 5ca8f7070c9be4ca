"""What questions take: `query.py --day STORE --one STORE --ten STORE [--rounds N]` of whole processes, side by side.

Every round asks everyone every question once; the first round is discarded. All must give the same answer. Prints
tables in Markdown. bench/README.md says what is measured.
"""

import argparse
import csv
import glob
import io
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import sysconfig
import time

BIN = os.environ["TRACKIOPS_BIN"]
DUCKDB = pathlib.Path(sysconfig.get_path("scripts")) / "duckdb"
SIX = [f"{d}_{m}" for d in ("read", "write") for m in ("requests", "bytes", "latency_us_sum")]
# A percentile is the middle of a bucket in one program, and may be its end in another.
TOLERANCE = 0.025
EXPLAINED_BYTES = re.compile(r"explain: read .* ([\d.]+ \S+) of ([\d.]+ \S+) \(([\d.]+) %\)")
EXPLAINED_TIME = re.compile(r"explain: time +(.*)")
UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


class Run:
    """What one process took."""

    def __init__(self, command):
        # Output goes to files in memory: with a pipe, the command would wait for this process.
        out, err = os.memfd_create("out"), os.memfd_create("err")
        begun = time.perf_counter()
        pid = os.posix_spawn(
            str(command[0]),
            [str(c) for c in command],
            os.environ,
            file_actions=[(os.POSIX_SPAWN_DUP2, out, 1), (os.POSIX_SPAWN_DUP2, err, 2)],
        )
        _, status, usage = os.wait4(pid, 0)
        self.wall = time.perf_counter() - begun
        self.cpu = usage.ru_utime + usage.ru_stime
        self.out, self.err = [os.pread(fd, os.fstat(fd).st_size, 0).decode() for fd in (out, err)]
        os.close(out)
        os.close(err)
        if status != 0:
            sys.exit(f"{' '.join(map(str, command))} ended with {status}:\n{self.err}")


class Question:
    """A question in the words of each contender, and what of the answers must be equal."""

    def __init__(self, name, granularity, ours, sql, polars, numbers):
        self.name, self.granularity, self.ours, self.sql, self.polars, self.numbers = (
            name,
            granularity,
            ours,
            sql,
            polars,
            numbers,
        )


def parsed(text, numbers):
    """The numbers of an answer, in order."""
    rows = csv.DictReader(io.StringIO(text))
    return [[float(row[n]) for n in numbers] for row in rows if all(row[n] not in ("", "NULL") for n in numbers)]


def same(a, b):
    close = lambda x, y: x == y or abs(x - y) <= TOLERANCE * max(abs(x), abs(y))
    return len(a) == len(b) and all(close(x, y) for r, s in zip(a, b) for x, y in zip(r, s))


def once_open(explained):
    """The ms of all stages but the first, which opens the store."""
    stages = EXPLAINED_TIME.search(explained).group(1).split(";")[0].split(", ")
    times = {name: float(ms) for name, ms, _ in (stage.rsplit(" ", 2) for stage in stages)}
    return sum(times.values()) - times["open"]


def questions(store):
    files = f"{store}/rollup/granularity=%s/*/*.parquet"
    listing = Run([BIN, "query", "--store", store, "--step", "all", "--format", "json", "--columns", "path,file_key,read_requests"])
    listed = [json.loads(line) for line in listing.out.splitlines()]
    listed.sort(key=lambda row: row["read_requests"])
    middle = listed[len(listed) // 2]
    path, key = middle["path"], int(middle["file_key"])
    directory = str(pathlib.Path(path).parents[1])
    sums = ", ".join(f"sum({c})::BIGINT AS {c}" for c in SIX)
    polars_sums = ", ".join(f'pl.col("{c}").sum()' for c in SIX)
    one = ["--file", path]

    def parquet(granularity):
        return f"read_parquet('{files % granularity}', hive_partitioning = false)"

    return [
        Question(
            "one file, 24 h by the second, six metrics",
            "1s",
            [*one, "--step", "1s", "--columns", ",".join(["time", *SIX])],
            f"SELECT time, {sums} FROM {parquet('1s')} WHERE file_key = {key} GROUP BY time ORDER BY time",
            f'q.filter(pl.col("file_key") == {key}).group_by("time").agg({polars_sums}).sort("time")',
            SIX,
        ),
        Question(
            "one file, p99 of reads by the minute",
            "1m",
            [*one, "--step", "1m", "--columns", "time,read_latency_us_p99"],
            f"""WITH buckets AS (
                  SELECT time, b.bucket AS bucket, sum(b.count) AS n
                  FROM (SELECT time, unnest(read_latency_hist) AS b FROM {parquet('1m')} WHERE file_key = {key})
                  GROUP BY ALL),
                ranks AS (
                  SELECT time, bucket, sum(n) OVER (PARTITION BY time ORDER BY bucket) AS below, sum(n) OVER (PARTITION BY time) AS total
                  FROM buckets)
                SELECT time, pow(2, (min(bucket) + 0.5) / 32) AS read_latency_us_p99
                FROM ranks WHERE below >= ceil(0.99 * total) GROUP BY time ORDER BY time""",
            f"""(q.filter(pl.col("file_key") == {key}).select("time", "read_latency_hist").explode("read_latency_hist")
                .unnest("read_latency_hist").drop_nulls("bucket").group_by("time", "bucket").agg(pl.col("count").sum())
                .sort("time", "bucket").with_columns(below=pl.col("count").cum_sum().over("time"), total=pl.col("count").sum().over("time"))
                .filter(pl.col("below") >= (0.99 * pl.col("total")).ceil()).group_by("time")
                .agg(read_latency_us_p99=2 ** ((pl.col("bucket").min().cast(pl.Float64) + 0.5) / 32)).sort("time"))""",
            ["read_latency_us_p99"],
        ),
        Question(
            "the 20 files with the most bytes in 24 h",
            "1h",
            ["--step", "all", "--top", "20", "--columns", "path,read_bytes,write_bytes"],
            f"""SELECT any_value(path) AS path, sum(read_bytes)::BIGINT AS read_bytes, sum(write_bytes)::BIGINT AS write_bytes
                FROM {parquet('1h')} GROUP BY file_key ORDER BY sum(read_bytes) + sum(write_bytes) DESC LIMIT 20""",
            """(q.group_by("file_key").agg(pl.col("path").last(), pl.col("read_bytes", "write_bytes").sum())
                .sort(pl.col("read_bytes") + pl.col("write_bytes"), descending=True).head(20).drop("file_key"))""",
            ["read_bytes", "write_bytes"],
        ),
        Question(
            "a directory's total of 24 h, six metrics",
            "1h",
            ["--dir", directory, "--by", "host", "--step", "all", "--columns", ",".join(SIX)],
            f"SELECT {sums} FROM {parquet('1h')} WHERE starts_with(path, '{directory}/')",
            f'q.filter(pl.col("path").str.starts_with("{directory}/")).select({polars_sums})',
            SIX,
        ),
    ]


def peers(store, question):
    """The commands of others. Those in Python say how long the question itself took, once all was imported."""
    files = f"{store}/rollup/granularity={question.granularity}/*/*.parquet"
    head = "import sys, time"
    tail = "print(time.perf_counter() - begun, file=sys.stderr)"
    duckdb = f"""{head}, duckdb
begun = time.perf_counter()
duckdb.sql({question.sql!r}).write_csv("/dev/stdout")
{tail}"""
    polars = f"""{head}, polars as pl
begun = time.perf_counter()
q = pl.scan_parquet({files!r}, hive_partitioning=False)
sys.stdout.write(({question.polars}).collect().write_csv())
sys.stdout.flush()
{tail}"""
    return {
        "DuckDB, command line": [DUCKDB, "-csv", "-c", question.sql],
        "DuckDB in Python": [sys.executable, "-c", duckdb],
        "Polars in Python": [sys.executable, "-c", polars],
    }


def spread(values, scale=1e3):
    values = [v * scale for v in values]
    return f"{statistics.median(values):.1f} ({min(values):.1f} .. {max(values):.1f})"


def in_bytes(text):
    number, unit = text.split()
    return float(number) * UNITS[unit]


def measure(store, rounds):
    asked = questions(store)
    ours = lambda q: [BIN, "query", "--store", store, "--format", "csv", *q.ours]
    commands = {q.name: {"trackiops": ours(q), **peers(store, q)} for q in asked}
    runs = {q.name: {who: [] for who in commands[q.name]} for q in asked}
    opened = {q.name: [] for q in asked}
    for number in range(rounds):
        for q in asked:
            for who, command in commands[q.name].items():
                run = Run(command)
                runs[q.name][who].append(run)
                print(f"round {number}: {q.name}: {who}: {run.wall * 1e3:.1f} ms, {run.cpu * 1e3:.1f} ms of CPU", file=sys.stderr)
            opened[q.name].append(Run([*ours(q), "--explain"]).err)
    for q in asked:
        answers = {who: parsed(all[0].out, q.numbers) for who, all in runs[q.name].items()}
        for who, answer in answers.items():
            if not same(answer, answers["trackiops"]) or not answer:
                sys.exit(f"{q.name}: {who} answers {answer[:3]}, trackiops {answers['trackiops'][:3]}")
    for q in asked:
        print(f"\n## {q.name[0].upper()}{q.name[1:]}\n")
        print("| | whole process, ms | CPU, ms | question alone, ms | trackiops takes |\n|---|---|---|---|---|")
        median = lambda who: statistics.median(run.wall for run in runs[q.name][who][1:])
        for who, all in runs[q.name].items():
            kept = all[1:]
            if who == "trackiops":
                alone = spread([once_open(text) for text in opened[q.name][1:]], 1)
            elif "Python" in who:
                alone = spread([float(run.err.split()[-1]) for run in kept])
            else:
                alone = "-"
            ratio = f"{median('trackiops') / median(who):.2f} of it" if who != "trackiops" else ""
            print(f"| {who} | {spread([r.wall for r in kept])} | {spread([r.cpu for r in kept])} | {alone} | {ratio} |")
        read, _, _ = EXPLAINED_BYTES.search(opened[q.name][0]).groups()
        stored = sum(os.path.getsize(f) for f in glob.glob(f"{store}/**/*.parquet", recursive=True))
        share = in_bytes(read) / stored * 100
        print(f"\ntrackiops read {read} of the store's {stored / (1 << 20):.0f} MiB of segments: {share:.2f} %.")


def hour(store, day):
    listing = Run([BIN, "query", "--store", store, "--step", "all", "--format", "json", "--columns", "path,read_requests"])
    path = json.loads(listing.out.splitlines()[0])["path"]
    since, until = f"2026-01-{day:02}T11:00:00Z", f"2026-01-{day:02}T12:00:00Z"
    asked = ["--file", path, "--since", since, "--until", until, "--step", "1s", "--columns", ",".join(["time", *SIX])]
    return [BIN, "query", "--store", store, "--format", "csv", *asked]


def measure_days(one, ten, rounds):
    commands = {"1 day": hour(one, 1), "10 days": hour(ten, 8)}
    runs = {name: [] for name in commands}
    # Short, and for comparison with itself.
    for _ in range(4 * rounds):
        for name, command in commands.items():
            runs[name].append(Run(command))
    print("\n## One hour of one file by the second, six metrics, of stores of one day and of ten\n")
    print("| | whole process, ms | CPU, ms |\n|---|---|---|")
    for name, all in runs.items():
        print(f"| {name} | {spread([r.wall for r in all[4:]])} | {spread([r.cpu for r in all[4:]])} |")
    wall, cpu = [
        statistics.median(of(r) for r in runs["10 days"][4:]) / statistics.median(of(r) for r in runs["1 day"][4:])
        for of in (lambda r: r.wall, lambda r: r.cpu)
    ]
    print(f"\nTen times the days take {wall:.2f} times as long, and {cpu:.2f} times the CPU.")


def main():
    arguments = argparse.ArgumentParser()
    for store in ("--day", "--one", "--ten"):
        arguments.add_argument(store, required=True)
    arguments.add_argument("--rounds", type=int, default=7)
    given = arguments.parse_args()
    cores = len(os.sched_getaffinity(0))
    import duckdb, polars

    cli = Run([DUCKDB, "--version"]).out.split()[0]
    print(f"{cores} cores; {Run([BIN, '--version']).out.strip()}, DuckDB {duckdb.__version__} (command line: {cli}), Polars {polars.__version__}.")
    print(f"The day: {pathlib.Path(given.day).name.replace('-', ' ')}.")
    measure(given.day, given.rounds)
    measure_days(given.one, given.ten, given.rounds)


main()
