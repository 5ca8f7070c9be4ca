"""Compares `trackiops report NAME` with what DuckDB computes from single requests.

    reports.py TRACKIOPS NAME

in a directory that has the stores `h` and `i` of testkit's `usage`. Requests and bytes come from the single requests, recorded time from
the finest rows of health, metadata operations from the finest rows of files: single ones are kept of READ and WRITE alone.
"""

import csv
import io
import math
import pathlib
import re
import subprocess
import sys
from decimal import ROUND_HALF_UP, Decimal

import duckdb

# 2026-11-21T03:00:00Z, and three hours.
START_MS, END_MS = 1795230000_000, 1795240800_000
MINUTES_5 = 300_000
HOUR = 3_600_000

VIEWS = """
CREATE VIEW requests AS
    SELECT host, uid, cgroup, mount, path, file_key, op, offset_bytes, done_bytes, end_time_ns // 1000000 AS ms
    FROM read_parquet('*/requests/**/*.parquet', hive_partitioning = false);
CREATE VIEW health AS
    SELECT host, epoch_ms(time) AS ms, covered_ms
    FROM read_parquet('*/health/granularity=30s/**/*.parquet', hive_partitioning = false);
CREATE VIEW operations AS
    SELECT host, uid, cgroup, mount, path, file_key, epoch_ms(time) AS ms,
           list_sum(list_transform(ops, lambda op: op.requests)) AS requests
    FROM read_parquet('*/rollup/granularity=30s/**/*.parquet', hive_partitioning = false);
"""


class Checks:
    def __init__(self):
        self.count = 0

    def equal(self, name, got, expected):
        self.count += 1
        if got != expected:
            sys.exit(f"{name}: {got}, and DuckDB has {expected}")

    def close(self, name, got, expected):
        self.count += 1
        got = None if got == "" else float(got)
        if (got is None) != (expected is None) or (got is not None and not math.isclose(got, expected, rel_tol=1e-9, abs_tol=1e-9)):
            sys.exit(f"{name}: {got}, and DuckDB has {expected}")


def report(trackiops, name, *words):
    stores = ["--store", "h", "--store", "i"]
    command = [trackiops, "report", name, *stores, "--format", "csv", *map(str, words)]
    output = subprocess.run(command, capture_output=True, text=True)
    if output.returncode != 0:
        sys.exit(f"{command}: {output.returncode}: {output.stderr}")
    return list(csv.DictReader(io.StringIO(output.stdout)))


def rows(db, sql):
    cursor = db.execute(sql)
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row)) for row in cursor.fetchall()]


def text(value):
    return "" if value is None else str(value)


# For each tenant and each host on which it was active: the host's recorded intervals, with the tenant's usage and rate.
SERIES = """
WITH used AS (
    SELECT host, {key}, ms // {interval} AS place,
           count(*) FILTER (op = 'READ') AS reads, count(*) FILTER (op = 'WRITE') AS writes, 0 AS metadata,
           sum(done_bytes) FILTER (op = 'READ') AS read_bytes, sum(done_bytes) FILTER (op = 'WRITE') AS write_bytes
    FROM requests WHERE ms >= {since} AND ms < {until} GROUP BY ALL
    UNION ALL
    SELECT host, {key}, ms // {interval} AS place, 0, 0, sum(requests), 0, 0
    FROM operations WHERE ms >= {since} AND ms < {until} AND requests > 0 GROUP BY ALL
), recorded AS (
    SELECT host, ms // {interval} AS place, sum(covered_ms) AS covered_ms
    FROM health WHERE ms >= {since} AND ms < {until} GROUP BY ALL
), subjects AS (SELECT DISTINCT host, {key} FROM used)
SELECT {keys}, place, max(covered_ms) AS covered_ms,
       sum(reads) AS reads, sum(writes) AS writes, sum(metadata) AS metadata,
       sum(read_bytes) AS read_bytes, sum(write_bytes) AS write_bytes,
       sum((reads + writes) * 1000.0 / covered_ms) AS iops, sum((read_bytes + write_bytes) * 1000.0 / covered_ms) AS throughput
FROM (
    SELECT {subject_keys}, subjects.host, recorded.place, any_value(covered_ms) AS covered_ms,
           coalesce(sum(reads), 0)::BIGINT AS reads, coalesce(sum(writes), 0)::BIGINT AS writes,
           coalesce(sum(metadata), 0)::BIGINT AS metadata,
           coalesce(sum(read_bytes), 0)::BIGINT AS read_bytes, coalesce(sum(write_bytes), 0)::BIGINT AS write_bytes
    FROM subjects JOIN recorded USING (host)
    LEFT JOIN used ON used.host = subjects.host AND used.place = recorded.place AND {joined}
    WHERE covered_ms > 0
    GROUP BY ALL
)
GROUP BY ALL
"""


