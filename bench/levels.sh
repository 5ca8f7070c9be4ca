#!/usr/bin/env bash
# Measures the cost of recording levels: counts instructions in guests, and prints a table for each kernel.
#
#   levels.sh [KERNEL...]         6.12 and newest by default
#
# TRACKIOPS_BIN=path              measure this binary instead of building the release
# TRACKIOPS_WRITE_DOCS=1          rewrite docs/results/levels.md
set -euo pipefail
cd "$(dirname "$0")/.."

[ $# -gt 0 ] || set -- 6.12 newest
TRACKIOPS_BIN=${TRACKIOPS_BIN:-$(scripts/release.sh)}
export TRACKIOPS_BIN
results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT
# Measure without shedding any detail.
echo 'exec env TRACKIOPS_RECORD_MAX_OVERHEAD=100% python3 /work/levels.py' >"$results/levels.sh"

for kernel; do
    cargo vm run --icount --quiet --kernel "$kernel" --no-nfs --deb bpftrace --timeout 3600 \
        --add bench/levels.py --add bench/iotracer.bt --out "$results/$kernel" "$results/levels.sh" >&2
done

page() {
    cat bench/levels.head.md
    for kernel; do
        echo
        cat "$results/$kernel/table.md"
    done
}

page "$@"
if [ "${TRACKIOPS_WRITE_DOCS:-}" = 1 ]; then page "$@" >docs/results/levels.md; fi
