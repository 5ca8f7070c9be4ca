#!/usr/bin/env bash
# Records a real mixed workload on real NFS in an emulated machine, brings the store out, and asks it
# questions on this machine.
set -euo pipefail
cd "$(dirname "$0")/.."

show() {
    printf '\n\033[1m$ trackiops %s\033[0m\n' "$*" | { [ -t 1 ] && cat || sed 's/\x1b\[[0-9;]*m//g'; }
    "$trackiops" "$@"
}

out=${1:-demo/out}
rm -rf "$out"
echo "==> building trackiops, then recording in a guest (the first run fetches a kernel and a small Debian root)"
trackiops=$(scripts/release.sh)
cargo vm run --kernel 6.12 --out "$out" demo/workload.sh

echo
echo "==> the store, as it came out of the guest: $out/store"
find "$out/store" -type f -printf '%8s  %P\n' | sort -k2 | sed -n 1,8p
echo "    ... $(find "$out/store" -name '*.parquet' | wc -l) Parquet files and a catalog, $(du -sh "$out/store" | cut -f1) in all"
echo
echo "==> which files moved the most?"
show query --store "$out/store" --top 5
echo
echo "==> what happened to the database when the backup began?"
show query --store "$out/store" --file /mnt/nfs/db/orders.db --step 1s
echo
echo "==> where did its requests spend their time?"
show query --store "$out/store" --file /mnt/nfs/db/orders.db --step all --parts
echo
echo "==> which directories moved the most?"
show query --store "$out/store" --by dir
show flamegraph --store "$out/store" --output "$out/nfs.svg"
echo "    $out/nfs.svg is for a browser"
echo
echo "==> what was the server asked to do?"
show query --store "$out/store" --by op
