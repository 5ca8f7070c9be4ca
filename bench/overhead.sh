#!/usr/bin/env bash
# What tracing costs: counts instructions in guests, and prints a table for each kernel.
#
#   overhead.sh [KERNEL...]       6.12 and newest unless told otherwise
#
# CONTENDERS="none direct"        only these of none, direct, tracepoint
# ROUNDS=3                        repetitions, of which the first is discarded (6)
# IDLE=0                          guest's seconds to look at an idle recorder (60); 0: do not
# TRACKIOPS_BIN=path              measure this binary instead of building the release
set -euo pipefail
cd "$(dirname "$0")/.."

contenders=${CONTENDERS:-none direct tracepoint}
[ $# -gt 0 ] || set -- 6.12 newest
TRACKIOPS_BIN=${TRACKIOPS_BIN:-$(scripts/release.sh)}
export TRACKIOPS_BIN
results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT

measure() {
    # shellcheck disable=SC2086 # words
    cargo vm run --icount --nfs 3 --kernel "$1" --out "$results/$1" --timeout 7200 --quiet \
        --add bench/overhead.py bench/guest.sh --rounds "${ROUNDS:-6}" --idle "${IDLE:-60}" $contenders \
        >"$results/$1.out" 2>"$results/$1.err" ||
        { cat "$results/$1.err" "$results/$1.out" >&2; echo "bench: measuring on $1 failed (see above)" >&2; return 1; }
}

# Side by side: counts do not depend on what else the machine does.
cargo vm fetch --kernel "$1" >&2
running=()
for kernel; do
    measure "$kernel" &
    running+=($!)
done
for process in "${running[@]}"; do wait "$process"; done
for kernel; do
    cat "$results/$kernel/table.md"
    echo
done
