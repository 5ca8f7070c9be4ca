"""Reads stores and exports of TrackIOps with Polars and pandas.

    import polars as pl, trackiops
    store = trackiops.open("/var/lib/trackiops")
    store.rollup("1m").group_by("path").agg(pl.sum("read_bytes")).collect()

Rows of one file and window add up, so always aggregate. Windows that are still in the journal of a store are not in its Parquet
yet: `trackiops query` and `trackiops export` have them.
"""

from ._expressions import mean, rate
from ._histogram import hist_merge, hist_percentile, merge, percentile
from ._store import Stores, open

__all__ = ["Stores", "hist_merge", "hist_percentile", "mean", "merge", "open", "percentile", "rate"]
