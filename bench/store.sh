#!/usr/bin/env bash
# Writes the store of a synthetic day, and prints the costs, and the sizes of its columns in other encodings. See README.md beside it.
#
# FILES=4000 HOURS=24   the whole day: 8 billion requests, 170 million entries of 1 s (400 files, a tenth)
# STORE=directory       write the store there, and keep it
# TRACKIOPS_WRITE_DOCS=1  rewrite docs/results/store.md
set -euo pipefail
cd "$(dirname "$0")/.."

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
store=${STORE:-$scratch/store}
cargo build --release --locked --quiet --package trackiops-bench-day
target=$(cargo metadata --format-version 1 --no-deps --locked | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')
"$target/release/trackiops-bench-day" --store "$store" --files "${FILES:-400}" --hours "${HOURS:-24}" | tee "$scratch/day"
echo
"$target/release/trackiops-bench-encodings" --store "$store" | tee "$scratch/encodings"
if [ "${TRACKIOPS_WRITE_DOCS:-}" = 1 ]; then
    {
        cat bench/store.head.md
        printf '\n## %s files, %s hours\n\n```\n' "${FILES:-400}" "${HOURS:-24}"
        cat "$scratch/day"
        printf '```\n\n## Encodings\n\n'
        cat "$scratch/encodings"
    } >docs/results/store.md
fi
