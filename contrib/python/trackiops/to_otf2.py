"""Writes single requests as an OTF2 archive, the format of Vampir.

    trackiops export --requests --format parquet --output requests.parquet
    python -m trackiops.to_otf2 requests.parquet trace
    otf2-print trace/traces.otf2

* A location group is a process of a host. Where the process is unknown, the level stands for it.
* A location is a thread with its calls and functions. Other requests overlap, so a file has several locations.
* A region is an operation at a level, such as `block WRITE`, or a function. Reads, writes and syncs also have I/O records.
* An I/O paradigm is a level.

Requests and calls are read in batches. Functions (level `user`) are held in memory, with about 300 bytes each. A location
takes up to 256 KiB more.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from itertools import chain
from pathlib import Path
from typing import Optional

try:
    import _otf2
    import otf2
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq
except ImportError as error:
    message = f"{error}; run `pip install 'trackiops[otf2]'`"
    if __name__ == "__main__":
        sys.exit(f"to_otf2: {message}")
    # A program that imports this module may go on without it.
    raise ImportError(message, name=error.name) from error

from ._otf2_archive import Archive, Row

_BATCH_ROWS = 8192
_CHUNK_BYTES = 256 * 1024  # of each location; OTF2 takes no less
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_EXPORT = "write it with `trackiops export --requests --format parquet`"
_signals: list[int] = []  # that were received


class Problem(Exception):
    """What is wrong, with which thing, and the next step."""


def _batches(requests: Path, *, functions: bool) -> Iterator[Iterator[Row]]:
    """Either the rows of the level `user` or all others."""
    with pq.ParquetFile(requests) as file:
        there = file.schema_arrow.names
        columns = [name for name in Row._fields if name in there or name != "tid"]
        if missing := [name for name in columns if name not in there]:
            raise Problem(f"{requests} has no column {missing[0]}; {_EXPORT}")
        if file.metadata.num_rows == 0:
            raise Problem(f"{requests} has no requests; export another range, or record with `trackiops record --requests`")
        for batch in file.iter_batches(_BATCH_ROWS, columns=columns):
            if _signals:
                raise KeyboardInterrupt
            batch = batch.filter((pc.equal if functions else pc.not_equal)(batch["level"], "user"))
            yield map(Row, *(batch[name].to_pylist() for name in columns))


def _rows(requests: Path, *, functions: bool) -> Iterator[Row]:
    last_ns = 0
    try:
        for row in chain.from_iterable(_batches(requests, functions=functions)):
            if row.end_time_ns < last_ns:
                raise Problem(f"{requests} is not in order of end_time_ns; {_EXPORT}")
            last_ns = row.end_time_ns
            yield row
    except (OSError, pa.ArrowException) as error:
        raise Problem(f"{requests} cannot be read: {str(error).rstrip('.')}; {_EXPORT}") from None


def _marks(path: Path) -> list[tuple[int, str]]:
    marks = []
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        try:
            mark = json.loads(line)
            since = datetime.fromisoformat(mark["time"].replace("Z", "+00:00")) - _EPOCH
            marks.append((since // timedelta(microseconds=1) * 1000, f"{mark['host']}: {mark['text']}"))
        except (ValueError, KeyError, TypeError, AttributeError):
            raise Problem(f"{path}: line {number} is not a mark; write the file with `trackiops marks --json`") from None
    return marks


def convert(requests: Path, trace: Path, marks: Optional[Path] = None) -> None:
    """Writes single requests as an OTF2 archive. The directory appears when it is complete.

    Args:
        requests: a file of `trackiops export --requests --format parquet`, ordered by `end_time_ns`.
        trace: a directory that does not exist, in one that does.
        marks: a file of `trackiops marks --json`.

    Raises:
        Problem: a file has other content, or the archive cannot be written.
        OSError: a file cannot be read.
    """
    if os.path.lexists(trace):
        raise Problem(f"{trace} exists; name a new directory")
    if not trace.parent.is_dir():
        raise Problem(f"{trace.parent} is not a directory; make it first")
    noted = _marks(marks) if marks else []
    with tempfile.TemporaryDirectory(prefix=f".{trace.name}.", dir=trace.parent, ignore_cleanup_errors=True) as partial:
        writer = otf2.writer.Writer(partial, timer_resolution=10**9, chunk_size_events=_CHUNK_BYTES)
        try:
            archive = Archive(writer)
            archive.hold(_rows(requests, functions=True))
            for row in _rows(requests, functions=False):
                archive.write(row)
            archive.finish(noted)
            writer.close()
        except (otf2.error.Error, _otf2.Error) as error:
            raise Problem(f"{trace} cannot be written: {error}; see the messages of OTF2 above") from None
        finally:
            # A handle that failed to close would try again when it is collected.
            writer._handle = None
        if _signals:
            raise KeyboardInterrupt
        os.rename(partial, trace)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m trackiops.to_otf2", description="Writes single requests as an OTF2 archive.")
    parser.add_argument("requests", type=Path, metavar="REQUESTS.parquet", help="written by `trackiops export --requests`")
    parser.add_argument("trace", type=Path, metavar="TRACE_DIR", help="a new directory for traces.otf2 and its parts")
    parser.add_argument("--marks", type=Path, metavar="FILE", help="written by `trackiops marks --json`")
    args = parser.parse_args()
    # The callbacks of OTF2 would lose a handler's exception.
    for signal_number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signal_number, lambda number, _: _signals.append(number))
    try:
        convert(args.requests, args.trace, args.marks)
    except KeyboardInterrupt:
        return 128 + _signals[0]
    except (Problem, OSError) as error:
        print(f"to_otf2: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
