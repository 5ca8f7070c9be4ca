#!/usr/bin/env bash
# Records a real mixed workload, then queries it: natively on an ext4 in a loop device, or on real NFS in an emulated machine.
#
#   demo.sh native [DIR]    the store goes to DIR/store; the default is demo/out
#   demo.sh nfs [DIR]
#
# If block devices cannot be recorded natively, it says why and uses the emulated machine.
#
# TRACKIOPS_BIN=path    the program; default: what scripts/release.sh builds
set -euo pipefail
cd "$(dirname "$0")/.."

ask() {
    printf '\n==> %s\n' "$1"
    shift
    printf '\n\033[1m$ trackiops %s\033[0m\n' "$*" | { [ -t 1 ] && cat || sed 's/\x1b\[[0-9;]*m//g'; }
    "$trackiops" "$@"
}

# Makes the file system and mounts it at $own; or fails and prints why.
prepare() {
    "$trackiops" doctor --json | grep -q '"block":{"ok":true' || { "$trackiops" doctor | grep -m1 -i 'block'; return 1; }
    command -v fio >/dev/null || scripts/install.sh fio
    truncate -s 400M "$out/disk" && mkfs.ext4 -q -E lazy_itable_init=0 "$out/disk" && mount -o loop "$out/disk" "$own"
}

clean() {
    ! mountpoint -q "$own" || umount "$own"
    rmdir "$own"
    rm -rf "$out/disk" "$bin"
}

kind=$1 out=${2:-demo/out}
rm -rf "$out"
mkdir -p "$out"
out=$(realpath --relative-to=. "$out")
[ -n "${TRACKIOPS_BIN:-}" ] || echo "==> building trackiops"
trackiops=$(realpath "${TRACKIOPS_BIN:-$(scripts/release.sh)}")
if [ "$kind" = native ]; then
    own=$(mktemp -d /tmp/demo.XXXX) bin=$(mktemp -d)
    dir=$own
    ln -s "$trackiops" "$bin/trackiops"
    trap clean EXIT
    if why=$(prepare 2>&1); then
        echo "==> recording an ext4 of its own on a loop device, natively on this machine"
        PATH=$bin:$PATH DIR=$dir OUT=$PWD/$out RECORD="--levels block --mount $dir" bash demo/workload.sh
    else
        echo "==> natively it cannot be recorded here: $why"
        kind=nfs
    fi
fi
if [ "$kind" = nfs ]; then
    dir=/mnt/nfs
    echo "==> recording NFS in an emulated machine (the first run fetches a kernel and a small Debian root)"
    scripts/setup.sh
    TRACKIOPS_BIN=$trackiops cargo vm run --kernel 6.12 --out "$out" demo/workload.sh
fi

printf '\n==> the store: %s\n' "$out/store"
find "$out/store" -type f -printf '%8s  %P\n' | sort -k2 | sed -n 1,8p
echo "    ... $(find "$out/store" -name '*.parquet' | wc -l) Parquet files and a catalog, $(du -sh "$out/store" | cut -f1) in all"
ask "which files moved the most?" query --store "$out/store" --top 5
ask "what happened to the database when the backup began?" query --store "$out/store" --file "$dir/db/orders.db" --step 1s
ask "where did its requests spend their time?" query --store "$out/store" --file "$dir/db/orders.db" --step all --parts
ask "which directories moved the most?" query --store "$out/store" --by dir
ask "the same as a picture" flamegraph --store "$out/store" --output "$out/files.svg"
echo "    $out/files.svg is for a browser"
ask "which single requests were the slowest?" requests --store "$out/store" --top 3
if [ "$kind" = nfs ]; then
    ask "what was the server asked to do?" query --store "$out/store" --by op
fi
