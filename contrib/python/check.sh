#!/usr/bin/env bash
# Checks the package: two builds have the same bytes, types are complete, and docs/reference/python.md is current. The wheel works with the
# least and with the newest versions, in fresh environments below ${XDG_CACHE_HOME:-~/.cache}/trackiops.
#
#   [PYTHON=...] [PYTHON_LEAST=...] check.sh
#
# Python 3.10 or 3.11 has wheels of the least versions. PYTHON_LEAST names one where neither is in PATH.
set -euo pipefail
cd "$(dirname "$0")/../.."
export PIP_DISABLE_PIP_VERSION_CHECK=1
cache=${XDG_CACHE_HOME:-$HOME/.cache}/trackiops

die() { echo "check.sh: error: $*" >&2; exit 1; }

build_twice() {
    mkdir "$scratch/a" "$scratch/b"
    scripts/python-package.sh "$scratch/a"
    # From files with other times and modes, at another path.
    mkdir -p "$scratch/another/contrib"
    cp -rL contrib/python "$scratch/another/contrib"
    (
        umask 077
        find "$scratch/another" -type f -exec touch -d 2001-01-01 {} + -exec chmod 700 {} +
        SOURCE_DATE_EPOCH=$(git log -1 --format=%ct) "$(scripts/python.sh contrib/python/build.txt)" \
            "$scratch/another/contrib/python/package.py" "$scratch/b" >"$scratch/log" 2>&1 || { cat "$scratch/log" >&2; exit 1; }
    )
    for file in "$scratch"/a/*; do cmp "$file" "$scratch/b/${file##*/}" || die "two builds differ"; done
}

check_types() {
    local python
    python=$(scripts/python.sh contrib/python/types.txt)
    (cd contrib/python && "$python" -m mypy --cache-dir "$scratch/mypy")
    "$python" scripts/python-reference.py --check
}

# The first of some Pythons that starts and is old enough.
least_python() {
    local python
    for python in ${PYTHON_LEAST:-python3.10 python3.11 python3}; do
        if "$python" -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 11))' 2>/dev/null; then
            echo "$python"
            return
        fi
    done
    die "no Python 3.10 or 3.11, for which the least versions have wheels: name one with PYTHON_LEAST"
}

# install_and_test NAME PYTHON CONSTRAINTS...
install_and_test() {
    local venv=$cache/python-package-$1 python=$2 file constraints=()
    shift 2
    for file; do constraints+=(--constraint "$file"); done
    rm -rf "$venv"
    "$python" -m venv "$venv"
    "$venv/bin/pip" --quiet install --only-binary :all: "${constraints[@]}" "$(echo "$scratch"/a/*.whl)[pandas,plots]" matplotlib
    "$venv/bin/pip" --quiet check
    (cd "$scratch" && "$venv/bin/python" "$root/tests/science/installed.py" "$root/store/tests/format-1")
}

root=$PWD
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
build_twice
check_types
least=$(least_python)
install_and_test least "$least" tests/science/least.txt tests/science/plots-least.txt
install_and_test newest "${PYTHON:-python3}" tests/science/requirements.txt tests/science/plots-newest.txt
