#!/usr/bin/env bash
# Measures queries of trackiops and of other programs on the same files, and prints tables. See README.md beside it.
#
# FILES=100 HOURS=24           the synthetic day; 4000 files are the whole day, 400 a tenth
# ROUNDS=7                     repetitions; the first is discarded
# TRACKIOPS_BIN=path           measure this binary instead of building the release
# TRACKIOPS_WRITE_DOCS=1       rewrite docs/results/query-performance.md
set -euo pipefail
cd "$(dirname "$0")/.."
. bench/day_store.sh

python=$(scripts/python.sh bench/requirements.txt)
TRACKIOPS_BIN=${TRACKIOPS_BIN:-$(scripts/release.sh)}
export TRACKIOPS_BIN
results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT

day=$(store "${FILES:-100}" "${HOURS:-24}")
# Ten times the days, of fewer files.
one=$(store 10 24)
ten=$(store 10 240)
"$python" bench/query.py --rounds "${ROUNDS:-7}" --day "$day" --one "$one" --ten "$ten" >"$results/tables.md"
cat "$results/tables.md"
if [ "${TRACKIOPS_WRITE_DOCS:-}" = 1 ]; then
    { cat bench/query.head.md; echo; cat "$results/tables.md"; } >docs/results/query-performance.md
fi