def series(keys, interval, since=START_MS, until=END_MS):
    return SERIES.format(
        key=", ".join(keys),
        keys=", ".join(keys),
        subject_keys=", ".join(f"subjects.{key}" for key in keys),
        joined=" AND ".join(f"used.{key} IS NOT DISTINCT FROM subjects.{key}" for key in keys),
        interval=interval,
        since=since,
        until=until,
    )


PRICES = """
currency = "EUR"
decimals = 4
[per_million]
reads = 41.5
writes = 123.456789
metadata = 7
[per_gib]
read = 0.11
written = 3.3
[per_month]
iops = 12.5
mib_per_second = 1000
[free]
reads = 100
gib_read = 0.01
iops = 0.05
"""


def amount(units, price, per, free=0):
    charged = max(Decimal(units) - Decimal(str(free)), Decimal(0))
    exact = charged * Decimal(str(price)) / Decimal(per)
    return exact.quantize(Decimal("0.0001"), ROUND_HALF_UP)


def billing(trackiops, db, checks):
    pathlib.Path("prices.toml").write_text(PRICES)
    month = 30 * 86_400_000
    for period, words in [(HOUR, ["1h"]), (30 * 60_000, ["30m"]), (None, ["all"])]:
        got = report(
            trackiops, "billing", "--period", *words, "--percentile", 95, "--percentile", "50", "--percentile", "99.9", "--prices", "prices.toml"
        )
        bucket = f"place * {MINUTES_5} // {period}" if period else "0"
        expected = rows(
            db,
            f"""
            SELECT uid, cgroup, {bucket} AS period, sum(covered_ms) AS recorded_ms, sum(reads) AS reads, sum(writes) AS writes,
                   sum(metadata) AS metadata, sum(read_bytes) AS read_bytes, sum(write_bytes) AS write_bytes,
                   {', '.join(
                       f"list_sort(list({of}))[ceil({p} * count(*) / 1000)::BIGINT] AS {of}_p{name}"
                       for of in ('iops', 'throughput')
                       for name, p in (('95', 950), ('50', 500), ('99_9', 999))
                   )}
            FROM ({series(['uid', 'cgroup'], MINUTES_5)}) GROUP BY ALL
            """,
        )
        checks.equal("number of rows", len(got), len(expected))
        key = lambda row: (row["uid"], row["cgroup"], row["since"])
        got = {key(row): row for row in got}
        for row in expected:
            since = START_MS if not period else row["period"] * period
            since = db.execute(f"SELECT strftime(make_timestamp({since} * 1000), '%Y-%m-%dT%H:%M:%SZ')").fetchone()[0]
            which = (text(row["uid"]), text(row["cgroup"]), since)
            found = got.get(which) or got.get((which[0], which[1], since.replace("Z", ".000Z")))
            if found is None:
                sys.exit(f"no row {which} among {list(got)}")
            for column, name in [
                ("recorded_ms", "recorded_ms"), ("read_requests", "reads"), ("write_requests", "writes"),
                ("metadata_operations", "metadata"), ("read_bytes", "read_bytes"), ("write_bytes", "write_bytes"),
            ]:
                checks.equal(f"{which} {column}", int(found[column]), int(row[name]))
            for of in ("iops", "throughput"):
                for p in ("95", "50", "99_9"):
                    checks.close(f"{which} {of}_p{p}", found[f"{of}_p{p}"], row[f"{of}_p{p}"])
            iops = max(Decimal(row["iops_p95"]).quantize(Decimal("0.001"), ROUND_HALF_UP) - Decimal("0.05"), Decimal(0))
            throughput = Decimal(row["throughput_p95"]).quantize(Decimal(1), ROUND_HALF_UP)
            recorded_ms = int(row["recorded_ms"])
            amounts = [
                amount(row["reads"], 41.5, 10**6, 100),
                amount(row["writes"], 123.456789, 10**6),
                amount(row["metadata"], 7, 10**6),
                # The free part is a whole number of bytes.
                amount(row["read_bytes"], 0.11, 2**30, int(0.01 * 2**30)),
                amount(row["write_bytes"], 3.3, 2**30),
                amount(iops * recorded_ms, 12.5, month),
                amount(throughput * recorded_ms, 1000, 2**20 * month),
            ]
            names = ["read_requests", "write_requests", "metadata_operations", "read_bytes", "write_bytes", "iops", "throughput"]
            for name, expected_amount in zip(names, amounts):
                checks.equal(f"{which} {name}_amount", Decimal(found[f"{name}_amount"]), expected_amount)
            checks.equal(f"{which} total", Decimal(found["total_amount"]), sum(amounts))


