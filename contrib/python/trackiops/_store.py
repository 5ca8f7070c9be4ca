"""Stores and exports."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Optional, Union

import polars as pl

from ._checksum import verify
from ._expressions import rate

StrPath = Union[str, "os.PathLike[str]"]

_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


# A column that no other dataset has.
_KNOWN_BY = {"rollup": "read_latency_hist", "ops": "execute_hist", "health": "covered_ms", "requests": "end_time_ns"}


class _Store:
    """A store's directory."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def granularities(self, dataset: str) -> set[str]:
        """What there is of a dataset: lengths of windows; of requests, which have none, ""."""
        if dataset == "requests":
            return {""} if any(self.path.glob("requests/date=*/*.parquet")) else set()
        there = self.path.glob(f"{dataset}/granularity=*")
        return {d.name.partition("=")[2] for d in there if any(d.glob("date=*/*.parquet"))}

    def scan(self, dataset: str, granularity: str) -> pl.LazyFrame:
        parts = [dataset, f"granularity={granularity}"] if granularity else [dataset]
        # Polars lists the files when it collects the rows.
        files = "/".join([_escaped(self.path), *parts, "date=*/*.parquet"])
        return pl.scan_parquet(files, hive_partitioning=True)


class _Export:
    """A file that was exported: a dataset in one granularity, which it does not name."""

    def __init__(self, path: Path) -> None:
        self.path = path
        verify(path)
        columns = pl.read_parquet_schema(path)
        known = [dataset for dataset, column in _KNOWN_BY.items() if column in columns]
        if not known:
            raise ValueError(f"{path} is not an export of TrackIOps: it has none of the columns {', '.join(_KNOWN_BY.values())}")
        self.dataset = known[0]

    def scan(self) -> pl.LazyFrame:
        return pl.scan_parquet(self.path, glob=False, hive_partitioning=False)


class Stores:
    """One or several stores or exports. What it gives are LazyFrames: `collect()` reads, `collect().to_pandas()` is for pandas."""

    def __init__(self, stores: list[_Store], exports: list[_Export]) -> None:
        self._stores, self._exports = stores, exports

    def __repr__(self) -> str:
        return f"<trackiops.Stores {self._paths()}>"

    def _paths(self) -> str:
        return ", ".join(str(source.path) for source in (*self._stores, *self._exports))

    def granularities(self, dataset: str = "rollup") -> list[str]:
        """The lengths of windows that every store with this dataset has, shortest first. Exports do not name theirs."""
        there = [found for store in self._stores if (found := store.granularities(dataset))]
        common = set.intersection(*there) if there else set()
        return sorted(common - {""}, key=_length)

    def rollup(self, granularity: Optional[str] = None) -> pl.LazyFrame:
        """What files did, in windows of a length such as "1m", which may be left out where there is one. Exports have the one they have."""
        return self._scan("rollup", granularity)

    def ops(self, granularity: Optional[str] = None) -> pl.LazyFrame:
        """Operations of the NFS protocol by mount."""
        return self._scan("ops", granularity)

    def health(self, granularity: Optional[str] = None) -> pl.LazyFrame:
        """The recorder's own account: what was recorded when, what was lost, what was pending."""
        return self._scan("health", granularity)

    def requests(self) -> pl.LazyFrame:
        """Single requests, where they were recorded (`trackiops record --requests`), of all levels: filter by `level`; `app` and `user` are calls."""
        return self._scan("requests", "")

    def covered(self, granularity: str, step: Optional[str] = None) -> pl.LazyFrame:
        """How much of each window each host recorded, ms; of windows of another length with `step`."""
        window = pl.col("time").dt.truncate(step or granularity)
        return self.health(granularity).group_by(window, "host").agg(pl.sum("covered_ms", "ops_covered_ms"))

    def throughput(self, granularity: str, step: Optional[str] = None) -> pl.LazyFrame:
        """Requests and bytes per second of each host, file and window, by the time that was recorded: null where that is less than
        50 ms, or a twentieth of a window below 1 s, as in `trackiops query`.

        A file that was renamed in a window has a row for each name. Rates of several files in one window of one host add up.
        """
        window = pl.col("time").dt.truncate(step or granularity)
        sums = self.rollup(granularity).group_by(window, "host", "mount", "path", "file_key").agg(
            pl.sum("read_requests", "read_bytes", "write_requests", "write_bytes")
        )
        # `trackiops query` has no row of a file with metadata operations alone, either.
        sums = sums.filter(pl.col("read_requests") + pl.col("write_requests") > 0)
        window_ms = (pl.col("time").dt.offset_by(step or granularity) - pl.col("time")).dt.total_milliseconds()
        rate_ms = pl.when(pl.col("covered_ms") >= pl.min_horizontal(window_ms / 20, 50)).then("covered_ms")
        return sums.join(self.covered(granularity, step), on=["time", "host"], how="left").select(
            "time", "host", "mount", "path", "file_key", "covered_ms",
            read_iops=rate("read_requests", rate_ms), read_throughput=rate("read_bytes", rate_ms),
            write_iops=rate("write_requests", rate_ms), write_throughput=rate("write_bytes", rate_ms),
        )  # fmt: skip

    def _scan(self, dataset: str, granularity: Optional[str]) -> pl.LazyFrame:
        there = {store: found for store in self._stores if (found := store.granularities(dataset))}
        frames = [export.scan() for export in self._exports if export.dataset == dataset]
        if not there and not frames:
            raise ValueError(f"no {dataset} in {self._paths()}{_why(dataset)}")
        if granularity is None:
            common = self.granularities(dataset)
            if len(common) > 1:
                raise ValueError(f"name a granularity of {dataset}: there is {', '.join(common)}")
            granularity = common[0] if common else "common granularity"
        for store, found in there.items():
            if granularity not in found:
                raise ValueError(f"no {dataset} of {granularity} in {store.path}: it has {', '.join(sorted(found, key=_length))}")
            frames.append(store.scan(dataset, granularity))
        # Directories add the date as a column; exports do not.
        return frames[0] if len(frames) == 1 else pl.concat(frames, how="diagonal")


