"""Computes from single requests, with DuckDB and NumPy, what `noisy` and `slow` say, and compares.

Usage: single_requests.py STORE ANSWERS. ANSWERS is JSON with the rows of both reports. Each tenant is known by its uid.
"""

import json
import math
import pathlib
import sys

import duckdb
import numpy as np
import pandas as pd

store, answers = pathlib.Path(sys.argv[1]), json.loads(pathlib.Path(sys.argv[2]).read_text())
start_ns, count = answers["start_ms"] * 1_000_000, answers["intervals"]
requests = f"read_parquet('{store}/requests/**/*.parquet')"
LAGS, HOUR = 2, 360
checked = 0


def same(what, expected, found, relative=1e-6, absolute=6e-4):
    """Sums in rows are rounded to us."""
    global checked
    checked += 1
    if found is None or not math.isclose(expected, found, rel_tol=relative, abs_tol=absolute):
        sys.exit(f"{what}: {expected} from single requests, {found} in the report")


# By tenant, interval and direction.
cells = duckdb.sql(f"""
    SELECT uid, (end_time_ns - {start_ns}) // 10_000_000_000 AS t, op, count(*) AS requests, sum(done_bytes)::DOUBLE AS bytes,
        sum(latency_ns)::DOUBLE AS latency_ns, count(rtt_ns) AS split, sum(rtt_ns)::DOUBLE AS rtt_ns
    FROM {requests} GROUP BY ALL""").df()
uids = sorted(cells.uid.unique())


def grid(column, op=None):
    chosen = cells if op is None else cells[cells.op == op]
    table = chosen.pivot_table(index="t", columns="uid", values=column, aggfunc="sum", fill_value=0)
    return table.reindex(index=range(count), columns=uids, fill_value=0).to_numpy(dtype=float)


load = {"requests": grid("requests"), "bytes": grid("bytes")}
latency = grid("latency_ns")
rtt, split = grid("rtt_ns"), grid("split")

# Each tenant's latency relative to its usual one, reads and writes apart.
weighted, weight = np.zeros((count, len(uids))), np.zeros((count, len(uids)))
for op in ["READ", "WRITE"]:
    ns, n = grid("rtt_ns", op), grid("split", op)
    with np.errstate(invalid="ignore", divide="ignore"):
        means = np.where(n > 0, ns / n, np.nan)
        relative = np.log(means / np.nanmedian(means, axis=0))
    weighted += np.where(n > 0, n * relative, 0)
    weight += n
relative = np.where(weight >= 5, weighted / np.maximum(weight, 1), np.nan)


def without_course(values, half):
    series = pd.Series(values)
    return (series - series.rolling(2 * half + 1, center=True, min_periods=1).mean()).to_numpy()


def ranks(values):
    return (pd.Series(values).rank().to_numpy() - 0.5) / len(values)


