#!/usr/bin/env python3
"""Writes docs/reference/python.md from the docstrings of contrib/python. It needs a Python with Polars.

  python-reference.py            writes the page
  python-reference.py --check    fails if the page is another one
"""

import inspect
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/reference/python.md"
sys.path.insert(0, str(ROOT / "contrib/python"))
sys.dont_write_bytecode = True
import trackiops  # noqa: E402

HEAD = """\
# Python module

The module `trackiops` reads stores and exports with Polars and pandas: [how to install it, with examples](../../contrib/python/README.md),
[recipes](../guide/notebooks.md). `scripts/python-reference.py` writes this page from its docstrings, which `help(trackiops)` shows.
"""
# In the order in which people need them.
FUNCTIONS = ["open", "percentile", "merge", "mean", "rate", "hist_percentile", "hist_merge"]
SECTION = re.compile(r"^(Args|Returns|Raises|Example):\n((?:    .*\n|\n)+)", re.MULTILINE)
SENTENCE = re.compile(r"(?<=[\w)`%]\.) (?=[A-Z`])")
WRITTEN = {"Args": "Arguments", "Returns": "Returns", "Raises": "Raises", "Example": "Example"}


def entries(body):
    """`name: text` of a section, whose text may go on in deeper lines."""
    found = []
    for line in body.splitlines():
        if line.startswith(" "):
            found[-1] += f" {line.strip()}"
        elif line:
            found.append(line)
    return [f"* `{name}`: {text}" for name, _, text in (entry.partition(": ") for entry in found)]


def section(match):
    name, body = match[1], re.sub(r"^    ", "", match[2], flags=re.MULTILINE).strip()
    if name == "Example":
        return f"```python\n{body}\n```\n"
    if name == "Returns":
        return f"Returns: {' '.join(body.split())}\n\n"
    return f"{WRITTEN[name]}:\n\n" + "\n".join(entries(body)) + "\n\n"


def written(named):
    text = SECTION.sub(section, inspect.getdoc(named) + "\n")
    fenced = re.split(r"(^```.*?^```$)", text, flags=re.MULTILINE | re.DOTALL)
    # Lines of Markdown break at sentences, and docstrings at a width.
    for place in range(0, len(fenced), 2):
        lines = re.sub(r"(?<=[^\n])\n(?=[^\n*])", " ", fenced[place]).split("\n")
        fenced[place] = "\n".join(line if line.startswith("* ") else SENTENCE.sub("\n", line) for line in lines)
    return "".join(fenced).strip() + "\n"


def signature(name, function):
    shown = inspect.signature(function)
    kept = [p for p in shown.parameters.values() if p.name != "self"]
    # Annotations are text, which the signature shows as such.
    return name + re.sub(r"(?<=: |> )'([^']*)'", r"\1", str(shown.replace(parameters=kept))).replace("'", '"')


def methods(of):
    return [(name, member) for name, member in vars(of).items() if inspect.isfunction(member) and not name.startswith("_")]


def main():
    parts = [HEAD]
    for name in FUNCTIONS:
        function = getattr(trackiops, name)
        parts.append(f"## {name}\n\n```python\n{signature(f'trackiops.{name}', function)}\n```\n\n{written(function)}")
    for of, shown in ((trackiops.Stores, "store"), (trackiops.Plots, "df.trackiops")):
        parts.append(f"## {of.__name__}\n\n{written(of)}")
        parts += [f"### {shown}.{name}\n\n```python\n{signature(name, method)}\n```\n\n{written(method)}" for name, method in methods(of)]
    missing = set(trackiops.__all__) - {*FUNCTIONS, "Stores", "Plots", "__version__"}
    assert not missing, f"the page lacks {missing}"
    page = "\n".join(parts)
    if sys.argv[1:] == ["--check"]:
        if PAGE.read_text(encoding="utf-8") != page:
            sys.exit(f"error: {PAGE.relative_to(ROOT)} is not what docstrings say: run scripts/python-reference.py")
    else:
        PAGE.write_text(page, encoding="utf-8")


main()
