"""Histograms: of Polars, and as pandas and plain Python have them, lists of `{"bucket": ..., "count": ...}`."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Optional, Union

import polars as pl

from ._expressions import Column, column

Histogram = Iterable[Mapping[str, int]]

# The end of a bucket is 2 ** (1 / 32) times its beginning.
BUCKETS_PER_OCTAVE = 32


def percentile(histogram: Column, q: float) -> pl.Expr:
    """The latency in us that a share of the requests in each histogram does not exceed.

    It is the geometric middle of the bucket that has the request of that rank, at most 1.1 % off, or 7.5 % in
    histograms of calls (`app_...`). `trackiops query` answers the same, and the longest latency where the middle is above it:
    `pl.min_horizontal(..., pl.max("read_latency_us_max"))`.

    Args:
        histogram: a list of `bucket` and `count` in each row, in any order, as an expression or the name of a column.
        q: the share, from 0 to 1, such as 0.99.

    Returns:
        An expression of one float for each row. Null without requests.

    Raises:
        ValueError: `q` is not a share.

    Example:
        rows.select("time", trackiops.percentile("read_latency_hist", 0.99))
    """
    ordered = pl.element().sort_by(pl.element().struct.field("bucket"))
    bucket, count = ordered.struct.field("bucket"), ordered.struct.field("count")
    rank = (_checked(q) * count.sum()).ceil().clip(1)
    first = bucket.filter(count.cum_sum() >= rank).first()
    return column(histogram).list.eval(2.0 ** ((first + 0.5) / BUCKETS_PER_OCTAVE)).list.first()


def merge(histogram: Column) -> pl.Expr:
    """The sum of histograms: an aggregate, for `group_by(...).agg(...)` and `select(...)`.

    Args:
        histogram: a list of `bucket` and `count` in each row, in any order, as an expression or the name of a column.

    Returns:
        An expression of one histogram for each group, with the name of the column, ordered by bucket. Empty without requests.

    Example:
        rows.group_by("path").agg(trackiops.percentile(trackiops.merge("read_latency_hist"), 0.99))
    """
    # What an empty histogram becomes differs between versions of Polars, which warn. Either way it has no element.
    elements = column(histogram).explode(empty_as_null=False).drop_nulls()
    bucket = elements.struct.field("bucket")
    elements = elements.sort_by(bucket)
    bucket, below = elements.struct.field("bucket"), elements.struct.field("count").cum_sum()
    # The last row of each bucket has the sum up to there.
    is_last = bucket.ne_missing(bucket.shift(-1))
    bucket, below = bucket.filter(is_last), below.filter(is_last)
    counts = below - below.shift(1, fill_value=0)
    name = column(histogram).meta.output_name(raise_if_undetermined=False) or "histogram"
    return pl.struct(bucket.alias("bucket"), counts.alias("count")).implode().alias(name)


def hist_percentile(histogram: Any, q: float) -> Any:
    """The latency in us that a share of the requests in a histogram does not exceed, for pandas and plain Python.

    See `percentile` for its exactness.

    Args:
        histogram: an iterable of `{"bucket": ..., "count": ...}`, `None`, or a Series of histograms, of pandas or Polars.
        q: the share, from 0 to 1, such as 0.99.

    Returns:
        A float, or `None` without requests. For a Series a Series of floats, with NaN (pandas) or null (Polars) without requests.

    Raises:
        ValueError: `q` is not a share.

    Example:
        trackiops.hist_percentile(frame.read_latency_hist, 0.99)
    """
    _checked(q)
    if isinstance(histogram, pl.Series) and isinstance(histogram.dtype, pl.List):
        return histogram.to_frame().select(percentile(pl.all(), q)).to_series()
    if callable(getattr(histogram, "map", None)):  # a Series of pandas, which need not be there
        return histogram.map(lambda one: _percentile(one, q)).astype(float)
    return _percentile(histogram, q)


def hist_merge(histograms: Iterable[Optional[Histogram]]) -> list[dict[str, int]]:
    """The sum of histograms, for pandas and plain Python.

    Args:
        histograms: an iterable of histograms, such as a Series. Missing ones (`None`, NaN) count as empty.

    Returns:
        A list of `{"bucket": ..., "count": ...}`, ordered by bucket. Empty without requests.

    Example:
        frame.groupby("path").read_latency_hist.agg(trackiops.hist_merge)
    """
    counts: Counter[int] = Counter()
    for histogram in histograms:
        counts.update(_counts(histogram))
    return [{"bucket": bucket, "count": count} for bucket, count in sorted(counts.items())]


def _percentile(histogram: Optional[Histogram], q: float) -> Optional[float]:
    counts = _counts(histogram)
    rank = max(1, math.ceil(q * counts.total()))
    below = 0
    for bucket, count in sorted(counts.items()):
        below += count
        if below >= rank:
            return math.pow(2.0, (bucket + 0.5) / BUCKETS_PER_OCTAVE)
    return None


def _counts(histogram: Optional[Histogram]) -> Counter[int]:
    counts: Counter[int] = Counter()
    # pandas represents missing values as NaN.
    if histogram is not None and not isinstance(histogram, float):
        for element in histogram:
            counts[int(element["bucket"])] += int(element["count"])
    return counts


def _checked(q: float) -> float:
    """The share that a percentile is of."""
    if not 0 <= q <= 1:
        raise ValueError(f"q is {q}: it is a share from 0 to 1, such as 0.99")
    return float(q)