def half_course(length):
    return max(1, min(HOUR // 2, length // 2 // 8))


ranked = {m: np.column_stack([without_course(ranks(of), half_course(count)) for of in load[m].T]) for m in load}

for row in answers["noisy"]:
    who = uids.index(row["uid"])
    others = [i for i in range(len(uids)) if i != who]
    of_others = pd.DataFrame(relative[:, others]).median(axis=1, skipna=True).to_numpy()
    t = np.array([t for t in range(LAGS, count) if not np.isnan(of_others[t])])
    name = f"uid {row['uid']}"
    same(f"{name} intervals", len(t), row["intervals"])
    lag = row["lag_ms"] // 10_000
    x = load[row["measure"]][t - lag, who]
    last = len(x) - 1
    middle, top = np.sort(x)[last // 2], np.sort(x)[int(last * 0.995)]
    above = middle + (top - middle) // 2
    same(f"{name} high_above", above, row["high_above"])
    high = x > above
    same(f"{name} high_intervals", high.sum(), row["high_intervals"])
    gaps = np.diff(t[high]) > 4
    same(f"{name} episodes", gaps.sum() + 1, row["episodes"])
    for chosen, column in [(high, "others_us_high"), (~high, "others_us_otherwise")]:
        at = np.ix_(t[chosen], others)
        same(f"{name} {column}", rtt[at].sum() / split[at].sum() / 1000, row[column])
    same(f"{name} queue_share", latency[:, who].sum() / latency.sum(), row["queue_share"], absolute=1e-6)
    same(f"{name} queue_share_high", latency[t[high], who].sum() / latency[t[high]].sum(), row["queue_share_high"], absolute=1e-6)
    # The partial correlation. Controls that would lower latency are dropped one by one.
    y = without_course(ranks(of_others[t]), half_course(len(t)))
    y = y - y.mean()
    ordered = sorted(others, key=lambda i: (-load["requests"][:, i].sum(), i))
    kept = ordered[: min(8, len(t) // 30 // 2)]
    columns = [ranked[m][t, i] for i in kept for m in ["requests", "bytes"]]
    rest = ordered[len(kept) :]
    if rest:
        columns += [ranked[m][np.ix_(t, rest)].sum(axis=1) for m in ["requests", "bytes"]]
    z = np.column_stack(columns)
    z = z - z.mean(axis=0)
    while True:
        by, *_ = np.linalg.lstsq(z, y, rcond=None)
        if (by >= 0).all():
            break
        z = np.delete(z, by.argmin(), axis=1)
    own_load = z @ by
    load_left = ranked[row["measure"]][t - lag, who]
    load_left = load_left - load_left.mean()
    load_left = load_left - z @ np.linalg.lstsq(z, load_left, rcond=None)[0]
    left = y - own_load
    correlation = (load_left @ left) / math.sqrt((load_left @ load_left) * (left @ left))
    same(f"{name} correlation", correlation, row["correlation"], absolute=6e-4)
    alike = 0.5 * math.sqrt((own_load**2).mean())
    differences = []
    for i in np.flatnonzero(high):
        match = ~high & (abs(t - t[i]) <= HOUR) & (abs(own_load - own_load[i]) <= alike)
        if match.sum() >= 5:
            differences.append(of_others[t[i]] - np.median(of_others[t[match]]))
    same(f"{name} compared", len(differences) / high.sum(), row["compared"])
    same(f"{name} ratio", math.exp(np.median(differences)), row["ratio"])

SUMS = "count(*), avg(latency_ns), avg(queue_ns), avg(rtt_ns), quantile_disc(latency_ns, 0.99)"


def within(since_ms, until_ms):
    return f"end_time_ns >= {since_ms} * 1000000 AND end_time_ns < {until_ms} * 1000000"


def added_s(before, now, group):
    """requests x (mean now - mean before), reads and writes apart."""
    return dict(
        duckdb.sql(f"""
        WITH one AS (SELECT {group} AS who, op, avg(latency_ns) AS mean FROM {requests} WHERE {before} GROUP BY ALL),
             two AS (SELECT {group} AS who, op, count(*) AS n, avg(latency_ns) AS mean FROM {requests} WHERE {now} GROUP BY ALL)
        SELECT who, sum(coalesce(n * (two.mean - one.mean), 0)) / 1e9 FROM two LEFT JOIN one USING (who, op) GROUP BY who""").fetchall()
    )


baseline = within(*answers["baseline_ms"])
for row in answers["times"]:
    now = within(row["since"], row["until"])
    for suffix, where in [("_before", baseline), ("", now)]:
        [(n, mean, queue, rtt_mean, p99)] = duckdb.sql(f"SELECT {SUMS} FROM {requests} WHERE {where}").fetchall()
        same("mean", mean / 1000, row[f"mean_us{suffix}"])
        same("queue", queue / 1000, row[f"queue_us{suffix}"])
        same("rtt", rtt_mean / 1000, row[f"rtt_us{suffix}"])
        same("completion", (mean - queue - rtt_mean) / 1000, row[f"completion_us{suffix}"], absolute=0.01)
        same("p99", p99 / 1000, row[f"p99_us{suffix}"], relative=0.0111)
    same("requests", n, row["requests"])
    by_tenant = added_s(baseline, now, "uid")
    same("added_s", sum(max(0, of) for of in by_tenant.values()), row["added_s"])
    for who in [of for of in answers["sufferers"] if of["number"] == row["number"] and of["kind"] == "tenant"]:
        same(f"added_s of uid {who['uid']}", by_tenant[who["uid"]], who["added_s"])

print(f"{len(answers['noisy'])} candidates, {len(answers['times'])} slow times: {checked} numbers agree")
