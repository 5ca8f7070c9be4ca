#!/usr/bin/env bash
# Downloads a package of PyPI that has one of these checksums into a directory.
#
#   [PYTHON=...] wheel.sh DIRECTORY NAME==VERSION SHA256...
set -euo pipefail
cd "$(dirname "$0")/.."

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
python=${PYTHON:-python3}
# The system's Python may have no pip.
if ! "$python" -c 'import pip' 2>/dev/null; then
    python3 -c 'import venv, ensurepip' 2>/dev/null || scripts/install.sh python3-venv
    python3 -m venv "$scratch/venv"
    python=$scratch/venv/bin/python
fi
{
    printf '%s' "$2"
    printf ' --hash=sha256:%s' "${@:3}"
} >"$scratch/requirements.txt"
"$python" -m pip --quiet --disable-pip-version-check download --no-deps --only-binary=:all: --require-hashes \
    --dest "$1" --requirement "$scratch/requirements.txt" >&2
