"""Compares contrib/trackiops.sql and the Python module of contrib/python with what `trackiops query` answers.

    short_way.py TRACKIOPS

in a directory that has `lake`, a directory with the stores of two hosts: see tests/lake. The module that is installed with pip from
contrib/python into this directory is what is tested. Examples in both, in READMEs and in docs/guide/notebooks.md must run.
"""

import json
import math
import os
import re
import shutil
import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path

import duckdb
import polars as pl

ROOT = Path(__file__).resolve().parents[2]
SQL = (ROOT / "contrib/trackiops.sql").read_text(encoding="utf-8")
SHARES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999}
# Numbers in JSON have three decimals.
ROUNDED = 0.00051


def installed():
    """The module as pip installs it, without a network."""
    # A build writes files beside its sources.
    shutil.copytree(ROOT / "contrib/python", "source", ignore=shutil.ignore_patterns("build", "*.egg-info", "__pycache__"))
    offline = ["--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check", "--quiet"]
    subprocess.run([sys.executable, "-m", "pip", "install", *offline, "--target", "site", "./source"], check=True)
    assert Path("site/trackiops/py.typed").exists()
    [licences] = Path("site").glob("trackiops-*.dist-info/licenses")
    texts = {name: (ROOT / name).read_text(encoding="utf-8") for name in ("LICENSE-APACHE", "LICENSE-MIT")}
    assert {path.name: path.read_text(encoding="utf-8") for path in licences.iterdir()} == texts
    sys.path.insert(0, os.path.abspath("site"))
    import trackiops

    assert trackiops.__file__.startswith(os.path.abspath("site")), trackiops.__file__
    return trackiops


def opened(store):
    db = duckdb.connect()
    db.execute("SET TimeZone = 'UTC'")
    if store:
        db.execute(f"SET VARIABLE trackiops_store = '{store}'")
    db.execute(SQL)
    return db


