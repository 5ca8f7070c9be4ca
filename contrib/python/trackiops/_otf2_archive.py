"""An OTF2 archive of requests, calls and functions during writing."""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Iterable
from fractions import Fraction
from typing import Any, NamedTuple, Optional

import _otf2
import otf2

_IO_MODES = {"READ": otf2.IoOperationMode.READ, "WRITE": otf2.IoOperationMode.WRITE, "FSYNC": otf2.IoOperationMode.FLUSH}


class Row(NamedTuple):
    """A request, a call or a function: columns of an export."""

    end_time_ns: int
    host: str
    mount: Optional[str]
    path: Optional[str]
    dev: str
    fileid: int
    level: str
    pid: Optional[int]
    op: str
    offset_bytes: Optional[int]
    asked_bytes: Optional[int]
    done_bytes: Optional[int]
    latency_ns: Optional[int]
    errno: Optional[int]
    tid: Optional[int] = None  # older exports lack it

    @property
    def start_ns(self) -> int:
        return self.end_time_ns - max(self.latency_ns or 0, 0)

    @property
    def file(self) -> str:
        if self.path is None:
            return f"{self.dev}:{self.fileid % 2**64}"
        # Each mount has a `(filesystem)`.
        return f"{self.path} {self.mount or self.dev}" if self.path.startswith("(") else self.path

    @property
    def location(self) -> tuple[str, str, str]:
        """Host, process and name."""
        process = self.level if self.pid is None else f"process {self.pid}"
        of_thread = self.tid is not None and self.level in ("app", "user")
        return self.host, process, f"thread {self.tid}" if of_thread else f"{self.level} {self.file}"


class Lane:
    """A location. Its events are in order of time, and its regions nest."""

    def __init__(self, events: otf2.event_writer.EventWriter) -> None:
        self.events, self.at_ns = events, 0
        self.spans: deque[tuple[int, int, Any]] = deque()  # functions that have not begun: start, end, region
        self.open: list[tuple[int, Any]] = []  # functions that have not ended: end, region

    def _next_ns(self) -> tuple[float, float]:
        """When a function is left next, and when one is entered."""
        return self.open[-1][0] if self.open else math.inf, self.spans[0][0] if self.spans else math.inf

    def advance(self, to_ns: float) -> None:
        """Enters and leaves functions up to a moment."""
        while self.spans or self.open:
            leave_ns, enter_ns = self._next_ns()
            if min(leave_ns, enter_ns) > to_ns:
                return
            if leave_ns <= enter_ns:
                self.at_ns, region = self.open.pop()
                self.events.leave(self.at_ns, region)
            else:
                self.at_ns, end_ns, region = self.spans.popleft()
                self.events.enter(self.at_ns, region)
                self.open.append((end_ns, region))

    def takes(self, start_ns: int, end_ns: int) -> bool:
        """Whether a row overlaps no other, and no function begins or ends inside it."""
        if start_ns < self.at_ns:
            return False
        self.advance(start_ns)
        return end_ns <= min(self._next_ns())


