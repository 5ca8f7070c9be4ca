# A disk that takes three seconds to sync, and is normally fast at the end.
. /work/lib.sh

modprobe loop
truncate -s 256M /var/tmp/image
DEVICE=$(losetup -f --show /var/tmp/image)
mkfs.ext4 -q "$DEVICE"
modprobe dm-delay
SECTORS=$(blockdev --getsz "$DEVICE")
# Delays of reads, writes, flushes.
dmsetup create slow --noudevsync --table "0 $SECTORS delay $DEVICE 0 0 $DEVICE 0 0 $DEVICE 0 3000"
mkdir -p /var/tmp/slow
mount -t ext4 /dev/dm-0 /var/tmp/slow
STORE=/var/tmp/slow/store

begin=$(date +%s%N)
dd if=/dev/zero of=/var/tmp/slow/probe bs=4k count=1 conv=fsync 2>/dev/null
echo $((($(date +%s%N) - begin) / 1000000)) >"$OUT/sync_ms"

start_recorder
snapshot before
fio --name=slow --directory=/mnt/nfs --numjobs=4 --size=1m --bs=16k --rw=randrw --direct=1 --ioengine=psync \
    --rate_iops=50 --time_based --runtime=40 >/dev/null
# Age of the newest window that a query sees.
trackiops query --store "$STORE" --step 1s --since 2m --format json >"$OUT/while_slow"
date +%s >"$OUT/asked"
snapshot after
grep VmHWM "/proc/$RECORDER/status" | tr -dc 0-9 >"$OUT/peak_kib"
dmsetup suspend slow
dmsetup load slow --table "0 $SECTORS linear $DEVICE 0"
dmsetup resume slow
stop_recorder
keep_store
