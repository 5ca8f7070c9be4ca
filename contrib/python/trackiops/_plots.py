"""Plots of a DataFrame or LazyFrame of Polars: `df.trackiops`."""

from __future__ import annotations

from typing import Any, Optional, Union

import polars as pl

from . import _draw, _series


@pl.api.register_lazyframe_namespace("trackiops")
@pl.api.register_dataframe_namespace("trackiops")
class Plots:
    """Plots of the rows of a DataFrame or LazyFrame of Polars, as `df.trackiops`.

    Importing `trackiops` adds it to both. `trackiops.Plots(df)` is the same, and is known to type checkers.

    Plots are drawn by Altair if it is installed, else by matplotlib. Altair gives an `altair.Chart`, which notebooks show and
    `save("plot.html")` writes. Matplotlib gives an `Axes`, which notebooks show and `figure.savefig("plot.png")` writes.

    Times are in UTC. Of a LazyFrame only the columns that a plot needs are read.
    """

    def __init__(self, frame: Union[pl.DataFrame, pl.LazyFrame]) -> None:
        self._rows = frame.lazy()

    def heatmap(
        self, histogram: Optional[str] = None, *, step: Optional[str] = None, per_octave: int = 4, engine: Optional[str] = None
    ) -> Any:
        """Requests by time and latency: a darker cell has more. Latencies are in logarithmic buckets.

        The rows are windows with histograms (`rollup`, `ops`, or sums of them by `time`) or single requests (`requests`).
        A blank cell has no requests, or was not recorded. Folded and untimed requests are in no histogram.

        Args:
            histogram: the column to plot, such as `"read_latency_hist"`. By default reads and writes add up; of `ops` it is
                `execute_hist`, and of single requests `latency_ns`.
            step: the length of a cell, such as `"10s"`. By default the shortest that makes at most 240. A window counts where
                it begins.
            per_octave: cells for each power of two of latency: 1, 2, 4, 8, 16 or 32. `trackiops query --plot` has 1.
            engine: `altair` or `matplotlib`.

        Returns:
            An `altair.Chart` or a `matplotlib.axes.Axes`.

        Raises:
            ValueError: the rows have no such column, no latencies, or several levels; or an argument is wrong.
            ImportError: the library is not installed.

        Example:
            rows = store.rollup("1s").filter(pl.col("path") == "/mnt/nfs/db/orders.db")
            rows.trackiops.heatmap("read_latency_hist")
        """
        engine = _draw.chosen(engine)
        cells, window = _series.cells(self._rows, histogram, step, per_octave)
        return _draw.heatmap(engine, cells, window, histogram or "latency")

    def line(self, value: str, *, by: Optional[str] = None, step: Optional[str] = None, engine: Optional[str] = None) -> Any:
        """A rate or a percentile over time, which breaks where a window has no row.

        Args:
            value: `read_iops`, `read_throughput`, `write_iops` or `write_throughput`, for rows of `Stores.throughput`. Or a
                percentile (p50, p90, p99, p999) such as `read_p99`, `write_p50` or `app_read_p99` for rows of `rollup`, or
                `p99` for rows of `ops`.
            by: a column with at most 20 values, such as `"path"`: a line for each. Without it all rows add up.
            step: the length of a window of percentiles. By default the shortest that makes at most 2000. Rates do not add up
                over time: give their step to `Stores.throughput`.
            engine: `altair` or `matplotlib`.

        Returns:
            An `altair.Chart` or a `matplotlib.axes.Axes`. Latencies are in us, on a logarithmic axis.

        Raises:
            ValueError: the rows have no such column, no values, or several levels; or an argument is wrong.
            ImportError: the library is not installed.

        Example:
            store.throughput("1s", step="10s").trackiops.line("read_throughput", by="host")
            store.rollup("1m").filter(pl.col("level").is_null()).trackiops.line("read_p99")
        """
        engine = _draw.chosen(engine)
        return _draw.line(engine, _series.lines(self._rows, value, by, step), value, by)
