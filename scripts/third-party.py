#!/usr/bin/env python3
"""What the release contains, and under which licences.

  third-party.py notices BINARY    prints THIRD-PARTY.md of a release: the crates in it, with the licence texts of their sources
  third-party.py sbom BINARY       prints what is in a release's binary, as CycloneDX
  third-party.py copyright BINARY  prints the same as Debian's machine-readable copyright file
  third-party.py licence BINARY    prints the licences of all of it as one expression
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

ROOT = Path(__file__).resolve().parent.parent
LICENCE_FILE = re.compile(r"(?i)(un)?licen[cs]e|copying|copyright|notice")
# The page of `trackiops serve`: its lock file lists the content of web/dist/app.js, and `make web` writes the licence texts.
PAGE = ROOT / "web"
PAGE_SOURCES = {"preact": "https://github.com/preactjs/preact", "uplot": "https://github.com/leeoniya/uPlot"}
# C libraries inside crates, and the files with their licences.
BUNDLED = {"zstd-sys": ["zstd/LICENSE"]}

HEAD = """\
# Third-party notices

The release of TrackIOps contains these crates. Their licences follow in the words of their sources, each once.

The page of `trackiops serve` contains the packages of npm that are listed below the crates.

It also contains the standard library of Rust (MIT or Apache-2.0), SQLite (public domain, by way of libsqlite3-sys), Zstandard
(BSD-3-Clause, by way of zstd-sys), outlines of the font Roboto (Apache-2.0, Copyright 2011 Google Inc.; crates/render/src/plot/raster), and
the glibc of the machine that built it (LGPL-2.1-or-later; `make release` links it with yours instead).
"""


def metadata(target):
    command = [os.environ.get("CARGO", "cargo"), "metadata", "--locked", "--format-version", "1", "--filter-platform", target]
    return json.loads(subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)


def reached(part, graph):
    """The crates that end up in a part, each with those that it uses: neither what only tests and builds need, nor macros."""
    packages = {package["id"]: package for package in graph["packages"]}
    nodes = {node["id"]: node for node in graph["resolve"]["nodes"]}
    is_macro = lambda id: any("proc-macro" in target["kind"] for target in packages[id]["targets"])
    ahead = [id for id, package in packages.items() if package["name"] == part and not package["source"]]
    assert len(ahead) == 1, ahead
    uses = {}
    while ahead:
        id = ahead.pop()
        if id in uses:
            continue
        deps = [dep["pkg"] for dep in nodes[id]["deps"] if any(kind["kind"] is None for kind in dep["dep_kinds"])]
        uses[id] = [dep for dep in deps if not is_macro(dep)]
        ahead += uses[id]
    return [(packages[id], [packages[dep] for dep in deps]) for id, deps in uses.items()]


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
    """Each crate that Cargo.lock has from elsewhere, with the hash of its package."""
    lock = (ROOT / "Cargo.lock").read_text()
    found = re.findall(r'name = "(.+)"\nversion = "(.+)"\nsource = ".+"\nchecksum = "(.+)"', lock)
    return {f"{name} {version}": checksum for name, version, checksum in found}


def packages_of_page():
    """Name, version, licence and address of each package of npm that a browser gets."""
    packages = json.loads((PAGE / "package-lock.json").read_text())["packages"]
    for path, package in sorted(packages.items()):
        if path and not package.get("dev"):
            name = path.removeprefix("node_modules/")
            yield name, package["version"], package["license"], PAGE_SOURCES[name]


def print_notices(binary):
    crates = {f"{package['name']} {package['version']}": package for package, _ in crates_in(binary) if package["source"]}
    # Many differ only in their line breaks.
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
    out += ["", "In the page of `trackiops serve`, from npm:", ""]
    for name, version, licence, address in packages_of_page():
        out.append(f"* {name} {version}, {licence}, {address}")
        text = (PAGE / "licences" / f"{name}.txt").read_text().strip()
        by_text.setdefault(" ".join(text.split()), (text, []))[1].append(f"{name} {version}")
    out += ["", "## Texts of licences", ""]
    for text, names in by_text.values():
        # Longer than any fence in a text.
        fence = "`" * (3 + max((len(run) for run in re.findall("`+", text)), default=0))
        out += [", ".join(dict.fromkeys(names)) + ":", "", fence + "text", text, fence, ""]
    print("\n".join(out).rstrip("\n"))


# e_machine of an ELF file.
MACHINES = {62: "x86_64-unknown-linux-gnu", 183: "aarch64-unknown-linux-gnu"}


def licence_of(package):
    """An expression of SPDX. Old manifests write `/` for OR."""
    return (package["license"] or "NOASSERTION").replace("/", " OR ")


def crates_in(binary):
    """The crates in a binary, as `reached` has them, in a lasting order."""
    # The program, and the object that it loads into the kernel.
    parts = [("trackiops", MACHINES[Path(binary).read_bytes()[18]]), ("trackiops-ebpf", "bpfel-unknown-none")]
    crates = {}
    for part, target in parts:
        for package, uses in reached(part, metadata(target)):
            _, known = crates.setdefault(package["id"], (package, {}))
            known.update({used["id"]: used for used in uses})
    crates = [(package, list(uses.values())) for package, uses in crates.values()]
    return sorted(crates, key=lambda crate: (crate[0]["name"], crate[0]["version"]))


def libraries_in(binary, crates):
    """What is no crate: name, version, licence, address, and the crate that it came with, if one did."""
    by_name = {package["name"]: package for package, _ in crates}
    content = Path(binary).read_bytes()
    said = lambda what: re.search(what, content)[1].decode()
    header = Path(by_name["libsqlite3-sys"]["manifest_path"]).parent / "sqlite3/sqlite3.h"
    sqlite = re.search(r'SQLITE_VERSION +"(.+)"', header.read_text())[1]
    zstd = by_name["zstd-sys"]["version"].split("+zstd.")[1]
    rust = said(rb"rustc version ([0-9.]+)")
    glibc = said(rb"GNU C Library \((?:.* )?([^ ]+)\) stable release")
    libgcc = said(rb"GCC: \(.*?\) ([0-9.]+)")
    return [
        ("sqlite", sqlite, "blessing", "https://sqlite.org", "libsqlite3-sys"),
        ("zstd", zstd, "BSD-3-Clause", "https://github.com/facebook/zstd", "zstd-sys"),
        ("rust-std", rust, "MIT OR Apache-2.0", "https://www.rust-lang.org", None),
        ("glibc", glibc, "LGPL-2.1-or-later", "https://www.gnu.org/software/libc", None),
        # Its outlines: crates/render/src/plot/raster/roboto.txt.
        ("roboto", "2.138", "Apache-2.0", "https://github.com/googlefonts/roboto", None),
        ("libgcc", libgcc, "GPL-3.0-or-later WITH GCC-exception-3.1", "https://gcc.gnu.org", None),
        *((*package, None) for package in packages_of_page()),
    ]


def component(kind, name, version, licence):
    return {"type": kind, "name": name, "version": version, "licenses": [{"expression": licence}]}


def library(ecosystem, name, version, licence, link):
    purl = f"pkg:{ecosystem}/{name}@{quote(version)}"
    known = {"bom-ref": purl, "purl": purl} | ({"externalReferences": [link]} if link else {})
    return component("library", name, version, licence) | known


def print_sbom(binary):
    """Has neither a time nor a random number: the same binary has the same list."""
    crates = crates_in(binary)
    checksums = locked()
    ref = lambda package: f"pkg:cargo/{package['name']}@{quote(package['version'])}"
    # The program uses everything that another part of this workspace uses.
    depends = {"trackiops": set()}
    components = []
    for package, uses in crates:
        user = ref(package) if package["source"] else "trackiops"
        depends.setdefault(user, set()).update(ref(used) for used in uses if used["source"])
        if package["source"]:
            name, version, address = package["name"], package["version"], package["repository"]
            link = {"type": "vcs", "url": address} if address else None
            hashes = [{"alg": "SHA-256", "content": checksums[f"{name} {version}"]}]
            components.append(library("cargo", name, version, licence_of(package), link) | {"hashes": hashes})
    refs = {package["name"]: ref(package) for package, _ in crates}
    for name, version, licence, address, crate in libraries_in(binary, crates):
        ecosystem = "npm" if name in PAGE_SOURCES else "generic"
        components.append(library(ecosystem, name, version, licence, {"type": "website", "url": address}))
        user = refs[crate] if crate else "trackiops"
        depends[user].add(components[-1]["bom-ref"])
    program = next(package for package, _ in crates if package["name"] == "trackiops")
    about = component("application", "trackiops", program["version"], licence_of(program))
    bom = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": about | {"bom-ref": "trackiops", "description": program["description"]}},
        "components": components,
        "dependencies": [{"ref": user, "dependsOn": sorted(used)} for user, used in depends.items()],
    }
    print(json.dumps(bom, indent=1))


def files_by_licence(binary):
    """What is in a binary by its licence, each as a pattern of files."""
    crates = crates_in(binary)
    parts = [(package["name"], package["version"], licence_of(package)) for package, _ in crates if package["source"]]
    parts += [library[:3] for library in libraries_in(binary, crates)]
    by_licence = {}
    for name, version, licence in parts:
        by_licence.setdefault(licence, []).append(f"{name}-{version}/*")
    return sorted(by_licence.items())


def print_licence(binary):
    print(" AND ".join(f"({licence})" for licence, _ in files_by_licence(binary)))


def debian_name(licence):
    """As Debian's format writes it: words in lower case, a comma in place of parentheses."""
    name = re.sub(r"\((.+)\) AND ", r"\1, AND ", licence)
    name = re.sub(r" WITH (\w+)-exception[-.0-9]*", r" with \1 exception", name)
    return name.replace(" OR ", " or ").replace(" AND ", " and ")