COEFFICIENTS = """
pue = 1.4
[joule_per_request]
read = 0.002
write = 0.005
metadata = 0.0007
[joule_per_byte]
read = 1.1e-7
written = 2.3e-7
[storage]
watt_per_tib = 6.5
[embodied]
g_per_million_requests = 900
g_per_tib_year = 12000
[stored]
"alice:/batch.slice" = "3TiB"
"2000" = 1000000000000
"archive" = "1.5TiB"
"""
STORED = {(1000, "/batch.slice"): 3 * 2**40, (2000, None): 10**12, "archive": 3 * 2**39}
# One step is within an interval, and one within a window.
GRID = [(START_MS - 7_200_000, 300), (START_MS + 600_000, 120.5), (START_MS + 4_000_123, 480), (START_MS + 7_400_000, 60)]


def carbon(trackiops, db, checks):
    pathlib.Path("c.toml").write_text(COEFFICIENTS)
    stamp = lambda ms: db.execute(f"SELECT strftime(make_timestamp({ms} * 1000), '%Y-%m-%dT%H:%M:%S.%gZ')").fetchone()[0]
    lines = ["time,g_per_kwh"] + [f"{stamp(ms)},{g}" for ms, g in GRID]
    pathlib.Path("grid.csv").write_text("\n".join(lines) + "\n")
    db.execute("CREATE OR REPLACE TABLE grid (since BIGINT, until BIGINT, g DOUBLE)")
    ends = [ms for ms, _ in GRID[1:]] + [END_MS]
    db.executemany("INSERT INTO grid VALUES (?, ?, ?)", [(ms, end, g) for (ms, g), end in zip(GRID, ends)])
    # The range begins and ends within an interval.
    since, until = START_MS + 150_000, END_MS - 60_000
    db.execute(
        f"""
        CREATE OR REPLACE TABLE means AS
        SELECT place, sum(g * (least(grid.until, place_end) - greatest(grid.since, place_start))) / any_value(place_end - place_start) AS g
        FROM (
            SELECT place, greatest(place * {MINUTES_5}, {since}) AS place_start, least((place + 1) * {MINUTES_5}, {until}) AS place_end
            FROM (SELECT unnest(range({since} // {MINUTES_5}, ({until} - 1) // {MINUTES_5} + 1)) AS place)
        ) JOIN grid ON grid.until > place_start AND grid.since < place_end
        GROUP BY place
        """
    )
    for period, words in [(HOUR, ["1h"]), (None, ["all"])]:
        got = report(
            trackiops, "carbon", "--coefficients", "c.toml", "--intensity", "grid.csv", "--period", *words,
            "--since", stamp(since), "--until", stamp(until),
        )
        bucket = f"place * {MINUTES_5} // {period}" if period else "0"
        used = rows(
            db,
            f"""
            SELECT uid, cgroup, period, sum(reads) AS reads, sum(writes) AS writes, sum(joules) AS joules,
                   sum(joules * 1.4 / 3.6e6 * g) AS operational_g
            FROM (
                SELECT uid, cgroup, {bucket} AS period, reads, writes, g,
                       reads * 0.002 + writes * 0.005 + metadata * 0.0007 + read_bytes * 1.1e-7 + write_bytes * 2.3e-7 AS joules
                FROM ({series(['uid', 'cgroup'], MINUTES_5, since, until)}) JOIN means USING (place)
            )
            GROUP BY ALL
            """,
        )
        expected = {(row["uid"], row["cgroup"], row["period"]): row for row in used}
        first, last = (since // period, (until - 1) // period) if period else (0, 0)
        nothing = {"reads": 0, "writes": 0, "joules": 0, "operational_g": 0}
        for which in STORED:
            for n in range(first, last + 1):
                key = (*which, n) if isinstance(which, tuple) else (which, n)
                expected.setdefault(key, nothing)
        checks.equal("number of rows", len(got), len(expected))
        found = {}
        for row in got:
            is_named = row["uid"] or row["mount"] or float(row["requests_j"]) > 0 or row["stored_bytes"] != str(STORED["archive"])
            at = db.execute(f"SELECT epoch_ms(TIMESTAMPTZ '{row['since']}')").fetchone()[0]
            n = at // period if period else 0
            uid = int(row["uid"]) if row["uid"] else None
            found[(uid, row["cgroup"] or None, n) if is_named else ("archive", n)] = row
        for key, row in expected.items():
            n = key[-1]
            start = max(n * period, since) if period else since
            end = min((n + 1) * period, until) if period else until
            stored = STORED.get(key[:-1] if len(key) == 3 else key[0], 0)
            watts = 6.5 * stored / 2**40
            grid = db.execute(
                f"SELECT sum(g * (least(until, {end}) - greatest(since, {start}))) FROM grid WHERE until > {start} AND since < {end}"
            ).fetchone()[0]
            energy = 1.4 * (float(row["joules"]) + watts * (end - start) / 1000)
            operational = float(row["operational_g"]) + 1.4 * watts * grid / 1000 / 3.6e6
            embodied = (int(row["reads"]) + int(row["writes"])) * 900 / 1e6 + 12000 * stored / 2**40 * (end - start) / 1000 / 86400 / 365
            checks.close(f"{key} energy_j", found[key]["energy_j"], energy)
            checks.close(f"{key} energy_kwh", found[key]["energy_kwh"], energy / 3.6e6)
            checks.close(f"{key} operational_g", found[key]["operational_g"], operational)
            checks.close(f"{key} embodied_g", found[key]["embodied_g"], embodied)
            checks.close(f"{key} emission_g", found[key]["emission_g"], operational + embodied)


def percentile(values, p):
    return sorted(values)[math.ceil(p * len(values) / 100) - 1]


def first_fit(demands, fitted, capacity, p):
    """Places of the subjects on each target."""
    share = lambda demand: max(percentile(of[:fitted], p) / cap for of, cap in zip(demand, capacity) if cap)
    targets = []
    for place in sorted(range(len(demands)), key=lambda place: (-share(demands[place]), place)):
        for target in targets:
            joint = [[sum(values) for values in zip(*(demands[other][which] for other in [*target, place]))] for which in (0, 1)]
            if all(percentile(of[:fitted], p) <= cap for of, cap in zip(joint, capacity) if cap):
                target.append(place)
                break
        else:
            targets.append([place])
    return targets


def placement(trackiops, db, checks):
    for by, keys, name in [
        ("file", ["file_key"], "file_key"),
        ("dir", ["mount", "regexp_replace(path, '/[^/]*$', '')"], "path"),
        ("mount", ["mount"], "mount"),
    ]:
        db.execute(f"CREATE OR REPLACE VIEW placed AS SELECT *, {', '.join(f'{key} AS key{n}' for n, key in enumerate(keys))} FROM requests")
        names = [f"key{n}" for n in range(len(keys))]
        listed = ", ".join(names)
        hosts = rows(
            db,
            f"""
            SELECT place FROM (SELECT host, ms // {MINUTES_5} AS place, sum(covered_ms) AS ms FROM health GROUP BY ALL) WHERE ms > 0
            GROUP BY place HAVING count(*) = 2 ORDER BY place
            """,
        )
        frame = [row["place"] for row in hosts]
        used = rows(
            db,
            f"""
            WITH recorded AS (SELECT host, ms // {MINUTES_5} AS place, sum(covered_ms) AS covered_ms FROM health GROUP BY ALL)
            SELECT {listed}, place, sum(iops) AS iops, sum(throughput) AS throughput
            FROM (
                SELECT {listed}, host, place, count(*) * 1000.0 / any_value(covered_ms) AS iops,
                       sum(done_bytes) * 1000.0 / any_value(covered_ms) AS throughput
                FROM (SELECT *, ms // {MINUTES_5} AS place FROM placed) JOIN recorded USING (host, place) GROUP BY ALL
            ) GROUP BY ALL
            """,
        )
        series = {}
        for row in used:
            series.setdefault(tuple(row[key] for key in names), {})[row["place"]] = (float(row["iops"]), float(row["throughput"]))
        demand = {key: [[of.get(place, (0, 0))[which] for place in frame] for which in (0, 1)] for key, of in series.items()}
        # Offsets and lengths are whole blocks.
        touched = {
            tuple(row[key] for key in names): row
            for row in rows(
                db,
                f"""
                SELECT {listed}, count(DISTINCT (file_key, block)) * 4096 AS bytes FROM (
                    SELECT {listed}, file_key, unnest(range(offset_bytes // 4096, (offset_bytes + done_bytes) // 4096)) AS block FROM placed
                ) GROUP BY ALL
                """,
            )
        }
        column = {"file_key": "file_key", "path": "path", "mount": "mount"}[name]
        for words, p, check in [(["--capacity-iops", 1.2], 95, 0.5), (["--capacity-iops", 0.9, "--capacity-bytes", "40KiB"], 80, 0.25)]:
            words = ["--by", by, *words, "--percentile", p, "--check-share", check]
            got = report(trackiops, "placement", *words)
            checks.equal("number of subjects", len(got), len(demand))
            of_row = lambda row: next(key for key in demand if str(key[-1]) == row[column] and (len(key) == 1 or key[0] == row["mount"]))
            found = {of_row(row): row for row in got}
            order = sorted(demand, key=lambda key: found[key]["path"] if by == "file" else str(key[-1]))
            for key, (iops, throughput) in demand.items():
                for of, values in (("iops", iops), ("throughput", throughput)):
                    checks.close(f"{key} {of}_mean", found[key][f"{of}_mean"], sum(values) / len(values))
                    checks.close(f"{key} {of}_p{p}", found[key][f"{of}_p{p}"], percentile(values, p))
                    checks.close(f"{key} {of}_peak", found[key][f"{of}_peak"], max(values))
                checks.equal(f"{key} working set", int(found[key]["working_set_bytes"]), touched[key]["bytes"])
                checks.close(f"{key} share", found[key]["single_requests_share"], 1.0)
                correlations = {}
                for other, of in demand.items():
                    if other != key:
                        db.execute("CREATE OR REPLACE TABLE pair (a DOUBLE, b DOUBLE)")
                        db.executemany("INSERT INTO pair VALUES (?, ?)", list(zip(iops, of[0])))
                        correlations[other] = db.execute("SELECT corr(a, b) FROM pair").fetchone()[0]
                if correlations:
                    checks.close(f"{key} most", found[key]["most_correlated_by"], max(correlations.values()))
                    checks.close(f"{key} least", found[key]["least_correlated_by"], min(correlations.values()))
            fitted = len(frame) - math.floor(len(frame) * check + 0.5)
            capacity = [float(words[words.index("--capacity-iops") + 1]), 40960.0 if "--capacity-bytes" in words else None]
            packed = first_fit([demand[key] for key in order], fitted, capacity, p)
            checks.equal(
                f"{by} packing", [sorted(order.index(key) for key in order if found[key]["target"] == str(n + 1)) for n in range(len(packed))],
                [sorted(target) for target in packed],
            )
            targets = report(trackiops, "placement", *words, "--table", "targets")
            checks.equal("number of targets", len(targets), len(packed))
            for row, target in zip(targets, packed):
                sums = [[sum(values) for values in zip(*(demand[order[place]][which] for place in target))] for which in (0, 1)]
                over = [any(cap and of[at] > cap * (1 + 1e-12) for of, cap in zip(sums, capacity)) for at in range(len(frame))]
                checks.equal("fitted_exceeded", int(row["fitted_exceeded"]), sum(over[:fitted]))
                checks.equal("checked_exceeded", int(row["checked_exceeded"]), sum(over[fitted:]))
                checks.equal("checked_intervals", int(row["checked_intervals"]), len(frame) - fitted)
                for which, of in enumerate(("iops", "throughput")):
                    checks.close(f"{of}_fitted", row[f"{of}_fitted"], percentile(sums[which][:fitted], p))
                    checks.close(f"{of}_checked", row[f"{of}_checked"], percentile(sums[which][fitted:], p))
                    peaks = sum(max(demand[order[place]][which]) for place in target)
                    checks.close(f"{of}_over_commitment", row[f"{of}_over_commitment"], capacity[which] and peaks / capacity[which])


def of_the_page(trackiops, db, checks, name):
    """The files and the query of docs/reference/reports.md, as they are there."""
    page = (pathlib.Path(__file__).parents[2] / "docs/reference/reports.md").read_text()
    sections = re.split(r"^## ", page, flags=re.M)
    section = next(section for section in sections if section.startswith(f"`{name}`"))
    block = lambda kind, text: re.search(rf"^```{kind}\n(.*?)^```$", text, flags=re.M | re.S).group(1)
    sql = lambda text: block("sql", text).replace("'store/", "'*/").replace("granularity=1s", "granularity=30s")
    shared = duckdb.connect()
    shared.execute(sql(next(section for section in sections if section.startswith("What all reports share"))))
    words = []
    if name != "placement":
        pathlib.Path("page.toml").write_text(block("toml", section))
        words = [{"billing": "--prices", "carbon": "--coefficients"}[name], "page.toml"]
    if name == "carbon":
        pathlib.Path("grid.csv").write_text(block("csv", section))
        words += ["--intensity", "grid.csv"]
    found = report(trackiops, name, *words)
    expected = rows(shared, sql(section))
    if name == "placement":
        found = {row["file_key"]: row for row in found}
        checks.equal("files of the page", len(found) * (len(found) - 1), len(expected))
        for row in expected:
            of = found[str(row["file_key"])]
            for column in ("iops_mean", "iops_p95", "iops_peak"):
                checks.close(f"page {column}", of[column], row[column])
        for key, of in found.items():
            correlations = [row["correlation"] for row in expected if str(row["file_key"]) == key]
            checks.close("page most", of["most_correlated_by"], max(correlations))
            checks.close("page least", of["least_correlated_by"], min(correlations))
        return
    found = {(row["uid"], row["cgroup"]): row for row in found}
    checks.equal("tenants of the page", len(found), len(expected))
    for row in expected:
        of = found[(text(row["uid"]), text(row["cgroup"]))]
        if name == "billing":
            checks.equal("page requests", int(of["read_requests"]) + int(of["write_requests"]), int(row["requests"]))
            checks.equal("page bytes", int(of["read_bytes"]) + int(of["write_bytes"]), int(row["bytes"]))
        for column in {"billing": ["iops_p95", "throughput_p95"], "carbon": ["energy_j", "operational_g"]}[name]:
            checks.close(f"page {column}", of[column], float(row[column]))


def main():
    trackiops, name = sys.argv[1:]
    db = duckdb.connect()
    db.execute(VIEWS)
    checks = Checks()
    {"billing": billing, "carbon": carbon, "placement": placement}[name](trackiops, db, checks)
    of_the_page(trackiops, db, checks, name)
    print(f"{name}: {checks.count} values equal what DuckDB computes")


main()