def open(store: Union[StrPath, Iterable[StrPath]]) -> Stores:
    """Opens a store, a directory with stores below it, a file of `trackiops export`, or several of them.

        trackiops.open("/var/lib/trackiops").rollup("1m")
        trackiops.open(["rollup.parquet", "health.parquet"]).throughput("1s")
    """
    named = [store] if isinstance(store, (str, os.PathLike)) else store
    # A path that is named twice counts once.
    paths = {path.resolve(): path for path in map(Path, named)}
    if not paths:
        raise ValueError("no store is named")
    stores: dict[Path, _Store] = {}
    exports = []
    for path in paths.values():
        if path.is_file():
            exports.append(_Export(path))
        elif path.is_dir():
            below = {store.resolve(): _Store(store) for store in _stores(path)}
            if not below:
                raise FileNotFoundError(f"no store in {path}: neither it nor a directory below has a catalog.db, a journal or Parquet of a store")
            stores |= below
        else:
            raise FileNotFoundError(f"no such store: {path}")
    return Stores(list(stores.values()), exports)


# Any of these makes a directory a store. A name such as `ops` does not: a directory of stores may also be called that.
_IN_A_STORE = ("catalog.db", "journal/*.tij", *(f"{dataset}/granularity=*/date=*" for dataset in ("rollup", "ops", "health")), "requests/date=*")


def _stores(path: Path) -> Iterator[Path]:
    """The stores in a directory, itself included, as deep as they are: one may stand in another's directory."""
    if any(any(path.glob(pattern)) for pattern in _IN_A_STORE):
        yield path
    for below in sorted(path.iterdir()):
        if below.is_dir() and not below.is_symlink() and not below.name.startswith(_PARTITIONS):
            yield from _stores(below)


# Directories of a store that contain only Parquet files.
_PARTITIONS = ("granularity=", "date=")


def _why(dataset: str) -> str:
    match dataset:
        case "requests":
            return ": they are recorded with `trackiops record --requests`"
        case "ops":
            return ": they are not recorded with --no-ops or a filter"
    return " yet: a recorder writes Parquet at its first rotation, `trackiops query` reads the journal as well"


def _length(granularity: str) -> int:
    digits = granularity.rstrip("".join(_MS))
    return int(digits) * _MS[granularity[len(digits) :]]


def _escaped(path: Path) -> str:
    return "".join(f"[{c}]" if c in "*?[" else c for c in str(path))
