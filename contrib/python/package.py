"""Builds the source distribution and the wheel of this directory: `package.py OUT`, by way of scripts/python-package.sh.

REPOSITORY_URL in the environment is where the README's links lead, and becomes metadata. Without it links become their text.
SOURCE_DATE_EPOCH is the time of all files.
"""

import gzip
import io
import os
import re
import shutil
import sys
import tarfile
import tempfile
from pathlib import Path

from setuptools import build_meta

HERE = Path(__file__).resolve().parent
LINK = re.compile(r"\[([^\]]+)\]\((?:\.\./){2}([^)]+)\)")


def sources(at: Path, url: str) -> None:
    """What belongs to the package, with links that lead somewhere without the repository."""
    shutil.copytree(HERE / "trackiops", at / "trackiops", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("LICENSE-APACHE", "LICENSE-MIT"):
        shutil.copyfile(HERE / name, at / name)
    project = (HERE / "pyproject.toml").read_text(encoding="utf-8")
    [version] = re.findall(r'^version = "(.+)"$', project, re.MULTILINE)
    files = f"{url}/blob/v{version}"
    readme = (HERE / "README.md").read_text(encoding="utf-8")
    readme = LINK.sub(rf"[\1]({files}/\2)" if url else r"\1", readme)
    assert "](.." not in readme, "a link of the README leads out of the package"
    (at / "README.md").write_text(readme, encoding="utf-8")
    if url:
        urls = f'[project.urls]\nRepository = "{url}"\nChangelog = "{files}/CHANGELOG.md"\n\n'
        project = project.replace("[project.optional-dependencies]", urls + "[project.optional-dependencies]")
    (at / "pyproject.toml").write_text(project, encoding="utf-8")


def repack(archive: Path, epoch: int) -> None:
    """Writes an archive of setuptools again without times, users and order of the machine."""
    packed = io.BytesIO()
    with tarfile.open(archive) as old, tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as new:
        for entry in sorted(old.getmembers(), key=lambda entry: entry.name):
            entry.mtime, entry.uid, entry.gid, entry.uname, entry.gname = epoch, 0, 0, "", ""
            entry.mode, entry.pax_headers = 0o755 if entry.isdir() else 0o644, {}
            assert entry.isdir() or entry.isreg(), f"{entry.name} is neither a file nor a directory"
            new.addfile(entry, old.extractfile(entry) if entry.isreg() else None)
    archive.write_bytes(gzip.compress(packed.getvalue(), 9, mtime=epoch))


def main() -> None:
    out, epoch = Path(sys.argv[1]).resolve(), int(os.environ["SOURCE_DATE_EPOCH"])
    os.umask(0o022)
    with tempfile.TemporaryDirectory() as scratch:
        at = Path(scratch, "source")
        sources(at, os.environ.get("REPOSITORY_URL", "").rstrip("/"))
        os.chdir(at)
        sdist = build_meta.build_sdist(str(out))
        repack(out / sdist, epoch)
        # The wheel is built from what others get.
        with tarfile.open(out / sdist) as archive:
            archive.extractall(scratch, filter="data")
        os.chdir(Path(scratch, sdist.removesuffix(".tar.gz")))
        build_meta.build_wheel(str(out))
        os.chdir(out)


main()
