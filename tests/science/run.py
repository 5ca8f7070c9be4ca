"""Runs the code of docs/notebooks.md, and compares it with what `trackiops query` answers.

    run.py TRACKIOPS NOTEBOOKS ENGINE...

in a directory that has `store`. Blocks of shell are run as they come, with the program that is given. The answer to one that is a
`question` is compared with `answer` of the blocks of Python that follow, each run over the store and over the export.
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

BLOCK = re.compile(r"^```(\w+) ?(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# Figures have three decimals in CSV.
ROUNDED = 0.00051


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
    rows = [[number_or_text(cell) for cell in row] for row in csv.reader(io.StringIO(text))][1:]
    # Where nothing was timed there is no percentile, and no row of one.
    return [row for row in rows if "" not in row]


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
        # A relation of DuckDB, whose own rows ask for one more package where they have times.
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


def main():
    program, notebooks, *engines = sys.argv[1:]
    with open(notebooks, encoding="utf-8") as file:
        blocks = BLOCK.findall(file.read())
    names, sources, expected, run = {}, {}, None, {}
    for language, kind, code in blocks:
        engine = code.partition("\n")[0].removeprefix("# ")
        if language == "sh":
            outputs = [shell(program, line) for line in code.splitlines()]
            if kind == "question":
                expected, title = expected_rows(outputs[-1]), code.strip()
        elif kind:
            sources[kind] = {}
            exec(code, sources[kind])
        elif expected is None:
            exec(code, names)
        elif engine in engines:
            for source, of in sources.items():
                scope = {**names, **of}
                try:
                    exec(compile(code, f"{engine} over the {source}: {title}", "exec"), scope)
                    compare(expected, answered_rows(scope["answer"]))
                except Exception as error:
                    raise SystemExit(f"{engine} over the {source}: {title}\n{type(error).__name__}: {error}") from error
                run[engine] = run.get(engine, 0) + 1
    assert set(run) == set(engines) and len(set(run.values())) == 1, f"not every engine has every recipe: {run}"
    print(", ".join(f"{engine}: {count} answers" for engine, count in run.items()))


main()
