"""What plots show, as rows: requests by time and latency, and values over time."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Optional

import polars as pl

from ._histogram import BUCKETS_PER_OCTAVE, merge, percentile

SHARES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999}
RATES = ("read_iops", "read_throughput", "write_iops", "write_throughput")
# Beyond these a plot is slower, and shows no more.
_MOST_COLUMNS, _MOST_POINTS, _MOST_LINES = 240, 2000, 20
# Times between 1 and 10 that people read, as in 10 s, 15 s, 20 s, 30 s and 1 m.
_STEPS_MS = sorted(
    {10**power * digit for power in range(3) for digit in (1, 2, 5)}
    | {1000 * s for s in (1, 2, 5, 10, 15, 30)}
    | {60_000 * m for m in (1, 2, 5, 10, 15, 30)}
    | {3_600_000 * h for h in (1, 2, 3, 6, 12, 24, 48, 7 * 24, 14 * 24, 28 * 24, 84 * 24, 364 * 24)}
)
_KIND = pl.List(pl.Struct({"bucket": pl.Int32, "count": pl.Int64}))


def cells(rows: pl.LazyFrame, histogram: Optional[str], step: Optional[str], per_octave: int) -> tuple[pl.DataFrame, timedelta]:
    """Requests by window and latency, and the length of the windows.

    The columns are `time`, `lower_us` (exclusive), `upper_us` (inclusive) and `requests`, without empty cells, in order.
    """
    if not 1 <= per_octave <= BUCKETS_PER_OCTAVE or BUCKETS_PER_OCTAVE % per_octave:
        raise ValueError(f"per_octave is {per_octave}: it is 1, 2, 4, 8, 16 or 32")
    known = rows.collect_schema()
    if histogram is None and "latency_ns" in known:
        elements, is_windows = _of_requests(rows, known), False
    else:
        elements, is_windows = _of_histograms(rows, known, histogram), True
    elements = elements.with_columns(_in_utc("time", elements.collect_schema()))
    found = elements.group_by("time", "level", "bucket").agg(pl.sum("count")).collect()
    if found.is_empty():
        raise ValueError("no latencies to plot: no row has a histogram with requests, or a latency")
    _check_levels(found)
    window = _step(found["time"], _length_ms(rows, known, found["time"]) if is_windows else 0, step, _MOST_COLUMNS)
    wide = BUCKETS_PER_OCTAVE // per_octave
    sums = found.group_by(pl.col("time").dt.truncate(window), pl.col("bucket") // wide).agg(requests=pl.sum("count"))
    edge = pl.col("bucket").cast(pl.Float64)
    return sums.sort("time", "bucket").select(
        "time", lower_us=2.0 ** (edge / per_octave), upper_us=2.0 ** ((edge + 1) / per_octave), requests="requests"
    ), _duration(window)  # fmt: skip


def lines(rows: pl.LazyFrame, value: str, by: Optional[str], step: Optional[str]) -> pl.DataFrame:
    """A value over time: `time`, `line` and `value`, in order. The value is null where a line must break."""
    known = rows.collect_schema()
    _check_columns(known, "time", *([by] if by else []))
    line = pl.lit(value) if by is None else pl.col(by).cast(pl.String).fill_null("(unknown)")
    rows = rows.with_columns(_in_utc("time", known), line=line)
    share = re.fullmatch(r"((?:app_)?(?:read|write)_)?(p\d+)", value)
    if share and share[2] in SHARES:
        found, window = _percentiles(rows, known, share[1] or "", SHARES[share[2]], step)
    elif value in RATES:
        found, window = _rates(rows, known, value, step)
    else:
        raise ValueError(f"no line of {value}: there is {', '.join(RATES)}, and percentiles such as read_p99 or write_p50")
    found = found.drop_nulls("value")
    if found.is_empty():
        raise ValueError(f"no {value} to plot: it is null in all rows, or there are none")
    if (count := found["line"].n_unique()) > _MOST_LINES:
        raise ValueError(f"{by} has {count} values: filter the rows to at most {_MOST_LINES}")
    # A missing window is no request, or was not recorded. A line across it would say something else.
    after = found.sort("line", "time").with_columns(pl.col("time").dt.offset_by(window), next=pl.col("time").shift(-1).over("line"))
    breaks = after.filter(pl.col("next") > pl.col("time")).select("time", "line", value=pl.lit(None, pl.Float64))
    return pl.concat([found, breaks]).sort("line", "time")


def _of_requests(rows: pl.LazyFrame, known: pl.Schema) -> pl.LazyFrame:
    """Each request, as an element of a histogram."""
    _check_columns(known, "end_time")
    if "piece" in known:
        # A piece is a part of a request that has a row already.
        rows = rows.filter(pl.col("piece").not_().fill_null(True))
    us = pl.max_horizontal(pl.col("latency_ns"), 1) / 1000
    bucket = (us.log(2) * BUCKETS_PER_OCTAVE).ceil().cast(pl.Int32) - 1
    # A negative latency is unknown.
    timed = rows.filter(pl.col("latency_ns") >= 0)
    return timed.select(pl.col("end_time").alias("time"), bucket.alias("bucket"), pl.lit(1, pl.Int64).alias("count"), _level(known))


def _of_histograms(rows: pl.LazyFrame, known: pl.Schema, histogram: Optional[str]) -> pl.LazyFrame:
    """The elements of histograms."""
    usual = [name for name in ("read_latency_hist", "write_latency_hist", "execute_hist") if name in known]
    names = usual if histogram is None else [histogram]
    if not names:
        raise ValueError("the rows have no histogram, such as read_latency_hist: keep one in `group_by(...).agg(...)` with `trackiops.merge`")
    _check_columns(known, "time", *names)
    parts = [rows.select("time", _level(known), pl.col(name).cast(_KIND).alias("element")) for name in names]
    elements = pl.concat(parts).explode("element", empty_as_null=False).drop_nulls("element").unnest("element")
    return elements.filter(pl.col("count") > 0)


def _percentiles(rows: pl.LazyFrame, known: pl.Schema, side: str, share: float, step: Optional[str]) -> tuple[pl.DataFrame, str]:
    histogram, longest = (f"{side}latency_hist", f"{side}latency_us_max") if side else ("execute_hist", "execute_us_max")
    _check_columns(known, histogram)
    most = pl.col(longest) if longest in known else pl.lit(None, pl.Int64)
    rows = rows.with_columns(_level(known), histogram=pl.col(histogram).cast(_KIND), most=most).filter(pl.col("histogram").list.len() > 0)
    found = rows.select("time", "level").unique().collect()
    _check_levels(found)
    window = _step(found["time"], _length_ms(rows, known, found["time"]), step, _MOST_POINTS)
    us = percentile("histogram", share)
    # The middle of a bucket may be above the longest latency. A longest latency of 0 is unknown.
    at_most = pl.min_horizontal(us, pl.when(pl.col("most") > 0).then("most"))
    merged = rows.group_by(pl.col("time").dt.truncate(window), "line").agg(merge("histogram"), pl.max("most"))
    return merged.select("time", "line", value=pl.when(us.is_not_null()).then(at_most).cast(pl.Float64)).collect(), window


def _rates(rows: pl.LazyFrame, known: pl.Schema, value: str, step: Optional[str]) -> tuple[pl.DataFrame, str]:
    if value not in known:
        raise ValueError(f"the rows have no column {value}: plot those of `Stores.throughput`")
    if step is not None:
        raise ValueError(f"{value} of several windows does not add up: give the step to `Stores.throughput`")
    # The sum of no rates is null, as in SQL.
    total = pl.when(pl.col(value).count() > 0).then(pl.sum(value)).cast(pl.Float64).alias("value")
    sums = rows.group_by("time", "line").agg(total).collect()
    return sums, _step(sums["time"], _length_ms(rows, known, sums["time"]), None, None)


def _in_utc(name: str, known: pl.Schema) -> pl.Expr:
    """A column of times, which another program may have put into another time zone, or into none."""
    kind = known[name]
    if not isinstance(kind, pl.Datetime):
        raise ValueError(f"the column {name} has no times: it is {kind}")
    return pl.col(name).dt.convert_time_zone("UTC") if kind.time_zone else pl.col(name).dt.replace_time_zone("UTC")


def _level(known: pl.Schema) -> pl.Expr:
    # Windows of the wire have no name of their level.
    level = pl.col("level") if "level" in known else pl.lit(None, pl.String)
    return level.cast(pl.String).fill_null("wire").alias("level")


def _check_levels(rows: pl.DataFrame) -> None:
    levels = sorted(rows["level"].unique())
    if len(levels) > 1:
        raise ValueError(f"the rows are of the levels {', '.join(levels)}, which are never added up: filter by `level`")


def _check_columns(known: pl.Schema, *names: str) -> None:
    for name in names:
        if name not in known:
            raise ValueError(f"the rows have no column {name}: keep it in `select` or `group_by`")


def _length_ms(rows: pl.LazyFrame, known: pl.Schema, times: pl.Series) -> int:
    """The length of windows, by what names it, else by the shortest time between two, else 1 s."""
    # Exports and answers of `Stores.throughput` do not name it.
    if "granularity" in known:
        named = rows.select(pl.col("granularity").unique()).collect().to_series().drop_nulls().to_list()
        if len(named) == 1 and (found := re.fullmatch(r"(\d+)(ms|s|m|h|d)", named[0])):
            return int(found[1]) * {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}[found[2]]
    between = times.unique().sort().diff().drop_nulls().dt.total_milliseconds()
    return min(between.to_list(), default=1000)


def _step(times: pl.Series, length_ms: int, step: Optional[str], most: Optional[int]) -> str:
    """The length of a plot's windows: the given one, else the shortest that makes few enough windows."""
    if step is not None:
        if not re.fullmatch(r"([1-9]\d*(ns|us|ms|s|m|h|d|w))+", step):
            raise ValueError(f"step {step} is not a length of time, such as 10s or 1m")
        return step
    if most is None:
        return f"{length_ms}ms"
    range_ms = pl.DataFrame({"time": times}).select((pl.max("time") - pl.min("time")).dt.total_milliseconds()).item() or 0
    fitting = (ms for ms in _STEPS_MS if range_ms / ms < most and (not length_ms or ms % length_ms == 0))
    return f"{next(fitting, max(_STEPS_MS[-1], length_ms))}ms"


def _duration(step: str) -> timedelta:
    start = pl.Series([0]).cast(pl.Datetime("us"))
    length: timedelta = (start.dt.offset_by(step) - start).item()
    return length
