# Requests of every kind to a loop device with ext4, beside NFS; and refused options.
. /work/lib.sh

[ -e /sys/fs/cgroup/cgroup.controllers ] || mount -t cgroup2 cgroup2 /sys/fs/cgroup
modprobe -a loop ext4 xfs btrfs 2>/dev/null || true
declare -A devices
for kind in ext4 xfs btrfs; do
    truncate -s 320M "/var/tmp/$kind"
    # Linux before 5.19 does not support XFS's defaults.
    features=()
    [ $kind != xfs ] || features=(-i nrext64=0)
    mkfs.$kind -q "${features[@]}" "/var/tmp/$kind"
    devices[$kind]=$(losetup --find --show "/var/tmp/$kind")
    echo 64 >"/sys/block/${devices[$kind]##*/}/queue/max_sectors_kb"
    mkdir -p "/mnt/$kind"
    options=defaults
    [ $kind != ext4 ] || options=noinit_itable
    mount -t $kind -o $options "${devices[$kind]}" "/mnt/$kind"
    echo "${devices[$kind]}" >"$OUT/device.$kind"
done
# short_files DIRECTORY: makes files that live for milliseconds, one after the other.
short_files() {
    mkdir "$1"
    python3 -c 'import os, sys
for number in range(50):
    path = f"{sys.argv[1]}/{number}"
    file = os.open(path, os.O_CREAT | os.O_RDWR)
    os.write(file, bytes(1000 + number))
    os.fsync(file)
    os.close(file)
    os.unlink(path)' "$1"
}
# File systems write their logs at any time, but not while they are frozen.
frozen() {
    for kind in ext4 xfs btrfs; do fsfreeze "$1" "/mnt/$kind"; done
}

# statistics WHEN
statistics() {
    for kind in ext4 xfs btrfs; do
        cat "/sys/block/${devices[$kind]##*/}/stat" >"$OUT/stat.$kind.$1"
    done
}

sync
frozen --freeze
sleep 2
start_recorder --levels wire,block,cache --requests --granularity 1s,1m
statistics before
frozen --unfreeze
for kind in ext4 xfs btrfs; do
    bash /work/block_io.sh "/mnt/$kind" >"$OUT/local.$kind"
done
echo over NFS >/mnt/nfs/on_the_wire
sync
frozen --freeze
sleep 1
statistics after
sleep 1
stop_recorder INT
for kind in ext4 xfs btrfs; do
    python3 /work/resident.py "/mnt/$kind"/* >"$OUT/resident.$kind"
done
frozen --unfreeze
keep_store

expect pid trackiops record --store /var/tmp/refused --levels block --pid 1 --duration 1s
expect uid trackiops record --store /var/tmp/refused --levels block --uid 1 --duration 1s
STORE=/var/tmp/only
start_recorder --levels block --file /mnt/ext4/wpsync.0.0
echo 3 >/proc/sys/vm/drop_caches
cat /mnt/ext4/w* >/dev/null
stop_recorder INT
expect only_rows trackiops query --store /var/tmp/only --json

# Calls of applications, on file systems with a device and without one. Their functions are at random addresses, as elsewhere.
echo 2 >/proc/sys/kernel/randomize_va_space
STORE=/var/tmp/calls
mkdir -p /mnt/{tmpfs,overlay} /mnt/ext4/{upper,work}
mount -t tmpfs tmpfs /mnt/tmpfs
mount -t overlay -o lowerdir=/usr/share,upperdir=/mnt/ext4/upper,workdir=/mnt/ext4/work overlay /mnt/overlay
functions=()
library=$(ldd "$(command -v python3)" | grep -o '/[^ ]*/libc[.]so[.]6')
# Since Linux 5.15.
[[ $(uname -r) == 5.10* ]] || functions=(--user "$library:fsync")
start_recorder --levels wire,app,block --requests --granularity 1s,1m "${functions[@]}"
for kind in ext4 xfs btrfs tmpfs overlay; do
    mkdir -p "/mnt/$kind/calls"
    python3 /work/local_calls.py "/mnt/$kind/calls" >"$OUT/calls.$kind"
done
# Each of them may get the inode of the previous one.
mkdir /mnt/ext4/exported /mnt/back
exportfs -o rw,no_root_squash,insecure,fsid=3 '*:/mnt/ext4/exported'
mount -t nfs -o vers=4.2 127.0.0.1:/mnt/ext4/exported /mnt/back
for kind in ext4 xfs back; do
    short_files "/mnt/$kind/short"
done
for engine in libaio io_uring; do
    fio --name=$engine --ioengine=$engine --directory=/mnt/ext4/calls --rw=write --bs=4k --size=1m --iodepth=16 \
        --direct=1 --fallocate=none --output=/dev/null
done
umount /mnt/back
exportfs -u '*:/mnt/ext4/exported'
dd if=/dev/zero of=/mnt/nfs/called bs=64k count=8 oflag=direct 2>/dev/null
dd if=/mnt/nfs/called of=/dev/null bs=64k iflag=direct 2>/dev/null
dd if=/dev/zero of=/mnt/nfs/called_back bs=4k count=64 conv=fsync 2>/dev/null
stop_recorder INT
cp "$OUT/record.err" "$OUT/calls.err"
mkdir "$OUT/calls"
cp -a "$STORE/." "$OUT/calls/"

# Without calls, requests alone show the names of files.
STORE=/var/tmp/reused
start_recorder --levels block
for kind in ext4 xfs; do short_files "/mnt/$kind/reused"; done
stop_recorder INT
mkdir "$OUT/reused"
cp -a "$STORE/." "$OUT/reused/"

# Filters for some files, and the requests that they cause.
# Write earlier data back first.
sync
STORE=/var/tmp/chosen
mkdir -p /mnt/ext4/chosen/below /mnt/ext4/beside
start_recorder --levels app,block --requests --app-latency --dir /mnt/ext4/chosen --file /mnt/xfs/calls/plain
for file in /mnt/ext4/chosen/below/inside /mnt/ext4/chosen/inside /mnt/ext4/beside/outside /mnt/xfs/calls/plain /mnt/xfs/outside; do
    dd if=/dev/zero of=$file bs=4k count=8 oflag=direct conv=fsync,notrunc 2>/dev/null
done
# One call writes to two files, and only one of them counts.
python3 -c 'import os
os.sendfile(os.open("/mnt/ext4/beside/outside", os.O_WRONLY), os.open("/mnt/ext4/chosen/inside", os.O_RDONLY), 0, 8192)'
stop_recorder INT
cp "$OUT/record.err" "$OUT/chosen.err"
mkdir "$OUT/chosen"
cp -a "$STORE/." "$OUT/chosen/"
