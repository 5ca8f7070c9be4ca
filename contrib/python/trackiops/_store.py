"""Stores and exports."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Optional, Union

import polars as pl

from ._checksum import verify
from ._expressions import rate

StrPath = Union[str, "os.PathLike[str]"]

_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


# Levels that rows of windows have.
_LEVELS = ("wire", "block")

# A column that only this dataset has.
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
        if "=" not in str(self.path.absolute()):
            return pl.scan_parquet("/".join([_escaped(self.path), *parts, "date=*/*.parquet"]), hive_partitioning=True)
        # In a glob, a directory above the store such as `host=a` would replace the column of that name. In a directory, Polars takes
        # columns only from names below it. Segments that do not count are hidden.
        rows = pl.scan_parquet(self.path.joinpath(*parts), glob=False, hive_partitioning=True, hidden_file_prefix=".")
        length = [pl.lit(granularity).alias("granularity")] if granularity else []
        return rows.select(pl.exclude("date"), *length, "date")


class _Export:
    """A file that was exported: a dataset in one granularity, which it does not name."""

    def __init__(self, path: Path) -> None:
        self.path = path
        verify(path)
        try:
            columns = pl.read_parquet_schema(path)
        except pl.exceptions.PolarsError as error:
            raise ValueError(f"{path} is not Parquet that can be read: {error}; write it with `trackiops export --format parquet`") from error
        known = [dataset for dataset, column in _KNOWN_BY.items() if column in columns]
        if not known:
            raise ValueError(f"{path} is not an export of TrackIOps: it has none of the columns {', '.join(_KNOWN_BY.values())}")
        self.dataset = known[0]

    def scan(self) -> pl.LazyFrame:
        return pl.scan_parquet(self.path, glob=False, hive_partitioning=False)


class Stores:
    """One or several stores or exports, as `open` gives them.

    Its methods give LazyFrames, and read nothing but the names of directories. `collect()` reads the rows, and
    `collect().to_pandas()` is for pandas. Files that appear after the call are read as well.

    `time` is the begin of a window, in UTC. Rows of one file and window add up, so always aggregate. Rows of a store also have
    `granularity` and `date`: a filter by `date` skips files without opening them.
    """

    def __init__(self, stores: list[_Store], exports: list[_Export]) -> None:
        self._stores, self._exports = stores, exports

    def __repr__(self) -> str:
        return f"<trackiops.Stores {self._paths()}>"

    def _paths(self) -> str:
        return ", ".join(str(path) for path in (*(store.path for store in self._stores), *(export.path for export in self._exports)))

    def granularities(self, dataset: str = "rollup") -> list[str]:
        """The lengths of windows that every store with a dataset has, shortest first.

        Exports do not name theirs, and requests have no windows.

        Args:
            dataset: `rollup`, `ops`, `health` or `requests`.

        Returns:
            Lengths such as `["1s", "10s", "1m"]`. Empty without such rows.

        Raises:
            ValueError: there is no dataset of that name.
        """
        if dataset not in _KNOWN_BY:
            raise ValueError(f"no dataset {dataset}: there is {', '.join(_KNOWN_BY)}")
        there = [found for store in self._stores if (found := store.granularities(dataset))]
        common = set.intersection(*there) if there else set()
        return sorted(common - {""}, key=_length)

    def rollup(self, granularity: Optional[str] = None) -> pl.LazyFrame:
        """What files did: a row for each file, tenant, level and window.

        Rows of several levels are never added up. Filter by `level`, which is null for the wire.

        Args:
            granularity: the length of windows, such as `"1m"`. It may be omitted where there is one. An export has one.

        Returns:
            The columns of "Files in windows" in docs/reference/parquet.md.

        Raises:
            ValueError: there are no such rows, or several granularities and none is named.
        """
        return self._scan("rollup", granularity)

    def ops(self, granularity: Optional[str] = None) -> pl.LazyFrame:
        """Operations of the NFS protocol: a row for each operation, mount and window.

        Args:
            granularity: as for `rollup`.

        Returns:
            The columns of "Operations" in docs/reference/parquet.md.

        Raises:
            ValueError: as for `rollup`.
        """
        return self._scan("ops", granularity)

    def health(self, granularity: Optional[str] = None) -> pl.LazyFrame:
        """The recorder's own account: a row for each host and window, with what was recorded, lost and pending.

        Args:
            granularity: as for `rollup`.

        Returns:
            The columns of "Health" in docs/reference/parquet.md.

        Raises:
            ValueError: as for `rollup`.
        """
        return self._scan("health", granularity)

    def requests(self) -> pl.LazyFrame:
        """Single requests and calls, where they were kept (`trackiops record --requests`): a row for each.

        Filter by `level`: `app` and `user` are calls. To count requests, drop rows with `piece`.

        Returns:
            The columns of "Single requests" in docs/reference/parquet.md.

        Raises:
            ValueError: none were kept.
        """
        return self._scan("requests", "")

    def covered(self, granularity: str, step: Optional[str] = None) -> pl.LazyFrame:
        """How much of each window each host recorded.

        Args:
            granularity: the length of the windows that are read, such as `"1s"`.
            step: the length of the windows in the answer, a multiple of `granularity`, which is the default.

        Returns:
            `time`, `host`, `covered_ms` and `ops_covered_ms`, the last for operations. The rows have no order.

        Raises:
            ValueError: as for `rollup`, or `step` is not a multiple of `granularity`.
        """
        window = pl.col("time").dt.truncate(_step_of(granularity, step))
        return self.health(granularity).group_by(window, "host").agg(pl.sum("covered_ms", "ops_covered_ms"))

    def throughput(self, granularity: str, step: Optional[str] = None, *, level: str = "wire") -> pl.LazyFrame:
        """Requests and bytes per second of each host, file and window, by the time that was recorded.

        A file that was renamed in a window has a row for each name. Rates of several files in one window of one host add up.
        A file without reads and writes in a window has no row, as in `trackiops query`.

        Args:
            granularity: the length of the windows that are read, such as `"1s"`.
            step: the length of the windows in the answer, a multiple of `granularity`, which is the default.
            level: `wire`, or `block` for requests to block devices.

        Returns:
            `time`, `host`, `mount`, `path`, `file_key`, `covered_ms`, and per second `read_iops`, `read_throughput` (bytes),
            `write_iops` and `write_throughput` (bytes). Rates are null where less than 50 ms, or a twentieth of a window below
            1 s, was recorded. The rows have no order.

        Raises:
            ValueError: as for `rollup`, `step` is not a multiple of `granularity`, or there is no such level.
        """
        step = _step_of(granularity, step)
        if level not in _LEVELS:
            raise ValueError(f"no level {level} of windows: there is {', '.join(_LEVELS)}")
        # Only the wire has no name in the rows.
        of_level = pl.col("level").is_null() if level == "wire" else pl.col("level") == level
        window = pl.col("time").dt.truncate(step)
        sums = self.rollup(granularity).filter(of_level).group_by(window, "host", "mount", "path", "file_key").agg(
            pl.sum("read_requests", "read_bytes", "write_requests", "write_bytes")
        )  # fmt: skip
        # `trackiops query` also has no row for a file with only metadata operations.
        sums = sums.filter(pl.col("read_requests") + pl.col("write_requests") > 0)
        window_ms = (pl.col("time").dt.offset_by(step) - pl.col("time")).dt.total_milliseconds()
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
    """Opens a store, a directory with stores below it at any depth, a file of `trackiops export`, or several of them.

    A path that is named twice counts once. An export is read here, to verify its checksums.

    Args:
        store: a path, or several. Object storage is not read.

    Returns:
        The stores and exports; no file stays open.

    Raises:
        FileNotFoundError: there is no such path, or no store in a directory.
        ValueError: no path is given, or a file is damaged or is not an export in Parquet.

    Example:
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


def _stores(path: Path, *, in_store: bool = False) -> Iterator[Path]:
    """The stores in a directory, itself included, as deep as they are: one may stand in another's directory."""
    if any(any(path.glob(pattern)) for pattern in _IN_A_STORE):
        in_store = True
        yield path
    for below in sorted(path.iterdir()):
        if below.is_dir() and not below.is_symlink() and not (in_store and below.name.startswith(_PARTITIONS)):
            yield from _stores(below, in_store=in_store)


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
    """A length in ms."""
    digits = granularity.rstrip("".join(_MS))
    return int(digits) * _MS[granularity[len(digits) :]]


def _step_of(granularity: str, step: Optional[str]) -> str:
    """The length of windows to add up to. Parts of windows are not known."""
    # Months, and what Polars refuses, are left to Polars.
    if step and all(re.fullmatch(rf"[1-9][0-9]*({'|'.join(_MS)})", length) for length in (granularity, step)):
        if _length(step) % _length(granularity):
            raise ValueError(f"step {step} is not a multiple of {granularity}: windows of {granularity} cannot be divided")
    return step or granularity


def _escaped(path: Path) -> str:
    return "".join(f"[{c}]" if c in "*?[" else c for c in str(path))
