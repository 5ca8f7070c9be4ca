"""Expressions of Polars."""

from __future__ import annotations

from typing import Union

import polars as pl

Column = Union[str, pl.Expr]


def mean(us_sum: Column, requests: Column, untimed: Column) -> pl.Expr:
    """A mean time in us: a sum of times over the requests that have one.

    Args:
        us_sum: a sum of times, us, such as `pl.sum("read_latency_us_sum")`. Each argument is an expression or the name of a column.
        requests: the number of requests.
        untimed: how many of them have no time.

    Returns:
        An expression of one float for each row or group. Null without timed requests.

    Example:
        trackiops.mean(pl.sum("read_latency_us_sum"), pl.sum("read_requests"), pl.sum("read_untimed"))
    """
    timed = column(requests) - column(untimed)
    return column(us_sum) / pl.when(timed > 0).then(timed)


def rate(amount: Column, covered_ms: Column) -> pl.Expr:
    """Requests or bytes per second of the time that was recorded.

    Args:
        amount: requests or bytes, as an expression or the name of a column.
        covered_ms: how much of the window was recorded, ms, as `Stores.covered` has it.

    Returns:
        An expression of one float for each row or group. Null if nothing was recorded.

    Example:
        trackiops.rate(pl.sum("read_bytes"), pl.first("covered_ms"))
    """
    covered = column(covered_ms)
    return column(amount) * 1000.0 / pl.when(covered > 0).then(covered)


def column(named: Column) -> pl.Expr:
    """The column of a name."""
    return pl.col(named) if isinstance(named, str) else named
