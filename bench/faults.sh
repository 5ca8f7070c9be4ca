#!/usr/bin/env bash
# Damages stores, fails and kills the system calls of a recorder, and cuts the power of its disk; prints the results.
# See README.md beside it.
#
# MUTANTS=120000 SEED=1   how many stores are damaged, 10,000 for each kind of file, and from which seed
# PLACES=2 KILLS=2000     places of each system call at which it fails with each error, and at which it kills
# ROUNDS=3                rounds over the calls
# ALLOCATIONS=2000        number of memory allocations that fail
# RECORDERS=60            most recorders, chosen from all
# CUTS=1000               number of power cuts
# BOMBS=200               forged files for each reader of files
# TRACKIOPS_BIN=path      the binary that reads forged files, instead of building the release
# SHORT=1                 about two minutes of it, for `make test-long`
# REPLAY=host             check the power cuts on this machine, not in the guest: needs root, several times quicker
# ONLY=cuts               run only this part: mutants, calls, cuts, bombs or fuzz
# FUZZ_SECONDS=0          also run each fuzz target for this long (fuzz/README.md)
# REPORTS=directory       keep the report of each part there, and skip parts whose report exists: they take hours
# KEEP=directory          keep each damaged store that fails, and the logs of the disks
# TRACKIOPS_WRITE_DOCS=1  rewrite docs/results/faults.md; parts that did not run stay unchanged
set -euo pipefail
cd "$(dirname "$0")/.."

if [ "${SHORT:-}" = 1 ]; then
    : "${MUTANTS:=300}" "${RECORDERS:=60}" "${CUTS:=30}"
fi
command -v strace >/dev/null || scripts/install.sh strace
# It also runs in guests. A subshell, because the flags are not for `cargo vm`.
faults=$(
    . scripts/target.sh
    build_for "$(uname -m)"
    cargo build --release --locked --quiet --target "$triple" --package trackiops-bench-faults --features fail-points >&2
    target=$(cargo metadata --format-version 1 --no-deps --locked | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')
    echo "$target/$triple/release/trackiops-bench-faults"
)

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
reports=${REPORTS:-$scratch}
mkdir -p "$reports"
# Jobs mostly wait: for disks, for each other, or to see whether a torn end is still being written.
jobs=$((8 * $(nproc)))
status=0

# part NAME COMMAND...: runs a part and keeps its report for the page. The report of a failed part is not reused.
part() {
    local name=$1 key kept
    shift
    case ${ONLY:-$name} in "$name") ;; *) return ;; esac
    # The key covers this program and these flags.
    key=$({ echo "$@" "${CUTS:-} ${SEED:-} ${REPLAY:-} ${FUZZ_SECONDS:-}"; cat "$faults"; } | sha256sum | cut -c1-16)
    kept=$reports/$name-$key
    if [ -f "$kept" ]; then
        cat "$kept"
    elif "$@" | tee "$scratch/now"; then
        cp "$scratch/now" "$kept"
    else
        status=1
        return
    fi
    cp "$kept" "$scratch/$name"
    echo
}

keep=()
[ -z "${KEEP:-}" ] || keep=(--keep "$KEEP")
part mutants "$faults" mutate --mutants "${MUTANTS:-120000}" --seed "${SEED:-1}" --jobs "$jobs" "${keep[@]}"
part calls "$faults" calls --places "${PLACES:-2}" --kills "${KILLS:-2000}" --rounds "${ROUNDS:-3}" \
    --allocations "${ALLOCATIONS:-2000}" --most "${RECORDERS:-1000000}" --seed "${SEED:-1}" --jobs "$jobs"

# guest FLAG...: `cargo vm` puts that program into the guest instead of a release, which is not needed there.
guest() {
    local out=()
    [ -z "$logs" ] || out=(--out "$logs")
    TRACKIOPS_BIN=$faults cargo vm run --quiet --no-nfs --deb xfsprogs --timeout 14400 "${out[@]}" bench/cuts_guest.sh "$@"
}

cuts() {
    local flags=(--cuts "${CUTS:-1000}" --seed "${SEED:-1}" --jobs "$jobs") logs=${KEEP:-}
    if [ "${REPLAY:-}" != host ]; then
        guest "${flags[@]}"
        return
    fi
    logs=${logs:-$scratch/logs}
    guest --record || return
    "$faults" cuts --dir "$logs" --replay "${flags[@]}"
}
part cuts cuts

# bombs COUNT: prints what the test prints, from its first result to the end of its table.
bombs() {
    TRACKIOPS_BIN=$(realpath "${TRACKIOPS_BIN:-$(scripts/release.sh)}") TRACKIOPS_TEST_FORGED=$1 \
        cargo test --locked --quiet --features fail-points --workspace --test program -- \
        --ignored --nocapture --exact bombs::every_reader::every_reader_ends_with_200_forged_files |
        awk '/ forged files and / { shown = 1 } /^test / { shown = 0 } shown { print > "/dev/stdout"; next } { print > "/dev/stderr" }'
}
# `make test` has a few of them.
[ "${SHORT:-}" = 1 ] || part bombs bombs "${BOMBS:-200}"
[ "${FUZZ_SECONDS:-0}" = 0 ] || part fuzz env FUZZ_SECONDS="$FUZZ_SECONDS" scripts/fuzz.sh

# section TITLE PART INTRODUCTION: the results of the part, or the page's older results.
section() {
    if [ -f "$scratch/$2" ]; then
        printf '\n## %s\n\nAt commit %s, on %s cores. %s' "$1" "$(git rev-parse --short HEAD)" "$(nproc)" "$3"
        cat "$scratch/$2"
    elif [ -f "$scratch/page" ]; then
        echo
        awk -v "title=## $1" '/^## / { shown = $0 == title } shown' "$scratch/page" | sed '$ { /^$/d }'
    fi
}

if [ "${TRACKIOPS_WRITE_DOCS:-}" = 1 ] && [ "$status" = 0 ]; then
    page=docs/results/faults.md
    mkdir -p docs/results
    [ ! -f "$page" ] || cp "$page" "$scratch/page"
    {
        cat bench/faults.head.md
        section 'Damaged stores' mutants ''
        section 'System calls' calls ''
        section 'Power cuts' cuts 'Recorded with Linux 6.12. '
        section 'Forged files' bombs ''
        section Fuzzing fuzz "Each target for ${FUZZ_SECONDS:-0} s. [What the targets are](../../fuzz/README.md).

"
    } >"$page"
fi
exit "$status"
