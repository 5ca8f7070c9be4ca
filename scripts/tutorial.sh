#!/usr/bin/env bash
# Runs each command of docs/tutorial.md beside a real incident, and puts its output into the page.
#
#   tutorial.sh [native|nfs]             native: an ext4 on a loop device of this machine; nfs: real NFS in an emulated machine
#   tutorial.sh --check [native|nfs]     changes nothing; fails if an exit status, the culprit or the victim is another one
#
# TRACKIOPS_BIN=path    the program; default: what scripts/release.sh builds
# TRACKIOPS_VM=path     the program behind `cargo vm`; default: what cargo builds
#
# scripts/tutorial.py describes how the page says what to run.
set -euo pipefail
cd "$(dirname "$0")/.."

die() {
    echo "error: $*" >&2
    exit 1
}

kind=native check=()
for word in "$@"; do
    case $word in
    native | nfs) kind=$word ;;
    --check) check=(--check) ;;
    *) die "unknown argument: $word" ;;
    esac
done

bin=$(realpath "${TRACKIOPS_BIN:-$(scripts/release.sh)}")
page=docs/tutorial.md
scratch=$(mktemp -d)

native() {
    [ "$(id -u)" -eq 0 ] || die "run this as root: recording needs it"
    "$bin" doctor --json | grep -q '"block":{"ok":true' || die "devices cannot be recorded here: see trackiops doctor"
    for path in /mnt/tutorial /var/tmp/tutorial; do
        [ ! -e "$path" ] || die "$path exists: the page makes and removes it"
    done
    command -v fio >/dev/null || scripts/install.sh fio
    "$bin" status >/dev/null 2>&1 || [ $? -eq 2 ] || die "a recorder runs here already, at the socket that the page uses: stop it first"
    ln -s "$bin" "$scratch/trackiops"
    trap clean EXIT
    PATH=$scratch:$PATH scripts/tutorial.py native "$page" "${check[@]}"
}

nfs() {
    local vm=(cargo vm) add=(--add "$page" --add scripts/tutorial.py --add demo)
    [ -z "${TRACKIOPS_VM:-}" ] || vm=("$TRACKIOPS_VM")
    cat >"$scratch/guest.sh" <<'GUEST'
set -euo pipefail
umount /mnt/nfs
mkdir /mnt/tutorial
mount -t nfs -o vers=4.2 127.0.0.1:/exp /mnt/tutorial
# Emulated CPUs are many times slower: without this the recorder would leave out single requests.
export TRACKIOPS_RECORD_MAX_OVERHEAD=100%
trap 'cp -r tutorial.md /var/tmp/tutorial/store "$OUT"' EXIT
python3 tutorial.py nfs tutorial.md "$@"
GUEST
    local kept=target/tutorial/nfs
    rm -rf "$kept"
    mkdir -p "$kept"
    TRACKIOPS_BIN=$bin "${vm[@]}" run --kernel 6.12 --timeout 900 --out "$kept" "${add[@]}" "$scratch/guest.sh" "${check[@]}"
    [ ${#check[@]} -gt 0 ] || cp "$kept/tutorial.md" "$page"
}

# The page removes all of it, unless a command fails.
clean() {
    ! mountpoint -q /mnt/tutorial || umount -l /mnt/tutorial
    if [ -d /var/tmp/tutorial/store ]; then
        rm -rf target/tutorial/native
        mkdir -p target/tutorial/native
        mv /var/tmp/tutorial/store target/tutorial/native/
        echo "tutorial: what was recorded is in target/tutorial/native/store" >&2
    fi
    rm -rf --one-file-system /var/tmp/tutorial
    rmdir /mnt/tutorial 2>/dev/null || true
    rm -rf "$scratch"
}

trap 'rm -rf "$scratch"' EXIT
"$kind"
