"""Expressions of Polars."""

from __future__ import annotations

from typing import Union

import polars as pl

Column = Union[str, pl.Expr]


def mean(us_sum: Column, requests: Column, untimed: Column) -> pl.Expr:
    """The mean in us: a sum of times over the requests that have one. Null without any.

        trackiops.mean(pl.sum("read_latency_us_sum"), pl.sum("read_requests"), pl.sum("read_untimed"))
    """
    timed = column(requests) - column(untimed)
    return column(us_sum) / pl.when(timed > 0).then(timed)


def rate(amount: Column, covered_ms: Column) -> pl.Expr:
    """Requests or bytes per second of the time that was recorded. Null if none was.

        trackiops.rate("read_bytes", "covered_ms")
    """
    covered = column(covered_ms)
    return column(amount) * 1000.0 / pl.when(covered > 0).then(covered)


def column(named: Column) -> pl.Expr:
    """The column of a name."""
    return pl.col(named) if isinstance(named, str) else named
