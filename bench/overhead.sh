#!/usr/bin/env bash
# Measures the cost of tracing: counts instructions in guests, and prints a table for each kernel. See README.md beside it.
#
#   overhead.sh [KERNEL...]       6.12 and newest by default; for 5.10 and 6.1, only the cost of each kind of event
#
# CONTENDERS="none direct"        only these of none, direct, calls, requests, whole, records, watched, tracepoint, paper,
#                               bpftrace
# ROUNDS=3                        repetitions; the first is discarded (6)
# IDLE=0                          guest's seconds to watch an idle recorder (60); 0 skips this
# NFS="3 4.0"                     versions of NFS (3)
# TRACKIOPS_BIN=path              measure this binary instead of building the release
# TRACKIOPS_WRITE_DOCS=1          rewrite docs/results/overhead.md
set -euo pipefail
cd "$(dirname "$0")/.."

contenders=${CONTENDERS:-none direct calls requests whole records watched tracepoint paper bpftrace}
nfs=${NFS:-3}
events_only=""
[ $# -gt 0 ] || { set -- 6.12 newest 5.10 6.1; events_only="5.10 6.1"; }
TRACKIOPS_BIN=${TRACKIOPS_BIN:-$(scripts/release.sh)}
export TRACKIOPS_BIN
results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT

# The program of the paper's design, linked statically like the release.
build_paper() (
    . scripts/target.sh
    build_for "$(uname -m)"
    cargo build --release --locked --package trackiops-bench-paper --target "$triple" >&2
    target=$(cargo metadata --format-version 1 --no-deps --locked | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')
    echo "$target/$triple/release/trackiops-bench-paper"
)

guest=(--deb bpftrace)
[[ $contenders == *bpftrace* ]] || guest=()
add=(--add bench/overhead.py --add bench/paper.bt)
if [[ $contenders == *paper* ]]; then
    paper=$(build_paper)
    add+=(--add "$paper")
fi

# measure KERNEL VERSION
measure() {
    local contenders=$contenders
    [[ " $events_only " != *" $1 "* ]] || contenders=""
    # shellcheck disable=SC2086 # words
    cargo vm run --icount --quiet --kernel "$1" --nfs "$2" "${guest[@]}" "${add[@]}" --timeout 7200 \
        --out "$results/$1-$2" bench/guest.sh --rounds "${ROUNDS:-6}" --idle "${IDLE:-60}" $contenders \
        2> >(sed -u "s/^/$1, NFS $2: /" >&2) ||
        { echo "bench: measuring on $1 with NFS $2 failed, as said above" >&2; return 1; }
}

for kernel; do cargo vm fetch --kernel "$kernel" "${guest[@]}"; done
for version in $nfs; do
    # Concurrently: counts do not depend on the machine's other work.
    running=()
    for kernel; do
        measure "$kernel" "$version" &
        running+=($!)
    done
    for process in "${running[@]}"; do wait "$process"; done
done

tables() {
    local version kernel
    for version in $nfs; do
        for kernel; do
            cat "$results/$kernel-$version/table.md"
            echo
        done
    done
}

page() {
    cat bench/overhead.head.md
    echo
    tables "$@"
}

tables "$@"
if [ "${TRACKIOPS_WRITE_DOCS:-}" = 1 ]; then
    page "$@" | sed -e '$d' >docs/results/overhead.md
fi
