#!/usr/bin/env bash
# Prints the path of a Python with the packages of a requirements file. Makes it in the cache if it is not there yet. The directory's name
# depends on the content of the file. The file's first line lists the modules that must be importable.
#
#   python.sh [FILE]      default: tests/python/requirements.txt
set -euo pipefail
cd "$(dirname "$0")/.."

requirements=${1:-tests/python/requirements.txt}
imports=$(sed -n '1s/^# imports: //p' "$requirements")
key=$( (cat "$requirements"; python3 --version) | sha256sum | cut -c1-16)
venv=${XDG_CACHE_HOME:-$HOME/.cache}/trackiops/python-$key
# The packages must really work: an incomplete environment is made again.
if ! "$venv/bin/python" -c "import $imports" 2>/dev/null; then
    echo "python: installing $(grep -v '^#' "$requirements" | paste -sd' ') into the cache" >&2
    rm -rf "$venv"
    python3 -m venv "$venv"
    "$venv/bin/pip" --quiet --disable-pip-version-check install -r "$requirements" >&2
fi
echo "$venv/bin/python"
