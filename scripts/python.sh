#!/usr/bin/env bash
# Prints the path of a Python that has what a requirements file names, made in the cache when it is not there yet. The
# directory is named by the content of the file, whose first line says what must be importable.
#
#   python.sh [FILE]      tests/python/requirements.txt unless told otherwise
set -euo pipefail
cd "$(dirname "$0")/.."

requirements=${1:-tests/python/requirements.txt}
imports=$(sed -n '1s/^# imports: //p' "$requirements")
key=$( (cat "$requirements"; python3 --version) | sha256sum | cut -c1-16)
venv=${XDG_CACHE_HOME:-$HOME/.cache}/trackiops/python-$key
# The packages must really work: a half-made environment is made again.
if ! "$venv/bin/python" -c "import $imports" 2>/dev/null; then
    echo "python: installing $(grep -v '^#' "$requirements" | paste -sd' ') into the cache" >&2
    rm -rf "$venv"
    python3 -m venv "$venv"
    "$venv/bin/pip" --quiet --disable-pip-version-check install -r "$requirements" >&2
fi
echo "$venv/bin/python"
