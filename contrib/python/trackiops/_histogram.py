"""Histograms: of Polars, and as pandas and plain Python have them, lists of `{"bucket": ..., "count": ...}`."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Union

import polars as pl

from ._expressions import Column, column

Histogram = Iterable[Mapping[str, int]]

# The end of a bucket is 2 ** (1 / 32) times its beginning.
BUCKETS_PER_OCTAVE = 32


def percentile(histogram: Column, q: float) -> pl.Expr:
    """The latency in us that a share `q` of the requests in each histogram does not exceed.

    It is the geometric middle of the bucket that has the request of that rank, at most 1.1 % off, and what `trackiops query`
    answers. Null without requests.

        rows.select("time", trackiops.percentile("read_latency_hist", 0.99))
    """
    ordered = pl.element().sort_by(pl.element().struct.field("bucket"))
    bucket, count = ordered.struct.field("bucket"), ordered.struct.field("count")
    rank = (_checked(q) * count.sum()).ceil().clip(1)
    first = bucket.filter(count.cum_sum() >= rank).first()
    return column(histogram).list.eval(2.0 ** ((first + 0.5) / BUCKETS_PER_OCTAVE)).list.first()


def merge(histogram: Column) -> pl.Expr:
    """The sum of histograms: an aggregate.

        rows.group_by("path").agg(trackiops.percentile(trackiops.merge("read_latency_hist"), 0.99))
    """
    elements = column(histogram).explode().drop_nulls()
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
    """The latency in us that a share `q` of the requests in a histogram does not exceed.

    It is the geometric middle of the bucket that has the request of that rank, at most 1.1 % off, and what `trackiops query`
    answers. `None` without requests. For a Series of pandas or Polars it is a Series.
    """
    _checked(q)
    if isinstance(histogram, pl.Series) and isinstance(histogram.dtype, pl.List):
        return histogram.to_frame().select(percentile(pl.all(), q)).to_series()
    if callable(getattr(histogram, "map", None)):  # a Series of pandas, which need not be there
        return histogram.map(lambda one: _percentile(one, q)).astype(float)
    return _percentile(histogram, q)


def hist_merge(histograms: Iterable[Union[Histogram, None]]) -> list[dict[str, int]]:
    """The sum of histograms, such as a Series of them. It also is an aggregate: `groupby(...).agg(trackiops.hist_merge)`."""
    counts: Counter[int] = Counter()
    for histogram in histograms:
        counts.update(_counts(histogram))
    return [{"bucket": bucket, "count": count} for bucket, count in sorted(counts.items())]


def _percentile(histogram: Union[Histogram, None], q: float) -> Union[float, None]:
    counts = _counts(histogram)
    rank = max(1, math.ceil(q * counts.total()))
    below = 0
    for bucket, count in sorted(counts.items()):
        below += count
        if below >= rank:
            return 2.0 ** ((bucket + 0.5) / BUCKETS_PER_OCTAVE)
    return None


def _counts(histogram: Union[Histogram, None]) -> Counter[int]:
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