class Archive:
    """An archive during writing."""

    def __init__(self, writer: otf2.writer.Writer) -> None:
        self._writer, self._definitions, self._operations = writer, writer.definitions, 0
        kinds = {"file": otf2.Type.STRING, "offset": otf2.Type.INT64, "errno": otf2.Type.INT32}
        self._attributes = {name: self._definitions.attribute(name, type=kind) for name, kind in kinds.items()}
        self._root = self._definitions.system_tree_node("TrackIOps", class_name="machine")
        self._lanes: dict[tuple[str, str, str], list[Lane]] = defaultdict(list)
        self._regions: dict[tuple[str, str], Any] = {}
        self._handles: dict[tuple[str, str, str], Any] = {}

    def hold(self, functions: Iterable[Row]) -> None:
        """Takes all functions, because they end after what is inside them."""
        spans = defaultdict(list)
        for row in functions:
            spans[row.location].append((row.start_ns, row.end_time_ns, self._region(row)))
        for location, of_location in spans.items():
            lanes: list[tuple[Lane, list[int]]] = []
            for span in sorted(of_location, key=lambda span: (span[0], -span[1])):
                for lane, ends_ns in lanes:
                    while ends_ns and ends_ns[-1] <= span[0]:
                        ends_ns.pop()
                    if not ends_ns or span[1] <= ends_ns[-1]:
                        break
                else:
                    lane, ends_ns = self._new_lane(location), []
                    lanes.append((lane, ends_ns))
                ends_ns.append(span[1])
                lane.spans.append(span)

    def write(self, row: Row) -> None:
        """Writes a request or a call. They come in order of their ends."""
        start_ns, end_ns, location = row.start_ns, row.end_time_ns, row.location
        free = [lane for lane in self._lanes[location] if lane.takes(start_ns, end_ns)]
        # In the innermost function; else after the shortest gap, which needs few locations.
        lane = max(free, key=lambda lane: (len(lane.open), lane.at_ns)) if free else self._new_lane(location)
        lane.at_ns, events, region, mode = end_ns, lane.events, self._region(row), _IO_MODES.get(row.op.upper())
        known = {"file": row.file if mode is None else None, "offset": row.offset_bytes, "errno": row.errno}
        attributes = {self._attributes[name]: value for name, value in known.items() if value is not None}
        events.enter(start_ns, region, attributes)
        if mode is not None:
            self._operations += 1
            handle, flags = self._handle(row), otf2.IoOperationFlag.NONE
            events.io_operation_begin(start_ns, handle, mode, flags, row.asked_bytes or 0, self._operations)
            events.io_operation_complete(end_ns, handle, row.done_bytes or 0, self._operations)
        events.leave(end_ns, region)

    def finish(self, marks: Iterable[tuple[int, str]]) -> None:
        """Writes what was noted about moments, and what is known at the end alone."""
        for lane in (lane for lanes in self._lanes.values() for lane in lanes):
            lane.advance(math.inf)
        for level in sorted({level for level, _ in self._regions}):
            members = tuple(region for (of, _), region in self._regions.items() if of == level)
            self._definitions.group(level, otf2.GroupType.REGIONS, members=members)
        # The binding supports markers only in its low-level layer.
        markers = _otf2.Archive_GetMarkerWriter(self._writer.handle)
        _otf2.MarkerWriter_WriteDefMarker(markers, 0, "TrackIOps", "mark", _otf2.SEVERITY_NONE)
        for time_ns, text in sorted(marks):
            self._writer._update_timestamps(time_ns)
            _otf2.MarkerWriter_WriteMarker(markers, time_ns, 0, 0, _otf2.MARKER_SCOPE_GLOBAL, 0, text)
        _otf2.Archive_CloseMarkerWriter(self._writer.handle, markers)
        # The binding dates the first event with the time of writing.
        self._writer._realtime_timestamp = Fraction(self._writer._first_timestamp, 10**9)

    def _host(self, name: str) -> Any:
        return self._definitions.system_tree_node(name, class_name="node", parent=self._root)

    def _region(self, row: Row) -> Any:
        of_program = row.level == "user"
        name = row.path or row.op if of_program else f"{row.level} {row.op.upper()}"
        if (row.level, name) not in self._regions:
            if of_program:
                program, _, function = name.partition(":")
                region = self._definitions.region(function or name, name, paradigm=otf2.Paradigm.USER, source_file=program)
            else:
                region = self._definitions.region(name, region_role=otf2.RegionRole.FILE_IO)
            self._regions[row.level, name] = region
        return self._regions[row.level, name]

    def _handle(self, row: Row) -> Any:
        key = row.host, row.level, row.file
        if key not in self._handles:
            level = self._definitions.io_paradigm(row.level, row.level, otf2.IoParadigmClass.SERIAL, otf2.IoParadigmFlag.OS)
            file = self._definitions.io_regular_file(row.file, scope=self._host(row.host))
            # Most files were opened earlier, or are not opened at this level.
            handle = self._definitions.io_handle(row.file, file, level, otf2.IoHandleFlag.PRE_CREATED)
            self._definitions.io_pre_created_handle_state(handle, otf2.IoAccessMode.READ_WRITE)
            self._handles[key] = handle
        return self._handles[key]

    def _new_lane(self, location: tuple[str, str, str]) -> Lane:
        host, process, name = location
        group = self._definitions.location_group(f"{host} {process}", system_tree_parent=self._host(host))
        lanes = self._lanes[location]
        # A file name may equal another file's second location, so use `create`, which never shares one.
        place = self._definitions.locations.create(f"{name} ({len(lanes) + 1})" if lanes else name, group=group)
        lanes.append(Lane(self._writer.event_writer_from_location(place)))
        return lanes[-1]