def asked(program, *args, stores=("lake/h", "lake/i")):
    """Rows of an answer, as dictionaries."""
    named = [word for store in stores for word in ("--store", store)]
    done = subprocess.run([program, "query", *named, *args, "--format", "json"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    for row in rows:
        # JSON has keys as text; the files have numbers.
        row.update({"file_key": int(row["file_key"])} if "file_key" in row else {})
    assert rows, f"{args} has no answer"
    return rows


def plain(value):
    if isinstance(value, datetime):
        return value.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.") + f"{value.microsecond // 1000:03}Z"
    if isinstance(value, list):
        # Polars returns a list of structs as dictionaries, like JSON.
        return [tuple(element.values()) for element in value]
    return value


def same(a, b):
    if isinstance(a, float) or isinstance(b, float):
        return a is not None and b is not None and math.isclose(a, b, rel_tol=1e-12, abs_tol=ROUNDED)
    return a == b


def by_key(rows, keys):
    """Rows by the values of their first columns."""
    rows = [[plain(value) for value in row] for row in rows]
    found = {tuple(row[:keys]): row[keys:] for row in rows}
    assert len(found) == len(rows), "two rows have one key"
    return found


class Compared:
    """Answers to one question: of the query, and of SQL, Polars and so on, whose columns have the same order."""

    count = 0

    def __init__(self, title, answer, keys):
        self.title, self.keys = title, keys
        self.expected = by_key((row.values() for row in answer), keys)

    def __call__(self, engine, rows):
        # DuckDB's own rows need one more package if they have times.
        rows = (rows.pl() if hasattr(rows, "pl") else rows.collect()).rows()
        found = by_key(rows, self.keys)
        where = f"{self.title}, {engine}"
        assert found.keys() == self.expected.keys(), f"{where}: {sorted(found.keys() ^ self.expected.keys(), key=str)[:4]}"
        for key, values in self.expected.items():
            assert all(map(same, values, found[key])), f"{where}, {key}: {values} is answered {found[key]}"
        Compared.count += len(found)


def totals(program, db, stores, trackiops):
    names = ["requests", "bytes", "errors", "retrans", "short", "folded", "untimed", "unsplit", "direct", "latency_us_sum"]
    names = [f"{direction}_{name}" for direction in ("read", "write") for name in names]
    columns = ",".join(["host", *names])
    compared = Compared("totals", asked(program, "--by", "host", "--step", "all", "--columns", columns), 1)
    for g in ("1s", "1m"):
        compared("DuckDB", db.sql(f"SELECT host, {', '.join(f'sum({name})::BIGINT' for name in names)} FROM rollup_{g} GROUP BY host"))
        compared("Polars", stores.rollup(g).group_by("host").agg(pl.sum(*names)))


def top_files(program, db, stores, trackiops):
    """Those of all hosts together."""
    of_hosts, names = {}, "read_latency_us_sum,read_requests,read_untimed"
    for row in asked(program, "--step", "all", "--top", "5", "--columns", f"file_key,bytes,{names}"):
        key, *values = row.values()
        of_hosts[key] = [a + b for a, b in zip(of_hosts.get(key, [0] * 4), values)]
    answer = [{"file_key": key, "bytes": n, "mean": us / (all_ - untimed)} for key, (n, us, all_, untimed) in of_hosts.items()]
    assert len(answer) == 5, answer
    compared = Compared("top files", answer, 1)
    compared("DuckDB", db.sql("""
        SELECT file_key, sum(read_bytes + write_bytes)::BIGINT AS bytes,
            mean_us(sum(read_latency_us_sum), sum(read_requests), sum(read_untimed))
        FROM rollup_1m GROUP BY ALL ORDER BY bytes DESC LIMIT 5"""))
    compared("Polars", stores.rollup("1m").group_by("file_key").agg(
        bytes=(pl.col("read_bytes") + pl.col("write_bytes")).sum(),
        mean=trackiops.mean(pl.sum("read_latency_us_sum"), pl.sum("read_requests"), pl.sum("read_untimed")),
    ).sort("bytes", descending=True).head(5))  # fmt: skip


# The middle of a bucket may exceed the longest latency, which the program then shows. A longest latency of 0 us is unknown.
def at_most_sql(us, longest):
    return f"if({us} IS NULL, NULL, least({us}, nullif({longest}, 0)))"


def at_most_polars(us, longest):
    return pl.when(us.is_not_null()).then(pl.min_horizontal(us, pl.when(longest > 0).then(longest)))


def percentiles(program, db, stores, trackiops):
    names = [(direction, name) for direction in ("read", "write") for name in SHARES]
    columns = ",".join(["time", "host", "file_key", *(f"{direction}_{name}" for direction, name in names)])
    compared = Compared("percentiles", asked(program, "--step", "1m", "--columns", columns), 3)
    at_most = lambda histogram, d, name: at_most_sql(f"hist_percentile({histogram}, {SHARES[name]})", f"max({d}_latency_us_max)")
    merged = [at_most(f"hist_merge(list({d}_latency_hist))", d, name) for d, name in names]
    compared("DuckDB", db.sql(f"SELECT time, host, file_key, {', '.join(merged)} FROM rollup_1m GROUP BY ALL"))
    # Also for elements that are not merged.
    flat = [at_most(f"flatten(list({d}_latency_hist))", d, name) for d, name in names]
    compared("DuckDB", db.sql(f"SELECT window_start(time, '1m'), host, file_key, {', '.join(flat)} FROM rollup_1s GROUP BY ALL"))
    keys = ["time", "host", "file_key"]
    longest = lambda d: pl.max(f"{d}_latency_us_max")
    expressions = [
        at_most_polars(trackiops.percentile(trackiops.merge(f"{d}_latency_hist"), SHARES[name]), longest(d)).alias(d + name) for d, name in names
    ]
    compared("Polars", stores.rollup("1m").group_by(keys).agg(expressions))
    merges = [expression for d in ("read", "write") for expression in (trackiops.merge(f"{d}_latency_hist"), longest(d).alias(f"{d}_most"))]
    compared("Polars", stores.rollup("1s").group_by(pl.col("time").dt.truncate("1m"), "host", "file_key").agg(merges).select(
        *keys, *(at_most_polars(trackiops.percentile(f"{d}_latency_hist", SHARES[name]), pl.col(f"{d}_most")).alias(d + name) for d, name in names)
    ))  # fmt: skip
    frame = stores.rollup("1m").collect().to_pandas()
    histograms = frame.groupby(keys)[["read_latency_hist", "write_latency_hist"]].agg(trackiops.hist_merge)
    most = frame.groupby(keys)[["read_latency_us_max", "write_latency_us_max"]].max()
    most = most.where(most > 0, math.inf)
    figures = {
        d + name: trackiops.hist_percentile(histograms[f"{d}_latency_hist"], SHARES[name]).clip(upper=most[f"{d}_latency_us_max"])
        for d, name in names
    }
    compared("pandas", pl.from_pandas(histograms.reset_index()[keys].assign(**{n: f.values for n, f in figures.items()}), nan_to_null=True).lazy())
    for share in SHARES.values():
        series = stores.rollup("1m").collect()["read_latency_hist"]
        plain_python = [trackiops.hist_percentile(histogram, share) for histogram in series]
        assert trackiops.hist_percentile(series, share).to_list() == plain_python


def histograms(program, db, stores, trackiops):
    compared = Compared("histograms", asked(program, "--by", "host", "--step", "all", "--columns", "host,read_latency_hist"), 1)
    compared("DuckDB", db.sql("SELECT host, hist_merge(list(read_latency_hist)) FROM rollup_1s GROUP BY host"))
    compared("Polars", stores.rollup("1s").group_by("host").agg(trackiops.merge("read_latency_hist")))


def throughput(program, db, stores, trackiops):
    names = ["read_iops", "read_throughput", "write_iops", "write_throughput"]
    columns = ",".join(["time", "host", "file_key", *names])
    sums = ", ".join(f"sum({name})" for name in names)
    # The sum of no rates is null, as in SQL.
    known = [pl.when(pl.col(name).count() > 0).then(pl.sum(name)).alias(name) for name in names]
    for step, granularity in (("1s", "1s"), ("10s", "1s"), ("1m", "1s"), ("1m", "1m")):
        compared = Compared(f"throughput by {step}", asked(program, "--step", step, "--columns", columns), 3)
        # Sums the names of a renamed file.
        of = f"throughput('{granularity}', step := '{step}')"
        compared("DuckDB", db.sql(f"SELECT time, host, file_key, {sums} FROM {of} GROUP BY ALL"))
        rates = stores.throughput(granularity, step)
        compared("Polars", rates.group_by("time", "host", "file_key").agg(known))
    # They include partly recorded windows.
    covered = [row[0] for row in stores.covered("1s").select("covered_ms").collect().rows()]
    assert {1, 10, 300, 700, 1000} == set(covered), set(covered)
    renamed = stores.throughput("1m").group_by("time", "host", "file_key").agg(pl.len()).filter(pl.col("len") > 1).collect()
    assert len(renamed) > 0, "no file was renamed in a window"


def plots(program, db, stores, trackiops):
    """What plots show, without a library that draws. contrib/python/check.sh draws them."""
    from trackiops import _series

    columns = "time,host,file_key,read_latency_hist"
    answer = asked(program, "--step", "1m", "--columns", columns)
    expected = {}
    for row in answer:
        for element in row["read_latency_hist"]:
            key = row["time"], element["bucket"] // 8
            expected[key] = expected.get(key, 0) + element["count"]
    compared = Compared("heat map", [{"time": t, "lower_us": 2 ** (b / 4), "upper_us": 2 ** ((b + 1) / 4), "n": n} for (t, b), n in expected.items()], 3)
    for granularity in ("1s", "1m"):
        cells, window = _series.cells(stores.rollup(granularity), "read_latency_hist", "1m", 4)
        assert window.total_seconds() == 60, window
        compared("Polars", cells.lazy())
    # Folded in advance, and both directions.
    merged = stores.rollup("1s").group_by("time").agg(trackiops.merge("read_latency_hist"))
    compared("Polars", _series.cells(merged, None, "1m", 4)[0].lazy())
    both = _series.cells(stores.rollup("1s"), None, None, 1)[0]["requests"].sum()
    counted = [stores.rollup("1s").select(pl.col(f"{d}_latency_hist").list.eval(pl.element().struct.field("count")).list.sum().sum()) for d in ("read", "write")]
    assert both == sum(one.collect().item() for one in counted) > 0, both
    # Single requests, by the same buckets.
    single = trackiops.open("lake/h").requests()
    cells, _ = _series.cells(single, None, None, 32)
    by_us = single.filter(pl.col("latency_ns") >= 0).select(pl.col("latency_ns") / 1000).collect().to_series()
    assert cells["requests"].sum() == len(by_us) > 0
    for lower, upper, n in cells.group_by("lower_us", "upper_us").agg(pl.sum("requests")).rows():
        assert by_us.is_between(lower, upper, closed="right").sum() == n, (lower, upper, n)

    compared = Compared("line of p99", asked(program, "--by", "host", "--step", "1m", "--columns", "host,time,read_p99", "--where", "read_p99 > 0"), 2)
    line = _series.lines(stores.rollup("1s"), "read_p99", "host", "1m").drop_nulls("value")
    compared("Polars", line.select("line", "time", "value").lazy())
    compared = Compared("line of throughput", asked(program, "--by", "host", "--step", "10s", "--columns", "host,time,read_throughput", "--where", "read_throughput >= 0", stores=["lake/h"]), 2)
    of_host = trackiops.open("lake/h").throughput("1s", "10s")
    line = _series.lines(of_host, "read_throughput", "host", None)
    compared("Polars", line.drop_nulls("value").select("line", "time", "value").lazy())
    # The line is broken where windows are missing, and nowhere else.
    line = _series.lines(stores.rollup("1s").filter(pl.col("host") == "h"), "write_p50", None, "1s")
    known = line.drop_nulls("value")["time"]
    gaps = [(before, after) for before, after in zip(known, known[1:]) if (after - before).total_seconds() > 1]
    nulls = line.filter(pl.col("value").is_null())["time"]
    assert len(gaps) == len(nulls) > 0 and all(before < at < after for (before, after), at in zip(gaps, nulls)), (gaps, nulls)

    rows, rates = stores.rollup("1s"), stores.throughput("1s")
    hidden = {name: sys.modules.get(name) for name in ("altair", "matplotlib")}
    sys.modules.update(dict.fromkeys(hidden))
    no_library = "plots need altair or matplotlib: run `pip install 'trackiops[plots]'`, or `pip install matplotlib`"
    refused({
        lambda: rows.trackiops.heatmap(): no_library,
        lambda: rows.collect().trackiops.line("read_p99"): no_library,
        lambda: trackiops.Plots(rates).line("read_iops", engine="altair"): "plots need altair: run `pip install 'trackiops[plots]'`",
        lambda: rows.trackiops.heatmap(engine="gnuplot"): "no engine gnuplot: there is altair, matplotlib",
        lambda: _series.cells(rows, None, None, 3): "per_octave is 3",
        lambda: _series.cells(rows, None, "fast", 1): "step fast is not a length of time",
        lambda: _series.cells(rows, "read_p99", None, 1): "the rows have no column read_p99",
        lambda: _series.cells(rates, None, None, 1): "the rows have no histogram",
        lambda: _series.cells(rows.filter(pl.lit(False)), None, None, 1): "no latencies to plot",
        lambda: _series.lines(rows, "read_mean", None, None): "no line of read_mean: there is read_iops",
        lambda: _series.lines(rates, "read_p99", None, None): "the rows have no column read_latency_hist",
        lambda: _series.lines(rows, "read_iops", None, None): "the rows have no column read_iops: plot those of `Stores.throughput`",
        lambda: _series.lines(rates, "read_iops", None, "1m"): "give the step to `Stores.throughput`",
        lambda: _series.lines(rates, "read_iops", "uid", None): "the rows have no column uid",
        lambda: _series.lines(rows.filter(pl.lit(False)), "read_p99", None, None): "no read_p99 to plot",
        lambda: _series.lines(rates, "read_iops", "covered_time", None): "the rows have no column covered_time",
        lambda: _series.lines(rows.with_columns(key=pl.col("time")), "read_p99", "key", None): "values: filter the rows to at most 20",
    })  # fmt: skip
    for name, module in hidden.items():
        sys.modules.pop(name)
        sys.modules.update({name: module} if module else {})


def levels(program, db, stores, trackiops):
    """Rows of several levels never add up."""
    from trackiops import _series

    shutil.copytree("lake/h", "levels/h")
    wire = trackiops.open("lake/h")
    files = sorted(Path("levels/h/rollup/granularity=1m").glob("date=*/*.parquet"))
    for file in files:
        rows = pl.read_parquet(file, hive_partitioning=False)
        rows.with_columns(level=pl.lit("block")).write_parquet(file.with_name(f"block-{file.name}"))
    both = trackiops.open("levels/h")
    in_order = lambda rows: rows.sort(pl.all()).collect()
    assert in_order(both.throughput("1m")).equals(in_order(wire.throughput("1m"))), "rates of requests to devices are in those of the wire"
    assert in_order(both.throughput("1m", level="block")).equals(in_order(wire.throughput("1m")))
    assert wire.throughput("1m", level="block").collect().is_empty()
    refused({
        lambda: both.throughput("1m", level="app"): "no level app of windows: there is wire, block",
        lambda: _series.cells(both.rollup("1m"), None, None, 1): "the rows are of the levels block, wire, which are never added up",
        lambda: _series.lines(both.rollup("1m"), "read_p99", None, None): "the rows are of the levels block, wire",
    })  # fmt: skip
    shutil.rmtree("levels")


def named_like_columns(program, db, stores, trackiops):
    """Directories above a store do not replace columns of their names, and a filter by date opens only files of that date."""
    os.makedirs("host=x/level=y")
    os.rename("lake/i", "host=x/level=y/date=2001-01-01")
    for below in ("host=x", os.path.abspath("host=x")):
        moved = trackiops.open(below)
        parts = {name: getattr(moved, name)("1m").collect() for name in ("rollup", "ops", "health")}
        answers = {name: opened(below).sql(f"FROM {name}_1m ORDER BY ALL").pl() for name in parts}
        day = parts["rollup"]["date"].unique().to_list()
        later = Path("host=x/level=y/date=2001-01-01/rollup/granularity=1m/date=2999-01-01")
        later.mkdir()
        (later / "broken.parquet").write_text("not Parquet", encoding="utf-8")
        assert len(moved.rollup("1m").filter(pl.col("date") == day[0]).collect()) == len(parts["rollup"]) > 0
        [(rows,)] = opened(below).execute("SELECT count(*) FROM rollup_1m WHERE date = $day", {"day": day[0]}).fetchall()
        assert rows == len(parts["rollup"])
        shutil.rmtree(later)
    os.rename("host=x/level=y/date=2001-01-01", "lake/i")
    shutil.rmtree("host=x")
    for name, rows in parts.items():
        expected = getattr(trackiops.open("lake/i"), name)("1m").collect()
        assert rows.schema == expected.schema and rows.equals(expected), f"{name} has other values below host=x"
        here = opened("lake/i").sql(f"FROM {name}_1m ORDER BY ALL").pl()
        assert answers[name].schema == here.schema and answers[name].equals(here), f"{name} has other values below host=x in SQL"


def operations(program, db, stores, trackiops):
    names = ["requests", "errors", "sent_bytes", "received_bytes", "execute_us_max"]
    columns = ",".join(["time", "host", "mount", "op", *names, "iops", "mean", "p50", "p99"])
    compared = Compared("operations", asked(program, "--by", "op", "--step", "1m", "--columns", columns), 4)
    p50, p99 = (at_most_sql(f"hist_percentile(hist_merge(list(execute_hist)), {share})", "max(execute_us_max)") for share in (0.5, 0.99))
    compared("DuckDB", db.sql(f"""
        SELECT time, host, mount, op, sum(requests)::BIGINT, sum(errors)::BIGINT, sum(sent_bytes)::BIGINT, sum(received_bytes)::BIGINT,
            max(execute_us_max), rate(sum(requests), any_value(c.ops_covered_ms)), mean_us(sum(execute_us_sum), sum(requests), 0),
            {p50}, {p99}
        FROM ops_1m JOIN covered('1m') AS c USING (time, host) GROUP BY ALL"""))
    compared("Polars", stores.ops("1m").join(stores.covered("1m"), on=["time", "host"]).group_by("time", "host", "mount", "op").agg(
        pl.sum("requests", "errors", "sent_bytes", "received_bytes"), pl.max("execute_us_max"),
        trackiops.rate(pl.sum("requests"), pl.first("ops_covered_ms")).alias("iops"),
        trackiops.mean(pl.sum("execute_us_sum"), pl.sum("requests"), pl.lit(0)).alias("mean"),
        *(at_most_polars(trackiops.percentile(trackiops.merge("execute_hist"), share), pl.max("execute_us_max")).alias(name)
          for name, share in (("p50", 0.5), ("p99", 0.99))),
    ))  # fmt: skip


def errors(program, db, stores, trackiops):
    answer = asked(program, "--step", "1m", "--columns", "time,host,file_key,read_errors,write_errors", "--where", "errors > 0")
    compared = Compared("errors", answer, 3)
    compared("DuckDB", db.sql("""
        SELECT time, host, file_key, sum(read_errors)::BIGINT AS r, sum(write_errors)::BIGINT AS w FROM rollup_1m GROUP BY ALL HAVING r + w > 0"""))
    sums = stores.rollup("1m").group_by("time", "host", "file_key").agg(pl.sum("read_errors", "write_errors"))
    compared("Polars", sums.filter(pl.col("read_errors") + pl.col("write_errors") > 0))


def tenants(program, db, stores, trackiops):
    columns = ["time", "host", "file_key", "uid", "cgroup", "user", "read_requests", "write_bytes"]
    answer = asked(program, "--by", "file,tenant", "--step", "1m", "--columns", ",".join(columns))
    assert {"alice", None} <= {row["user"] for row in answer}, "users have no names"
    compared = Compared("tenants", answer, 5)
    compared("DuckDB", db.sql("""
        SELECT time, host, file_key, uid, cgroup, "user", sum(read_requests)::BIGINT, sum(write_bytes)::BIGINT FROM rollup_1m GROUP BY ALL"""))
    compared("Polars", stores.rollup("1m").group_by(columns[:6]).agg(pl.sum("read_requests", "write_bytes")))


def single_requests(program, db, stores, trackiops):
    exported = [program, "export", "--store", "lake/h", "--dataset", "requests", "--output", "requests.parquet"]
    subprocess.run(exported, check=True, capture_output=True)
    columns = "end_time_ns, file_key, op, offset_bytes, latency_ns, xid"
    expected = duckdb.sql(f"SELECT {columns} FROM 'requests.parquet' ORDER BY ALL").fetchall()
    assert len(expected) == 600, len(expected)
    assert db.sql(f"SELECT {columns} FROM requests ORDER BY ALL").fetchall() == expected
    for source in (stores, trackiops.open("requests.parquet")):
        assert sorted(source.requests().select(columns.split(", ")).collect().rows()) == expected


def what_there_is(program, db, stores, trackiops):
    """Granularities, and errors that say what there is."""
    assert trackiops._store._length("100ms") < trackiops._store._length("1s"), "windows below a second"
    assert stores.granularities() == ["1s", "1m"] and stores.granularities("requests") == []
    assert trackiops.open("lake/h").granularities("health") == ["1s", "10s", "1m"]
    found = db.sql("FROM granularities").fetchall()
    assert found == [(dataset, g) for dataset in ("health", "ops", "rollup") for g in ("1s", "10s", "1m")], found
    # For one store, whose path contains a glob character; for an export; and for both.
    os.rename("lake/i", "lake/i[1]")
    odd = trackiops.open("lake/i[1]").rollup("1m").select(pl.sum("read_bytes")).collect().item()
    os.rename("lake/i[1]", "lake/i")
    assert odd == trackiops.open("lake/i").rollup("1s").select(pl.sum("read_bytes")).collect().item() > 0
    subprocess.run([program, "export", "--store", "lake/h", "--granularity", "1m", "--output", "day.parquet"], check=True, capture_output=True)
    export = trackiops.open("day.parquet")
    of = lambda source: source.rollup("1m").select(pl.sum("read_bytes")).collect().item()
    assert of(export) == export.rollup().select(pl.sum("read_bytes")).collect().item() == of(trackiops.open("lake/h"))
    assert of(trackiops.open(["lake/i", "day.parquet"])) == of(stores) == of(trackiops.open(["lake", "lake/h"]))
    # A flipped bit is detected anywhere.
    whole = Path("day.parquet").read_bytes()
    for number in range(40):
        damaged = bytearray(whole)
        damaged[number * (len(whole) - 1) // 39] ^= 1 << number % 8
        Path("damaged.parquet").write_bytes(damaged)
        try:
            trackiops.open("damaged.parquet")
        except (ValueError, pl.exceptions.PolarsError):
            continue
        raise AssertionError(f"flip {number} was not noticed")

    # Directories of stores may have names of a store's parts, and a store may be inside another one's directory.
    both = of(stores)
    for name in ("ops", "health", "requests", "journal", "rollup"):
        shutil.copytree("lake/h", f"teams/{name}/h", symlinks=True)
        os.makedirs("teams/b")
        os.rename("lake/i", "teams/b/i")
        assert of(trackiops.open("teams")) == both, f"a directory {name} hides stores"
        os.rename("teams/b/i", f"teams/{name}/h/i")
        assert of(trackiops.open("teams")) == both, f"a store in a store below {name} is hidden"
        os.rename(f"teams/{name}/h/i", "lake/i")
        shutil.rmtree("teams")

    os.mkdir("empty")
    Path("other.parquet").write_bytes(Path("lake/h/catalog.db").read_bytes())
    pl.DataFrame({"a": [1]}).write_parquet("foreign.parquet")
    refused({
        lambda: trackiops.open("nowhere"): "no such store: nowhere",
        lambda: trackiops.open("empty"): "no store in empty",
        lambda: trackiops.open([]): "no store is named",
        lambda: trackiops.open("foreign.parquet"): "foreign.parquet is not an export of TrackIOps",
        lambda: trackiops.open("other.parquet"): "other.parquet is not Parquet that can be read",
        lambda: stores.granularities("rolup"): "no dataset rolup: there is rollup, ops, health, requests",
        lambda: stores.throughput("1m", "10s"): "step 10s is not a multiple of 1m",
        lambda: stores.covered("10s", "15s"): "step 15s is not a multiple of 10s",
        lambda: stores.rollup("10s"): "no rollup of 10s in lake/i: it has 1s, 1m",
        lambda: stores.rollup(): "name a granularity of rollup: there is 1s, 1m",
        lambda: trackiops.open("lake/i").requests(): "no requests in lake/i",
        lambda: trackiops.percentile("read_latency_hist", 99): "q is 99: it is a share from 0 to 1",
        lambda: trackiops.hist_percentile([], -1): "q is -1",
        lambda: db.sql("FROM rollup_1h").fetchall(): "no rollup_1h in lake: it has health_10s",
        lambda: db.sql("SELECT path FROM ops_1h").fetchall(): "no ops_1h in lake: it has health_10s",
        lambda: opened("lake/i").sql("FROM requests").fetchall(): "no requests in lake/i: it has",
        lambda: opened("empty"): "no Parquet below empty",
        lambda: opened("it''s"): "no Parquet below it's",
    })  # fmt: skip


def refused(wrong):
    """Each call raises an error with these words."""
    for call, said in wrong.items():
        try:
            call()
        except Exception as error:
            assert said in str(error), f"{error} is not {said}"
        else:
            raise AssertionError(f"no error: {said}")


def odd_histograms(program, db, stores, trackiops):
    assert db.sql("SELECT hist_percentile([], 0.5), hist_percentile(NULL, 0.5), hist_merge([])").fetchall() in ([(None, None, None)], [(None, None, [])])
    assert db.sql("SELECT rate(1, 0), mean_us(5, 2, 2), rate(500, 250), mean_us(5, 3, 1)").fetchall() == [(None, None, 2000.0, 2.5)]
    kind = pl.List(pl.Struct({"bucket": pl.Int32, "count": pl.Int64}))
    nothing = pl.DataFrame({"h": pl.Series([None, []], dtype=kind)})
    assert nothing.select(trackiops.percentile("h", 0.5)).to_series().to_list() == [None, None]
    assert nothing.select(trackiops.merge("h")).to_series().to_list() == [[]]
    assert trackiops.hist_percentile(None, 0.5) is None and trackiops.hist_merge([None, []]) == []
    # Elements may come in any order, and a bucket may occur several times.
    mixed = [{"bucket": 7, "count": 1}, {"bucket": 3, "count": 4}, {"bucket": 7, "count": 5}, {"bucket": -9, "count": 1}]
    merged = [{"bucket": -9, "count": 1}, {"bucket": 3, "count": 4}, {"bucket": 7, "count": 6}]
    frame = pl.DataFrame({"h": [mixed]})
    for q, bucket in {0: -9, 0.1: 3, 0.45: 3, 0.46: 7, 1: 7}.items():
        assert frame.select(trackiops.percentile("h", q)).item() == trackiops.hist_percentile(mixed, q) == 2 ** ((bucket + 0.5) / 32)
        assert db.execute("SELECT hist_percentile($h, $q)", {"h": mixed, "q": q}).fetchall() == [(2 ** ((bucket + 0.5) / 32),)]
    assert trackiops.hist_merge([mixed, None]) == merged == frame.select(trackiops.merge("h")).to_series().to_list()[0]
    assert db.execute("SELECT hist_merge([$h, NULL])", {"h": mixed}).fetchall() == [(merged,)]
    # The share is computed in floating point: 0.07 of 100 is a little more than 7.
    hundred = [{"bucket": bucket, "count": 1} for bucket in range(100)]
    eighth = 2 ** (7.5 / 32)
    assert trackiops.hist_percentile(hundred, 0.07) == eighth
    assert pl.DataFrame({"h": [hundred]}).select(trackiops.percentile("h", 0.07)).item() == eighth
    assert db.execute("SELECT hist_percentile($h, 0.07), hist_percentile($h, 0), hist_percentile($h, 1)", {"h": hundred}).fetchall() \
        == [(eighth, 2 ** (0.5 / 32), 2 ** (99.5 / 32))]


def declared(program, db, stores, trackiops):
    """The version is the crate's, and the least versions that the module declares are the tested ones."""
    [crate] = re.findall(r'^version = "(.+)"$', (ROOT / "Cargo.toml").read_text(encoding="utf-8"), re.MULTILINE)[:1]
    assert trackiops.__version__ == crate, f"the module is {trackiops.__version__}, and the crate {crate}"
    pinned = dict(re.findall(r"^(\w+)==(.+)$", (ROOT / "tests/science/least.txt").read_text(encoding="utf-8"), re.MULTILINE))
    project = (ROOT / "contrib/python/pyproject.toml").read_text(encoding="utf-8")
    least = re.findall(r'"(numpy|polars|pandas|pyarrow)(?:>=([\d.]+))?"', project)
    assert {name for name, _ in least} == {"numpy", "polars", "pandas", "pyarrow"}, least
    for name, version in least:
        assert version and f"{pinned[name]}.".startswith(f"{version}."), f"{name} {version} is declared, and {pinned[name]} is tested"


def examples(program, db, stores, trackiops):
    """Those of comments and of READMEs."""
    of_sql = re.findall(r"^--   ((?:SELECT|FROM) .*;)$", SQL, re.MULTILINE)
    without = [name for name in re.findall(r"TEMP MACRO (?!trackiops_)(\w+)", SQL) if not any(f"{name}(" in one for one in of_sql)]
    assert not without, f"no example of {without}"
    for example in of_sql:
        assert len(db.sql(adapted(example)).pl()) > 0, f"{example} has no answer"
    scope = {}
    for code in blocks("contrib/python/README.md", "python", of=3):
        exec(adapted(code), scope)
        assert len(scope.pop("answer")) > 0, code
    for name in ("README.md", "docs/reference/parquet.md"):
        [code] = blocks(name, "python", of=1)
        exec(adapted(code), {"print": lambda rows: scope.update(answer=rows)})
        assert len(scope.pop("answer")) > 0, code
    session = duckdb.connect()
    for name, of in (("README.md", 1), ("docs/reference/parquet.md", 4), ("docs/guide/hung-servers.md", 1)):
        for code in blocks(name, "sql", of=of):
            # The lake has no rows of connections.
            assert len(run_sql(session, code).pl()) > 0 or "(connection)" in code, f"{code} has no answer"


def short_way(program, db, stores, trackiops):
    """The recipe of docs/guide/notebooks.md, against the query above it."""
    name = "docs/guide/notebooks.md"
    question = blocks(name, "sh short", of=1)[0].split()[2:]
    question = [word for word in question if word not in ("--store", "store", "--format", "csv")]
    compared = Compared(name, asked(program, *map(adapted, question), stores=["lake/h"]), 1)
    [code] = blocks(name, "sql short", of=1)
    compared("DuckDB", run_sql(duckdb.connect(), code))
    scope = {}
    [code] = blocks(name, "python short", of=1)
    exec(adapted(code), scope)
    compared("Polars", scope["answer"].lazy())


def blocks(path, kind, of):
    text = (ROOT / path).read_text(encoding="utf-8")
    found = re.findall(rf"^```{kind}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert of == len(found), f"{path} has {len(found)} blocks of {kind}"
    return found


def adapted(code):
    """An example about what was recorded here."""
    for there, here in {
        "/var/lib/trackiops": "lake/h", "'store'": "'lake/h'", '"store"': '"lake/h"', "/mnt/nfs/db/orders.db": "/mnt/f2",
        "2026-11-21 03:10": "2026-11-21 03:00", "2026-11-21 03:11": "2026-11-21 03:01",
    }.items():  # fmt: skip
        code = code.replace(there, here)
    return code


def run_sql(session, code):
    """What the last statement of a block gives; `.read` is a command of the duckdb program."""
    *lines, last = adapted(code).strip().split(".read contrib/trackiops.sql\n")
    if lines:
        session.execute(lines[0])
        session.execute(SQL)
    return session.sql(last)


def main():
    [program] = sys.argv[1:]
    trackiops = installed()
    db, stores = opened("lake"), trackiops.open("lake")
    for check in (totals, top_files, percentiles, histograms, throughput, plots, levels, named_like_columns, operations, errors, tenants,
                  single_requests, what_there_is, odd_histograms, declared, examples, short_way):  # fmt: skip
        check(program, db, stores, trackiops)
    print(f"{Compared.count} rows of SQL, Polars and pandas are those of the query")


main()
