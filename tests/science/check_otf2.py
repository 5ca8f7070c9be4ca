"""Compares an OTF2 archive with the requests that it was written from.

    check_otf2.py ARCHIVE REQUESTS.parquet

ARCHIVE is a directory with traces.otf2, or that file. Exits with 1, and says what differs, unless

* begins and ends of each location nest, in order of time, and I/O records complete inside their region;
* each process, thread, level, file and operation has as many rows, bytes and ns as in the Parquet;
* the clock's properties fit the first and the last event.

Needs otf2 and pyarrow. Memory grows with the files, not with the rows.
"""

import re
import sys
from collections import Counter, defaultdict
from pathlib import Path

import otf2
import pyarrow.parquet as pq
from otf2.events import Enter, IoOperationBegin, IoOperationComplete, Leave

MOVES = {"READ": "READ", "WRITE": "WRITE", "FLUSH": "FSYNC"}
MODES = {getattr(otf2.IoOperationMode, mode): op for mode, op in MOVES.items()}
COUNTED = ("rows", "asked", "done", "ns")


def demand(condition, text):
    if not condition:
        sys.exit(f"differs: {text}")


def expected(path):
    """Counts by (process, thread, level, file, op), and the first and the last moment."""
    counts, first_ns, last_ns = defaultdict(Counter), None, 0
    for batch in pq.ParquetFile(path).iter_batches(65536):
        for row in batch.to_pylist():
            level, op, tid = row["level"], row["op"].upper(), row.get("tid")
            name = row["path"] or (op if level == "user" else f"{row['dev']}:{row['fileid']}")
            if level != "user" and name.startswith("("):
                name = f"{name} {row['mount'] or row['dev']}"
            process = f"{row['host']} " + (level if row["pid"] is None else f"process {row['pid']}")
            thread = f"thread {tid}" if tid is not None and level in ("app", "user") else f"{level} {name}"
            ns, end_ns = max(row["latency_ns"] or 0, 0), row["end_time_ns"]
            first_ns = end_ns - ns if first_ns is None else min(first_ns, end_ns - ns)
            last_ns = max(last_ns, end_ns)
            moves = op in MOVES.values() and level != "user"
            counts[process, thread, level, name, "CALL" if level == "user" else op].update(
                rows=1, ns=ns, asked=(row["asked_bytes"] or 0) * moves, done=(row["done_bytes"] or 0) * moves
            )
    return counts, first_ns, last_ns


class Open:
    """A region that was entered, and what is known of its operation."""

    def __init__(self, event):
        self.region, self.start_ns, self.io, self.complete = event.region, event.time, None, None
        known = {attribute.name: value for attribute, value in (event.attributes or {}).items()}
        self.file = known.get("file")

    def key(self, location):
        thread = re.sub(r" \(\d+\)$", "", location.name) if not location.name.endswith(self.io_file()) else location.name
        if self.region.paradigm == otf2.Paradigm.USER:
            return location.group.name, thread, "user", self.region.canonical_name, "CALL"
        level, _, op = self.region.name.partition(" ")
        if self.io:
            demand(self.io.handle.io_paradigm.identification == level, f"{location.name} has {level} in another paradigm")
            demand(MODES[self.io.mode] == op, f"{location.name} has {self.io.mode} in {self.region.name}")
        return location.group.name, thread, level, self.io_file(), op

    def io_file(self):
        return self.io.handle.file.name if self.io else self.file or "\0"


def written(archive):
    counts, stacks, at_ns, events = defaultdict(Counter), defaultdict(list), Counter(), Counter()
    first_ns, last_ns = None, 0
    with otf2.reader.open(str(archive)) as trace:
        for location, event in trace.events:
            stack, where = stacks[location], f"location {location.name} at {event.time}"
            demand(event.time >= at_ns[location], f"{where} goes back in time")
            at_ns[location] = event.time
            events[location] += 1
            first_ns, last_ns = min(first_ns or event.time, event.time), max(last_ns, event.time)
            if isinstance(event, Enter):
                demand(not stack or not stack[-1].io, f"{where} enters {event.region.name} during an operation")
                stack.append(Open(event))
                continue
            demand(stack, f"{where} has {type(event).__name__} outside of regions")
            if isinstance(event, IoOperationBegin):
                demand(not stack[-1].io, f"{where} begins two operations")
                stack[-1].io = event
            elif isinstance(event, IoOperationComplete):
                begun = stack[-1].io
                same = begun and (begun.handle, begun.matching_id) == (event.handle, event.matching_id)
                demand(same and not stack[-1].complete, f"{where} completes what it did not begin")
                stack[-1].complete = event
            elif isinstance(event, Leave):
                left = stack.pop()
                demand(left.region == event.region, f"{where} leaves {event.region.name} in {left.region.name}")
                demand(bool(left.io) == bool(left.complete), f"{where} leaves an operation that is not complete")
                counts[left.key(location)].update(
                    rows=1,
                    ns=event.time - left.start_ns,
                    asked=left.io.bytes_request if left.io else 0,
                    done=left.complete.bytes_result if left.complete else 0,
                )
        for location, stack in stacks.items():
            demand(not stack, f"location {location.name} ends inside {[entered.region.name for entered in stack]}")
        for location in trace.definitions.locations:
            demand(location.number_of_events == events[location], f"location {location.name} has {events[location]} events")
        clock, locations = trace.definitions.clock_properties, len(stacks)
    return counts, first_ns, last_ns, clock, locations


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    archive, requests = map(Path, sys.argv[1:])
    asked, first_ns, last_ns = expected(requests)
    got, got_first_ns, got_last_ns, clock, locations = written(archive / "traces.otf2" if archive.is_dir() else archive)
    for key in sorted(asked.keys() | got.keys()):
        for counted in COUNTED:
            demand(asked[key][counted] == got[key][counted], f"{key}: {counted} {got[key][counted]}, not {asked[key][counted]}")
    demand((got_first_ns, got_last_ns) == (first_ns, last_ns), f"{got_first_ns} to {got_last_ns}, not {first_ns} to {last_ns}")
    demand(clock.timer_resolution == 10**9, f"the clock has {clock.timer_resolution} ticks a second")
    # Marks may precede the first event and follow the last one.
    demand(clock.global_offset == clock.realtime_timestamp <= first_ns, f"the clock begins at {clock.realtime_timestamp}")
    demand(clock.global_offset + clock.trace_length >= last_ns, f"the clock ends after {clock.trace_length} ns")
    total = sum(asked.values(), Counter())
    print(f"same: {total['rows']} rows, {total['done']} bytes, {len(asked)} operations of files and functions, {locations} locations")


main()
