#!/usr/bin/env bash
# Prints the path of a Python that has tests/python/requirements.txt, made in the cache when it is not
# there yet. The directory is named by the content of the requirements.
set -euo pipefail
cd "$(dirname "$0")/.."

requirements=tests/python/requirements.txt
key=$( (cat $requirements; python3 --version) | sha256sum | cut -c1-16)
venv=${XDG_CACHE_HOME:-$HOME/.cache}/trackiops/python-$key
# The packages must really work: a half-made environment is made again.
if ! "$venv/bin/python" -c 'import duckdb, pyarrow' 2>/dev/null; then
    echo "python: installing $(paste -sd' ' $requirements) into the cache" >&2
    rm -rf "$venv"
    python3 -m venv "$venv"
    "$venv/bin/pip" --quiet --disable-pip-version-check install -r $requirements >&2
fi
echo "$venv/bin/python"
