#!/usr/bin/env bash
# Builds the wheel and the source distribution of contrib/python into a directory, checks their metadata, and prints their paths. The same
# commit and Python give the same bytes.
#
#   [REPOSITORY_URL=URL] [SOURCE_DATE_EPOCH=SECONDS] python-package.sh DIRECTORY
#
# Links in the README lead to REPOSITORY_URL. SOURCE_DATE_EPOCH is the time of the commit by default.
set -euo pipefail
cd "$(dirname "$0")/.."

[ $# -eq 1 ] || { echo "${0##*/}: error: name a directory" >&2; exit 2; }
mkdir -p "$1"
out=$(cd "$1" && pwd)
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
python=$(scripts/python.sh contrib/python/build.txt)
log=$(mktemp)
trap 'rm -f "$log"' EXIT
rm -f "$out"/trackiops-*.whl "$out"/trackiops-*.tar.gz
{
    "$python" contrib/python/package.py "$out"
    "$python" -m twine check --strict "$out"/trackiops-*.whl "$out"/trackiops-*.tar.gz
} >"$log" 2>&1 || { cat "$log" >&2; exit 1; }
ls "$out"/trackiops-*.whl "$out"/trackiops-*.tar.gz
