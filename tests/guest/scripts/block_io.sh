#!/usr/bin/env bash
# block_io.sh DIRECTORY: reads and writes of every kind; each byte of a file `w*` is written once. Prints these files and their sizes.
set -euo pipefail
cd "$1"

run() {
    fio --thread --directory=. --output=/dev/null --fallocate=none "$@"
}

# Requests of `wlarge` are larger than one of the device. Some file systems write the file `mapped` before it is mapped.
run --name=wbuffered --rw=write --bs=64k --size=2m --fsync=8 --end_fsync=1 --numjobs=2 \
    --name=wdirect --stonewall --rw=randwrite --bs=4k --size=256k --direct=1 --ioengine=io_uring --iodepth=8 --numjobs=16 \
    --name=wpsync --stonewall --rw=write --bs=16k --size=1m --direct=1 --ioengine=psync \
    --name=wlarge --stonewall --rw=write --bs=4m --size=8m --direct=1 --ioengine=psync \
    --name=mapped --stonewall --rw=write --bs=4k --size=512k --ioengine=mmap --end_fsync=1
for n in $(seq 24); do dd if=/dev/urandom of="wsmall$n" bs=4k count=1 conv=fsync status=none; done
# Small files whose pages the file system writes together.
source=$(mktemp)
head -c $((200 * 4096)) /dev/urandom >"$source"
split --bytes=4096 --numeric-suffixes --suffix-length=3 "$source" many
rm "$source"
sync
echo 3 >/proc/sys/vm/drop_caches
run --name=wbuffered --rw=read --bs=64k --size=2m --numjobs=2 \
    --name=wpsync --stonewall --rw=read --bs=128k --size=1m --direct=1 --ioengine=psync
# Discarded.
head -c 1048576 /dev/zero >gone
sync gone
rm gone
sync
fstrim . 2>/dev/null || true
sync
find "$PWD" -name 'w*' -printf '%s\t%p\n'
