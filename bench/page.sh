#!/usr/bin/env bash
# Measures the page of `trackiops serve` in a browser over a synthetic day, and prints a table. See README.md beside it.
#
# FILES=200 HOURS=24           the synthetic day
# ROUNDS=5                     repetitions
# TRACKIOPS_BIN=path           measure this binary instead of building the release
# TRACKIOPS_WRITE_DOCS=1       rewrite docs/results/page.md
set -euo pipefail
cd "$(dirname "$0")/.."
. bench/day_store.sh

files=${FILES:-200} hours=${HOURS:-24}
TRACKIOPS_BIN=${TRACKIOPS_BIN:-$(scripts/release.sh)}
day=$(store "$files" "$hours")
results=$(mktemp -d)
# The program refuses to run as root. Root passes on the right to read the store.
as_nobody=()
[ "$(id -u)" != 0 ] || as_nobody=(setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=+dac_read_search --ambient-caps=+dac_read_search)
"${as_nobody[@]}" "$TRACKIOPS_BIN" serve --listen 127.0.0.1:0 --store "$day" 2>"$results/said" &
server=$!
trap 'kill "$server"; rm -rf "$results"' EXIT
until grep -q '^serving at' "$results/said"; do
    kill -0 "$server" || { cat "$results/said" >&2; exit 1; }
    sleep 0.1
done
ADDRESS=$(sed -n 's/^serving at //p' "$results/said") HOURS=$hours ROUNDS=${ROUNDS:-5} \
    node bench/page.mjs >"$results/table.md"
{
    echo "## $files files, $hours hours"
    echo
    cat "$results/table.md"
} >"$results/tables.md"
cat "$results/tables.md"
if [ "${TRACKIOPS_WRITE_DOCS:-}" = 1 ]; then
    { cat bench/page.head.md; echo; cat "$results/tables.md"; } >docs/results/page.md
fi
