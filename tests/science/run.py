"""Runs the code of docs/guide/notebooks.md, and compares it with what `trackiops query` answers.

    run.py TRACKIOPS NOTEBOOKS [--live] ENGINE...

in a directory that has `store`. Blocks of shell are run as they come, with the program that is given. The answer to one that is a
`question` is compared with `answer` of the blocks of Python that follow, each run over the store and over the export. Blocks
that are `short` are for short_way.py.

With --live the store is being merged meanwhile, and recipes are run over it alone: a file may vanish between listing and opening, and
rows may be missing for an instant, so a recipe is tried again. A sum that is too large is never accepted.
"""

import csv
import datetime
import decimal
import io
import math
import re
import shlex
import subprocess
import sys
import time

BLOCK = re.compile(r"^```(\w+) ?(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# Numbers in CSV have three decimals.
ROUNDED = 0.00051
# How long a recipe is tried again, s.
LIVE_SECONDS = 20
SUM = re.compile(r"(\w+_)?(bytes|requests)")


def shell(program, line):
    words = shlex.split(line)
    assert words[0] == "trackiops", line
    return subprocess.run([program, *words[1:]], check=True, capture_output=True, text=True).stdout


def number_or_text(text):
    try:
        return float(text)
    except ValueError:
        return text


def expected_rows(text):
    header, *rows = csv.reader(io.StringIO(text))
    rows = [[number_or_text(cell) for cell in row] for row in rows]
    # Without timed requests, there are neither percentiles nor rows with them.
    return header, [row for row in rows if "" not in row]


def plain(value):
    if isinstance(value, datetime.datetime):
        if value.tzinfo:
            value = value.astimezone(datetime.timezone.utc)
        return value.strftime("%Y-%m-%dT%H:%M:%S.") + f"{value.microsecond // 1000:03}Z"
    if isinstance(value, str):
        return value
    return float(value) if isinstance(value, decimal.Decimal) or not isinstance(value, float) else value


def answered_rows(answer):
    if hasattr(answer, "df"):
        # A DuckDB relation. Its own rows would need one more package if they have times.
        answer = answer.df()
    for name in ("rows", "collect"):
        if hasattr(answer, name):
            return [[plain(value) for value in row] for row in getattr(answer, name)()]
    return [[plain(value) for value in row] for row in answer.itertuples(index=False)]


def same(a, b):
    if isinstance(a, str) or isinstance(b, str):
        return a == b
    return math.isclose(a, b, rel_tol=1e-9, abs_tol=ROUNDED)


def compare(expected, answered):
    assert expected, "the question has no answer"
    assert len(expected) == len(answered), f"{len(expected)} rows, and {len(answered)} answered"
    for a, b in zip(expected, answered):
        assert len(a) == len(b) and all(map(same, a, b)), f"{a} is answered {b}"


def assert_not_more(header, expected, answered):
    for place, name in enumerate(header):
        if SUM.fullmatch(name):
            most, sum_ = (sum(row[place] for row in rows) for rows in (expected, answered))
            if sum_ > most:
                raise SystemExit(f"{name} is counted twice: {sum_} of {most}")


def vanished(error):
    return isinstance(error, FileNotFoundError) or "No such file" in str(error)


class Live:
    """Tries again what met a merge."""

    def __init__(self):
        self.tries = 0

    def compare(self, header, expected, recipe):
        deadline = time.monotonic() + LIVE_SECONDS
        while True:
            self.tries += 1
            try:
                answered = recipe()
                assert_not_more(header, expected, answered)
                return compare(expected, answered)
            except Exception as error:
                missing = isinstance(error, AssertionError)
                if not (missing or vanished(error)) or time.monotonic() > deadline:
                    raise
                time.sleep(0.02)


def directories(program):
    """Whoever reads directories rather than globs counts no row twice, either."""
    import pandas as pd

    asked = "trackiops query --store store --by host --step all --columns read_bytes --format csv"
    [[expected]] = expected_rows(shell(program, asked))[1]
    answered = pd.read_parquet("store/rollup/granularity=1s", columns=["read_bytes"]).read_bytes.sum()
    assert same(expected, answered), f"{expected} is answered {answered}"


def main():
    program, notebooks, *engines = sys.argv[1:]
    live = Live() if engines[0] == "--live" else None
    engines = engines[1:] if live else engines
    with open(notebooks, encoding="utf-8") as file:
        blocks = BLOCK.findall(file.read())
    if "DuckDB" in engines and not live:
        directories(program)
    names, sources, header, expected, run = {}, {}, None, None, {}
    for language, kind, code in blocks:
        engine = code.partition("\n")[0].removeprefix("# ")
        if kind == "short":
            continue
        if language == "sh":
            if live and kind != "question":
                continue
            outputs = [shell(program, line) for line in code.splitlines()]
            if kind == "question":
                (header, expected), title = expected_rows(outputs[-1]), code.strip()
        elif kind:
            if live and kind != "store":
                continue
            sources[kind] = {}
            exec(code, sources[kind])
        elif expected is None:
            exec(code, names)
        elif engine in engines:
            for source, of in sources.items():
                compiled = compile(code, f"{engine} over the {source}: {title}", "exec")

                def recipe():
                    scope = {**names, **of}
                    exec(compiled, scope)
                    return answered_rows(scope["answer"])

                try:
                    if live:
                        live.compare(header, expected, recipe)
                        # The query was exact before; it must be exact now.
                        assert expected_rows(shell(program, title)) == (header, expected)
                    else:
                        compare(expected, recipe())
                except Exception as error:
                    raise SystemExit(f"{engine} over the {source}: {title}\n{type(error).__name__}: {error}") from error
                run[engine] = run.get(engine, 0) + 1
    assert set(run) == set(engines) and len(set(run.values())) == 1, f"not every engine has every recipe: {run}"
    tries = f", after {live.tries} tries" if live else ""
    print(", ".join(f"{engine}: {count} answers" for engine, count in run.items()) + tries)


main()
