#!/usr/bin/env bash
# Writes the store of a synthetic day, and prints what that took. See README.md beside it.
#
# FILES=4000 HOURS=24   the whole day: 8 billion requests, 170 million entries of 1 s (400 files, a tenth)
# STORE=directory       keep the store there, and leave it
set -euo pipefail
cd "$(dirname "$0")/.."

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cargo build --release --locked --quiet --package trackiops-bench-day
target=$(cargo metadata --format-version 1 --no-deps --locked | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')
"$target/release/trackiops-bench-day" --store "${STORE:-$scratch/store}" --files "${FILES:-400}" --hours "${HOURS:-24}"
