#!/usr/bin/env python3
"""Writes THIRD-PARTY.md: the crates that the release contains, with the texts of their licences as their sources have them."""

import json
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# What the release consists of: the program, and the object that it loads into the kernel.
PARTS = [
    ("trackiops", "x86_64-unknown-linux-gnu"),
    ("trackiops", "aarch64-unknown-linux-gnu"),
    ("trackiops-ebpf", "bpfel-unknown-none"),
]
LICENCE_FILE = re.compile(r"(?i)(un)?licen[cs]e|copying|copyright|notice")
# Libraries in C that crates bring with them, and where their licence is.
BUNDLED = {"zstd-sys": ["zstd/LICENSE"]}

HEAD = """\
# Third-party notices

The release of TrackIOps contains these crates. Their licences follow in the words of their sources, each once.

It also contains the standard library of Rust (MIT or Apache-2.0), SQLite (public domain, by way of libsqlite3-sys), Zstandard
(BSD-3-Clause, by way of zstd-sys), and the glibc of the machine that built it (LGPL-2.1-or-later; `make release` links it anew with
yours).

`make third-party` writes this file.
"""


def metadata(target):
    command = ["cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", target]
    return json.loads(subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)


def linked(part, graph):
    """The crates that end up in a part: neither what only tests and builds need, nor macros."""
    packages = {package["id"]: package for package in graph["packages"]}
    nodes = {node["id"]: node for node in graph["resolve"]["nodes"]}
    is_macro = lambda id: any("proc-macro" in target["kind"] for target in packages[id]["targets"])
    ahead = [id for id, package in packages.items() if package["name"] == part and not package["source"]]
    assert len(ahead) == 1, ahead
    seen = set()
    while ahead:
        id = ahead.pop()
        if id in seen or is_macro(id):
            continue
        seen.add(id)
        for dep in nodes[id]["deps"]:
            if any(kind["kind"] is None for kind in dep["dep_kinds"]):
                ahead.append(dep["pkg"])
    return [packages[id] for id in seen if packages[id]["source"]]


def texts(package):
    """The texts of its licences."""
    source = Path(package["manifest_path"]).parent
    names = {path.name for path in source.iterdir() if path.is_file() and LICENCE_FILE.match(path.name)}
    if package.get("license_file"):
        names.add(package["license_file"])
    for name in sorted(names) + BUNDLED.get(package["name"], []):
        text = (source / name).read_text(errors="replace")
        lines = [line.rstrip() for line in text.replace("\f", "").splitlines()]
        yield "\n".join(lines).strip("\n")


def locked():
    """Each crate that Cargo.lock has from elsewhere."""
    lock = (ROOT / "Cargo.lock").read_text()
    found = re.findall(r'name = "(.+)"\nversion = "(.+)"\nsource = ', lock)
    return {f"{name} {version}" for name, version in found}


def main():
    crates = {}
    for part, target in PARTS:
        for package in linked(part, metadata(target)):
            crates[f"{package['name']} {package['version']}"] = package
    # Many differ only in how lines are broken.
    by_text = {}
    without = []
    for name, package in sorted(crates.items()):
        found = list(texts(package))
        if not found:
            without.append(name)
        for text in found:
            by_text.setdefault(" ".join(text.split()), (text, []))[1].append(name)
    out = [HEAD, "| crate | version | licence | source |", "|---|---|---|---|"]
    for _, package in sorted(crates.items()):
        name, version = package["name"], package["version"]
        home = package["repository"] or f"https://crates.io/crates/{name}"
        out.append(f"| {name} | {version} | {package['license'] or 'see its text'} | {home} |")
    if without:
        out += ["", "The packages of these have no text of their licence: " + ", ".join(without) + "."]
    out += ["", "## Texts of licences", ""]
    for text, names in by_text.values():
        # Longer than any fence in a text.
        fence = "`" * (3 + max((len(run) for run in re.findall("`+", text)), default=0))
        out += [", ".join(dict.fromkeys(names)) + ":", "", fence + "text", text, fence, ""]
    rest = sorted(locked() - set(crates))
    out += ["## Not in the release", "", "For building, for tests, or for other platforms:", "", ", ".join(rest), ""]
    (ROOT / "THIRD-PARTY.md").write_text("\n".join(out))


if __name__ == "__main__":
    main()
