# Sourced by storm.sh, which has the kinds of file systems on disks in $LOCAL: file systems, the load of the storm, and concurrent
# disturbances.

declare -A devices
loads=()

# jobs NAME DIRECTORY MIB: ten threads of fio, two for each kind of I/O, each with a file of this size.
jobs() {
    local direct=1 file
    # fio would first fill files that are too short, which takes minutes on slow file systems. Sparse files are long enough.
    for file in {buffered,direct,mapped,aio}.{0,1} uring.0 uring-buffered.0; do truncate -s "$3M" "$2/$1-$file.0"; done
    # tmpfs refuses O_DIRECT before Linux 6.6.
    dd if=/dev/zero of="$2/probe" bs=4k count=1 oflag=direct status=none 2>/dev/null || direct=0
    job "$1-buffered" directory="$2" ioengine=psync numjobs=2 bsrange=1k-32k
    job "$1-direct" directory="$2" ioengine=psync numjobs=2 direct=$direct
    job "$1-mapped" directory="$2" ioengine=mmap numjobs=2
    job "$1-uring" directory="$2" ioengine=io_uring iodepth=8 direct=$direct
    job "$1-uring-buffered" directory="$2" ioengine=io_uring iodepth=8
    job "$1-aio" directory="$2" ioengine=libaio iodepth=8 numjobs=2 direct=$direct
}

# stream NAME DIRECTORY: a thread that reads a sparse file larger than memory, so that every page becomes a page of the cache in turn.
stream() {
    truncate -s 3000M "$2/sparse"
    job "$1-stream" directory="$2" ioengine=psync rw=read bs=256k filename=sparse size=3000m
}

job() {
    echo "[$1]"
    printf '%s\n' "${@:2}"
}

# run_jobs NAME SECONDS MIB: jobs from standard input. The load is nice, so that recorders get a share of the processors.
run_jobs() {
    local common=(thread time_based runtime="$2" size="$3m" rw=randrw bsrange=4k-32k fallocate=none fsync=64 group_reporting)
    { job global "${common[@]}"; cat; } | nice -n 19 fio --output-format=json --output="$OUT/fio.$1" -
}

load_local() {
    local kind
    for kind in "${LOCAL[@]}" tmpfs overlay; do jobs "$kind" "/mnt/$kind" 4; done >/run/jobs
    for kind in "${LOCAL[@]}"; do stream "$kind" "/mnt/$kind"; done >>/run/jobs
    stream again /mnt/ext4 >>/run/jobs
    run_jobs local "$1" 4 </run/jobs &
    loads+=($!)
    nice -n 19 python3 /work/churn.py "$1" "${LOCAL[@]/#//mnt/}" /mnt/{tmpfs,overlay} >"$OUT/churn" &
    loads+=($!)
}

load_nfs() {
    jobs nfs /mnt/nfs 2 | run_jobs "nfs.$1" "$2" 2
}

make_ext4() { mkfs.ext4 -q -F -E lazy_itable_init=0,lazy_journal_init=0 "$1"; }
make_btrfs() { mkfs.btrfs -q -f "$1"; }
# Linux before 5.19 does not support XFS's defaults.
make_xfs() { mkfs.xfs -q -f -i nrext64=0 "$1"; }

# disks: pieces of the disk as devices, which $devices lists by name, and file systems on them.
# After a failure of the emulator and the guest, they may have old ones.
disks() {
    local at=1 piece name size direct
    modprobe -a loop "${LOCAL[@]}" overlay vfat
    for piece in ext4:512 xfs:512 btrfs:768 stores:1024 vfat:64 swap:512; do
        name=${piece%:*} size=${piece#*:}
        # Through the page cache, swapping out a page would need memory for another page.
        [ "$name" = swap ] && direct=on || direct=off
        devices[$name]=$(losetup --find --show --direct-io=$direct --offset $((at << 20)) --sizelimit $((size << 20)) /dev/vdd)
        mkdir -p "/mnt/$name"
        at=$((at + size))
    done
    for name in "${LOCAL[@]}"; do "make_$name" "${devices[$name]}"; done
    mkfs.ext4 -q -F "${devices[stores]}"
    mkfs.vfat "${devices[vfat]}" >/dev/null
    mkswap "${devices[swap]}" >/dev/null
    swapon "${devices[swap]}"
    for name in "${LOCAL[@]}" stores; do mount "${devices[$name]}" "/mnt/$name"; done
    mkdir -p /mnt/ext4/{upper,work} /mnt/{overlay,tmpfs}
    mount -t overlay -o lowerdir=/usr/share,upperdir=/mnt/ext4/upper,workdir=/mnt/ext4/work overlay /mnt/overlay
    mount -t tmpfs -o size=256m,huge=within_size tmpfs /mnt/tmpfs
    mount -o remount,size=160m /exp
}

# Each loop continues until it is killed, and counts its rounds.
offline_and_online() {
    while sleep 4; do
        if echo 0 >/sys/devices/system/cpu/cpu1/online; then count offline; fi
        sleep 1
        echo 1 >/sys/devices/system/cpu/cpu1/online
    done
}

unload_and_load() {
    while sleep 4; do
        modprobe vfat
        mount "${devices[vfat]}" /mnt/vfat
        cp /bin/bash "/mnt/vfat/$((RANDOM % 16))"
        cat /mnt/vfat/* >/dev/null
        umount /mnt/vfat
        modprobe -r vfat
        count vfat
    done
}

# Moves pages, and frees inodes and names of files.
compact_and_shrink() {
    while sleep 8; do
        echo 1 >/proc/sys/vm/compact_memory
        echo 2 >/proc/sys/vm/drop_caches
    done
}