def print_copyright(binary):
    docs = "/usr/share/doc/trackiops"
    print("Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/")
    print("Upstream-Name: TrackIOps")
    print("Comment:\n The program contains the libraries below, each under its name and version.")
    print(f" The notices of their authors are in {docs}: those of crates")
    print(" and of packages of npm in THIRD-PARTY.md.gz, those of rust-std, glibc and libgcc in COPYRIGHT-*.")
    print("\nFiles: *\nCopyright: the authors of TrackIOps\nLicense: MIT or Apache-2.0")
    names = {"MIT", "Apache-2.0"}
    for licence, files in files_by_licence(binary):
        name = debian_name(licence)
        names.update(re.split(" or |,? and ", name))
        print("\nFiles: " + "\n ".join(files))
        print(f"Copyright: the authors of each, as their notices say\nLicense: {name}")
    common = {"Apache-2.0": "Apache-2.0", "LGPL-2.1-or-later": "LGPL-2.1", "GPL-3.0-or-later": "GPL-3"}
    for name in sorted(names):
        licence, _, exception = name.partition(" with ")
        text = f"The text is in {docs}/THIRD-PARTY.md.gz."
        if licence in common:
            text = f"On Debian systems the text is in /usr/share/common-licenses/{common[licence]}."
        if name == "blessing":
            text = "SQLite is in the public domain."
        if name == "MIT":
            text = (ROOT / "LICENSE-MIT").read_text().strip()
        print(f"\nLicense: {name}")
        for line in text.splitlines():
            print(f" {line}" if line else " .")


def main():
    ways = {"notices": print_notices, "sbom": print_sbom, "licence": print_licence, "copyright": print_copyright}
    match sys.argv[1:]:
        case [what, binary] if what in ways:
            ways[what](binary)
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
