"""Tests the installed module of contrib/python with the libraries that draw.

    installed.py STORE

STORE is store/tests/format-1, whose rows are of 2026-11-21 23:59 to 00:15 of the next day. contrib/python/check.sh runs this with the
least and with the newest versions. tests/science/short_way.py compares what plots show with the query.
"""

import importlib
import importlib.metadata
import json
import re
import sys
import warnings
from datetime import datetime, timezone
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import altair
import matplotlib.dates
import matplotlib.pyplot
import polars as pl
import trackiops

ROOT = Path(__file__).resolve().parents[2]
STORE = Path(sys.argv[1])
MINUTES = [datetime(2026, 11, *at, tzinfo=timezone.utc) for at in ((21, 23, 59), (22, 0, 0), (22, 0, 15))]


def installed():
    assert ROOT not in Path(trackiops.__file__).parents, f"{trackiops.__file__} is not installed"
    crate = re.search(r'^version = "(.+)"$', (ROOT / "Cargo.toml").read_text(encoding="utf-8"), re.MULTILINE)[1]
    assert trackiops.__version__ == crate == importlib.metadata.version("trackiops")
    assert Path(trackiops.__file__).with_name("py.typed").exists()
    # A program may ask for it and go on without it.
    try:
        importlib.import_module("trackiops.to_otf2")
    except ImportError as error:
        assert "pip install 'trackiops[otf2]'" in str(error), error
    else:
        raise AssertionError("there is otf2: no error was tested")


