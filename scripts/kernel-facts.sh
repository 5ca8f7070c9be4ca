#!/usr/bin/env bash
# Boots each named kernel, or each kernel in the repository, and updates its facts in the repository.
set -euo pipefail
cd "$(dirname "$0")/.."

new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT

# shellcheck disable=SC2046 # words
[ $# -gt 0 ] || set -- $(ls collector/tests/kernels)
for kernel; do
    kept=collector/tests/kernels/$kernel
    # The facts stay as they are if the guest fails.
    rm -rf "${new:?}"/*
    cargo vm run --no-nfs --kernel "$kernel" --out "$new" tests/guest/scripts/facts.sh
    python3 tests/python/btf_extract.py "$new"
    rm -rf "$kept"
    mkdir -p "$kept"
    cp -r "$new"/. "$kept"
done
