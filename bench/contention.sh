#!/usr/bin/env bash
# Measures whether tracing makes CPUs wait for locks: profiles 64 threads in guests, and prints a table. See README.md beside it.
#
#   contention.sh [KERNEL...]       6.12 and newest by default
#
# CONTENDERS="none direct"        only these of none, direct, tracepoint, control
# CPUS="4"                        CPUs of the guests (2 4)
# SECONDS_EACH=30                 seconds of reading, and then of writing, under each contender (10)
# TRACKIOPS_BIN=path              profile this binary instead of building the release
# TRACKIOPS_WRITE_DOCS=1          rewrite docs/results/contention.md
set -euo pipefail
cd "$(dirname "$0")/.."

contenders=${CONTENDERS:-none direct tracepoint control}
[ $# -gt 0 ] || set -- 6.12 newest
results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT

table() {
    cat <<'HEAD'
| Linux | CPUs | tracer | requests | samples | in BPF | waiting for a lock | of these in BPF | waits | of these in BPF |
|---|---|---|---|---|---|---|---|---|---|
HEAD
    cat "$results"/*/row.*
}

page() {
    cat <<'HEAD'
# Locks

Written by `make bench-contention`. How it is measured, and what the tracers are: `bench/README.md`.

64 threads read and write files of their own over NFS 4.2, on fewer CPUs than threads. *Samples* are those of CPUs that were not idle, and the
three columns after it shares or numbers of them. *Waits* are counted, not sampled: how often a spinlock that was taken had to be waited for.

HEAD
    table
}

guest=0
for kernel; do
    for cpus in ${CPUS:-2 4}; do
        # In the order of the table, one after the other: emulated CPUs hold their locks while they wait for the host's CPUs.
        # shellcheck disable=SC2086 # words
        cargo vm run --quiet --kernel "$kernel" --cpus "$cpus" --deb linux-perf,bpftrace --timeout 1800 \
            --add tests/guest/scripts/lib.sh --add bench/contention.py --out "$results/$((guest++))" \
            bench/contention_guest.sh "$cpus" "${SECONDS_EACH:-10}" $contenders >&2
    done
done
table
if [ "${TRACKIOPS_WRITE_DOCS:-}" = 1 ]; then
    page >docs/results/contention.md
fi