def examples():
    """Those of the README, about what was recorded here."""
    text = (ROOT / "contrib/python/README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python( plot)?\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert [bool(plot) for plot, _ in blocks] == [False] * 3 + [True] * 3, blocks
    scope = {}
    for plot, code in blocks:
        exec(code.replace("/var/lib/trackiops", str(STORE)).replace("/mnt/nfs/db/orders.db", "/mnt/a"), scope)
        answer = scope.pop("answer")
        if plot:
            assert rows_of(answer), code
        else:
            assert len(answer) > 0, code


def rows_of(chart):
    """The rows in a chart, which must be valid by the schema of Vega-Lite."""
    written = chart.to_dict()
    return written["datasets"][written["data"]["name"]]


def at(ms):
    return datetime.fromtimestamp(ms / 1000, timezone.utc)


def heat_maps(store):
    rows = store.rollup("1m")
    counts = pl.element().struct.field("count")
    total = rows.select(pl.col("read_latency_hist").list.eval(counts).list.sum().sum()).collect().item()
    chart = rows.trackiops.heatmap("read_latency_hist", step="1m", engine="altair")
    cells = rows_of(chart)
    assert sum(cell["requests"] for cell in cells) == total > 0
    assert sorted({at(cell["time"]) for cell in cells}) == MINUTES
    # All requests took 300 us: between 256 us and 2^8.25 us.
    assert all(cell["until"] - cell["time"] == 60_000 and cell["lower_us"] == 256 and cell["upper_us"] == 2**8.25 for cell in cells), cells
    axes = chart.to_dict()["encoding"]
    assert axes["x"]["scale"]["type"] == "utc" and axes["y"]["scale"]["type"] == axes["color"]["scale"]["type"] == "log"
    # Nothing in the file depends on where it is read.
    json.dumps(chart.to_dict(), allow_nan=False)
    assert rows_of(rows.collect().trackiops.heatmap("read_latency_hist", step="1m")) == cells == rows_of(trackiops.Plots(rows).heatmap("read_latency_hist", step="1m"))

    drawn = rows.trackiops.heatmap("read_latency_hist", step="1m", engine="matplotlib")
    [shapes] = drawn.collections
    assert shapes.get_array().tolist() == [cell["requests"] for cell in cells]
    corners = [path.get_extents() for path in shapes.get_paths()]
    found = [(matplotlib.dates.num2date(box.x0), box.y0, box.y1) for box in corners]
    for (time, low, high), cell in zip(found, cells):
        assert abs(time - at(cell["time"])).total_seconds() < 0.001 and (low, high) == (cell["lower_us"], cell["upper_us"])
    saved(drawn)
    assert rows_of(store.requests().trackiops.heatmap()), "no single requests"


def lines(store):
    rates = store.throughput("1m")
    for engine in ("altair", "matplotlib"):
        for value, rows, step in (("read_throughput", rates, None), ("read_p99", store.rollup("1m"), "1m")):
            drawn = rows.trackiops.line(value, by="path", step=step, engine=engine)
            if engine == "altair":
                json.dumps(drawn.to_dict(), allow_nan=False)
                points = [(row["line"], at(row["time"]), row["value"]) for row in rows_of(drawn)]
            else:
                of = lambda line: zip(matplotlib.dates.num2date(line.get_xdata()), line.get_ydata())
                points = [(line.get_label(), time, None if y != y else y) for line in drawn.lines for time, y in of(line)]
                saved(drawn)
            points = {(line, time): value for line, time, value in points}
            known = {key: value for key, value in points.items() if value is not None}
            assert [time for line, time in known if line == "/mnt/a"] == MINUTES, known
            # From 00:00 to 00:15 there is nothing, so the line is broken.
            assert points["/mnt/a", MINUTES[1].replace(minute=1)] is None
            if value == "read_throughput":
                expected = rates.filter(pl.col("path") == "/mnt/a").sort("time").collect()["read_throughput"].to_list()
                assert [y for (line, _), y in known.items() if line == "/mnt/a"] == expected
            else:
                assert set(known.values()) == {300.0}, "percentiles are at most the longest latency"


def zones():
    """Times of another time zone, or of none, are shown in UTC. One window of unknown length is a second."""
    utc = pl.DataFrame({"time": [MINUTES[0]], "read_latency_hist": [[{"bucket": 7, "count": 5}]]})
    zone = utc.with_columns(pl.col("time").dt.convert_time_zone("Asia/Kolkata"))
    naive = utc.with_columns(pl.col("time").dt.replace_time_zone(None))
    for step, length in ((None, 1), ("1h", 3600)):
        cells = [rows_of(rows.trackiops.heatmap(step=step)) for rows in (utc, zone, naive)]
        assert cells[0] == cells[1] == cells[2], cells
        [cell] = cells[0]
        assert cell["moment"].startswith("2026-11-21 23:") and cell["until"] - cell["time"] == 1000 * length, cell
    drawn = [rows_of(rows.trackiops.line("read_p99")) for rows in (utc, zone, naive)]
    assert drawn[0] == drawn[1] == drawn[2] and at(drawn[0][0]["time"]) == MINUTES[0], drawn


def saved(axes):
    axes.figure.savefig("plot.png")
    assert Path("plot.png").read_bytes().startswith(b"\x89PNG")
    matplotlib.pyplot.close(axes.figure)


def without_altair(store):
    """Matplotlib draws if it alone is there."""
    hidden = sys.modules["altair"]
    sys.modules["altair"] = None
    drawn = [store.rollup("1m").trackiops.heatmap(), store.rollup("1m").trackiops.line("read_p99")]
    sys.modules["altair"] = hidden
    for axes in drawn:
        saved(axes)


def many_rows():
    """A chart of Altair with more than 5000 rows, which data frames may not have."""
    times = pl.datetime_range(datetime(2026, 1, 1), datetime(2026, 1, 1, 2), "1s", time_zone="UTC", eager=True)
    rows = pl.DataFrame({"time": times, "read_throughput": range(len(times))})
    assert len(rows_of(rows.trackiops.line("read_throughput", engine="altair"))) == len(times) > 5000


def main():
    warnings.simplefilter("error", DeprecationWarning)
    installed()
    examples()
    store = trackiops.open(STORE)
    for check in (heat_maps, lines, without_altair):
        check(store)
    zones()
    many_rows()
    print(f"Python {sys.version.split()[0]}, Polars {pl.__version__}, Altair {altair.__version__}, matplotlib {matplotlib.__version__}: plots are right")


main()
