# holes.sh MIB: sends a file larger than memory through the page cache, so that every page of memory enters the cache and nearly all are
# evicted.
. /work/lib.sh

modprobe -a loop ext4
mkdir -p /mnt/image /mnt/ext4
mount -t tmpfs image /mnt/image
truncate -s 96M /mnt/image/ext4
mkfs.ext4 -q /mnt/image/ext4
mount -o loop /mnt/image/ext4 /mnt/ext4
truncate -s "$1M" /mnt/ext4/sparse
start_recorder --levels block,cache --granularity 1s
cat /mnt/ext4/sparse >/dev/null
stop_recorder INT
keep_store
