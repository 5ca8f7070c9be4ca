#!/usr/bin/env bash
# Damages stores, and fails and kills the system calls of a recorder; prints what that came to. See README.md beside it.
#
# MUTANTS=100000 SEED=1   how many stores are damaged, and from which seed
# PLACES=6 KILLS=40       at how many places of each system call it fails with each error, and kills
# RECORDERS=60            no more recorders than that, chosen from all
# SHORT=1                 about a minute of it, for `make test-long`
# KEEP=directory          keep each damaged store that fails
# TRACKIOPS_WRITE_DOCS=1  rewrite docs/results/faults.md
set -euo pipefail
cd "$(dirname "$0")/.."

if [ "${SHORT:-}" = 1 ]; then
    : "${MUTANTS:=300}" "${RECORDERS:=60}"
fi
command -v strace >/dev/null || scripts/install.sh strace
cargo build --release --locked --quiet --package trackiops-bench-faults --features fail-points
target=$(cargo metadata --format-version 1 --no-deps --locked | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')
faults=$target/release/trackiops-bench-faults

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
jobs=$(nproc)
status=0
keep=()
[ -z "${KEEP:-}" ] || keep=(--keep "$KEEP")
"$faults" mutate --mutants "${MUTANTS:-100000}" --seed "${SEED:-1}" --jobs "$jobs" "${keep[@]}" | tee "$scratch/mutants" || status=1
echo
"$faults" calls --places "${PLACES:-6}" --kills "${KILLS:-40}" --most "${RECORDERS:-1000000}" --seed "${SEED:-1}" --jobs "$jobs" | tee "$scratch/calls" || status=1
if [ "${TRACKIOPS_WRITE_DOCS:-}" = 1 ]; then
    mkdir -p docs/results
    {
        cat bench/faults.head.md
        printf '\n## Damaged stores\n\nOn %s cores. ' "$jobs"
        cat "$scratch/mutants"
        printf '\n## System calls\n\nOn %s cores. ' "$jobs"
        cat "$scratch/calls"
    } >docs/results/faults.md
fi
exit "$status"
