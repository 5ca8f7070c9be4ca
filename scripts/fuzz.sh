#!/usr/bin/env bash
# Builds the fuzz targets and runs each for a while; prints the results as rows of a Markdown table. See fuzz/README.md.
#
# FUZZ_SECONDS=60      how long each target runs
# FUZZ_TARGETS="..."   only these targets
# FUZZ_JOBS=n          parallel jobs; default: all processors
#
# Findings go to fuzz/artifacts. Inputs that execute new code go to fuzz/corpus, where the next run begins.
set -euo pipefail
cd "$(dirname "$0")/../fuzz"

command -v c++ >/dev/null || ../scripts/install.sh g++
: "${FUZZ_SECONDS:=60}" "${FUZZ_JOBS:=$(nproc)}"
all=$(sed -n 's|^path = "fuzz_targets/\(.*\)\.rs"|\1|p' Cargo.toml)
: "${FUZZ_TARGETS:=$all}"

# libFuzzer's compiler flags need no nightly. With --target, build scripts and macros are built without them.
triple=$(rustc -vV | sed -n 's/^host: //p')
flags=(-Cpasses=sancov-module)
for flag in level=4 inline-8bit-counters pc-table trace-compares; do
    flags+=("-Cllvm-args=-sanitizer-coverage-$flag")
done
CARGO_ENCODED_RUSTFLAGS=$(IFS=$'\x1f'; printf %s "${flags[*]}")
export CARGO_ENCODED_RUSTFLAGS
bins=()
for target in $FUZZ_TARGETS; do bins+=(--bin "$target"); done
cargo build --release --locked --quiet --target "$triple" "${bins[@]}" >&2
built=$(cargo metadata --format-version 1 --no-deps --locked | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')/$triple/release

# A file system in memory, because each execution writes a file.
shm=/dev/shm
[ -w "$shm" ] || shm=${TMPDIR:-/tmp}
scratch=$(mktemp -d -p "$shm" trackiops-fuzz.XXXXXX)
trap 'rm -rf "$scratch"' EXIT
export TMPDIR=$scratch
# In this zone, clocks go forward at midnight.
export TZ=Africa/Cairo

run() {
    local target=$1 log=$scratch/$1.log options=() longest
    # A few KB more than the longest seed.
    longest=$(stat -c %s "seeds/$target"/* | sort -n | tail -n 1)
    mkdir -p "corpus/$target" "artifacts/$target"
    [ ! -f "dictionaries/$target.txt" ] || options+=("-dict=dictionaries/$target.txt")
    local status=failed
    if "$built/$target" "corpus/$target" "seeds/$target" -max_total_time="$FUZZ_SECONDS" -timeout=10 -rss_limit_mb=512 \
        -max_len="$((longest + 4096))" -print_final_stats=1 -artifact_prefix="artifacts/$target/" \
        "${options[@]}" >"$log" 2>&1; then
        status=none
    else
        grep -aE -m3 'panicked|ERROR:|^more than' "$log" | sed "s|^|fuzz: $target: |" >&2
        tail -n 3 "$log" | sed "s|^|fuzz: $target: |" >&2
    fi
    # The last line with counts: #1234 NEW cov: 1 ft: 2 corp: 3/4Kb ...
    local last edges inputs bytes executions
    last=$(grep -aE '^#[0-9]+.* cov: ' "$log" | tail -n 1)
    executions=$(sed -n 's/^stat::number_of_executed_units: //p' "$log")
    : "${executions:=$(sed -n 's/^#\([0-9]*\).*/\1/p' <<<"$last")}"
    edges=$(sed -n 's/.* cov: \([0-9]*\).*/\1/p' <<<"$last")
    inputs=$(sed -n 's|.* corp: \([0-9]*\)/.*|\1|p' <<<"$last")
    bytes=$(sed -n 's|.* corp: [0-9]*/\([0-9]*[A-Za-z]*\).*|\1|p' <<<"$last")
    echo "| \`$target\` | ${executions:-0} | ${edges:-0} | ${inputs:-0} | ${bytes:-0} | $status |" >"$scratch/$target.row"
}
export -f run
export scratch built FUZZ_SECONDS

echo '| target | executions | edges | inputs kept | their bytes | failures |'
echo '|---|---:|---:|---:|---:|---|'
xargs -P "$FUZZ_JOBS" -I{} bash -c 'run {}' <<<"${FUZZ_TARGETS// /$'\n'}"
failed=0
for target in $FUZZ_TARGETS; do
    cat "$scratch/$target.row"
    ! grep -q '| failed |$' "$scratch/$target.row" || failed=1
done
[ "$failed" = 0 ] || { echo "fuzz: what failed is in fuzz/artifacts" >&2; exit 1; }
