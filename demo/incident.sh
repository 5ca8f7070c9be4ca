#!/usr/bin/env bash
# Plays the incident of docs/tutorial.md: a small database is alone for 40 s, a backup writes beside it for 30 s, then it is alone again.
#
#   demo/incident.sh --prepare DIR     makes the files of the database in a directory of the file system to play it on; needs 350 MB there
#   demo/incident.sh DIR               plays it; needs fio
#
# The database reads as the user www-data and the backup writes as the user backup, by their numbers on Debian.
set -euo pipefail

prepare() {
    mkdir -p "$dir/db" "$dir/backup"
    head -c 64M /dev/urandom >"$dir/db/orders.db"
    chown -R 33:33 "$dir/db"
    chown -R 34:34 "$dir/backup"
    sync "$dir/db/orders.db"
}

what=play
if [ "$1" = --prepare ]; then
    what=prepare
    shift
fi
dir=$(realpath "$1")
[ "$(id -u)" -eq 0 ] || { echo "error: run this as root: it works as two users" >&2; exit 1; }
if [ "$what" = prepare ]; then
    prepare
    exit
fi
fio=$(command -v fio) || { echo "error: fio is missing: apt install fio" >&2; exit 1; }

# The kernel names a process by the file that was executed.
names=$(mktemp -d)
trap 'rm -rf "$names"' EXIT
chmod 755 "$names"
ln -s "$fio" "$names/orders-db"
ln -s "$fio" "$names/nightly-backup"

# as UID PROGRAM FILE ARGUMENT...
as() {
    local uid=$1 program=$2 file=$3
    shift 3
    (cd "$dir" && exec setpriv --reuid="$uid" --regid="$uid" --clear-groups "$names/$program" --name="$program" --filename="$file" \
        --ioengine=psync --time_based "$@" >/dev/null)
}

say() { echo "$(date +%T) $*"; }

say "the shop opens: its database reads 200 blocks a second"
as 33 orders-db db/orders.db --rw=randread --bs=4k --size=64m --direct=1 --rate_iops=200 --runtime=95 &
sleep 40
say "the nightly backup begins"
as 34 nightly-backup backup/nightly.tar --rw=write --bs=1m --size=256m --fsync=256 --runtime=30
say "the nightly backup ends"
wait
say "the shop closes"
