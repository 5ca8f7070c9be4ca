"""Reads stores and exports of TrackIOps with Polars and pandas.

    import polars as pl, trackiops
    store = trackiops.open("/var/lib/trackiops")
    store.rollup("1m").group_by("path").agg(pl.sum("read_bytes")).collect()

Rows of one file and window add up, so always aggregate. Windows that are still in the journal of a store are not in its Parquet
yet: `trackiops query` and `trackiops export` have them.
"""

from importlib.metadata import PackageNotFoundError, version

from ._expressions import mean, rate
from ._histogram import hist_merge, hist_percentile, merge, percentile
from ._plots import Plots
from ._store import Stores, open

try:
    __version__ = version("trackiops")
except PackageNotFoundError:
    # Imported from its sources, which have the version in pyproject.toml.
    __version__ = "0+uninstalled"

__all__ = ["Plots", "Stores", "__version__", "hist_merge", "hist_percentile", "mean", "merge", "open", "percentile", "rate"]
