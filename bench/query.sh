#!/usr/bin/env bash
# What a question takes, of trackiops and of others who read the same files: prints tables. See README.md beside it.
#
# FILES=100 HOURS=24           the synthetic day; 4000 files are all of it, 400 a tenth
# ROUNDS=7                     repetitions, of which the first is discarded
# TRACKIOPS_BIN=path           measure this binary instead of building the release
# TRACKIOPS_WRITE_DOCS=1       rewrite docs/results/query-performance.md
set -euo pipefail
cd "$(dirname "$0")/.."

python=$(scripts/python.sh bench/requirements.txt)
TRACKIOPS_BIN=${TRACKIOPS_BIN:-$(scripts/release.sh)}
export TRACKIOPS_BIN
results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT

# store FILES HOURS: prints the path of the store of that day, made in the cache when it is not there yet. It is named by
# the content of all that it is made by.
store() {
    local key dir
    key=$(git ls-files -- bench/day collector/src schemas/src store/src threads/src Cargo.lock | xargs sha256sum | sha256sum | cut -c1-16)
    dir=${XDG_CACHE_HOME:-$HOME/.cache}/trackiops/day-$key/$1-files-$2-hours
    if [ ! -d "$dir" ]; then
        echo "bench: making a day of $1 files and $2 hours in the cache" >&2
        mkdir -p "$(dirname "$dir")"
        rm -rf "$dir.new"
        cargo run --release --locked --quiet --package trackiops-bench-day -- \
            --store "$dir.new" --files "$1" --hours "$2" --compact >&2
        mv "$dir.new" "$dir"
    fi
    echo "$dir"
}

day=$(store "${FILES:-100}" "${HOURS:-24}")
# Ten times the days, of fewer files.
one=$(store 10 24)
ten=$(store 10 240)
"$python" bench/query.py --rounds "${ROUNDS:-7}" --day "$day" --one "$one" --ten "$ten" >"$results/tables.md"
cat "$results/tables.md"
if [ "${TRACKIOPS_WRITE_DOCS:-}" = 1 ]; then
    { cat bench/query.head.md; echo; cat "$results/tables.md"; } >docs/results/query-performance.md
fi
