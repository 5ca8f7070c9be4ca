"""Draws rows of `_series` with Altair or matplotlib."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from importlib import import_module
from typing import Any, Optional

import polars as pl

_LIBRARIES = {"altair": "pip install 'trackiops[plots]'", "matplotlib": "pip install matplotlib"}
_WIDTH_PX, _HEIGHT_PX = 720, 240


def chosen(engine: Optional[str]) -> str:
    """The library to draw with: the one that is asked for, else the first that is installed."""
    if engine is not None and engine not in _LIBRARIES:
        raise ValueError(f"no engine {engine}: there is {', '.join(_LIBRARIES)}")
    names = [engine] if engine else list(_LIBRARIES)
    for name in names:
        try:
            import_module(name)
        except ImportError as error:
            missing = error
        else:
            return name
    ways = ", or ".join(f"`{_LIBRARIES[name]}`" for name in names)
    raise ImportError(f"plots need {' or '.join(names)}: run {ways}", name=names[0]) from missing


def heatmap(engine: str, cells: pl.DataFrame, window: timedelta, title: str) -> Any:
    return {"altair": _heatmap_altair, "matplotlib": _heatmap_matplotlib}[engine](cells, window, title)


def line(engine: str, points: pl.DataFrame, value: str, by: Optional[str]) -> Any:
    return {"altair": _line_altair, "matplotlib": _line_matplotlib}[engine](points, value, by)


def _is_latency(value: str) -> bool:
    return not value.endswith(("iops", "throughput"))


def _title(value: str) -> str:
    return {"iops": "requests per second", "throughput": "bytes per second"}.get(value.rpartition("_")[2], "latency")


# Expressions of Vega, for a moment and for a number of us. Vega's own labels have 12 hours.
_MOMENT_LABEL = (
    "utcFormat(datum.value, utcseconds(datum.value) ? '%H:%M:%S' : "
    "utchours(datum.value) || utcminutes(datum.value) ? '%H:%M' : '%b %d')"
)
_TIME_LABEL = (
    "datum.value < 1000 ? format(datum.value, '~g') + ' us' : "
    "datum.value < 1000000 ? format(datum.value / 1000, '~g') + ' ms' : format(datum.value / 1000000, '~g') + ' s'"
)


def _time_label(us: float, _place: object = None) -> str:
    for divisor, unit in ((1e6, "s"), (1e3, "ms")):
        if us >= divisor:
            return f"{us / divisor:g} {unit}"
    return f"{us:.3g} us"


def _altair_data(rows: pl.DataFrame) -> Any:
    import altair as alt

    # Rows go into the chart as they are: data frames have a limit of 5000 rows. Times are ms since 1970, which no time zone changes.
    # Tooltips would show times of the reader's time zone, so they show text.
    times = [name for name in ("time", "until") if name in rows.columns]
    rows = rows.with_columns(pl.col(times).dt.epoch("ms"), moment=pl.col("time").dt.to_string("%Y-%m-%d %H:%M:%S"))
    return alt.InlineData(values=rows.to_dicts())


def _altair_times(first: datetime) -> Any:
    import altair as alt

    title = f"time (UTC) from {first:%Y-%m-%d %H:%M:%S}"
    return alt.X("time:T", title=title, scale=alt.Scale(type="utc"), axis=alt.Axis(labelExpr=_MOMENT_LABEL))


def _heatmap_altair(cells: pl.DataFrame, window: timedelta, title: str) -> Any:
    import altair as alt

    most = max(2, int(cells["requests"].max() or 0))  # type: ignore[arg-type]
    latency = alt.Axis(labelExpr=_TIME_LABEL)
    return (
        alt.Chart(_altair_data(cells.with_columns(until=pl.col("time") + window)), title=title)
        .mark_rect()
        .encode(
            x=_altair_times(cells["time"][0]),
            x2=alt.X2("until:T"),
            y=alt.Y("lower_us:Q", title="latency", scale=alt.Scale(type="log", nice=False), axis=latency),
            y2=alt.Y2("upper_us:Q"),
            color=alt.Color("requests:Q", scale=alt.Scale(type="log", domain=[1, most], scheme="viridis", reverse=True)),
            tooltip=[
                alt.Tooltip("moment:N", title="from"),
                alt.Tooltip("lower_us:Q", title="above, us", format=".4~g"),
                alt.Tooltip("upper_us:Q", title="up to, us", format=".4~g"),
                alt.Tooltip("requests:Q", format=","),
            ],
        )
        .properties(width=_WIDTH_PX, height=_HEIGHT_PX)
    )


def _line_altair(points: pl.DataFrame, value: str, by: Optional[str]) -> Any:
    import altair as alt

    scale, axis = (alt.Scale(type="log"), alt.Axis(labelExpr=_TIME_LABEL)) if _is_latency(value) else (alt.Scale(zero=True), alt.Axis(format="~s"))
    colour = alt.Color("line:N", title=by, scale=alt.Scale(scheme="tableau20")) if by else alt.Color()
    return (
        alt.Chart(_altair_data(points), title=value)
        .mark_line(point=alt.OverlayMarkDef(size=12))
        .encode(
            x=_altair_times(points.select(pl.min("time")).item()),
            y=alt.Y("value:Q", title=_title(value), scale=scale, axis=axis),
            color=colour,
            tooltip=[alt.Tooltip("moment:N", title="from"), alt.Tooltip("value:Q", title=_title(value), format=",.6~g")],
        )
        .properties(width=_WIDTH_PX, height=_HEIGHT_PX)
    )


def _matplotlib_axes(title: str, latency: bool) -> tuple[Any, Any]:
    from matplotlib import dates, pyplot, ticker

    figure, axes = pyplot.subplots(figsize=(_WIDTH_PX / 80, _HEIGHT_PX / 60), layout="constrained")
    locator = dates.AutoDateLocator(tz=timezone.utc)
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator, tz=timezone.utc))
    axes.set_title(title)
    axes.set_xlabel("time (UTC)")
    if latency:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter(ticker.FuncFormatter(_time_label))
        axes.yaxis.set_minor_formatter(ticker.NullFormatter())
    return figure, axes


def _days(times: pl.Series) -> Any:
    """Times as matplotlib has them."""
    from matplotlib import dates

    epoch = datetime(1970, 1, 1, tzinfo=timezone.utc)
    return times.dt.epoch("us").to_numpy() / 86_400e6 + float(dates.date2num(epoch))


def _heatmap_matplotlib(cells: pl.DataFrame, window: timedelta, title: str) -> Any:
    import numpy as np
    from matplotlib import ticker
    from matplotlib.collections import PolyCollection
    from matplotlib.colors import LogNorm

    figure, axes = _matplotlib_axes(title, latency=True)
    left, right = _days(cells["time"]), _days(cells["time"] + window)
    low, high = cells["lower_us"].to_numpy(), cells["upper_us"].to_numpy()
    corners: Any = np.stack([np.stack(pair, axis=1) for pair in ((left, low), (right, low), (right, high), (left, high))], axis=1)
    most = max(2, int(cells["requests"].max() or 0))  # type: ignore[arg-type]
    drawn = PolyCollection(corners, array=cells["requests"].to_numpy(), cmap="viridis_r", norm=LogNorm(1, most))
    axes.add_collection(drawn)
    axes.set_xlim(left.min(), right.max())
    axes.set_ylim(low.min(), high.max())
    axes.set_ylabel("latency")
    numbers = ticker.FuncFormatter(lambda count, _place: f"{count:,.0f}")
    bar = figure.colorbar(drawn, ax=axes, label="requests", ticks=ticker.LogLocator(subs=(1, 2, 5)), format=numbers)
    bar.minorticks_off()
    return axes


def _line_matplotlib(points: pl.DataFrame, value: str, by: Optional[str]) -> Any:
    from matplotlib import ticker

    _, axes = _matplotlib_axes(value, _is_latency(value))
    for part in points.partition_by("line", maintain_order=True):
        # A value that is not there breaks the line.
        numbers = part["value"].fill_null(float("nan")).to_numpy()
        axes.plot(_days(part["time"]), numbers, marker=".", markersize=4, linewidth=1, label=part["line"][0])
    if not _is_latency(value):
        axes.set_ylim(bottom=0)
        axes.yaxis.set_major_formatter(ticker.EngFormatter())
    axes.set_ylabel(_title(value))
    if by:
        axes.legend(title=by, fontsize="small")
    return axes
